"""Quotients that have a limit where they are zero by zero, and what is differentiated by them."""

from __future__ import annotations

import math
from typing import Any

from everyo.core.registry import op
from everyo.ops.families import elementwise, primitive
from everyo.ops.special.domains import of_orders
from everyo.ops.special.kernels import in_double, real
from everyo.ops.special.tails import piecewise

__all__ = ["cosm1", "exprel", "spence"]

_SMALL, _TERMS = 2.5, 30  # the power series of the exponential function and its end
_CLOSE, _POWERS = 0.4, 50  # the same for the logarithm


@elementwise(lambda g, x: -g * op.sin(x))
def cosm1(xp: Any, x: Any) -> Any:
    """``cos(x) - 1``, elementwise, accurate for small `x`: ``d cosm1(x) = -sin(x) dx``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.cosm1(eo.tensor(1e-6)):.2g}")
    -5e-13
    """
    return real(xp, "cosm1", x)


def exponential_moment(xp: Any, x: Any, order: int) -> Any:
    """Return the derivative of `exprel` of this order: the integral of ``t**order exp(x t)`` from 0 to 1.

    By the power series, and where that is long or cancels by ``x E[m] = exp(x) - m E[m-1]``.
    """

    def series(x: Any) -> Any:
        total = xp.zeros_like(x)
        for k in range(_TERMS, -1, -1):
            total = total * x + 1 / (math.factorial(k) * (k + order + 1))
        return total

    def recurrence(x: Any) -> Any:
        exponential, out = xp.exp(x), xp.special.exprel(x)
        for m in range(1, order + 1):
            out = (exponential - m * out) / x
        return out

    return piecewise(
        xp,
        math.nan,
        [
            (xp.abs(x) < _SMALL, series),
            (xp.exp(x) == math.inf, xp.exp),
            (x == -math.inf, lambda x: 0.0),
            (x == x, recurrence),
        ],
        x,
    )


def _exprel_slope(g: Any, x: Any, order: int) -> Any:
    return g * op.exprel_derivative(x, order=order + 1)


@primitive(
    _exprel_slope,
    _exprel_slope,
    family="elementwise",
    samples=lambda: of_orders(dict.fromkeys((1, 2), (-30.0, -2.6, 0.0, 1.5, 4.0))),
)
def _exprel_derivative(xp: Any, x: Any, *, order: int) -> Any:
    """Derivative of `exprel` of this order."""
    return in_double(xp, lambda x: exponential_moment(xp, x, order), x)


@elementwise(lambda g, x: g * op.exprel_derivative(x, order=1))
def exprel(xp: Any, x: Any) -> Any:
    """``(exp(x) - 1) / x``, elementwise, and 1 at 0.

    ``d exprel(x) = (exp(x) - exprel(x)) / x dx``, which is 1/2 at 0, without cancellation.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.exprel(eo.tensor(1e-9)):.4f}")
    1.0000
    """
    return real(xp, "exprel", x)


def _quotient_slope(g: Any, x: Any, order: int) -> Any:
    return g * op.log_quotient(x, order=order + 1)


@primitive(
    _quotient_slope,
    _quotient_slope,
    family="elementwise",
    domain=(0.3, 2.5),
    samples=lambda: [
        s.with_params(order=k)
        for k, s in enumerate(of_orders(dict.fromkeys((1, 2), (0.1, 0.7, 1.0, 1.3, 30.0))))
    ],
    silent=True,
)
def _log_quotient(xp: Any, x: Any, *, order: int = 0) -> Any:
    """Derivative of this order of ``log(x) / (x - 1)``.

    By the power series about 1, elsewhere by ``(x - 1) L[m] = log(x)[m] - m L[m-1]``.
    """

    def series(x: Any) -> Any:
        y, total = x - 1, xp.zeros_like(x)
        for k in range(_POWERS, order - 1, -1):
            total = total * y + (-1) ** k * math.perm(k, order) / (k + 1)
        return total

    def recurrence(x: Any) -> Any:
        y = x - 1
        out = xp.log(x) / y
        for m in range(1, order + 1):
            out = (-((-1.0) ** m) * math.factorial(m - 1) / x**m - m * out) / y
        return out

    def evaluate(x: Any) -> Any:
        pieces = [
            (xp.abs(x - 1) < _CLOSE, series),
            (x == 0, lambda x: (-1.0) ** order * math.inf),
            (x == math.inf, lambda x: 0.0),
            (x > 0, recurrence),
        ]
        return piecewise(xp, math.nan, pieces, x)

    return in_double(xp, evaluate, x)


@elementwise(lambda g, x: -g * op.log_quotient(x, order=0), domain=(0.3, 2.5), silent=True)
def spence(xp: Any, x: Any) -> Any:
    """Spence's function, the integral of ``log(t) / (1 - t)`` from 1 to x, elementwise.

    It is the dilogarithm of ``1 - x``: ``d spence(x) = log(x) / (1 - x) dx``, which is -1 at 1, without
    cancellation. It is NaN below 0. Source: DLMF 25.12.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.spence(eo.tensor(0.0)):.4f}")
    1.6449
    """
    return real(xp, "spence", x)
