"""Zero times infinity in the chain rule: every order of the two modes comes to the limit."""

import functools
import itertools
import math

import numpy as np
import pytest

import everyo as eo
from everyo.core.dispatch import apply
from everyo.core.registry import primitives
from everyo.core.repair import _STEEP


def reverse(f):
    return eo.grad(f)


def forward(f):
    return lambda x: eo.jvp(f, (x,), (eo.ones_like(x),))[1]


FIRST = {"reverse": reverse, "forward": forward, "jacfwd": eo.jacfwd, "jacrev": eo.jacrev}
SECOND = {
    "reverse over reverse": lambda f: reverse(reverse(f)),
    "forward over forward": lambda f: forward(forward(f)),
    "forward over reverse": lambda f: forward(reverse(f)),
    "reverse over forward": lambda f: reverse(forward(f)),
    "hessian": eo.hessian,
    "jacfwd twice": lambda f: eo.jacfwd(eo.jacfwd(f)),
}

# Functions whose first and second derivatives both tend to 0 far to the right; those named in LEFT also to
# the left.
FLAT = {
    "arctan": eo.arctan,
    "arcsinh": eo.arcsinh,
    "arccosh": eo.arccosh,
    "cbrt": eo.cbrt,
    "erf": eo.erf,
    "erfc": eo.erfc,
    "tanh": eo.tanh,
    "sigmoid": eo.sigmoid,
    "ndtr": eo.special.ndtr,
    "log_ndtr": eo.special.log_ndtr,
    "exp(-x*x)": lambda x: eo.exp(-x * x),
    "1/(1+x*x)": lambda x: 1 / (1 + x * x),
    "(1+x**2)**-2": lambda x: (1 + x**2) ** -2,
}
LEFT = set(FLAT) - {"arccosh", "log_ndtr"}
POINTS = [(name, sign) for name in FLAT for sign in (1, -1) if sign > 0 or name in LEFT]


@pytest.mark.parametrize("order", [*FIRST, *SECOND])
@pytest.mark.parametrize(("name", "sign"), POINTS)
def test_derivatives_at_infinity_are_their_limits(name, sign, order):
    x = eo.tensor(sign * math.inf, dtype=eo.float64)
    assert {**FIRST, **SECOND}[order](FLAT[name])(x).item() == 0.0


@pytest.mark.parametrize("derivative", FIRST.values(), ids=FIRST)
@pytest.mark.parametrize("f", [lambda x: 0.0 * eo.sqrt(x), lambda x: eo.sqrt(x) ** 2])
def test_an_infinite_slope_inside_a_slope_of_zero(f, derivative):
    assert derivative(f)(eo.tensor(0.0)).item() == 0.0


def test_only_the_elements_that_meet_zero_times_infinity_change():
    x = eo.tensor([0.0, 4.0, -1.0, math.nan], dtype=eo.float64)
    pushed = forward(lambda x: eo.sqrt(x) ** 2)(x).numpy()
    np.testing.assert_array_equal(pushed, [0.0, 1.0, math.nan, math.nan])


def test_a_nan_that_an_inner_level_makes_is_repaired_at_the_outer_one():
    """The outer tangent is 0 where the slope is infinite: nothing, although the inner level computes last."""

    def along(f, v):
        return lambda x: eo.jvp(f, (x,), (eo.tensor(v, dtype=eo.float64),))[1]

    x = eo.tensor([0.0, 1.0], dtype=eo.float64)
    second = along(along(eo.sqrt, [1.0, 1.0]), [0.0, 1.0])(x)
    assert second.tolist() == [0.0, -0.25]
    for twice in (eo.hessian, lambda f: eo.jacfwd(eo.jacfwd(f)), lambda f: eo.jacfwd(eo.jacrev(f))):
        assert twice(lambda x: eo.sqrt(x).sum())(x).tolist() == [[-math.inf, 0.0], [0.0, -0.25]]


@pytest.mark.parametrize("order", SECOND)
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_cbrt_bends_without_bound_at_zero(zero, order):
    """Its second derivative is -2/9 x**(-5/3)."""
    x = eo.tensor(zero, dtype=eo.float64)
    assert SECOND[order](eo.cbrt)(x).item() == -math.copysign(math.inf, zero)


@np.errstate(all="ignore")
@pytest.mark.parametrize("order", SECOND)
@pytest.mark.parametrize("end", [1.0, -1.0])
@pytest.mark.parametrize("name", ["arcsin", "arccos", "arctanh"])
def test_inverse_functions_bend_without_bound_at_the_ends(name, end, order):
    """Their second derivatives are x (1 - x**2)**(-3/2), minus that, and 2 x (1 - x**2)**(-2)."""
    sign = -end if name == "arccos" else end
    for function in (getattr(eo, name), lambda x: eo.compile(getattr(eo, name))(x)):
        assert SECOND[order](function)(eo.tensor(end, dtype=eo.float64)).item() == sign * math.inf


def test_a_slope_of_zero_inside_an_infinite_one():
    """The documented difference between the modes."""
    x = eo.tensor(0.0)
    assert math.isnan(reverse(lambda x: eo.sqrt(x * x))(x).item())
    assert forward(lambda x: eo.sqrt(x * x))(x).item() == 0.0


FINITE = (-1200.0, -1.0, 0.0, 1.0, 1200.0)
AT_INFINITY = {"arctan2", "hypot", "logaddexp", "logaddexp2", "tan"}  # repaired for infinite operands' sake


def slopes(primitive):
    """Return the derivatives of an elementwise operation at all points of a grid, as its rules say them."""
    operands = tuple(x.ravel() for x in np.meshgrid(*[np.array(FINITE)] * len(primitive.input_names)))
    params = {**(primitive.samples()[0].params if primitive.param_names else {}), **primitive.defaults}
    with np.errstate(all="ignore"):
        out = primitive.on(operands, params)
        for rule in primitive.vjp:
            if rule is not None:
                read = primitive.reader(rule, len(operands))(params, out, *operands)
                yield np.asarray(rule(np.ones_like(operands[0]), *read))


def test_programs_repair_what_has_an_infinite_slope_somewhere():
    elementwise = [p for p in primitives().values() if p.family == "elementwise"]
    steep = {p.name for p in elementwise if not all(np.isfinite(s).all() for s in slopes(p))}
    silent = {p.name for p in elementwise if p.silent}  # these are repaired anyway
    assert (steep | AT_INFINITY) - silent == _STEEP - silent
    assert not steep & AT_INFINITY


GRID = (-math.inf, -1200.0, -2.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1200.0, math.inf)


def lost_to_a_cotangent_of_zero(primitive, direction):
    """Return where a cotangent or tangent of 0 comes out as NaN although no operand is one."""
    values = GRID if len(primitive.input_names) < 3 else GRID[::3]
    grid = np.meshgrid(*[np.array(values)] * len(primitive.input_names))
    params = {**(primitive.samples()[0].params if primitive.param_names else {}), **primitive.defaults}
    rules = primitive.vjp if direction == "reverse" else primitive.jvp
    for i, rule in enumerate(rules):
        for place in zip(*(axis.ravel().tolist() for axis in grid), strict=True):
            if rule is None:
                continue
            operands = [eo.tensor(value, dtype=eo.float64) for value in place]

            def f(x, i=i, operands=operands):
                return apply(primitive, (*operands[:i], x, *operands[i + 1 :]), params)

            if direction == "reverse":
                x = operands[i].requires_grad_()
                out = f(x)
                moved = eo.autograd.grad(out, x, eo.zeros_like(out))[0]
            else:
                moved = eo.jvp(f, (operands[i],), (eo.zeros_like(operands[i]),))[1]
            if math.isnan(moved.item()):
                yield place


POINTWISE = sorted(name for name, p in primitives().items() if p.family == "elementwise")


@np.errstate(all="ignore")
@pytest.mark.parametrize("direction", ["reverse", "forward"])
@pytest.mark.parametrize("name", POINTWISE)
def test_a_cotangent_of_zero_is_nothing_also_where_no_flag_tells_of_a_nan(name, direction):
    """SciPy's functions return NaN, as digamma at -inf, without the flag that the engine watches for."""
    assert list(lost_to_a_cotangent_of_zero(primitives()[name], direction)) == []


@np.errstate(all="ignore")
def test_the_slope_of_gammaln_does_not_count_where_its_value_does_not():
    x = eo.tensor([-math.inf, -2.0, 0.5], dtype=eo.float64)

    def f(x):
        return eo.sum(eo.where(x > 0, eo.special.gammaln(x), 0.0))

    for g in (eo.grad(f), eo.vmap(eo.grad(f)), eo.jacfwd(f), eo.compile(eo.grad(f))):
        np.testing.assert_allclose(g(x).numpy(), [0.0, 0.0, -1.9635100260214235], rtol=1e-14)
    for h in (eo.hessian(f), eo.jacrev(eo.grad(f)), eo.jacfwd(eo.jacfwd(f))):
        np.testing.assert_allclose(h(x).numpy(), np.diag([0.0, 0.0, 4.934802200544679]), rtol=1e-14)


COMPLEX_POLES = {
    "arctan": (eo.arctan, [1j, -1j]),
    "arcsinh": (eo.arcsinh, [1j, -1j]),
    "arctanh": (eo.arctanh, [1.0, -1.0]),
    "arcsin": (eo.arcsin, [1.0, -1.0]),
    "log": (eo.log, [0.0]),
    "sqrt": (eo.sqrt, [0.0]),
    "reciprocal": (eo.reciprocal, [0.0]),
    "quotient": (lambda z: 1 / z, [0.0]),
}


@np.errstate(all="ignore")
@pytest.mark.parametrize("name", COMPLEX_POLES)
def test_a_pole_that_is_not_chosen_sends_nothing(name):
    """Beside a point where the slope is finite: backward, forward and compiled."""
    f, poles = COMPLEX_POLES[name]
    z = eo.tensor([*poles, 2.5], dtype=eo.complex128)
    chosen = eo.tensor([*(False for _ in poles), True])

    def loss(z):
        return eo.sum(eo.real(eo.where(chosen, f(z), 0)))

    slope = eo.jvp(f, (z[-1],), (eo.ones_like(z[-1]),))[1]
    wanted = [*(0.0 for _ in poles), np.conj(slope.numpy())]
    direction = eo.tensor([*(0.0 for _ in poles), 1.0], dtype=eo.complex128)
    for transform in (lambda f: f, eo.compile):
        np.testing.assert_allclose(transform(eo.grad(loss))(z).numpy(), wanted, rtol=1e-12)
        tangent = transform(lambda z: eo.jvp(f, (z,), (direction,))[1])(z)
        np.testing.assert_allclose(tangent.numpy(), np.conj(wanted), rtol=1e-12)


SINGULAR = {  # a function, and points where it has an infinite slope
    "entropy": (lambda p: eo.special.xlogy(p, p), [0.0]),
    "entr": (eo.special.entr, [0.0]),
    "xlogy": (lambda y: eo.special.xlogy(2.0, y), [0.0]),
    "xlog1py": (lambda y: eo.special.xlog1py(2.0, y), [-1.0]),
    "erfinv": (eo.special.erfinv, [-1.0, 1.0]),
    "erfcinv": (eo.special.erfcinv, [0.0, 2.0]),
    "ndtri": (eo.special.ndtri, [0.0, 1.0]),
    "logit": (eo.special.logit, [0.0, 1.0]),
    "gammaln": (eo.special.gammaln, [0.0, -1.0]),
    "gamma": (eo.special.gamma, [0.0]),
    "digamma": (eo.special.digamma, [0.0, -1.0]),
    "polygamma": (lambda x: eo.special.polygamma(1, x), [0.0]),
    "beta": (lambda a: eo.special.beta(a, 2.0), [0.0]),
    "betaln": (lambda a: eo.special.betaln(a, 2.0), [0.0]),
    "remainder": (lambda y: eo.remainder(1.0, y), [0.0]),
    "fmod": (lambda y: eo.fmod(1.0, y), [1e-320]),
    "rel_entr": (lambda y: eo.special.rel_entr(2.0, y), [0.0]),
    "kl_div": (lambda y: eo.special.kl_div(2.0, y), [0.0]),
    "logaddexp": (lambda x: eo.logaddexp(x, -math.inf), [-math.inf]),
}


@pytest.mark.parametrize("name", SINGULAR)
@np.errstate(all="ignore")
def test_a_value_that_is_not_taken_has_no_cotangent_in_programs(name):
    f, points = SINGULAR[name]
    x = eo.tensor([*points, 0.75], dtype="float64")

    def masked(x):
        return eo.where(x == 0.75, f(x), 0.0).sum()

    wanted = eo.grad(masked)(x).numpy()
    found = eo.compile(eo.grad(masked))(x).numpy()
    assert found[:-1].tolist() == wanted[:-1].tolist() == [0.0] * len(points)
    assert math.isclose(found[-1], wanted[-1], rel_tol=1e-13)
    moved = eo.compile(lambda x, t: eo.jvp(f, (x,), (t,))[1])(x, eo.zeros_like(x))
    assert moved.tolist() == [0.0] * len(x)


UNDEFINED = {  # a function, and a point outside of its domain
    "sqrt": (eo.sqrt, -1.0),
    "rsqrt": (eo.rsqrt, -1.0),
    "power": (lambda x: x**0.5, -1.0),
    "tan": (eo.tan, math.inf),
    "fmod": (lambda x: eo.fmod(1.0, x), 0.0),
    "gamma": (eo.special.gamma, -1.0),
    "erfinv": (eo.special.erfinv, 2.0),
    "erfcinv": (eo.special.erfcinv, -1.0),
    "ndtri": (eo.special.ndtri, -1.0),
    "ellipk": (eo.special.ellipk, 2.0),
    "k0": (eo.special.k0, -1.0),
    "y0": (eo.special.y0, -1.0),
    "spence": (eo.special.spence, -1.0),
    "expn": (lambda x: eo.special.expn(2, x), -1.0),
    "gammaincinv": (lambda x: eo.special.gammaincinv(2.0, x), -1.0),
    "betaincinv": (lambda x: eo.special.betaincinv(2.0, 1.5, x), -1.0),
    "inv_boxcox": (lambda x: eo.special.inv_boxcox(x, 0.5), -4.0),
}


@np.errstate(all="ignore")
@pytest.mark.parametrize("name", UNDEFINED)
@pytest.mark.parametrize("size", [1, 40000])
def test_a_result_that_is_nan_at_a_number_sends_nothing_where_it_is_not_taken(name, size):
    f, point = UNDEFINED[name]
    x = eo.tensor([point, *[0.3] * size], dtype=eo.float64)

    def loss(x):
        return eo.sum(eo.where(x == 0.3, f(x), 0.0))

    slope, bend = eo.grad(f)(x[-1]).item(), eo.grad(eo.grad(f))(x[-1]).item()
    wanted, wanted_bend = [0.0] + [slope] * size, [0.0] + [bend] * size
    for g in (eo.grad(loss), eo.compile(eo.grad(loss))):
        np.testing.assert_allclose(g(x).numpy(), wanted, rtol=1e-12)
    np.testing.assert_allclose(eo.vmap(eo.grad(loss))(x).numpy(), wanted, rtol=1e-12)
    ones = eo.ones_like(x)
    twice = eo.grad(lambda x: eo.sum(eo.grad(loss)(x)))(x), eo.jvp(eo.grad(loss), (x,), (ones,))[1]
    for found in twice:
        np.testing.assert_allclose(found.numpy(), wanted_bend, rtol=1e-12)


def test_a_nan_that_an_operand_holds_stays_where_the_rule_reads_it():
    x = eo.tensor([math.nan, 4.0], dtype=eo.float64)
    for f in (eo.exp, eo.log, eo.cbrt, eo.special.gamma):
        assert math.isnan(eo.grad(lambda x, f=f: eo.sum(eo.where(x > 0, f(x), 0.0)))(x)[0].item())


def composed(*steps):
    return lambda f: functools.reduce(lambda f, step: step(f), reversed(steps), f)


ORDERS = {  # every composition of the two modes that has two or three steps
    " over ".join(step.__name__ for step in steps): composed(*steps)
    for n in (2, 3)
    for steps in itertools.product((reverse, forward), repeat=n)
}
ALL_ORDERS = {**ORDERS, "hessian": eo.hessian, "jacrev(jacfwd)": lambda f: eo.jacrev(eo.jacfwd(f))}


@np.errstate(all="ignore")
@pytest.mark.parametrize("order", ALL_ORDERS)
@pytest.mark.parametrize("name", UNDEFINED)
def test_no_order_of_a_value_that_is_not_taken_is_nan(name, order):
    f, point = UNDEFINED[name]
    derivative = ALL_ORDERS[order]
    x = eo.tensor([point, 0.3], dtype=eo.float64)
    wanted = [0.0, derivative(f)(x[1]).item()]
    masked = derivative(lambda x: eo.where(x == 0.3, f(x), 0.0))
    np.testing.assert_allclose([masked(x[0]).item(), masked(x[1]).item()], wanted, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(eo.vmap(masked)(x).numpy(), wanted, rtol=1e-12, atol=1e-15)


@np.errstate(all="ignore")
@pytest.mark.parametrize("inner", [reverse, forward])
@pytest.mark.parametrize("outer", [*ORDERS, "reverse", "forward"])
@pytest.mark.parametrize("name", UNDEFINED)
def test_a_derivative_that_is_not_taken_sends_nothing(name, outer, inner):
    f, point = UNDEFINED[name]
    derivative = {**FIRST, **ORDERS}[outer]
    x = eo.tensor(point, dtype=eo.float64)
    assert derivative(lambda x: eo.where(x == 0.3, inner(f)(x), 0.0))(x).item() == 0.0


@np.errstate(all="ignore")
@pytest.mark.parametrize("order", ALL_ORDERS)
@pytest.mark.parametrize("name", ["sqrt", "rsqrt", "power", "gamma", "erfinv", "ndtri", "ellipk", "k0"])
def test_every_order_of_a_value_that_is_taken_is_nan_outside_of_the_domain(name, order):
    f, point = UNDEFINED[name]
    for x in (point, math.nan):
        assert math.isnan(ALL_ORDERS[order](f)(eo.tensor(x, dtype=eo.float64)).item())


UNDEFINED_PAIRS = {  # a function of two operands, and where it or a slope of it is not defined
    "power": (eo.power, (-1.0, 0.5)),
    "divide": (eo.divide, (0.0, 0.0)),
    "hypot": (eo.hypot, (math.inf, -math.inf)),
    "fmod": (eo.fmod, (1.0, 0.0)),
    "beta": (eo.special.beta, (0.0, -1.0)),
    "boxcox": (eo.special.boxcox, (-1.0, 0.5)),
    "inv_boxcox": (eo.special.inv_boxcox, (-1.0, 2.0)),
    "huber": (eo.special.huber, (-1.0, 1.0)),
    "pseudo_huber": (eo.special.pseudo_huber, (-1.0, 1.0)),
    "gammaincinv": (eo.special.gammaincinv, (2.0, -1.0)),
    "boxcox at 0": (eo.special.boxcox, (0.0, 2.0)),
    "gammainc at 0": (eo.special.gammainc, (0.0, 2.0)),
    "gammaincc at 0": (eo.special.gammaincc, (0.0, 2.0)),
    "hypot of the smallest": (eo.hypot, (1e-310, 1e-310)),
    "xlogy of the smallest": (eo.special.xlogy, (1e-310, 1e-310)),
}


@np.errstate(all="ignore")
@pytest.mark.parametrize("name", UNDEFINED_PAIRS)
@pytest.mark.parametrize("second", [*itertools.product((eo.jacrev, eo.jacfwd), repeat=2)])
def test_no_second_derivative_of_a_pair_that_is_not_taken_is_nan(name, second):
    f, pair = UNDEFINED_PAIRS[name]
    outer, inner = second
    points = eo.tensor([pair, (0.7, 0.6)], dtype=eo.float64)
    taken = eo.tensor([False, True])
    found = outer(inner(lambda v: eo.sum(eo.where(taken, f(v[:, 0], v[:, 1]), 0.0))))(points).numpy()
    wanted = np.zeros((2, 2, 2, 2))
    wanted[1, :, 1] = outer(inner(lambda v: f(v[0], v[1])))(points[1]).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-15)


SMALL = {"float32": (1e-20, 1e-30), "float64": (1e-160, 1e-200)}  # 1 / x**2 leaves the range


@pytest.mark.parametrize("order", [order for order in ALL_ORDERS if order.count("over") < 2])
@pytest.mark.parametrize(("dtype", "x"), [(dtype, x) for dtype, points in SMALL.items() for x in points])
def test_a_quotient_that_nothing_reads_sends_nothing_where_its_slope_overflows(dtype, x, order):
    x = eo.tensor([x, 4.0], dtype=dtype)
    for masked in (
        lambda x: eo.where(x > 1e-3, 3 / x, 0.0),
        lambda x: eo.fmin(3 / x, 1e3),
        lambda x: eo.stack([3 / x, eo.zeros_like(x)])[eo.astype(x < 1e-3, "int64")],
    ):
        derivative = ALL_ORDERS[order](masked)
        assert derivative(x[0]).item() == 0.0
        np.testing.assert_allclose(eo.vmap(derivative)(x).numpy(), [0.0, 3 / 32], rtol=1e-6)


AT_THE_SMALLEST = {"sqrt": eo.sqrt, "cbrt": eo.cbrt, "log": eo.log, "log2": eo.log2, "log10": eo.log10,
                   "logit": eo.special.logit, "x*log(x)": lambda x: x * eo.log(x)}  # fmt: skip


@pytest.mark.parametrize("name", AT_THE_SMALLEST)
@pytest.mark.parametrize("order", ["forward over reverse", "reverse over forward", "hessian"])
def test_the_smallest_numbers_send_nothing_where_they_are_not_taken(name, order):
    f = AT_THE_SMALLEST[name]
    x = eo.tensor(1e-310, dtype=eo.float64)
    assert ALL_ORDERS[order](lambda x: eo.where(x > 0.1, f(x), 0.0))(x).item() == 0.0


@np.errstate(all="ignore")
@pytest.mark.parametrize("f", [lambda x: x * eo.sqrt(x), lambda x: eo.exp(eo.sqrt(x))])
def test_an_operand_that_an_operation_made_nan(f):
    """The other documented difference between the modes."""
    x = eo.tensor(-1.0)
    assert math.isnan(reverse(lambda x: eo.where(x > 0, f(x), 0.0))(x).item())
    assert forward(lambda x: eo.where(x > 0, f(x), 0.0))(x).item() == 0.0
    safe = reverse(lambda x: eo.where(x > 0, f(eo.where(x > 0, x, 1.0)), 0.0))
    assert safe(x).item() == 0.0
