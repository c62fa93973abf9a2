"""Which operations are computed inside the kernel that alone reads them, element by element."""

from __future__ import annotations

import math
from collections.abc import Set

from everyo.compiler.access import VIEWS
from everyo.compiler.graph import Graph, Op, Value

TERMS = 32  # elements of a window, or terms of a sum over one, that are written out
MANY = 40  # operations that one kernel takes in


def absorbed(graph: Graph, kept: Set[Value]) -> dict[Op, Op]:
    """Return operations with the kernel, a ``place`` or ``fold``, that they are computed in.

    Nothing is computed twice: such a kernel asks for each element of its operand once, and between the two
    stands no view that repeats elements, unless it repeats them along the written out elements of a window.
    What is in `kept` goes to memory.
    """
    users = graph.users()
    owner: dict[Op, Op] = {op: op for op in graph.ops if op.name in ("place", "fold")}
    count: dict[Op, int] = {}
    for op in reversed(graph.ops):
        if op in owner or len(op.outs) != 1 or op.out in kept or not users.get(op.out):
            continue
        owners = {owner.get(user) for user in users[op.out]}
        if len(owners) != 1:
            continue
        (kernel,) = owners
        if kernel is None or count.get(kernel, 0) == MANY or not _goes_into(op, kernel):
            continue
        owner[op] = kernel
        count[kernel] = count.get(kernel, 0) + 1
    return {op: kernel for op, kernel in owner.items() if op is not kernel and op.name not in VIEWS}


def _goes_into(op: Op, kernel: Op) -> bool:
    """Whether an operation can be computed, or looked through, inside a kernel."""
    if op.name in ("map", "reshape", "transpose", "slice", "pad"):
        return True
    if kernel.name == "place":
        return op.name == "concat" or (op.name == "broadcast" and not op.operands[0].shape)
    rank = len(kernel.params["stride"])
    parts = kernel.operands[0].shape
    depth = len(parts) - rank  # axes of windows; behind them their elements
    if not is_apart(kernel) or math.prod(parts[depth:]) > TERMS:
        return op.name == "broadcast" and not op.operands[0].shape
    if op.name == "broadcast":
        along = op.params["dims"] == tuple(range(len(op.operands[0].shape)))
        return along and op.out.shape[:depth] == parts[:depth]
    if op.name == "reduce":
        return op.params["axes"][0] >= depth and op.operands[0].shape[:depth] == parts[:depth]
    return False


def is_apart(fold: Op) -> bool:
    """Whether no two windows of a ``fold`` have an element in common."""
    rank = len(fold.params["stride"])
    kernel = fold.operands[0].shape[-rank:]
    steps = zip(kernel, fold.params["stride"], fold.params["dilation"])
    return all(s > d * (k - 1) for k, s, d in steps)
