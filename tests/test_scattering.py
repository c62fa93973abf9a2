"""Scattering and segments against plain loops: values, gradients of every order, and errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import everyo as eo
from everyo.testing import check_jvp, gradcheck, gradgradcheck
from tests.compiling import same

KINDS = ["sum", "prod", "mean", "amax", "amin"]
REDUCED = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}

every_kind = pytest.mark.parametrize("kind", KINDS)
own_or_not = pytest.mark.parametrize("own", [True, False])


def tracked(array):
    return eo.tensor(np.asarray(array, "float64"), requires_grad=True)


def loop_reduce(x, axis, indices, src, kind, own):
    """Return what each element of `x` becomes, by collecting the values of its place one by one."""
    places = {place: [x[place]] if own else [] for place in np.ndindex(x.shape)}
    for source in np.ndindex(indices.shape):
        place = list(source)
        place[axis] = int(indices[source]) % x.shape[axis]
        places[tuple(place)].append(src[source])
    out = np.array(x, "float64")
    for place, values in places.items():
        if values:
            out[place] = REDUCED[kind](values)
    return out


@st.composite
def scatters(draw):
    """A tensor, an axis, positions that may be smaller, repeated and negative, and values."""
    shape = draw(arrays.array_shapes(min_dims=1, max_dims=3, max_side=4))
    axis = draw(st.integers(0, len(shape) - 1))
    sizes = [draw(st.integers(0, 5 if i == axis else n)) for i, n in enumerate(shape)]
    positions = st.integers(-shape[axis], shape[axis] - 1)
    indices = draw(arrays.arrays("int64", tuple(sizes), elements=positions))
    few = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0])
    return (
        draw(arrays.arrays("float64", shape, elements=few)),
        draw(st.sampled_from([axis, axis - len(shape)])),
        indices,
        draw(arrays.arrays("float64", tuple(sizes), elements=few)),
    )


@every_kind
@own_or_not
@given(case=scatters())
def test_scatter_reduce_values(kind, own, case):
    x, axis, indices, src = case
    found = eo.scatter_reduce(x, axis, indices, src, kind, include_self=own)
    expected = loop_reduce(x, axis % x.ndim, indices, src, kind, own)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-14, atol=1e-300)


@given(case=scatters())
def test_scatter_writes_in_order(case):
    x, axis, indices, src = case
    expected, owner = x.copy(), np.full(x.shape, -1)
    for k, source in enumerate(np.ndindex(indices.shape)):
        place = list(source)
        place[axis] = int(indices[source])
        expected[tuple(place)], owner[tuple(place)] = src[source], k
    a, b = tracked(x), tracked(src)
    out = eo.scatter(a, axis, indices, b)
    np.testing.assert_array_equal(out.detach().numpy(), expected)
    weights = np.arange(1.0, x.size + 1).reshape(x.shape)
    (out * weights).sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), np.where(owner < 0, weights, 0))
    kept = np.zeros(src.size)
    kept[owner[owner >= 0]] = weights[owner >= 0]
    np.testing.assert_array_equal(b.grad.numpy(), kept.reshape(src.shape))


# Two values and the element itself fall on place 0, one on place 2; all differ, so there is no kink.
X = np.array([[0.5, -1.25, 2.0], [1.5, 0.75, -0.5]])
INDICES = np.array([[0, 0, 2], [-1, 1, 1]])
SRC = np.array([[1.75, -0.25, 3.0], [0.25, -2.0, 1.25]])


@every_kind
@own_or_not
def test_derivatives_of_scatter_reduce(kind, own):
    def f(x, src):
        return eo.scatter_reduce(x, 1, INDICES, src, kind, include_self=own) ** 2

    for check in (gradcheck, gradgradcheck, check_jvp):
        assert check(f, X, SRC)


@every_kind
@own_or_not
def test_scatter_reduce_inside_transformations(kind, own):
    def f(x, indices, src):
        return eo.scatter_reduce(x, -1, indices, src, kind, include_self=own)

    xs, sources = np.stack([X, -X, X + 1]), np.stack([SRC, SRC[::-1], 2 * SRC])
    positions = np.stack([INDICES, INDICES[:, ::-1], np.zeros_like(INDICES)])
    looped = np.stack([f(*row).numpy() for row in zip(xs, positions, sources, strict=True)])
    np.testing.assert_allclose(eo.vmap(f)(xs, positions, sources).numpy(), looped, rtol=1e-14)
    one = eo.vmap(f, in_axes=(None, 0, None))(eo.tensor(X), eo.tensor(positions), eo.tensor(SRC))
    np.testing.assert_allclose(one.numpy(), [f(X, i, SRC).numpy() for i in positions], rtol=1e-14)
    pair = (eo.tensor(X), eo.tensor(INDICES), eo.tensor(SRC))
    same(f, *pair)
    same(lambda x, i, s: eo.grad(lambda x, s: (f(x, i, s) ** 2).sum(), argnums=(0, 1))(x, s), *pair)


@own_or_not
@pytest.mark.parametrize("kind", ["amax", "amin"])
def test_extremes_share_equally(kind, own):
    sign = 1.0 if kind == "amax" else -1.0
    x, src = tracked(np.array([2.0, 7.0]) * sign), tracked(np.array([2.0, 1.0, 2.0, 7.0]) * sign)
    eo.scatter_reduce(x, 0, [0, 0, 0, 1], src, kind, include_self=own).sum().backward()
    share = 1 / 3 if own else 1 / 2
    last = 1 / 2 if own else 1
    np.testing.assert_allclose(src.grad.numpy(), [share, 0, share, last])
    np.testing.assert_allclose(x.grad.numpy(), [share, 1 / 2] if own else [0, 0])


def test_an_element_that_is_replaced_is_no_tie():
    """The element of `x` equals the largest value by chance; it does not belong to the reduction."""
    x, src = tracked([5.0]), tracked([5.0, 1.0])
    eo.scatter_reduce(x, 0, [0, 0], src, "amax", include_self=False).backward()
    assert (x.grad.tolist(), src.grad.tolist()) == ([0.0], [1.0, 0.0])


def test_extremes_of_nan_and_infinity():
    src = tracked([1.0, math.nan, math.inf, -math.inf])
    out = eo.scatter_reduce(eo.zeros(3, dtype=eo.float64), 0, [0, 0, 1, 2], src, "amax", include_self=False)
    np.testing.assert_array_equal(out.detach().numpy(), [math.nan, math.inf, -math.inf])
    out.sum().backward()
    assert src.grad.tolist() == [0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "bool"])
def test_extremes_of_integers(dtype):
    values = np.array([1, 0, 1, 0], dtype)
    largest = eo.segment_max(values, [0, 0, 1, 2], 4)
    assert largest.dtype == dtype
    low = False if dtype == "bool" else np.iinfo(dtype).min
    high = True if dtype == "bool" else np.iinfo(dtype).max
    np.testing.assert_array_equal(largest.numpy(), np.array([1, 1, 0, low], dtype))
    np.testing.assert_array_equal(eo.segment_min(values, [0, 0, 1, 2], 4), np.array([0, 1, 0, high], dtype))


def test_unsigned_positions_beyond_the_range_of_their_dtype():
    x, src = np.zeros(300), np.array([3.0, 2.0, 5.0])
    out = eo.scatter_reduce(x, 0, np.array([255, 255, 7], "uint8"), src, "amax")
    assert (out[255].item(), out[7].item(), out.sum().item()) == (3.0, 5.0, 8.0)
    value = tracked(src)
    eo.segment_prod(value, np.array([0, 255, 255], "uint8"), 300).sum().backward()
    assert value.grad.tolist() == [1.0, 5.0, 2.0]


PRODUCTS = [  # one place each: factors, and the product of the others
    ([2.0, 3.0, 4.0], [12.0, 8.0, 6.0]),
    ([0.0, 3.0, 4.0], [12.0, 0.0, 0.0]),
    ([0.0, 0.0, 4.0], [0.0, 0.0, 0.0]),
    ([1e-200, 1e-200, 1e200], [1.0, 1.0, 0.0]),
    ([1e200, 1e200, 0.0], [0.0, 0.0, math.inf]),
    ([5.0], [1.0]),
    ([math.inf, 2.0], [2.0, math.inf]),
    ([5e-324, 0.5, 2.0], [1.0, 1e-323, 0.0]),
]


@pytest.mark.parametrize(("factors", "others"), PRODUCTS)
def test_gradients_of_products(factors, others):
    n = len(factors)
    x = tracked([*factors, 1.5, 2.0])
    places = [1] * n + [0, 0]
    with np.errstate(over="ignore", invalid="ignore"):
        y = eo.segment_prod(x, places)
        assert y.tolist() == [3.0, float(np.prod(factors))] or math.isinf(np.prod(factors[:2]))
        (g,) = eo.autograd.grad(y.sum(), x)
    np.testing.assert_allclose(g.numpy(), [*others, 2.0, 1.5], rtol=1e-15)


def test_second_and_third_derivatives_of_products_with_zeros():
    """As for a plain product: ``d2/da db (a b c) = c``, whatever else is zero."""
    places = [0, 1, 0, 0]

    def f(v):
        return eo.segment_prod(v, places)[0]

    for a, b, c in ([0.0, 0.0, 3.0], [0.0, 5.0, 3.0], [2.0, 3.0, 4.0]):
        point = eo.tensor([a, 9.0, b, c], dtype=eo.float64)
        expected = [[0, 0, c, b], [0, 0, 0, 0], [c, 0, 0, a], [b, 0, a, 0]]
        assert eo.hessian(f)(point).tolist() == expected
        third = eo.jacfwd(eo.hessian(f))(point).numpy()
        assert third[0, 2, 3] == third[3, 0, 2] == 1.0
        assert third.sum() == 6.0


def test_many_factors_take_the_way_without_division():
    """3000 factors in one place: products of all mantissas could leave the range of the floats."""
    n = 3000
    values = 1 + 0.01 * np.sin(np.arange(n) * 1.7)
    values[5] = 0.0
    x = tracked(values)
    eo.segment_prod(x, np.zeros(n, int)).backward()
    others = math.exp(math.fsum(np.log(np.delete(values, 5))))
    assert x.grad[5].item() == pytest.approx(others, rel=1e-12)
    assert np.count_nonzero(x.grad.numpy()) == 1


SEGMENTS = {
    "segment_sum": np.sum, "segment_mean": np.mean, "segment_prod": np.prod, "segment_max": np.max,
    "segment_min": np.min,
}  # fmt: skip
NOTHING = {
    "segment_sum": 0.0, "segment_mean": math.nan, "segment_prod": 1.0, "segment_max": -math.inf,
    "segment_min": math.inf,
}  # fmt: skip
every_segment = pytest.mark.parametrize("name", SEGMENTS)


@every_segment
@given(
    ids=arrays.arrays("int64", st.integers(0, 8), elements=st.integers(-3, 2)),
    inner=arrays.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3),
)
def test_segments_are_loops(name, ids, inner):
    data = np.random.default_rng(len(ids)).normal(size=(len(ids), *inner))
    found = getattr(eo, name)(data, ids, 3).numpy()
    assert found.shape == (3, *inner)
    for k in range(3):
        rows = data[ids % 3 == k]
        expected = SEGMENTS[name](rows, axis=0) if len(rows) else np.full(inner, NOTHING[name])
        np.testing.assert_allclose(found[k], expected, rtol=1e-14)


@every_segment
def test_derivatives_of_segments(name):
    def f(data):
        return getattr(eo, name)(data, [1, 0, -1, 1, 2], 3) ** 2

    data = np.array([[0.5, 2.0], [1.5, -0.25], [0.75, 1.0], [-1.0, 0.3], [2.5, -1.5]])
    for check in (gradcheck, gradgradcheck, check_jvp):
        assert check(f, data)
    same(f, eo.tensor(data))
    same(eo.grad(lambda d: f(d).sum()), eo.tensor(data))


@every_segment
def test_segments_inside_transformations(name):
    function = getattr(eo, name)
    data, ids = np.arange(24.0).reshape(2, 4, 3) % 7, np.array([[0, 1, 0, 1], [1, 1, 0, 0]])
    looped = np.stack([function(d, i).numpy() for d, i in zip(data, ids, strict=True)])
    mapped = eo.vmap(lambda d, i: function(d, i, num_segments=2))
    np.testing.assert_allclose(mapped(data, ids).numpy(), looped, rtol=1e-15)
    with pytest.raises(eo.ArgumentError, match="num_segments"):
        eo.vmap(function)(data, ids)


def test_number_of_segments():
    assert eo.segment_sum(np.ones((4, 2)), [0, 3, 3, 0]).tolist() == [[2, 2], [0, 0], [0, 0], [2, 2]]
    assert eo.segment_sum(np.ones((0, 2)), []).shape == (0, 2)
    assert eo.segment_max(np.ones((0, 2)), [], 1).tolist() == [[-math.inf] * 2]
    assert eo.segment_mean([1, 2], [0, 0]).dtype == eo.float64
    with pytest.raises(eo.ArgumentError, match="negative"):
        eo.segment_sum([1.0], [0], num_segments=-1)


def test_slices_at_positions():
    x, rows = tracked(np.arange(12.0).reshape(3, 4)), tracked([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    assert eo.index_select(x, 0, [2, -3]).tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert eo.index_select(x, 1, 1).tolist() == [[1], [5], [9]]
    copied = eo.index_copy(x, 0, [1, 1], rows)
    assert copied.tolist() == [[0, 1, 2, 3], [5, 6, 7, 8], [8, 9, 10, 11]]
    (copied * copied).sum().backward()
    assert rows.grad.tolist() == [[0, 0, 0, 0], [10, 12, 14, 16]]
    assert x.grad.tolist() == [[0, 2, 4, 6], [0, 0, 0, 0], [16, 18, 20, 22]]
    value = tracked(7.0)
    filled = eo.index_fill(x, -1, [0, -1], value)
    assert filled.tolist() == [[7, 1, 2, 7], [7, 5, 6, 7], [7, 9, 10, 7]]
    filled.sum().backward()
    assert value.grad.item() == 6.0
    assert x.tolist() == np.arange(12.0).reshape(3, 4).tolist()


@every_kind
@own_or_not
def test_index_reduce(kind, own):
    indices, expected = np.array([2, 0, 2]), X.copy()
    slices = np.array([[0.5, 1.5, -2.0], [3.0, -0.25, 0.75]])
    for row in range(2):
        whole = np.broadcast_to(indices, (3,))
        expected[row] = loop_reduce(X[row], 0, whole, slices[row], kind, own)
    found = eo.index_reduce(X, 1, indices, slices, kind, include_self=own)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-15)
    assert gradcheck(lambda x, s: eo.index_reduce(x, 1, indices, s, kind, include_self=own), X, slices)


ERRORS = [
    (lambda: eo.scatter(eo.zeros(3), 0, [3], eo.ones(1)), eo.IndexingError, "scatter:"),
    (lambda: eo.scatter(eo.zeros(3), 0, [0.0], eo.ones(1)), eo.IndexingError, "integers"),
    (lambda: eo.scatter(eo.zeros(3), 1, [0], eo.ones(1)), eo.IndexingError, "axis 1"),
    (lambda: eo.scatter(eo.zeros(3), 0, [0, 1], eo.ones(1)), eo.ShapeError, "more positions"),
    (lambda: eo.scatter(eo.zeros((2, 3)), 0, [0, 1], eo.ones(2)), eo.ShapeError, "equally many axes"),
    (lambda: eo.scatter(eo.zeros((2, 3)), 0, [[0] * 4], eo.ones((1, 4))), eo.ShapeError, "beyond"),
    (lambda: eo.scatter_reduce(eo.zeros(3), 0, [-4], eo.ones(1), "amax"), eo.IndexingError, "outside"),
    (lambda: eo.scatter_reduce(eo.zeros(3), 0, [3], eo.ones(1), "prod"), eo.IndexingError, "outside"),
    (lambda: eo.scatter_reduce(eo.zeros(3), 0, [3], eo.ones(1), "sum"), eo.IndexingError, "outside"),
    (lambda: eo.scatter_reduce(eo.zeros(3), 0, [0], eo.ones(1), "median"), eo.ArgumentError, "'median'"),
    (lambda: eo.scatter_reduce([1j], 0, [0], [1j], "amax"), eo.DTypeError, "scatter_max"),
    (lambda: eo.index_reduce(eo.zeros(3), 0, [3], 1.0, "amin"), eo.IndexingError, "index_reduce:"),
    (lambda: eo.index_select(eo.zeros(3), 0, [[0]]), eo.ShapeError, "index_select:.*in a row"),
    (lambda: eo.index_select(eo.zeros(3), 0, [5]), eo.IndexingError, "index_select:"),
    (lambda: eo.index_copy(eo.zeros((2, 3)), 0, [0], eo.ones((2, 3))), eo.ShapeError, r"\(1, 3\)"),
    (lambda: eo.index_copy(eo.zeros(3), 0, [3], 1.0), eo.IndexingError, "index_copy:.*outside"),
    (lambda: eo.index_fill(eo.zeros(3), 0, [0], eo.ones(1)), eo.ShapeError, "single value"),
    (lambda: eo.index_fill(eo.zeros(3), 0, [-4], 1.0), eo.IndexingError, "index_fill:.*outside"),
    (lambda: eo.segment_sum(eo.ones(3), [0, 1]), eo.ShapeError, "one segment number"),
    (lambda: eo.segment_sum(eo.ones(2), [0, 2], 2), eo.IndexingError, "segment_sum:.*outside"),
    (lambda: eo.segment_max(eo.ones(2), [0, 2], 2), eo.IndexingError, "segment_max:"),
    (lambda: eo.segment_mean(eo.ones(2), [0, -3], 2), eo.IndexingError, "segment_mean:"),
    (lambda: eo.segment_prod(eo.ones(600), [2] * 600, 2), eo.IndexingError, "segment_prod:"),
    (lambda: eo.segment_min(eo.ones((600, 2)), [2] * 600, 2), eo.IndexingError, "segment_min:"),
    (lambda: eo.segment_sum(eo.ones(1), [0.5]), eo.IndexingError, "integers"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS)
def test_errors(call, kind, text):
    with pytest.raises(kind, match="(?s)" + text):
        call()


def test_a_loop_over_rows_costs_one_array():
    """Each of n scattered writes reads its own row, and the backward pass writes the gradient once."""
    n = 500
    x = tracked(np.arange(float(n)))
    total = 0
    for i in range(n):
        total = total + eo.index_select(x, 0, [i])[0] * i
    total.backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.arange(float(n)))
