"""Reading by index: values, gradients and errors as NumPy indexes."""

from __future__ import annotations

import itertools

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


def check_reading(a, index, ours=None):
    """Compare value and gradient of x[index] with NumPy's indexing and its scatter-add."""
    expected = a[index]
    x = tracked(a)
    y = x[index if ours is None else ours]
    np.testing.assert_array_equal(y.detach().numpy(), expected)
    assert y.shape == np.shape(expected)
    g = np.random.default_rng(0).normal(size=y.shape)
    y.backward(eo.tensor(g))
    scattered = np.zeros_like(a)
    np.add.at(scattered, index, g)
    np.testing.assert_allclose(x.grad.numpy(), scattered, rtol=1e-14, atol=1e-14)


# ---- reading


@given(st.data())
def test_basic_index_as_numpy(data):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    check_reading(numbered(shape), index)


@given(st.data())
def test_integer_arrays_as_numpy(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=4))
    index = data.draw(hnp.integer_array_indices(shape, result_shape=hnp.array_shapes(max_dims=2, max_side=5)))
    check_reading(numbered(shape), index)
    check_reading(numbered(shape), index, tuple(eo.tensor(i) for i in index))
    check_reading(numbered(shape), index, tuple(i.tolist() for i in index))


@given(st.data())
def test_masks_as_numpy(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))
    covered = data.draw(st.integers(1, len(shape)))
    mask = data.draw(hnp.arrays(bool, shape[:covered]))
    check_reading(numbered(shape), mask)
    check_reading(numbered(shape), mask, eo.tensor(mask))


@pytest.mark.parametrize("index", MIXED, ids=repr)
def test_mixed_index_as_numpy(index):
    check_reading(numbered((2, 3, 4)), index)


@pytest.mark.parametrize("index", [i for i in MIXED if numbered((2, 3, 4))[i].size], ids=repr)
def test_mixed_index_in_all_modes(index):
    x = np.random.default_rng(1).normal(size=(2, 3, 4))
    assert gradcheck(lambda x: x[index], x)
    assert gradgradcheck(lambda x: x[index] * x[index], x)
    assert check_jvp(lambda x: x[index] * 2, x)


@pytest.mark.parametrize(
    "index",
    [
        eo.tensor(1),
        1,
        [0, 1],
        [True, False],
        (eo.tensor([0, 1]), 2),
        slice(eo.tensor(0), eo.tensor(1)),
        [[1]],
        [],
    ],
    ids=repr,
)
def test_kinds_of_index(index):
    def plain(i):
        if isinstance(i, eo.Tensor):
            return i.numpy()
        if isinstance(i, slice):
            return slice(*(None if b is None else int(b) for b in (i.start, i.stop, i.step)))
        return tuple(map(plain, i)) if isinstance(i, tuple) else np.array(i, int) if i == [] else i

    check_reading(numbered((2, 3)), plain(index), index)


def test_a_slice_keeps_its_bounds_when_a_tensor_moves_on():
    x, i = tracked([1.0, 2.0, 3.0]), eo.tensor(0)
    y = x[i : i + 1]
    i += 2
    y.backward()
    assert x.grad.tolist() == [1, 0, 0]


def test_scalar_read_does_not_hold_the_whole_array():
    x = eo.zeros(10)
    assert x[3].data.base is None
    assert x[3].shape == ()


@pytest.mark.parametrize(
    ("index", "cause"),
    [
        (3, "out of bounds"),
        (-4, "out of bounds"),
        ((0, 0, 0), "too many indices"),
        (A([0, 3]), "out of bounds"),
        ([[0, 1], [0, 5]], "out of bounds"),
        (A([True, False]), "shape"),
        ((slice(None), A([True, False, True])), "shape"),
        (A([[True, False, True]]), "shape"),
        ((Ellipsis, Ellipsis), "ellipsis"),
        (1.0, "1.0"),
        (A([0.5]), "float64"),
        ("x", "'x'"),
        (slice(0.5, 2), "slice"),
        ((A([0, 1]), A([0, 1, 2])), "broadcast"),
    ],
    ids=repr,
)
def test_what_cannot_index(index, cause):
    x = eo.zeros((3, 2))
    with pytest.raises(eo.IndexingError, match=cause):
        x[index]
    with pytest.raises(eo.IndexingError, match=cause):
        x[index] = 1.0
    assert x.tolist() == [[0, 0]] * 3


def test_numpys_error_is_the_cause():
    with pytest.raises(eo.IndexingError) as caught:
        eo.zeros(3)[7]
    assert isinstance(caught.value.__cause__, IndexError)
    assert "index 7 is out of bounds" in str(caught.value.__cause__)


# ---- the cotangents of many reads


def count_writes(monkeypatch):
    """Record how many parts each settled cotangent was written from."""
    calls = []
    xp = eo.zeros(1).backend.xp
    write = xp.assemble

    def counted(indices, *rest):
        calls.append(len(indices))
        return write(indices, *rest)

    monkeypatch.setattr(xp, "assemble", counted)
    return calls


def test_a_loop_over_elements_is_written_once(monkeypatch):  # B151
    calls = count_writes(monkeypatch)
    x = tracked(numbered((500,)))
    total = 0.0
    for i in range(500):
        total = total + x[i] * x[i]
    (g,) = eo.autograd.grad(total, x, create_graph=True)
    np.testing.assert_array_equal(g.detach().numpy(), 2 * numbered((500,)))
    assert calls == [1000]
    (h,) = eo.autograd.grad((g * g).sum(), x)
    np.testing.assert_allclose(h.numpy(), 8 * numbered((500,)))
    assert calls == [1000, 1000]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_dense_and_scattered_contributions_in_any_order(monkeypatch, order):
    calls = count_writes(monkeypatch)
    x = tracked([1.0, 2.0, 3.0])
    parts = [lambda: (x * x).sum(), lambda: sum(x[i] * 10 for i in range(2)), lambda: (x[1:] * 5).sum()]
    total = 0.0
    for k in order:
        total = total + parts[k]()
    total.backward()
    assert x.grad.tolist() == [12, 19, 11]
    assert len(calls) == 1


def test_dense_contributions_between_reads_are_not_kept(monkeypatch):
    calls = count_writes(monkeypatch)
    x = tracked([1.0, 2.0, 3.0])
    total = 0.0
    for i in range(3):
        total = total + x[i] * 2 + (x * x).sum()
    total.backward()
    assert x.grad.tolist() == [8, 14, 20]
    assert calls == [4]  # three elements and one sum of what is dense


def test_rows_of_an_intermediate_and_hooks():
    x = tracked([[1.0, 2.0], [3.0, 4.0]])
    seen = []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.tolist()))
    x.register_hook(lambda g: seen.append(g.tolist()))
    (y[0] * y[1]).sum().backward()
    assert seen == [[[6, 8], [2, 4]], [[12, 16], [4, 8]]]
    rows = list(x)
    assert len(rows) == 2
    assert rows[1].shape == (2,)


def test_a_recorded_cotangent_saves_index_arrays_and_no_values():
    x = tracked([1.0, 2.0, 3.0])
    for index, count in [(slice(1, 3), 0), ([0, 0], 1)]:
        (g,) = eo.autograd.grad((x[index] ** 2).sum(), x, create_graph=True)
        assert g.grad_node.name == "assemble"
        assert sum(part is not None for part in g.grad_node.saved[0]) == count


def test_many_repeated_positions_add_up():
    rng = np.random.default_rng(0)
    for shape, index in [
        ((50, 30), (rng.integers(-50, 50, (40, 20)),)),
        ((50, 30), (rng.integers(-50, 50, 900), rng.integers(0, 30, 900))),
        ((4, 50, 3), (slice(None), rng.integers(0, 50, 700))),
        ((50,), (rng.integers(0, 50, 4000).astype(np.int8),)),
        ((300, 3), (rng.integers(0, 255, 600).astype(np.uint8), Ellipsis)),
    ]:
        check_reading(rng.normal(size=shape), index)


def test_float32_gradient_keeps_its_dtype():
    x = eo.ones((3, 2), requires_grad=True)
    x[[0, 0, 2]].sum().backward()
    assert x.grad.dtype == eo.float32
    assert x.grad.tolist() == [[2, 2], [0, 0], [1, 1]]


def test_complex_gradient():
    z = eo.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    assert gradcheck(lambda z: eo.abs(z[[0, 1, 1]]) ** 2, eo.tensor([1 + 2j, 3 - 1j], dtype=eo.complex128))
    (eo.abs(z[1]) ** 2).backward()
    np.testing.assert_allclose(z.grad.numpy(), [0, 6 - 2j], rtol=1e-6)


def test_strided_slices_of_one_array():  # B059
    x = tracked(np.zeros((2, 3)))
    a, b = eo.tensor([[1.0, 2.0, 3.0]]), eo.tensor([[100.0, 101.0, 102.0]])
    ((x[0::2] * a).sum() + (x[1::2] * b).sum()).backward()
    assert x.grad.tolist() == [[1, 2, 3], [100, 101, 102]]


def test_a_mask_that_selects_nothing():
    x = tracked([1.0, 2.0])
    x[x > 5].sum().backward()
    assert x.grad.tolist() == [0, 0]


@pytest.mark.parametrize("index", [Ellipsis, (), None, (None, Ellipsis), True, np.array(True)])
def test_results_without_axes_are_indexed_in_every_direction(index):
    x = eo.asarray(np.array([1.0, 2.0, 3.0]))

    def read(x):
        return (x.sum() ** 3)[index].sum()

    def written(x):
        y = x.sum()
        y[index] += x[0]
        return y**3

    for f, along in ((read, np.ones(3)), (written, np.array([2.0, 1.0, 1.0]))):
        total = along @ [1.0, 2.0, 3.0]
        hessian = 6 * total * np.outer(along, along)
        np.testing.assert_allclose(eo.jvp(f, (x,), (x,))[1].numpy(), 3 * total**3)
        np.testing.assert_allclose(eo.hessian(f)(x).numpy(), hessian)
        np.testing.assert_allclose(eo.grad(lambda x, f=f: eo.grad(f)(x)[1])(x).numpy(), hessian[1])


@pytest.mark.parametrize("index", [np.array([0, 1]), np.array([True, True, False])])
def test_an_index_that_is_written_to_later_stays_what_it_was(index):
    x = eo.asarray(np.array([1.0, 2.0, 3.0])).requires_grad_()
    total = (x[index] * eo.asarray([1.0, 10.0])).sum()
    _, back = eo.vjp(lambda x: x[index], eo.ones(3))
    index[:] = index[0]
    total.backward()
    np.testing.assert_array_equal(x.grad, [1.0, 10.0, 0.0])
    np.testing.assert_array_equal(back(eo.asarray([1.0, 10.0]).astype("float32"))[0], [1.0, 10.0, 0.0])
