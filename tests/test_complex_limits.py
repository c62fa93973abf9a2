"""Complex functions near 0 and at the ends of the range, eager and compiled, against mpmath."""

import mpmath
import numpy as np
import pytest

import everyo as eo

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
