"""Joining tensors into one, and grids of coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from everyo.core.batching import along
from everyo.core.dispatch import apply
from everyo.core.dtypes import as_dtype, complex128
from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, ShapeError, describe
from everyo.ops.axes import as_flag, is_one_of, normalize_axis
from everyo.ops.creation import as_tensor, as_tensors
from everyo.ops.families import linear
from everyo.ops.shape import atleast_1d, atleast_2d, broadcast_arrays, expand_dims, reshape
from everyo.ops.signatures import composed, explained

__all__ = ["concat", "concatenate", "hstack", "meshgrid", "stack", "vstack"]


def _explain_concat(inputs: Sequence[Any], params: dict[str, Any], error: Exception) -> ShapeError | None:
    shapes, axis = [tuple(x.shape) for x in inputs], params["axis"]
    if len({(len(s), s[:axis], s[axis + 1 :]) for s in shapes}) == 1:
        return None
    return ShapeError(
        "the tensors differ along other axes than the one they are joined along",
        operation="concat",
        inputs=describe(*inputs),
        expected=f"equal shapes in all but axis {axis}",
        found=" and ".join(map(str, shapes)),
        remedy="add missing axes with expand_dims, pad, or choose another axis",
    )


def _concat_vjp(g: Any, arrays_shape: Sequence[Any], axis: int, needs: Sequence[bool]) -> list[Any]:
    parts, stop = [], 0
    for shape, needed in zip(arrays_shape, needs):
        start, stop = stop, stop + shape[axis]
        index = (*(slice(None),) * axis, slice(start, stop))
        parts.append(op.getitem(g, index=index) if needed else None)
    return parts


@linear(
    _concat_vjp,
    samples=lambda: [
        sample((3,), (2,), axis=0),
        sample((2, 1), (2, 0), (2, 3), axis=1),
        sample((1, 2, 2), axis=0),
        sample((3,), (2,), axis=0, dtype=complex128),
    ],
    broadcasts=True,
    batch=along("axis"),
    explain=_explain_concat,
)
def _concat(xp: Any, *arrays: Any, axis: int, dtype: Any = None) -> Any:
    return xp.concat(arrays, axis=axis, dtype=dtype)


def _explain_stack(inputs: Sequence[Any], params: dict[str, Any], error: Exception) -> ShapeError | None:
    shapes = [tuple(x.shape) for x in inputs]
    if len(set(shapes)) == 1:
        return None
    return ShapeError(
        "the tensors differ in shape",
        operation="stack",
        inputs=describe(*inputs),
        expected="one shape",
        found=" and ".join(map(str, shapes)),
        remedy="broadcast or pad them first, or join them along an axis that they have with eo.concat",
    )


def _stack_vjp(g: Any, axis: int, needs: Sequence[bool]) -> list[Any]:
    lead = (slice(None),) * axis
    return [op.getitem(g, index=(*lead, i)) if needed else None for i, needed in enumerate(needs)]


@linear(
    _stack_vjp,
    samples=lambda: [
        sample((), (), (), axis=0),
        sample((3,), (3,), axis=1),
        sample((2, 0), (2, 0), axis=1),
        sample((2, 3), axis=2),
    ],
    broadcasts=True,
    batch=along("axis"),
    explain=_explain_stack,
)
def _stack(xp: Any, *arrays: Any, axis: int) -> Any:
    return xp.stack(arrays, axis=axis)


def _operands(arrays: Iterable[Any], operation: str) -> list[Tensor]:
    """Return what is to be joined as tensors; Python numbers take the dtype of the others."""
    if not isinstance(arrays, Iterable):
        raise DTypeError(
            "what is joined must come in a sequence",
            operation=operation,
            expected="a list or tuple of tensors",
            found=type(arrays).__name__,
            remedy=f"write eo.{operation}([x1, x2])",
        )
    items = list(arrays)
    if not items:
        raise ShapeError(
            "there is nothing to join",
            operation=operation,
            expected="at least one tensor",
            found="none",
            remedy="pass at least one tensor; an empty result is made with eo.zeros",
        )
    return as_tensors(items, operation)


@explained
def concat(arrays: Iterable[Any], /, *, axis: int | None = 0, dtype: Any = None) -> Tensor:
    """Join tensors along an axis that they have; their other axes must agree.

    The gradient is cut into the parts again.

    Parameters
    ----------
    arrays : sequence of tensors
        What is joined, in order; dtypes are promoted.
    axis : int or None, default 0
        Along which axis; None joins the flattened tensors.
    dtype : dtype-like, optional
        The dtype of the result.

    Returns
    -------
    Tensor
        As long along the axis as the tensors together; 1-d for ``axis=None``. Of the promoted dtype.

    Raises
    ------
    ShapeError
        If there is no tensor, or the shapes do not fit.
    IndexingError, DTypeError
        If there is no such axis; if it is no integer, `arrays` no sequence, or `dtype` real for complex ones.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.concat([eo.tensor([1, 2]), eo.tensor([3])]))
    [1 2 3]
    """
    return _joined(arrays, axis, dtype)


def _joined(arrays: Iterable[Any], axis: int | None, dtype: Any) -> Tensor:
    tensors = _operands(arrays, "concat")
    if axis is None:
        tensors, axis = [reshape(x, (x.size,)) for x in tensors], 0
    axis = normalize_axis(axis, tensors[0].ndim, "concat")
    dtype = None if dtype is None else as_dtype(dtype)
    if dtype is not None and (dtype.kind == "c" or (dtype.kind == "f" and all(_is_real(x) for x in tensors))):
        return apply(_concat, tensors, {"axis": axis, "dtype": dtype})  # converts while it copies
    joined = apply(_concat, tensors, {"axis": axis})
    return joined if dtype is None else joined.astype(dtype, copy=False)


def _is_real(x: Tensor) -> bool:
    return x.dtype.kind != "c"


@explained
def concatenate(arrays: Iterable[Any], /, axis: int | None = 0, *, dtype: Any = None) -> Tensor:
    """Join tensors along an axis that they have: `concat` under NumPy's name.

    The gradient is cut into the parts again.

    Parameters
    ----------
    arrays : sequence of tensors
        What is joined, in order; dtypes are promoted.
    axis : int or None, default 0
        Along which axis; None joins the flattened tensors.
    dtype : dtype-like, optional
        The dtype of the result.

    Returns
    -------
    Tensor
        As long along the axis as the tensors together; 1-d for ``axis=None``.

    Raises
    ------
    ShapeError
        If there is no tensor, or the shapes do not fit.
    IndexingError, DTypeError
        If there is no such axis; if it is no integer, `arrays` no sequence, or `dtype` real for complex ones.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.concatenate([eo.ones((2, 1)), eo.ones((2, 3))], 1).shape
    (2, 4)
    """
    return _joined(arrays, axis, dtype)


@explained
def stack(arrays: Iterable[Any], /, axis: int = 0, *, dtype: Any = None) -> Tensor:
    """Join tensors of one shape along a new axis.

    The gradient is taken apart along that axis.

    Parameters
    ----------
    arrays : sequence of tensors
        What is joined, in order; dtypes are promoted, Python numbers take the dtype of the others.
    axis : int, default 0
        The position of the new axis in the result.
    dtype : dtype-like, optional
        The dtype of the result.

    Returns
    -------
    Tensor
        With one axis more, as long as the sequence. Of the promoted dtype.

    Raises
    ------
    ShapeError
        If there is no tensor, or the shapes differ.
    IndexingError, DTypeError
        If there is no such axis; if it is no integer, `arrays` no sequence, or `dtype` real for complex ones.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.stack([eo.tensor([1, 2]), eo.tensor([3, 4])], axis=1))
    [[1 3]
     [2 4]]
    """
    tensors = _operands(arrays, "stack")
    joined = apply(_stack, tensors, {"axis": normalize_axis(axis, tensors[0].ndim + 1, "stack")})
    return joined if dtype is None else joined.astype(dtype, copy=False)


@composed
def vstack(arrays: Iterable[Any], /, *, dtype: Any = None) -> Tensor:
    """Join tensors as rows: along the first axis, vectors as matrices of one row.

    The gradient is cut into the parts again.

    Parameters
    ----------
    arrays : sequence of tensors
        What is joined, in order; dtypes are promoted. Numbers and vectors are rows.
    dtype : dtype-like, optional
        The dtype of the result.

    Returns
    -------
    Tensor
        At least 2-d, as long along the first axis as the tensors together.

    Raises
    ------
    ShapeError
        If there is no tensor, or they differ along other axes than the first.
    DTypeError
        If `arrays` is no sequence, or a complex tensor would become real in `dtype`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.vstack([eo.tensor([1, 2]), eo.tensor([3, 4])]))
    [[1 2]
     [3 4]]
    """
    return concat([atleast_2d(x) for x in _operands(arrays, "vstack")], dtype=dtype)


@composed
def hstack(arrays: Iterable[Any], /, *, dtype: Any = None) -> Tensor:
    """Join tensors side by side: along the second axis, vectors along their only one.

    The gradient is cut into the parts again.

    Parameters
    ----------
    arrays : sequence of tensors
        What is joined, in order; dtypes are promoted. Numbers are vectors of length 1.
    dtype : dtype-like, optional
        The dtype of the result.

    Returns
    -------
    Tensor
        At least 1-d, as long along the joined axis as the tensors together.

    Raises
    ------
    ShapeError
        If there is no tensor, or they differ along other axes than the joined one.
    DTypeError
        If `arrays` is no sequence, or a complex tensor would become real in `dtype`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.hstack([eo.tensor([1, 2]), eo.tensor([3, 4])]))
    [1 2 3 4]
    """
    tensors = [atleast_1d(x) for x in _operands(arrays, "hstack")]
    return concat(tensors, axis=min(tensors[0].ndim - 1, 1), dtype=dtype)


@explained
def meshgrid(*xs: Any, sparse: bool = False, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Return the coordinates of the points of a grid, one tensor for each vector of coordinates.

    The gradient of a coordinate is summed over the points that have it.

    Parameters
    ----------
    *xs : tensor
        Vectors; other tensors are flattened.
    sparse : bool, default False
        Leave axes along which a coordinate does not change at length 1: they broadcast.
    indexing : {"xy", "ij"}, default "xy"
        Whether the first two axes of the results are exchanged ("xy") or in the order of the vectors.

    Returns
    -------
    tuple of Tensor
        One for each vector, of its dtype, with an axis for each of them.

    Raises
    ------
    ArgumentError, DTypeError
        If there is no such indexing, or `sparse` is neither true nor false.

    Examples
    --------
    >>> import everyo as eo
    >>> x, y = eo.meshgrid(eo.arange(3), eo.arange(2))
    >>> print(x)
    [[0 1 2]
     [0 1 2]]
    """
    if not is_one_of(indexing, ("xy", "ij")):
        raise ArgumentError(
            "there is no such indexing", operation="meshgrid", expected="xy or ij", found=repr(indexing)
        )
    order = list(range(len(xs)))
    if indexing == "xy":
        order[:2] = order[:2][::-1]
    vectors = [reshape(x, (x.size,)) for x in map(as_tensor, xs)]
    grid = [expand_dims(x, [i for i in range(len(xs)) if i != at]) for x, at in zip(vectors, order)]
    return tuple(grid) if as_flag(sparse, "sparse", "meshgrid") else broadcast_arrays(*grid)
