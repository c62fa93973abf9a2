"""`autograd.grad` and `backward` inside transformed functions: the eager tape's answer, or a refusal."""

import math

import pytest

import everyo as eo

X = eo.tensor(0.7, dtype=eo.float64)
ONE = eo.ones_like(X)
SIN, COS = math.sin(0.7), math.cos(0.7)


def compiled(f, x):
    pytest.importorskip("llvmlite")
    return eo.compile(f)(x)


FIRST = {
    "grad": lambda f: eo.grad(f)(X),
    "vjp": lambda f: eo.vjp(f, X)[1](ONE)[0],
    "linearize": lambda f: eo.linearize(f, X)[1](ONE),
    "vmap of grad": lambda f: eo.vmap(eo.grad(f))(eo.stack([ONE, X]))[1],
    "compile of grad": lambda f: compiled(eo.grad(f), X),
    "vmap of vmap of grad": lambda f: eo.vmap(eo.vmap(eo.grad(f)))(eo.stack([ONE, X])[None])[0, 1],
    "grad of checkpoint": lambda f: eo.vmap(eo.grad(eo.checkpoint(f)))(eo.stack([ONE, X]))[1],
    "grad of scan": lambda f: eo.vmap(
        eo.grad(lambda x: eo.scan(lambda c, _: (f(c), None), x, None, length=1)[0])
    )(eo.stack([ONE, X]))[1],
}
SECOND = {
    "grad of grad": lambda f: eo.grad(eo.grad(f))(X),
    "hessian": lambda f: eo.hessian(f)(X),
    "hvp": lambda f: eo.hvp(f, X, ONE),
    "vhp": lambda f: eo.vhp(f, X, ONE),
    "jvp of grad": lambda f: eo.jvp(eo.grad(f), (X,), (ONE,))[1],
    "jacfwd of grad": lambda f: eo.jacfwd(eo.grad(f))(X),
    "jacrev of grad": lambda f: eo.jacrev(eo.grad(f))(X),
    "vmap of grad of grad": lambda f: eo.vmap(eo.grad(eo.grad(f)))(eo.stack([ONE, X]))[1],
    "vmap of hessian": lambda f: eo.vmap(eo.hessian(f))(eo.stack([ONE, X]))[1],
    "compile of hessian": lambda f: compiled(eo.hessian(f), X),
    "grad of vmap of grad": lambda f: eo.grad(lambda x: eo.vmap(eo.grad(f))(eo.stack([ONE, x]))[1])(X),
}


def by_grad(x):
    z = x * 1
    return eo.autograd.grad(-eo.cos(z), z, create_graph=True)[0]


def by_grad_of_the_argument(x):
    return eo.autograd.grad(-eo.cos(x), x, create_graph=True)[0]


def by_backward(x):
    z = x * 1
    z.retain_grad()
    (-eo.cos(z)).backward(create_graph=True)
    return z.grad


def by_backward_to_inputs(x):
    z = x * 1
    (-eo.cos(z)).backward(create_graph=True, inputs=z)
    return z.grad


def by_backward_to_the_argument(x):
    x.zero_grad()
    (-eo.cos(x * 1)).backward(create_graph=True, inputs=[x])
    return x.grad


def by_two_passes(x):
    z = x * 1
    (g,) = eo.autograd.grad(eo.sin(z), z, create_graph=True)
    return -eo.autograd.grad(g, z, create_graph=True)[0]


def by_several_outputs(x):
    z = x * 1
    parts = eo.split(eo.stack([-eo.cos(z), z * z]), 2)
    outputs = [parts[0].reshape(()), parts[1].reshape(())]
    return eo.autograd.grad(outputs, z, [None, eo.zeros_like(z)], create_graph=True)[0]


def by_a_weighted_pass(x):
    z = x * 1
    return eo.autograd.grad(z, z, grad_outputs=eo.sin(x), create_graph=True)[0]


def by_a_rule(x):
    f = eo.custom_vjp(lambda x: -eo.cos(x))
    f.defvjp(lambda x: (-eo.cos(x), x), lambda x, g: (g * eo.sin(x),))
    z = x * 1
    return eo.autograd.grad(f(z), z, create_graph=True)[0]


def by_a_checkpoint(x):
    z = x * 1
    return eo.autograd.grad(eo.checkpoint(lambda z: -eo.cos(z))(z), z, create_graph=True)[0]


def in_a_block(x):
    z = x * 1
    y = -eo.cos(z)
    with eo.no_grad():
        return eo.autograd.grad(y, z, create_graph=True)[0]


def through_a_hook(x):
    z = x * 1
    z.register_hook(lambda g: g * 2 / 2)
    return eo.autograd.grad(-eo.cos(z), z, create_graph=True)[0]


SINES = [
    by_grad,
    by_grad_of_the_argument,
    by_backward,
    by_backward_to_inputs,
    by_backward_to_the_argument,
    by_two_passes,
    by_several_outputs,
    by_a_weighted_pass,
    by_a_rule,
    by_a_checkpoint,
    in_a_block,
    through_a_hook,
]  # fmt: skip - each is the sine, and may be differentiated


@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize("sine", SINES, ids=lambda f: f.__name__)
def test_a_derivative_of_a_derivative_that_was_taken_inside(sine, name):
    assert FIRST[name](sine).item() == pytest.approx(COS, rel=1e-12)


@pytest.mark.parametrize("name", SECOND)
@pytest.mark.parametrize("sine", SINES, ids=lambda f: f.__name__)
def test_a_second_one(sine, name):
    assert SECOND[name](sine).item() == pytest.approx(-SIN, rel=1e-12)


# ---- without create_graph: a constant


def slope_of_an_intermediate_result(x):
    z = x * 1
    return x * eo.autograd.grad(z**3 / 3, z)[0]


def slope_kept_in_an_intermediate_result(x):
    z = (x * 1).retain_grad()
    (z**3 / 3).backward()
    return x * z.grad


def slope_that_a_hook_saw(x):
    z, seen = x * 1, []
    z.register_hook(lambda g: seen.append(g * z / z))
    eo.autograd.grad(z**3 / 3, z)
    return x * seen[0]


def slope_of_a_new_leaf(x):
    w = eo.tensor(1.0, dtype=eo.float64, requires_grad=True)
    (gradient,) = eo.autograd.grad(w * x * x, w)
    return x * gradient


def slope_of_a_new_leaf_that_holds_it(x):
    w = eo.tensor(1.0, dtype=eo.float64, requires_grad=True)
    (w * x * x).backward()
    return x * w.grad


def twice_a_new_leaf(x):
    w = eo.tensor(1.0, dtype=eo.float64, requires_grad=True)
    y = w * x * x / 2
    y.backward(retain_graph=True)
    y.backward()
    return x * w.grad


def a_weight_of_the_argument(x):
    w = eo.tensor(1.0, dtype=eo.float64, requires_grad=True)
    return x * eo.autograd.grad(w, w, grad_outputs=x * x)[0]


SQUARES = [
    slope_of_an_intermediate_result,
    slope_kept_in_an_intermediate_result,
    slope_that_a_hook_saw,
    slope_of_a_new_leaf,
    slope_of_a_new_leaf_that_holds_it,
    twice_a_new_leaf,
    a_weight_of_the_argument,
]  # fmt: skip - each is x times the constant x**2
CONSTANT = {
    **{name: FIRST[name] for name in ("grad", "vjp", "linearize", "compile of grad")},
    "grad in a level": lambda f: eo.jvp(lambda t: eo.grad(f)(X) * t, (ONE,), (ONE,))[0],
    "jvp of grad of a constant": lambda f: eo.jvp(lambda t: eo.grad(f)(X) * t, (ONE,), (ONE,))[1],
}


@pytest.mark.parametrize("name", CONSTANT)
@pytest.mark.parametrize("square", SQUARES, ids=lambda f: f.__name__)
def test_without_create_graph_it_is_a_constant(square, name):
    assert CONSTANT[name](square).item() == pytest.approx(0.49, rel=1e-12)
    assert square(X.detach().requires_grad_()).item() == pytest.approx(0.343, rel=1e-12)


def test_gradients_of_a_batch_and_of_none_add_up():
    def f(x):
        z = (x * 1).retain_grad()
        (z * x.detach()).backward(retain_graph=True)
        (z * 2).backward()
        return x * z.grad

    assert eo.vmap(eo.grad(f))(eo.stack([ONE, X])).tolist() == [3.0, 2.7]
    assert eo.vmap(lambda x: eo.value_and_grad(f)(x)[0])(eo.stack([ONE, X])).tolist() == [3.0, 0.7 * 2.7]


@pytest.mark.parametrize("name", [name for name in SECOND if not name.startswith(("vmap", "grad of vmap"))])
@pytest.mark.parametrize("square", SQUARES, ids=lambda f: f.__name__)
def test_a_second_derivative_meets_a_constant_too(square, name):
    assert SECOND[name](square).item() == 0.0


OF_A_LEAF = [
    slope_of_a_new_leaf,
    slope_of_a_new_leaf_that_holds_it,
    twice_a_new_leaf,
]


@pytest.mark.parametrize("square", SQUARES, ids=lambda f: f.__name__)
def test_behind_a_batch_a_leaf_is_refused(square):
    for transform in (eo.grad, eo.hessian):
        mapped = eo.vmap(transform(square))
        if square in OF_A_LEAF:
            with pytest.raises(eo.GraphStateError, match=r"inside vmap|grad that runs is not known") as error:
                mapped(eo.stack([ONE, X]))
            assert error.value.remedy
        else:
            wanted = 0.49 if transform is eo.grad else 0.0
            assert mapped(eo.stack([ONE, X]))[1].item() == pytest.approx(wanted, rel=1e-12)


def test_a_recorded_gradient_of_a_tensor_from_outside_is_refused():
    w = eo.tensor(2.0, dtype=eo.float64, requires_grad=True)

    def by_grad(x):
        return eo.autograd.grad(w * w * x, w, create_graph=True)[0] * x

    def by_backward(x):
        (w * w * x).backward(create_graph=True)
        return x * w.grad

    def of_an_argument(x):
        return eo.grad(lambda y: eo.autograd.grad(y * y * x, x, create_graph=True)[0])(x)

    for f in (by_grad, by_backward, of_an_argument):
        for name in ("hessian", "vmap of grad", "jvp of grad", "compile of grad"):
            with pytest.raises(eo.GraphStateError, match="from outside") as error:
                {**FIRST, **SECOND}[name](f)
            assert "inputs" in error.value.remedy
    assert w.grad is None
