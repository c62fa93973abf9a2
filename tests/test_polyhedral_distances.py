"""Distances of orders 1 and infinity: what their loops compute is what differences of all pairs give."""

import math

import numpy as np
import pytest

import everyo as eo
from everyo.backends import scientific
from everyo.errors import UnsupportedOperationError

DRAW = np.random.default_rng(11)


def by_differences(x1, x2, p):
    return eo.vector_norm(eo.expand_dims(x1, -2) - eo.expand_dims(x2, -3), axis=-1, ord=p)


def derivatives(function, x1, x2, weights):
    first, second = (eo.tensor(x, requires_grad=True) for x in (x1, x2))
    out = function(first, second)
    out.backward(weights)
    return out.detach().numpy(), first.grad.numpy(), second.grad.numpy()


def points(kind, dtype):
    first, second = DRAW.normal(size=(40, 3)), DRAW.normal(size=(50, 3))
    if kind == "ties":
        first, second = first.round(), second.round()
    if kind == "odd":
        first[0, 0], first[1, 1] = math.nan, -math.inf
        second[1], second[2, 1], second[3, 1], second[4] = math.inf, -math.inf, 0, first[5]
    if kind == "many":
        first, second = DRAW.normal(size=(400, 3)).round(1), DRAW.normal(size=(500, 3)).round(1)
    return first.astype(dtype), second.astype(dtype)


@pytest.mark.parametrize("p", [1, math.inf])
@pytest.mark.parametrize(
    ("dtype", "close"), [("float64", 1e-12), ("float32", 1e-4), ("float16", 4e-3)], ids=str
)
@pytest.mark.parametrize("kind", ["plain", "ties", "odd", "many"])
def test_loops_agree_with_differences(kind, dtype, close, p):
    if kind == "many" and dtype == "float16":
        pytest.skip("sums of so many are another rounding")
    x1, x2 = points(kind, dtype)
    weights = eo.asarray(DRAW.normal(size=(len(x1), len(x2))).astype(dtype))
    with np.errstate(invalid="ignore"):
        found = derivatives(lambda a, b: eo.cdist(a, b, p), x1, x2, weights)
        expected = derivatives(lambda a, b: by_differences(a, b, p), x1, x2, weights)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == dtype
        np.testing.assert_allclose(ours, theirs, rtol=close, atol=10 * close)


@pytest.mark.parametrize("p", [1, math.inf])
def test_values_of_many_points_are_those_without_scipy(p, monkeypatch):
    def absent(*arguments, **options):
        raise UnsupportedOperationError("SciPy is not installed", operation="cdist")

    x1, x2 = points("many", "float64")
    found = eo.cdist(x1, x2, p).numpy()
    x1[3, 0] = math.nan
    assert np.isnan(eo.cdist(x1, x2, p).numpy()).all(1).nonzero()[0].tolist() == [3]
    x1[3, 0] = x1[4, 0]
    again = eo.cdist(x1, x2, p).numpy()
    monkeypatch.setattr(scientific._distance, "cdist", absent, raising=False)
    np.testing.assert_array_equal(eo.cdist(x1, x2, p).numpy(), again)
    np.testing.assert_array_equal(np.delete(again, 3, 0), np.delete(found, 3, 0))


@pytest.mark.parametrize("p", [1, math.inf])
def test_an_infinite_weight_of_equal_points_is_no_number(p):
    x = [[1.0, 2.0]]
    for equal in (lambda a, b: eo.cdist(a, b, p), lambda a, b: by_differences(a, b, p)):
        _, first, second = derivatives(equal, x, x, eo.tensor([[math.inf]]))
        assert np.isnan(first).all()
        assert np.isnan(second).all()


@pytest.mark.parametrize("p", [1, 2, math.inf])
def test_pairs_of_one_set_are_those_above_the_diagonal(p):
    x = DRAW.normal(size=(2, 30, 3))
    rows, columns = np.triu_indices(30, 1)
    g = DRAW.normal(size=(2, rows.size))

    def pairs(x):
        return by_differences(x, x, p)[..., rows, columns]

    results = []
    for function in (lambda x: eo.pdist(x, p), pairs):
        leaf = eo.tensor(x, requires_grad=True)
        out = function(leaf)
        out.backward(eo.asarray(g))
        results.append((out.detach().numpy(), leaf.grad.numpy()))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("p", [1, math.inf])
def test_second_derivatives_are_those_of_the_weights(p):
    """The slopes are constant between their jumps, so only what multiplies a distance counts."""
    x1, x2 = eo.tensor(points("plain", "float64")[0][:4]), eo.tensor(points("plain", "float64")[1][:3])

    def squares(a, b):
        return eo.sum(eo.cdist(a, b, p) ** 2)

    def through_differences(a, b):
        return eo.sum(by_differences(a, b, p) ** 2)

    for position in (0, 1):
        ours = eo.hessian(squares, argnums=position)(x1, x2)
        theirs = eo.hessian(through_differences, argnums=position)(x1, x2)
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)
    first = eo.tensor(x1.numpy(), requires_grad=True)
    (slope,) = eo.autograd.grad(squares(first, x2), [first], create_graph=True)
    (again,) = eo.autograd.grad(eo.sum(slope * slope), [first])
    other = eo.tensor(x1.numpy(), requires_grad=True)
    (slope,) = eo.autograd.grad(through_differences(other, x2), [other], create_graph=True)
    (expected,) = eo.autograd.grad(eo.sum(slope * slope), [other])
    np.testing.assert_allclose(again.numpy(), expected.numpy(), rtol=1e-12)
