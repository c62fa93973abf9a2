"""Lowerings of special functions that are formulas of elementary ones; the others call their kernels."""

from __future__ import annotations

import math

from everyo.compiler.graph import Op, Value
from everyo.compiler.lowering.builder import Builder
from everyo.compiler.lowering.elementwise import matched
from everyo.compiler.lowering.table import lowering


@lowering("xlogy", "xlog1py")
def _times_logarithm(b: Builder, op: Op, x1: Value, x2: Value) -> Value:
    """0 where the factor is 0, unless the other operand is NaN."""
    x1, x2 = matched(b, op, (x1, x2), op.out.dtype)
    product = b.map("multiply", x1, b.map("log" if op.name == "xlogy" else "log1p", x2))
    zero = b.map("equal", x1, b.constant(0, x1.dtype))
    void = b.map("logical_and", zero, b.map("logical_not", b.map("isnan", x2)))
    return b.map("where", void, b.fill(0, product.shape, product.dtype), product)


@lowering("relative_distance", "fraction")
def _quotient(b: Builder, op: Op, x1: Value, x2: Value) -> Value:
    """0 over 0 is 0; the relative distance is one less than that."""
    x1, x2 = matched(b, op, (x1, x2), op.out.dtype)
    zero, one = b.constant(0, x1.dtype), b.constant(1, x1.dtype)
    nothing = b.map("logical_and", b.map("equal", x1, zero), b.map("equal", x2, zero))
    whole = b.map("where", nothing, one, x2)
    if op.name == "fraction":
        return b.map("divide", x1, whole)
    return b.map("divide", b.map("where", nothing, one, b.map("subtract", x2, x1)), whole)


@lowering("gammaln")
def _gammaln(b: Builder, op: Op, x: Value) -> Value:
    """SciPy has -inf at -inf, C has inf."""
    (x,) = matched(b, op, (x,), op.out.dtype)
    least = b.constant(-math.inf, x.dtype)
    return b.map("where", b.map("equal", x, least), least, b.map("lgamma", x))


@lowering("entr")
def _entr(b: Builder, op: Op, x: Value) -> Value:
    (x,) = matched(b, op, (x,), op.out.dtype)
    zero = b.constant(0, x.dtype)
    inside = b.map("negative", b.map("multiply", x, b.map("log", x)))
    inside = b.map("where", b.map("equal", x, zero), b.fill(0, x.shape, x.dtype), inside)
    return b.map("where", b.map("less", x, zero), b.fill(-math.inf, x.shape, x.dtype), inside)


@lowering("logit")
def _logit(b: Builder, op: Op, x: Value) -> Value:
    """By the quotient, but around 1/2, where its logarithm is small, by the distance from there."""
    (x,) = matched(b, op, (x,), op.out.dtype)
    one, half = b.constant(1, x.dtype), b.constant(0.5, x.dtype)
    outer = b.map("log", b.map("divide", x, b.map("subtract", one, x)))
    distance = b.map("subtract", x, half)
    twice = b.map("add", distance, distance)
    inner = b.map("subtract", b.map("log1p", twice), b.map("log1p", b.map("negative", twice)))
    near = b.map("less", b.map("abs", distance), b.constant(0.2, x.dtype))
    return b.map("where", near, inner, outer)


@lowering("ndtr")
def _ndtr(b: Builder, op: Op, x: Value) -> Value:
    (x,) = matched(b, op, (x,), op.out.dtype)
    scaled = b.map("multiply", b.constant(-math.sqrt(0.5), x.dtype), x)
    return b.map("multiply", b.constant(0.5, x.dtype), b.map("erfc", scaled))


@lowering("sinc")
def _sinc(b: Builder, op: Op, x: Value) -> Value | None:
    if op.params["order"]:
        return None
    (x,) = matched(b, op, (x,), op.out.dtype)
    pi, one = b.constant(math.pi, x.dtype), b.fill(1, x.shape, x.dtype)
    half_turns = b.map("round", b.map("multiply", b.constant(0.5, x.dtype), x))
    rest = b.map("subtract", x, b.map("add", half_turns, half_turns))
    quotient = b.map("divide", b.map("sin", b.map("multiply", pi, rest)), b.map("multiply", pi, x))
    out = b.map("where", b.map("equal", x, b.constant(0, x.dtype)), one, quotient)
    return b.map("where", b.map("isinf", x), b.fill(0, x.shape, x.dtype), out)
