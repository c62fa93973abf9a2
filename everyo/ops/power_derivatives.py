"""Derivatives of powers in base and exponent, of all orders: one operation, so mixed ones are symmetric."""

from __future__ import annotations

import functools
import math
from typing import Any

from everyo.core.dtypes import float64
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.ops.families import primitive

__all__: list[str] = []


def polynomials(by_base: int, by_exponent: int) -> list[list[float]]:
    """Return what ``log(x)**n`` and lower powers are multiplied by in ``d**n/dy**n (p(y) x**(y - m))``.

    Here p is the product ``y (y - 1) ... (y - m + 1)``. By Leibniz they are polynomials in y, given by their
    coefficients, from that of the highest power on; the constants that are left out are 0.
    """
    terms = [1.0]
    for j in range(by_base):
        terms = [high - j * low for high, low in zip([*terms, 0.0], [0.0, *terms])]
    found = []
    for k in range(min(by_base, by_exponent) + 1):
        found.append([c * math.comb(by_exponent, k) for c in terms])
        terms = [c * i for c, i in zip(terms, range(len(terms) - 1, 0, -1))]
    return found


def times_polynomial(xp: Any, power: Any, log: Any, y: Any, by_base: int, by_exponent: int) -> Any:
    """Return ``d**n/dy**n (p(y) x**(y - m))`` from ``x**(y - m)`` and ``log(x)``; 0 times infinity is 0."""
    factor = math.prod((y - j for j in range(1, by_base)), start=y) if by_base else xp.ones_like(y)
    lower = polynomials(by_base, by_exponent)[1:]
    for k in range(by_exponent):
        factor = xp.where((factor == 0) & xp.isinf(log), 0, factor * log)
        if k < len(lower):
            factor = factor + functools.reduce(lambda value, c: value * y + c, lower[k])
    void = (factor == 0) | (power == 0) & xp.isinf(factor)
    return xp.where(void, 0, power * factor)


def _samples() -> list[Sample]:
    orders = [(1, 0), (0, 1), (1, 1), (2, 1), (1, 2), (0, 2), (3, 2)]
    points = [((2, 1), (1, 3)), (Values([0.5, 1.5, 2.0, 3.0]), Values([0.0, 1.0, 2.0, 3.0])), ((0, 2), (2,))]
    return [sample(*p, by_base=m, by_exponent=n) for m, n in orders for p in points]


def _in_base(g: Any, x1: Any, x2: Any, by_base: int, by_exponent: int) -> Any:
    return g * op.power_derivative(x1, x2, by_base=by_base + 1, by_exponent=by_exponent)


def _in_exponent(g: Any, x1: Any, x2: Any, by_base: int, by_exponent: int) -> Any:
    return g * op.power_derivative(x1, x2, by_base=by_base, by_exponent=by_exponent + 1)


@primitive(
    (_in_base, _in_exponent),
    (_in_base, _in_exponent),
    family="elementwise",
    broadcasts=True,
    samples=_samples,
    domain=((0.5, 2.0), (-2.0, 2.0)),
)
def _power_derivative(xp: Any, x1: Any, x2: Any, *, by_base: int = 1, by_exponent: int = 0) -> Any:
    """Derivative of ``x1**x2`` of these orders for real numbers; at 0 and infinity the limit from inside.

    Derivatives in the exponent alone are 0 at the base 0 where the power is finite.
    """
    dtype = xp.result_type(x1, x2)
    dtype = dtype if dtype.kind in "fc" else float64
    x1, x2 = (xp.asarray(x, dtype=dtype) for x in (x1, x2))
    power, log = op.power(x1, x2 - by_base), xp.log(x1) if by_exponent else 0
    out = times_polynomial(xp, power, log, x2, by_base, by_exponent)
    out = out if by_base else xp.where((x1 == 0) & xp.isfinite(power), 0, out)
    return xp.asarray(out, dtype=dtype)
