"""The order of axes: sums go along what they read, and what many read is laid out for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from everyo.compiler.fuse import WRITTEN_OUT, is_small_dot
from everyo.compiler.graph import Graph, Op, Value, transposed
from everyo.compiler.lowering.builder import Builder

SHORT = 4  # terms of a product that is computed where it is read
TALL = 512  # rows from which on a product may be a sum over rows
FEW = 4096  # elements of a sum that stays in the nearest cache
REUSED = 8  # readings of each element from which on a copy in the readers' order pays


class Uses(NamedTuple):
    """Who reads the values of a graph, and which of them it returns."""

    users: dict[Value, list[Op]]
    outputs: frozenset[Value]

    def only(self, value: Value) -> Op | None:
        """Return the one operation that reads a value, or None if there are others, or none."""
        users = self.users.get(value, ())
        return users[0] if len(users) == 1 and value not in self.outputs else None


def read_in_order(graph: Graph) -> Graph:
    """Let reductions go along what they read, and products along the rows of their right factors."""
    return _rewritten(graph, _in_order)


def spell_out(graph: Graph) -> Graph:
    """Write short products that are read in another shape as sums of products in that shape.

    So they are computed where they are read, and never are in memory.
    """
    return _rewritten(graph, _spelled_out)


def _rewritten(graph: Graph, change: Callable[[Builder, Op, Uses], None]) -> Graph:
    """Let a function change operations that are needed, with what it builds in front of them."""
    graph.ops, made = graph.needed(), Graph()
    builder, uses = Builder(made), Uses(graph.users(), frozenset(graph.outputs))
    kept: list[Op] = []
    for op in graph.ops:
        change(builder, op, uses)
        kept += [*made.ops, op]
        made.ops.clear()
    graph.ops = kept
    for body in graph.bodies():
        _rewritten(body, change)
    return graph


# ---- order


def _in_order(b: Builder, op: Op, uses: Uses) -> None:
    if op.name == "reduce":
        _reduce_in_order(b, op, uses)
    elif op.name == "dot" and not is_small_dot(op):
        _add_up_rows(b, op)
    elif op.name == "dot":
        right, (rows, columns) = op.operands[1], op.out.shape[-2:]
        if rows >= REUSED and columns > WRITTEN_OUT and transposed(right) is not None:
            op.inputs[1] = _copied(b, right)


def _reduce_in_order(b: Builder, op: Op, uses: Uses) -> None:
    """Reduce along the axes of the one large operand, if its last axis is the long one in memory."""
    source = op.operands[0]
    wide = [v.op for v in _leaves(source, uses) if v.op is None or v.op.name != "broadcast"]
    if len(wide) != 1 or wide[0] is None or wide[0].name != "transpose":
        return
    axes, inside = wide[0].params["axes"], wide[0].operands[0].shape
    if not source.shape[-1] <= WRITTEN_OUT < inside[-1]:
        return
    turned = _turned(b, source, sorted(range(len(axes)), key=axes.__getitem__), uses)
    total = b.reduce(op.params["kind"], turned, [axes[a] for a in op.params["axes"]])
    left = [axis for a, axis in enumerate(axes) if a not in op.params["axes"]]
    op.name, op.inputs, op.params = "transpose", [total], {"axes": tuple(map(sorted(left).index, left))}


def _add_up_rows(b: Builder, op: Op) -> None:
    """Write a product of two tall matrices, of which one is thin, as a sum over their rows.

    It is computed where the rows are, and BLAS need not pack them for so few columns.
    """
    left, right = transposed(op.operands[0]), op.operands[1]
    if left is None or len(left.shape) != 2 or right.dtype.kind != "f":
        return
    thin, wide = (right, left) if left.shape[1] >= right.shape[1] else (left, right)
    space = (left.shape[0], thin.shape[1], wide.shape[1])
    if space[0] < TALL or not space[1] <= WRITTEN_OUT <= space[2] or space[1] * space[2] > FEW:
        return
    terms = b.map("multiply", b.broadcast(thin, space, (0, 1)), b.broadcast(wide, space, (0, 2)))
    axes = (0, 1) if thin is left else (1, 0)
    op.name, op.inputs, op.params = "transpose", [b.reduce("sum", terms, (0,))], {"axes": axes}


def _leaves(value: Value, uses: Uses) -> list[Value]:
    """Return what functions of elements that only lead to one place are computed from."""
    op = value.op
    if op is None or op.name != "map" or uses.only(value) is None:
        return [value]
    return [leaf for operand in op.operands for leaf in _leaves(operand, uses)]


def _turned(b: Builder, value: Value, axes: Sequence[int], uses: Uses) -> Value:
    """Return a value with its axes in another order; functions of elements are computed in that order."""
    op = value.op
    if op is not None and op.name == "map" and uses.only(value) is not None:
        operands = [_turned(b, v, axes, uses) for v in op.operands]
        return b.map(op.params["fn"], *operands, dtype=value.dtype)
    if op is not None and op.name == "broadcast":
        return _repeated(b, op, axes)
    return b.transpose(value, axes)


def _repeated(b: Builder, op: Op, axes: Sequence[int]) -> Value:
    """Return what a broadcast repeats along axes in another order, laid out in that order."""
    source = op.operands[0]
    places = [axes.index(d) for d in op.params["dims"]]
    order = sorted(range(len(places)), key=places.__getitem__)
    value = b.transpose(source, order)
    if value is not source and op.out.size >= REUSED * source.size:
        value = _copied(b, value)
    return b.broadcast(value, [op.out.shape[a] for a in axes], [places[i] for i in order])


def _copied(b: Builder, value: Value) -> Value:
    return b.add("map", [value], [(value.shape, value.dtype)], fn="cast")[0]


# ---- short products


def _spelled_out(b: Builder, op: Op, uses: Uses) -> None:
    product = op.operands[0].op if op.name == "reshape" else None
    if product is None or product.name != "dot" or uses.only(product.out) is None:
        return
    reader, shape = uses.only(op.out), op.out.shape
    left, right = product.operands
    terms, columns = right.shape[-2:]
    fits = shape[-1:] == (columns,) and columns > WRITTEN_OUT and terms <= SHORT and len(right.shape) == 2
    if not fits or reader is None or reader.name not in ("map", "reduce") or op.out.dtype.kind != "f":
        return
    last, total = len(shape) - 1, None
    rows = b.reshape(left, (*shape[:-1], terms))
    for k in range(terms):
        a = b.broadcast(b.reshape(b.take(rows, last, k, k + 1), shape[:-1]), shape, range(last))
        row = b.broadcast(b.reshape(b.take(right, 0, k, k + 1), shape[-1:]), shape, (last,))
        term = b.map("multiply", a, row)
        total = term if total is None else b.map("add", total, term)
    op.inputs, op.params = [total], {}
