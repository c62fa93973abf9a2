"""Special functions: SciPy's values, dtypes, transformations, errors. Hard points are in hard_points/."""

import mpmath
import numpy as np
import pytest
import scipy.special

import everyo as eo
from everyo import special

RNG = np.random.default_rng(7)
UNIT, POSITIVE, ANY = (0.05, 0.95), (0.3, 6.0), (-3.0, 3.0)
# Name: where each operand comes from.
FUNCTIONS = {
    "erf": [ANY], "erfc": [ANY], "erfinv": [(-0.9, 0.9)], "erfcinv": [(0.1, 1.9)], "erfcx": [ANY],
    "gammaln": [POSITIVE], "gamma": [POSITIVE], "digamma": [POSITIVE], "psi": [POSITIVE],
    "beta": [POSITIVE, POSITIVE], "betaln": [POSITIVE, POSITIVE],
    "gammainc": [POSITIVE, POSITIVE], "gammaincc": [POSITIVE, POSITIVE],
    "betainc": [POSITIVE, POSITIVE, UNIT],
    "i0": [ANY], "i1": [ANY], "i0e": [ANY], "i1e": [ANY], "j0": [ANY], "j1": [ANY], "y0": [POSITIVE],
    "y1": [POSITIVE], "expit": [ANY], "logit": [UNIT], "log_expit": [ANY], "log_ndtr": [ANY], "ndtr": [ANY],
    "ndtri": [UNIT], "xlogy": [ANY, POSITIVE], "xlog1py": [ANY, POSITIVE], "entr": [POSITIVE],
    "rel_entr": [POSITIVE, POSITIVE], "kl_div": [POSITIVE, POSITIVE], "zeta": [(1.5, 9.0), POSITIVE],
    "sinc": [ANY],
}  # fmt: skip
every_function = pytest.mark.parametrize("name", FUNCTIONS)
NUMPYS = {"sinc": np.sinc}


def operands(name, shape=(3, 4), dtype="float64"):
    return [RNG.uniform(low, high, shape).astype(dtype) for low, high in FUNCTIONS[name]]


def expected(name, arrays):
    reference = NUMPYS.get(name) or getattr(scipy.special, name)
    return reference(*(a.astype(float) for a in arrays))


@every_function
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-13), ("float32", 2e-5), ("float16", 2e-2)])
def test_values_and_gradients_in_the_precision_of_the_operands(name, dtype, rtol):
    arrays = operands(name, dtype=dtype)
    leaves = [eo.tensor(a, requires_grad=True) for a in arrays]
    found = getattr(special, name)(*leaves)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.detach().numpy(), expected(name, arrays), rtol=rtol, atol=rtol)
    eo.sum(found).backward()
    double = [eo.tensor(a.astype(float), requires_grad=True) for a in arrays]
    eo.sum(getattr(special, name)(*double)).backward()
    for leaf, wide in zip(leaves, double, strict=True):
        assert leaf.grad.dtype == dtype
        scale = np.abs(wide.grad.numpy()).max()
        np.testing.assert_allclose(leaf.grad.numpy(), wide.grad.numpy(), rtol=5 * rtol, atol=rtol * scale)


@every_function
def test_gradients_against_differences_under_vmap_and_compiled(name):
    f, arrays = getattr(special, name), operands(name)
    tensors = [eo.asarray(a) for a in arrays]
    argnums = tuple(range(len(arrays)))
    gradient = eo.grad(lambda *x: eo.sum(f(*x)), argnums=argnums)
    found = gradient(*tensors)
    step = 1e-6
    for i, g in enumerate(found):
        moved = [[a + s * step * (k == i) for k, a in enumerate(arrays)] for s in (1, -1)]
        ahead, behind = (expected(name, m) for m in moved)
        np.testing.assert_allclose(g.numpy(), (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-8)
    mapped = eo.vmap(eo.vmap(eo.grad(f, argnums=argnums)))(*tensors)
    for one, other in zip(mapped, found, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-14)
    for one, other in zip(eo.compile(gradient)(*tensors), found, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-13)


@every_function
def test_numbers_integers_and_empty_tensors(name):
    f = getattr(special, name)
    low = [1 if name != "zeta" or i else 2 for i in range(len(FUNCTIONS[name]))]
    if name in ("erfinv", "logit", "ndtri"):
        low = [0]
    integers = f(*(eo.tensor([n]) for n in low))
    assert integers.dtype == eo.float64
    np.testing.assert_allclose(
        integers.numpy(), expected(name, [np.array([n]) for n in low]), rtol=1e-14, atol=1e-15
    )
    assert f(*(0.5 if name != "zeta" else 2.0 for _ in low)).dtype == eo.float32
    empty = [eo.tensor(np.zeros((0, 2)), requires_grad=True) for _ in low]
    eo.sum(f(*empty)).backward()
    assert empty[0].grad.shape == (0, 2)


@pytest.mark.parametrize("name", [n for n, row in FUNCTIONS.items() if len(row) > 1])
def test_operands_broadcast(name):
    row, column = operands(name, (4,)), operands(name, (3, 1))
    arrays = [(row, column)[i % 2][i] for i in range(len(row))]
    leaves = [eo.tensor(a, requires_grad=True) for a in arrays]
    out = getattr(special, name)(*leaves)
    assert out.shape == (3, 4)
    eo.sum(out).backward()
    assert [x.grad.shape for x in leaves] == [a.shape for a in arrays]


def test_names_that_are_there_already():
    assert special.erf is eo.erf
    assert special.erfc is eo.erfc
    assert special.logsumexp is eo.logsumexp
    assert special.softmax is eo.softmax
    assert special.log_softmax is eo.log_softmax
    assert special.sinc is eo.sinc
    assert special.i0 is eo.i0
    assert special.psi is special.digamma


@pytest.mark.parametrize("d", [1, 2, 5])
def test_multigammaln_is_scipys(d):
    x = RNG.uniform(2.5, 9.0, 4)
    expected = scipy.special.multigammaln(x, d)
    np.testing.assert_allclose(special.multigammaln(eo.asarray(x), d).numpy(), expected, rtol=1e-13)
    found = eo.vmap(eo.grad(lambda t: special.multigammaln(t, d)))(eo.asarray(x))
    slopes = [sum(scipy.special.psi(v - j / 2) for j in range(d)) for v in x]
    np.testing.assert_allclose(found.numpy(), slopes, rtol=1e-13)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_polygamma_is_scipys(n):
    x = RNG.uniform(0.4, 9.0, (2, 3))
    np.testing.assert_allclose(
        special.polygamma(n, eo.asarray(x)).numpy(), scipy.special.polygamma(n, x), rtol=1e-13
    )
    assert special.polygamma(n, eo.ones(2)).dtype == eo.float32


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: special.polygamma(-1, eo.ones(2)), eo.ArgumentError),
        (lambda: special.polygamma(1.5, eo.ones(2)), eo.DTypeError),
        (lambda: special.multigammaln(eo.ones(2), 0), eo.ArgumentError),
        (lambda: special.gammaln(eo.tensor([1j])), eo.DTypeError),
        (lambda: special.betainc(eo.ones(2), 1.0, eo.tensor([0.5j, 0.1])), eo.DTypeError),
        (lambda: special.i0e(eo.tensor([1j])), eo.DTypeError),
        (lambda: special.beta(eo.ones(2), eo.ones(3)), eo.ShapeError),
    ],
)
def test_errors(call, error):
    with pytest.raises(error):
        call()


def test_zero_cotangents_meet_infinite_slopes():
    x = eo.tensor(np.array([0.0, 0.5]), requires_grad=True)
    eo.sum(eo.where(x > 0, special.logit(x), 0.0)).backward()
    assert x.grad.tolist() == [0.0, 4.0]


@pytest.mark.parametrize("size", [1, 40_000])
@pytest.mark.parametrize("transform", [lambda f: f, eo.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    ("f", "exact", "end"),
    [
        (eo.erfc, mpmath.erfc, 27.3),
        (special.ndtr, mpmath.ncdf, -38.6),
        (eo.gelu, lambda x: x * mpmath.ncdf(x), -38.6),
        (eo.grad(lambda x: eo.sum(eo.gelu(x))), lambda x: mpmath.ncdf(x) + x * mpmath.npdf(x), -38.7),
    ],
    ids=["erfc", "ndtr", "gelu", "slope of gelu"],
)
def test_normal_tails_down_to_the_least_numbers(f, exact, end, transform, size):
    x = np.append(np.linspace(0, end, 200), [1.2 * end, 1e200 * end])
    found = transform(f)(eo.asarray(np.resize(x, max(size, x.size)))).numpy()[: x.size]
    with mpmath.workdps(40):
        wanted = [float(exact(mpmath.mpf(p))) for p in x[:-1].tolist()] + [0.0]
    np.testing.assert_allclose(found, wanted, rtol=3e-13, atol=1e-322)


BOTH = pytest.mark.parametrize("transform", [lambda f: f, eo.compile], ids=["eager", "compiled"])
WIDE = [0.0] + [
    sign * size for sign in (1, -1) for size in (1e-300, 1e-20, 1e-8, 1e-3, 0.1, 1, 5, 20, 37, 40, 300, 700)
]


def logistic(x):
    return 1 / (1 + mpmath.exp(-x))


def assert_digits(found, exact, units):
    """Compare with numbers of many digits; those out of the range of ordinary numbers do not count."""
    for value, number in zip(found.tolist(), exact, strict=True):
        if 1e-305 < abs(number) < 1e305:
            assert abs(value - number) <= units * 2.3e-16 * abs(number), number


@BOTH
@pytest.mark.parametrize(
    ("f", "first", "second"),
    [
        (eo.softplus, logistic, lambda x: logistic(x) * logistic(-x)),
        (eo.log_sigmoid, lambda x: logistic(-x), lambda x: -logistic(x) * logistic(-x)),
        (
            lambda x: eo.softplus(x, beta=2.0),
            lambda x: logistic(2 * x),
            lambda x: 2 * logistic(2 * x) * logistic(-2 * x),
        ),
        (
            lambda x: eo.logaddexp(x, 0.5),
            lambda x: logistic(x - 0.5),
            lambda x: logistic(x - 0.5) * logistic(0.5 - x),
        ),
    ],
    ids=["softplus", "log_sigmoid", "softplus, beta 2", "logaddexp"],
)
def test_derivatives_of_smooth_kinks_have_all_digits(f, first, second, transform):
    def slope(x):
        return eo.grad(lambda x: eo.sum(f(x)))(x)

    def bend(x):
        return eo.grad(lambda x: eo.sum(slope(x)))(x)

    def moved(x):
        return eo.jvp(slope, (x,), (eo.ones_like(x),))[1]

    x = eo.asarray(np.array(WIDE))
    with mpmath.workdps(400):
        points = [mpmath.mpf(point) for point in WIDE]
        for function, exact in ((slope, first), (bend, second), (moved, second)):
            assert_digits(transform(function)(x).numpy(), [exact(point) for point in points], 4)


@BOTH
@pytest.mark.parametrize(
    ("f", "exact"),
    [
        (special.kl_div, lambda x, y: [mpmath.log(x / y), (y - x) / y, 1 / x, -1 / y, x / y**2]),
        (special.rel_entr, lambda x, y: [mpmath.log(x / y) + 1, -x / y, 1 / x, -1 / y, x / y**2]),
    ],
    ids=["kl_div", "rel_entr"],
)
def test_derivatives_of_relative_entropies_have_all_digits(f, exact, transform):
    sizes = np.array([1e-300, 1e-100, 1e-20, 1e-9, 0.1, 0.5, 0.999999, 1, 1.0000001, 2, 1e5, 1e20, 1e100])
    x, y = (side.ravel() for side in np.meshgrid(sizes, sizes))

    def slope(i):
        return lambda *pair: eo.grad(lambda *pair: eo.sum(f(*pair)), argnums=i)(*pair)

    def bend(i, j):
        return lambda *pair: eo.grad(lambda *pair: eo.sum(slope(i)(*pair)), argnums=j)(*pair)

    with mpmath.workdps(60):
        numbers = [exact(mpmath.mpf(p), mpmath.mpf(q)) for p, q in zip(x.tolist(), y.tolist(), strict=True)]
    expected = dict(zip(("x", "y", "xx", "xy", "yy"), zip(*numbers, strict=True), strict=True))
    functions = {"x": slope(0), "y": slope(1), "xx": bend(0, 0), "xy": bend(0, 1), "yy": bend(1, 1)}
    with np.errstate(all="ignore"):
        for name, function in functions.items():
            found = transform(function)(eo.asarray(x), eo.asarray(y)).numpy()
            assert_digits(found, expected[name], 4)
        turned = transform(bend(1, 0))(eo.asarray(x), eo.asarray(y)).numpy()
        assert_digits(turned, expected["xy"], 4)


@BOTH
@pytest.mark.parametrize("dtype", ["uint8", "int64", "bool"])
def test_gelu_of_integers(transform, dtype):
    x = np.array([0, 1, 200], dtype)
    expected = x * scipy.special.ndtr(x.astype(float))  # of small integers some versions give float32
    np.testing.assert_allclose(transform(eo.gelu)(eo.asarray(x)).numpy(), expected, rtol=1e-14)


@BOTH
def test_a_divergence_whose_quotient_overflows(transform):
    found = transform(special.kl_div)(
        eo.asarray(np.array([1e20, 1.0, 1.0])), eo.asarray(np.array([1e-300, 0.0, -1.0]))
    )
    np.testing.assert_allclose(found.numpy(), [1e20 * (320 * np.log(10) - 1), np.inf, np.inf], rtol=1e-14)


@BOTH
def test_the_slope_of_the_divergence_of_nothing(transform):
    """At (0, 0) it is 1 along the second axis, and keeps that."""
    x = eo.zeros(1, dtype=eo.float64)

    def slope(x, y):
        return eo.grad(lambda y: eo.sum(special.kl_div(x, y)))(y)

    with np.errstate(all="ignore"):
        assert transform(slope)(x, x).tolist() == [1.0]
        assert transform(lambda x: eo.grad(lambda y: eo.sum(slope(x, y)))(x))(x).tolist() == [0.0]


def test_rules_read_python_numbers():
    x = eo.tensor(0.5, dtype=eo.float64)
    for number, slope in ((0.25, np.log1p(0.25)), (1, np.log(2.0))):
        assert eo.grad(lambda t: special.xlog1py(t, number))(x).item() == slope  # noqa: B023
    assert eo.grad(lambda t: special.boxcox1p(1.0, t))(x).requires_grad is False
