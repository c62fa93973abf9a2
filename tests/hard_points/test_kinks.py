"""Zeros, ties, bounds and untaken branches: the conventions and the exact values."""

import math

import mpmath as mp
import numpy as np
import pytest

import everyo as eo
import everyo.testing

from .reference import derivatives, hessian

INF, NAN = math.inf, math.nan


# x, y, value, d/dx, d/dy of x**y; None where d/dy is not asked for.
POWERS = [
    (0.0, 2.0, 0.0, 0.0, 0.0),
    (0.0, 1.0, 0.0, 1.0, 0.0),
    (0.0, 0.0, 1.0, 0.0, None),
    (5.0, 0.0, 1.0, 0.0, math.log(5.0)),
    (-5.0, 0.0, 1.0, 0.0, None),
    (0.0, 3.5, 0.0, 0.0, 0.0),
    (0.0, 0.5, 0.0, INF, 0.0),
    (-2.0, 2.0, 4.0, -4.0, None),
    (-2.0, 3.0, -8.0, 12.0, None),
    (-2.0, -1.0, -0.5, -0.25, None),
    (-2.0, 2.0, 4.0, -4.0, NAN),
    (1.0, 1e300, 1.0, 1e300, 0.0),
    (4.0, 0.5, 2.0, 0.25, 2 * math.log(4.0)),
    (4.0, -0.5, 0.5, -0.0625, 0.5 * math.log(4.0)),
    (10.0, -400.0, 0.0, 0.0, 0.0),
    (0.0, -1.0, INF, -INF, -INF),
]


@pytest.mark.parametrize(("x", "y", "value", "by_x", "by_y"), POWERS)
def test_power(x, y, value, by_x, by_y):
    with np.errstate(divide="warn" if x else "ignore", invalid="warn" if by_y is None else "ignore"):
        found, (gradient,) = derivatives(lambda x: eo.power(x, y), x)
        np.testing.assert_array_equal([found, gradient], [value, by_x])
        found, (gradient,) = derivatives(lambda x: x ** eo.tensor(np.float64(y)), x)
        np.testing.assert_array_equal([found, gradient], [value, by_x])
        if by_y is None:
            return
        found, gradients = derivatives(eo.power, x, y)
        np.testing.assert_allclose(gradients[0].item(), by_x)
        np.testing.assert_allclose(gradients[1].item(), by_y, rtol=1e-14)


def test_second_derivatives_of_power_where_the_exponent_is_zero():
    """``d2/dxdy x**y = x**(y - 1) (1 + y log(x))``: the 0 of d/dx there is no constant in y."""
    log = math.log(2.0)
    assert hessian(lambda v: v[0] ** v[1], [2.0, 0.0]) == [[0.0, 0.5], [0.5, log * log]]
    assert hessian(lambda v: v[0] ** v[1], [0.0, 2.0]) == [[2.0, 0.0], [0.0, 0.0]]


# x, y, and the limits from within of the derivatives of x**y: twice in x, in both, twice in y.
CURVED_POWERS = [
    (0.0, 0.5, -INF, -INF, 0.0),
    (0.0, 1.0, 0.0, -INF, 0.0),
    (-0.0, 1.0, 0.0, -INF, 0.0),
    (0.0, 1.5, INF, 0.0, 0.0),
    (0.0, 2.0, 2.0, 0.0, 0.0),
    (0.0, 3.0, 0.0, 0.0, 0.0),
    (0.0, 0.0, 0.0, INF, 0.0),
    (0.0, -1.0, INF, INF, INF),
    (INF, -1.0, 0.0, 0.0, 0.0),
    (INF, 0.5, 0.0, 0.0, INF),
    (INF, 1.0, 0.0, INF, INF),
    (2.0, 0.0, 0.0, 0.5, math.log(2.0) ** 2),
    (-2.0, 2.0, 2.0, NAN, NAN),
    (0.5, 3.0, 3.0, 0.25 * (1 - 3 * math.log(2.0)), 0.125 * math.log(2.0) ** 2),
]


@pytest.mark.parametrize("turned", [lambda f: f, eo.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize(("x", "y", "twice_x", "mixed", "twice_y"), CURVED_POWERS)
def test_second_derivatives_of_powers_are_symmetric_in_all_modes(x, y, twice_x, mixed, twice_y, turned):
    point = [eo.tensor(np.float64(x)), eo.tensor(np.float64(y))]

    def forward(f, i):
        return lambda *p: eo.jvp(lambda v: f(*p[:i], v, *p[i + 1 :]), (p[i],), (eo.tensor(np.float64(1.0)),))[
            1
        ]

    for first in (eo.grad, forward):
        for second in (eo.grad, forward):
            with np.errstate(divide="ignore"):  # of the power itself
                found = [
                    [turned(second(first(eo.power, i), j))(*point).item() for j in (0, 1)] for i in (0, 1)
                ]
            np.testing.assert_allclose(found, [[twice_x, mixed], [mixed, twice_y]], rtol=1e-14)


@pytest.mark.parametrize("x", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("y", [0.0, 1.0, 2.0, -1.3, 3.7])
def test_third_derivatives_of_powers(x, y):
    for order in ((0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 1)):
        exact = mp.diff(mp.power, (x, y), (order.count(0), order.count(1)))
        f = eo.power
        for i in order[:: -1 if y > 0 else 1]:
            f = eo.grad(f, argnums=i)
        found = f(eo.tensor(np.float64(x)), eo.tensor(np.float64(y)))
        np.testing.assert_allclose(found.item(), float(exact), rtol=1e-13, atol=1e-13)


def test_complex_powers_of_negative_numbers():
    for check in (eo.testing.gradcheck, eo.testing.gradgradcheck, eo.testing.check_jvp):
        assert check(eo.power, np.array([-2.0, 1.5]), np.array([0.5 + 1j, 1 - 0.5j]))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 0.0, 2.0, 3.0])
def test_every_derivative_of_a_whole_power_exists_at_zero(n):
    """Repeated use of the rule reaches x**0, then 0 * x**-1."""
    x = eo.tensor(np.float64(0.0), requires_grad=True)
    value, factor = x**n, 1.0
    for order in range(5):
        expected = factor if order == n else 0.0
        assert value.item() == expected, f"order {order}"
        if not value.requires_grad:
            break
        value = eo.autograd.grad(value, x, create_graph=True, allow_unused=True)[0]
        if value is None:
            break
        factor *= n - order


def test_the_gaussian_at_zero_to_fourth_order():
    x = eo.tensor(np.float64(0.0), requires_grad=True)
    value, found = eo.exp(-(x**2)), []
    for _ in range(4):
        (value,) = eo.autograd.grad(value, x, create_graph=True)
        found.append(value.item())
    assert found == [0.0, -2.0, 0.0, 12.0]


@pytest.mark.parametrize(
    ("row", "gradient"),
    [
        ([0.0, 1.0], [1.0, 0.0]),
        ([2.0, 0.0, 3.0], [0.0, 6.0, 0.0]),
        ([0.0, 0.0, 3.0], [0.0, 0.0, 0.0]),
        ([2.0, 3.0, 4.0], [12.0, 8.0, 6.0]),
        ([1e200, 1e-200, 1e200], [1.0, INF, 1.0]),
        ([1e14, 0.0, 0.0, 1e300, 1e300], [0.0] * 5),
        ([-0.0, 5.0], [5.0, -0.0]),
        ([7.0], [1.0]),
        ([], []),
    ],
)
def test_prod_with_zeros(row, gradient):
    with np.errstate(over="ignore", invalid="ignore"):
        value, (found,) = derivatives(eo.prod, row)
    assert value.item() == np.prod(np.array(row))
    np.testing.assert_allclose(found, gradient)


def test_second_derivatives_of_products_with_zeros():
    assert hessian(eo.prod, [0.0, 0.0, 3.0]) == [[0.0, 3.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert hessian(lambda x: eo.sum(eo.cumprod(x, axis=0)), [2.0, 0.0, 3.0]) == [
        [0, 4, 0],
        [4, 0, 2],
        [0, 2, 0],
    ]


@pytest.mark.parametrize(
    ("row", "gradient"),
    [
        ([2.0, 0.0, 3.0, 4.0], [1.0, 32.0, 0.0, 0.0]),
        ([0.0, 0.0, 1.0], [1.0, 0.0, 0.0]),
        ([1.0, 2.0], [3.0, 1.0]),
    ],
)
def test_cumprod_with_zeros(row, gradient):
    _, (found,) = derivatives(lambda x: eo.sum(eo.cumprod(x, axis=0)), row)
    assert found.tolist() == gradient


def test_std_and_norm_where_they_are_zero():
    for f in (eo.std, lambda x: eo.std(x, axis=0, keepdims=True)):
        value, (gradient,) = derivatives(f, [1.0, 1.0, 1.0])
        assert value.item() == 0.0
        assert gradient.tolist() == [0.0, 0.0, 0.0]
    assert derivatives(eo.std, [3.0])[1][0].tolist() == [0.0]
    for f in (eo.std, lambda x: eo.vector_norm(x - x[0])):
        assert not eo.hessian(f)(eo.tensor([1.0, 1.0, 1.0])).numpy().any()
    value, (gradient,) = derivatives(eo.vector_norm, [0.0, 0.0])
    assert (value.item(), gradient.tolist()) == (0.0, [0.0, 0.0])
    for order in (1, 1.5, 3, INF):
        value, (gradient,) = derivatives(lambda x, p=order: eo.vector_norm(x, ord=p), [0.0, 0.0])
        assert (value.item(), gradient.tolist()) == (0.0, [0.0, 0.0])
    value, (gradient,) = derivatives(lambda x: eo.exp(-(eo.vector_norm(x) ** 2)), [[0.0], [0.0]])
    assert (value.item(), gradient.tolist()) == (1.0, [[0.0], [0.0]])


def test_complex_numbers_at_zero():
    for f in (eo.abs, eo.angle, lambda z: eo.real(eo.sign(z))):
        z = eo.tensor(np.array([0j, 3 + 4j]), requires_grad=True)
        f(z).backward(eo.tensor(np.ones(2)))
        assert z.grad[0].item() == 0
        assert np.isfinite(z.grad.numpy()).all()
        (g,) = eo.autograd.grad(f(z), z, eo.tensor(np.ones(2)), create_graph=True)
        if g.requires_grad:
            (h,) = eo.autograd.grad(g, z, eo.tensor(np.ones(2, dtype=complex)))
            assert h[0].item() == 0
            assert np.isfinite(h.numpy()).all()
        tangent = eo.jvp(f, [z.detach()], [eo.tensor(np.array([1 + 1j, 0]))])[1]
        assert tangent.tolist() == [0.0, 0.0]


def test_variance_does_not_cancel():
    """The shortcut E[x**2] - E[x]**2 would lose every digit here."""
    row = [1e9 + 1.0, 1e9 + 2.0, 1e9 + 4.0]
    value, (gradient,) = derivatives(eo.var, row)
    np.testing.assert_allclose(value, 14 / 9, rtol=1e-14)
    np.testing.assert_allclose(gradient, [-8 / 9, -2 / 9, 10 / 9], rtol=1e-14)
    value, (gradient,) = derivatives(eo.std, row)
    np.testing.assert_allclose(value, 14**0.5 / 3, rtol=1e-14)
    np.testing.assert_allclose(gradient, np.array([-4, -1, 5]) / 3 / 14**0.5, rtol=1e-14)
    value, (gradient,) = derivatives(eo.std, [1e-200, 2e-200])
    np.testing.assert_allclose(value, 0.0, atol=1e-199)
    assert np.isfinite(gradient).all()


def test_norms_neither_overflow_nor_underflow():
    for scale in (1e200, 1e-200):
        value, (gradient,) = derivatives(eo.vector_norm, [3 * scale, 4 * scale])
        np.testing.assert_allclose(value, 5 * scale, rtol=1e-14)
        np.testing.assert_allclose(gradient, [0.6, 0.8], rtol=1e-14)


@pytest.mark.parametrize(
    ("f", "row", "gradient"),
    [
        (eo.max, [2.0, 2.0, 1.0, 2.0], [1 / 3, 1 / 3, 0.0, 1 / 3]),
        (eo.min, [1.0, 2.0, 1.0], [0.5, 0.0, 0.5]),
        (lambda x: eo.max(x, axis=1), [[1.0, 1.0], [2.0, 0.0]], [[0.5, 0.5], [1.0, 0.0]]),
        (eo.max, [INF, 1.0, INF], [0.5, 0.0, 0.5]),
        (eo.max, [NAN, 1.0, 2.0], [1.0, 0.0, 0.0]),
        (eo.min, [1.0, NAN, NAN], [0.0, 0.5, 0.5]),
        (lambda x: eo.maximum(x, 1.0), [0.0, 1.0, 2.0], [0.0, 0.5, 1.0]),
        (lambda x: eo.minimum(x, 1.0), [0.0, 1.0, 2.0], [1.0, 0.5, 0.0]),
        (lambda x: eo.maximum(x, x), [3.0], [1.0]),
        (lambda x: eo.clip(x, 0.0, 1.0), [-1.0, 0.0, 0.5, 1.0, 2.0], [0.0, 1.0, 1.0, 1.0, 0.0]),
        (lambda x: eo.clip(x, None, 1.0), [-1.0, 1.0, 2.0], [1.0, 1.0, 0.0]),
        (lambda x: eo.clip(eo.tensor([1.0, 2.0, 3.0]), None, x), [2.0, 2.0, 2.0], [0.0, 0.0, 1.0]),
        (lambda x: eo.clip(eo.tensor([1.0, 2.0, 3.0]), x, None), [2.0, 2.0, 2.0], [1.0, 0.0, 0.0]),
        (lambda x: eo.max_pool1d(x, 2), [[[NAN, 1.0, 2.0, 2.0]]], [[[1.0, 0.0, 0.5, 0.5]]]),
        (lambda x: x * (x < 0), [-1.0, 2.0, -3.0], [1.0, 0.0, 1.0]),
    ],
)
def test_ties_and_bounds(f, row, gradient):
    result = f(eo.tensor(np.array(row)))
    assert derivatives(f, row, weight=np.ones(result.shape))[1][0].tolist() == gradient


def test_untaken_branches_leak_nothing():
    with np.errstate(all="ignore"):
        _, (gradient,) = derivatives(lambda x: eo.sum(eo.where(x > 0, eo.log(x), 0.0)), [0.0, 2.0])
        assert gradient.tolist() == [0.0, 0.5]
        norms = lambda x: eo.sqrt(eo.sum(x**2, axis=1))  # noqa: E731
        f = lambda x: eo.sum(eo.where(norms(x) > 0.5, norms(x), 1.0))  # noqa: E731
        _, (gradient,) = derivatives(f, [[3.0, 4.0], [0.0, 0.0]])
        np.testing.assert_allclose(gradient, [[0.6, 0.8], [0.0, 0.0]])
        f = lambda x, y: eo.sum(eo.maximum(eo.sqrt(x * x + y * y), 1e-10))  # noqa: E731
        _, gradients = derivatives(f, [0.0, 3.0], [0.0, 4.0])
        np.testing.assert_allclose(gradients, [[0.0, 0.6], [0.0, 0.8]])
        _, gradients = derivatives(lambda x, y: (x / y)[0], [1.0, 0.0], [1.0, 0.0])
        np.testing.assert_equal(gradients, [[1.0, 0.0], [-1.0, 0.0]])
        _, (gradient,) = derivatives(lambda x: x * x**0.5, [4.0])
        np.testing.assert_allclose(gradient, [3.0])


@pytest.mark.parametrize("order", [-1, -2.5])
def test_norms_of_negative_order_are_flat_at_infinity(order):
    value, (gradient,) = derivatives(lambda x: eo.vector_norm(x, ord=order), [INF, 1.0, 2.0])
    finite = 1 + 2.0**order
    assert value.item() == pytest.approx(finite ** (1 / order), rel=1e-14)
    slope = [finite ** (1 / order - 1) * x ** (order - 1) for x in (1.0, 2.0)]
    assert gradient.tolist() == pytest.approx([0.0, *slope], rel=1e-14)
    forward = eo.jvp(lambda x: eo.vector_norm(x, ord=order), (eo.tensor([INF, 1.0, 2.0]),), (eo.ones(3),))[1]
    assert forward.item() == pytest.approx(sum(slope), rel=1e-6)
