"""Which way loops go: reductions along memory, short products where they are read, vectors within a turn.

The numbers are small integers, whose sums are exact in any order.
"""

import numpy as np
import pytest

import everyo as eo


def integers(*shape, low=-3, seed=0):
    return np.random.default_rng(seed).integers(low, 4, shape).astype(np.float64)


def compiled(f, *arrays):
    return eo.compile(f)(*map(eo.asarray, arrays)).numpy()


def shown(f, *arrays):
    return eo.compile.inspect(f)(*map(eo.asarray, arrays))


# ---- reductions


def turned(f, *arrays):
    """Return the reductions of a graph before and after they are put in order, as their results' types."""
    graphs = shown(f, *arrays).graphs
    return [
        [line.split(": ")[1].split(" = ")[0] for line in graphs[name].splitlines() if " = reduce(" in line]
        for name in ("products behind loops", "axes in order")
    ]


REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min}


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, 1, 2, 3, (1, 2), (0, 3)])
def test_a_reduction_goes_along_what_it_reads(kind, axis):
    a, w = integers(2, 5, 3, 40), integers(40, 5, seed=1)

    def f(a, w):
        terms = eo.transpose(a, (0, 3, 1, 2)) * eo.expand_dims(w, 2) + 1
        return getattr(eo, kind)(terms, axis=axis)

    expected = REDUCTIONS[kind](a.transpose(0, 3, 1, 2) * w[:, :, None] + 1, axis=axis)
    np.testing.assert_array_equal(compiled(f, a, w), expected)
    before, after = turned(f, a, w)
    kept = [n for i, n in enumerate((2, 40, 5, 3)) if i not in (axis if isinstance(axis, tuple) else (axis,))]
    if 40 in kept:
        kept = [n for n in kept if n != 40] + [40]
    assert after == [f"f64[{','.join(map(str, kept))}]"]
    assert len(before) == 1


def test_terms_of_terms_are_turned_too():
    a, w = integers(6, 3, 30), integers(30, seed=1)

    def f(a, w):
        return eo.sum(eo.abs(eo.expand_dims(w, 1) * eo.transpose(a, (0, 2, 1))) - 2, axis=0)

    np.testing.assert_array_equal(
        compiled(f, a, w), (np.abs(w[:, None] * a.transpose(0, 2, 1)) - 2).sum(axis=0)
    )
    assert turned(f, a, w) == [["f64[30,3]"], ["f64[3,30]"]]


@pytest.mark.parametrize(
    "f",
    [
        lambda a, c: eo.sum(eo.transpose(a, (0, 2, 1)) * c, axis=0),  # c lies in the other order
        lambda a, c: eo.sum(a * eo.transpose(c, (0, 2, 1)), axis=0),  # the long axis is the last already
        lambda a, c: (eo.sum(2 * eo.transpose(a, (0, 2, 1)), axis=0) + c)[:1],
        lambda a, c: eo.concat([eo.sum(eo.transpose(a, (0, 2, 1)), axis=0), c[0]]),
    ],
    ids=["two orders", "in order", "read behind", "alone"],
)
def test_reductions_agree_with_eager_ones(f):
    a, c = integers(6, 3, 30), integers(6, 30, 3, seed=1)
    np.testing.assert_array_equal(compiled(f, a, c), f(eo.asarray(a), eo.asarray(c)).numpy())


def test_two_orders_stay():
    a, c = integers(6, 3, 30), integers(6, 30, 3, seed=1)
    found = turned(lambda a, c: eo.sum(eo.transpose(a, (0, 2, 1)) * c, axis=0), a, c)
    assert found == [["f64[30,3]"], ["f64[30,3]"]]


def test_terms_that_somebody_else_reads_stay():
    a, w = integers(6, 3, 30), integers(30, seed=1)

    def f(a, w):
        terms = eo.expand_dims(w, 1) * eo.transpose(a, (0, 2, 1))
        return eo.concat([eo.sum(terms, axis=0), terms[0]])

    terms = w[:, None] * a.transpose(0, 2, 1)
    np.testing.assert_array_equal(compiled(f, a, w), np.concatenate([terms.sum(axis=0), terms[0]]))
    assert turned(f, a, w) == [["f64[30,3]"], ["f64[30,3]"]]


def skinned(a, w):
    """Return the sum over b of a (p, b, i, v) by w (v, b), of shape (p, v, i)."""
    return eo.sum(eo.transpose(a, (0, 3, 1, 2)) * eo.expand_dims(w, 2), axis=2)


@pytest.mark.parametrize(("batch", "copies"), [(3, 1), (2, 0)])
def test_what_is_read_often_is_laid_out_for_its_readers(batch, copies):
    a, w = integers(batch, 5, 3, 40), integers(40, 5, seed=1)
    np.testing.assert_array_equal(compiled(skinned, a, w), np.einsum("pbiv,vb->pvi", a, w))
    assert shown(skinned, a, w).graphs["axes in order"].count("fn='cast'") == copies


def test_large_rows_are_reduced_without_being_kept():
    a, w = integers(5, 30, 3, 400), integers(400, 30, seed=1)
    np.testing.assert_array_equal(compiled(skinned, a, w), np.einsum("pbiv,vb->pvi", a, w))
    kernels = shown(skinned, a, w).kernels
    assert "multiply, stored" not in kernels
    assert "multiply, kept" not in kernels


# ---- products


def test_a_factor_by_columns_is_laid_out_by_rows():
    a, b = integers(50, 3), integers(40, 3, seed=1)
    np.testing.assert_array_equal(compiled(lambda a, b: a @ b.T, a, b), a @ b.T)
    for rows, copies in ((50, 1), (8, 1), (7, 0)):
        found = shown(lambda a, b: a @ b.T, a[:rows], b).graphs["axes in order"]
        assert found.count("fn='cast'") == copies


def posed(t, p, w):
    """Return a sum of products of a short product, seen in another shape."""
    by_bone = eo.reshape(eo.reshape(t, (-1, t.shape[-1])) @ p.T, (*t.shape[:-1], len(p)))
    return eo.sum(by_bone * eo.expand_dims(w, 1), axis=1)


@pytest.mark.parametrize(("terms", "dots"), [(2, 0), (3, 0), (4, 0), (5, 1)])
def test_a_short_product_is_computed_where_it_is_read(terms, dots):
    t, p, w = integers(5, 6, 3, terms), integers(40, terms, seed=1), integers(6, 40, seed=2)
    expected = np.einsum("pbik,vk,bv->piv", t, p, w)
    np.testing.assert_array_equal(compiled(posed, t, p, w), expected)
    assert shown(posed, t, p, w).kernels.count("= dot") == dots


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
def test_short_products_of_other_dtypes(dtype):
    t, p, w = (
        x.astype(dtype) for x in (integers(5, 6, 3, 3), integers(40, 3, seed=1), integers(6, 40, seed=2))
    )
    np.testing.assert_array_equal(compiled(posed, t, p, w), np.einsum("pbik,vk,bv->piv", t, p, w))
    assert shown(posed, t, p, w).kernels.count("= dot") == (dtype != "float32")


def test_a_short_product_with_two_readers_stays():
    t, p, w = integers(5, 6, 3, 4), integers(40, 4, seed=1), integers(6, 40, seed=2)

    def f(t, p, w):
        flat = eo.reshape(t, (-1, 4)) @ p.T
        return eo.sum(eo.reshape(flat, (5, 6, 3, 40)) * eo.expand_dims(w, 1), axis=1), flat

    found = eo.compile(f)(*map(eo.asarray, (t, p, w)))
    flat = t.reshape(-1, 4) @ p.T
    np.testing.assert_array_equal(found[0].numpy(), np.einsum("pbik,vk,bv->piv", t, p, w))
    np.testing.assert_array_equal(found[1].numpy(), flat)
    assert "fn='add'" not in shown(f, t, p, w).graphs["short products spelled out"]


def test_a_product_whose_rows_are_cut_stays():
    t, p = integers(6, 3), integers(40, 3, seed=1)

    def f(t, p):
        return eo.abs(eo.reshape(t @ p.T, (6, 2, 20)))

    np.testing.assert_array_equal(compiled(f, t, p), np.abs((t @ p.T).reshape(6, 2, 20)))
    assert shown(f, t, p).kernels.count("= dot") == 1


@pytest.mark.parametrize(
    ("rows", "thin", "wide", "dots"),
    [
        (600, 3, 20, 0),
        (600, 16, 16, 0),
        (512, 1, 16, 0),
        (511, 3, 20, 1),  # BLAS is as fast where there are few rows,
        (600, 17, 20, 1),  # or many columns,
        (600, 16, 257, 1),  # or a large sum
        (600, 3, 15, 1),
    ],
)
def test_tall_products_are_sums_over_rows(rows, thin, wide, dots):
    a, b = integers(rows, thin), integers(rows, wide, seed=1)

    def f(a, b):
        return a.T @ b, b.T @ a

    found = eo.compile(f)(eo.asarray(a), eo.asarray(b))
    np.testing.assert_array_equal(found[0].numpy(), a.T @ b)
    np.testing.assert_array_equal(found[1].numpy(), b.T @ a)
    assert shown(f, a, b).kernels.count("= dot") == (2 * dots if thin > 1 else 0)


def test_the_terms_of_a_tall_product_need_no_memory():
    a, b = integers(600, 3), integers(600, 20, seed=1)

    def f(a, b):
        return eo.abs(b).T @ (2 * a)

    np.testing.assert_array_equal(compiled(f, a, b), np.abs(b).T @ (2 * a))
    assert "[600" not in shown(f, a, b).memory


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_tall_products_on_threads(threads):
    a, b = np.random.default_rng(0).normal(size=(2, 40_000, 16))
    one = eo.compile(lambda a, b: a.T @ b, threads=1)(eo.asarray(a), eo.asarray(b))
    found = eo.compile(lambda a, b: a.T @ b, threads=threads)(eo.asarray(a), eo.asarray(b))
    np.testing.assert_array_equal(found.numpy(), one.numpy())
    np.testing.assert_allclose(found.numpy(), a.T @ b, rtol=1e-10, atol=1e-10)


# ---- vectors

APART = "!llvm.loop !19"  # the hint that says so


SPREAD = {
    "a sum over rows": (
        lambda x: eo.sum(x, axis=1),
        (5, 1000, 10),
        True,
    ),  # lanes would lie ten elements apart
    "rows scaled": (lambda x: x * eo.sum(x, axis=1, keepdims=True), (1000, 10), True),
    "near enough": (lambda x: eo.sum(x, axis=1), (1000, 8), False),
    "much is computed": (lambda x: eo.sum(eo.exp(x), axis=1), (1000, 10), False),
    "as much lies together": (lambda x: x[:, 0] + 1, (1000, 10), False),
    "in order": (lambda x: x + 1, (1000, 10), False),
    "backwards": (lambda x: eo.flip(x, axis=0), (1000,), False),
}


@pytest.mark.parametrize(("f", "shape", "apart"), SPREAD.values(), ids=SPREAD.keys())
def test_turns_far_apart_are_no_lanes(f, shape, apart):
    x = integers(*shape)
    found = f(eo.asarray(x)).numpy()
    np.testing.assert_allclose(compiled(f, x), found, rtol=1e-14)
    assert (APART in shown(f, x).llvm) is apart


# ---- views of repeated values


@pytest.mark.parametrize("shape", [(3, 1, 4), (1, 3, 4, 1), (3, 4), (1, 1, 3, 4)])
@pytest.mark.parametrize("given", [(4,), (3, 1), (1, 4), (3, 4), ()])
def test_axes_of_one_of_a_repeated_value(given, shape):
    x = integers(*given)

    def f(x):
        return eo.reshape(eo.broadcast_to(eo.expand_dims(x, 0), (1, 3, 4)), shape) + 1

    np.testing.assert_array_equal(compiled(f, x), np.broadcast_to(x, (3, 4)).reshape(shape) + 1)


@pytest.mark.parametrize("shape", [(12,), (2, 6), (4, 3), (3, 2, 2), (1, 12)])
def test_joined_axes_of_a_repeated_value(shape):
    x = integers(4)
    found = compiled(lambda x: eo.reshape(eo.broadcast_to(x, (3, 4)), shape) + 1, x)
    np.testing.assert_array_equal(found, np.broadcast_to(x, (3, 4)).reshape(shape) + 1)
