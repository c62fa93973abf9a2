"""Values of a program that the traced function has put where they outlive it.

A variable, attribute or item that is given a computed tensor would hold it in eager code. A program does not
write there, so that the next call would not find it: it is an error, and what was there before is put back.

Nothing but its result may lead to a value of a trace once that is over, so that one which is still there has
been kept, wherever that is. What is put back is in the places that the function reaches by its names.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from everyo.core.tensor import Tensor
from everyo.errors import CompileError

if TYPE_CHECKING:
    from everyo.compiler.attributes import Attributes

MANY = 10_000  # objects that are looked into
LONG = 1_000  # items of a container from which on it is taken for data

_DATA = (Tensor, np.ndarray, np.generic, str, bytes, int, float, complex, type(None))
_LIBRARIES = {*sys.stdlib_module_names, "everyo", "numpy", "optree", "scipy"}
_CACHE = type(functools.lru_cache(len))
_MISSING = object()

Undo = Callable[[], None]


Made = weakref.ref[Any]  # a value of a trace


class Place:
    """Something that holds values: how to read them, what they were, and what puts them back."""

    __slots__ = ("before", "read", "undo")

    def __init__(self, read: Callable[[], Iterable[Any]], undo: Undo) -> None:
        self.read, self.undo, self.before = read, undo, list(read())

    def leads_to(self, kept: set[int]) -> bool:
        """Whether something that was not there before leads to one of those objects, by their ids."""
        old = set(map(id, self.before))
        return any(_leads_to(kept, x) for x in self.read() if id(x) not in old)


class Places:
    """What a function reaches by its names, as it is now."""

    def __init__(self, f: Any, args: Sequence[Any] = ()) -> None:
        self.tensors: list[Tensor] = []
        self._places: list[Place] = []
        self._objects: list[tuple[dict[str, Any], dict[str, Any]]] = []
        waiting, seen = [f, *args], set[int]()
        for x in waiting:  # which grows meanwhile
            if type(x) in weakref.ProxyTypes:  # whose object may be gone
                continue
            if isinstance(x, Tensor):
                self.tensors.append(x)
            if isinstance(x, _DATA) or id(x) in seen or len(seen) > MANY:
                continue
            seen.add(id(x))
            attributes = _attributes_of(x)
            if attributes is not None:
                self._objects.append((attributes, attributes.copy()))
            for place in _places(x):
                waiting += place.before
                self._places.append(place)
            waiting += _behind(x)

    def put_back(self, made: Sequence[Made]) -> None:
        """Let what leads to values of a trace now hold what it held before."""
        kept = {id(x()) for x in made} - {id(None)}
        for place in self._places if kept else ():
            if place.leads_to(kept):
                place.undo()

    def put_back_own(self, attributes: Attributes) -> None:
        """Let attributes of modules hold what they held that the function has set before it read them."""
        for now, before in self._objects:
            for name, value in list(now.items()):
                old = before.get(name, _MISSING)
                if value is not old and isinstance(value, Tensor) and attributes.unread(now, name):
                    _put(now, name, old)

    def check(self, made: Sequence[Made]) -> None:
        """Raise CompileError where values of a trace are still there; put back what was there before them."""
        if not any(x() is not None for x in made):
            return
        gc.collect()  # what only leads to itself
        kept = [x for x in (reference() for reference in made) if x is not None]
        if not kept:
            return
        place = _place(kept)
        self.put_back(made)
        raise CompileError(
            "the function keeps a computed tensor where the program cannot write",
            operation="compile",
            expected="results that are returned, or written into tensors that are there",
            found=f"a computed tensor in {place}",
            remedy="write into the tensor that is there, name[...] = new, or return the new one",
        )


def _leads_to(kept: set[int], x: Any) -> bool:
    waiting, seen = [x], set[int]()
    for x in waiting:  # which grows meanwhile
        if id(x) in kept:
            return True
        if id(x) in seen or len(seen) > LONG or isinstance(x, (type, types.ModuleType, types.FrameType)):
            continue
        seen.add(id(x))
        waiting += _held(x) if isinstance(x, types.FunctionType) else gc.get_referents(x)
    return False


def _place(kept: list[Any]) -> str:
    """Return in words where values are."""
    seen, waiting = {id(kept), id(sys._getframe())}, list(kept)
    for x in waiting:  # which grows meanwhile
        for holder in gc.get_referrers(x):
            if id(holder) in seen or holder is waiting or len(seen) > MANY:
                continue
            seen.add(id(holder))
            found = _words(holder, x)
            if found is not None:
                return found
            waiting.append(holder)
    return f"a {type(waiting[-1]).__name__}"


def _words(holder: Any, x: Any) -> str | None:
    """Return what holds an object, in words; None for what is only on the way."""
    if isinstance(holder, types.CellType):
        return "a variable that a function keeps"
    if isinstance(holder, list):
        return f"item {[item is x for item in holder].index(True)} of a list"
    items = holder if isinstance(holder, dict) else _attributes_of(holder) or {}
    for key, item in dict.items(items):
        if item is x:
            return f"the variable, attribute or item {key!r}"
    return f"a {type(holder).__name__}" if isinstance(holder, (dict, set, deque)) else None


def _behind(x: Any) -> list[Any]:
    """Return what stands behind a callable, a reference or an object."""
    if isinstance(x, functools.partial):
        return [x.func, *x.args, *x.keywords.values()]
    if isinstance(x, types.MethodType):
        return [x.__func__, x.__self__]
    if isinstance(x, (staticmethod, classmethod)):
        return [x.__func__]
    if isinstance(x, property):
        return [x.fget, x.fset]
    if isinstance(x, weakref.ref):
        return [x()]
    if isinstance(x, tuple):
        return list(x) if len(x) < LONG else []
    return [] if isinstance(x, (type, types.FunctionType, types.ModuleType)) else [type(x)]


def _places(x: Any) -> Iterator[Place]:
    """Yield the places in a function, a class, a container or an object."""
    if isinstance(x, (list, deque, set)):
        if len(x) < LONG:
            yield _sequence(x)
    elif isinstance(x, dict):
        if len(x) < LONG:
            yield _dict(x)
    elif isinstance(x, types.CellType):
        yield _cell(x)
    elif isinstance(x, types.FunctionType):
        if not _is_library(x):
            yield from _variables(x)
    elif isinstance(x, type):
        if not _is_library(x):
            yield _attributes(x, lambda: dict(vars(x)))
    elif isinstance(x, _CACHE):
        yield Place(
            lambda: [y for d in gc.get_referents(x) if type(d) is dict for y in d.values()], x.cache_clear
        )
    elif not isinstance(x, types.ModuleType):
        yield from _of_object(x)


def _is_library(x: Any) -> bool:
    return x.__module__ is None or x.__module__.partition(".")[0] in _LIBRARIES


def _sequence(x: Any) -> Place:
    before = list(x)

    def undo() -> None:
        x.clear()
        (x.update if isinstance(x, set) else x.extend)(before)

    return Place(lambda: list(x), undo)


def _dict(x: dict[Any, Any]) -> Place:
    before = dict.copy(x)

    def undo() -> None:
        dict.clear(x)
        dict.update(x, before)

    return Place(lambda: list(dict.values(x)), undo)


def _cell(x: types.CellType) -> Place:
    def read() -> list[Any]:
        try:
            return [x.cell_contents]
        except ValueError:  # it is not set
            return []

    def undo() -> None:
        if before:
            x.cell_contents = before[0]
        else:
            del x.cell_contents

    before = read()
    return Place(read, undo)


def _variables(f: types.FunctionType) -> Iterator[Place]:
    """Yield what a function holds, and the variables of its module and others that it names."""
    names = _names(f.__code__)
    yield Place(lambda: _held(f), lambda: None)
    modules = [f.__globals__.get(name) for name in names]
    spaces = [
        vars(m)
        for m in modules
        if isinstance(m, types.ModuleType) and m.__name__.partition(".")[0] not in _LIBRARIES
    ]
    for space in (f.__globals__, *spaces):
        for name in names:
            yield _variable(space, name)


def _held(f: types.FunctionType) -> list[Any]:
    return [*(f.__closure__ or ()), f.__defaults__, f.__kwdefaults__, f.__dict__]


def _variable(space: dict[str, Any], name: str) -> Place:
    before = space.get(name, _MISSING)

    read = lambda: [space[name]] if name in space else []  # noqa: E731
    return Place(read, functools.partial(_put, space, name, before))


def _put(space: dict[str, Any], name: str, value: Any) -> None:
    if value is _MISSING:
        del space[name]
    else:
        space[name] = value


def _of_object(x: Any) -> Iterator[Place]:
    """Yield the attributes of an object, in its dict and in slots."""
    attributes = _attributes_of(x)
    if attributes is not None:
        yield _dict(attributes)
    slots = [
        name
        for kind in type(x).__mro__
        if "__slots__" in vars(kind) and not _is_library(kind)
        for name, slot in vars(kind).items()
        if isinstance(slot, types.MemberDescriptorType)
    ]
    if slots:
        yield _attributes(x, lambda: {name: getattr(x, name) for name in slots if hasattr(x, name)})


def _attributes_of(x: Any) -> dict[str, Any] | None:
    """Return the dict of an object's own attributes, where it has one."""
    try:
        found = object.__getattribute__(x, "__dict__")
    except AttributeError:
        return None
    return found if type(found) is dict else None


def _attributes(x: Any, read: Callable[[], dict[str, Any]]) -> Place:
    before = read()

    def undo() -> None:
        now = read()
        for name in now.keys() - before:
            delattr(x, name)
        for name, value in before.items():
            if now.get(name, _MISSING) is not value:
                setattr(x, name, value)

    return Place(lambda: read().values(), undo)


@functools.lru_cache(maxsize=1024)
def _names(code: types.CodeType) -> frozenset[str]:
    """Return the names that a function, and those inside it, look up."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return frozenset(code.co_names).union(*map(_names, inner))
