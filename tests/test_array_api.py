"""The Array API standard: names, parameters, dtypes and values, against array-api-strict as the reference.

The public suite is run by ``tools/array_api_tests.py``; these tests guard the same ground in short.
"""

from __future__ import annotations

import inspect
import math

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import everyo as eo
from everyo.errors import ArgumentError, DTypeError, GraphStateError, ShapeError

SIGNED, UNSIGNED = [f"int{n}" for n in (8, 16, 32, 64)], [f"uint{n}" for n in (8, 16, 32, 64)]
INTEGERS, FLOATS, COMPLEX = SIGNED + UNSIGNED, ["float32", "float64"], ["complex64", "complex128"]
REAL, NUMERIC, BOOL = INTEGERS + FLOATS, INTEGERS + FLOATS + COMPLEX, ["bool"]
INEXACT, ALL = FLOATS + COMPLEX, BOOL + NUMERIC

UNARY = {
    "abs": NUMERIC, "acos": INEXACT, "acosh": INEXACT, "asin": INEXACT, "asinh": INEXACT, "atan": INEXACT,
    "atanh": INEXACT, "bitwise_invert": BOOL + INTEGERS, "ceil": REAL, "conj": NUMERIC, "cos": INEXACT,
    "cosh": INEXACT, "exp": INEXACT, "expm1": INEXACT, "floor": REAL, "imag": COMPLEX, "isfinite": NUMERIC,
    "isinf": NUMERIC, "isnan": NUMERIC, "log": INEXACT, "log10": INEXACT, "log1p": INEXACT, "log2": INEXACT,
    "logical_not": BOOL, "negative": NUMERIC, "positive": NUMERIC, "real": NUMERIC, "reciprocal": INEXACT,
    "round": NUMERIC, "sign": NUMERIC, "signbit": FLOATS, "sin": INEXACT, "sinh": INEXACT, "sqrt": INEXACT,
    "square": NUMERIC, "tan": INEXACT, "tanh": INEXACT, "trunc": REAL,
}  # fmt: skip
BINARY = {
    "add": NUMERIC, "atan2": FLOATS, "bitwise_and": BOOL + INTEGERS, "bitwise_or": BOOL + INTEGERS,
    "bitwise_xor": BOOL + INTEGERS, "copysign": FLOATS, "divide": INEXACT, "equal": ALL, "greater": REAL,
    "greater_equal": REAL, "hypot": FLOATS, "less": REAL, "less_equal": REAL, "logaddexp": FLOATS,
    "logical_and": BOOL, "logical_or": BOOL, "logical_xor": BOOL, "maximum": REAL, "minimum": REAL,
    "multiply": NUMERIC, "nextafter": FLOATS, "not_equal": ALL, "subtract": NUMERIC,
}  # fmt: skip
REDUCTIONS = {
    "all": ALL,
    "any": ALL,
    "max": REAL,
    "mean": INEXACT,
    "min": REAL,
    "prod": NUMERIC,
    "sum": NUMERIC,
}

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of NaN and infinity


def functions(module):
    """The functions that a namespace of the reference offers, by name."""
    names = [name for name in module.__all__ if "flags" not in name and not name.startswith("_")]
    found = {name: getattr(module, name) for name in names}
    return {name: function for name, function in found.items() if inspect.isfunction(function)}


def numbers(dtype):
    """Elements: small ones that no operation takes out of the dtype, and special ones of floats."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return st.booleans()
    if kind in "iu":
        return st.integers(0 if kind == "u" else -9, 9)
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 0.5, -2.0]
    real = st.one_of(st.sampled_from(special), st.floats(-4, 4, width=32, allow_subnormal=False))
    return (
        real
        if kind == "f"
        else st.floats(-4, 4, width=32, allow_subnormal=False).flatmap(
            lambda x: st.floats(-4, 4, width=32, allow_subnormal=False).map(lambda y: complex(x, y))
        )
    )


def arrays(dtypes, shape=None):
    shape = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3) if shape is None else shape
    return st.sampled_from(dtypes).flatmap(
        lambda d: hnp.arrays(d, shape, elements=numbers(d), fill=st.nothing())
    )


def same(ours, theirs, rtol=None):
    """Assert that a tensor is the reference's array: in dtype, shape and values."""
    expected = np.asarray(theirs._array if hasattr(theirs, "_array") else theirs)
    assert isinstance(ours, eo.Tensor)
    assert ours.dtype == expected.dtype
    assert ours.shape == expected.shape
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(ours.numpy(), expected)
    else:
        rtol = rtol or 40 * np.finfo(expected.dtype).eps
        np.testing.assert_allclose(ours.numpy(), expected, rtol=rtol, atol=rtol)


def test_every_function_of_the_standard_is_here_with_its_parameters():
    for ours, theirs in ((eo, strict), (eo.linalg, strict.linalg), (eo.fft, strict.fft)):
        for name, reference in functions(theirs).items():
            function = getattr(ours, name, None)
            assert callable(function), name
            parameters = inspect.signature(function).parameters.values()
            keywords = {p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
            for parameter in inspect.signature(reference).parameters.values():
                if parameter.kind is parameter.KEYWORD_ONLY:
                    assert parameter.name in keywords, (name, parameter.name)


@given(st.data())
@settings(max_examples=300)
def test_functions_of_one_operand(data):
    name = data.draw(st.sampled_from(sorted(UNARY)))
    a = data.draw(arrays(UNARY[name]))
    same(getattr(eo, name)(eo.asarray(a)), getattr(strict, name)(strict.asarray(a)))


@given(st.data())
@settings(max_examples=300)
def test_functions_of_two_operands_broadcast_and_promote(data):
    name = data.draw(st.sampled_from(sorted(BINARY)))
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3)).input_shapes
    a = data.draw(arrays(BINARY[name], shapes[0]))
    kind = [d for d in BINARY[name] if np.dtype(d).kind == a.dtype.kind]  # kinds do not mix in the standard
    b = data.draw(arrays(kind, shapes[1]))
    same(
        getattr(eo, name)(eo.asarray(a), eo.asarray(b)),
        getattr(strict, name)(strict.asarray(a), strict.asarray(b)),
    )


@given(st.data())
@settings(max_examples=150)
def test_reductions(data):
    name = data.draw(st.sampled_from(sorted(REDUCTIONS)))
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3))
    a = data.draw(arrays(REDUCTIONS[name], shape))
    axes = [None, -1, 0, tuple(range(len(shape)))]
    options = {"axis": data.draw(st.sampled_from(axes)), "keepdims": data.draw(st.booleans())}
    ours = getattr(eo, name)(eo.asarray(a), **options)
    same(ours, getattr(strict, name)(strict.asarray(a), **options), rtol=1e-5)


MANIPULATIONS = [
    lambda xp, x: xp.reshape(x, (3, 2)),
    lambda xp, x: xp.permute_dims(x, (1, 0)),
    lambda xp, x: xp.matrix_transpose(x),
    lambda xp, x: xp.flip(x, axis=1),
    lambda xp, x: xp.roll(x, (1, -1), axis=(0, 1)),
    lambda xp, x: xp.expand_dims(x, axis=-2),
    lambda xp, x: xp.squeeze(x[:1, :], axis=0),
    lambda xp, x: xp.concat([x, x], axis=None),
    lambda xp, x: xp.stack([x, x], axis=1),
    lambda xp, x: xp.unstack(x, axis=1)[2],
    lambda xp, x: xp.tile(x, (2, 1, 2)),
    lambda xp, x: xp.repeat(x, 2, axis=1),
    lambda xp, x: xp.moveaxis(x, 0, 1),
    lambda xp, x: xp.broadcast_to(x, (2, 2, 3)),
    lambda xp, x: xp.tril(x, k=-1),
    lambda xp, x: xp.triu(x, k=1),
    lambda xp, x: xp.take(x, xp.asarray([2, 0]), axis=1),
    lambda xp, x: xp.take_along_axis(x, xp.asarray([[1], [0]]), axis=1),
    lambda xp, x: xp.where(xp.asarray([True, False, True]), x, xp.zeros_like(x)),
    lambda xp, x: xp.astype(x, xp.complex128),
    lambda xp, x: xp.nonzero(x)[1],
    lambda xp, x: x[..., ::-2],
    lambda xp, x: x[None, 1, xp.asarray([0, 2])],
    lambda xp, x: x.mT,
]


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("case", range(len(MANIPULATIONS)))
def test_manipulations_in_every_dtype(case, dtype):
    a = np.array([[3, 0, 1], [2, 5, 0]]).astype(dtype)
    same(MANIPULATIONS[case](eo, eo.asarray(a)), MANIPULATIONS[case](strict, strict.asarray(a)))


@pytest.mark.parametrize("dtype", REAL)
def test_sorting_searching_and_sets(dtype):
    a = np.array([[3, 1, 1], [2, 5, 0]]).astype(dtype)
    x, reference = eo.asarray(a), strict.asarray(a)
    for options in ({}, {"axis": 0}, {"descending": True}):
        same(eo.sort(x, **options), strict.sort(reference, **options))
        same(eo.argsort(x, **options), strict.argsort(reference, **options))
    same(eo.argmax(x, axis=1, keepdims=True), strict.argmax(reference, axis=1, keepdims=True))
    same(eo.argmin(x), strict.argmin(reference))
    for ours, theirs in zip(eo.unique_all(x), strict.unique_all(reference)):
        same(ours, theirs)
    assert eo.isin(x, eo.asarray(a[0])).tolist() == np.isin(a, a[0]).tolist()
    places = eo.searchsorted(eo.sort(x[1]), x[0], side="right")
    same(places, strict.searchsorted(strict.sort(reference[1, :]), reference[0, :], side="right"))


@pytest.mark.parametrize("dtype", ALL)
def test_creation(dtype):
    ours, theirs = getattr(eo, dtype), getattr(strict, dtype)
    for make in (
        lambda xp, d: xp.zeros((2, 3), dtype=d),
        lambda xp, d: xp.ones(2, dtype=d),
        lambda xp, d: xp.full((2,), 1, dtype=d) if dtype != "bool" else xp.full((2,), True, dtype=d),
        lambda xp, d: xp.eye(2, 3, k=1, dtype=d),
        lambda xp, d: xp.asarray([[0, 1]], dtype=d),
        lambda xp, d: xp.zeros_like(xp.ones((2, 0)), dtype=d),
        lambda xp, d: xp.full_like(xp.ones(2), 1, dtype=d) if dtype != "bool" else xp.zeros(0, dtype=d),
    ):
        same(make(eo, ours), make(strict, theirs))
    if dtype in REAL:
        same(eo.arange(1, 9, 3, dtype=ours), strict.arange(1, 9, 3, dtype=theirs))


def test_special_values_of_complex_functions():
    inf, nan = math.inf, math.nan
    for value in (
        complex(inf, 0.0),
        complex(-inf, inf),
        complex(inf, inf),
        complex(-inf, nan),
        complex(nan, 0.0),
    ):
        out = eo.expm1(eo.asarray(np.array([value]))).numpy()[0]
        expected = np.exp(np.complex128(value)) - 1  # C's limits of exp, which the standard takes over
        np.testing.assert_array_equal([out.real, out.imag], [expected.real, expected.imag])
    zero = eo.expm1(eo.asarray(np.array([complex(-0.0, 0.0)]))).numpy()[0]
    assert (math.copysign(1.0, zero.real), math.copysign(1.0, zero.imag)) == (1.0, 1.0)
    limit = eo.tanh(eo.asarray(np.array([complex(inf, 2.0), complex(-inf, -2.0)]))).numpy()
    np.testing.assert_array_equal(limit.real, [1.0, -1.0])
    np.testing.assert_array_equal(np.copysign(1.0, limit.imag), [1.0, -1.0])


# ---- data types


@pytest.mark.parametrize("dtype", INEXACT)
def test_limits_of_floats(dtype):
    info, expected = eo.finfo(getattr(eo, dtype)), np.finfo(dtype)
    assert [type(value) for value in info[:5]] == [int, float, float, float, float]
    assert info[:5] == (expected.bits, expected.eps, expected.max, expected.min, expected.smallest_normal)
    assert info.dtype == expected.dtype
    assert eo.finfo(eo.ones(1, dtype=dtype)) == info


@pytest.mark.parametrize("dtype", INTEGERS)
def test_limits_of_integers(dtype):
    info, expected = eo.iinfo(getattr(eo, dtype)), np.iinfo(dtype)
    assert info == (expected.bits, expected.max, expected.min, np.dtype(dtype))


def test_limits_of_a_dtype_of_the_wrong_kind():
    with pytest.raises(DTypeError, match="finfo"):
        eo.finfo(eo.int8)
    with pytest.raises(DTypeError, match="iinfo"):
        eo.iinfo(eo.float32)


@pytest.mark.parametrize("dtype", ALL)
def test_kinds_of_dtypes(dtype):
    kinds = [
        "bool",
        "signed integer",
        "unsigned integer",
        "integral",
        "real floating",
        "complex floating",
        "numeric",
    ]
    for kind in (*kinds, ("bool", "integral"), ("real floating", "complex floating")):
        assert eo.isdtype(getattr(eo, dtype), kind) == strict.isdtype(getattr(strict, dtype), kind)
    assert eo.isdtype(getattr(eo, dtype), (eo.float64, "bool")) == (dtype in ("float64", "bool"))
    with pytest.raises(ArgumentError, match="kind"):
        eo.isdtype(eo.bool, "whole")


def test_promotion_is_that_of_the_standard():
    for first in ALL:
        for second in ALL:
            a, b = getattr(strict, first), getattr(strict, second)
            try:
                expected = strict.result_type(a, b)
            except TypeError:  # of two kinds, which the standard leaves open
                continue
            assert eo.result_type(getattr(eo, first), eo.ones(1, dtype=second)) == np.dtype(
                expected._np_dtype
            )
            assert eo.can_cast(first, second) == strict.can_cast(a, b), (first, second)


def test_numbers_are_weak():
    assert eo.result_type(eo.float32, 1.5, 2) == eo.float32
    assert eo.result_type(eo.int8, 2, True) == eo.int8
    assert eo.result_type(1.5, 2) == eo.float32
    assert eo.result_type(eo.float32, 1j) == eo.complex64
    assert eo.result_type(np.float64(1), eo.ones(1)) == eo.float64
    with pytest.raises(ArgumentError, match="nothing"):
        eo.result_type()


# ---- inspection


def test_the_namespace_describes_itself():
    info = eo.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": 64,
    }
    assert eo.ones((1,) * 64).ndim == 64
    assert info.default_device() in info.devices()
    assert info.devices() == tuple(eo.available_devices())
    assert info.default_dtypes() == {
        "real floating": eo.float32, "complex floating": eo.complex64, "integral": eo.int64,
        "indexing": eo.int64,
    }  # fmt: skip
    assert sorted(info.dtypes()) == sorted(ALL)
    assert list(info.dtypes(kind=("bool", "complex floating"))) == ["bool", *COMPLEX]
    with pytest.raises(ArgumentError, match="kind"):
        info.dtypes(kind="whole")


def test_the_defaults_follow_the_settings():
    eo.set_default_dtype(eo.float64)
    try:
        defaults = eo.__array_namespace_info__().default_dtypes()
        assert (defaults["real floating"], defaults["complex floating"]) == (eo.float64, eo.complex128)
    finally:
        eo.set_default_dtype(eo.float32)


def test_a_tensor_names_its_namespace():
    x = eo.ones(2)
    assert x.__array_namespace__() is eo
    assert x.__array_namespace__(api_version="2023.12") is eo
    assert eo.__array_api_version__ == strict.__array_api_version__
    with pytest.raises(ArgumentError, match="version"):
        x.__array_namespace__(api_version="1999.12")


def test_constants():
    assert (eo.e, eo.pi, eo.inf, eo.newaxis) == (math.e, math.pi, math.inf, None)
    assert math.isnan(eo.nan)


def test_devices():
    x = eo.ones(2, requires_grad=True)
    assert x.to_device(x.device) is x
    with pytest.raises(ArgumentError, match="stream"):
        x.to_device("cpu", stream=1)


def test_shapes_that_broadcast():
    assert eo.broadcast_shapes() == ()
    assert eo.broadcast_shapes((2, 1), (3,), (1, 1, 1)) == (1, 2, 3)
    with pytest.raises(ShapeError, match="broadcast"):
        eo.broadcast_shapes((2,), (3,))


def test_reshape_copies_as_asked():
    x = eo.arange(6)
    assert not np.shares_memory(eo.reshape(x, (2, 3), copy=True).numpy(), x.numpy())
    assert np.shares_memory(eo.reshape(x, (2, 3), copy=False).numpy(), x.numpy())
    with pytest.raises(ArgumentError, match="copy"):
        eo.reshape(eo.reshape(x, (2, 3)).mT, (6,), copy=False)


# ---- exchange of memory


@pytest.mark.parametrize("dtype", ALL)
def test_memory_is_shared_with_numpy_both_ways(dtype):
    a = np.array([[1, 0], [3, 1]]).astype(dtype)
    x = eo.from_dlpack(a.T)
    np.testing.assert_array_equal(x.numpy(), a.T)
    assert np.shares_memory(x.numpy(), a)
    back = np.from_dlpack(x)
    assert np.shares_memory(back, a)
    assert not back.flags.writeable
    assert not np.shares_memory(eo.from_dlpack(a, copy=True).numpy(), a)
    assert not np.shares_memory(np.from_dlpack(x, copy=True), a)
    assert x.__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("dtype", ALL)
def test_memory_is_shared_with_pytorch_both_ways(dtype):
    torch = pytest.importorskip("torch", reason="PyTorch comes with the benchmarks' environments only")
    a = np.array([[1, 0], [3, 1]]).astype(dtype)
    theirs = torch.from_numpy(a).mT
    x = eo.from_dlpack(theirs)
    assert np.shares_memory(x.numpy(), a)
    np.testing.assert_array_equal(x.numpy(), a.T)
    back = torch.from_dlpack(x)
    assert (back.data_ptr(), back.stride(), back.dtype) == (a.ctypes.data, theirs.stride(), theirs.dtype)
    empty = torch.from_dlpack(eo.zeros((0, 3), dtype=dtype))
    assert (tuple(empty.shape), empty.dtype) == ((0, 3), theirs.dtype)
    assert torch.from_dlpack(eo.tensor(1, dtype=dtype)).item() == 1


def test_what_pytorch_keeps_to_itself_is_an_error():
    torch = pytest.importorskip("torch", reason="PyTorch comes with the benchmarks' environments only")
    for tensor in (torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.complex64).conj()):
        for take in (eo.asarray, eo.from_dlpack):
            with pytest.raises(ArgumentError, match="detach"):
                take(tensor)
    with pytest.raises(ArgumentError, match="resolve_neg"):
        eo.from_dlpack(torch.tensor([1 + 2j]).conj().imag)
    assert torch.from_dlpack(eo.flip(eo.arange(3.0))).tolist() == [2, 1, 0]


def test_negative_strides_are_copied():
    a = np.arange(6.0).reshape(2, 3)
    for x in (eo.asarray(a)[::-1], eo.flip(eo.asarray(a), axis=1)):
        given = np.from_dlpack(x)
        np.testing.assert_array_equal(given, x.numpy())
        assert min(given.strides) > 0
        assert not np.shares_memory(given, a)


def test_no_copy_is_an_error_where_one_is_needed():
    for data in ([1.0, 2.0], 1.0, np.arange(2.0).astype("f4")):
        with pytest.raises(ArgumentError, match="needs a copy") as caught:
            eo.asarray(data, dtype="float64", copy=False)
        assert isinstance(caught.value, ValueError)
    a = np.arange(2.0)
    assert np.shares_memory(eo.asarray(a, copy=False).numpy(), a)
    with pytest.raises(ArgumentError, match="stream"):
        eo.ones(2).__dlpack__(stream=1)


def test_a_capsule_without_a_version_is_of_memory_that_may_be_written():
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    x = eo.from_numpy(frozen)
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 1)))
    assert "dltensor_versioned" not in repr(x.__dlpack__())  # a copy: such a capsule cannot say "read-only"
    with pytest.raises(ArgumentError, match="__dlpack__"):
        x.__dlpack__(copy=False)


def test_nothing_leaves_its_graph_through_dlpack():
    x = eo.ones(2, requires_grad=True)
    with pytest.raises(GraphStateError, match="detach"):
        np.from_dlpack(x)
    with pytest.raises(GraphStateError, match="detach"):
        eo.from_dlpack(x)
    with pytest.raises(ArgumentError, match="from_dlpack"):
        eo.from_dlpack([1.0])
    with pytest.raises(ArgumentError, match="device"):
        eo.ones(1).__dlpack__(dl_device=(2, 0))
    with pytest.raises(Exception, match="vmap"):
        eo.vmap(lambda row: eo.from_dlpack(row))(eo.ones((2, 3)))
    with pytest.raises(GraphStateError, match="tangent"):
        eo.jvp(lambda x: eo.from_dlpack(x), (eo.ones(2),), (eo.ones(2),))
