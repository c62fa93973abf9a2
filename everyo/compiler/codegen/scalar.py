"""Scalar functions: what each ``map`` does to the elements of its operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everyo.compiler import elementary
from everyo.compiler.codegen.text import Function, literal, type_of
from everyo.compiler.machine import vectors
from everyo.errors import CompileError

FLOAT = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
INTEGER = {"add": "add", "subtract": "sub", "multiply": "mul", "bitwise_and": "and", "bitwise_or": "or",
           "bitwise_xor": "xor"}  # fmt: skip
ORDERED = {"equal": "oeq", "not_equal": "une", "less": "olt", "less_equal": "ole", "greater": "ogt",
           "greater_equal": "oge"}  # fmt: skip
SIGNED = {"equal": "eq", "not_equal": "ne", "less": "slt", "less_equal": "sle", "greater": "sgt",
          "greater_equal": "sge"}  # fmt: skip
INTRINSICS = {"abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
              "round": "roundeven"}  # fmt: skip


def apply(f: Function, fn: str, operands: Sequence[str], source: Any, dtype: Any, apart: bool = False) -> str:
    """Write ``fn(*operands)``; `source` is the dtype of the last operand, `dtype` that of the result.

    A sum that is kept `apart` from the products it adds is not contracted with one of them.
    """
    source, dtype = np.dtype(source), np.dtype(dtype)
    rule = _RULES.get(fn)
    if rule is not None:
        return rule(f, operands, source, dtype)
    if fn in ORDERED:
        return compare(f, fn, operands[0], operands[1], source)
    kind = type_of(source)
    if source.kind == "f":
        if fn in FLOAT:
            flags = "" if apart else "contract "
            return f.pure(f"{FLOAT[fn]} {flags}{kind} {operands[0]}, {operands[1]}")
        if fn in INTRINSICS:
            return intrinsic(f, INTRINSICS[fn], source, *operands)
        return function(f, fn, source, *operands)
    if fn in INTEGER:
        if source.kind == "b":
            return f.pure(
                f"{ {'add': 'or', 'multiply': 'and'}.get(fn, INTEGER[fn]) } i1 {operands[0]}, {operands[1]}"
            )
        return f.pure(f"{INTEGER[fn]} {kind} {operands[0]}, {operands[1]}")
    if fn in ("floor", "ceil", "trunc", "round"):
        return operands[0]
    raise missing(fn, source)


def products_of(dtype: Any) -> tuple[str, str]:
    """Return the instructions that multiply factors and add up the products; those of floats may fuse."""
    return ("fmul contract", "fadd contract") if dtype.kind == "f" else ("mul", "add")


def missing(fn: str, dtype: Any) -> CompileError:
    """Return the error for a scalar function that does not exist for a dtype."""
    return CompileError(
        "the code generator has no such function",
        operation=fn,
        expected="a scalar function of the table",
        found=f"{fn} of {dtype}",
        remedy="this is a fault of EveryO: please report it",
    )


def function(f: Function, fn: str, dtype: Any, *operands: str) -> str:
    """Call an elementary function."""
    suffix = f"{dtype.kind}{8 * dtype.itemsize}"
    if not elementary.is_known(fn):
        raise missing(fn, dtype)
    f.needs.add((fn, suffix))
    kind = type_of(dtype)
    arguments = ", ".join(f"{kind} {x}" for x in operands)
    return f.pure(f"call {kind} {elementary.symbol(fn, suffix)}({arguments})")


def is_called(fn: str) -> bool:
    """Whether a scalar function is a call of an elementary one, not a few instructions."""
    return fn not in INTRINSICS and fn not in _RULES and elementary.is_known(fn)


def in_vectors(f: Function, fn: str, dtype: Any, rows: Sequence[Sequence[str]]) -> list[str]:
    """Call an elementary function for each row of operands, on as many at once as the processor has lanes.

    LLVM's own search for what may share a vector ends in short vectors where these operands are made or
    read in different ways.
    """
    kind, suffix = type_of(dtype), f"{dtype.kind}{8 * dtype.itemsize}"
    f.needs.add((fn, suffix))
    found: list[str] = []
    while len(found) < len(rows):
        part = rows[len(found) : len(found) + vectors().size // dtype.itemsize]
        lanes = 1 << (len(part) - 1).bit_length()
        if lanes == 1:
            found.append(function(f, fn, dtype, *part[0]))
            continue
        type = f"<{lanes} x {kind}>"
        padded = [*part, *[part[-1]] * (lanes - len(part))]
        operands = ", ".join(f"{type} {_packed(f, type, kind, column)}" for column in zip(*padded))
        result = f.pure(f"call {type} {elementary.symbol(fn, suffix)}.v{lanes}({operands})")
        found += [f.pure(f"extractelement {type} {result}, i64 {i}") for i in range(len(part))]
    return found


def _packed(f: Function, type: str, kind: str, elements: Sequence[str]) -> str:
    """Return a vector of elements."""
    vector = "poison"
    for i, x in enumerate(elements):
        vector = f.pure(f"insertelement {type} {vector}, {kind} {x}, i64 {i}")
    return vector


def intrinsic(f: Function, name: str, dtype: Any, *operands: str) -> str:
    """Call an intrinsic of LLVM on floats."""
    kind, suffix = type_of(dtype), f"{np.dtype(dtype).kind}{8 * np.dtype(dtype).itemsize}"
    symbol = f"@llvm.{name}.{suffix}"
    f.declares.add(f"declare {kind} {symbol}({', '.join([kind] * len(operands))})")
    return f.pure(f"call {kind} {symbol}({', '.join(f'{kind} {x}' for x in operands)})")


def compare(f: Function, fn: str, a: str, b: str, dtype: Any) -> str:
    """Compare two elements."""
    kind = type_of(dtype)
    if dtype.kind == "f":
        return f.pure(f"fcmp {ORDERED[fn]} {kind} {a}, {b}")
    predicate = SIGNED[fn]
    if dtype.kind in "ub" and predicate[0] == "s":
        predicate = "u" + predicate[1:]
    return f.pure(f"icmp {predicate} {kind} {a}, {b}")


def select(f: Function, condition: str, a: str, b: str, dtype: Any) -> str:
    """Choose between two elements."""
    kind = type_of(dtype)
    if condition in ("true", "false"):
        return a if condition == "true" else b
    return a if a == b else f.pure(f"select i1 {condition}, {kind} {a}, {kind} {b}")


def absorbing(f: Function, a: str, b: str, dtype: Any) -> str:
    """Multiply; a factor of exactly zero wins over an infinity."""
    product = apply(f, "multiply", [a, b], dtype, dtype)
    if dtype.kind != "f":
        return product
    zero = literal(0, dtype)
    void = [
        f.pure(
            f"and i1 {compare(f, 'equal', x, zero, dtype)}, {apply(f, 'isinf', [y], dtype, np.dtype(bool))}"
        )
        for x, y in ((a, b), (b, a))
    ]
    return select(f, f.pure(f"or i1 {void[0]}, {void[1]}"), zero, product, dtype)


def _extreme(fn: str) -> Callable[..., str]:
    """NumPy's maximum and minimum: a NaN wins, whichever operand it is."""

    def rule(f: Function, x: Sequence[str], source: Any, dtype: Any) -> str:
        a, b = x
        if source.kind != "f":
            return select(f, compare(f, "greater" if fn == "maximum" else "less", a, b, source), a, b, source)
        kind = type_of(source)
        order = "gt" if fn == "maximum" else "lt"
        if a.startswith("0x") and not b.startswith("0x"):
            a, b = b, a
        if b in (literal(math.nan, source), literal(-math.nan, source)):
            return b
        if b.startswith("0x"):  # a number: only the other one can be NaN
            return select(f, f.pure(f"fcmp u{order} {kind} {a}, {b}"), a, b, source)
        larger = f.pure(f"fcmp o{order[0]}e {kind} {a}, {b}")
        nan = f.pure(f"fcmp uno {kind} {a}, {a}")
        return select(f, f.pure(f"or i1 {larger}, {nan}"), a, b, source)

    return rule


def _where(f: Function, x: Sequence[str], source: Any, dtype: Any) -> str:
    return select(f, x[0], x[1], x[2], dtype)


def _negative(f: Function, x: Sequence[str], source: Any, dtype: Any) -> str:
    kind = type_of(source)
    return f.pure(f"fneg {kind} {x[0]}" if source.kind == "f" else f"sub {kind} 0, {x[0]}")


def _abs(f: Function, x: Sequence[str], source: Any, dtype: Any) -> str:
    if source.kind == "f":
        return intrinsic(f, "fabs", source, x[0])
    if source.kind != "i":
        return x[0]
    return select(f, compare(f, "less", x[0], "0", source), _negative(f, x, source, dtype), x[0], source)


def _sign(f: Function, x: Sequence[str], source: Any, dtype: Any) -> str:
    if source.kind == "b":
        raise missing("sign", source)
    zero, one, minus = (literal(v, source) for v in (0, 1, -1))
    rest = f.pure(f"fadd {type_of(source)} {x[0]}, {zero}") if source.kind == "f" else x[0]  # 0.0 for -0.0
    above = select(f, compare(f, "greater", x[0], zero, source), one, rest, source)
    if source.kind == "u":
        return above
    return select(f, compare(f, "less", x[0], zero, source), minus, above, source)


def _logical(operation: str) -> Callable[..., str]:
    return lambda f, x, source, dtype: f.pure(f"{operation} i1 {x[0]}, {x[1]}")


def _logical_not(f: Function, x: Sequence[str], source: Any, dtype: Any) -> str:
    return f.pure(f"xor i1 {x[0]}, true")


def _isnan(f: Function, x: Sequence[str], source: Any, dtype: Any) -> str:
    return f.pure(f"fcmp uno {type_of(source)} {x[0]}, {x[0]}")


def _against_infinity(predicate: str) -> Callable[..., str]:
    def rule(f: Function, x: Sequence[str], source: Any, dtype: Any) -> str:
        size = intrinsic(f, "fabs", source, x[0])
        return f.pure(f"fcmp {predicate} {type_of(source)} {size}, {literal(np.inf, source)}")

    return rule


def _signbit(f: Function, x: Sequence[str], source: Any, dtype: Any) -> str:
    bits = f"i{8 * source.itemsize}"
    return f.pure(f"icmp slt {bits} {f.pure(f'bitcast {type_of(source)} {x[0]} to {bits}')}, 0")


def _power_of_two(f: Function, x: Sequence[str], source: Any, dtype: Any) -> str:
    """Return the power of two at or below a positive number: its exponent alone."""
    bits = f"i{8 * source.itemsize}"
    mask = 0x7FF0000000000000 if source.itemsize == 8 else 0x7F800000
    kept = f.pure(f"and {bits} {f.pure(f'bitcast {type_of(source)} {x[0]} to {bits}')}, {mask}")
    power = f.pure(f"bitcast {bits} {kept} to {type_of(source)}")
    tiny = literal(np.finfo(source).tiny, source)
    return select(f, compare(f, "less", x[0], tiny, source), tiny, power, source)


def _divide(f: Function, x: Sequence[str], source: Any, dtype: Any) -> str:
    return f.pure(f"fdiv {type_of(source)} {x[0]}, {x[1]}")


def _rsqrt(f: Function, x: Sequence[str], source: Any, dtype: Any) -> str:
    return f.pure(f"fdiv {type_of(source)} {literal(1, source)}, {intrinsic(f, 'sqrt', source, x[0])}")


def _integer_quotient(f: Function, a: str, b: str, source: Any) -> tuple[str, str]:
    """Return quotient and remainder as C has them, and 0 for a division by zero."""
    kind, zero = type_of(source), "0"
    by_zero = compare(f, "equal", b, zero, source)
    unsafe = by_zero
    if source.kind == "i":
        unsafe = f.pure(f"or i1 {by_zero}, {compare(f, 'equal', b, '-1', source)}")
    safe = select(f, unsafe, "1", b, source)
    divide, rest = ("sdiv", "srem") if source.kind == "i" else ("udiv", "urem")
    quotient = f.pure(f"{divide} {kind} {a}, {safe}")
    remainder = f.pure(f"{rest} {kind} {a}, {safe}")
    if source.kind == "i":
        quotient = select(
            f, compare(f, "equal", b, "-1", source), f.pure(f"sub {kind} 0, {a}"), quotient, source
        )
    return select(f, by_zero, zero, quotient, source), select(f, by_zero, zero, remainder, source)


def _signs_differ(f: Function, rest: str, b: str, source: Any) -> str:
    """Whether a remainder is not zero and has another sign than the divisor."""
    zero = literal(0, source)
    signs = f.pure(f"xor i1 {compare(f, 'less', rest, zero, source)}, {compare(f, 'less', b, zero, source)}")
    return f.pure(f"and i1 {compare(f, 'not_equal', rest, zero, source)}, {signs}")


def _remainder(f: Function, x: Sequence[str], source: Any, dtype: Any) -> str:
    """Python's remainder, which has the sign of the divisor."""
    a, b = x
    if source.kind == "f":
        rest = f.pure(f"frem {type_of(source)} {a}, {b}")
        zero = literal(0, source)
        wrong = _signs_differ(f, rest, b, source)
        moved = select(f, wrong, f.pure(f"fadd {type_of(source)} {rest}, {b}"), rest, source)
        signed = intrinsic(f, "copysign", source, zero, b)
        return select(f, compare(f, "equal", rest, zero, source), signed, moved, source)
    rest = _integer_quotient(f, a, b, source)[1]
    if source.kind != "i":
        return rest
    wrong = _signs_differ(f, rest, b, source)
    return select(f, wrong, f.pure(f"add {type_of(source)} {rest}, {b}"), rest, source)


def _floor_divide(f: Function, x: Sequence[str], source: Any, dtype: Any) -> str:
    """Python's quotient, rounded down."""
    a, b = x
    if source.kind == "f":
        return _float_quotient(f, a, b, source)
    quotient, rest = _integer_quotient(f, a, b, source)
    if source.kind != "i":
        return quotient
    down = _signs_differ(f, rest, b, source)
    return select(f, down, f.pure(f"sub {type_of(source)} {quotient}, 1"), quotient, source)


def _float_quotient(f: Function, a: str, b: str, source: Any) -> str:
    """The whole number that, times the divisor, leaves the remainder; -1 for a finite number by -inf, too."""
    kind, one = type_of(source), literal(1, source)
    rest = f.pure(f"frem {kind} {a}, {b}")
    towards_zero = f.pure(f"fdiv {kind} {f.pure(f'fsub {kind} {a}, {rest}')}, {b}")
    below = f.pure(f"fsub {kind} {towards_zero}, {one}")
    quotient = select(f, _signs_differ(f, rest, b, source), below, towards_zero, source)
    whole = intrinsic(f, "roundeven", source, quotient)
    plain = f.pure(f"fdiv {kind} {a}, {b}")
    none = compare(f, "equal", whole, literal(0, source), source)
    whole = select(f, none, intrinsic(f, "copysign", source, literal(0, source), plain), whole, source)
    return select(f, compare(f, "equal", b, literal(0, source), source), plain, whole, source)


def _shift(operation: str) -> Callable[..., str]:
    def rule(f: Function, x: Sequence[str], source: Any, dtype: Any) -> str:
        kind, bits = type_of(source), 8 * source.itemsize
        arithmetic = "ashr" if source.kind == "i" else "lshr"
        name = "shl" if operation == "left" else arithmetic
        inside = f.pure(f"icmp ult {kind} {x[1]}, {bits}")
        amount = select(f, inside, x[1], "0" if operation == "left" else str(bits - 1), source)
        shifted = f.pure(f"{name} {kind} {x[0]}, {amount}")
        if operation == "left" or source.kind == "u":
            return select(f, inside, shifted, "0", source)
        return shifted

    return rule


def _cast(f: Function, x: Sequence[str], source: Any, dtype: Any) -> str:
    if source == dtype:
        return x[0]
    a, b = type_of(source), type_of(dtype)
    match source.kind, dtype.kind:
        case "f", "f":
            return f.pure(f"{'fpext' if dtype.itemsize > source.itemsize else 'fptrunc'} {a} {x[0]} to {b}")
        case "f", "b":
            return f.pure(f"fcmp une {a} {x[0]}, {literal(0, source)}")
        case "f", _:
            return _float_to_integer(f, x[0], source, dtype)
        case ("i", "f"):
            return f.pure(f"sitofp {a} {x[0]} to {b}")
        case ("u" | "b", "f"):
            return f.pure(f"uitofp {a} {x[0]} to {b}")
        case _, "b":
            return f.pure(f"icmp ne {a} {x[0]}, 0")
        case _:
            if dtype.itemsize == source.itemsize and source.kind != "b":
                return x[0]
            if dtype.itemsize < source.itemsize:
                return f.pure(f"trunc {a} {x[0]} to {b}")
            return f.pure(f"{'sext' if source.kind == 'i' else 'zext'} {a} {x[0]} to {b}")


def _float_to_integer(f: Function, x: str, source: Any, dtype: Any) -> str:
    """Truncate; through 64 bits, as what does not fit wraps around, and NaN becomes the smallest number."""
    a = type_of(source)
    if dtype == np.dtype(np.uint64):  # what has the highest bit is converted without it
        half = literal(2.0**63, source)
        large = f.pure(f"fcmp oge {a} {x}, {half}")
        low = _float_to_integer(f, f.pure(f"fsub {a} {x}, {half}"), source, np.dtype(np.int64))
        high = f.pure(f"xor i64 {low}, {-(2**63)}")
        return select(f, large, high, _float_to_integer(f, x, source, np.dtype(np.int64)), dtype)
    inside = f.pure(f"fcmp olt {a} {intrinsic(f, 'fabs', source, x)}, {literal(2.0**63, source)}")
    safe = select(f, inside, x, literal(0, source), source)
    whole = f.pure(f"fptosi {a} {safe} to i64")
    wide = f.pure(f"select i1 {inside}, i64 {whole}, i64 {-(2**63)}")
    return _cast(f, [wide], np.dtype(np.int64), dtype)


_RULES: dict[str, Callable[..., str]] = {
    "maximum": _extreme("maximum"),
    "minimum": _extreme("minimum"),
    "where": _where,
    "negative": _negative,
    "abs": _abs,
    "sign": _sign,
    "logical_and": _logical("and"),
    "logical_or": _logical("or"),
    "logical_xor": _logical("xor"),
    "logical_not": _logical_not,
    "isnan": _isnan,
    "isinf": _against_infinity("oeq"),
    "isfinite": _against_infinity("olt"),
    "signbit": _signbit,
    "power_of_two": _power_of_two,
    "divide": _divide,
    "rsqrt": _rsqrt,
    "remainder": _remainder,
    "floor_divide": _floor_divide,
    "left_shift": _shift("left"),
    "right_shift": _shift("right"),
    "cast": _cast,
}
