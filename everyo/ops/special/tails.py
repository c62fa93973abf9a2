"""Integrals over one tail of a distribution, for derivatives in its parameters.

The derivative of a distribution function in a parameter is an integral of the density times a polynomial
in the logarithm of the variable. Over all values it vanishes, so either tail will do; on the tail that is
chosen the linear polynomial keeps its sign, so that nothing cancels. The density falls monotonically there:
the rule of Gauss and Legendre up to where it is negligible gives all digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from everyo.ops.special.gamma_family import BERNOULLI

NEGLIGIBLE = 40.0  # the density at the end of the tail is exp(-NEGLIGIBLE) of that at its beginning
STIRLING = 20.0  # from here on Stirling's series has all digits


_known: dict[tuple[int, int], list[tuple[float, float]]] = {}


def nodes(xp: Any, panels: int, count: int) -> list[tuple[float, float]]:
    """Return nodes and weights on (0, 1), in panels of equal length with `count` nodes each."""
    found = _known.get((panels, count))
    if found is None:
        points, weights = xp.special.roots_legendre(count)
        found = _known[panels, count] = [
            ((k + (1 + float(p)) / 2) / panels, float(w) / 2 / panels)
            for k in range(panels)
            for p, w in zip(points, weights, strict=True)
        ]
    return found


def end_of_tail(
    xp: Any, fall: Callable[[Any], tuple[Any, Any]], slope: Any, curvature: Any, steps: int = 8
) -> Any:
    """Return where ``fall(s)[0]`` reaches `NEGLIGIBLE`, by Newton's method from the parabola at 0.

    `fall` returns minus the logarithm of the density at a distance s, a convex function, and its slope.
    """
    s = 2 * NEGLIGIBLE / (slope + xp.sqrt(slope * slope + 2 * NEGLIGIBLE * curvature))
    for _ in range(steps):
        value, derivative = fall(s)
        s = xp.maximum(s - (value - NEGLIGIBLE) / derivative, 0.25 * s)
    return s


def log_ratio(xp: Any, x: Any, y: Any, difference: Any) -> Any:
    """Return ``log(x / y)`` by their difference where that is small."""
    relative = difference / y
    return xp.where(xp.abs(relative) < 0.5, xp.log1p(relative), xp.log(x / y))


def stirling(z: Any) -> Any:
    """Return ``gammaln(z)`` less ``(z - 1/2) log(z) - z + log(2 pi) / 2``, for `z` from `STIRLING` on."""
    inverse, total = 1 / z, 0.0
    for k in range(8, 0, -1):
        total = total * inverse * inverse + BERNOULLI[k - 1] / (2 * k * (2 * k - 1))
    return total * inverse


def bell(order: int, derivative: Callable[[int], Any]) -> Any:
    """Return the derivative of this order of ``exp(f)``, divided by it: a Bell polynomial.

    ``derivative(k)`` is that of f.
    """
    slopes = [derivative(k) for k in range(1, order + 1)]
    values: list[Any] = [1.0]
    for k in range(order):
        values.append(sum(math.comb(k, r) * values[k - r] * slopes[r] for r in range(k + 1)))
    return values[order]


def bell_of_two(i: int, j: int, derivative: Callable[[int, int], Any]) -> Any:
    """Return the derivative of orders i and j of ``exp(f)``, divided by it.

    ``derivative(k, l)`` is that of f.
    """
    slopes = {(k, m): derivative(k, m) for k in range(i + 1) for m in range(j + 1) if k or m}
    values = {(0, m): bell(m, lambda s: slopes[0, s]) for m in range(j + 1)}
    for k in range(i):
        for m in range(j + 1):
            values[k + 1, m] = sum(
                math.comb(k, r) * math.comb(m, s) * values[k - r, m - s] * slopes[r + 1, s]
                for r in range(k + 1)
                for s in range(m + 1)
            )
    return values[i, j]


def piecewise(xp: Any, otherwise: float, pieces: list[tuple[Any, Callable[..., Any]]], *arrays: Any) -> Any:
    """Return each function where its condition is the first one that holds, and `otherwise`."""
    out = xp.full(arrays[0].shape, otherwise)
    free = xp.ones(out.shape, dtype=bool)
    for condition, function in pieces:
        here = free & condition
        if xp.any(here):
            out[here] = function(*[x[here] for x in arrays])
        free = free & ~condition
    return out
