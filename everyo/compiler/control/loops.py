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
from everyo.compiler.replay import quiet, replay, restricted
from everyo.compiler.trace import Tracer
from everyo.core.dispatch import apply
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.ops.creation import as_tensor
from everyo.transforms.carry import Carry
from everyo.transforms.derivatives import pullback
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
    graphs, captured = zip(*(trace_body(f, init, "while", guarded=True) for f in (cond_fun, body_fun)))
    both = [*captured[0], *captured[1]]
    n, first = len(init), len(captured[0])
    like = [*init, *both]
    cond = trace_body(lambda v: replay(graphs[0], v[: n + first]), like, "cond")[0]
    body = trace_body(lambda v: replay(graphs[1], [*v[:n], *v[n + first :]]), like, "body")[0]
    return list(apply(WHILE, like, {"cond": cond, "body": body, "carries": n}))


def _while_vjp(g: Any, inputs: Any, out: Any, needs: Any, cond: Any, body: Any, carries: Any) -> Any:
    """Go back over the states on the tape; the cotangents of captured values add up on the way."""
    refuse_draws(body, "while_loop")
    cond, body = quiet(cond), quiet(body)
    in_carry = [i for i in range(carries) if is_float(inputs[i])]
    in_rest = [i for i in range(carries, len(inputs)) if needs[i] and is_float(inputs[i])]
    floating = [*in_carry, *in_rest]
    start = [or_zeros(g.get(i), out[i]) for i in in_carry]
    sums = [op.zeros_like(inputs[i]) for i in in_rest]
    width = len(floating)

    def step(values: Sequence[Any]) -> list[Any]:
        bars, whole = values[:width], list(values[width:])
        moved = restricted(lambda *full: replay(body, full), whole, floating, in_carry)
        _, back = pullback(moved, *(whole[i] for i in floating))
        gradients = back(bars[: len(in_carry)])
        added = [s + d for s, d in zip(bars[len(in_carry) :], gradients[len(in_carry) :])]
        return [*gradients[: len(in_carry)], *added]

    graph, _ = trace_body(step, [*start, *sums, *inputs], "step")
    params = {
        "step": graph,
        "cond": cond,
        "body": body,
        "moving": tuple(floating),
        "carries": width,
        "spread": (),
    }
    operands = [*start, *sums, out[carries], out[carries + 1], *inputs]
    found = apply(WHILE_BACK, operands, {**params, "states": carries})
    gradients = dict(zip(floating, found))
    return [gradients.get(i) if needs[i] else None for i in range(len(inputs))]


def _while_jvp(tangents: Any, inputs: Any, cond: Any, body: Any, carries: Any) -> Any:
    """A loop over states and their tangents."""
    refuse_draws(body, "while_loop")
    cond, body = quiet(cond), quiet(body)
    init, rest = list(inputs[:carries]), list(inputs[carries:])
    floating = [i for i, v in enumerate(body.inputs) if is_float(v)]
    along = [op.zeros_like(inputs[i]) if tangents[i] is None else tangents[i] for i in floating]
    in_carry = [i for i in floating if i < carries]
    fixed = along[len(in_carry) :]

    def step(state: Sequence[Any]) -> list[Any]:
        values = [*state[:carries], *rest]
        moved = restricted(lambda *full: replay(body, full), values, floating, range(carries))
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
    init = [x if b else op.broadcast_to(x, shape=(size, *x.shape)) for x, b in zip(inputs[:carries], batched)]
    operands = [*init, *inputs[carries:]]
    loop = _batched_loop(params, operands, batched, size, carries)
    found = apply(WHILE, operands, {**loop, "carries": carries})
    count, tape = (op.broadcast_to(x, shape=(size,)) for x in found[carries:])
    return (*found[:carries], count, tape)


def _batched_loop(
    params: dict[str, Any], operands: Any, batched: Any, size: int, carries: int
) -> dict[str, Graph]:
    """Return condition and body of the loop of a batch, as graphs; all states have the batch."""
    axes = (*[0] * carries, *(0 if b else None for b in batched[carries:]))

    def mapped(graph: Graph) -> Function:
        return vmap(lambda *v: tuple(replay(graph, v)), in_axes=axes, axis_size=size)

    going, move = mapped(params["cond"]), mapped(params["body"])

    def step(values: Sequence[Any]) -> list[Any]:
        state, rest = values[:carries], values[carries:]
        holds = going(*values)[0]
        moved = move(*(guarded(holds, x) for x in state), *rest)
        return [selected(holds, new, old) for new, old in zip(moved, state)]

    def any_going(values: Sequence[Any]) -> list[Any]:
        return [op.any(going(*values)[0], axis=(0,), keepdims=False)]

    return {"cond": trace_body(any_going, operands, "cond")[0], "body": trace_body(step, operands, "body")[0]}


def _back_specs(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    return [(v.shape, v.dtype) for v in params["step"].outputs]


def _while_back(
    xp: Any,
    *inputs: Any,
    step: Graph,
    cond: Graph,
    body: Graph,
    moving: tuple[int, ...],
    spread: tuple[int, ...],
    carries: int,
    states: int,
) -> Any:
    bars, whole = list(inputs[:carries]), inputs[carries + 2 :]
    state, rest, history = list(whole[:states]), whole[states:], []
    while bool(replay(cond, [*state, *rest])[0].data):
        history.append(state)
        state = [r.data for r in replay(body, [*state, *rest])]
    for past in reversed(history):
        bars = [r.data for r in replay(step, [*bars, *past, *rest])]
    return tuple(xp.asarray(bar) for bar in bars)


def _curvature(
    bars: Sequence[Any],
    point: Sequence[Any],
    along: dict[int, Any],
    wanted: Sequence[int],
    loop: dict[str, Any],
    spread: Sequence[int],
    along_too: bool,
) -> tuple[Any, Any]:
    """Return ``J u`` and the gradient of ``<J u, b>``, for the loop's Jacobian J, along u, at cotangents b.

    A second derivative is symmetric, so the gradient serves both directions: it is the derivative of
    ``J' b`` along u, and its pullback of u. `along` and `wanted` say to which inputs u and the gradient
    belong. A batch of b has the axes `spread`; `along_too` says whether u has them as well.
    """
    if spread:
        axis = spread[0]
        one = vmap(
            lambda bars, u: _curvature(bars, point, dict(zip(along, u)), wanted, loop, spread[1:], along_too),
            in_axes=(axis, axis if along_too else None),
            out_axes=axis,
        )
        return one(tuple(bars), tuple(along.values()))
    ends = [i for i in range(loop["carries"]) if is_float(point[i])]

    def pushed(*at: Any) -> Any:
        whole = list(point)
        for i, value in zip(wanted, at):
            whole[i] = value
        end = restricted(lambda *full: apply(WHILE, full, loop), whole, tuple(along), ends)
        return jvp(end, tuple(whole[i] for i in along), tuple(along.values()))[1]

    found, back = pullback(pushed, *(point[i] for i in wanted))
    return found, back(bars[: len(ends)])


def _essential(operands: Sequence[Any], params: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """Return what the loop back itself needs: its derivatives need the loop and where it began, too."""
    first = params["carries"] + 2
    kept = {name: params[name] for name in ("step", "carries", "states")}
    return [*operands[:first], *operands[first + params["states"] :]], kept


def _back_vjp(
    g: Any,
    inputs: Any,
    out: Any,
    needs: Any,
    cond: Any,
    body: Any,
    moving: Any,
    spread: Any,
    carries: Any,
    states: Any,
) -> Any:
    """The cotangents of the results are a direction ``u`` of the loop's inputs."""
    along = [or_zeros(g.get(i), out[i]) for i in range(carries)]
    loop, point = {"cond": cond, "body": body, "carries": states}, inputs[carries + 2 :]
    floating = [i for i, x in enumerate(point) if is_float(x)]
    pushed, curved = _curvature(
        inputs[:carries], point, dict(zip(moving, along)), floating, loop, spread, along_too=True
    )
    found: list[Any] = [None] * len(inputs)
    found[: len(pushed)] = pushed
    found[len(pushed) : carries] = along[len(pushed) :]  # sums: what they began with is added
    for i, gradient in zip(floating, curved):
        found[carries + 2 + i] = op.sum(gradient, axis=spread, keepdims=False) if spread else gradient
    return [gradient if need else None for gradient, need in zip(found, needs)]


def _back_jvp(
    tangents: Any,
    inputs: Any,
    step: Any,
    cond: Any,
    body: Any,
    moving: Any,
    spread: Any,
    carries: Any,
    states: Any,
) -> Any:
    """The same loop on the tangents of the cotangents, and its curvature along those of the point."""
    loop = {"cond": cond, "body": body, "carries": states}
    params = {**loop, "step": step, "moving": moving, "spread": spread, "carries": carries, "states": states}
    bars, point, given = inputs[:carries], inputs[carries + 2 :], tangents[carries + 2 :]
    turned = [op.zeros_like(x) if t is None else t for t, x in zip(tangents, bars)]
    linear = apply(WHILE_BACK, [*turned, *inputs[carries:]], params)
    along = {i: t for i, t in enumerate(given) if t is not None and is_float(point[i])}
    if not along:
        return linear
    _, curved = _curvature(bars, point, along, moving, loop, spread, along_too=False)
    return tuple(a + b for a, b in zip(linear, curved))


def _back_batch(primitive: Any, inputs: Any, batched: Any, size: int, params: dict[str, Any]) -> Any:
    """Examples that were done keep their cotangents while the loop goes back over the steps of others.

    Where the cotangents alone have a batch, the one loop serves them all.
    """
    width, states = params["carries"], params["states"]
    looped = batched[width + 1]  # whether the loop itself ran for a batch, which is on its tape
    count, tape = (op.getitem(x, index=(0,)) if looped else x for x in inputs[width : width + 2])
    own = list(batched[width + 2 :])
    if looped:  # states, and all that has a derivative of its own for each example, have the batch
        for i in (*range(states), *params["moving"]):
            own[i] = True
    values = [
        x if b or not wide else op.broadcast_to(x, shape=(size, *x.shape))
        for x, b, wide in zip(
            (*inputs[:width], *inputs[width + 2 :]),
            (*batched[:width], *batched[width + 2 :]),
            (*[True] * width, *own),
        )
    ]
    bars, point = values[:width], values[width:]
    graph, axes = params["step"], [0 if b else None for b in own]

    def step(values: Sequence[Any]) -> list[Any]:
        pull = vmap(lambda *v: tuple(replay(graph, v)), in_axes=(*[0] * width, *axes), axis_size=size)
        if not looped:
            return list(pull(*values))
        test = vmap(lambda *v: replay(params["cond"], v)[0], in_axes=tuple(axes), axis_size=size)
        holds = test(*values[width:])
        return [selected(holds, a, b) for a, b in zip(pull(*values), values[:width])]

    changed: dict[str, Any] = {"step": trace_body(step, values, "step")[0]}
    spread = tuple(axis + 1 for axis in params["spread"])
    changed["spread"] = spread if looped else (*spread, 0)
    if looped:
        changed |= _batched_loop(params, point, own, size, states)
    return apply(WHILE_BACK, [*bars, count, tape, *point], {**params, **changed})


WHILE = Primitive(
    _while, vjp=_while_vjp, jvp=_while_jvp, batch=_while_batch, specs=_while_specs, several=True, listed=False
)
WHILE_BACK = Primitive(
    _while_back,
    vjp=_back_vjp,
    jvp=_back_jvp,
    batch=_back_batch,
    specs=_back_specs,
    essential=_essential,
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
