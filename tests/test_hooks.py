"""Hooks on tensors and nodes, and gradients that are retained."""

from __future__ import annotations

import pytest

import everyo as eo


def leaf(*values, dtype=eo.float64):
    return eo.tensor(list(values), dtype=dtype, requires_grad=True)


def test_tensor_hook_sees_and_replaces_the_complete_gradient():
    x = leaf(2.0)
    hidden = x * 3
    seen = []
    handle = hidden.register_hook(lambda g: seen.append(g.item()))
    hidden.register_hook(lambda g: g * 10)
    (hidden + hidden).backward()
    assert seen == [2.0]
    assert x.grad.item() == 60.0
    handle.remove()
    handle.remove()
    x.zero_grad()
    with x.register_hook(lambda g: g + 1):
        (x * 3).backward()
    (x * 3).backward()
    assert seen == [2.0]
    assert x.grad.item() == 7.0


def test_retained_gradient_is_the_one_after_hooks():
    x = leaf(2.0)
    hidden = (x * 3).retain_grad()
    hidden.register_hook(lambda g: g * 10)
    (hidden * 1).backward()
    assert hidden.grad.item() == 10.0
    assert hidden.retains_grad
    assert not x.retains_grad


def test_retain_grad_adds_nothing_twice_when_called_twice():
    x = leaf(3.0)
    y = (x * x).retain_grad()
    y.retain_grad()
    z = 2 * y
    z.backward(retain_graph=True)
    z.backward()
    assert y.grad.item() == 4.0
    assert x.grad.item() == 24.0


def test_hooks_under_create_graph_stay_differentiable():
    x = leaf(2.0)
    y = x * x
    y.register_hook(lambda g: g * x)
    (g,) = eo.autograd.grad(y, x, create_graph=True)
    assert g.item() == 8.0
    assert eo.autograd.grad(g, x)[0].item() == 8.0


def test_node_hooks():
    x, y = leaf(2.0), leaf(5.0)
    z = x * y
    seen = []
    z.grad_node.register_prehook(lambda outs: (outs[0] * 2,))
    handle = z.grad_node.register_hook(lambda ins, outs: seen.append([t.item() for t in (*ins, *outs)]))
    z.backward(retain_graph=True)
    assert seen == [[10.0, 4.0, 2.0]]
    assert (x.grad.item(), y.grad.item()) == (10.0, 4.0)
    handle.remove()
    z.grad_node.register_hook(lambda ins, outs: (ins[0] * 0, ins[1]))
    x.zero_grad()
    z.backward()
    assert x.grad.item() == 0.0
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (lambda g: 3.0, eo.DTypeError),
        (lambda g: g.numpy(), eo.DTypeError),
        (lambda g: eo.ones(5, dtype=g.dtype), eo.ShapeError),
        (lambda g: g.astype(eo.float32), eo.DTypeError),
    ],
)
def test_a_hook_that_returns_no_gradient(wrong, kind):
    x = leaf(1.0, 2.0)
    y = x * 2
    y.register_hook(wrong)
    with pytest.raises(kind, match="hook"):
        eo.sum(y).backward()
    assert x.grad is None


def test_hooks_and_retain_grad_need_a_graph():
    for method in ("retain_grad", "register_hook"):
        with pytest.raises(eo.GraphStateError, match=method):
            getattr(eo.ones(1), method)(*([] if method == "retain_grad" else [print]))


# ---- exceptions
