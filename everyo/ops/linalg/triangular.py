"""Triangular systems."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Sample, sample
from everyo.core.tensor import Tensor
from everyo.ops.axes import as_flag
from everyo.ops.creation import as_tensors
from everyo.ops.families import bilinear, primitive
from everyo.ops.linalg.common import (
    alike,
    broadcast,
    entries,
    first_failing,
    has_scipy,
    joined,
    made,
    matrixwise,
    right_hand_side,
    singular,
    square,
)
from everyo.ops.linalg.solving import many, solution_specs, solve_batch, with_columns
from everyo.ops.signatures import explained

__all__ = ["solve_triangular"]


def triangle(x: Any, upper: bool, unit: bool) -> Any:
    """Return the part of matrices that a triangular solver reads."""
    return op.triu(x, k=int(unit)) if upper else op.tril(x, k=-int(unit))


BLOCK = 64  # rows of a product that are computed at a time


def _triangle_samples() -> list[Sample]:
    pairs = [((3, 1), (3, 1)), ((3, 2), (3, 2)), ((2, 3, 2), (2, 3, 2)), ((0, 1), (0, 1)), ((2, 0), (2, 0))]
    return [sample(*pair, upper=u, unit=d) for pair in pairs for u in (False, True) for d in (False, True)]


@bilinear(
    lambda g, x2, upper, unit: triangle(g, upper, unit) @ x2,
    lambda g, x1, upper, unit: op.matrix_transpose(triangle(g, upper, unit)) @ x1,
    samples=_triangle_samples,
    batch=matrixwise,
)
def _triangle_of_product(xp: Any, x1: Any, x2: Any, *, upper: bool, unit: bool) -> Any:
    """Return the triangles of the matrices ``x1 @ x2.mT``; the blocks beside them are not computed."""
    n, k = x1.shape[-2:]
    if k == 1:  # NumPy does not hand products of one column and one row over to BLAS
        x1, x2 = (xp.concat([x, xp.zeros_like(x)], axis=-1) for x in (x1, x2))
    right = xp.matrix_transpose(x2)
    out = xp.empty((*x1.shape[:-1], n), dtype=joined(x1.dtype, x2.dtype))
    beside = ~xp.tri(min(n, BLOCK), k=-int(unit), dtype=bool)
    beside = xp.matrix_transpose(beside) if upper else beside
    for i in entries(out.shape) if n > BLOCK else (...,):
        _fill_triangle(xp, x1[i], right[i], out[i], upper, beside)
    return out


def _fill_triangle(xp: Any, left: Any, right: Any, out: Any, upper: bool, beside: Any) -> None:
    n = out.shape[-1]
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        rows, before, behind = slice(start, stop), slice(0, stop), slice(start, n)
        kept, cleared = (behind, slice(0, start)) if upper else (before, slice(stop, n))
        xp.matmul(left[..., rows, :], right[..., kept], out=out[..., rows, kept])
        out[..., rows, cleared] = 0
        square = out[..., rows, rows]
        xp.copyto(square, 0, where=beside[: stop - start, : stop - start])


def _triangular_vjp(
    g: Any, needs: Any, x1: Any, out: Any, upper: bool, transposed: bool, unit: bool
) -> list[Any]:
    w = op.solve_triangular(x1, g, upper=upper, transposed=not transposed, unit=unit)
    if not needs[0]:
        return [None, w]
    x, y = (out, -w) if transposed else (-w, out)
    return [op.triangle_of_product(x, y, upper=upper, unit=unit), w]


def _triangular_jvp(tangents: Any, x1: Any, out: Any, upper: bool, transposed: bool, unit: bool) -> Any:
    t1, right = tangents
    if t1 is not None:
        t1 = triangle(t1, upper, unit)
        moved = (op.matrix_transpose(t1) if transposed else t1) @ out
        right = -moved if right is None else right - moved
    return op.solve_triangular(x1, right, upper=upper, transposed=transposed, unit=unit)


def _triangular_samples() -> list[Sample]:
    pairs = [
        (made(3, 3, diagonal=2.0), (3, 2)),
        (made(2, 2, 2, diagonal=-2.0), (2, 1)),
        (made(2, 2, diagonal=2.0), (2, 2, 2)),
        ((0, 0), (0, 1)),
    ]
    settings = [(u, t, d) for u in (False, True) for t in (False, True) for d in (False, True)]
    return [sample(*pair, upper=u, transposed=t, unit=d) for pair in pairs for u, t, d in settings]


@primitive(
    _triangular_vjp,
    _triangular_jvp,
    samples=_triangular_samples,
    batch=solve_batch,
    broadcasts=True,
    specs=solution_specs,
    linear_in=(1,),
)
def _solve_triangular(xp: Any, x1: Any, x2: Any, *, upper: bool, transposed: bool, unit: bool) -> Any:
    """Solve ``x1 @ x = x2`` or its transpose for triangular `x1`; the other triangle is not read."""
    if not unit and x1.size and not xp.all(xp.linalg.diagonal(x1)):
        which = first_failing(x1, lambda m: not xp.all(xp.linalg.diagonal(m)))
        raise singular("solve_triangular", x1, which)
    dtype = joined(x1.dtype, x2.dtype)
    x1, x2 = xp.asarray(x1, dtype=dtype), xp.asarray(x2, dtype=dtype)
    if math.prod(x1.shape[:-2]) > 2 * x1.shape[-1]:
        return _solve_small(xp, x1, x2, upper, transposed, unit)
    solved = solver(xp, upper, transposed, unit)
    if x1.ndim == 2:
        return many(xp, lambda b: solved(x1, b), x2)
    lead = broadcast(x1.shape[:-2], x2.shape[:-2])
    x1, x2 = (xp.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (x1, x2))
    out = xp.empty(x2.shape, dtype)
    for i in entries(out.shape) if out.size else ():
        out[i] = solved(x1[i], x2[i])
    return out


def solver(xp: Any, upper: bool, transposed: bool, unit: bool) -> Callable[[Any, Any], Any]:
    """Return the solver for one matrix: LAPACK's for triangles, or without SciPy NumPy's for any."""
    if has_scipy(xp):
        return functools.partial(xp.solve_triangle, upper=upper, transposed=transposed, unit=unit)

    def solved_in_full(a: Any, b: Any) -> Any:
        a = xp.triu(a, int(unit)) if upper else xp.tril(a, -int(unit))
        a = a + xp.eye(a.shape[-1], dtype=a.dtype) if unit else a
        return xp.linalg.solve(xp.matrix_transpose(a) if transposed else a, b)

    return solved_in_full


def _solve_small(xp: Any, x1: Any, x2: Any, upper: bool, transposed: bool, unit: bool) -> Any:
    """Solve row by row for a whole batch at once: the matrices are many and small."""
    n = x1.shape[-1]
    a = xp.matrix_transpose(x1) if transposed else x1
    order = range(n - 1, -1, -1) if upper != transposed else range(n)
    lead = broadcast(x1.shape[:-2], x2.shape[:-2])
    out = xp.array(xp.broadcast_to(x2, (*lead, *x2.shape[-2:])))
    for i in order:
        known = slice(i + 1, n) if upper != transposed else slice(0, i)
        out[..., i, :] -= xp.matmul(a[..., i : i + 1, known], out[..., known, :])[..., 0, :]
        if not unit:
            out[..., i, :] /= a[..., i, i, None]
    return out


@explained
def solve_triangular(
    a: Any, b: Any, /, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """Return the solution x of ``a @ x = b`` for triangular `a`.

    ``dx = a^-1 (db - da x)``. With ``w`` the solution for ``a.mH`` and the gradient of the result, the
    gradient of `b` is ``w`` and that of `a` the triangle of ``-w @ x.mH``. Source: Giles (2008), An extended
    collection of matrix derivative results.

    Parameters
    ----------
    a : tensor
        Shape ``(..., n, n)``; only its triangle is read.
    b : tensor
        Shape ``(..., n, k)``, or ``(n,)`` for one vector; the leading axes broadcast.
    upper : bool
        Which triangle it is.
    left : bool, default True
        False solves ``x @ a = b`` for `b` of shape ``(..., k, n)``.
    unitriangular : bool, default False
        The diagonal counts as ones and is not read.

    Returns
    -------
    Tensor
        Of the broadcast shape of `b`.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    LinAlgError
        If a diagonal element is zero.
    DTypeError
        If the elements are no numbers, or are of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> a = eo.tensor([[2.0, 0.0], [1.0, 1.0]])
    >>> print(eo.linalg.solve_triangular(a, eo.tensor([2.0, 3.0]), upper=False))
    [1. 2.]
    """
    operation = "solve_triangular"
    a, b = as_tensors((a, b), operation)
    a, b = alike(square(a, operation), right_hand_side(b, operation))
    params = {
        "upper": as_flag(upper, "upper", operation),
        "transposed": not as_flag(left, "left", operation),
        "unit": as_flag(unitriangular, "unitriangular", operation),
    }
    vector = len(b.shape) == 1
    b = b if left or vector else op.matrix_transpose(b)
    out = with_columns(lambda a, b: apply(op.solve_triangular, (a, b), params), a, b, operation)
    return out if left or vector else op.matrix_transpose(out)
