"""Products, powers and diagonals as the standard's `linalg` has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, ShapeError, describe
from everyo.ops import diagonals
from everyo.ops.axes import as_integer
from everyo.ops.contraction import matmul, tensordot, vecdot
from everyo.ops.contraction import outer as _outer_of_all
from everyo.ops.creation import as_tensor, as_tensors
from everyo.ops.linalg.common import not_half
from everyo.ops.linalg.solving import inv
from everyo.ops.products import cross, kron, matvec, vecmat
from everyo.ops.shape import apart
from everyo.ops.signatures import composed, explained
from everyo.ops.transposition import matrix_transpose

__all__ = [
    "cross", "diagonal", "kron", "matmul", "matrix_power", "matrix_transpose", "matvec", "multi_dot", "outer",
    "tensordot", "trace", "vecdot", "vecmat",
]  # fmt: skip


@composed
def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """Return a diagonal of each of the matrices in the last two axes.

    Parameters
    ----------
    x : tensor
        Shape ``(..., m, n)``.
    offset : int, default 0
        Above (positive) or below (negative) the main diagonal.

    Returns
    -------
    Tensor
        Shape ``(..., k)``; the gradient lands on that diagonal.

    Raises
    ------
    ShapeError
        If `x` has less than two axes.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.linalg.diagonal(eo.tensor([[1, 2], [3, 4]]), offset=1))
    [2]
    """
    return diagonals.diagonal(x, offset, -2, -1)


@composed
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """Return the sum of a diagonal of each of the matrices in the last two axes.

    Parameters
    ----------
    x : tensor
        Shape ``(..., m, n)``.
    offset : int, default 0
        Which diagonal, as in `diagonal`.
    dtype : dtype-like, optional
        The dtype to sum in.

    Returns
    -------
    Tensor
        Shape ``(...)``; the gradient lands on that diagonal.

    Raises
    ------
    ShapeError
        If `x` has less than two axes.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.linalg.trace(eo.tensor([[1, 2], [3, 4]])))
    5
    """
    return diagonals.trace(x, offset, -2, -1, dtype=dtype)


@explained
def outer(x1: Any, x2: Any, /) -> Tensor:
    """Return all products of an element of `x1` with one of `x2`, both vectors.

    ``d outer = outer(dx1, x2) + outer(x1, dx2)``.

    Parameters
    ----------
    x1, x2 : tensor
        Shapes ``(n,)`` and ``(m,)``. (`everyo.outer` flattens what has more axes.)

    Returns
    -------
    Tensor
        Shape ``(n, m)``.

    Raises
    ------
    ShapeError
        If one is no vector.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.linalg.outer(eo.tensor([1.0, 2.0]), eo.tensor([3.0, 4.0])))
    [[3. 4.]
     [6. 8.]]
    """
    x1, x2 = as_tensors((x1, x2), "outer")
    if len(x1.shape) != 1 or len(x2.shape) != 1:
        raise ShapeError(
            "an operand is no vector",
            operation="outer",
            inputs=describe(x1, x2),
            expected="one axis each",
            found=f"{len(x1.shape)} and {len(x2.shape)} axes",
            remedy="use eo.outer, which flattens, or x1[..., :, None] * x2[..., None, :] for a batch",
        )
    return _outer_of_all(x1, x2)


@composed
def matrix_power(x: Any, n: int, /) -> Tensor:
    """Return square matrices multiplied with themselves, or their inverses if `n` is negative.

    Computed, and differentiated, as products of squares: in about ``log2(n)`` of them.

    Parameters
    ----------
    x : tensor
        Shape ``(..., k, k)``.
    n : int
        The exponent; 0 gives the identity.

    Returns
    -------
    Tensor
        Of the same shape.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    LinAlgError
        If `n` is negative and a matrix is singular.
    DTypeError
        If `n` is no integer, or negative for a matrix of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.linalg.matrix_power(eo.tensor([[1.0, 1.0], [0.0, 1.0]]), 3))
    [[1. 3.]
     [0. 1.]]
    """
    x, n = as_tensor(x), as_integer(n, "n", "matrix_power", unbounded=True)
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            "the matrices are not square",
            operation="matrix_power",
            inputs=describe(x),
            expected="two axes or more, the last two of one size",
            found=f"shape {tuple(x.shape)}",
            remedy="multiply with x.mT @ x to make one that is",
        )
    if n == 1:
        return apart(x)
    if n == 0:
        xp = x.backend.xp
        identity = as_tensor(x.backend.asarray(xp.eye(x.shape[-1], dtype=x.dtype), None, x.device))
        return identity + op.zeros_like(x) if x.dtype.kind != "b" else identity
    if n < 0:
        x, n = inv(not_half(x, "matrix_power")), -n
    out = None
    while True:
        if n & 1:
            out = x if out is None else matmul(out, x)
        n >>= 1
        if not n:
            return out  # type: ignore[return-value]
        x = matmul(x, x)


@composed
def multi_dot(arrays: Sequence[Any], /) -> Tensor:
    """Return the product of several matrices, multiplied in the order that costs least.

    The derivative is that of the products: ``d(A B C) = dA B C + A dB C + A B dC``.

    Parameters
    ----------
    arrays : sequence of tensors
        At least two; matrices, of which the first may be a row and the last a column, with one axis.

    Returns
    -------
    Tensor
        The product; without the axes that a vector does not have.

    Raises
    ------
    ArgumentError
        If there are less than two.
    ShapeError
        If they do not fit, or one between the ends is no matrix.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.linalg.multi_dot([eo.ones((2, 3)), eo.ones((3, 4)), eo.ones(4)]).shape
    (2,)
    """
    factors = as_tensors(arrays, "multi_dot")
    if len(factors) < 2:
        raise ArgumentError(
            "there is nothing to multiply",
            operation="multi_dot",
            expected="at least two factors",
            found=str(len(factors)),
        )
    row, column = len(factors[0].shape) == 1, len(factors[-1].shape) == 1
    if row:
        factors[0] = op.reshape(factors[0], shape=(1, factors[0].size))
    if column:
        factors[-1] = op.reshape(factors[-1], shape=(factors[-1].size, 1))
    if any(len(x.shape) != 2 for x in factors):
        raise ShapeError(
            "a factor is no matrix",
            operation="multi_dot",
            inputs=describe(*factors),
            expected="two axes; one at the ends",
            found=str([len(x.shape) for x in factors]),
            remedy="use eo.matmul for batches of matrices",
        )
    cuts = _cheapest([*(x.shape[0] for x in factors), factors[-1].shape[1]])
    out = _multiplied(factors, cuts, 0, len(factors) - 1)
    kept = [n for n, gone in zip(out.shape, (row, column), strict=True) if not gone]
    return op.reshape(out, shape=tuple(kept)) if row or column else out


def _cheapest(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Return where to cut each chain of factors, by the usual dynamic program over shorter chains."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    cuts = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            ]
            cost[i, j], cuts[i, j] = min(options)
    return cuts


def _multiplied(factors: Sequence[Tensor], cuts: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if i == j:
        return factors[i]
    k = cuts[i, j]
    return matmul(_multiplied(factors, cuts, i, k), _multiplied(factors, cuts, k + 1, j))
