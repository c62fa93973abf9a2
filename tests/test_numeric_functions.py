"""Elementwise functions beside NumPy's of the same name: values, dtypes, derivatives, errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import everyo as eo
from everyo.testing import check_jvp, gradcheck, gradgradcheck
from tests.compiling import same

# All elementwise functions of the Array API standard, version 2025.12.
STANDARD = """
    abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or
    bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor
    floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10
    logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply negative nextafter
    not_equal positive pow real reciprocal remainder round sign signbit sin sinh square sqrt subtract tan
    tanh trunc
"""
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e300, -1e-310, math.inf, -math.inf, math.nan]
ONE = ["bitwise_count", "deg2rad", "degrees", "fabs", "fix", "invert", "bitwise_not", "nan_to_num", "rad2deg",
       "radians", "rint", "signbit", "positive", "reciprocal", "cbrt"]  # fmt: skip
TWO = ["copysign", "float_power", "fmax", "fmin", "fmod", "gcd", "heaviside", "lcm", "left_shift",
       "nextafter", "right_shift", "true_divide", "logaddexp", "logaddexp2", "hypot", "arctan2"]  # fmt: skip
WHOLE = {"bitwise_count", "bitwise_not", "invert", "gcd", "lcm", "left_shift", "right_shift"}

numbers = st.sampled_from(SPECIAL) | st.floats(-1e3, 1e3)
rows = arrays.arrays("float64", 6, elements=numbers)
quiet = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def equal_to_numpy(found, expected):
    found, expected = np.asarray(found.detach().data), np.asarray(expected)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(found, expected)
    if expected.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("name", STANDARD.split())
def test_the_standard_has_it(name):
    assert callable(getattr(eo, name))
    assert name in dir(eo)


@quiet
@pytest.mark.parametrize("name", sorted(set(ONE) - WHOLE))
@given(x=rows)
def test_functions_of_one_number(name, x):
    with np.errstate(all="ignore"):
        equal_to_numpy(getattr(eo, name)(x), getattr(np, name)(x))
        single = x.astype("float32")
        equal_to_numpy(getattr(eo, name)(single), getattr(np, name)(single))


@quiet
@pytest.mark.parametrize("name", sorted(set(TWO) - WHOLE))
@given(x1=rows, x2=rows)
def test_functions_of_two_numbers(name, x1, x2):
    with np.errstate(all="ignore"):
        # NumPy has two implementations of powers, which round differently
        expected = getattr(np, "power" if name == "float_power" else name)(x1, x2)
        found = getattr(eo, name)(x1, x2)
        ours = np.where(np.isnan(expected), 0.0, found.numpy()), np.where(np.isnan(expected), 0.0, expected)
        np.testing.assert_array_equal(np.isnan(found.numpy()), np.isnan(expected))
        np.testing.assert_array_equal(*ours)


@pytest.mark.parametrize("name", sorted(WHOLE))
@given(
    x1=arrays.arrays("int64", 5, elements=st.integers(-100, 100)),
    x2=arrays.arrays("int64", 5, elements=st.integers(0, 20)),
)
def test_functions_of_integers(name, x1, x2):
    function, reference = getattr(eo, name), getattr(np, name)
    operands = (x1,) if name in ONE else (x1, x2)
    equal_to_numpy(function(*operands), reference(*operands))
    equal_to_numpy(function(eo.tensor(x1), *operands[1:]), reference(*operands))
    assert not function(*operands).requires_grad
    for dtype in ("int8", "uint8", "int32"):
        few = [np.abs(x).astype(dtype) % 8 for x in operands]
        equal_to_numpy(function(*few), reference(*few))


@quiet
@given(x1=rows, x2=rows)
def test_results_in_pairs(x1, x2):
    with np.errstate(all="ignore"):
        for found, expected in zip(eo.divmod(x1, x2), np.divmod(x1, x2), strict=True):
            np.testing.assert_array_equal(found.numpy(), expected)
        for function, reference in ((eo.modf, np.modf), (eo.frexp, np.frexp)):
            for found, expected in zip(function(x1), reference(x1), strict=True):
                equal_to_numpy(found, expected)
        mantissa, exponent = eo.frexp(x1)
        equal_to_numpy(eo.ldexp(mantissa, exponent), np.ldexp(*np.frexp(x1)))
        np.testing.assert_array_equal(eo.frac(x1).numpy(), np.modf(x1)[0])


def test_dtypes():
    whole = np.array([3, -7])
    for name in ("fabs", "rint", "deg2rad", "rad2deg"):
        equal_to_numpy(getattr(eo, name)(whole), getattr(np, name)(whole))
    for name in ("copysign", "heaviside", "nextafter", "float_power", "true_divide"):
        equal_to_numpy(getattr(eo, name)(whole, 2), getattr(np, name)(whole, 2))
    for found, expected in zip(eo.divmod(whole, np.int8(2)), np.divmod(whole, np.int8(2)), strict=True):
        equal_to_numpy(found, expected)
    for found, expected in zip(eo.modf(whole), np.modf(whole), strict=True):
        equal_to_numpy(found, expected)
    equal_to_numpy(eo.ldexp(whole, [1, 2]), np.ldexp(whole, [1, 2]))
    single = eo.tensor([1.0, -2.0])
    for value in (
        eo.lerp(single, 2.0, 0.5),
        eo.fmod(single, 2.0),
        eo.divmod(single, 2)[1],
        eo.ldexp(single, 2),
    ):
        assert value.dtype == eo.float32
    assert eo.float_power(single, 2).dtype == eo.float64
    assert eo.float_power(2, 3).item() == 8.0
    assert eo.float_power(eo.tensor([1j]), 2).dtype == eo.complex128
    assert eo.float_power(2.0, 1j).dtype == eo.complex128
    assert eo.nan_to_num(single.astype("float32")).dtype == eo.float32


def test_interpolation_of_integers():
    """The step from 5 down to 3 is negative, which their dtype has no number for."""
    start, end = np.array([5, 250], "uint8"), np.array([3, 255], "uint8")
    for weight in (0.25, np.array([0.25, 0.75])):
        found = eo.lerp(start, end, weight)
        expected = start.astype("float64") + weight * (end.astype("float64") - start)
        np.testing.assert_array_equal(found.numpy(), expected)
    assert eo.lerp(eo.tensor([0.0, 1.0]), eo.tensor([1, 0]), 0.5).dtype == eo.float64


def test_large_arrays():
    """One generated loop takes the place of NumPy's passes."""
    x, y = np.linspace(-2.0, 3.0, 40_000), np.linspace(5.0, -1.0, 40_000)
    w = np.linspace(-0.5, 1.5, 40_000)
    np.testing.assert_allclose(eo.lerp(x, y, w).numpy(), (1 - w) * x + w * y, rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(eo.lerp(x, y, np.ones_like(w)).numpy(), y)


def test_other_names_are_the_same_functions():
    assert eo.degrees is eo.rad2deg
    assert eo.radians is eo.deg2rad
    assert eo.true_divide is eo.divide
    assert eo.invert is eo.bitwise_not is eo.bitwise_invert
    assert (eo.left_shift, eo.right_shift) == (eo.bitwise_left_shift, eo.bitwise_right_shift)
    assert (eo.atan2, eo.pow) == (eo.arctan2, eo.power)


A, B = np.array([[1.3, -2.5], [0.7, 3.1]]), np.array([0.9, -0.4])


@pytest.mark.parametrize(
    ("f", "operands"),
    [
        (lambda a, b: eo.divmod(a, b)[1] * a, (A, B)),
        (lambda a, b: eo.fmod(a, b) * a, (A, B)),
        (lambda a, b: eo.fmax(a, b) ** 2, (A, B)),
        (lambda a, b: eo.fmin(a, b) ** 2, (A, B)),
        (lambda a, b: eo.copysign(a, b) ** 3, (A, B)),
        (lambda a: eo.fabs(a) ** 3, (A,)),
        (lambda a: eo.frac(a) ** 2, (A,)),
        (lambda a: eo.frexp(a)[0] ** 2, (A,)),
        (lambda a: eo.ldexp(a, [3, -2]) ** 2, (A,)),
        (lambda a, b: eo.float_power(eo.abs(a), b), (A, B)),
        (lambda a, b: eo.lerp(a, b, a * b), (A, B)),
        (lambda a: eo.sin(eo.deg2rad(a)) + eo.cos(eo.rad2deg(a)), (A,)),
        (lambda a: eo.nan_to_num(a) ** 2, (A,)),
        (lambda a, b: eo.heaviside(a, b) * a, (A, B)),
    ],
)
def test_derivatives_of_both_orders(f, operands):
    for check in (gradcheck, gradgradcheck, check_jvp):
        assert check(f, *operands)
    tensors = [eo.tensor(x) for x in operands]
    same(f, *tensors)
    same(lambda *xs: eo.grad(lambda *v: f(*v).sum(), argnums=tuple(range(len(xs))))(*xs), *tensors)


def test_pythons_divmod():
    x = eo.tensor([7.0, -7.0], requires_grad=True)
    for pair, expected in (
        (divmod(x, 4), ([1, -2], [3, 1])),
        (divmod(9.0, x), ([1, -2], [2, -5])),
        (divmod(np.array([9.0, 9.0], "float32"), x), ([1, -2], [2, -5])),
    ):
        assert tuple(t.tolist() for t in pair) == expected
    divmod(x, 4)[1].sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    with pytest.raises(TypeError):
        divmod(x, "a")


def test_numpys_own_functions_stay_on_the_tape():
    x = eo.tensor([1.5, -2.25], requires_grad=True)
    for f in (
        lambda x: np.copysign(x, [-1.0, 1.0]),
        lambda x: np.fmod(x, 2.0),
        lambda x: np.fmax(x, 0.0),
        lambda x: np.heaviside(x, 0.5) + x,
        lambda x: np.modf(x)[0],
        lambda x: np.divmod(x, 2.0)[1],
        lambda x: np.ldexp(x, 3),
        lambda x: np.nan_to_num(x, nan=1.0),
        lambda x: np.deg2rad(x),
        lambda x: np.select([x > 0], [x], 0.0),
    ):
        with np.errstate(all="ignore"):
            expected = f(x.detach().numpy())
        found = f(x)
        assert found.requires_grad
        np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-6)


def test_only_one_of_two_results_is_used():
    """The quotient alone has derivative zero, and no graph stays behind that fails."""
    x, y = eo.tensor([5.5, -3.0], requires_grad=True), eo.tensor([2.0, 0.75], requires_grad=True)
    quotient, remainder = eo.divmod(x, y)
    (quotient * 2).sum().backward(retain_graph=True)
    assert [None if t.grad is None else t.grad.tolist() for t in (x, y)] in ([None, None], [[0.0] * 2] * 2)
    x.grad = y.grad = None
    (remainder.sum() + quotient.sum()).backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([1.0, 1.0], [-2.0, 4.0])
    mantissa, _ = eo.frexp(x)
    assert eo.autograd.grad(mantissa.sum(), x)[0].tolist() == [0.125, 0.25]
    fraction, rest = eo.modf(x)
    assert eo.autograd.grad((fraction * 3 + rest * 5).sum(), x)[0].tolist() == [3.0, 3.0]
    tangent = eo.jvp(lambda x: eo.divmod(x, 2.0), (x.detach(),), (eo.ones(2, dtype=x.dtype),))[1]
    assert [t.tolist() for t in tangent] == [[0.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: eo.fabs([1j]), "real"),
        (lambda: eo.copysign(eo.tensor([1j]), 1.0), "copysign"),
        (lambda: eo.gcd([1.5], 2), "gcd"),
        (lambda: eo.ldexp([1.5], [0.5]), "exponents must be integers"),
        (lambda: eo.divmod([1j], 2), "divmod"),
        (lambda: eo.modf([1j]), "modf"),
        (lambda: eo.frexp([1j]), "frexp"),
        (lambda: eo.deg2rad(eo.tensor([1j])), "deg2rad"),
        (lambda: eo.nan_to_num([1.0], posinf=1j), "posinf"),
        (lambda: eo.bitwise_count([1.0]), "bitwise_count"),
    ],
)
def test_dtypes_that_do_not_suit(call, text):
    with pytest.raises(eo.DTypeError, match=text):
        call()


def test_shapes_that_do_not_fit():
    for f in (eo.divmod, eo.fmod, eo.fmax, eo.copysign, eo.gcd):
        operands = (np.ones(2, int), np.ones(3, int)) if f is eo.gcd else (np.ones(2), np.ones(3))
        with pytest.raises(eo.ShapeError):
            f(*operands)
