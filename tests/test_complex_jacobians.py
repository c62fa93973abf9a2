"""Jacobians and Hessians of complex functions: one convention in both directions, or an explained refusal."""

import numpy as np
import pytest

import everyo as eo

X = np.array([0.3, -0.7])
Z = np.array([1.0 + 2.0j, 0.5 - 1.0j])
DIRECTIONS = [eo.jacrev, eo.jacfwd, eo.jacobian]


def close(found, expected, tol=1e-12):
    np.testing.assert_allclose(found.numpy(), expected, rtol=tol, atol=tol)


# ---- real inputs: both parts of the derivative


REAL_INPUTS = {
    "exp(ix)": (lambda x: eo.exp(1j * x), np.diag(1j * np.exp(1j * X))),
    "mixed": (lambda x: x[0] * (1 + 2j) + x[1] ** 2 * 1j, [1 + 2j, 2j * X[1]]),
    "conj": (lambda x: eo.conj(x * (3 + 1j)), (3 - 1j) * np.eye(2)),
    "real part": (lambda x: eo.real(x * x * (3 + 1j)), np.diag(6 * X)),
    "abs": (lambda x: eo.abs(x * (3 + 4j)), np.diag(5 * np.sign(X))),
}


@pytest.mark.parametrize("transform", DIRECTIONS)
@pytest.mark.parametrize("name", REAL_INPUTS)
@pytest.mark.parametrize("chunk", [None, 1])
def test_of_real_inputs(name, transform, chunk):
    f, expected = REAL_INPUTS[name]
    found = transform(f, chunk_size=chunk)(eo.tensor(X))
    assert found.dtype == (eo.complex128 if np.iscomplexobj(expected) else eo.float64)
    close(found, expected)


@pytest.mark.parametrize("transform", DIRECTIONS)
def test_of_trees_with_real_and_complex_outputs(transform):
    def f(p, q):
        return {"c": p * (1 + 1j) + 1j * q.sum(), "r": p.sum() * q, "count": 3}

    found = transform(f, argnums=(0, 1))(eo.tensor(X), eo.tensor([2.0, 5.0, 7.0], dtype=eo.float64))
    close(found["c"][0], (1 + 1j) * np.eye(2))
    close(found["c"][1], np.full((2, 3), 1j))
    close(found["r"][0], [[2.0, 2.0], [5.0, 5.0], [7.0, 7.0]])
    close(found["r"][1], X.sum() * np.eye(3))
    close(found["count"][0], [0.0, 0.0])
    assert [found[k][0].dtype for k in ("c", "r", "count")] == [eo.complex128, eo.float64, eo.float64]


@pytest.mark.parametrize("transform", DIRECTIONS)
def test_single_precision_stays(transform):
    found = transform(lambda x: x * 1j)(eo.tensor([1.0, 2.0]))
    assert found.dtype == eo.complex64
    close(found, 1j * np.eye(2))


@pytest.mark.parametrize("transform", DIRECTIONS)
def test_under_other_transformations(transform):
    def f(x):
        return eo.exp(1j * x)

    mapped = eo.vmap(transform(f))(eo.tensor(np.stack([X, X + 1])))
    close(mapped, [np.diag(1j * np.exp(1j * X)), np.diag(1j * np.exp(1j * (X + 1)))])
    _, pushed = eo.jvp(transform(f), (eo.tensor(X),), (eo.tensor([1.0, 2.0], dtype=eo.float64),))
    close(pushed, np.diag(-np.exp(1j * X) * [1, 2]))
    gradient = eo.grad(lambda x: eo.imag(transform(f)(x)).sum())(eo.tensor(X))
    close(gradient, -np.sin(X))


# ---- complex inputs: holomorphic functions, or a refusal


HOLOMORPHIC = {
    "square": (lambda z: z * z, np.diag(2 * Z)),
    "exp": (eo.exp, np.diag(np.exp(Z))),
    "product": (lambda z: z[0] * z[1] * 1j, 1j * Z[::-1]),
    "linear": (lambda z: eo.tensor([[1.0, 1j], [2.0, 3.0]], dtype=eo.complex128) @ z, [[1, 1j], [2, 3]]),
    "constant": (lambda z: eo.tensor(1j, dtype=eo.complex128), [0, 0]),
}


@pytest.mark.parametrize("transform", DIRECTIONS)
@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_of_holomorphic_functions_it_is_the_complex_derivative(name, transform):
    f, expected = HOLOMORPHIC[name]
    close(transform(f, holomorphic=True)(eo.tensor(Z)), expected)
    close(eo.vmap(transform(f, holomorphic=True))(eo.tensor(Z[None])), np.asarray(expected)[None])


@pytest.mark.parametrize("transform", [*DIRECTIONS, eo.hessian])
@pytest.mark.parametrize("f", [lambda z: z * z, lambda z: eo.abs(z) ** 2, lambda z: eo.real(z) ** 2])
def test_complex_inputs_are_refused(transform, f):
    with pytest.raises(eo.DTypeError) as error:
        transform(f)(eo.tensor(Z[0]))
    assert error.value.operation == transform.__name__
    for words in ("holomorphic=True", "imaginary", "grad", "complex128"):
        assert words in str(error.value)


def test_products_take_complex_inputs():
    def loss(z):
        return eo.real(z) ** 2 + 3 * eo.imag(z) ** 2 + eo.real(z) * eo.imag(z)

    z, v = eo.tensor(Z[0]), eo.tensor(2.0 - 1.0j, dtype=eo.complex128)
    expected = (2 * 2 + 1 * -1) + 1j * (6 * -1 + 1 * 2)  # the Hessian [[2, 1], [1, 6]] times (2, -1)
    close(eo.hvp(loss, z, v), expected)
    close(eo.vhp(loss, z, v), expected)


NOT_HOLOMORPHIC = {
    "conj": eo.conj,
    "abs": lambda z: eo.abs(z) * z,
    "in one element": lambda z: eo.stack([z[0] * z[1], z[0] + eo.real(z[1])]),
    "small": lambda z: z + 1e-6 * eo.conj(z),
}


@pytest.mark.parametrize("transform", DIRECTIONS)
@pytest.mark.parametrize("name", NOT_HOLOMORPHIC)
def test_functions_that_are_not_holomorphic_are_found_out(name, transform):
    with pytest.raises(eo.ArgumentError, match="not holomorphic"):
        transform(NOT_HOLOMORPHIC[name], holomorphic=True)(eo.tensor(Z))


@pytest.mark.parametrize("transform", DIRECTIONS)
def test_real_results_and_real_inputs_are_not_holomorphic(transform):
    with pytest.raises(eo.DTypeError, match="real"):
        transform(eo.abs, holomorphic=True)(eo.tensor(Z))
    with pytest.raises(eo.DTypeError, match=r"holomorphic=True(.|\n)*float64"):
        transform(eo.sin, holomorphic=True)(eo.tensor(X))


def test_hessian_of_a_holomorphic_function():
    h = eo.hessian(lambda z: z[0] ** 3 * z[1], holomorphic=True)(eo.tensor(Z))
    close(h, [[6 * Z[0] * Z[1], 3 * Z[0] ** 2], [3 * Z[0] ** 2, 0]])
    h, aux = eo.hessian(lambda z: (z**3, "aux"), holomorphic=True, has_aux=True)(eo.tensor(Z[0]))
    close(h, 6 * Z[0])
    assert aux == "aux"
    with pytest.raises(eo.ShapeError, match="one element"):
        eo.hessian(lambda z: z * z, holomorphic=True)(eo.tensor(Z))
    with pytest.raises(eo.ArgumentError, match="not holomorphic"):
        eo.hessian(lambda z: eo.conj(z) * z, holomorphic=True)(eo.tensor(Z[0]))


def test_hessian_of_real_inputs_through_complex_numbers():
    h = eo.hessian(lambda x: eo.real(eo.exp(1j * x)).sum())(eo.tensor(X))
    close(h, np.diag(-np.cos(X)))
