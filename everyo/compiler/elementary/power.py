"""pow, powers by a constant, sqrt, rsqrt, cbrt, hypot."""

from __future__ import annotations

import math
import re
from typing import TypeAlias

from everyo.compiler.elementary import coefficients as c
from everyo.compiler.elementary.arithmetic import fast_two_sum, two_product
from everyo.compiler.elementary.builder import (
    Functions,
    Value,
    at_least,
    at_most,
    bits_of,
    by_type,
    copysign,
    fabs,
    floor,
    fma,
    polynomial,
    select,
    sqrt,
)
from everyo.compiler.elementary.exponential import exp
from everyo.compiler.elementary.logarithm import combine, log_pair, split, split_any

_Rounded: TypeAlias = "tuple[Value, Value | None]"  # a number and its rounding error, if it has one


def pow_(x: Value, y: Value) -> Value:
    """e**(y log |x|), the logarithm to 64 bits, then the sign and the cases that have names in IEEE 754."""
    size = fabs(x)
    # No finite power other than 1 has so large an exponent; infinity times log 1 would be NaN.
    bounded = at_least(at_most(y, 2.0**80), -(2.0**80))
    result = _power_of_positive_32(size, bounded) if x.single else _power_of_positive_64(size, bounded)
    half = 0.5 * y
    whole = floor(y).equals(y)
    odd = whole & floor(half).differs(half)
    result = select(odd, copysign(result, x), result)
    result = select((x < 0) & (x > -math.inf) & ~whole, math.nan, result)
    return select(x.equals(1) | y.equals(0), 1, result)


def _at_ends(size: Value, log: Value) -> Value:
    """Return `log`, but that of 0 and of infinity where `size` is one of these, and NaN for NaN."""
    log = select(size < math.inf, log, size)
    return select(size.equals(0), -math.inf, log)


def _power_of_positive_64(x: Value, y: Value) -> Value:
    log = log_pair(*split_any(x))
    high = _at_ends(x, log.high)
    product = two_product(y, high)
    exact = fabs(product.high) < 1000.0
    low = select(exact, fma(y, log.low, product.low), 0)
    return exp(product.high, low)


def _power_of_positive_32(x: Value, y: Value) -> Value:
    """Doubles have bits to spare here, and the subnormal numbers are none of theirs."""
    wide = x.double()
    log = combine(*split(wide), 0, c.LOG_40)
    return exp(y.double() * _at_ends(wide, log), 0, c.EXP_40).float()


def name_of(halves: int) -> str:
    """Return the name of the function x**(halves / 2)."""
    return f"pow_{'m' if halves < 0 else ''}{abs(halves)}_halves"


def halves_of(name: str) -> int | None:
    """Return twice the exponent of the function that `name_of` gave its name, or None."""
    found = re.fullmatch(r"pow_(m?)(\d+)_halves", name)
    return int(found[2]) * (-1 if found[1] else 1) if found else None


def constant_power(x: Value, halves: int) -> Value:
    """x**(halves / 2) by products, a root and a quotient, whose rounding errors are added at the end.

    Only that of a root by which a whole power is multiplied stays: half a unit. Negative powers are those of
    1 / x or 1 / sqrt(x): no step overflows, or loses bits to subnormal numbers, where the power does not.
    """
    n, half = divmod(abs(halves), 2)
    base = x + 0.0 if half else x  # a half-integer power of -0.0 is that of 0.0
    if halves < 0:
        high, low = _repeated(_inverse_root(base), 2 * n + 1) if half else _repeated(_inverse(x), n)
    else:
        high, low = _repeated((base, None), n)
        if half:
            high, low = _times((high, low), (sqrt(base), None))
    assert low is not None
    usual = fabs(low) < fabs(high)  # of infinities the error is NaN, and zeros keep their sign
    result = select(usual, high + low, high)
    if not half:
        return result
    return select(x.equals(-math.inf), math.inf if halves > 0 else 0.0, result)


def _times(x: _Rounded, y: _Rounded) -> _Rounded:
    """Return ``x * y`` for numbers with their rounding errors, as far as they have such."""
    high, low = two_product(x[0], y[0])
    low = low if y[1] is None else fma(x[0], y[1], low)
    return high, low if x[1] is None else fma(x[1], y[0], low)


def _repeated(x: _Rounded, n: int) -> _Rounded:
    """Return ``x**n`` for n >= 1, by squaring."""
    result = None
    while True:
        if n & 1:
            result = x if result is None else _times(result, x)
        n >>= 1
        if not n:
            assert result is not None
            return result
        x = _times(x, x)


def _inverse(x: Value) -> _Rounded:
    """Return ``1 / x``."""
    y = 1 / x
    return y, y * fma(-x, y, 1)


def _inverse_root(x: Value) -> _Rounded:
    """Return ``1 / sqrt(x)``; what y lacks is about (1 - x y**2) y / 2."""
    y = 1 / sqrt(x)
    root, low = two_product(x, y)
    return y, 0.5 * y * fma(-low, y, fma(-root, y, 1))


def rsqrt(x: Value) -> Value:
    return 1 / sqrt(x)


def cbrt(x: Value) -> Value:
    """y = M Z**2 with |x| = 8**t M and Z near M**(-1/3); then one step of Newton's iteration for y**3 = M.

    Z is a polynomial of the mantissa, for doubles after a step of its own, times a cube root of 1, 2 or 4.
    """
    size = fabs(x).double()
    tiny = size < 2.0**-1022
    scaled = select(tiny, size * 2.0**54, size)
    fraction = 2**52 - 1
    m = ((scaled.bits() & fraction) | bits_of(1.0)).real()
    exponent = ((scaled.bits() >> 52) | bits_of(2.0**52)).real() - 2.0**52  # with the bias 1023 = 3 * 341
    third = floor(fma(exponent, 1 / 3, 2.0**-4))
    left = fma(third, -3, exponent)
    z = polynomial(m, c.CBRT)
    if not x.single:
        z = z * fma(fma(m * z, z * z, -1), -1 / 3, 1)
    one, two = left.equals(1), left.equals(2)
    z = z * select(one, z.like(2.0 ** (-1 / 3)), select(two, z.like(2.0 ** (-2 / 3)), 1))
    m = m * select(one, z.like(2), select(two, z.like(4), 1))
    square = z * z
    y = m * square
    y_square, low = two_product(y, y)
    excess = fma(y_square, y, -m) + low * y
    y = fma(excess * square, -1 / 3, y)
    power = (((third + 2.0**52).bits() + (1023 - 341)) << 52).real()
    y = y * power * select(tiny, power.like(2.0**-18), 1)
    if x.single:
        y = y.float()
    return select((fabs(x) > 0) & (fabs(x) < math.inf), copysign(y, x), x)


def hypot(x: Value, y: Value) -> Value:
    """sqrt(x**2 + y**2), scaled by a power of two, with the rounding errors of squares and root."""
    x, y = fabs(x), fabs(y)
    larger, smaller = select(x < y, y, x), select(x < y, x, y)
    top, bottom = by_type(x, (500, 600), (60, 80))
    big, small = larger > 2.0**top, larger < 2.0**-top
    scale = select(big, 2.0**-bottom, select(small, x.like(2.0**bottom), 1))
    a, b = two_product(larger * scale, larger * scale), two_product(smaller * scale, smaller * scale)
    total, low = fast_two_sum(a.high, b.high)
    low = low + (a.low + b.low)
    root = sqrt(total)
    rest = fma(-root, root, total) + low
    root = select(total > 0, root + rest / (root + root), root)
    unscale = select(big, 2.0**bottom, select(small, x.like(2.0**-bottom), 1))
    result = root * unscale
    result = select(x.is_nan(), x, select(y.is_nan(), y, result))
    return select(x.equals(math.inf) | y.equals(math.inf), math.inf, result)


FUNCTIONS: Functions = {"pow": pow_, "sqrt": sqrt, "rsqrt": rsqrt, "cbrt": cbrt, "hypot": hypot}
