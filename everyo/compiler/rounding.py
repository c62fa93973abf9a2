"""Sums of products that cancel as they do in eager code, where each product is rounded.

A fused multiply-add takes one product of ``a * b - c * d`` unrounded: of two equal ones it leaves the
rounding error of the other. That is a cotangent that should be 0 and is not, or a discriminant below 0.
"""

from __future__ import annotations

from everyo.compiler.access import VIEWS
from everyo.compiler.graph import Graph, Value


def keep_apart(graph: Graph) -> Graph:
    """Mark sums and differences of two values that arithmetic has rounded: no product stays unrounded there.

    A product may still be fused with an input, a constant or the result of a function, as in a polynomial.
    """
    rounded: set[Value] = set()
    for op in graph.ops:
        fn = op.params.get("fn") if op.name == "map" else op.name
        held = [v for v in op.inputs if v in rounded]
        if fn in ("add", "subtract") and len(held) == 2:
            op.params["apart"] = True
        passed_on = held and (fn in ("add", "subtract", "negative", "where") or fn in VIEWS)
        if passed_on or fn in ("multiply", "divide", "reduce", "dot"):
            rounded.update(op.outs)
    for body in graph.bodies():
        keep_apart(body)
    return graph
