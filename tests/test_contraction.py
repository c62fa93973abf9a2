"""Matrix products: values and gradients, shapes, dtypes, errors, what a node keeps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everyo as eo


def leaf(array, dtype=np.float64):
    return eo.tensor(np.asarray(array, dtype), requires_grad=True)


def gradients(function, *arrays, seed=None):
    """Return the value of a function and its gradients, for a given gradient of the result."""
    leaves = [leaf(a, np.asarray(a).dtype) for a in arrays]
    y = function(*leaves)
    y.backward(eo.tensor(np.ones(y.shape, y.dtype) if seed is None else np.asarray(seed, y.dtype)))
    return y.detach().numpy(), *(x.grad.numpy() for x in leaves)


def random(*shapes, kind=float):
    rng = np.random.default_rng(sum(map(sum, shapes)) + len(shapes))
    arrays = [rng.standard_normal(s) for s in shapes]
    return [a + 1j * rng.standard_normal(a.shape) for a in arrays] if kind is complex else arrays


# The letters of each product, so that einsum, which shares no code with NumPy's matmul, gives the gradients.
MATMUL = [
    ((3,), (3,), "k,k->"),
    ((2, 3), (3,), "nk,k->n"),
    ((3,), (3, 4), "k,km->m"),
    ((2, 3), (3, 4), "nk,km->nm"),
    ((2, 2, 3), (3,), "bnk,k->bn"),
    ((3,), (2, 3, 4), "k,bkm->bm"),
    ((5, 2, 3), (3, 4), "bnk,km->bnm"),
    ((2, 3), (5, 3, 4), "nk,bkm->bnm"),
    ((5, 2, 3), (5, 3, 4), "bnk,bkm->bnm"),
    ((6, 5, 2, 3), (3, 4), "abnk,km->abnm"),
    ((6, 5, 2, 3), (5, 3, 4), "abnk,bkm->abnm"),
    ((6, 5, 2, 3), (3,), "abnk,k->abn"),
]


@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize(("shape1", "shape2", "letters"), MATMUL)
def test_matmul_and_its_gradients_are_the_sums_that_the_letters_say(shape1, shape2, letters, kind):
    a, b = random(shape1, shape2, kind=kind)
    first, rest = letters.split(",")
    second, out = rest.split("->")
    value, da, db = gradients(
        eo.matmul, a, b, seed=(g := random(np.einsum(letters, a, b).shape, kind=kind)[0])
    )
    np.testing.assert_allclose(value, np.einsum(letters, a, b), rtol=1e-12)
    # The gradient that users see is conjugated: dL/dx + i dL/dy.
    np.testing.assert_allclose(da, np.einsum(f"{out},{second}->{first}", g, b.conj()), rtol=1e-12)
    np.testing.assert_allclose(db, np.einsum(f"{out},{first}->{second}", g, a.conj()), rtol=1e-12)


@pytest.mark.parametrize(
    ("shape1", "shape2"),
    [
        ((2, 1, 4, 2), (1, 3, 2, 5)),
        ((1, 4, 2), (2, 2, 1)),
        ((1, 2, 3), (3, 4)),
        ((1, 1, 3), (3,)),
        ((3,), (1, 3, 1)),
    ],
)
def test_a_broadcast_batch_is_summed_back_even_if_the_result_has_the_size_of_a_factor(shape1, shape2):
    a, b = random(shape1, shape2)
    value, da, db = gradients(eo.matmul, a, b)
    assert value.shape == np.matmul(a, b).shape
    assert da.shape == shape1
    assert db.shape == shape2
    step = 1e-6
    for x, dx, other in ((a, da, lambda x: np.matmul(x, b)), (b, db, lambda x: np.matmul(a, x))):
        direction = np.random.default_rng(0).standard_normal(x.shape)
        slope = np.sum(other(x + step * direction) - other(x - step * direction)) / (2 * step)
        assert abs(slope - np.sum(dx * direction)) < 1e-8


def test_gradients_keep_the_dtype_of_their_factor():
    a, b = leaf(np.ones((2, 4)), np.float32), leaf(np.ones((4, 2)), np.float64)
    hidden = (a * 1).retain_grad()
    y = hidden @ b
    assert y.dtype == eo.float64
    y.sum().backward()
    assert hidden.grad.dtype == a.grad.dtype == eo.float32
    assert b.grad.dtype == eo.float64


def test_empty_axes():
    for shape1, shape2 in [
        ((2, 0), (0, 3)),
        ((0, 2), (2, 3)),
        ((0,), (0,)),
        ((3, 0, 2), (2, 4)),
        ((0, 3), (3,)),
    ]:
        value, da, db = gradients(eo.matmul, np.ones(shape1), np.ones(shape2))
        np.testing.assert_array_equal(value, np.ones(shape1) @ np.ones(shape2))
        np.testing.assert_array_equal(da, np.zeros(shape1))
        np.testing.assert_array_equal(db, np.zeros(shape2))


def test_integers_and_booleans_multiply_without_a_graph():
    a = np.arange(6).reshape(2, 3)
    y = eo.tensor(a) @ eo.tensor(a.T)
    assert y.dtype == eo.int64
    np.testing.assert_array_equal(y.numpy(), a @ a.T)
    mask = np.array([[True, False]])
    assert (eo.tensor(mask) @ eo.tensor(mask.T)).numpy().tolist() == [[True]]


def test_operators_with_arrays_and_lists_on_either_side():
    a, b = random((2, 3), (3, 2))
    for y in (eo.tensor(a) @ b, a @ eo.tensor(b), eo.tensor(a) @ b.tolist(), eo.matmul(a, b)):
        assert isinstance(y, eo.Tensor)
        np.testing.assert_allclose(y.numpy(), a @ b, rtol=1e-6)


def test_a_node_keeps_only_the_factors_that_the_wanted_gradients_read():
    x, w = eo.ones((2, 3)), leaf(np.ones((3, 4)), np.float32)
    (x_alone,) = (x @ w).grad_node.saved[:1]
    assert x_alone is x.data
    assert len([s for s in (x @ w).grad_node.saved if hasattr(s, "dtype")]) == 1
    assert [s for s in (w @ eo.ones((4, 2))).grad_node.saved if s is w.data] == []
    both = (w @ (v := leaf(np.ones((4, 2)), np.float32))).grad_node.saved
    assert any(s is w.data for s in both)
    assert any(s is v.data for s in both)


def test_the_second_derivative_of_a_quadratic_form_is_its_symmetric_matrix():
    matrix = np.array([[2.0, 1.0, 0.0], [0.5, 3.0, -1.0], [0.0, 4.0, 1.0]])
    x = leaf([1.0, -2.0, 0.5])
    (g,) = eo.autograd.grad(x @ eo.tensor(matrix) @ x, x, create_graph=True)
    rows = [eo.autograd.grad(g[i], x, retain_graph=True)[0].numpy() for i in range(3)]
    np.testing.assert_allclose(rows, matrix + matrix.T, rtol=1e-12)


def test_the_same_tensor_twice_and_once_transposed():
    x = leaf([[1.0]])
    eo.dot(x, x.T).backward()
    assert x.grad.tolist() == [[2.0]]


def test_batched_matrix_times_vector_sums_over_the_batch():
    a = np.arange(12.0).reshape(2, 2, 3)
    value, da, db = gradients(eo.matmul, a, np.array([1.0, 2.0, 3.0]), seed=[[1.0, 2.0], [3.0, 4.0]])
    assert np.sum(value * [[1.0, 2.0], [3.0, 4.0]]) == 440.0
    assert db.tolist() == [60.0, 70.0, 80.0]
    assert da.tolist() == [[[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]], [[3.0, 6.0, 9.0], [4.0, 8.0, 12.0]]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: eo.ones((2, 3)) @ 2.0, ["matmul", "0-d", "(2, 3)", "scale with *"]),
        (lambda: 2.0 @ eo.ones((2, 3)), ["matmul", "0-d", "(2, 3)"]),
        (lambda: eo.ones(()) @ eo.ones(3), ["matmul", "0-d"]),
        (lambda: eo.ones((2, 3)) @ eo.ones((2, 3)), ["contracted axes", "(2, 3)", "3 and 2"]),
        (lambda: eo.ones((2, 3)) @ eo.ones(4), ["contracted axes", "3 and 4"]),
        (lambda: eo.ones((5, 2, 3)) @ eo.ones((2, 3)), ["contracted axes", "3 and 2"]),
        (lambda: eo.ones((2, 2, 3)) @ eo.ones((4, 3, 2)), ["leading axes", "(2,) and (4,)"]),
        (lambda: eo.dot(eo.ones((2, 3)), eo.ones((2, 3))), ["dot", "contracted axes", "3 and 2"]),
        (lambda: eo.dot(eo.ones(3), eo.ones((2, 4, 3))), ["dot", "3 and 4"]),
        (lambda: eo.inner(eo.ones(3), eo.ones((2, 4))), ["inner", "(3,)", "(2, 4)"]),
        (lambda: eo.vecdot(eo.ones(3), eo.ones((2, 1))), ["vecdot", "3 and 1"]),
        (
            lambda: eo.tensordot(eo.ones((2, 3)), eo.ones((2, 3)), 1),
            ["tensordot", "(2, 3)", "sizes [3] and [2]"],
        ),
        (lambda: eo.tensordot(eo.ones((2, 3)), eo.ones((2, 3)), ((0, 0), (0, 1))), ["tensordot", "twice"]),
        (
            lambda: eo.tensordot(eo.ones((2, 2)), eo.ones((2, 2)), ((0, 1), (0,))),
            ["tensordot", "sizes [2, 2] and [2]"],
        ),
        (lambda: eo.tensordot(eo.ones(2), eo.ones(2), ((0,), (0,), (0,))), ["tensordot", "pair"]),
        (lambda: eo.tensordot(eo.ones((2, 2)), eo.ones(2), 2), ["tensordot", "0 to 1", "axes=2"]),
        (lambda: eo.tensordot(eo.ones(2), eo.ones(2), -1), ["tensordot", "axes=-1"]),
    ],
)
def test_errors_say_operation_shapes_and_fault(call, words):
    with pytest.raises(eo.ShapeError) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("axes", [((2,), (0,)), ((0,), (-3,)), (5, 0)])
def test_tensordot_refuses_axes_that_do_not_exist(axes):
    with pytest.raises(eo.IndexingError, match="tensordot"):
        eo.tensordot(eo.ones((2, 2)), eo.ones((2, 2)), axes)


DOT = [
    ((), (2, 3)), ((2, 3), ()), ((), ()), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)),
    ((2, 4, 3), (3,)), ((2, 4, 3), (3, 5)), ((3,), (2, 3, 4)), ((2, 3), (5, 3, 4)), ((2, 5, 3), (5, 3, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("shape1", "shape2"), DOT)
def test_dot_and_its_gradients(shape1, shape2):
    a, b = random(shape1, shape2)
    value, da, db = gradients(eo.dot, a, b)
    size = np.dot(np.abs(a), np.abs(b))  # of the terms, which may cancel
    assert np.all(np.abs(value - np.dot(a, b)) <= 8 * np.finfo(np.float64).eps * size)
    check_linear(lambda x: np.sum(np.dot(x, b)), a, da)
    check_linear(lambda x: np.sum(np.dot(a, x)), b, db)


def check_linear(function, x, gradient):
    """Check the gradient of a linear function, exactly: entry by entry on the unit arrays."""
    assert gradient.shape == x.shape
    for index in np.ndindex(x.shape):
        unit = np.zeros_like(x)
        unit[index] = 1.0
        np.testing.assert_allclose(gradient[index], function(unit), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("shape1", "shape2", "axes"),
    [
        ((2, 3, 4), (3, 4, 5), 2), ((2, 3), (4,), 0), ((2, 3), (3, 2), 1), ((2, 3), (2, 3), 2), ((), (2,), 0),
        ((2, 3, 4), (4, 3, 5), ((1, 2), (1, 0))), ((2, 3, 4), (4, 3, 5), ((2, 1), (0, 1))),
        ((2, 3, 4), (5, 2), ((0,), (1,))), ((2, 3, 4), (5, 2), ([-3], [-1])), ((2, 3), (3, 4), (1, 0)),
        ((2, 0), (0, 3), 1), ((2, 3), (4, 5), ((), ())),
    ],
)  # fmt: skip
def test_tensordot_and_its_gradients(shape1, shape2, axes):
    a, b = random(shape1, shape2)
    value, da, db = gradients(lambda x, y: eo.tensordot(x, y, axes), a, b)
    np.testing.assert_allclose(value, np.tensordot(a, b, axes), rtol=1e-12, atol=1e-14)
    check_linear(lambda x: np.sum(np.tensordot(x, b, axes)), a, da)
    check_linear(lambda x: np.sum(np.tensordot(a, x, axes)), b, db)


def test_tensordot_contracts_the_axis_that_was_named():
    x = leaf(1.0)
    matrix = eo.stack([eo.stack([x * 0, -x]), eo.stack([x, x * 0])])
    y = eo.tensordot(eo.tensor(np.array([1.0, 0.0])), matrix, ([0], [1]))
    y.backward(eo.tensor(np.array([2.0, 3.0])))
    assert y.tolist() == [0.0, 1.0]
    assert x.grad.item() == 3.0


def test_a_real_factor_of_a_complex_one_has_a_real_gradient():
    x = leaf([1.0, 1.0])
    y = eo.abs(eo.tensordot(x, eo.tensor(np.array([1, 1j])), axes=([0], [0]))) ** 2
    y.backward()
    assert x.grad.dtype == eo.float64
    np.testing.assert_allclose(x.grad.numpy(), [2.0, 2.0], rtol=1e-12)


def test_inner_and_outer_follow_numpy():
    a, b = random((2, 3), (4, 2, 3))
    value, da, db = gradients(eo.inner, a, b)
    np.testing.assert_allclose(value, np.inner(a, b), rtol=1e-12)
    check_linear(lambda x: np.sum(np.inner(x, b)), a, da)
    check_linear(lambda x: np.sum(np.inner(a, x)), b, db)
    value, da, db = gradients(eo.outer, a, b)
    np.testing.assert_array_equal(value, np.outer(a, b))
    np.testing.assert_allclose(da, np.full((2, 3), b.sum()), rtol=1e-12)
    np.testing.assert_allclose(db, np.full((4, 2, 3), a.sum()), rtol=1e-12)


def test_a_python_scalar_scales_and_takes_the_dtype_of_the_other():
    for function in (eo.dot, eo.inner):
        for y in (function(2, eo.tensor([1.0, 2.0])), function(eo.tensor([1.0, 2.0]), 2.0)):
            assert y.dtype == eo.float32
            assert y.tolist() == [2.0, 4.0]


def test_vecdot_conjugates_its_first_operand_and_broadcasts_the_others():
    a, b = random((4, 3), (2, 4, 3), kind=complex)
    value, da, db = gradients(eo.vecdot, a, b, seed=(g := random((2, 4), kind=complex)[0]))
    np.testing.assert_allclose(value, np.sum(a.conj() * b, axis=-1), rtol=1e-12)
    # L = Re(sum(conj(g) y)): the steepest ascent in a is sum(conj(g) b), in b it is g a.
    np.testing.assert_allclose(da, np.sum(g.conj()[..., None] * b, axis=0), rtol=1e-12)
    np.testing.assert_allclose(db, g[..., None] * a, rtol=1e-12)
    np.testing.assert_allclose(
        eo.vecdot(eo.tensor(a.T), eo.tensor(a.T), axis=0).numpy(), np.sum(abs(a) ** 2, axis=1), rtol=1e-12
    )


@given(st.data())
def test_matmul_shapes_and_values_for_any_batch(data):
    n, k, m = (data.draw(st.integers(0, 3)) for _ in range(3))
    batch = data.draw(st.lists(st.integers(0, 3), max_size=3))
    squeezed = [[1 if data.draw(st.booleans()) else size for size in batch] for _ in range(2)]
    shapes = [tuple(b[data.draw(st.integers(0, len(b))) :]) for b in squeezed]
    a, b = random((*shapes[0], n, k), (*shapes[1], k, m))
    value, da, db = gradients(eo.matmul, a, b)
    np.testing.assert_allclose(value, np.matmul(a, b), rtol=1e-10, atol=1e-12)
    assert da.shape == a.shape
    assert db.shape == b.shape
    # The sum of a bilinear form is the product of each factor with its own gradient.
    np.testing.assert_allclose([np.sum(a * da), np.sum(b * db)], value.sum(), rtol=1e-9, atol=1e-11)
