"""One value written where a mask holds, also where the mask is known only to a running transformation."""

from __future__ import annotations

import numpy as np
import pytest

import everyo as eo
from everyo.errors import UnsupportedOperationError

A = np.array([[0.5, -1.0, 2.0], [-0.25, -3.0, 0.0]])


def replaced(x, value=7.0):
    y = x * 1
    y[x < 0] = value
    return y


def test_a_mask_of_each_example():
    found = eo.vmap(replaced)(eo.asarray(A))
    np.testing.assert_array_equal(found.numpy(), np.where(A < 0, 7.0, A))
    assert found.dtype == eo.float64


def test_a_mask_that_the_compiler_does_not_know():
    compiled = eo.compile(replaced)
    for a in (A, -A, np.abs(A)):
        np.testing.assert_array_equal(compiled(eo.asarray(a)).numpy(), np.where(a < 0, 7.0, a))


def test_a_mask_of_the_leading_axes():
    def clear(x):
        y = x * 1
        y[x.sum(axis=1) < 0] = 0.0
        return y

    rows = np.stack([A, -A])
    expected = np.stack([np.where(a.sum(1, keepdims=True) < 0, 0.0, a) for a in rows])
    np.testing.assert_array_equal(eo.vmap(clear)(eo.asarray(rows)).numpy(), expected)
    np.testing.assert_array_equal(eo.compile(clear)(eo.asarray(A)).numpy(), expected[0])


def test_the_value_takes_the_dtype_of_the_tensor():
    whole = eo.asarray(np.array([[2**60 + 1, -5], [-4, 3]]))
    found = eo.vmap(lambda x: replaced(x, 2.9))(whole)
    assert found.tolist() == [[2**60 + 1, 2], [2, 3]]
    single = eo.vmap(lambda x: replaced(x, eo.asarray(np.float64(0.1))))(eo.asarray(A.astype(np.float32)))
    assert single.dtype == eo.float32
    np.testing.assert_array_equal(single.numpy(), np.where(A < 0, np.float32(0.1), A.astype(np.float32)))


def test_derivatives_go_to_what_stayed_and_to_the_value():
    def loss(x, value):
        return (replaced(x, value) ** 2).sum()

    v = eo.asarray(np.array(3.0))
    by_x, by_value = eo.vmap(eo.grad(loss, argnums=(0, 1)), in_axes=(0, None))(eo.asarray(A), v)
    np.testing.assert_array_equal(by_x.numpy(), np.where(A < 0, 0.0, 2 * A))
    np.testing.assert_array_equal(by_value.numpy(), 6.0 * (A < 0).sum(axis=1))
    of_batch = eo.grad(lambda x, value: eo.vmap(lambda r: loss(r, value))(x).sum(), argnums=(0, 1))
    by_x, by_value = of_batch(eo.asarray(A), v)
    np.testing.assert_array_equal(by_x.numpy(), np.where(A < 0, 0.0, 2 * A))
    assert by_value.item() == 6.0 * (A < 0).sum()


def test_several_values_still_need_a_known_mask():
    with pytest.raises(UnsupportedOperationError, match="vmap"):
        eo.vmap(lambda x: replaced(x, eo.ones(3)[:1]))(eo.asarray(A))
