"""Containers: modules made of modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self, overload

from everyo.errors import DTypeError, IndexingError
from everyo.nn.module import Module


class _Row(Module):
    """Modules in a row, registered under their positions."""

    def __len__(self) -> int:
        return len(self._row())

    def __iter__(self) -> Iterator[Module]:
        return iter(self._row().values())

    def _row(self) -> dict[str, Module]:
        return {k: v for k, v in self.__dict__.items() if isinstance(v, Module)}

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Module:
        row = list(self._row().items())
        if isinstance(index, slice):
            return self._of(dict(row[index]))
        if not -len(row) <= index < len(row):
            raise IndexingError(
                "there is no such module",
                operation=type(self).__name__,
                expected=f"-{len(row)} <= index < {len(row)}",
                found=str(index),
                remedy="append it first, or use a smaller index",
            )
        return row[index][1]

    def _of(self, row: dict[str, Module]) -> Self:
        """Return a container of the same kind with these modules."""
        raise NotImplementedError

    def append(self, module: Module) -> Self:
        """Add a module at the end; return the container."""
        self.add_module(str(len(self)), module)
        return self


class Sequential(_Row):
    """Modules applied one after the other.

    Parameters
    ----------
    *modules : Module, or one dict from name to Module
        In the order of application.

    Raises
    ------
    DTypeError
        If an element is no module.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nn.Sequential(eo.nn.Linear(4, 8), eo.nn.ReLU(), eo.nn.Linear(8, 2))
    Sequential(
      (0): Linear(in_features=4, out_features=8, bias=True)
      (1): ReLU()
      (2): Linear(in_features=8, out_features=2, bias=True)
    )
    """

    def __init__(self, *modules: Module | dict[str, Module]) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], dict):
            named: Iterable[tuple[str, Any]] = modules[0].items()
        else:
            named = ((str(i), module) for i, module in enumerate(modules))
        for name, module in named:
            _require_module(module, "Sequential")
            self.add_module(name, module)

    def _of(self, row: dict[str, Module]) -> Self:
        return type(self)(row)

    def forward(self, x: Any) -> Any:
        """Return the output of the last module."""
        for module in self:
            x = module(x)
        return x


class ModuleList(_Row):
    """A list of modules whose parameters are found; it has no `forward` of its own.

    Parameters
    ----------
    modules : iterable of Module
        The initial elements.

    Raises
    ------
    DTypeError
        If an element is no module.

    Examples
    --------
    >>> import everyo as eo
    >>> layers = eo.nn.ModuleList([eo.nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def _of(self, row: dict[str, Module]) -> Self:
        return type(self)(row.values())

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end; return the list."""
        for module in modules:
            _require_module(module, "ModuleList")
            self.append(module)
        return self


def _require_module(value: Any, operation: str) -> None:
    if not isinstance(value, Module):
        raise DTypeError(
            "every element must be a module",
            operation=operation,
            expected="a Module",
            found=type(value).__name__,
            remedy="wrap a plain function in a Module whose forward calls it",
        )
