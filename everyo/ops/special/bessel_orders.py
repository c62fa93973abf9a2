"""Bessel functions of real order, and the modified ones of the second kind of the orders 0 and 1.

Their derivatives in the argument are Bessel functions of neighbouring orders. No formula in such functions
is known for those in the order: they are refused.
"""

from __future__ import annotations

from typing import Any

from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.ops.families import elementwise
from everyo.ops.special.domains import PAIRS, nan_where
from everyo.ops.special.kernels import real

__all__ = ["iv", "jv", "jve", "k0", "k1", "kv", "yv"]

NO_ORDER = "derivatives in the order of a Bessel function are not known"
DOMAIN = ((0.3, 3.5), (0.5, 4.0))


def pairs() -> list[Sample]:
    """Return orders and arguments."""
    return [
        *(sample(*pair) for pair in PAIRS),
        sample(Values([0.0, 1.0, 2.5, -0.7]), Values([0.4, 2.0, 6.0, 1.3])),
    ]


def _but_at_poles(v: Any, x: Any, slope: Any) -> Any:
    """NaN where the order is negative and no integer and the argument is 0: SciPy knows no sign there."""
    fractional = op.logical_and(op.less(v, 0), op.not_equal(v, op.floor(v)))
    return slope * nan_where(op.logical_and(op.equal(x, 0), fractional), x)


def _j_slope(g: Any, v: Any, x: Any) -> Any:
    return g * _but_at_poles(v, x, 0.5 * (op.jv(v - 1, x) - op.jv(v + 1, x)))


@elementwise(None, _j_slope, domain=DOMAIN, samples=pairs, missing=NO_ORDER, silent=True)
def jv(xp: Any, v: Any, x: Any) -> Any:
    """Bessel function of the first kind of real order `v`, elementwise.

    ``d jv(v, x) = (jv(v - 1, x) - jv(v + 1, x)) / 2 dx``; a derivative in the order is refused. Below 0 it
    is NaN unless `v` is an integer. Source: DLMF 10.6.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.jv(0.5, eo.tensor(1.0)):.4f}")
    0.6714
    """
    return real(xp, "jv", v, x)


@elementwise(None, _j_slope, domain=DOMAIN, samples=pairs, missing=NO_ORDER, silent=True)
def jve(xp: Any, v: Any, x: Any) -> Any:
    """``jv(v, x)`` times ``exp(-abs(imag(x)))``, elementwise: for real `x` the same as `jv`.

    ``d jve(v, x) = (jv(v - 1, x) - jv(v + 1, x)) / 2 dx``; a derivative in the order is refused.
    Source: DLMF 10.6.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.jve(0.5, eo.tensor(1.0)):.4f}")
    0.6714
    """
    return real(xp, "jve", v, x)


def _y_slope(g: Any, v: Any, x: Any) -> Any:
    """Where both terms overflow, the larger one; of negative orders SciPy knows no sign there."""
    above = op.yv(v + 1, x)
    steep = op.isinf(above)
    slope = op.where(steep, -0.5 * above, 0.5 * (op.yv(v - 1, x) - above))
    return g * (slope * nan_where(op.logical_and(steep, op.less(v, 0)), x))


@elementwise(None, _y_slope, domain=DOMAIN, samples=pairs, missing=NO_ORDER, silent=True)
def yv(xp: Any, v: Any, x: Any) -> Any:
    """Bessel function of the second kind of real order `v`, elementwise.

    ``d yv(v, x) = (yv(v - 1, x) - yv(v + 1, x)) / 2 dx``; a derivative in the order is refused. For orders
    that are not negative it is ``-inf`` at 0; below 0 it is NaN. Source: DLMF 10.6.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.yv(0.5, eo.tensor(1.0)):.4f}")
    -0.4311
    """
    return real(xp, "yv", v, x)


def _i_slope(g: Any, v: Any, x: Any) -> Any:
    return g * _but_at_poles(v, x, 0.5 * (op.iv(v - 1, x) + op.iv(v + 1, x)))


@elementwise(None, _i_slope, domain=DOMAIN, samples=pairs, missing=NO_ORDER, silent=True)
def iv(xp: Any, v: Any, x: Any) -> Any:
    """Modified Bessel function of the first kind of real order `v`, elementwise.

    ``d iv(v, x) = (iv(v - 1, x) + iv(v + 1, x)) / 2 dx``; a derivative in the order is refused. Below 0 it
    is NaN unless `v` is an integer. Source: DLMF 10.29.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.iv(0.5, eo.tensor(1.0)):.4f}")
    0.9377
    """
    return real(xp, "iv", v, x)


def _k_slope(g: Any, v: Any, x: Any) -> Any:
    return g * (-0.5 * (op.kv(v - 1, x) + op.kv(v + 1, x)))


@elementwise(None, _k_slope, domain=DOMAIN, samples=pairs, missing=NO_ORDER, silent=True)
def kv(xp: Any, v: Any, x: Any) -> Any:
    """Modified Bessel function of the second kind of real order `v`, elementwise.

    ``d kv(v, x) = -(kv(v - 1, x) + kv(v + 1, x)) / 2 dx``; a derivative in the order is refused. It is
    infinite at 0, and NaN below. Source: DLMF 10.29.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.kv(1.5, eo.tensor(2.0)):.4f}")
    0.1799
    """
    return real(xp, "kv", v, x)


@elementwise(lambda g, x: g * -op.k1(x), domain=(0.5, 4.0), silent=True)
def k0(xp: Any, x: Any) -> Any:
    """Modified Bessel function of the second kind of order 0, elementwise: ``d k0(x) = -k1(x) dx``.

    It is infinite at 0, and NaN below. Source: DLMF 10.29.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.k0(eo.tensor(1.0)):.4f}")
    0.4210
    """
    return real(xp, "k0", x)


@elementwise(lambda g, x, out: g * -(op.k0(x) + out / x), domain=(0.5, 4.0), silent=True)
def k1(xp: Any, x: Any) -> Any:
    """Modified Bessel function of the second kind of order 1, elementwise.

    ``d k1(x) = -(k0(x) + k1(x) / x) dx``. It is infinite at 0, and NaN below. Source: DLMF 10.29.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.k1(eo.tensor(1.0)):.4f}")
    0.6019
    """
    return real(xp, "k1", x)
