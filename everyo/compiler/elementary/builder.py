"""Expressions that write LLVM IR: `x * y + c` on values becomes one line of text for each operation.

A function of this package is a Python function on `Value`s. Calling it with a fresh argument writes the
body of an LLVM function; helpers are ordinary Python calls, so that each definition is complete in itself
and has no control flow. Equal operations on equal operands are written once. The same expressions write
functions of numbers and functions of vectors.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Number: TypeAlias = int | float
Operand: TypeAlias = "Value | int | float"
Functions: TypeAlias = "dict[str, Callable[..., Value]]"  # by the name that a caller uses

FLOATS = {"f64": "double", "f32": "float"}
_INTEGER = {"double": "i64", "float": "i32"}
_FLOAT = {"i64": "double", "i32": "float"}
_SUFFIX = {"double": "f64", "float": "f32"}
MANTISSA = {"double": 52, "float": 23}  # stored bits
BIAS = {"double": 1023, "float": 127}


def bits_of(number: float, kind: str = "double") -> int:
    """Return the bit pattern of `number` as a float of type `kind`."""
    if kind == "double":
        return int(struct.unpack("<q", struct.pack("<d", number))[0])
    return int(struct.unpack("<i", struct.pack("<f", number))[0])


def literal(number: Number, kind: str) -> str:
    """Return `number` as a constant of the LLVM type `kind`, floats by their bits."""
    if kind == "i1":
        return "true" if number else "false"
    if kind.startswith("i"):
        return str(int(number))
    rounded = float(number)
    if kind == "float":  # LLVM writes a float by the bits of the double of the same value
        rounded = struct.unpack("<f", struct.pack("<f", rounded))[0]
    return f"0x{bits_of(rounded) & (2**64 - 1):016X}"


class Code:
    """The lines of one function under construction, and what it needs from outside.

    Each value is a vector of so many `lanes`, or a number where that is 1.
    """

    def __init__(self, lanes: int = 1) -> None:
        self.lanes = lanes
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.globals: dict[str, str] = {}  # name -> text of a constant or of a helper function
        self._known: dict[str, str] = {}

    def type(self, kind: str) -> str:
        """Return the LLVM type of the values of a kind."""
        return kind if self.lanes == 1 else f"<{self.lanes} x {kind}>"

    def constant(self, number: Number, kind: str) -> str:
        """Return a number as an operand."""
        text = literal(number, kind)
        return text if self.lanes == 1 else f"splat ({kind} {text})"

    def emit(self, text: str, kind: str) -> Value:
        """Write ``%n = text`` unless that stands already, and return the value."""
        name = self._known.get(text)
        if name is None:
            name = self._known[text] = f"%v{len(self.lines)}"
            self.lines.append(f"  {name} = {text}")
        return Value(self, kind, name)

    def call(self, name: str, kind: str, *arguments: Value, attributes: str = "") -> Value:
        """Call the function `name`, which returns `kind`."""
        values = ", ".join(f"{a.type} {a.name}" for a in arguments)
        return self.emit(f"call {self.type(kind)} {name}({values}){attributes}", kind)

    def table(self, name: str, numbers: Sequence[Number], kind: str = "double") -> str:
        """Define a constant array and return its symbol."""
        symbol = f"@eo.{name}"
        values = ", ".join(f"{kind} {literal(x, kind)}" for x in numbers)
        self.globals[symbol] = f"{symbol} = internal constant [{len(numbers)} x {kind}] [{values}]"
        return symbol

    def load(self, table: str, index: Value, kind: str = "double") -> Value:
        """Return the entry of a table at the 64-bit integer `index`, which must lie in it."""
        place = self.emit(f"getelementptr {kind}, ptr {table}, i64 {index.name}", "ptr")
        return self.emit(f"load {kind}, ptr {place.name}", kind)

    def funnel_shift(self, high: Value, low: Value, count: Value) -> Value:
        """Return the upper half of two 64-bit integers in a row, shifted left by less than 64."""
        self.declared.add("declare i64 @llvm.fshl.i64(i64, i64, i64)")
        return self.call("@llvm.fshl.i64", "i64", high, low, count)

    def leading_zeros(self, x: Value) -> Value:
        """Return the number of zeros in front of a 128-bit integer."""
        self.declared.add("declare i128 @llvm.ctlz.i128(i128, i1)")
        return self.emit(f"call i128 @llvm.ctlz.i128(i128 {x.name}, i1 false)", "i128")

    def intrinsic(self, name: str, *arguments: Value) -> Value:
        """Call an LLVM intrinsic that returns the type of its arguments, and declare it."""
        kind = arguments[0].kind
        symbol = f"@llvm.{name}.{'' if self.lanes == 1 else f'v{self.lanes}'}{_SUFFIX[kind]}"
        self.declared.add(f"declare {self.type(kind)} {symbol}({', '.join(a.type for a in arguments)})")
        return self.call(symbol, kind, *arguments)


class Value:
    """A number or vector of the type `kind`: the name of an LLVM register, or a constant."""

    __slots__ = ("code", "kind", "name")

    def __init__(self, code: Code, kind: str, name: str) -> None:
        self.code, self.kind, self.name = code, kind, name

    def like(self, other: Operand) -> Value:
        """Return `other` as a value of this value's type."""
        if isinstance(other, Value):
            assert other.kind == self.kind, f"{other.kind} where {self.kind} is needed"
            return other
        return Value(self.code, self.kind, self.code.constant(other, self.kind))

    @property
    def type(self) -> str:
        """The LLVM type."""
        return self.code.type(self.kind)

    @property
    def single(self) -> bool:
        """Whether this is a 32-bit float."""
        return self.kind == "float"

    @property
    def is_float(self) -> bool:
        return self.kind in _SUFFIX

    def _binary(self, float_op: str, int_op: str, other: Operand, swapped: bool = False) -> Value:
        left, right = (self.like(other), self) if swapped else (self, self.like(other))
        op = float_op if self.is_float else int_op
        return self.code.emit(f"{op} {self.type} {left.name}, {right.name}", self.kind)

    def __add__(self, other: Operand) -> Value:
        return self._binary("fadd", "add", other)

    def __radd__(self, other: Operand) -> Value:
        return self._binary("fadd", "add", other, swapped=True)

    def __sub__(self, other: Operand) -> Value:
        return self._binary("fsub", "sub", other)

    def __rsub__(self, other: Operand) -> Value:
        return self._binary("fsub", "sub", other, swapped=True)

    def __mul__(self, other: Operand) -> Value:
        return self._binary("fmul", "mul", other)

    def __rmul__(self, other: Operand) -> Value:
        return self._binary("fmul", "mul", other, swapped=True)

    def __truediv__(self, other: Operand) -> Value:
        return self._binary("fdiv", "sdiv", other)

    def __rtruediv__(self, other: Operand) -> Value:
        return self._binary("fdiv", "sdiv", other, swapped=True)

    def __neg__(self) -> Value:
        return self.code.emit(f"fneg {self.type} {self.name}", self.kind)

    def __and__(self, other: Operand) -> Value:
        return self._binary("", "and", other)

    def __or__(self, other: Operand) -> Value:
        return self._binary("", "or", other)

    def __xor__(self, other: Operand) -> Value:
        return self._binary("", "xor", other)

    def __invert__(self) -> Value:
        return self ^ (1 if self.kind == "i1" else -1)

    def __lshift__(self, other: Operand) -> Value:
        return self._binary("", "shl", other)

    def __rshift__(self, other: Operand) -> Value:
        """Shift right with zeros: vectors of 64-bit integers have no other shift before AVX-512."""
        return self._binary("", "lshr", other)

    def _compare(self, float_op: str, int_op: str, other: Operand) -> Value:
        op = f"fcmp {float_op}" if self.is_float else f"icmp {int_op}"
        return self.code.emit(f"{op} {self.type} {self.name}, {self.like(other).name}", "i1")

    def __lt__(self, other: Operand) -> Value:
        return self._compare("olt", "slt", other)

    def __gt__(self, other: Operand) -> Value:
        return self._compare("ogt", "sgt", other)

    def __le__(self, other: Operand) -> Value:
        return self._compare("ole", "sle", other)

    def __ge__(self, other: Operand) -> Value:
        return self._compare("oge", "sge", other)

    def equals(self, other: Operand) -> Value:
        return self._compare("oeq", "eq", other)

    def differs(self, other: Operand) -> Value:
        return self._compare("une", "ne", other)

    def is_nan(self) -> Value:
        return self.code.emit(f"fcmp uno {self.type} {self.name}, {self.name}", "i1")

    def bits(self) -> Value:
        """Return the bits of a float as an integer."""
        kind = _INTEGER[self.kind]
        return self.code.emit(f"bitcast {self.type} {self.name} to {self.code.type(kind)}", kind)

    def real(self) -> Value:
        """Return the float whose bits this integer is."""
        kind = _FLOAT[self.kind]
        return self.code.emit(f"bitcast {self.type} {self.name} to {self.code.type(kind)}", kind)

    def widened(self, kind: str) -> Value:
        """Return this integer with zeros in front."""
        return self.code.emit(f"zext {self.kind} {self.name} to {kind}", kind)

    def narrowed(self, kind: str) -> Value:
        """Return the low bits of this integer."""
        return self.code.emit(f"trunc {self.kind} {self.name} to {kind}", kind)

    def as_integer(self) -> Value:
        """Return this double, a whole number, as an integer: not in vectors."""
        return self.code.emit(f"fptosi double {self.name} to i64", "i64")

    def as_double(self) -> Value:
        """Return this integer without sign, converted: not in vectors, which AVX2 converts slowly."""
        return self.code.emit(f"uitofp {self.kind} {self.name} to double", "double")

    def double(self) -> Value:
        """Return this float as a double."""
        if self.kind == "double":
            return self
        return self.code.emit(f"fpext {self.type} {self.name} to {self.code.type('double')}", "double")

    def float(self) -> Value:
        """Return this float, rounded to 32 bits."""
        if self.kind == "float":
            return self
        return self.code.emit(f"fptrunc {self.type} {self.name} to {self.code.type('float')}", "float")


def fma(x: Value, y: Operand, z: Operand) -> Value:
    """Return ``x * y + z`` with one rounding."""
    return x.code.intrinsic("fma", x, x.like(y), x.like(z))


def select(condition: Value, x: Operand, y: Operand) -> Value:
    """Return `x` where `condition` holds, else `y`; at least one is a value."""
    model = x if isinstance(x, Value) else y
    assert isinstance(model, Value)
    x, y = model.like(x), model.like(y)
    return x.code.emit(
        f"select {condition.type} {condition.name}, {x.type} {x.name}, {x.type} {y.name}", x.kind
    )


def fabs(x: Value) -> Value:
    return x.code.intrinsic("fabs", x)


def copysign(x: Operand, sign: Value) -> Value:
    return sign.code.intrinsic("copysign", sign.like(x), sign)


def sqrt(x: Value) -> Value:
    return x.code.intrinsic("sqrt", x)


def floor(x: Value) -> Value:
    return x.code.intrinsic("floor", x)


def rint(x: Value) -> Value:
    """Return the nearest integer, the even one of two."""
    return x.code.intrinsic("rint", x)


def at_most(x: Value, bound: Operand) -> Value:
    """Return the smaller, and NaN for NaN."""
    return select(x > bound, bound, x)


def at_least(x: Value, bound: Operand) -> Value:
    """Return the larger, and NaN for NaN."""
    return select(x < bound, bound, x)


def polynomial(x: Value, coefficients: Sequence[Number]) -> Value:
    """Return the polynomial with `coefficients`, constant term first, by Horner's rule."""
    result: Operand = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        result = fma(x.like(result), x, c)
    return x.like(result)


def by_type(x: Value, double: Any, single: Any) -> Any:
    """Return what belongs to the type of `x`."""
    return single if x.single else double
