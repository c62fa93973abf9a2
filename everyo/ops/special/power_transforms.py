"""The power transforms of Box and Cox and their inverses, and Huber's losses."""

from __future__ import annotations

import math
from typing import Any

from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.ops.families import elementwise, primitive
from everyo.ops.special.domains import PAIRS, nan_where
from everyo.ops.special.kernels import in_double, real
from everyo.ops.special.quotients import exponential_moment

__all__ = ["boxcox", "boxcox1p", "huber", "inv_boxcox", "inv_boxcox1p", "pseudo_huber"]

_DOMAIN = ((0.3, 3.0), (-1.5, 1.5))
_INVERSE = ((-0.6, 0.6), (-1.3, 1.3))


def _moment_by_x(g: Any, x: Any, lmbda: Any, order: int) -> Any:
    return g * (x**order * op.exp(lmbda * x))


def _moment_by_lmbda(g: Any, x: Any, lmbda: Any, order: int) -> Any:
    return g * op.power_moment(x, lmbda, order=order + 1)


def _ordered() -> list[Sample]:
    return [
        *(sample(*pair, order=1) for pair in PAIRS),
        sample(Values([-2.0, 0.5, 3.0]), Values([0.0, -0.3, 2.0]), order=2),
    ]


_MOMENT = (_moment_by_x, _moment_by_lmbda)


@primitive(
    _MOMENT,
    _MOMENT,
    family="elementwise",
    broadcasts=True,
    domain=((0.2, 2.0), (-1.0, 1.0)),
    samples=_ordered,
    silent=True,
)
def _power_moment(xp: Any, x: Any, lmbda: Any, *, order: int = 1) -> Any:
    """Integral of ``s**order exp(lmbda s)`` from 0 to x: the derivative in lmbda of a power transform."""

    def evaluate(x: Any, lmbda: Any) -> Any:
        finite = xp.where(xp.isinf(x), 0.0, x)
        inside = finite ** (order + 1) * exponential_moment(xp, lmbda * finite, order)
        limit = -((-1.0) ** order) * math.factorial(order) / lmbda ** (order + 1)
        limit = xp.where(x * lmbda < 0, limit, xp.where(lmbda == lmbda, x ** (order + 1), math.nan))
        return xp.where(xp.isinf(x), limit, inside)

    return in_double(xp, evaluate, x, lmbda)


@elementwise(
    lambda g, x, lmbda: g * (op.power(x, lmbda - 1) * nan_where(op.less(x, 0), x)),
    lambda g, x, lmbda: g * op.power_moment(op.log(x), lmbda, order=1),
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
    lambda g, x, lmbda: g * (op.power(1 + x, lmbda - 1) * nan_where(op.less(x, -1), x)),
    lambda g, x, lmbda: g * op.power_moment(op.log1p(x), lmbda, order=1),
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


def _inverse_slope(value: Any, lmbda: Any) -> Any:
    return op.power(value, 1 - lmbda) * nan_where(op.isnan(value), value)


@elementwise(
    lambda g, y, lmbda, out: g * _inverse_slope(out, lmbda),
    lambda g, y, lmbda, out: g * (out * (y * y * op.log_quotient(1 + lmbda * y, order=1))),
    domain=_INVERSE,
    silent=True,
)
def inv_boxcox(xp: Any, y: Any, lmbda: Any) -> Any:
    """Inverse of `boxcox`, ``(1 + lmbda y)**(1 / lmbda)``, elementwise, and ``exp(y)`` where `lmbda` is 0.

    ``d inv_boxcox = x**(1 - lmbda) dy + x y**2 L'(1 + lmbda y) dlmbda`` with the value x and ``L(t) = log(t)
    / (t - 1)``, without cancellation. It is NaN where ``1 + lmbda y`` is negative.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.inv_boxcox(eo.tensor(2.0), 0.5):.4f}")
    4.0000
    """
    return real(xp, "inv_boxcox", y, lmbda)


@elementwise(
    lambda g, y, lmbda: g * _inverse_slope(op.inv_boxcox(y, lmbda), lmbda),
    lambda g, y, lmbda: g * (op.inv_boxcox(y, lmbda) * (y * y * op.log_quotient(1 + lmbda * y, order=1))),
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
    return g * (op.share(r, delta) * delta * nan_where(op.less(delta, 0), delta))


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
