"""Scans without states, results and operands that nobody asks for."""

from __future__ import annotations

from everyo.compiler.graph import Graph, Op, Value, has_effect
from everyo.compiler.scans.parts import Scan


def drop_unused(graph: Graph) -> Graph:
    """Drop dead code, and what scans carry, give or are given in vain; bodies keep what remains needed."""
    needed: set[Value] = set(graph.outputs)
    kept: list[Op] = []  # what is dead reads perhaps what is dropped
    for op in reversed(graph.ops):
        if not has_effect(op) and not any(v in needed for v in op.outs):
            continue
        if op.name == "scan":
            _drop(Scan(op), needed)
        needed.update(op.operands)
        kept.append(op)
    graph.ops = kept[::-1]
    for body in graph.bodies():
        drop_unused(body)
    return graph


def _drop(scan: Scan, needed: set[Value]) -> None:
    body, outs, width = scan.body, scan.op.outs, scan.width
    states = {i for i in range(scan.carries) if outs[i] in needed or scan.history(i) in needed}
    results = {i for i in range(scan.carries, width) if outs[i] in needed}
    while True:
        live = body.live([body.outputs[i] for i in sorted(states | results)])
        more = {i for i in range(scan.carries) if body.inputs[i] in live} | states
        if more == states:
            break
        states = more
    inputs = {i for i in range(scan.carries, len(body.inputs)) if body.inputs[i] in live}
    if len(states) + len(results) < width or len(states) + len(inputs) < len(body.inputs):
        scan.keep_only(states, results, inputs)
