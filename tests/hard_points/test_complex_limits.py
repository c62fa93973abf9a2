"""Complex functions near 0 and at the ends of the range, eager and compiled, against mpmath."""

import mpmath
import numpy as np
import pytest

import everyo as eo
from tests.ranges import LARGEST, LEAST, TURNS, assert_close

rng = np.random.default_rng(0)
NEAR = 10.0 ** rng.uniform(-17, 0, 200) * np.exp(1j * rng.uniform(-np.pi, np.pi, 200))
CIRCLE = np.exp(1j * rng.uniform(-np.pi, np.pi, 200)) - 1  # where the real part of the logarithm is near 0
EDGES = [1e-17, 1e-9 + 1e-9j, -0.5 + 0.49j, 1e-30j]
BOTH = pytest.mark.parametrize("transform", [lambda f: f, eo.compile], ids=["eager", "compiled"])


@BOTH
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_log1p_has_all_digits(transform, dtype):
    z = np.concatenate([NEAR, CIRCLE, EDGES]).astype(dtype)
    found, bound = transform(eo.log1p)(eo.asarray(z)).numpy(), 4 * np.finfo(dtype).eps
    with mpmath.workdps(50):
        for point, value in zip(z.tolist(), found.tolist(), strict=True):
            exact = mpmath.log(1 + mpmath.mpc(point))
            assert abs(value - exact) <= bound * abs(exact), point


@BOTH
def test_log1p_at_the_ends(transform):
    ends = [
        complex(1.7e308, 1.7e308),
        complex(-2, 0.0),
        complex(-2, -0.0),
        complex(0.0, -0.0),
        complex(np.inf, 1),
    ]
    found = transform(eo.log1p)(eo.asarray(np.array(ends))).numpy()
    exact = [
        complex(mpmath.log(mpmath.mpc(ends[0]))),
        np.pi * 1j,
        -np.pi * 1j,
        complex(0, -0.0),
        complex(np.inf, 0),
    ]
    np.testing.assert_allclose(found, exact, rtol=1e-15)
    assert np.signbit(found[3].imag)


@BOTH
@pytest.mark.parametrize(
    ("dtype", "point"),
    [
        ("complex128", 1e308 + 1.7e308j),
        ("complex128", -1.7e308 - 1e308j),
        ("complex128", 1.7e308 + 1e-3j),
        ("complex64", 3.3e38 + 0.97e38j),
    ],
)
def test_the_sign_of_a_number_whose_size_overflows(transform, dtype, point):
    z = eo.asarray(np.array([point], dtype))
    point = complex(z.numpy()[0])
    exact = complex(mpmath.mpc(point) / abs(mpmath.mpc(point)))
    for f in (eo.sign, lambda z: eo.grad(lambda z: eo.sum(eo.abs(z)))(z)):
        np.testing.assert_allclose(transform(f)(z).numpy(), [exact], rtol=4 * np.finfo(dtype).eps)


@BOTH
def test_the_sign_of_infinite_numbers(transform):
    z = np.array([complex(np.inf, 3), complex(-1, -np.inf), complex(np.inf, np.inf), 0j, 5e-324j])
    found = transform(eo.sign)(eo.asarray(z)).numpy()
    np.testing.assert_array_equal(found, [1, -1j, complex(np.nan, np.nan), 0, 1j])


@BOTH
@pytest.mark.parametrize("name", ["arctan", "arctanh"])
@pytest.mark.parametrize(
    "point", [1e20 + 1e20j, -1e200 + 3e100j, 1e-20 + 1j, 0.3 - 2j, 1e-9 + 1e-9j, 1 + 1e-8j]
)
def test_slopes_of_inverse_tangents(transform, name, point):
    """Far away, where the square overflows, and near the poles, where it loses digits."""
    f, z = getattr(eo, name), eo.tensor([point], dtype=eo.complex128)
    found = transform(lambda z: eo.jvp(f, (z,), (eo.ones_like(z),))[1])(z).numpy()[0]
    with mpmath.workdps(50):
        square = mpmath.mpc(point) ** 2
        exact = 1 / (1 + square if name == "arctan" else 1 - square)
        assert abs(found - exact) <= 1e-14 * abs(exact) + 5e-324


@BOTH
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_quotients_at_the_ends_of_the_range(transform, dtype):
    large = [share * LARGEST[dtype] * turn for turn in TURNS for share in (0.3, 0.5, 0.99)]
    small = [50 * LEAST[dtype] * turn / abs(turn) for turn in TURNS]
    pairs = [(x, y) for x in large for y in large] + [(x, y) for x in small for y in small]
    pairs += [(1, y) for y in large] + [(x, 1 + 1j) for x in large] + [(0, y) for y in (*large, *small)]
    x, y = (np.array(side, dtype) for side in zip(*pairs, strict=True))
    with np.errstate(all="ignore"):
        found = transform(lambda x, y: x / y)(eo.asarray(x), eo.asarray(y)).numpy()
    exact = [mpmath.mpc(a) / mpmath.mpc(b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert_close(found, exact, dtype)


def test_quotients_that_are_no_numbers_are_those_of_numpy():
    x = np.array([1, 0, np.inf, 1 + 1j, np.nan, 1j, 0], complex)
    y = np.array([0, 0, 1, np.inf, 1, complex(np.inf, 3), np.inf])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(eo.divide(x, y).numpy(), x / y)
        np.testing.assert_array_equal(eo.power(x, -2).numpy(), x**-2)


def derivatives(f, transform, z, seed=1):
    """Return a function's derivative at `z` times a number, in reverse and in forward mode."""
    unit = eo.full(z.shape, seed, dtype=z.dtype)
    reverse = transform(lambda z: eo.conj(eo.vjp(f, z)[1](eo.conj(unit))[0]))
    forward = transform(lambda z: eo.jvp(f, (z,), (unit,))[1])
    return [reverse(z).numpy(), forward(z).numpy()]


@BOTH
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize("exponent", [-1, -2, -3, -7, -101, -1.0 + 0j, np.array(-2.0, np.float32)])
def test_negative_powers_of_large_numbers(transform, exponent, dtype):
    """Whose own powers leave the range."""
    sizes = [1e10, 1e19, 2e19, 3e38] + [1e103, 1e154, 1e155, 1e200, 1.7e308] * (dtype == "complex128")
    z, n = np.array([size * turn for size in sizes for turn in TURNS], dtype), int(exponent.real)
    points = [mpmath.mpc(point) for point in z.tolist()]
    z = eo.asarray(z)

    def power(z):
        return z**exponent

    def slope(z):
        return eo.jvp(power, (z,), (eo.ones_like(z),))[1]

    with np.errstate(all="ignore"):
        assert_close(transform(power)(z).numpy(), [p**n for p in points], dtype, ulps=1000)
        for found in derivatives(power, transform, z):
            assert_close(found, [n * p ** (n - 1) for p in points], dtype, ulps=1000)
        for found in derivatives(slope, transform, z):
            assert_close(found, [n * (n - 1) * p ** (n - 2) for p in points], dtype, ulps=1000)


@BOTH
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize(
    ("f", "slope"),
    [
        (eo.log, lambda z: 1 / z),
        (eo.log2, lambda z: 1 / (mpmath.log(2) * z)),
        (eo.log10, lambda z: 1 / (mpmath.log(10) * z)),
        (eo.log1p, lambda z: 1 / (1 + z)),
        (eo.sqrt, lambda z: 1 / (2 * mpmath.sqrt(z))),
        (eo.arctan, lambda z: 1 / (1 + z * z)),
        (eo.arctanh, lambda z: 1 / (1 - z * z)),
        (eo.arcsinh, lambda z: 1 / (mpmath.sqrt(z - 1j) * mpmath.sqrt(z + 1j)) * (-1 if z.real < 0 else 1)),
        (eo.arccosh, lambda z: 1 / (mpmath.sqrt(z - 1) * mpmath.sqrt(z + 1))),
        (eo.reciprocal, lambda z: -1 / z**2),
        (lambda z: z**0.5, lambda z: 0.5 * z**-0.5),
    ],
    ids=["log", "log2", "log10", "log1p", "sqrt", "arctan", "arctanh", "arcsinh", "arccosh", "reciprocal",
         "power"],
)  # fmt: skip
def test_slopes_far_away_times_a_large_cotangent(transform, dtype, f, slope):
    """They are less than the least ordinary number, what comes in makes one of them."""
    seed = 1e30 if dtype == "complex64" else 1e300
    z = np.array([share * LARGEST[dtype] * t for t in TURNS[2:] for share in (0.3, 0.7, 0.99)], dtype)
    with np.errstate(all="ignore"), mpmath.workdps(40):
        exact = [seed * slope(mpmath.mpc(point)) for point in z.tolist()]
        for found in derivatives(f, transform, eo.asarray(z), seed):
            assert_close(found, exact, dtype, ulps=2000)


INVERSES = {  # slope and curvature
    "arctan": (lambda z: 1 / (1 + z * z), lambda z: -2 * z / (1 + z * z) ** 2),
    "arctanh": (lambda z: 1 / (1 - z * z), lambda z: 2 * z / (1 - z * z) ** 2),
    "arcsinh": (lambda z: 1 / mpmath.sqrt(1 + z * z), lambda z: -z / (1 + z * z) / mpmath.sqrt(1 + z * z)),
    "arcsin": (lambda z: 1 / mpmath.sqrt(1 - z * z), lambda z: z / (1 - z * z) / mpmath.sqrt(1 - z * z)),
    "arccos": (lambda z: -1 / mpmath.sqrt(1 - z * z), lambda z: -z / (1 - z * z) / mpmath.sqrt(1 - z * z)),
    "arccosh": (
        lambda z: 1 / (mpmath.sqrt(z - 1) * mpmath.sqrt(z + 1)),
        lambda z: -z / (mpmath.sqrt(z - 1) * mpmath.sqrt(z + 1)) ** 3,
    ),
}
POINTS = [
    *(1e-12 + 1e-30j, 1e-17 - 1e-40j, 1e-17j, 1e-5 + 1e-7j, -1e-5 - 1e-7j, 0.3 + 0.3j, 0.3 - 0.3j),
    *(-0.4 - 0.2j, -0.4 - 0.5j, 2 - 1j),
]


def second_derivatives_agree(transform, f, dtype, points, second):
    def slope(z):
        return eo.jvp(f, (z,), (eo.ones_like(z),))[1]

    z = np.array(points, dtype)
    with mpmath.workdps(60):
        exact = [second(mpmath.mpc(point)) for point in z.tolist()]
    for found in derivatives(slope, transform, eo.asarray(z)):
        assert found.dtype == dtype
        assert_close(found, exact, dtype, ulps=40)


@BOTH
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize("name", INVERSES)
def test_derivatives_of_inverses_near_zero(transform, dtype, name):
    """There the slopes of two factors, 1 + z and 1 - z, would cancel."""
    function, (slope, curvature) = getattr(eo, name), INVERSES[name]
    z = np.array(POINTS, dtype)
    with mpmath.workdps(60):
        exact = [3 * slope(mpmath.mpc(point)) for point in z.tolist()]
    for found in derivatives(function, transform, eo.asarray(z), seed=3):
        assert found.dtype == dtype
        assert_close(found, exact, dtype, ulps=40)
    second_derivatives_agree(transform, function, dtype, POINTS, curvature)


@BOTH
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_slopes_of_the_tangent_far_from_the_real_axis(transform, dtype):
    """Where its square is -1 but for the last digits."""
    z = np.array([-3 - 40j, 3 + 20j, 0.3 + 1.5j, -0.3 - 0.9j, 1.5 + 0.1j, 2 - 30j], dtype)
    with mpmath.workdps(60):
        exact = [1 / mpmath.cos(mpmath.mpc(point)) ** 2 for point in z.tolist()]
    for found in derivatives(eo.tan, transform, eo.asarray(z)):
        assert found.dtype == dtype
        assert_close(found, exact, dtype, ulps=40)
    points = [*z.tolist(), 1 + (170j if dtype == "complex128" else 25j)]

    def second(z):
        return 2 * mpmath.sin(z) / mpmath.cos(z) ** 3

    second_derivatives_agree(transform, eo.tan, dtype, points, second)
