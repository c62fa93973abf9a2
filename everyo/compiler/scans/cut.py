"""What to keep and what to compute again, at the least cost: a minimal cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from everyo.compiler.graph import Value

SOURCE, SINK = "source", "sink"


def cheapest(
    wanted: Iterable[Value],
    operands: Mapping[Value, Sequence[Value]],
    keeping: Callable[[Value], float],
    computing: Callable[[Value], float],
) -> set[Value]:
    """Return which values to keep, so that keeping those and computing the others costs the least.

    Parameters
    ----------
    wanted : iterable of Value
        What is needed.
    operands : mapping from Value to sequence of Value
        The values that can be kept or computed, each with those that its computation needs.
    keeping, computing : callable
        What it costs to keep a value, and to compute it from its operands.
    """
    # A value is needed if it lies on the source's side of the cut, and computed if its operation does too.
    room: dict[Any, dict[Any, float]] = {}

    def edge(a: Any, b: Any, capacity: float) -> None:
        room.setdefault(a, {})[b] = capacity
        room.setdefault(b, {}).setdefault(a, 0.0)

    stack, seen = list(wanted), set()
    for value in stack:
        edge(SOURCE, value, float("inf"))
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        edge(value, ("computed", value), keeping(value))
        edge(("computed", value), SINK, computing(value))
        for operand in operands[value]:
            edge(("computed", value), operand, float("inf"))
            stack.append(operand)
    side = _source_side(room)
    return {value for value in seen if value in side and ("computed", value) not in side}


def _source_side(room: dict[Any, dict[Any, float]]) -> set[Any]:
    """Fill the paths from source to sink, shortest first; return what the source still reaches."""
    while True:
        before = {SOURCE: SOURCE}
        queue = deque([SOURCE])
        while queue and SINK not in before:
            a = queue.popleft()
            for b, capacity in room.get(a, {}).items():
                if capacity > 0 and b not in before:
                    before[b] = a
                    queue.append(b)
        if SINK not in before:
            return set(before)
        path = [SINK]
        while path[-1] != SOURCE:
            path.append(before[path[-1]])
        steps = [*zip(path[1:], path)]
        flow = min(room[a][b] for a, b in steps)
        for a, b in steps:
            room[a][b] -= flow
            room[b][a] += flow
