"""Modules as pytrees: every transformation over a model, whose leaves are its parameters."""

import contextlib
import copy
import pickle

import numpy as np
import pytest

import everyo as eo
from everyo import nn

WEIGHT = np.array([[1.0, -2.0], [0.5, 3.0], [2.0, 0.25]])
BIAS = np.array([0.5, -1.0, 2.0])
X = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 4.0], [-2.0, 1.5]])


def linear(weight=WEIGHT, bias=BIAS):
    """Return a layer of float64 with these values."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=eo.float64)
    layer.load_state_dict({"weight": weight, "bias": bias})
    return layer


class Tied(nn.Module):
    """w * (w * x): one parameter in two modules."""

    def __init__(self, w=3.0):
        super().__init__()
        self.inner = Scale(w)
        self.outer = Scale(w)
        self.outer.factor = self.inner.factor

    def forward(self, x):
        return self.outer(self.inner(x))


class Scale(nn.Module):
    def __init__(self, factor=2.0):
        super().__init__()
        self.factor = nn.Parameter(np.array(factor))
        self.name = "scale"
        self.register_buffer("seen", eo.zeros((), dtype=eo.float64))

    def forward(self, x):
        self.seen += eo.stop_gradient(x).sum()
        return self.factor * x


def total(model, x):
    return model(x).sum()


def half_squares(model, x):
    return 0.5 * (model(x) ** 2).sum()


def values(tree):
    return {name: p.detach().numpy() for name, p in tree.named_parameters()}


# ---- reverse mode


def test_a_gradient_is_a_module_of_the_same_structure():
    model, x = linear(), eo.tensor(X)
    before = dict(vars(model))
    gradient = eo.grad(total)(model, x)
    assert type(gradient) is nn.Linear
    assert gradient is not model
    np.testing.assert_array_equal(gradient.weight.detach(), np.tile(X.sum(0), (3, 1)))
    np.testing.assert_array_equal(gradient.bias.detach(), [4.0, 4.0, 4.0])
    assert gradient.in_features == 2
    assert vars(model) == before
    assert model.weight.grad is None
    np.testing.assert_array_equal(model.weight.detach(), WEIGHT)


def test_the_gradient_of_a_bare_expression_of_the_model():
    model, x = linear(), eo.tensor(X)
    value, gradient = eo.value_and_grad(lambda model, x: half_squares(model, x))(model, x)
    out = X @ WEIGHT.T + BIAS
    np.testing.assert_allclose(value.item(), 0.5 * (out**2).sum(), rtol=1e-14)
    np.testing.assert_allclose(gradient.weight.detach(), out.T @ X, rtol=1e-14)
    np.testing.assert_allclose(gradient.bias.detach(), out.sum(0), rtol=1e-14)


def test_a_gradient_for_model_and_input_together():
    gradient, dx = eo.grad(total, argnums=(0, 1))(linear(), eo.tensor(X))
    np.testing.assert_array_equal(gradient.bias.detach(), [4.0, 4.0, 4.0])
    np.testing.assert_array_equal(dx.detach(), np.tile(WEIGHT.sum(0), (4, 1)))


def test_leaves_come_in_the_order_of_named_parameters():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 1), nn.Tanh()))
    shapes = []
    eo.tree_map(lambda p: shapes.append(p.shape), model)
    assert shapes == [p.shape for p in model.parameters()]
    gradient = eo.grad(total)(model, eo.ones((1, 2)))
    assert [n for n, _ in gradient.named_parameters()] == [n for n, _ in model.named_parameters()]
    assert [g.shape for g in gradient.parameters()] == shapes
    assert list(gradient.state_dict()) == list(model.state_dict())


def test_a_penalty_on_the_parameters_inside_the_function():
    gradient = eo.grad(lambda m: sum((p**2).sum() for p in m.parameters()))(linear())
    np.testing.assert_array_equal(gradient.weight.detach(), 2 * WEIGHT)
    np.testing.assert_array_equal(gradient.bias.detach(), 2 * BIAS)


def test_modules_in_containers():
    models = {"a": Scale(2.0), "b": (Scale(5.0), eo.tensor(3.0, dtype=eo.float64))}
    gradient = eo.grad(lambda t, x: t["a"](t["b"][0](x)) * t["b"][1])(
        models, eo.tensor(7.0, dtype=eo.float64)
    )
    assert gradient["a"].factor.item() == 5 * 7 * 3
    assert gradient["b"][0].factor.item() == 2 * 7 * 3
    assert gradient["b"][1].item() == 2 * 5 * 7


def test_a_pullback_returns_a_module():
    value, pullback = eo.vjp(lambda m: m(eo.tensor(X)), linear())
    np.testing.assert_allclose(value.detach(), X @ WEIGHT.T + BIAS, rtol=1e-14)
    cotangent = np.arange(12.0).reshape(4, 3)
    (gradient,) = pullback(eo.tensor(cotangent))
    np.testing.assert_allclose(gradient.weight.detach(), cotangent.T @ X, rtol=1e-14)
    np.testing.assert_array_equal(gradient.bias.detach(), cotangent.sum(0))


def test_auxiliary_data_carries_what_buffers_became():
    model = Scale(2.0)

    def f(m, x):
        y = m(x)
        return y, dict(m.named_buffers())

    gradient, buffers = eo.grad(f, has_aux=True)(model, eo.tensor(5.0, dtype=eo.float64))
    assert gradient.factor.item() == 5.0
    assert buffers["seen"].item() == 5.0
    assert model.seen.item() == 0.0


# ---- forward mode and second order


def test_a_tangent_is_a_module():
    model, x = linear(), eo.tensor(X)
    direction = linear(np.full((3, 2), 0.5), np.array([1.0, 2.0, 3.0]))
    value, tangent = eo.jvp(lambda m: m(x), (model,), (direction,))
    np.testing.assert_allclose(value.detach(), X @ WEIGHT.T + BIAS, rtol=1e-14)
    np.testing.assert_allclose(tangent.detach(), X @ np.full((2, 3), 0.5) + [1.0, 2.0, 3.0], rtol=1e-14)
    _, pushforward = eo.linearize(lambda m: m(x), model)
    np.testing.assert_allclose(pushforward(direction).detach(), tangent.detach(), rtol=1e-14)


def test_a_hessian_is_a_module_of_modules():
    x = np.array([1.5, -2.0])
    hessian = eo.hessian(half_squares)(linear(), eo.tensor(x))
    eye = np.eye(3)
    np.testing.assert_allclose(
        hessian.weight.weight.detach(), np.einsum("ik,j,l->ijkl", eye, x, x), atol=1e-14
    )
    np.testing.assert_allclose(hessian.weight.bias.detach(), np.einsum("ik,j->ijk", eye, x), atol=1e-14)
    np.testing.assert_allclose(hessian.bias.weight.detach(), np.einsum("ik,l->ikl", eye, x), atol=1e-14)
    np.testing.assert_allclose(hessian.bias.bias.detach(), eye, atol=1e-14)
    doubled = eo.tree_map(lambda block: 2 * block, hessian)
    np.testing.assert_allclose(doubled.bias.bias.detach(), 2 * eye, atol=1e-14)


@pytest.mark.parametrize("transform", [eo.jacobian, eo.jacrev, eo.jacfwd])
def test_a_jacobian_has_a_module_for_each_output(transform):
    x = np.array([1.5, -2.0])
    jacobian = transform(lambda m: m(eo.tensor(x)))(linear())
    np.testing.assert_allclose(jacobian.weight.detach(), np.einsum("ik,l->ikl", np.eye(3), x), atol=1e-14)
    np.testing.assert_allclose(jacobian.bias.detach(), np.eye(3), atol=1e-14)


@pytest.mark.parametrize("product", [eo.hvp, eo.vhp])
def test_a_hessian_times_a_module(product):
    x = np.array([1.5, -2.0])
    vector = linear(np.arange(6.0).reshape(3, 2), np.array([1.0, 0.0, -1.0]))
    found = product(lambda m: half_squares(m, eo.tensor(x)), linear(), vector)
    out = np.arange(6.0).reshape(3, 2) @ x + [1.0, 0.0, -1.0]  # the Hessian is J'J, and this is J v
    np.testing.assert_allclose(found.weight.detach(), np.outer(out, x), rtol=1e-13)
    np.testing.assert_allclose(found.bias.detach(), out, rtol=1e-13)


# ---- ensembles


def test_an_ensemble_is_a_model_of_stacked_parameters():
    members = [linear(WEIGHT * k, BIAS - k) for k in (1.0, 2.0, 3.0)]
    ensemble = eo.tree_map(lambda *ps: eo.stack(ps), *members)
    out = eo.vmap(lambda m, x: m(x), in_axes=(0, None))(ensemble, eo.tensor(X))
    expected = np.stack([X @ (WEIGHT * k).T + BIAS - k for k in (1.0, 2.0, 3.0)])
    np.testing.assert_allclose(out.detach(), expected, rtol=1e-14)
    gradients = eo.vmap(eo.grad(half_squares), in_axes=(0, None))(ensemble, eo.tensor(X))
    np.testing.assert_allclose(gradients.weight.detach(), np.swapaxes(expected, 1, 2) @ X, rtol=1e-13)
    np.testing.assert_allclose(gradients.bias.detach(), expected.sum(1), rtol=1e-13)


def test_gradients_for_each_example():
    gradients = eo.vmap(eo.grad(total), in_axes=(None, 0))(linear(), eo.tensor(X))
    np.testing.assert_array_equal(gradients.weight.detach(), np.repeat(X[:, None], 3, axis=1))
    assert gradients.bias.shape == (4, 3)


def test_axes_of_single_parameters():
    model = linear()
    axes = eo.tree_map(lambda p: 0 if p.ndim == 2 else None, model)
    stacked = eo.tree_map(lambda p: eo.stack([p, 2 * p]) if p.ndim == 2 else p, model)
    out = eo.vmap(lambda m: m(eo.tensor(X)), in_axes=(axes,))(stacked)
    expected = np.stack([X @ WEIGHT.T + BIAS, 2 * X @ WEIGHT.T + BIAS])
    np.testing.assert_allclose(out.detach(), expected, rtol=1e-14)


def test_a_scan_over_stacked_layers():
    layers = eo.tree_map(lambda *ps: eo.stack(ps), Scale(2.0), Scale(3.0), Scale(5.0))

    def product(layers, x):
        return eo.scan(lambda h, layer: (layer(h), None), x, layers)[0]

    x = eo.tensor(7.0, dtype=eo.float64)
    assert product(layers, x).item() == 210.0
    assert eo.grad(product)(layers, x).factor.tolist() == [105.0, 70.0, 42.0]


# ---- updates


def test_a_step_of_gradient_descent():
    model, x = linear(), eo.tensor(X)
    with eo.no_grad():
        gradient = eo.grad(half_squares)(model, x)
        stepped = eo.tree_map(lambda p, g: p - 0.1 * g, model, gradient)
    out = X @ WEIGHT.T + BIAS
    np.testing.assert_allclose(stepped.weight, WEIGHT - 0.1 * out.T @ X, rtol=1e-13)
    np.testing.assert_allclose(stepped.bias, BIAS - 0.1 * out.sum(0), rtol=1e-13)
    assert not stepped.weight.requires_grad
    np.testing.assert_array_equal(model.weight.detach(), WEIGHT)


def test_many_steps_find_the_least_squares_solution():
    target = eo.tensor(X @ WEIGHT.T + BIAS)
    model = linear(np.zeros((3, 2)), np.zeros(3))
    loss = eo.value_and_grad(lambda m: ((m(eo.tensor(X)) - target) ** 2).mean())
    with eo.no_grad():
        for _ in range(600):
            value, gradient = loss(model)
            model = eo.tree_map(lambda p, g: p - 0.3 * g, model, gradient)
    assert value < 1e-20
    np.testing.assert_allclose(model.weight, WEIGHT, atol=1e-9)
    np.testing.assert_allclose(model.bias, BIAS, atol=1e-9)


def test_a_gradient_step_can_be_differentiated():
    # w' = w - 0.1 * d(w^2 x^2)/dw = w (1 - 0.2 x^2), and the loss after it is w'^2 x^2
    model, x = Scale(3.0), eo.tensor(2.0, dtype=eo.float64)

    def square(m):
        return m(x) ** 2

    adapted = eo.tree_map(lambda p, g: p - 0.1 * g, model, eo.grad(square)(model))
    square(adapted).backward()
    slope = (1 - 0.2 * 4) ** 2 * 2 * 3 * 4
    assert model.factor.grad.item() == pytest.approx(slope, rel=1e-14)
    meta = eo.grad(lambda m: square(eo.tree_map(lambda p, g: p - 0.1 * g, m, eo.grad(square)(m))))(model)
    assert meta.factor.item() == pytest.approx(slope, rel=1e-14)


def test_an_optimizer_and_backward_on_a_rebuilt_model():
    with eo.no_grad():
        model = eo.tree_map(lambda p: 1 * p, linear()).requires_grad_()
    optimizer = eo.optim.SGD(model.parameters(), lr=0.5)
    total(model, eo.tensor(X)).backward()
    optimizer.step()
    np.testing.assert_allclose(model.bias.detach(), BIAS - 0.5 * 4, rtol=1e-14)


# ---- what is shared, frozen, carried


def test_frozen_parameters_are_leaves_too():
    model = linear()
    model.weight.requires_grad_(False)
    gradient = eo.grad(total)(model, eo.tensor(X))
    np.testing.assert_array_equal(gradient.weight.detach(), np.tile(X.sum(0), (3, 1)))
    assert not model.weight.requires_grad
    assert model.bias.requires_grad


@pytest.mark.parametrize("held", ["requires grad", "frozen"])
def test_gradients_of_shared_parameters_add_up(held):
    model, x = Tied(3.0).requires_grad_(held == "requires grad"), eo.tensor(7.0, dtype=eo.float64)
    gradient = eo.grad(lambda m: m(x))(model)
    assert gradient.inner.factor is gradient.outer.factor
    assert gradient.inner.factor.item() == 2 * 3 * 7
    assert len(list(gradient.parameters())) == 1
    assert eo.jvp(lambda m: m(x), (model,), (gradient,))[1].item() == 42 * 42
    assert eo.hessian(lambda m: m(x))(model).inner.factor.outer.factor.item() == 2 * 7
    with eo.no_grad():
        stepped = eo.tree_map(lambda p, g: p - 0.1 * g, model, gradient)
    assert stepped.inner.factor is stepped.outer.factor
    assert stepped(x).item() == pytest.approx((3 - 4.2) ** 2 * 7)


def test_sharing_is_known_whatever_the_leaves_are():
    pair = nn.ModuleList([Scale(1.0), Scale(2.0)])
    zero = eo.zeros(())
    assert len(list_leaves(eo.tree_map(lambda p: zero, pair))) == 2
    assert len(list_leaves(eo.tree_map(lambda p: 0, pair))) == 2
    assert len(list_leaves(eo.tree_map(lambda p: 0, Tied()))) == 1
    for copied in (copy.deepcopy, lambda tree: pickle.loads(pickle.dumps(tree))):
        tree = copied(eo.tree_map(lambda p: p.detach(), Tied()))
        assert len(list_leaves(tree)) == 1
        assert len(list_leaves(copied(eo.tree_map(lambda p: zero, pair)))) == 2


def list_leaves(tree):
    found = []
    eo.tree_map(found.append, tree)
    return found


def test_a_new_value_takes_its_place_in_a_rebuilt_model():
    tied = eo.tree_map(lambda p: p, Tied(3.0))
    with pytest.raises(eo.DTypeError, match="no longer be a parameter"):
        tied.outer.factor = 1.0
    tied.outer.factor = nn.Parameter(np.array(5.0))
    assert [p.item() for p in list_leaves(tied)] == [3.0, 5.0]
    tied.inner.factor = tied.outer.factor
    assert [p.item() for p in list_leaves(tied)] == [5.0]
    tied.inner.factor = None
    assert [p.item() for p in list_leaves(tied)] == [5.0]
    del tied.outer.factor
    assert list_leaves(tied) == []


def test_a_parameter_computed_from_others_inside_the_function():
    def normalized(model, x):
        model.factor = model.factor / 4.0
        return model(x) + sum(p for p in model.parameters())

    x = eo.tensor(7.0, dtype=eo.float64)
    assert eo.grad(normalized)(Scale(2.0), x).factor.item() == 2.0
    assert eo.jacfwd(normalized)(Scale(2.0), x).factor.item() == 2.0


def test_a_tree_of_the_same_leaves_is_the_same_model():
    model = Tied()
    again = eo.tree_map(lambda p: p, model)
    assert again.inner.factor is model.inner.factor
    assert again is not model
    assert again.inner is not model.inner


def test_settings_are_carried_and_changes_stay_inside():
    model = nn.Sequential(Scale(), nn.Dropout(0.5)).eval()
    calls = []
    model.register_forward_hook(lambda module, args, output: calls.append(module.training))

    def f(m, x):
        assert not m.training
        y = m(x).sum()
        m.train()
        m[0].name = "changed"
        m.register_forward_hook(lambda module, args, output: calls.append("inner"))
        return y

    x = eo.tensor([1.0, 2.0], dtype=eo.float64)
    with eo.no_grad():
        gradient = eo.grad(f)(model, x)
    assert gradient[0].factor.item() == 3.0
    assert calls == [False]
    assert not model.training
    assert not model[1].training
    assert not gradient.training
    assert gradient[0].name == model[0].name == "scale"
    assert model[0].seen.item() == gradient[0].seen.item() == 0.0
    model(x)
    assert calls == [False, False]
    assert model[0].seen.item() == 3.0


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: lambda m, x: eo.grad(f)(m, x),
        lambda f: lambda m, x: eo.jvp(f, (m, x), (m, x)),
        lambda f: lambda m, x: eo.vmap(f, in_axes=(None, None), axis_size=2)(m, x),
        lambda f: lambda m, x: eo.hessian(f)(m, x),
    ],
    ids=["grad", "jvp", "vmap", "hessian"],
)
def test_a_model_is_as_it_was_after_an_exception(transform):
    model = linear()
    before, weight = dict(vars(model)), model.weight.data

    def f(m, x):
        m.training = False
        m.bias = m.bias * 2
        with eo.no_grad(), contextlib.suppress(eo.GraphStateError):
            m.weight += 1
        m(x)
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        transform(f)(model, eo.tensor(X))
    assert vars(model) == before
    assert model.weight.data is weight
    assert model.weight.is_leaf
    assert total(model, eo.tensor(X)).item() == pytest.approx((X @ WEIGHT.T + BIAS).sum())


def test_a_module_kept_from_a_transformation_does_not_change_the_model():
    kept = []
    model = linear()
    eo.jvp(lambda m: kept.append(m) or total(m, eo.tensor(X)), (model,), (model,))
    with pytest.raises(eo.GraphStateError, match="outlived"):
        kept[0](eo.tensor(X))
    np.testing.assert_array_equal(model(eo.tensor(X)).detach(), X @ WEIGHT.T + BIAS)


# ---- errors and other functions over trees


def test_models_that_differ_in_structure():
    with pytest.raises(eo.ShapeError, match="weight, bias") as error:
        eo.tree_map(lambda a, b: a + b, nn.Linear(2, 2), nn.Linear(2, 2, bias=False))
    assert error.value.operation == "tree_map"
    with pytest.raises(eo.ShapeError):
        eo.tree_map(lambda a, b: a + b, Tied(), nn.ModuleList([Scale(), Scale()]))
    with pytest.raises(eo.ShapeError):
        eo.jvp(lambda m: m(eo.ones(2)), (nn.Linear(2, 2),), (nn.Linear(2, 2, bias=False),))


def test_an_error_names_the_parameter():
    layers = nn.Sequential(nn.Linear(2, 2), nn.Tanh())

    def body(i, m):
        return eo.tree_map(lambda p: eo.concat([p, p]) if p.ndim == 1 else p, m)

    with pytest.raises(eo.ShapeError, match=r"carry\[0\]\.bias changes its shape"):
        eo.fori_loop(0, 2, body, layers)


def test_a_checkpoint_of_a_model():
    model, x = linear(), eo.tensor(X)
    gradient = eo.grad(lambda m: half_squares(m, x))(model)
    again = eo.grad(lambda m: eo.checkpoint(half_squares)(m, x))(model)
    np.testing.assert_array_equal(again.weight.detach(), gradient.weight.detach())
    np.testing.assert_array_equal(gradient.bias.detach(), (X @ WEIGHT.T + BIAS).sum(0))


def test_a_model_without_parameters_passes_through():
    assert eo.grad(lambda t, m: m(t))(eo.tensor(-2.0), nn.ReLU()).item() == 0.0
    assert type(eo.tree_map(lambda p: p, nn.ReLU())) is nn.ReLU


def test_stopping_the_gradient_of_a_model():
    x = eo.tensor(5.0, dtype=eo.float64)
    gradient = eo.grad(lambda m: m(x) * eo.stop_gradient(m)(x))(Scale(2.0))
    assert gradient.factor.item() == 5.0 * 10.0


def test_parameters_are_found_in_a_functional_call():
    class Penalized(Scale):
        def forward(self, x):
            return super().forward(x) + sum((p**2).sum() for p in self.parameters())

    model, x = Penalized(2.0), eo.tensor(7.0, dtype=eo.float64)
    before = dict(vars(model))
    factor = eo.tensor(3.0, dtype=eo.float64)
    assert eo.grad(lambda p: nn.functional_call(model, {"factor": p}, x))(factor).item() == 7 + 2 * 3
    assert vars(model) == before


# ---- solvers


def ridge(c):
    """Return weights and bias that minimize mean((x w + b - y)^2) + c (|w|^2 + b^2), and d/dc of them."""
    inputs = np.hstack([X, np.ones((4, 1))])
    system = inputs.T @ inputs / 4 + c * np.eye(3)
    solution = np.linalg.solve(system, inputs.T @ TARGET / 4)
    return solution, -np.linalg.solve(system, solution)


TARGET = np.array([1.0, -2.0, 0.5, 3.0])


def penalized(model, c):
    error = model(eo.tensor(X))[:, 0] - eo.tensor(TARGET)
    return (error**2).mean() + c * sum((p**2).sum() for p in model.parameters())


def test_scipy_minimizes_over_a_model():
    start = linear(np.zeros((1, 2)), np.zeros(1))
    found = eo.scipy_compat.minimize(
        lambda model: penalized(model, 0.1), start, method="Newton-CG", tol=1e-12
    )
    solution, _ = ridge(0.1)
    assert type(found.params) is nn.Linear
    np.testing.assert_allclose(found.params.weight[0], solution[:2], rtol=1e-8)
    np.testing.assert_allclose(found.params.bias[0], solution[2], rtol=1e-8)


def test_the_derivative_of_a_model_that_a_solver_found():
    @eo.implicit.custom_root(lambda model, c: eo.grad(penalized)(model, c))
    def solve(start, c):
        solution, _ = ridge(float(c))
        return eo.tree_map(lambda p: eo.tensor(solution[2:] if p.ndim == 1 else solution[None, :2]), start)

    start, c = linear(np.zeros((1, 2)), np.zeros(1)), eo.tensor(0.1, dtype=eo.float64)
    slope = eo.jacfwd(lambda c: solve(start, c))(c)
    _, expected = ridge(0.1)
    np.testing.assert_allclose(slope.weight[0].detach(), expected[:2], rtol=1e-9)
    np.testing.assert_allclose(slope.bias.detach(), expected[2:], rtol=1e-9)


def test_rules_of_the_users_own_on_a_model():
    f = eo.custom_vjp(lambda model, x: model(x).sum())
    f.defvjp(
        lambda model, x: (f(model, x), model),
        lambda model, g: (eo.tree_map(lambda p: 7 * g * eo.ones_like(p), model), None),
    )
    gradient = eo.grad(lambda model: 2 * f(model, eo.tensor(X)))(linear())
    assert set(gradient.weight.detach().reshape(-1).tolist()) == {14.0}
    assert set(gradient.bias.tolist()) == {14.0}


def test_a_sparse_jacobian_of_a_model():
    model = linear().requires_grad_(False)
    found = eo.sparse_jacobian(lambda model: model(eo.tensor(X)))(model).toarray()
    expected = np.kron(X, np.eye(3)).reshape(4, 3, 2, 3).swapaxes(2, 3).reshape(12, 6)
    np.testing.assert_array_equal(found[:, :6], expected)
    np.testing.assert_array_equal(found[:, 6:], np.tile(np.eye(3), (4, 1)))
