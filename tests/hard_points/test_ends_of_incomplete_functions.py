"""Derivatives of the incomplete gamma and beta functions where x is at an end of its range."""

import itertools

import numpy as np
import pytest

import everyo as eo

special = eo.special

# Function of x, point, and derivatives of orders 1, 2 and 3, by hand from the integrand's power series.
ENDS = {
    "gammainc(1, x)": (lambda x: special.gammainc(1.0, x), 0.0, [1, -1, 1]),
    "gammainc(2, x)": (lambda x: special.gammainc(2.0, x), 0.0, [0, 1, -2]),
    "gammainc(3, x)": (lambda x: special.gammainc(3.0, x), 0.0, [0, 0, 1]),
    "gammainc(2.5, x)": (lambda x: special.gammainc(2.5, x), 0.0, [0, 0, np.inf]),
    "gammainc(0.5, x)": (lambda x: special.gammainc(0.5, x), 0.0, [np.inf, -np.inf]),
    "gammainc(2, inf)": (lambda x: special.gammainc(2.0, x), np.inf, [0, 0, 0]),
    "gammaincc(2, x)": (lambda x: special.gammaincc(2.0, x), 0.0, [0, -1, 2]),
    "gammaincc(1, x)": (lambda x: special.gammaincc(1.0, x), 0.0, [-1, 1, -1]),
    "betainc(2, 3, x)": (lambda x: special.betainc(2.0, 3.0, x), 0.0, [0, 12, -48]),
    "betainc(2, 3, 1)": (lambda x: special.betainc(2.0, 3.0, x), 1.0, [0, 0, 24]),
    "betainc(1, 1, x)": (lambda x: special.betainc(1.0, 1.0, x), 0.0, [1, 0, 0]),
    "betainc(1, 1, 1)": (lambda x: special.betainc(1.0, 1.0, x), 1.0, [1, 0, 0]),
    "betainc(1, 3, x)": (lambda x: special.betainc(1.0, 3.0, x), 0.0, [3, -6, 6]),
    "betainc(1, 3, 1)": (lambda x: special.betainc(1.0, 3.0, x), 1.0, [0, 0, 6]),
    "betainc(0.5, 0.5, x)": (lambda x: special.betainc(0.5, 0.5, x), 0.0, [np.inf, -np.inf]),
    "betainc(0.5, 0.5, 1)": (lambda x: special.betainc(0.5, 0.5, x), 1.0, [np.inf, np.inf]),
}


def by_tangents(f):
    return lambda x: eo.jvp(f, (x,), (eo.ones_like(x),))[1]


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("derivative", [eo.grad, by_tangents], ids=["reverse", "forward"])
def test_derivatives_in_x_at_an_end(name, derivative):
    f, x, expected = ENDS[name]
    point = eo.asarray(x, dtype=eo.float64)
    for right in expected:
        f = derivative(f)
        assert f(point).item() == pytest.approx(right, abs=1e-12)
        assert eo.compile(f)(point).item() == pytest.approx(right, abs=1e-12)


def test_ends_beside_other_points():
    x = np.array([0.0, 0.4, 1.0])
    slopes = eo.vmap(eo.grad(eo.grad(lambda x: special.betainc(2.0, 3.0, x))))(eo.asarray(x)).numpy()
    np.testing.assert_allclose(slopes, 12 * (1 - x) ** 2 - 24 * x * (1 - x), atol=1e-12)
    slopes = eo.vmap(eo.grad(eo.grad(lambda x: special.gammainc(2.0, x))))(eo.asarray(x)).numpy()
    np.testing.assert_allclose(slopes, (1 - x) * np.exp(-x), atol=1e-12)


def partial(f, argnum, forward):
    """Return the derivative of a function of numbers in one argument, by a tangent or a cotangent."""
    if not forward:
        return eo.grad(f, argnums=argnum)

    def derivative(*arguments):
        tangents = [eo.ones_like(a) if i == argnum else eo.zeros_like(a) for i, a in enumerate(arguments)]
        return eo.jvp(f, arguments, tuple(tangents))[1]

    return derivative


@pytest.mark.parametrize("modes", list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("a", [1.5, 2.0, 3.0])
def test_mixed_derivatives_vanish_at_an_end(a, modes):
    for f, x in ((special.gammainc, 0.0), (special.gammainc, np.inf), (special.gammaincc, 0.0)):
        for order in ((0, 1), (1, 0)):
            found = partial(partial(f, order[0], modes[0]), order[1], modes[1])
            assert found(eo.asarray(a), eo.asarray(x)).item() == 0
    for x in (0.0, 1.0):
        for order in ((0, 2), (2, 0), (1, 2), (2, 1)):
            found = partial(partial(special.betainc, order[0], modes[0]), order[1], modes[1])
            assert found(eo.asarray(a), eo.asarray(a), eo.asarray(x)).item() == 0
