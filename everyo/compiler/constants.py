"""Values of a traced function that follow from constants alone: they can be read while it is traced."""

from __future__ import annotations

from typing import Any

import numpy as np

from everyo.compiler.graph import Graph, Op, Value
from everyo.core.dispatch import apply
from everyo.core.modes import no_grad
from everyo.core.traced import staged


def array_of(value: Value | None, found: dict[Value, Any]) -> Any:
    """Return the elements of a value that is computed of constants alone, or None for any other.

    `found` keeps what has been computed, so that a loop that asks at each turn computes each turn once.
    """
    if value is None:
        return None
    if value in found:
        return found[value]
    made = value.op
    if made is not None and made.name == "constant":
        return made.params["array"]
    order = _ancestry(value, found)
    if order is None:
        return None
    with staged(None), no_grad():
        for op in order:
            if op.name == "constant":
                found[op.out] = op.params["array"]
                continue
            out = apply(op.primitive, [None if v is None else found[v] for v in op.inputs], op.params)
            outs = out if isinstance(out, tuple) else (out,)
            found.update(zip(op.outs, [np.asarray(x.data) for x in outs], strict=True))
    return found[value]


def _ancestry(value: Value, found: dict[Value, Any]) -> list[Op] | None:
    """Return the operations that lead to a value, in order; None if one is no function of constants."""
    order: list[Op] = []
    seen: set[Op] = set()
    waiting: list[tuple[Value, bool]] = [(value, False)]
    while waiting:
        at, done = waiting.pop()
        op = at.op
        if op is None:
            return None
        if done:
            order.append(op)
        elif op not in seen:
            if op.name != "constant" and not _pure(op):
                return None
            seen.add(op)
            waiting.append((at, True))
            waiting += [(v, False) for v in op.operands if v not in found]
    return order


def _pure(op: Op) -> bool:
    """Whether an operation is a primitive's own: no Python function, no body of a loop, no user's rules."""
    if op.primitive is None or op.name == "custom":
        return False
    return not any(isinstance(p, Graph) for p in op.params.values())
