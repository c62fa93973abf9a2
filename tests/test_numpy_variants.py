"""Options of NumPy's functions that only NumPy has: the same values and dtypes, and derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import everyo as eo
from everyo.errors import ShapeError

M = np.array([[0.91, -0.23, 0.42, 1.8], [0.11, 1.37, -0.66, 0.2], [0.58, 0.05, 1.73, -1.1]])
V, U = M[0] + 0.3, M[1] + 3.0
MASK = np.array([[True, False, True, True], [True, True, False, True], [False, True, True, True]])
S = M @ M.T

CALLS = {
    "mean where": (lambda x: np.mean(x, axis=1, where=MASK), M),
    "mean where keepdims": (lambda x: np.mean(x, axis=0, where=MASK, keepdims=True), M),
    "var where": (lambda x: np.var(x, axis=1, ddof=1, where=MASK), M),
    "var correction where": (lambda x: np.var(x, correction=1, where=MASK), M),
    "std where": (lambda x: np.std(x, axis=1, where=MASK, keepdims=True), M),
    "var mean": (lambda x: np.var(x, axis=0, mean=np.mean(x, axis=0, keepdims=True)), M),
    "average returned": (lambda x: np.average(x, weights=np.abs(x) + 1.0, returned=True), M),
    "average of rows": (lambda x: np.average(x, axis=1, weights=[1, 2, 3, 4.1], returned=True), M),
    "average keepdims": (
        lambda x: np.average(x, axis=1, weights=x[0] + 2, returned=True, keepdims=True),
        M,
    ),
    "average unweighted": (lambda x: np.average(x, axis=0, returned=True), M),
    "meshgrid sparse": (lambda x: np.meshgrid(x[0], x[1, :2], sparse=True), M),
    "meshgrid ij": (lambda x: np.meshgrid(x[0], x[1, :2], sparse=True, indexing="ij"), M),
    "take wrap": (lambda x: np.take(x, [0, 5, -1], mode="wrap"), M),
    "take clip": (lambda x: np.take(x, [-2, 7], axis=1, mode="clip"), M),
    "sort": (lambda x: np.sort(x, kind="stable", axis=0), M),
    "ravel": (lambda x: np.ravel(x, "F"), M),
    "linspace of vectors": (lambda x: np.linspace(x[0], x[1], 5), M),
    "linspace as long as they": (lambda x: np.linspace(x[0], 2.0, 4), M),
    "linspace along the last": (lambda x: np.linspace(x[0], x, 3, axis=-1, endpoint=False), M),
    "linspace retstep": (lambda x: np.linspace(x[0], 1.0, 5, retstep=True, endpoint=False), M),
    "logspace of vectors": (lambda x: np.logspace(x, U, 4, axis=1), V),
    "logspace of bases": (lambda x: np.logspace(0.1, 0.7, 3, base=x), U),
    "geomspace of vectors": (lambda x: np.geomspace(x, 7.0, 4), U),
    "svd hermitian": (lambda x: np.linalg.svd(x @ x.T, compute_uv=False, hermitian=True), M),
    "pinv hermitian": (lambda x: np.linalg.pinv(x @ x.T, hermitian=True), M),
    "windows": (lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=1), M),
    "pad constants": (lambda x: np.pad(x, 2, constant_values=((1.1, 2.0), (3, 4.3))), M),
    "pad constants of axes": (lambda x: np.pad(x, (1, 2), constant_values=(0.1, 0.2)), M),
    "pad linear_ramp": (lambda x: np.pad(x, ((1, 2), (3, 0)), "linear_ramp", end_values=(0.1, 0.3)), M),
    "pad mean": (lambda x: np.pad(x, 2, "mean"), M),
    "pad mean of some": (lambda x: np.pad(x, 2, "mean", stat_length=((2, 1), (1, 3))), M),
    "pad maximum": (lambda x: np.pad(x, ((0, 1), (2, 2)), "maximum"), M),
    "pad minimum": (lambda x: np.pad(x, 1, "minimum", stat_length=2), M),
    "pad median": (lambda x: np.pad(x, (2, 1), "median"), M),
    "pad reflect odd": (lambda x: np.pad(x, ((5, 1), (2, 9)), "reflect", reflect_type="odd"), M),
    "pad symmetric odd": (lambda x: np.pad(x, ((4, 0), (7, 9)), "symmetric", reflect_type="odd"), M),
    "pad one for each axis": (lambda x: np.pad(x, ((1,), (2,))), M),
    "pad widths in an array": (lambda x: np.pad(x, np.array([[1, 2], [0, 1]]), "edge"), M),
    "pad widths in a dict": (lambda x: np.pad(x, {-1: (2, 1), 0: 1}, "wrap"), M),
}  # fmt: skip


def leaves(value):
    return [leaf for item in value for leaf in leaves(item)] if type(value) in (list, tuple) else [value]


@pytest.mark.parametrize("name", CALLS)
def test_an_option_of_numpy_has_its_values_and_derivatives(name):
    call, a = CALLS[name]
    got, want = leaves(call(eo.asarray(a))), leaves(call(a))
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert isinstance(g, eo.Tensor)
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g.numpy(), w, rtol=1e-12, atol=1e-14)
    x = eo.asarray(a).requires_grad_()
    assert eo.testing.gradcheck(lambda x: tuple(leaves(call(x))), x)


def test_options_on_integers():
    k = np.array([[3, 17, 28], [5, 44, 61]])
    for call in (
        lambda x: np.round(x, -1),
        lambda x: np.pad(x, 1, "mean"),
        lambda x: np.pad(x, 1, "linear_ramp"),
        lambda x: np.argsort(x, kind="stable", axis=0),
        lambda x: np.linspace(x, 100, 4),
        lambda x: np.linspace(-2.5, x, 4, dtype=int),
        lambda x: np.linalg.matrix_rank(x @ x.T, hermitian=True),
    ):
        got, want = call(eo.asarray(k)), call(k)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.numpy(), want)


def test_python_types_and_lists_mean_double_precision_in_calls_of_numpy():
    x = eo.asarray(M)
    assert np.sum(x, dtype=float).dtype == np.float64
    assert np.add(x, 1, dtype=complex).dtype == np.complex128
    assert np.zeros_like(x, dtype=float).dtype == np.float64
    assert eo.asarray([0.1]).dtype == np.float32  # as before, outside of these calls


@pytest.mark.parametrize("shape", [(3,), (2, 3, 3)])
def test_a_diagonal_needs_equal_axes(shape):
    with pytest.raises(ValueError, match=r"at least 2-d|equal length"):
        np.fill_diagonal(np.zeros(shape), 1.0)
    with pytest.raises(ShapeError, match="no such diagonal"):
        np.fill_diagonal(eo.zeros(shape), 1.0)
