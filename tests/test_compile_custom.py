"""Rules of users' own in compiled functions: a derivative taken inside, outside or around goes by them."""

import numpy as np
import pytest

import everyo as eo
from tests.compiling import agree


@eo.custom_vjp
def by_vjp(x):
    return eo.exp(x)


by_vjp.defvjp(lambda x: (eo.exp(x), (x, eo.sin(x))), lambda kept, g: (g * 3 * kept[0] * kept[1],))


@eo.custom_jvp
def by_jvp(x):
    return eo.exp(x)


by_jvp.defjvp(lambda primals, tangents: (by_jvp(primals[0]), tangents[0] * primals[0] * 2))


class Five(eo.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 5 * x


FUNCTIONS = {"custom_vjp": by_vjp, "custom_jvp": by_jvp, "Function": Five.apply}
SLOPES = {
    "custom_vjp": lambda x: 3 * x * np.sin(x),
    "custom_jvp": lambda x: 2 * x,
    "Function": lambda x: 5 * x,
}
TRANSFORMS = {
    "grad": eo.grad,
    "hessian": eo.hessian,
    "jvp": lambda f: lambda x: eo.jvp(f, (x,), (x,)),
    "vmap of grad": lambda f: lambda x: eo.vmap(eo.grad(f))(eo.stack([x, x * 2])),
    "grad of vmap": lambda f: eo.grad(lambda x: eo.vmap(f)(eo.stack([x, x * 2])).sum()),
    "in scan": lambda f: eo.grad(
        lambda x: eo.scan(lambda c, t: (c * f(t), c), x, eo.stack([x, x / 2]))[0].sum()
    ),
    "in cond": lambda f: eo.grad(lambda x: eo.cond(x[0] > -9, f, lambda x: x.sum(), x)),
    "in while_loop": lambda f: eo.grad(
        lambda x: eo.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] * f(s[1])), (0, x))[1].sum()
    ),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("place", ["inside", "outside", "both"])
def test_derivatives_go_by_the_rules(name, transform, place):
    h, t = FUNCTIONS[name], TRANSFORMS[transform]

    def f(x):
        return h(x * 2).sum()

    x = eo.asarray(np.array([0.3, -0.7, 1.1, 0.2]))
    wanted = t(f)(x)
    inner = f if place == "outside" else eo.compile(f)
    found = (t(inner) if place == "inside" else eo.compile(t(inner)))(x)
    agree(found, wanted, ulps=256)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_slope_is_that_of_the_rule(name):
    x = np.array([0.3, -0.7, 1.1, 0.2])
    f = eo.compile(FUNCTIONS[name])
    leaf = eo.asarray(x).requires_grad_()
    f(leaf).sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), SLOPES[name](x), rtol=1e-14)


def test_a_forward_function_that_calls_its_own():
    @eo.custom_vjp
    def f(x):
        return eo.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * 7,))
    found = eo.compile(eo.grad(lambda x: f(x).sum()))(eo.ones(2))
    assert found.tolist() == [7.0, 7.0]
    assert eo.grad(lambda x: eo.compile(f)(x).sum())(eo.ones(2)).tolist() == [7.0, 7.0]


DERIVATIVES = {
    "grad": lambda f: eo.grad(lambda x: f(x).sum()),
    "jvp": lambda f: lambda x: eo.jvp(f, (x,), (eo.ones_like(x),))[1],
    "vmap of grad": lambda f: eo.vmap(eo.grad(f)),
    "backward": lambda f: lambda x: backward_through(f, x),
}


def backward_through(f, x):
    leaf = x.detach().requires_grad_()
    f(leaf).sum().backward()
    return leaf.grad


@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_call_in_a_block_is_constant(name, derivative):
    h, x = FUNCTIONS[name], eo.asarray(np.array([0.3, -0.7, 1.1, 0.2]))

    def f(x):
        with eo.no_grad():
            y = h(x)
        return y * x

    agree(DERIVATIVES[derivative](eo.compile(f))(x), h(x), ulps=256)
    if derivative == "grad":
        agree(eo.compile(eo.grad(lambda x: f(h(x)).sum()))(x), eo.grad(lambda x: f(h(x)).sum())(x), ulps=256)
        inner = eo.compile(f)
        agree(eo.grad(eo.compile(lambda x: inner(x).sum()))(x), h(x), ulps=256)


@pytest.mark.parametrize("switch", [eo.inference_mode, lambda: eo.set_grad_enabled(False)])
def test_a_derivative_in_a_block_is_constant(switch):
    def f(x):
        with switch():
            slope = eo.jvp(by_vjp, (x,), (eo.ones_like(x),))[1]
        return (slope * x).sum()

    x = eo.asarray(np.array([0.3, -0.7]))
    agree(eo.grad(eo.compile(f))(x), eo.asarray(SLOPES["custom_vjp"](x.numpy())), ulps=256)


def test_a_block_around_a_derivative_hides_none_inside():
    def f(x):
        with eo.no_grad():
            y = x * x * by_vjp(x)
        return y * x

    x = eo.asarray(np.array([0.3, -0.7, 1.1, 0.2]))
    with eo.no_grad():
        for g in (f, eo.compile(f)):
            found = eo.jvp(g, (x,), (eo.ones_like(x),))[1]
            np.testing.assert_allclose(found.numpy(), x.numpy() ** 2 * np.exp(x.numpy()), rtol=1e-14)
