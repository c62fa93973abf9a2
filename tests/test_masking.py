"""Masks: filled, selected and replaced places, against plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import everyo as eo
from everyo.testing import check_jvp, gradcheck, gradgradcheck
from tests.compiling import same


@st.composite
def masked(draw):
    shape = draw(arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    mask_shape = draw(arrays.broadcastable_shapes(shape, max_dims=len(shape), min_side=0, max_side=3))
    if np.broadcast_shapes(shape, mask_shape) != shape:
        mask_shape = shape
    x = np.arange(1.0, np.prod(shape, dtype=int) + 1).reshape(shape)
    return x, draw(arrays.arrays(bool, mask_shape))


@given(case=masked())
def test_values_are_those_of_a_loop(case):
    x, mask = case
    whole = np.broadcast_to(mask, x.shape)
    source = -np.arange(1.0, x.size + 2)
    filled, scattered, selected, following = x.copy(), x.copy(), [], iter(source)
    for place in np.ndindex(x.shape):
        if whole[place]:
            filled[place], scattered[place] = 7.0, next(following)
            selected.append(x[place])
    np.testing.assert_array_equal(eo.masked_fill(x, mask, 7.0).numpy(), filled)
    np.testing.assert_array_equal(eo.masked_scatter(x, mask, source).numpy(), scattered)
    np.testing.assert_array_equal(eo.masked_select(x, mask).numpy(), selected)
    np.testing.assert_array_equal(eo.extract(whole, x).numpy(), np.extract(whole, x))
    np.testing.assert_array_equal(eo.argwhere(x - 2).numpy(), np.argwhere(x - 2))
    np.testing.assert_array_equal(eo.flatnonzero(x - 2).numpy(), np.flatnonzero(x - 2))


def test_gradients_go_where_the_values_came_from():
    mask = np.array([[True, False, True], [False, False, True]])
    x, v = (eo.tensor(np.arange(6.0).reshape(2, 3) + k, requires_grad=True) for k in (0, 10))
    weights = np.arange(1.0, 7).reshape(2, 3)
    (eo.masked_scatter(x, mask, v) * weights).sum().backward()
    assert x.grad.tolist() == [[0, 2, 0], [4, 5, 0]]
    assert v.grad.tolist() == [[1, 3, 6], [0, 0, 0]]
    value = eo.tensor(np.float64(2.0), requires_grad=True)
    (eo.masked_fill(x.detach(), mask, value) * weights).sum().backward()
    assert value.grad.item() == 10.0
    x.grad = None
    (eo.masked_select(x, mask) * [1.0, 10.0, 100.0]).sum().backward()
    assert x.grad.tolist() == [[1, 0, 10], [0, 0, 100]]
    x.grad = None
    (eo.compress([False, True], x, axis=1) * 3).sum().backward()
    assert x.grad.tolist() == [[0, 3, 0], [0, 3, 0]]


MASK = np.array([[True, False, True], [False, True, False]])
X, V = np.array([[0.5, 1.5, -2.0], [3.0, -1.0, 0.25]]), np.array([0.75, -0.5, 2.0, 9.0])


@pytest.mark.parametrize(
    ("f", "operands"),
    [
        (lambda x, v: eo.masked_scatter(x, MASK, v) ** 2, (X, V)),
        (lambda x, v: eo.masked_fill(x, MASK, v[0]) ** 2, (X, V)),
        (lambda x: eo.masked_select(x, MASK) ** 2, (X,)),
        (lambda x: eo.compress([0, 1, 1], x, axis=-1) ** 2, (X,)),
        (lambda x, v: eo.select([x > 1, x < 0], [x**2, v[0] * x], v[1]), (X, V)),
    ],
)
def test_derivatives(f, operands):
    for check in (gradcheck, gradgradcheck, check_jvp):
        assert check(f, *operands)
    same(f, *(eo.tensor(x) for x in operands))


def test_masks_inside_transformations():
    masks = np.stack([MASK, ~MASK, np.zeros_like(MASK)])
    for f in (lambda m: eo.masked_scatter(X, m, V), lambda m: eo.masked_fill(X, m, 3.0)):
        np.testing.assert_array_equal(eo.vmap(f)(masks).numpy(), [f(m).numpy() for m in masks])
        same(lambda m, f=f: f(m), eo.tensor(MASK))
    with pytest.raises(eo.IndexingError, match="fewer elements"):
        eo.vmap(lambda m: eo.masked_scatter(X, m, V[:1]))(masks)
    with pytest.raises(eo.IndexingError, match="fewer elements"):
        eo.vmap(lambda m: eo.masked_scatter(X, m, []))(masks)
    none = eo.vmap(lambda m: eo.masked_scatter(X, m, []))(masks & False)
    np.testing.assert_array_equal(none.numpy(), [X] * 3)
    with pytest.raises(eo.UnsupportedOperationError, match="masked_select"):
        eo.vmap(lambda m: eo.masked_select(X, m))(masks)


def test_choices_by_precedence():
    x = np.array([-2.0, 0.5, 3.0, 1.0])
    conditions, choices = [x < 0, x < 1, x < 2], [x * 10, x * 100, 7.0]
    expected = np.select(conditions, [x * 10, x * 100, np.full(4, 7.0)], -1.0)
    np.testing.assert_array_equal(eo.select(conditions, choices, -1.0).numpy(), expected)
    slopes = eo.grad(lambda x: eo.select([x < 0, x < 1, x < 2], [x * 10, x * 100, 7.0]).sum())(eo.tensor(x))
    assert slopes.tolist() == [10.0, 100.0, 0.0, 0.0]


def test_compress_as_numpy():
    x = np.arange(12).reshape(3, 4)
    for condition, axis in (
        ([1, 0], 0),
        ([False, True, True], 0),
        ([0, 1, 0, 1], 1),
        ([0, 1, 1, 0, 1], None),
    ):
        np.testing.assert_array_equal(
            eo.compress(condition, x, axis).numpy(), np.compress(condition, x, axis)
        )
    assert eo.argwhere(np.float64(3.0)).shape == (1, 0)
    assert eo.argwhere(np.float64(0.0)).shape == (0, 0)


def test_dtypes_promote():
    x = eo.tensor([1, 2, 3])
    assert eo.masked_fill(x, x > 1, 0).dtype == x.dtype
    assert eo.masked_scatter(x, x > 1, [5, 6]).tolist() == [1, 5, 6]
    assert eo.masked_scatter(x, x > 1, np.array([0.5, 1.5])).tolist() == [1.0, 0.5, 1.5]
    assert eo.masked_scatter(x, x > 9, []).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: eo.masked_fill([1.0], [1], 0.0), eo.DTypeError, "mask must be made of booleans"),
        (lambda: eo.masked_select([1.0], [1.0]), eo.DTypeError, "masked_select"),
        (lambda: eo.masked_select([1.0, 2.0], [True] * 3), eo.ShapeError, "masked_select"),
        (lambda: eo.masked_scatter([1.0, 2.0], [True] * 2, [1.0]), eo.IndexingError, "fewer elements"),
        (lambda: eo.masked_scatter([1.0], [True] * 2, [1.0]), eo.ShapeError, "masked_scatter"),
        (lambda: eo.compress([True] * 3, [1.0, 2.0]), eo.IndexingError, "compress"),
        (lambda: eo.compress([[True]], [[1.0]], 0), eo.ShapeError, "row"),
        (lambda: eo.extract([True] * 3, [1.0, 2.0]), eo.IndexingError, "extract"),
        (lambda: eo.select([], []), eo.ShapeError, "pair up"),
        (lambda: eo.select([[True]], [1.0, 2.0]), eo.ShapeError, "2 choices"),
        (lambda: eo.select([[1]], [1.0]), eo.DTypeError, "select"),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
