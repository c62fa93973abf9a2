"""The Cholesky factor of positive definite matrices, and systems that it solves."""

from __future__ import annotations

from typing import Any

from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Sample, sample
from everyo.core.tensor import Tensor
from everyo.errors import LinAlgError, ShapeError, describe
from everyo.ops.axes import as_flag
from everyo.ops.creation import as_tensors
from everyo.ops.families import primitive
from everyo.ops.linalg.common import (
    adjoint,
    alike,
    entries,
    fails,
    first_failing,
    hermitian,
    inexact_array,
    joined,
    made,
    matrixwise,
    right_hand_side,
    same_layout,
    square,
)
from everyo.ops.linalg.solving import solution_specs, solve_batch, with_columns
from everyo.ops.linalg.triangular import solver
from everyo.ops.reductions import conjugate
from everyo.ops.signatures import explained

__all__ = ["cholesky", "cholesky_solve"]

BLOCK = 64  # rows that are eliminated at a time; what is left is products of matrices


def _half(x: Any) -> Any:
    """Return the lower triangle with half of the diagonal."""
    return op.tril(x, k=-1) + op.diagonal_matrix(op.diagonal(x) * 0.5)


def _solved(l: Any, x: Any) -> Any:
    return op.solve_triangular(l, x, upper=False, transposed=False, unit=False)


def _solved_transposed(l: Any, x: Any) -> Any:
    return op.solve_triangular(l, x, upper=False, transposed=True, unit=False)


def _right(l: Any, x: Any) -> Any:
    """Return ``x @ inv(conj(l))``."""
    return adjoint(_solved_transposed(l, adjoint(x)))


def _unshared(l: Any, g: Any) -> Any:
    """Return ``L^-T half(L.T g) conj(L)^-1``, the cotangent before it is shared between the triangles."""
    return _right(l, _solved_transposed(l, _half(op.matrix_transpose(l) @ g)))


def _pushed(t: Any, l: Any) -> Any:
    """Return the change ``L half(L^-1 t L^-H)`` of the factor for that of the matrix."""
    left = _solved(l, hermitian(t))
    return l @ _half(_solved(l, adjoint(left)))


def _pullback_vjp(g: Any, needs: Any, l: Any, h: Any) -> list[Any]:
    l = op.tril(l, k=0)
    found = [None, _pushed(g, l) if needs[1] else None]
    if needs[0]:
        whole, q = hermitian(g), _unshared(l, h)
        middle = _half(_solved(l, adjoint(_solved(l, whole))))
        turned = whole @ (op.matrix_transpose(q) + conjugate(q))
        cotangent = h @ op.matrix_transpose(middle) - op.matrix_transpose(_solved(l, turned))
        found[0] = op.tril(cotangent, k=0)
    return found


def _pullback_along(t: Any, l: Any, h: Any) -> Any:
    l, t = op.tril(l, k=0), op.tril(t, k=0)
    q, moved = _unshared(l, h), op.matrix_transpose(t)
    left = _solved_transposed(l, _right(l, _half(moved @ h)) - moved @ q)
    return hermitian(left - _right(l, q @ conjugate(t)))


def _pullback_samples() -> list[Sample]:
    pairs = [(made(3, 3, diagonal=3.0), (3, 3)), (made(2, 2, 2, diagonal=2.0), (2, 2, 2)), ((0, 0), (0, 0))]
    return [sample(*pair) for pair in pairs]


@primitive(
    _pullback_vjp,
    (_pullback_along, lambda t, l: op.cholesky_pullback(l, t)),
    samples=_pullback_samples,
    batch=matrixwise,
    linear_in=(1,),
    specs=lambda examples, params: [(tuple(examples[0].shape), joined(*(e.dtype for e in examples)))],
)
def _cholesky_pullback(xp: Any, l: Any, h: Any) -> Any:
    """Return the cotangent of a matrix for the cotangent `h` of its lower factor `l`."""
    if l.shape[-1] <= BLOCK:
        l = xp.tril(l)
        return hermitian(_unshared(l, h))
    out = xp.array(xp.conj(h) if h.dtype.kind == "c" else h, dtype=joined(l.dtype, h.dtype))
    for i in entries(l.shape):
        _undo(xp, l[i], out[i])
    return xp.conj(out) if out.dtype.kind == "c" else out


def _undo(xp: Any, l: Any, h: Any) -> None:
    """Undo the elimination of one matrix block by block, from the last rows on (I. Murray, 2016).

    In `h` the gradient of the factor, the conjugate of a cotangent, becomes that of the matrix.
    """
    transposed = solver(xp, upper=False, transposed=True, unit=False)

    def over(x: Any, d: Any) -> Any:  # x @ inv(d)
        return transposed(d, x.T).T

    for start in range((len(l) - 1) // BLOCK * BLOCK, -1, -BLOCK):
        rows, below = slice(start, start + BLOCK), slice(start + BLOCK, None)
        before = slice(0, start)
        d = xp.tril(l[rows, rows])
        inner = h[rows, rows]
        if start + BLOCK < len(l):
            panel = h[below, rows] = over(h[below, rows], d)
            h[below, before] -= panel @ l[rows, before]
            h[rows, before] -= panel.conj().T @ l[below, before]
            inner = inner - panel.conj().T @ l[below, rows]
            h[below, rows] *= 0.5
            h[rows, below] = h[below, rows].conj().T
        inner = d.conj().T @ xp.tril(inner)
        inner = xp.tril(inner, -1) + 0.5 * xp.diag(xp.real(xp.diagonal(inner)))
        outer = over(xp.conj(transposed(d, xp.conj(inner))), d)
        whole = 0.5 * (outer + outer.conj().T)
        h[rows, before] -= 2 * whole @ l[rows, before]
        h[rows, rows] = whole


@primitive(
    lambda g, out: op.cholesky_pullback(out, g),
    lambda t, out: _pushed(t, out),
    samples=lambda: [
        sample(made(3, 3, diagonal=4.0)),
        sample(made(2, 2, 2, diagonal=3.0)),
        sample(made(1, 1, diagonal=2.0)),
        sample((0, 0)),
        sample((2, 0, 0)),
    ],
    batch=matrixwise,
    specs=same_layout,
)
def _cholesky(xp: Any, x: Any) -> Any:
    """Return the lower factors of the matrices' Hermitian parts."""
    x = inexact_array(xp, x)
    whole = x + adjoint(x)
    whole *= 0.5
    try:
        return xp.linalg.cholesky(whole)
    except xp.linalg.LinAlgError:
        which = first_failing(whole, fails(xp.linalg.cholesky))
    raise LinAlgError(
        f"{which} is not positive definite",
        operation="cholesky",
        inputs=describe(x),
        expected="Hermitian matrices whose eigenvalues are all positive",
        found="a pivot that is not positive" if xp.all(xp.isfinite(x)) else "a NaN or an infinity",
        remedy="add a small multiple of the identity, for example 1e-6 * eo.eye(n)",
    )


@explained
def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """Return the triangular factors L of positive definite matrices, ``x = L @ L.mH``.

    The factor is that of the Hermitian part ``(x + x.mH) / 2``, so the gradient is symmetric, and elements
    on the two sides of the diagonal share it (NumPy reads one triangle alone). With ``half`` the lower
    triangle with half of the diagonal, ``dL = L half(L^-1 dx L^-H)`` (S. Särkkä, Bayesian Filtering and
    Smoothing, 2013, theorem A.1).

    Parameters
    ----------
    x : tensor
        Shape ``(..., n, n)``, real or complex.
    upper : bool, default False
        Return ``U = L.mH`` instead, ``x = U.mH @ U``.

    Returns
    -------
    Tensor
        Of the same shape, with zeros in the other triangle.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    LinAlgError
        If one is not positive definite; the message says which.
    DTypeError
        If the elements are no numbers, or are of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.linalg.cholesky(eo.tensor([[4.0, 2.0], [2.0, 2.0]])))
    [[2. 0.]
     [1. 1.]]
    """
    lower = apply(_cholesky, (square(x, "cholesky"),))
    return adjoint(lower) if as_flag(upper, "upper", "cholesky") else lower


def _solutions_vjp(g: dict[int, Any], needs: Any, l: Any, out: Any) -> list[Any]:
    inner, solution = out
    middle = _solved(l, conjugate(g[1])) if 1 in g else None
    right = g.get(0) if middle is None else conjugate(middle)
    w = _solved_transposed(l, right + g[0] if middle is not None and 0 in g else right)
    if not needs[0]:
        return [None, w]
    left, right = w, inner
    if middle is not None:
        axis = len(w.shape) - 1
        left = op.concat(w, conjugate(solution), axis=axis)
        right = op.concat(inner, middle, axis=axis)
    return [op.triangle_of_product(-left, right, upper=False, unit=False), w]


def _solutions_jvp(tangents: Any, l: Any, out: Any) -> tuple[Any, Any]:
    inner, solution = out
    t1, right = tangents
    if t1 is not None:
        t1 = op.tril(t1, k=0)
        right = -(t1 @ inner) if right is None else right - t1 @ inner
    first = _solved(l, right)
    second = first if t1 is None else first - adjoint(t1) @ solution
    return first, conjugate(_solved_transposed(l, conjugate(second)))


@primitive(
    _solutions_vjp,
    _solutions_jvp,
    samples=lambda: [
        sample(made(3, 3, diagonal=2.0), (3, 2)),
        sample(made(2, 2, 2, diagonal=-2.0), (2, 1)),
        sample(made(2, 2, diagonal=2.0), (2, 2, 2)),
        sample((0, 0), (0, 1)),
    ],
    batch=solve_batch,
    broadcasts=True,
    specs=lambda examples, params: 2 * solution_specs(examples, params),
    linear_in=(1,),
)
def _cholesky_solutions(xp: Any, l: Any, b: Any) -> Any:
    """Return ``inner`` and x with ``l @ inner = b`` and ``l.mH @ x = inner`` for lower factors `l`."""
    inner = _solved(l, b)
    return inner, xp.conj(_solved_transposed(l, xp.conj(inner)))


@explained
def cholesky_solve(b: Any, l: Any, /, *, upper: bool = False) -> Tensor:
    """Return the solution x of ``a @ x = b`` for a matrix whose Cholesky factor is known.

    ``dx = a^-1 (db - da x)`` with ``da = dl l.mH + l dl.mH``: as `solve` of the matrix that the factor is of.
    Source: Giles (2008), An extended collection of matrix derivative results.
    With ``l @ y = b`` and, for the gradient g of x, ``l @ p = g`` and ``l.mH @ w = p``, ``db = w`` and ``dl``
    is the lower triangle of ``-w @ y.mH - x @ p.mH``.

    Parameters
    ----------
    b : tensor
        Right-hand sides: shape ``(..., n, k)``, or ``(n,)`` for one vector.
    l : tensor
        The factor, shape ``(..., n, n)``: lower, ``a = l @ l.mH``, or upper, ``a = l.mH @ l``.
    upper : bool, default False
        Which of the two.

    Returns
    -------
    Tensor
        Of the broadcast shape of `b`.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    LinAlgError
        If a diagonal element of the factor is zero.
    DTypeError
        If the elements are no numbers, or are of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> l = eo.tensor([[2.0, 0.0], [1.0, 1.0]])
    >>> print(eo.linalg.cholesky_solve(eo.tensor([6.0, 4.0]), l))
    [1. 1.]
    """
    l, b = as_tensors((l, b), "cholesky_solve")
    if l.shape[-1:] != l.shape[-2:-1] and b.ndim > 1 and b.shape[-1] == b.shape[-2]:
        raise ShapeError(
            "the factor is the second argument",
            operation="cholesky_solve",
            inputs=describe(b, l),
            expected="right-hand sides (..., n, k) or (n,), then a factor (..., n, n)",
            found=f"{tuple(b.shape)}, then {tuple(l.shape)}",
            remedy="exchange the two: cholesky_solve(b, l), as in PyTorch",
        )
    l, b = alike(square(l, "cholesky_solve"), right_hand_side(b, "cholesky_solve"))
    lower = adjoint(l) if as_flag(upper, "upper", "cholesky_solve") else l
    return with_columns(lambda l, b: apply(_cholesky_solutions, (l, b))[1], lower, b, "cholesky_solve")
