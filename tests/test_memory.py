"""Memory: no reference cycles, residuals that die when they should, graphs of a million operations."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import everyo as eo


@pytest.fixture(autouse=True)
def _no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def parameters():
    rng = np.random.default_rng(0)
    return [eo.tensor(rng.normal(size=shape), requires_grad=True) for shape in ((4, 8), (8,), (8, 1), (1,))]


def step(x, w1, b1, w2, b2):
    loss = eo.mean((eo.tanh(x @ w1 + b1) @ w2 + b2) ** 2)
    loss.backward()
    with eo.no_grad():
        for p in (w1, b1, w2, b2):
            p -= 0.01 * p.grad
            p.zero_grad()


def test_memory_returns_to_its_start_after_a_thousand_steps():
    gc.collect()
    weights = parameters()
    x = eo.tensor(np.ones((16, 4)))
    tracemalloc.start()
    try:
        for _ in range(200):  # until the small blocks that Python and NumPy keep for reuse are all traced
            step(x, *weights)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(1000):
            step(x, *weights)
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert after - before < 1024
    assert gc.collect() == 0


@pytest.mark.parametrize("finish", ["nothing", "backward", "create_graph", "hook", "retain", "error"])
def test_a_graph_dies_with_its_last_tensor(finish):
    x = eo.tensor([2.0], requires_grad=True)
    middle = eo.exp(x)
    y = middle * middle
    nodes = [weakref.ref(middle.grad_node), weakref.ref(y.grad_node)]
    saved = weakref.ref(middle)
    if finish == "backward":
        y.backward()
    elif finish == "create_graph":
        (g,) = eo.autograd.grad(y, x, create_graph=True)
        nodes.append(weakref.ref(g.grad_node))
        del g
    elif finish == "hook":
        y.register_hook(lambda g: g * 2)
        y.grad_node.register_hook(lambda ins, outs: None)
        y.backward()
    elif finish == "retain":
        middle.retain_grad()
        y.backward()
    elif finish == "error":
        y.register_hook(lambda g: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            y.backward()
    del middle, y
    assert [node() for node in nodes] == [None] * len(nodes)
    assert saved() is None


def test_backward_with_create_graph_leaves_no_cycle():
    x = eo.tensor([2.0], requires_grad=True)
    (x * x * x).backward(create_graph=True)
    reference = weakref.ref(x)
    del x
    assert reference() is None


def test_a_saved_array_dies_with_the_last_tensor():
    x = eo.tensor([2.0], requires_grad=True)
    y = eo.exp(x)
    saved = weakref.ref(y.data)
    z = y * 3
    del y
    assert saved() is not None  # exp's rule reads its output
    del z
    assert saved() is None


def test_backward_releases_what_was_saved():
    x = eo.tensor([2.0], requires_grad=True)
    y = eo.exp(x)
    saved = weakref.ref(y.data)
    z = y * 3
    del y
    z.backward()
    assert saved() is None  # although z still holds the nodes


def test_what_no_rule_reads_dies_at_once():
    x, w, b = (eo.tensor(np.ones(s), requires_grad=True) for s in ((5, 4), (4, 3), (3,)))
    product = x @ w
    died = weakref.ref(product.data)
    y = eo.relu(product + b)
    del product
    assert died() is None
    eo.sum(y).backward()
    assert w.grad.shape == (4, 3)


def test_a_chain_of_additions_holds_one_array():
    x = eo.tensor(np.ones(1000), requires_grad=True)
    y = x + 1.0
    arrays = []
    for _ in range(20):
        y = y + 1.0
        arrays.append(weakref.ref(y.data))
    assert [r() is not None for r in arrays] == [False] * 19 + [True]


def test_sums_and_shapes_hold_no_array():
    x = eo.tensor(np.ones((10, 10)), requires_grad=True) * 1.0
    died = weakref.ref(x.data)
    y = eo.sum(eo.reshape(x, (100,)) * 1.0)
    del x
    assert died() is None
    y.backward()


def test_peak_of_backward_on_a_plain_chain_is_two_gradients():
    n, depth = 200_000, 20
    x = eo.tensor(np.full(n, 1e-3), requires_grad=True)
    y = x
    for _ in range(depth):
        y = y + 1.0  # saves nothing
    y = y * 2.0
    gradient = eo.tensor(np.ones(n))
    tracemalloc.start()
    try:
        y.backward(gradient)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * 8 * n


def test_a_million_operations_forward_backward_and_freed():
    x = eo.tensor([1.0], dtype=eo.float64, requires_grad=True)
    y = x
    for _ in range(1_000_000):
        y = y + x
    y.backward()
    assert x.grad.item() == 1_000_001.0
    last = weakref.ref(y.grad_node)
    del y
    assert last() is None


def test_a_long_graph_is_freed_without_recursion_when_never_walked():
    x = eo.tensor([1.0], requires_grad=True)
    y = x
    for _ in range(1_000_000):
        y = y * 1.0
    first = y.grad_node
    while not first.parents[0].is_leaf:
        first = first.parents[0]
    first = weakref.ref(first)
    del y
    assert first() is None


def peak(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_row_that_is_read_keeps_no_cotangent_of_the_whole_alive(create_graph):
    x = eo.tensor(np.ones((40, 500)), requires_grad=True)
    y = eo.zeros_like(x)
    for i in range(1, 40):
        y[i] = 0.5 * y[i - 1] + x[i]
    loss = (y * y).sum()

    def differentiate():
        (g,) = eo.autograd.grad(loss, x, create_graph=create_graph)
        np.testing.assert_allclose(g[38:].detach().numpy(), np.array([[6.0], [4.0]]) * np.ones((2, 500)))

    assert peak(differentiate) < 8 * x.nbytes
