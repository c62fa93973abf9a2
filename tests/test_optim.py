"""Optimizers: PyTorch's arithmetic, value semantics, groups, state, errors."""

import copy
import math
import pickle
import sys
import tracemalloc

import numpy as np
import pytest

import everyo as eo
from everyo.backends import accelerated
from everyo.optim import SGD, Adam, AdamW, Optimizer

RNG = np.random.default_rng(0)


def parameter(value=1.0, **options):
    return eo.tensor(value, dtype=eo.float64, requires_grad=True, **options)


def descend(optimizer, p, gradients):
    """Return the values of `p` after a step with each of `gradients`."""
    values = []
    for g in gradients:
        p.grad = eo.tensor(g, dtype=p.dtype)
        optimizer.step()
        values.append(p.detach().tolist())
    return values


# ---- arithmetic

ADAM_ROWS = [
    (Adam, {}, [0.900000002, 0.8733662987078463]),
    (Adam, {"weight_decay": 0.1}, [0.9000000016666666, 0.8544413674617625]),
    (AdamW, {"weight_decay": 0.1}, [0.890000002, 0.8544662986878463]),
    (Adam, {"eps": 1.0}, [0.9666666666666667, 0.9591221394991778]),
]


@pytest.mark.parametrize(("kind", "options", "expected"), ADAM_ROWS)
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_adam_arithmetic(kind, options, expected, shape):
    p = parameter(np.ones(shape))
    optimizer = kind([p], lr=0.1, **options)
    for g, value in zip([0.5, -0.25], expected):
        p.grad = eo.full(shape, g, dtype=eo.float64)
        optimizer.step()
        np.testing.assert_allclose(p.detach().numpy(), np.full(shape, value), rtol=1e-14)
        assert p.shape == shape


def sgd_by_hand(
    p, gradients, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False
):
    buffer, values = None, []
    for g in gradients:
        g = -g if maximize else g
        g = g + weight_decay * p
        if momentum:
            buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
            g = g + momentum * buffer if nesterov else buffer
        p = p - lr * g
        values.append(p)
    return values


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight_decay": 0.1},
        {"momentum": 0.9},
        {"momentum": 0.9, "dampening": 0.5},
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
        {"momentum": 0.5, "maximize": True, "weight_decay": 0.3},
    ],
)
def test_sgd_arithmetic(options):
    gradients = [0.5, -0.25, 1.0, 2.0]
    p = parameter()
    values = descend(SGD([p], lr=0.1, **options), p, gradients)
    np.testing.assert_allclose(values, sgd_by_hand(1.0, gradients, 0.1, **options), rtol=1e-14)


def test_the_first_sgd_step_has_no_dampening():
    p = parameter()
    assert descend(SGD([p], lr=0.5, momentum=0.9, dampening=1.0), p, [1.0]) == [0.5]


def test_amsgrad_keeps_the_largest_second_moment():
    p = parameter()
    values = descend(Adam([p], lr=0.1, amsgrad=True, eps=0.0, betas=(0.0, 0.5)), p, [1.0, 0.1])
    largest = 0.5  # after step 1; after step 2 it would be 0.255
    np.testing.assert_allclose(values, [0.9, 0.9 - 0.1 * 0.1 / math.sqrt(largest / 0.75)], rtol=1e-14)


def test_maximize_is_descent_on_the_negative():
    up, down = parameter(), parameter()
    climbed = descend(Adam([up], maximize=True), up, [0.5, -0.25])
    assert climbed == descend(Adam([down]), down, [-0.5, 0.25])


def test_amsgrad_switched_on_midway_keeps_the_count_of_steps():
    results = []
    for switched in (False, True):
        p = parameter([1.0, -2.0])
        optimizer = Adam([p], lr=0.1)
        for step in range(5):
            optimizer.param_groups[0]["amsgrad"] = switched and step == 4
            p.grad = eo.tensor([1.0, 3.0], dtype=eo.float64)
            optimizer.step()
        results.append(p.tolist())
    assert results[0] == results[1]  # the moments only grow here, so that amsgrad changes nothing


def test_the_first_step_starts_from_the_gradient_itself():
    p = parameter()
    optimizer = SGD([p], momentum=0.9, lr=0.1)
    assert descend(optimizer, p, [math.inf]) == [-math.inf]


def test_float32_stays_float32_and_trains():
    eo.manual_seed(0)
    model = eo.nn.Linear(3, 1)
    x = eo.random.normal(size=(64, 3))
    y = x @ eo.tensor([[1.0], [-2.0], [0.5]]) + 0.3
    for optimizer in (Adam(model.parameters(), lr=0.05), SGD(model.parameters(), lr=0.1, momentum=0.9)):
        for _ in range(150):
            optimizer.zero_grad()
            loss = eo.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        assert loss.item() < 1e-4
    assert {p.dtype for p in model.parameters()} == {eo.float32}


# ---- value semantics


def test_a_step_never_changes_an_array_that_somebody_else_holds():
    p = parameter([1.0, 2.0])
    optimizer = SGD([p], lr=1.0)
    square = p * p  # its graph saved the value of p
    detached, view, slice_ = p.detach(), p.detach().numpy(), p.detach()[1:]
    p.grad = eo.ones(2, dtype=eo.float64)
    optimizer.step()
    assert p.detach().tolist() == [0.0, 1.0]
    assert detached.tolist() == [1.0, 2.0]
    assert view.tolist() == [1.0, 2.0]
    assert slice_.tolist() == [2.0]
    p.grad = None
    square.sum().backward()
    assert p.grad.tolist() == [2.0, 4.0]


def test_a_step_does_not_write_into_memory_shared_with_numpy():
    array = np.array([1.0, 2.0])
    p = eo.from_numpy(array).requires_grad_()
    optimizer = SGD([p], lr=1.0)
    for _ in range(2):
        p.grad = eo.ones(2, dtype=eo.float64)
        optimizer.step()
    assert array.tolist() == [1.0, 2.0]
    assert p.detach().tolist() == [-1.0, 0.0]


def test_a_buffer_that_nobody_else_holds_is_reused():
    p = parameter(np.ones(1000))
    optimizer = Adam([p], lr=0.1)
    p.grad = eo.ones(1000, dtype=eo.float64)
    optimizer.step()
    place = id(p.data)
    optimizer.step()
    assert id(p.data) == place


def test_gradients_are_never_changed():
    p = parameter([1.0, 2.0])
    for optimizer in (SGD([p], lr=0.1, momentum=0.9, weight_decay=0.1), Adam([p], weight_decay=0.1)):
        p.grad = eo.tensor([3.0, 4.0], dtype=eo.float64)
        for _ in range(3):
            optimizer.step()
        assert p.grad.tolist() == [3.0, 4.0]


def test_the_same_leaf_goes_on_recording_after_a_step():
    p = parameter([2.0])
    node = p.grad_node
    p.grad = eo.ones(1, dtype=eo.float64)
    SGD([p], lr=0.5).step()
    assert p.grad_node is node
    p.grad = None
    (p * p).backward()
    assert p.grad.tolist() == [3.0]


@pytest.mark.parametrize("transposed", [False, True])
def test_large_parameters_are_updated_in_blocks_with_the_same_result(transposed, monkeypatch):
    monkeypatch.setattr(accelerated, "LARGE", sys.maxsize)  # no generated loop, whose results are as exact
    start, slope = RNG.normal(size=(300, 400)), RNG.normal(size=(2, 300, 400))
    p = parameter(start)
    parts = [parameter(row) for row in start]
    whole, single = (Adam(ps, lr=0.1, weight_decay=0.1, amsgrad=True) for ps in ([p], parts))
    for g in slope:
        p.grad = eo.asarray(g.T.copy()).T if transposed else eo.asarray(g)
        for row, part in zip(g, parts):
            part.grad = eo.asarray(row)
        whole.step()
        single.step()
    np.testing.assert_array_equal(p.detach().numpy(), [part.tolist() for part in parts])


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_a_step_needs_little_memory_of_its_own(kind):
    p = parameter(np.ones((1000, 1000)))
    p.grad = eo.ones((1000, 1000), dtype=eo.float64)
    optimizer = kind([p])
    optimizer.step()
    tracemalloc.start()
    optimizer.step()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.2 * p.nbytes


# ---- groups and stepping


def test_parameters_without_gradient_are_skipped():
    a, b = parameter(), parameter()
    optimizer = Adam([a, b], lr=0.1)
    a.grad = eo.tensor(1.0, dtype=eo.float64)
    optimizer.step()
    assert b.item() == 1.0
    assert b not in optimizer.state


def test_groups_have_their_own_options_and_take_changes():
    a, b = parameter(), parameter()
    optimizer = SGD([{"params": [a], "lr": 0.5}, {"params": b}], lr=0.1)
    for p in (a, b):
        p.grad = eo.tensor(1.0, dtype=eo.float64)
    optimizer.step()
    assert (a.item(), b.item()) == (0.5, 0.9)
    optimizer.param_groups[1]["lr"] = 0.4
    optimizer.step()
    assert (a.item(), b.item()) == (0.0, 0.5)


def test_named_parameters_are_accepted():
    model = eo.nn.Linear(2, 2)
    assert SGD(model.named_parameters()).param_groups[0]["params"] == list(model.parameters())


def test_zero_grad():
    p = parameter()
    optimizer = SGD([p])
    p.grad = eo.tensor(math.inf, dtype=eo.float64)
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.item() == 0.0
    optimizer.zero_grad()
    assert p.grad is None


def test_the_closure_is_recorded_even_under_no_grad_and_its_loss_returned():
    p = parameter()
    optimizer = SGD([p], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = p * p
        loss.backward()
        return loss

    with eo.no_grad():
        loss = optimizer.step(closure)
    assert loss.item() == 1.0
    assert p.item() == pytest.approx(0.8)


# ---- state


def gradient_sequence(p, n, start=0):
    return [eo.tensor(np.cos(np.arange(3.0) + i), dtype=p.dtype) for i in range(start, start + n)]


@pytest.mark.parametrize(
    "make",
    [
        lambda p: SGD([p], lr=0.1, momentum=0.9),
        lambda p: Adam([p], lr=0.1, amsgrad=True),
        lambda p: AdamW([p], lr=0.1),
    ],
)
@pytest.mark.parametrize("carry", [lambda s: s, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_state_dict_continues_a_run_exactly(make, carry):
    p = parameter([1.0, 2.0, 3.0])
    optimizer = make(p)
    for g in gradient_sequence(p, 3):
        p.grad = g
        optimizer.step()
    saved, value = optimizer.state_dict(), p.detach()
    for g in gradient_sequence(p, 3, 3):
        p.grad = g
        optimizer.step()
    q = parameter(value)
    other = make(q)
    other.param_groups[0]["lr"] = 99.0
    other.load_state_dict(carry(saved))
    assert other.param_groups[0]["lr"] == 0.1
    for g in gradient_sequence(q, 3, 3):
        q.grad = g
        other.step()
    assert q.detach().tolist() == p.detach().tolist()


def test_state_dict_has_the_known_layout():
    p = parameter([1.0])
    optimizer = Adam([p], lr=0.1)
    p.grad = eo.ones(1, dtype=eo.float64)
    optimizer.step()
    state = optimizer.state_dict()
    assert state["param_groups"][0]["params"] == [0]
    assert state["param_groups"][0]["betas"] == (0.9, 0.999)
    assert state["state"][0]["step"] == 1
    assert state["state"][0]["exp_avg"].tolist() == pytest.approx([0.1])


@pytest.mark.parametrize(
    "bad",
    [
        {},
        [],
        {"state": {}, "param_groups": []},
        {"state": {}, "param_groups": [{"params": [0, 1]}]},
        {"state": {7: {}}, "param_groups": [{"params": [0]}]},
        {"state": {0: {"step": 1, "exp_avg": np.zeros(5)}}, "param_groups": [{"params": [0]}]},
        {"state": {0: {"step": 1, "exp_avg": "a"}}, "param_groups": [{"params": [0]}]},
        {"state": {0: {"exp_avg": np.zeros(1)}}, "param_groups": [{"params": [0]}]},
        {"state": {0: {"step": 2.5}}, "param_groups": [{"params": [0]}]},
        SGD([eo.ones(1).requires_grad_()], momentum=0.9).state_dict(),
    ],
)
def test_loading_a_state_that_does_not_fit_changes_nothing(bad):
    p = parameter([1.0])
    optimizer = Adam([p], lr=0.1)
    p.grad = eo.ones(1, dtype=eo.float64)
    optimizer.step()
    before = optimizer.state_dict()
    with pytest.raises(eo.SerializationError, match=r"Adam\.load_state_dict"):
        optimizer.load_state_dict(bad)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    assert after["state"][0]["exp_avg"].tolist() == before["state"][0]["exp_avg"].tolist()


def test_options_are_checked_when_they_are_loaded():
    p = parameter()
    optimizer = SGD([p])
    with pytest.raises(eo.ArgumentError, match="lr is out of range"):
        optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0], "lr": -1.0}]})
    assert optimizer.param_groups[0]["lr"] == 1e-3


def test_model_and_optimizer_are_copied_together():
    model = eo.nn.Linear(1, 1)
    optimizer = SGD(model.parameters(), momentum=0.9)
    model(eo.ones((1, 1))).backward()
    optimizer.step()
    twin, twin_optimizer = copy.deepcopy((model, optimizer))
    assert twin_optimizer.param_groups[0]["params"] == list(twin.parameters())
    assert set(map(id, twin_optimizer.state)) == set(map(id, twin.parameters()))


# ---- errors


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: SGD([p], lr=-1.0), "lr is out of range"),
        (lambda p: SGD([p], lr=math.nan), "lr is out of range"),
        (lambda p: SGD([p], momentum=-0.1), "momentum is out of range"),
        (lambda p: SGD([p], weight_decay=-0.1), "weight_decay is out of range"),
        (lambda p: SGD([p], nesterov=True), "nesterov needs momentum"),
        (lambda p: SGD([p], nesterov=True, momentum=0.9, dampening=0.1), "nesterov needs momentum"),
        (lambda p: Adam([p], betas=(1.0, 0.9)), r"betas\[0\] is out of range"),
        (lambda p: Adam([p], betas=(0.9, -0.1)), r"betas\[1\] is out of range"),
        (lambda p: Adam([p], eps=-1e-8), "eps is out of range"),
        (lambda p: Adam([p], betas=(0.9,)), "betas are two numbers"),
        (lambda p: Adam([p], betas=0.9), "betas are two numbers"),
        (lambda p: Adam([p], lr="fast"), "lr is out of range"),
        (lambda p: SGD([p], lr=eo.tensor(0.1)), "lr is out of range"),
        (lambda p: AdamW([p], lr=math.inf), "AdamW: lr is out of range"),
        (lambda p: SGD([]), "nothing to optimize"),
        (lambda p: SGD([p, p]), "given twice"),
        (lambda p: SGD([{"params": [p]}, {"params": [p]}]), "given twice"),
        (lambda p: SGD([{"params": [p], "rate": 1}]), "unknown option 'rate'"),
        (lambda p: SGD([{"lr": 1.0}]), "names no parameters"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(eo.ArgumentError, match=message) as caught:
        make(parameter())
    assert isinstance(caught.value, ValueError)


def test_wrong_parameters():
    p = parameter([1.0, 2.0])
    with pytest.raises(eo.GraphStateError, match="only a leaf"):
        SGD([p * 2])
    with pytest.raises(eo.DTypeError, match="iterable"):
        SGD(p)
    with pytest.raises(eo.DTypeError, match="only tensors"):
        SGD([1.0])
    with pytest.raises(eo.DTypeError, match=r"model\.parameters\(\)"):
        SGD(eo.nn.Linear(1, 1))
    with pytest.raises(eo.DTypeError, match=r"model\.parameters\(\)"):
        SGD(eo.nn.Sequential(eo.nn.Linear(1, 1)))
    with pytest.raises(eo.DTypeError, match="a group is a dict"):
        SGD([{"params": [p]}, parameter()])
    with pytest.raises(eo.DTypeError, match="complex"):
        Adam([eo.tensor([1j], requires_grad=True)])


def test_a_gradient_that_does_not_fit_changes_no_parameter():
    a, b = parameter([1.0]), parameter([1.0, 2.0])
    a.grad, b.grad = eo.ones(1, dtype=eo.float64), eo.ones(1, dtype=eo.float64)
    with pytest.raises(eo.ShapeError, match=r"SGD\.step"):
        SGD([a, b], lr=0.1).step()
    assert a.item() == 1.0


def test_complex_parameters_descend():
    z = eo.tensor([3.0 + 4.0j], dtype=eo.complex128, requires_grad=True)
    optimizer = SGD([z], lr=0.25)
    (z * z.conj()).real.sum().backward()  # the gradient of |z|**2 is 2 z
    optimizer.step()
    assert z.detach().tolist() == [1.5 + 2.0j]


def test_an_update_rule_is_all_that_a_new_optimizer_needs():
    class Sign(Optimizer):
        def update(self, value, gradient, state, group):
            return value - group["lr"] * eo.sign(gradient).data

    p = parameter([1.0, -1.0])
    assert descend(Sign([p], {"lr": 0.5}), p, [[3.0, -2.0]]) == [[0.5, -0.5]]
    assert "group 0: 1 tensors, lr=0.5" in repr(Sign([p], {"lr": 0.5}))
