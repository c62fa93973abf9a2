"""Settings: what objects such as modules hold beside tensors, and who wants to know when they are read."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections import deque
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any

from everyo.core.keys import typed

SIMPLE = (bool, int, float, complex, str, bytes, type(None))
_PLAIN = frozenset(SIMPLE)

# Classes whose attributes are part of a program where the function that is compiled reads them.
watched: list[Any] = []

# Methods that classes have only while a function is traced: class, name and method.
while_traced: list[tuple[type, str, Any]] = []


class Snapshot:
    """What an object that may change in place holds now, itself made of what does not change."""

    __slots__ = ("items", "kind")

    def __init__(self, kind: type, items: tuple[Any, ...]) -> None:
        self.kind, self.items = kind, items


def kept(value: Any, above: tuple[int, ...] = ()) -> Any:
    """Return what tells later whether a setting still means the same: the setting, or a `Snapshot` of it.

    Containers, arrays and dataclasses may change in place. All else is known by itself. `above` are the
    containers around it.
    """
    kind: Any = type(value)
    way = _way(kind)
    if way is None:
        return value
    items = way(value, above)
    return value if items is value else Snapshot(kind, items)  # a tuple of numbers and texts


def same_setting(a: Any, b: Any) -> bool:
    """Whether two settings that were `kept` mean the same: one object, or equal numbers, texts, snapshots."""
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind is Snapshot:
        return a.kind is b.kind and same_setting(a.items, b.items)
    if kind is tuple:
        return len(a) == len(b) and (all(map(is_, a, b)) or all(map(same_setting, a, b)))
    return (kind in _PLAIN or kind is frozenset) and bool(typed(a) == typed(b))


def still(now: Any, before: Any) -> bool:
    """Whether a setting means what it did when it was `kept`."""
    return now is before or same_setting(kept(now), before)


_Way = Callable[[Any, tuple[int, ...]], tuple[Any, ...]]


@functools.cache
def _way(kind: Any) -> _Way | None:
    """Return what lists what a class's objects hold; None where they are known by themselves."""
    if kind in _PLAIN or hasattr(kind, "tree_flatten"):
        return None
    if issubclass(kind, (list, tuple, deque)):
        return lambda value, above: _each(value, value, above)
    if issubclass(kind, dict):
        return lambda value, above: _each(value, (*value, *value.values()), above)
    if issubclass(kind, (set, frozenset)):
        return lambda value, _: (frozenset(value),)
    if issubclass(kind, bytearray):
        return lambda value, _: (bytes(value),)
    if dataclasses.is_dataclass(kind) or issubclass(kind, types.SimpleNamespace):
        return lambda value, above: _each(value, _attributes(value), above)
    if hasattr(kind, "tobytes") and hasattr(kind, "dtype"):
        return _array
    return None


def _attributes(value: Any) -> Iterable[Any]:
    """Return names and values of the attributes of a dataclass or namespace."""
    fields = getattr(value, "__dataclass_fields__", ())  # which may be slots
    found = {name: getattr(value, name, None) for name in fields} | getattr(value, "__dict__", {})
    return *found, *found.values()


def _array(value: Any, above: tuple[int, ...]) -> tuple[Any, ...]:
    """Return dtype, shape and elements of an array."""
    elements = kept(value.tolist(), above) if value.dtype.hasobject else value.tobytes()
    return value.dtype.str, *value.shape, elements


def _each(owner: Any, values: Iterable[Any], above: tuple[int, ...]) -> tuple[Any, ...]:
    """Return what is kept of the items of a container; of one that holds itself, how far above it is."""
    found = tuple(values)
    if _PLAIN.issuperset(map(type, found)):
        return found
    if id(owner) in above:
        return (above.index(id(owner)),)
    return tuple([kept(value, (*above, id(owner))) for value in found])
