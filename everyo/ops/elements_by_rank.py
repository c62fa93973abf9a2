"""The elements at given ranks of the sorted ones, and mixtures of two neighbours."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from everyo.core.batching import along, padded
from everyo.core.dtypes import float16, float32
from everyo.core.registry import op
from everyo.core.samples import Distinct, Sample, Values, sample
from everyo.ops.chosen import chosen_places
from everyo.ops.families import elementwise, primitive
from everyo.ops.reductions import shared, widened

__all__: list[str] = []

_FEW = 32  # up to this many order statistics are compared with the data one by one


def _tie_samples() -> list[Sample]:
    return [
        sample(Values([[1.0, 2.0, 2.0]]), Values([[2.0, 1.0, 2.0]]), axis=1, skipna=False),
        sample((2, 3), (2, 1), axis=1, skipna=True),
    ]


@primitive(None, None, missing="its results are discrete", samples=_tie_samples, batch=along("axis"))
def _rank_ties(xp: Any, x: Any, out: Any, *, axis: int, skipna: bool) -> Any:
    """Describe which elements of `x` are one of the statistics `out`.

    Returns for each statistic the number of its value among the different ones; whether an element is such
    a value, and the number of that; and how many elements have each value, in the shape of `out`.
    """
    x, out = xp.moveaxis(x, axis, -1), xp.moveaxis(out, axis, -1)
    order = xp.argsort(out, axis=-1, stable=True)
    ranked = xp.take_along_axis(out, order, axis=-1)
    fresh = xp.zeros(out.shape, dtype="int64")
    fresh[..., 1:] = ~_same(ranked[..., 1:], ranked[..., :-1])
    numbers = xp.cumsum(fresh, axis=-1)
    runs = xp.zeros_like(numbers)
    xp.put_along_axis(runs, order, numbers, axis=-1)
    chosen, owner = xp.zeros(x.shape, dtype=bool), xp.zeros(x.shape, dtype="int64")
    sought = _each_search if out.shape[-1] > _FEW and x.shape[-1] > _FEW else _each_compare
    for here, number in sought(xp, x, ranked, numbers, skipna):
        chosen[here], owner[here] = True, number
    here, there = chosen_places(xp, owner, chosen, x.ndim - 1)
    counted = float32 if x.dtype == float16 else x.dtype
    count = xp.assemble([there], [xp.ones(here[0].shape, dtype=counted)], [True], out.shape, counted)
    count = xp.maximum(count, 1)  # where NaN is skipped it may be a statistic, but no element counts
    return tuple(xp.moveaxis(v, -1, axis) for v in (runs, chosen, owner, count))


def _same(a: Any, b: Any) -> Any:
    return (a == b) | ((a != a) & (b != b))


def _each_compare(xp: Any, x: Any, ranked: Any, numbers: Any, skipna: bool) -> Iterator[tuple[Any, Any]]:
    """Yield where the elements are that equal one statistic after the other, and the numbers of its value."""
    for i in range(ranked.shape[-1]):
        value = ranked[..., i : i + 1]
        same = x == value if skipna or not xp.any(value != value) else _same(x, value)
        here = xp.nonzero(same)
        yield here, numbers[(*here[:-1], i)]


def _each_search(xp: Any, x: Any, ranked: Any, numbers: Any, skipna: bool) -> Iterator[tuple[Any, Any]]:
    """Yield the same row by row; a NaN is the last of the sorted statistics."""
    for row in itertools.product(*map(range, x.shape[:-1])):
        found = xp.searchsorted(ranked[row], x[row])
        found = xp.minimum(found, ranked.shape[-1] - 1)
        value = ranked[row][found]
        (here,) = xp.nonzero(x[row] == value if skipna else _same(x[row], value))
        yield (*row, here), numbers[row][found[here]]


def _order_vjp(g: Any, x: Any, ranks: Any, out: Any, axis: int, skipna: bool) -> Any:
    runs, chosen, owner, number = op.rank_ties(x, out, axis=axis, skipna=skipna)
    total = op.scatter_along_axis(widened(g), runs, axis=axis, shape=tuple(out.shape))
    return op.take_chosen(shared(total, number, g.dtype), owner, chosen, axis=axis)


def _order_jvp(t: Any, x: Any, ranks: Any, out: Any, axis: int, skipna: bool) -> Any:
    runs, chosen, owner, number = op.rank_ties(x, out, axis=axis, skipna=skipna)
    total = op.scatter_chosen(widened(t), owner, chosen, axis=axis, shape=tuple(out.shape))
    return op.take_along_axis(shared(total, number, t.dtype), runs, axis=axis)


def _order_batch(statistic: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    (x, ranks), rank = inputs, len(inputs[0].shape) - batched[0]
    if not batched[0]:
        x = op.broadcast_to(x, shape=(size, *x.shape))
    ranks = padded(ranks, rank) if batched[1] else op.reshape(ranks, shape=(1, *ranks.shape))
    return statistic(x, ranks, axis=params["axis"] + 1, skipna=params["skipna"])


def _order_samples() -> list[Sample]:
    ties = Values([[1.0, 2.0, 2.0], [2.0, 1.0, 1.0]])
    many = Values([[i % 7 for i in range(_FEW + 1)]])
    rows = Values([[i % 3] for i in range(_FEW + 1)])
    return [
        sample(Distinct((3,)), Values([1]), axis=0, skipna=False),
        sample(Distinct((2, 4)), Values([[2, 0, 2]]), axis=1, skipna=False),
        sample(Distinct((3, 1, 2)), Values([[[1]], [[2]]]), axis=0, skipna=True),
        sample(Distinct((2, 3)), Values([[0], [2]]), axis=1, skipna=True),
        sample(ties, Values([[0, 1]]), axis=1, skipna=False),
        sample(Distinct((2, 7)), many, axis=1, skipna=False),
        sample(ties, Values([[i % 3 for i in range(_FEW + 1)]]), axis=1, skipna=False),
        sample(Values([[2.0], [1.0], [2.0]]), rows, axis=0, skipna=True),
    ]


@primitive(
    (_order_vjp, None),
    (_order_jvp, None),
    missing="the ranks are integers",
    samples=_order_samples,
    batch=_order_batch,
)
def _order_statistics(xp: Any, x: Any, ranks: Any, *, axis: int, skipna: bool) -> Any:
    """Return the elements that would stand at `ranks` if `x` were sorted along an axis, of length above 0.

    `ranks` has the axes of `x`, of length 1 where they hold for all. Beside a NaN all are NaN, unless NaN
    is skipped: it comes last.
    """
    if ranks.size == ranks.shape[axis]:  # the same for all: no need to sort
        ranks = xp.reshape(ranks, (-1,))
        needed = ranks if skipna else xp.concat([ranks, xp.asarray([x.shape[axis] - 1])])
        ordered = xp.partition(x, needed, axis=axis)
        out = xp.take(ordered, ranks, axis=axis)
    else:
        ordered = xp.sort(x, axis=axis)
        out = xp.take_along_axis(ordered, ranks, axis=axis)
    if skipna or x.dtype.kind not in "fc":
        return out
    largest = xp.take(ordered, xp.asarray([-1]), axis=axis)
    void = largest != largest
    return xp.where(void, largest, out) if xp.any(void) else out


def _apart(g: Any, a: Any, b: Any) -> Any:
    return g * op.where(op.equal(a, b), 0, b - a)


@elementwise(lambda g, w: g * (1 - w), lambda g, w: g * w, _apart, domain=((-2, 2), (-2, 2), (0.1, 0.9)))
def _between(xp: Any, a: Any, b: Any, w: Any) -> Any:
    """Return ``a + (b - a) * w`` without rounding errors at both ends and between equal numbers."""
    with xp.errstate(all="ignore"):
        d = b - a
        out = xp.where(w < 0.5, a + d * w, b - d * (1 - w))
        plain = xp.isfinite(d)
        if xp.all(plain):
            return out
        out = xp.where(plain, out, a * (1 - w) + b * w)
        out = xp.where(((w == 0) | (a == b)) & (b == b), a, out)
        return xp.where((w == 1) & (a == a), b, out)
