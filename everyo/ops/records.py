"""Records, the places where a running extreme is reached, and the derivatives that they share."""

from __future__ import annotations

from typing import Any

from everyo.core.batching import along
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.ops.families import primitive

__all__: list[str] = []

_LONG = 64  # elements of a segment on average for which a call of its own pays
_SHORT = 256  # elements of the longest segment up to which a few passes over all of them are quicker
_DISCRETE: dict[str, Any] = {"missing": "its results are discrete"}


def _records_samples() -> list[Sample]:
    values = Values([1.0, 3.0, 2.0, 3.0, 4.0])
    return [sample(values, Values([1.0, 3.0, 3.0, 3.0, 4.0]), axis=0), sample((0, 2), (0, 2), axis=0)]


@primitive(None, None, samples=_records_samples, batch=along("axis"), **_DISCRETE)
def _records(xp: Any, x: Any, out: Any, *, axis: int) -> Any:
    """Describe how the running extremes `out` follow from `x`.

    Returns two arrays of their shape: where `x` is the extreme so far, and which of these places equal the
    one before (a NaN equals a NaN).
    """
    x, out = xp.moveaxis(x, axis, 0), xp.moveaxis(out, axis, 0)
    here = x == out
    again = xp.zeros_like(here)
    rises = out[1:] != out[:-1]
    if x.dtype.kind in "fc" and xp.any(x != x):
        here |= x != x
        rises &= (out[1:] == out[1:]) | (out[:-1] == out[:-1])
    if x.size and xp.count_nonzero(here) - xp.count_nonzero(rises) != here[0].size:
        again[1:] = here[1:] & ~rises
    return tuple(xp.moveaxis(a, 0, axis) for a in (here, again))


class _Rows:
    """Records in rows, compressed: a run lasts from one record to the next, and ends with its row."""

    def __init__(self, xp: Any, here: Any, again: Any, axis: int) -> None:
        self.xp, self.axis, self.tied = xp, axis, again is not None and bool(xp.any(again))
        marks = self.flat(here)
        if here.size and not xp.all(
            xp.moveaxis(here, axis, 0)[0]
        ):  # a blank array, while a shape is inferred
            marks = xp.copy(marks)
            marks[:: here.shape[axis]] = True
        self.starts = xp.flatnonzero(marks)
        self.size = here.size
        if self.tied:
            self.joined = self.flat(again)
            if self.starts.size != self.size:
                self.joined = self.joined[self.starts]
            self.rank = self._ranks()

    def flat(self, x: Any) -> Any:
        """Return the elements row by row."""
        return self.xp.reshape(self.xp.moveaxis(x, self.axis, -1), (-1,))

    def back(self, flat: Any, x: Any) -> Any:
        """Return elements row by row in the shape of `x`."""
        turned = self.xp.moveaxis(x, self.axis, -1).shape
        return self.xp.moveaxis(self.xp.reshape(flat, turned), -1, self.axis)

    def _ranks(self) -> Any:
        """Return how many equal records there are up to each."""
        xp, number = self.xp, self.starts.size
        first = xp.flatnonzero(~self.joined)
        ranks = xp.arange(1, number + 1)
        ranks -= xp.repeat(first, xp.diff(first, append=number))
        return ranks

    def lengths(self) -> Any:
        """Return the lengths of the runs."""
        return self.xp.diff(self.starts, append=self.size)


@primitive(
    None,
    None,
    samples=lambda: [sample(Values([True, False, True]), axis=0)],
    batch=along("axis"),
    **_DISCRETE,
)
def last_record(xp: Any, here: Any, *, axis: int) -> Any:
    """Return where along an axis `here`, which starts true, was last true."""
    if not here.size:
        return xp.zeros(here.shape, dtype="int64")
    rows = _Rows(xp, here, None, axis)
    return rows.back(xp.repeat(rows.starts % here.shape[axis], rows.lengths()), here)


def _record_rules(name: str) -> tuple[Any, None, None]:
    return (lambda v, here, again, axis: getattr(op, name)(v, here, again, axis=axis), None, None)


def _inexact(xp: Any, v: Any) -> Any:
    return v if v.dtype.kind in "fc" else xp.astype(v, "float64")


def _run_samples() -> list[Sample]:
    here = [[True, True, False, True, True], [True, False, True, True, False]]
    again = [[False, False, False, True, False], [False, False, True, True, False]]
    none = [[False] * 5] * 2
    return [
        sample((5,), Values(here[0]), Values(again[0]), axis=0),
        sample((2, 5), Values(here), Values(again), axis=1),
        sample((2, 5), Values(here), Values(none), axis=1),
        sample((5, 2), Values([*zip(*here)]), Values([*zip(*again)]), axis=0),
        sample((0, 2), Values([[], []]), Values([[], []]), axis=1),
    ]


@primitive(
    _record_rules("mean_of_records"),
    _record_rules("share_to_records"),
    missing="the records are boolean",
    samples=_run_samples,
    batch=along("axis"),
)
def _share_to_records(xp: Any, g: Any, here: Any, again: Any, *, axis: int) -> Any:
    """Give each element in equal parts to the equal records up to it, the last of which is its extreme."""
    g = _inexact(xp, g)
    if not g.size:
        return xp.zeros_like(g)
    rows = _Rows(xp, here, again, axis)
    all_are = rows.starts.size == g.size
    sums = xp.copy(rows.flat(g)) if all_are else xp.sums_between(rows.flat(g), rows.starts)
    if rows.tied:
        xp.true_divide(sums, rows.rank, out=sums)
        sums = op.segment_sums(sums, rows.joined, axis=0, reverse=True)
    if all_are:
        return rows.back(sums, g)
    out = xp.zeros(g.size, dtype=g.dtype)
    out[rows.starts] = sums
    return rows.back(out, g)


@primitive(
    _record_rules("share_to_records"),
    _record_rules("mean_of_records"),
    missing="the records are boolean",
    samples=_run_samples,
    batch=along("axis"),
)
def _mean_of_records(xp: Any, t: Any, here: Any, again: Any, *, axis: int) -> Any:
    """Return for each element the mean at the equal records up to it: the transpose."""
    t = _inexact(xp, t)
    if not t.size:
        return xp.zeros_like(t)
    rows = _Rows(xp, here, again, axis)
    found = rows.flat(t)[rows.starts]
    if rows.tied:
        found = op.segment_sums(found, rows.joined, axis=0, reverse=False)
        found = found / xp.astype(rows.rank, found.dtype)
    return rows.back(xp.repeat(found, rows.lengths()), t)


def _segment_samples() -> list[Sample]:
    joined = Values([False, True, True, False, True])
    grid = Values([[True, False, True], [False, False, True]])
    return [
        *(sample((5,), joined, axis=0, reverse=r) for r in (False, True)),
        *(sample((2, 3), grid, axis=a, reverse=r) for a in (0, 1) for r in (False, True)),
        sample((3,), Values([False] * 3), axis=0, reverse=False),
        sample((1,), Values([True]), axis=0, reverse=True),
    ]


@primitive(
    vjp=(lambda g, joined, axis, reverse: op.segment_sums(g, joined, axis=axis, reverse=not reverse), None),
    jvp=(lambda t, joined, axis, reverse: op.segment_sums(t, joined, axis=axis, reverse=reverse), None),
    missing="the second operand is boolean",
    samples=_segment_samples,
    batch=along("axis"),
)
def _segment_sums(xp: Any, x: Any, joined: Any, *, axis: int, reverse: bool) -> Any:
    """Running sum that starts anew where an element is not joined to the one before it."""
    if not xp.any(joined):
        return x
    if x.ndim == 1:
        starts = xp.flatnonzero(~joined)
        if starts.size * _LONG <= x.size:
            return _one_by_one(xp, x, [int(starts[i]) for i in range(starts.size)], reverse)
        if xp.max(xp.diff(starts, append=x.size)) <= _SHORT:
            return _doubled(xp, x, joined, reverse)
    factors = xp.astype(joined, x.dtype)
    if reverse:
        factors = op.delay(factors, axis=axis, reverse=True)
    return op.linear_recurrence(factors, x, axis=axis, reverse=reverse)


def _one_by_one(xp: Any, x: Any, starts: list[int], reverse: bool) -> Any:
    """Return the running sums of each of a few long segments."""
    out = xp.empty_like(x)
    for start, end in zip([0, *starts], [*starts, x.size]):
        segment = slice(start, end)
        if reverse:
            xp.cumsum(x[segment][::-1], out=out[segment][::-1])
        else:
            xp.cumsum(x[segment], out=out[segment])
    return out


def _doubled(xp: Any, x: Any, joined: Any, reverse: bool) -> Any:
    """Return the running sums of short segments: sums of 2, 4, ... elements as far as a segment reaches."""
    out = xp.array(x)
    reaches = xp.array(joined)  # whether the segment of an element begins before what its sum covers
    reaches[:1] = False
    step = 1
    while xp.any(reaches):
        later, earlier = (out[:-step], out[step:]) if reverse else (out[step:], out[:-step])
        xp.add(later, xp.where(reaches[step:], earlier, 0), out=later)
        reaches[step:] = reaches[step:] & reaches[:-step]
        reaches[:step] = False
        step *= 2
    return out
