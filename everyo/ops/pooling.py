"""Pooling: the maximum or the mean of each window."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from everyo.core.batching import trailing
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Distinct, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, describe
from everyo.ops.axes import as_flag
from everyo.ops.creation import as_tensor, ones
from everyo.ops.families import primitive
from everyo.ops.windows import Window, per_axis, require_room, require_spatial

__all__ = ["avg_pool1d", "avg_pool2d", "max_pool1d", "max_pool2d"]


def _winners(x: Any, out: Any, window: Window) -> tuple[Any, Any]:
    """Return which elements of each window are its maximum (a NaN is, if there is one) and how many."""
    elements = op.sliding_windows(x, window=window)
    winners = op.logical_or(op.equal(elements, out), op.not_equal(elements, elements))
    return winners, op.sum(op.astype(winners, dtype=out.dtype), axis=(0,), keepdims=False)


def _max_pool_vjp(g: Any, x: Any, out: Any, window: Window) -> Any:
    winners, count = _winners(x, out, window)
    shares = op.where(winners, g / count, 0)
    return op.overlap_add(shares, sizes=tuple(x.shape[-len(window.kernel) :]), window=window)


def _max_pool_jvp(t: Any, x: Any, out: Any, window: Window) -> Any:
    winners, count = _winners(x, out, window)
    moving = op.where(winners, op.sliding_windows(t, window=window), 0)
    return op.sum(moving, axis=(0,), keepdims=False) / count


def _max_pool_samples() -> list[Any]:
    line, plane = ((0, 0),), ((0, 0), (0, 0))
    return [
        sample(Distinct((2, 1, 6)), window=Window((2,), (2,), (1,), line)),
        sample(Distinct((1, 2, 7)), window=Window((3,), (1,), (2,), line)),
        sample(Distinct((2, 2, 4, 5)), window=Window((2, 3), (2, 1), (1, 1), plane)),
        sample(Values([[[1.0, 1.0, 0.0, 2.0, 2.0]]]), window=Window((2,), (1,), (1,), line)),
        sample((0, 1, 2, 2), window=Window((2, 2), (2, 2), (1, 1), plane)),
    ]


def _max_pool_batch(max_pool: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    return trailing(len(params["window"].kernel))(max_pool, inputs, batched, size, params)


# Not op.max of all windows: a running maximum needs no array of the windows and is about twice as fast.
@primitive((_max_pool_vjp,), (_max_pool_jvp,), samples=_max_pool_samples, batch=_max_pool_batch)
def _max_pool(xp: Any, x: Any, *, window: Window) -> Any:
    """Maximum of each window; `window` has no padding. Ties share the cotangent equally."""
    rank = len(window.kernel)
    windows = xp.sliding_windows(x, *window)
    lead = (slice(None),) * (x.ndim - rank)
    elements = (windows[(*lead, *offset)] for offset in itertools.product(*map(range, window.kernel)))
    out = xp.copy(next(elements))
    for element in elements:
        out = xp.maximum(out, element)
    return out


def _checked(
    operation: str,
    rank: int,
    x: Any,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None,
    padding: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
) -> tuple[Tensor, Window]:
    """Return the checked input and window of a pooling function."""
    x = as_tensor(x)
    require_spatial(x, rank, operation)
    kernel = per_axis(kernel_size, rank, 1, "kernel_size", operation)
    steps = kernel if stride is None else per_axis(stride, rank, 1, "stride", operation)
    gaps = per_axis(dilation, rank, 1, "dilation", operation)
    zeros = per_axis(padding, rank, 0, "padding", operation)
    if any(2 * p > k for p, k in zip(zeros, kernel, strict=True)):
        raise ArgumentError(
            "a window could lie in the padding alone",
            operation=operation,
            inputs=describe(x),
            expected="padding of at most half the kernel_size",
            found=f"padding={zeros}, kernel_size={kernel}",
            remedy="use less padding, or pad with eo.pad first",
        )
    window = Window(kernel, steps, gaps, tuple((p, p) for p in zeros))
    require_room(x, window, operation)
    return x, window


def _max_pooled(operation: str, rank: int, x: Any, *arguments: Any) -> Tensor:
    x, window = _checked(operation, rank, x, *arguments)
    if x.dtype.kind not in "iuf":
        raise DTypeError(
            "the elements have no order to take a maximum in",
            operation=operation,
            inputs=describe(x),
            expected="a real dtype",
            found=str(x.dtype),
            remedy="take the maximum of eo.abs(x), or of its real part",
        )
    if any(low for low, _ in window.padding):
        lowest = -math.inf if x.dtype.kind == "f" else x.backend.xp.iinfo(x.dtype).min
        widths = ((0, 0),) * (len(x.shape) - rank) + window.padding
        x = op.pad(x, pad_width=widths, value=lowest)
        window = window._replace(padding=((0, 0),) * rank)
    return apply(_max_pool, (x,), {"window": window})


def _avg_pooled(operation: str, rank: int, x: Any, count_include_pad: bool, *arguments: Any) -> Tensor:
    x, window = _checked(operation, rank, x, *arguments)
    mean = op.mean(op.sliding_windows(x, window=window), axis=(0,), keepdims=False)
    if as_flag(count_include_pad, "count_include_pad", operation) or not any(
        low for low, _ in window.padding
    ):
        return mean
    real = ones(tuple(x.shape[-rank:]), dtype=mean.dtype, device=x.device)
    share = op.mean(op.sliding_windows(real, window=window), axis=(0,), keepdims=False)
    return mean / share


def max_pool1d(
    x: Any,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """Maximum of each window over the last axis; everything else as in `max_pool2d`.

    Parameters
    ----------
    x : tensor
        Shape ``(batch, channels, length)`` or ``(channels, length)``.
    kernel_size, stride, padding, dilation
        See `max_pool2d`.

    Returns
    -------
    Tensor
        Shape ``(batch, channels, positions)``, or without the batch axis.

    Raises
    ------
    ShapeError
        If the window does not fit the input.
    ArgumentError, DTypeError
        If a parameter is out of range or no integer, or the elements have no order.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.max_pool1d(eo.tensor([[1.0, 3.0, 2.0, 0.0]]), 2))
    [[3. 2.]]
    """
    return _max_pooled("max_pool1d", 1, x, kernel_size, stride, padding, dilation)


def max_pool2d(
    x: Any,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """Maximum of each window over the last two axes.

    The gradient of each result goes to the largest element of its window; equal ones share it equally.

    Parameters
    ----------
    x : tensor
        Shape ``(batch, channels, height, width)`` or ``(channels, height, width)``.
    kernel_size : int or a pair
        Size of a window.
    stride : int or a pair, optional
        Step from one window to the next; by default `kernel_size`, so that windows do not overlap.
    padding : int or a pair, default 0
        Minus infinities on both sides of each axis, at most half of `kernel_size`.
    dilation : int or a pair, default 1
        Distance between the elements of a window.

    Returns
    -------
    Tensor
        Shape ``(batch, channels, rows, columns)``, or without the batch axis; along each axis there are
        ``(size + 2*padding - dilation*(kernel_size - 1) - 1) // stride + 1`` positions.

    Raises
    ------
    ShapeError
        If the window does not fit the input.
    ArgumentError, DTypeError
        If a parameter is out of range or no integer, or the elements have no order.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.max_pool2d(eo.tensor([[[1.0, 2.0], [4.0, 3.0]]]), 2))
    [[[4.]]]
    """
    return _max_pooled("max_pool2d", 2, x, kernel_size, stride, padding, dilation)


def avg_pool1d(
    x: Any,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    *,
    count_include_pad: bool = True,
) -> Tensor:
    """Mean of each window over the last axis; everything else as in `avg_pool2d`.

    Parameters
    ----------
    x : tensor
        Shape ``(batch, channels, length)`` or ``(channels, length)``.
    kernel_size, stride, padding, count_include_pad
        See `avg_pool2d`.

    Returns
    -------
    Tensor
        Shape ``(batch, channels, positions)``, or without the batch axis.

    Raises
    ------
    ShapeError
        If the window does not fit the input.
    ArgumentError, DTypeError
        If a parameter is out of range or no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.avg_pool1d(eo.tensor([[1.0, 3.0, 2.0, 0.0]]), 2))
    [[2. 1.]]
    """
    return _avg_pooled("avg_pool1d", 1, x, count_include_pad, kernel_size, stride, padding)


def avg_pool2d(
    x: Any,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    *,
    count_include_pad: bool = True,
) -> Tensor:
    """Mean of each window over the last two axes.

    The gradient of each result is spread evenly over its window.

    Parameters
    ----------
    x : tensor
        Shape ``(batch, channels, height, width)`` or ``(channels, height, width)``.
    kernel_size : int or a pair
        Size of a window.
    stride : int or a pair, optional
        Step from one window to the next; by default `kernel_size`, so that windows do not overlap.
    padding : int or a pair, default 0
        Zeros on both sides of each axis, at most half of `kernel_size`.
    count_include_pad : bool, default True
        Whether those zeros count as elements; if not, the sum of a window is divided by the number of
        its elements that lie in `x`.

    Returns
    -------
    Tensor
        Shape ``(batch, channels, rows, columns)``, or without the batch axis; along each axis there are
        ``(size + 2*padding - kernel_size) // stride + 1`` positions.

    Raises
    ------
    ShapeError
        If the window does not fit the input.
    ArgumentError, DTypeError
        If a parameter is out of range or no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.avg_pool2d(eo.tensor([[[1.0, 2.0], [4.0, 3.0]]]), 2))
    [[[2.5]]]
    """
    return _avg_pooled("avg_pool2d", 2, x, count_include_pad, kernel_size, stride, padding)
