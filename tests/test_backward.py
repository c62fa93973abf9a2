"""The backward pass: accumulation, `grad`, higher orders, freed graphs, and each error."""

from __future__ import annotations

import numpy as np
import pytest

import everyo as eo
from everyo.core.walk import topological_order


def leaf(*values, dtype=eo.float64):
    return eo.tensor(list(values), dtype=dtype, requires_grad=True)


# ---- the graph


def test_every_path_contributes():
    x = leaf(3.0)
    (x + x).backward()
    assert x.grad.tolist() == [2.0]


def test_a_node_shows_its_operation_parents_and_rule():
    x, y = leaf(2.0, 3.0), leaf(5.0, 7.0)
    z = x * y
    node = z.grad_node
    assert node.name == "multiply"
    assert [p.name for p in node.parents] == ["accumulate_grad"] * 2
    assert node.parents == (x.grad_node, y.grad_node)
    left, right = node.backward_fn(np.array([1.0, 10.0]))
    assert left.tolist() == [5.0, 70.0]
    assert right.tolist() == [2.0, 30.0]
    assert repr(node) == "<Node multiply>"


def test_the_line_is_recorded_only_under_detect_anomaly():
    x = leaf(2.0)
    assert (x * x).grad_node.line is None
    with eo.detect_anomaly():
        y = x * x  # the marked line
    assert "y = x * x  # the marked line" in y.grad_node.line
    assert __file__ in y.grad_node.line


def test_topological_order_puts_parents_first():
    x = leaf(1.0)
    a = x * 2
    b = a + x
    c = b * a
    order = topological_order([c.grad_node])
    assert [n.name for n in order] == ["accumulate_grad", "multiply", "add", "multiply"]
    assert all(order.index(p) < order.index(n) for n in order for p in n.parents)


def test_only_needed_inputs_are_parents():
    x, c = leaf(2.0), eo.tensor([3.0], dtype=eo.float64)
    assert (c * x).grad_node.parents == (x.grad_node,)
    assert (c * c).grad_node is None


def test_diamond_is_walked_once_for_each_node():
    x = leaf(1.0)
    y = x
    for _ in range(60):  # 2**60 paths
        y = y + y
    y.backward()
    assert x.grad.item() == 2.0**60


# ---- autograd.grad


def test_grad_returns_and_leaves_grad_alone():
    x, y = leaf(2.0), leaf(5.0)
    gx, gy = eo.autograd.grad(x * y, (x, y))
    assert (gx.item(), gy.item()) == (5.0, 2.0)
    assert x.grad is None
    assert y.grad is None
    assert not gx.requires_grad


def test_grad_of_several_outputs_is_their_weighted_sum():
    x = leaf(2.0, 3.0)
    (g,) = eo.autograd.grad([x * x, x * 4], x, [np.array([1.0, 10.0]), np.array([100.0, 1000.0])])
    assert g.tolist() == [1 * 4 + 100 * 4, 10 * 6 + 1000 * 4]


def test_grad_with_respect_to_an_intermediate_result():
    x = leaf(2.0)
    hidden = x * 3
    gh, gx = eo.autograd.grad(hidden * hidden, [hidden, x])
    assert (gh.item(), gx.item()) == (12.0, 36.0)


def test_grad_of_the_output_itself_and_of_one_input_twice():
    x = leaf(2.0)
    y = x * 3
    gy, g1, g2 = eo.autograd.grad(y, [y, x, x])
    assert (gy.item(), g1.item(), g2.item()) == (1.0, 3.0, 3.0)


def test_one_output_given_twice_counts_twice():
    x = leaf(2.0)
    y = x * 3
    (g,) = eo.autograd.grad([y, y], x)
    assert g.item() == 6.0


def test_unused_input():
    x, unused = leaf(2.0), leaf(1.0)
    with pytest.raises(eo.GraphStateError, match="input 1 was not used") as error:
        eo.autograd.grad(x * 2, [x, unused])
    assert "allow_unused=True" in str(error.value)
    g, none = eo.autograd.grad(x * 2, [x, unused], allow_unused=True)
    assert g.item() == 2.0
    assert none is None


@pytest.mark.parametrize("create_graph", [False, True])
def test_zeros_for_an_unused_input(create_graph):
    x = leaf(2.0)
    unused = eo.tensor([[1.0, 2.0]], dtype=eo.float32, requires_grad=True)
    for allow in (None, True):
        options = {"allow_unused": allow, "materialize_grads": True, "create_graph": create_graph}
        g, zeros = eo.autograd.grad(x * x, [x, unused], **options)
        assert g.item() == 4.0
        assert (zeros.tolist(), zeros.dtype) == ([[0.0, 0.0]], eo.float32)
    with pytest.raises(eo.ArgumentError, match="materialize_grads"):
        eo.autograd.grad(x * x, [x, unused], allow_unused=False, materialize_grads=True)

    def inside(a, b):
        a, b = a * 1.0, b * 1.0
        return eo.autograd.grad((a * a).sum(), (a, b), materialize_grads=True, create_graph=True)

    second = eo.grad(lambda a, b: sum(g.sum() for g in inside(a, b)), argnums=(0, 1))
    for derivative in (second, eo.compile(second)):
        slopes = derivative(eo.tensor([2.0, 3.0]), eo.tensor(5.0))
        assert [s.tolist() for s in slopes] == [[2.0, 2.0], 0.0]


def test_only_rules_on_the_way_to_the_inputs_run():
    x, w = leaf(2.0), leaf(3.0)
    calls = []
    product = x * w
    product.register_hook(lambda g: calls.append("product"))
    other = w * w
    other.register_hook(lambda g: calls.append("other"))
    eo.autograd.grad(product + other, x)
    assert calls == ["product"]


def test_backward_with_inputs_accumulates_only_there():
    x, w = leaf(2.0), leaf(3.0)
    hidden = x * w
    (hidden * 2).backward(inputs=[w, hidden])
    assert x.grad is None
    assert w.grad.item() == 4.0
    assert hidden.grad.item() == 2.0


# ---- higher orders


def test_third_order_through_create_graph():
    x = leaf(1.5)
    (g,) = eo.autograd.grad(x**4, x, create_graph=True)
    (h,) = eo.autograd.grad(g, x, create_graph=True)
    (t,) = eo.autograd.grad(h, x)
    assert g.item() == pytest.approx(4 * 1.5**3)
    assert h.item() == pytest.approx(12 * 1.5**2)
    assert t.item() == pytest.approx(24 * 1.5)
    assert not t.requires_grad


def test_create_graph_keeps_the_first_graph():
    x = leaf(3.0)
    y = x * x
    eo.autograd.grad(y, x, create_graph=True)
    y.backward()
    assert x.grad.item() == 6.0


def test_backward_with_create_graph_gives_a_differentiable_gradient():
    x = leaf(2.0)
    (x * x * x).backward(create_graph=True)
    assert x.grad.item() == 12.0
    assert x.grad.requires_grad
    (h,) = eo.autograd.grad(x.grad, x)
    assert h.item() == 12.0


def test_second_derivative_of_a_linear_function_does_not_depend_on_x():
    x = leaf(1.0)
    (g,) = eo.autograd.grad(2 * x, x, create_graph=True)
    assert g.item() == 2.0
    assert eo.autograd.grad(g + 0 * x, x)[0].item() == 0.0


def test_gradient_penalty_reaches_the_weights():
    x, w = leaf(2.0), leaf(3.0)
    (g,) = eo.autograd.grad(w * w * x, x, create_graph=True)
    (g * g).backward()
    assert w.grad.item() == 4 * 3.0**3


def test_create_graph_records_even_inside_no_grad():
    x = leaf(3.0)
    y = x * x
    with eo.no_grad():
        (g,) = eo.autograd.grad(y, x, create_graph=True)
        assert not eo.is_grad_enabled()
    assert eo.autograd.grad(g, x)[0].item() == 2.0


def test_in_place_statements_do_not_disturb_saved_values():
    x = leaf(0.0, 1.0)
    y = eo.exp(x)
    y += 1
    eo.sum(y).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([0.0, 1.0]), rtol=1e-15)


# ---- freed graphs


def test_second_backward_needs_retain_graph():
    x = leaf(3.0)
    z = 2 * (x * x)
    z.backward(retain_graph=True)
    z.backward()
    assert x.grad.item() == 24.0
    with pytest.raises(eo.GraphStateError, match="freed by an earlier backward") as error:
        z.backward()
    assert "retain_graph=True" in str(error.value)
    assert x.grad.item() == 24.0


def test_a_chain_that_saved_nothing_is_freed_all_the_same():
    x = leaf(3.0)
    y = x + 1
    y.backward()
    with pytest.raises(eo.GraphStateError, match="freed"):
        y.backward()


# ---- what backward refuses


def test_several_elements_need_a_gradient():
    x = leaf(1.0, 2.0)
    with pytest.raises(eo.ShapeError, match="one element") as error:
        (x * 2).backward()
    assert ".sum()" in str(error.value)
    assert "jacobian" in str(error.value)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize("shape", [(3,), (2, 1), (), (1, 2)])
def test_gradient_of_the_wrong_shape(shape):
    x = leaf(1.0, 2.0)
    with pytest.raises(eo.ShapeError) as error:
        (x * 2).backward(np.ones(shape))
    assert "(2,)" in str(error.value)
    assert str(shape) in str(error.value)
    assert x.grad is None


@pytest.mark.parametrize(
    "gradient", [np.ones(2, np.float32), np.ones(2, np.int64), np.ones(2, np.complex128)]
)
def test_gradient_of_the_wrong_dtype(gradient):
    x = leaf(1.0, 2.0)
    with pytest.raises(eo.DTypeError) as error:
        (x * 2).backward(gradient)
    assert str(gradient.dtype) in str(error.value)
    assert "float64" in str(error.value)
    assert isinstance(error.value, TypeError)


def test_gradients_as_lists_and_numbers():
    x = leaf(1.0, 2.0)
    (x * 2).backward([1, 10])
    assert x.grad.tolist() == [2.0, 20.0]
    y = leaf(1.0)
    (y * 2).backward([3.0])
    assert y.grad.tolist() == [6.0]


def test_tensor_without_a_graph():
    with pytest.raises(eo.GraphStateError, match="does not require grad"):
        eo.ones(1).backward()
    x = leaf(1.0)
    with pytest.raises(eo.GraphStateError, match="does not require grad"):
        eo.autograd.grad(x * 2, eo.ones(1))
    with eo.no_grad():
        y = x * 2
    with pytest.raises(eo.GraphStateError):
        y.backward()


@pytest.mark.parametrize("dtype", [eo.int64, eo.bool, eo.uint8])
def test_integer_leaves_cannot_require_grad(dtype):
    with pytest.raises(eo.DTypeError, match="require grad"):
        eo.tensor([1, 0], dtype=dtype, requires_grad=True)
    with pytest.raises(eo.DTypeError, match="require grad"):
        eo.tensor([1, 0], dtype=dtype).requires_grad_()


def test_what_is_no_tensor():
    x = leaf(1.0)
    with pytest.raises(eo.DTypeError, match="only tensors"):
        eo.autograd.grad(x * 2, 3.0)


def test_number_of_gradients():
    x = leaf(1.0)
    with pytest.raises(eo.ShapeError, match="one gradient for each output"):
        eo.autograd.grad([x * 2, x * 3], x, [np.ones(1)])


# ---- dtype and shape of gradients


def test_gradients_have_the_dtype_of_their_tensor():
    single = eo.tensor([1.0, 2.0], requires_grad=True)
    double = leaf(3.0, 4.0)
    eo.sum(single * double).backward()
    assert single.grad.dtype == eo.float32
    assert double.grad.dtype == eo.float64
    assert single.grad.tolist() == [3.0, 4.0]


def test_zero_dimensional_float32_stays_so():
    x = eo.tensor(1.0, requires_grad=True)
    y = x * 2 + x * 3
    y.backward()
    assert (x.grad.dtype, x.grad.shape, x.grad.item()) == (eo.float32, (), 5.0)


def test_gradients_do_not_share_memory_with_what_was_given():
    x = leaf(1.0, 2.0)
    given = np.ones(2)
    (x + 0).backward(given)
    given[:] = 99.0
    assert x.grad.tolist() == [1.0, 1.0]


def test_an_earlier_gradient_object_keeps_its_value():
    x = leaf(2.0)
    (x * x).backward()
    first = x.grad
    (x * x).backward()
    assert (first.item(), x.grad.item()) == (4.0, 8.0)


# ---- what a pass leaves as it was


def test_numpy_error_state_and_warning_filters_reach_the_user_unchanged():
    x = leaf(0.0)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        eo.log(x)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        y = eo.log(x)
    y.backward()  # silent: the gradient 1/0 is what it is
    assert x.grad.item() == np.inf


def test_an_exception_leaves_every_gradient_as_it_was():
    x, w = leaf(2.0), leaf(3.0)
    (x * 1).backward()
    y = x * 2
    z = w * 2
    y.register_hook(lambda g: 1 / 0)  # runs after z's branch: y is older
    with pytest.raises(ZeroDivisionError):
        (y + z).backward()
    assert x.grad.item() == 1.0
    assert w.grad is None
    assert eo.is_grad_enabled()
    (x * w).backward()
    assert (x.grad.item(), w.grad.item()) == (4.0, 2.0)


# ---- NaN repair and anomalies


@pytest.mark.parametrize("compiled", [False, True])
def test_a_pullback_of_zero_has_the_slope_for_its_derivative(compiled):
    def slopes(x, c):
        _, pull = eo.vjp(eo.sqrt, x)
        return eo.vjp(lambda c: pull(c)[0], c)[1](eo.tensor([0.0, 1.0, 1.0]))[0]

    # At 0 the slope is infinite and the cotangent of nothing is nothing, which holds for that element alone.
    run = eo.compile(slopes) if compiled else slopes
    np.testing.assert_array_equal(
        run(eo.tensor([0.0, 4.0, 0.25]), eo.tensor([0.0, 0.0, 1.0])).numpy(), [0.0, 0.25, 1.0]
    )


@pytest.mark.parametrize("compiled", [False, True])
def test_linearize_at_steep_operations(compiled):
    def pushed(x, t):
        return eo.linearize(lambda x: eo.exp(x) + eo.log(x) * eo.sqrt(x), x)[1](t)

    x, t = eo.tensor([1.0, 4.0]), eo.tensor([1.0, -2.0])
    run = eo.compile(pushed) if compiled else pushed
    v = np.array([1.0, 4.0])
    slope = np.exp(v) + 1 / np.sqrt(v) + np.log(v) / (2 * np.sqrt(v))
    np.testing.assert_allclose(run(x, t).numpy(), slope * t.numpy(), rtol=1e-6)


def test_zero_times_infinity_is_zero_in_a_dead_branch():
    x = leaf(0.0, 4.0)
    eo.sum(eo.where(x > 0, eo.sqrt(x), 0.0)).backward()
    assert x.grad.tolist() == [0.0, 0.25]


def test_sqrt_at_zero_is_infinite_where_it_counts():
    x = leaf(0.0)
    eo.sqrt(x).backward()
    assert x.grad.item() == np.inf


def test_a_nan_that_was_given_is_not_hidden():
    x = leaf(np.nan, 0.0)
    eo.sum(eo.sqrt(x) * eo.tensor([0.0, 0.0], dtype=eo.float64)).backward()
    assert np.isnan(x.grad.numpy()[0])
    assert x.grad.numpy()[1] == 0.0


def test_detect_anomaly_names_operation_line_and_index():
    x = leaf(1.0, 0.0)
    with eo.detect_anomaly():
        y = eo.sqrt(x * 1.0)  # the culprit
        with pytest.raises(eo.NonFiniteGradientError) as error:
            eo.sum(y * 3).backward()
    text = str(error.value)
    assert error.value.operation == "sqrt"
    assert "inf at index (1,)" in text
    assert "y = eo.sqrt(x * 1.0)  # the culprit" in text
    assert x.grad is None


def test_detect_anomaly_catches_overwritten_shared_memory():
    shared = np.array([2.0])
    x = leaf(3.0)
    with eo.detect_anomaly():
        y = x * eo.from_numpy(shared)
        shared[:] = 100.0
        with pytest.raises(eo.GraphStateError, match="overwritten"):
            y.backward()
    assert x.grad is None


# ---- complex


def test_complex_gradient_is_the_direction_of_steepest_ascent():
    z = eo.tensor([1 + 0.5j], requires_grad=True)
    eo.sum(eo.abs(z)).backward()
    np.testing.assert_allclose(z.grad.numpy(), [(1 + 0.5j) / abs(1 + 0.5j)], rtol=1e-6)


def test_complex_output_needs_a_gradient():
    z = eo.tensor([1 + 2j], requires_grad=True)
    with pytest.raises(eo.DTypeError, match="complex result"):
        (z * z).backward()
    (z * z).backward(np.array([1.0 + 0j], np.complex64))
    np.testing.assert_allclose(z.grad.numpy(), [np.conj(2 * (1 + 2j))], rtol=1e-6)


def test_real_input_of_a_complex_function_gets_a_real_gradient():
    x = leaf(1.0, 1.0)
    w = eo.tensor(np.array([1.0, 1j]))
    y = eo.abs(eo.sum(x * w)) ** 2
    y.backward()
    assert x.grad.dtype == eo.float64
    np.testing.assert_allclose(x.grad.numpy(), [2.0, 2.0], rtol=1e-14)
