"""Windows and distances against plain loops: values, derivatives of both orders, errors."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import everyo as eo
from everyo.testing import check_jvp, gradcheck, gradgradcheck
from tests.compiling import same

every_kind = pytest.mark.parametrize("kind", ["sum", "prod", "mean", "max", "min"])
NUMPYS = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "max": np.max, "min": np.min}
NOTHING = {"sum": 0.0, "prod": 1.0, "mean": math.nan, "max": -math.inf, "min": math.inf}


def loop_windows(x, kind, sizes, steps, room, gaps):
    """Reduce every window by collecting those of its elements that lie inside, one by one."""
    counts = [
        (n + low + high - d * (k - 1) - 1) // s + 1
        for n, k, s, (low, high), d in zip(x.shape, sizes, steps, room, gaps, strict=True)
    ]
    out = np.empty(counts)
    for place in np.ndindex(*counts):
        inside = []
        for offset in np.ndindex(*sizes):
            at = [p * s - low + o * d for p, s, (low, _), o, d in zip(place, steps, room, offset, gaps)]
            if all(0 <= a < n for a, n in zip(at, x.shape)):
                inside.append(x[tuple(at)])
        out[place] = NUMPYS[kind](inside) if inside else NOTHING[kind]
    return out


@st.composite
def windows(draw):
    shape = draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    each = [
        (draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.tuples(*[st.integers(0, 2)] * 2)),
         draw(st.integers(1, 2)))
        for _ in shape
    ]  # fmt: skip
    fits = [n + sum(room) >= d * (k - 1) + 1 for n, (k, _, room, d) in zip(shape, each)]
    assume(all(fits))
    few = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 3.0])
    return draw(arrays.arrays("float64", shape, elements=few)), *zip(*each)


@every_kind
@given(case=windows())
def test_reduced_windows_are_loops(kind, case):
    x, sizes, steps, room, gaps = case
    found = eo.reduce_window(x, kind, sizes, steps, room, window_dilation=gaps)
    np.testing.assert_allclose(found.numpy(), loop_windows(x, kind, sizes, steps, room, gaps), rtol=1e-14)


@given(case=windows())
def test_an_element_gets_the_weights_of_all_windows_that_it_is_in(case):
    x, sizes, steps, room, gaps = case
    leaf = eo.tensor(x, requires_grad=True)
    out = eo.reduce_window(leaf, "sum", sizes, steps, room, window_dilation=gaps)
    weights = np.arange(1.0, out.size + 1).reshape(out.shape)
    out.backward(weights)
    expected = np.zeros_like(x)
    for place, offset in itertools.product(np.ndindex(out.shape), np.ndindex(sizes)):
        at = tuple(p * s - low + o * d for p, s, (low, _), o, d in zip(place, steps, room, offset, gaps))
        if all(0 <= a < n for a, n in zip(at, x.shape)):
            expected[at] += weights[place]
    np.testing.assert_array_equal(leaf.grad.numpy(), expected)


PLANE = np.array([[0.5, -1.25, 2.0, 1.0], [1.5, 0.75, -0.5, 3.0], [-2.0, 0.25, 1.75, -0.75]])


@every_kind
@pytest.mark.parametrize(
    "how",
    [
        {"window_dimensions": 2},
        {"window_dimensions": (1, 3), "padding": "SAME"},
        {"window_dimensions": (2, 2), "window_strides": (2, 1), "padding": [(1, 0), (0, 1)]},
        {"window_dimensions": (2, 1), "window_dilation": 2},
    ],
)
def test_derivatives_of_reduced_windows(kind, how):
    def f(x):
        return eo.reduce_window(x, kind, **how) ** 2

    for check in (gradcheck, gradgradcheck, check_jvp):
        assert check(f, PLANE)
    same(f, eo.tensor(PLANE))
    same(eo.grad(lambda x: f(x).sum()), eo.tensor(PLANE))
    stack = np.stack([PLANE, -PLANE, PLANE + 1])
    np.testing.assert_allclose(eo.vmap(f)(stack).numpy(), [f(x).numpy() for x in stack], rtol=1e-14)


@every_kind
def test_same_padding_has_as_many_positions(kind):
    for n, size, step in itertools.product((1, 4, 5), (1, 2, 3), (1, 2, 3)):
        total = max((math.ceil(n / step) - 1) * step + size - n, 0)
        room = [(total // 2, total - total // 2)]
        x = np.arange(1.0, n + 1)
        found = eo.reduce_window(x, kind, size, step, "same").numpy()
        assert found.shape == (math.ceil(n / step),)
        np.testing.assert_allclose(found, loop_windows(x, kind, (size,), (step,), room, (1,)))


@every_kind
def test_windows_of_nothing_and_of_one(kind):
    assert eo.reduce_window(np.ones((0, 3)), kind, (1, 2)).shape == (0, 2)
    assert eo.reduce_window(np.float64(3.0), kind, ()).item() == 3.0
    np.testing.assert_array_equal(eo.reduce_window(PLANE, kind, 1).numpy(), PLANE)


def test_windows_of_integers():
    x = np.array([3, 250, 7], "uint8")
    assert eo.reduce_window(x, "max", 2, padding=[(1, 1)]).tolist() == [3, 250, 250, 7]
    least = eo.reduce_window(x, "min", 2, padding=[(1, 1)])
    assert (least.tolist(), least.dtype) == ([3, 3, 7, 7], eo.uint8)
    assert eo.reduce_window(x, "sum", 2).tolist() == [253, 257]
    assert eo.reduce_window(x, "mean", 2).tolist() == [126.5, 128.5]


@given(
    shape=arrays.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5),
    data=st.data(),
)
def test_views_of_windows(shape, data):
    x = np.arange(np.prod(shape)).reshape(shape)
    axes = data.draw(st.permutations(range(len(shape))))[: data.draw(st.integers(1, len(shape)))]
    sizes = tuple(data.draw(st.integers(1, shape[a])) for a in axes)
    found = eo.sliding_window_view(x, sizes, tuple(axes))
    expected = np.lib.stride_tricks.sliding_window_view(x, sizes, tuple(axes))
    np.testing.assert_array_equal(found.numpy(), expected)
    step = data.draw(st.integers(1, 3))
    axis = axes[0] - data.draw(st.sampled_from([0, len(shape)]))
    found = eo.unfold(x, axis, sizes[0], step)
    one = np.lib.stride_tricks.sliding_window_view(x, sizes[0], axis)
    np.testing.assert_array_equal(
        found.numpy(), np.moveaxis(np.moveaxis(one, axis % len(shape), 0)[::step], 0, axis % len(shape))
    )


@pytest.mark.parametrize(
    "f",
    [
        lambda x: eo.sliding_window_view(x, (2, 3)) ** 2,
        lambda x: eo.sliding_window_view(x, (3, 2), axis=(1, 0)) ** 2,
        lambda x: eo.sliding_window_view(x, 2, axis=-1) ** 2,
        lambda x: eo.unfold(x, 1, 2, 2) ** 2,
    ],
)
def test_derivatives_of_views(f):
    for check in (gradcheck, gradgradcheck, check_jvp):
        assert check(f, PLANE)
    same(f, eo.tensor(PLANE))
    same(eo.grad(lambda x: f(x).sum()), eo.tensor(PLANE))
    stack = np.stack([PLANE, -PLANE])
    np.testing.assert_array_equal(eo.vmap(f)(stack).numpy(), [f(x).numpy() for x in stack])


def test_a_view_of_windows_does_not_change_with_its_source():
    x = eo.tensor([1.0, 2.0, 3.0])
    view = eo.sliding_window_view(x, 2)
    x[0] = 9.0
    assert view.tolist() == [[1.0, 2.0], [2.0, 3.0]]
    view[0, 1] = 7.0
    assert view.tolist() == [[1.0, 7.0], [2.0, 3.0]]
    assert x.tolist() == [9.0, 2.0, 3.0]


ORDERS = [0, 0.5, 1, 1.5, 2, 2.5, 3, math.inf]
every_order = pytest.mark.parametrize("p", ORDERS)
FIRST = np.array([[0.5, -1.25, 2.0], [1.5, 0.75, -0.5]])
SECOND = np.array([[1.0, 2.5, -0.75], [-2.0, 0.1, 1.75], [0.3, -0.6, 3.25], [2.25, 1.9, 0.2]])


def distance(a, b, p):
    sizes = [abs(s - t) for s, t in zip(a, b, strict=True)]
    if p == 0:
        return float(np.count_nonzero(sizes))
    return max(sizes) if math.isinf(p) else math.fsum(s**p for s in sizes) ** (1 / p)


@every_order
def test_distances_are_loops(p):
    expected = [[distance(a, b, p) for b in SECOND] for a in FIRST]
    np.testing.assert_allclose(eo.cdist(FIRST, SECOND, p).numpy(), expected, rtol=1e-14)
    among = [distance(a, b, p) for a, b in itertools.combinations(SECOND, 2)]
    np.testing.assert_allclose(eo.pdist(SECOND, p).numpy(), among, rtol=1e-14)
    batch = np.stack([FIRST, FIRST + 1, -FIRST])
    whole = eo.cdist(batch, SECOND, p)
    assert whole.shape == (3, 2, 4)
    np.testing.assert_allclose(whole[2].numpy(), eo.cdist(-FIRST, SECOND, p).numpy())
    np.testing.assert_allclose(eo.vmap(lambda x: eo.cdist(x, SECOND, p))(batch).numpy(), whole.numpy())
    pairs = eo.pdist(batch, p)
    np.testing.assert_allclose(pairs.numpy(), eo.vmap(lambda x: eo.pdist(x, p))(batch).numpy())


@pytest.mark.parametrize("p", [1.5, 2, 2.5, 3])
def test_derivatives_of_distances(p):
    for check in (gradcheck, gradgradcheck, check_jvp):
        assert check(lambda a, b: eo.cdist(a, b, p), FIRST, SECOND)
        assert check(lambda a: eo.pdist(a, p), SECOND)
    same(lambda a, b: eo.cdist(a, b, p), eo.tensor(FIRST), eo.tensor(SECOND))
    same(eo.grad(lambda a: eo.pdist(a, p).sum()), eo.tensor(SECOND))


@pytest.mark.parametrize("p", [0, 0.5, 1, math.inf])
def test_first_derivatives_of_distances(p):
    for check in (gradcheck, check_jvp):
        assert check(lambda a, b: eo.cdist(a, b, p), FIRST, SECOND)


def test_distances_of_few():
    assert eo.cdist(np.ones((2, 0)), np.ones((3, 0)), math.inf).tolist() == [[0.0] * 3] * 2
    assert eo.cdist(np.ones((0, 2)), np.ones((3, 2))).shape == (0, 3)
    assert eo.pdist(np.ones((1, 2))).shape == (0,)
    assert eo.pdist(np.ones((0, 2))).shape == (0,)
    assert eo.cdist([[0, 0]], [[3, 4]]).dtype == eo.float64
    assert eo.cdist(eo.tensor([[1.0]]), eo.tensor([[2.0]])).dtype == eo.float32


@pytest.mark.parametrize("p", [0.5, 1, 2, 3, math.inf])
def test_renormed_slices(p):
    x = np.random.default_rng(1).normal(size=(4, 3, 2))
    for axis in (0, 1, -1):
        found = np.moveaxis(eo.renorm(x, p, axis, 1.5).numpy(), axis, 0)
        for row, source in zip(found, np.moveaxis(x, axis, 0), strict=True):
            norm = distance(source.ravel(), np.zeros(source.size), p)
            np.testing.assert_allclose(row, source * min(1.0, 1.5 / norm), rtol=1e-13)
    assert gradcheck(lambda x: eo.renorm(x, p, 1, 1.5), x)
    same(lambda x: eo.renorm(x, p, 1, 1.5), eo.tensor(x))
    if p in (2, 3):
        assert gradgradcheck(lambda x: eo.renorm(x, p, 1, 1.5), x)


def test_blocks_along_the_diagonal():
    parts = [np.arange(1.0, 7).reshape(2, 3), np.array([7.0, 8.0]), np.ones((0, 2)), np.array(9.0)]
    expected = np.zeros((4, 8))
    expected[:2, :3], expected[2, 3:5], expected[3, 7] = parts[0], parts[1], 9.0
    np.testing.assert_array_equal(eo.block_diag(*parts).numpy(), expected)
    for check in (gradcheck, gradgradcheck, check_jvp):
        assert check(lambda a, b, c: eo.block_diag(a, b, c) ** 2, parts[0], parts[1], parts[3])
    same(lambda a, b: eo.block_diag(a, b), eo.tensor(parts[0]), eo.tensor(parts[1]))
    mapped = eo.vmap(eo.block_diag)(np.ones((5, 2, 2)), np.ones((5, 3)))
    assert mapped.shape == (5, 3, 5)
    assert eo.block_diag(eo.tensor([1.0]), 2.5).dtype == eo.float32


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: eo.reduce_window(PLANE, "median", 2), eo.ArgumentError, "'median'"),
        (lambda: eo.reduce_window(PLANE, "max", 4), eo.ShapeError, "larger than the padded input"),
        (lambda: eo.reduce_window(PLANE, "max", (2, 2, 2)), eo.ArgumentError, "window_dimensions"),
        (lambda: eo.reduce_window(PLANE, "max", 0), eo.ArgumentError, "window_dimensions"),
        (lambda: eo.reduce_window(PLANE, "max", 1.5), eo.DTypeError, "integers"),
        (lambda: eo.reduce_window(PLANE, "max", 2, padding="full"), eo.ArgumentError, "padding"),
        (lambda: eo.reduce_window(PLANE, "max", 2, padding=[(0, -1), (0, 0)]), eo.ArgumentError, "padding"),
        (lambda: eo.reduce_window(PLANE + 0j, "max", 2), eo.DTypeError, "ordered"),
        (lambda: eo.sliding_window_view(PLANE, 2), eo.ShapeError, "one size for each axis"),
        (lambda: eo.sliding_window_view(PLANE, (4, 1)), eo.ShapeError, "1 to 3"),
        (lambda: eo.sliding_window_view(PLANE, (1, 1), (1, 1)), eo.ShapeError, "named twice"),
        (lambda: eo.unfold(PLANE, 0, 0, 1), eo.ShapeError, "does not fit"),
        (lambda: eo.unfold(PLANE, 0, 2, 0), eo.ArgumentError, "step"),
        (lambda: eo.unfold(PLANE, 2, 2, 1), eo.IndexingError, "axis 2"),
        (lambda: eo.cdist(PLANE, FIRST), eo.ShapeError, "cdist"),
        (lambda: eo.cdist(PLANE[0], PLANE), eo.ShapeError, "cdist"),
        (lambda: eo.cdist(FIRST, FIRST, -1), eo.ArgumentError, "p >= 0"),
        (lambda: eo.cdist(FIRST, FIRST, "2"), eo.DTypeError, "real number"),
        (lambda: eo.pdist(PLANE[0]), eo.ShapeError, "rows"),
        (lambda: eo.renorm(PLANE, 0, 0, 1.0), eo.ArgumentError, "p > 0"),
        (lambda: eo.renorm(PLANE, 2, 0, -1.0), eo.ArgumentError, "maxnorm"),
        (lambda: eo.renorm(PLANE, 2, 2, 1.0), eo.IndexingError, "axis 2"),
        (lambda: eo.block_diag(), eo.ShapeError, "no blocks"),
        (lambda: eo.block_diag(np.ones((1, 1, 1))), eo.ShapeError, "two axes"),
    ],
)  # fmt: skip
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
