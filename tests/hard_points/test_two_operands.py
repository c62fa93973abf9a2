"""Gradients and Hessians of functions of two numbers, far out and near their limits, against mpmath."""

import math

import mpmath as mp
import numpy as np
import pytest

import everyo as eo
from everyo import special

TINY = 1e-305  # results below may have lost digits


def transform(x, power):
    return mp.log(x) if power == 0 else (x**power - 1) / power


def inverse(y, power):
    return mp.exp(y) if power == 0 else mp.exp(mp.log(1 + power * y) / power)


INVERSES = [
    (1.0, 1e6), (1.0, 1e12), (1e20, 1e20), (1e-5, 0.5), (1e-17, 0.5), (1e12, 1e12), (1e85, 1e85),
    (1e160, 1.5), (1e200, 1.5), (1e200, 1e200), (-1e4, 1e-5), (0.3, 0.0), (2.0, 0.21),
    (-0.9, 1.0), (-0.9, 1.1), (3.0, -0.3), (1.0, 0.999), (1e300, 1e10), (1e10, 1 / 31),
]  # fmt: skip
# Function, its definition, digits of the exact numbers, points.
FUNCTIONS = {
    "inv_boxcox": (special.inv_boxcox, inverse, 1000, INVERSES),
    "inv_boxcox1p": (special.inv_boxcox1p, lambda y, p: inverse(y, p) - 1, 1000, INVERSES),
    "boxcox": (
        special.boxcox, transform, 3000,
        [(1e-300, 2.0), (1e300, 1.5), (0.3, 1.0), (1.0000001, 1e-9), (4.0, 0.5), (2.0, 0.0), (1e-5, -2.0)],
    ),
    "boxcox1p": (
        special.boxcox1p, lambda x, p: transform(1 + x, p), 1000,
        [(1e-12, 1e12), (-1e-20, 1e20), (1e-17, 0.5), (0.3, 2.5), (0.7, -3.0), (-0.9, 0.2), (1e10, 1.0)],
    ),
    "pseudo_huber": (
        special.pseudo_huber, lambda d, r: d * mp.hypot(d, r) - d**2, 2500,
        [(1.0, 1e-6), (1.0, 1e-3), (1.0, -1e-3), (1e200, 1e-160), (1e-160, 1e200), (1e-160, -1e200)]
        + [(1.0, 1e10), (0.7, 0.7)],
    ),
    "divide": (
        eo.divide, lambda x, y: x / y, 2500,
        [(1e300, 1e200), (1e-300, 1e-160), (0.0, 1e-160), (0.0, -1e-160), (1e150, 1e200), (3.0, -2.0)],
    ),
    "arctan2": (
        eo.arctan2, mp.atan2, 1500,
        [(0.0, 1e-160), (1e-160, 1e-160), (-1e-300, -1e-160), (1e-160, 0.0), (1e150, 1e160), (0.3, 0.4)],
    ),
}  # fmt: skip
POINTS = [(name, point) for name, row in FUNCTIONS.items() for point in row[3]]
SINGLE = [(name, point) for name, point in POINTS if all(p == 0 or 1e-30 < abs(p) < 1e30 for p in point)]
WEIGHTS = {0: [(0, 1)], 1: [(-1, -0.5), (1, 0.5)], 2: [(-1, 1), (0, -2), (1, 1)]}


def exact(name, point):
    """Return the gradient and the Hessian by central differences with very many digits."""
    _, f, digits, _ = FUNCTIONS[name]
    with mp.workdps(digits):
        x, y = map(mp.mpf, point)
        h, k = (min(abs(p or q), 1) * mp.mpf(10) ** -40 for p, q in ((x, y), (y, x)))

        def derivative(m, n):
            terms = [a * b * f(x + i * h, y + j * k) for i, a in WEIGHTS[m] for j, b in WEIGHTS[n]]
            return float(mp.fsum(terms) / (h**m * k**n))

        mixed = derivative(1, 1)
        gradient = [derivative(1, 0), derivative(0, 1)]
        return gradient, [[derivative(2, 0), mixed], [mixed, derivative(0, 2)]]


def agree(found, wanted, relative, least=TINY):
    limit = float(np.finfo(np.asarray(found).dtype).max)
    wanted = np.asarray(wanted)
    wanted = np.where(abs(wanted) > limit, np.copysign(math.inf, wanted), wanted)
    np.testing.assert_allclose(found, wanted, rtol=relative, atol=least)


@np.errstate(all="ignore")
@pytest.mark.parametrize(("name", "point"), POINTS)
def test_gradients_and_hessians(name, point):
    function = FUNCTIONS[name][0]
    gradient, hessian = exact(name, point)

    def f(v):
        return function(v[0], v[1])

    v = eo.tensor(point, dtype=eo.float64)
    for first in (eo.grad(f), eo.jacfwd(f)):
        agree(first(v).numpy(), gradient, 4e-14)
    for second in (eo.hessian(f), eo.jacrev(eo.grad(f)), eo.jacfwd(eo.jacfwd(f))):
        agree(second(v).numpy(), hessian, 4e-14)


@np.errstate(all="ignore")
@pytest.mark.parametrize(("name", "point"), SINGLE)
def test_gradients_in_single_precision(name, point):
    point = np.array(point, dtype="float32")
    gradient, _ = exact(name, point.astype("float64").tolist())
    found = eo.grad(lambda v: FUNCTIONS[name][0](v[0], v[1]))(eo.tensor(point)).numpy()
    assert found.dtype == np.float32
    agree(found, gradient, 3e-6, 1e-37)


@np.errstate(all="ignore")
@pytest.mark.parametrize("power", [-1.0, 0.5, 1.0, 2.0, 3.0])
def test_the_hessian_of_boxcox_at_its_end_is_symmetric(power):
    """The mixed derivative is the limit of ``x**(power - 1) log(x)``."""
    wanted = 0.0 if power > 1 else -math.inf
    for f, end in ((special.boxcox, 0.0), (special.boxcox1p, -1.0)):
        found = eo.hessian(lambda v: f(v[0], v[1]))(eo.tensor([end, power], dtype=eo.float64)).numpy()  # noqa: B023
        assert found[0, 1] == found[1, 0] == wanted


def test_derivatives_of_inv_boxcox_where_it_vanishes():
    f = eo.hessian(lambda v: special.inv_boxcox(v[0], v[1]))
    np.testing.assert_array_equal(f(eo.tensor([-1e200, 0.0], dtype=eo.float64)).numpy(), np.zeros((2, 2)))
