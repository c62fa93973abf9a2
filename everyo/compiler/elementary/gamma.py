"""lgamma.

With y = x, or y = x + 4 below 4, Stirling's series gives log gamma(y); the step by 4 is a polynomial of x,
whose logarithm is taken off. Negative arguments are reflected. What cancels is computed in pairs. Next to
the zeros, where too little would be left, lgamma is a power series: at 1 and 2 always, at the others as
rare arguments.
"""

from __future__ import annotations

import math

from everyo.compiler.elementary import coefficients as c
from everyo.compiler.elementary import zeros
from everyo.compiler.elementary.arithmetic import Pair, add, divide, fast_two_sum, multiply, two_sum
from everyo.compiler.elementary.builder import Functions, Value, fabs, floor, fma, polynomial, select
from everyo.compiler.elementary.logarithm import combine, split
from everyo.compiler.elementary.rare import where_large
from everyo.compiler.elementary.reflection import (
    choose,
    constant,
    from_table,
    log_of,
    plus,
    sine_and_cosine,
    single,
)


def _step(size: Value) -> tuple[Value, Pair, Pair]:
    """Return whether x < 4, then y and ``(x + 1)(x + 2)(x + 3)``, or 1 without the step."""
    low = size < 4
    y = two_sum(size, select(low, size.like(4), 0))
    u = multiply(single(size), two_sum(size, 3))  # (x + 1)(x + 2) = u + 2
    product = multiply(two_sum(size, 3), plus(u, 2))
    return low, y, choose(low, product, single(size.like(1)))


def _stirling(y: Pair) -> Pair:
    """Return log gamma(y) = (y - 1/2)(log y - 1) + C + S(1 / y**2) / y for y >= 4."""
    inverse = 1 / y.high
    series = inverse * polynomial(inverse * inverse, c.STIRLING)
    log = log_of(y)
    log = plus(log, -1)
    half = two_sum(y.high, -0.5)
    main = multiply(Pair(half.high, half.low + y.low), log)
    total = add(main, constant(inverse, c.STIRLING_CONSTANT))
    return Pair(*fast_two_sum(total.high, total.low + series))


def _lgamma_general(x: Value) -> Value:
    """log gamma(x) = log gamma(y) - log of the step; lgamma(-a) = log(pi / (a |sin(pi a)|)) - lgamma(a)."""
    size = fabs(x)
    low, y, product = _step(size)
    reflected = x < -(2.0**-60)
    sine, _ = sine_and_cosine(size)
    sine = choose(low, sine, multiply(sine, single(size)))
    mirror = divide(constant(x, c.PI), sine)
    factor = choose(reflected, mirror, choose(low, single(size), single(size.like(1))))
    log = log_of(multiply(product, factor))
    total = _stirling(y)
    result = two_sum(total.high, -log.high)
    value = result.high + (result.low + (total.low - log.low))
    return select(reflected, -value, value)


def _lgamma_64(x: Value) -> Value:
    at_one, at_two = fabs(x - 1) <= 0.25, fabs(x - 2) <= 0.25
    z = select(at_one, x - 1, x - 2)
    series = z * 0.0
    for first, second in reversed(list(zip(c.LGAMMA_AT_1, c.LGAMMA_AT_2))):
        series = fma(series, z, select(at_one, x.like(first), second))
    general = _lgamma_general(x)
    near_zero = (x < -2) & (x > -(2.0 + len(zeros.LGAMMA) // 2)) & (fabs(general) < zeros.BORDER)
    general = where_large("lgamma", select(near_zero, x, 0), general, 1.0, _lgamma_near_zero)
    return select(at_one | at_two, fma(z, series, 0), general)


def _lgamma_near_zero(x: Value) -> Value:
    """Between -3 and -2, -4 and -3 and so on there are two zeros each."""
    whole = floor(-x)
    row = 2 * (whole - 2) + select((-x) - whole > 0.6, x.like(1), 0)
    return from_table("lgamma_zeros", zeros.LGAMMA, row.as_integer(), x)


def _lgamma_32(x: Value) -> Value:
    """The same in plain doubles, for an argument of 24 bits."""
    size = fabs(x)
    low, reflected = size < 4, x < -(2.0**-60)
    product = (size + 3) * fma(size, size + 3, 2)
    (sine, _), _ = sine_and_cosine(size)
    factor = select(reflected, math.pi / select(low, sine, sine * size), select(low, size, 1))
    log = combine(*split(select(low, product, 1) * factor), 0)
    y = select(low, size + 4, size)
    inverse = 1 / y
    series = fma(inverse, polynomial(inverse * inverse, c.STIRLING), c.STIRLING_CONSTANT[0])
    value = fma(y - 0.5, combine(*split(y), 0) - 1, series - log)
    value = select(reflected, -value, value)
    return select(x.equals(1) | x.equals(2), 0, value)


def lgamma(x: Value) -> Value:
    value = _lgamma_32(x.double()).float() if x.single else _lgamma_64(x)
    value = select(fabs(x) < math.inf, value, fabs(x))
    value = select(value.is_nan() & ~x.is_nan(), math.inf, value)  # overflow of both parts of a pair
    return select((x <= 0) & floor(x).equals(x), math.inf, value)


FUNCTIONS: Functions = {"lgamma": lgamma}
