"""Lowerings of primitives whose eager kernels are quick, and which fuse better as what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from everyo.compiler.graph import Op, Value
from everyo.compiler.lowering.builder import Builder
from everyo.compiler.lowering.table import lower_op, lowering
from everyo.core.registry import op as primitives
from everyo.ops.reductions import expand
from everyo.ops.scans import product_of_others


def composed(b: Builder, function: Callable[..., Sequence[Any]], *operands: Value) -> list[Value]:
    """Return the results of a function of tensors, its operations lowered one by one."""
    from everyo.compiler.control.bodies import trace_body  # which needs the table of lowerings

    graph, _ = trace_body(lambda values: function(*values), operands, "composition")
    known: dict[Value, Value] = dict(zip(graph.inputs, operands, strict=True))
    for op in graph.ops:
        found = lower_op(b, op, [None if v is None else known[v] for v in op.inputs])
        known.update(zip(op.outs, found, strict=True))
    return [known[v] for v in graph.outputs]


@lowering("pool_winners")
def _pool_winners(b: Builder, op: Op, x: Value, out: Value) -> list[Value] | None:
    if x.dtype.kind != "f":
        return None

    def winners(x: Any, out: Any) -> Sequence[Any]:
        elements = primitives.sliding_windows(x, window=op.params["window"])
        void = primitives.logical_and(
            primitives.not_equal(elements, elements), primitives.not_equal(out, out)
        )
        found = primitives.logical_or(primitives.equal(elements, out), void)
        counted = primitives.astype(found, dtype=out.dtype)
        return found, primitives.sum(counted, axis=(0,), keepdims=False)

    return composed(b, winners, x, out)


@lowering("spread_to_chosen")
def _spread_to_chosen(b: Builder, op: Op, x: Value, winners: Value) -> Value | None:
    if x.dtype.kind != "f":
        return None

    def spread(x: Any, winners: Any) -> Sequence[Any]:
        return (primitives.overlap_add(primitives.where(winners, x, 0), **op.params),)

    return composed(b, spread, x, winners)[0]


@lowering("sum_of_chosen")
def _sum_of_chosen(b: Builder, op: Op, x: Value, winners: Value) -> Value | None:
    if x.dtype.kind != "f":
        return None

    def total(x: Any, winners: Any) -> Sequence[Any]:
        chosen = primitives.where(winners, primitives.sliding_windows(x, **op.params), 0)
        return (primitives.sum(chosen, axis=(0,), keepdims=False),)

    return composed(b, total, x, winners)[0]


@lowering("prod_pull")
def _prod_pull(b: Builder, op: Op, g: Value, x: Value) -> Value | None:
    if x.dtype.kind != "f" or g.dtype != x.dtype:
        return None
    axis = op.params["axis"] % len(x.shape)

    def pulled(g: Any, x: Any) -> Sequence[Any]:
        others = product_of_others(x, axis)
        return (primitives.multiply_absorbing(expand(g, x.shape, (axis,), False), others),)

    return composed(b, pulled, g, x)[0]


@lowering("extremes")
def _extremes(b: Builder, op: Op, x: Value, out: Value) -> list[Value] | None:
    axis, keepdims = op.params["axis"], op.params["keepdims"]

    def extremes(x: Any, out: Any) -> Sequence[Any]:
        out = expand(out, x.shape, axis, keepdims)
        here = primitives.equal(x, out)
        if op.params["nan"]:
            void = primitives.logical_and(primitives.not_equal(x, x), primitives.not_equal(out, out))
            here = primitives.logical_or(here, void)
        counted = primitives.astype(here, dtype=x.dtype)
        return here, primitives.sum(counted, axis=axis, keepdims=True)

    return composed(b, extremes, x, out) if x.dtype.kind == "f" else None
