"""tanh, sinh, cosh, asinh, acosh, atanh."""

from __future__ import annotations

import math

from everyo.compiler.elementary import coefficients as c
from everyo.compiler.elementary.arithmetic import Pair, divide, fast_two_sum, quotient, two_sum
from everyo.compiler.elementary.builder import (
    Functions,
    Value,
    at_least,
    at_most,
    by_type,
    copysign,
    fabs,
    fma,
    polynomial,
    select,
    sqrt,
)
from everyo.compiler.elementary.exponential import exp_pair, half_expm1, times_power
from everyo.compiler.elementary.logarithm import log1p_finite


def tanh(x: Value) -> Value:
    """E / (E + 1) with E = (e**(2 |x|) - 1) / 2."""
    size = fabs(x)
    e = half_expm1(at_most(2 * size, by_type(x, 44.0, 20.0)))
    high, low = two_sum(e.high, 1)
    result = quotient(e, Pair(high, low + e.low))
    return select(size < by_type(x, 2.0**-28, 2.0**-13), x, copysign(result, x))


def _half_exp(size: Value) -> tuple[Pair, Value]:
    """Return ``e**|x| / 2`` as a pair and ``e**-|x| / 2``."""
    pair, exponent = exp_pair(at_most(size, by_type(size, 712.0, 91.0)))
    high, low = times_power(pair.high, exponent - 1), times_power(pair.low, exponent - 1)
    return Pair(high, low), 0.25 / high


def sinh(x: Value) -> Value:
    """A polynomial below 1, else (e**|x| - e**-|x|) / 2."""
    size = fabs(x)
    w = x * x
    near = fma(x * w, polynomial(w, by_type(x, c.SINH_64, c.SINH_32)), x)
    half, inverse = _half_exp(size)
    return select(size < 1, near, copysign(half.high + (half.low - inverse), x))


def cosh(x: Value) -> Value:
    half, inverse = _half_exp(fabs(x))
    high, low = fast_two_sum(half.high, inverse)
    finite = high < math.inf
    return select(finite, high + (low + half.low), high)


def _log1p(x: Value, extra: Value, huge: Value, size: Value) -> Value:
    """Return ``log(1 + x + extra)``, or ``log(2 size)`` where `huge` holds."""
    result = log1p_finite(select(huge, size, x), select(huge, x.like(0), extra))
    result = result + select(huge, x.like(math.log(2)), 0)
    return select(size < math.inf, result, size)


def asinh(x: Value) -> Value:
    """log(1 + |x| + x**2 / (1 + sqrt(1 + x**2)))."""
    size = fabs(x)
    huge = size > by_type(x, 2.0**60, 2.0**30)
    w = size * size
    term = w / (1 + sqrt(1 + w))
    above = term > size
    total, low = fast_two_sum(select(above, term, size), select(above, size, term))
    return copysign(_log1p(total, low, huge, size), x)


def acosh(x: Value) -> Value:
    """log(1 + t + sqrt(2 t + t**2)) with t = x - 1."""
    huge = x > by_type(x, 2.0**60, 2.0**30)
    t = select(huge, 1, x - 1)
    square = fma(t, t, 2 * t)
    square_low = fma(t, t, 2 * t - square)
    root = sqrt(square)
    root_low = (fma(-root, root, square) + square_low) * (0.5 / at_least(root, 2.0**-60))
    total, low = fast_two_sum(root, t)
    return select(x < 1, math.nan, _log1p(total, low + root_low, huge, x))


def atanh(x: Value) -> Value:
    """log(1 + 2 |x| / (1 - |x|)) / 2."""
    size = fabs(x)
    high, low = fast_two_sum(x.like(1), -size)
    ratio = divide(Pair(2 * size, x.like(0)), Pair(high, low))
    result = copysign(0.5 * log1p_finite(ratio.high, ratio.low), x)
    result = select(size < by_type(x, 2.0**-28, 2.0**-13), x, result)
    return select(size < 1, result, select(size.equals(1), copysign(math.inf, x), math.nan))


FUNCTIONS: Functions = {
    "tanh": tanh,
    "sinh": sinh,
    "cosh": cosh,
    "asinh": asinh,
    "acosh": acosh,
    "atanh": atanh,
}
