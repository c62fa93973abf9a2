"""Kernels that take another way for many elements, wide points or extreme products agree with plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import everyo as eo


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
