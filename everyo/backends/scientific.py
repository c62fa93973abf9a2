"""Kernels that SciPy has and NumPy lacks, imported when first called."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from everyo.errors import UnsupportedOperationError, install

_LARGE = 100  # rows from which on an inverse is worth the import of SciPy
_MANY = 1 << 17  # distances from which on they are


class SciPy:
    """A module of SciPy as an attribute of the backend's namespace: ``xp.special.gammaln(x)``."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            module = importlib.import_module(self._module)
        except ImportError as error:
            raise UnsupportedOperationError(
                "this function is computed by SciPy, which is not installed",
                operation=name,
                expected=f"the module {self._module}",
                found=str(error),
                remedy=install("scipy"),
            ) from error
        found = getattr(module, name)
        setattr(self, name, found)
        return found


scipy_linalg = SciPy("scipy.linalg")


def logm(x: Any) -> Any:
    """Return the logarithm of a matrix: the same for the same matrix, and the user's random numbers stay."""
    stream = importlib.import_module("numpy.random")
    before = stream.get_state()  # SciPy estimates norms with random vectors from it
    stream.seed(0)
    try:
        return scipy_linalg.logm(x)
    finally:
        stream.set_state(before)


def lapack(name: str, *arrays: Any, **options: Any) -> Any:
    """Call a function of LAPACK for the dtype of the first array."""
    return _found("get_lapack_funcs", name, arrays[0].dtype)(*arrays, **options)


@functools.cache
def _found(where: str, name: str, dtype: Any) -> Any:
    return getattr(scipy_linalg, where)(name, dtype=dtype)


def solve_triangle(a: Any, b: Any, upper: bool, transposed: bool, unit: bool) -> Any:
    """Return the solutions for one triangular matrix and the columns of another."""
    rows = a.flags.c_contiguous  # LAPACK reads the transpose of what lies in memory row by row
    a, lower, trans = a.T if rows else a, upper == rows, int(transposed != rows)
    if b.shape[1] == 1:
        return lapack("trtrs", a, b, lower=lower, trans=trans, unitdiag=unit)[0]
    trsm = _found("get_blas_funcs", "trsm", a.dtype)  # trtrs wakes threads for two columns of two elements
    return trsm(1, a, b, lower=lower, trans_a=trans, diag=unit)


def solve_factored(factors: Any, rows: Any, b: Any, transposed: bool) -> Any:
    """Return the solutions for one matrix that `getrf` has factored and the columns of another."""
    if b.shape[1] == 1:
        return lapack("getrs", factors, rows, b, trans=int(transposed))[0]
    places = np.arange(len(b), dtype=float)[:, None]  # threads as in `solve_triangle`
    order = lapack("laswp", places, rows)[:, 0].astype(int)
    b = b if transposed else b[order]
    for upper in (transposed, not transposed):
        b = solve_triangle(factors, b, upper, transposed, unit=not upper)
    if transposed:
        out = np.empty_like(b)
        out[order] = b
        return out
    return b


def inverse(x: Any) -> Any:
    """Return inverses of matrices, of a large one in half of NumPy's time; LinAlgError if one is singular."""
    found = _inverted(x)
    return np.linalg.inv(x) if found is None else found[0]


def inverse_and_determinant(x: Any) -> tuple[Any, Any]:
    """Return inverses and determinants of matrices, of a large one from the same factors."""
    return _inverted(x) or (np.linalg.inv(x), np.linalg.det(x))


def _inverted(x: Any) -> tuple[Any, Any] | None:
    """Return inverse and determinant of one large matrix; None for others, and without SciPy."""
    if x.ndim != 2 or len(x) < _LARGE or x.dtype.char not in "fdFD":
        return None
    try:
        factors, rows, singular = lapack("getrf", x.T)  # which lies in memory as LAPACK reads it
    except UnsupportedOperationError:
        return None
    if singular:
        raise np.linalg.LinAlgError("Singular matrix")
    pivots = np.diagonal(factors)
    sizes = np.abs(pivots)
    sign = np.prod(pivots / sizes) * (-1) ** np.count_nonzero(rows != np.arange(len(x)))
    determinant = np.asarray(sign * np.exp(np.sum(np.log(sizes, dtype=float))), x.dtype)
    return lapack("getri", factors, rows, lwork=64 * len(x), overwrite_lu=True)[0].T, determinant


_distance = SciPy("scipy.spatial.distance")


_METRICS = {1: "cityblock", 2: "euclidean", np.inf: "chebyshev"}


def point_distances(x1: Any, x2: Any, order: float) -> Any | None:
    """Return distances of many points, of order 1, 2 or infinity; None for others, and without SciPy."""
    if x1.ndim != 2 or len(x1) * len(x2) < _MANY or {x1.dtype, x2.dtype} != {np.dtype(float)}:
        return None
    if order == np.inf and not (np.isfinite(x1).all() and np.isfinite(x2).all()):
        return None  # SciPy leaves NaN out
    try:
        return _distance.cdist(x1, x2, _METRICS[order])
    except UnsupportedOperationError:
        return None
