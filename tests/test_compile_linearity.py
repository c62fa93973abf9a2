"""Whether rules and products are linear, where only the compiled program can tell."""

import numpy as np
import pytest

import everyo as eo
from tests.compiling import agree

A = eo.asarray(np.array([[3.0, 1.0], [1.0, 2.0]]))
B = eo.asarray(np.array([1.0, -2.0]))
NONE = eo.zeros(2, dtype="float64")


def square(offset):
    """Return a square whose rule for forward mode is linear where `offset` of the point is zero."""

    @eo.custom_jvp
    def f(x):
        return x**2

    f.defjvp(lambda p, t: (p[0] ** 2, 2 * p[0] * t[0] + offset(p[0])))
    return f


def twice():
    """Return a square whose backward rule adds a constant, to be transposed for forward mode."""

    @eo.custom_vjp
    def f(x, c):
        return x**2 + 0 * c

    f.defvjp(lambda x, c: (x**2 + 0 * c, (x, c)), lambda kept, g: (2 * kept[0] * g + kept[1], 0 * g))
    return f


def within(product):
    return lambda c: eo.implicit.solve_cg(lambda w: product(w, c), B)


PRODUCTS = {
    "sum": lambda w, c: A @ w + c,
    "joined": lambda w, c: A @ eo.concat([w[:1], w[1:] + c[:1]]),
    "chosen": lambda w, c: A @ eo.where(c == 0, w, 1.0),
    "constant": lambda w, c: c * 1,
    "written": lambda w, c: _written(A @ w, c),
}


def _written(y, c):
    y[0] += c[0]
    return y


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("derivative", ["value", "grad", "jvp"])
def test_products_of_a_solver(name, derivative):
    f = within(PRODUCTS[name])
    g = {"value": f, "grad": eo.grad(lambda c: f(c).sum()), "jvp": lambda c: eo.jvp(f, (c,), (c + 1,))[1]}[
        derivative
    ]
    compiled = eo.compile(g)
    with pytest.raises(eo.UnsupportedOperationError, match="matvec is not linear"):
        g(B)
    with pytest.raises(eo.UnsupportedOperationError, match="matvec is not linear"):
        compiled(B)
    if name != "constant" and derivative == "value":
        agree(compiled(NONE), g(NONE), tol=1e-9)
        assert compiled.cache_info().misses == 1


RULES = {
    "grad": eo.grad,
    "second": lambda f: eo.grad(eo.grad(f)),
    "loop": lambda f: eo.grad(lambda x: eo.fori_loop(0, 2, lambda i, s: f(s) * x, x)),
    "branch": lambda f: eo.grad(lambda x: eo.cond(x > 0, f, lambda x: x, x)),
    "batch": lambda f: lambda x: eo.vmap(eo.grad(f))(eo.stack([x, x + 1])),
}


@pytest.mark.parametrize("name", RULES)
def test_rules_for_forward_mode_that_are_transposed(name):
    x = eo.asarray(3.0)
    g = RULES[name](square(lambda p: p - p))
    agree(eo.compile(g)(x), g(x))
    g = RULES[name](square(lambda p: p))
    for f in (g, eo.compile(g)):
        with pytest.raises(eo.UnsupportedOperationError, match="its jvp is not linear"):
            f(x)


def test_backward_rules_that_are_transposed():
    f = twice()
    g = lambda x, c: eo.jvp(lambda x: f(x, c), (x,), (x,))[1]  # noqa: E731
    x, c = eo.asarray(3.0), eo.asarray(0.0)
    compiled = eo.compile(g)
    agree(compiled(x, c), g(x, c))
    for h in (g, compiled):
        with pytest.raises(eo.UnsupportedOperationError, match="its backward is not linear"):
            h(x, c + 1)
