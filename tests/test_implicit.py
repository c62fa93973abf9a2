"""Implicit differentiation against closed forms, to second and third order, in every direction."""

import math

import numpy as np
import pytest

import everyo as eo
from everyo.testing import gradcheck
from everyo.transforms.programs import program_of

f64 = np.float64
implicit = eo.implicit


def t(values):
    return eo.tensor(np.array(values, f64))


def close(a, b, tolerance=1e-9, atol=1e-12):
    np.testing.assert_allclose(a.detach().numpy(), b, tolerance, atol)


calls = []


@implicit.custom_root(lambda x, a: x**3 - a)
def cube_root(x, a, steps=60):
    calls.append(x.requires_grad or a.requires_grad)
    return eo.fori_loop(0, steps, lambda i, x: x - (x**3 - a) / (3 * x**2), x)


def at(a):
    return cube_root(t(1.0), a)


def test_newton_root_of_every_order():
    a = 2.0
    close(at(t(a)), a ** (1 / 3))
    first, second = a ** (-2 / 3) / 3, -2 / 9 * a ** (-5 / 3)
    third, fourth = 10 / 27 * a ** (-8 / 3), -80 / 81 * a ** (-11 / 3)
    close(eo.grad(at)(t(a)), first)
    close(eo.grad(eo.grad(at))(t(a)), second)
    close(eo.grad(eo.grad(eo.grad(at)))(t(a)), third)
    close(eo.grad(eo.grad(eo.grad(eo.grad(at))))(t(a)), fourth)

    def push(f):
        return lambda x: eo.jvp(f, (x,), (t(1.0),))[1]

    close(push(at)(t(a)), first)
    close(push(push(at))(t(a)), second)
    close(push(push(push(at)))(t(a)), third)
    close(push(eo.grad(at))(t(a)), second)
    close(eo.grad(push(at))(t(a)), second)
    close(eo.grad(push(eo.grad(at)))(t(a)), third)


def test_the_solver_itself_is_not_differentiated():
    calls.clear()
    a = t(2.0).requires_grad_()
    x = at(a)
    assert calls == [False]
    assert x.grad_node.name.startswith("root")
    (g,) = eo.autograd.grad(x, a, create_graph=True)
    (h,) = eo.autograd.grad(g, a)
    close(g.detach(), 2 ** (-2 / 3) / 3)
    close(h, -2 / 9 * 2 ** (-5 / 3))
    close(eo.grad(cube_root)(t(1.0), t(2.0)), 0.0)
    x = cube_root(t(1.0), a, steps=70)
    assert cube_root(1.0, 2.0).dtype == eo.float32


def test_root_under_vmap():
    a = t([1.5, 2.0, 8.0])
    close(eo.vmap(at)(a), a.numpy() ** (1 / 3))
    close(eo.vmap(eo.grad(at))(a), a.numpy() ** (-2 / 3) / 3)
    close(eo.grad(lambda v: eo.vmap(at)(v).sum())(a), a.numpy() ** (-2 / 3) / 3)
    close(eo.vmap(eo.grad(eo.grad(at)))(a), -2 / 9 * a.numpy() ** (-5 / 3))
    close(eo.jvp(eo.vmap(at), (a,), (t([1, 1, 1]),))[1], a.numpy() ** (-2 / 3) / 3)
    close(eo.vmap(eo.vmap(eo.grad(at)))(a.reshape((3, 1))), (a.numpy() ** (-2 / 3) / 3)[:, None])


def test_trees_and_several_parameters():
    """u + v = p, u * v = q: the roots of a quadratic."""

    def residual(x, p, q):
        return {"u": x["u"] + x["v"] - p, "v": x["u"] * x["v"] - q["q"]}

    @implicit.custom_root(residual, has_aux=True)
    def solve(init, p, q):
        root = eo.sqrt(p * p / 4 - q["q"])
        return {"u": p / 2 + root, "v": p / 2 - root}, {"note": "closed", "root": root}

    def explicit(p, q):
        return p / 2 + eo.sqrt(p * p / 4 - q)

    def found(p, q):
        return solve({"u": 0.0, "v": 0.0}, p, {"q": q, "unused": 3})[0]["u"]

    p, q = t(5.0), t(6.0)
    for nest in (eo.grad, eo.hessian):
        for n in (0, 1):
            close(nest(found, argnums=n)(p, q), nest(explicit, argnums=n)(p, q).item())
    x, aux = solve(None, p, {"q": q})
    assert (x["u"].item(), x["v"].item(), aux["note"]) == (3.0, 2.0, "closed")
    g = eo.grad(lambda p: solve(None, p, {"q": q})[1]["root"])(p)
    assert g.item() == 0.0  # aux has no derivative


def test_a_vector_root_has_the_derivatives_of_its_closed_form():
    """A(p) x = b(p), written as a root; the Hessian of a function of x against differentiating a formula."""
    rng = np.random.default_rng(0)
    m, b = t(rng.standard_normal((4, 4)) + 4 * np.eye(4)), t(rng.standard_normal(4))
    inverse = t(np.linalg.inv(m.numpy()))

    @implicit.custom_root(lambda x, p: m @ x + p * eo.sin(p) - b)
    def solve(init, p):
        return inverse @ (b - p * eo.sin(p))

    def loss(p):
        return (solve(None, p) ** 3).sum()

    def expected(p):
        return ((inverse @ (b - p * eo.sin(p))) ** 3).sum()

    p = t(rng.standard_normal(4))
    close(eo.grad(loss)(p), eo.grad(expected)(p).numpy())
    close(eo.hessian(loss)(p), eo.hessian(expected)(p).numpy(), 1e-7)
    close(eo.jacrev(eo.jacrev(loss))(p), eo.hessian(expected)(p).numpy(), 1e-7)
    close(eo.jacfwd(eo.jacfwd(loss))(p), eo.hessian(expected)(p).numpy(), 1e-7)
    close(
        eo.jacobian(lambda q: solve(None, q))(p),
        eo.jacobian(lambda q: inverse @ (b - q * eo.sin(q)))(p).numpy(),
    )


def test_captured_parameters_get_their_derivatives():
    def root(a, b):
        @implicit.custom_root(lambda x, a: x**3 - a * eo.exp(b))
        def solve(init, a):
            value, shift = a, b
            return (value * eo.exp(shift)) ** (1 / 3)

        return solve(None, a)

    def explicit(a, b):
        return (a * eo.exp(b)) ** (1 / 3)

    a, b = t(2.0), t(0.5)
    for n in (0, 1):
        close(eo.grad(root, argnums=n)(a, b), eo.grad(explicit, argnums=n)(a, b).item())
        close(eo.hessian(root, argnums=n)(a, b), eo.hessian(explicit, argnums=n)(a, b).item())
    close(eo.grad(eo.grad(root), argnums=1)(a, b), eo.grad(eo.grad(explicit), argnums=1)(a, b).item())
    bs = t([0.1, 0.5])
    expected = [eo.grad(explicit, argnums=1)(a, b).item() for b in bs]
    close(eo.vmap(eo.grad(root, argnums=1), in_axes=(None, 0))(a, bs), expected)
    close(eo.grad(lambda v: eo.vmap(root, in_axes=(None, 0))(a, v).sum())(bs), expected)


def test_the_gradient_of_a_loss_as_optimality():
    """The minimum of a convex function: logistic regression's Hessian is the matrix."""
    rng = np.random.default_rng(1)
    X, y = t(rng.standard_normal((30, 3))), t(np.sign(rng.standard_normal(30)))

    def loss(w, penalty):
        return eo.softplus(-y * (X @ w)).sum() + penalty / 2 * (w * w).sum()

    @implicit.custom_root(eo.grad(loss), solve=implicit.solve_cg)
    def fit(init, penalty):
        w = init
        for _ in range(20):
            w = w - t(np.linalg.inv(eo.hessian(loss)(w, penalty).detach().numpy())) @ eo.grad(loss)(
                w, penalty
            )
        return w

    w = t(np.zeros(3))
    close(eo.grad(loss)(fit(w, t(0.7)), t(0.7)), np.zeros(3), atol=1e-10)

    def norm(penalty):
        return (fit(w, penalty) ** 2).sum()

    step = 1e-4
    plus, minus = norm(t(0.7 + step)).item(), norm(t(0.7 - step)).item()
    close(eo.grad(norm)(t(0.7)), (plus - minus) / (2 * step), 1e-6)
    second = (eo.grad(norm)(t(0.7 + step)) - eo.grad(norm)(t(0.7 - step))).item() / (2 * step)
    close(eo.grad(eo.grad(norm))(t(0.7)), second, 1e-6)


def test_fixed_point():
    @implicit.custom_fixed_point(lambda x, a: {"x": eo.cos(a * x["x"])})
    def solve(x, a):
        return eo.while_loop(
            lambda s: eo.max(eo.abs(s[0]["x"] - s[1]["x"])) > 1e-15,
            lambda s: ({"x": eo.cos(a * s[0]["x"])}, s[0]),
            (x, {"x": x["x"] + 1}),
        )[0]

    def at(a):
        return solve({"x": t([0.5, 0.7])}, a)["x"]

    a = 0.9
    x = at(t(a)).numpy()[0]
    s, c = math.sin(a * x), math.cos(a * x)
    first = -x * s / (1 + a * s)
    u, du = x + a * first, first  # d(a x)/da
    second = (-du * s - x * c * u) / (1 + a * s) + x * s * (s + a * c * u) / (1 + a * s) ** 2
    close(eo.jacrev(at)(t(a)), [first, first])
    close(eo.jacfwd(at)(t(a)), [first, first])
    close(eo.grad(eo.grad(lambda a: at(a)[0]))(t(a)), second)
    close(eo.vmap(eo.grad(lambda a: at(a)[0]))(t([a, a])), [first, first])


def ridge(penalty, X, y, solve=implicit.solve_cg):
    return implicit.custom_linear_solve(lambda w: X.T @ (X @ w) + penalty * w, X.T @ y, solve, symmetric=True)


def explicit_inverse(m, b):
    """The solution of a 2 x 2 system by Cramer's rule."""
    det = m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
    return eo.stack([m[1, 1] * b[0] - m[0, 1] * b[1], m[0, 0] * b[1] - m[1, 0] * b[0]]) / det


def test_ridge_regression_by_conjugate_gradients():
    rng = np.random.default_rng(2)
    X, y, p = t(rng.standard_normal((6, 2))), t(rng.standard_normal(6)), t(0.3)

    def loss(p, X, y):
        return (ridge(p, X, y) ** 3).sum()

    def expected(p, X, y):
        return (explicit_inverse(X.T @ X + p * t(np.eye(2)), X.T @ y) ** 3).sum()

    close(ridge(p, X, y), np.linalg.solve(X.numpy().T @ X.numpy() + 0.3 * np.eye(2), X.numpy().T @ y.numpy()))
    for n in range(3):
        close(eo.grad(loss, argnums=n)(p, X, y), eo.grad(expected, argnums=n)(p, X, y).numpy())
        close(eo.hessian(loss, argnums=n)(p, X, y), eo.hessian(expected, argnums=n)(p, X, y).numpy(), 1e-7)
    close(eo.grad(eo.grad(eo.grad(loss)))(p, X, y), eo.grad(eo.grad(eo.grad(expected)))(p, X, y).item(), 1e-7)
    assert gradcheck(lambda p, X, y: ridge(p, X, y), p, X, y)
    ps = t([0.3, 1.0])
    singly = [eo.grad(loss)(p, X, y).item() for p in ps]
    close(eo.vmap(eo.grad(loss), in_axes=(0, None, None))(ps, X, y), singly)
    close(eo.grad(lambda v: eo.vmap(lambda p: loss(p, X, y))(v).sum())(ps), singly)


@pytest.mark.parametrize("solve", [implicit.solve_gmres, implicit.solve_normal_cg, "dense"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_linear_solve_of_any_matrix(solve, dtype):
    rng = np.random.default_rng(3)
    draw = rng.standard_normal
    a = (draw((2, 2)) + (1j * draw((2, 2)) if dtype is np.complex128 else 0)).astype(dtype)
    b = (draw(2) + (1j * draw(2) if dtype is np.complex128 else 0)).astype(dtype)

    def dense(matvec, b):
        columns = [matvec(eo.tensor(e)).numpy() for e in np.eye(2, dtype=dtype)]
        return eo.tensor(np.linalg.solve(np.stack(columns, 1), b.numpy()))

    def found(a, b):
        return implicit.custom_linear_solve(lambda x: a @ x, b, dense if solve == "dense" else solve)

    a, b = eo.tensor(a), eo.tensor(b)
    close(found(a, b), np.linalg.solve(a.numpy(), b.numpy()))

    def loss(f):
        return lambda a, b: eo.sum(eo.abs(f(a, b)) ** 2 * eo.tensor(np.array([1.0, 3.0])))

    for n in (0, 1):
        close(eo.grad(loss(found), argnums=n)(a, b), eo.grad(loss(explicit_inverse), argnums=n)(a, b).numpy())
    assert gradcheck(found, a, b)
    if dtype is np.float64:
        close(eo.hessian(loss(found))(a, b), eo.hessian(loss(explicit_inverse))(a, b).numpy(), 1e-7)
        batch = eo.stack([a, a + 1, a - 2])
        singly = [eo.grad(loss(found))(m, b).numpy() for m in batch]
        close(eo.vmap(eo.grad(loss(found)), in_axes=(0, None))(batch, b), np.stack(singly))
        close(eo.grad(lambda v: eo.vmap(loss(found), in_axes=(0, None))(v, b).sum())(batch), np.stack(singly))


def test_the_transpose_is_solved_with_what_was_given():
    used = []

    def solver(name):
        def solve(matvec, b):
            used.append(name)
            return implicit.solve_gmres(matvec, b)

        return solve

    a, b = t([[2.0, 1.0], [0.0, 3.0]]), t([1.0, 2.0])

    def f(b, symmetric=False):
        m = a + a.T if symmetric else a
        return implicit.custom_linear_solve(lambda x: m @ x, b, solver("A"), solver("A.T"), symmetric).sum()

    close(eo.grad(f)(b), np.linalg.solve(a.numpy().T, np.ones(2)))
    assert used == ["A", "A.T"]
    used.clear()
    eo.grad(lambda b: f(b, True))(b)
    assert used == ["A", "A"]


def test_large_systems_without_a_matrix():
    """A Laplacian with 2000 unknowns: the gradient costs one more solve, and no matrix."""
    n = 2000
    b = t(np.sin(np.linspace(0, 3, n)))

    def solve(shift, b):
        def matvec(x):
            left, right = eo.concat([x[1:], x[:1]]), eo.concat([x[-1:], x[:-1]])
            return (2 + shift) * x - left - right

        return implicit.solve_cg(matvec, b)

    k = 2 - 2 * np.cos(2 * np.pi * np.fft.fftfreq(n))
    modes = np.fft.fft(b.numpy())
    close(solve(t(0.1), b), np.fft.ifft(modes / (k + 0.1)).real, 1e-8, 1e-9)
    close(
        eo.grad(lambda s: (solve(s, b) ** 2).sum())(t(0.1)),
        (-2 * np.abs(modes) ** 2 / (k + 0.1) ** 3).sum() / n,
        1e-8,
    )


@pytest.mark.parametrize("name", ["solve_cg", "solve_gmres", "solve_normal_cg"])
def test_solvers(name):
    rng = np.random.default_rng(4)
    m = rng.standard_normal((60, 60)) / 4  # more unknowns than GMRES keeps vectors
    m = m @ m.T + np.eye(60) if name == "solve_cg" else m + 3 * np.eye(60)
    b = rng.standard_normal(60)
    solve = getattr(implicit, name)
    close(solve(lambda x: t(m) @ x, t(b)), np.linalg.solve(m, b), 1e-7)
    single = solve(lambda x: t(m).astype(eo.float32) @ x, t(b).astype(eo.float32))
    assert single.dtype == eo.float32
    close(single, np.linalg.solve(m, b), 2e-3, 1e-4)
    close(solve(lambda x: 2 * x, t(np.zeros(3))), np.zeros(3))
    if name != "solve_normal_cg":
        close(solve(lambda x: x * 1e-200, t([1e-150])), [1e50])
    tree = solve(lambda d: {"a": 2 * d["a"], "b": d["b"] * 4}, {"a": t(2.0), "b": t([[4.0, 8.0]])})
    close(tree["b"], [[1.0, 2.0]])
    with pytest.raises(eo.ConvergenceError, match=name):
        solve(lambda x: t([[1.0, 0.0], [0.0, 0.0]]) @ x, t([1.0, 1.0]))
    with pytest.raises(eo.ConvergenceError, match=name):
        solve(lambda x: t(m) @ x, t(b), max_steps=2)
    rough = solve(lambda x: t(m) @ x, t(b), rtol=1e-3)
    assert 1e-12 < np.abs(m @ rough.numpy() - b).max() < 1e-1


def test_errors():
    double = implicit.custom_root(lambda x, a: (x - a) ** 2)(lambda init, a: a * 1)
    assert double(None, t(3.0)).item() == 3.0  # the value needs no linear system
    with pytest.raises(eo.ConvergenceError, match="custom_root"):
        eo.grad(lambda a: double(None, a))(t(3.0))  # a double root: dF/dx = 0
    with pytest.raises(eo.ConvergenceError, match="residual"):
        eo.jvp(lambda a: double(None, a), (t(3.0),), (t(1.0),))
    lazy = implicit.custom_root(lambda x, a: 3 * x - a, solve=lambda matvec, b: b)(lambda init, a: a / 3)
    with pytest.raises(eo.ConvergenceError, match="not solved"):
        eo.grad(lambda a: lazy(None, a))(t(3.0))
    with pytest.raises(eo.ShapeError, match=r"optimality_fun\(x\)"):
        implicit.custom_root(lambda x, a: x.sum() - a)(lambda init, a: eo.stack([a, a]))(None, t(1.0))
    with pytest.raises(eo.ShapeError, match="structure"):
        implicit.custom_root(lambda x, a: (x, x))(lambda init, a: a * 1)(None, t(1.0))
    with pytest.raises(eo.DTypeError, match="complex"):
        implicit.custom_root(lambda x, a: x - a)(lambda init, a: a * 1j)(None, t(1.0))
    with pytest.raises(eo.DTypeError, match="float"):
        implicit.custom_root(lambda x, a: x - a)(lambda init, a: 3)(None, t(1.0))
    with pytest.raises(eo.UnsupportedOperationError, match="scale"):
        eo.grad(
            lambda s: implicit.custom_root(lambda x, a: x - a)(lambda i, a, scale: a)(None, t(1.0), scale=s)
        )(t(1.0))
    with pytest.raises(eo.UnsupportedOperationError, match="linear"):
        implicit.custom_linear_solve(lambda x: x if x.sum() > 0 else -x, t([1.0]), implicit.solve_cg)
    with pytest.raises(eo.ShapeError, match=r"matvec\(b\)"):
        implicit.solve_cg(lambda x: x.sum(), t([1.0, 2.0]))
    with pytest.raises(eo.UnsupportedOperationError, match="captured"):
        eo.vmap(lambda m: implicit.custom_linear_solve(lambda x: m * x, t([1.0]), lambda f, b: b / m))(
            t([1.0, 2.0])
        )


BAD_SIDES = [[float("inf"), 1.0], [float("-inf"), 0.0], [float("nan"), 1.0], [float("inf"), float("nan")]]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("side", BAD_SIDES)
@pytest.mark.parametrize("name", ["solve_cg", "solve_gmres", "solve_normal_cg"])
def test_a_side_that_is_not_finite_has_no_solution(name, side):
    with pytest.raises(eo.ConvergenceError, match=name):
        getattr(implicit, name)(lambda x: 2 * x, t(side))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("side", BAD_SIDES)
def test_a_gradient_that_is_not_finite_has_no_solution(side):
    root = implicit.custom_root(lambda x, a: 2 * x - a)(lambda init, a: a / 2)
    value, pullback = eo.vjp(lambda a: root(None, a), t([1.0, 2.0]))
    assert value.tolist() == [0.5, 1.0]
    with pytest.raises(eo.ConvergenceError, match="not solved"):
        pullback(t(side))


def test_systems_of_derivatives_are_checked_in_both_modes():
    def half(matvec, b):
        return b / 2  # right for the matrix 2 alone

    def solve(scale, b, **options):
        return implicit.custom_linear_solve(lambda x: scale * x, b, half, **options)

    b, twice = t([1.0, 4.0]), t(2.0)
    close(solve(twice, b), [0.5, 2.0])
    close(eo.grad(lambda b: solve(twice, b, transpose_solve=half).sum())(b), [0.5, 0.5])
    close(eo.jvp(lambda b: solve(twice, b), (b,), (b,))[1], [0.5, 2.0])
    thrice = t(3.0)
    close(solve(thrice, b), [0.5, 2.0])  # the solution itself is the solver's affair
    for options in ({"symmetric": True}, {"transpose_solve": half}):
        with pytest.raises(eo.ConvergenceError, match="custom_linear_solve"):
            eo.grad(lambda b: solve(thrice, b, **options).sum())(b)  # noqa: B023 - called at once
    close(eo.grad(lambda b: solve(thrice, b).sum())(b), [1 / 3, 1 / 3])  # by GMRES
    with pytest.raises(eo.ConvergenceError, match="custom_linear_solve"):
        eo.jvp(lambda b: solve(thrice, b), (b,), (b,))


def test_programs_drop_what_the_outputs_do_not_need():
    w = t(3.0).requires_grad_()

    def function(inputs):
        (x,) = inputs
        eo.exp(eo.sin(x))
        return [x * w * w + 1, w, t(5.0)]

    program, captured, values = program_of(function, [t(2.0)])
    assert [s.primitive.name for s in program.steps] == ["multiply", "multiply", "add"]
    assert len(captured) == 1
    assert [v.item() for v in values] == [19.0, 3.0, 5.0]
    assert [v.item() for v in program([t(1.0), t(2.0)])] == [5.0, 2.0, 5.0]
