"""Batching rules of indexing: where the batch goes in an index, and in what the index reads or writes.

Two axes are in play. An operand with a batch gets it as its first axis, and the index a ``:`` in front, or
the numbers of the examples where its arrays have the batch too. And NumPy puts the axes of index arrays
where they stand if they stand together, else first: `batched_index` says how to undo what that does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from everyo.core.batching import as_single, everywhere, padded
from everyo.core.device import backend_of
from everyo.core.registry import op
from everyo.core.tensor import Tensor

__all__: list[str] = []

ARRAY, DISTINCT = "array", "distinct"  # DISTINCT: it names no element twice, because it is from a mask
Template = tuple[Any, ...]


class Layout(NamedTuple):
    """What an index makes of an operand of given rank.

    Attributes
    ----------
    before, spread, rank : int
        Axes of the result before those of the index arrays; axes of the arrays; axes altogether.
    together : bool
        Whether the arrays (and the integers and booleans among them) stand side by side.
    """

    before: int
    spread: int
    rank: int
    together: bool


def layout(index: Template, ndim: int, ranks: Sequence[int]) -> Layout:
    """Return the layout of ``x[index]`` for `x` of `ndim` axes and index arrays of these ranks."""
    booleans = any(type(item) is bool for item in index)
    kinds = (str, bool, int) if ranks or booleans else ()  # beside arrays an integer counts as one
    advanced = [i for i, item in enumerate(index) if type(item) in kinds]
    consumed = sum(type(item) in (str, int, slice) for item in index)
    sizes = [
        0 if i in advanced or type(item) is int else ndim - consumed if item is Ellipsis else 1
        for i, item in enumerate(index)
    ]
    spread = max((*ranks, 1) if booleans else ranks, default=0)
    rest = sum(sizes) + (0 if Ellipsis in index else ndim - consumed)
    together = not advanced or advanced[-1] - advanced[0] == len(advanced) - 1
    return Layout(sum(sizes[: advanced[0]]) if advanced else 0, spread, spread + rest, together)


def batched_index(
    index: Template, ndim: int, arrays: Sequence[Any], batched: Sequence[bool], size: int, like: Any
) -> tuple[Template, list[Any], tuple[int, ...] | None]:
    """Return the index of an operand that has a batch in front of `ndim` axes, its arrays, and an order.

    The order, unless None, are the axes to transpose what NumPy returns by, so that the batch comes first
    and the others stand as in the index of one example.
    """
    found = layout(index, ndim, [len(a.shape) - b for a, b in zip(arrays, batched, strict=True)])
    if any(batched):
        numbers = _numbers(like, size, found.spread)
        filled = [padded(a, found.spread) if b else a for a, b in zip(arrays, batched, strict=True)]
        return (DISTINCT, *index), [numbers, *filled], _arrays_first(found)
    order = None
    if not found.together and found.spread:  # the arrays' axes come first, and then the batch
        order = (found.spread, *range(found.spread), *range(found.spread + 1, found.rank + 1))
    return (slice(None), *index), list(arrays), order


def _arrays_first(found: Layout) -> tuple[int, ...] | None:
    """Return the order that brings axes before those of the arrays back there; the batch comes first."""
    if not (found.together and found.before and found.spread):
        return None
    after = 1 + found.spread + found.before
    moved = (*range(1 + found.spread, after), *range(1, 1 + found.spread))
    return (0, *moved, *range(after, found.rank + 1))


def _numbers(like: Any, size: int, spread: int) -> Any:
    """Return the numbers of the examples, with axes to broadcast against index arrays."""
    backend: Any = like.backend if isinstance(like, Tensor) else backend_of(like)
    device = like.device if isinstance(like, Tensor) else backend.device_of(like)
    numbers = backend.xp.reshape(backend.xp.arange(size), (size, *(1,) * spread))
    return backend.asarray(numbers, "int64", device)


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def _moved(x: Any, order: tuple[int, ...] | None) -> Any:
    return x if order is None else op.transpose(x, axes=order)


def getitem(primitive: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    """Read every example's elements at once."""
    (x, *arrays), index = inputs, params["index"]
    if batched[0]:
        ndim = len(x.shape) - 1
        index, arrays, order = batched_index(index, ndim, arrays, batched[1:], size, x)
        return _moved(primitive(x, *arrays, index=index), order)
    # One operand for all: the index arrays have the batch, and may name an element twice over it.
    found = layout(index, len(x.shape), [len(a.shape) - b for a, b in zip(arrays, batched[1:], strict=True)])
    arrays = [padded(a, found.spread) if b else a for a, b in zip(arrays, batched[1:], strict=True)]
    out = primitive(x, *arrays, index=tuple([ARRAY if item == DISTINCT else item for item in index]))
    if not (found.before and found.together):
        return out
    order = (found.before, *range(found.before), *range(found.before + 1, found.rank + 1))
    return op.transpose(out, axes=order)


def assemble(primitive: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    """Add every example's values at once."""
    indices, shape = params["indices"], params["shape"]
    values = everywhere(inputs[: len(indices)], batched[: len(indices)], size)
    following = iter(zip(inputs[len(indices) :], batched[len(indices) :], strict=True))
    new_values, new_arrays, new_indices = [], [], []
    for value, index in zip(values, indices, strict=True):
        pairs = [next(following) for item in index if type(item) is str]
        arrays, marks = [a for a, _ in pairs], [b for _, b in pairs]
        if ARRAY in index and not any(marks):  # adding at arrays only is quicker than at slices and arrays
            arrays[0] = op.broadcast_to(arrays[0], shape=(size, *arrays[0].shape))
            marks[0] = True
        index, arrays, order = batched_index(index, len(shape), arrays, marks, size, value)
        new_values.append(_moved(value, None if order is None else _inverse(order)))
        new_arrays += arrays
        new_indices.append(index)
    return primitive(*new_values, *new_arrays, indices=tuple(new_indices), shape=(size, *shape))


def index_update(primitive: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    """Write every example's value at once."""
    (x, v, *arrays), index = inputs, params["index"]
    (x,) = everywhere([x], batched[:1], size)
    ndim = len(x.shape) - 1
    rank = layout(index, ndim, [len(a.shape) - b for a, b in zip(arrays, batched[2:], strict=True)]).rank
    if hasattr(v, "shape"):
        lead, own = tuple(v.shape[: batched[1]]), tuple(v.shape[batched[1] :])
        extra = max(len(own) - rank, 0)
        if any(n != 1 for n in own[:extra]):
            return as_single(primitive, (x, *inputs[1:]), (True, *batched[1:]), size, params)
        own = (1,) * (rank - len(own)) + own[extra:]
        v = op.reshape(v, shape=(*(lead or (1,)), *own))
    index, arrays, order = batched_index(index, ndim, arrays, batched[2:], size, x)
    if hasattr(v, "shape"):
        v = _moved(v, None if order is None else _inverse(order))
    return primitive(x, v, *arrays, index=index)


def last_writes(primitive: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    """Say for every example which writes last."""
    index, shape = params["index"], params["shape"]
    like = inputs[0]
    index, arrays, order = batched_index(index, len(shape), inputs, batched, size, like)
    return _moved(primitive(*arrays, index=index, shape=(size, *shape)), order)
