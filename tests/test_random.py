"""Random tensors: streams, distributions and gradients through parameters."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

import everyo as eo

DRAWS = {
    "uniform": lambda r, **o: r.uniform(-1, 2, size=(3, 2), **o),
    "standard_normal": lambda r, **o: r.standard_normal((3, 2), **o),
    "normal": lambda r, **o: r.normal(1.0, 2.0, size=(3, 2), **o),
    "exponential": lambda r, **o: r.exponential(2.0, size=(3, 2), **o),
    "integers": lambda r, **o: r.integers(10, size=(3, 2), **o),
    "randint": lambda r, **o: r.randint(0, 10, (3, 2), **o),
    "bernoulli": lambda r, **o: r.bernoulli(0.3, size=(3, 2), **o),
    "permutation": lambda r: r.permutation(6).reshape(3, 2),
    "choice": lambda r: r.choice(6, (3, 2), replace=False),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_gives_the_same_numbers_again(name):
    draw = DRAWS[name]
    first, again = draw(eo.random.Generator(3)), draw(eo.random.Generator(3))
    assert first.shape == (3, 2)
    assert first.tolist() == again.tolist()
    assert first.tolist() != draw(eo.random.Generator(4)).tolist()
    eo.manual_seed(3)
    assert draw(eo.random).tolist() == first.tolist()


def test_functions_take_a_generator_and_a_device():
    a = eo.random.normal(size=3, generator=eo.random.Generator(1))
    b = eo.random.Generator(1).normal(size=3)
    assert a.tolist() == b.tolist()
    assert eo.random.uniform(size=2, device="cpu").device == "cpu"
    with pytest.raises(eo.DeviceError):
        eo.random.uniform(size=2, device="cuda")
    with pytest.raises(eo.DeviceError):
        eo.random.Generator(device="nonsense")


def test_seeds_differ_when_none_is_given():
    assert eo.random.Generator().normal(size=4).tolist() != eo.random.Generator().normal(size=4).tolist()


def test_state_can_be_kept_and_restored():
    g = eo.random.Generator(0)
    g.normal(size=3)
    state = g.get_state()
    expected = [g.normal(size=5).tolist(), g.integers(100, size=5).tolist()]
    g.set_state(state)
    assert [g.normal(size=5).tolist(), g.integers(100, size=5).tolist()] == expected
    g.set_state(state)
    for other in (copy.deepcopy(g), pickle.loads(pickle.dumps(g))):
        assert other.normal(size=5).tolist() == expected[0]
    with pytest.raises(eo.ArgumentError, match="state"):
        g.set_state({"a": 1})


@pytest.mark.parametrize("seed", [-1, 1.5, "a"])
def test_what_is_no_seed(seed):
    eo.manual_seed(5)
    before = eo.random.default_generator().get_state()
    with pytest.raises(eo.ArgumentError, match="seed"):
        eo.random.Generator(seed)
    with pytest.raises(eo.ArgumentError, match="seed"):
        eo.manual_seed(seed)
    assert str(eo.random.default_generator().get_state()) == str(before)


@pytest.mark.parametrize("dtype", [eo.float16, eo.float32, eo.float64])
@pytest.mark.parametrize("name", ["uniform", "standard_normal", "normal", "exponential"])
def test_float_dtypes(name, dtype):
    x = DRAWS[name](eo.random.Generator(0), dtype=dtype, requires_grad=True)
    assert x.dtype == dtype
    assert x.requires_grad
    assert x.is_leaf
    with pytest.raises(eo.DTypeError):
        DRAWS[name](eo.random.Generator(0), dtype=int)


def test_default_dtypes():
    g = eo.random.Generator(0)
    assert g.normal(size=2).dtype == eo.float32
    assert g.normal(eo.zeros(2, dtype=eo.float64)).dtype == eo.float64
    assert g.normal(np.zeros(2), size=2, dtype=eo.float32).dtype == eo.float32
    assert g.integers(5, size=2).dtype == eo.int64
    assert g.integers(5, size=2, dtype=eo.uint8).dtype == eo.uint8
    assert g.permutation(4).dtype == eo.int64
    assert g.bernoulli(0.5, size=3, dtype=bool).dtype == eo.bool


def test_distributions():
    g = eo.random.Generator(0)
    n = 100_000
    for draw, mean, variance in [
        (g.uniform(-1, 3, n, dtype=eo.float64), 1.0, 16 / 12),
        (g.standard_normal(n, dtype=eo.float64), 0.0, 1.0),
        (g.normal(2.0, 3.0, n, dtype=eo.float64), 2.0, 9.0),
        (g.exponential(2.0, n, dtype=eo.float64), 2.0, 4.0),
        (g.bernoulli(0.3, n, dtype=eo.float64), 0.3, 0.21),
        (g.integers(0, 10, n), 4.5, 8.25),
    ]:
        x = draw.numpy()
        assert abs(x.mean() - mean) < 5 * np.sqrt(variance / n)
        assert abs(x.var() / variance - 1) < 0.05


def test_bounds():
    g = eo.random.Generator(0)
    for dtype in (eo.float16, eo.float32, eo.float64):
        x = g.uniform(size=50_000, dtype=dtype).numpy()
        assert x.min() >= 0
        assert x.max() < 1
    dice = g.integers(1, 6, size=1000, endpoint=True)
    assert set(dice.tolist()) == {1, 2, 3, 4, 5, 6}
    assert set(g.randint(2, size=100).tolist()) == {0, 1}
    assert g.integers(5).shape == ()
    assert g.uniform().shape == ()
    assert g.normal().shape == ()
    assert g.integers(3, 3, size=0).shape == (0,)


def test_gradients_flow_to_parameters():
    low, high = eo.tensor([0.0, 1.0], requires_grad=True), eo.tensor([[2.0], [3.0]], requires_grad=True)
    x = eo.random.Generator(0).uniform(low, high)
    u = eo.random.Generator(0).uniform(size=(2, 2)).numpy()
    assert x.shape == (2, 2)
    x.sum().backward()
    np.testing.assert_allclose(low.grad.numpy(), (1 - u).sum(0), rtol=1e-6)
    np.testing.assert_allclose(high.grad.numpy(), u.sum(1, keepdims=True), rtol=1e-6)
    scale = eo.tensor(2.0, requires_grad=True)
    y = eo.random.Generator(1).normal(0.0, scale, size=3)
    y.sum().backward()
    np.testing.assert_allclose(scale.grad.item(), (y.detach() / 2).sum().item(), rtol=1e-6)
    z = eo.random.Generator(1).exponential(scale, size=3)
    assert z.requires_grad


def test_permutation_and_choice_of_a_tensor():
    x = eo.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
    g = eo.random.Generator(2)
    y = g.permutation(x)
    assert sorted(y.tolist()) == x.tolist()
    (y * eo.tensor([[1.0], [10.0], [100.0]])).sum().backward()
    place = {tuple(row): k for k, row in enumerate(y.tolist())}
    assert x.grad.tolist() == [[10.0 ** place[tuple(row)]] * 2 for row in x.tolist()]
    columns = g.permutation(x, axis=1).tolist()
    assert columns in (x.tolist(), [row[::-1] for row in x.tolist()])
    drawn = g.choice(x, 4)
    assert drawn.shape == (4, 2)
    assert drawn.requires_grad
    assert g.choice(x).tolist() in x.tolist()
    assert g.choice(3, 20, p=[0.0, 1.0, 0.0]).tolist() == [1] * 20


@pytest.mark.parametrize(
    "call",
    [
        lambda g: g.normal(0.0, -1.0, 2),
        lambda g: g.exponential(-1.0, 2),
        lambda g: g.integers(3, 3, size=2),
        lambda g: g.integers(0, 300, size=2, dtype=eo.uint8),
        lambda g: g.bernoulli(1.5, 2),
        lambda g: g.choice(3, 5, replace=False),
        lambda g: g.choice(2, 5, p=[0.5, 0.6]),
    ],
)
def test_parameters_out_of_range(call):
    with pytest.raises(eo.ArgumentError):
        call(eo.random.Generator(0))


def test_threads_share_the_default_stream():
    eo.manual_seed(0)
    expected = np.sort(eo.random.uniform(size=8000, dtype=eo.float64).numpy())
    eo.manual_seed(0)
    parts = []

    def work():
        parts.extend(eo.random.uniform(size=100, dtype=eo.float64).numpy() for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), expected)


def test_a_sample_is_constant_to_the_tape():
    assert not eo.random.normal(size=2).requires_grad
    value, tangent = eo.jvp(
        lambda x: x * eo.random.normal(size=1, generator=eo.random.Generator(0)), (eo.ones(1),), (eo.ones(1),)
    )
    assert value.tolist() == tangent.tolist()
