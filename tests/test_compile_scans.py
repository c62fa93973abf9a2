"""Passes on compiled scans: results kept for the way back, products behind the loop, unused parts."""

import re

import numpy as np
import pytest

import everyo as eo
from everyo.compiler.graph import Value
from everyo.compiler.scans.cut import cheapest
from everyo.transforms.trees import flatten
from tests.compiling import agree, arrays_of, largest, same


def array(*shape, seed=0):
    return eo.asarray(np.random.default_rng(seed).uniform(-1.0, 1.0, shape))


def lines_of(f, *args):
    """Return the lines of the last graph, as those outside of the bodies of scans and those of each body."""
    graphs = eo.compile.inspect(f)(*args).graphs
    outside, bodies = [], []
    for line in graphs["without dead code"].splitlines():
        if line.startswith("    graph scan"):
            bodies.append([])
        inside = line.startswith("      ")
        (bodies[-1] if inside else outside).append(line)
    return outside, bodies


def count(lines, word):
    return sum(bool(re.search(rf"= {word}\(|fn='{word}'", line)) for line in lines)


def recurrent(weights, inner, h, xs):
    """Return the mean square of the last state of a network that reads a batch (or one row) in each step."""
    return (eo.scan(lambda h, x: (eo.tanh(x @ weights + h @ inner), None), h, xs)[0] ** 2).mean()


def gradients(f, argnums=(0, 1)):
    return eo.value_and_grad(f, argnums=argnums)


BATCH = array(24, 40), array(40, 40, seed=1) / 8, array(4, 40, seed=2), array(6, 4, 24, seed=3)
ROW = *BATCH[:2], array(40, seed=4), array(6, 24, seed=5)


@pytest.mark.parametrize("args", [BATCH, ROW], ids=["batch", "row"])
def test_a_recurrent_network(args):
    same(gradients(recurrent, (0, 1, 2, 3)), *args)
    half = [x.astype(eo.float32) for x in args]
    same(gradients(recurrent, (0, 1, 2, 3)), *half)


def test_the_way_back_reads_what_the_way_there_has_computed():
    _, (there, back) = lines_of(gradients(recurrent), *BATCH)
    assert (count(there, "tanh"), count(there, "dot")) == (1, 2)
    assert (count(back, "tanh"), count(back, "dot")) == (0, 1)  # the cotangent of the state


@pytest.mark.parametrize("args", [BATCH, ROW], ids=["batch", "row"])
def test_cotangents_of_matrices_are_one_product_each_behind_the_loop(args):
    outside, (_, back) = lines_of(gradients(recurrent), *args)
    assert count(outside, "dot") == 2
    states = re.search(r"carries=(\d+)", [line for line in outside if "= scan(" in line][1])
    assert states is not None
    assert states[1] == "1"  # no sum is carried any more
    assert not any("f64[40,40] = map" in line and "add" in line for line in back)


def test_what_is_cheap_is_computed_again():
    """Keeping a stack costs more than an addition and two products."""

    def f(a, x):
        return eo.scan(lambda h, t: (h * (h + t) * t, None), a, x)[0].sum()

    outside, (_, back) = lines_of(eo.grad(f), array(50), array(5, 50, seed=1))
    assert count(back, "add") >= 1
    stacks = next(line for line in outside if "= scan(" in line).split(" = ")[0]
    assert stacks.count("f64[5,50]") == 1  # the states
    same(eo.grad(f, argnums=(0, 1)), array(50), array(5, 50, seed=1))


def running(h, xs):
    """A loop that sums outer products by itself, and shows the sums on the way."""

    def step(state, x):
        total, h = state
        return (total + eo.outer(x, h), eo.tanh(h * x)), (total * 2).sum()

    (total, h), ys = eo.scan(step, (eo.zeros((20, 20), dtype=xs.dtype), h), xs)
    return total, h, ys


def doubled(h, xs):
    """A state that grows by a product and by itself."""

    def step(state, x):
        total, h = state
        product = eo.outer(x, h)
        return (total + (total + product), h + x), product.sum()

    return eo.scan(step, (eo.ones((20, 20), dtype=xs.dtype), h), xs)


def started(total, h, xs):
    """A sum with a beginning, of two products and of what is none."""

    def step(state, x):
        total, h = state
        return (total + eo.outer(x, h) + eo.outer(h, h) + eo.sin(total.shape[0] * x), eo.tanh(h + x)), None

    return eo.scan(step, (total, h), xs)[0]


def twice(h, xs):
    """A product that is part of a sum and a result as well; two states with the same sum."""

    def step(state, x):
        a, b, h = state
        product = eo.outer(x, h)
        return (a + product, b + product, h * 0.5 + x), product

    zeros = eo.zeros((20, 20), dtype=xs.dtype)
    return eo.scan(step, (zeros, zeros, h), xs)


def backwards(total, h, xs):
    def step(state, x):
        total, h = state
        return (total + eo.outer(x, h), eo.tanh(h + x)), h

    return eo.scan(step, (total, h), xs, reverse=True)


def fixed(total, h, xs):
    """Factors that are the same in all steps."""

    def step(state, x):
        total, other = state
        return (total + eo.outer(h, h) + eo.outer(x, h), other + eo.outer(h, x)), None

    return eo.scan(step, (total, total), xs)[0]


def shown(h, xs):
    """A sum whose next value is a result of the step as well."""

    def step(state, x):
        total, h = state
        total = total + eo.outer(x, h)
        return (total, h + x), total.sum(axis=0)

    return eo.scan(step, (eo.zeros((20, 20), dtype=xs.dtype), h), xs)


def partly(h, xs):
    """A part of a sum that is a result as well."""

    def step(state, x):
        total, h = state
        part = eo.outer(x, h) + eo.outer(h, x)
        return (total + part, h + x), part

    return eo.scan(step, (eo.zeros((20, 20), dtype=xs.dtype), h), xs)


def replaced(total, h, xs):
    """A state that is read once, but is no part of its next value."""

    def step(state, x):
        total, h = state
        return (eo.outer(x, h) + eo.outer(h, h), h + total[0] * x), None

    return eo.scan(step, (total, h), xs)[0]


SUMS = [
    (running, 0),
    (shown, 0),
    (partly, 0),
    (replaced, 1),
    (doubled, 0),
    (started, 1),
    (twice, 0),
    (backwards, 1),
    (fixed, 1),
]


@pytest.mark.parametrize("length", [1, 7])
@pytest.mark.parametrize(("f", "totals"), SUMS, ids=[f.__name__ for f, _ in SUMS])
def test_sums_of_products(f, totals, length):
    given = [array(20, 20, seed=i) for i in range(totals)]
    args = *given, array(20, seed=8), array(length, 20, seed=9)
    results = same(f, *args)

    def loss(*args):
        return sum((x * eo.cos(x)).sum() for x in flatten(f(*args))[0])

    same(gradients(loss, tuple(range(len(args)))), *args, scale=largest(*arrays_of(results)))


def test_sums_that_are_read_in_between_stay_in_the_loop():
    outside, (body,) = lines_of(running, array(20), array(6, 20, seed=1))
    assert count(outside, "dot") == 0
    assert count(body, "multiply") >= 2


@pytest.mark.parametrize("f", [partly, shown])
def test_a_sum_or_part_of_one_that_is_computed_anyway_stays_in_the_loop(f):
    outside, _ = lines_of(f, array(20), array(6, 20, seed=1))
    assert count(outside, "dot") == 0


def test_a_sum_of_products_leaves_the_loop_where_a_derivative_goes_back_over_it():
    def loss(h, xs):
        total, h = twice(h, xs)[0][1:]
        return (total * total).sum() + h.sum()

    args = array(20), array(6, 20, seed=1)
    _, (there, _) = lines_of(eo.grad(loss), *args)
    assert not any("f64[20,20] = map" in line and "add" in line for line in there)
    same(eo.grad(loss, argnums=(0, 1)), *args)


def test_a_sum_of_products_of_the_users_own_leaves_the_loop():
    outside, (body,) = lines_of(started, array(20, 20), array(20, seed=1), array(6, 20, seed=2))
    assert count(outside, "dot") == 2
    assert not any("broadcast" in line and "dims=(0,)" in line for line in body)


def test_second_derivatives_of_a_scan():
    args = array(3, 5), array(5, 5, seed=1), array(5, seed=2), array(4, 3, seed=3)
    same(eo.hessian(recurrent, argnums=(0, 1)), *args)
    same(eo.grad(lambda w, *rest: (eo.grad(recurrent)(w, *rest) ** 2).sum()), *args)


def test_two_scans_over_the_same_elements_compute_what_they_share_once():
    def f(xs):
        def first(h, x):
            return h + eo.exp(x).sum(), eo.sin(x)

        def second(h, x):
            return h * eo.exp(x).mean(), eo.cos(x)

        return eo.scan(first, eo.zeros((), dtype=xs.dtype), xs), eo.scan(
            second, eo.ones((), dtype=xs.dtype), xs
        )

    xs = array(5, 30)
    _, (one, two) = lines_of(f, xs)
    assert (count(one, "exp"), count(two, "exp")) == (1, 0)
    same(f, xs)


def test_a_result_that_both_give_is_computed_once():
    def f(xs):
        parts = [eo.scan(lambda h, x, k=k: (h * k + x, eo.exp(x)), xs[0], xs) for k in (1, 2)]
        return [y.sum() for _, y in parts], parts[0][0], parts[1][0]

    xs = array(5, 30)
    _, (one, two) = lines_of(f, xs)
    assert (count(one, "exp"), count(two, "exp")) == (1, 0)
    same(f, xs)


def test_constants_of_scans_of_other_lengths():
    def f(a, xs):
        return [eo.scan(lambda h, x: (h * eo.exp(a) + x, None), a, x)[0] for x in (xs[:2], xs)]

    same(f, array(30), array(5, 30, seed=1))


def test_scans_of_other_lengths_or_elements_share_nothing():
    def f(xs):
        def step(h, x):
            return h + eo.exp(x), None

        zero = eo.zeros(xs.shape[1:], dtype=xs.dtype)
        parts = eo.scan(step, zero, xs), eo.scan(step, zero, xs[::2]), eo.scan(step, zero, xs * 2)
        return [p[0] for p in parts]

    xs = array(6, 30)
    _, bodies = lines_of(f, xs)
    assert [count(body, "exp") for body in bodies] == [1, 1, 1]
    same(f, xs)


def test_states_and_results_that_nobody_asks_for_are_dropped():
    def f(x, xs):
        def step(state, t):
            a, b, c = state
            return (a + t, eo.sin(b) * t, eo.exp(-c)), (eo.cos(a), eo.log(t))

        (a, _, _), (cosines, _) = eo.scan(step, (x, x, x), xs)
        return a, cosines

    args = array(4), array(5, 4, seed=1) + 2
    _, (body,) = lines_of(f, *args)
    assert [count(body, name) for name in ("sin", "exp", "log", "cos")] == [0, 0, 0, 1]
    same(f, *args)


def test_what_is_only_printed_is_given_to_the_steps(capsys):
    def step(h, given):
        number, x = given
        eo.debug_print("step {}", number)
        return h + x, number * 2

    f = eo.compile(lambda xs: eo.scan(step, xs[0], (eo.arange(3), xs))[0])
    assert f(eo.asarray([1.0, 2.0, 4.0])).item() == 8.0
    assert capsys.readouterr().out.split() == ["step", "0", "step", "1", "step", "2"]


def test_states_that_others_depend_on_stay():
    def f(x, xs):
        return eo.scan(lambda s, t: ((s[0] * t, s[1] + s[0], eo.sin(s[2] + s[1])), None), (x, x, x), xs)[0][2]

    args = array(4), array(5, 4, seed=1)
    _, (body,) = lines_of(f, *args)
    assert count(body, "sin") == 1
    same(f, *args)
    same(eo.grad(lambda *a: f(*a).sum(), argnums=(0, 1)), *args)


def test_a_sum_over_steps_is_the_same_for_any_number_of_threads():
    args = array(64, 300), array(300, 300, seed=1), array(16, 300, seed=2), array(20, 16, 64, seed=3)
    found = [eo.compile(gradients(recurrent), threads=n)(*args) for n in (1, 2)]
    agree(*found, ulps=0)


# ---- the cut


def values(**sizes):
    return {name: Value((n,), np.float64) for name, n in sizes.items()}


def cut(wanted, operands, computing):
    """Return the names of what is kept, where keeping an element costs 1."""
    named = {v: name for name, v in wanted.items()}
    inner = {wanted[k]: [wanted[o] for o in os] for k, os in operands.items()}
    kept = cheapest(
        [wanted[k] for k in operands if k.startswith("w")], inner, lambda v: v.size,
        lambda v: computing[named[v]],
    )  # fmt: skip
    return {named[v] for v in kept}


@pytest.mark.parametrize(
    ("costs", "kept"),
    [
        ({"w": 1, "a": 1, "b": 1}, set()),  # three operations cost less than a row of ten
        ({"w": 1, "a": 20, "b": 1}, {"w"}),  # either of both rows would do, and one is nearer
        ({"w": 20, "a": 20, "b": 20}, {"w"}),
    ],
)
def test_one_result_or_its_chain(costs, kept):
    found = cut(values(w=10, a=11, b=10), {"w": ["a"], "a": ["b"], "b": []}, costs)
    assert found == kept


def test_a_short_operand_of_wide_results_is_kept_alone():
    sizes = values(w1=10, w2=10, a=2)
    assert cut(sizes, {"w1": ["a"], "w2": ["a"], "a": []}, {"w1": 1, "w2": 1, "a": 50}) == {"a"}


def test_a_result_is_kept_in_place_of_two_operands():
    sizes = values(w=10, a=10, b=10)
    assert cut(sizes, {"w": ["a", "b"], "a": [], "b": []}, {"w": 1, "a": 50, "b": 50}) == {"w"}


def test_what_is_shared_is_paid_once():
    """Computing the chain costs 12 for both results, keeping them 14: 6 for each alone would be more."""
    sizes = values(w1=7, w2=7, a=20)
    operands = {"w1": ["a"], "w2": ["a"], "a": []}
    assert cut(sizes, operands, {"w1": 1, "w2": 1, "a": 10}) == set()
    assert cut(sizes, operands, {"w1": 1, "w2": 1, "a": 14}) == {"w1", "w2"}
