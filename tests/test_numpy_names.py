"""Functions that put together, choose and compare under NumPy's names: NumPy's values, and derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import everyo as eo
from everyo.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from everyo.testing import gradcheck, gradgradcheck

V = np.array([3.0, -1.0, 2.5, 0.5])
M = np.arange(12.0).reshape(3, 4) - 5.5


def same(ours, theirs):
    expected = np.asarray(theirs)
    assert ours.dtype == expected.dtype
    assert ours.shape == expected.shape
    np.testing.assert_allclose(ours.detach().numpy(), expected, rtol=1e-14)


OBJECTS = [
    0,
    -1,
    3,
    [0, 2],
    [2, 0, 0],
    [-1, 1],
    slice(0, 3, 2),
    slice(None),
    [],
    np.array([True, False, True]),
]


@pytest.mark.parametrize("obj", OBJECTS, ids=str)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_insert_and_delete_at_every_kind_of_place(obj, axis):
    if isinstance(obj, np.ndarray) and axis != 0:
        obj = np.resize(obj, {None: 12, 1: 4}[axis])
    if not (isinstance(obj, int) and obj == 3 and axis == 0):  # the end, where something may be inserted only
        same(eo.delete(M, obj, axis), np.delete(M, obj, axis))
    same(eo.insert(M, obj, 9.0, axis), np.insert(M, obj, 9.0, axis))
    if axis is not None and isinstance(obj, int):  # as many slices as the value has
        values = np.arange(8.0).reshape(2, 4) if axis == 0 else np.arange(6.0).reshape(2, 3)
        same(eo.insert(M, obj, values, axis), np.insert(M, obj, values, axis))
    if axis == 1 and isinstance(obj, list) and len(obj) == 3:
        values = np.arange(9.0).reshape(3, 3)
        same(eo.insert(M, obj, values, axis), np.insert(M, obj, values, axis))


@pytest.mark.parametrize("many", [False, True])
def test_few_and_many_places(many):
    a = np.arange(200.0).reshape(100, 2)[::-1, ::-1]
    obj = [3, -1, 3, 50] if not many else [*range(0, 90, 2), 3, -1, 8]
    values = np.cos(np.arange(len(obj) * 2.0)).reshape(-1, 2)
    b, v = eo.asarray(a), eo.asarray(values)
    same(eo.delete(b, obj, 0), np.delete(a, obj, 0))
    same(eo.insert(b, obj, v, 0), np.insert(a, obj, values, 0))
    same(eo.insert(b, obj, v[:, 0]), np.insert(a, obj, values[:, 0]))

    def both(x, values):
        return eo.insert(eo.delete(x, obj, 0), [1, 1, 2, 8], values[:4], 0) ** 2

    same(eo.compile(both)(b, v), both(b, v).numpy())
    mapped = eo.vmap(both, in_axes=(0, None))(eo.stack([b, 2 * b]), v)
    same(mapped[1], both(2 * b, v).numpy())
    assert eo.testing.gradcheck(both, b, v)
    assert eo.testing.check_jvp(both, b, v)


def test_values_follow_the_array_that_they_are_inserted_into():
    same(eo.insert(np.array([1, 2]), 1, 2.7), np.insert(np.array([1, 2]), 1, 2.7))
    same(eo.insert(V, [1, 3], [7.0, 8.0]), np.insert(V, [1, 3], [7.0, 8.0]))
    for one in ([1], np.array([1]), slice(1, 2)):  # as many slices as there are values
        same(eo.insert(M, one, -M[:2], 0), np.insert(M, one, -M[:2], 0))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: eo.append(x, y),
        lambda x, y: eo.append(x, y, axis=1),
        lambda x, y: eo.atleast_3d(x) * y[:, :, None],
        lambda x, y: eo.column_stack([x, y[:, 0]]),
        lambda x, y: eo.dstack([x, y]),
        lambda x, y: eo.hsplit(x * y, 2)[1],
        lambda x, y: eo.vsplit(x * y, [1])[1],
        lambda x, y: eo.dsplit((x * y)[None], 2)[0],
        lambda x, y: eo.fliplr(x) * eo.flipud(y),
        lambda x, y: eo.rollaxis(x * y, 1),
        lambda x, y: eo.diagflat(x[0] * y[0], k=1),
        lambda x, y: eo.resize(x * y, (3, 7)),
        lambda x, y: eo.delete(x * y, [0, 2], axis=1),
        lambda x, y: eo.insert(x, [1, 1], y[:, :2], axis=1),
        lambda x, y: eo.insert(x, 2, y[0], axis=0),
        lambda x, y: eo.insert(x, [1], y[:2], axis=0),
        lambda x, y: (x * y)[eo.ix_([0, 2], [1, 1])],
        lambda x, y: eo.choose([[0, 1, 1, 0]], [x, y]),
        lambda x, y: eo.partition(x * y, 2, axis=1)[:, 2],
        lambda x, y: eo.piecewise(x * y, [x > y, x < -y], [eo.sin, lambda v: v * v, 3.0]),
        lambda x, y: eo.trim_zeros(eo.append(eo.append(eo.zeros(2), x * y), eo.zeros(1))),
        lambda x, y: eo.logspace(x[0, 0] / 9, y[0, 0] / 9, 4),
        lambda x, y: eo.logspace(0.5, 1.5, 3, base=x[0, 0] ** 2),
        lambda x, y: eo.geomspace(x[0, 0] ** 2, y[0, 0] ** 2, 4),
        lambda x, y: eo.real_if_close(eo.astype(x * y, eo.complex128)),
    ],
)
def test_derivatives_of_first_and_second_order(function):
    x = eo.asarray(M / 3).requires_grad_()
    y = eo.asarray(np.cos(M) + 1.5).requires_grad_()
    assert gradcheck(function, x, y)
    assert gradgradcheck(function, x, y)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: eo.insert(x, 1, x[:2]),
        lambda x: eo.delete(x, [0, -1]),
        lambda x: eo.partition(x, 2),
        lambda x: eo.choose([0, 1, 1, 0], [x, x * 2]),
        lambda x: eo.geomspace(x[0] ** 2, x[2] + 0.5, 3),
        lambda x: eo.column_stack([x, x * x]),
        lambda x: eo.where(eo.isclose(x, 0.5), x * x, eo.resize(x[:2], 4)),
        lambda x: eo.vdot(x, eo.flipud(x)),
    ],
)
def test_transformations_and_the_compiler(function):
    x = eo.asarray(V)
    rows = eo.stack([x, x * 0.5 + 1.0])
    expected = function(x).numpy()
    np.testing.assert_allclose(eo.compile(function)(x).numpy(), expected, rtol=1e-14)
    for found, row in zip(eo.vmap(function)(rows), rows):
        np.testing.assert_allclose(found.numpy(), function(row).numpy(), rtol=1e-14)
    tangent = eo.asarray(np.array([0.5, -1.0, 2.0, 0.25]))
    slope = eo.jvp(function, (x,), (tangent,))[1]
    np.testing.assert_allclose(
        slope.numpy(), (eo.jacrev(function)(x) @ tangent).numpy(), rtol=1e-13, atol=1e-15
    )


@pytest.mark.parametrize("kth", [0, 2, -1, (1, 3)])
def test_partitions_put_ranks_into_their_places(kth):
    for x, axis in ((V, 0), (M[::-1, ::-1].copy(), 1), (M, None)):
        places = np.atleast_1d(kth)
        ordered = np.sort(x, axis=axis)
        for found in (
            eo.partition(x, kth, axis),
            eo.take_along_axis(
                eo.asarray(x if axis is not None else x.ravel()),
                eo.argpartition(x, kth, axis),
                axis=axis or 0,
            ),
        ):
            np.testing.assert_array_equal(
                np.take(found.numpy(), places, axis or 0), np.take(ordered, places, axis or 0)
            )
            np.testing.assert_array_equal(np.sort(found.numpy(), axis=axis or 0), ordered)


def test_lexsort_takes_the_last_key_first():
    keys = np.array([[3, 1, 2, 1, 2], [0, 1, 0, 1, 1]])
    same(eo.lexsort(keys), np.lexsort(keys))
    same(eo.lexsort([keys.T, keys.T], axis=0), np.lexsort([keys.T, keys.T], axis=0))
    with pytest.raises(ShapeError, match="one shape"):
        eo.lexsort([[1, 2], [1]])


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "complex128"])
def test_partitions_of_many_elements(dtype):
    x = np.random.default_rng(3).normal(size=(3, 4000)).astype(dtype)
    if dtype.startswith("float"):
        x[1, :5] = np.nan
    kth = (10, 2000)
    expected = np.sort(x, axis=1)
    plain = eo.partition(x, kth, 1)
    assert plain.dtype == dtype
    tensors = [plain]
    if dtype.startswith("float"):
        tensors.append(eo.partition(eo.tensor(x, requires_grad=True), kth, 1).detach())
    for found in (tensor.numpy() for tensor in tensors):
        np.testing.assert_array_equal(found[:, kth], expected[:, kth])
        np.testing.assert_array_equal(np.sort(found[:, :10], axis=1), expected[:, :10])
        np.testing.assert_array_equal(np.sort(found[:, 2001:], axis=1), expected[:, 2001:])


@pytest.mark.parametrize("mode", ["wrap", "clip"])
def test_choices_outside(mode):
    which, choices = np.array([-1, 0, 1, 5]), [V, V * 10]
    same(eo.choose(which, choices, mode=mode), np.choose(which, choices, mode=mode))
    with pytest.raises(IndexingError, match="choose"):
        eo.choose(which, choices)
    with pytest.raises(ArgumentError, match="mode"):
        eo.choose(which, choices, mode="nearest")


def test_closeness():
    inf, nan = np.inf, np.nan
    a = np.array([1.0, 1.0, inf, inf, -inf, nan, 0.0, 1e9])
    b = np.array([1.0 + 1e-6, 1.1, inf, -inf, 1.0, nan, 1e-9, 1e9 + 1])
    for options in ({}, {"equal_nan": True}, {"rtol": 0.2}, {"atol": 0.5, "rtol": 0.0}):
        assert eo.isclose(a, b, **options).tolist() == np.isclose(a, b, **options).tolist()
        assert eo.allclose(a, b, **options) is bool(np.allclose(a, b, **options))
    assert eo.isclose([1, 100], [1, 101]).tolist() == np.isclose([1, 100], [1, 101]).tolist()
    assert eo.isclose(eo.tensor([1 + 1j]), 1 + 1j).tolist() == [True]
    assert eo.array_equal(a, a) is False
    assert eo.array_equal(a, a, equal_nan=True) is True
    assert eo.array_equiv(V, np.tile(V, (3, 1))) is True
    assert eo.array_equiv(V, M.T) is False
    assert eo.array_equal(eo.asarray(V).requires_grad_(), V) is True


def test_real_and_complex():
    z = np.array([1 + 0j, 2j, complex(np.nan, 0)])
    assert eo.isreal(z).tolist() == np.isreal(z).tolist()
    assert eo.iscomplex(z).tolist() == np.iscomplex(z).tolist()
    assert eo.isreal(V).tolist() == [True] * 4
    assert eo.real_if_close(np.array([1 + 1e-16j])).dtype == eo.float64
    assert eo.real_if_close(np.array([1 + 1e-6j])).dtype == eo.complex128
    assert eo.real_if_close(np.array([1 + 1e-6j]), tol=0.1).dtype == eo.float64
    x = np.array([np.inf, -np.inf, np.nan, 0.0])
    assert eo.isposinf(x).tolist() == np.isposinf(x).tolist()
    assert eo.isneginf(x).tolist() == np.isneginf(x).tolist()


def test_scalar_products_conjugate_the_first_factor():
    a, b = V + 1j * V[::-1], V * 2 - 3j
    same(eo.vdot(a, b), np.vdot(a, b))
    same(eo.vdot(M, M.T), np.vdot(M, M.T))
    x, y = eo.asarray(a).requires_grad_(), eo.asarray(b).requires_grad_()
    assert gradcheck(lambda x, y: eo.real(eo.vdot(x, y)) + 2 * eo.imag(eo.vdot(x, y)), x, y)
    assert gradgradcheck(eo.vdot, eo.asarray(V).requires_grad_(), eo.asarray(V[::-1].copy()).requires_grad_())
    with pytest.raises(ShapeError, match="vdot"):
        eo.vdot(V, M)


def test_progressions():
    for ends in ((1.0, 256.0), (256.0, 1.0), (-2.0, -32.0), (1.0 + 1j, 4.0 - 2j)):
        for endpoint in (True, False):
            a, b = np.array(ends[0]), np.array(ends[1])
            found = eo.geomspace(a, b, 5, endpoint=endpoint)
            expected = np.geomspace(a, b, 5, endpoint=endpoint)
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-14)
    found = eo.logspace(np.array(0.0), np.array(3.0), 4, base=2.0, endpoint=False)
    np.testing.assert_allclose(found.numpy(), np.logspace(0.0, 3.0, 4, base=2.0, endpoint=False), rtol=1e-14)
    assert eo.geomspace(1, 8, 4).dtype == eo.logspace(0, 1, 3).dtype == eo.float32
    for ends in ((0.0, 1.0), (1.0, 0.0), (-1.0, 1.0)):
        with pytest.raises(ArgumentError, match="ratio"):
            eo.geomspace(*ends)
    for arguments in ((3,), (2, 4), (3, 3, -1), (0, 2)):
        np.testing.assert_array_equal(eo.tri(*arguments).numpy(), np.tri(*arguments))


def test_resizing_and_trimming():
    same(eo.resize(M, (5, 6)), np.resize(M, (5, 6)))
    same(eo.resize(np.zeros(0), 3), np.resize(np.zeros(0), 3))
    x = np.array([0.0, 0.0, 1.0, 0.0, 2.0, 0.0])
    for trim in ("f", "b", "fb"):
        same(eo.trim_zeros(x, trim), np.trim_zeros(x, trim))
    same(eo.trim_zeros(np.zeros(3)), np.zeros(0))
    with pytest.raises(ArgumentError, match="ends"):
        eo.trim_zeros(x, "x")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: eo.delete(V, 4), IndexingError),
        (lambda: eo.delete(V, 0.5), DTypeError),
        (lambda: eo.insert(V, 5, 1.0), IndexingError),
        (lambda: eo.insert(M, [0, 1], np.ones((3, 3)), 1), ShapeError),
        (lambda: eo.vsplit(V, 2), ShapeError),
        (lambda: eo.fliplr(V), ShapeError),
        (lambda: eo.rollaxis(M, 2), IndexingError),
        (lambda: eo.rollaxis(M, 0, 3), IndexingError),
        (lambda: eo.ix_(M), ShapeError),
        (lambda: eo.partition(V, 4), IndexingError),
        (lambda: eo.piecewise(V, [V > 0], [1.0, 2.0, 3.0]), ShapeError),
    ],
)
def test_what_does_not_fit_is_an_error(call, error):
    with pytest.raises(error):
        call()


@pytest.mark.parametrize("size", [0, 4, 6, 16, 17, 48, 50, 100])
def test_resized_to_any_size(size):
    x = eo.asarray(V[:4])
    same(eo.resize(x, size), np.resize(V[:4], size))
    same(eo.compile(lambda x: eo.resize(x, size))(x), np.resize(V[:4], size))
    assert eo.testing.gradcheck(lambda x: eo.resize(x, size) ** 2, x)
