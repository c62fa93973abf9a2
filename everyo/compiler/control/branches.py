"""Branches, written down: both bodies are traced, and one of them runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from everyo.compiler.control.bodies import Function, guarded, is_float, selected, trace_body
from everyo.compiler.draws import before_cond, refuse_draws
from everyo.compiler.graph import Graph
from everyo.compiler.replay import quiet, replay, restricted
from everyo.compiler.trace import Tracer
from everyo.core.dispatch import apply
from everyo.core.dtypes import default_for
from everyo.core.operands import WEAK
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.core.traced import is_number
from everyo.ops.creation import as_tensor
from everyo.transforms.carry import same_leaves, same_structure
from everyo.transforms.derivatives import pullback
from everyo.transforms.forward import jvp
from everyo.transforms.trees import flatten, unflatten
from everyo.transforms.vectorize import vmap


def _cond_specs(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    return [(v.shape, v.dtype) for v in params["true"].outputs]


def _cond(xp: Any, *inputs: Any, true: Graph, false: Graph) -> Any:
    pred, *operands = inputs
    return tuple(r.data for r in replay(true if bool(pred) else false, operands))


def chosen(
    pred: Any,
    functions: Sequence[Function],
    operands: Sequence[Any],
    numbers: Sequence[set[int]] = (),
) -> list[Tensor]:
    """Return the results of one of two functions of a flat list.

    `numbers` says for each function, when it has been traced, which of its results are Python numbers: they
    take the dtype of what the other one returns in their place.
    """
    traced, captured = zip(*(trace_body(f, operands, "cond", guarded=True) for f in functions))
    drawn = before_cond(pred, traced)
    outside = [[*c, *d] for c, d in zip(captured, drawn, strict=True)]
    both = [*outside[0], *outside[1]]
    n, first = len(operands), len(outside[0])
    weak = numbers or [set(), set()]
    dtypes = [_settled(traced[k].outputs, traced[1 - k].outputs, weak[k], weak[1 - k]) for k in (0, 1)]

    def true(v: Sequence[Any]) -> list[Any]:
        return _converted(replay(traced[0], v[: n + first]), dtypes[0])

    def false(v: Sequence[Any]) -> list[Any]:
        return _converted(replay(traced[1], [*v[:n], *v[n + first :]]), dtypes[1])

    graphs = [trace_body(f, [*operands, *both], f.__name__)[0] for f in (true, false)]
    names = [f"result {i} of the branches" for i in range(len(graphs[0].outputs))]
    same_leaves(graphs[1].outputs, graphs[0].outputs, names, "cond")
    out = apply(COND, [pred, *operands, *both], {"true": graphs[0], "false": graphs[1]})
    return list(out)


def _settled(own: Sequence[Any], other: Sequence[Any], own_numbers: set[int], numbers: set[int]) -> list[Any]:
    """Return the dtypes that the results of a function take beside those of the other one."""
    dtypes = [v.dtype for v in own]
    for i in own_numbers:
        if i < len(other) and i not in numbers:
            dtypes[i] = other[i].dtype
        elif i < len(other):
            met = np.result_type(own[i].dtype, other[i].dtype)
            dtypes[i] = default_for(met.kind) or met
    return dtypes


def _converted(results: Sequence[Any], dtypes: Sequence[Any]) -> list[Any]:
    return [x if x.dtype == d else op.astype(x, dtype=d) for x, d in zip(results, dtypes, strict=True)]


def _cond_vjp(g: Any, inputs: Any, needs: Any, true: Any, false: Any) -> Any:
    for graph in (true, false):
        refuse_draws(graph, "cond")
    true, false = quiet(true), quiet(false)
    pred, *operands = inputs
    moving = [i for i, x in enumerate(operands) if needs[i + 1] and is_float(x)]
    present = sorted(g)

    def pulled(graph: Graph) -> Function:
        def function(values: Sequence[Any]) -> list[Any]:
            operands, cotangents = values[: len(values) - len(present)], values[len(values) - len(present) :]

            moved = restricted(lambda *full: replay(graph, full), operands, moving, present)
            return pullback(moved, *(operands[i] for i in moving))[1](cotangents)

        return function

    found = chosen(pred, [pulled(true), pulled(false)], [*operands, *(g[i] for i in present)])
    gradients = dict(zip(moving, found))
    return [None, *(gradients.get(i) for i in range(len(operands)))]


def _cond_jvp(tangents: Any, inputs: Any, true: Any, false: Any) -> Any:
    for graph in (true, false):
        refuse_draws(graph, "cond")
    true, false = quiet(true), quiet(false)
    pred, *operands = inputs
    moving = [i for i, t in enumerate(tangents[1:]) if t is not None]
    given = [tangents[i + 1] for i in moving]
    results = [i for i, v in enumerate(true.outputs) if is_float(v)]

    def pushed(graph: Graph) -> Function:
        def function(values: Sequence[Any]) -> list[Any]:
            operands, along = values[: len(values) - len(moving)], values[len(values) - len(moving) :]

            moved = restricted(lambda *full: replay(graph, full), operands, moving, range(len(graph.outputs)))
            pushed = jvp(moved, tuple(operands[i] for i in moving), tuple(along))[1]
            return [pushed[i] for i in results]

        return function

    found = dict(zip(results, chosen(pred, [pushed(true), pushed(false)], [*operands, *given])))
    return tuple(found.get(i) for i in range(len(true.outputs)))


def _cond_batch(primitive: Any, inputs: Any, batched: Any, size: int, params: dict[str, Any]) -> Any:
    pred, *operands = inputs
    axes = tuple(0 if b else None for b in batched[1:])

    def mapped(graph: Graph) -> Function:
        if not any(batched[1:]):
            return lambda values: [op.broadcast_to(r, shape=(size, *r.shape)) for r in replay(graph, values)]
        return lambda values: list(
            vmap(lambda *v: tuple(replay(graph, v)), in_axes=axes, axis_size=size)(*values)
        )

    if not batched[0]:
        return tuple(chosen(pred, [mapped(params["true"]), mapped(params["false"])], operands))
    both = []
    for name, taken in (("true", pred), ("false", op.logical_not(pred))):
        graph = params[name]

        def run(values: Sequence[Any], graph: Graph = graph) -> list[Any]:
            mask, values = values[0], values[1:]
            safe = [guarded(mask, x) if b else x for x, b in zip(values, batched[1:])]
            return mapped(graph)(safe)

        def skip(values: Sequence[Any], graph: Graph = graph) -> list[Any]:
            return [as_tensor(np.zeros((size, *v.shape), v.dtype)) for v in graph.outputs]

        both.append(chosen(op.any(taken, axis=(0,), keepdims=False), [run, skip], [taken, *operands]))
    return tuple(selected(pred, a, b) for a, b in zip(*both))


COND = Primitive(
    _cond, vjp=_cond_vjp, jvp=_cond_jvp, batch=_cond_batch, specs=_cond_specs, several=True, listed=False
)


def cond(pred: Any, true_fun: Function, false_fun: Function, operands: Sequence[Any]) -> Any:
    """`everyo.cond`, written down."""
    leaves, structure = flatten(tuple(operands))
    numeric = [type(x) in WEAK or is_number(x) for x in leaves]  # which stay numbers in the branches
    tensors = [as_tensor(x) for x, weak in zip(leaves, numeric, strict=True) if not weak]
    numbers: list[set[int]] = []
    found: list[Any] = []

    def flat(function: Function) -> Function:
        def run(values: Sequence[Any]) -> list[Any]:
            given = iter(values)
            own = [x if weak else next(given) for x, weak in zip(leaves, numeric, strict=True)]
            results, out = flatten(function(*unflatten(structure, own)))
            numbers.append({i for i, x in enumerate(results) if type(x) in WEAK or is_number(x)})
            found.append(out)
            if len(found) == 2:
                same_structure(found[1], found[0], "cond", "the result, from branch to branch,")
            return [np.asarray(x) if type(x) in WEAK else x for x in results]

        return run

    truth = op.not_equal(op.reshape(as_tensor(pred), shape=()), 0)
    results = chosen(truth, [flat(true_fun), flat(false_fun)], tensors, numbers)
    return unflatten(found[0], results)


Tracer.cond = staticmethod(cond)
