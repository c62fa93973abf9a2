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
    known: dict[Value, Any] = dict(zip(graph.inputs, operands, strict=True))
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
        counted = primitives.astype(here, dtype=op.outs[1].dtype)
        return here, primitives.sum(counted, axis=axis, keepdims=True)

    return composed(b, extremes, x, out) if x.dtype.kind == "f" else None


@lowering("pair_differences")
def _pair_differences(b: Builder, op: Op, x1: Value, x2: Value) -> Value:
    def differences(x1: Any, x2: Any) -> Sequence[Any]:
        first, second = (primitives.matrix_transpose(x) for x in (x1, x2))
        first = primitives.reshape(first, shape=(*first.shape, 1))
        return (first - primitives.reshape(second, shape=(*second.shape[:-1], 1, second.shape[-1])),)

    return composed(b, differences, x1, x2)[0]


def _part(x: Any, axis: int, start: int | None, stop: int | None) -> Any:
    return primitives.getitem(x, index=(*(slice(None),) * axis, slice(start, stop)))


@lowering("repeat")
def _repeat(b: Builder, op: Op, x: Value) -> Value:
    repeats, axis = op.params["repeats"], op.params["axis"]
    lead, tail = x.shape[: axis + 1], x.shape[axis + 1 :]

    def repeated(x: Any) -> Sequence[Any]:
        rows = primitives.reshape(x, shape=(*lead, 1, *tail))
        copies = primitives.broadcast_to(rows, shape=(*lead, repeats, *tail))
        return (primitives.reshape(copies, shape=(*lead[:-1], lead[-1] * repeats, *tail)),)

    return composed(b, repeated, x)[0]


@lowering("differences")
def _differences(b: Builder, op: Op, x: Value) -> Value:
    axis = op.params["axis"] % len(x.shape)

    def differences(x: Any) -> Sequence[Any]:
        return (_part(x, axis, 1, None) - _part(x, axis, None, -1),)

    return composed(b, differences, x)[0]


@lowering("spread_differences")
def _spread_differences(b: Builder, op: Op, x: Value) -> Value:
    axis = op.params["axis"] % len(x.shape)

    def spread(x: Any) -> Sequence[Any]:
        nothing = primitives.zeros_like(_part(x, axis, 0, 1))
        return (primitives.concat(nothing, x, axis=axis) - primitives.concat(x, nothing, axis=axis),)

    return composed(b, spread, x)[0] if x.shape[axis] else b.fill(0, op.out.shape, op.out.dtype)
