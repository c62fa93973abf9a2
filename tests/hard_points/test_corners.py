"""Derivatives at corners and far out: against mpmath, or the limit."""

import math

import mpmath as mp
import numpy as np
import pytest

import everyo as eo
from everyo import special

INF = math.inf


def compiled(f):
    return lambda *xs: eo.compile(f)(*xs)


def second(f):
    """Return the second derivatives of a function of a vector of two, as the modes give them."""
    return {
        "hessian": eo.hessian(f),
        "reverse over reverse": eo.jacrev(eo.grad(f)),
        "forward over forward": eo.jacfwd(eo.jacfwd(f)),
        "compiled": compiled(eo.hessian(f)),
    }


CORNERS = [
    ("xlogy", (0.0, 0.0), (0.0, INF, 0.0)),
    ("xlog1py", (0.0, -1.0), (0.0, INF, 0.0)),
    ("rel_entr", (0.0, 0.0), (INF, -INF, 0.0)),
    ("kl_div", (0.0, 0.0), (INF, -INF, 0.0)),
]


@np.errstate(all="ignore")
@pytest.mark.parametrize(("name", "point", "wanted"), CORNERS)
@pytest.mark.parametrize("way", ["hessian", "reverse over reverse", "forward over forward", "compiled"])
def test_products_with_logarithms_have_a_symmetric_hessian_at_their_corner(name, point, wanted, way):
    """The mixed entry is ``1 / x2``, or minus that, in its limit."""
    f = getattr(special, name)
    found = second(lambda v: f(v[0], v[1]))[way](eo.tensor(point, dtype=eo.float64)).numpy()
    xx, xy, yy = wanted
    np.testing.assert_array_equal(found[0, 1], xy)
    np.testing.assert_array_equal(found[1, 0], xy)
    np.testing.assert_array_equal(found[1, 1], yy)
    np.testing.assert_array_equal(found[0, 0], xx)


@pytest.mark.parametrize("r", [-1e8, 1e-3, 30.0, 1e4, 1e8, 1e12])
@pytest.mark.parametrize("order", [2, 3])
def test_higher_derivatives_of_pseudo_huber_have_all_digits(r, order):
    """The second one is ``(1 + (r / delta)**2) ** -1.5`` in r."""
    with mp.workdps(80):
        exact = float(
            mp.diff(lambda t: 4 * (mp.sqrt(1 + (t / 2) ** 2) - 1), mp.mpf(r), order, h=mp.mpf(10) ** -15)
        )

    def f(x):
        return special.pseudo_huber(2.0, x)

    derivative = f
    for _ in range(order):
        derivative = eo.grad(derivative)
    x = eo.tensor(r, dtype=eo.float64)
    for found in (derivative(x), eo.compile(derivative)(x)):
        assert math.isclose(found.item(), exact, rel_tol=1e-13)


@pytest.mark.parametrize("point", [(1.5, 0.5), (2.0, 1e5), (1e-3, 7.0), (3.0, -2.0)])
def test_second_derivatives_of_pseudo_huber_in_both(point):
    found = eo.hessian(lambda v: special.pseudo_huber(v[0], v[1]))(eo.tensor(point, dtype=eo.float64)).numpy()

    def exact(d, r):
        return d * d * (mp.sqrt(1 + (r / d) ** 2) - 1)

    with mp.workdps(60):
        for i, j, n in ((0, 0, (2, 0)), (0, 1, (1, 1)), (1, 0, (1, 1)), (1, 1, (0, 2))):
            wanted = float(mp.diff(exact, tuple(map(mp.mpf, point)), n))
            assert math.isclose(found[i, j], wanted, rel_tol=1e-13)


@pytest.mark.parametrize(("point", "d"), [(0.7, 3), (-0.5, 1), (0.2, 2), (0.5, 2), (-INF, 1)])
def test_multigammaln_has_no_slope_outside_of_its_domain(point, d):
    x = eo.tensor([point, 4.0], dtype=eo.float64)

    def f(x):
        return special.multigammaln(x, d)

    def chosen(x):
        return eo.sum(eo.where(x == 4.0, f(x), 0.0))

    for transform in (lambda f: f, eo.compile):
        assert math.isnan(transform(eo.grad(f))(x[0]).item())
        slopes = transform(eo.grad(chosen))(x).tolist()
        assert slopes[0] == 0.0
        assert math.isclose(slopes[1], sum(float(mp.digamma(4 - j / 2)) for j in range(d)), rel_tol=1e-14)
    assert math.isnan(eo.jvp(f, (x[0],), (eo.ones_like(x[0]),))[1].item())


@pytest.mark.parametrize("point", [(-2.5, 2.5), (-0.5, 0.5), (0.25, -1.25), (-1.75, -0.25), (250.5, -251.5)])
def test_derivatives_of_beta_where_it_is_zero(point):
    def f(v):
        return special.beta(v[0], v[1])

    x = eo.tensor(point, dtype=eo.float64)

    def exact(*n):
        with mp.workdps(60):
            return float(mp.diff(mp.beta, tuple(map(mp.mpf, point)), n))

    gradient, bend = [exact(1, 0), exact(0, 1)], [[exact(2, 0), exact(1, 1)], [exact(1, 1), exact(0, 2)]]
    for transform in (lambda f: f, eo.compile, eo.vmap):
        one = x[None] if transform is eo.vmap else x
        np.testing.assert_allclose(transform(eo.grad(f))(one).numpy().reshape(2), gradient, rtol=2e-13)
        np.testing.assert_allclose(transform(eo.hessian(f))(one).numpy().reshape(2, 2), bend, rtol=1e-11)
    both = eo.tensor([point, (2.0, 3.0)], dtype=eo.float64)
    found = eo.grad(lambda v: eo.sum(special.beta(v[:, 0], v[:, 1])))(both).numpy()
    ratio = [float(mp.beta(2, 3) * (mp.digamma(k) - mp.digamma(5))) for k in (2, 3)]
    np.testing.assert_allclose(found, [gradient, ratio], rtol=2e-13)


@pytest.mark.parametrize(
    ("point", "in_range"),
    [
        ((-150.125, 0.125), True),  # a zero far out, where the sine of the argument has lost digits
        ((1.0, -2.5), True), ((2.0, -3.75), True), ((-3.75, 2.0), True),  # the sines of these are 0
        ((1000.0, 1000.0), False), ((700.0, 900.0), False),  # no zeros, but beneath the range
    ],
)  # fmt: skip
def test_slopes_of_beta_beside_its_zeros(point, in_range):
    wanted = [0.0, 0.0]
    if in_range:
        with mp.workdps(60):
            wanted = [float(mp.diff(mp.beta, tuple(map(mp.mpf, point)), n)) for n in ((1, 0), (0, 1))]
    for transform in (eo.grad, eo.jacfwd):
        for wrap in (lambda f: f, eo.compile):
            f = transform(lambda v: special.beta(v[0], v[1]))
            found = wrap(f)(eo.tensor(point, dtype=eo.float64)).numpy()
            np.testing.assert_allclose(found, wanted, rtol=1e-14)


@pytest.mark.parametrize("x", [1e9, 1e10, 1e17, 1e150])
@pytest.mark.parametrize("v", [0, 1, 2.5])
def test_scaled_bessel_functions_have_slopes_far_out(x, v):
    """By the asymptotic series, DLMF 10.40.2."""
    with mp.workdps(60):
        size = mp.sqrt(mp.pi / 2 / mp.mpf(x))
        terms = [(4 * mp.mpf(v) ** 2 - 1) / 8, (4 * mp.mpf(v) ** 2 - 1) * (4 * mp.mpf(v) ** 2 - 9) / 128]
        wanted = float(
            -size
            * (1 / (2 * mp.mpf(x)) + sum(t * (k + 1.5) / mp.mpf(x) ** (k + 2) for k, t in enumerate(terms)))
        )
    for f in {0: [special.k0e], 1: [special.k1e]}.get(v, []) + [lambda x: special.kve(v, x)]:
        for transform in (lambda f: f, eo.compile):
            found = transform(eo.grad(f))(eo.tensor(x, dtype=eo.float64)).item()
            assert math.isclose(found, wanted, rel_tol=1e-13)


@pytest.mark.parametrize("x", [1e16, 1e17, 1e300, INF])
@pytest.mark.parametrize(("q", "wanted"), [(1.0, 0.0), (2.0, 0.0), (0.5, INF)])
def test_the_slope_of_zeta_far_out(x, q, wanted):
    """It is that of the first term, ``-log(q) q**-x``, and of the second one where q is 1."""
    found = eo.grad(lambda x: special.zeta(x, q))(eo.tensor(x, dtype=eo.float64)).item()
    assert found == wanted


@np.errstate(all="ignore")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("point", [1e12, -1e15, 1e100, 1e-20, 0.3, 3.0, INF])
@pytest.mark.parametrize("transform", [lambda f: f, compiled], ids=["eager", "compiled"])
def test_the_curvature_of_arctan_does_not_underflow_before_it_is_small(transform, point, dtype):
    x = eo.tensor(np.array(point, dtype))
    with mp.workdps(700):
        z = mp.mpf(x.item())
        exact = 0.0 if mp.isinf(z) else float(-2 * z / (1 + z * z) ** 2)

    def forward(f):
        return lambda x: eo.jvp(f, (x,), (eo.ones_like(x),))[1]

    for second in (eo.grad(eo.grad(eo.arctan)), forward(eo.grad(eo.arctan)), forward(forward(eo.arctan))):
        found = transform(second)(x).item()
        np.testing.assert_allclose(found, exact, rtol=8 * np.finfo(dtype).eps, atol=3e-45)
