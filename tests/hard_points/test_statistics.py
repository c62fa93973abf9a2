"""Ties, NaN and infinities in order statistics, running extremes and covariances."""

import math

import numpy as np

import everyo as eo

from .reference import derivatives

INF, NAN = math.inf, math.nan


def test_rows_of_nan_have_a_nanmedian_of_slope_zero():
    _, (slopes,) = derivatives(
        lambda x: eo.nanmedian(x, 1), [[1.0, NAN, 3.0], [NAN, NAN, NAN]], weight=[1.0, 0.0]
    )
    np.testing.assert_array_equal(slopes, [[0.5, 0, 0.5], [0, 0, 0]])


def test_quantiles_between_infinities_do_not_move_with_the_probability():
    x = eo.asarray(np.array([INF, INF, INF]))
    value, (slope,) = derivatives(lambda q: eo.quantile(x, q), 0.3)
    assert (value, slope) == (INF, 0.0)


def test_more_quantiles_than_are_looked_for_one_by_one():
    x, q = [3.0, 1.0, 3.0, NAN, 1.0], [0.0, 1.0] * 35
    _, (slopes,) = derivatives(lambda x: eo.nanquantile(x, q), x)
    np.testing.assert_allclose(slopes, [17.5, 17.5, 17.5, 0.0, 17.5], rtol=1e-14)


def test_three_equal_maxima_so_far():
    value, (slopes,) = derivatives(
        eo.cumulative_max, [2.0, 2.0, 1.0, 2.0, 5.0], weight=[1.0, 2.0, 4.0, 6.0, 10.0]
    )
    np.testing.assert_array_equal(value, [2, 2, 2, 2, 5])
    np.testing.assert_allclose(slopes, [1 + 1 + 2 + 2, 1 + 2 + 2, 0, 2, 10], rtol=1e-15)


def test_the_largest_number_beside_nan():
    _, (slopes,) = derivatives(lambda x: eo.nanmax(x, 0), [[-INF, 2.0], [NAN, 2.0], [-INF, NAN]])
    np.testing.assert_array_equal(slopes, [[0.5, 0.5], [0, 0.5], [0.5, 0]])


def test_variances_of_a_batch():
    """Their rules count axes from the front: the batch, which comes first, must not be taken for one."""
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    for function in (eo.cov, lambda t: eo.var(t, axis=1), lambda t: eo.std(t, axis=0)):

        def pulled(t, function=function):
            return eo.grad(lambda t: (function(t) ** 2).sum())(t)

        def pushed(t, function=function):
            return eo.jvp(function, (t,), (t,))[1]

        for f in (pulled, pushed):
            wanted = np.stack([f(eo.asarray(row)).numpy() for row in x])
            np.testing.assert_allclose(eo.vmap(f)(eo.asarray(x)).numpy(), wanted, rtol=1e-12)
