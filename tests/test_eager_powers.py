"""Powers of large arrays in eager code, which generated loops compute."""

import mpmath
import numpy as np
import pytest

import everyo as eo
from everyo.backends import accelerated, elementary

N = accelerated.LARGE + 5
HALVES = [h / 2 for h in range(-32, 33)]


@pytest.fixture(autouse=True)
def without_vectors(monkeypatch):
    """Let the loops serve as on a processor for which NumPy has none, whatever this one is."""
    monkeypatch.setattr(elementary, "has_vectors", lambda: False)


def draw(dtype, low=0.1, high=4.0):
    return np.random.default_rng(0).uniform(low, high, N).astype(dtype)


def assert_close(found, bases, exponents, units):
    places = np.linspace(0, N - 1, 40).astype(int)
    bases, exponents = np.broadcast_to(bases, N)[places], np.broadcast_to(exponents, N)[places]
    with mpmath.workdps(40):
        exact = [mpmath.mpf(float(x)) ** mpmath.mpf(float(y)) for x, y in zip(bases, exponents, strict=True)]
    exact = np.asarray([float(v) for v in exact])
    unit = np.spacing(np.abs(exact).astype(found.dtype)).astype(np.float64)
    assert np.max(np.abs(found[places].astype(np.float64) - exact) / unit) <= units


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("exponent", HALVES)
def test_whole_and_half_exponents(dtype, exponent):
    x = draw(dtype)
    found = (eo.from_numpy(x) ** exponent).numpy()
    assert found.dtype == dtype
    assert_close(found, x, exponent, 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("exponent", [0.3, -1.7, 16.5, 17, 1e-3, -40])
def test_other_exponents(dtype, exponent):
    x = draw(dtype, 0.8, 1.2)
    assert_close((eo.from_numpy(x) ** exponent).numpy(), x, np.asarray(exponent, dtype), 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_of_exponents_and_numbers_as_bases(dtype):
    x, y = draw(dtype), draw(dtype, -3.0, 3.0)
    assert_close((eo.from_numpy(x) ** eo.from_numpy(y)).numpy(), x, y, 2)
    assert_close((0.7 ** eo.from_numpy(y)).numpy(), np.asarray(0.7, dtype), y, 2)
    assert_close(np.power(eo.from_numpy(x), eo.from_numpy(y[::-1])).numpy(), x, y[::-1], 2)


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e200, -1e200])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("exponent", [*HALVES, 0.3, -0.3, np.inf, -np.inf, np.nan, 17, 1e300])
def test_special_values_are_those_of_numpy(exponent):
    x = np.resize(SPECIAL, N)
    with np.errstate(all="ignore"):
        found, expected = eo.power(eo.from_numpy(x), exponent).numpy(), x**exponent
    np.testing.assert_array_max_ulp(found[: len(SPECIAL)], expected[: len(SPECIAL)], 2)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("exponent", [3, -2.5, 3.7])
def test_finite_bases_alone_as_well(exponent):
    """An element that is infinite leaves all to NumPy; these do not."""
    x = np.resize([1.0, 2.0, 1e-100, 5e-3, 1e20], N)
    np.testing.assert_array_max_ulp((eo.from_numpy(x) ** exponent).numpy(), x**exponent, 2)


@pytest.mark.parametrize(
    "exponent", [np.float64(3), np.array(3.0), np.array([3.0]), 3, True, np.int64(3), 3 + 0j]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_dtypes_are_those_of_small_arrays(exponent, dtype):
    x = draw(dtype, 1, 9)
    large, small = eo.power(eo.from_numpy(x), exponent), eo.power(eo.from_numpy(x[:3]), exponent)
    assert large.dtype == small.dtype
    np.testing.assert_allclose(
        large.numpy()[:3], small.numpy(), rtol=1e-6 if large.dtype == "float32" else 1e-14
    )


@pytest.mark.parametrize("exponent", [3, 4, -2, 1.5, 0.3, -0.5])
def test_gradients_of_large_and_small_arrays_agree(exponent):
    x = draw("float64")
    f = eo.grad(lambda x: eo.sum(x**exponent))
    np.testing.assert_allclose(f(x).numpy()[:7], f(x[:7]).numpy(), rtol=1e-14)
    np.testing.assert_allclose(f(x).numpy(), exponent * x ** (exponent - 1), rtol=1e-14)


def test_norms_of_any_order():
    x = draw("float64", -2, 2)
    exact = np.sum(np.abs(x.astype(np.longdouble)) ** 3) ** (np.longdouble(1) / 3)
    np.testing.assert_allclose(
        eo.linalg.vector_norm(eo.from_numpy(x), ord=3).item(), float(exact), rtol=1e-14
    )
