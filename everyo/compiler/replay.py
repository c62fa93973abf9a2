"""A traced graph as a function again: on tensors, or on values of any transformation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from everyo.compiler.graph import Graph, Op, Value
from everyo.core.dispatch import apply, wrap
from everyo.core.tensor import Tensor
from everyo.core.traced import innermost, staging


def replay(graph: Graph, inputs: Sequence[Any]) -> list[Tensor]:
    """Apply the operations of a graph of primitives one by one; return its outputs."""
    known: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
    for op in graph.ops:
        if op.name == "constant":
            known[op.out] = _constant(op.params["array"])
            continue
        if op.name == "python":
            known.update(zip(op.outs, _python(op, [known[v] for v in op.operands]), strict=True))
            continue
        operands = [None if v is None else known[v] for v in op.inputs]
        out = apply(op.primitive, operands, op.params)
        known.update(zip(op.outs, out if isinstance(out, tuple) else (out,), strict=True))
    return [known[v] for v in graph.outputs]


def _constant(array: Any) -> Tensor:
    """Return a constant: part of the program that is being traced, if one is."""
    tracer = staging.get()
    return wrap(array) if tracer is None else tracer.symbol(tracer.constant(array))


def _python(op: Op, operands: Sequence[Any]) -> list[Any]:
    """Call a Python function: now, or when the program that is being traced runs."""
    function, tracer = op.params["python"], staging.get()
    if tracer is not None:
        values = [tracer.beneath(x) or tracer._operand(x, None) for x in operands]
        specs = [(v.shape, v.dtype) for v in op.outs]
        return [tracer.symbol(v) for v in tracer.graph.add("python", values, specs, python=function)]
    results = function(*(innermost(x) for x in operands))
    return [wrap(np.asarray(r)) for r in (results if isinstance(results, tuple) else (results,))]
