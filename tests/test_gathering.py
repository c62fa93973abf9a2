"""Gathering and scattering by tensors of positions."""

from __future__ import annotations

import numpy as np
import pytest

import everyo as eo
from everyo.testing import gradcheck, gradgradcheck


def tracked(array):
    return eo.tensor(array, dtype=eo.float64, requires_grad=True)


def numbered(shape):
    return np.arange(float(np.prod(shape, dtype=int))).reshape(shape)


def test_take():
    x = tracked(numbered((3, 4)))
    for indices, axis in [([0, 5, 5], None), ([[0, -1]], 0), (1, 1), (np.array([2, 2, 0]), -1), ([], 0)]:
        np_indices = np.array(indices, dtype=int)
        np.testing.assert_array_equal(
            eo.take(x, indices, axis).detach().numpy(), np.take(x.detach().numpy(), np_indices, axis)
        )
    assert gradcheck(lambda x: eo.take(x, [0, 5, 5]), numbered((3, 4)))
    x.take([2, 2, 0], axis=1).sum().backward()
    assert x.grad.tolist() == [[1, 0, 2, 0]] * 3
    with pytest.raises(eo.IndexingError, match="integers"):
        eo.take(x, [True, False])
    with pytest.raises(eo.IndexingError, match="out of bounds"):
        eo.take(x, 4, axis=1)
    with pytest.raises(eo.IndexingError, match="axis 2"):
        eo.take(x, 0, axis=2)


def test_along_axis():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4, 2))
    for axis in range(-3, 3):
        indices = np.argsort(x, axis=axis)
        np.testing.assert_array_equal(
            eo.take_along_axis(eo.tensor(x), indices, axis).numpy(), np.take_along_axis(x, indices, axis)
        )
        assert gradcheck(lambda x, i=indices, a=axis: eo.take_along_axis(x, i, a), x)
        v = rng.normal(size=indices.shape)
        expected = x.copy()
        np.put_along_axis(expected, indices, v, axis)
        np.testing.assert_array_equal(eo.put_along_axis(eo.tensor(x), indices, v, axis).numpy(), expected)
        assert gradcheck(lambda x, v, i=indices, a=axis: eo.put_along_axis(x, i, v, a), x, v)
    flat = np.array([5, 0, -1])
    np.testing.assert_array_equal(
        eo.take_along_axis(x, flat, None).numpy(), np.take_along_axis(x, flat, None)
    )
    expected = x.copy()
    np.put_along_axis(expected, flat, [1.0, 2.0, 3.0], None)
    np.testing.assert_array_equal(eo.put_along_axis(x, flat, [1.0, 2.0, 3.0], None).numpy(), expected)
    assert gradcheck(lambda x, v: eo.put_along_axis(x, flat, v, None) ** 2, x, np.array([1.0, 2.0, 3.0]))
    with pytest.raises(eo.ShapeError):
        eo.take_along_axis(eo.ones((2, 2)), [0], 1)
    with pytest.raises(eo.IndexingError):
        eo.take_along_axis(eo.ones((2, 2)), [[2]], 1)
    with pytest.raises(eo.IndexingError, match="integers"):
        eo.take_along_axis(eo.ones((2, 2)), [[0.0]], 1)


def test_positions_computed_from_tracked_values():  # B071
    w = tracked(numbered((3, 3)) / 4)
    out = eo.zeros((3, 3), dtype=eo.float64)
    indices = eo.argsort(w, axis=1)[:, :1]
    result = eo.put_along_axis(out, indices, 2 * w.sum(axis=1, keepdims=True), axis=1)
    result.sum().backward()
    assert w.grad.tolist() == [[2] * 3] * 3
    assert out.tolist() == [[0] * 3] * 3


def test_gather_reads_smaller_positions():
    x = tracked(numbered((3, 4)))
    indices = np.array([[0, 3], [1, 1]])
    out = eo.gather(x, 1, indices)
    assert out.tolist() == [[0, 3], [5, 5]]
    out.sum().backward()
    assert x.grad.tolist() == [[1, 0, 0, 1], [0, 2, 0, 0], [0, 0, 0, 0]]
    assert eo.gather(x, 0, np.array([[2, 1]])).tolist() == [[8, 5]]
    with pytest.raises(eo.ShapeError):
        eo.gather(x, 0, np.array([[0] * 5]))
    with pytest.raises(eo.IndexingError):
        eo.gather(x, 0, np.array([[3]]))


def test_scatter_add():
    x, src = tracked(np.zeros((3, 4))), tracked(numbered((2, 3)) + 1)
    indices = np.array([[0, 0], [2, 2]])
    out = eo.scatter_add(x, 1, indices, src)
    assert out.tolist() == [[3, 0, 0, 0], [0, 0, 9, 0], [0, 0, 0, 0]]
    weights = numbered((3, 4))
    (out * eo.tensor(weights)).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), weights)
    assert src.grad.tolist() == [[0, 0, 0], [6, 6, 0]]
    assert x.tolist() == [[0] * 4] * 3
    assert gradcheck(lambda x, s: eo.scatter_add(x, 0, indices, s) ** 2, numbered((3, 4)), numbered((2, 2)))
    big = np.full((1, 600), 3)
    with pytest.raises(eo.IndexingError):
        eo.scatter_add(eo.zeros((1, 3)), 1, big, eo.ones((1, 600)))
    with pytest.raises(eo.ShapeError):
        eo.scatter_add(eo.zeros((1, 3)), 1, [[0, 0]], eo.ones((1, 1)))


def test_index_add():
    x, v = tracked(np.zeros((3, 2))), tracked([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    out = eo.index_add(x, [0, 2, 0], v)
    assert out.tolist() == [[6, 8], [0, 0], [3, 4]]
    (out * out).sum().backward()
    assert v.grad.tolist() == [[12, 16], [6, 8], [12, 16]]
    assert x.grad.tolist() == [[12, 16], [0, 0], [6, 8]]
    assert eo.index_add(eo.zeros((2, 3)), [1, 1], 1.0, axis=1).tolist() == [[0, 2, 0]] * 2
    assert gradgradcheck(
        lambda x, v: eo.index_add(x, [1, -1], v, axis=1) ** 2, numbered((2, 3)), numbered((2, 2))
    )


def test_nonzero():
    x = eo.tensor([[0.0, 1.0], [2.0, 0.0]], requires_grad=True)
    rows, columns = eo.nonzero(x)
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [1, 0])
    assert not rows.requires_grad
    with pytest.raises(eo.ShapeError):
        eo.nonzero(1.0)
