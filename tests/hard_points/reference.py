"""Derivatives by every mode at once, and the comparison with exact numbers."""

import math

import numpy as np

import everyo as eo


def derivatives(f, *points, weight=None):
    """Return value and gradients of ``sum(weight * f)`` in float64, checking forward mode on the way."""
    arrays = [np.asarray(p, dtype="float64") for p in points]
    leaves = [eo.tensor(a, requires_grad=True) for a in arrays]
    result = f(*leaves)
    seed = np.ones(result.shape) if weight is None else np.asarray(weight)
    result.backward(eo.tensor(seed))
    found = [x.grad.numpy() for x in leaves]
    for i, a in enumerate(arrays):
        tangents = [np.zeros_like(b) for b in arrays]
        tangents[i] = 1 + 0.1 * np.arange(a.size, dtype="float64").reshape(a.shape)
        pushed = eo.jvp(f, [eo.tensor(a) for a in arrays], [eo.tensor(t) for t in tangents])[1].numpy()
        forward = np.sum(np.where(seed == 0, 0, seed * np.where(seed == 0, 0, pushed)))
        reverse = np.sum(found[i] * tangents[i])
        np.testing.assert_allclose(forward, reverse, rtol=1e-12, atol=1e-15)
    return result.detach().numpy(), found


def second_derivative(f, point):
    """Return the second derivative of a function of one number."""
    return hessian(lambda x: f(x[0]), [point])[0][0]


def hessian(f, row):
    """Return the second derivatives as lists: the gradient of the gradient, and of tangents."""
    x = eo.tensor(np.array(row, dtype="float64"), requires_grad=True)
    (g,) = eo.autograd.grad(f(x), x, create_graph=True)
    rows = [gradient_of(g[i], x) for i in range(len(row))]
    tangents = [eo.jvp(f, [x], [eo.tensor(e)])[1] for e in np.eye(len(row))]
    np.testing.assert_allclose([gradient_of(t, x) for t in tangents], rows, rtol=1e-12)
    return rows


def gradient_of(y, x):
    return eo.autograd.grad(y, x, retain_graph=True)[0].tolist() if y.requires_grad else [0.0] * x.size


def agrees(found, exact, absolute=0.0, relative=4e-15):
    """Compare a number with mpmath's, to some units in the last place or within `absolute`."""
    exact = float(exact)
    if math.isnan(exact) or math.isinf(exact):
        np.testing.assert_equal(found, exact)
    else:
        np.testing.assert_allclose(found, exact, rtol=relative, atol=max(absolute, 5e-324))
