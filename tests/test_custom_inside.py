"""Rules of the user's own inside solvers, sparse derivatives and `no_grad` blocks count there, too."""

import numpy as np
import pytest

import everyo as eo

f64 = eo.float64
X = eo.tensor([0.3, 1.4], dtype=f64)
ONES = eo.ones_like(X)


def straight_through():
    f = eo.custom_vjp(lambda x: eo.round(x))
    f.defvjp(lambda x: (eo.round(x), None), lambda kept, g: (g,))
    return f


def straight_forward():
    f = eo.custom_jvp(lambda x: eo.round(x))
    f.defjvp(lambda primals, tangents: (eo.round(primals[0]), tangents[0]))
    return f


def numpy_sine():
    f = eo.custom_vjp(lambda x: eo.tensor(np.sin(x.numpy())))
    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * eo.cos(x),))
    return f


def kept_slope():
    f = eo.custom_vjp(lambda x: eo.sin(x))
    f.defvjp(lambda x: (eo.sin(x), eo.cos(x)), lambda slope, g: (g * slope,))
    return f


class Sine(eo.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return np.sin(x.numpy())

    @staticmethod
    def backward(ctx, g):
        return g * eo.cos(ctx.saved_tensors[0])


ROUND, SINE = (np.round, np.ones_like, np.zeros_like), (np.sin, np.cos, lambda x: -np.sin(x))
RULES = {
    "straight through": (straight_through(), *ROUND),
    "straight forward": (straight_forward(), *ROUND),
    "NumPy": (numpy_sine(), *SINE),
    "kept slope": (kept_slope(), *SINE),
    "class": (Sine.apply, *SINE),
}


def rooted(f):
    solved = eo.implicit.custom_root(lambda y, p: 2 * y - 2 * f(p))(lambda y, p: f(p))
    return lambda p: solved(p * 0, p)


def captured(f):
    return lambda p: eo.implicit.custom_root(lambda y: y - f(p))(lambda y: f(p))(p * 0)


def fixed(f):
    solved = eo.implicit.custom_fixed_point(lambda y, p: y / 4 + f(p) * 0.75)(lambda y, p: f(p))
    return lambda p: solved(p * 0, p)


def linear(f):
    return lambda p: eo.implicit.solve_gmres(lambda v: v * 2, 2 * f(p))


SOLVERS = {"root": rooted, "captured": captured, "fixed point": fixed, "linear": linear}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", RULES)
def test_inside_a_solver(name, solver):
    f, value, first, second = RULES[name]
    g, x = SOLVERS[solver](f), X.numpy()
    np.testing.assert_allclose(g(X).numpy(), value(x))
    np.testing.assert_allclose(eo.grad(lambda p: g(p).sum())(X).numpy(), first(x))
    np.testing.assert_allclose(eo.jvp(g, (X,), (X,))[1].numpy(), first(x) * x)
    np.testing.assert_allclose(eo.jacrev(g)(X).numpy(), np.diag(first(x)))
    hessian = np.diag(2 * first(x) ** 2 + 2 * value(x) * second(x))

    def squared(p):
        return (g(p) ** 2).sum()

    np.testing.assert_allclose(eo.hessian(squared)(X).numpy(), hessian, atol=1e-12)
    np.testing.assert_allclose(eo.jacrev(eo.grad(squared))(X).numpy(), hessian, atol=1e-12)


@pytest.mark.parametrize("name", ["kept slope", "NumPy", "class"])
@pytest.mark.parametrize("inner", ["grad", "jvp"])
def test_derivatives_of_a_rule_inside_a_solver(name, inner):
    f, _, first, second = RULES[name]
    slope = {
        "grad": lambda p: eo.grad(lambda p: f(p).sum())(p),
        "jvp": lambda p: eo.jvp(f, (p,), (eo.ones_like(p),))[1],
    }[inner]
    x = X.numpy()
    for solver in SOLVERS.values():
        g = solver(slope)
        np.testing.assert_allclose(g(X).numpy(), first(x))
        np.testing.assert_allclose(eo.jvp(g, (X,), (ONES,))[1].numpy(), second(x))
        np.testing.assert_allclose(eo.grad(lambda p, g=g: g(p).sum())(X).numpy(), second(x))


@pytest.mark.parametrize("name", RULES)
def test_sparse_derivatives(name):
    f, value, first, second = RULES[name]
    x = X.numpy()
    np.testing.assert_allclose(eo.sparse_jacobian(f, X).toarray(), np.diag(first(x)))

    def squared(x):
        return (f(x) ** 2).sum()

    hessian = np.diag(2 * first(x) ** 2 + 2 * value(x) * second(x))
    np.testing.assert_allclose(eo.sparse_hessian(squared, X).toarray(), hessian, atol=1e-15)


@pytest.mark.parametrize("name", RULES)
def test_patterns_are_those_of_the_rules(name):
    f, _, first, _ = RULES[name]
    n = 3000
    x = eo.linspace(0.1, 3.0, n, dtype=f64)
    jacobian = eo.sparse_jacobian(lambda x: f(x)[1:] * x[:-1] + f(2 * x[1:]), x)
    assert jacobian.shape == (n - 1, n)
    assert jacobian.nnz == 2 * (n - 1)
    at, slope = x.numpy(), first(x.numpy()[1:])
    np.testing.assert_allclose(jacobian.diagonal(1), slope * at[:-1] + 2 * first(2 * at[1:]))


def test_patterns_of_rules_of_several_arguments_and_results():
    f = eo.custom_vjp(lambda x, k, y: (x * y[:1], x[::-1] * k, eo.argmax(x)))

    def backward(kept, gs):
        x, k, y = kept
        return gs[0] * y[:1] + gs[1][::-1] * k, None, eo.concat([(gs[0] * x).sum().reshape(1), y[1:] * 0])

    f.defvjp(lambda x, k, y: ((x * y[:1], x[::-1] * k, eo.argmax(x)), (x, k, y)), backward)

    def g(p):
        return list(f(p["x"], 3.0, p["y"])[:2])

    point = {"x": eo.tensor([1.0, 2.0, 3.0], dtype=f64), "y": eo.tensor([5.0, 7.0], dtype=f64)}
    pattern = eo.sparse_jacobian(g).sparsity(point).toarray()
    assert pattern[:3].astype(int).tolist() == [[1, 0, 0, 1, 0], [0, 1, 0, 1, 0], [0, 0, 1, 1, 0]]
    assert pattern[3:].astype(int).tolist() == [[0, 0, 1, 0, 0], [0, 1, 0, 0, 0], [1, 0, 0, 0, 0]]
    found = eo.sparse_jacobian(g, point).toarray()
    assert found[:3].tolist() == [[5, 0, 0, 1, 0], [0, 5, 0, 2, 0], [0, 0, 5, 3, 0]]
    assert found[3:].tolist() == [[0, 0, 3, 0, 0], [0, 3, 0, 0, 0], [3, 0, 0, 0, 0]]


def test_a_rule_that_decides_on_values_has_its_pattern_at_each_point():
    f = eo.custom_vjp(lambda x: eo.where(x.sum() > 0, x, x[::-1]))
    f.defvjp(lambda x: (f(x), x), lambda x, g: (g if x.sum() > 0 else g[::-1],))
    jacobian = eo.sparse_jacobian(f)
    assert jacobian(eo.tensor([1.0, 2.0])).toarray().tolist() == [[1, 0], [0, 1]]
    assert jacobian(eo.tensor([-1.0, -2.0])).toarray().tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("name", RULES)
def test_in_a_block_that_records_nothing(name):
    f, value, first, _ = RULES[name]
    x = eo.tensor([0.3, 1.4], dtype=f64, requires_grad=True)
    with eo.no_grad():
        y = f(x)
    np.testing.assert_allclose(y.numpy(), value(X.numpy()))
    assert not y.requires_grad

    def half(x):
        with eo.no_grad():
            constant = f(x)
        return constant * f(x)

    expected = value(X.numpy()) * first(X.numpy())
    np.testing.assert_allclose(eo.jvp(half, (X,), (ONES,))[1].numpy(), expected)
    np.testing.assert_allclose(eo.grad(lambda x: half(x).sum())(X).numpy(), expected)
