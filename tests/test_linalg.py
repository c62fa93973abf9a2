"""Linear algebra: NumPy's values, gradients by differences, batches, every transformation."""

import tracemalloc

import numpy as np
import pytest

import everyo as eo
from everyo.core.device import backend_for
from everyo.testing import gradcheck

RNG = np.random.default_rng(3)


def real(*shape):
    return RNG.standard_normal(shape)


def both(*shape):
    return real(*shape) + 1j * real(*shape)


def definite(x):
    return x @ np.swapaxes(x.conj(), -1, -2) + 0.5 * np.eye(x.shape[-1])


def lower(x):
    return np.tril(x) + 2 * np.eye(x.shape[-1])


def vander(n):
    return np.vander(np.linspace(0.2, 1.0, n))


SHAPES = [(3, 3), (2, 3, 3), (1, 1)]
TALL_AND_WIDE = [(4, 2), (2, 4), (3, 3), (2, 3, 2), (2, 2, 3)]

# Function of ours, NumPy's or what it should be, and operands: for each shape real and complex ones.
SQUARE = {
    "inv": (eo.linalg.inv, np.linalg.inv),
    "det": (eo.linalg.det, np.linalg.det),
    "slogdet": (eo.linalg.slogdet, np.linalg.slogdet),
    "matrix_power": (lambda x: eo.linalg.matrix_power(x, 5), lambda x: np.linalg.matrix_power(x, 5)),
    "inverse power": (lambda x: eo.linalg.matrix_power(x, -2), lambda x: np.linalg.matrix_power(x, -2)),
    "power 0": (lambda x: eo.linalg.matrix_power(x, 0), lambda x: np.linalg.matrix_power(x, 0)),
    "cond 1": (lambda x: eo.linalg.cond(x, 1), lambda x: np.linalg.cond(x, 1)),
    "cond fro": (lambda x: eo.linalg.cond(x, "fro"), lambda x: np.linalg.cond(x, "fro")),
    "trace": (eo.linalg.trace, np.linalg.trace),
    "trace above": (lambda x: eo.linalg.trace(x, offset=1), lambda x: np.linalg.trace(x, offset=1)),
    "diagonal": (eo.linalg.diagonal, np.linalg.diagonal),
}
DEFINITE = {
    "cholesky": (eo.linalg.cholesky, np.linalg.cholesky),
    "upper cholesky": (
        lambda x: eo.linalg.cholesky(x, upper=True),
        lambda x: np.linalg.cholesky(x, upper=True),
    ),
    "eigvalsh": (eo.linalg.eigvalsh, np.linalg.eigvalsh),
    "eigh": (lambda x: eo.linalg.eigh(x)[0], lambda x: np.linalg.eigh(x)[0]),
    "lower eigvalsh": (
        lambda x: eo.linalg.eigvalsh(eo.tril(x), UPLO="L"),
        lambda x: np.linalg.eigvalsh(np.tril(x), UPLO="L"),
    ),
    "upper eigh": (
        lambda x: eo.linalg.eigh(eo.triu(x), UPLO="U")[0],
        lambda x: np.linalg.eigh(np.triu(x), UPLO="U")[0],
    ),
}
ANY = {
    "pinv": (eo.linalg.pinv, np.linalg.pinv),
    "svdvals": (eo.linalg.svdvals, np.linalg.svdvals),
    "svd": (lambda x: eo.linalg.svd(x)[1], lambda x: np.linalg.svd(x)[1]),
    "cond": (eo.linalg.cond, np.linalg.cond),
    "cond -2": (lambda x: eo.linalg.cond(x, -2), lambda x: np.linalg.cond(x, -2)),
    **{
        f"matrix_norm {ord}": (
            lambda x, ord=ord: eo.linalg.matrix_norm(x, ord=ord),
            lambda x, ord=ord: np.linalg.matrix_norm(x, ord=ord),
        )
        for ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    },
}


def cases():
    for table, shapes, change in (
        (SQUARE, SHAPES, lambda x: x + 3 * np.eye(x.shape[-1])),
        (DEFINITE, SHAPES, definite),
        (ANY, TALL_AND_WIDE, lambda x: x),
    ):
        for name, functions in table.items():
            for shape in shapes:
                for make in (real, both):
                    yield pytest.param(*functions, change(make(*shape)), id=f"{name}-{shape}-{make.__name__}")


def agree(found, expected, **tolerance):
    found = found if isinstance(found, tuple) else (found,)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for f, e in zip(found, expected, strict=True):
        assert (tuple(f.shape), f.dtype) == (np.shape(e), np.asarray(e).dtype)
        np.testing.assert_allclose(f.numpy(), e, **{"rtol": 1e-11, "atol": 1e-11, **tolerance})


def gradients_agree(f, *arguments):
    """Check the first and second derivatives in both modes, vmap and a compiled call against plain ones."""
    assert gradcheck(f, *arguments)

    def total(*x):
        out = f(*x)
        out = out if isinstance(out, tuple) else (out,)
        return sum(eo.sum(eo.real(o) * 0.7 + eo.imag(o) * 0.4) for o in out if o.dtype.kind in "fc")

    assert gradcheck(eo.grad(total), arguments[0], *arguments[1:])


@pytest.mark.parametrize(("ours", "numpys", "x"), list(cases()))
def test_values_and_gradients(ours, numpys, x):
    agree(ours(eo.asarray(x)), numpys(x))
    agree(ours(eo.asarray(np.ascontiguousarray(np.swapaxes(x, -1, -2)))), numpys(np.swapaxes(x, -1, -2)))
    gradients_agree(ours, eo.asarray(x))


@pytest.mark.parametrize(
    ("ours", "numpys", "x"), [c for c in cases() if "(3, 3)-real" in c.id or "(4, 2)-real" in c.id]
)
def test_single_precision_batches_and_compiled_calls(ours, numpys, x):
    single = x.astype("float32")
    agree(ours(eo.asarray(single)), numpys(single), rtol=2e-4, atol=2e-4)
    stack = np.stack([x, x + 0.1, x - 0.2])
    mapped = eo.vmap(ours)(eo.asarray(stack))
    agree(
        mapped,
        tuple(map(np.stack, zip(*(numpys(m) for m in stack))))
        if isinstance(mapped, tuple)
        else np.stack([numpys(m) for m in stack]),
    )
    agree(eo.compile(ours)(eo.asarray(x)), numpys(x))

    def total(a):
        out = ours(a)
        return sum(map(eo.sum, out)) if isinstance(out, tuple) else eo.sum(out)

    slope = eo.grad(total)(eo.asarray(x))
    agree(eo.compile(eo.grad(total))(eo.asarray(x)), slope.numpy())
    agree(eo.vmap(eo.grad(total))(eo.asarray(stack[:1])), slope.numpy()[None])
    assert eo.grad(total)(eo.asarray(single)).dtype == eo.float32


def test_integers_are_computed_in_float64():
    x = np.array([[2, 1], [1, 3]])
    for name in ("inv", "det", "cholesky", "eigvalsh", "svdvals", "pinv", "matrix_norm", "cond"):
        agree(getattr(eo.linalg, name)(eo.asarray(x)), np.asarray(getattr(np.linalg, name)(x)))
    assert eo.linalg.matrix_power(eo.asarray(x), 2).dtype == eo.int64
    agree(eo.linalg.solve(x, [1, 2]), np.linalg.solve(x, [1, 2]))


# ---- systems

SYSTEMS = {
    "vector": ((3, 3), (3,)),
    "column": ((3, 3), (3, 1)),
    "columns": ((3, 3), (3, 2)),
    "batch": ((2, 3, 3), (2, 3, 2)),
    "one matrix": ((3, 3), (2, 3, 1)),
    "one right-hand side": ((2, 3, 3), (3, 1)),
    "broadcast": ((2, 1, 2, 2), (3, 2, 1)),
    "one vector for a batch": ((2, 3, 3), (3,)),
    "large matrices": ((2, 25, 25), (2, 25, 1)),
}
every_system = pytest.mark.parametrize(("a", "b"), SYSTEMS.values(), ids=SYSTEMS)
every_kind = pytest.mark.parametrize("make", [real, both])


def solved(a, b):
    return np.linalg.solve(a, b[:, None])[..., 0] if b.ndim == 1 else np.linalg.solve(a, b)


@every_system
@every_kind
def test_solve(a, b, make):
    a, b = make(*a) + 3 * np.eye(a[-1]), make(*b)
    agree(eo.linalg.solve(a, b), solved(a, b))
    if a.shape[-1] < 20:
        gradients_agree(eo.linalg.solve, eo.asarray(a), eo.asarray(b))
    else:
        leaf = eo.tensor(a, requires_grad=True)
        (eo.linalg.solve(leaf, b) * 0.5).sum().real.backward()
        w = np.linalg.solve(np.swapaxes(a.conj(), -1, -2), 0.5 * np.ones(b.shape))
        agree(leaf.grad, -w @ np.swapaxes(solved(a, b).conj(), -1, -2))


@every_kind
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("shapes", [((3, 3), (3, 2)), ((9, 2, 2), (9, 2, 1)), ((2, 3, 3), (3, 1))])
def test_solve_triangular(make, upper, unit, left, shapes):
    a, b = make(*shapes[0]) + 2 * np.eye(shapes[0][-1]), make(*shapes[1])
    b = b if left else np.swapaxes(b, -1, -2)
    full = np.triu(a, int(unit)) if upper else np.tril(a, -int(unit))
    full = full + np.eye(a.shape[-1]) * unit

    def f(a, b):
        return eo.linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)

    expected = np.linalg.solve(full, b) if left else b @ np.linalg.inv(full)
    agree(f(eo.asarray(a), eo.asarray(b)), expected)
    gradients_agree(f, eo.asarray(a), eo.asarray(b))


@every_kind
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_solve(make, upper):
    for shapes in (((3, 3), (3, 2)), ((2, 2, 2), (2, 1)), ((3, 3), (3,))):
        factor, b = lower(make(*shapes[0])), make(*shapes[1])
        a = factor @ np.swapaxes(factor.conj(), -1, -2)
        factor = np.swapaxes(factor.conj(), -1, -2) if upper else factor
        agree(eo.linalg.cholesky_solve(b, factor, upper=upper), solved(a, b))
        gradients_agree(
            lambda b, l: eo.linalg.cholesky_solve(b, l, upper=upper), eo.asarray(b), eo.asarray(factor)
        )


@every_kind
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2), (1, 2, 3)])
def test_lu(make, shape):
    x = make(*shape)
    p, l, u = eo.linalg.lu(x)
    agree(p @ l @ u, x)
    assert p.dtype == x.dtype
    np.testing.assert_array_equal(np.triu(l.numpy(), 1), 0)
    np.testing.assert_array_equal(np.tril(u.numpy(), -1), 0)
    assert np.abs(l.numpy()).max() <= (1 if make is real else 2**0.5) + 1e-12
    gradients_agree(lambda x: tuple(eo.linalg.lu(x)[1:]), eo.asarray(x))


@every_kind
def test_lu_factor_and_lu_solve(make):
    for shapes in (((3, 3), (3, 2)), ((2, 2, 2), (2, 1)), ((3, 3), (3,)), ((2, 2), (3, 2, 1))):
        a, b = make(*shapes[0]), make(*shapes[1])
        agree(eo.linalg.lu_solve(eo.linalg.lu_factor(a), b), solved(a, b))
        gradients_agree(
            lambda a, b: eo.linalg.lu_solve(eo.linalg.lu_factor(a), b), eo.asarray(a), eo.asarray(b)
        )


@every_kind
@pytest.mark.parametrize(
    "shapes", [((4, 2), (4, 2)), ((2, 4), (2,)), ((3, 3), (3, 1)), ((2, 4, 2), (2, 4, 1))]
)
def test_lstsq(make, shapes):
    a, b = make(*shapes[0]), make(*shapes[1])
    found = eo.linalg.lstsq(a, b)
    if a.ndim == 2:
        x, residuals, rank, s = np.linalg.lstsq(a, b)
        agree(tuple(found[i] for i in (0, 3)), (x, s))
        assert found.rank.item() == rank
        agree(found.residuals, residuals)
    else:
        agree(found.solution, np.stack([np.linalg.lstsq(m, v)[0] for m, v in zip(a, b)]))
    gradients_agree(lambda a, b: tuple(eo.linalg.lstsq(a, b)[:2]), eo.asarray(a), eo.asarray(b))
    gradients_agree(lambda a, b: eo.linalg.lstsq(a, b).singular_values, eo.asarray(a), eo.asarray(b))
    tracked = eo.linalg.lstsq(eo.tensor(a, requires_grad=True), b)
    agree(tuple(tracked[i].detach() for i in (0, 3)), tuple(found[i] for i in (0, 3)))
    np.testing.assert_array_equal(tracked.rank.numpy(), found.rank.numpy())
    changes = eo.jvp(lambda a: tuple(eo.linalg.lstsq(a, b)), (eo.asarray(a),), (eo.asarray(a),))[1]
    agree(changes[0], -found.solution)  # a scaled by 1 + t scales the solution by 1 / (1 + t)
    agree(changes[3], found.singular_values)


def test_lstsq_of_deficient_matrices():
    a = real(4, 2) @ real(2, 3)
    for stacked in (a, np.stack([a, 2 * a])):
        b = real(*stacked.shape[:-1], 1)
        found = eo.linalg.lstsq(stacked, b)
        agree(found.solution, np.linalg.pinv(stacked, rtol=1e-12) @ b)
        assert (found.rank.numpy() == 2).all()


def test_tensorsolve_and_tensorinv():
    a, b = real(2, 3, 6), real(2, 3)
    agree(eo.linalg.tensorsolve(a, b), np.linalg.tensorsolve(a, b))
    c = real(2, 6, 3)
    agree(eo.linalg.tensorsolve(c, b, axes=(1,)), np.linalg.tensorsolve(c, b, axes=(1,)))
    agree(eo.linalg.tensorinv(a), np.linalg.tensorinv(a))
    agree(
        eo.linalg.tensorinv(real(6, 2, 3) * 0 + a.reshape(6, 2, 3), ind=1),
        np.linalg.tensorinv(a.reshape(6, 2, 3), ind=1),
    )
    gradients_agree(eo.linalg.tensorsolve, eo.asarray(a), eo.asarray(b))
    gradients_agree(eo.linalg.tensorinv, eo.asarray(a))


# ---- decompositions: what they are made of gives the matrix again


@every_kind
@pytest.mark.parametrize("shape", TALL_AND_WIDE)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr(make, shape, mode):
    x = make(*shape)
    q, r = eo.linalg.qr(x, mode=mode)
    m, n = shape[-2:]
    k = min(m, n) if mode == "reduced" else m
    assert q.shape[-2:] == (m, k)
    agree(q @ r, x)
    agree(eo.conj(q).mT @ q, np.broadcast_to(np.eye(k), (*shape[:-2], k, k)).astype(x.dtype))
    np.testing.assert_allclose(np.tril(r.numpy(), -1), 0, atol=1e-14)
    agree(eo.linalg.qr(x, mode="r"), eo.linalg.qr(x).R.numpy())
    if mode == "reduced" or m - n < 2:
        gradients_agree(lambda x: tuple(eo.linalg.qr(x, mode=mode)), eo.asarray(x))


@every_kind
@pytest.mark.parametrize("shape", TALL_AND_WIDE)
@pytest.mark.parametrize("full", [False, True])
def test_svd(make, shape, full):
    x = make(*shape)
    u, s, vh = eo.linalg.svd(x, full_matrices=full)
    k = min(shape[-2:])
    agree((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x)
    for q in (u, eo.conj(vh).mT):
        n = q.shape[-1]
        agree(eo.conj(q).mT @ q, np.broadcast_to(np.eye(n), (*shape[:-2], n, n)).astype(x.dtype))
    if not full or abs(shape[-1] - shape[-2]) < 2:
        gradients_agree(lambda x: tuple(eo.linalg.svd(x, full_matrices=full)), eo.asarray(x))


@every_kind
@pytest.mark.parametrize("shape", SHAPES)
def test_eigenvectors(make, shape):
    x = make(*shape)
    w, v = eo.linalg.eig(x)
    assert w.dtype == v.dtype == eo.complex128
    agree(x @ v, (v * w[..., None, :]).numpy())
    gradients_agree(lambda x: tuple(eo.linalg.eig(x)), eo.asarray(x))
    whole = x + np.swapaxes(x.conj(), -1, -2)
    w, v = eo.linalg.eigh(whole)
    agree((v * w[..., None, :]) @ eo.conj(v).mT, whole)
    gradients_agree(lambda x: tuple(eo.linalg.eigh(x)), eo.asarray(whole))
    found = np.sort_complex(eo.linalg.eigvals(x).numpy())
    np.testing.assert_allclose(found, np.sort_complex(np.linalg.eigvals(x)), rtol=1e-11, atol=1e-11)
    assert (
        eo.linalg.eigvals(x.astype("complex64" if x.dtype.kind == "c" else "float32")).dtype == eo.complex64
    )


def test_derivatives_of_a_symmetric_function_are_symmetric():
    x = definite(real(3, 3))
    for f in (eo.linalg.cholesky, lambda x: eo.linalg.eigh(x).eigenvectors, eo.linalg.eigvalsh):
        g = eo.grad(lambda x, f=f: (f(x) ** 3).sum())(eo.asarray(x)).numpy()
        np.testing.assert_allclose(g, g.T, rtol=1e-12, atol=1e-12)


def test_matrix_functions():
    sl = pytest.importorskip("scipy.linalg")
    for make in (real, both):
        for shape in SHAPES:
            x = 0.3 * make(*shape) + 2 * np.eye(shape[-1])
            for name, reference in (("matrix_exp", sl.expm), ("logm", sl.logm), ("sqrtm", sl.sqrtm)):
                function = getattr(eo.linalg, name)
                expected = reference(x) if x.ndim == 2 else np.stack([reference(m) for m in x])
                agree(function(x), expected.astype(x.dtype))
                assert gradcheck(function, eo.asarray(x))
            agree(eo.linalg.matrix_exp(eo.linalg.logm(x)), x)
            agree(eo.linalg.sqrtm(x) @ eo.linalg.sqrtm(x), x)


def test_a_logarithm_is_the_same_each_time_and_leaves_numpys_random_numbers_alone():
    pytest.importorskip("scipy.linalg")
    x = 0.3 * real(6, 6) + 2 * np.eye(6)
    np.random.seed(3)
    expected = np.random.random(4)
    np.random.seed(3)
    first, second = eo.linalg.logm(x).numpy(), eo.linalg.logm(x).numpy()
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(np.random.random(4), expected)


# ---- products


def test_products_and_diagonals():
    a, b = real(4, 3), both(2, 4, 3)
    agree(eo.cross(a, b), np.cross(a, b))
    agree(eo.linalg.cross(a.T, a.T[::-1], axis=0), np.cross(a.T, a.T[::-1], axis=0))
    agree(eo.kron(a, real(3) * 0 + [1.0, 2.0, 3.0]), np.kron(a, [1.0, 2.0, 3.0]))
    agree(eo.kron(a, b), np.kron(a, b))
    agree(eo.matvec(b, a[0]), np.matvec(b, a[0]))
    agree(eo.vecmat(b[..., 0], a), np.vecmat(b[..., 0], a))
    agree(eo.linalg.outer(a[0], b[0, 0]), np.outer(a[0], b[0, 0]))
    agree(eo.linalg.trace(b, dtype=eo.complex64), np.linalg.trace(b.astype("complex64")), rtol=1e-5)
    gradients_agree(lambda x, y: eo.cross(x, y, axis=0), eo.asarray(real(3, 2)), eo.asarray(real(3, 1)))
    gradients_agree(eo.kron, eo.asarray(real(2, 2)), eo.asarray(both(2)))
    gradients_agree(eo.matvec, eo.asarray(both(2, 3)), eo.asarray(real(2, 3)))
    gradients_agree(eo.vecmat, eo.asarray(both(2)), eo.asarray(both(3, 2, 2)))


@pytest.mark.parametrize("sizes", [(2, 3), (4, 1, 5), (10, 2, 8, 3), (3, 3, 3, 3, 3)])
@pytest.mark.parametrize("row", [False, True])
@pytest.mark.parametrize("column", [False, True])
def test_multi_dot(sizes, row, column):
    factors = [real(n, m) for n, m in zip(sizes, (*sizes[1:], 2))]
    factors[0] = factors[0][0] if row else factors[0]
    factors[-1] = factors[-1][..., 0] if column and factors[-1].ndim > 1 else factors[-1]
    agree(eo.linalg.multi_dot(factors), np.asarray(np.linalg.multi_dot(factors)))
    gradients_agree(lambda *x: eo.linalg.multi_dot(x), *map(eo.asarray, factors))


# ---- norms


@pytest.mark.parametrize("ord", [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
@pytest.mark.parametrize("axis", [(0, 1), (2, 0), (-1, -3)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_norms_of_matrices(ord, axis, keepdims):
    x = real(3, 4, 2)
    expected = np.linalg.norm(x, ord=ord, axis=axis, keepdims=keepdims)
    agree(eo.linalg.norm(x, ord, axis, keepdims), expected)
    assert gradcheck(lambda x: eo.linalg.norm(x, ord, axis, keepdims), eo.asarray(x))


@pytest.mark.parametrize("ord", [None, 0, 0.5, 1, 2, 3, -1, np.inf, -np.inf])
def test_norms_of_vectors(ord):
    x = both(3, 4)
    agree(eo.linalg.norm(x, ord, 1), np.linalg.norm(x, ord, 1))
    agree(eo.linalg.norm(x[0], ord), np.asarray(np.linalg.norm(x[0], ord)))
    agree(eo.linalg.norm(x), np.asarray(np.linalg.norm(x)))
    agree(eo.linalg.norm(real(2, 3, 4) * 0 + 1), np.asarray(np.sqrt(24.0)))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 2)])
def test_empty_matrices(shape):
    x = eo.zeros(shape, dtype=eo.float64, requires_grad=True)
    for ord in ("fro", "nuc", 1, 2, np.inf):
        out = eo.linalg.matrix_norm(x, ord=ord)
        np.testing.assert_array_equal(out.detach().numpy(), np.zeros(shape[:-2]))
    assert eo.linalg.pinv(x).shape == (*shape[:-2], shape[-1], shape[-2])
    assert eo.linalg.svdvals(x).shape == (*shape[:-2], 0)
    assert eo.linalg.matrix_rank(x).shape == shape[:-2]
    if shape == (0, 0):
        for f in (eo.linalg.det, eo.linalg.inv, eo.linalg.cholesky, eo.linalg.eigvalsh, eo.linalg.matrix_exp):
            eo.sum(f(x)).backward()
        assert eo.linalg.det(x).item() == 1.0


def test_rank():
    x = np.stack([np.diag([1.0, 1e-3, 0.0]), np.eye(3)])
    agree(eo.linalg.matrix_rank(x), np.linalg.matrix_rank(x))
    agree(eo.linalg.matrix_rank(x, rtol=0.01), np.linalg.matrix_rank(x, rtol=0.01))
    agree(eo.linalg.matrix_rank(x, rtol=eo.tensor([0.01, 1e-5])), np.array([1, 3]))
    agree(eo.linalg.pinv(x, rtol=[0.01, 1e-5]), np.linalg.pinv(x, rtol=np.array([0.01, 1e-5])))
    agree(eo.linalg.pinv(x, 0.01), np.linalg.pinv(x, 0.01))
    agree(eo.linalg.matrix_rank(x, 0.5), np.linalg.matrix_rank(x, 0.5))
    agree(eo.linalg.svd(x, False, compute_uv=False), np.linalg.svd(x, False, compute_uv=False))
    np.testing.assert_array_equal(eo.linalg.qr(x, "r"), eo.linalg.qr(x).R)


def test_without_scipy_the_rest_works(monkeypatch):
    from everyo.core.device import backend_for

    class Missing:
        def __getattr__(self, name):
            raise eo.UnsupportedOperationError("SciPy is missing", operation=name)

    monkeypatch.setattr(backend_for("cpu")[0].xp, "scipy_linalg", Missing())
    for make in (real, both):
        a, b = make(3, 3) + 3 * np.eye(3), make(3, 2)
        assert gradcheck(eo.linalg.solve, eo.asarray(a), eo.asarray(b))
        assert gradcheck(eo.linalg.cholesky, eo.asarray(definite(a)))
        for upper, unit, left in ((True, False, True), (False, True, False)):
            full = np.triu(a) if upper else np.tril(a, -1) + np.eye(3)
            x = eo.linalg.solve_triangular(a, b if left else b.T, upper=upper, unitriangular=unit, left=left)
            agree(x, np.linalg.solve(full, b) if left else b.T @ np.linalg.inv(full))
    with pytest.raises(eo.UnsupportedOperationError):
        eo.linalg.matrix_exp(np.eye(2))


# ---- cost


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("n", [3, 30])
def test_factors_and_triangles_solve_systems_of_one_column_and_of_several(n, columns, dtype):
    scipy_linalg = pytest.importorskip("scipy.linalg")
    xp, rounding = backend_for("cpu")[0].xp, 1e3 * np.finfo(dtype).eps
    a = (both(n, n) if dtype == "complex128" else real(n, n)).astype(dtype) + 4 * np.eye(n, dtype=dtype)
    b = real(n, columns).astype(dtype)
    factors, rows = scipy_linalg.lu_factor(a)
    for transposed in (False, True):
        x = xp.solve_factored(np.asfortranarray(factors), rows, b, transposed)
        np.testing.assert_allclose((a.T if transposed else a) @ x, b, atol=rounding)
        for triangle, upper in ((np.triu(a), True), (np.tril(a), False)):
            for stored in (triangle, np.asfortranarray(triangle)):
                x = xp.solve_triangle(stored, b, upper, transposed, False)
                residual = (triangle.T if transposed else triangle) @ x - b
                assert np.abs(residual).max() < rounding * max(1, np.abs(x).max())
                assert x.dtype == dtype


def test_a_batch_of_right_hand_sides_of_a_small_matrix_is_solved_as_columns():
    a, b = real(3, 3) + 4 * np.eye(3), real(5, 2, 3, 2)
    agree(eo.linalg.solve(a, b), np.linalg.solve(a, b))
    agree(eo.vmap(lambda b: eo.linalg.solve(a, b))(b), np.linalg.solve(a, b))
    with pytest.raises(eo.LinAlgError, match="the matrix is singular"):
        eo.linalg.solve(np.zeros((3, 3)), np.zeros((3, 0)))


def test_a_derivative_of_a_solution_factors_nothing_again(monkeypatch):
    calls, xp = [], backend_for("cpu")[0].xp

    def count(name, function):
        monkeypatch.setattr(
            xp, name, lambda *arrays, **options: calls.append(name) or function(*arrays, **options)
        )

    count("lapack", xp.lapack)
    count("solve_factored", xp.solve_factored)
    a = eo.tensor(real(4, 4) + 4 * np.eye(4), requires_grad=True)
    b = eo.tensor(real(4), requires_grad=True)
    x = eo.linalg.solve(a, b)
    (g,) = eo.autograd.grad(eo.sum(x**2), a, create_graph=True)
    eo.autograd.grad(eo.sum(g**2), (a, b))
    assert calls.count("lapack") == 1
    assert calls.count("solve_factored") > 3


@pytest.mark.parametrize("shape", [(1500, 3), (3, 1500)])
@pytest.mark.parametrize("name", ["pinv", "lstsq"])
def test_long_matrices_take_no_square_of_their_length(name, shape):
    a = eo.asarray(np.random.default_rng(0).normal(size=shape))
    b = eo.ones(shape[0], dtype=eo.float64)

    def f(a):
        return eo.linalg.pinv(a) if name == "pinv" else eo.linalg.lstsq(a, b).solution

    gradient = eo.grad(lambda a: (f(a) ** 2).sum())
    tracemalloc.start()
    try:
        first, second = gradient(a), eo.jvp(gradient, (a,), (a,))[1]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(second.numpy(), -3 * first.numpy(), rtol=1e-8)  # it is of degree -3
    assert peak < 100 * a.numpy().nbytes  # a square would be 500 times as large


def test_a_tangent_of_a_condition_number_has_a_gradient():
    x = eo.tensor([[2.0, 1.0], [0.5, 3.0]], dtype=eo.float64)
    v = eo.tensor([[1.0, 0.0], [0.5, -1.0]], dtype=eo.float64)
    for p in (None, -2, "nuc", 1):

        def f(x, p=p):
            return eo.linalg.cond(x, p)

        found = eo.grad(lambda x, f=f: eo.jvp(f, (x,), (v,))[1])(x)
        agree(found, eo.jvp(eo.grad(f), (x,), (v,))[1].numpy(), rtol=1e-12)
