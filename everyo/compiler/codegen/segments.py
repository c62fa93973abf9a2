"""Segments of a loop: ranges in which what is joined or padded along it comes from one place.

In each of them the element that is read lies at a fixed distance, so that a vector of elements is read at
once; across a border each element would have to be looked up.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from everyo.compiler.again import LONG
from everyo.compiler.codegen.text import Function, Index
from everyo.compiler.fuse import Cluster, Plan
from everyo.compiler.graph import Op, Value

SHORT = 16  # turns of a segment up to which it becomes one with such a neighbour: it needs no vectors
MOST = 5  # segments
WRITTEN = 120  # members that the segments of a cluster may have together


def segments(plan: Plan, cluster: Cluster, flat: bool) -> list[tuple[int, int]]:
    """Return the segments of a cluster's outermost loop, in order."""
    n = cluster.outer[0]
    if flat or n < LONG:
        return [(0, n)]
    borders = {0, n}
    seen: set[tuple[Value, int]] = set()
    for member in cluster.members:
        for value in member.op.operands:
            if plan.home.get(value) is not cluster and value.shape[:1] == (n,):
                borders.update(_borders(plan, value, 0, seen))
    found = _joined(itertools.pairwise(sorted(b for b in borders if 0 <= b <= n)))
    many = len(found) > MOST or len(found) * len(cluster.members) > WRITTEN
    return [(0, n)] if many else found


def _joined(parts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return segments in order, short ones in a row as one."""
    found: list[tuple[int, int]] = []
    for start, stop in parts:
        if found and stop - start <= SHORT and found[-1][1] - found[-1][0] <= SHORT:
            start = found.pop()[0]
        found.append((start, stop))
    return found


def _borders(plan: Plan, value: Value, shift: int, seen: set[tuple[Value, int]]) -> Iterator[int]:
    """Yield where along the loop the source of a value changes; its position is the loop's plus `shift`."""
    op = value.op
    if op is None or value in plan.home or not value.shape or (value, shift) in seen:
        return
    seen.add((value, shift))
    if op.name == "concat" and op.params["axis"] == 0:
        start = 0
        for part in op.operands:
            yield from (start - shift, start + part.shape[0] - shift)
            yield from _borders(plan, part, shift - start, seen)
            start += part.shape[0]
        return
    if op.name == "pad" and op.params["inner"][0] == 0:
        low = op.params["low"][0]
        yield from (low - shift, low + op.operands[0].shape[0] - shift)
        yield from _borders(plan, op.operands[0], shift - low, seen)
        return
    for source, step in _along(op):
        yield from _borders(plan, source, shift + step, seen)


def _along(op: Op) -> Iterator[tuple[Value, int]]:
    """Yield operands whose first axis is that of the result, moved by a number of elements."""
    params = op.params
    match op.name:
        case "slice" if params["step"][0] == 1:
            yield op.operands[0], params["start"][0]
        case "map" | "again":
            yield from ((v, 0) for v in op.operands)
        case "concat":
            yield from ((v, 0) for v in op.operands)
        case "broadcast" if params["dims"] and params["dims"][0] == 0:
            yield op.operands[0], 0
        case "transpose" if params["axes"][0] == 0:
            yield op.operands[0], 0
        case "reshape" if op.operands[0].shape[:1] == op.out.shape[:1]:
            yield op.operands[0], 0


def clamped(f: Function, segment: tuple[int, int], whole: bool) -> tuple[Index, Index]:
    """Return the bounds of the part of ``%low`` to ``%high`` that lies in a segment."""
    if whole:
        return "%low", "%high"
    start, stop = segment
    late, early = f.pure(f"icmp sgt i64 %low, {start}"), f.pure(f"icmp slt i64 %high, {stop}")
    low = f.pure(f"select i1 {late}, i64 %low, i64 {start}")
    return low, f.pure(f"select i1 {early}, i64 %high, i64 {stop}")
