"""The gamma and beta functions and their logarithmic derivatives."""

from __future__ import annotations

import math
from typing import Any

from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError
from everyo.ops.axes import as_integer
from everyo.ops.families import elementwise, primitive
from everyo.ops.known import anywhere
from everyo.ops.reductions import inexact
from everyo.ops.signatures import composed, explained
from everyo.ops.special.domains import PAIRS
from everyo.ops.special.kernels import in_double, real

__all__ = ["beta", "betaln", "digamma", "gamma", "gammaln", "multigammaln", "polygamma", "psi"]

# The Bernoulli numbers B(2), B(4), ...
BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
    854513 / 138, -236364091 / 2730,
)  # fmt: skip
_LAST_FACTORIAL = 170  # that a float can hold
_BESIDE = 0.1  # so near to a pole the cotangent outweighs the rest
_SMALL = 1e-290  # a value below may have lost digits
_SHIFT = 12  # what brings an argument into the reach of the asymptotic series
_SHORT = 4  # the highest order for which that series takes `_SHIFT`


@elementwise(lambda g, x: g * op.digamma(x), domain=(0.3, 4.0), silent=True)
def gammaln(xp: Any, x: Any) -> Any:
    """Logarithm of the absolute value of the gamma function, elementwise: ``d gammaln(x) = digamma(x) dx``.

    Source: DLMF 5.2.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.gammaln(eo.tensor(100.0)):.4f}")
    359.1342
    """
    return real(xp, "gammaln", x)


@elementwise(lambda g, x, out: g * (out * op.digamma(x)), domain=(0.3, 4.0), silent=True)
def gamma(xp: Any, x: Any) -> Any:
    """Gamma function, elementwise: ``d gamma(x) = gamma(x) digamma(x) dx``.

    Source: DLMF 5.2.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.special.gamma(eo.tensor([0.5, 5.0])))
    [ 1.7724539 24.       ]
    """
    return real(xp, "gamma", x)


@elementwise(lambda g, x: g * op.polygamma(x, n=1), domain=(0.3, 4.0))
def digamma(xp: Any, x: Any) -> Any:
    """Logarithmic derivative of the gamma function, elementwise: ``d digamma(x) = polygamma(1, x) dx``.

    Source: DLMF 5.15.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.digamma(eo.tensor(1.0)):.4f}")
    -0.5772
    """
    return _psi(xp, x)


def _psi(xp: Any, x: Any) -> Any:
    """Return SciPy's function; beside a negative pole, where it loses digits, by reflection (DLMF 5.5.4)."""
    out = real(xp, "psi", x)
    if not xp.any(x < -0.5):
        return out
    with xp.errstate(invalid="ignore"):  # of infinities
        distance = x - xp.round(x)
    near = (x < -0.5) & (xp.abs(distance) < _BESIDE) & (distance != 0)
    if not xp.any(near):
        return out

    def reflected(x: Any, distance: Any) -> Any:
        return xp.special.psi(1 - x) - math.pi / xp.tan(math.pi * distance)

    safe = (xp.where(near, x, -1.0), xp.where(near, distance, _BESIDE))
    return xp.where(near, xp.astype(in_double(xp, reflected, *safe), out.dtype), out)


psi = digamma


def _polygamma_slope(g: Any, x: Any, n: int) -> Any:
    return g * op.polygamma(x, n=n + 1)


def _polygamma_samples() -> list[Sample]:
    values = Values([0.4, 1.0, 3.5, -1.6])
    return [sample((), n=1), sample((2, 3), n=2), sample((0,), n=1), sample(values, n=1), sample(values, n=4)]


@primitive(
    _polygamma_slope, _polygamma_slope, family="elementwise", samples=_polygamma_samples, domain=(0.5, 4.0)
)
def _polygamma(xp: Any, x: Any, *, n: int) -> Any:
    """``(-1)**(n+1) n! zeta(n+1, x)``, also where one factor underflows and the other one is huge."""
    if n == 0:
        return _psi(xp, x)
    sign = 1.0 if n % 2 else -1.0

    def evaluate(x: Any) -> Any:
        return sign * (_by_series(xp, n, x) if n <= _SHORT else _by_zeta(xp, n, x))

    return in_double(xp, evaluate, x)


def _by_zeta(xp: Any, n: int, x: Any) -> Any:
    """``n! zeta(n+1, x)`` by SciPy's zeta function."""
    series = xp.special.zeta(n + 1.0, x)
    huge = n > _LAST_FACTORIAL
    out = xp.exp(xp.log(series) + math.lgamma(n + 1.0)) if huge else series * float(math.factorial(n))
    lost = (x > 0) & (x < math.inf) & (huge | (series < _SMALL))
    if xp.any(lost):
        out[lost] = _of_high_order(xp, n, x[lost])
    return out


def _by_series(xp: Any, n: int, x: Any) -> Any:
    """``n! zeta(n+1, x)`` for a small order, in a tenth of the time of SciPy's zeta function.

    Some terms of the sum, and the formula of Euler and Maclaurin for the rest. The trigamma function of a
    negative number is reflected: ``zeta(2, x) = (pi / sin(pi x))**2 - zeta(2, 1 - x)``, two terms whose
    difference is never small.
    """
    negative = x < 0
    if not xp.any(negative):
        return _series(xp, n, x)
    out = _series(xp, n, xp.where(negative, 1 - x, x))
    below = x[negative]
    if n == 1:
        sine = xp.sin(math.pi * (below - xp.round(below)))
        reflected = (math.pi / sine) ** 2 - out[negative]
        out[negative] = xp.where(below == -math.inf, math.inf, reflected)
    else:
        out[negative] = _by_zeta(xp, n, below)
    return out


def _series(xp: Any, n: int, x: Any) -> Any:
    """``n! zeta(n+1, x)`` for a small order and `x` that are not negative, to within 4 units of rounding."""
    shift = _shift(n)
    inverse = 1 / (x + shift)
    square, *numbers = inverse * inverse, *_euler_maclaurin(n)
    rest = xp.full_like(x, numbers[-1])
    for number in reversed(numbers[:-1]):
        rest *= square
        rest += number
    rest *= square
    rest += math.factorial(n) / 2 * inverse
    rest += math.factorial(n - 1)
    rest *= _power(inverse, n)
    total = xp.zeros_like(x)
    for k in reversed(range(shift)):
        total += _power(1 / (x + k), n + 1)
    total *= math.factorial(n)
    total += rest
    return total


def _power(x: Any, n: int) -> Any:
    """Return a positive power by multiplication."""
    out = x
    for _ in range(n - 1):
        out = out * x
    return out


def _shift(n: int) -> int:
    """Return what brings an argument into the reach of the asymptotic series of order `n`."""
    return 8 if n < 2 else _SHIFT


def _euler_maclaurin(n: int) -> list[float]:
    """Return the coefficients of ``y**-(2 j + n)``, from j = 1 on, in the series for order `n`."""
    return [
        number * math.factorial(2 * j + n - 1) / math.factorial(2 * j)
        for j, number in enumerate(BERNOULLI, 1)
    ]


def _of_high_order(xp: Any, n: int, x: Any) -> Any:
    """``n! zeta(n+1, x)`` by the formula of Euler and Maclaurin, for positive `x`.

    The terms are taken relative to ``x**-(n+1)``, and that by the n-th root of the factorial, so that no
    factor leaves the range of floats before the product does.
    """
    s, root = n + 1.0, n / math.e
    total = sum(xp.exp(-s * xp.log1p(k / x)) for k in range(_SHIFT))
    y = x + _SHIFT
    last = xp.exp(-s * xp.log1p(_SHIFT / x))
    total = total + last * (y / n + 0.5)
    term = last * s / y
    for j, number in enumerate(BERNOULLI, 1):
        total = total + number / math.factorial(2 * j) * term
        term = term * ((s + 2 * j - 1) / y) * ((s + 2 * j) / y)
    return total * _factorial_over_power(n) * (x / root) ** -s


def _factorial_over_power(n: int) -> float:
    """Return ``n! / (n/e)**(n+1)``, above `_LAST_FACTORIAL` by Stirling's series."""
    if n <= _LAST_FACTORIAL:
        return math.factorial(n) / (n / math.e) ** (n + 1)
    series = sum(BERNOULLI[k - 1] / (2 * k * (2 * k - 1) * n ** (2 * k - 1)) for k in (1, 2, 3))
    return math.sqrt(2 * math.pi / n) * math.exp(1 + series)


def polygamma_step(x: Any, n: int) -> Any:
    """Return ``polygamma(n, x + 1) - polygamma(n, x)``."""
    return (-1.0) ** n * math.factorial(n) / x ** (n + 1)


@explained
def polygamma(n: int, x: Any, /) -> Tensor:
    """Derivative of order `n` of `digamma`, elementwise: ``d polygamma(n, x) = polygamma(n + 1, x) dx``.

    Source: DLMF 5.15.

    Parameters
    ----------
    n : int
        The order, at least 0.
    x : tensor, array or number
        Real, of any shape.

    Returns
    -------
    Tensor
        Of the same shape.

    Raises
    ------
    ArgumentError
        If `n` is negative.
    DTypeError
        If `n` is no integer, or `x` is complex.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.polygamma(1, eo.tensor(1.0)):.4f}")
    1.6449
    """
    n = as_integer(n, "the order n", "polygamma")
    if n < 0:
        raise ArgumentError(
            "the order must not be negative",
            operation="polygamma",
            expected="n >= 0",
            found=f"n={n}",
            remedy="the integral of digamma is eo.special.gammaln",
        )
    return apply(_polygamma, (x,), {"n": n})


def _difference_by_a(g: Any, a: Any, b: Any, n: int) -> Any:
    return g * op.polygamma_difference(a, b, n=n + 1)


def _difference_by_b(g: Any, a: Any, b: Any, n: int) -> Any:
    return g * op.polygamma(a + b, n=n + 1)


def _difference_samples() -> list[Sample]:
    plain = [sample(*pair, n=n) for pair in PAIRS for n in (0, 2)]
    return [*plain, sample(Values([0.5, -1.3, 4.0]), Values([2.5, 0.6, -1.5]), n=1)]


_DIFFERENCE = (_difference_by_a, _difference_by_b)


@primitive(
    _DIFFERENCE,
    _DIFFERENCE,
    family="elementwise",
    broadcasts=True,
    domain=((0.3, 4.0), (0.3, 4.0)),
    samples=_difference_samples,
    silent=True,
)
def _polygamma_difference(xp: Any, a: Any, b: Any, *, n: int = 0) -> Any:
    """``polygamma(n, a + b) - polygamma(n, a)``, accurate also where `b` is small beside `a`.

    Where both arguments are positive: some steps of the recurrence, then the asymptotic series, in which
    nothing cancels.
    """

    def of_order(x: Any) -> Any:
        return _polygamma.forward(xp, x, n=n)

    def evaluate(a: Any, b: Any) -> Any:
        usual = (a > 0) & (a + b > 0) & xp.isfinite(a) & xp.isfinite(b)
        if xp.all(usual):
            return _difference_of_positive(xp, n, a, b)
        out = xp.asarray(of_order(a + b) - of_order(a))
        out[usual] = _difference_of_positive(xp, n, a[usual], b[usual])
        return out

    return in_double(xp, evaluate, a, b)


def _difference_of_positive(xp: Any, n: int, a: Any, b: Any) -> Any:
    """``polygamma(n, a + b) - polygamma(n, a)`` where both arguments are positive.

    Powers of ``u = 1 / (y + b)`` and ``v = 1 / y`` differ by ``(u - v) (u**(m-1) + ... + v**(m-1))``,
    those of the asymptotic series by Horner's scheme for two points.
    """
    shift, sums = _shift(n), xp.zeros_like(a)
    for k in reversed(range(shift)):
        sums += _powers(a + k, b, n + 1)
    y = a + shift
    v, u = 1 / y, 1 / (y + b)
    v_square, u_square = v * v, u * u
    numbers = _euler_maclaurin(n)
    value = xp.full_like(a, numbers[-1])
    slope = value
    for number in reversed(numbers[:-1]):
        value = value * u_square + number
        slope = slope * v_square + value
    tail = _powers(y, b, 2) * slope
    if n:
        tail = tail * _power(v, n) + value * u_square * _powers(y, b, n)
    leading = math.factorial(n - 1) * _powers(y, b, n) if n else -xp.log1p(b / y)
    total = math.factorial(n) * (sums + _powers(y, b, n + 1) / 2) + (tail + leading)
    return total if n % 2 else -total


def _powers(y: Any, b: Any, m: int) -> Any:
    """Return ``(y + b)**-m - y**-m`` for positive bases."""
    z = y + b
    difference = -b / z / y  # b / y may overflow
    if m == 1:
        return difference
    v, u = 1 / y, 1 / z
    total, power = v + u, u
    for _ in range(m - 2):
        power = power * u
        total = total * v + power
    return difference * total


def _sine(x: Any) -> Any:
    """``sin(pi x)``, exactly 0 at whole numbers."""
    return op.sin(math.pi * (x - 2 * op.round(0.5 * x)))


def _beta_slope(g: Any, x1: Any, x2: Any, out: Any) -> Any:
    """Return the slope in `x1`; at a zero, where the sum is 0, -1, ..., that of the reflected function.

    This is ``beta(x2, 1 - total) sin(pi total) / sin(pi x1)``, by DLMF 5.5.3.
    """
    zero = op.logical_and(op.equal(out, 0), x1 + x2 <= 0)
    if isinstance(zero, Tensor) or anywhere(zero):
        away = op.where(zero, 0.5, x1)
        a, b = op.where(zero, x1, 0.5), op.where(zero, x2, 0.25)
        rest = 1 - a - b
        turn = op.polygamma_difference(rest, b, n=0) * _sine(a + b) / _sine(a)
        slope = op.beta(b, rest) * (turn - math.pi * _sine(b) / _sine(a) ** 2)
        regular = -out * op.polygamma_difference(away, op.where(zero, 0.5, x2), n=0)
        return g * op.where(zero, slope, regular)
    return g * (-out * op.polygamma_difference(x1, x2, n=0))


@elementwise(
    _beta_slope,
    lambda g, x1, x2, out: _beta_slope(g, x2, x1, out),
    domain=(0.3, 4.0),
    samples=lambda: [
        *(sample(*pair) for pair in PAIRS),
        sample(Values([-2.5, -0.5, 0.25, -1.3]), Values([2.5, 0.5, -1.25, -0.7])),  # where it is 0
    ],
    silent=True,
)
def beta(xp: Any, x1: Any, x2: Any) -> Any:
    """Beta function ``gamma(x1) gamma(x2) / gamma(x1 + x2)``, elementwise.

    ``d beta = beta ((digamma(x1) - digamma(x1 + x2)) dx1 + (digamma(x2) - digamma(x1 + x2)) dx2)``; the
    differences are accurate where one argument is small beside the other. Source: DLMF 5.2 and 5.12.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.beta(eo.tensor(2.0), 3.0):.5f}")
    0.08333
    """
    return real(xp, "beta", x1, x2)


@elementwise(
    lambda g, x1, x2: -g * op.polygamma_difference(x1, x2, n=0),
    lambda g, x1, x2: -g * op.polygamma_difference(x2, x1, n=0),
    domain=(0.3, 4.0),
    silent=True,
)
def betaln(xp: Any, x1: Any, x2: Any) -> Any:
    """Logarithm of the absolute value of `beta`, elementwise.

    ``d betaln = (digamma(x1) - digamma(x1 + x2)) dx1 + (digamma(x2) - digamma(x1 + x2)) dx2``. Source: DLMF
    5.2 and 5.12.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.betaln(eo.tensor(1000.0), 1000.0):.1f}")
    -1388.5
    """
    return real(xp, "betaln", x1, x2)


@composed
def multigammaln(x: Any, d: int, /) -> Tensor:
    """Logarithm of the multivariate gamma function of dimension `d`, elementwise.

    It is ``d (d - 1) / 4 log(pi)`` plus the sum of ``gammaln(x - j / 2)`` for j = 0 to ``d - 1``, and so
    are its derivatives. Source: DLMF 35.3.

    Parameters
    ----------
    x : tensor, array or number
        Real, greater than ``(d - 1) / 2``; of any shape.
    d : int
        The dimension, at least 1.

    Returns
    -------
    Tensor
        Of the same shape; NaN where `x` is too small.

    Raises
    ------
    ArgumentError
        If `d` is less than 1.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.multigammaln(eo.tensor(3.0), 2):.4f}")
    1.5502
    """
    d = as_integer(d, "the dimension d", "multigammaln")
    if d < 1:
        raise ArgumentError(
            "the dimension must be positive",
            operation="multigammaln",
            expected="d >= 1",
            found=f"d={d}",
            remedy="pass the number of rows of the matrices",
        )
    x = inexact(x)
    total = gammaln(x)
    for j in range(1, d):
        total = total + gammaln(x - j / 2)
    total = total + d * (d - 1) / 4 * math.log(math.pi)
    beyond = x - (d - 1) / 2  # a function of `x` in its place, so that its slope is NaN too
    return op.where(beyond > 0, total, op.ndtri(op.where(beyond > 0, 0.5, beyond - 1)))
