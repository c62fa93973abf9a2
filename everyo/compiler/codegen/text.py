"""A writer of LLVM functions: instructions, loops, and integer arithmetic that folds constants."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import numpy as np

from everyo.compiler.codegen.hints import hint

Index = int | str  # a number known now, or the name of an i64
BOOL = np.dtype(bool)
FEWEST, MOST = 4, 4  # lanes of a vector, and vectors in a loop, of which the last may begin earlier
WASTE = 1.25  # turns of such a loop for each that has to be
APART = " #1"  # of a call: the function stays one of its own


def type_of(dtype: Any) -> str:
    """Return the LLVM type of a scalar in a register."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f" and dtype.itemsize <= 8:  # wider ones are only moved, as complex numbers are
        return {2: "half", 4: "float", 8: "double"}[dtype.itemsize]
    return "i1" if dtype.kind == "b" else f"i{8 * dtype.itemsize}"


def memory_type(dtype: Any) -> str:
    """Return the LLVM type of an element in memory: a boolean takes a byte."""
    return "i8" if np.dtype(dtype).kind == "b" else type_of(dtype)


def literal(value: Any, dtype: Any) -> str:
    """Return a constant as LLVM writes it."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f" and 2 < dtype.itemsize <= 8:
        return f"0x{int(np.float64(value).view(np.uint64)):016X}"
    if dtype.kind in "fc":  # not computed with, only moved: its bits
        bits = int.from_bytes(np.asarray(value, dtype).tobytes(), sys.byteorder)
        return f"0xH{bits:04X}" if dtype == np.float16 else str(bits)
    if dtype.kind == "b":
        return "true" if value else "false"
    return str(int(value))


class Function:
    """One LLVM function that is being written.

    Pure instructions are written once: an equal one in the same block, or in one around it, is reused.
    """

    def __init__(self, name: str, parameters: Sequence[str], returns: str = "void", internal: bool = True):
        linkage = "internal " if internal else ""
        self.name = name
        self.head = f"define {linkage}{returns} @{name}({', '.join(parameters)})"
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.needs: set[tuple[str, str]] = set()  # elementary functions: name and dtype
        self.declares: set[str] = set()
        self.constants: dict[tuple[str, str, str], str] = {}
        self._count = 0
        self._scopes: list[dict[Any, Any]] = [{}]
        self._spans: dict[str, tuple[int, int]] = {}
        self._steps: dict[str, dict[str, int]] = {}  # by how much an integer grows with a loop's index
        self._places: list[tuple[int, dict[str, int]]] = []  # of addresses: their lines, their steps
        self.block = "entry"

    def fresh(self, stem: str = "v") -> str:
        """Return a new name."""
        self._count += 1
        return f"%{stem}{self._count}"

    def line(self, text: str) -> None:
        """Append a line that has no result."""
        self.lines.append("  " + text)

    def make(self, text: str) -> str:
        """Append an instruction with a result that no other may replace (a load, a call)."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def pure(self, text: str) -> str:
        """Append an instruction without effects, or return the result of an equal one."""
        found = self.recall(text)
        if found is None:
            found = self.make(text)
            self.remember(text, found)
        return found

    def recall(self, key: Any) -> Any:
        """Return what was remembered under a key in this block or one around it, or None."""
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        return None

    def remember(self, key: Any, value: Any) -> None:
        """Remember something for the rest of this block."""
        self._scopes[-1][key] = value

    def alloca(self, type: str, count: int = 1) -> str:
        """Return memory for the time of the call."""
        name = self.fresh("s")
        self.entry.append(f"  {name} = alloca {type}, i64 {count}, align 64")
        return name

    def start(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self.block = label

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is remembered inside is forgotten at the end."""
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    @contextmanager
    def loop(self, low: Index, high: Index, span: tuple[int, int] | None = None) -> Iterator[Index]:
        """Loop over ``low <= i < high``; yields the index. A loop of one turn is none.

        `span` says within which bounds it lies where they are not known numbers.
        """
        if isinstance(low, int) and isinstance(high, int) and high - low == 1:
            yield low
            return
        self._count += 1
        k = self._count
        before = self.block
        self.line(f"br label %head{k}")
        self.start(f"head{k}")
        index = f"%i{k}"
        self._steps[index] = {index: 1}
        if isinstance(low, int) and isinstance(high, int):
            span = low, high
        if span is not None:
            self._spans[index] = span
        place = len(self.lines)
        self.lines.append("")
        test = self.make(f"icmp slt i64 {index}, {high}")
        self.line(f"br i1 {test}, label %body{k}, label %exit{k}")
        self.start(f"body{k}")
        with self.scope():
            yield index
        after = self.make(f"add nuw nsw i64 {index}, 1")
        self.lines[place] = f"  {index} = phi i64 [ {low}, %{before} ], [ {after}, %{self.block} ]"
        turns = None if span is None else span[1] - span[0]
        self.line(f"br label %head{k}{hint(self.lines[place:], turns, self._strides(index, place))}")
        self.start(f"exit{k}")

    @contextmanager
    def vectors(self, n: int, lanes: int) -> Iterator[Index]:
        """Loop over ``0 <= i < n`` in vectors; where these do not fit the last one begins earlier.

        Some turns run twice then, which has to do no harm, and none is left over: LLVM would mask these, or
        take them one at a time.
        """
        lanes = min(lanes, 1 << (n.bit_length() - 1)) if n else 1
        count = -(-n // lanes)
        if lanes < FEWEST or not n < count * lanes <= WASTE * n or count > MOST:
            with self.loop(0, n) as i:
                yield i
            return
        self.declares.add("declare i64 @llvm.smin.i64(i64, i64)")
        with self.loop(0, count) as vector:
            start = self.pure(f"call i64 @llvm.smin.i64(i64 {self.mul(vector, lanes)}, i64 {n - lanes})")
            with self.loop(0, lanes) as lane:
                index = self.add(start, lane)
                self._spans[str(index)] = 0, n
                yield index

    def _strides(self, index: str, place: int) -> list[int]:
        """Return by how many elements the addresses in a loop move in a turn; its text begins at a line."""
        inside = takewhile(lambda found: found[0] > place, reversed(self._places))
        return [abs(step.get(index, 0)) for _, step in inside]

    def text(self) -> str:
        """Return the function."""
        body = "\n".join(self.lines)
        entry = "\n".join(self.entry)
        return f"{self.head} #0 {{\nentry:\n{entry}\n{body}\n}}\n"

    def kernel(self, pointers: Iterable[str]) -> str:
        """End a function of pointers to separate memory and a range ``%low``, ``%high``; return its text."""
        self.line("ret void")
        arguments = [*(f"ptr noalias nocapture {p}" for p in pointers), "i64 %low", "i64 %high"]
        self.head = f"define internal void @{self.name}({', '.join(arguments)})"
        return self.text()

    # ---- integers

    def add(self, a: Index, b: Index) -> Index:
        """Return a sum."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0:
            return b
        if b == 0:
            return a
        if isinstance(a, int):
            a, b = b, a
        return self._moved(self.pure(f"add nsw i64 {a}, {b}"), a, b, 1)

    def sub(self, a: Index, b: Index) -> Index:
        """Return a difference."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        if b == 0:
            return a
        return self._moved(self.pure(f"sub nsw i64 {a}, {b}"), a, b, -1)

    def _moved(self, result: str, a: Index, b: Index, sign: int) -> str:
        """Note in which bounds ``a + sign * b`` lies, and how it grows with the indices of loops."""
        if isinstance(a, str) and isinstance(b, int) and a in self._spans:
            low, high = self._spans[a]
            self._spans[result] = low + sign * b, high + sign * b
        first, second = self._steps_of(a), self._steps_of(b)
        self._steps[result] = {k: first.get(k, 0) + sign * second.get(k, 0) for k in {*first, *second}}
        return result

    def _steps_of(self, i: Index) -> dict[str, int]:
        return self._steps.get(i, {}) if isinstance(i, str) else {}

    def lies(self, i: Index, n: int) -> bool | None:
        """Whether ``0 <= i < n``; None where that is known only when the function runs."""
        low, high = (i, i + 1) if isinstance(i, int) else self._spans.get(i, (None, None))
        if low is None or high is None:
            return None
        if low >= 0 and high <= n:
            return True
        return False if high <= 0 or low >= n else None

    def mul(self, a: Index, b: Index) -> Index:
        """Return a product."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1:
            return b
        if b == 1:
            return a
        result = self.pure(f"mul nsw i64 {a}, {b}")
        for i, factor in ((a, b), (b, a)):
            if isinstance(factor, int):
                self._steps[result] = {k: step * factor for k, step in self._steps_of(i).items()}
        return result

    def div(self, a: Index, b: int) -> Index:
        """Return the quotient of a non-negative number."""
        if isinstance(a, int):
            return a // b
        return a if b == 1 else self.pure(f"udiv i64 {a}, {b}")

    def rem(self, a: Index, b: int) -> Index:
        """Return the remainder of a non-negative number."""
        if isinstance(a, int):
            return a % b
        return 0 if b == 1 else self.pure(f"urem i64 {a}, {b}")

    def flat(self, idx: Sequence[Index], shape: Sequence[int]) -> Index:
        """Return the position of an element in row-major order."""
        total: Index = 0
        step = 1
        for i, n in zip(reversed(idx), reversed(shape)):
            total = self.add(self.mul(i, step), total)
            step *= n
        return total

    def unflat(self, flat: Index, shape: Sequence[int]) -> list[Index]:
        """Return the indices of the element at a position in row-major order."""
        found: list[Index] = []
        for axis in range(len(shape) - 1, -1, -1):
            n = shape[axis]
            found.append(flat if axis == 0 else self.rem(flat, n))
            flat = self.div(flat, n) if axis else flat
        return found[::-1]

    # ---- memory

    def load(self, pointer: str, offset: Index, dtype: Any, fixed: bool = True) -> str:
        """Return an element; `fixed` says that the memory does not change while the function runs."""
        kind = memory_type(dtype)
        read = self.pure if fixed else self.make
        address = self._address(kind, pointer, offset)
        value = read(f"load {kind}, ptr {address}")
        # Not a truncation, as which LLVM 22 loses lanes of a reduction where the rest of a loop has vectors.
        return self.pure(f"icmp ne i8 {value}, 0") if np.dtype(dtype) == BOOL else value

    def store(self, value: str, pointer: str, offset: Index, dtype: Any) -> None:
        """Write an element."""
        kind = memory_type(dtype)
        if np.dtype(dtype) == BOOL:
            value = self.pure(f"zext i1 {value} to i8")
        address = self._address(kind, pointer, offset)
        self.line(f"store {kind} {value}, ptr {address}")

    def _address(self, kind: str, pointer: str, offset: Index) -> str:
        text = f"getelementptr inbounds {kind}, ptr {pointer}, i64 {offset}"
        if self.recall(text) is None:
            self._places.append((len(self.lines), self._steps_of(offset)))
        return self.pure(text)
