"""Different elements and sets of them: values against NumPy, derivatives at the first occurrence."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import everyo as eo

nan = math.nan
DTYPES = st.sampled_from(["float64", "float32", "int64", "bool", "complex128"])


@st.composite
def tensors(draw, dtypes=DTYPES, max_dims=2):
    dtype = np.dtype(draw(dtypes))
    shape = draw(arrays.array_shapes(min_dims=0, max_dims=max_dims, min_side=0, max_side=5))
    numbers = st.booleans() if dtype.kind == "b" else st.integers(-2, 2)
    return draw(arrays.arrays(dtype, shape, elements=numbers.map(dtype.type)))


def compare(found, wanted):
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(f.numpy(), w)
        assert f.dtype == w.dtype


@given(x=tensors())
def test_the_standards_functions_are_numpys(x):
    compare([eo.unique_values(x)], [np.sort(np.unique_values(x))])  # NumPy promises no order
    for name in ("unique_all", "unique_counts", "unique_inverse"):
        found, wanted = getattr(eo, name)(x), getattr(np, name)(x)
        assert found._fields == wanted._fields
        compare(found, wanted)


@given(x=tensors(), parts=st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_unique_is_numpys(x, parts):
    found, wanted = eo.unique(x, *parts), np.unique(x, *parts)
    compare(found if any(parts) else [found], wanted if any(parts) else [wanted])
    for axis in range(x.ndim):
        if x.size:
            compare(eo.unique(x, True, True, True, axis - x.ndim), np.unique(x, True, True, True, axis))


def test_nan():
    x = np.array([nan, 1.0, nan])
    np.testing.assert_array_equal(eo.unique(x).numpy(), [1.0, nan])
    np.testing.assert_array_equal(eo.unique(x, equal_nan=False).numpy(), [1.0, nan, nan])
    np.testing.assert_array_equal(eo.unique_values(x).numpy(), [1.0, nan, nan])
    assert eo.unique_counts(x).counts.tolist() == [1, 1, 1]


@given(x=tensors(), y=tensors(), invert=st.booleans())
def test_sets_are_numpys(x, y, invert):
    for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d"):
        compare([getattr(eo, name)(x, y)], [getattr(np, name)(x, y)])
    compare(eo.intersect1d(x, y, return_indices=True), np.intersect1d(x, y, return_indices=True))
    compare([eo.isin(x, y, invert=invert)], [np.isin(x, y, invert=invert)])
    unique = np.unique(x)[::-1]
    compare([eo.setdiff1d(unique, y, True)], [np.setdiff1d(unique, y, assume_unique=True)])


def gradients(f, *arrays):
    """Return the gradients of ``sum(weights * f)`` with the weights 1, 10, 100, ..."""
    leaves = [eo.tensor(np.array(a, "float64"), requires_grad=True) for a in arrays]
    out = f(*leaves)
    weights = 10.0 ** np.arange(out.size).reshape(out.shape)
    (out * weights).sum().backward()
    tangents = [np.cos(np.arange(x.size)).reshape(x.shape) for x in leaves]
    pushed = eo.jvp(f, [x.detach() for x in leaves], [eo.asarray(t) for t in tangents])[1].numpy()
    reverse = sum(
        (x.grad.numpy() * t).sum() for x, t in zip(leaves, tangents, strict=True) if x.grad is not None
    )
    np.testing.assert_allclose((pushed * weights).sum(), reverse, rtol=1e-12, atol=1e-12)
    return [None if x.grad is None else x.grad.tolist() for x in leaves]


X, Y = [3.0, 1.0, 3.0, 2.0, 1.0], [2.0, 5.0, 3.0, 2.0]


def test_the_gradient_goes_to_the_first_occurrence():
    first = [[100.0, 1.0, 0.0, 10.0, 0.0]]
    for function in (
        eo.unique,
        eo.unique_values,
        lambda t: eo.unique_counts(t).values,
        lambda t: eo.unique_inverse(t).values,
        lambda t: eo.unique_all(t)[0],
        lambda t: eo.unique(t, return_index=True)[0],
    ):
        assert gradients(function, X) == first
    rows = [[1.0, 2.0], [0.0, 5.0], [1.0, 2.0]]
    found = gradients(lambda t: eo.unique(t, axis=0), rows)
    assert found == [[[100.0, 1000.0], [1.0, 10.0], [0.0, 0.0]]]


def test_gradients_of_sets():
    assert gradients(eo.union1d, X, Y) == [[100.0, 1.0, 0.0, 10.0, 0.0], [0.0, 1000.0, 0.0, 0.0]]
    assert gradients(eo.intersect1d, X, Y) == [[10.0, 0.0, 0.0, 1.0, 0.0], [0.0] * 4]
    assert gradients(eo.setdiff1d, X, Y)[0] == [0.0, 1.0, 0.0, 0.0, 0.0]
    assert gradients(eo.setxor1d, X, Y) == [[0.0, 1.0, 0.0, 0.0, 0.0], [0.0, 10.0, 0.0, 0.0]]
    assert gradients(lambda a, b: eo.intersect1d(a, b, return_indices=True)[0], X, Y)[0] == [
        10.0, 0.0, 0.0, 1.0, 0.0,
    ]  # fmt: skip


def test_second_order():
    hessian = eo.hessian(lambda t: (eo.unique(t) ** 3).sum())(eo.asarray(np.array([2.0, 1.0, 2.0])))
    assert hessian.tolist() == [[12.0, 0.0, 0.0], [0.0, 6.0, 0.0], [0.0, 0.0, 0.0]]


def test_errors_name_the_function():
    x = eo.ones((2, 3))
    with pytest.raises(eo.UnsupportedOperationError, match="unique_counts: under vmap"):
        eo.vmap(eo.unique_counts)(x)
    with pytest.raises(eo.CompileError, match="unique_all: the shape"):
        eo.compile(lambda v: eo.unique_all(v).values)(x)
    with pytest.raises(eo.IndexingError, match="unique: axis 2"):
        eo.unique(x, axis=2)
