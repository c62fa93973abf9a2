"""Singular values and vectors: svd, svdvals, matrix_rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from everyo.core.dispatch import apply
from everyo.core.dtypes import int64
from everyo.core.registry import op
from everyo.core.samples import Sample, sample
from everyo.core.tensor import Tensor
from everyo.ops.axes import as_flag
from everyo.ops.creation import as_tensor, real_number
from everyo.ops.families import primitive
from everyo.ops.linalg.common import (
    above,
    adjoint,
    decomposed,
    float_of,
    hermitian,
    made,
    matrices,
    matrixwise,
    real_of,
    row,
    tracked,
)
from everyo.ops.linalg.complement import complemented
from everyo.ops.linalg.phases import steadied, turned, with_phase
from everyo.ops.reductions import conjugate, real_part
from everyo.ops.signatures import composed, explained

__all__ = ["matrix_rank", "svd", "svdvals"]


def _assembled(u: Any, s: Any, vh: Any) -> Any:
    return conjugate((u * row(s)) @ vh)


def _outside(x: Any, u: Any, h: Any) -> Any:
    """Return the part of vectors `h` that is orthogonal to the columns of `u`, for ``x = u.mH @ h``."""
    return h - u @ x


def _both(u: Any, v: Any) -> Any:
    """Return left and right vectors above each other, for decisions."""
    return op.frozen(above(u, v))


def _svd_vjp(g: dict[int, Any], out: Any) -> Any:
    u, s, vh = out
    if 0 not in g and 2 not in g:
        return _assembled(u, g[1], vh)
    v = adjoint(vh)
    hu = conjugate(g[0]) if 0 in g else op.zeros_like(u)
    hv = op.matrix_transpose(g[2]) if 2 in g else op.zeros_like(v)
    xu, xv = adjoint(u) @ hu, vh @ hv
    if xu.dtype.kind == "c":
        hu = steadied(hu, u, op.imag(op.diagonal(xu + xv)))
        xu = adjoint(u) @ hu
    vectors = _both(u, v)
    gs = None
    if 1 in g:
        strict = u.shape[-2] != v.shape[-2] or u.dtype.kind == "c"
        gs = op.trusted(g[1], op.frozen(s), vectors, strict=strict)
    core = op.over_gaps(xu + xv, gs, s, vectors, skew=True) + op.over_sums(xu - xv, s)
    left, right = u @ core, None
    if u.shape[-2] > u.shape[-1]:
        left = left + op.over_values(_outside(xu, u, hu), hu, s)
    if v.shape[-2] > v.shape[-1]:
        right = u @ adjoint(op.over_values(_outside(xv, v, hv), hv, s))
    total = left @ vh if right is None else left @ vh + right
    return conjugate(total)


def _svd_jvp(t: Any, out: Any) -> tuple[Any, Any, Any]:
    u, s, vh = out
    v = adjoint(vh)
    tv, tu = t @ v, adjoint(t) @ u
    e = adjoint(u) @ tv
    common, opposed = op.over_gaps(hermitian(e), None, s, op.frozen(u), skew=False), op.over_sums(e, s)
    du, dv = u @ (common + opposed), v @ (common - opposed)
    if u.shape[-2] > u.shape[-1]:
        du = du + op.over_values(_outside(e, u, tv), tv, s)
    if v.shape[-2] > v.shape[-1]:
        dv = dv + op.over_values(_outside(adjoint(e), v, tu), tu, s)
    if u.dtype.kind == "c":
        rates = row(turned(du, u)) * 1j
        du, dv = du + u * rates, dv + v * rates
    return du, real_part(op.diagonal(e)), adjoint(dv)


def _svd_specs(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    (*lead, m, n), dtype = examples[0].shape, examples[0].dtype
    k, inexact = min(m, n), float_of(dtype)
    return [((*lead, m, k), inexact), ((*lead, k), real_of(dtype)), ((*lead, k, n), inexact)]


def _samples() -> list[Sample]:
    points = [
        made(3, 3, diagonal=1.0),
        made(4, 2),
        made(2, 3),
        made(2, 3, 2, phase=0.3),
        made(2, 2, 3, phase=0.3),
        made(1, 1),
        (0, 2),
    ]
    return [sample(x) for x in points]


@primitive(_svd_vjp, _svd_jvp, samples=_samples, batch=matrixwise, specs=_svd_specs)
def _svd(xp: Any, x: Any, *, alone: bool = False) -> Any:
    """Decompose matrices; the largest element of a complex left vector is positive.

    `alone` is for the values alone: to the last bit they are those of a call that needs no derivative.
    """
    u, s, vh = decomposed("svd", xp, x, lambda x: xp.linalg.svd(x, full_matrices=False))
    if u.dtype.kind == "c":
        u, phase = with_phase(xp, u)
        vh = vh * xp.conj(xp.matrix_transpose(phase))
    return u, (xp.linalg.svd(x, compute_uv=False) if alone else s), vh


@primitive(
    None,
    None,
    samples=_samples,
    batch=matrixwise,
    missing="where it has a derivative, svd computes it",
    specs=lambda examples, params: _svd_specs(examples, params)[1:2],
)
def _svdvals(xp: Any, x: Any) -> Any:
    return decomposed("svdvals", xp, x, lambda x: xp.linalg.svd(x, compute_uv=False))


class SVDResult(NamedTuple):
    """What `svd` returns."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@composed
def svd(x: Any, /, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Return the singular value decomposition of matrices, ``x = (U * S) @ Vh``.

    With ``e = U.mH dx V``, its Hermitian part h and its skew-Hermitian part k, ``dS = diag(h)``,
    ``U.mH dU = f * h + k / (S[i] + S[j])`` and ``V.mH dV = f * h - k / (S[i] + S[j])``, where
    ``f[i, j] = 1 / (S[j] - S[i])`` (J. Townsend, Differentiating the singular value decomposition, 2016).

    Equal singular values: as for the eigenvalues of `eigh`, with U and V turned together. So ``U @ Vh`` has
    its exact gradient there, and a sum of singular values has too. A singular value that is zero is taken
    to change its sign, together with its vectors (in `svdvals` it has a kink instead, and the slope 0).
    Vectors of several zeros, and the columns that ``full_matrices`` adds, are arbitrary: a function of the
    space that they span has its exact gradient, any other NaN. So has one that uses a zero singular value
    and its vectors together, unless these determine each other: in a real square matrix with one zero.

    Parameters
    ----------
    x : tensor
        Shape ``(..., m, n)``, real or complex, wide or tall.
    full_matrices : bool, default True
        Add vectors until U and Vh are square. They cost more and are seldom needed.
    compute_uv : bool, default True
        False returns the singular values alone, as `svdvals` does.
    hermitian : bool, default False
        NumPy's promise that the matrices are Hermitian; the result is the same without it.

    Returns
    -------
    U, S, Vh : Tensor
        A named tuple. With k the smaller of m and n the shapes are ``(..., m, k)``, ``(..., k)``, real and
        descending, and ``(..., k, n)``; the largest element of a complex column of U is positive.

    Raises
    ------
    ShapeError
        If `x` has less than two axes.
    LinAlgError
        If a decomposition is not found, as for a matrix that is not finite; the message says for which.
    DTypeError
        If the elements are no numbers, or are of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> U, S, Vh = eo.linalg.svd(eo.tensor([[3.0, 0.0], [0.0, 4.0]]))
    >>> print(S)
    [4. 3.]
    """
    x = matrices(x, "svd")
    if not as_flag(compute_uv, "compute_uv", "svd"):
        return svdvals(x)
    u, s, vh = apply(_svd, (x,), {"alone": False})
    if as_flag(full_matrices, "full_matrices", "svd"):
        m, n = x.shape[-2:]
        u = complemented(u) if m > n else u
        vh = adjoint(complemented(adjoint(vh))) if n > m else vh
    return SVDResult(u, s, vh)


@explained
def svdvals(x: Any, /) -> Tensor:
    """Return the singular values of matrices, in descending order.

    ``dS = diag(U.mH dx V)``; equal ones are treated as in `svd`. One that is zero has a kink and the slope
    0, as `abs` has. Source: Giles (2008), An extended collection of matrix derivative results.

    Parameters
    ----------
    x : tensor
        Shape ``(..., m, n)``, real or complex.

    Returns
    -------
    Tensor
        Shape ``(..., min(m, n))``, real.

    Raises
    ------
    ShapeError
        If `x` has less than two axes.
    LinAlgError
        If a decomposition is not found, as for a matrix that is not finite; the message says for which.
    DTypeError
        If the elements are no numbers, or are of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.linalg.svdvals(eo.tensor([[3.0, 0.0], [0.0, 4.0]])))
    [4. 3.]
    """
    x = matrices(x, "svdvals")
    if tracked(x):  # its derivatives need the vectors
        return op.kinked(apply(_svd, (x,), {"alone": True})[1])
    return apply(_svdvals, (x,))


@primitive(
    None,
    None,
    samples=lambda: [
        sample(made(3, 3), rtol=None),
        sample(made(2, 2, 3), rtol=0.5),
        sample(made(4, 2), rtol=None),
        sample((2, 0, 3), rtol=None),
    ],
    batch=matrixwise,
    missing="its result is discrete",
    family="linear algebra",
    specs=lambda examples, params: [(tuple(examples[0].shape[:-2]), int64)],
)
def _matrix_rank(xp: Any, x: Any, *, rtol: float | None) -> Any:
    s = decomposed("matrix_rank", xp, x, lambda x: xp.linalg.svd(x, compute_uv=False))
    rtol = max(x.shape[-2:]) * xp.finfo(s.dtype).eps if rtol is None else rtol
    limit = rtol * xp.amax(s, axis=-1, keepdims=True, initial=0.0)
    return xp.asarray(xp.sum(s > limit, axis=-1), dtype=xp.int64)


@explained
def matrix_rank(x: Any, /, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Tensor:
    """Return how many singular values of matrices are not negligible; it has no gradient.

    Parameters
    ----------
    x : tensor
        Shape ``(..., m, n)``.
    tol : number or tensor, optional
        Which singular values are negligible, as an absolute limit in place of a relative one.
    hermitian : bool, default False
        NumPy's promise that the matrices are Hermitian; the result is the same without it.
    rtol : number or tensor, optional
        Which part of the largest singular value is negligible; ``max(m, n)`` times the precision of the
        dtype by default. A tensor has one number for each matrix.

    Returns
    -------
    Tensor
        Integers of shape ``(...)``.

    Raises
    ------
    ShapeError
        If `x` has less than two axes.
    LinAlgError
        If a decomposition is not found, as for a matrix that is not finite; the message says for which.
    DTypeError
        If the elements are no numbers, or are of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.linalg.matrix_rank(eo.ones((3, 3))))
    1
    """
    x = matrices(x, "matrix_rank")
    if tol is not None:
        s = svdvals(x.detach())
        return op.sum(s > as_tensor(tol)[..., None], axis=(len(s.shape) - 1,), keepdims=False)
    if rtol is None or isinstance(rtol, (int, float)):
        rtol = None if rtol is None else real_number(rtol, "matrix_rank", "rtol")
        return apply(_matrix_rank, (x,), {"rtol": rtol})
    s = svdvals(x.detach())
    limit = as_tensor(rtol)[..., None] * op.max(s, axis=(len(s.shape) - 1,), keepdims=True)
    return op.sum(s > limit, axis=(len(s.shape) - 1,), keepdims=False)
