"""Lowerings of scattered values that are multiplied or outdone where they fall on one place."""

from __future__ import annotations

import numpy as np

from everyo.compiler.graph import Op, Value
from everyo.compiler.lowering.builder import BOOL, Builder
from everyo.compiler.lowering.indexing import along
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
    """A product; a zero factor wins over an overflow of the others."""
    axis, shape, dtype = op.params["axis"], op.out.shape, op.out.dtype
    if dtype.kind == "b":
        return None
    ones = b.fill(1, shape, dtype)
    out = _reduced(b, ones, values, indices, axis, "prod")
    if dtype.kind != "f":
        return out
    zero = b.map("equal", values, b.constant(0, dtype))
    factors = b.map("where", zero, b.fill(1, values.shape, dtype), values)
    others = _reduced(b, ones, factors, indices, axis, "prod")
    has_zero = _reduced(b, b.fill(False, shape, BOOL), zero, indices, axis, "or")
    absorbed = b.map("logical_and", has_zero, b.map("logical_not", b.map("isnan", others)))
    absorbed = b.map("logical_and", absorbed, b.map("isnan", out))
    return b.map("where", absorbed, b.fill(0, shape, dtype), out)
