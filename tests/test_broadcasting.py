"""Broadcasting and reductions over shapes, axes and dtypes: every pattern, then Hypothesis' own."""

import itertools
import math

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import everyo as eo
from everyo.core.registry import primitives
from everyo.core.tensor import wrap
from everyo.testing import check_jvp, gradcheck, gradgradcheck

BROADCASTING = {
    name: p
    for name, p in primitives().items()
    if p.family == "elementwise" and len(p.input_names) > 1 and p.vjp is not None
}
SHAPES = [
    (),
    (1,),
    (3,),
    (0,),
    (1, 1),
    (2, 1),
    (1, 3),
    (2, 3),
    (2, 0),
    (4, 1, 3),
    (4, 2, 1),
    (1, 1, 1),
    (0, 1, 3),
]
SINGLE, DOUBLE = np.dtype("float32"), np.dtype("float64")


def compatible(*shapes):
    try:
        return np.broadcast_shapes(*shapes) is not None
    except ValueError:
        return False


def summed(gradient, shape):
    """Return a gradient summed to the shape that broadcasting started from, an axis at a time."""
    while gradient.ndim > len(shape):
        gradient = gradient.sum(axis=0)
    for axis, n in enumerate(shape):
        if n == 1 and gradient.shape[axis] != 1:
            gradient = gradient.sum(axis=axis, keepdims=True)
    return gradient


def gradients(primitive, arrays, weight):
    """Return result and gradients of a primitive on leaves; None where it has no rule."""
    leaves = [
        wrap(a).requires_grad_() if rule is not None else wrap(a)
        for a, rule in zip(arrays, primitive.vjp, strict=True)
    ]
    result = primitive(*leaves)
    result.backward(wrap(np.asarray(weight, result.dtype)))
    return result.data, [None if x.grad is None else x.grad.data for x in leaves]


def check_against_full_shapes(primitive, shapes, dtypes, seed):
    """Compare gradients with those of operands that are written out to the full shape by hand."""
    rng = np.random.default_rng(seed)
    full = np.broadcast_shapes(*shapes)
    domain = primitive.options["domain"]
    arrays = [
        np.asarray(rng.uniform(*bounds, shape), dtype)
        for bounds, shape, dtype in zip(domain, shapes, dtypes, strict=True)
    ]
    weight = rng.uniform(-1, 1, full)
    value, found = gradients(primitive, arrays, weight)
    written_out = [np.broadcast_to(a.astype("float64"), full).copy() for a in arrays]
    wanted_value, wanted = gradients(primitive, written_out, weight)
    single = SINGLE in dtypes
    np.testing.assert_allclose(value, wanted_value, rtol=1e-4 if single else 1e-13)
    for array, g, w in zip(arrays, found, wanted, strict=True):
        assert (g is None) == (w is None)
        if g is not None:
            assert (g.shape, g.dtype) == (array.shape, array.dtype)
            close = {"rtol": 1e-4, "atol": 1e-4} if single else {"rtol": 1e-12, "atol": 1e-13}
            np.testing.assert_allclose(g, summed(w, array.shape), **close)


@pytest.mark.parametrize("name", sorted(BROADCASTING))
def test_every_pattern(name):
    primitive = BROADCASTING[name]
    count = len(primitive.input_names)
    patterns = [p for p in itertools.product(SHAPES, repeat=2) if compatible(*p)]
    for i, pattern in enumerate(patterns):
        shapes = (pattern * count)[:count]
        check_against_full_shapes(primitive, shapes, [DOUBLE] * count, i)


@settings(max_examples=15)
@pytest.mark.parametrize("name", sorted(BROADCASTING))
@given(data=st.data())
def test_any_shapes_and_dtypes(name, data):
    primitive = BROADCASTING[name]
    count = len(primitive.input_names)
    shapes = data.draw(
        hnp.mutually_broadcastable_shapes(num_shapes=count, min_side=0, max_side=3, max_dims=4)
    ).input_shapes
    dtypes = [data.draw(st.sampled_from([SINGLE, DOUBLE])) for _ in range(count)]
    check_against_full_shapes(primitive, shapes, dtypes, data.draw(st.integers(0, 99)))


def numpy_logsumexp(a, axis, keepdims):
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(a), axis=axis, keepdims=keepdims))


# For each: ours, NumPy's, and whether it has a value on an empty axis.
REDUCTIONS = {
    "sum": (eo.sum, np.sum, True),
    "mean": (eo.mean, np.mean, False),
    "prod": (eo.prod, np.prod, True),
    "max": (eo.max, np.max, False),
    "min": (eo.min, np.min, False),
    "var": (eo.var, np.var, False),
    "std": (eo.std, np.std, False),
    "logsumexp": (eo.logsumexp, numpy_logsumexp, True),
}


@st.composite
def distinct_arrays(draw, min_dims=0, max_dims=3):
    """Small arrays whose elements differ clearly, so that no reduction has a kink."""
    shape = draw(hnp.array_shapes(min_dims=max(min_dims, 1), max_dims=max_dims, min_side=0, max_side=3))
    if min_dims == 0 and draw(st.booleans()) and draw(st.booleans()):
        shape = ()
    size = math.prod(shape)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return (0.3 * rng.permutation(size) - 0.1 * size + 0.07).reshape(shape)


@st.composite
def arrays_and_axes(draw):
    array = draw(distinct_arrays())
    axes = [st.none()]
    if array.ndim:
        axes += [st.integers(-array.ndim, array.ndim - 1), hnp.valid_tuple_axes(array.ndim)]
    return array, draw(st.one_of(axes))


def reduced_count(array, axis):
    axes = range(array.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return math.prod(array.shape[a] for a in axes)


@settings(max_examples=40)
@pytest.mark.parametrize("name", REDUCTIONS)
@given(case=arrays_and_axes(), keepdims=st.booleans())
def test_reductions(name, case, keepdims):
    ours, numpys, of_nothing = REDUCTIONS[name]
    array, axis = case
    count = reduced_count(array, axis)
    if count == 0 and not of_nothing:
        if name in ("max", "min") and array.size == 0:
            with pytest.raises((eo.ShapeError, ValueError)):
                ours(eo.tensor(array), axis=axis)
        return
    result = ours(eo.tensor(array), axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(result.numpy(), numpys(array, axis=axis, keepdims=keepdims), rtol=1e-12)
    if name == "std" and count == 1:
        return  # a kink at every point: 0 is the subgradient that we take, not a slope
    assert gradcheck(lambda x: ours(x, axis=axis, keepdims=keepdims), array)
    single = eo.tensor(array, dtype=eo.float32, requires_grad=True)
    result = ours(single, axis=axis, keepdims=keepdims)
    assert result.dtype == eo.float32
    result.backward(eo.ones(result.shape))
    assert (single.grad.dtype, single.grad.shape) == (eo.float32, array.shape)


def softmax(a, axis):
    e = np.exp(a - np.max(a, axis=axis, keepdims=True, initial=0))
    return e / np.sum(e, axis=axis, keepdims=True)


SCANS = {
    "cumsum": (eo.cumsum, np.cumsum),
    "cumprod": (eo.cumprod, np.cumprod),
    "softmax": (eo.softmax, softmax),
    "log_softmax": (eo.log_softmax, lambda a, axis: np.log(softmax(a, axis))),
    "sort": (eo.sort, np.sort),
    "flip": (eo.flip, np.flip),
    "roll": (lambda x, axis: eo.roll(x, 2, axis=axis), lambda x, axis: np.roll(x, 2, axis=axis)),
    "repeat": (lambda x, axis: eo.repeat(x, 2, axis=axis), lambda x, axis: np.repeat(x, 2, axis=axis)),
}


@settings(max_examples=25)
@pytest.mark.parametrize("name", SCANS)
@given(array=distinct_arrays(min_dims=1), data=st.data())
def test_operations_along_an_axis(name, array, data):
    ours, numpys = SCANS[name]
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    result = ours(eo.tensor(array), axis=axis)
    np.testing.assert_allclose(result.numpy(), numpys(array, axis=axis), rtol=1e-11)
    assert gradcheck(lambda x: ours(x, axis=axis), array)


@settings(max_examples=40)
@given(
    batches=hnp.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_side=3, max_dims=2),
    inner=st.integers(0, 3),
    rows=st.one_of(st.none(), st.integers(0, 3)),
    columns=st.one_of(st.none(), st.integers(0, 3)),
)
def test_matmul(batches, inner, rows, columns):
    """Batches broadcast; None stands for a vector."""
    first, second = batches.input_shapes
    left = (inner,) if rows is None else (*first, rows, inner)
    right = (inner,) if columns is None else (*second, inner, columns)
    rng = np.random.default_rng(1)
    a, b = rng.uniform(-1, 1, left), rng.uniform(-1, 1, right)
    np.testing.assert_allclose(eo.matmul(eo.tensor(a), eo.tensor(b)).numpy(), np.matmul(a, b), rtol=1e-12)
    assert gradcheck(eo.matmul, a, b)


SHAPED = {
    "tril": eo.tril,
    "triu": lambda x: eo.triu(x, k=1),
    "transpose": lambda x: x.mT * 2,
    "concat": lambda x: eo.concat([x, x * x], axis=0),
    "stack": lambda x: eo.stack([x, x * x], axis=-1),
    "flip": eo.flip,
    "roll": lambda x: eo.roll(x, 1),
    "take_along_axis": lambda x: eo.take_along_axis(x, eo.argsort(x, axis=1), axis=1),
    "index": lambda x: x[:, ::-1] * x[..., None, :, :][0],
    "astype": lambda x: eo.astype(x * x, eo.float64),
    "broadcast_to": lambda x: eo.broadcast_to(x * x, (2, *x.shape)),
    "cumprod": lambda x: eo.cumprod(x, axis=0),
    "prod": lambda x: eo.prod(x, axis=1),
    "matmul": lambda x: x @ x.mT,
    "einsum": lambda x: eo.einsum("ij,kj->ik", x, x),
    "pad": lambda x: eo.pad(x, ((1, 0), (0, 2))),
    "tile": lambda x: eo.tile(x, (2, 1)),
    "where": lambda x: eo.where(x > 0, x, x * x),
    "diagonal": eo.diagonal,
    "softmax": lambda x: eo.softmax(x, axis=1),
}


@pytest.mark.parametrize("name", SHAPED)
@pytest.mark.parametrize("shape", [(0, 0), (0, 2), (2, 0), (1, 1), (1, 2)])
def test_empty_and_single_elements(name, shape):
    x = np.random.default_rng(2).uniform(0.5, 1.5, shape)
    for check in (gradcheck, gradgradcheck, check_jvp):
        assert check(SHAPED[name], x)


@pytest.mark.parametrize("shapes", [((2,), (3,)), ((2, 3), (2,)), ((4, 1), (3, 2, 2))])
def test_shapes_that_do_not_fit_are_named(shapes):
    tensors = [eo.ones(s) for s in shapes]
    with pytest.raises(eo.ShapeError) as caught:
        eo.multiply(*tensors)
    for shape in shapes:
        assert str(shape) in str(caught.value)
