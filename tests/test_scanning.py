"""scan, map and associative_scan: values, derivatives, checkpoints, no elements at all."""

import functools

import numpy as np
import pytest

import everyo as eo
from everyo.testing import gradcheck

f64 = np.float64


def t(*values):
    return eo.tensor(np.array(values, f64))


def s(value):
    return eo.tensor(f64(value))


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(np.asarray(a.detach() if hasattr(a, "detach") else a), b, rtol=tolerance)


def rnn(w, h, xs, **options):
    def step(carry, x):
        new = eo.tanh(w @ carry + x["a"] * x["b"])
        return new, {"sum": new.sum(), "new": new}

    return eo.scan(step, h, xs, **options)


@pytest.mark.parametrize(
    "options", [{}, {"reverse": True}, {"checkpoint_every": 2}, {"reverse": True, "checkpoint_every": 3}]
)
def test_scan_against_a_loop(options):
    rng = np.random.default_rng(0)
    w, h = rng.standard_normal((2, 2)), rng.standard_normal(2)
    xs = {"a": rng.standard_normal((5, 2)), "b": rng.standard_normal(5)}
    carry, rows = h, []
    order = range(4, -1, -1) if options.get("reverse") else range(5)
    for i in order:
        carry = np.tanh(w @ carry + xs["a"][i] * xs["b"][i])
        rows.append(carry)
    rows = rows[::-1] if options.get("reverse") else rows
    last, ys = rnn(eo.tensor(w), eo.tensor(h), {k: eo.tensor(v) for k, v in xs.items()}, **options)
    close(last, carry)
    close(ys["new"], np.stack(rows))
    close(ys["sum"], np.stack(rows).sum(1))

    def loss(w, h, a, b):
        last, ys = rnn(w, h, {"a": a, "b": b}, **options)
        return last.sum() + (ys["sum"] ** 2).sum()

    arguments = [eo.tensor(v) for v in (w, h, xs["a"], xs["b"])]
    assert gradcheck(loss, *arguments)
    assert gradcheck(lambda h: eo.grad(loss, argnums=1)(arguments[0], h, *arguments[2:]), arguments[1])
    forward = eo.jvp(lambda h: loss(arguments[0], h, *arguments[2:]), (arguments[1],), (t(1.0, 2.0),))[1]
    close(forward, (eo.grad(loss, argnums=1)(*arguments).numpy() * [1.0, 2.0]).sum(), 1e-10)
    batched = eo.vmap(eo.grad(loss, argnums=1), in_axes=(None, 0, None, None))
    close(
        batched(arguments[0], eo.stack([arguments[1]] * 2), *arguments[2:])[1],
        eo.grad(loss, argnums=1)(*arguments).numpy(),
    )


def test_scan_without_elements():
    carry, ys = eo.scan(lambda c, _: (c * 2, c), s(1.0), length=4)
    assert carry.item() == 16.0
    assert ys.tolist() == [1.0, 2.0, 4.0, 8.0]
    carry, ys = eo.scan(lambda c, x: (c, {"a": c @ x, "b": 1}), eo.ones(3), eo.zeros((0, 3, 2)))
    assert (ys["a"].shape, ys["a"].dtype) == ((0, 2), eo.float32)
    assert (ys["b"].shape, ys["b"].dtype) == ((0,), eo.int64)
    assert carry.tolist() == [1.0] * 3
    g = eo.grad(lambda c: eo.scan(lambda a, x: (a * x, a), c, eo.zeros(0))[0])(eo.tensor(3.0))
    assert g.item() == 1.0
    assert eo.scan(lambda c, x: (c, None), s(1.0), t(1.0, 2.0))[1] is None


def test_scan_errors():
    x = eo.ones(3)
    with pytest.raises(eo.ArgumentError, match="neither"):
        eo.scan(lambda c, _: (c, c), s(1.0))
    with pytest.raises(eo.ArgumentError, match="contradicts"):
        eo.scan(lambda c, y: (c, c), s(1.0), x, length=4)
    with pytest.raises(eo.ShapeError, match=r"xs\['b'\]"):
        eo.scan(lambda c, y: (c, c), s(1.0), {"a": x, "b": eo.ones(4)})
    with pytest.raises(eo.ArgumentError, match="pair"):
        eo.scan(lambda c, y: c, s(1.0), x)
    grown = []
    with pytest.raises(eo.ShapeError, match="y changes its shape"):
        eo.scan(lambda c, y: (c, eo.ones(len(grown) + (grown.append(1) or 1))), s(1.0), x)


@pytest.mark.parametrize("batch_size", [None, 1, 2, 10])
def test_map(batch_size):
    xs = t(1.0, 2.0, 3.0)
    close(eo.map(lambda x: x**2, xs, batch_size=batch_size), [1.0, 4.0, 9.0])
    g = eo.grad(lambda v: eo.map(lambda x: {"y": x**3}, v, batch_size=batch_size)["y"].sum())
    close(g(xs), [3.0, 12.0, 27.0])


@pytest.mark.parametrize("n", range(10))
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(n, reverse):
    rng = np.random.default_rng(n)
    m = rng.standard_normal((2, n, 2, 2))  # products of matrices do not commute
    found = eo.associative_scan(eo.matmul, eo.tensor(m), reverse=reverse, axis=1).numpy()
    expected, order = np.empty_like(m), range(n)
    for i in order[::-1] if reverse else order:
        j = i + 1 if reverse else i - 1
        expected[:, i] = m[:, i] if not 0 <= j < n else expected[:, j] @ m[:, i]
    close(found, expected, 1e-11)


def test_associative_scan_calls_and_derivatives():
    calls = []

    def fn(a, b):
        calls.append(a["x"].shape[0])
        return {"x": a["x"] * b["x"], "y": a["y"] * b["x"] + b["y"]}

    elems = {"x": eo.tensor(np.linspace(0.5, 1.5, 64)), "y": eo.tensor(np.linspace(-1, 1, 64))}
    out = eo.associative_scan(fn, elems)
    assert len(calls) <= 2 * 6
    assert sum(calls) < 2 * 64
    y = 0.0
    for a, b in zip(elems["x"].tolist(), elems["y"].tolist(), strict=True):
        y = y * a + b
    close(out["y"][-1], y)
    x = t(0.5, 1.5, 2.0, -1.0, 3.0)
    assert gradcheck(lambda v: eo.associative_scan(eo.multiply, v), x)
    assert gradcheck(eo.grad(lambda v: eo.associative_scan(eo.multiply, v)[-1]), x)
    close(eo.vmap(lambda v: eo.associative_scan(eo.add, v))(eo.stack([x, x]))[1], np.cumsum(x.numpy()))
    with pytest.raises(eo.ShapeError, match="differ in length"):
        eo.associative_scan(eo.add, {"a": eo.ones(3), "b": eo.ones(4)})
    with pytest.raises(eo.ShapeError, match="elems changes its shape"):
        eo.associative_scan(lambda a, b: (a + b).sum(), x)


@pytest.mark.parametrize("loop", ["scan", "fori_loop", "while_loop"])
def test_a_number_that_takes_another_dtype_costs_no_draw(loop):
    xs = np.arange(1.0, 5.0)

    def noisy(c, x):
        return c + x * eo.random.normal(dtype=eo.float64)

    def run(first):
        eo.manual_seed(5)
        x = eo.asarray(xs)
        if loop == "scan":
            out = eo.scan(lambda c, x: (noisy(c, x), None), first, x)[0]
        elif loop == "fori_loop":
            out = eo.fori_loop(0, 4, lambda i, c: noisy(c, x[i]), first)
        else:
            out = eo.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, noisy(c[1], x[c[0]])), (0, first))[1]
        return out.item(), eo.random.normal(dtype=eo.float64).item()

    eo.manual_seed(5)
    total = sum(x * eo.random.normal(dtype=eo.float64).item() for x in xs)
    expected = pytest.approx((total, eo.random.normal(dtype=eo.float64).item()), rel=1e-14)
    assert run(0.0) == expected
    assert run(np.float64(0.0)) == expected


def test_checks_of_values_do_not_refuse_the_zeros_in_place_of_no_elements():
    assert eo.map(lambda t: eo.geomspace(t, 8.0, 3), eo.zeros(0)).shape == (0, 3)
    assert eo.map(lambda a: eo.linalg.inv(a), eo.zeros((0, 3, 3))).shape == (0, 3, 3)
    gradient = eo.grad(lambda x: eo.map(lambda t: eo.geomspace(t, 8.0, 3), x).sum())(eo.zeros(0))
    assert gradient.shape == (0,)
    _, y = eo.scan(lambda c, t: (c, {"a": eo.geomspace(t["b"], c, 3)}), 8.0, {"b": eo.zeros(0)})
    assert y["a"].shape == (0, 3)
    with pytest.raises(eo.ShapeError):
        eo.map(lambda t: t @ eo.ones(3), eo.zeros((0, 2)))


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_no_steps_draw_nothing_and_give_the_dtype_of_a_step(compiled, checked):
    """A number takes the dtype that the body gives it, also where no step is made."""

    def body(c, x):
        drawn = eo.random.normal(size=()) + eo.random.uniform(size=())
        y = eo.linalg.inv(x) if checked and not compiled else x  # which refuses zeros
        return (c[0] + x.sum(), c[1] + 1, c[2]), y * drawn

    def f(xs):
        return eo.scan(body, (0.0, 0, 1), xs)

    xs = eo.zeros((0, 2, 2), dtype=eo.float64)
    eo.manual_seed(3)
    first = eo.random.normal(size=()).item()
    eo.manual_seed(3)
    carry, y = (eo.compile(f) if compiled else f)(xs)
    assert eo.random.normal(size=()).item() == first
    assert [x.dtype for x in carry] == [eo.float64, eo.int64, eo.int64]
    assert [x.item() for x in carry] == [0.0, 0, 1]
    assert (y.shape, y.dtype) == ((0, 2, 2), eo.float64)


def test_no_steps_of_a_state_that_changes():
    f = functools.partial(eo.scan, lambda c, x: (eo.concat([c, c]), x), eo.ones(2))
    for run in (f, eo.compile(f)):
        with pytest.raises(eo.ShapeError, match="carry changes its shape"):
            run(eo.zeros((0, 3)))


def test_no_steps_in_what_is_computed_again():
    def f(x):
        _, none = eo.scan(lambda c, t: (c, t * eo.random.normal(size=())), 0.0, x[:0])
        return (x * eo.random.normal(size=x.shape)).sum() + none.sum()

    x = eo.ones(3)
    eo.manual_seed(3)
    expected = eo.grad(f)(x)
    eo.manual_seed(3)
    assert eo.grad(eo.checkpoint(f))(x).tolist() == expected.tolist()
