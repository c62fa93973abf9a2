"""Kernels from SciPy load when first called, and say what to install where SciPy is missing."""

import math
import sys

import pytest

from everyo.backends.scientific import SciPy
from everyo.core.device import backend_for
from everyo.errors import UnsupportedOperationError


def test_a_function_of_scipy_is_found_once():
    special = SciPy("scipy.special")
    assert special.gammaln(5.0) == pytest.approx(math.log(24.0), rel=1e-15)
    assert "gammaln" in vars(special)


def test_without_scipy_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    with pytest.raises(UnsupportedOperationError, match=r"gammaln(.|\n)*pip install -e '.\[scipy\]'"):
        SciPy("scipy.special").gammaln(5.0)


def test_the_backend_has_both_modules():
    xp = backend_for("cpu")[0].xp
    assert xp.special.gammaln(3.0) == pytest.approx(math.log(2.0), rel=1e-15)
    assert xp.scipy_linalg.det([[2.0]]) == 2.0
