"""Products that belong to `everyo` itself: cross, kron, matvec, vecmat."""

from __future__ import annotations

from typing import Any

from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.ops.axes import normalize_axis
from everyo.ops.contraction import matmul
from everyo.ops.creation import as_tensors
from everyo.ops.reductions import conjugate
from everyo.ops.signatures import composed, explained

__all__ = ["cross", "kron", "matvec", "vecmat"]


@explained
def cross(
    x1: Any,
    x2: Any,
    /,
    *,
    axis: int | None = None,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
) -> Tensor:
    """Return the cross products of the vectors of three elements along an axis.

    ``d(x1 x x2) = dx1 x x2 + x1 x dx2``, so ``dx1 = x2 x g`` and ``dx2 = g x x1``.

    Parameters
    ----------
    x1, x2 : tensor
        The axis has three elements in each; the others broadcast.
    axis : int, optional
        The axis of the vectors, in place of the other three; the last by default.
    axisa, axisb, axisc : int, default -1
        The axis of the vectors in `x1`, in `x2` and in the result.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    ShapeError
        If the axis has not three elements, or the others do not broadcast.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.cross(eo.tensor([1.0, 0.0, 0.0]), eo.tensor([0.0, 1.0, 0.0])))
    [0. 0. 1.]
    """
    x1, x2 = as_tensors((x1, x2), "cross")
    first, second, third = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    places = [normalize_axis(a, len(x.shape), "cross") for a, x in ((first, x1), (second, x2))]
    sizes = [x.shape[p] for x, p in zip((x1, x2), places)]
    if sizes != [3, 3]:
        raise ShapeError(
            "a cross product is one of vectors with three elements",
            operation="cross",
            inputs=describe(x1, x2),
            expected=f"3 elements along axis {first} and axis {second}",
            found=f"{sizes[0]} and {sizes[1]}",
            remedy="append zeros to vectors of a plane"
            + ("; two of them have a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]" * (sizes == [2, 2])),
        )

    def part(x: Tensor, place: int, k: int) -> Tensor:
        return op.getitem(x, index=(*(slice(None),) * place, k))

    a, b = ([part(x, p, k) for k in range(3)] for x, p in zip((x1, x2), places))
    elements = [a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    rank = len(elements[0].shape) + 1
    return op.stack(*elements, axis=normalize_axis(third, rank, "cross"))


@composed
def kron(a: Any, b: Any, /) -> Tensor:
    """Return the Kronecker product: every element of `a`, times the whole of `b`, side by side.

    The gradient of an element of one factor is the sum, over its products, of `g` times the other element.

    Parameters
    ----------
    a, b : tensor
        Of any shape; the one with fewer axes gets more, of length 1, in front.

    Returns
    -------
    Tensor
        As long as both together along each axis: the lengths are multiplied. Of the common dtype.

    Raises
    ------
    DTypeError
        If the elements of a factor are not numbers.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.kron(eo.tensor([1.0, 10.0]), eo.tensor([1.0, 2.0])))
    [ 1.  2. 10. 20.]
    """
    a, b = as_tensors((a, b), "kron")
    rank = max(len(a.shape), len(b.shape))
    first, second = ((1,) * (rank - len(x.shape)) + tuple(x.shape) for x in (a, b))
    a = op.reshape(a, shape=tuple([m for n in first for m in (n, 1)]))
    b = op.reshape(b, shape=tuple([m for n in second for m in (1, n)]))
    return op.reshape(a * b, shape=tuple([n * m for n, m in zip(first, second)]))


@composed
def matvec(x1: Any, x2: Any, /) -> Tensor:
    """Return the products of matrices with vectors, ``x1 @ x2`` with `x2` a column.

    ``d matvec(x1, x2) = matvec(dx1, x2) + matvec(x1, dx2)``, so of real numbers ``dx1 = outer(g, x2)`` and
    ``dx2 = x1.mT @ g``, summed over axes that were broadcast.

    Parameters
    ----------
    x1 : tensor
        Shape ``(..., n, k)``.
    x2 : tensor
        Shape ``(..., k)``; the leading axes broadcast.

    Returns
    -------
    Tensor
        Shape ``(..., n)``.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    DTypeError
        If an operand's elements are not numbers.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.matvec(eo.tensor([[1.0, 2.0], [3.0, 4.0]]), eo.tensor([1.0, 1.0])))
    [3. 7.]
    """
    x1, x2 = _matrix_and_vector(x1, x2, -1, "matvec")
    product = matmul(x1, op.reshape(x2, shape=(*x2.shape, 1)))
    return op.reshape(product, shape=tuple(product.shape[:-1]))


@composed
def vecmat(x1: Any, x2: Any, /) -> Tensor:
    """Return the products of vectors with matrices, ``conj(x1) @ x2`` with `x1` a row.

    ``d vecmat(x1, x2) = vecmat(dx1, x2) + vecmat(x1, dx2)``, so of real numbers ``dx1 = x2 @ g`` and
    ``dx2 = outer(x1, g)``, summed over axes that were broadcast.

    Parameters
    ----------
    x1 : tensor
        Shape ``(..., n)``; conjugated if it is complex.
    x2 : tensor
        Shape ``(..., n, k)``; the leading axes broadcast.

    Returns
    -------
    Tensor
        Shape ``(..., k)``.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    DTypeError
        If an operand's elements are not numbers.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.vecmat(eo.tensor([1.0, 1.0]), eo.tensor([[1.0, 2.0], [3.0, 4.0]])))
    [4. 6.]
    """
    x2, x1 = _matrix_and_vector(x2, x1, -2, "vecmat")
    product = matmul(op.reshape(conjugate(x1), shape=(*x1.shape[:-1], 1, x1.shape[-1])), x2)
    return op.reshape(product, shape=(*product.shape[:-2], product.shape[-1]))


def _matrix_and_vector(matrix: Any, vector: Any, axis: int, operation: str) -> list[Tensor]:
    """Return both as tensors; ShapeError unless they fit."""
    matrix, vector = as_tensors((matrix, vector), operation)
    if len(matrix.shape) < 2 or not vector.shape or matrix.shape[axis] != vector.shape[-1]:
        raise ShapeError(
            "matrix and vector do not fit",
            operation=operation,
            inputs=describe(matrix, vector),
            expected="a matrix, and a vector as long as the axis that is summed over",
            found=f"shapes {tuple(matrix.shape)} and {tuple(vector.shape)}",
            remedy="use eo.matmul for a product of two matrices",
        )
    return [matrix, vector]
