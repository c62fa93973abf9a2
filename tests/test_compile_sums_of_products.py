"""The sum of a product's rows or columns is a product of sums: no matrix is computed for it."""

import numpy as np
import pytest

import everyo as eo

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(40, 50)), RNG.normal(size=(50, 30))
MANY, WEIGHTS = RNG.normal(size=(6, 40, 50)), RNG.normal(size=(6, 50, 30))
AXES = [0, 1, (0, 1)]


def graph_of(f, *args):
    return eo.compile.inspect(f)(*map(eo.asarray, args)).graphs["without dead code"]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES)
def test_values(axis, keepdims):
    found = eo.compile(lambda a, b: eo.sum(a @ b, axis=axis, keepdims=keepdims))(eo.asarray(A), eo.asarray(B))
    np.testing.assert_allclose(found.numpy(), np.sum(A @ B, axis=axis, keepdims=keepdims), atol=1e-12)


@pytest.mark.parametrize("axis", [1, 2, (0, 1), (0, 2), (1, 2), (0, 1, 2), 0])
def test_batches(axis):
    found = eo.compile(lambda a, b: eo.sum(-eo.matmul(a, b), axis=axis))(
        eo.asarray(MANY), eo.asarray(WEIGHTS)
    )
    np.testing.assert_allclose(found.numpy(), -np.sum(MANY @ WEIGHTS, axis=axis), atol=1e-12)


def test_integers_are_exact():
    a, b = np.arange(20).reshape(4, 5), np.arange(30).reshape(5, 6)
    found = eo.compile(lambda a, b: eo.sum(a @ b, axis=0))(eo.asarray(a), eo.asarray(b))
    assert found.tolist() == (a @ b).sum(axis=0).tolist()


@pytest.mark.parametrize("axis", AXES)
def test_no_matrix_is_computed(axis):
    assert "dot" not in graph_of(lambda a, b: eo.sum(-(a @ b), axis=axis), A, B)


def test_sums_over_products_of_products():
    def f(a, b):
        return eo.sum(a @ b @ b.T, axis=0)

    assert "dot" not in graph_of(f, A, B)
    found = eo.compile(f)(eo.asarray(A), eo.asarray(B)).numpy()
    np.testing.assert_allclose(found, (A @ B @ B.T).sum(axis=0), atol=1e-11)


def test_a_sum_over_the_batch_alone_needs_the_products():
    assert "dot" in graph_of(lambda a, b: eo.sum(eo.matmul(a, b), axis=0), MANY, WEIGHTS)


def test_the_slope_in_a_shift_needs_no_product_for_each_row():
    def loss(shift, x, w):
        return eo.sum(eo.tanh((x - shift) @ w))

    shift = RNG.normal(size=50)
    slopes = eo.compile(eo.grad(loss))(eo.asarray(shift), eo.asarray(A), eo.asarray(B)).numpy()
    bent = 1 - np.tanh((A - shift) @ B) ** 2
    np.testing.assert_allclose(slopes, -(bent @ B.T).sum(axis=0), atol=1e-12)
    assert graph_of(eo.grad(loss), shift, A, B).count("dot(") == 1


def test_products_of_batches_share_a_loop_however_deep_they_are():
    """The factor of the second product is made in the same turn, and kept for that turn alone."""

    def f(a, b):
        return eo.matmul(eo.matrix_transpose(eo.exp(a)), b)

    deep = RNG.normal(size=(5, 900, 20)), RNG.normal(size=(5, 900, 20))
    kernels = eo.compile.inspect(f)(*map(eo.asarray, deep)).kernels
    assert kernels.count("loop over 5") == 1
    found = eo.compile(f)(*map(eo.asarray, deep)).numpy()
    np.testing.assert_allclose(found, np.exp(deep[0]).transpose(0, 2, 1) @ deep[1], atol=1e-11)
