"""digamma.

The logarithm and the asymptotic series of y = x, or of y = x + 4 below 4, less the reciprocals that the
step by 4 brings. Negative arguments are reflected, by pi cot(pi x). What cancels is computed in pairs. Next
to the zeros, where too little would be left, rare arguments take a power series or, below -16, pairs in
every step.
"""

from __future__ import annotations

import math

from everyo.compiler.elementary import coefficients as c
from everyo.compiler.elementary import zeros
from everyo.compiler.elementary.arithmetic import Pair, divide, multiply, two_sum
from everyo.compiler.elementary.builder import (
    Functions,
    Value,
    at_least,
    at_most,
    fabs,
    floor,
    fma,
    polynomial,
    select,
)
from everyo.compiler.elementary.logarithm import combine, split
from everyo.compiler.elementary.rare import where_large
from everyo.compiler.elementary.reflection import (
    choose,
    constant,
    from_table,
    log_of,
    near_turn,
    negated,
    pair_polynomial,
    plus,
    series_about,
    sine_and_cosine,
    single,
    total_of,
)


def _digamma_general(x: Value) -> Value:
    """log y - 1 / (2 y) - T(1 / y**2) / y**2 less 1 / (a + i) for i = 0 to 3 where y = a + 4, a = |x|.

    For x = -a come 1 / a and pi cot(pi a) on top. The terms for i = 1 to 3 are, with v = a + 2,
    (3 v**2 - 1) / (v**3 - v).
    """
    size = fabs(x)
    one, nothing = single(size.like(1)), single(size.like(0))
    low, reflected = size < 4, x < 0
    y = two_sum(size, select(low, size.like(4), 0))
    inverse = 1 / y.high
    series = inverse * inverse * polynomial(inverse * inverse, c.DIGAMMA)
    half = divide(single(size.like(-0.5)), y)
    v = two_sum(size, 2)
    square = multiply(v, v)
    step = divide(plus(multiply(square, single(size.like(-3))), 1), multiply(v, plus(square, -1)))
    first = divide(one, single(at_least(size, 2.0**-60)))
    first = choose(reflected, choose(low, nothing, first), choose(low, negated(first), nothing))
    sine, cosine = sine_and_cosine(size)
    cotangent = divide(multiply(constant(x, c.PI), cosine), sine)
    total = total_of(
        log_of(y), half, choose(low, step, nothing), first, choose(reflected, cotangent, nothing)
    )
    return total.high + (total.low - series)


def _digamma_32(x: Value) -> Value:
    """The same in plain doubles, for an argument of 24 bits."""
    size = fabs(x)
    low, reflected = size < 4, x < 0
    y = select(low, size + 4, size)
    inverse = 1 / y
    w = inverse * inverse
    total = combine(*split(y), fma(inverse, -0.5, -w * polynomial(w, c.DIGAMMA)))
    v = size + 2
    total = total - select(low, fma(3 * v, v, -1) / (v * fma(v, v, -1)), 0)
    total = total + select(low ^ reflected, select(reflected, 1 / size, -1 / size), 0)
    (sine, _), (cosine, _) = sine_and_cosine(size)
    return total + select(reflected, math.pi * cosine / sine, 0)


def digamma(x: Value) -> Value:
    value = _digamma_32(x.double()).float() if x.single else _digamma_64(x)
    value = select(fabs(x) < 2.0**-60, -1 / x, value)
    value = select(x < math.inf, value, x)
    return select((x < 0) & floor(x).equals(x), math.nan, value)


def _digamma_64(x: Value) -> Value:
    general = _digamma_general(x)
    near_zero = fabs(general) < 0.5 * zeros.BORDER
    positive = series_about(zeros.DIGAMMA[0][:14], x)  # one zero is not rare
    usual = select(near_zero & (x > 0), positive, general)
    return where_large("digamma", select(near_zero & (x < 0), x, 0), usual, 0.25, _digamma_near_zero)


def _digamma_near_zero(x: Value) -> Value:
    """One zero lies between -1 and 0, one between -2 and -1 and so on."""
    known = float(len(zeros.DIGAMMA) - 1)
    series = from_table("digamma_zeros", zeros.DIGAMMA[1:], floor(at_most(-x, known)).as_integer(), x)
    return where_large("digamma.far", x, series, known, lambda far: _digamma_in_pairs(-far))


def _digamma_in_pairs(size: Value) -> Value:
    """Return psi(-size) = log a - 1 / (2 a) - sum B(2 k) / (2 k a**2k) + 1 / a + pi cot(pi a) to 100 bits."""
    k, m = split(size)
    f = m - 1
    s = divide(single(f), two_sum(f, 2))
    log = multiply(s, pair_polynomial(multiply(s, s), "log_exact", c.LOG_EXACT))
    high, middle, low = c.LN2_THREE
    inverse = divide(single(size.like(1)), single(size))
    w = multiply(inverse, inverse)
    series = multiply(w, pair_polynomial(w, "digamma_exact", c.DIGAMMA_EXACT))
    q, r = near_turn(size)
    square = multiply(r, r)
    sine = multiply(r, pair_polynomial(square, "sin_exact", c.SIN_EXACT))
    cosine = pair_polynomial(square, "cos_exact", c.COS_EXACT)
    odd = q.equals(1) | q.equals(3)
    above, below = choose(odd, negated(sine), cosine), choose(odd, cosine, sine)
    cotangent = divide(multiply(constant(size, c.PI), above), below)
    half = Pair(0.5 * inverse.high, 0.5 * inverse.low)
    return total_of(
        single(k * high), cotangent, single(k * middle), log, half, negated(series), single(k * low)
    ).high


FUNCTIONS: Functions = {"digamma": digamma}
