"""Passes on graphs: each takes a graph and leaves an equal one."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from everyo.compiler.again import compute_again
from everyo.compiler.graph import Graph, Op, Value, transposed
from everyo.compiler.layout import read_in_order, spell_out
from everyo.compiler.products import accumulate_products
from everyo.compiler.rounding import keep_apart
from everyo.compiler.scans.products import products_behind
from everyo.compiler.scans.results import keep_results
from everyo.compiler.scans.unused import drop_unused
from everyo.compiler.tiling import pack_factors

watch: ContextVar[Callable[[str, Graph], None] | None] = ContextVar("watch", default=None)


def seen(name: str, graph: Graph) -> Graph:
    """Show a graph, under the name of what was done to it last, to whoever watches the compiler."""
    watcher = watch.get()
    if watcher is not None:
        watcher(name, graph)
    return graph


def remove_dead(graph: Graph) -> Graph:
    """Drop what no output depends on, in bodies of loops and branches too."""
    graph.ops = graph.needed()
    for body in graph.bodies():
        remove_dead(body)
    return graph


def turn_products(graph: Graph) -> Graph:
    """Replace the transpose of a product, if nothing else reads the product, by the product of transposes.

    BLAS reads transposed factors as they lie, while who reads a transposed result goes through it in strides.
    """
    users = graph.users()
    outputs = set(graph.outputs)
    kept: list[Op] = []
    for op in graph.ops:
        turned = transposed(op.out) if op.name == "transpose" else None
        product = None if turned is None else turned.op
        if product is None or product.name != "dot" or len(users[product.out]) > 1 or product.out in outputs:
            kept.append(op)
        else:
            a, b = (_swapped(v, kept) for v in product.operands)
            op.name, op.inputs, op.params = "dot", [b, a], {}
            kept.append(op)
    graph.ops = kept
    for body in graph.bodies():
        turn_products(body)
    return graph


def _swapped(value: Value, ops: list[Op]) -> Value:
    """Return a value with its last two axes exchanged, made by an operation that is appended if need be."""
    turned = transposed(value)
    if turned is not None:
        return turned
    rank = len(value.shape)
    axes = (*range(rank - 2), rank - 1, rank - 2)
    op = Op("transpose", [value], {"axes": axes})
    op.outs = [Value([value.shape[a] for a in axes], value.dtype, op)]
    ops.append(op)
    return op.out


PASSES: tuple[tuple[str, Callable[[Graph], Graph]], ...] = (
    ("products kept apart", keep_apart),
    ("products turned", turn_products),
    ("results of loops kept", keep_results),
    ("loops without what is unused", drop_unused),
    ("products behind loops", products_behind),
    ("axes in order", read_in_order),
    ("short products spelled out", spell_out),
    ("without dead code", drop_unused),
    ("products accumulated", accumulate_products),
    ("neighbours computed again", compute_again),
    ("factors packed", pack_factors),
)


def improved(graph: Graph) -> Graph:
    """Return a graph of core operations after all passes."""
    for name, improve in PASSES:
        graph = seen(name, improve(graph))
    return graph
