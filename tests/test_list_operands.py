"""Python lists beside tensors in double precision lose nothing: they are as weak as numbers are."""

from __future__ import annotations

import numpy as np
import pytest

import everyo as eo

V = np.array([0.31, 0.87, 0.52, 0.74])
M = np.array([[0.91, 0.23, 0.42], [0.11, 1.37, 0.66], [0.58, 0.05, 1.73]])
W = np.concatenate([M, M[:1] * 0.3])
LIST = [0.1, 0.23, 0.37, 0.9]  # none of them is a number of single precision

CALLS = {
    "average": lambda v, m, w, u: np.average(v, weights=u(LIST)),
    "average of a list": lambda v, m, w, u: np.average(u(LIST), weights=v),
    "cov": lambda v, m, w, u: np.cov(v, u(LIST)),
    "cov with aweights": lambda v, m, w, u: np.cov(w.T, aweights=u(LIST)),
    "corrcoef": lambda v, m, w, u: np.corrcoef(u(LIST), v),
    "trapezoid": lambda v, m, w, u: np.trapezoid(u(LIST), v),
    "gradient": lambda v, m, w, u: np.gradient(u(LIST), v),
    "choose": lambda v, m, w, u: np.choose([0, 1, 0, 1], [u(LIST), v]),
    "column_stack": lambda v, m, w, u: np.column_stack([u(LIST), v]),
    "dstack": lambda v, m, w, u: np.dstack([u(LIST), v]),
    "insert": lambda v, m, w, u: np.insert(v, [1, 2], u(LIST[:2])),
    "insert a number": lambda v, m, w, u: np.insert(v, 1, 0.1),
    "insert into a list": lambda v, m, w, u: np.insert(u(LIST), 1, v[0]),
    "quantile": lambda v, m, w, u: np.quantile(u(LIST), v),
    "add.outer": lambda v, m, w, u: np.add.outer(u(LIST), v),
    "multiply.outer": lambda v, m, w, u: np.multiply.outer(v, u(LIST)),
    "float_power": lambda v, m, w, u: np.float_power(v, u(LIST)),
    "histogram": lambda v, m, w, u: np.histogram(v, u(LIST), density=True),
    "histogram weights": lambda v, m, w, u: np.histogram(v, 3, weights=u(LIST)),
    "histogram2d": lambda v, m, w, u: np.histogram2d(v, u(LIST), 2),
    "histogramdd": lambda v, m, w, u: np.histogramdd((v, v), (u(LIST), 2), weights=u(LIST)),
    "bincount": lambda v, m, w, u: np.bincount([0, 1, 1, 2], weights=v),
    "broadcast_arrays": lambda v, m, w, u: np.broadcast_arrays(v, u(LIST)),
    "meshgrid": lambda v, m, w, u: np.meshgrid(v, u(LIST)),
    "interp": lambda v, m, w, u: np.interp(u(LIST), u([0.0, 0.1, 0.5, 1.0]), v),
    "solve": lambda v, m, w, u: np.linalg.solve(m, u(LIST[:3])),
    "solve with a list": lambda v, m, w, u: np.linalg.solve(u([[0.1, 0.7], [0.3, 0.9]]), v[:2]),
    "lstsq": lambda v, m, w, u: np.linalg.lstsq(w, u(LIST), rcond=None)[0],
    "tensorsolve": lambda v, m, w, u: np.linalg.tensorsolve(m, u(LIST[:3])),
}  # fmt: skip


def leaves(value):
    return [leaf for item in value for leaf in leaves(item)] if type(value) in (list, tuple) else [value]


@pytest.mark.parametrize("name", CALLS)
def test_a_list_counts_in_double_precision_beside_a_tensor_of_it(name):
    tensors = [eo.asarray(a) for a in (V, M, W)]
    got = leaves(CALLS[name](*tensors, list))
    want = leaves(CALLS[name](V, M, W, np.asarray))
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g.numpy(), w, rtol=1e-13, atol=1e-15)


def test_real_lists_stay_real_beside_complex_values():
    values = np.array([0.0, 2.0 + 1.0j, 4.0j])
    got = eo.interp([0.25, 0.7], [0.0, 0.5, 1.0], eo.asarray(values))
    np.testing.assert_allclose(got.numpy(), np.interp([0.25, 0.7], [0.0, 0.5, 1.0], values), rtol=1e-14)
    periodic = eo.interp([0.25, 1.7], [0.0, 0.5, 0.9], eo.asarray(values), period=1.0)
    np.testing.assert_allclose(
        periodic.numpy(), np.interp([0.25, 1.7], [0.0, 0.5, 0.9], values, period=1.0), rtol=1e-13
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda m, u: eo.linalg.solve(m, u([0.1, 0.7, 0.3])),
        lambda m, u: eo.linalg.solve(u([[0.1, 0.7, 0.3], [0.9, 0.3, 0.1], [0.2, 0.2, 0.7]]), m),
        lambda m, u: eo.linalg.lstsq(m, u([0.1, 0.7, 0.3]))[0],
        lambda m, u: eo.linalg.tensorsolve(m, u([0.1, 0.7, 0.3])),
        lambda m, u: eo.linalg.solve_triangular(m, u([[0.1], [0.7], [0.3]]), upper=True),
        lambda m, u: eo.linalg.cholesky_solve(u([[0.1], [0.7], [0.3]]), eo.linalg.cholesky(m @ m.mT)),
        lambda m, u: eo.linalg.lu_solve(eo.linalg.lu_factor(m), u([0.1, 0.7, 0.3])),
    ],
)
def test_linear_systems_take_lists_at_full_precision(call):
    m = eo.asarray(M)
    got, want = call(m, list), call(m, np.asarray)
    assert got.dtype == want.dtype == np.float64
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-13)


OF_TENSORS = {
    "add": lambda a, b, u: eo.add(u([a, b]), 1),
    "operator": lambda a, b, u: a * u([b, a]),
    "reflected": lambda a, b, u: u([b, a]) - a,
    "tuple": lambda a, b, u: a / u((a[0], 2.0)),
    "power": lambda a, b, u: a ** u([b[0], 2.0]),
    "elements and numbers": lambda a, b, u: a + u([[a[0], 1.0], [2.0, b[1]]]),
    "one operand": lambda a, b, u: eo.exp(u([a, b])),
    "matmul": lambda a, b, u: a @ u([b, a]),
    "where": lambda a, b, u: eo.where([True, False], u([a[0], b[0]]), 0.5),
    "clip": lambda a, b, u: eo.clip(a, 0, u([b[0], 9.0])),
    "softplus": lambda a, b, u: eo.softplus(u([a[0], 1.0]), 2.0),
    "special": lambda a, b, u: eo.special.xlogy(a, u([b[0], b[1]])),
    "numpy": lambda a, b, u: np.add(a, u([b[0], 2.0])),
    "numpy, reflected": lambda a, b, u: np.multiply(u([b[0], 2.0]), a),
    "beside an array": lambda a, b, u: eo.multiply(u([a, [1.0, 2.0]]), np.array([3.0, 4.0])),
}


@pytest.mark.parametrize("name", OF_TENSORS)
def test_lists_of_tensors_are_operands_and_keep_their_graph(name):
    """As if they had been stacked: values, gradients in both modes, in batches and in programs."""
    call = OF_TENSORS[name]
    points = [eo.tensor([0.4, 1.7], dtype=eo.float64), eo.tensor([2.5, 0.6], dtype=eo.float64)]

    def given(a, b):
        return call(a, b, lambda items: items).sum()

    def by_hand(a, b):
        return call(a, b, stacked).sum()

    def stacked(items):
        return eo.stack([stacked(x) if isinstance(x, (list, tuple)) else x for x in items])

    np.testing.assert_array_equal(given(*points).numpy(), by_hand(*points).numpy())
    want = [g.numpy() for g in eo.grad(by_hand, argnums=(0, 1))(*points)]
    got = eo.grad(given, argnums=(0, 1))
    for g in (got, eo.jacfwd(given, argnums=(0, 1)), eo.compile(got)):
        for x, w in zip(g(*points), want):
            np.testing.assert_allclose(x.numpy(), w, rtol=1e-14)
    batch = [eo.stack([p, p + 0.3]) for p in points]
    for row, w in zip(eo.vmap(given)(*batch), zip(*batch)):
        np.testing.assert_allclose(row.item(), by_hand(*w).item(), rtol=1e-14)


def test_a_list_of_tensors_of_several_shapes_is_refused():
    a = eo.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(eo.ShapeError, match="differ in shape"):
        a + [a, 2.0]
