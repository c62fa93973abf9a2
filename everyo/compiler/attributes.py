"""The attributes of modules that a traced function reads: what each one holds is part of the program.

While any function is traced, reading an attribute tells the tracer; at all other times classes are as they
were written. A call for which an attribute holds something else compiles another program.
"""

from __future__ import annotations

import weakref
from itertools import repeat
from operator import is_
from types import MemberDescriptorType
from typing import Any

from everyo.core.settings import kept, still, watched, while_traced
from everyo.core.tensor import Tensor
from everyo.core.traced import staging

MISSING = object()  # what stands for no attribute
_READ = "__getattribute__"


def _read(x: Any, name: str) -> Any:
    tracer = staging.get()
    if tracer is not None and (name == "__dict__" or not name.startswith("__")):
        tracer.attributes.looked(x, name)
    return object.__getattribute__(x, name)


def watch() -> None:
    """Let tracers know which attributes are read, and records which items."""
    for kind in watched:
        type.__setattr__(kind, _READ, _read)
    for owner, name, method in while_traced:
        type.__setattr__(owner, name, method)


def unwatch() -> None:
    """The counterpart of `watch`."""
    for kind in watched:
        if _READ in vars(kind):
            type.__delattr__(kind, _READ)
    for owner, name, _ in while_traced:
        if name in vars(owner):
            type.__delattr__(owner, name)


def _of_class(kind: type, name: str) -> Any:
    """Return what a class or one that it inherits from has under a name, as it stands there."""
    for each in kind.__mro__:
        if name in each.__dict__:
            return each.__dict__[name]
    return MISSING


def _in_slot(slot: Any, x: Any) -> Any:
    try:
        return slot.__get__(x)
    except AttributeError:
        return MISSING


def _of_trace(value: Any) -> bool:
    """Whether the function itself has put a value where it is."""
    return isinstance(value, Tensor) and bool(value.level)


class Note:
    """What a module held when it was read: attributes by name, and how many where all were looked at."""

    __slots__ = ("held", "kind", "module", "size", "slots")

    def __init__(self, x: Any) -> None:
        self.module, self.kind = weakref.ref(x), type(x)
        self.held: dict[str, Any] = {}
        self.slots: dict[str, tuple[Any, Any]] = {}  # what finds each value, and the value
        self.size: int | None = None

    def rest_holds(self, x: Any) -> bool:
        """Whether slots hold what they did, and as many attributes are there."""
        for slot, value in self.slots.values():
            if not still(_in_slot(slot, x), value):
                return False
        return self.size is None or len(x.__dict__) == self.size


class Classes:
    """What classes had under names that were looked up in them."""

    def __init__(self) -> None:
        self._held: dict[tuple[type, str], Any] = {}
        self._at_once: tuple[list[type], list[str], list[Any]] = [], [], []
        self._singly: list[tuple[type, str]] = []  # what changes in place, or is bound anew at each look

    def note(self, kind: type, name: str, found: Any) -> None:
        """Note what stands in a class under a name."""
        if (kind, name) in self._held:
            return
        value = self._held[kind, name] = kept(found)
        seen = getattr(kind, name, MISSING)
        if value is found and seen is getattr(kind, name, MISSING):
            kinds, names, values = self._at_once
            kinds.append(kind)
            names.append(name)
            values.append(seen)
        else:
            self._singly.append((kind, name))

    def hold(self) -> bool:
        """Whether all of it is there, which most often is told without a loop of Python's."""
        kinds, names, seen = self._at_once
        alike = all(map(is_, map(getattr, kinds, names, repeat(MISSING)), seen))
        return all(
            still(_of_class(*place), self._held[place]) for place in (self._singly if alike else self._held)
        )


class Attributes:
    """What one trace, with those of its bodies, has read of attributes.

    What a module that is gone has held no longer matters, as of those that the function made for itself.

    Attributes
    ----------
    owned : dict
        Records, of optimizers, that the function has made for itself, by their ids.
    """

    def __init__(self) -> None:
        self._notes: list[Note] = []
        self._of: dict[int, Note] = {}
        self._classes = Classes()  # what modules do not hold themselves
        self.owned: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return bool(self._notes)

    def looked(self, x: Any, name: str) -> None:
        """Note what an attribute holds before it is read; all of them where all are looked at."""
        holds = object.__getattribute__(x, "__dict__")
        note = self._of.get(id(x))
        if note is None or note.module() is not x:
            note = self._of[id(x)] = Note(x)
            self._notes.append(note)
        if name == "__dict__":
            if note.size is not None:  # what the function has added since is its own
                return
            note.size = len(holds)
        for each in tuple(holds) if name == "__dict__" else (name,):
            value = holds.get(each, MISSING)
            if not _of_trace(value):
                note.held.setdefault(each, kept(value))
        if name not in holds and name != "__dict__":
            self._looked_in_class(x, name, note)

    def _looked_in_class(self, x: Any, name: str, note: Note) -> None:
        """Note what a class has under a name: a method, a default, a slot."""
        found = _of_class(type(x), name)
        self._classes.note(type(x), name, found)
        if isinstance(found, MemberDescriptorType):
            value = _in_slot(found, x)
            if not _of_trace(value):
                note.slots.setdefault(name, (found, kept(value)))

    def unread(self, attributes: Any, name: Any, old: Any) -> bool:
        """Whether attributes are those of a module that was looked at, but not while this one was the old.

        What was read of it is forgotten then: it was what the function itself had put there.
        """
        for note in self._notes:
            x = note.module()
            if x is not None and x.__dict__ is attributes:
                if name in note.held and still(old, note.held[name]):
                    return False
                note.held.pop(name, None)
                return True
        return False

    def hold(self) -> bool:
        """Whether all attributes still hold what was read."""
        if not self._classes.hold():
            return False
        gone = False
        for note in self._notes:
            x = note.module()
            if x is None:
                gone = True
                continue
            if type(x) is not note.kind:
                return False
            now = x.__dict__
            for name, value in note.held.items():
                if not still(now.get(name, MISSING), value):
                    return False
            if (note.slots or note.size is not None) and not note.rest_holds(x):
                return False
        if gone:
            self._notes = [note for note in self._notes if note.module() is not None]
        return True
