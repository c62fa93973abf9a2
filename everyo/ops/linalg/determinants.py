"""Determinants: det, a polynomial with derivatives at singular matrices too, and slogdet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.ops.data_types import finfo
from everyo.ops.families import primitive
from everyo.ops.linalg.common import (
    column,
    decomposed,
    entries,
    float_of,
    made,
    matrixwise,
    on_finite,
    real_of,
    same_layout,
    square,
    summed,
)
from everyo.ops.signatures import explained

__all__ = ["det", "slogdet"]

_SINGULAR = (
    [[1.0, 2.0], [2.0, 4.0]],
    [[0.0, 0.0], [0.0, 0.0]],
    [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [2.0, 0.0, 0.0]],
)


def _total(x: Any) -> Any:
    """Return the sum over each matrix."""
    return summed(summed(x))


def _spread(g: Any) -> Any:
    """Return one number for each matrix, so that it broadcasts against the matrices."""
    return column(column(g))


def _points() -> list[Any]:
    return [made(3, 3, diagonal=1.5), made(2, 2, 2, diagonal=1.0), made(1, 1), (0, 0), (2, 0, 0)]


@primitive(
    lambda g, x: _spread(g) * op.cofactors(x),
    lambda t, x: _total(t * op.cofactors(x)),
    samples=lambda: [sample(x) for x in (*_points(), *map(Values, _SINGULAR))],
    batch=matrixwise,
    specs=lambda examples, params: [(tuple(examples[0].shape[:-2]), float_of(examples[0].dtype))],
)
def _det(xp: Any, x: Any) -> Any:
    return xp.linalg.det(x)


# The second derivative of det along two directions is symmetric in them, so each rule serves both modes.


@primitive(
    lambda g, x: op.cofactor_change(x, g),
    lambda t, x: op.cofactor_change(x, t),
    samples=lambda: [sample(x) for x in _points()],
    batch=matrixwise,
    specs=same_layout,
)
def _cofactors(xp: Any, x: Any) -> Any:
    """Return the derivatives of det: the cofactors. Those of singular matrices come from singular values."""
    return on_finite(xp, lambda x: _all_cofactors(xp, x), x)


def _all_cofactors(xp: Any, x: Any) -> Any:
    try:
        inverse, determinant = xp.inverse_and_determinant(x)
        out = determinant[..., None, None] * xp.matrix_transpose(inverse)
        if xp.all(xp.isfinite(out)) and xp.all(determinant):
            return out
    except xp.linalg.LinAlgError:
        pass
    out = xp.empty(x.shape, float_of(x.dtype))
    for i in entries(x.shape) if x.size else ():
        out[i] = _cofactors_of(xp, x[i])
    return out


def _cofactors_of(xp: Any, x: Any) -> Any:
    """Return the cofactors of one matrix."""
    if xp.linalg.det(x):
        return xp.linalg.det(x) * xp.linalg.inv(x).T
    scale, u, s, vh = _singular_parts(xp, x, "det")
    return scale * (xp.conj(u) * _products_without_one(xp, s)) @ xp.conj(vh)


def _singular_parts(xp: Any, x: Any, operation: str) -> tuple[Any, Any, Any, Any]:
    """Return the determinant of the unitary factors, and the singular value decomposition."""
    u, s, vh = decomposed(operation, xp, x, xp.linalg.svd)
    return xp.linalg.det(u) * xp.linalg.det(vh), u, s, vh


def _products_without_one(xp: Any, s: Any) -> Any:
    """Return for each element along the last axis the product of all others."""
    before, after = _products_beside(xp, s)
    return before * after


def _products_beside(xp: Any, s: Any) -> tuple[Any, Any]:
    """Return for each element along the last axis the products of those before it, and of those after it."""
    ones = xp.ones_like(s[..., :1])
    before = xp.cumprod(xp.concat([ones, s[..., :-1]], axis=-1), axis=-1)
    after = xp.cumprod(xp.concat([ones, s[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    return before, after


def _is_quadratic(x: Any) -> bool:
    """Whether the determinant has no third derivative."""
    return x.shape[-1] < 3


def _third(x: Any, e: Any, f: Any) -> Any:
    """Return the third derivative of det along `e` and `f`."""
    return op.zeros_like(x) if _is_quadratic(x) else op.cofactor_second_change(x, e, f)


def _change_samples() -> list[Sample]:
    return [
        sample(made(3, 3, diagonal=2.0), (3, 3)),
        sample(made(2, 3, 3, diagonal=1.5), (2, 3, 3)),
        sample(made(2, 2, diagonal=1.0), (2, 2)),
        sample(made(1, 1, diagonal=1.0), (1, 1)),
        sample((0, 0), (0, 0)),
    ]


def _change_vjp(g: Any, needs: Any, x: Any, e: Any) -> list[Any]:
    return [_third(x, e, g) if needs[0] else None, op.cofactor_change(x, g) if needs[1] else None]


@primitive(
    _change_vjp,
    (lambda t, x, e: _third(x, e, t), lambda t, x: op.cofactor_change(x, t)),
    samples=_change_samples,
    batch=matrixwise,
    specs=same_layout,
    linear_in=(1,),
)
def _cofactor_change(xp: Any, x: Any, e: Any) -> Any:
    """Return the derivative of the cofactors along `e`, from singular values: no division, all exact."""
    return on_finite(xp, lambda x, e: _changed(xp, x, e), x, e)


def _changed(xp: Any, x: Any, e: Any) -> Any:
    scale, u, s, vh = _singular_parts(xp, x, "det")
    n = s.shape[-1]
    within = xp.conj(xp.matrix_transpose(u)) @ e @ xp.conj(xp.matrix_transpose(vh))
    others = xp.where(xp.eye(n, dtype=bool), xp.ones_like(s[..., None]), s[..., None, :])
    pairs = _products_without_one(xp, others) * (1 - xp.eye(n, dtype=s.dtype))
    changed = -pairs * xp.matrix_transpose(within)
    diagonal = xp.matmul(pairs, xp.linalg.diagonal(within)[..., None])[..., 0]
    changed[..., xp.arange(n), xp.arange(n)] = diagonal
    return scale[..., None, None] * (xp.conj(u) @ changed @ xp.conj(vh))


def _fourth(x: Any, e: Any, f: Any, g: Any) -> Any:
    """Return the fourth derivative of det along three changes, NaN near larger singular matrices."""
    n = x.shape[-1]
    if n < 4:
        return op.zeros_like(x)
    if n == 4:  # the third derivative is linear in the matrix
        return op.cofactor_second_change(g, e, f)
    # From the derivatives of x @ adjugate(x) = det(x) * identity: only one cancellation for each order.
    total = _total(op.cofactor_second_change(x, e, f) * g)
    rest = op.diagonal_matrix(column(total) * op.ones_like(op.diagonal(x)))
    for one, two, three in ((e, f, g), (f, g, e), (g, e, f)):
        rest = rest - three @ op.matrix_transpose(op.cofactor_second_change(x, one, two))
    return op.matrix_transpose(_well_inverted(x) @ rest)


def _well_inverted(x: Any) -> Any:
    """Return inverses, NaN in all derivatives too where some of fourth and higher order would cancel away."""
    inverse = op.inv(x, strict=False)
    sizes = [op.vector_norm(m, axis=(-2, -1), keepdims=True, ord=2) for m in (x, inverse)]
    well = op.less(sizes[0] * sizes[1], x.shape[-1] * finfo(real_of(x.dtype)).eps ** -0.2)
    return op.astype(op.where(well, 1, math.nan), dtype=inverse.dtype) * inverse


def _second_change_samples() -> list[Sample]:
    return [
        sample(made(3, 3, diagonal=2.0), (3, 3), (3, 3)),
        sample(made(1, 2, 4, 4, diagonal=1.5), (1, 2, 4, 4), (1, 2, 4, 4)),
        sample(made(5, 5, diagonal=2.0), (5, 5), (5, 5)),
        sample(made(2, 2, diagonal=1.0), (2, 2), (2, 2)),
        sample((0, 0), (0, 0), (0, 0)),
    ]


def _second_change_vjp(g: Any, needs: Any, x: Any, e: Any, f: Any) -> list[Any]:
    return [
        _fourth(x, e, f, g) if needs[0] else None,
        _third(x, f, g) if needs[1] else None,
        _third(x, e, g) if needs[2] else None,
    ]


@primitive(
    _second_change_vjp,
    (
        lambda t, x, e, f: _fourth(x, e, f, t),
        lambda t, x, e, f: _third(x, t, f),
        lambda t, x, e, f: _third(x, e, t),
    ),
    samples=_second_change_samples,
    batch=matrixwise,
    specs=same_layout,
)
def _cofactor_second_change(xp: Any, x: Any, e: Any, f: Any) -> Any:
    """Return the derivative of `cofactor_change` along `f`, from singular values: no division, all exact."""
    return on_finite(xp, lambda x, e, f: _changed_twice(xp, x, e, f), x, e, f)


def _changed_twice(xp: Any, x: Any, e: Any, f: Any) -> Any:
    scale, u, s, vh = _singular_parts(xp, x, "det")
    left, right = xp.conj(xp.matrix_transpose(u)), xp.conj(xp.matrix_transpose(vh))
    e, f = left @ e @ right, left @ f @ right
    de, df = xp.linalg.diagonal(e), xp.linalg.diagonal(f)
    n = s.shape[-1]
    changed = xp.zeros_like(e)
    index = xp.arange(n)
    for i in range(n):  # the row and column i, left out together with each pair of others
        weights = _pairs_without(xp, s, i)
        ei, fi = e[..., i, :], f[..., i, :]
        te, tf = e[..., :, i], f[..., :, i]
        crossed = ei[..., :, None] * tf[..., None, :] + te[..., None, :] * fi[..., :, None]
        straight = de[..., i, None, None] * f + df[..., i, None, None] * e
        changed += weights * (crossed - xp.matrix_transpose(straight))
        own = de[..., i, None] * df - ei * tf
        changed[..., index, index] += xp.matmul(weights, own[..., None])[..., 0]
    return scale[..., None, None] * (xp.conj(u) @ changed @ xp.conj(vh))


def _pairs_without(xp: Any, s: Any, i: int) -> Any:
    """Return for each pair of elements the product of all but them and `i`; 0 where two are the same."""
    n = s.shape[-1]
    s = xp.concat([s[..., :i], xp.ones_like(s[..., :1]), s[..., i + 1 :]], axis=-1)
    index = xp.arange(n)
    before, after = _products_beside(xp, s)
    inside = xp.where(index[None, :] > index[:, None] + 1, xp.roll(s, 1, axis=-1)[..., None, :], 1.0)
    between = xp.cumprod(inside, axis=-1)
    upper = before[..., :, None] * between * after[..., None, :]
    upper = xp.where((index[None, :] > index[:, None]) & (index != i) & (index != i)[:, None], upper, 0)
    return upper + xp.matrix_transpose(upper)


@explained
def det(x: Any, /) -> Tensor:
    """Return the determinants of square matrices.

    ``d det(A) = sum(C * dA)`` with C the cofactors, ``det(A) inv(A).T`` where there is an inverse. The first
    three derivatives are exact at singular matrices too, of any rank, and up to 4 rows all are; for larger
    matrices the fourth and higher ones are NaN at and near a singular one. Source: Jacobi's formula; Magnus
    and Neudecker (1999), Matrix Differential Calculus, chapter 8.

    Parameters
    ----------
    x : tensor
        Shape ``(..., n, n)``, real or complex; integers are computed in float64.

    Returns
    -------
    Tensor
        Shape ``(...)``; 1 for n = 0.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    DTypeError
        If the elements are no numbers, or are of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    >>> eo.linalg.det(x).backward()
    >>> print(x.grad)
    [[ 4. -2.]
     [-2.  1.]]
    """
    return apply(_det, (square(x, "det"),))


# ---- slogdet


class SlogdetResult(NamedTuple):
    """What `slogdet` returns."""

    sign: Tensor
    logabsdet: Tensor


def _slogdet_vjp(g: dict[int, Any], x: Any, out: Any) -> Any:
    total = g.get(1)
    if 0 in g and x.dtype.kind == "c":  # a real sign is constant
        turned = g[0] * out[0] * 1j  # the sign turns by i times the imaginary part of the trace
        turned = op.real(turned) * -1j
        total = turned if total is None else total + turned
    if total is None:
        return op.zeros_like(x)
    total, slope = _spread(total), op.matrix_transpose(op.inv(x, strict=False))
    idle = op.logical_and(op.equal(total, 0), op.logical_not(op.isfinite(slope)))
    return op.where(idle, 0, total * slope)


def _slogdet_jvp(t: Any, x: Any, out: Any) -> tuple[Any, Any]:
    change = _total(op.matrix_transpose(op.inv(x, strict=False)) * t)
    if x.dtype.kind == "c":
        return out[0] * op.imag(change) * 1j, op.real(change)
    return op.zeros_like(out[0]), change


def _slogdet_specs(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    shape, dtype = tuple(examples[0].shape[:-2]), examples[0].dtype
    return [(shape, float_of(dtype)), (shape, real_of(dtype))]


def _slogdet_samples() -> list[Sample]:
    points = [made(3, 3, diagonal=2.0), made(2, 2, 2, diagonal=-2.0), made(1, 1, diagonal=1.0), (0, 0)]
    return [sample(x) for x in points]


@primitive(_slogdet_vjp, _slogdet_jvp, samples=_slogdet_samples, batch=matrixwise, specs=_slogdet_specs)
def _slogdet(xp: Any, x: Any) -> Any:
    return tuple(xp.linalg.slogdet(x))


@explained
def slogdet(x: Any, /) -> SlogdetResult:
    """Return sign and logarithm of the absolute value of determinants, without over- or underflow.

    ``d logabsdet = Re(trace(A^-1 dA))``, so the gradient is ``g inv(A).mH``; the sign of a complex
    determinant turns with the imaginary part, a real one is constant. At a singular matrix the logarithm
    is ``-inf`` and its gradient NaN. Source: Giles (2008), An extended collection of matrix derivative
    results.

    Parameters
    ----------
    x : tensor
        Shape ``(..., n, n)``, real or complex; integers are computed in float64.

    Returns
    -------
    sign, logabsdet : Tensor
        A named tuple; shapes ``(...)``. The logarithm is real.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    DTypeError
        If the elements are no numbers, or are of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> sign, logabsdet = eo.linalg.slogdet(eo.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> print(sign, logabsdet)
    -1.0 0.0
    """
    return SlogdetResult(*apply(_slogdet, (square(x, "slogdet"),)))
