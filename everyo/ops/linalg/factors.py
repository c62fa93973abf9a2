"""The LU decomposition with row interchanges: lu, lu_factor, lu_solve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from everyo.core.dispatch import apply
from everyo.core.dtypes import int64
from everyo.core.registry import op
from everyo.core.samples import Sample, sample
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError
from everyo.ops.axes import as_items
from everyo.ops.creation import as_tensor, as_tensors
from everyo.ops.families import primitive
from everyo.ops.linalg.common import (
    alike,
    broadcast,
    entries,
    float_of,
    made,
    matrices,
    matrixwise,
    right_hand_side,
    square,
)
from everyo.ops.linalg.orthogonal import right_divided
from everyo.ops.linalg.solving import with_columns
from everyo.ops.signatures import composed, explained

__all__ = ["lu", "lu_factor", "lu_solve"]


def _left_divided(l: Any, x: Any) -> Any:
    """Return ``inv(l) @ x`` for a lower triangle with ones on its diagonal."""
    return op.solve_triangular(l, x, upper=False, transposed=False, unit=True)


def _parts_vjp(g: dict[int, Any], out: Any) -> Any:
    l, u = out
    inner = None
    if 0 in g:
        inner = op.tril(op.matrix_transpose(l) @ g[0], k=-1)
    if 1 in g:
        upper = op.triu(g[1] @ op.matrix_transpose(u), k=0)
        inner = upper if inner is None else inner + upper
    left = op.solve_triangular(l, inner, upper=False, transposed=True, unit=True)
    return right_divided_transposed(left, u)


def right_divided_transposed(x: Any, r: Any) -> Any:
    """Return ``x @ inv(r).T`` for upper triangular `r`; NaN where that is singular."""
    solved = op.solve_triangular(
        op.regular(r), op.matrix_transpose(x), upper=True, transposed=False, unit=False
    )
    return op.matrix_transpose(solved)


def _parts_jvp(t: Any, out: Any) -> tuple[Any, Any]:
    l, u = out
    inner = right_divided(_left_divided(l, t), u)
    return l @ op.tril(inner, k=-1), op.triu(inner, k=0) @ u


def _square_specs(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    return [(tuple(examples[0].shape), float_of(examples[0].dtype))] * 2


def _parts_samples() -> list[Sample]:
    points = [made(3, 3, diagonal=3.0), made(2, 2, 2, diagonal=2.0), made(1, 1), (0, 0)]
    return [sample(x) for x in points]


@primitive(_parts_vjp, _parts_jvp, samples=_parts_samples, batch=matrixwise, specs=_square_specs)
def _triangular_factors(xp: Any, x: Any) -> Any:
    """Return L, with ones on its diagonal, and U of square matrices whose rows are in order already."""
    x = xp.asarray(x, dtype=float_of(x.dtype))
    lower, upper = xp.zeros(x.shape, x.dtype), xp.zeros(x.shape, x.dtype)
    for i in entries(x.shape) if x.size else ():
        lower[i], upper[i] = _eliminated(xp, x[i])
    return lower, upper


def _eliminated(xp: Any, x: Any) -> tuple[Any, Any]:
    """Return the factors of one matrix: LAPACK's, where ties do not make it interchange rows after all."""
    lu, rows, _ = xp.lapack("getrf", x)
    if xp.any(rows != xp.arange(len(x))):
        lu = xp.array(x)
        for k in range(len(x) - 1):
            lu[k + 1 :, k] /= lu[k, k]
            lu[k + 1 :, k + 1 :] -= lu[k + 1 :, k, None] * lu[k, k + 1 :]
    return xp.tril(lu, -1) + xp.eye(len(x), dtype=x.dtype), xp.triu(lu)


@primitive(
    None,
    None,
    samples=lambda: [sample(made(3, 3)), sample(made(2, 4, 2)), sample(made(2, 3)), sample((0, 2))],
    batch=matrixwise,
    missing="its result is discrete",
    specs=lambda examples, params: [(tuple(examples[0].shape[:-1]), int64)],
)
def _row_order(xp: Any, x: Any) -> Any:
    """Return for each matrix the order of its rows in which the pivots are the largest elements."""
    x = xp.asarray(x, dtype=float_of(x.dtype))
    order = xp.broadcast_to(xp.arange(x.shape[-2]), x.shape[:-1]).copy()
    for i in entries(x.shape) if x.size else ():
        rows = xp.lapack("getrf", x[i])[1]
        for k, other in enumerate(rows):
            order[(*i, k)], order[(*i, other)] = order[(*i, other)], order[(*i, k)]
    return order


class LUResult(NamedTuple):
    """What `lu` returns."""

    P: Tensor
    L: Tensor
    U: Tensor


class LUFactors(NamedTuple):
    """What `lu_factor` returns."""

    LU: Tensor
    order: Tensor


def _ordered(x: Tensor, order: Tensor) -> Tensor:
    """Return matrices with their rows in another order."""
    index = op.broadcast_to(op.reshape(order, shape=(*order.shape, 1)), shape=tuple(x.shape))
    return op.take_along_axis(x, index, axis=len(x.shape) - 2)


def _factored(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the order of the rows, and the factors L and U."""
    m, n = x.shape[-2:]
    k, axis = min(m, n), len(x.shape)
    order = apply(op.row_order, (x,))
    x = _ordered(x, order)
    l, u = apply(_triangular_factors, (x[..., :k, :k],))
    if m > n:
        l = op.concat(l, right_divided_plainly(x[..., k:, :], u), axis=axis - 2)
    if n > m:
        u = op.concat(u, _left_divided(l, x[..., :, k:]), axis=axis - 1)
    return order, l, u


def right_divided_plainly(x: Tensor, u: Tensor) -> Tensor:
    """Return ``x @ inv(u)``; a singular `u` is an error."""
    solved = op.solve_triangular(u, op.matrix_transpose(x), upper=True, transposed=True, unit=False)
    return op.matrix_transpose(solved)


@explained
def lu(x: Any, /) -> LUResult:
    """Return the triangular factors of matrices with their rows interchanged, ``x = P @ L @ U``.

    For a square matrix, with ``c = L^-1 P.T dx U^-1``, ``dL = L tril(c, -1)`` and ``dU = triu(c) U`` (S.
    Walter and L. Lehmann, Algorithmic differentiation of linear algebra functions, 2010); the other rows or
    columns are products with inverse factors. Where U is singular there is no derivative, and it is NaN.
    SciPy is needed.

    Parameters
    ----------
    x : tensor
        Shape ``(..., m, n)``, real or complex, wide or tall.

    Returns
    -------
    P, L, U : Tensor
        A named tuple. With k the smaller of m and n: permutations, shape ``(..., m, m)``, lower triangles
        with ones on the diagonal, ``(..., m, k)``, and upper triangles, ``(..., k, n)``.

    Raises
    ------
    ShapeError
        If `x` has less than two axes.
    LinAlgError
        If the matrix has more rows than columns and U is singular.
    DTypeError
        If the elements are no numbers, or are of float16.
    UnsupportedOperationError
        If SciPy is not installed.

    Examples
    --------
    >>> import everyo as eo
    >>> P, L, U = eo.linalg.lu(eo.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> print(L, U)
    [[1.  0. ]
     [0.5 1. ]] [[2. 2.]
     [0. 1.]]
    """
    x = matrices(x, "lu")
    order, l, u = _factored(x)
    columns = op.reshape(order, shape=(*order.shape[:-1], 1, order.shape[-1]))
    rows = as_tensor(x.backend.xp.arange(x.shape[-2])[:, None])
    return LUResult(op.astype(rows == columns, dtype=x.dtype), l, u)


@explained
def lu_factor(x: Any, /) -> LUFactors:
    """Return the triangular factors of square matrices in one tensor, for `lu_solve`.

    The derivatives are those of `lu`. Source: Walter and Lehmann (2010), Algorithmic differentiation of
    linear algebra functions.

    Parameters
    ----------
    x : tensor
        Shape ``(..., n, n)``, real or complex; integers are computed in float64.

    Returns
    -------
    LU, order : Tensor
        A named tuple: L below the diagonal and U on and above it, shape ``(..., n, n)``, and the order of
        the rows of `x`, ``(..., n)``: ``x[order] = L @ U`` for one matrix.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    DTypeError
        If the elements are no numbers, or are of float16.
    UnsupportedOperationError
        If SciPy is not installed.

    Examples
    --------
    >>> import everyo as eo
    >>> factors = eo.linalg.lu_factor(eo.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> print(eo.linalg.lu_solve(factors, eo.tensor([3.0, 4.0])))
    [1. 1.]
    """
    order, l, u = _factored(square(x, "lu_factor"))
    return LUFactors(op.tril(l, k=-1) + u, order)


@composed
def lu_solve(factors: tuple[Any, Any], b: Any, /) -> Tensor:
    """Return the solution of ``x @ y = b`` for a matrix whose factors are known.

    ``dy = x^-1 (db - dx y)`` with ``dx = P (dL U + L dU)``: as `solve` of the matrix that the factors are of.
    Source: Giles (2008), An extended collection of matrix derivative results.

    Parameters
    ----------
    factors : tuple of tensors
        What `lu_factor` returned for x.
    b : tensor
        Right-hand sides: shape ``(..., n, k)``, or ``(n,)`` for one vector.

    Returns
    -------
    Tensor
        Of the broadcast shape of `b`.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    LinAlgError
        If the matrix is singular.
    DTypeError
        If the elements are no numbers, or are of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> factors = eo.linalg.lu_factor(eo.tensor([[0.0, 2.0], [1.0, 0.0]]))
    >>> print(eo.linalg.lu_solve(factors, eo.tensor([2.0, 3.0])))
    [3. 1.]
    """
    first, pivots, *_ = *as_items(factors, "factors", "lu_solve"), None, None
    if pivots is None:
        raise ShapeError(
            "the factors are two",
            operation="lu_solve",
            expected="what lu_factor returns: the factors in one matrix, and the order of the rows",
            found=repr(factors),
            remedy="write eo.linalg.lu_solve(eo.linalg.lu_factor(a), b)",
        )
    both, b = as_tensors((first, b), "lu_solve")
    both, b = alike(square(both, "lu_solve"), right_hand_side(b, "lu_solve"))
    order = as_tensor(pivots)

    def solved(both: Tensor, b: Tensor) -> Tensor:
        lead = broadcast(both.shape[:-2], b.shape[:-2])
        b = op.broadcast_to(b, shape=(*lead, *b.shape[-2:]))
        rows = op.broadcast_to(order, shape=tuple(b.shape[:-1]))
        b = _left_divided(both, _ordered(b, rows))
        return op.solve_triangular(both, b, upper=True, transposed=False, unit=False)

    return with_columns(solved, both, b, "lu_solve")
