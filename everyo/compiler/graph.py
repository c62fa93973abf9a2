"""The graph that a traced function becomes: typed values in single-assignment form, in order of their making.

Two vocabularies share these classes. A traced graph speaks in EveryO's primitives; `everyo.compiler.lowering`
rewrites it into the few operations that the code generator knows (`CORE`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from everyo.core.dtypes import DIFFERENTIABLE
from everyo.errors import CompileError
from everyo.ops.severing import SEVERED

# What the code generator knows, with the number of operands, or those that it may be (None: any).
CORE: dict[str, int | tuple[int, ...] | None] = {
    "constant": 0, "iota": 0,
    "map": None, "again": None,
    "part": 1, "interleave": 2,
    "broadcast": 1, "reshape": 1, "transpose": 1, "slice": 1, "pad": 2, "concat": None,
    "gather": None, "scatter": None,
    "window": 1, "fold": 1, "place": None, "convolve": 2, "convolve_weight": 2,
    "reduce": 1, "argreduce": 1, "accumulate": None,
    "dot": (2, 3), "pack": 1,
    "call": None, "require": 1,
    "while": None, "while_back": None, "cond": None, "scan": None,
}  # fmt: skip


class Value:
    """One result of an operation, or an input of the graph.

    Attributes
    ----------
    shape : tuple of int
        The lengths of the axes.
    dtype : numpy.dtype
        The dtype of the elements.
    op : Op or None
        What makes it; None for an input of the graph.
    """

    __slots__ = ("dtype", "op", "shape")

    def __init__(self, shape: Sequence[int], dtype: Any, op: Op | None = None) -> None:
        self.shape, self.op = tuple(shape), op
        self.dtype = np.dtype(
            np.dtype(dtype).type
        )  # in the machine's byte order, and one object for each type

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for n in self.shape:
            size *= n
        return size

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def type(self) -> str:
        """Dtype and shape as they are printed."""
        return f"{self.dtype.kind}{8 * self.dtype.itemsize}[{','.join(map(str, self.shape))}]"


class Op:
    """One operation: its name, operands (None for one that is absent), static parameters, results."""

    __slots__ = ("inputs", "name", "outs", "params", "primitive")

    def __init__(self, name: str, inputs: Sequence[Value | None], params: dict[str, Any]) -> None:
        self.name, self.inputs, self.params = name, list(inputs), params
        self.primitive: Any = None  # of a traced graph: what is called
        self.outs: list[Value] = []

    @property
    def out(self) -> Value:
        """The result of an operation that has one."""
        return self.outs[0]

    @property
    def operands(self) -> list[Value]:
        """The operands that are there."""
        return [v for v in self.inputs if v is not None]

    def severs(self) -> bool:
        """Whether it cuts a derivative off that eager code would refuse to lose, here or in a body."""
        bodies = (p for p in self.params.values() if isinstance(p, Graph))
        return self.name == SEVERED or any(op.severs() for body in bodies for op in body.ops)


def transposed(value: Value) -> Value | None:
    """Return what a value is but for its last two axes, which are exchanged; None if it is no such view."""
    if value.op is None or value.op.name != "transpose":
        return None
    axes, rank = tuple(value.op.params["axes"]), len(value.shape)
    swapped = rank > 1 and axes == (*range(rank - 2), rank - 1, rank - 2)
    return value.op.operands[0] if swapped else None


def severing_inside(op: Op, moving: Container[Value | None]) -> Op | None:
    """Return what in a body of an operation cuts off derivatives of operands that are `moving`."""
    for body in op.params.values():
        if isinstance(body, Graph):
            pairs = zip(reversed(op.inputs), reversed(body.inputs), strict=False)  # a predicate stands first
            found = body.severing(b for v, b in pairs if v in moving)
            if found is not None:
                return found
    return None


def has_effect(op: Op) -> bool:
    """Whether an operation does something besides computing its results."""
    if op.name == "require" or "python" in op.params:
        return True
    return any(p.calls() for p in op.params.values() if isinstance(p, Graph))


class Graph:
    """A function: inputs, operations in order, outputs. Bodies of loops and branches are graphs too."""

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.ops: list[Op] = []
        self.outputs: list[Value] = []

    def input(self, shape: Sequence[int], dtype: Any) -> Value:
        """Add an input."""
        value = Value(shape, dtype)
        self.inputs.append(value)
        return value

    def add(
        self,
        name: str,
        inputs: Sequence[Value | None],
        specs: Sequence[tuple[Sequence[int], Any]],
        **params: Any,
    ) -> list[Value]:
        """Append an operation whose results have the given shapes and dtypes; return them."""
        op = Op(name, inputs, params)
        op.outs = [Value(shape, dtype, op) for shape, dtype in specs]
        self.ops.append(op)
        return op.outs

    def users(self) -> dict[Value, list[Op]]:
        """Return for each value the operations that read it, in order, once for each reading."""
        found: dict[Value, list[Op]] = {}
        for op in self.ops:
            for value in op.inputs:
                if value is not None:
                    found.setdefault(value, []).append(op)
        return found

    def live(self, outputs: Sequence[Value]) -> set[Value]:
        """Return what some values, and the effects of operations, depend on, these values included."""
        live = set(outputs)
        for op in reversed(self.ops):
            if any(v in live for v in op.outs) or has_effect(op):
                live.update(op.operands)
        return live

    def needed(self) -> list[Op]:
        """Return the operations that an output or an effect depends on."""
        live = self.live(self.outputs)
        return [op for op in self.ops if has_effect(op) or any(v in live for v in op.outs)]

    def dependences(self) -> list[int]:
        """Return for each output the inputs that it may have derivatives with respect to, as bits.

        All have those of what was severed: the derivative of any of them is refused then.
        """
        found = {v: 1 << i for i, v in enumerate(self.inputs) if v.dtype.kind in DIFFERENTIABLE}
        lost = 0
        for op in self.ops:
            depends = reached = 0
            for value in op.operands:
                reached |= found.get(value, 0)
            if op.primitive is None or op.primitive.vjp is not None:
                depends = reached
            if op.severs():
                lost |= reached
            for value in op.outs:
                found[value] = depends if value.dtype.kind in DIFFERENTIABLE else 0
        return [found.get(v, 0) | lost if v.dtype.kind in DIFFERENTIABLE else 0 for v in self.outputs]

    def severing(self, followed: Iterable[Value]) -> Op | None:
        """Return the first operation, here or in a body, that cuts off derivatives of some inputs."""
        moving = set(followed)
        for op in self.ops:
            if op.name == SEVERED and op.inputs[0] in moving:
                return op
            if op.severs():
                found = severing_inside(op, moving)
                if found is not None:
                    return found
            if (op.primitive is None or op.primitive.vjp is not None) and not moving.isdisjoint(op.operands):
                moving.update(v for v in op.outs if v.dtype.kind in DIFFERENTIABLE)
        return None

    def bodies(self) -> Iterator[Graph]:
        """Yield the graphs inside the operations of this one."""
        for op in self.ops:
            for param in op.params.values():
                if isinstance(param, Graph):
                    yield param

    def calls(self) -> bool:
        """Whether Python is called for its effects, here or in a body."""
        here = any("python" in op.params and not op.outs for op in self.ops)
        return here or any(body.calls() for body in self.bodies())

    def show(self, names: dict[Value, str]) -> str:
        """Return the graph as text, and enter the names that values have in it into `names`."""
        return "\n".join(_lines(self, "", names))

    def __str__(self) -> str:
        return self.show({})


def _lines(graph: Graph, indent: str, names: dict[Value, str]) -> Iterator[str]:
    def name(value: Value | None) -> str:
        if value is None:
            return "none"
        return names.setdefault(value, f"%{len(names)}")

    arguments = ", ".join(f"{name(v)}: {v.type}" for v in graph.inputs)
    yield f"{indent}graph {graph.name}({arguments})"
    for op in graph.ops:
        results = ", ".join(f"{name(v)}: {v.type}" for v in op.outs)
        settings = ", ".join(f"{k}={_shown(v)}" for k, v in op.params.items() if not isinstance(v, Graph))
        operands = ", ".join(map(name, op.inputs))
        yield f"{indent}  {results} = {op.name}({operands})" + (f" {{{settings}}}" if settings else "")
        for key, body in op.params.items():
            if isinstance(body, Graph):
                yield f"{indent}    {key}:"
                yield from _lines(body, indent + "    ", names)
    yield f"{indent}  return {', '.join(map(name, graph.outputs))}"


def _shown(param: Any) -> str:
    if isinstance(param, np.ndarray):
        return np.array2string(param, threshold=8, edgeitems=2, separator=",").replace("\n", "")
    return repr(param)


def verify(graph: Graph, core: bool = False, outer: frozenset[Value] = frozenset()) -> None:
    """Raise CompileError unless `graph` is in single-assignment form, typed and, with `core`, lowered."""
    known: set[Value | None] = {None, *outer, *graph.inputs}  # operands may be left out
    for position, op in enumerate(graph.ops):
        if not known.issuperset(op.inputs):
            raise _broken(f"operand of {op.name} (operation {position}) is used before it is made")
        if core and op.name not in CORE:
            raise _broken(f"{op.name} is no core operation")
        if core and not _takes(CORE[op.name], len(op.inputs)):
            raise _broken(f"{op.name} has {len(op.inputs)} operands")
        if core and op.name == "map" and {v.shape for v in op.inputs if v is not None} - {op.out.shape}:
            raise _broken(f"the operands of map {op.params.get('fn')} have other shapes than its result")
        for param in op.params.values():
            if isinstance(param, Graph):
                verify(param, core)
        for value in op.outs:
            if value in known or value.op is not op:
                raise _broken(f"a result of {op.name} (operation {position}) is made twice")
            known.add(value)
    known.remove(None)
    if not known.issuperset(graph.outputs):
        raise _broken("an output is never made")


def _takes(numbers: int | tuple[int, ...] | None, found: int) -> bool:
    return numbers is None or found in (numbers if isinstance(numbers, tuple) else (numbers,))


def _broken(what: str) -> CompileError:
    return CompileError(
        "a pass of the compiler left a broken graph",
        operation="compile",
        expected="a graph in single-assignment form",
        found=what,
        remedy="this is a fault of EveryO: please report it with the function",
    )
