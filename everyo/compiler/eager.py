"""Kernels for eager code on large arrays: loops of any length, made once for each function and dtype.

`everyo.backends.accelerated` asks for them. An elementwise function is traced on numbers, and the loop
computes one element after the other, in vectors; `everyo.compiler.eager_rows` writes those that take rows.
"""

from __future__ import annotations

import contextvars
import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from everyo.compiler import elementary, pool
from everyo.compiler.codegen.elements import Elements
from everyo.compiler.codegen.entry import DATA, ITEMS
from everyo.compiler.codegen.program import ATTRIBUTES
from everyo.compiler.codegen.text import METADATA, Function, Index, literal, type_of
from everyo.compiler.graph import Graph, Value
from everyo.compiler.lowering import lower
from everyo.compiler.native import Code, require
from everyo.compiler.passes import remove_dead
from everyo.compiler.trace import Tracer
from everyo.core.modes import no_grad
from everyo.core.registry import get_primitive
from everyo.errors import CompileError

SHARED = 1 << 18  # elements from which on threads share the work
CHUNKS = 4  # chunks for each thread
_ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_void_p, ctypes.c_int64
)


class Body(NamedTuple):
    """A function ``body(pointers..., low, high, length)`` that returns whether something is not finite.

    Attributes
    ----------
    f : Function
        The function; the last pointer is that of the result.
    count : int
        The number of pointers.
    """

    f: Function
    count: int


def available() -> bool:
    """Return whether the compiler's packages are installed."""
    try:
        require()
    except CompileError:
        return False
    return True


def make(kind: str, function: Any, kinds: str, dtype: Any) -> Callable[[tuple[Any, ...], int | None], Any]:
    """Return ``kernel(arrays, length)``, which returns the result, or None if it is not finite all over."""
    if kind == "elementwise":
        return Kernel(elementwise(function, kinds, dtype), dtype)
    from everyo.compiler import eager_rows

    body, result = eager_rows.write(function, dtype)
    return Kernel(body, dtype, result)


class Kernel:
    """Machine code of a body. `result` says what it makes: "elements" like the operands', or one of a row."""

    def __init__(self, body: Body, dtype: Any, result: str = "elements") -> None:
        self.dtype, self.result = dtype, result
        self._code = Code(module(body))
        self._entry = _ENTRY(self._code.address("everyo_eager"))

    def __call__(self, arrays: tuple[Any, ...], length: int | None) -> Any:
        shape, size = arrays[0].shape, arrays[0].size
        turns, length = (size, 1) if length is None else (size // length, length)
        out = np.empty(shape if self.result == "elements" else (turns,), self.dtype)
        run, threads, step = 0, 1, turns
        if size >= SHARED and pool.count() > 1:
            run, threads = pool.runner(), pool.count()
            step = -(-turns // (CHUNKS * threads))
        operands = (*arrays, out)
        return None if self._entry(id(operands), turns, length, step, run, threads) else out


def module(body: Body) -> str:
    """Return the module of a body: it, the loop over its chunks, and the door for Python's arrays."""
    f, count = body
    door = Function(
        "everyo_eager",
        ["ptr %arrays", "i64 %turns", "i64 %length", "i64 %step", "ptr %run", "i64 %threads"],
        "i32",
        internal=False,
    )
    context = door.alloca("i64", count + 4)
    for i in range(count):
        array = _read(door, "%arrays", ITEMS + 8 * i, "ptr")
        _write(door, context, i, "ptr", _read(door, array, DATA, "ptr"))
    for i, (kind, value) in enumerate(_FACTS):
        _write(door, context, count + i, kind, value)
    door.line("%alone = icmp eq i64 %threads, 1")
    door.line("br i1 %alone, label %one, label %many")
    door.start("one")
    door.line(f"call void @part(ptr {context}, i64 0)")
    door.line("br label %end")
    door.start("many")
    last = door.make("sub i64 %turns, 1")
    chunks = door.make(f"add i64 {door.make(f'sdiv i64 {last}, %step')}, 1")
    door.line(f"call void %run(i64 %threads, ptr @part, ptr {context}, i64 {chunks})")
    door.line("br label %end")
    door.start("end")
    found = door.make(f"load i32, ptr {door.make(f'getelementptr i64, ptr {context}, i64 {count + 3}')}")
    door.line(f"ret i32 {found}")
    declares = f.declares | elementary.declarations(f.needs)
    parts = [*sorted(declares), elementary.source(f.needs), f.text(), _part(body).text(), door.text()]
    return "\n".join([*parts, ATTRIBUTES, METADATA])


_FACTS = (("i64", "%turns"), ("i64", "%length"), ("i64", "%step"), ("i64", "0"))


def _part(body: Body) -> Function:
    """Return the function of one chunk, as the pool of threads calls it."""
    f = Function("part", ["ptr %context", "i64 %chunk"])
    pointers = [f"ptr {_read(f, '%context', 8 * i, 'ptr')}" for i in range(body.count)]
    turns, length, step = (_read(f, "%context", 8 * (body.count + i), "i64") for i in range(3))
    low = f.mul("%chunk", step)
    end = f.add(low, step)
    inside = f.make(f"icmp slt i64 {end}, {turns}")
    high = f.make(f"select i1 {inside}, i64 {end}, i64 {turns}")
    arguments = ", ".join([*pointers, f"i64 {low}", f"i64 {high}", f"i64 {length}"])
    found = f.make(f"call i32 @{body.f.name}({arguments})")
    f.line(f"%odd = icmp ne i32 {found}, 0")
    f.line("br i1 %odd, label %note, label %end")
    f.start("note")
    place = f.make(f"getelementptr i64, ptr %context, i64 {body.count + 3}")
    f.line(f"store atomic i32 1, ptr {place} monotonic, align 4")
    f.line("br label %end")
    f.start("end")
    f.line("ret void")
    return f


def _read(f: Function, pointer: str, offset: int, kind: str) -> str:
    return f.make(f"load {kind}, ptr {f.make(f'getelementptr i8, ptr {pointer}, i64 {offset}')}")


def _write(f: Function, pointer: str, place: int, kind: str, value: str) -> None:
    f.line(f"store {kind} {value}, ptr {f.make(f'getelementptr i64, ptr {pointer}, i64 {place}')}")


def body_of(count: int) -> Function:
    """Return the beginning of a body with so many pointers, ``%p0``, ``%p1``, ...; the last is the result's."""
    pointers = [f"ptr noalias nocapture %p{i}" for i in range(count)]
    return Function("body", [*pointers, "i64 %low", "i64 %high", "i64 %length"], "i32")


class Oddity:
    """Notes, in a register, whether some element was infinite or NaN."""

    def __init__(self, f: Function, dtype: Any) -> None:
        self.f, self.kind, self.dtype = f, type_of(dtype), dtype
        self.place = f.alloca("i32")
        f.entry.append(f"  store i32 0, ptr {self.place}")

    def look(self, x: str) -> None:
        """Look at an element: infinities and NaN are what has a difference from itself."""
        f = self.f
        difference = f.make(f"fsub {self.kind} {x}, {x}")
        odd = f.make(f"fcmp une {self.kind} {difference}, {literal(0, self.dtype)}")
        before, found = f.make(f"load i32, ptr {self.place}"), f.make(f"zext i1 {odd} to i32")
        f.line(f"store i32 {f.make(f'or i32 {before}, {found}')}, ptr {self.place}")

    def answer(self) -> None:
        """End the function with what was found."""
        self.f.line(f"ret i32 {self.f.make(f'load i32, ptr {self.place}')}")


class _Numbers(Elements):
    """Elements of a graph without axes: inputs are read in one turn of the loop, the rest is computed."""

    def __init__(self, f: Function, read: dict[Value, str]) -> None:
        super().__init__(f)
        self.read = read

    def stored(self, value: Value, idx: Sequence[Index]) -> str | None:
        return self.read.get(value)


def elementwise(function: Any, kinds: str, dtype: Any) -> Body:
    """Return the loop of an elementwise function; `kinds` says which operands are one element."""
    graph = contextvars.Context().run(traced, function, len(kinds), dtype)
    (out,) = graph.outputs
    assert out.dtype == dtype and all(op.name in ("map", "broadcast", "constant") for op in graph.ops)
    f = body_of(len(kinds) + 1)
    oddity = Oddity(f, dtype)
    fixed = {i: f.load(f"%p{i}", 0, dtype) for i, kind in enumerate(kinds) if kind == "s"}
    with f.loop("%low", "%high") as i:
        read = {v: fixed.get(k) or f.load(f"%p{k}", i, dtype) for k, v in enumerate(graph.inputs)}
        x = _Numbers(f, read).element(out, ())
        oddity.look(x)
        f.store(x, f"%p{len(kinds)}", i, dtype)
    oddity.answer()
    return Body(f, len(kinds) + 1)


def traced(function: Any, count: int, dtype: Any) -> Graph:
    """Return the core graph of an elementwise function on numbers."""
    if isinstance(function, str):
        function = get_primitive(function)
    graph = Graph("eager")
    inputs = [graph.input((), dtype) for _ in range(count)]
    with Tracer(graph) as tracer, no_grad():
        out = tracer._operand(function(*map(tracer.symbol, inputs)), None)
    assert out is not None
    graph.outputs = [out]
    return remove_dead(lower(graph))
