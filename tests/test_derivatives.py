"""`grad`, `vjp`, `linearize`, Jacobians and Hessians: arguments, trees, auxiliary data, shapes, orders."""

from __future__ import annotations

import dataclasses
import tracemalloc
from typing import NamedTuple

import mpmath
import numpy as np
import pytest

import everyo as eo

A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
DERIVATIVES = [eo.grad, eo.jacrev, eo.jacfwd, eo.jacobian]


def f(x, y, *, scale=1.0):
    return x * x * y * scale


@pytest.mark.parametrize("transform", DERIVATIVES)
@pytest.mark.parametrize(("options", "expected"), [
    ({}, 2 * 3 * 5 * 7.0),
    ({"argnums": 1}, 9 * 7.0),
    ({"argnums": -1}, 9 * 7.0),
    ({"argnums": (1, 0)}, (9 * 7.0, 2 * 3 * 5 * 7.0)),
    ({"argnames": "scale"}, 45.0),
    ({"argnums": 0, "argnames": "scale"}, (2 * 3 * 5 * 7.0, 45.0)),
    ({"argnums": (0,)}, (2 * 3 * 5 * 7.0,)),
])  # fmt: skip
def test_which_arguments(transform, options, expected):
    found = transform(f, **options)(3.0, 5.0, scale=7.0)
    if isinstance(expected, tuple):
        assert isinstance(found, tuple)
        assert tuple(g.item() for g in found) == expected
    else:
        assert found.item() == expected


@pytest.mark.parametrize("transform", [*DERIVATIVES, eo.value_and_grad, eo.hessian])
@pytest.mark.parametrize(("options", "words"), [
    ({"argnums": (0, 0)}, "argument 0 twice"),
    ({"argnums": (1, 0, -1)}, "argument 1 twice"),
    ({"argnums": [0, -2]}, "argument 0 twice"),
    ({"argnames": ("scale", "scale")}, "'scale' twice"),
    ({"argnums": 0, "argnames": ["scale", "scale"]}, "'scale' twice"),
])  # fmt: skip
def test_an_argument_is_named_once(transform, options, words):
    with pytest.raises(eo.ArgumentError, match=words) as error:
        transform(f, **options)(3.0, 5.0, scale=7.0)
    assert error.value.remedy
    assert error.value.operation == transform.__name__


def test_hessian_by_name():
    h = eo.hessian(lambda *, x: (x**3).sum(), argnames="x")(x=eo.tensor([1.0, 2.0]))
    assert h.tolist() == [[6.0, 0.0], [0.0, 12.0]]


@pytest.mark.parametrize("transform", DERIVATIVES)
def test_auxiliary_data(transform):
    def with_aux(x):
        return (x * x).sum(), {"double": x * 2, "note": "kept"}

    found, aux = transform(with_aux, has_aux=True)(eo.tensor([1.0, 3.0]))
    assert found.tolist() == [2.0, 6.0]
    assert aux["double"].tolist() == [2.0, 6.0]
    assert aux["note"] == "kept"
    assert not aux["double"].requires_grad


@dataclasses.dataclass
class Model:
    weight: object
    bias: object


class Pair(NamedTuple):
    a: object
    b: object


@pytest.mark.parametrize("wrap", [
    lambda w, b: {"w": w, "b": b}, lambda w, b: [w, b], lambda w, b: (w, {"b": b}), Pair, Model,
])  # fmt: skip
def test_gradients_have_the_structure_of_their_argument(wrap):
    from everyo.transforms.trees import flatten

    tree = wrap(eo.tensor([1.0, 2.0]), eo.tensor(3.0))

    def loss(tree):
        leaves, _ = flatten(tree)
        return sum((leaf**2).sum() for leaf in leaves)

    gradient = eo.grad(loss)(tree)
    leaves, structure = flatten(gradient)
    assert structure == flatten(tree)[1]
    assert type(gradient) is type(tree)
    assert sorted(map(str, (leaf.tolist() for leaf in leaves))) == ["6.0", "[2.0, 4.0]"]


def test_what_does_not_depend_is_zero():
    found = eo.grad(lambda x: eo.tensor(3.0))(eo.ones(2))
    assert found.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("call", "kind", "words"), [
    (lambda: eo.grad(lambda x: x)(3), eo.DTypeError, "argnums"),
    (lambda: eo.grad(lambda x: x * 2)(eo.ones(2)), eo.ShapeError, "jacobian"),
    (lambda: eo.grad(lambda x: (x, x))(1.0), eo.ShapeError, "has_aux"),
    (lambda: eo.grad(lambda x: x * 1j)(1.0), eo.DTypeError, "complex"),
    (lambda: eo.grad(f, argnums=5)(1.0, 2.0), eo.EveryOError, "argnums"),
    (lambda: eo.grad(f, argnames="z")(1.0, 2.0), eo.EveryOError, "'z'"),
    (lambda: eo.grad(lambda x: x, has_aux=True)(1.0), eo.EveryOError, "pair"),
    (lambda: eo.vjp(lambda x: x, eo.ones(2))[1](eo.ones(3)), eo.ShapeError, "(2,)"),
])  # fmt: skip
def test_what_cannot_be_differentiated(call, kind, words):
    with pytest.raises(kind) as error:
        call()
    assert words in str(error.value)


@pytest.mark.parametrize("transform", [eo.jacrev, eo.jacfwd, eo.jacobian])
@pytest.mark.parametrize("chunk", [None, 1, 2])
def test_jacobian_of_shapes_and_trees(transform, chunk):
    def g(p):
        return {"product": eo.tensor(A) @ p["x"], "sum": p["x"].sum() * p["s"]}

    point = {"x": eo.tensor([1.0, 2.0, 3.0], dtype=eo.float64), "s": eo.tensor(2.0, dtype=eo.float64)}
    found = transform(g, chunk_size=chunk)(point)
    np.testing.assert_array_equal(found["product"]["x"].numpy(), A)
    np.testing.assert_array_equal(found["product"]["s"].numpy(), [0.0, 0.0])
    np.testing.assert_array_equal(found["sum"]["x"].numpy(), [2.0, 2.0, 2.0])
    assert found["sum"]["s"].item() == 6.0


@pytest.mark.parametrize(("transform", "n", "m"), [
    (eo.jacrev, 1, 2000), (eo.jacfwd, 2000, 1), (eo.jacobian, 2000, 1), (eo.hessian, 300, None),
])  # fmt: skip
def test_memory_is_bounded_without_a_chunk_size(transform, n, m, monkeypatch):
    monkeypatch.setattr("everyo.transforms.passes.AT_ONCE", 2**13)
    weights = np.sin(np.arange(1.0, n * (m or 1) + 1)).reshape((n, m or 1))

    def g(x):
        return (x**3).sum() if m is None else x @ eo.tensor(weights)

    x = eo.tensor(np.linspace(1.0, 2.0, n))
    transform(g)(x)  # what is imported and cached now does not count
    tracemalloc.start()
    found = transform(g)(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    expected = np.diag(6 * x.numpy()) if m is None else weights.T
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13)
    assert peak < 4 * found.nbytes + 20 * 8 * 2**13


@pytest.mark.parametrize("total", [0, 1, 3, 4, 5, 9, 12])
def test_batches_of_passes(total, monkeypatch):
    from everyo.core.traced import innermost
    from everyo.transforms.passes import in_batches

    monkeypatch.setattr("everyo.transforms.passes.AT_ONCE", 36)
    monkeypatch.setattr("everyo.transforms.passes.FIRST", 3)
    sizes = []

    def one(a, b):
        sizes.append(innermost(b).shape[0])
        return [a, eo.tile(b, 4)]

    a, b = eo.zeros(2 if total > 2 else 0), eo.zeros(total if total < 3 else total - 2)
    left, right = in_batches(one, [a, b], None)
    np.testing.assert_array_equal(eo.concat([left, right[:, : b.size]], axis=1).numpy(), np.eye(total))
    width = 4 * b.size
    assert sizes[0] == min(total, 3, 36 // max(a.size, b.size, 1))
    assert sum(sizes) == total
    assert all(n <= max(36 // width, 1) for n in sizes[1:])
    sizes.clear()
    in_batches(one, [a, b], 2)
    assert max(sizes) == min(total, 2)


def test_linearize_agrees_with_jvp_without_another_evaluation():
    calls = []

    def g(x):
        calls.append(1)
        return eo.sin(x) * x

    x, v = eo.tensor([0.5, 2.0], dtype=eo.float64), eo.tensor([1.0, -3.0], dtype=eo.float64)
    value, pushforward = eo.linearize(g, x)
    first, second = pushforward(v), pushforward(2 * v)
    assert len(calls) == 1
    np.testing.assert_array_equal(value.numpy(), (eo.sin(x) * x).numpy())
    np.testing.assert_allclose(first.numpy(), eo.jvp(g, (x,), (v,))[1].numpy(), rtol=1e-14)
    np.testing.assert_allclose(second.numpy(), 2 * first.numpy(), rtol=1e-14)


def test_hessian_products_agree_with_the_hessian():
    def g(x):
        return (eo.sin(x) * x**2).sum() * x[0]

    x, v = eo.tensor([0.5, 2.0, -1.0], dtype=eo.float64), eo.tensor([1.0, -3.0, 0.5], dtype=eo.float64)
    product = eo.hessian(g)(x).numpy() @ v.numpy()
    np.testing.assert_allclose(eo.hvp(g, x, v).numpy(), product, rtol=1e-13)
    np.testing.assert_allclose(eo.vhp(g, x, v).numpy(), product, rtol=1e-13)


@pytest.mark.parametrize(("function", "exact"), [
    (eo.sin, mpmath.sin),
    (eo.tanh, mpmath.tanh),
    (lambda x: eo.logsumexp(eo.stack([x, x * x])), lambda x: mpmath.log(mpmath.exp(x) + mpmath.exp(x * x))),
])  # fmt: skip
@pytest.mark.parametrize("direction", ["reverse", "forward", "mixed"])
def test_fourth_derivatives_agree_with_mpmath(function, exact, direction):
    def forward(g):
        return lambda x: eo.jvp(g, (x,), (eo.ones_like(x),))[1]

    steps = {
        "reverse": [eo.grad] * 4,
        "forward": [forward] * 4,
        "mixed": [eo.grad, forward, eo.grad, forward],
    }
    g = function
    for step in steps[direction]:
        g = step(g)
    with mpmath.workdps(40):
        expected = float(mpmath.diff(exact, mpmath.mpf("0.7"), 4))
    assert g(eo.tensor(0.7, dtype=eo.float64)).item() == pytest.approx(expected, rel=1e-10)


def test_nested_derivatives_do_not_mix():  # B139
    assert eo.grad(lambda x: x * eo.grad(lambda y: x + y)(x))(5.0).item() == 1.0
    assert eo.grad(lambda x: eo.grad(lambda y: x * y)(5.0))(5.0).item() == 1.0
    assert eo.grad(eo.grad(lambda x: 2 * x))(1.0).item() == 0.0  # B131
    w = eo.tensor(3.0, requires_grad=True)
    eo.grad(lambda x: w * w * x * x)(2.0).backward()
    assert w.grad.item() == 24.0


def test_an_exception_inside_leaves_the_outer_transformation_usable():
    def outer(x):
        with pytest.raises(ZeroDivisionError):
            eo.jvp(lambda y: 1 / 0, (x,), (x,))
        return eo.sin(x)

    assert eo.jvp(eo.grad(outer), (eo.tensor(0.0),), (eo.tensor(1.0),))[1].item() == 0.0
    assert eo.is_grad_enabled()
    assert (eo.tensor(2.0, requires_grad=True) * 2).requires_grad


def test_results_do_not_share_memory_with_the_directions_they_were_asked_for():
    x, seed = eo.asarray(np.ones(3)), np.ones(3)
    found = [
        eo.vjp(lambda x: x + 0, x)[1](seed)[0],
        eo.jvp(lambda x: x + 0, (x,), (seed,))[1],
        eo.linearize(lambda x: x + 0, x)[1](seed),
    ]
    seed[:] = 5.0
    for tensor in found:
        np.testing.assert_array_equal(tensor, np.ones(3))
