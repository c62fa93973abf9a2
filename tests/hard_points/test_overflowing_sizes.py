"""Slopes where a size leaves the range and they do not: of norms, deviations, hypotenuses and signs."""

import mpmath
import numpy as np
import pytest

import everyo as eo
from tests.ranges import LARGEST, LEAST, TURNS, assert_close

BOTH = pytest.mark.parametrize("transform", [lambda f: f, eo.compile], ids=["eager", "compiled"])
VECTORS = {
    "complex128": [[1.7e308 + 1.7e308j, 1e300j, -1.2e308], [1.7e308, 3e300, 1e300j], [3e-310, 4e-310j, 0]],
    "complex64": [[3.3e38 + 3.3e38j, 1e30j, -2e38], [3.3e38, 3e30, 1e30j], [3e-40, 4e-40j, 0]],
    "float64": [[1.7e308, 1.7e308, -1.2e308], [1.7e308, 1e308, 1e300], [3e-310, -4e-310, 0]],
    "float32": [[3.3e38, 3.3e38, -2e38], [3.3e38, 3e38, 1e30], [3e-40, -4e-40, 0]],
    "float16": [[65000, 65000, -1], [65504, 50000, 1e2], [3, 4, 0]],
}


@BOTH
@pytest.mark.parametrize("dtype", VECTORS)
@pytest.mark.parametrize("order", [2, 3, 1.5])
def test_slopes_of_norms_at_the_ends_of_the_range(transform, dtype, order):
    """Also of norms that are out of it: the slopes are not."""
    x = eo.asarray(np.array(VECTORS[dtype], dtype))
    exact = []
    with mpmath.workdps(40):
        for row in x.numpy().tolist():
            numbers = [mpmath.mpmathify(number) for number in row]
            norm = sum(abs(v) ** order for v in numbers) ** (mpmath.mpf(1) / order)
            exact += [v * (abs(v) / norm) ** (order - 2) / norm if v else mpmath.mpf(0) for v in numbers]

    def norms(x):
        return eo.vector_norm(x, axis=1, ord=order)

    with np.errstate(all="ignore"):
        found = transform(eo.grad(lambda x: eo.sum(norms(x))))(x).numpy()
        assert_close(found, exact, dtype, ulps=60)
        for position in range(3):
            tangent = np.zeros(x.shape, dtype)
            tangent[:, position] = 1
            moved = transform(lambda x, t: eo.jvp(norms, (x,), (t,))[1])(x, eo.asarray(tangent)).numpy()
            np.testing.assert_allclose(moved, found[:, position].real, rtol=4 * np.finfo(dtype).eps)


@BOTH
@pytest.mark.parametrize("dtype", VECTORS)
def test_slopes_of_deviations_that_are_out_of_range(transform, dtype):
    large = VECTORS[dtype][0][0]
    x = eo.asarray(np.array([large, -large, large, -large], dtype))
    with np.errstate(all="ignore"):
        found = transform(eo.grad(eo.std))(x).numpy()
    unit = 2**-0.5 * (1 + 1j) if dtype.startswith("complex") else 1
    np.testing.assert_allclose(found, np.array([1, -1, 1, -1]) * unit / 4, rtol=4 * np.finfo(dtype).eps)


@BOTH
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_slopes_of_hypotenuses_that_are_out_of_range(transform, dtype):
    large = float(np.finfo(dtype).max) * 0.99
    x1, x2 = np.array(
        [[large, large, 3, 0, LEAST[dtype], 0, np.inf], [large, large / 2, 4, 0, 0, LEAST[dtype], 1]], dtype
    )
    sides = eo.asarray(x1), eo.asarray(x2)
    one, zero = eo.ones_like(sides[0]), eo.zeros_like(sides[0])

    def total(x1, x2):
        return eo.sum(eo.hypot(x1, x2))

    with np.errstate(all="ignore"):
        found = [g.numpy() for g in transform(eo.grad(total, argnums=(0, 1)))(*sides)]
        moved = [
            transform(lambda x1, x2, t: eo.jvp(eo.hypot, (x1, x2), t)[1])(*sides, tangents).numpy()
            for tangents in ((one, zero), (zero, one))
        ]
        ratio = x2.astype(float) / np.maximum(x1.astype(float), 1e-300)
        exact = [1 / np.hypot(1, ratio), ratio / np.hypot(1, ratio)]
    for pulled, pushed, other in zip(found, moved, exact, strict=True):
        np.testing.assert_allclose(pulled[:3], other[:3], rtol=4 * np.finfo(dtype).eps)
        np.testing.assert_allclose(pushed[:3], other[:3], rtol=4 * np.finfo(dtype).eps)
    assert found[0][3] == found[1][3] == found[1][4] == 0
    assert found[0][4] == moved[0][4] == found[1][5] == moved[1][5] == 1


@BOTH
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("order", [2, 3, -1])
def test_norms_of_the_largest_numbers(transform, dtype, order):
    largest = np.finfo(dtype).max
    x = eo.asarray(np.array([[largest, 1], [largest, 0]], dtype))
    found = transform(lambda x: eo.vector_norm(x, axis=1, ord=order))(x)
    expected = [1, 0] if order < 0 else [largest, largest]
    np.testing.assert_allclose(found.numpy(), np.array(expected, dtype), rtol=4 * np.finfo(dtype).eps)


@BOTH
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_slopes_of_signs_of_the_largest_numbers(transform, dtype):
    z = np.array([0.99 * LARGEST[dtype] * turn for turn in TURNS] + [1 + 1j], dtype)
    seed = (2 + 1j) * (1e30 if dtype == "complex64" else 1e300)
    tangent = eo.full(z.shape, seed, dtype=dtype)
    found = transform(lambda z: eo.jvp(eo.sign, (z,), (tangent,))[1])(eo.asarray(z)).numpy()
    pulled = transform(lambda z: eo.vjp(eo.sign, z)[1](tangent)[0])(eo.asarray(z)).numpy()
    exact = []
    for point in map(mpmath.mpc, z.tolist()):
        sign = point / abs(point)
        exact.append(1j * sign * (mpmath.conj(sign) * seed).imag / abs(point))
    assert_close(found, exact, dtype)
    assert_close(pulled, exact, dtype)  # the derivative is a symmetric matrix of the parts


@BOTH
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_the_slope_of_the_sign_of_the_least_number(transform, dtype):
    z, t = (eo.asarray(np.array([LEAST[dtype] * turn], dtype)) for turn in (1, 1j))
    with np.errstate(all="ignore"):
        assert transform(lambda z: eo.jvp(eo.sign, (z,), (t,))[1])(z).tolist() == [1j]
        assert transform(lambda z: eo.vjp(eo.sign, z)[1](t)[0])(z).tolist() == [1j]
