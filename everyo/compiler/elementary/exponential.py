"""exp, exp2, expm1, sigmoid.

The argument is reduced by Cody and Waite's method: x = n ln 2 + r with |r| <= ln(2) / 2, n ln 2 subtracted
in two parts. As n is small, the first part is exact with a fused multiply-add. e**r is a polynomial, and
2**n goes into the exponent bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from everyo.compiler.elementary import coefficients as c
from everyo.compiler.elementary.arithmetic import Pair, fast_two_sum
from everyo.compiler.elementary.builder import (
    BIAS,
    MANTISSA,
    Functions,
    Operand,
    Value,
    at_least,
    at_most,
    by_type,
    fabs,
    fma,
    polynomial,
    select,
)


@dataclass(frozen=True)
class Reduced:
    """x = n ln 2 + r, e**r = 1 + r + tail; `exponent` holds ``n + 2 * bias`` in its low bits."""

    exponent: Value
    r: Value
    tail: Value


def split_exponent(x: Value, scale: float, added: int | None = None) -> tuple[Value, Value]:
    """Return the integer n next to ``x * scale``, as a float and as ``n + added`` in the low bits.

    By default ``2 * bias`` is added, as `times_power` has it.
    """
    # Near this number the spacing of floats is 1: adding it rounds, and its low bits then count.
    magic = 1.5 * 2.0 ** MANTISSA[x.kind] + (2 * BIAS[x.kind] if added is None else added)
    shifted = fma(x, scale, magic) if scale != 1.0 else x + magic
    return shifted - magic, shifted.bits()


def times_power(value: Value, exponent: Value) -> Value:
    """Return ``value * 2**n`` for the `exponent` of `split_exponent`, subnormal results rounded once."""
    bits = MANTISSA[value.kind]
    half = exponent >> 1
    return value * (half << bits).real() * ((exponent - half) << bits).real()


def clamp(x: Value) -> Value:
    """Return `x`, moved to where the exponential is about to overflow or is far below the least float."""
    return at_least(at_most(x, by_type(x, 710.0, 89.0)), by_type(x, -750.0, -105.0))


def subtract_multiple(x: Value, n: Value) -> tuple[Value, Value]:
    """Return ``x - n ln 2`` as its exact leading part and the small rest."""
    high, low = by_type(x, c.LN2_64, c.LN2_32)
    return fma(n, -high, x), n * -low


def exp(x: Value, extra: Operand = 0, series: Sequence[float] = ()) -> Value:
    """Return e**(x + extra), `extra` being small beside 1."""
    x = clamp(x)
    n, exponent = split_exponent(x, 1 / math.log(2))
    high, low = by_type(x, c.LN2_64, c.LN2_32)
    r = fma(n, -low, fma(n, -high, x))
    if isinstance(extra, Value):
        r = r + extra
    return times_power(polynomial(r, (1, 1, *(series or by_type(x, c.EXP_64, c.EXP_32)))), exponent)


def exp2(x: Value) -> Value:
    x = at_least(at_most(x, by_type(x, 1030.0, 130.0)), by_type(x, -1080.0, -155.0))
    n, exponent = split_exponent(x, 1.0)
    r = (x - n) * by_type(x, c.LN2_64, c.LN2_32)[0]
    return times_power(polynomial(r, (1, 1, *by_type(x, c.EXP_64, c.EXP_32))), exponent)


def reduce(x: Value, extra: Value | None = None) -> Reduced:
    """Reduce ``x + extra``, `extra` being below the last place of `x`."""
    n, exponent = split_exponent(x, 1 / math.log(2))
    high, low = subtract_multiple(x, n)
    if extra is not None:
        low = low + extra
    r, rest = fast_two_sum(high, low)
    tail = fma(r * r, polynomial(r, by_type(x, c.EXPM1_64, c.EXPM1_32)), rest)
    return Reduced(exponent, r, tail)


def exp_pair(x: Value, extra: Value | None = None) -> tuple[Pair, Value]:
    """Return e**r as a pair and the exponent, which `times_power` applies: some bits more than one float."""
    reduced = reduce(x, extra)
    s, s_low = fast_two_sum(reduced.r, reduced.tail)
    high, low = fast_two_sum(s.like(1), s)
    return Pair(high, low + s_low), reduced.exponent


def half_expm1(x: Value) -> Pair:
    """Return ``(e**x - 1) / 2`` as a pair, for x from -40 up to where e**x overflows.

    With s = 2**(n - 1) that is (s - 1/2) + s r + s tail, the first two added without error.
    """
    reduced = reduce(x)
    s = ((reduced.exponent - (BIAS[x.kind] + 1)) << MANTISSA[x.kind]).real()
    high, low = fast_two_sum(s - 0.5, s * reduced.r)
    return Pair(*fast_two_sum(high, fma(s, reduced.tail, low)))


def expm1(x: Value) -> Value:
    near = at_least(at_most(x, by_type(x, 710.0, 89.0)), by_type(x, -40.0, -20.0))
    result = 2 * half_expm1(near).high
    return select(fabs(x) < by_type(x, 2.0**-54, 2.0**-25), x, result)


def exp_below(x: Value) -> Value:
    """Return e**x for x from where that is far below the least float up to 0.

    The power of two is too large at first, so that it is a normal number.
    """
    lift = by_type(x, 128, 64)
    n, exponent = split_exponent(x, 1 / math.log(2), BIAS[x.kind] + lift)
    high, low = by_type(x, c.LN2_64, c.LN2_32)
    r = fma(n, -low, fma(n, -high, x))
    power = (exponent << MANTISSA[x.kind]).real()
    return polynomial(r, (1, 1, *by_type(x, c.EXP_64, c.EXP_32))) * power * 2.0**-lift


def sigmoid(x: Value) -> Value:
    """1 / (1 + z) for x >= 0, else z / (1 + z), with z = e**-|x|.

    What 1 + z loses to rounding is put right with a rough inverse of it, exact to some bits.
    """
    z = exp_below(at_least(-fabs(x), by_type(x, -750.0, -105.0)))
    total, lost = fast_two_sum(z.like(1), z)
    ratio = select(x >= 0, 1, z) / total
    return fma(-ratio, lost * fma(total, -0.457, 1.457), ratio)


FUNCTIONS: Functions = {"exp": lambda x: exp(x), "exp2": exp2, "expm1": expm1, "sigmoid": sigmoid}
