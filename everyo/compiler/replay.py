"""A traced graph as a function again: on tensors, or on values of any transformation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everyo.compiler.graph import Graph, Op, Value, severing_inside
from everyo.core.dispatch import apply
from everyo.core.dtypes import DIFFERENTIABLE
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import innermost, staging
from everyo.ops.known import Check, look
from everyo.ops.replay import Draws
from everyo.ops.severing import SEVERED, is_followed, severed
from everyo.transforms.custom_calls import Custom, Mapped


def restricted(
    function: Callable[..., Any], whole: Sequence[Any], moving: Sequence[int], results: Sequence[int]
) -> Callable[..., Any]:
    """Return a function of some inputs alone, the others held, that returns some results."""

    def moved(*parts: Any) -> Any:
        full = list(whole)
        for i, value in zip(moving, parts):
            full[i] = value
        found = function(*full)
        return tuple(found[i] for i in results)

    return moved


def replay(graph: Graph, inputs: Sequence[Any]) -> list[Tensor]:
    """Apply the operations of a graph of primitives one by one; return its outputs."""
    known: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
    for op in graph.ops:
        if op.name == "constant":
            known[op.out] = _constant(op.params["array"])
            continue
        if op.name == "python" and isinstance(op.params["python"], Check):
            look(op.params["python"], *(known[v] for v in op.operands))
            continue
        if op.name == "python":
            specs = [(v.shape, v.dtype) for v in op.outs]
            results = called(op.params["python"], [known[v] for v in op.operands], specs)
            known.update(zip(op.outs, results, strict=True))
            continue
        operands = [None if v is None else known[v] for v in op.inputs]
        if op.name == SEVERED:
            known[op.out] = severed(known[op.operands[0]], op.params["refuse"])
            continue
        if op.name == "custom":
            primitive = Custom(_renewed(op.primitive.rules), nested=True)
            known.update(zip(op.outs, primitive.enter(operands[: op.params["count"]]), strict=True))
            continue
        if not any(v.dtype.kind in DIFFERENTIABLE for v in op.outs) and op.severs():  # no rule is asked
            moving = [v for v, x in zip(op.inputs, operands, strict=True) if _is_followed(x)]
            if (cut := severing_inside(op, moving)) is not None:
                raise cut.params["refuse"](cut.inputs[0])
        out = apply(op.primitive, operands, op.params)
        known.update(zip(op.outs, out if isinstance(out, tuple) else (out,), strict=True))
    return [known[v] for v in graph.outputs]


def _is_followed(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype.kind in DIFFERENTIABLE and is_followed(x)


def _renewed(rules: Any) -> Any:
    """Return the rules of a call of a user's function for another call."""
    made = copy.copy(rules)
    if isinstance(made, Mapped):
        made.rules = _renewed(made.rules)
    else:
        made.layout, made.draws = None, Draws()
    return made


def _constant(array: Any) -> Tensor:
    """Return a constant: part of the program that is being traced, if one is."""
    tracer = staging.get()
    return wrap(array) if tracer is None else tracer.symbol(tracer.constant(array))


def called(function: Any, operands: Sequence[Any], specs: Sequence[Any]) -> list[Any]:
    """Call a Python function on arrays: now, or when the program that is being traced runs."""
    tracer = staging.get()
    if tracer is not None:
        values = list(map(tracer.primal, operands))
        return [tracer.symbol(v) for v in tracer.graph.add("python", values, specs, python=function)]
    results = function(*(innermost(x) for x in operands))
    return [wrap(np.asarray(r)) for r in (results if isinstance(results, tuple) else (results,))]


def quiet(graph: Graph) -> Graph:
    """Return a graph without what prints and checks, for derivatives: they compute its values once more."""
    if not graph.calls():
        return graph
    made, known = Graph(graph.name), dict[Value | None, Value | None]({None: None})
    known.update({v: made.input(v.shape, v.dtype) for v in graph.inputs})
    for op in graph.ops:
        if op.name == "python" and not op.outs:
            continue
        params = {key: quiet(p) if isinstance(p, Graph) else p for key, p in op.params.items()}
        copied = Op(op.name, [known[v] for v in op.inputs], params)
        copied.primitive, copied.outs = op.primitive, [Value(v.shape, v.dtype, copied) for v in op.outs]
        made.ops.append(copied)
        known.update(zip(op.outs, copied.outs, strict=True))
    made.outputs = [v for v in map(known.__getitem__, graph.outputs) if v is not None]
    return made
