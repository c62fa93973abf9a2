"""Differences of neighbours along an axis, and their transpose, each in one pass over the elements."""

from __future__ import annotations

from typing import Any

from everyo.core.batching import along
from everyo.core.registry import op
from everyo.core.samples import Sample, sample
from everyo.ops.families import linear

__all__: list[str] = []


def neighbours(x: Any, axis: int) -> Any:
    """Return the differences of neighbours along an axis; of booleans whether they differ."""
    if x.dtype.kind != "b" and x.shape[axis]:
        return op.differences(x, axis=axis)
    lead = (slice(None),) * axis
    later = op.getitem(x, index=(*lead, slice(1, None)))
    earlier = op.getitem(x, index=(*lead, slice(None, -1)))
    return op.not_equal(later, earlier) if x.dtype.kind == "b" else later - earlier


def _samples() -> list[Sample]:
    shapes = (((3,), 0), ((2, 3), 1), ((3, 1, 2), 0), ((1, 2), 0), ((2, 2), 0), ((2, 0), 0))
    return [sample(shape, axis=axis) for shape, axis in shapes]


@linear(lambda g, axis: op.spread_differences(g, axis=axis), samples=_samples, batch=along("axis"))
def _differences(xp: Any, x: Any, *, axis: int) -> Any:
    """Each element less the one before it, along an axis that is not empty."""
    x = xp.moveaxis(x, axis, 0)
    return xp.moveaxis(x[1:] - x[:-1], 0, axis)


@linear(
    lambda g, axis: op.differences(g, axis=axis),
    samples=lambda: [*_samples(), sample((2, 0), axis=1)],
    batch=along("axis"),
)
def _spread_differences(xp: Any, x: Any, *, axis: int) -> Any:
    """For one element more, the one before it less itself, where 0 stands outside: the transpose."""
    x = xp.moveaxis(x, axis, 0)
    out = xp.zeros((x.shape[0] + 1, *x.shape[1:]), dtype=x.dtype)
    if x.shape[0]:
        xp.negative(x[:1], out=out[:1])
        xp.subtract(x[:-1], x[1:], out=out[1:-1])
        out[-1:] = x[-1:]
    return xp.moveaxis(out, 0, axis)
