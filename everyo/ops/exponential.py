"""Exponentials, logarithms and the error function, elementwise."""

from __future__ import annotations

import math
from typing import Any

from everyo.backends.accelerated import fused
from everyo.core.registry import op
from everyo.ops.arithmetic import over
from everyo.ops.families import elementwise

__all__ = [
    "erf", "erfc", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2",
]  # fmt: skip

LN2, LN10 = math.log(2.0), math.log(10.0)
TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)


@elementwise(lambda g, out: g * out)
def exp(xp: Any, x: Any) -> Any:
    """Exponential ``e**x``, elementwise: ``d exp(x) = exp(x) dx``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.exp(eo.tensor(1.0)):.4f}")
    2.7183
    """
    return xp.exp(x)


@elementwise(lambda g, x: g * op.exp(x))
def expm1(xp: Any, x: Any) -> Any:
    """``exp(x) - 1``, elementwise, accurate near 0: ``d expm1(x) = exp(x) dx``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.expm1(eo.tensor(1e-9)):.4g}")
    1e-09
    """
    return xp.expm1(x)


@elementwise(lambda g, out: g * (out * LN2))
def exp2(xp: Any, x: Any) -> Any:
    """``2**x``, elementwise: ``d exp2(x) = 2**x log(2) dx``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.exp2(eo.tensor([3.0, -1.0])))
    [8.  0.5]
    """
    return xp.exp2(x)


@elementwise(lambda g, x: over(g, x), domain=(0.2, 3.0))
def log(xp: Any, x: Any) -> Any:
    """Natural logarithm, elementwise: ``d log(x) = dx / x``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.log(eo.tensor(2.0)):.4f}")
    0.6931
    """
    return xp.log(x)


@elementwise(lambda g, x: over(g, 1 + x), domain=(-0.8, 3.0))
def log1p(xp: Any, x: Any) -> Any:
    """``log(1 + x)``, elementwise, accurate near 0: ``d log1p(x) = dx / (1 + x)``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.log1p(eo.tensor(1e-9)):.4g}")
    1e-09
    """
    return xp.log1p(x)


@elementwise(lambda g, x: over(g, LN2 * x), domain=(0.2, 3.0))
def log2(xp: Any, x: Any) -> Any:
    """Logarithm to base 2, elementwise: ``d log2(x) = dx / (x log(2))``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.log2(eo.tensor([8.0, 0.5])))
    [ 3. -1.]
    """
    return xp.log2(x)


@elementwise(lambda g, x: over(g / LN10, x), domain=(0.2, 3.0))  # the product could overflow
def log10(xp: Any, x: Any) -> Any:
    """Logarithm to base 10, elementwise: ``d log10(x) = dx / (x log(10))``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.log10(eo.tensor([100.0, 1.0], dtype="float64")))
    [2. 0.]
    """
    return xp.log10(x)


def _share(x1: Any, x2: Any, scale: float = 1.0) -> Any:
    """``exp(x1) / (exp(x1) + exp(x2))`` without overflow; 0 where `x1` is -inf, NaN where one is NaN."""
    nothing = op.logical_and(x1 == -math.inf, x2 == x2)
    difference = op.where(nothing, x1, x1 - x2)
    return op.logistic(difference if scale == 1.0 else scale * difference)


@elementwise(lambda g, x1, x2: g * _share(x1, x2), lambda g, x1, x2: g * _share(x2, x1))
def logaddexp(xp: Any, x1: Any, x2: Any) -> Any:
    """``log(exp(x1) + exp(x2))`` of real numbers, elementwise, without overflow.

    ``d logaddexp(x1, x2) = sigmoid(x1 - x2) dx1 + sigmoid(x2 - x1) dx2``; an operand that is -inf has
    derivative 0.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.logaddexp(eo.tensor([-1000.0, 1000.0]), 0.0))
    [   0. 1000.]
    """
    return xp.logaddexp(x1, x2)


@elementwise(lambda g, x1, x2: g * _share(x1, x2, LN2), lambda g, x1, x2: g * _share(x2, x1, LN2))
def logaddexp2(xp: Any, x1: Any, x2: Any) -> Any:
    """``log2(2**x1 + 2**x2)`` of real numbers, elementwise, without overflow.

    ``d logaddexp2(x1, x2) = s dx1 + (1 - s) dx2`` with ``s = sigmoid(log(2) (x1 - x2))``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.logaddexp2(eo.tensor([0.0, 1000.0]), 0.0))
    [   1. 1000.]
    """
    return xp.logaddexp2(x1, x2)


@elementwise(fused(lambda g, x: g * (TWO_OVER_SQRT_PI * op.exp(-x * x))))
def erf(xp: Any, x: Any) -> Any:
    """Error function, elementwise: ``d erf(x) = 2 / sqrt(pi) exp(-x**2) dx``. Source: DLMF 7.10.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.erf(eo.tensor(1.0)):.4f}")
    0.8427
    """
    return xp.erf(x)


@elementwise(fused(lambda g, x: g * (-TWO_OVER_SQRT_PI * op.exp(-x * x))))
def erfc(xp: Any, x: Any) -> Any:
    """``1 - erf(x)``, elementwise, accurate for large `x`: ``d erfc(x) = -2 / sqrt(pi) exp(-x**2) dx``.

    Source: DLMF 7.10.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.erfc(eo.tensor(5.0)):.4g}")
    1.537e-12
    """
    return xp.erfc(x)
