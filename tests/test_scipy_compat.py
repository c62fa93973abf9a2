"""EveryO functions in SciPy's solvers, and the examples, which run as tests."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import optimize

import everyo as eo
from everyo import scipy_compat

EXAMPLES = Path(__file__).parents[1] / "examples"


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


START = np.array([-1.2, 1.0, 0.5, 0.8])


def test_values_and_derivatives_are_scipys():
    f = scipy_compat.minimize_fun(rosenbrock, START)
    p = np.array([1.0, -2.0, 0.5, 3.0])
    assert f(START) == pytest.approx(optimize.rosen(START))
    np.testing.assert_allclose(f.grad(START), optimize.rosen_der(START))
    np.testing.assert_allclose(f.hessp(START, p), optimize.rosen_hess_prod(START, p))
    np.testing.assert_allclose(f.hess(START), optimize.rosen_hess(START))
    np.testing.assert_allclose(f.sparse_hess(START).toarray(), optimize.rosen_hess(START))
    value, gradient = f.value_and_grad(START)
    assert (type(value), type(gradient), gradient.dtype) == (float, np.ndarray, np.float64)


@pytest.mark.parametrize(
    "method",
    [None, "BFGS", "CG", "L-BFGS-B", "TNC", "SLSQP", "Newton-CG", "trust-ncg", "trust-krylov", "trust-constr"]
    + ["dogleg", "trust-exact", "Nelder-Mead", "Powell"],
)
def test_every_method_finds_the_minimum(method):
    start = np.array([1.1, 1.2]) if method == "dogleg" else START[:2]  # it needs a convex region
    found = scipy_compat.minimize(rosenbrock, start, method=method)
    np.testing.assert_allclose(found.params.numpy(), 1, atol=2e-3)
    assert found.x.dtype == np.float64


def test_a_method_of_ones_own_gets_the_derivatives():
    seen = {}

    def newton(fun, x0, args=(), jac=None, hess=None, hessp=None, steps=30, **others):
        seen.update(others)
        x = x0
        for _ in range(steps):
            step = np.linalg.solve(hess(x), jac(x))
            np.testing.assert_allclose(hessp(x, step), jac(x), atol=1e-9)
            x = x - step
        return optimize.OptimizeResult(x=x, fun=fun(x), success=True)

    found = scipy_compat.minimize(rosenbrock, np.array([1.1, 1.2]), method=newton, bounds=[(0, 2)] * 2)
    np.testing.assert_allclose(found.params.numpy(), 1, atol=1e-12)
    assert seen["bounds"] is not None

    def given(x):
        return np.array([7.0])

    found = scipy_compat.minimize(
        lambda x: (x**2).sum(),
        [1.0],
        method=lambda f, x0, jac, **_: optimize.OptimizeResult(x=jac(x0)),
        jac=given,
    )
    assert found.x.tolist() == [7.0]


@pytest.mark.parametrize("method", [None, "BFGS", "Newton-CG", "Nelder-Mead"])
def test_the_exact_gradient_by_the_name_true(method):
    options = {} if method == "Nelder-Mead" else {"jac": True}
    found = scipy_compat.minimize(rosenbrock, START[:2], method=method, **options)
    np.testing.assert_allclose(found.params.numpy(), 1, atol=2e-3)
    difference = scipy_compat.minimize(lambda x: ((x - 2) ** 2).sum(), np.zeros(2), jac="2-point")
    np.testing.assert_allclose(difference.x, 2, atol=1e-5)


@pytest.mark.parametrize("params", [{}, None, (), np.zeros(0), {"a": eo.zeros((0, 3))}])
def test_a_search_for_nothing_is_refused(params):
    for search in (scipy_compat.minimize, scipy_compat.least_squares):
        with pytest.raises(eo.ArgumentError, match="no parameters"):
            search(lambda p: eo.tensor(1.0), params)


def test_value_and_gradient_come_from_one_evaluation():
    calls = []

    def counted(x):
        calls.append(1)
        return (x**2).sum()

    f = scipy_compat.minimize_fun(counted, np.ones(3))
    f(f.x0), f.grad(f.x0), f.value_and_grad(f.x0)
    assert len(calls) == 1
    x = f.x0.copy()
    x[0] = 5.0
    f(x)
    x[0] = 7.0  # solvers overwrite their arrays: the kept point must be a copy
    assert f(x) == 51.0
    assert len(calls) == 3
    f.hessp(f.x0, f.x0)
    f.hessp(f.x0, 2 * f.x0)
    assert len(calls) == 4
    f.grad(f.x0)[:] = 0  # and results that are overwritten do not change what is kept
    np.testing.assert_array_equal(f.grad(f.x0), 2)


def test_pytrees_are_packed_and_unpacked():
    params = {"w": eo.ones((2, 3)), "deep": [0.1, np.float32(2.0)], "b": np.arange(2)}
    f = scipy_compat.minimize_fun(lambda p: (p["w"] ** 2).sum() + p["deep"][0] * p["b"].sum(), params)
    assert f.x0.tolist() == [0, 1, 0.1, 2, 1, 1, 1, 1, 1, 1]  # 0.1 is not rounded to float32
    back = f.unpack(f.x0 * 2)
    assert back["w"].shape == (2, 3)
    assert back["deep"][0].item() == 0.2
    assert back["w"].dtype == eo.float64
    np.testing.assert_array_equal(f.pack(back), f.x0 * 2)
    assert f.grad(f.x0).tolist() == [0.1, 0.1, 1, 0, 2, 2, 2, 2, 2, 2]
    with pytest.raises(eo.ShapeError, match="structure or shapes"):
        f.pack({**params, "w": eo.ones((3, 2))})
    with pytest.raises(eo.ShapeError, match="does not hold"):
        f(np.ones(3))


def test_further_arguments_are_constants():
    found = scipy_compat.minimize(
        lambda x, center: ((x - center) ** 2).sum(), eo.zeros(2), (np.array([3.0, 4.0]),)
    )
    np.testing.assert_allclose(found.params.numpy(), [3, 4], atol=1e-6)


def test_bounds_and_constraints():
    target = np.array([2.0, 2.0])
    bounded = scipy_compat.minimize(lambda x: ((x - target) ** 2).sum(), np.zeros(2), bounds=[(0, 1), (0, 5)])
    np.testing.assert_allclose(bounded.x, [1, 2], atol=1e-6)
    circle = scipy_compat.residuals_fun(lambda x: (x**2).sum() - 1, np.zeros(2))
    constraint = {"type": "eq", "fun": circle, "jac": circle.jac}
    found = scipy_compat.minimize(
        lambda x: x.sum(), np.array([-1.0, 0.0]), method="SLSQP", constraints=[constraint]
    )
    np.testing.assert_allclose(found.x, -np.sqrt([0.5, 0.5]), atol=1e-6)
    nonlinear = optimize.NonlinearConstraint(circle, 0, 0, jac=circle.jac)
    found = scipy_compat.minimize(
        lambda x: x.sum(), np.array([-1.0, 0.2]), method="trust-constr", constraints=[nonlinear]
    )
    np.testing.assert_allclose(found.x, -np.sqrt([0.5, 0.5]), atol=1e-4)


def chain(x):
    return {"curve": 10 * (x[1:] - x[:-1] ** 2), "line": 1 - x[:-1]}


@pytest.mark.parametrize(
    ("method", "sparse"), [("trf", False), ("trf", True), ("dogbox", False), ("dogbox", True), ("lm", False)]
)
def test_least_squares(method, sparse):
    found = scipy_compat.least_squares(chain, np.full(6, 0.5), sparse=sparse, method=method)
    np.testing.assert_allclose(found.params.numpy(), 1, atol=1e-6)
    assert sp.issparse(found.jac) == sparse


def test_least_squares_by_the_pieces():
    r = scipy_compat.residuals_fun(chain, np.full(6, 0.5))
    assert r.sparsity().nnz == 15
    np.testing.assert_array_equal(r.sparse_jac(r.x0).toarray(), r.jac(r.x0))
    assert r(r.x0).shape == (10,)
    by_differences = optimize.least_squares(r, r.x0, jac_sparsity=r.sparsity(), method="trf")
    exact = optimize.least_squares(r, r.x0, jac=r.sparse_jac, tr_solver="lsmr", bounds=(-3, 3))
    np.testing.assert_allclose(by_differences.x, exact.x, atol=1e-5)


def test_roots():
    r = scipy_compat.residuals_fun(
        lambda x: eo.stack([x[0] + eo.exp(x[1]) - 2, x[0] * x[1]]), np.array([0.5, 0.5])
    )
    found = optimize.root(r, r.x0, jac=r.jac, tol=1e-13)
    assert np.abs(r(found.x)).max() < 1e-10


def test_objectives_that_return_no_real_scalar_are_refused():
    x = np.ones(3)
    with pytest.raises(eo.ShapeError, match="no scalar"):
        scipy_compat.minimize(lambda x: x * 2, x)
    with pytest.raises(eo.DTypeError, match="complex"):
        scipy_compat.minimize(lambda x: (x * 1j).sum(), x)
    with pytest.raises(eo.DTypeError, match="real"):
        scipy_compat.minimize(lambda x: x.sum(), np.ones(3) * 1j)
    with pytest.raises(eo.DTypeError, match="real"):
        scipy_compat.least_squares(lambda x: x * 1j, x)
    with pytest.raises(eo.DTypeError, match="real"):
        scipy_compat.least_squares(lambda x: [], x)
    for bad in (None, "text"):
        with pytest.raises((TypeError, eo.EveryOError)):
            scipy_compat.minimize(lambda x, bad=bad: bad, x)


@pytest.mark.parametrize(
    "lost", [lambda x: x.sum().item(), lambda x: x.detach().numpy(), lambda x: [x, 0.0], lambda x: None]
)
def test_results_that_are_no_tensors_are_refused(lost):
    f = scipy_compat.minimize_fun(lambda x: lost(x**2), START)
    r = scipy_compat.residuals_fun(lambda x: lost(x**2), START)
    methods = [f, f.grad, f.value_and_grad, f.hess, f.sparse_hess, lambda x: f.hessp(x, x)]
    for call in (*methods, r, r.jac, r.sparse_jac, r.sparsity):
        with pytest.raises(eo.DTypeError, match="no tensor") as error:
            call(START)
        assert error.value.operation == ("minimize_fun" if call in methods else "residuals_fun")
        assert error.value.remedy
    for solve in (scipy_compat.minimize, scipy_compat.least_squares):
        with pytest.raises(eo.DTypeError, match="no tensor"):
            solve(lambda x: lost(x**2), START)


def test_a_constant_tensor_is_a_result():
    f = scipy_compat.minimize_fun(lambda x: eo.tensor(3.0), START)
    assert f(START) == 3.0
    assert f.grad(START).tolist() == [0.0] * 4
    r = scipy_compat.residuals_fun(lambda x: {"a": x[:2], "b": eo.tensor(1)}, START)
    assert r.jac(START).tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]


def test_a_nan_derivative_of_a_finite_value_is_an_error():
    def signed(y):  # finite, but its derivative holds the logarithm of -2
        return (np.array([2.0, -2.0]) ** y).sum()

    x = np.array([2.0])
    r = scipy_compat.residuals_fun(signed, x)
    with np.errstate(invalid="ignore"):
        assert r(x) == 8
        for call in (scipy_compat.minimize_fun(signed, x), r.jac, r.sparse_jac):
            with pytest.raises(eo.NonFiniteGradientError, match=r"NaN at index \(0,"):
                call(x)
        overflow = scipy_compat.minimize_fun(lambda x: eo.log(x).sum(), x)
        assert np.isnan(overflow(-x))  # a value that is none is the solver's to judge


# ---- examples


def example(name):
    return runpy.run_path(str(EXAMPLES / name))["main"]()


def test_example_logistic_regression(capsys):
    found = example("logistic_regression.py")
    assert len({round(fit.fun, 7) for fit in found.values()}) == 1
    assert found["Newton-CG"].nit < 15
    assert "accuracy" in capsys.readouterr().out


def test_example_rosenbrock(capsys):
    assert max(example("rosenbrock.py").values()) < 1e-6
    assert "3 directions" in capsys.readouterr().out


def test_example_curve_fitting(capsys):
    low, value, high = example("curve_fitting.py")["exponent"]
    assert 1 < low < value < high < 1.6
    assert "95% interval" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["minimize", "least_squares"])
def test_without_scipy_the_error_names_the_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(eo.UnsupportedOperationError, match=name) as error:
        getattr(eo.scipy_compat, name)(lambda x: (x * x).sum(), eo.ones(2))
    assert "pip install -e '.[scipy]' in EveryO's folder" in error.value.remedy


@pytest.mark.parametrize(
    ("derivative", "attribute"), [("minimize_fun", "sparse_hess"), ("residuals_fun", "sparse_jac")]
)
def test_without_scipy_sparse_derivatives_name_the_extra(derivative, attribute, monkeypatch):
    for module in [m for m in sys.modules if m.startswith("everyo.transforms.sparse")]:
        monkeypatch.delitem(sys.modules, module)
    for module in ("scipy", "scipy.sparse"):
        monkeypatch.setitem(sys.modules, module, None)
    function = getattr(eo.scipy_compat, derivative)(lambda x: (x * x).sum(), eo.ones(2))
    with pytest.raises(ImportError, match=r"pip install -e '\.\[scipy\]' in EveryO's folder"):
        getattr(function, attribute)(function.x0)


def test_one_argument_needs_no_tuple():
    f = eo.scipy_compat.minimize_fun(lambda x, a: ((x - a) ** 2).sum(), np.array([1.0, 2.0]), 3.0)
    assert f(np.array([1.0, 2.0])) == 5.0
    np.testing.assert_array_equal(f.grad(np.array([1.0, 2.0])), [-4.0, -2.0])


def by_name(p):
    """A bowl around z = 2, a = -3 and w = (4, 5); the keys are not in sorted order."""
    return (p["z"] - 2) ** 2 + (p["a"] + 3) ** 2 + ((p["w"] - eo.tensor([4.0, 5.0])) ** 2).sum()


NAMED = {"z": 0.5, "w": np.array([0.5, 0.5]), "a": 0.5}


@pytest.mark.parametrize(
    "bounds",
    [
        {"z": (0, 1.5), "w": (None, 4.5), "a": (-1, None)},
        {"a": (-1, None), "w": [(None, np.inf), (-7, 4.5)], "z": [(0, 1.5)]},
        optimize.Bounds({"z": 0, "w": -9, "a": -1}, {"z": 1.5, "w": np.array([np.inf, 4.5]), "a": 10}),
        [(-1, None), (None, 4.5), (None, 4.5), (0, 1.5)],  # flat: a, w, z
    ],
)
def test_bounds_by_name(bounds):
    found = scipy_compat.minimize(by_name, NAMED, bounds=bounds).params
    assert found["z"].item() == pytest.approx(1.5)
    assert found["a"].item() == pytest.approx(-1.0)
    np.testing.assert_allclose(found["w"].numpy(), [4.0, 4.5], rtol=1e-5)


@pytest.mark.parametrize(
    "bounds",
    [
        ({"z": 0, "w": [-1, -1], "a": -1}, {"z": 1.5, "w": eo.tensor([9.0, 4.5]), "a": 10}),
        optimize.Bounds({"z": 0, "w": -1, "a": -1}, {"z": 1.5, "w": np.array([9, 4.5]), "a": 10}),
        ([-1, -1, -1, 0], [10, 9, 4.5, 1.5]),  # flat: a, w, z
    ],
)
def test_bounds_of_least_squares_by_name(bounds):
    def offsets(p):
        return {"z": p["z"] - 2, "a": p["a"] + 3, "w": p["w"] - eo.tensor([4.0, 5.0])}

    found = scipy_compat.least_squares(offsets, NAMED, bounds=bounds).params
    assert found["z"].item() == pytest.approx(1.5)
    assert found["a"].item() == pytest.approx(-1.0)
    np.testing.assert_allclose(found["w"].numpy(), [4.0, 4.5], rtol=1e-5)


def test_bounds_of_one_matrix_and_of_a_tuple():
    target = eo.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=eo.float64)
    ceiling = np.array([[9.0, 1.5], [2.5, 9.0]])
    found = scipy_compat.least_squares(lambda x: x - target, np.zeros((2, 2)), bounds=(-1, ceiling)).params
    np.testing.assert_allclose(found.numpy(), [[1.0, 1.5], [2.5, 4.0]], rtol=1e-5)
    pair = (np.zeros(2), 0.0)  # one pair of bounds for a leaf of two elements
    found = scipy_compat.minimize(
        lambda p: ((p[0] - 3) ** 2).sum() + (p[1] - 5) ** 2, pair, bounds=((0, 1), (0, 2))
    ).params
    np.testing.assert_allclose(found[0].numpy(), [1.0, 1.0])
    assert found[1].item() == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("search", "bounds"),
    [
        ("minimize", {"z": (0, 1)}),
        ("minimize", {"z": (0, 1), "w": [(0, 1)] * 3, "a": (0, 1)}),
        ("minimize", ({"z": 0, "w": 0, "a": 0}, {"z": 1, "w": 1, "a": 1})),
        ("minimize", optimize.Bounds({"z": 0}, {"z": 1})),
        ("least_squares", {"z": (0, 1), "w": (0, 1), "a": (0, 1)}),
        ("least_squares", ({"z": 0, "w": 0}, {"z": 1, "w": 1})),
        ("least_squares", ({"z": 0, "w": [0, 0, 0], "a": 0}, np.inf)),
    ],
)
def test_bounds_that_do_not_fit_are_refused(search, bounds):
    with pytest.raises(eo.ShapeError, match="the bounds do not fit the parameters"):
        getattr(scipy_compat, search)(by_name, NAMED, bounds=bounds)


def test_a_list_of_numbers_is_a_vector():
    target = np.array([3.0, -1.0])
    found = scipy_compat.minimize(lambda p: ((p - target) ** 2).sum(), [1, 2.0])
    np.testing.assert_allclose(found.params.numpy(), target, atol=1e-6)
    fitted = scipy_compat.least_squares(lambda p: p - target, [0.5, 0.5])
    np.testing.assert_allclose(fitted.params.numpy(), target, atol=1e-6)
    tree = scipy_compat.minimize(
        lambda p: (p[0] - 3) ** 2 + (p[1] + 1) ** 2, [eo.tensor(1.0), eo.tensor(2.0)]
    )
    np.testing.assert_allclose([x.item() for x in tree.params], target, atol=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_residuals_with_arguments_by_name(sparse):
    found = scipy_compat.least_squares(
        lambda p, t, *, rate: p * t - rate, np.ones(1), (np.arange(4.0),), sparse, kwargs={"rate": 2.0}
    )
    np.testing.assert_allclose(found.x, [12 / 14], rtol=1e-6)
    with pytest.raises(eo.ArgumentError):
        scipy_compat.least_squares(3, np.ones(1), kwargs={"rate": 2.0})
