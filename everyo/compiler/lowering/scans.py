"""Lowerings of running products and of the linear recurrence that differentiates them."""

from __future__ import annotations

import numpy as np

from everyo.compiler.graph import Op, Value
from everyo.compiler.lowering.builder import Builder
from everyo.compiler.lowering.elementwise import matched
from everyo.compiler.lowering.reductions import of_halves, zeros_and_infinities
from everyo.compiler.lowering.table import lowering


@lowering("cumprod")
def _cumprod(b: Builder, op: Op, x: Value) -> Value | None:
    if op.out.dtype.kind == "b":
        return None
    axis, reverse = op.params["axis"] % len(x.shape), op.params.get("reverse", False)
    x = b.cast(x, op.out.dtype)
    if op.params.get("exclusive") and x.size:
        x = delayed(b, x, axis, reverse, 1)
    if x.dtype.kind != "f":
        return b.accumulate("prod", [x], axis, reverse)
    out = b.accumulate("absorbing", [x], axis, reverse, halves=of_halves(op))
    both = b.map("isnan", b.accumulate("prod", [zeros_and_infinities(b, x)], axis, reverse))
    return b.map("where", both, b.fill(np.nan, out.shape, out.dtype), out)


@lowering("linear_recurrence")
def _linear_recurrence(b: Builder, op: Op, a: Value, drive: Value) -> Value | None:
    if op.out.dtype.kind == "b":
        return None
    a, drive = matched(b, op, (a, drive), op.out.dtype)
    return b.accumulate("linear", [drive, a], op.params["axis"] % len(a.shape), op.params["reverse"])


def delayed(b: Builder, x: Value, axis: int, reverse: bool, first: int) -> Value:
    """Return the elements moved on by one place in the order of a scan; `first` enters."""
    n, zeros = x.shape[axis], [0] * len(x.shape)
    width = [int(a == axis) for a in range(len(x.shape))]
    if reverse:
        kept, low, high = b.take(x, axis, 1, n), zeros, width
    else:
        kept, low, high = b.take(x, axis, 0, n - 1), width, zeros
    return b.pad(kept, low, high, zeros, b.constant(first, x.dtype))
