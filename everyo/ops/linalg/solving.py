"""Linear systems with square matrices: solve, inv, and NumPy's tensor versions of both.

The derivatives of a solution are solutions of systems with the same matrix or its transpose. The factors of
a matrix are therefore computed once and kept for them where they may be asked for; a batch of small matrices
is solved anew, which is quicker than a loop in Python over its factors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.batching import everywhere
from everyo.core.dispatch import apply
from everyo.core.dtypes import int32
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.samples import Sample, sample
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.ops.axes import as_integer, as_items, normalize_axis
from everyo.ops.creation import as_tensor, as_tensors
from everyo.ops.families import primitive
from everyo.ops.known import is_known
from everyo.ops.linalg.common import (
    alike,
    broadcast,
    column,
    entries,
    fails,
    first_failing,
    float_of,
    has_scipy,
    joined,
    made,
    matrixwise,
    named,
    not_half,
    right_hand_side,
    same_layout,
    singular,
    square,
)
from everyo.ops.reductions import inexact
from everyo.ops.signatures import composed, explained

__all__ = ["inv", "solve", "tensorinv", "tensorsolve"]

FACTORED = 24  # rows from which on the factors are worth a call for each matrix


# ---- inverses


def _inv_vjp(g: Any, out: Any) -> Any:
    transposed = op.matrix_transpose(out)
    return -(transposed @ g @ transposed)


def _inv_samples() -> list[Sample]:
    points = [made(3, 3, diagonal=2.0), made(2, 2, 2, diagonal=-2.0), made(1, 1, diagonal=2.0), (0, 0)]
    return [sample(x, strict=s) for x in points for s in (True, False)]


@primitive(
    _inv_vjp,
    lambda t, out: -(out @ t @ out),
    samples=_inv_samples,
    batch=matrixwise,
    specs=same_layout,
)
def _inv(xp: Any, x: Any, *, strict: bool = True) -> Any:
    """Return inverses; those of singular matrices are NaN unless `strict`."""
    inverse = xp.inverse
    try:
        return inverse(x)
    except xp.linalg.LinAlgError:
        if strict:
            raise singular("inv", x, first_failing(x, fails(inverse))) from None
    failing, out = fails(inverse), xp.full(x.shape, math.nan, float_of(x.dtype))
    for i in entries(x.shape):
        if not failing(x[i]):
            out[i] = inverse(x[i])
    return out


@explained
def inv(x: Any, /) -> Tensor:
    """Return the inverses of square matrices.

    ``dB = -B dA B`` for ``B = inv(A)``, so the gradient is ``-B.mH g B.mH``: the inverse is all that
    is kept. Source: Giles (2008), An extended collection of matrix derivative results.
    `solve` is quicker and more exact than a product with an inverse.

    Parameters
    ----------
    x : tensor
        Shape ``(..., n, n)``, real or complex; integers are computed in float64.

    Returns
    -------
    Tensor
        Of the same shape.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    LinAlgError
        If one is singular; the message says which.
    DTypeError
        If the elements are no numbers, or are of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.linalg.inv(eo.tensor([[2.0, 0.0], [0.0, 4.0]])))
    [[0.5  0.  ]
     [0.   0.25]]
    """
    return apply(_inv, (square(x, "inv"),), {"strict": True})


# ---- systems


def _matrix_cotangent(w: Any, out: Any, transposed: bool) -> Any:
    """Return the cotangent of the matrix, where `w` is that of the right-hand side."""
    return -(out @ op.matrix_transpose(w)) if transposed else -(w @ op.matrix_transpose(out))


def _right_tangent(tangents: Sequence[Any], out: Any, transposed: bool) -> Any:
    """Return the right-hand side of the system that the solution's tangent solves."""
    t1, t2 = tangents[:2]
    if t1 is None:
        return t2
    moved = -((op.matrix_transpose(t1) if transposed else t1) @ out)
    return moved if t2 is None else t2 + moved


def _solve_vjp(g: Any, needs: Any, x1: Any, out: Any, transposed: bool) -> list[Any]:
    w = op.solve(x1, g, transposed=not transposed)
    return [_matrix_cotangent(w, out, transposed) if needs[0] else None, w]


def _solve_jvp(tangents: Any, x1: Any, out: Any, transposed: bool) -> Any:
    return op.solve(x1, _right_tangent(tangents, out, transposed), transposed=transposed)


def _solve_samples() -> list[Sample]:
    pairs = [
        (made(3, 3, diagonal=2.0), (3, 2)),
        (made(2, 2, 2, diagonal=2.0), (2, 2, 1)),
        (made(2, 2, diagonal=2.0), (2, 2, 3)),
        (made(2, 2, 2, diagonal=2.0), (2, 1)),
        (made(2, 1, 2, 2, diagonal=2.0), (3, 2, 1)),
        ((0, 0), (0, 2)),
        (made(1, 1, diagonal=2.0), (1, 0)),
    ]
    return [sample(*pair, transposed=t) for pair in pairs for t in (False, True)]


def solution_specs(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Return shape and dtype of a solution, from the matrix and the right-hand side."""
    x1, x2 = examples[:2]
    return [((*broadcast(x1.shape[:-2], x2.shape[:-2]), *x2.shape[-2:]), joined(x1.dtype, x2.dtype))]


def solve_batch(solving: Primitive, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    """One system with many right-hand sides where the matrix is the same for the whole batch."""
    x1, x2, *factors = inputs
    if batched[0] or any(batched[2:]):
        x1, x2, *factors = everywhere(inputs, batched, size)
        rank = max(len(x1.shape), len(x2.shape))
        x1, x2 = (_with_axes(x, rank) for x in (x1, x2))
        factors = [_with_axes(f, rank - (f.dtype.kind == "i")) for f in factors]
        return solving(x1, x2, *factors, **params)
    if len(x1.shape) > len(x2.shape) - 1:
        x2 = _with_axes(x2, len(x1.shape) + 1)
    return solving(x1, x2, *factors, **params)


def _with_axes(x: Any, rank: int) -> Any:
    """Return a batched operand with axes of length 1 after the batch, `rank` in all."""
    missing = rank - len(x.shape)
    return x if missing <= 0 else op.reshape(x, shape=(x.shape[0], *(1,) * missing, *x.shape[1:]))


@primitive(
    _solve_vjp,
    _solve_jvp,
    samples=_solve_samples,
    batch=solve_batch,
    broadcasts=True,
    specs=solution_specs,
    linear_in=(1,),
)
def _solve(xp: Any, x1: Any, x2: Any, *, transposed: bool) -> Any:
    """Solve ``x1 @ x = x2``, or with the transpose of `x1`."""
    x1 = xp.matrix_transpose(x1) if transposed else x1
    try:
        if x1.ndim == 2 < x2.ndim:
            return many(xp, lambda b: xp.linalg.solve(x1, b), x2)
        return xp.linalg.solve(x1, x2)
    except xp.linalg.LinAlgError:
        raise singular("solve", x1, first_failing(x1, fails(xp.linalg.inv))) from None


def _factor_specs(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    x = examples[0]
    return [(tuple(x.shape), float_of(x.dtype)), (tuple(x.shape[:-1]), int32)]


@primitive(
    None,
    None,
    samples=lambda: [sample(made(3, 3, diagonal=2.0)), sample(made(2, 2, 2, diagonal=2.0)), sample((0, 0))],
    batch=matrixwise,
    missing="derivatives of a solution go through the matrix itself",
    specs=_factor_specs,
)
def _lu_of_square(xp: Any, x: Any) -> Any:
    """Return the triangular factors, transposed and in one array, and the row interchanges."""
    x = xp.asarray(x, dtype=float_of(x.dtype))
    factors, rows = xp.empty(x.shape, x.dtype), xp.empty(x.shape[:-1], xp.int32)
    for i in entries(x.shape) if x.shape[-1] else ():
        lu, rows[i], info = xp.lapack("getrf", x[i])
        factors[i] = xp.matrix_transpose(lu)  # so that the factors lie in memory as LAPACK reads them
        if info > 0:
            raise singular("solve", x, named(i))
    return factors, rows


def _factored_vjp(g: Any, needs: Any, x1: Any, factors: Any, rows: Any, out: Any, transposed: bool) -> Any:
    w = _solve_factored(x1, g, factors, rows, transposed=not transposed)
    return [_matrix_cotangent(w, out, transposed) if needs[0] else None, w, None, None]


def _factored_jvp(tangents: Any, x1: Any, factors: Any, rows: Any, out: Any, transposed: bool) -> Any:
    right = _right_tangent(tangents, out, transposed)
    return _solve_factored(x1, right, factors, rows, transposed=transposed)


def _back_substituted(xp: Any, x1: Any, x2: Any, factors: Any, rows: Any, *, transposed: bool) -> Any:
    """Solve ``x1 @ x = x2`` with the factors of `x1`, which itself is here for the sake of its derivative."""
    x2 = xp.asarray(x2, dtype=joined(factors.dtype, x2.dtype))
    if factors.ndim == 2:
        return many(xp, lambda b: _substituted(xp, factors, rows, b, transposed), x2)
    lead = broadcast(factors.shape[:-2], x2.shape[:-2])
    out = xp.empty((*lead, *x2.shape[-2:]), x2.dtype)
    factors, x2 = (xp.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (factors, x2))
    rows = xp.broadcast_to(rows, (*lead, rows.shape[-1]))
    for i in entries(out.shape) if out.size else ():
        out[i] = _substituted(xp, factors[i], rows[i], x2[i], transposed)
    return out


def _substituted(xp: Any, factors: Any, rows: Any, b: Any, transposed: bool) -> Any:
    return xp.solve_factored(xp.matrix_transpose(factors), rows, b, transposed)


def many(xp: Any, solved: Callable[[Any], Any], x2: Any) -> Any:
    """Return the solutions for a batch of right-hand sides and one matrix: they are columns of one system."""
    if not x2.size:
        return xp.zeros_like(x2)
    if x2.ndim == 2:
        return solved(x2)
    columns = xp.moveaxis(x2, -2, 0)
    out = solved(xp.reshape(columns, (columns.shape[0], -1)))
    return xp.moveaxis(xp.reshape(out, columns.shape), 0, -2)


_solve_factored = Primitive(
    _back_substituted,
    vjp=_factored_vjp,
    jvp=_factored_jvp,
    batch=solve_batch,
    broadcasts=True,
    listed=False,  # its derivative in a matrix that it does not read can be compared with no difference
    specs=solution_specs,
    linear_in=(1,),
)


def solved(x1: Tensor, x2: Tensor) -> Tensor:
    """Return the solution for matrices and right-hand sides of two axes or more and one dtype."""
    kept = x1.ndim == 2 and not all(is_known(x) and x.grad_node is None for x in (x1, x2))
    if (kept or x1.shape[-1] >= FACTORED) and has_scipy(x1.backend.xp):
        factors = apply(op.lu_of_square, (x1,))
        return apply(_solve_factored, (x1, x2, *factors), {"transposed": False})
    return apply(_solve, (x1, x2), {"transposed": False})


@explained
def solve(x1: Any, x2: Any, /) -> Tensor:
    """Return the solution x of the linear systems ``x1 @ x = x2``.

    ``dx = x1^-1 (dx2 - dx1 x)``. With ``w`` the solution for ``x1.mH`` and the gradient of the result, the
    gradient of `x2` is ``w`` and that of `x1` is ``-w @ x.mH``, summed over the axes along which it was
    broadcast. The factors of a matrix serve its derivatives too, of any order. Source: Giles (2008), An
    extended collection of matrix derivative results.

    Parameters
    ----------
    x1 : tensor
        Square matrices, shape ``(..., n, n)``, real or complex.
    x2 : tensor
        Right-hand sides: shape ``(..., n, k)``, or ``(n,)`` for one vector. The leading axes broadcast.

    Returns
    -------
    Tensor
        Shape ``(..., n, k)``, or ``(..., n)`` for a vector.

    Raises
    ------
    ShapeError
        If the matrices are not square, or the shapes do not fit.
    LinAlgError
        If a matrix is singular; the message says which.
    DTypeError
        If the elements are no numbers, or are of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> a = eo.tensor([[2.0, 0.0], [0.0, 4.0]])
    >>> print(eo.linalg.solve(a, eo.tensor([2.0, 2.0])))
    [1.  0.5]
    """
    x1, x2 = as_tensors((x1, x2), "solve")
    x1, x2 = alike(square(x1, "solve"), right_hand_side(x2, "solve"))
    return with_columns(solved, x1, x2, "solve")


def with_columns(
    function: Callable[[Tensor, Tensor], Tensor], x1: Tensor, x2: Tensor, operation: str
) -> Tensor:
    """Return ``function(x1, x2)`` where a right-hand side of one axis counts as one column."""
    vector = len(x2.shape) == 1
    x2 = column(x2) if vector else x2
    fitting = len(x2.shape) > 1 and x2.shape[-2] == x1.shape[-2]
    if not fitting or not _broadcast(x1.shape[:-2], x2.shape[:-2]):
        raise ShapeError(
            "the right-hand side does not fit the matrix",
            operation=operation,
            inputs=describe(x1, x2),
            expected=f"shape (..., {x1.shape[-2]}, k) or ({x1.shape[-2]},), leading axes that broadcast",
            found=f"shape {tuple(x2.shape[:-1] if vector else x2.shape)}",
            remedy="for a batch of vectors write x2[..., None] and take the column from the result",
        )
    out = function(x1, x2)
    return op.reshape(out, shape=tuple(out.shape[:-1])) if vector else out


def _broadcast(first: Sequence[int], second: Sequence[int]) -> bool:
    pairs = zip(reversed(first), reversed(second), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)


# ---- NumPy's versions for tensors


def _flat_system(a: Tensor, rows: Sequence[int], columns: Sequence[int], operation: str) -> Tensor:
    """Return a tensor as a square matrix whose rows and columns are groups of its axes."""
    n, m = math.prod(rows), math.prod(columns)
    if n != m:
        raise ShapeError(
            "the two groups of axes differ in size",
            operation=operation,
            inputs=describe(a),
            expected="as many equations as unknowns",
            found=f"{tuple(rows)} with {n} and {tuple(columns)} with {m} elements",
            remedy="reshape the tensor, or use eo.linalg.lstsq",
        )
    return op.reshape(a, shape=(n, m))


@composed
def tensorsolve(a: Any, b: Any, axes: Sequence[int] | None = None) -> Tensor:
    """Return x with ``tensordot(a, x, x.ndim) == b``: a linear system whose unknowns have several axes.

    The derivative is that of `solve`, of which this is one system: ``dx = a^-1 (db - da x)``.

    Parameters
    ----------
    a : tensor
        Shape ``b.shape + q``, where q has as many elements as `b`.
    b : tensor
        The right-hand side, of any shape.
    axes : sequence of int, optional
        Axes of `a` that are moved to the end first.

    Returns
    -------
    Tensor
        Of shape q.

    Raises
    ------
    ShapeError
        If there are not as many equations as unknowns.
    LinAlgError
        If the system is singular.
    DTypeError
        If the elements are no numbers, or are of float16.
    IndexingError
        If there is no such axis.

    Examples
    --------
    >>> import everyo as eo
    >>> a = eo.reshape(eo.eye(4) * 2, (2, 2, 4))
    >>> print(eo.linalg.tensorsolve(a, eo.ones((2, 2))))
    [0.5 0.5 0.5 0.5]
    """
    a, b = (right_hand_side(x, "tensorsolve") for x in as_tensors((a, b), "tensorsolve"))
    if axes is not None:
        moved = [normalize_axis(k, a.ndim, "tensorsolve") for k in as_items(axes, "axes", "tensorsolve")]
        kept = [k for k in range(len(a.shape)) if k not in moved]
        a = op.transpose(a, axes=(*kept, *moved))
    shape = tuple(a.shape[len(b.shape) :])
    flat = _flat_system(a, a.shape[: len(b.shape)], shape, "tensorsolve")
    return op.reshape(solve(flat, op.reshape(b, shape=(b.size,))), shape=shape)


@explained
def tensorinv(a: Any, ind: int = 2) -> Tensor:
    """Return the inverse of a tensor as a linear map from its last axes to its first `ind` ones.

    The derivative is that of `inv`, ``-B da B`` for the inverse B.

    Parameters
    ----------
    a : tensor
        The first `ind` axes have as many elements as the others.
    ind : int, default 2
        Positive.

    Returns
    -------
    Tensor
        Shape ``a.shape[ind:] + a.shape[:ind]``.

    Raises
    ------
    ShapeError
        If the two groups of axes differ in size, or `ind` is not positive.
    LinAlgError
        If the map is singular.
    DTypeError
        If `ind` is no integer, or the elements are of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.linalg.tensorinv(eo.reshape(eo.eye(6), (2, 3, 6))).shape
    (6, 2, 3)
    """
    a = not_half(inexact(as_tensor(a)), "tensorinv")
    ind = as_integer(ind, "ind", "tensorinv")
    if ind <= 0:
        raise ShapeError(
            "ind must be positive",
            operation="tensorinv",
            inputs=describe(a),
            expected="the number of axes of the result's last part",
            found=f"ind={ind}",
            remedy="write ind=1 for a matrix",
        )
    rows, columns = tuple(a.shape[:ind]), tuple(a.shape[ind:])
    return op.reshape(inv(_flat_system(a, rows, columns, "tensorinv")), shape=(*columns, *rows))
