"""Activation functions: values and slopes where floating point is hard, conventions at the kinks, memory."""

import math

import mpmath as mp
import numpy as np
import pytest

import everyo as eo

INF, NAN = math.inf, math.nan
POINTS = [-1000.0, -200.0, -40.0, -5.0, -1.0, -1e-9, 0.0, 1e-9, 0.5, 3.0, 40.0, 200.0, 1000.0]


def logistic(x):
    return 1 / (1 + mp.exp(-x))


def normal(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def tanh_gelu(x):
    return x * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3))) / 2


SMOOTH = {
    "sigmoid": (eo.sigmoid, logistic),
    "softplus": (eo.softplus, lambda x: mp.log1p(mp.exp(x))),
    "softplus, beta 3": (lambda x: eo.softplus(x, beta=3.0), lambda x: mp.log1p(mp.exp(3 * x)) / 3),
    "log_sigmoid": (eo.log_sigmoid, lambda x: -mp.log1p(mp.exp(-x))),
    "silu": (eo.silu, lambda x: x * logistic(x)),
    "gelu": (eo.gelu, lambda x: x * normal(x)),
    "gelu, tanh": (lambda x: eo.gelu(x, approximate="tanh"), tanh_gelu),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_values_and_derivatives_against_mpmath(name):
    f, exact = SMOOTH[name]
    with mp.workdps(60 if name == "gelu" else 400):  # the others have tails of 1e-260
        expected = [[float(d) for d in mp.taylor(exact, mp.mpf(p), 2)] for p in POINTS]
    x = eo.tensor(np.array(POINTS), requires_grad=True)
    y = f(x)
    (first,) = eo.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = eo.autograd.grad(first.sum(), x)
    value, slope, half_bend = np.array(expected).T
    np.testing.assert_allclose(y.detach().numpy(), value, rtol=2e-13, atol=1e-300)
    np.testing.assert_allclose(first.detach().numpy(), slope, rtol=2e-13, atol=1e-16)
    np.testing.assert_allclose(second.numpy(), 2 * half_bend, rtol=2e-13, atol=1e-15)
    tangent = eo.jvp(f, [x.detach()], [eo.ones(len(POINTS), dtype=eo.float64)])[1]
    np.testing.assert_allclose(tangent.numpy(), first.detach().numpy(), rtol=1e-14)


def forward(f):
    return lambda x: eo.jvp(f, (x,), (eo.ones_like(x),))[1]


def reverse(f):
    return eo.grad(lambda x: f(x).sum())


ORDERS = {
    "reverse over reverse": (lambda f: reverse(reverse(f)), 2),
    "forward over reverse": (lambda f: forward(reverse(f)), 2),
    "reverse over forward": (lambda f: reverse(forward(f)), 2),
    "forward over forward": (lambda f: forward(forward(f)), 2),
    "hessian": (lambda f: lambda x: eo.diagonal(eo.hessian(lambda x: f(x).sum())(x)), 2),
    "third, reverse": (lambda f: reverse(reverse(reverse(f))), 3),
    "third, forward": (lambda f: forward(forward(forward(f))), 3),
}
FAR = [sign * size for size in (1e-8, 0.5, 5.0, 20.0, 30.0, 36.0, 40.0, 100.0, 700.0) for sign in (1, -1)]


@pytest.fixture(scope="module")
def exact_derivatives():
    """Derivatives to the third at the points of FAR, of what reads its operand for them."""
    found = {}
    for name in sorted(set(SMOOTH) - {"sigmoid"}):  # whose slope is that of the result as it is rounded
        gauss = name == "gelu"
        with mp.workdps(350 if gauss else 700):
            step = mp.mpf(10) ** (-80 if gauss else -150)
            found[name] = {
                order: [float(mp.diff(SMOOTH[name][1], mp.mpf(point), order, h=step)) for point in FAR]
                for order in (2, 3)
            }
    return found


@pytest.mark.parametrize("transform", [lambda f: f, eo.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("modes", ORDERS)
@pytest.mark.parametrize("name", sorted(set(SMOOTH) - {"sigmoid"}))
def test_higher_derivatives_keep_their_digits_far_out(name, modes, transform, exact_derivatives):
    derivative, order = ORDERS[modes]
    found = transform(derivative(SMOOTH[name][0]))(eo.tensor(np.array(FAR))).numpy()
    np.testing.assert_allclose(found, exact_derivatives[name][order], rtol=1e-13, atol=1e-306)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_single_precision_stays_and_saturates_quietly(name, dtype):
    x = eo.tensor(np.array([-200.0, -20.0, 0.0, 20.0, 200.0], dtype), requires_grad=True)
    y = SMOOTH[name][0](x)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == dtype
    assert np.all(np.isfinite(y.detach().numpy()))
    assert np.all(np.isfinite(x.grad.numpy()))


def test_saturated_sigmoid_is_exact():
    np.testing.assert_array_equal(
        eo.sigmoid(eo.tensor([-INF, -1000.0, 0.0, 1000.0, INF])).numpy(), [0, 0, 0.5, 1, 1]
    )
    assert np.isnan(eo.sigmoid(eo.tensor([NAN])).numpy())


def test_softplus_of_infinities():
    x = eo.tensor([-INF, INF], dtype=eo.float64, requires_grad=True)
    y = eo.softplus(x)
    y.backward(eo.ones(2, dtype=eo.float64))
    np.testing.assert_array_equal(y.detach().numpy(), [0.0, INF])
    np.testing.assert_array_equal(x.grad.numpy(), [0.0, 1.0])


KINKED = {
    "relu": (eo.relu, [0.0, 0.0, 1.0]),
    "leaky_relu": (lambda x: eo.leaky_relu(x, 0.1), [0.1, 0.1, 1.0]),
    "leaky_relu downwards": (lambda x: eo.leaky_relu(x, negative_slope=-2), [-2.0, -2.0, 1.0]),
    "elu": (lambda x: eo.elu(x, 0.5), [0.5 * math.exp(-2.0), 0.5, 1.0]),
    "selu": (
        eo.selu,
        [1.0507009873554805 * 1.6732632423543772 * math.exp(-2.0), 1.7580993408473766, 1.0507009873554805],
    ),
    "softsign": (eo.softsign, [1 / 9, 1.0, 1 / 16]),
}


@pytest.mark.parametrize("name", KINKED)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_slopes_at_and_beside_the_kink(name, dtype):
    f, slopes = KINKED[name]
    x = eo.tensor(np.array([-2.0, 0.0, 3.0], dtype), requires_grad=True)
    f(x).sum().backward()
    assert x.grad.dtype == dtype
    tolerance = 1e-6 if dtype == "float32" else 1e-14
    np.testing.assert_allclose(x.grad.numpy(), slopes, rtol=tolerance)
    tangent = eo.jvp(f, [x.detach()], [eo.tensor(np.ones(3, dtype))])[1]
    np.testing.assert_allclose(tangent.numpy(), slopes, rtol=tolerance)


def test_elu_neither_overflows_nor_loses_its_second_derivative_at_zero():
    x = eo.tensor([-1000.0, -1.0, 0.0, 1000.0], dtype=eo.float64, requires_grad=True)
    (first,) = eo.autograd.grad(eo.elu(x).sum(), x, create_graph=True)
    (second,) = eo.autograd.grad(first.sum(), x)
    np.testing.assert_allclose(first.detach().numpy(), [0.0, math.exp(-1.0), 1.0, 1.0])
    np.testing.assert_allclose(second.numpy(), [0.0, math.exp(-1.0), 1.0, 0.0])


def test_nan_stays_nan():
    for f in (eo.relu, eo.leaky_relu, eo.elu, eo.gelu, eo.silu, eo.softplus):
        assert np.isnan(f(eo.tensor([NAN])).numpy())
    x = eo.tensor([NAN, -1.0], requires_grad=True)
    eo.relu(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [NAN, 0.0])


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("size", [2, 100_000])
def test_the_slope_of_gelu_vanishes_at_minus_infinity(size):
    """Its value is an infinity times 0; the slope has a limit, with a cotangent of 0 as with another one."""
    for weight in (0.0, 1.0):
        x = eo.tensor(np.resize([-np.inf, -1e300], size), requires_grad=True)
        eo.gelu(x).backward(np.full(size, weight))
        np.testing.assert_array_equal(x.grad.numpy(), np.zeros(size))


def test_second_derivative_of_relu_is_zero():
    x = eo.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    (first,) = eo.autograd.grad(eo.relu(x).sum(), x, create_graph=True)
    assert eo.autograd.grad(first.sum(), x)[0].tolist() == [0.0, 0.0, 0.0]


def test_relu_keeps_its_output_and_not_its_input():
    x = eo.tensor([-1.0, 2.0], requires_grad=True)
    y = eo.relu(x)
    assert len(y.grad_node.saved) == 1
    assert y.grad_node.saved[0] is y.data


def test_numbers_and_lists_are_operands_too():
    assert eo.relu(-1.0).item() == 0.0
    assert eo.softplus(0, beta=2).item() == pytest.approx(math.log(2) / 2)
    np.testing.assert_array_equal(eo.leaky_relu([-1.0, 1.0], 0.5).numpy(), [-0.5, 1.0])
    assert eo.log_sigmoid([0.0]).dtype == eo.float32


@pytest.mark.parametrize("f", [eo.relu, eo.leaky_relu, eo.elu, eo.softplus, lambda x: eo.gelu(x, "tanh")])
def test_complex_numbers_are_refused_where_order_matters(f):
    with pytest.raises(eo.DTypeError, match="complex64"):
        f(eo.tensor([1 + 2j]))


def test_unsigned_integers_have_negatives():
    x = eo.tensor(np.array([0, 3], "uint8"))
    for f in (eo.softplus, eo.sigmoid, eo.silu, eo.elu, lambda x: eo.softplus(x, beta=2.0)):
        np.testing.assert_allclose(f(x).numpy(), f(x.astype(eo.float64)).numpy(), rtol=1e-15)


def test_unknown_approximation_is_refused():
    with pytest.raises(eo.ArgumentError, match=r"gelu(.*\n)*.*'erf'"):
        eo.gelu(eo.ones(2), approximate="erf")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
def test_integers_are_computed_as_floats(dtype):
    limits = np.iinfo(dtype)
    numbers = [limits.min, limits.max, 0, 1]
    x = eo.asarray(np.array(numbers, dtype))
    soft = [float(mp.mpf(n) / (1 + abs(n))) for n in numbers]
    logs = [float(-mp.log1p(mp.exp(-n)) if n > -100 else n) for n in numbers]
    for compiled in (False, True):
        for f, wanted in ((eo.softsign, soft), (eo.log_sigmoid, logs), (eo.special.log_expit, logs)):
            found = (eo.compile(f) if compiled else f)(x)
            np.testing.assert_allclose(found.numpy(), wanted, 1e-14)


ODD = {
    "leaky_relu": eo.leaky_relu,
    "elu": eo.elu,
    "selu": eo.selu,
    "softsign": eo.softsign,
    "silu": eo.silu,
    "gelu": eo.gelu,
    "gelu, tanh": lambda x: eo.gelu(x, approximate="tanh"),
    "tanh": eo.tanh,
    "erf": eo.erf,
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_negative_zero_stays(name, dtype):
    """These are x times something positive near 0; in a program, and in a loop over many, too."""
    f, zeros = ODD[name], np.array([-0.0, 0.0, -0.0], dtype)
    many = np.zeros(1 << 16, dtype)
    many[1::2] = -0.0
    for y in (f(eo.asarray(zeros)), eo.compile(f)(eo.asarray(zeros))):
        np.testing.assert_array_equal(np.signbit(y.numpy()), [True, False, True])
    np.testing.assert_array_equal(np.signbit(f(eo.asarray(many)).numpy()), np.signbit(many))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_multiple_that_overflows(dtype):
    """softplus(beta x) / beta is x far above 0 and nothing far below, its slope 1 and 0."""
    far = np.array([0.9, -0.9], dtype) * np.finfo(dtype).max
    for beta in (2.0, 100.0, -3.0):
        sign = math.copysign(1.0, beta)

        def f(x, beta=beta):
            return eo.softplus(x, beta)

        for run in (f, eo.compile(f)):
            got = run(eo.asarray(far)).numpy()
            np.testing.assert_array_equal(got, np.where(far * sign > 0, far, 0))
        for slope in (eo.grad(lambda x: f(x).sum()), eo.compile(eo.grad(lambda x: f(x).sum()))):
            np.testing.assert_array_equal(slope(eo.asarray(far)).numpy(), far * sign > 0)


def test_half_precision_keeps_what_is_far_below_zero():
    """exp(12) is no number of half precision; sigmoid(-12) is, if a small one, and silu(-12) is normal."""
    x = eo.tensor([-12.0, -8.0, -16.0, 12.0], dtype=eo.float16)
    exact = [float(1 / (1 + mp.exp(-mp.mpf(v)))) for v in x.tolist()]
    smallest = 2.0**-24
    np.testing.assert_allclose(eo.sigmoid(x).numpy(), exact, rtol=2e-3, atol=smallest / 2)
    np.testing.assert_allclose(eo.silu(x).numpy(), np.array(x.tolist()) * exact, rtol=5e-4, atol=smallest / 2)
    slope = eo.grad(lambda x: eo.softplus(x).sum())(x)
    np.testing.assert_allclose(slope.numpy(), exact, rtol=2e-3, atol=smallest / 2)
    steep = eo.grad(lambda x: eo.log10(x).sum())(eo.tensor([6e4, 1.2e-5], dtype=eo.float16))
    np.testing.assert_allclose(steep.numpy(), [7.238e-6, 36190], rtol=5e-3)


@pytest.mark.parametrize(
    ("dtype", "points"),
    [
        ("float32", [-80.0, -89.0, -91.0, -100.0, -120.0]),
        ("float64", [-700.0, -710.0, -712.0, -740.0, -800.0]),
    ],
)
def test_sigmoids_are_not_lost_where_an_exponential_overflows(dtype, points):
    """silu(-89) is a normal number of float32, although sigmoid(-89) is not."""
    x = eo.tensor(np.array(points, dtype))
    smallest = float(np.finfo(dtype).smallest_subnormal)
    with mp.workdps(60):
        exact = np.array([float(logistic(mp.mpf(p))) for p in points])
        silu = np.array([float(p * logistic(mp.mpf(p))) for p in points])
    for f in (eo.sigmoid, eo.compile(eo.sigmoid)):
        np.testing.assert_allclose(f(x).numpy(), exact, rtol=1e-6, atol=smallest)
    for f in (eo.silu, eo.compile(eo.silu)):
        np.testing.assert_allclose(f(x).numpy(), silu, rtol=1e-6, atol=max(map(abs, points)) * smallest)
    assert eo.silu(x)[1].item() != 0.0
    tail = eo.tensor(np.array([-10.05 if dtype == "float32" else -21.2], dtype))
    assert eo.gelu(tail, approximate="tanh").item() != 0.0


@pytest.mark.parametrize("x", [-13.0, -8.3, -3.1, 0.7])
def test_gelu_of_small_floats_keeps_its_digits(x):
    found = eo.gelu(eo.tensor([x], dtype=eo.float32)).item()
    point = float(np.float32(x))
    assert found == pytest.approx(float(mp.mpf(point) * mp.ncdf(point)), rel=2e-7)


@pytest.mark.parametrize(("x", "slope"), [(math.inf, 1.0), (-math.inf, 0.0), (1e30, 1.0), (-1e30, 0.0)])
def test_gelu_is_straight_far_out(x, slope):
    point = eo.tensor(x, dtype=eo.float64)
    with np.errstate(invalid="ignore"):
        assert eo.grad(eo.gelu)(point).item() == slope
        assert eo.grad(eo.grad(eo.gelu))(point).item() == 0.0
