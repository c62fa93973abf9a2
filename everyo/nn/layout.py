"""Modules as pytrees: the parameters of a model are leaves, and a `Layout` is what stands around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from everyo.core.copying import same_value
from everyo.core.ownership import as_changeable
from everyo.core.settings import kept, same_setting
from everyo.core.tensor import Tensor
from everyo.nn.parameter import Parameter

if TYPE_CHECKING:
    from everyo.nn.module import Module

PLACES = "_places"  # in a rebuilt module: a token for each name that holds a leaf, whatever the leaf is
_LEAF, _BUFFER, _CHILD, _SETTING = "parameter", "buffer", "module", "setting"
_Part = tuple[str, str, Any]  # name, kind, and the number of the leaf or module, or the value


class Layout:
    """Classes, names, settings and buffers of a module and all below it, and who shares which leaf.

    Two are equal if classes and names are, and if the same parameters and modules are shared; settings,
    such as `training`, and buffers are not compared.

    Attributes
    ----------
    leaves : list
        The parameters, each once, in the order of `named_parameters`. Emptied by whoever takes them.
    names : list of str
        The first dotted name of each leaf.
    """

    def __init__(self, root: Module) -> None:
        self.leaves: list[Any] = []
        self.names: list[str] = []
        self._leaf_numbers: dict[int, int] = {}
        self._module_numbers: dict[int, int] = {}
        self._modules: list[tuple[type[Module], list[_Part]]] = []
        self._visit(root, "")
        self._signature = tuple(
            (kind, tuple(part for part in parts if part[1] is not _SETTING)) for kind, parts in self._modules
        )

    def _visit(self, module: Module, prefix: str) -> int:
        """Take a module apart, parameters first; return its number."""
        if id(module) in self._module_numbers:
            return self._module_numbers[id(module)]
        number = self._module_numbers[id(module)] = len(self._modules)
        parts: list[_Part] = []
        self._modules.append((type(module), parts))
        children = []
        for name, kind, value in self._parts(module):
            if kind is _LEAF or kind is _BUFFER:
                value = self._leaf(module, name, value, prefix)
            elif kind is _CHILD:
                children.append((len(parts), value))
            parts.append((name, kind, value))
        for place, child in children:
            name = parts[place][0]
            parts[place] = (name, _CHILD, self._visit(child, f"{prefix}{name}."))
        return number

    def _parts(self, module: Module) -> Iterator[_Part]:
        return _parts(module)

    def _leaf(self, module: Module, name: str, value: Any, prefix: str) -> int:
        """Return the number of a leaf, known by its token in a rebuilt module, else by itself."""
        identity = id(vars(module).get(PLACES, {}).get(name, value))
        if identity not in self._leaf_numbers:
            self._leaf_numbers[identity] = len(self.leaves)
            self.leaves.append(value)
            self.names.append(prefix + name)
        return self._leaf_numbers[identity]

    def build(self, leaves: Sequence[Any]) -> Any:
        """Return a new module around new leaves; its modules, and tensors beside the leaves, are copies."""
        tokens = [object() for _ in leaves]
        made: list[Module] = [object.__new__(kind) for kind, _ in self._modules]
        copies: dict[int, Tensor] = {}
        for module, (_, parts) in zip(made, self._modules, strict=True):
            attributes, places = vars(module), {}
            for name, kind, value in parts:
                if kind is _LEAF:
                    attributes[name], places[name] = leaves[value], tokens[value]
                elif kind is _BUFFER:
                    attributes[name] = leaves[value]
                else:
                    attributes[name] = made[value] if kind is _CHILD else _copied(value, copies)
            if places:
                attributes[PLACES] = places
        return made[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._signature == other._signature

    def __hash__(self) -> int:
        return hash(self._signature)

    def __repr__(self) -> str:
        return ", ".join(self.names)


class Exact(Layout):
    """A layout in which buffers are leaves and settings count: two that are equal make the same program."""

    def __init__(self, root: Module) -> None:
        super().__init__(root)
        found = [
            (i, name, value)
            for i, (_, parts) in enumerate(self._modules)
            for name, kind, value in parts
            if kind is _SETTING
        ]
        self._settings = [(i, name) for i, name, _ in found]
        self._kept = [kept(value) for _, _, value in found]  # which may change in place

    def _parts(self, module: Module) -> Iterator[_Part]:
        for name, kind, value in _parts(module):
            yield name, _BUFFER if kind is _SETTING and type(value) is Tensor else kind, value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Exact)
            and self._signature == other._signature
            and self._settings == other._settings
            and all(map(same_setting, self._kept, other._kept))
        )

    __hash__ = Layout.__hash__


def _parts(module: Module) -> Iterator[_Part]:
    from everyo.nn.module import Module  # which needs this file

    places = vars(module).get(PLACES, {})
    for name, value in vars(module).items():
        if name == PLACES:
            continue
        leaf = name in places or isinstance(value, Parameter)
        yield name, _LEAF if leaf else _CHILD if isinstance(value, Module) else _SETTING, value


def _copied(value: Any, copies: dict[int, Tensor]) -> Any:
    """Return a setting so that changes of the new module in place do not reach the old one."""
    if type(value) is dict:  # names of buffers, hooks
        return {k: _copied(v, copies) for k, v in value.items()}
    if type(value) is not Tensor:
        return value
    if id(value) not in copies:
        copies[id(value)] = as_changeable(same_value(value), value)
    return copies[id(value)]
