"""Floats of more than 64 bits: programs move them, and call the eager kernels to compute with them."""

import numpy as np
import pytest

import everyo as eo

TINY = np.finfo(np.longdouble).eps
WIDE = np.arange(1, 7, dtype=np.longdouble).reshape(2, 3) + TINY


def put(x):
    x[0] = 1.0
    return x


FUNCTIONS = {
    "itself": (lambda x: x, WIDE),
    "product": (lambda x: x * 2, WIDE * 2),
    "constant": (lambda x: x * WIDE, WIDE * WIDE),
    "constant alone": (lambda x: eo.asarray(WIDE), WIDE),
    "zeros": (lambda x: x + eo.zeros_like(x), WIDE),
    "ones": (lambda x: eo.ones_like(x) * x, WIDE),
    "full": (lambda x: eo.full_like(x, 2.5) + x, WIDE + np.longdouble(2.5)),
    "transposed": (lambda x: x.T, WIDE.T),
    "row": (lambda x: x[1], WIDE[1]),
    "assigned": (put, np.stack([np.ones(3, np.longdouble), WIDE[1]])),
    "branch": (lambda x: eo.cond(x.sum() > 0, lambda x: x * 2, lambda x: x, x), WIDE * 2),
    "loop": (lambda x: eo.fori_loop(0, 3, lambda i, c: c * 2, x), WIDE * 8),
    "number": (lambda x: x * np.longdouble(3), WIDE * 3),
    "gradient": (eo.grad(lambda x: (x**2).sum()), 2 * WIDE),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_keep_all_their_digits(name):
    f, expected = FUNCTIONS[name]
    x = eo.asarray(WIDE.copy())
    found = eo.compile(f)(x)
    assert found.dtype == np.longdouble
    assert np.array_equal(found.numpy(), expected)


def test_beside_others():
    narrow = eo.asarray(np.ones(3, np.float32))
    found = eo.compile(lambda x, y: x * y)(narrow, WIDE)
    assert np.array_equal(found.numpy(), WIDE)
    assert eo.compile(lambda x: x.astype(eo.float32))(WIDE).tolist() == WIDE.astype(np.float32).tolist()
    found = eo.compile(lambda x: x.astype(np.longdouble) / 3)(narrow)
    assert np.array_equal(found.numpy(), np.ones(3, np.longdouble) / 3)


def test_complex_ones():
    z = (WIDE + 1j * WIDE).astype(np.clongdouble)
    assert np.array_equal(eo.compile(lambda z: z * 1)(z).numpy(), z)
    assert np.array_equal(eo.compile(lambda x: eo.asarray(z))(WIDE).numpy(), z)


@pytest.mark.parametrize("array", [np.array(["2020-01-01"], "M8[D]"), np.array([1, "a"], object)])
def test_what_is_no_number_is_refused(array):
    with pytest.raises(eo.DTypeError, match="booleans, integers, floats or complex numbers"):
        eo.compile(lambda x: x * 2)(array)
