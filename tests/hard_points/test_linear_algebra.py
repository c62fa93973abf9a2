"""Linear algebra where it is hard: nearly singular, badly scaled, large; the exact values by mpmath."""

import mpmath
import numpy as np
import pytest

import everyo as eo

mpmath.mp.dps = 60


def exact(x):
    """An array as a matrix of mpmath, without rounding."""
    return mpmath.matrix([[mpmath.mpf(float(v)) for v in row] for row in np.atleast_2d(x)])


def floats(m):
    return np.array([[float(m[i, j]) for j in range(m.cols)] for i in range(m.rows)])


def gradient(f, x):
    leaf = eo.tensor(np.asarray(x, dtype=float), requires_grad=True)
    f(leaf).backward()
    return leaf.grad.numpy()


def close(found, expected, rtol):
    """Compare relative to the largest element."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * np.abs(expected).max())


def cofactors(x):
    """The cofactors of a matrix by their definition."""
    n = len(x)
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            minor = np.delete(np.delete(x, i, 0), j, 1)
            out[i, j] = float((-1) ** (i + j) * (mpmath.det(exact(minor)) if n > 1 else 1))
    return out


HILBERT = np.array([[1.0 / (i + j + 1) for j in range(6)] for i in range(6)])
COUNTING = np.arange(1.0, 10.0).reshape(3, 3)  # of rank 2, though not to rounding
MAGIC = np.array([[16.0, 2, 3, 13], [5, 11, 10, 8], [9, 7, 6, 12], [4, 14, 15, 1]])  # of rank 3


@pytest.mark.parametrize(
    ("x", "tolerance"),
    [
        (COUNTING, 1e-14),
        (MAGIC, 1e-14),
        (HILBERT, 1e-8),  # of condition 1.5e7
        (np.ones((4, 4)), 1e-30),
        (np.diag([1.0, 1e-9, 1e-9]), 1e-14),
        (np.diag([1e8, 1.0, 1e-12]), 1e-14),
        (np.zeros((1, 1)), 1e-15),
    ],
)
def test_the_gradient_of_det_are_the_cofactors(x, tolerance):
    expected = cofactors(x)
    atol = tolerance * (np.abs(expected).max() or 1.0)
    np.testing.assert_allclose(gradient(eo.linalg.det, x), expected, rtol=0, atol=atol)


def test_the_second_derivative_of_det_at_rank_one():
    """Along E and F the second derivative of det at ``u v'`` is a sum of minors; here of all ones."""
    x = eo.ones((3, 3), dtype=eo.float64)
    h = eo.hessian(eo.linalg.det)(x).numpy()
    expected = np.zeros((3, 3, 3, 3))
    for i in range(3):
        for j in range(3):
            for k in range(3):
                for l in range(3):
                    if i != k and j != l:  # the sign of the two transpositions times the element left over
                        expected[i, j, k, l] = (-1) ** (i + j) * (-1) ** (k - (k > i) + l - (l > j))
    np.testing.assert_allclose(h, expected, rtol=1e-13, atol=1e-13)


def test_slogdet_does_not_overflow():
    x = 1e200 * np.array([[2.0, 1.0], [1.0, 3.0]])
    sign, logarithm = eo.linalg.slogdet(x)
    assert sign.item() == 1.0
    assert logarithm.item() == pytest.approx(float(mpmath.log(mpmath.det(exact(x)))), rel=1e-15)
    close(gradient(lambda x: eo.linalg.slogdet(x).logabsdet, x), floats((exact(x) ** -1).T), 1e-15)


def test_slogdet_of_a_singular_matrix_in_a_batch():
    x = np.stack([np.eye(2), np.ones((2, 2))])
    leaf = eo.tensor(x, requires_grad=True)
    out = eo.linalg.slogdet(leaf).logabsdet
    assert out[1].item() == -np.inf
    eo.where(eo.isfinite(out), out, 0.0).sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), np.stack([np.eye(2), np.zeros((2, 2))]))
    assert np.isnan(gradient(lambda x: eo.linalg.slogdet(x).logabsdet, x[1])).all()


def test_solving_with_a_hilbert_matrix():
    """The condition number is 1.5e7; the gradient -w x' keeps what that leaves of the digits."""
    n = len(HILBERT)
    b = np.ones(n)
    x = exact(HILBERT) ** -1 * exact(b).T
    w = (exact(HILBERT).T) ** -1 * mpmath.ones(n, 1)
    found = gradient(lambda a: eo.sum(eo.linalg.solve(a, b)), HILBERT)
    close(found, floats(-w * x.T), 1e-8)
    inverse = exact(HILBERT) ** -1
    total = gradient(lambda a: eo.sum(eo.linalg.inv(a)), HILBERT)
    close(total, floats(-(inverse.T * mpmath.ones(n) * inverse.T)), 1e-8)


def test_cholesky_of_a_hilbert_matrix():
    n = len(HILBERT)
    h = mpmath.mpf(10) ** -20

    def total(a):
        l = mpmath.cholesky(a)
        return sum(l[i, j] * (1 + i - j) for i in range(n) for j in range(i + 1))

    weight = np.array([[1.0 + i - j if j <= i else 0.0 for j in range(n)] for i in range(n)])
    found = gradient(lambda a: eo.sum(eo.linalg.cholesky(a) * weight), HILBERT)
    expected = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            step = mpmath.zeros(n)
            step[i, j] += h / 2
            step[j, i] += h / 2
            expected[i, j] = float((total(exact(HILBERT) + step) - total(exact(HILBERT) - step)) / (2 * h))
    close(found, expected, 1e-8)


def test_eigenvalues_and_vectors_by_differences_in_sixty_digits():
    x = np.array([[2.0, 1.0, 0.5], [1.0, 2.0 + 1e-5, 0.25], [0.5, 0.25, -1.0]])
    weight = np.array([[1.0, -2.0, 0.5], [0.25, 1.5, -1.0], [2.0, 0.5, 1.0]])
    h = mpmath.mpf(10) ** -20
    v0 = np.linalg.eigh(x)[1]

    def total(a):
        w, v = mpmath.eigsy(a)
        out = mpmath.mpf(0)
        for k in range(3):
            sign = 1 if sum(v[i, k] * v0[i, k] for i in range(3)) > 0 else -1
            out += w[k] ** 2 + sum(sign * v[i, k] * weight[i, k] for i in range(3))
        return out

    def f(a):
        w, v = eo.linalg.eigh(a)
        return eo.sum(w**2) + eo.sum(v * weight)

    found = gradient(f, x)
    for i in range(3):
        for j in range(3):
            step = mpmath.zeros(3)
            step[i, j] += h / 2
            step[j, i] += h / 2
            expected = (total(exact(x) + step) - total(exact(x) - step)) / (2 * h)
            assert found[i, j] == pytest.approx(float(expected), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("size", [1e-8, 1.0, 30.0])
def test_the_exponential_of_a_nilpotent_and_of_a_large_matrix(size):
    x = size * np.array([[0.5, 1.0, 0.0], [0.0, 0.5, 1.0], [-0.3, 0.0, 0.5]])
    weight = np.array([[1.0, 2.0, -1.0], [0.5, 1.0, 0.0], [2.0, -0.5, 1.0]])
    h = mpmath.mpf(10) ** -20
    found = gradient(lambda a: eo.sum(eo.linalg.matrix_exp(a) * weight), x)
    expected = np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            step = mpmath.zeros(3)
            step[i, j] = h
            ahead, behind = (mpmath.expm(exact(x) + s * step) for s in (1, -1))
            difference = (ahead - behind) / (2 * h)
            expected[i, j] = float(sum(weight[a, b] * difference[a, b] for a in range(3) for b in range(3)))
    close(found, expected, 1e-12)


@pytest.mark.parametrize("function", ["sqrtm", "logm"])
def test_functions_of_a_defective_matrix(function):
    x = np.array([[2.0, 1.0], [0.0, 2.0]])
    reference = mpmath.sqrtm if function == "sqrtm" else mpmath.logm
    h = mpmath.mpf(10) ** -15
    found = gradient(lambda a: getattr(eo.linalg, function)(a)[0, 1], x)
    for i in range(2):
        for j in range(2):
            step = mpmath.zeros(2)
            step[i, j] = h
            with mpmath.workdps(100):
                ahead, behind = (reference(exact(x) + s * step)[0, 1] for s in (1, -1))
                expected = float(mpmath.re((ahead - behind) / (2 * h)))
            assert found[i, j] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_norms_where_squares_over_or_underflow():
    for scale in (1e200, 1e-200):
        x = scale * np.array([[3.0, 0.0], [0.0, 4.0]])
        assert eo.linalg.matrix_norm(x).item() == pytest.approx(5 * scale, rel=1e-15)
        found = gradient(eo.linalg.matrix_norm, x)
        np.testing.assert_allclose(found, [[0.6, 0.0], [0.0, 0.8]], rtol=1e-15)


def test_conditions_of_singular_matrices_are_infinite():
    for x in (np.zeros((2, 2)), np.ones((2, 2)), np.diag([1.0, 0.0])):
        for p in (None, 2, 1, "fro", np.inf):
            found = eo.linalg.cond(x, p).item()
            assert found == np.inf or found > 1e15
    assert eo.linalg.cond(np.diag([1.0, 0.0])).item() == np.inf


@pytest.mark.parametrize("name", ["logm", "sqrtm", "matrix_exp"])
@pytest.mark.parametrize("matrix", [[[2.0, 1.0, 0.0], [0.3, 3.0, 1.0], [0.0, 0.2, 4.0]], np.eye(3) * 1.5])
@pytest.mark.parametrize("scale", [1e-310, 1e-20, 1e300])
def test_matrix_functions_are_linear_in_directions_of_any_size(name, matrix, scale):
    f, x = getattr(eo.linalg, name), eo.asarray(np.array(matrix))
    along = lambda size: eo.jvp(f, (x,), (eo.asarray(np.full((3, 3), size)),))[1].numpy()  # noqa: E731
    # A number of 1e-310 has 14 bits less.
    close(along(scale) / scale, along(1.0), 1e-12 if scale > 1e-300 else 1e-10)
    slope = gradient(lambda x: (f(x) * scale).sum(), matrix) / scale
    close(slope, gradient(lambda x: f(x).sum(), matrix), 1e-12 if scale > 1e-300 else 1e-10)


def test_pseudoinverses_of_matrices_far_down():
    x, t = np.array([[1.0, 2.0, 0.5], [-0.3, 1.0, 0.2], [0.7, -1.1, 1.5]]), np.ones((3, 3))
    inverse = floats(exact(x) ** -1)
    b = np.array([1.0, -2.0, 0.5])
    point, along = (eo.asarray(x * 1e-160),), (eo.asarray(t * 1e-160),)
    expected = -inverse @ t @ inverse
    close(eo.jvp(eo.linalg.pinv, point, along)[1].numpy() * 1e-160, expected, 1e-13)
    solution = eo.jvp(lambda x: eo.linalg.lstsq(x, eo.asarray(b))[0], point, along)[1].numpy()
    close(solution * 1e-160, expected @ b, 1e-13)
