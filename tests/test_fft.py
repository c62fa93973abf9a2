"""Fourier transforms: NumPy's values, transposes by the matrix of the transform, every transformation."""

import numpy as np
import pytest

import everyo as eo
from everyo.testing import gradcheck

RNG = np.random.default_rng(5)
NORMS = ["backward", "ortho", "forward"]
COMPLEX = RNG.standard_normal((3, 4, 5)) + 1j * RNG.standard_normal((3, 4, 5))
REAL = RNG.standard_normal((3, 4, 5))

# Function, whether it takes complex numbers, arguments.
CALLS = [
    ("fft", True, {}), ("fft", True, {"n": 3, "axis": 0}), ("fft", True, {"n": 7}),
    ("ifft", True, {"n": 2, "axis": 1}), ("ifft", True, {"n": 6, "axis": -3}),
    ("fftn", True, {}), ("fftn", True, {"s": (2, 7), "axes": (2, 0)}), ("fftn", True, {"axes": (-1, 0)}),
    ("ifftn", True, {"s": (5, 3), "axes": (0, 1)}), ("ifftn", True, {"axes": (1,)}),
    ("fft2", True, {}), ("ifft2", True, {"s": (3, 6)}),
    ("rfft", False, {}), ("rfft", False, {"n": 4, "axis": 0}), ("rfft", False, {"n": 3, "axis": 2}),
    ("irfft", True, {}), ("irfft", True, {"n": 7}), ("irfft", True, {"n": 4, "axis": 0}),
    ("irfft", True, {"n": 1, "axis": 1}), ("irfft", True, {"n": 2, "axis": 1}),
    ("rfftn", False, {}), ("rfftn", False, {"s": (3, 5), "axes": (1, 0)}), ("rfft2", False, {}),
    ("irfftn", True, {}), ("irfftn", True, {"s": (2, 5), "axes": (0, 2)}), ("irfft2", True, {"s": (4, 7)}),
    ("irfft2", True, {"s": (3, -1)}), ("irfftn", True, {"s": (-1, 3), "axes": (2, 0)}),
    ("irfftn", True, {"s": (2, -1), "axes": (-1, 1)}), ("rfft2", False, {"s": (-1, 3)}),
    ("fftn", True, {"s": (-1, 7), "axes": (0, 2)}), ("rfftn", False, {"s": (-1, -1), "axes": (0, 1)}),
    ("hfft", True, {}), ("hfft", True, {"n": 5, "axis": 1}), ("ihfft", False, {}),
    ("ihfft", False, {"n": 6, "axis": 0}),
]  # fmt: skip


def names(call):
    return f"{call[0]}-{call[2]}".replace(" ", "")


every_call = pytest.mark.parametrize("call", CALLS, ids=names)


@every_call
@pytest.mark.parametrize("norm", NORMS)
def test_values_are_numpys(call, norm):
    name, takes_complex, arguments = call
    for x in [REAL, COMPLEX] if takes_complex else [REAL]:
        expected = getattr(np.fft, name)(x, **arguments, norm=norm)
        found = getattr(eo.fft, name)(eo.asarray(x), **arguments, norm=norm)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13, atol=1e-14)


@every_call
def test_single_precision_stays(call):
    name, takes_complex, arguments = call
    for x in [REAL, COMPLEX] if takes_complex else [REAL]:
        single = x.astype("complex64" if x.dtype.kind == "c" else "float32")
        leaf = eo.tensor(single, requires_grad=True)
        found = getattr(eo.fft, name)(leaf, **arguments)
        assert found.dtype in (eo.complex64, eo.float32)
        eo.sum(eo.abs(found)).backward()
        assert leaf.grad.dtype == single.dtype
        expected = getattr(np.fft, name)(x, **arguments)
        np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-4, atol=1e-5)


@every_call
@pytest.mark.parametrize("norm", NORMS)
def test_derivatives_in_every_mode(call, norm):
    name, takes_complex, arguments = call
    for x in [REAL, COMPLEX] if takes_complex else [REAL]:
        x = x[:2, :3]

        def f(x):
            y = getattr(eo.fft, name)(x, **arguments, norm=norm)
            return y * y

        assert gradcheck(f, x)
        point, direction = eo.asarray(x), eo.asarray(np.roll(x, 1, 0))
        _, tangent = eo.jvp(f, (point,), (direction,))
        step = 1e-6
        ahead, behind = (f(eo.asarray(x + s * direction.numpy())).numpy() for s in (step, -step))
        np.testing.assert_allclose(tangent.numpy(), (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-8)


@every_call
def test_vmap_and_compile(call):
    name, _, arguments = call
    x = eo.asarray(REAL)
    arguments = {k: v for k, v in arguments.items() if k == "norm"}
    f = lambda x: getattr(eo.fft, name)(x, **arguments)  # noqa: E731
    rows = [f(x[i]) for i in range(3)]
    np.testing.assert_allclose(eo.vmap(f)(x).numpy(), np.stack([r.numpy() for r in rows]), atol=1e-14)
    np.testing.assert_allclose(eo.compile(f)(x).numpy(), f(x).numpy(), atol=1e-14)
    loss = lambda x: eo.sum(eo.abs(f(x)) ** 3)  # noqa: E731
    np.testing.assert_allclose(eo.compile(eo.grad(loss))(x).numpy(), eo.grad(loss)(x).numpy(), atol=1e-12)


def test_the_jacobian_is_the_matrix_of_the_transform():
    n = 5
    matrix = np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
    z = eo.asarray(COMPLEX[0, 0])
    found = eo.jacobian(eo.fft.fft, holomorphic=True)(z)
    np.testing.assert_allclose(found.numpy(), matrix, atol=1e-13)
    x = eo.asarray(REAL[0, 0])
    np.testing.assert_allclose(eo.jacobian(eo.fft.rfft)(x).numpy(), matrix[:3], atol=1e-13)
    second = eo.hessian(lambda x: eo.sum(eo.abs(eo.fft.rfft(x)) ** 2))(x)
    np.testing.assert_allclose(second.numpy(), 2 * np.real(matrix[:3].conj().T @ matrix[:3]), atol=1e-12)


@pytest.mark.parametrize("n", [4, 5])
def test_imaginary_parts_that_do_not_count_have_no_gradient(n):
    z = eo.tensor(np.array([1 + 2j, 3 - 1j, 2 + 5j]), requires_grad=True)
    eo.sum(eo.fft.irfft(z, n=n) ** 2).backward()
    expected = np.imag(z.grad.numpy()) == 0
    assert expected.tolist() == ([True, False, True] if n == 4 else [True, False, False])


def test_parsevals_theorem_for_half_spectra():
    for n in (1, 2, 5, 6):
        x = eo.tensor(RNG.standard_normal(n), requires_grad=True)
        y = eo.fft.irfft(eo.fft.rfft(x, norm="ortho"), n=n, norm="ortho")
        (0.5 * eo.sum(y * y)).backward()
        np.testing.assert_allclose(x.grad.numpy(), x.detach().numpy(), rtol=1e-13)


def test_frequencies_and_shifts_are_numpys():
    for n in (1, 4, 5):
        for name in ("fftfreq", "rfftfreq"):
            found = getattr(eo.fft, name)(n, d=0.5, dtype=eo.float64)
            np.testing.assert_array_equal(found.numpy(), getattr(np.fft, name)(n, d=0.5))
            assert getattr(eo.fft, name)(n).dtype == eo.float32
    for axes in (None, 0, (1, -1)):
        for name in ("fftshift", "ifftshift"):
            found = getattr(eo.fft, name)(eo.asarray(REAL), axes=axes)
            np.testing.assert_array_equal(found.numpy(), getattr(np.fft, name)(REAL, axes=axes))
    x = eo.tensor(REAL, requires_grad=True)
    weights = eo.asarray(np.arange(60.0).reshape(REAL.shape))
    eo.sum(weights * eo.fft.fftshift(x)).backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.fft.ifftshift(weights.numpy()))


def test_integers_and_halves():
    assert eo.fft.fft(eo.tensor([1, 2])).dtype == eo.complex128
    assert eo.fft.irfft(eo.tensor([1, 2])).dtype == eo.float64
    half = eo.tensor(np.array([1, 2], "float16"), requires_grad=True)
    out = eo.fft.rfft(half)
    assert out.dtype == eo.complex64
    eo.sum(eo.real(out)).backward()
    assert half.grad.dtype == eo.float16
    assert half.grad.tolist() == [2.0, 0.0]
    assert eo.fft.fftn(eo.tensor(2.0)).item() == 2.0 + 0j


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: eo.fft.fft(eo.ones((2, 0))), eo.ShapeError),
        (lambda: eo.fft.fft(eo.ones(2), n=0), eo.ShapeError),
        (lambda: eo.fft.irfft(eo.ones(1)), eo.ShapeError),
        (lambda: eo.fft.fft(eo.ones(2), axis=1), eo.IndexingError),
        (lambda: eo.fft.fftn(eo.ones((2, 2)), s=(2,), axes=(0, 1)), eo.ShapeError),
        (lambda: eo.fft.rfftn(eo.tensor(1.0)), eo.ShapeError),
        (lambda: eo.fft.fft(eo.ones(2), norm="both"), eo.ArgumentError),
        (lambda: eo.fft.rfft(eo.tensor([1j])), eo.DTypeError),
        (lambda: eo.fft.fft(eo.ones(2), n=1.5), eo.DTypeError),
        (lambda: eo.fft.fftfreq(0), eo.ShapeError),
    ],
)
def test_errors(call, error):
    with pytest.raises(error):
        call()


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_a_single_length_is_positive(name):
    """Only among several does -1 stand for the length as it is."""
    with pytest.raises(ValueError, match="data points"):
        getattr(np.fft, name)(REAL, n=-1)
    with pytest.raises(eo.ShapeError, match="nothing to transform"):
        getattr(eo.fft, name)(REAL, n=-1)
