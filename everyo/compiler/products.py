"""What BLAS does in passing: a product is scaled, and added to what is in memory already.

A ``dot`` has a factor ``alpha`` and, as a third operand, what its product is added to. So a sum of products
is one place in memory, into which each of them accumulates.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from everyo.compiler.fuse import OPAQUE, is_opaque, is_small_dot
from everyo.compiler.graph import Graph, Op, Value
from everyo.compiler.lowering.builder import scalar_of


def accumulate_products(graph: Graph) -> Graph:
    """Let products take over factors and sums behind them, in bodies of loops and branches too."""
    users, outputs = graph.users(), set(graph.outputs)

    def taken(value: Value) -> Op | None:
        """Return the product that a value is, if nothing but what is looked at reads it."""
        op = value.op
        alone = op is not None and op.name == "dot" and len(users[value]) == 1 and value not in outputs
        return op if alone and op is not None and not is_small_dot(op) else None

    def lies(value: Value) -> bool:
        """Whether a value has to be in memory, as no loop can compute it while reading."""
        return value in outputs or all(u.name in OPAQUE or u.name == "dot" for u in users[value])

    kept: list[Op] = []
    for op in graph.ops:
        found = None
        if op.name == "map" and (op.out in users or op.out in outputs):
            found = _scaled(op, taken) or _summed(op, taken, lies(op.out))
        if found is not None:
            product, alpha, added = found
            kept.remove(product)
            op.name, op.inputs = "dot", [*product.operands, *added]
            op.params = {"alpha": alpha} if alpha != 1 else {}
        kept.append(op)
    graph.ops = kept
    for body in graph.bodies():
        accumulate_products(body)
    return graph


Found = tuple[Op, float, list[Value]]  # a product, its new factor, and what it is added to


def _scaled(op: Op, taken: Callable[[Value], Op | None]) -> Found | None:
    """Return the product that is multiplied by a number, above zero so that zeros keep their signs."""
    if op.params["fn"] != "multiply":
        return None
    for value, other in (op.operands, reversed(op.operands)):
        number, product = scalar_of(other), taken(value)
        if number is None or product is None or len(product.operands) > 2:
            continue
        alpha, limits = product.params.get("alpha", 1.0) * float(number), np.finfo(value.dtype)
        if limits.tiny <= alpha <= limits.max:
            return product, float(value.dtype.type(alpha)), []
    return None


def _summed(op: Op, taken: Callable[[Value], Op | None], lies: bool) -> Found | None:
    """Return the product that is added to another one, or to anything where the sum lies in memory."""
    if op.params["fn"] not in ("add", "subtract"):
        return None
    first, second = op.operands
    minus = op.params["fn"] == "subtract"
    for value, other in ((second, first), (first, second))[: 1 if minus else 2]:
        product = taken(value)
        if product is None or len(product.operands) > 2 or not is_opaque(product):
            continue
        earlier = taken(other)
        if lies or (earlier is not None and is_opaque(earlier)):
            alpha = product.params.get("alpha", 1.0)
            return product, -alpha if minus else alpha, [other]
    return None
