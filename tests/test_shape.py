"""Shape, conversion, rearranging and joining: values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import everyo as eo
from everyo.testing import check_jvp, gradcheck, gradgradcheck


def numbered(shape):
    return np.arange(float(np.prod(shape, dtype=int))).reshape(shape)


# Our call, NumPy's, and the shape of the input.
CASES = {
    "reshape": (lambda m, x: m.reshape(x, (3, -1)), (2, 6)),
    "reshape to 0-d": (lambda m, x: m.reshape(x, ()), (1, 1)),
    "reshape of nothing": (lambda m, x: m.reshape(x, (0, 5)), (3, 0)),
    "reshape by an int": (lambda m, x: m.reshape(x, -1), (2, 3)),
    "reshape by a list": (lambda m, x: m.reshape(x, [2, 2]), (4,)),
    "reshape method": (lambda m, x: x.reshape(4, 3), (2, 6)),
    "reshape method with a tuple": (lambda m, x: x.reshape((4, -1)), (2, 6)),
    "ravel": (lambda m, x: m.ravel(x), (2, 3)),
    "ravel of nothing": (lambda m, x: m.ravel(x), (2, 0)),
    "flatten method": (lambda m, x: x.flatten(), (2, 3)),
    "squeeze": (lambda m, x: m.squeeze(x), (1, 3, 1)),
    "squeeze an axis": (lambda m, x: m.squeeze(x, -1), (1, 3, 1)),
    "squeeze axes": (lambda m, x: m.squeeze(x, (0, 2)), (1, 3, 1)),
    "expand_dims": (lambda m, x: m.expand_dims(x, 1), (2, 3)),
    "expand_dims at the end": (lambda m, x: m.expand_dims(x, -1), ()),
    "expand several": (lambda m, x: m.expand_dims(x, (0, -1)), (2, 3)),
    "atleast_1d": (lambda m, x: m.atleast_1d(x), ()),
    "atleast_2d": (lambda m, x: m.atleast_2d(x), (3,)),
    "atleast_2d of a matrix": (lambda m, x: m.atleast_2d(x), (2, 0)),
    "transpose": (lambda m, x: m.transpose(x), (2, 3, 4)),
    "transpose by axes": (lambda m, x: m.transpose(x, (1, -1, 0)), (2, 3, 4)),
    "transpose method": (lambda m, x: x.transpose(2, 0, 1), (2, 3, 4)),
    "transpose method with a tuple": (lambda m, x: x.transpose((2, 0, 1)), (2, 3, 4)),
    "transpose method without axes": (lambda m, x: x.transpose(), (2, 3, 4)),
    "T": (lambda m, x: x.T, (2, 3)),
    "T of a vector": (lambda m, x: x.T, (3,)),
    "mT": (lambda m, x: x.mT, (4, 2, 3)),
    "permute_dims": (lambda m, x: m.permute_dims(x, (2, 0, 1)), (2, 3, 4)),
    "matrix_transpose": (lambda m, x: m.matrix_transpose(x), (4, 2, 3)),
    "moveaxis": (lambda m, x: m.moveaxis(x, 0, -1), (2, 3, 4)),
    "moveaxis of several": (lambda m, x: m.moveaxis(x, (0, 2), (-1, 0)), (2, 3, 4, 1)),
    "swapaxes": (lambda m, x: m.swapaxes(x, 0, -1), (2, 3, 4)),
    "broadcast_to": (lambda m, x: m.broadcast_to(x, (4, 2, 3)), (2, 1)),
    "broadcast_to nothing": (lambda m, x: m.broadcast_to(x, (0, 3)), (1, 3)),
    "flip": (lambda m, x: m.flip(x), (2, 3)),
    "flip an axis": (lambda m, x: m.flip(x, -1), (2, 3)),
    "flip axes": (lambda m, x: m.flip(x, (0, 2)), (2, 3, 2)),
    "roll": (lambda m, x: m.roll(x, 4), (2, 3)),
    "roll an axis": (lambda m, x: m.roll(x, -1, axis=1), (2, 3)),
    "roll axes": (lambda m, x: m.roll(x, (1, -5), axis=(0, -1)), (2, 3)),
    "roll axes by one shift": (lambda m, x: m.roll(x, 2, axis=(0, 1)), (2, 3)),
    "tril": (lambda m, x: m.tril(x, k=-1), (2, 3, 4)),
    "triu": (lambda m, x: m.triu(x, k=1), (3, 2)),
    "diag of a vector": (lambda m, x: m.diag(x, 1), (3,)),
    "diag below": (lambda m, x: m.diag(x, -2), (2,)),
    "diag of a matrix": (lambda m, x: m.diag(x, -1), (3, 4)),
    "diagonal": (lambda m, x: m.diagonal(x), (3, 4)),
    "diagonal above": (lambda m, x: m.diagonal(x, 2), (3, 4)),
    "diagonal outside": (lambda m, x: m.diagonal(x, 7), (3, 4)),
    "diagonal of axes": (lambda m, x: m.diagonal(x, 1, axis1=2, axis2=0), (3, 2, 4)),
    "trace": (lambda m, x: m.trace(x), (3, 3)),
    "trace of a tall matrix": (lambda m, x: m.trace(x), (4, 2)),  # B097
    "trace of axes": (lambda m, x: m.trace(x, -1, axis1=0, axis2=2), (3, 2, 4)),
    "pad": (lambda m, x: m.pad(x, 1), (2, 3)),
    "pad a pair": (lambda m, x: m.pad(x, (1, 2), constant_values=5), (2, 3)),
    "pad each axis": (lambda m, x: m.pad(x, ((0, 1), (2, 0))), (2, 3)),
    "pad nothing": (lambda m, x: m.pad(x, 1), (0, 2)),
    "pad 0-d": (lambda m, x: m.pad(x, 1), ()),
    "pad edge": (lambda m, x: m.pad(x, ((1, 2), (0, 3)), mode="edge"), (2, 3)),
    "pad reflect": (lambda m, x: m.pad(x, ((0, 5), (2, 1)), mode="reflect"), (3, 3)),
    "pad symmetric": (lambda m, x: m.pad(x, 4, mode="symmetric"), (2, 3)),
    "pad wrap": (lambda m, x: m.pad(x, 4, mode="wrap"), (2, 3)),
    "tile": (lambda m, x: m.tile(x, 2), (2, 3)),
    "tile new axes": (lambda m, x: m.tile(x, (2, 1, 3)), (2, 2)),
    "tile few": (lambda m, x: m.tile(x, (2,)), (2, 3)),
    "tile nothing": (lambda m, x: m.tile(x, (0, 2)), (2, 3)),
    "repeat": (lambda m, x: m.repeat(x, 3), (2, 3)),
    "repeat an axis": (lambda m, x: m.repeat(x, 2, axis=-1), (2, 3)),
    "repeat each": (lambda m, x: m.repeat(x, [2, 0, 1], axis=1), (2, 3)),
    "repeat by one of a list": (lambda m, x: m.repeat(x, [2], axis=0), (2, 3)),
    "repeat zero times": (lambda m, x: m.repeat(x, 0), (3,)),  # B079
    "concat": (lambda m, x: m.concat([x, x * 2, x[:1]]), (2, 3)),
    "concat flat": (lambda m, x: m.concat([x, x[0]], axis=None), (2, 3)),
    "concatenate": (lambda m, x: m.concatenate((x, x), -1), (2, 3)),
    "concatenate the rows": (lambda m, x: m.concatenate(x), (2, 3)),
    "stack": (lambda m, x: m.stack([x, x * x, x]), (2, 3)),
    "stack inside": (lambda m, x: m.stack([x, x * x], axis=1), (2, 3)),
    "stack at the end": (lambda m, x: m.stack([x, x * x], axis=-1), ()),
    "vstack": (lambda m, x: m.vstack([x, x * x]), (3,)),
    "hstack": (lambda m, x: m.hstack([x, x * x]), (2, 3)),
    "hstack of vectors": (lambda m, x: m.hstack([x, x * x]), (3,)),
    "hstack of numbers": (lambda m, x: m.hstack([x, x * x]), ()),
    "split": (lambda m, x: m.split(x, 3, axis=1), (2, 6)),
    "split at": (lambda m, x: m.split(x, [1, 4], axis=-1), (2, 6)),
    "split in disorder": (lambda m, x: m.split(x, [4, 2, -1]), (6,)),
    "array_split": (lambda m, x: m.array_split(x, 4), (6, 2)),
    "unstack": (lambda m, x: m.unstack(x, axis=-1), (2, 3)),
    "meshgrid": (lambda m, x: m.meshgrid(x[0], x[1, :2], x[1, :1]), (2, 3)),
    "meshgrid ij": (lambda m, x: m.meshgrid(x[0], x[1, :2], indexing="ij"), (2, 3)),
    "broadcast_arrays": (lambda m, x: m.broadcast_arrays(x, x[:, :1], x[0, 0]), (2, 3)),
}


def joined(results):
    """Return all parts of a result, weighted apart, as one tensor."""
    if isinstance(results, (list, tuple)):
        return eo.concat([(k + 1.0) * eo.ravel(r) for k, r in enumerate(results)])
    return results


@pytest.mark.parametrize("name", CASES)
def test_values_as_numpy(name):
    call, shape = CASES[name]
    x = np.random.default_rng(0).normal(size=shape)
    ours, expected = call(eo, eo.tensor(x)), call(np, x)
    assert isinstance(ours, (list, tuple)) == isinstance(expected, (list, tuple))
    if not isinstance(expected, (list, tuple)):
        ours, expected = [ours], [expected]
    assert len(ours) == len(expected)
    for a, b in zip(ours, expected):
        assert a.shape == np.shape(b)
        assert a.dtype == eo.float64
        np.testing.assert_array_equal(a.numpy(), b)


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    call, shape = CASES[name]
    x = np.random.default_rng(1).normal(size=shape)

    def f(x):
        return joined(call(eo, x))

    assert gradcheck(f, x)
    assert check_jvp(f, x)
    assert gradgradcheck(lambda x: f(x * x) * 2, x)
    leaf = eo.tensor(x, requires_grad=True)
    f(leaf).sum().backward()
    assert leaf.grad.shape == shape


@given(st.data())
def test_transposing_by_any_permutation(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=5, max_side=3))
    axes = data.draw(st.permutations(range(len(shape))))
    x = eo.tensor(numbered(shape), requires_grad=True)
    y = eo.transpose(x, axes)
    np.testing.assert_array_equal(y.detach().numpy(), np.transpose(numbered(shape), axes))
    y.backward(eo.tensor(np.transpose(numbered(shape), axes)))
    np.testing.assert_array_equal(x.grad.numpy(), numbered(shape))


def test_exact_gradients():
    x = eo.tensor(numbered((4, 2)), requires_grad=True)
    eo.trace(x).backward()  # B097
    assert x.grad.tolist() == [[1, 0], [0, 1], [0, 0], [0, 0]]
    x = eo.tensor([1.0, 2.0, 3.0], requires_grad=True)
    eo.repeat(x, 0).sum().backward()  # B079
    assert x.grad.tolist() == [0, 0, 0]
    x = eo.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (eo.pad(x, 2, mode="reflect") * eo.tensor([1.0, 2, 4, 8, 16, 32, 64])).sum().backward()
    assert x.grad.tolist() == [4 + 64, 2 + 8 + 32, 1 + 16]
    x, y = (eo.tensor(v, requires_grad=True) for v in (2.0, 5.0))
    eo.stack([x, y, 3.0 * x * y]).sum().backward()  # B099
    assert (x.grad.item(), y.grad.item()) == (16, 7)
    x = eo.tensor([1.0, 2.0], requires_grad=True)
    z = eo.tensor(numbered((3, 2)))
    eo.mean(eo.reshape(eo.broadcast_to(x, (3, 2)), (3, 2)) * z).backward()  # B069
    np.testing.assert_allclose(x.grad.numpy(), [1.0, 1.5])


def test_results_are_tensors_of_their_own():
    x = eo.ones((2, 2))
    for same in (
        eo.reshape(x, (2, 2)),
        eo.broadcast_to(x, (2, 2)),
        eo.transpose(x),
        x.astype(x.dtype),
        x.clone(),
    ):
        same[0] = 5.0
        same += 1
    assert x.tolist() == [[1, 1], [1, 1]]


def test_joining_promotes_and_gives_back_each_dtype():
    a = eo.tensor([1.0, 2.0], requires_grad=True)
    b = eo.tensor([3.0], dtype=eo.float64, requires_grad=True)
    out = eo.concat([a, b, eo.tensor([4])])
    assert out.dtype == eo.float64
    (out * out).sum().backward()
    assert a.grad.dtype == eo.float32
    assert b.grad.dtype == eo.float64
    z = eo.stack([a, a * 1j])
    assert z.dtype == eo.complex64
    a.zero_grad()
    (eo.abs(z) ** 2).sum().backward()
    assert a.grad.dtype == eo.float32
    np.testing.assert_allclose(a.grad.numpy(), [4, 8])


def test_numbers_take_the_dtype_of_the_tensors_they_join():
    assert eo.stack([eo.tensor(1.0), 2.0, 3]).dtype == eo.float32
    assert eo.stack([eo.tensor(1), 2]).dtype == eo.int64
    assert eo.stack([1, 2]).dtype == eo.int64
    assert eo.stack([1, 2.5]).tolist() == [1, 2.5]
    assert eo.stack([1, 2.5]).dtype == eo.float32
    assert eo.concat([np.ones(1), [2.0]]).dtype == eo.float64


def test_only_the_needed_parts_are_differentiated():
    a, b = eo.ones(2, requires_grad=True), eo.ones(3)
    out = eo.concat([b, a, b])
    assert len(out.grad_node.parents) == 1
    (out * eo.arange(8)).sum().backward()
    assert a.grad.tolist() == [3, 4]


def test_flatten_of_some_axes():
    x = eo.ones((2, 3, 4, 5))
    assert eo.flatten(x, 1, 2).shape == (2, 12, 5)
    assert x.flatten(-2).shape == (2, 3, 20)
    assert eo.flatten(eo.tensor(1.0)).shape == (1,)
    with pytest.raises(eo.ShapeError, match="behind"):
        eo.flatten(x, 2, 1)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: eo.reshape(x, (4, 2)), eo.ShapeError, "multiply to 6"),
        (lambda x: eo.reshape(x, (-1, 4)), eo.ShapeError, "multiply to 6"),
        (lambda x: eo.reshape(x, (-1, -1)), eo.ShapeError, "one may be -1"),
        (lambda x: eo.reshape(x, (-2, -3)), eo.ShapeError, "negative"),
        (lambda x: eo.reshape(x, (2.0, 3)), eo.DTypeError, "integers"),
        (lambda x: eo.reshape(x[:0], (0, -1)), eo.ShapeError, "multiply to 0"),
        (lambda x: eo.squeeze(x, 0), eo.ShapeError, "size 1"),
        (lambda x: eo.squeeze(x, 5), eo.IndexingError, "axis 5"),
        (lambda x: eo.expand_dims(x, 4), eo.IndexingError, "axis 4"),
        (lambda x: eo.expand_dims(x, (0, 0)), eo.ShapeError, "twice"),
        (lambda x: eo.transpose(x, (0, 0)), eo.ShapeError, "permutation"),
        (lambda x: eo.transpose(x, (0,)), eo.ShapeError, "permutation"),
        (lambda x: eo.moveaxis(x, (0, 1), (0,)), eo.ShapeError, "pair up"),
        (lambda x: eo.moveaxis(x, (0, 0), (0, 1)), eo.ShapeError, "pair up"),
        (lambda x: eo.matrix_transpose(x[0]), eo.ShapeError, "2-dimensional"),
        (lambda x: eo.broadcast_to(x, (3, 2)), eo.ShapeError, "broadcast"),
        (lambda x: eo.broadcast_to(x, (-1, 3)), eo.ShapeError, "negative"),
        (lambda x: eo.broadcast_arrays(x, eo.ones(2)), eo.ShapeError, "broadcast"),
        (lambda x: eo.roll(x, (1, 2, 3), (0, 1)), eo.ShapeError, "roll"),
        (lambda x: eo.tril(x[0, 0]), eo.ShapeError, "two axes"),
        (lambda x: eo.diag(eo.ones((1, 1, 1))), eo.ShapeError, "1 or 2"),
        (lambda x: eo.diagonal(x, axis1=1, axis2=1), eo.ShapeError, "pair up"),
        (lambda x: eo.pad(x, ((1, 1),) * 3), eo.ShapeError, "2 pairs"),
        (lambda x: eo.pad(x, -1), eo.ShapeError, "negative"),
        (lambda x: eo.pad(x, 0.5), eo.ShapeError, "pairs"),
        (lambda x: eo.pad(x, 1, mode="magic"), eo.ArgumentError, "magic"),
        (lambda x: eo.pad(x[:0], 1, mode="edge"), eo.ShapeError, "empty"),
        (
            lambda x: eo.pad(x, 1, constant_values=eo.ones((), requires_grad=True)),
            eo.GraphStateError,
            "plain",
        ),
        (lambda x: eo.repeat(x, -1), eo.ShapeError, "negative"),
        (lambda x: eo.repeat(x, [1, 2], axis=1), eo.ShapeError, "3 of them"),
        (lambda x: eo.repeat(x, 1.5), eo.ShapeError, "integer"),
        (lambda x: eo.tile(x, -1), eo.ShapeError, "negative"),
        (lambda x: eo.concat([]), eo.ShapeError, "nothing"),
        (lambda x: eo.concat([x, eo.ones((2, 2))]), eo.ShapeError, "concat"),
        (lambda x: eo.concat([x, x], axis=2), eo.IndexingError, "axis 2"),
        (lambda x: eo.stack([x, x[0]]), eo.ShapeError, "stack"),
        (lambda x: eo.split(x, 4, axis=1), eo.ShapeError, "equal parts"),
        (lambda x: eo.array_split(x, 0), eo.ArgumentError, "at least one"),
        (lambda x: eo.meshgrid(x, indexing="yx"), eo.ArgumentError, "yx"),
    ],
)
def test_errors(call, error, match):
    with pytest.raises(error, match=match):
        call(eo.ones((2, 3)))


# ---- conversion


def test_astype():
    x = eo.tensor([1.7, -1.7], requires_grad=True)
    y = x.astype(eo.float64)
    (y * y).sum().backward()
    assert y.dtype == eo.float64
    assert x.grad.dtype == eo.float32
    n = x.astype(int)
    assert n.tolist() == [1, -1]
    assert not n.requires_grad
    assert x.astype(eo.float32, copy=False) is x
    assert x.astype(eo.float32) is not x
    assert x.astype("complex64").dtype == eo.complex64
    assert eo.tensor([0.0, 2.0]).astype(bool).tolist() == [False, True]
    with pytest.raises(eo.DTypeError, match="imaginary"):
        eo.tensor([1j]).astype(eo.float32)
    with pytest.raises(eo.DTypeError, match="numeric"):
        x.astype("U3")


def test_astype_between_real_and_complex_is_differentiable():
    x = eo.tensor([1.0, 2.0], requires_grad=True)
    (x.astype(eo.complex128) * (3 + 4j)).real.sum().backward()
    assert x.grad.tolist() == [3, 3]
    assert x.grad.dtype == eo.float32


def test_an_integer_result_has_no_tangent():
    value, tangent = eo.jvp(lambda x: x.astype(int) * x, (eo.tensor([2.5]),), (eo.ones(1),))
    assert (value.tolist(), tangent.tolist()) == ([5], [2])


def test_to():
    x = eo.tensor([1.5], requires_grad=True)
    assert x.to("cpu") is x
    assert x.to(eo.float32) is x
    assert x.to("float64").dtype == eo.float64
    assert x.to("cpu", eo.float64).dtype == eo.float64
    assert x.to(dtype=eo.float64, device="cpu").dtype == eo.float64
    assert x.to(eo.ones(1, dtype=eo.float64)).dtype == eo.float64
    for device in ("cuda", "cuda:1", "xla", "nonsense"):
        with pytest.raises(eo.DeviceError, match=device):
            x.to(device)
        with pytest.raises(eo.DeviceError, match=device):
            x.astype(eo.float64, device=device)


def test_copy_and_clone_stay_in_the_graph():
    x = eo.tensor([1.0, 2.0], requires_grad=True)
    for y in (x.copy(), x.clone(), eo.copy(x)):
        assert y.data is not x.data
        assert not np.shares_memory(y.data, x.data)
        (y * y).sum().backward()
        assert x.grad.tolist() == [2, 4]
        x.zero_grad()
