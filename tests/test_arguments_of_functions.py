"""Arguments beside the first: weights along named axes, tensors as settings, results of their own."""

import numpy as np
import pytest

import everyo as eo
from everyo.errors import ArgumentError, DTypeError, GraphStateError, ShapeError, SignatureError

RNG = np.random.default_rng(5)
X, W = RNG.normal(size=(2, 3, 4)), RNG.uniform(0.5, 2.0, size=(4, 2))


@pytest.mark.parametrize("axis", [(2, 0), (-1, 0), (2, -3)])
def test_weights_belong_to_the_axes_in_the_order_of_their_names(axis):
    np.testing.assert_allclose(
        eo.average(X, axis=axis, weights=W).numpy(), np.average(X, axis, W), rtol=1e-14
    )
    slope = eo.grad(lambda w: eo.average(X, axis=axis, weights=w)[1])(eo.asarray(W)).numpy()
    expected = (X[:, 1].T - np.average(X, axis, W)[1]) / W.sum()
    np.testing.assert_allclose(slope, expected, rtol=1e-12)
    options = {"axis": axis, "weights": W, "method": "inverted_cdf"}
    for f in (eo.quantile, eo.nanquantile):
        np.testing.assert_array_equal(
            f(X, [0.2, 0.7], **options).numpy(), np.quantile(X, [0.2, 0.7], **options)
        )


@pytest.mark.parametrize("weights", [[0.0, 0.0, 0.0], [np.nan, 1.0, 1.0], [np.inf, 1.0, 1.0]])
@pytest.mark.parametrize("f", [eo.quantile, eo.nanquantile])
def test_weights_that_do_not_add_up(f, weights):
    x = np.array([1.0, 2.0, 5.0])
    with pytest.raises(ArgumentError, match="do not add up"):
        f(x, 0.5, weights=np.array(weights), method="inverted_cdf")


def test_weights_of_nothing_but_nan():
    x, w = np.array([[np.nan, np.nan], [1.0, np.nan]]), np.array([[0.0, 0.0], [2.0, np.nan]])
    found = eo.nanquantile(x, 0.5, axis=1, weights=w, method="inverted_cdf")
    np.testing.assert_array_equal(found.numpy(), [np.nan, 1.0])


@pytest.mark.parametrize(
    "f",
    [
        lambda c: eo.pad(np.ones(2), 1, constant_values=c),
        lambda c: eo.pad(np.ones(2), 1, constant_values=c.reshape(1, 2)),
        lambda c: eo.pad(np.ones(2), 1, "linear_ramp", end_values=c),
        lambda c: eo.nn.functional.layer_norm(np.arange(3.0), 3, eps=c[0]),
        lambda c: eo.renorm(np.ones((2, 2)), 2, 0, c[0]),
    ],
)
def test_a_setting_that_would_lose_its_gradient_is_refused(f):
    with pytest.raises(GraphStateError, match="plain number"):
        f(eo.tensor([5.0, 7.0], dtype="float64", requires_grad=True))
    with pytest.raises(GraphStateError):
        eo.grad(lambda c: f(c).sum())(eo.tensor([5.0, 7.0]))
    assert f(eo.tensor([5.0, 7.0])).shape


OWN = {
    "polyder": lambda x: eo.polyder(x, 0),
    "polyint": lambda x: eo.polyint(x, 0),
    "polydiv": lambda x: eo.polydiv(x, np.ones(4))[1],
    "pad": lambda x: eo.pad(x, [0, 0], constant_values=[1.0, 2.0]),
    "matrix_power": lambda x: eo.linalg.matrix_power(x.reshape(1, 3)[:, :1], 1),
    "matrix": lambda x: eo.linalg.matrix_power(x, 1) if x.ndim == 2 else x * 1,
    "histogram": lambda x: eo.histogram(np.ones(2), bins=x)[1],
    "histogramdd": lambda x: eo.histogramdd(np.ones((2, 1)), bins=[x])[1][0],
    "histogram_bin_edges": lambda x: eo.histogram_bin_edges(np.ones(2), x),
    "real_if_close": eo.real_if_close,
}


@pytest.mark.parametrize("name", OWN)
def test_a_result_is_never_the_argument_itself(name):
    def f(x):
        y = OWN[name](x)
        y += 10
        return (x * x).sum()

    x = eo.tensor([1.0, 2.0, 3.0], dtype="float64")
    for wrapped in (lambda f: f, eo.compile):
        assert wrapped(eo.grad(f))(x).tolist() == [2.0, 4.0, 6.0]
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_tolerances_may_be_tensors():
    x = eo.tensor([1.0, 2.0], dtype="float64")
    for f in (eo.isclose, np.isclose):
        assert f(x, x + 0.05, rtol=0, atol=eo.tensor([0.1, 0.01])).tolist() == [True, False]
        assert f(x, x + 0.05, rtol=eo.tensor(0.04, requires_grad=True), atol=0).tolist() == [False, True]
    assert eo.allclose(x, x, rtol=eo.tensor(0.1))


def test_probabilities_may_be_a_list_of_tensors():
    x = np.array([1.0, 2.0, 5.0])
    slope = eo.grad(lambda q: eo.quantile(x, [q, 1 - q]).sum())(eo.tensor(0.25, dtype="float64"))
    assert slope.item() == 2.0 - 6.0


def test_complex_numbers_have_no_order():
    z = np.array([1 + 2j, 3 - 1j])
    for f in (eo.segment_max, eo.segment_min):
        with pytest.raises(DTypeError, match="not ordered"):
            f(z, np.array([0, 1]), 2)


@pytest.mark.parametrize("f", [eo.sum, eo.mean, eo.prod, eo.cumsum, eo.cumprod, eo.nansum, eo.nanmean])
def test_a_dtype_that_drops_imaginary_parts_is_refused(f):
    with pytest.raises(DTypeError, match="imaginary part"):
        f(np.array([1 + 2j, 3 - 1j]), dtype=eo.float64)


def test_renorm_names_the_argument_that_is_wrong():
    with pytest.raises(ArgumentError, match="maxnorm"):
        eo.renorm(eo.ones((2, 2)), 2, 0, -1.0)


def test_logsumexp_of_weighted_terms():
    scipy_special = pytest.importorskip("scipy.special", reason="SciPy is the reference")
    x, b = RNG.normal(size=(3, 4)) * 3, RNG.uniform(size=(3, 4))
    b[0, 1] = 0
    for options in ({}, {"axis": 1}, {"axis": 0, "keepdims": True}, {"axis": (0, 1)}):
        expected = scipy_special.logsumexp(x, b=b, **options)
        np.testing.assert_allclose(eo.logsumexp(x, b=b, **options).numpy(), expected, rtol=1e-14)
    total = np.sum(b * np.exp(x))
    dx, db = eo.grad(lambda x, b: eo.logsumexp(x, b=b), argnums=(0, 1))(eo.asarray(x), eo.asarray(b))
    np.testing.assert_allclose(dx.numpy(), b * np.exp(x) / total, rtol=1e-13)
    np.testing.assert_allclose(db.numpy(), np.exp(x) / total, rtol=1e-13)
    eo.testing.gradgradcheck(lambda x, b: eo.logsumexp(x, 1, b), eo.asarray(x), eo.asarray(b[1]))
    huge = np.array([1000.0, 1001.0, 1300.0])
    found = eo.logsumexp(huge, b=np.array([1.0, 2.0, 0.0])).item()
    assert found == pytest.approx(1001 + np.log(2 + np.exp(-1)), rel=1e-15)
    assert eo.logsumexp(np.zeros((0,)), b=1.0).item() == -np.inf
    with np.errstate(divide="ignore"):
        assert eo.logsumexp(huge, b=0.0).item() == -np.inf
        slopes = eo.grad(lambda x, b: eo.logsumexp(x, b=b), argnums=(0, 1))(
            np.zeros(2), np.array([1.0, -1.0])
        )
    assert [s.tolist() for s in slopes] == [[np.inf, -np.inf], [np.inf, np.inf]]
    slopes = eo.grad(lambda x, b: eo.logsumexp(x, b=b), argnums=(0, 1))(np.full(2, -np.inf), np.ones(2))
    assert [s.tolist() for s in slopes] == [[0, 0], [0, 0]]
    assert eo.logsumexp(np.zeros(70000, "f2"), b=np.ones((), "f2")).dtype == eo.float16
    compiled = eo.compile(lambda x, b: eo.logsumexp(x, 1, b))
    np.testing.assert_allclose(compiled(x, b).numpy(), eo.logsumexp(x, 1, b).numpy(), rtol=1e-14)


@pytest.mark.parametrize("kind", [np.asarray, eo.asarray, tuple])
def test_positions_of_cuts_may_be_an_array(kind):
    x, places = np.arange(12.0).reshape(4, 3), kind([1, 3])
    for name in ("split", "array_split", "vsplit"):
        for f in (getattr(eo, name), getattr(np, name)):
            parts = f(eo.asarray(x), places)
            for ours, theirs in zip(parts, getattr(np, name)(x, [1, 3]), strict=True):
                np.testing.assert_array_equal(ours.numpy(), theirs)


def test_unscaled_covariances_of_several_columns():
    x, y = np.arange(5.0), RNG.normal(size=(5, 2))
    for values in (y, y[:, 0]):
        ours, theirs = (f(x, values, 1, cov="unscaled")[1] for f in (eo.polyfit, np.polyfit))
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-12)


def test_points_of_histograms_have_one_coordinate_of_each_axis():
    for f in (
        lambda: eo.histogram2d([1.0, 2.0], [1.0]),
        lambda: eo.histogramdd(np.ones((2, 2, 2))),
        lambda: eo.histogramdd([np.ones(2), np.ones(3)]),
    ):
        with pytest.raises(ShapeError):
            f()


@pytest.mark.parametrize("f", [eo.var, eo.std, eo.nanvar, eo.nanstd, eo.cov])
def test_two_names_of_one_parameter(f):
    with pytest.raises(ArgumentError, match="two names"):
        f(np.arange(4.0), correction=1, ddof=1)
    assert f(np.arange(4.0), correction=1).item() == f(np.arange(4.0), ddof=1).item()


@pytest.mark.parametrize("kind", [np.asarray, eo.asarray, list])
def test_places_of_partitions_may_be_an_array(kind):
    x = eo.asarray(np.array([3.0, 1.0, 2.0]))
    for f in (eo.partition, np.partition):
        assert f(x, kind([1, 2])).tolist() == [1, 2, 3]


def test_classes_among_the_arguments_are_named():
    x = eo.ones((2, 3), dtype=eo.float64)
    with pytest.raises(eo.EveryOError, match="dtype=float32"):
        np.einsum("ij->ji", x, dtype=np.float32)
    with pytest.raises(SignatureError, match="foo"):
        eo.sum(x, foo=np.float32)
