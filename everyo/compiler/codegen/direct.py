"""The direct way into programs: what a call does in Python, as one function that serves all of them.

It finds the tensors among the arguments, looks whether the program was compiled for what is set around the
call, makes the results and runs the program. Where anything is not as it was, it changes nothing and calls
the function in Python, which knows all the other ways.

It has no constants of its own but two tables of words that Python fills: `everyo_api`, which is the same for
all programs, and a record of each program. A record also holds the words that one call works with, so a call
during another one of the same program goes the other way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from everyo.compiler.codegen.entry import CHANGED, DATA, HEADER, ITEMS, _at
from everyo.compiler.codegen.text import Function, Index

FUNCTIONS = (
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyLong_FromLong", "PyContextVar_Get",
    "Py_IncRef", "Py_DecRef", "PyType_GenericAlloc", "PyObject_Vectorcall",
    "PyList_New", "PyList_SetItem", "PyDict_Next", "PyDict_GetItem", "PyUnicode_Compare",
    "PyMem_Malloc", "PyMem_Free", "PyErr_NoMemory",
)  # fmt: skip
# Objects by their addresses: None and False, the classes of tensors, arrays and strings, the context
# variables of tracers, modes and default dtypes, where the dtype of the whole process is found and under
# which name, and what to call in Python. The last one is NumPy's function that makes arrays.
OBJECTS = (
    "none", "off", "tensor", "array", "string", "staging", "mode", "here", "dtypes", "default", "usual",
    "new_array",
)  # fmt: skip
API = (*FUNCTIONS, *OBJECTS)
# The head of a record. `steps` and what follows it are places in the record, in words.
FIELDS = (
    "entry", "table", "arena", "busy", "count", "grad", "dtype", "hits", "finish", "failed", "locked",
    "leaves", "inputs", "results", "opened",
    "steps", "places", "specs", "values", "arrays", "made", "outs",
)  # fmt: skip
# A step takes a value apart: its type, two functions of Python's for its length and for one of its parts,
# which value it is, and the count of its parts. A dict has no functions, and its keys follow. Where the type
# is 0, nothing is taken apart: the value has to be the object in the second place.
STEP = 5
SPEC = 3  # of a result: dtype, rank, and the address of its shape


class Offsets:
    """Where objects keep their slots, in bytes."""

    def __init__(self, door: int, data: int, grad: int, node: int, mode: int, anomaly: int) -> None:
        self.door, self.data, self.grad, self.node, self.mode = door, data, grad, node, mode
        self.anomaly = anomaly


def write_direct(offsets: Offsets) -> str:
    """Return the text of ``everyo_call(self, arguments, count, names)``, as Python calls its methods."""
    return _Writer(offsets).text()


class _Writer:
    def __init__(self, offsets: Offsets) -> None:
        parameters = ["ptr %self", "ptr %given", "i64 %count", "ptr %names"]
        self.f = Function("everyo_call", parameters, "ptr", False)
        self.offsets = offsets
        self._record = ""

    def text(self) -> str:
        """Return the whole module, but for its attributes."""
        self._find()
        self._look_around()
        self._take_apart()
        self._results()
        self._run()
        self._leave()
        self._usual()
        return f"@everyo_api = global [{len(API)} x i64] zeroinitializer\n{self.f.text()}"

    # ---- words and objects

    def _api(self, name: str) -> str:
        return self.f.make(f"load ptr, ptr getelementptr (i64, ptr @everyo_api, i64 {API.index(name)})")

    def _call(self, name: str, arguments: str, returns: str = "ptr") -> str:
        return self.f.make(f"call {returns} {self._api(name)}({arguments})")

    def _drop(self, x: str) -> None:
        self.f.line(f"call void {self._api('Py_DecRef')}(ptr {x})")

    def _hold(self, x: str) -> None:
        self.f.line(f"call void {self._api('Py_IncRef')}(ptr {x})")

    def _head(self, name: str, type: str = "i64") -> str:
        return _at(self.f, self._record, 8 * FIELDS.index(name), type)

    def _part(self, name: str) -> str:
        return self.f.make(f"getelementptr i64, ptr {self._record}, i64 {self._head(name)}")

    def _word(self, table: str, i: Index, type: str = "i64") -> str:
        return self.f.make(f"load {type}, ptr {self.f.make(f'getelementptr i64, ptr {table}, i64 {i}')}")

    def _set(self, table: str, i: Index, value: str, type: str = "ptr") -> None:
        self.f.line(f"store {type} {value}, ptr {self.f.make(f'getelementptr i64, ptr {table}, i64 {i}')}")

    def _set_head(self, name: str, value: str) -> None:
        self._set(self._record, FIELDS.index(name), value, "i64")

    def _same(self, a: str, b: str, type: str = "ptr") -> str:
        return self.f.make(f"icmp eq {type} {a}, {b}")

    def _need(self, right: str, otherwise: str = "usual") -> None:
        """Go elsewhere unless a condition holds."""
        label = self.f.fresh("go")[1:]
        self.f.line(f"br i1 {right}, label %{label}, label %{otherwise}")
        self.f.start(label)

    @contextmanager
    def _when(self, right: str) -> Iterator[None]:
        """Write what is done only where a condition holds."""
        label = self.f.fresh("when")[1:]
        self.f.line(f"br i1 {right}, label %{label}, label %after{label}")
        self.f.start(label)
        yield
        self.f.line(f"br label %after{label}")
        self.f.start(f"after{label}")

    # ---- the parts of a call

    def _find(self) -> None:
        """Write how the record is found, and whether it is one for so many positional arguments."""
        f = self.f
        self._filled, self._position = f.alloca("i64"), f.alloca("i64")
        self._key, self._value = f.alloca("ptr"), f.alloca("ptr")
        self._door = _at(f, "%self", self.offsets.door, "ptr")
        self._need(f.make(f"icmp ne ptr {self._door}, {self._api('none')}"))
        self._need(f.make(f"icmp ne ptr {self._door}, null"))
        self._need(self._same("%names", "null"))
        self._record = _at(f, _at(f, self._door, ITEMS, "ptr"), DATA, "ptr")
        self._need(self._same("%count", self._head("count"), "i64"))
        self._need(self._same(self._head("busy"), "0", "i64"))

    def _context(self, name: str) -> str:
        """Return what a context variable holds; something else holds it too."""
        f = self.f
        failed = self._call("PyContextVar_Get", f"ptr {self._api(name)}, ptr null, ptr {self._value}", "i32")
        self._need(self._same(failed, "0", "i32"), "failed")
        return f.make(f"load ptr, ptr {self._value}")

    def _look_around(self) -> None:
        """Write whether nothing is traced or looked for, and mode and default dtype are the program's."""
        f = self.f
        tracer = self._context("staging")
        self._drop(tracer)
        self._need(self._same(tracer, self._api("none")))
        mode = self._context("mode")
        grad, anomaly = (_at(f, mode, at, "ptr") for at in (self.offsets.mode, self.offsets.anomaly))
        self._drop(mode)
        self._need(self._same(anomaly, self._api("off")))
        self._need(self._same(grad, self._head("grad", "ptr")))
        here = self._context("here")
        self._drop(here)
        whole = self._call("PyDict_GetItem", f"ptr {self._api('dtypes')}, ptr {self._api('default')}")
        nothing = self._same(here, self._api("none"))
        default = f.make(f"select i1 {nothing}, ptr {whole}, ptr {here}")
        self._need(self._same(default, self._head("dtype", "ptr")))

    def _take_apart(self) -> None:
        """Write how the arrays are found, and hold them: from here on others may run."""
        f = self.f
        values, leaves = self._part("values"), self._head("leaves")
        with f.loop(0, "%count") as i:
            self._set(values, i, self._word("%given", i, "ptr"))
        f.line(f"store i64 %count, ptr {self._filled}")
        f.line(f"store i64 {self._head('steps')}, ptr {self._position}")
        with f.loop(0, self._head("opened")):
            self._step(values)
        places, arrays = self._part("places"), self._part("arrays")
        with f.loop(0, leaves) as i:
            x = self._word(values, self._word(places, i), "ptr")
            self._need(self._same(_at(f, x, HEADER - 8, "ptr"), self._api("tensor")))
            self._need(self._same(_at(f, x, self.offsets.node, "ptr"), self._api("none")))
            data = _at(f, x, self.offsets.data, "ptr")
            self._need(f.make(f"icmp ne ptr {data}, null"))
            self._set(arrays, i, data)
        with f.loop(0, leaves) as i:
            self._hold(self._word(arrays, i, "ptr"))
        self._hold(self._door)
        self._set_head("busy", "1")

    def _step(self, values: str) -> None:
        f = self.f
        at = f.make(f"load i64, ptr {self._position}")
        step = f.make(f"getelementptr i64, ptr {self._record}, i64 {at}")
        kind, length, part = (self._word(step, i, "ptr") for i in range(3))
        source, n = (self._word(step, i) for i in range(3, STEP))
        x = self._word(values, source, "ptr")
        f.line(f"store i64 {f.make(f'add i64 {at}, {STEP}')}, ptr {self._position}")
        labels = [f.fresh("step")[1:] for _ in range(5)]
        same, opened, items, keys, done = labels
        f.line(f"br i1 {self._same(kind, 'null')}, label %{same}, label %{opened}")
        f.start(same)
        self._need(self._same(x, length))
        f.line(f"br label %{done}")
        f.start(opened)
        self._need(self._same(_at(f, x, HEADER - 8, "ptr"), kind))
        first = f.make(f"load i64, ptr {self._filled}")
        f.line(f"store i64 {f.make(f'add i64 {first}, {n}')}, ptr {self._filled}")
        f.line(f"br i1 {self._same(length, 'null')}, label %{keys}, label %{items}")
        f.start(items)
        self._need(self._same(f.make(f"call i64 {length}(ptr {x})"), n, "i64"))
        with f.loop(0, n) as i:
            self._set(values, f.add(first, i), f.make(f"call ptr {part}(ptr {x}, i64 {i})"))
        f.line(f"br label %{done}")
        f.start(keys)
        self._go_through(x, step, n, values, first)
        f.line(f"br label %{done}")
        f.start(done)

    def _go_through(self, x: str, step: str, n: str, values: str, first: str) -> None:
        """Write whether a dict has the keys of a step, in their order; what they mean are values."""
        f = self.f
        cursor = f.alloca("i64")
        f.line(f"store i64 0, ptr {cursor}")
        arguments = f"ptr {x}, ptr {cursor}, ptr {self._key}, ptr {self._value}"
        with f.loop(0, n) as i:
            there = self._call("PyDict_Next", arguments, "i32")
            self._need(f.make(f"icmp ne i32 {there}, 0"))
            key, expected = f.make(f"load ptr, ptr {self._key}"), self._word(step, f.add(i, STEP), "ptr")
            with self._when(f.make(f"icmp ne ptr {key}, {expected}")):
                self._need(self._same(_at(f, key, HEADER - 8, "ptr"), self._api("string")))
                order = self._call("PyUnicode_Compare", f"ptr {key}, ptr {expected}", "i32")
                self._need(self._same(order, "0", "i32"))
            self._set(values, f.add(first, i), f.make(f"load ptr, ptr {self._value}"))
        more = self._call("PyDict_Next", arguments, "i32")
        self._need(self._same(more, "0", "i32"))
        f.line(f"store i64 {f.make(f'add i64 {self._position_now()}, {n}')}, ptr {self._position}")

    def _position_now(self) -> str:
        return self.f.make(f"load i64, ptr {self._position}")

    def _results(self) -> None:
        """Write how the results are made: arrays in tensors."""
        f = self.f
        results, specs, made, outs = (
            self._head("results"),
            self._part("specs"),
            self._part("made"),
            self._part("outs"),
        )
        with f.loop(0, results) as o:
            self._set(made, o, "null")
        with f.loop(0, results) as o:
            spec = f.make(f"getelementptr i64, ptr {specs}, i64 {f.mul(o, SPEC)}")
            dtype, shape = self._word(spec, 0, "ptr"), self._word(spec, 2, "ptr")
            rank = f.make(f"trunc i64 {self._word(spec, 1)} to i32")
            tensor = self._call("PyType_GenericAlloc", f"ptr {self._api('tensor')}, i64 0")
            self._need(f.make(f"icmp ne ptr {tensor}, null"), "undone")
            self._set(made, o, tensor)
            for slot in (self.offsets.grad, self.offsets.node):
                self._hold(self._api("none"))
                f.line(f"store ptr {self._api('none')}, ptr {self._slot(tensor, slot)}")
            self._hold(dtype)
            given = f"ptr {self._api('array')}, ptr {dtype}, i32 {rank}, ptr {shape}"
            array = self._call("new_array", f"{given}, ptr null, ptr null, i32 0, ptr null")
            self._need(f.make(f"icmp ne ptr {array}, null"), "undone")
            f.line(f"store ptr {array}, ptr {self._slot(tensor, self.offsets.data)}")
            self._set(outs, o, array)

    def _slot(self, x: str, offset: int) -> str:
        return self.f.make(f"getelementptr i8, ptr {x}, i64 {offset}")

    def _run(self) -> None:
        """Write the run, during which others may have Python's lock unless it is short."""
        f = self.f
        state = f.alloca("ptr")
        unlocked = self._same(self._head("locked"), "0", "i64")
        with self._when(unlocked):
            f.line(f"store ptr {self._call('PyEval_SaveThread', '')}, ptr {state}")
        ins, outs = (self._slot(self._part(name), -ITEMS) for name in ("arrays", "outs"))
        entry, arena, table = (self._head(name, "ptr") for name in ("entry", "arena", "table"))
        self._code = f.make(f"call i32 {entry}(ptr {ins}, ptr {outs}, ptr {arena}, ptr {table})")
        with self._when(unlocked):
            restore = self._api("PyEval_RestoreThread")
            f.line(f"call void {restore}(ptr {f.make(f'load ptr, ptr {state}')})")
        self._let_go()
        self._need(self._same(self._code, "0", "i32"), "otherwise")
        hits = self._head("hits", "ptr")
        count = f.make(f"load i64, ptr {hits}")
        f.line(f"store i64 {f.make(f'add i64 {count}, 1')}, ptr {hits}")

    def _let_go(self) -> None:
        """Write that the arrays of the arguments are held no longer."""
        arrays, leaves = self._part("arrays"), self._head("leaves")
        with self.f.loop(0, leaves) as i:
            self._drop(self._word(arrays, i, "ptr"))

    def _end(self, result: str) -> None:
        self._drop(self._door)
        self.f.line(f"ret ptr {result}")

    def _leave(self) -> None:
        """Write what is returned: one tensor, or what a function of Python's makes of a list of them."""
        f = self.f
        finish, made, results = self._head("finish", "ptr"), self._part("made"), self._head("results")
        one = self._word(made, 0, "ptr")
        self._need(f.make(f"icmp ne ptr {finish}, null"), "one")
        items = self._call("PyList_New", f"i64 {results}")
        self._need(f.make(f"icmp ne ptr {items}, null"), "dropped")
        with f.loop(0, results) as o:
            tensor = self._word(made, o, "ptr")
            f.line(f"call i32 {self._api('PyList_SetItem')}(ptr {items}, i64 {o}, ptr {tensor})")
        self._set_head("busy", "0")
        result = self._ask(finish, items)
        self._drop(items)
        self._end(result)
        f.start("one")
        self._set_head("busy", "0")
        self._end(one)
        f.start("undone")
        self._let_go()
        f.line("br label %dropped")
        f.start("dropped")
        self._drop_made()
        self._end("null")
        f.start("otherwise")
        self._drop_made()
        self._need(f.make(f"icmp ne i32 {self._code}, {CHANGED}"), "changed")
        number = self._call("PyLong_FromLong", f"i64 {f.make(f'sext i32 {self._code} to i64')}")
        error = self._ask(self._head("failed", "ptr"), number)
        self._drop(number)
        self._end(error)
        f.start("changed")
        self._drop(self._door)
        f.line("br label %usual")
        f.start("failed")
        f.line("ret ptr null")

    def _ask(self, function: str, x: str) -> str:
        """Return what a function of Python's returns for one argument."""
        self.f.line(f"store ptr {x}, ptr {self._value}")
        arguments = f"ptr {function}, ptr {self._value}, i64 1, ptr null"
        return self._call("PyObject_Vectorcall", arguments)

    def _drop_made(self) -> None:
        made, results = self._part("made"), self._head("results")
        with self.f.loop(0, results) as o:
            self._drop(self._word(made, o, "ptr"))
        self._set_head("busy", "0")

    def _usual(self) -> None:
        """Write the call of the method in Python: itself, the positional arguments, those with names."""
        f = self.f
        f.start("usual")
        named = f.alloca("i64")
        f.line(f"store i64 0, ptr {named}")
        with self._when(f.make("icmp ne ptr %names, null")):
            f.line(f"store i64 {_at(f, '%names', HEADER, 'i64')}, ptr {named}")
        total = f.make(f"add i64 %count, {f.make(f'load i64, ptr {named}')}")
        room = self._call("PyMem_Malloc", f"i64 {f.mul(f.make(f'add i64 {total}, 1'), 8)}")
        self._need(f.make(f"icmp ne ptr {room}, null"), "full")
        f.line(f"store ptr %self, ptr {room}")
        with f.loop(0, total) as i:
            self._set(room, f.make(f"add i64 {i}, 1"), self._word("%given", i, "ptr"))
        positional = f.make("add i64 %count, 1")
        arguments = f"ptr {self._api('usual')}, ptr {room}, i64 {positional}, ptr %names"
        result = self._call("PyObject_Vectorcall", arguments)
        f.line(f"call void {self._api('PyMem_Free')}(ptr {room})")
        f.line(f"ret ptr {result}")
        f.start("full")
        f.line(f"ret ptr {self._call('PyErr_NoMemory', '')}")
