"""Compiled functions at values where only one order, one rounding or one sign gives what eager code gives."""

import numpy as np
import pytest

import everyo as eo
from tests.compiling import agree


def exact(f, *args):
    """Compare a compiled function with eager code bit for bit, except which NaN it is."""
    with np.errstate(all="ignore"):
        found, wanted = eo.compile(f)(*args), f(*args)
    agree(found, wanted)
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    found, wanted = (np.where(np.isnan(x), 0, x) for x in (found.numpy(), wanted.numpy()))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def swinging(dtype, pairs):
    """Return numbers whose product is 1 in their order, and overflows in any other."""
    large = {"float16": 3e4, "float32": 1e30, "float64": 1e300}[dtype]
    return eo.asarray(np.array([large, 1 / large] * pairs, dtype))


@pytest.mark.parametrize("f", [eo.prod, eo.nanprod, eo.cumprod, lambda x: eo.prod(x, axis=0)])
@pytest.mark.parametrize("pairs", [8, 80, 30_000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_are_taken_in_order(f, pairs, dtype):
    x = swinging(dtype, pairs)
    exact(f, x)
    exact(lambda x: f(x * 1.0), x)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("pairs", [2, 20, 2000, 20_000])
def test_products_along_axes_are_taken_in_order(pairs, rows, axis):
    x = swinging("float64", pairs)
    x = eo.broadcast_to(x if axis else x[:, None], (rows, 2 * pairs) if axis else (2 * pairs, rows))
    exact(lambda x: eo.prod(x, axis=axis), x)
    exact(lambda x: eo.prod(eo.abs(x), axis=axis) + 1, x)
    exact(lambda x: eo.prod(x), x if axis else x.mT)


def test_the_gradient_of_a_product_is_taken_in_order():
    x = swinging("float64", 40)
    exact(eo.grad(lambda x: eo.prod(x)), x)
    exact(eo.grad(lambda x: eo.cumprod(x)[-1]), x)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "f", [eo.cumsum, eo.cumulative_sum, eo.nancumsum, eo.cumprod, eo.cumulative_prod, eo.nancumprod]
)
def test_running_sums_and_products_of_half_precision_are_rounded_at_each_step(f, axis):
    x = eo.asarray(np.random.default_rng(0).uniform(0.5, 1.5, (60, 50)).astype(np.float16))
    exact(lambda x: f(x, axis=axis), x)
    exact(lambda x: f(x * x, axis=axis) * 2, x)


def test_gradients_of_running_sums_of_half_precision_are_rounded_at_each_step():
    x = eo.asarray(np.random.default_rng(0).uniform(0.5, 1.5, 200).astype(np.float16))
    exact(eo.grad(lambda x: eo.sum(eo.cumsum(x) * x)), x)


def test_running_products_of_half_precision_overflow_as_their_dtype_does():
    x = eo.asarray(np.array([3e4, 3.0, 1e-3, 0.0, 2.0, np.inf], np.float16))
    exact(eo.cumprod, x)
    exact(eo.cumsum, eo.asarray(np.array([6e4, 6e4, -6e4, -np.inf], np.float16)))


def test_blocks_keep_negative_zeros():
    a, c = (eo.asarray(np.array(x)) for x in ([[-0.0, 1.0]], [[-0.0], [-0.0]]))
    exact(lambda a, c: eo.block_diag(a, c, a), a, c)
    assert np.signbit(eo.block_diag(a, c, a).numpy()).sum() == 4
    exact(lambda a, c: eo.block([[a, a], [c, c, c, c]]), a, c)
    exact(lambda a, c: eo.kron(a, c), a, c)


def test_cotangents_that_are_assembled_keep_negative_zeros():
    def f(x):
        return eo.vjp(lambda x: (x[:2], x[3:5], x[4:]), eo.ones_like(x))[1]((-x[:2], -x[3:5], -x[4:]))[0]

    exact(f, eo.zeros(7, dtype="float64"))


def test_the_cardinal_sine_of_half_precision_is_rounded_once():
    x = np.arange(2**16, dtype=np.uint16).view(np.float16)
    x = x[~np.isnan(x)]
    wide = np.sinc(np.where(np.isinf(x), 1, x).astype(np.float64)).astype(np.float16)
    found = eo.sinc(eo.asarray(x)).numpy()
    few = np.abs(x) < 1000  # beyond, NumPy's sine of a multiple of pi is not 0
    np.testing.assert_allclose(found[few], wide[few], 1e-3, 1e-7)
    exact(eo.sinc, eo.asarray(x))


def test_unwrapped_angles_of_half_precision():
    x = eo.asarray(np.cumsum(np.random.default_rng(0).uniform(-5, 6, 300)).astype(np.float16))
    exact(eo.unwrap, x)
    exact(lambda x: eo.unwrap(x, period=2.0), x)
