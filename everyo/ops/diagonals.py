"""Diagonals and triangles of the matrices in two axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everyo.core.batching import trailing
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.ops.axes import as_diagonal, as_integer, normalize_axis
from everyo.ops.creation import as_tensor
from everyo.ops.families import linear
from everyo.ops.shape import broadcast_to
from everyo.ops.signatures import composed, explained
from everyo.ops.transposition import moveaxis
from everyo.ops.views import viewing

__all__ = ["diag", "diagonal", "trace", "tril", "triu"]


@linear(
    lambda g, k: op.tril(g, k=k),
    samples=lambda: [sample((3, 3), k=0), sample((2, 4, 3), k=-1), sample((2, 3), k=1), sample((0, 2), k=0)],
    batch=trailing(2),
)
def _tril(xp: Any, x: Any, *, k: int) -> Any:
    return xp.tril(x, k=k)


@linear(
    lambda g, k: op.triu(g, k=k),
    samples=lambda: [sample((3, 3), k=0), sample((2, 4, 3), k=-1), sample((2, 3), k=1), sample((0, 2), k=0)],
    batch=trailing(2),
)
def _triu(xp: Any, x: Any, *, k: int) -> Any:
    return xp.triu(x, k=k)


@explained
def tril(x: Any, /, k: int = 0) -> Tensor:
    """Return the matrices in the last two axes with zeros above the `k`-th diagonal; so is the gradient.

    Parameters
    ----------
    x : tensor
        Its last two axes are rows and columns; a vector is each row of a square matrix.
    k : int, default 0
        The last diagonal that is kept: above (positive) or below (negative) the main one.

    Returns
    -------
    Tensor
        Of the shape of `x`, or of the matrix.

    Raises
    ------
    ShapeError
        If `x` is 0-d.
    DTypeError
        If `k` is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.tril(eo.ones((2, 2))))
    [[1. 0.]
     [1. 1.]]
    """
    x = _triangular(x, "tril")
    return apply(_tril, (x,), {"k": as_diagonal(k, x.shape[-2], x.shape[-1], "tril")})


@explained
def triu(x: Any, /, k: int = 0) -> Tensor:
    """Return the matrices in the last two axes with zeros below the `k`-th diagonal; so is the gradient.

    Parameters
    ----------
    x : tensor
        Its last two axes are rows and columns; a vector is each row of a square matrix.
    k : int, default 0
        The first diagonal that is kept: above (positive) or below (negative) the main one.

    Returns
    -------
    Tensor
        Of the shape of `x`, or of the matrix.

    Raises
    ------
    ShapeError
        If `x` is 0-d.
    DTypeError
        If `k` is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.triu(eo.ones((2, 2)), k=1))
    [[0. 1.]
     [0. 0.]]
    """
    x = _triangular(x, "triu")
    return apply(_triu, (x,), {"k": as_diagonal(k, x.shape[-2], x.shape[-1], "triu")})


def _triangular(x: Any, operation: str) -> Tensor:
    """Return matrices; a vector as each row of a square one."""
    x = as_tensor(x)
    return broadcast_to(x, (x.size, x.size)) if x.ndim == 1 else _matrices(x, operation)


def _matrices(x: Any, operation: str, axes: tuple[int, int] = (-2, -1)) -> Tensor:
    """Return `x` with the axes of rows and columns as the last ones."""
    x = as_tensor(x)
    ndim = x.ndim
    if ndim < 2:
        raise ShapeError(
            "there is no matrix",
            operation=operation,
            inputs=describe(x),
            expected="at least two axes",
            remedy="add axes with expand_dims or reshape",
        )
    rows, columns = axes
    if rows.__class__ is columns.__class__ is int and columns - rows == 1 and columns in (-1, ndim - 1):
        return x  # as they are, found without a call
    rows, columns = normalize_axis(rows, ndim, operation), normalize_axis(columns, ndim, operation)
    if rows == columns:
        raise ShapeError(
            "the axes of rows and columns are the same",
            operation=operation,
            inputs=describe(x),
            expected="two different axes",
            found=f"axis1={axes[0]}, axis2={axes[1]}",
            remedy="name two axes; a negative one counts from the end",
        )
    if rows == ndim - 2 and columns == ndim - 1:
        return x
    return moveaxis(x, (rows, columns), (-2, -1))


def length(shape: Sequence[int], offset: int) -> int:
    """Return how many elements a diagonal of a matrix has."""
    rows, columns = shape[-2:]
    return max(min(rows - max(-offset, 0), columns - max(offset, 0)), 0)


def places(shape: Sequence[int], offset: int) -> slice:
    """Return where a diagonal lies in a matrix whose rows follow each other: in equal steps."""
    columns = shape[-1]
    start, step = max(offset, 0) + max(-offset, 0) * columns, columns + 1
    return slice(start, start + length(shape, offset) * step, step)


def _on_diagonal(g: Any, x_shape: tuple[int, ...], offset: int) -> Any:
    """Return zeros of a shape with `g` on a diagonal of the last two axes."""
    *lead, rows, columns = x_shape
    index = Ellipsis, places(x_shape, offset)
    flat = op.assemble(g, indices=(index,), shape=(*lead, rows * columns))
    return op.reshape(flat, shape=x_shape)


def _on_all_of_it(g: Any, x_shape: tuple[int, ...], offset: int) -> Any:
    """Return zeros of a shape with the numbers of `g`, each all along a diagonal of the last two axes."""
    repeated = op.broadcast_to(op.reshape(g, shape=(*g.shape, 1)), shape=(*g.shape, length(x_shape, offset)))
    return _on_diagonal(repeated, x_shape, offset)


def _diagonal_samples() -> list[Any]:
    cases = [((3, 3), 0), ((2, 4, 3), 1), ((3, 4), -2), ((4, 2), -3), ((2, 2), -5), ((2, 0), 0)]
    return [sample(shape, offset=offset) for shape, offset in cases]


@linear(_on_diagonal, samples=_diagonal_samples, batch=trailing(2))
def _diagonal(xp: Any, x: Any, *, offset: int = 0) -> Any:
    return xp.diagonal(x, offset=offset)


@linear(_on_all_of_it, samples=_diagonal_samples, batch=trailing(2))
def _trace(xp: Any, x: Any, *, offset: int) -> Any:
    return xp.trace(x, offset=offset)


@viewing
@composed
def diagonal(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return a diagonal of the matrices in two axes, as the last axis of the result.

    The gradient lands on that diagonal.

    Parameters
    ----------
    x : tensor
        With at least two axes.
    offset : int, default 0
        Above (positive) or below (negative) the main diagonal.
    axis1, axis2 : int, default 0 and 1
        The axes of rows and columns.

    Returns
    -------
    Tensor
        The other axes of `x`, then the diagonal; empty beyond the corners.

    Raises
    ------
    ShapeError
        If there is no matrix, or the two axes are one.
    IndexingError, DTypeError
        If there is no such axis, or it or `offset` is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.diagonal(eo.tensor([[1, 2], [3, 4]])))
    [1 4]
    """
    x = _matrices(x, "diagonal", (axis1, axis2))
    return apply(_diagonal, (x,), {"offset": as_integer(offset, "offset", "diagonal")})


@explained
def diag(x: Any, /, k: int = 0) -> Tensor:
    """Return the matrix with the vector `x` on its `k`-th diagonal, or the `k`-th diagonal of a matrix.

    The two are each other's gradient.

    Parameters
    ----------
    x : tensor
        A vector or a matrix.
    k : int, default 0
        Which diagonal: above (positive) or below (negative) the main one.

    Returns
    -------
    Tensor
        A square matrix with ``len(x) + abs(k)`` rows, or a vector.

    Raises
    ------
    ShapeError
        If `x` has neither one nor two axes.
    DTypeError
        If `k` is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.diag(eo.tensor([1, 2])))
    [[1 0]
     [0 2]]
    """
    x, k = as_tensor(x), as_integer(k, "k", "diag")
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ShapeError(
            "neither vector nor matrix",
            operation="diag",
            inputs=describe(x),
            expected="1 or 2 axes",
            remedy="use eo.diagonal for more axes, or eo.vmap over the first ones",
        )
    n = x.size + abs(k)
    matrix: Tensor = _on_diagonal(x, (n, n), k)
    return matrix


@viewing
@composed
def trace(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1, *, dtype: Any = None) -> Tensor:
    """Return the sum of a diagonal of the matrices in two axes; the gradient lands on that diagonal.

    Parameters
    ----------
    x : tensor
        With at least two axes.
    offset : int, default 0
        Above (positive) or below (negative) the main diagonal.
    axis1, axis2 : int, default 0 and 1
        The axes of rows and columns.
    dtype : dtype-like, optional
        The dtype to sum in. By default that of `x`; small integers and booleans grow to int64.

    Returns
    -------
    Tensor
        The other axes of `x`.

    Raises
    ------
    ShapeError
        If there is no matrix, or the two axes are one.
    IndexingError, DTypeError
        If there is no such axis, or it or `offset` is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.trace(eo.tensor([[1, 2], [3, 4]])))
    5
    """
    if dtype is not None:
        return diagonal(x, offset, axis1, axis2).sum(axis=-1, dtype=dtype)
    x = _matrices(x, "trace", (axis1, axis2))
    return apply(_trace, (x,), {"offset": as_integer(offset, "offset", "trace")})
