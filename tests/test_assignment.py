"""Writing by index: values, gradients, and that nobody else sees a tensor change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import everyo as eo
from everyo.testing import check_jvp, gradcheck, gradgradcheck
from tests.index_cases import MIXED, A


def tracked(array):
    return eo.tensor(array, dtype=eo.float64, requires_grad=True)


def numbered(shape):
    return np.arange(float(np.prod(shape, dtype=int))).reshape(shape)


def check_writing(a, index, v):
    """Compare value and gradients of x[index] = v with NumPy, elements written first to last."""
    b = a.copy()
    b[index] = v
    x0, value = tracked(a), tracked(v)
    x = x0 * 1
    x[index] = value
    np.testing.assert_array_equal(x.detach().numpy(), b)
    g = np.random.default_rng(0).normal(size=a.shape)
    x.backward(eo.tensor(g))
    names = np.arange(a.size).reshape(a.shape)
    kept = np.ones(a.shape)
    kept[index] = 0
    np.testing.assert_array_equal(x0.grad.numpy(), g * kept)
    targets, sources = (
        names[index],
        np.broadcast_to(np.arange(np.size(v)).reshape(np.shape(v)), names[index].shape),
    )
    last = dict(zip(np.ravel(targets).tolist(), np.ravel(sources).tolist()))
    expected = np.zeros(np.size(v))
    for target, source in last.items():
        expected[source] += g.flat[target]
    np.testing.assert_allclose(value.grad.numpy(), expected.reshape(np.shape(v)), rtol=1e-13, atol=1e-13)


@given(st.data())
def test_assignment_as_numpy(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=4))
    index = data.draw(
        st.one_of(
            hnp.basic_indices(shape, allow_newaxis=True),
            hnp.integer_array_indices(shape, result_shape=hnp.array_shapes(max_dims=2, max_side=5)),
            hnp.arrays(bool, shape),
        )
    )
    target = np.empty(shape)[index].shape
    v = data.draw(st.sampled_from([np.shape(0.0), target]))
    check_writing(numbered(shape), index, 100 + numbered(v))


@pytest.mark.parametrize("index", MIXED, ids=repr)
def test_mixed_assignment_as_numpy(index):
    target = numbered((2, 3, 4))[index].shape
    check_writing(numbered((2, 3, 4)), index, 100 + numbered(target))
    check_writing(numbered((2, 3, 4)), index, A(7.0))


def test_assignment_from_other_memory_orders_keeps_the_last():
    i, j = np.meshgrid([0, 1, 0], [2, 2, 1], indexing="ij")
    for index in ((i, j), (i.T, j.T), (A([[0], [0]]), A([1, 1, 2])), (np.broadcast_to(A([0, 0]), (3, 2)),)):
        shape = numbered((3, 3))[index].shape
        for v in (numbered(shape), np.asfortranarray(numbered(shape)), numbered(shape[-1:])):
            check_writing(numbered((3, 3)), index, v)


@pytest.mark.parametrize(
    ("index", "shape"),
    [
        (1, ()),
        (slice(None, None, -2), (2, 4)),
        ((slice(None), [0, 0]), (3, 2)),
        ((Ellipsis, 0), (1,)),
        (A([True, False, True]), (4,)),
        (slice(1, 3), (1, 1, 4)),
    ],
    ids=repr,
)
def test_assignment_in_all_modes(index, shape):
    def f(x, v):
        y = x * x
        y[index] = v * v
        return y * x

    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(3, 4)), rng.normal(size=shape)
    assert gradcheck(f, *inputs)
    assert gradgradcheck(f, *inputs)
    assert check_jvp(f, *inputs)
    assert check_jvp(lambda v: f(eo.tensor(inputs[0]), v), inputs[1])
    assert check_jvp(lambda x: f(x, eo.tensor(inputs[1])), inputs[0])


def test_an_overwritten_element_has_no_gradient():
    x = tracked([1.0, 2.0, 3.0])
    y = x * x
    y[1] = 10.0
    y.sum().backward()
    assert x.grad.tolist() == [2, 0, 6]


def test_repeated_position_keeps_the_last_write():  # B057
    v = tracked([1.0, 2.0])
    z = eo.zeros(3, dtype=eo.float64)
    z[[0, 0]] = v
    z.sum().backward()
    assert z.tolist() == [2, 0, 0]
    assert v.grad.tolist() == [0, 1]


def test_masked_in_place_product():  # B061
    x = tracked(numbered((9,)))
    b = x.reshape(3, 3) * 1.0
    b[b < 4] *= 2
    assert b.sum().item() == 42
    b.sum().backward()
    assert x.grad.tolist() == [2] * 4 + [1] * 5


def filled(p):  # B067
    out = eo.zeros(5, dtype=eo.float64)
    for m in range(5):
        out[m] = (p[m] * p[0]).sum()
    return out.sum()


def test_loop_that_fills_an_array_in_reverse_and_forward_mode():
    p = numbered((5, 3)) / 7
    x = tracked(p)
    filled(x).backward()
    expected = np.tile(p[0], (5, 1))
    expected[0] += p.sum(0)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12)
    v = np.random.default_rng(0).normal(size=p.shape)
    value, tangent = eo.jvp(filled, (eo.tensor(p),), (eo.tensor(v),))
    np.testing.assert_allclose(value.item(), (p * p[0]).sum())
    np.testing.assert_allclose(tangent.item(), (expected * v).sum())


def test_in_place_statements_in_forward_mode():
    def f(x):
        y = x * 1.0
        y *= x
        y[0] = 3.0
        y[1] *= 2
        return y

    value, tangent = eo.jvp(f, (eo.tensor([1.0, 2.0, 3.0]),), (eo.ones(3),))
    assert value.tolist() == [3, 8, 9]
    assert tangent.tolist() == [0, 8, 6]


def test_a_captured_tensor_cannot_be_changed_inside_a_transformation():
    outside = eo.ones(2)

    def f(x):
        outside[0] = x[0]
        return outside * x

    for transformed in (
        lambda: eo.jvp(f, (eo.tensor([2.0, 3.0]),), (eo.ones(2),)),
        lambda: eo.vmap(f)(eo.ones((3, 2))),
    ):
        with pytest.raises(eo.UnsupportedOperationError, match="captured tensor") as error:
            transformed()
        assert "x.clone()" in str(error.value)
        assert outside.tolist() == [1.0, 1.0]


def test_nested_forward_mode_writes_into_a_copy():
    def outer(x):
        z = x * x

        def inner(y):
            w = z.clone()
            w[0] = y * x[1]
            return (w * y).sum()

        return eo.jvp(inner, (x[0],), (eo.ones(()),))[1]  # 2 x0 x1 + x1^2

    x = eo.tensor([2.0, 3.0])
    assert eo.jvp(outer, (x,), (eo.tensor([1.0, 0.0]),))[1].item() == 6
    assert eo.jvp(outer, (x,), (eo.tensor([0.0, 1.0]),))[1].item() == 10


def test_a_value_kept_from_an_earlier_jvp_is_refused():
    kept = []

    def f(x):
        kept.append(x)
        return x

    eo.jvp(f, (eo.ones(2),), (eo.ones(2),))
    with pytest.raises(eo.GraphStateError, match="outlived"):
        eo.jvp(lambda x: x * kept[0], (eo.ones(2),), (eo.ones(2),))


# ---- value semantics


def holders():
    """For each way to hold a tensor's array: a function that takes hold, and one that reads."""

    def residual(x):
        w = eo.tensor([1.0, 1.0, 1.0], requires_grad=True)
        y = (w * x).sum()
        return lambda: (y.backward(retain_graph=True), w.grad, w.zero_grad())[1].tolist()

    return {
        "another tensor": lambda x: x.detach().tolist,
        "a view": lambda x: x[:].tolist,
        "a view of a view": lambda x: x[::-1][::-1].tolist,
        "a reshaped view": lambda x: x.reshape(3, 1).reshape(3).tolist,
        "a NumPy view": lambda x: x.numpy().tolist,
        "a graph": residual,
        "the raw array": lambda x: x.data.tolist,
        "a memoryview": lambda x: memoryview(x.data).tolist,
        "an iterator": lambda x: (lambda rows: lambda: [r.item() for r in rows])(list(x.reshape(3, 1))),
        "asarray": lambda x: eo.asarray(x.detach()).tolist,
        "a deferred product": lambda x: (lambda y: y.tolist)(eo.broadcast_to(x, (1, 3))[0]),
    }


@pytest.mark.parametrize("how", holders())
def test_nobody_else_sees_an_assignment(how):
    x = eo.tensor([1.0, 2.0, 3.0])
    read = holders()[how](x)
    x[1] = 20.0
    x[[0, 2]] = eo.tensor([10.0, 30.0])
    x[x > 25] = 0.0
    assert x.tolist() == [10, 20, 0]
    assert read() == [1, 2, 3]


def test_numpy_memory_is_not_written_through():
    a = np.array([1.0, 2.0])
    x = eo.from_numpy(a)
    x[0] = 5.0
    assert a.tolist() == [1, 2]
    frozen = np.array([1.0, 2.0])
    frozen.flags.writeable = False
    y = eo.from_numpy(frozen)
    del frozen
    y[0] = 5.0
    assert y.tolist() == [5, 2]


def test_a_buffer_that_nobody_else_holds_is_reused():
    x = eo.zeros(100)
    place = id(x.data)
    for i in range(100):
        x[i] = i
        x[i] = x[i] + x[i - 1]
    x[:] = x * 2
    x[x > 50] = eo.tensor(1.0)
    assert id(x.data) == place
    view = x[3:5]
    x[0] = 1.0
    assert id(x.data) != place
    del view


def test_a_saved_output_survives():  # B063 by index
    x = tracked([0.0, 1.0])
    y = eo.exp(x)
    y[0] = 100.0
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [0, np.e])


def test_assignment_of_itself_moved():
    x = eo.arange(5)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3]
    x[::-1] = x
    assert x.tolist() == [3, 2, 1, 0, 0]


def test_leaf_refuses_unless_recording_is_off():
    w = eo.tensor([1.0, 2.0], requires_grad=True)
    for write in (lambda: w.__setitem__(0, 5.0), lambda: w.__setitem__([0, 1], eo.ones(2))):
        with pytest.raises(eo.GraphStateError, match="leaf"):
            write()
    assert w.tolist() == [1, 2]
    with eo.no_grad():
        w[0] = 5.0
    assert w.is_leaf
    assert w.requires_grad
    (w * w).sum().backward()
    assert w.grad.tolist() == [10, 4]


def test_a_result_changed_without_recording_leaves_the_graph():
    x = tracked([1.0, 2.0])
    y = x * 2
    with eo.no_grad():
        y[0] = 7.0
    assert not y.requires_grad
    assert y.tolist() == [7, 4]


def test_a_constant_takes_the_graph_of_what_is_written():
    v = tracked(2.0)
    x = eo.zeros(2, dtype=eo.float64)
    x[0] = v * v
    assert x.requires_grad
    x.sum().backward()
    assert v.grad.item() == 4


def test_dtypes_of_what_is_written():
    x = eo.tensor([1, 2, 3])
    x[0] = 2.7
    x[1:] = eo.tensor([3.9, -3.9])
    assert x.tolist() == [2, 3, -3]
    assert x.dtype == eo.int64
    y = eo.zeros(2)
    y[0] = np.float64(1 / 3)
    assert y.dtype == eo.float32
    v = tracked([1.0, 2.0])
    z = eo.zeros(2) * 1
    z[:] = v
    z.sum().backward()
    assert v.grad.dtype == eo.float64
    b = eo.zeros(2, dtype=bool)
    b[1] = 3
    assert b.tolist() == [False, True]


def test_a_gradient_or_an_imaginary_part_is_never_dropped():
    v = eo.tensor(1.0, requires_grad=True)
    n = eo.tensor([1, 2])
    with pytest.raises(eo.DTypeError, match="requires grad"):
        n[0] = v
    with eo.no_grad():
        n[0] = v * 5
    n[1] = v.detach()
    assert n.tolist() == [5, 1]
    for value in (1j, eo.tensor(1j), np.array([1j, 2j])):
        x = eo.ones(2)
        with pytest.raises(eo.DTypeError, match="imaginary"):
            x[:] = value
    with pytest.raises(eo.DTypeError):
        eo.jvp(lambda v: n.__setitem__(0, v), (eo.ones(()),), (eo.ones(()),))


def test_wrong_shape_of_what_is_written():
    x = eo.zeros((2, 3))
    with pytest.raises(eo.ShapeError):
        x[0] = [1.0, 2.0]
    y = x * tracked(1.0)
    with pytest.raises(eo.ShapeError):
        y[0] = [1.0, 2.0]
    with pytest.raises(eo.DTypeError):
        x[0] = "abc"
    assert x.tolist() == [[0] * 3] * 2


@pytest.mark.parametrize(("dtype", "wide"), [("float32", "complex64"), ("float64", "complex128")])
def test_the_complex_dtype_to_convert_to_is_the_one_that_keeps_all_digits(dtype, wide):
    x = eo.zeros(3, dtype=dtype)
    with pytest.raises(eo.DTypeError, match=rf"eo\.{wide}\)"):
        x[0] = 1j
