"""The keyword arguments of NumPy's functions on ours: NumPy's values, and derivatives by differences."""

import importlib.util
import pathlib

import numpy as np
import pytest

import everyo as eo
from everyo.testing import check_jvp, gradcheck, gradgradcheck

TOOL = pathlib.Path(__file__).parents[1] / "tools" / "numpy_signatures.py"
INF, NAN = float("inf"), float("nan")
M = np.array([[1.5, -2.0, 0.5], [3.0, 0.25, -1.0]])
MASK = np.array([[True, False, True], [True, True, False]])
ROW = np.array([True, False, True])
HOLES = np.array([[1.5, NAN, 0.5, 2.5], [3.0, 0.25, -1.0, NAN]])
KEEP = np.array([[True, True, False, True], [True, False, True, True]])
SYMMETRIC = np.array([[2.0, 0.5], [0.5, 1.0]])


def test_our_functions_have_numpys_arguments():
    spec = importlib.util.spec_from_file_location("numpy_signatures", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert list(tool.missing()) == []
    assert tool._lacking(np.sum, lambda x, /, axis=None: x) == [
        "dtype",
        "out",
        "keepdims",
        "initial",
        "where",
    ]


# Name: the call, in terms of the namespace and an array, and the array.
SMOOTH = {
    "sum where": (lambda np_, x: np_.sum(x, axis=1, where=MASK), M),
    "sum where broadcast": (lambda np_, x: np_.sum(x, where=ROW, keepdims=True), M),
    "sum initial": (lambda np_, x: np_.sum(x, axis=0, initial=2.0), M),
    "sum where True": (lambda np_, x: np_.sum(x, axis=0, where=True), M),
    "prod both": (lambda np_, x: np_.prod(x, axis=0, initial=-2.0, where=MASK), M),
    "prod initial": (lambda np_, x: np_.prod(x, axis=(0, 1), initial=3.0), M),
    "max initial": (lambda np_, x: np_.max(x, axis=0, initial=1.0), M),
    "max where": (lambda np_, x: np_.max(x, axis=1, initial=-INF, where=MASK, keepdims=True), M),
    "amin where": (lambda np_, x: np_.amin(x, axis=1, initial=INF, where=MASK), M),
    "min where": (lambda np_, x: np_.min(x, initial=0.75, where=MASK), M),
    "max of nothing": (lambda np_, x: np_.max(x[:0], axis=0, initial=4.0) + x[0], M),
    "mean where": (lambda np_, x: np_.mean(x, axis=0, where=MASK), M),
    "var where": (lambda np_, x: np_.var(x, axis=1, where=MASK), M),
    "var where keepdims": (lambda np_, x: np_.var(x, where=ROW, ddof=1, keepdims=True), M),
    "var mean": (lambda np_, x: np_.var(x, axis=1, mean=np_.mean(x, axis=1, keepdims=True)), M),
    "std where": (lambda np_, x: np_.std(x, axis=1, where=MASK), M),
    "std mean": (lambda np_, x: np_.std(x, axis=1, mean=np_.mean(x, axis=1, keepdims=True)), M),
    "nansum where": (lambda np_, x: np_.nansum(x, axis=1, initial=1.0, where=KEEP), HOLES),
    "nanprod where": (lambda np_, x: np_.nanprod(x, axis=1, initial=2.0, where=KEEP), HOLES),
    "nanmax where": (lambda np_, x: np_.nanmax(x, axis=1, initial=-INF, where=KEEP), HOLES),
    "nanmin initial": (lambda np_, x: np_.nanmin(x, axis=1, initial=0.0), HOLES),
    "nanmean where": (lambda np_, x: np_.nanmean(x, axis=1, where=KEEP), HOLES),
    "nanvar where": (lambda np_, x: np_.nanvar(x, axis=1, where=KEEP), HOLES),
    "nanstd where": (lambda np_, x: np_.nanstd(x, axis=1, where=KEEP, ddof=1), HOLES),
    "nanvar mean": (lambda np_, x: np_.nanvar(x, axis=1, mean=np_.nanmean(x, axis=1, keepdims=True)), HOLES),
    "average returned": (lambda np_, x: np_.average(x, axis=1, weights=x**2, returned=True), M),
    "average unweighted": (lambda np_, x: np_.average(x, axis=0, returned=True), M),
    "concatenate dtype": (lambda np_, x: np_.concatenate([x, x], axis=1, dtype="complex128").real, M),
    "concat dtype": (lambda np_, x: np_.concat([x, x], dtype="float64"), M),
    "stack dtype": (lambda np_, x: np_.stack([x, x], 1, dtype="float64"), M),
    "hstack dtype": (lambda np_, x: np_.hstack([x, x], dtype="float64"), M),
    "vstack dtype": (lambda np_, x: np_.vstack([x, x], dtype="float64"), M),
    "cov dtype": (lambda np_, x: np_.cov(x, dtype="float64"), M),
    "corrcoef dtype": (lambda np_, x: np_.corrcoef(x, dtype="float64"), M),
    "cross axes": (lambda np_, x: np_.cross(x, x.T[:, ::-1] * 2.0, axisb=0, axisc=0), M),
    "cross axisa": (lambda np_, x: np_.cross(x.T, x[::-1], axisa=0), M),
    "einsum dtype": (lambda np_, x: np.einsum("ij,kj->ik", x, x, dtype="complex128", order="F").real, M),
    "einsum lists dtype": (lambda np_, x: np.einsum(x, [0, 1], x, [2, 1], [0, 2], dtype="float64"), M),
    "vecdot axis": (lambda np_, x: np.vecdot(x, x * x, axis=0), M),
    "vecdot keepdims": (lambda np_, x: np.vecdot(x, x * x, axis=0, keepdims=True), M),
    "vecdot axes": (lambda np_, x: np.vecdot(x, x.T, axes=[0, 1]), M),
    "vecdot axes keepdims": (lambda np_, x: np.vecdot(x, x, axes=[0, 0, 0], keepdims=True), M),
    "matmul axes": (lambda np_, x: np.matmul(x, x * x, axes=[(1, 0), (0, 1), (1, 0)]), M),
    "matmul vector axes": (lambda np_, x: np.matmul(x, x[0] * x[1], axes=[(0, 1), 0, 0]), M),
    "matvec axes": (lambda np_, x: np.matvec(x, x * x, axes=[(1, 0), (0,), (0,)]), M),
    "vecmat axes": (lambda np_, x: np.vecmat(x * x, x, axes=[1, (1, 0), 1]), M),
    "fftn twice": (lambda np_, x: np_.fft.fftn(x, axes=(0, 1, 0)).real, M),
    "fftn twice lengths": (lambda np_, x: np_.fft.fftn(x, s=(3, 4), axes=(1, 1)).imag, M),
    "ifft2 twice": (lambda np_, x: np_.fft.ifft2(x, axes=(1, 1), norm="ortho").real, M),
    "rfftn twice": (lambda np_, x: np_.fft.rfftn(x, axes=(0, 1, 1)).real, M),
    "irfftn twice": (lambda np_, x: np_.fft.irfftn(x, axes=(1, 0, 1)), M),
    "einsum optimize": (lambda np_, x: np_.einsum("ij,kj->ik", x, x, optimize=True), M),
    "linspace retstep": (lambda np_, x: np_.linspace(x[0], 1.0, 5, retstep=True, endpoint=False), M),
    "meshgrid sparse": (lambda np_, x: np_.meshgrid(x[0], x[1, :2], sparse=True), M),
    "meshgrid ij": (lambda np_, x: np_.meshgrid(x[0], x[1, :2], sparse=True, indexing="ij"), M),
    "take wrap": (lambda np_, x: np_.take(x, [3, -4, 1], axis=1, mode="wrap"), M),
    "take clip": (lambda np_, x: np_.take(x, [7, -4, 1], mode="clip"), M),
    "trace dtype": (lambda np_, x: np_.trace(x, dtype="float64"), M),
    "svd hermitian": (lambda np_, x: np_.linalg.svd(x @ x.T, compute_uv=False, hermitian=True), SYMMETRIC),
    "pinv hermitian": (lambda np_, x: np_.linalg.pinv(x @ x.T, hermitian=True), SYMMETRIC),
    "quantile weights": (
        lambda np_, x: np_.quantile(x, [0.0, 0.3, 1.0], 1, weights=[2.0, 1.0, 1.0], method="inverted_cdf"),
        M,
    ),
    "percentile weights": (
        lambda np_, x: np_.percentile(x, 40, weights=abs(M), method="inverted_cdf", keepdims=True),
        M,
    ),
    "nanquantile weights": (
        lambda np_, x: np_.nanquantile(x, [0.2, 0.5, 1.0], axis=1, weights=KEEP + 0.5, method="inverted_cdf"),
        HOLES,
    ),
    "nanpercentile weights": (
        lambda np_, x: np_.nanpercentile(x, 60.0, axis=0, weights=KEEP + 0.5, method="inverted_cdf"),
        HOLES,
    ),
    "polyfit cov": (lambda np_, x: np_.polyfit(np.arange(6.0), x.reshape(-1), 2, cov=True), M),
    "polyfit unscaled": (
        lambda np_, x: np_.polyfit(np.arange(6.0), x.reshape(-1), 1, w=np.arange(1.0, 7.0), cov="unscaled"),
        M,
    ),
    "polyfit cov columns": (lambda np_, x: np_.polyfit(np.arange(3.0), x.T, 1, cov=True), M),
}


def parts(value):
    return value if isinstance(value, (tuple, list)) else (value,)


def array(value):
    return value.detach().numpy() if isinstance(value, eo.Tensor) else np.asarray(value)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", SMOOTH)
def test_values_are_numpys(name):
    call, x = SMOOTH[name]
    expected = parts(call(np, x))
    if name.startswith("trace"):
        assert len(expected) == 1
    for found in (call(eo, eo.tensor(x)), call(np, eo.tensor(x, requires_grad=True))):
        for f, e in zip(parts(found), expected, strict=True):
            assert isinstance(f, eo.Tensor)
            assert f.shape == np.shape(e)
            np.testing.assert_allclose(array(f), e, rtol=1e-12, atol=1e-14)


def of_filled(call, x):
    """Return a call as a function of the elements that are no NaN, and these."""
    known = ~np.isnan(x)
    places = np.flatnonzero(known)

    def function(values):
        flat = eo.put_along_axis(eo.tensor(x.ravel()), eo.tensor(places), values, 0)
        return tuple(parts(call(eo, flat.reshape(x.shape))))

    return function, x[known]


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_are_right(name):
    call, x = SMOOTH[name]
    f, values = of_filled(call, x)
    assert gradcheck(f, values)
    assert check_jvp(f, values)
    if "quantile" not in name and "percentile" not in name:
        assert gradgradcheck(f, values)


@pytest.mark.parametrize(
    "name", ["sum where", "max where", "var where", "std where", "mean where", "prod both"]
)
def test_they_map_and_compile(name):
    call, x = SMOOTH[name]
    wanted = array(call(eo, eo.tensor(x)))
    batch = eo.tensor(np.stack([x, 2 * x, x]))
    mapped = eo.vmap(lambda x: call(eo, x))(batch)
    np.testing.assert_allclose(mapped[2].numpy(), wanted, rtol=1e-14)
    compiled = eo.compile(lambda x: call(eo, x))(eo.tensor(x))
    np.testing.assert_allclose(compiled.numpy(), wanted, rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int64"])
def test_dtypes_and_empty_masks(dtype):
    x, none = np.ones((2, 3), dtype), np.zeros((2, 3), bool)
    for name in ("sum", "prod"):
        found = getattr(eo, name)(eo.tensor(x), axis=1, where=none)
        expected = getattr(np, name)(x, axis=1, where=none)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.numpy(), expected)
    mean = eo.mean(eo.tensor(x), axis=1, where=none)
    assert mean.dtype == np.mean(x).dtype
    assert np.isnan(mean.numpy()).all()
    for name in ("var", "std"):
        found = getattr(eo, name)(eo.tensor(x), axis=1, where=none)
        assert found.dtype == np.var(x).dtype
        assert np.isnan(found.numpy()).all()
        wanted = "float32" if dtype[0] != "c" else dtype
        assert getattr(eo, name)(eo.tensor(x), dtype=wanted).dtype == getattr(np, name)(x, dtype=wanted).dtype


def test_std_of_equal_elements_has_slope_0_there_too():
    x = eo.tensor([2.0, 7.0, 2.0], dtype=eo.float64, requires_grad=True)
    eo.std(x, where=[True, False, True]).backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_an_initial_tensor_has_a_gradient_and_shares_a_tie():
    for f, shares in ((eo.sum, (1, 1)), (eo.max, (0.5, 0.5))):
        x = eo.tensor([1.0, 3.0], requires_grad=True)
        first = eo.tensor(3.0, requires_grad=True)
        f(x, initial=first).backward()
        assert (x.grad[1].item(), first.grad.item()) == shares


def test_logical_reductions_of_a_part():
    x = eo.tensor([[1, 0, 2], [0, 0, 1]])
    assert eo.all(x, axis=1, where=MASK).tolist() == [True, False]
    assert eo.any(x, axis=0, where=~MASK).tolist() == [False, False, True]
    assert eo.all(x, where=False).item() is True


@pytest.mark.parametrize("name", ["max", "min", "nanmax", "nanmin"])
def test_an_extreme_of_a_part_needs_a_beginning(name):
    with pytest.raises(eo.ArgumentError, match="initial"):
        getattr(eo, name)(eo.ones((2, 3)), where=MASK)
    whole = eo.arange(4)
    assert getattr(eo, name)(whole, where=[False, True, True, False], initial=2).dtype == whole.dtype
    expected = getattr(np, name)(np.arange(4), where=[False, True, True, False], initial=2)
    assert getattr(eo, name)(whole, where=[False, True, True, False], initial=2).item() == expected


def test_nan_that_takes_part_stays():
    x = eo.tensor([1.0, NAN, 3.0])
    assert np.isnan(eo.sum(x, where=[True, True, False]).item())
    assert eo.sum(x, where=[True, False, True]).item() == 4.0
    assert np.isnan(eo.var(x, where=[True, True, False]).item())
    assert eo.nanvar(x, where=[True, True, False]).item() == 0.0


# ---- the others


def test_angle_in_degrees():
    z = eo.tensor([1j, -1.0 + 0j, 1 + 1j], requires_grad=True)
    found = eo.angle(z, deg=True)
    np.testing.assert_allclose(found.detach().numpy(), [90.0, 180.0, 45.0], rtol=1e-6)
    found[0].backward()
    np.testing.assert_allclose(z.grad[0].item(), -180 / np.pi, rtol=1e-6)
    np.testing.assert_allclose(np.angle(z, deg=True).detach().numpy(), [90.0, 180.0, 45.0], rtol=1e-6)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1), -1])
@pytest.mark.parametrize("trim", ["f", "b", "fb"])
def test_trim_zeros_of_matrices(axis, trim):
    x = np.array([[0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]])
    for points in (x, 0 * x):
        found = eo.trim_zeros(eo.tensor(points), trim, axis=axis)
        np.testing.assert_array_equal(found.numpy(), np.trim_zeros(points, trim, axis=axis))


def test_full_says_what_lstsq_says():
    x, y = np.arange(5.0), np.array([1.0, 2.0, 0.5, 4.0, 2.0])
    for found, expected in zip(eo.polyfit(x, y, 1, full=True), np.polyfit(x, y, 1, full=True), strict=True):
        np.testing.assert_allclose(array(found), expected, rtol=1e-12)
    with pytest.raises(eo.ArgumentError, match="too few points"):
        eo.polyfit(x[:2], y[:2], 1, cov=True)


def test_rank_of_a_hermitian_matrix():
    assert eo.linalg.matrix_rank(eo.ones((3, 3)), hermitian=True).item() == 1


def test_modes_of_take_are_three():
    with pytest.raises(eo.ArgumentError, match="mode"):
        eo.take(eo.ones(3), 0, mode="nearest")
    with pytest.raises(eo.IndexingError):
        eo.take(eo.ones(3), 4, mode="raise")


# ---- weighted quantiles


@pytest.mark.parametrize("q", [0.0, 0.1, 0.25, 0.5, 0.9, 1.0])
def test_integer_weights_are_repetitions(q):
    x, counts = np.array([3.0, 1.0, 2.0, 2.0, 5.0]), np.array([2, 0, 1, 3, 1])
    found = eo.quantile(x, q, weights=counts, method="inverted_cdf")
    assert found.item() == np.quantile(np.repeat(x, counts), q, method="inverted_cdf")


def test_equal_elements_share_a_weighted_quantile():
    x = eo.tensor([2.0, 1.0, 2.0, 5.0], requires_grad=True)
    weights = eo.tensor([1.0, 1.0, 2.0, 1.0], requires_grad=True)
    eo.quantile(x, 0.5, weights=weights, method="inverted_cdf").backward()
    assert x.grad.tolist() == [0.5, 0.0, 0.5, 0.0]
    assert weights.grad is None


def test_weighted_quantiles_beside_nan_and_of_nothing():
    weights = [1.0, 2.0, 1.0]
    assert np.isnan(
        eo.quantile(eo.tensor([1.0, NAN, 2.0]), 0.5, weights=weights, method="inverted_cdf").item()
    )
    void = eo.nanquantile(eo.tensor([NAN] * 3), 0.5, weights=weights, method="inverted_cdf")
    assert np.isnan(void.item())
    nothing = eo.quantile(eo.zeros((2, 0)), 0.5, axis=1, weights=eo.zeros(0), method="inverted_cdf")
    assert np.isnan(nothing.numpy()).all()
    assert nothing.shape == (2,)


def test_weighted_quantiles_map_and_compile():
    x = np.array([[3.0, 1.0, 2.0, 2.5], [1.0, 0.0, 4.0, -1.0]])
    weights = np.array([1.0, 2.0, 0.5, 1.0])

    def f(x):
        return eo.quantile(x, 0.6, axis=-1, weights=weights, method="inverted_cdf")

    expected = np.quantile(x, 0.6, axis=-1, weights=weights, method="inverted_cdf")
    for found in (f(eo.tensor(x)), eo.vmap(f)(eo.tensor(x)), eo.compile(f)(eo.tensor(x))):
        np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"weights": [1.0, 2.0]}, eo.ArgumentError, "inverted_cdf"),
        ({"weights": [1.0, -2.0], "method": "inverted_cdf"}, eo.ArgumentError, "negative"),
        ({"weights": [0.0, 0.0], "method": "inverted_cdf"}, eo.ArgumentError, "positive"),
        ({"weights": [1.0], "method": "inverted_cdf"}, eo.ShapeError, "weights do not fit"),
        ({"weights": [1j, 1.0], "method": "inverted_cdf"}, eo.DTypeError, "real"),
    ],
)
def test_what_weights_cannot_be(options, error, words):
    for function in (eo.quantile, eo.nanquantile, eo.percentile, eo.nanpercentile):
        if "nan" in function.__name__ and options["weights"] == [0.0, 0.0]:
            continue  # where all is left out the result is NaN
        with pytest.raises(error, match=words):
            function(eo.tensor([1.0, 2.0]), 0.5, **options)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "nanmax", "nanmin"])
def test_one_more_element_takes_the_dtype_of_the_others(name, dtype):
    one_more = [True, 3, 2.5, np.True_, np.float64(2.5), np.float32(1.5), np.int64(7), np.array(2.5)]
    for array in (np.ones(2, dtype), np.ones(0, dtype), np.ones((0, 3), dtype)):
        for initial in one_more:
            found = getattr(np, name)(eo.asarray(array), axis=0, initial=initial)
            wanted = getattr(np, name)(array, axis=0, initial=initial)
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found.numpy(), wanted)
        if dtype != "complex64":
            with pytest.raises(eo.DTypeError, match=f"{name}: complex elements would lose"):
                getattr(np, name)(eo.asarray(array), axis=0, initial=2j)


@pytest.mark.parametrize("name", ["max", "nanmin"])
def test_one_more_element_beside_integers_of_which_there_are_none(name):
    """As beside some: NumPy cuts its fraction off."""
    for array in (np.ones(2, "int8"), np.ones(0, "int8")):
        for initial, dtype in ((True, "int8"), (3, "int8"), (2.5, "float64"), (np.int64(7), "int64")):
            assert getattr(eo, name)(eo.asarray(array), initial=initial).dtype == dtype


def test_one_more_element_has_a_gradient_in_its_own_dtype():
    x = eo.ones(2, dtype=eo.float32)
    initial = eo.tensor(3.0, dtype=eo.float64, requires_grad=True)
    eo.max(x, initial=initial).backward()
    assert initial.grad.dtype == eo.float64
    assert initial.grad.item() == 1.0


def test_the_count_of_what_is_not_zero_counts_nan():
    array = np.array([[0.0, NAN, 2.0, INF], [0.0, -0.0, NAN, NAN]])
    wanted = np.linalg.vector_norm(array, ord=0, axis=1)
    for function in (lambda x: eo.vector_norm(x, axis=1, ord=0), lambda x: np.linalg.norm(x, 0, axis=1)):
        for call in (function, eo.compile(function), lambda x, f=function: eo.vmap(f)(x[None])[0]):
            np.testing.assert_array_equal(call(eo.asarray(array)).numpy(), wanted)
    complex_one = eo.tensor([complex(0, NAN), 0, 1])
    assert eo.vector_norm(complex_one, ord=0).item() == 2
    np.testing.assert_array_equal(eo.grad(lambda x: eo.vector_norm(x, ord=0))(eo.tensor([0.0, 2.0])), [0, 0])


KINDS = [
    "bool",
    "int8",
    "uint8",
    "int32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


@pytest.mark.parametrize("weights", KINDS)
@pytest.mark.parametrize("dtype", KINDS)
def test_averages_of_all_pairs_of_dtypes_are_numpys(dtype, weights):
    x, w = np.array([[1, 2, 0], [3, 1, 5]], dtype), np.array([[1, 0, 3], [4, 2, 1]], weights)
    if w.dtype.kind == "c":
        w += np.array([0.5j, -0.25j, 2j], weights)
    rtol = 1e-3 if "float16" in (dtype, weights) else 1e-6
    for axis, own in ((None, w), (0, w), (1, w), ((0, 1), w), (1, w[0])):
        found = np.average(eo.asarray(x), axis=axis, weights=eo.asarray(own), returned=True)
        for one, other in zip(found, np.average(x, axis=axis, weights=own, returned=True), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one.numpy(), other, rtol=rtol)


@pytest.mark.parametrize("values", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("weights", ["complex64", "complex128"])
def test_gradients_of_averages_with_complex_weights(values, weights):
    def norm(x, w):
        return eo.sum(abs(eo.average(x, axis=1, weights=w)) ** 2)

    x, w = np.array([[1.0, -2.0, 0.5]]), np.array([[1 + 0.5j, 2 - 1j, 0.25j]])
    assert eo.testing.gradcheck(lambda x, w: eo.average(x, axis=1, weights=w), x, w)
    assert eo.testing.gradgradcheck(lambda x, w: eo.average(x, axis=1, weights=w), x, w)
    wide = x.astype("complex128" if values == "complex128" else "float64")
    wanted = eo.grad(norm, argnums=(0, 1))(eo.asarray(wide), eo.asarray(w))
    for call in (eo.grad(norm, argnums=(0, 1)), eo.compile(eo.grad(norm, argnums=(0, 1)))):
        found = call(eo.asarray(x.astype(values)), eo.asarray(w.astype(weights)))
        for one, other, dtype in zip(found, wanted, (values, weights), strict=True):
            assert one.dtype == dtype
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5)


def test_weights_are_added_up_in_the_dtype_of_the_average():
    weights = np.full(70, 1000, np.float16)  # their sum is no float16
    assert np.average(eo.ones(70, dtype=eo.float64), weights=weights).item() == 1.0


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_squared_distances_are_not_computed_in_integers(name, dtype):
    for x in (M, np.array([1, 2, 9])):
        with pytest.raises(eo.DTypeError, match=f"{name}: this is not computed in integers"):
            getattr(np, name)(eo.asarray(x), dtype=dtype)


def test_a_mean_beside_nan_is_no_integer():
    with pytest.raises(eo.DTypeError, match="nanmean: this is not computed in integers"):
        np.nanmean(eo.asarray(HOLES), dtype="i4")
    assert np.nanmean(eo.asarray([1, 2]), dtype="i4").dtype == eo.int32


REAL_SUMS = ["sum", "mean", "prod", "cumsum", "cumprod", "nansum", "nanprod", "nancumsum", "nancumprod"]


@pytest.mark.parametrize("name", [*REAL_SUMS, "nanmean", "var", "std", "nanvar", "nanstd"])
def test_complex_elements_in_a_real_dtype_name_the_function(name):
    x = eo.asarray(M * 1j)
    with pytest.raises(eo.DTypeError, match=f"^{name}: complex elements would lose their imaginary part"):
        getattr(np, name)(x, dtype="f4")
    if "cum" not in name:
        with pytest.raises(eo.DTypeError, match=f"^{name}: complex elements would lose their imaginary part"):
            getattr(np, name)(x, dtype="f4", where=MASK)


@pytest.mark.parametrize("reps", [np.array([2, 1]), np.array([3]), np.array(2), np.int64(2), [2, 0]], ids=str)
def test_tile_takes_counts_as_an_array(reps):
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(np.tile(eo.tensor(x), reps).numpy(), np.tile(x, reps))


@pytest.mark.parametrize(
    "repeats", [True, False, np.array([True, False, True]), [True, False, False]], ids=str
)
def test_repeat_takes_booleans_as_counts(repeats):
    x = np.arange(3.0)
    np.testing.assert_array_equal(np.repeat(eo.tensor(x), repeats).numpy(), np.repeat(x, repeats))


def test_tile_and_repeat_still_refuse_fractions():
    for call in (lambda: eo.tile(eo.ones(3), np.array([1.5])), lambda: eo.repeat(eo.ones(3), 1.5)):
        with pytest.raises(eo.EveryOError):
            call()


@pytest.mark.parametrize("index", [(3,), (-1,), (1, 2), ((2, -1),), (np.int64(5),)], ids=str)
def test_item_takes_an_index(index):
    x = np.arange(12.0).reshape(3, 4)
    found = eo.tensor(x).item(*index)
    assert type(found) is float
    assert found == x.item(*index)


def test_item_refuses_an_index_that_is_not_there():
    x = eo.ones((2, 2, 1))
    for index, error in (((4,), eo.IndexingError), ((0, 1), eo.ShapeError), ((0.5,), eo.EveryOError)):
        with pytest.raises(error):
            x.item(*index)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.vecdot(x, x, axes=[0, 0, (0,)]),
        lambda x: np.vecdot(x, x, axes=0),
        lambda x: np.matmul(x, x.T, axes=[(0, 1), (0, 1)]),
        lambda x: np.matvec(x, x[0], axis=0),
        lambda x: np.matvec(x, x[0], keepdims=True),
        lambda x: np.vecdot(x, x, axis=5),
        lambda x: np.einsum("ij->i", x, dtype="float32"),
    ],
)
def test_axes_and_dtypes_that_do_not_fit(call):
    with pytest.raises((TypeError, ValueError)):  # NumPy refuses them too
        call(M)
    with pytest.raises(eo.EveryOError, match="remedy"):
        call(eo.tensor(M))
