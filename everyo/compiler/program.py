"""Programs: compiled code with what it needs to be called."""

from __future__ import annotations

import ctypes
from threading import get_ident
from typing import Any

import numpy as np

from everyo.compiler import pool
from everyo.compiler.callbacks import callback
from everyo.compiler.codegen.entry import CHANGED, table
from everyo.compiler.codegen.program import FIRST_MESSAGE, Module
from everyo.compiler.codegen.tapes import NO_MEMORY
from everyo.compiler.graph import Graph
from everyo.compiler.lowering import lower
from everyo.compiler.native import Code
from everyo.compiler.passes import improved, seen
from everyo.errors import IndexingError

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
_ALIGNMENT = 64
empty = np.empty
LARGE = 1 << 15  # bytes of results that are worth keeping for the next call
SPARE = 4  # arrays of one kind that are kept at most


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

    def __init__(self, graph: Graph, threads: int | None = None) -> None:
        self.graph, self.threads = graph, threads
        self.core = improved(seen("lowered", lower(graph)))
        self.module = Module(self.core)
        self.code = Code(self.module.text)
        self._entry = _ENTRY(self.code.address("everyo_entry"))
        self._constants = tuple(
            np.ascontiguousarray(v.op.params["array"]) for v in self.module.constants if v.op is not None
        )
        self._specs = [(v.shape, v.dtype) for v in graph.inputs]
        self._results = [(v.shape, v.dtype) for v in graph.outputs]
        self._errors: dict[int, BaseException] = {}  # by thread
        self._callbacks = [callback(op, self._errors) for op in self.module.calls]
        addresses = [ctypes.cast(c, ctypes.c_void_p).value or 0 for c in self._callbacks]
        run = pool.runner() if self.module.parallel else 0
        facts = table(self.module.entry, run, threads or pool.count(), addresses)
        self._table = (ctypes.c_int64 * len(facts))(*facts)
        self._table_address = ctypes.addressof(self._table)
        self._arenas: list[tuple[int, Any]] = []
        self._spare: dict[tuple[Any, Any], list[Any]] = {
            spec: [] for spec, v in zip(self._results, graph.outputs) if v.nbytes >= LARGE
        }

    def __call__(self, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run on arrays of the shapes and dtypes that were traced; return fresh arrays."""
        results = self.attempt(arrays)
        if results is None:
            fitting = tuple([_fit(a, *spec) for a, spec in zip(arrays, self._specs, strict=True)])
            results = self.attempt(fitting)
            assert results is not None
        return results

    def attempt(self, arrays: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Run, or return None where an array is not as it was: another shape or dtype, or not contiguous."""
        results = tuple(
            [self._reused(*spec) for spec in self._results]
            if self._spare
            else [empty(shape, dtype) for shape, dtype in self._results]
        )
        try:
            arena = self._arenas.pop()
        except IndexError:
            arena = self._arena()
        ins = arrays + self._constants if self._constants else arrays
        code = self._entry(id(ins), id(results), arena[0], self._table_address)
        self._arenas.append(arena)
        if not code:
            return results
        if code == CHANGED:
            return None
        raise self._failure(code)

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

    def _arena(self) -> tuple[int, Any]:
        memory = np.empty(self.module.arena + _ALIGNMENT, np.uint8)
        return -(-memory.ctypes.data // _ALIGNMENT) * _ALIGNMENT, memory

    def _failure(self, code: int) -> BaseException:
        """Return what a callback raised, or the error for a check that failed."""
        if code >= FIRST_MESSAGE:
            return IndexingError(
                self.module.messages[code - FIRST_MESSAGE],
                operation=self.graph.name,
                expected="indices inside the axes",
                found="one that is not, in the compiled function",
                remedy="run the function without compiling it to see which",
            )
        if code == NO_MEMORY:
            return MemoryError(f"{self.graph.name}: no memory for the states of a while_loop to go back over")
        return self._errors.pop(get_ident())


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
