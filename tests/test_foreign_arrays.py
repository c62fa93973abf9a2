"""Arrays of other classes, dtypes and byte orders: taken for what they mean, or refused."""

from __future__ import annotations

import array

import numpy as np
import pytest

import everyo as eo
from everyo.errors import DTypeError, IndexingError

V = np.array([0.5, 2.0, 0.25])
M = np.array([[1.0, 2.0], [3.0, 5.0]])
MASKED = np.ma.array(V, mask=[True, False, False])
OBJECTS = np.array([1, 2.0, 3], dtype=object)


class Own(np.ndarray):
    """An array with rules of its own, as one with units has."""

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return "own"


class Plain(np.ndarray):
    """An array with none."""


class Convertible:
    def __array__(self, dtype=None, copy=None):
        return V


def tracked(a):
    return eo.asarray(a).requires_grad_()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x * MASKED,
        lambda x: np.add(MASKED, x),
        lambda x: np.where(MASKED > 0, x, 0.0),
        lambda x: eo.sum(MASKED),
        lambda x: eo.asarray(MASKED),
        lambda x: eo.concat([MASKED, x]),
    ],
)
def test_a_masked_array_never_loses_its_mask(call):
    for x in (tracked(V), eo.asarray(V)):
        with pytest.raises(DTypeError, match="masked"):
            call(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x * OBJECTS,
        lambda x: OBJECTS * x,
        lambda x: np.subtract(x, OBJECTS),
        lambda x: x == OBJECTS,
        lambda x: eo.where(V > 1, x, OBJECTS),
        lambda x: eo.exp(OBJECTS),
        lambda x: eo.add(V, OBJECTS),
        lambda x: eo.add(OBJECTS, V),
        lambda x: x + np.array(["a", "b", "c"]),
        lambda x: eo.grad(lambda y: (y * OBJECTS).sum())(x),
        lambda x: eo.vmap(lambda y: y * OBJECTS)(x[None]),
        lambda x: eo.compile(lambda y: y * OBJECTS)(x),
    ],
)
def test_arrays_of_objects_and_of_text_are_no_operands(call):
    for x in (tracked(V), eo.asarray(V)):
        with pytest.raises(DTypeError, match="not numeric"):
            call(x)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a_matrix_multiplies_as_matrices_do_or_not_at_all():
    x, m = tracked(M), np.matrix(M)
    np.testing.assert_allclose((x * m).detach().numpy(), M @ M)
    for refused in (lambda: m * x, lambda: np.add(m, x)):
        with pytest.raises(TypeError):
            refused()
    assert eo.asarray(m).dtype == np.float64
    np.testing.assert_allclose((x + eo.asarray(m)).detach().numpy(), M + M)


def test_a_class_with_rules_of_its_own_answers():
    own, plain = V.view(Own), V.view(Plain)
    for x in (tracked(V), eo.asarray(V)):
        assert x * own == "own"
        assert own * x == "own"
        assert np.add(x, own) == "own"
        for product in (x * plain, plain * x, np.multiply(plain, x)):
            assert isinstance(product, eo.Tensor)
            np.testing.assert_allclose(product.detach().numpy(), V * V)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (Convertible(), "float64"),
        (array.array("d", [0.1, 0.2]), "float64"),
        ([np.float64(0.1), np.float64(0.2)], "float64"),
        ([V, V], "float64"),
        ([[1.0, 2.0], [3.0, np.float32(1.0)]], "float64"),
        ([np.float32(0.1)], "float32"),
        ([np.int8(1), np.int8(2)], "int8"),
        ([0.1, 0.2], "float32"),
        ([True, 2], "int64"),
    ],
)
def test_values_of_a_library_keep_their_dtype_also_in_lists(data, dtype):
    want = np.asarray(data, dtype=dtype)
    for made in (eo.asarray(data), eo.tensor(data)):
        assert made.dtype == dtype
        np.testing.assert_array_equal(made.numpy(), want)
    if isinstance(data, list) and dtype == "float64":
        assert (eo.ones(want.shape, dtype=eo.float32) + data).dtype == np.float64


OTHER_ORDER = np.dtype("f8").newbyteorder()
IN_OTHER_ORDER = {
    "asarray": lambda x, big: eo.asarray(V, dtype=OTHER_ORDER),
    "zeros": lambda x, big: eo.zeros(3, dtype=OTHER_ORDER),
    "like": lambda x, big: eo.ones_like(x, dtype=OTHER_ORDER),
    "astype": lambda x, big: x.astype(OTHER_ORDER),
    "integers": lambda x, big: x.astype(np.dtype("i4").newbyteorder()),
    "complex": lambda x, big: x.astype(np.dtype("c8").newbyteorder()),
    "to": lambda x, big: x.to(OTHER_ORDER),
    "sum": lambda x, big: np.sum(x, dtype=OTHER_ORDER),
    "mean": lambda x, big: np.mean(x, dtype=OTHER_ORDER),
    "var": lambda x, big: eo.var(x, dtype=OTHER_ORDER),
    "cumsum": lambda x, big: np.cumsum(x, dtype=OTHER_ORDER),
    "trace": lambda x, big: eo.trace(eo.outer(x, x), dtype=OTHER_ORDER),
    "concat": lambda x, big: np.concatenate([x, x], dtype=OTHER_ORDER),
    "a ufunc": lambda x, big: np.add(x, x, dtype=OTHER_ORDER),
    "draws": lambda x, big: eo.random.normal(size=3, dtype=OTHER_ORDER),
    "result_type": lambda x, big: eo.result_type(OTHER_ORDER),
    "clone": lambda x, big: eo.clone(big),
    "erf": lambda x, big: eo.erf(big),
    "real": lambda x, big: eo.real(big),
    "ravel": lambda x, big: eo.ravel(big),
    "a list": lambda x, big: eo.stack([big, x]),
    "a derivative": lambda x, big: eo.grad(lambda y: y.sum())(big),
    "a tangent": lambda x, big: eo.jvp(eo.clone, (big,), (big,))[1],
    "a batch": lambda x, big: eo.vmap(eo.clone)(big),
    "a constant in a batch": lambda x, big: eo.vmap(lambda y: eo.where(y > 0, big, y))(x),
    "compiled": lambda x, big: eo.compile(lambda x: x.astype(OTHER_ORDER))(x),
}


@pytest.mark.parametrize("name", IN_OTHER_ORDER)
def test_results_are_in_the_machines_byte_order(name):
    found = IN_OTHER_ORDER[name](eo.asarray(V), V.astype(OTHER_ORDER))
    dtype = getattr(found, "dtype", found)
    assert dtype.isnative
    assert dtype in (eo.float64, eo.int32, eo.complex64)
    if isinstance(found, eo.Tensor):
        assert np.from_dlpack(found.detach()).dtype == dtype


def test_another_byte_order_is_the_same_dtype():
    big = V.astype(">f8")
    x = tracked(big)
    assert x.dtype == np.float64
    (x * big).sum().backward()
    assert x.grad.dtype == np.float64
    np.testing.assert_array_equal(x.grad.numpy(), V)
    out, tangent = eo.jvp(eo.sin, (eo.asarray(big),), (eo.ones(3, dtype=eo.float64),))
    np.testing.assert_allclose(tangent.numpy(), np.cos(V), rtol=1e-15)
    np.testing.assert_allclose(out.numpy(), np.sin(V), rtol=1e-15)


def test_a_mask_of_another_length_is_refused():
    for function in (np.delete, eo.delete):
        with pytest.raises(IndexingError, match="mask does not fit"):
            function(eo.asarray(V), np.array([True, False]))
    np.testing.assert_array_equal(eo.delete(eo.asarray(V), np.array([True, False, True])).numpy(), V[1:2])
