"""Eigenvalues and eigenvectors of general square matrices: eig, eigvals. Always complex."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.ops.families import primitive
from everyo.ops.linalg.common import (
    adjoint,
    decomposed,
    entries,
    float_of,
    joined,
    made,
    matrixwise,
    of_kind,
    row,
    square,
    summed,
    tracked,
)
from everyo.ops.linalg.phases import steadied, turned, with_phase
from everyo.ops.reductions import conjugate
from everyo.ops.signatures import explained

__all__ = ["eig", "eigvals"]


def _basis_vjp(g: Any, out: Any) -> Any:
    transposed = op.matrix_transpose(out)
    return -(transposed @ g @ transposed)


@primitive(
    _basis_vjp,
    lambda t, out: -(out @ t @ out),
    samples=lambda: [sample(made(3, 3, diagonal=2.0)), sample(made(2, 2, 2, diagonal=2.0)), sample((0, 0))],
    batch=matrixwise,
    specs=lambda examples, params: [(tuple(examples[0].shape), float_of(examples[0].dtype))],
)
def _basis_inverse(xp: Any, x: Any) -> Any:
    """Return the inverse of eigenvectors; NaN where they are so near to dependent that it means nothing."""
    out = op.inv(x, strict=False)
    spread = xp.linalg.norm(x, axis=(-2, -1)) * xp.linalg.norm(out, axis=(-2, -1))
    meaningless = ~(spread * xp.finfo(out.dtype).eps ** 0.75 < 1)
    return xp.where(meaningless[..., None, None], xp.full_like(out, math.nan), out)


def _steady(h: Any, v: Any) -> Any:
    """Return a cotangent of vectors without what would change their lengths and phases."""
    twist = summed(conjugate(v) * h, -2)
    h = steadied(h, v, op.imag(twist))
    return h - v * row(summed(conjugate(v) * h, -2))


def _eig_vjp(g: dict[int, Any], x_dtype: Any, out: Any) -> Any:
    w, v = out
    inverse = op.basis_inverse(v)
    gw = None if 0 not in g else conjugate(g[0])
    if 1 in g:
        turning = adjoint(v) @ _steady(conjugate(g[1]), v)
        core = op.over_gaps(turning, gw, conjugate(w), op.frozen(v), skew=False)
    else:
        core = op.diagonal_matrix(gw)
    return of_kind(conjugate(adjoint(inverse) @ core @ adjoint(v)), x_dtype)


def _eig_jvp(t: Any, out: Any) -> tuple[Any, Any]:
    w, v = out
    e = op.basis_inverse(v) @ t @ v
    change = v @ op.over_gaps(e, None, w, op.frozen(v), skew=False)
    change = change - v * row(summed(conjugate(v) * change, -2))
    return op.diagonal(e), change + v * row(turned(change, v)) * 1j


def _eig_specs(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    shape, dtype = tuple(examples[0].shape), _complex_of(examples[0].dtype)
    return [(shape[:-1], dtype), (shape, dtype)]


def _complex_of(dtype: Any) -> Any:
    """Return the complex dtype of a float dtype."""
    return joined(dtype, (float_of(dtype).type(0) * 1j).dtype)


def _samples() -> list[Sample]:
    real = Values([[1.0, 0.3, -0.2], [0.1, 2.0, 0.4], [0.3, -0.2, 4.0]])
    turning = Values([[[1.0, -2.0], [1.0, 0.5]], [[0.5, 3.0], [-1.0, -1.0]]])
    return [sample(x) for x in (real, turning, made(1, 1), (0, 0))]


@primitive(_eig_vjp, _eig_jvp, samples=_samples, batch=matrixwise, specs=_eig_specs)
def _eig(xp: Any, x: Any, *, alone: bool = False) -> Any:
    """Decompose matrices: vectors of length 1 whose largest element is positive.

    `alone` is for the values alone: to the last bit they are those of a call that needs no derivative.
    """
    w, v = decomposed("eig", xp, x, xp.linalg.eig)
    dtype = _complex_of(x.dtype)
    w, v = xp.asarray(w, dtype=dtype), xp.asarray(v, dtype=dtype)
    if alone and x.size:
        w, v = _matched(xp, w, v, xp.asarray(xp.linalg.eigvals(x), dtype=dtype))
    return w, with_phase(xp, v)[0]


def _matched(xp: Any, w: Any, v: Any, values: Any) -> tuple[Any, Any]:
    """Return `values`, which are `w` in perhaps another order, and the vectors in that order."""
    distance = xp.abs(values[..., :, None] - w[..., None, :])
    order = xp.argmin(distance, axis=-1)
    in_turn = xp.broadcast_to(xp.arange(w.shape[-1]), order.shape)
    for i in entries((*order.shape[:-1], 1, 1)):
        if len(set(order[i].tolist())) < order.shape[-1]:  # equal values: each one belongs to one vector
            order[i] = _assigned(distance[i])
    if (order == in_turn).all():
        return values, v
    return values, xp.take_along_axis(v, order[..., None, :], axis=-1)


def _assigned(distance: Any) -> list[int]:
    """Return for each row the nearest column that no earlier row has taken."""
    taken: list[int] = []
    for row_ in distance:
        taken.append(min((d, k) for k, d in enumerate(row_.tolist()) if k not in taken)[1])
    return taken


@primitive(
    None,
    None,
    samples=_samples,
    batch=matrixwise,
    missing="where it has a derivative, eig computes it",
    specs=lambda examples, params: _eig_specs(examples, params)[:1],
)
def _eigvals(xp: Any, x: Any) -> Any:
    w = decomposed("eigvals", xp, x, xp.linalg.eigvals)
    return xp.asarray(w, dtype=_complex_of(x.dtype))


class EigResult(NamedTuple):
    """What `eig` returns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@explained
def eig(x: Any, /) -> EigResult:
    """Return eigenvalues and eigenvectors of square matrices, ``x @ v = v @ diag(w)``.

    With ``e = v^-1 dx v`` the derivatives are ``dw = diag(e)`` and ``dv = v (f * e)``, where
    ``f[i, j] = 1 / (w[j] - w[i])``, less what would change the length of a vector or the phase of its
    largest element (C. Boeddeker et al., On the computation of complex-valued gradients, 2017).

    What `eigh` says of equal eigenvalues holds here too. Where the vectors are all but linearly dependent
    (a defective matrix) the eigenvalues have no derivative, and it is NaN.

    Parameters
    ----------
    x : tensor
        Shape ``(..., n, n)``, real or complex.

    Returns
    -------
    eigenvalues, eigenvectors : Tensor
        A named tuple; complex, also where they happen to be real. Shapes ``(..., n)``, in no order, and
        ``(..., n, n)``: in each column a vector of length 1 whose largest element is positive.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    LinAlgError
        If a decomposition is not found, as for a matrix that is not finite; the message says for which.
    DTypeError
        If the elements are no numbers, or are of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> w, v = eo.linalg.eig(eo.tensor([[0.0, -1.0], [1.0, 0.0]]))
    >>> print(w)
    [0.+1.j 0.-1.j]
    """
    return EigResult(*apply(_eig, (square(x, "eig"),), {"alone": False}))


@explained
def eigvals(x: Any, /) -> Tensor:
    """Return the eigenvalues of square matrices, complex and in no order.

    ``dw = diag(v^-1 dx v)`` with the eigenvectors v; what happens at equal eigenvalues is
    told at `eig`. Source: Giles (2008), An extended collection of matrix derivative results.

    Parameters
    ----------
    x : tensor
        Shape ``(..., n, n)``, real or complex; integers are computed in float64.

    Returns
    -------
    Tensor
        Shape ``(..., n)``; complex, also where they happen to be real.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    LinAlgError
        If the values are not found, as for a matrix that is not finite; the message says for which.
    DTypeError
        If the elements are no numbers, or are of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.linalg.eigvals(eo.tensor([[1.0, 5.0], [0.0, 2.0]])))
    [1.+0.j 2.+0.j]
    """
    x = square(x, "eigvals")
    if tracked(x):  # its derivatives need the vectors
        return apply(_eig, (x,), {"alone": True})[0]
    return apply(_eigvals, (x,))
