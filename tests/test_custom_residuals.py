"""What rules of the user's own keep: closures, pullbacks, objects are followed; numbers are refused."""

import functools

import numpy as np
import pytest

import everyo as eo

f64 = eo.float64
X = eo.tensor(2.0, dtype=f64)
ONE = eo.ones_like(X)


class Box:
    def __init__(self, value):
        self.value = value

    def times(self, g):
        return 3 * g * self.value * self.value


def vjp_of(fwd, bwd):
    f = eo.custom_vjp(lambda x: x**3)
    f.defvjp(fwd, bwd)
    return f


def class_of(keep, use):
    class Cube(eo.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.kept = keep(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            return use(ctx.kept, g)

    return Cube.apply


KEPT = {  # how 3 x**2 is got at: what is kept of x, and how it is used
    "closure": (lambda x: lambda g: 3 * g * x * x, lambda kept, g: kept(g)),
    "partial": (lambda x: functools.partial(eo.multiply, 3 * x * x), lambda kept, g: kept(g)),
    "method": (lambda x: Box(x).times, lambda kept, g: kept(g)),
    "object": (lambda x: Box(x * 1), lambda kept, g: kept.times(g)),
    "object of a list": (lambda x: Box([x]), lambda kept, g: 3 * g * kept.value[0] ** 2),
    "pullback": (lambda x: eo.vjp(lambda y: y**3, x)[1], lambda kept, g: kept(g)[0]),
    "object in a tree": (lambda x: {"x": x, "box": Box(x), "n": {1}}, lambda kept, g: kept["box"].times(g)),
}
FOLLOWED = {
    **{
        f"vjp: {name}": vjp_of(lambda x, keep=keep: (x**3, keep(x)), lambda r, g, use=use: (use(r, g),))
        for name, (keep, use) in KEPT.items()
    },
    **{f"class: {name}": class_of(keep, use) for name, (keep, use) in KEPT.items()},
    "vjp: as in JAX": vjp_of(lambda x: eo.vjp(lambda y: y**3, x), lambda pullback, g: pullback(g)),
}

FIRST = {  # derivatives, which are 12 at 2
    "grad": lambda f: eo.grad(f)(X),
    "jvp": lambda f: eo.jvp(f, (X,), (ONE,))[1],
    "linearize": lambda f: eo.linearize(f, X)[1](ONE),
    "vmap of grad": lambda f: eo.vmap(eo.grad(f))(eo.stack([ONE, X]))[1],
    "grad of vmap": lambda f: eo.grad(lambda x: eo.vmap(f)(eo.stack([ONE, x]))[1])(X),
    "vmap of vmap": lambda f: eo.vmap(eo.vmap(eo.grad(f)))(eo.stack([ONE, X]).reshape(1, 2))[0, 1],
    "jvp of vmap": lambda f: eo.jvp(lambda x: eo.vmap(f)(eo.stack([ONE, x]))[1], (X,), (ONE,))[1],
    "checkpoint": lambda f: eo.grad(eo.checkpoint(f))(X),
    "jacfwd": lambda f: eo.jacfwd(f)(X),
}
SECOND = {  # and second ones
    "grad of grad": lambda f: eo.grad(eo.grad(f))(X),
    "jvp of grad": lambda f: eo.jvp(eo.grad(f), (X,), (ONE,))[1],
    "grad of jvp": lambda f: eo.grad(lambda x: eo.jvp(f, (x,), (ONE,))[1])(X),
    "linearize of grad": lambda f: eo.linearize(eo.grad(f), X)[1](ONE),
    "hessian": lambda f: eo.hessian(f)(X),
    "vhp": lambda f: eo.vhp(f, X, ONE),
    "vmap of grad of grad": lambda f: eo.vmap(eo.grad(eo.grad(f)))(eo.stack([ONE, X]))[1],
    "vmap of hessian": lambda f: eo.vmap(eo.hessian(f))(eo.stack([ONE, X]))[1],
    "grad of vmap of grad": lambda f: eo.grad(lambda x: eo.vmap(eo.grad(f))(eo.stack([ONE, x]))[1])(X),
    "create_graph": lambda f: twice_on_the_tape(f),
}


def twice_on_the_tape(f):
    x = eo.tensor(2.0, dtype=f64, requires_grad=True)
    (slope,) = eo.autograd.grad(f(x), x, create_graph=True)
    return eo.autograd.grad(slope, x)[0]


@pytest.mark.parametrize("derivative", FIRST)
@pytest.mark.parametrize("name", FOLLOWED)
def test_first_derivatives(name, derivative):
    assert FIRST[derivative](FOLLOWED[name]).item() == pytest.approx(12.0)


@pytest.mark.parametrize("derivative", SECOND)
@pytest.mark.parametrize("name", FOLLOWED)
def test_second_derivatives(name, derivative):
    assert SECOND[derivative](FOLLOWED[name]).item() == pytest.approx(12.0)


def test_third_derivatives():
    for f in FOLLOWED.values():
        assert eo.grad(eo.grad(eo.grad(f)))(X).item() == pytest.approx(6.0)


READ = {  # numbers, of which no derivative can know where they come from
    "item": (lambda x: x.item(), lambda kept, g: 3 * g * kept * kept),
    "float": (lambda x: float(x) ** 2, lambda kept, g: 3 * g * kept),
    "list": (lambda x: x.tolist(), lambda kept, g: 3 * g * kept * kept),
    "box of a number": (lambda x: Box(x.item()), lambda kept, g: kept.times(g)),
    "closure over a number": (
        lambda x: (lambda n: lambda g: 3 * g * n * n)(x.item()),
        lambda kept, g: kept(g),
    ),
    "array": (lambda x: x.numpy(), lambda kept, g: 3 * g * kept * kept),
    "scalar of NumPy": (lambda x: x.numpy()[()], lambda kept, g: 3 * g * kept * kept),
    "detached": (lambda x: Box(x.detach() * 1), lambda kept, g: kept.times(g)),
    "box of an array": (lambda x: Box(x.numpy()), lambda kept, g: kept.times(g)),
}


@pytest.mark.parametrize("kind", ["vjp", "class"])
@pytest.mark.parametrize("name", READ)
def test_numbers_that_are_kept(name, kind):
    keep, use = READ[name]
    if kind == "vjp":
        f = vjp_of(lambda x: (x**3, keep(x)), lambda kept, g: (use(kept, g),))
    else:
        f = class_of(keep, use)
    for derivative in ("grad", "jvp", "linearize"):
        assert FIRST[derivative](f).item() == pytest.approx(12.0)
    for name in SECOND:
        with pytest.raises(eo.UnsupportedOperationError):
            SECOND[name](f)


def test_numbers_that_do_not_depend_on_the_arguments_may_be_kept():
    def scaled(scale, x):
        return scale * x**3

    f = eo.custom_vjp(scaled, nondiff_argnums=0)
    f.defvjp(
        lambda scale, x: (
            scaled(scale, x),
            (x, scale, 3.0, 2, "name", None, slice(1), eo.float32, np.float64),
        ),
        lambda scale, kept, g: (kept[1] * kept[2] * g * kept[0] ** kept[3],),
    )

    def half(x):
        return f(0.5, x)

    for derivative in FIRST.values():
        assert derivative(half).item() == pytest.approx(6.0)
    for derivative in SECOND.values():
        assert derivative(half).item() == pytest.approx(6.0)


def test_deciding_on_a_value_keeps_no_number():
    def fwd(x):
        factor = 3.0 if x > 0 else 5.0
        return x**3, (x, factor)

    f = vjp_of(fwd, lambda kept, g: (kept[1] * g * kept[0] ** 2,))
    assert eo.grad(eo.grad(f))(X).item() == pytest.approx(12.0)


def test_kept_tensors_of_a_function_around():
    def f(w):
        g = eo.custom_vjp(lambda x: x**3)
        g.defvjp(lambda x: (x**3, (x, w)), lambda kept, u: (kept[1] * u * kept[0] ** 2,))
        return g

    w = eo.tensor(3.0, dtype=f64, requires_grad=True)
    assert eo.grad(eo.grad(f(w)))(X).item() == pytest.approx(12.0)
    slope = eo.grad(f(w))(X)
    slope.backward()
    assert w.grad.item() == pytest.approx(4.0)
    assert eo.grad(lambda w: eo.grad(eo.grad(f(w)))(X))(w).item() == pytest.approx(4.0)
    assert eo.jvp(lambda w: eo.grad(f(w))(X), (ONE,), (ONE,))[1].item() == pytest.approx(4.0)


def test_the_forward_rule_runs_again_only_for_a_second_derivative():
    runs = []

    def fwd(x):
        runs.append(1)
        return x**3, Box(x)

    f = vjp_of(fwd, lambda kept, g: (kept.times(g),))
    assert eo.grad(f)(X).item() == 12.0
    assert len(runs) == 1
    x = eo.tensor(2.0, dtype=f64, requires_grad=True)
    f(x).backward()
    assert x.grad.item() == 12.0
    assert len(runs) == 2
    assert eo.grad(eo.grad(f))(X).item() == 12.0
    assert len(runs) == 4


def test_random_numbers_in_an_object_are_the_same_again():
    def fwd(x):
        noise = eo.random.normal(size=(), dtype="float64")
        seen.append(noise)
        return noise * x**3, Box(noise * x)

    seen = []
    f = vjp_of(fwd, lambda kept, g: (kept.times(g),))
    second = eo.grad(eo.grad(f))(X).item()
    assert len(seen) == 2
    assert second == pytest.approx(12.0 * seen[0].item() ** 2)


def test_arrays_and_numbers_of_the_caller_are_constants():
    table = np.array(3.0)
    f = eo.custom_vjp(lambda x, a: x**3, nondiff_argnums=1)
    f.defvjp(lambda x, a: (x**3, (x, a)), lambda a, kept, g: (kept[1] * g * kept[0] ** 2,))
    assert eo.grad(eo.grad(lambda x: f(x, table)))(X).item() == pytest.approx(12.0)
