"""Reductions: values against NumPy, gradients at edge cases by their exact values."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import everyo as eo

inf, nan = math.inf, math.nan


def leaf(x, dtype="float64"):
    return eo.tensor(np.asarray(x, dtype), requires_grad=True)


def gradient(f, x, dtype="float64"):
    """Return the gradient of the sum of ``f(x)``."""
    x = leaf(x, dtype)
    y = f(x)
    y.backward(np.ones(y.shape, y.dtype))
    assert x.grad.dtype == x.dtype
    return x.grad.numpy()


def hessian(f, x):
    """Return the matrix of second derivatives of a scalar function of a vector."""
    x = leaf(x)
    (g,) = eo.autograd.grad(f(x), x, create_graph=True)
    rows = []
    for i in range(len(g)):
        if not g.requires_grad:
            return np.zeros((len(g), len(g)))
        seed = np.zeros(len(g))
        seed[i] = 1
        (row,) = eo.autograd.grad(g, x, seed, retain_graph=True, allow_unused=True)
        rows.append(np.zeros(len(g)) if row is None else row.numpy())
    return np.array(rows)


@st.composite
def reducible(draw, min_side=0):
    """Draw an array, the axes to reduce (written in any way) and keepdims."""
    shape = draw(arrays.array_shapes(min_dims=0, max_dims=4, min_side=min_side, max_side=3))
    x = draw(arrays.arrays("float64", shape, elements=st.integers(-3, 3).map(float)))
    axis = draw(
        st.none()
        | st.lists(st.integers(-len(shape), len(shape) - 1), unique_by=lambda a: a % len(shape)).map(tuple)
        if shape
        else st.sampled_from([None, ()])
    )
    if axis is not None and len(axis) == 1 and draw(st.booleans()):
        axis = axis[0]
    return x, axis, draw(st.booleans())


SAME_AS_NUMPY = ["sum", "prod", "mean", "max", "min", "all", "any", "var", "std", "amax", "amin", "ptp"]


@pytest.mark.parametrize("name", SAME_AS_NUMPY)
@given(case=reducible(min_side=1))
def test_value_is_numpys(name, case):
    x, axis, keepdims = case
    found = getattr(eo, name)(eo.asarray(x), axis=axis, keepdims=keepdims)
    expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-14, atol=1e-14)


@given(case=reducible())
def test_empty_axes(case):
    x, axis, keepdims = case
    for name in ("sum", "prod", "all", "any"):
        found = getattr(eo, name)(eo.asarray(x), axis=axis, keepdims=keepdims)
        np.testing.assert_array_equal(found.numpy(), getattr(np, name)(x, axis=axis, keepdims=keepdims))
    for name in ("sum", "prod", "mean", "var", "std"):
        g = gradient(lambda t, name=name: getattr(eo, name)(t, axis=axis, keepdims=keepdims), x)
        assert g.shape == x.shape


@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_statistics_of_nothing_are_nan(name):
    assert np.isnan(getattr(eo, name)(eo.zeros((0, 2)), axis=0).numpy()).all()


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_no_extreme_of_nothing(name):
    with pytest.raises(eo.ShapeError, match="no element to choose from") as caught:
        getattr(eo, name)(eo.zeros((2, 0)), axis=1)
    assert caught.value.operation == name
    assert caught.value.remedy
    assert getattr(eo, name)(eo.zeros((2, 0)), axis=0).shape == (0,)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "max", "all", "var", "logsumexp", "vector_norm"])
def test_axes_are_checked(name):
    function = getattr(eo, name)
    with pytest.raises(eo.IndexingError, match=name):
        function(eo.ones((2, 3)), axis=2)
    with pytest.raises(eo.ShapeError, match="named twice"):
        function(eo.ones((2, 3)), axis=(1, -1))
    with pytest.raises(eo.DTypeError):
        function(eo.ones((2, 3)), axis=1.5)
    with pytest.raises(TypeError):
        function(eo.ones((2, 3)), dim=1)


@given(case=reducible())
def test_sum_gradient(case):
    x, axis, keepdims = case
    w = np.arange(1.0, 1 + np.sum(x, axis=axis, keepdims=keepdims).size)
    w = w.reshape(np.sum(x, axis=axis, keepdims=keepdims).shape)
    t = leaf(x)
    eo.sum(t, axis=axis, keepdims=keepdims).backward(w)
    w = w if keepdims or axis is None else np.expand_dims(w, axis)
    np.testing.assert_array_equal(t.grad.numpy(), np.broadcast_to(w, x.shape))


def test_sum_dtypes():
    small = np.array([100, 100], "int8")
    assert eo.sum(small).item() == 200
    assert eo.sum(small, dtype="int8").item() == np.sum(small, dtype="int8")
    assert eo.sum(eo.asarray([True, True])).dtype == np.sum([True]).dtype
    assert eo.sum(eo.ones(2), dtype=eo.float64).dtype == eo.float64
    assert eo.prod(small, dtype=eo.float32).dtype == eo.float32
    assert eo.mean(small).dtype == eo.float64
    assert eo.mean(small, dtype=eo.float32).dtype == eo.float32
    g = gradient(lambda x: eo.sum(x, dtype=eo.float64), [1, 2], "float32")
    np.testing.assert_array_equal(g, [1, 1])


def test_half_precision_means_do_not_overflow():
    x = np.full(2000, 100, "float16")
    assert eo.mean(x).item() == 100
    assert eo.mean(x).dtype == eo.float16
    assert eo.std(np.array([300, -300] * 500, "float16")).item() == 300
    g = gradient(eo.std, [300, -300], "float16")
    np.testing.assert_array_equal(g, np.array([0.5, -0.5], "float16"))


def test_linear_reductions_save_nothing():
    x = leaf(np.ones((3, 4)))
    for y in (eo.sum(x), eo.mean(x, axis=0)):
        assert all(not hasattr(value, "dtype") for value in y.grad_node.saved)


class TestProd:
    @pytest.mark.parametrize(
        ("x", "expected"),
        [
            ([0, 1], [1, 0]),
            ([0, 0, 3], [0, 0, 0]),
            ([2, 0, 3], [0, 6, 0]),
            ([2, 3, 4], [12, 8, 6]),
            ([5], [1]),
            ([], []),
        ],
    )
    def test_gradient(self, x, expected):
        np.testing.assert_array_equal(gradient(eo.prod, x), expected)

    def test_two_zeros_have_a_second_derivative(self):
        np.testing.assert_array_equal(hessian(eo.prod, [0.0, 0.0, 3.0]), [[0, 3, 0], [3, 0, 0], [0, 0, 0]])

    def test_three_zeros_have_a_third_derivative(self):
        x = leaf([0.0, 0.0, 0.0, 5.0])
        (g,) = eo.autograd.grad(eo.prod(x), x, create_graph=True)
        (h,) = eo.autograd.grad(g, x, [1.0, 0.0, 0.0, 0.0], create_graph=True)
        (third,) = eo.autograd.grad(h, x, [0.0, 1.0, 0.0, 0.0])
        np.testing.assert_array_equal(third.numpy(), [0, 0, 5, 0])

    @pytest.mark.parametrize("axis", [None, (0, 1), (1, 0)])
    def test_zeros_make_an_overflow_irrelevant(self, axis):
        x = np.array([[1e13, 0, 0], [1e13, 1e13, 0], [1e13, 1e13, 1e13]], "float32")
        np.testing.assert_array_equal(gradient(lambda t: eo.prod(t, axis=axis), x, "float32"), 0)

    @pytest.mark.filterwarnings("ignore::RuntimeWarning")
    def test_zero_after_an_overflow(self):
        x = np.array([1e20, 1e20, 0, 1], "float32")
        assert eo.prod(x).item() == 0
        assert math.isnan(eo.prod(np.array([1e20, 1e20, 0, nan], "float32")).item())
        np.testing.assert_array_equal(gradient(eo.prod, x, "float32"), [0, 0, inf, 0])

    def test_forward_mode(self):
        x = np.array([0.0, 0.0, 3.0])
        value, tangent = eo.jvp(eo.prod, (eo.asarray(x),), (eo.ones(3, dtype=eo.float64),))
        assert (value.item(), tangent.item()) == (0, 0)
        _, tangent = eo.jvp(eo.prod, (eo.asarray(x[1:]),), (eo.ones(2, dtype=eo.float64),))
        assert tangent.item() == 3

    @given(case=reducible())
    def test_every_axis(self, case):
        x, axis, keepdims = case
        g = gradient(lambda t: eo.prod(t, axis=axis, keepdims=keepdims), x)
        axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
        for i in np.ndindex(x.shape):
            line = tuple(slice(None) if a in axes or a - x.ndim in axes else i[a] for a in range(x.ndim))
            others = np.ones(x.shape, bool)
            others[i] = False
            assert g[i] == np.prod(x[line], where=others[line])


class TestExtremes:
    @pytest.mark.parametrize(
        ("name", "x", "axis", "expected"),
        [
            ("max", [2, 2, 1, 2], None, [1 / 3, 1 / 3, 0, 1 / 3]),
            ("min", [2, 1, 1], None, [0, 0.5, 0.5]),
            ("max", [[1, 1], [2, 0]], 1, [[0.5, 0.5], [1, 0]]),
            ("max", [[1, 1], [2, 0]], (0, 1), [[0, 0], [1, 0]]),
            ("amax", [[3, 3], [3, 3]], None, [[0.25, 0.25], [0.25, 0.25]]),
            ("min", 5, None, 1),
            ("max", [inf, 1, inf], None, [0.5, 0, 0.5]),
            ("min", [-0.0, 0.0], None, [0.5, 0.5]),
        ],
    )
    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    def test_ties_share(self, name, x, axis, expected, dtype):
        g = gradient(lambda t: getattr(eo, name)(t, axis=axis), x, dtype)
        np.testing.assert_array_equal(g, np.asarray(expected, dtype))

    @pytest.mark.parametrize("name", ["max", "min"])
    def test_nan_is_chosen(self, name):
        x = [[1.0, nan, 3.0], [1.0, 1.0, 1.0]]
        function = getattr(eo, name)
        np.testing.assert_array_equal(function(np.array(x), axis=1).numpy(), [nan, 1])
        g = gradient(lambda t: function(t, axis=1), x)
        np.testing.assert_array_equal(g, [[0, 1, 0], [1 / 3, 1 / 3, 1 / 3]])

    def test_infinite_cotangent_reaches_the_extreme_alone(self):
        x = leaf([1.0, 2.0])
        eo.max(x).backward(np.float64(inf))
        np.testing.assert_array_equal(x.grad.numpy(), [0, inf])

    def test_forward_mode_averages_ties(self):
        x, t = eo.asarray(np.array([2.0, 2.0, 1.0])), eo.asarray(np.array([1.0, 3.0, 7.0]))
        assert eo.jvp(eo.max, (x,), (t,))[1].item() == 2

    def test_second_derivative_is_zero(self):
        np.testing.assert_array_equal(hessian(lambda x: eo.max(x) * eo.max(x), [1.0, 3.0]), [[0, 0], [0, 2]])

    def test_logsumexp_by_hand(self):
        x = np.array([1.0, 2.0, 3.0, 4.0])
        g = gradient(lambda t: eo.log(eo.sum(eo.exp(t - eo.max(t)))) + eo.max(t), x)
        np.testing.assert_allclose(g, np.exp(x) / np.exp(x).sum(), rtol=1e-14)

    def test_integers(self):
        assert eo.max(eo.tensor([1, 5, 2])).item() == 5
        assert eo.max(eo.tensor([True, False])).item() is True


class TestVar:
    def test_one_element_has_no_freedom(self):
        for ask in ({"correction": 1}, {"ddof": 1}):
            assert math.isnan(eo.var(eo.asarray(np.array([0.3])), **ask).item())
            for function in (eo.var, eo.std):
                assert np.isnan(gradient(lambda t, f=function, a=ask: f(t, **a), [0.3])).all()
        np.testing.assert_array_equal(gradient(eo.std, [0.3]), [0])

    @pytest.mark.parametrize("x", [[1, 1], [0.1] * 3, [0.7] * 1000, [1e-200] * 7, [1e300] * 3, [0, 0]])
    def test_std_of_a_constant_vector(self, x):
        assert eo.std(np.array(x)).item() == 0
        np.testing.assert_array_equal(gradient(eo.std, x), 0)
        np.testing.assert_array_equal(gradient(eo.var, x), 0)
        np.testing.assert_array_equal(hessian(eo.std, x[:3]), 0)

    def test_several_axes(self):
        x = np.arange(12.0).reshape(2, 3, 2)
        g = gradient(lambda t: eo.std(t, axis=(0, -1), keepdims=True), x)
        d = x - x.mean((0, -1), keepdims=True)
        np.testing.assert_allclose(g, d / (4 * x.std((0, -1), keepdims=True)), rtol=1e-14)

    @given(case=reducible(min_side=1), correction=st.sampled_from([0, 1, 0.5]))
    def test_gradient(self, case, correction):
        x, axis, keepdims = case
        n = x.size / np.sum(x, axis=axis).size - correction
        g = gradient(lambda t: eo.var(t, axis=axis, keepdims=keepdims, correction=correction), x)
        d = x - x.mean(axis, keepdims=True)
        np.testing.assert_allclose(g, 2 * d / n if n > 0 else np.full_like(x, nan), atol=1e-14)

    def test_no_cancellation_and_no_overflow(self):
        x = np.array([1e9 + 1, 1e9 + 2, 1e9 + 3])
        assert eo.var(x, ddof=1).item() == 1
        assert eo.std(np.array([1e200, -1e200])).item() == 1e200
        np.testing.assert_allclose(gradient(eo.std, [1e200, -1e200]), [0.5, -0.5], rtol=1e-15)

    def test_complex(self):
        x = np.array([1 + 2j, 3 - 1j, 0.5j])
        assert eo.var(x).dtype == eo.float64
        np.testing.assert_allclose(eo.std(x).item(), np.std(x), rtol=1e-15)
        g = gradient(eo.var, x, "complex128")
        np.testing.assert_allclose(g, 2 * (x - x.mean()) / 3, rtol=1e-14)

    def test_names(self):
        assert eo.variance is eo.var
        assert eo.var(eo.tensor([1, 2])).dtype == eo.float64
        with pytest.raises(eo.ArgumentError, match="two names"):
            eo.var(eo.ones(3), correction=1, ddof=1)


class TestVectorNorm:
    @pytest.mark.parametrize("ord", [0, 0.5, 1, 1.5, 2, 3, inf, -inf, -1, -2])
    @pytest.mark.parametrize("shape", [(3,), (2, 1), (1,)])
    def test_zero_vector(self, ord, shape):
        x = np.zeros(shape)
        assert eo.vector_norm(x, ord=ord).item() == 0
        np.testing.assert_array_equal(gradient(lambda t: eo.vector_norm(t, ord=ord), x), 0)

    @pytest.mark.parametrize("ord", [0, 0.5, 1, 1.5, 2, 2.5, 3, 10, inf, -inf, -1, -2.5])
    @pytest.mark.parametrize("x", [[3.0, -4.0], [1.0, 0.5, -2.0, 0.25], [1 + 1j, -2j], [5.0]])
    def test_value_and_gradient(self, ord, x):
        x = np.array(x)
        np.testing.assert_allclose(eo.vector_norm(x, ord=ord).item(), np.linalg.norm(x, ord), rtol=1e-14)
        assert eo.vector_norm(x, ord=ord).dtype == eo.float64
        assert eo.testing.gradcheck(lambda t: eo.vector_norm(t, ord=ord), x)
        assert eo.testing.gradgradcheck(lambda t: eo.vector_norm(t, ord=ord), x)

    @pytest.mark.parametrize("ord", [2, 3, 1.5, -1, -3])
    @pytest.mark.parametrize("size", [1e-300, 1e300])
    def test_neither_overflow_nor_underflow(self, ord, size):
        expected = size * np.linalg.norm([3.0, 4.0], ord)
        assert eo.vector_norm(np.array([3.0, 4.0]) * size, ord=ord).item() == pytest.approx(
            expected, rel=1e-14
        )
        g = gradient(lambda t: eo.vector_norm(t, ord=ord), np.array([3.0, 4.0]) * size)
        np.testing.assert_allclose(g, gradient(lambda t: eo.vector_norm(t, ord=ord), [3.0, 4.0]), rtol=1e-14)

    @given(case=reducible())
    def test_axes(self, case):
        x, axis, keepdims = case
        found = eo.vector_norm(x, axis=axis, keepdims=keepdims)
        expected = np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-15)
        g = gradient(lambda t: eo.vector_norm(t, axis=axis, keepdims=keepdims), x)
        full = np.sqrt(np.sum(x * x, axis=axis, keepdims=True))
        np.testing.assert_allclose(g, x / np.where(full == 0, 1, full), rtol=1e-15)

    def test_smooth_function_of_the_norm_at_zero(self):
        g = gradient(lambda t: eo.exp(-(eo.vector_norm(t) ** 2)), [[0.0], [0.0]])
        np.testing.assert_array_equal(g, [[0], [0]])

    def test_zero_rows_beside_others(self):
        g = gradient(lambda t: eo.vector_norm(t, axis=1), [[0.0, 0.0], [3.0, 4.0]])
        np.testing.assert_array_equal(g, [[0, 0], [0.6, 0.8]])

    def test_nan_and_infinity(self):
        assert math.isnan(eo.vector_norm(np.array([nan, 1.0])).item())
        assert eo.vector_norm(np.array([inf, 1.0])).item() == inf
        assert eo.vector_norm(np.array([inf, 1.0]), ord=-1).item() == 1
        assert eo.vector_norm(np.array([0.0, 1.0]), ord=-1).item() == 0

    def test_integers_do_not_overflow(self):
        assert eo.vector_norm(np.array([100, 100], "int8")).item() == pytest.approx(math.sqrt(20000))

    @pytest.mark.parametrize("ord", ["fro", None, True, nan, 1j])
    def test_order_is_checked(self, ord):
        with pytest.raises(eo.DTypeError, match="order of a norm"):
            eo.vector_norm(eo.ones(2), ord=ord)

    def test_nothing(self):
        assert eo.vector_norm(eo.zeros(0)).item() == 0
        assert eo.vector_norm(eo.zeros((2, 0)), axis=1, ord=3).shape == (2,)
        assert eo.vector_norm(eo.zeros(0), ord=-1).item() == inf
        assert eo.vector_norm(eo.zeros(0), ord=inf).item() == 0
        with pytest.raises(eo.ShapeError):
            eo.vector_norm(eo.zeros(0), ord=-inf)


def test_average():
    x = np.arange(6.0).reshape(2, 3)
    assert eo.average(x).item() == 2.5
    for weights, axis in (([1.0, 3.0], 0), ([1.0, 2.0, 0.5], 1), (x + 1, None), (x + 1, 1)):
        w = np.asarray(weights)
        found = eo.average(eo.asarray(x), axis, eo.asarray(w))
        np.testing.assert_allclose(found.numpy(), np.average(x, axis, w), rtol=1e-15)
        assert eo.testing.gradcheck(lambda t, w, axis=axis: eo.average(t, axis, w), x, w)
    with pytest.raises(eo.ShapeError, match="weights do not fit"):
        eo.average(x, 0, np.ones(3))


def test_an_average_whose_weights_sum_to_zero():
    x = np.arange(6.0).reshape(2, 3)
    for weights, axis in ((np.zeros((2, 3)), None), ([1.0, -1.0], 0), ([[1, 2, -3], [1, 1, 1]], 1)):
        for w in (
            eo.asarray(np.asarray(weights, float)),
            eo.tensor(np.asarray(weights, float), requires_grad=True),
        ):
            with pytest.raises(eo.ArgumentError, match="sum to zero") as error:
                eo.average(x, axis, w)
            assert error.value.operation == "average"
    with pytest.raises(eo.ArgumentError, match="sum to zero"):
        eo.average(eo.zeros((0,)), weights=eo.zeros((0,)))
    assert eo.average(eo.zeros((2, 0)), 0, weights=eo.zeros((2, 0))).shape == (0,)
    assert np.isnan(eo.average(eo.ones(2), weights=eo.tensor([float("nan"), 1.0])).item())
    unknown = eo.compile(lambda w: eo.average(eo.ones(2), weights=w))
    with pytest.raises(eo.ArgumentError, match="sum to zero"):
        unknown(eo.zeros(2))
    with np.errstate(invalid="ignore"):
        assert np.isnan(eo.vmap(lambda w: eo.average(eo.ones(2), weights=w))(eo.zeros((1, 2))).item())


def test_truth():
    x = eo.tensor([[1.0, 0.0], [nan, 2.0]], requires_grad=True)
    np.testing.assert_array_equal(eo.all(x, axis=1).numpy(), [False, True])
    np.testing.assert_array_equal(eo.any(x == 0, axis=0, keepdims=True).numpy(), [[False, True]])
    assert eo.count_nonzero(x).item() == 3
    assert eo.all(x).dtype == eo.bool
    assert not eo.all(x).requires_grad


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "all", "any"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "int64", "float16", "float32", "complex64"])
def test_short_cuts_of_the_backend_are_numpys_functions(name, dtype):
    xp = eo.ones(1).backend.xp
    for x in (np.array([[3, 0, 1], [2, 0, 2]], dtype), np.array(1, dtype), np.ones((0, 2), dtype)):
        for axis in (None, (), *([0, 1, (0, 1), -1] if x.ndim else [])):
            if not x.size and name in ("max", "min"):
                continue
            found = getattr(xp, name)(x, axis=axis, keepdims=True)
            expected = getattr(np, name)(x, axis=axis, keepdims=True)
            np.testing.assert_array_equal(found, expected)
            assert np.asarray(found).dtype == np.asarray(expected).dtype


def test_broadcasting_short_cut_is_numpys_function():
    xp = eo.ones(1).backend.xp
    for x, shape in ((np.arange(3), (2, 3)), (np.float32(2), (2, 2)), (np.ones((0, 1)), (0, 4))):
        np.testing.assert_array_equal(xp.broadcast_to(x, shape), np.broadcast_to(x, shape), strict=True)
    for shape in ((3,), (3, 3), (1, 3, 2000)):
        with pytest.raises(ValueError, match=r"broadcast|more dimensions"):
            xp.broadcast_to(np.ones((1, 2)), shape)
    assert xp.broadcast_to(np.ones(1), (2000,)).strides == (0,)
