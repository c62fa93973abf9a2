"""Lowerings of scattered values that are multiplied or outdone where they fall on one place."""

from __future__ import annotations

import numpy as np

from everyo.compiler.graph import Op, Value
from everyo.compiler.lowering.builder import BOOL, Builder
from everyo.compiler.lowering.indexing import along
from everyo.compiler.lowering.reductions import zero_absorbs
from everyo.compiler.lowering.table import lowering


def _reduced(b: Builder, start: Value, values: Value, indices: Value, axis: int, kind: str) -> Value:
    """Return `start` with all values reduced into it at their places along an axis."""
    places = along(b, b.broadcast_to(indices, values.shape), start.shape, axis)
    return b.scatter(start, values, places, range(len(start.shape)), 0, kind)


@lowering("scatter_max", "scatter_min")
def _extreme(b: Builder, op: Op, start: Value, values: Value, indices: Value) -> Value | None:
    axis, kind, dtype = op.params["axis"], op.name.removeprefix("scatter_"), op.out.dtype
    if dtype.kind == "b":
        return None
    if op.params["own"]:
        return _reduced(b, start, values, indices, axis, kind)
    if dtype.kind == "f":
        least = -np.inf if kind == "max" else np.inf
    else:
        least = np.iinfo(dtype).min if kind == "max" else np.iinfo(dtype).max
    out = _reduced(b, b.fill(least, start.shape, dtype), values, indices, axis, kind)
    marks = b.fill(True, values.shape, BOOL)
    touched = _reduced(b, b.fill(False, start.shape, BOOL), marks, indices, axis, "set")
    return b.map("where", touched, out, start)


@lowering("scatter_prod")
def _prod(b: Builder, op: Op, values: Value, indices: Value) -> Value | None:
    axis, shape, dtype = op.params["axis"], op.out.shape, op.out.dtype
    if dtype.kind == "b":
        return None
    ones = b.fill(1, shape, dtype)
    return zero_absorbs(b, lambda factors: _reduced(b, ones, factors, indices, axis, "prod"), values)
