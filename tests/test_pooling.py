"""Pooling against a naive loop: values, shared ties, padding, overlaps, second order, errors."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import everyo as eo
from everyo.testing import check_jvp, gradcheck, gradgradcheck

MAX, AVG = {1: eo.max_pool1d, 2: eo.max_pool2d}, {1: eo.avg_pool1d, 2: eo.avg_pool2d}


def windows(sizes, kernel, stride, padding, dilation):
    """Yield each position with the places of its window that lie inside."""
    counts = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True)
    ]
    for at in itertools.product(*map(range, counts)):
        starts = [i * s - p for i, s, p in zip(at, stride, padding, strict=True)]
        axes = [range(b, b + d * k, d) for b, d, k in zip(starts, dilation, kernel, strict=True)]
        places = itertools.product(*axes)
        yield at, [p for p in places if all(0 <= i < n for i, n in zip(p, sizes, strict=True))]


def naive_max(x, g, *geometry):
    y, dx = np.zeros_like(g), np.zeros_like(x)
    for lead in np.ndindex(x.shape[: -len(geometry[0])]):
        for at, places in windows(x.shape[len(lead) :], *geometry):
            values = [x[lead + p] for p in places]
            y[lead + at] = max(values)
            winners = [p for p, v in zip(places, values, strict=True) if v == max(values)]
            for p in winners:
                dx[lead + p] += g[lead + at] / len(winners)
    return y, dx


def naive_avg(x, g, include, *geometry):
    y, dx = np.zeros_like(g), np.zeros_like(x)
    for lead in np.ndindex(x.shape[: -len(geometry[0])]):
        for at, places in windows(x.shape[len(lead) :], *geometry):
            count = int(np.prod(geometry[0])) if include else len(places)
            for p in places:
                y[lead + at] += x[lead + p] / count
                dx[lead + p] += g[lead + at] / count
    return y, dx


def run(function, x, *options, **named):
    """Return value, gradient and the gradient that was put in; small integers keep sums exact."""
    leaf = eo.tensor(x, requires_grad=True)
    y = function(leaf, *options, **named)
    g = np.random.default_rng(1).integers(-4, 5, y.shape).astype(float)
    y.backward(eo.tensor(g))
    return y.detach().numpy(), leaf.grad.numpy(), g


@settings(max_examples=60)
@given(st.data())
def test_any_geometry_agrees_with_the_loop(data):
    rank = data.draw(st.integers(1, 2))
    draw = lambda low, high, n=rank: tuple(data.draw(st.integers(low, high)) for _ in range(n))  # noqa: E731
    kernel, stride, dilation = draw(1, 3), draw(1, 3), draw(1, 2)
    padding = tuple(data.draw(st.integers(0, k // 2)) for k in kernel)
    sizes = tuple(d * (k - 1) + 1 + extra for d, k, extra in zip(dilation, kernel, draw(0, 3), strict=True))
    lead = draw(1, 2, data.draw(st.integers(1, 2)))
    x = np.random.default_rng(0).integers(-2, 3, lead + sizes).astype(float)  # ties are common
    y, dx, g = run(MAX[rank], x, kernel, stride, padding, dilation)
    expected, gradient = naive_max(x, g, kernel, stride, padding, dilation)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_allclose(dx, gradient, rtol=1e-12, atol=1e-12)
    for include in (True, False):
        y, dx, g = run(AVG[rank], x, kernel, stride, padding, count_include_pad=include)
        expected, gradient = naive_avg(x, g, include, kernel, stride, padding, (1,) * rank)
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(dx, gradient, rtol=1e-12, atol=1e-12)


def test_windows_that_do_not_fill_the_input_leave_the_rest_without_gradient():
    x = np.arange(25.0).reshape(1, 1, 5, 5)
    y, dx, _ = run(eo.max_pool2d, x, 2)
    assert y.tolist() == [[[[6.0, 8.0], [16.0, 18.0]]]]
    assert not dx[..., 4, :].any()
    assert not dx[..., :, 4].any()


def test_ties_share_the_gradient_equally():
    x = eo.tensor([[[2.0, 2.0], [1.0, 2.0]]], requires_grad=True)
    eo.max_pool2d(x, 2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[[1 / 3, 1 / 3], [0.0, 1 / 3]]], rtol=1e-6)


def test_an_element_in_several_windows_gets_all_their_gradients():
    x = eo.tensor([[0.0, 5.0, 1.0, 4.0]], requires_grad=True)
    y = eo.max_pool1d(x, 2, stride=1)
    assert y.tolist() == [[5.0, 5.0, 4.0]]
    y.backward(eo.tensor([[1.0, 10.0, 100.0]]))
    assert x.grad.tolist() == [[0.0, 11.0, 0.0, 100.0]]


def test_padding_never_wins_a_maximum():
    x = eo.tensor(np.full((1, 1, 2, 2), -5.0), requires_grad=True)
    y = eo.max_pool2d(x, 2, stride=1, padding=1)
    assert y.tolist() == np.full((1, 1, 3, 3), -5.0).tolist()
    y.sum().backward()
    # Corners stand alone in their window, edges are shared by two, the middle by four.
    assert x.grad.sum().item() == 9.0
    assert x.grad.tolist() == np.full((1, 1, 2, 2), 1 + 2 * 0.5 + 0.25).tolist()
    assert eo.max_pool1d(eo.tensor([[-3, -4]]), 2, padding=1).tolist() == [[-3, -4]]


def test_a_nan_is_the_maximum_of_its_windows_and_of_no_other():
    x = eo.tensor([[1.0, float("nan"), 3.0, 2.0]], requires_grad=True)
    y = eo.max_pool1d(x, 2)
    assert np.isnan(y.detach().numpy()).tolist() == [[True, False]]
    y.backward(eo.ones_like(y))
    assert x.grad.tolist() == [[0.0, 1.0, 1.0, 0.0]]


def test_an_infinite_gradient_stays_with_its_element():
    x = eo.tensor([[1.0, 2.0]], requires_grad=True)
    eo.max_pool1d(x, 2).backward(eo.tensor([[float("inf")]]))
    assert x.grad.tolist() == [[0.0, float("inf")]]


def test_count_include_pad():
    x = eo.ones((1, 1, 2))
    assert eo.avg_pool1d(x, 2, stride=1, padding=1).tolist() == [[[0.5, 1.0, 0.5]]]
    assert eo.avg_pool1d(x, 2, stride=1, padding=1, count_include_pad=False).tolist() == [[[1.0, 1.0, 1.0]]]


def test_integers_are_averaged_as_floats_and_half_precision_does_not_overflow():
    assert eo.avg_pool1d(eo.tensor([[1, 2]]), 2).tolist() == [[1.5]]
    y = eo.avg_pool1d(eo.full((1, 4), 60000.0, dtype=eo.float16), 2)
    assert y.dtype == eo.float16
    assert y.tolist() == [[60000.0, 60000.0]]


def test_a_result_shares_no_memory_with_the_input():
    array = np.arange(4.0).reshape(1, 4)
    y = eo.max_pool1d(eo.from_numpy(array), 1)
    array[:] = 0.0
    assert y.tolist() == [[0.0, 1.0, 2.0, 3.0]]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: eo.max_pool2d(x, (2, 3), stride=(1, 2), padding=(1, 0)) ** 2,
        lambda x: eo.avg_pool2d(x, 2, stride=1, padding=1, count_include_pad=False) ** 2,
        lambda x: eo.max_pool2d(x, 2) ** 2,
    ],
)
def test_forward_mode_and_second_derivatives(function):
    x = eo.tensor(np.random.default_rng(0).permutation(40).reshape(1, 2, 4, 5) / 10)
    for check in (gradcheck, check_jvp, gradgradcheck):
        assert check(function, x)


def test_an_empty_batch():
    x = eo.zeros((0, 2, 4, 4), requires_grad=True)
    for pool in (eo.max_pool2d, eo.avg_pool2d):
        y = pool(x, 2)
        assert y.shape == (0, 2, 2, 2)
        y.sum().backward()
        assert x.grad.shape == x.shape


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: eo.max_pool2d(eo.ones((4, 4)), 2), eo.ShapeError, ["max_pool2d", "2 axes", "(4, 4)"]),
        (lambda: eo.avg_pool1d(eo.ones((1, 2)), 3), eo.ShapeError, ["avg_pool1d", "larger", "(3,)", "(2,)"]),
        (lambda: eo.max_pool2d(eo.ones((1, 4, 4)), (2, 2, 2)), eo.ArgumentError, ["kernel_size=(2, 2, 2)"]),
        (lambda: eo.max_pool2d(eo.ones((1, 4, 4)), 0), eo.ArgumentError, ["kernel_size=0"]),
        (lambda: eo.max_pool2d(eo.ones((1, 4, 4)), 2, 0), eo.ArgumentError, ["stride=0"]),
        (
            lambda: eo.max_pool2d(eo.ones((1, 4, 4)), 2, padding=2),
            eo.ArgumentError,
            ["half", "padding=(2, 2)"],
        ),
        (lambda: eo.max_pool1d(eo.ones((1, 4)), 2.5), eo.DTypeError, ["kernel_size", "2.5"]),
        (
            lambda: eo.max_pool1d(eo.ones((1, 4), dtype=eo.complex64), 2),
            eo.DTypeError,
            ["order", "complex64"],
        ),
    ],
)
def test_errors_say_what_does_not_fit(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
