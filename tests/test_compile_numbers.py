"""Python numbers and special values in compiled functions: dtypes, limits, branches, long chains."""

import operator

import numpy as np
import pytest

import everyo as eo
from tests.compiling import agree, same

SINGLE = eo.asarray(np.array([1.0, 2.0, 3.0], np.float32))
SMALL = eo.asarray(np.array([1, 2, 3], np.int8))


def checked(f, *args):
    """Compare values and dtypes with eager code."""
    wanted, found = f(*args), eo.compile(f)(*args)
    assert found.dtype == wanted.dtype
    agree(found, wanted)


@pytest.mark.parametrize("number", [2.5, 3, True, 1 + 1j])
@pytest.mark.parametrize("x", [SINGLE, SMALL], ids=["float32", "int8"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, n: eo.stack([x.sum(), n]),
        lambda x, n: eo.full((2,), n),
        lambda x, n: eo.full_like(x * n, n),
        lambda x, n: eo.asarray([n, 1.0]),
        lambda x, n: eo.asarray(n) + 1,
        lambda x, n: (n * n + n) * x,
        lambda x, n: -n * x,
        lambda x, n: eo.scan(lambda c, t: (c * n, t * n), x * n, x)[1],
        lambda x, n: eo.fori_loop(0, 3, lambda i, c: c * n, x * n),
        lambda x, n: eo.fori_loop(0, 3, lambda i, c: c * 2, n),
        lambda x, n: eo.while_loop(lambda s: s[1] < 3, lambda s: (s[0] * n, s[1] + 1), (x * n, 0))[0],
        lambda x, n: eo.cond(x[0] > 0, lambda x: x * n, lambda x: x * n, x),
    ],
)
def test_a_number_takes_the_dtype_of_what_it_meets(f, x, number):
    checked(f, x, number)


def test_a_number_is_written_into_integers():
    def f(x, n):
        x = eo.clone(x)
        x[0] = n
        return x

    checked(f, SMALL, 5)
    checked(f, SMALL, 5.75)


@pytest.mark.parametrize("x", [SINGLE, SMALL], ids=["float32", "int8"])
def test_the_index_of_a_loop_is_a_number(x):
    def body(i, c):
        return c * i + c

    checked(lambda x: eo.fori_loop(0, 4, body, x), x)
    checked(lambda x, n: eo.fori_loop(n, n + 2, body, x), x, 1)
    checked(lambda x: eo.fori_loop(0, 3, lambda i, c: eo.where(i < 2, c + x[i], c), x), x)


def test_gradients_through_the_index_of_a_loop():
    x = eo.asarray(np.array([1.0, 2.0, 3.0]))
    f = eo.grad(lambda x: eo.fori_loop(0, 3, lambda i, c: c + i * x[i] ** 2, 0.0))
    np.testing.assert_array_equal(eo.compile(f)(x).numpy(), [0.0, 4.0, 12.0])


def test_complex_numbers_as_arguments():
    f = eo.compile(lambda x, n: x * n)
    np.testing.assert_array_equal(f(SINGLE, 1 + 2j).numpy(), np.array([1 + 2j, 2 + 4j, 3 + 6j], np.complex64))
    f(SINGLE, 2j)
    assert f.cache_info() == (1, 1, 1)


@pytest.mark.parametrize("n", [2**63, -(2**63) - 1, 2**70])
def test_an_integer_of_more_than_64_bits_is_refused(n):
    f = eo.compile(lambda x, n: x * n)
    with pytest.raises(eo.ArgumentError, match="outside the range of int64"):
        f(SINGLE, n)
    assert f(SINGLE, 2**62)[0].item() == 2.0**62


def test_an_integer_is_compared_with_narrower_ones_by_value():
    x = eo.asarray(np.array([0, 5, 255], np.uint8))
    f = eo.compile(lambda x, n: (x > n, x == n))
    for n, larger in ((-3, [True] * 3), (300, [False] * 3), (5, [False, False, True])):
        assert [r.tolist() for r in f(x, n)] == [larger, [False, n == 5, False]]


COMPARED = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
LONG = {
    np.int64: [0, -1, 2**53 + 1, 2**63 - 1, -(2**63)],
    np.uint64: [0, 5, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1],
    np.int8: [0, -1, 127, -128],
}


@pytest.mark.parametrize("kinds", [(np.int64, np.uint64), (np.uint64, np.int64), (np.int8, np.uint64)])
@pytest.mark.parametrize("compare", COMPARED)
def test_integers_with_and_without_sign_are_compared_exactly(compare, kinds):
    first, second = (LONG[kind] for kind in kinds)
    x, y = (np.array(LONG[kind], kind) for kind in kinds)
    found = eo.compile(compare)(eo.asarray(x[:, None]), eo.asarray(y))
    assert found.tolist() == [[compare(a, b) for b in second] for a in first]


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
@pytest.mark.parametrize("compare", COMPARED)
def test_long_integers_are_compared_with_numbers_exactly(compare, kind):
    x = eo.asarray(np.array(LONG[kind], kind))
    f = eo.compile(lambda x, n: (compare(x, n), compare(n, x)))
    for n in (
        -1,
        0,
        2**53 + 1,
        2**63 - 1,
        2**63,
        2**64 - 1,
        2**64,
        -(2**63),
        -(2**63) - 1,
        10**30,
        -(10**30),
    ):
        wanted = [[compare(a, n) for a in LONG[kind]], [compare(n, a) for a in LONG[kind]]]
        fixed = eo.compile(lambda x, n=n: (compare(x, n), compare(n, x)))
        assert [r.tolist() for r in fixed(x)] == wanted
        if -(2**63) <= n < 2**63:
            assert [r.tolist() for r in f(x, n)] == wanted


# ---- branches


def test_branches_that_do_not_fit_each_other_are_refused():
    x = eo.asarray(np.ones(3))
    with pytest.raises(eo.ShapeError):
        eo.compile(lambda x: eo.cond(x[0] > 0, lambda x: x, lambda x: x[:2], x))(x)
    with pytest.raises(eo.DTypeError):
        eo.compile(lambda x: eo.cond(x[0] > 0, lambda x: x, lambda x: x.astype(eo.float32), x))(x)


def test_a_number_that_a_branch_returns_takes_the_dtype_of_the_other():
    x = eo.asarray(np.array([0.1, 2.0]))
    f = eo.compile(lambda x: eo.cond(x[0] > 1, lambda x: x[1], lambda x: 0.1, x))
    assert (f(x).dtype, f(x).item(), f(x * 20).item()) == (eo.float64, 0.1, 40.0)
    g = eo.compile(eo.grad(lambda x: eo.cond(x[0] < 1, lambda x: x[1] ** 2, lambda x: 0, x)))
    assert [g(x).tolist(), g(x * 20).tolist()] == [[0.0, 4.0], [0.0, 0.0]]


# ---- special values


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_quotients_by_infinities_and_zeros(dtype):
    """By Python's rule: rounded down, with the sign of zero of the exact quotient."""
    ends = np.array([3.0, -3.0, 0.0, -0.0, np.inf, -np.inf, np.nan], dtype)
    a, b = np.meshgrid(ends, ends)
    with np.errstate(all="ignore"):
        found = eo.compile(lambda a, b: a // b)(eo.asarray(a), eo.asarray(b)).numpy()
        wanted = np.floor_divide(a, b)
    np.testing.assert_array_equal(found, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(wanted)[numbers])


def test_the_angle_of_negative_zero():
    x = eo.asarray(np.array([0.0, -0.0, -1.0, np.nan, -np.inf]))
    np.testing.assert_array_equal(eo.compile(eo.angle)(x).numpy(), [0.0, np.pi, np.pi, np.nan, np.pi])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_floats_as_unsigned_integers(dtype):
    x = np.array([0.0, 3.75, 2.0**62, 2.0**63, 1.5 * 2.0**63], dtype)
    found = eo.compile(lambda x: x.astype(eo.uint64))(eo.asarray(x))
    assert found.tolist() == [0, 3, 2**62, 2**63, 2**63 + 2**62]


ENDS = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize(
    ("f", "wanted"),
    [
        (lambda x: eo.special.xlogy(x * 0, x), [0.0, 0.0, 0.0, 0.0, np.nan, np.nan, np.nan]),
        (lambda x: eo.special.xlogy(0.0, x), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, np.nan]),
        (eo.special.entr, [0.0, 0.0, 0.0, -np.inf, -np.inf, -np.inf, np.nan]),
        (eo.nan_to_num, [0.0, 0.0, 1.0, -1.0, np.finfo(float).max, np.finfo(float).min, 0.0]),
        (lambda x: eo.nan_to_num(x, nan=2.0, posinf=3.0, neginf=-4.0), [0.0, 0.0, 1.0, -1.0, 3.0, -4.0, 2.0]),
    ],
    ids=["xlogy", "xlogy of 0", "entr", "nan_to_num", "nan_to_num by numbers"],
)
def test_functions_at_zeros_infinities_and_nan(f, wanted):
    np.testing.assert_array_equal(eo.compile(f)(eo.asarray(ENDS)).numpy(), wanted)


def test_half_precision_has_its_own_largest_numbers():
    x = eo.asarray(np.array([np.inf, -np.inf, np.nan, 65504.0], np.float16))
    assert eo.compile(eo.nan_to_num)(x).tolist() == [65504.0, -65504.0, 0.0, 65504.0]
    assert eo.compile(lambda x: eo.nan_to_num(x, nan=1.0, posinf=2.0))(x).tolist() == [
        2.0,
        -65504.0,
        1.0,
        65504.0,
    ]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_sign_of_zeros(dtype):
    x = eo.asarray(np.array([0.0, -0.0, -3.0, np.nan, 2.0], dtype))
    found = eo.compile(eo.sign)(x).numpy()
    np.testing.assert_array_equal(found, np.array([0.0, 0.0, -1.0, np.nan, 1.0], dtype))
    assert not np.signbit(found[:2]).any()


def test_negative_zero_of_half_precision_stays():
    found = eo.compile(eo.relu)(eo.asarray(np.array([-0.0, 0.0, np.nan, 1.0, -1.0], np.float16))).numpy()
    np.testing.assert_array_equal(found, np.array([0.0, 0.0, np.nan, 1.0, 0.0], np.float16))
    assert np.signbit(found).tolist() == [True, False, bool(np.signbit(found[2])), False, False]


def test_the_logit_next_to_one_half():
    """4 d up to the third order of the distance d."""
    d = np.array([2.0**-30, -(2.0**-40)])
    np.testing.assert_allclose(eo.compile(eo.special.logit)(eo.asarray(0.5 + d)).numpy(), 4 * d, 1e-15)


def test_the_sine_of_many_half_turns():
    x = 2.0**20 + np.array([0.25, 0.5, 1.0])
    wanted = np.array([np.sqrt(0.5), 1.0, 0.0]) / (np.pi * x)
    np.testing.assert_allclose(eo.compile(eo.sinc)(eo.asarray(x)).numpy(), wanted, 1e-15, 1e-22)


def test_a_double_is_rounded_to_half_precision_once():
    """By way of single precision a little more than half a unit would be none."""
    unit = 2.0**-10
    x = np.array([1 + unit / 2 + 2.0**-30, 1 + unit / 2, 1 + 1.5 * unit, -1 - unit / 2 - 2.0**-30])
    found = eo.compile(lambda x: x.astype(eo.float16))(eo.asarray(x))
    assert found.tolist() == [1 + unit, 1.0, 1 + 2 * unit, -1 - unit]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_functions_of_small_integers_are_rounded_to_half_precision(dtype):
    limits = np.iinfo(dtype)
    x = np.arange(limits.min, limits.max + 1).astype(dtype)
    with np.errstate(all="ignore"):
        roots, powers = eo.compile(lambda x: (eo.sqrt(x), eo.exp(x)))(eo.asarray(x))
        assert roots.dtype == powers.dtype == eo.float16
        np.testing.assert_array_equal(roots.numpy(), np.sqrt(x.astype(float)).astype(np.float16))
        np.testing.assert_array_equal(powers.numpy(), np.exp(x.astype(float)).astype(np.float16))


# ---- long chains


@pytest.mark.parametrize(
    "step",
    [
        lambda x: eo.roll(x, 1, axis=0),
        lambda x: x[::-1],
        lambda x: eo.concat([x[1:], x[:1]]),
        lambda x: eo.pad(x, [(1, 0)])[1:],
    ],
)
def test_long_chains_of_views(step):
    def f(x):
        for _ in range(150):
            x = step(x)
        return x

    same(f, eo.asarray(np.arange(4.0)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_power_by_a_half_that_an_argument_brings_is_a_root(dtype):
    """As in NumPy and eager code, for one exponent of all elements; one of each has pow's values."""
    x = eo.asarray(np.array([-0.0, -np.inf, 4.0, -1.0], dtype))
    power = eo.compile(lambda x, k: x**k)
    for half in (0.5, eo.asarray(dtype(0.5))):
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(power(x, half).numpy(), [-0.0, np.nan, 2.0, np.nan])
        assert np.signbit(power(x, half).numpy()[0])
    found = power(x, eo.full((4,), 0.5, dtype=x.dtype)).numpy()
    np.testing.assert_array_equal(found, [0.0, np.inf, 2.0, np.nan])
    assert not np.signbit(found[0])
    np.testing.assert_array_equal(power(x, 2.0).numpy(), [0.0, np.inf, 16.0, 1.0])


@pytest.mark.parametrize("default", ["float32", "float64"])
@pytest.mark.parametrize(
    ("f", "args"),
    [
        (eo.grad(lambda k: k * k), (2.0,)),
        (eo.value_and_grad(lambda k: k * k), (2.0,)),
        (lambda k: eo.vjp(lambda k: k * k, k)[1](1.0), (2.0,)),
        (lambda k: eo.jvp(lambda k: k * k, (k,), (1.0,)), (2.0,)),
        (lambda k, t: eo.jvp(lambda k: k * k, (k,), (t,)), (2.0, 3.0)),
        (lambda k: eo.jacfwd(lambda k: k * k)(k), (2.0,)),
        (lambda k: eo.hessian(lambda k: k * k)(k), (2.0,)),
        (lambda k: eo.linearize(lambda k: k * k, k)[1](1.0), (2.0,)),
        (eo.grad(lambda k: eo.real(k) * 2), (2j,)),
        (lambda k: eo.maximum(k, 1), (2.0,)),
        (lambda k: eo.hypot(k, 1.0), (3,)),
        (lambda k, n: eo.where(True, k, n), (2.0, 1)),
        (lambda k: eo.maximum(k, True), (2.0,)),
        (lambda k: eo.logaddexp(k, 1), (2,)),
        (lambda k: eo.maximum(k, 1), (2,)),
        (lambda k: eo.special.xlogy(k, 2), (1.5,)),
        (lambda k: eo.clip(k, 0, 1), (1.5,)),
    ],
)
def test_numbers_alone_have_the_default_dtype(f, args, default):
    before = eo.get_default_dtype()
    eo.set_default_dtype(default)
    try:
        pairs = list(zip(as_tuple(f(*args)), as_tuple(eo.compile(f)(*args)), strict=True))
    finally:
        eo.set_default_dtype(before)
    for wanted, found in pairs:
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6)


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("n", [3, True, 2.5])
def test_points_up_to_a_number_have_the_default_dtype(n):
    f = lambda n: eo.linspace(0, n, 3)  # noqa: E731
    found = eo.compile(f)(n)
    assert found.dtype == f(n).dtype == eo.float32
    assert found.tolist() == [0.0, n / 2, n]


@pytest.mark.parametrize("k", [0.1 + 0.2j, 1e39 + 0j, 0.1, 3, True])
@pytest.mark.parametrize("name", ["real", "imag", "conjugate"])
def test_parts_of_a_number_are_numbers_of_64_bits(name, k):
    def f(x, k):
        part = getattr(k, name)
        return x * (part() if name == "conjugate" else part)

    for x in (eo.tensor([1.5], dtype=eo.complex128), eo.tensor([1.5], dtype=eo.float64)):
        found, wanted = eo.compile(f)(x, k), f(x, k)
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize(
    "f",
    [
        lambda x, k: x * 2 if k in {3} else x,
        lambda x, k: x * {3: 5}.get(k, 1),
        lambda x, k: x * {3: 5}[k],
    ],
)
def test_a_number_that_is_not_known_is_not_looked_up(f):
    assert f(eo.ones(2), 3).tolist() in ([2.0, 2.0], [5.0, 5.0])
    with pytest.raises(eo.CompileError, match="static_argnums"):
        eo.compile(f)(eo.ones(2), 3)
    assert eo.compile(f, static_argnums=1)(eo.ones(2), 3).tolist() == f(eo.ones(2), 3).tolist()


DIGITS = {
    "asarray": lambda x, k: eo.asarray(k, dtype="float64"),
    "tensor of lists": lambda x, k: eo.tensor([[k, 1], [2, k]], dtype="float64"),
    "full": lambda x, k: eo.full((2,), k, dtype="float64"),
    "full_like": lambda x, k: eo.full_like(x, k),
    "list": lambda x, k: x + [k, k, 1],
    "list of lists": lambda x, k: x * [[k], [1]],
    "lists alone": lambda x, k: eo.add([k, 1], [1, 2]),
    "list, not promoted": lambda x, k: eo.sin([k, 1]),
    "matmul": lambda x, k: x @ [k, 1, 2],
    "where": lambda x, k: eo.where(x > 1, [k, 1, 2], x),
    "clip": lambda x, k: eo.clip(x, [k, 1, 1], [0.1, 1, 2]),
    "concatenate": lambda x, k: eo.concatenate([x, [k]]),
    "polyval": lambda x, k: eo.polyval([k], x),
    "average": lambda x, k: eo.average(x, weights=[k, 1, 1]),
    "histogram": lambda x, k: eo.histogram(x, weights=[k, 1, 1])[0],
    "quantile": lambda x, k: eo.quantile(x, k / 4),
    "quantiles": lambda x, k: eo.quantile(x, [k / 4, 0.5]),
    "float_power": lambda x, k: eo.float_power(x, k),
    "scan": lambda x, k: eo.scan(lambda c, t: (c + t, c), k, x)[0],
    "fori_loop": lambda x, k: eo.fori_loop(0, 3, lambda i, c: c * x[0], k),
    "while_loop": lambda x, k: eo.while_loop(lambda c: c < 5, lambda c: c + x[0], k),
    "cond": lambda x, k: eo.cond(x[0] > 0, lambda k: x * k, lambda k: x + k, k),
    "a literal for cond": lambda x, k: eo.cond(x[0] > 0, lambda k: x * k, lambda k: x + k, 0.3),
}


@pytest.mark.parametrize("number", [0.3, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", DIGITS)
def test_a_number_keeps_the_digits_that_eager_code_has(name, dtype, number):
    x = eo.asarray(np.array([1.0, 2.0, 3.0], dtype))
    wanted, found = DIGITS[name](x, number), eo.compile(DIGITS[name])(x, number)
    agree(found, wanted, ulps=4)


BIG = 2**53 + 1  # float64 has no such number
WHOLE = {
    "remainder": lambda n: n % 2,
    "difference": lambda n: (n + 3) - n,
    "comparison": lambda n: (n + 1) == n,
    "quotient": lambda n: n // 3,
    "product": lambda n: -n * 2,
    "bits": lambda n: (n & 7, n | 8, n ^ 5, n >> 3, n << 2, ~n),
    "divmod": lambda n: divmod(n, 10),
    "divmod of a number": lambda n: divmod(10, n),
}


@pytest.mark.parametrize("name", WHOLE)
def test_integers_alone_are_computed_as_integers(name):
    found, wanted = eo.compile(WHOLE[name])(BIG), WHOLE[name](BIG)
    pairs = zip(found, wanted) if isinstance(wanted, tuple) else [(found, wanted)]
    for tensor, number in pairs:
        assert tensor.item() == number
        assert type(tensor.item()) is type(number)


FLOATS = [lambda a: divmod(a, 0.3), lambda a: divmod(7.1, a), lambda a: (round(a, 1), a // 0.3, a % 0.3)]


@pytest.mark.parametrize("number", [-7.5, 2.7])
@pytest.mark.parametrize("f", FLOATS)
def test_operators_of_floats_alone_are_those_of_python(f, number):
    for tensor, wanted in zip(eo.compile(f)(number), f(number), strict=True):
        assert tensor.dtype == "float64"
        np.testing.assert_allclose(tensor.item(), wanted, 1e-15)


@pytest.mark.parametrize("operation", [lambda n: n >> 1, lambda n: n & 3, lambda n: ~n, lambda n: n ^ True])
def test_bits_of_a_number_take_the_dtype_that_they_meet(operation):
    same(lambda x, n: x * operation(n), eo.ones(2), 5)


def test_a_loop_counts_in_integers():
    x = eo.tensor([0.3, -1.2, 2.0], dtype="float64")
    same(lambda x: eo.fori_loop(0, 3, lambda i, c: c + eo.cos(x) * ((i + BIG) % 2), x), x)


INDEXED = {
    "less one": lambda x, n: x[n - 1],
    "negative": lambda x, n: x[-n],
    "remainder": lambda x, n: x[n % 2],
    "quotient": lambda x, n: x[n // 2],
    "take": lambda x, n: eo.take(x, n - 1),
    "in a branch": lambda x, n: eo.cond(x.sum() > 0, lambda: x[n - 1] * 2, lambda: x[0]),
    "in a loop": lambda x, n: eo.fori_loop(0, n, lambda i, c: c * x[i - 1] + x[(i + 1) % 3], x[0]),
}


@pytest.mark.parametrize("name", INDEXED)
def test_computed_positions_are_integers_in_transformations_too(name):
    def f(x, n):
        y = INDEXED[name](x, n)
        return y * y

    x = eo.tensor([0.3, 1.2, 2.0], dtype="float64")
    compiled = eo.compile(f)
    wanted = eo.grad(f)(x, 2)
    agree(eo.grad(compiled)(x, 2), wanted)
    agree(eo.compile(eo.grad(f))(x, 2), wanted)
    agree(eo.jvp(lambda x: compiled(x, 2), (x,), (x,)), eo.jvp(lambda x: f(x, 2), (x,), (x,)))
    rows = eo.stack([x, x + 1])
    agree(eo.vmap(compiled, in_axes=(0, None))(rows, 2), eo.vmap(f, in_axes=(0, None))(rows, 2))


def test_a_number_keeps_its_digits_where_the_program_is_transformed():
    def f(x, m):
        return x * m

    compiled, third = eo.compile(f), 1 / 3
    x = eo.tensor(3.0, dtype="float64", requires_grad=True)
    y = compiled(x, third)
    y.backward()
    assert (y.item(), x.grad.item()) == (1.0, third)
    x = x.detach()
    assert eo.grad(compiled)(x, third).item() == third
    assert eo.vmap(compiled, in_axes=(0, None))(x[None], third).item() == 1.0
    assert [v.item() for v in eo.jvp(lambda x: compiled(x, third), (x,), (x,))] == [1.0, 1.0]
    assert eo.grad(compiled)(eo.tensor(3.0), third).dtype == "float32"
