"""Rows of a table by number."""

import numpy as np
import pytest

import everyo as eo
from everyo.testing import check_jvp, gradcheck, gradgradcheck


def table():
    return eo.tensor(np.arange(8.0).reshape(4, 2), requires_grad=True)


@pytest.mark.parametrize(
    "indices", [2, [1, 3], [[0, 0, 2], [3, 2, 0]], np.zeros((0,), int), np.zeros((2, 0), int)]
)
def test_rows_and_their_gradients(indices):
    weight, indices = table(), np.asarray(indices)
    y = eo.embedding(weight, eo.tensor(indices))
    assert y.shape == (*indices.shape, 2)
    np.testing.assert_array_equal(y.detach().numpy(), weight.detach().numpy()[indices])
    g = np.arange(1.0, y.size + 1).reshape(y.shape)
    y.backward(eo.tensor(g))
    expected = np.zeros((4, 2))
    np.add.at(expected, indices, g)
    np.testing.assert_array_equal(weight.grad.numpy(), expected)


def test_lists_arrays_and_any_integer_dtype_are_indices():
    for indices in ([1, 0], np.array([1, 0], np.uint8), eo.tensor([1, 0], dtype=eo.int32)):
        assert eo.embedding(table(), indices).tolist() == [[2.0, 3.0], [0.0, 1.0]]


def test_two_lookups_in_one_table_add_up():
    weight = table()
    (eo.embedding(weight, [0, 1]) * 2 + eo.embedding(weight, [1, 1]) * 10).sum().backward()
    assert weight.grad.tolist() == [[2.0, 2.0], [22.0, 22.0], [0.0, 0.0], [0.0, 0.0]]


def test_forward_mode_and_second_derivatives():
    for check in (gradcheck, check_jvp, gradgradcheck):
        assert check(lambda w: eo.embedding(w, [[0, 2], [2, 2]]) ** 3, table())


@pytest.mark.parametrize(
    ("weight", "indices", "kind", "words"),
    [
        (eo.ones((4, 2)), [0, 4], eo.IndexingError, ["embedding", "0 <= index < 4", "found:    4"]),
        (eo.ones((4, 2)), [-1, 9], eo.IndexingError, ["found:    -1"]),
        (eo.ones((0, 2)), [0], eo.IndexingError, ["0 <= index < 0"]),
        (eo.ones((4, 2)), [0.0], eo.DTypeError, ["integer", "float32", "astype"]),
        (eo.ones((4, 2)), [True], eo.DTypeError, ["integer", "bool"]),
        (eo.ones((4,)), [0], eo.ShapeError, ["(rows, features)", "(4,)"]),
    ],
)
def test_errors_name_the_index_and_the_table(weight, indices, kind, words):
    with pytest.raises(kind) as caught:
        eo.embedding(weight, indices)
    for word in words:
        assert word in str(caught.value)
