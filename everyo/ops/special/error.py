"""The relatives of the error function, and the normal distribution."""

from __future__ import annotations

import functools
import math
from typing import Any

from everyo.core.registry import op
from everyo.ops.families import elementwise, primitive
from everyo.ops.special.domains import of_orders
from everyo.ops.special.kernels import in_double, real, scipy

__all__ = ["erfcinv", "erfcx", "erfinv", "log_ndtr", "ndtr", "ndtri"]

HALF_SQRT_PI, TWO_OVER_SQRT_PI = math.sqrt(math.pi) / 2, 2 / math.sqrt(math.pi)
SQRT_HALF, SQRT_TAU, SQRT_TWO_OVER_PI = math.sqrt(0.5), math.sqrt(2 * math.pi), math.sqrt(2 / math.pi)
_TURNS = ((1.5, 4.0, 90), (4.0, math.inf, 16))  # in these ranges the continued fraction has so many steps


@elementwise(lambda g, x, out: g * (HALF_SQRT_PI * op.exp(out * out)), domain=(-0.9, 0.9), silent=True)
def erfinv(xp: Any, x: Any) -> Any:
    """Inverse of `erf`, elementwise: ``d erfinv(x) = sqrt(pi) / 2 exp(erfinv(x)**2) dx``.

    It is infinite at -1 and 1, and NaN beyond. Source: DLMF 7.17.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.erfinv(eo.tensor(0.5)):.4f}")
    0.4769
    """
    return real(xp, "erfinv", x)


@elementwise(lambda g, x, out: g * (-HALF_SQRT_PI * op.exp(out * out)), domain=(0.1, 1.9), silent=True)
def erfcinv(xp: Any, x: Any) -> Any:
    """Inverse of `erfc`, elementwise: ``d erfcinv(x) = -sqrt(pi) / 2 exp(erfcinv(x)**2) dx``.

    Accurate for small `x`, where ``erfinv(1 - x)`` is not. Source: DLMF 7.17.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.erfcinv(eo.tensor(1e-20)):.4f}")
    6.6016
    """
    return real(xp, "erfcinv", x)


def _erfcx_slope(g: Any, x: Any, order: int) -> Any:
    return g * op.erfcx_derivative(x, order=order + 1)


@primitive(
    _erfcx_slope,
    _erfcx_slope,
    family="elementwise",
    samples=lambda: of_orders({1: [-1.0, 0.0, 1.0, 1.4, 1.6, 5.0], 3: [-1.0, 0.0, 1.4, 1.6, 5.0]}),
)
def _erfcx_derivative(xp: Any, x: Any, *, order: int) -> Any:
    """Derivative of `erfcx` of this order.

    By the recurrence ``E[n] = 2 x E[n-1] + 2 (n-1) E[n-2]``, which cancels for large `x`; there by the
    continued fraction of the repeated integrals of erfc (DLMF 7.18.13).
    """

    def evaluate(x: Any) -> Any:
        scaled = xp.special.erfcx(x)
        before, out = scaled, 2 * x * scaled - TWO_OVER_SQRT_PI
        for n in range(2, order + 1):
            before, out = out, 2 * x * out + 2 * (n - 1) * before
        for low, high, depth in _TURNS:
            here = (x > low) & (x <= high)
            if xp.any(here):
                out[here] = far(x[here], scaled[here], depth)
        return out

    def far(x: Any, scaled: Any, depth: int) -> Any:
        denominator, product = x, 1.0
        for k in range(depth + order, 0, -1):
            denominator = x + (k + 1) / 2 / denominator
            if k <= order:
                product = product / denominator * -k
        return scaled * product

    return in_double(xp, evaluate, x)


@elementwise(lambda g, x: g * op.erfcx_derivative(x, order=1))
def erfcx(xp: Any, x: Any) -> Any:
    """``exp(x**2) erfc(x)``, elementwise, without overflow for large `x`.

    ``d erfcx(x) = (2 x erfcx(x) - 2 / sqrt(pi)) dx``, computed without the cancellation of the two terms.
    Source: DLMF 7.10.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor(1e8, dtype=eo.float64, requires_grad=True)
    >>> eo.special.erfcx(x).backward()
    >>> print(f"{x.grad:.4g}")
    -5.642e-17
    """
    return real(xp, "erfcx", x)


@elementwise(lambda g, x: g * (op.exp(-0.5 * x * x) / SQRT_TAU))
def ndtr(xp: Any, x: Any) -> Any:
    """Distribution function of the standard normal, elementwise.

    ``d ndtr(x) = exp(-x**2 / 2) / sqrt(2 pi) dx``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.ndtr(eo.tensor(1.0)):.4f}")
    0.8413
    """
    if x.dtype.char == "d":
        return xp.normal(x)
    return scipy(xp, "ndtr", x)


_FAR, _TERMS = -16.0, 18  # below, so many terms of the asymptotic series of `log_ndtr` have all digits


def _log_ndtr_slope(g: Any, x: Any, order: int) -> Any:
    return g * op.log_ndtr_derivative(x, order=order + 1)


@primitive(
    _log_ndtr_slope,
    _log_ndtr_slope,
    family="elementwise",
    samples=lambda: of_orders({1: [-20.0, -5.0, 0.0, 3.0], 3: [-20.0, -5.0, -0.5, 3.0]}),
)
def _log_ndtr_derivative(xp: Any, x: Any, *, order: int) -> Any:
    """Derivative of `log_ndtr` of this order."""
    if order == 1:
        with xp.errstate(all="ignore"):  # erfcx overflows only where the slope underflows
            return SQRT_TWO_OVER_PI / op.erfcx(-SQRT_HALF * x)

    def evaluate(x: Any) -> Any:
        out, near = xp.empty_like(x), x >= _FAR
        places = (~(x < -1), _by_recurrence), (near & (x < -1), _by_quotient), (x < _FAR, _by_series)
        for here, formula in places:
            if xp.any(here):
                out[here] = formula(xp, x[here], order)
        return out

    return in_double(xp, evaluate, x)


def _by_recurrence(xp: Any, x: Any, order: int) -> Any:
    """By ``r' = -r (x + r)`` for the slope r: of the size of exp(-x**2 / 2), whose root is taken apart."""
    root = xp.exp(-0.25 * x * x)
    slopes = [root / (SQRT_TAU * xp.special.ndtr(x))]
    for n in range(order - 1):
        products = sum(math.comb(n, k) * slopes[k] * slopes[n - k] for k in range(n + 1))
        slopes.append(-(x * slopes[n] + (n * slopes[n - 1] if n else 0) + root * products))
    return xp.where(root == 0, 0, root * slopes[-1])


def _by_quotient(xp: Any, x: Any, order: int) -> Any:
    """By those of the reciprocal of erfcx."""
    z = -SQRT_HALF * x
    scaled = [xp.special.erfcx(z), *(op.erfcx_derivative(z, order=k) for k in range(1, order))]
    slopes = [SQRT_TWO_OVER_PI / scaled[0]]
    for n in range(1, order):
        products = sum(math.comb(n, k) * scaled[k] * slopes[n - k] for k in range(1, n + 1))
        slopes.append(-products / scaled[0])
    return (-SQRT_HALF) ** (order - 1) * slopes[-1]


def _by_series(xp: Any, x: Any, order: int) -> Any:
    """By the asymptotic series of ``log(ndtr(x)) + x**2 / 2 + log(-x)`` in ``1 / x**2`` (DLMF 7.12.1)."""
    inverse: Any = -1 / x
    square, total = inverse * inverse, 0.0
    for k, c in reversed(list(enumerate(_far_coefficients(), 1))):
        total = (total + c * math.perm(2 * k + order - 1, order)) * square
    return inverse**order * (total + math.factorial(order - 1)) - (1 if order == 2 else 0)


@functools.cache
def _far_coefficients() -> list[float]:
    """Return the logarithm of ``1 - t + 3 t**2 - 15 t**3 + ...`` as a series, from that of t on."""
    terms = [1]
    for k in range(_TERMS):
        terms.append(-terms[-1] * (2 * k + 1))
    moved = [0]  # k times the coefficients, which are whole
    for k in range(1, _TERMS + 1):
        moved.append(k * terms[k] - sum(moved[j] * terms[k - j] for j in range(1, k)))
    return [moved[k] / k for k in range(1, _TERMS + 1)]


@elementwise(lambda g, x: g * op.log_ndtr_derivative(x, order=1))
def log_ndtr(xp: Any, x: Any) -> Any:
    """Logarithm of `ndtr`, elementwise, where that underflows, too.

    ``d log_ndtr(x) = sqrt(2 / pi) / erfcx(-x / sqrt(2)) dx``. Source: DLMF 7.10.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.log_ndtr(eo.tensor(-100.0)):.2f}")
    -5005.52
    """
    return real(xp, "log_ndtr", x)


@elementwise(lambda g, x, out: g * (SQRT_TAU * op.exp(0.5 * out * out)), domain=(0.1, 0.9), silent=True)
def ndtri(xp: Any, x: Any) -> Any:
    """Inverse of `ndtr`, elementwise: ``d ndtri(x) = sqrt(2 pi) exp(ndtri(x)**2 / 2) dx``.

    Source: the inverse function rule; DLMF 7.17.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.ndtri(eo.tensor(0.975)):.4f}")
    1.9600
    """
    return real(xp, "ndtri", x)
