"""Elementary functions of rows that are written out: several elements in one call."""

import re

import numpy as np
import pytest

import everyo as eo
from everyo.compiler.codegen import scalar
from everyo.compiler.machine import Vectors


def rows(x, y):
    """A function of one argument and one of two, whose operands and results come and go in several ways."""
    powers = (2 + x) ** y
    return eo.sum(eo.tanh(x * y) * x, axis=1) + eo.max(powers, axis=1), powers[:, ::-1]


def inputs(n, dtype):
    rng = np.random.default_rng(n)
    return rng.uniform(-1, 1, (30, n)).astype(dtype), rng.uniform(-2, 2, (30, n)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 9, 11, 16])
def test_values(n, dtype):
    x, y = inputs(n, dtype)
    total, turned = eo.compile(rows)(eo.asarray(x), eo.asarray(y))
    x, y = x.astype(np.longdouble), y.astype(np.longdouble)
    powers = (2 + x) ** y
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(turned.numpy(), powers[:, ::-1].astype(float), rtol=8 * eps)
    exact = np.sum(np.tanh(x * y) * x, axis=1) + np.max(powers, axis=1)
    np.testing.assert_allclose(total.numpy(), exact.astype(float), rtol=32 * eps)


@pytest.mark.parametrize(
    ("size", "n", "dtype", "lanes"),
    [
        (64, 12, np.float64, [8, 4]),
        (64, 12, np.float32, [16]),
        (32, 7, np.float64, [4, 4]),
        (16, 5, np.float64, [2, 2, None]),
        (32, 1, np.float64, [None]),
    ],
)
def test_calls_fill_the_vectors_of_the_machine(size, n, dtype, lanes, monkeypatch):
    monkeypatch.setattr(scalar, "vectors", lambda: Vectors(size, 16))
    x, _ = inputs(n, dtype)
    llvm = eo.compile.inspect(lambda x: eo.sum(eo.tanh(x) * x, axis=1) * eo.max(x, axis=1))(
        eo.asarray(x)
    ).llvm
    calls = re.findall(r"= call .*@eo\.tanh\.f\d\d(?:\.v(\d+))?\(", llvm)
    assert [int(v) if v else None for v in calls] == lanes


def test_a_function_of_few_instructions_is_no_call():
    x, _ = inputs(5, np.float64)
    llvm = eo.compile.inspect(lambda x: eo.sum(eo.sqrt(eo.abs(x)), axis=1))(eo.asarray(x)).llvm
    assert "@eo.sqrt" not in llvm
    assert llvm.count("call double @llvm.sqrt.f64(") == 5
