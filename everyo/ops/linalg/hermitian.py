"""Eigenvalues and eigenvectors of Hermitian matrices: eigh, eigvalsh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Sample, sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError
from everyo.ops.axes import is_one_of
from everyo.ops.families import primitive
from everyo.ops.linalg.common import (
    adjoint,
    decomposed,
    float_of,
    hermitian,
    made,
    matrixwise,
    real_of,
    row,
    square,
    tracked,
)
from everyo.ops.linalg.phases import steadied, turned, with_phase
from everyo.ops.reductions import conjugate, real_part
from everyo.ops.signatures import explained

__all__ = ["eigh", "eigvalsh"]


def assembled(v: Any, w: Any) -> Any:
    """Return the cotangent ``conj(v diag(w) v.mH)``."""
    return conjugate((v * row(w)) @ adjoint(v))


def _eigh_vjp(g: dict[int, Any], out: Any) -> Any:
    w, v = out
    if 1 not in g:
        return assembled(v, g[0])
    h = conjugate(g[1])
    x = adjoint(v) @ h
    if x.dtype.kind == "c":
        x = adjoint(v) @ steadied(h, v, op.imag(op.diagonal(x)))
    core = op.over_gaps(x, g.get(0), w, op.frozen(v), skew=True)
    return conjugate(v @ core @ adjoint(v))


def _eigh_jvp(t: Any, out: Any) -> tuple[Any, Any]:
    w, v = out
    e = adjoint(v) @ hermitian(t) @ v
    change = v @ op.over_gaps(e, None, w, op.frozen(v), skew=False)
    if v.dtype.kind == "c":
        change = change + v * row(turned(change, v)) * 1j
    return real_part(op.diagonal(e)), change


def _eigh_specs(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    shape, dtype = tuple(examples[0].shape), examples[0].dtype
    return [(shape[:-1], real_of(dtype)), (shape, float_of(dtype))]


def _samples() -> list[Sample]:
    return [sample(made(3, 3)), sample(made(2, 2, 2, phase=0.4)), sample(made(1, 1)), sample((0, 0))]


def _whole(xp: Any, x: Any) -> Any:
    return (x + xp.conj(xp.matrix_transpose(x))) * 0.5


@primitive(_eigh_vjp, _eigh_jvp, samples=_samples, batch=matrixwise, specs=_eigh_specs)
def _eigh(xp: Any, x: Any, *, alone: bool = False) -> Any:
    """Decompose the Hermitian parts of matrices; the largest element of a complex vector is positive.

    `alone` is for the values alone: to the last bit they are those of a call that needs no derivative.
    """
    w, v = decomposed("eigh", xp, _whole(xp, x), xp.linalg.eigh)
    w = xp.linalg.eigvalsh(_whole(xp, x)) if alone else w
    return w, with_phase(xp, v)[0] if v.dtype.kind == "c" else v


@primitive(
    None,
    None,
    samples=_samples,
    batch=matrixwise,
    missing="where it has a derivative, eigh computes it",
    specs=lambda examples, params: _eigh_specs(examples, params)[:1],
)
def _eigvalsh(xp: Any, x: Any) -> Any:
    return decomposed("eigvalsh", xp, _whole(xp, x), xp.linalg.eigvalsh)


class EighResult(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def _operand(x: Any, triangle: str | None, operation: str) -> Tensor:
    """Return the matrices to decompose; `triangle` names the part that alone is to be read."""
    x = square(x, operation)
    if triangle is None:
        return x
    if not is_one_of(triangle, ("L", "U")):
        raise ArgumentError(
            "there is no such triangle",
            operation=operation,
            expected="'L', 'U' or None",
            found=f"UPLO={triangle!r}",
            remedy="leave UPLO out for a matrix that is given whole",
        )
    strict = op.tril(x, k=-1) if triangle == "L" else op.triu(x, k=1)
    diagonal = op.diagonal_matrix(op.diagonal(x))
    return strict + adjoint(strict) + diagonal


@explained
def eigh(x: Any, /, UPLO: str | None = None) -> EighResult:
    """Return eigenvalues and eigenvectors of Hermitian matrices, ``x = v @ diag(w) @ v.mH``.

    They are those of the Hermitian part ``(x + x.mH) / 2``, so the gradient is symmetric. With
    ``e = v.mH dx v`` the derivatives are ``dw = diag(e)`` and ``dv = v (f * e)``, where
    ``f[i, j] = 1 / (w[j] - w[i])`` (M. Giles, An extended collection of matrix derivative results for
    forward and reverse mode automatic differentiation, 2008).

    Equal eigenvalues: a function of the eigenvalues that treats equal ones alike has its exact gradient;
    a single eigenvalue has a kink there and gets a subgradient. A function of the eigenvectors alone that
    does not depend on the choice of the basis, such as a projector, has its exact gradient; any other gets
    NaN, and so does, unless its share is clear, one that uses both (write matrix functions with
    `matrix_exp`, `logm`, `sqrtm`, `matrix_power`, `inv`). In forward mode the tangent of eigenvectors that
    a change mixes is NaN.

    Parameters
    ----------
    x : tensor
        Shape ``(..., n, n)``, real or complex.
    UPLO : {None, "L", "U"}, optional
        Read only the lower or upper triangle, as NumPy does.

    Returns
    -------
    eigenvalues, eigenvectors : Tensor
        A named tuple. Shapes ``(..., n)``, real and ascending, and ``(..., n, n)``, a vector in each
        column; the largest element of a complex vector is positive.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    LinAlgError
        If a decomposition is not found, as for a matrix that is not finite; the message says for which.
    DTypeError
        If the elements are no numbers, or are of float16.
    ArgumentError
        If `UPLO` names no triangle.

    Examples
    --------
    >>> import everyo as eo
    >>> w, v = eo.linalg.eigh(eo.tensor([[2.0, 0.0], [0.0, 1.0]]))
    >>> print(w)
    [1. 2.]
    """
    return EighResult(*apply(_eigh, (_operand(x, UPLO, "eigh"),), {"alone": False}))


@explained
def eigvalsh(x: Any, /, UPLO: str | None = None) -> Tensor:
    """Return the eigenvalues of Hermitian matrices, in ascending order.

    ``dw = diag(v.mH dx v)`` with the eigenvectors v; what happens at equal eigenvalues is
    told at `eigh`. Source: Giles (2008), An extended collection of matrix derivative results.

    Parameters
    ----------
    x : tensor
        Shape ``(..., n, n)``, real or complex; integers are computed in float64.
    UPLO : {None, "L", "U"}, optional
        Read only the lower or upper triangle; by default the Hermitian part is taken.

    Returns
    -------
    Tensor
        Shape ``(..., n)``, real.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    LinAlgError
        If the values are not found; the message says for which matrix.
    DTypeError
        If the elements are no numbers, or are of float16.
    ArgumentError
        If `UPLO` names no triangle.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.eye(2, requires_grad=True)
    >>> (eo.linalg.eigvalsh(x) ** 2).sum().backward()
    >>> print(x.grad)
    [[2. 0.]
     [0. 2.]]
    """
    x = _operand(x, UPLO, "eigvalsh")
    if tracked(x):  # its derivatives need the vectors
        return apply(_eigh, (x,), {"alone": True})[0]
    return apply(_eigvalsh, (x,))
