"""erf, erfc, gelu.

Below 1/2 erf is an odd polynomial. Above, erfc(u) = e**-u**2 G / (1 + 2 u), where G is nearly constant and a
polynomial in t = (u - K) / (u + K), which maps all u from 1/2 to infinity to an interval of moderate length.

The factors of gelu are pairs of floats. In place of pairs of 32 bits doubles need fewer operations, though a
register holds half as many: for all x >= 0 the upper part of the normal distribution is
Q(x) = e**(-x**2 / 2) G / (x + K), with another polynomial G in t.
"""

from __future__ import annotations

import math

from everyo.compiler.elementary import coefficients as c
from everyo.compiler.elementary.arithmetic import Pair, fast_two_sum, multiply, quotient, two_product, two_sum
from everyo.compiler.elementary.builder import (
    MANTISSA,
    Functions,
    Operand,
    Value,
    at_least,
    at_most,
    by_type,
    copysign,
    fabs,
    fma,
    polynomial,
    select,
)
from everyo.compiler.elementary.exponential import exp_pair, split_exponent, times_power

_BORDER = 0.5


def _ratio(x: Value) -> Value:
    """Return ``erf(x) / x - 1`` for ``|x| < 1/2``."""
    return polynomial(x * x, by_type(x, c.ERF_64, c.ERF_32))


def _complement(u: Pair, factor: Operand) -> tuple[Value, Value]:
    """Return ``factor * erfc(u)`` for u >= 1/2, as a number and the exponent for `times_power`."""
    high = at_least(at_most(u.high, by_type(u.high, 28.0, 10.5)), _BORDER)
    square, square_low = two_product(high, high)
    e, exponent = exp_pair(-square, -fma(2 * high, u.low, square_low))
    center = by_type(high, c.ERFC_CENTER_64, c.ERFC_CENTER_32)
    series = by_type(high, c.ERFC_64, c.ERFC_32)
    t = (high - center) / (high + center)
    first, first_low = by_type(high, c.ERFC_FIRST_64, c.ERFC_FIRST_32)
    g = fast_two_sum(t.like(first), fma(t, polynomial(t, series), first_low))
    below, below_low = two_sum(2 * high, 1)
    above = multiply(e, g)
    if isinstance(factor, Value):
        above = multiply(above, Pair(factor, factor.like(0)))
    return quotient(above, Pair(below, fma(high.like(2), u.low, below_low))), exponent


def _far(size: Value) -> Value:
    """Return erfc of `size`, which is at least 1/2."""
    return times_power(*_complement(Pair(size, size.like(0)), 1))


def erf(x: Value) -> Value:
    size = fabs(x)
    near = fma(x, _ratio(x), x)
    return select(size < _BORDER, near, copysign(1 - _far(size), x))


def erfc(x: Value) -> Value:
    size = fabs(x)
    high, low = fast_two_sum(x.like(1), -x)
    near = high + fma(-x, _ratio(x), low)
    far = _far(size)
    return select(size < _BORDER, near, select(x < 0, 2 - far, far))


def _share_above(size: Value) -> Value:
    """Return ``x Q(x) = x erfc(x / sqrt(2)) / 2`` for doubles x >= 0."""
    bounded = at_most(size, 40.0)
    root, root_low = c.ROOT_HALF_64
    u, u_low = two_product(bounded, root)
    u_low = fma(bounded, root_low, u_low)
    half = 0.5 * bounded
    product, product_low = two_product(half, u)
    high, low = fast_two_sum(half, -product)
    near = high + fma(-product, _ratio(u), low - product_low)
    complement, exponent = _complement(Pair(u, u_low), half)
    return select(u < _BORDER, near, times_power(complement, exponent))


def _share_above_32(size: Value) -> Value:
    """Return the same for floats of 32 bits."""
    x = at_most(size, 15.0).double()
    square = x * x
    n, exponent = split_exponent(square, -0.5 / math.log(2), 0)
    rest = fma(n, 2.0 * math.log(2), square)
    series = [a * (-0.5) ** power for power, a in enumerate((1.0, 1.0, *c.EXP_32))]
    e = (polynomial(rest, series).bits() + (exponent << MANTISSA[x.kind])).real()
    inverse = 1 / (x + c.UPPER_CENTER_32)
    g = polynomial(fma(inverse, -2.0 * c.UPPER_CENTER_32, 1), c.UPPER_32)
    return ((x * inverse) * (e * g)).float()


def gelu(x: Value) -> Value:
    """x P(x) with the normal distribution P: ``max(x, 0) - |x| Q(|x|)``."""
    size = fabs(x)
    share = _share_above_32(size) if x.single else _share_above(size)
    result = copysign(select(x > 0, size - share, share), x)
    return select(x < -40.0, x * 0.0, result)  # NaN for minus infinity, as the product has it


FUNCTIONS: Functions = {"erf": erf, "erfc": erfc, "gelu": gelu}
