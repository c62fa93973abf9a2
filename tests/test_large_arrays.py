"""Large operands take quicker ways, in NumPy, SciPy or one pass, and give what the plain definition gives."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import everyo as eo
from everyo.backends import accelerated, scientific
from everyo.backends.elementary import where
from everyo.core.registry import op
from everyo.errors import UnsupportedOperationError

DRAW = np.random.default_rng(20240301)
SHAPE = (200, 250)
N = math.prod(SHAPE)


def same_bits(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_where_has_the_bits_of_numpy_however_many_are_chosen(part, dtype):
    condition = DRAW.random(SHAPE) < part
    a, b = DRAW.normal(size=(2, *SHAPE)).astype(dtype)
    a[0, :3], b[0, :3] = (np.nan, np.inf, -0.0), (-0.0, np.nan, -np.inf)
    one = np.asarray(-0.0, dtype)
    for x1, x2 in ((a, b), (a, 0), (0, b), (a, 2.5), (2, b), (one, b), (a, one)):
        found = where(condition, x1, x2)
        same_bits(found, np.where(condition, x1, x2).astype(dtype))
        assert not any(np.shares_memory(found, x) for x in (a, b))


@pytest.mark.parametrize("low", [-0.5, np.float64(-0.5), np.asarray(-0.5), np.full((1, 1), -0.5)])
def test_a_fused_rule_takes_numbers_beside_arrays(low):
    g, x = DRAW.normal(size=(2, *SHAPE))

    def rule(g, x, low):
        return g * (x - low)

    found = accelerated.fused(rule)(g, x, low)
    np.testing.assert_allclose(found, g * (x + 0.5), rtol=1e-15)


def test_a_number_of_more_axes_is_left_to_numpy():
    x = DRAW.normal(size=N)
    found = accelerated.fused(lambda x, y: x * y)(x, np.full((1, 1, 1), 2.0))
    assert found.shape == (1, 1, N)
    np.testing.assert_array_equal(found[0, 0], 2 * x)


def test_a_double_number_beside_single_ones_stays_double():
    x = DRAW.normal(size=N).astype("float32")
    found = accelerated.fused(lambda x, y: x * y)(x, np.float64(1 / 3))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, x * np.float64(1 / 3))


def test_the_gradient_of_clip_is_kept_inside_and_at_the_bounds():
    x = DRAW.integers(-3, 4, SHAPE).astype("float64")
    g = DRAW.normal(size=SHAPE)
    back = eo.vjp(lambda x: eo.clip(x, -1.0, 2.0), eo.tensor(x))[1](eo.tensor(g))[0]
    np.testing.assert_array_equal(back.numpy(), np.where((x < -1) | (x > 2), 0, g))


@pytest.mark.parametrize("size", [3, N])
def test_slopes_of_powers_at_the_corners(size):
    base = np.resize([0.0, 0.0, 0.0, 2.0, 0.5, -2.0], size)
    exponent = np.resize([0.0, 1.0, 2.0, 0.0, 3.0, 2.0], size)
    x, y = (eo.tensor(v, requires_grad=True) for v in (base, exponent))
    with np.errstate(all="ignore"):
        eo.power(x, y).sum().backward()
    # y * x**(y - 1), 0 where y = 0; x**y * log(x), 0 at 0**y and NaN for a negative base
    np.testing.assert_allclose(x.grad.numpy(), np.resize([0, 1, 0, 0, 0.75, -4], size), rtol=1e-12)
    expected = [0, 0, 0, math.log(2), 0.125 * math.log(0.5), math.nan]
    np.testing.assert_allclose(y.grad.numpy(), np.resize(expected, size), rtol=1e-12)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("scale", [1.0, 1e-320, 1e300])
def test_the_slope_of_a_norm_neither_over_nor_underflows(axis, scale):
    x = DRAW.integers(1, 5, SHAPE).astype("float64") * scale
    x[:, 0] = x[0] = 0.0
    norms = np.sqrt(np.sum((x / scale) ** 2, axis=axis, keepdims=True))
    expected = x / scale / np.where(norms == 0, 1, norms) * 3.0
    got = eo.grad(lambda x: 3 * eo.linalg.vector_norm(x, axis=axis).sum())(eo.tensor(x)).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-3 if scale < 1e-300 else 1e-13)


@pytest.mark.parametrize("kind", "fdFD")
@pytest.mark.parametrize("size", [99, 100, 131])
def test_an_inverse_and_a_determinant_from_the_same_factors(kind, size):
    x = DRAW.normal(size=(size, size)) + 1j * DRAW.normal(size=(size, size)) * (kind in "FD")
    x = (x / 10).astype(kind) if kind in "FD" else (x.real / 10).astype(kind)
    inverse, determinant = scientific.inverse_and_determinant(x)
    assert inverse.dtype == determinant.dtype == x.dtype
    loose = 2e4 * np.finfo(kind).eps
    np.testing.assert_allclose(inverse @ x, np.eye(size), atol=loose)
    np.testing.assert_array_equal(inverse, scientific.inverse(x))
    np.testing.assert_allclose(determinant, np.linalg.det(x.astype("D" if kind in "FD" else "d")), rtol=loose)


def test_pivots_whose_product_leaves_the_floats_half_way():
    x = np.diag(np.repeat([1e10, 1e-10], 60))
    inverse, determinant = scientific.inverse_and_determinant(x)
    assert determinant == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose(np.diag(inverse), np.repeat([1e-10, 1e10], 60), rtol=1e-15)


def test_a_large_singular_matrix_is_named():
    x = np.eye(120)
    x[7] = x[8]
    with pytest.raises(eo.LinAlgError, match="inv"):
        eo.linalg.inv(eo.tensor(x))
    back = eo.grad(eo.linalg.det)(eo.tensor(x)).numpy()
    expected = np.zeros((120, 120))
    expected[7, 7], expected[8, 7] = 1, -1  # the only cofactors that are not 0
    np.testing.assert_allclose(back, expected, atol=1e-12)


def test_the_gradient_of_a_determinant_is_the_cofactors():
    x = DRAW.normal(size=(110, 110)) / 10
    back = eo.grad(eo.linalg.det)(eo.tensor(x)).numpy()
    for i, j in ((0, 0), (3, 7), (109, 50)):
        minor = np.delete(np.delete(x, i, 0), j, 1)
        assert back[i, j] == pytest.approx((-1) ** (i + j) * np.linalg.det(minor), rel=1e-8)


@pytest.mark.parametrize("name", ["inverse", "distances"])
def test_without_scipy_numpy_computes(name, monkeypatch):
    def absent(*arguments, **options):
        raise UnsupportedOperationError("SciPy is not installed", operation=name)

    monkeypatch.setattr(scientific, "lapack", absent)
    monkeypatch.setattr(scientific._distance, "cdist", absent, raising=False)
    x = DRAW.normal(size=(400, 3))
    if name == "inverse":
        found = scientific.inverse(x[:120] @ x[:120].T + np.eye(120))
        np.testing.assert_allclose(found @ (x[:120] @ x[:120].T + np.eye(120)), np.eye(120), atol=1e-9)
    else:
        expected = [math.dist(x[i], x[j]) for i, j in ((0, 1), (7, 399), (5, 5))]
        found = eo.cdist(x, x).numpy()
        np.testing.assert_allclose([found[0, 1], found[7, 399], found[5, 5]], expected, rtol=1e-14)


def test_distances_of_many_points_also_where_squares_leave_the_floats():
    x, y = DRAW.normal(size=(400, 2)), DRAW.normal(size=(400, 2))
    x[0], y[0] = (3e200, 4e200), (0.0, 0.0)
    x[1], y[1] = (3e-200, 4e-200), (3e-200, 4e-200)
    found = eo.cdist(x, y).numpy()
    assert found[0, 0] == pytest.approx(5e200, rel=1e-15)
    assert found[1, 0] == pytest.approx(5e-200, rel=1e-15)
    assert found[1, 1] == 0
    np.testing.assert_allclose(found[2:, 2:], np.hypot(*(x[2:, None] - y[2:]).T).T, rtol=1e-15)


@pytest.mark.parametrize("p", [0, 1, 1.5, 2, 3, math.inf])
def test_slopes_of_distances_in_every_norm(p):
    x, y = DRAW.normal(size=(4, 3)), DRAW.normal(size=(5, 3))
    g = DRAW.normal(size=(4, 5))
    eo.testing.gradcheck(lambda x, y: (eo.cdist(x, y, p) * eo.tensor(g)).sum(), (eo.tensor(x), eo.tensor(y)))
    d = np.abs(x[:, None] - y)
    norm = {0: (d > 0).sum(-1), math.inf: d.max(-1)}.get(p)
    expected = (d**p).sum(-1) ** (1 / p) if norm is None else norm
    np.testing.assert_allclose(eo.cdist(x, y, p).numpy(), expected, rtol=1e-14)


def test_distances_of_integers_that_have_no_negatives():
    x, y = np.array([[1, 5]], "uint8"), np.array([[3, 2]], "uint8")
    assert eo.cdist(x, y, p=1).item() == 5


def test_the_cotangent_of_second_points_lies_transposed():
    w, x, y = DRAW.normal(size=(40, 30)), DRAW.normal(size=(30, 2)), DRAW.normal(size=(40, 2))
    found = op.pair_pulls(w.T, x, y, np.ones_like(w.T))
    np.testing.assert_allclose(found, np.einsum("ji,ijk->ik", w, x[:, None] - y), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 5, 16, 200])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_of_short_segments(length, reverse):
    x = DRAW.integers(-9, 9, 3001).astype("float64")
    joined = np.arange(3001) % length != 0
    joined[1000:1003] = [False, True, False]
    order = np.arange(3001)[::-1] if reverse else np.arange(3001)
    expected, sums = np.zeros(3001), 0.0
    for i in order:
        begins = not joined[i] if not reverse else i == 3000 or not joined[i + 1]
        sums = x[i] + (0 if begins else sums)
        expected[i] = sums
    found = op.segment_sums(x, joined, axis=0, reverse=reverse)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(5,), (1,), (4, 3), (2, 3, 4)])
@pytest.mark.parametrize("n", [1, 2])
def test_differences_and_what_flows_back(shape, n):
    for axis in range(len(shape)):
        x = DRAW.integers(-9, 9, shape).astype("float64")
        out = eo.diff(x, n, axis).numpy()
        np.testing.assert_array_equal(out, np.diff(x, n, axis))
        g = DRAW.integers(-9, 9, out.shape).astype("float64")
        back = eo.vjp(lambda x, axis=axis: eo.diff(x, n, axis), eo.tensor(x))[1](eo.tensor(g))[0].numpy()
        units = np.eye(x.size).reshape(x.size, *shape)  # the transpose, by its matrix
        matrix = np.diff(units, n, axis + 1).reshape(x.size, -1)
        np.testing.assert_array_equal(back.ravel(), matrix @ g.ravel())


def test_differences_of_unsigned_integers_wrap_as_in_numpy():
    x = np.array([3, 1, 5], "uint8")
    np.testing.assert_array_equal(eo.diff(x).numpy(), np.diff(x))


@pytest.mark.parametrize("index", [0, 1, 2])
def test_many_positions_along_one_axis(index):
    x = DRAW.normal(size=(7, 8, 9))
    places = DRAW.integers(-7, 7, (30, 30))
    for shape in ((30, 30), (900,)):
        at = (slice(None),) * index + (places.reshape(shape),)
        np.testing.assert_array_equal(eo.tensor(x)[at].numpy(), x[at])
    with pytest.raises(eo.IndexingError):
        eo.tensor(x)[(slice(None),) * index + (np.full(600, 9),)]


@pytest.mark.parametrize(("low", "high"), [(0, 10), (-10, 10), (-35, 50), (0, 11), (-11, 0)])
def test_positions_are_wrapped_around(low, high):
    x, places = np.arange(10.0), np.arange(low, high)
    np.testing.assert_array_equal(eo.take(x, places, mode="wrap").numpy(), np.take(x, places, mode="wrap"))


@pytest.mark.parametrize("function", [eo.concat, eo.concatenate])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int8"])
def test_joined_in_a_dtype(function, dtype):
    parts = [np.array([1.5, -2.0]), np.array([3, 4]), np.array([True])]
    found = function([eo.tensor(p) for p in parts], axis=0, dtype=dtype)
    same_bits(found.numpy(), np.concatenate(parts, dtype=dtype, casting="unsafe"))
    x = eo.tensor(parts[0], requires_grad=True)
    if dtype != "int8":
        out = function([x, eo.tensor(parts[1])], axis=0, dtype=dtype)
        out.backward(eo.tensor(np.array([1, 2, 3, 4], dtype)))
        same_bits(x.grad.numpy(), np.array([1.0, 2.0]))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_variances_around_a_known_mean(axis):
    x = DRAW.normal(size=(20, 30)) + 5
    mean = x.mean(axis=axis, keepdims=True)
    known = eo.tensor(mean)
    for keepdims in (False, True):
        found = eo.var(x, axis, mean=known, keepdims=keepdims).numpy()
        np.testing.assert_allclose(found, x.var(axis=axis, keepdims=keepdims), rtol=1e-14)
    back = eo.grad(lambda x: eo.var(x, axis, mean=known).sum())(eo.tensor(x)).numpy()
    number = x.size if axis is None else x.shape[axis]
    np.testing.assert_allclose(back, 2 * (x - mean) / number, rtol=1e-14)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("part", [0.005, 0.3, 0.995])
def test_variances_beside_few_and_many_nan(axis, part):
    x = DRAW.normal(size=SHAPE) + 100
    x[DRAW.random(SHAPE) < part] = np.nan
    x[0], x[:, 0] = 1.0, 2.0
    np.testing.assert_allclose(eo.nanvar(x, axis).numpy(), np.nanvar(x, axis=axis), rtol=1e-12, atol=1e-25)
    np.testing.assert_allclose(eo.nanstd(x, axis).numpy(), np.nanstd(x, axis=axis), rtol=1e-12, atol=1e-12)


def test_a_running_product_before_each_element():
    x = DRAW.integers(1, 4, (3, 6)).astype("float64")
    for axis, reverse in itertools.product((0, 1), (False, True)):
        turned = np.flip(x, axis) if reverse else x
        expected = np.cumprod(turned, axis) / turned
        expected = np.flip(expected, axis) if reverse else expected
        found = op.cumprod(x, axis=axis, reverse=reverse, exclusive=True)
        np.testing.assert_allclose(found, expected, rtol=1e-15)
