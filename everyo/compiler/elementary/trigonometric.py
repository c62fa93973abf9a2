"""sin, cos, tan.

Cody and Waite's reduction to |r| <= pi / 4 with pi / 2 in three parts, whose first product is exact with a
fused multiply-add, and r kept as a pair. Arguments too large for that take Payne and Hanek's: the needed
window of the bits of 2 / pi is multiplied by the mantissa as an integer, modulo four quarter turns.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from everyo.compiler.elementary import coefficients as c
from everyo.compiler.elementary.arithmetic import Pair, fast_two_sum, multiply, quotient
from everyo.compiler.elementary.builder import (
    MANTISSA,
    Functions,
    Value,
    by_type,
    fabs,
    fma,
    polynomial,
    select,
)
from everyo.compiler.elementary.rare import where_large

_Finish = Callable[[Value, Value, Pair], Value]


def _reduce(x: Value) -> tuple[Value, Pair]:
    """Return q and r with x = q pi / 2 + r, q in the low bits."""
    magic = 1.5 * 2.0 ** MANTISSA[x.kind]
    shifted = fma(x, c.TWO_OVER_PI, magic)
    n = shifted - magic
    first, second, third = by_type(x, c.HALF_PI_64, c.HALF_PI_32)
    exact = fma(n, -first, x)
    r = fma(n, -second, exact)
    taken = exact - r
    lost = (exact - taken) - r  # of that difference, where r is small beside its parts
    return shifted.bits(), Pair(r, fma(n, -third, fma(n, -second, taken) + lost))


def _reduce_large(x: Value) -> tuple[Value, Pair]:
    """Return the same for a double of at least 2**15; scalar code with wide integers."""
    code = x.code
    bits = fabs(x).bits()
    mantissa = (bits & (2**52 - 1)) | 2**52
    # |x| = mantissa * 2**(field - 1075); bits of 2 / pi that contribute multiples of 4 are left out.
    position = (bits >> 52) - (1075 - c.TWO_OVER_PI_LEAD + 2)
    position = select(position > c.TWO_OVER_PI_LAST, c.TWO_OVER_PI_LAST, position)  # infinity
    table = code.table("two_over_pi", c.TWO_OVER_PI_WORDS, "i64")
    words = [code.load(table, (position >> 6) + i, "i64") for i in range(4)]
    top, middle, low = (code.funnel_shift(*pair, position & 63) for pair in pairwise(words))
    # The product with 192 bits, modulo 4, without its lowest 64.
    wide = mantissa.widened("i128")
    product = (
        ((wide * top.widened("i128")) << 64)
        + wide * middle.widened("i128")
        + ((wide * low.widened("i128")) >> 64)
    )
    quadrant = ((product + (1 << 125)) >> 126).narrowed("i64")
    fraction = product << 2  # of a quarter turn, as a signed number
    negative = fraction < 0
    size = select(negative, 0 - fraction, fraction)
    zeros = code.leading_zeros(size)
    digits = size << zeros
    high = (digits >> 75).narrowed("i64").as_double()  # 53 bits
    low = (digits >> 11).narrowed("i64").as_double()  # 64 more
    scale = ((1023 - 53 - zeros.narrowed("i64")) << 52).real()
    turns = fast_two_sum(high * scale, low * scale * 2.0**-64)
    r = multiply(Pair(*turns), Pair(x.like(c.HALF_PI_64[0]), x.like(c.HALF_PI_64[1])))
    r = fast_two_sum(*r)
    sign = x < 0
    flip = select(sign, ~negative, negative)
    invalid = x - x  # NaN for infinity
    q = select(sign, 0 - quadrant, quadrant)
    return q, Pair(select(flip, -r.high, r.high) + invalid, select(flip, -r.low, r.low))


def _sine(r: Pair) -> Pair:
    w = r.high * r.high
    series = polynomial(w, by_type(w, c.SIN_64, c.SIN_32))
    return fast_two_sum(r.high, fma(w * r.high, series, r.low))


def _cosine(r: Pair) -> Pair:
    w = r.high * r.high
    series = polynomial(w, by_type(w, c.COS_64, c.COS_32))
    half = 0.5 * w
    high, low = fast_two_sum(w.like(1), -half)
    return fast_two_sum(high, fma(w * w, series, fma(-r.high, r.low, low)))


def _odd(q: Value) -> Value:
    return (q & 1).differs(0)


def _flip(value: Value, q: Value) -> Value:
    """Return `value` with the other sign where the second-lowest bit of `q` is set."""
    bits = value.bits()
    top = 63 if value.kind == "double" else 31
    return (bits ^ ((q >> 1) << top)).real()


def _finish_sin(x: Value, q: Value, r: Pair) -> Value:
    value = _flip(select(_odd(q), _cosine(r).high, _sine(r).high), q)
    return select(fabs(x) < by_type(x, 2.0**-27, 2.0**-12), x, value)


def _finish_cos(x: Value, q: Value, r: Pair) -> Value:
    return _flip(select(_odd(q), _sine(r).high, _cosine(r).high), q + 1)


def _finish_tan(x: Value, q: Value, r: Pair) -> Value:
    s, k, odd = _sine(r), _cosine(r), _odd(q)
    above = Pair(select(odd, k.high, s.high), select(odd, k.low, s.low))
    below = Pair(select(odd, s.high, k.high), select(odd, s.low, k.low))
    value = _flip(quotient(above, below), q << 1)
    return select(fabs(x) < by_type(x, 2.0**-27, 2.0**-12), x, value)


def _periodic(name: str, finish: _Finish, x: Value) -> Value:
    def slow(far: Value) -> Value:
        q, r = _reduce_large(far.double())
        if not far.single:
            return finish(far, q, r)
        return finish(far.double(), q, r).float()

    return where_large(name, x, finish(x, *_reduce(x)), by_type(x, 2.0**27, 2.0**15), slow)


FUNCTIONS: Functions = {
    "sin": lambda x: _periodic("sin", _finish_sin, x),
    "cos": lambda x: _periodic("cos", _finish_cos, x),
    "tan": lambda x: _periodic("tan", _finish_tan, x),
}
