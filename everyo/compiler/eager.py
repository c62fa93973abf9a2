"""Kernels for eager code on large arrays: loops of any length, made once for each function and dtype.

`everyo.backends.accelerated` asks for them. An elementwise function is traced on numbers, and the loop
computes one element after the other, in vectors; `everyo.compiler.eager_rows` writes those that take rows.
"""

from __future__ import annotations

import contextvars
import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from everyo.compiler import elementary, pool
from everyo.compiler.codegen.elements import Elements, combine
from everyo.compiler.codegen.entry import DATA, ITEMS
from everyo.compiler.codegen.hints import METADATA
from everyo.compiler.codegen.program import ATTRIBUTES
from everyo.compiler.codegen.text import Function, Index, literal, type_of
from everyo.compiler.graph import Graph, Value
from everyo.compiler.lowering import lower
from everyo.compiler.native import Code, require
from everyo.compiler.passes import remove_dead
from everyo.compiler.trace import Tracer
from everyo.core.modes import no_grad
from everyo.core.ownership import changeable
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
    pointers : int
        The number of pointers.
    reduces : bool
        Whether it makes one number of each row.
    dtype : numpy.dtype
        That of the result.
    """

    f: Function
    pointers: int
    reduces: bool
    dtype: Any


def available() -> bool:
    """Return whether the compiler's packages are installed."""
    try:
        require()
    except CompileError:
        return False
    return True


def make(kind: str, function: Any, kinds: str, dtype: Any) -> Kernel:
    """Return ``kernel(arrays, length)``, which returns the result, or None if it is not finite all over."""
    if kind == "elementwise":
        return Kernel(elementwise(function, kinds, dtype))
    if kind == "update":
        return Kernel(update(function, kinds.count("a"), kinds.count("n"), dtype))
    from everyo.compiler import eager_rows

    return Kernel(eager_rows.write(function, dtype))


class Kernel:
    """Machine code of a body."""

    def __init__(self, body: Body) -> None:
        self.reduces, self.dtype = body.reduces, body.dtype
        self._code = Code(module(body))
        self._entry = _ENTRY(self._code.address("everyo_eager"))

    def __call__(self, arrays: tuple[Any, ...], length: int | None) -> Any:
        """Return the result for operands that are rows of `length`, or elements."""
        shape, size = arrays[0].shape, arrays[0].size
        turns, length = (size, 1) if length is None else (size // length, length)
        out = np.empty((turns,) if self.reduces else shape, self.dtype)
        return None if self.run((*arrays, out), size, turns, length) else out

    def run(self, operands: tuple[Any, ...], size: int, turns: int, length: int = 1) -> int:
        """Run over so many turns; return whether something was not finite."""
        run, threads, step = 0, 1, turns
        if size >= SHARED and pool.count() > 1:
            run, threads = pool.runner(), pool.count()
            step = -(-turns // (CHUNKS * threads))
        return self._entry(id(operands), turns, length, step, run, threads)


def module(body: Body) -> str:
    """Return the module of a body: it, the loop over its chunks, and the door for Python's arrays."""
    f, count = body.f, body.pointers
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
    parts = [*sorted(declares), f.text(), _part(body).text(), door.text()]
    return "\n".join([*parts, ATTRIBUTES, METADATA])


_FACTS = (("i64", "%turns"), ("i64", "%length"), ("i64", "%step"), ("i64", "0"))


def _part(body: Body) -> Function:
    """Return the function of one chunk, as the pool of threads calls it."""
    f = Function("part", ["ptr %context", "i64 %chunk"])
    pointers = [f"ptr {_read(f, '%context', 8 * i, 'ptr')}" for i in range(body.pointers)]
    turns, length, step = (_read(f, "%context", 8 * (body.pointers + i), "i64") for i in range(3))
    low = f.mul("%chunk", step)
    end = f.add(low, step)
    inside = f.make(f"icmp slt i64 {end}, {turns}")
    high = f.make(f"select i1 {inside}, i64 {end}, i64 {turns}")
    arguments = ", ".join([*pointers, f"i64 {low}", f"i64 {high}", f"i64 {length}"])
    found = f.make(f"call i32 @{body.f.name}({arguments})")
    f.line(f"%odd = icmp ne i32 {found}, 0")
    f.line("br i1 %odd, label %note, label %end")
    f.start("note")
    place = f.make(f"getelementptr i64, ptr %context, i64 {body.pointers + 3}")
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
    """Return the beginning of a body with so many pointers ``%p0``, ...; the last is the result's."""
    pointers = [f"ptr noalias nocapture %p{i}" for i in range(count)]
    return Function("body", [*pointers, "i64 %low", "i64 %high", "i64 %length"], "i32")


class Oddity:
    """Notes whether some element was infinite or NaN.

    Their difference from itself is NaN, and 0 for all others: the sum of these, in a register, tells. It
    takes two additions, which run beside the products of what is computed.
    """

    def __init__(self, f: Function, dtype: Any) -> None:
        self.f, self.dtype = f, dtype
        self._sums: dict[Any, str] = {}

    def look(self, x: str, dtype: Any = None) -> None:
        """Look at an element."""
        f, dtype = self.f, dtype or self.dtype
        if dtype not in self._sums:
            self._sums[dtype] = f.alloca(type_of(dtype))
            f.entry.append(f"  store {type_of(dtype)} {literal(0, dtype)}, ptr {self._sums[dtype]}")
        difference = f.make(f"fsub {type_of(dtype)} {x}, {x}")
        before = f.load(self._sums[dtype], 0, dtype, fixed=False)
        f.store(combine(f, "sum", before, difference, dtype, reorder=True), self._sums[dtype], 0, dtype)

    def answer(self) -> None:
        """End the function with what was found."""
        f, found = self.f, "0"
        for dtype, place in self._sums.items():
            total = f.load(place, 0, dtype, fixed=False)
            odd = f.make(f"fcmp uno {type_of(dtype)} {total}, {total}")
            found = f.make(f"or i32 {found}, {f.make(f'zext i1 {odd} to i32')}")
        f.line(f"ret i32 {found}")


class _Numbers(Elements):
    """Elements of a graph without axes: inputs are read in one turn of the loop, the rest is computed."""

    def __init__(self, f: Function, read: dict[Value, str]) -> None:
        super().__init__(f)
        self.read = read

    def stored(self, value: Value, idx: Sequence[Index]) -> str | None:
        return self.read.get(value)


def elementwise(function: Any, kinds: str, dtype: Any) -> Body:
    """Return the loop of an elementwise function; `kinds` says which operands are one element ("s")."""
    specs = [(dtype, False)] * len(kinds)
    graph = contextvars.Context().run(traced, function, specs)
    assert graph.outputs[0].dtype == dtype
    f = body_of(len(kinds) + 1)
    oddity = Oddity(f, dtype)
    _loop(f, graph, [kind == "s" for kind in kinds], [len(kinds)], oddity)
    oddity.answer()
    return Body(f, len(kinds) + 1, False, dtype)


def update(function: Any, arrays: int, numbers: int, dtype: Any) -> Body:
    """Return the loop of a function that gives `arrays` but the second one new values, in place.

    Its further arguments are `numbers`, in float64 until they meet an array.
    """
    specs = [(dtype, False)] * arrays + [(np.dtype(np.float64), True)] * numbers
    graph = contextvars.Context().run(traced, function, specs)
    f = body_of(len(specs))
    _loop(f, graph, [i >= arrays for i in range(len(specs))], [0, *range(2, arrays)])
    f.line("ret i32 0")
    return Body(f, len(specs), False, dtype)


def _loop(
    f: Function, graph: Graph, single: Sequence[bool], targets: Sequence[int], oddity: Oddity | None = None
) -> None:
    """Write the loop over a graph of numbers; `single` inputs are one number, results go to `targets`."""
    assert all(op.name in ("map", "broadcast", "constant") for op in graph.ops)
    fixed = {v: f.load(f"%p{k}", 0, v.dtype) for k, v in enumerate(graph.inputs) if single[k]}
    before = _Numbers(f, fixed)
    for op in graph.ops:  # what no array takes part in is computed once
        if all(v in fixed for v in op.operands):
            fixed[op.out] = before.element(op.out, ())
    with f.loop("%low", "%high") as i:
        read = {v: f.load(f"%p{k}", i, v.dtype) for k, v in enumerate(graph.inputs) if not single[k]}
        elements = _Numbers(f, {**fixed, **read})
        results = [elements.element(v, ()) for v in graph.outputs]
        for x, v, target in zip(results, graph.outputs, targets, strict=True):
            if oddity is not None:
                oddity.look(x)
            f.store(x, f"%p{target}", i, v.dtype)


def traced(function: Any, specs: Sequence[tuple[Any, bool]]) -> Graph:
    """Return the core graph of an elementwise function of numbers of some dtypes, weak or not."""
    if isinstance(function, str):
        function = get_primitive(function)
    graph = Graph("eager")
    with Tracer(graph) as tracer, no_grad():
        symbols = [tracer.symbol(graph.input((), dtype), weak) for dtype, weak in specs]
        for symbol, (_, weak) in zip(symbols, specs, strict=True):
            if not weak:
                changeable(symbol)  # it stands for an array, which the function may change in place
        out = function(*symbols)
        values = [tracer.operand(x) for x in (out if isinstance(out, tuple) else (out,))]
        graph.outputs = [v for v in values if v is not None]
    return remove_dead(lower(graph))
