"""The incomplete gamma functions, with derivatives in both arguments."""

from __future__ import annotations

import math
from typing import Any

from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.ops.families import elementwise, primitive
from everyo.ops.special.domains import PAIRS
from everyo.ops.special.gamma_family import _polygamma, polygamma_step
from everyo.ops.special.kernels import in_double, real
from everyo.ops.special.tails import (
    STIRLING,
    bell,
    end_of_tail,
    log_ratio,
    nodes,
    piecewise,
    stirling,
)

__all__ = ["gammainc", "gammaincc"]

_TERMS, _NODES = 100, 40
_TAU = 2 * math.pi
_DOMAIN = (0.5, 4.0)


def _pairs() -> list[Sample]:
    regions = sample(Values([0.3, 3.0, 3.0, 30.0, 30.0]), Values([0.2, 2.0, 6.0, 25.0, 36.0]))
    return [*(sample(*pair) for pair in PAIRS), regions]


def _ordered_pairs() -> list[Sample]:
    higher = [sample(Values([0.7, 30.0]), Values([0.6, 36.0]), order=k) for k in (2, 3)]
    return [*(s.with_params(order=1) for s in _pairs()), *higher]


def _weight(xp: Any, a: Any, x: Any) -> Any:
    """Return ``x**a exp(-x) / gamma(a + 1)``, with few rounding errors where `a` and `x` are large."""

    def of_large(a: Any, x: Any) -> Any:
        exponent = a * log_ratio(xp, x, a, x - a) - (x - a)
        return xp.exp(exponent - stirling(a)) / xp.sqrt(_TAU * a)

    def of_small(a: Any, x: Any) -> Any:
        return xp.exp(xp.special.xlogy(a, x) - x - xp.special.gammaln(a + 1))

    return piecewise(xp, math.nan, [(a >= STIRLING, of_large), (a >= 0, of_small)], a, x)


def _log_slope(a: Any, x: Any, density: Any) -> Any:
    """Return the derivative of the logarithm of the density in a; finite where the density is zero."""
    return op.log(op.where(op.equal(density, 0), 1, x)) - op.digamma(a)


def _density_by_a(g: Any, x1: Any, x2: Any, out: Any) -> Any:
    return g * (out * _log_slope(x1, x2, out))


def _density_by_x(g: Any, x1: Any, x2: Any, out: Any) -> Any:
    """At the ends it is the difference of the densities for a - 1 and a, which has a limit there."""
    end = op.logical_or(op.equal(x2, 0), op.isinf(x2))
    inner = op.where(end, 1, x2)
    at_end = op.gamma_density(op.where(end, x1 - 1, 2), op.where(end, x2, 0)) - out
    return g * op.where(end, at_end, out * ((x1 - 1 - inner) / inner))


@elementwise(_density_by_a, _density_by_x, domain=_DOMAIN, samples=_pairs, silent=True)
def _gamma_density(xp: Any, x1: Any, x2: Any) -> Any:
    """``x**(a-1) exp(-x) / gamma(a)`` for a = `x1`, x = `x2`."""

    def evaluate(a: Any, x: Any) -> Any:
        pole = (a <= 0) & (a == xp.floor(a))  # of the gamma function
        at_zero = xp.where(a == 1, 1.0, xp.where((a > 1) | pole, 0.0, xp.where(a > 0, math.inf, -math.inf)))
        inside = (x > 0) & (x < math.inf)
        value = _weight(xp, a, xp.where(inside, x, 1.0)) / xp.where(inside, x, 1.0) * a
        return xp.where(inside, value, xp.where(x == 0, at_zero, xp.where(x == math.inf, 0.0, math.nan)))

    return in_double(xp, evaluate, x1, x2)


def _by_a(g: Any, a: Any, x: Any, order: int) -> Any:
    return g * op.gammainc_by_a(a, x, order=order + 1)


def _by_x(g: Any, a: Any, x: Any, order: int) -> Any:
    density = op.gamma_density(a, x)

    def derivative(k: int) -> Any:
        return _log_slope(a, x, density) if k == 1 else -op.polygamma(a, n=k - 1)

    return g * (density * bell(order, derivative))


_RULES = (_by_a, _by_x)


@primitive(
    _RULES,
    _RULES,
    family="elementwise",
    broadcasts=True,
    domain=(_DOMAIN, _DOMAIN),
    samples=_ordered_pairs,
    silent=True,
)
def _gammainc_by_a(xp: Any, a: Any, x: Any, *, order: int = 1) -> Any:
    """Derivative of this order in `a` of the lower incomplete gamma function.

    For x up to a + 1/2 and small a the power series, differentiated term by term: there all terms have one
    sign. Elsewhere the integral over the tail on whose side of ``exp(digamma(a))`` x lies.
    """

    def series(a: Any, x: Any) -> Any:
        if order == 1:
            return _first_series(xp, a, x)
        known = [xp.log(x) if k == 0 else 0.0 for k in range(order)]
        known = [c - _polygamma.forward(xp, a + 1, n=k) for k, c in enumerate(known)]
        term, total = _weight(xp, a, x), xp.zeros_like(x)
        for m in range(1, _TERMS):
            part = term * bell(order, lambda k: known[k - 1])
            total = total + part
            term = term * (x / (a + m))
            for k in range(order):
                known[k] = known[k] - polygamma_step(a + m, k)
            if not xp.any(xp.abs(part) > 1e-18 * xp.abs(total)):
                break
        return total

    def tail(a: Any, x: Any) -> Any:
        """With t = x exp(v), the factor 1 / gamma(a) taken for ``a / gamma(a + 1)``: a may be tiny."""
        lower = x < a - 0.5
        sign = xp.where(lower, -1.0, 1.0)

        def fall(s: Any) -> tuple[Any, Any]:
            v = sign * s
            grown = xp.expm1(v)
            return x * grown - a * v, sign * (x * grown + (x - a))

        length = end_of_tail(xp, fall, xp.abs(x - a), x)
        large = a >= STIRLING
        ratio = log_ratio(xp, x, xp.where(large, a, x), xp.where(large, x - a, 0.0))
        beyond = -0.5 / a + 1 / (12 * a**2) - 1 / (120 * a**4) + 1 / (252 * a**6) - 1 / (240 * a**8)
        start = xp.where(large, ratio + beyond, xp.log(x) - xp.special.psi(a + 1))
        if order == 1:
            return -sign * _weight(xp, a, x) * length * _first_integral(xp, a, x, start, sign * length)
        rest = [-_polygamma.forward(xp, a + 1, n=k) for k in range(1, order)]
        total = xp.zeros_like(x)
        for node, weight in nodes(xp, 1, _NODES):
            v = sign * (node * length)
            first = start + v
            factor = a * bell(order, lambda k: rest[k - 2] if k > 1 else first)  # noqa: B023
            factor = factor + order * bell(order - 1, lambda k: rest[k - 2] if k > 1 else first)  # noqa: B023
            total = total + weight * xp.exp(a * v - x * xp.expm1(v)) * factor
        return -sign * _weight(xp, a, x) * length * total

    def evaluate(a: Any, x: Any) -> Any:
        outside = (x == 0) | (x == math.inf)
        known = [
            ((a >= 0) & outside, lambda a, x: 0 * a),
            ((a >= 0) & (a < STIRLING) & (x > 0) & (x <= a + 0.5), series),
            ((a >= 0) & (a < math.inf) & (x > 0), tail),
        ]
        return piecewise(xp, math.nan, known, a, x)

    return in_double(xp, evaluate, a, x)


def _first_series(xp: Any, a: Any, x: Any) -> Any:
    """Return the first derivative of the power series, in a few operations a term."""
    term, slope = _weight(xp, a, x), xp.log(x) - xp.special.psi(a + 1)
    total = term * slope
    for m in range(1, _TERMS):
        inverse = 1 / (a + m)
        term *= x
        term *= inverse
        slope -= inverse
        part = term * slope
        total += part
        if m % 4 == 0 and not xp.any(xp.abs(part) > 1e-18 * xp.abs(total)):
            break
    return total


def _first_integral(xp: Any, a: Any, x: Any, start: Any, length: Any) -> Any:
    """Return the integral over the tail, which has this length, for the first derivative."""
    total, first, slope = xp.zeros_like(x), a * start + 1, a * length
    for node, weight in nodes(xp, 1, _NODES):
        part = xp.expm1(length * node)
        part *= -x
        moved = slope * node
        part += moved
        xp.exp(part, out=part)
        moved += first
        part *= moved
        part *= weight
        total += part
    return total


@elementwise(
    lambda g, x1, x2: g * op.gammainc_by_a(x1, x2, order=1),
    lambda g, x1, x2: g * op.gamma_density(x1, x2),
    domain=_DOMAIN,
    samples=_pairs,
    silent=True,
)
def gammainc(xp: Any, x1: Any, x2: Any) -> Any:
    """Regularized lower incomplete gamma function P(a, x) for a = `x1`, x = `x2`, elementwise.

    It is the integral of ``t**(a-1) exp(-t) / gamma(a)`` from 0 to x. The derivative in x is the integrand,
    that in a the integral of the integrand times ``log(t) - digamma(a)``, by series or quadrature with a
    relative error of about ``1e-13``, growing with the root of a. Source: DLMF 8.2 and 8.8.

    Examples
    --------
    >>> import everyo as eo
    >>> a = eo.tensor(2.0, requires_grad=True)
    >>> value = eo.special.gammainc(a, 1.5)
    >>> value.backward()
    >>> print(f"{value:.4f} {a.grad:.4f}")
    0.4422 -0.3135
    """
    return real(xp, "gammainc", x1, x2)


@elementwise(
    lambda g, x1, x2: -g * op.gammainc_by_a(x1, x2, order=1),
    lambda g, x1, x2: -g * op.gamma_density(x1, x2),
    domain=_DOMAIN,
    samples=_pairs,
    silent=True,
)
def gammaincc(xp: Any, x1: Any, x2: Any) -> Any:
    """Regularized upper incomplete gamma function ``1 - gammainc(x1, x2)``, elementwise.

    Accurate where it is small; its derivatives are those of `gammainc`, with the other sign.
    Source: DLMF 8.2.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.gammaincc(eo.tensor(2.0), 50.0):.4g}")
    9.837e-21
    """
    return real(xp, "gammaincc", x1, x2)
