"""Differences, slopes and integrals of sampled functions; covariances: values against NumPy, derivatives."""

import functools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import everyo as eo

inf, nan = math.inf, math.nan
NUMBERS = st.integers(-8, 8).map(lambda n: n / 4)


@st.composite
def grids(draw, min_side=2, dtype="float64"):
    shape = draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=min_side, max_side=5))
    x = draw(arrays.arrays(dtype, shape, elements=NUMBERS if dtype == "float64" else st.integers(-3, 3)))
    return x, draw(st.integers(-len(shape), len(shape) - 1))


def near(found, wanted):
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12, atol=1e-12)


@given(case=grids(min_side=0), n=st.integers(0, 3), before=st.none() | NUMBERS, after=st.booleans())
def test_diff_is_numpys(case, n, before, after):
    x, axis = case
    options = {} if before is None else {"prepend": before}
    if after:
        options["append"] = x
    np.testing.assert_array_equal(eo.diff(x, n, axis, **options).numpy(), np.diff(x, n, axis, **options))
    np.testing.assert_array_equal(eo.diff(x > 0, axis=axis).numpy(), np.diff(x > 0, axis=axis))
    found = eo.ediff1d(x, to_end=x, to_begin=before).numpy()
    np.testing.assert_array_equal(found, np.ediff1d(x, to_end=x, to_begin=before))


def test_what_is_joined_to_a_difference_has_a_gradient():
    x, before, after = (eo.tensor(v, requires_grad=True) for v in ([1.0, 4.0], 0.5, [9.0, 7.0]))
    (eo.diff(x, prepend=before, append=after) * eo.tensor([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    assert x.grad.tolist() == [-9.0, -90.0]
    assert (before.grad.item(), after.grad.tolist()) == (-1.0, [-900.0, 1000.0])
    with pytest.raises(eo.ShapeError, match="diff: the tensors differ"):
        eo.diff(eo.ones((2, 2)), prepend=eo.ones(2))


@given(case=grids(3), order=st.sampled_from([1, 2]), kind=st.sampled_from(["none", "one", "each", "points"]))
def test_slopes_are_numpys(case, order, kind):
    x, axis = case
    rng = np.random.default_rng(0)
    spacing = {
        "none": (),
        "one": (0.5,),
        "each": tuple(rng.uniform(0.5, 2.0, x.ndim)),
        "points": tuple(np.cumsum(rng.uniform(0.5, 2.0, n)) for n in x.shape),
    }[kind]
    found, wanted = eo.gradient(x, *spacing, edge_order=order), np.gradient(x, *spacing, edge_order=order)
    for f, w in zip(*((v if isinstance(v, tuple) else (v,)) for v in (found, wanted)), strict=True):
        near(f, w)
    near(eo.gradient(x, axis=axis, edge_order=order), np.gradient(x, axis=axis, edge_order=order))
    even = np.arange(x.shape[axis]) * 0.5
    near(eo.gradient(x, even, axis=axis), np.gradient(x, even, axis=axis))


def test_slopes_of_a_parabola_are_exact_to_second_order():
    t = np.array([0.0, 0.5, 2.0, 3.0])
    np.testing.assert_allclose(eo.gradient(t**2, t, edge_order=2).numpy(), 2 * t, rtol=1e-14, atol=1e-14)
    assert eo.gradient(eo.tensor([1, 2, 4])).tolist() == [1.0, 1.5, 2.0]
    assert eo.gradient(eo.ones((3, 4)), axis=(0, 1))[1].shape == (3, 4)
    assert eo.gradient(eo.ones(3), 2.0).shape == (3,)


def test_errors_of_slopes():
    for call, kind, text in (
        (lambda: eo.gradient(eo.ones(1)), eo.ShapeError, "too short"),
        (lambda: eo.gradient(eo.ones(2), edge_order=2), eo.ShapeError, "too short"),
        (lambda: eo.gradient(eo.ones(3), eo.ones(2)), eo.ShapeError, "do not fit the axis"),
        (lambda: eo.gradient(eo.ones(3), edge_order=3), eo.ArgumentError, "no such order"),
        (lambda: eo.gradient(eo.ones((3, 3)), 1.0, 2.0, 3.0), eo.ArgumentError, "do not fit the axes"),
        (lambda: eo.gradient(eo.ones(3), axis=1), eo.IndexingError, "axis 1"),
    ):
        with pytest.raises(kind, match=text):
            call()


@given(case=grids(0))
def test_integrals_are_numpys(case):
    y, axis = case
    x = np.cumsum(np.ones(y.shape), axis) ** 1.5
    near(eo.trapezoid(y, dx=0.25, axis=axis), np.trapezoid(y, dx=0.25, axis=axis))
    near(eo.trapezoid(y, x, axis=axis), np.trapezoid(y, x, axis=axis))
    points = np.arange(y.shape[axis]) ** 1.5
    near(eo.trapezoid(y, points, axis=axis), np.trapezoid(y, points, axis=axis))


def test_integrals_at_infinities_and_of_few_points():
    assert eo.trapezoid(eo.tensor([inf, 1.0, 2.0])).item() == inf
    assert eo.trapezoid(eo.tensor([1.0, 2.0, -inf])).item() == -inf
    assert eo.trapezoid(eo.tensor([5.0])).item() == 0.0
    assert eo.trapezoid(eo.zeros((0,))).item() == 0.0
    assert eo.trapezoid(eo.tensor([1, 2])).item() == 1.5
    weights = eo.grad(lambda y: eo.trapezoid(y, dx=2.0))(eo.ones(4))
    assert weights.tolist() == [1.0, 2.0, 2.0, 1.0]
    with pytest.raises(eo.ShapeError, match="a point for each value"):
        eo.trapezoid(eo.ones(3), eo.ones(2))


@given(case=grids(1), scale=st.sampled_from([1.0, math.pi, 7.3]), wide=st.sampled_from([None, 4.0]))
def test_unwrapping_is_numpys(case, scale, wide):
    x, axis = case
    near(eo.unwrap(x * scale, wide, axis), np.unwrap(x * scale, wide, axis))
    near(eo.unwrap(x * 4, axis=axis, period=3), np.unwrap(x * 4, axis=axis, period=3))
    slopes = eo.grad(lambda t: eo.unwrap(t, axis=axis).sum())(eo.asarray(x * scale))
    np.testing.assert_array_equal(slopes.numpy(), 1.0)


# ---- covariance


@st.composite
def variables(draw):
    shape = (draw(st.integers(1, 4)), draw(st.integers(2, 6)))
    x = draw(arrays.arrays("float64", shape, elements=NUMBERS))
    return x if not draw(st.booleans()) else x + 1j * draw(arrays.arrays("float64", shape, elements=NUMBERS))


@given(x=variables(), rowvar=st.booleans(), bias=st.booleans(), ddof=st.none() | st.integers(0, 1))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_covariances_are_numpys(x, rowvar, bias, ddof):
    x = x if rowvar else x.T
    near(eo.cov(x, rowvar=rowvar, bias=bias, ddof=ddof), np.cov(x, rowvar=rowvar, bias=bias, ddof=ddof))
    near(eo.cov(x, x + 1, rowvar=rowvar, ddof=0), np.cov(x, x + 1, rowvar=rowvar, ddof=0))
    number = x.shape[1 if rowvar else 0]
    weights, repeats = np.linspace(0.5, 2.0, number), np.arange(number) % 3 + 1
    for options in ({"aweights": weights}, {"fweights": repeats}, {"aweights": weights, "fweights": repeats}):
        near(eo.cov(x, rowvar=rowvar, **options), np.cov(x, rowvar=rowvar, **options))
    assume((np.std(x, axis=1 if rowvar else 0) > 0).all())
    near(eo.corrcoef(x, rowvar=rowvar), np.corrcoef(x, rowvar=rowvar))


def test_one_variable():
    assert eo.cov(eo.tensor([1.0, 3.0])).item() == 2.0
    assert eo.corrcoef(eo.tensor([1.0, 3.0])).item() == 1.0
    assert eo.cov(eo.tensor([1.0, 3.0]), eo.tensor([2.0, 6.0])).tolist() == [[2.0, 4.0], [4.0, 8.0]]
    assert math.isnan(eo.cov(eo.tensor([1.0])).item())


def test_a_correlation_of_one_has_no_slope():
    x = eo.asarray(np.array([[0.1, 0.7, 0.3], [0.2, 1.4, 0.6]]))
    assert abs(eo.corrcoef(x).numpy()).max() <= 1.0
    slopes = eo.grad(lambda t: eo.corrcoef(t)[0, 1])(x).numpy()
    np.testing.assert_allclose(slopes, 0, atol=1e-15)


def test_the_gradient_of_a_covariance_under_vmap():
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    gradient = eo.grad(lambda t: (eo.cov(t) ** 2).sum())
    wanted = np.stack([gradient(eo.asarray(row)).numpy() for row in x])
    np.testing.assert_allclose(eo.vmap(gradient)(eo.asarray(x)).numpy(), wanted, rtol=1e-13)


@pytest.mark.parametrize("weights", ["bool", "uint8", "int16", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("dtype", ["int32", "float16", "float32", "float64", "complex64", "complex128"])
def test_weights_of_a_covariance_keep_their_range(dtype, weights):
    """They are squared and added up, which left the range of small dtypes; NumPy computes in float64."""
    x = np.array([[1, 2, 3, 0], [3, 1, 2.5, 1]]).astype(dtype)
    large = {"bool": 1, "uint8": 255, "int16": 30000, "int64": 2**62, "float16": 6e4}.get(weights)
    for size in (large,) if large else (1e37, 1e-36) if weights == "float32" else (1e307, 1e-300):
        w = (np.array([1, 0.5, 0.25, 0]) * size).astype(weights)
        for options in ({}, {"fweights": np.array([2, 1, 0, 200], "uint8")}, {"ddof": 0}):
            wanted = np.cov(x, aweights=w.astype("float64") / float(size), **options)
            cov = functools.partial(eo.cov, **options)
            own = (eo.asarray(x), eo.asarray(w))
            found = cov(own[0], aweights=own[1])
            kept = (x[:, :0].astype("float64") if x.dtype.kind == "i" else x).dtype
            assert found.dtype == (np.result_type(kept, weights) if w.dtype.kind == "f" else kept)
            rtol = 2e-3 if "float16" in (dtype, weights) else 1e-5
            for other in (
                found,
                eo.compile(lambda x, w, cov=cov: cov(x, aweights=w))(*own),
                eo.vmap(lambda x, w, cov=cov: cov(x, aweights=w))(own[0][None], own[1][None])[0],
            ):
                np.testing.assert_allclose(other.numpy(), wanted, rtol=rtol, atol=1e-3 * rtol)


@pytest.mark.parametrize(("dtype", "power"), [("float32", 50), ("float64", 300), ("float64", 480)])
def test_derivatives_in_the_weights_of_a_covariance_do_not_depend_on_their_size(dtype, power):
    x, weights = eo.asarray(np.array([[1.0, 2, 3], [3, 1, 2.5]], dtype)), np.array([1.0, 3, 2], dtype)
    for options in ({}, {"fweights": [2, 1, 3]}, {"ddof": 0}):

        def entry(w, options=options):
            return eo.cov(x, aweights=w, **options)[0, 1]

        slopes = (eo.grad(entry), eo.hessian(entry), eo.jacfwd(eo.jacfwd(entry)), eo.jacfwd(eo.grad(entry)))
        for order, slope in zip((1, 2, 2, 2), slopes, strict=True):
            wanted = slope(eo.asarray(weights)).numpy()
            for size in (2.0**power, 2.0**-power):
                for call in (slope, eo.compile(slope)):
                    found = call(eo.asarray(weights * np.dtype(dtype).type(size))).numpy()
                    for _ in range(order):
                        found = found * np.dtype(dtype).type(size)
                    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_weights_of_a_covariance_that_are_zero_or_none():
    x = eo.ones((2, 3))
    with np.errstate(invalid="ignore"):
        assert np.isnan(eo.cov(x, aweights=eo.zeros(3)).numpy()).all()
        assert np.isnan(eo.cov(x, aweights=eo.tensor([1.0, math.nan, 1.0])).numpy()).all()
        assert np.isnan(eo.cov(x, aweights=eo.tensor([1.0, math.inf, 1.0])).numpy()).all()
        assert np.isnan(eo.cov(eo.ones((2, 0)), aweights=eo.ones(0)).numpy()).all()
    with pytest.raises(eo.DTypeError, match="weights are real numbers"):
        eo.cov(x, aweights=eo.ones(3, dtype=eo.complex64))


def test_errors_of_covariances():
    for call, kind, text in (
        (lambda: eo.cov(eo.ones((2, 2, 2))), eo.ShapeError, "more than two axes"),
        (
            lambda: eo.cov(eo.ones((2, 3)), aweights=eo.ones(2)),
            eo.ShapeError,
            "a weight for each observation",
        ),
        (lambda: eo.cov(eo.ones((2, 2)), fweights=[1.5, 2.0]), eo.ArgumentError, "how often"),
        (lambda: eo.cov(eo.ones((2, 2)), fweights=[-1, 2]), eo.ArgumentError, "none negative"),
        (lambda: eo.cov(eo.ones(3), ddof=1, correction=1), eo.ArgumentError, "two names"),
    ):
        with pytest.raises(kind, match=text):
            call()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32, np.int64])
def test_points_that_are_integers(dtype):
    """Descending, and further apart than their dtype reaches; long ones exactly."""
    high = min(int(np.iinfo(dtype).max), 2**62 + 1)
    points = eo.asarray(np.array([high, 2, 0], dtype))
    values = eo.asarray(np.array([0.0, high - 2.0, high * 2.0]))
    slopes = eo.gradient(values, points)
    np.testing.assert_allclose(slopes.numpy()[[0, 2]], [-1.0, -(high + 2) / 2], 1e-15)
    area = eo.trapezoid(values, points)
    np.testing.assert_allclose(area.item(), -((high - 2.0) ** 2) / 2 - (high - 2.0 + high * 2.0), 1e-15)
    near = eo.asarray(np.array([high - 3, high - 1, high], dtype))
    np.testing.assert_array_equal(
        eo.gradient(eo.asarray(np.array([0.0, 4.0, 7.0])), near).numpy()[[0, 2]], [2, 3]
    )


def test_a_distance_that_is_a_small_integer():
    x = eo.asarray(np.array([0.0, 300.0, 600.0]))
    assert eo.gradient(x, eo.asarray(np.int8(100))).tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32])
def test_ends_that_are_integers(dtype):
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    ends = eo.asarray(np.array([low], dtype)), eo.asarray(np.array([high], dtype))
    for (first, last), (a, b) in ((ends, (low, high)), (ends[::-1], (high, low))):
        points, step = eo.linspace(first, last, 4, retstep=True)
        np.testing.assert_allclose(points.numpy()[:, 0], [a, a + (b - a) / 3, a + (b - a) * 2 / 3, b], 1e-15)
        assert step.tolist() == [(b - a) / 3]
