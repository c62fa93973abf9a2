"""asin, acos, atan, atan2."""

from __future__ import annotations

import math

from everyo.compiler.elementary import coefficients as c
from everyo.compiler.elementary.arithmetic import Pair, fast_two_sum, two_product
from everyo.compiler.elementary.builder import (
    Functions,
    Value,
    at_most,
    by_type,
    copysign,
    fabs,
    fma,
    polynomial,
    select,
    sqrt,
)


def _half_pi(x: Value) -> tuple[float, float]:
    return by_type(x, c.HALF_PI_64, c.HALF_PI_32)[:2]


def _arcsine(size: Value) -> tuple[Value, Value, Value]:
    """Return (small, a, t) with asin(|x|) = a + t where it is small, else pi / 2 - 2 (a + t)."""
    small = size < 0.5
    w = select(small, size * size, 0.5 - 0.5 * size)
    a = select(small, size, sqrt(w))
    return small, a, a * (w * polynomial(w, by_type(w, c.ASIN_64, c.ASIN_32)))


def asin(x: Value) -> Value:
    small, a, t = _arcsine(fabs(x))
    quarter, quarter_low = _half_pi(x)
    high, low = fast_two_sum(x.like(quarter), -2 * a)
    return copysign(select(small, a + t, high + (low + fma(t, -2, quarter_low))), x)


def acos(x: Value) -> Value:
    """pi / 2 - asin(x) for small x, else 2 asin(sqrt((1 - x) / 2)), or pi minus that of -x."""
    small, a, t = _arcsine(fabs(x))
    quarter, quarter_low = _half_pi(x)
    negative = x < 0
    a, t = select(negative, -a, a), select(negative, -t, t)
    high, low = fast_two_sum(x.like(quarter), -a)
    near = high + (low + (quarter_low - t))
    high, low = fast_two_sum(select(negative, x.like(2 * quarter), 0), 2 * a)
    far = high + (low + fma(t, 2, select(negative, x.like(2 * quarter_low), 0)))
    return select(small, near, far)


def _add_arctangent(start: Pair, above: Value, below: Pair) -> Value:
    """Return ``start + atan(above / below)`` for a ratio of at most 1/2."""
    inverse = 1 / below.high
    q = above * inverse
    rest = fma(-q, below.high, above) - q * below.low
    w = q * q
    series = polynomial(w, by_type(q, c.ATAN_64, c.ATAN_32))
    tail = fma(rest, inverse, q * (w * series))
    high, low = fast_two_sum(start.high, q)
    # Without a start the sum above is q itself.
    return high + (low + (tail + start.low))


def atan(x: Value) -> Value:
    """atan(|x|) as pi / 4 + atan((|x| - 1) / (|x| + 1)) above 1/2, and as pi / 2 + atan(-1 / |x|) above 2."""
    size = at_most(fabs(x), by_type(x, 2.0**60, 2.0**30))  # pi / 2 from there on, without infinities
    middle, far = size > 0.5, size > 2.0
    one = x.like(1)
    total, total_low = fast_two_sum(select(size < 1, one, size), select(size < 1, size, one))
    below = Pair(select(far, size, select(middle, total, one)), select(middle & ~far, total_low, 0))
    above = select(far, -one, select(middle, size - 1, size))
    quarter, quarter_low = _half_pi(x)
    start = Pair(
        select(far, one.like(quarter), select(middle, one.like(quarter / 2), 0)),
        select(far, one.like(quarter_low), select(middle, one.like(quarter_low / 2), 0)),
    )
    return copysign(_add_arctangent(start, above, below), x)


def atan2(y: Value, x: Value) -> Value:
    """The angle from the nearer axis or diagonal, the smaller over the larger coordinate as in `atan`."""
    nan = x.is_nan() | y.is_nan()
    a, b = fabs(x), fabs(y)
    steep = b > a
    larger, smaller = select(steep, b, a), select(steep, a, b)
    # Infinite: only whether both are counts; both zero: the angle is that of the axis.
    infinite = larger.equals(math.inf)
    smaller = select(infinite, select(smaller.equals(math.inf), x.like(1), 0), smaller)
    larger = select(infinite | larger.equals(0), 1, larger)
    top, change = by_type(x, (900, 120), (70, 60))
    scale = select(
        larger > 2.0**top,
        2.0 ** (-change - 2),
        select(larger < 2.0**-top, x.like(2.0**change), 1),
    )
    larger, smaller = larger * scale, smaller * scale
    diagonal = smaller > 0.5 * larger
    total, total_low = fast_two_sum(larger, smaller)
    below = Pair(select(diagonal, total, larger), select(diagonal, total_low, 0))
    above = select(diagonal, smaller - larger, smaller)
    # The angle is `eighths` * pi / 4, plus or minus that of the ratio.
    left = x.bits() < 0
    eighths = select(diagonal, x.like(1), 0)
    eighths = select(steep, 2 - eighths, eighths)
    eighths = select(left, 4 - eighths, eighths)
    backward = steep ^ left
    quarter, quarter_low = _half_pi(x)
    start, start_low = two_product(eighths, quarter / 2)
    angle = _add_arctangent(
        Pair(start, fma(eighths, quarter_low / 2, start_low)), select(backward, -above, above), below
    )
    return copysign(select(nan, x + y, angle), y)


FUNCTIONS: Functions = {"asin": asin, "acos": acos, "atan": atan, "atan2": atan2}
