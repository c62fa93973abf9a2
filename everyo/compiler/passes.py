"""Passes on graphs: each takes a graph and leaves an equal one."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from everyo.compiler.graph import Graph, Op, Value

watch: ContextVar[Callable[[str, Graph], None] | None] = ContextVar("watch", default=None)


def seen(name: str, graph: Graph) -> Graph:
    """Show a graph, under the name of what was done to it last, to whoever watches the compiler."""
    watcher = watch.get()
    if watcher is not None:
        watcher(name, graph)
    return graph


def remove_dead(graph: Graph) -> Graph:
    """Drop what no output depends on, in bodies of loops and branches too."""
    needed: set[Value] = set(graph.outputs)
    kept: list[Op] = []
    for op in reversed(graph.ops):
        if any(v in needed for v in op.outs) or has_effect(op):
            needed.update(op.operands)
            kept.append(op)
    graph.ops = kept[::-1]
    for body in graph.bodies():
        remove_dead(body)
    return graph


def has_effect(op: Op) -> bool:
    """Whether an operation does something besides computing its results."""
    return op.name == "require" or "python" in op.params
