"""Loops and branches as operations of a graph, with their derivatives.

A body is traced once, into a graph of its own; what it reaches from outside becomes further inputs of
the operation. Derivatives replay the body under the transformation and trace that: the reverse of a scan
is a scan in the other direction, over the states that the first one has noted down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everyo.compiler.draws import before_cond, before_scan, refuse_draws
from everyo.compiler.graph import Graph
from everyo.compiler.replay import replay
from everyo.compiler.trace import Tracer
from everyo.core.dispatch import apply
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import CompileError, UnsupportedOperationError
from everyo.ops.creation import as_tensor
from everyo.ops.index_batching import ARRAY
from everyo.transforms.carry import Carry, leaves_of, same_structure, tensors_of
from everyo.transforms.derivatives import vjp
from everyo.transforms.forward import jvp
from everyo.transforms.scanning import _elements, _pair
from everyo.transforms.trees import unflatten
from everyo.transforms.vectorize import vmap

Function = Callable[..., Any]


def trace_body(function: Function, like: Sequence[Any], name: str) -> tuple[Graph, list[Tensor]]:
    """Return the graph of a function of flat lists of tensors, and the tensors that it captures.

    They are inputs of the graph behind its own.
    """
    graph = Graph(name)
    inputs = [graph.input(tuple(x.shape), x.dtype) for x in like]
    tracer = Tracer(graph)
    with tracer:
        results = function([tracer.symbol(v) for v in inputs])
        outputs = [tracer._operand(tracer.released(as_tensor(x)), None) for x in results]
    if tracer.writes:
        raise CompileError(
            "the body of a loop or branch changes something outside of it",
            operation=name,
            expected="a body that returns what it computes",
            found=f"{len(tracer.writes)} tensors written in place",
            remedy="carry the value through the loop",
        )
    graph.outputs = [v for v in outputs if v is not None]
    captured = [cell.tensor for cell, _ in tracer.cells.values()]
    assert all(x is not None for x in captured)
    return graph, captured  # type: ignore[return-value]


def is_float(x: Any) -> bool:
    """Whether a value has a derivative."""
    return x.dtype.kind in "fc"


# ---- scan


def _scan_specs(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    body, carries, length = params["body"], params["carries"], params["length"]
    states, ys = body.outputs[:carries], body.outputs[carries:]
    return [
        *((v.shape, v.dtype) for v in states),
        *(((length, *v.shape), v.dtype) for v in ys),
        *(((length, *v.shape), v.dtype) for v in states),
    ]


def _scan(xp: Any, *inputs: Any, body: Graph, carries: int, elements: int, length: int, reverse: bool) -> Any:
    state, xs, rest = _parts(inputs, carries, elements)
    rows, history = [], []
    for i in range(length - 1, -1, -1) if reverse else range(length):
        history.append(state)
        results = [r.data for r in replay(body, [*state, *(x[i] for x in xs), *rest])]
        state, y = results[:carries], results[carries:]
        rows.append(y)
    if reverse:
        rows.reverse()
        history.reverse()
    specs = _scan_specs(inputs, {"body": body, "carries": carries, "length": length})
    columns = [*zip(*rows), *zip(*history)] if length else [()] * (len(specs) - carries)
    stacked = [xp.asarray(c, dtype).reshape(s) for c, (s, dtype) in zip(columns, specs[carries:])]
    return (*(xp.asarray(s) for s in state), *stacked)


def _parts(inputs: Sequence[Any], carries: int, elements: int) -> tuple[list[Any], list[Any], list[Any]]:
    return (
        list(inputs[:carries]),
        list(inputs[carries : carries + elements]),
        list(inputs[carries + elements :]),
    )


def scanned(
    function: Function, init: Sequence[Any], xs: Sequence[Any], length: int, reverse: bool
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Scan ``(state, x) -> (state, y)``, on flat lists; return states, ys and all earlier states."""
    like = [*init, *(_Element(x) for x in xs)]
    count = len(init)

    def flat(values: Sequence[Any]) -> list[Any]:
        state, y = function(values[:count], values[count:])
        return [*state, *y]

    body, captured = trace_body(flat, like, "scan")
    xs = [*xs, *before_scan(body, len(like), length, reverse)]
    outs = apply(
        SCAN,
        [*init, *xs, *captured],
        {"body": body, "carries": count, "elements": len(xs), "length": length, "reverse": reverse},
    )
    width = len(body.outputs)
    return list(outs[:count]), list(outs[count:width]), list(outs[width:])


class _Element:
    """Shape and dtype of one element of a stack."""

    def __init__(self, x: Any) -> None:
        self.shape, self.dtype = tuple(x.shape[1:]), x.dtype


def _scan_vjp(
    g: Any,
    inputs: Any,
    out: Any,
    needs: Any,
    body: Any,
    carries: Any,
    elements: Any,
    length: Any,
    reverse: Any,
) -> Any:
    """The scan in the other direction: each step pulls the cotangent of its state back to the one before."""
    refuse_draws(body, "scan")
    _, xs, rest = _parts(inputs, carries, elements)
    width = len(body.outputs)
    history = out[width:]
    floating = [i for i, v in enumerate(body.inputs) if is_float(v) and (i < carries or needs[i])]
    in_carry = [i for i in floating if i < carries]
    in_xs = [i for i in floating if carries <= i < carries + elements]
    in_rest = [i for i in floating if i >= carries + elements]
    results = [i for i, v in enumerate(body.outputs) if is_float(v)]
    y_results = [i for i in results if i >= carries]
    start = [_or_zeros(g.get(i), out[i]) for i in in_carry]
    sums = [op.zeros_like(inputs[i]) for i in in_rest]
    stacks = [*history, *xs, *(_or_zeros(g.get(i), out[i]) for i in y_results)]
    past = [_or_none(g.get(width + i)) for i in in_carry]  # cotangents of the noted states themselves
    stacks += [p for p in past if p is not None]

    def step(state: Sequence[Any], given: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        states, x = given[:carries], given[carries : carries + elements]
        y_bar = given[carries + elements : carries + elements + len(y_results)]
        extra = iter(given[carries + elements + len(y_results) :])
        values = [*states, *x, *rest]

        def moved(*moving: Any) -> Any:
            full = list(values)
            for i, value in zip(floating, moving):
                full[i] = value
            found = replay(body, full)
            return tuple(found[i] for i in results)

        _, back = vjp(moved, *(values[i] for i in floating))
        gradients = dict(zip(floating, back((*state[: len(in_carry)], *y_bar))))
        carried = [gradients[i] if p is None else gradients[i] + next(extra) for i, p in zip(in_carry, past)]
        totals = [s + gradients[i] for s, i in zip(state[len(in_carry) :], in_rest)]
        return [*carried, *totals], [gradients[i] for i in in_xs]

    state, ys, _ = scanned(step, [*start, *sums], stacks, length, not reverse)
    found = dict(zip([*in_carry, *in_rest], state)) | dict(zip(in_xs, ys))
    return [found.get(i) if needs[i] else None for i in range(len(inputs))]


def _or_zeros(g: Any, like: Any) -> Any:
    return op.zeros_like(like) if g is None else g


def _or_none(g: Any) -> Any:
    return g


def _scan_jvp(
    tangents: Any, inputs: Any, out: Any, body: Any, carries: Any, elements: Any, length: Any, reverse: Any
) -> Any:
    """A scan over states and their tangents."""
    refuse_draws(body, "scan")
    init, xs, rest = _parts(inputs, carries, elements)
    floating = [i for i, v in enumerate(body.inputs) if is_float(v)]
    along = [op.zeros_like(inputs[i]) if tangents[i] is None else tangents[i] for i in floating]
    n_carry = sum(i < carries for i in floating)
    n_xs = sum(carries <= i < carries + elements for i in floating)
    fixed = along[n_carry + n_xs :]
    results = [i for i, v in enumerate(body.outputs) if is_float(v)]

    def step(state: Sequence[Any], given: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        values = [*state[:carries], *given[:elements], *rest]
        moving = [*state[carries:], *given[elements:], *fixed]

        def moved(*parts: Any) -> Any:
            full = list(values)
            for i, value in zip(floating, parts):
                full[i] = value
            return tuple(replay(body, full))

        primals, pushed = jvp(moved, tuple(values[i] for i in floating), tuple(moving))
        new = [*primals[:carries], *(pushed[i] for i in results if i < carries)]
        return new, [pushed[i] for i in results if i >= carries]

    state, ys, history = scanned(
        step, [*init, *along[:n_carry]], [*xs, *along[n_carry : n_carry + n_xs]], length, reverse
    )
    in_carry = [i for i in results if i < carries]
    moved = dict(zip(in_carry, state[carries:])) | dict(zip([i for i in results if i >= carries], ys))
    width = len(body.outputs)
    moved |= {width + i: t for i, t in zip(in_carry, history[carries:])}
    return tuple(moved.get(i) for i in range(width + carries))


def _scan_batch(primitive: Any, inputs: Any, batched: Any, size: int, params: dict[str, Any]) -> Any:
    """A scan over batches of states."""
    body, carries, elements = params["body"], params["carries"], params["elements"]
    init, xs, rest = _parts(inputs, carries, elements)
    init = [x if b else op.broadcast_to(x, shape=(size, *x.shape)) for x, b in zip(init, batched)]
    moved = batched[carries : carries + elements]
    xs = [_swapped(x) if b else x for x, b in zip(xs, moved)]
    axes = [*[0] * carries, *(0 if b else None for b in batched[carries:])]

    def step(state: Sequence[Any], given: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        mapped = vmap(lambda *values: tuple(replay(body, values)), in_axes=tuple(axes), axis_size=size)
        found = mapped(*state, *given, *rest)
        return found[:carries], found[carries:]

    state, ys, history = scanned(step, init, xs, params["length"], params["reverse"])
    return (*state, *map(_swapped, ys), *map(_swapped, history))


def _swapped(x: Any) -> Any:
    return op.transpose(x, axes=(1, 0, *range(2, len(x.shape))))


SCAN = Primitive(
    _scan, vjp=_scan_vjp, jvp=_scan_jvp, batch=_scan_batch, specs=_scan_specs, several=True, listed=False
)


def scan(f: Function, init: Any, xs: Any, length: int | None, reverse: bool) -> tuple[Any, Any]:
    """`everyo.scan`, written down."""
    _, count = _elements(xs, length)
    leaves, x_structure = tensors_of(xs)
    carry = Carry(init, "scan")
    found: dict[str, Any] = {}

    def step(state: Sequence[Any], x: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        new, y = carry.advance(lambda tree: _pair(f(tree, unflatten(x_structure, x))), list(state))
        ys, found["structure"] = tensors_of(y)
        return new, ys

    state, ys, _ = scanned(step, _settled(step, carry, leaves), leaves, count, reverse)
    return carry.tree(state), unflatten(found["structure"], ys)


def _settled(step: Function, carry: Carry, xs: Sequence[Any]) -> list[Tensor]:
    """Return the first state, its Python numbers in the dtypes that the body gives them."""
    if carry.unsettled:
        before, numbers = list(carry.leaves), list(carry.numbers)
        like, count = [*before, *(_Element(x) for x in xs)], len(before)
        body, _ = trace_body(lambda values: [*step(values[:count], values[count:])[0]], like, "scan")
        carry.leaves = [
            x if n is None else as_tensor(np.asarray(n, v.dtype))
            for x, n, v in zip(before, numbers, body.outputs)
        ]
    return carry.leaves


Tracer.scan = staticmethod(scan)


# ---- cond


def _cond_specs(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    return [(v.shape, v.dtype) for v in params["true"].outputs]


def _cond(xp: Any, *inputs: Any, true: Graph, false: Graph) -> Any:
    pred, *operands = inputs
    return tuple(r.data for r in replay(true if bool(pred) else false, operands))


def chosen(pred: Any, functions: Sequence[Function], operands: Sequence[Any]) -> list[Tensor]:
    """Return the results of one of two functions of a flat list."""
    traced, captured = zip(*(trace_body(f, operands, "cond") for f in functions))
    numbers = before_cond(pred, traced)
    outside = [[*c, *drawn] for c, drawn in zip(captured, numbers, strict=True)]
    both = [*outside[0], *outside[1]]
    n, first = len(operands), len(outside[0])
    graphs = [
        trace_body(lambda v: replay(traced[0], v[: n + first]), [*operands, *both], "true")[0],
        trace_body(lambda v: replay(traced[1], [*v[:n], *v[n + first :]]), [*operands, *both], "false")[0],
    ]
    out = apply(COND, [pred, *operands, *both], {"true": graphs[0], "false": graphs[1]})
    return list(out)


def _cond_vjp(g: Any, inputs: Any, needs: Any, true: Any, false: Any) -> Any:
    for graph in (true, false):
        refuse_draws(graph, "cond")
    pred, *operands = inputs
    moving = [i for i, x in enumerate(operands) if needs[i + 1] and is_float(x)]
    present = sorted(g)

    def pulled(graph: Graph) -> Function:
        def function(values: Sequence[Any]) -> list[Any]:
            operands, cotangents = values[: len(values) - len(present)], values[len(values) - len(present) :]

            def moved(*parts: Any) -> Any:
                full = list(operands)
                for i, part in zip(moving, parts):
                    full[i] = part
                found = replay(graph, full)
                return tuple(found[i] for i in present)

            return list(vjp(moved, *(operands[i] for i in moving))[1](tuple(cotangents)))

        return function

    found = chosen(pred, [pulled(true), pulled(false)], [*operands, *(g[i] for i in present)])
    gradients = dict(zip(moving, found))
    return [None, *(gradients.get(i) for i in range(len(operands)))]


def _cond_jvp(tangents: Any, inputs: Any, true: Any, false: Any) -> Any:
    for graph in (true, false):
        refuse_draws(graph, "cond")
    pred, *operands = inputs
    moving = [i for i, t in enumerate(tangents[1:]) if t is not None]
    given = [tangents[i + 1] for i in moving]
    results = [i for i, v in enumerate(true.outputs) if is_float(v)]

    def pushed(graph: Graph) -> Function:
        def function(values: Sequence[Any]) -> list[Any]:
            operands, along = values[: len(values) - len(moving)], values[len(values) - len(moving) :]

            def moved(*parts: Any) -> Any:
                full = list(operands)
                for i, part in zip(moving, parts):
                    full[i] = part
                return tuple(replay(graph, full))

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
            safe = [_guarded(mask, x) if b else x for x, b in zip(values, batched[1:])]
            return mapped(graph)(safe)

        def skip(values: Sequence[Any], graph: Graph = graph) -> list[Any]:
            return [as_tensor(np.zeros((size, *v.shape), v.dtype)) for v in graph.outputs]

        both.append(chosen(op.any(taken, axis=(0,), keepdims=False), [run, skip], [taken, *operands]))
    return tuple(_selected(pred, a, b) for a, b in zip(*both))


def _selected(holds: Any, a: Any, b: Any) -> Any:
    """Return for each example of a batch one of two values."""
    return op.where(op.reshape(holds, shape=(*holds.shape, *(1,) * (len(a.shape) - 1))), a, b)


def _guarded(holds: Any, x: Any) -> Any:
    """Return a batch with the value of the first example that `holds` for wherever it does not hold.

    What is computed from it there is thrown away, and must not be NaN, which no cotangent of zero stops.
    """
    first = op.argmax(op.astype(holds, dtype=np.dtype(np.int64)), axis=0, keepdims=False)
    return _selected(holds, x, op.getitem(op.stop_gradient(x), first, index=(ARRAY,)))


COND = Primitive(
    _cond, vjp=_cond_vjp, jvp=_cond_jvp, batch=_cond_batch, specs=_cond_specs, several=True, listed=False
)


def cond(pred: Any, true_fun: Function, false_fun: Function, operands: Sequence[Any]) -> Any:
    """`everyo.cond`, written down."""
    leaves, structure = leaves_of(tuple(operands))
    tensors = [as_tensor(x) for x in leaves]
    found: list[Any] = []

    def flat(function: Function) -> Function:
        def run(values: Sequence[Any]) -> list[Any]:
            results, out = tensors_of(function(*unflatten(structure, values)))
            found.append(out)
            return results

        return run

    results = chosen(op.reshape(as_tensor(pred), shape=()), [flat(true_fun), flat(false_fun)], tensors)
    same_structure(found[1], found[0], "cond", "the result, from branch to branch,")
    return unflatten(found[0], results)


Tracer.cond = staticmethod(cond)


# ---- while_loop


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
    start = [_or_zeros(g.get(i), out[i]) for i in in_carry]
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
        moved = move([_guarded(holds, x) for x in state])
        return [_selected(holds, new, old) for new, old in zip(moved, state)]

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
        return [_selected(holds, a, b) for a, b in zip(pull(*values), old)]

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

    start = _settled(lambda state, x: (flat(state), []), carry, [])
    return carry.tree(repeated(going, flat, start)[: len(start)])


Tracer.while_loop = staticmethod(while_loop)
