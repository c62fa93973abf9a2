"""Searches in sorted vectors, interpolation, histograms and counts: values against NumPy, derivatives."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import everyo as eo

inf, nan = math.inf, math.nan
HALVES = st.integers(-6, 6).map(lambda n: n / 2)


def leaf(x):
    return eo.tensor(np.asarray(x, "float64"), requires_grad=True)


# ---- places


@given(
    table=arrays.arrays("float64", st.integers(0, 6), elements=HALVES).map(np.sort),
    x=arrays.arrays("float64", arrays.array_shapes(min_dims=0, max_dims=2, max_side=4), elements=HALVES),
    side=st.sampled_from(["left", "right"]),
)
def test_searches_are_numpys(table, x, side):
    found = eo.searchsorted(table, x, side=side)
    assert found.dtype == eo.int64
    np.testing.assert_array_equal(found.numpy(), np.searchsorted(table, x, side=side))
    order = np.random.default_rng(0).permutation(len(table))
    sorter = np.argsort(table[order], stable=True)
    np.testing.assert_array_equal(eo.searchsorted(table[order], x, side, sorter).numpy(), found.numpy())
    for bins in (table, table[::-1]):
        found = eo.digitize(x, bins, right=side == "right").numpy()
        np.testing.assert_array_equal(found, np.digitize(x, bins, right=side == "right"))


def test_errors_of_searches():
    with pytest.raises(eo.ShapeError, match="must form a vector"):
        eo.searchsorted(eo.zeros((2, 2)), 1.0)
    with pytest.raises(eo.ArgumentError, match="no such side"):
        eo.searchsorted(eo.zeros(2), 1.0, side="middle")
    with pytest.raises(eo.ArgumentError, match="the bins are in no order"):
        eo.digitize(eo.zeros(2), eo.tensor([0.0, 2.0, 1.0]))
    assert eo.searchsorted([1, 2], 1.5).item() == 1


# ---- interpolation


@st.composite
def polygons(draw):
    knots = np.sort(draw(arrays.arrays("float64", st.integers(1, 6), elements=HALVES, unique=True)))
    values = draw(arrays.arrays("float64", len(knots), elements=HALVES))
    points = st.sampled_from([*knots, -9.0, 9.0, inf, -inf, nan]) | st.floats(-4, 4)
    return draw(arrays.arrays("float64", st.integers(1, 6), elements=points)), knots, values


@given(case=polygons(), ends=st.tuples(st.none() | HALVES, st.none() | HALVES))
def test_interpolation_is_numpys(case, ends):
    x, knots, values = case
    left, right = ends
    found = eo.interp(x, knots, values, left=left, right=right).numpy()
    np.testing.assert_allclose(found, np.interp(x, knots, values, left, right), rtol=1e-13, atol=1e-13)
    found = eo.interp(x[0], knots, values * 1j).item()
    np.testing.assert_allclose(found, np.interp(x[0], knots, values * 1j), rtol=1e-13, atol=1e-13)
    finite = x[np.isfinite(x)]
    inside = knots % 2.5
    assume(len(set(inside)) == len(inside) and finite.size)
    found = eo.interp(finite, knots, values, period=2.5).numpy()
    np.testing.assert_allclose(found, np.interp(finite, knots, values, period=2.5), rtol=1e-12, atol=1e-12)


def slopes(x):
    """Return the derivatives at `x` of a polygon with slopes 4, -2, 1 by the point, the knots, the values."""
    point, knots, values = leaf(x), leaf([0.0, 1.0, 2.0, 4.0]), leaf([0.0, 4.0, 2.0, 4.0])
    eo.interp(point, knots, values).backward()
    return point.grad.item(), knots.grad.tolist(), values.grad.tolist()


def test_derivatives_inside_at_the_knots_and_outside():
    assert slopes(0.25) == (4.0, [-3.0, -1.0, 0.0, 0.0], [0.75, 0.25, 0.0, 0.0])
    assert slopes(3.5) == (1.0, [0.0, 0.0, -0.25, -0.75], [0.0, 0.0, 0.25, 0.75])
    assert slopes(1.0) == (-2.0, [0.0, 2.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0])  # the piece on its right
    assert slopes(0.0) == (4.0, [-4.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0])
    assert slopes(4.0) == (1.0, [0.0, 0.0, 0.0, -1.0], [0.0, 0.0, 0.0, 1.0])  # the last: on its left
    assert slopes(-1.0) == (0.0, [0.0] * 4, [1.0, 0.0, 0.0, 0.0])
    assert slopes(9.0) == (0.0, [0.0] * 4, [0.0, 0.0, 0.0, 1.0])
    assert slopes(-inf) == (0.0, [0.0] * 4, [1.0, 0.0, 0.0, 0.0])


def test_second_derivatives_of_interpolation():
    """``d2 y / dx dknots`` is the slope divided by the width at one end of the piece, its negative beyond."""

    def slope_in(knots):
        return eo.grad(lambda x: eo.interp(x, knots, eo.asarray([0.0, 4.0, 2.0])))(eo.asarray(0.25))

    found = eo.grad(slope_in)(eo.asarray([0.0, 1.0, 2.0])).tolist()
    assert found == [4.0, -4.0, 0.0]


def test_the_values_at_the_ends_have_a_gradient():
    left, right = leaf(7.0), leaf(8.0)
    out = eo.interp([-1.0, 0.5, 3.0, 4.0], [0.0, 1.0], [0.0, 1.0], left=left, right=right)
    out.sum().backward()
    assert (out.tolist(), left.grad.item(), right.grad.item()) == ([7.0, 0.5, 8.0, 8.0], 1.0, 2.0)


def test_repeated_knots():
    knots, values = [0.0, 1.0, 1.0, 2.0, 2.0], [0.0, 1.0, 5.0, 6.0, 9.0]
    x = np.array([0.5, 1.0, 1.5, 2.0])
    np.testing.assert_array_equal(eo.interp(x, knots, values).numpy(), np.interp(x, knots, values))
    gradient = eo.grad(lambda v: eo.interp(eo.asarray(x), knots, v).sum())(eo.asarray(np.array(values)))
    np.testing.assert_array_equal(gradient.numpy(), [0.5, 0.5, 1.5, 0.5, 1.0])


def test_dtypes_and_errors_of_interpolation():
    assert eo.interp(eo.tensor([0.5]), [0.0, 1.0], [1.0, 2.0]).dtype == eo.float32
    assert eo.interp([1], [0, 2], [0, 4]).tolist() == [2.0]
    with pytest.raises(eo.ShapeError, match="a value for each knot"):
        eo.interp(0.5, [0.0, 1.0], [1.0])
    with pytest.raises(eo.ShapeError, match="must form a vector"):
        eo.interp(0.5, [], [])
    with pytest.raises(eo.DTypeError, match="points and knots are real"):
        eo.interp(0.5j, [0.0, 1.0], [1.0, 2.0])
    with pytest.raises(eo.ArgumentError, match="period cannot be 0"):
        eo.interp(0.5, [0.0, 1.0], [1.0, 2.0], period=0)


# ---- counts


BINS = st.integers(1, 5) | st.sampled_from([[0.0, 1.0], [-1.0, 0.0, 0.0, 2.5], [-3.0, -0.5, 0.5]])


@given(
    x=arrays.arrays("float64", st.integers(0, 8), elements=HALVES),
    bins=BINS,
    ends=st.none() | st.sampled_from([(-1.0, 1.0), (0.0, 0.0), (-2.5, 7.0)]),
    weighted=st.booleans(),
    density=st.booleans(),
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_histograms_are_numpys(x, bins, ends, weighted, density):
    weights = np.cos(np.arange(x.size)) if weighted else None
    counts, edges = eo.histogram(x, bins, ends, density, weights)
    wanted, bounds = np.histogram(x, bins, ends, density, weights)
    assert weighted or counts.dtype == wanted.dtype
    np.testing.assert_allclose(counts.numpy(), wanted, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(edges.numpy(), bounds, rtol=1e-15, atol=1e-15)
    np.testing.assert_array_equal(eo.histogram_bin_edges(x, bins, ends).numpy(), edges.numpy())


@given(x=arrays.arrays("float64", st.tuples(st.integers(1, 8), st.just(2)), elements=HALVES), bins=BINS)
def test_histograms_of_points_are_numpys(x, bins):
    assume(isinstance(bins, int) or len(set(bins)) == len(bins))
    weights = np.cos(np.arange(len(x)))
    for density in (False, True) if isinstance(bins, int) else (False,):
        found, edges = eo.histogramdd(x, [bins, 3], density=density, weights=weights)
        wanted, bounds = np.histogramdd(x, [bins, 3], density=density, weights=weights)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-10, atol=1e-12)
        for e, b in zip(edges, bounds, strict=True):
            np.testing.assert_allclose(e.numpy(), b, rtol=1e-15, atol=1e-15)
    found, xs, ys = eo.histogram2d(x[:, 0], x[:, 1], 3, range=[(-3, 3), (-2, 2)])
    wanted = np.histogram2d(x[:, 0], x[:, 1], 3, range=[(-3, 3), (-2, 2)])
    for f, w in zip((found, xs, ys), wanted, strict=True):
        np.testing.assert_allclose(f.numpy(), w, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("rule", ["auto", "fd", "doane", "scott", "stone", "rice", "sturges", "sqrt"])
def test_rules_for_the_number_of_bins(rule):
    x = np.random.default_rng(0).normal(size=50)
    for found, wanted in zip(eo.histogram(x, rule), np.histogram(x, rule), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted)


WEIGHTS = ["bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "float16", "float32", "float64"]
LARGE = {"b": 1, "i": 2**62, "u": 2**32 - 1, "f": 30000}


def largest(dtype):
    kind = np.dtype(dtype).kind
    return min(LARGE[kind], int(np.iinfo(dtype).max)) if kind in "iu" else LARGE[kind]


@pytest.mark.parametrize("dtype", WEIGHTS)
def test_weights_of_counts_are_added_up_in_float64(dtype):
    """Small integers wrapped around; a density of float16 was 0, as the sum overflowed."""
    x, numbers = np.array([0.1, 0.7, 0.2, 0.9, 0.8]), np.array([0, 1, 1, 0, 2])
    weights = (np.array([1, 0.75, 0.5, 0.25, 0.5]) * largest(dtype)).astype(dtype)
    own = eo.asarray(weights)
    kept = "float64" if weights.dtype.kind in "biu" else dtype
    for counted in (
        eo.bincount(eo.asarray(numbers), own, 4),
        eo.bincount(numbers, own, 4),
        np.bincount(eo.asarray(numbers), own, 4),
        eo.compile(lambda w: eo.bincount(numbers, w, 4))(own),
        eo.vmap(lambda w: eo.bincount(numbers, w, 4))(own[None])[0],
    ):
        assert counted.dtype == kept
        np.testing.assert_allclose(counted.numpy(), np.bincount(numbers, weights, 4), rtol=1e-3)
    for density in (False, True):
        wanted = np.histogram2d(x, x, 3, density=density, weights=weights)[0]
        for points in (eo.asarray(x), eo.asarray(x.astype("float32"))):
            found, _, _ = eo.histogram2d(points, points, 3, density=density, weights=own)
            again, _ = eo.histogramdd([points, points], 3, density=density, weights=own)
            np.testing.assert_array_equal(again.numpy(), found.numpy())
            assert found.dtype == (np.result_type(kept, points.dtype) if density else kept)
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-3)
        named = np.histogram2d(eo.asarray(x), eo.asarray(x), 3, density=density, weights=own)[0]
        np.testing.assert_allclose(named.numpy(), wanted, rtol=1e-3)


def test_densities_of_float16_and_of_integer_edges():
    x, weights = np.array([0.1, 0.7, 0.2, 0.9]), np.array([3e4, 4e4, 100, 2e4])
    half = eo.asarray(weights.astype("float16"))
    for points in (eo.asarray(x), eo.asarray(x.astype("float16"))):
        found, edges = eo.histogram(points, 2, density=True, weights=half)
        assert found.dtype == edges.dtype
        np.testing.assert_allclose(found.numpy(), np.histogram(x, 2, density=True, weights=weights)[0], 2e-3)
    slopes = eo.grad(lambda w: eo.histogram(eo.asarray(x), 2, density=True, weights=w)[0][0])(half)
    wide = eo.grad(lambda w: eo.histogram(eo.asarray(x), 2, density=True, weights=w)[0][0])(
        eo.asarray(weights)
    )
    np.testing.assert_allclose(slopes.numpy(), wide.numpy(), rtol=2e-3, atol=1e-7)
    points, edges = np.array([-50, 50, 110], np.int8), np.array([-100, 100, 120], np.int8)
    wanted = [2 / 3 / 200, 1 / 3 / 20]
    np.testing.assert_allclose(eo.histogram(points, edges, density=True)[0].numpy(), wanted)
    np.testing.assert_allclose(eo.histogramdd([points], [edges], density=True)[0].numpy(), wanted)


def test_derivatives_of_histograms():
    x, weights = leaf([0.5, 1.0, 2.0, 9.0, 4.0]), leaf([1.0, 2.0, 4.0, 8.0, 16.0])
    counts, _ = eo.histogram(x, [0.0, 1.0, 2.0, 4.0], weights=weights)
    assert counts.tolist() == [1.0, 2.0, 20.0]
    (counts * eo.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert weights.grad.tolist() == [1.0, 10.0, 100.0, 0.0, 100.0]
    assert x.grad is None or x.grad.tolist() == [0.0] * 5
    edges = eo.grad(lambda t: eo.histogram(t, 2)[1][1])(leaf([3.0, 1.0, 2.0]).detach())
    assert edges.tolist() == [0.5, 0.5, 0.0]
    density = eo.grad(lambda t: eo.histogram(t, 2, density=True)[0][0])(leaf([0.0, 4.0, 1.0]).detach())
    np.testing.assert_allclose(density.numpy(), [1 / 12, -1 / 12, 0.0], rtol=1e-14)  # 2/3 of 2 / (b - a)
    total = eo.grad(lambda w: eo.histogram(x.detach(), 3, weights=w, density=True)[0][0])(weights.detach())
    assert abs((total * weights.detach()).sum().item()) < 1e-15  # it does not change with all weights alike


@pytest.mark.parametrize("rule", ["auto", "fd", "doane", "scott", "stone", "rice", "sturges", "sqrt"])
@pytest.mark.parametrize("density", [False, True])
def test_derivatives_of_histograms_of_rules(rule, density):
    """A rule chooses how many bins there are; where they lie depends on the elements as without it."""
    x = eo.asarray(np.random.default_rng(0).normal(size=50))
    width = np.histogram_bin_edges(x.numpy(), rule).size

    def tested(t):
        counts, edges = eo.histogram(t, rule, density=density)
        return (edges**3).sum() + (counts * counts).sum()

    eo.testing.gradcheck(lambda t: eo.histogram_bin_edges(t, rule), (x,))
    eo.testing.gradcheck(tested, (x,))
    eo.testing.gradgradcheck(tested, (x,))
    moved = eo.jvp(lambda t: eo.histogram(t, rule)[1], (x,), (eo.ones_like(x),))[1]
    np.testing.assert_allclose(moved.numpy(), np.ones(width), rtol=1e-14)  # as all elements do
    assert eo.grad(lambda t: eo.histogram(t, rule, range=(-1, 1))[1].sum())(x).tolist() == [0.0] * 50


@given(x=arrays.arrays("int64", st.integers(0, 8), elements=st.integers(0, 5)), least=st.integers(0, 8))
def test_counts_are_numpys(x, least):
    np.testing.assert_array_equal(eo.bincount(x, minlength=least).numpy(), np.bincount(x, minlength=least))
    weights = np.cos(np.arange(x.size)) + 1j
    found = eo.bincount(x, weights, least).numpy()
    np.testing.assert_allclose(found.real, np.bincount(x, weights.real, least), rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(found.imag, np.bincount(x, weights.imag, least), rtol=1e-14, atol=1e-15)


def test_gradient_of_weighted_counts():
    weights = leaf([1.0, 2.0, 3.0])
    (eo.bincount([2, 0, 2], weights) * eo.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert weights.grad.tolist() == [100.0, 1.0, 100.0]
    _, pushed = eo.jvp(lambda n: eo.bincount([2, 0, 2], n), (weights.detach(),), (eo.ones_like(weights),))
    assert pushed.tolist() == [1.0, 0.0, 2.0]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: eo.bincount([-1, 2]), eo.ArgumentError, "a number is negative"),
        (lambda: eo.bincount([1], minlength=-1), eo.ArgumentError, "no negative counts"),
        (lambda: eo.bincount([1.5]), eo.DTypeError, "vector of integers"),
        (lambda: eo.bincount([[1]]), eo.ShapeError, "vector of integers"),
        (lambda: eo.bincount([1, 2], [1.0]), eo.ShapeError, "a weight for each"),
        (lambda: eo.histogram([1.0], 0), eo.ArgumentError, "at least one bin"),
        (lambda: eo.histogram([1.0], [2.0, 1.0]), eo.ArgumentError, "ascending order"),
        (lambda: eo.histogram([1.0], 2, range=(2, 1)), eo.ArgumentError, "no such range"),
        (lambda: eo.histogram([1.0, nan], 2), eo.ArgumentError, "not finite"),
        (lambda: eo.histogram([1j]), eo.DTypeError, "no order of complex"),
        (lambda: eo.histogram([1.0], weights=[1.0, 2.0]), eo.ShapeError, "a weight for each"),
        (lambda: eo.histogramdd(eo.ones((3, 2)), [2]), eo.ShapeError, "as many as the coordinates"),
    ],
)
def test_errors_of_counts(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
