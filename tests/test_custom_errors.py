"""Rules of the user's own: once-differentiable backwards, errors, stop_gradient."""

import numpy as np
import pytest

import everyo as eo

X = np.array([0.3, -0.7, 1.1])


def close(a, b, tol=1e-12):
    np.testing.assert_allclose(
        np.asarray(a.detach() if isinstance(a, eo.Tensor) else a), b, rtol=tol, atol=tol
    )


def t(values, **options):
    return eo.tensor(np.asarray(values), **options)


# ---- B135: a rule outside of EveryO


class NumpySin(eo.autograd.Function):
    """First order right, second order impossible."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return eo.tensor(np.sin(x.numpy()))

    @staticmethod
    def backward(ctx, g):
        return eo.tensor(g.numpy() * np.cos(ctx.saved_tensors[0].numpy()))


class DetachedSin(NumpySin):
    @staticmethod
    def backward(ctx, g):
        return eo.tensor(g.detach().numpy() * np.cos(ctx.saved_tensors[0].detach().numpy()))


class OnceSin(NumpySin):
    @staticmethod
    @eo.autograd.once_differentiable
    def backward(ctx, g):
        return g.numpy() * np.cos(ctx.saved_tensors[0].numpy())


class InnerGraph(eo.autograd.Function):
    """Differentiates a graph of its forward run, which knows nothing of the outer one."""

    @staticmethod
    def forward(ctx, x):
        with eo.enable_grad():
            inner = x.detach().requires_grad_()
            out = eo.sin(inner)
        ctx.inner, ctx.out = inner, out
        return out.detach()

    @staticmethod
    def backward(ctx, g):
        return eo.autograd.grad(ctx.out, ctx.inner, g, retain_graph=True)[0]


class KeepsArray(NumpySin):
    @staticmethod
    def forward(ctx, x):
        ctx.slope = np.cos(x.numpy())
        return eo.tensor(np.sin(x.numpy()))

    @staticmethod
    def backward(ctx, g):
        return g * ctx.slope


class OnceKeepsNumber(KeepsArray):
    @staticmethod
    def forward(ctx, x):
        ctx.slope = np.cos(x.numpy()).tolist()
        return eo.tensor(np.sin(x.numpy()))

    @staticmethod
    @eo.autograd.once_differentiable
    def backward(ctx, g):
        return g * np.asarray(ctx.slope)


@pytest.mark.parametrize("kind", [NumpySin, DetachedSin, OnceSin, InnerGraph, KeepsArray, OnceKeepsNumber])
def test_a_backward_outside_of_the_engine_raises_when_it_is_differentiated(kind):
    f = kind.apply
    x = t(X, requires_grad=True)
    f(x).sum().backward()
    close(x.grad, np.cos(X))
    close(eo.grad(f)(t(0.3)), np.cos(0.3))
    for attempt in (
        lambda: eo.grad(eo.grad(f))(t(0.3)),
        lambda: eo.jvp(eo.grad(f), (t(0.3),), (t(1.0),)),
        lambda: eo.hessian(f)(t(0.3)),
        lambda: eo.autograd.grad(eo.autograd.grad(f(x).sum(), x, create_graph=True)[0].sum(), x),
    ):
        with pytest.raises(eo.UnsupportedOperationError, match="outside of EveryO"):
            attempt()
    close(eo.grad(eo.sin)(t(0.3)), np.cos(0.3))


def test_a_backward_in_numpy_raises_in_forward_mode():
    for kind in (NumpySin, DetachedSin, OnceSin):
        with pytest.raises(eo.UnsupportedOperationError, match="outside of EveryO"):
            eo.jvp(kind.apply, (t(0.3),), (t(1.0),))


def test_a_jvp_rule_in_numpy_raises_in_reverse_mode():
    f = eo.custom_jvp(lambda x: eo.sin(x))
    f.defjvp(lambda p, d: (eo.sin(p[0]), eo.tensor(d[0].detach().numpy() * np.cos(p[0].detach().numpy()))))
    close(eo.jvp(f, (t(0.3),), (t(1.0),))[1], np.cos(0.3))
    with pytest.raises(eo.UnsupportedOperationError, match="outside of EveryO"):
        eo.grad(f)(t(0.3))


def test_an_array_among_the_arguments_is_a_constant():
    class Weighted(eo.autograd.Function):
        @staticmethod
        def forward(ctx, x, weights):
            ctx.save_for_backward(x)
            ctx.weights = weights
            return (weights * x**3).sum()

        @staticmethod
        def backward(ctx, g):
            return g * 3 * ctx.weights * ctx.saved_tensors[0] ** 2, None

    close(eo.hessian(lambda x: Weighted.apply(x, X))(t(X)), np.diag(6 * X * X))


def test_a_constant_second_derivative_is_no_error():
    class Triple(eo.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return 3 * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * (x == x)

    close(eo.grad(eo.grad(Triple.apply))(t(0.3)), 0.0)
    close(eo.vmap(eo.grad(eo.grad(Triple.apply)))(t(X)), np.zeros(3))
    close(eo.jvp(eo.grad(Triple.apply), (t(0.3),), (t(1.0),))[1], 0.0)


def test_numpy_under_forward_mode_is_refused():
    with pytest.raises(eo.GraphStateError, match="tangent"):
        eo.jvp(lambda x: eo.tensor(np.sin(x.numpy())), (t(0.3),), (t(1.0),))


# ---- errors


def broken(backward, function=lambda x: x * 2):
    f = eo.custom_vjp(function)
    f.defvjp(lambda x: (function(x), None), backward)
    return f


@pytest.mark.parametrize(
    ("backward", "error", "match"),
    [
        (lambda kept, g: g, eo.ShapeError, "tuple"),
        (lambda kept, g: (g, g), eo.ShapeError, "tuple of 2"),
        (lambda kept, g: (g.sum(),), eo.ShapeError, r"shape \(3,\)"),
        (lambda kept, g: (g.astype("float32"),), eo.DTypeError, "float32"),
        (lambda kept, g: ("no",), eo.DTypeError, "str"),
        (lambda kept, g: (1.0,), eo.ShapeError, "shape"),
        (lambda kept, g: ({"a": g},), eo.DTypeError, "dict"),
    ],
)
def test_wrong_gradients(backward, error, match):
    f = broken(backward)
    for attempt in (
        lambda: f(t(X, requires_grad=True)).sum().backward(),
        lambda: eo.grad(lambda x: f(x).sum())(t(X)),
        lambda: eo.vmap(eo.grad(lambda x: f(x).sum()))(t([X])),
        lambda: eo.jvp(f, (t(X),), (t(X),)),
    ):
        with pytest.raises(error, match=match):
            attempt()


def test_wrong_trees_pairs_and_tangents():
    f = eo.custom_vjp(lambda p: p["a"])
    f.defvjp(lambda p: (p["a"], None), lambda kept, g: ({"b": g},))
    with pytest.raises(eo.ShapeError, match="structure"):
        eo.grad(f)({"a": t(1.0)})
    f.defvjp(lambda p: p["a"], lambda kept, g: ({"b": g},))
    with pytest.raises(eo.ArgumentError, match="pair"):
        eo.grad(f)({"a": t(1.0)})
    h = eo.custom_jvp(lambda x: x * 2)
    h.defjvp(lambda p, d: (p[0] * 2, d[0].sum()))
    with pytest.raises(eo.ShapeError, match="tangent of result 0"):
        eo.jvp(h, (t(X),), (t(X),))
    h.defjvp(lambda p, d: d[0])
    with pytest.raises(eo.ArgumentError, match="pair"):
        eo.jvp(h, (t(X),), (t(X),))


def test_function_errors():
    class Wrong(eo.autograd.Function):
        @staticmethod
        def forward(ctx, x, n):
            return x * n

        @staticmethod
        def backward(ctx, g):
            return g, 1.0

    with pytest.raises(eo.DTypeError, match="argument 1"):
        Wrong.apply(t(1.0, requires_grad=True), 2).backward()
    Wrong.backward = staticmethod(lambda ctx, g: (g, None, None))
    Wrong.apply(t(1.0, requires_grad=True), 2).backward()
    Wrong.backward = staticmethod(lambda ctx, g: g)
    with pytest.raises(eo.ShapeError, match="another number"):
        Wrong.apply(t(1.0, requires_grad=True), 2).backward()

    class Nothing(eo.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(eo.UnsupportedOperationError, match="neither"):
        Nothing.apply(t(1.0, requires_grad=True)).backward()

    class Dirty(Nothing):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x

    with pytest.raises(eo.UnsupportedOperationError, match="new"):
        Dirty.apply(t(1.0))


def test_a_captured_tensor_that_is_differentiated_is_refused():
    w = t(2.0, requires_grad=True)
    f = eo.custom_vjp(lambda x: x * w)
    f.defvjp(lambda x: (x * w, None), lambda kept, g: (g * w,))
    with pytest.raises(eo.GraphStateError, match="captured"):
        f(t(1.0, requires_grad=True))

    def outer(v):
        h = eo.custom_vjp(lambda x: x * v)
        h.defvjp(lambda x: (x * v, None), lambda kept, g: (g * v,))
        return h(v)

    for attempt in (lambda: eo.grad(outer)(t(1.0)), lambda: eo.jvp(outer, (t(1.0),), (t(1.0),))):
        with pytest.raises(eo.GraphStateError, match="captured"):
            attempt()


def test_errors_of_user_code_stay_as_they_are_and_leave_the_engine_usable():
    def fails(*args):
        raise ValueError("mine")

    x = t(1.0, requires_grad=True)
    f = eo.custom_vjp(lambda x: x)
    f.defvjp(fails, fails)
    with pytest.raises(ValueError, match=r"^mine$"):
        f(x)
    f.defvjp(lambda x: (x, None), fails)
    with pytest.raises(ValueError, match=r"^mine$"):
        (f(x) + x).backward()
    assert x.grad is None
    assert eo.is_grad_enabled()
    with pytest.raises(ValueError, match=r"^mine$"):
        eo.vmap(eo.grad(f))(t([1.0]))
    close(eo.grad(eo.grad(lambda x: x**3))(t(1.0)), 6.0)


def test_stop_gradient():
    close(eo.grad(lambda x: x * eo.stop_gradient(x))(t(3.0)), 3.0)
    close(eo.grad(eo.grad(lambda x: x**2 * eo.stop_gradient(x)))(t(3.0)), 6.0)
    close(eo.jvp(lambda x: x * eo.stop_gradient(x), (t(3.0),), (t(1.0),))[1], 3.0)
    close(eo.vmap(eo.grad(lambda x: x * eo.stop_gradient(x)))(t(X)), X)
    tree = eo.stop_gradient({"a": t(1.0, requires_grad=True), "b": "text", "c": 2})
    assert not tree["a"].requires_grad
    assert tree["b"] == "text"
    assert tree["c"] == 2
