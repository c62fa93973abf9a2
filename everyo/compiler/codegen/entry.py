"""The door into programs: it finds the arrays' memory itself, and looks whether they are what was compiled.

Python calls it as it calls its own built-in functions, with two tuples of arrays and one array as memory.
Where a NumPy array keeps its data, its axes and its dtype is part of NumPy's binary interface, and so is
where a tuple keeps its items.

One door serves all programs. What it has to know of one stands in the program's table, and so does whatever
has another address in each process: the code of a program is the same in all of them.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence

import numpy as np

from everyo.compiler.codegen.text import Function, Index
from everyo.compiler.graph import Value

HEADER = object.__basicsize__  # bytes before the first field of an object
ITEMS = tuple.__basicsize__  # bytes before the first item of a tuple
DATA, RANK, SHAPE, STRIDES, DTYPE = HEADER, HEADER + 8, HEADER + 16, HEADER + 24, HEADER + 40
PARAMETERS = ["ptr %ins", "ptr %results", "ptr %arena", "ptr %table"]
CHANGED = 2  # an argument is not as it was when the program was compiled
HELD = 3  # somebody else holds a state
# Of a state: its cell and the tuples of inputs and results; one more beside constants of the program.
HOLDERS = 3
COUNT = HEADER - 16 + (4 if sys.byteorder == "big" else 0)  # where an object keeps the number of its holders
FROM_PYTHON = ("PyEval_SaveThread", "PyEval_RestoreThread", "PyLong_FromLong")
# What a table begins with: the type of arrays, what runs split kernels, on how many threads, functions of
# Python's, the main function, counts of inputs (all, and those that are compared with what was compiled),
# results and states, the holders of a state, and where in the table the facts of inputs and the states begin.
FIELDS = ("type", "run", "threads", *FROM_PYTHON, "main", "inputs", "checked", "outputs", "states", "holders",
          "facts", "pairs")  # fmt: skip
RUN, THREADS = map(FIELDS.index, ("run", "threads"))
FIRST_CALL = len(FIELDS)  # then come the callbacks
ANY = -1 << 63  # in place of a stride that does not matter
ALIGNMENT = 64  # of the memory that a program works in


def table(
    inputs: Sequence[Value], constants: int, outputs: int, states: Sequence[tuple[int, int]],
    main: int, run: int, threads: int, calls: Sequence[int],
) -> list[int]:  # fmt: skip
    """Return what the table of a program has to hold in this process.

    `inputs` are compared with the types they had; behind them come so many constants, the program's own.
    `states` are inputs and the outputs that replace them. `main` is the address of the main function, `run`
    that of the pool's, `calls` are those of the callbacks.
    """
    facts = [word for value in inputs for word in _facts(value)]
    holders = HOLDERS + (constants > 0)
    first = FIRST_CALL + len(calls)
    python = {n: ctypes.cast(getattr(ctypes.pythonapi, n), ctypes.c_void_p).value or 0 for n in FROM_PYTHON}
    known = {
        "type": id(np.ndarray), "run": run, "threads": threads, **python, "main": main,
        "inputs": len(inputs) + constants, "checked": len(inputs), "outputs": outputs,
        "states": len(states), "holders": holders, "facts": first, "pairs": first + len(facts),
    }  # fmt: skip
    return [*(known[name] for name in FIELDS), *calls, *facts, *(i for pair in states for i in pair)]


def _facts(value: Value) -> list[int]:
    """Return what an array of a value's type has: dtype and rank, then length and stride of each axis."""
    axes: list[int] = []
    step = value.dtype.itemsize
    for n in reversed(value.shape):
        matters = n > 1 and value.size > 0
        axes[:0] = n, step if matters else ANY
        step *= n
    return [id(value.dtype), len(value.shape), *axes]


def write_door() -> str:
    """Return the functions of the door: ``everyo_door`` for Python, ``everyo_entry`` for code.

    There is a second door where states are replaced, inputs by outputs: ``everyo_end``, to the end of a
    program, which does so.
    """
    functions = [_entry(), _door("door", "entry", True), _replace(), _door("end", "replace", False)]
    return "\n".join(functions)


def _entry() -> str:
    f = Function("everyo_entry", PARAMETERS, "i32", False)
    inputs, checked = (_field(f, "%table", name) for name in ("inputs", "checked"))
    args = f.make(f"alloca ptr, i64 {inputs}")
    place = f.alloca("ptr")  # of the facts of an input
    f.line(f"store ptr {_part(f, 'facts')}, ptr {place}")
    with f.loop(0, checked) as i:
        array, facts = _item(f, "%ins", i), f.make(f"load ptr, ptr {place}")
        axes = _check(f, array, facts)
        f.line(f"store ptr {axes}, ptr {place}")
        _pass(f, array, args, i)
    with f.loop(checked, inputs) as i:
        _pass(f, _item(f, "%ins", i), args, i)
    _run(f, args, False)
    f.start("changed")
    f.line(f"ret i32 {CHANGED}")
    return f.text()


def _check(f: Function, array: str, facts: str) -> str:
    """Leave unless an array has the dtype, the rank, the lengths and the strides that stand among the facts.

    Returns where the facts of the next one begin.
    """
    rank = _at(f, facts, 8, "i64")
    found = [
        (_at(f, array, HEADER - 8, "i64"), _field(f, "%table", "type")),
        (f.make(f"sext i32 {_at(f, array, RANK, 'i32')} to i64"), rank),
        (_at(f, array, DTYPE, "i64"), _at(f, facts, 0, "i64")),
    ]
    same = [f.make(f"icmp eq i64 {a}, {b}") for a, b in found]
    _go_on(f, f.make(f"and i1 {f.make(f'and i1 {same[0]}, {same[1]}')}, {same[2]}"))
    shape, strides = _at(f, array, SHAPE, "ptr"), _at(f, array, STRIDES, "ptr")
    axes = f.make(f"getelementptr i8, ptr {facts}, i64 16")
    with f.loop(0, rank) as axis:
        length, step = (_at(f, p, f.mul(axis, 8), "i64") for p in (shape, strides))
        wanted, stride = (_at(f, axes, f.add(f.mul(axis, 16), 8 * k), "i64") for k in range(2))
        fits = f.make(f"icmp eq i64 {step}, {stride}")
        fits = f.make(f"or i1 {fits}, {f.make(f'icmp eq i64 {stride}, {ANY}')}")
        _go_on(f, f.make(f"and i1 {f.make(f'icmp eq i64 {length}, {wanted}')}, {fits}"))
    return f.make(f"getelementptr i8, ptr {axes}, i64 {f.mul(rank, 16)}")


def _run(f: Function, args: str, end: bool) -> None:
    """Write the call of the main function; its inputs are known.

    The main function takes its arguments for memory that does not change; it is in another module, so it
    never becomes part of the one that writes them.
    """
    outputs = _field(f, "%table", "outputs")
    outs = f.make(f"alloca ptr, i64 {outputs}")
    with f.loop(0, outputs) as i:
        _pass(f, _item(f, "%results", i), outs, i)
    flag = "true" if end else "false"
    main = _field(f, "%table", "main", "ptr")
    code = f.make(f"call i32 {main}(ptr {args}, ptr {outs}, ptr %arena, ptr %table, i1 {flag})")
    f.line(f"ret i32 {code}")


def _replace() -> str:
    """Return ``everyo_replace``, which goes on with what ``everyo_entry`` was given.

    It does nothing if a state that is to be replaced where it lies has more holders than the table says.
    """
    f = Function("everyo_replace", PARAMETERS, "i32")
    inputs, states = (_field(f, "%table", name) for name in ("inputs", "states"))
    holders, pairs = f.make(f"trunc i64 {_field(f, '%table', 'holders')} to i32"), _part(f, "pairs")
    args = f.make(f"alloca ptr, i64 {inputs}")
    with f.loop(0, states) as n:
        old, new = (_at(f, pairs, f.add(f.mul(n, 16), 8 * k), "i64") for k in range(2))
        array, result = _item(f, "%ins", old), _item(f, "%results", new)
        other = f.make(f"icmp ne ptr {array}, {result}")
        alone = f.make(f"icmp eq i32 {_at(f, array, COUNT, 'i32')}, {holders}")
        _go_on(f, f.make(f"or i1 {other}, {alone}"))
    with f.loop(0, inputs) as i:
        _pass(f, _item(f, "%ins", i), args, i)
    _run(f, args, True)
    f.start("changed")
    f.line(f"ret i32 {HELD}")
    return f.text()


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
    save, restore, number = (_field(f, table, name, "ptr") for name in FROM_PYTHON)
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


def _field(f: Function, table: str, name: str, type: str = "i64") -> str:
    return _at(f, table, 8 * FIELDS.index(name), type)


def _part(f: Function, name: str) -> str:
    """Return a pointer to a part of the table."""
    return f.make(f"getelementptr i64, ptr %table, i64 {_field(f, '%table', name)}")


def _item(f: Function, items: str, i: Index) -> str:
    return _at(f, items, f.add(f.mul(i, 8), ITEMS), "ptr")


def _pass(f: Function, array: str, table: str, i: Index) -> None:
    data = _at(f, array, DATA, "ptr")
    place = f.make(f"getelementptr ptr, ptr {table}, i64 {i}")
    f.line(f"store ptr {data}, ptr {place}")


def _go_on(f: Function, right: str) -> None:
    """Leave unless a condition holds."""
    label = f.fresh("go")[1:]
    f.line(f"br i1 {right}, label %{label}, label %changed")
    f.start(label)
