"""Creation: tensors from data, from arrays, from nothing."""

from __future__ import annotations

import numpy as np
import pytest

import everyo as eo

FACTORIES = {
    "tensor": lambda **o: eo.tensor([1.0, 2.0], **o),
    "empty": lambda **o: eo.empty((2, 3), **o),
    "zeros": lambda **o: eo.zeros((2, 3), **o),
    "ones": lambda **o: eo.ones(3, **o),
    "full": lambda **o: eo.full((2,), 7.0, **o),
    "empty_like": lambda **o: eo.empty_like(eo.ones(2), **o),
    "zeros_like": lambda **o: eo.zeros_like(eo.ones(2), **o),
    "ones_like": lambda **o: eo.ones_like(np.ones(2), **o),
    "full_like": lambda **o: eo.full_like(eo.ones((1, 2)), 3, **o),
    "arange": lambda **o: eo.arange(1.0, 4.0, **o),
    "linspace": lambda **o: eo.linspace(0, 1, 3, **o),
    "eye": lambda **o: eo.eye(3, **o),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_every_factory_takes_dtype_device_and_requires_grad(name):
    make = FACTORIES[name]
    x = make(dtype=eo.float64, device="cpu", requires_grad=True)
    assert (x.dtype, x.device, x.requires_grad, x.is_leaf) == (eo.float64, "cpu", True, True)
    assert not make().requires_grad
    assert make(dtype=int).dtype == eo.int64
    with pytest.raises(eo.DTypeError, match="require grad"):
        make(dtype=int, requires_grad=True)
    with pytest.raises(eo.DTypeError, match="numeric"):
        make(dtype="U1")
    for device in ("cuda", "nonsense"):
        with pytest.raises(eo.DeviceError, match=device):
            make(device=device)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1, eo.int64),
        (True, eo.bool),
        (1.5, eo.float32),
        (1j, eo.complex64),
        ([1, 2], eo.int64),
        ([True, False], eo.bool),
        ([1, 2.5], eo.float32),
        ([[1j], [2]], eo.complex64),
        ([], eo.float32),
        (np.float64(1.5), eo.float64),
        (np.int8(1), eo.int8),
        (np.ones(2), eo.float64),
        (np.ones(2, np.float16), eo.float16),
        (range(3), eo.int64),
    ],
)
def test_dtype_of_data(data, dtype):
    assert eo.tensor(data).dtype == dtype
    assert eo.asarray(data).dtype == dtype
    assert eo.tensor(data, dtype=eo.complex128).dtype == eo.complex128


def test_the_default_float_dtype_can_be_set():
    eo.set_default_dtype(eo.float64)
    try:
        assert eo.tensor([1.5]).dtype == eo.float64
        assert eo.zeros(2).dtype == eo.float64
        assert eo.arange(1.0).dtype == eo.float64
        assert eo.linspace(0, 1, 2).dtype == eo.float64
        assert eo.random.normal(size=1).dtype == eo.float64
        assert eo.tensor(1j).dtype == eo.complex128
    finally:
        eo.set_default_dtype(eo.float32)


@pytest.mark.parametrize("data", ["text", ["a"], [object()], None, {"a": 1}, np.array(["a"]), [[1], [1, 2]]])
def test_what_is_no_data(data):
    with pytest.raises(eo.DTypeError):
        eo.tensor(data)
    with pytest.raises(eo.DTypeError):
        eo.asarray(data)


# ---- memory


def test_tensor_copies_and_asarray_shares():
    a = np.zeros(2)
    copied, shared, numpys = eo.tensor(a), eo.asarray(a), eo.from_numpy(a)
    a[0] = 5.0
    assert copied.tolist() == [0, 0]
    assert shared.tolist() == numpys.tolist() == [5, 0]
    assert eo.asarray(a, copy=True).data is not a
    assert eo.asarray(a, dtype=eo.float32).dtype == eo.float32
    with pytest.raises(ValueError, match="copy"):
        eo.asarray(a, dtype=eo.float32, copy=False)


def test_asarray_of_a_tensor_keeps_it():
    x = eo.ones(2, requires_grad=True)
    assert eo.asarray(x) is x
    assert eo.asarray(x, dtype=eo.float32, device="cpu") is x
    y = eo.asarray(x, dtype=eo.float64)
    assert y.requires_grad
    z = eo.asarray(x, copy=True)
    assert z.requires_grad
    assert z.data is not x.data
    with pytest.raises(eo.ArgumentError, match="copy"):
        eo.asarray(x, dtype=eo.float64, copy=False)


def test_tensor_of_a_tensor_is_a_new_leaf():
    x = eo.arange(3.0)
    y = eo.tensor(x, requires_grad=True)
    y.data[0] = 7.0
    assert x.tolist() == [0, 1, 2]


# ---- the graph is never lost on the way


def test_asarray_of_a_list_of_tensors_stays_differentiable():
    x, y = eo.tensor(3.0, requires_grad=True), eo.tensor(2.0, requires_grad=True)
    z = eo.asarray([[x, y + 1], [x * y, 4.0]])
    assert z.tolist() == [[3, 3], [6, 4]]
    assert z.dtype == eo.float32
    (z * eo.tensor([[1.0, 10.0], [100.0, 1000.0]])).sum().backward()
    assert (x.grad.item(), y.grad.item()) == (201, 310)


def test_asarray_of_a_list_of_tensors_in_forward_mode():
    value, tangent = eo.jvp(
        lambda x: eo.asarray([x[0] * x[1], 1.0]), (eo.tensor([2.0, 3.0]),), (eo.tensor([1.0, 0.0]),)
    )
    assert (value.tolist(), tangent.tolist()) == ([6, 1], [3, 0])


@pytest.mark.parametrize("wrapped", [lambda x: x, lambda x: [x, 1.0], lambda x: [[0.0], (x,)]])
def test_tensor_refuses_to_lose_a_graph(wrapped):
    x = eo.tensor(3.0, requires_grad=True)
    with pytest.raises(eo.GraphStateError, match="asarray"):
        eo.tensor(wrapped(x))
    with pytest.raises(eo.GraphStateError, match="asarray"):
        eo.jvp(lambda x: eo.tensor(wrapped(x)), (eo.tensor(1.0),), (eo.tensor(1.0),))
    with eo.no_grad():
        assert not eo.tensor(wrapped(x)).requires_grad
    assert eo.tensor(wrapped(x.detach())).dtype == eo.float32


def test_lists_of_tensors_keep_the_dtype_of_the_tensors():
    a = eo.tensor(1.0, dtype=eo.float64)
    assert eo.tensor([a, 2.0]).dtype == eo.float64
    assert eo.tensor([a, 2.0], dtype=eo.float32).dtype == eo.float32


def test_full_of_a_tracked_value():
    x = eo.tensor(2.0, requires_grad=True)
    y = eo.full((2, 3), x)
    (y * y).sum().backward()
    assert x.grad.item() == 24
    assert eo.full(2, x, dtype=eo.float64).dtype == eo.float64
    assert eo.full_like(eo.ones(2), x).requires_grad


def test_linspace_between_tracked_ends():
    a, b = eo.tensor(1.0, requires_grad=True), eo.tensor(3.0, requires_grad=True)
    y = eo.linspace(a, b, 5)
    np.testing.assert_allclose(y.tolist(), [1, 1.5, 2, 2.5, 3])
    y.sum().backward()
    assert (a.grad.item(), b.grad.item()) == (2.5, 2.5)


def test_a_parameter_that_must_be_a_number_refuses_a_graph():
    x = eo.tensor(2.0, requires_grad=True)
    with pytest.raises(eo.GraphStateError, match="plain number"):
        eo.arange(0, x)
    assert eo.arange(0, x.detach()).tolist() == [0, 1]


def test_likes_carry_no_gradient():
    x = eo.ones(2, requires_grad=True)
    assert not any(f(x).requires_grad for f in (eo.zeros_like, eo.ones_like, eo.empty_like))
    assert eo.full_like(x, 7).tolist() == [7, 7]
    assert eo.zeros_like(eo.tensor([1, 2])).dtype == eo.int64


# ---- values


@pytest.mark.parametrize(
    "arguments",
    [(5,), (2, 5), (5, 2, -1), (0, 1, 0.25), (0,), (3, 1), (1.5,), (-3, 3, 2)],
)
def test_arange_as_numpy(arguments):
    ours, expected = eo.arange(*arguments), np.arange(*arguments)
    np.testing.assert_array_equal(ours.numpy(), expected.astype(ours.dtype))
    assert ours.dtype == (eo.int64 if expected.dtype.kind == "i" else eo.float32)


@pytest.mark.parametrize(("n", "m", "k"), [(3, None, 0), (2, 4, 1), (3, 2, -1), (0, None, 0), (2, 2, 5)])
def test_eye_as_numpy(n, m, k):
    np.testing.assert_array_equal(eo.eye(n, m, k=k).numpy(), np.eye(n, m, k=k))


@pytest.mark.parametrize(("num", "endpoint"), [(5, True), (4, False), (1, True), (0, True)])
def test_linspace_as_numpy(num, endpoint):
    ours = eo.linspace(-1, 2, num, dtype=eo.float64, endpoint=endpoint)
    np.testing.assert_array_equal(ours.numpy(), np.linspace(-1, 2, num, endpoint=endpoint))


def test_shapes():
    assert eo.zeros(()).shape == ()
    assert eo.zeros(np.int64(2)).shape == (2,)
    assert eo.zeros([2, eo.tensor(3)]).shape == (2, 3)
    assert eo.zeros((0, 3)).shape == (0, 3)
    assert eo.full((2,), 1).dtype == eo.int64
    assert eo.full((2,), True).dtype == eo.bool
    with pytest.raises(eo.ShapeError, match="negative"):
        eo.zeros((-1,))
    with pytest.raises(eo.DTypeError, match="integers"):
        eo.zeros(2.5)
    with pytest.raises(eo.ShapeError, match="one number"):
        eo.full((2,), [1, 2])
    with pytest.raises(eo.ArgumentError, match="step"):
        eo.arange(0, 1, 0)


def test_lists_of_integers_on_both_sides_of_the_signed_range():
    top = 2**64 - 1
    assert eo.asarray([0, top], dtype="uint64").tolist() == [0, top]
    assert eo.asarray([[0, 2**63], [top - 1023, 1]], dtype="uint64").tolist() == [[0, 2**63], [top - 1023, 1]]
    for values, dtype in (([-1, top], "uint64"), ([0, top], "int64"), ([0, 2**63], "int8")):
        with pytest.raises(eo.errors.ArgumentError, match="range"):
            eo.asarray(values, dtype=dtype)
    assert eo.asarray([0.5, 2.0], dtype="int64").tolist() == [0, 2]


@pytest.mark.parametrize("k", [-(2**70), -(2**63), -3, -2, 0, 2, 3, 2**63, 2**70])
def test_diagonals_of_any_number(k):
    a, near = np.arange(6.0).reshape(2, 3), max(min(k, 9), -9)
    x = eo.asarray(a)
    assert eo.eye(2, 3, k=k).tolist() == np.eye(2, 3, near).tolist()
    assert eo.tri(2, 3, k).tolist() == np.tri(2, 3, near).tolist()
    for ours, theirs in ((eo.tril, np.tril), (eo.triu, np.triu)):
        assert ours(x, k=k).tolist() == theirs(a, near).tolist()
    for ours, theirs in ((eo.tril_indices, np.tril_indices), (eo.triu_indices, np.triu_indices)):
        assert [i.tolist() for i in ours(2, k, 3)] == [i.tolist() for i in theirs(2, near, 3)]
