"""Sorting and searching: order as NumPy's, gradients that follow the elements."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import everyo as eo

nan = math.nan


def leaf(x, dtype="float64"):
    return eo.tensor(np.asarray(x, dtype), requires_grad=True)


@st.composite
def sortable(draw):
    shape = draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))
    x = draw(arrays.arrays("float64", shape, elements=st.integers(-2, 2).map(float)))
    return x, draw(st.integers(-len(shape), len(shape) - 1)), draw(st.booleans())


@given(case=sortable())
def test_order(case):
    x, axis, descending = case
    sign = -1 if descending else 1
    indices = eo.argsort(x, axis, descending=descending).numpy()
    np.testing.assert_array_equal(indices, np.argsort(sign * x, axis=axis, kind="stable"))
    np.testing.assert_array_equal(
        eo.sort(x, axis, descending=descending).numpy(), sign * np.sort(sign * x, axis=axis)
    )


@given(case=sortable())
def test_sort_gradient(case):
    x, axis, descending = case
    w = np.arange(1.0, 1 + x.size).reshape(x.shape)
    t = leaf(x)
    eo.sort(t, axis, descending=descending).backward(w)
    expected = np.zeros_like(x)
    order = eo.argsort(x, axis, descending=descending).numpy()
    np.put_along_axis(expected, order, w, axis)
    np.testing.assert_array_equal(t.grad.numpy(), expected)
    _, tangent = eo.jvp(lambda t: eo.sort(t, axis, descending=descending), (eo.asarray(x),), (eo.asarray(w),))
    np.testing.assert_array_equal(tangent.numpy(), np.take_along_axis(w, order, axis))


def test_sort_flattens_for_none():
    x = leaf([[3.0, 1.0], [2.0, 4.0]])
    eo.sort(x, None).backward(np.array([1.0, 2.0, 3.0, 4.0]))
    np.testing.assert_array_equal(x.grad.numpy(), [[3, 1], [2, 4]])
    assert eo.argsort(x, axis=None).tolist() == [1, 2, 0, 3]


def test_sort_passes_second_derivatives():
    x = leaf([3.0, 1.0, 2.0])
    (g,) = eo.autograd.grad(eo.sum(eo.sort(x) ** 3 * np.array([1.0, 2.0, 3.0])), x, create_graph=True)
    (h,) = eo.autograd.grad(g, x, np.ones(3))
    np.testing.assert_array_equal(h.numpy(), [54, 6, 24])


def test_nan_comes_last():
    np.testing.assert_array_equal(eo.sort(np.array([nan, 1.0, 0.0])).numpy(), [0, 1, nan])
    np.testing.assert_array_equal(eo.sort(np.array([1.0, nan, 0.0]), descending=True).numpy(), [nan, 1, 0])


@given(case=sortable(), data=st.data())
def test_topk(case, data):
    x, axis, largest = case
    k = data.draw(st.integers(0, x.shape[axis]))
    values, indices = eo.topk(x, k, axis, largest=largest)
    expected = np.take(np.argsort(-x if largest else x, axis=axis, kind="stable"), np.arange(k), axis)
    np.testing.assert_array_equal(indices.numpy(), expected)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, expected, axis))


def test_topk_gradient():
    x = leaf([[1.0, 5.0, 3.0], [2.0, 2.0, 2.0]])
    top = eo.topk(x, 2)
    assert not top.indices.requires_grad
    top.values.backward(np.array([[1.0, 2.0], [3.0, 4.0]]))
    np.testing.assert_array_equal(x.grad.numpy(), [[0, 1, 2], [3, 4, 0]])


def test_topk_is_checked():
    with pytest.raises(eo.ShapeError, match="no 4 elements"):
        eo.topk(eo.ones(3), 4)
    with pytest.raises(eo.ShapeError):
        eo.topk(eo.ones(3), -1)
    with pytest.raises(eo.DTypeError):
        eo.topk(eo.ones(3), 1.5)
    with pytest.raises(eo.IndexingError):
        eo.topk(eo.tensor(1.0), 1)


@given(case=sortable(), keepdims=st.booleans())
def test_argmax(case, keepdims):
    x, axis, everywhere = case
    axis = None if everywhere else axis
    if x.size:
        for name in ("argmax", "argmin"):
            found = getattr(eo, name)(x, axis, keepdims=keepdims)
            np.testing.assert_array_equal(found.numpy(), getattr(np, name)(x, axis, keepdims=keepdims))


def test_indices_carry_no_gradient():
    x = leaf([2.0, 1.0])
    for indices in (eo.argmax(x), eo.argmin(x), eo.argsort(x)):
        assert not indices.requires_grad
        with pytest.raises(eo.GraphStateError):
            eo.sum(indices).backward()
    assert eo.argmax(eo.tensor(5.0)).item() == 0
    assert eo.argmax(np.array([1.0, nan, 3.0])).item() == 1


def test_values_gathered_by_sorted_indices_keep_their_gradient():
    w = leaf([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0], [9.0, 7.0, 8.0]])
    values = eo.take_along_axis(w, eo.argsort(w, 1), axis=1)
    eo.sum(values * 2).backward()
    np.testing.assert_array_equal(w.grad.numpy(), np.full((3, 3), 2.0))
