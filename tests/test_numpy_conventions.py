"""Where NumPy settles what is empty, singular or not a number, functions of the same name settle it alike."""

import numpy as np
import pytest

import everyo as eo
from everyo.testing import check_jvp, gradcheck

INF, NAN = float("inf"), float("nan")


# ---- norms of nothing


@pytest.mark.parametrize("norm", [eo.linalg.norm, eo.linalg.vector_norm, eo.vector_norm])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize(
    ("ord", "expected"), [(INF, 0), (2, 0), (1, 0), (0, 0), (3, 0), (-1, INF), (-2.5, INF)]
)
def test_norms_of_empty_vectors(norm, dtype, ord, expected):
    x = eo.zeros((3, 0), dtype=dtype, requires_grad=True)
    found = norm(x, axis=1, ord=ord)
    assert (found.shape, found.dtype) == ((3,), np.empty(0, dtype).real.dtype)
    assert found.tolist() == [expected] * 3
    found.sum().backward()
    assert (x.grad.shape, x.grad.dtype) == ((3, 0), dtype)
    kept = norm(x, axis=1, ord=ord, keepdims=True)
    assert kept.shape == (3, 1)
    assert norm(x, axis=0, ord=ord).shape == (0,)


@pytest.mark.parametrize("norm", [eo.linalg.norm, eo.linalg.vector_norm])
def test_there_is_no_smallest_element_of_nothing(norm):
    with pytest.raises(eo.ShapeError, match="no element"):
        norm(eo.zeros((3, 0)), axis=1, ord=-INF)
    assert norm(eo.zeros((0, 3)), axis=1, ord=-INF).shape == (0,)


def test_the_norm_of_nothing_in_other_transformations():
    x = eo.zeros((3, 0), dtype=eo.float64)
    for ord in (INF, -1):
        value, tangent = eo.jvp(lambda x, p=ord: eo.vector_norm(x, axis=1, ord=p), (x,), (x,))
        assert (value.tolist(), tangent.tolist()) == ([0 if ord == INF else INF] * 3, [0] * 3)
        mapped = eo.vmap(lambda row, p=ord: eo.vector_norm(row, ord=p))(x)
        compiled = eo.compile(lambda x, p=ord: eo.vector_norm(x, axis=1, ord=p))(x)
        assert mapped.tolist() == compiled.tolist() == value.tolist()


# ---- matrices without rows or columns


@pytest.mark.parametrize("lead", [(), (2,)])
@pytest.mark.parametrize("name", ["eigvals", "eig", "eigh", "eigvalsh", "inv", "cholesky", "matrix_exp"])
def test_functions_of_empty_matrices_with_a_gradient(name, lead):
    x = eo.zeros((*lead, 0, 0), dtype=eo.float64, requires_grad=True)
    found = getattr(eo.linalg, name)(x)
    results = found if isinstance(found, tuple) else (found,)
    for result in results:
        assert result.size == 0
        assert result.shape[: len(lead)] == lead
    eo.real(results[0]).sum().backward()
    assert x.grad.shape == (*lead, 0, 0)


@pytest.mark.parametrize("name", ["det", "slogdet"])
def test_determinants_of_empty_matrices(name):
    x = eo.zeros((2, 0, 0), dtype=eo.float64, requires_grad=True)
    found = getattr(eo.linalg, name)(x)
    expected = getattr(np.linalg, name)(np.zeros((2, 0, 0)))
    np.testing.assert_array_equal(
        np.array([r.tolist() for r in found]), np.array([r.tolist() for r in expected])
    )
    (found[1] if name == "slogdet" else found).sum().backward()
    assert x.grad.shape == (2, 0, 0)


# ---- condition numbers


ORDERS = [None, 2, -2, 1, -1, INF, -INF, "fro", "nuc"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("p", ORDERS)
def test_condition_of_a_matrix_with_nan_is_nan(p, dtype):
    x = eo.tensor(np.array([[1.0, NAN], [0.0, 1.0]], dtype), requires_grad=True)
    found = eo.linalg.cond(x, p)
    assert np.isnan(found.item())
    found.backward()
    assert np.isnan(x.grad.numpy()).all()


@pytest.mark.parametrize("p", ORDERS)
def test_condition_numbers_of_a_batch_are_found_one_by_one(p):
    batch = np.array([np.eye(2), [[1.0, NAN], [0.0, 1.0]], [[INF, 0.0], [0.0, 1.0]], np.diag([1.0, 3.0])])
    x = eo.tensor(batch, requires_grad=True)
    expected = [eo.linalg.cond(x[i], p).item() for i in (0, 3)]
    for found in (eo.linalg.cond(x, p), eo.compile(lambda x: eo.linalg.cond(x, p))(x)):
        np.testing.assert_allclose(found.tolist(), [expected[0], NAN, INF, expected[1]], rtol=1e-15)
    eo.linalg.cond(x, p).backward(eo.tensor([1.0, 1.0, 1.0, 1.0], dtype=eo.float64))
    alone = eo.tensor(batch[3], requires_grad=True)
    eo.linalg.cond(alone, p).backward()
    np.testing.assert_allclose(x.grad[3].numpy(), alone.grad.numpy(), rtol=1e-14)
    assert np.isnan(x.grad[1].numpy()).all()


@pytest.mark.parametrize("p", ORDERS)
def test_condition_of_a_singular_matrix_is_infinite(p):
    points = [np.zeros((2, 2)), np.diag([1.0, 0.0]), np.diag([INF, 1.0])]
    for point, expected in zip(points, [INF, 0.0 if p == -2 else INF, INF], strict=True):
        x = eo.tensor(point, requires_grad=True)
        found = eo.linalg.cond(x, p)
        assert found.item() == expected  # NumPy's -2 is smallest by largest
        found.backward()
        assert np.isfinite(x.grad.numpy()).any() == (expected == 0)


@pytest.mark.parametrize("p", ORDERS)
def test_condition_numbers_have_their_derivatives(p):
    x = np.array([[2.0, 0.5, -0.3], [0.25, 1.5, -1.0], [0.4, 0.75, 3.0]])
    assert eo.testing.gradcheck(lambda x: eo.linalg.cond(x, p), x)
    assert eo.testing.check_jvp(lambda x: eo.linalg.cond(x, p), x)
    assert eo.testing.gradgradcheck(lambda x: eo.linalg.cond(x, p), x, tol=1e-5)
    expected = np.linalg.cond(x, p)
    np.testing.assert_allclose(eo.linalg.cond(x, p).item(), expected, rtol=1e-13)


# ---- residuals of least squares


def test_residuals_of_a_matrix_without_full_rank_are_empty():
    dependent = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])
    for b in (np.array([1.0, 0.0, 2.0]), np.eye(3)):
        x = eo.tensor(dependent, requires_grad=True)
        found = eo.linalg.lstsq(x, b)
        expected = np.linalg.lstsq(dependent, b)
        assert found.residuals.shape == expected[1].shape == (0,)
        assert found.rank.item() == 1
        found.solution.sum().backward()
        assert np.isfinite(x.grad.numpy()).all()
    full = eo.linalg.lstsq(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), np.array([1.0, 2.0, 3.0]))
    assert full.residuals.tolist() == [9.0]


def test_residuals_of_a_batch_are_given_for_all():
    a = np.array([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]])
    b = np.array([[[1.0], [2.0], [3.0]], [[2.0], [0.0], [4.0]]])
    found = eo.linalg.lstsq(a, b)
    assert found.rank.tolist() == [2, 1]
    np.testing.assert_allclose(found.residuals.numpy(), [[9.0], [16.0]], rtol=1e-14)
    mapped = eo.vmap(lambda a, b: eo.linalg.lstsq(a, b).residuals)(eo.tensor(a), eo.tensor(b))
    np.testing.assert_allclose(mapped.numpy(), [[9.0], [16.0]], rtol=1e-14)


# ---- rounding to decimals


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int16", "int64"])
@pytest.mark.parametrize("decimals", [-2, -1, 0, 1, 3])
def test_round_to_decimals(dtype, decimals):
    points = np.array([-123.4567, -55.0, 0.05, 0.5, 1.25, 678.9], dtype)
    x = eo.tensor(points, requires_grad=dtype[0] in "fc")
    found = eo.round(x, decimals=decimals)
    expected = np.round(points, decimals)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.detach().numpy(), expected)
    np.testing.assert_array_equal(eo.round(x, decimals).detach().numpy(), expected)
    np.testing.assert_array_equal(x.round(decimals).detach().numpy(), expected)
    np.testing.assert_array_equal(np.round(x, decimals).detach().numpy(), expected)
    np.testing.assert_array_equal(eo.compile(lambda x: eo.round(x, decimals))(x.detach()).numpy(), expected)
    if x.requires_grad:
        abs(found).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.zeros(6, dtype))


def test_decimals_are_an_integer():
    with pytest.raises(eo.DTypeError, match="integer"):
        eo.round(eo.ones(2), decimals=1.5)


# ---- dtypes that are asked for


X, C, N = np.array([0.6, 1.6]), np.array([1 + 2j, 2]), np.array([1, 300])
REFUSED = {
    "add": lambda w: np.add(w(X), w(X), dtype=int),
    "add to a number": lambda w: np.add(w(N), 1.5, dtype=int),
    "a number": lambda w: np.multiply(2.5, w(N), dtype=int),
    "outer": lambda w: np.multiply.outer(w(X), w(X), dtype=int),
    "matmul": lambda w: np.matmul(np.eye(2), w(X), dtype=int),
    "complex": lambda w: np.add(w(C), w(C), dtype=float),
    "unsigned": lambda w: np.add(w(N), w(N), dtype="uint8"),
    "concatenate": lambda w: np.concatenate([w(X), w(X)], dtype=int),
    "stack": lambda w: np.stack([w(X), X], dtype=int),
    "hstack": lambda w: np.hstack([w(X), X], dtype=int),
    "vstack": lambda w: np.vstack([w(C), X], dtype=float),
}
TAKEN = {
    "narrower": lambda w: np.add(w(X), w(X), dtype="float32"),
    "wider": lambda w: np.multiply(w(N), w(N), dtype=float),
    "complex": lambda w: np.add(w(X), 1, dtype=complex),
    "a number": lambda w: np.add(w(N.astype("uint8")), 1, dtype="uint8"),
    "a comparison": lambda w: np.less(w(X), w(X[::-1].copy()), dtype=bool),
    "a test": lambda w: np.isnan(w(X * NAN), dtype=bool),
    "concatenate": lambda w: np.concatenate([w(X), w(X)], dtype="float32"),
    "stack": lambda w: np.stack([w(N), X], dtype=complex),
    "sums": lambda w: np.add.reduce(w(X), dtype=int),  # where NumPy casts anything
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_dtypes_of_another_kind_are_refused(name):
    with pytest.raises(TypeError, match=r"[Cc]annot cast"):
        REFUSED[name](lambda a: a)
    with pytest.raises(eo.DTypeError, match="another kind of numbers"):
        REFUSED[name](eo.asarray)


@pytest.mark.parametrize("name", sorted(TAKEN))
def test_dtypes_of_the_same_kind_are_numpys(name):
    found, expected = TAKEN[name](eo.asarray), TAKEN[name](lambda a: a)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("number", [2, 2.5])
def test_numbers_among_choices_are_weak_wherever_they_stand(place, number):
    x = np.arange(3, dtype="float32")
    choices = [x, x * 2, x.astype("float16")]
    choices[place] = number
    conditions = [x < 1, x < 2, x < 3]
    expected = np.select(conditions, choices, 7)
    tensors = [c if c is number else eo.asarray(c) for c in choices]
    for found in (eo.select(conditions, tensors, 7), np.select(conditions, tensors, 7)):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.numpy(), expected)


def test_conditions_in_a_matrix():
    rows = np.array([[True, False, False], [True, True, False]])
    x, y = np.arange(3.0), np.arange(3.0) + 5
    pieces = np.piecewise(eo.asarray(x), rows, [lambda t: t * 2, 7.0])
    np.testing.assert_array_equal(pieces.numpy(), np.piecewise(x, rows, [lambda t: t * 2, 7.0]))
    expected = np.select(rows, [x, y], -1)
    np.testing.assert_array_equal(np.select(rows, [eo.asarray(x), y], -1).numpy(), expected)
    np.testing.assert_array_equal(
        np.select(eo.asarray(rows), eo.asarray(np.stack([x, y])), -1).numpy(), expected
    )


# ---- the order of elements


@pytest.mark.parametrize("order", ["A", "K", "a"])
def test_orders_that_memory_decides(order):
    x = np.arange(6.0).reshape(2, 3)
    for alike in (x[0], x[:1], x[:, 1:2], np.array(1.0), x[None, :, 0], x[:0]):
        found = np.ravel(eo.asarray(alike), order).numpy()
        np.testing.assert_array_equal(found, np.ravel(alike, order))
        if order.upper() == "A":
            found = np.reshape(eo.asarray(alike), (1, -1) if alike.size else (0, 2), order).numpy()
            np.testing.assert_array_equal(found, alike.reshape(found.shape))


@pytest.mark.parametrize("order", ["A", "K"])
def test_an_order_that_memory_decides_is_refused(order):
    """A tensor does not know how NumPy would have laid out what it was computed from."""
    x = np.arange(6.0).reshape(2, 3)
    for make in (
        eo.asarray,
        lambda a: eo.asarray(np.asfortranarray(a)),
        lambda a: eo.asarray(a).T,
        lambda a: eo.asarray(a).copy("F"),
        lambda a: np.copy(eo.asarray(a), "F"),
        lambda a: np.ones_like(eo.asarray(a).T) * eo.asarray(a).T,
        lambda a: np.empty_like(eo.asarray(a), order="F") * 0 + eo.asarray(a),
    ):
        for call in (lambda a: a.ravel(order), lambda a: a.flatten(order), lambda a: np.ravel(a, order)):
            with pytest.raises(eo.UnsupportedOperationError, match="memory"):
                call(make(x))
        with pytest.raises(eo.UnsupportedOperationError):
            make(x).reshape(6, order=order)


def test_orders_by_name():
    x = np.arange(6.0).reshape(2, 3)
    for order in "CFcf":
        np.testing.assert_array_equal(np.ravel(eo.asarray(x), order).numpy(), np.ravel(x, order))
        np.testing.assert_array_equal(
            np.reshape(eo.asarray(x), (3, -1), order).numpy(), np.reshape(x, (3, -1), order)
        )
    for call in (lambda: np.ravel(eo.asarray(x), "Z"), lambda: np.reshape(eo.asarray(x), 6, "K")):
        with pytest.raises(eo.UnsupportedOperationError, match="order"):
            call()
    for order in "CFcf":
        for call in (
            lambda a, order=order: a.flatten(order),
            lambda a, order=order: a.flatten(order=order),
            lambda a, order=order: a.ravel(order),
            lambda a, order=order: a.reshape(3, -1, order=order),
            lambda a, order=order: a.reshape((3, -1), order=order),
            lambda a, order=order: a.reshape(-1, order=order),
            lambda a, order=order: a.copy(order),
            lambda a, order=order: np.copy(a, order=order),
            lambda a, order=order: np.zeros_like(a, order=order, subok=False),
            lambda a, order=order: np.median(a, axis=0, overwrite_input=True),
            lambda a, order=order: np.percentile(a, 30, overwrite_input=False),
        ):
            np.testing.assert_array_equal(call(eo.asarray(x)).numpy(), call(x.copy()))
    for call in (
        lambda a: a.ravel("Z"), lambda a: a.flatten("Z"), lambda a: a.reshape(6, order="K"),
        lambda a: a.copy("Z"), lambda a: a.flatten(1, order="F"), lambda a: a.reshape(6, order=1),
        lambda a: eo.reshape(a, 6, order="F"), lambda a: eo.ravel(a, "F"), lambda a: eo.copy(a, order="F"),
        lambda a: eo.ravel(a, order="F"), lambda a: a.astype("float32", casting="safe"),
        lambda a: a.T.ravel("A"), lambda a: a.T.ravel("K"),
    ):  # fmt: skip
        with pytest.raises(eo.EveryOError, match="remedy"):
            call(eo.asarray(x))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.reshape(3, 2, order="F"),
        lambda x: x.ravel("F"),
        lambda x: x.flatten("F"),
        lambda x: x.copy("F"),
    ],
)
def test_orders_have_derivatives(f):
    x = eo.asarray(np.arange(6.0).reshape(2, 3))
    assert gradcheck(f, (x,))
    assert check_jvp(f, (x,))
    np.testing.assert_array_equal(eo.compile(f)(x).numpy(), f(x).numpy())
    np.testing.assert_array_equal(eo.vmap(f)(x[None])[0].numpy(), f(x).numpy())


# ---- integers beyond a dtype, and booleans that are counted


def test_members_beyond_the_dtype():
    x = np.array([1, 44, 255], "uint8")
    for members in ([300, -1], [300, 1], [255, 2**40], [], [44.0, 0.5], 44):
        np.testing.assert_array_equal(np.isin(eo.asarray(x), members).numpy(), np.isin(x, members))
        np.testing.assert_array_equal(eo.isin(eo.asarray(x), members).numpy(), np.isin(x, members))
        np.testing.assert_array_equal(np.setdiff1d(eo.asarray(x), members).numpy(), np.setdiff1d(x, members))


def test_weights_of_booleans():
    truths, weights = np.array([True, False, True]), np.array([1.0, 2.0, 4.0])
    for found in (np.bincount(truths, weights=eo.asarray(weights)), eo.bincount(truths, weights)):
        np.testing.assert_array_equal(found.numpy(), np.bincount(truths, weights))
    assert eo.grad(lambda w: eo.bincount(truths, w)[1])(weights).tolist() == [1.0, 0.0, 1.0]


def test_cross_products_of_vectors_of_a_plane():
    """NumPy has deprecated them in 2.0: the error says what computes their one number, as NumPy does."""
    a, b = eo.tensor([[1.0, 2.0], [0.5, 4.0]]), eo.tensor([[3.0, 5.0], [-1.0, 2.0]])
    with pytest.raises(eo.ShapeError, match="of a plane; two of them have") as caught:
        np.cross(a, b)
    written = caught.value.remedy.partition("two of them have ")[2]
    np.testing.assert_array_equal(eval(written, {"a": a, "b": b}).numpy(), [1 * 5 - 2 * 3, 0.5 * 2 + 4])
    padded = eo.cross(eo.pad(a, ((0, 0), (0, 1))), eo.pad(b, ((0, 0), (0, 1))))
    np.testing.assert_array_equal(padded.numpy()[:, 2], [-1.0, 5.0])
    with pytest.raises(eo.ShapeError, match=r"remedy: +append zeros to vectors of a plane\n"):
        np.cross(a, eo.ones((2, 3)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_edges_in_a_list_are_weak(dtype):
    x = np.array([0, 1, 1, 2], dtype)
    for bins in ([0, 1, 2], np.array([0, 1, 2])):
        counts, edges = np.histogram(eo.asarray(x), bins=bins)
        expected = np.histogram(x, bins=bins)
        np.testing.assert_array_equal(counts.numpy(), expected[0])
        np.testing.assert_array_equal(edges.numpy(), expected[1])
        assert edges.dtype == (dtype if type(bins) is list else np.int64)
