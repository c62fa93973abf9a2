"""Compiled writes by index arrays into a part of an array, against NumPy and weights written down."""

import numpy as np
import pytest

import everyo as eo

SHAPE = (6, 5, 4)
INDICES = {
    "rows, some columns": ([1, 3], slice(0, 2)),
    "some rows, columns": (slice(1, 4), [0, 4]),
    "every second row, columns, some elements": (slice(None, None, 2), [1, -1], slice(1, 3)),
    "an integer, columns": (2, [0, 3]),
    "an integer behind": ([0, 5], slice(1, None), 3),
    "far from each other": ([0, -1], slice(2, 4), [1, 2]),
    "backwards": (slice(4, 1, -1), [2, 0], slice(None, None, -2)),
    "backwards over all": (slice(None, None, -1), [2, 0], slice(None)),
    "a new axis": (None, [1, 2], slice(0, 3)),
    "a new axis between": (slice(1, 3), None, [0, 4], slice(2)),
    "behind an ellipsis": (Ellipsis, [0, 2], slice(1, 2)),
    "a table": ([[0, 1], [2, 5]], slice(3)),
    "two tables": ([[0], [2]], [1, 4], slice(1, 3)),
    "twice": ([3, 1, 3], slice(1, 3)),
    "nothing": ([1, 2], slice(2, 2)),
    "whole": ([4, 0], slice(None), slice(None)),
}


@pytest.fixture(params=INDICES.values(), ids=INDICES.keys())
def index(request):
    return request.param


def arrays(index):
    rng = np.random.default_rng(0)
    x = rng.normal(size=SHAPE)
    return x, rng.normal(size=x[index].shape), rng.normal(size=SHAPE)


def updated(x, v, index):
    x = x * 1
    x[index] = v
    return x


def test_a_part_is_written(index):
    x, v, _ = arrays(index)
    expected = updated(x, v, index)
    given = eo.asarray(x), eo.asarray(v)
    np.testing.assert_array_equal(eo.compile(lambda x, v: updated(x, v, index))(*given).numpy(), expected)
    assert "call" not in eo.compile.inspect(lambda x, v: updated(x, v, index))(*given).kernels


def test_one_number_is_written(index):
    x, _, _ = arrays(index)
    found = eo.compile(lambda x, v: updated(x, v, index))(eo.asarray(x), eo.asarray(7.0))
    np.testing.assert_array_equal(found.numpy(), updated(x, 7.0, index))


def test_arrays_known_when_it_runs(index):
    x, v, _ = arrays(index)
    places = [eo.asarray(i) for i in index if isinstance(i, list)]

    def f(x, v, *places):
        following = iter(places)
        return updated(x, v, tuple(next(following) if isinstance(i, list) else i for i in index))

    np.testing.assert_array_equal(
        eo.compile(f)(eo.asarray(x), eo.asarray(v), *places).numpy(), updated(x, v, index)
    )


def test_cotangents_go_to_what_was_written_last(index):
    x, v, weights = arrays(index)

    def f(x, v):
        return eo.sum(updated(x, v, index) * eo.asarray(weights))

    by_x, by_v = eo.compile(eo.grad(f, argnums=(0, 1)))(eo.asarray(x), eo.asarray(v))
    numbers = updated(np.full(SHAPE, -1), np.arange(v.size).reshape(v.shape), index)
    np.testing.assert_array_equal(by_x.numpy(), np.where(numbers < 0, weights, 0.0))
    expected = np.zeros(v.size)
    expected[numbers[numbers >= 0]] = weights[numbers >= 0]
    np.testing.assert_array_equal(by_v.numpy(), expected.reshape(v.shape))


def test_batches(index):
    x, v, _ = arrays(index)
    xs, vs = np.stack([x, 2 * x]), np.stack([v, -v])
    found = eo.compile(eo.vmap(lambda x, v: updated(x, v, index)))(eo.asarray(xs), eo.asarray(vs))
    np.testing.assert_array_equal(found.numpy(), np.stack([updated(x, v, index) for x, v in zip(xs, vs)]))
