"""Inverses of the incomplete gamma and beta functions: quantiles, with derivatives in all arguments."""

from __future__ import annotations

from typing import Any

from everyo.core.registry import op
from everyo.ops.families import elementwise
from everyo.ops.special.kernels import real

__all__ = ["betaincinv", "gammainccinv", "gammaincinv"]

_GAMMA = ((0.5, 4.0), (0.1, 0.9))
_BETA = ((0.5, 4.0), (0.5, 4.0), (0.1, 0.9))

# The rules read y, too, so that one that is NaN is known to be given.


def _gamma_by_a(g: Any, a: Any, y: Any, out: Any) -> Any:
    """By the implicit function rule; at the ends 0 stays 0, and what is infinite has an infinite slope."""
    end = op.logical_or(op.equal(out, 0), op.isinf(out))
    return g * op.where(end, out, -op.gammainc_by_a(a, out, order=1) / op.gamma_density(a, out))


@elementwise(_gamma_by_a, lambda g, a, y, out: g / op.gamma_density(a, out), domain=_GAMMA, silent=True)
def gammaincinv(xp: Any, a: Any, y: Any) -> Any:
    """Inverse of `gammainc` in its second argument: the x with ``gammainc(a, x) = y``, elementwise.

    With the density f of the gamma distribution, ``dx = dy / f(a, x) - P_a / f(a, x) da``, where ``P_a`` is
    the derivative of `gammainc` in a. Source: DLMF 8.2 and the implicit function rule.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.gammaincinv(eo.tensor(2.0), 0.5):.4f}")
    1.6783
    """
    return real(xp, "gammaincinv", a, y)


@elementwise(_gamma_by_a, lambda g, a, y, out: -g / op.gamma_density(a, out), domain=_GAMMA, silent=True)
def gammainccinv(xp: Any, a: Any, y: Any) -> Any:
    """Inverse of `gammaincc` in its second argument: the x with ``gammaincc(a, x) = y``, elementwise.

    ``dx = -dy / f(a, x) - P_a / f(a, x) da``, as for `gammaincinv`. Source: DLMF 8.2 and the implicit
    function rule.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.gammainccinv(eo.tensor(2.0), 1e-20):.4f}")
    49.9832
    """
    return real(xp, "gammainccinv", a, y)


def _beta_slope(a: Any, b: Any, out: Any, i: int, j: int) -> Any:
    """By the implicit function rule; the ends stay where they are."""
    end = op.logical_or(op.equal(out, 0), op.equal(out, 1))
    slope = op.betainc_by_parameters(a, b, out, i=i, j=j) / op.beta_density(a, b, out)
    return op.where(end, 0, -slope)


@elementwise(
    lambda g, a, b, y, out: g * _beta_slope(a, b, out, 1, 0),
    lambda g, a, b, y, out: g * _beta_slope(a, b, out, 0, 1),
    lambda g, a, b, y, out: g / op.beta_density(a, b, out),
    domain=_BETA,
    silent=True,
)
def betaincinv(xp: Any, a: Any, b: Any, y: Any) -> Any:
    """Inverse of `betainc` in its third argument: the x with ``betainc(a, b, x) = y``, elementwise.

    With the density f of the beta distribution, ``dx = (dy - I_a da - I_b db) / f(a, b, x)``, where ``I_a``
    and ``I_b`` are the derivatives of `betainc` in a and b. Source: DLMF 8.17 and the implicit function rule.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.betaincinv(eo.tensor(2.0), 3.0, 0.5):.4f}")
    0.3857
    """
    return real(xp, "betaincinv", a, b, y)
