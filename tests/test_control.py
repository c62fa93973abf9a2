"""Control flow: values, derivatives in every direction and order, under vmap, with checkpoints."""

import collections
import math
import tracemalloc

import numpy as np
import pytest

import everyo as eo
from everyo.testing import gradcheck

f64 = np.float64


def t(*values):
    return eo.tensor(np.array(values, f64))


def s(value):
    return eo.tensor(f64(value))


def second(function):
    return eo.grad(eo.grad(function))


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(np.asarray(a.detach() if hasattr(a, "detach") else a), b, rtol=tolerance)


# ---- cond


def test_cond_runs_the_chosen_branch_alone():
    ran = []

    def branch(name):
        return lambda x: ran.append(name) or x * 2

    assert eo.cond(True, branch("yes"), branch("no"), s(3.0)).item() == 6.0
    assert eo.cond(s(-1.0) > 0, branch("yes"), branch("no"), s(3.0)).item() == 6.0
    assert eo.cond(eo.tensor([0]), branch("yes"), branch("no"), s(3.0)).item() == 6.0
    assert ran == ["yes", "no", "no"]


def piecewise(x):
    return eo.cond(x > 1, lambda y: y**3, lambda y: eo.sin(y), x)


@pytest.mark.parametrize("x", [0.5, 2.0])
def test_cond_derivatives(x):
    slope = 3 * x**2 if x > 1 else math.cos(x)
    curve = 6 * x if x > 1 else -math.sin(x)
    close(eo.grad(piecewise)(s(x)), slope)
    close(eo.jvp(piecewise, (s(x),), (s(1.0),))[1], slope)
    close(second(piecewise)(s(x)), curve)
    close(eo.jvp(eo.grad(piecewise), (s(x),), (s(1.0),))[1], curve)
    close(eo.grad(lambda y: eo.jvp(piecewise, (y,), (s(1.0),))[1])(s(x)), curve)


def test_cond_under_vmap_is_a_choice():
    xs = t(0.5, 2.0, 3.0)
    close(eo.vmap(piecewise)(xs), [math.sin(0.5), 8.0, 27.0])
    close(eo.vmap(eo.grad(piecewise))(xs), [math.cos(0.5), 12.0, 27.0])
    close(eo.grad(lambda v: eo.vmap(piecewise)(v).sum())(xs), [math.cos(0.5), 12.0, 27.0])
    close(eo.vmap(second(piecewise))(xs), [-math.sin(0.5), 12.0, 18.0])
    close(eo.jvp(eo.vmap(piecewise), (xs,), (t(1, 1, 2),))[1], [math.cos(0.5), 12.0, 54.0])


def test_cond_under_nested_vmap():
    a, b = t(4.0, -1.0), t(-1.0, 9.0, 1.0)

    def f(u, v, w):
        return eo.cond(u + v > 0, lambda u, v, w: eo.sqrt(u + v) * w, lambda u, v, w: u * v, u, v, w)

    def table(a, b, w):
        return eo.vmap(lambda u: eo.vmap(lambda v: f(u, v, w))(b))(a)

    total = a.numpy()[:, None] + b.numpy()
    root = np.sqrt(np.where(total > 0, total, 1.0))
    holds = total > 0
    close(table(a, b, s(2.0)), np.where(holds, 2 * root, a.numpy()[:, None] * b.numpy()))
    ga, gb, gw = eo.grad(lambda *args: table(*args).sum(), argnums=(0, 1, 2))(a, b, s(2.0))
    close(ga, np.where(holds, 1 / root, b.numpy()).sum(1))
    close(gb, np.where(holds, 1 / root, a.numpy()[:, None]).sum(0))
    close(gw, np.where(holds, root, 0.0).sum())
    inner = eo.vmap(lambda u: eo.grad(lambda w: eo.vmap(lambda v: f(u, v, w))(b).sum())(s(2.0)))
    close(inner(a), np.where(holds, root, 0.0).sum(1))
    pick = eo.vmap(lambda i: eo.cond(i < 2, lambda i: b[i], lambda i: b.sum(), i))  # no index out of range
    close(pick(eo.tensor([0, 5, 1])), [-1.0, 9.0, 9.0])


def test_cond_under_vmap_runs_one_branch_where_all_agree():
    def refuse(x):
        raise AssertionError("this branch is not taken")

    close(eo.vmap(lambda x: eo.cond(x > 0, eo.exp, refuse, x))(t(0.0, 1.0) + 1), np.exp([1.0, 2.0]))
    close(eo.vmap(lambda x: eo.cond(x > 9, refuse, eo.exp, x))(t(0.0, 1.0)), np.exp([0.0, 1.0]))


# Each breaks off its domain at -1 or 0 in another way: a NaN residual, an infinite slope, a matrix product.
BREAKING = {
    "sqrt": (eo.sqrt, 4.0, 0.25),
    "log": (eo.log, 4.0, 0.25),
    "reciprocal": (lambda x: 1 / x, 4.0, -1 / 16),
    "norm": (lambda x: eo.sqrt(eo.sum(eo.stack([x, x * 0]) ** 2)), 4.0, 1.0),
    "matmul": (lambda x: eo.stack([eo.sqrt(x), eo.sqrt(x)]) @ eo.stack([x, x]), 4.0, 2 * 1.5 * 2),
    "power": (lambda x: x**1.5, 4.0, 3.0),
    "arccos": (lambda x: eo.arccos(x / 4 - 1), 4.0, -0.25),
}


@pytest.mark.parametrize("name", BREAKING)
@pytest.mark.parametrize("bad", [0.0, -1.0, -math.inf, math.nan])
def test_the_branch_not_taken_leaves_no_nan(name, bad):
    function, good, slope = BREAKING[name]

    def safe(x):
        return eo.cond(x > 0, function, lambda y: eo.zeros_like(y), x)

    xs = t(good, bad)
    close(eo.vmap(eo.grad(safe))(xs), [slope, 0.0])
    close(eo.grad(lambda v: eo.vmap(safe)(v).sum())(xs), [slope, 0.0])
    close(eo.jvp(eo.vmap(safe), (xs,), (t(1.0, 1.0),))[1], [slope, 0.0])
    assert np.isfinite(eo.vmap(second(safe))(xs).numpy()).all()
    shared = eo.grad(
        lambda w: eo.vmap(lambda x: eo.cond(x > 0, lambda a, b: function(a * b), lambda a, b: a * 0, x, w))(
            xs
        ).sum()
    )
    if not math.isnan(bad) and math.isfinite(bad):
        close(shared(s(1.0)), slope * good)


def test_cond_takes_numbers_and_trees():
    def both(x):
        return eo.cond(
            x > 0, lambda d: {"a": d["x"] * 2, "b": 1.0}, lambda d: {"a": d["x"], "b": d["x"]}, {"x": x}
        )

    out = eo.vmap(both)(t(1.0, -1.0))
    close(out["a"], [2.0, -1.0])
    close(out["b"], [1.0, -1.0])
    assert out["b"].dtype == eo.float64


def test_cond_errors():
    with pytest.raises(eo.ShapeError, match="several elements"):
        eo.cond(t(1.0, 2.0) > 0, eo.sin, eo.cos, s(1.0))
    xs = t(1.0, -1.0)
    with pytest.raises(eo.ShapeError, match="structure"):
        eo.vmap(lambda x: eo.cond(x > 0, lambda y: (y, y), lambda y: y, x))(xs)
    with pytest.raises(eo.ShapeError, match=r"result\[1\]"):
        eo.vmap(lambda x: eo.cond(x > 0, lambda y: (y, y), lambda y: (y, eo.stack([y, y])), x))(xs)
    with pytest.raises(eo.DTypeError, match=r"result\['a'\]"):
        eo.vmap(lambda x: eo.cond(x > 0, lambda y: {"a": y}, lambda y: {"a": y.astype(eo.float32)}, x))(xs)


# ---- while_loop and fori_loop


def doubled(x, every=None):
    """x * 2**n, the first that is above 10: the trip count depends on the data."""
    return eo.while_loop(lambda y: y < 10, lambda y: y * 2, x, checkpoint_every=every)


def newton_sqrt(a, every=None):
    """A root by Newton's method to convergence, with two leaves in the state."""
    state = {"x": a, "step": a * 0 + 1}
    out = eo.while_loop(
        lambda st: eo.abs(st["step"]) > 1e-14,
        lambda st: (lambda new: {"x": new, "step": new - st["x"]})((st["x"] + a / st["x"]) / 2),
        state,
        checkpoint_every=every,
    )
    return out["x"]


every = pytest.mark.parametrize("every", [None, 1, 2, 3, 100])


@every
def test_reverse_through_a_data_dependent_trip_count(every):
    for x, count in ((1.0, 4), (3.0, 2), (20.0, 0)):
        close(eo.grad(lambda y: doubled(y, every))(s(x)), 2.0**count)
        close(eo.jvp(lambda y: doubled(y, every), (s(x),), (s(1.0),))[1], 2.0**count)


@every
def test_while_loop_derivatives_of_every_order(every):
    def root(a):
        return newton_sqrt(a, every)

    a = 2.0
    close(root(s(a)), a**0.5)
    close(eo.grad(root)(s(a)), 0.5 * a**-0.5)
    close(second(root)(s(a)), -0.25 * a**-1.5, 1e-10)
    close(eo.grad(second(root))(s(a)), 0.375 * a**-2.5, 1e-8)
    close(eo.jvp(eo.grad(root), (s(a),), (s(1.0),))[1], -0.25 * a**-1.5, 1e-10)
    close(eo.grad(lambda b: eo.jvp(root, (b,), (s(1.0),))[1])(s(a)), -0.25 * a**-1.5, 1e-10)


@every
def test_while_loop_on_the_eager_tape(every):
    x = s(2.0).requires_grad_()
    y = newton_sqrt(x, every)
    (g,) = eo.autograd.grad(y, x, create_graph=True)
    (h,) = eo.autograd.grad(g, x)
    close(g.detach(), 0.5 * 2**-0.5)
    close(h, -0.25 * 2**-1.5, 1e-10)
    y = newton_sqrt(x, every)
    y.backward()
    close(x.grad, 0.5 * 2**-0.5)
    with pytest.raises(eo.GraphStateError, match="freed"):
        y.backward()


@every
def test_while_loop_under_vmap_runs_until_all_are_done(every):
    xs = t(1.0, 3.0, 20.0)

    def run(x):
        return doubled(x, every)

    close(eo.vmap(run)(xs), [16.0, 12.0, 20.0])
    close(eo.vmap(eo.grad(run))(xs), [16.0, 4.0, 1.0])
    close(eo.grad(lambda v: eo.vmap(run)(v).sum())(xs), [16.0, 4.0, 1.0])
    roots = eo.vmap(lambda a: newton_sqrt(a, every))
    close(roots(xs), np.sqrt(xs.numpy()))
    close(eo.grad(lambda v: roots(v).sum())(xs), 0.5 / np.sqrt(xs.numpy()))
    close(eo.vmap(eo.grad(lambda a: newton_sqrt(a, every)))(xs), 0.5 / np.sqrt(xs.numpy()))
    more = t(1.5, 3.0, 20.0)  # from 1 the loop ends after one step, too early for a second derivative
    close(eo.vmap(second(lambda a: newton_sqrt(a, every)))(more), -0.25 * more.numpy() ** -1.5, 1e-9)
    eager = xs.clone().requires_grad_()
    roots(eager).sum().backward()
    close(eager.grad, 0.5 / np.sqrt(xs.numpy()))


@every
def test_a_finished_example_takes_no_nan_from_later_steps(every):
    def drained(x):  # the body leaves its domain one step after the loop has ended
        return eo.while_loop(lambda y: y > 0.5, lambda y: eo.sqrt(y - 0.5), x, checkpoint_every=every)

    xs = t(0.6, 0.4, 1.5)
    singly = [eo.grad(drained)(s(x)).item() for x in xs.tolist()]
    assert np.isfinite(singly).all()
    close(eo.grad(lambda v: eo.vmap(drained)(v).sum())(xs), singly)
    close(eo.vmap(eo.grad(drained))(xs), singly)


@every
def test_captured_tensors_get_their_gradient(every):
    def run(x, w):
        return eo.while_loop(lambda y: y < 10, lambda y: y * w, x, checkpoint_every=every)

    gx, gw = eo.grad(run, argnums=(0, 1))(s(1.5), s(2.0))  # 1.5 * 2**3
    close(gx, 8.0)
    close(gw, 1.5 * 3 * 4)
    w = s(2.0).requires_grad_()
    run(s(1.5), w * 1).backward()
    close(w.grad, 18.0)
    close(second(lambda v: run(s(1.5), v))(s(2.0)), 1.5 * 6 * 2)
    close(eo.vmap(eo.grad(run, argnums=1), in_axes=(0, None))(t(1.5, 12.0), s(2.0)), [18.0, 0.0])


@every
def test_gradcheck_of_a_loop_over_a_tree(every):
    def run(a, b):
        def body(i, state):
            return {"u": eo.tanh(a @ state["u"]) + i * b, "v": state["v"] * eo.sum(state["u"])}

        out = eo.fori_loop(0, 5, body, {"u": b, "v": b[0] + 1}, checkpoint_every=every)
        return out["u"].sum() + out["v"]

    rng = np.random.default_rng(1)
    a, b = eo.tensor(rng.standard_normal((3, 3)) / 2), eo.tensor(rng.standard_normal(3))
    assert gradcheck(run, a, b)
    hessian = eo.hessian(lambda v: run(a, v))(b)
    close(hessian, eo.jacrev(eo.jacrev(lambda v: run(a, v)))(b).numpy(), 1e-9)
    assert gradcheck(eo.grad(lambda v: run(a, v)), b)


def test_fori_loop_bounds():
    def total(lower, upper):
        return eo.fori_loop(lower, upper, lambda i, c: c + i, 0).item()

    assert total(2, 5) == 9
    assert total(5, 2) == total(3, 3) == 0
    assert total(eo.tensor(2), eo.tensor([5])) == 9
    n = eo.tensor([0, 1, 4])
    powers = eo.vmap(lambda k, x: eo.fori_loop(0, k, lambda i, y: y * x, 1.0), in_axes=(0, None))
    close(powers(n, s(3.0)), [1.0, 3.0, 81.0])
    close(eo.jacrev(lambda x: powers(n, x))(s(3.0)), [0.0, 1.0, 108.0])
    sums = eo.vmap(lambda a, b: eo.fori_loop(a, b, lambda i, c: c + i, 0))
    assert sums(eo.tensor([0, 2, 3]), eo.tensor([3, 4, 1])).tolist() == [3, 5, 0]
    with pytest.raises(eo.ArgumentError, match="not one integer"):
        eo.fori_loop(0, 2.5, lambda i, c: c, 0)


def test_no_step_at_all_returns_the_first_state():
    out = eo.while_loop(lambda c: False, lambda c: 1 / 0, {"a": 1.0, "b": None})
    assert out["a"].item() == 1.0
    assert out["b"] is None
    close(eo.grad(lambda x: eo.while_loop(lambda c: c < 0, lambda c: c * 2, x))(s(3.0)), 1.0)


def test_numbers_take_the_dtype_of_the_body():
    x = t(0.1, 0.2)
    out = eo.fori_loop(0, 2, lambda i, c: (c[0] + x.sum(), c[1] + 1), (0.1, 0))
    assert (out[0].dtype, out[1].dtype) == (eo.float64, eo.int64)
    close(out[0], 0.1 + 0.6, 1e-15)
    total, _ = eo.scan(lambda c, y: (c + y, None), 0.1, x, checkpoint_every=1)
    close(total, 0.4, 1e-15)
    close(
        eo.grad(lambda y: eo.while_loop(lambda c: c < 1, lambda c: c + y, 0, checkpoint_every=2))(s(0.3)), 4.0
    )


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("error", "body", "says"),
    [
        (eo.ShapeError, lambda p: Point(p.x, eo.stack([p.y, p.y])), r"carry\.y changes its shape"),
        (eo.DTypeError, lambda p: Point(p.x.astype(eo.float32), p.y), r"carry\.x changes its dtype"),
        (eo.ShapeError, lambda p: (p.x, p.y), "structure"),
        (eo.ShapeError, lambda p: p.x, "structure"),
    ],
)
def test_a_carry_that_changes_is_named(error, body, says):
    for run in (
        lambda p: eo.while_loop(lambda q: q.x < 10, body, p),
        lambda p: eo.fori_loop(0, 3, lambda i, q: body(q), p),
        lambda p: eo.scan(lambda q, x: (body(q), None), p, length=3),
        lambda p: eo.while_loop(lambda q: q.x < 10, body, p, checkpoint_every=2),
    ):
        with pytest.raises(error, match=says) as raised:
            run(Point(s(1.0), s(2.0)))
        assert "expected" in str(raised.value)


# ---- checkpoints


def peak(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_checkpoints_save_memory():
    n, size = 256, 20_000

    def run(k):
        x = eo.tensor(np.full(size, 0.5)).requires_grad_()
        peak_bytes = peak(
            lambda: eo.fori_loop(0, n, lambda i, y: eo.sin(y) * 1.01, x, checkpoint_every=k).sum().backward()
        )
        return peak_bytes / (8 * size), x.grad

    plain, expected = run(None)
    saved, found = run(16)
    assert np.array_equal(found.numpy(), expected.numpy())
    assert plain > n  # in states: each step keeps at least one
    assert saved < 100
    assert saved < plain / 4


def test_a_body_that_is_not_deterministic_is_refused():
    x = s(0.5).requires_grad_()
    calls = []

    def body(y):
        calls.append(1)
        return y * len(calls)

    y = eo.while_loop(lambda z: z < 10, body, x, checkpoint_every=2)
    with pytest.raises(eo.GraphStateError, match="other values"):
        y.backward()
    with pytest.raises(eo.ArgumentError, match="checkpoint_every"):
        eo.while_loop(lambda z: z < 10, lambda z: z * 2, x, checkpoint_every=0)


def test_checkpoints_record_nothing_without_need():
    with eo.no_grad():
        assert not doubled(s(1.0).requires_grad_(), 2).requires_grad
    assert not doubled(s(1.0), 2).requires_grad


def test_a_loop_inside_a_loop():
    def run(x, k):
        def outer(i, y):
            return eo.fori_loop(0, 3, lambda j, z: eo.sin(z) * x + i * j, y, checkpoint_every=k)

        return eo.fori_loop(0, 4, outer, x, checkpoint_every=k)

    for derivative in (eo.grad, second):
        expected = derivative(lambda x: run(x, None))(s(0.7))
        close(derivative(lambda x: run(x, 2))(s(0.7)), expected.item(), 1e-10)


@pytest.mark.parametrize("start", [0, True, 0.0])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_a_python_number_that_is_carried_is_as_weak_as_in_pythons_own_loop(start, dtype):
    xs = eo.tensor([1.0, 2.0, 4.0]).astype(dtype)
    plain = start
    for x in xs:
        plain = plain + x
    loops = {
        "scan": eo.scan(lambda c, x: (c + x, c), start, xs)[0],
        "fori_loop": eo.fori_loop(0, 3, lambda i, c: c + xs[i], start),
        "while_loop": eo.while_loop(lambda s: s[1] < 3, lambda s: (s[0] + xs[s[1]], s[1] + 1), (start, 0))[0],
    }
    for name, total in loops.items():
        assert (name, total.dtype, total.item()) == (name, plain.dtype, 7.0 + start)


def test_a_python_int_that_is_carried_does_not_widen_derivatives():
    xs = eo.tensor([1.0, 2.0, 4.0])
    slope = eo.grad(lambda xs: eo.scan(lambda c, x: (c + x * x, None), 0, xs)[0])(xs)
    assert (slope.dtype, slope.tolist()) == (eo.float32, [2.0, 4.0, 8.0])
    mapped = eo.vmap(lambda x: eo.fori_loop(0, 3, lambda i, c: c + x, 0))(xs)
    assert (mapped.dtype, mapped.tolist()) == (eo.float32, [3.0, 6.0, 12.0])
    counted = eo.scan(lambda c, x: (c + 1, c), 0, xs)
    assert (counted[0].dtype, counted[0].item(), counted[1].tolist()) == (eo.int64, 3, [0, 1, 2])
