"""Gradients of distances so small that their reciprocals overflow."""

import numpy as np
import pytest

import everyo as eo


@pytest.mark.parametrize(("dtype", "size"), [("float32", 1e-40), ("float64", 1e-310), ("float32", 1e-3)])
@pytest.mark.parametrize("weight", [1.0, 1e20, 1e-20])
def test_slopes_are_directions(dtype, size, weight):
    a = eo.asarray(np.array([[3.0, 4.0], [0.0, 0.0], [8.0, 6.0]]) * size, dtype=dtype)
    b = eo.zeros((1, 2), dtype=dtype)
    expected = np.array([[0.6, 0.8], [0.0, 0.0], [0.8, 0.6]]) * weight
    slopes = eo.grad(lambda t: eo.sum(eo.cdist(t, b)) * weight)
    np.testing.assert_allclose(slopes(a).numpy(), expected, rtol=1e-4)
    np.testing.assert_allclose(eo.compile(slopes)(a).numpy(), expected, rtol=1e-4)
    np.testing.assert_allclose(eo.vmap(slopes)(a[None]).numpy()[0], expected, rtol=1e-4)
    other = eo.grad(lambda t: eo.sum(eo.cdist(a, t)) * weight)(b).numpy()
    np.testing.assert_allclose(other, [-expected.sum(axis=0)], rtol=1e-4)
    pairs = eo.grad(lambda t: eo.sum(eo.pdist(t)) * weight)(a[:2]).numpy()
    np.testing.assert_allclose(pairs, [expected[0], -expected[0]], rtol=1e-4)
