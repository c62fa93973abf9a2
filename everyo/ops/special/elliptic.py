"""The complete elliptic integrals, whose derivatives are Carlson's integrals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from everyo.core.registry import op
from everyo.core.samples import Sample
from everyo.ops.families import elementwise, primitive
from everyo.ops.special.domains import of_orders
from everyo.ops.special.kernels import in_double, real
from everyo.ops.special.tails import piecewise

__all__ = ["ellipe", "ellipk", "ellipkm1"]

_CLOSE, _TERMS = 0.4, 60  # where the power series is taken, and its end
_BELOW_ONE = (-3.0, 0.9)


def _ordered() -> list[Sample]:
    return of_orders(dict.fromkeys((1, 2), (0.01, 0.55, 0.7, 1.0, 1.3, 9.0)))


def _coefficient(k: int) -> float:
    """Return that of ``m**k`` in the series of K, less pi / 2: a square of a central binomial coefficient."""
    return (math.comb(2 * k, k) / 4**k) ** 2


def _derivative(
    xp: Any,
    p: Any,
    order: int,
    equation: Callable[[Any], Any],
    coefficient: Callable[[int], float],
    sign: int,
) -> Any:
    """Return a derivative in p by the differential equation; near p = 1, where it is singular, by a series.

    The series has powers of ``1 - p``; `sign` is that of the infinite value that the derivative of order 0
    would have at p = 0.
    """

    def series(p: Any) -> Any:
        m, total = 1 - p, xp.zeros_like(p)
        for k in range(_TERMS, order - 1, -1):
            total = total * m + coefficient(k) * math.perm(k, order)
        return (-1) ** order * math.pi / 2 * total

    pieces = [
        (p == 0, lambda p: sign * (-1.0) ** order * math.inf),
        (p == math.inf, lambda p: 0.0),
        ((order > 1) & (xp.abs(1 - p) < _CLOSE), series),
        (p > 0, equation),
    ]
    return piecewise(xp, math.nan, pieces, p)


def _k_slope(g: Any, p: Any, order: int) -> Any:
    return g * op.elliptic_k(p, order=order + 1)


@primitive(_k_slope, _k_slope, family="elementwise", samples=_ordered, domain=(0.1, 3.0), silent=True)
def _elliptic_k(xp: Any, p: Any, *, order: int) -> Any:
    """Derivative of this order of `ellipkm1`: Carlson's integral, then by the differential equation."""

    def evaluate(p: Any) -> Any:
        def equation(p: Any) -> Any:
            before, out = xp.special.ellipkm1(p), -xp.special.elliprd(0.0, 1.0, p) / 6
            for n in range(order - 1):
                turn = (n + 0.5) ** 2 * before - (n + 1) * (1 - 2 * p) * out
                before, out = out, turn / (p * (1 - p))
            return out

        return _derivative(xp, p, order, equation, _coefficient, 1)

    return in_double(xp, evaluate, p)


def _e_slope(g: Any, p: Any, order: int) -> Any:
    return g * op.elliptic_e(p, order=order + 1)


@primitive(_e_slope, _e_slope, family="elementwise", samples=_ordered, domain=(0.1, 3.0), silent=True)
def _elliptic_e(xp: Any, p: Any, *, order: int) -> Any:
    """Derivative of this order of ``ellipe(1 - p)``, as for K."""

    def evaluate(p: Any) -> Any:
        def equation(p: Any) -> Any:
            before, out = xp.special.ellipe(1 - p), xp.special.elliprd(0.0, p, 1.0) / 6
            for n in range(order - 1):
                turn = (n * n - 0.25) * before + (n * (2 * p - 1) + p) * out
                before, out = out, turn / (p * (1 - p))
            return out

        return _derivative(xp, p, order, equation, lambda k: _coefficient(k) / (1 - 2 * k), -1)

    return in_double(xp, evaluate, p)


@elementwise(lambda g, x: -g * op.elliptic_k(1 - x, order=1), domain=_BELOW_ONE, silent=True)
def ellipk(xp: Any, x: Any) -> Any:
    """Complete elliptic integral of the first kind K of the parameter m = `x`, elementwise.

    ``dK = (E - (1 - m) K) / (2 m (1 - m)) dm``, computed as Carlson's ``R_D(0, 1, 1 - m) / 6``, without
    cancellation at m = 0. It is infinite at 1, and NaN beyond. Source: DLMF 19.4 and 19.25.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.ellipk(eo.tensor(0.5)):.4f}")
    1.8541
    """
    return real(xp, "ellipk", x)


@elementwise(lambda g, x: g * op.elliptic_k(x, order=1), domain=(0.1, 3.0), silent=True)
def ellipkm1(xp: Any, x: Any) -> Any:
    """`ellipk` of ``1 - x``, elementwise, accurate for small `x`, where it tends to infinity.

    ``d ellipkm1(x) = -R_D(0, 1, x) / 6 dx`` with Carlson's integral. Source: DLMF 19.4 and 19.25.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.ellipkm1(eo.tensor(1e-20)):.4f}")
    24.4121
    """
    return real(xp, "ellipkm1", x)


@elementwise(lambda g, x: -g * op.elliptic_e(1 - x, order=1), domain=_BELOW_ONE, silent=True)
def ellipe(xp: Any, x: Any) -> Any:
    """Complete elliptic integral of the second kind E of the parameter m = `x`, elementwise.

    ``dE = (E - K) / (2 m) dm``, computed as Carlson's ``-R_D(0, 1 - m, 1) / 6``, without cancellation at m =
    0. It is 1 at 1, and NaN beyond. Source: DLMF 19.4 and 19.25.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.ellipe(eo.tensor(0.5)):.4f}")
    1.3506
    """
    return real(xp, "ellipe", x)
