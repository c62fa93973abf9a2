"""logsumexp, softmax and log_softmax: stable, infinities included."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import everyo as eo

inf, nan = math.inf, math.nan


def leaf(x, dtype="float64"):
    return eo.tensor(np.asarray(x, dtype), requires_grad=True)


def gradient(f, x, dtype="float64", seed=None):
    """Return the gradient of the sum of ``f(x)``, weighted with `seed`."""
    x = leaf(x, dtype)
    y = f(x)
    y.backward(np.ones(y.shape, y.dtype) if seed is None else np.asarray(seed, y.dtype))
    assert x.grad.dtype == x.dtype
    return x.grad.numpy()


def exact_softmax(x):
    with mpmath.workdps(60):
        weights = [mpmath.exp(mpmath.mpf(float(v))) for v in x]
        return np.array([float(w / mpmath.fsum(weights)) for w in weights])


@st.composite
def rows(draw):
    shape = draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3))
    x = draw(arrays.arrays("float64", shape, elements=st.floats(-800, 800, width=32)))
    axis = draw(st.none() | st.integers(-len(shape), len(shape) - 1) | st.just(tuple(range(len(shape)))))
    return x, axis


@given(case=rows())
def test_the_three_agree(case):
    x, axis = case
    softmax, logs = eo.softmax(x, axis).numpy(), eo.log_softmax(x, axis).numpy()
    norm = eo.logsumexp(x, axis, keepdims=True).numpy()
    assert softmax.shape == logs.shape == x.shape
    np.testing.assert_allclose(softmax, np.exp(logs), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(logs, x - norm, atol=1e-12 * (1 + np.abs(x).max(initial=0)))
    if x.size:
        np.testing.assert_allclose(np.sum(softmax, axis), 1, rtol=1e-14)
    np.testing.assert_allclose(gradient(lambda t: eo.logsumexp(t, axis), x), softmax, rtol=1e-12, atol=1e-300)
    assert gradient(lambda t: eo.softmax(t, axis), x).shape == x.shape


@pytest.mark.parametrize(
    "x",
    [[1000.0, 0.0, -1000.0], [1e5, 1e5 + 1], [-1e4, -1e4 - 3, -1e4], [0.0, 30.0], [1e-9, 0.0], [5.0]],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_hard_points(x, dtype):
    x = np.array(x, dtype)
    exact = exact_softmax(x)
    tol = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(eo.softmax(x).numpy(), exact, rtol=tol)
    np.testing.assert_allclose(gradient(eo.logsumexp, x, dtype), exact, rtol=tol)
    with mpmath.workdps(60):
        total = mpmath.log(mpmath.fsum(mpmath.exp(mpmath.mpf(float(v))) for v in x))
        logs = [float(mpmath.mpf(float(v)) - total) for v in x]
    np.testing.assert_allclose(eo.logsumexp(x).item(), float(total), rtol=tol)
    np.testing.assert_allclose(eo.log_softmax(x).numpy(), logs, rtol=tol, atol=tol)
    g = gradient(lambda t: eo.log_softmax(t)[0], x, dtype)
    np.testing.assert_allclose(g, np.eye(len(x))[0] - exact, atol=tol)


def test_saturated_softmax():
    w = np.array([1.0, 2.0, 3.0])
    x = [1000.0, 0.0, -1000.0]
    assert eo.sum(eo.softmax(np.array(x)) * w).item() == 1
    np.testing.assert_array_equal(gradient(lambda t: eo.softmax(t) * w, x), 0)


@pytest.mark.parametrize(
    ("x", "value", "slope"),
    [
        ([-inf, 1.0], 1, [0, 1]),
        ([-inf, 2.0, 2.0], 2 + math.log(2), [0, 0.5, 0.5]),
        ([-inf, -inf], -inf, [0, 0]),
        ([-inf], -inf, [0]),
        ([inf, 1.0], inf, [1, 0]),
        ([inf, -inf, inf], inf, [0.5, 0, 0.5]),
        ([nan, 1.0], nan, [nan, nan]),
        ([], -inf, []),
        (3.0, 3, 1),
        ([[-inf, -inf], [0.0, 0.0]], math.log(2), [[0, 0], [0.5, 0.5]]),
    ],
)
@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp_of_infinities(x, value, slope, keepdims):
    found = eo.logsumexp(np.array(x), keepdims=keepdims)
    np.testing.assert_array_equal(found.numpy(), np.full(found.shape, value))
    np.testing.assert_array_equal(gradient(lambda t: eo.logsumexp(t, keepdims=keepdims), x), slope)


def test_rows_of_infinities_leave_the_others_alone():
    x = np.array([[-inf, -inf], [0.0, 0.0], [inf, 0.0]])
    np.testing.assert_array_equal(eo.logsumexp(x, axis=1).numpy(), [-inf, math.log(2), inf])
    half = [0.5, 0.5]
    g = gradient(lambda t: eo.logsumexp(t, axis=1), x)
    np.testing.assert_array_equal(g, [[0, 0], half, [1, 0]])
    np.testing.assert_array_equal(eo.softmax(x).numpy(), [[nan, nan], half, [1, 0]])
    logs = [math.log(0.5)] * 2
    np.testing.assert_array_equal(eo.log_softmax(x).numpy(), [[nan, nan], logs, [0, -inf]])


def test_masked_logits():
    x = [1.0, -inf, 3.0]
    p = exact_softmax([1.0, 3.0])
    np.testing.assert_allclose(eo.softmax(np.array(x)).numpy(), [p[0], 0, p[1]], rtol=1e-15)
    g = gradient(eo.softmax, x, seed=[1, 0, 0])
    np.testing.assert_allclose(g, [p[0] * p[1], 0, -p[0] * p[1]], rtol=1e-14)
    g = gradient(eo.log_softmax, x, seed=[0, 0, 1])
    np.testing.assert_allclose(g, [-p[0], 0, p[0]], rtol=1e-14)


def test_second_derivatives():
    x = np.array([0.3, -1.2, 0.8])
    for f in (eo.softmax, eo.log_softmax, eo.logsumexp):
        assert eo.testing.gradgradcheck(f, x)
    t = leaf([-inf, 1.0, 1.0])
    (g,) = eo.autograd.grad(eo.logsumexp(t), t, create_graph=True)
    (h,) = eo.autograd.grad(g, t, [0.0, 1.0, 0.0])
    np.testing.assert_array_equal(h.numpy(), [0, 0.25, -0.25])


def test_large_values_in_single_precision():
    x = np.array([1e6, 1e6 - 0.5, 1e6 - 1], "float32")
    np.testing.assert_allclose(gradient(eo.logsumexp, x, "float32"), exact_softmax(x), rtol=1e-6)


def test_softmax_saves_its_result_alone():
    x = leaf([1.0, 2.0])
    for y in (eo.softmax(x), eo.log_softmax(x)):
        assert [value is y.data for value in y.grad_node.saved] == [True]


def test_integers_and_axes():
    assert eo.softmax([1, 2]).dtype == eo.float64
    assert eo.softmax(eo.tensor(2.0), axis=None).item() == 1
    np.testing.assert_array_equal(eo.softmax(np.zeros((2, 2)), axis=None).numpy(), np.full((2, 2), 0.25))
    with pytest.raises(eo.IndexingError, match="softmax"):
        eo.softmax(eo.tensor(2.0))
    with pytest.raises(TypeError):
        eo.softmax(eo.ones(2), dim=0)


@pytest.mark.parametrize(("dtype", "power"), [("float64", 15), ("float32", 6)])
@pytest.mark.parametrize("shape", [(1, 4), (3, 4), (40000, 4)])  # the last by a kernel of its own
def test_a_sum_near_one_has_a_logarithm_with_all_digits(dtype, power, shape):
    row = np.array([-25.0, 0.0, -60.0, -31.5], dtype)
    with mpmath.workdps(60):
        exact = float(mpmath.log1p(mpmath.fsum(mpmath.exp(float(v)) for v in row if v)))
    x = eo.asarray(np.broadcast_to(row, shape).copy())
    bound = {"rtol": 10.0**-power, "atol": 0}

    def both(x):
        return eo.logsumexp(x, axis=1), eo.log_softmax(x, axis=1)

    for total, logs in (both(x), eo.compile(both)(x)):
        np.testing.assert_allclose(total.numpy(), exact, **bound)
        np.testing.assert_allclose(logs.numpy()[:, 1], -exact, **bound)
        np.testing.assert_allclose(logs.numpy()[:, 0], row[0] - exact, **bound)
    logits = eo.asarray(row[None])
    loss = eo.nn.functional.cross_entropy(logits, eo.tensor([1]))
    np.testing.assert_allclose(loss.numpy(), exact, **bound)
