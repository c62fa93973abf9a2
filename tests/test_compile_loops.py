"""Loops in compiled programs: cut where what they read changes, and written once where they are equal."""

import re

import numpy as np
import pytest

import everyo as eo
from everyo.compiler.codegen import segments
from everyo.core.dispatch import apply
from everyo.core.registry import op

N = 1000
X = np.random.default_rng(0).normal(size=N)
ROWS = np.random.default_rng(1).normal(size=(300, 7))


def joined(x):
    return eo.concatenate([x[:1], x[:-1]])


CASES = {
    "shifted": (lambda x: eo.exp(joined(x)) * x, lambda x: np.exp(np.r_[x[:1], x[:-1]]) * x),
    "halves": (
        lambda x: eo.concatenate([x[500:], x[:500]]) * x + 1,
        lambda x: np.r_[x[500:], x[:500]] * x + 1,
    ),
    "shifted twice": (
        lambda x: joined(joined(x) * 2) - x,
        lambda x: np.r_[x[0], x[0], x[:-2]] * 2 - x,
    ),
    "padded": (
        lambda x: eo.pad(x[300:400], (300, 600)) + x,
        lambda x: np.pad(x[300:400], (300, 600)) + x,
    ),
    "padded inside": (
        lambda x: eo.pad(joined(x)[:-4], (2, 2)) * eo.sin(x),
        lambda x: np.pad(np.r_[x[:1], x[:-1]][:-4], 2) * np.sin(x),
    ),
    "sum": (
        lambda x: (eo.concatenate([x[400:], x[:400] * 2]) * x).sum(),
        lambda x: np.r_[x[400:], x[:400] * 2] @ x,
    ),
    "gradient": (
        eo.grad(lambda x: ((x[1:] - x[:-1]) ** 2).sum()),
        lambda x: 2 * (np.r_[0, np.diff(x)] - np.r_[np.diff(x), 0]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_around_borders(name):
    f, reference = CASES[name]
    np.testing.assert_allclose(eo.compile(f)(eo.asarray(X)).numpy(), reference(X), 1e-13, 1e-15)


def test_rows_around_borders():
    def f(x):
        y = eo.concatenate([x[200:], x[:200]])
        return eo.softmax(y, axis=1) + x

    y = np.exp(np.r_[ROWS[200:], ROWS[:200]])
    wanted = y / y.sum(1, keepdims=True) + ROWS
    np.testing.assert_allclose(eo.compile(f)(eo.asarray(ROWS)).numpy(), wanted, 1e-13)


def test_no_element_is_looked_up_across_a_border():
    found = eo.compile.inspect(lambda x: joined(x) * x)(eo.asarray(X))
    assert "gather" not in found.optimized


def test_blocks_are_joined_where_they_are_read():
    a, b = eo.asarray(ROWS[:, :3]), eo.asarray(ROWS[:, 3:])

    def f(a, b):
        return eo.block([[a, b], [b, a]]) * 2

    found = eo.compile.inspect(f)(a, b)
    assert found.graphs["lowered"].count("concat(") == 3
    assert found.kernels.count("stored") == 1
    np.testing.assert_array_equal(eo.compile(f)(a, b).numpy(), f(a, b).numpy())


def test_blocks_that_no_cut_takes_apart_are_filled_by_the_eager_kernel():
    sizes = ((1, 2), (2, 1), (1, 2), (2, 1), (1, 1))
    starts = ((0, 0), (0, 2), (2, 1), (1, 0), (1, 1))  # around the element in the middle
    blocks = [eo.full(size, float(i)) for i, size in enumerate(sizes)]

    def f(*blocks):
        return apply(op.fill_blocks, blocks, {"starts": starts, "shape": (3, 3)})

    np.testing.assert_array_equal(f(*blocks).numpy(), [[0, 0, 1], [3, 4, 1], [3, 2, 2]])
    np.testing.assert_array_equal(eo.compile(f)(*blocks).numpy(), f(*blocks).numpy())


def test_borders_lie_where_the_loop_meets_them():
    def starts(f):
        text = eo.compile.inspect(f)(eo.asarray(X)).llvm
        return re.findall(r"i64 %low, i64 (\d+)", text)

    assert starts(lambda x: eo.pad(x, (300, 400))[100:] * 2) == ["0", "200", "1200"]
    assert starts(lambda x: eo.concatenate([x, x * 3])[600:] * 2) == ["0", "400"]


def test_short_loops_and_many_borders_are_left_whole(monkeypatch):
    def bounds(f, x):
        return re.findall(r"icmp slt i64 %high", eo.compile.inspect(f)(eo.asarray(x)).llvm)

    assert bounds(lambda x: joined(x) * x, X)
    assert not bounds(lambda x: joined(x) * x, X[: segments.LONG - 1])

    def many(x):
        return eo.concatenate([x[i * 100 : (i + 1) * 100] for i in range(9, -1, -1)]) * x

    assert not bounds(many, X)
    wanted = X.reshape(10, 100)[::-1].reshape(-1) * X
    np.testing.assert_array_equal(eo.compile(many)(eo.asarray(X)).numpy(), wanted)


def test_equal_kernels_are_one_function():
    def f(x, w):
        for _ in range(3):
            x = eo.tanh(x @ w)
        return x

    found = eo.compile.inspect(f)(eo.asarray(np.eye(40)), eo.asarray(np.eye(40)))
    assert found.llvm.count("define internal void @k") == 2  # the product and tanh
    calls = re.findall(r"call void @(k\d+)\(", found.llvm)
    assert [calls.count(name) for name in dict.fromkeys(calls)] == [3, 3]


def test_equal_texts_over_other_ranges_are_two_functions():
    def f(x, y):
        return x * 2, y * 2

    found = eo.compile.inspect(f)(eo.asarray(X[:100]), eo.asarray(X[:50]))
    assert found.llvm.count("define internal void @k") == 2


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "int8"])
def test_the_number_of_a_turn_indexes_exactly_whatever_the_dtype_it_indexes(dtype):
    """4001 is no number of float16 nor of int8, and no index of a complex dtype."""
    x = eo.asarray(np.arange(5000) % 2).astype(dtype)

    def read(x):
        return eo.fori_loop(4001, 4002, lambda i, c: c + x[i] * x[i], x[0] * 0)

    def written(x):
        def body(i, y):
            y = y + 0
            y[i] = 3
            return y

        return eo.fori_loop(4000, 4001, body, x)

    assert eo.compile(read)(x).item() == 1
    assert eo.compile(read)(x).dtype == x.dtype
    changed = eo.compile(written)(x)
    assert changed.dtype == x.dtype
    assert np.flatnonzero(changed.numpy() != x.numpy()).tolist() == [4000]
    assert changed[4000].item() == 3
    if x.dtype.kind in "fc":
        slope = eo.grad(eo.compile(lambda x: eo.real(read(x))))(x).numpy()
        assert np.flatnonzero(slope).tolist() == [4001]
        assert slope[4001] == 2


def test_a_number_that_is_computed_from_that_of_a_turn_stays_weak():
    x = eo.tensor(0.5)
    for body in (lambda i, c: c + (-i) * x, lambda i, c: c + abs(i - 9) * x, lambda i, c: c + i // 2 * x):
        plain = eo.tensor(0.0)
        for i in range(4):
            plain = body(i, plain)
        found = eo.compile(lambda c, body=body: eo.fori_loop(0, 4, body, c))(eo.tensor(0.0))
        assert (found.dtype, found.item()) == (eo.float32, plain.item())
