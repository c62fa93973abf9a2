"""Pooling: the maximum or the mean of each window."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from everyo.core.batching import everywhere, front, trailing
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Distinct, Integers, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, describe
from everyo.ops.axes import as_flag
from everyo.ops.creation import as_tensor, ones
from everyo.ops.families import primitive
from everyo.ops.signatures import explained
from everyo.ops.windows import Window, per_axis, require_room, require_spatial

_BLOCK = 1 << 15  # elements at a time

__all__ = ["avg_pool1d", "avg_pool2d", "max_pool1d", "max_pool2d"]


def _max_pool_vjp(g: Any, x: Any, out: Any, window: Window) -> Any:
    winners, number = op.pool_winners(x, out, window=window)
    return op.spread_to_chosen(
        g / number, winners, sizes=tuple(x.shape[-len(window.kernel) :]), window=window
    )


def _max_pool_jvp(t: Any, x: Any, out: Any, window: Window) -> Any:
    winners, number = op.pool_winners(x, out, window=window)
    return op.sum_of_chosen(t, winners, window=window) / number


def _offsets(window: Window) -> Iterator[tuple[int, ...]]:
    return itertools.product(*map(range, window.kernel))


def _elements(xp: Any, x: Any, window: Window) -> Iterator[Any]:
    """Yield for each offset in the window a view of the elements there, of all windows."""
    windows = xp.sliding_windows(x, *window)
    lead = (slice(None),) * (x.ndim - len(window.kernel))
    return (windows[(*lead, *offset)] for offset in _offsets(window))


def _winners_batch(winners: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    found, number = winners(*everywhere(inputs, batched, size), **params)
    return front(found, 1), number


def _parts(shape: tuple[int, ...], rank: int) -> Iterator[slice]:
    """Yield slices of the first axis of positions, for temporaries that stay in the cache."""
    count = shape[-rank]
    step = max(_BLOCK * count // max(math.prod(shape), 1), 1)
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _part(rows: slice, rank: int) -> tuple[Any, ...]:
    return (..., rows, *(slice(None),) * (rank - 1))


@primitive(
    None,
    None,
    missing="its results are discrete",
    samples=lambda: [sample((1, 3), (1, 2), window=Window((2,), (1,), (1,), ((0, 0),)))],
    batch=_winners_batch,
)
def _pool_winners(xp: Any, x: Any, out: Any, *, window: Window) -> Any:
    """Return which elements of each window, first axis, are its maximum (a NaN is), and how many."""
    winners = xp.empty((math.prod(window.kernel), *out.shape), dtype=bool)
    number = xp.zeros(out.shape, dtype="uint8" if winners.shape[0] < 256 else "int64")
    void = out.dtype.kind == "f" and bool(xp.any(out != out))
    for block in (_part(rows, len(window.kernel)) for rows in _parts(out.shape, len(window.kernel))):
        for here, element in zip(winners, _elements(xp, x, window), strict=True):
            xp.equal(element[block], out[block], out=here[block])
            if void:
                here[block] |= (element[block] != element[block]) & (out[block] != out[block])
            number[block] += xp.as_bytes(here[block])
    if number.size and xp.min(number) == xp.max(number) == 1:
        return winners, xp.broadcast_to(xp.ones((), dtype=out.dtype), number.shape)
    return winners, xp.astype(number, out.dtype)


def _choice(*rows: list[bool]) -> Values:
    return Values([[row] for row in rows])


def _spread_batch(spread: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    x, winners = everywhere(inputs, batched, size)
    return spread(x, front(winners, 1), **params)


_LINE = Window((2,), (1,), (1,), ((0, 0),))
_PLANE = Window((2, 1), (2, 1), (1, 2), ((0, 0), (0, 0)))


@primitive(
    (lambda g, winners, window: op.sum_of_chosen(g, winners, window=window), None),
    (
        lambda t, winners, sizes, window: op.spread_to_chosen(t, winners, sizes=sizes, window=window),
        None,
    ),
    missing="the choice is boolean",
    samples=lambda: [
        sample((1, 3), _choice([True, False, True], [True, False, False]), sizes=(4,), window=_LINE),
        sample((1, 3), _choice([True, False, True], [True, False, False]), sizes=(2, 3), window=_PLANE),
        sample((0, 3), Integers((2, 0, 3), 2), sizes=(4,), window=_LINE),
    ],
    batch=_spread_batch,
)
def _spread_to_chosen(xp: Any, x: Any, winners: Any, *, sizes: tuple[int, ...], window: Window) -> Any:
    """Add the value of each window to its chosen elements."""
    lead = x.shape[: x.ndim - len(sizes)]
    single = _only_ones(xp, winners) if x.size >= _BLOCK else None
    if single is not None:
        return _scattered(xp, x, single, sizes, window)
    total = xp.zeros((*lead, *sizes), dtype=x.dtype)
    finite = bool(xp.all(xp.isfinite(x)))
    whole = [slice(0, n) for n in x.shape[len(lead) :]]
    for rows in _parts(x.shape, len(sizes)):
        block = _part(rows, len(sizes))
        for chosen, offset in zip(winners, _offsets(window), strict=True):
            part = x[block] * chosen[block] if finite else xp.where(chosen[block], x[block], 0)
            total[(..., *_places(window, offset, [rows, *whole[1:]]))] += part
    return total


def _only_ones(xp: Any, winners: Any) -> Any | None:
    """Return which element of each window is chosen, if in each of them exactly one is."""
    if winners.dtype.kind != "b" or winners.shape[0] > 255:
        return None
    number, which = (xp.zeros(winners.shape[1:], dtype="uint8") for _ in range(2))
    for i, chosen in enumerate(winners):
        chosen = xp.as_bytes(chosen)
        number += chosen
        which += chosen * xp.uint8(i)
    return which if xp.min(number) == xp.max(number) == 1 else None


def _scattered(xp: Any, x: Any, which: Any, sizes: tuple[int, ...], window: Window) -> Any:
    """Add the value of each window to one of its elements."""
    shape, rank = (*x.shape[: x.ndim - len(sizes)], *sizes), len(sizes)
    steps = [math.prod(shape[i + 1 :]) for i in range(x.ndim)]
    moves = [step * d for step, d in zip(steps[-rank:], window.dilation, strict=True)]
    table = xp.asarray(
        [sum(o * m for o, m in zip(offset, moves, strict=True)) for offset in _offsets(window)]
    )
    strides = (1,) * (x.ndim - rank) + window.stride
    origins = [
        xp.reshape(xp.arange(n) * (step * stride), (n, *(1,) * (x.ndim - 1 - i)))
        for i, (n, step, stride) in enumerate(zip(x.shape, steps, strides, strict=True))
    ]

    def places(rows: slice) -> Any:
        found = table[which[_part(rows, rank)]]
        for i, origin in enumerate(origins):
            found += origin[rows] if i == x.ndim - rank else origin
        return (xp.reshape(found, (-1,)),)

    parts = [*_parts(x.shape, rank)]
    values = (xp.reshape(x[_part(rows, rank)], (-1,)) for rows in parts)
    total = xp.assemble(map(places, parts), values, [True] * len(parts), (math.prod(shape),), x.dtype)
    return xp.reshape(total, shape)


def _places(window: Window, offset: tuple[int, ...], positions: list[slice]) -> list[slice]:
    """Return where the elements at an offset in the windows of these positions stand."""
    axes = zip(offset, window.dilation, window.stride, positions, strict=True)
    return [slice(o * d + s * p.start, o * d + s * (p.stop - 1) + 1, s) for o, d, s, p in axes]


@primitive(
    (
        lambda g, x_shape, winners, window: op.spread_to_chosen(
            g, winners, sizes=tuple(x_shape[-len(window.kernel) :]), window=window
        ),
        None,
    ),
    (lambda t, winners, window: op.sum_of_chosen(t, winners, window=window), None),
    missing="the choice is boolean",
    samples=lambda: [
        sample((1, 4), _choice([True, False, True], [True, False, False]), window=_LINE),
        sample((2, 3), _choice([True, False, True], [True, False, False]), window=_PLANE),
        sample((0, 4), Integers((2, 0, 3), 2), window=_LINE),
    ],
    batch=_spread_batch,
)
def _sum_of_chosen(xp: Any, x: Any, winners: Any, *, window: Window) -> Any:
    """Sum the chosen elements of each window: the transpose."""
    total: Any = xp.zeros(winners.shape[1:], dtype=x.dtype)
    for block in (_part(rows, len(window.kernel)) for rows in _parts(total.shape, len(window.kernel))):
        for chosen, element in zip(winners, _elements(xp, x, window), strict=True):
            total[block] += xp.where(chosen[block], element[block], 0)
    return total


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
    first, *others = _elements(xp, x, window)
    out = xp.array(first, order="C")
    for block in (_part(rows, rank) for rows in _parts(out.shape, rank)):
        for element in others:
            xp.maximum(out[block], element[block], out=out[block])
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


@explained
def max_pool1d(
    x: Any,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """Maximum of each window over the last axis; everything else as in `max_pool2d`.

    The gradient of each result goes to the largest element of its window; equal ones share it equally.

    Parameters
    ----------
    x : tensor
        Shape ``(batch, channels, length)`` or ``(channels, length)``.
    kernel_size : int or a sequence of one
        Size of a window.
    stride : int or a sequence of one, optional
        Step from one window to the next; by default `kernel_size`.
    padding : int or a sequence of one, default 0
        Minus infinities at both ends, at most half of `kernel_size`.
    dilation : int or a sequence of one, default 1
        Distance between the elements of a window.

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


@explained
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


@explained
def avg_pool1d(
    x: Any,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    *,
    count_include_pad: bool = True,
) -> Tensor:
    """Mean of each window over the last axis; everything else as in `avg_pool2d`.

    The gradient of each result is spread evenly over its window.

    Parameters
    ----------
    x : tensor
        Shape ``(batch, channels, length)`` or ``(channels, length)``.
    kernel_size : int or a sequence of one
        Size of a window.
    stride : int or a sequence of one, optional
        Step from one window to the next; by default `kernel_size`.
    padding : int or a sequence of one, default 0
        Zeros at both ends, at most half of `kernel_size`.
    count_include_pad : bool, default True
        Whether those zeros count as elements.

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


@explained
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
