"""One operand more than a function of few takes: the error says what computes what is meant, and it does."""

import cmath
import math
import re

import numpy as np
import pytest

import everyo as eo

X = eo.tensor([1.5, 2.0, 100.0], dtype=eo.float64)
A, B, C = (eo.tensor(v, dtype=eo.float64) for v in ([3.0, 1.0], [4.0, 2.0], [12.0, -2.0]))
OUT = {"out": X}


@pytest.mark.parametrize(
    ("wrong", "base"),
    [
        (lambda: eo.log(X, 10), 10),
        (lambda: X.log(10), 10),
        (lambda: eo.log(X, 2), 2),
        (lambda: eo.log(X, 3), 3),
        (lambda: eo.log(X, 2.5), 2.5),
        (lambda: eo.log(X, X[0]), 1.5),
    ],
)
def test_a_base_of_the_logarithm(wrong, base):
    with pytest.raises(eo.SignatureError) as caught:
        wrong()
    assert "out" not in str(caught.value)
    for written in caught.value.remedy.removeprefix("write ").split(", or "):
        y = eval(written, {"eo": eo, "math": math, "x": X, "base": X[0]})
        expected = [cmath.log(v, base).real for v in (1.5, 2.0, 100.0)]
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-14)


def test_three_operands():
    cases = {
        "hypot": (lambda: eo.hypot(A, B, C), [13.0, 3.0]),
        "maximum": (lambda: eo.maximum(A, B, C), [12.0, 2.0]),
        "add": (lambda: eo.add(A, B, C), [19.0, 1.0]),
        "gcd": (lambda: eo.gcd(12, 18, 4), None),
    }
    for name, (wrong, expected) in cases.items():
        with pytest.raises(
            eo.SignatureError, match=re.escape(f"write eo.{name}(eo.{name}(a, b), c)")
        ) as caught:
            wrong()
        assert "out" not in str(caught.value)
        for written in caught.value.remedy.removeprefix("write ").split(", or ") * (expected is not None):
            np.testing.assert_allclose(eval(written, {"eo": eo, "a": A, "b": B, "c": C}).numpy(), expected)


def test_a_place_for_the_result_is_still_one():
    for wrong in (lambda: eo.log(X, out=X), lambda: eo.hypot(A, B, out=C), lambda: eo.log(X, **OUT)):
        with pytest.raises(eo.SignatureError, match=r"y = f\(x\) in place of f\(x, out=y\)"):
            wrong()


def test_a_number_is_no_place_for_the_result():
    with pytest.raises(eo.SignatureError, match=r"write eo\.log10\(x\)"):
        np.log(X, 10)
    with pytest.raises(eo.SignatureError, match=r"write eo\.hypot\(eo\.hypot\(a, b\), c\)"):
        np.hypot(A, B, 2.0)
