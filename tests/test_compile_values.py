"""Compiled functions at values where only one order, one rounding or one sign gives what eager code gives."""

import numpy as np
import pytest

import everyo as eo
from tests.compiling import agree


def exact(f, *args):
    """Compare a compiled function with eager code bit for bit, except which NaN it is."""
    found, wanted = eo.compile(f)(*args), f(*args)
    agree(found, wanted)
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    np.testing.assert_array_equal(np.signbit(found.numpy()), np.signbit(wanted.numpy()))


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
