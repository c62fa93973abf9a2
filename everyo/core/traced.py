"""Values inside a transformation: a tensor's `data` is then a `Traced` value instead of an array.

Transformations nest by level. A value of a level holds values of the levels below, down to arrays, and
an operation is processed by the interpreter of its highest operand, which calls the same operation on
the level below. No kernel takes a `Traced` value, so the eager path never has to ask for one.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from everyo.errors import GraphStateError, UnsupportedOperationError, describe

if TYPE_CHECKING:
    from everyo.core.primitive import Primitive
    from everyo.core.tensor import Tensor

_depth: ContextVar[int] = ContextVar("everyo_depth", default=0)
depth = _depth.get
batches: ContextVar[tuple[Any, ...]] = ContextVar("everyo_batches", default=())  # the vmaps that run


class Interpreter:
    """One running transformation; a context manager around the call of the function it transforms.

    Attributes
    ----------
    level : int
        How deep it is nested, from 1.
    active : bool
        Whether its function still runs.
    """

    name = "transformation"

    def __init__(self) -> None:
        self.level = depth() + 1
        self.active = False
        self._token: Any = None
        self._adopted: list[tuple[weakref.ref[Tensor], Any, Any]] = []

    def process(self, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply `primitive` to operands of which at least one belongs to this level."""
        raise NotImplementedError

    def mine(self, x: Any) -> bool:
        """Whether a tensor is a value of this level."""
        data = getattr(x, "data", None)
        return isinstance(data, Traced) and data.interpreter is self

    def refuse_foreign(self, primitive: Primitive, inputs: Sequence[Any]) -> None:
        """Raise GraphStateError for a value that outlived the transformation it belongs to."""
        for x in inputs:
            data = getattr(x, "data", None)
            if isinstance(data, Traced) and not data.interpreter.active:
                raise GraphStateError(
                    f"a value outlived the {data.interpreter.name} that it belongs to",
                    operation=primitive.name,
                    inputs=describe(x),
                    expected="values that the function was given, made or captured",
                    found="a tensor kept from a call that has ended",
                    remedy="return it from the function instead of keeping it",
                )

    def adopt(self, x: Tensor, data: Any, node: Any) -> None:
        """Remember what a tensor of a lower level was before it took a value of this one in place."""
        self._adopted.append((weakref.ref(x), data, node))

    def __enter__(self) -> Any:
        self._token = _depth.set(self.level)
        self.active = True
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        _depth.reset(self._token)
        self.active = False
        adopted, self._adopted = self._adopted, []
        changed = 0
        for reference, data, node in adopted:
            x = reference()
            if x is not None and self.mine(x):
                x.data, x.grad_node = data, node
                changed += 1
        if changed and error is None:
            raise UnsupportedOperationError(
                f"the function changed {changed} captured tensor(s) in place",
                operation=self.name,
                expected="a function without side effects on tensors from outside",
                found="an in-place statement on a captured tensor, which has its old value again",
                remedy="return the new value, or work on a copy: y = x.clone()",
            )

    def released(self, x: Any) -> Any:
        """Return a result of the function, and let go of the object if it adopted its value."""
        self._adopted = [entry for entry in self._adopted if entry[0]() is not x]
        return x


class Traced:
    """A value of an interpreter's level. Subclasses say what it consists of."""

    __slots__ = ("__weakref__", "interpreter")

    interpreter: Interpreter

    @property
    def level(self) -> int:
        """The level it belongs to."""
        return self.interpreter.level

    @property
    def below(self) -> Any:
        """The value of a lower level that gives shape, dtype and backend: an array or a tensor."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return tuple(self.below.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.below.dtype

    def concrete(self, operation: str) -> Any:
        """Return the value as an array or a tensor of the level below, for `item`, `numpy`, `bool`."""
        return self.below


def top_of(values: Sequence[Any]) -> Traced | None:
    """Return the value of the highest level among tensors' data, or None if all are arrays."""
    found: Traced | None = None
    for value in values:
        if isinstance(value, Traced) and (found is None or value.level > found.level):
            found = value
    return found


def innermost(x: Tensor) -> Any:
    """Return the array at the bottom of a tensor, for checks of values: under `vmap` the whole batch."""
    from everyo.core.tensor import Tensor  # which needs this module

    data = x.data
    while isinstance(data, (Traced, Tensor)):
        data = data.below if isinstance(data, Traced) else data.data
    return data
