"""What falls on one position is reduced: products and extremes of scattered values, to any order.

The primitives scatter along one axis, each column of the others by itself, into new arrays; sums are
`scatter_along_axis`. Positions without a value hold the identity of the reduction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from everyo.core.batching import along
from everyo.core.dtypes import float16, float32, float64, int64
from everyo.core.registry import op
from everyo.core.samples import Distinct, Integers, Values, sample
from everyo.errors import EveryOError
from everyo.ops import index_errors
from everyo.ops.chosen import chosen_places
from everyo.ops.families import primitive
from everyo.ops.gathering import along_index, scatter_batch
from everyo.ops.reductions import shared, widened, zero_absorbs

__all__: list[str] = []

_MISSING = "the positions are integers"


def _extreme_samples() -> list[Any]:
    cases = [
        (Distinct((3,)), Distinct((4,)), Values([0, 2, 0, 0]), 0),
        (Distinct((2, 2)), Distinct((2, 3)), Values([[0, -1, 0], [1, 1, 1]]), 1),
        (Distinct((3, 2)), Distinct((4, 2)), Values([[1], [0], [1], [-2]]), 0),
        (Values([1.0, 2.0, 1.5]), Values([1.0, 2.0, 2.0, 1.0, 0.5]), Values([0, 1, 1, 0, 2]), 0),
        ((2, 3), (2, 0), Integers((2, 0), 1), 1),
    ]
    return [sample(*inputs, axis=axis, own=own) for *inputs, axis in cases for own in (False, True)]


def _outside(inputs: Sequence[Any], params: dict[str, Any], error: Exception) -> EveryOError | None:
    start, _, indices = inputs
    if not isinstance(error, IndexError):
        return None
    return index_errors.outside("scatter_reduce", start, indices, start.shape, params["axis"], error)


def _sharing_samples() -> list[Any]:
    return [
        sample(Values([1.0, 2.0, 2.0]), Values([0, 1, 1]), Values([1.0, 2.0]), axis=0),
        sample((2, 0), Integers((2, 0), 1), (2, 3), axis=1),
    ]


@primitive(None, None, missing="its results are discrete", samples=_sharing_samples, batch=along("axis"))
def _sharing(xp: Any, values: Any, indices: Any, out: Any, *, axis: int) -> Any:
    """Return which values are the extreme of their place (a NaN is), and how many of each place.

    Their number is of the dtype of the values, or float32.
    """
    chosen = values == _taken(xp, out, indices, axis)
    if values.dtype.kind == "f" and xp.any(out != out):
        chosen |= values != values
    here, there = chosen_places(xp, indices, chosen, axis)
    counted = float32 if out.dtype == float16 else out.dtype
    ones = xp.ones(here[0].shape, dtype=counted)
    return chosen, xp.assemble([there], [ones], [True], out.shape, counted)


def _taken(xp: Any, x: Any, indices: Any, axis: int) -> Any:
    """Take along an axis; the same slices for all of `x` where `indices` has no other axis."""
    if indices.size == indices.shape[axis]:
        return xp.take(x, xp.reshape(indices, (-1,)), axis=axis)
    return xp.take_along_axis(x, indices, axis=axis)


def _shares(start: Any, values: Any, indices: Any, out: Any, axis: int, own: bool) -> tuple[Any, Any, Any]:
    """Return where the start and which values are the extreme, and how many share each place."""
    chosen, number = op.sharing(values, indices, out, axis=axis)
    kept = op.logical_or(op.equal(start, out), op.not_equal(start, start)) if own else op.equal(number, 0)
    return kept, chosen, number + kept


def _extreme_vjp(
    g: Any, start: Any, values: Any, indices: Any, out: Any, axis: int, own: bool, needs: Sequence[bool]
) -> Any:
    kept, chosen, number = _shares(start, values, indices, out, axis, own)
    share = shared(g, number, g.dtype)
    return (
        op.where(kept, share, 0) if needs[0] else None,
        op.take_chosen(share, indices, chosen, axis=axis) if needs[1] else None,
        None,
    )


def _extreme_jvp(
    tangents: Sequence[Any], start: Any, values: Any, indices: Any, out: Any, axis: int, own: bool
) -> Any:
    kept, chosen, number = _shares(start, values, indices, out, axis, own)
    moving, total = tangents[1], None
    if moving is not None:
        total = op.scatter_chosen(widened(moving), indices, chosen, axis=axis, shape=tuple(out.shape))
    if tangents[0] is not None:
        first = widened(op.where(kept, tangents[0], 0))
        total = first if total is None else first + total
    return shared(total, number, start.dtype)


_extreme = primitive(
    _extreme_vjp, _extreme_jvp, samples=_extreme_samples, batch=along("axis"), explain=_outside
)


@_extreme
def _scatter_max(xp: Any, start: Any, values: Any, indices: Any, *, axis: int, own: bool) -> Any:
    """Maximum of the values at each place, and of what was there (`own`) or else only where none comes."""
    return _outdone(xp, "maximum", -1, start, values, along_index(xp, start.shape, indices, axis), own)


@_extreme
def _scatter_min(xp: Any, start: Any, values: Any, indices: Any, *, axis: int, own: bool) -> Any:
    """The same with the minimum."""
    return _outdone(xp, "minimum", 1, start, values, along_index(xp, start.shape, indices, axis), own)


def _outdone(xp: Any, name: str, sign: int, start: Any, values: Any, index: Any, own: bool) -> Any:
    least = first_extreme(xp, values.dtype, sign)
    if own:
        return xp.accumulated(name, index, values, start)
    out = xp.accumulated(name, index, values, xp.full(start.shape, least, dtype=values.dtype))
    if not xp.any(out == least):
        return out
    touched = xp.replaced(xp.zeros(start.shape, dtype=bool), index, True)
    return xp.where(touched, out, start)


def wide_enough(x: Any) -> Any:
    """Return the dtype in which to sum the elements of `x` for a mean: one that has their number."""
    if x.dtype == float16:
        return float32
    return float64 if x.dtype == float32 and x.size > 1 << 24 else x.dtype


def first_extreme(xp: Any, dtype: Any, sign: int) -> Any:
    """Return the lowest (sign -1) or highest number of a dtype: what the first value replaces."""
    if dtype.kind == "c":
        raise TypeError("complex numbers are not ordered")
    if dtype.kind == "b":
        return sign > 0
    if dtype.kind == "f":
        return sign * math.inf
    return xp.iinfo(dtype).max if sign > 0 else xp.iinfo(dtype).min


def _prod_samples() -> list[Any]:
    rows = [[0.0, 1.5, -2.0, 3.0], [0.0, 0.0, 3.0, 2.0], [0.0, 0.0, 0.0, 1.0]]
    places = Values([[0, -2, 0, 1], [-2, 0, -2, -1], [1, 0, -1, 0]])
    return [
        sample((4,), Values([0, 2, 1, 0]), axis=0, shape=(4,)),
        sample((2, 3), Values([[0, -1, 0], [1, 0, 1]]), axis=1, shape=(2, 2)),
        sample((4, 2), Values([[1], [0], [1], [1]]), axis=0, shape=(2, 2)),
        sample(Values(rows), places, axis=1, shape=(3, 2)),
        sample((2, 0), Integers((2, 0), 1), axis=1, shape=(2, 3)),
    ]


def _prod_vjp(g: Any, values: Any, indices: Any, axis: int) -> Any:
    return op.scatter_prod_pull(g, values, indices, axis=axis)


def _prod_jvp(t: Any, values: Any, indices: Any, out: Any, axis: int) -> Any:
    return _push(t, op.ones_like(out), values, indices, axis)


def _push(t: Any, ones: Any, values: Any, indices: Any, axis: int) -> Any:
    """Return the change of the products, given that of the values."""
    moved = op.multiply_absorbing(t, op.scatter_prod_pull(ones, values, indices, axis=axis))
    return op.scatter_along_axis(moved, indices, axis=axis, shape=tuple(ones.shape))


@primitive(
    (_prod_vjp, None),
    (_prod_jvp, None),
    missing=_MISSING,
    samples=_prod_samples,
    batch=scatter_batch,
    explain=index_errors.along("scatter_reduce"),
)
def _scatter_prod(xp: Any, values: Any, indices: Any, *, axis: int, shape: tuple[int, ...]) -> Any:
    index = along_index(xp, shape, indices, axis)
    ones = xp.ones(shape, dtype=values.dtype)
    return zero_absorbs(xp, lambda factors: xp.accumulated("multiply", index, factors, ones), values)


class _Side(NamedTuple):
    """What comes before each value among those of its place, in one direction."""

    reverse: bool
    starts: Any  # whether nothing does
    neighbour: Any  # the value before, 0 at a start
    product: Any  # of all before


def _runs(values: Any, indices: Any, axis: int, size: int) -> tuple[Any, list[_Side]]:
    """Return the order that brings equal places together, and what then comes before and after each value."""
    places = op.astype(indices, dtype=int64)
    places = op.broadcast_to(op.where(places < 0, places + size, places), shape=tuple(values.shape))
    order = op.argsort(places, axis=axis)
    places = op.take_along_axis(places, order, axis=axis) + 1  # so none is the 0 that a delay lets in
    values = op.take_along_axis(values, order, axis=axis)
    sides = []
    for reverse in (False, True):
        starts = op.not_equal(places, op.delay(places, axis=axis, reverse=reverse))
        neighbour = op.where(starts, 0, op.delay(values, axis=axis, reverse=reverse))
        first = op.astype(starts, dtype=values.dtype)
        product = op.linear_recurrence(neighbour, first, axis=axis, reverse=reverse)
        sides.append(_Side(reverse, starts, neighbour, product))
    return order, sides


def _in_place(values: Any, order: Any, axis: int) -> Any:
    """Return sorted values in the order that they had."""
    return op.take_along_axis(values, op.argsort(order, axis=axis), axis=axis)


def others_slope(g: Any, values: Any, indices: Any, axis: int, size: int) -> Any:
    """Sum `g` times the product without both over the others: a symmetric matrix, so vjp and jvp alike.

    From each side, the term of an element runs on through the values between it and the one in question.
    """
    order, (left, right) = _runs(values, indices, axis, size)
    g = op.take_along_axis(g, order, axis=axis)
    terms = []
    for side, other in ((left, right), (right, left)):
        drive = op.delay(op.multiply_absorbing(g, side.product), axis=axis, reverse=side.reverse)
        drive = op.where(side.starts, 0, drive)
        term = op.linear_recurrence(side.neighbour, drive, axis=axis, reverse=side.reverse)
        terms.append(op.multiply_absorbing(term, other.product))
    return _in_place(terms[0] + terms[1], order, axis)


def _pull_samples() -> list[Any]:
    made = []
    for s in _prod_samples():
        axis, shape = s.params["axis"], s.params["shape"]
        made.append(sample(shape, *s.inputs, axis=axis))
    return made


def _slope(g: Any, t: Any, values: Any, indices: Any, axis: int) -> Any:
    slope = others_slope(t, values, indices, axis, g.shape[axis])
    return op.multiply_absorbing(op.take_along_axis(g, indices, axis=axis), slope)


@primitive(
    (
        lambda c, g, values, indices, axis: _push(c, op.ones_like(g), values, indices, axis),
        lambda c, g, values, indices, axis: _slope(g, c, values, indices, axis),
        None,
    ),
    (
        lambda t, values, indices, axis: op.scatter_prod_pull(t, values, indices, axis=axis),
        lambda t, g, values, indices, axis: _slope(g, t, values, indices, axis),
        None,
    ),
    missing=_MISSING,
    samples=_pull_samples,
    batch=along("axis"),
    linear_in=(0,),
)
def _scatter_prod_pull(xp: Any, g: Any, values: Any, indices: Any, *, axis: int) -> Any:
    """Cotangent of the values, given that of the products: times the others that fall on the same place."""
    index = along_index(xp, g.shape, indices, axis)
    found = _by_division(xp, g, values, indices, index, axis)
    if found is None:
        others = _others(xp, values, indices, index, axis, g.shape)
        found = op.multiply_absorbing(_taken(xp, g, indices, axis), others)
    return found


def _by_division(xp: Any, g: Any, values: Any, indices: Any, index: Any, axis: int) -> Any | None:
    """Return `g` times the product over each value; None where there are zeros, or digits would be lost."""
    if values.dtype.kind != "f" or g.dtype != values.dtype or not values.size:
        return None
    with xp.errstate(all="ignore"):
        size = xp.astype(xp.abs(values), "float64", copy=False)
        if not xp.min(size) > 0:
            return None
        xp.minimum(size, 1, out=size)
        tiny = xp.finfo(size.dtype).tiny
        if not xp.min(xp.accumulated("multiply", index, size, xp.ones(g.shape))) > tiny:
            return None
        del size  # new memory is dearer here than arithmetic
        wide = xp.astype(values, "float64", copy=False)
        product = xp.accumulated("multiply", index, wide, xp.ones(g.shape))
        if not xp.max(xp.abs(product)) < math.inf:
            return None
        product *= g
        if xp.any((xp.abs(product) < tiny) & (g != 0)) or not xp.all(xp.isfinite(product)):
            return None
        found = _taken(xp, product, indices, axis)
        found /= wide
        return xp.astype(found, values.dtype, copy=False)


def _others(xp: Any, values: Any, indices: Any, index: Any, axis: int, shape: tuple[int, ...]) -> Any:
    """Return for each value the product of the others that fall on its place."""
    zero = values == 0
    if values.dtype.kind == "f" and values.size and xp.all(xp.isfinite(values)):
        some = bool(xp.any(zero))
        factors = xp.astype(xp.where(zero, xp.ones_like(values), values) if some else values, "float64")
        others = _quotients(xp, factors, indices, index, axis, shape)
        if others is not None:
            with xp.errstate(over="ignore", under="ignore"):
                others = xp.astype(others, values.dtype)
            if not some:
                return others
            zeros = xp.accumulated("add", index, zero, xp.zeros(shape, dtype="int64"))
            alone = _taken(xp, zeros, indices, axis) == zero
            return xp.where(alone, others, xp.zeros_like(others))
    order, (left, right) = _runs(values, indices, axis, shape[axis])
    return _in_place(op.multiply_absorbing(left.product, right.product), order, axis)


def _quotients(
    xp: Any, factors: Any, indices: Any, index: Any, axis: int, shape: tuple[int, ...]
) -> Any | None:
    """Return the product of each place divided by each of its factors, or None where that is inexact."""
    limits = xp.finfo(factors.dtype)
    size = xp.abs(factors)
    with xp.errstate(over="ignore", under="ignore"):
        most = xp.accumulated("multiply", index, xp.maximum(size, 1), xp.ones(shape))
        xp.minimum(size, 1, out=size)
        least = xp.accumulated("multiply", index, size, xp.ones(shape))
    if xp.max(most) < limits.max and xp.min(least) > limits.tiny:  # so is every product of some of them
        product = xp.accumulated("multiply", index, factors, xp.ones(shape))
        with xp.errstate(over="ignore"):
            return _taken(xp, product, indices, axis) / factors
    if not _few(xp, factors, index, shape):
        return None
    mantissas, exponents = xp.frexp(factors)
    low = xp.abs(mantissas) < math.sqrt(0.5)
    mantissas, exponents = mantissas * (1 + low), exponents - low
    product = xp.accumulated("multiply", index, mantissas, xp.ones(shape))
    scale = xp.accumulated("add", index, exponents, xp.zeros(shape, dtype=exponents.dtype))
    product, scale = (_taken(xp, x, indices, axis) for x in (product, scale))
    with xp.errstate(over="ignore", under="ignore"):
        return xp.ldexp(product / mantissas, scale - exponents)


def _few(xp: Any, values: Any, index: Any, shape: tuple[int, ...]) -> bool:
    """Whether products of mantissas around 1 of all values of a place stay far from under- and overflow."""
    ones = xp.broadcast_to(xp.ones((), dtype="int64"), values.shape)
    number = xp.accumulated("add", index, ones, xp.zeros(shape, dtype="int64"))
    return bool(xp.max(number) < 2000)
