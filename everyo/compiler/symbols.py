"""The values of a traced function, which only its program computes, and the tensors that stand for them."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from everyo.compiler.graph import Value
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import Traced
from everyo.errors import CompileError, describe
from everyo.guidance import Elsewhere
from everyo.guidance.tracing import untraced


class Number(Tensor):
    """A tensor that stands for a number of Python, whose hash would be that of its value."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(self.data.concrete("hash").item())

    def is_integer(self) -> Tensor:
        """Return whether the number is whole, as Python's floats tell."""
        return self % 1 == 0


for _name in ("bit_count", "bit_length", "hex", "to_bytes"):
    setattr(Number, _name, Elsewhere(_name, "numbers"))


def tensor_of(symbol: Symbol) -> Tensor:
    """Return the tensor that the traced function is given for a value."""
    if not symbol.weak:
        return wrap(symbol)
    number = Number()
    number.data = symbol
    number.grad_node = number.grad = None
    return number


class Symbol(Traced):
    """A value that a compiled program will compute: only its shape and dtype are known.

    `weak` marks what came of Python numbers alone: beside an array it takes the array's dtype.
    """

    __slots__ = ("value", "weak")

    def __init__(self, interpreter: Any, value: Value, weak: bool = False) -> None:
        self.interpreter, self.value, self.weak = interpreter, value, weak
        interpreter.made.append(weakref.ref(self))

    @property
    def below(self) -> Any:
        """An array of the shape and dtype that holds one zero: for those who ask what a tensor is like."""
        return stand_in(self.value)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self) -> Any:
        return self.value.dtype

    def concrete(self, operation: str) -> Any:
        tracer: Any = self.interpreter
        made = tracer.constant_array(self.value)
        if made is not None:
            return made
        raise CompileError(
            "the function asks for a value that exists only when the compiled program runs",
            operation=operation,
            inputs=describe(self),
            expected="shapes and dtypes, which are known while the function is traced",
            found=f"{operation}() of a computed tensor",
            remedy=untraced(operation),
        )


def stand_in(value: Any) -> Any:
    """Return an array of a value's shape and dtype, all of it one element, zero."""
    return np.broadcast_to(np.zeros((), value.dtype), tuple(value.shape))


def at_bottom(x: Any) -> Symbol | None:
    """Return the symbol on which a value of any transformations stands, or None."""
    while isinstance(x, (Tensor, Traced)) and not isinstance(x, Symbol):
        x = x.data if isinstance(x, Tensor) else x.below
    return x if isinstance(x, Symbol) else None
