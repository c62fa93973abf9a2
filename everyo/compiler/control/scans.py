"""Scans, written down; the reverse of one is a scan in the other direction, over the states noted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everyo.compiler.control.bodies import (
    Element,
    Function,
    is_float,
    or_zeros,
    settled,
    trace_body,
)
from everyo.compiler.draws import before_scan, refuse_draws
from everyo.compiler.graph import Graph
from everyo.compiler.replay import quiet, replay, restricted
from everyo.compiler.trace import Tracer
from everyo.core.dispatch import apply
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.transforms.carry import Carry, tensors_of
from everyo.transforms.derivatives import pullback
from everyo.transforms.forward import jvp
from everyo.transforms.scanning import elements_of, pair_of
from everyo.transforms.trees import unflatten
from everyo.transforms.vectorize import vmap


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
    like = [*init, *(Element(x) for x in xs)]
    count = len(init)

    def flat(values: Sequence[Any]) -> list[Any]:
        state, y = function(values[:count], values[count:])
        return [*state, *y]

    body, captured = trace_body(flat, like, "scan", guarded=not length)
    xs = [*xs, *before_scan(body, len(like), length, reverse)]
    outs = apply(
        SCAN,
        [*init, *xs, *captured],
        {"body": body, "carries": count, "elements": len(xs), "length": length, "reverse": reverse},
    )
    width = len(body.outputs)
    return list(outs[:count]), list(outs[count:width]), list(outs[width:])


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
    body = quiet(body)
    _, xs, rest = _parts(inputs, carries, elements)
    width = len(body.outputs)
    history = out[width:]
    floating = [i for i, v in enumerate(body.inputs) if is_float(v) and (i < carries or needs[i])]
    in_carry = [i for i in floating if i < carries]
    in_xs = [i for i in floating if carries <= i < carries + elements]
    in_rest = [i for i in floating if i >= carries + elements]
    results = [i for i, v in enumerate(body.outputs) if is_float(v)]
    y_results = [i for i in results if i >= carries]
    start = [or_zeros(g.get(i), out[i]) for i in in_carry]
    sums = [op.zeros_like(inputs[i]) for i in in_rest]
    stacks = [*history, *xs, *(or_zeros(g.get(i), out[i]) for i in y_results)]
    past = [g.get(width + i) for i in in_carry]  # cotangents of the noted states themselves
    stacks += [p for p in past if p is not None]

    def step(state: Sequence[Any], given: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        states, x = given[:carries], given[carries : carries + elements]
        y_bar = given[carries + elements : carries + elements + len(y_results)]
        extra = iter(given[carries + elements + len(y_results) :])
        values = [*states, *x, *rest]

        moved = restricted(lambda *full: replay(body, full), values, floating, results)
        _, back = pullback(moved, *(values[i] for i in floating))
        gradients = dict(zip(floating, back([*state[: len(in_carry)], *y_bar])))
        carried = [gradients[i] if p is None else gradients[i] + next(extra) for i, p in zip(in_carry, past)]
        totals = [s + gradients[i] for s, i in zip(state[len(in_carry) :], in_rest)]
        return [*carried, *totals], [gradients[i] for i in in_xs]

    state, ys, _ = scanned(step, [*start, *sums], stacks, length, not reverse)
    found = dict(zip([*in_carry, *in_rest], state)) | dict(zip(in_xs, ys))
    return [found.get(i) if needs[i] else None for i in range(len(inputs))]


def _scan_jvp(
    tangents: Any, inputs: Any, out: Any, body: Any, carries: Any, elements: Any, length: Any, reverse: Any
) -> Any:
    """A scan over states and their tangents."""
    refuse_draws(body, "scan")
    body = quiet(body)
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

        moved = restricted(lambda *full: replay(body, full), values, floating, range(len(body.outputs)))
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
    _, count = elements_of(xs, length)
    leaves, x_structure = tensors_of(xs)
    carry = Carry(init, "scan")
    found: dict[str, Any] = {}

    def step(state: Sequence[Any], x: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        new, y = carry.advance(lambda tree: pair_of(f(tree, unflatten(x_structure, x))), list(state))
        ys, found["structure"] = tensors_of(y)
        return new, ys

    state, ys, _ = scanned(step, settled(step, carry, leaves), leaves, count, reverse)
    return carry.tree(state), unflatten(found["structure"], ys)


Tracer.scan = staticmethod(scan)
