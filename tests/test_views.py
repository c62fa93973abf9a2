"""Views of tensors without a graph, which the backend makes: they are those of tensors with one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import everyo as eo
from everyo.backends.shortcuts import VIEWS
from everyo.errors import EveryOError

GOOD = {
    "atleast_1d": lambda draw, x: (),
    "atleast_2d": lambda draw, x: (),
    "broadcast_to": lambda draw, x: ((draw(st.integers(0, 3)), *x.shape),),
    "diagonal": lambda draw, x: draw(
        st.sampled_from([(), (draw(st.integers(-4, 4)),), (draw(st.integers(-4, 4)), -1, 0)])
    ),
    "flip": lambda draw, x: draw(
        st.sampled_from([(), *((i,) for i in range(-x.ndim, x.ndim)), (tuple(range(x.ndim)),), ((),)])
    ),
    "fliplr": lambda draw, x: (),
    "flipud": lambda draw, x: (),
    "permute_dims": lambda draw, x: (tuple(draw(st.permutations(range(-x.ndim, 0)))),),
    "reshape": lambda draw, x: draw(st.sampled_from([(x.size,), ((-1, *x.shape),), ((*x.shape, 1),)])),
    "squeeze": lambda draw, x: draw(
        st.sampled_from([(), *((i,) for i in range(-x.ndim, x.ndim) if x.shape[i] == 1), ((),)])
    ),
    "swapaxes": lambda draw, x: tuple(draw(st.integers(-x.ndim, x.ndim - 1)) for _ in range(2)),
    "trace": lambda draw, x: draw(
        st.sampled_from([(), (draw(st.integers(-4, 4)),), (draw(st.integers(-4, 4)), -1, 0)])
    ),
    "transpose": lambda draw, x: draw(st.sampled_from([(), (tuple(draw(st.permutations(range(x.ndim)))),)])),
}
_SHAPES = arrays.array_shapes(min_dims=2, max_dims=3, min_side=1, max_side=3)


def test_every_view_is_tried():
    assert set(GOOD) == set(VIEWS)


@pytest.mark.parametrize("name", GOOD)
@given(data=st.data())
def test_a_view_is_that_of_a_recorded_tensor(name, data):
    array = data.draw(arrays.arrays("float64", _SHAPES, elements=st.floats(-9, 9)))
    array = data.draw(st.sampled_from([array, array[::-1], array.T, array[..., :0]]))
    args = GOOD[name](data.draw, array)
    if name == "reshape" and not array.size:
        args = (array.size,)
    plain, leaf = eo.from_numpy(array), eo.tensor(array, requires_grad=True)
    function = getattr(eo, name)
    found, wanted = function(plain, *args), function(leaf, *args)
    assert not found.requires_grad
    assert wanted.requires_grad
    np.testing.assert_array_equal(found.data, wanted.data)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    with eo.no_grad():
        np.testing.assert_array_equal(function(leaf, *args).data, found.data)


BAD = [
    ("broadcast_to", (3, 2)), ("broadcast_to", (-1,)), ("broadcast_to", (True, 2, 3)),
    ("broadcast_to", 2.0), ("diagonal", 0, 1, 1), ("diagonal", 0, 5, 1), ("diagonal", 1.0),
    ("diagonal", 0, 0, 1, 2), ("flip", 2), ("flip", (0, 0)), ("flip", True), ("flip", (True,)),
    ("flip", 0, 1), ("flip", 0.0), ("permute_dims",), ("permute_dims", 1, 0), ("permute_dims", (0,)),
    ("permute_dims", (0, 0)), ("permute_dims", (0, True)), ("permute_dims", (0, 2)), ("reshape",),
    ("reshape", 2, 3), ("reshape", (2, 2)), ("reshape", (-1, -1)), ("reshape", (-2, 3)), ("reshape", -2),
    ("reshape", (True, 6)), ("reshape", None), ("reshape", (2.0, 3)), ("reshape", True), ("squeeze", 0),
    ("squeeze", True), ("squeeze", (0, 0)), ("squeeze", 5), ("squeeze", 0, 1), ("swapaxes", 0),
    ("swapaxes", 0, 2), ("swapaxes", False, True), ("swapaxes", 0, 1, 2), ("swapaxes", 0.0, 1),
    ("trace", 0, 1, 1), ("trace", 0, 5, 1), ("trace", 1.0), ("trace", 0, 0, 1, 2),
    ("transpose", (0, 0)), ("transpose", 1, 0), ("transpose", (True, False)), ("transpose", (0, 5)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), [(name, args) for name, *args in BAD])
def test_what_is_refused_is_refused_with_the_same_error(name, args):
    array, errors = np.arange(6.0).reshape(2, 3), []
    for x in (eo.tensor(array), eo.tensor(array, requires_grad=True)):
        with pytest.raises(EveryOError) as error:
            getattr(eo, name)(x, *args)
        errors.append(error.value)
    assert type(errors[0]) is type(errors[1])
    assert str(errors[0]) == str(errors[1])


def test_views_of_few_axes():
    for array in (np.array(2.0), np.arange(3.0), np.zeros(0)):
        x = eo.from_numpy(array)
        np.testing.assert_array_equal(eo.atleast_1d(x), np.atleast_1d(array))
        np.testing.assert_array_equal(eo.atleast_2d(x), np.atleast_2d(array))
        for name in ("flip", "squeeze", "transpose"):
            found = getattr(eo, name)(x)
            assert isinstance(found.data, np.ndarray)
            np.testing.assert_array_equal(found, getattr(np, name)(array))
        with pytest.raises(EveryOError, match="fliplr"):
            eo.fliplr(x)
    with pytest.raises(EveryOError, match="flip"):
        eo.flip(eo.tensor(2.0), 0)
    with pytest.raises(EveryOError, match="flipud"):
        eo.flipud(eo.tensor(2.0))
    same = eo.atleast_2d(x := eo.ones((2, 2)))
    same += 1  # is an object of its own
    assert x[0, 0].item() == 1.0


def test_a_view_without_a_tensor_is_refused():
    for name in VIEWS:
        with pytest.raises(EveryOError, match=name):
            getattr(eo, name)()


def test_a_view_shares_memory_and_is_as_writable_as_what_it_shows():
    x = eo.arange(6.0).reshape(2, 3)
    for view in (eo.diagonal(x), eo.flip(x), eo.swapaxes(x, 0, 1), x.T, eo.squeeze(x), eo.reshape(x, 6)):
        assert np.shares_memory(view.data, x.data)
        assert view.data.flags.writeable
    y = eo.flip(x)
    y[0, 0] = 9.0  # a statement on a view gives it another value, and leaves what it shows
    assert x[1, 2].item() == 5.0


def test_a_view_of_a_captured_tensor_belongs_to_the_program():
    x, matrix = eo.tensor([[1.0, 2.0], [3.0, 4.0]]), eo.ones((2, 2))
    arguments = {"broadcast_to": ((2, 2, 2),), "permute_dims": ((1, 0),), "reshape": (4,), "swapaxes": (0, 1)}
    for name in VIEWS:
        view = getattr(eo, name)
        view(x, *arguments.get(name, ()))  # which may be found at once from now on
        compiled = eo.compile(lambda y, view=view, name=name: view(x, *arguments.get(name, ())).sum() * y)
        before = compiled(eo.tensor(1.0)).item()
        x[...] = x + matrix
        count = 2 if name in ("diagonal", "trace") else 8 if name == "broadcast_to" else 4
        assert compiled(eo.tensor(1.0)).item() == before + count, name
