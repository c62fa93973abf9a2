"""Loops and branches in compiled functions against eager ones: values, and derivatives of every kind."""

import math

import numpy as np
import pytest

import everyo as eo
from everyo.compiler import passes
from everyo.errors import CompileError, EveryOError
from tests.compiling import agree, same


def array(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, shape)


X = array(3)
WEIGHTS = eo.asarray(array(3, 3, seed=7))


def recurrent(x, length=4, reverse=False):
    xs = eo.sin(eo.arange(length * 3, dtype=eo.float64).reshape(length, 3)) * x

    def step(h, t):
        h = eo.tanh(WEIGHTS @ h + t * x)
        return h, (h * h).sum()

    h, ys = eo.scan(step, x * 2, xs, reverse=reverse)
    return (h * eo.cos(h)).sum() + (ys * eo.cos(eo.arange(length, dtype=eo.float64))).sum()


def trees(x):
    init = {"a": x, "b": (eo.ones(2, dtype=eo.float64), 0)}
    xs = (eo.stack([x, x * 2]), eo.arange(2))

    def step(c, row):
        t, i = row
        a = c["a"] * t + i
        return {"a": a, "b": (c["b"][0] + a[:2], c["b"][1] + i)}, {"y": a - t, "n": c["b"][1]}

    c, ys = eo.scan(step, init, xs)
    return (c["a"] ** 2).sum() + (c["b"][0] ** 3).sum() + (ys["y"] * c["b"][1]).sum() + ys["n"].sum()


def nested(x):
    def inner(h, t):
        return eo.sin(h) + t, h * t

    def outer(h, t):
        h, ys = eo.scan(inner, h * t, eo.stack([h, x, h * x]))
        return h, ys.sum(axis=0)

    h, ys = eo.scan(outer, x, eo.stack([x, x + 0.5]))
    return (h * ys).sum()


def counted(x):
    def body(i, state):
        y, total = state
        return eo.sin(y) + i * x, total + y.sum()

    y, total = eo.fori_loop(1, 5, body, (x, 0.0))
    return (y * y).sum() + total


def mapped(x):
    return (eo.map(lambda row: eo.sin(row).sum() * row * x, eo.stack([x, x * 2, x - 1])) ** 2).sum()


def branching(x):
    y = eo.cond(x.sum() > -9, lambda x, y: eo.sin(x) * y, lambda x, y: x - y, x, x * 3)
    z = eo.cond(y[0] > 9, lambda t: t["u"], lambda t: t["u"] * t["v"] * x, {"u": y, "v": x})
    return (y * z).sum()


def branches_in_scan(x):
    def step(h, t):
        return eo.cond(t > 1, lambda h: eo.sin(h), lambda h: h * x, h), h * 2

    h, ys = eo.scan(step, x, eo.arange(4, dtype=eo.float64))
    return (h * ys).sum()


def scan_in_a_branch(x):
    def long(x):
        return eo.scan(lambda h, t: (eo.tanh(h) * t, h), x, eo.stack([x, x + 1]))[1].sum(axis=0)

    return (eo.cond(x[0] < 9, long, lambda x: x * 2, x) * x).sum()


def doubling(x):
    def body(state):
        y, n = state
        return eo.sin(y) + x * 0.5, n + 1

    y, n = eo.while_loop(lambda state: state[1] < 5, body, (x, 0))
    return (y * y).sum() * n


def until_large(x):
    def body(y):
        return y * 1.5 + 0.1 * eo.abs(x)

    return eo.while_loop(lambda y: (y * y).sum() < 40.0, body, x).sum()


def while_in_scan(x):
    def step(h, t):
        h = eo.while_loop(lambda s: s[1] < t, lambda s: (eo.sin(s[0]) + x, s[1] + 1), (h, 0))[0]
        return h, h * t

    h, ys = eo.scan(step, x, eo.arange(4))
    return (h + ys).sum()


def scan_in_while(x):
    def body(state):
        h, n = state
        return eo.scan(lambda h, t: (eo.tanh(h * t), h), h, eo.stack([x, x * 2]))[0], n + 1

    return eo.while_loop(lambda state: state[1] < 3, body, (x, 0))[0].sum()


def associative(x):
    return (eo.associative_scan(lambda a, b: a * b + b, eo.stack([x, x + 1, x - 1, x * 2, x])) ** 2).sum()


def large(x):
    """States too long to be written out."""
    h = eo.concat([x, eo.zeros(200, dtype=eo.float64)])

    def step(h, t):
        h = eo.roll(h, 1, axis=0) * t + eo.cumsum(h, axis=0) * 0.01
        return h, eo.max(h)

    h, ys = eo.scan(step, h, eo.sin(eo.arange(5, dtype=eo.float64)))
    return (h * eo.cos(h)).sum() + ys.sum()


SCANS = [
    recurrent,
    trees,
    nested,
    counted,
    mapped,
    branching,
    branches_in_scan,
    scan_in_a_branch,
    associative,
    large,
]
WHILES = [doubling, until_large, while_in_scan, scan_in_while]

FIRST = {
    "value": lambda f: f,
    "grad": lambda f: eo.value_and_grad(f),
    "jvp": lambda f: lambda x: eo.jvp(f, (x,), (eo.cos(x),)),
    "vmap": lambda f: lambda x: eo.vmap(f)(eo.stack([x, x * 0.5, x + 0.25])),
    "vmap of grad": lambda f: lambda x: eo.vmap(eo.grad(f))(eo.stack([x, x * 0.5])),
}
SECOND = {
    "hessian": lambda f: lambda x: eo.hessian(f)(x),
    "grad of grad": lambda f: eo.grad(lambda x: (eo.grad(f)(x) * eo.cos(x)).sum()),
    "grad of jvp": lambda f: eo.grad(lambda x: eo.jvp(f, (x,), (x,))[1]),
    "jvp of grad": lambda f: lambda x: eo.jvp(eo.grad(f), (x,), (eo.cos(x),)),
}


def compare(f, transform):
    x = eo.asarray(X)
    agree(eo.compile(transform(f))(x), transform(f)(x), f.__name__, ulps=4096)


@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize("f", [*SCANS, *WHILES], ids=lambda f: f.__name__)
def test_first_order(f, name):
    compare(f, FIRST[name])


@pytest.mark.parametrize("name", SECOND)
@pytest.mark.parametrize("f", [*SCANS, *WHILES], ids=lambda f: f.__name__)
def test_second_order(f, name):
    compare(f, SECOND[name])


def growing(x):
    """A loop whose count and states depend on x, and which captures x: its second derivatives mix both."""

    def body(state):
        total, y = state
        return total + eo.sin(y * x).sum(), y * (1.0 + 0.1 * x * x)

    return eo.while_loop(lambda state: (state[1] * state[1]).sum() < 40.0, body, (x.sum() * 0.0, x + 0.5))[0]


HIGHER = {
    "hessian": lambda f, x: eo.hessian(f)(x),
    "backwards twice": lambda f, x: eo.grad(lambda x: (eo.grad(f)(x) * eo.cos(x)).sum())(x),
    "hvp": lambda f, x: eo.hvp(f, x, eo.cos(x)),
    "batch of hessians": lambda f, x: eo.vmap(eo.hessian(f))(eo.stack([x, x * 2.0, x + 3.0])),
    "hessian of a batch": lambda f, x: eo.hessian(
        lambda x: eo.vmap(lambda k: f(x * k))(eo.tensor([0.5, 1.0, 2.0], dtype=x.dtype)).sum()
    )(x),
    "reverse Jacobian of a batch of gradients": lambda f, x: eo.jacrev(eo.vmap(eo.grad(f)))(
        eo.stack([x, x * 3.0])
    ),
    "third": lambda f, x: eo.grad(lambda x: (eo.hessian(f)(x) * x).sum())(x),
    "jvp of hvp": lambda f, x: eo.jvp(lambda x: eo.hvp(f, x, eo.cos(x)), (x,), (x,)),
}


@pytest.mark.parametrize("name", HIGHER)
def test_higher_orders_of_a_while_loop(name):
    x = eo.asarray(X)
    agree(eo.compile(lambda x: HIGHER[name](growing, x))(x), HIGHER[name](growing, x), name, ulps=65536)


def test_a_pullback_of_a_while_loop_may_be_called_again():
    def twice(x):
        y, pull = eo.vjp(growing, x)
        return pull(eo.ones_like(y))[0], pull(2 * eo.ones_like(y))[0]

    x = eo.asarray(X)
    compiled = eo.compile(twice)
    for _ in range(3):
        first, second = compiled(x)
        agree(first, eo.grad(growing)(x), ulps=4096)
        np.testing.assert_array_equal(second.numpy(), 2 * first.numpy())


def test_a_while_loop_is_gone_back_over_in_one_branch_only():
    def chosen(x, flag):
        y, pull = eo.vjp(growing, x)
        return eo.cond(flag, lambda: pull(eo.ones_like(y))[0], lambda: x * y)

    x = eo.asarray(X)
    compiled = eo.compile(chosen)
    for flag in (True, False, True):
        agree(compiled(x, eo.tensor(flag)), chosen(x, eo.tensor(flag)), ulps=4096)


def test_a_program_that_ends_early_inside_a_recorded_while_loop():
    table = eo.asarray(np.arange(1.0, 5.0))

    def picked(x, last):
        def body(state):
            i, total = state
            return i + 1, total + table[i] * x * total

        return eo.while_loop(lambda state: state[0] < last, body, (eo.tensor(0), x))[1]

    compiled = eo.compile(eo.grad(picked))
    x = eo.tensor(0.5, dtype=eo.float64)
    for _ in range(3):
        with pytest.raises(eo.IndexingError):
            compiled(x, eo.tensor(9))
        agree(compiled(x, eo.tensor(4)), eo.grad(picked)(x, eo.tensor(4)), ulps=64)


@pytest.mark.parametrize("f", [*SCANS, *WHILES], ids=lambda f: f.__name__)
def test_derivatives_of_a_compiled_loop(f):
    x = eo.asarray(X)
    c = eo.compile(f)
    agree(c(x), f(x), ulps=4096)
    agree(eo.grad(c)(x), eo.grad(f)(x), ulps=4096)
    agree(eo.jvp(c, (x,), (x,)), eo.jvp(f, (x,), (x,)), ulps=4096)
    agree(eo.vmap(c)(eo.stack([x, x * 2])), eo.vmap(f)(eo.stack([x, x * 2])), ulps=4096)
    leaf = eo.asarray(X).requires_grad_()
    c(leaf).backward()
    agree(leaf.grad, eo.grad(f)(x), ulps=4096)


@pytest.mark.parametrize("length", [0, 1, 2, 3])
@pytest.mark.parametrize("reverse", [False, True])
def test_lengths(length, reverse):
    for transform in ("value", "grad", "jvp"):
        compare(lambda x: recurrent(x, length, reverse), FIRST[transform])
    x = eo.asarray(X)
    f = eo.compile(lambda x: eo.scan(lambda c, t: (c + t, c), x, eo.zeros((length, 3)), reverse=reverse))
    agree(f(x), f.f(x))


def test_no_elements_but_a_length():
    x = eo.asarray(X)
    f = lambda x: eo.scan(lambda c, _: (eo.sin(c), c.sum()), x, length=5)  # noqa: E731
    agree(eo.compile(f)(x), f(x))
    g = lambda x: eo.scan(lambda c, t: (c, t * 2), None, eo.stack([x, x]))  # noqa: E731
    agree(eo.compile(g)(x), g(x))


def test_reversed_order():
    f = eo.compile(lambda xs: eo.scan(lambda c, t: (c * 2 + t, c), 0.0, xs, reverse=True))
    c, ys = f(eo.asarray([1.0, 2.0, 3.0]))
    assert c.item() == 1 + 2 * (2 + 2 * 3)
    assert ys.tolist() == [8.0, 3.0, 0.0]


def test_loops_are_loops():
    def f(x, n):
        return eo.scan(lambda c, t: (eo.sin(c) + t, c * t), x, eo.ones(n))[0]

    sizes = []
    for n in (10, 1000):
        c = eo.compile(lambda x, n=n: f(x, n))
        c(eo.asarray(0.5))
        ((entry,),) = c._entries.values()
        sizes.append(len(entry.program.module.text))
    assert sizes[1] < 1.2 * sizes[0]


def test_integers_are_carried():
    f = lambda n: eo.scan(lambda c, t: (c * 3 + t, c % 5), n, eo.arange(6))  # noqa: E731
    agree(eo.compile(f)(eo.asarray(np.int64(1))), f(eo.asarray(np.int64(1))))
    g = lambda n: eo.while_loop(lambda n: n != 1, lambda n: eo.where(n % 2 == 0, n // 2, 3 * n + 1), n)  # noqa: E731
    assert eo.compile(g)(eo.asarray(np.int64(27))).item() == 1


def test_a_number_that_is_carried_takes_the_dtype_of_the_body():
    xs = eo.asarray(np.array([0.5, 1.5], np.float32))
    f = lambda xs: eo.scan(lambda c, t: (c * t + 1, c), 2, xs)  # noqa: E731
    found = eo.compile(f)(xs)
    agree(found, f(xs))
    assert (found[0].item(), found[1].tolist()) == (4.0, [2.0, 2.0])


def test_the_count_of_steps_follows_the_values():
    f = eo.compile(
        lambda n: eo.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] + s[0]), (n, n * 0))[1]
    )
    for n in (0, 1, 10, 1000):
        assert f(eo.asarray(np.int64(n))).item() == n * (n + 1) // 2
    assert f.cache_info().misses == 1


def test_a_step_of_a_while_loop_reads_what_it_has_not_written():
    """The next state lies apart from the one that the step reads in another order."""
    x = np.arange(100.0)
    f = eo.compile(
        lambda x, n: eo.while_loop(lambda s: s[1] < n, lambda s: (eo.roll(s[0], 1, 0), s[1] + 1), (x, 0))[0]
    )
    for n in (1, 2, 3):
        np.testing.assert_array_equal(f(eo.asarray(x), eo.asarray(n)).numpy(), np.roll(x, n))


def test_both_branches_in_one_program():
    f = eo.compile(eo.value_and_grad(lambda x: eo.cond(x > 0, lambda x: x * x, lambda x: -3 * x, x)))
    for x, wanted in ((2.0, (4.0, 4.0)), (-2.0, (6.0, -3.0))):
        value, gradient = f(eo.asarray(np.float64(x)))
        assert (value.item(), gradient.item()) == wanted
    assert f.cache_info().misses == 1


def test_a_batched_predicate():
    f = lambda x: eo.vmap(lambda x: eo.cond(x > 0, eo.sqrt, lambda x: -x, x))(x)  # noqa: E731
    x = eo.asarray(np.array([4.0, -2.0, 9.0]))
    assert eo.compile(f)(x).tolist() == [2.0, 2.0, 3.0]
    assert np.isfinite(eo.compile(eo.grad(lambda x: f(x).sum()))(x).numpy()).all()


def test_a_batch_of_while_loops_of_different_lengths():
    def f(n):
        return eo.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 1.5), (n * 0, n + 1.0))[1]

    n = eo.asarray(np.array([0.0, 3.0, 1.0]))
    agree(eo.compile(eo.vmap(f))(n), eo.asarray(np.array([1.0, 4 * 1.5**3, 2 * 1.5])))
    agree(eo.compile(eo.vmap(eo.grad(f)))(n), eo.asarray(np.array([1.0, 1.5**3, 1.5])))


def test_tensors_from_outside_are_read_in_a_body():
    w = eo.asarray(np.array([1.0, 2.0, 3.0]))
    f = eo.compile(lambda x: eo.scan(lambda c, t: (c * w + t, c), x, eo.stack([x, x]))[0])
    x = eo.asarray(X)
    agree(f(x), f.f(x))
    w += 1.0
    agree(f(x), f.f(x))
    assert f.cache_info().misses == 1


def test_gradients_of_what_a_body_captures():
    w = eo.asarray(array(3, seed=3)).requires_grad_()

    def f(x):
        return eo.scan(lambda c, t: (eo.sin(c * w) + t, c.sum()), x, eo.stack([x, x]))[0].sum()

    gradients = []
    for g in (f, eo.compile(f)):
        w.grad = None
        g(eo.asarray(X)).backward()
        gradients.append(w.grad)
    agree(gradients[1], gradients[0])


@pytest.mark.parametrize("improved", [True, False])
def test_a_result_that_nothing_reads_lies_apart_from_what_the_body_keeps(improved, monkeypatch):
    """A pass drops such results, but the code generator does not rely on that."""
    if not improved:
        monkeypatch.setattr(passes, "PASSES", ())
    c, w = array(40, 40, seed=1), array(40, 40, seed=2) / 4

    def step(c, t):
        product = c @ eo.asarray(w)
        y = eo.exp(c) * t  # of the size of the product, and between it and the one that reads it
        return product @ eo.asarray(w), y

    found = eo.compile(lambda c: eo.scan(step, c, eo.ones(3, dtype=eo.float64))[0])(eo.asarray(c))
    np.testing.assert_allclose(found.numpy(), c @ np.linalg.matrix_power(w, 6), 1e-10, 1e-13)


def test_branches_that_capture_different_tensors():
    a, b = eo.asarray(array(3, seed=4)), eo.asarray(array(3, seed=5))
    f = eo.compile(lambda x: eo.cond(x.sum() > 0, lambda x: x * a, lambda x: x - b, x))
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(f(eo.asarray(x)).numpy(), x * a.numpy())
    np.testing.assert_array_equal(f(eo.asarray(-x)).numpy(), -x - b.numpy())


@pytest.mark.parametrize("steps", [1, 63, 64, 65, 129, 200])
def test_gradients_through_many_steps(steps):
    """The states of the steps lie in memory that grows."""

    def f(x):
        return eo.while_loop(lambda s: s[1] < steps, lambda s: (s[0] * s[0] / s[0] * 1.01, s[1] + 1), (x, 0))[
            0
        ]

    found = eo.compile(eo.grad(lambda x: f(x).sum()))(eo.asarray(np.array([0.5, 2.0])))
    np.testing.assert_allclose(found.numpy(), [1.01**steps] * 2, 1e-12)


def test_a_body_that_changes_something_outside():
    total = eo.asarray(np.zeros(3))

    def step(c, t):
        total.assign(total + c)
        return c, t

    with pytest.raises(CompileError, match="changes something outside"):
        eo.compile(lambda x: eo.scan(step, x, eo.ones(2))[0])(eo.asarray(X))
    assert total.tolist() == [0.0, 0.0, 0.0]


def test_a_carry_that_changes_its_shape_or_dtype():
    for step in (lambda c, t: (eo.concat([c, c]), t), lambda c, t: (c > 0, t)):
        with pytest.raises(EveryOError) as eager:
            eo.scan(step, eo.asarray(X), eo.ones(2))
        with pytest.raises(EveryOError) as compiled:
            eo.compile(lambda x, step=step: eo.scan(step, x, eo.ones(2)))(eo.asarray(X))
        assert type(compiled.value) is type(eager.value)


def test_branches_of_different_structure():
    with pytest.raises(EveryOError, match="branch"):
        eo.compile(lambda x: eo.cond(x.sum() > 0, lambda x: x, lambda x: (x, x), x))(eo.asarray(X))


def test_results_that_nothing_reads():
    f = lambda x: eo.scan(lambda c, t: ((c[0] * t, c[1] + t), (c[0], t)), (x, x * 2), eo.stack([x, x]))  # noqa: E731
    x = eo.asarray(X)
    for pick in (
        lambda r: r[0][0],
        lambda r: r[0][1],
        lambda r: r[1][0],
        lambda r: r[1][1],
        lambda r: r[0][1] * 0,
    ):
        agree(eo.compile(lambda x, pick=pick: pick(f(x)))(x), pick(f(x)))


def test_what_a_tape_around_a_loop_computes_from_constants_is_no_value_of_the_loop():
    matrix = eo.asarray(np.array([[0.3, -0.2, 0.5], [0.1, 0.4, -0.6], [-0.3, 0.2, 0.1]]))

    def looped(x):
        def body(state):
            y, i = state
            return eo.scan(lambda c, t: (matrix @ c + t * x, None), y, eo.asarray(np.array([0.5, -1.0])))[
                0
            ], i + 1

        return eo.while_loop(lambda state: state[1] < 3, body, (x, 0))[0]

    def captured(x):
        factors = eo.asarray(np.array([0.5, 1.5]))
        return eo.vmap(eo.grad(lambda k: (looped(x * k) * x).sum()))(factors).sum() * x

    def pulled(x):
        y, pull = eo.vjp(captured, x)
        return pull(eo.cos(y))[0]

    x = eo.asarray(X)
    agree(eo.compile(pulled)(x), pulled(x), ulps=4096)


@pytest.mark.parametrize("value", [0.5, 4.0, 256, 1 << 40, 1j, math.nan, -0.0, 0, 0j, True, False])
def test_a_predicate_is_true_where_it_is_not_zero(value):
    def f(p):
        return eo.cond(p, lambda: eo.tensor(1), lambda: eo.tensor(2))

    for given in (eo.tensor(value), value):
        assert eo.compile(f)(given).item() == f(given).item() == (1 if value else 2)


def test_a_number_of_cases_as_a_predicate():
    def f(x):
        return (eo.cond((x > 0).sum(), lambda x: x / x.sum(), lambda x: x, x) * x).sum()

    x = eo.ones(256, dtype="float64")  # whose lowest byte is zero
    same(eo.value_and_grad(f), x)
    agree(eo.vmap(eo.compile(f))(eo.stack([x, -x])), eo.vmap(f)(eo.stack([x, -x])))
