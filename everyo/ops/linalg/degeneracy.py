"""Divisions by gaps between eigenvalues or singular values, and what is done where a gap is zero.

Eigenvectors of equal eigenvalues may be any basis of their space. A function of them has a derivative only
if it is the same for every basis; then the part of its cotangent that would turn the basis vanishes, and so
does its share of the derivative. That is what is tested here, with these limits (eps is that of the dtype,
k the number of values, the scale the largest of them, the size the largest element of the cotangent in the
basis):

* values count as equal if they differ by at most ``10 k eps`` of the scale;
* a part vanishes if it is at most ``eps ** (2/3)`` of the size; one that does not makes the result NaN;
* between values that differ by less than ``sqrt(eps)`` of the scale, a part of at most ``10 k eps`` of the
  size is noise and vanishes too.

Where the values are used together with the vectors, the cotangents of both cannot tell such functions as
``v @ diag(f(w)) @ v.mH``, whose derivative has a share within the space, from those that have none. So the
share is taken for zero only if the cotangents are those of a multiple of the identity within the space:
equal for the values, without off-diagonal part for the vectors; and if the vectors' cotangent says nothing
there, the basis must not have exact zeros, which could hide an off-diagonal part. Otherwise it is NaN.
"""

from __future__ import annotations

from typing import Any

from everyo.core.batching import everywhere, unchanged
from everyo.core.registry import op
from everyo.core.samples import Integers, Sample, Values, sample
from everyo.ops.families import primitive
from everyo.ops.linalg.common import adjoint, column, float_of, joined, made, of_kind, row, summed

EQUAL = 10.0  # times k eps


@primitive(
    None,
    None,
    samples=lambda: [sample((2, 2)), sample(())],
    batch=unchanged,
    missing="it is read for a decision alone",
)
def _frozen(xp: Any, x: Any) -> Any:
    """Return a constant with the elements of `x`."""
    return x


def skew_part(x: Any) -> Any:
    return (x - adjoint(x)) * 0.5


def _part(x: Any, skew: bool) -> Any:
    return skew_part(x) if skew else x


def batched(dividing: Any, inputs: Any, mapped: Any, size: int, params: Any) -> Any:
    """All operands get the batch: those that have none are repeated."""
    return dividing(*everywhere(inputs, mapped, size), **params)


def _factors_of(xp: Any, x: Any, gw: Any, w: Any, v: Any, skew: bool, again: bool) -> Any:
    """Return ``1 / (w[j] - w[i])``, or 0 or NaN where the gap is zero; 0 on the diagonal.

    `again` is for derivatives of the quotient: where the decision took cotangents of values and vectors
    together into account, nothing is known of them, and the factor is NaN.
    """
    k = w.shape[-1]
    eps = xp.finfo(joined(x.dtype, w.dtype)).eps
    off = ~xp.eye(k, dtype=bool)
    turning = xp.abs(0.5 * (x - xp.conj(xp.matrix_transpose(x))) if skew else x)
    size = xp.amax(xp.abs(x), axis=(-2, -1), keepdims=True, initial=0.0)
    gaps = w[..., None, :] - w[..., :, None]
    distance = xp.abs(gaps)
    scale = xp.amax(xp.abs(w), axis=-1, initial=0.0)[..., None, None]
    near = off & (distance <= EQUAL * k * eps * scale)
    noise = (distance <= eps**0.5 * scale) & (turning <= EQUAL * k * eps * size)
    gone = near & (turning <= eps ** (2 / 3) * size)
    certain = gone if gw is None else gone & _scalar_within(xp, x, gw, v, size, eps)
    void = ~off | (noise & ~near) | (certain if gw is None or not again else xp.zeros_like(certain))
    unknown = near & ~void
    usual = xp.where(void | unknown, xp.ones_like(gaps), gaps)
    factors = xp.where(void, xp.zeros_like(gaps), 1 / usual)
    return xp.where(unknown, xp.full_like(factors, xp.nan), factors)


def _scalar_within(xp: Any, x: Any, gw: Any, v: Any, size: Any, eps: float) -> Any:
    """Whether the cotangents of two values and of their vectors are those of a multiple of the identity."""
    limit = eps ** (2 / 3)
    shared = xp.abs(0.5 * (x + xp.conj(xp.matrix_transpose(x)))) <= limit * size
    largest = xp.amax(xp.abs(gw), axis=-1, initial=0.0)[..., None, None]
    equal = xp.abs(gw[..., None, :] - gw[..., :, None]) <= limit * largest
    silent = xp.abs(xp.linalg.diagonal(x)) <= limit * size[..., 0]
    blind = silent[..., None, :] & silent[..., :, None]
    full = xp.all(v != 0, axis=-2)
    generic = full[..., None, :] & full[..., :, None]
    return shared & equal & (~blind | generic)


def _same_as_first(examples: Any, params: Any) -> list[Any]:
    x, gw, w = examples[:3]
    dtypes = [e.dtype for e in (x, gw, w) if e is not None]
    return [(tuple(x.shape), joined(*dtypes))]


def _gap_samples() -> list[Sample]:
    w3, w2 = Values([0.5, -1.0, 2.0]), Values([[1.0, 0.2], [-1.0, 3.0]])
    points: list[tuple[Any, ...]] = [((3, 3), (3,), w3, made(3, 3)), ((2, 2, 2), (2, 2), w2, made(2, 2, 2))]
    points += [((3, 3), None, w3, made(3, 3)), ((0, 0), (0,), (0,), (0, 0))]
    return [sample(*p, skew=s) for p in points for s in (False, True)]


def _still(x: Any) -> Any:
    return None if x is None else op.frozen(x)


def _factors(x: Any, gw: Any, w: Any, v: Any, skew: bool) -> Any:
    """Return the factors as a function of `w` alone, for derivatives."""
    return op.gap_factors(_still(x), _still(gw), w, v, skew=skew)


def _between(moved: Any, dtype: Any) -> Any:
    """Return the cotangent of values for that of their differences, negated."""
    return of_kind(summed(moved) - summed(moved, -2), dtype)


def _factors_vjp(g: Any, w_dtype: Any, out: Any) -> Any:
    return _between(g * out * out, w_dtype)


def _factors_jvp(t: Any, out: Any) -> Any:
    return out * (out * (column(t) - row(t)))


def _factor_samples() -> list[Sample]:
    w3, w2 = Values([0.5, -1.0, 2.0]), Values([[1.0, 0.2], [-1.0, 3.0]])
    points: list[tuple[Any, ...]] = [(Integers((3, 3), 9), Integers((3,), 9), w3, Integers((3, 3), 9))]
    points += [(Integers((2, 2, 2), 9), None, w2, Integers((2, 2, 2), 9))]
    return [sample(*p, skew=s) for p in points for s in (False, True)]


@primitive(
    (None, None, _factors_vjp, None),
    (None, None, _factors_jvp, None),
    samples=_factor_samples,
    batch=batched,
    missing="all but the values is read for a decision alone",
    optional=(1,),
    specs=lambda examples, params: [(tuple(examples[0].shape), float_of(examples[2].dtype))],
)
def _gap_factors(xp: Any, x: Any, gw: Any, w: Any, v: Any, *, skew: bool) -> Any:
    return _factors_of(xp, x, gw, w, v, skew, True)


def _over_gaps_x(g: Any, x: Any, gw: Any, w: Any, v: Any, skew: bool) -> Any:
    return _part(g * _factors(x, gw, w, v, skew), skew)


def _over_gaps_w(g: Any, x: Any, gw: Any, w: Any, v: Any, skew: bool) -> Any:
    factors = _factors(x, gw, w, v, skew)
    # No square of a factor, which leaves the range of the dtype where the products do not.
    return _between((g * factors) * (_part(x, skew) * factors), w.dtype)


def _over_gaps_dx(t: Any, x: Any, gw: Any, w: Any, v: Any, skew: bool) -> Any:
    return _part(t, skew) * _factors(x, gw, w, v, skew)


def _over_gaps_dw(t: Any, x: Any, gw: Any, w: Any, v: Any, skew: bool) -> Any:
    factors = _factors(x, gw, w, v, skew)
    return (_part(x, skew) * factors) * (factors * (column(t) - row(t)))


def _diagonal_part(g: Any, gw_dtype: Any) -> Any:
    return of_kind(op.diagonal(g), gw_dtype)


@primitive(
    (_over_gaps_x, _diagonal_part, _over_gaps_w, None),
    (_over_gaps_dx, lambda t: op.diagonal_matrix(t), _over_gaps_dw, None),
    samples=_gap_samples,
    batch=batched,
    optional=(1,),
    linear_in=(0, 1),
    specs=_same_as_first,
    missing="the vectors are read for a decision alone",
)
def _over_gaps(xp: Any, x: Any, gw: Any, w: Any, v: Any, *, skew: bool) -> Any:
    """Return ``x[i, j] / (w[j] - w[i])`` off the diagonal, `gw` on it.

    With `skew` the skew-Hermitian part takes the place of `x`.
    """
    out = _part(x, skew) * _factors_of(xp, x, gw, w, v, skew, False)
    if gw is not None:
        k = xp.arange(w.shape[-1])
        out = xp.array(out, dtype=joined(out.dtype, gw.dtype))
        out[..., k, k] = gw
    return out
