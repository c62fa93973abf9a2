"""Rules of the user's own: values against closed forms, every nesting, and every way to get them wrong."""

import gc
import threading
import weakref

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


# ---- one function in its variants: x * sin(x), with various things kept


def vjp_keeps_input():
    f = eo.custom_vjp(lambda x: x * eo.sin(x))
    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * (eo.sin(x) + x * eo.cos(x)),))
    return f


def vjp_keeps_intermediate():
    f = eo.custom_vjp(lambda x: x * eo.sin(x))

    def forward(x):
        s = eo.sin(x)
        return x * s, {"x": x, "s": s, "c": eo.cos(x), "note": "kept"}

    f.defvjp(forward, lambda kept, g: (g * (kept["s"] + kept["x"] * kept["c"]),))
    return f


def jvp_rule():
    f = eo.custom_jvp(lambda x: x * eo.sin(x))

    @f.defjvp
    def rule(primals, tangents):
        (x,), (dx,) = primals, tangents
        return f(x), (eo.sin(x) + x * eo.cos(x)) * dx

    return f


class XSin(eo.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * eo.sin(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (eo.sin(x) + x * eo.cos(x))


class XSinIntermediate(eo.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        s = eo.sin(x)
        ctx.save_for_backward(s)
        ctx.x, ctx.c = x, eo.cos(x)
        return x * s

    @staticmethod
    def backward(ctx, g):
        (s,) = ctx.saved_tensors
        return g * (s + ctx.x * ctx.c)


class XSinSetup(eo.autograd.Function):
    @staticmethod
    def forward(x):
        return x * eo.sin(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (eo.sin(x) + x * eo.cos(x))

    @staticmethod
    def jvp(ctx, dx):
        (x,) = ctx.saved_tensors
        return dx * (eo.sin(x) + x * eo.cos(x))


VARIANTS = {
    "vjp": vjp_keeps_input(),
    "vjp intermediate": vjp_keeps_intermediate(),
    "jvp": jvp_rule(),
    "Function": XSin.apply,
    "Function intermediate": XSinIntermediate.apply,
    "Function setup_context, jvp": XSinSetup.apply,
}


@pytest.fixture(params=VARIANTS, ids=lambda name: name.replace(" ", "-"))
def f(request):
    return VARIANTS[request.param]


def d1(x):
    return np.sin(x) + x * np.cos(x)


def d2(x):
    return 2 * np.cos(x) - x * np.sin(x)


def d3(x):
    return -3 * np.sin(x) - x * np.cos(x)


def test_backward(f):
    x = t(X, requires_grad=True)
    y = f(x)
    close(y, X * np.sin(X))
    y.backward(eo.ones(3, dtype="float64"))
    close(x.grad, d1(X))
    assert not x.grad.requires_grad


def test_create_graph(f):
    x = t(X, requires_grad=True)
    (g,) = eo.autograd.grad(f(x).sum(), x, create_graph=True)
    close(g, d1(X))
    (h,) = eo.autograd.grad((g * g).sum(), x, create_graph=True)
    close(h, 2 * d1(X) * d2(X))
    (k,) = eo.autograd.grad(h.sum(), x)
    close(k, 2 * d2(X) ** 2 + 2 * d1(X) * d3(X))


def test_derivatives_of_three_orders(f):
    first = eo.grad(f)
    second = eo.grad(first)
    third = eo.grad(second)
    close(first(t(0.7)), d1(0.7))
    close(second(t(0.7)), d2(0.7))
    close(third(t(0.7)), d3(0.7))


def test_forward_mode(f):
    value, tangent = eo.jvp(f, (t(X),), (t([1.0, 2.0, 3.0]),))
    close(value, X * np.sin(X))
    close(tangent, d1(X) * [1, 2, 3])


def test_forward_over_forward(f):
    one = t(1.0)
    close(eo.jvp(lambda x: eo.jvp(f, (x,), (one,))[1], (t(0.7),), (one,))[1], d2(0.7))


def test_forward_over_reverse(f):
    close(eo.jvp(eo.grad(f), (t(0.7),), (t(1.0),))[1], d2(0.7))


def test_reverse_over_forward(f):
    close(eo.grad(lambda x: eo.jvp(f, (x,), (t(1.0),))[1])(t(0.7)), d2(0.7))


def test_third_order_mixed(f):
    def second(x):
        return eo.jvp(eo.grad(f), (x,), (t(1.0),))[1]

    close(eo.grad(second)(t(0.7)), d3(0.7))


def test_vmap(f):
    close(eo.vmap(f)(t(X)), X * np.sin(X))
    x = t(X, requires_grad=True)
    eo.vmap(f)(x).sum().backward()
    close(x.grad, d1(X))


def test_vmap_of_derivatives(f):
    close(eo.vmap(eo.grad(f))(t(X)), d1(X))
    close(eo.vmap(eo.grad(eo.grad(f)))(t(X)), d2(X))
    close(eo.vmap(lambda x: eo.jvp(f, (x,), (t(1.0),))[1])(t(X)), d1(X))
    close(eo.vmap(eo.vmap(eo.grad(f)))(t(X[:, None])), d1(X)[:, None])


def test_derivatives_of_vmap(f):
    close(eo.grad(lambda x: eo.vmap(f)(x).sum())(t(X)), d1(X))
    close(eo.grad(lambda x: eo.grad(lambda x: eo.vmap(f)(x).sum())(x).sum())(t(X)), d2(X))
    close(eo.jvp(eo.vmap(f), (t(X),), (t(np.ones(3)),))[1], d1(X))
    close(eo.grad(lambda x: eo.vmap(eo.grad(f))(x).sum())(t(X)), d2(X))


def test_hessian_and_jacobians(f):
    close(eo.hessian(lambda x: f(x).sum())(t(X)), np.diag(d2(X)))
    close(eo.jacfwd(f)(t(X)), np.diag(d1(X)))
    close(eo.jacrev(f)(t(X)), np.diag(d1(X)))


def test_linearize(f):
    value, pushforward = eo.linearize(f, t(X))
    close(value, X * np.sin(X))
    close(pushforward(t(X)), d1(X) * X)


def test_without_derivatives_nothing_is_recorded(f):
    assert not f(t(X)).requires_grad
    with eo.no_grad():
        assert not f(t(X, requires_grad=True)).requires_grad


def test_graph_has_no_cycle(f):
    gc.collect()
    gc.disable()
    try:
        x = t(X, requires_grad=True)
        y = f(x)
        node = weakref.ref(y.grad_node)
        y.sum().backward()
        held = weakref.ref(x)
        del x, y
        assert node() is None
        assert held() is None
    finally:
        gc.enable()


def test_freed_graph_is_refused(f):
    x = t(X, requires_grad=True)
    y = f(x).sum()
    y.backward()
    with pytest.raises(eo.GraphStateError):
        y.backward()


def test_threads(f):
    results = {}

    def work(i):
        results[i] = eo.grad(eo.grad(f))(t(0.1 * i)).item()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    close([results[i] for i in range(8)], [d2(0.1 * i) for i in range(8)])


# ---- the rule counts, not the function


def test_straight_through_has_the_derivatives_of_its_rule_at_every_order():
    step = eo.custom_vjp(lambda x: eo.round(x))
    step.defvjp(lambda x: (eo.round(x), None), lambda kept, g: (g,))
    close(eo.grad(step)(t(1.4)), 1.0)
    close(eo.grad(lambda x: step(x) ** 2)(t(1.4)), 2.0)
    close(eo.grad(eo.grad(lambda x: step(x) ** 2))(t(1.4)), 2.0)
    close(eo.vmap(eo.grad(eo.grad(lambda x: step(x) ** 2)))(t([1.4])), [2.0])
    close(eo.jvp(eo.grad(lambda x: step(x) ** 2), (t(1.4),), (t(1.0),))[1], 2.0)
    close(eo.jvp(step, (t(1.4),), (t(3.0),))[1], 3.0)


def test_kept_output_is_linked_to_the_call():
    class Exp(eo.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = eo.tensor(np.exp(x.numpy()))
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    for order in range(1, 5):
        derivative = Exp.apply
        for _ in range(order):
            derivative = eo.grad(derivative)
        close(derivative(t(0.5)), np.exp(0.5))


def test_function_itself_runs_where_nothing_is_differentiated():
    calls = []
    f = eo.custom_vjp(lambda x: calls.append("function") or x * 2)
    f.defvjp(lambda x: (calls.append("forward") or x * 2, None), lambda kept, g: (g * 2,))
    f(t(1.0))
    eo.grad(f)(t(1.0))
    assert calls == ["function", "forward"]


# ---- arguments and results


def test_trees_and_nondiff_argnums():
    @eo.custom_vjp
    def unused(p, x):
        return x

    def affine(scale, p, x, power):
        return {"y": scale * p["w"] * x**power + p["b"], "count": 3}

    f = eo.custom_vjp(affine, nondiff_argnums=(0, 3))

    def backward(scale, power, kept, g):
        p, x = kept
        assert (scale, power) == (2.0, 2)
        slope = scale * p["w"] * power * x ** (power - 1)
        return {"w": g["y"] * scale * x**power, "b": g["y"]}, g["y"] * slope

    f.defvjp(lambda scale, p, x, power: (affine(scale, p, x, power), (p, x)), backward)

    def loss(p, x):
        return f(2.0, p, x, power=2)["y"]

    p = {"w": t(3.0), "b": t(1.0)}
    dp, dx = eo.grad(loss, (0, 1))(p, t(5.0))
    close(dp["w"], 50.0)
    close(dp["b"], 1.0)
    close(dx, 60.0)
    close(eo.grad(eo.grad(loss, 1), 1)(p, t(5.0)), 12.0)
    with pytest.raises(eo.ArgumentError, match="defvjp"):
        unused(t(1.0), t(1.0))


def test_custom_jvp_with_trees_constants_and_nondiff_argnums():
    def function(n, x, scale):
        return {"a": scale["s"] * x**n, "b": x}

    f = eo.custom_jvp(function, nondiff_argnums=0)

    @f.defjvp
    def rule(n, primals, tangents):
        (x, scale), (dx, dscale) = primals, tangents
        first = n * scale["s"] * x ** (n - 1) * dx + dscale["s"] * x**n
        return f(n, x, scale), {"a": first, "b": dx}

    def loss(x, s):
        out = f(3, x, {"s": s})
        return out["a"] + 10 * out["b"]

    gx, gs = eo.grad(loss, (0, 1))(t(2.0), t(5.0))
    close(gx, 70.0)
    close(gs, 8.0)
    close(eo.jvp(lambda x: loss(x, t(5.0)), (t(2.0),), (t(1.0),))[1], 70.0)
    close(eo.grad(eo.grad(loss), 1)(t(2.0), t(5.0)), 12.0)


def test_defjvps():
    f = eo.custom_jvp(lambda x, y: x * y)
    f.defjvps(lambda dx, out, x, y: dx * y, None)
    close(eo.grad(f, (0, 1))(t(2.0), t(5.0))[0], 5.0)
    close(eo.grad(f, (0, 1))(t(2.0), t(5.0))[1], 0.0)


def test_function_with_many_inputs_and_outputs():
    seen = {}

    class Mixed(eo.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor, y, label=None):
            ctx.save_for_backward(x, None, y)
            ctx.factor = factor
            seen["forward"] = ctx.needs_input_grad
            largest = eo.argmax(x)
            mask = (x > 0).astype("float64")
            ctx.mark_non_differentiable(mask)
            return x * y * factor, label, largest, mask, x + y

        @staticmethod
        def backward(ctx, g, g_label, g_largest, g_mask, g_sum):
            x, nothing, y = ctx.saved_tensors
            assert nothing is None
            assert g_label is None
            close(g_mask, np.zeros(3))
            seen["backward"] = ctx.needs_input_grad
            return g * y * ctx.factor + g_sum, None, g * x * ctx.factor + g_sum, None

    x, y = t(X, requires_grad=True), t(X + 1)
    product, label, largest, mask, total = Mixed.apply(x, 3.0, y, "name")
    assert label == "name"
    assert not largest.requires_grad
    assert not mask.requires_grad
    product.sum().backward(retain_graph=True)
    close(x.grad, 3 * (X + 1))
    total.sum().backward()
    close(x.grad, 3 * (X + 1) + 1)
    assert seen == {
        "forward": (True, False, False, False),
        "backward": (True, False, False, False),
    }
    eo.grad(lambda x, y: Mixed.apply(x, 3.0, y, None)[0].sum(), (0, 1))(t(X), t(X))
    assert seen["backward"] == (True, False, True, False)
    close(
        eo.vmap(eo.grad(lambda x, y: Mixed.apply(x, 3.0, y, None)[0].sum()), (0, None))(t([X, X]), t(X)),
        [3 * X] * 2,
    )


def test_unmaterialized_gradients():
    class Two(eo.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            assert h is None
            return g * 2

    x = t(1.0, requires_grad=True)
    Two.apply(x)[0].backward()
    close(x.grad, 2.0)


def test_none_is_zero_and_unused_inputs_cost_nothing():
    f = eo.custom_vjp(lambda x, y: x + y)
    f.defvjp(lambda x, y: (x + y, None), lambda kept, g: (g, None))
    gx, gy = eo.grad(f, (0, 1))(t(1.0), t(1.0))
    close(gx, 1.0)
    close(gy, 0.0)


def test_complex_convention():
    # L = |z|^2: dL/dx + i dL/dy = 2 z
    f = eo.custom_vjp(lambda z: eo.real(z * eo.conj(z)))
    f.defvjp(lambda z: (eo.real(z * eo.conj(z)), z), lambda z, g: (2 * g * z,))
    z = 1.0 + 2.0j
    close(eo.grad(f)(t(z)), 2 * z)
    x = t(z, requires_grad=True)
    f(x).backward()
    close(x.grad, 2 * z)
    close(eo.jvp(f, (t(z),), (t(0.5 - 1.0j),))[1], 2 * (z.real * 0.5 - z.imag))

    # holomorphic: the gradient of the input is g * conj(f'(z))
    square = eo.custom_vjp(lambda z: z * z)
    square.defvjp(lambda z: (z * z, z), lambda z, g: (g * eo.conj(2 * z),))

    def loss(z):
        return eo.real(square(z) * (3.0 + 1.0j))

    def plain(z):
        return eo.real(z * z * (3.0 + 1.0j))

    close(eo.grad(loss)(t(z)), np.asarray(eo.grad(plain)(t(z))))
    close(eo.jvp(square, (t(z),), (t(1.0j),))[1], 2 * z * 1.0j)

    forward = eo.custom_jvp(lambda z: z * z)
    forward.defjvp(lambda p, d: (p[0] * p[0], 2 * p[0] * d[0]))
    close(eo.grad(lambda z: eo.real(forward(z) * (3.0 + 1.0j)))(t(z)), np.asarray(eo.grad(plain)(t(z))))

    # the second order through a kept intermediate
    kept = eo.custom_vjp(lambda z: z * z)
    kept.defvjp(lambda z: (z * z, eo.conj(2 * z)), lambda c, g: (g * c,))

    def second(f):
        return eo.grad(lambda z: eo.real(eo.grad(lambda z: eo.real(f(z) * f(z)))(z) * (1.0 + 2.0j)))

    close(second(kept)(t(z)), np.asarray(second(lambda z: z * z)(t(z))))


def test_function_vmap_of_its_own():
    class Sort(eo.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            order = np.argsort(x.numpy())
            ctx.order = order
            return eo.tensor(x.numpy()[order])

        @staticmethod
        def backward(ctx, g):
            return eo.zeros(3, dtype="float64")

        @staticmethod
        def vmap(info, in_dims, x):
            assert info.batch_size == 2
            assert in_dims == (0,)
            return eo.sort(x, axis=1).T, 1

    close(eo.vmap(Sort.apply)(t([X, X])), [np.sort(X)] * 2)
    x = t([X, X], requires_grad=True)
    (eo.vmap(Sort.apply)(x) * t([1.0, 2.0, 3.0])).sum().backward()
    ranks = np.argsort(np.argsort(X)) + 1.0
    close(x.grad, [ranks] * 2)


def test_random_numbers_of_a_forward_are_drawn_again():
    f = eo.custom_vjp(lambda x: x)

    def forward(x):
        noisy = x**2 * eo.random.uniform(dtype="float64")
        return noisy, noisy / x * 2

    f.defvjp(forward, lambda kept, g: (g * kept,))
    eo.manual_seed(3)
    noise = eo.random.uniform(dtype="float64").item()
    eo.manual_seed(3)
    close(eo.grad(eo.grad(f))(t(0.7)), 2 * noise)


def test_method():
    class Scaled:
        factor = 3.0

        @eo.custom_vjp
        def run(self, x):
            return self.factor * x

    Scaled.run.defvjp(lambda self, x: (self.factor * x, self.factor), lambda k, g: (None, g * k))
    close(eo.grad(Scaled().run)(t(1.0)), 3.0)


def test_gradcheck():
    assert eo.testing.gradcheck(VARIANTS["vjp intermediate"], t(X, requires_grad=True))


# ---- stop_gradient
