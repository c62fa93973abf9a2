"""What a loop has computed is kept for a later loop that would compute it again.

So it is with the reverse of a scan, which runs the body of the scan again to pull its cotangents back. A
step's results are kept as stacks, unless computing them again costs less than the way to memory and back.
"""

from __future__ import annotations

import math
from typing import Any

from everyo.compiler.access import VIEWS
from everyo.compiler.codegen.cost import CHEAP, SCALAR, TERM
from everyo.compiler.fuse import is_small_dot
from everyo.compiler.graph import Graph, Op, Value, has_effect
from everyo.compiler.lowering.builder import frozen
from everyo.compiler.scans.cut import cheapest
from everyo.compiler.scans.parts import Scan, scans_of, substitute

KEPT = 0.4  # nanoseconds for eight bytes of a stack, written and read
WRITTEN_TERM = 0.15  # a term of a product that is written out
FREE = VIEWS | {"constant", "iota", "interleave"}  # what costs nothing to compute again


def keep_results(graph: Graph) -> Graph:
    """Let scans read from stacks what an earlier scan of the same graph has computed, where that pays."""
    scans = scans_of(graph)
    for i, later in enumerate(scans):
        for earlier in scans[:i]:
            given = set(later.op.operands)
            related = not (given.isdisjoint(earlier.op.outs) and given.isdisjoint(earlier.op.operands))
            if related and earlier.length == later.length:
                _share(earlier, later)
    for body in graph.bodies():
        keep_results(body)
    return graph


def _share(earlier: Scan, later: Scan) -> None:
    found = _repeated(earlier, later)
    operands = {
        v: [] if v.op.name in FREE and not v.op.inputs else [u for u in v.op.operands if u in found]
        for v in found
        if v.op is not None
    }
    wanted = [v for v in _read_by_others(later, found) if v in operands]
    given = {inside for _, inside in earlier.stacks()}

    def keeping(value: Value) -> float:
        if value.op is not None and value.op.name in FREE and not value.op.inputs:
            return math.inf
        return value.nbytes / 8 * (KEPT / 4 if found[value] in given else KEPT)

    def computing(value: Value) -> float:
        assert value.op is not None
        return effort(value.op)

    sources = {v: [u for u in us if u in operands] for v, us in operands.items()}
    kept = cheapest(wanted, sources, keeping, computing)
    ordered = [v for op in later.body.ops for v in op.outs if v in kept]
    substitute(later.body, {v: later.element_of(earlier.stack_of(found[v])) for v in ordered})
    later.own_outputs()


def _repeated(earlier: Scan, later: Scan) -> dict[Value, Value]:
    """Return the values of the later body that equal ones of the earlier body in the same step."""
    found: dict[Value, Value] = {}
    for own, others in ((later.stacks(), earlier.stacks()), (later.constants(), earlier.constants())):
        inside = dict(others)
        given = set(later.body.inputs[later.carries :])
        found |= {value: inside[outside] for outside, value in own if value in given and outside in inside}
    if not found:
        return {}
    known = {_key(op, op.inputs): op for op in earlier.body.ops if _is_plain(op)}
    for op in later.body.ops:
        if _is_plain(op) and all(v in found for v in op.operands):
            other = known.get(_key(op, [None if v is None else found[v] for v in op.inputs]))
            if other is not None:
                found[op.out] = other.out
    return found


def _is_plain(op: Op) -> bool:
    nested = any(isinstance(p, Graph) for p in op.params.values())
    return len(op.outs) == 1 and not nested and not has_effect(op)


def _key(op: Op, inputs: Any) -> Any:
    return op.name, tuple(map(id, inputs)), op.out.shape, op.out.dtype, frozen(op.params)


def _read_by_others(scan: Scan, found: dict[Value, Value]) -> list[Value]:
    """Return the values among `found` that are read by what is not, or given to the next step or outside."""
    read = {v for op in scan.body.ops if not all(u in found for u in op.outs) for v in op.operands}
    read.update(scan.body.outputs)
    return [v for v in found if v in read]


def effort(op: Op) -> float:
    """Return about how many nanoseconds an operation takes."""
    size = op.out.size * op.out.dtype.itemsize / 8
    if op.name in FREE:
        return 0.0
    if op.name == "map":
        return size * SCALAR.get(op.params["fn"], CHEAP)
    if op.name == "dot":
        return size * op.operands[0].shape[-1] * (WRITTEN_TERM if is_small_dot(op) else TERM)
    if op.name == "reduce":
        return op.operands[0].size * op.out.dtype.itemsize / 8 * CHEAP
    return math.inf
