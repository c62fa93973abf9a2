"""What a traced function asks of tensors: whether they require grad, whether they are leaves.

The answer is part of the program, so it is a guard: of an argument for the call's own argument, of a tensor
from outside for that tensor. Of what the function computes it is known only where nothing that it comes of is
differentiated.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from everyo.compiler.cells import DataCell, OuterCell
from everyo.compiler.graph import Value
from everyo.core.ownership import is_changeable
from everyo.core.tensor import Tensor
from everyo.core.traced import Traced, staged
from everyo.errors import CompileError, describe

if TYPE_CHECKING:
    from everyo.compiler.trace import Tracer


def answer(tracer: Tracer, x: Tensor, name: str) -> bool:
    """Return `requires_grad` or `is_leaf` of a tensor, from outside or of a trace."""
    data = x.data
    value = getattr(data, "value", None)
    if isinstance(value, Value):  # a symbol
        node = x.grad_node
        if node is not None:
            return True if name == "requires_grad" else node.is_leaf
        return _of_value(data.interpreter, x, value, name)
    if isinstance(data, Traced) and data.level > tracer.level:  # of a transformation inside
        node = x.grad_node
        if name == "is_leaf":
            return node.is_leaf if node is not None else not data.requires_grad
        return node is not None or data.requires_grad
    return _of_outside(tracer, x, name)


def _of_outside(tracer: Tracer, x: Any, name: str) -> bool:
    """Return the answer of a tensor from outside, which is asked again at each call."""
    return tracer.guard(x, name, functools.partial(now, x, name))


def now(x: Any, name: str) -> bool:
    """Return the answer of an argument, which may be an array, or of a tensor from outside."""
    if name == "mutable":
        return is_changeable(x)
    with staged(None):
        return getattr(x, name, name == "is_leaf")


def _of_value(tracer: Any, x: Tensor, value: Value, name: str) -> bool:
    """Return the answer of a value without a node of the eager tape."""
    if value in tracer.arguments:
        return of_argument(tracer, value, name)
    cells = {v: cell for cell, v in tracer.cells.values()}
    for source in _sources(value):
        cell = cells.get(source)
        if source in tracer.arguments:
            followed = of_argument(tracer, source, "requires_grad")
        elif isinstance(cell, OuterCell):
            followed = answer(tracer.parent, cell.x, "requires_grad")
        elif isinstance(cell, DataCell):
            followed = isinstance(cell.x.data, Traced) and _of_outside(tracer, cell.x, "requires_grad")
        else:
            followed = cell is None and source.dtype.kind in "fc"
        if followed:
            raise _unknown(x, name)
    return name == "is_leaf"


def of_argument(tracer: Any, value: Value, name: str) -> bool:
    """Return the answer of an argument: `requires_grad`, `is_leaf`, or whether ``x += v`` changes it."""
    place = list(tracer.arguments).index(value), name
    if place not in tracer.asked:
        tracer.asked[place] = now(tracer.arguments[value], name)
    return tracer.asked[place]


def _sources(value: Value) -> list[Value]:
    """Return the inputs of the graph that a value comes of."""
    found, sources = [value], []
    seen = {value}
    for v in found:
        if v.op is None:
            sources.append(v)
            continue
        new = [o for o in v.op.operands if o not in seen]
        seen.update(new)
        found += new
    return sources


def _unknown(x: Tensor, name: str) -> CompileError:
    return CompileError(
        "the function asks whether a computed tensor is differentiated, which its program cannot tell",
        operation=name,
        inputs=describe(x),
        expected=f"{name} of arguments and of captured tensors",
        found=f"{name} of a result that may depend on a differentiated one",
        remedy="ask an argument, or pass the answer as one of static_argnums",
    )
