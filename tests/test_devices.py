"""Devices: a second backend runs every operation, and mixing devices is an error."""

from __future__ import annotations

import numpy as np
import pytest

import everyo as eo
from everyo.core.device import register_backend, unregister_backend
from everyo.core.registry import primitives
from everyo.testing.primitives import Call
from tests.mirror_backend import MirrorArray, MirrorBackend


@pytest.fixture
def mirror():
    backend = MirrorBackend()
    register_backend(backend)
    yield backend
    unregister_backend(backend)
    for primitive in primitives().values():
        primitive.kernels.pop(MirrorArray, None)


def run(call, device):
    """Return the results of a call on `device`, then the gradients of its float inputs, as NumPy arrays."""
    inputs = [
        eo.tensor(a, device=device, requires_grad=i in call.wrt) if isinstance(a, np.ndarray) else a
        for i, a in enumerate(call.arrays)
    ]
    out = call.primitive(*inputs, **call.params)
    results = out if isinstance(out, tuple) else (out,)
    assert {r.device for r in results} == {device}
    recorded = [r for r in results if r.requires_grad]
    if recorded:
        eo.autograd.backward(recorded, [eo.ones_like(r) for r in recorded])
    gradients = [inputs[i].grad for i in call.wrt if recorded]
    assert all(g is None or g.device == device for g in gradients)
    return [None if t is None else t.detach().to("cpu").numpy() for t in (*results, *gradients)]


def runs_on_the_host(name):
    return name == "to_device"  # its parameter names the device


@pytest.mark.parametrize("name", [name for name in primitives() if not runs_on_the_host(name)])
def test_every_operation_runs_on_a_second_backend(mirror, name):
    primitive = primitives()[name]
    for sample in primitive.samples():
        call = Call(primitive, sample, eo.float64)
        for ours, theirs in zip(run(call, "cpu"), run(call, "mirror"), strict=True):
            assert (ours is None) == (theirs is None)
            if ours is not None:
                np.testing.assert_array_equal(ours, theirs)


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
