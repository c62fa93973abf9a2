"""Tensors put together and taken apart under NumPy's names: columns, parts, flips."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, ShapeError, describe
from everyo.ops.axes import as_integer, normalize_axes, normalize_axis, normalize_shape
from everyo.ops.creation import as_tensor, as_tensors
from everyo.ops.diagonals import diag
from everyo.ops.docstrings import described
from everyo.ops.gathering import nonzero
from everyo.ops.joining import concat
from everyo.ops.known import is_known
from everyo.ops.rearranging import flip, tile
from everyo.ops.shape import atleast_1d, expand_dims, ravel, reshape
from everyo.ops.signatures import composed, explained
from everyo.ops.sorting import argmax
from everyo.ops.splitting import split
from everyo.ops.transposition import moveaxis
from everyo.ops.truth import any as some
from everyo.ops.views import viewing

__all__ = [
    "append", "atleast_3d", "column_stack", "diagflat", "dsplit", "dstack", "fliplr", "flipud", "hsplit",
    "ix_", "resize", "rollaxis", "trim_zeros", "vsplit",
]  # fmt: skip

_joining = described(
    Raises="ShapeError\n    If they differ along other axes, or there is none.\n"
    "DTypeError\n    If one is not numeric."
)
_splitting = described(
    Parameters="x : tensor\n    Of any dtype.\nindices_or_sections : int or sequence of int\n"
    "    How many equal parts, or the positions at which a new part begins.",
    Returns="list of Tensor\n    The parts, with all axes of `x`; its gradient is put together from theirs.",
    Raises="ShapeError\n    If `x` has too few axes, or cannot be cut into equal parts.\n"
    "ArgumentError\n    If there is to be less than one part.\n"
    "DTypeError\n    If `x` is not numeric, or something is no integer.",
)
_flipping = described(
    Parameters="x : tensor\n    Of any dtype.",
    Returns="Tensor\n    Of the shape and dtype of `x`; the gradient is reversed again.",
    Raises="ShapeError\n    If `x` has too few axes.\nDTypeError\n    If `x` is not numeric.",
)
_MANY = 8  # repetitions from which on one part more than needed is no loss


def _require_axes(x: Any, number: int, operation: str) -> Tensor:
    x = as_tensor(x)
    if x.ndim < number:
        raise ShapeError(
            "the tensor has too few axes",
            operation=operation,
            inputs=describe(x),
            expected=f"at least {number} axes",
            found=f"{x.ndim}",
            remedy="add axes with expand_dims or reshape first",
        )
    return x


@composed
def append(x: Any, values: Any, /, axis: int | None = None) -> Tensor:
    """Return `x` followed by `values` along an axis; without one, both flattened.

    The gradient is cut into the two parts again.

    Parameters
    ----------
    x, values : tensor
        Equal in all axes but `axis`; dtypes are promoted.
    axis : int, optional
        Along which axis.

    Returns
    -------
    Tensor
        Of the common dtype; as long along `axis` as both together.

    Raises
    ------
    ShapeError
        If the other axes differ.
    IndexingError
        If there is no such axis.
    DTypeError
        If something is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.append(eo.tensor([1.0, 2.0]), 3.0))
    [1. 2. 3.]
    """
    return concat([x, values], axis=axis)


@explained
def atleast_3d(x: Any, /) -> Tensor:
    """Return `x` with at least three axes, which are added around the ones that it has, as NumPy does.

    The gradient takes the shape of `x` again.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.

    Returns
    -------
    Tensor
        Shape ``(1, 1, 1)`` for a number, ``(1, n, 1)`` for a vector, ``(n, m, 1)`` for a matrix; else `x`
        itself.

    Raises
    ------
    DTypeError
        If `x` is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.atleast_3d(eo.ones(4)).shape, eo.atleast_3d(eo.ones((2, 3))).shape
    ((1, 4, 1), (2, 3, 1))
    """
    x = as_tensor(x)
    if x.ndim == 0:
        return reshape(x, (1, 1, 1))
    return expand_dims(x, {1: (0, 2), 2: (2,)}[x.ndim]) if x.ndim < 3 else x


@explained
@_joining
@composed
def column_stack(arrays: Iterable[Any], /) -> Tensor:
    """Join tensors along the second axis; those of one axis are columns. The gradient is cut into them again.

    Parameters
    ----------
    arrays : iterable of tensor
        Vectors of n elements, and matrices of n rows; at least one.

    Returns
    -------
    Tensor
        Shape ``(n, columns)``, of the common dtype.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.column_stack([eo.tensor([1.0, 2.0]), eo.tensor([3.0, 4.0])]))
    [[1. 3.]
     [2. 4.]]
    """
    parts = [atleast_1d(x) for x in as_tensors(arrays, "column_stack")]
    return concat([expand_dims(x, 1) if x.ndim == 1 else x for x in parts], axis=1)


@explained
@_joining
@composed
def dstack(arrays: Iterable[Any], /) -> Tensor:
    """Join tensors along the third axis, which is added where it is missing. The gradient is cut again.

    Parameters
    ----------
    arrays : iterable of tensor
        Shapes ``(n, m, ...)`` that differ in the third axis at most; at least one. A vector counts as
        ``(1, m, 1)``, a matrix as ``(n, m, 1)``.

    Returns
    -------
    Tensor
        With at least three axes, of the common dtype.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.dstack([eo.ones((2, 3)), eo.ones((2, 3))]).shape
    (2, 3, 2)
    """
    return concat([atleast_3d(x) for x in as_tensors(arrays, "dstack")], axis=2)


@explained
@_splitting
@composed
def hsplit(x: Any, /, indices_or_sections: int | Sequence[int]) -> list[Tensor]:
    """Split along the second axis, or the only one; see `split`.

    Examples
    --------
    >>> import everyo as eo
    >>> [part.shape for part in eo.hsplit(eo.ones((2, 4)), 2)]
    [(2, 2), (2, 2)]
    """
    x = _require_axes(x, 1, "hsplit")
    return _split(x, indices_or_sections, min(1, x.ndim - 1))


@explained
@_splitting
@composed
def vsplit(x: Any, /, indices_or_sections: int | Sequence[int]) -> list[Tensor]:
    """Split a tensor of at least two axes along the first; see `split`.

    Examples
    --------
    >>> import everyo as eo
    >>> [part.shape for part in eo.vsplit(eo.ones((4, 3)), [1])]
    [(1, 3), (3, 3)]
    """
    return _split(_require_axes(x, 2, "vsplit"), indices_or_sections, 0)


@explained
@_splitting
@composed
def dsplit(x: Any, /, indices_or_sections: int | Sequence[int]) -> list[Tensor]:
    """Split a tensor of at least three axes along the third; see `split`.

    Examples
    --------
    >>> import everyo as eo
    >>> [part.shape for part in eo.dsplit(eo.ones((1, 2, 4)), 4)]
    [(1, 2, 1), (1, 2, 1), (1, 2, 1), (1, 2, 1)]
    """
    return _split(_require_axes(x, 3, "dsplit"), indices_or_sections, 2)


def _split(x: Tensor, sections: Any, axis: int) -> list[Tensor]:
    return split(x, sections, axis)


@viewing
@explained
@_flipping
def fliplr(x: Any, /) -> Tensor:
    """Return a tensor of at least two axes with the second one reversed.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.fliplr(eo.tensor([[1, 2], [3, 4]])))
    [[2 1]
     [4 3]]
    """
    return flip(_require_axes(x, 2, "fliplr"), axis=1)


@viewing
@explained
@_flipping
def flipud(x: Any, /) -> Tensor:
    """Return a tensor of at least one axis with the first one reversed.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.flipud(eo.tensor([[1, 2], [3, 4]])))
    [[3 4]
     [1 2]]
    """
    return flip(_require_axes(x, 1, "flipud"), axis=0)


@explained
def rollaxis(x: Any, /, axis: int, start: int = 0) -> Tensor:
    """Return `x` with an axis moved to stand before the axis that is at `start`; see `moveaxis`.

    The gradient's axis moves back.

    Parameters
    ----------
    x : tensor
        At least 1-d, of any dtype.
    axis : int
        The axis to move.
    start : int, default 0
        Where it is put: before the axis of this number; ``x.ndim`` puts it last.

    Returns
    -------
    Tensor
        The same elements with the axes in the new order.

    Raises
    ------
    IndexingError
        If there is no such axis or place.
    DTypeError
        If `x` is not numeric, or `axis` or `start` is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.rollaxis(eo.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    x = as_tensor(x)
    axis = normalize_axis(axis, x.ndim, "rollaxis")
    start = as_integer(start, "start", "rollaxis")
    start = x.ndim if start == x.ndim else normalize_axis(start, x.ndim, "rollaxis")
    return moveaxis(x, axis, start - 1 if axis < start else start)


@composed
def diagflat(x: Any, /, k: int = 0) -> Tensor:
    """Return a matrix with the elements of `x`, flattened, on its `k`-th diagonal.

    The gradient is the `k`-th diagonal of that of the matrix, in the shape of `x`.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype, with n elements.
    k : int, default 0
        The diagonal, counted from the main one upwards.

    Returns
    -------
    Tensor
        Shape ``(n + |k|, n + |k|)``, zeros beside the diagonal.

    Raises
    ------
    DTypeError
        If `x` is not numeric, or `k` is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.diagflat(eo.tensor([[1, 2]])))
    [[1 0]
     [0 2]]
    """
    return diag(ravel(x), k)


@explained
def resize(x: Any, /, new_shape: int | Sequence[int]) -> Tensor:
    """Return as many elements of `x` as a shape needs, repeated from the start where there are too few.

    The gradient of an element is the sum over its repetitions.

    Parameters
    ----------
    x : tensor
        Of any shape.
    new_shape : int or sequence of int
        The shape of the result.

    Returns
    -------
    Tensor
        Of shape `new_shape` and the dtype of `x`. Zeros if `x` is empty.

    Raises
    ------
    ShapeError
        If a size is negative.
    DTypeError
        If `x` is not numeric, or a size is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.resize(eo.tensor([1, 2, 3]), (2, 2)))
    [[1 2]
     [3 1]]
    """
    shape, flat = normalize_shape(new_shape, "resize"), ravel(x)
    size = math.prod(shape)
    if not flat.size:
        return as_tensor(flat.backend.xp.zeros(shape, dtype=flat.dtype))
    whole, rest = divmod(size, flat.size)
    if whole < _MANY:
        return reshape(concat([flat] * whole + [flat[:rest]] * (rest > 0 or not whole)), shape)
    return reshape(tile(flat, whole + 1)[:size] if rest else tile(flat, whole), shape)


@composed
def trim_zeros(x: Any, /, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Tensor:
    """Return a tensor without the slices of zeros at its front ("f"), its back ("b") or both.

    The gradient is 0 in what is cut off.

    Parameters
    ----------
    x : tensor
        Of any shape.
    trim : str, default "fb"
        Which ends.
    axis : int or sequence of int, optional
        Along which axes; all by default.

    Returns
    -------
    Tensor
        A part of `x`, with all its axes; empty if all elements are zero.

    Raises
    ------
    ArgumentError
        If `trim` says something else.
    ShapeError
        If `x` is 0-d, or an axis is named twice.
    IndexingError
        If there is no such axis.
    DTypeError
        If `x` is not numeric, or an axis no integer.
    UnsupportedOperationError, CompileError
        Under `vmap` or in a compiled function: the shape depends on the elements.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.trim_zeros(eo.tensor([0.0, 1.0, 0.0, 2.0, 0.0])))
    [1. 0. 2.]
    """
    x = as_tensor(x)
    ends = trim.lower() if isinstance(trim, str) else ""
    if not ends or set(ends) - set("fb"):
        raise ArgumentError(
            "the ends are named f (front) and b (back)",
            operation="trim_zeros",
            expected='"f", "b" or "fb"',
            found=repr(trim),
            remedy="leave it out for both ends",
        )
    index = [slice(None)] * x.ndim
    if not x.ndim or not is_known(x):
        nonzero(x)  # its errors say why there is no such shape
    there = x.detach() != 0
    for i in normalize_axes(axis, x.ndim, "trim_zeros"):
        filled = some(there, axis=tuple(j for j in range(x.ndim) if j != i))
        index[i] = slice(0, 0)
        if bool(some(filled)):
            front, back = int(argmax(filled)), int(argmax(flip(filled)))
            index[i] = slice(front if "f" in ends else 0, x.shape[i] - back if "b" in ends else None)
    return x[tuple(index)]


@explained
def ix_(*sequences: Any) -> tuple[Tensor, ...]:
    """Return index tensors that select the outer product of rows, columns and so on.

    Positions carry no gradient; the gradient of what they select goes to the places they name.

    Parameters
    ----------
    *sequences : 1-d tensors or lists of integers or booleans
        What is selected along each axis.

    Returns
    -------
    tuple of Tensor
        Each with its elements along an axis of its own; booleans become the positions of the true ones.

    Raises
    ------
    ShapeError
        If one is not 1-d.
    DTypeError
        If one is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.reshape(eo.arange(9), (3, 3))
    >>> print(x[eo.ix_([0, 2], [1, 2])])
    [[1 2]
     [7 8]]
    """
    found = []
    for i, sequence in enumerate(sequences):
        positions = as_tensor(sequence)
        if positions.ndim != 1:
            raise ShapeError(
                "each axis is selected by a list of its own",
                operation="ix_",
                inputs=describe(positions),
                expected="1 axis",
                found=f"{positions.ndim}",
                remedy="flatten it first",
            )
        if positions.dtype.kind == "b":
            positions = nonzero(positions)[0]
        elif not positions.size:
            positions = positions.astype("int64")
        found.append(expand_dims(positions, tuple(j for j in range(len(sequences)) if j != i)))
    return tuple(found)
