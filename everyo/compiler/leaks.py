"""Values of a program that the traced function has put where they outlive it.

A variable, attribute or item that is given a computed tensor would hold it in eager code. A program does not
write there, so that the next call would not find it: it is an error, and what was there before is put back.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from everyo.core.tensor import Tensor
from everyo.errors import CompileError

if TYPE_CHECKING:
    from everyo.compiler.trace import Tracer

MANY = 10_000  # objects that are looked into
LONG = 1_000  # items of a container from which on it is taken for data

_Place = tuple[Any, Any, Any]  # a container, under which key, and what is there
_DATA = (Tensor, np.ndarray, np.generic, str, bytes, int, float, complex, type(None), type, types.ModuleType)
_OURS = ("everyo", "numpy", "optree")


class Places:
    """Where a function could put values: variables, and attributes and items of what these hold."""

    def __init__(self, f: Any) -> None:
        self._f = f
        self._before = {(id(owner), key): (owner, value) for owner, key, value in _places(f)}

    def put_back(self, tracer: Tracer) -> list[tuple[Any, Any]]:
        """Put back what was where values of a trace are now; return these places, but those of its own.

        A module's attribute that the function sets before it reads it is its own.
        """
        found = [p for p in _places(self._f) if isinstance(p[2], Tensor) and tracer.beneath(p[2]) is not None]
        for owner, key, _ in reversed(found):  # of a list the last ones first
            if (id(owner), key) in self._before:
                _set(owner, key, self._before[id(owner), key][1])
            else:
                del owner[key]
        return [(owner, key) for owner, key, _ in found if not tracer.attributes.unread(owner, key)]


def refuse(owner: Any, key: Any) -> None:
    """Raise CompileError for a value that was found there."""
    place = f"item {key} of a list" if isinstance(owner, list) else f"the variable, attribute or item {key!r}"
    raise CompileError(
        "the function keeps a computed tensor where the program cannot write",
        operation="compile",
        expected="results that are returned, or written into tensors that are there",
        found=f"a computed tensor in {place}",
        remedy="write into the tensor that is there, name[...] = new, or return the new one",
    )


def _set(owner: Any, key: Any, value: Any) -> None:
    if isinstance(owner, types.CellType):
        owner.cell_contents = value
    else:
        owner[key] = value


def _places(f: Any) -> Iterator[_Place]:
    """Yield the places that a function reaches, as far as they are not hidden in data or libraries."""
    waiting, seen = [f], set[int]()
    for x in waiting:  # which grows meanwhile
        if isinstance(x, _DATA) or id(x) in seen or len(seen) > MANY:
            continue
        seen.add(id(x))
        for place in _inside(x):
            waiting.append(place[2])
            yield place
        waiting += _behind(x)


def _behind(x: Any) -> list[Any]:
    """Return what stands behind a callable or a reference."""
    if isinstance(x, functools.partial):
        return [x.func, *x.args, *x.keywords.values()]
    if isinstance(x, types.MethodType):
        return [x.__func__, x.__self__]
    if isinstance(x, weakref.ref):
        return [x()]
    return list(x) if isinstance(x, tuple) and len(x) < LONG else []


def _inside(x: Any) -> Iterator[_Place]:
    """Yield the places in a function, a container or an object."""
    if isinstance(x, types.FunctionType):
        yield from _variables(x)
    elif isinstance(x, list):
        if len(x) < LONG:
            yield from ((x, i, item) for i, item in enumerate(x))
    elif isinstance(x, dict):
        if len(x) < LONG:
            yield from ((x, key, dict.__getitem__(x, key)) for key in list(dict.keys(x)))
    else:
        try:
            attributes = object.__getattribute__(x, "__dict__")
        except AttributeError:
            return
        if type(attributes) is dict:
            yield from ((attributes, name, value) for name, value in list(attributes.items()))


def _variables(f: types.FunctionType) -> Iterator[_Place]:
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        try:
            yield cell, name, cell.cell_contents
        except ValueError:  # it is not set yet
            continue
    if f.__module__ is None or f.__module__.partition(".")[0] in _OURS:
        return
    for name in _names(f.__code__):
        if name in f.__globals__:
            yield f.__globals__, name, f.__globals__[name]


@functools.lru_cache(maxsize=1024)
def _names(code: types.CodeType) -> frozenset[str]:
    """Return the names that a function, and those inside it, look up."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return frozenset(code.co_names).union(*map(_names, inner))
