"""Values of a program that the traced function has put where they outlive it, and tensors that trade places.

A variable, attribute or item that is given another tensor would hold it in eager code. A program does not
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
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import is_
from typing import Any

import numpy as np

from everyo.compiler.attributes import MISSING, Attributes
from everyo.core.tensor import Tensor
from everyo.errors import CompileError

MANY = 10_000  # objects that are looked into
FAR = 8  # steps from a value to what keeps it
LONG = 1_000  # items of a container from which on it is taken for data

_DATA = (Tensor, np.ndarray, np.generic, str, bytes, int, float, complex, type(None))
_LIBRARIES = {*sys.stdlib_module_names, "everyo", "numpy", "optree", "scipy"}
_CACHE = type(functools.lru_cache(len))
_NOTHING = types.MappingProxyType[str, Any]({})

Contents = list[Any] | dict[Any, Any]
Made = weakref.ref[Any]  # a value of a trace
NAMED = "the variable, attribute or item {!r}"


class Place:
    """Something that holds values: how to read and to write all of them, and what they were.

    `attributes` is the dict of an object's own, where it is that. `name` says in words where a value is, with
    its key; it is empty where values have no keys.
    """

    __slots__ = ("attributes", "before", "name", "read", "write")

    def __init__(
        self,
        read: Callable[[], Contents],
        write: Callable[[Any], None],
        attributes: dict[str, Any] | None = None,
        name: str = "",
    ) -> None:
        self.read, self.write, self.attributes, self.name = read, write, attributes, name
        self.before: Any = read()

    def leads_to(self, kept: set[int]) -> bool:
        """Whether something that was not there before leads to one of those objects, by their ids."""
        old = set(map(id, _values(self.before)))
        return any(_leads_to(kept, x) for x in _values(self.read()) if id(x) not in old)

    def changed(self) -> str | None:
        """Return in words where a tensor, or what leads to some, has come or gone; None without."""
        before, now = (x if isinstance(x, dict) else dict(enumerate(x)) for x in (self.before, self.read()))
        for key in {**before, **now}:
            old, new = before.get(key, MISSING), now.get(key, MISSING)
            if old is not new and (_tensors(old) or _tensors(new)):
                return self.name.format(key) or "what a function or container holds"
        return None

    def traded(self) -> str | None:
        """Return in words where a tensor, or what leads to some, has made room for others; None without."""
        before, now = self.before, self.read()
        if not self.name or (len(now) == len(before) and all(map(is_, _all(before), _all(now)))):
            return None
        new = now if isinstance(now, dict) else dict(enumerate(now))
        for key, old in before.items() if isinstance(before, dict) else enumerate(before):
            found = _tensors(new.get(key)) if new.get(key) is not old else []
            if found and _tensors(old) not in ([], found):
                return self.name.format(key)
        return None


def _values(contents: Contents) -> Iterable[Any]:
    return contents.values() if isinstance(contents, dict) else contents


def _all(contents: Contents) -> Iterable[Any]:
    return chain(contents, contents.values()) if isinstance(contents, dict) else contents


class Places:
    """What a function reaches by its names, as it is now."""

    def __init__(self, f: Any, args: Sequence[Any] = ()) -> None:
        self.tensors: list[Tensor] = []
        self._places: list[Place] = []
        waiting, seen = [f, *args], set[int]()
        for x in waiting:  # which grows meanwhile
            if type(x) in weakref.ProxyTypes:  # whose object may be gone
                continue
            if _is(x, Tensor):
                self.tensors.append(x)
            if _is(x, _DATA) or id(x) in seen or len(seen) > MANY:
                continue
            seen.add(id(x))
            for place in _places(x):
                self._places.append(place)
                if len(place.before) < LONG:
                    waiting += _values(place.before)
            waiting += _behind(x)

    def put_back(self, made: Sequence[Made]) -> None:
        """Let what leads to values of a trace, or to other tensors, now hold what it held before."""
        kept = {id(x()) for x in made} - {id(None)}
        for place in self._places if kept else ():
            if place.leads_to(kept):
                place.write(place.before)
        for place in self._places:
            if place.traded() is not None:
                place.write(place.before)

    def refuse_changes(self, operation: str) -> None:
        """Raise CompileError where a tensor has come or gone, and put back what was there.

        The Python code of a body runs once, and not at each turn.
        """
        found = [(place, place.changed()) for place in self._places]
        if all(where is None for _, where in found):
            return
        for place, where in found:
            if where is not None:
                place.write(place.before)
        raise CompileError(
            "the body of a loop or branch gives a place outside of it another tensor",
            operation=operation,
            expected="a body that returns what it computes",
            found=f"a change of {next(where for _, where in found if where is not None)}",
            remedy="carry the value through the loop",
        )

    def put_back_own(self, attributes: Attributes) -> None:
        """Let attributes of modules hold what they held that the function has set before it read them."""
        objects = [(p.attributes, p.before) for p in self._places if p.attributes is not None]
        for now, before in objects:
            for name, value in list(now.items()):
                old = before.get(name, MISSING)
                if value is not old and _is(value, Tensor) and attributes.unread(now, name, old):
                    _put(now, name, old)

    def check(self, made: Sequence[Made]) -> None:
        """Raise CompileError where tensors are not where they were; put back what was there before.

        Those are values of a trace that are still there, or others that have traded places.
        """
        self._check_computed(made)
        where = next(filter(None, (place.traded() for place in self._places)), None)
        if where is None:
            return
        self.put_back(made)
        raise CompileError(
            "the function gives a place that holds a tensor another one, which the program cannot do",
            operation="compile",
            expected="each tensor where it is, written into where it changes",
            found=f"another tensor in {where}",
            remedy="write into the tensor that is there, name[...] = other, or return the other one",
        )

    def _check_computed(self, made: Sequence[Made]) -> None:
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
    return any(id(y) in kept for y in _reached(x, ()))


def _tensors(x: Any) -> list[int]:
    """Return the ids of the tensors that a value leads to, in the order in which they are found."""
    return [id(y) for y in _reached(x, _DATA) if _is(y, Tensor)]


def _reached(x: Any, ends: tuple[type, ...]) -> Iterator[Any]:
    """Yield what a value leads to, itself included; `ends` are types that are not looked into."""
    waiting, seen = [x], set[int]()
    for x in waiting:  # which grows meanwhile
        yield x
        if id(x) in seen or len(seen) > LONG or _is(x, (type, types.ModuleType, types.FrameType, *ends)):
            continue
        seen.add(id(x))
        waiting += _held(x) if _is(x, types.FunctionType) else gc.get_referents(x)


def _place(kept: list[Any]) -> str:
    """Return in words where values are; one look at all objects for each step on the way."""
    level, seen = kept, {id(kept)}
    for _ in range(FAR):
        ids, holders = set(map(id, level)), gc.get_referrers(*level)
        seen |= {id(level), id(holders)}
        level = [x for x in holders if id(x) not in seen and not _is(x, types.FrameType)]
        seen.update(map(id, level))
        found = next(filter(None, (_words(holder, ids) for holder in level)), None)
        if found is not None:
            return found
    return "an object"


def _words(holder: Any, ids: set[int]) -> str | None:
    """Return what holds an object, known by its id, in words; None for what is only on the way."""
    if _is(holder, types.CellType):
        return "a variable that a function keeps"
    if _is(holder, list):
        return f"item {[id(item) in ids for item in list.__iter__(holder)].index(True)} of a list"
    items = dict.items(holder) if _is(holder, dict) else _attributes_of(holder).items()
    slots = ((slot.__name__, x) for slot in _slots(holder) for x in _slot(holder, slot).before)
    for key, item in chain(items, slots):
        if id(item) in ids:
            return NAMED.format(key)
    return f"a {type(holder).__name__}" if _is(holder, (dict, set, deque)) else None


# Objects of the user's may answer in any way, or raise, when they are asked: they are not, only their types.


def _is(x: Any, kinds: Any) -> bool:
    return issubclass(type(x), kinds)


def _behind(x: Any) -> list[Any]:
    """Return what stands behind a callable, a reference or an object."""
    if _is(x, functools.partial):
        return [x.func, *x.args, *x.keywords.values()]
    if _is(x, types.MethodType):
        return [x.__func__, x.__self__]
    if _is(x, (staticmethod, classmethod)):
        return [x.__func__]
    if _is(x, property):
        return [x.fget, x.fset]
    if _is(x, weakref.ref):
        return [weakref.ref.__call__(x)]
    if _is(x, tuple):
        return [*tuple.__iter__(x)] if tuple.__len__(x) < LONG else []
    return [] if _is(x, (type, types.FunctionType, types.ModuleType)) else [type(x)]


def _places(x: Any) -> Iterator[Place]:
    """Yield the places in a function, a class, a container or an object."""
    if _is(x, (list, deque, set)):
        yield _sequence(x)
    elif _is(x, dict):
        yield _dict(x)
    elif _is(x, types.CellType):
        yield _cell(x)
    elif _is(x, types.FunctionType):
        if not _is_library(x.__module__):
            yield from _variables(x)
    elif _is(x, type):
        if not _is_library(_attributes_of(x).get("__module__")):
            yield _class(x)
    elif _is(x, _CACHE):
        yield _cache(x)
    elif not _is(x, types.ModuleType):
        yield from _of_object(x)


def _is_library(module: Any) -> bool:
    return not isinstance(module, str) or module.partition(".")[0] in _LIBRARIES


def _sequence(x: Any) -> Place:
    kind: Any = next(kind for kind in (list, deque, set) if _is(x, kind))

    def write(before: list[Any]) -> None:
        kind.clear(x)
        (set.update if kind is set else kind.extend)(x, before)

    name = "" if kind is set else f"item {{}} of a {kind.__name__}"
    return Place(lambda: [*kind.__iter__(x)], write, name=name)


def _dict(x: dict[Any, Any], attributes: dict[str, Any] | None = None) -> Place:
    kind = OrderedDict if _is(x, OrderedDict) else dict

    def write(before: dict[Any, Any]) -> None:
        kind.clear(x)
        for key, value in before.items():
            kind.__setitem__(x, key, value)

    return Place(lambda: dict(kind.items(x)), write, attributes, NAMED)


def _cell(x: types.CellType) -> Place:
    def read() -> list[Any]:
        try:
            return [x.cell_contents]
        except ValueError:  # it is not set
            return []

    def write(before: list[Any]) -> None:
        if before:
            x.cell_contents = before[0]
        else:
            del x.cell_contents

    return Place(read, write, name="a variable that a function keeps")


def _cache(x: Any) -> Place:
    """Return the results that `functools.lru_cache` keeps, which can only be forgotten."""
    return Place(
        lambda: [y for d in gc.get_referents(x) if type(d) is dict for y in d.values()],
        lambda _: x.cache_clear(),
    )


def _variables(f: types.FunctionType) -> Iterator[Place]:
    """Yield what a function holds, and the variables of its module and others that it names."""
    names = _names(f.__code__)
    yield Place(lambda: _held(f), lambda _: None)
    modules = [f.__globals__.get(name) for name in names]
    spaces = [_attributes_of(m) for m in modules if _is(m, types.ModuleType)]
    for space in (f.__globals__, *(s for s in spaces if not _is_library(s.get("__name__")))):
        for name in names:
            yield _variable(space, name)


def _held(f: types.FunctionType) -> list[Any]:
    return [*(f.__closure__ or ()), f.__defaults__, f.__kwdefaults__, f.__dict__]


def _variable(space: dict[str, Any], name: str) -> Place:
    return Place(
        lambda: [space[name]] if name in space else [],
        lambda before: _put(space, name, before[0] if before else MISSING),
        name=NAMED.format(name),
    )


def _put(space: dict[str, Any], name: str, value: Any) -> None:
    if value is MISSING:
        del space[name]
    else:
        space[name] = value


def _attributes_of(x: Any) -> Any:
    """Return an object's own attributes, in its dict where it has one."""
    look = type.__getattribute__ if _is(x, type) else object.__getattribute__
    try:
        found = look(x, "__dict__")
    except AttributeError:
        return _NOTHING
    return found if type(found) in (dict, types.MappingProxyType) else _NOTHING


def _class(x: type) -> Place:
    def write(before: dict[str, Any]) -> None:
        now = dict(_attributes_of(x))
        for name in now.keys() - before:
            type.__delattr__(x, name)
        for name, value in before.items():
            if now.get(name, MISSING) is not value:
                type.__setattr__(x, name, value)

    return Place(lambda: dict(_attributes_of(x)), write, name=NAMED)


def _of_object(x: Any) -> Iterator[Place]:
    """Yield the attributes of an object, in its dict and in slots."""
    attributes = _attributes_of(x)
    if type(attributes) is dict:
        yield _dict(attributes, attributes)
    yield from (_slot(x, slot) for slot in _slots(x))


def _slots(x: Any) -> list[types.MemberDescriptorType]:
    """Return the slots that classes of the user's give an object."""
    classes = [_attributes_of(kind) for kind in type.__getattribute__(type(x), "__mro__")]
    return [
        slot
        for kind in classes
        if "__slots__" in kind and not _is_library(kind.get("__module__"))
        for slot in kind.values()
        if type(slot) is types.MemberDescriptorType
    ]


def _slot(x: Any, slot: types.MemberDescriptorType) -> Place:
    def read() -> list[Any]:
        try:
            return [slot.__get__(x)]
        except AttributeError:  # it is not set
            return []

    def write(before: list[Any]) -> None:
        if before:
            slot.__set__(x, before[0])
        else:
            slot.__delete__(x)

    return Place(read, write, name=NAMED.format(slot.__name__))


@functools.lru_cache(maxsize=1024)
def _names(code: types.CodeType) -> frozenset[str]:
    """Return the names that a function, and those inside it, look up."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return frozenset(code.co_names).union(*map(_names, inner))
