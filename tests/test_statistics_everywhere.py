"""Statistics, scans, searches and polynomials under every transformation: derivatives, vmap, compile."""

import math

import numpy as np
import pytest

import everyo as eo
from everyo.testing import check_jvp, gradcheck, gradgradcheck
from tests.compiling import agree
from tests.looping import close, looped

A, B = np.random.default_rng(1).uniform(0.2, 2.0, (2, 3, 4, 5))  # a batch of three (4, 5)
HOLES = np.where(np.random.default_rng(2).uniform(size=A.shape) < 0.25, np.nan, A)
KNOTS = np.sort(np.random.default_rng(3).uniform(0.0, 2.0, (3, 5)), axis=1)
TIES = np.random.default_rng(4).integers(0, 3, (3, 4, 5)).astype(float)
COUNTS = np.random.default_rng(5).integers(0, 4, (3, 6))
EDGES = [0.0, 0.5, 1.0, 1.5, 2.5]

# Functions of one example, and a batch of three examples.
FUNCTIONS = {
    "quantile": (lambda a: eo.quantile(a, [0.1, 0.5, 0.9], axis=1), A),
    "quantile of all": (lambda a: eo.quantile(a, 0.3), A),
    "quantile in q": (lambda a, q: eo.quantile(a, q[0] / 2.5, axis=0), A, B),
    "quantile hazen": (lambda a: eo.quantile(a, 0.4, axis=(0, 1), method="hazen"), A),
    "quantile lower": (lambda a: eo.quantile(a, 0.4, axis=0, method="lower", keepdims=True), A),
    "quantile of many": (lambda a: eo.quantile(a, list(np.linspace(0, 1, 70)), axis=0), A),
    "percentile": (lambda a: eo.percentile(a, 35, axis=1), A),
    "median": (lambda a: eo.median(a, axis=0), A),
    "average": (lambda a, b: eo.average(a, axis=0, weights=b), A, B),
    "cov": (lambda a: eo.cov(a), A),
    "cov of columns": (lambda a, b: eo.cov(a, b, rowvar=False, bias=True), A, B),
    "cov with weights": (lambda a, b: eo.cov(a, aweights=b[0], fweights=[1, 2, 0, 1, 3]), A, B),
    "corrcoef": (lambda a, b: eo.corrcoef(a, b)[0, 1:], A, B),
    "cumulative_sum": (lambda a: eo.cumulative_sum(a, axis=1, include_initial=True), A),
    "cumulative_prod": (lambda a: eo.cumulative_prod(a, axis=0, include_initial=True), A),
    "cummax": (lambda a: eo.cummax(a, 1).values, A),
    "cummin": (lambda a: eo.cummin(a).values, A),
    "cumulative_max": (lambda a: eo.cumulative_max(a, axis=0), A),
    "cumulative_min": (lambda a: eo.cumulative_min(a[0]), A),
    "logcumsumexp": (lambda a: eo.logcumsumexp(a, 1), A),
    "logcumsumexp flat": (lambda a: eo.logcumsumexp(a * 300 - 300), A),
    "diff": (lambda a, b: eo.diff(a, 2, 0, prepend=b[:1], append=1.0), A, B),
    "ediff1d": (lambda a, b: eo.ediff1d(a, to_begin=b[0], to_end=2.0), A, B),
    "gradient": (lambda a: eo.concat(eo.gradient(a, 0.5, edge_order=2)), A),
    "gradient on points": (lambda a, b: eo.gradient(a, eo.cumsum(b[0]), axis=1, edge_order=2), A, B),
    "gradient on points, first order": (lambda a, b: eo.gradient(a, eo.cumsum(b[0]), axis=1), A, B),
    "trapezoid": (lambda a, b: eo.trapezoid(a, eo.cumsum(b[0])), A, B),
    "trapezoid dx": (lambda a, b: eo.trapezoid(a, dx=b[0, 0], axis=0), A, B),
    "unwrap": (lambda a: eo.unwrap(a * 5), A),
    "interp": (lambda a, x, b: eo.interp(a, x, b[0]), A, KNOTS, B),
    "interp with ends": (lambda a, x, b: eo.interp(a, x, b[0], left=b[1, 0], right=-1.0), A, KNOTS, B),
    "interp periodic": (lambda a, x, b: eo.interp(a, x, b[0], period=1.7), A, KNOTS, B),
    "histogram": (lambda a, b: eo.histogram(a, EDGES, weights=b, density=True)[0], A, B),
    "histogram of range": (lambda a, b: eo.histogram(a, 4, range=(0, 2), weights=b)[0], A, B),
    "histogram edges": (lambda a: eo.histogram_bin_edges(a, 3), A),
    "histogramdd": (lambda a, b: eo.histogramdd([a[0], a[1]], [EDGES, EDGES], weights=b[0])[0], A, B),
    "bincount": (lambda b: eo.bincount([0, 3, 1, 3, 0], b[0], 6), B),
    "convolve": (lambda a, b: eo.convolve(a[0], b[0, :3], "same"), A, B),
    "correlate": (lambda a, b: eo.correlate(a[0, :3], b[0], "full"), A, B),
    "polyval": (lambda a, b: eo.polyval(b[0], a), A, B),
    "polymul": (lambda a, b: eo.polymul(a[0], b[0]), A, B),
    "polyadd": (lambda a, b: eo.polyadd(a[0], b[0, :2]), A, B),
    "polysub": (lambda a, b: eo.polysub(a[0, :2], b[0]), A, B),
    "polyder": (lambda a: eo.polyder(a[0], 2), A),
    "polyint": (lambda a, b: eo.polyint(a[0], 2, k=b[0, :2]), A, B),
    "polydiv": (lambda a, b: eo.concat(eo.polydiv(a[0], b[0, :3])), A, B),
    "polyfit": (lambda a, b: eo.polyfit(a[0], b[0], 2, w=b[1]), A, B),
    "poly": (lambda a: eo.poly(a[0]), A),
    "vander": (lambda a: eo.vander(a[0], 4), A),
    "block": (lambda a, b: eo.block([[a, b], [b[:1], a[:1]]]), A, B),
    "rot90": (lambda a: eo.rot90(a, 3), A),
    "apply_along_axis": (lambda a: eo.apply_along_axis(lambda v: v[::2] * eo.sum(v), 0, a), A),
    "apply_over_axes": (lambda a: eo.apply_over_axes(eo.prod, a, [0, 1]), A),
}
# Values that are no smooth points: differences make no sense there, transformations agree all the same.
ROUGH = {
    "nansum": (lambda a: eo.nansum(a, axis=0), HOLES),
    "nanprod": (lambda a: eo.nanprod(a, axis=0), HOLES),
    "nanmean": (lambda a: eo.nanmean(a, axis=1), HOLES),
    "nanvar": (lambda a: eo.nanvar(a, axis=1, correction=1), HOLES),
    "nanstd": (lambda a: eo.nanstd(a, keepdims=True), HOLES),
    "nanmax": (lambda a: eo.nanmax(a, axis=0), HOLES),
    "nanmin": (lambda a: eo.nanmin(a), HOLES),
    "nancumsum": (lambda a: eo.nancumsum(a, 0), HOLES),
    "nancumprod": (lambda a: eo.nancumprod(a, 1), HOLES),
    "nanquantile": (lambda a: eo.nanquantile(a, [0.2, 0.7], axis=1), HOLES),
    "nanmedian": (lambda a: eo.nanmedian(a, axis=0), HOLES),
    "nanpercentile": (lambda a: eo.nanpercentile(a, 10.0), HOLES),
    "quantile of ties": (lambda a: eo.quantile(a, [0.3, 0.5], axis=1), TIES),
    "cummax of ties": (lambda a: eo.cummax(a, 1).values, TIES),
    "interp at knots": (lambda a, x, b: eo.interp(x, x, b[0]), A, KNOTS, B),
}
DISCRETE = {
    "searchsorted": (lambda a, x: eo.searchsorted(x, a), A, KNOTS),
    "digitize": (lambda a, x: eo.digitize(a, x, right=True), A, KNOTS),
    "histogram": (lambda a: eo.histogram(a, EDGES)[0], A),
    "histogram in bins": (lambda a: eo.histogram(a, 3)[0], A),
    "isin": (lambda i, j: eo.isin(i, j[:2]), COUNTS, COUNTS[:, ::-1]),
    "cummax": (lambda a: eo.cummax(a, 1).indices, TIES),
    "nanargmax": (lambda a: eo.nanargmax(a, axis=1), np.where(np.arange(5) == 2, np.nan, A)),
    "nanargmin": (lambda a: eo.nanargmin(a), HOLES),
    "unravel_index": (lambda i: eo.stack(eo.unravel_index(i, (2, 3))), COUNTS),
    "ravel_multi_index": (lambda i, j: eo.ravel_multi_index((i, j), (4, 5)), COUNTS, COUNTS[:, ::-1]),
}
every = pytest.mark.parametrize("name", sorted({**FUNCTIONS, **ROUGH}))


def loss_of(function):
    def loss(*a):
        values = function(*a)
        return (values * eo.sin(eo.arange(values.size, dtype=eo.float64) + 1.0).reshape(values.shape)).sum()

    return loss


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_derivatives_against_differences(name):
    function, *batches = FUNCTIONS[name]
    points = [b[0] for b in batches]
    for check in (gradcheck, gradgradcheck, check_jvp):
        assert check(function, *points)


@every
def test_vmap_against_a_loop(name):
    function, *batches = {**FUNCTIONS, **ROUGH}[name]
    arguments = [eo.asarray(b) for b in batches]
    close(eo.vmap(function)(*arguments), looped(function, 3, batches), name)
    gradient = eo.grad(loss_of(function), argnums=tuple(range(len(batches))))
    close(eo.vmap(gradient)(*arguments), looped(gradient, 3, batches), name)
    for k in range(len(batches)):  # one argument alone has the batch
        axes = tuple(0 if i == k else None for i in range(len(batches)))
        values = [a if i == k else a[1] for i, a in enumerate(arguments)]
        repeated = [b if i == k else np.stack([b[1]] * 3) for i, b in enumerate(batches)]
        close(eo.vmap(gradient, in_axes=axes)(*values), looped(gradient, 3, repeated), name)


@every
def test_forward_mode_is_the_transpose_of_reverse_mode(name):
    function, *batches = {**FUNCTIONS, **ROUGH}[name]
    points = [eo.asarray(b[0]) for b in batches]
    tangents = [eo.asarray(np.cos(np.arange(p.size) + i).reshape(p.shape)) for i, p in enumerate(points)]
    loss = loss_of(function)
    _, forward = eo.jvp(loss, points, tangents)
    gradients = eo.grad(loss, argnums=tuple(range(len(points))))(*points)
    reverse = sum((g * t).sum().item() for g, t in zip(gradients, tangents, strict=True))
    np.testing.assert_allclose(forward.item(), reverse, rtol=1e-10, atol=1e-12)


@every
def test_compiled_against_eager(name):
    function, *batches = {**FUNCTIONS, **ROUGH}[name]
    points = [eo.asarray(b[0]) for b in batches]
    agree(eo.compile(function)(*points), function(*points), name, ulps=1e4)
    gradient = eo.grad(loss_of(function), argnums=tuple(range(len(points))))
    agree(eo.compile(gradient)(*points), gradient(*points), name, ulps=1e5)


@pytest.mark.parametrize("name", sorted(DISCRETE))
def test_discrete_functions(name):
    function, *batches = DISCRETE[name]
    arguments = [eo.asarray(b) for b in batches]
    close(eo.vmap(function)(*arguments), looped(function, 3, batches), name)
    points = [a[0] for a in arguments]
    agree(eo.compile(function)(*points), function(*points), name)
    leaves = [eo.tensor(b[0], requires_grad=b.dtype.kind == "f") for b in batches]
    assert not function(*leaves).requires_grad


SHAPED_BY_VALUES = {
    "unique": lambda v: eo.unique(v),
    "unique_values": lambda v: eo.unique_values(v),
    "unique_counts": lambda v: eo.unique_counts(v).counts,
    "unique_inverse": lambda v: eo.unique_inverse(v).values,
    "unique_all": lambda v: eo.unique_all(v).values,
    "bincount": lambda v: eo.bincount(v.astype(eo.int64)),
    "union1d": lambda v: eo.union1d(v, v + 1),
    "intersect1d": lambda v: eo.intersect1d(v, v),
    "setdiff1d": lambda v: eo.setdiff1d(v, v[:1]),
    "setxor1d": lambda v: eo.setxor1d(v, v[:1]),
    "histogram": lambda v: eo.histogram(v, "auto")[0],
}


@pytest.mark.parametrize("name", sorted(SHAPED_BY_VALUES))
def test_shapes_that_depend_on_values_are_refused(name):
    function = SHAPED_BY_VALUES[name]
    with pytest.raises(eo.UnsupportedOperationError, match="differs from example to example"):
        eo.vmap(function)(eo.asarray(A[0]))
    with pytest.raises(eo.CompileError, match="depends on values"):
        eo.compile(function)(eo.asarray(A[0, 0]))


def test_float32_stays_float32():
    for name, (function, *batches) in {**FUNCTIONS, **ROUGH}.items():
        points = [eo.tensor(b[0].astype("float32"), requires_grad=True) for b in batches]
        out = function(*points)
        assert out.dtype == eo.float32, name
        for p, g in zip(points, eo.autograd.grad(out.sum(), points, allow_unused=True), strict=True):
            assert g is None or (g.dtype, g.shape) == (eo.float32, p.shape), name


def test_the_quarter_of_a_circle():
    """The area under ``sqrt(1 - x**2)`` by the trapezoidal rule on points that crowd at the end."""
    t = np.linspace(0, math.pi / 2, 2001)
    area = eo.trapezoid(eo.cos(t), eo.sin(t))
    np.testing.assert_allclose(area.item(), math.pi / 4, rtol=1e-6)
