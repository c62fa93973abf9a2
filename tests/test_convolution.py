"""Convolution against a naive loop: values, gradients to second order, every parameter, errors."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import everyo as eo
from everyo.testing import check_jvp, gradgradcheck

CONVOLUTIONS = {1: eo.conv1d, 2: eo.conv2d, 3: eo.conv3d}


def contributions(x_shape, w_shape, stride, padding, dilation, groups):
    """Yield every (output index, input index, weight index) that a convolution multiplies."""
    (batch, _, *sizes), (out, per_group, *kernel) = x_shape, w_shape
    positions = [
        (n + low + high - d * (k - 1) - 1) // s + 1
        for n, k, s, d, (low, high) in zip(sizes, kernel, stride, dilation, padding, strict=True)
    ]
    for n, o, c in itertools.product(range(batch), range(out), range(per_group)):
        channel = o // (out // groups) * per_group + c
        for at in itertools.product(*map(range, positions)):
            for offset in itertools.product(*map(range, kernel)):
                place = [
                    p * s + k * d - low
                    for p, s, k, d, (low, _) in zip(at, stride, offset, dilation, padding, strict=True)
                ]
                if all(0 <= i < size for i, size in zip(place, sizes, strict=True)):
                    yield (n, o, *at), (n, channel, *place), (o, c, *offset)


def naive(x, w, g, stride, padding, dilation, groups):
    """Return the convolution and the gradients of ``sum(g * convolution)``, product by product."""
    y, dx, dw = np.zeros_like(g), np.zeros_like(x), np.zeros_like(w)
    for i, j, k in contributions(x.shape, w.shape, stride, padding, dilation, groups):
        y[i] += x[j] * w[k]
        dx[j] += g[i] * w[k]
        dw[k] += g[i] * x[j]
    return y, dx, dw


def check_against_naive(rank, x_shape, w_shape, groups=1, stride=1, padding=0, dilation=1):
    rng = np.random.default_rng(0)
    # Small integers: every sum is exact, whatever its order.
    x, w = (rng.integers(-4, 5, shape).astype(float) for shape in (x_shape, w_shape))
    leaves = [eo.tensor(a, requires_grad=True) for a in (x, w)]
    y = CONVOLUTIONS[rank](*leaves, stride=stride, padding=padding, dilation=dilation, groups=groups)
    g = rng.integers(-4, 5, y.shape).astype(float)
    y.backward(eo.tensor(g))
    stride, padding, dilation = (
        (p,) * rank if isinstance(p, int) else p for p in (stride, padding, dilation)
    )
    padding = [(p, p) if isinstance(p, int) else p for p in padding]
    expected, dx, dw = naive(x, w, g, stride, padding, dilation, groups)
    np.testing.assert_array_equal(y.detach().numpy(), expected)
    np.testing.assert_array_equal(leaves[0].grad.numpy(), dx)
    np.testing.assert_array_equal(leaves[1].grad.numpy(), dw)


@pytest.mark.parametrize(
    ("rank", "x_shape", "w_shape", "options"),
    [
        (1, (2, 1, 5), (1, 1, 3), {}),
        (1, (2, 3, 7), (4, 3, 2), {"stride": 2, "padding": 1}),
        (1, (1, 2, 9), (2, 2, 3), {"dilation": 3, "stride": (2,)}),
        (2, (2, 3, 5, 4), (4, 3, 2, 3), {}),
        (2, (1, 2, 6, 5), (3, 2, 3, 1), {"stride": (2, 3), "padding": (1, 2)}),
        (2, (2, 4, 5, 5), (6, 2, 2, 2), {"groups": 2, "dilation": (1, 2)}),
        (2, (1, 3, 4, 4), (3, 1, 3, 3), {"groups": 3, "padding": 1}),
        (2, (2, 3, 3, 3), (2, 3, 1, 1), {}),
        (2, (1, 1, 3, 3), (1, 1, 3, 3), {}),
        (2, (1, 1, 3, 3), (1, 1, 2, 2), {"padding": 4, "stride": 3}),
        (3, (1, 2, 3, 2, 3), (2, 2, 2, 1, 2), {"stride": (1, 2, 1), "padding": (1, 0, 1)}),
    ],
)
def test_values_and_gradients_are_those_of_the_loop(rank, x_shape, w_shape, options):
    check_against_naive(rank, x_shape, w_shape, **options)


@settings(max_examples=60)
@given(st.data())
def test_any_parameters_agree_with_the_loop(data):
    rank = data.draw(st.integers(1, 2))
    draw = lambda low, high, n=rank: tuple(data.draw(st.integers(low, high)) for _ in range(n))  # noqa: E731
    groups = data.draw(st.sampled_from([1, 1, 2, 3]))
    batch, per_group, multiple = draw(1, 2, 3)
    kernel, stride, dilation, padding = draw(1, 3), draw(1, 3), draw(1, 2), draw(0, 2)
    spans = [max(d * (k - 1) + 1 - 2 * p, 1) for k, d, p in zip(kernel, dilation, padding, strict=True)]
    sizes = tuple(s + extra for s, extra in zip(spans, draw(0, 3), strict=True))
    x_shape, w_shape = (batch, groups * per_group, *sizes), (groups * multiple, per_group, *kernel)
    check_against_naive(rank, x_shape, w_shape, groups, stride, padding, dilation)


def test_same_padding_keeps_the_size_and_puts_the_odd_zero_behind():
    x, w = eo.ones((1, 1, 4)), eo.tensor([[[1.0, 10.0]]])
    assert eo.conv1d(x, w, padding="same").tolist() == [[[11.0, 11.0, 11.0, 1.0]]]
    assert eo.conv2d(eo.ones((1, 1, 5, 6)), eo.ones((2, 1, 3, 4)), padding="same", dilation=2).shape == (
        1,
        2,
        5,
        6,
    )
    assert eo.conv1d(x, w, padding="valid").shape == (1, 1, 3)


def test_the_bias_is_added_to_each_channel_and_its_gradient_is_a_sum():
    bias = eo.tensor([1.0, -2.0], requires_grad=True)
    y = eo.conv2d(eo.zeros((3, 1, 4, 4)), eo.ones((2, 1, 3, 3)), bias)
    assert y.shape == (3, 2, 2, 2)
    assert y.detach().numpy()[:, 0].tolist() == np.full((3, 2, 2), 1.0).tolist()
    y.sum().backward()
    assert bias.grad.tolist() == [12.0, 12.0]


def test_an_input_without_batch_axis():
    rng = np.random.default_rng(0)
    x, w = (
        eo.tensor(rng.standard_normal((2, 5, 5)), requires_grad=True),
        eo.tensor(rng.standard_normal((3, 2, 3, 3))),
    )
    y = eo.conv2d(x, w, padding=1)
    batched = eo.conv2d(x.detach().reshape(1, 2, 5, 5), w, padding=1)
    assert y.shape == (3, 5, 5)
    np.testing.assert_array_equal(y.detach().numpy(), batched.numpy()[0])
    y.sum().backward()
    assert x.grad.shape == (2, 5, 5)


@pytest.mark.parametrize(
    "options", [{"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}, {"groups": 2}]
)
def test_forward_mode_and_second_derivatives(options):
    rng = np.random.default_rng(0)
    per_group = 4 // options.get("groups", 1)
    x, w, b = (eo.tensor(rng.standard_normal(s)) for s in ((2, 4, 4, 5), (2, per_group, 2, 2), (2,)))

    def function(x, w, b):
        return eo.conv2d(x, w, b, **options)

    assert check_jvp(function, x, w, b)
    assert gradgradcheck(function, x, w, b)


def test_the_third_derivative_of_a_cubed_convolution():
    x, w = eo.tensor(np.array([[[2.0, 3.0]]])), eo.tensor(np.array([[[5.0]]]), requires_grad=True)
    y = (eo.conv1d(x, w) ** 3).sum()  # (8 + 27) w^3
    for expected in (35 * 3 * 25.0, 35 * 6 * 5.0, 35 * 6.0):
        (y,) = eo.autograd.grad(y, w, create_graph=True)
        assert y.item() == pytest.approx(expected, rel=1e-12)


def test_complex_values_convolve_without_a_conjugate():
    x, w = eo.tensor(np.array([[[1j, 2.0, 1.0]]])), eo.tensor(np.array([[[1.0, 1j]]]))
    assert eo.conv1d(x, w).tolist() == [[[3j, 2.0 + 1j]]]
    assert gradgradcheck(eo.conv1d, x, w)


def test_integers_convolve_exactly():
    y = eo.conv1d(eo.tensor([[[1, 2, 3]]]), eo.tensor([[[1, -1]]]))
    assert y.dtype == eo.int64
    assert y.tolist() == [[[-1, -1]]]


def test_an_empty_batch_and_mixed_dtypes():
    w = eo.tensor(np.ones((2, 1, 2, 2)), requires_grad=True)
    y = eo.conv2d(eo.zeros((0, 1, 3, 3)), w)
    assert y.shape == (0, 2, 2, 2)
    y.sum().backward()
    assert w.grad.tolist() == np.zeros((2, 1, 2, 2)).tolist()
    x = eo.ones((1, 1, 3, 3), requires_grad=True)
    y = eo.conv2d(x, w)
    assert y.dtype == eo.float64
    y.sum().backward()
    assert x.grad.dtype == eo.float32


def test_a_node_keeps_the_input_only_for_the_gradient_of_the_weight():
    x, w = eo.ones((1, 1, 3, 3)), eo.ones((1, 1, 2, 2), requires_grad=True)
    saved = eo.conv2d(x, w).grad_node.saved
    assert any(s is x.data for s in saved)
    assert not any(s is w.data for s in saved)


SQUARE, LINE = ((1, 1, 4, 4), (1, 1, 2, 2)), ((1, 1, 4), (1, 1, 2))


@pytest.mark.parametrize(
    ("shapes", "options", "kind", "words"),
    [
        (((4, 4), (1, 1, 2, 2)), {}, eo.ShapeError, ["conv2d", "2 axes", "(4, 4)"]),
        (((1, 3, 4, 4), (2, 2, 2, 2)), {}, eo.ShapeError, ["3 channels", "(2, 2, 2, 2)"]),
        (((1, 4, 4, 4), (3, 2, 2, 2)), {"groups": 2}, eo.ShapeError, ["groups=2", "multiple of groups"]),
        (((1, 3, 4, 4), (2, 3, 2, 2, 2)), {}, eo.ShapeError, ["weight (2, 3, 2, 2, 2)", "4 axes"]),
        (((1, 1, 4, 4), (2, 1, 0, 2)), {}, eo.ShapeError, ["no empty kernel"]),
        (SQUARE, {"bias": eo.ones(3)}, eo.ShapeError, ["bias of shape (1,)", "(3,)"]),
        (((1, 1, 2, 9), (1, 1, 3, 3)), {}, eo.ShapeError, ["larger than the padded", "(3, 3)", "(2, 9)"]),
        (LINE, {"stride": 0}, eo.ArgumentError, ["conv1d", "stride=0"]),
        (LINE, {"padding": -1}, eo.ArgumentError, ["padding=-1"]),
        (SQUARE, {"dilation": (1, 1, 1)}, eo.ArgumentError, ["dilation=(1, 1, 1)", "2 spatial axes"]),
        (LINE, {"groups": 0}, eo.ArgumentError, ["groups=0"]),
        (LINE, {"padding": "full"}, eo.ArgumentError, ["'full'", "same"]),
        (LINE, {"padding": "same", "stride": 2}, eo.ArgumentError, ["stride=1", "(2,)"]),
        (LINE, {"stride": 1.5}, eo.DTypeError, ["stride", "1.5"]),
    ],
)
def test_errors_say_what_does_not_fit(shapes, options, kind, words):
    x, w = map(eo.ones, shapes)
    with pytest.raises(kind) as caught:
        (eo.conv1d if x.ndim == 3 else eo.conv2d)(x, w, **options)
    for word in words:
        assert word in str(caught.value)
