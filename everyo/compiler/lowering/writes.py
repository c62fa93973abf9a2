"""Lowering of the question which of several writes to one place lasts."""

from __future__ import annotations

from everyo.compiler.graph import Op, Value
from everyo.compiler.lowering.builder import INDEX, Builder
from everyo.compiler.lowering.indexing import region
from everyo.compiler.lowering.table import lowering


@lowering("last_writes")
def _last_writes(b: Builder, op: Op, *arrays: Value) -> Value | None:
    """Let every element write its number, and ask which numbers are still there."""
    found = region(b, op.params["shape"], op.params["index"], arrays)
    if found is None or not found.arrays:
        return None
    place = found.arrays, found.axes, found.at
    zeros = b.fill(0, found.boxed, INDEX)
    ids = b.reshape(b.iota((op.out.size,), 0), b.gather(zeros, *place).shape)
    owners = b.gather(b.scatter(zeros, ids, *place, "set"), *place)
    return b.reshape(b.map("equal", owners, ids), op.out.shape)
