"""Equal eigenvalues and singular values, and zeros: right for functions that are well defined, else NaN.

Every function here is compared with central differences of itself, at a matrix where values coincide exactly
(the identity, diagonal matrices) or as far as rounding lets them.
"""

import numpy as np
import pytest

import everyo as eo

RNG = np.random.default_rng(11)


def orthogonal(n, complex_=False):
    x = RNG.standard_normal((n, n)) + (1j * RNG.standard_normal((n, n)) if complex_ else 0)
    return np.linalg.qr(x)[0]


def with_values(w, complex_=False):
    q = orthogonal(len(w), complex_)
    return q @ np.diag(w) @ q.conj().T


def rectangular(m, n, s, complex_=False):
    u, v = orthogonal(m, complex_)[:, : len(s)], orthogonal(n, complex_)[:, : len(s)]
    return (u * np.array(s)) @ v.conj().T


def weights(shape, complex_=False):
    w = RNG.standard_normal(shape)
    return eo.asarray(w + 1j * RNG.standard_normal(shape) if complex_ else w)


def along(f, x, direction, h=1e-6):
    """The derivative of a real function of a matrix along a direction, by central differences."""
    values = [f(eo.asarray(x + s * h * direction)).item() for s in (1, -1)]
    return (values[0] - values[1]) / (2 * h)


def directions(x, count=3):
    for _ in range(count):
        d = RNG.standard_normal(x.shape)
        yield d + 1j * RNG.standard_normal(x.shape) if x.dtype.kind == "c" else d


def gradient(f, x):
    leaf = eo.tensor(x, requires_grad=True)
    f(leaf).backward()
    return leaf.grad.numpy()


def check(f, x, tol=2e-7):
    found = gradient(f, x)
    for d in directions(x):
        np.testing.assert_allclose(np.sum(found.conj() * d).real, along(f, x, d), rtol=tol, atol=tol)


REPEATED = {
    "identity": np.eye(3),
    "zero": np.zeros((3, 3)),
    "diagonal": np.diag([1.0, 1.0, 2.0, 5.0]),
    "two pairs": with_values([1.0, 1.0, 3.0, 3.0]),
    "three of five": with_values([-2.0, 1.0, 1.0, 1.0, 4.0]),
    "complex": with_values([1.0, 1.0, 3.0, 3.0], True),
    "complex identity": np.eye(3) + 0j,
}
every_repeated = pytest.mark.parametrize("x", REPEATED.values(), ids=REPEATED)


@every_repeated
@pytest.mark.parametrize("power", [1, 2, 3])
def test_sums_of_powers_of_eigenvalues(x, power):
    check(lambda a: eo.sum(eo.linalg.eigvalsh(a) ** power), x)
    check(lambda a: eo.sum(eo.linalg.eigh(a).eigenvalues ** power), x)
    tangent = np.eye(len(x)) + 0.5 * np.ones(x.shape)
    pushed = eo.jvp(
        lambda a: eo.sum(eo.linalg.eigvalsh(a) ** power), (eo.asarray(x),), (eo.asarray(tangent + 0 * x),)
    )
    expected = power * np.trace(np.linalg.matrix_power(x, power - 1) @ tangent).real
    np.testing.assert_allclose(pushed[1].item(), expected, rtol=1e-12, atol=1e-12)


def test_the_gradient_of_a_sum_of_squares_is_exact():
    found = gradient(lambda a: eo.sum(eo.linalg.eigvalsh(a) ** 2), np.eye(3))
    np.testing.assert_allclose(found, 2 * np.eye(3), rtol=1e-15, atol=1e-15)


PROJECTORS = {
    "diagonal": (np.diag([1.0, 1.0, 2.0, 5.0]), slice(0, 2)),
    "lower pair": (with_values([1.0, 1.0, 3.0, 3.0]), slice(0, 2)),
    "three of five": (with_values([-2.0, 1.0, 1.0, 1.0, 4.0]), slice(1, 4)),
    "the rest": (with_values([-2.0, 1.0, 1.0, 1.0, 4.0]), slice(0, 1)),
    "complex": (with_values([1.0, 1.0, 3.0, 3.0], True), slice(2, 4)),
}
every_projector = pytest.mark.parametrize(("x", "part"), PROJECTORS.values(), ids=PROJECTORS)


def projection(x, part, w):
    def f(a):
        v = eo.linalg.eigh(a).eigenvectors[:, part]
        return eo.sum(eo.real((v @ eo.conj(v).mT) * w))

    return f, x


@every_projector
def test_the_projector_on_an_eigenspace(x, part):
    check(*projection(x, part, weights(x.shape, x.dtype.kind == "c")))


def slope_along(f, x, direction):
    """A leaf and the derivative of f along a direction, which can be differentiated again."""
    leaf = eo.tensor(x, requires_grad=True)
    (g,) = eo.autograd.grad(f(leaf), leaf, create_graph=True)
    return leaf, eo.sum(eo.real(g * eo.asarray(direction.conj())))


def second_derivatives(f, x):
    """Pairs of a second derivative and what differences of the first say."""
    d = next(directions(x))
    leaf, slope = slope_along(f, x, d)
    second = eo.autograd.grad(slope, leaf)[0].numpy()
    for e in directions(x):
        ahead, behind = (slope_along(f, x + h * e, d)[1].item() for h in (1e-5, -1e-5))
        yield np.sum(second.conj() * e).real, (ahead - behind) / 2e-5


@pytest.mark.parametrize("values", [[1.0, 1.0, 3.0, 4.0], [1.0, 2.0, 3.0, 3.0], [1.0, 2.0, 3.0, 4.0]])
@pytest.mark.parametrize(
    "power",
    [
        None,  # a projector instead
        lambda a: eo.sum(eo.linalg.eigvalsh(a) ** 3),
        lambda a: eo.sum(eo.linalg.svdvals(a) ** 3),
        lambda a: eo.real(eo.sum(eo.linalg.eigvals(a) ** 3)),
        lambda a: eo.sum(eo.linalg.eigh(a).eigenvalues ** 3),
    ],
)
def test_second_derivatives_are_right_or_nan(values, power):
    x = with_values(values)
    f = power or projection(x, slice(0, 2), weights(x.shape))[0]
    for found, expected in second_derivatives(f, x):
        assert np.isnan(found) or found == pytest.approx(expected, rel=1e-6, abs=1e-6)
        assert not np.isnan(found) or len(set(values)) < 4


@pytest.mark.parametrize("x", [np.eye(2), with_values([1.0, 1.0, 3.0]), np.diag([2.0, 2.0, 1.0])])
def test_single_eigenvectors_of_equal_eigenvalues_have_no_derivative(x):
    w = weights(x.shape)
    found = gradient(lambda a: eo.sum(eo.linalg.eigh(a).eigenvectors * w), x)
    assert np.isnan(found).any()
    mixing = eo.jvp(
        lambda a: eo.linalg.eigh(a).eigenvectors, (eo.asarray(x),), (eo.ones_like(eo.asarray(x)),)
    )[1]
    assert eo.isnan(mixing).any().item()


@pytest.mark.parametrize("x", [np.eye(2), np.zeros((2, 2)), with_values([1.0, 1.0, 3.0])])
@pytest.mark.parametrize("f", [eo.log1p, eo.exp, lambda w: w])
@pytest.mark.parametrize("chosen", [(0, 1), (0, 0), None])
def test_a_matrix_function_put_together_from_both_is_right_or_nan(x, f, chosen):
    """Values and vectors of one call cannot be told from functions that have no share within the space."""
    w = weights(x.shape)

    def function(a):
        values, v = eo.linalg.eigh(a)
        out = (v * f(values)) @ v.mT
        return eo.sum(out * w) if chosen is None else out[chosen]

    found = gradient(function, x)
    for d in directions(x):
        got = np.sum(found * d)
        assert np.isnan(got) or abs(got - along(function, x, d)) < 1e-6


MATRIX_FUNCTIONS = {
    "exp": eo.linalg.matrix_exp,
    "log": eo.linalg.logm,
    "sqrt": eo.linalg.sqrtm,
    "power": lambda a: eo.linalg.matrix_power(a, 3),
    "inverse": eo.linalg.inv,
    "pinv": eo.linalg.pinv,
    "cholesky": lambda a: eo.linalg.cholesky(a @ a.mT),
}


@pytest.mark.parametrize("name", MATRIX_FUNCTIONS)
@pytest.mark.parametrize("x", [np.eye(3), with_values([1.0, 1.0, 3.0]), np.array([[1.0, 1.0], [0.0, 1.0]])])
def test_matrix_functions(name, x):
    w = weights(x.shape)
    check(lambda a: eo.sum(MATRIX_FUNCTIONS[name](a) * w), x, tol=2e-6)


def test_vectors_of_a_null_space_that_nothing_uses():
    """The usual principal components: those of the largest eigenvalues, with a null space beside them."""
    data = RNG.standard_normal((6, 3))
    x, w = data @ data.T, weights((6, 6))

    def f(a):
        values, v = eo.linalg.eigh(a)
        return eo.sum(((v[:, 3:] * values[3:]) @ v[:, 3:].mT) * w) + eo.sum(eo.log(values[3:]))

    check(f, x, tol=1e-6)


def test_nearly_equal_eigenvalues():
    """A gap of 1e-9 is no equality, and what does not depend on the basis must not be divided by it."""
    x = with_values([1.0, 1.0 + 1e-9, 3.0])
    check(*projection(x, slice(0, 2), weights(x.shape)), tol=1e-6)
    w = weights((3,))
    check(lambda a: eo.linalg.eigvalsh(a)[2] + eo.sum(eo.linalg.eigvalsh(a) ** 2) * w[0], x, tol=1e-6)


# ---- singular values

SINGULAR = {
    "identity": np.eye(3),
    "diagonal": np.diag([1.0, 1.0, 2.0, 3.0]),
    "tall": rectangular(5, 3, [2.0, 2.0, 1.0]),
    "wide": rectangular(3, 4, [3.0, 1.0, 1.0]),
    "all equal": rectangular(4, 3, [2.0, 2.0, 2.0]),
    "complex": rectangular(4, 3, [2.0, 2.0, 1.0], True),
    "complex wide": rectangular(2, 4, [2.0, 2.0], True),
}
every_singular = pytest.mark.parametrize("x", SINGULAR.values(), ids=SINGULAR)


@every_singular
def test_the_nuclear_norm_and_other_sums_of_singular_values(x):
    for f in (
        lambda a: eo.linalg.matrix_norm(a, ord="nuc"),
        lambda a: eo.sum(eo.linalg.svdvals(a) ** 3),
        lambda a: eo.sum(eo.linalg.svd(a, full_matrices=False).S ** 2),
    ):
        check(f, x)


@every_singular
def test_the_polar_factor(x):
    w = weights(x.shape, x.dtype.kind == "c")

    def f(a):
        u, _, vh = eo.linalg.svd(a, full_matrices=False)
        return eo.sum(eo.real((u @ vh) * w))

    check(f, x, tol=1e-6)


@every_singular
def test_the_norm_of_the_product_of_all_three(x):
    def f(a):
        u, s, vh = eo.linalg.svd(a, full_matrices=False)
        return eo.linalg.norm((u * s) @ vh)

    np.testing.assert_allclose(gradient(f, x), x / np.linalg.norm(x), rtol=1e-12, atol=1e-12)


def test_singular_vectors_of_equal_singular_values_have_no_derivative():
    w = weights((3, 3))
    for k in (0, 2):
        x = rectangular(3, 3, [2.0, 2.0, 1.0])
        assert np.isnan(gradient(lambda a, k=k: eo.sum(eo.linalg.svd(a)[k] * w), x)).any()


def test_zero_singular_values_of_lstsq_have_the_slope_zero():
    a, b = eo.tensor([[2.0, 0.0], [0.0, 0.0]], dtype=eo.float64), eo.ones(2, dtype=eo.float64)
    values = lambda a: eo.linalg.lstsq(a, b).singular_values  # noqa: E731
    np.testing.assert_array_equal(eo.grad(lambda a: values(a).sum())(a).numpy(), [[1.0, 0.0], [0.0, 0.0]])
    moved = eo.jvp(values, (a,), (eo.tensor([[3.0, 0.0], [0.0, 5.0]], dtype=eo.float64),))[1]
    np.testing.assert_array_equal(moved.numpy(), [3.0, 0.0])


def test_zero_singular_values_alone():
    x = rectangular(4, 3, [2.0, 1.0, 0.0])
    u, _, vh = np.linalg.svd(x, full_matrices=False)
    nuclear = gradient(lambda a: eo.linalg.matrix_norm(a, ord="nuc"), x)
    np.testing.assert_allclose(nuclear, u[:, :2] @ vh[:2], rtol=1e-12, atol=1e-12)  # 0 within the null space
    d = next(directions(x))
    pushed = eo.jvp(lambda a: eo.linalg.matrix_norm(a, ord="nuc"), (eo.asarray(x),), (eo.asarray(d),))[1]
    np.testing.assert_allclose(pushed.item(), np.sum(nuclear * d), rtol=1e-12, atol=1e-12)
    check(lambda a: eo.sum(eo.linalg.svdvals(a) ** 2), x)


def rebuilt(w, f=lambda s: s):
    def function(a):
        u, s, vh = eo.linalg.svd(a, full_matrices=False)
        return eo.sum(eo.real(((u * f(s)) @ vh) * w))

    return function


DEFICIENT = {
    "tall": rectangular(4, 3, [2.0, 1.0, 0.0]),
    "wide": rectangular(3, 4, [2.0, 1.0, 0.0]),
    "square": rectangular(3, 3, [2.0, 1.0, 0.0]),
    "two zeros": rectangular(3, 3, [2.0, 0.0, 0.0]),
    "complex": rectangular(3, 3, [2.0, 1.0, 0.0], True),
    "zero": np.zeros((2, 2)),
    "zero wide": np.zeros((2, 3)),
    "one column": np.diag([1.0, 0.0]),
}
every_deficient = pytest.mark.parametrize("x", DEFICIENT.values(), ids=DEFICIENT)


@every_deficient
@pytest.mark.parametrize("chosen", [True, False])
def test_the_product_of_all_three_at_zero_singular_values_is_right_or_nan(x, chosen):
    w = weights(x.shape, x.dtype.kind == "c").numpy()
    if chosen:  # one element, the sharpest look at a single cotangent
        w = np.zeros_like(w)
        w[0, 1] = 1.0
    found = gradient(rebuilt(eo.asarray(w)), x)
    assert np.isnan(found).any() or np.allclose(found, w.conj(), rtol=1e-12, atol=1e-12)


def test_a_single_zero_of_a_real_square_matrix_changes_its_sign():
    w = weights((3, 3))
    found = gradient(rebuilt(w), DEFICIENT["square"])
    np.testing.assert_allclose(found, w.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["tall", "wide", "two zeros", "complex"])
def test_a_truncated_decomposition_beside_a_null_space(name):
    x = DEFICIENT[name]
    w = weights(x.shape, x.dtype.kind == "c")
    k = 1 if name == "two zeros" else 2

    def f(a):
        u, s, vh = eo.linalg.svd(a, full_matrices=False)
        return eo.sum(eo.real(((u[:, :k] * eo.log(s[:k])) @ vh[:k]) * w))

    check(f, x, tol=2e-6)


def test_the_range_of_a_matrix_along_matrices_of_its_rank():
    x, space = DEFICIENT["tall"], weights((4, 4))

    def range_projector(a):
        u = eo.linalg.svd(a, full_matrices=False).U[:, :2]
        return eo.sum((u @ u.mT) * space)

    d = x @ RNG.standard_normal((3, 3))
    found = np.sum(gradient(range_projector, x) * d)
    np.testing.assert_allclose(found, along(range_projector, x, d), rtol=1e-6, atol=1e-7)
    free = gradient(lambda a: eo.sum(eo.linalg.svd(a, full_matrices=False).U * weights((4, 3))), x)
    assert np.isnan(free).any()


@pytest.mark.parametrize("norm", ["nuc", 2, "fro"])
def test_norms_at_the_zero_matrix_have_the_gradient_0(norm):
    found = gradient(lambda a: eo.linalg.matrix_norm(a, ord=norm), np.zeros((3, 2)))
    np.testing.assert_array_equal(found, np.zeros((3, 2)))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 3), (3, 4)])
@pytest.mark.parametrize("complex_", [False, True])
def test_the_spaces_that_full_matrices_add(shape, complex_):
    x = RNG.standard_normal(shape) + (1j * RNG.standard_normal(shape) if complex_ else 0)
    k, tall = min(shape), shape[0] > shape[1]
    w = weights((max(shape),) * 2, complex_)

    def f(a):
        u, _, vh = eo.linalg.svd(a)
        rest = u[:, k:] if tall else eo.conj(vh[k:]).mT
        return eo.sum(eo.real((rest @ eo.conj(rest).mT) * w))

    check(f, x, tol=1e-6)
    if tall:
        check(
            lambda a: eo.sum(
                eo.real((lambda q: q @ eo.conj(q).mT)(eo.linalg.qr(a, mode="complete").Q[:, k:]) * w)
            ),
            x,
            tol=1e-6,
        )
    vectors = weights(shape[:1] * 2, complex_)
    if shape == (5, 3):
        found = gradient(lambda a: eo.sum(eo.real(eo.linalg.svd(a).U * vectors)), x)
        assert np.isnan(found).any()


# ---- matrices that are not Hermitian


def test_sums_of_eigenvalues_of_a_general_matrix():
    basis = RNG.standard_normal((3, 3))
    x = basis @ np.diag([2.0, 2.0, 5.0]) @ np.linalg.inv(basis)
    check(lambda a: eo.sum(eo.real(eo.linalg.eigvals(a) ** 2)), x, tol=1e-6)
    check(lambda a: eo.real(eo.sum(eo.linalg.eig(a).eigenvalues)), np.eye(3))


def test_a_defective_matrix_has_no_derivative_of_eigenvalues():
    found = gradient(lambda a: eo.real(eo.sum(eo.linalg.eigvals(a))), np.array([[1.0, 1.0], [0.0, 1.0]]))
    assert np.isnan(found).all()


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_determinants_of_singular_matrices(rank):
    x = rectangular(4, 4, [2.0, 1.5, 0.5][:rank]) if rank else np.zeros((4, 4))
    for matrix in (x, np.round(x * 4)):  # singular to rounding, and exactly
        check(eo.linalg.det, matrix, tol=1e-6)

    for found, expected in second_derivatives(eo.linalg.det, x):
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


# ---- rules that only these points show


@pytest.mark.parametrize("f", [lambda x: x.Q, lambda x: x.R])
@pytest.mark.parametrize("x", [np.array([[1.0, 2.0], [2.0, 4.0]]), np.zeros((3, 2)), np.ones((3, 2)) / 3])
def test_qr_of_dependent_columns_has_no_derivative(f, x):
    assert np.isnan(gradient(lambda a: eo.sum(f(eo.linalg.qr(a))), x)).any()
    pushed = eo.jvp(lambda a: f(eo.linalg.qr(a)), (eo.asarray(x),), (eo.ones_like(eo.asarray(x)),))[1]
    assert eo.isnan(pushed).any().item()


def test_lu_of_a_singular_matrix_has_no_derivative():
    x = np.array([[1.0, 2.0], [2.0, 4.0]])
    assert np.isnan(gradient(lambda a: eo.sum(eo.linalg.lu(a).L), x)).any()
    pushed = eo.jvp(lambda a: eo.linalg.lu(a).L, (eo.asarray(x),), (eo.ones_like(eo.asarray(x)),))[1]
    assert eo.isnan(pushed).any().item()


def test_one_part_of_a_decomposition_alone():
    x = RNG.standard_normal((4, 3)) + 1j * RNG.standard_normal((4, 3))
    w, s = weights((4, 3), True), weights((3, 3), True)
    check(lambda a: eo.sum(eo.real(eo.linalg.qr(a).Q * w)), x)
    check(lambda a: eo.sum(eo.real(eo.linalg.qr(a).R * s)), x)
    check(lambda a: eo.sum(eo.real(eo.linalg.svd(a, full_matrices=False).U * w)), x)
    check(lambda a: eo.sum(eo.real(eo.linalg.svd(a, full_matrices=False).Vh * s)), x)
    check(lambda a: eo.sum(eo.linalg.svd(a, full_matrices=False).S * np.array([1.0, -2.0, 0.5])), x)
    square = x[:3]
    check(lambda a: eo.sum(eo.real(eo.linalg.lu(a).L * s)), square)
    check(lambda a: eo.sum(eo.real(eo.linalg.lu(a).U * s)), square)
    check(lambda a: eo.sum(eo.real(eo.linalg.eig(a).eigenvectors * s)), square)
    check(lambda a: eo.sum(eo.real(eo.linalg.eigh(a).eigenvectors * s)), square)
    check(lambda a: eo.sum(eo.linalg.eigh(a).eigenvalues * np.array([1.0, -2.0, 0.5])), square)


def test_the_sign_of_a_real_determinant_is_constant():
    x = RNG.standard_normal((3, 3))
    np.testing.assert_array_equal(gradient(lambda a: eo.linalg.slogdet(a).sign * 3, x), np.zeros((3, 3)))
    check(lambda a: eo.real(eo.linalg.slogdet(a).sign * (1 - 2j)), x + 1j * RNG.standard_normal((3, 3)))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("chosen", [(0, 1), (0, 0)])
def test_a_function_of_the_product_of_an_orthogonal_matrix_with_its_transpose(side, chosen):
    """Its vectors on one side are the unit vectors, where a single element says nothing of the others."""
    x = orthogonal(3)

    def f(a):
        u, s, vh = eo.linalg.svd(a)
        v = u if side == "left" else vh.mT
        return ((v * eo.log(s)) @ v.mT)[chosen]

    for matrix in (x, np.eye(3)):
        found = gradient(f, matrix)
        for d in directions(matrix):
            got = np.sum(found * d)
            assert np.isnan(got) or abs(got - along(f, matrix, d)) < 1e-6


@pytest.mark.parametrize("name", ["tall", "wide", "square", "two zeros"])
def test_second_derivatives_beside_a_null_space_are_right_or_nan(name):
    x = DEFICIENT[name]
    w = weights(x.shape)

    def f(a):
        u, s, vh = eo.linalg.svd(a, full_matrices=False)
        return eo.sum(((u[:, :1] * s[:1] ** 3) @ vh[:1]) * w)

    for found, expected in second_derivatives(f, x):
        assert np.isnan(found) or found == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_real_values_beside_complex_matrices_get_real_cotangents():
    from everyo.core.registry import op

    x, h, v = (RNG.standard_normal((3, 3)) + 1j * RNG.standard_normal((3, 3)) for _ in range(3))
    s, w = np.array([3.0, 2.0, 0.5]), weights((3, 3), True)
    calls = {
        "over_gaps": lambda s: op.over_gaps(eo.asarray(x), None, s, eo.asarray(v), skew=True),
        "over_gaps diagonal": lambda s: op.over_gaps(
            eo.asarray(x), s, eo.asarray([1.0, 4.0, 2.0]), eo.asarray(v), skew=True
        ),
        "over_sums": lambda s: op.over_sums(eo.asarray(x), s),
        "over_values": lambda s: op.over_values(eo.asarray(x), eo.asarray(h), s),
    }
    for call in calls.values():
        leaf = eo.tensor(s, requires_grad=True)
        out = call(leaf)
        (g,) = out.grad_node.backward_fn(w.numpy().conj())
        assert g.dtype == eo.float64
        for k in range(3):
            moved = [call(eo.asarray(s + step * np.eye(3)[k])).numpy() for step in (1e-6, -1e-6)]
            expected = np.sum(w.numpy().conj() * (moved[0] - moved[1]) / 2e-6).real
            assert g[k] == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_zero_values_under_second_derivatives_of_their_sums():
    """Cotangents that are taken for zero once say nothing of their own derivatives."""
    from everyo.core.registry import op

    s, v = np.array([2.0, 0.0]), np.ones((2, 2))
    pull = eo.tensor(np.array([1.0, 0.0]), requires_grad=True)
    out = op.trusted(pull, eo.asarray(s), eo.asarray(v), strict=True)
    np.testing.assert_array_equal(out.detach().numpy(), [1.0, 0.0])
    np.testing.assert_array_equal(out.grad_node.backward_fn(np.ones(2))[0], [1.0, np.nan])
    t = eo.jvp(
        lambda g: op.trusted(g, eo.asarray(s), eo.asarray(v), strict=True),
        (pull.detach(),),
        (eo.ones(2, dtype=eo.float64),),
    )[1]
    np.testing.assert_array_equal(t.numpy(), [1.0, np.nan])


def test_forward_mode_of_the_vectors_that_full_matrices_add():
    x, t = RNG.standard_normal((5, 3)), RNG.standard_normal((5, 3))
    pushed = eo.jvp(lambda a: eo.linalg.svd(a).U, (eo.asarray(x),), (eo.asarray(t),))[1]
    assert pushed.shape == (5, 5)
    assert eo.isnan(pushed[:, 3:]).all().item()
    thin = eo.jvp(lambda a: eo.linalg.svd(a, full_matrices=False).U, (eo.asarray(x),), (eo.asarray(t),))[1]
    np.testing.assert_array_equal(pushed[:, :3].numpy(), thin.numpy())


@pytest.mark.parametrize("shape", [(70, 70), (2, 130, 130)])
@pytest.mark.parametrize("complex_", [False, True])
def test_the_factor_of_a_large_matrix_is_differentiated_block_by_block(shape, complex_):
    n = shape[-1]
    x = RNG.standard_normal(shape) + (1j * RNG.standard_normal(shape) if complex_ else 0)
    x = x @ np.swapaxes(x.conj(), -1, -2) / n + np.eye(n)
    w = weights(shape, complex_)
    check(lambda a: eo.sum(eo.real(eo.linalg.cholesky(a) * w)), x, tol=1e-6)


def test_exact_zeros_in_the_vectors_of_either_side_are_not_trusted():
    from everyo.core.registry import get_primitive

    generic, s, silent = orthogonal(2), np.ones(2), np.zeros((2, 2))
    (pull,) = get_primitive("svd").vjp
    for u, vh in ((generic, np.eye(2)), (np.eye(2), generic)):
        assert np.isnan(pull({0: silent, 1: np.ones(2)}, (u, s, vh))).any()
    other = orthogonal(2)
    np.testing.assert_allclose(pull({0: silent, 1: np.ones(2)}, (generic, s, other)), generic @ other)


def test_a_column_that_is_small_beside_the_whole_goes_with_a_zero_value():
    from everyo.core.registry import op

    x = eo.tensor(np.array([[1.0, 0.0], [1.0, 0.0]]), requires_grad=True)
    rest = (eo.ones((2, 2), dtype=eo.float64), eo.asarray([2.0, 0.0], dtype=eo.float64))
    op.over_values(x, *rest).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[0.5, 0.0], [0.5, 0.0]])
    pushed = eo.jvp(lambda x: op.over_values(x, *rest), (x.detach(),), (eo.ones_like(x.detach()),))[1]
    np.testing.assert_array_equal(pushed.numpy(), [[0.5, 0.0], [0.5, 0.0]])
