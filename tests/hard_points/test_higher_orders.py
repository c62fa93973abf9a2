"""Third and higher derivatives, in every order of forward and reverse mode."""

import itertools

import numpy as np
import pytest

import everyo as eo

RNG = np.random.default_rng(5)
V = np.array([[1.0, 2, 0], [0, 1, 3], [2, 0, 1]])


def forward(f):
    return lambda t: eo.jvp(f, (t,), (eo.ones_like(t),))[1]


def derivatives(f, order):
    """The derivatives at 0 by each of the words of an order."""
    for word in itertools.product((eo.grad, forward), repeat=order):
        out = f
        for mode in word:
            out = mode(out)
        yield out(eo.tensor(0.0, dtype=eo.float64)).item()


@pytest.mark.parametrize("small", [1.0, 1e-8, 1e-12, 0.0])
def test_third_derivative_of_det_near_a_singular_matrix(small):
    def f(t):
        return eo.linalg.det(np.diag([1.0, 1.0, small]) + t * V)

    np.testing.assert_allclose(list(derivatives(f, 3)), 6 * np.linalg.det(V), rtol=1e-12)
    np.testing.assert_array_equal(list(derivatives(f, 4)), 0)


def expanded(s, b):
    """The coefficients of ``det(diag(s) + t b)``: sums of principal minors."""
    n = len(s)
    out = []
    for k in range(n + 1):
        subsets = [list(i) for i in itertools.combinations(range(n), k)]
        out.append(sum(np.linalg.det(b[np.ix_(i, i)]) * np.prod(np.delete(s, i)) for i in subsets))
    return out


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("s", [[2, 1, 0, 0], [3, 2, 1, 1e-9], [2, 1, 1, 0.5, 0], [3, 1, 2, 4, 1.5]])
def test_higher_derivatives_of_det(s, dtype):
    n = len(s)
    u, v = (np.linalg.qr(RNG.standard_normal((n, n)) + 1j * RNG.standard_normal((n, n)))[0] for _ in "uv")
    b = RNG.standard_normal((n, n)) + 1j * RNG.standard_normal((n, n))
    if dtype is float:
        u, v, b = (np.linalg.qr(x.real)[0] for x in (u, v, b))
    a, scale = u * np.array(s) @ v, np.linalg.det(u) * np.linalg.det(v)
    coefficients = scale * np.array(expanded(np.array(s), u.conj().T @ b @ v.conj().T))

    def f(t):
        return eo.real(eo.linalg.det(a + t * b))

    for order, factorial in ((3, 6), (4, 24)):
        found = list(derivatives(f, order))
        if order == 4 and n > 4 and 0 in s:
            assert np.isnan(found).all()
        else:
            np.testing.assert_allclose(found, (factorial * coefficients[order]).real, rtol=1e-9, atol=1e-10)


X, Y = np.array([1.0, 2, 4, -1]), np.array([0.5, -1, 0.3, 2])
A, B = np.array([[4.0, 1, 2], [1, 3, 0.5], [2, 1, 5]]), np.array([[1.0, 2, 0], [0.5, 1, 3], [2, 0, 1]])
PLAIN = {  # functions with all derivatives, of which each word has to find the same
    "norm": lambda t: eo.linalg.norm(X + t * Y),
    "norm, order 3": lambda t: eo.linalg.norm(X + t * Y, ord=3),
    "norm of tiny numbers": lambda t: 1e145 * eo.linalg.norm(1e-145 * (X + t * Y), ord=3),
    "norm, complex": lambda t: eo.linalg.norm(X + 1j * t * Y),
    "norm, Frobenius": lambda t: eo.linalg.norm((X + t * Y).reshape(2, 2)),
    "std": lambda t: eo.std(X + t * Y),
    "cdist": lambda t: eo.cdist((X + t * Y).reshape(2, 2), np.full((1, 2), 0.3), p=3.0).sum(),
    "renorm": lambda t: eo.renorm((X + t * Y).reshape(2, 2), 2.0, 0, 1.0).sum(),
    "polyfit": lambda t: eo.polyfit(X + t * Y, Y, 1).sum(),
    "lu": lambda t: (eo.linalg.lu(A + t * B)[2] ** 2).sum(),
    "lu_factor": lambda t: (eo.linalg.lu_factor(A + t * B)[0] ** 2).sum(),
    "qr": lambda t: eo.linalg.qr(A + t * B)[1].sum(),
}


@pytest.mark.parametrize("name", PLAIN)
def test_every_word_finds_the_same(name):
    order = 3 if name in ("lu", "lu_factor", "qr", "norm of tiny numbers") else 4
    if name.startswith("lu"):
        pytest.importorskip("scipy")
    found = list(derivatives(PLAIN[name], order))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, found[0], rtol=1e-9)
