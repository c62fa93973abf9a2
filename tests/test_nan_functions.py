"""Reductions and running sums without NaN: values against NumPy, derivatives at NaN and at ties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import everyo as eo

inf, nan = math.inf, math.nan
REDUCTIONS = ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin"]
FLOATS = st.sampled_from([-inf, -2.0, -1.0, 0.0, 0.5, 1.0, 3.0, nan, nan])


def gradient(f, x, dtype="float64"):
    x = eo.tensor(np.asarray(x, dtype), requires_grad=True)
    y = f(x)
    y.backward(np.ones(y.shape, y.dtype))
    assert x.grad.dtype == x.dtype
    return x.grad.tolist()


def finite(x):
    """Return `x` without infinities: in our products a zero makes them 0, in NumPy's NaN."""
    return np.where(np.isinf(x), -5.0, x)


@st.composite
def reducible(draw, elements=FLOATS, dtype="float64"):
    shape = draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    x = draw(arrays.arrays(dtype, shape, elements=elements))
    axes = st.lists(st.integers(0, len(shape) - 1), unique=True).map(tuple)
    axis = draw(st.none() | axes | st.integers(-len(shape), len(shape) - 1))
    return x, axis, draw(st.booleans())


@given(case=reducible(), name=st.sampled_from(REDUCTIONS))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_values_are_numpys(case, name):
    x, axis, keepdims = case
    x = finite(x) if name == "nanprod" else x
    found = getattr(eo, name)(x, axis, keepdims=keepdims)
    wanted = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-13, atol=1e-14)


@given(case=reducible(st.integers(-3, 3), "int64"), name=st.sampled_from(REDUCTIONS))
def test_integers(case, name):
    x, axis, keepdims = case
    found = getattr(eo, name)(x, axis, keepdims=keepdims)
    wanted = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-13, atol=1e-14)


@given(case=reducible(), ddof=st.sampled_from([0, 1, 1.5]))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_degrees_of_freedom(case, ddof):
    x, axis, keepdims = case
    for name in ("nanvar", "nanstd"):
        found = getattr(eo, name)(x, axis, ddof=ddof, keepdims=keepdims).numpy()
        wanted = getattr(np, name)(x, axis=axis, ddof=ddof, keepdims=keepdims)
        np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-14)
        assert (found == getattr(eo, name)(x, axis, correction=ddof, keepdims=keepdims).numpy()).all() or (
            np.isnan(found).any()
        )


@given(case=reducible())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scans_and_searches(case):
    x, axis, _ = case
    axis = axis if isinstance(axis, int) else None
    np.testing.assert_allclose(eo.nancumsum(x, axis).numpy(), np.nancumsum(x, axis=axis))
    np.testing.assert_allclose(eo.nancumprod(finite(x), axis).numpy(), np.nancumprod(finite(x), axis=axis))
    alone = np.isnan(x).all(axis=axis)
    for name in ("nanargmax", "nanargmin"):
        if alone.any():
            with pytest.raises(eo.ShapeError, match="no element but NaN"):
                getattr(eo, name)(x, axis)
        else:
            np.testing.assert_array_equal(getattr(eo, name)(x, axis).numpy(), getattr(np, name)(x, axis=axis))


X = [[1.0, nan, 4.0], [nan, nan, nan]]


def test_derivatives():
    assert gradient(lambda t: eo.nansum(t, 1), X) == [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    assert gradient(lambda t: eo.nanprod(t, 1), X) == [[4.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    assert gradient(lambda t: eo.nancumsum(t, 1), X) == [[3.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    assert gradient(lambda t: eo.nanmax(t, 1), X) == [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    assert gradient(eo.nanmean, X) == [[0.5, 0.0, 0.5], [0.0, 0.0, 0.0]]
    assert gradient(eo.nanvar, X) == [[-1.5, 0.0, 1.5], [0.0, 0.0, 0.0]]
    assert gradient(eo.nanstd, X) == [[-0.5, 0.0, 0.5], [0.0, 0.0, 0.0]]


def test_rows_of_nan_alone():
    for name in ("nanmean", "nanvar", "nanstd", "nanmax", "nanmin"):
        function = getattr(eo, name)
        assert math.isnan(function(eo.tensor([nan, nan])).item())
        slopes = gradient(lambda t, f=function: f(t, 1), X)[1]
        assert all(g == 0 or math.isnan(g) for g in slopes), name
    assert gradient(eo.nanmax, [nan, nan]) == [0.0, 0.0]
    assert eo.jvp(eo.nanmin, (eo.tensor([nan, nan]),), (eo.ones(2),))[1].item() == 0.0


def test_ties_are_shared_and_nan_is_no_minus_infinity():
    assert gradient(eo.nanmax, [2.0, nan, 2.0]) == [0.5, 0.0, 0.5]
    assert gradient(eo.nanmax, [-inf, nan]) == [1.0, 0.0]
    assert gradient(eo.nanmin, [inf, nan, inf]) == [0.5, 0.0, 0.5]
    x = eo.tensor([2.0, nan, 2.0])
    assert eo.jvp(eo.nanmax, (x,), (eo.tensor([1.0, 9.0, 3.0]),))[1].item() == 2.0


def test_equal_numbers_have_no_deviation():
    x = [0.1, nan, 0.1, 0.1]
    assert eo.nanstd(eo.tensor(x, dtype=eo.float64)).item() == 0.0
    assert gradient(eo.nanstd, x) == [0.0] * 4
    hessian = eo.hessian(eo.nanvar)(eo.tensor([1.0, nan, 4.0], dtype=eo.float64))
    assert hessian.tolist() == [[0.5, 0.0, -0.5], [0.0, 0.0, 0.0], [-0.5, 0.0, 0.5]]


def test_an_infinity_is_no_nan():
    assert eo.nansum(eo.tensor([inf, nan, 1.0])).item() == inf
    with np.errstate(invalid="ignore"):
        assert math.isnan(eo.nanvar(eo.tensor([inf, nan, 1.0])).item())
        assert math.isnan(eo.nansum(eo.tensor([inf, nan, -inf])).item())


def test_dtypes():
    half = eo.tensor([1.0, nan], dtype=eo.float16)
    assert eo.nansum(half).dtype == eo.nanmean(half).dtype == eo.nanstd(half).dtype == eo.float16
    assert eo.nansum(eo.tensor([1.0, nan]), dtype=eo.float64).dtype == eo.float64
    z = eo.tensor([1j, nan, 3.0], dtype=eo.complex128)
    np.testing.assert_allclose(eo.nanmean(z).item(), 1.5 + 0.5j)
    assert eo.nanvar(z).dtype == eo.float64
    np.testing.assert_allclose(eo.nanvar(z).item(), 2.5)
