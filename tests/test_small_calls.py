"""What calls on small tensors do by a shorter way has the same results."""

import itertools

import numpy as np
import pytest

import everyo as eo
from everyo.core.device import backend_for, scalar_like

XP = backend_for("cpu")[0].xp


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_one_axis_moves_as_in_numpy(ndim):
    x = np.arange(2 * 3 * 4).reshape((2, 3, 4)[:ndim] if ndim == 3 else (6, 4) if ndim == 2 else (24,))
    for source, destination in itertools.product(range(-ndim, ndim), repeat=2):
        moved = XP.moveaxis(x, source, destination)
        np.testing.assert_array_equal(moved, np.moveaxis(x, source, destination))
        assert moved.base is not None  # a view


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "bool", "complex64"])
def test_a_zero_keeps_its_sign_and_kind_whichever_came_first(dtype):
    numbers = [0, 0.0, -0.0, False, 1, 1.0, True]
    x = eo.tensor(np.array([0, 1, 1], dtype))
    for order in (numbers, numbers[::-1]):
        for number in order:
            for mixed in (lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a == b):
                expected = mixed(np.array([0, 1, 1], dtype), number)
                found = mixed(x, number).numpy()
                np.testing.assert_array_equal(found, expected)
                assert found.dtype == expected.dtype or found.dtype == eo.get_default_dtype()
                if expected.dtype.kind == "f":
                    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
    array = np.ones(1, "float32")
    assert [bool(np.signbit(scalar_like(zero, array))) for zero in (0.0, -0.0, 0, -0.0)] == [0, 1, 0, 1]


def test_operands_that_are_all_tensors_keep_their_dtypes():
    a, b = eo.tensor([1.0, 2.0], dtype=eo.float32), eo.tensor([3, 4])
    assert eo.concat([a, b]).dtype == eo.result_type(a, b)
    assert eo.dot(a, a).dtype == eo.float32
    assert eo.compile(lambda a, s: eo.stack([a[0], s]))(a, 2.0).dtype == eo.float32
