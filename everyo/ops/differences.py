"""Differences and integrals of sampled functions: gradient, trapezoid, ediff1d, unwrap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from everyo.core.dtypes import int64
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, ShapeError, describe
from everyo.ops.axes import is_one_of, normalize_axis
from everyo.ops.creation import as_tensor, as_tensors, real_number, weak
from everyo.ops.known import everywhere, is_known
from everyo.ops.neighbours import neighbours
from everyo.ops.reductions import inexact
from everyo.ops.signatures import composed, explained

__all__ = ["ediff1d", "gradient", "trapezoid", "unwrap"]


def _part(x: Any, axis: int, start: int | None, stop: int | None) -> Any:
    return op.getitem(x, index=(*(slice(None),) * axis, slice(start, stop)))


def _along(v: Any, axis: int, ndim: int) -> Any:
    """Return a vector with axes of length 1 around its own, to go along one of `ndim` axes."""
    return op.reshape(v, shape=(*(1,) * axis, v.shape[0], *(1,) * (ndim - axis - 1)))


def _distances(points: Tensor, axis: int, values: Tensor) -> Any:
    """Return the distances of points in the dtype of points beside values; integers do not overflow."""
    if points.dtype.kind not in "iu":
        return neighbours(points, axis)
    dtype = points.backend.xp.result_type(points.dtype, values.dtype)
    return op.astype(neighbours(op.astype(points, dtype=int64), axis), dtype=dtype)


@explained
def gradient(
    x: Any, /, *spacing: Any, axis: int | Sequence[int] | None = None, edge_order: int = 1
) -> Tensor | tuple[Tensor, ...]:
    """Slopes of a sampled function along axes: second-order differences inside, one-sided ones at the ends.

    This estimates the derivative of the function that the elements of `x` are values of; it has nothing to
    do with `grad`. It is linear in `x`, so its own gradient is the transpose of that; the spacing has a
    gradient too.

    Parameters
    ----------
    x : tensor
        Values at the points of a grid; integers are computed in float64.
    *spacing : number or tensor
        Nothing for distance 1; one number for all axes; or for each axis a number or the coordinates of
        its points, which need not be evenly spaced.
    axis : int or sequence of int, optional
        Along which axes; all by default.
    edge_order : {1, 2}, default 1
        Of the differences at the two ends.

    Returns
    -------
    Tensor or tuple of Tensor
        Of the shape of `x`; one for each axis unless that is one.

    Raises
    ------
    ArgumentError
        If there are not as many spacings as axes, or no such `edge_order`.
    ShapeError
        If an axis is shorter than ``edge_order + 1``, or coordinates have another length.
    IndexingError
        If there is no such axis.
    DTypeError
        If something is not numeric, or an axis is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.gradient(eo.tensor([1.0, 2.0, 4.0, 7.0])))
    [1.  1.5 2.5 3. ]
    >>> print(eo.gradient(eo.tensor([0.0, 4.0, 16.0]), 2.0, edge_order=2))
    [0. 4. 8.]
    """
    if spacing:
        x = as_tensors((x, *spacing), "gradient")[0]
    x = inexact(x)
    axes = list(range(x.ndim)) if axis is None else [axis] if not isinstance(axis, Sequence) else list(axis)
    axes = [normalize_axis(a, x.ndim, "gradient") for a in axes]
    if not is_one_of(edge_order, (1, 2)):
        raise ArgumentError(
            "there is no such order at the ends",
            operation="gradient",
            expected="edge_order=1 or 2",
            found=repr(edge_order),
        )
    steps: Sequence[Any] = spacing or (1.0,)
    if len(steps) == 1 and (len(axes) != 1 or not spacing) and not as_tensor(steps[0]).ndim:
        steps = list(steps) * len(axes)
    if len(steps) != len(axes):
        raise ArgumentError(
            "the spacings do not fit the axes",
            operation="gradient",
            inputs=describe(x),
            expected=f"none, one number, or {len(axes)}",
            found=str(len(spacing)),
        )
    slopes = tuple(_slope(x, weak(h, [x], "gradient"), a, edge_order) for h, a in zip(steps, axes))
    return slopes[0] if len(slopes) == 1 else slopes


def _slope(x: Tensor, h: Tensor, axis: int, edge_order: int) -> Tensor:
    n = x.shape[axis]
    if n <= edge_order or (h.ndim and tuple(h.shape) != (n,)):
        raise ShapeError(
            "the axis is too short" if n <= edge_order else "the coordinates do not fit the axis",
            operation="gradient",
            inputs=describe(x, h),
            expected=f"at least {edge_order + 1} points along axis {axis}, and a coordinate for each",
            found=f"{n} points, spacing of shape {tuple(h.shape)}",
            remedy="use edge_order=1, or more points",
        )
    d = _distances(h, 0, x) if h.ndim else h
    if h.ndim and is_known(h) and h.grad_node is None and everywhere(op.equal(d.data, d.data[:1])):
        d = op.getitem(d, index=(0,))  # evenly spaced
    if d.ndim:  # shares of distances stay in the range, where products of distances do not
        left, right = (_along(_part(d, 0, i, n - 2 + i), axis, x.ndim) for i in range(2))
        both = left + right
        at_start = at_end = neighbours(x, axis) / _along(d, axis, x.ndim)
        inner = _part(at_start, axis, None, -1) * (right / both) + _part(at_start, axis, 1, None) * (
            left / both
        )
    else:
        before, after = _part(x, axis, None, -2), _part(x, axis, 2, None)
        inner = (after - before) / d / 2 if d.dtype.kind in "iu" else (after - before) / (d * 2)
        at_start, at_end = (neighbours(_part(x, axis, *some), axis) / d for some in ((None, 3), (-3, None)))
    ends = (_end(at_start, d, axis, edge_order, 1), _end(at_end, d, axis, edge_order, -1))
    return op.concat(ends[0], inner, ends[1], axis=axis)


def _end(rises: Tensor, d: Any, axis: int, edge_order: int, side: int) -> Tensor:
    """Return the slope at the first point (side 1) or the last (side -1), from those beside it."""
    lead = (slice(None),) * axis

    def at(v: Any, i: int, lead: Any = lead) -> Any:
        i = i if side == 1 else -1 - i
        return op.getitem(v, index=(*lead, slice(i, i + 1 or None)))

    if edge_order == 1:
        return at(rises, 0)
    share: Any = 0.5
    if d.ndim:
        near, far = (_along(at(d, i, ()), axis, rises.ndim) for i in range(2))
        share = near / (near + far)
    return at(rises, 0) * (1 + share) - at(rises, 1) * share


@composed
def trapezoid(y: Any, /, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """Integral of a sampled function along an axis by the trapezoidal rule.

    ``sum(dx * (y[i] + y[i + 1]) / 2)``; values, points and spacing have a gradient: that of ``y[i]`` is
    ``(x[i + 1] - x[i - 1]) / 2`` inside, and half the outermost distance at an end.

    Parameters
    ----------
    y : tensor
        Values, at least 1-d; integers are computed in float64.
    x : tensor, optional
        Where they are: of the shape of `y`, or a vector along the axis.
    dx : number or tensor, default 1.0
        The distance between them where `x` is not given.
    axis : int, default -1
        The axis to go along.

    Returns
    -------
    Tensor
        The shape of `y` without the axis; where `dx` is a tensor, broadcast with its shape.

    Raises
    ------
    ShapeError
        If `x` does not fit.
    IndexingError
        If there is no such axis.
    DTypeError
        If something is not numeric, or the axis is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.trapezoid(eo.tensor([1.0, 2.0, 3.0]), x=[4.0, 6.0, 8.0]).item()
    8.0
    """
    if x is not None:
        y, x = as_tensors((y, x), "trapezoid")
    y = inexact(y)
    axis = normalize_axis(axis, y.ndim, "trapezoid")
    if x is None:
        few = y.shape[axis] < 2
        total = op.sum(_part(y, axis, 1, 1 if few else -1), axis=(axis,), keepdims=False)
        if not few:
            first, last = (op.getitem(y, index=(*(slice(None),) * axis, i)) for i in (0, -1))
            total = total + (first + last) / 2
        return total * weak(dx, [y], "trapezoid")
    points = weak(x, [y], "trapezoid")
    one = points.ndim == 1
    if (not one and points.ndim != y.ndim) or points.shape[0 if one else axis] != y.shape[axis]:
        raise ShapeError(
            "there must be a point for each value",
            operation="trapezoid",
            inputs=describe(y, points),
            expected=f"shape {tuple(y.shape)}, or a vector of {y.shape[axis]}",
            found=str(tuple(points.shape)),
            remedy="pass the points that the values belong to, or dx",
        )
    width = _along(_distances(points, 0, y), axis, y.ndim) if one else _distances(points, axis, y)
    pairs = (_part(y, axis, 1, None) + _part(y, axis, None, -1)) * width
    return op.sum(pairs, axis=(axis,), keepdims=False) / 2


@explained
def ediff1d(x: Any, /, to_end: Any = None, to_begin: Any = None) -> Tensor:
    """Differences of neighbours in the flattened tensor, and before and after them what is given.

    The gradient is that of `diff`; what is given gets its own part.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.
    to_end : tensor, array or number, optional
        What follows the differences, flattened.
    to_begin : tensor, array or number, optional
        What comes before them, flattened.

    Returns
    -------
    Tensor
        1-d, of the common dtype; for n elements n - 1 differences and what was given.

    Raises
    ------
    DTypeError
        If something is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.ediff1d(eo.tensor([1.0, 4.0, 9.0]), to_begin=0.0))
    [0. 3. 5.]
    """
    x = as_tensor(x)
    parts = [neighbours(op.reshape(x, shape=(math.prod(x.shape),)), 0)]
    for place, extra in ((0, to_begin), (2, to_end)):
        if extra is not None:
            extra = weak(extra, [x], "ediff1d")
            parts.insert(place, op.reshape(extra, shape=(math.prod(extra.shape),)))
    return op.concat(*parts, axis=0) if len(parts) > 1 else parts[0]


@composed
def unwrap(x: Any, /, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi) -> Tensor:
    """Return angles without jumps: neighbours that differ by more than half a period are moved by periods.

    The derivative with respect to `x` is 1: what is added is a multiple of the period.

    Parameters
    ----------
    x : tensor
        Real, at least 1-d; integers are computed in float64.
    discont : number, optional
        Differences up to this stay; half a period by default, and at least.
    axis : int, default -1
        The axis to go along.
    period : number, default 2 pi
        The period.

    Returns
    -------
    Tensor
        Of the shape of `x`; floats keep their dtype.

    Raises
    ------
    IndexingError
        If there is no such axis.
    DTypeError
        If `x` is complex or not numeric, `discont` or `period` is no real number, or the axis no integer.
    GraphStateError
        If `discont` or `period` is a tensor that requires grad.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.unwrap(eo.tensor([0.0, 2.0, 4.0, 0.0]), period=6.0))
    [0. 2. 4. 6.]
    """
    x = inexact(x)
    axis = normalize_axis(axis, x.ndim, "unwrap")
    period = real_number(period, "unwrap", "period")
    least = period / 2 if discont is None else real_number(discont, "unwrap", "discont")
    step = neighbours(x, axis)
    moved = op.remainder(step + period / 2, period) - period / 2
    ends = op.logical_and(op.equal(moved, -period / 2), op.greater(step, 0))
    moved = op.where(ends, period / 2, moved)
    turns = op.round((moved - step) / period)
    turns = op.where(op.less(op.abs(step), least), 0, turns)
    start = op.zeros_like(_part(x, axis, 0, 1))
    return x + op.concat(start, op.cumsum(turns, axis=axis, reverse=False), axis=axis) * period
