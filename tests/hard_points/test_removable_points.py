"""Special functions whose formulas cancel or are zero by zero: derivatives from mpmath, and the ends."""

import math

import mpmath as mp
import numpy as np
import pytest

import everyo as eo
from everyo import special

from .reference import agrees, derivatives, second_derivative

INF, NAN = math.inf, math.nan


def moment(x, k):
    """The derivative of order k of exprel."""
    return (
        mp.quad(lambda t: t**k * mp.exp(x * t), [0, 1])
        if abs(x) < 60
        else mp.hyp1f1(k + 1, k + 2, x) / (k + 1)
    )


def dawson(x, k=0):
    values = [mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)]
    values.append(1 - 2 * x * values[0])
    values.append(-2 * x * values[1] - 2 * values[0])
    return values[k]


def quotient(x, k):
    """The derivative of order k of log(x) / (x - 1)."""
    return mp.taylor(lambda t: mp.log(1 + t) / t if t else mp.mpf(1), x - 1, k)[k] * mp.factorial(k)


# Name: value, first and second derivative, points.
SMOOTH = {
    "exp1": (
        mp.e1, lambda x: -mp.exp(-x) / x, lambda x: mp.exp(-x) * (1 / x + 1 / x**2), [1e-100, 0.5, 600.0],
    ),
    "expi": (
        mp.ei, lambda x: mp.exp(x) / x, lambda x: mp.exp(x) * (1 / x - 1 / x**2), [-50.0, 1e-100, 0.5, 700.0],
    ),
    "dawsn": (
        dawson, lambda x: dawson(x, 1), lambda x: dawson(x, 2),
        [0.0, 1e-9, 0.3, 1.49, -1.51, 4.0, 6.99, -7.01, 30.0, 1e8],
    ),
    "exprel": (
        lambda x: moment(x, 0), lambda x: moment(x, 1), lambda x: moment(x, 2),
        [0.0, 1e-300, -1e-9, 1.0, -2.49, 2.51, -2.51, -40.0, 600.0],
    ),
    "cosm1": (lambda x: mp.cos(x) - 1, lambda x: -mp.sin(x), lambda x: -mp.cos(x), [0.0, 1e-9, 1.0, 3.0]),
    "spence": (
        lambda x: mp.re(mp.polylog(2, 1 - x)), lambda x: -quotient(x, 0), lambda x: -quotient(x, 1),
        [1e-20, 0.3, 0.61, 1 - 1e-12, 1.0, 1 + 1e-9, 1.39, 1.41, 50.0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_values_and_two_derivatives(name):
    *exact, points = SMOOTH[name]
    f = getattr(special, name)
    for point in points:
        with mp.workdps(60):
            value, slope, curvature = (function(mp.mpf(point)) for function in exact)
        found, (gradient,) = derivatives(f, point)
        absolute = 1e-16 if name == "spence" else 0.0
        agrees(found, value, absolute, 2e-14)
        agrees(gradient, slope, absolute, 2e-13)
        agrees(second_derivative(f, point), curvature, absolute, 5e-13)


@pytest.mark.parametrize("name", ["dawsn", "exprel", "spence"])
@pytest.mark.parametrize("point", [0.7, 1.3, 2.6])
def test_third_derivatives(name, point):
    third = eo.grad(eo.grad(eo.grad(getattr(special, name))))(eo.tensor(point, dtype=eo.float64)).item()
    exact = {
        "dawsn": lambda x: -2 * x * dawson(x, 2) - 4 * dawson(x, 1),
        "exprel": lambda x: moment(x, 3),
        "spence": lambda x: -quotient(x, 2),
    }
    with mp.workdps(40):
        agrees(third, exact[name](mp.mpf(point)), 0.0, 1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 7])
@pytest.mark.parametrize("point", [1e-6, 0.5, 3.0, 50.0])
def test_generalized_exponential_integrals(n, point):
    f = lambda x: special.expn(n, x)  # noqa: E731
    with mp.workdps(40):
        x = mp.mpf(point)
        found, (gradient,) = derivatives(f, point)
        agrees(found, mp.expint(n, x), 0.0, 2e-15)
        agrees(gradient, -mp.expint(n - 1, x), 0.0, 2e-15)
        agrees(second_derivative(f, point), mp.expint(n - 2, x), 0.0, 4e-15)


def transform(x, power):
    return mp.log(x) if power == 0 else (x**power - 1) / power


def inverse(y, power):
    return mp.exp(y) if power == 0 else mp.exp(mp.log1p(power * y) / power)


POWERS = {
    "boxcox": (transform, [0.3, 1 + 1e-9, 4.0], 0.0),
    "boxcox1p": (lambda x, p: transform(1 + x, p), [1e-9, 3.0], 0.0),
    "inv_boxcox": (inverse, [1e-9, 0.4, -0.3], 0.0),
    "inv_boxcox1p": (lambda y, p: inverse(y, p) - 1, [1e-9, 0.4], 0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", POWERS)
@pytest.mark.parametrize("power", [0.0, 1e-12, 1e-3, 0.5, 1.0, -1.5, 2.0])
def test_power_transforms(name, power):
    exact, points, absolute = POWERS[name]
    f = getattr(special, name)
    for point in points:
        with mp.workdps(200):
            x, p, h = mp.mpf(point), mp.mpf(power), mp.mpf(10) ** -30
            by_x = (exact(x + h, p) - exact(x - h, p)) / (2 * h)
            by_power = (exact(x, p + h) - exact(x, p - h)) / (2 * h)
            twice = (exact(x, p + h) - 2 * exact(x, p) + exact(x, p - h)) / h**2
        _, gradients = derivatives(f, point, power)
        agrees(gradients[0], by_x, absolute, 2e-14)
        agrees(gradients[1], by_power, absolute, 5e-13 if name == "boxcox" else 2e-14)
        if name != "boxcox":  # log(1 + 1e-9) has lost digits in its argument
            agrees(second_derivative(lambda t: f(point, t), power), twice, absolute, 1e-12)  # noqa: B023


# Function, point, slopes.
ENDS = [
    ("exp1", (0.0,), (-INF,)), ("exp1", (INF,), (0.0,)), ("expi", (INF,), (INF,)),
    ("expi", (-INF,), (0.0,)), ("expi", (0.0,), (INF,)), ("dawsn", (INF,), (0.0,)),
    ("dawsn", (NAN,), (NAN,)), ("exprel", (INF,), (INF,)), ("exprel", (-INF,), (0.0,)),
    ("exprel", (NAN,), (NAN,)), ("spence", (0.0,), (-INF,)), ("spence", (-1.0,), (NAN,)),
    ("boxcox", (0.0, 2.0), (0.0, 0.25)), ("boxcox", (0.0, 1.0), (1.0, 1.0)),
    ("boxcox", (0.0, -1.0), (INF, INF)), ("boxcox", (-2.0, 3.0), (NAN, NAN)),
    ("boxcox1p", (-1.0, 2.0), (0.0, 0.25)), ("boxcox1p", (-3.0, 1.0), (NAN, NAN)),
    ("inv_boxcox", (-3.0, 1.0), (NAN, NAN)), ("inv_boxcox1p", (-3.0, 1.0), (NAN, NAN)),
    ("inv_boxcox", (-1.0, 1.0), (1.0, NAN)), ("huber", (1.0, 3.0), (2.0, 1.0)),
    ("huber", (1.0, -3.0), (2.0, -1.0)), ("huber", (2.0, -0.5), (0.0, -0.5)),
    ("huber", (1.0, 1.0), (0.0, 1.0)), ("huber", (-1.0, 0.5), (NAN, NAN)),
    ("pseudo_huber", (0.0, 0.0), (0.0, 0.0)), ("pseudo_huber", (0.0, 2.0), (2.0, 0.0)),
    ("pseudo_huber", (-1.0, 2.0), (NAN, NAN)), ("pseudo_huber", (1.0, 1e-80), (0.0, 1e-80)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "point", "slopes"), ENDS)
def test_ends_of_the_domain(name, point, slopes):
    with np.errstate(all="ignore"):
        found = derivatives(getattr(special, name), *point)[1]
        for i, slope in enumerate(slopes):  # with the tangent of one operand alone
            moved = [eo.tensor(v, dtype=eo.float64) for v in point]
            f = lambda t: getattr(special, name)(*moved[:i], t, *moved[i + 1 :])  # noqa: B023, E731
            tangent = eo.jvp(f, (moved[i],), (eo.ones_like(moved[i]),))[1].item()
            np.testing.assert_allclose(tangent, slope, rtol=1e-15, atol=1e-200)
    np.testing.assert_allclose(found, slopes, rtol=1e-15, atol=1e-200)


def test_orders_that_are_no_whole_numbers_and_arguments_outside():
    found = special.expn(eo.tensor([1.5, 2.0, 1.0, 2.0, -1.0]), eo.tensor([1.0, -1.0, 0.0, 0.0, INF]))
    np.testing.assert_array_equal(found.numpy(), [NAN, NAN, INF, 1.0, 0.0])
