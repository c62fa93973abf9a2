"""Tangents and cotangents that are given: numbers are weak, misfits are named, integers do not matter."""

import numpy as np
import pytest

import everyo as eo

X = eo.tensor(2.0, dtype=eo.float64)
V = eo.tensor([1.0, 2.0], dtype=eo.float64)


def pushed(f, x, v):
    return eo.jvp(f, (x,), (v,))[1]


def linear(f, x, v):
    return eo.linearize(f, x)[1](v)


def pulled(f, x, u):
    return eo.vjp(f, x)[1](u)[0]


def product(f, x, v):
    return eo.hvp(lambda x: f(x).sum(), x, v)


def product_reverse(f, x, v):
    return eo.vhp(lambda x: f(x).sum(), x, v)


GIVEN = [pushed, linear, pulled, product, product_reverse]


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("dtype", [eo.float32, eo.float64])
def test_numbers_take_the_dtype_of_what_they_stand_beside(given, dtype):
    x = X.astype(dtype)
    for number in (0.1, 3):
        found = given(lambda x: x * x / 2 if given in (pushed, linear, pulled) else x * x, x, number)
        assert found.dtype == dtype
        assert found.item() == np.asarray(number, dtype) * np.asarray(2, dtype)


def test_a_number_as_gradient_of_backward_is_not_rounded():
    x = eo.tensor(2.0, dtype=eo.float64, requires_grad=True)
    (x * x).backward(0.1)
    assert x.grad.item() == 0.1 * 4
    z = eo.tensor(1j, dtype=eo.complex128, requires_grad=True)
    (z * 2).backward(0.1j)
    assert z.grad.item() == 0.2j


def test_complex_numbers():
    z = eo.tensor(1.0 + 2.0j, dtype=eo.complex128)
    assert pushed(lambda z: z * z, z, 0.1j).item() == 2 * (1 + 2j) * 0.1j
    assert linear(lambda z: z * z, z, 1).item() == 2 + 4j
    assert pulled(lambda z: z * z, z, 0.1j).item() == np.conj(2 + 4j) * 0.1j
    for given in (pushed, linear, pulled):
        with pytest.raises(eo.DTypeError, match="complex"):
            given(lambda x: x * x, X, 1j)


MISFITS = [
    (pushed, "jvp", "tangent"),
    (linear, "linearize", "tangent"),
    (pulled, "vjp", "cotangent"),
    (product, "hvp", "tangent"),
    (product_reverse, "vhp", "cotangent"),
]


@pytest.mark.parametrize(("given", "operation", "word"), MISFITS)
@pytest.mark.parametrize(("vector", "kind", "expected"), [
    (eo.ones(3, dtype=eo.float64), eo.ShapeError, ["shape (2,)", "shape (3,)"]),
    (1.0, eo.ShapeError, ["shape (2,)", "shape ()"]),
    ([1.0, 2.0], eo.ShapeError, ["structure"]),
    (eo.ones(2), eo.DTypeError, ["float64", "float32"]),
    (np.ones(2, np.float32), eo.DTypeError, ["float64", "float32"]),
    ({"a": V}, eo.ShapeError, ["structure"]),
    ("no", eo.DTypeError, ["str"]),
])  # fmt: skip
def test_what_does_not_fit(given, operation, word, vector, kind, expected):
    with pytest.raises(kind) as error:
        given(lambda x: x * x, V, vector)
    text = str(error.value)
    assert error.value.operation == operation
    assert error.value.remedy
    assert [w for w in expected if w not in text] == []
    assert "output 0" not in text
    assert kind is not eo.ShapeError or "structure" in text or word in text


@pytest.mark.parametrize("call", [
    lambda k: eo.vjp(lambda x: x, k), lambda k: eo.jvp(lambda x: x, (k,), (k,)),
    lambda k: eo.linearize(lambda x: x, k), lambda k: eo.hvp(lambda x: x, k, k),
    lambda k: eo.vhp(lambda x: x, k, k),
], ids=["vjp", "jvp", "linearize", "hvp", "vhp"])  # fmt: skip
def test_the_way_out_for_an_integer_is_one_that_exists(call, request):
    with pytest.raises(eo.DTypeError) as error:
        call(eo.tensor(3))
    assert error.value.operation == request.node.callspec.id
    assert "argnums" not in str(error.value)
    assert "lambda x: f(x, k)" in error.value.remedy


def test_the_way_out_with_argnums():
    for transform in (eo.grad, eo.jacrev, eo.jacfwd, eo.jacobian, eo.hessian):
        with pytest.raises(eo.DTypeError, match="argnums"):
            transform(lambda x: x)(3)


# ---- integers among the results


def with_integers(x):
    return {"y": x * x, "largest": eo.argmax(x), "positive": x > 0, "count": 3}


def test_integers_among_the_results():
    value, push = eo.linearize(with_integers, V)
    expected = eo.jvp(with_integers, (V,), (V,))
    assert value["largest"].item() == 1
    for found in (push(V), expected[1]):
        assert found["y"].tolist() == [2.0, 8.0]
        for name in ("largest", "positive", "count"):
            assert found[name].dtype == value[name].dtype == expected[0][name].dtype
            assert not found[name].numpy().any()
    assert eo.vmap(push)(eo.eye(2, dtype=eo.float64))["y"].tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_nothing_but_integers():
    value, push = eo.linearize(eo.argmax, V)
    assert value.item() == 1
    assert push(V).item() == 0
    assert push(V).dtype == value.dtype
    with pytest.raises(eo.ShapeError, match="tangent"):
        push(eo.ones(3, dtype=eo.float64))


def test_cotangents_of_integers_do_not_matter():
    value, pullback = eo.vjp(with_integers, V)
    for other in (0, 7.5, value["largest"], np.zeros(3)):
        cotangents = {
            "y": eo.tensor([1.0, 10.0], dtype=eo.float64),
            "largest": other,
            "positive": value["positive"],
            "count": 0,
        }
        assert pullback(cotangents)[0].tolist() == [2.0, 40.0]


def test_results_that_do_not_depend_check_their_cotangents():
    _, pullback = eo.vjp(lambda x: eo.ones(3, dtype=eo.float64), V)
    assert pullback(np.ones(3))[0].tolist() == [0.0, 0.0]
    with pytest.raises(eo.ShapeError, match="cotangent"):
        pullback(1.0)


def test_another_number_of_tangents():
    _, push = eo.linearize(lambda x, y: x * y, V, V)
    assert push(V, 2 * V).tolist() == [3.0, 12.0]
    with pytest.raises(eo.ShapeError) as error:
        push(V)
    assert error.value.operation == "linearize"


# ---- results that are no tensors


@pytest.mark.parametrize("transform", [eo.grad, eo.jacrev, eo.jacfwd, eo.jacobian])
def test_a_result_that_is_a_number_is_constant(transform):
    assert transform(lambda x: 3.0)(V).tolist() == [0.0, 0.0]
    assert transform(lambda x: 3.0)(V).dtype == eo.float64
    found, aux = transform(lambda x: (3.0, "aux"), has_aux=True)(V)
    assert found.tolist() == [0.0, 0.0]
    assert aux == "aux"
    found = eo.vmap(transform(lambda x: 3.0))(eo.stack([V, V]))
    assert found.tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("transform", [eo.jacrev, eo.jacfwd, eo.jacobian])
def test_numbers_among_the_results(transform):
    found = transform(lambda x: {"a": 3, "b": [x * 2, 1.5]})(V)
    assert found["a"].tolist() == found["b"][1].tolist() == [0.0, 0.0]
    assert found["b"][0].tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert found["a"].dtype == found["b"][1].dtype == eo.float64
    assert eo.hessian(lambda x: 3.0)(V).tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("transform", [eo.jacrev, eo.jacfwd])
@pytest.mark.parametrize(("inside", "outside", "dtype"), [
    (eo.float32, eo.float64, eo.float64), (eo.float64, eo.float32, eo.float64),
    (eo.float32, eo.float32, eo.float32), (eo.float64, eo.complex64, eo.complex128),
    (eo.float32, eo.int64, eo.float32), (eo.float64, eo.bool, eo.float64),
])  # fmt: skip
def test_a_jacobian_has_the_dtype_that_input_and_output_promote_to(transform, inside, outside, dtype):
    found = transform(lambda x: (x * 2).astype(outside))(eo.tensor([1.0, 2.0], dtype=inside))
    assert found.dtype == dtype
    assert found.tolist() == (2 * np.eye(2) * (outside not in (eo.int64, eo.bool))).tolist()
