"""What compiled functions read and change outside: gradients, state, arguments; when they compile again."""

import copy
import types

import numpy as np
import pytest

import everyo as eo
from everyo.errors import CompileError, UnsupportedOperationError
from tests.compiling import agree, same

ROWS = np.array([[1.0, 2.0], [3.0, 4.0]])
X = eo.asarray(ROWS)
SUMS = ROWS.sum(axis=0)  # the gradient of (X @ w).sum()


def parameter(*values):
    return eo.asarray(np.array(values)).requires_grad_()


def linear_step(w):
    @eo.compile
    def step(x):
        loss = (x @ w).sum()
        loss.backward()
        return loss

    return step


# ---- gradients


def test_gradients_add_up_over_calls():
    w = parameter(1.0, 1.0)
    step = linear_step(w)
    for count in (1, 2, 3):
        step(X)
        np.testing.assert_array_equal(w.grad.numpy(), count * SUMS)
    w.grad = None
    step(X)
    np.testing.assert_array_equal(w.grad.numpy(), SUMS)
    assert not w.grad.requires_grad
    assert step.cache_info() == (2, 2, 2)  # one program for a first gradient, one that adds


def test_gradients_add_up_where_one_was_there_before_the_trace():
    w = parameter(1.0, 1.0)
    w.grad = eo.asarray(np.array([10.0, 20.0]))
    step = linear_step(w)
    step(X)
    np.testing.assert_array_equal(w.grad.numpy(), SUMS + [10, 20])


def test_a_step_that_clears_its_gradients_first_is_one_program():
    w = parameter(1.0, 1.0)

    @eo.compile
    def step(x):
        w.grad = None
        loss = (x @ w).sum()
        loss.backward()
        return loss

    for _ in range(3):
        step(X)
        np.testing.assert_array_equal(w.grad.numpy(), SUMS)
    assert step.cache_info().misses == 1


def test_gradients_are_cleared_at_each_call():
    w = parameter(1.0, 1.0)
    optimizer = eo.optim.SGD([w], lr=0.1)

    @eo.compile
    def clear(x):
        optimizer.zero_grad()
        return x * 1

    for _ in range(3):
        w.grad = eo.asarray(SUMS)
        clear(X)
        assert w.grad is None


def test_an_update_skips_parameters_without_gradient_at_each_call():
    a, b = parameter(1.0), parameter(1.0)
    optimizer = eo.optim.SGD([a, b], lr=1.0)

    @eo.compile
    def update():
        optimizer.step()
        return eo.zeros(())

    a.grad = eo.asarray(np.array([0.25]))
    update()
    assert (a.detach().tolist(), b.detach().tolist()) == ([0.75], [1.0])
    b.grad = eo.asarray(np.array([0.5]))
    update()
    assert (a.detach().tolist(), b.detach().tolist()) == ([0.5], [0.5])


def test_a_gradient_that_is_read_is_the_one_of_the_call():
    w = parameter(1.0, 1.0)
    f = eo.compile(lambda x: (x @ w).sum() + (w.grad * 2).sum())
    for g in (1.0, 5.0):
        w.grad = eo.asarray(np.full(2, g))
        assert f(X).item() == 10 + 4 * g


def test_second_derivatives_on_the_tape_inside():
    def penalty(x, w):
        (g,) = eo.autograd.grad(((x @ w) ** 3).sum(), w, create_graph=True)
        return (g**2).sum()

    gradients = []
    for compiled in (False, True):
        w = parameter(1.0, -0.5)

        def inside(x, w=w):
            loss = penalty(x, w)
            loss.backward()
            return loss

        def outside(x, w=w):
            return penalty(x, w)

        if compiled:
            inside, outside = eo.compile(inside), eo.compile(outside)
        inside(X)
        first, w.grad = w.grad, None
        outside(X).backward()
        gradients.append((first, w.grad))
    agree(gradients[1][0], gradients[0][0])
    agree(gradients[1][1], gradients[0][0])
    agree(gradients[0][1], gradients[0][0])


def test_freezing_a_parameter_is_noticed():
    a, b = parameter(1.0, 1.0), parameter(2.0, 2.0)
    step = linear_step_of_product(a, b)
    for frozen in (b, a, None, b):
        for w in (a, b):
            w.requires_grad_(w is not frozen)
            w.grad = None
        step(X)
        assert (a.grad is None, b.grad is None) == (frozen is a, frozen is b)


def linear_step_of_product(a, b):
    @eo.compile
    def step(x):
        loss = (x @ (a * b)).sum()
        loss.backward()
        return loss

    return step


def test_a_body_that_asks_for_a_gradient_is_traced_again_when_there_is_one():
    w = parameter(1.0)

    @eo.compile
    def count(x):
        return eo.scan(lambda c, t: (c + (1 if w.grad is None else 2), None), x, length=3)[0]

    zero = eo.asarray(0.0)
    assert count(zero).item() == 3.0
    w.grad = eo.asarray(np.ones(1))
    assert count(zero).item() == 6.0


def test_a_leaf_from_inside_has_no_gradient_before():
    @eo.compile
    def inside(x):
        leaf = eo.tensor([1.0, 1.0], requires_grad=True, dtype=eo.float64)
        (x @ leaf).sum().backward()
        return leaf.grad

    for _ in range(3):
        np.testing.assert_array_equal(inside(X).numpy(), SUMS)
    assert inside.cache_info().misses == 1


def test_gradients_are_watched_while_a_function_is_traced_only():
    kinds = []

    @eo.compile
    def f(x):
        kinds.append(type(vars(eo.Tensor)["grad"]))
        return x * 2

    for _ in range(2):
        f(X)
        kinds.append(type(vars(eo.Tensor)["grad"]))
    assert kinds == [property, types.MemberDescriptorType, types.MemberDescriptorType]


VECTORIZED = {
    "vmap": lambda f: eo.vmap(f)(eo.stack([X, X])),
    "jvp": lambda f: eo.jvp(f, (X,), (X,)),
}


@pytest.mark.parametrize("name", VECTORIZED)
def test_a_transformation_refuses_a_step_that_leaves_gradients(name):
    w = parameter(1.0, 1.0)
    with pytest.raises(
        UnsupportedOperationError, match=f"{name}: a compiled function that changes what is outside"
    ):
        VECTORIZED[name](linear_step(w))
    assert w.grad is None


# ---- state


def test_what_is_written_outside_keeps_its_graph():
    w, s = parameter(1.0, 2.0), eo.asarray(np.zeros(2))

    @eo.compile
    def write(x):
        s[...] = w * x
        return x * 1

    write(eo.asarray(np.array([3.0, 4.0])))
    (s * 2).sum().backward()
    assert w.grad.tolist() == [6.0, 8.0]


def test_what_depends_on_an_argument_keeps_its_graph_over_calls():
    """s = 0.5 s + x twice: 1.5 x; the sum of s * s each time, and of s * x behind both."""
    s = eo.asarray(np.zeros(2))

    @eo.compile
    def average(x):
        s[...] = s * 0.5 + x
        return (s * s).sum()

    x = parameter(1.0, 3.0)
    (average(x) + average(x) + (s * x).sum()).backward()
    assert s.requires_grad
    assert x.grad.tolist() == [9.5, 28.5]  # 2 x (1 + 1.5 ** 2) + 2 * 1.5 x
    with eo.no_grad():
        average(x)
    assert not s.requires_grad


def test_a_state_with_a_graph_does_not_leave_grad():
    total = eo.asarray(np.zeros(()))
    add = eo.compile(lambda x: total.__iadd__((x * x).sum()))

    def added(x):
        add(x)
        return total * 1

    with pytest.raises(UnsupportedOperationError, match="changed 1 captured tensor"):
        eo.grad(added)(X)
    assert total.item() == 0.0


def test_a_gradient_with_a_graph_keeps_it():
    w = parameter(1.0, 2.0)
    x = eo.asarray(np.array([3.0, 4.0]))

    @eo.compile
    def cubes(x):
        w.grad = None
        (w**3 * x).sum().backward(create_graph=True)

    cubes(x)
    gradient, w.grad = w.grad, None
    assert gradient.tolist() == [9.0, 48.0]  # 3 w^2 x
    (gradient * gradient).sum().backward()
    assert w.grad.tolist() == [2 * 9 * 18.0, 2 * 48 * 48.0]  # 2 (3 w^2 x) (6 w x)


def test_what_is_detached_inside_leads_nowhere():
    x, k = parameter(1.0, 2.0), eo.asarray(np.ones(1))

    @eo.compile
    def parts(x, k):
        with eo.no_grad():
            constant = x * 3
        return x * 2, x * k, (x * x).detach(), constant, eo.argmax(x), k * 2.0

    found = parts(x, k)
    assert [t.requires_grad for t in found] == [True, True, False, False, False, False]
    assert found[2].numpy().tolist() == [1.0, 4.0]


@pytest.mark.parametrize("name", ["jvp", "vmap", "jacobian"])
def test_a_function_compiled_inside_reaches_what_is_transformed_around_it(name):
    x, w = eo.asarray(np.array([1.0, 2.0, 3.0])), eo.asarray(np.array([2.0, 1.0, 0.5]))

    def outer(w):
        return eo.compile(lambda x: (w * x).sum() ** 2)(x)

    if name == "vmap":
        assert eo.vmap(outer)(eo.stack([w, 2 * w])).tolist() == [5.5**2, 11.0**2]
    elif name == "jvp":
        assert [t.item() for t in eo.jvp(outer, (w,), (eo.ones_like(w),))] == [5.5**2, 2 * 5.5 * 6]
    else:
        assert eo.jacobian(outer)(w).tolist() == [11.0, 22.0, 33.0]


def test_a_captured_tensor_that_is_changed_and_returned():
    c = eo.asarray(np.zeros(2))

    @eo.compile
    def count(x):
        c.__iadd__(x)
        return c

    for n in (1, 2, 3):
        assert count(eo.asarray(np.ones(2))).tolist() == [n, n]
        assert c.tolist() == [n, n]


@pytest.mark.parametrize("name", VECTORIZED)
def test_a_transformation_gives_a_captured_tensor_its_value_back(name):
    total = eo.asarray(np.zeros(2))

    @eo.compile
    def add(x):
        total.__iadd__(x.sum(axis=0))
        return total * 2

    with pytest.raises(UnsupportedOperationError, match="changed 1 captured tensor"):
        VECTORIZED[name](add)
    assert total.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("kind", ["scan", "cond"])
def test_the_mode_of_a_module_in_a_body_is_noticed(kind):
    drop = eo.nn.Dropout(0.5)
    ones = eo.asarray(np.ones((3, 2)))
    f = {
        "scan": lambda x: eo.scan(lambda c, t: (c + drop(t), c), x[0], x)[0],
        "cond": lambda x: eo.cond(x.sum() > 0, drop, lambda x: x, x),
    }[kind]
    compiled = eo.compile(f)
    for training in (True, False, True, False):
        drop.train(training)
        eo.manual_seed(1)
        wanted = f(ones)
        eo.manual_seed(1)
        agree(compiled(ones), wanted)
    assert compiled.cache_info().misses == 2


def test_a_compiled_step_in_a_compiled_function():
    def run(compile):
        w = parameter(1.0, -1.0)
        optimizer = eo.optim.Adam([w], lr=0.1)

        @compile
        def step(x):
            optimizer.zero_grad()
            loss = ((x @ w) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        twice = compile(lambda x: step(x) + 2 * step(x))
        losses = [twice(X), step(X), twice(X)]
        return losses, w.detach(), optimizer.state[w]["step"]

    agree(run(eo.compile)[:2], run(lambda f: f)[:2])
    assert run(eo.compile)[2] == 5


def test_a_state_that_was_loaded_is_the_one_that_goes_on():
    def run(compiled):
        w = parameter(1.0, -1.0)
        optimizer = eo.optim.Adam([w], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = ((x @ w) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        step = eo.compile(step) if compiled else step
        step(X)
        saved = copy.deepcopy(optimizer.state_dict())
        losses = [step(X), step(X)]
        optimizer.load_state_dict(saved)
        losses += [step(X), step(X)]
        return losses, w.detach(), [state["step"] for state in optimizer.state.values()]

    eager, compiled = run(False), run(True)
    agree(compiled[:2], eager[:2])
    assert compiled[2] == eager[2] == [3]


def test_a_group_that_joins_is_updated():
    a, b = parameter(1.0, 1.0), parameter(1.0, 1.0)
    optimizer = eo.optim.SGD([a], lr=0.5)

    @eo.compile
    def step(x):
        optimizer.zero_grad()
        loss = (x @ a).sum() + (x @ b).sum()
        loss.backward()
        optimizer.step()
        return loss

    step(X)
    b.grad = None
    optimizer.add_param_group({"params": [b], "lr": 0.25})
    step(X)
    np.testing.assert_array_equal(a.detach().numpy(), 1 - 2 * 0.5 * SUMS)
    np.testing.assert_array_equal(b.detach().numpy(), 1 - 0.25 * SUMS)


# ---- arguments


def increment(x):
    x += 1
    return x.sum()


@pytest.mark.parametrize("make", [eo.asarray, np.array], ids=["tensor", "array"])
def test_an_argument_that_is_changed_in_place_has_changed(make):
    f = eo.compile(increment)
    for _ in range(2):
        x = make(np.array([1.0, 2.0]))
        assert float(f(x)) == 5.0
        assert x.tolist() == [2.0, 3.0]


def test_an_item_of_an_argument_that_is_set():
    @eo.compile
    def f(tree):
        tree["a"][0] = tree["b"]
        return tree["a"] * 2

    a = eo.asarray(np.array([1.0, 2.0]))
    assert f({"a": a, "b": eo.asarray(7.0)}).tolist() == [14.0, 4.0]
    assert a.tolist() == [7.0, 2.0]


def test_an_argument_that_is_changed_carries_its_graph():
    w, x = parameter(2.0), eo.asarray(np.array([3.0]))

    @eo.compile
    def f(x, w):
        x *= w
        return x * 1

    f(x, w)
    (x * 5).backward()
    assert (x.detach().item(), w.grad.item()) == (6.0, 15.0)


def test_a_leaf_that_requires_grad_is_not_changed_in_place():
    with pytest.raises(eo.GraphStateError):
        eo.compile(increment)(parameter(1.0))
    w = parameter(1.0)
    with eo.no_grad():
        eo.compile(increment)(w)
    assert (w.detach().item(), w.requires_grad) == (2.0, True)


def test_a_tensor_that_changes_is_reached_in_one_way():
    def both(x, y):
        x += 1
        return (x * y).sum()

    f, x = eo.compile(both), eo.asarray(np.ones(2))
    assert f(x, eo.asarray(np.ones(2))).item() == 4.0
    with pytest.raises(eo.ArgumentError, match="given twice"):
        f(x, x)
    c = eo.asarray(np.ones(2))

    @eo.compile
    def captured(x):
        c.__iadd__(x)
        return c.sum()

    with pytest.raises(eo.ArgumentError, match="reaches from outside"):
        captured(c)
    assert c.tolist() == [1.0, 1.0]


# ---- indices


def test_a_constant_index_outside_of_an_axis():
    x = eo.asarray(np.arange(5.0))
    far = eo.compile(lambda x: x[eo.zeros((), dtype=eo.int64) + 7])
    with pytest.raises(eo.IndexingError):
        far(x)
    inner = eo.compile(lambda x: x[eo.asarray(np.array([7]))])
    with pytest.raises(eo.IndexingError):
        inner(x)
    with pytest.raises(eo.IndexingError):
        eo.compile(lambda x: inner(x) * 2)(x)
    same(lambda x: x[eo.zeros((), dtype=eo.int64) - 5], x)


def carried_state(w):
    state = eo.zeros((), dtype=eo.float64)

    def step():
        state[...] = 0.5 * state + w
        (state**2).backward(retain_graph=True)
        return state * 1

    return step


def captured_result(w):
    y = w**2
    return lambda: eo.autograd.grad(3 * y, w, retain_graph=True)[0]


def captured_result_in_a_loss(w):
    scaled = w / 2

    def step():
        (scaled * scaled).backward(retain_graph=True)
        return scaled * 1

    return step


@pytest.mark.parametrize("make", [carried_state, captured_result, captured_result_in_a_loss])
def test_a_pass_inside_does_not_go_on_in_a_graph_from_outside(make):
    step = eo.compile(make(eo.tensor(2.0, dtype=eo.float64, requires_grad=True)))
    with pytest.raises(CompileError, match=r"the graph of a tensor from outside[\s\S]*detach"):
        [step() for _ in range(2)]


def test_a_pass_may_end_at_a_result_from_outside():
    w = eo.tensor(2.0, dtype=eo.float64, requires_grad=True)
    y = w**2

    def f(x):
        return eo.autograd.grad(x * y * y, y)[0]

    compiled = eo.compile(f)
    for x in (1.0, 3.0):
        assert compiled(eo.tensor(x, dtype=eo.float64)).item() == 8 * x


def test_state_that_is_detached_is_carried():
    w = eo.tensor(2.0, dtype=eo.float64, requires_grad=True)
    state = eo.zeros((), dtype=eo.float64)

    def step():
        new = 0.5 * state + w
        (new**2).backward()
        with eo.no_grad():
            state[...] = new

    compiled, gradients, expected, carried = eo.compile(step), [], [], 0.0
    for _ in range(4):
        compiled()
        gradients.append(w.grad.item())
        carried = 0.5 * carried + 2
        expected.append(2 * carried + (expected[-1] if expected else 0))
    assert gradients == expected
