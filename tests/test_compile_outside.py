"""Compiled methods and modules, and tensors that a compiled function reaches from outside."""

import gc
import weakref

import numpy as np
import pytest

import everyo as eo
from everyo.core.traced import staging
from tests.compiling import agree, misses, tensor

# ---- methods, modules


class Scaler:
    def __init__(self, factor):
        self.factor = factor
        self.shift = eo.asarray([1.0, 2.0])

    @eo.compile
    def apply(self, x):
        return x * self.factor + self.shift

    @eo.compile(static_argnums=2)
    def power(self, x, n):
        for _ in range(n):
            x = x * self.shift
        return x


def test_methods_belong_to_their_instance():
    two, five = Scaler(2.0), Scaler(5.0)
    x = eo.asarray([1.0, 1.0])
    assert two.apply(x).tolist() == [3.0, 4.0]
    assert five.apply(x).tolist() == [6.0, 7.0]
    assert two.apply(x).tolist() == [3.0, 4.0]
    assert (misses(two.apply), misses(five.apply)) == (1, 1)
    assert two.power(x, 2).tolist() == [1.0, 4.0]
    assert two.power(x, 1).tolist() == [1.0, 2.0]


def test_a_compiled_method_keeps_no_instance_alive():
    scaler = Scaler(2.0)
    scaler.apply(eo.asarray([1.0, 1.0]))
    reference = weakref.ref(scaler)
    del scaler
    gc.collect()
    assert reference() is None


def test_modules():
    eo.manual_seed(0)
    model = eo.nn.Sequential(eo.nn.Linear(3, 4), eo.nn.ReLU(), eo.nn.Linear(4, 2))
    x = tensor(5, 3).astype(eo.float32)
    f = eo.compile(model)
    agree(f(x), model(x), ulps=256)
    f(x).sum().backward()
    compiled = [p.grad.numpy().copy() for p in model.parameters()]
    for p in model.parameters():
        p.grad = None
    model(x).sum().backward()
    for found, p in zip(compiled, model.parameters(), strict=True):
        np.testing.assert_allclose(found, p.grad.numpy(), rtol=1e-5, atol=1e-6)
    with eo.no_grad():
        for p in model.parameters():
            p *= 2
    agree(f(x), model(x), ulps=256)
    assert repr(f)


def test_the_mode_of_a_module_is_part_of_the_program():
    model = eo.nn.Sequential(eo.nn.Dropout(0.5))
    f, x = eo.compile(model), eo.ones(64)
    for training in (False, True, False, True):
        model.train(training)
        dropped = (f(x) == 0).sum().item()
        assert 0 < dropped < 64 if training else dropped == 0


# ---- tensors from outside


def test_captured_tensors_are_read_at_each_call():
    w = eo.asarray([1.0, 2.0])
    f = eo.compile(lambda x: x * w)
    x = eo.asarray([1.0, 1.0])
    assert f(x).tolist() == [1.0, 2.0]
    w += 10.0
    assert f(x).tolist() == [11.0, 12.0]
    w[0] = 0.0
    assert f(x).tolist() == [0.0, 12.0]
    assert misses(f) == 1


def test_captured_tensors_of_another_shape():
    box = {"w": eo.asarray([1.0, 2.0])}
    f = eo.compile(lambda x: x * box["w"])
    assert f(eo.asarray(2.0)).tolist() == [2.0, 4.0]
    box["w"].assign(eo.asarray([1.0, 2.0, 3.0]))
    assert f(eo.asarray(2.0)).tolist() == [2.0, 4.0, 6.0]


def test_updates_of_captured_tensors_are_written_back():
    count = eo.asarray(np.array(0))
    total = eo.asarray([0.0, 0.0])

    @eo.compile
    def f(x):
        nonlocal total
        count.assign(count + 1)
        total += x
        return total * 2

    for n in range(1, 4):
        assert f(eo.asarray([1.0, 2.0])).tolist() == [2.0 * n, 4.0 * n]
        assert (count.item(), total.tolist()) == (n, [1.0 * n, 2.0 * n])
    assert misses(f) == 1


def test_a_value_that_the_caller_kept_is_not_written_into():
    w = eo.asarray([1.0, 2.0])
    kept, before = w.detach(), w.data

    @eo.compile
    def f(x):
        w.assign(w + x)
        return w * 1

    f(eo.asarray([1.0, 1.0]))
    assert w.tolist() == [2.0, 3.0]
    assert kept.tolist() == [1.0, 2.0]
    assert before.tolist() == [1.0, 2.0]


def test_an_item_keeps_its_dtype():
    """As the state of an optimizer does, where an update is computed in a wider one."""
    state = {"m": np.zeros(3, np.float32)}

    @eo.compile
    def update(x):
        tracer = staging.get()
        tracer.put(state, "m", tracer.item(state, "m") + x)

    for _ in range(2):
        update(eo.asarray(np.array([0.5, 1.0, 1.5])))
    assert state["m"].dtype == np.float32
    assert state["m"].tolist() == [1.0, 2.0, 3.0]
    assert update.cache_info().misses == 1


def test_an_exception_leaves_the_old_state():
    w = eo.asarray([1.0, 2.0])

    def fail(x):
        raise RuntimeError("in the middle")

    @eo.compile
    def f(x, fails):
        w.assign(w + x)
        if fails:
            fail(x)
        return w * 1

    f_static = eo.compile(f.f, static_argnums=1)
    f_static(eo.asarray([1.0, 1.0]), False)
    assert w.tolist() == [2.0, 3.0]
    with pytest.raises(RuntimeError, match="in the middle"):
        f_static(eo.asarray([1.0, 1.0]), True)
    assert w.tolist() == [2.0, 3.0]
    assert not w.level
    f_static(eo.asarray([1.0, 1.0]), False)
    assert w.tolist() == [3.0, 4.0]


def test_an_exception_while_it_runs_leaves_the_old_state():
    w, generator = eo.asarray([1.0, 2.0]), eo.random.Generator(3)
    wrong = [False]

    class Shown:
        def __format__(self, spec):
            if wrong[0]:
                raise RuntimeError("while it runs")
            return "shown"

    @eo.compile
    def f(x):
        w.assign(w + x)
        eo.debug_print("{} {}", Shown(), x)
        w.assign(w + eo.random.normal(size=2, generator=generator) * 0)
        return w * 1

    x = eo.asarray([1.0, 1.0])
    f(x)
    wrong[0] = True
    with pytest.raises(RuntimeError, match="while it runs"):
        f(x)
    assert w.tolist() == [2.0, 3.0]
    wrong[0] = False
    assert f(x).tolist() == [3.0, 4.0]


def test_a_training_step():
    def train(compiled):
        eo.manual_seed(3)
        model = eo.nn.Sequential(eo.nn.Linear(3, 5), eo.nn.Tanh(), eo.nn.Dropout(0.25), eo.nn.Linear(5, 1))
        optimizer = eo.optim.Adam(model.parameters(), lr=0.05)
        x, y = tensor(8, 3).astype(eo.float32), tensor(8, 1, seed=1).astype(eo.float32)

        def step(x, y):
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = eo.compile(step) if compiled else step
        losses = [step(x, y).item() for _ in range(5)]
        return losses, [p.detach().numpy().copy() for p in model.parameters()]

    losses, parameters = train(True)
    wanted_losses, wanted = train(False)
    np.testing.assert_allclose(losses, wanted_losses, rtol=1e-4)
    for found, right in zip(parameters, wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-5)
    assert losses[-1] < losses[0]


def test_random_numbers_are_the_eager_ones():
    def draws(f):
        eo.manual_seed(5)
        return [f(eo.ones(6)).tolist() for _ in range(3)]

    def f(x):
        return eo.dropout(x, 0.5) + eo.random.uniform(size=6) * eo.random.normal(size=(2, 6)).sum(axis=0)

    assert draws(eo.compile(f)) == pytest.approx(np.array(draws(f)), rel=1e-6)
    generator = eo.random.Generator(1)

    def g(x):
        return x + eo.random.integers(0, 100, size=3, generator=generator)

    compiled, x = eo.compile(g), eo.zeros(3)
    for seed in (1, 2):
        generator.manual_seed(seed)
        wanted = [g(x).tolist() for _ in range(2)]
        generator.manual_seed(seed)
        assert [compiled(x).tolist() for _ in range(2)] == wanted
