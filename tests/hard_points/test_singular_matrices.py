"""Functions of singular matrices, of ones that are nearly so, and of ones that are not finite."""

import numpy as np
import pytest

import everyo as eo
from everyo.backends.scientific import scipy_linalg


@pytest.mark.parametrize("kind", ["float32", "float64", "complex128"])
@pytest.mark.parametrize(
    "x", [np.diag([1.0, 0.0]), [[0.0, 1.0], [0.0, 0.0]], np.zeros((2, 2)), np.ones((2, 2))]
)
def test_a_singular_matrix_has_no_logarithm(x, kind):
    x = np.asarray(x, kind)
    with pytest.raises(eo.LinAlgError, match="zero"):
        eo.linalg.logm(x)
    with pytest.raises(eo.LinAlgError, match=r"matrix \[1\] of the batch"):
        eo.linalg.logm(np.stack([np.eye(2), x]).astype(kind))
    with pytest.raises(eo.LinAlgError):
        eo.grad(lambda a: eo.sum(eo.real(eo.linalg.logm(a))))(x)


def test_a_logarithm_at_which_scipy_fails(monkeypatch):
    """Before 1.18 it fails for long Jordan blocks, with the exception that is raised here."""
    logarithm = scipy_linalg.logm

    def failing(x):
        if x[0, 1]:
            raise ValueError("array must not contain infs or NaNs")
        return logarithm(x)

    monkeypatch.setattr(scipy_linalg, "logm", failing)
    block = np.eye(4) + np.diag(np.ones(3), 1)
    with pytest.raises(eo.LinAlgError, match=r"SciPy's logm fails for matrix \[1\]") as error:
        eo.linalg.logm(np.stack([np.eye(4), block]))
    assert error.value.operation == "logm"
    assert "shape" not in str(error.value).partition("\n  at:")[0]


@pytest.mark.parametrize("value", [1e-10, 1e-16, 1e-25, 1e-200, 1e-310])
def test_a_nearly_singular_matrix_has_one(value):
    found = eo.linalg.logm(np.diag([2.0, value])).numpy()
    np.testing.assert_allclose(found, np.diag(np.log([2.0, value])), rtol=1e-12)
    turned = np.array([[0.6, -0.8], [0.8, 0.6]])
    if value == 1e-10:
        found = eo.linalg.logm(turned * [2.0, value] @ turned.T).numpy()
        np.testing.assert_allclose(found, turned * np.log([2.0, value]) @ turned.T, rtol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["logm", "sqrtm"])
def test_a_matrix_that_is_not_finite_is_named(name, value):
    with pytest.raises(eo.LinAlgError, match="NaN or an infinity"):
        getattr(eo.linalg, name)(np.array([[1.0, value], [2.0, 3.0]]))


@pytest.mark.parametrize("name", ["matrix_exp", "logm", "sqrtm"])
def test_matrix_functions_in_half_precision(name):
    f, x = getattr(eo.linalg, name), np.array([[1.5, 0.25], [-0.5, 2.0]])
    t = np.array([[1.0, -0.5], [0.25, 0.5]])

    def slope(a):
        return eo.sum(eo.grad(lambda a: eo.sum(f(a) * eo.asarray(t, dtype=a.dtype)))(a))

    results = []
    for dtype in ("float16", "float64"):
        a, e = eo.asarray(x, dtype=dtype), eo.asarray(t, dtype=dtype)
        found = [f(a), eo.grad(lambda a: eo.sum(f(a)))(a), eo.jvp(f, (a,), (e,))[1], eo.grad(slope)(a)]
        assert all(r.dtype == dtype for r in found)
        results.append([r.numpy().astype("float64") for r in found])
    for half, double in zip(*results, strict=True):
        np.testing.assert_allclose(half, double, rtol=5e-3, atol=5e-3)


def test_derivatives_of_a_square_root_solve_its_equations_where_eigenvalues_differ_in_size():
    draw = np.random.default_rng(3)
    x = np.exp(0.5j) * (np.diag([1e-8, 1e-4, 1.0, 1e4, 1e8]) + np.triu(draw.normal(size=(5, 5)), 1))
    t = draw.normal(size=(5, 5)) + 1j * draw.normal(size=(5, 5))
    point, along = (eo.asarray(x),), (eo.asarray(t),)

    def first(a):
        return eo.jvp(eo.linalg.sqrtm, (a,), along)[1]

    y, l, m = (f.numpy() for f in (eo.linalg.sqrtm(*point), first(*point), eo.jvp(first, point, along)[1]))
    for solution, right in ((l, t), (m, -2 * l @ l)):
        terms = np.abs(y) @ np.abs(solution) + np.abs(solution) @ np.abs(y)
        assert np.max(np.abs(y @ solution + solution @ y - right) / terms) < 1e-13


def test_the_derivative_of_a_square_root_with_opposite_eigenvalues_is_missing():
    x = eo.asarray(np.diag([1.0, 1.0 + 1e-18j, 0.0]))
    assert np.isnan(eo.jvp(eo.linalg.sqrtm, (x,), (x,))[1].numpy()).all()
    for turn in (0.5, 2.0, 3.0):  # pairs of conjugate eigenvalues, in blocks of a real Schur form
        c, s = np.cos(turn), np.sin(turn)
        x, t = np.array([[c, -2 * s], [s / 2, c]]), np.array([[0.3, -1.0], [2.0, 0.7]])
        root = eo.linalg.sqrtm(x).numpy()
        found = eo.jvp(eo.linalg.sqrtm, (eo.asarray(x),), (eo.asarray(t),))[1].numpy()
        np.testing.assert_allclose(root @ found + found @ root, t, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1.0, 1e100])
def test_second_derivatives_of_a_logarithm_at_matrices_of_any_size(scale):
    draw = np.random.default_rng(0)
    x, t, w = draw.normal(size=(4, 4)) / 2 + 2 * np.eye(4), draw.normal(size=(4, 4)), draw.normal(size=(4, 4))

    def slopes(x):
        def first(a):
            return eo.jvp(eo.linalg.logm, (a,), along)[1]

        point, along = (eo.asarray(x),), (eo.asarray(t),)
        return eo.jvp(first, point, along)[1].numpy(), eo.grad(lambda a: eo.sum(first(a) * w))(*point).numpy()

    for found, expected in zip(slopes(scale * x), slopes(x), strict=True):
        np.testing.assert_allclose(found * scale * scale, expected, rtol=1e-11, atol=1e-13)


def test_a_derivative_of_a_logarithm_beyond_the_floats_is_no_number():
    x, t = eo.asarray(np.diag([2e-200, 3e-200])), eo.asarray(np.array([[1.0, 2.0], [3.0, 4.0]]))
    second = eo.jvp(lambda a: eo.jvp(eo.linalg.logm, (a,), (t,))[1], (x,), (t,))[1].numpy()
    assert not np.isfinite(second).any()


def test_a_logarithm_of_a_triangle_whose_elements_differ_much_in_size():
    draw = np.random.default_rng(1)
    x = np.diag([1e-8, 1e-4, 1.0, 1e4, 1e8]) + np.triu(draw.normal(size=(5, 5)), 1)
    t = eo.asarray(np.triu(draw.normal(size=(5, 5))))

    def first(a):
        return eo.jvp(eo.linalg.logm, (a,), (t,))[1]

    point, changes = (eo.asarray(x),), np.diag(t.numpy()) / np.diag(x)
    np.testing.assert_allclose(np.diag(first(*point).numpy()), changes, rtol=1e-12)
    second = eo.jvp(first, point, (t,))[1].numpy()
    np.testing.assert_allclose(np.diag(second), -(changes**2), rtol=1e-9)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_derivatives_of_functions_of_large_matrices(dtype):
    draw, n = np.random.default_rng(0), 150

    def normal():
        x = draw.normal(size=(n, n))
        return x if dtype == "float64" else x + 1j * draw.normal(size=(n, n))

    x, t = eo.asarray(normal() / n**0.5 / 3 + 2 * np.eye(n)), eo.asarray(normal())
    for f in (
        lambda a: eo.linalg.matrix_exp(eo.linalg.logm(a)),
        lambda a: eo.linalg.sqrtm(a) @ eo.linalg.sqrtm(a),
        lambda a: 2 * eo.linalg.logm(eo.linalg.sqrtm(a)) - eo.linalg.logm(a) + a,
    ):
        np.testing.assert_allclose(eo.jvp(f, (x,), (t,))[1].numpy(), t.numpy(), atol=1e-11)
        back = eo.vjp(f, x)[1](t)[0].numpy()
        np.testing.assert_allclose(back, t.numpy(), atol=1e-11)


ORDERS = [None, 1, "fro", np.inf, -1, "nuc"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("x", [np.diag([2.0, 0.0]), np.zeros((2, 2)), np.ones((2, 2))])
def test_an_infinite_condition_has_no_derivative_in_any_mode(x, order):
    def f(a):
        return eo.linalg.cond(a, order)

    point = eo.asarray(x)
    if not np.isinf(f(point).item()):
        pytest.skip("a singular value was rounded away from zero")
    assert not np.isfinite(eo.grad(f)(point).numpy()).any()
    for t in ([[0.0, 1.0], [2.0, 3.0]], [[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]):
        along = (eo.asarray(np.array(t)),)
        assert not np.isfinite(eo.jvp(f, (point,), along)[1].item())

        def moved(a, along=along):
            return eo.jvp(f, (a,), along)[1]

        assert not np.isfinite(eo.jvp(moved, (point,), along)[1].item())
        assert not np.isfinite(eo.compile(moved)(point).item())
    slope = eo.grad(lambda a: eo.sum(eo.grad(f)(a)))(point).numpy()
    assert not np.isfinite(slope).any()


@pytest.mark.parametrize("order", [None, -2, "nuc"])  # the others have an inverse, which is NaN
def test_an_infinite_condition_that_is_not_taken_has_no_part_in_the_gradient(order):
    def f(a):
        return eo.where(a[1, 0] > 0, eo.linalg.cond(a, order), 3 * a[0, 0] ** 2)

    point = eo.asarray(np.diag([2.0, 0.0]))
    for wrapped in (lambda f: f, eo.compile):
        np.testing.assert_array_equal(wrapped(eo.grad(f))(point).numpy(), [[12, 0], [0, 0]])
        slope = wrapped(eo.grad(lambda a: eo.sum(eo.grad(f)(a))))(point)
        np.testing.assert_array_equal(slope.numpy(), [[6, 0], [0, 0]])


def logarithm(a):
    return eo.linalg.slogdet(a)[1]


def test_a_pullback_is_linear_at_a_cotangent_of_zero():
    """Its derivative there, which linearize and second derivatives ask for, is the pullback itself."""
    a, e = eo.asarray(np.array([[2.0, 0.5], [0.3, 1.0]])), eo.asarray(np.eye(2))
    trace = np.trace(np.linalg.inv(a.numpy()))
    b, c = eo.asarray(np.array([2.0, 0.5])), eo.asarray(np.array([0.0, 2.0, 4.0]))
    for wrapped in (lambda f: f, eo.compile):
        found = wrapped(lambda a, e: eo.linearize(logarithm, a)[1](e))(a, e)
        np.testing.assert_allclose(found.item(), trace, rtol=1e-14)
        found = wrapped(eo.hessian(lambda v: logarithm(eo.diag(v)) ** 2))(b)
        np.testing.assert_allclose(found.numpy(), [[0.5, 2], [2, 8]], rtol=1e-14)
        found = wrapped(eo.hessian(lambda v: v[0] * logarithm(eo.diag(v[1:]))))(c)
        np.testing.assert_allclose(found.numpy(), [[0, 0.5, 0.25], [0.5, 0, 0], [0.25, 0, 0]], atol=1e-15)
    for f in (eo.linalg.cond, logarithm):
        singular = eo.asarray(np.diag([2.0, 0.0]))
        assert np.isnan(eo.linearize(f, singular)[1](e).item())
        slope = eo.grad(f)
        for second in (eo.hessian(f)(singular), eo.jvp(slope, (singular,), (e,))[1]):
            assert not np.isfinite(second.numpy()).any()


@pytest.mark.parametrize("order", ORDERS)
def test_a_singular_matrix_leaves_the_others_of_a_batch_alone(order):
    regular, t = np.array([[2.0, 0.5], [0.1, 1.0]]), np.array([[0.3, 1.0], [2.0, 3.0]])
    stack = eo.asarray(np.stack([np.diag([2.0, 0.0]), regular]))

    def f(a):
        return eo.linalg.cond(a, order)

    expected = (np.linalg.cond(regular + 1e-6 * t, order) - np.linalg.cond(regular - 1e-6 * t, order)) / 2e-6
    found = eo.jvp(f, (stack,), (eo.asarray(np.stack([t, t])),))[1].numpy()
    np.testing.assert_allclose(found[1], expected, rtol=1e-7)
    by_reverse = eo.grad(lambda a: f(a)[1])(stack).numpy()
    np.testing.assert_allclose(np.sum(by_reverse[1] * t), expected, rtol=1e-7)
    mapped = eo.jvp(eo.vmap(f), (stack,), (eo.asarray(np.stack([t, t])),))[1].numpy()
    np.testing.assert_allclose(mapped[1], expected, rtol=1e-7)


def test_the_derivative_of_a_logarithm_at_a_large_block_of_equal_eigenvalues():
    """By its power series, which ends: terms ``(-m)^i e (-m)^j / (i + j + 1)`` of ``log(1 + m)`` along e."""
    n, s = 60, 3.0
    x, e = np.eye(n) + s * np.eye(n, k=1), np.zeros((n, n))
    e[5, 5] = e[10, 20] = 1.0
    exact = np.zeros((n, n))
    for row, column in ((5, 5), (10, 20)):
        for i in range(row + 1):
            for j in range(n - column):
                exact[row - i, column + j] += (-s) ** (i + j) / (i + j + 1)
    found = eo.jvp(eo.linalg.logm, (eo.asarray(x),), (eo.asarray(e),))[1].numpy()
    np.testing.assert_allclose(found[exact != 0], exact[exact != 0], rtol=1e-13)
    np.testing.assert_allclose(found[exact == 0], 0, atol=1e-13 * np.abs(exact).max())
