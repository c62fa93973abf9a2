"""The order of the backward pass: a node is pulled back once, when all its children have been."""

from __future__ import annotations

import random

import numpy as np
import pytest

import everyo as eo
from everyo.core.tape import FREED


def random_graph(seed):
    """Return tensors that are small integer combinations of earlier ones, leaves first, and the coefficients.

    Leaves also appear in the middle, so that some are younger than operations. Every value has two elements.
    """
    rng = random.Random(seed)
    tensors, terms = [], []
    for i in range(60):
        if i < 3 or rng.random() < 0.1:
            tensors.append(eo.tensor([float(i), 1.0], dtype=eo.float64, requires_grad=True))
            terms.append([])
            continue
        parents = [max(0, i - rng.choice((1, 1, 2, 5, 40))) for _ in range(rng.choice((1, 2, 2, 3)))]
        terms.append([(p, rng.choice((-2, -1, 1, 2))) for p in parents])
        value = sum(tensors[p] * c for p, c in terms[-1])
        tensors.append(value)
    return tensors, terms


def gradients_by_hand(terms, root):
    """Return the derivative of value `root` with respect to every value, from the coefficients alone."""
    slopes = [0] * len(terms)
    slopes[root] = 1
    for i in range(root, -1, -1):
        for parent, coefficient in terms[i]:
            slopes[parent] += coefficient * slopes[i]
    return slopes


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs(seed):
    tensors, terms = random_graph(seed)
    expected = gradients_by_hand(terms, len(terms) - 1)
    tensors[-1].backward(eo.ones(2, dtype=eo.float64))
    for tensor, slope, term in zip(tensors, expected, terms, strict=True):
        if not term:
            assert (tensor.grad is None and slope == 0) or tensor.grad.tolist() == [slope, slope]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("create_graph", [False, True])
def test_random_graphs_with_respect_to_intermediate_values(seed, create_graph):
    tensors, terms = random_graph(seed)
    root = len(terms) - 1
    expected = gradients_by_hand(terms, root)
    chosen = random.Random(seed).sample(range(root), 5)
    found = eo.autograd.grad(
        tensors[root],
        [tensors[i] for i in chosen],
        eo.ones(2, dtype=eo.float64),
        create_graph=create_graph,
        allow_unused=True,
    )
    assert [0 if g is None else g.tolist()[0] for g in found] == [expected[i] for i in chosen]


def test_gradient_hooks_see_sums_and_run_from_the_youngest_to_the_oldest():
    seen = []
    x = eo.tensor([2.0], requires_grad=True)
    y = x * 3
    late = eo.tensor([5.0], requires_grad=True)
    z = y * late + y
    for name, tensor in (("x", x), ("late", late), ("y", y), ("z", z)):
        tensor.register_hook(lambda g, name=name: seen.append((name, g.item())))
    (z + y).backward()
    assert seen == [("z", 1.0), ("late", 6.0), ("y", 7.0), ("x", 21.0)]


def test_nodes_behind_a_rule_without_a_cotangent_are_freed_too():
    class Wall(eo.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return None

    x, w = (eo.tensor([value], requires_grad=True) for value in (2.0, 3.0))
    hidden = x * w
    (Wall.apply(hidden) * w).backward()
    assert hidden.grad_node.saved is FREED
    assert x.grad is None
    assert w.grad.tolist() == [6.0]


def test_a_passed_node_is_let_go_before_the_next_rule_runs():
    x = eo.tensor(np.ones(4), requires_grad=True)
    first = x * x
    second = first * first
    freed = []
    first.register_hook(lambda g: freed.append(second.grad_node.saved is FREED))
    second.sum().backward()
    assert freed == [True]


def loop_of_broadcasts(w, x):
    """Return ``sum(w_i**3 * rows_i + w_0)`` for `w` of shape (3, 1), and its gradient with respect to `w`."""
    parts = [(w * x).sum(), w[0, 0] * 5.0, (w * w * x).sum(), w[1, 0], (x - w).sum(), w.sum() * 2.0]
    rows = x.numpy().sum(axis=1, keepdims=True)
    slopes = rows + 2 * w.detach().numpy() * rows - x.shape[1] + 2.0
    return parts, slopes + np.array([[5.0], [1.0], [0.0]])


@pytest.mark.parametrize("columns", [4, 4096])  # few and many elements, which are summed at once
@pytest.mark.parametrize("backwards", [False, True])
def test_broadcasting_is_undone_beside_parts_of_other_kinds(columns, backwards):
    w = eo.tensor([[1.0], [2.0], [3.0]], dtype=eo.float64, requires_grad=True)
    x = eo.tensor(np.arange(3.0 * columns).reshape(3, columns) / columns)
    parts, expected = loop_of_broadcasts(w, x)
    sum(parts[::-1] if backwards else parts).backward()
    np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-14)


def test_broadcasting_to_different_shapes_is_undone_in_one_dtype():
    w = eo.tensor([0.5], dtype=eo.float32, requires_grad=True)
    wide, deep = eo.tensor([1.0, 2.0]), eo.tensor(np.arange(6.0).reshape(2, 3))
    ((w * wide).sum() + (deep * w).sum() + (w * wide * w).sum()).backward()
    assert w.grad.dtype == eo.float32
    assert w.grad.tolist() == [3.0 + 15.0 + 3.0]


def test_a_bias_of_a_loop_is_summed_over_once(monkeypatch):
    from everyo.core import cotangents

    sums = []
    summed = cotangents.summed
    monkeypatch.setattr(cotangents, "summed", lambda c, layout: sums.append(layout) or summed(c, layout))
    x = eo.tensor([1.0, 2.0, 3.0], requires_grad=True)
    b = eo.tensor([0.5], requires_grad=True)
    y = x
    for _ in range(10):
        y = y * b
    y.sum().backward()
    assert b.grad.item() == pytest.approx(10 * 6.0 * 0.5**9)
    assert len(sums) == 1


def test_a_pass_inside_a_hook_has_a_watch_of_its_own():
    inner = []

    def hook(g):
        z = eo.tensor([0.0, 4.0], requires_grad=True)
        with eo.enable_grad():
            (eo.sqrt(z) * eo.tensor([0.0, 1.0])).sum().backward()  # infinity times nothing
        inner.append(z.grad.tolist())

    x = eo.tensor([0.0, 9.0], requires_grad=True)
    before = np.geterr()
    y = eo.sqrt(x)
    y.register_hook(hook)
    (y * eo.tensor([0.0, 1.0])).sum().backward()
    assert inner == [[0.0, 0.25]]
    assert x.grad.tolist() == pytest.approx([0.0, 1 / 6])
    assert np.geterr() == before


def test_a_pass_that_failed_leaves_numpys_settings_and_later_passes_alone():
    def fail(g):
        raise RuntimeError("from a hook")

    x = eo.tensor([0.0, 4.0], requires_grad=True)
    before = np.geterr()
    y = eo.sqrt(x)
    handle = y.register_hook(fail)
    with pytest.raises(RuntimeError, match="from a hook"):
        y.sum().backward()
    assert np.geterr() == before
    handle.remove()
    (eo.sqrt(x) * eo.tensor([0.0, 1.0])).sum().backward()
    assert x.grad.tolist() == [0.0, 0.25]


def test_derivatives_of_scalars_to_the_third_order():
    x = eo.tensor(0.5, dtype=eo.float64, requires_grad=True)
    y = eo.exp(x) * x / 2.0
    found = []
    for _ in range(3):
        (y,) = eo.autograd.grad(y, x, create_graph=True)
        assert type(y.data) is np.ndarray
        found.append(y.item())
    assert found == pytest.approx([np.exp(0.5) * (n + 0.5) / 2 for n in (1, 2, 3)], rel=1e-14)
