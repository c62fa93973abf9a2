"""The first examples of a newcomer, run as they are written, with the output they print."""

from __future__ import annotations

import numpy as np
import pytest

import everyo as eo


def test_accumulation_prints_the_sums(capsys):
    x = eo.tensor([2.0], requires_grad=True)
    (x * x).backward()
    print(x.grad)
    (x * x).backward()
    print(x.grad)
    x.zero_grad()
    (x * x).backward()
    print(x.grad)
    assert capsys.readouterr().out == "[4.]\n[8.]\n[4.]\n"


def test_retain_grad_returns_the_tensor(capsys):
    x = eo.tensor([2.0], requires_grad=True)
    hidden = (x * 3).retain_grad()
    (hidden * 2).backward()
    print(hidden.grad)
    assert capsys.readouterr().out == "[2.]\n"
    np.testing.assert_array_equal(x.grad.numpy(), [6.0])


def test_no_grad_block_builds_no_graph():
    weight = eo.tensor([[1.0, 2.0]], requires_grad=True)

    def model(features):
        return features * weight

    with eo.no_grad():
        predictions = model(eo.tensor([[3.0, 4.0]]))
    assert predictions.grad_node is None
    assert model(eo.tensor([[3.0, 4.0]])).grad_node is not None


def test_deep_graph_needs_no_recursion():
    x = eo.tensor([1.0], requires_grad=True)
    y = x
    for _ in range(2000):
        y = y + x
    y.backward()
    assert x.grad.item() == 2001.0


@pytest.mark.parametrize(("batch", "features"), [(32, 3), (1, 3), (5, 1)])
def test_bias_gradient_is_summed_over_the_broadcast_axis(batch, features):
    activations = eo.tensor(np.ones((batch, features)), requires_grad=True)
    bias = eo.tensor(np.zeros(features), requires_grad=True)
    upstream = np.arange(batch * features, dtype=np.float64).reshape(batch, features)
    (activations + bias).backward(upstream)
    np.testing.assert_array_equal(bias.grad.numpy(), upstream.sum(0))
    np.testing.assert_array_equal(activations.grad.numpy(), upstream)


@pytest.mark.parametrize(("f", "x", "value", "slope"), [
    (lambda x: x * x + 3 * x, 2.0, 10.0, 7.0),
    (lambda x: (2 * x + 1) ** 2, 3.0, 49.0, 28.0),
    (lambda x: x * x + x, 5.0, 30.0, 11.0),
])  # fmt: skip
def test_worked_examples_of_the_chain_rule(f, x, value, slope):
    leaf = eo.tensor(x, dtype=eo.float64, requires_grad=True)
    y = f(leaf)
    y.backward()
    assert (y.item(), leaf.grad.item()) == (value, slope)


def test_matrix_product_rule():
    rng = np.random.default_rng(0)
    a, b, g = rng.normal(size=(3, 4)), rng.normal(size=(4, 5)), rng.normal(size=(3, 5))
    left, right = eo.tensor(a, requires_grad=True), eo.tensor(b, requires_grad=True)
    (left @ right).backward(g)
    np.testing.assert_allclose(left.grad.numpy(), g @ b.T, rtol=1e-14)
    np.testing.assert_allclose(right.grad.numpy(), a.T @ g, rtol=1e-14)


def test_training_step_in_the_usual_order():
    weight = eo.nn.Parameter(eo.tensor([1.0]))
    optimizer = eo.optim.SGD([weight], lr=0.1)
    for expected in (0.8, 0.64):
        optimizer.zero_grad()
        (weight * weight).backward()
        optimizer.step()
        assert weight.item() == pytest.approx(expected, rel=1e-6)


def test_numerical_gradient_of_the_second_document():
    def function(x):
        return x**2 + 3 * x

    numerical = eo.testing.numerical_gradient(function, 2.0)
    assert numerical == pytest.approx(7.0, abs=1e-6)
    assert eo.testing.relative_error(7.0, numerical) < 1e-6
