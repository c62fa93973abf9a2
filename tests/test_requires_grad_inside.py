"""`requires_grad` and `is_leaf` inside transformed and compiled functions."""

import functools

import pytest

import everyo as eo
from tests.compiling import misses

f64 = eo.float64
X = eo.tensor(3.0, dtype=f64)
ONE = eo.ones_like(X)


def known(x):
    """Return x if it is differentiated, else 0; whoever asks a result gets the same answer."""
    return x * (1.0 if x.requires_grad else 0.0)


def known_of_a_result(x):
    return x * (1.0 if (x * x).requires_grad else 0.0)


def known_as_no_leaf(x):
    return x * (0.0 if x.is_leaf else 1.0)


DERIVATIVES = {
    "grad": lambda f: eo.grad(f)(X),
    "linearize": lambda f: eo.linearize(f, X)[1](ONE),
    "jvp": lambda f: eo.jvp(f, (X,), (ONE,))[1],
    "value of jvp": lambda f: eo.jvp(f, (X,), (ONE,))[0] / 3,
    "jacfwd": lambda f: eo.jacfwd(f)(X),
    "jacrev": lambda f: eo.jacrev(f)(X),
    "vmap of grad": lambda f: eo.vmap(eo.grad(f))(X[None])[0],
    "vmap of jvp": lambda f: eo.vmap(lambda x: eo.jvp(f, (x,), (ONE,))[1])(X[None])[0],
    "grad of vmap": lambda f: eo.grad(lambda x: eo.vmap(f)(x[None])[0])(X),
    "jvp of vmap": lambda f: eo.jvp(lambda x: eo.vmap(f)(x[None])[0], (X,), (ONE,))[1],
    "grad of a captured one": lambda f: eo.grad(lambda x: eo.vmap(lambda t: f(x) * t)(ONE[None])[0])(X),
    "jvp of a captured one": lambda f: eo.jvp(lambda x: eo.grad(lambda t: f(x) * t)(ONE), (X,), (ONE,))[1],
    "checkpoint": lambda f: eo.grad(eo.checkpoint(f))(X),
    "sparse": lambda f: eo.sparse_jacobian(lambda x: f(x[0]).reshape(1), X[None]).todense()[0, 0],
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_what_is_differentiated_says_so(name):
    for f in (known, known_of_a_result, known_as_no_leaf):
        assert DERIVATIVES[name](f).item() == pytest.approx(1.0)
        assert DERIVATIVES[name](lambda x, f=f: f(x.detach()) + x).item() == pytest.approx(1.0)


def test_what_is_not_differentiated_says_so():
    for f in (known, known_of_a_result, known_as_no_leaf):
        assert f(X).item() == 0.0
        assert eo.vmap(f)(X[None]).tolist() == [0.0]
        assert eo.grad(lambda x, f=f: f(X) + x)(ONE).item() == 1.0
        assert eo.jvp(lambda x, f=f: f(X) + x, (ONE,), (ONE,))[0].item() == 1.0


@pytest.mark.parametrize("name", [name for name in DERIVATIVES if name != "sparse"])
def test_a_compiled_function_knows_it_of_its_arguments(name):
    pytest.importorskip("llvmlite")
    f = eo.compile(known)
    for _ in range(2):
        assert f(X).item() == 0.0
        assert DERIVATIVES[name](f).item() == pytest.approx(1.0)
    assert eo.compile(functools.partial(DERIVATIVES[name], known))().item() == pytest.approx(1.0)


def test_a_program_serves_the_answers_that_it_was_traced_with():
    f = eo.compile(known)
    leaf = X.detach().requires_grad_()
    assert [f(x).item() for x in (X, leaf, X, leaf)] == [0.0, 3.0, 0.0, 3.0]
    assert eo.jvp(f, (X,), (ONE,))[0].item() == 3.0
    assert (f(X).item(), eo.vmap(f)(X[None]).tolist()) == (0.0, [0.0])
    asked_nothing = eo.compile(lambda x: x * 2)
    assert (asked_nothing(X).item(), eo.jvp(asked_nothing, (X,), (ONE,))[1].item()) == (6.0, 2.0)
    assert misses(asked_nothing) == 1
    first = eo.compile(lambda x, y: y * (1.0 if x.requires_grad else 0.0))
    assert (first(X, ONE).item(), eo.jvp(lambda y: first(X, y), (ONE,), (ONE,))[0].item()) == (0.0, 0.0)
    assert misses(first) == 1


def test_leaves_among_arguments():
    f = eo.compile(lambda x: x * (1.0 if x.is_leaf else 0.0))
    leaf = X.detach().requires_grad_()
    assert [f(x).item() for x in (X, leaf, leaf * 1, X)] == [3.0, 3.0, 0.0, 3.0]


def test_captured_tensors_are_asked_at_each_call():
    w = eo.tensor(2.0, dtype=f64)
    f = eo.compile(lambda x: x * (1.0 if w.requires_grad else 0.0))
    assert f(X).item() == 0.0
    w.requires_grad_()
    assert f(X).item() == 3.0
    w.requires_grad_(False)
    assert f(X).item() == 0.0
    around = eo.compile(lambda x, w: x * (1.0 if w.requires_grad else 0.0))
    assert (
        eo.jvp(lambda w: eo.compile(lambda x: x * (1.0 if w.requires_grad else 0.0))(X), (w,), (w,))[0] == 3.0
    )
    assert around(X, w).item() == 0.0


def test_of_results_it_is_known_where_nothing_is_differentiated():
    w = eo.tensor(2.0, dtype=f64, requires_grad=True)
    f = eo.compile(known_of_a_result)
    assert f(X).item() == 0.0
    assert eo.compile(lambda x: x * (1.0 if (x * w).requires_grad else 0.0))(X).item() == 3.0
    for call in (
        lambda: eo.grad(f)(X),
        lambda: eo.jvp(f, (X,), (ONE,)),
        lambda: f(X.detach().requires_grad_()),
    ):
        with pytest.raises(eo.CompileError, match="requires_grad") as error:
            call()
        assert "static" in error.value.remedy
    assert f(X).item() == 0.0


def test_in_the_body_of_a_loop_it_is_not_known():
    def f(x):
        return eo.scan(lambda c, _: (known(c), None), x, None, length=1)[0]

    assert f(X).item() == 0.0
    with pytest.raises(eo.CompileError, match="requires_grad"):
        eo.compile(f)(X)
