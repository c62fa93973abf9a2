"""The incomplete beta function, with derivatives in all three arguments."""

from __future__ import annotations

import math
from typing import Any

from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.ops.families import elementwise, primitive
from everyo.ops.special.gamma_family import _polygamma, _polygamma_difference, polygamma_step
from everyo.ops.special.kernels import in_double, real
from everyo.ops.special.tails import (
    STIRLING,
    bell_of_two,
    end_of_tail,
    log_ratio,
    nodes,
    piecewise,
    stirling,
)

__all__ = ["betainc"]

_DOMAIN = ((0.5, 4.0), (0.5, 4.0), (0.1, 0.9))
_TERMS, _REACH = 250, 25.0  # the series converge within so many terms for x (a + b) up to the reach
_TAU = 2 * math.pi


def _triples() -> list[Sample]:
    shapes = [((), (), ()), ((2, 3), (3,), ()), ((2, 1), (1, 3), (3,)), ((0, 2), (2,), (2,))]
    regions = sample(
        Values([0.5, 30.0, 30.0, 2.0, 5.0, 0.8, 40.0]),
        Values([0.7, 40.0, 40.0, 9.0, 0.4, 12.0, 0.5]),
        Values([0.3, 0.35, 0.6, 0.35, 0.8, 0.3, 0.97]),
    )
    return [*(sample(*triple) for triple in shapes), regions]


def _ordered_triples() -> list[Sample]:
    *plain, regions = _triples()
    first = [s.with_params(i=k % 2, j=1 - k % 2) for k, s in enumerate([*plain, regions, regions])]
    return [*first, *(sample((), (), (), i=i, j=j) for i, j in ((2, 2), (3, 1)))]


def _difference(xp: Any, a: Any, b: Any, n: int = 0) -> Any:
    """Return ``polygamma(n, a + b) - polygamma(n, a)``."""
    return _polygamma_difference.forward(xp, a, b, n=n)


class _Point:
    """Arguments a, b, x with y = 1 - x and the logarithms of both, all accurate."""

    def __init__(self, xp: Any, a: Any, b: Any, x: Any, y: Any) -> None:
        self.xp, self.a, self.b, self.x, self.y = xp, a, b, x, y
        self.log_x = xp.where(y < 0.5, xp.log1p(-y), xp.log(x))
        self.log_y = xp.where(x < 0.5, xp.log1p(-x), xp.log(y))

    def turned(self) -> _Point:
        """Return the point for 1 - x."""
        return _Point(self.xp, self.b, self.a, self.y, self.x)

    def weight(self) -> Any:
        """Return ``x**a y**b / beta(a, b)``, with few rounding errors where `a` and `b` are large."""
        xp = self.xp

        def of_large(a: Any, b: Any, x: Any, y: Any) -> Any:
            n, excess = a + b, x * b - y * a
            exponent = a * log_ratio(xp, x, a / n, excess / n) + b * log_ratio(xp, y, b / n, -excess / n)
            return xp.exp(exponent + stirling(n) - stirling(a) - stirling(b)) * xp.sqrt(a / n * b / _TAU)

        def of_one_large(a: Any, b: Any, x: Any, y: Any) -> Any:
            """With a small and b large."""
            point, n = _Point(xp, a, b, x, y), a + b
            growth = a * xp.log(n) + ((b - 0.5) * xp.log1p(a / b) - a) + stirling(n) - stirling(b)
            return xp.exp(a * point.log_x + b * point.log_y + growth - xp.special.gammaln(a))

        def of_small(a: Any, b: Any, x: Any, y: Any) -> Any:
            point = _Point(xp, a, b, x, y)
            return xp.exp(a * point.log_x + b * point.log_y - xp.special.betaln(a, b))

        pieces = [
            ((self.a >= STIRLING) & (self.b >= STIRLING), of_large),
            ((self.a > 0) & (self.b >= STIRLING), of_one_large),
            ((self.b > 0) & (self.a >= STIRLING), lambda a, b, x, y: of_one_large(b, a, y, x)),
            ((self.a > 0) & (self.b > 0), of_small),
        ]
        return piecewise(xp, math.nan, pieces, self.a, self.b, self.x, self.y)


def _known(point: _Point, i: int, j: int, a: Any) -> dict[tuple[int, int], Any]:
    """Return the derivatives in a and b of ``a log(x) + b log(y) - betaln(a, b)``.

    The argument `a` stands for the a of ``gammaln(a)``; a + b stays in place.
    """
    xp, n = point.xp, point.a + point.b
    known = {}
    for k in range(i + 1):
        for m in range(j + 1):
            if k and m:
                known[k, m] = _polygamma.forward(xp, n, n=k + m - 1)
            elif k:
                known[k, 0] = _difference(xp, a, n - a, k - 1) + (point.log_x if k == 1 else 0.0)
            elif m:
                known[0, m] = _difference(xp, point.b, point.a, m - 1) + (point.log_y if m == 1 else 0.0)
    return known


def _series(point: _Point, i: int, j: int) -> Any:
    """Return the derivative of the power series of I(x; a, b), term by term (DLMF 8.17.8)."""
    if (i, j) == (1, 0):
        return _first_series(point)
    xp, a, b = point.xp, point.a, point.b
    term, total = point.weight() / a, xp.zeros_like(a)
    known = _known(point, i, j, a + 1)
    for n in range(_TERMS):
        part = term * bell_of_two(i, j, lambda k, m: known[k, m])
        total = total + part
        above, below = a + b + n, a + (n + 1)
        term = term * (point.x * above / below)
        for k, m in known:
            step = polygamma_step(above, k + m - 1)
            if not m:
                step = (1 - b) / above / below if k == 1 else step - polygamma_step(below, k - 1)
            known[k, m] = known[k, m] + step
        if not xp.any(xp.abs(part) > 1e-18 * xp.abs(total)):
            break
    return total


def _first_series(point: _Point) -> Any:
    """Return the first derivative in a of the power series, in a few operations a term."""
    xp, a, n = point.xp, point.a, point.a + point.b
    term, total, change = point.weight() / a, xp.zeros_like(a), 1 - point.b
    slope = _difference(xp, a + 1, point.b - 1) + point.log_x
    for k in range(_TERMS):
        part = term * slope
        total += part
        if k % 4 == 3 and not xp.any(xp.abs(part) > 1e-18 * xp.abs(total)):
            break
        above, below = n + k, a + (k + 1)
        step = change / below
        step /= above
        slope += step
        above *= point.x
        above /= below
        term *= above
    return total


def _tail(point: _Point, i: int, j: int, sign: float, panels: int, length: Any = None) -> Any:
    """Return the derivative of the integral from x down (sign -1) or up, which ends after `length`.

    The variable is the logit v of t, less that of x: ``t = x exp(v) / (y + x exp(v))``.
    """
    xp, a, b, x, y = point.xp, point.a, point.b, point.x, point.y
    n, middle = a + b, bool(xp.all(y >= 0.25))  # no logarithm of a small number

    def logarithm(v: Any) -> Any:
        """``log(y + x exp(v))``."""
        near = xp.log1p(x * xp.expm1(v))
        return near if sign > 0 or middle else xp.where(v < -0.7, xp.log(y + x * xp.exp(v)), near)

    def fall(s: Any) -> tuple[Any, Any]:
        d = logarithm(sign * s)
        return n * d - a * sign * s, sign * (n * xp.exp(point.log_x + sign * s - d) - a)

    if length is None:
        length = end_of_tail(xp, fall, xp.abs(x * b - y * a), n * x * y)
    known, total = _known(point, i, j, a), xp.zeros_like(a)
    for node, weight in nodes(xp, panels, 40):
        v = (sign * node) * length
        d = logarithm(v)
        if (i, j) == (1, 0):
            part = known[1, 0] + v
            part -= d
            v *= a
            d *= n
            v -= d
            part *= xp.exp(v, out=v)
            part *= weight
            total += part
            continue
        here = {**known}
        for key, moved in (((1, 0), v - d), ((0, 1), -d)):
            if key in known:
                here[key] = known[key] + moved
        total = total + weight * xp.exp(a * v - n * d) * bell_of_two(i, j, lambda k, m: here[k, m])  # noqa: B023
    return -sign * point.weight() * length * total


def _from_the_middle(point: _Point, i: int, j: int) -> Any:
    """Return the derivative for x beyond 1/2 as that at 1/2 and the integral from there."""
    half = point.xp.full_like(point.x, 0.5)
    return _series(_Point(point.xp, point.a, point.b, half, half), i, j) + _tail(
        point, i, j, -1.0, 4, point.log_x - point.log_y
    )


def _derivative(xp: Any, a: Any, b: Any, x: Any, y: Any, i: int, j: int) -> Any:
    """Return the derivative of orders i in a (at least 1) and j in b of I(x; a, b).

    The power series about 0 or 1 where it is short, elsewhere the integral over a tail: below the point
    where ``log(t)`` is ``digamma(a) - digamma(a + b)`` the lower one, whose integrand has one sign.
    """
    if not i:
        return -_derivative(xp, b, a, y, x, j, i)

    def at(function: Any, *settings: Any) -> Any:
        return lambda a, b, x, y: function(_Point(xp, a, b, x, y), i, j, *settings)

    def turned_series(a: Any, b: Any, x: Any, y: Any) -> Any:
        return -_series(_Point(xp, a, b, x, y).turned(), j, i)

    point = _Point(xp, a, b, x, y)
    n = a + b
    lower = point.log_x <= -_difference(xp, a, b)
    one_sign = point.log_x <= -_difference(xp, a + 1, b - 1)
    known = (a > 0) & (b > 0)
    inside = known & (x > 0) & (y > 0)
    pieces = [
        (known & ((x == 0) | (y == 0)), lambda a, b, x, y: 0 * a),
        (inside & one_sign & (x <= 0.6) & (x * n <= _REACH), at(_series)),
        (inside & ~lower & (y <= 0.6) & (y * n <= _REACH), turned_series),
        (inside & lower & (x > 0.6) & (n <= 2 * _REACH), at(_from_the_middle)),
        (inside & lower & (x > 0.6), at(_tail, -1.0, 4)),
        (inside & lower, at(_tail, -1.0, 1)),
        (inside, at(_tail, 1.0, 1)),
    ]
    return piecewise(xp, math.nan, pieces, a, b, x, y)


def _log_slope_by_a(a: Any, b: Any, x: Any, density: Any) -> Any:
    """Return the derivative of the logarithm of the density in a; finite where the density is zero."""
    return op.log(op.where(op.equal(density, 0), 1, x)) + op.polygamma_difference(a, b, n=0)


def _log_slope_by_b(a: Any, b: Any, x: Any, density: Any) -> Any:
    """Return the derivative of the logarithm of the density in b; finite where the density is zero."""
    return op.log1p(-op.where(op.equal(density, 0), 0, x)) + op.polygamma_difference(b, a, n=0)


def _density_by_a(g: Any, x1: Any, x2: Any, x3: Any, out: Any) -> Any:
    return g * (out * _log_slope_by_a(x1, x2, x3, out))


def _density_by_b(g: Any, x1: Any, x2: Any, x3: Any, out: Any) -> Any:
    return g * (out * _log_slope_by_b(x1, x2, x3, out))


def _density_by_x(g: Any, x1: Any, x2: Any, x3: Any, out: Any) -> Any:
    """At the ends it is ``(a + b - 1) (f(a - 1, b) - f(a, b - 1))`` for the density f, which has a limit."""
    zero, one = op.equal(x3, 0), op.equal(x3, 1)
    end = op.logical_or(zero, one)
    finite = op.logical_and(end, op.isfinite(out))
    a, b, x = op.where(finite, x1, 3), op.where(finite, x2, 3), op.where(finite, x3, 0)
    at_end = (a + b - 1) * (op.beta_density(a - 1, b, x) - op.beta_density(a, b - 1, x))
    inner = op.where(end, 0.5, x3)
    inside = out * ((x1 - 1) / inner - (x2 - 1) / (1 - inner))
    return g * op.where(finite, at_end, op.where(zero, -out, op.where(one, out, inside)))


@elementwise(_density_by_a, _density_by_b, _density_by_x, domain=_DOMAIN, samples=_triples, silent=True)
def _beta_density(xp: Any, x1: Any, x2: Any, x3: Any) -> Any:
    """``x**(a-1) (1-x)**(b-1) / beta(a, b)`` for a = `x1`, b = `x2`, x = `x3`."""

    def evaluate(a: Any, b: Any, x: Any) -> Any:
        inside = (x > 0) & (x < 1)
        near = xp.where(inside, x, 0.5)
        value = _Point(xp, a, b, near, 1 - near).weight() / near / (1 - near)
        power, other = xp.where(x == 0, a, b), xp.where(x == 0, b, a)
        pole = (power <= 0) & (power == xp.floor(power))  # of the gamma function
        at_end = xp.where(power == 1, other, xp.where((power > 1) | pole, 0.0, math.inf))
        return xp.where(inside, value, xp.where((x == 0) | (x == 1), at_end, math.nan))

    return in_double(xp, evaluate, x1, x2, x3)


def _by_a(g: Any, a: Any, b: Any, x: Any, i: int, j: int) -> Any:
    return g * op.betainc_by_parameters(a, b, x, i=i + 1, j=j)


def _by_b(g: Any, a: Any, b: Any, x: Any, i: int, j: int) -> Any:
    return g * op.betainc_by_parameters(a, b, x, i=i, j=j + 1)


def _by_x(g: Any, a: Any, b: Any, x: Any, i: int, j: int) -> Any:
    density = op.beta_density(a, b, x)

    def derivative(k: int, m: int) -> Any:
        if k + m == 1:
            return (_log_slope_by_a if k else _log_slope_by_b)(a, b, x, density)
        if k and m:
            return op.polygamma(a + b, n=k + m - 1)
        one, other = (a, b) if k else (b, a)
        return op.polygamma_difference(one, other, n=k + m - 1)

    return g * (density * bell_of_two(i, j, derivative))


_RULES = (_by_a, _by_b, _by_x)


@primitive(
    _RULES,
    _RULES,
    family="elementwise",
    broadcasts=True,
    domain=_DOMAIN,
    samples=_ordered_triples,
    silent=True,
)
def _betainc_by_parameters(xp: Any, a: Any, b: Any, x: Any, *, i: int = 1, j: int = 0) -> Any:
    """Derivative of orders `i` in a and `j` in b of the incomplete beta function."""

    def evaluate(a: Any, b: Any, x: Any) -> Any:
        return _derivative(xp, a, b, x, 1 - x, i, j)

    return in_double(xp, evaluate, a, b, x)


@elementwise(
    lambda g, x1, x2, x3: g * op.betainc_by_parameters(x1, x2, x3, i=1, j=0),
    lambda g, x1, x2, x3: g * op.betainc_by_parameters(x1, x2, x3, i=0, j=1),
    lambda g, x1, x2, x3: g * op.beta_density(x1, x2, x3),
    domain=_DOMAIN,
    samples=_triples,
    silent=True,
)
def betainc(xp: Any, x1: Any, x2: Any, x3: Any) -> Any:
    """Regularized incomplete beta function of a = `x1`, b = `x2` and x = `x3`, elementwise.

    It is the integral of ``t**(a-1) (1-t)**(b-1) / beta(a, b)`` from 0 to x. The derivative in x is the
    integrand; those in a and b are the integrals of the integrand times
    ``log(t) - digamma(a) + digamma(a + b)`` and its counterpart, by series or quadrature with a relative
    error of about ``1e-13``, growing with the root of a + b. No closed form is known for these integrals:
    each of the two takes the time of five to ten evaluations of the function itself. Source: DLMF 8.17.

    Examples
    --------
    >>> import everyo as eo
    >>> a = eo.tensor(2.0, requires_grad=True)
    >>> value = eo.special.betainc(a, 3.0, 0.4)
    >>> value.backward()
    >>> print(f"{value:.4f} {a.grad:.4f}")
    0.5248 -0.2409
    """
    return real(xp, "betainc", x1, x2, x3)
