"""NumPy arrays that statements update by tensors: they take what has no derivative, and no other."""

import numpy as np
import pytest

import everyo as eo
from everyo.errors import UnsupportedOperationError

M = np.array([[2.0, 0.5, -0.25], [0.75, 3.0, 1.5], [0.25, -1.25, 4.0]])
V = np.array([0.5, 2.0, 0.25])


def tracked(a):
    return eo.asarray(np.asarray(a, np.float64)).requires_grad_()


def descended(w):
    w -= 0.1 * eo.grad(lambda w: (w * w).sum())(w)
    return w


def test_an_array_takes_what_has_no_derivative():
    w = V.copy()
    assert descended(w) is w
    np.testing.assert_allclose(w, V - 0.2 * V)
    w[1:] *= eo.asarray(V[1:])
    np.testing.assert_allclose(w[1:], 0.8 * V[1:] ** 2)
    assert np.exp(eo.asarray(V), out=w) is w
    np.testing.assert_allclose(w, np.exp(V))
    w = np.ones(2, np.float32)
    w += eo.ones(2, dtype=eo.float64)  # rounded, as NumPy rounds it
    assert (w.dtype, w.tolist()) == (np.float32, [2.0, 2.0])
    x = tracked(V)
    with eo.no_grad():
        v = V.copy()
        v -= x
    assert v.tolist() == [0.0] * 3
    np.copyto(v, eo.asarray(V))
    np.testing.assert_array_equal(v, V)


def test_an_array_takes_nothing_that_does_not_fit():
    whole, single = np.ones(3, np.int64), np.ones(3)
    with pytest.raises(eo.DTypeError, match="in-place"):
        whole -= eo.ones(3)
    with pytest.raises(eo.ShapeError, match="in-place"):
        single -= eo.ones((2, 3))
    assert (whole.tolist(), single.tolist()) == ([1] * 3, [1.0] * 3)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: eo.grad(f)(V),
        lambda f: eo.jvp(f, (V,), (V,)),
        lambda f: eo.vmap(f)(M),
        lambda f: eo.compile(f)(V),
        lambda f: eo.hessian(f)(V),
    ],
)
def test_an_array_that_is_to_take_a_derivative_names_the_statement(transform):
    def f(x):
        w = np.zeros(x.shape)
        w -= 2.0 * x + 1
        return w.sum()

    with pytest.raises(UnsupportedOperationError, match=r"^-=: (.|\n)*write w = w - \(2\.0 \* x \+ 1\)"):
        transform(f)


def test_the_array_of_a_tensor_is_updated_through_it():
    p = tracked(V)
    (p * p).sum().backward()
    with pytest.raises(
        UnsupportedOperationError, match=r"write `with eo\.no_grad\(\): p -= 0\.1 \* p\.grad`"
    ):
        p.data -= 0.1 * p.grad
    np.testing.assert_array_equal(p.data, V)
