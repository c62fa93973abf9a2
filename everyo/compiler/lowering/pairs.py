"""Complex numbers as pairs of real values: the code generator knows real numbers alone.

Inside of a graph a complex value is two values, its real and its imaginary parts. In memory, where inputs,
outputs, kernels and the states of loops are, the parts of each number lie side by side, as NumPy has them:
one value of real numbers with a last axis of length 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from everyo.compiler.graph import Op, Value
from everyo.compiler.lowering.builder import Builder, is_uniform

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
PARTS: dict[Any, Any] = {np.dtype(np.complex64): SINGLE, np.dtype(np.complex128): DOUBLE}
COMPLEX: dict[Any, Any] = {part: whole for whole, part in PARTS.items()}


class Pair(NamedTuple):
    """The real and the imaginary parts of a complex value."""

    re: Value
    im: Value

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self.re.shape

    @property
    def dtype(self) -> Any:
        """The complex dtype."""
        return COMPLEX[self.re.dtype]


Operand = Value | Pair
PairRule = Callable[..., Any]
PAIRS: dict[str, PairRule] = {}


def pairing(*names: str) -> Callable[[PairRule], PairRule]:
    """Enter a function as the lowering of some primitives where complex numbers take part.

    It is called with the builder, the operation and its operands, and returns results, as other lowerings
    do; a complex one is a `Pair`.
    """

    def enter(function: PairRule) -> PairRule:
        for name in names:
            PAIRS[name] = function
        return function

    return enter


def lying(value: Value) -> tuple[tuple[int, ...], Any]:
    """Return shape and dtype of what a value of a traced graph is in memory."""
    if value.dtype in PARTS:
        return (*value.shape, 2), PARTS[value.dtype]
    return value.shape, value.dtype


def in_memory(b: Builder, operand: Operand) -> Value:
    """Return an operand as it is in memory."""
    return b.interleave(*operand) if isinstance(operand, Pair) else operand


def taken(b: Builder, value: Value, like: Value) -> Operand:
    """Return what lies in memory as what a value of a traced graph is in a graph of core operations."""
    return Pair(b.part(value, 0), b.part(value, 1)) if like.dtype in PARTS else value


def constant(b: Builder, array: Any) -> Operand:
    """Return a value that is part of the program."""
    if array.dtype not in PARTS:
        return b.constant(array)
    if array.size == 1 or (array.size > 1 and is_uniform(array)):
        first = array.flat[0]
        return Pair(*(b.fill(part, array.shape, PARTS[array.dtype]) for part in (first.real, first.imag)))
    parts = np.ascontiguousarray(array).view(PARTS[array.dtype]).reshape(*array.shape, 2)
    return taken(b, b.constant(parts), Value(array.shape, array.dtype))


def paired(op: Op) -> tuple[int, ...]:
    """Return which operands and results of an operation, counted together, are complex."""
    return tuple(i for i, v in enumerate([*op.inputs, *op.outs]) if v is not None and v.dtype in PARTS)


def lower_pairs(b: Builder, op: Op, operands: Sequence[Operand | None]) -> Sequence[Operand] | None:
    """Return what the lowering of an operation on complex numbers makes; None where there is none."""
    rule = PAIRS.get(op.name)
    dtypes = {v.dtype for v in (*op.operands, *op.outs)}
    if rule is None or not all(d in PARTS or d.kind in "biu" or d in COMPLEX for d in dtypes):
        return None
    found = rule(b, op, *operands)
    if found is None:
        return None
    results: list[Operand] = [found] if isinstance(found, (Value, Pair)) else list(found)
    for old, new in zip(op.outs, results, strict=True):
        assert (old.shape, old.dtype) == (new.shape, new.dtype), (op.name, old.type, new.shape, new.dtype)
    return results
