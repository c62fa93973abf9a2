"""What `everyo.ops.methods` attaches to Tensor: operators, in-place statements, methods, properties."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import everyo as eo
from everyo.ops import methods


def test_every_method_of_the_table_is_the_public_function():
    for name in methods.METHODS:
        assert getattr(eo.Tensor, name) is getattr(eo, name)
    for name, function in methods.PROPERTIES.items():
        assert getattr(eo.Tensor, name).fget is getattr(eo, function)


def test_every_operator_of_the_tables_exists():
    for name in methods.BINARY:
        for prefix in ("", "r", "i"):
            assert hasattr(eo.Tensor, f"__{prefix}{name}__")
    for name in (*methods.COMPARISONS, *methods.UNARY):
        assert f"__{name}__" in vars(eo.Tensor)


SCALARS = [2.0, 3, True]
FLOAT = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"]
WHOLE = ["and_", "or_", "xor", "lshift", "rshift"]


@pytest.mark.parametrize("name", FLOAT + WHOLE)
def test_operators_on_both_sides(name):
    call = getattr(operator, name)
    a, b = np.array([5, 2, 7]), np.array([2, 1, 3])
    if name in FLOAT:
        a, b = a.astype(np.float64), b.astype(np.float64)
    x, y = eo.tensor(a), eo.tensor(b)
    expected = call(a, b)
    for result in (call(x, y), call(x, b), call(a, y), call(x, b.tolist()), call(a.tolist(), y)):
        assert isinstance(result, eo.Tensor)
        np.testing.assert_allclose(result.numpy(), expected)
    for scalar in SCALARS if name in FLOAT else [2]:
        np.testing.assert_allclose(call(x, scalar).numpy(), call(a, scalar))
        np.testing.assert_allclose(call(scalar, y).numpy(), call(scalar, b))


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(name):
    call = getattr(operator, name)
    a, b = np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])
    for result in (call(eo.tensor(a), eo.tensor(b)), call(eo.tensor(a), b), call(a, eo.tensor(b))):
        assert result.dtype == eo.bool
        assert result.tolist() == call(a, b).tolist()
    assert call(eo.tensor(a), 2).tolist() == call(a, 2).tolist()
    assert call(2, eo.tensor(a)).tolist() == call(2, a).tolist()


def test_foreign_operands():
    class Other:
        def __radd__(self, x):
            return "added"

        def __eq__(self, x):
            return "equal"

        __hash__ = None

    x = eo.ones(2)
    assert x + Other() == "added"
    assert (x == Other()) == "equal"
    assert (x == None) is False  # noqa: E711
    assert (x != "text") is True
    for call in (operator.add, operator.matmul, operator.lt):
        with pytest.raises(TypeError):
            call(x, "text")
        with pytest.raises(TypeError):
            call("text", x)
    with pytest.raises(TypeError):
        x += "text"


def test_unary_operators_and_matmul():
    x = eo.tensor([1.0, -2.0])
    assert (-x).tolist() == [-1, 2]
    assert (+x).tolist() == [1, -2]
    assert abs(x).tolist() == [1, 2]
    assert (~eo.tensor([True, False])).tolist() == [False, True]
    m = eo.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert (m @ x).tolist() == [-3, -5]
    assert (np.ones((2, 2)) @ m).tolist() == [[4, 6], [4, 6]]
    m @= m
    assert m.tolist() == [[7, 10], [15, 22]]


# ---- in place


@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv", "ipow"])
def test_in_place_is_the_plain_operation_with_its_gradient(name):
    inplace, plain = getattr(operator, name), getattr(operator, name[1:])
    x0 = eo.tensor([1.5, 2.5], requires_grad=True)
    x = same = x0 * 1
    x = inplace(x, x0)
    assert x is same
    x.sum().backward()
    first = x0.grad
    x0.zero_grad()
    plain(x0, x0).sum().backward()
    np.testing.assert_allclose(first.numpy(), x0.grad.numpy())


def test_in_place_keeps_other_tensors_and_saved_values():  # B063
    x = eo.tensor([0.0, 1.0], requires_grad=True)
    y = eo.exp(x)
    z = y
    view = y[:1]
    y += 1.0
    assert z is y
    assert view.item() == 1.0
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([0, 1]), rtol=1e-6)


def test_in_place_keeps_shape_and_dtype():
    x = eo.ones(2)
    x += np.ones(2)
    assert x.dtype == eo.float32
    n = eo.tensor([1, 2])
    n += True
    n *= 3
    assert n.tolist() == [6, 9]
    for grow in (lambda: operator.iadd(x, eo.ones((3, 2))), lambda: operator.isub(eo.ones(1), x)):
        with pytest.raises(eo.ShapeError, match="shape"):
            grow()
    for convert in (
        lambda: operator.iadd(n, 1.5),
        lambda: operator.itruediv(n, 2),
        lambda: operator.imul(x, 1j),
        lambda: operator.iadd(eo.tensor([True]), 1),
    ):
        with pytest.raises(eo.DTypeError, match="dtype"):
            convert()
    assert n.tolist() == [6, 9]


def test_in_place_gradient_of_a_wider_operand():
    w = eo.tensor([1.0, 2.0], dtype=eo.float64, requires_grad=True)
    x = eo.ones(2)
    x *= w
    assert x.dtype == eo.float32
    x.sum().backward()
    assert w.grad.dtype == eo.float64
    assert w.grad.tolist() == [1, 1]


def test_a_leaf_refuses_in_place_statements():
    w = eo.ones(2, requires_grad=True)
    with pytest.raises(eo.GraphStateError, match="leaf"):
        w += 1
    with eo.no_grad():
        w += 1
    assert w.tolist() == [2, 2]
    assert w.is_leaf
    assert w.requires_grad


# ---- methods and properties


def test_methods_are_differentiable():
    x = eo.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    (x.exp().log().sqrt().square().sum(axis=0).reshape(2, 1).T @ x.mean(axis=0)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[4, 6], [4, 6]], rtol=1e-6)


def test_transposed_dot():  # B137
    w = np.arange(5.0)
    x = eo.tensor(np.ones(5), requires_grad=True)
    for result in (eo.tensor(w).T.dot(x), w.T @ x, eo.dot(w.T, x)):
        x.zero_grad()
        result.backward()
        assert result.item() == 10
        assert x.grad.tolist() == [0, 1, 2, 3, 4]


def test_parts_of_complex_tensors():
    z = eo.tensor([1 + 2j])
    assert z.real.tolist() == [1]
    assert z.imag.tolist() == [2]
    assert z.conj().tolist() == [1 - 2j]


def test_hash_is_identity():
    x, y = eo.ones(2), eo.ones(2)
    assert len({x, y, x}) == 2
    assert {x: 1}[x] == 1
