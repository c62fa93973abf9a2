"""Lowerings of primitives on complex numbers, each in real operations on the two parts."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from everyo.compiler.graph import Op, Value
from everyo.compiler.lowering.builder import Builder, scalar_of
from everyo.compiler.lowering.complex_functions import exponential, logarithm, root
from everyo.compiler.lowering.elementwise import LARGEST, select
from everyo.compiler.lowering.pairs import PARTS, Operand, Pair, pairing
from everyo.compiler.lowering.reductions import axes_of, centred, spread
from everyo.compiler.lowering.table import LOWERINGS

# Primitives that do to each of the two parts what they do to real numbers, with the number of operands, from
# the first one on, of which that holds (None: all); the others are indices.
EACH: dict[str, int | None] = {
    **dict.fromkeys(
        ("add", "subtract", "negative", "positive", "stop_gradient", "severed", "alias", "copy", "to_device",
         "zeros_like", "ravel", "reshape", "broadcast_to", "transpose", "matrix_transpose", "diagonal",
         "trace", "flip", "repeat", "roll", "tril", "triu", "concat", "stack", "fill_blocks", "delay",
         "sliding_windows", "overlap_add", "window_view", "cumsum", "differences", "spread_differences",
         "sum", "sum_to")
    ),
    "getitem": 1, "take_along_axis": 1, "scatter_along_axis": 1, "delete": 1, "index_update": 2, "insert": 2,
}  # fmt: skip


def parts(b: Builder, operand: Operand, dtype: Any) -> Pair:
    """Return an operand as a complex value with parts of a dtype."""
    if isinstance(operand, Pair):
        return Pair(b.cast(operand.re, dtype), b.cast(operand.im, dtype))
    return Pair(b.cast(operand, dtype), b.fill(0, operand.shape, dtype))


def both(b: Builder, operand: Operand) -> Pair:
    """Return an operand as a complex value, with parts of the dtype that it has."""
    return operand if isinstance(operand, Pair) else Pair(operand, b.fill(0, operand.shape, operand.dtype))


def matched(b: Builder, op: Op, operands: Sequence[Operand], dtype: Any) -> list[Pair]:
    """Return operands in the shape of the result, with parts of a dtype."""
    pairs = [parts(b, v, dtype) for v in operands]
    return [Pair(*(b.broadcast_to(x, op.out.shape) for x in pair)) for pair in pairs]


def real_op(op: Op, **params: Any) -> Op:
    """Return an operation like another one, on real numbers."""
    made = Op(op.name, op.inputs, op.params | params)
    made.primitive = op.primitive
    made.outs = [Value(v.shape, PARTS.get(v.dtype, v.dtype), made) for v in op.outs]
    return made


def each(
    b: Builder, op: Op, operands: Sequence[Any], count: int | None = None, rule: Any = None
) -> Operand | None:
    """Return what the lowering of a primitive makes of the real parts, and of the imaginary ones.

    If the result is real, it is made of the real parts alone.
    """
    real = real_op(op)
    rule = LOWERINGS[op.name] if rule is None else rule
    pairs = [
        (v, v) if v is None or (count is not None and i >= count) else both(b, v)
        for i, v in enumerate(operands)
    ]
    re = rule(b, real, *(pair[0] for pair in pairs))
    if op.out.dtype not in PARTS or re is None:
        return re
    return Pair(re, rule(b, real, *(pair[1] for pair in pairs)))


@pairing(*EACH)
def _each(b: Builder, op: Op, *operands: Any) -> Operand | None:
    return each(b, op, operands, EACH[op.name])


@pairing("assemble")
def _assemble(b: Builder, op: Op, *operands: Any) -> Operand | None:
    return each(b, op, operands, len(op.params["indices"]))


@pairing("pad")
def _pad(b: Builder, op: Op, x: Pair) -> Pair:
    value = complex(op.params["value"])
    padded = zip(x, (value.real, value.imag), strict=True)
    return Pair(*(LOWERINGS["pad"](b, real_op(op, value=fill), part) for part, fill in padded))


@pairing("ones_like")
def _ones(b: Builder, op: Op, x: Operand) -> Pair:
    return both(b, b.fill(1, op.out.shape, PARTS[op.out.dtype]))


@pairing("where")
def _where(b: Builder, op: Op, condition: Operand, x1: Operand, x2: Operand) -> Operand:
    holds = truth(b, condition)
    if op.out.dtype not in PARTS:  # numbers have taken the dtype of the condition
        return select(b, op, holds, *(v.re if isinstance(v, Pair) else v for v in (x1, x2)))
    pairs = zip(*(parts(b, v, PARTS[op.out.dtype]) for v in (x1, x2)), strict=True)
    return Pair(*(select(b, real_op(op), holds, *pair) for pair in pairs))


@pairing("mean")
def _mean(b: Builder, op: Op, x: Pair) -> Pair:
    """The sum over the number of elements as a complex number, as NumPy divides it."""
    total = each(b, op, [x], rule=LOWERINGS["sum"])
    assert isinstance(total, Pair)
    count = x.re.size // op.out.size if op.out.size else 0
    dtype = total.re.dtype
    if not count:
        return Pair(*(b.fill(math.nan, op.out.shape, dtype) for _ in range(2)))
    return quotient(b, total, both(b, b.fill(count, op.out.shape, dtype)))


@pairing("var")
def _var(b: Builder, op: Op, x: Pair) -> Value:
    return b.map("add", *(LOWERINGS["var"](b, op, part) for part in x))


@pairing("std")
def _std(b: Builder, op: Op, x: Pair) -> Value:
    axes = axes_of(op, x.re)
    return spread(b, op, b.map("hypot", *(centred(b, part, axes) for part in x)), axes)


@pairing("vector_norm")
def _vector_norm(b: Builder, op: Op, x: Pair) -> Value | None:
    norm: Value | None = LOWERINGS["vector_norm"](b, op, b.map("hypot", *x))
    return norm


# ---- parts


@pairing("real", "imag")
def _part(b: Builder, op: Op, x: Pair) -> Value:
    return x.re if op.name == "real" else x.im


@pairing("conj")
def _conj(b: Builder, op: Op, x: Pair) -> Pair:
    return Pair(x.re, b.map("negative", x.im))


@pairing("abs")
def _abs(b: Builder, op: Op, x: Pair) -> Value:
    return b.map("hypot", *x)


@pairing("angle")
def _angle(b: Builder, op: Op, x: Pair) -> Value:
    return b.map("atan2", x.im, x.re)


@pairing("astype")
def _astype(b: Builder, op: Op, x: Operand) -> Operand:
    if op.out.dtype in PARTS:
        return parts(b, x, PARTS[op.out.dtype])
    assert isinstance(x, Pair)
    return truth(b, x) if op.out.dtype.kind == "b" else b.cast(x.re, op.out.dtype)


@pairing("sign")
def _sign(b: Builder, op: Op, x: Pair) -> Pair:
    """A number over its size; beside one infinite part the other one is nothing."""
    zero, half = b.constant(0, x.re.dtype), b.constant(np.finfo(x.re.dtype).max / 2, x.re.dtype)
    large = b.map("logical_or", *(b.map("greater", b.map("abs", part), half) for part in x))
    scale = b.map("where", large, b.constant(0.5, x.re.dtype), b.constant(1, x.re.dtype))
    x = Pair(*(b.map("multiply", part, scale) for part in x))  # the size itself may overflow
    size = b.map("hypot", *x)
    infinite, nothing = b.map("isinf", size), b.map("equal", size, zero)
    found = []
    for part in x:
        limit = b.map("where", b.map("isinf", part), b.map("sign", part), zero)
        share = b.map("where", nothing, zero, b.map("divide", part, size))
        found.append(b.map("where", infinite, limit, share))
    undefined = b.map("logical_and", *(b.map("isinf", part) for part in x))
    return Pair(*(b.map("where", undefined, b.constant(math.nan, x.re.dtype), part) for part in found))


# ---- questions


def truth(b: Builder, x: Operand) -> Value:
    """Return whether each element differs from zero."""
    if not isinstance(x, Pair):
        return x if x.dtype.kind == "b" else b.map("not_equal", x, b.constant(0, x.dtype))
    zero = b.constant(0, x.re.dtype)
    return b.map("logical_or", *(b.map("not_equal", part, zero) for part in x))


@pairing("logical_and", "logical_or", "logical_xor", "logical_not", "all", "any", "count_nonzero")
def _logical(b: Builder, op: Op, *operands: Operand) -> Any:
    return LOWERINGS[op.name](b, op, *(truth(b, v) for v in operands))


@pairing("isnan", "isinf", "isfinite")
def _predicate(b: Builder, op: Op, x: Pair) -> Value:
    return b.map(
        "logical_and" if op.name == "isfinite" else "logical_or", *(b.map(op.name, part) for part in x)
    )


def _compared(b: Builder, op: Op, x1: Operand, x2: Operand) -> list[Pair]:
    return matched(b, op, (x1, x2), PARTS[np.result_type(x1.dtype, x2.dtype)])


@pairing("equal", "not_equal")
def _equal(b: Builder, op: Op, x1: Operand, x2: Operand) -> Value:
    x, y = _compared(b, op, x1, x2)
    joined = "logical_and" if op.name == "equal" else "logical_or"
    return b.map(joined, b.map(op.name, x.re, y.re), b.map(op.name, x.im, y.im))


@pairing("less", "less_equal", "greater", "greater_equal")
def _ordered(b: Builder, op: Op, x1: Operand, x2: Operand) -> Value:
    """By the real parts, then by the imaginary ones; NaN in one of these is in no order."""
    x, y = _compared(b, op, x1, x2)
    sound = b.map("logical_not", b.map("logical_or", b.map("isnan", x.im), b.map("isnan", y.im)))
    first = b.map("logical_and", b.map(op.name.removesuffix("_equal"), x.re, y.re), sound)
    second = b.map("logical_and", b.map("equal", x.re, y.re), b.map(op.name, x.im, y.im))
    return b.map("logical_or", first, second)


# ---- arithmetic


def _arithmetic(b: Builder, op: Op, *operands: Operand) -> list[Pair]:
    return matched(b, op, operands, PARTS[op.out.dtype])


def product(b: Builder, x: Pair, y: Pair) -> Pair:
    """Return a product."""
    re = b.map("subtract", b.map("multiply", x.re, y.re), b.map("multiply", x.im, y.im))
    return Pair(re, b.map("add", b.map("multiply", x.re, y.im), b.map("multiply", x.im, y.re)))


def in_range(b: Builder, *pairs: Pair) -> tuple[Value, list[Pair]]:
    """Return numbers times one power of two, away from the ends of the range, and that power.

    Where one is large, the least digits of those that are small do not count for a quotient.
    """
    dtype = pairs[0].re.dtype
    limits, sizes = np.finfo(dtype), [top(b, x) for x in pairs]
    large, small = (functools.reduce(functools.partial(b.map, fn), sizes) for fn in ("maximum", "minimum"))
    up = limits.nmant + 8
    huge = b.map("greater", large, b.constant(2.0 ** (limits.maxexp - up - 2), dtype))
    tiny = b.map("less", small, b.constant(2.0 ** (limits.minexp + up), dtype))
    scale = b.map("where", tiny, b.constant(2.0**up, dtype), b.constant(1, dtype))
    scale = b.map("where", huge, b.constant(1 / 16, dtype), scale)
    return scale, [scaled(b, x, scale) for x in pairs]


def top(b: Builder, x: Pair) -> Value:
    """Return the size of the larger part."""
    return b.map("maximum", *(b.map("abs", part) for part in x))


def scaled(b: Builder, x: Pair, scale: Value) -> Pair:
    """Return a complex number times a real one."""
    return Pair(*(b.map("multiply", part, scale) for part in x))


def quotient(b: Builder, x: Pair, y: Pair) -> Pair:
    """Return a quotient that leaves the range only if it is not in it (R. L. Smith, Algorithm 116, 1962)."""
    zero, one = b.constant(0, y.re.dtype), b.constant(1, y.re.dtype)
    _, (x, y) = in_range(b, x, y)
    straight = b.map("greater_equal", b.map("abs", y.re), b.map("abs", y.im))

    def chosen(first: Value, second: Value) -> Value:
        return b.map("where", straight, first, second)

    large, small = chosen(y.re, y.im), chosen(y.im, y.re)
    ratio = b.map("divide", small, large)
    scale = b.map("divide", one, b.map("add", large, b.map("multiply", small, ratio)))
    re = b.map("add", chosen(x.re, x.im), b.map("multiply", chosen(x.im, x.re), ratio))
    turned = b.map("multiply", chosen(x.re, x.im), ratio)
    im = b.map("subtract", chosen(x.im, turned), chosen(turned, x.re))
    nothing = b.map("logical_and", b.map("equal", large, zero), b.map("equal", small, zero))
    found = []
    for part, share in zip(x, (re, im), strict=True):
        beyond = b.map("multiply", part, b.constant(math.inf, part.dtype))  # as divided by 0.0
        found.append(b.map("where", nothing, beyond, b.map("multiply", share, scale)))
    return Pair(*found)


def inverse(b: Builder, x: Pair) -> Pair:
    """Return what NumPy makes of the power of -1, which at 0 is NaN."""
    scale, (x,) = in_range(b, x)
    straight = b.map("less_equal", b.map("abs", x.im), b.map("abs", x.re))
    large, small = (b.map("where", straight, *pair) for pair in (x, x[::-1]))
    one, ratio = b.constant(1, x.re.dtype), b.map("divide", small, large)
    size = b.map("add", large, b.map("multiply", small, ratio))
    whole, share = b.map("divide", one, size), b.map("divide", ratio, size)
    re, im = b.map("where", straight, whole, share), b.map("where", straight, share, whole)
    return scaled(b, Pair(re, b.map("negative", im)), scale)


@pairing("multiply")
def _multiply(b: Builder, op: Op, x1: Operand, x2: Operand) -> Pair:
    return product(b, *_arithmetic(b, op, x1, x2))


@pairing("divide")
def _divide(b: Builder, op: Op, x1: Operand, x2: Operand) -> Pair:
    return quotient(b, *_arithmetic(b, op, x1, x2))


@pairing("reciprocal")
def _reciprocal(b: Builder, op: Op, x: Pair) -> Pair:
    return quotient(b, both(b, b.fill(1, x.shape, x.re.dtype)), x)


@pairing("square")
def _square(b: Builder, op: Op, x: Pair) -> Pair:
    return product(b, x, x)


@pairing("power")
def _power(b: Builder, op: Op, x1: Operand, x2: Operand) -> Pair | None:
    """Powers of one real exponent that is known, but for large whole numbers."""
    exponent, im = (scalar_of(part) for part in both(b, x2))
    if exponent is None or im != 0 or x2.shape or not math.isfinite(exponent):
        return None
    (base,) = _arithmetic(b, op, x1)
    if exponent == int(exponent):
        return _whole_power(b, base, int(exponent)) if abs(exponent) <= LARGEST else None
    if exponent == 0.5:
        return root(b, base)
    factor, log = b.fill(exponent, op.out.shape, base.re.dtype), logarithm(b, base)
    re, im = product(b, both(b, factor), log)
    re = b.map("where", b.map("isinf", log.re), b.map("multiply", factor, log.re), re)
    return _of_nothing(b, base, exponential(b, Pair(re, im)), exponent > 0)


def _of_nothing(b: Builder, base: Pair, power: Pair, vanishes: bool) -> Pair:
    """Return a power with that of 0, which is 0 or NaN."""
    nothing = b.map("logical_not", truth(b, base))
    limit = b.constant(0 if vanishes else math.nan, base.re.dtype)
    return Pair(*(b.map("where", nothing, limit, part) for part in power))


def _whole_power(b: Builder, base: Pair, n: int) -> Pair:
    if n in (-1, 2):
        return product(b, base, base) if n == 2 else inverse(b, base)
    one = both(b, b.fill(1, base.shape, base.re.dtype))
    if n > 0:
        first = base if n in (1, 3) else one
        return _of_nothing(b, base, _repeated(b, first, base, n - (first is base)), True)
    if n == 0:
        return one
    size = top(b, base)
    large = b.map("logical_and", b.map("isfinite", size), b.map("greater", size, one.re))
    unit = b.map("where", large, b.map("power_of_two", size), one.re)
    down = b.map("divide", one.re, unit)  # exact: it keeps the power in the range, and is taken out again
    out = quotient(b, one, _repeated(b, one, scaled(b, base, down), -n))
    for _ in range(-n):
        out = scaled(b, out, down)
    return _of_nothing(b, base, out, False)


def _repeated(b: Builder, out: Pair, x: Pair, n: int) -> Pair:
    """Return ``out * x**n``, by squaring in NumPy's order."""
    while n:
        if n & 1:
            out = product(b, out, x)
        n >>= 1
        if n:
            x = product(b, x, x)
    return out


@pairing("matmul")
def _matmul(b: Builder, op: Op, x1: Operand, x2: Operand) -> Pair:
    real, multiply = real_op(op), LOWERINGS["matmul"]
    x, y = (parts(b, v, real.out.dtype) for v in (x1, x2))
    re = b.map("subtract", multiply(b, real, x.re, y.re), multiply(b, real, x.im, y.im))
    return Pair(re, b.map("add", multiply(b, real, x.re, y.im), multiply(b, real, x.im, y.re)))
