"""Training steps that are compiled whole: the same numbers as eager ones; what is held stays as it was."""

import numpy as np
import pytest

import everyo as eo

OPTIMIZERS = {
    "sgd": lambda p: eo.optim.SGD(p, lr=0.1),
    "momentum": lambda p: eo.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, dampening=0.1),
    "nesterov": lambda p: eo.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: eo.optim.Adam(p, lr=0.01),
    "adamw": lambda p: eo.optim.AdamW(p, lr=0.01, amsgrad=True),
}


def trained(optimizer, compiled, steps=6):
    """Return losses, parameters and counts; the rate changes after three steps, dropout ends after four."""
    eo.manual_seed(0)
    model = eo.nn.Sequential(eo.nn.Linear(6, 8), eo.nn.ReLU(), eo.nn.Dropout(0.3), eo.nn.Linear(8, 3))
    updates = optimizer(model.parameters())
    rng = np.random.default_rng(0)
    x = eo.asarray(rng.normal(size=(10, 6)).astype(np.float32))
    y = eo.asarray(rng.integers(0, 3, 10))

    def step(x, y):
        updates.zero_grad()
        loss = eo.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        updates.step()
        return loss

    run = eo.compile(step) if compiled else step
    eo.manual_seed(1)
    losses = []
    for i in range(steps):
        if i == 3:
            updates.param_groups[0]["lr"] *= 0.5
        if i == 4:
            model.eval()
        losses.append(run(x, y).item())
    counts = [state["step"] for state in updates.state.values()]
    return losses, [p.detach().numpy() for p in model.parameters()], counts


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_compiled_step_is_an_eager_step(name):
    eager, compiled = trained(OPTIMIZERS[name], False), trained(OPTIMIZERS[name], True)
    np.testing.assert_allclose(compiled[0], eager[0], rtol=2e-6)
    for a, b in zip(compiled[1], eager[1]):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
    assert compiled[2] == eager[2] == [6] * len(eager[2])


def descent(size):
    """Return a parameter and a compiled step of gradient descent on it."""
    w = eo.asarray(np.random.default_rng(0).normal(size=(size, 100))).requires_grad_()

    @eo.compile
    def step(x):
        w.grad = None
        loss = ((x @ w) ** 2).mean()
        loss.backward()
        with eo.no_grad():
            w.__isub__(0.1 * w.grad)
        return loss

    return w, step


def test_arrays_that_somebody_holds_are_not_written_again():
    w, step = descent(200)
    x = eo.asarray(np.random.default_rng(1).normal(size=(50, 200)))
    held = []
    for _ in range(6):
        step(x)
        held.append((w.detach(), w.grad, w.detach().numpy().copy(), w.grad.numpy().copy()))
    for value, gradient, value_then, gradient_then in held:
        np.testing.assert_array_equal(value.numpy(), value_then)
        np.testing.assert_array_equal(gradient.numpy(), gradient_then)


def test_a_view_of_what_somebody_holds_is_not_written_again():
    whole = np.ones(40_000)
    w, x = eo.from_numpy(whole[::2]), eo.ones(20_000, dtype=eo.float64)
    v = eo.from_numpy(whole[20_000:])
    assert w.data.base is whole

    @eo.compile
    def step(x):
        w.assign(w + x)
        v.assign(v + x)

    for _ in range(4):
        step(x)
    assert (w.numpy() == 5.0).all()
    assert (v.numpy() == 5.0).all()
    assert (whole == 1.0).all()


def test_a_view_that_a_product_replaces_is_not_written_again():
    whole = np.ones((400, 200))
    w, double = eo.from_numpy(whole[:200]), eo.asarray(2 * np.eye(200))

    @eo.compile
    def step(x):
        w.assign(double @ w)
        return w.sum() + x

    for _ in range(4):
        step(eo.ones(()))
    assert (w.numpy() == 16.0).all()
    assert (whole == 1.0).all()


def test_an_exception_leaves_parameters_and_gradients_as_they_were():
    w = eo.asarray(np.random.default_rng(0).normal(size=(8, 3))).requires_grad_()
    updates = eo.optim.Adam([w], lr=0.1)

    @eo.compile
    def step(x, i):
        updates.zero_grad()
        loss = ((x @ w) ** 2)[i].sum()
        loss.backward()
        updates.step()
        return loss

    x, rows = eo.asarray(np.random.default_rng(1).normal(size=(5, 8))), eo.asarray(np.array([0, 2]))
    step(x, rows)
    before, gradient = w.detach().numpy().copy(), w.grad.numpy().copy()
    moments = {k: np.copy(v) for k, v in updates.state[w].items()}
    failures = [
        (eo.ShapeError, (eo.ones((5, 9), dtype=eo.float64), rows)),  # while the function is traced
        (eo.IndexingError, (x, eo.asarray(np.array([0, 5])))),  # while the program runs
    ]
    for kind, arguments in failures:
        with pytest.raises(kind):
            step(*arguments)
        np.testing.assert_array_equal(w.detach().numpy(), before)
        np.testing.assert_array_equal(w.grad.numpy(), gradient)
        assert all(np.array_equal(updates.state[w][k], v) for k, v in moments.items())


@pytest.mark.parametrize("batch", [(), (3,)])
def test_transposed_products(batch):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(*batch, 40, 30)), rng.normal(size=(*batch, 30, 50))
    c = eo.asarray(a), eo.asarray(b)
    product = np.swapaxes(a @ b, -1, -2)
    alone = eo.compile(lambda a, b: eo.matrix_transpose(a @ b))(*c)
    np.testing.assert_allclose(alone.numpy(), product, rtol=1e-12, atol=1e-12)
    both = eo.compile(lambda a, b: (lambda p: (p, eo.sin(eo.matrix_transpose(p))))(a @ b))(*c)
    np.testing.assert_allclose(both[0].numpy(), a @ b, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(both[1].numpy(), np.sin(product), rtol=1e-11, atol=1e-12)
    twice = eo.compile(lambda a, b: eo.matrix_transpose(eo.matrix_transpose(b) @ eo.matrix_transpose(a)))(*c)
    np.testing.assert_allclose(twice.numpy(), a @ b, rtol=1e-12, atol=1e-12)


def test_a_method_of_an_instance_that_nobody_else_holds():
    class Scaled:
        def __init__(self, scale):
            self.scale = eo.asarray(np.float64(scale))

        @eo.compile
        def apply(self, x):
            return x * self.scale

    x = eo.asarray(np.array([1.0, 2.0]))
    assert Scaled(2.0).apply(x).tolist() == [2.0, 4.0]
    assert Scaled(3.0).apply(x).tolist() == [3.0, 6.0]
    method = Scaled(4.0).apply
    assert method(x).tolist() == method(x).tolist() == [4.0, 8.0]
    assert method.cache_info().misses == 1
