"""Kernels that SciPy has and NumPy lacks, imported when first called."""

from __future__ import annotations

import importlib
from typing import Any

from everyo.errors import UnsupportedOperationError


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
                remedy="pip install 'everyo[scipy]'",
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
    return scipy_linalg.get_lapack_funcs((name,), arrays[:1])[0](*arrays, **options)


def solve_triangle(a: Any, b: Any, upper: bool, transposed: bool, unit: bool) -> Any:
    """Return the solutions for one triangular matrix and the columns of another."""
    rows = a.flags.c_contiguous  # LAPACK reads the transpose of what lies in memory row by row
    a = a.T if rows else a
    return lapack("trtrs", a, b, lower=upper == rows, trans=int(transposed != rows), unitdiag=unit)[0]
