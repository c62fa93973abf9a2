"""Rules of the user's own that are transposed: linear ones are, every other one is refused with a reason."""

import numpy as np
import pytest

import everyo as eo

X = eo.tensor([0.3, -0.7, 1.1], dtype=eo.float64)
V = eo.tensor([1.0, 2.0, -3.0], dtype=eo.float64)
W = np.array([[0.5, -1.0, 2.0], [1.0, 0.25, 0.0], [-2.0, 1.0, 1.0]])


def with_backward(backward, function=lambda x: x * 1.0):
    """A custom_vjp function whose backward rule is ``backward(x, g)``."""
    f = eo.custom_vjp(function)
    f.defvjp(lambda x: (function(x), x), lambda x, g: (backward(x, g),))
    return f


def keeping_nothing(backward, function=lambda x: x * 1.0):
    """A custom_vjp function whose backward rule is ``backward(g)``."""
    f = eo.custom_vjp(function)
    f.defvjp(lambda x: (function(x), None), lambda kept, g: (backward(g),))
    return f


def with_class(backward, function=lambda x: x * 1.0):
    class Rule(eo.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, g):
            return backward(*ctx.saved_tensors, g)

    return Rule.apply


def with_tangent(rule, function=lambda x: x * 1.0):
    """A custom_jvp function whose tangent is ``rule(x, v)``."""
    f = eo.custom_jvp(function)
    f.defjvp(lambda p, d: (function(p[0]), rule(p[0], d[0])))
    return f


def total(f):
    return lambda x: f(x).sum()


def through_rows(function):
    return lambda x, v: eo.stack([function(v[i]) for i in range(3)])


def branches(x, v):
    return v * 2 if v.sum() > 0 else v


def python_number(x, v):
    return v * min(1.0, 1.0 / eo.vector_norm(v).item())


def assigned(x, v):
    out = eo.zeros(3, dtype=eo.float64)
    out[0] = v[0] * v[1]
    return out


def looped(x, v):
    return eo.fori_loop(0, 3, lambda i, s: s + v * s, v)


# Not linear in v; each of them is linear, or vanishes, around some points.
NONLINEAR = {
    "square": lambda x, v: v**2,
    "square by product": lambda x, v: v * v * x,
    "clip": lambda x, v: eo.clip(v, -1.0, 1.0),
    "far clip": lambda x, v: eo.clip(v, -1e6, 1e6),
    "clip by norm": lambda x, v: v * eo.minimum(1.0, 1.0 / eo.vector_norm(v)),
    "far clip by norm": lambda x, v: v * eo.minimum(1.0, 1e9 / eo.vector_norm(v)),
    "relu": lambda x, v: eo.nn.functional.relu(v),
    "where": lambda x, v: eo.where(v > 0, v, 0.0),
    "mask": lambda x, v: v * (v > 0),
    "abs": lambda x, v: eo.abs(v),
    "sign": lambda x, v: eo.sign(v) * x,
    "round": lambda x, v: eo.round(v * 256) / 256,
    "fine floor": lambda x, v: eo.floor(v * 1e-9),
    "remainder": lambda x, v: v % 1e6,
    "floor_divide": lambda x, v: v // 0.1,
    "shift": lambda x, v: v + 1.0,
    "shift by a residual": lambda x, v: v + x,
    "constant": lambda x, v: eo.ones_like(v),
    "constant from outside": lambda x, v: V,
    "nothing but the residual": lambda x, v: x * 2,
    "pad": lambda x, v: eo.pad(v[1:], (1, 0), constant_values=2.0),
    "concat": lambda x, v: eo.concat([v[:2], eo.ones(1, dtype=eo.float64)]),
    "sort": lambda x, v: eo.sort(v),
    "max": lambda x, v: eo.max(v) + 0 * v,
    "normalized": lambda x, v: v / v.sum(),
    "reciprocal": lambda x, v: 1.0 / v,
    "integers": lambda x, v: v.astype(eo.int64).astype(eo.float64),
    "index": lambda x, v: x[eo.argsort(v)],
    "cumprod": lambda x, v: eo.cumprod(v),
    "branches": branches,
    "python number": python_number,
    "print and branch": lambda x, v: v if "-" in str(v) else v * v.sum().item(),
    "assigned": assigned,
    "loop": looped,
    "cond": lambda x, v: eo.cond(v.sum() > 0, lambda v: v, lambda v: 2 * v, v),
    "matmul": lambda x, v: (v @ v) * x,
    "detached": lambda x, v: v.detach() * x,
    "no_grad": eo.no_grad()(lambda x, v: v * x),
    "rows": through_rows(lambda r: r**2),
    "nested rule": lambda x, v: with_backward(lambda x, g: g)(v) * with_backward(lambda x, g: g)(v),
    "nested rule that clips": lambda x, v: keeping_nothing(lambda g: eo.clip(g, -1.0, 1.0))(v),
}


@pytest.mark.parametrize("name", NONLINEAR)
@pytest.mark.parametrize("made", [with_backward, with_class])
def test_a_backward_rule_that_is_not_linear_has_no_forward_mode(name, made):
    f = made(NONLINEAR[name])
    for attempt in (
        lambda: eo.jvp(f, (X,), (V,)),
        lambda: eo.linearize(f, X),
        lambda: eo.jacfwd(f)(X),
        lambda: eo.hessian(total(lambda x: f(x) ** 2))(X),
        lambda: eo.hvp(total(lambda x: f(x) ** 2), X, V),
        lambda: eo.vmap(lambda x: eo.jvp(f, (x,), (V,))[1])(eo.stack([X, X])),
        lambda: eo.jvp(eo.vmap(f), (eo.stack([X, X]),), (eo.stack([V, V]),)),
    ):
        with pytest.raises(eo.UnsupportedOperationError) as error:
            attempt()
        assert error.value.remedy
        assert "linear" in str(error.value) or "outside of EveryO" in str(error.value)
    assert eo.is_grad_enabled()


@pytest.mark.parametrize("name", NONLINEAR)
def test_a_jvp_rule_that_is_not_linear_has_no_reverse_mode(name):
    f = with_tangent(NONLINEAR[name])
    x = X.clone().requires_grad_()
    for attempt in (
        lambda: f(x).sum().backward(),
        lambda: eo.grad(total(f))(X),
        lambda: eo.vjp(f, X)[1](V),
        lambda: eo.jacrev(f)(X),
        lambda: eo.vmap(eo.grad(total(f)))(eo.stack([X, X])),
        lambda: eo.grad(lambda x: eo.vmap(f)(x).sum())(eo.stack([X, X])),
        lambda: eo.grad(total(eo.grad(total(f))))(X),
    ):
        with pytest.raises(eo.UnsupportedOperationError) as error:
            attempt()
        assert error.value.remedy
        assert "linear" in str(error.value) or "outside of EveryO" in str(error.value)
    assert x.grad is None


def test_what_the_errors_say():
    f = with_backward(NONLINEAR["clip"])
    with pytest.raises(eo.UnsupportedOperationError) as error:
        eo.jvp(f, (X,), (V,))
    for words in ("backward", "incoming gradient", "clip", "jvp", "eo.grad"):
        assert words in str(error.value)
    assert "test_linear_rules.py" in error.value.line
    with pytest.raises(eo.UnsupportedOperationError) as error:
        eo.grad(total(with_tangent(NONLINEAR["square"])))(X)
    for words in ("jvp", "tangent", "square", "custom_vjp"):
        assert words in str(error.value)
    with pytest.raises(eo.UnsupportedOperationError, match="constant"):
        eo.jvp(with_backward(NONLINEAR["shift by a residual"]), (X,), (V,))
    with pytest.raises(eo.UnsupportedOperationError, match=r"bool\(\)"):
        eo.jvp(with_backward(branches), (X,), (V,))


@pytest.mark.parametrize("name", ["clip", "square", "sign", "branches"])
def test_in_its_own_direction_a_rule_is_what_it_says(name):
    rule = NONLINEAR[name]
    expected = rule(X, eo.ones(3, dtype=eo.float64)).numpy()
    np.testing.assert_array_equal(eo.grad(total(with_backward(rule)))(X).numpy(), expected)
    np.testing.assert_array_equal(eo.jvp(with_tangent(rule), (X,), (V,))[1].numpy(), rule(X, V).numpy())
    clipped = with_backward(NONLINEAR["clip"])
    # the gradient of 2 f(x)^2 is clip(4 x, -1, 1), here 4 x; its own gradient is pulled through f again
    second = eo.grad(lambda x: (eo.grad(lambda x: (2 * clipped(x) ** 2).sum())(x) * V).sum())(X / 10)
    np.testing.assert_allclose(second.numpy(), np.clip(4 * V.numpy(), -1, 1))


# ---- what is linear


def solved(x, v):
    return eo.implicit.solve_gmres(lambda u: eo.tensor(W) @ u + x**2 * u, v)


def scattered(x, v):
    out = eo.zeros(3, dtype=eo.float64)
    out[eo.tensor([2, 0, 1])] = v
    out[1] += v[0]
    return out


def scanned(x, v):
    return eo.scan(lambda c, a: (0.5 * c + a, c - a), eo.zeros((), dtype=eo.float64), v)[1]


def branch_on_residual(x, v):
    return v * 2 if x[0].item() > 0 and (x > -10).all() else v


reflected = keeping_nothing(lambda g: reflected(g), lambda x: eo.flip(x) * 2)


def inner_graph(x, v):
    with eo.enable_grad():
        y = x.detach().requires_grad_()
        z = eo.maximum(y, 0.5) * y[0] + eo.nn.functional.relu(y) + eo.sort(y)[0] + y[eo.tensor([0, 0, 2])]
    return eo.autograd.grad(z, y, v)[0]


LINEAR = {
    "identity": lambda x, v: v,
    "zero": lambda x, v: eo.zeros_like(v),
    "zero of a residual": lambda x, v: x * 0,
    "scaled": lambda x, v: eo.cos(x) * v / (2 + x),
    "matrix": lambda x, v: eo.tensor(W) @ v,
    "row": lambda x, v: v @ eo.tensor(W),
    "mean": lambda x, v: v - v.mean(),
    "sum": lambda x, v: eo.sum(v * x) * eo.exp(x),
    "shapes": lambda x, v: eo.flip(v.reshape((3, 1)).T[0]).reshape((3,)),
    "where": lambda x, v: eo.where(x > 0, v, 0.0),
    "where of both": lambda x, v: eo.where(x > 0, v, -v),
    "mask": lambda x, v: v * (x > 0),
    "sum of terms": lambda x, v: sum([v, v * x, 3 * v]) + 0.0,
    "pad": lambda x, v: eo.pad(v[1:], (1, 0)),
    "index": lambda x, v: v[[2, 0, 0]],
    "along an axis": lambda x, v: eo.take_along_axis(v, eo.argsort(x), axis=0),
    "order": lambda x, v: v[eo.argsort(x)],
    "cumulative": lambda x, v: eo.cumsum(v * x),
    "concat": lambda x, v: eo.concat([v[:1] * 2, eo.zeros(1, dtype=eo.float64), v[2:]]),
    "dtypes": lambda x, v: (v.astype(eo.float32) * 2).astype(eo.float64),
    "einsum": lambda x, v: eo.einsum("i,ij->j", v, eo.tensor(W) * x),
    "ones": lambda x, v: eo.ones_like(v) * v,
    "scattered": scattered,
    "scan": scanned,
    "loop": lambda x, v: eo.fori_loop(0, 3, lambda i, s: s + x * v, v),
    "solve": solved,
    "branch on a residual": branch_on_residual,
    "printed": lambda x, v: (str(v), v * x)[1],
    "pullback": lambda x, v: eo.vjp(lambda x: eo.sort(eo.sin(x) * x[1]), x)[1](v)[0],
    "pushforward": lambda x, v: eo.jvp(lambda x: eo.sort(eo.sin(x) * x[1]), (x,), (v,))[1],
    "hvp": lambda x, v: eo.hvp(lambda x: (x**3 * x[0]).sum(), x, v),
    "vmap": lambda x, v: eo.vmap(lambda a, b: a * b)(x, v),
    "nested rule": lambda x, v: keeping_nothing(lambda g: g)(v) * x,
    "rule that calls its function": lambda x, v: reflected(v) * x,
    "nested function": lambda x, v: with_tangent(lambda x, t: t * x)(x) * v,
    "checkpoint": lambda x, v: eo.checkpoint(lambda v: v * eo.sin(x))(v),
    "max and ties of residuals": lambda x, v: eo.vjp(lambda x: eo.max(x), x)[1](v.sum())[0],
}


def matrix_of(rule):
    """The matrix M of a linear rule at `X`, column by column: ``rule(X, v) = M @ v``."""
    return np.stack([rule(X, eo.tensor(e)).numpy() for e in np.eye(3)], axis=1)


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("made", [with_backward, with_class])
def test_a_linear_backward_rule_is_transposed(name, made):
    f, matrix = made(LINEAR[name]), matrix_of(LINEAR[name])
    tol = {"rtol": 1e-6, "atol": 1e-7}
    np.testing.assert_allclose(eo.jvp(f, (X,), (V,))[1].numpy(), matrix.T @ V.numpy(), **tol)
    np.testing.assert_allclose(eo.linearize(f, X)[1](V).numpy(), matrix.T @ V.numpy(), **tol)
    np.testing.assert_allclose(eo.jacrev(f)(X).numpy(), matrix.T, **tol)
    mapped = eo.vmap(lambda v: eo.jvp(f, (X,), (v,))[1])(eo.tensor(np.eye(3)))
    np.testing.assert_allclose(mapped.numpy(), matrix, **tol)


@pytest.mark.parametrize("name", LINEAR)
def test_a_linear_jvp_rule_is_transposed(name):
    f, matrix = with_tangent(LINEAR[name]), matrix_of(LINEAR[name])
    tol = {"rtol": 1e-6, "atol": 1e-7}
    np.testing.assert_allclose(eo.vjp(f, X)[1](V)[0].numpy(), matrix.T @ V.numpy(), **tol)
    x = X.clone().requires_grad_()
    f(x).backward(V)
    np.testing.assert_allclose(x.grad.numpy(), matrix.T @ V.numpy(), **tol)
    np.testing.assert_allclose(eo.jacfwd(f)(X).numpy(), matrix, **tol)


def test_singular_residuals_do_not_make_a_rule_nonlinear():
    f = with_backward(lambda x, g: g / x)
    x = eo.tensor([0.0, np.inf, 2.0], dtype=eo.float64)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(eo.jvp(f, (x,), (V,))[1].numpy(), [np.inf, 0.0, -1.5])


def test_the_gradient_of_a_graph_that_the_rule_records():
    f, matrix = with_backward(inner_graph), matrix_of(inner_graph)
    np.testing.assert_allclose(eo.jvp(f, (X,), (V,))[1].detach().numpy(), matrix.T @ V.numpy())
    found = eo.vjp(with_tangent(inner_graph), X)[1](V)[0]
    np.testing.assert_allclose(found.detach().numpy(), matrix.T @ V.numpy())


def test_a_linear_operator_in_numpy_and_its_adjoint():
    A = eo.custom_vjp(lambda x: eo.tensor(W @ x.numpy()))
    T = eo.custom_vjp(lambda x: eo.tensor(W.T @ x.numpy()))
    A.defvjp(lambda x: (A(x), None), lambda kept, g: (T(g),))
    T.defvjp(lambda x: (T(x), None), lambda kept, g: (A(g),))
    np.testing.assert_allclose(eo.jvp(A, (X,), (V,))[1].numpy(), W @ V.numpy())
    np.testing.assert_allclose(eo.linearize(A, X)[1](V).numpy(), W @ V.numpy())
    np.testing.assert_allclose(eo.hvp(lambda x: (A(x) ** 2).sum(), X, V).numpy(), 2 * W.T @ W @ V.numpy())


@pytest.mark.parametrize(
    "exponent", [2.0, 2, np.float64(2.0), np.array(2.0), eo.tensor(2.0, dtype=eo.float64)]
)
def test_numbers_and_arrays_among_the_arguments_have_the_tangent_zero(exponent):
    f = eo.custom_jvp(lambda x, y: x**y)

    @f.defjvp
    def rule(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), y * x ** (y - 1) * dx + eo.log(x) * x**y * dy

    x = eo.tensor(3.0, dtype=eo.float64)
    assert eo.jvp(lambda x: f(x, exponent), (x,), (1.0,))[1].item() == pytest.approx(6.0, rel=1e-14)
    assert eo.grad(f)(x, exponent).item() == pytest.approx(6.0, rel=1e-14)

    g = eo.custom_jvp(lambda p: p["x"] * p["n"])
    g.defjvp(lambda p, d: (g(p[0]), d[0]["x"] * p[0]["n"] + p[0]["x"] * d[0]["n"]))
    assert eo.jvp(lambda x: g({"x": x, "n": exponent, "name": "text"}), (x,), (1.0,))[1].item() == 2.0


def test_several_inputs_and_results():
    class Two(eo.autograd.Function):
        @staticmethod
        def forward(ctx, x, n, y):
            ctx.save_for_backward(x, y)
            return x * y, eo.argmax(x), x + y

        @staticmethod
        def backward(ctx, g, g_index, h):
            x, y = ctx.saved_tensors
            return g * y + h, None, (g * x + h) * 1.0

    value, tangent = eo.jvp(lambda x, y: Two.apply(x, 3, y), (X, 2 * X), (V, X))
    assert value[1].item() == 2
    np.testing.assert_allclose(tangent[0].numpy(), (V * 2 * X + X * X).numpy())
    np.testing.assert_allclose(tangent[2].numpy(), (V + X).numpy())
    assert not tangent[1].numpy().any()

    class Mixed(Two):
        @staticmethod
        def backward(ctx, g, g_index, h):
            return g * h, None, h

    with pytest.raises(eo.UnsupportedOperationError, match="multiply"):
        eo.jvp(lambda x: Mixed.apply(x, 3, X), (X,), (V,))
    _, tangent = eo.jvp(lambda y: Mixed.apply(X, 3, y), (X,), (V,))  # the gradient of y alone is linear
    np.testing.assert_allclose(tangent[2].numpy(), V.numpy())


def test_complex_rules():
    z = eo.tensor([1.0 + 2.0j, -0.5j], dtype=eo.complex128)
    conj = with_backward(lambda x, g: eo.conj(g), lambda x: eo.conj(x))
    np.testing.assert_allclose(eo.jvp(conj, (z,), (1j * z,))[1].numpy(), np.conj(1j * z.numpy()))
    with pytest.raises(eo.UnsupportedOperationError, match="linear"):
        eo.jvp(with_backward(lambda x, g: g * eo.abs(g)), (z,), (z,))


def test_higher_orders_of_linear_rules():
    f = with_tangent(lambda x, v: eo.cos(x) * v, eo.sin)
    np.testing.assert_allclose(eo.grad(total(eo.grad(total(f))))(X).numpy(), -np.sin(X.numpy()))
    np.testing.assert_allclose(eo.hessian(total(f))(X).numpy(), np.diag(-np.sin(X.numpy())))
    g = with_backward(lambda x, v: eo.cos(x) * v, eo.sin)
    np.testing.assert_allclose(eo.jacfwd(eo.jacfwd(total(g)))(X).numpy(), np.diag(-np.sin(X.numpy())))
    np.testing.assert_allclose(
        eo.linearize(eo.grad(total(g)), X)[1](V).numpy(), -np.sin(X.numpy()) * V.numpy()
    )


# ---- linear solves


@pytest.mark.parametrize("matvec", [
    lambda u: u**3, lambda u: 2 * u + 1, lambda u: eo.abs(u), lambda u: u + X, lambda u: eo.ones_like(u),
    lambda u: u * eo.vector_norm(u), lambda u: eo.round(u), lambda u: u.detach(),
])  # fmt: skip
def test_a_product_that_is_not_linear_is_refused(matvec):
    for solve in (eo.implicit.solve_gmres, eo.implicit.solve_normal_cg, eo.implicit.solve_cg):
        with pytest.raises(eo.UnsupportedOperationError, match="linear") as error:
            solve(matvec, V)
        assert error.value.operation == solve.__name__
        assert error.value.remedy


@pytest.mark.parametrize("name", LINEAR)
def test_products_that_are_linear_are_taken(name):
    def matvec(u):
        return 10 * u + LINEAR[name](X, u)

    expected = np.linalg.solve(10 * np.eye(3) + matrix_of(LINEAR[name]), V.numpy())
    found = eo.implicit.solve_gmres(matvec, V)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-7)


# ---- every primitive


def test_what_counts_as_linear_is():
    """Of each operation and each set of its operands on the samples: f(x + y) = f(x) + f(y)."""
    import itertools

    from everyo.core.registry import get_primitive, primitives
    from everyo.testing.primitives import Call
    from everyo.transforms.linearity import obstacle

    def whole(result):
        """Return a result as one array, several as one vector."""
        several = isinstance(result, tuple)
        return np.concatenate([np.ravel(part) for part in result]) if several else np.asarray(result)

    seen = set()
    for primitive in map(get_primitive, primitives()):
        if primitive.vjp is None:
            continue
        for sample in primitive.samples():
            call, other = (Call(primitive, sample, eo.float64, seed) for seed in (0, 1))
            places = [i for i, a in enumerate(call.arrays) if getattr(a, "dtype", None) == np.float64]
            for count in (1, 2):
                for moving in itertools.combinations(places, count):
                    x = [a * 50 if i in moving else a for i, a in enumerate(call.arrays)]
                    y = [
                        b if i in moving else a for i, (a, b) in enumerate(zip(x, other.arrays, strict=True))
                    ]
                    zero = [np.zeros_like(a) if i in moving else a for i, a in enumerate(x)]
                    params = {**primitive.defaults, **call.params}
                    with np.errstate(all="ignore"):
                        try:
                            at_zero = primitive(*zero, **params)
                        except eo.LinAlgError:  # what has no value at zero is not linear
                            continue
                        if obstacle(primitive, [i in moving for i in range(len(x))], zero, params, at_zero):
                            continue
                        seen.add(primitive.name)
                        both = [
                            a + b if i in moving else a for i, (a, b) in enumerate(zip(x, y, strict=True))
                        ]
                        results = (primitive(*v, **params) for v in (x, y, both))
                        a, b, c = map(whole, results)
                    np.testing.assert_allclose(c, a + b, rtol=1e-9, atol=1e-9, err_msg=str(call))
    assert {"add", "multiply", "divide", "where", "matmul", "getitem", "index_update", "assemble"} <= seen
    assert {"linear_recurrence", "take_along_axis", "scatter_along_axis", "pad", "sum", "concat"} <= seen
    assert seen.isdisjoint({"exp", "abs", "round", "clip", "max", "remainder", "maximum", "sort", "relu"})
