"""Special functions where digits are lost easily: exact values and slopes of two orders from mpmath."""

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


def density(x):
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def normal(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def scaled(x):
    return mp.exp(x * x) * mp.erfc(x)


def scaled_slope(x):
    return 2 * x * scaled(x) - 2 / mp.sqrt(mp.pi)


def hazard(x):
    return density(x) / normal(x)


def log_gamma(x):
    return mp.re(mp.loggamma(x))


def bessel(kind, n, factor=lambda x: 1):
    return lambda x: factor(x) * kind(n, x)


def decay(x):
    return mp.exp(-abs(x))


def jn(n, k=0):
    return lambda x: mp.besselj(n, x, derivative=k)


def yn(n, k=0):
    return lambda x: mp.bessely(n, x, derivative=k)


def i_n(n, k=0):
    """The derivative of order k of I(n, x), by DLMF 10.29.5."""
    orders = [(n - k + 2 * j, math.comb(k, j)) for j in range(k + 1)]
    return lambda x: mp.re(mp.fsum(c * mp.besseli(m, x) for m, c in orders)) / 2**k


def ie_slope(n, order):
    """The derivative of exp(-x) I(n, x) for x > 0, of order 1 or 2."""
    if order == 1:
        return lambda x: decay(x) * (i_n(n, 1)(x) - i_n(n)(x))
    return lambda x: decay(x) * (i_n(n, 2)(x) - 2 * i_n(n, 1)(x) + i_n(n)(x))


# Name: value, first and second derivative, points, absolute tolerance of all three.
SMOOTH = {
    "erfcx": (
        scaled, scaled_slope, lambda x: 2 * scaled(x) + 2 * x * scaled_slope(x),
        [-25.0, -1.0, 0.0, 1e-9, 1.4, 1.6, 3.9, 4.1, 30.0, 1e8, 1e100], 0.0,
    ),
    "ndtr": (normal, density, lambda x: -x * density(x), [-30.0, -1.0, 0.0, 1e-9, 5.0, 38.0], 0.0),
    "log_ndtr": (
        lambda x: mp.log1p(-normal(-x)) if x > 0 else mp.log(normal(x)),
        hazard, lambda x: -hazard(x) * (x + hazard(x)),
        [-1e6, -40.0, -1.0, 0.0, 1.0, 5.0, 20.0], 0.0,
    ),
    "gammaln": (
        log_gamma, mp.digamma, lambda x: mp.psi(1, x),
        [1e-300, 1e-9, 0.5, 1.0, 1 + TINY, 2 - TINY, 2.0, 1e6, 1e300, -0.5, -3.7], 5e-16,
    ),
    "gamma": (
        mp.gamma, lambda x: mp.gamma(x) * mp.digamma(x),
        lambda x: mp.gamma(x) * (mp.digamma(x) ** 2 + mp.psi(1, x)),
        [1e-9, 0.5, 1.4616321449683622, 20.0, 170.0, -0.5, -3.7, -20.5], 5e-16,
    ),
    "digamma": (
        mp.digamma, lambda x: mp.psi(1, x), lambda x: mp.psi(2, x),
        [1e-9, 0.5, 1.4616321449683622, 2.0, 1e3, 1e9, -0.5, -3.7], 0.0,
    ),
    "j0": (jn(0), jn(0, 1), jn(0, 2), [0.0, 1e-300, 1e-8, 0.5, -2.404825557695773, 3.0, 100.0], 2e-16),
    "j1": (jn(1), jn(1, 1), jn(1, 2), [0.0, 1e-300, 1e-8, 0.5, -1.9, 2.1, 3.8317059702075125, 100.0], 2e-16),
    "y0": (yn(0), yn(0, 1), yn(0, 2), [1e-100, 1e-8, 0.5, 0.8935769662791675, 3.0, 100.0], 2e-16),
    "y1": (yn(1), yn(1, 1), yn(1, 2), [1e-90, 9e-10, 1e-8, 0.5, 2.197141326031017, 3.0, 100.0], 2e-16),
    "i0": (i_n(0), i_n(0, 1), i_n(0, 2), [0.0, 1e-300, -1e-8, 0.5, -3.0, 30.0, 700.0], 0.0),
    "i1": (i_n(1), i_n(1, 1), i_n(1, 2), [0.0, 1e-300, -1e-8, 0.5, -3.0, 30.0, 700.0], 0.0),
    "i0e": (
        bessel(mp.besseli, 0, decay), ie_slope(0, 1), ie_slope(0, 2),
        [1e-300, 1e-8, 0.5, 3.0, 29.9, 30.1, 1e3, 1e8], 0.0,
    ),
    "i1e": (
        bessel(mp.besseli, 1, decay), ie_slope(1, 1), ie_slope(1, 2),
        [1e-300, 1e-8, 0.5, 3.0, 29.9, 30.1, 1e3, 1e8], 0.0,
    ),
    "logit": (
        lambda x: mp.log(x / (1 - x)), lambda x: 1 / (x * (1 - x)),
        lambda x: (2 * x - 1) / (x * (1 - x)) ** 2, [1e-150, 1e-9, 0.25, 0.75, 1 - TINY], 0.0,
    ),
    "expi": (
        mp.ei, lambda x: mp.exp(x) / x, lambda x: mp.exp(x) * (x - 1) / x**2,
        [1e-150, -1e-9, 0.25, -0.75, 1.5, 40.0, -40.0, -700.0, 709.0], 0.0,
    ),
    "entr": (
        lambda x: -x * mp.log(x), lambda x: -mp.log(x) - 1, lambda x: -1 / x,
        [1e-300, 1e-9, 1.0, 2.5, 1e300], 0.0,
    ),
}  # fmt: skip
# The second derivatives of Bessel functions are sums that cancel; SciPy rounds x / sqrt(2) in ndtr.
LOOSE = {
    "ndtr": 3e-13,
    "i0e": 1e-12,
    "i1e": 1e-12,
    "erfcx": 5e-14,
    "y1": 1e-13,
    "y0": 1e-13,
    "log_ndtr": 5e-14,
}


@pytest.mark.parametrize(("name", "point"), [(n, p) for n, row in SMOOTH.items() for p in row[3]])
def test_values_and_two_derivatives(name, point):
    value, first, second, _, absolute = SMOOTH[name]
    relative = LOOSE.get(name, 3e-14)
    f = getattr(special, name)
    with mp.workdps(700 if point == 1e100 else 80):
        x = mp.mpf(point)
        found, (gradient,) = derivatives(f, point)
        agrees(found, value(x), absolute, relative)
        agrees(gradient, first(x), absolute, relative)
        agrees(second_derivative(f, point), second(x), absolute, 10 * relative)


@pytest.mark.parametrize("point", [-1e8, -1e3, -0.5])
def test_scaled_bessel_functions_are_even_and_odd(point):
    for name, sign in (("i0e", -1.0), ("i1e", 1.0)):
        f = getattr(special, name)
        assert derivatives(f, point)[1][0] == sign * derivatives(f, -point)[1][0]
        assert second_derivative(f, point) == -sign * second_derivative(f, -point)


def test_scaled_bessel_functions_at_the_kink():
    assert derivatives(special.i0e, 0.0)[1][0].item() == 0.0
    assert derivatives(special.i1e, 0.0)[1][0].item() == 0.5
    assert second_derivative(special.i1e, 0.0) == 0.0  # -1 on the right, 1 on the left


def root_of_erfc(x, start):
    return mp.findroot(lambda y: mp.log(mp.erfc(y)) - mp.log(x), start)


@pytest.mark.parametrize("point", [1e-300, 1e-20, 0.5, 1.0, 1.5, 2 - 2 * TINY])
def test_erfcinv_and_ndtri(point):
    with mp.workdps(40):
        x = mp.mpf(point)
        start = special.erfcinv(eo.tensor(point, dtype=eo.float64)).item()
        root = (
            root_of_erfc(x, start) if point < 1 else -root_of_erfc(2 - x, -start) if point > 1 else mp.mpf(0)
        )
        slope = -mp.sqrt(mp.pi) / 2 * mp.exp(root**2)
        found, (gradient,) = derivatives(special.erfcinv, point)
        agrees(found, root, 0.0, 1e-14)
        agrees(gradient, slope, 0.0, 5e-13)
        agrees(second_derivative(special.erfcinv, point), 2 * root * slope**2, 0.0, 5e-12)
        if point > 1e-299:  # the normal distribution is erfc of -x / sqrt(2), halved
            quantile, (gradient,) = derivatives(special.ndtri, point / 2)
            agrees(quantile, -root * mp.sqrt(2), 1e-15, 1e-14)
            agrees(gradient, -slope * 2 * mp.sqrt(2), 0.0, 5e-13)


@pytest.mark.parametrize("point", [0.0, 1e-300, 1e-9, -0.5, 1 - TINY, -1 + TINY])
def test_erfinv(point):
    with mp.workdps(40):
        root = mp.erfinv(mp.mpf(point))
        slope = mp.sqrt(mp.pi) / 2 * mp.exp(root**2)
        found, (gradient,) = derivatives(special.erfinv, point)
        agrees(found, root, 0.0, 1e-14)
        agrees(gradient, slope, 0.0, 1e-13)
        agrees(second_derivative(special.erfinv, point), 2 * root * slope**2, 0.0, 1e-12)


POLES = [
    ("erfinv", 1.0, INF, INF), ("erfinv", -1.0, -INF, INF), ("erfcinv", 0.0, INF, -INF),
    ("erfcinv", 2.0, -INF, -INF), ("ndtri", 0.0, -INF, INF), ("ndtri", 1.0, INF, INF),
    ("logit", 0.0, -INF, INF), ("logit", 1.0, INF, INF), ("entr", 0.0, 0.0, INF),
    ("gammaln", 0.0, INF, -INF), ("gamma", 0.0, INF, -INF), ("digamma", 0.0, -INF, INF),
    ("gammaln", INF, INF, INF), ("digamma", INF, INF, 0.0), ("y0", 0.0, -INF, INF), ("y1", 0.0, -INF, INF),
    ("log_ndtr", -INF, -INF, INF), ("log_ndtr", INF, 0.0, 0.0), ("ndtr", INF, 1.0, 0.0),
    ("erfcx", INF, 0.0, 0.0), ("sinc", INF, 0.0, 0.0), ("sinc", -INF, 0.0, 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "point", "value", "slope"), POLES)
def test_poles_and_limits(name, point, value, slope):
    f = getattr(special, name)
    found, (gradient,) = derivatives(f, point)
    np.testing.assert_array_equal([found, gradient], [value, slope])
    masked = derivatives(lambda x: eo.where(x == x, 1.0, f(x)), point)[1]
    assert masked[0].item() == 0.0


SINC = [0.0, 1e-300, 1e-9, -1e-4, 0.1, 0.6, -0.64, 1.0, 2.5, 100.0, 1e6 + 0.25]


@pytest.mark.parametrize("point", SINC)
def test_sinc_has_derivatives_of_every_order(point):
    f = eo.sinc
    with mp.workdps(80):
        for order in range(7):
            exact = mp.diff(mp.sincpi, mp.mpf(point), order) if order else mp.sincpi(mp.mpf(point))
            found = f(eo.tensor(point, dtype=eo.float64)).item()
            agrees(found, exact, 1e-13 * math.pi**order if abs(point) > 0.05 else 1e-25, 2e-13)
            f = eo.grad(f)


def test_sinc_in_forward_mode_and_complex():
    f, x = eo.sinc, eo.tensor(0.0, dtype=eo.float64)
    found = []
    for _ in range(4):
        f = (lambda g: lambda x: eo.jvp(g, (x,), (eo.ones_like(x),))[1])(f)
        found.append(f(x).item())
    np.testing.assert_allclose(found, [0.0, -(math.pi**2) / 3, 0.0, math.pi**4 / 5], rtol=1e-15)
    z = eo.tensor(np.array([0.0, 0.3 + 0.4j, 2 - 1j]), requires_grad=True)
    value = eo.sinc(z)
    for v, point in zip(value.tolist(), z.tolist(), strict=True):
        assert v == pytest.approx(complex(mp.sincpi(mp.mpc(point))), rel=1e-14)
    eo.sum(eo.real(value)).backward()
    for g, point in zip(z.grad.tolist(), z.tolist(), strict=True):
        slope = complex(mp.diff(mp.sincpi, mp.mpc(point))) if point else 0.0
        assert g == pytest.approx(slope.conjugate(), rel=1e-13, abs=1e-15)


# Function, point, value, slopes: at the corners the slopes along the axes, from the inside.
CORNERS = [
    ("xlogy", (0.0, 0.0), 0.0, (-INF, 0.0)), ("xlogy", (0.0, 2.0), 0.0, (math.log(2.0), 0.0)),
    ("xlogy", (0.0, INF), 0.0, (INF, 0.0)), ("xlogy", (2.0, 0.0), -INF, (-INF, INF)),
    ("xlogy", (1e-300, 1e-300), -300 * math.log(10) * 1e-300, (-300 * math.log(10), 1.0)),
    ("xlog1py", (0.0, -1.0), 0.0, (-INF, 0.0)), ("xlog1py", (2.0, 1e-300), 2e-300, (1e-300, 2.0)),
    ("xlog1py", (0.0, 1.0), 0.0, (math.log(2.0), 0.0)), ("xlog1py", (2.0, -1.0), -INF, (-INF, INF)),
    ("rel_entr", (0.0, 0.0), 0.0, (INF, 0.0)), ("rel_entr", (0.0, 2.0), 0.0, (-INF, 0.0)),
    ("rel_entr", (2.0, 0.0), INF, (INF, -INF)), ("rel_entr", (2.0, 2.0), 0.0, (1.0, -1.0)),
    ("rel_entr", (1e-200, 1e200), -400 * math.log(10) * 1e-200, (1 - 400 * math.log(10), 0.0)),
    ("kl_div", (0.0, 0.0), 0.0, (INF, 1.0)), ("kl_div", (0.0, 2.0), 2.0, (-INF, 1.0)),
    ("kl_div", (2.0, 0.0), INF, (INF, -INF)), ("kl_div", (3.0, 3.0), 0.0, (0.0, 0.0)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "point", "value", "slopes"), CORNERS)
def test_products_with_logarithms_at_corners(name, point, value, slopes):
    found, gradients = derivatives(getattr(special, name), *point)
    np.testing.assert_allclose([found, *gradients], [value, *slopes], rtol=1e-14)


def test_second_derivatives_of_xlogy_where_x_is_zero():
    hessian = eo.hessian(lambda v: special.xlogy(v[0], v[1]))(eo.tensor([0.0, 4.0], dtype=eo.float64))
    assert hessian.tolist() == [[0.0, 0.25], [0.25, 0.0]]


@pytest.mark.parametrize(
    ("name", "mixed"), [("xlogy", 0.25), ("xlog1py", 0.2), ("rel_entr", -0.25), ("kl_div", -0.25)]
)
def test_mixed_derivatives_where_x_is_zero(name, mixed):
    f, point = getattr(special, name), [eo.tensor(v, dtype=eo.float64) for v in (0.0, 4.0)]
    one = eo.ones_like(point[0])

    def pushed(x, y):
        return eo.jvp(lambda y: f(x, y), [y], [one])[1]

    for slope in (eo.grad(f, argnums=1), pushed):
        assert eo.grad(slope, argnums=0)(*point).item() == mixed
        assert eo.jvp(lambda x: slope(x, point[1]), point[:1], [one])[1].item() == mixed  # noqa: B023


def test_slopes_of_kl_div_between_close_numbers():
    with mp.workdps(40):
        for x, y in ((1.0, 1 + TINY), (1e8 + 1e-6, 1e8), (0.3, 0.3 * (1 + 1e-9))):
            _, gradients = derivatives(special.kl_div, x, y)
            agrees(gradients[0], mp.log(mp.mpf(x) / mp.mpf(y)))
            agrees(gradients[1], 1 - mp.mpf(x) / mp.mpf(y))


def central(f, x, digits=25):
    step = x * mp.mpf(10) ** -digits
    return (f(x + step) - f(x - step)) / (2 * step)


def lower_gamma(a, x):
    """P(a, x) less a constant, without cancellation."""
    if x < a:
        return mp.gammainc(a, 0, x, regularized=True)
    return -mp.gammainc(a, x, mp.inf, regularized=True)


GAMMA = [
    (1e-4, 1e-6), (1e-4, 0.3), (1e-4, 3.0), (0.3, 1e-300), (0.3, 0.79), (0.3, 0.81), (0.3, 40.0), (2.0, 1.5),
    (5.0, 5.5), (5.0, 5.51), (5.0, 200.0), (19.9, 20.3), (19.9, 20.5), (20.1, 19.5), (20.1, 20.0),
    (29.0, 1.7e-4), (100.0, 20.0), (100.0, 99.5), (100.0, 130.0), (100.0, 600.0),
    (5000.0, 4900.0), (5000.0, 5200.0),
]  # fmt: skip


@pytest.mark.parametrize(("a", "x"), GAMMA)
def test_incomplete_gamma_functions(a, x):
    with mp.workdps(60):
        exact_a, exact_x = mp.mpf(a), mp.mpf(x)
        exact = central(lambda t: lower_gamma(t, exact_x), exact_a)
        slope = mp.exp((exact_a - 1) * mp.log(exact_x) - exact_x - mp.loggamma(exact_a))
        value, gradients = derivatives(special.gammainc, a, x)
        agrees(value, mp.gammainc(exact_a, 0, exact_x, regularized=True), 0.0, 1e-12)
        agrees(gradients[0], exact, 0.0, 5e-13)
        agrees(gradients[1], slope, 0.0, 5e-13)
        value, gradients = derivatives(special.gammaincc, a, x)
        agrees(gradients[0], -exact, 0.0, 5e-13)
        agrees(gradients[1], -slope, 0.0, 5e-13)


@pytest.mark.parametrize(("a", "x"), [(0.3, 0.2), (5.0, 4.0), (5.0, 9.0), (40.0, 30.0), (40.0, 55.0)])
def test_second_and_third_derivatives_of_the_incomplete_gamma_function(a, x):
    f = eo.grad(special.gammainc)
    point = [eo.tensor(v, dtype=eo.float64) for v in (a, x)]
    with mp.workdps(60):
        agrees(eo.grad(f)(*point).item(), mp.diff(lambda t: lower_gamma(t, x), a, 2), 0.0, 1e-11)
        agrees(eo.grad(f, argnums=1)(*point).item(), mp.diff(lower_gamma, (a, x), (1, 1)), 0.0, 1e-11)
        third = mp.diff(lambda t: lower_gamma(t, x), a, 3)
        agrees(eo.grad(eo.grad(f))(*point).item(), third, 0.0, 1e-10)


@pytest.mark.parametrize(
    ("a", "x", "value", "by_a", "by_x"),
    [
        (2.0, 0.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0, 1.0), (0.5, 0.0, 0.0, 0.0, INF),
        (2.0, INF, 1.0, 0.0, 0.0),
    ],
)  # fmt: skip
def test_incomplete_gamma_function_at_its_ends(a, x, value, by_a, by_x):
    found, gradients = derivatives(special.gammainc, a, x)
    assert [found.item(), *(g.item() for g in gradients)] == [value, by_a, by_x]


def lower_beta(a, b, x):
    """I(x; a, b) less a constant, without cancellation."""
    if x < a / (a + b):
        return mp.betainc(a, b, 0, x, regularized=True)
    return -mp.betainc(b, a, 0, 1 - x, regularized=True)


BETA = [
    (0.5, 0.5, 0.2), (0.5, 0.5, 0.99), (2.0, 3.0, 0.4), (2.0, 3.0, 1e-10), (1e-3, 1e-3, 0.49),
    (1e-3, 5.0, 1e-8), (1e-3, 800.0, 1e-9), (0.7, 1e-3, 0.95), (50.0, 1e-3, 0.9999),
    (500.0, 1e-3, 0.99989), (0.01, 1e-5, 0.8),
    (30.0, 40.0, 0.35), (30.0, 40.0, 0.6), (1.5, 60.0, 0.2), (60.0, 1.5, 0.999), (300.0, 200.0, 0.55),
    (300.0, 200.0, 0.65), (0.3, 500.0, 0.02), (8.0, 0.05, 0.61), (3.0, 4.0, 1 - 1e-12), (19.0, 21.0, 0.9),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "x"), BETA)
def test_incomplete_beta_function(a, b, x):
    with mp.workdps(60):
        exact = [mp.mpf(v) for v in (a, b, x)]
        value, gradients = derivatives(special.betainc, a, b, x)
        agrees(value, mp.betainc(exact[0], exact[1], 0, exact[2], regularized=True), 0.0, 1e-11)
        by_a = central(lambda t: lower_beta(t, exact[1], exact[2]), exact[0])
        by_b = central(lambda t: lower_beta(exact[0], t, exact[2]), exact[1])
        slope = exact[2] ** (exact[0] - 1) * (1 - exact[2]) ** (exact[1] - 1) / mp.beta(exact[0], exact[1])
        agrees(gradients[0], by_a, 0.0, 1e-12)
        agrees(gradients[1], by_b, 0.0, 1e-12)
        agrees(gradients[2], slope, 0.0, 1e-12)


@pytest.mark.parametrize(("a", "b", "x"), [(0.5, 0.7, 0.3), (30.0, 40.0, 0.5), (5.0, 0.4, 0.8)])
def test_second_derivatives_of_the_incomplete_beta_function(a, b, x):
    point = eo.tensor([a, b, x], dtype=eo.float64)
    found = eo.hessian(lambda v: special.betainc(v[0], v[1], v[2]))(point)
    with mp.workdps(60):
        for i in range(3):
            for j in range(3):
                orders = tuple((i == k) + (j == k) for k in range(3))
                agrees(found[i, j].item(), mp.diff(lower_beta, (a, b, x), orders), 0.0, 1e-10)


@pytest.mark.parametrize(("x", "value", "slope"), [(0.0, 0.0, 0.0), (1.0, 1.0, 0.0), (0.5, 0.6875, 1.5)])
def test_incomplete_beta_function_at_its_ends(x, value, slope):
    found, gradients = derivatives(special.betainc, 2.0, 3.0, x)
    assert found.item() == pytest.approx(value, rel=1e-15)
    assert gradients[2].item() == pytest.approx(slope, rel=1e-14)
    assert [g.item() != 0 for g in gradients[:2]] == [0 < x < 1] * 2


@pytest.mark.parametrize("x", [40.0, 1e3, 1e200])
def test_log_ndtr_is_flat_where_its_slope_underflows(x):
    point = eo.tensor(x, dtype=eo.float64)
    assert eo.grad(special.log_ndtr)(point).item() == 0.0
    assert eo.hessian(special.log_ndtr)(point).item() == 0.0


@pytest.mark.parametrize(
    "x", [-1e4, -300.0, -40.0, -16.1, -15.9, -5.0, -1.1, -0.9, 0.0, 1.5, 8.0, 30.0, 37.5]
)
def test_higher_derivatives_of_log_ndtr(x):
    """By ``h' = -h (x + h)`` for the slope h, the inverse Mills ratio."""
    with mp.workdps(80):
        h = hazard(mp.mpf(x))
        rest = x + h
        exact = [-h * rest]
        exact.append(-exact[0] * rest - h * (1 + exact[0]))
        exact.append(-exact[1] * rest - 2 * exact[0] * (1 + exact[0]) - h * exact[1])
    point = eo.tensor(x, dtype=eo.float64)
    slope = lambda f: lambda x: eo.jvp(f, (x,), (eo.ones_like(x),))[1]  # noqa: E731
    for first in (eo.grad, slope):
        for second in (eo.grad, slope):
            twice = second(first(special.log_ndtr))
            for f, wanted in zip((twice, eo.grad(twice), slope(eo.grad(twice))), exact):
                assert f(point).item() == pytest.approx(float(wanted), rel=1e-12)
    assert eo.compile(eo.grad(eo.grad(special.log_ndtr)))(point).item() == pytest.approx(
        float(exact[0]), rel=1e-12
    )


def test_higher_derivatives_of_log_ndtr_at_the_ends():
    for x, wanted in ((-INF, [INF, -1.0, 0.0]), (-1e200, [1e200, -1.0, 0.0]), (INF, [0.0, 0.0, 0.0])):
        f = special.log_ndtr
        for slope in wanted:
            f = eo.grad(f)
            assert f(eo.tensor(x, dtype=eo.float64)).item() == pytest.approx(slope, rel=1e-15)


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("point", [0.0, 1e-60, -0.5, 2.0, 2.001, -3.0, 4.0, 4.001, -12.0])
def test_bessel_functions_of_higher_orders(n, point):
    x = np.array(point)
    with mp.workdps(40):
        agrees(op.bessel_j(x, n=n), mp.besselj(n, mp.mpf(point)), 5e-16, 3e-15)
        agrees(op.bessel_i(x, n=n), mp.re(mp.besseli(n, mp.mpf(point))), 0.0, 3e-15)


def forward(f):
    return lambda x: eo.jvp(f, (x,), (eo.ones_like(x),))[1]


POLES = [
    ("logit", 0.0, -INF), ("logit", 1e-200, -INF), ("logit", 1.0, INF),
    ("expi", 0.0, -INF), ("expi", 1e-320, -INF), ("expi", 1e200, INF), ("expi", INF, INF),
    ("y0", 0.0, -INF), ("y1", 0.0, -INF), ("y1", 1e-320, -INF),
]  # fmt: skip


@np.errstate(all="ignore")
@pytest.mark.parametrize("second", [(a, b) for a in (eo.grad, forward) for b in (eo.grad, forward)])
@pytest.mark.parametrize(("name", "point", "limit"), POLES)
def test_second_derivatives_at_poles_are_infinite_in_all_modes(name, point, limit, second):
    outer, inner = second
    f = outer(inner(getattr(special, name)))
    assert f(eo.tensor(point, dtype=eo.float64)).item() == limit
    assert eo.compile(f)(eo.tensor(point, dtype=eo.float64)).item() == limit
