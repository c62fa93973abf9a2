"""Lowerings of elementwise primitives: to one scalar function, or to a formula of several."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from everyo.compiler import elementary
from everyo.compiler.graph import Op, Value
from everyo.compiler.lowering.builder import BOOL, COMPARISONS, Builder, scalar_of
from everyo.compiler.lowering.table import HALF, lowering
from everyo.ops.power_derivatives import polynomials

LARGEST = 16  # exponent, whole or half of a whole number, of powers that are made of products and roots

# primitives that are one scalar function on operands of the result's dtype
DIRECT = {
    "add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide",
    "floor_divide": "floor_divide", "remainder": "remainder", "negative": "negative",
    "maximum": "maximum", "minimum": "minimum", "abs": "abs", "sign": "sign",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "cbrt": "cbrt", "hypot": "hypot",
    "floor": "floor", "ceil": "ceil", "round": "round", "trunc": "trunc",
    "exp": "exp", "expm1": "expm1", "exp2": "exp2", "log": "log", "log1p": "log1p", "log2": "log2",
    "log10": "log10", "logaddexp": "logaddexp", "erf": "erf", "erfc": "erfc",
    "digamma": "digamma",
    "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
    "arctan2": "atan2", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh", "sigmoid": "sigmoid", "softplus": "softplus", "gelu": "gelu",
    "logistic": "sigmoid",
    "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
    "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
}  # fmt: skip


INLINE = {
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "negative", "maximum", "minimum",
    "abs", "sign", "sqrt", "rsqrt", "floor", "ceil", "round", "trunc", "bitwise_and", "bitwise_or",
    "bitwise_xor", "left_shift", "right_shift",
}  # fmt: skip


def _direct(b: Builder, op: Op, *operands: Value) -> Value | None:
    fn = DIRECT[op.name]
    if fn not in INLINE and (fn not in elementary.names() or op.out.dtype.kind != "f"):
        return None
    return b.map(DIRECT[op.name], *matched(b, op, operands, op.out.dtype))


def matched(b: Builder, op: Op, operands: Any, dtype: Any) -> list[Value]:
    """Return the operands in the result's shape and in `dtype`."""
    return [b.broadcast_to(b.cast(v, dtype), op.out.shape) for v in operands]


lowering(*DIRECT)(_direct)


@lowering(*COMPARISONS)
def _comparison(b: Builder, op: Op, x1: Value, x2: Value) -> Value:
    dtype = np.result_type(x1.dtype, x2.dtype)
    kinds = x1.dtype.kind + x2.dtype.kind
    if dtype.kind == "f" and kinds in ("iu", "ui"):
        return _with_negatives(b, op, x1, x2, first=kinds == "iu")
    return b.map(op.name, *matched(b, op, (x1, x2), dtype))


def _with_negatives(b: Builder, op: Op, x1: Value, x2: Value, first: bool) -> Value:
    """Compare integers of which one has a sign, and no integer dtype holds both."""
    signed = x1 if first else x2
    negative = b.broadcast_to(b.map("less", signed, b.constant(0, signed.dtype)), op.out.shape)
    below = op.name in (
        ("not_equal", "less", "less_equal") if first else ("not_equal", "greater", "greater_equal")
    )
    others = b.map(op.name, *matched(b, op, (x1, x2), np.dtype(np.uint64)))
    return b.map("where", negative, b.fill(below, op.out.shape, BOOL), others)


@lowering("logical_and", "logical_or", "logical_xor", "logical_not")
def _logical(b: Builder, op: Op, *operands: Value) -> Value:
    return b.map(op.name, *(b.broadcast_to(truth(b, v), op.out.shape) for v in operands))


def truth(b: Builder, value: Value) -> Value:
    """Return whether each element differs from zero."""
    return value if value.dtype == BOOL else b.map("not_equal", value, b.constant(0, value.dtype))


@lowering("isnan", "isinf", "isfinite", "signbit")
def _predicate(b: Builder, op: Op, x: Value) -> Value | None:
    if x.dtype.kind != "f":
        if op.name == "signbit":
            return None
        return b.fill(op.name == "isfinite", x.shape, BOOL)
    return b.map(op.name, x)


@lowering("positive", "stop_gradient", "severed", "alias", "copy", "conj", "real")
def _same(b: Builder, op: Op, x: Value) -> Value:
    return b.cast(x, op.out.dtype)


@lowering("imag", "zeros_like")
def _zeros(b: Builder, op: Op, x: Value) -> Value:
    return b.fill(0, op.out.shape, op.out.dtype)


@lowering("ones_like")
def _ones(b: Builder, op: Op, x: Value) -> Value:
    return b.fill(1, op.out.shape, op.out.dtype)


@lowering("astype")
def _astype(b: Builder, op: Op, x: Value) -> Value:
    return truth(b, x) if op.out.dtype == BOOL else b.cast(x, op.out.dtype)


@lowering("to_device")
def _to_device(b: Builder, op: Op, x: Value) -> Value | None:
    return x if op.params["source"] == op.params["target"] else None


@lowering("share")
def _share_of_length(b: Builder, op: Op, x1: Value, x2: Value) -> Value | None:
    dtype = op.out.dtype
    if dtype.kind != "f":
        return None
    x1, x2 = matched(b, op, (x1, x2), dtype)
    half, zero, one = (b.fill(value, op.out.shape, dtype) for value in (0.5, 0, 1))
    length, half_x1 = b.map("hypot", x1, x2), b.map("multiply", half, x1)
    infinite = b.map("isinf", length)  # the halves have a length that is in the range
    length = b.map("where", infinite, b.map("hypot", half_x1, b.map("multiply", half, x2)), length)
    origin = b.map("equal", length, zero)
    quotient = b.map("divide", b.map("where", infinite, half_x1, x1), b.map("where", origin, one, length))
    return b.map("where", origin, zero, quotient)


@lowering("one_minus_square")
def _one_minus_square(b: Builder, op: Op, x: Value) -> Value | None:
    dtype = op.out.dtype
    if dtype.kind != "f":
        return None
    (x,) = matched(b, op, (x,), dtype)
    half, one = (b.fill(value, op.out.shape, dtype) for value in (0.5, 1))
    near_one = b.map("multiply", b.map("subtract", one, x), b.map("add", one, x))
    near_zero = b.map("subtract", one, b.map("multiply", x, x))
    return b.map("where", b.map("less", b.map("abs", x), half), near_zero, near_one)


@lowering("arctan_slope")
def _arctan_slope(b: Builder, op: Op, x: Value) -> Value | None:
    dtype = op.out.dtype
    if dtype.kind != "f":
        return None
    (x,), one = matched(b, op, (x,), dtype), b.fill(1, op.out.shape, dtype)
    return b.map("divide", one, b.map("add", one, b.map("multiply", x, x)))


@lowering("angle_slope")
def _angle_slope(b: Builder, op: Op, x1: Value, x2: Value) -> Value | None:
    dtype = op.out.dtype
    if dtype.kind != "f":
        return None
    x1, x2 = matched(b, op, (x1, x2), dtype)
    zero, one = (b.fill(value, op.out.shape, dtype) for value in (0, 1))
    radius = b.map("hypot", x1, x2)
    origin = b.map("equal", radius, zero)
    divisor = b.map("where", origin, one, radius)  # at the origin x2 is 0, and so is the quotient
    return b.map("divide", b.map("divide", x2, divisor), divisor)


@lowering("square")
def _square(b: Builder, op: Op, x: Value) -> Value:
    (x,) = matched(b, op, (x,), op.out.dtype)
    return b.map("multiply", x, x)


@lowering("reciprocal")
def _reciprocal(b: Builder, op: Op, x: Value) -> Value:
    return b.map("divide", b.constant(1, op.out.dtype), b.cast(x, op.out.dtype))


@lowering("bitwise_invert")
def _invert(b: Builder, op: Op, x: Value) -> Value:
    if x.dtype == BOOL:
        return b.map("logical_not", x)
    return b.map("bitwise_xor", x, b.constant(-1 if x.dtype.kind == "i" else np.iinfo(x.dtype).max, x.dtype))


@lowering("power")
def _power(b: Builder, op: Op, x1: Value, x2: Value) -> Value | None:
    exponent = scalar_of(x2)
    base, power = matched(b, op, (x1, x2), op.out.dtype)
    known = exponent is not None and abs(exponent) <= LARGEST and 2 * exponent == int(2 * exponent)
    if op.out.dtype.kind != "f":
        return _integer_power(b, base, int(exponent)) if known and exponent >= 0 else None
    if not known:
        return _unknown_power(b, base, power, root=exponent is None and not x2.shape)
    short = _short_power(b, base, float(exponent))
    return b.map(elementary.constant_power(int(2 * exponent)), base) if short is None else short


@lowering("power_derivative")
def _power_derivative(b: Builder, op: Op, x1: Value, x2: Value) -> Value | None:
    """As the kernel does it: a polynomial in the logarithm of the base, times a power."""
    m, n, dtype = op.params.get("by_base", 1), op.params.get("by_exponent", 0), op.out.dtype
    if dtype.kind != "f":
        return None
    number = functools.partial(b.constant, dtype=dtype)
    x, y = matched(b, op, (x1, x2), dtype)
    power = _power(b, op, x1, b.map("subtract", b.cast(x2, dtype), number(m)) if m else x2)
    factor, log, zero = b.fill(1, op.out.shape, dtype), b.map("log", x) if n else x, number(0)
    for j in range(m):
        factor = b.map("multiply", factor, b.map("subtract", y, number(j)))
    lower = polynomials(m, n)[1:]
    for k in range(n):
        nothing = b.map("logical_and", b.map("equal", factor, zero), b.map("isinf", log))
        factor = b.map("where", nothing, zero, b.map("multiply", factor, log))
        if k < len(lower):
            value = number(lower[k][0])
            for c in lower[k][1:]:
                value = b.map("add", b.map("multiply", value, y), number(c))
            factor = b.map("add", factor, value)
    limit = b.map("logical_and", b.map("equal", power, zero), b.map("isinf", factor))
    void = b.map("logical_or", b.map("equal", factor, zero), limit)
    if not m:
        constant = b.map("logical_and", b.map("equal", x, zero), b.map("isfinite", power))
        void = b.map("logical_or", void, constant)
    return b.map("where", void, zero, b.map("multiply", power, factor))


def _unknown_power(b: Builder, base: Value, power: Value, root: bool) -> Value:
    """Return a power, which is a `root` where one exponent for all turns out to be a half, as in NumPy."""
    found = b.map("pow", base, power)
    if not root:
        return found
    return b.map("where", b.map("equal", power, b.constant(0.5, power.dtype)), b.map("sqrt", base), found)


def _short_power(b: Builder, x: Value, exponent: float) -> Value | None:
    """Return a power that so few roundings make that it is off by at most 2 ulp; None for others.

    What it is made of is there for other powers of the same base. No step overflows, or loses bits to
    subnormal numbers, where the power does not.
    """
    if exponent in (0, 1, 2, 3, 4):
        return _integer_power(b, x, int(exponent))
    if exponent in (-1, -2):
        return _integer_power(b, b.map("divide", b.constant(1, x.dtype), x), int(-exponent))
    if exponent == 0.5:
        return b.map("sqrt", x)
    if exponent not in (-1.5, -0.5, 1.5, 2.5):
        return None
    root = b.map("sqrt", x)
    if exponent in (-0.5, 2.5):  # the root of -0.0 is -0.0, which in the others meets the sign of x
        root = b.map("add", root, b.constant(0, x.dtype))
    if exponent < 0:
        inverse = b.map("divide", b.constant(1, x.dtype), root)
        power = inverse if exponent == -0.5 else b.map("divide", inverse, x)
    else:
        power = b.map("multiply", _integer_power(b, x, int(exponent)), root)
    limit = b.constant(np.inf if exponent > 0 else 0, x.dtype)  # of -inf, of which there is no root
    return b.map("where", b.map("equal", x, b.constant(-np.inf, x.dtype)), limit, power)


def _integer_power(b: Builder, x: Value, n: int) -> Value:
    """Return ``x**n`` for n >= 0, by squaring."""
    out: Value | None = None
    while n:
        if n & 1:
            out = x if out is None else b.map("multiply", out, x)
        x = b.map("multiply", x, x)
        n >>= 1
    return b.fill(1, x.shape, x.dtype) if out is None else out


@lowering("where")
def select(b: Builder, op: Op, condition: Value, x1: Any, x2: Any) -> Value:
    """Return elements of one operand where a condition holds, and of another one elsewhere."""
    return b.map(
        "where", b.broadcast_to(truth(b, condition), op.out.shape), *matched(b, op, (x1, x2), op.out.dtype)
    )


@lowering("where_positive")
def _where_positive(b: Builder, op: Op, x1: Value, x2: Value) -> Value:
    positive = b.broadcast_to(b.map("greater", x2, b.constant(0, x2.dtype)), op.out.shape)
    return b.map("where", positive, *matched(b, op, (x1, x2), op.out.dtype))


@lowering("multiply_absorbing")
def _multiply_absorbing(b: Builder, op: Op, x1: Value, x2: Value) -> Value:
    """A product in which a factor of exactly zero wins over infinities."""
    x1, x2 = matched(b, op, (x1, x2), op.out.dtype)
    product = b.map("multiply", x1, x2)
    if op.out.dtype.kind != "f":
        return product
    zero = b.constant(0, op.out.dtype)
    void = [b.map("logical_and", b.map("equal", x, zero), b.map("isinf", y)) for x, y in ((x1, x2), (x2, x1))]
    return b.map("where", b.map("logical_or", *void), b.fill(0, op.out.shape, op.out.dtype), product)


@lowering("clip")
def _clip(b: Builder, op: Op, x: Value, low: Value | None, high: Value | None) -> Value:
    (x,) = matched(b, op, (x,), op.out.dtype)
    for bound, fn in ((low, "maximum"), (high, "minimum")):
        if bound is not None:
            x = b.map(fn, x, *matched(b, op, (bound,), op.out.dtype))
    return x


@lowering("angle")
def _angle(b: Builder, op: Op, x: Value) -> Value:
    x = b.cast(x, op.out.dtype)
    negative = b.map("logical_and", b.map("signbit", x), b.map("logical_not", b.map("isnan", x)))
    zero = b.map("where", b.map("isnan", x), x, b.fill(0, x.shape, x.dtype))
    return b.map("where", negative, b.fill(math.pi, x.shape, x.dtype), zero)


@lowering("logaddexp2")
def _logaddexp2(b: Builder, op: Op, x1: Value, x2: Value) -> Value:
    x1, x2 = matched(b, op, (x1, x2), op.out.dtype)
    scale = b.constant(math.log(2), op.out.dtype)
    scaled = b.map("logaddexp", b.map("multiply", x1, scale), b.map("multiply", x2, scale))
    return b.map("divide", scaled, scale)


@lowering("relu")
def _relu(b: Builder, op: Op, x: Value) -> Value:
    (x,) = matched(b, op, (x,), op.out.dtype)
    zero = b.constant(0, x.dtype)
    if op.operands[0].dtype == HALF:  # of which NumPy keeps -0.0
        return b.map("where", b.map("less", x, zero), zero, x)
    return b.map("maximum", x, zero)


@lowering("silu")
def _silu(b: Builder, op: Op, x: Value) -> Value:
    (x,) = matched(b, op, (x,), op.out.dtype)
    return b.map("multiply", x, b.map("sigmoid", x))


@lowering("logistic_derivative")
def _logistic_derivative(b: Builder, op: Op, x: Value) -> Value:
    (x,) = matched(b, op, (x,), op.out.dtype)
    return b.map("multiply", b.map("sigmoid", x), b.map("sigmoid", b.map("negative", x)))


@lowering("silu_derivative")
def _silu_derivative(b: Builder, op: Op, x: Value) -> Value:
    (x,) = matched(b, op, (x,), op.out.dtype)
    one, s = b.constant(1, x.dtype), b.map("sigmoid", x)
    bent = b.map("multiply", x, b.map("subtract", one, s))
    return b.map("multiply", s, b.map("add", one, bent))


@lowering("leaky_relu")
def _leaky_relu(b: Builder, op: Op, x: Value) -> Value:
    (x,) = matched(b, op, (x,), op.out.dtype)
    scaled = b.map("multiply", b.constant(op.params["negative_slope"], x.dtype), x)
    return b.map("where", b.map("greater", x, b.constant(0, x.dtype)), x, scaled)


@lowering("elu")
def _elu(b: Builder, op: Op, x: Value) -> Value:
    (x,) = matched(b, op, (x,), op.out.dtype)
    zero = b.constant(0, x.dtype)
    negative = b.map("expm1", b.map("minimum", x, zero))
    scaled = b.map("multiply", b.constant(op.params["alpha"], x.dtype), negative)
    return b.map("where", b.map("less", x, zero), scaled, x)


@lowering("softplus_of_multiple")
def _softplus_of_multiple(b: Builder, op: Op, x: Value) -> Value:
    (x,) = matched(b, op, (x,), op.out.dtype)
    beta = b.constant(op.params["beta"], x.dtype)
    bend = b.map("softplus", b.map("negative", b.map("abs", b.map("multiply", x, beta))))
    far = b.map("maximum" if op.params["beta"] > 0 else "minimum", x, b.constant(0, x.dtype))
    return b.map("add", far, b.map("divide", bend, beta))


@lowering("softsign")
def _softsign(b: Builder, op: Op, x: Value) -> Value:
    (x,) = matched(b, op, (x,), op.out.dtype)
    near = b.map("divide", x, b.map("add", b.constant(1, x.dtype), b.map("abs", x)))
    return b.map("where", b.map("isinf", x), b.map("sign", x), near)


def _gelu_gate(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Return the clipped operand, its bent square ``0.044715 x**2`` and the sigmoid of the approximation."""
    from everyo.ops import activations as formula

    def number(value: float) -> Value:
        return b.constant(value, x.dtype)

    near = b.map("minimum", b.map("maximum", x, number(-formula._SATURATED)), number(formula._SATURATED))
    bent = b.map("multiply", b.map("multiply", number(formula._BEND), near), near)
    inner = b.map("multiply", number(formula._STEEPNESS), near)
    inner = b.map("multiply", inner, b.map("add", number(1), bent))
    return near, bent, b.map("sigmoid", inner)


@lowering("gelu_tanh")
def _gelu_tanh(b: Builder, op: Op, x: Value) -> Value:
    (x,) = matched(b, op, (x,), op.out.dtype)
    return b.map("multiply", x, _gelu_gate(b, x)[2])


@lowering("gelu_tanh_derivative")
def _gelu_tanh_derivative(b: Builder, op: Op, x: Value) -> Value:
    from everyo.ops import activations as formula

    (x,) = matched(b, op, (x,), op.out.dtype)
    near, bent, s = _gelu_gate(b, x)
    one = b.constant(1, x.dtype)
    slope = b.map("add", one, b.map("multiply", b.constant(3, x.dtype), bent))
    slope = b.map("multiply", b.map("subtract", one, s), slope)
    slope = b.map("multiply", b.map("multiply", b.constant(formula._STEEPNESS, x.dtype), near), slope)
    return b.map("multiply", s, b.map("add", one, slope))
