"""Checks of values: a compiled function raises what eager code raises, at each call that brings such."""

import numpy as np
import pytest

import everyo as eo
from everyo.ops import known
from tests.compiling import agree, same

X = eo.asarray(np.arange(5.0))
ZEROS = eo.zeros(5, dtype="float64")
LOGITS = eo.asarray(np.array([[1.0, 2.0, 5.0], [0.0, 1.0, 0.0]]))
F = eo.nn.functional


def number(value, dtype="float64"):
    return eo.asarray(np.array(value, dtype))


def seeded(f, args):
    eo.manual_seed(0)
    return f(*args)


def told(error):
    """Return what an error says, without the line that it names."""
    return str(error).partition("\n  at:")[0]


def weighted(x, w):
    return eo.quantile(x, 0.5, weights=w, method="inverted_cdf")


def four(first, last):
    return eo.geomspace(first, last, 4)


def bernoulli(p):
    return eo.random.bernoulli(p, size=2)


CASES = {
    "quantile": (eo.quantile, (X, number(0.5)), (X, number(1.5))),
    "quantiles": (eo.quantile, (X, number([0.5, 0.1])), (X, number([0.5, -0.1]))),
    "NaN": (eo.quantile, (X, number(0.5)), (X, number(np.nan))),
    "integers": (lambda x, q: eo.quantile(x, q, method="lower"), (number([1, 2], int), number(0.5)),
                 (number([1, 2], int), number(2.0))),
    "percentile": (eo.percentile, (X, number(50.0)), (X, number(101.0))),
    "nanquantile": (eo.nanquantile, (X, number(0.5)), (X, number(1.5))),
    "nanpercentile": (eo.nanpercentile, (X, number(50.0)), (X, number(-1.0))),
    "negative weights": (weighted, (X, X), (X, X - 1)),
    "no weights": (weighted, (X, X), (X, ZEROS)),
    "average": (lambda x, w: eo.average(x, weights=w), (X, X), (X, ZEROS)),
    "counts": (lambda x, n: eo.cov(x, fweights=n), (X, number([1, 2, 1, 1, 1], int)),
               (X, number([1, -2, 1, 1, 1], int))),
    "nanargmax": (eo.nanargmax, (X,), (X * np.nan,)),
    "nanargmin": (lambda x: eo.nanargmin(x, axis=1), (X[None],), (X[None] * np.nan,)),
    "choose": (lambda i, x: eo.choose(i, [x, x]), (number([1, 0], int), X[:2]),
               (number([-1, 0], int), X[:2])),
    "geomspace from 0": (four, (number(1.0), number(8.0)), (number(0.0), number(8.0))),
    "geomspace to 0": (four, (number(1.0), number(8.0)), (number(1.0), number(0.0))),
    "geomspace across 0": (four, (number([1.0, 2.0]), number(8.0)),
                           (number([1.0, -2.0]), number(8.0))),
    "complex geomspace": (four, (number(1j, complex), number(-1.0, complex)),
                          (number(1j, complex), number(0.0, complex))),
    "bernoulli": (bernoulli, (number([0.0, 1.0]),), (number([0.0, 1.5]),)),
    "bernoulli of NaN": (bernoulli, (number(1.0),), (number(np.nan),)),
    "bernoulli of a number": (bernoulli, (1.0,), (-0.5,)),
    "normal": (lambda s: eo.random.normal(0.0, s, size=3), (2.0,), (-2.0,)),
    "exponential": (lambda s: eo.random.exponential(s, size=3), (2.0,), (-2.0,)),
    "embedding": (F.embedding, (number([1, 0], int), X[:, None]), (number([1, -1], int), X[:, None])),
    "embedding above": (F.embedding, (number([1, 0], "int8"), X[:, None]),
                        (number([1, 5], "int8"), X[:, None])),
    "edges": (lambda x: eo.histogram_bin_edges(x, bins=2), (X,), (X * np.nan,)),
    "infinite edges": (lambda x: eo.histogram_bin_edges(x, bins=2), (X,), (X + np.inf,)),
    "order of edges": (lambda x, e: eo.histogram_bin_edges(x, bins=e), (X, X), (X, -X)),
    "NaN in edges": (lambda x, e: eo.histogramdd(x[:, None], bins=[e])[0], (X, X), (X, X * np.nan)),
    "histogram2d": (lambda x, y: eo.histogram2d(x, y, bins=2)[0], (X, X), (X, X * np.nan)),
    "histogramdd": (lambda x: eo.histogramdd(x[:, None], bins=2)[0], (X,), (X * np.nan,)),
    "holomorphic": (lambda z, w: eo.jacrev(lambda z: z * z + w * z.conj(), holomorphic=True)(z),
                    (number([1 + 2j], complex), number(0j, complex)),
                    (number([1 + 2j], complex), number(1j, complex))),
    "holomorphic forward": (lambda z, w: eo.jacfwd(lambda z: z * z + w * abs(z), holomorphic=True)(z),
                            (number([1 + 2j], complex), number(0j, complex)),
                            (number([1 + 2j], complex), number(1j, complex))),
    "cross_entropy": (F.cross_entropy, (LOGITS, number([1, -100], int)), (LOGITS, number([1, -1], int))),
    "nll_loss": (F.nll_loss, (LOGITS, number([1, 2], "uint8")), (LOGITS, number([1, 3], "uint8"))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_are_checked_at_each_call(name):
    f, good, bad = CASES[name]
    compiled = eo.compile(f)
    agree(seeded(compiled, good), seeded(f, good))
    with pytest.raises(eo.EveryOError) as wanted:
        f(*bad)
    with pytest.raises(type(wanted.value)) as found:
        compiled(*bad)
    assert told(found.value) == told(wanted.value)
    agree(seeded(compiled, good), seeded(f, good))
    assert compiled.cache_info().misses == 1


def test_values_are_checked_where_they_are_differentiated():
    f = eo.compile(lambda q: eo.quantile(X, q))
    for g in (eo.grad(f), eo.compile(eo.grad(f)), lambda q: eo.jvp(f, (q,), (q,))[1]):
        assert g(number(0.3)).item() in (4.0, pytest.approx(1.2))
        with pytest.raises(eo.ArgumentError, match="probability is outside"):
            g(number(1.3))
    with pytest.raises(eo.ArgumentError, match="no common ratio"):
        eo.grad(lambda a: eo.geomspace(a, 1.0, 3).sum())(number(0.0))


def test_values_are_checked_in_loops_and_branches():
    def f(q):
        return eo.scan(lambda c, q: (c + eo.quantile(X, q), c), number(0.0), q)[0]

    compiled = eo.compile(f)
    agree(compiled(number([0.1, 0.2])), f(number([0.1, 0.2])))
    with pytest.raises(eo.ArgumentError, match="probability is outside"):
        compiled(number([0.1, 1.2]))

    @eo.compile
    def g(q):
        return eo.cond(q <= 1, lambda q: eo.quantile(X, q), lambda q: q, q)

    assert g(number(1.5)).item() == 1.5
    assert g(number(1.0)).item() == 4.0


def test_values_of_a_batch_are_not_asked_for():
    q = number([0.5, 1.5])
    for f in (eo.vmap(lambda q: eo.quantile(X, q)), eo.compile(eo.vmap(lambda q: eo.quantile(X, q)))):
        assert f(q)[0].item() == 2.0


def test_only_one_number_fills():
    vector = number([1.0, 2.0, 3.0])
    for f in (lambda v: eo.full((2, 3), v), lambda v: eo.full_like(v, v), lambda v: eo.full((2, 3), v * 1)):
        for g in (f, eo.compile(f), eo.grad(lambda v, f=f: f(v).sum())):
            with pytest.raises(eo.ShapeError, match="must be one number"):
                g(vector)


def test_roots_of_a_polynomial_whose_first_coefficient_is_zero():
    f = eo.compile(eo.roots)
    agree(f(number([1.0, -3.0, 2.0])), eo.roots(number([1.0, -3.0, 2.0])))
    with pytest.raises(eo.CompileError, match="the first coefficient is 0"):
        f(number([0.0, 1.0, -3.0]))
    for p in ([0.0, 1.0, 2.0], [1.0, -3.0, 2.0], [0.0, 0.0, 5.0]):  # constants are known
        same(lambda x, p=p: eo.roots(p) * x[0], number([2.0, 1.0]))
        same(lambda x, p=p: eo.roots(eo.tensor(p) * 2) * x[0], number([2.0, 1.0]))
    with (
        pytest.warns(RuntimeWarning),
        pytest.raises(eo.LinAlgError, match="the first of each polynomial"),
    ):
        eo.vmap(eo.roots)(number([[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]))


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("value", [5, 5.0, number(5.0), number([5.0, 6.0]), number([[5.0, 6.0]])], ids=repr)
@pytest.mark.parametrize("shape", [(), (2,), (3, 2)])
def test_a_mask_without_axes(shape, value, held):
    def f(x, mask, value):
        x = eo.clone(x)
        x[mask] = value
        return x

    x, mask = eo.ones(shape, dtype="float64"), number(held, bool)
    if len(shape) < getattr(value, "ndim", 0) and shape != (2,):
        with pytest.raises(eo.EveryOError):
            eo.compile(f)(x, mask, value)
        return
    agree(eo.compile(f)(x, mask, value), f(x, mask, value))
    agree(eo.vmap(lambda m: f(x, m, value))(mask[None])[0], f(x, mask, value))
    slope = eo.grad(lambda x: (f(x, mask, value) ** 2).sum())
    agree(eo.compile(slope)(x), slope(x))


def test_unsigned_indices_wrap_around_as_in_numpy():
    def write(x, i):
        x = eo.clone(x)
        x[i] = 9.0
        return x

    reads = [lambda x, i: x[i], eo.take, lambda x, i: eo.take_along_axis(x, i, axis=0), write]
    for f in reads:
        for i in ([1], [2**64 - 1, 3], [2**64 - 5]):
            agree(eo.compile(f)(X, number(i, np.uint64)), f(X, number(i, np.uint64)))
        for i in ([2**63], [2**64 - 6], [5]):
            for g in (f, eo.compile(f)):
                with pytest.raises(eo.IndexingError):
                    g(X, number(i, np.uint64))


def looped(q):
    return eo.fori_loop(0, 2, lambda i, c: c + eo.quantile(X, q) * c, q)


def until(q):
    return eo.while_loop(lambda s: s < 1, lambda s: s + eo.quantile(X, s) + eo.quantile(X, q), q * 1)


def branched(q):
    return eo.cond(q < 2, lambda q: eo.quantile(X, q) ** 2, lambda q: q, q)


def weighing(w):
    x = eo.stack([w, w * w])
    return eo.fori_loop(0, 2, lambda i, c: c + eo.average(x * x, weights=x) * c, w)


def progressing(a):
    return eo.scan(lambda c, s: (c * eo.geomspace(a, s, 3)[1], c), a, eo.stack([a * a, a + 1]))[0]


DERIVATIVES = {
    "grad": eo.grad,
    "jvp": lambda f: lambda q: eo.jvp(f, (q,), (q,))[1],
    "both": eo.value_and_grad,
    "hessian": eo.hessian,
    "third": lambda f: eo.grad(eo.grad(eo.grad(f))),
}


@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize(
    ("f", "good", "bad"),
    [
        (looped, 0.3, 1.3),
        (until, 0.3, -0.3),
        (branched, 0.3, 1.3),
        (weighing, 0.3, 0.0),
        (progressing, 0.3, 0.0),
    ],
)
def test_checks_in_loops_and_branches_take_no_part_in_derivatives(f, good, bad, derivative):
    g = DERIVATIVES[derivative](f)
    wanted = g(number(good))
    for compiled in (eo.compile(g), DERIVATIVES[derivative](eo.compile(f))):
        found = compiled(number(good))
        for a, b in zip(*([x] if isinstance(x, eo.Tensor) else x for x in (found, wanted)), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)
        with pytest.raises(eo.ArgumentError):
            compiled(number(bad))
    with pytest.raises(eo.ArgumentError):
        g(number(bad))


def test_checks_are_not_made_again_where_derivatives_compute_values_again():
    seen = []

    def f(q):
        def body(i, c):
            known.look(lambda a: seen.append(float(a)), c)
            return c * c

        return eo.fori_loop(0, 2, body, q)

    def g(q):
        def body(c):
            known.look(lambda a: seen.append(float(a)), c)
            return c + c * c

        return eo.while_loop(lambda c: c < 1, body, q)

    def h(q):
        def branch(q):
            known.look(lambda a: seen.append(float(a)), q)
            return q * q

        return eo.cond(q < 1, branch, lambda q: q, q)

    for function, points in ((f, [0.5, 0.25]), (g, [0.5, 0.75]), (h, [0.5])):
        for derivative in (eo.grad, eo.hessian, lambda f: lambda q: eo.jvp(f, (q,), (q,))[1]):
            seen.clear()
            eo.compile(derivative(function))(number(0.5))
            assert seen == points


def test_loops_of_a_batch_are_not_asked_about_examples_that_have_ended():
    def f(t):
        return eo.while_loop(lambda s: s < 1, lambda s: s + eo.quantile(X, s), t)

    def captured(t):
        return eo.while_loop(lambda s: s < 1, lambda s: s + eo.quantile(X, t), t)

    t = number([0.2, 3.0])
    for g in (f, eo.grad(f), lambda t: eo.jvp(f, (t,), (t,))[1], eo.compile(f), eo.grad(eo.compile(f))):
        h = eo.vmap(g)
        agree(eo.compile(h)(t), h(t))
    for g in (f, captured):
        agree(eo.vmap(eo.compile(g))(t), eo.vmap(g)(t))
        agree(eo.vmap(eo.grad(eo.compile(g)))(t), eo.vmap(eo.grad(g))(t))


def classified(reduction, smoothing, weight, ignored):
    def loss(x, t):
        o = {"weight": weight, "reduction": reduction, "ignore_index": ignored}
        return F.cross_entropy(x, t, label_smoothing=smoothing, **o).sum() + F.nll_loss(x, t, **o).sum()

    return loss


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weight", [None, X[:3] + 1])
@pytest.mark.parametrize("ignored", [-100, -1, 0, 2, 200])
def test_targets_that_are_ignored_count_for_nothing(reduction, smoothing, weight, ignored):
    f = classified(reduction, smoothing, weight, ignored)
    targets = [number(t, int) for t in ([1, ignored], [1, 2], [ignored, ignored])]
    for g in (f, eo.grad(f)):
        compiled = eo.compile(g)
        for t in targets:
            np.testing.assert_allclose(compiled(LOGITS, t).numpy(), g(LOGITS, t).numpy(), atol=1e-14)
        assert compiled.cache_info().misses == 1
        for t in ([1, 3], [-2, 1]):
            with pytest.raises(eo.IndexingError, match="is no class"):
                compiled(LOGITS, number(t, int))


def test_targets_that_are_ignored_in_loops_and_batches():
    loss = classified("mean", 0.0, None, -1)
    x, t = eo.stack([LOGITS, LOGITS + X[:3]]), number([[1, -1], [2, 0]], int)

    def looped(x, t):
        return eo.scan(lambda c, xt: (c + loss(*xt), c), number(0.0), (x, t))[0]

    module = eo.nn.CrossEntropyLoss(ignore_index=-1)
    for f in (
        eo.vmap(loss),
        looped,
        eo.vmap(eo.grad(loss)),
        eo.grad(looped),
        eo.vmap(module),
        eo.hessian(looped),
    ):
        np.testing.assert_allclose(eo.compile(f)(x, t).numpy(), f(x, t).numpy(), atol=1e-14)
    for bad in (-2, 3):
        for f in (eo.vmap(loss), looped, eo.vmap(eo.grad(loss)), eo.grad(looped)):
            for g in (f, eo.compile(f)):
                with pytest.raises(eo.IndexingError):
                    g(x, number([[1, -1], [2, bad]], int))


def test_negative_rows_of_a_table_are_refused_in_a_batch():
    for f in (F.embedding, lambda i, w: eo.grad(lambda w: F.embedding(i, w).sum())(w)):
        g = eo.compile(eo.vmap(f, in_axes=(0, None)))
        agree(
            g(number([[1], [4]], "int8"), X[:, None]),
            eo.vmap(f, in_axes=(0, None))(number([[1], [4]], "int8"), X[:, None]),
        )
        with pytest.raises(eo.IndexingError):
            g(number([[1], [-1]], "int8"), X[:, None])


def test_an_unsigned_number_does_not_wrap_around():
    def write(x, i):
        x = eo.clone(x)
        x[i] = 9.0
        return x

    reads = [lambda x, i: x[i], lambda x, i: x[None][:, i], eo.take, write]
    reads += [lambda x, i, f=f: eo.grad(lambda x: (f(x, i) ** 2).sum())(x) for f in reads]
    for f in reads:
        compiled = eo.compile(f)
        for i in (0, 4):
            agree(compiled(X, number(i, np.uint64)), f(X, number(i, np.uint64)))
        for i in (2**64 - 1, 2**63, 5):
            for g in (f, compiled):
                with pytest.raises(eo.IndexingError):
                    g(X, number(i, np.uint64))
            with pytest.raises(eo.IndexingError):
                eo.compile(lambda x, f=f, i=i: f(x, number(i, np.uint64)))(X)


def test_a_truth_value_that_is_a_constant_indexes():
    for held in (True, False):

        def f(x, held=held):
            return x[eo.tensor(held)]

        agree(eo.compile(f)(X), f(X))
    with pytest.raises(eo.CompileError, match="bool"):
        eo.compile(lambda x, mask: x[mask])(X, number(True, bool))


@pytest.mark.parametrize(
    "f",
    [
        lambda x, k: eo.linalg.norm(x, ord=k),
        lambda x, k: eo.linalg.norm(x[None], ord=k),
        lambda x, k: eo.linalg.norm(x[None, None], ord=k, axis=(0, 1)),
        lambda x, k: eo.linalg.vector_norm(x, ord=k),
        lambda x, k: eo.linalg.matrix_norm(x[None], ord=k),
        lambda x, k: eo.cdist(x[None], x[None], p=k),
        lambda x, k: eo.pdist(x[:, None], p=k),
        lambda x, k: eo.renorm(x[None], k, 0, 1.0),
    ],
)
def test_the_order_of_a_norm_is_static(f):
    with pytest.raises(eo.CompileError, match="static_argnums"):
        eo.compile(f)(X, 1)
    agree(eo.compile(f, static_argnums=1)(X, 1), f(X, 1))
