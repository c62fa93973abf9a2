"""Powers by a constant: products, roots and quotients in place of pow, as exact as that."""

import mpmath as mp
import numpy as np
import pytest

import everyo as eo
from everyo.compiler import elementary
from tests.elementary_kernels import errors_in_ulp, kernel
from tests.elementary_reference import BITS, WIDE

TYPES = {"f64": np.float64, "f32": np.float32}
INF, NAN = np.inf, np.nan
# twice the exponents: of functions of their own, and of those that are a few operations
CALLED = [-32, -31, -17, -10, -7, -6, -5, 7, 9, 10, 15, 24, 31, 32]
SHORT = [-4, -3, -2, -1, 2, 3, 4, 5, 6, 8]


def bases(halves, dtype, count):
    """Return bases of all sizes whose power is finite, or hardly not, half of them next to 1."""
    rng = np.random.default_rng(abs(halves))
    info = np.finfo(dtype)
    largest, least = float(np.log2(info.max)), float(np.log2(info.smallest_subnormal))
    logarithm = rng.uniform(least, largest, count) * (1.02 * 2 / halves)
    logarithm[::2] = rng.uniform(-2, 2, logarithm[::2].size)
    x = (2.0 ** np.clip(logarithm, least, 0.9999 * largest)).astype(dtype)
    if halves % 2 == 0:
        x[::3] = -x[::3]
    return x


def worst_error(found, x, halves):
    """Return the largest error in units of the last place."""
    if BITS > 53:
        with np.errstate(all="ignore"):
            exact = x.astype(WIDE) ** WIDE(halves / 2)
        return errors_in_ulp("pow", found, exact).max()
    kind, worst = found.dtype.type, 0.0
    for a, y in zip(x[:1000], found[:1000]):
        true = mp.mpf(float(a)) ** (mp.mpf(halves) / 2)
        rounded = kind(float(true))
        if np.isfinite(rounded):
            worst = max(worst, float(abs(mp.mpf(float(y)) - true) / mp.mpf(float(np.spacing(abs(rounded))))))
        else:
            assert y == rounded
    return worst


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("halves", CALLED)
def test_functions_of_their_own(halves, dtype):
    x = bases(halves, TYPES[dtype], 100_000)
    assert worst_error(kernel(elementary.constant_power(halves), dtype)(x), x, halves) <= 2


@pytest.mark.parametrize("dtype", TYPES.values())
@pytest.mark.parametrize("halves", [*SHORT, -5, 7, 10])
def test_what_programs_compute(halves, dtype):
    x = bases(halves, dtype, 100_000)
    found = eo.compile(lambda x: x ** (halves / 2))(eo.asarray(x)).numpy()
    assert worst_error(found, x, halves) <= 2


@pytest.mark.parametrize("dtype", TYPES.values())
@pytest.mark.parametrize("halves", [*CALLED, *SHORT])
def test_special_values(halves, dtype):
    """What IEEE 754 says of pow, and powers of numbers whose roots are exact."""
    x = np.array([0.0, -0.0, INF, -INF, NAN, 1.0, 4.0, 2.25, -1.0, -4.0], dtype)
    sign = -1.0 if halves % 4 == 2 else 1.0
    ends = [INF, INF * sign, 0.0, 0.0 * sign] if halves < 0 else [0.0, 0.0 * sign, INF, INF * sign]
    ones = [NAN, NAN] if halves % 2 else [sign, sign * 2.0**halves]
    wanted = np.array([*ends, NAN, 1.0, 2.0**halves, 1.5**halves, *ones])
    found = eo.compile(lambda x: x ** (halves / 2))(eo.asarray(x)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=2 * np.finfo(dtype).eps)
    kept = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[kept]), np.signbit(wanted[kept]))


def test_exponents_that_are_no_half_numbers_or_large():
    x = np.array([0.5, 1.5, 3.0])
    for exponent in (2.25, -0.3, 17.0, -16.5, 1e300, INF, -INF):
        found = eo.compile(lambda x, exponent=exponent: x**exponent)(eo.asarray(x)).numpy()
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(found, np.power(x, exponent), rtol=4e-16)
    assert np.isnan(eo.compile(lambda x: x**NAN)(eo.asarray(x)).numpy()).all()


def test_integers_have_no_powers_of_negative_exponent():
    x = eo.asarray(np.array([1, 2]))
    assert eo.compile(lambda x: x**5)(x).tolist() == [1, 32]
    with pytest.raises(eo.errors.DTypeError, match="negative exponent"):
        eo.compile(lambda x: x**-2)(x)


@pytest.mark.parametrize("exponent", [-1.5, 2.5, 3.5, -3, 5])
def test_derivatives(exponent):
    x = np.array([0.5, 1.25, 3.0, 40.0])
    slope = eo.compile(eo.grad(lambda x: (x**exponent).sum()))(eo.asarray(x)).numpy()
    np.testing.assert_allclose(slope, exponent * x ** (exponent - 1), rtol=1e-15)
    curve = eo.compile(eo.grad(lambda x: eo.grad(lambda x: (x**exponent).sum())(x).sum()))(eo.asarray(x))
    np.testing.assert_allclose(curve.numpy(), exponent * (exponent - 1) * x ** (exponent - 2), rtol=1e-15)


def test_powers_have_names():
    assert elementary.constant_power(-5) == "pow_m5_halves"
    assert elementary.is_known("pow_m5_halves")
    assert not elementary.is_known("pow_m5_thirds")
    assert elementary.arity(elementary.constant_power(7)) == 1
