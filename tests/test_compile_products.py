"""Products of matrices in compiled code: what BLAS scales and adds up, and what follows panel by panel."""

import re

import numpy as np
import pytest

import everyo as eo
from everyo.compiler import tiling
from everyo.compiler.codegen import packing
from everyo.compiler.machine import Vectors, vectors
from tests.compiling import agree, array, arrays_of, same, tensor

A, B, C, D = tensor(40, 50), tensor(50, 60, seed=1), tensor(40, 30, seed=2), tensor(30, 60, seed=3)
E, W, BIAS = tensor(40, 60, seed=4), tensor(60, 60, seed=6), tensor(60, seed=5)


def products(f, *args):
    """Return the products of the compiled function: how many operands, and the factor."""
    text = eo.compile.inspect(f)(*args).graphs["products accumulated"]
    found = re.findall(r" = dot\((.*?)\)(?: \{alpha=(.*?)\})?$", text, re.MULTILINE)
    return [(operands.count("%"), float(alpha or 1)) for operands, alpha in found]


ACCUMULATED = {
    "two": (lambda: eo.tanh(A @ B + C @ D), [(2, 1), (3, 1)]),
    "three": (lambda: eo.tanh(A @ B + C @ D + E @ W), [(2, 1), (3, 1), (3, 1)]),
    "a difference": (lambda: eo.tanh(A @ B - C @ D), [(2, 1), (3, -1)]),
    "a factor": (lambda: eo.tanh(0.5 * (A @ B)), [(2, 0.5)]),
    "factors": (lambda: 2 * (A @ B) * 3 - 0.25 * (C @ D), [(2, 6), (3, -0.25)]),
    "to what is given": (lambda: A @ B + E, [(3, 1)]),
    "from what is given": (lambda: E - 2 * (A @ B), [(3, -2)]),
    "to a row": (lambda: A @ B + BIAS, [(3, 1)]),
    "into a factor": (lambda: (eo.sin(E) + A @ B) @ eo.ones((60, 7)), [(3, 1), (2, 1)]),
    "of transposes": (lambda: eo.exp(B.T @ A.T + D.T @ C.T), [(2, 1), (3, 1)]),
    "a factor of a sum": (lambda: 2 * (A @ B + C @ D), [(2, 1), (3, 1)]),
    "a sum on the right": (lambda: eo.tanh(E @ W + (A @ B + C @ D)), [(2, 1), (3, 1), (3, 1)]),
    "in a join": (lambda: eo.concat([A @ B + C @ D, E], axis=0), [(2, 1), (3, 1)]),
}  # fmt: skip

APART = {
    "a difference from one": (lambda: A @ B - E, [(2, 1)]),
    "a negative": (lambda: -(A @ B), [(2, 1)]),
    "a negative factor": (lambda: -2 * (A @ B), [(2, 1)]),
    "no factor": (lambda: 0.0 * (A @ B), [(2, 1)]),
    "an infinite factor": (lambda: float("inf") * (A @ B), [(2, 1)]),
    "a tiny factor": (lambda: 1e-310 * (A @ B), [(2, 1)]),
    "a factor that is computed": (lambda: BIAS[0] * (A @ B), [(2, 1)]),
    "what a loop computes": (lambda: eo.tanh(A @ B + E), [(2, 1)]),
    "a product twice": (lambda: (lambda p: (p + E, p * 2))(A @ B), [(2, 1)]),
    "a product that is a result": (lambda: (lambda p: (p, eo.exp(p + C @ D)))(A @ B), [(2, 1), (2, 1)]),
    "twice the same": (lambda: (lambda p: p + p)(A @ B), [(2, 1)]),
}  # fmt: skip


@pytest.mark.parametrize("name", [*ACCUMULATED, *APART])
def test_sums_and_factors(name):
    f, wanted = {**ACCUMULATED, **APART}[name]
    assert products(f) == wanted
    same(f)


def test_a_sum_of_products_is_one_place_in_memory():
    found = eo.compile.inspect(lambda: eo.tanh(A @ B + C @ D + E @ W))()
    assert found.memory.splitlines()[0] == f"{40 * 60 * 8} bytes"


def test_what_is_added_to_stays_where_others_read_it():
    given = np.array(E.numpy())

    def f():
        once = eo.sin(E)
        return once + A @ B, once * 2

    same(f)
    assert products(f) == [(3, 1)]
    same(lambda: (A @ B + C @ D) + eo.sort(E, axis=0))
    same(lambda: (lambda p: p + p @ eo.ones((60, 60)))(A @ B))
    np.testing.assert_array_equal(E.numpy(), given)


def test_a_loop_makes_what_is_added_to():
    def f():
        total = eo.scan(lambda c, row: (c + row, c[0, 0]), E, eo.stack([E, 2 * E]))[0]
        return total + A @ B

    same(f)
    assert products(f) == [(3, 1)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_products_in_a_loop_and_their_derivatives(dtype):
    w, u = array(20, 90).astype(dtype), array(90, 90, seed=1).astype(dtype)
    x = array(4, 30, 20, seed=2).astype(dtype)

    def f(w, u):
        def step(h, row):
            return eo.tanh(row @ w + h @ u), None

        return eo.scan(step, eo.zeros((30, 90), dtype=dtype), eo.asarray(x))[0].sum()

    def plain(w, u):
        h = np.zeros((30, 90))
        for row in x.astype(np.float64):
            h = np.tanh(row @ w + h @ u)
        return h.sum()

    found = eo.compile(f)(eo.asarray(w), eo.asarray(u))
    np.testing.assert_allclose(found.item(), plain(w, u), 2e-4 if dtype == np.float32 else 1e-12)
    assert products(f, eo.asarray(w), eo.asarray(u)) == [(2, 1), (3, 1)]
    gradient = eo.grad(f, (0, 1))
    agree(
        eo.compile(gradient)(eo.asarray(w), eo.asarray(u)), gradient(eo.asarray(w), eo.asarray(u)), tol=1e-4
    )


def test_small_products_stay_as_they_are():
    def f():
        return 2 * (A @ B[:, :3]) + A[:, :3] @ B[:3, :3], 3 * (A[:5, :5] @ B[:5, :5])

    assert products(f) == [(2, 1), (3, 2), (2, 1)]
    same(f)


def test_batches_of_products():
    a, b, c = tensor(3, 80, 70), tensor(3, 70, 900, seed=1), tensor(3, 80, 900, seed=2)
    assert products(lambda a, b, c: c - a @ b, a, b, c) == [(3, -1)]
    same(lambda a, b, c: c - a @ b, a, b, c)
    a, b = tensor(2, 300, 40), tensor(2, 40, 300, seed=1)
    assert blas(lambda a, b: a @ b, a, b) == 1
    same(lambda a, b: a @ b, a, b)
    q, d = tensor(6, 20, 30), tensor(6, 20, 20)
    assert products(lambda q: d + q @ eo.swapaxes(q, 1, 2), q) == [(2, 1)]  # in the loop that adds
    same(lambda q: d + q @ eo.swapaxes(q, 1, 2), q)
    assert products(lambda q: eo.softmax(0.25 * (q @ eo.swapaxes(q, 1, 2)), axis=-1), q) == [(2, 0.25)]
    same(lambda q: eo.softmax(0.25 * (q @ eo.swapaxes(q, 1, 2)), axis=-1), q)


SPECIAL = np.zeros((20, 20))
SPECIAL[0, 0], SPECIAL[1, 1], SPECIAL[2, 2], SPECIAL[3, 3] = np.inf, np.nan, -np.inf, 1e308


@pytest.mark.parametrize(
    "f",
    [
        lambda s, one: 0.5 * (s @ one),
        lambda s, one: 0.0 * (s @ one),
        lambda s, one: -1.0 * (s @ one),
        lambda s, one: s @ one + s,
        lambda s, one: s - s @ one,
        lambda s, one: -(one * 0 @ one) + 0.0 * s,
        lambda s, one: (10.0 * (s @ one), -s - (one * 0) @ one),
    ],
)
def test_special_values(f):
    args = eo.asarray(SPECIAL), eo.eye(20)
    with np.errstate(all="ignore"):
        found, wanted = arrays_of(eo.compile(f)(*args)), arrays_of(f(*args))
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)
        sure = ~np.isnan(y)
        np.testing.assert_array_equal(np.signbit(x)[sure], np.signbit(y)[sure])


# ---- tiles


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "n"), [(8, 144), (15, 97), (40, 32), (33, 71)])
def test_tiles_at_the_edges(m, n, dtype):
    k = 500
    a, b, c = (array(*shape, seed=i).astype(dtype) for i, shape in enumerate([(m, k), (k, n), (m, n)]))
    t, u, v, w = (eo.asarray(x) for x in (np.ascontiguousarray(a.T), a, b, c))
    product = a.astype(float) @ b.astype(float)
    for f, wanted in (
        (lambda t, u, v, w: u @ v, product),
        (lambda t, u, v, w: t.T @ v, product),
        (lambda t, u, v, w: w - 0.5 * (u @ v), c - 0.5 * product),
        (lambda t, u, v, w: eo.tanh(0.01 * (u @ v) + 0.02 * (t.T @ v)), np.tanh(0.03 * product)),
        (lambda t, u, v, w: eo.exp(0.01 * (t.T @ v)), np.exp(0.01 * product)),
    ):
        assert eo.compile.inspect(f)(t, u, v, w).llvm.count("gemm(") == 0
        found = eo.compile(f)(t, u, v, w)
        assert found.dtype == dtype
        np.testing.assert_allclose(found.numpy(), wanted, atol=1e-4 if dtype == np.float32 else 1e-12)


def test_rounding_does_not_grow_with_the_terms():
    a, b = np.random.default_rng(0).uniform(size=(2, 64, 8000)).astype(np.float32)
    b = np.ascontiguousarray(b[:32].T)
    found = eo.compile(lambda x, y: x @ y)(eo.asarray(a), eo.asarray(b)).numpy()
    np.testing.assert_allclose(found, a.astype(float) @ b.astype(float), rtol=1e-6)


def blas(f, *args):
    return eo.compile.inspect(f)(*args).llvm.count("call void @everyo_dgemm(")


G, H, HT = tensor(100, 90), tensor(90, 80, seed=1), tensor(80, 90, seed=2)


def test_which_products_are_taken_in_tiles():
    assert blas(lambda: G @ H) == 0
    assert blas(lambda: G[:60] @ tensor(120, 90).T) == 1  # too few rows to pack the second factor for them
    assert blas(lambda: G @ tensor(90, 12000)) == 1  # much more than the caches hold
    assert blas(lambda: tensor(70, 9000) @ tensor(9000, 20)) == 1  # a strip of it is
    assert blas(lambda: A @ B) == 1  # too little
    lanes = vectors().lanes(np.float64)
    n = max(lanes - 1, 2)
    assert blas(lambda: tensor(3000, 200) @ tensor(200, n)) == int(n < lanes)  # less than a vector


def packed(f, *args):
    """Return which factors are packed: how wide the strips are, and whether these are of rows or columns."""
    text = eo.compile.inspect(f)(*args).graphs["factors packed"]
    return [tuple(map(int, found)) for found in re.findall(r"pack\(.*?\) \{axis=(\d), width=(\d+)\}", text)]


def test_which_factors_are_packed():
    wide, rows = 2 * vectors().lanes(np.float64), 8 if vectors().number >= 32 else 4
    assert packed(lambda: G @ H) == []
    assert packed(lambda: G @ HT.T) == [(1, wide)]  # rows of the second factor do not lie side by side
    assert packed(lambda: G @ tensor(90, 1600)) == [(1, wide)]  # more than the cache holds
    assert packed(lambda: tensor(90, 100).T @ H) == [(0, rows)]
    assert packed(lambda: tensor(90, 100).T @ HT.T) == [(1, wide), (0, rows)]
    assert packed(lambda: tensor(500, 100).T @ tensor(500, 40)) == []  # too few columns


OTHER_MACHINES = {"AVX": Vectors(32, 16), "NEON": Vectors(16, 32), "SSE": Vectors(16, 16)}


@pytest.mark.parametrize(
    ("dtype", "machine"),
    [
        (np.float32, "this"),
        (np.float64, "this"),
        (np.float64, "AVX"),
        (np.float32, "NEON"),
        (np.float64, "SSE"),
    ],
)
@pytest.mark.parametrize(("m", "k", "n"), [(101, 67, 99), (513, 5, 400), (97, 700, 75)])
def test_packed_factors_at_the_edges(m, k, n, dtype, machine, monkeypatch):
    if machine in OTHER_MACHINES:
        for module in (tiling, packing):
            monkeypatch.setattr(module, "vectors", lambda: OTHER_MACHINES[machine])
    a, b, c = (array(*shape, seed=i).astype(dtype) for i, shape in enumerate([(m, k), (k, n), (m, n)]))
    at, bt = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    args = [eo.asarray(x) for x in (a, at, b, bt, c)]

    def f(x, xt, y, yt, z):
        return x @ yt.T, xt.T @ y, z - 0.5 * (xt.T @ yt.T), eo.tanh(x @ yt.T + xt.T @ y)

    assert len(packed(f, *args)) == 2
    assert "gemm(" not in eo.compile.inspect(f)(*args).llvm
    product = a.astype(float) @ b.astype(float)
    wanted = product, product, c - 0.5 * product, np.tanh(2 * product)
    for threads in (1, 2):
        for found, right in zip(eo.compile(f, threads=threads)(*args), wanted, strict=True):
            assert found.dtype == dtype
            np.testing.assert_allclose(found.numpy(), right, atol=1e-4 if dtype == np.float32 else 1e-12)


def test_a_factor_packed_as_it_lies_and_turned():
    g, w = tensor(100, 380), tensor(380, 380, seed=1)

    def f():
        return g @ w, g @ w.T, w @ g.T, w.T @ g.T

    assert len(packed(f)) == 4
    for found, wanted in zip(eo.compile(f)(), f(), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), atol=1e-11)


def test_packed_factors_in_a_loop():
    w = tensor(90, 90, seed=1) * 0.1

    def f(x):
        return eo.scan(lambda c, _: (eo.tanh(c @ w.T), None), x, None, length=4)[0]

    assert len(packed(f, G)) == 1
    same(f, G, ulps=1000)


def test_a_packed_factor_that_is_computed_or_a_state():
    w = tensor(80, 90, seed=2) + 0.0
    before = np.array(w.numpy())

    def f():
        hidden = G @ eo.tanh(w).T + G @ w.T
        w[...] = w + hidden.sum()
        return hidden

    assert packed(f) == [(1, 2 * vectors().lanes(np.float64))] * 2
    step = eo.compile(f)
    for _ in range(3):
        wanted = G.numpy() @ np.tanh(before).T + G.numpy() @ before.T
        np.testing.assert_allclose(step().numpy(), wanted, 1e-11)
        before = before + wanted.sum()
        np.testing.assert_allclose(w.numpy(), before, 1e-11)


def test_special_values_in_tiles():
    special = np.zeros((100, 100))
    special[:20, :20] = SPECIAL
    x, one = eo.asarray(special), eo.eye(100)
    assert blas(lambda: x @ one) == 0
    with np.errstate(all="ignore"):
        same(lambda: (x @ one, x - x @ one, 2 * (x @ one)))
        same(lambda: (x.T @ one, x @ one.T, one @ x.T - x.T @ one.T))
    zeros = eo.compile(lambda: (-x * 0.0) @ one)().numpy()[30:, 30:]
    assert not np.signbit(zeros).any()


def test_sums_by_blas():
    def to_what_is_given():
        return E - 2 * (A @ tensor(60, 50).T)

    def two():
        return eo.tanh(A @ tensor(60, 50).T - 0.5 * (C @ tensor(60, 30).T))

    assert (blas(to_what_is_given), blas(two)) == (1, 2)
    same(to_what_is_given)
    same(two)


def test_tiles_give_the_same_bits_on_any_number_of_threads():
    x, y = tensor(1003, 250), tensor(250, 300, seed=1)
    f = {n: eo.compile(lambda: x @ y, threads=n) for n in (1, 2, 3)}
    found = {n: g().numpy() for n, g in f.items()}
    np.testing.assert_allclose(found[1], x.numpy() @ y.numpy(), atol=1e-12)
    for other in (2, 3):
        np.testing.assert_array_equal(found[1], found[other])
    assert "chunks" in eo.compile.inspect(lambda: x @ y)().kernels


# ---- panels

ROWS, DEPTH, WIDTH = 5000, 40, 256  # twenty panels, the last one of fewer rows
X, V = tensor(ROWS, DEPTH), tensor(DEPTH, WIDTH, seed=1)
MASK, LINE = tensor(ROWS, WIDTH, seed=2), tensor(WIDTH, seed=3)
XT, VT = eo.asarray(np.ascontiguousarray(X.numpy().T)), eo.asarray(np.ascontiguousarray(V.numpy().T))

IN_PANELS = {
    "bias and activation": lambda: eo.relu(X @ V + LINE),
    "a mask": lambda: eo.where(MASK > 0, X @ V, 0.0),
    "first factor transposed": lambda: eo.tanh(XT.T @ V),
    "second factor transposed": lambda: eo.tanh(X @ VT.T),
    "rows": lambda: eo.softmax(X @ V, axis=1),
    "a sum over all rows": lambda: (eo.relu(X @ V + LINE).sum(axis=0), eo.relu(X @ V + LINE) * 2),
    "a sum over everything": lambda: eo.relu(X @ V).sum(),
    "places": lambda: eo.argmax(X @ V, axis=1),
    "a part of each row": lambda: eo.exp(X @ V)[:, 3:] * LINE[3:],
    "rows turned": lambda: eo.exp((X @ V)[:, ::-1]),
    "in another shape": lambda: eo.exp((X @ V).reshape(ROWS, 16, 16)).sum(axis=2),
    "cheap and twice": lambda: (lambda p: (p + 1, eo.exp(p)))(X @ V),
}  # fmt: skip

WHOLE = {
    "a result": lambda: (lambda p: (p, eo.exp(p)))(X @ V),
    "a factor": lambda: (X @ V) @ VT,
    "rows in another order": lambda: eo.exp((X @ V)[::-1]),
    "later rows": lambda: eo.exp((X @ V)[1:]) + eo.exp((X @ V)[:-1]),
    "columns": lambda: eo.exp((X @ V).T),
    "the first rows": lambda: (lambda p: eo.exp(p[:10]).sum() + eo.exp(p))(X @ V),
    "read again": lambda: (lambda p: eo.exp(p - p.max(axis=0)))(X @ V),
    "computed again": lambda: (lambda p: eo.exp(p - p.max(axis=0)) * (p * 2).max(axis=0))(X @ V * 0.5),
    "a sum": lambda: eo.exp(X @ V + MASK @ eo.eye(WIDTH)),
    "few": lambda: eo.relu(X[:900] @ V),
    "deep": lambda: eo.relu(MASK @ tensor(WIDTH, 300) @ tensor(300, WIDTH)),
    "long rows": lambda: eo.tanh(VT @ XT[:, :3000]),  # a panel would have 16
}  # fmt: skip


def panels(f, *args):
    return eo.compile.inspect(f)(*args).kernels.count("dot, a panel at a time")


@pytest.mark.parametrize("name", [*IN_PANELS, *WHOLE])
def test_products_in_panels(name):
    f = {**IN_PANELS, **WHOLE}[name]
    assert panels(f) == (name in IN_PANELS)
    same(f, ulps=1000)


def test_a_narrow_product_in_panels():
    columns = max(vectors().lanes(np.float64) - 1, 2)
    x, v = tensor(600000 // columns, 20), tensor(20, columns, seed=1)
    xt = eo.asarray(np.ascontiguousarray(x.numpy().T))
    for f in (lambda: eo.relu(x @ v), lambda: eo.relu(xt.T @ v)):
        assert panels(f) == 1
        same(f, ulps=1000)


def test_the_last_panel_has_a_narrower_tile():
    x, v = tensor(5003, 40), tensor(40, 200, seed=1)
    for f in (lambda: eo.relu(x @ v), lambda: eo.relu(x @ (v * 2))):
        assert panels(f) == 1
        same(f, ulps=1000)


def test_two_products_that_one_loop_reads():
    def f():
        p, q = X @ V, X @ (V + 1)
        return eo.exp(p) * eo.sin(q)

    assert panels(f) == 1
    same(f, ulps=1000)


def test_large_sums_of_products_stay_whole():
    x, v = tensor(1100, DEPTH), tensor(DEPTH, 1000, seed=1)

    def f():
        return eo.exp((x @ v).reshape(1100, 10, 100)).sum(axis=(0,))

    assert panels(f) == 1
    same(f, ulps=1000)

    def wide():
        rows = eo.exp(x @ v)
        return tuple((rows * i).sum(axis=0) for i in range(1, 24))  # from 17 on, 17 panels of them are large

    assert panels(wide) == 0


def test_a_product_in_panels_is_nowhere_whole():
    assert eo.compile.inspect(IN_PANELS["bias and activation"])().memory == "0 bytes"
    assert "in 20 chunks of 256:" in eo.compile.inspect(IN_PANELS["rows"])().kernels


@pytest.mark.parametrize(
    "name", ["bias and activation", "rows", "a sum over all rows", "a sum over everything"]
)
def test_panels_give_the_same_bits_on_any_number_of_threads(name):
    found = [arrays_of(eo.compile(IN_PANELS[name], threads=n)()) for n in (1, 2, 3)]
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_in_panels(dtype):
    x, w = array(6000, 30).astype(dtype), array(30, 300, seed=1).astype(dtype)
    u = array(300, 20, seed=2).astype(dtype)

    def loss(x, w, u):
        return (eo.relu(x @ w) @ u).sum()

    f = eo.grad(loss, (0, 1, 2))
    args = [eo.asarray(a) for a in (x, w, u)]
    assert panels(f, *args) == 2  # forward, and the gradient behind the mask
    hidden = np.maximum(x.astype(float) @ w, 0)
    back = (hidden > 0) * u.astype(float).sum(axis=1)
    wanted = [back @ w.T, x.T @ back, np.outer(hidden.sum(axis=0), np.ones(20))]
    for one, other in zip(eo.compile(f)(*args), wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other, 1e-4 if dtype == np.float32 else 1e-12, 0.05)


def test_the_factor_of_a_product_in_panels_is_a_state():
    w, v = eo.zeros((DEPTH, WIDTH), dtype=eo.float64), np.array(V.numpy())
    w += V

    def f():
        found = eo.relu(X @ w).sum(axis=0)
        w[...] = w * 0.5 + found
        return found

    assert panels(f) == 1
    step = eo.compile(f)
    for _ in range(3):
        wanted = np.maximum(X.numpy() @ v, 0).sum(axis=0)
        v = v * 0.5 + wanted
        np.testing.assert_allclose(step().numpy(), wanted, 1e-11)
        np.testing.assert_allclose(w.numpy(), v, 1e-11)
