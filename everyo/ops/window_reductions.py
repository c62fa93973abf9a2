"""Windows over any axes: seen as a view, or each reduced to one number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.batching import along
from everyo.core.dispatch import apply
from everyo.core.dtypes import float16, float32
from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, ShapeError, describe
from everyo.ops.axes import as_integer, as_integers, normalize_axes, normalize_axis
from everyo.ops.creation import as_tensor, ones
from everyo.ops.families import linear
from everyo.ops.reductions import inexact, prod
from everyo.ops.scatter_reductions import first_extreme
from everyo.ops.signatures import explained
from everyo.ops.window_products import window_product
from everyo.ops.windows import Window, per_axis, require_room

__all__ = ["reduce_window", "sliding_window_view", "unfold"]


def _order(ndim: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return all axes, those in `axes` last."""
    return (*(i for i in range(ndim) if i not in axes), *axes)


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def _window_view_vjp(g: Any, x_shape: tuple[int, ...], axes: tuple[int, ...], window: Window) -> Any:
    ndim, order = len(x_shape), _order(len(x_shape), axes)
    g = op.transpose(g, axes=(*range(ndim, ndim + len(axes)), *order))
    parts = op.reshape(g, shape=(math.prod(window.kernel), *g.shape[len(axes) :]))
    whole = op.overlap_add(parts, sizes=tuple([x_shape[a] for a in axes]), window=window)
    return op.transpose(whole, axes=_inverse(order))


def _plain(kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]) -> Window:
    return Window(kernel, stride, dilation, ((0, 0),) * len(kernel))


@linear(
    _window_view_vjp,
    samples=lambda: [
        sample((5,), axes=(0,), window=_plain((3,), (1,), (1,))),
        sample((4, 2, 5), axes=(0, 2), window=_plain((2, 3), (2, 1), (1, 2))),
        sample((3, 4), axes=(1, 0), window=_plain((2, 3), (1, 1), (1, 1))),
        sample((0, 3), axes=(1,), window=_plain((2,), (1,), (1,))),
    ],
    batch=along("axes"),
)
def _window_view(xp: Any, x: Any, *, axes: tuple[int, ...], window: Window) -> Any:
    """All windows along some axes, as a view: their positions stand in these axes, their elements last."""
    rank, order = len(axes), _order(x.ndim, axes)
    lead = x.ndim - rank
    view = xp.sliding_windows(xp.permute_dims(x, order), *window)  # (*lead, *kernel, *positions)
    standing = (*range(lead), *range(lead + rank, lead + 2 * rank))
    return xp.permute_dims(view, (*(standing[i] for i in _inverse(order)), *range(lead, lead + rank)))


@explained
def sliding_window_view(
    x: Any, window_shape: int | Sequence[int], axis: int | Sequence[int] | None = None
) -> Tensor:
    """Return all windows along axes: their positions stand in these axes, their elements in new ones, last.

    Nothing is copied. The gradient adds up what the windows share.

    Parameters
    ----------
    x : tensor
        Of any dtype.
    window_shape : int or sequence of int
        The size of the window along each of the axes.
    axis : int or sequence of int, optional
        The axes, all different; by default all of `x`, in order.

    Returns
    -------
    Tensor
        An axis of size ``n`` becomes ``n - size + 1`` positions.

    Raises
    ------
    ShapeError
        If the window is larger than `x`, or has other axes.
    IndexingError, DTypeError
        If there is no such axis, or it or a size is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.sliding_window_view(eo.arange(4), 3))
    [[0 1 2]
     [1 2 3]]
    """
    x = as_tensor(x)
    operation = "sliding_window_view"
    named = range(x.ndim) if axis is None else as_integers(axis, "an axis", operation)
    axes = tuple(normalize_axis(a, x.ndim, operation) for a in named)
    normalize_axes(axes, x.ndim, operation)  # refuses an axis that is named twice
    sizes = as_integers(window_shape, "window_shape", operation)
    if len(sizes) != len(axes):
        raise ShapeError(
            "the window has not one size for each axis",
            operation=operation,
            inputs=describe(x),
            expected=f"{len(axes)} sizes, for the axes {axes}",
            found=str(window_shape),
            remedy="name the axes: axis=...",
        )
    return _viewed(x, axes, sizes, (1,) * len(axes), operation)


def _viewed(
    x: Tensor, axes: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...], operation: str
) -> Tensor:
    for axis, size in zip(axes, sizes):
        if not 0 < size <= x.shape[axis]:
            raise ShapeError(
                "the window does not fit",
                operation=operation,
                inputs=describe(x),
                expected=f"a size from 1 to {x.shape[axis]} along axis {axis}",
                found=str(size),
                remedy="use a smaller window, or pad first",
            )
    window = _plain(sizes, steps, (1,) * len(axes))
    return apply(_window_view, (x,), {"axes": axes, "window": window})


@explained
def unfold(x: Any, axis: int, size: int, step: int) -> Tensor:
    """Return the windows along one axis, each `step` after the last; their elements stand in a new last axis.

    Nothing is copied. The gradient adds up what the windows share.

    Parameters
    ----------
    x : tensor
        Of any dtype.
    axis : int
        Along which axis.
    size, step : int
        Size of a window, and the distance from one to the next.

    Returns
    -------
    Tensor
        The axis of size ``n`` becomes ``(n - size) // step + 1`` positions.

    Raises
    ------
    ShapeError
        If the window is larger than the axis.
    ArgumentError
        If `step` is not positive.
    IndexingError, DTypeError
        If there is no such axis, or it, `size` or `step` is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.unfold(eo.arange(6), 0, 3, 2))
    [[0 1 2]
     [2 3 4]]
    """
    x = as_tensor(x)
    axis = normalize_axis(axis, x.ndim, "unfold")
    size, step = as_integer(size, "size", "unfold"), as_integer(step, "step", "unfold")
    if step < 1:
        raise ArgumentError(
            "the windows do not move on",
            operation="unfold",
            expected="step >= 1",
            found=f"step={step}",
            remedy="use step=1 for neighbouring windows",
        )
    return _viewed(x, (axis,), (size,), (step,), "unfold")


@explained
def reduce_window(
    x: Any,
    reduce: str,
    window_dimensions: int | Sequence[int],
    window_strides: int | Sequence[int] = 1,
    padding: str | Sequence[tuple[int, int]] = "valid",
    *,
    window_dilation: int | Sequence[int] = 1,
) -> Tensor:
    """Reduce each window over all axes to one number, as ``jax.lax.reduce_window`` does.

    The gradient is that of the reduction: extremes that are equal share it equally, products are exact
    to every order where factors are zero.

    Parameters
    ----------
    x : tensor
        Of any shape.
    reduce : {"sum", "prod", "mean", "max", "min"}
        What is made of a window.
    window_dimensions, window_strides, window_dilation : int or sequence of int
        Size of the window, step from one to the next and distance between its elements, for each axis.
    padding : {"valid", "same"} or sequence of pairs, default "valid"
        How much room there is before and after each axis: none, as much as makes ``ceil(n / stride)``
        positions, or pairs of sizes. The padding has no elements: it adds 0 to a sum, is no factor of a
        product, no extreme, and does not count in a mean.

    Returns
    -------
    Tensor
        Of as many axes as `x`.

    Raises
    ------
    ShapeError
        If the window is larger than the padded tensor.
    ArgumentError, DTypeError
        If a parameter is out of range, or no integer; if complex numbers are to be ordered.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([[1.0, 5.0, 2.0], [4.0, 3.0, 6.0]])
    >>> print(eo.reduce_window(x, "max", (1, 2)))
    [[5. 5.]
     [4. 6.]]
    >>> print(eo.reduce_window(x, "sum", (2, 2), padding="same"))
    [[13. 16.  8.]
     [ 7.  9.  6.]]
    """
    x = as_tensor(x)
    reduction = _reduction(x, reduce)
    x = inexact(x) if reduction is _mean else x
    whole = _window(x, window_dimensions, window_strides, window_dilation, padding)
    axes = tuple(i for i, part in enumerate(zip(*whole)) if part != (1, 1, part[2], (0, 0)))
    if not axes:
        return reduction(op.reshape(x, shape=(*x.shape, 1)), _plain((1,), (1,), (1,)))[..., 0]
    order = _order(x.ndim, axes)
    window: Window = Window._make(tuple(values[a] for a in axes) for values in whole)
    turned = op.transpose(x, axes=order)
    require_room(turned, window, "reduce_window")
    return op.transpose(reduction(turned, window), axes=_inverse(order))


def _reduction(x: Tensor, reduce: Any) -> Callable[[Any, Window], Any]:
    if not isinstance(reduce, str) or reduce not in _REDUCTIONS:
        raise ArgumentError(
            "there is no such reduction",
            operation="reduce_window",
            expected='reduce="sum", "prod", "mean", "max" or "min"',
            found=repr(reduce),
            remedy="name one of these",
        )
    if reduce in ("max", "min") and x.dtype.kind == "c":
        raise DTypeError(
            "complex numbers are not ordered",
            operation="reduce_window",
            inputs=describe(x),
            expected="a real dtype",
            found=str(x.dtype),
            remedy="reduce eo.abs(x), or its real part",
        )
    return _REDUCTIONS[reduce]


def _window(x: Tensor, dimensions: Any, strides: Any, dilation: Any, padding: Any) -> Window:
    """Return the checked window over all axes of `x`."""
    named = {"window_dimensions": dimensions, "window_strides": strides, "window_dilation": dilation}
    if not x.ndim:
        return Window((), (), (), ())
    sizes, steps, gaps = (per_axis(v, x.ndim, 1, name, "reduce_window") for name, v in named.items())
    spans = [d * (k - 1) + 1 for k, d in zip(sizes, gaps)]
    kind = padding.lower() if isinstance(padding, str) else None
    if kind == "valid":
        room: Any = ((0, 0),) * x.ndim
    elif kind == "same":
        totals = [max((-(-n // s) - 1) * s + k - n, 0) for n, s, k in zip(x.shape, steps, spans)]
        room = tuple((total // 2, total - total // 2) for total in totals)
    else:
        room = _pairs(x, padding)
    return Window(sizes, steps, gaps, room)


def _pairs(x: Tensor, padding: Any) -> tuple[Any, ...]:
    """Return explicit padding as pairs, one for each axis."""
    pairs: tuple[Any, ...] = ()
    if isinstance(padding, Sequence) and not isinstance(padding, str):
        pairs = tuple(as_integers(pair, "a padding", "reduce_window") for pair in padding)
    if len(pairs) != x.ndim or any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
        raise ArgumentError(
            "the padding does not suit the axes",
            operation="reduce_window",
            inputs=describe(x),
            expected=f'"valid", "same" or {x.ndim} pairs of sizes that are not negative',
            found=repr(padding),
            remedy="give a pair (before, after) for each axis",
        )
    return pairs


# Each gets a tensor and a window over its last axes.


def _elements(x: Any, window: Window, value: Any) -> Any:
    """Return a view of all windows, with `value` for the padding, and their elements in the first axes.

    They come first because NumPy reduces such axes many positions at a time.
    """
    x, window = _padded(x, window, value)
    ndim, rank = x.ndim, len(window.kernel)
    view = op.window_view(x, axes=tuple(range(ndim - rank, ndim)), window=window)
    return op.transpose(view, axes=(*range(ndim, ndim + rank), *range(ndim)))


def _padded(x: Any, window: Window, value: Any) -> tuple[Any, Window]:
    if not any(map(any, window.padding)):
        return x, window
    rank = len(window.kernel)
    widths = (((0, 0),) * (x.ndim - rank)) + window.padding
    return op.pad(x, pad_width=widths, value=value), _plain(*window[:3])


def _first(window: Window) -> tuple[int, ...]:
    """Return the axes of the elements in what `_elements` returns."""
    return tuple(range(len(window.kernel)))


def _sum(x: Any, window: Window) -> Any:
    return op.sum(_elements(x, window, 0), axis=_first(window), keepdims=False)


def _mean(x: Any, window: Window) -> Any:
    if x.dtype == float16:  # its sums would overflow
        return op.astype(_mean(op.astype(x, dtype=float32), window), dtype=float16)
    total = _sum(x, window)
    if not any(map(any, window.padding)):
        return total / math.prod(window.kernel)
    number = _sum(ones(tuple(x.shape[-len(window.kernel) :]), dtype=total.dtype, device=x.device), window)
    return total / op.where(number == 0, math.nan, number)


def _prod(x: Any, window: Window) -> Any:
    if x.dtype.kind in "fc":
        x, window = _padded(x, window, 1)
        return apply(window_product, (x,), {"window": window})
    elements = _elements(x, window, 1)
    rank = len(window.kernel)
    row = op.reshape(elements, shape=(math.prod(elements.shape[:rank]), *elements.shape[rank:]))
    return prod(row, axis=0)


def _max(x: Any, window: Window) -> Any:
    x, window = _padded(x, window, first_extreme(x.backend.xp, x.dtype, -1))
    return op.max_pool(x, window=window)


def _min(x: Any, window: Window) -> Any:
    if x.dtype.kind == "f":
        return -_max(-x, window)
    elements = _elements(x, window, first_extreme(x.backend.xp, x.dtype, 1))
    return op.min(elements, axis=_first(window), keepdims=False)


_REDUCTIONS = {"sum": _sum, "prod": _prod, "mean": _mean, "max": _max, "min": _min}
