"""Compiled programs that were wrong once, and one small program for each rule of the code generator."""

import math

import numpy as np
import pytest

import everyo as eo
from tests.compiling import agree, same
from tests.random_programs import assigned, increased


def array(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, shape)


def tensors(*shapes):
    return [eo.asarray(array(*s, seed=i)) for i, s in enumerate(shapes)]


ORDER = eo.asarray(np.random.default_rng(1).permutation(40))
SQUARE = (40, 40)
ROWS = (70, 33)  # long enough for loops, odd enough for what is left of vectors
PICKED = eo.asarray(np.array([2, 0, -1, 2]))

# name: (function, shapes of its arguments)
PROGRAMS = {
    "chain": (lambda x: eo.sin(x) * 2 - eo.exp(-x * x), [ROWS]),
    "subtraction and division": (lambda x, y: (x - y) / (2 + y * y), [ROWS, (33,)]),
    "columns": (lambda x, y: x * y - y, [ROWS, (70, 1)]),
    "number of numbers": (lambda x: 2 * eo.sum((x - eo.mean(x)) ** 2) + eo.mean(x), [ROWS]),
    "outer product": (lambda x, y: x[:, None] * y - x[:, None], [(70,), (33,)]),
    "softmax of rows": (lambda x: eo.softmax(x * 3, axis=1) * eo.cos(x), [ROWS]),
    "softmax of columns": (lambda x: eo.log_softmax(x * 3, axis=0) * eo.cos(x), [ROWS]),
    "variance": (lambda x: eo.var(x, axis=1) + eo.mean(x, axis=1) * eo.max(x, axis=1), [ROWS]),
    "sums over each axis": (
        lambda x: [eo.sum(x, axis=a, keepdims=len(str(a)) > 1) for a in (0, 1, 2, (0, 1), (1, 2), (0, 2))],
        [(9, 20, 7)],
    ),
    "sum, and what follows": (lambda x: x / eo.sum(x * x) - eo.max(x), [ROWS]),
    "sums in sums": (lambda x: eo.sum(eo.exp(eo.sum(x, axis=1) - eo.max(x)) ** 2), [ROWS]),
    "extremes of columns": (lambda x: (eo.min(x, axis=0) + eo.max(x, axis=0)) * x, [ROWS]),
    "products": (lambda x: eo.prod(eo.cos(x), axis=1) + eo.prod(1 + x[:, :4], axis=1), [ROWS]),
    "positions": (
        lambda x: (eo.argmax(x, axis=0), eo.argmin(x, axis=1), eo.argmax(x), eo.argmin(x[:3, :4], axis=0)),
        [ROWS],
    ),
    "any and all": (
        lambda x: (eo.any(x > 0.9, axis=0), eo.all(x < 0.9, axis=1), eo.count_nonzero(x > 0)), [ROWS],
    ),
    "transpose": (lambda x: eo.transpose(eo.sin(x), (2, 0, 1)) * 2, [(9, 20, 7)]),
    "transposed twice": (
        lambda x: eo.transpose(eo.transpose(x, (1, 2, 0)), (0, 2, 1)) * 2, [(9, 20, 7)],
    ),
    "transpose and reshape": (lambda x: eo.reshape(eo.transpose(x, (1, 2, 0)), (7, -1)) + 1, [(9, 20, 7)]),
    "reshape of a computed value": (
        lambda x: eo.reshape(eo.sin(x), (-1, 21)) * eo.reshape(x, (-1, 21)), [ROWS],
    ),
    "slices": (lambda x: x[3:60:2, ::-1] - eo.sin(x)[4:61:2, :], [ROWS]),
    "slices backwards": (lambda x: x[::-3, -2::-4] * 2, [ROWS]),
    "neighbours": (lambda x: x[1:-1] * 2 - x[2:] - x[:-2], [(100,)]),
    "pads": (lambda x: eo.pad(eo.sin(x), [(1, 2), (0, 3)], constant_values=1.5) * 2, [ROWS]),
    "joined": (lambda x, y: eo.concat([x, eo.sin(y), x * 2], axis=1) + 1, [(30, 20), (30, 9)]),
    "joined from several dtypes": (
        lambda x: eo.concat([x.astype(eo.float32), x * 2, (x * 9).astype(eo.int32)], axis=1), [ROWS],
    ),
    "stacked": (lambda x: eo.stack([x, eo.sin(x), -x], axis=1) * 2, [ROWS]),
    "joined and rolled": (
        lambda x: eo.roll(eo.concat([x, x * 2]), 3, axis=0) + eo.flip(x, axis=1)[:1], [ROWS],
    ),
    "rolled twice along one axis": (lambda x: eo.roll(eo.sin(x), (3, 4), axis=0) * 2, [ROWS]),
    "triangles": (lambda x: eo.tril(x, k=1) @ eo.triu(x, k=-2), [(40, 40)]),
    "gathered rows": (lambda x: eo.sin(x)[PICKED] * 2, [(30, 20)]),
    "gathered columns": (lambda x: x[:, PICKED] - x[:, PICKED + 1], [(30, 20)]),
    "gathered elements": (lambda x: x[PICKED, PICKED % 3] + x[:, PICKED][PICKED, :].sum(axis=0), [(30, 20)]),
    "along an axis": (lambda x: eo.take_along_axis(x, eo.argsort(x, axis=1)[:, :3], axis=1) * 2, [ROWS]),
    "assigned": (lambda x, y: assigned(eo.sin(x), np.s_[2:9:3, ::-2], y), [(30, 21), (11,)]),
    "assigned by array": (lambda x, y: assigned(x, np.array([3, 1, -1]), y) * 2, [(30, 21), (3, 21)]),
    "assigned to one row twice": (
        lambda x, y: assigned(x, np.array([1, 3, 3]), y) * 2, [(30, 21), (3, 21)],
    ),
    "increased by array": (lambda x, y: increased(x, np.array([3, 1, 3]), y) * 2, [(30, 21), (3, 21)]),
    "running sums": (lambda x: eo.cumsum(eo.sin(x), axis=0) - eo.cumsum(x, axis=1), [ROWS]),
    "running products": (lambda x: eo.cumprod(1 + 0.1 * x, axis=1) * 2, [ROWS]),
    "small products of matrices": (lambda x, y: eo.matmul(x, y) * 2 - eo.matmul(x, x), [(3, 3), (3, 3)]),
    "batches of small products": (lambda x, y: eo.matmul(x, y) + eo.sin(x), [(50, 3, 3), (50, 3, 3)]),
    "large products": (lambda x, y: eo.matmul(x, y) - eo.matmul(y.T, x.T).T * 0.5, [(40, 50), (50, 30)]),
    "largest of a product": (lambda x, y: eo.max(x @ y, axis=0) - eo.min(x @ y), [(40, 50), (50, 30)]),
    "products with transposes": (
        lambda x, y: eo.matmul(x.T, y.T) + eo.matmul(eo.sin(x).T, y.T), [(50, 40), (30, 50)],
    ),
    "batches of large products": (lambda x, y: eo.matmul(x, y), [(3, 20, 25), (3, 25, 18)]),
    "broadcast batches": (lambda x, y: eo.matmul(x, y), [(4, 1, 20, 18), (3, 18, 20)]),
    "matrix and vector": (lambda x, y: eo.tanh(x @ y) @ x, [(60, 50), (50,)]),
    "bias and activation": (lambda x, w, b: eo.relu(x @ w + b).sum(axis=0), [(30, 20), (20, 25), (25,)]),
    "choices": (lambda x, y: eo.where(x < y, x * y, eo.maximum(x, 0.3) - eo.minimum(y, x)), [ROWS, (33,)]),
    "choices that are known": (
        lambda x: (eo.where(True, eo.sin(x), x * 2), eo.where(False, eo.sin(x), x * 2)), [ROWS],
    ),
    "conditions that are known": (
        lambda x: [
            eo.where(f(c, x > 0) if first else f(x > 0, c), x, 2 * x)
            for f in (eo.logical_and, eo.logical_or) for c in (True, False) for first in (True, False)
        ], [ROWS],
    ),
    "casts": (
        lambda x: (x * 100).astype(eo.int32) // 3 + (x > 0) - eo.floor(x * 5).astype(eo.int64) % 4, [ROWS],
    ),
    "single precision": (lambda x: eo.sum(eo.exp(x.astype(eo.float32)), axis=1) * 2, [ROWS]),
    "many operations": (
        lambda x, y: [eo.sin(x * k) * eo.sum(y * k, axis=0) - y[k % 5] for k in range(1, 25)], [(7,), (5, 7)],
    ),
    "a long row": (lambda x: eo.softmax(x, axis=1) * eo.cumsum(x, axis=1), [(2, 9000)]),
    "one large array": (lambda x: eo.sum(x) * eo.max(x) + eo.sum(x * x), [(70_001,)]),
    "rows against columns": (lambda x: x - eo.max(x, axis=1) * eo.sum(x, axis=1)[:, None], [SQUARE]),
    "rows the other way round": (lambda x: x - eo.flip(eo.max(x, axis=1))[:, None], [SQUARE]),
    "rows in another order": (
        lambda x: x * eo.max(x, axis=1)[ORDER][:, None] - eo.sum(x, axis=1)[:, None], [SQUARE],
    ),
    "rows moved on": (
        lambda x: x[1:] * eo.max(x, axis=1)[:-1, None] - eo.sum(x[1:], axis=1)[:, None], [SQUARE],
    ),
    "columns picked by rows": (lambda x: x[:, eo.argmax(x, axis=1)] * x, [SQUARE]),
    "rows picked by rows": (lambda x: x[eo.argmax(x, axis=1)] * x, [SQUARE]),
    "a transposed matrix of sums": (lambda x: x * eo.sum(x, axis=2).T[:, :, None], [(20, 20, 33)]),
    "the middle axis": (lambda x: x[:, PICKED, 1:] * 2 - x[:, PICKED + 1, :-1], [(30, 20, 6)]),
    "axes picked apart": (
        lambda x: x[:, PICKED, :, PICKED + 1] * 2 - eo.sin(x)[:, :, PICKED, PICKED].sum(), [(3, 4, 5, 6)],
    ),
    "axes picked apart, as many as rows": (lambda x: eo.sin(x)[:, PICKED, :, PICKED + 1] * 2, [(4, 4, 5, 6)]),
    "rows in order, along the columns": (lambda x: eo.sin(x)[eo.arange(40), ORDER[:, None]] * 2, [SQUARE]),
    "the diagonal of a cube": (lambda x: eo.sin(x)[eo.arange(20), eo.arange(20)] * 2, [(20, 20, 20)]),
    "a part that is a result": (
        lambda x: (eo.sin(x), eo.concat([eo.sin(x), x * 2, eo.exp(x)])), [ROWS],
    ),
    "a part joined twice": (lambda x: eo.concat([eo.sin(x), x, eo.sin(x)]), [ROWS]),
    "small products of computed values": (
        lambda x, y: eo.matmul(eo.sin(x), eo.cos(y)) * 2, [(50, 3, 3), (50, 3, 40)],
    ),
    "large products of computed values": (
        lambda x, y: eo.matmul(eo.sin(x), eo.cos(y)) * 2, [(3, 20, 25), (3, 25, 18)],
    ),
    "every second column, put back": (
        lambda x: eo.sum(eo.grad(lambda x: (eo.sin(x)[:, ::2] ** 2).sum())(x), axis=1), [(30, 6)],
    ),
    "extremes of one sign, and no others": (
        lambda x: (
            eo.max((x * 9).astype(eo.int32) - 20, axis=1), eo.min((x * 9).astype(eo.int32) + 20, axis=0),
            eo.max(x > 2, axis=1), eo.min(x < 2, axis=1), eo.max(x, axis=1),
        ),
        [ROWS],
    ),
    "repeated twice": (
        lambda x: eo.broadcast_to(eo.broadcast_to(x[:, None], (33, 3)), (2, 33, 3)) * 2, [(33,)],
    ),
    "extremes of one sign": (
        lambda x: (eo.max(x - 2, axis=1), eo.min(x + 2, axis=1), eo.max(x - 2, axis=0), eo.min(x + 2)),
        [ROWS],
    ),
    "joined along the first axis": (lambda x: eo.concat([eo.sin(x), x, x * 2, x]) * 2, [ROWS]),
    "batches of very large products": (lambda x, y: eo.matmul(x, y), [(2, 300, 260), (2, 260, 90)]),
    "other transposes": (
        lambda x, y: eo.matmul(eo.transpose(x, (1, 0, 2)), y), [(18, 18, 18), (18, 18, 18)],
    ),
    "products of other transposes, transposed": (
        lambda x, y: eo.matrix_transpose(eo.matmul(eo.transpose(x, (1, 0, 2)), y)) * 2,
        [(18, 18, 18), (18, 18, 18)],
    ),
    "sums of columns, and what follows": (lambda x: eo.exp(eo.sum(eo.sin(x), axis=0)) * 2, [SQUARE]),
    "a shape and a longer one": (lambda x, y: (eo.sin(x) * 2, eo.exp(y)), [ROWS, (*ROWS, 6)]),
    "rows too long for the stack": (lambda x: eo.softmax(x * 3, axis=1) * eo.cos(x), [(5, 6000)]),
    "products with one transpose": (
        lambda x, y, z: (eo.matmul(x.T, y), eo.matmul(x, z.T)), [(50, 40), (50, 30), (20, 40)],
    ),
    "a sum over short rows": (lambda x: eo.sum(x / (3 + eo.sum(x, axis=1))[:, None]), [(70, 4)]),
    "unsigned integers": (
        lambda x: ((x * 100 + 150).astype(eo.uint8) > 130, eo.max((x * 100 + 150).astype(eo.uint8), axis=1)),
        [ROWS],
    ),
    "an odd count of steps": (
        lambda x: eo.scan(lambda c, t: (eo.tanh(c * 0.9 + t), c * t), x[0], x, reverse=True), [(7, 30)],
    ),
    "norms": (lambda x: x / (1 + eo.vector_norm(x, axis=1, keepdims=True)), [ROWS]),
    "windows": (
        lambda x, w: eo.max_pool2d(eo.conv2d(x, w, stride=1, padding=1), 2), [(2, 2, 8, 8), (3, 2, 3, 3)],
    ),
    "recurrence": (
        lambda x: eo.scan(lambda c, t: (eo.tanh(c * 0.9 + t), c * t), x[0], x)[1], [(20, 30)],
    ),
    "branches": (lambda x: eo.cond(x.sum() > 0, lambda x: eo.sin(x) * 2, lambda x: x - 1, x) * x, [ROWS]),
    "repetition": (
        lambda x: eo.while_loop(lambda s: s[1] < 4, lambda s: (eo.sin(s[0]) + x, s[1] + 1), (x, 0))[0],
        [(50,)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    f, shapes = PROGRAMS[name]
    same(f, *tensors(*shapes), ulps=1024)


def weighted(f):
    """Return a scalar function of the float results, each element of which has a weight of its own."""

    def total(*args):
        out = f(*args)
        parts = [x for x in (out if isinstance(out, (list, tuple)) else [out]) if x.dtype.kind == "f"]
        return sum(
            (p * np.cos(np.arange(p.size) + 1.0).reshape(p.shape).astype(p.dtype)).sum() for p in parts
        )

    return total


@pytest.mark.parametrize(
    "name", [n for n in PROGRAMS if n not in ("positions", "any and all", "casts", "unsigned integers")]
)
def test_gradients(name):
    f, shapes = PROGRAMS[name]
    tol = 1e-5 if name == "single precision" else 1e-11
    same(eo.grad(weighted(f), argnums=tuple(range(len(shapes)))), *tensors(*shapes), tol=tol)


# ---- what was wrong once


def test_a_cheap_value_that_is_computed_again_reads_what_is_in_memory():
    """Through a broadcast and a reshape it read a value that no memory held."""

    def f(x, y):
        parts = [eo.sin(y * k) for k in range(18)]
        wide = eo.reshape(x.astype(eo.float64), (2,))[:, None] * 0.7
        narrow = eo.reshape(y, (1, 3)) * 0.7
        return (*parts, eo.logaddexp(eo.broadcast_to(wide, (2, 3)), eo.broadcast_to(narrow, (2, 3))))

    same(f, eo.asarray(np.array([[3], [4]])), eo.asarray(array(3)))


def test_loops_over_nothing_read_no_constant():
    x = eo.zeros((0, 2), dtype=eo.float64)
    same(lambda x: (eo.logsumexp(x, axis=1), eo.vector_norm(x, axis=1), eo.max(x, axis=1) * 2), x)
    same(lambda x: eo.concat([x, eo.asarray(np.zeros((0, 2)))], axis=0) + 1, x)


def test_the_gradient_of_an_assignment_to_a_number():
    f = eo.grad(lambda x: assigned(x * 1, (), x * 3))
    assert f(eo.asarray(2.0)).item() == 3.0
    same(f, eo.asarray(np.float64(2.0)))


def test_only_the_last_write_to_a_place_has_a_gradient():
    x, y = eo.asarray(np.zeros(5)), eo.asarray(np.ones(4))
    places = eo.asarray(np.array([1, 3, 3, 0]))
    f = eo.compile(eo.grad(lambda y, i: (assigned(x, i, y) * eo.arange(1.0, 6.0)).sum()))
    assert f(y, places).tolist() == [2.0, 0.0, 4.0, 1.0]
    assert f(y, eo.asarray(np.array([2, 2, 2, 2]))).tolist() == [0.0, 0.0, 0.0, 3.0]


def test_zero_times_infinity_and_zero_times_nan():
    x = eo.asarray(np.array([0.0, np.inf, np.nan, 2.0]))
    with np.errstate(all="ignore"):
        same(lambda x: eo.cumprod(x, axis=0), x)
        same(eo.grad(lambda x: eo.cumprod(x, axis=0).sum()), x)
        same(eo.grad(lambda x: eo.prod(x)), x)


@pytest.mark.parametrize("length", [4, 40])
def test_the_first_nan_is_the_extreme(length):
    x = np.ones((3, length))
    x[0, [1, 3]], x[1, 0], x[2, [2, 3]] = np.nan, np.nan, np.nan
    found = eo.compile(lambda x: (eo.argmax(x, axis=1), eo.argmin(x, axis=1), eo.argmax(x, axis=0)))
    rows, least, columns = (a.tolist() for a in found(eo.asarray(x)))
    assert rows == least == [1, 0, 2]
    assert columns[:4] == [1, 0, 2, 0]


def test_zeros_that_are_added_keep_their_sign():
    f = eo.compile(lambda x: (x + 0.0, 0.0 + x, x - 0.0, x + -0.0, -0.0 + x, x - -0.0))
    signs = [np.signbit(y.numpy()).tolist() for y in f(eo.asarray(np.array([-0.0, 0.0])))]
    assert signs == [[n, False] for n in (False, False, True, True, True, False)]


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("shape", [(40, 40), (3, 2), (1, 5), (5, 1), (1, 1)])
def test_a_sum_of_negative_zeros_is_zero(shape, axis):
    """As NumPy's, which begins with 0: the logarithm of such a complex sum lies on that side of the cut."""
    x = eo.asarray(np.full(shape, -0.0))
    for f in (lambda x: eo.sum(x, axis=axis), lambda x: eo.imag(eo.sum(x * 1j - 1, axis=axis))):
        found, wanted = eo.compile(f)(x).numpy(), f(x).numpy()
        assert (np.signbit(found) == np.signbit(wanted)).all()
        assert (found == wanted).all()


def test_a_short_product_of_negative_zeros_is_zero():
    x, y = eo.asarray(np.full((3, 8), -0.0)), eo.ones((8, 3), dtype=eo.float64)
    found = eo.compile(lambda x, y: x @ y)(x, y).numpy()
    assert not found.any()
    assert not np.signbit(found).any()


def test_shifts_by_all_bits_and_more():
    x, n = np.array([1, -8, 5, -1]), np.array([63, 64, 64, 65])
    f = eo.compile(lambda x, n: (x << n, x >> n))
    left, right = f(eo.asarray(x), eo.asarray(n))
    assert left.tolist() == [-(2**63), 0, 0, 0]
    assert right.tolist() == [0, -1, 0, -1]
    one = [[a.item() for a in f(eo.asarray(a), eo.asarray(b))] for a, b in zip(x, n)]  # without vectors
    assert one == [[-(2**63), 0], [0, -1], [0, 0], [0, -1]]


def test_unsigned_integers_stay_positive_in_a_wider_dtype():
    x = eo.asarray(np.array([200, 7, 255], np.uint8))
    found = eo.compile(lambda x: (x.astype(eo.int32), x.astype(eo.int64), x.astype(eo.float64)))(x)
    assert [a.tolist() for a in found] == [[200, 7, 255]] * 3


def test_the_logarithm_of_no_weight_at_all():
    x = eo.asarray(np.array([[-np.inf, -np.inf], [-np.inf, 2.0], [np.inf, 1.0]]))
    assert eo.compile(lambda x: eo.logsumexp(x, axis=1))(x).tolist() == [-np.inf, 2.0, np.inf]


def test_norms_of_subnormal_numbers():
    x = eo.asarray(np.array([[3e-310, -4e-310], [5e-310, 12e-310]]))
    found = eo.compile(lambda x: eo.vector_norm(x, axis=1))(x)
    np.testing.assert_allclose(found.numpy(), [5e-310, 13e-310], 1e-12)


def test_small_integers_are_summed_in_a_wide_dtype():
    x = eo.asarray(np.full((3, 2), 200, np.uint8))
    same(lambda x: (eo.sum(x, axis=0), eo.cumsum(x, axis=0), eo.mean(x)), x)


def test_a_branch_that_no_example_takes():
    f = eo.grad(lambda x: eo.vmap(lambda x: eo.cond(x > 0, eo.sqrt, lambda x: -x, x))(x).sum())
    for x in ([-4.0, -2.0], [4.0, 1.0], [-4.0, 1.0]):
        x = eo.asarray(np.array(x))
        found = eo.compile(f)(x)
        agree(found, f(x))
        assert np.isfinite(found.numpy()).all()


def test_an_example_that_is_done_does_not_spoil_the_others():
    def f(x):
        return eo.while_loop(lambda y: y > 1.0, lambda y: eo.sqrt(y - 1.0), x)

    x = eo.asarray(np.array([0.5, 3.0, 9.0]))
    same(eo.grad(lambda x: eo.vmap(f)(x).sum()), x)
    same(eo.vmap(eo.grad(f)), x)


def test_conditions_that_are_known_vanish():
    def f(x):
        return eo.where(eo.logical_or(eo.logical_and(x > 0, True), False), x, 2 * x)

    graph = eo.compile.inspect(f)(eo.ones(3)).graphs["without dead code"]
    assert "logical" not in graph
    assert graph.count("where") == 1


def test_truth_values_of_rows_beside_other_results():
    """LLVM's vectors of the rest of such a loop lost lanes of the reduction."""
    rng = np.random.default_rng(1)

    def f(x, y):
        return eo.any(x, axis=2), x & True, y & True

    compiled = eo.compile(f)
    for share in (0.5, 1 / 59):
        x, y = (rng.random((6, 7, 59)) < share for _ in range(2))
        found = compiled(eo.asarray(x), eo.asarray(y))
        for a, b in zip(found, (x.any(axis=2), x, y), strict=True):
            np.testing.assert_array_equal(a.numpy(), b)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(
    "f",
    [
        eo.sum, eo.mean, eo.trace, eo.average, eo.nansum, eo.nanmean,
        lambda x: eo.mean(x, axis=()), lambda x: eo.sum(x, axis=()), lambda x: eo.mean(x, axis=1),
        lambda x: eo.einsum("ij->i", x), lambda x: x @ eo.ones((1, 2), dtype=x.dtype),
        lambda x: eo.vecdot(x, eo.ones(1, dtype=x.dtype)),
        lambda x: eo.grad(lambda y: eo.real(eo.sum(x * y)))(x[0]),
    ],
)  # fmt: skip
def test_a_sum_of_one_negative_zero_is_zero(f, dtype):
    x = np.array([[complex(-0.0, -0.0) if dtype == "complex128" else -0.0]])
    found, eager = eo.compile(f)(eo.asarray(x)).numpy(), f(eo.asarray(x)).numpy()
    for part in ("real", "imag"):
        np.testing.assert_array_equal(np.signbit(getattr(found, part)), np.signbit(getattr(eager, part)))
    assert not np.signbit(found.real).any()


def steep(x):
    return eo.sum(eo.sqrt(x))


def test_anomalies_in_compiled_functions_have_a_line():
    """Also in one that was called before, and is entered without a look at Python."""
    x = eo.asarray(np.array([0.0, 4.0]))
    leaf = eo.tensor([0.0, 4.0], requires_grad=True)

    def step():
        loss = steep(leaf)
        loss.backward()
        return loss

    for function, arguments in (
        (eo.compile(eo.grad(steep)), (x,)),
        (eo.compile(eo.value_and_grad(steep)), (x,)),
        (eo.grad(eo.compile(steep)), (x,)),
        (eo.compile(step), ()),
    ):
        with np.errstate(all="ignore"):
            before = [function(*arguments) for _ in range(4)]
            with eo.detect_anomaly(), pytest.raises(eo.NonFiniteGradientError) as error:
                function(*arguments)
            function(*arguments)
        assert len(before) == 4
        assert error.value.operation == "sqrt"
        assert "in steep" in error.value.line


def test_an_anomaly_of_a_compiled_call_outside_the_block_names_the_operation():
    x, compiled = eo.tensor([0.0], requires_grad=True), eo.compile(steep)
    loss = compiled(x)
    with eo.detect_anomaly(), pytest.raises(eo.NonFiniteGradientError) as error:
        loss.backward()
    assert error.value.operation == "sqrt"


def test_anomalies_are_looked_for_around_a_compiled_function():
    @eo.compile
    def function(x):
        with eo.detect_anomaly():
            return eo.grad(steep)(x)

    with pytest.raises(eo.CompileError, match="detect_anomaly"):
        function(eo.ones(2))


@np.errstate(invalid="ignore")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("void", [math.nan, -math.nan])
def test_a_constant_nan_wins(dtype, void):
    """Whether it is a bound or an operand, on either side, alone or in a sum."""
    x = eo.asarray(np.array([1, -2]).astype(dtype))
    for f in (
        lambda x: eo.maximum(x, void),
        lambda x: eo.minimum(void, x),
        lambda x: eo.clip(x, void, 5.0),
        lambda x: eo.clip(x, -5.0, void),
        lambda x: eo.sum(eo.maximum(x, void)),
    ):
        assert np.isnan(f(x).numpy()).all()
        assert np.isnan(eo.compile(f)(x).numpy()).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("sizes", [(33, 15, 33), (32, 16, 64), (65, 5, 33)])
def test_products_of_integers_with_few_terms(dtype, sizes):
    """BLAS has none, so they are written out."""
    m, k, n = sizes
    rng = np.random.default_rng(0)
    x, y = (eo.asarray(rng.integers(0, 100, shape).astype(dtype)) for shape in ((2, m, k), (k, n)))
    found = eo.compile(lambda x, y: x @ y)(x, y).numpy()
    np.testing.assert_array_equal(found, x.numpy() @ y.numpy(), strict=True)
