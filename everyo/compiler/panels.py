"""Products that are taken panel by panel, each followed by the loop that reads it while it is in the cache.

What a product only hands on to one loop over its rows (a bias and an activation, the mask of a gradient)
never exists as a whole: there is one panel of it for each thread. BLAS arranges its second factor anew for
each panel; that pays where the factors are thin beside the product, and it is larger than the caches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from everyo.compiler.access import VIEWS, lead
from everyo.compiler.fuse import Cluster, Plan, space_of
from everyo.compiler.graph import Graph, Op, Value

LEAST = 4 << 20  # bytes of a product from which on it is taken in panels
TILE = 1 << 19  # bytes of a panel, at most: half of a usual second-level cache
FEW = 32  # rows that a panel must have
MULTIPLE = 16  # of which a panel has so many rows: those of whole tiles
DEEP = 256  # terms of a product up to which panels pay
SHARE = 4  # a sum over all rows has a part for each panel: together at most this share of the product


class Panels(NamedTuple):
    """A product, and how many of its rows are one panel."""

    product: Op
    rows: int


def take_in_panels(graph: Graph, plan: Plan) -> None:
    """Enter the products that are taken in panels into the plan, with the clusters that read them."""
    for cluster in list(plan.clusters):
        op = cluster.members[0].op if cluster.members else None
        rows = 0 if op is None or op.name != "dot" or not cluster.opaque else _rows(op)
        if op is None or rows < FEW or op.out in graph.outputs:
            continue
        readers = list(_readers(plan, op.out))
        homes = {home for home, _ in readers}
        reader = homes.pop() if len(homes) == 1 else None
        if reader is None or reader in plan.panels or not all(aligned for _, aligned in readers):
            continue
        if _goes_by_rows(reader, op, rows):
            plan.panels[reader] = Panels(op, rows)
            cluster.members.clear()


def _rows(op: Op) -> int:
    """Return how many rows of a product make a panel; 0 where panels do not pay."""
    out, depth = op.out, op.operands[0].shape[-1]
    thin = len(op.operands) == 2 and len(out.shape) == 2 and depth <= DEEP
    rows = TILE // (out.nbytes // out.shape[0]) if thin and out.nbytes >= LEAST else 0
    return rows - rows % MULTIPLE


def _goes_by_rows(reader: Cluster, op: Op, rows: int) -> bool:
    """Whether a cluster is one loop over the rows of a product, which may run for some of them at a time."""
    if reader.opaque or reader.outer[:1] != op.out.shape[:1]:
        return False
    sums = sum(m.op.out.nbytes for m in reader.members if m.sink)
    return sums * -(-op.out.shape[0] // rows) * SHARE <= op.out.nbytes


def _readers(plan: Plan, product: Value) -> Iterator[tuple[Cluster, bool]]:
    """Yield the clusters that read a product, and whether at the row that they are at."""
    for cluster in plan.clusters:
        for member in cluster.members:
            op, rank = member.op, len(space_of(member.op))
            for i, value in enumerate(op.operands):
                for found, aligned in _reached(plan, value, rank > 0 and _along(op, i)):
                    if found is product:
                        yield cluster, aligned


def _reached(plan: Plan, value: Value, aligned: bool) -> Iterator[tuple[Value, bool]]:
    """Yield what an operand reads from memory, through views and functions computed while reading."""
    op = value.op
    if value in plan.home or op is None:
        yield value, aligned
        return
    for i, source in enumerate(op.operands):
        yield from _reached(plan, source, aligned and _along(op, i))


def _along(op: Op, i: int) -> bool:
    """Whether an operation that is at some row reads that row of an operand."""
    return lead(op, i) > 0 if op.name in VIEWS else op.name in ("map", "reduce", "argreduce", "interleave")
