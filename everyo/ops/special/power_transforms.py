"""The power transforms of Box and Cox and their inverses, and Huber's losses."""

from __future__ import annotations

import math
from typing import Any

from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.ops.families import elementwise, primitive
from everyo.ops.power_derivatives import times_polynomial
from everyo.ops.special.domains import PAIRS, nan_where
from everyo.ops.special.kernels import in_double, real
from everyo.ops.special.quotients import exponential_moment

__all__ = ["boxcox", "boxcox1p", "huber", "inv_boxcox", "inv_boxcox1p", "pseudo_huber"]

_DOMAIN = ((0.3, 3.0), (-1.5, 1.5))
_INVERSE = ((-0.6, 0.6), (-1.3, 1.3))
_CLOSE, _TERMS = 0.4, 45  # where the logarithm's power series is taken, and its end


def _by_x(g: Any, x: Any, lmbda: Any, by_x: int, by_lmbda: int, shift: int) -> Any:
    return g * op.power_moment(x, lmbda, by_x=by_x + 1, by_lmbda=by_lmbda, shift=shift)


def _by_lmbda(g: Any, x: Any, lmbda: Any, by_x: int, by_lmbda: int, shift: int) -> Any:
    return g * op.power_moment(x, lmbda, by_x=by_x, by_lmbda=by_lmbda + 1, shift=shift)


_ORDERS = ((0, 1), (1, 0), (1, 1), (0, 2), (2, 1))


def _moments() -> list[Sample]:
    ordered = [{"by_x": m, "by_lmbda": n, "shift": shift} for m, n in _ORDERS for shift in (0, 1)]
    points = Values([0.2, 0.5, 3.0]), Values([0.0, -0.3, 2.0])
    shapes = [sample(*pair, by_x=0, by_lmbda=1, shift=0) for pair in PAIRS]
    return [*shapes, *(sample(*points, **orders) for orders in ordered)]


@primitive(
    (_by_x, _by_lmbda),
    (_by_x, _by_lmbda),
    family="elementwise",
    broadcasts=True,
    domain=_DOMAIN,
    samples=_moments,
    silent=True,
)
def _power_moment(xp: Any, x: Any, lmbda: Any, *, by_x: int = 0, by_lmbda: int = 1, shift: int = 0) -> Any:
    """Derivative of these orders of `boxcox`, or of `boxcox1p` where `shift` is 1.

    In `lmbda` alone it is an integral, ``s**n exp(lmbda s)`` from 0 to ``log(x)``; all that involve x are
    derivatives of ``x**(lmbda - 1)``. At 0 and infinity they are limits from inside.
    """

    def evaluate(x: Any, lmbda: Any) -> Any:
        base, log = x + shift, xp.log1p(x) if shift else xp.log(x)
        if not by_x:
            return _moment(xp, log, lmbda, by_lmbda)
        power = base ** (lmbda - by_x)
        if shift:  # near 0 the base has lost digits of x
            power = xp.where(xp.abs(x) < 0.5, xp.exp((lmbda - by_x) * log), power)
        out = times_polynomial(xp, power, log, lmbda - 1, by_x - 1, by_lmbda)
        return xp.where(base < 0, math.nan, out)

    return in_double(xp, evaluate, x, lmbda)


def _moment(xp: Any, end: Any, lmbda: Any, order: int) -> Any:
    """Integral of ``s**order exp(lmbda s)`` from 0 to the end."""
    finite = xp.where(xp.isinf(end), 0.0, end)
    inside = finite ** (order + 1) * exponential_moment(xp, lmbda * finite, order)
    limit = -((-1.0) ** order) * math.factorial(order) / lmbda ** (order + 1)
    limit = xp.where(end * lmbda < 0, limit, xp.where(lmbda == lmbda, end ** (order + 1), math.nan))
    return xp.where(xp.isinf(end), limit, inside)


@elementwise(
    lambda g, x, lmbda: g * op.power_moment(x, lmbda, by_x=1, by_lmbda=0, shift=0),
    lambda g, x, lmbda: g * op.power_moment(x, lmbda, by_x=0, by_lmbda=1, shift=0),
    domain=_DOMAIN,
    silent=True,
)
def boxcox(xp: Any, x: Any, lmbda: Any) -> Any:
    """Transform of Box and Cox ``(x**lmbda - 1) / lmbda``, elementwise, and ``log(x)`` where `lmbda` is 0.

    ``d boxcox = x**(lmbda - 1) dx + M dlmbda``, where M is the integral of ``s exp(lmbda s)`` from 0 to
    ``log(x)``, without cancellation. It is NaN where `x` is negative.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.boxcox(eo.tensor(4.0), 0.5):.4f}")
    2.0000
    """
    return real(xp, "boxcox", x, lmbda)


@elementwise(
    lambda g, x, lmbda: g * op.power_moment(x, lmbda, by_x=1, by_lmbda=0, shift=1),
    lambda g, x, lmbda: g * op.power_moment(x, lmbda, by_x=0, by_lmbda=1, shift=1),
    domain=_DOMAIN,
    silent=True,
)
def boxcox1p(xp: Any, x: Any, lmbda: Any) -> Any:
    """`boxcox` of ``1 + x``, elementwise, accurate for small `x`.

    ``d boxcox1p = (1 + x)**(lmbda - 1) dx + M dlmbda``, where M is the integral of ``s exp(lmbda s)`` from 0
    to ``log1p(x)``. It is NaN where `x` is less than -1.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.boxcox1p(eo.tensor(1e-6), 0.5):.4g}")
    1e-06
    """
    return real(xp, "boxcox1p", x, lmbda)


def _inverse_by_y(g: Any, y: Any, lmbda: Any, by_y: int, by_lmbda: int) -> Any:
    return g * op.inv_boxcox_derivative(y, lmbda, by_y=by_y + 1, by_lmbda=by_lmbda)


def _inverse_by_lmbda(g: Any, y: Any, lmbda: Any, by_y: int, by_lmbda: int) -> Any:
    return g * op.inv_boxcox_derivative(y, lmbda, by_y=by_y, by_lmbda=by_lmbda + 1)


def _inverses() -> list[Sample]:
    points = Values([-0.5, 0.3, 0.9, 2.0]), Values([1.2, 0.0, -0.6, 3.0])
    shapes = [sample(*pair, by_y=1, by_lmbda=0) for pair in PAIRS]
    return [*shapes, *(sample(*points, by_y=m, by_lmbda=n) for m, n in _ORDERS)]


@primitive(
    (_inverse_by_y, _inverse_by_lmbda),
    (_inverse_by_y, _inverse_by_lmbda),
    family="elementwise",
    broadcasts=True,
    domain=_INVERSE,
    samples=_inverses,
    silent=True,
)
def _inv_boxcox_derivative(xp: Any, y: Any, lmbda: Any, *, by_y: int = 1, by_lmbda: int = 0) -> Any:
    """Derivative of these orders of ``exp(h)``, with ``h = log(t) / lmbda`` and ``t = 1 + lmbda y``.

    In y it is ``exp(h) / t``, and each further order brings a factor ``(1 - k lmbda) / t``. Of that the power
    series in a change of `lmbda` is taken, by those of h and ``log(t)``. At the ends of the domain
    derivatives in y alone are limits, others NaN.
    """
    m, n = by_y, by_lmbda

    def evaluate(y: Any, lmbda: Any) -> Any:
        z = xp.where(lmbda == 0, 0.0, lmbda * y)
        t, far = 1 + z, z == math.inf
        log = xp.where(far, xp.log(xp.abs(lmbda)) + xp.log(xp.abs(y)), xp.log1p(z))
        step = xp.where(far, 1 / (lmbda + 1 / y), y / t)
        logs = [log, *(-((-step) ** k) / k for k in range(1, n + 1))]
        powers = _over_lmbda(xp, y, lmbda, z, logs)
        slopes = [h - m * l for h, l in zip(powers, logs)]
        series = [xp.ones_like(t)]
        for j in range(1, n + 1):
            series.append(sum(i * slopes[i] * series[j - i] for i in range(1, j + 1)) / j)
        for k in range(1, m):
            whole = xp.where(far, -k / (y + 1 / lmbda), (1 - k * lmbda) / t)
            series = [whole * c - (k / t * series[j - 1] if j else 0) for j, c in enumerate(series)]
        value = xp.exp(powers[0])
        first = xp.where((value == 0) | xp.isinf(value), xp.exp(powers[0] - log), value / t) if m else value
        out = xp.where((first == 0) | (series[n] == 0), 0.0, math.factorial(n) * first * series[n])
        end = (t == 0) | xp.isinf(y) & (lmbda != 0)
        factor = math.prod((1 - k * lmbda for k in range(1, m)), start=xp.ones_like(t))
        limit = xp.where(factor == 0, 0.0, factor * t ** (1 / lmbda - m)) if n == 0 else math.nan
        return xp.where(end, xp.where(t == t, limit, math.nan), out)

    return in_double(xp, evaluate, y, lmbda)


def _over_lmbda(xp: Any, y: Any, lmbda: Any, z: Any, logs: list[Any]) -> list[Any]:
    """Return the power series of ``log(1 + z) / lmbda``, ``z = lmbda y``, from that of the logarithm.

    Near 0 each coefficient is a power series in z, elsewhere it follows from the one before.
    """
    near = xp.abs(z) < _CLOSE
    small, divisor = xp.where(near, z, 0.0), xp.where(near, 1.0, lmbda)
    out: list[Any] = []
    for k, log in enumerate(logs):
        total = xp.zeros_like(z)
        for j in range(_TERMS, -1, -1):
            total = math.comb(j + k, k) / (j + k + 1) - small * total
        direct = (log - out[-1] if out else log) / divisor
        out.append(xp.where(near, -((-y) ** (k + 1)) * total, direct))
    return out


@elementwise(
    lambda g, y, lmbda: g * op.inv_boxcox_derivative(y, lmbda, by_y=1, by_lmbda=0),
    lambda g, y, lmbda: g * op.inv_boxcox_derivative(y, lmbda, by_y=0, by_lmbda=1),
    domain=_INVERSE,
    silent=True,
)
def inv_boxcox(xp: Any, y: Any, lmbda: Any) -> Any:
    """Inverse of `boxcox`, ``(1 + lmbda y)**(1 / lmbda)``, elementwise, and ``exp(y)`` where `lmbda` is 0.

    ``d inv_boxcox = x / t dy + x y**2 L'(t) dlmbda`` with the value x, ``t = 1 + lmbda y`` and ``L(t) =
    log(t) / (t - 1)``, without cancellation. It is NaN where t is negative.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.inv_boxcox(eo.tensor(2.0), 0.5):.4f}")
    4.0000
    """
    return real(xp, "inv_boxcox", y, lmbda)


@elementwise(
    lambda g, y, lmbda: g * op.inv_boxcox_derivative(y, lmbda, by_y=1, by_lmbda=0),
    lambda g, y, lmbda: g * op.inv_boxcox_derivative(y, lmbda, by_y=0, by_lmbda=1),
    domain=_INVERSE,
    silent=True,
)
def inv_boxcox1p(xp: Any, y: Any, lmbda: Any) -> Any:
    """Inverse of `boxcox1p`, `inv_boxcox` less 1, elementwise, accurate for small `y`.

    Its derivatives are those of `inv_boxcox`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.inv_boxcox1p(eo.tensor(1e-6), 0.5):.4g}")
    1e-06
    """
    return real(xp, "inv_boxcox1p", y, lmbda)


def _inside(delta: Any, r: Any) -> Any:
    return op.less_equal(op.abs(r), delta)


def _huber_by_delta(g: Any, delta: Any, r: Any) -> Any:
    slope = op.where(_inside(delta, r), 0, op.abs(r) - delta)
    return g * (slope * nan_where(op.less(delta, 0), delta))


def _huber_by_r(g: Any, delta: Any, r: Any) -> Any:
    slope = op.where(_inside(delta, r), r, op.sign(r) * delta)
    return g * (slope * nan_where(op.less(delta, 0), delta))


@elementwise(_huber_by_delta, _huber_by_r, domain=((0.4, 1.5), (-2.0, 2.0)), silent=True)
def huber(xp: Any, delta: Any, r: Any) -> Any:
    """Huber's loss, ``r**2 / 2`` where ``|r| <= delta``, else ``delta (|r| - delta / 2)``, elementwise.

    ``d huber = max(|r| - delta, 0) ddelta + clip(r, -delta, delta) dr``. It is infinite, with slopes of NaN,
    where `delta` is negative.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.special.huber(1.0, eo.tensor([0.5, 3.0])))
    [0.125 2.5  ]
    """
    return real(xp, "huber", delta, r)


def _pseudo_by_delta(g: Any, delta: Any, r: Any) -> Any:
    total = op.hypot(delta, r) + delta
    ratio = r / op.where(op.equal(total, 0), 1, total)
    return g * (ratio * ratio * op.share(r, delta) * r * nan_where(op.less(delta, 0), delta))


def _pseudo_by_r(g: Any, delta: Any, r: Any) -> Any:
    near = op.less_equal(op.abs(r), delta)
    small, large = op.where(near, r, delta), op.where(near, delta, r)  # the other product may leave the range
    return g * (small * op.share(large, small) * nan_where(op.less(delta, 0), delta))


@elementwise(_pseudo_by_delta, _pseudo_by_r, domain=((0.4, 1.5), (-2.0, 2.0)), silent=True)
def pseudo_huber(xp: Any, delta: Any, r: Any) -> Any:
    """Smooth relative of Huber's loss, ``delta**2 (sqrt(1 + (r / delta)**2) - 1)``, elementwise.

    ``d pseudo_huber = r**4 / (q (q + delta)**2) ddelta + delta r / q dr`` with the hypotenuse q of both,
    without cancellation. It is infinite, with slopes of NaN, where `delta` is negative.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.pseudo_huber(1.0, eo.tensor(2.0)):.4f}")
    1.2361
    """
    return real(xp, "pseudo_huber", delta, r)
