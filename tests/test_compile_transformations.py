"""Transformations of compiled functions, and inside of them."""

import numpy as np
import pytest

import everyo as eo
from tests.compiling import agree, array, same, tensor


def smooth(x):
    return (eo.tanh(x) * eo.sin(x * 2)).sum() + (x[1:] * x[:-1]).sum()


TRANSFORMED = {
    "grad": lambda f: eo.grad(f),
    "value_and_grad": lambda f: eo.value_and_grad(f),
    "vjp": lambda f: lambda x: eo.vjp(f, x)[1](x[0] + 2),
    "jvp": lambda f: lambda x: eo.jvp(f, (x,), (eo.cos(x),)),
    "jacfwd": lambda f: eo.jacfwd(f),
    "jacrev": lambda f: eo.jacrev(f),
    "hessian": lambda f: eo.hessian(f),
    "hvp": lambda f: lambda x: eo.hvp(f, (x,), (x * 2,)),
    "vmap": lambda f: lambda x: eo.vmap(f)(eo.stack([x, x * 2, x - 1])),
    "vmap of grad": lambda f: lambda x: eo.vmap(eo.grad(f))(eo.stack([x, x * 2, x - 1])),
    "grad of vmap": lambda f: lambda x: eo.grad(lambda x: eo.vmap(f)(eo.stack([x, x * 2])).sum())(x),
    "third derivative": lambda f: eo.grad(lambda x: eo.grad(lambda x: eo.grad(f)(x).sum())(x).sum()),
    "checkpoint": lambda f: eo.grad(lambda x: eo.checkpoint(f)(x) * 2),
    "linearize": lambda f: lambda x: eo.linearize(f, x)[1](x + 1),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformations_of_a_compiled_function(name):
    transform, x = TRANSFORMED[name], tensor(5)
    agree(transform(eo.compile(smooth))(x), transform(smooth)(x), name)


@pytest.mark.parametrize("name", TRANSFORMED)
def test_a_compiled_transformation(name):
    same(TRANSFORMED[name](smooth), tensor(5))


@pytest.mark.parametrize("name", ["grad", "hessian", "vmap", "jvp"])
def test_a_compiled_transformation_of_a_compiled_function(name):
    inner = eo.compile(smooth)
    x = tensor(5)
    agree(eo.compile(TRANSFORMED[name](inner))(x), TRANSFORMED[name](smooth)(x), name)


def test_compiled_in_compiled():
    inner = eo.compile(lambda x, y: (x * y, x + y))
    outer = eo.compile(lambda x: inner(x, inner(x, x)[0])[1] * 2)
    x = tensor(3)
    agree(outer(x), (x + x * x) * 2)


def test_backward_through_a_compiled_function():
    x = tensor(5).requires_grad_()
    w = tensor(5, seed=1).requires_grad_()
    f = eo.compile(lambda x: (eo.sin(x) * w).sum())
    f(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(array(5)) * array(5, seed=1), rtol=1e-14)
    np.testing.assert_allclose(w.grad.numpy(), np.sin(array(5)), rtol=1e-14)
    with eo.no_grad():
        assert not f(x).requires_grad
    assert f(x).requires_grad


def squared_apart(x):
    """A cube, of which two factors are constants for derivatives."""
    with eo.no_grad():
        square = x * x
    return (square * x).sum()


def test_what_is_computed_without_gradients_is_constant():
    x, wanted = eo.asarray([1.0, 2.0, 3.0]), [1.0, 4.0, 9.0]
    leaf = eo.asarray([1.0, 2.0, 3.0]).requires_grad_()
    eo.compile(squared_apart)(leaf).backward()
    assert leaf.grad.tolist() == wanted
    assert eo.grad(eo.compile(squared_apart))(x).tolist() == wanted
    assert eo.compile(eo.grad(squared_apart))(x).tolist() == wanted


def test_a_backward_pass_inside_leaves_its_gradient_outside():
    w = eo.asarray([1.0, 2.0]).requires_grad_()
    f = eo.compile(lambda x: (w * x).sum().backward() or x)
    for x in ([3.0, 4.0], [5.0, 6.0]):
        w.grad = None
        f(eo.asarray(x))
        assert w.grad.tolist() == x
    f(eo.asarray([1.0, 1.0]))
    assert w.grad.tolist() == [6.0, 7.0]


def test_a_backward_pass_inside_knows_what_is_constant():
    leaf = eo.asarray([1.0, 2.0, 3.0]).requires_grad_()

    @eo.compile
    def step():
        leaf.grad = None
        squared_apart(leaf).backward()
        return leaf.grad

    assert step().tolist() == [1.0, 4.0, 9.0]


def slope_of_a_leaf(x):
    w = eo.tensor(3.0, dtype=eo.float64, requires_grad=True)
    return x * eo.autograd.grad(w * w * x, w)[0]


def gradient_of_a_leaf(x):
    w = eo.tensor(3.0, dtype=eo.float64, requires_grad=True)
    (w * w * x).backward()
    return x * w.grad


def gradient_of_a_result(x):
    w = eo.tensor(3.0, dtype=eo.float64, requires_grad=True)
    y = (w * 1).retain_grad()
    (y * y * x).backward()
    return x * y.grad


def slope_along(x):
    w = eo.tensor(6.0, dtype=eo.float64, requires_grad=True)
    return x * eo.autograd.grad(w * 6, w, grad_outputs=x)[0]


def slope_that_a_hook_saw(x):
    w, seen = eo.tensor(3.0, dtype=eo.float64, requires_grad=True), []
    w.register_hook(lambda g: seen.append(g * x / x))
    eo.autograd.grad(w * w * x, w)
    return x * seen[0]


CONSTANT = [slope_of_a_leaf, gradient_of_a_leaf, gradient_of_a_result, slope_along, slope_that_a_hook_saw]


@pytest.mark.parametrize("f", CONSTANT)
def test_a_gradient_without_a_graph_is_constant(f):
    x = eo.tensor(2.0, dtype=eo.float64)
    assert eo.compile(f)(x).item() == pytest.approx(24.0)
    for derivative in (eo.grad(f), eo.grad(eo.compile(f)), eo.compile(eo.grad(f))):
        assert derivative(x).item() == pytest.approx(12.0)
    if f not in (gradient_of_a_leaf, gradient_of_a_result):  # those write what a transformation cannot
        assert eo.jvp(eo.compile(f), (x,), (eo.ones_like(x),))[1].item() == pytest.approx(12.0)
        assert eo.vmap(eo.grad(eo.compile(f)))(x[None])[0].item() == pytest.approx(12.0)
    if f is not slope_that_a_hook_saw:
        leaf = x.detach().requires_grad_()
        eo.compile(f)(leaf).backward()
        assert leaf.grad.item() == pytest.approx(12.0)


def test_a_gradient_with_a_graph_is_not():
    def f(x):
        w = eo.tensor(3.0, dtype=eo.float64, requires_grad=True)
        return x * eo.autograd.grad(w * w * x, w, create_graph=True)[0]

    x = eo.tensor(2.0, dtype=eo.float64)
    assert eo.grad(f)(x).item() == eo.grad(eo.compile(f))(x).item() == 24.0


def test_several_results_of_which_few_are_used():
    f = eo.compile(lambda x, i: (eo.sin(x), i + 1, x * 2, x * 3))
    x, i = tensor(3), eo.arange(3)
    agree(eo.grad(lambda x: f(x, i)[2].sum())(x), eo.full((3,), 2.0, dtype=eo.float64))
    agree(eo.grad(lambda x: (f(x, i)[0] * f(x, i)[3]).sum())(x), 3 * (eo.cos(x) * x + eo.sin(x)))
    agree(eo.jvp(lambda x: f(x, i)[3], (x,), (x,))[1], x * 3)


def test_custom_rules():
    @eo.custom_vjp
    def f(x):
        return eo.exp(x)

    f.defvjp(lambda x: (eo.exp(x), x), lambda r, g: (g * 3 * r,))
    x = tensor(3)
    agree(eo.compile(eo.grad(lambda x: f(x).sum()))(x), 3 * x)
    agree(eo.grad(lambda x: eo.compile(f)(x).sum())(x), 3 * x)
