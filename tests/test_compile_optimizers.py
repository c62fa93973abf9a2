"""What compiled steps make of an optimizer's groups and state: what is there at each call."""

import copy
import pickle

import numpy as np
import pytest

import everyo as eo
from everyo.errors import CompileError
from everyo.optim import records

ADAM = {"lr": 0.1, "amsgrad": True}


def parameter(*values):
    return eo.nn.Parameter(np.array(values))


OTHER = parameter(1.0)


def ran(compiled, change, kind=eo.optim.Adam, steps=3, **options):
    """Return what steps before and behind a change of the optimizer leave, compiled or not."""
    p, q = parameter(1.0, 2.0), parameter(3.0, 4.0)
    optimizer = kind([p], **{**ADAM, **options} if kind is eo.optim.Adam else options)

    def step():
        optimizer.zero_grad()
        q.grad = None
        ((p * p).sum() + (q * q).sum()).backward()
        optimizer.step()

    f = eo.compile(step) if compiled else step
    for _ in range(2):
        f()
    change(optimizer, p, q)
    for _ in range(steps):
        f()
    return p.detach().numpy(), q.detach().numpy(), optimizer.state_dict()


def same(found, wanted):
    if isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key in wanted:
            same(found[key], wanted[key])
    elif isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            same(a, b)
    else:
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-12)


def clear(optimizer, p, q):
    optimizer.state.clear()


def pop(optimizer, p, q):
    optimizer.state.pop(p)


def replace(optimizer, p, q):
    optimizer.state[p] = {k: v * 0 for k, v in optimizer.state[p].items()}


def replace_all(optimizer, p, q):
    optimizer.state = {}


def lose_an_array(optimizer, p, q):
    del optimizer.state[p]["exp_avg"]


def zero_an_array(optimizer, p, q):
    optimizer.state[p]["exp_avg"] = optimizer.state[p]["exp_avg"] * 0


def count_anew(optimizer, p, q):
    optimizer.state[p]["step"] = 0


def other_parameter(optimizer, p, q):
    optimizer.param_groups[0]["params"][0] = q


def other_list(optimizer, p, q):
    optimizer.param_groups[0]["params"] = [q]


def other_group(optimizer, p, q):
    optimizer.param_groups[0] = {**optimizer.param_groups[0], "lr": 0.3}


def another_group(optimizer, p, q):
    optimizer.param_groups.append({**optimizer.param_groups[0], "params": [q], "lr": 0.5})


def one_beta(optimizer, p, q):
    optimizer.param_groups[0]["betas"][0] = 0.1


def other_decay(optimizer, p, q):
    optimizer.param_groups[0]["weight_decay"] = 0.5


def other_rate(optimizer, p, q):
    optimizer.param_groups[0]["lr"] = 0.5


def whole_rate(optimizer, p, q):
    optimizer.param_groups[0]["lr"] = 1


CHANGES = [
    clear, pop, replace, replace_all, lose_an_array, zero_an_array, count_anew, other_parameter, other_list,
    other_group, another_group, one_beta, other_decay, other_rate, whole_rate,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_a_change_between_calls_takes_effect(change):
    found, wanted = (ran(compiled, change, betas=[0.9, 0.999]) for compiled in (True, False))
    same(found, wanted)
    same_as_before = ran(False, lambda *_: None, betas=[0.9, 0.999])
    assert any((a != b).any() for a, b in zip(wanted[:2], same_as_before[:2], strict=True))


def test_states_that_change_places():
    def trained(compiled):
        p, q = parameter(1.0), parameter(5.0)
        optimizer = eo.optim.SGD([p, q], lr=0.125, momentum=0.5)

        def step():
            optimizer.zero_grad()
            (p.sum() + 3 * q.sum()).backward()
            optimizer.step()

        f = eo.compile(step) if compiled else step
        f()
        state = optimizer.state
        state[p], state[q] = state[q], state[p]
        f()
        return p.item(), q.item()

    # p: 1 - 1/8 - (3/2 + 1)/8; q: 5 - 3/8 - (1/2 + 3)/8
    assert trained(False) == trained(True) == (0.5625, 4.1875)


def test_a_step_stays_one_program():
    p = parameter(1.0)
    optimizer = eo.optim.Adam([p], betas=[0.9, 0.999])

    @eo.compile
    def step():
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()

    for rate in (0.1, 0.2, 0.3):
        optimizer.param_groups[0].update(lr=rate, betas=[0.9, 0.999], weight_decay=0.0)
        step()
    assert step.cache_info() == (2, 1, 1)
    assert optimizer.state_dict()["state"][0]["step"] == 3


# ---- changes inside the step


def rates(inside, options=None):
    """Return what three steps of gradient 1 leave of 1.0, and the rates behind them."""
    w = parameter(1.0)
    optimizer = eo.optim.SGD([w], **(options or {"lr": 0.5}))

    @eo.compile
    def step():
        inside(optimizer, "before")
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()
        inside(optimizer, "after")

    found = []
    for _ in range(3):
        step()
        found.append((w.item(), optimizer.param_groups[0]["lr"]))
    assert step.cache_info().misses == 1
    assert all(type(rate) is float for _, rate in found)
    return found


def halve(optimizer, when):
    if when == "after":
        optimizer.param_groups[0]["lr"] *= 0.5


def halve_before(optimizer, when):
    if when == "before":
        for group in optimizer.param_groups:
            group["lr"] = group.get("lr") * 0.5


def halve_by_update(optimizer, when):
    if when == "after":
        optimizer.param_groups[0].update(lr=dict(optimizer.param_groups[0])["lr"] / 2)


def halve_by_items(optimizer, when):
    group = optimizer.param_groups[0]
    if when == "after":
        group |= {k: v / 2 for k, v in group.items() if k == "lr"}


@pytest.mark.parametrize("inside", [halve, halve_by_update, halve_by_items])
def test_a_rate_that_decays_behind_each_step(inside):
    assert rates(inside) == [(0.5, 0.25), (0.25, 0.125), (0.125, 0.0625)]


def test_a_rate_that_decays_before_each_step():
    assert rates(halve_before) == [(0.75, 0.25), (0.625, 0.125), (0.5625, 0.0625)]


def test_a_rate_by_the_count_of_steps():
    def warm(optimizer, when):
        if when == "after":
            (state,) = optimizer.state.values()
            optimizer.param_groups[0]["lr"] = 0.25 * state["step"]

    assert rates(warm) == [(0.5, 0.25), (0.25, 0.5), (-0.25, 0.75)]


def test_a_rate_that_a_loop_inside_reads():
    found = []

    def inside(optimizer, when):
        halve(optimizer, when)
        if when == "after":
            group = optimizer.param_groups[0]
            found.append(eo.fori_loop(0, 2, lambda i, x: x + group["lr"], eo.asarray(np.array(0.0))))

    w = parameter(1.0)
    optimizer = eo.optim.SGD([w], lr=0.5)

    @eo.compile
    def step():
        inside(optimizer, "after")
        return found.pop(), optimizer.param_groups[0]["lr"]

    assert [[x.item() for x in step()] for _ in range(2)] == [[0.5, 0.25], [0.25, 0.125]]


def test_a_rate_is_a_number_where_nothing_is_traced():
    optimizer = eo.optim.SGD([parameter(1.0)], lr=0.5)
    group = optimizer.param_groups[0]
    eo.compile(lambda: eo.zeros(1) * group["lr"])()
    assert type(group["lr"]) is float
    assert not [name for name in records._METHODS if name in vars(records.Record)]
    assert "__setattr__" not in vars(eo.optim.Optimizer)


def after_steps(change, times, compiled):
    """Return a parameter and its momentum after steps that end with a change of what is kept of it."""
    p = parameter(1.0)
    optimizer = eo.optim.SGD([p], lr=0.125, momentum=0.5)

    def step():
        optimizer.zero_grad()
        p.sum().backward()
        optimizer.step()
        change(optimizer.state[p])

    f = eo.compile(step) if compiled else step
    for _ in range(times):
        f()
    return p.item(), optimizer.state[p]["momentum_buffer"].tolist()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_what_is_kept_may_be_written(compiled):
    def forget(memory):
        memory["momentum_buffer"] = memory["momentum_buffer"] * 0

    assert after_steps(forget, 3, compiled) == (0.625, [0.0])


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_an_array_that_is_kept_changes_in_place(compiled):
    def change(memory):
        kept = memory["momentum_buffer"]
        kept *= 4
        kept[0] = kept[0] + 1

    # the second buffer is 5/2 + 1, and then 15
    assert after_steps(change, 2, compiled) == (1 - 0.125 - 3.5 * 0.125, [15.0])


def test_a_number_that_was_read_is_its_own():
    def inside(optimizer, when):
        rate = optimizer.param_groups[0]["lr"]
        rate *= 0.5

    assert rates(inside) == [(0.5, 0.5), (0.0, 0.5), (-0.5, 0.5)]


def add_group(optimizer, p):
    optimizer.add_param_group({"params": [OTHER]})


def load(optimizer, p):
    optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0]}]})


def assign_state(optimizer, p):
    optimizer.state = {}


def delete_option(optimizer, p):
    del optimizer.param_groups[0]["lr"]


def set_momentum(optimizer, p):
    optimizer.param_groups[0]["momentum"] = 0.9


def set_note(optimizer, p):
    optimizer.param_groups[0].setdefault("initial_lr", 0.5)


def clear_state(optimizer, p):
    optimizer.state.clear()


def set_vector(optimizer, p):
    optimizer.param_groups[0]["lr"] = p * 1


REFUSED = [add_group, load, assign_state, delete_option, set_momentum, set_note, clear_state, set_vector]


@pytest.mark.parametrize("change", REFUSED, ids=lambda f: f.__name__)
def test_what_no_program_can_do_is_refused(change):
    p = parameter(1.0, 2.0)
    optimizer = eo.optim.SGD([p], lr=0.5, momentum=0.5)
    before = dict(optimizer.param_groups[0], params=None), optimizer.state
    with pytest.raises(CompileError):
        eo.compile(lambda: change(optimizer, p))()
    assert [{**group, "params": None} for group in optimizer.param_groups] == [before[0]]
    assert optimizer.state is before[1]
    change(optimizer, p)  # outside it is no matter


def test_a_rate_that_is_an_integer_is_no_place_for_others():
    with pytest.raises(CompileError, match=r"1\.0 in place of 1"):
        rates(halve_before, {"lr": 1})


def test_an_option_that_is_set_to_what_it_is():
    def inside(optimizer, when):
        optimizer.param_groups[0]["momentum"] = 0.0

    assert rates(inside) == [(0.5, 0.5), (0.0, 0.5), (-0.5, 0.5)]


def test_a_condition_on_the_rate_is_none_of_python():
    def inside(optimizer, when):
        if optimizer.param_groups[0]["lr"] < 0.1:
            raise AssertionError

    with pytest.raises(CompileError, match=r"eo\.where"):
        rates(inside)


def test_a_rate_that_becomes_a_tensor_and_a_number_again():
    w = parameter(1.0)
    optimizer = eo.optim.SGD([w], lr=0.5)

    @eo.compile
    def step():
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()
        return w * 1

    found = []
    for rate in (0.5, eo.asarray(np.array(0.25)), 0.125):
        optimizer.param_groups[0]["lr"] = rate
        found.append(step().item())
    assert found == [0.5, 0.25, 0.125]


def test_a_rate_that_becomes_an_array():
    w = eo.ones(1, dtype=eo.float32)
    optimizer = eo.optim.SGD([w], lr=0.5)
    f = eo.compile(lambda: w * optimizer.param_groups[0]["lr"])
    assert f().dtype == eo.float32
    optimizer.param_groups[0]["lr"] = np.array(0.25)
    y = f()
    assert (y.dtype, y.item()) == (eo.float64, 0.25)


def test_a_rate_that_the_body_of_a_loop_changes_is_refused():
    w = parameter(1.0)
    optimizer = eo.optim.SGD([w], lr=0.5)

    def decayed(i, x):
        optimizer.param_groups[0]["lr"] *= 0.5
        return x

    with pytest.raises(CompileError, match="in place"):
        eo.compile(lambda: eo.fori_loop(0, 2, decayed, w))()
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_an_optimizer_that_the_function_makes_begins_anew():
    w = parameter(1.0)

    def fitted():
        optimizer = eo.optim.SGD([w], lr=0.125, momentum=0.5)
        for _ in range(2):
            optimizer.zero_grad()
            w.sum().backward()
            optimizer.step()
            optimizer.param_groups[0]["lr"] *= 2
        optimizer.state.clear()

    f = eo.compile(fitted)
    for run in (fitted, f, f, f):
        before = w.item()
        run()
        assert w.item() == before - 0.5  # 1/8 and (1 + 1/2)/4
    assert f.cache_info().misses == 1


# ---- as containers


def test_copies_and_pickles_go_on():
    w = parameter(1.0)
    optimizer = eo.optim.SGD([w], lr=0.125, momentum=0.5)
    w.sum().backward()
    optimizer.step()
    for made in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        (p,) = made.param_groups[0]["params"]
        made.step()
        assert p.item() == 1 - 0.125 - 1.5 * 0.125
        assert type(made.state) is type(optimizer.state)


def test_state_is_a_pytree():
    w = parameter(1.0, 2.0)
    optimizer = eo.optim.SGD([w], lr=0.5, momentum=0.5)
    w.sum().backward()
    optimizer.step()
    found = eo.tree_map(lambda x: x * 2, optimizer.state[w])
    assert list(found) == ["step", "momentum_buffer"]
    assert (found["step"], found["momentum_buffer"].tolist()) == (2, [2.0, 2.0])


def kept(optimizer):
    return {p: {name: np.array(v) for name, v in state.items()} for p, state in optimizer.state.items()}


FAILURES = {
    "raises": lambda p: [][0],
    "returns no tensor": lambda p: object(),
    "looks at a value": lambda p: p.sum().item(),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize(
    ("kind", "options"), [(eo.optim.Adam, {"lr": 0.1}), (eo.optim.SGD, {"lr": 0.1, "momentum": 0.9})]
)
def test_a_step_that_cannot_be_compiled_leaves_the_state_as_it_was(kind, options, loop, failure):
    p, q = parameter(1.0, 2.0), parameter(3.0)
    optimizer = kind([p, q], **options)

    def step(fails):
        optimizer.zero_grad()
        (p * p).sum().backward()
        (q * q).sum().backward()
        optimizer.step()
        return FAILURES[failure](p) if fails else p * 1

    def outer(fails):
        if not loop:
            return step(fails)
        return eo.fori_loop(0, 1, lambda i, c: (step(fails), c)[1], eo.zeros(2))

    with pytest.raises((IndexError, CompileError)):
        eo.compile(lambda: outer(True))()
    assert not optimizer.state
    reference = kind([r := parameter(1.0, 2.0), s := parameter(3.0)], **options)
    for _ in range(2):
        step(False)
        reference.zero_grad()
        ((r * r).sum() + (s * s).sum()).backward()
        reference.step()
    before = kept(optimizer)
    with pytest.raises((IndexError, CompileError)):
        eo.compile(lambda: outer(True))()
    after = kept(optimizer)
    assert all(after[x].keys() == before[x].keys() for x in before)
    assert all((after[x][name] == before[x][name]).all() for x in before for name in before[x])
    compiled = eo.compile(lambda: step(False))
    for _ in range(2):
        compiled()
        reference.zero_grad()
        ((r * r).sum() + (s * s).sum()).backward()
        reference.step()
    np.testing.assert_allclose(p.detach().numpy(), r.detach().numpy(), rtol=1e-6)


def test_an_array_that_joins_others_does_not_join_where_a_step_cannot_be_compiled():
    p = parameter(1.0, 2.0)
    optimizer = eo.optim.Adam([p], lr=0.1)
    p.grad = eo.asarray(np.ones(2))
    optimizer.step()
    optimizer.param_groups[0]["amsgrad"] = True

    def step():
        optimizer.step()
        raise KeyError("no")

    with pytest.raises(KeyError):
        eo.compile(step)()
    assert set(optimizer.state[p]) == {"step", "exp_avg", "exp_avg_sq"}
    assert optimizer.state[p]["step"] == 1
