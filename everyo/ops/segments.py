"""Reductions of segments: all rows of one number are reduced into one."""

from __future__ import annotations

from typing import Any

from everyo.core.dispatch import apply
from everyo.core.dtypes import int64
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, EveryOError, IndexingError, ShapeError, describe
from everyo.ops.axes import as_integer
from everyo.ops.creation import as_tensor
from everyo.ops.gathering import positions_in
from everyo.ops.index_errors import outside
from everyo.ops.indexing import ARRAY
from everyo.ops.reductions import inexact
from everyo.ops.scatter_reductions import first_extreme, wide_enough
from everyo.ops.signatures import explained

__all__ = ["segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum"]


@explained
def segment_sum(data: Any, segment_ids: Any, /, num_segments: int | None = None) -> Tensor:
    """Sum of the rows of each segment.

    The gradient of a row is that of its segment.

    Parameters
    ----------
    data : tensor
        Shape ``(n, ...)``.
    segment_ids : integer tensor
        Shape ``(n,)``: the segment of each row, in any order. Negative ones count from the last segment.
    num_segments : int, optional
        How many segments there are; by default one more than the largest number. Under `vmap` and
        `compile`, where numbers are not known beforehand, it must be given.

    Returns
    -------
    Tensor
        Shape ``(num_segments, ...)``; 0 for a segment without rows.

    Raises
    ------
    IndexingError
        If there is no such segment, or a number is no integer.
    ShapeError
        If there are not as many numbers as rows.
    ArgumentError, DTypeError
        If `num_segments` is negative or unknown, or no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.segment_sum(eo.tensor([1.0, 2.0, 3.0]), eo.tensor([0, 2, 0])))
    [4. 0. 2.]
    """
    data, ids, count = _segments(data, segment_ids, num_segments, "segment_sum")
    return _summed(data, ids, count, "segment_sum")


@explained
def segment_mean(data: Any, segment_ids: Any, /, num_segments: int | None = None) -> Tensor:
    """Mean of the rows of each segment; NaN for a segment without rows, as for any mean of nothing.

    The gradient of a row is that of its segment, divided by the number of its rows.

    Parameters
    ----------
    data : tensor
        Shape ``(n, ...)``; integers are computed in float64.
    segment_ids : integer tensor
        Shape ``(n,)``: the segment of each row, as in `segment_sum`.
    num_segments : int, optional
        How many segments there are, as in `segment_sum`.

    Returns
    -------
    Tensor
        Shape ``(num_segments, ...)``.

    Raises
    ------
    IndexingError
        If there is no such segment, or a number is no integer.
    ShapeError
        If there are not as many numbers as rows.
    ArgumentError
        If `num_segments` is negative, or unknown.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.segment_mean(eo.tensor([1.0, 2.0, 3.0]), eo.tensor([0, 1, 0])))
    [2. 2.]
    """
    data, ids, count = _segments(data, segment_ids, num_segments, "segment_mean")
    data = inexact(data)
    if data.dtype == (wide := wide_enough(data)):
        return _mean(data, ids, count)
    return op.astype(_mean(op.astype(data, dtype=wide), ids, count), dtype=data.dtype)


@explained
def segment_prod(data: Any, segment_ids: Any, /, num_segments: int | None = None) -> Tensor:
    """Product of the rows of each segment; 1 for a segment without rows.

    The gradient of an element is the product of the others, exact to every order where elements are zero.

    Parameters
    ----------
    data : tensor
        Shape ``(n, ...)``.
    segment_ids : integer tensor
        Shape ``(n,)``: the segment of each row, as in `segment_sum`.
    num_segments : int, optional
        How many segments there are, as in `segment_sum`.

    Returns
    -------
    Tensor
        Shape ``(num_segments, ...)``, of the dtype of `data`.

    Raises
    ------
    IndexingError
        If there is no such segment, or a number is no integer.
    ShapeError
        If there are not as many numbers as rows.
    ArgumentError
        If `num_segments` is negative, or unknown.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([0.0, 2.0, 3.0], requires_grad=True)
    >>> y = eo.segment_prod(x, eo.tensor([0, 1, 0]))
    >>> y.sum().backward()
    >>> print(y, x.grad)
    [0. 2.] [3. 1. 0.]
    """
    data, ids, count = _segments(data, segment_ids, num_segments, "segment_prod")
    params = {"axis": 0, "shape": (count, *data.shape[1:])}
    try:
        return apply(op.scatter_prod, (data, _column(ids, data.ndim)), params)
    except EveryOError as error:
        raise error.renamed("segment_prod") from None


@explained
def segment_max(data: Any, segment_ids: Any, /, num_segments: int | None = None) -> Tensor:
    """Maximum of the rows of each segment; for one without rows -inf, or the lowest integer.

    The gradient goes to the largest element; equal ones share it equally.

    Parameters
    ----------
    data : tensor
        Real, of shape ``(n, ...)``.
    segment_ids : integer tensor
        Shape ``(n,)``: the segment of each row, as in `segment_sum`.
    num_segments : int, optional
        How many segments there are, as in `segment_sum`.

    Returns
    -------
    Tensor
        Shape ``(num_segments, ...)``, of the dtype of `data`; NaN where there is a NaN.

    Raises
    ------
    IndexingError
        If there is no such segment, or a number is no integer.
    ShapeError
        If there are not as many numbers as rows.
    ArgumentError
        If `num_segments` is negative, or unknown.
    DTypeError
        If `data` is complex.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([2.0, 5.0, 2.0], requires_grad=True)
    >>> y = eo.segment_max(x, eo.tensor([0, 1, 0]))
    >>> y.sum().backward()
    >>> print(y, x.grad)
    [2. 5.] [0.5 1.  0.5]
    """
    return _extreme(op.scatter_max, -1, data, segment_ids, num_segments, "segment_max")


@explained
def segment_min(data: Any, segment_ids: Any, /, num_segments: int | None = None) -> Tensor:
    """Minimum of the rows of each segment; for one without rows inf, or the highest integer.

    The gradient goes to the smallest element; equal ones share it equally.

    Parameters
    ----------
    data : tensor
        Real, of shape ``(n, ...)``.
    segment_ids : integer tensor
        Shape ``(n,)``: the segment of each row, as in `segment_sum`.
    num_segments : int, optional
        How many segments there are, as in `segment_sum`.

    Returns
    -------
    Tensor
        Shape ``(num_segments, ...)``, of the dtype of `data`; NaN where there is a NaN.

    Raises
    ------
    IndexingError
        If there is no such segment, or a number is no integer.
    ShapeError
        If there are not as many numbers as rows.
    ArgumentError
        If `num_segments` is negative, or unknown.
    DTypeError
        If `data` is complex.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.segment_min(eo.tensor([1.0, 2.0, 3.0]), eo.tensor([0, 1, 0])))
    [1. 2.]
    """
    return _extreme(op.scatter_min, 1, data, segment_ids, num_segments, "segment_min")


def _segments(data: Any, ids: Any, count: int | None, operation: str) -> tuple[Tensor, Tensor, int]:
    """Return checked data, the number of each row's segment, and how many segments there are."""
    data = as_tensor(data)
    found = positions_in(data, ids, operation)
    if found.ndim != 1 or not data.ndim or data.shape[0] != found.shape[0]:
        raise ShapeError(
            "there must be one segment number for each row",
            operation=operation,
            inputs=describe(data, found),
            expected=f"shape {tuple(data.shape[:1])}",
            found=f"shape {tuple(found.shape)}",
            remedy="number the rows along the first axis; move another axis there with eo.moveaxis",
        )
    if count is None:
        return data, found, _number(found, operation)
    count = as_integer(count, "num_segments", operation)
    if count < 0:
        raise ArgumentError(
            "the number of segments is negative",
            operation=operation,
            expected="num_segments >= 0",
            found=str(count),
            remedy="leave it out to have it computed",
        )
    return data, found, count


def _number(ids: Tensor, operation: str) -> int:
    """Return one more than the largest segment number."""
    if not ids.size:
        return 0
    try:
        return max(int(op.max(ids, axis=None, keepdims=False).item()) + 1, 0)
    except EveryOError as error:
        raise ArgumentError(
            "the number of segments depends on values that are not known yet",
            operation=operation,
            inputs=describe(ids),
            expected="num_segments inside of transformations",
            found="none",
            remedy=f"pass it: eo.{operation}(data, ids, num_segments=...)",
        ) from error


def _summed(data: Any, ids: Tensor, count: int, operation: str) -> Tensor:
    shape = (count, *data.shape[1:])
    try:
        return apply(op.assemble, (data, ids), {"indices": ((ARRAY,),), "shape": shape})
    except IndexingError as error:
        raise outside(operation, data, ids, shape, 0, error.found) from None


def _mean(data: Tensor, ids: Tensor, count: int) -> Tensor:
    total = _summed(data, ids, count, "segment_mean")
    one = as_tensor(data.backend.xp.ones((), int64))  # in float32 a count would end at 2**24
    number = _summed(op.broadcast_to(one, shape=tuple(data.shape[:1])), ids, count, "segment_mean")
    number = op.reshape(op.astype(number, dtype=data.dtype), shape=(count, *(1,) * (data.ndim - 1)))
    return total / op.where(number == 0, float("nan"), number)


def _column(ids: Tensor, ndim: int) -> Tensor:
    """Return segment numbers with axes that broadcast against those of the rows."""
    return op.reshape(ids, shape=(ids.size, *(1,) * (ndim - 1)))


def _extreme(reduction: Any, sign: int, data: Any, ids: Any, count: int | None, operation: str) -> Tensor:
    data, found, count = _segments(data, ids, count, operation)
    if data.dtype.kind == "c":
        raise DTypeError(
            "complex numbers are not ordered",
            operation=operation,
            inputs=describe(data),
            expected="real numbers",
            found=str(data.dtype),
            remedy="take their absolute values, or their real parts",
        )
    xp = data.backend.xp
    try:
        first = xp.asarray(first_extreme(xp, data.dtype, sign), dtype=data.dtype)
        start = op.broadcast_to(first, shape=(count, *data.shape[1:]))
        return apply(reduction, (start, data, _column(found, data.ndim)), {"axis": 0, "own": False})
    except EveryOError as error:
        raise error.renamed(operation) from None
