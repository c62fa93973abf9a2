"""Calls of other libraries on tensors with a derivative: what the remedy says to write computes the same."""

import cmath
import itertools
import linecache
import math
import re
import statistics

import numpy as np
import pytest
import scipy
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.sparse
import scipy.spatial.distance
import scipy.special
import scipy.stats

import everyo as eo
from everyo.guidance import foreign, rules

VECTOR = np.array([0.3, 1.2, 2.5])
S = np.array([[3.0, 0.5, 0.2], [0.5, 2.0, 0.1], [0.2, 0.1, 4.0]])
L = np.array([[2.0, 0.0, 0.0], [0.3, 1.5, 0.0], [0.1, -0.4, 1.1]])
NAMES = {
    "np": np, "scipy": scipy, "math": math, "cmath": cmath, "statistics": statistics, "eo": eo,
    "S": S, "L": L,
    "w": np.array([0.7, -0.2]), "v": np.array([2.0, 1.0, 0.5, 3.0]), "double": np.vectorize(lambda t: 2 * t),
    "line": scipy.interpolate.interp1d([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 9.0]),
    "cubic": np.polynomial.Polynomial([1.0, -2.0, 0.0, 3.0], domain=[0, 3]), "ten": 10.0,
    "series": np.polynomial.Chebyshev([1.0, 0.5, 0.25]),
    "spline": scipy.interpolate.CubicSpline([0.0, 1.0, 2.0, 3.5], [0.0, 1.0, 4.0, 9.0]),
    "sparse": scipy.sparse.csr_array(S), "matrix": scipy.sparse.csr_matrix(S),
}  # fmt: skip
NUMBERS = itertools.count()
SAME_VALUE = """
math.log(x[0], 10)
math.log(x[0], ten)
math.log(2.0, x[1])
math.log(x[0])
math.hypot(x[0], x[1])
math.hypot(x[0], x[1], x[2])
math.dist(x, x + S[0])
math.isclose(x[0], x[0] + 1e-08)
math.isclose(x[0], x[0] * (1 + 1e-10))
math.isclose(x[0], x[1], abs_tol=1.0)
math.remainder(x[2], 0.7)
math.fsum([x[0], x[1]])
cmath.sqrt(-x[1])
cmath.log(x[1], 2)
cmath.rect(x[0], x[1])
statistics.fmean(x)
scipy.signal.correlate(x, w)
scipy.signal.correlate(x, v)
scipy.signal.correlate(v, x, "valid")
scipy.signal.correlate(v, x, mode="same")
scipy.signal.convolve(x, w)
scipy.signal.convolve(x, w, mode="same", method="direct")
scipy.signal.convolve(x, v, "same")
scipy.signal.fftconvolve(x, v, mode="full")
scipy.signal.convolve2d(S * x, L)
scipy.signal.convolve2d(S * x, L[:2], mode="valid")
scipy.signal.square(3 * x)
scipy.signal.square(3 * x, duty=0.2)
scipy.signal.sawtooth(3 * x)
scipy.linalg.cholesky(S * x[1])
scipy.linalg.cholesky(S * x[1], lower=True)
scipy.linalg.cholesky(S * x[1], True, check_finite=False)
scipy.linalg.cho_factor(S * x[1])[0].diagonal()
scipy.linalg.cho_solve((L, True), x)
scipy.linalg.qr(S * x, mode="economic")
scipy.linalg.qr((S * x)[:, :2])
scipy.linalg.qr(S * x, mode="r")[0]
scipy.linalg.eigh(S * x[1])[0]
scipy.linalg.eigvalsh(S * x[1])
scipy.linalg.svd(S * x, compute_uv=False)
scipy.linalg.solve_triangular(L * x[1], x, lower=True)
scipy.linalg.solve_triangular(L * x[1], x, 1, True)
scipy.linalg.toeplitz(x)
scipy.linalg.toeplitz(x, w)
scipy.linalg.solve(S * x, x, assume_a="gen")
scipy.linalg.inv(S * x)
scipy.linalg.expm(S * x / 9)
scipy.fft.fft(x)
scipy.fft.irfft(x, 5)
scipy.spatial.distance.cdist(S * x, L)
scipy.spatial.distance.cdist(S * x, L, "cityblock")
scipy.spatial.distance.cdist(S * x, L, metric="chebyshev")
scipy.spatial.distance.cdist(S * x, L, "minkowski", p=3)
scipy.spatial.distance.cdist(S * x, L, "sqeuclidean")
scipy.spatial.distance.pdist(S * x, "cityblock")
scipy.spatial.distance.pdist(S * x, "sqeuclidean")
scipy.spatial.distance.cosine(x, S[0])
scipy.integrate.trapezoid(x, dx=0.5)
scipy.integrate.cumulative_trapezoid(x, dx=0.5)
scipy.special.logsumexp(x)
scipy.special.softmax(S * x)
scipy.special.log_softmax(S * x, axis=0)
scipy.stats.norm.cdf(x)
scipy.stats.norm.ppf(x / 4, scale=2.0)
scipy.stats.norm.pdf(x, 0.5, 2.0)
scipy.stats.norm.logpdf(x, 1.0, scale=2.0)
scipy.stats.norm.logpdf(x)
scipy.stats.norm.sf(x, loc=1)
scipy.stats.expon.logpdf(x, scale=2.0)
scipy.stats.gamma.logpdf(x, 2.5, scale=1.5)
scipy.stats.gamma.cdf(x, 2.5)
scipy.stats.beta.logpdf(x / 4, 2.0, 3.0)
scipy.stats.chi2.cdf(x, 3)
scipy.stats.poisson.logpmf(2, x)
scipy.stats.zscore(S * x)
scipy.stats.zscore(S * x, axis=1, ddof=1)
scipy.ndimage.sum(x)
scipy.ndimage.variance(x)
double(x)
np.vectorize(abs)(x)
line(x)
cubic(x)
series(x)
list(np.nditer(x))
dict(np.ndenumerate(x))[1,]
""".strip().splitlines()


def line_of(text):
    """Return a function of x whose source messages can read."""
    name = f"<call {next(NUMBERS)}>"
    source = f"lambda x: {text}"
    linecache.cache[name] = (len(source), None, [source + "\n"], name)
    return eval(compile(source, name, "eval"), NAMES)


def remedy(text):
    function = line_of(text)
    with pytest.raises(eo.EveryOError) as caught:
        eo.grad(lambda x: eo.sum(eo.asarray(function(x))))(eo.asarray(VECTOR))
    return caught.value.remedy


@pytest.mark.parametrize("text", SAME_VALUE)
def test_what_is_written_instead_has_the_same_value(text):
    said = remedy(text)
    written = re.match(
        r"write (.*?)(?: \([a-z][^()]*\))? in place of (.*?)(?:; (?:for an array|x\.item).*)?$", said
    )
    assert written, said
    ours, theirs = written.groups()
    assert theirs in text.replace('"', "'")
    whole = text.replace('"', "'").replace(theirs, f"({ours})")
    found = line_of(whole)(eo.tensor(VECTOR, requires_grad=True))
    expected = line_of(text)(VECTOR)
    pairs = zip(found, expected) if isinstance(expected, (tuple, list)) else [(found, expected)]
    for mine, other in pairs:
        np.testing.assert_allclose(np.asarray(eo.asarray(mine).detach()), other, rtol=1e-12, atol=1e-13)


def test_functions_that_are_the_same_are_there():
    for namespaces in foreign.SAME.values():
        for namespace, functions in namespaces.items():
            for name in functions.split():
                assert callable(eval(f"{namespace}.{name}", {"eo": eo})), name


ALL = [foreign.DRAWS, foreign.DISTRIBUTIONS, foreign.CALLED, *foreign.RULES.values()]


@pytest.mark.parametrize("text", sorted({rule for table in ALL for rule in table.values()}))
def test_rules_name_what_is_there(text):
    assert rules.applied(text, None, {"owner": "owner", "path": "path"}, lambda part: None)
    for path in re.findall(r"\beo((?:\.[A-Za-z]\w*)+)", text):
        found = eo
        for part in path.removeprefix(".").split("."):
            found = getattr(found, part)
        assert callable(found) or path in (".pi", ".inf", ".complex128")


@pytest.mark.filterwarnings("ignore:.*of a tensor that requires grad:UserWarning")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("np.random.normal(x[0], x[1])", r"write x\[0\] \+ x\[1\] \* np\.random\.standard_normal\(\) in"),
        ("np.random.uniform(0.0, x)", r"write x \* np\.random\.random\(np\.shape\(x\)\) in"),
        ("np.random.poisson(x)", r"x\.detach\(\)"),
        ("sparse @ x", r"write eo\.asarray\(sparse\.toarray\(\)\) in place of sparse"),
        ("matrix * x", r"eo\.segment_sum\(c\.data \* x\[c\.col\], c\.row, c\.shape\[0\]\)"),
        (
            "spline(x)",
            r"eo\.vmap\(eo\.polyval, \(1, 0\)\)\(eo\.asarray\(spline\.c\)\[:, i\], x - ",
        ),
        ("scipy.linalg.eigh(S * x, S)", r"L = eo\.linalg\.cholesky\(S\)"),
        ("scipy.ndimage.gaussian_filter(S * x, 1)", r"eo\.conv2d"),
        ("scipy.ndimage.rotate(S * x, 30)", r"use eo\.custom_vjp around it"),
        ("scipy.stats.skew(x)", r"SCIPY_ARRAY_API=1"),
        ("statistics.fmean(x)", r"write eo\.mean\(x\)"),
    ],
)
def test_what_is_said_in_words(text, said, monkeypatch):
    monkeypatch.delenv("SCIPY_ARRAY_API", raising=False)
    assert re.search(said, remedy(text))


def test_what_is_said_in_words_computes_the_same():
    x, spline, b = eo.asarray(VECTOR), NAMES["spline"], S
    i = eo.searchsorted(spline.x[1:-1], x)
    found = eo.vmap(eo.polyval, (1, 0))(eo.asarray(spline.c)[:, i], x - eo.asarray(spline.x)[i])
    np.testing.assert_allclose(found.numpy(), spline(VECTOR), rtol=1e-14)
    c = NAMES["sparse"].tocoo()
    np.testing.assert_allclose(eo.segment_sum(c.data * x[c.col], c.row, c.shape[0]).numpy(), S @ VECTOR)
    a = S @ np.diag(VECTOR) @ S
    root = eo.linalg.cholesky(b)
    w, y = eo.linalg.eigh(eo.linalg.solve(root, eo.linalg.solve(root, a).mT))
    vectors = eo.linalg.solve(root.mT, y).numpy()
    np.testing.assert_allclose(w.numpy(), scipy.linalg.eigh(a, b)[0], rtol=1e-12)
    np.testing.assert_allclose(a @ vectors, b @ vectors * w.numpy(), atol=1e-12)


def test_the_same_name_of_another_meaning_is_not_proposed():
    for place, table in (
        ("scipy.signal", "square"),
        ("scipy.interpolate", "insert"),
        ("scipy.special", "jvp"),
    ):
        for functions in foreign.SAME.get(place, {}).values():
            assert table not in functions.split()
    assert "eo.interp" in remedy("scipy.interpolate.pchip_interpolate([0.0, 1.0], [0.0, 1.0], x)")
