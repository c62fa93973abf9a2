"""States that are replaced where they lie, so that there is no second copy of them.

A program that writes its new states over the old ones does so at its very end, behind everything that may
fail, in loops that read an element of the old state before they write that of the new one. Python's lock
is held meanwhile: an array that nobody else holds when the end begins is seen by nobody before it is over.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import starmap
from operator import call
from typing import Any

from everyo.compiler.fuse import Member, Plan
from everyo.compiler.graph import Graph, Op, Value

LARGE = 1 << 15  # bytes of a state from which on a second copy of it counts

State = tuple[int, int]  # which input, and which output takes its place
Owns = Callable[[int, Any], bool]  # whether an array is that of a cell, by the input that it is
Call = tuple[Any, ...]  # a function that runs no Python code and returns nothing, and its arguments
Writing = Callable[[Sequence[Any]], list[Call]]  # from the arrays of results to what puts them where they go
replacing = threading.RLock()  # held while programs replace states, and while they put results into cells


def carry_out(calls: Sequence[Call]) -> bool:
    """Make calls one after the other, up to one that refuses; return whether one did.

    Python hears of a signal between its own instructions only. There are none here, so that Ctrl-C finds all
    calls made or none.
    """
    return any(starmap(call, calls))


def counts_holders() -> bool:
    """Whether Python's count of who holds an object can be relied on, and its lock is one."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def replace_states(graph: Graph, plan: Plan, states: Sequence[State], places: set[Value]) -> int:
    """Enter the states that are replaced where they lie into the plan; return the first cluster that does so.

    What other values are computed in (`places`) is written too early.
    """
    clusters = plan.clusters
    apart = [i for i, c in enumerate(clusters) if c.members and (c.opaque or c in plan.panels)]
    last = max(apart, default=-1)
    readings = list(_readings(plan, {graph.inputs[i] for i, _ in states}))
    first = len(clusters)
    for i, o in states:
        old, new = graph.inputs[i], graph.outputs[o]
        member = plan.member.get(new)
        if member is None or new in places or new.nbytes < LARGE or not _fits(old, new, member):
            continue
        written = clusters.index(plan.home[new])
        if written <= last or plan.home[new].opaque:
            continue
        if all(_is_before(reading, written, member) for reading in readings if reading[0] is old):
            plan.replaced[new] = old
            first = min(first, written)
    return first


Reading = tuple[Value, int, Member, bool]  # of what, by which cluster and member, whether at its own index


def _readings(plan: Plan, states: set[Value]) -> Iterator[Reading]:
    """Yield who reads states, through views and functions that are computed while reading."""
    for step, cluster in enumerate(plan.clusters):
        for member in cluster.members:
            for value, direct in _touched(plan, member.op, True):
                if value in states:
                    yield value, step, member, direct
        if cluster in plan.panels:
            for value, _ in _touched(plan, plan.panels[cluster].product, False):
                if value in states:
                    yield value, step, cluster.members[0], False


def _touched(plan: Plan, op: Op, direct: bool) -> Iterator[tuple[Value, bool]]:
    for value in op.operands:
        if value.op is None:
            yield value, direct
        elif value not in plan.home:
            yield from _touched(plan, value.op, direct and value.op.name in ("map", "part"))


def _is_before(reading: Reading, written: int, writer: Member) -> bool:
    """Whether an element is read before it is written: by an earlier loop, or in the same turn of one."""
    _, step, member, direct = reading
    own = direct and member.nest == writer.nest and member.op.name in ("map", "reduce", "interleave")
    return step < written or (step == written and own)


def _fits(old: Value, new: Value, member: Member) -> bool:
    space = (*member.space, 2) if member.op.name == "interleave" else member.space
    return not member.sink and space == new.shape == old.shape and old.dtype == new.dtype
