"""Insertions and deletions: the positions along an axis that come in or go, and all others in order.

The two are each other's transposes: what an insertion leaves to the values, a deletion takes away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from everyo.core.batching import everywhere, looped
from everyo.core.dispatch import apply
from everyo.core.operands import tensors_in
from everyo.core.registry import op
from everyo.core.samples import Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import CompileError, IndexingError, UnsupportedOperationError, describe
from everyo.ops.axes import as_integer, normalize_axis
from everyo.ops.creation import as_tensor, as_tensors
from everyo.ops.families import primitive
from everyo.ops.index_batching import DISTINCT
from everyo.ops.known import is_known
from everyo.ops.shape import broadcast_to, ravel, reshape
from everyo.ops.signatures import composed
from everyo.ops.transposition import moveaxis

__all__ = ["delete", "insert"]

_FEW = 16  # where one position of so many goes, those that stay lie in rows that a mask copies quickly


def _others(xp: Any, places: Any, size: int) -> Any:
    """Return an index of all positions of an axis but some: a mask, or positions."""
    others = xp.ones(size, dtype=bool)
    others[places] = False
    return others if places.size * _FEW < size else xp.flatnonzero(others)


def _batch(primitive: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    places = inputs[-1]
    if batched[-1] and size:
        return looped(primitive, inputs, batched, size, params)
    if batched[-1]:  # of no example: any places will do that differ
        places = op.cumsum(op.sum(places, axis=(0,), keepdims=False) + 1, axis=0, reverse=False) - 1
    moving = everywhere(inputs[:-1], batched[:-1], size)
    return primitive(*moving, places, axis=params["axis"] + 1)


def _longer(sign: int) -> Any:
    """Return the rule for shape and dtype of a result, which do not depend on where the places are."""

    def specs(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        x, axis, count = examples[0], params["axis"], examples[-1].shape[0]
        return [((*x.shape[:axis], x.shape[axis] + sign * count, *x.shape[axis + 1 :]), x.dtype)]

    return specs


@primitive(
    vjp=(lambda g, places, axis: op.insert(g, 0, places, axis=axis), None),
    jvp=(lambda t, places, axis: op.delete(t, places, axis=axis), None),
    missing="the positions are integers",
    samples=lambda: [
        sample((4,), Values([2, 0]), axis=0),
        sample((2, 3), Values([1]), axis=1),
        sample((34,), Values([7, 33]), axis=0),
        sample((2, 2), Values([0, 1]), axis=0),
    ],
    batch=_batch,
    specs=_longer(-1),
)
def _delete(xp: Any, x: Any, places: Any, *, axis: int) -> Any:
    """Return `x` without different `places` along an axis, counted from 0."""
    others = _others(xp, places, x.shape[axis])
    return x[(*(slice(None),) * axis, others)] if others.dtype == bool else xp.take(x, others, axis=axis)


def _inserted(g: Any, places: Any, axis: int) -> Any:
    """Return what stands at the places of values."""
    return op.getitem(g, places, index=(*(slice(None),) * axis, DISTINCT))


def _values_alone(t: Any, x_shape: Any, places: Any, axis: int) -> Any:
    """Return values at their places, and zeros elsewhere."""
    shape = (*x_shape[:axis], x_shape[axis] + places.shape[0], *x_shape[axis + 1 :])
    return op.assemble(t, places, indices=((*(slice(None),) * axis, DISTINCT),), shape=shape)


@primitive(
    vjp=(lambda g, places, axis: op.delete(g, places, axis=axis), _inserted, None),
    jvp=(lambda t, places, axis: op.insert(t, 0, places, axis=axis), _values_alone, None),
    missing="the positions are integers",
    samples=lambda: [
        sample((3,), (2,), Values([3, 0]), axis=0),
        sample((2, 3), (2, 1), Values([1]), axis=1),
        sample((32,), (2,), Values([7, 33]), axis=0),
        sample((0, 2), (2, 2), Values([0, 1]), axis=0),
    ],
    batch=_batch,
    specs=_longer(1),
)
def _insert(xp: Any, x: Any, values: Any, places: Any, *, axis: int) -> Any:
    """Return the values at different `places` of the result along an axis, and `x` at the others."""
    lead, size = (slice(None),) * axis, x.shape[axis] + places.size
    out = xp.empty((*x.shape[:axis], size, *x.shape[axis + 1 :]), dtype=x.dtype)
    out[(*lead, _others(xp, places, size))] = x
    out[(*lead, places)] = values
    return out


def _positions(x: Tensor, obj: Any, axis: int, operation: str, last: int) -> Any:
    """Return the positions along an axis that `obj` (a number, slice, list or mask) names, below `last`.

    They are counted from 0, in an array of its own.
    """
    size, xp = x.shape[axis], x.backend.xp
    if isinstance(obj, slice):
        return xp.arange(*obj.indices(size))
    if any(not is_known(item) for item in tensors_in(obj)):
        obj = _read(obj, operation)
    named = obj.data if isinstance(obj, Tensor) and is_known(obj) else obj
    if not isinstance(named, xp.ndarray) or named.ndim != 1 or named.dtype.kind not in "biu":
        named = named.tolist() if hasattr(named, "tolist") and not isinstance(named, type) else named
        listed = list(named) if isinstance(named, Iterable) else [named]
        if not listed or not all(isinstance(item, bool) for item in listed):
            listed = [as_integer(item, "a position", operation) for item in listed]
        named = xp.asarray(listed, dtype=None if listed else "int64")
    if named.dtype.kind == "b":
        if named.size not in (0, size):
            raise IndexingError(
                "the mask does not fit the axis",
                operation=operation,
                inputs=describe(x),
                expected=f"{size} booleans",
                found=str(named.size),
                remedy="compare the tensor that is changed",
            )
        return xp.flatnonzero(named)
    outside = (named < -size) | (named >= last)
    if xp.any(outside):
        position = int(named[outside][0])
        raise IndexingError(
            f"position {position} does not exist",
            operation=operation,
            inputs=describe(x),
            expected=f"-{size} <= position < {last}",
            found=str(position),
            remedy="positions are counted from 0, or from -1 for the last",
        )
    named = xp.astype(named, xp.int64)
    return xp.where(named < 0, named + size, named)


def _read(obj: Any, operation: str) -> Any:
    """Return positions as Python numbers; an error where they exist only later, or differ by example."""
    if isinstance(obj, (list, tuple)):
        return [_read(item, operation) for item in obj]
    try:
        return obj.tolist() if isinstance(obj, Tensor) else obj
    except (CompileError, UnsupportedOperationError) as error:
        compiled = isinstance(error, CompileError)
        raise type(error)(
            "the positions must be known",
            operation=operation,
            inputs=error.inputs,
            expected="integers, a slice, or a tensor from outside the function",
            found="a value that exists only when the compiled program runs" if compiled else error.found,
            remedy="mark the argument in static_argnums, or pass Python integers"
            if compiled
            else "pass positions that all examples share, or loop over the batch in Python",
            line=error.line,
        ) from None


def _neighbours(obj: Any, size: int) -> tuple[int, int] | None:
    """Return the first position and the one behind the last where a number or a slice says so at once."""
    if type(obj) is int and -size <= obj < size:
        return obj % size, obj % size + 1
    if type(obj) is slice and obj.step in (None, 1):
        first, behind, _ = obj.indices(size)
        return first, max(first, behind)
    return None


def _as_neighbours(xp: Any, places: Any) -> tuple[int, int] | None:
    """Return the first position and the one behind the last if positions are those between; else None."""
    if not places.size or not xp.all(places == places[0] + xp.arange(places.size)):
        return None
    return int(places[0]), int(places[-1]) + 1


def _part(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    return apply(op.getitem, (x,), {"index": (*(slice(None),) * axis, slice(start, stop))})


@composed
def delete(x: Any, obj: Any, /, axis: int | None = None) -> Tensor:
    """Return `x` without some positions along an axis; their gradient is 0.

    Parameters
    ----------
    x : tensor
        At least 1-d if an axis is named.
    obj : int, slice, list of int or mask
        The positions.
    axis : int, optional
        Along which axis; by default those of the flattened tensor.

    Returns
    -------
    Tensor

    Raises
    ------
    IndexingError
        If there is no such position or axis.
    DTypeError
        If a position is no integer.
    UnsupportedOperationError, CompileError
        If a position is a tensor that `vmap` or a compiled function computes.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.delete(eo.tensor([1, 2, 3, 4]), [0, -1]))
    [2 3]
    """
    x = ravel(x) if axis is None else as_tensor(x)
    axis = normalize_axis(0 if axis is None else axis, x.ndim, "delete")
    size, xp = x.shape[axis], x.backend.xp
    neighbours = _neighbours(obj, size)
    if neighbours is None:
        gone = _positions(x, obj, axis, "delete", size)
        neighbours = _as_neighbours(xp, gone)
        if neighbours is None:
            if not xp.all(gone[1:] > gone[:-1]):
                gone = xp.unique_values(gone)
            return apply(_delete, (x, x.backend.asarray(gone, None, x.device)), {"axis": axis})
    first, behind = neighbours
    return apply(op.concat, (_part(x, axis, 0, first), _part(x, axis, behind, size)), {"axis": axis})


@composed
def insert(x: Any, obj: Any, values: Any, /, axis: int | None = None) -> Tensor:
    """Return `x` with values inserted before positions along an axis.

    The gradient is cut into that of `x` and that of `values`.

    Parameters
    ----------
    x : tensor
        At least 1-d if an axis is named.
    obj : int, slice, list of int or mask
        Before which positions of `x`; its size stands for the end.
    values : tensor
        What is inserted, broadcast to one slice for each position, or with one position to as many as it
        has. They take the dtype of `x`.
    axis : int, optional
        Along which axis; by default the flattened tensor is extended.

    Returns
    -------
    Tensor
        Of the dtype of `x`.

    Raises
    ------
    IndexingError
        If there is no such position or axis.
    ShapeError
        If the values do not fit.
    UnsupportedOperationError, CompileError
        If a position is a tensor that `vmap` or a compiled function computes.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.insert(eo.tensor([1.0, 2.0]), 1, eo.tensor([8.0, 9.0])))
    [1. 8. 9. 2.]
    """
    x, values = as_tensors((x, values), "insert")
    x = ravel(x) if axis is None else x
    axis = normalize_axis(0 if axis is None else axis, x.ndim, "insert")
    size, xp = x.shape[axis], x.backend.xp
    at = obj % size if type(obj) is int and -size <= obj < size else None
    places: Any = _positions(x, obj, axis, "insert", size + 1) if at is None else None
    values = values if values.dtype == x.dtype else values.astype(x.dtype)
    if values.ndim < x.ndim:
        values = reshape(values, (1,) * (x.ndim - values.ndim) + values.shape)
    if axis and getattr(obj, "ndim", 0) == 0 and not isinstance(obj, (slice, Sequence)):
        values = moveaxis(values, 0, axis)
    if places is not None and places.size == 1:
        places = xp.repeat(places, values.shape[axis])
    count = values.shape[axis] if places is None else places.size
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    values = values if values.shape == shape else broadcast_to(values, shape)
    if places is not None and places.size and xp.all(places == places[0]):
        at = int(places[0])
    if at is not None:
        return apply(op.concat, (_part(x, axis, 0, at), values, _part(x, axis, at, size)), {"axis": axis})
    order = xp.argsort(places, stable=True)
    places[order] += xp.arange(places.size)
    return apply(_insert, (x, values, x.backend.asarray(places, None, x.device)), {"axis": axis})
