"""Complete elliptic integrals, and inverses of incomplete functions: derivatives from mpmath."""

import math

import mpmath as mp
import numpy as np
import pytest

import everyo as eo
from everyo import special

from .reference import agrees, derivatives, second_derivative
from .test_special import central, lower_beta, lower_gamma

INF, NAN = math.inf, math.nan
BELOW_ONE = [0.0, 1e-300, 1e-9, 0.39, 0.41, 0.5, 0.999, 1 - 1e-12, -0.39, -0.41, -3.0, -1e3]
ELLIPTIC = {
    "ellipk": (mp.ellipk, BELOW_ONE),
    "ellipe": (mp.ellipe, BELOW_ONE),
    "ellipkm1": (lambda p: mp.ellipk(1 - p), [1e-100, 1e-9, 0.3, 0.61, 1.0, 1.39, 50.0]),
}


@pytest.mark.parametrize("name", ELLIPTIC)
def test_complete_elliptic_integrals(name):
    exact, points = ELLIPTIC[name]
    f = getattr(special, name)
    for point in points:
        with mp.workdps(260 if point == 1e-100 else 90):
            x = mp.mpf(point)
            h = mp.mpf(10) ** -25 * (x if 0 < x < 1e-20 and name == "ellipkm1" else 1)
            ahead, value, behind = exact(x + h), exact(x), exact(x - h)
            slope, curvature = (ahead - behind) / (2 * h), (ahead - 2 * value + behind) / h**2
        found, (gradient,) = derivatives(f, point)
        agrees(found, value, 0.0, 1e-14)
        agrees(gradient, slope, 0.0, 2e-14)
        agrees(second_derivative(f, point), curvature, 0.0, 2e-13)


@pytest.mark.parametrize("point", [-2.0, 0.1, 0.7])
@pytest.mark.parametrize("name", ["ellipk", "ellipe"])
def test_third_derivatives(name, point):
    found = eo.grad(eo.grad(eo.grad(getattr(special, name))))(eo.tensor(point, dtype=eo.float64)).item()
    with mp.workdps(60):
        agrees(found, mp.diff(getattr(mp, name), mp.mpf(point), 3), 0.0, 1e-12)


@pytest.mark.parametrize(
    ("name", "point", "first", "second"),
    [
        ("ellipk", 1.0, INF, INF), ("ellipk", 2.0, NAN, NAN), ("ellipk", NAN, NAN, NAN),
        ("ellipk", -INF, 0.0, 0.0), ("ellipe", 1.0, -INF, -INF), ("ellipe", 2.0, NAN, NAN),
        ("ellipe", -INF, 0.0, 0.0), ("ellipkm1", 0.0, -INF, INF), ("ellipkm1", -1.0, NAN, NAN),
        ("ellipkm1", INF, 0.0, 0.0),
    ],
)  # fmt: skip
def test_ends_of_elliptic_integrals(name, point, first, second):
    x, f = eo.tensor(point, dtype=eo.float64), getattr(special, name)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal([eo.grad(f)(x).item(), eo.grad(eo.grad(f))(x).item()], [first, second])


@pytest.mark.parametrize(("a", "y"), [(0.3, 0.2), (2.0, 1e-10), (5.0, 0.6), (40.0, 0.97), (300.0, 0.4)])
def test_inverses_of_incomplete_gamma_functions(a, y):
    for name, sign in (("gammaincinv", 1), ("gammainccinv", -1)):
        found, gradients = derivatives(getattr(special, name), a, y)
        with mp.workdps(60):
            shape, x = mp.mpf(a), mp.mpf(float(found))
            density = mp.exp((shape - 1) * mp.log(x) - x - mp.loggamma(shape))
            by_a = -central(lambda t: lower_gamma(t, x), shape) / density  # noqa: B023
            agrees(gradients[0], by_a, 0.0, 1e-12)
            agrees(gradients[1], sign / density, 0.0, 1e-12)


@pytest.mark.parametrize(
    ("a", "b", "y"), [(0.5, 0.7, 0.3), (2.0, 3.0, 1e-8), (30.0, 40.0, 0.6), (5.0, 0.4, 0.2)]
)
def test_inverse_of_the_incomplete_beta_function(a, b, y):
    found, gradients = derivatives(special.betaincinv, a, b, y)
    with mp.workdps(60):
        p, q, x = mp.mpf(a), mp.mpf(b), mp.mpf(float(found))
        density = x ** (p - 1) * (1 - x) ** (q - 1) / mp.beta(p, q)
        agrees(gradients[0], -central(lambda t: lower_beta(t, q, x), p) / density, 0.0, 2e-12)
        agrees(gradients[1], -central(lambda t: lower_beta(p, t, x), q) / density, 0.0, 2e-12)
        agrees(gradients[2], 1 / density, 0.0, 2e-12)


@pytest.mark.parametrize(
    ("name", "point", "slopes"),
    [
        ("gammaincinv", (2.0, 0.0), (0.0, INF)), ("gammaincinv", (1.0, 0.0), (0.0, 1.0)),
        ("gammaincinv", (0.5, 0.0), (0.0, 0.0)), ("gammaincinv", (2.0, 1.0), (INF, INF)),
        ("gammainccinv", (2.0, 1.0), (0.0, -INF)), ("gammainccinv", (2.0, 0.0), (INF, -INF)),
        ("betaincinv", (2.0, 3.0, 0.0), (0.0, 0.0, INF)), ("betaincinv", (2.0, 3.0, 1.0), (0.0, 0.0, INF)),
        ("betaincinv", (2.0, 3.0, 1.5), (NAN, NAN, NAN)), ("gammaincinv", (2.0, 1.5), (NAN, NAN)),
    ],
)  # fmt: skip
def test_ends_of_inverses(name, point, slopes):
    with np.errstate(all="ignore"):
        for i, slope in enumerate(slopes):
            moved = [eo.tensor(v, dtype=eo.float64) for v in point]
            f = lambda t: getattr(special, name)(*moved[:i], t, *moved[i + 1 :])  # noqa: B023, E731
            tangent = eo.jvp(f, (moved[i],), (eo.ones_like(moved[i]),))[1].item()
            np.testing.assert_array_equal([tangent, eo.grad(f)(moved[i]).item()], [slope, slope])
