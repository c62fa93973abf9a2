"""Second derivatives of homogeneous functions at tiny and huge operands: those at ordinary ones, scaled."""

import numpy as np
import pytest

import everyo as eo

MATRIX = np.array([[1.0, 2.0, 3.5], [3.0, 1.0, 2.5], [2.0, 5.0, 1.0]])
DIRECTION = np.array([[1.0, 0.5, -1.0], [0.2, -1.0, 0.7], [0.3, 2.0, -0.6]])
WEIGHTS = np.array([[1.0, -2.0, 0.5], [0.3, 1.0, 2.0], [-1.0, 0.4, 0.6]])
MODES = {
    "forward over reverse": lambda f, x, t: eo.jvp(eo.grad(f), (x,), (t,))[1],
    "reverse over forward": lambda f, x, t: eo.grad(lambda x: eo.jvp(f, (x,), (t,))[1])(x),
    "reverse over reverse": lambda f, x, t: eo.grad(lambda x: eo.sum(eo.grad(f)(x) * t))(x),
    "forward over forward": lambda f, x, t: eo.jvp(lambda x: eo.jvp(f, (x,), (t,))[1], (x,), (t,))[1],
}
# Functions with their degree, and the binary exponents up to which all that they compute is in the range.
FUNCTIONS = {
    "quotient": (lambda x: x[0] / x[1], 0, 100, 800),
    "complex quotient": (lambda x: eo.real((x[0] + 1j * x[1]) / (x[1] + 2j * x[2])), 0, 100, 800),
    "slopes": (lambda x: eo.gradient([1.0, 2.0, 3.5], eo.cumsum(x[0])), -1, 100, 800),
    "slopes of order 2": (lambda x: eo.gradient(x[1], eo.cumsum(x[0]), edge_order=2), 0, 100, 800),
    "slopes at one distance": (lambda x: eo.gradient(x[1], x[0, 0], edge_order=2), 0, 100, 800),
    "corrcoef": (eo.corrcoef, 0, 120, 1000),
    "coefficient of variation": (lambda x: eo.std(x, axis=1) / eo.mean(x, axis=1), 0, 100, 800),
    "ratio of variances": (lambda x: eo.var(x[0]) / eo.var(x[1]), 0, 50, 400),
    "standardized": (
        lambda x: (x - eo.mean(x, axis=1, keepdims=True)) / eo.std(x, axis=1, keepdims=True), 0, 100, 800,
    ),
    "cdist": (lambda x: eo.cdist(x[:2], x[1:]), 1, 100, 800),
    "pdist": (eo.pdist, 1, 100, 800),
    "pdist of many coordinates": (lambda x: eo.pdist(eo.tile(x, (1, 5))), 1, 100, 800),
    "shares": (lambda x: x / eo.sum(x), 0, 100, 800),
    "directions": (lambda x: x / eo.linalg.norm(x, axis=1, keepdims=True), 0, 100, 800),
    "power -1": (lambda x: x[0] ** -1, -1, 100, 800),
    "root as a power": (lambda x: x[0] ** 0.5, 0.5, 100, 800),
    "angles": (lambda x: eo.arctan2(x[0], x[1]), 0, 100, 800),
    "reciprocal root": (lambda x: eo.rsqrt(x[0]), -0.5, 100, 800),
    "eigenvectors": (lambda x: eo.abs(eo.linalg.eigh(x + x.mT)[1]), 0, 100, 800),
    "general eigenvectors": (lambda x: eo.real(eo.linalg.eig(x)[1]), 0, 100, 800),
    "singular vectors": (lambda x: eo.abs(eo.linalg.svd(x)[0]), 0, 100, 800),
    "singular vectors of a tall matrix": (
        lambda x: eo.abs(eo.linalg.svd(x[:, :2], full_matrices=False)[0]), 0, 100, 800,
    ),
    "orthogonal factor": (lambda x: eo.linalg.svd(x)[0] @ eo.linalg.svd(x)[2], 0, 100, 800),
    **{
        f"cond {p}": (lambda x, p=p: eo.linalg.cond(x, p), 0, 100, 800)
        for p in (None, -2, "fro", "nuc", 1, -1, np.inf, -np.inf)
    },
}  # fmt: skip
COMPILED = [
    *(name for name in FUNCTIONS if "slopes" in name),
    "quotient",
    "angles",
    "corrcoef",
    "cdist",
    "pdist",
    "cond nuc",
]


def second(name, mode, dtype, scale, turned=lambda f: f):
    function, degree, *_ = FUNCTIONS[name]
    unit = scale**-degree

    def total(x):
        y = function(x)
        weights = eo.asarray(WEIGHTS.ravel()[: y.size].reshape(y.shape).astype(str(y.dtype)))
        return eo.sum(y * weights) * unit

    x, t = (eo.asarray((v * scale).astype(dtype)) for v in (MATRIX, DIRECTION))
    found = turned(lambda x, t: MODES[mode](total, x, t))(x, t).numpy().astype("float64")
    return found * (1 if mode.startswith("forward over forward") else scale)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_do_not_depend_on_the_scale(name, mode):
    wanted = second(name, mode, "float64", 1.0)
    size = np.abs(wanted).max()
    for dtype, exponent, tolerance in zip(("float32", "float64"), FUNCTIONS[name][2:], (1e-3, 1e-9)):
        for scale in (2.0**-exponent, 2.0**exponent):
            found = second(name, mode, dtype, scale)
            np.testing.assert_allclose(found / size, wanted / size, rtol=0, atol=tolerance)


@pytest.mark.parametrize("scale", [2.0**-100, 2.0**100])
@pytest.mark.parametrize("name", COMPILED)
def test_nor_do_compiled_and_batched_ones(name, scale):
    for mode in ("forward over reverse", "reverse over reverse"):
        wanted = second(name, mode, "float64", 1.0)
        size = np.abs(wanted).max()
        for turned in (eo.compile, lambda f: lambda x, t: eo.vmap(f)(x[None], t[None])[0]):
            found = second(name, mode, "float32", scale, turned)
            np.testing.assert_allclose(found / size, wanted / size, rtol=0, atol=1e-3)


FIRST = {
    name: FUNCTIONS[name][0]
    for name in ("quotient", "slopes of order 2", "slopes at one distance", "shares", "corrcoef")
} | {name: row[0] for name, row in FUNCTIONS.items() if name.startswith("cond")}
FIRST["slopes in place"] = lambda x: eo.gradient(x[1], eo.cumsum(x[0]))


@pytest.mark.parametrize("scale", [2.0**-900, 2.0**-600])
@pytest.mark.parametrize("name", FIRST)
def test_tangents_of_ordinary_size_at_tiny_operands(name, scale):
    def tangent(x, t):
        return eo.jvp(FIRST[name], (x,), (t,))[1]

    x, small, t = (eo.asarray(v) for v in (MATRIX, MATRIX * scale, DIRECTION))
    wanted = tangent(x, t).numpy()
    for f in (tangent, eo.compile(tangent)):
        found = f(small, t).numpy() * scale
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("mode", MODES)
def test_curvatures_of_float16_distances(mode):
    points, change = (np.array(v) * 2e-3 for v in ([[0.0, 0.0], [3.0, 1.0], [1.0, 2.0]], MATRIX[:, :2]))
    found, wanted = (
        MODES[mode](lambda x: eo.sum(eo.pdist(x)), *(eo.asarray(v, dtype=dtype) for v in (points, change)))
        for dtype in ("float16", "float64")
    )
    np.testing.assert_allclose(
        found.numpy(), wanted.numpy(), rtol=0, atol=0.01 * eo.max(eo.abs(wanted)).item()
    )


@pytest.mark.parametrize("mode", MODES)
def test_curvatures_of_distances_of_all_sizes(mode):
    points = np.array([[0.0, 0.0], [3e-25, 4e-25], [2e-25, 1e-25], [3e25, 1e25], [-1e24, 2e25]])
    change = np.array([[1e-25, 0.0], [0.0, 2e-25], [1e-25, 1e-25], [1e25, -1e25], [0.0, 1e24]])
    found, wanted = (
        MODES[mode](lambda x: eo.sum(eo.pdist(x)), *(eo.asarray(v, dtype=dtype) for v in (points, change)))
        for dtype in ("float32", "float64")
    )
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_correlations_of_variables_of_different_sizes(dtype):
    x = np.array([[1.0, 2.0, 4.0], [0.5, -1.0, 2.0], [2.0, 0.5, 1.0]], dtype=dtype)
    if dtype == "complex128":
        x = x + 1j * MATRIX
    sizes = np.array([[1e-200], [1.0], [1e250]])
    wanted, found = (eo.corrcoef(v).numpy() for v in (x, x * sizes))
    np.testing.assert_allclose(found, wanted, rtol=1e-14)
    np.testing.assert_allclose(eo.corrcoef((x * sizes).T, rowvar=False).numpy(), wanted, rtol=1e-14)
    np.testing.assert_allclose(eo.corrcoef((x * sizes)[:1], (x * sizes)[1:]).numpy(), wanted, rtol=1e-14)


def test_a_scaled_loss_of_float16_quotients():
    x1, x2 = (eo.tensor(v, dtype=eo.float16) for v in (1e-3, 1e-2))
    slope = eo.grad(lambda x1, x2: 1024 * (x1 / x2), argnums=1)
    assert slope(x1, x2).item() == pytest.approx(-10240, rel=5e-3)
    assert slope(eo.zeros_like(x1), x2).item() == 0
