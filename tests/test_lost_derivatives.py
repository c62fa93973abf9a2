"""What would lose a derivative silently: conversions to Python numbers that Python and NumPy make unasked."""

import logging
import math
import warnings

import numpy as np
import pytest

import everyo as eo


def in_mathematics(x):
    return math.sin(x) * x


def into_an_array(x):
    y = np.zeros(3)
    y[0] = x
    return y.sum() * x


TRANSFORMED = {
    "grad": lambda f: eo.grad(f)(2.0),
    "jvp": lambda f: eo.jvp(f, (eo.tensor(2.0),), (eo.tensor(1.0),)),
    "hessian": lambda f: eo.hessian(f)(2.0),
    "grad of jvp": lambda f: eo.grad(lambda x: eo.jvp(f, (x,), (x,))[1])(2.0),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_a_number_of_a_tensor_that_is_differentiated_is_refused(name):
    with pytest.raises(eo.GraphStateError, match=r"derivative through it is lost(.|\n)*x\.item\(\)"):
        TRANSFORMED[name](in_mathematics)
    with pytest.raises(eo.GraphStateError, match=r"make y a tensor, with eo\.zeros") as error:
        TRANSFORMED[name](into_an_array)  # NumPy hides it behind a ValueError of its own
    assert "y[0] = x" in error.value.line


def test_outside_of_transformations_it_is_a_warning():
    x = eo.tensor(2.0, requires_grad=True)
    with pytest.warns(UserWarning, match=r"float\(\) of a tensor that requires grad") as caught:
        assert float(x * 3) == 6.0
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="complex"):
        assert complex(x) == 2.0


TEXT = "%.3f of %d"
FORMATS = {
    "percent": (lambda x: "%.3f" % x, "4.000"),  # noqa: UP031
    "percent of several": (lambda x: "%.3f of %d" % (x, 3), "4.000 of 3"),  # noqa: UP031
    "a named text": (lambda x: TEXT % (x, 3), "4.000 of 3"),
    "bytes": (lambda x: b"%.1f" % x, b"4.0"),
    "integers": (lambda x: "%d" % x, "4"),  # noqa: UP031
    "an f-string": (lambda x: f"{x:.3f}", "4.000"),
    "format": (lambda x: "{:.3f}".format(x), "4.000"),  # noqa: UP032
    "round": (lambda x: f"{round(x, 1)}", "4.0"),
    "logging": (lambda x: logging.LogRecord("", 0, "", 0, "loss %.2f", (x,), None).getMessage(), "loss 4.00"),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", TRANSFORMED)
def test_the_text_of_a_number_has_no_derivative(name, form):
    """However it is written: `print` and f-strings say so too."""
    write, text = FORMATS[form]
    seen = []

    def f(x):
        y = x * x
        seen.append(write(y))
        return y

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = TRANSFORMED[name](f)
        outside = write(eo.tensor(2.0, requires_grad=True) * 2)
    assert np.array_equal(np.asarray(found), np.asarray(TRANSFORMED[name](lambda x: x * x)))
    assert {*seen, outside} == {text}


def test_a_remainder_is_no_text():
    assert eo.grad(lambda x: 7.0 % x)(2.0).item() == -3.0
    assert eo.grad(lambda x: np.float64(7.0) % x)(2.0).item() == -3.0

    class Number(float):
        def __mod__(self, x):
            return math.fmod(self, x)

    seven = Number(7)
    with pytest.raises(eo.GraphStateError, match=r"eo\.fmod"):
        eo.grad(lambda x: seven % x)(2.0)
    with pytest.raises(eo.GraphStateError, match=r"write x\.item\(\) if that is meant"):
        eo.grad(lambda x: x * float(x))(2.0)


def test_by_request_and_without_a_derivative_numbers_are_plain():
    x = eo.tensor(2.0, requires_grad=True)
    assert (x.item(), float(x.detach()), int(x), math.sqrt(eo.tensor(4.0))) == (2.0, 2.0, 2, 2.0)
    with eo.no_grad():
        assert float(x * 3) == 6.0
    assert eo.grad(lambda x: x * x.item())(eo.tensor(3.0)).item() == 3.0
    assert eo.grad(lambda x: x * float(eo.stop_gradient(x)))(eo.tensor(3.0)).item() == 3.0
    assert eo.jvp(lambda x: x * float(x.detach()), (eo.tensor(3.0),), (eo.tensor(1.0),))[1].item() == 3.0


TAKING = {
    "item": lambda x: (x * x).sum().item(),
    "item of an intermediate": lambda x: 2.0 * (x * x).sum().item() + 1.0,
    "tolist": lambda x: sum((x * x).tolist()),
    "an array made of it": lambda x: np.asarray((x * x).sum().item()),
    "NumPy's scalar": lambda x: np.float64((x * x).sum().item()),
}
EVERYWHERE = {
    "grad": lambda f, x: eo.grad(f)(x),
    "value_and_grad": lambda f, x: eo.value_and_grad(f)(x),
    "vjp": lambda f, x: eo.vjp(f, x),
    "jvp": lambda f, x: eo.jvp(f, (x,), (x,)),
    "linearize": lambda f, x: eo.linearize(f, x),
    "jacfwd": lambda f, x: eo.jacfwd(f)(x),
    "jacrev": lambda f, x: eo.jacrev(f)(x),
    "jacobian": lambda f, x: eo.jacobian(f)(x),
    "hessian": lambda f, x: eo.hessian(f)(x),
    "hvp": lambda f, x: eo.hvp(f, x, x),
    "grad of grad": lambda f, x: eo.grad(lambda x: eo.grad(f)(x).sum())(x),
    "grad in grad": lambda f, x: eo.grad(lambda x: eo.grad(lambda y: f(x * y))(x).sum())(x),
}


@pytest.mark.parametrize("transformed", EVERYWHERE)
@pytest.mark.parametrize("taking", TAKING)
def test_a_number_taken_out_of_a_tensor_is_no_result(taking, transformed):
    x = np.array([1.0, 2.0, 3.0])
    with pytest.raises(eo.GraphStateError, match=r"returned a number(.|\n)*leave (item|tolist)\(\) out"):
        EVERYWHERE[transformed](TAKING[taking], x)


def test_constants_and_numbers_beside_the_result_are_as_before():
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(eo.grad(lambda x: 3.0)(x), np.zeros(3))
    gradient, aux = eo.grad(lambda x: ((x * x).sum(), x.sum().item()), has_aux=True)(x)
    np.testing.assert_array_equal(gradient, 2 * x)
    assert aux == 6.0

    def by_value(x):  # a decision, and a number that scales
        return (x * x).sum() * x[0].item() if x[1].item() > 0 else x.sum()

    np.testing.assert_array_equal(eo.grad(by_value)(x), 2 * x)
    np.testing.assert_array_equal(eo.jacfwd(by_value)(x), 2 * x)

    def of_a_constant(x):
        return eo.tensor([1.5]).item() if x[0] > 0 else x.sum()

    np.testing.assert_array_equal(eo.grad(of_a_constant)(x), np.zeros(3))

    def within(x):  # what an inner function takes is of the inner one
        inner = eo.grad(lambda y: (y * y).sum() * y[0].item())(x)
        return 1.0 if inner[0] > 0 else x.sum()

    np.testing.assert_array_equal(eo.grad(within)(x), np.zeros(3))
