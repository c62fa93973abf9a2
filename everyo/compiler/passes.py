"""Passes on graphs: each takes a graph and leaves an equal one."""

from __future__ import annotations

from everyo.compiler.graph import Graph, Op, Value


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
