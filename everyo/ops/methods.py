"""Attaches the operators and array methods to `Tensor`, from tables of the operations they call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everyo.core.device import backend_of
from everyo.core.dispatch import WEAK, apply, binary, unary
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.ops import elementwise, shape  # noqa: F401 - the operations must be defined first
from everyo.core.tensor import Tensor

BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip
COMPARISONS = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
UNARY = {"neg": "negative", "abs": "abs", "pos": "positive", "invert": "bitwise_invert"}


def _operand(value: Any) -> bool:
    """Whether an operator accepts `value` on its other side."""
    return isinstance(value, Tensor) or type(value) in WEAK or isinstance(value, (list, tuple)) or (
        backend_of(value) is not None
    )


def _operator(primitive: Primitive, reflected: bool) -> Callable[[Tensor, Any], Any]:
    if reflected:

        def method(self: Tensor, other: Any) -> Any:
            return binary(primitive, other, self) if _operand(other) else NotImplemented

    else:

        def method(self: Tensor, other: Any) -> Any:
            if isinstance(other, Tensor) or _operand(other):
                return binary(primitive, self, other)
            return NotImplemented

    return method


def _in_place(primitive: Primitive) -> Callable[[Tensor, Any], Any]:
    def method(self: Tensor, other: Any) -> Any:
        if not _operand(other):
            return NotImplemented
        self.assign(binary(primitive, self, other))
        return self

    return method


def _unary(primitive: Primitive) -> Callable[[Tensor], Any]:
    def method(self: Tensor) -> Any:
        return unary(primitive, self)

    return method


def _attach(name: str, method: Callable[..., Any]) -> None:
    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    setattr(Tensor, name, method)


def attach() -> None:
    """Give `Tensor` its operators."""
    known = op.__dict__
    for name, operation in BINARY.items():
        if operation in known:
            _attach(f"__{name}__", _operator(known[operation], reflected=False))
            _attach(f"__r{name}__", _operator(known[operation], reflected=True))
            _attach(f"__i{name}__", _in_place(known[operation]))
    for name, operation in COMPARISONS.items():
        if operation in known:
            _attach(f"__{name}__", _operator(known[operation], reflected=False))
    for name, operation in UNARY.items():
        if operation in known:
            _attach(f"__{name}__", _unary(known[operation]))
    Tensor.__hash__ = object.__hash__  # type: ignore[method-assign]


attach()
