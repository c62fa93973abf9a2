"""The gamma function's family, with the zeta function: exact values and slopes of two orders from mpmath."""

import math

import mpmath as mp
import numpy as np
import pytest

import everyo as eo
from everyo import special
from everyo.core.registry import op

from .reference import agrees, derivatives, second_derivative

INF, NAN = math.inf, math.nan
TINY = 2.0**-52


DIFFERENCES = [
    (1e8, 1e-3), (1e-3, 1e8), (0.5, 1e10), (1e300, 2.0), (1e-300, 3.0), (2.0, 3.0), (20.0, 1e-9),
    (1e-10, 1e300), (1e-100, 1e300),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), DIFFERENCES)
def test_betaln_of_arguments_of_different_size(a, b):
    with mp.workdps(700):
        x, y = mp.mpf(a), mp.mpf(b)
        _, gradients = derivatives(special.betaln, a, b)
        agrees(gradients[0], mp.digamma(x) - mp.digamma(x + y), 0.0, 1e-14)
        agrees(gradients[1], mp.digamma(y) - mp.digamma(x + y), 0.0, 1e-14)
        found = second_derivative(lambda t: special.betaln(t, b), a)
        agrees(found, mp.psi(1, x) - mp.psi(1, x + y), 0.0, 1e-13)


def test_beta_is_the_exponential_of_betaln():
    value, (by_a, by_b) = derivatives(special.beta, 2.5, 1e-4)
    with mp.workdps(40):
        a, b = mp.mpf(2.5), mp.mpf(1e-4)
        agrees(value, mp.beta(a, b), 0.0, 1e-14)
        agrees(by_a, mp.beta(a, b) * (mp.digamma(a) - mp.digamma(a + b)), 0.0, 1e-14)
        agrees(by_b, mp.beta(a, b) * (mp.digamma(b) - mp.digamma(a + b)), 0.0, 1e-14)


def test_beta_of_a_tiny_and_a_huge_argument():
    """It is ``1 / a`` to all digits, of which SciPy has 14, and the slope minus its square."""
    agrees(derivatives(special.beta, 1e-100, 1e300)[1][0], -1e200, 0.0, 2e-14)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 20])
@pytest.mark.parametrize("point", [0.3, 1.0, 7.5, 1e3])
def test_polygamma(n, point):
    with mp.workdps(40):
        value, (gradient,) = derivatives(lambda x: special.polygamma(n, x), point)
        agrees(value, mp.psi(n, mp.mpf(point)), 0.0, 3e-14)
        agrees(gradient, mp.psi(n + 1, mp.mpf(point)), 0.0, 3e-14)


# The factorial overflows, the zeta function underflows, or both.
@pytest.mark.parametrize(
    ("n", "point"), [(171, 7.5), (171, 1e3), (170, 1e3), (120, 1e3), (30, 1e10), (300, 200.0), (3000, 1e3)]
)
def test_polygamma_of_high_order(n, point):
    value, (gradient,) = derivatives(lambda x: special.polygamma(n, x), point)
    with mp.workdps(60):
        for found, order in ((value, n), (gradient, n + 1)):
            exact = (-1) ** (order + 1) * mp.factorial(order) * of_zeta(order + 1, point)
            agrees(found, exact, 0.0, 2.5e-16 * max(n, 100))  # the power has this condition


def of_zeta(s, q):
    """The first terms of the sum for large s, and the rest by Euler and Maclaurin: mpmath underflows."""
    q, count = mp.mpf(q), 2000
    end = q + count
    rest = end ** (1 - s) / (s - 1) + end**-s / 2 + s * end ** (-s - 1) / 12
    return mp.fsum((q + k) ** -s for k in range(count)) + rest


def test_polygamma_of_high_order_at_its_ends():
    assert special.polygamma(171, eo.tensor(0.3)).item() == INF
    for n in (20, 170, 171):
        assert special.polygamma(n, eo.tensor([INF, 0.0])).tolist() == [0.0, (-1) ** (n + 1) * INF]
    assert math.isnan(special.polygamma(171, eo.tensor(NAN)).item())


@pytest.mark.parametrize(("n", "point"), [(10, 1e4), (30, 100.0), (40, 50.0)])
def test_polygamma_in_single_precision(n, point):
    found = special.polygamma(n, eo.tensor(point, dtype=eo.float32))
    with mp.workdps(400):
        agrees(found.item(), mp.psi(n, mp.mpf(point)), 0.0, 1e-7)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_polygamma_of_negative_numbers(n):
    value, (gradient,) = derivatives(lambda x: special.polygamma(n, x), -1.6)
    agrees(value, mp.psi(n, mp.mpf(-1.6)), 0.0, 1e-13)
    agrees(gradient, mp.psi(n + 1, mp.mpf(-1.6)), 0.0, 1e-13)


@pytest.mark.parametrize(
    ("s", "q"),
    [
        (1 + 1e-9, 0.5),
        (1.5, 1e-3),
        (2.0, 1.0),
        (50.0, 0.3),
        (200.0, 20.0),
        (3.0, 1e6),
        (20.0, 5.0),
        (20.0, 1e3),
        (50.0, 1e4),
    ],
)
def test_zeta(s, q):
    with mp.workdps(400):  # mpmath's own error is absolute, and zeta(50, 1e4) is 2e-198
        x, a = mp.mpf(s), mp.mpf(q)
        value, (by_x, by_q) = derivatives(special.zeta, s, q)
        agrees(value, mp.zeta(x, a), 0.0, 1e-14)
        h = mp.mpf(10) ** -20
        agrees(by_x, (mp.zeta(x + h, a) - mp.zeta(x - h, a)) / (2 * h), 0.0, 1e-13)
        agrees(by_q, -x * mp.zeta(x + 1, a), 0.0, 1e-13)
        second = (mp.zeta(x + h, a) - 2 * mp.zeta(x, a) + mp.zeta(x - h, a)) / h**2
        agrees(second_derivative(lambda t: special.zeta(t, q), s), second, 0.0, 1e-12)
        mixed = -mp.zeta(x + 1, a) - x * (mp.zeta(x + 1 + h, a) - mp.zeta(x + 1 - h, a)) / (2 * h)
        found = eo.grad(eo.grad(special.zeta, argnums=1), argnums=0)
        agrees(found(*(eo.tensor(v, dtype=eo.float64) for v in (s, q))).item(), mixed, 0.0, 1e-12)


def test_multigammaln():
    value, (gradient,) = derivatives(lambda x: special.multigammaln(x, 3), 4.25)
    halves = [mp.mpf(4.25) - mp.mpf(j) / 2 for j in range(3)]
    agrees(value, mp.mpf(3) / 2 * mp.log(mp.pi) + mp.fsum(mp.loggamma(h) for h in halves))
    agrees(gradient, mp.fsum(mp.digamma(h) for h in halves))
    assert math.isnan(special.multigammaln(0.9, 3).item())


LOW_ORDERS = [5e-324, 1e-150, 1e-9, 0.5, 1.4616321449683622, 7.999, 30.0, 1e8, 1e76, 1e150]
BELOW = [-1e-200, -1e-9, -0.5, -1 + TINY, -3.000000001, -7.3]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("point", LOW_ORDERS + BELOW)
def test_polygamma_of_low_orders(n, point):
    with mp.workdps(60):
        exact = mp.psi(n, mp.mpf(point))
        agrees(special.polygamma(n, eo.tensor(point, dtype=eo.float64)).item(), exact, 0.0, 2e-15)


def test_the_trigamma_function_far_below_zero_takes_no_steps():
    found = special.polygamma(1, eo.tensor([-1e12 - 0.5, -(2.0**60), -INF], dtype=eo.float64)).numpy()
    exact = mp.pi**2 - mp.psi(1, mp.mpf(10) ** 12 + 1.5)
    np.testing.assert_allclose(found, [float(exact), INF, INF], rtol=2e-15)


def test_polygamma_of_numbers_of_both_signs_in_one_array():
    x = np.array([-2.5, 0.3, math.nan, 4.0, -0.75, INF])
    found = special.polygamma(1, eo.tensor(x)).numpy()
    exact = [float(mp.psi(1, v)) if v == v and v < INF else v for v in x]
    exact[-1] = 0.0
    np.testing.assert_allclose(found, exact, rtol=2e-15)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize(
    ("a", "b"),
    [(0.01, 1e-9), (3.0, 1e-12), (1e4, 1e-3), (2.0, 1e6), (50.0, -49.75), (1e-9, 1e-9), (1.0, 0.0)],
)
def test_differences_of_polygamma_functions(n, a, b):
    with mp.workdps(60):
        exact = mp.psi(n, mp.mpf(a) + mp.mpf(b)) - mp.psi(n, mp.mpf(a))
        agrees(op.polygamma_difference(np.array([a]), np.array([b]), n=n)[0], exact, 0.0, 4e-15)


@pytest.mark.parametrize("x", [-1 + 2**-53, -1 + 1e-10, -2 - 1e-6, -7.05, -30 + 1e-9, -1e6 - 0.0625])
def test_digamma_beside_a_negative_pole(x):
    with mp.workdps(50):
        exact, scale = float(mp.digamma(mp.mpf(x))), float(mp.gamma(mp.mpf(x)))
    point = eo.tensor(x, dtype=eo.float64)
    near = {"rtol": 1e-14, "atol": 0}
    np.testing.assert_allclose(eo.special.digamma(point).item(), exact, **near)
    np.testing.assert_allclose(eo.special.polygamma(0, point).item(), exact, **near)
    np.testing.assert_allclose(eo.grad(eo.special.gammaln)(point).item(), exact, **near)
    np.testing.assert_allclose(eo.compile(eo.special.digamma)(point).item(), exact, **near)
    if scale:
        np.testing.assert_allclose(eo.grad(eo.special.gamma)(point).item(), exact * scale, rtol=1e-13)
