"""Modified Bessel functions of real order without their exponential factor.

``exp(-x) I(v, x)`` and ``exp(x) K(v, x)`` are integrals of ``exp(x (cosh t - 1) - v t)`` along a line through
the saddle point ``sinh t = v / x``: up the imaginary direction for I, with the other sign along the real axis
for K (DLMF 10.32). Derivatives bring powers of ``cosh t - 1`` down. Where differences of neighbouring orders
cancel, they are means of these powers by the trapezoidal rule, which converges exponentially here, times
SciPy's value.
"""

from __future__ import annotations

import math
from typing import Any

from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.ops.families import elementwise, primitive
from everyo.ops.special.bessel_orders import DOMAIN, NO_ORDER, pairs
from everyo.ops.special.kernels import in_double, real
from everyo.ops.special.tails import piecewise

__all__ = ["ive", "k0e", "k1e", "kve"]

_STEEP = 10.0  # differences of orders do not cancel where v / x is larger
_I_NODES, _K_NODES = 26, 72
_CUT = 54.0  # beyond this exponent the integrands are negligible, also times the powers


def _differences(xp: Any, name: str, v: Any, x: Any, order: int) -> Any:
    """Return central differences in the order: ``2 s' = s[v-1] - 2 s[v] + s[v+1]``, but for a sign for K."""
    terms = [
        (-1) ** j * math.comb(2 * order, j) * getattr(xp.special, name)(v + (j - order), x)
        for j in range(2 * order + 1)
    ]
    return sum(terms) / 2**order


def _of_i(xp: Any, v: Any, x: Any, order: int) -> Any:
    """Return the derivative of ``exp(-x) I(v, x)``, for x > 0."""

    def far(v: Any, x: Any) -> Any:
        v = xp.abs(v)
        slope, radius = v / x, xp.hypot(v, x)
        start = xp.arcsinh(slope)
        rise, total, mean = radius / x, 0.0, 0.0
        length = 2 * xp.arcsin(xp.sqrt(xp.minimum(_CUT / 2 / radius, 1.0)))
        for k in range(_I_NODES + 1):
            angle = length * (k / _I_NODES)
            fall = 2 * xp.sin(angle / 2) ** 2
            sine = xp.sin(angle)
            weight = (0.5 if k == 0 else 1.0) * xp.exp(-radius * fall + 1j * (v * (sine - angle)))
            power = (2 * xp.sinh(start / 2) ** 2 - rise * fall + 1j * (slope * sine)) ** order
            total, mean = total + xp.real(weight), mean + xp.real(weight * power)
        return xp.special.ive(v, x) * (mean / total)

    def near(v: Any, x: Any) -> Any:
        return _differences(xp, "ive", v, x, order)

    whole = (v >= 0) | (v == xp.floor(v)) | ((x >= 40) & (xp.abs(v) <= x))
    here = whole & (xp.hypot(v, x) >= 20) & (xp.abs(v) <= _STEEP * x) & (x < math.inf)
    return piecewise(xp, 0.0, [(here, far), (x != math.inf, near)], v, x)


def _of_i_at_zero(xp: Any, v: Any, order: int) -> Any:
    """Return the derivative at 0: from the right, of even and odd functions the mean of both sides."""
    integer = v == xp.floor(v)
    rising = xp.ones_like(v)
    for j in range(order):
        rising = rising * (v - j)
    leading = xp.where(v > order, 0.0, xp.where(v < 0, math.nan, xp.copysign(math.inf, rising)))
    near = _differences(xp, "ive", xp.where(integer, v, 0.0), xp.zeros_like(v), order)
    return xp.where(integer, xp.where((v + order) % 2 == 1, 0.0, near), leading)


def _ive_slope(g: Any, v: Any, x: Any, order: int) -> Any:
    return g * op.ive_derivative(v, x, order=order + 1)


def _ordered_pairs() -> list[Sample]:
    far = sample(Values([0.0, 1.0, 30.0, 7.5, 2.5, 25.0]), Values([35.0, 90.0, 60.0, 40.0, 3.0, 2.0]))
    near = [s.with_params(order=1 + k % 2) for k, s in enumerate(pairs())]
    return [*near, far.with_params(order=1), far.with_params(order=2)]


@primitive(
    (None, _ive_slope),
    (None, _ive_slope),
    family="elementwise",
    broadcasts=True,
    domain=DOMAIN,
    samples=_ordered_pairs,
    missing=NO_ORDER,
    silent=True,
)
def _ive_derivative(xp: Any, v: Any, x: Any, *, order: int = 1) -> Any:
    """Derivative of `ive` of this order in the argument."""

    def evaluate(v: Any, x: Any) -> Any:
        size = xp.abs(x)
        out = _of_i(xp, v, xp.where(size == 0, 1.0, size), order)
        parity = xp.where((v + order) % 2 == 1, -1.0, xp.where(v == xp.floor(v), 1.0, math.nan))
        out = xp.where(x < 0, parity * out, out)
        return xp.where(size == 0, _of_i_at_zero(xp, v, order), out)

    return in_double(xp, evaluate, v, x)


@elementwise(
    None,
    lambda g, v, x: g * op.ive_derivative(v, x, order=1),
    domain=DOMAIN,
    samples=pairs,
    missing=NO_ORDER,
    silent=True,
)
def ive(xp: Any, v: Any, x: Any) -> Any:
    """``exp(-|x|) iv(v, x)``, elementwise, without overflow.

    ``d ive(v, x) = ((ive(v - 1, x) + ive(v + 1, x)) / 2 - sign(x) ive(v, x)) dx``, computed without the
    cancellation of these terms for large `x`; a derivative in the order is refused. At 0 even functions have
    the derivative 0, as that of ``abs``. Source: DLMF 10.29 and 10.32.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.ive(0.5, eo.tensor(1000.0)):.5f}")
    0.01262
    """
    return real(xp, "ive", v, x)


def _of_k(xp: Any, v: Any, x: Any, order: int) -> Any:
    """Return ``(-1)**order`` times the derivative of ``exp(x) K(v, x)``, for v >= 0."""

    def far(v: Any, x: Any) -> Any:
        radius, start = xp.hypot(v, x), xp.arcsinh(v / x)

        def exponent(u: Any) -> Any:
            half = xp.sinh(u / 2)
            return 2 * radius * half**2 + v * (2 * half * xp.sqrt(1 + half**2) - u)

        # Bounds of where the exponent reaches `_CUT`; to the left it is (radius - v) (cosh u - 1) and
        # v (exp(u) - 1 - u), which is at least v u**2 / (2 - u).
        high = 2 * xp.arcsinh(xp.sqrt(_CUT / 2 / radius))
        low = 2 * xp.arcsinh(xp.sqrt(_CUT / 2 / (radius - v)))
        low = xp.minimum(low, (_CUT + xp.sqrt(_CUT**2 + 8 * _CUT * v)) / 2 / v)
        total, mean = 0.0, 0.0
        for k in range(_K_NODES + 1):
            u = (low + high) * (k / _K_NODES) - low
            weight = xp.exp(-exponent(u))
            total, mean = total + weight, mean + weight * (2 * xp.sinh((start + u) / 2) ** 2) ** order
        size = xp.special.kve(v, x)
        whole = (low + high) / (2 * _K_NODES) * total * xp.exp(v * start - v * (v / (radius + x)))
        return xp.where(size == size, size, whole) * (mean / total)  # SciPy's is NaN from 1e9 on

    def near(v: Any, x: Any) -> Any:
        out = _differences(xp, "kve", v, x, order)
        return xp.where(xp.special.kve(v + order, x) == math.inf, math.inf, out)

    steep = (x < 0.1) | (v > _STEEP * x)
    pieces = [(x == math.inf, lambda v, x: 0 * v), ((x >= 0) & steep, near), (x >= 0, far)]
    return piecewise(xp, math.nan, pieces, v, x)


def _kve_slope(g: Any, v: Any, x: Any, order: int) -> Any:
    return g * op.kve_derivative(v, x, order=order + 1)


@primitive(
    (None, _kve_slope),
    (None, _kve_slope),
    family="elementwise",
    broadcasts=True,
    domain=DOMAIN,
    samples=_ordered_pairs,
    missing=NO_ORDER,
    silent=True,
)
def _kve_derivative(xp: Any, v: Any, x: Any, *, order: int = 1) -> Any:
    """Derivative of `kve` of this order in the argument."""

    def evaluate(v: Any, x: Any) -> Any:
        return (-1) ** order * _of_k(xp, xp.abs(v), x, order)

    return in_double(xp, evaluate, v, x)


@elementwise(
    None,
    lambda g, v, x: g * op.kve_derivative(v, x, order=1),
    domain=DOMAIN,
    samples=pairs,
    missing=NO_ORDER,
    silent=True,
)
def kve(xp: Any, v: Any, x: Any) -> Any:
    """``exp(x) kv(v, x)``, elementwise, without underflow.

    ``d kve(v, x) = (kve(v, x) - (kve(v - 1, x) + kve(v + 1, x)) / 2) dx``, computed without the cancellation
    of these terms for large `x`; a derivative in the order is refused. Source: DLMF 10.29 and 10.32.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.kve(0.5, eo.tensor(1000.0)):.5f}")
    0.03963
    """
    return real(xp, "kve", v, x)


@elementwise(lambda g, x: g * op.kve_derivative(0.0, x, order=1), domain=(0.5, 4.0), silent=True)
def k0e(xp: Any, x: Any) -> Any:
    """``exp(x) k0(x)``, elementwise: ``d k0e(x) = (k0e(x) - k1e(x)) dx``, without cancellation.

    Source: DLMF 10.29.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.k0e(eo.tensor(1000.0)):.5f}")
    0.03963
    """
    return real(xp, "k0e", x)


@elementwise(lambda g, x: g * op.kve_derivative(1.0, x, order=1), domain=(0.5, 4.0), silent=True)
def k1e(xp: Any, x: Any) -> Any:
    """``exp(x) k1(x)``, elementwise, with a derivative without cancellation.

    ``d k1e(x) = ((1 - 1 / x) k1e(x) - k0e(x)) dx``. Source: DLMF 10.29.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.k1e(eo.tensor(1000.0)):.5f}")
    0.03965
    """
    return real(xp, "k1e", x)
