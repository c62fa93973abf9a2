"""While loops, written down; reverse mode goes back over a tape of the states of all steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from everyo.compiler.control.bodies import (
    Function,
    guarded,
    is_float,
    or_zeros,
    selected,
    settled,
    trace_body,
)
from everyo.compiler.draws import refuse_draws
from everyo.compiler.graph import Graph
from everyo.compiler.replay import replay
from everyo.compiler.trace import Tracer
from everyo.core.dispatch import apply
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import UnsupportedOperationError
from everyo.ops.creation import as_tensor
from everyo.transforms.carry import Carry
from everyo.transforms.derivatives import vjp
from everyo.transforms.forward import jvp
from everyo.transforms.vectorize import vmap


def _while_specs(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    states = [(v.shape, v.dtype) for v in params["body"].outputs]
    return [*states, ((), np.int64), ((), np.int64)]


def _while(xp: Any, *inputs: Any, cond: Graph, body: Graph, carries: int) -> Any:
    state, rest, count = list(inputs[:carries]), inputs[carries:], 0
    while bool(replay(cond, [*state, *rest])[0].data):
        state = [r.data for r in replay(body, [*state, *rest])]
        count += 1
    return (*(xp.asarray(s) for s in state), xp.asarray(count, xp.int64), xp.asarray(0, xp.int64))


def repeated(cond_fun: Function, body_fun: Function, init: Sequence[Any]) -> list[Tensor]:
    """Run a while loop of functions of flat lists; return its states, the count of steps, and its tape."""
    graphs, captured = zip(*(trace_body(f, init, "while") for f in (cond_fun, body_fun)))
    both = [*captured[0], *captured[1]]
    n, first = len(init), len(captured[0])
    like = [*init, *both]
    cond = trace_body(lambda v: replay(graphs[0], v[: n + first]), like, "cond")[0]
    body = trace_body(lambda v: replay(graphs[1], [*v[:n], *v[n + first :]]), like, "body")[0]
    return list(apply(WHILE, like, {"cond": cond, "body": body, "carries": n}))


def _while_vjp(g: Any, inputs: Any, out: Any, needs: Any, cond: Any, body: Any, carries: Any) -> Any:
    """Go back over the states on the tape; the cotangents of captured values add up on the way."""
    refuse_draws(body, "while_loop")
    rest = list(inputs[carries:])
    in_carry = [i for i in range(carries) if is_float(inputs[i])]
    in_rest = [i for i in range(carries, len(inputs)) if needs[i] and is_float(inputs[i])]
    floating = [*in_carry, *in_rest]
    start = [or_zeros(g.get(i), out[i]) for i in in_carry]
    sums = [op.zeros_like(inputs[i]) for i in in_rest]
    width = len(start) + len(sums)

    def step(values: Sequence[Any]) -> list[Any]:
        bars, state, captured = values[:width], values[width : width + carries], values[width + carries :]
        whole = [*state, *captured]

        def moved(*moving: Any) -> Any:
            full = list(whole)
            for i, value in zip(floating, moving):
                full[i] = value
            found = replay(body, full)
            return tuple(found[i] for i in in_carry)

        _, back = vjp(moved, *(whole[i] for i in floating))
        gradients = back(tuple(bars[: len(in_carry)]))
        added = [s + d for s, d in zip(bars[len(in_carry) :], gradients[len(in_carry) :])]
        return [*gradients[: len(in_carry)], *added]

    graph, _ = trace_body(step, [*start, *sums, *inputs], "step")
    params = {"step": graph, "cond": cond, "carries": width, "states": carries}
    found = apply(WHILE_BACK, [*start, *sums, out[carries], out[carries + 1], *rest], params)
    gradients = dict(zip(floating, found))
    return [gradients.get(i) if needs[i] else None for i in range(len(inputs))]


def _while_jvp(tangents: Any, inputs: Any, cond: Any, body: Any, carries: Any) -> Any:
    """A loop over states and their tangents."""
    refuse_draws(body, "while_loop")
    init, rest = list(inputs[:carries]), list(inputs[carries:])
    floating = [i for i, v in enumerate(body.inputs) if is_float(v)]
    along = [op.zeros_like(inputs[i]) if tangents[i] is None else tangents[i] for i in floating]
    in_carry = [i for i in floating if i < carries]
    fixed = along[len(in_carry) :]

    def step(state: Sequence[Any]) -> list[Any]:
        values = [*state[:carries], *rest]

        def moved(*parts: Any) -> Any:
            full = list(values)
            for i, value in zip(floating, parts):
                full[i] = value
            return tuple(replay(body, full))

        moving = (*state[carries:], *fixed)
        primals, pushed = jvp(moved, tuple(values[i] for i in floating), moving)
        return [*primals, *(pushed[i] for i in in_carry)]

    found = repeated(
        lambda state: replay(cond, [*state[:carries], *rest]), step, [*init, *along[: len(in_carry)]]
    )
    moved = dict(zip(in_carry, found[carries:]))
    return tuple(moved.get(i) for i in range(carries + 2))


def _while_batch(primitive: Any, inputs: Any, batched: Any, size: int, params: dict[str, Any]) -> Any:
    """Run until all examples are done; one that is done keeps its state."""
    carries = params["carries"]
    rest, axes = list(inputs[carries:]), (*[0] * carries, *(0 if b else None for b in batched[carries:]))
    init = [x if b else op.broadcast_to(x, shape=(size, *x.shape)) for x, b in zip(inputs[:carries], batched)]

    def mapped(graph: Graph) -> Function:
        function = vmap(lambda *v: tuple(replay(graph, v)), in_axes=axes, axis_size=size)
        return lambda state: function(*state, *rest)

    going, move = mapped(params["cond"]), mapped(params["body"])

    def step(state: Sequence[Any]) -> list[Any]:
        holds = going(state)[0]
        moved = move([guarded(holds, x) for x in state])
        return [selected(holds, new, old) for new, old in zip(moved, state)]

    found = repeated(lambda state: [op.any(going(state)[0], axis=(0,), keepdims=False)], step, init)
    count, tape = (op.broadcast_to(x, shape=(size,)) for x in found[carries:])
    return (*found[:carries], count, tape)


def _back_specs(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    return [(v.shape, v.dtype) for v in params["step"].outputs]


def _while_back(xp: Any, *inputs: Any, step: Graph, cond: Graph, carries: int, states: int) -> Any:
    raise UnsupportedOperationError(
        "the reverse of a compiled while_loop runs only as compiled code",
        operation="while_loop",
        expected="eo.compile around the derivative",
        found="a replay of it",
        remedy="differentiate inside of the compiled function",
    )


def _no_second(g: Any, needs: Any) -> Any:
    raise UnsupportedOperationError(
        "a compiled while_loop has no second derivative backwards",
        operation="while_loop",
        expected="at most one reverse-mode derivative, of a function that may be differentiated forwards",
        found="a derivative of its reverse",
        remedy="use eo.jvp or eo.jacfwd for the inner one, eo.scan or eo.fori_loop, or leave it uncompiled",
    )


def _back_batch(primitive: Any, inputs: Any, batched: Any, size: int, params: dict[str, Any]) -> Any:
    """Examples that were done keep their cotangents while the loop goes back over the steps of others."""
    width, states = params["carries"], params["states"]
    bars = [x if b else op.broadcast_to(x, shape=(size, *x.shape)) for x, b in zip(inputs[:width], batched)]
    count, tape = (
        op.getitem(x, index=(0,)) if b else x
        for x, b in zip(inputs[width : width + 2], batched[width : width + 2])
    )
    rest, own = list(inputs[width + 2 :]), batched[width + 2 :]
    graph, axes = params["step"], tuple(0 if b else None for b in own)
    like = [*bars, *(_Stack(v, size) for v in graph.inputs[width : width + states]), *rest]

    def step(values: Sequence[Any]) -> list[Any]:
        old, state, captured = values[:width], values[width : width + states], values[width + states :]
        pull = vmap(
            lambda *v: tuple(replay(graph, v)), in_axes=(*[0] * (width + states), *axes), axis_size=size
        )
        test = vmap(lambda *v: replay(params["cond"], v)[0], in_axes=(*[0] * states, *axes), axis_size=size)
        holds = test(*state, *captured)
        return [selected(holds, a, b) for a, b in zip(pull(*values), old)]

    traced, _ = trace_body(step, like, "step")
    return apply(WHILE_BACK, [*bars, count, tape, *rest], {**params, "step": traced})


class _Stack:
    """Shape and dtype of a batch of values."""

    def __init__(self, value: Any, size: int) -> None:
        self.shape, self.dtype = (size, *value.shape), value.dtype


WHILE = Primitive(
    _while, vjp=_while_vjp, jvp=_while_jvp, batch=_while_batch, specs=_while_specs, several=True, listed=False
)
WHILE_BACK = Primitive(
    _while_back,
    vjp=_no_second,
    jvp=lambda tangents: _no_second(tangents, ()),
    batch=_back_batch,
    specs=_back_specs,
    several=True,
    listed=False,
)


def while_loop(cond_fun: Function, body_fun: Function, init: Any) -> Any:
    """`everyo.while_loop`, written down."""
    carry = Carry(init, "while_loop")

    def flat(state: Sequence[Any]) -> list[Any]:
        return carry.advance(lambda tree: (body_fun(tree), None), list(state))[0]

    def going(state: Sequence[Any]) -> list[Any]:
        holds = as_tensor(cond_fun(carry.tree(list(state))))
        return [op.not_equal(op.reshape(holds, shape=()), 0)]

    start = settled(lambda state, x: (flat(state), []), carry, [])
    return carry.tree(repeated(going, flat, start)[: len(start)])


Tracer.while_loop = staticmethod(while_loop)
