"""Python integers beside tensors of integers in compiled functions, in and out of their range."""

import itertools
import math

import numpy as np
import pytest

import everyo as eo
from everyo.core.dispatch import apply
from everyo.core.registry import primitives
from everyo.errors import EveryOError
from tests.compiling import agree

BINARY = {
    name: p
    for name, p in primitives().items()
    if p.family in ("elementwise", "discrete") and p.broadcasts and len(p.input_names) == 2
}
del BINARY["where_positive"]  # which takes no numbers
NUMBERS = [3, -1, 200, 300, -(2**40), 2**70]


def tensor(dtype):
    return eo.tensor(np.array([0, 1, 3, 100], dtype))


def taken(f, *args):
    """Return what eager code makes of a call; None where it refuses."""
    try:
        return f(*args)
    except EveryOError:
        return None


@pytest.mark.parametrize("dtype", ["uint8", "int64"])
@pytest.mark.parametrize("name", BINARY)
@np.errstate(all="ignore")
def test_a_number_means_what_it_means_in_eager_code(name, dtype):
    primitive, x = BINARY[name], tensor(dtype)
    sides = [lambda x, k: apply(primitive, (x, k)), lambda x, k: apply(primitive, (k, x))]
    fitting = [k for k in NUMBERS if all(taken(f, x, k) is not None for f in sides)]
    if not fitting:  # floats alone have this operation
        with pytest.raises(EveryOError):
            eo.compile(sides[0])(x, 3)
        return
    compiled = eo.compile(lambda x, n: [f(x, k) for k in [n, *fitting] for f in sides])
    for n in fitting:
        if abs(n) < 2**63:
            found = compiled(x, n)
            for result, (k, f) in zip(found, itertools.product([n, *fitting], sides), strict=True):
                wanted = f(x, k)
                assert result.dtype == wanted.dtype
                agree(result, wanted)


@pytest.mark.parametrize("number", [300, -129, 2**40])
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "floor_divide", "bitwise_and"])
def test_a_literal_that_eager_code_refuses_is_refused(name, number):
    f = getattr(eo, name)
    for call in (
        lambda: f(tensor("int8"), number),
        lambda: eo.compile(lambda x: f(x, number))(tensor("int8")),
    ):
        with pytest.raises(EveryOError):
            call()


def test_division_by_what_the_dtype_cannot_hold():
    image, signed = eo.tensor(np.array([0, 64, 255], np.uint8)), eo.tensor(np.array([-100, 100], np.int8))
    assert eo.compile(lambda x: x / 256)(image).tolist() == [0.0, 0.25, 255 / 256]
    assert eo.compile(lambda x, k: x / k)(image, 256).tolist() == [0.0, 0.25, 255 / 256]
    assert eo.compile(lambda x: x / 255)(signed).tolist() == [-100 / 255, 100 / 255]
    assert eo.compile(lambda x: x / -1)(image).tolist() == [-0.0, -64.0, -255.0]
    assert eo.compile(lambda x: 512 / x)(image).tolist() == [math.inf, 8.0, 512 / 255]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint64"])
@pytest.mark.parametrize("number", [5, -1, -129, 300, 2**40])
def test_where_refuses_what_the_dtype_cannot_hold(dtype, number):
    """As an argument of the program, whose value it does not look at, the number wraps around."""
    x, chosen = tensor(dtype), np.array([True, False, True, False])

    def f(x, k):
        return [eo.where(chosen, x, k), eo.where(chosen, k, x)]

    held = np.array(number).astype(dtype)
    wanted = [np.where(chosen, x.numpy(), held), np.where(chosen, held, x.numpy())]
    calls = [lambda: f(x, number), lambda: eo.compile(lambda x: f(x, number))(x)]
    if int(held) != number:
        for call in calls:
            with pytest.raises(eo.ArgumentError, match="where: a number is outside the range"):
                call()
        calls = []
    for found in (*(call() for call in calls), eo.compile(f)(x, number)):
        for a, b in zip(found, wanted, strict=True):
            assert a.dtype == b.dtype
            assert a.tolist() == b.tolist()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
@pytest.mark.parametrize("bounds", [(-300, 2), (2, 300), (-(2**40), 2**40), (None, 2**62), (-(2**62), None)])
def test_bounds_of_clip_beyond_the_dtype_are_its_ends(dtype, bounds):
    x = tensor(dtype)
    wanted = np.clip(x.numpy(), *bounds)
    for found in (eo.compile(lambda x: eo.clip(x, *bounds))(x), eo.compile(eo.clip)(x, *bounds)):
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()


def test_comparisons_with_numbers_of_any_size():
    x = tensor("uint8")
    for number in (10**400, -(10**400)):
        assert eo.compile(lambda x: x < number)(x).tolist() == [number > 0] * 4  # noqa: B023
        assert not eo.compile(lambda x: x == number)(x).numpy().any()  # noqa: B023
    assert eo.compile(eo.logical_and)(x, 256).tolist() == [False, True, True, True]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32"])
@pytest.mark.parametrize("number", [3, -2, 200])
@np.errstate(all="ignore")
def test_exponents_of_ldexp_are_integers_of_their_own(dtype, number):
    x = tensor(dtype)
    wanted = np.ldexp(x.numpy(), number)
    for found in (eo.compile(lambda x: eo.ldexp(x, number))(x), eo.compile(eo.ldexp)(x, number)):
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()
