"""Random draws inside of loops and branches, which are taken out of them.

A derivative runs a body again, and must meet the numbers that the body had. So what a scan draws in its
steps is drawn before it, in the same order, and its steps read it; what the branches of a cond draw is
drawn before it, for the branch that will run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everyo.compiler.graph import Graph, Op, Value
from everyo.compiler.replay import called
from everyo.core.tensor import Tensor
from everyo.errors import UnsupportedOperationError
from everyo.ops import batched_draws
from everyo.ops.replay import unwatched, watching


def draws_of(graph: Graph) -> list[Op]:
    """Return the calls of Python functions whose results the graph goes on with."""
    return [op for op in graph.ops if op.name == "python" and op.outs]


def taken_out(graph: Graph, draws: Sequence[Op], position: int) -> list[Value]:
    """Make the results of `draws` inputs of the graph at a position; return them."""
    values = [v for op in draws for v in op.outs]
    graph.ops = [op for op in graph.ops if op not in draws]
    graph.inputs[position:position] = values
    for value in values:
        value.op = None
    return values


def before_scan(body: Graph, position: int, length: int, reverse: bool) -> list[Tensor]:
    """Take the draws out of the body of a scan; return the stacks of numbers that its steps read instead."""
    draws = [op for op in draws_of(body) if not op.operands]
    if not draws:
        return []
    specs = [((length, *v.shape), v.dtype) for v in taken_out(body, draws, position)]

    def stacks() -> tuple[Any, ...]:
        rows = [[r for op in draws for r in drawn(op)] for _ in range(length)]
        columns = zip(*(rows[::-1] if reverse else rows), strict=True) if rows else [()] * len(specs)
        return tuple(np.asarray(c, dtype).reshape(shape) for c, (shape, dtype) in zip(columns, specs))

    return called(stacks, [], specs)


def before_cond(pred: Any, graphs: Sequence[Graph]) -> list[list[Tensor]]:
    """Take the draws out of the branches of a cond; return for each the numbers that it reads last."""
    draws = [[op for op in draws_of(g) if not op.operands] for g in graphs]
    if not any(draws):
        return [[] for _ in graphs]
    values = [taken_out(g, ops, len(g.inputs)) for g, ops in zip(graphs, draws, strict=True)]

    def chosen(holds: Any) -> tuple[Any, ...]:
        found: list[Any] = []
        for ops, outs, runs in zip(draws, values, (bool(holds), not bool(holds)), strict=True):
            zeros = [np.zeros(v.shape, v.dtype) for v in outs]
            found += [r for op in ops for r in drawn(op)] if runs else zeros
        return tuple(found)

    specs = [(v.shape, v.dtype) for outs in values for v in outs]
    numbers = called(chosen, [pred], specs)
    return [numbers[: len(values[0])], numbers[len(values[0]) :]]


def drawn(op: Op) -> Sequence[Any]:
    """Call the function of a draw; return its results."""
    results = op.params["python"]()
    return results if isinstance(results, tuple) else (results,)


def drawn_anew(
    tracer: Any,
    generator: Any,
    operation: str,
    shape: tuple[int, ...],
    draw: Callable[..., Any],
    at_once: bool,
) -> Tensor:
    """Return random numbers that a program draws each time it comes here, as eager code draws them."""
    stream = generator._own
    state = stream.get_state()

    def emitted(shape: tuple[int, ...]) -> Tensor:
        with unwatched():
            example = np.asarray(draw(shape))
        spec = [(example.shape, example.dtype)]
        made: Tensor = tracer.symbol(tracer.graph.add("python", [], spec, python=lambda: draw(shape))[0])
        return made

    def staged(shape: tuple[int, ...]) -> Tensor:
        watch = watching()
        return emitted(shape) if watch is None else watch.traced(lambda: emitted(shape))

    try:
        return batched_draws.drawn(generator._backend.xp, operation, shape, staged, lambda x: x, at_once)
    finally:
        stream.set_state(state)


def refuse_draws(graph: Graph, operation: str) -> None:
    """Raise UnsupportedOperationError if a graph that a derivative runs again draws random numbers."""
    if draws_of(graph):
        raise UnsupportedOperationError(
            "the body draws random numbers, which its derivative would have to draw again",
            operation=operation,
            expected="numbers that are drawn before the loop, or a scan with draws in its steps",
            found="a loop or branch, of a count of steps that is not known before, that draws",
            remedy="draw the numbers outside and pass them in, or use eo.scan or eo.fori_loop",
        )
    for body in graph.bodies():
        refuse_draws(body, operation)
