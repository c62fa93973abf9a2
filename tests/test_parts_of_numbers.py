"""`math.floor`, `math.ceil` and `math.trunc` of tensors, as `int`; what asks for a float, as `math.isnan`."""

import math
import warnings

import numpy as np
import pytest

import everyo as eo

WHOLE = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc}
every_whole = pytest.mark.parametrize("name", WHOLE)
VALUES = [-2.5, -2.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.5, 2.0**60, 1e300]


@every_whole
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_whole_numbers_are_pythons(name, value, shape):
    found = WHOLE[name](eo.asarray(np.full(shape, value)))
    assert (type(found), found) == (int, WHOLE[name](value))


@every_whole
@pytest.mark.parametrize(
    "value", [True, np.int64(2**62 + 1), np.uint8(7), np.float16(2.5), np.float32(-0.25)]
)
def test_whole_numbers_of_other_dtypes(name, value):
    found = WHOLE[name](eo.asarray(value))
    assert (type(found), found) == (int, WHOLE[name](np.asarray(value).item()))


@every_whole
def test_what_has_no_whole_number(name):
    for value, error in ((math.nan, ValueError), (math.inf, OverflowError), (1j, TypeError)):
        with pytest.raises(error):
            WHOLE[name](eo.tensor(value))
    with pytest.raises(eo.ShapeError, match="only a tensor with one element is a Python number") as caught:
        WHOLE[name](eo.ones(2))
    assert caught.value.operation == name


@every_whole
def test_whole_numbers_of_what_is_differentiated(name):
    """Their slope is 0, so no derivative is lost: as with `int`, there is no warning."""
    whole = WHOLE[name]
    point = eo.tensor(2.5, dtype=eo.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert whole(eo.tensor(2.5, requires_grad=True) * 1) == whole(2.5)
        f = lambda x: x * whole(x)  # noqa: E731
        assert eo.grad(f)(point).item() == whole(2.5)
        assert eo.grad(eo.grad(f))(point).item() == 0.0
        assert eo.jvp(f, (point,), (point,))[1].item() == 2.5 * whole(2.5)
        assert eo.hessian(f)(point).item() == 0.0


@every_whole
def test_whole_numbers_in_a_batch_or_a_program(name):
    whole = WHOLE[name]
    with pytest.raises(eo.EveryOError) as of_int:
        eo.vmap(lambda x: x * int(x))(eo.ones(3))
    with pytest.raises(type(of_int.value)) as caught:
        eo.vmap(lambda x: x * whole(x))(eo.ones(3))
    assert caught.value.operation == name
    with pytest.raises(eo.CompileError) as caught:
        eo.compile(lambda x: x * whole(x))(eo.tensor(2.5))
    assert f"write eo.{name}(x) in place of math.{name}(x)" in caught.value.remedy
    assert "static_argnums" in caught.value.remedy


@every_whole
def test_a_captured_whole_number_is_read_at_each_call(name):
    n = eo.tensor(0.5)
    f = eo.compile(lambda x: x * WHOLE[name](n))
    for value in (0.5, 2.5, -1.5):
        n[...] = value
        assert f(eo.tensor(1.0)).item() == WHOLE[name](value)


@pytest.mark.parametrize("asked", [math.isnan, math.isfinite, math.isinf])
def test_a_question_about_a_value_names_ours(asked):
    name = asked.__name__
    with pytest.raises(eo.GraphStateError) as caught:
        eo.grad(lambda x: x * 2 if asked(x) else x * 3)(eo.tensor(2.0))
    assert f"eo.{name}" in caught.value.remedy
    assert "x.item()" in caught.value.remedy


def test_a_question_that_cannot_be_read_names_the_ways():
    asked = [math.isnan]
    with pytest.raises(eo.GraphStateError) as caught:
        eo.grad(lambda x: x * 2 if asked[0](x) else x * 3)(eo.tensor(2.0))
    assert "for decisions use x.item(), or eo.isnan(x)" in caught.value.remedy
    assert eo.grad(lambda x: x * 2 if eo.isnan(x) else x * 3)(eo.tensor(2.0)).item() == 3.0
    assert eo.grad(lambda x: x * 2 if math.isnan(x.item()) else x * 3)(eo.tensor(2.0)).item() == 3.0
