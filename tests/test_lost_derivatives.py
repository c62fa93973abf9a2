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
