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


def test_half_precision_is_refused():
    with pytest.raises(eo.DTypeError):
        eo.linalg.inv(np.eye(2, dtype="float16"))


@pytest.mark.parametrize("shape", [(2,), (2, 3)])
def test_a_factor_in_the_place_of_the_right_hand_side(shape):
    with pytest.raises(eo.ShapeError, match=r"exchange the two: cholesky_solve\(b, l\)"):
        eo.linalg.cholesky_solve(eo.eye(2), eo.ones(shape))
