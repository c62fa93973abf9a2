"""Lowerings of primitives that move elements without computing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from everyo.compiler.graph import Op, Value
from everyo.compiler.lowering.builder import Builder
from everyo.compiler.lowering.scans import delayed
from everyo.compiler.lowering.table import lowering
from everyo.ops.diagonals import length, places


@lowering("reshape", "ravel")
def _reshape(b: Builder, op: Op, x: Value) -> Value:
    return b.reshape(x, op.out.shape)


@lowering("broadcast_to")
def _broadcast_to(b: Builder, op: Op, x: Value) -> Value:
    return b.broadcast_to(x, op.out.shape)


@lowering("transpose")
def _transpose(b: Builder, op: Op, x: Value) -> Value:
    return b.transpose(x, op.params["axes"])


@lowering("matrix_transpose")
def _matrix_transpose(b: Builder, op: Op, x: Value) -> Value:
    rank = len(x.shape)
    return b.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


@lowering("flip")
def _flip(b: Builder, op: Op, x: Value) -> Value:
    return b.flip(x, [a % len(x.shape) for a in op.params["axis"]])


@lowering("diagonal", "trace")
def _diagonal(b: Builder, op: Op, x: Value) -> Value:
    *lead, rows, columns = x.shape
    at = places(x.shape, op.params["offset"])
    counts = (*lead, length(x.shape, op.params["offset"]))
    flat = b.reshape(x, (*lead, rows * columns))
    out = b.slice(flat, (*(0 for _ in lead), at.start), counts, (*(1 for _ in lead), at.step))
    return out if op.name == "diagonal" else b.reduce("sum", b.cast(out, op.out.dtype), [len(lead)])


@lowering("roll")
def _roll(b: Builder, op: Op, x: Value) -> Value:
    shifts, axes = op.params["shift"], op.params["axis"]
    if axes is None:
        return b.reshape(_rolled(b, b.reshape(x, (x.size,)), int(np.sum(shifts)), 0), x.shape)
    axes = axes if isinstance(axes, (tuple, list)) else (axes,)
    shifts = shifts if isinstance(shifts, (tuple, list)) else (shifts,) * len(axes)
    for shift, axis in zip(shifts, axes if len(axes) == len(shifts) else axes * len(shifts)):
        x = _rolled(b, x, shift, axis % len(x.shape))
    return x


def _rolled(b: Builder, x: Value, shift: int, axis: int) -> Value:
    n = x.shape[axis]
    cut = (n - shift) % n if n else 0
    if not cut:
        return x
    return b.concat([b.take(x, axis, cut, n), b.take(x, axis, 0, cut)], axis)


@lowering("tril", "triu")
def _triangle(b: Builder, op: Op, x: Value) -> Value:
    rank = len(x.shape)
    row, column = b.iota(x.shape, rank - 2), b.iota(x.shape, rank - 1)
    shifted = b.map("add", row, b.constant(op.params["k"], np.int64))
    kept = b.map("less_equal" if op.name == "tril" else "greater_equal", column, shifted)
    return b.map("where", kept, x, b.fill(0, x.shape, x.dtype))


@lowering("pad")
def _pad(b: Builder, op: Op, x: Value) -> Value:
    widths = op.params["pad_width"]
    if not widths:
        return x
    low, high = zip(*widths)
    return b.pad(x, low, high, (0,) * len(low), b.constant(np.asarray(op.params["value"]).astype(x.dtype)))


@lowering("concat")
def _concat(b: Builder, op: Op, *arrays: Value) -> Value:
    return b.concat([b.cast(v, op.out.dtype) for v in arrays], op.params["axis"] % len(op.out.shape))


@lowering("stack")
def _stack(b: Builder, op: Op, *arrays: Value) -> Value:
    axis = op.params["axis"] % len(op.out.shape)
    shape = (*op.out.shape[:axis], 1, *op.out.shape[axis + 1 :])
    return b.concat([b.reshape(b.cast(v, op.out.dtype), shape) for v in arrays], axis)


@lowering("fill_blocks")
def _fill_blocks(b: Builder, op: Op, *blocks: Value) -> Value | None:
    if not op.out.size:
        return b.fill(0, op.out.shape, op.out.dtype)
    placed = zip(op.params["starts"], blocks, strict=True)
    return _joined(b, [(start, b.cast(v, op.out.dtype)) for start, v in placed if v.size])


Placed = tuple[tuple[int, ...], Value]  # a block, and where it begins


def _joined(b: Builder, blocks: Sequence[Placed]) -> Value | None:
    """Return what blocks fill, cut apart along one axis after another; None if no cut goes between them."""
    if len(blocks) == 1:
        return blocks[0][1]
    for axis in range(len(blocks[0][0])):
        groups: list[list[Placed]] = []
        end = -1
        for start, value in sorted(blocks, key=lambda block: block[0][axis]):
            if start[axis] >= end:
                groups.append([])
            groups[-1].append((start, value))
            end = max(end, start[axis] + value.shape[axis])
        if len(groups) > 1:
            parts = [_joined(b, group) for group in groups]
            found = [part for part in parts if part is not None]
            return b.concat(found, axis) if len(found) == len(parts) else None
    return None


@lowering("delay")
def _delay(b: Builder, op: Op, x: Value) -> Value:
    axis = op.params["axis"] % len(x.shape)
    return delayed(b, x, axis, op.params["reverse"], 0) if x.shape[axis] else x
