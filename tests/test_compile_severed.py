"""Values that eager code refuses to cut off from a derivative: a compiled function refuses them as well."""

import numpy as np
import pytest

import everyo as eo
from tests.compiling import agree

X = eo.tensor([1.0, 2.0, 3.0], dtype="float64")
ROWS = eo.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype="float64")


def a_list(x):
    return eo.tensor([x[0], x[1]]).sum() * x[0]


def a_copy(x):
    return (eo.tensor(x) * 2).sum()


def an_integer_element(x):
    y = eo.zeros(3, dtype="int64")
    y[0] = x[0]
    return y.sum() * x[1]


def integers_by_mask(x):
    y = eo.zeros(3, dtype="int64")
    y[y == 0] = x[0]
    return (y * x).sum()


def integers_alone(x):
    y = eo.zeros(3, dtype="int64")
    y[0] = x[0]
    return y.astype("float64").sum()


def in_a_loop(x):
    return eo.scan(lambda c, v: (c + eo.tensor(v), None), 0.0, x)[0]


def integers_in_a_loop(x):
    def step(c, v):
        y = eo.zeros(1, dtype="int64")
        y[0] = v
        return c + y[0], None

    return eo.scan(step, 0, x)[0].astype("float64")


def in_a_branch(x):
    return eo.cond(x[0] > 0, lambda v: eo.tensor(v).sum(), lambda v: v.sum(), x)


def in_a_repeated_loop(x):
    return eo.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, eo.tensor(c[1]) * 2), (0, x))[1].sum()


CUT = [
    a_list, a_copy, an_integer_element, integers_by_mask, integers_alone, in_a_loop, integers_in_a_loop,
    in_a_branch, in_a_repeated_loop,
]  # fmt: skip


def tape(f):
    def g(x):
        y = eo.tensor(x.numpy(), requires_grad=True)
        f(y).backward()
        return y.grad

    return g


TRANSFORMED = {
    "grad": lambda f: eo.grad(f)(X),
    "backward": lambda f: tape(f)(X),
    "jvp": lambda f: eo.jvp(f, (X,), (X,)),
    "linearize": lambda f: eo.linearize(f, X)[1](X),
    "vmap": lambda f: eo.vmap(f)(ROWS),
    "vmap of grad": lambda f: eo.vmap(eo.grad(f))(ROWS),
    "hessian": lambda f: eo.hessian(f)(X),
}


@pytest.mark.parametrize("f", CUT, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", TRANSFORMED)
def test_what_eager_code_refuses_is_refused_of_a_program(name, f):
    with pytest.raises(eo.EveryOError) as eager:
        TRANSFORMED[name](f)
    compiled = eo.compile(f)
    agree(compiled(X), f(X))
    with pytest.raises(type(eager.value)) as found:
        TRANSFORMED[name](compiled)
    assert found.value.operation == eager.value.operation


@pytest.mark.parametrize("f", CUT, ids=lambda f: f.__name__)
def test_what_is_not_followed_stays_a_constant(f):
    def beside(w, x):
        with eo.no_grad():
            inside = f(x)
        return w.sum() * (f(x.detach()) + inside)

    def tracked(g):
        w, x = (eo.tensor([1.0, 2.0, 3.0], dtype="float64", requires_grad=True) for _ in range(2))
        g(w, x).backward()
        return w.grad, 0 * w if x.grad is None else x.grad

    compiled = eo.compile(beside)
    agree(eo.grad(compiled)(X, X), eo.grad(beside)(X, X))
    agree(eo.grad(compiled, argnums=1)(X, X), np.zeros(3))
    agree(tracked(compiled), tracked(beside))


def test_a_derivative_is_refused_at_the_level_that_asks_for_it():
    f = eo.compile(lambda w, x: (w * eo.tensor(x)).sum())
    agree(eo.grad(f)(X, X), X)
    with pytest.raises(eo.GraphStateError, match="a new leaf has no path"):
        eo.grad(lambda x: eo.grad(f)(x, x).sum())(X)
    with pytest.raises(eo.GraphStateError, match="a new leaf has no path"):
        eo.compile(eo.grad(f, argnums=1))(X, X)


def test_rules_of_the_users_own_stand_for_what_they_cut():
    @eo.custom_vjp
    def double(x):
        y = eo.zeros(3, dtype="int64")
        y[0] = x[0]
        return eo.tensor(x) * 2 + 0 * y

    double.defvjp(lambda x: (double(x), None), lambda kept, g: (2 * g,))
    f = eo.compile(lambda x: (double(x) * x).sum())
    agree(eo.grad(f)(X), 4 * X)


def test_an_integer_of_a_batch_goes_into_integers():
    def f(x):
        y = eo.zeros(3, dtype="int64")
        y[0] = eo.argmax(x)
        return y

    agree(eo.vmap(f)(ROWS), eo.asarray([[2, 0, 0], [2, 0, 0]]))
    agree(eo.vmap(eo.compile(f))(ROWS), eo.asarray([[2, 0, 0], [2, 0, 0]]))


@pytest.mark.parametrize("f", CUT, ids=lambda f: f.__name__)
def test_a_recorded_call_is_refused_at_once(f):
    """Eager code refuses it there, and what stands behind the call does not run."""
    compiled = eo.compile(f)
    y = eo.tensor(X.numpy(), requires_grad=True)
    with pytest.raises(eo.EveryOError) as eager:
        f(y)
    for _ in range(2):
        with pytest.raises(type(eager.value)) as found:
            compiled(y)
        assert found.value.operation == eager.value.operation
        agree(compiled(X), f(X))
    with eo.no_grad():
        agree(compiled(y), f(y))


def test_a_recorded_call_goes_on_where_another_argument_is_cut():
    f = eo.compile(lambda w, x: (w * eo.tensor(x)).sum())
    w, x = (eo.tensor(X.numpy(), requires_grad=True) for _ in range(2))
    f(w, X).backward()
    agree(w.grad, X)
    with pytest.raises(eo.GraphStateError, match="a new leaf has no path"):
        f(X, x)
