"""Bessel functions of the orders 0 and 1; their derivatives need those of all integer orders."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.ops.docstrings import of_a_real_number
from everyo.ops.families import elementwise, primitive
from everyo.ops.signatures import explained
from everyo.ops.special.kernels import in_double, real

__all__ = ["i0", "i0e", "i1", "i1e", "j0", "j1", "y0", "y1"]

_FAR, _TERMS = 30.0, 24  # from here on the asymptotic series has all digits


def _orders() -> list[Sample]:
    return [sample((2, 3), n=0), sample((), n=1), sample((0,), n=1), sample(Values([0.5, 3.0, 9.0]), n=2)]


def _of_both_signs() -> list[Sample]:
    return [*_orders(), sample(Values([-2.5, 0.0]), n=0), sample(Values([-2.5, 0.0]), n=1)]


def _j_slope(g: Any, x: Any, n: int) -> Any:
    if n == 0:
        return -g * op.bessel_j(x, n=1)
    return g * (0.5 * (op.bessel_j(x, n=n - 1) - op.bessel_j(x, n=n + 1)))


@primitive(_j_slope, _j_slope, family="elementwise", samples=_of_both_signs, silent=True)
def _bessel_j(xp: Any, x: Any, *, n: int) -> Any:
    """Of order `n`: for large `x` by the recurrence from 0 and 1, ten times as fast as SciPy."""
    if n < 2:
        return real(xp, f"j{n}", x)

    def evaluate(x: Any) -> Any:
        large, out = xp.abs(x) > n, xp.empty_like(x)
        y = x[large]
        before, last = xp.special.j0(y), xp.special.j1(y)
        for k in range(1, n):
            before, last = last, 2 * k / y * last - before
        out[large] = last
        small = ~large  # NaN, too
        rest = x[small]
        out[small] = _power_series(xp, rest, n, -1.0, 6 + 4 * n) if n < 5 else xp.special.jv(float(n), rest)
        return out

    return in_double(xp, evaluate, x)


def _power_series(xp: Any, x: Any, n: int, sign: float, last: int = 22) -> Any:
    """Return the Bessel function J (sign -1) or I of order `n` by its power series, for ``abs(x) <= 4``.

    Where J takes it, for x up to the order, each term is smaller than the one before. The `last` term is
    less than ``4**22 / (22! 24!)``, a millionth of a rounding error.
    """
    half = x / 2
    square, total = half * half * sign, xp.zeros_like(x)
    for k in range(last, -1, -1):
        total *= square
        total += 1 / (math.factorial(k) * math.factorial(k + n))
    for _ in range(n):
        total *= half
    return total


def _y_slope(g: Any, x: Any, n: int) -> Any:
    if n == 0:
        return -g * op.bessel_y(x, n=1)
    near = op.less(x, 1e-9)  # where the lower order is nothing beside the higher one, or infinite too
    lower = op.where(near, 0, op.bessel_y(x, n=n - 1))
    return g * (0.5 * (lower - op.bessel_y(x, n=n + 1)))


@primitive(_y_slope, _y_slope, family="elementwise", samples=_orders, domain=(0.5, 3.0), silent=True)
def _bessel_y(xp: Any, x: Any, *, n: int) -> Any:
    return real(xp, f"y{n}", x) if n < 2 else real(xp, "yn", float(n), x)


def _i_slope(g: Any, x: Any, n: int) -> Any:
    if n == 0:
        return g * op.bessel_i(x, n=1)
    return g * (0.5 * (op.bessel_i(x, n=n - 1) + op.bessel_i(x, n=n + 1)))


@primitive(_i_slope, _i_slope, family="elementwise", samples=_of_both_signs, silent=True)
def _bessel_i(xp: Any, x: Any, *, n: int) -> Any:
    """Of order `n`: a higher one for small `x` by the power series, ten times as fast as SciPy."""
    if n < 2:
        return real(xp, f"i{n}", x)

    def evaluate(x: Any) -> Any:
        small = xp.abs(x) <= 4
        if xp.all(small):
            return _power_series(xp, x, n, 1.0)
        out = xp.empty_like(x)
        out[small] = _power_series(xp, x[small], n, 1.0)
        out[~small] = xp.special.iv(float(n), x[~small])
        return out

    return in_double(xp, evaluate, x)


@functools.cache
def _coefficients(n: int, m: int) -> list[float]:
    """Return the coefficients in ``1 / x`` of differences of ``sqrt(2 pi x) exp(-x) I(n, x)`` for large x."""
    total = [Fraction(0)] * _TERMS
    for j in range(m + 1):
        term = Fraction((-1) ** j * math.comb(m, j))
        for k in range(_TERMS):
            total[k] += term
            term *= Fraction(-(4 * (n + j) ** 2 - (2 * k + 1) ** 2), 8 * (k + 1))
    return [float(c) for c in total]


def _scaled_slope(g: Any, x: Any, n: int, m: int) -> Any:
    return g * (0.5 * op.bessel_i_difference(x, n=n - 1, m=m + 2))


def _scaled_samples() -> list[Sample]:
    values = Values([0.5, 3.0, 29.0, 31.0, 90.0])
    return [
        sample((2, 3), n=-1, m=2), sample((), n=0, m=2), sample((0,), n=0, m=2), sample(values, n=-1, m=2),
        sample(values, n=0, m=2),
    ]  # fmt: skip


@primitive(
    _scaled_slope,
    _scaled_slope,
    family="elementwise",
    samples=_scaled_samples,
    domain=(0.5, 4.0),
    silent=True,
)
def _bessel_i_difference(xp: Any, x: Any, *, n: int, m: int) -> Any:
    """The `m`-th difference ``s[n] - s[n+1]`` in the order of ``s[n] = exp(-x) I(n, x)``, for ``x >= 0``.

    As ``2 s[n]' = s[n-1] - 2 s[n] + s[n+1]``, derivatives are differences again. For large x these cancel;
    there the asymptotic series (DLMF 10.40.1) is summed with coefficients that are differences already.
    """

    def evaluate(x: Any) -> Any:
        near = xp.where(x < _FAR, x, _FAR)
        first, second = xp.special.i0e(near), xp.special.i1e(near)
        half = xp.where(near == 0, 0.5, second / near)
        known = [first, second, first - 2 * half]  # a third is needed: its error is small beside the first
        known += [xp.special.ive(float(k), near) for k in range(3, n + m + 1)]
        orders = [(-1) ** j * math.comb(m, j) * known[abs(n + j)] for j in range(m + 1)]
        inverse = 1 / xp.where(x < _FAR, _FAR, x)
        series = 0.0
        for c in reversed(_coefficients(n, m)):
            series = series * inverse + c
        return xp.where(x < _FAR, sum(orders), series * xp.sqrt(inverse / (2 * math.pi)))

    return in_double(xp, evaluate, x)


@elementwise(lambda g, x: g * (op.sign(x) * (0.5 * op.bessel_i_difference(op.abs(x), n=-1, m=2))))
def i0e(xp: Any, x: Any) -> Any:
    """``exp(-|x|) i0(x)``, elementwise: ``d i0e(x) = (i1e(x) - sign(x) i0e(x)) dx``, without cancellation.

    At 0, where it has a kink, the derivative is 0, as that of ``abs``. Source: DLMF 10.29.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.i0e(eo.tensor(1000.0)):.5f}")
    0.01262
    """
    return real(xp, "i0e", x)


@elementwise(lambda g, x: g * (0.5 * op.bessel_i_difference(op.abs(x), n=0, m=2)))
def i1e(xp: Any, x: Any) -> Any:
    """``exp(-|x|) i1(x)``, elementwise, with a derivative without cancellation: 1/2 at 0.

    ``d i1e(x) = (i0e(x) - (1 / x + sign(x)) i1e(x)) dx``. Source: DLMF 10.29.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.i1e(eo.tensor(1000.0)):.5f}")
    0.01261
    """
    return real(xp, "i1e", x)


@explained
@of_a_real_number
def i0(x: Any, /) -> Tensor:
    """Modified Bessel function of the first kind of order 0, elementwise: ``d i0(x) = i1(x) dx``.

    Source: DLMF 10.29.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.i0(eo.tensor(1.0)):.4f}")
    1.2661
    """
    return apply(_bessel_i, (x,), {"n": 0})


@explained
@of_a_real_number
def i1(x: Any, /) -> Tensor:
    """Modified Bessel function of the first kind of order 1, elementwise.

    ``d i1(x) = (i0(x) + i2(x)) / 2 dx``, which is ``(i0(x) - i1(x) / x) dx``. Source: DLMF 10.29.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.i1(eo.tensor(1.0)):.4f}")
    0.5652
    """
    return apply(_bessel_i, (x,), {"n": 1})


@explained
@of_a_real_number
def j0(x: Any, /) -> Tensor:
    """Bessel function of the first kind of order 0, elementwise: ``d j0(x) = -j1(x) dx``.

    Source: DLMF 10.6.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.j0(eo.tensor(1.0)):.4f}")
    0.7652
    """
    return apply(_bessel_j, (x,), {"n": 0})


@explained
@of_a_real_number
def j1(x: Any, /) -> Tensor:
    """Bessel function of the first kind of order 1, elementwise: ``d j1(x) = (j0(x) - j2(x)) / 2 dx``.

    Source: DLMF 10.6.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.j1(eo.tensor(1.0)):.4f}")
    0.4401
    """
    return apply(_bessel_j, (x,), {"n": 1})


@explained
@of_a_real_number
def y0(x: Any, /) -> Tensor:
    """Bessel function of the second kind of order 0, elementwise: ``d y0(x) = -y1(x) dx``.

    It is ``-inf`` at 0, and NaN below. Source: DLMF 10.6.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.y0(eo.tensor(1.0)):.4f}")
    0.0883
    """
    return apply(_bessel_y, (x,), {"n": 0})


@explained
@of_a_real_number
def y1(x: Any, /) -> Tensor:
    """Bessel function of the second kind of order 1, elementwise: ``d y1(x) = (y0(x) - y2(x)) / 2 dx``.

    It is ``-inf`` at 0, and NaN below. Source: DLMF 10.6.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.y1(eo.tensor(1.0)):.4f}")
    -0.7812
    """
    return apply(_bessel_y, (x,), {"n": 1})
