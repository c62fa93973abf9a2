"""A compiled program as a primitive, whose derivatives and batches are compiled in their turn."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everyo.compiler.draws import draws_of
from everyo.compiler.graph import Graph, Op
from everyo.compiler.program import Program
from everyo.compiler.replay import quiet, replay, restricted
from everyo.core.dtypes import DIFFERENTIABLE
from everyo.core.primitive import Primitive
from everyo.transforms import jvp as _jvp
from everyo.transforms import vmap as _vmap
from everyo.transforms.derivatives import pullback


def primitive_of(program: Program, compiled_by: Callable[..., Any]) -> Primitive:
    """Return a program as a primitive, so that what is compiled differentiates, batches and nests.

    Its results are those of the program and the random numbers that it has drawn, which its derivatives read.
    `compiled_by` compiles these when they are first asked for.
    """
    graph, noted, pure = program.graph, program.graph, program.graph
    draws = draws_of(graph)
    if draws:
        noted, pure = _with_draws(graph, draws)
    pure = quiet(pure)
    count, several = len(graph.outputs), len(noted.outputs) > 1

    @functools.cache
    def noting() -> Program:
        return Program(noted, program.threads) if draws else program

    def compiled(xp: Any, *inputs: Any) -> Any:
        results = noting()(tuple([np.asarray(x) for x in inputs]))
        return results if several else results[0]

    def again(inputs: Any, moving: tuple[int, ...], wanted: tuple[int, ...]) -> Callable[..., Any]:
        return restricted(lambda *full: replay(pure, full), inputs, moving, wanted)

    @functools.cache
    def pulling(wanted: tuple[int, ...], moving: tuple[int, ...]) -> Callable[..., Any]:
        def pull(inputs: Any, cotangents: Any) -> Any:
            return pullback(again(inputs, moving, wanted), *(inputs[i] for i in moving))[1](cotangents)

        return compiled_by(pull, program.threads)

    def vjp(g: Any, inputs: Any, out: Any, needs: Any) -> Any:
        parts = g if isinstance(g, dict) else {0: g}
        wanted = tuple(sorted(i for i in parts if i < count))
        moving = tuple(i for i, need in enumerate(needs) if need)
        given = (*inputs, *(out[count:] if draws else ()))
        found = pulling(wanted, moving)(given, [parts[i] for i in wanted])
        gradients = dict(zip(moving, found, strict=True))
        return [gradients.get(i) for i in range(len(inputs))]

    @functools.cache
    def pushing(wanted: tuple[int, ...], moving: tuple[int, ...]) -> Callable[..., Any]:
        def push(inputs: Any, tangents: Any) -> Any:
            moved = again(inputs, moving, wanted)
            return _jvp(moved, tuple(inputs[i] for i in moving), tuple(tangents))[1]

        return compiled_by(push, program.threads)

    def jvp(tangents: Any, inputs: Any, out: Any) -> Any:
        moving = tuple(i for i, t in enumerate(tangents) if t is not None)
        wanted = tuple(i for i in range(count) if graph.outputs[i].dtype.kind in DIFFERENTIABLE)
        given = (*inputs, *(out[count:] if draws else ()))
        found = dict(zip(wanted, pushing(wanted, moving)(given, [tangents[i] for i in moving]), strict=True))
        pushed = tuple(found.get(i) for i in range(len(noted.outputs)))
        return pushed if several else pushed[0]

    def function(*inputs: Any) -> Any:
        out = replay(graph, inputs)
        return tuple(out) if len(out) > 1 else out[0]

    @functools.cache
    def mapped(axes: tuple[int | None, ...], size: int) -> Callable[..., Any]:
        def all_results(*inputs: Any) -> Any:
            out = replay(noted, inputs)
            return tuple(out) if several else out[0]

        return compiled_by(_vmap(all_results, in_axes=axes, axis_size=size), program.threads)

    def batch(primitive: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
        return mapped(tuple(0 if b else None for b in batched), size)(*inputs)

    return Primitive(compiled, vjp=vjp, jvp=jvp, batch=batch, listed=False, inline=function, several=several)


def _with_draws(graph: Graph, draws: Sequence[Op]) -> tuple[Graph, Graph]:
    """Return a graph that has its draws as further outputs, and one that has them as further inputs."""
    values = [v for op in draws for v in op.outs]
    noted, pure = Graph(graph.name), Graph(graph.name)
    noted.inputs, noted.ops, noted.outputs = graph.inputs, graph.ops, [*graph.outputs, *values]
    pure.inputs, pure.outputs = [*graph.inputs, *values], graph.outputs
    pure.ops = [op for op in graph.ops if op not in draws]
    return noted, pure
