"""In-place statements inside a differentiated function: its own tensors may change, captured ones do not."""

import gc
import operator
import weakref

import numpy as np
import pytest

import everyo as eo

X = eo.tensor([2.0, 3.0])
ONES = eo.ones(2)

TRANSFORMS = {
    "grad": lambda f: eo.grad(lambda x: f(x).sum())(X),
    "value_and_grad": lambda f: eo.value_and_grad(lambda x: f(x).sum())(X)[1],
    "has_aux": lambda f: eo.grad(lambda x: (f(x).sum(), "aux"), has_aux=True)(X)[0],
    "vjp": lambda f: eo.vjp(f, X)[1](ONES)[0],
    "linearize": lambda f: eo.linearize(f, X)[1](ONES),
    "jacrev": lambda f: eo.jacrev(f)(X).sum(0),
    "jacfwd": lambda f: eo.jacfwd(f)(X).sum(0),
    "jacobian": lambda f: eo.jacobian(lambda x: f(x).sum())(X),
    "hessian": lambda f: eo.hessian(lambda x: f(x).sum())(X).sum(0),
    "hvp": lambda f: eo.hvp(lambda x: f(x).sum(), X, ONES),
    "vhp": lambda f: eo.vhp(lambda x: f(x).sum(), X, ONES),
    "grad of grad": lambda f: eo.grad(lambda x: eo.grad(lambda y: f(y).sum())(x).sum())(X),
    "jvp": lambda f: eo.jvp(f, (X,), (ONES,))[1],
    "vmap": lambda f: eo.vmap(f)(eo.ones((3, 2))),
    "vmap of grad": lambda f: eo.vmap(eo.grad(lambda x: f(x).sum()))(eo.ones((3, 2))),
}


def write(buffer, x):
    buffer[0] = x[0]


def add(buffer, x):
    buffer += x


def write_part(buffer, x):
    buffer[1:] *= x[1]


STATEMENTS = {"setitem": write, "iadd": add, "slice": write_part}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("kind", ["constant", "result"])
def test_a_captured_tensor_is_refused_and_has_its_value_again(name, statement, kind):
    leaf = eo.tensor([5.0, 7.0], requires_grad=True)
    buffer = eo.tensor([5.0, 7.0]) if kind == "constant" else leaf * 1
    node = buffer.grad_node

    def f(x):
        STATEMENTS[statement](buffer, x)
        return buffer * x

    with pytest.raises(eo.UnsupportedOperationError, match="captured tensor") as error:
        TRANSFORMS[name](f)
    assert "x.clone()" in error.value.remedy
    assert "test_captured_tensors.py" in error.value.line
    assert buffer.tolist() == [5.0, 7.0]
    assert buffer.grad_node is node


@pytest.mark.parametrize("name", TRANSFORMS)
def test_it_has_its_value_again_after_another_exception(name):
    buffer = eo.tensor([5.0, 7.0])

    def f(x):
        add(buffer, x)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        TRANSFORMS[name](f)
    assert buffer.tolist() == [5.0, 7.0]
    assert not buffer.requires_grad


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_tensors_of_the_function_itself_may_change(name, statement):
    def f(x):
        scratch, copy = eo.ones(2), ONES.clone()
        STATEMENTS[statement](scratch, x)
        STATEMENTS[statement](copy, x * x)
        STATEMENTS[statement](copy, copy)
        return scratch * copy

    def written(x):
        a, b = [1.0, 1.0], [1.0, 1.0]
        if statement == "setitem":
            a[0], b[0] = x[0], x[0] * x[0]
        elif statement == "iadd":
            a, b = [1 + x[0], 1 + x[1]], [2 * (1 + x[0] ** 2), 2 * (1 + x[1] ** 2)]
        else:
            a[1], b[1] = x[1], x[1] ** 4
        return eo.stack([a[0] * b[0], a[1] * b[1]])

    np.testing.assert_allclose(TRANSFORMS[name](f).numpy(), TRANSFORMS[name](written).numpy(), rtol=1e-5)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_results_may_be_changed_tensors(name):
    def f(x):
        out = eo.zeros(2)
        out += x * x
        return out

    np.testing.assert_allclose(TRANSFORMS[name](f).numpy(), TRANSFORMS[name](lambda x: x * x).numpy())


def test_auxiliary_data_may_be_changed_tensors():
    def f(x):
        out, inner = eo.zeros(2), eo.ones(2)
        out += x
        inner[0] = x[1]
        return (x * x).sum(), {"out": out, "more": [inner]}

    for transformed in (
        lambda: eo.grad(f, has_aux=True)(X),
        lambda: eo.value_and_grad(f, has_aux=True)(X)[::-1][:1] + (f(X)[1],),
        lambda: eo.vjp(f, X, has_aux=True)[1:],
        lambda: eo.jvp(f, (X,), (ONES,), has_aux=True)[1:],
        lambda: eo.jacrev(f, has_aux=True)(X),
        lambda: eo.jacfwd(f, has_aux=True)(X),
        lambda: eo.vmap(eo.grad(f, has_aux=True))(eo.stack([X])),
        lambda: eo.jvp(lambda x: eo.grad(f, has_aux=True)(x), (X,), (ONES,))[0],
    ):
        aux = transformed()[1]
        assert np.ravel(aux["out"].numpy()).tolist() == [2.0, 3.0]
        assert np.ravel(aux["more"][0].numpy()).tolist() == [3.0, 1.0]
        assert not aux["out"].requires_grad


def test_constants_may_be_kept_in_captured_tensors():
    count, mean = eo.zeros(()), eo.zeros(2)

    def f(x):
        nonlocal mean
        count.__iadd__(1)
        with eo.no_grad():
            mean *= 0.5
            mean += 0.5 * x.detach()
        return (x * x).sum()

    assert eo.grad(f)(X).tolist() == [4.0, 6.0]
    assert count.item() == 1
    assert mean.tolist() == [1.0, 1.5]
    assert not mean.requires_grad


def test_what_depends_on_another_graph_alone_stays():
    w = eo.tensor([1.0, 2.0], requires_grad=True)
    log = eo.zeros(2)

    def f(x):
        log.__iadd__(w * w)
        return (x * x).sum()

    assert eo.grad(f)(X).tolist() == [4.0, 6.0]
    assert log.tolist() == [1.0, 4.0]
    log.sum().backward()
    assert w.grad.tolist() == [2.0, 4.0]


def test_the_transformation_whose_value_it_took_refuses():
    buffer = eo.zeros(2)
    reached = []

    def outer(x):
        def inner(y):
            buffer.__iadd__(x)  # a value of the outer one
            return (y * y).sum()

        value = eo.grad(inner)(ONES).sum() + x.sum()
        reached.append(buffer.tolist())
        return value

    with pytest.raises(eo.UnsupportedOperationError, match="captured tensor"):
        eo.grad(outer)(X)
    assert reached == [[2.0, 3.0]]
    assert buffer.tolist() == [0.0, 0.0]

    def made_outside_of_the_inner_one(x):
        scratch = eo.zeros(2)

        def inner(y):
            scratch.__iadd__(y)
            return (y * scratch).sum()

        return eo.grad(inner)(x).sum()

    with pytest.raises(eo.UnsupportedOperationError, match="captured tensor"):
        eo.grad(made_outside_of_the_inner_one)(X)


def test_a_state_that_is_a_constant_again_is_no_change():
    buffer = eo.ones(2)

    def f(x):
        buffer.__iadd__(x)
        y = (buffer * x).sum()
        with eo.no_grad():
            buffer[:] = 1.0
        return y

    assert eo.grad(f)(X).tolist() == [5.0, 7.0]
    assert buffer.tolist() == [1.0, 1.0]
    assert not buffer.requires_grad


def test_nothing_is_kept_of_a_function_that_changes_its_own_tensors():
    gc.collect()
    gc.disable()
    kept = []

    def f(x):
        total = eo.zeros(2)
        kept.append(weakref.ref(total))
        for _ in range(3):
            total += x * x
            kept.append(weakref.ref(total.grad_node))
        return total.sum()

    try:
        assert eo.grad(f)(X).tolist() == [12.0, 18.0]
        assert [r() for r in kept] == [None] * 4
    finally:
        gc.enable()


def test_statements_in_a_loop_keep_no_old_values():
    alive = []

    def f(x):
        total = eo.zeros(2)
        for _ in range(5):
            total += x  # an addition saves nothing
            alive.append(weakref.ref(total))
        return total.sum()

    mode_entries = []
    from everyo.core.modes import current_mode

    def g(x):
        value = f(x)
        mode_entries.append(len(current_mode().changes.entries))
        return value

    assert eo.grad(g)(X).tolist() == [5.0, 5.0]
    assert mode_entries == [1]


STARTS = {
    "ones": lambda w: eo.ones(3, dtype="float64") * 2,
    "full": lambda w: eo.full(3, 2.0, dtype="float64"),
    "clone": lambda w: w.clone(),
    "a computed one": lambda w: w * 1,
}
UPDATES = {  # the statement, and the derivative of the sum of 2 updated by x
    "*=": (operator.imul, lambda x: 2 + 0 * x),
    "/=": (operator.itruediv, lambda x: -2 / x**2),
    "**=": (operator.ipow, lambda x: np.log(2) * 2**x),
    "%=": (operator.imod, lambda x: -np.floor(2 / x)),
}
AROUND = {
    "grad": lambda f: eo.grad(f),
    "compiled": lambda f: eo.compile(eo.grad(f)),
    "compiled vjp": lambda f: eo.compile(lambda x, w: eo.vjp(lambda y: f(y, w), x)[1](w[0] / 2)[0]),
    "vmap": lambda f: lambda x, w: eo.vmap(eo.grad(f))(eo.stack([x, x]), eo.stack([w, w]))[0],
    "compiled vmap": lambda f: eo.compile(lambda x, w: eo.vmap(eo.grad(f))(x[None], w[None])[0]),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("start", STARTS)
def test_tensors_of_the_functions_own_change_in_every_transformation(start, update, around):
    statement, derivative = UPDATES[update]

    def f(x, w):
        v = STARTS[start](w)
        v = statement(v, x)
        return v.sum()

    x, w = eo.asarray([0.8, 1.5, 3.0], dtype="float64"), eo.full(3, 2.0, dtype="float64")
    found = AROUND[around](f)(x, w)
    np.testing.assert_allclose(found.numpy(), derivative(x.numpy()), rtol=1e-14)
    np.testing.assert_array_equal(w.numpy(), 2.0)


@pytest.mark.parametrize(
    "around",
    [
        lambda f, x: eo.grad(f)(x),
        lambda f, x: eo.jvp(f, (x,), (eo.ones(3, dtype="float64"),))[1] / 3 * x,
        lambda f, x: eo.compile(eo.grad(f))(x),
        lambda f, x: eo.vmap(eo.grad(f))(x[None])[0],
        lambda f, x: eo.grad(lambda y: eo.grad(f)(y) @ y)(x) / 2,
    ],
    ids=["grad", "jvp", "compiled", "vmap", "second order"],
)
def test_a_tensor_of_the_functions_own_may_lie_in_a_cycle_of_references(around):
    def f(x):
        v = eo.ones(3, dtype="float64")

        def times(k):
            nonlocal v
            if k:
                v *= x
                times(k - 1)

        times(2)
        return v.sum()

    x = eo.asarray([1.0, 1.0, 1.0], dtype="float64")
    np.testing.assert_allclose(around(f, x).numpy(), 2.0, rtol=1e-14)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_value_of_the_transformation_around_is_captured(compiled):
    def f(x):
        w = x * 1

        def inner(y):
            nonlocal w
            w *= y
            return w.sum()

        return eo.grad(inner)(x)

    outer = eo.compile(f) if compiled else eo.vmap(f)
    with pytest.raises(eo.UnsupportedOperationError, match="captured tensor"):
        outer(eo.ones((2, 3), dtype="float64"))
