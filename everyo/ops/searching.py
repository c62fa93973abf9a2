"""Places of numbers in sorted sequences, and interpolation between them."""

from __future__ import annotations

import math
from typing import Any

from everyo.core.batching import looped
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, ShapeError, describe
from everyo.ops.axes import as_flag, is_one_of
from everyo.ops.creation import as_tensor, as_tensors, number, weak
from everyo.ops.families import primitive
from everyo.ops.indexing import ARRAY
from everyo.ops.reductions import inexact, real_part
from everyo.ops.signatures import composed, explained

__all__ = ["digitize", "interp", "searchsorted"]

_DISCRETE: dict[str, Any] = {"family": "discrete", "missing": "its result is discrete"}


def _one_table(*tables: int) -> Any:
    """Return the batching rule of searches for many numbers at once: in one call unless `tables` differ."""

    def rule(search: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
        if any(batched[i] for i in tables):
            return looped(search, inputs, batched, size, params)
        return search(*inputs, **params)

    return rule


def _table_samples(**params: Any) -> list[Sample]:
    table = Values([-1.0, 0.0, 0.0, 1.0])
    return [sample(table, Values([-2.0, 0.0, 0.5, 1.0, 3.0]), **params), sample(table, (2, 3), **params)]


@primitive(
    None,
    None,
    samples=lambda: [*_table_samples(side="left"), *_table_samples(side="right")],
    batch=_one_table(0),
    **_DISCRETE,
)
def _searchsorted(xp: Any, x1: Any, x2: Any, *, side: str) -> Any:
    return xp.asarray(xp.searchsorted(x1, x2, side=side))


def _no_order(inputs: Any, params: Any, error: Exception) -> ArgumentError | None:
    if not isinstance(error, ValueError):
        return None
    return ArgumentError(
        "the bins are in no order",
        operation="digitize",
        inputs=describe(*inputs),
        expected="edges that ascend, or descend",
        found=str(error),
        remedy="sort them: eo.sort(bins)",
    )


@primitive(
    None,
    None,
    samples=lambda: [sample((2, 3), Values([-1.0, 0.0, 1.0]), right=r) for r in (False, True)],
    batch=_one_table(1),
    explain=_no_order,
    **_DISCRETE,
)
def _digitize(xp: Any, x: Any, bins: Any, *, right: bool) -> Any:
    return xp.asarray(xp.digitize(x, bins, right=right))


def _require_vector(table: Tensor, operation: str, least: int = 0) -> None:
    if table.ndim != 1 or table.size < least:
        raise ShapeError(
            "the sorted numbers must form a vector",
            operation=operation,
            inputs=describe(table),
            expected=f"one axis of at least {least}" if least else "one axis",
            found=f"shape {tuple(table.shape)}",
            remedy="flatten it, or use eo.vmap over its rows",
        )


@composed
def searchsorted(x1: Any, x2: Any, /, side: str = "left", sorter: Any = None) -> Tensor:
    """Places in a sorted vector where numbers would have to be inserted; they have no gradient.

    Parameters
    ----------
    x1 : tensor
        A vector in ascending order, unless `sorter` says otherwise. NaN counts as the largest.
    x2 : tensor or number
        The numbers, of any shape.
    side : {"left", "right"}, default "left"
        Whether a number goes before or after its equals.
    sorter : integer tensor, optional
        The positions that put `x1` in order, as from `argsort`.

    Returns
    -------
    Tensor
        Integers from 0 to the length of `x1`, of the shape of `x2`.

    Raises
    ------
    ShapeError
        If `x1` is no vector.
    ArgumentError
        If there is no such side.
    IndexingError
        If `sorter` is not made of positions in `x1`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.searchsorted(eo.tensor([1.0, 2.0, 4.0]), eo.tensor([2.0, 3.0])))
    [1 2]
    """
    x1, x2 = as_tensors((x1, x2), "searchsorted")
    _require_vector(x1, "searchsorted")
    if not is_one_of(side, ("left", "right")):
        raise ArgumentError(
            "there is no such side", operation="searchsorted", expected="left or right", found=repr(side)
        )
    if sorter is not None:
        x1 = op.getitem(x1, as_tensor(sorter), index=(ARRAY,))
    return apply(_searchsorted, (x1, x2), {"side": side})


@explained
def digitize(x: Any, bins: Any, /, right: bool = False) -> Tensor:
    """Numbers of the bins that elements fall into: i where ``bins[i - 1] <= x < bins[i]``; no gradient.

    Parameters
    ----------
    x : tensor
        Real, of any shape.
    bins : tensor
        A vector in ascending or descending order.
    right : bool, default False
        Whether the right end of a bin belongs to it, instead of the left.

    Returns
    -------
    Tensor
        Integers, 0 before the first bin and ``len(bins)`` after the last.

    Raises
    ------
    ShapeError
        If `bins` is no vector.
    ArgumentError
        If they are in no order.
    DTypeError
        If `x` is complex.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.digitize(eo.tensor([0.5, 1.0, 9.0]), eo.tensor([1.0, 2.0])))
    [0 1 2]
    """
    x, bins = as_tensors((x, bins), "digitize")
    _require_vector(bins, "digitize")
    return apply(_digitize, (x, bins), {"right": as_flag(right, "right", "digitize")})


# ---- interpolation


@primitive(
    None,
    None,
    samples=lambda: [sample(Values([-2.0, 0.5, 1.0, 3.0]), Values([-1.0, 0.0, 1.0]))],
    batch=_one_table(1),
    **_DISCRETE,
)
def _interval(xp: Any, x: Any, knots: Any) -> Any:
    """Return the number of the interval that each point lies in; for those outside the nearest one."""
    return xp.clip(xp.searchsorted(knots, x, side="right") - 1, 0, knots.shape[0] - 2)


class _Piece:
    """The piece of the polygon that each point lies on: between which knots, where, and how steep."""

    def __init__(self, x: Any, knots: Any, values: Any) -> None:
        self.count = knots.shape[0]
        self.low = op.interval(x, knots)
        self.high = self.low + 1
        start, end = self.at(knots, self.low), self.at(knots, self.high)
        width = end - start
        flat = op.equal(width, 0)
        part = (x - start) / op.where(flat, 1, width)
        self.weight = op.where(flat, 1, op.clip(part, 0, 1))
        rise = self.at(values, self.high) - self.at(values, self.low)
        steep = op.where(flat, 0, rise / op.where(flat, 1, width))
        inside = op.logical_and(op.greater_equal(part, 0), op.less_equal(part, 1))
        self.slope = op.where(inside, steep, 0)

    def at(self, v: Any, places: Any) -> Any:
        """Return the elements of a vector at `places`."""
        return op.getitem(v, places, index=(ARRAY,))

    def between(self, v: Any) -> Any:
        """Return what a vector with an element for each knot is at the points."""
        return self.at(v, self.low) * (1 - self.weight) + self.at(v, self.high) * self.weight

    def spread(self, low: Any, high: Any) -> Any:
        """Return zeros for the knots to which is added what belongs to the ends of the pieces."""
        return op.assemble(low, high, self.low, self.high, indices=((ARRAY,), (ARRAY,)), shape=(self.count,))


def _interp_vjp(g: Any, needs: Any, x: Any, knots: Any, values: Any) -> Any:
    piece = _Piece(x, knots, values)
    steep = g * piece.slope
    return (
        steep if needs[0] else None,
        piece.spread(steep * (piece.weight - 1), -steep * piece.weight) if needs[1] else None,
        piece.spread(g * (1 - piece.weight), g * piece.weight) if needs[2] else None,
    )


def _interp_jvp(tangents: Any, x: Any, knots: Any, values: Any) -> Any:
    piece = _Piece(x, knots, values)
    moved, shifted, lifted = tangents
    change: Any = 0
    if moved is not None:
        change = moved * piece.slope
    if shifted is not None:
        change = change - piece.between(shifted) * piece.slope
    return change if lifted is None else change + piece.between(lifted)


def _interp_samples() -> list[Sample]:
    knots = Values([-1.0, -0.25, 0.5, 1.5])
    points = Values([[-1.7, -0.6, 0.1], [0.9, 1.3, 2.0]])
    return [
        sample(points, knots, (4,)),
        sample((3,), knots, (4,)),
        sample(Values([0.1]), Values([0.0, 1.0]), (2,)),
    ]


@primitive(_interp_vjp, _interp_jvp, samples=_interp_samples, batch=_one_table(1, 2), linear_in=(2,))
def _interp(xp: Any, x: Any, knots: Any, values: Any) -> Any:
    return xp.asarray(xp.interp(x, knots, values), dtype=xp.result_type(x, knots, values))


@composed
def interp(
    x: Any, xp: Any, fp: Any, /, left: Any = None, right: Any = None, period: float | None = None
) -> Tensor:
    """Piecewise linear interpolation: the polygon through the points ``(xp[i], fp[i])``, at `x`.

    All three have a gradient. On the piece from knot i to the next, with ``w = (x - xp[i]) / (xp[i + 1] -
    xp[i])``, the derivative in `x` is the slope, in ``fp[i]`` and ``fp[i + 1]`` it is ``1 - w`` and `w`, in
    ``xp[i]`` and ``xp[i + 1]`` the same times the negative slope. A knot belongs to the piece on its
    right, the last one to the piece on its left. Outside the polygon is constant.

    Parameters
    ----------
    x : tensor
        Where to evaluate, of any shape; real.
    xp : tensor
        The knots, a vector in ascending order; real. That they ascend is not checked.
    fp : tensor
        The values at the knots; real or complex.
    left, right : number or tensor, optional
        The values before the first knot and after the last; those of these knots by default.
    period : number, optional
        Makes the function periodic; the knots may then be in any order.

    Returns
    -------
    Tensor
        Of the shape of `x` and the dtype that all three promote to; float64 for integers.

    Raises
    ------
    ShapeError
        If there is no knot, or not a value for each.
    DTypeError
        If `x` or `xp` is complex.
    ArgumentError
        If the period is 0.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([0.5, 3.0], requires_grad=True)
    >>> y = eo.interp(x, [0.0, 1.0, 2.0], [0.0, 4.0, 6.0])
    >>> y.sum().backward()
    >>> print(y.detach(), x.grad)
    [2. 6.] [4. 0.]
    """
    points, knots, values = as_tensors((x, xp, fp), "interp")
    if values.dtype.kind == "c":  # which real lists shall not turn into
        points, knots = (weak(v, [real_part(values)], "interp") for v in (x, xp))
    x, knots, values = map(inexact, (points, knots, values))
    _require_vector(knots, "interp", 1)
    if tuple(values.shape) != tuple(knots.shape):
        raise ShapeError(
            "there must be a value for each knot",
            operation="interp",
            inputs=describe(x, knots, values),
            expected=f"values of shape {tuple(knots.shape)}",
            found=str(tuple(values.shape)),
            remedy="evaluate the function at the knots",
        )
    if "c" in (x.dtype.kind, knots.dtype.kind):
        raise DTypeError(
            "points and knots are real numbers",
            operation="interp",
            inputs=describe(x, knots, values),
            expected="a real dtype; only the values may be complex",
            found=f"{x.dtype} and {knots.dtype}",
            remedy="take their real part",
        )
    if period is not None:
        x, knots, values = _periodic(x, knots, values, period)
        left = right = None
    shape = tuple(x.shape)
    flat = op.reshape(x, shape=(math.prod(shape),)) if not shape else x
    if knots.size == 1:
        out = op.broadcast_to(values, shape=tuple(flat.shape)) + op.zeros_like(flat)
    else:
        out = apply(_interp, (flat, knots, values))
    for value, beyond, end in ((left, op.less, 0), (right, op.greater, -1)):
        if value is not None:
            outside = beyond(flat, op.getitem(knots, index=(end,)))
            out = op.where(outside, weak(value, [out], "interp"), out)
    return op.reshape(out, shape=shape) if not shape else out


def _periodic(x: Tensor, knots: Tensor, values: Tensor, period: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return points and knots inside one period, and a knot of the neighbouring periods at each end."""
    size = abs(number(period, "interp", "period"))
    if not size:
        raise ArgumentError("the period cannot be 0", operation="interp", expected="a period", found="0")
    x, knots = op.remainder(x, size), op.remainder(knots, size)
    order = op.argsort(knots, axis=0)
    knots = op.getitem(knots, order, index=(ARRAY,))
    values = op.getitem(values, order, index=(ARRAY,))
    first, last = ((slice(0, 1),), (slice(-1, None),))
    knots = op.concat(
        op.getitem(knots, index=last) - size, knots, op.getitem(knots, index=first) + size, axis=0
    )
    values = op.concat(op.getitem(values, index=last), values, op.getitem(values, index=first), axis=0)
    return x, knots, values
