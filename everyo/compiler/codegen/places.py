"""What is computed where another value wants it: parts of joined arrays, what products are added to."""

from __future__ import annotations

from collections.abc import Iterator

from everyo.compiler.codegen.control import CONTROL
from everyo.compiler.fuse import Plan, buffer_value
from everyo.compiler.graph import Graph, Op, Value

Place = tuple[Value, int]  # the memory of a value, and at which byte of it


def parts_in_place(graph: Graph, plan: Plan, targets: set[Value]) -> dict[Value, Place]:
    """Return the values that are computed in the memory of others, with where.

    These are what a concatenation joins, and what a product is added to if nothing else reads it.
    """
    found: dict[Value, Place] = {}
    users = graph.users()
    for cluster in reversed(plan.clusters):  # who takes others in has found its own place
        op = cluster.members[0].op if cluster.members else None
        if op is None or not cluster.opaque:
            continue
        whole, start = found.get(op.out, (op.out, 0)) if op.outs else (None, 0)
        for value, offset in _parts(plan, op, users):
            free = value not in targets and value not in found
            if whole is not None and value in plan.stored and free:
                found[value] = whole, start + offset
    return found


def _parts(plan: Plan, op: Op, users: dict[Value, list[Op]]) -> Iterator[Place]:
    """Yield what may lie in the result of an operation from the beginning, and where."""
    if op.name == "concat":
        values = [buffer_value(op, i) for i in range(len(op.inputs))]
        start = 0
        for value, part in zip(values, op.operands, strict=True):
            home = plan.home.get(value)
            joined = home is not None and home.opaque and home.members[0].op.name == "concat"
            if values.count(value) == 1 and not joined:
                yield value, start
            start += part.nbytes
    if op.name == "dot" and len(op.operands) > 2:
        value = op.operands[2]
        home = plan.home.get(value)
        if home is not None and users[value] == [op] and home.members[0].op.name not in CONTROL:
            yield value, 0
