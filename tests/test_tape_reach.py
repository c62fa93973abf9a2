"""What a tape does with what lies outside of it: dropped leaves, captured tensors, hooks, arguments."""

import numpy as np
import pytest

import everyo as eo

f64 = eo.float64
ONE = eo.tensor(1.0, dtype=f64)


def leaf(value):
    return eo.tensor(value, dtype=f64, requires_grad=True)


# ---- whose leaf has been dropped

INNER = {  # each is 3 y**2 or y**3 at y = 6, from a transformation inside
    "grad": lambda y: eo.grad(lambda z: z**3)(y),
    "captured": lambda y: eo.grad(lambda z: z * y**3 / 2)(eo.tensor(5.0, dtype=f64)),
    "value": lambda y: eo.value_and_grad(lambda z: z * y**3)(ONE)[0],
    "vjp": lambda y: eo.vjp(lambda z: z**3, y)[0],
    "pullback": lambda y: eo.vjp(lambda z: z**3, y)[1](ONE)[0],
    "pushforward": lambda y: eo.linearize(lambda z: z**3, y)[1](ONE),
    "jacrev": lambda y: eo.jacrev(lambda z: z**3)(y),
    "jvp": lambda y: eo.jvp(lambda z: z**3, (y,), (ONE,))[1],
    "hvp": lambda y: eo.hvp(lambda z: z**4 / 4, y, ONE),
    "checkpoint": lambda y: eo.checkpoint(eo.grad(lambda z: z**3))(y),
    "aux": lambda y: eo.grad(lambda z: (z, z**3), has_aux=True)(y)[1],
}
SLOPES = {"captured": 54.0, "value": 108.0, "vjp": 108.0, "aux": 108.0}  # 36 for all the others


def hidden_of(keep):
    x = leaf(2.0)
    y = (x * 3).retain_grad()
    keep.append(x)
    return y


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("name", INNER)
def test_a_hidden_tensor_stays_differentiable_when_its_leaf_is_dropped(name, kept):
    slope, held = SLOPES.get(name, 36.0), []
    y = hidden_of(held if kept else [])
    seen = []
    y.register_hook(lambda g: seen.append(g.item()))
    out = INNER[name](y)
    assert eo.autograd.grad(out, y, retain_graph=True)[0].item() == pytest.approx(slope)
    seen.clear()
    (out + y).backward()
    assert y.grad.item() == pytest.approx(slope + 1)
    assert seen == [pytest.approx(slope + 1)]
    if kept:
        assert held[0].grad.item() == pytest.approx(3 * slope + 3)


@pytest.mark.parametrize("kept", [True, False])
def test_a_leaf_dropped_before_backward_leaves_the_other_results_their_cotangents(kept):
    x, w = leaf(2.0), leaf(3.0)
    a, b, _ = eo.checkpoint(lambda x, w: (eo.grad(lambda z: z**3)(x), w * 2, w * w))(x, w)
    if not kept:
        del x
    (a * 5 + b * 7).backward()
    assert w.grad.item() == 14.0


def test_leaves_made_inside_stay_differentiable():
    made = []

    def f(x):
        made.append(leaf(5.0))
        return x * made[0] ** 2

    eo.grad(f)(ONE).backward()
    assert made[0].grad.item() == 10.0


def test_gradients_of_nothing_outside_have_no_graph():
    def inner(y):
        return eo.grad(lambda z: z**2 * y)(eo.tensor(5.0, dtype=f64))

    value, gradient = eo.value_and_grad(lambda y: inner(y) * y)(ONE)  # 10 y**2
    assert (value.item(), gradient.item()) == (10.0, 20.0)
    assert not value.requires_grad
    assert not gradient.requires_grad


# ---- transformations that run again what has ended


def pushed(f):
    return lambda x: eo.linearize(f, x)[1](eo.ones_like(x))


def softmax_rule():
    def value(x):
        return eo.logsumexp(eo.stack([x, 2 * x, x * x]))

    f = eo.custom_vjp(value)
    f.defvjp(lambda x: (value(x), eo.grad(value)(x)), lambda slope, g: (g * slope,))
    return f, value


def test_a_residual_that_is_an_inner_gradient():
    f, value = softmax_rule()
    x = eo.tensor(0.7, dtype=f64)
    expected = eo.grad(eo.grad(value))(x).item()
    assert expected == pytest.approx(0.6106418, abs=1e-6)
    assert pushed(pushed(f))(x).item() == pytest.approx(expected)
    assert eo.grad(eo.grad(f))(x).item() == pytest.approx(expected)


CUBE = eo.grad(lambda x: x**3)


@pytest.mark.parametrize("outer", [eo.grad, pushed, eo.jacrev, lambda f: lambda x: eo.vjp(f, x)[1](ONE)[0]])
def test_a_gradient_in_a_checkpoint(outer):
    assert outer(eo.checkpoint(CUBE))(eo.tensor(0.7, dtype=f64)).item() == pytest.approx(4.2)


# ---- linear time


def unrolled(n, step):
    def f(x):
        for _ in range(n):
            x = x - 0.001 * step(x)
        return x

    return f


STEPS = {
    "grad": eo.grad(lambda z: z**4),
    "value_and_grad": lambda x: eo.value_and_grad(lambda z: z**4)(x)[1],
    "vjp": lambda x: eo.vjp(lambda z: z**4, x)[1](ONE)[0],
}


def visited(monkeypatch, function):
    """Count how often the parents of nodes are looked at while a function runs."""
    from everyo.core.tape import Node

    looked = 0
    slot = Node.__dict__["parents"]

    def parents(node):
        nonlocal looked
        looked += 1
        return slot.__get__(node)

    with monkeypatch.context() as patch:
        patch.setattr(Node, "parents", property(parents, slot.__set__))
        function()
    return looked


@pytest.mark.parametrize("name", STEPS)
def test_inner_derivatives_do_not_walk_the_graph_around_them(name, monkeypatch):
    few, many = (visited(monkeypatch, lambda n=n: eo.grad(unrolled(n, STEPS[name]))(ONE)) for n in (10, 40))
    assert few > 0
    assert many < 4.5 * few


def test_many_results_of_one_graph_are_walked_once(monkeypatch):
    def f(x):
        for _ in range(100):
            x = eo.sin(x)
        return [x * k for k in range(50)]

    one = visited(monkeypatch, lambda: eo.vjp(lambda x: f(x)[:1], ONE)[1]([ONE]))
    many = visited(monkeypatch, lambda: eo.vjp(f, ONE)[1]([ONE] * 50))
    assert many < 3 * one


# ---- code of the user's in the backward pass: rules and hooks that capture a tensor from outside


def with_vjp_rule(w):
    f = eo.custom_vjp(lambda x: x * x)
    f.defvjp(lambda x: (x * x, x), lambda x, g: (g * w * x,))
    return f


def with_jvp_rule(w):
    f = eo.custom_jvp(lambda x: x * x)
    f.defjvp(lambda primals, tangents: (primals[0] ** 2, tangents[0] * w * primals[0]))
    return f


def with_class(w):
    class Square(eo.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * w * ctx.saved_tensors[0]

    return Square.apply


def with_hook(kind):
    def make(w):
        def f(x):
            y = x * 1
            if kind == "tensor":
                y.register_hook(lambda g: g * w / 2)
            elif kind == "node":
                y.grad_node.register_hook(lambda into, out: tuple(g * w / 2 for g in into))
            else:
                y.grad_node.register_prehook(lambda out: tuple(g * w / 2 for g in out))
            return y * y

        return f

    return make


RULES = {  # each makes a function of x that is pulled back to w x
    "custom_vjp": with_vjp_rule,
    "custom_jvp": with_jvp_rule,
    "Function": with_class,
    "checkpointed": lambda w: eo.checkpoint(with_vjp_rule(w)),
    "hook": with_hook("tensor"),
    "node hook": with_hook("node"),
    "prehook": with_hook("before"),
}
X = eo.tensor(3.0, dtype=f64)
ALONG = {
    "grad": lambda f, w: eo.grad(f)(w),
    "vjp": lambda f, w: eo.vjp(f, w)[1](ONE)[0],
    "jvp": lambda f, w: eo.jvp(f, (w,), (ONE,))[1],
    "vmap of grad": lambda f, w: eo.vmap(eo.grad(f))(eo.stack([w, w]))[1],
    "grad of vmap": lambda f, w: eo.grad(lambda w: eo.vmap(lambda a: f(w) * a)(eo.stack([ONE])).sum())(w),
    "grad under jvp": lambda f, w: eo.grad(lambda w: eo.jvp(lambda a: f(w) * a, (ONE,), (ONE,))[1])(w),
    "jvp under grad": lambda f, w: eo.grad(lambda w: eo.jvp(lambda a: a * 1, (ONE,), (ONE,))[1] * f(w))(w),
}


@pytest.mark.parametrize("along", ALONG)
@pytest.mark.parametrize("name", RULES)
def test_a_rule_that_captures_what_is_differentiated_outside(name, along):
    w = eo.tensor(2.0, dtype=f64)
    assert eo.grad(RULES[name](w))(X).item() == 6.0
    assert ALONG[along](lambda w: eo.grad(RULES[name](w))(X), w).item() == 3.0
    assert ALONG[along](lambda w: eo.linearize(RULES[name](w), X)[1](ONE), w).item() == 3.0


@pytest.mark.parametrize("name", RULES)
def test_a_first_derivative_keeps_no_graph_of_what_a_rule_captures(name):
    w, x = leaf(2.0), leaf(3.0)
    RULES[name](w)(x).backward()
    assert x.grad.item() == 6.0
    assert not x.grad.requires_grad
    assert w.grad is None
    with eo.no_grad():
        assert not eo.grad(RULES[name](w))(X).requires_grad
    (slope,) = eo.autograd.grad(RULES[name](w)(x), x, create_graph=True)
    assert eo.autograd.grad(slope, w)[0].item() == 3.0


@pytest.mark.parametrize("name", ["hook", "node hook", "prehook"])
def test_hooks_in_every_nesting(name):
    f = RULES[name](eo.tensor(20.0, dtype=f64))  # the gradient is 20 x
    points = eo.stack([X, ONE])
    assert eo.vmap(eo.grad(f))(points).tolist() == [60.0, 20.0]
    value, slope = eo.jvp(eo.grad(f), (X,), (ONE,))
    assert (value.item(), slope.item()) == (60.0, 20.0)
    assert eo.hessian(f)(X).item() == 20.0
    assert eo.vmap(eo.hessian(f))(points).tolist() == [20.0, 20.0]


# ---- arguments of a differentiated function, and what it retains


def scaled(x):
    x *= 3
    return x * x


def overwritten(x):
    x[0] = x[1] * 2
    return x * x


IN_PLACE = {  # a function that changes its argument, and the same without
    "imul": (scaled, lambda x: 9 * x * x),
    "iadd": (lambda x: x.__iadd__(x * x) * 1, lambda x: x + x * x),
    "setitem": (overwritten, lambda x: eo.stack([2 * x[1], x[1]]) ** 2),
    "twice": (lambda x: scaled(scaled(x)), lambda x: 9 * (9 * x * x) ** 2),
}
POINT = eo.tensor([2.0, 3.0], dtype=f64)
DERIVATIVES = {
    "grad": lambda f: eo.grad(lambda x: f(x).sum())(POINT),
    "value": lambda f: eo.value_and_grad(lambda x: f(x).sum())(POINT)[0],
    "has_aux": lambda f: eo.grad(lambda x: ((x * 1).sum(), f(x)), has_aux=True)(POINT)[1],
    "vjp": lambda f: eo.vjp(f, POINT)[1](POINT)[0],
    "jvp": lambda f: eo.jvp(f, (POINT,), (POINT,))[1],
    "jacrev": lambda f: eo.jacrev(f)(POINT),
    "jacfwd": lambda f: eo.jacfwd(f)(POINT),
    "linearize": lambda f: eo.linearize(f, POINT)[1](POINT),
    "hessian": lambda f: eo.hessian(lambda x: f(x).sum())(POINT),
    "grad of grad": lambda f: eo.grad(lambda x: eo.grad(lambda x: f(x).sum())(x).sum())(POINT),
    "vmap of grad": lambda f: eo.vmap(eo.grad(lambda x: f(x).sum()))(eo.stack([POINT, POINT * 2])),
    "vmap": lambda f: eo.vmap(f)(eo.stack([POINT, POINT * 2])),
}


@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize("statement", IN_PLACE)
def test_a_function_may_change_its_argument_in_place(name, statement):
    changing, plain = IN_PLACE[statement]
    expected = DERIVATIVES[name](plain)
    np.testing.assert_allclose(DERIVATIVES[name](changing).numpy(), expected.numpy(), rtol=1e-12)
    assert POINT.tolist() == [2.0, 3.0]
    x = leaf([2.0, 3.0])
    assert eo.grad(lambda x: changing(x).sum())(x).tolist() == eo.grad(lambda x: plain(x).sum())(x).tolist()
    assert x.tolist() == [2.0, 3.0]
    assert x.is_leaf


def test_hidden_gradients_of_a_differentiated_function_can_be_retained():
    kept = []

    def f(x):
        y = x * 1
        kept.append(y.retain_grad())
        return y * y

    eo.grad(f)(X)
    x = leaf(3.0)
    eo.grad(f)(x)
    _, pullback = eo.vjp(f, X)
    pullback(ONE)
    pullback(ONE * 2)
    eo.jacrev(lambda x: f(x) * 1)(X)
    assert [y.grad.item() for y in kept[:3]] == [6.0, 6.0, 12.0]
    assert eo.vmap(eo.grad(f))(eo.stack([X])).tolist() == [6.0]
    with pytest.raises(eo.GraphStateError, match="outlived"):  # it is a value of the batch that has ended
        kept[-1].grad + 1


def test_gradients_are_retained_where_only_some_inputs_are_asked_for():
    x, w = leaf(2.0), leaf(1.0)
    y = (x * 3).retain_grad()
    (y * y * w).backward(inputs=[x])
    assert (x.grad.item(), y.grad.item(), w.grad) == (36.0, 12.0, None)


def test_a_retained_gradient_inside_is_there_inside():
    def f(x):
        y = (x * 2).retain_grad()
        inner = eo.grad(lambda z: (z * y).sum())(ONE)
        y.sum().backward(retain_graph=True)
        assert y.grad.item() == 1.0
        return inner * y

    assert eo.grad(f)(X).item() == 24.0
