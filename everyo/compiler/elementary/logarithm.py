"""log, log1p, log2, log10, softplus, logaddexp.

x = 2**k m with m from sqrt(1/2) to sqrt(2); log m is a series in s = f / (2 + f), f = m - 1, as 2 artanh(s).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from everyo.compiler.elementary import coefficients as c
from everyo.compiler.elementary.arithmetic import (
    Pair,
    add,
    divide,
    fast_two_sum,
    multiply,
    two_product,
    two_sum,
)
from everyo.compiler.elementary.builder import (
    BIAS,
    MANTISSA,
    Functions,
    Operand,
    Value,
    at_least,
    bits_of,
    by_type,
    fabs,
    fma,
    polynomial,
    select,
)
from everyo.compiler.elementary.exponential import exp_pair, times_power


def exponent_field(x: Value) -> Value:
    """Return ``k + bias`` as an integer, for normal x > 0."""
    one, root = bits_of(1.0, x.kind), bits_of(math.sqrt(0.5), x.kind)
    return (x.bits() + (one - root)) >> MANTISSA[x.kind]


def split(x: Value) -> tuple[Value, Value]:
    """Return k as a float and m, for normal x > 0."""
    bits, bias = MANTISSA[x.kind], BIAS[x.kind]
    one, root = bits_of(1.0, x.kind), bits_of(math.sqrt(0.5), x.kind)
    m = (((x.bits() + (one - root)) & (2**bits - 1)) + root).real()
    unit = 2.0**bits  # an integer in the low bits of this float is added to it
    k = (exponent_field(x) | bits_of(unit, x.kind)).real() - (unit + bias)
    return k, m


def split_any(x: Value) -> tuple[Value, Value]:
    """Return k and m for x > 0, subnormal numbers included."""
    bits, bias = MANTISSA[x.kind], BIAS[x.kind]
    subnormal = x < 2.0 ** (1 - bias)
    k, m = split(select(subnormal, x * 2.0 ** (bits + 2), x))
    return k - select(subnormal, k.like(bits + 2), 0), m


def at_limits(x: Value, pole: float, result: Value) -> Value:
    """Return `result` for finite x above `pole`, -inf at it, NaN below it, and x for infinity and NaN."""
    result = select(x < math.inf, result, x)
    return select(x > pole, result, select(x.equals(pole), x.like(-math.inf), math.nan))


def combine(k: Value, m: Value, correction: Operand, series: Sequence[float] = ()) -> Value:
    """Return ``k ln 2 + log(m) + correction``, added from the smallest to the largest term."""
    series = series or by_type(m, c.LOG_64, c.LOG_32)
    f = m - 1
    s = f / (f + 2)
    w = s * s
    half_square = 0.5 * f * f
    rest = fma(w, polynomial(w, series), half_square)
    high, low = by_type(m, c.LN2_SHORT_64, c.LN2_SHORT_32)
    small = fma(s, rest, fma(k, low, correction))
    return fma(k, high, f - (half_square - small))


def log(x: Value) -> Value:
    k, m = split_any(x)
    return at_limits(x, 0.0, combine(k, m, 0))


def log1p(x: Value) -> Value:
    return at_limits(x, -1.0, log1p_finite(x))


def log1p_finite(x: Value, extra: Value | None = None) -> Value:
    """Return ``log(1 + x + extra)`` for finite x > -1; `extra` is below the last place of `x`."""
    u = 1 + x
    lost = select(x >= 1, 1 - (u - x), x - (u - 1))  # u + lost = 1 + x
    if extra is not None:
        lost = lost + extra
    k, m = split(u)
    inverse_power = ((2 * BIAS[x.kind] - exponent_field(u)) << MANTISSA[x.kind]).real()
    # log(u + lost) = log(u) + lost / u, for which a few bits of 1 / m are enough.
    f = m - 1
    correction = select(x > 2.0**60, 0, lost * inverse_power) * fma(f, fma(f, 0.77, -1), 1)
    return select(fabs(x) < by_type(x, 2.0**-54, 2.0**-25), x, combine(k, m, correction))


def log_pair(k: Value, m: Value) -> Pair:
    """Return ``k ln 2 + log(m)`` to about 64 bits: s, its square and the term after 2 s are pairs."""
    f = m - 1
    s = divide(Pair(f, f - f), fast_two_sum(f.like(2), f))
    w, w_low = two_product(s.high, s.high)
    w_low = fma(2 * s.high, s.low, w_low)
    high, low = c.TWO_THIRDS
    series = fast_two_sum(w.like(high), w * polynomial(w, c.LOG_PAIR_64))
    cube = multiply(s, Pair(w, w_low))
    term = multiply(cube, Pair(series.high, series.low + low))
    log_m = add(Pair(2 * s.high, 2 * s.low), term)
    high, low = c.LN2_SHORT_64
    return add(Pair(k * high, k * low), log_m)


def _in_base(x: Value, inverse: tuple[float, ...], unit: tuple[float, ...]) -> Value:
    """Return ``k unit + log(m) inverse``, with log m as a pair that has a few bits more than one float."""
    k, m = split_any(x)
    f = m - 1
    half_square, lost = two_product(0.5 * f, f)
    s = f / (f + 2)
    w = s * s
    rest = fma(w, polynomial(w, by_type(x, c.LOG_64, c.LOG_32)), half_square)
    high, low = fast_two_sum(f, -half_square)
    scaled = multiply(Pair(high, low + fma(s, rest, -lost)), Pair(*map(m.like, inverse)))
    return at_limits(x, 0.0, add(Pair(k * unit[0], k * unit[1]), scaled).high)


def log2(x: Value) -> Value:
    return _in_base(x, by_type(x, c.INVERSE_LN2_64, c.INVERSE_LN2_32), (1.0, 0.0))


def log10(x: Value) -> Value:
    inverse = by_type(x, c.INVERSE_LN10_64, c.INVERSE_LN10_32)
    return _in_base(x, inverse, by_type(x, c.LOG10_2_64, c.LOG10_2_32))


def softplus(x: Value) -> Value:
    """log(1 + e**x) = max(x, 0) + log(1 + e**-|x|)."""
    pair, exponent = exp_pair(at_least(-fabs(x), by_type(x, -750.0, -105.0)))
    z, z_low = times_power(pair.high, exponent), times_power(pair.low, exponent)
    return at_least(x, 0) + log1p_finite(z, z_low)


def logaddexp(x: Value, y: Value) -> Value:
    """log(e**x + e**y) = max(x, y) + log(1 + e**-|x - y|)."""
    larger, smaller = select(x < y, y, x), select(x < y, x, y)
    difference = two_sum(smaller, -larger)
    d = at_least(difference.high, by_type(x, -750.0, -105.0))
    pair, exponent = exp_pair(d, select(d.equals(difference.high), difference.low, 0))
    z, z_low = times_power(pair.high, exponent), times_power(pair.low, exponent)
    result = larger + log1p_finite(z, z_low)
    result = select(fabs(larger).equals(math.inf), larger, result)
    return select(x.is_nan(), x, select(y.is_nan(), y, result))


FUNCTIONS: Functions = {
    "log": log,
    "log1p": log1p,
    "log2": log2,
    "log10": log10,
    "softplus": softplus,
    "logaddexp": logaddexp,
}
