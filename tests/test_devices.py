"""Devices: a second backend runs every operation, and mixing devices is an error."""

from __future__ import annotations

import numpy as np
import pytest
from tests.mirror_backend import MirrorArray, MirrorBackend

import everyo as eo
from everyo.core.device import register_backend, unregister_backend
from everyo.core.registry import op, primitives
from everyo.testing.primitives import materialize


@pytest.fixture
def mirror():
    backend = MirrorBackend()
    register_backend(backend)
    yield backend
    unregister_backend(backend)
    for primitive in primitives().values():
        primitive.kernels.pop(MirrorArray, None)


def to_mirror(value):
    if isinstance(value, eo.Tensor):
        moved = value.detach().to("mirror")
        return moved.requires_grad_() if value.requires_grad else moved
    return value


def results(value):
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("name", list(primitives()))
def test_every_operation_runs_on_a_second_backend(mirror, name):
    primitive = primitives()[name]
    for sample in primitive.samples():
        inputs = materialize(primitive, sample, np.float64, 0)
        ours = getattr(op, name)(*inputs, **sample.params)
        there = [to_mirror(x) for x in inputs]
        theirs = getattr(op, name)(*there, **sample.params)
        for a, b in zip(results(ours), results(theirs), strict=True):
            assert b.device == "mirror"
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
        pairs = [(a, b) for a, b in zip(results(ours), results(theirs), strict=True) if a.requires_grad]
        if not pairs:
            continue
        for side in (0, 1):
            outs = [pair[side] for pair in pairs]
            eo.autograd.backward(outs, [eo.ones_like(o) for o in outs])
        for a, b in zip(inputs, there, strict=True):
            if isinstance(a, eo.Tensor) and a.requires_grad and a.grad is not None:
                assert b.grad.device == "mirror"
                np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy())


def test_operands_on_two_devices(mirror):
    a, b = eo.ones(2), eo.ones(2, device="mirror")
    for attempt in (lambda: a + b, lambda: b * a, lambda: eo.stack([a, b]), lambda: eo.where(a > 0, b, a)):
        with pytest.raises(eo.DeviceError, match="different devices") as error:
            attempt()
        assert "mirror" in str(error.value)
        assert "cpu" in str(error.value)
    assert (b + 1.0).device == "mirror"


def test_moving_keeps_the_graph(mirror):
    x = eo.tensor([2.0], requires_grad=True)
    y = x.to("mirror") * 3
    assert y.device == "mirror"
    y.to("cpu").backward()
    assert x.grad.device == "cpu"
    assert x.grad.tolist() == [3.0]


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "xla", "gpu", "", 3])
def test_unknown_and_unavailable_devices(device):
    for attempt in (
        lambda: eo.zeros(2, device=device),
        lambda: eo.tensor([1.0], device=device),
        lambda: eo.asarray([1.0], device=device),
        lambda: eo.arange(3, device=device),
        lambda: eo.ones(1).to(device=device),
    ):
        with pytest.raises(eo.DeviceError) as error:
            attempt()
        assert "'cpu'" in str(error.value)


def test_every_creation_function_takes_a_device(mirror):
    for made in (
        eo.zeros(2, device="mirror"), eo.ones(2, device="mirror"), eo.full(2, 3.0, device="mirror"),
        eo.empty(2, device="mirror"), eo.eye(2, device="mirror"), eo.arange(3, device="mirror"),
        eo.linspace(0, 1, 3, device="mirror"), eo.tensor([1.0], device="mirror"),
        eo.asarray([1.0], device="mirror"), eo.zeros_like(eo.ones(2), device="mirror"),
        eo.ones_like(eo.ones(2), device="mirror"), eo.full_like(eo.ones(2), 2.0, device="mirror"),
        eo.random.normal(size=(2,), device="mirror"), eo.random.uniform(size=(2,), device="mirror"),
    ):  # fmt: skip
        assert made.device == "mirror"
