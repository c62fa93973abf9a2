"""Sums of more float16 numbers than float16 can count: means, spreads, shares and sums at one place."""

import math

import numpy as np
import pytest

import everyo as eo

N = 70000  # beyond the largest float16
X = (np.arange(N) % 7 / 8).astype("float16")
EXACT = X.astype("float64")
EQUAL = np.zeros(N, "float16")
PLACES = np.zeros(N, "int64")
F = eo.nn.functional


def one(x):
    return eo.asarray(x)


def put(x, reduce):
    return eo.scatter_reduce(eo.zeros(1, dtype="f2"), 0, one(PLACES), x, reduce, include_self=False)[0]


AVERAGES = {
    "mean": eo.mean,
    "nanmean": eo.nanmean,
    "mean where": lambda x: eo.mean(x, where=x > -1),
    "average": eo.average,
    "weighted average": lambda x: eo.average(x, weights=eo.ones_like(x)),
    "reduce_window": lambda x: eo.reduce_window(x, "mean", N)[0],
    "avg_pool1d": lambda x: F.avg_pool1d(x.reshape(1, 1, N), N)[0, 0, 0],
    "segment_mean": lambda x: eo.segment_mean(x, one(PLACES), 1)[0],
    "scatter_reduce": lambda x: put(x, "mean"),
}


@pytest.mark.parametrize("name", sorted(AVERAGES))
@pytest.mark.parametrize("compiled", [False, True])
def test_means_of_many(name, compiled):
    wrapped = eo.compile if compiled else lambda f: f
    f, x, share = AVERAGES[name], one(X), np.full(N, np.float16(1 / N))
    assert wrapped(f)(x).dtype == eo.float16
    np.testing.assert_allclose(wrapped(f)(x).item(), EXACT.mean(), rtol=2**-10)
    np.testing.assert_array_equal(wrapped(eo.grad(f))(x).numpy(), share)
    np.testing.assert_allclose(
        wrapped(lambda x: eo.jvp(f, (x,), (x,))[1])(x).item(), EXACT.mean(), rtol=2**-10
    )
    slope = wrapped(eo.grad(lambda x: eo.grad(lambda x: f(x) ** 2)(x)[0] * 30000))(x)
    np.testing.assert_allclose(slope.numpy(), np.full(N, 60000 / N**2), rtol=0.01)
    rows = wrapped(eo.vmap(eo.grad(f)))(eo.stack([x, x]))
    np.testing.assert_array_equal(rows.numpy(), np.stack([share, share]))


def test_spreads_of_many():
    x = one(X)
    for found, wanted in [
        (eo.var(x), EXACT.var()), (eo.nanvar(x), EXACT.var()), (eo.nanstd(x), EXACT.std()),
        (eo.nanvar(x, where=x > -1), EXACT.var()), (eo.cov(x), np.cov(EXACT)),
        (eo.cov(x, aweights=eo.ones_like(x)), np.cov(EXACT, aweights=np.ones(N))),
        (eo.cov(x, fweights=np.full(N, 2)), np.cov(EXACT, fweights=np.full(N, 2))),
        (eo.cov(x, x * x, bias=True)[0, 1], np.cov(EXACT, EXACT**2, bias=True)[0, 1]),
        (eo.corrcoef(x, x * x)[0, 1], np.corrcoef(EXACT, EXACT**2)[0, 1]),
    ]:  # fmt: skip
        assert found.dtype == eo.float16
        np.testing.assert_allclose(found.item(), wanted, rtol=2**-9)
    centred = 4096 * 2 * (EXACT - EXACT.mean())
    for f, freedom in ((eo.nanvar, N), (eo.cov, N - 1), (eo.var, N)):
        slope = eo.grad(lambda x, f=f: f(x) * 4096)(x).numpy()
        np.testing.assert_allclose(slope, centred / freedom, rtol=2**-8, atol=1e-4)
    assert eo.cov(x, aweights=np.ones(N, "float32")).dtype == eo.float32


TIES = {
    "max": eo.max,
    "min": eo.min,
    "nanmax": eo.nanmax,
    "nanmin": eo.nanmin,
    "median": eo.median,
    "segment_max": lambda x: eo.segment_max(x, one(PLACES), 1)[0],
    "scatter_reduce amin": lambda x: put(x, "amin"),
}


@pytest.mark.parametrize("name", sorted(TIES))
@pytest.mark.parametrize("compiled", [False, True])
def test_shares_of_many_equal_ones(name, compiled):
    wrapped = eo.compile if compiled else lambda f: f
    x, f = one(EQUAL), TIES[name]
    np.testing.assert_array_equal(wrapped(eo.grad(f))(x).numpy(), np.full(N, np.float16(1 / N)))


@pytest.mark.parametrize("name", sorted({**TIES, **AVERAGES}))
def test_cotangents_are_rounded_where_they_arise(name):
    seen = []
    x = eo.tensor(one(EQUAL), requires_grad=True) * 1
    x.register_hook(lambda g: seen.append(g.dtype))
    {**TIES, **AVERAGES}[name](x).backward()
    assert seen == [eo.float16]


@pytest.mark.parametrize("name", sorted(TIES))
@pytest.mark.parametrize("compiled", [False, True])
def test_changes_of_many_equal_ones(name, compiled):
    """The mean change of those that tie."""
    wrapped = eo.compile if compiled else lambda f: f
    x, f = one(EQUAL), TIES[name]
    for t, mean in ((eo.ones_like(x), 1.0), (one(X), EXACT.mean())):
        moved = wrapped(lambda x, t: eo.jvp(f, (x,), (t,))[1])(x, t)
        assert moved.dtype == eo.float16
        np.testing.assert_allclose(moved.item(), mean, rtol=2**-9)


def test_shares_of_many_results():
    """Each element has a share of the sum of all cotangents, and the sum is beyond float16."""
    x, q = one(EQUAL[:2000]), np.linspace(0, 1, 2000)
    for wrapped in (lambda f: f, eo.compile):
        found = wrapped(eo.grad(lambda x: (eo.quantile(x, q) * 40).sum()))(x)
        np.testing.assert_array_equal(found.numpy(), np.full(2000, 40, "float16"))


@pytest.mark.parametrize("f", [eo.max, eo.min, eo.nanmax, eo.nanmin])
def test_changes_along_an_axis(f):
    x = eo.zeros((N, 2), dtype="f2")
    for wrapped in (lambda f: f, eo.compile):
        moved = wrapped(lambda x: eo.jvp(lambda x: f(x, axis=0), (x,), (eo.ones_like(x),))[1])(x)
        assert moved.dtype == eo.float16
        np.testing.assert_allclose(moved.numpy(), [1.0, 1.0], rtol=2**-10)


def test_exponentials_of_many():
    x = one(EQUAL)
    for wrapped in (lambda f: f, eo.compile):
        np.testing.assert_array_equal(wrapped(lambda x: eo.softmax(x))(x).numpy(), np.float16(1 / N))
        for f in (eo.logsumexp, lambda x: eo.logcumsumexp(x)[-1], lambda x: -eo.log_softmax(x)[0]):
            np.testing.assert_allclose(wrapped(f)(x).item(), math.log(N), rtol=2**-10)
        np.testing.assert_array_equal(wrapped(eo.grad(eo.logsumexp))(x).numpy(), np.float16(1 / N))
        tail = wrapped(eo.grad(lambda x: eo.logcumsumexp(x)[-1]))(x)
        np.testing.assert_array_equal(tail.numpy(), np.float16(1 / N))


def test_weighted_losses_of_many():
    logits, target, weight = eo.zeros((N, 2), dtype="f2"), one(PLACES), eo.ones(2, dtype="f2")
    loss = F.cross_entropy(logits, target, weight=weight)
    assert loss.dtype == eo.float16
    np.testing.assert_allclose(loss.item(), math.log(2), rtol=2**-10)
    slope = eo.grad(lambda x: F.cross_entropy(x, target, weight=weight))(logits).numpy()
    np.testing.assert_allclose(slope, np.full((N, 2), [-0.5, 0.5]) / N, rtol=0.02)


SUMS = {
    "segment_sum": lambda x: eo.segment_sum(x, one(PLACES), 1)[0],
    "scatter_reduce": lambda x: put(x, "sum"),
    "scatter_add": lambda x: eo.scatter_add(eo.zeros(1, dtype="f2"), 0, one(PLACES), x)[0],
    "index_add": lambda x: eo.index_add(eo.zeros(1, dtype="f2"), one(PLACES), x)[0],
    "index_reduce": lambda x: eo.index_reduce(eo.zeros(1, dtype="f2"), 0, one(PLACES), x, "sum")[0],
    "gradient of take": lambda x: eo.grad(lambda t: (eo.take(t, one(PLACES), axis=0) * x).sum())(x[:1])[0],
    "gradient of indexing": lambda x: eo.grad(lambda t: (t[one(PLACES)] * x).sum())(x[:1])[0],
}


@pytest.mark.parametrize("name", sorted(SUMS))
@pytest.mark.parametrize("compiled", [False, True])
def test_sums_at_one_place(name, compiled):
    wrapped = eo.compile if compiled else lambda f: f
    x = one(X)
    assert wrapped(SUMS[name])(x).dtype == eo.float16
    np.testing.assert_allclose(wrapped(SUMS[name])(x).item(), EXACT.sum(), rtol=2**-10)
    np.testing.assert_array_equal(wrapped(eo.grad(SUMS[name]))(x).numpy(), np.ones(N))


BROADCAST = {
    "add": lambda b, x: x + b,
    "multiply": lambda b, x: (x + 1) * b,
    "where": lambda b, x: eo.where(x > -1, b, x),
    "broadcast_to": lambda b, x: eo.broadcast_to(b, x.shape),
    "tile": lambda b, x: eo.tile(b, (N, 1)),
    "of one column": lambda b, x: eo.matrix_transpose(x + b),
}


@pytest.mark.parametrize("name", sorted(BROADCAST))
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_of_what_was_broadcast(name, compiled):
    wrapped = eo.compile if compiled else lambda f: f
    b, x = eo.zeros((1, 2), dtype="f2"), eo.zeros((N, 2), dtype="f2")
    found = wrapped(eo.grad(lambda b: (BROADCAST[name](b, x) * 0.125).sum()))(b)
    assert found.dtype == eo.float16
    np.testing.assert_array_equal(found.numpy(), np.full((1, 2), np.float16(N / 8)))


def test_products_at_one_place():
    """Each factor is rounded once, not the product after each of them."""
    x = np.tile(np.array([1.001, 1 / 1.001], "float16"), 500)
    found = eo.segment_prod(one(x), np.zeros(1000, "int64"), 1)
    np.testing.assert_allclose(found.numpy(), np.prod(x.astype("float64"), keepdims=True), rtol=2**-10)


def test_sums_of_weights_are_double_as_numpys():
    x, ones = one(X), np.ones(17_500_000, "float32")
    np.testing.assert_allclose(np.bincount(PLACES, weights=x).numpy(), np.bincount(PLACES, X), rtol=2**-10)
    places = np.zeros(ones.size, "int64")
    assert np.bincount(places, weights=eo.asarray(ones)).tolist() == np.bincount(places, ones).tolist()
    assert eo.segment_mean(ones, places, 1).tolist() == [1.0]
    for f in (eo.histogram, lambda x, *o, **k: eo.histogramdd([x], *o, **k)):
        np.testing.assert_allclose(f(x, 1, weights=x)[0].numpy(), [EXACT.sum()], rtol=2**-10)
        slope = eo.grad(lambda w, f=f: f(x, 1, weights=w)[0][0])(x)
        np.testing.assert_array_equal(slope.numpy(), np.ones(N))
