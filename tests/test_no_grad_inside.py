"""A `no_grad` block inside a function is constant to its derivative, in both modes and every nesting."""

import pytest

import everyo as eo

f64 = eo.float64
X = eo.tensor(3.0, dtype=f64)
ONE = eo.ones_like(X)

DERIVATIVES = {
    "grad": lambda f: eo.grad(f)(X),
    "value_and_grad": lambda f: eo.value_and_grad(f)(X)[1],
    "vjp": lambda f: eo.vjp(f, X)[1](ONE)[0],
    "linearize": lambda f: eo.linearize(f, X)[1](ONE),
    "jacrev": lambda f: eo.jacrev(f)(X),
    "jvp": lambda f: eo.jvp(f, (X,), (ONE,))[1],
    "jacfwd": lambda f: eo.jacfwd(f)(X),
    "jacobian": lambda f: eo.jacobian(f)(X),
    "vmap of grad": lambda f: eo.vmap(eo.grad(f))(eo.stack([X, ONE]))[0],
    "vmap of jvp": lambda f: eo.vmap(lambda x: eo.jvp(f, (x,), (ONE,))[1])(eo.stack([X, ONE]))[0],
    "grad of vmap": lambda f: eo.grad(lambda x: eo.vmap(f)(eo.stack([x, ONE]))[0])(X),
    "jvp of vmap": lambda f: eo.jvp(lambda x: eo.vmap(f)(eo.stack([x, ONE]))[0], (X,), (ONE,))[1],
    "sparse": lambda f: eo.sparse_jacobian(lambda x: f(x[0]).reshape(1), eo.stack([X])).todense()[0, 0],
    "implicit": lambda f: eo.grad(lambda x: root_of(f)(ONE, x))(X),
    "implicit jvp": lambda f: eo.jvp(lambda x: root_of(f)(ONE, x), (X,), (ONE,))[1],
    "checkpoint": lambda f: eo.grad(eo.checkpoint(f))(X),
    "jvp of checkpoint": lambda f: eo.jvp(eo.checkpoint(f), (X,), (ONE,))[1],
}


def root_of(f):
    return eo.implicit.custom_root(lambda y, x: y - f(x))(lambda start, x: f(x))


SWITCHES = {
    "no_grad": eo.no_grad,
    "inference_mode": eo.inference_mode,
    "set_grad_enabled": lambda: eo.set_grad_enabled(False),
}


def half_constant(switch):
    def f(x):
        with switch():
            square = x * x
        return x * square

    return f


@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize("switch", SWITCHES)
def test_what_a_block_computes_is_constant(name, switch):
    assert DERIVATIVES[name](half_constant(SWITCHES[switch])).item() == pytest.approx(9.0)


def everything(x):
    with eo.no_grad():
        return x**3


@pytest.mark.parametrize("name", DERIVATIVES)
def test_a_function_that_is_one_block_has_no_derivative(name):
    assert DERIVATIVES[name](everything).item() == 0.0
    assert DERIVATIVES[name](eo.no_grad()(lambda x: x**3)).item() == 0.0


@pytest.mark.parametrize("name", DERIVATIVES)
def test_a_block_around_a_transformation_does_not_concern_it(name):
    with eo.no_grad():
        assert DERIVATIVES[name](lambda x: x**3).item() == pytest.approx(27.0)
        assert DERIVATIVES[name](half_constant(eo.no_grad)).item() == pytest.approx(9.0)


@pytest.mark.parametrize("name", DERIVATIVES)
def test_enable_grad_inside_a_block(name):
    def f(x):
        with eo.no_grad():
            constant = x * x
            with eo.enable_grad():
                slope = x * 5
        return constant * slope

    assert DERIVATIVES[name](f).item() == pytest.approx(45.0)


INNER = {  # each is 3 x**2 = 27 at 3, with the slope 18
    "grad": lambda x: eo.grad(lambda y: y**3)(x),
    "value": lambda x: eo.value_and_grad(lambda y: 3 * y * y)(x)[0],
    "captured": lambda x: eo.grad(lambda y: 3 * y * x * x)(ONE),
    "vjp": lambda x: eo.vjp(lambda y: y**3, x)[1](ONE)[0],
    "jvp": lambda x: eo.jvp(lambda y: y**3, (x,), (ONE,))[1],
    "jacfwd": lambda x: eo.jacfwd(lambda y: y**3)(x),
}


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("name", DERIVATIVES)
def test_a_transformation_inside_a_block(name, inner):
    def f(x):
        with eo.no_grad():
            slope = INNER[inner](x)
        return x * slope

    assert f(X).item() == 81.0
    assert DERIVATIVES[name](f).item() == pytest.approx(27.0)
    assert DERIVATIVES[name](INNER[inner]).item() == pytest.approx(18.0)


def test_both_directions_agree_on_second_derivatives():
    f = half_constant(eo.no_grad)  # its first derivative, x * x, is computed in the block
    for second in (
        eo.hessian(f),
        eo.jacrev(eo.grad(f)),
        eo.jacfwd(eo.jacfwd(f)),
        lambda x: eo.hvp(f, x, ONE),
        lambda x: eo.vhp(f, x, ONE),
    ):
        assert second(X).item() == 0.0


def test_jacobians_do_not_depend_on_the_direction_that_is_cheaper():
    def f(x):
        with eo.no_grad():
            scale = (x * x).sum()
        return x * scale

    x = eo.tensor([1.0, 2.0], dtype=f64)
    assert eo.jacobian(f)(x).tolist() == [[5.0, 0.0], [0.0, 5.0]]  # forward
    assert eo.jacobian(lambda x: f(x)[:1])(x).tolist() == [[5.0, 0.0]]  # reverse


@pytest.mark.parametrize("name", ["custom_vjp", "custom_jvp", "Function"])
def test_rules_in_a_block_are_constant(name):
    f = eo.custom_vjp(lambda x: x**2)
    f.defvjp(lambda x: (x**2, x), lambda x, g: (2 * x * g,))
    g = eo.custom_jvp(lambda x: x**2)
    g.defjvp(lambda primals, tangents: (primals[0] ** 2, 2 * primals[0] * tangents[0]))

    class Square(eo.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            needs.append(ctx.needs_input_grad[0])
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, u):
            return 2 * ctx.saved_tensors[0] * u

    needs = []
    square = {"custom_vjp": f, "custom_jvp": g, "Function": Square.apply}[name]

    def half(x):
        with eo.no_grad():
            constant = square(x)
        return x * constant

    for derivative in DERIVATIVES.values():
        needs.clear()
        assert derivative(half).item() == pytest.approx(9.0)
        assert not any(needs)
        assert derivative(square).item() == pytest.approx(6.0)


def test_results_under_an_outer_block_have_no_graph():
    w = eo.tensor(2.0, dtype=f64, requires_grad=True)
    points = eo.stack([X, ONE])
    with eo.no_grad():
        for result in (
            eo.vmap(lambda x: eo.vjp(lambda y: y * w, x)[0])(points),
            eo.vmap(eo.grad(lambda x: x * x * w))(points),
            eo.vmap(lambda x: eo.jvp(lambda y: y * y * w, (x,), (ONE,))[1])(points),
            eo.jvp(lambda x: eo.value_and_grad(lambda y: y * w)(x)[0], (X,), (ONE,))[1],
        ):
            assert not result.requires_grad


@pytest.mark.parametrize("name", DERIVATIVES)
def test_a_pullback_from_a_block_is_constant_beyond_it(name):
    def f(x):
        with eo.no_grad():
            _, pullback = eo.vjp(lambda y: y * y * x, x)
            _, pushforward = eo.linearize(lambda y: y * y * x, x)
        return x * (pullback(ONE)[0] + pushforward(ONE)) / 4  # x * x**2, of which one is constant

    assert DERIVATIVES[name](f).item() == pytest.approx(9.0)
    with eo.no_grad():
        assert DERIVATIVES[name](f).item() == pytest.approx(9.0)


LINEAR = {
    "pullback": lambda x: eo.vjp(lambda y: y**3, x)[1],
    "of grad": lambda x: eo.vjp(lambda y: eo.grad(lambda z: z**4 / 4)(y), x)[1],
    "pushforward": lambda x: eo.linearize(lambda y: y**3, x)[1],
    "captured": lambda x: eo.vjp(lambda y: 3 * y * x * x, ONE)[1],
    "captured pushforward": lambda x: eo.linearize(lambda y: 3 * y * x * x, ONE)[1],
}


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("linear", LINEAR)
@pytest.mark.parametrize("name", DERIVATIVES)
def test_a_pullback_that_is_called_in_a_block_is_constant(name, linear, switch):
    def f(x, seed=ONE):
        call = LINEAR[linear](x)
        with SWITCHES[switch]():
            slope = call(seed)
        return x * (slope if isinstance(slope, eo.Tensor) else slope[0])

    assert DERIVATIVES[name](f).item() == pytest.approx(27.0)
    assert DERIVATIVES[name](lambda x: f(x, eo.ones_like(x) * x / x)).item() == pytest.approx(27.0)
    with eo.no_grad():
        assert DERIVATIVES[name](f).item() == pytest.approx(27.0)


def test_without_a_transformation_around_it_has_no_graph():
    w = eo.tensor(2.0, dtype=f64, requires_grad=True)
    _, pullback = eo.vjp(lambda x: x * w * x, X)
    _, pushforward = eo.linearize(lambda x: x * w * x, X)
    for call in (lambda seed: pullback(seed)[0], pushforward):
        with eo.no_grad():
            assert not call(ONE).requires_grad
            assert not call(w).requires_grad
            with eo.enable_grad():
                assert eo.autograd.grad(call(ONE), w, retain_graph=True)[0].item() == 6.0
        assert eo.autograd.grad(call(ONE), w, retain_graph=True)[0].item() == 6.0
        assert eo.autograd.grad(call(w), w, retain_graph=True)[0].item() == 24.0


@pytest.mark.parametrize("name", DERIVATIVES)
def test_a_pullback_from_a_block_is_linear_in_what_it_is_given(name):
    """What it has saved is constant; the cotangent or tangent that it is given later is not."""

    def f(x, make=eo.vjp):
        with eo.no_grad():
            _, call = make(lambda y: y * y * x + eo.jvp(lambda z: z * y * x, (x,), (x,))[1], x)
        found = call(x)  # 3 x**2 times x, of which the first is constant
        return found if isinstance(found, eo.Tensor) else found[0]

    assert f(X).item() == 81.0
    assert DERIVATIVES[name](f).item() == pytest.approx(27.0)
    assert DERIVATIVES[name](lambda x: f(x, eo.linearize)).item() == pytest.approx(27.0)
    assert DERIVATIVES[name](lambda x: f(x) * x).item() == pytest.approx(162.0)


@pytest.mark.parametrize("name", DERIVATIVES)
def test_a_block_that_outlives_its_transformation_is_one_around_the_next(name):
    def left_on(x):
        eo.set_grad_enabled(False)
        return x * x

    try:
        eo.jvp(left_on, (X,), (ONE,))
        assert not eo.is_grad_enabled()
        assert DERIVATIVES[name](lambda x: x**3).item() == pytest.approx(27.0)
        assert DERIVATIVES[name](half_constant(eo.no_grad)).item() == pytest.approx(9.0)
    finally:
        eo.set_grad_enabled(True)
