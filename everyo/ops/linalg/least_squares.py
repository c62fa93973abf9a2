"""Systems without an exact or unique solution: pinv, lstsq."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from everyo.core.batching import trailing
from everyo.core.dispatch import apply
from everyo.core.dtypes import int64
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError
from everyo.ops.creation import as_tensor, as_tensors, real_number, zeros
from everyo.ops.families import primitive
from everyo.ops.known import is_known
from everyo.ops.linalg.common import (
    adjoint,
    alike,
    decomposed,
    float_of,
    inexact_array,
    joined,
    made,
    matrices,
    matrixwise,
    real_of,
    right_hand_side,
    row,
    summed,
)
from everyo.ops.linalg.pseudoinverse import chain, cut_share, cuts, pinv_jvp, pinv_vjp
from everyo.ops.linalg.solving import with_columns
from everyo.ops.reductions import conjugate, real_part
from everyo.ops.signatures import explained
from everyo.ops.units import unit_of

__all__ = ["lstsq", "pinv"]


def _pinv_samples() -> list[Sample]:
    points = [made(3, 3, diagonal=2.0), made(4, 2), made(2, 3), made(2, 3, 2), made(1, 1), (0, 2)]
    cut = [sample(made(3, 3, diagonal=2.0), rtol=0.6), sample(made(4, 3), rtol=0.5)]
    return [*(sample(x, rtol=None) for x in points), *cut]


def _pinv_specs(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    *lead, m, n = examples[0].shape
    return [((*lead, n, m), float_of(examples[0].dtype))]


@primitive(pinv_vjp, pinv_jvp, samples=_pinv_samples, batch=matrixwise, specs=_pinv_specs)
def _pinv(xp: Any, x: Any, *, rtol: Any) -> Any:
    if rtol is None:
        rtol = max(x.shape[-2:]) * xp.finfo(float_of(x.dtype)).eps
    x = inexact_array(xp, x)
    return decomposed("pinv", xp, x, lambda m: xp.linalg.pinv(m, rtol=xp.asarray(rtol)))


def _tolerance(rtol: Any, operation: str) -> Any:
    """Return a relative tolerance as a static parameter: a number, or nested tuples of them."""
    if rtol is None or isinstance(rtol, (int, float)):
        return None if rtol is None else real_number(rtol, operation, "rtol")
    given = as_tensor(rtol)
    if given.dtype.kind == "c":
        real_number(given.reshape(-1)[0] if given.size else 1j, operation, "rtol")  # its error
    return _tuples(given.tolist()) if given.size else None  # none for no matrices


def _tuples(values: Any) -> Any:
    return tuple(map(_tuples, values)) if isinstance(values, list) else float(values)


@explained
def pinv(x: Any, /, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Tensor:
    """Return the pseudoinverses of matrices.

    With B the pseudoinverse of A, ``dB = -B dA B + B B.mH dA.mH (1 - A B) + (1 - B A) dA.mH B.mH B`` (G.
    Golub and V. Pereyra, The differentiation of pseudo-inverses and nonlinear least squares problems, 1973).
    Singular values that are cut off remain so: where they are zero this is the derivative along matrices of
    the same rank. Where they are not, what turns them into kept ones is added (`pseudoinverse` derives it).

    Parameters
    ----------
    x : tensor
        Shape ``(..., m, n)``, real or complex, wide or tall.
    rcond, rtol : number or tensor, optional
        Which part of the largest singular value counts as zero (one of the two names: NumPy's or the
        standard's); ``max(m, n)`` times the precision of the dtype by default.
    hermitian : bool, default False
        NumPy's promise that the matrices are Hermitian; the result is the same without it.

    Returns
    -------
    Tensor
        Shape ``(..., n, m)``.

    Raises
    ------
    ShapeError
        If `x` has less than two axes.
    ArgumentError
        If both tolerances are given.
    LinAlgError
        If a decomposition is not found, as for a matrix that is not finite; the message says for which.
    DTypeError
        If the elements are no numbers, or are of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.linalg.pinv(eo.tensor([[2.0, 0.0], [0.0, 0.0]])))
    [[0.5 0. ]
     [0.  0. ]]
    """
    if rcond is not None and rtol is not None:
        raise ArgumentError(
            "the tolerance is given twice",
            operation="pinv",
            expected="rcond or rtol",
            found=f"rcond={rcond!r}, rtol={rtol!r}",
            remedy="leave one of them out",
        )
    tolerance = _tolerance(rcond if rtol is None else rtol, "pinv")
    return apply(_pinv, (matrices(x, "pinv"),), {"rtol": tolerance})


# ---- least squares


def _lstsq_vjp(g: dict[int, Any], needs: Any, a: Any, b: Any, out: Any, rcond: Any) -> list[Any]:
    by_a, by_b = _solution_vjp(g[0], needs, a, b, out[0], rcond) if 0 in g else (None, None)
    if 1 in g and needs[0]:
        u, s, vh = op.svd(a)
        moved = conjugate((u * row(g[1] * op.nonzero_values(s))) @ vh)
        by_a = moved if by_a is None else by_a + moved
    return [by_a, by_b]


def _solution_vjp(g: Any, needs: Any, a: Any, b: Any, x: Any, rcond: Any) -> tuple[Any, Any]:
    p, h = op.pinv(a, rtol=rcond), conjugate(g)
    w = adjoint(p) @ h
    if not needs[0]:
        return None, conjugate(w)
    rest = b - a @ x
    unit = unit_of(a)  # measured in it, no product on the way leaves the range
    scaled, p, h = a / unit, p * unit, h / unit
    adjoined = adjoint(h)
    outside = (adjoint(p) @ x) @ adjoined
    moved = (rest / unit) @ ((adjoined @ p) @ adjoint(p)) + outside - chain(outside, p, scaled)
    if cuts(a, rcond):
        moved = moved + cut_share(scaled, p, (b / unit) @ adjoined, rcond)
    return conjugate(moved - w @ adjoint(x)), conjugate(w)


def _lstsq_jvp(tangents: Any, a: Any, b: Any, out: Any, rcond: Any) -> tuple[Any, Any]:
    ta, tb = tangents
    x, p = out[0], op.pinv(a, rtol=rcond)
    if ta is None:
        return p @ tb, op.zeros_like(out[1])
    unit = unit_of(a)  # as above
    scaled, scaled_p, scaled_ta = a / unit, p * unit, ta / unit
    ph, th = adjoint(scaled_p), adjoint(scaled_ta)
    within = th @ (ph @ x)
    change = scaled_p @ (ph @ (th @ ((b - a @ x) / unit)) - scaled_ta @ x - scaled @ within) + within
    if cuts(a, rcond):
        change = change + adjoint(cut_share(scaled, scaled_p, scaled_ta, rcond)) @ (b / unit)
    u, s, vh = op.svd(a)
    moved = real_part(op.diagonal(adjoint(u) @ ta @ adjoint(vh))) * op.nonzero_values(s)
    return (change if tb is None else change + p @ tb), moved


def _lstsq_samples() -> list[Sample]:
    return [
        sample(made(4, 2), (4, 2), rcond=None),
        sample(made(2, 3), (2, 1), rcond=None),
        sample(made(3, 3, diagonal=2.0), (3, 1), rcond=None),
        sample(made(2, 3, 2), (2, 3, 1), rcond=None),
        sample(made(3, 3, diagonal=2.0), (3, 2), rcond=0.6),
    ]


def _lstsq_specs(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    a, b = examples
    *lead, m, n = a.shape
    return [((*lead, n, b.shape[-1]), joined(a.dtype, b.dtype)), ((*lead, min(m, n)), real_of(a.dtype))]


@primitive(_lstsq_vjp, _lstsq_jvp, samples=_lstsq_samples, batch=matrixwise, specs=_lstsq_specs)
def _lstsq(xp: Any, a: Any, b: Any, *, rcond: Any) -> Any:
    """Return solutions and singular values, for matrices and right-hand sides of one batch."""
    a, b = inexact_array(xp, a), inexact_array(xp, b)
    rtol = max(a.shape[-2:]) * xp.finfo(a.dtype).eps if rcond is None else rcond
    if a.ndim == 2 and b.size:
        x, _, _, s = decomposed("lstsq", xp, a, lambda a: xp.linalg.lstsq(a, b, rcond=rtol))
        return x, s
    u, s, vh = decomposed("lstsq", xp, a, lambda a: xp.linalg.svd(a, full_matrices=False))
    kept = s > rtol * xp.amax(s, axis=-1, keepdims=True, initial=0.0)
    factors = xp.where(kept, 1 / xp.where(kept, s, 1), 0)
    inverse = xp.conj(xp.matrix_transpose((u * factors[..., None, :]) @ vh))
    return inverse @ b, s


@primitive(
    None,
    None,
    samples=lambda: [sample(Values([2.0, 1.0, 1e-9]), rtol=1e-6), sample((0,), rtol=0.0)],
    batch=trailing(1),
    missing="its result is discrete",
    specs=lambda examples, params: [(tuple(examples[0].shape[:-1]), int64)],
)
def _rank_of_values(xp: Any, s: Any, *, rtol: float) -> Any:
    """Return how many singular values are larger than a part of the largest."""
    limit = rtol * xp.amax(s, axis=-1, keepdims=True, initial=0.0)
    return xp.asarray(xp.sum(s > limit, axis=-1), dtype=xp.int64)


class LstsqResult(NamedTuple):
    """What `lstsq` returns."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@explained
def lstsq(a: Any, b: Any, /, rcond: Any = None) -> LstsqResult:
    """Return the x that makes ``abs(a @ x - b)`` smallest; of several the shortest.

    It is ``pinv(a) @ b``, and so are its derivatives (G. Golub and V. Pereyra, 1973). The derivatives of
    the singular values are those of `svdvals`.

    Parameters
    ----------
    a : tensor
        Shape ``(..., m, n)``, real or complex, wide or tall.
    b : tensor
        Shape ``(..., m, k)`` with the same leading axes, or ``(m,)`` for one vector.
    rcond : number, optional
        Which part of the largest singular value counts as zero; ``max(m, n)`` times the precision of the
        dtype by default.

    Returns
    -------
    solution, residuals, rank, singular_values : Tensor
        A named tuple: shape ``(..., n, k)`` or ``(n,)``; the squared lengths ``(..., k)`` of the columns of
        ``b - a @ x``, empty unless m > n; the ranks; the singular values of `a`, descending. For one matrix
        whose rank is below n the residuals are empty too, as in NumPy; not so for a batch and inside `vmap`
        and `compile`, where a shape cannot depend on values.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    LinAlgError
        If a decomposition is not found, as for a matrix that is not finite; the message says for which.
    DTypeError
        If the elements are no numbers, or are of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> a = eo.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> print(eo.round(eo.linalg.lstsq(a, eo.tensor([1.0, 3.0, 5.0])).solution))
    [1. 2.]
    """
    rcond = None if rcond is None else real_number(rcond, "lstsq", "rcond")
    a, b = as_tensors((a, b), "lstsq")
    a, b = alike(matrices(a, "lstsq"), right_hand_side(b, "lstsq"))
    rest: list[Any] = []

    def solved(a: Tensor, b: Tensor) -> Tensor:
        lead = a.shape[:-2] if len(a.shape) >= len(b.shape) else b.shape[:-2]
        a, b = (op.broadcast_to(x, shape=(*lead, *x.shape[-2:])) for x in (a, b))
        x, s = apply(_lstsq, (a, b), {"rcond": rcond})
        rtol = max(a.shape[-2:]) * float(a.backend.xp.finfo(a.dtype).eps) if rcond is None else rcond
        rank = apply(_rank_of_values, (s.detach(),), {"rtol": rtol})
        size = op.abs(b - a @ x)
        rest.extend((summed(size * size, -2), rank, s))
        return x

    x = with_columns(solved, a, b, "lstsq")
    residuals, rank, s = rest
    if a.shape[-2] <= a.shape[-1] or (not rank.shape and is_known(rank) and rank.item() < a.shape[-1]):
        residuals = zeros((*residuals.shape[:-1], 0), dtype=residuals.dtype)
    return LstsqResult(x, residuals, rank, s)
