"""Sums of matrix products over the steps of a loop, taken as one product behind it.

The cotangent of a matrix that all steps read is such a sum: of an outer product in each step, or of the
product of two thin matrices. Stacked, the factors make one product with long rows, which BLAS is fast at,
and no step has to go through the whole matrix to add to it.
"""

from __future__ import annotations

from typing import NamedTuple

from everyo.compiler.graph import Graph, Op, Value, transposed
from everyo.compiler.lowering.builder import Builder, scalar_of
from everyo.compiler.scans.parts import Scan, scans_of, substitute


class Term(NamedTuple):
    """A product ``left.T @ right`` of values of a body: matrices, or vectors that stand for one row."""

    left: Value
    right: Value


def products_behind(graph: Graph) -> Graph:
    """Take sums of products out of the loops that only carry them, which still do until the next pass."""
    for body in graph.bodies():
        products_behind(body)
    for scan in scans_of(graph):
        for i in range(scan.carries):
            _take_out(graph, scan, i)
    return graph


def _take_out(graph: Graph, scan: Scan, i: int) -> None:
    """Take the products out of the sum that a state is, if it is one and nobody asks for it in between."""
    if scan.history(i) in graph.users() or scan.history(i) in graph.outputs:
        return
    leaves = _summands(scan.body, i)
    products = {v: term for v in leaves if (term := _term(scan, v)) is not None}
    if not products:
        return
    behind = Graph()
    b = Builder(behind)
    others = [v for v in leaves if v not in products]
    state, last = scan.body.inputs[i], scan.op.outs[i]
    if others != [state]:
        scan.body.outputs[i] = _sum(scan.body, others)
        total: Value | None = last
    else:
        first = scan.op.operands[i]
        total = None if scalar_of(first) == 0 else first
    for term in products.values():
        product = _product(b, scan, term)
        total = product if total is None else b.map("add", total, product)
    assert total is not None
    substitute(graph, {last: total})
    at = graph.ops.index(scan.op) + 1
    graph.ops[at:at] = behind.ops


def _summands(body: Graph, i: int) -> list[Value]:
    """Return what a state grows by in each step, the state itself among it; nothing if it is no such sum."""
    state, following = body.inputs[i], body.outputs[i]
    users = body.users()
    if len(users.get(state, ())) != 1 or following in users:
        return []
    leaves, stack = [], [following]
    while stack:
        value = stack.pop()
        inner = value is following or (len(users[value]) == 1 and value not in body.outputs)
        if inner and value.op is not None and value.op.params.get("fn") == "add":
            stack += reversed(value.op.operands)
        else:
            leaves.append(value)
    return leaves if state in leaves else []


def _sum(body: Graph, values: list[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = body.add("map", [total, value], [(value.shape, value.dtype)], fn="add")[0]
    return total


def _term(scan: Scan, value: Value) -> Term | None:
    """Return the factors of a summand that is a product, if stacking them costs less than adding it up."""
    op = value.op
    if op is None or value.dtype.kind != "f" or len(value.shape) != 2:
        return None
    if op.name == "dot":
        left, right = op.operands
        turned = transposed(left)
        if turned is None:
            return None
        term = Term(turned, right)
    else:
        vectors = _outer(op)
        if vectors is None:
            return None
        term = Term(*vectors)
    fixed = {inside for _, inside in scan.constants()}
    present = {inside for _, inside in scan.stacks()}
    if term.left in fixed or term.right in fixed:
        return None
    return term if sum(v.size for v in {*term} - present) <= value.size else None


def _outer(op: Op) -> tuple[Value, Value] | None:
    """Return the vectors of an outer product."""
    if op.params.get("fn") != "multiply":
        return None
    found: dict[int, Value] = {}
    for value in op.operands:
        if value.op is not None and value.op.name == "broadcast" and len(value.op.operands[0].shape) == 1:
            found[value.op.params["dims"][0]] = value.op.operands[0]
    return (found[0], found[1]) if len(found) == 2 else None


def _product(b: Builder, scan: Scan, term: Term) -> Value:
    """Return the sum over all steps of a product, behind the loop."""
    stacks = [(scan.stack_of(v), v.shape[-1]) for v in term]
    left, right = (b.reshape(stack, (stack.size // n, n)) for stack, n in stacks)
    return b.dot(b.transpose(left, (1, 0)), right)
