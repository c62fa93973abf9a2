"""The attributes of modules that a traced function reads: what each one holds is part of the program.

While any function is traced, reading an attribute tells the tracer; at all other times classes are as they
were written. A call for which an attribute holds something else compiles another program.
"""

from __future__ import annotations

import weakref
from typing import Any

from everyo.core.settings import HOOKS, same_setting, watched
from everyo.core.tensor import Tensor
from everyo.core.traced import staging

_MISSING = object()
_READ = "__getattribute__"


def _read(x: Any, name: str) -> Any:
    tracer = staging.get()
    if tracer is not None and (name == "__dict__" or not name.startswith("__")):
        tracer.attributes.looked(x, name)
    return object.__getattribute__(x, name)


def watch() -> None:
    """Let tracers know which attributes are read."""
    for kind in watched:
        type.__setattr__(kind, _READ, _read)


def unwatch() -> None:
    """The counterpart of `watch`."""
    for kind in watched:
        if _READ in vars(kind):
            type.__delattr__(kind, _READ)


class Note:
    """What a module held when it was read: attributes by name, and how many where all were looked at."""

    __slots__ = ("held", "module", "size")

    def __init__(self, x: Any) -> None:
        self.module = weakref.ref(x)
        self.held: dict[str, Any] = {}
        self.size: int | None = None


def _kept(name: str, value: Any) -> Any:
    """Return what is noted of a value: of hooks, which change in place, their keys."""
    return [tuple(hooks) for hooks in value.values()] if name == HOOKS and type(value) is dict else value


class Attributes:
    """What one trace, with those of its bodies, has read of attributes.

    What a module that is gone has held no longer matters, as of those that the function made for itself.
    """

    def __init__(self) -> None:
        self._notes: list[Note] = []
        self._of: dict[int, Note] = {}

    def __bool__(self) -> bool:
        return bool(self._notes)

    def looked(self, x: Any, name: str) -> None:
        """Note what an attribute holds before it is read; all of them where all are looked at."""
        holds = object.__getattribute__(x, "__dict__")
        if name not in holds and name != "__dict__" and callable(getattr(type(x), name, None)):
            return  # a method
        note = self._of.get(id(x))
        if note is None or note.module() is not x:
            note = self._of[id(x)] = Note(x)
            self._notes.append(note)
        if name == "__dict__":
            if note.size is not None:  # what the function has added since is its own
                return
            note.size = len(holds)
        for each in tuple(holds) if name == "__dict__" else (name,):
            value = holds.get(each, _MISSING)
            if not (isinstance(value, Tensor) and value.level):  # which the function itself has put there
                note.held.setdefault(each, _kept(each, value))

    def hold(self) -> bool:
        """Whether all attributes still hold what was read."""
        gone = False
        for note in self._notes:
            x = note.module()
            if x is None:
                gone = True
                continue
            now = x.__dict__
            for name, value in note.held.items():
                found = now.get(name, _MISSING)
                if found is not value and not same_setting(_kept(name, found), value):
                    return False
            if note.size is not None and len(now) != note.size:
                return False
        if gone:
            self._notes = [note for note in self._notes if note.module() is not None]
        return True
