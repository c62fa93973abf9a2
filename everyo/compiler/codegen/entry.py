"""The door into a program: it finds the arrays' memory itself, and looks whether they are what was compiled.

Python calls it as it calls its own built-in functions, with two tuples of arrays and one array as memory.
Where a NumPy array keeps its data, its axes and its dtype is part of NumPy's binary interface, and so is
where a tuple keeps its items.

Whatever has another address in each process stands in a table that Python fills: the code itself is the
same in all of them. In front are the type of arrays, what runs split kernels, on how many threads, and
functions of Python's; then come the callbacks, behind them the dtypes.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from everyo.compiler.codegen.text import APART, Function, Index
from everyo.compiler.graph import Value

HEADER = object.__basicsize__  # bytes before the first field of an object
ITEMS = tuple.__basicsize__  # bytes before the first item of a tuple
DATA, RANK, SHAPE, STRIDES, DTYPE = HEADER, HEADER + 8, HEADER + 16, HEADER + 24, HEADER + 40
CHECK = ["ptr %array", "ptr %table"], "i1"  # what a function that looks at an array takes and returns
CHANGED = 2  # an argument is not as it was when the program was compiled
HELD = 3  # somebody else holds a state
# Of a state: its cell and the tuples of inputs and results; one more beside constants of the program.
HOLDERS = 3
COUNT = HEADER - 16 + (4 if sys.byteorder == "big" else 0)  # where an object keeps the number of its holders
RUN, THREADS, PYTHONS = 1, 2, 3  # places in the table
FROM_PYTHON = ("PyEval_SaveThread", "PyEval_RestoreThread", "PyLong_FromLong")
FIRST_CALL = PYTHONS + len(FROM_PYTHON)
ALIGNMENT = 64  # of the memory that a program works in


class Entry(NamedTuple):
    """The text of the door, and the dtypes that end its table."""

    text: str
    dtypes: tuple[Any, ...]


def table(entry: Entry, run: int, threads: int, calls: Sequence[int]) -> list[int]:
    """Return what the table of a program has to hold in this process.

    `run` is the address of the pool's function, `calls` those of the callbacks.
    """
    python = [
        ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in FROM_PYTHON
    ]
    return [id(np.ndarray), run, threads, *python, *calls, *map(id, entry.dtypes)]


def write_entry(
    inputs: Sequence[Value], checked: int, outputs: int, calls: int, states: Sequence[tuple[int, int]] = ()
) -> Entry:
    """Return the door into a program that has so many outputs and callbacks.

    The first `checked` inputs are compared with the types they had; the rest are the program's own. There
    is a second door where `states` are replaced, inputs by outputs: to the end, which does so.
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
    _run(f, args, outs, outputs, False)
    f.start("changed")
    f.line(f"ret i32 {CHANGED}")
    places = f"@everyo_checks = internal constant [{checked} x ptr] [{', '.join(of_input)}]"
    functions = [*(check.text() for check in checks.values()), f.text(), _door("door", "entry", True)]
    if states:
        holders = HOLDERS + (len(inputs) > checked)
        functions += [_replace(len(inputs), outputs, states, holders), _door("end", "replace", False)]
    return Entry("\n".join([places, *functions]), tuple(dtypes))


def _run(f: Function, args: str, outs: str, outputs: int, end: bool) -> None:
    """Write the call of the main function; its inputs are known.

    The main function takes its arguments for memory that does not change, so it must not become part of the
    one that writes them.
    """
    with f.loop(0, outputs) as i:
        _pass(f, _item(f, "%results", i), outs, i)
    flag = "true" if end else "false"
    arguments = f"ptr {args}, ptr {outs}, ptr %arena, ptr %table, i1 {flag}"
    code = f.make(f"call i32 @everyo_main({arguments}){APART}")
    f.line(f"ret i32 {code}")


def _replace(inputs: int, outputs: int, states: Sequence[tuple[int, int]], holders: int) -> str:
    """Return ``everyo_replace``, which goes on with what ``everyo_entry`` was given.

    It does nothing if a state that is to be replaced where it lies has more than so many holders.
    """
    pairs = ", ".join(f"[2 x i64] [i64 {i}, i64 {o}]" for i, o in states)
    table = f"@everyo_states = internal constant [{len(states)} x [2 x i64]] [{pairs}]\n"
    f = Function("everyo_replace", ["ptr %ins", "ptr %results", "ptr %arena", "ptr %table"], "i32")
    args, outs = f.alloca("ptr", inputs), f.alloca("ptr", outputs)
    with f.loop(0, len(states)) as n:
        old, new = (_at(f, "@everyo_states", f.add(f.mul(n, 16), 8 * k), "i64") for k in range(2))
        array, result = _item(f, "%ins", old), _item(f, "%results", new)
        other = f.make(f"icmp ne ptr {array}, {result}")
        alone = f.make(f"icmp eq i32 {_at(f, array, COUNT, 'i32')}, {holders}")
        _go_on(f, f.make(f"or i1 {other}, {alone}"))
    with f.loop(0, inputs) as i:
        _pass(f, _item(f, "%ins", i), args, i)
    _run(f, args, outs, outputs, True)
    f.start("changed")
    f.line(f"ret i32 {HELD}")
    return table + f.text()


def _door(name: str, function: str, others: bool) -> str:
    """Return a function of ``(table, (inputs, outputs, memory))`` as Python calls it.

    `others` says whether other threads may run meanwhile.
    """
    f = Function(f"everyo_{name}", ["ptr %self", "ptr %given", "i64 %count"], "ptr", False)
    table = _at(f, "%self", DATA, "ptr")
    ins, results, memory = (_at(f, "%given", 8 * i, "ptr") for i in range(3))
    free = f.make(f"ptrtoint ptr {_at(f, memory, DATA, 'ptr')} to i64")
    aligned = f.make(f"and i64 {f.make(f'add i64 {free}, {ALIGNMENT - 1}')}, {-ALIGNMENT}")
    arena = f.make(f"inttoptr i64 {aligned} to ptr")
    save, restore, number = (_at(f, table, 8 * (PYTHONS + i), "ptr") for i in range(len(FROM_PYTHON)))
    thread = f.make(f"call ptr {save}()") if others else ""
    code = f.make(f"call i32 @everyo_{function}(ptr {ins}, ptr {results}, ptr {arena}, ptr {table})")
    if others:
        f.line(f"call void {restore}(ptr {thread})")
    wide = f.make(f"sext i32 {code} to i64")
    f.line(f"ret ptr {f.make(f'call ptr {number}(i64 {wide})')}")
    return f.text()


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
