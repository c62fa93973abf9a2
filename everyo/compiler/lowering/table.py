"""The table of lowerings, and the pass that applies it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everyo.compiler.graph import Graph, Op, Value
from everyo.compiler.lowering.builder import Builder
from everyo.compiler.lowering.pairs import Operand, constant, in_memory, lower_pairs, lying, paired, taken
from everyo.compiler.machine import converts_halves

Lowering = Callable[..., Any]
LOWERINGS: dict[str, Lowering] = {}
HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)


def lowering(*names: str) -> Callable[[Lowering], Lowering]:
    """Enter a function as the lowering of some primitives.

    It is called with the builder, the operation and its operands, already rewritten, and returns the
    result, or a sequence of results, or None where only the eager kernel will do.
    """

    def enter(function: Lowering) -> Lowering:
        for name in names:
            LOWERINGS[name] = function
        return function

    return enter


def lower(graph: Graph) -> Graph:
    """Return `graph` in core operations; what has no lowering calls its eager kernel."""
    lowered = Graph(graph.name)
    b = Builder(lowered)
    known: dict[Value, Operand] = {}
    for value in graph.inputs:
        known[value] = taken(b, lowered.input(*lying(value)), value)
    for op in graph.ops:
        operands = [None if v is None else known[v] for v in op.inputs]
        known.update(zip(op.outs, lower_op(b, op, operands), strict=True))
    lowered.outputs = _own([in_memory(b, known[v]) for v in graph.outputs], lowered)
    return lowered


def _own(outputs: list[Value], graph: Graph) -> list[Value]:
    """Return the outputs, each a value of its own that an operation makes: others are copied."""
    owned: list[Value] = []
    for value in outputs:
        if value.op is None or value.op.name in ("constant", "iota") or value in owned:
            value = graph.add("map", [value], [(value.shape, value.dtype)], fn="cast")[0]
        owned.append(value)
    return owned


def lower_op(b: Builder, op: Op, operands: Sequence[Operand | None]) -> Sequence[Operand]:
    """Append an operation's lowering; return its results, of the shapes and dtypes that it had."""
    if op.name == "constant":
        return [constant(b, op.params["array"])]
    if any(isinstance(p, Graph) for p in op.params.values()):
        essential = op.primitive.options.get("essential") if op.primitive is not None else None
        operands, params = (operands, op.params) if essential is None else essential(operands, op.params)
        params = {k: lower(p) if isinstance(p, Graph) else p for k, p in params.items()}
        return _in_memory(b, op, op.name, operands, params)
    if op.name == "custom":  # its operands, and the results as its forward function has made them
        return [v for v in operands[op.params["count"] :] if v is not None]
    pairs = paired(op)
    if op.name == "python":
        return _in_memory(b, op, "call", operands, op.params, pairs)
    if pairs:
        found = lower_pairs(b, op, operands)
        if found is not None:
            return found
    rule = LOWERINGS.get(op.name)
    if rule is not None and _is_native(op):
        results = _apply(b, rule, op, operands)
        if results is not None:
            results = [results] if isinstance(results, Value) else list(results)
            for old, new in zip(op.outs, results, strict=True):
                assert (old.shape, old.dtype) == (new.shape, new.dtype), (op.name, old.type, new.type)
            return results
    return _in_memory(b, op, "call", operands, {"primitive": op.primitive, "settings": op.params}, pairs)


def _in_memory(
    b: Builder,
    op: Op,
    name: str,
    operands: Sequence[Operand | None],
    params: dict[str, Any],
    pairs: tuple[int, ...] = (),
) -> Sequence[Operand]:
    """Append an operation that reads and writes memory, complex numbers (`pairs`) as they lie there."""
    if pairs:
        params = {**params, "paired": pairs}
    inputs = [None if v is None else in_memory(b, v) for v in operands]
    found = b.graph.add(name, inputs, [lying(v) for v in op.outs], **params)
    return [taken(b, new, old) for old, new in zip(op.outs, found, strict=True)]


def _apply(b: Builder, rule: Lowering, op: Op, operands: Sequence[Any]) -> Any:
    """Return what a rule makes of an operation; on float16 it works in float32, as NumPy does, and rounds."""
    if all(v.dtype != HALF for v in (*op.operands, *op.outs)):
        return rule(b, op, *operands)
    wide = Op(op.name, op.inputs, op.params)
    wide.primitive = op.primitive
    wide.outs = [Value(v.shape, SINGLE if v.dtype == HALF else v.dtype, wide) for v in op.outs]
    operands = [b.cast(v, SINGLE) if v is not None and v.dtype == HALF else v for v in operands]
    results = rule(b, wide, *operands)
    if results is None:
        return None
    results = [results] if isinstance(results, Value) else results
    return [b.cast(new, old.dtype) for old, new in zip(op.outs, results, strict=True)]


def _is_native(op: Op) -> bool:
    """Whether the code generator has instructions for the dtypes of an operation."""
    dtypes = {v.dtype for v in (*op.operands, *op.outs)}
    if HALF in dtypes:
        made = op.name != "astype" and all(v.dtype != HALF for v in op.operands)
        if made or np.dtype(np.float64) in dtypes or not converts_halves():
            return False
    return all(d.kind in "biu" or (d.kind == "f" and d.itemsize <= 8) for d in dtypes)
