"""The checks that `eo.testing` offers: right derivatives pass, wrong ones are named."""

import numpy as np
import pytest

import everyo as eo
import everyo.testing
from everyo.core.batching import unchanged
from everyo.core.registry import op, unregister
from everyo.ops.families import elementwise, primitive
from everyo.testing import GradientCheckError, check_jvp, gradcheck, gradgradcheck, numerical_gradient
from everyo.testing.primitives import check_primitive, materialize


def tensor(*elements, dtype=eo.float64):
    return eo.tensor(np.array(elements), dtype=dtype)


@pytest.fixture
def wrong():
    """A function whose gradient is 2 instead of 3 at every element, in both modes."""

    @elementwise(lambda g: g * 2)
    def triple_wrongly(xp, x):
        return xp.multiply(x, 3)

    yield triple_wrongly
    unregister("triple_wrongly")


@pytest.fixture
def half_in_reverse():
    """A square whose tangent is right and whose gradient is half of what it should be."""

    @primitive((lambda g, x: g * x,), (lambda t, x: t * 2 * x,), samples=list, batch=unchanged)
    def square_inconsistently(xp, x):
        return xp.multiply(x, x)

    yield square_inconsistently
    unregister("square_inconsistently")


def test_one_line_checks_pass_on_right_derivatives():
    x, y = tensor([0.3, -1.2], [2.0, 0.7]), tensor(0.5, 1.5)
    for check in (gradcheck, gradgradcheck, check_jvp):
        assert check(lambda x, y: eo.sin(x) * y, x, y) is True
        assert check(lambda x, y: (x * y, eo.cos(x)), x, y) is True
        assert check(lambda x, y: [x * x * y], x, y) is True


def test_the_seeds_numerical_gradient_works_on_python_functions():
    def function(x):
        return x**2 + 3 * x

    assert abs(numerical_gradient(function, 2.0, h=1e-5) - 7.0) < 1e-9
    assert numerical_gradient(function, 2.0, 1e-5) == (function(2 + 1e-5) - function(2 - 1e-5)) / 2e-5
    assert abs(numerical_gradient(function, 2) - 7.0) < 1e-9


def test_numerical_gradient_returns_what_it_was_given():
    array = np.array([[1.0, 2.0], [3.0, -1.0]])
    before = array.copy()
    estimate = numerical_gradient(lambda x: np.sum(x**3), array)
    assert isinstance(estimate, np.ndarray)
    np.testing.assert_allclose(estimate, 3 * array**2, rtol=1e-8)
    np.testing.assert_array_equal(array, before)
    as_tensor = numerical_gradient(lambda x: x * x, eo.tensor(array))
    assert isinstance(as_tensor, eo.Tensor)
    assert as_tensor.dtype == eo.float64
    np.testing.assert_allclose(as_tensor.numpy(), 2 * array, rtol=1e-8)
    assert numerical_gradient(lambda x: x * 2, np.zeros((0, 3))).shape == (0, 3)
    assert isinstance(numerical_gradient(lambda x: x * 2, np.float64(1.0)), np.float64)


def test_numerical_gradient_of_a_real_function_of_complex_numbers_is_the_steepest_ascent():
    z = np.array([1.0 + 2.0j])
    np.testing.assert_allclose(numerical_gradient(lambda z: (z * z.conj()).real, z), 2 * z, rtol=1e-8)
    assert abs(numerical_gradient(lambda z: abs(z) ** 2, 1 + 2j) - (2 + 4j)) < 1e-8


def test_numerical_gradient_refuses_integers():
    with pytest.raises(eo.DTypeError, match="convert x first"):
        numerical_gradient(lambda x: x, np.arange(3))


@pytest.mark.parametrize(
    ("analytic", "numeric", "error"),
    [
        (3.0, 3.0, 0.0),
        (0.5, 0.25, 0.25),
        (200.0, 201.0, 1 / 201),
        (-4.0, 4.0, 2.0),
        (np.inf, np.inf, 0.0),
        (np.inf, 1.0, np.inf),
        (-np.inf, np.inf, np.inf),
        (3 + 4j, 0, 1.0),
    ],
)
def test_relative_error_is_the_seeds_metric(analytic, numeric, error):
    assert everyo.testing.relative_error(analytic, numeric) == error
    assert everyo.testing.relative_error(numeric, analytic) == error


def test_relative_error_is_elementwise_and_keeps_nan():
    errors = everyo.testing.relative_error(eo.tensor([1.0, 2.0]), np.array([1.0, np.nan]))
    assert errors[0] == 0
    assert np.isnan(errors[1])


def test_tolerances_follow_the_dtype():
    values = [everyo.testing.tolerance(d) for d in (eo.float64, eo.float32, eo.float16)]
    assert values == sorted(values)
    assert everyo.testing.tolerance("complex64") == everyo.testing.tolerance("float32")
    with pytest.raises(eo.DTypeError):
        everyo.testing.tolerance(eo.int64)


def test_a_wrong_gradient_is_named_with_its_worst_entry(wrong):
    x, y = tensor(1.0), tensor([0.1, 0.0], [0.2, 3.0])
    with pytest.raises(GradientCheckError) as caught:
        gradcheck(lambda x, y: x + wrong(y * y), x, y)
    error = caught.value
    assert isinstance(error, AssertionError)
    assert isinstance(error, eo.EveryOError)
    assert (error.input, error.index) == (1, (1, 1))
    np.testing.assert_allclose(error.analytic / error.numeric, 2 / 3, rtol=1e-6)
    assert error.error == everyo.testing.relative_error(error.analytic, error.numeric)
    assert error.tolerance == 1e-6
    text = str(error)
    for part in ("input 1", "(1, 1)", "analytic", "numeric", "E = 0.333", "E <= 1e-06", "float64 (2, 2)"):
        assert part in text


def test_a_wrong_tangent_is_named(wrong):
    with pytest.raises(GradientCheckError, match="tangent of result 0") as caught:
        check_jvp(wrong, tensor(0.1, 1.0))
    assert caught.value.index is not None


def test_modes_that_disagree_are_reported(half_in_reverse):
    with pytest.raises(GradientCheckError, match="forward and reverse"):
        check_jvp(half_in_reverse, tensor(1.0, 2.0))


def test_a_wrong_second_derivative_is_named():
    def detached(g, x):
        return g * 2 * (x.detach() if isinstance(x, eo.Tensor) else x)

    @primitive((detached,), None, samples=list, missing="a test")
    def square_once(xp, x):
        return xp.multiply(x, x)

    try:
        assert gradcheck(square_once, tensor(1.0, 2.0))
        with pytest.raises(GradientCheckError, match="input 0"):
            gradgradcheck(square_once, tensor(1.0, 2.0))
    finally:
        unregister("square_once")


def test_eps_and_tol_are_obeyed(wrong):
    x = tensor(1.0)
    assert gradcheck(wrong, x, tol=0.5)
    assert not gradcheck_fails(lambda x: x * x * x, x)
    assert gradcheck_fails(lambda x: x * x * x, x, eps=0.1)  # the truncation error is eps**2


def gradcheck_fails(f, *inputs, **settings):
    try:
        return not gradcheck(f, *inputs, **settings)
    except GradientCheckError:
        return True


def test_inputs_and_gradients_outside_are_left_alone():
    x = eo.tensor([1.0, 2.0], dtype=eo.float64, requires_grad=True)
    array = np.array([3.0, 4.0])
    weight = eo.tensor([2.0, 2.0], dtype=eo.float64, requires_grad=True)
    assert gradcheck(lambda x, y: x * y * weight, x, array)
    assert gradgradcheck(lambda x, y: x * y * weight, x, array)
    assert x.tolist() == [1.0, 2.0]
    assert array.tolist() == [3.0, 4.0]
    assert x.grad is None
    assert weight.grad is None
    assert x.requires_grad


def test_it_works_inside_no_grad():
    with eo.no_grad():
        assert gradcheck(lambda x: x * x, tensor(1.0))
        assert gradgradcheck(lambda x: x * x, tensor(1.0))


def test_other_arguments_are_passed_on():
    def f(x, n, flag, indices):
        assert (n, flag) == (3, None)
        assert isinstance(indices, kind)
        return x * n

    for indices in (eo.tensor([1, 2]), np.array([1, 2]), np.int64(1)):
        kind = type(indices)
        for check in (gradcheck, gradgradcheck, check_jvp):
            assert check(f, tensor(1.0, 2.0), 3, None, indices)


def test_unused_inputs_and_constant_results_have_gradient_zero():
    for check in (gradcheck, gradgradcheck, check_jvp):
        assert check(lambda x, y: (x * 2, tensor(7.0)), tensor(1.0), tensor(2.0))


def test_empty_and_0_d_inputs():
    for check in (gradcheck, gradgradcheck, check_jvp):
        assert check(lambda x: x * x, eo.tensor(np.zeros((0, 2))))
        assert check(lambda x: x * x, eo.tensor(np.float64(3.0)))


def test_complex_gradients():
    z = eo.tensor(np.array([0.3 + 1.0j, -2.0 + 0.5j]))
    for check in (gradcheck, gradgradcheck, check_jvp):
        assert check(lambda z: z * z * (1 + 2j), z)


def test_a_kink_is_reported_unless_allowed():
    x = tensor(0.0)
    assert gradcheck_fails(eo.relu, x)
    assert gradcheck(eo.relu, x, kinks=True)
    assert gradgradcheck(eo.relu, x, kinks=True)


def test_beside_a_kink_a_slope_of_neither_side_is_wrong():
    @elementwise(lambda g, x: g * 2)
    def rectified_wrongly(xp, x):
        return xp.maximum(x, 0)

    try:
        assert gradcheck_fails(rectified_wrongly, tensor(0.0), kinks=True)
    finally:
        unregister("rectified_wrongly")


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(eo.DTypeError, match="no input"):
        gradcheck(lambda x: x, eo.tensor([1, 2]))
    with pytest.raises(eo.DTypeError, match="returns nothing"):
        gradcheck(lambda x: eo.tensor([1, 2]), tensor(1.0))
    with pytest.raises(eo.DTypeError, match="must return tensors"):
        gradcheck(lambda x: 3.0, tensor(1.0))
    state = [0.0]

    def drifting(x):
        state[0] += 1
        return x * state[0]

    with pytest.raises(GradientCheckError, match="different results"):
        gradcheck(drifting, tensor(1.0))


def test_single_precision_has_its_own_tolerance():
    x = eo.tensor([0.3, 1.7])
    assert x.dtype == eo.float32
    for check in (gradcheck, gradgradcheck, check_jvp):
        assert check(lambda x: eo.sin(x) * x, x)


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck, check_jvp])
def test_mixed_precision_is_held_to_what_the_coarser_can_show(check):
    double, single = tensor(0.5, 1.25, 2.0), eo.tensor([0.5, 1.25, 2.0])
    assert check(lambda a, b: a * a * b * b, double, single)
    assert check(lambda a, b: a * a * b * b, single, double)
    assert check(lambda a: (a * a).astype(eo.float32), double)
    assert check(lambda a: (a * a).astype(eo.float64), single)


def test_inputs_of_very_different_size_move_by_their_own_steps():
    assert check_jvp(lambda a, b: a * eo.exp(3 * b), tensor(1e8), tensor(0.5))
    assert check_jvp(lambda a: eo.sum(eo.sin(3 * a[1:]) + 0 * a[0]), tensor(1e8, 0.5))


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_a_step_that_moves_nothing_is_refused(check):
    for eps in (0.0, 1e-30, float("nan")):
        with pytest.raises(eo.ArgumentError, match="step"):
            check(lambda x: x * x, tensor(1.0), eps=eps)


def test_nan_is_never_right():
    with pytest.raises(GradientCheckError):
        gradcheck(lambda x: x * float("nan"), tensor(1.0))


def test_check_primitive_reports_the_sample():
    @elementwise(lambda g: g * 2.001)
    def nearly_double(xp, x):
        return xp.multiply(x, 2)

    try:
        with pytest.raises(GradientCheckError) as caught:
            check_primitive("nearly_double")
        assert any("nearly_double(())" in note for note in caught.value.__notes__)
        with pytest.raises(GradientCheckError):
            check_primitive(op.nearly_double, dtype=eo.complex128)
    finally:
        unregister("nearly_double")


def test_check_primitive_finds_a_pullback_that_stops_at_zero():
    """Where the cotangent is 0 the value of its pullback is right, and only the derivative of that is not."""

    def doubled(g):
        return op.where(op.equal(g, 0), 0, g * 2)

    @elementwise(doubled)
    def twice(xp, x):
        return xp.multiply(x, 2)

    try:
        with pytest.raises(GradientCheckError, match="not linear at a cotangent of 0"):
            check_primitive("twice")
    finally:
        unregister("twice")


def test_materialized_samples_are_reproducible_and_of_the_dtype():
    from everyo.core.samples import Distinct, Integers, Values, sample

    specification = sample((2, 3), Distinct((20,)), Integers((4,), 3), Values([1, 2]), Values(0.5), None, 2.5)
    for dtype in (eo.float64, eo.float32, eo.complex128):
        first = materialize(op.sin, specification, dtype, 0)
        second = materialize(op.sin, specification, dtype, 0)
        for a, b in zip(first, second, strict=True):
            np.testing.assert_array_equal(a, b)
        assert [getattr(a, "dtype", None) for a in first] == [
            dtype,
            dtype,
            "int64",
            "int64",
            dtype,
            None,
            None,
        ]
        assert [getattr(a, "shape", None) for a in first] == [(2, 3), (20,), (4,), (2,), (), None, None]
    distinct = np.sort(materialize(op.sin, specification, eo.float64, 3)[1])
    assert np.min(np.diff(distinct)) >= 0.05


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck, check_jvp])
@pytest.mark.parametrize("kind", [tuple, list])
def test_inputs_may_be_one_tuple_as_in_pytorch(check, kind):
    x, y = tensor(1.0, 2.0), tensor(3.0, 4.0)
    assert check(lambda x, y, power: x * y**power, kind([x, y, 3]))
    assert check(lambda x: x * x, kind([x]))
    assert check(lambda x, y: x * y, kind([np.array([1.0, 2.0]), y]))


def test_an_error_counts_the_inputs_of_a_tuple(wrong):
    with pytest.raises(GradientCheckError) as error:
        gradcheck(lambda x, y: x + wrong(y), (tensor(1.0, 2.0), tensor(3.0, 4.0)))
    assert error.value.input == 1


def test_a_tuple_beside_other_inputs_is_passed_on():
    assert gradcheck(lambda x, pair: x * pair[0], tensor(1.0), (3.0, 4.0))
    with pytest.raises(eo.DTypeError, match="no input to differentiate"):
        gradcheck(lambda pair: tensor(1.0), (1, 2))


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck, check_jvp])
@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ("atol", "tol="),
        ("rtol", "tol="),
        ("raise_exception", "GradientCheckError"),
        ("fast_mode", "leave it out"),
    ],
)
def test_pytorchs_other_options_are_named(check, option, remedy):
    with pytest.raises(eo.ArgumentError, match=option) as error:
        check(lambda x: x, tensor(1.0), **{option: 1e-4})
    assert remedy in error.value.remedy
