"""Running sums and products, exact where elements are zero."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import everyo as eo
from everyo.core.registry import op

inf, nan = math.inf, math.nan


def leaf(x, dtype="float64"):
    return eo.tensor(np.asarray(x, dtype), requires_grad=True)


def gradient(f, x, dtype="float64"):
    """Return the gradient of the sum of ``f(x)``."""
    x = leaf(x, dtype)
    y = f(x)
    y.backward(np.ones(y.shape, y.dtype))
    assert x.grad.dtype == x.dtype
    return x.grad.numpy()


@st.composite
def scannable(draw):
    shape = draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))
    x = draw(arrays.arrays("float64", shape, elements=st.integers(-2, 2).map(float)))
    return x, draw(st.none() | st.integers(-len(shape), len(shape) - 1))


@given(case=scannable())
def test_values_are_numpys(case):
    x, axis = case
    np.testing.assert_array_equal(eo.cumsum(x, axis).numpy(), np.cumsum(x, axis))
    np.testing.assert_array_equal(eo.cumprod(x, axis).numpy(), np.cumprod(x, axis))


@given(case=scannable())
def test_cumsum_gradient(case):
    x, axis = case
    g = gradient(lambda t: eo.cumsum(t, axis), x)
    n = x.size if axis is None else x.shape[axis]
    expected = np.arange(n, 0.0, -1.0)
    if axis is None:
        expected = expected.reshape(x.shape)
    else:
        expected = np.moveaxis(np.broadcast_to(expected, np.moveaxis(x, axis, -1).shape), -1, axis)
    np.testing.assert_array_equal(g, expected)


def slow_cumprod_jacobian(x):
    """Return d cumprod(x)[k] / d x[i] from the definition."""
    n = len(x)
    return np.array(
        [[np.prod(np.delete(x[: k + 1], i)) if i <= k else 0 for i in range(n)] for k in range(n)]
    )


@given(x=st.lists(st.integers(-2, 2).map(float), min_size=1, max_size=9), seed=st.integers(0, 9))
def test_cumprod_gradient_is_exact(x, seed):
    x = np.array(x)
    w = np.random.default_rng(seed).integers(-3, 4, x.shape).astype(float)
    t = leaf(x)
    eo.cumprod(t).backward(w)
    np.testing.assert_array_equal(t.grad.numpy(), w @ slow_cumprod_jacobian(x))
    _, tangent = eo.jvp(eo.cumprod, (eo.asarray(x),), (eo.asarray(w),))
    np.testing.assert_array_equal(tangent.numpy(), slow_cumprod_jacobian(x) @ w)


@pytest.mark.parametrize(
    ("x", "expected"),
    [([2, 0, 3, 4], [1, 32, 0, 0]), ([0, 0, 5], [1, 0, 0]), ([2, 3], [4, 2]), ([7], [1]), ([], [])],
)
def test_cumprod_with_zeros(x, expected):
    np.testing.assert_array_equal(gradient(eo.cumprod, x), expected)


def test_cumprod_hessian_with_a_zero():
    x = leaf([2.0, 0.0, 3.0])
    (g,) = eo.autograd.grad(eo.sum(eo.cumprod(x)), x, create_graph=True)
    rows = [eo.autograd.grad(g, x, seed, retain_graph=True)[0].numpy() for seed in np.eye(3)]
    np.testing.assert_array_equal(rows, [[0, 4, 0], [4, 0, 2], [0, 2, 0]])


def test_cumprod_third_derivative_with_zeros():
    x = leaf([0.0, 0.0, 0.0, 5.0])
    (g,) = eo.autograd.grad(eo.cumprod(x)[3], x, create_graph=True)
    (h,) = eo.autograd.grad(g[0], x, create_graph=True)
    (third,) = eo.autograd.grad(h[1], x)
    np.testing.assert_array_equal(third.numpy(), [0, 0, 5, 0])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_zeros_make_an_overflow_irrelevant():
    x = np.array([1e20, 1e20, 0, 2, 1e20, 1e20], "float32")
    np.testing.assert_array_equal(eo.cumprod(x).numpy(), np.array([1e20, inf, 0, 0, 0, 0], "float32"))
    g = gradient(lambda t: eo.cumprod(t)[-2:], x, "float32")
    np.testing.assert_array_equal(g, [0, 0, inf, 0, 0, 0])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_is_not_absorbed():
    np.testing.assert_array_equal(eo.cumprod(np.array([0, nan, 1, 0])).numpy(), [0, nan, nan, nan])
    np.testing.assert_array_equal(eo.cumprod(np.array([inf, 0, 1])).numpy(), [inf, nan, nan])


def test_long_recurrence():
    n = 1000
    a, b = np.random.default_rng(0).uniform(-1, 1, (2, n))
    r, expected = 0.0, []
    for i in range(n):
        r = a[i] * r + b[i]
        expected.append(r)
    np.testing.assert_allclose(op.linear_recurrence(a, b, axis=0, reverse=False), expected, rtol=1e-10)


def test_flattening_and_dtypes():
    x = leaf([[1.0, 2.0], [3.0, 4.0]], "float32")
    assert eo.cumsum(x).shape == (4,)
    assert eo.cumsum(eo.tensor(3.0)).shape == (1,)
    assert eo.cumprod(x, 0).dtype == eo.float32
    assert eo.cumsum(x, 0, dtype=eo.float64).dtype == eo.float64
    assert eo.cumsum(np.array([100, 100], "int8")).tolist() == [100, 200]
    assert eo.cumsum(np.array([100, 100], "int8"), dtype="int8").tolist() == [100, -56]
    with pytest.raises(eo.IndexingError, match="cumsum"):
        eo.cumsum(x, 2)


def test_diff():
    x = np.array([[1.0, 4.0, 9.0], [2.0, 3.0, 5.0]])
    for axis in (-1, 0):
        for n in (0, 1, 2, 3):
            np.testing.assert_array_equal(eo.diff(x, n, axis).numpy(), np.diff(x, n, axis))
    np.testing.assert_array_equal(gradient(lambda t: eo.diff(t), x[0]), [-1, 0, 1])
    with pytest.raises(eo.EveryOError, match="negative"):
        eo.diff(x, n=-1)
