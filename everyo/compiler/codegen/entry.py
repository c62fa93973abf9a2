"""The door into a program: it finds the arrays' memory itself, and looks whether they are what was compiled.

Python hands over two tuples of arrays by their addresses. Where a NumPy array keeps its data, its axes
and its dtype is part of NumPy's binary interface, and so is where a tuple keeps its items.

Whatever has another address in each process stands in a table that Python fills: the code itself is the
same in all of them. In front are the type of arrays, what runs split kernels, and on how many threads; then
come the callbacks, behind them the dtypes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from everyo.compiler.codegen.text import Function
from everyo.compiler.graph import Value

HEADER = object.__basicsize__  # bytes before the first field of an object
ITEMS = tuple.__basicsize__  # bytes before the first item of a tuple
DATA, RANK, SHAPE, STRIDES, DTYPE = HEADER, HEADER + 8, HEADER + 16, HEADER + 24, HEADER + 40
CHANGED = 2  # an argument is not as it was when the program was compiled
RUN, THREADS, FIRST_CALL = 1, 2, 3  # places in the table


class Entry(NamedTuple):
    """The text of ``everyo_entry(inputs, outputs, arena, table)``, and the dtypes that end its table."""

    text: str
    dtypes: tuple[Any, ...]


def table(entry: Entry, run: int, threads: int, calls: Sequence[int]) -> list[int]:
    """Return what the table of a program has to hold in this process.

    `run` is the address of the pool's function, `calls` those of the callbacks.
    """
    return [id(np.ndarray), run, threads, *calls, *map(id, entry.dtypes)]


def write_entry(inputs: Sequence[Value], checked: int, outputs: int, calls: int) -> Entry:
    """Return the door into a program that has so many outputs and callbacks.

    The first `checked` inputs are compared with the types they had; the rest are the program's own.
    """
    f = Function("everyo_entry", ["ptr %ins", "ptr %results", "ptr %arena", "ptr %table"], "i32", False)
    dtypes = list({id(v.dtype): v.dtype for v in inputs[:checked]}.values())
    args, outs = f.alloca("ptr", max(len(inputs), 1)), f.alloca("ptr", max(outputs, 1))
    for i, value in enumerate(inputs):
        array = _item(f, "%ins", i)
        if i < checked:
            _check(f, array, value, FIRST_CALL + calls + [id(d) for d in dtypes].index(id(value.dtype)))
        _pass(f, array, args, i)
    for i in range(outputs):
        _pass(f, _item(f, "%results", i), outs, i)
    code = f.make(f"call i32 @everyo_main(ptr {args}, ptr {outs}, ptr %arena, ptr %table)")
    f.line(f"ret i32 {code}")
    f.start("changed")
    f.line(f"ret i32 {CHANGED}")
    return Entry(f.text(), tuple(dtypes))


def _at(f: Function, pointer: str, offset: int, type: str) -> str:
    address = f.make(f"getelementptr i8, ptr {pointer}, i64 {offset}")
    return f.make(f"load {type}, ptr {address}")


def _item(f: Function, items: str, i: int) -> str:
    return _at(f, items, ITEMS + 8 * i, "ptr")


def _pass(f: Function, array: str, table: str, i: int) -> None:
    data = _at(f, array, DATA, "ptr")
    place = f.make(f"getelementptr ptr, ptr {table}, i64 {i}")
    f.line(f"store ptr {data}, ptr {place}")


def _check(f: Function, array: str, value: Value, place: int) -> None:
    """Leave unless an array has the rank, the lengths, the strides and the dtype of a value.

    `place` is that of the dtype in the table.
    """
    facts: list[tuple[str, str, int | str]] = [
        (_at(f, array, HEADER - 8, "i64"), "i64", _at(f, "%table", 0, "i64")),
        (_at(f, array, RANK, "i32"), "i32", len(value.shape)),
        (_at(f, array, DTYPE, "i64"), "i64", _at(f, "%table", 8 * place, "i64")),
    ]
    _require(f, facts)
    shape, strides = _at(f, array, SHAPE, "ptr"), _at(f, array, STRIDES, "ptr")
    step = value.dtype.itemsize
    facts = []
    for axis in range(len(value.shape) - 1, -1, -1):
        n = value.shape[axis]
        facts.append((_at(f, shape, 8 * axis, "i64"), "i64", n))
        if n > 1 and value.size:
            facts.append((_at(f, strides, 8 * axis, "i64"), "i64", step))
        step *= n
    _require(f, facts)


def _require(f: Function, facts: Sequence[tuple[str, str, int | str]]) -> None:
    right = "true"
    for found, type, expected in facts:
        same = f.make(f"icmp eq {type} {found}, {expected}")
        right = same if right == "true" else f.make(f"and i1 {right}, {same}")
    if right != "true":
        label = f.fresh("go")[1:]
        f.line(f"br i1 {right}, label %{label}, label %changed")
        f.start(label)
