"""`pinv` and `lstsq` that cut off singular values that are not zero: derivatives of NumPy's own results."""

import tracemalloc

import numpy as np
import pytest

import everyo as eo

A = np.array([[3.0, 0.1, 0.0], [0.0, 2.0, 0.1], [0.1, 0.0, 0.5]])
RNG = np.random.default_rng(5)


def of_values(*values, shape, kind):
    """Return a matrix with these singular values."""
    k = len(values)
    m, n = (RNG.standard_normal((size, k)) for size in shape)
    if kind is complex:
        m, n = m + 1j * RNG.standard_normal(m.shape), n + 1j * RNG.standard_normal(n.shape)
    return np.linalg.qr(m)[0] * np.array(values) @ np.linalg.qr(n)[0].conj().T


def directions(x, count):
    return [RNG.standard_normal(x.shape) + (1j * RNG.standard_normal(x.shape) if x.dtype.kind == "c" else 0)
            for _ in range(count)]  # fmt: skip


def difference(f, x, t, step=1e-5):
    return (f(x + step * t) - f(x - step * t)) / (2 * step)


def second_difference(f, x, t, u, step=1e-4):
    return difference(lambda y: difference(f, y, t, step), x, u, step)


MATRICES = [
    ((3.0, 2.0, 0.5), (3, 3), 0.35),
    ((3.0, 3.0, 0.5, 0.5), (6, 4), 0.35),  # equal ones, kept and cut off
    ((3.0, 2.0, 0.5), (3, 5), 0.35),
    ((3.0, 2.0, 0.0), (4, 3), 1e-3),
    ((3.0, 1.0, 0.5), (4, 3), 0.5),
    ((3.0, 2.0, 1.0), (4, 3), 1e-3),
]


@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize(("values", "shape", "rtol"), MATRICES)
def test_derivatives_of_pinv(values, shape, rtol, kind):
    x = of_values(*values, shape=shape, kind=kind)
    t, u = directions(x, 2)

    def reference(a):
        return np.linalg.pinv(a, rtol=rtol)

    def ours(a):
        return eo.linalg.pinv(a, rtol=rtol)

    def moved(a):
        return eo.jvp(ours, (a,), (eo.asarray(t),))[1]

    point = eo.asarray(x)
    expected, second = difference(reference, x, t), second_difference(reference, x, t, u)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(moved(point).numpy(), expected, atol=1e-7 * scale)
    found = eo.jvp(moved, (point,), (eo.asarray(u),))[1].numpy()
    np.testing.assert_allclose(found, second, atol=1e-5 * np.abs(second).max())

    c = directions(expected, 1)[0]

    def loss(a):
        return eo.sum(eo.real(ours(a) * c)) if kind is complex else eo.sum(ours(a) * c)

    def along(f, t):
        return lambda a: (
            eo.sum(eo.real(eo.conj(eo.grad(f)(a)) * t)) if kind is complex else eo.sum(eo.grad(f)(a) * t)
        )

    sign = np.real(np.sum(expected * c))
    np.testing.assert_allclose(along(loss, t)(point).item(), sign, rtol=1e-6, atol=1e-7 * scale)
    curved = np.real(np.sum(second * c))
    tolerance = 1e-5 * np.abs(second).max()
    np.testing.assert_allclose(along(along(loss, t), u)(point).item(), curved, rtol=1e-5, atol=tolerance)
    other = eo.jvp(along(loss, t), (point,), (eo.asarray(u),))[1].item()
    np.testing.assert_allclose(other, curved, rtol=1e-5, atol=tolerance)


@pytest.mark.parametrize("shape", [(3, 3), (6, 3), (3, 5)])
def test_derivatives_of_lstsq(shape):
    x = of_values(3.0, 2.0, 0.5, shape=shape, kind=float)
    b, tb = RNG.standard_normal((2, shape[0], 2))
    t, u = directions(x, 2)

    def reference(a):
        return np.linalg.lstsq(a, b, rcond=0.35)[0]

    def ours(a, b=b):
        return eo.linalg.lstsq(a, b, rcond=0.35).solution

    def slope(a):
        return eo.sum(eo.grad(lambda a: eo.sum(eo.cos(ours(a))))(a) * t)

    point = eo.asarray(x)
    expected = difference(reference, x, t)
    np.testing.assert_allclose(eo.jvp(ours, (point,), (eo.asarray(t),))[1].numpy(), expected, atol=1e-7)
    by_both = eo.jvp(ours, (point, eo.asarray(b)), (eo.asarray(t), eo.asarray(tb)))[1].numpy()
    np.testing.assert_allclose(by_both, expected + np.linalg.pinv(x, rtol=0.35) @ tb, atol=1e-7)
    losses = difference(lambda a: np.sum(np.cos(reference(a))), x, t)
    np.testing.assert_allclose(slope(point).item(), losses, rtol=1e-6)
    curved = second_difference(lambda a: np.sum(np.cos(reference(a))), x, t, u)
    np.testing.assert_allclose(eo.sum(eo.grad(slope)(point) * u).item(), curved, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        eo.jvp(slope, (point,), (eo.asarray(u),))[1].item(), curved, rtol=1e-5, atol=1e-5
    )


def test_batches_maps_and_compiled_functions():
    stack = np.stack([of_values(3.0, 2.0, 0.5, shape=(4, 3), kind=float) for _ in range(2)])
    c = RNG.standard_normal((3, 4))

    def gradient(rtol):
        return eo.grad(lambda a: eo.sum(eo.linalg.pinv(a, rtol=rtol) * c))

    def expected(x, rtol):
        units = np.eye(x.size).reshape(x.size, *x.shape)
        slopes = [difference(lambda a: np.sum(np.linalg.pinv(a, rtol=rtol) * c), x, e) for e in units]
        return np.reshape(slopes, x.shape)

    right = np.stack([expected(x, 0.35) for x in stack])
    np.testing.assert_allclose(gradient(0.35)(stack).numpy(), right, atol=1e-8)
    np.testing.assert_allclose(eo.vmap(gradient(0.35))(eo.asarray(stack)).numpy(), right, atol=1e-8)
    np.testing.assert_allclose(eo.compile(gradient(0.35))(eo.asarray(stack)).numpy(), right, atol=1e-8)
    each = gradient([0.35, 0.8])(stack).numpy()
    np.testing.assert_allclose(each, np.stack([right[0], expected(stack[1], 0.8)]), atol=1e-8)


def test_what_is_cut_off_may_be_of_any_size():
    for size in (1e-120, 1e120):
        found = eo.grad(lambda a: eo.sum(eo.linalg.pinv(a, rtol=0.35)))(eo.asarray(A * size)).numpy()
        usual = eo.grad(lambda a: eo.sum(eo.linalg.pinv(a, rtol=0.35)))(eo.asarray(A)).numpy()
        np.testing.assert_allclose(found * size * size, usual, rtol=1e-9)


def test_no_square_of_the_length_is_formed():
    x, t = RNG.standard_normal((2, 20000, 3))
    f = eo.grad(lambda a: eo.sum(eo.sum(eo.grad(lambda a: eo.sum(eo.linalg.pinv(a, rtol=0.999)))(a) * t)))
    tracemalloc.start()
    f(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * x.nbytes


@pytest.mark.filterwarnings("ignore:overflow")  # of the residuals, which are squares
@pytest.mark.parametrize("rcond", [None, 0.5])
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [
        ("float32", 1e20),
        ("float32", 1e-20),
        ("float64", 1e160),
        ("float64", 1e-160),
        ("complex128", 1e160),
    ],
)
def test_lstsq_whose_squares_leave_the_range(dtype, scale, rcond):
    a, b = np.array([[1.0, -3], [2, 2], [-3, 1]]), np.array([0.5, -1, 2])
    if dtype == "complex128":
        a = a * (1 + 0.5j)

    def derivatives(scale):
        x, y = eo.tensor((a * scale).astype(dtype)), eo.tensor((b * scale).astype(dtype))

        def f(x):
            return eo.linalg.lstsq(x, y, rcond)[0]

        gradient = eo.grad(lambda x: eo.real(f(x)).sum())(x).numpy() * np.array(scale, dtype)
        change = eo.tensor((np.array([[1.0, 2], [0, -1], [3, 1]]) * scale).astype(dtype))
        return [gradient, eo.jvp(f, (x,), (change,))[1].numpy()]

    for found, expected in zip(derivatives(scale), derivatives(1.0), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4 if dtype == "float32" else 1e-12)
