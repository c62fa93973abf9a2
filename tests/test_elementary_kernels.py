"""The NumPy backend's own elementwise kernels, against what they replace."""

import math
import sys

import numpy as np
import pytest

import everyo as eo
from everyo.backends import elementary

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex128", "int64"])
@pytest.mark.parametrize("size", [3, 10_000])
def test_where_is_numpys_bit_for_bit(size, dtype):
    rng = np.random.default_rng(0)
    condition = rng.random((2, size)) > 0.5
    left, right = (rng.normal(size=(2, size)) * 9 for _ in range(2))
    if dtype != "int64":
        left[0, :3], right[1, :3] = [INF, NAN, -0.0], [-INF, NAN, -0.0]
    left, right = left.astype(dtype), right.astype(dtype)
    strided = np.ascontiguousarray(left.T).T
    for x1, x2 in (
        (left, right),
        (left, 0),
        (0, right),
        (left, 1.5),
        (strided, right),
        (left[:1], right),
        (0, 1),
        (left, 0.0),
    ):
        for c in (condition, condition[::-1, ::-1], condition.astype(int)):
            found, expected = elementary.where(c, x1, x2), np.where(c, x1, x2)
            assert found.dtype == expected.dtype
            assert np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize("installed", [True, False])
def test_error_function_with_and_without_scipy(installed, monkeypatch):
    if installed:
        pytest.importorskip("scipy.special")
    else:
        monkeypatch.setitem(sys.modules, "scipy.special", None)
    elementary._special.cache_clear()
    try:
        points = [-30.0, -1.0, 0.0, 1e-10, 0.5, 5.0, 20.0, INF, NAN]
        for dtype in ("float64", "float32"):
            x = eo.tensor(np.array(points, dtype))
            for f, exact in ((eo.erf, math.erf), (eo.erfc, math.erfc)):
                assert f(x).dtype == dtype
                np.testing.assert_allclose(
                    f(x).numpy(),
                    [exact(p) for p in points],
                    rtol=1e-14 if dtype == "float64" else 1e-5,
                    atol=1e-45,
                )
        assert eo.erf(eo.tensor(np.array([1], "int32"))).dtype == eo.float64
        assert eo.erf(eo.tensor(np.zeros((0, 2)))).shape == (0, 2)
        assert eo.erf(eo.tensor(0.5)).shape == ()
    finally:
        elementary._special.cache_clear()
