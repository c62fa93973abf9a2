"""The phase of complex vectors, which their largest element fixes: it is positive."""

from __future__ import annotations

from typing import Any

from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.ops.families import primitive
from everyo.ops.linalg.common import inexact_array, matrixwise, real_of, row, summed


def pivots_of(xp: Any, v: Any) -> Any:
    """Return 1 at the place in each column of `v` where the absolute value is largest, 0 elsewhere.

    Of several places within a percent of the largest it is the first, so that rounding does not choose.
    """
    size = xp.abs(v)
    best = xp.amax(size, axis=-2, keepdims=True, initial=0.0)
    large = size >= 0.99 * best
    return xp.asarray(large & (xp.cumsum(large, axis=-2) == 1), dtype=size.dtype)


def with_phase(xp: Any, v: Any) -> tuple[Any, Any]:
    """Return the columns of `v` times a phase that makes their largest element positive, and the phases."""
    pivot = xp.sum(pivots_of(xp, v) * v, axis=-2, keepdims=True)
    size = xp.abs(pivot)
    phase = xp.conj(xp.where(size > 0, pivot, xp.ones_like(pivot)) / xp.where(size > 0, size, 1))
    return v * phase, phase


@primitive(
    None,
    None,
    samples=lambda: [sample((3, 2)), sample((2, 2, 2)), sample((0, 0))],
    batch=matrixwise,
    missing="its result is discrete",
    specs=lambda examples, params: [(tuple(examples[0].shape), real_of(examples[0].dtype))],
)
def _pivots(xp: Any, v: Any) -> Any:
    return pivots_of(xp, inexact_array(xp, v))


def steadied(h: Any, v: Any, twist: Any) -> Any:
    """Return a cotangent of vectors without what would change their phases.

    `twist` is the imaginary part of the products of vectors with their cotangents: what a common phase of
    each vector (and of what goes with it) does. The largest element stays real, which undoes the phase.
    """
    where = op.pivots(v)
    pivot = op.real(summed(where * v, -2))
    return h - where * row(twist / pivot) * 1j


def turned(change: Any, v: Any) -> Any:
    """Return the phases' rates of change that keep the largest elements of changing vectors real."""
    where = op.pivots(v)
    return -(op.imag(summed(where * change, -2)) / op.real(summed(where * v, -2)))
