"""Bessel functions of real order: exact values and derivatives of two orders from mpmath."""

import math

import mpmath as mp
import numpy as np
import pytest

import everyo as eo
from everyo import special

from .reference import agrees, derivatives, second_derivative

INF, NAN = math.inf, math.nan
# Kind, its derivative as factors of the orders below and above, and what is divided out: DLMF 10.6 and 10.29.
KINDS = {
    "jv": (mp.besselj, (1, -1), 0), "jve": (mp.besselj, (1, -1), 0), "yv": (mp.bessely, (1, -1), 0),
    "iv": (mp.besseli, (1, 1), 0), "ive": (mp.besseli, (1, 1), -1),
    "kv": (mp.besselk, (-1, -1), 0), "kve": (mp.besselk, (-1, -1), 1),
}  # fmt: skip


def exact(name, v, x):
    """Return the value and two derivatives."""
    kind, (below, above), sign = KINDS[name]
    v, x = mp.mpf(v), mp.mpf(x)
    f = {k: mp.re(kind(v + k, x)) for k in range(-2, 3)}
    first = {k: (below * f[k - 1] + above * f[k + 1]) / 2 for k in (-1, 0, 1)}
    second = (below * first[-1] + above * first[1]) / 2
    values = f[0], first[0] + sign * f[0], second + 2 * sign * first[0] + sign**2 * f[0]
    return [mp.exp(sign * x) * y for y in values]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("v", [0.0, 0.3, 1.0, 2.5, 8.0, -0.7, -2.0])
def test_derivatives_in_the_argument(name, v):
    """SciPy's values of ``ive`` have errors of 3e-14, which their differences enlarge."""
    f = lambda t: getattr(special, name)(v, t)  # noqa: E731
    for point in (1e-3, 0.4, 3.0, 19.0, 60.0):
        with mp.workdps(40):
            value, slope, curvature = exact(name, v, point)
        absolute = 3e-15 * (1 + abs(float(value))) if name in ("jv", "jve", "yv") else 0.0  # they oscillate
        found, (gradient,) = derivatives(f, point)
        agrees(found, value, absolute, 2e-13)
        agrees(gradient, slope, absolute, 1e-12 if name == "ive" else 2e-13)
        agrees(second_derivative(f, point), curvature, absolute, 3e-11 if name == "ive" else 5e-13)


FAR = [
    (0.0, 1e8),
    (0.5, 1e4),
    (1.0, 21.0),
    (3.7, 30.0),
    (30.0, 31.0),
    (120.0, 200.0),
    (-2.5, 50.0),
    (9.5, 1.0),
]


@pytest.mark.parametrize("name", ["ive", "kve"])
@pytest.mark.parametrize(("v", "point"), [*FAR, (0.0, 0.11), (1.0, 0.11), (120.0, 11.0)])
def test_derivatives_of_scaled_functions_do_not_cancel(name, v, point):
    f = lambda t: getattr(special, name)(v, t)  # noqa: E731
    with mp.workdps(70):
        _, slope, curvature = exact(name, v, point)
    agrees(derivatives(f, point)[1][0], slope, 0.0, 2e-13)
    agrees(second_derivative(f, point), curvature, 0.0, 5e-13)


@pytest.mark.parametrize("name", ["k0", "k1", "k0e", "k1e"])
def test_functions_of_the_second_kind_of_the_first_orders(name):
    f, scaled = getattr(special, name), name.endswith("e")
    for point in (1e-100, 1e-8, 0.09, 0.5, 2.0, 40.0, 600.0, *([1e8] if scaled else [])):
        with mp.workdps(70):
            value, slope, curvature = exact("kve" if scaled else "kv", int(name[1]), point)
        found, (gradient,) = derivatives(f, point)
        agrees(found, value, 0.0, 2e-15)
        agrees(gradient, slope, 0.0, 1e-13)
        agrees(second_derivative(f, point), curvature, 0.0, 1e-13)


# Function, order, point, first and second derivative.
ENDS = [
    ("jv", 0.0, 0.0, 0.0, -0.5), ("jv", 1.0, 0.0, 0.5, 0.0), ("jv", -1.0, 0.0, -0.5, 0.0),
    ("jv", 2.0, 0.0, 0.0, 0.25), ("jv", 0.5, 0.0, INF, NAN), ("jv", 1.5, 0.0, 0.0, INF),
    ("jv", -0.5, 0.0, NAN, NAN), ("jv", 0.5, -2.0, NAN, NAN), ("jv", 3.0, NAN, NAN, NAN),
    ("jve", 1.0, 0.0, 0.5, 0.0), ("jve", -0.5, 0.0, NAN, NAN), ("jve", -1.0, 0.0, -0.5, 0.0),
    ("jve", 0.5, 0.0, INF, NAN), ("iv", -1.0, 0.0, 0.5, 0.0),
    ("yv", 0.0, 0.0, INF, -INF), ("yv", 1.5, 0.0, INF, -INF), ("yv", 3.0, 1e-300, INF, -INF),
    ("yv", -0.5, 0.0, NAN, NAN), ("yv", 1.0, -2.0, NAN, NAN),
    ("iv", 0.0, 0.0, 0.0, 0.5), ("iv", 1.0, 0.0, 0.5, 0.0), ("iv", 0.5, 0.0, INF, NAN),
    ("iv", -1.5, 0.0, NAN, NAN), ("iv", 0.5, -2.0, NAN, NAN),
    ("kv", 0.0, 0.0, -INF, INF), ("kv", 2.5, 0.0, -INF, INF), ("kv", 2.5, INF, 0.0, 0.0),
    ("kv", 1.0, -2.0, NAN, NAN),
    ("ive", 0.0, 0.0, 0.0, 1.5), ("ive", 1.0, 0.0, 0.5, 0.0), ("ive", 3.0, 0.0, 0.0, 0.0),
    ("ive", 0.5, 0.0, INF, -INF), ("ive", 1.5, 0.0, 0.0, INF), ("ive", -0.5, 0.0, NAN, NAN),
    ("ive", 2.0, INF, 0.0, 0.0), ("ive", 0.5, -1.0, NAN, NAN), ("ive", 2.0, NAN, NAN, NAN),
    ("kve", 0.0, 0.0, -INF, INF), ("kve", -2.5, 1e-300, -INF, INF), ("kve", 2.0, INF, 0.0, 0.0),
    ("kve", 2.0, -1.0, NAN, NAN), ("kve", 2.0, NAN, NAN, NAN),
]  # fmt: skip


def by_tangents(f):
    return lambda x: eo.jvp(f, (x,), (eo.ones_like(x),))[1]


@pytest.mark.parametrize("derivative", [eo.grad, by_tangents], ids=["reverse", "forward"])
@pytest.mark.parametrize(("name", "v", "point", "first", "second"), ENDS)
def test_ends_of_the_domain(name, v, point, first, second, derivative):
    x, slope = eo.tensor(point, dtype=eo.float64), derivative(lambda t: getattr(special, name)(v, t))
    with np.errstate(all="ignore"):
        assert slope(x).item() == pytest.approx(first, rel=1e-15, nan_ok=True)
        assert derivative(slope)(x).item() == pytest.approx(second, rel=1e-15, nan_ok=True)


@pytest.mark.parametrize("point", [0.0, INF, -1.0, NAN])
def test_ends_of_functions_of_the_second_kind(point):
    x = eo.tensor(point, dtype=eo.float64)
    slope, curvature = {0.0: (-INF, INF), INF: (0.0, 0.0)}.get(point, (NAN, NAN))
    for name in ("k0", "k1", "k0e", "k1e"):
        f = getattr(special, name)
        found = [eo.grad(f)(x).item(), eo.grad(eo.grad(f))(x).item()]
        np.testing.assert_array_equal(found, [slope, curvature])


@pytest.mark.parametrize("v", [0.0, 1.0, 4.0, -3.0])
@pytest.mark.parametrize("point", [0.5, 30.0])
def test_scaled_functions_of_whole_orders_are_even_and_odd(v, point):
    f, sign = lambda t: special.ive(v, t), (-1.0) ** v
    assert derivatives(f, -point)[1][0] == -sign * derivatives(f, point)[1][0]
    assert second_derivative(f, -point) == sign * second_derivative(f, point)
