"""Ties, NaN, infinities and zeros in choices, parts of numbers, scattering, segments and distances."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import everyo as eo

from .reference import agrees, derivatives, hessian

INF, NAN = math.inf, math.nan

# x1, x2, value and derivatives of fmax; fmin is its mirror image.
CHOICES = [
    (1.0, 2.0, 2.0, 0.0, 1.0),
    (2.0, 1.0, 2.0, 1.0, 0.0),
    (1.0, 1.0, 1.0, 0.5, 0.5),
    (NAN, 2.0, 2.0, 0.0, 1.0),
    (2.0, NAN, 2.0, 1.0, 0.0),
    (-INF, -INF, -INF, 0.5, 0.5),
    (INF, 1.0, INF, 1.0, 0.0),
    (NAN, -INF, -INF, 0.0, 1.0),
]


@pytest.mark.parametrize(("x1", "x2", "value", "by_x1", "by_x2"), CHOICES)
def test_choices_that_ignore_nan(x1, x2, value, by_x1, by_x2):
    for f, sign in ((eo.fmax, 1.0), (eo.fmin, -1.0)):
        found, (left, right) = derivatives(f, sign * x1, sign * x2)
        np.testing.assert_array_equal([found, left, right], [sign * value, by_x1, by_x2])


@pytest.mark.parametrize(
    ("x", "value", "slope"),
    [
        (NAN, 0.5, 0.0),
        (INF, 9.0, 0.0),
        (-INF, -1.7976931348623157e308, 0.0),
        (-2.5, -2.5, 1.0),
        (-0.0, -0.0, 1.0),
    ],
)
def test_nan_replaced(x, value, slope):
    found, (gradient,) = derivatives(lambda x: eo.nan_to_num(x, nan=0.5, posinf=9.0), x)
    np.testing.assert_array_equal([found, gradient], [value, slope])


def test_nan_replaced_in_each_part_of_a_complex_number():
    z = np.array([complex(NAN, 2.0), complex(1.0, INF), complex(1.0, 2.0), complex(INF, NAN)])
    x = eo.tensor(z, requires_grad=True)
    y = eo.nan_to_num(x, nan=3.0, posinf=4.0)
    assert y.tolist() == [3 + 2j, 1 + 4j, 1 + 2j, 4 + 3j]
    weights = np.array([5 + 6j, 5 + 6j, 5 + 6j, 5 + 6j])
    y.backward(weights)
    assert x.grad.tolist() == [6j, 5, 5 + 6j, 0]
    tangent = eo.jvp(lambda z: eo.nan_to_num(z, nan=3.0), (eo.tensor(z),), (eo.tensor(weights),))[1]
    assert tangent.tolist() == [6j, 5, 5 + 6j, 0]


# x1, x2: the quotient of the remainder is a whole number whatever x1 / x2 rounds to.
@pytest.mark.parametrize(
    ("x1", "x2"), [(1.3, 0.1), (-2.6, 0.7), (-0.9, 0.1), (7.0, -0.7), (1e17, 3.0), (5.0, INF), (0.0, 2.0)]
)
def test_derivatives_of_a_remainder_are_whole(x1, x2):
    value, (left, right) = derivatives(eo.fmod, x1, x2)
    whole = int(Fraction(x1) / Fraction(x2)) if math.isfinite(x2) else 0
    assert value.item() == (float(Fraction(x1) - whole * Fraction(x2)) if whole else x1)
    assert (left.item(), right.item()) == (1.0, -float(whole))
    tangent = eo.jvp(lambda x: eo.fmod(np.float64(x1), x), (eo.tensor(np.float64(x2)),), (np.float64(1.0),))[
        1
    ]
    assert tangent.item() == -float(whole)


def test_parts_of_special_numbers():
    for x, fraction, rest in ((INF, 0.0, INF), (-2.0, -0.0, -2.0), (-0.5, -0.5, -0.0), (NAN, NAN, NAN)):
        found = [y.item() for y in eo.modf(np.float64(x))]
        np.testing.assert_array_equal(found, [fraction, rest])
        assert [math.copysign(1, v) for v in found] == [math.copysign(1, v) for v in (fraction, rest)]
    for x, mantissa, exponent in (
        (5e-324, 0.5, -1073),
        (0.0, 0.0, 0),
        (1.7976931348623157e308, 1 - 2**-53, 1024),
    ):
        found, power = eo.frexp(np.float64(x))
        assert (found.item(), power.item()) == (mantissa, exponent)
    _, (slope,) = derivatives(lambda x: eo.frexp(x)[0], 12.0)
    assert slope.item() == 2.0**-4
    value, (slope,) = derivatives(lambda x: eo.ldexp(x, 1074), 5e-324)
    assert (value.item(), slope.item()) == (1.0, INF)  # 2**1074 is no float
    value, (slope,) = derivatives(lambda x: eo.copysign(x, -0.0), 3.0)
    assert (value.item(), slope.item()) == (-3.0, -1.0)
    value, (slope, other) = derivatives(eo.heaviside, 0.0, 0.25)
    assert (value.item(), slope.item(), other.item()) == (0.25, 0.0, 1.0)
    assert math.isnan(eo.heaviside(np.float64(NAN), 0.25).item())


def test_neighbours():
    for x, towards, expected in (
        (1.0, 2.0, 1 + 2**-52),
        (1.0, 1.0, 1.0),
        (0.0, -1.0, -5e-324),
        (INF, 0.0, None),
    ):
        found, (slope, other) = derivatives(eo.nextafter, x, towards)
        assert found.item() == (1.7976931348623157e308 if expected is None else expected)
        assert (slope.item(), other.item()) == (1.0, 0.0)


@pytest.mark.parametrize("weight", [0.0, 0.25, 0.5, 0.75, 1.0, 2.0])
def test_interpolation_is_exact_at_its_ends(weight):
    start, end = 0.1, 1e16 / 3
    value, (left, right, slope) = derivatives(eo.lerp, start, end, weight)
    exact = (1 - mpmath.mpf(weight)) * mpmath.mpf(start) + mpmath.mpf(weight) * mpmath.mpf(end)
    agrees(value.item(), exact, relative=0.0 if weight in (0.0, 1.0) else 2e-16)
    assert (left.item(), right.item(), slope.item()) == (1 - weight, weight, end - start)


@pytest.mark.parametrize(
    ("row", "largest", "smallest"),
    [
        ([1.0, 3.0, 3.0], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]),
        ([2.0, 2.0, 2.0], [1 / 3] * 3, [1 / 3] * 3),
        ([1.0, NAN, 2.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]),
        ([NAN, NAN, 2.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]),
        ([INF, INF, -INF], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]),
        ([-INF, -INF, -INF], [1 / 3] * 3, [1 / 3] * 3),
    ],
)
def test_extremes_of_segments(row, largest, smallest):
    ids = [2, 2, 2, 0]
    for f, expected in ((eo.segment_max, largest), (eo.segment_min, smallest)):
        _, (gradient,) = derivatives(lambda x, f=f: f(x, ids, 4), [*row, 5.0])
        np.testing.assert_allclose(gradient, [*expected, 1.0], rtol=1e-15)


@pytest.mark.parametrize("kind", ["amax", "amin"])
def test_what_was_there_may_be_the_extreme(kind):
    sign = 1.0 if kind == "amax" else -1.0
    x = np.array([NAN, 3.0, 2.0, NAN, 4.0]) * sign
    src = np.array([1.0, 3.0, 3.0, NAN, 3.0]) * sign
    value, (left, right) = derivatives(
        lambda x, s: eo.scatter_reduce(x, 0, [0, 1, 1, 3, 4], s, kind),
        x,
        src,
        weight=[1.0, 6.0, 1.0, 4.0, 1.0],
    )
    np.testing.assert_array_equal(value, np.array([NAN, 3.0, 2.0, NAN, 4.0]) * sign)
    assert (left.tolist(), right.tolist()) == ([1.0, 2.0, 1.0, 2.0, 1.0], [0.0, 2.0, 2.0, 2.0, 0.0])
    value, (left, right) = derivatives(
        lambda x, s: eo.scatter_reduce(x, 0, [0, 1, 1, 3, 4], s, kind, include_self=False), x, src
    )
    np.testing.assert_array_equal(value, np.array([1.0, 3.0, 2.0, NAN, 3.0]) * sign)
    assert (left.tolist(), right.tolist()) == ([0.0, 0.0, 1.0, 0.0, 0.0], [1.0, 0.5, 0.5, 1.0, 1.0])


def test_products_of_places_written_in_two_ways():
    """-1 and 1 are one place, also for positions of few bits."""
    for places in ([1, -1, 0, 1], np.array([1, 1, 0, 1], "uint8")):
        assert hessian(lambda x, i=places: eo.segment_prod(x, i, 2).sum(), [0.0, 3.0, 5.0, 0.0]) == [
            [0, 0, 0, 3],
            [0, 0, 0, 0],
            [0, 0, 0, 0],
            [3, 0, 0, 0],
        ]
    places = np.array([200, 200, 7, 200], "uint8")

    def f(x):
        return eo.segment_prod(x, places, 300).sum()

    assert hessian(f, [2.0, 3.0, 5.0, 7.0])[0] == [0, 7, 0, 3]
    forward = eo.jacfwd(eo.jacfwd(f))(eo.tensor([2.0, 3.0, 5.0, 7.0], dtype=eo.float64))
    assert forward[3].tolist() == [3, 2, 0, 0]


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 2.5, 3, 7, INF])
def test_no_distance(p):
    """Equal points: 0 with derivatives 0 to second order, in rows that other points share."""
    points = [[1.0, 2.0], [1.0, 2.0], [1.0, 5.0]]
    for f in (lambda x: eo.pdist(x, p), lambda x: eo.cdist(x, x, p)):
        _, (gradient,) = derivatives(
            f, points, weight=[1.0, 0.0, 0.0] if f(eo.tensor(points)).ndim == 1 else None
        )
        assert np.isfinite(gradient).all()
    value, (left, right) = derivatives(lambda a, b: eo.cdist(a, b, p), [[1.0, 2.0]], [[1.0, 2.0]])
    assert (value.tolist(), left.tolist(), right.tolist()) == ([[0.0]], [[0.0, 0.0]], [[0.0, 0.0]])

    same_points = eo.tensor([[1.0, 2.0], [1.0, 2.0]], dtype=eo.float64)
    for f in (
        lambda v: eo.cdist(eo.reshape(v, (1, 2)), same_points, p).sum(),
        lambda v: eo.cdist(same_points, eo.reshape(v, (1, 2)), p).sum(),
    ):
        assert hessian(f, [1.0, 2.0]) == [[0.0, 0.0], [0.0, 0.0]]
        forward = eo.jacfwd(eo.jacfwd(f))(eo.tensor([1.0, 2.0], dtype=eo.float64))
        assert forward.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_second_derivatives_of_a_distance():
    """``(1 - u u') / D`` for one pair, the negative of it across, and nothing for equal points."""
    points = eo.tensor([[3.0, 4.0], [0.0, 0.0], [3.0, 4.0]], dtype=eo.float64)
    block = np.array([[0.128, -0.096], [-0.096, 0.072]])
    expected = np.zeros((3, 2, 3, 2))
    for i, j in ((0, 1), (1, 2)):
        for a, b, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
            expected[a, :, b, :] += sign * block
    for distances in (eo.pdist, lambda x: eo.cdist(x, x) / 2):

        def f(x, distances=distances):
            return distances(x).sum()

        for outer, inner in itertools.product((eo.jacfwd, eo.jacrev), repeat=2):
            second = outer(inner(f))
            np.testing.assert_allclose(second(points).numpy(), expected, atol=1e-15)
            mapped = eo.vmap(second)(eo.stack([points + 1, -points]))
            np.testing.assert_allclose(mapped.numpy(), [expected, expected], atol=1e-15)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_distances_neither_over_nor_underflow(scale):
    value, (gradient, _) = derivatives(eo.cdist, [[3 * scale, 0.0]], [[0.0, -4 * scale]])
    agrees(value.item(), 5 * mpmath.mpf(scale))
    np.testing.assert_allclose(gradient, [[0.6, 0.8]], rtol=1e-14)


def test_close_points_far_from_the_origin():
    """Differences come first: squares of the coordinates, as in a matrix product, would lose them all."""
    a, b = [[1e8, 1e8]], [[1e8 + 3 * 2**-20, 1e8 + 4 * 2**-20]]
    value, (gradient, other) = derivatives(eo.cdist, a, b)
    assert value.item() == 5 * 2**-20
    np.testing.assert_allclose(gradient, [[-0.6, -0.8]], rtol=1e-15)
    np.testing.assert_allclose(other, [[0.6, 0.8]], rtol=1e-15)


def test_norms_at_their_bound():
    x = [[3.0, 4.0], [0.6, 0.8], [0.0, 0.0], [6.0, 8.0]]
    value, (gradient,) = derivatives(lambda x: eo.renorm(x, 2, 0, 5.0), x, weight=np.ones((4, 2)))
    np.testing.assert_allclose(value, [[3.0, 4.0], [0.6, 0.8], [0.0, 0.0], [3.0, 4.0]], rtol=1e-15)
    # The scaled row is 5 u: its derivative is 5 (1 - u u') / 10.
    np.testing.assert_allclose(gradient, [[1, 1], [1, 1], [1, 1], [0.08, -0.06]], rtol=1e-13)


def test_windows_in_the_padding():
    x = [0.0, 2.0]
    value, (gradient,) = derivatives(
        lambda x: eo.reduce_window(x, "prod", 2, 1, [(2, 1)]), x, weight=[1.0, 1.0, 1.0, 1.0]
    )
    assert value.tolist() == [1.0, 0.0, 0.0, 2.0]
    assert gradient.tolist() == [3.0, 1.0]
    value, (gradient,) = derivatives(
        lambda x: eo.reduce_window(x, "mean", 2, 1, [(2, 1)]), x, weight=[0.0, 1.0, 1.0, 1.0]
    )
    np.testing.assert_array_equal(value, [NAN, 0.0, 1.0, 2.0])
    np.testing.assert_array_equal(gradient, [1.5, 1.5])
    value, (gradient,) = derivatives(
        lambda x: eo.reduce_window(x, "max", 2, padding="same"), [3.0, 3.0, 1.0], weight=[1.0, 1.0, 1.0]
    )
    assert value.tolist() == [3.0, 3.0, 1.0]
    assert gradient.tolist() == [0.5, 1.5, 1.0]


@pytest.mark.parametrize(("p", "diagonal"), [(1.0, [2.0, 2.0]), (math.inf, [2.0, 0.0])])
def test_slopes_by_one_set_of_points_move_with_that_set_alone(p, diagonal):
    a = eo.tensor([[3.0, 1.0]], requires_grad=True)
    b = eo.tensor([[0.5, 0.0]], requires_grad=True)
    square = eo.sum(eo.cdist(a, b, p) ** 2)
    (slope,) = eo.autograd.grad(square, [a], create_graph=True)
    by_first, by_second = eo.autograd.grad(slope, [a, b], [eo.ones_like(slope)])
    total = [[sum(diagonal) * (d > 0) for d in diagonal]]
    assert by_first.tolist() == total
    assert by_second.tolist() == [[-x for x in row] for row in total]
