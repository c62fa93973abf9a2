"""Quantiles, percentiles and medians: values against NumPy, derivatives at ties, ends and NaN."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import everyo as eo

inf, nan = math.inf, math.nan
METHODS = [
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen",
    "weibull", "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
]  # fmt: skip


def gradient(f, x, dtype="float64"):
    """Return the gradient of the sum of ``f(x)``."""
    x = eo.tensor(np.asarray(x, dtype), requires_grad=True)
    f(x).sum().backward()
    assert x.grad.dtype == x.dtype
    return x.grad.tolist()


@st.composite
def samples(draw, dtypes=("float64", "float32", "int64")):
    shape = draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    elements = st.integers(-3, 3) if dtype.kind == "i" else st.integers(-6, 6).map(lambda n: n / 2)
    x = draw(arrays.arrays(dtype, shape, elements=elements))
    axes = st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1).map(tuple)
    axis = draw(st.none() | axes | st.integers(-len(shape), len(shape) - 1))
    probability = st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 0.6, 0.75, 0.9, 1.0])
    q = draw(probability | st.lists(probability, min_size=1, max_size=3))
    return x, q, axis, draw(st.booleans())


@given(case=samples(), method=st.sampled_from(METHODS))
def test_values_are_numpys(case, method):
    x, q, axis, keepdims = case
    found = eo.quantile(x, q, axis, method=method, keepdims=keepdims)
    wanted = np.quantile(x, q, axis=axis, method=method, keepdims=keepdims)
    assert found.shape == wanted.shape
    assert (found.dtype.kind, x.dtype.kind) in (("f", "f"), (wanted.dtype.kind, "i"))
    np.testing.assert_allclose(
        found.numpy(), wanted, rtol=1e-6 if x.dtype == "float32" else 1e-13, atol=1e-15
    )
    percent = eo.percentile(x, np.multiply(q, 100).tolist(), axis, method="linear", keepdims=keepdims)
    close = {"rtol": 1e-6, "atol": 1e-6} if x.dtype == "float32" else {"rtol": 1e-12, "atol": 1e-13}
    np.testing.assert_allclose(percent.numpy(), np.quantile(x, q, axis=axis, keepdims=keepdims), **close)


@given(case=samples(("float64",)), method=st.sampled_from(METHODS), mask=st.integers(0, 2**30))
@pytest.mark.filterwarnings("ignore:All-NaN slice")
def test_nan_is_left_out_as_in_numpy(case, method, mask):
    x, q, axis, keepdims = case
    x = np.where((mask >> np.arange(x.size).reshape(x.shape) % 30) & 1, nan, x)
    found = eo.nanquantile(x, q, axis, method=method, keepdims=keepdims).numpy()
    np.testing.assert_allclose(
        found, np.nanquantile(x, q, axis=axis, method=method, keepdims=keepdims), rtol=1e-13, atol=1e-15
    )
    np.testing.assert_allclose(
        eo.nanmedian(x, axis, keepdims=keepdims).numpy(), np.nanmedian(x, axis=axis, keepdims=keepdims)
    )
    if np.isscalar(q):
        np.testing.assert_allclose(
            eo.nanpercentile(x, q * 100, axis).numpy(),
            np.nanquantile(x, q, axis=axis),
            rtol=1e-12,
            atol=1e-13,
        )


@given(case=samples())
def test_medians_are_numpys(case):
    x, _, axis, keepdims = case
    np.testing.assert_array_equal(
        eo.median(x, axis, keepdims=keepdims).numpy(), np.median(x, axis=axis, keepdims=keepdims)
    )


def test_derivatives_are_the_weights_of_the_neighbours():
    x = [4.0, 1.0, 3.0, 10.0]  # sorted: 1, 3, 4, 10; 0.4 lies at 1.2
    assert gradient(lambda t: eo.quantile(t, 0.4), x) == pytest.approx([0.2, 0.0, 0.8, 0.0], abs=1e-15)
    assert gradient(lambda t: eo.quantile(t, 2 / 3), x) == [1.0, 0.0, 0.0, 0.0]  # at an element
    assert gradient(eo.median, x) == [0.5, 0.0, 0.5, 0.0]
    assert gradient(lambda t: eo.quantile(t, [0.0, 1.0]), x) == [0.0, 1.0, 0.0, 1.0]
    for method in ("lower", "closest_observation", "inverted_cdf"):
        assert gradient(lambda t, m=method: eo.quantile(t, 0.4, method=m), x) == [0.0, 0.0, 1.0, 0.0]


def test_equal_elements_share_equally():
    """As in `max`, of which quantile(x, 1) is the value, whatever the number of quantiles."""
    x = [2.0, 1.0, 2.0, 2.0]
    assert gradient(eo.median, x) == [1 / 3, 0.0, 1 / 3, 1 / 3]
    assert gradient(lambda t: eo.quantile(t, 1.0), x) == gradient(eo.max, x)
    assert gradient(lambda t: eo.quantile(t, 0.0), x) == [0.0, 1.0, 0.0, 0.0]
    many = gradient(lambda t: eo.quantile(t, [0.5] * 70), x)
    np.testing.assert_allclose(many, [70 / 3, 0.0, 70 / 3, 70 / 3], rtol=1e-14)
    halves = eo.quantile(eo.tensor(x, requires_grad=True), [1.0] * 64)
    assert halves.tolist() == [2.0] * 64


@pytest.mark.parametrize("count", [1, 70])
def test_few_and_many_quantiles_have_one_derivative(count):
    x = np.random.default_rng(0).integers(0, 4, (3, 9)).astype(float)
    q = np.linspace(0, 1, 7).tolist()
    few = np.array(gradient(lambda t: eo.quantile(t, q, axis=1) * np.arange(1.0, 8.0)[:, None], x))
    weights = np.repeat(np.arange(1.0, 8.0) / count, count)[:, None]
    many = gradient(lambda t: eo.quantile(t, np.repeat(q, count).tolist(), axis=1) * weights, x)
    np.testing.assert_allclose(many, few, rtol=1e-13, atol=1e-13)


def test_nan():
    assert math.isnan(eo.median(eo.tensor([1.0, nan, 2.0])).item())
    assert gradient(eo.nanmedian, [1.0, nan, 2.0]) == [0.5, 0.0, 0.5]
    assert gradient(eo.nanmedian, [nan, nan]) == [0.0, 0.0]
    assert gradient(lambda t: eo.nanquantile(t, 0.25, axis=0), [[1.0, nan], [nan, nan], [3.0, nan]]) == [
        [0.75, 0.0], [0.0, 0.0], [0.25, 0.0],
    ]  # fmt: skip
    x = eo.asarray([[3.0, nan, 1.0], [nan, nan, 4.0]])
    assert eo.jvp(lambda t: eo.nanmedian(t, 1), (x,), (eo.ones_like(x),))[1].tolist() == [1.0, 1.0]


def test_infinities():
    assert eo.quantile(eo.tensor([inf, inf]), 0.3).item() == inf
    assert eo.median(eo.tensor([-inf, 1.0])).item() == -inf
    assert eo.quantile(eo.tensor([-inf, 1.0, 2.0]), 0.5).item() == 1.0
    assert math.isnan(eo.median(eo.tensor([-inf, inf])).item())
    assert eo.median(eo.tensor([1e308, 1e308, 1.5e308, 1.7e308], dtype=eo.float64)).item() == 1.25e308
    assert gradient(lambda t: eo.quantile(t, 0.25), [inf, inf, 0.0]) == [0.25, 0.25, 0.5]


def test_quantiles_of_equal_numbers_are_exact():
    x = np.full(7, 0.1)
    assert set(eo.quantile(x, np.linspace(0, 1, 23).tolist()).tolist()) == {0.1}


def test_derivative_in_the_probability():
    x = eo.tensor([1.0, 2.0, 4.0, 8.0], dtype=eo.float64)
    slope = eo.grad(lambda q: eo.quantile(x, q))
    found = [slope(eo.tensor(q, dtype=eo.float64)).item() for q in (0.1, 0.5, 2 / 3, 0.9, 0.0, 1.0)]
    assert found == pytest.approx([3.0, 6.0, 12.0, 12.0, 3.0, 12.0])  # (n - 1) times the next step
    third = slope(eo.tensor(1 / 3, dtype=eo.float64)).item()
    assert third == 6.0  # at an element that of the next pair
    lower = eo.quantile(x, eo.tensor(0.4, requires_grad=True), method="lower")
    assert not lower.requires_grad
    values, _ = eo.vmap(lambda q: (eo.quantile(x, q), q))(eo.tensor([0.0, 0.5, 1.0], dtype=eo.float64))
    assert values.tolist() == [1.0, 3.0, 8.0]


def test_dtypes():
    half = eo.tensor([1.0, 2.0, 4.0], dtype=eo.float16)
    assert eo.median(half).dtype == eo.float16
    assert eo.quantile(half, eo.tensor(0.5, dtype=eo.float64)).dtype == eo.float64
    assert eo.quantile(eo.tensor([1, 2]), 0.5).dtype == eo.float64
    assert eo.quantile(eo.tensor([1, 2]), 0.5, method="higher").dtype == eo.int64
    assert eo.median(eo.tensor([True, False])).item() == 0.5


def test_empty_axes():
    assert eo.median(eo.zeros((2, 0)), axis=1).tolist() == pytest.approx([nan, nan], nan_ok=True)
    assert eo.median(eo.zeros((2, 0)), axis=0).shape == (0,)
    assert eo.quantile(eo.zeros((0, 3)), [0.5, 0.6], axis=0).shape == (2, 3)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: eo.quantile([1.0], 1.5), eo.ArgumentError, "outside its range"),
        (lambda: eo.percentile([1.0], -1), eo.ArgumentError, "numbers from 0 to 100"),
        (lambda: eo.quantile([1.0], nan), eo.ArgumentError, "outside its range"),
        (lambda: eo.quantile([1.0], 0.5, method="best"), eo.ArgumentError, "there is no such method"),
        (lambda: eo.quantile([1j], 0.5), eo.DTypeError, "real numbers only"),
        (lambda: eo.quantile([True], 0.5), eo.DTypeError, "real numbers only"),
        (lambda: eo.quantile([1.0], eo.tensor(1j)), eo.DTypeError, "probabilities are real"),
        (lambda: eo.median([1.0], axis=1), eo.IndexingError, "axis 1 does not exist"),
        (lambda: eo.nanmedian([[1.0]], axis=(0, 0)), eo.ShapeError, "named twice"),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
