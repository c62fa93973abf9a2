"""Direct calls: a function whose results depend on its arguments alone is called without Python code.

`codegen/direct.py` writes the call; here are its tables: what it has to know of this process, and a record
of each program. It relies on the binary interfaces of Python and of NumPy, and on where tensors keep their
slots, which is looked up. Where anything is different, calls go through Python as before.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from everyo.compiler.codegen.direct import API, FIELDS, FUNCTIONS, SPEC, Offsets, write_direct
from everyo.compiler.codegen.entry import ALIGNMENT
from everyo.compiler.codegen.hints import METADATA
from everyo.compiler.codegen.program import ATTRIBUTES
from everyo.compiler.native import QUICKEST, Code, method
from everyo.compiler.program import Program, entrance
from everyo.compiler.states import counts_holders
from everyo.core import dtypes, modes
from everyo.core.tensor import Tensor
from everyo.core.traced import staging

WORD = ctypes.sizeof(ctypes.c_void_p)
SHORT = 1000.0  # nanoseconds of a program during which other threads may as well wait
ABI = (1, 2)  # NumPy's binary interfaces in which its table has its functions in the places below
VERSION, NEW_ARRAY = 0, 94
SEQUENCES: dict[Any, tuple[str, str]] = {
    tuple: ("PyTuple_Size", "PyTuple_GetItem"),
    list: ("PyList_Size", "PyList_GetItem"),
}

DEFAULT = "_default_float"  # the default dtype of the whole process, in the module `dtypes`
Door = tuple[Any, ...]  # a record, and what it has the addresses of


class _Unknown(Exception):
    """Something is not where it is looked for."""


def _function(name: str) -> int:
    """Return the address of a function of Python's."""
    found = getattr(ctypes.pythonapi, name, None)
    address = None if found is None else ctypes.cast(found, ctypes.c_void_p).value
    if not address:
        raise _Unknown(name)
    return address


def _slot(kind: Any, name: str) -> int:
    """Return at which byte the objects of a class keep a slot."""
    probe, mark = object.__new__(kind), object()
    words = (ctypes.c_size_t * (kind.__basicsize__ // WORD)).from_address(id(probe))
    before = list(words)
    setattr(probe, name, mark)
    changed = [i for i, word in enumerate(words) if word != before[i]]
    if len(changed) != 1 or words[changed[0]] != id(mark):
        raise _Unknown(f"{kind.__name__}.{name}")
    return WORD * changed[0]


def _new_array() -> int:
    """Return the address of NumPy's function that makes arrays, which stands in a table for C."""
    try:
        capsule = importlib.import_module("numpy._core._multiarray_umath")._ARRAY_API
    except (ImportError, AttributeError):
        raise _Unknown("numpy") from None
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = (ctypes.c_void_p * (NEW_ARRAY + 1)).from_address(int(read(capsule, None) or 0))
    version, made = table[VERSION], table[NEW_ARRAY]
    if not version or not made or ctypes.CFUNCTYPE(ctypes.c_uint)(version)() >> 24 not in ABI:
        raise _Unknown("NumPy's binary interface")
    return made


@functools.cache
def _code(kind: Any) -> Code | None:
    """Give a class of compiled functions its direct call; return the code, None where there is none."""
    if not counts_holders():
        return None
    try:
        offsets = Offsets(
            _slot(kind, "direct"), _slot(Tensor, "data"), _slot(Tensor, "grad"), _slot(Tensor, "grad_node"),
            _slot(modes.Mode, "grad"), _slot(modes.Mode, "anomaly"),
        )  # fmt: skip
        functions = [_function(name) for name in FUNCTIONS]
        new_array = _new_array()
    except _Unknown:
        return None
    code = Code("\n".join([write_direct(offsets), ATTRIBUTES, METADATA]), QUICKEST)
    known = {
        "none": None, "off": False, "tensor": Tensor, "array": np.ndarray, "string": str, "staging": staging,
        "mode": modes._mode, "here": dtypes._here, "dtypes": vars(dtypes), "default": DEFAULT,
        "usual": kind.__call__,
    }  # fmt: skip
    for x in (known, code):  # threads may be in the code, and calls happen, when the interpreter ends
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))
    words = {**{name: id(x) for name, x in known.items()}, "new_array": new_array}
    words |= dict(zip(FUNCTIONS, functions, strict=True))
    table = (ctypes.c_int64 * len(API)).from_address(code.address("everyo_api"))
    for i, name in enumerate(API):
        table[i] = words[name]
    doc = "Call the function on arguments, compiled for their shapes and dtypes."
    kind.__call__ = method(kind, "__call__", code.address("everyo_call"), doc)
    return code


def prepare(kind: Any) -> None:
    """Give a class of compiled functions its direct call, where there is one, unless it has it already."""
    _code(kind)


def door(
    kind: Any, program: Program, args: Sequence[Any], static: dict[int, Any], leaves: Sequence[Any],
    structure: Any, mode: tuple[bool, Any], hits: Any,
) -> Door | None:  # fmt: skip
    """Return what a compiled function needs for direct calls of a program; None where there is no direct way.

    Parameters
    ----------
    kind : type
        The class of the compiled function, with a slot "direct" for what is returned.
    program : Program
        What is called.
    args, static, leaves
        Positional arguments as they are given, those among them that are static, and the tensors in them.
    structure : pytree structure or None
        Of the results.
    mode : tuple
        Whether gradients are recorded, and the default dtype.
    hits : array
        Where calls are counted.
    """
    taken = _taken_apart(args, static)
    if taken is None:
        return None
    steps, opened, values, places = taken
    if [id(values[i]) for i in places] != list(map(id, leaves)) or _code(kind) is None:
        return None
    kept = [key for x in values if type(x) is dict for key in x], [args[i] for i in static]  # steps have ids
    finish = None if structure is None else structure.unflatten
    arena, fail = program.memory(), program.fail
    shapes = [np.array(v.shape, np.intp) for v in program.graph.outputs]
    specs = [
        word
        for v, shape in zip(program.graph.outputs, shapes, strict=True)
        for word in (id(v.dtype), len(v.shape), shape.ctypes.data)
    ]
    assert len(specs) == SPEC * len(shapes)
    constants = [id(x) for x in program.constants]
    n = len(shapes)
    parts = {
        "steps": steps, "places": places, "specs": specs, "values": [0] * len(values),
        "arrays": [*[0] * len(leaves), *constants], "made": [0] * n, "outs": [0] * n,
    }  # fmt: skip
    starts = np.cumsum([len(FIELDS), *map(len, parts.values())]).tolist()
    grad, default = mode
    fields = {
        "entry": entrance().address("everyo_entry"),
        "table": program.table.ctypes.data,
        "arena": arena.ctypes.data + -arena.ctypes.data % ALIGNMENT,
        "count": len(args),
        "grad": id(grad),
        "dtype": id(default),
        "hits": hits.ctypes.data,
        "finish": 0 if finish is None else id(finish),
        "failed": id(fail),
        "locked": program.module.brief(SHORT),
        "leaves": len(leaves),
        "results": n,
        "opened": opened,
        **dict(zip(parts, starts, strict=False)),
    }
    record = np.array([fields.get(name, 0) for name in FIELDS] + [*chain(*parts.values())], np.int64)
    return record, program, fail, finish, arena, shapes, hits, kept, default


Taken = tuple[list[int], int, list[Any], list[int]]


def _taken_apart(args: Sequence[Any], static: dict[int, Any]) -> Taken | None:
    """Return the steps that take arguments apart, how many, all parts, and which of them are the leaves."""
    values, steps, opened = list(args), [], 0
    inside: dict[int, range] = {}
    for i, x in enumerate(values):  # which grows meanwhile
        parts: list[Any] = []
        if type(x) is Tensor and i not in static:
            continue
        if x is None or (i < len(args) and i in static):
            steps += [0, id(x), 0, i, 0]
        elif type(x) in SEQUENCES:
            steps += [id(type(x)), *map(_function, SEQUENCES[type(x)]), i, len(x)]
            parts = list(x)
        elif type(x) is dict:  # whose keys are texts: programs for others are not plain
            steps += [id(dict), 0, 0, i, len(x), *map(id, x)]
            parts = list(x.values())
        else:
            return None
        inside[i] = range(len(values), len(values) + len(parts))
        values += parts
        opened += 1
    places: list[int] = []

    def follow(i: int) -> None:
        if i not in inside:
            places.append(i)
        for k in inside.get(i, ()):
            follow(k)

    for i in range(len(args)):
        follow(i)
    return steps, opened, values, places
