"""Elementwise operations: dtypes, conventions, extremes; the suites over the registry check the rest."""

import math

import numpy as np
import pytest

import everyo as eo
from everyo.core.registry import op, primitives
from everyo.core.samples import Integers
from everyo.core.tensor import wrap
from everyo.testing.primitives import Call

INF, NAN = math.inf, math.nan
ELEMENTWISE = sorted(name for name, p in primitives().items() if p.family == "elementwise")


def leaf(values, dtype="float64"):
    return eo.tensor(np.asarray(values, dtype), requires_grad=True)


def gradient(f, *points, dtype="float64", weight=None):
    """Return the gradients of ``sum(weight * f)`` as arrays."""
    leaves = [leaf(p, dtype) for p in points]
    result = f(*leaves)
    result.backward(eo.tensor(np.ones(result.shape, result.dtype) if weight is None else np.asarray(weight)))
    found = [x.grad.numpy() for x in leaves]
    return found[0] if len(found) == 1 else found


def tangent(f, point, direction=None):
    x = eo.tensor(np.asarray(point, "float64"))
    v = np.ones(x.shape) if direction is None else np.asarray(direction, "float64")
    return eo.jvp(f, [x], [eo.tensor(v)])[1].numpy()


def derivative(f, point, order):
    """Return the derivative of the given order at one number, in reverse mode."""
    x = leaf(point)
    y = f(x)
    for _ in range(order):
        if not y.requires_grad:
            return 0.0
        (y,) = eo.autograd.grad(y, x, create_graph=True)
    return y.item()


# ---- names, values, dtypes


def test_two_spellings_are_one_function():
    for short in ("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh"):
        assert getattr(eo, short) is getattr(eo, "arc" + short[1:])
    assert eo.pow is eo.power
    assert eo.absolute is eo.abs
    assert eo.mod is eo.remainder
    assert eo.conjugate is eo.conj


SAME_AS_NUMPY = [
    "abs", "add", "angle", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh",
    "cbrt", "ceil", "conj", "cos", "cosh", "divide", "equal", "exp", "exp2", "expm1", "floor",
    "floor_divide", "greater", "greater_equal", "hypot", "imag", "isfinite", "isinf", "isnan",
    "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative",
    "not_equal", "positive", "power", "real", "remainder", "round", "sign", "signbit", "sin",
    "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc",
]  # fmt: skip


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "complex64", "complex128", "int32", "uint8"]
)
@pytest.mark.parametrize("name", SAME_AS_NUMPY)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_values_and_dtypes_are_those_of_numpy(name, dtype):
    reference = getattr(np, name)
    arrays = [np.array([0.5, 1.0, 2.0, 3.0]).astype(dtype), np.array([1.0, 2.0, 0.5, 3.0]).astype(dtype)]
    arrays = arrays[: len(getattr(op, name).input_names)]
    try:
        expected = reference(*arrays)
    except TypeError:
        with pytest.raises(eo.DTypeError):
            getattr(eo, name)(*map(eo.tensor, arrays))
        return
    found = getattr(eo, name)(*map(eo.tensor, arrays))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected)


def test_integers_are_not_rounded_to_zero():
    x = eo.tensor([2, 4])
    np.testing.assert_array_equal(eo.reciprocal(x).numpy(), [0.5, 0.25])
    np.testing.assert_array_equal(eo.rsqrt(x).numpy(), [1 / math.sqrt(2), 0.5])
    np.testing.assert_array_equal(eo.sigmoid(eo.tensor(np.array([0, 5], "uint8"))).numpy()[0], 0.5)
    assert eo.gelu(x).dtype == eo.float64


def results_of_rules(name, dtype):
    """Yield what each rule of a primitive returns on raw arrays, before promotion is undone."""
    primitive = op.__dict__[name]
    for s in primitive.samples():
        if any(isinstance(x, Integers) for x in s.inputs):
            continue
        call = Call(primitive, s, dtype)
        if any(getattr(a, "dtype", np.dtype(dtype)).kind in "iu" for a in call.arrays):
            continue  # these promote
        result = call(*[wrap(p).requires_grad_() for p in call.points])
        if result.requires_grad:
            node = result.grad_node
            yield from node.plan.pull(np.ones(result.shape, result.dtype), node.saved, node.params)


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_rule_computes_in_double_what_is_single(name):
    for cotangent in results_of_rules(name, "float32"):
        assert cotangent.dtype == np.float32


def test_python_scalars_are_weak_on_either_side():
    x = leaf([1.0, 2.0], "float32")
    for y in (2.0 * x, 2 - x, 1 / x, x**2, 2.0**x, x % 3, 7 // x, eo.maximum(0.5, x), eo.logaddexp(x, 0.0)):
        assert y.dtype == eo.float32
        assert eo.autograd.grad(y.sum(), x)[0].dtype == eo.float32


# ---- powers


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5, -1, -2, 0.5, 2.0, -1.5, True])
def test_derivatives_of_scalar_powers(exponent):
    n = float(exponent)
    factor = 1.0
    for order in range(1, 4):
        factor *= n - order + 1
        expected = 0.0 if factor == 0 else factor * 1.7 ** (n - order)
        assert derivative(lambda x: x**exponent, 1.7, order) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 0.0, 2.0, 3.0])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_derivatives_of_whole_powers_at_zero(exponent, order):
    expected = math.factorial(order) if exponent == order else 0.0
    assert derivative(lambda x: x**exponent, 0.0, order) == expected
    as_tensor = eo.tensor(np.float64(exponent))
    assert derivative(lambda x: x**as_tensor, 0.0, order) == expected


def test_smooth_function_of_a_square_at_zero():
    found = [derivative(lambda x: eo.exp(-(x**2)), 0.0, order) for order in (1, 2, 3, 4)]
    assert found == [0.0, -2.0, 0.0, 12.0]


def test_power_with_exponent_zero_is_constant_everywhere():
    base = [0.0, -0.0, 5e-324, INF, -INF, NAN, -2.0, 3.0]
    np.testing.assert_array_equal(gradient(lambda x: x**0, base), 0.0)
    np.testing.assert_array_equal(gradient(lambda x: x ** eo.zeros(8, dtype=eo.float64), base), 0.0)


def test_power_in_its_exponent():
    base = eo.tensor(np.array([0.0, 0.0, 2.0, -2.0]))
    found = gradient(lambda y: base**y, [1.0, 0.0, 3.0, 2.0])
    np.testing.assert_allclose(found, [0.0, 0.0, 8.0 * math.log(2.0), NAN])
    for number in (2.0, 10, 0.25, 1, True):
        np.testing.assert_allclose(
            gradient(lambda y, b=number: b**y, [1.5, -2.0]),
            math.log(number) * number ** np.array([1.5, -2.0]),
        )
    np.testing.assert_array_equal(gradient(lambda y: 0.0**y, [1.0, 0.0, 2.5]), 0.0)
    np.testing.assert_array_equal(gradient(lambda y: (-2.0) ** y, [2.0, 3.0]), NAN)


def test_negative_base_has_a_slope_where_the_exponent_is_whole():
    exponents = eo.tensor(np.array([2.0, 3.0, -1.0]))
    np.testing.assert_array_equal(gradient(lambda x: x**exponents, [-2.0, -2.0, -2.0]), [-4.0, 12.0, -0.25])
    np.testing.assert_array_equal(tangent(lambda x: x**exponents, [-2.0, -2.0, -2.0]), [-4.0, 12.0, -0.25])


def test_mixed_derivative_of_a_power_at_exponent_zero():
    x, y = leaf(2.0), leaf(0.0)
    (dx,) = eo.autograd.grad(x**y, x, create_graph=True)
    assert eo.autograd.grad(dx, y)[0].item() == 0.5


def test_complex_power_of_a_negative_real_base():
    z = leaf(1.5 + 0.5j, "complex128")
    eo.real(eo.tensor(np.float64(-2.0)) ** z).backward()
    slope = (-2.0 + 0j) ** (1.5 + 0.5j) * np.log(-2.0 + 0j)
    assert z.grad.item() == pytest.approx(np.conj(slope))
    z.zero_grad()
    eo.real((-2.0) ** z).backward()
    assert z.grad.item() == pytest.approx(np.conj(slope))


def test_negative_power_of_an_integer_is_refused():
    for power in (lambda x: x**-1, lambda x: eo.power(x, eo.tensor([-1, 2])), lambda x: 2 ** (-x)):
        with pytest.raises(eo.DTypeError, match=r"power.*\n.*int64.*\n(.*\n)*.*astype"):
            power(eo.tensor([1, 2]))
    np.testing.assert_array_equal((eo.tensor([1, 2]) ** -1.0).numpy(), [1.0, 0.5])


# ---- extremes


def test_quotients_do_not_square_their_denominator():
    np.testing.assert_array_equal(gradient(lambda y: 1e-200 / y, 1e-200), -1e200)
    np.testing.assert_allclose(gradient(lambda y: 1e300 / y, 1e200), -1e-100)


def test_lengths_and_angles_of_extreme_vectors():
    for scale in (1e-200, 1.0, 1e200):
        dx, dy = gradient(eo.hypot, 3 * scale, 4 * scale)
        assert (dx, dy) == pytest.approx((0.6, 0.8), rel=1e-15)
        dy, dx = gradient(eo.arctan2, 3 * scale, 4 * scale)
        assert (dy * scale, dx * scale) == pytest.approx((0.16, -0.12), rel=1e-15)


@pytest.mark.parametrize("f", [eo.hypot, eo.arctan2])
def test_origin_is_flat_to_second_order(f):
    x, y = leaf([0.0, 3.0]), leaf([0.0, 4.0])
    first = eo.autograd.grad(f(x, y).sum(), [x, y], create_graph=True)
    second = eo.autograd.grad(first[0].sum() + first[1].sum(), [x, y])
    for g in (*first, *second):
        assert g.detach().numpy()[0] == 0.0
        assert np.all(np.isfinite(g.detach().numpy()))


def test_slopes_at_the_ends_of_inverse_functions():
    near_one = 1 - 2.0**-52
    exact = 1 / math.sqrt(2.0**-52 * (2 - 2.0**-52))
    assert gradient(eo.arcsin, near_one) == pytest.approx(exact, rel=1e-15)
    assert gradient(eo.arccos, near_one) == pytest.approx(-exact, rel=1e-15)
    assert gradient(eo.arcsinh, 1e300) == pytest.approx(1e-300, rel=1e-15)
    assert gradient(eo.arccosh, 1e300) == pytest.approx(1e-300, rel=1e-15)
    assert gradient(eo.arccosh, 1 + 2.0**-40) == pytest.approx(
        1 / math.sqrt(2.0**-40 * (2 + 2.0**-40)), rel=1e-15
    )


@pytest.mark.parametrize("f", [eo.logaddexp, eo.logaddexp2])
def test_logaddexp_with_nan_has_nan_derivatives(f):
    for x, y in ((-INF, NAN), (NAN, -INF), (NAN, NAN), (1.0, NAN), (INF, NAN)):
        dx, dy = gradient(f, [x], [y])
        assert np.isnan([dx[0], dy[0]]).all()


def test_logaddexp_of_infinities():
    dx, dy = gradient(eo.logaddexp, [-INF, INF, 5.0, -INF, 2.0], [-INF, 5.0, INF, 5.0, -INF])
    np.testing.assert_array_equal(dx, [0.0, 1.0, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(dy, [0.0, 0.0, 1.0, 1.0, 0.0])
    tails = gradient(lambda x: eo.logaddexp(x, 0.0), [-200.0, 0.0, 100.0, 1000.0])
    np.testing.assert_allclose(tails, [math.exp(-200.0), 0.5, 1.0, 1.0], rtol=1e-15)
    assert gradient(lambda x: eo.logaddexp2(x, 0.0), 0.0) == 0.5


# ---- infinite slopes and nothing


INFINITE_AT_ZERO = [eo.sqrt, eo.cbrt, eo.rsqrt, eo.reciprocal, eo.log, lambda x: x**0.5, lambda x: 1 / x]


@pytest.mark.parametrize("f", INFINITE_AT_ZERO)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_infinite_slope_times_nothing_is_nothing(f):
    np.testing.assert_array_equal(np.abs(gradient(f, [0.0, 0.0], weight=[1.0, 0.0])), [INF, 0.0])
    np.testing.assert_array_equal(np.abs(tangent(f, [0.0, 0.0], [1.0, 0.0])), [INF, 0.0])


@pytest.mark.filterwarnings("ignore:invalid value")
def test_unused_quotient_of_zeros():
    dx, dy = gradient(lambda x, y: x / y, [1.0, 0.0], [1.0, 0.0], weight=[1.0, 0.0])
    np.testing.assert_array_equal(dx, [1.0, 0.0])
    np.testing.assert_array_equal(dy, [-1.0, 0.0])


def length(x):
    return eo.sqrt(x * x + x * x)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: eo.maximum(length(x), 1e-10),
        lambda x: eo.where(length(x) > 0.5, length(x), 1.0),
        lambda x: eo.clip(length(x), 1e-10, None),
    ],
)
def test_branch_not_taken_sends_nothing_into_an_infinite_slope(f):
    for found in (gradient(f, [0.0, 3.0]), tangent(f, [0.0, 3.0])):
        np.testing.assert_allclose(found, [0.0, math.sqrt(2.0)], rtol=1e-15)


@pytest.mark.parametrize(
    "flat",
    [
        eo.relu,
        lambda x: eo.maximum(x, 0.0),
        lambda x: eo.clip(x, 0.0, 9.0),
        lambda x: eo.where(x > 0, x, 0.0),
        lambda x: -eo.minimum(-x, 0.0),
    ],
)
def test_flat_piece_sends_nothing_back_from_an_infinite_slope(flat):
    for found in (
        gradient(lambda x: eo.sqrt(flat(x)), [-1.0, 4.0]),
        tangent(lambda x: eo.sqrt(flat(x)), [-1.0, 4.0]),
    ):
        np.testing.assert_array_equal(found, [0.0, 0.25])


# ---- kinks


def test_ties_are_shared():
    for f, left, right in (
        (eo.maximum, [0.0, 0.5, 1.0], [1.0, 0.5, 0.0]),
        (eo.minimum, [1.0, 0.5, 0.0], [0.0, 0.5, 1.0]),
    ):
        dx, dy = gradient(f, [1.0, 2.0, INF], [2.0, 2.0, 2.0])
        np.testing.assert_array_equal(dx, left)
        np.testing.assert_array_equal(dy, right)
        np.testing.assert_array_equal(gradient(f, [INF, 0.0], [INF, -0.0]), 0.5)


def test_nan_stays_nan_in_choices():
    for f in (lambda x: eo.maximum(x, 1.0), lambda x: eo.minimum(x, 1.0), lambda x: eo.clip(x, 0.0, 1.0)):
        assert np.isnan(f(eo.tensor([NAN])).numpy())
        assert gradient(f, [NAN]) == 1.0


def test_clip_passes_inside_and_at_the_bounds():
    np.testing.assert_array_equal(
        gradient(lambda x: eo.clip(x, 0.0, 1.0), [-1.0, 0.0, 0.5, 1.0, 2.0]), [0, 1, 1, 1, 0]
    )
    np.testing.assert_array_equal(
        tangent(lambda x: eo.clip(x, 0.0, 1.0), [-1.0, 0.0, 0.5, 1.0, 2.0]), [0, 1, 1, 1, 0]
    )
    np.testing.assert_array_equal(gradient(lambda x: eo.clip(x, max=1.0), [-1.0, 1.0, 2.0]), [1, 1, 0])
    np.testing.assert_array_equal(gradient(lambda x: eo.clip(x, min=0), [-1.0, 0.0, 2.0]), [0, 1, 1])
    np.testing.assert_array_equal(gradient(lambda x: eo.clip(x), [-1.0, 0.0]), 1.0)


def test_clip_gives_what_it_takes_to_the_bound():
    points = [-2.0, -1.0, 0.0, 1.0, 2.0]
    dx, low, high = gradient(eo.clip, points, [-1.0] * 5, [1.0] * 5)
    np.testing.assert_array_equal(dx, [0, 1, 1, 1, 0])
    np.testing.assert_array_equal(low, [1, 0, 0, 0, 0])
    np.testing.assert_array_equal(high, [0, 0, 0, 0, 1])
    dx, low, high = gradient(eo.clip, points, [1.0] * 5, [-1.0] * 5)
    np.testing.assert_array_equal(np.stack([dx, low, high]), [[0] * 5, [0] * 5, [1] * 5])
    dx, low = gradient(lambda x, low: eo.clip(x, low, None), [[-2.0], [2.0]], [-1.0, 0.0, 3.0])
    np.testing.assert_array_equal(dx, [[0.0], [2.0]])
    np.testing.assert_array_equal(low, [1.0, 1.0, 2.0])


def test_steps_have_slope_zero_and_stay_in_the_graph():
    for f in (eo.floor, eo.ceil, eo.round, eo.trunc, eo.sign, lambda x: x // 2):
        np.testing.assert_array_equal(gradient(f, [-1.5, 0.0, 2.5]), 0.0)
        np.testing.assert_array_equal(tangent(f, [-1.5, 0.0, 2.5]), 0.0)


def test_remainder_of_both_operands():
    dx, dy = gradient(eo.remainder, [7.5, -7.5], [2.0, 2.0])
    np.testing.assert_array_equal(dx, [1.0, 1.0])
    np.testing.assert_array_equal(dy, [-3.0, 4.0])


def test_abs_at_zero():
    np.testing.assert_array_equal(gradient(eo.abs, [-2.0, 0.0, 3.0]), [-1.0, 0.0, 1.0])
    np.testing.assert_array_equal(gradient(eo.abs, [0j, 3 + 4j], dtype="complex128"), [0.0, 0.6 + 0.8j])


# ---- complex parts


def test_both_spellings_of_a_modulus_have_one_gradient():
    spelled = lambda z: eo.sqrt(eo.real(z) ** 2 + eo.imag(z) ** 2)  # noqa: E731
    for f in (eo.abs, spelled):
        found = gradient(f, 1 + 0.5j, dtype="complex128")
        assert found.dtype == np.complex128
        np.testing.assert_allclose(found, 0.894427190999916 + 0.447213595499958j, rtol=1e-14)


def test_gradients_of_parts_are_directions_of_steepest_ascent():
    z = [1 + 2j, -0.5j]
    np.testing.assert_array_equal(gradient(eo.real, z, dtype="complex128"), [1, 1])
    np.testing.assert_array_equal(gradient(eo.imag, z, dtype="complex128"), [1j, 1j])
    np.testing.assert_allclose(gradient(eo.angle, z, dtype="complex128"), [1j * z[0] / 5, 2.0])
    np.testing.assert_array_equal(gradient(eo.angle, 0j, dtype="complex128"), 0)
    assert gradient(eo.real, z, dtype="complex64").dtype == np.complex64


def test_real_operand_of_a_complex_product_gets_a_real_gradient():
    x = leaf([1.0, 2.0])
    eo.real(x * eo.tensor([1 + 2j, 3 - 1j], dtype=eo.complex128)).sum().backward()
    assert x.grad.dtype == eo.float64
    np.testing.assert_array_equal(x.grad.numpy(), [1.0, 3.0])


# ---- choice


def test_where_passes_the_cotangent_to_what_was_taken():
    n = 5000
    condition = np.arange(n) % 3 == 0
    dx, dy = gradient(lambda x, y: eo.where(eo.tensor(condition), x, y), np.ones(n), np.ones((1,)))
    np.testing.assert_array_equal(dx, condition)
    assert dy.item() == n - condition.sum()


def test_condition_that_requires_grad_is_refused():
    with pytest.raises(eo.UnsupportedOperationError, match="condition"):
        eo.where(leaf([1.0, 0.0]), leaf([1.0, 2.0]), 0.0)


# ---- no gradient at all


def test_comparisons_are_not_recorded():
    x = leaf([1.0, 2.0])
    for y in (x == 1, x < x, eo.isnan(x), eo.logical_not(x), x != x, x >= 0, eo.signbit(x)):
        assert y.dtype == eo.bool
        assert not y.requires_grad
    np.testing.assert_array_equal(gradient(lambda x: x * (x < 0), [-1.0, 2.0, -3.0]), [1.0, 0.0, 1.0])


def test_bits_of_floats_are_refused():
    for f in (lambda x: x & x, lambda x: ~x, lambda x: x << 1):
        with pytest.raises(eo.DTypeError, match="bitwise"):
            f(eo.tensor([1.0]))


def test_shapes_that_do_not_broadcast_are_named():
    with pytest.raises(eo.ShapeError, match=r"add.*\n.*\n.*\n.*\(2,\) and \(3,\)"):
        eo.add(eo.ones(2), eo.ones(3))
    with pytest.raises(eo.ShapeError, match="where"):
        eo.where(eo.tensor([True, False]), eo.ones(3), 0.0)


def test_erf_far_out_underflows_quietly():
    np.testing.assert_array_equal(gradient(eo.erf, [40.0, -1e200]), 0.0)
