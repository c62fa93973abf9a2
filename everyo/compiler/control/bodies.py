"""What loops and branches share: their bodies as graphs of their own, and the state that they start from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CellType, FunctionType
from typing import Any

import numpy as np

from everyo.compiler.graph import Graph
from everyo.compiler.leaks import Places
from everyo.compiler.trace import Tracer
from everyo.core.functions import Transformed
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import CompileError
from everyo.ops.creation import as_tensor, asarray
from everyo.ops.index_batching import ARRAY
from everyo.transforms.carry import Carry

Function = Callable[..., Any]
_OWN = __name__.partition(".")[0] + "."


def trace_body(
    function: Function, like: Sequence[Any], name: str, guarded: bool = False
) -> tuple[Graph, list[Tensor]]:
    """Return the graph of a function of flat lists of tensors, and the tensors that it captures.

    They are inputs of the graph behind its own. `guarded` says that the program may not come to it.
    """
    graph = Graph(name)
    places = Places(None, _of_users(function))
    inputs = [graph.input(tuple(x.shape), x.dtype) for x in like]
    tracer = Tracer(graph, guarded)
    with tracer:
        results = function([tracer.symbol(v) for v in inputs])
        outputs = [tracer.operand(tracer.released(as_tensor(x))) for x in results]
    if tracer.writes:
        raise CompileError(
            "the body of a loop or branch changes something outside of it",
            operation=name,
            expected="a body that returns what it computes",
            found=f"{len(tracer.writes)} tensors written in place",
            remedy="carry the value through the loop",
        )
    places.refuse_changes(name)
    graph.outputs = [v for v in outputs if v is not None]
    captured = [cell.tensor for cell, _ in tracer.cells.values() if cell.tensor is not None]
    assert len(captured) == len(tracer.cells)
    tracer.cells.clear()  # the tracer leads to itself, but not to values of the trace around it
    return graph, captured


def _of_users(function: Any) -> list[Any]:
    """Return the functions of users that one of this package holds, alone or in others of its own."""
    found, waiting, seen = [], [function], {function}
    for f in waiting:  # which grows meanwhile
        for content in _held(f):
            if not str(getattr(content, "__module__", "")).startswith(_OWN):
                found.append(content)
            elif isinstance(content, FunctionType) and content not in seen:
                seen.add(content)
                waiting.append(content)
    return found


def _held(function: Any) -> list[Any]:
    """Return the callables among the variables that a function keeps."""
    cells = [cell for cell in function.__closure__ or () if cell != CellType()]
    found = [cell.cell_contents for cell in cells if callable(cell.cell_contents)]
    return [x.func if isinstance(x, Transformed) else x for x in found]


def is_float(x: Any) -> bool:
    """Whether a value has a derivative."""
    return x.dtype.kind in "fc"


def or_zeros(g: Any, like: Any) -> Any:
    return op.zeros_like(like) if g is None else g


class Element:
    """Shape and dtype of one element of a stack."""

    def __init__(self, x: Any) -> None:
        self.shape, self.dtype = tuple(x.shape[1:]), x.dtype


def settled(step: Function, carry: Carry, xs: Sequence[Any]) -> list[Tensor]:
    """Return the first state, its Python numbers in the dtypes that the body gives them."""
    if carry.unsettled:
        before, numbers = list(carry.leaves), list(carry.numbers)
        like, count = [*before, *(Element(x) for x in xs)], len(before)
        body, _ = trace_body(lambda values: [*step(values[:count], values[count:])[0]], like, "scan")
        carry.leaves = [
            x if n is None else asarray(n, dtype=v.dtype) for x, n, v in zip(before, numbers, body.outputs)
        ]
    return carry.leaves


def selected(holds: Any, a: Any, b: Any) -> Any:
    """Return for each example of a batch one of two values."""
    return op.where(op.reshape(holds, shape=(*holds.shape, *(1,) * (len(a.shape) - 1))), a, b)


def guarded(holds: Any, x: Any) -> Any:
    """Return a batch with the value of the first example that `holds` for wherever it does not hold.

    What is computed from it there is thrown away, and must not be NaN, which no cotangent of zero stops.
    """
    first = op.argmax(op.astype(holds, dtype=np.dtype(np.int64)), axis=0, keepdims=False)
    return selected(holds, x, op.getitem(op.stop_gradient(x), first, index=(ARRAY,)))
