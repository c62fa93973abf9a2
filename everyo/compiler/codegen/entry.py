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

from everyo.compiler.codegen.text import Function, Index
from everyo.compiler.graph import Value

HEADER = object.__basicsize__  # bytes before the first field of an object
ITEMS = tuple.__basicsize__  # bytes before the first item of a tuple
DATA, RANK, SHAPE, STRIDES, DTYPE = HEADER, HEADER + 8, HEADER + 16, HEADER + 24, HEADER + 40
CHECK = ["ptr %array", "ptr %table"], "i1"  # what a function that looks at an array takes and returns
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
    checks: dict[tuple[tuple[int, ...], int], Function] = {}
    of_input = []
    for value in inputs[:checked]:
        place = FIRST_CALL + calls + [id(d) for d in dtypes].index(id(value.dtype))
        check = checks.setdefault((value.shape, place), Function(f"everyo_check{len(checks)}", *CHECK))
        if not check.lines:
            _write_check(check, value, place)
        of_input.append(f"ptr @{check.name}")
    with f.loop(0, checked) as i:
        array = _item(f, "%ins", i)
        holds = f.make(f"load ptr, ptr {f.make(f'getelementptr ptr, ptr @everyo_checks, i64 {i}')}")
        _go_on(f, f.make(f"call i1 {holds}(ptr {array}, ptr %table)"))
        _pass(f, array, args, i)
    with f.loop(checked, len(inputs)) as i:
        _pass(f, _item(f, "%ins", i), args, i)
    with f.loop(0, outputs) as i:
        _pass(f, _item(f, "%results", i), outs, i)
    code = f.make(f"call i32 @everyo_main(ptr {args}, ptr {outs}, ptr %arena, ptr %table)")
    f.line(f"ret i32 {code}")
    f.start("changed")
    f.line(f"ret i32 {CHANGED}")
    places = f"@everyo_checks = internal constant [{checked} x ptr] [{', '.join(of_input)}]"
    return Entry("\n".join([places, *(check.text() for check in checks.values()), f.text()]), tuple(dtypes))


def _at(f: Function, pointer: str, offset: Index, type: str) -> str:
    address = f.make(f"getelementptr i8, ptr {pointer}, i64 {offset}")
    return f.make(f"load {type}, ptr {address}")


def _item(f: Function, items: str, i: Index) -> str:
    return _at(f, items, f.add(f.mul(i, 8), ITEMS), "ptr")


def _pass(f: Function, array: str, table: str, i: Index) -> None:
    data = _at(f, array, DATA, "ptr")
    place = f.make(f"getelementptr ptr, ptr {table}, i64 {i}")
    f.line(f"store ptr {data}, ptr {place}")


def _write_check(f: Function, value: Value, place: int) -> None:
    """Write whether an array has the rank, the lengths, the strides and the dtype of a value.

    `place` is that of the dtype in the table.
    """
    facts: list[tuple[str, str, int | str]] = [
        (_at(f, "%array", HEADER - 8, "i64"), "i64", _at(f, "%table", 0, "i64")),
        (_at(f, "%array", RANK, "i32"), "i32", len(value.shape)),
        (_at(f, "%array", DTYPE, "i64"), "i64", _at(f, "%table", 8 * place, "i64")),
    ]
    _go_on(f, _all(f, facts))
    shape, strides = _at(f, "%array", SHAPE, "ptr"), _at(f, "%array", STRIDES, "ptr")
    step = value.dtype.itemsize
    facts = []
    for axis in range(len(value.shape) - 1, -1, -1):
        n = value.shape[axis]
        facts.append((_at(f, shape, 8 * axis, "i64"), "i64", n))
        if n > 1 and value.size:
            facts.append((_at(f, strides, 8 * axis, "i64"), "i64", step))
        step *= n
    f.line(f"ret i1 {_all(f, facts)}")
    f.start("changed")
    f.line("ret i1 false")


def _all(f: Function, facts: Sequence[tuple[str, str, int | str]]) -> str:
    """Return whether everything found is what is expected."""
    right = "true"
    for found, type, expected in facts:
        same = f.make(f"icmp eq {type} {found}, {expected}")
        right = same if right == "true" else f.make(f"and i1 {right}, {same}")
    return right


def _go_on(f: Function, right: str) -> None:
    """Leave unless a condition holds."""
    label = f.fresh("go")[1:]
    f.line(f"br i1 {right}, label %{label}, label %changed")
    f.start(label)
