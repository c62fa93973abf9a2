"""Lowerings of reading and writing by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from everyo.compiler.access import is_position
from everyo.compiler.graph import Op, Value
from everyo.compiler.lowering.builder import INDEX, Builder
from everyo.compiler.lowering.table import lowering


class Region(NamedTuple):
    """What an index selects: a box of slices, then some of its axes by arrays.

    `start`, `extent`, `step` describe the box along each axis of the operand; `boxed` is its shape with
    the axes of length 1 that None stands for, and without those of plain integers; `arrays` are the
    index arrays, for the axes `axes` of `boxed`, and `at` is where their own axes come to stand.
    """

    start: list[int]
    extent: list[int]
    step: list[int]
    boxed: list[int]
    arrays: list[Value]
    axes: list[int]
    at: int


def region(b: Builder, shape: Sequence[int], index: Any, arrays: Sequence[Value]) -> Region | None:
    """Return what a template with its arrays selects from an operand; None if masks of no axis take part."""
    if any(isinstance(item, (bool, np.bool_)) for item in index):
        return None
    plain = sum(item is not None and item is not Ellipsis for item in index)
    items: list[Any] = []
    for item in index:
        items += [slice(None)] * (len(shape) - plain) if item is Ellipsis else [item]
    items += [slice(None)] * (len(shape) - sum(i is not None for i in items))
    following, found = iter(arrays), Region([], [], [], [], [], [], 0)
    advanced, axis = [], 0
    for position, item in enumerate(items):
        if item is None:
            found.boxed.append(1)
            continue
        n = shape[axis]
        axis += 1
        if isinstance(item, slice):
            start, stop, step = item.indices(n)
            count = len(range(start, stop, step))
            for part, value in zip(found[:3], (start if count else 0, count, step)):
                part.append(value)
            found.boxed.append(count)
        elif type(item) is str or arrays:
            for part, value in zip(found[:3], (0, n, 1)):
                part.append(value)
            array = next(following) if type(item) is str else b.constant(item, INDEX)
            found.arrays.append(_wrapped(b, array, n))
            found.axes.append(len(found.boxed))
            found.boxed.append(n)
            advanced.append(position)
        else:
            for part, value in zip(found[:3], (int(item) % n if n else 0, 1, 1)):
                part.append(value)
    if not found.arrays:
        return found
    together = advanced[-1] - advanced[0] == len(advanced) - 1
    common = np.broadcast_shapes(*[v.shape for v in found.arrays])
    return found._replace(
        arrays=[b.broadcast_to(v, common) for v in found.arrays], at=found.axes[0] if together else 0
    )


def _wrapped(b: Builder, array: Value, n: int) -> Value:
    """Return indices counted from the front; the program ends with an error if one is outside of the axis."""
    if array.op is not None and array.op.name == "iota" and array.shape[array.op.params["axis"]] <= n:
        return array
    # The upper half of unsigned numbers wraps around in arrays, as in NumPy, but a number is what it is.
    wraps = array.dtype.kind == "i" or (array.dtype == np.uint64 and array.shape != ())
    if array.op is not None and array.op.name == "constant":
        known = array.op.params["array"].astype(INDEX)
        known = np.where(known < 0, known + n, known) if wraps else known
        if ((known < 0) | (known >= n)).any():
            b.require(b.constant(True), _outside(n))
        return b.constant(np.clip(known, 0, max(n - 1, 0)))
    index = b.cast(array, INDEX)
    if wraps:
        negative = b.map("less", index, b.constant(0, INDEX))
        index = b.map("where", negative, b.map("add", index, b.constant(n, INDEX)), index)
    last = b.constant(max(n - 1, 0), INDEX)
    inside = b.map("minimum", b.map("maximum", index, b.constant(0, INDEX)), last)
    outside = b.map("not_equal", inside, index)
    b.require(b.reduce("or", outside, range(len(outside.shape))), _outside(n))
    return inside


def _outside(n: int) -> str:
    return f"an index is outside of an axis of {n}"


@lowering("getitem")
def _getitem(b: Builder, op: Op, x: Value, *arrays: Value) -> Value | None:
    found = region(b, x.shape, op.params["index"], arrays)
    if found is None:
        return None
    boxed = b.reshape(b.slice(x, found.start, found.extent, found.step), found.boxed)
    if found.arrays:
        boxed = b.gather(boxed, found.arrays, found.axes, found.at)
    return b.reshape(boxed, op.out.shape)


def placed(b: Builder, value: Value, shape: Sequence[int], at: Region, fill: Value) -> Value:
    """Return `value` in its box in an array of `shape`, and `fill` around it."""
    value = b.reshape(value, at.extent)
    backwards = [a for a, s in enumerate(at.step) if s < 0]
    if backwards and value.size:
        value = b.flip(value, backwards)
    low, high, inner = [], [], []
    for n, start, count, step in zip(shape, at.start, at.extent, at.step):
        first = min(start, start + (count - 1) * step) if count else 0
        inner.append(abs(step) - 1 if count > 1 else 0)
        low.append(first)
        high.append(n - first - (count + max(count - 1, 0) * inner[-1]))
    return b.pad(value, low, high, inner, fill)


@lowering("assemble")
def _assemble(b: Builder, op: Op, *parts: Value) -> Value | None:
    indices, shape, dtype = op.params["indices"], op.out.shape, op.out.dtype
    arrays = iter(parts[len(indices) :])
    total = None
    for value, index in zip(parts, indices):
        zero = b.constant(0 if total is None else _unfelt(dtype), dtype)
        found = region(b, shape, index, [next(arrays) for item in index if type(item) is str])
        if found is None:
            return None
        value = b.cast(value, dtype)
        if found.arrays:
            term = _scattered(b, value, found)
        else:
            term = b.reshape(b.broadcast_to(value, _selected(found)), found.extent)
        term = placed(b, term, shape, found, zero)
        total = term if total is None else b.map("add", total, term)
    return b.fill(0, shape, dtype) if total is None else total


def _unfelt(dtype: Any) -> Any:
    """Return the zero that changes no element that it is added to, not even a negative zero."""
    return -0.0 if dtype.kind == "f" else 0


def _selected(found: Region) -> list[int]:
    """Return the shape that an index selects."""
    if not found.arrays:
        return found.boxed
    rest = [n for a, n in enumerate(found.boxed) if a not in found.axes]
    return [*rest[: found.at], *found.arrays[0].shape, *rest[found.at :]]


def _scattered(b: Builder, value: Value, found: Region) -> Value:
    updates = b.broadcast_to(value, _selected(found))
    return b.reshape(spread(b, updates, found.boxed, found.arrays, found.axes, found.at), found.extent)


def spread(
    b: Builder, updates: Value, shape: Sequence[int], indices: Sequence[Value], axes: Sequence[int], at: int
) -> Value:
    """Return zeros of `shape` with updates added at indices.

    Where each row has one index of its own, as in the gradient of a choice by labels, each element asks
    whether it is meant, which fuses with what reads it; otherwise the updates are scattered.
    """
    zeros = b.fill(0, shape, updates.dtype)
    last, whole = len(shape) - 1, tuple(shape)
    own = [is_position(index, axis) for axis, index in zip(axes, indices)]
    if (
        list(axes) == list(range(len(shape)))
        and at == 0
        and all(own[:-1])
        and indices[-1].shape == whole[:-1]
    ):
        meant = b.map("equal", b.broadcast(indices[-1], whole, range(last)), b.iota(whole, last))
        return b.map("where", meant, b.broadcast(updates, whole, range(last)), zeros)
    return b.scatter(zeros, updates, indices, axes, at, "add")


@lowering("index_update")
def _index_update(b: Builder, op: Op, x: Value, v: Value, *arrays: Value) -> Value | None:
    found = region(b, x.shape, op.params["index"], arrays)
    if found is None:
        return None
    v = b.cast(v, x.dtype)
    target = _selected(found)
    extra = max(len(v.shape) - len(target), 0)
    v = b.broadcast_to(b.reshape(v, v.shape[extra:]), target)
    if found.arrays:
        box = b.reshape(b.slice(x, found.start, found.extent, found.step), found.boxed)
        v = b.scatter(box, v, found.arrays, found.axes, found.at, "set")
        if tuple(found.extent) == x.shape and min(found.step) > 0:
            return b.reshape(v, x.shape)
    whole = placed(b, v, x.shape, found, b.constant(0, x.dtype))
    inside = placed(b, b.fill(True, found.boxed, bool), x.shape, found, b.constant(False, bool))
    return b.map("where", inside, whole, x)


def along(b: Builder, indices: Value, shape: Sequence[int], axis: int) -> list[Value]:
    """Return index arrays for all axes: `indices` along one, the own position along the others."""
    return [
        _wrapped(b, indices, shape[a]) if a == axis else b.iota(indices.shape, a) for a in range(len(shape))
    ]


@lowering("take_along_axis")
def _take_along_axis(b: Builder, op: Op, x: Value, indices: Value) -> Value | None:
    axis = op.params["axis"] % len(x.shape)
    if any(n != m for a, (n, m) in enumerate(zip(x.shape, op.out.shape)) if a != axis):
        return None
    indices = b.broadcast_to(indices, op.out.shape)
    return b.gather(x, along(b, indices, x.shape, axis), range(len(x.shape)), 0)


@lowering("scatter_along_axis")
def _scatter_along_axis(b: Builder, op: Op, values: Value, indices: Value) -> Value | None:
    shape, axis = op.out.shape, op.params["axis"] % len(op.out.shape)
    if any(n != m for a, (n, m) in enumerate(zip(shape, values.shape)) if a != axis):
        return None
    zeros, indices = b.fill(0, shape, op.out.dtype), b.broadcast_to(indices, values.shape)
    values = b.cast(values, op.out.dtype)
    return b.scatter(zeros, values, along(b, indices, shape, axis), range(len(shape)), 0, "add")


@lowering("delete")
def _delete(b: Builder, op: Op, x: Value, places: Value) -> Value | None:
    if places.op is None or places.op.name != "constant":
        return None
    axis = op.params["axis"]
    kept = np.delete(np.arange(x.shape[axis]), places.op.params["array"])
    return b.gather(x, [b.constant(kept)], [axis], axis)


@lowering("insert")
def _insert(b: Builder, op: Op, x: Value, values: Value, places: Value) -> Value | None:
    if places.op is None or places.op.name != "constant":
        return None
    axis, size, found = op.params["axis"], op.out.shape[op.params["axis"]], places.op.params["array"]
    shape = (*x.shape[:axis], size - x.shape[axis], *x.shape[axis + 1 :])
    joined = b.concat([x, b.broadcast_to(b.cast(values, x.dtype), shape)], axis)
    order = np.empty(size, INDEX)
    order[np.delete(np.arange(size), found)] = np.arange(x.shape[axis])
    order[found] = np.arange(x.shape[axis], size)
    return b.gather(joined, [b.constant(order)], [axis], axis)
