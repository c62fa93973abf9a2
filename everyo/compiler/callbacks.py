"""Calls from a compiled program back into Python: eager kernels of operations that have no lowering."""

from __future__ import annotations

import ctypes
from threading import get_ident
from typing import Any

import numpy as np

from everyo.compiler.graph import Op, Value
from everyo.compiler.lowering.pairs import COMPLEX
from everyo.core.explaining import EXPLAINED, explain
from everyo.errors import EveryOError

SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))


def view(address: int, value: Value, paired: bool = False) -> Any:
    """Return the memory at an address as an array of a value's shape and dtype.

    Numbers that are `paired` along the last axis are the parts of complex ones.
    """
    shape, dtype = value.shape, value.dtype
    if paired:
        shape, dtype = shape[:-1], COMPLEX[dtype]
    if not value.size:
        return np.empty(shape, dtype)
    memory: Any = (ctypes.c_char * value.nbytes).from_address(address)
    return np.frombuffer(memory, dtype).reshape(shape)


def callback(op: Op, errors: dict[int, BaseException]) -> Any:
    """Return the function that a program calls for an operation; what it raises goes into `errors`."""
    from everyo.core.device import backend_of

    function = op.params.get("primitive")
    settings = op.params.get("settings", {})
    count, paired = len(op.inputs), op.params.get("paired", ())

    def run(table: Any) -> int:
        try:
            operands = [
                None if v is None else view(table[i], v, i in paired) for i, v in enumerate(op.inputs)
            ]
            if function is None:
                results = op.params["python"](*operands)
            else:
                backend = backend_of(next(x for x in operands if x is not None))
                assert backend is not None
                params = {**function.defaults, **settings}
                try:
                    results = function.forward(backend.xp, *operands, **params)
                except EveryOError:
                    raise
                except EXPLAINED as error:
                    raise explain(function, operands, settings, error) from error
            results = results if isinstance(results, (tuple, list)) else (results,)
            for i, (value, result) in enumerate(zip(op.outs, results, strict=True)):
                if value.size:
                    view(table[count + i], value, count + i in paired)[...] = result
        except BaseException as error:  # it must not cross native code; the caller raises it
            errors[get_ident()] = error
            return 1
        return 0

    return SIGNATURE(run)
