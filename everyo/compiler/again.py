"""Cheap functions that are read at a distance are computed there again, so that their readers share a loop.

A step of a difference scheme reads its neighbours: element i of what comes next takes element i - 1 of what
comes before. With each of these in memory, every stage would be a loop of its own. A few operations more for
each element cost less than the way through memory, and all stages become one loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from everyo.compiler.fuse import CHEAP, is_opaque
from everyo.compiler.graph import Graph, Op, Value

LONG = 256  # elements along the axis from which on a loop is cut where what it reads changes
MOST = 24  # operations, and elements that are read, that computing a value again may take for all readers


def compute_again(graph: Graph) -> Graph:
    """Put operations "again" in the place of cheap ones that are read at a distance: readers compute them."""
    for body in graph.bodies():
        compute_again(body)
    _Repetition(graph).run()
    return graph


class _Repetition:
    """One graph.

    Attributes
    ----------
    kept : set of Value
        What lies in memory whoever reads it: inputs, outputs, what kernels of their own make or read.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.users = graph, graph.users()
        self.kept = {*graph.inputs, *graph.outputs}
        for op in graph.ops:
            if is_opaque(op):
                self.kept.update(op.operands, op.outs)
        self._twins: dict[Value, Value] = {}
        self._ops: list[Op] = []

    def run(self) -> None:
        """Rewrite the graph."""
        for op in self.graph.ops:
            if _is_shift(op) and op.out not in self.kept:
                op.inputs = [self._twin(v) if v is not None and self._is_cheap(v) else v for v in op.inputs]
            self._ops.append(op)
        self.graph.ops = self._ops
        self.graph.ops = self.graph.needed()

    def _is_cheap(self, value: Value) -> bool:
        """Whether a value is made, by a few cheap operations, of what lies in memory."""
        if value.op is None or value.op.name != "map":
            return False
        most = MOST // sum(map(_is_shift, self.users[value]))
        elements: set[tuple[Value, int]] = set()
        return self._enter(value, 0, elements, most)

    def _enter(self, value: Value, at: int, elements: set[tuple[Value, int]], most: int) -> bool:
        """Enter what an element at a distance takes; return whether that is cheap, and not too much."""
        if (value, at) in elements or _is_number(value):
            return True
        op = None if value in self.kept or _is_part(value) else value.op
        if op is None or op.name in ("map", "again"):
            elements.add((value, at))
        if op is None:
            return len(elements) <= most
        if len(elements) > most or not _is_transparent(op):
            return False
        return all(self._enter(v, there, elements, most) for v, there in _sources(op, at))

    def _twin(self, value: Value) -> Value:
        """Return what equals a value and is in no memory, but computed where it is read."""
        op = value.op
        if value in self.kept or op is None or op.name == "constant":
            return value
        if value not in self._twins:
            made = Op("again" if op.name == "map" else op.name, [], dict(op.params))
            made.inputs = [None if v is None else self._twin(v) for v in op.inputs]
            if op.name != "map" and made.inputs == op.inputs:
                return value
            made.outs = [Value(value.shape, value.dtype, made)]
            self._ops.append(made)
            self._twins[value] = made.out
        return self._twins[value]


def _is_shift(op: Op) -> bool:
    """Whether a view reads each element from a place at a fixed distance along the first axis."""
    if op.name not in ("slice", "pad", "concat") or op.out.shape[:1] < (LONG,):
        return False
    if any(v.shape[1:] != op.out.shape[1:] for v in op.operands if v.shape):
        return False
    if op.name == "concat":
        return bool(op.params["axis"] == 0)
    return set(op.params["step"]) == {1} if op.name == "slice" else not any(op.params["inner"])


def _is_part(value: Value) -> bool:
    """Whether a value is one part of the complex numbers that lie in memory."""
    return value.op is not None and value.op.name == "part"


def _is_transparent(op: Op) -> bool:
    """Whether each element of a result is a cheap function of elements at fixed distances."""
    if op.name in ("map", "again"):
        return op.params["fn"] in CHEAP
    return op.name == "broadcast" or _is_shift(op)


def _sources(op: Op, at: int) -> Iterator[tuple[Value, int]]:
    """Yield the operands of a transparent operation, each with the distance at which its element stands."""
    match op.name:
        case "slice":
            yield op.operands[0], at + op.params["start"][0]
        case "pad":
            yield from zip(op.operands, (at - op.params["low"][0], 0), strict=True)
        case "concat":
            for value in op.operands:
                yield value, at
                at -= value.shape[0]
        case "broadcast":
            yield op.operands[0], at if 0 in op.params["dims"] else 0
        case _:
            yield from ((v, at) for v in op.operands)


def _is_number(value: Value) -> bool:
    """Whether a value is a constant of one element, repeated or not."""
    op = value.op
    while op is not None and op.name == "broadcast":
        op = op.operands[0].op
    return op is not None and op.name == "constant" and op.out.size == 1
