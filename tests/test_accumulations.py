"""Running extremes and running logarithms of sums of exponentials; the Array API's cumulative functions."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import everyo as eo
from everyo.core.registry import op

inf, nan = math.inf, math.nan


INTEGERS = st.integers(-2, 2).map(float)


@st.composite
def scannable(draw, elements=INTEGERS):
    shape = draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5))
    x = draw(arrays.arrays("float64", shape, elements=elements))
    return x, draw(st.integers(-len(shape), len(shape) - 1))


def jacobians(f, x):
    """Return the Jacobian in reverse mode, which must be that in forward mode."""
    x = eo.asarray(np.asarray(x, "float64"))
    reverse = eo.jacrev(f)(x).numpy()
    np.testing.assert_allclose(eo.jacfwd(f)(x).numpy(), reverse, rtol=1e-14, atol=1e-15)
    return reverse


@given(case=scannable())
def test_values_are_numpys(case):
    x, axis = case
    np.testing.assert_array_equal(eo.cumulative_max(x, axis=axis).numpy(), np.maximum.accumulate(x, axis))
    np.testing.assert_array_equal(eo.cumulative_min(x, axis=axis).numpy(), np.minimum.accumulate(x, axis))
    for initial in (False, True):
        found = eo.cumulative_sum(x, axis=axis, include_initial=initial).numpy()
        np.testing.assert_array_equal(found, np.cumulative_sum(x, axis=axis, include_initial=initial))
        found = eo.cumulative_prod(x, axis=axis, include_initial=initial).numpy()
        np.testing.assert_array_equal(found, np.cumulative_prod(x, axis=axis, include_initial=initial))


@given(case=scannable(st.sampled_from([0.0, 1.0, 2.0, nan])))
def test_indices_are_those_of_the_last_extreme(case):
    x, axis = case
    for found, running in ((eo.cummax(x, axis), np.maximum), (eo.cummin(x, axis), np.minimum)):
        values, indices = np.asarray(found.values), np.asarray(found.indices)
        np.testing.assert_array_equal(values, running.accumulate(x, axis))
        rows, wanted = np.moveaxis(x, axis, -1), np.moveaxis(np.zeros(x.shape, int), axis, -1)
        for place in np.ndindex(rows.shape):
            so_far = rows[place[:-1]][: place[-1] + 1]
            best = running.reduce(so_far)
            wanted[place] = np.flatnonzero((so_far == best) | np.isnan(so_far))[-1]
        np.testing.assert_array_equal(indices, np.moveaxis(wanted, -1, axis))


@given(x=arrays.arrays("float64", st.integers(1, 7), elements=st.integers(0, 2).map(float)))
def test_equal_extremes_so_far_share_equally(x):
    for function, extreme in ((eo.cumulative_max, np.max), (eo.cumulative_min, np.min)):
        wanted = np.zeros((len(x), len(x)))
        for i in range(len(x)):
            here = x[: i + 1] == extreme(x[: i + 1])
            wanted[i, : i + 1] = here / here.sum()
        np.testing.assert_allclose(jacobians(function, x), wanted, rtol=1e-15, atol=0)
    np.testing.assert_array_equal(jacobians(eo.cumulative_max, x)[-1], eo.grad(eo.max)(eo.asarray(x)).numpy())


def test_nan_is_the_extreme():
    x = [1.0, nan, 2.0, nan]
    np.testing.assert_array_equal(eo.cumulative_max(eo.tensor(x)).numpy(), [1.0, nan, nan, nan])
    wanted = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 0.5, 0, 0.5]]
    np.testing.assert_array_equal(jacobians(eo.cumulative_max, x), wanted)


def test_numpys_accumulate_keeps_the_derivative():
    x = eo.tensor([[1.0, 3.0, 2.0], [4.0, 2.0, 5.0]], requires_grad=True)
    for function, wanted in ((np.maximum.accumulate, [[1, 2, 0], [2, 0, 1]]),
                             (np.minimum.accumulate, [[3, 0, 0], [1, 2, 0]])):  # fmt: skip
        (gradient,) = eo.autograd.grad(function(x, axis=1).sum(), x)
        assert gradient.tolist() == wanted
    assert np.maximum.accumulate(x).tolist() == [[1.0, 3.0, 2.0], [4.0, 3.0, 5.0]]


def test_other_dtypes_and_shapes():
    assert eo.cummax(eo.tensor([2, 3, 1])).values.tolist() == [2, 3, 3]
    assert eo.cummax(eo.tensor([[2, 3], [1, 5]])).values.tolist() == [2, 3, 3, 5]  # flattened
    assert eo.cumulative_sum(eo.tensor([True, True])).dtype == eo.int64
    assert eo.cumulative_sum(eo.tensor([1, 2], dtype=eo.int8), dtype=eo.int8).dtype == eo.int8
    assert eo.cumulative_sum(eo.zeros((2, 0)), axis=1, include_initial=True).tolist() == [[0.0], [0.0]]
    for function in (eo.cumulative_sum, eo.cumulative_prod, eo.cumulative_max, eo.cumulative_min):
        for x in (eo.ones((2, 2)), eo.tensor(1.0)):
            with pytest.raises(eo.ShapeError, match="the axis must be named"):
                function(x)


@given(case=scannable(st.floats(-700, 700)))
def test_logcumsumexp_is_numpys(case):
    x, axis = case
    np.testing.assert_allclose(
        eo.logcumsumexp(x, axis).numpy(), np.logaddexp.accumulate(x, axis), rtol=1e-12, atol=1e-12
    )


SEQUENCES = [
    [0.0, 1.0, -1.0, 0.5],
    [-1000.0, 0.0, 0.0, 1000.0, 999.0],  # no common scale holds them all
    [1e5, 1e5 - 1.0, 1e5 + 0.25],
    [-1e300, 1e300, 5.0],
    [math.log(0.25), math.log(0.25), math.log(0.5)],  # results near 0
    [700.0, -700.0, 700.0],
    [-745.0, -746.0, 0.0],
]


@pytest.mark.parametrize("x", SEQUENCES)
def test_logcumsumexp_against_mpmath(x):
    """Results to the rounding of a sum; weights ``exp(x[j] - result[i])`` relative to 1."""
    with mpmath.workdps(700):
        sums = [mpmath.fsum(mpmath.exp(mpmath.mpf(v)) for v in x[: i + 1]) for i in range(len(x))]
        values = [float(mpmath.log(s)) for s in sums]
        weights = [
            [float(mpmath.exp(mpmath.mpf(v)) / s) if j <= i else 0.0 for j, v in enumerate(x)]
            for i, s in enumerate(sums)
        ]
    np.testing.assert_allclose(eo.logcumsumexp(np.array(x)).numpy(), values, rtol=4e-16, atol=4e-16)
    np.testing.assert_allclose(jacobians(eo.logcumsumexp, x), weights, rtol=1e-14, atol=1e-300)


@pytest.mark.parametrize(
    "x",
    [
        [0.0, -25.0, 30.0, -25.0],
        [-25.0, 0.0],
        [-800.0, 0.0, -25.0, 1.0],
        [-1e-3, -7.0, -30.0],
        [0.0, -40.0, -40.0],
    ],
)
def test_logcumsumexp_near_zero_has_all_digits(x):
    with mpmath.workdps(400):
        sums = [mpmath.fsum(mpmath.exp(mpmath.mpf(v)) for v in x[: i + 1]) for i in range(len(x))]
        wanted = [float(mpmath.log(s)) for s in sums]
    np.testing.assert_allclose(eo.logcumsumexp(np.array(x)).numpy(), wanted, rtol=5e-15)
    columns = eo.logcumsumexp(np.array([x, x]).T, 0).numpy()
    np.testing.assert_allclose(columns[:, 1], wanted, rtol=5e-15)


@pytest.mark.parametrize("start", [0.0, -25.0])
def test_long_logcumsumexp_near_zero(start):
    rng = np.random.default_rng(0)
    for x in (rng.normal(size=10_000) - 25, np.linspace(-40, 0, 10_000), np.zeros(10_000)):
        x[0] = start
        total = [mpmath.mpf(0)]
        with mpmath.workdps(50):
            for v in x:
                total.append(total[-1] + mpmath.exp(mpmath.mpf(v)))
            wanted = np.array([float(mpmath.log(s)) for s in total[1:]])
        np.testing.assert_allclose(eo.logcumsumexp(x).numpy(), wanted, rtol=1e-14, atol=3e-15)


def test_logcumsumexp_at_infinities():
    x = [-inf, -inf, 1.0, inf, 2.0, inf]
    np.testing.assert_array_equal(eo.logcumsumexp(np.array(x)).numpy(), [-inf, -inf, 1.0, inf, inf, inf])
    wanted = np.zeros((6, 6))
    wanted[2, 2] = wanted[3, 3] = wanted[4, 3] = 1.0
    wanted[5, [3, 5]] = 0.5  # as in logsumexp, infinities are equal
    np.testing.assert_array_equal(jacobians(eo.logcumsumexp, x), wanted)
    np.testing.assert_array_equal(eo.logcumsumexp(np.array([0.0, nan])).numpy(), [0.0, nan])
    assert eo.logcumsumexp(eo.zeros((0,))).shape == (0,)
    assert eo.logcumsumexp(eo.tensor([1, 1])).dtype == eo.float64
    with pytest.raises(eo.DTypeError, match="real exponentials only"):
        eo.logcumsumexp(eo.tensor([1j]))


@pytest.mark.parametrize("x", [[0.0, 1.0, -1.0, 0.5], [-800.0, 0.3, 0.1, -0.2]])
def test_second_derivative_of_logcumsumexp(x):
    """``d2 y / dx2 = diag(w) - w w^T`` for the weights w of the last result."""
    w = np.exp(np.array(x) - eo.logcumsumexp(np.array(x)).numpy()[-1])
    hessian = eo.hessian(lambda t: eo.logcumsumexp(t)[-1])(eo.asarray(np.array(x))).numpy()
    np.testing.assert_allclose(hessian, np.diag(w) - np.outer(w, w), rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize("shape", [(70_001,), (300, 250), (7, 10_007)])
@pytest.mark.parametrize("reverse", [False, True])
def test_long_recurrences_in_blocks(shape, reverse):
    rng = np.random.default_rng(0)
    axis = len(shape) - 1
    a, b = rng.uniform(-1.1, 1.1, shape), rng.normal(size=shape)
    found = op.linear_recurrence(a, b, axis=axis, reverse=reverse)
    order = slice(None, None, -1) if reverse else slice(None)
    rows, factors = np.moveaxis(b, axis, 0)[order], np.moveaxis(a, axis, 0)[order]
    wanted, state = [], np.zeros(rows.shape[1:])
    for factor, row in zip(factors, rows, strict=True):
        state = factor * state + row
        wanted.append(state)
    np.testing.assert_allclose(np.moveaxis(found, axis, 0)[order], wanted, rtol=1e-9, atol=1e-9)


def test_long_recurrences_past_an_overflow():
    """The product of a block's factors overflows, or meets a zero, where no result does."""
    a, b = np.full(70_000, 10.0), np.zeros(70_000)
    b[-3:] = 1.0
    found = op.linear_recurrence(a, b, axis=0, reverse=False)
    assert found[-4:].tolist() == [0.0, 1.0, 11.0, 111.0]


PRODUCTS = {
    "prod": eo.prod,
    "nanprod": eo.nanprod,
    "cumulative_prod": lambda x: eo.cumulative_prod(x)[-1],
    "segment_prod": lambda x: eo.segment_prod(x, np.zeros(len(x), int), 1)[0],
    "scatter_reduce": lambda x: eo.scatter_reduce(np.ones(1), 0, np.zeros(len(x), int), x, "prod")[0],
    "reduce_window": lambda x: eo.reduce_window(x, "prod", x.shape)[0],
}


@pytest.mark.parametrize("transformed", [lambda f: f, eo.compile])
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_zero_wins_over_an_overflow_but_not_over_an_infinity(name, transformed):
    f = transformed(lambda x: PRODUCTS[name](x))
    with np.errstate(all="ignore"):
        for factors, product in (
            ([1e200, 1e200, 0.0], 0.0),
            ([0.0, -1e200, 1e200], -0.0),
            ([inf, 0.0, 2.0], nan),
            ([0.0, 1e200, -inf], nan),
            ([inf, -2.0, 1e200], -inf),
        ):
            np.testing.assert_array_equal(
                f(eo.asarray(np.array(factors))).item(), product, err_msg=str(factors)
            )


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_running_extremes_with_their_places_compile(name, axis):
    x = np.array([[1.0, 3.0, 3.0], [0.5, 2.0, 4.0], [5.0, 5.0, -1.0], [0.0, 5.0, 7.0]])
    better = np.greater if name == "cummax" else np.less
    places = np.zeros(x.shape, dtype=int)
    for k in range(1, x.shape[axis]):
        here, before = np.take(x, k, axis), np.take(places, k - 1, axis)
        best = np.take_along_axis(x, np.expand_dims(before, axis), axis).squeeze(axis)
        moved = np.where(better(here, best) | (here == best), k, before)
        places[(k,) if axis == 0 else (slice(None), k)] = moved
    compiled = eo.compile(lambda x: getattr(eo, name)(x, axis=axis))(eo.asarray(x))
    np.testing.assert_array_equal(compiled[1].numpy(), places)
    np.testing.assert_array_equal(compiled[0].numpy(), np.take_along_axis(x, places, axis))
    loss = lambda x: (getattr(eo, name)(x, axis=axis)[0] ** 2).sum()  # noqa: E731
    np.testing.assert_allclose(
        eo.compile(eo.grad(loss))(eo.asarray(x)).numpy(), eo.grad(loss)(eo.asarray(x)).numpy()
    )
