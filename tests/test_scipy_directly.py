"""SciPy's own optimizers and integrators on functions of tensors, with derivatives by `eo` as they are.

SciPy asks for arrays with `np.atleast_1d` and `np.atleast_2d`, which leave a tensor a tensor elsewhere.
"""

import numpy as np
import pytest
import scipy.integrate
from scipy import optimize

import everyo as eo

START = np.array([-1.0, 2.0, 0.5])
BOUNDS = [(-2, 0.7)] * 3
START_OF_FIT = [1.0, 1.0, 0.0]


def loss(x):
    return ((x[1:] - x[:-1] ** 2) ** 2).sum() + ((1 - x) ** 2).sum()


def product(x, p):
    return eo.hvp(loss, x, p)


def test_a_gradient_with_bounds():
    for method in ("L-BFGS-B", "TNC", "SLSQP", "trust-constr"):
        found = optimize.minimize(loss, START, jac=eo.grad(loss), method=method, bounds=BOUNDS)
        assert type(found.x) is np.ndarray
        np.testing.assert_allclose(found.x, 0.7, atol=2e-3, err_msg=method)


@pytest.mark.parametrize(
    "method", ["CG", "BFGS", "Newton-CG", "L-BFGS-B", "TNC", "SLSQP", "trust-constr", "trust-ncg"]
)
def test_every_method_with_a_gradient(method):
    options = {"hess": eo.hessian(loss)} if method == "trust-ncg" else {}
    for function, jac in ((loss, eo.grad(loss)), (eo.value_and_grad(loss), True)):
        found = optimize.minimize(function, START, jac=jac, method=method, **options)
        np.testing.assert_allclose(np.asarray(found.x), 1, atol=1e-4)


@pytest.mark.parametrize("method", ["Newton-CG", "trust-ncg", "trust-krylov"])
def test_products_with_the_hessian(method):
    found = optimize.minimize(loss, START, jac=eo.grad(loss), hessp=product, method=method)
    np.testing.assert_allclose(np.asarray(found.x), 1, atol=1e-4)


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr"])
def test_constraints_with_their_jacobian(method):
    def both(x):
        return np.stack([x[0] + x[1] - 1, x[2] * x[0] - 0.1])

    limits = optimize.NonlinearConstraint(both, 0, 0, jac=eo.jacobian(both))
    for constraints in (limits, {"type": "eq", "fun": both, "jac": eo.jacobian(both)}):
        found = optimize.minimize(loss, START, jac=eo.grad(loss), method=method, constraints=constraints)
        np.testing.assert_allclose(both(found.x), 0, atol=1e-6)


def residuals(x):
    return np.stack([x[0] - 1, x[1] - x[0] ** 2, x[0] * x[1] - 0.5])


@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
def test_residuals_with_their_jacobian(method):
    by_differences = optimize.least_squares(lambda x: residuals(eo.asarray(x)).numpy(), [0.5, 0.5])
    found = optimize.least_squares(residuals, [0.5, 0.5], jac=eo.jacobian(residuals), method=method)
    np.testing.assert_allclose(found.x, by_differences.x, rtol=1e-5)
    if method != "lm":
        bounded = optimize.least_squares(
            residuals, [0.5, 0.5], jac=eo.jacobian(residuals), method=method, bounds=(0, [0.6, 3])
        )
        assert bounded.x[0] == pytest.approx(0.6)
        robust = {"loss": "soft_l1", "x_scale": "jac"}  # which scale the Jacobian in place
        optimize.least_squares(residuals, [0.5, 0.5], jac=eo.jacobian(residuals), method=method, **robust)


@pytest.mark.parametrize("method", ["lm", "trf", "dogbox"])
def test_curve_fit_with_an_exact_jacobian(method):
    t = np.linspace(0, 4, 9)
    data = 5 * np.exp(-t / 1.5) + 1 + 0.01 * np.sin(9 * t)

    def model(t, a, tau, c):
        return a * np.exp(-t / tau) + c

    def jacobian(t, *p):
        return eo.jacobian(lambda p: model(t, *p))(np.array(p))

    bounds = (-np.inf, np.inf) if method == "lm" else (0, 10)
    found, covariance = optimize.curve_fit(
        model, t, data, START_OF_FIT, jac=jacobian, method=method, bounds=bounds
    )
    expected, spread = optimize.curve_fit(model, t, data, START_OF_FIT, method=method, bounds=bounds)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(covariance, spread, rtol=1e-3)
    assert type(found) is type(covariance) is np.ndarray


def test_roots_and_stiff_equations():
    def system(x):
        return np.stack([x[0] ** 2 + x[1] - 1, x[0] - x[1]])

    for method in ("hybr", "lm"):
        found = optimize.root(system, [0.5, 0.5], jac=eo.jacobian(system), method=method)
        np.testing.assert_allclose(system(found.x), 0, atol=1e-8)

    def oscillator(t, y):
        return np.stack([y[1], 100 * (1 - y[0] ** 2) * y[1] - y[0]])

    for method in ("Radau", "BDF", "LSODA"):
        run = scipy.integrate.solve_ivp(
            oscillator, (0, 1), [1.0, 0.0], method=method, jac=eo.jacobian(oscillator, argnums=1), rtol=1e-8
        )
        assert run.success


def test_an_array_of_scipys_is_its_own():
    """SLSQP and robust losses write into what they are given."""
    matrix = eo.asarray(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]]))

    def linear(x):
        return matrix @ eo.asarray(x) - 1

    optimize.least_squares(linear, [0.5, 0.5], jac=lambda x: matrix, loss="soft_l1")
    assert matrix.tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]]


def test_what_requires_grad_is_refused_with_the_way_out():
    p = eo.tensor(2.0, dtype=eo.float64, requires_grad=True)
    with pytest.raises(eo.GraphStateError, match=r"eo\.scipy_compat\.minimize") as caught:
        optimize.minimize(loss, START, jac=lambda x: eo.grad(loss)(x) * p, method="L-BFGS-B")
    assert "optimize.minimize(loss" in caught.value.line or "lambda x" in caught.value.line

    def solved(p):
        return optimize.least_squares(lambda x: residuals(x) * p, [0.5, 0.5]).x

    with pytest.raises(eo.GraphStateError, match=r"eo\.implicit\.custom_root"):
        eo.grad(lambda p: eo.sum(solved(p)))(2.0)


def test_elsewhere_a_tensor_stays_a_tensor():
    x = eo.tensor([1.0, 2.0], requires_grad=True)
    assert np.atleast_2d(x).requires_grad
    assert isinstance(np.atleast_1d(eo.tensor(1.0)), eo.Tensor)
    assert [type(y) for y in np.atleast_1d(eo.tensor(1.0), 2.0)] == [eo.Tensor, eo.Tensor]
