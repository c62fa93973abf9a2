"""Programs: compiled code with what it needs to be called."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from threading import get_ident
from typing import Any, NoReturn

import numpy as np

from everyo.compiler import pool
from everyo.compiler.callbacks import callback
from everyo.compiler.codegen.entry import ALIGNMENT, CHANGED, table, write_door
from everyo.compiler.codegen.hints import METADATA
from everyo.compiler.codegen.program import ATTRIBUTES, FIRST_MESSAGE, Module
from everyo.compiler.codegen.tapes import NO_MEMORY
from everyo.compiler.graph import Graph
from everyo.compiler.lowering import lower
from everyo.compiler.native import Code
from everyo.compiler.passes import improved, seen
from everyo.compiler.states import Call, Owns, State, Writing, carry_out, replacing
from everyo.errors import IndexingError

empty = np.empty
LARGE = 1 << 15  # bytes of results that are worth keeping for the next call
SPARE = 4  # arrays of one kind that are kept at most


@functools.cache
def entrance() -> Code:
    """Return the code through which programs are entered, one for all of them."""
    code = Code("\n".join([write_door(), ATTRIBUTES, METADATA]))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))  # threads may be in it when the interpreter ends
    return code


def _owns_nothing(i: int, array: Any) -> bool:
    return False


def _writes_nothing(results: Sequence[Any]) -> list[Call]:
    return []


class Program:
    """A graph as machine code. Calls from several threads at once are safe: each has its own memory.

    Attributes
    ----------
    graph, core : Graph
        What was traced, and what it was lowered to.
    module : Module
        The LLVM module and its plans.
    threads : int or None
        How many threads may work on it; None for as many as this process may run.
    """

    def __init__(self, graph: Graph, threads: int | None = None, states: Sequence[State] = ()) -> None:
        self.graph, self.threads = graph, threads
        self.core = improved(seen("lowered", lower(graph)))
        self.module = Module(self.core, states)
        self.code = Code(self.module.text)
        self.constants = tuple(
            np.ascontiguousarray(v.op.params["array"]) for v in self.module.constants if v.op is not None
        )
        self._specs = [(v.shape, v.dtype) for v in graph.inputs]
        self._shapes = [v.shape for v in graph.outputs]
        self._dtypes = [v.dtype for v in graph.outputs]
        self._errors: dict[int, BaseException] = {}  # by thread
        self._callbacks = [callback(op, self._errors) for op in self.module.calls]
        addresses = [ctypes.cast(c, ctypes.c_void_p).value or 0 for c in self._callbacks]
        run = pool.runner() if self.module.parallel else 0
        words = table(
            graph.inputs, len(self.constants), len(self.core.outputs), self.module.states,
            self.code.address("everyo_main"), run, threads or pool.count(), addresses,
        )  # fmt: skip
        self.table = np.array(words, np.int64)
        self._enter = entrance().builtin("everyo_door", self.table)
        self._end: Any = None
        if self.module.states:
            self._end = entrance().builtin("everyo_end", self.table)
            for _, o in self.module.states:  # their arrays are chosen when the end begins
                self._shapes[o] = (0,)
        self._arenas: list[Any] = []
        self._spare: dict[tuple[Any, Any], list[Any]] = {
            (v.shape, v.dtype): [] for v in graph.outputs if v.nbytes >= LARGE
        }

    def __call__(
        self, arrays: tuple[Any, ...], owns: Owns = _owns_nothing, writing: Writing = _writes_nothing
    ) -> tuple[Any, ...]:
        """Run on arrays of the shapes and dtypes that were traced; return fresh arrays.

        A state is replaced where it lies if ``owns(i, array)`` says of its input that this is the array of a
        cell, and nothing but that cell and `arrays` holds it. What ``writing(results)`` calls for happens
        with it, or nothing does.
        """
        results = self.attempt(arrays, owns, writing)
        if results is None:
            fitting = tuple([_fit(a, *spec) for a, spec in zip(arrays, self._specs, strict=True)])
            results = self.attempt(fitting, _owns_nothing, writing)
            assert results is not None
        return results

    def attempt(
        self, arrays: tuple[Any, ...], owns: Owns = _owns_nothing, writing: Writing = _writes_nothing
    ) -> tuple[Any, ...] | None:
        """Run, or return None where an array is not as it was: another shape or dtype, or not contiguous."""
        results = tuple(map(self._reused if self._spare else empty, self._shapes, self._dtypes))
        arena = self.memory()
        inputs = arrays + self.constants if self.constants else arrays
        code = self._enter(inputs, results, arena)
        if not code and (self._end is not None or writing is not _writes_nothing):
            results = self._ended(inputs, results, arena, owns, writing)
        self._arenas.append(arena)
        if not code:
            return results
        if code == CHANGED:
            return None
        self.fail(code)

    def memory(self) -> Any:
        """Return memory for one call: what a call before has left, if there is some."""
        try:
            return self._arenas.pop()
        except IndexError:
            return empty(self.module.arena + ALIGNMENT, np.uint8)

    def _ended(
        self, inputs: tuple[Any, ...], results: tuple[Any, ...], arena: Any, owns: Owns, writing: Writing
    ) -> tuple[Any, ...]:
        """Run the end, which replaces states, and write; return all results: held states have new arrays."""
        with replacing:
            for owner in (owns, _owns_nothing):  # the end refuses where somebody else holds a state
                found = self._places(inputs, results, owner)
                end: list[Call] = [] if self._end is None else [(self._end, inputs, found, arena)]
                if not carry_out(end + writing(found)):
                    break
        return found

    def _places(self, inputs: tuple[Any, ...], results: tuple[Any, ...], owns: Owns) -> tuple[Any, ...]:
        """Return the results with the arrays in which states are replaced: their own, or copies."""
        found = list(results)
        for i, o in self.module.states:
            if owns(i, inputs[i]) and inputs[i].base is None and inputs[i].flags.carray:
                found[o] = inputs[i]
            else:
                found[o] = self._reused(*self._specs[i])
                np.copyto(found[o], inputs[i])
        return tuple(found)

    def _reused(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array for a result: one that a state was in before, if there is one."""
        spare = self._spare.get((shape, dtype))
        try:
            return spare.pop() if spare else empty(shape, dtype)
        except IndexError:  # another thread was quicker
            return empty(shape, dtype)

    def keep(self, array: Any) -> None:
        """Take an array that nobody else holds for a later result: fresh memory costs more than the work."""
        spare = self._spare.get((array.shape, array.dtype))
        if spare is not None and len(spare) < SPARE and array.base is None and array.flags.carray:
            spare.append(array)

    def fail(self, code: int) -> NoReturn:
        """Raise what a callback raised, or the error for a check that failed, by what was returned."""
        if code >= FIRST_MESSAGE:
            raise IndexingError(
                self.module.messages[code - FIRST_MESSAGE],
                operation=self.graph.name,
                expected="indices inside the axes",
                found="one that is not, in the compiled function",
                remedy="run the function without compiling it to see which",
            )
        if code == NO_MEMORY:
            raise MemoryError(f"{self.graph.name}: no memory for the states of a while_loop to go back over")
        raise self._errors.pop(get_ident())


def _fit(array: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an array as programs take it: contiguous, in the machine's byte order, of this dtype object.

    Unpickled arrays have dtype objects of their own, which a conversion to an equal dtype does not replace.
    """
    assert array.shape == shape
    if array.flags.carray and array.dtype == dtype:
        return array.view(dtype, np.ndarray)
    made = empty(shape, dtype)
    made[...] = array
    return made
