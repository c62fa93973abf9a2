"""The registry of primitives, and `op`, the namespace through which rules reach them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everyo.errors import EveryOError, UnsupportedOperationError

if TYPE_CHECKING:
    from everyo.core.primitive import Primitive

_registry: dict[str, Primitive] = {}


class Operations:
    """The primitives by name (``op.exp``), so that rules reach each other whatever the file order."""

    def __getattr__(self, name: str) -> Primitive:
        if name.startswith("__"):  # Python's own look-ups (inspect, copy) ask for what is not there
            raise AttributeError(name)
        raise UnsupportedOperationError("no such primitive", operation=name, found=repr(name))


op = Operations()


def register(primitive: Primitive) -> None:
    """Enter `primitive` under its name; a second one of the same name is refused."""
    name = primitive.name
    if name in _registry:
        raise EveryOError("a primitive of this name exists", operation=name, remedy="choose another name")
    _registry[name] = primitive
    op.__dict__[name] = primitive


def unregister(name: str) -> None:
    """Forget a primitive; for tests that define their own."""
    del _registry[name], op.__dict__[name]


def get_primitive(name: str) -> Primitive:
    """Return the primitive called `name`."""
    return _registry[name]


def primitives() -> dict[str, Primitive]:
    """Return all primitives by name, in the order of their definition."""
    return dict(_registry)
