"""Polynomials, convolutions of vectors, grids of positions, blocks and slices: values against NumPy."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import everyo as eo
from everyo.testing import check_jvp, gradcheck, gradgradcheck

RNG = np.random.default_rng(0)
QUARTERS = st.integers(-8, 8).map(lambda n: n / 4)


def vectors(least=1, most=6, dtype="float64"):
    elements = {"float64": QUARTERS, "int64": st.integers(-4, 4)}[dtype]
    return arrays.arrays(dtype, st.integers(least, most), elements=elements)


KINDS = st.sampled_from(["float64", "int64"]).flatmap(lambda dtype: vectors(dtype=dtype))


def near(found, wanted, tol=1e-12):
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(np.asarray(found.detach()), wanted, rtol=tol, atol=tol)


# ---- convolution


@given(x=KINDS, v=KINDS, mode=st.sampled_from(["full", "same", "valid"]), turn=st.booleans())
def test_convolutions_are_numpys(x, v, mode, turn):
    v = v * 1j if turn else v
    near(eo.convolve(x, v, mode), np.convolve(x, v, mode))
    near(eo.correlate(x, v, mode), np.correlate(x, v, mode))
    near(eo.correlate(x * 1j, v, mode), np.correlate(x * 1j, v, mode))


def test_errors_of_convolutions():
    for function in (eo.convolve, eo.correlate):
        with pytest.raises(eo.ShapeError, match="two vectors"):
            function(eo.ones((2, 2)), eo.ones(2))
        with pytest.raises(eo.ShapeError, match="not empty"):
            function(eo.ones(2), eo.zeros((0,)))
        with pytest.raises(eo.ArgumentError, match="no such mode"):
            function(eo.ones(2), eo.ones(2), "half")


# ---- polynomials


@given(p=KINDS, q=KINDS, x=arrays.arrays("float64", (2, 3), elements=QUARTERS))
def test_polynomials_are_numpys(p, q, x):
    near(eo.polyval(p, x), np.polyval(p, x))
    near(eo.polyadd(p, q), np.polyadd(p, q))
    near(eo.polysub(p, q), np.polysub(p, q))
    near(eo.polyval(eo.polymul(p, q), x), np.polyval(p, x) * np.polyval(q, x), 1e-9)
    for m in range(4):
        near(eo.polyder(p, m), np.polyder(p, m))
        near(eo.polyint(p, m), np.polyint(p, m))
    near(eo.polyint(p, 2, k=[1.0, 3.0]), np.polyint(p, 2, k=[1, 3]))
    near(eo.polyint(p, 2, k=5.0), np.polyint(p, 2, k=5))
    near(eo.poly(q), np.poly(q.astype(float)))
    if q[0]:
        quotient, remainder = eo.polydiv(p, q)
        size = abs(p).max() * (1 + abs(q / q[0]).max()) ** len(p) * 100
        together = eo.polyadd(eo.polymul(quotient, q), remainder)
        np.testing.assert_allclose(
            eo.polyval(together, x), np.polyval(p, x), rtol=1e-10, atol=1e-14 * size + 1e-12
        )


@given(x=KINDS, count=st.none() | st.integers(0, 5), increasing=st.booleans())
def test_powers_are_numpys(x, count, increasing):
    near(eo.vander(x, count, increasing), np.vander(x, count, increasing))


def test_powers_of_zero_have_exact_derivatives():
    jacobian = eo.jacrev(lambda x: eo.vander(x, 4, increasing=True)[0])(eo.asarray(np.array([0.0])))
    assert jacobian.numpy().ravel().tolist() == [0.0, 1.0, 0.0, 0.0]
    hessian = eo.hessian(lambda x: eo.vander(x, 4, increasing=True).sum())(eo.asarray(np.array([0.0])))
    assert hessian.tolist() == [[2.0]]
    assert eo.vander(eo.tensor([2.0])).dtype == eo.float32


@given(data=st.data(), deg=st.integers(0, 3))
def test_fits_are_numpys(data, deg):
    x = np.linspace(-1.0, 2.0, 7)
    y = data.draw(arrays.arrays("float64", st.sampled_from([(7,), (7, 2)]), elements=QUARTERS))
    w = data.draw(st.none() | st.just(np.linspace(0.5, 1.5, 7)))
    near(eo.polyfit(x, y, deg, w=w), np.polyfit(x, y, deg, w=w), 1e-10)


def test_the_derivative_of_a_fit():
    """The line through (0, a), (1, b), (2, c) has the slope ``(c - a) / 2`` and is their mean at 1."""
    fit = eo.jacrev(lambda y: eo.polyfit([0.0, 1.0, 2.0], y, 1))(eo.asarray(np.array([1.0, 2.0, 5.0])))
    np.testing.assert_allclose(fit.numpy(), [[-0.5, 0, 0.5], [5 / 6, 1 / 3, -1 / 6]], rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(
    "p", [[1.0, -6.0, 11.0, -6.0], [0.0, 2.0, 0.0, -8.0], [1.0, 0.0, 1.0, 0.0], [3.0], []]
)
def test_roots(p):
    found = sorted(eo.roots(np.array(p)).tolist(), key=lambda z: (round(z.real, 9), z.imag))
    wanted = sorted(np.roots(p).astype(complex).tolist(), key=lambda z: (round(z.real, 9), z.imag))
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_the_derivative_of_a_root():
    """``dz/dp[k] = -z**(n - k) / p'(z)``."""
    p = np.array([1.0, -3.0, -1.0, 5.0])
    top = eo.grad(lambda t: eo.max(eo.real(eo.roots(t))))(eo.asarray(p)).numpy()
    z = float(mpmath.findroot(lambda t: ((t - 3) * t - 1) * t + 5, 2.6))
    np.testing.assert_allclose(top, -(z ** np.arange(3, -1, -1)) / np.polyval(np.polyder(p), z), rtol=1e-11)


def test_errors_of_polynomials():
    for call, kind, text in (
        (lambda: eo.polyval(eo.ones((2, 2)), 1.0), eo.ShapeError, "must form a vector"),
        (lambda: eo.vander(eo.ones((2, 2))), eo.ShapeError, "must be a vector"),
        (lambda: eo.vander(eo.ones(2), -1), eo.ArgumentError, "negative number of powers"),
        (lambda: eo.polyder([1.0], -1), eo.ArgumentError, "must not be negative"),
        (lambda: eo.polyint([1.0], 2, k=[1.0, 2.0, 3.0]), eo.ArgumentError, "a constant for each"),
        (lambda: eo.polyfit([1.0], [1.0], -1), eo.ArgumentError, "degree"),
        (lambda: eo.polyfit([1.0, 2.0], [1.0], 1), eo.ShapeError, "do not fit each other"),
        (lambda: eo.polydiv([], [1.0]), eo.ShapeError, "no coefficient"),
    ):
        with pytest.raises(kind, match=text):
            call()


# ---- positions, blocks and slices


@given(n=st.integers(0, 4), k=st.integers(-3, 3), m=st.none() | st.integers(0, 4))
def test_triangles_and_diagonals(n, k, m):
    x = np.zeros((n, n if m is None else m))
    for name in ("tril_indices", "triu_indices"):
        np.testing.assert_array_equal(
            eo.stack(getattr(eo, name)(n, k, m)).numpy(), getattr(np, name)(n, k, m)
        )
        found = eo.stack(getattr(eo, f"{name}_from")(x, k=k))
        np.testing.assert_array_equal(found.numpy(), getattr(np, name)(n, k, m))
    np.testing.assert_array_equal(eo.stack(eo.diag_indices(n, 3)).numpy(), np.diag_indices(n, 3))
    np.testing.assert_array_equal(
        eo.stack(eo.diag_indices_from(np.zeros((n, n)))).numpy(), np.diag_indices(n)
    )
    np.testing.assert_array_equal(eo.indices((n, 2)).numpy(), np.indices((n, 2)))
    for found, wanted in zip(eo.indices((n, 2), sparse=True), np.indices((n, 2), sparse=True), strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted)


@given(data=st.data(), order=st.sampled_from(["C", "F"]))
def test_flat_and_multiple_positions(data, order):
    shape = data.draw(arrays.array_shapes(min_dims=1, max_dims=3, max_side=4))
    flat = data.draw(arrays.arrays("int64", (2, 3), elements=st.integers(0, math.prod(shape) - 1)))
    found = eo.unravel_index(flat, shape, order)
    np.testing.assert_array_equal(eo.stack(found).numpy(), np.unravel_index(flat, shape, order))
    np.testing.assert_array_equal(eo.ravel_multi_index(found, shape, order=order).numpy(), flat)
    wild = data.draw(arrays.arrays("int64", (len(shape), 3), elements=st.integers(-9, 9)))
    for mode in ("wrap", "clip"):
        found = eo.ravel_multi_index(list(wild), shape, mode, order).numpy()
        np.testing.assert_array_equal(found, np.ravel_multi_index(tuple(wild), shape, mode, order))


def test_errors_of_positions():
    for call, kind, text in (
        (lambda: eo.unravel_index([6], (2, 3)), eo.IndexingError, "unravel_index: a position is outside"),
        (lambda: eo.unravel_index([-1], (2, 3)), eo.IndexingError, "outside its axis"),
        (lambda: eo.unravel_index([1.5], (2, 3)), eo.DTypeError, "must be integers"),
        (lambda: eo.unravel_index([1], (2, 3), "A"), eo.ArgumentError, "no such order"),
        (lambda: eo.ravel_multi_index(([2], [0]), (2, 3)), eo.IndexingError, "ravel_multi_index: a position"),
        (lambda: eo.ravel_multi_index(([2],), (2, 3)), eo.ShapeError, "positions for each axis"),
        (lambda: eo.ravel_multi_index(([0], [0]), (2, 3), "jump"), eo.ArgumentError, "no such mode"),
        (lambda: eo.tril_indices_from(eo.ones(2)), eo.ShapeError, "no matrix"),
        (lambda: eo.diag_indices_from(eo.ones((2, 3))), eo.ShapeError, "differ in length"),
        (lambda: eo.rot90(eo.ones((2, 2)), axes=(0, 0)), eo.ShapeError, "no plane"),
        (lambda: eo.block([]), eo.ShapeError, "a list is empty"),
        (lambda: eo.block([1.0, [2.0]]), eo.ShapeError, "different depths"),
        (lambda: eo.block([[eo.ones((1, 2))], [eo.ones((1, 3))]]), eo.ShapeError, "do not fit beside"),
        (lambda: eo.apply_along_axis(eo.sum, 0, eo.zeros((2, 0))), eo.ShapeError, "no vector"),
        (
            lambda: eo.apply_over_axes(lambda x, a: eo.sum(x), eo.ones((2, 2, 2)), [0]),
            eo.ShapeError,
            "changed",
        ),
    ):
        with pytest.raises(kind, match=text):
            call()


def test_blocks_are_numpys():
    a, b, c, d = np.ones((2, 2)), np.zeros((2, 3)), np.full((1, 2), 3.0), np.full((1, 3), 4)
    for nested in (
        [[a, b], [c, d]], [a, b], [1, np.float64(2.5), 3], [[1, 2], [3, 4]], a, [[[a]], [[a * 2]]],
        [np.ones(2), 5.0], [[a[None], b[None]]], [np.zeros((0,)), np.ones(2)],
    ):  # fmt: skip
        found, wanted = eo.block(nested), np.block(nested)
        np.testing.assert_array_equal(found.numpy(), wanted)
        assert found.dtype == wanted.dtype


@given(
    x=arrays.arrays("float64", arrays.array_shapes(min_dims=2, max_dims=3, max_side=3), elements=QUARTERS),
    k=st.integers(-5, 5),
    axis=st.integers(-2, 1),
)
def test_turns_and_slices_are_numpys(x, k, axis):
    near(eo.rot90(x, k), np.rot90(x, k))
    near(eo.rot90(x, k, (-1, 0)), np.rot90(x, k, (-1, 0)))
    for f in (lambda v: v.sum(), lambda v: v[:1] * 2, lambda v: v[:, None] * v):
        near(eo.apply_along_axis(f, axis, x), np.apply_along_axis(f, axis, x))
    near(eo.apply_along_axis(lambda v, n, s: v * n + s, axis, x, 2, s=3), x * 2 + 3)
    near(eo.apply_over_axes(eo.sum, x, (0, axis)), np.apply_over_axes(np.sum, x, (0, axis)))
    near(eo.apply_over_axes(eo.cumsum, x, 0), np.cumsum(x, 0))
    near(eo.sort_complex(x + 1j * x[::-1]), np.sort_complex(x + 1j * x[::-1]))
    assert eo.sort_complex(eo.tensor([2, 1])).dtype == eo.complex128


def test_singular_values_of_a_fit_follow_the_scaled_columns():
    x, y, w = (eo.asarray(RNG.normal(size=6)) for _ in range(3))

    def parts(x, y, w):
        fit = eo.polyfit(x, y, 2, full=True, w=2 + w)
        return eo.concat([fit[0], fit[1], fit[3]])

    gradcheck(parts, (x, y, w))
    check_jvp(parts, (x, y, w))
    gradgradcheck(lambda x: eo.polyfit(x, y, 2, full=True)[3], (x,))
    found = eo.compile(eo.jacobian(lambda x: eo.polyfit(x, y, 2, full=True)[3]))(x)
    np.testing.assert_allclose(
        found.numpy(), eo.jacfwd(lambda x: eo.polyfit(x, y, 2, full=True)[3])(x).numpy()
    )


def test_fits_through_too_few_points_are_shortest_in_the_scaled_columns():
    points, y = eo.asarray(np.array([0.3, 1.4, -0.7])), RNG.normal(size=6)

    def fit(t):
        return eo.polyfit(eo.concat([t, t]), y, 4, rcond=1e-9)

    with pytest.warns(np.exceptions.RankWarning):
        expected = np.polyfit(np.tile(points.numpy(), 2), y, 4, rcond=1e-9)
    np.testing.assert_allclose(fit(points).numpy(), expected, rtol=1e-9)
    gradcheck(fit, (points,))
    gradgradcheck(fit, (points,))


@pytest.mark.parametrize(
    "matrix", [np.eye(2), np.array([[2, 1], [0, 3]]), RNG.normal(size=(4, 4)), np.ones((1, 1))]
)
def test_characteristic_polynomials(matrix):
    np.testing.assert_allclose(np.poly(eo.asarray(matrix)).numpy(), np.poly(matrix), rtol=1e-12, atol=1e-14)
    turned = matrix + 1j * matrix.T
    np.testing.assert_allclose(eo.poly(turned).numpy(), np.poly(turned), rtol=1e-12, atol=1e-13)


def test_derivatives_of_characteristic_polynomials():
    """Their coefficients are the trace, ... and the determinant, up to signs."""
    a = eo.asarray(RNG.normal(size=(3, 3)))
    gradcheck(eo.poly, (a,))
    slope = eo.grad(lambda a: eo.poly(a)[-1])(a)
    inverse = np.linalg.inv(a.numpy())
    np.testing.assert_allclose(slope.numpy(), -np.linalg.det(a.numpy()) * inverse.T, rtol=1e-9)
    np.testing.assert_allclose(eo.grad(lambda a: eo.poly(a)[1])(a).numpy(), -np.eye(3), atol=1e-12)
    with pytest.raises(eo.ShapeError, match="vector"):
        eo.poly(eo.ones((2, 3)))


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("complex_points", [False, True])
def test_covariances_of_complex_fits(columns, complex_points):
    x = np.arange(6.0) / 3
    y = x + 1j * np.array([0.3, -1, 0.2, 0.5, 1, -0.4])
    x = x * (1 + 0.2j) + 0.1j * x**2 if complex_points else x
    y = np.stack([y, y**2], axis=1) if columns else y
    for cov in (True, "unscaled"):
        found, expected = (f(x, y, 1, cov=cov)[1] for f in (eo.polyfit, np.polyfit))
        assert found.numpy().dtype == expected.dtype
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "uint64"])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_the_derivative_of_small_integers_widens_as_that_of_numpy_does(dtype, order):
    p = np.array([100, 100, 100, 7]).astype(dtype)
    expected, got = np.polyder(p, order), eo.polyder(eo.tensor(p), order)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize(
    "derivative",
    [
        eo.grad,
        eo.jacfwd,
        lambda f: lambda p: eo.jvp(f, (p,), (p,))[1],
        eo.hessian,
        lambda f: eo.jacrev(eo.jacfwd(f)),
    ],
)
def test_roots_leave_out_leading_zeros_in_every_mode(derivative):
    def squares(p):
        return eo.sum(eo.roots(p) ** 2).real

    p = eo.tensor(np.array([2.0, -3.0, 1.0, 0.5]))
    found = derivative(lambda p: squares(eo.concatenate([eo.zeros(2, dtype=eo.float64), p])))(p)
    np.testing.assert_allclose(found.numpy(), derivative(squares)(p).numpy(), atol=1e-12)
