"""Sums of products in compiled code: what cancels in eager code cancels there."""

import numpy as np
import pytest

import everyo as eo
from tests.compiling import agree

rng = np.random.default_rng(0)
X, Y = (rng.normal(size=1000) for _ in range(2))


def turned(x):
    return x.reshape(20, 50).T


def row_times_column(x, y):
    """Return ``x * y`` as a product of matrices, with zeros behind the factors."""
    row, column = x[:, None, None] * eo.ones((1, 1, 3), dtype=x.dtype), y[:, None, None]
    return eo.matmul(row, eo.pad(column, ((0, 0), (0, 2), (0, 0))))[:, 0, 0]


# What is 0 in eager code, since x * y and u * v are equal for u = -x and v = -y, and is not where one of the
# two is taken unrounded.
CANCEL = {
    "a difference": lambda x, y, u, v: x * y - u * v,
    "with a sign": lambda x, y, u, v: x * y + -(u * v),
    "in a choice": lambda x, y, u, v: eo.where(x > -9.0, x * y, 0.5) - u * v,
    "through views": lambda x, y, u, v: turned(x * y) - turned(u) * turned(v),
    "of three": lambda x, y, u, v: (x * y + 0.0 * x) - u * v,
    "of a quotient": lambda x, y, u, v: (x * 4.0) * y / 4.0 - u * v,
    "of a sum": lambda x, y, u, v: eo.sum(eo.stack([x * y, 0.0 * x], axis=1), axis=1) - u * v,
    "of a matrix product": lambda x, y, u, v: x * y - row_times_column(u, v),
    "in a sum of two": lambda x, y, u, v: eo.sum(eo.stack([x * y, -u * v], axis=1), axis=1),
    "in a loop": lambda *z: eo.fori_loop(0, 1, lambda i, s: (s[0] * s[1] - s[2] * s[3], *s[1:]), z)[0],
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", CANCEL)
def test_what_cancels(name, dtype):
    f, given = CANCEL[name], [eo.asarray(a.astype(dtype)) for a in (X, Y, -X, -Y)]
    assert not f(*given).numpy().any()
    assert not eo.compile(f)(*given).numpy().any()


def test_a_number_times_its_conjugate_is_real():
    """Other than NumPy's, whose product of complex numbers is fused."""
    z = eo.asarray(X + 1j * Y)
    assert not eo.compile(lambda z: eo.imag(z * eo.conj(z)))(z).numpy().any()


def matern(scale, amplitude, d):
    """Return the sum of a Matérn 3/2 kernel; its slope in r cancels where a row of `d` is 0."""
    r = np.sqrt(np.sum((d / scale) ** 2, axis=-1))
    return np.sum(amplitude * (1 + np.sqrt(3.0) * r) * np.exp(-np.sqrt(3.0) * r))


def smoother(scale, amplitude, d):
    """Return the sum of a Matérn 5/2 kernel."""
    r = np.sqrt(np.sum((d / scale) ** 2, axis=-1))
    s = np.sqrt(5.0) * r
    return np.sum(amplitude * (1 + s + 5.0 / 3.0 * r * r) * np.exp(-s))


@pytest.mark.parametrize("kernel", [matern, smoother])
@pytest.mark.parametrize("amplitude", [0.3, 1.7, 2.9])
def test_the_gradient_of_a_kernel_at_its_diagonal(kernel, amplitude):
    scale, d = eo.tensor([1.3, 0.7], dtype=eo.float64), eo.asarray(np.array([[0.0, 0.0], [0.5, -0.3]]))
    found, h = eo.compile(eo.grad(kernel))(scale, amplitude, d), 1e-6
    agree(found, eo.grad(kernel)(scale, amplitude, d))
    for i, step in enumerate(h * np.eye(2)):
        rise = kernel(scale + step, amplitude, d) - kernel(scale - step, amplitude, d)
        assert abs(found[i].item() - rise.item() / (2 * h)) < 1e-8


def test_a_product_is_still_fused_with_what_is_no_product():
    """A polynomial by Horner's rule has one instruction for each coefficient: what is added is a constant."""
    text = eo.compile.inspect(lambda x: (x * 0.5 + 0.25) * x + 0.125)(eo.ones(1000, dtype=eo.float64))
    assert text.llvm.count("fadd contract") == 2
