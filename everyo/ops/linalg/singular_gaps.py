"""Divisions by sums of singular values, and by single ones, where they may be zero.

The vectors of singular values that are zero may be any basis of their space, the left and right ones each
for itself; `degeneracy` says what follows and which limits hold.
"""

from __future__ import annotations

import math
from typing import Any

from everyo.core.batching import trailing
from everyo.core.registry import op
from everyo.core.samples import Integers, Sample, Values, sample
from everyo.ops.families import primitive
from everyo.ops.linalg.common import (
    column,
    float_of,
    inexact_array,
    joined,
    made,
    of_kind,
    row,
    same_layout,
    summed,
)
from everyo.ops.linalg.degeneracy import EQUAL, batched, skew_part


def is_zero(xp: Any, s: Any) -> Any:
    """Whether singular values count as zero."""
    scale = xp.amax(xp.abs(s), axis=-1, keepdims=True, initial=0.0)
    return xp.abs(s) <= EQUAL * s.shape[-1] * xp.finfo(float_of(s.dtype)).eps * scale


@primitive(
    None,
    None,
    samples=lambda: [sample(Values([2.0, 1.0, 0.0])), sample((2, 2)), sample((0,))],
    batch=trailing(1),
    missing="its result is discrete",
    specs=lambda examples, params: [(tuple(examples[0].shape), float_of(examples[0].dtype))],
)
def _nonzero_values(xp: Any, s: Any) -> Any:
    """Return 1 for each singular value that does not count as zero, 0 for those that do."""
    s = xp.asarray(s, dtype=float_of(s.dtype))
    return xp.asarray(~is_zero(xp, s), dtype=s.dtype)


@primitive(
    lambda g, s: g * op.nonzero_values(s),
    lambda t, s: t * op.nonzero_values(s),
    samples=lambda: [sample(Values([2.0, 1.0, 0.5])), sample(made(2, 2, phase=0.2)), sample((0,))],
    batch=trailing(1),
    specs=same_layout,
)
def _kinked(xp: Any, s: Any) -> Any:
    """Return singular values as they are; those that are zero have the slope 0, as `abs` has."""
    return inexact_array(xp, s)


def _trusted_again(g: Any, s: Any, v: Any, strict: bool) -> Any:
    return op.trusted(g, s, v, strict=strict, again=True)


@primitive(
    (_trusted_again, None, None),
    (_trusted_again, None, None),
    samples=lambda: [
        sample((3,), Integers((3,), 9), Integers((4, 3), 9), strict=t, again=a)
        for t in (False, True)
        for a in (False, True)
    ],
    batch=batched,
    linear_in=(0,),
    missing="all but the cotangent is read for a decision alone",
    specs=same_layout,
)
def _trusted(xp: Any, gs: Any, s: Any, v: Any, *, strict: bool, again: bool = False) -> Any:
    """Return the cotangent of singular values; NaN for a zero that is used together with its vectors.

    With `strict` the two vectors of a zero are not determined by each other. Then it is trusted only if
    nothing comes in, and the vectors have no exact zeros that could hide something; for derivatives
    (`again`) not even then.
    """
    gs = inexact_array(xp, gs)
    if not strict:
        return gs
    limit = xp.finfo(float_of(gs.dtype)).eps ** (2 / 3) * xp.amax(
        xp.abs(gs), axis=-1, keepdims=True, initial=0.0
    )
    unused = (xp.abs(gs) <= limit) & xp.all(v != 0, axis=-2)
    unsure = is_zero(xp, s) & ((gs != 0) if again else ~unused)
    return xp.where(unsure, xp.full_like(gs, math.nan), gs)


def _sum_factors_of(xp: Any, x: Any, s: Any) -> Any:
    eps = xp.finfo(joined(x.dtype, s.dtype)).eps
    turning = xp.abs(0.5 * (x - xp.conj(xp.matrix_transpose(x))))
    size = xp.amax(xp.abs(x), axis=(-2, -1), keepdims=True, initial=0.0)
    sums = s[..., None, :] + s[..., :, None]
    scale = xp.amax(xp.abs(s), axis=-1, initial=0.0)[..., None, None]
    near = xp.abs(sums) <= EQUAL * s.shape[-1] * eps * scale
    gone = near & (turning <= eps ** (2 / 3) * size)
    factors = xp.where(near, xp.zeros_like(sums), 1 / xp.where(near, xp.ones_like(sums), sums))
    return xp.where(near & ~gone, xp.full_like(factors, xp.nan), factors)


def _sum_samples() -> list[Sample]:
    return [sample((3, 3), Values([2.0, 1.0, 0.5])), sample((2, 2, 2), Values([[1.0, 0.2], [3.0, 1.5]]))]


def _sum_factors_vjp(g: Any, s_dtype: Any, out: Any) -> Any:
    return _in_sums(g * out * out, s_dtype)  # as in `degeneracy`, no square of a factor


def _sum_factors_jvp(t: Any, out: Any) -> Any:
    return -(out * (out * (column(t) + row(t))))


def _in_sums(moved: Any, dtype: Any) -> Any:
    """Return the cotangent of values for that of their sums, negated."""
    return -of_kind(summed(moved) + summed(moved, -2), dtype)


@primitive(
    (None, _sum_factors_vjp),
    (None, _sum_factors_jvp),
    samples=lambda: [
        sample(Integers((3, 3), 9), Values([2.0, 1.0, 0.5])),
        sample(Integers((2, 2, 2), 9), Values([[1.0, 0.2], [3.0, 1.5]])),
    ],
    batch=batched,
    missing="all but the values is read for a decision alone",
    specs=lambda examples, params: [(tuple(examples[0].shape), float_of(examples[1].dtype))],
)
def _sum_factors(xp: Any, x: Any, s: Any) -> Any:
    return _sum_factors_of(xp, x, s)


def _over_sums_x(g: Any, x: Any, s: Any) -> Any:
    return skew_part(g * op.sum_factors(op.frozen(x), s))


def _over_sums_s(g: Any, x: Any, s: Any) -> Any:
    factors = op.sum_factors(op.frozen(x), s)
    return _in_sums((g * factors) * (skew_part(x) * factors), s.dtype)


def _over_sums_dx(t: Any, x: Any, s: Any) -> Any:
    return skew_part(t) * op.sum_factors(op.frozen(x), s)


def _over_sums_ds(t: Any, x: Any, s: Any) -> Any:
    factors = op.sum_factors(op.frozen(x), s)
    return -((skew_part(x) * factors) * (factors * (column(t) + row(t))))


@primitive(
    (_over_sums_x, _over_sums_s),
    (_over_sums_dx, _over_sums_ds),
    samples=_sum_samples,
    batch=batched,
    linear_in=(0,),
    specs=lambda examples, params: [(tuple(examples[0].shape), joined(*(e.dtype for e in examples)))],
)
def _over_sums(xp: Any, x: Any, s: Any) -> Any:
    """Return the skew-Hermitian part of `x` divided by ``s[i] + s[j]``."""
    return skew_part(x) * _sum_factors_of(xp, x, s)


# ---- what lies outside of the space that the vectors span


def _value_factors_of(xp: Any, x: Any, h: Any, s: Any) -> Any:
    """Return ``1 / s`` for each column; 0 or NaN where it is zero."""
    zero = is_zero(xp, s)
    largest = xp.amax(xp.abs(h), axis=(-2, -1), initial=0.0)[..., None]
    gone = xp.amax(xp.abs(x), axis=-2, initial=0.0) <= xp.finfo(s.dtype).eps ** (2 / 3) * largest
    factors = xp.where(zero, xp.zeros_like(s), 1 / xp.where(zero, xp.ones_like(s), s))
    return xp.where(zero & ~gone, xp.full_like(factors, math.nan), factors)


@primitive(
    (None, None, lambda g, out: -(g * out * out)),
    (None, None, lambda t, out: -(t * out * out)),
    samples=lambda: [sample(Integers((4, 3), 9), Integers((4, 3), 9), Values([2.0, 1.0, 0.5]))],
    batch=batched,
    missing="all but the values is read for a decision alone",
    specs=lambda examples, params: [(tuple(examples[2].shape), float_of(examples[2].dtype))],
)
def _value_factors(xp: Any, x: Any, h: Any, s: Any) -> Any:
    return _value_factors_of(xp, x, h, s)


def _factors(x: Any, h: Any, s: Any) -> Any:
    return row(op.value_factors(op.frozen(x), op.frozen(h), s))


def _over_values_s(g: Any, x: Any, h: Any, s: Any) -> Any:
    factors = _factors(x, h, s)
    return -of_kind(summed((g * factors) * (x * factors), -2), s.dtype)


def _over_values_ds(t: Any, x: Any, h: Any, s: Any) -> Any:
    factors = _factors(x, h, s)
    return -((x * factors) * (factors * row(t)))


@primitive(
    (lambda g, x, h, s: g * _factors(x, h, s), lambda g: op.zeros_like(g), _over_values_s),
    (lambda t, x, h, s: t * _factors(x, h, s), lambda t: op.zeros_like(t), _over_values_ds),
    samples=lambda: [
        sample((4, 3), (4, 3), Values([2.0, 1.0, 0.5])),
        sample((2, 3, 2), (2, 3, 2), Values([[1.0, 0.2], [3.0, 1.5]])),
    ],
    batch=batched,
    linear_in=(0, 1),
    specs=lambda examples, params: [(tuple(examples[0].shape), joined(*(e.dtype for e in examples)))],
)
def _over_values(xp: Any, x: Any, h: Any, s: Any) -> Any:
    """Return the columns of `x` divided by `s`; `h`, of which they are a part, says how small zero is."""
    return x * _value_factors_of(xp, x, h, s)[..., None, :]
