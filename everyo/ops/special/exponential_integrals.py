"""Exponential integrals and Dawson's integral."""

from __future__ import annotations

import math
from typing import Any

from everyo.core.registry import op
from everyo.ops.families import elementwise, primitive
from everyo.ops.special.domains import of_orders, whole_orders
from everyo.ops.special.kernels import in_double, real
from everyo.ops.special.tails import piecewise

__all__ = ["dawsn", "exp1", "expi", "expn"]

_LARGEST_ORDER = 2.0**31
_NEAR, _FAR = 1.5, 7.0  # between them Dawson's integral is differentiated by Rybicki's sum
_STEP, _FIRST, _LAST = 0.2, -31, 69
_TERMS = 32  # of the asymptotic series


@elementwise(lambda g, x: -g * (op.exp(-x) / x), domain=(0.3, 4.0))
def exp1(xp: Any, x: Any) -> Any:
    """Exponential integral, the integral of ``exp(-t) / t`` from x to infinity, elementwise.

    ``d exp1(x) = -exp(-x) / x dx``. It is infinite at 0, and NaN below. Source: DLMF 6.2.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.exp1(eo.tensor(1.0)):.4f}")
    0.2194
    """
    return real(xp, "exp1", x)


def _expi_slope(g: Any, x: Any) -> Any:
    """``1 / x + exprel(x)`` near the pole; far out two factors, as the exponential overflows before this."""
    near, far = op.less(op.abs(x), 1), op.greater(x, 722)
    middle = op.where(op.logical_or(near, far), 1, x)
    half = op.exp(0.5 * middle)
    return g * op.where(near, 1 / x + op.exprel(x), op.where(far, op.exp(x), half * (half / middle)))


@elementwise(_expi_slope, domain=(0.3, 4.0))
def expi(xp: Any, x: Any) -> Any:
    """Exponential integral, the principal value of the integral of ``exp(t) / t`` up to x, elementwise.

    ``d expi(x) = exp(x) / x dx``. It is ``-inf`` at 0. Source: DLMF 6.2.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.expi(eo.tensor(1.0)):.4f}")
    1.8951
    """
    return real(xp, "expi", x)


@elementwise(
    None,
    lambda g, n, x: -g * op.expn(n - 1, x),
    domain=(0.3, 4.0),
    samples=whole_orders,
    missing="the order is a whole number",
    silent=True,
)
def expn(xp: Any, n: Any, x: Any) -> Any:
    """Generalized exponential integral of whole order `n`, elementwise.

    It is the integral of ``exp(-x t) / t**n`` from 1 to infinity: ``d expn(n, x) = -expn(n - 1, x) dx``.
    As derivatives need them, orders may be negative. It is NaN where `n` is no whole number or `x` is
    negative; a derivative in the order is refused. Source: DLMF 8.19.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.expn(2, eo.tensor(1.0)):.4f}")
    0.1485
    """

    def evaluate(n: Any, x: Any) -> Any:
        known = (n == xp.floor(n)) & (xp.abs(n) < _LARGEST_ORDER) & (x >= 0)
        order = xp.astype(xp.where(known, n, 0.0), xp.int64)
        out = xp.special.expn(xp.maximum(order, 0), x)
        lowest = -int(xp.min(order)) if order.size else 0
        for m in range(1, lowest + 1):
            out = xp.where(order <= -m, (xp.exp(-x) + m * out) / x, out)
        return xp.where(known, out, math.nan)

    return in_double(xp, evaluate, n, x)


def _dawsn_slope(g: Any, x: Any, order: int) -> Any:
    return g * op.dawsn_derivative(x, order=order + 1)


@primitive(
    _dawsn_slope,
    _dawsn_slope,
    family="elementwise",
    samples=lambda: of_orders({1: [-1.2, 0.0, 1.6, -5.0, 9.0], 2: [-8.0, 0.3, 1.4, 1.6, 5.0]}),
)
def _dawsn_derivative(xp: Any, x: Any, *, order: int) -> Any:
    """Derivative of `dawsn` of this order.

    By the recurrence ``D[n+1] = -2 x D[n] - 2 n D[n-1]``, which cancels for large `x`; there by the
    asymptotic series, and between by Rybicki's sum of Gaussians, differentiated term by term.
    """

    def recurrence(x: Any) -> Any:
        before = xp.special.dawsn(x)
        out = 1 - 2 * x * before
        for n in range(1, order):
            before, out = out, -2 * x * out - 2 * n * before
        return out

    def gaussians(x: Any) -> Any:
        size, total = xp.abs(x), xp.zeros_like(x)
        for n in range(_FIRST, _LAST + 1, 2):
            s = size - n * _STEP
            before, hermite = xp.zeros_like(x), xp.ones_like(x)
            for k in range(order):
                before, hermite = hermite, 2 * s * hermite - 2 * k * before
            total += xp.exp(-s * s) * hermite / n
        return (-xp.sign(x)) ** order * xp.sign(x) * total / math.sqrt(math.pi)

    def series(x: Any) -> Any:
        inverse = 1 / x
        square, total = inverse * inverse, xp.zeros_like(x)
        for k in range(_TERMS, -1, -1):
            rising = math.prod(range(2 * k + 1, 2 * k + 1 + order))
            total = total * square + math.prod(range(1, 2 * k, 2)) / 2 ** (k + 1) * rising
        return (-inverse) ** order * inverse * total

    def evaluate(x: Any) -> Any:
        size = xp.abs(x)
        pieces = [(size < _NEAR, recurrence), (size < _FAR, gaussians), (size >= _FAR, series)]
        return piecewise(xp, math.nan, pieces, x)

    return in_double(xp, evaluate, x)


@elementwise(lambda g, x: g * op.dawsn_derivative(x, order=1))
def dawsn(xp: Any, x: Any) -> Any:
    """Dawson's integral ``exp(-x**2)`` times the integral of ``exp(t**2)`` from 0 to x, elementwise.

    ``d dawsn(x) = (1 - 2 x dawsn(x)) dx``, computed without the cancellation of the two terms. Source: DLMF
    7.2 and 7.10.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.dawsn(eo.tensor(1.0)):.4f}")
    0.5381
    """
    return real(xp, "dawsn", x)
