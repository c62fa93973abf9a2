"""Edges of the engine: freed graphs, hooks, in-place values, modes, Python data, jvp and its errors."""

import contextvars
import copy
import gc
import pickle
import threading

import numpy as np
import pytest

import everyo as eo
from everyo.autograd import grad


def leaf(*values, dtype=eo.float64):
    return eo.tensor(list(values), dtype=dtype, requires_grad=True)


# ---- jvp


def pair(*values):
    return (eo.tensor(list(values)),), (eo.ones(len(values)),)


@pytest.mark.parametrize("leak", [lambda x: x.numpy(), np.asarray, pickle.dumps])
def test_a_tangent_is_never_lost(leak):
    with pytest.raises(eo.GraphStateError, match=r"a running jvp|tangent"):
        eo.jvp(lambda x: (leak(x), x)[1], *pair(1.0))
    value, tangent = eo.jvp(lambda x: eo.asarray(x.detach().numpy()) * x, *pair(3.0))
    assert (value.item(), tangent.item()) == (9.0, 3.0)


@pytest.mark.parametrize(
    "inside",
    [lambda x: x.requires_grad_(), lambda x: x.backward(), lambda x: grad(x, x), lambda x: x.retain_grad()],
)
def test_reverse_mode_on_the_values_of_forward_mode(inside):
    with pytest.raises(eo.GraphStateError, match="jvp"):
        eo.jvp(lambda x: inside(x * 2), *pair(1.0))


def test_forward_mode_inside_reverse_mode():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    value, tangent = eo.jvp(lambda z: (z * z * w).sum(), (x,), (eo.ones(2, dtype=eo.float64),))
    (value + tangent).backward()
    assert x.grad.tolist() == [12.0, 24.0]
    assert w.grad.tolist() == [3.0, 8.0]


def test_detached_values_are_constant_at_every_level():
    def outer(x):
        return eo.jvp(lambda y: y * x.detach() * y.detach(), (x,), (eo.ones(1),))[1]

    value, tangent = eo.jvp(outer, *pair(3.0))
    assert (value.item(), tangent.item()) == (9.0, 0.0)


def test_nested_values_show_themselves():
    def inner(y):
        assert y.tolist() == [3.0]
        assert y.sum().item() == 3.0
        assert f"{y.sum():.1f}" == "3.0"
        assert str(y) == "[3.]"
        assert "[3.]" in repr(y)
        return y

    eo.jvp(lambda x: eo.jvp(inner, (x,), (eo.ones(1),))[1], *pair(3.0))


def test_a_value_of_jvp_in_another_thread():
    def in_a_thread(x, run):
        results = []

        def work():
            try:
                results.append(x * x)
            except eo.EveryOError as error:
                results.append(error)

        thread = threading.Thread(target=run, args=(work,))
        thread.start()
        thread.join()
        if isinstance(results[0], Exception):
            raise results[0]
        return results[0]

    for run in (lambda work: work(), contextvars.copy_context().run):
        value, tangent = eo.jvp(lambda x, run=run: in_a_thread(x, run), *pair(3.0))
        assert (value.item(), tangent.item()) == (9.0, 6.0)


def test_a_deep_copy_keeps_the_tangent():
    value, tangent = eo.jvp(lambda x: copy.deepcopy(x) * x, *pair(3.0))
    assert (value.item(), tangent.item()) == (9.0, 6.0)


def test_a_value_that_outlived_its_jvp():
    kept = []
    eo.jvp(lambda x: eo.jvp(lambda y: (kept.append(y), y)[1], (x,), (x,))[1], *pair(3.0))
    assert kept[0].tolist() == [3.0]
    for call in (
        lambda: kept[0] * 2,
        lambda: eo.exp(kept[0]),
        lambda: eo.jvp(lambda x: x * kept[0], *pair(1.0)),
    ):
        with pytest.raises(eo.GraphStateError, match="outlived the jvp"):
            call()
    assert (kept[0].detach() * 2).tolist() == [6.0]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ((lambda x: x, eo.ones(1), eo.ones(1)), eo.DTypeError),
        ((lambda x: x, (eo.ones(1),), eo.ones(1)), eo.DTypeError),
        ((lambda: eo.ones(1), (), ()), eo.ArgumentError),
    ],
)
def test_what_jvp_cannot_take(arguments, kind):
    with pytest.raises(kind, match="jvp"):
        eo.jvp(*arguments)


def test_jvp_returns_trees():
    value, tangent = eo.jvp(lambda x: {"a": (x, 3.0), "b": None}, *pair(2.0))
    assert (value["a"][0].tolist(), value["a"][1].item(), value["b"]) == ([2.0], 3.0, None)
    assert (tangent["a"][0].tolist(), tangent["a"][1].item(), tangent["b"]) == ([1.0], 0.0, None)


# ---- memory and exceptions


def nested_jvp():
    x = leaf(1.0)
    eo.jvp(lambda z: eo.jvp(lambda w: w * w * z, (z,), (z,))[1], (x,), (eo.ones(1, dtype=eo.float64),))


def anomaly_error():
    with eo.detect_anomaly(), pytest.raises(eo.NonFiniteGradientError):
        eo.sqrt(leaf(0.0)).backward()


def hooks_and_retained():
    x = leaf(1.0)
    y = (x * x).retain_grad()
    y.register_hook(lambda g: g * 2)
    y.grad_node.register_hook(lambda ins, outs: ins)
    y += 1
    y.backward(create_graph=True)
    x.grad = None


def hook_error():
    y = leaf(1.0) * 2
    y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.backward()


def jvp_error():
    with pytest.raises(ZeroDivisionError):
        eo.jvp(lambda x: 1 / 0, *pair(1.0))


def modes_and_generators():
    @eo.no_grad()
    def steps():
        yield 1
        yield 2

    for _ in steps():
        break


@pytest.mark.parametrize(
    "step", [nested_jvp, anomaly_error, hooks_and_retained, hook_error, jvp_error, modes_and_generators]
)
def test_nothing_is_left_to_the_garbage_collector(step):
    def ours():
        return sum(isinstance(o, (eo.Tensor, eo.core.tape.Node)) for o in gc.get_objects())

    step()
    gc.collect()
    gc.disable()
    try:
        before = ours()
        for _ in range(5):
            step()
        assert ours() <= before
    finally:
        gc.enable()
