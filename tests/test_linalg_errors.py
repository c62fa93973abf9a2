"""Linear algebra: what cannot be computed, and what does not fit."""

import numpy as np
import pytest

import everyo as eo

SINGULAR = np.stack([np.eye(2), np.eye(2), np.ones((2, 2))])
ERRORS = {
    "inv": lambda: eo.linalg.inv(SINGULAR),
    "solve": lambda: eo.linalg.solve(SINGULAR, np.ones(2)),
    "solve one": lambda: eo.linalg.solve(SINGULAR[2], np.ones(2)),
    "solve_triangular": lambda: eo.linalg.solve_triangular(
        np.stack([np.eye(2)] * 2 + [np.zeros((2, 2))]), np.ones(2), upper=True
    ),
    "cholesky": lambda: eo.linalg.cholesky(np.stack([np.eye(2), np.eye(2), -np.eye(2)])),
    "cholesky of one": lambda: eo.linalg.cholesky(-np.eye(2)),
    "svd": lambda: eo.linalg.svd(np.stack([np.eye(2), np.eye(2), np.full((2, 2), np.nan)])),
    "logm": lambda: eo.linalg.logm(np.stack([np.eye(2), np.eye(2), -np.eye(2)])),
    "sqrtm": lambda: eo.linalg.sqrtm(-np.eye(2)),
    "inverse power": lambda: eo.linalg.matrix_power(SINGULAR, -1),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_say_which_matrix(name):
    with pytest.raises(eo.LinAlgError) as error:
        ERRORS[name]()
    assert isinstance(error.value, np.linalg.LinAlgError)
    assert error.value.remedy
    assert error.value.inputs
    assert "test_linalg_errors.py" in error.value.line
    wanted = "matrix [2] of the batch" if "(3, 2, 2)" in error.value.inputs else "the matrix"
    assert wanted in error.value.message


def test_an_error_inside_vmap_and_compile():
    with pytest.raises(eo.LinAlgError, match="singular"):
        eo.vmap(eo.linalg.inv)(eo.asarray(SINGULAR))
    with pytest.raises(eo.LinAlgError, match="positive definite"):
        eo.compile(eo.linalg.cholesky)(eo.asarray(-np.eye(2)))


WRONG = [
    lambda: eo.linalg.inv(np.ones((2, 3))),
    lambda: eo.linalg.det(np.ones(3)),
    lambda: eo.linalg.solve(np.eye(3), np.ones(2)),
    lambda: eo.linalg.solve(np.ones((2, 3, 3)), np.ones((4, 3, 1))),
    lambda: eo.linalg.cholesky_solve(np.ones(2), np.eye(3)),
    lambda: eo.linalg.lstsq(np.ones((3, 2)), np.ones(2)),
    lambda: eo.linalg.outer(np.ones((2, 2)), np.ones(2)),
    lambda: eo.linalg.norm(np.ones((2, 2, 2)), 1),
    lambda: eo.linalg.norm(np.ones((2, 2)), 1, (0, 0)),
    lambda: eo.linalg.multi_dot([np.ones((2, 2)), np.ones((2, 2, 2)), np.ones(2)]),
    lambda: eo.linalg.multi_dot([np.ones((2, 2))]),
    lambda: eo.linalg.qr(np.ones((2, 2)), mode="raw"),
    lambda: eo.linalg.eigh(np.eye(2), UPLO="lower"),
    lambda: eo.linalg.matrix_norm(np.eye(2), ord=3),
    lambda: eo.linalg.norm(np.ones(2), "fro"),
    lambda: eo.linalg.tensorinv(np.ones((2, 2)), ind=0),
    lambda: eo.linalg.tensorsolve(np.ones((2, 3)), np.ones(2)),
    lambda: eo.linalg.matrix_norm(np.ones((0, 2)), ord=-2),
    lambda: eo.linalg.cond(np.ones((0, 0))),
    lambda: eo.linalg.pinv(np.eye(2), 0.1, rtol=0.1),
    lambda: eo.cross(np.ones(2), np.ones(2)),
    lambda: eo.matvec(np.ones((2, 2)), np.ones(3)),
    lambda: eo.vecmat(np.ones(3), np.ones((2, 2))),
    lambda: eo.linalg.matrix_power(np.ones((2, 3)), 2),
    lambda: eo.linalg.trace(np.ones(3)),
]


@pytest.mark.parametrize("call", range(len(WRONG)))
def test_what_does_not_fit_is_refused(call):
    with pytest.raises((eo.ShapeError, eo.ArgumentError)) as error:
        WRONG[call]()
    assert error.value.expected


# What solves or decomposes, as functions of a matrix and a right-hand side, by the name in the error.
L = eo.linalg
DECOMPOSED = {
    "det": lambda a, b: L.det(a),
    "slogdet": lambda a, b: L.slogdet(a),
    "inv": lambda a, b: L.inv(a),
    "tensorinv": lambda a, b: L.tensorinv(a[0] if a.ndim > 2 else a, ind=1),
    "pinv": lambda a, b: L.pinv(a),
    "lstsq": lambda a, b: L.lstsq(a, b),
    "solve": lambda a, b: L.solve(a, b),
    "tensorsolve": lambda a, b: L.tensorsolve(a, b[..., 0]),
    "solve_triangular": lambda a, b: L.solve_triangular(a, b, upper=True),
    "cholesky": lambda a, b: L.cholesky(a),
    "cholesky_solve": lambda a, b: L.cholesky_solve(b, a),
    "lu": lambda a, b: L.lu(a),
    "lu_factor": lambda a, b: L.lu_factor(a),
    "lu_solve": lambda a, b: L.lu_solve((a, np.arange(2)), b),
    "qr": lambda a, b: L.qr(a),
    "svd": lambda a, b: L.svd(a),
    "svdvals": lambda a, b: L.svdvals(a),
    "matrix_rank": lambda a, b: L.matrix_rank(a),
    "eig": lambda a, b: L.eig(a),
    "eigvals": lambda a, b: L.eigvals(a),
    "eigh": lambda a, b: L.eigh(a),
    "eigvalsh": lambda a, b: L.eigvalsh(a),
    "cond": lambda a, b: L.cond(a),
    "matrix_norm": lambda a, b: L.matrix_norm(a, ord="nuc"),
    "norm": lambda a, b: L.norm(a, ord=2, axis=(-2, -1)),
    "matrix_power": lambda a, b: L.matrix_power(a, -2),
}
COMPUTED = {
    "matmul": lambda a: L.matmul(a, a),
    "matrix_power": lambda a: L.matrix_power(a, 3),
    "multi_dot": lambda a: L.multi_dot([a, a, a]),
    "trace": L.trace,
    "norm": L.norm,
    "matrix_norm": lambda a: L.matrix_norm(a, ord=1),
    "matrix_exp": L.matrix_exp,
    "logm": L.logm,
    "sqrtm": L.sqrtm,
}


def total(result):
    parts = result if isinstance(result, tuple) else (result,)
    return sum(eo.sum(eo.abs(part)) for part in parts)


@pytest.mark.parametrize("name", DECOMPOSED)
def test_half_precision_is_neither_solved_nor_decomposed(name):
    def function(a, b):
        return DECOMPOSED[name](a, b)

    a, b = eo.asarray(np.eye(2, dtype="float16")), eo.ones((2, 1), dtype=eo.float16)
    calls = [
        lambda: function(a, b),
        lambda: function(a[None], b[None]),
        lambda: eo.vmap(function)(a[None], b[None]),
        lambda: eo.grad(lambda a, b: total(function(a, b)))(a, b),
        lambda: eo.jvp(function, (a, b), (a, b)),
        lambda: eo.compile(function)(a, b),
        lambda: eo.compile(eo.grad(lambda a, b: total(function(a, b))))(a, b),
    ]
    for call in calls:
        with pytest.raises(eo.DTypeError, match=f"^{name}: half precision is too little") as error:
            call()
        assert isinstance(error.value, TypeError)
        assert error.value.expected == "float32, float64 or a complex dtype"
        assert error.value.found == "float16"
        assert "astype(eo.float32)" in error.value.remedy
        assert "float16" in error.value.inputs


@pytest.mark.parametrize(
    "name", ["solve", "lstsq", "tensorsolve", "solve_triangular", "cholesky_solve", "lu_solve"]
)
def test_neither_operand_is_of_half_precision(name):
    for dtypes in (("float16", "float32"), ("float32", "float16"), ("float64", "float16")):
        a, b = (eo.asarray(np.ones((2, n), d)) for n, d in zip((2, 1), dtypes, strict=True))
        with pytest.raises(eo.DTypeError, match=f"^{name}: half precision is too little"):
            DECOMPOSED[name](a, b)


@pytest.mark.parametrize("name", ["solve", "det", "svd", "cond", "eigh"])
def test_numpys_functions_refuse_half_precision(name):
    operands = (eo.eye(2, dtype=eo.float16), eo.ones(2, dtype=eo.float16))[: 2 if name == "solve" else 1]
    with pytest.raises(TypeError, match=f"^{name}: half precision is too little"):
        getattr(np.linalg, name)(*operands)


@pytest.mark.parametrize("name", COMPUTED)
def test_products_of_half_precision_stay(name):
    x = np.array([[1, 0.25], [0, 0.5]])
    wanted = COMPUTED[name](eo.asarray(x)).numpy()
    half = eo.asarray(x.astype("float16"))
    for call in (COMPUTED[name], eo.compile(COMPUTED[name]), lambda x: eo.vmap(COMPUTED[name])(x[None])[0]):
        found = call(half)
        assert found.dtype == eo.float16
        np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-3, atol=1e-3)
    assert eo.grad(lambda x: total(COMPUTED[name](x)))(half).dtype == eo.float16


@pytest.mark.parametrize("shape", [(2,), (2, 3)])
def test_a_factor_in_the_place_of_the_right_hand_side(shape):
    with pytest.raises(eo.ShapeError, match=r"exchange the two: cholesky_solve\(b, l\)"):
        eo.linalg.cholesky_solve(eo.eye(2), eo.ones(shape))
