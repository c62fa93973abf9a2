"""The QR decomposition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError
from everyo.ops.axes import is_one_of
from everyo.ops.families import primitive
from everyo.ops.linalg.common import (
    adjoint,
    decomposed,
    float_of,
    inexact_array,
    made,
    matrices,
    matrixwise,
    same_layout,
)
from everyo.ops.linalg.complement import complemented
from everyo.ops.reductions import conjugate, real_part
from everyo.ops.signatures import explained

__all__ = ["qr"]


@primitive(  # not linear: a change may be singular
    lambda g: g,
    lambda t: t,
    samples=lambda: [
        sample(Values([[2.0, 1.0], [0.0, 1.0]])),
        sample(made(2, 3, 3, diagonal=2.0)),
        sample((0, 0)),
    ],
    batch=matrixwise,
    specs=same_layout,
)
def _regular(xp: Any, x: Any) -> Any:
    """Return triangular matrices as they are; NaN for those with a negligible diagonal element."""
    x, n = inexact_array(xp, x), x.shape[-1]
    size = xp.abs(xp.linalg.diagonal(x))
    if not n:
        return x
    limit = 10 * n * xp.finfo(x.dtype).eps * xp.amax(size, axis=-1)
    singular = ~(xp.amin(size, axis=-1) > limit)[..., None, None]
    return xp.where(singular, xp.full_like(x, math.nan), x) if xp.any(singular) else x


def right_divided(x: Any, r: Any) -> Any:
    """Return ``x @ inv(r)`` for upper triangular `r`; NaN where that is singular."""
    solved = op.solve_triangular(
        op.regular(r), op.matrix_transpose(x), upper=True, transposed=True, unit=False
    )
    return op.matrix_transpose(solved)


def _imaginary_diagonal(x: Any) -> Any:
    """Return the matrices with i times the imaginary part of the diagonal, for complex ones alone."""
    return op.diagonal_matrix(op.imag(op.diagonal(x)) * 1j)


def _mirrored(x: Any) -> Any:
    """Return Hermitian matrices with the upper triangle of `x`."""
    upper = op.triu(x, k=1)
    return upper + adjoint(upper) + op.diagonal_matrix(real_part(op.diagonal(x)))


def _qr_vjp(g: dict[int, Any], out: Any) -> Any:
    q, r = out
    hq = conjugate(g[0]) if 0 in g else None
    inner = conjugate(g[1]) @ adjoint(r) if 1 in g else None
    if hq is not None:
        inner = -(adjoint(q) @ hq) if inner is None else inner - adjoint(q) @ hq
    total = q @ _mirrored(inner)
    total = total if hq is None else total + hq
    return op.matrix_transpose(
        op.solve_triangular(
            op.regular(r), op.matrix_transpose(conjugate(total)), upper=True, transposed=False, unit=False
        )
    )


def _qr_jvp(t: Any, out: Any) -> tuple[Any, Any]:
    q, r = out
    moved = right_divided(t, r)
    inner = adjoint(q) @ moved
    lower = op.tril(inner, k=-1)
    turning = lower - adjoint(lower)
    if q.dtype.kind == "c":
        turning = turning + _imaginary_diagonal(inner)
    return q @ (turning - inner) + moved, (inner - turning) @ r


def _qr_specs(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    (*lead, m, n), dtype = examples[0].shape, float_of(examples[0].dtype)
    return [((*lead, m, n), dtype), ((*lead, n, n), dtype)]


def _samples() -> list[Sample]:
    points = [made(3, 3, diagonal=1.0), made(4, 2), made(2, 3, 2, phase=0.3), made(1, 1), (2, 0)]
    return [sample(x) for x in points]


@primitive(_qr_vjp, _qr_jvp, samples=_samples, batch=matrixwise, specs=_qr_specs)
def _qr(xp: Any, x: Any) -> Any:
    """Decompose matrices with at least as many rows as columns."""
    return tuple(decomposed("qr", xp, x, xp.linalg.qr))


class QRResult(NamedTuple):
    """What `qr` returns."""

    Q: Tensor
    R: Tensor


@explained
def qr(x: Any, /, mode: str = "reduced") -> Any:
    """Return orthonormal columns and an upper triangular matrix with ``x = Q @ R``.

    With ``c = Q.mH dx R^-1`` and ``w = tril(c, -1) - tril(c, -1).mH`` (and i times the imaginary part of
    the diagonal of c), ``dR = (c - w) R`` and ``dQ = Q w + (1 - Q Q.mH) dx R^-1`` (S. Walter and L.
    Lehmann, Algorithmic differentiation of linear algebra functions, 2010). For a wide matrix that is the
    rule of its first columns, and ``Q.mH @ x`` gives the others. Where the first columns are linearly
    dependent there is no derivative, and it is NaN. The columns that ``mode="complete"`` adds are
    arbitrary: a function of the space they span has its exact gradient, any other NaN.

    Parameters
    ----------
    x : tensor
        Shape ``(..., m, n)``, real or complex, wide or tall.
    mode : {"reduced", "complete", "r"}
        "complete" adds columns until Q is square; "r" returns R alone.

    Returns
    -------
    Q, R : Tensor
        A named tuple. With k the smaller of m and n, shapes ``(..., m, k)`` and ``(..., k, n)``, or
        ``(..., m, m)`` and ``(..., m, n)``.

    Raises
    ------
    ShapeError
        If `x` has less than two axes.
    ArgumentError
        If there is no such mode.
    DTypeError
        If the elements are no numbers, or are of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> Q, R = eo.linalg.qr(eo.tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> print(eo.abs(R[0, 0]))
    5.0
    """
    if not is_one_of(mode, ("reduced", "complete", "r")):
        raise ArgumentError(
            "there is no such mode",
            operation="qr",
            expected="'reduced', 'complete' or 'r'",
            found=f"mode={mode!r}",
            remedy="use mode='reduced', the default",
        )
    x = matrices(x, "qr")
    m, n = x.shape[-2:]
    if m >= n:
        q, r = apply(_qr, (x,))
    else:
        q, r = apply(_qr, (x[..., :m],))
        r = op.concat(r, adjoint(q) @ x[..., m:], axis=len(x.shape) - 1)
    if mode == "r":
        return r
    if mode == "complete" and m > n:
        below = op.zeros_like(x[..., : m - n, :])
        q, r = complemented(q), op.concat(r, below, axis=len(x.shape) - 2)
    return QRResult(q, r)
