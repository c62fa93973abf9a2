"""What a traced function does with `x.data`: an error that says what to write, and the old state stays."""

import types

import numpy as np
import pytest

import everyo as eo

X = eo.tensor([1.0, 1.0])
WRITE = r"with eo\.no_grad\(\): p -= lr \* p\.grad"


def arithmetic(w):
    w.data = w.data - 0.1 * w.grad.data


def a_tensor(w):
    w.data = w - 0.1 * w.grad


def raw_of_a_tensor(w):
    w.data = (w - 0.1 * w.grad).data


def an_array(w):
    w.data = np.zeros(2, np.float32)


def after_a_change(w):
    with eo.no_grad():
        w -= 0.1 * w.grad
    w.data = np.zeros(2, np.float32)


def then_used(w):
    w.data = w - 0.1 * w.grad
    return w * 1


@pytest.mark.parametrize(
    "update", [arithmetic, a_tensor, raw_of_a_tensor, an_array, after_a_change, then_used]
)
def test_new_data_are_an_error_and_the_old_ones_stay(update):
    w = eo.tensor([1.0, 2.0], requires_grad=True)
    before = w.data

    def step(x):
        w.grad = None
        loss = ((w * x) ** 2).sum()
        loss.backward()
        update(w)
        return loss

    compiled = eo.compile(step)
    for _ in range(2):
        with pytest.raises((eo.CompileError, eo.GraphStateError), match=WRITE.replace("p", r"\w")):
            compiled(X)
        assert w.data is before
        assert w.tolist() == [1.0, 2.0]
        assert w.requires_grad
        assert w.is_leaf
        assert w.grad is None
    (w * w).sum().backward()
    assert w.grad.tolist() == [2.0, 4.0]


def test_tensors_that_the_function_has_not_read():
    w = eo.tensor([1.0, 2.0])
    holder = {"w": w}

    def f(x):
        holder["w"].data = (x * 2).data
        return x + 1

    with pytest.raises(eo.CompileError, match="the data of 1 tensor"):
        eo.compile(f)(X)
    assert w.tolist() == [1.0, 2.0]


def test_tensors_that_no_name_leads_to():
    w = eo.tensor([1.0, 2.0])
    holder = types.MappingProxyType({"w": w})

    def f(x):
        y = holder["w"] * x
        holder["w"].data = y.data
        return y

    del w
    with pytest.raises(eo.CompileError, match="the data of 1 tensor"):
        eo.compile(f)(X)
    assert holder["w"].tolist() == [1.0, 2.0]


def test_in_the_body_of_a_loop():
    w = eo.tensor([1.0, 2.0])

    def f(x):
        def body(i, carry):
            w.data = (carry + w).data
            return carry * 2

        return eo.fori_loop(0, 3, body, x)

    with pytest.raises(eo.CompileError, match="the data of 1 tensor"):
        eo.compile(f)(X)
    assert w.tolist() == [1.0, 2.0]


def test_what_the_error_names_works():
    w = eo.tensor([1.0, 2.0], requires_grad=True)
    optimizer = eo.optim.SGD([w], lr=0.25)

    @eo.compile
    def by_hand(x):
        w.grad = None
        ((w * x) ** 2).sum().backward()
        with eo.no_grad():
            w.__isub__(0.25 * w.grad)
        return w * 1

    @eo.compile
    def by_an_optimizer(x):
        optimizer.zero_grad()
        ((w * x) ** 2).sum().backward()
        optimizer.step()
        return w * 1

    @eo.compile
    def by_assignment(x):
        with eo.no_grad():
            w[...] = x
        return w * 1

    assert by_hand(X).tolist() == [0.5, 1.0]
    assert by_an_optimizer(X).tolist() == [0.25, 0.5]
    assert by_an_optimizer(X).tolist() == [0.125, 0.25]
    assert by_assignment(X).tolist() == [1.0, 1.0]


def test_in_eager_code_the_error_names_the_update_of_a_parameter():
    w = eo.tensor([1.0, 2.0], requires_grad=True)
    w.grad = eo.tensor([1.0, 1.0])
    with pytest.raises(eo.UnsupportedOperationError, match=r"with eo\.no_grad\(\): w -= 0\.5 \* w\.grad"):
        w.data -= 0.5 * w.grad
    assert w.tolist() == [1.0, 2.0]
    with eo.no_grad():
        w -= 0.5 * w.grad
    assert w.tolist() == [0.5, 1.5]


USES = {
    "times": lambda d: d * 2,
    "number": lambda d: 2 * d,
    "array": lambda d: np.ones(2, np.float32) * d,
    "minus": lambda d: -d,
    "item": lambda d: d[0],
    "sine": np.sin,
    "sum": np.sum,
}


@pytest.mark.parametrize("use", USES)
def test_arithmetic_with_raw_data_inside_transformations(use):
    def f(x):
        return (x * 2, USES[use](x.data))[0].sum()

    with pytest.raises(eo.GraphStateError, match=r"leave \.data out"):
        eo.jvp(f, (X,), (X,))
    with pytest.raises(eo.GraphStateError, match="inside vmap the data of a tensor is no array"):
        eo.vmap(f)(eo.ones((3, 2)))
    with pytest.raises(eo.CompileError, match="inside compile the data of a tensor is no array"):
        eo.compile(f)(X)
