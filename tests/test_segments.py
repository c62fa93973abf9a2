"""What runs again in a backward pass, loops with `checkpoint_every` and `checkpoint`, in hard cases."""

import gc

import numpy as np
import pytest

import everyo as eo
from everyo.core.traced import depth

f64 = eo.float64
X = eo.tensor(1.5, dtype=f64)
ONE = eo.ones_like(X)
EVERY = [None, 1, 2, 3]


# ---- in-place statements on the state


def fori(x, every):
    def body(i, c):
        c[0] = x * 2.0
        return c * x

    return eo.fori_loop(0, 3, body, eo.stack([x, x * x]), checkpoint_every=every).sum()


def scan(x, every):
    def body(c, _):
        c[0] = x * 2.0
        return c * x, None

    return eo.scan(body, eo.stack([x, x * x]), None, 3, checkpoint_every=every)[0].sum()


def while_loop(x, every):
    def going(s):
        s["n"] += 100  # nobody else sees it
        return s["n"] < 103

    def body(s):
        s["c"][0] = x * 2.0
        s["c"] *= x
        s["n"] += 1
        return s

    start = {"c": eo.stack([x, x * x]), "n": eo.tensor(0)}
    return eo.while_loop(going, body, start, checkpoint_every=every)["c"].sum()


LOOPS = {"fori": fori, "scan": scan, "while": while_loop}  # each computes 2 x**2 + x**5


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("name", LOOPS)
def test_a_body_may_change_its_state_in_place(name, every):
    def f(x):
        return LOOPS[name](x, every)

    first, second = 4 * 1.5 + 5 * 1.5**4, 4 + 20 * 1.5**3
    assert f(X).item() == pytest.approx(2 * 1.5**2 + 1.5**5)
    assert eo.grad(f)(X).item() == pytest.approx(first)
    assert eo.jvp(f, (X,), (ONE,))[1].item() == pytest.approx(first)
    assert eo.vmap(eo.grad(f))(eo.stack([ONE, X]))[1].item() == pytest.approx(first)
    assert eo.grad(lambda x: eo.vmap(f)(eo.stack([ONE, x]))[1])(X).item() == pytest.approx(first)
    assert eo.grad(eo.grad(f))(X).item() == pytest.approx(second)
    assert eo.hessian(f)(X).item() == pytest.approx(second)


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("start", [0, 1])  # of which the second takes a turn less
def test_the_callers_tensors_stay_as_they_are(start, every):
    def body(s):
        s += 1
        return s

    init = eo.tensor(float(start), requires_grad=True) * 1
    node = init.grad_node
    for loop in (
        lambda: eo.while_loop(lambda s: s < 3, body, init, checkpoint_every=every),
        lambda: eo.fori_loop(start, 3, lambda i, s: body(s), init, checkpoint_every=every),
        lambda: eo.scan(lambda s, x: (body(s), x), init, eo.ones(3 - start), checkpoint_every=every)[0],
        lambda: eo.vmap(lambda s: eo.while_loop(lambda s: s < 3, body, s))(eo.stack([init, init]))[0],
    ):
        assert loop().item() == 3.0
        assert init.item() == start
        assert init.grad_node is node


def test_a_number_in_the_state_starts_again_with_its_own_dtype():
    def body(i, s):
        s["sum"] += 1
        return {"sum": s["sum"], "product": s["product"] * X}

    found = eo.fori_loop(0, 2, body, {"sum": eo.tensor(0.0), "product": 1})
    assert (found["sum"].item(), found["product"].item()) == (2.0, 2.25)


@pytest.mark.parametrize("every", EVERY)
def test_a_number_in_the_state_settles_before_the_segments(every):
    def power(x):
        return eo.scan(lambda c, _: (c * x, c), 1, None, 3, checkpoint_every=every)

    last, rows = power(X)
    assert last.item() == 1.5**3
    assert rows.tolist() == [1.0, 1.5, 2.25]
    assert eo.grad(lambda x: power(x)[0])(X).item() == pytest.approx(3 * 1.5**2)
    assert eo.grad(lambda x: power(x)[1].sum())(X).item() == pytest.approx(1 + 3.0)

    def loop(x):
        return eo.fori_loop(0, 3, lambda i, c: c * x, 1, checkpoint_every=every)

    assert eo.grad(loop)(X).item() == pytest.approx(3 * 1.5**2)

    def until(x):
        return eo.while_loop(lambda c: c < 3, lambda c: c * x, 1, checkpoint_every=every)

    assert eo.grad(until)(X).item() == pytest.approx(3 * 1.5**2)


def test_a_scan_without_steps_leaves_the_state_alone():
    def body(s, x):
        s += 1
        return s, s

    init = eo.zeros(2)
    last, rows = eo.scan(body, init, eo.ones((0, 2)))
    assert last.tolist() == init.tolist() == [0.0, 0.0]
    assert rows.shape == (0, 2)


def test_branches_of_a_batch_do_not_see_each_others_statements():
    def doubled(x):
        x *= 2
        return x

    def f(x):
        return eo.cond(x > 0, doubled, lambda x: x * 3, x)

    assert eo.vmap(f)(eo.tensor([1.0, -1.0])).tolist() == [2.0, -3.0]
    assert eo.vmap(eo.grad(f))(eo.tensor([1.0, -1.0])).tolist() == [2.0, 3.0]
    whole = eo.tensor(5.0)
    g = eo.vmap(lambda x: eo.cond(x > 0, lambda x, s: doubled(s) + x, lambda x, s: s - x, x, whole))
    assert g(eo.tensor([1.0, -1.0])).tolist() == [11.0, 6.0]
    assert whole.item() == 5.0


# ---- bounds of a batch


@pytest.mark.parametrize("every", EVERY)
def test_each_example_has_its_own_lower_bound(every):
    v = eo.tensor([1.0, 2.0, 3.0], dtype=f64)

    def f(n, v=v):
        return eo.fori_loop(n, 3, lambda i, y: y + v[i] ** 2, 0.0, checkpoint_every=every)

    starts = eo.tensor([0, 3, 1, 7])
    expected = [14.0, 0.0, 13.0, 0.0]
    assert eo.vmap(f)(starts).tolist() == [f(n).item() for n in (0, 3, 1, 7)] == expected
    slope = eo.grad(lambda v: eo.vmap(lambda n: f(n, v))(starts).sum())(v)
    assert slope.tolist() == [2.0, 8.0, 12.0]
    both = eo.vmap(lambda a, b: eo.fori_loop(a, b, lambda i, y: y + v[i], 0.0))
    assert both(eo.tensor([0, 1, 2]), eo.tensor([3, 3, 1])).tolist() == [6.0, 5.0, 0.0]


# ---- the second run is like the first


@pytest.mark.parametrize("randomness", ["same", "different"])
@pytest.mark.parametrize("keep", ["checkpoint", "loop"])
def test_random_numbers_of_a_batch_are_drawn_again(keep, randomness):
    def noisy(x):
        return x * eo.random.normal(size=(4,), dtype="float64")

    def twice(x):
        return eo.fori_loop(0, 2, lambda i, x: noisy(x), x, checkpoint_every=1)

    block = eo.checkpoint(noisy) if keep == "checkpoint" else twice
    batched = eo.vmap(block, randomness=randomness)
    factors = {}

    def f(x):
        y = batched(x)  # at ones it is the factors
        factors["seen"] = y.detach() if y.level == 0 else y
        return (y**2).sum(), y

    x = eo.ones((5, 4), dtype=f64)
    gradient, y = eo.grad(f, has_aux=True)(x)
    np.testing.assert_allclose(gradient.numpy(), 2 * y.numpy() ** 2, rtol=1e-12)
    assert len({tuple(row) for row in y.tolist()}) == (5 if randomness == "different" else 1)
    product, y = eo.jvp(lambda x: eo.grad(f, has_aux=True)(x), (x,), (x,))
    np.testing.assert_allclose(y[0].numpy(), 2 * product[1].numpy() ** 2, rtol=1e-12)
    gradient, y = eo.vmap(
        eo.grad(lambda x: ((block(x) ** 2).sum(), block(x) * 0), has_aux=True), randomness=randomness
    )(x)
    assert np.isfinite(gradient.numpy()).all()


def test_not_a_number_is_the_same_again():
    block = eo.checkpoint(lambda x: eo.where(x > 0, x * x, float("nan")))
    x = eo.tensor([3.0, -1.0], requires_grad=True)
    y = block(x)
    y.sum().backward()
    assert np.isnan(y.detach().numpy()).tolist() == [False, True]
    assert x.grad.tolist() == [6.0, 0.0]


def test_levels_are_as_before_after_the_second_run():
    kept = []

    def block(x):
        y = x * x
        kept.append(y)
        return y * x

    w = eo.tensor(2.0, dtype=f64, requires_grad=True)
    out = eo.vmap(lambda a: eo.vmap(lambda b: eo.checkpoint(block)(a * b * w))(eo.stack([X, ONE])))(
        eo.stack([ONE, X])
    )
    assert depth() == 0
    out.sum().backward()
    assert w.grad.item() == pytest.approx(3 * 2.0**2 * (1.5**3 + 1) ** 2)
    assert depth() == 0
    assert len(kept) == 2  # the run and its second
    for value in kept:
        with pytest.raises(eo.GraphStateError, match="outlived"):
            value + 1


def test_levels_are_as_before_after_an_exception_in_the_second_run():
    kept = []

    def block(x):
        kept.append(x * 1)
        if len(kept) > 1:
            raise ZeroDivisionError
        return x * x

    w = eo.tensor(2.0, requires_grad=True)
    out = eo.vmap(lambda a: eo.checkpoint(block)(a * w))(eo.ones(3))
    with pytest.raises(ZeroDivisionError):
        out.sum().backward()
    assert depth() == 0
    assert w.grad is None
    with pytest.raises(eo.GraphStateError, match="outlived"):
        kept[1] + 1
    assert eo.grad(lambda x: x**3)(2.0).item() == 12.0


def test_a_parameter_that_changed_without_changing_the_value_is_noticed():
    w, x = eo.tensor(2.0, requires_grad=True), eo.tensor(0.0, requires_grad=True)
    y = eo.checkpoint(lambda x: x * w)(x)
    with eo.no_grad():
        w *= 3
    with pytest.raises(eo.GraphStateError, match="other values"):
        y.backward()
    assert x.grad is None


def test_an_argument_may_change_after_the_forward_pass():
    x = eo.tensor(3.0, requires_grad=True)
    y = eo.checkpoint(lambda x: x * x)(x)
    with eo.no_grad():
        x += 1
    y.backward()
    assert x.grad.item() == 6.0


def test_a_captured_leaf_that_was_frozen_gets_nothing():
    w, x = eo.tensor(2.0, requires_grad=True), eo.tensor(3.0, requires_grad=True)
    a, b, c = eo.checkpoint(lambda x: (w * w, x * w, x * x))(x)
    w.requires_grad_(False)
    (a * 100 + b * 10 + c).backward()
    assert x.grad.item() == 26.0
    assert w.grad is None


def test_the_second_run_is_not_differentiated_where_the_first_was_not():
    block = eo.checkpoint(lambda x: x**3)

    def f(x):
        with eo.no_grad():
            _value, pullback = eo.vjp(block, x)
        return x * pullback(ONE)[0]  # 3 x**2: constant, as the value is from the block

    assert eo.grad(f)(X).item() == pytest.approx(3 * 1.5**2)
    assert eo.vmap(eo.grad(f))(eo.stack([X]))[0].item() == pytest.approx(3 * 1.5**2)
    assert eo.jvp(f, (X,), (ONE,))[1].item() == pytest.approx(3 * 1.5**2)


def test_the_second_run_is_recorded_wherever_it_is_asked_for():
    def f(x):
        _, pullback = eo.vjp(eo.checkpoint(lambda x: x**3), x)

        @eo.no_grad()
        def pulled(seed):
            return pullback(seed)[0]

        return eo.jvp(pulled, (ONE,), (ONE,))[0]

    assert eo.vmap(f)(eo.stack([X, ONE])).tolist() == [3 * 1.5**2, 3.0]


@pytest.mark.parametrize("every", EVERY)
def test_what_a_loop_keeps_goes_with_its_graph(every):
    import weakref

    w = eo.tensor(2.0, dtype=f64, requires_grad=True)
    state = w * 1
    kept = weakref.ref(state.grad_node)
    out = eo.fori_loop(0, 6, lambda i, s: s * w, state, checkpoint_every=every)
    out.backward()
    assert w.grad.item() == 7 * 2.0**6
    gc.disable()
    try:
        del state, out
        assert kept() is None
    finally:
        gc.enable()
