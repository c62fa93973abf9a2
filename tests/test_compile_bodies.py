"""The bodies of compiled loops and branches: what they compute of values around them, what they change."""

import functools

import numpy as np
import pytest

import everyo as eo
from everyo.errors import CompileError

X = np.array([0.3, -0.6, 1.2])


CHANGED = {
    "made of constants": lambda x: eo.zeros(2),
    "computed of an argument": lambda x: x * 0,
    "an argument": lambda x: x,
}


@pytest.mark.parametrize("made", CHANGED)
@pytest.mark.parametrize("loop", ["while_loop", "fori_loop", "scan", "map", "cond"])
@pytest.mark.parametrize("by_item", [False, True], ids=["statement", "item"])
def test_a_body_that_changes_a_tensor_of_the_function_around_it(made, loop, by_item):
    def f(x):
        count = CHANGED[made](x)

        def body(state, *_):
            nonlocal count
            if by_item:
                count[0] = count[0] + 1
            else:
                count += 1
            return state / 2

        if loop == "while_loop":
            out = eo.while_loop(lambda s: s[0] > 1, body, x * 1)
        elif loop == "fori_loop":
            out = eo.fori_loop(0, 3, lambda i, s: body(s), x * 1)
        elif loop == "scan":
            out = eo.scan(lambda c, t: (body(c), t), x * 1, eo.ones(3))[0]
        elif loop == "map":
            out = eo.map(body, x)
        else:
            out = eo.cond(x[0] > 100, body, lambda s: s, x * 1)
        return out, count

    for compiled in (eo.compile(f), eo.compile(lambda x: eo.jvp(f, (x,), (x,)))):
        with pytest.raises(CompileError, match="changes something outside"):
            compiled(eo.tensor([3.0, 2.0]))


def test_a_body_that_gives_an_outer_variable_another_tensor():
    def f(x):
        factor = x * 2

        def body(i, state):
            nonlocal factor
            factor = factor + 1
            return state * factor

        return eo.fori_loop(0, 3, body, x), factor

    assert f(eo.tensor([1.0]))[0].tolist() == [60.0]
    with pytest.raises(CompileError, match="a variable that a function keeps"):
        eo.compile(f)(eo.tensor([1.0]))


class Holder:
    def __init__(self, v):
        self.v = v

    def turn(self, i, s):
        self.v = self.v * 2
        return s + self.v


def by_dict(v):
    held = {"v": v}

    def body(i, s):
        held["v"] = held["v"] * 2
        return s + held["v"]

    return body, lambda: held["v"]


def by_list_of_numbers(v):
    held = [1.0]

    def body(i, s):
        held[0] = held[0] * s
        return s + held[0]

    return body, lambda: 1.0


def by_swap(v):
    held = [v, v * 3]

    def body(i, s):
        held.reverse()
        return s + held[0]

    return body, lambda: held[0]


def by_append(v):
    held = [v]

    def body(i, s):
        held.append(held[-1] * 2)
        return s + held[-1]

    return body, lambda: held[-1]


def by_tuple(v):
    held = (v, v * 3)

    def body(i, s):
        nonlocal held
        held = held[::-1]
        return s + held[0]

    return body, lambda: held[0]


def by_partial(v):
    def body(k, i, s):
        nonlocal v
        v = v * k
        return s + v

    return functools.partial(body, 2), lambda: v


def by_method(v):
    held = Holder(v)
    return held.turn, lambda: held.v


HOLDING = [by_dict, by_list_of_numbers, by_swap, by_append, by_tuple, by_partial, by_method]


@pytest.mark.parametrize("around", [lambda f: f, eo.grad, eo.vmap], ids=["alone", "grad", "vmap"])
@pytest.mark.parametrize("loop", ["fori_loop", "while_loop", "scan", "cond"])
@pytest.mark.parametrize("holding", HOLDING)
def test_a_body_that_gives_a_place_outside_of_it_another_tensor(holding, loop, around):
    def looped(body, x):
        if loop == "fori_loop":
            return eo.fori_loop(0, 3, body, x)
        if loop == "while_loop":
            return eo.while_loop(lambda s: s < 9, lambda s: body(0, s), x)
        if loop == "scan":
            return eo.scan(lambda c, t: (body(0, c), None), x, eo.ones(3))[0]
        return eo.cond(x > 9, lambda s: body(0, s), lambda s: s, x)

    def f(x):
        body, value = holding(x * 1)
        before = value()
        try:
            return looped(body, x)
        except CompileError:
            assert value() is before, "what was there before is back"
            raise

    x = eo.tensor([1.5, 2.0]) if around is eo.vmap else eo.tensor(1.5)
    around(f)(x)
    with pytest.raises(CompileError, match="gives a place outside of it another tensor"):
        eo.compile(around(f))(x)


@pytest.mark.parametrize("returned", [False, True], ids=["used", "returned"])
def test_a_body_may_change_what_it_makes_itself_of_values_around_it(returned):
    def f(x):
        double = x * 2

        def body(i, state):
            own = double * 2
            own[0] = state[0] if returned else 1.0
            own += 1
            return own if returned else state * own

        return eo.fori_loop(0, 3, body, x)

    x = eo.asarray(X)
    np.testing.assert_allclose(eo.compile(f)(x).numpy(), f(x).numpy(), rtol=1e-15)
    by_reverse = eo.compile(eo.grad(lambda x: f(x).sum()))(x)
    np.testing.assert_allclose(by_reverse.numpy(), eo.grad(lambda x: f(x).sum())(x).numpy(), rtol=1e-15)


CLOSURES = {
    "cond": lambda p: eo.cond((p > 0).all(), lambda: -(p * eo.log(p)).sum(), lambda: p.sum()),
    "false": lambda p: eo.cond((p <= 0).any(), lambda: p.sum(), lambda: -(p * eo.log(p)).sum()),
    "scan": lambda p: eo.scan(
        lambda c, t: (c + eo.cond(t > 0, lambda: t * eo.log(t), lambda: t * 3), None), eo.tensor(0.0), p
    )[0],
    "while_loop": lambda p: eo.while_loop(lambda s: s > 9, lambda s: s - (p * eo.log(p)).sum(), p.sum()),
    "fori_loop": lambda p: eo.fori_loop(
        0, (p[0] * 0).astype("int64"), lambda i, s: s - (p * eo.log(p)).sum(), p.sum()
    ),
    "loop in a branch": lambda p: eo.cond(
        (p > 0).all(),
        lambda: eo.fori_loop(0, 3, lambda i, s: s - (p * eo.log(p)).sum(), p.sum()),
        lambda: p.sum(),
    ),
}
AROUND = {
    "compile(grad)": lambda f: eo.compile(eo.grad(f)),
    "grad(compile)": lambda f: eo.grad(eo.compile(f)),
    "jvp": lambda f: eo.compile(lambda p: eo.jvp(f, (p,), (eo.ones(3),))[1] * eo.grad(f)(p)),
    "hessian": lambda f: eo.compile(lambda p: eo.hessian(f)(p).sum(0) + eo.grad(f)(p)),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", CLOSURES)
def test_what_a_body_computes_of_captured_values_is_computed_where_it_runs(name, around):
    p = eo.tensor([0.0, 0.5, 0.5])
    found = AROUND[around](CLOSURES[name])(p)
    slope = eo.grad(CLOSURES[name])(p)
    assert not np.isnan(slope.numpy()).any()
    if around == "jvp":
        slope = slope * slope.sum()
    elif around == "hessian":
        slope = slope + eo.hessian(CLOSURES[name])(p).sum(0)
    np.testing.assert_allclose(found.numpy(), slope.numpy(), rtol=1e-6)


def test_a_body_that_does_not_run_raises_nothing():
    x, a = eo.arange(4.0), -eo.eye(2)
    taken = eo.compile(lambda x, i: eo.cond(i < 4, lambda: x[i], lambda: x[0] * 0))
    assert [taken(x, eo.tensor(2)).item(), taken(x, eo.tensor(7)).item()] == [2.0, 0.0]
    factor = eo.compile(lambda a: eo.cond(a[0, 0] > 0, lambda: eo.linalg.cholesky(a).sum(), lambda: a.sum()))
    assert [factor(a).item(), factor(-a).item()] == [-2.0, 2.0]
    count = eo.compile(lambda x, i: eo.while_loop(lambda s: s < 0, lambda s: s + x[i], x.sum()))
    assert count(x, eo.tensor(9)).item() == 6.0

    def halted(n):
        def steps():
            return eo.while_loop(lambda s: s[0] != 1, lambda s: eo.where(s % 2 == 0, s // 2, 3 * s + 1), n)

        return eo.cond(n[0] > 0, steps, lambda: n)

    assert eo.compile(halted)(eo.tensor([0])).tolist() == [0]
    assert eo.compile(halted)(eo.tensor([6])).tolist() == [1]


def test_captured_values_are_printed_in_a_body(capsys):
    def f(x):
        def body(i, c):
            eo.debug_print("x is {}", x)
            return c + x.sum()

        return eo.fori_loop(0, 2, body, x.sum())

    assert eo.compile(f)(eo.ones(2)).item() == 6.0
    assert capsys.readouterr().out == "x is [1. 1.]\n" * 2


def test_what_a_body_keeps_where_no_name_leads_is_found_at_the_end():
    kept = np.empty(1, object)

    def f(x):
        def body(i, c):
            kept[0] = c * 2
            return c + x

        return eo.fori_loop(0, 2, body, x)

    with pytest.raises(CompileError, match="keeps a computed tensor"):
        eo.compile(f)(eo.ones(2))
