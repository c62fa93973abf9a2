"""Kernels that take another way for many elements, wide points or extreme products agree with plain NumPy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import everyo as eo
from everyo.core.registry import op


def gradient(function, x):
    return eo.grad(lambda x: function(x).sum())(eo.tensor(x)).numpy()


def test_a_long_convolution_has_the_sums_of_numpy():
    x, v = np.arange(20_000.0) % 7, np.arange(9_000.0) % 5
    np.testing.assert_array_equal(eo.convolve(x, v, "valid").numpy(), np.convolve(x, v, "valid"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distances_of_wide_points_keep_the_digits_of_close_ones(dtype):
    draw = np.random.default_rng(0)
    first = (draw.normal(size=(40, 16)) + 100).astype(dtype)
    second = (draw.normal(size=(60, 16)) + 100).astype(dtype)
    second[0], second[1] = first[0], first[1] + np.asarray(1e-3, dtype)
    exact = first.astype("longdouble")[:, None] - second.astype("longdouble")
    lengths = np.sqrt((exact**2).sum(-1))
    tight = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(eo.cdist(first, second).numpy(), lengths, rtol=tight)
    directions = exact / np.where(lengths == 0, 1, lengths)[..., None]
    found = gradient(lambda x: eo.cdist(x, second), first)
    np.testing.assert_allclose(found, directions.sum(1), atol=60 * tight)


def test_many_quantiles_of_long_rows_share_among_equal_elements():
    x = np.arange(200.0) % 50  # each value four times
    rows = np.stack([x, x[::-1]])
    ranks = np.arange(40) / 199  # the ten smallest values, each as often as it is there
    found = gradient(lambda x: eo.quantile(x, ranks, axis=1, method="nearest"), rows)
    np.testing.assert_allclose(found, rows < 10, rtol=1e-12)


def test_running_products_beyond_the_floats_have_exact_slopes():
    x = np.array([2.0**600, 2.0**600, 2.0**-900])
    back = eo.grad(lambda x: eo.cumprod(x)[::2].sum())(eo.tensor(x[[0, 2, 1]])).numpy()
    # the sum is a + a * b * c, for a = 2**600, b = 2**-900, c = 2**600
    np.testing.assert_array_equal(back, [1 + 2.0**-300, np.inf, 2.0**-300])


def slopes_of_product(x):
    """The product of the others for each element of a vector, in rational numbers."""
    exact = [Fraction(float(v)) for v in x]
    return [float(math.prod(exact[:i] + exact[i + 1 :])) for i in range(len(x))]


PRODUCTS = {
    "factors": [2.0, -0.3, 1.7, 0.9],
    "one zero": [2.0, 0.0, 1.7, -0.9],
    "two zeros": [2.0, 0.0, 0.0, -0.9],
    "subnormal": [1e-300, 1e-20, 2.0],
    "a zero beside an overflow": [0.0, 1e200, 1e200, 1e-200],
    "float32": np.array([3.0, 1e-3, -7.0], "float32"),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_slopes_of_products_are_the_products_of_the_others(name):
    x = np.asarray(PRODUCTS[name])
    exact = slopes_of_product(x)
    tight = 8 * np.finfo(x.dtype).eps
    shuffled, places = np.concatenate([x, x[::-1]]), np.repeat([0, 1], x.size)
    np.testing.assert_allclose(gradient(eo.prod, x), exact, rtol=tight)
    rows = np.stack([x, x[::-1]])
    np.testing.assert_allclose(gradient(lambda x: eo.prod(x, axis=1), rows), [exact, exact[::-1]], rtol=tight)
    found = gradient(lambda x: eo.segment_prod(x, places, 2), shuffled)
    np.testing.assert_allclose(found, exact + exact[::-1], rtol=tight)
    pushed = eo.jvp(eo.prod, (eo.tensor(x),), (eo.ones_like(eo.tensor(x)),))[1].numpy()
    np.testing.assert_allclose(pushed, math.fsum(exact), rtol=tight)


def test_a_cotangent_of_zero_meets_no_overflow():
    x = eo.tensor([[1e200, 1e200, 1e200], [2.0, 3.0, 4.0]], dtype=eo.float64, requires_grad=True)
    with np.errstate(over="ignore"):
        eo.prod(x, axis=1).backward(eo.tensor([0.0, 1e-3], dtype=eo.float64))
    np.testing.assert_allclose(x.grad.numpy(), [[0, 0, 0], [0.012, 0.008, 0.006]], rtol=1e-15)


@pytest.mark.parametrize("g", [1e-300, 1e300])
def test_a_cotangent_that_would_leave_the_floats_with_the_product(g):
    x = eo.tensor([1e-150, 1e-150], dtype=eo.float64) if g < 1 else eo.tensor([1e150, 1e5], dtype=eo.float64)
    back = eo.vjp(eo.prod, x)[1](eo.tensor(g, dtype=eo.float64))[0].numpy()
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_allclose(back, g * x.numpy()[::-1], rtol=1e-12)


@pytest.mark.parametrize(
    ("axis", "keepdims"), [(None, False), (0, False), (1, True), (-1, False), ((0, 1), True)]
)
@pytest.mark.parametrize("name", ["max", "min", "nanmax", "nanmin"])
def test_extremes_of_many_elements_share_among_equal_ones(name, axis, keepdims):
    draw = np.random.default_rng(3)
    x = draw.integers(0, 500, (200, 300)).astype("float64")
    x[3, 4] = np.nan
    ufunc = np.maximum if name.endswith("max") else np.minimum
    whole = np.where(np.isnan(x), x[0, 0], x) if name.startswith("nan") else x
    out = ufunc.reduce(whole, axis=axis, keepdims=True)
    here = (x == out) | (np.isnan(out) & np.isnan(x))
    found = gradient(lambda x: getattr(eo, name)(x, axis=axis, keepdims=keepdims), x)
    np.testing.assert_array_equal(found, here / here.sum(axis=axis, keepdims=True))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (1,), (300,), (200, 1), (200, 300)])
def test_a_few_values_among_zeros(dtype, shape):
    draw = np.random.default_rng(4)
    x = np.asarray(draw.normal(size=shape), dtype)
    x[...] = np.where(x > 1, np.inf, np.where(x < -1, np.nan, x))
    for part in (0.0, 0.01, 0.5, 1.0):
        condition = draw.random((200, 300)) < part
        found = eo.where(condition, eo.tensor(x), 0)
        assert found.numpy().dtype == dtype
        np.testing.assert_array_equal(found.numpy(), np.where(condition, x, np.zeros((), dtype)))


@pytest.mark.parametrize("lengths", [(300, 1, 200, 2, 97), (600,), (1, 1, 500, 98)])
@pytest.mark.parametrize("between", [0, 3])
def test_long_runs_of_equal_records(lengths, between):
    """The element j of a run has the part ``1 / (i + 1)`` of the results i from j to the next run."""
    x, g, exact = [], [], []
    draw = np.random.default_rng(5)
    for level, length in enumerate(lengths):
        x += [float(level)] * length + [-1.0] * between
        part = draw.normal(size=length + between)
        g += [*part]
        equal = np.minimum(np.arange(length + between), length - 1) + 1
        shares = np.cumsum((part / equal)[::-1])[::-1]
        exact += [*shares[:length], *[0.0] * between]
    back = eo.vjp(eo.cumulative_max, eo.tensor(x, dtype=eo.float64))[1](eo.tensor(np.array(g)))[0]
    np.testing.assert_allclose(back.numpy(), exact, rtol=1e-12, atol=1e-12)
    t = draw.normal(size=len(x))
    pushed = eo.jvp(eo.cumulative_max, (eo.tensor(x, dtype=eo.float64),), (eo.tensor(t),))[1].numpy()
    np.testing.assert_allclose(pushed @ np.array(g), np.array(exact) @ t, rtol=1e-9)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("stride", "dilation"), [((1, 1), (1, 1)), ((2, 1), (1, 3)), ((3, 2), (2, 1))])
def test_the_maximum_of_many_windows(stride, dilation, ties):
    draw = np.random.default_rng(6)
    x = draw.normal(size=(2, 3, 150, 160))
    x = np.round(x) if ties else x
    kernel = (3, 2)
    found = gradient(lambda x: eo.max_pool2d(x, kernel, stride, dilation=dilation), x)
    places = [
        [np.arange(k)[:, None] * d + np.arange((n - d * (k - 1) - 1) // s + 1) * s]
        for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation)
    ]
    rows, columns = places[0][0], places[1][0]
    index = (rows[:, None, :, None], columns[None, :, None, :])
    windows = x[:, :, *np.broadcast_arrays(*index)]
    best = windows == windows.max((2, 3), keepdims=True)
    exact = np.zeros(x.shape)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            share = best[:, :, i, j] / best.sum((2, 3))
            np.add.at(exact, (slice(None), slice(None), rows[i][:, None], columns[j]), share)
    np.testing.assert_allclose(found, exact, rtol=1e-12)


def test_the_variance_of_equal_elements_is_zero_and_that_of_distant_ones_exact():
    assert eo.var(eo.full((1000,), 0.1, dtype=eo.float64)).item() == 0.0
    assert eo.std(eo.full((10, 1000), 1 / 3, dtype=eo.float64), axis=1).numpy().tolist() == [0.0] * 10
    x = np.array([[1.0, 2.0, 4.0], [0.0, 0.5, -0.5]]) * 2.0**-20 + 2.0**30
    exact = [float(np.var([Fraction(v) for v in row])) for row in x]
    np.testing.assert_allclose(eo.var(x, axis=1).numpy(), exact, rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize(("n", "k", "lead"), [(150, 1, ()), (129, 3, (2,)), (64, 1, (2,)), (128, 5, ())])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_the_triangle_of_a_product_is_that_of_the_whole(dtype, n, k, lead, upper, unit):
    draw = np.random.default_rng(0)
    left, right = (draw.normal(size=(*lead, n, k)).astype(dtype) for _ in range(2))
    found = op.triangle_of_product(left, right, upper=upper, unit=unit)
    whole = left @ np.swapaxes(right, -1, -2)
    expected = np.triu(whole, int(unit)) if upper else np.tril(whole, -int(unit))
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == "float32" else 1e-13, atol=1e-7)
    np.testing.assert_array_equal(found == 0, expected == 0)


def test_an_infinite_solution_reaches_its_own_elements_of_the_triangle_alone():
    left, right = np.ones((80, 1)), np.ones((80, 1))
    left[3], right[5] = np.inf, np.nan
    found = op.triangle_of_product(left, right, upper=True, unit=False)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, np.triu(left * right.T))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("columns", [None, 1, 4])
def test_slopes_of_large_triangular_systems(dtype, columns):
    draw, n = np.random.default_rng(0), 100

    def normal(*shape):
        x = draw.normal(size=shape)
        return x if dtype == "float64" else x + 1j * draw.normal(size=shape)

    factor = normal(n, n) / n + np.eye(n)
    b, w = (normal(n) if columns is None else normal(n, columns) for _ in range(2))
    t, s = normal(n, n), normal(*b.shape)
    functions = {
        "triangular": (
            lambda l, b: eo.linalg.solve_triangular(l, b, upper=False),
            lambda l, b: np.linalg.solve(np.tril(l), b),
        ),
        "cholesky": (
            lambda l, b: eo.linalg.cholesky_solve(b, l),
            lambda l, b: np.linalg.solve(np.tril(l) @ np.tril(l).conj().T, b),
        ),
    }
    for f, reference in functions.values():
        ahead, behind = (reference(factor + h * t, b + h * s) for h in (1e-6, -1e-6))
        along = (ahead - behind) / 2e-6
        point = eo.asarray(factor), eo.asarray(b)
        found = eo.jvp(f, point, (eo.asarray(t), eo.asarray(s)))[1].numpy()
        np.testing.assert_allclose(found, along, rtol=1e-6, atol=1e-6)
        slopes = eo.grad(lambda l, b, f=f: eo.sum(eo.real(f(l, b) * w)), argnums=(0, 1))(*point)
        inner = sum(np.sum((g.numpy().conj() * d).real) for g, d in zip(slopes, (t, s), strict=True))
        np.testing.assert_allclose(inner, np.sum((along * w).real), rtol=1e-7)


@pytest.mark.parametrize("axis", [0, 1])
def test_slopes_of_products_whose_parts_leave_single_precision(axis):
    x = np.array([1e-30, 1e-20, 1e30, 1e15, 3.0], "float32")
    for row in (x, np.concatenate([x, [0.0]]).astype("float32"), 1 / x):
        exact = slopes_of_product(row)
        rows = np.stack([row, row[::-1]], axis=1 - axis)
        with np.errstate(over="ignore", invalid="ignore"):
            found = gradient(lambda x: eo.prod(x, axis=axis), rows)
        np.testing.assert_allclose(found, np.stack([exact, exact[::-1]], axis=1 - axis), rtol=1e-6)
