"""The registry of primitives, and `op`, the namespace through which rules reach them."""

from __future__ import annotations

import _thread
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from everyo.core.traced import Traced
from everyo.errors import EveryOError, UnsupportedOperationError

if TYPE_CHECKING:
    from everyo.core.primitive import Primitive

    class Operations(ModuleType):
        """The primitives as attributes."""

        def __getattr__(self, name: str) -> Primitive: ...


_registry: dict[str, Primitive] = {}
_later: list[Callable[[], None]] = []
_tables: list[dict[type, Any]] = []
_tracing = 0
_guard = _thread.allocate_lock()


def define_later(define: Callable[[], None]) -> None:
    """Call `define`, which defines primitives, when one is missing or all are asked for.

    It may be called more than once.
    """
    _later.append(define)


def _define_all() -> None:
    for define in _later:
        define()


def _missing(name: str) -> Primitive:
    if name.startswith("__"):  # Python's own look-ups (inspect, copy) ask for what is not there
        raise AttributeError(name)
    _define_all()
    if name in _registry:
        return _registry[name]
    raise UnsupportedOperationError(
        "no such primitive",
        operation=name,
        expected="the name of a primitive",
        found=repr(name),
        remedy="see everyo.core.registry.primitives() for those that exist",
    )


# The primitives by name (``op.exp``), so that rules reach each other whatever the file order. A module
# object, because Python finds the attributes of no other kind of object as quickly.
_module: Any = ModuleType("op")
_module.__getattr__ = _missing
op: Operations = _module


def register(primitive: Primitive) -> None:
    """Enter `primitive` under its name; a second one of the same name is refused."""
    name = primitive.name
    if name in _registry:
        raise EveryOError(
            "a primitive of this name exists",
            operation=name,
            expected="a new name",
            found=repr(name),
            remedy="choose another name",
        )
    with _guard:
        _registry[name] = primitive
    op.__dict__[name] = primitive


def unregister(name: str) -> None:
    """Forget a primitive; for tests that define their own."""
    del _registry[name], op.__dict__[name]


def get_primitive(name: str) -> Primitive:
    """Return the primitive called `name`."""
    if name not in _registry:
        _define_all()
    return _registry[name]


def primitives() -> dict[str, Primitive]:
    """Return all primitives by name, in the order of their definition."""
    _define_all()
    return dict(_registry)


def forget_kernels() -> None:
    """Let no operation find its kernel at once, so that all come through `apply`: a function is traced.

    What a function that is compiled computes from captured tensors alone belongs to its program too.
    """
    global _tracing
    with _guard:
        _tracing += 1
        for primitive in _registry.values():
            primitive.kernels.clear()
        for table in _tables:
            table.clear()


def remember_kernels() -> None:
    """The counterpart of `forget_kernels`."""
    global _tracing
    with _guard:
        _tracing -= 1


def table_of_kernels() -> dict[type, Any]:
    """Return an empty table for `keep_kernel` that belongs to no primitive, and is forgotten as theirs."""
    table: dict[type, Any] = {}
    _tables.append(table)
    return table


def keep_kernel(kernels: dict[type, Any], kind: type, kernel: Any) -> None:
    """Let an operation find the kernel for a type of array at once, unless a function is traced."""
    with _guard:
        if not _tracing:
            kernels[kind] = kernel


def no_kernel(kernels: dict[type, Any], kind: type) -> Any:
    """Return None, and let the next look-up find it if `kind` is one of values inside transformations.

    A look-up that fails with an exception takes as long as ten others.
    """
    if issubclass(kind, Traced):
        keep_kernel(kernels, kind, None)
    return None
