"""Cancellation, overflow, underflow and infinities: exact values and slopes from mpmath."""

import math

import mpmath as mp
import numpy as np
import pytest

import everyo as eo

from .reference import agrees, derivatives, hessian, second_derivative

INF, NAN = math.inf, math.nan
TINY = 2.0**-52


def logistic(x):
    return 1 / (1 + mp.exp(-x))


def gauss(x):
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def normal(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


# Name: value, derivative, points, and how far from the derivative an answer may be where the rule
# subtracts from 1 (a saturated function; the error is then absolute, one unit of the last place of 1).
EVERYWHERE = {
    "expm1": (mp.expm1, mp.exp, [1e-300, -1e-300, 1e-17, -1e-9, 1e-5, 1.0, -40.0, 700.0], 0.0),
    "log1p": (
        mp.log1p,
        lambda x: 1 / (1 + x),
        [1e-300, 1e-17, -1e-17, 1e-9, 1.0, -1 + TINY, 1e300],
        0.0,
    ),
    "sigmoid": (
        logistic,
        lambda x: logistic(x) * logistic(-x),
        [-800.0, -700.0, -40.0, -1e-9, 0.0, 1e-300, 1.0, 40.0, 800.0],
        3e-16,
    ),
    "softplus": (
        lambda x: mp.log1p(mp.exp(x)),
        logistic,
        [-800.0, -700.0, -40.0, -1e-9, 0.0, 1.0, 40.0, 800.0, 1e300],
        0.0,
    ),
    "tanh": (
        mp.tanh,
        lambda x: mp.sech(x) ** 2,
        [0.0, 1e-300, 1e-9, 0.5, -3.0, 20.0, -400.0, 1e300],
        3e-16,
    ),
    "silu": (
        lambda x: x * logistic(x),
        lambda x: logistic(x) * (1 + x * logistic(-x)),
        [-700.0, -40.0, -1e-9, 0.0, 1.0, 40.0, 800.0],
        1e-15,
    ),
    "gelu": (
        lambda x: x * normal(x),
        lambda x: normal(x) + x * gauss(x),
        [-30.0, -5.0, -1e-9, 0.0, 1.0, 9.0, 1e5],
        1e-15,
    ),
    "erf": (
        mp.erf,
        lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x),
        [0.0, 1e-300, 1e-9, 0.5, -1.5, 6.0, -30.0],
        0.0,
    ),
    "log2": (
        lambda x: mp.log(x, 2),
        lambda x: 1 / (x * mp.log(2)),
        [1e-300, 1 - TINY, 1 + TINY, 8.0, 1e300],
        0.0,
    ),
    "log10": (lambda x: mp.log10(x), lambda x: 1 / (x * mp.log(10)), [1e-300, 1 + TINY, 1000.0, 1e300], 0.0),
    "exp2": (
        lambda x: mp.mpf(2) ** x,
        lambda x: mp.mpf(2) ** x * mp.log(2),
        [-1074.0, -1.5, 1e-9, 0.0, 1000.0],
        0.0,
    ),
    "log": (mp.log, lambda x: 1 / x, [1e-300, 1 - TINY, 1 + TINY, 1e300], 0.0),
    "sqrt": (mp.sqrt, lambda x: 1 / (2 * mp.sqrt(x)), [1e-300, 2.0, 1e300], 0.0),
    "arctan": (mp.atan, lambda x: 1 / (1 + x * x), [0.0, 1e-300, 1e-9, 1.0, -1e8, 1e150], 0.0),
    "arcsin": (mp.asin, lambda x: 1 / mp.sqrt((1 - x) * (1 + x)), [0.0, 1e-9, 0.5, 1 - TINY, -1 + TINY], 0.0),
    "arccos": (mp.acos, lambda x: -1 / mp.sqrt((1 - x) * (1 + x)), [0.0, 0.5, 1 - TINY], 0.0),
    "arctanh": (mp.atanh, lambda x: 1 / ((1 - x) * (1 + x)), [0.0, 1e-300, 0.5, 1 - TINY, -1 + TINY], 0.0),
    "arcsinh": (mp.asinh, lambda x: 1 / mp.sqrt(1 + x * x), [0.0, 1e-300, -1e-9, 1.0, 1e100, -1e300], 0.0),
    "arccosh": (mp.acosh, lambda x: 1 / mp.sqrt((x - 1) * (x + 1)), [1 + TINY, 1.5, 1e100, 1e300], 0.0),
    "sinh": (mp.sinh, mp.cosh, [0.0, 1e-300, -1e-9, 20.0, -700.0], 0.0),
    "cosh": (mp.cosh, mp.sinh, [0.0, 1e-9, 20.0, -700.0], 0.0),
    "reciprocal": (lambda x: 1 / x, lambda x: -1 / (x * x), [1e-150, -2.0, 1e150], 0.0),
}

# At -30 the density is exp(-450): the rounding of its exponent alone costs 450 units.
CONDITION = {"gelu": 3e-13}


@pytest.mark.parametrize("name", EVERYWHERE)
def test_values_and_derivatives(name):
    value, derivative, points, absolute = EVERYWHERE[name]
    f, relative = getattr(eo, name), CONDITION.get(name, 4e-15)
    with mp.workdps(400):
        for point in points:
            found, (gradient,) = derivatives(f, point)
            agrees(found, value(mp.mpf(point)), 0.0, relative)
            agrees(gradient, derivative(mp.mpf(point)), absolute, relative)


@pytest.mark.parametrize(
    "name", [n for n in EVERYWHERE if n not in ("reciprocal", "log", "log2", "log10", "sqrt")]
)
def test_second_derivatives_stay_finite(name):
    """And right to 9 digits, or within 1e-12 where the first derivative is saturated."""
    _, derivative, points, _ = EVERYWHERE[name]
    f = getattr(eo, name)
    with mp.workdps(400):
        for point in points:
            if abs(point) > 1 - 1e-9 and name in ("arcsin", "arccos", "arctanh", "arccosh"):
                continue
            exact = float(mp.diff(derivative, mp.mpf(point)))
            found = second_derivative(f, point)
            np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-12, err_msg=f"at {point}")


@pytest.mark.parametrize("name", ["arcsin", "arccos", "arctanh", "arctan", "arcsinh", "tanh", "erf", "sinh"])
def test_second_derivatives_that_vanish_keep_their_digits(name):
    _, derivative, _, _ = EVERYWHERE[name]
    with mp.workdps(400):
        for point in (1e-20, -1e-10, 1e-5, -0.01, 0.4999):
            exact = mp.diff(derivative, mp.mpf(point))
            agrees(second_derivative(getattr(eo, name), point), exact, 0.0, 1e-14)


# Limits: function, point, value, derivative.
LIMITS = [
    ("exp", -INF, 0.0, 0.0),
    ("exp", INF, INF, INF),
    ("expm1", -INF, -1.0, 0.0),
    ("sigmoid", INF, 1.0, 0.0),
    ("sigmoid", -INF, 0.0, 0.0),
    ("softplus", INF, INF, 1.0),
    ("softplus", -INF, 0.0, 0.0),
    ("tanh", INF, 1.0, 0.0),
    ("tanh", -INF, -1.0, 0.0),
    ("erf", INF, 1.0, 0.0),
    ("arctan", -INF, -math.pi / 2, 0.0),
    ("relu", INF, INF, 1.0),
    ("relu", -INF, 0.0, 0.0),
    ("abs", -INF, INF, -1.0),
    ("log1p", INF, INF, 0.0),
    ("sqrt", INF, INF, 0.0),
    ("relu", 0.0, 0.0, 0.0),
    ("abs", 0.0, 0.0, 0.0),
    ("abs", -0.0, 0.0, 0.0),
    ("sign", 0.0, 0.0, 0.0),
    ("sign", -3.0, -1.0, 0.0),
    ("floor", 2.0, 2.0, 0.0),
    ("round", 0.5, 0.0, 0.0),
    ("trunc", -1.5, -1.0, 0.0),
    ("square", 0.0, 0.0, 0.0),
    ("exp", NAN, NAN, NAN),
    ("sigmoid", NAN, NAN, NAN),
]


@pytest.mark.parametrize(("name", "point", "value", "derivative"), LIMITS)
def test_limits_and_kinks(name, point, value, derivative):
    found, (gradient,) = derivatives(getattr(eo, name), point)
    np.testing.assert_array_equal([found, gradient], [value, derivative])


# Poles: NumPy warns of the value itself, as NumPy users expect; the slope is what calculus says.
POLES = [
    ("sqrt", 0.0, 0.0, INF),
    ("log", 0.0, -INF, INF),
    ("log1p", -1.0, -INF, INF),
    ("reciprocal", 0.0, INF, -INF),
    ("arcsin", 1.0, math.pi / 2, INF),
    ("arccos", 1.0, 0.0, -INF),
    ("arccosh", 1.0, 0.0, INF),
    ("arctanh", 1.0, INF, INF),
]


@pytest.mark.parametrize(("name", "point", "value", "derivative"), POLES)
def test_infinite_slopes(name, point, value, derivative):
    with np.errstate(all="ignore"):
        found, (gradient,) = derivatives(getattr(eo, name), point)
        assert (found.item(), gradient.item()) == (value, derivative)
        # Where nothing flows back, an infinite slope contributes nothing.
        masked = derivatives(lambda x: eo.where(x > 5, getattr(eo, name)(x), 1.0), point)[1]
        assert masked[0].item() == 0.0
        weighted = derivatives(getattr(eo, name), [point, 0.25], weight=[0.0, 0.0])[1]
        assert weighted[0].tolist() == [0.0, 0.0]


def exact_softmax(x):
    shifted = [mp.exp(mp.mpf(v)) for v in x]
    return [e / mp.fsum(shifted) for e in shifted]


ROWS = [
    [1000.0, 1000.5, -1000.0],
    [-1000.0, -1000.5, -1001.0],
    [0.0, 1e-9, -1e-9],
    [1e-300, 0.0, 700.0],
    [40.0, 0.0, -40.0],
    [3.0],
]


@pytest.mark.parametrize("row", ROWS)
def test_softmax_and_its_relatives(row):
    weight = [0.7, -1.3, 0.4][: len(row)]
    with mp.workdps(1000):
        p = exact_softmax(row)
        total = mp.log(mp.fsum([mp.exp(mp.mpf(v)) for v in row]))
        value, (gradient,) = derivatives(eo.logsumexp, row)
        agrees(value, total)
        for g, e in zip(gradient, p, strict=True):
            agrees(g, e, 1e-300)
        value, (gradient,) = derivatives(lambda x: eo.softmax(x, axis=-1), row, weight=weight)
        mean = mp.fsum([w * e for w, e in zip(weight, p, strict=True)])
        for i, e in enumerate(p):
            agrees(value[i], e, 1e-300)
            agrees(gradient[i], e * (weight[i] - mean), 5e-16)
        value, (gradient,) = derivatives(lambda x: eo.log_softmax(x, axis=-1), row, weight=weight)
        for i, e in enumerate(p):
            agrees(value[i], mp.mpf(row[i]) - total, 5e-16)
            agrees(gradient[i], weight[i] - e * mp.fsum(weight), 5e-16)


def test_softmax_with_infinities():
    value, (gradient,) = derivatives(eo.logsumexp, [-INF, 1.0, -INF])
    assert (value.item(), gradient.tolist()) == (1.0, [0.0, 1.0, 0.0])
    value, (gradient,) = derivatives(eo.logsumexp, [-INF, -INF])
    assert value.item() == -INF
    assert gradient.tolist() == [0.0, 0.0]
    value, (gradient,) = derivatives(
        lambda x: eo.softmax(x, axis=-1), [-INF, 0.0, 0.0], weight=[1.0, 2.0, 0.0]
    )
    assert value.tolist() == [0.0, 0.5, 0.5]
    assert gradient.tolist() == [0.0, 0.5, -0.5]
    value, (gradient,) = derivatives(
        lambda x: eo.log_softmax(x, axis=-1), [-INF, 0.0, 0.0], weight=[0.0, 1.0, 0.0]
    )
    np.testing.assert_allclose(value, [-INF, -math.log(2), -math.log(2)])
    np.testing.assert_allclose(gradient, [0.0, 0.5, -0.5])


@pytest.mark.parametrize(
    ("x", "y", "value", "by_x", "by_y"),
    [
        (-INF, -INF, -INF, 0.0, 0.0),
        (-INF, 2.0, 2.0, 0.0, 1.0),
        (2.0, -INF, 2.0, 1.0, 0.0),
        (1000.0, 1000.0, 1000 + math.log(2), 0.5, 0.5),
        (-1000.0, 1000.0, 1000.0, 0.0, 1.0),
        (INF, 0.0, INF, 1.0, 0.0),
        (1e-300, 0.0, math.log(2), 0.5, 0.5),
    ],
)
def test_logaddexp(x, y, value, by_x, by_y):
    found, gradients = derivatives(eo.logaddexp, x, y)
    np.testing.assert_allclose([found, *gradients], [value, by_x, by_y], rtol=1e-15)
    scaled = math.log(2)
    found, gradients = derivatives(eo.logaddexp2, x / scaled, y / scaled)
    np.testing.assert_allclose([found, *gradients], [value / scaled, by_x, by_y], rtol=1e-13)


def test_the_branch_not_taken_neither_overflows_nor_leaks():
    for f, point, slope in (
        (eo.elu, 800.0, 1.0),
        (eo.elu, -800.0, 0.0),
        (eo.selu, 800.0, 1.0507009873554805),
        (eo.leaky_relu, -1e308, 0.01),
        (lambda x: eo.gelu(x, approximate="tanh"), 1e200, 1.0),
        (lambda x: eo.gelu(x, approximate="tanh"), -1e200, 0.0),
        (eo.silu, -1e300, 0.0),
        (eo.gelu, -1e300, 0.0),
    ):
        assert derivatives(f, point)[1][0].item() == slope
        assert abs(second_derivative(f, point)) < 1e-300


def test_single_precision_does_not_overflow():
    for f, row in (
        (lambda x: eo.logsumexp(x, axis=0), [100.0, 200.0]),
        (lambda x: eo.sum(eo.softmax(x, axis=0) ** 2), [100.0, -200.0]),
        (lambda x: eo.sum(eo.sigmoid(x)), [100.0, -100.0]),
        (lambda x: eo.sum(eo.softplus(x)), [100.0, -100.0]),
        (lambda x: eo.hypot(x[0], x[1]), [3e30, 4e30]),
    ):
        x = eo.tensor(row, dtype=eo.float32, requires_grad=True)
        value = f(x)
        value.backward()
        assert np.isfinite(value.item())
        assert x.grad.dtype == eo.float32
        assert np.isfinite(x.grad.numpy()).all()


@pytest.mark.parametrize(
    ("a", "b"), [(3e200, 4e200), (3e-200, 4e-200), (1e300, 1.0), (1.0, 1e-300), (-3.0, 4.0), (5e-324, 0.0)]
)
def test_hypot(a, b):
    with mp.workdps(700):
        exact = mp.sqrt(mp.mpf(a) ** 2 + mp.mpf(b) ** 2)
        value, gradients = derivatives(eo.hypot, a, b)
        agrees(value, exact)
        agrees(gradients[0], mp.mpf(a) / exact)
        agrees(gradients[1], mp.mpf(b) / exact)


def test_hypot_at_the_origin_has_the_zero_subgradient():
    assert [g.item() for g in derivatives(eo.hypot, 0.0, 0.0)[1]] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("y", "x"),
    [(1.0, 2.0), (-1.0, -2.0), (0.0, -1.0), (1.0, 0.0), (3e-200, 4e-200), (3e200, 4e200), (1e-300, 1.0)],
)
def test_arctan2(y, x):
    with mp.workdps(700):
        exact_y, exact_x = mp.mpf(y), mp.mpf(x)
        squares = exact_x**2 + exact_y**2
        value, gradients = derivatives(eo.arctan2, y, x)
        agrees(value, mp.atan2(exact_y, exact_x))
        agrees(gradients[0], exact_x / squares, 5e-324)
        agrees(gradients[1], -exact_y / squares, 5e-324)


@pytest.mark.parametrize("f", [eo.hypot, eo.arctan2, lambda x, y: eo.vector_norm(eo.stack([x, y]))])
def test_no_nan_in_second_derivatives_at_the_origin(f):
    assert hessian(lambda v: f(v[0], v[1]), [0.0, 0.0]) == [[0.0, 0.0], [0.0, 0.0]]


def test_arctan2_at_the_origin_has_gradient_zero():
    assert [g.item() for g in derivatives(eo.arctan2, 0.0, 0.0)[1]] == [0.0, 0.0]


@pytest.mark.parametrize("function", [eo.logaddexp, eo.logaddexp2])
def test_a_nan_beside_nothing_leaves_no_slope(function):
    inf, nan = np.array([-np.inf]), np.array([np.nan])
    for x, y in ((inf, nan), (nan, inf)):
        for wrt in (0, 1):
            assert np.isnan(eo.grad(lambda x, y: function(x, y).sum(), argnums=wrt)(x, y).numpy()).all()
        for f, at in ((lambda x, y=y: function(x, y), x), (lambda y, x=x: function(x, y), y)):
            assert np.isnan(eo.jvp(f, (at,), (np.ones(1),))[1].numpy()).all()
