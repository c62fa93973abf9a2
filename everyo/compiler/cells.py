"""Cells: what a function reaches from outside, tensors, gradients, items; read and written at each call."""

from __future__ import annotations

import operator
from collections import deque
from typing import Any

import numpy as np

from everyo.compiler.states import Call
from everyo.core.modes import current_mode
from everyo.core.operands import WEAK
from everyo.core.tape import Node
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import Traced
from everyo.errors import UnsupportedOperationError


class Cell:
    """Something outside of the function, known by a key.

    Attributes
    ----------
    key : hashable
        What tells it from all others.
    tensor : Tensor or None
        The tensor that holds its value now, where one does.
    """

    __slots__ = ("key",)

    def __init__(self, *key: Any) -> None:
        self.key = key

    @property
    def tensor(self) -> Tensor | None:
        return None

    def get(self) -> Any:
        """Return the array that is there now, or None."""
        raise NotImplementedError

    def writing(self, array: Any, node: Node | None = None) -> list[Call]:
        """Return what puts a result there, which may not be computed yet, with its place in a graph."""
        raise NotImplementedError

    def owns(self, array: Any) -> bool:
        """Whether an array itself is there, so that a program may write its result into it."""
        return False


class DataCell(Cell):
    """A tensor's own array.

    Attributes
    ----------
    node : bool or None
        Of one that is written: whether what the function reaches from outside gives it a graph then. None
        where it keeps the node that it has, as a parameter does.
    """

    __slots__ = ("node", "x")

    def __init__(self, x: Tensor) -> None:
        super().__init__("data", id(x))
        self.x = x
        self.node: bool | None = None

    @property
    def tensor(self) -> Tensor:
        return self.x

    def get(self) -> Any:
        return self.x.data

    def writing(self, array: Any, node: Node | None = None) -> list[Call]:
        x = self.x
        if isinstance(array, Traced):  # its transformation gives the old value back, with an error
            array.interpreter.adopt(x, x.data, x.grad_node)
        calls: list[Call] = [] if x.data is array else [(setattr, x, "data", array)]
        if self.node is None:
            return calls
        changes = current_mode().changes
        if node is not None and changes is not None:
            changes.note(x)
        return [*calls, (setattr, x, "grad_node", node)]

    def owns(self, array: Any) -> bool:
        return self.x.data is array


class GradientCell(Cell):
    """The gradient that a tensor holds.

    Attributes
    ----------
    node : bool
        Of one that is written: whether it has a graph, as ``backward(create_graph=True)`` makes it.
    """

    __slots__ = ("node", "x")

    def __init__(self, x: Tensor) -> None:
        super().__init__("grad", id(x))
        self.x, self.node = x, False

    @property
    def tensor(self) -> Tensor | None:
        return self.x.grad

    def get(self) -> Any:
        return None if self.x.grad is None else self.x.grad.data

    def writing(self, array: Any, node: Node | None = None) -> list[Call]:
        _require_array(array)
        gradient = wrap(array)
        gradient.grad_node = node if self.node else None
        return [(setattr, self.x, "grad", gradient)]


class ItemCell(Cell):
    """An item of a dict: a number or an array. The dict's own methods are passed by: a trace changes them."""

    __slots__ = ("container", "find", "is_number", "kind", "place")

    def __init__(self, container: Any, place: Any) -> None:
        super().__init__("item", id(container), place)
        self.container, self.place = container, place
        self.find: Any = dict.get.__get__(container)
        self.kind = type(self.find(place))
        self.is_number = self.kind in WEAK

    def get(self) -> Any:
        found = self.find(self.place)
        return np.asarray(found) if type(found) is self.kind else None

    def writing(self, array: Any, node: Node | None = None) -> list[Call]:
        _require_array(array)
        if not self.is_number:
            return [] if self.owns(array) else [(dict.__setitem__, self.container, self.place, array)]
        number = map(operator.methodcaller("item"), (array,))  # asked for when it is put there
        return [(deque, map(dict.__setitem__, (self.container,), (self.place,), number), 0)]

    def owns(self, array: Any) -> bool:
        return self.find(self.place) is array


class OuterCell(Cell):
    """A value of an enclosing trace, which a body reads."""

    __slots__ = ("x",)

    def __init__(self, x: Tensor) -> None:
        super().__init__("traced", id(x.data))
        self.x = x

    @property
    def tensor(self) -> Tensor:
        return self.x

    def get(self) -> Any:
        return self.x.data


def _require_array(array: Any) -> None:
    if isinstance(array, Traced):
        name = array.interpreter.name
        raise UnsupportedOperationError(
            "a compiled function that changes what is outside of it runs inside a transformation",
            operation=name,
            expected="a function without side effects",
            found="a gradient or the state of an optimizer that would be written",
            remedy=f"compile the whole: eo.compile around {name}, or leave the function uncompiled",
        )
