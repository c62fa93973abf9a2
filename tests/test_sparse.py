"""Sparse Jacobians and Hessians: detection never misses, colourings are proper, results equal dense ones."""

import itertools
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import everyo as eo
from everyo.core.dtypes import DIFFERENTIABLE
from everyo.core.registry import primitives
from everyo.core.tensor import wrap
from everyo.testing.primitives import Call
from everyo.transforms.raveling import Layout, ravel
from everyo.transforms.sparse.coloring import ORDERS, color_columns, color_symmetric
from everyo.transforms.sparse.detection import detect

PRIMITIVES = primitives()
MOVES = (
    "reshape", "transpose", "matrix_transpose", "flip", "roll", "tril", "triu", "concat", "stack", "delay",
    "getitem", "take_along_axis", "broadcast_to", "index_update", "assemble", "scatter_along_axis", "sum",
    "sum_to", "overlap_add", "sliding_windows", "pad", "mean", "cumsum", "exp", "add", "alias", "copy",
    "fill_blocks", "delete", "insert",
)  # fmt: skip


def dense(function, x):
    """Return the Jacobian of a function of a vector, column by column."""
    columns = [
        eo.jvp(function, (x,), (wrap(unit),))[1].numpy().ravel() for unit in np.eye(x.size, dtype=x.dtype)
    ]
    return np.array(columns).T if columns else np.zeros((function(x).size, 0))


def points(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    found = [wrap(rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)) for shape in shapes]
    return found[0] if len(found) == 1 else found


# ---- detection


@pytest.mark.parametrize("name", sorted(n for n, p in PRIMITIVES.items() if p.jvp is not None))
def test_no_primitive_hides_a_dependence(name):
    few = 4 if PRIMITIVES[name].family == "elementwise" else None  # they share one rule
    for sample in PRIMITIVES[name].samples()[:few]:
        call = Call(PRIMITIVES[name], sample, "float64")
        if not call.wrt:
            continue
        layout = Layout([wrap(p) for p in call.points])
        x = ravel([wrap(p) for p in call.points])

        def flat(vector, call=call, layout=layout):
            results = call(*layout.unravel(vector))
            results = results if isinstance(results, tuple) else (results,)
            return ravel([r for r in results if r.dtype.kind in DIFFERENTIABLE])

        pattern, _ = detect(flat, x)
        slopes = dense(flat, x)
        expected = np.isnan(slopes) | (slopes != 0)
        assert pattern.shape == expected.shape
        assert not (expected & ~pattern.toarray()).any(), str(call)
        if name in MOVES:
            assert np.array_equal(expected, pattern.toarray()), str(call)

        weights = points((pattern.shape[0],), seed=3)

        def gradient(vector, flat=flat, weights=weights):
            return eo.grad(lambda v: eo.real(flat(v) * weights).sum())(vector)

        with np.errstate(invalid="ignore"):  # some samples hold infinities
            second, _ = detect(gradient, x)
            assert not ((np.nan_to_num(dense(gradient, x)) != 0) & ~second.toarray()).any(), str(call)


CONSTANT = np.array([[1.0, 0.0, 2.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 3.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1.0]])

# Each takes a (4, 4) tensor to one.
STEPS = (
    lambda x: x * x.mT,
    lambda x: eo.sin(x),
    lambda x: x + x[::-1],
    lambda x: CONSTANT @ x,
    lambda x: x @ CONSTANT,
    lambda x: eo.concat([x[1:], x[:1] ** 2]),
    lambda x: eo.where(x > 0, x, x.mT),
    lambda x: eo.floor(x) * x,
    lambda x: eo.roll(x, 1, 0) - eo.tril(x),
    lambda x: x * x[0],
    lambda x: x[:, [2, 0, 0, 1]],
    lambda x: eo.pad(x[1:3, 1:3], 1),
    lambda x: eo.max(x, axis=0) + x,
    lambda x: eo.stop_gradient(x) * eo.cos(x.reshape(2, 8).T.reshape(4, 4)),
    lambda x: eo.cumsum(x, axis=1) / 4,
    lambda x: x.sum(axis=1, keepdims=True) * eo.ones((4, 4)),
    lambda x: eo.softmax(x, axis=1),
    lambda x: eo.sort(x, axis=0),
    lambda x: eo.take_along_axis(x, eo.argsort(x, axis=1), axis=1),
    lambda x: eo.einsum("ij,kj->ik", x, CONSTANT),
)


@given(st.lists(st.integers(0, len(STEPS) - 1), min_size=1, max_size=4), st.integers(0, 1000))
@settings(max_examples=40)
def test_random_programs_equal_their_dense_derivatives(chosen, seed):
    def program(x):
        for k in chosen:
            x = STEPS[k](x)
        return x

    x = points((4, 4), seed=seed)
    expected = dense(lambda v: ravel([program(v.reshape(4, 4))]), x.reshape(16))
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(eo.sparse_jacobian(program, x, mode=mode).toarray(), expected, atol=1e-12)

    def energy(x):
        return (eo.sin(program(x)) ** 2).sum()

    hessian = eo.sparse_hessian(energy, x).toarray()
    gradient = eo.grad(lambda v: energy(v.reshape(4, 4)))
    np.testing.assert_allclose(hessian, dense(gradient, x.reshape(16)), atol=1e-9)


@pytest.mark.parametrize(
    ("left", "right"),
    [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 2)), ((2, 2, 3), (3, 2)), ((2, 3), (2, 3, 2))]
    + [((2, 2, 3), (3,)), ((3,), (2, 3, 2)), ((2, 1, 2, 3), (3, 3, 2)), ((2, 0), (0, 3))],
)
def test_matrix_products_link_by_the_nonzeros_of_constants(left, right):
    a, b = points(left, right)
    holes = [v * wrap(np.random.default_rng(1).integers(0, 2, v.shape)) for v in (a, b)]
    functions = [lambda x: x @ holes[1], lambda x: holes[0] @ x, lambda x: x @ b, lambda x: a @ x]
    for function, x in zip(functions, (a, b, a, b)):
        flat = lambda v, f=function, x=x: ravel([f(v.reshape(x.shape))])  # noqa: E731
        pattern, _ = detect(flat, ravel([x]))
        expected = dense(flat, ravel([x])) != 0
        assert not (expected & ~pattern.toarray()).any()
        if a.ndim < 3 and b.ndim < 3:
            assert np.array_equal(expected, pattern.toarray())


def test_a_constant_stencil_of_a_convolution_is_sparse():
    laplace = wrap(np.array([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]]).reshape(1, 1, 3, 3))
    jacobian = eo.sparse_jacobian(lambda u: eo.conv2d(u.reshape(1, 1, 6, 6), laplace, padding=1))
    line = sp.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(6, 6))
    expected = sp.kron(line, sp.eye_array(6)) + sp.kron(sp.eye_array(6), line)
    np.testing.assert_allclose(jacobian(points((6, 6))).toarray(), expected.toarray())
    energy = eo.sparse_hessian(
        lambda u: (eo.conv2d(u.reshape(1, 1, 6, 6), laplace) ** 2).sum(), points((6, 6))
    )
    assert energy.nnz < 0.5 * 36**2


# ---- colouring


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 10**6), st.sampled_from(ORDERS))
@settings(max_examples=100)
def test_no_row_has_two_columns_of_one_colour(m, n, seed, order):
    pattern = sp.csr_array(np.random.default_rng(seed).random((m, n)) < 0.3)
    colors = color_columns(pattern, order)
    for row in pattern.toarray():
        assert len(set(colors[row])) == row.sum()
    assert set(colors) == set(range(colors.max() + 1))


@given(st.integers(1, 12), st.integers(0, 10**6), st.sampled_from(ORDERS))
@settings(max_examples=100)
def test_symmetric_colourings_are_star_colourings(n, seed, order):
    half = np.random.default_rng(seed).random((n, n)) < 0.2
    full = half | half.T
    colors = color_symmetric(sp.csr_array(full), order)
    linked = full & ~np.eye(n, dtype=bool)
    for a, b in itertools.permutations(range(n), 2):
        assert not linked[a, b] or colors[a] != colors[b]
    for a, b, c, d in itertools.permutations(range(n), 4) if n < 9 else ():
        if linked[a, b] and linked[b, c] and linked[c, d]:
            assert len({colors[v] for v in (a, b, c, d)}) > 2


def test_orders_differ_where_natural_is_bad():
    crown = np.ones((6, 6)) - np.eye(6)  # a bipartite graph whose halves take turns
    rows = [[i, 6 + j] for i, j in zip(*crown.nonzero())]
    turns = [k for pair in zip(range(6), range(6, 12)) for k in pair]
    pattern = np.zeros((len(rows), 12))
    for r, pair in enumerate(rows):
        pattern[r, [turns.index(k) for k in pair]] = 1
    assert color_columns(sp.csr_array(pattern)).max() + 1 == 6
    star = sp.csr_array(np.eye(6) + np.eye(6)[[0]].T + np.eye(6)[[0]])
    assert color_symmetric(star).max() + 1 == 2 < color_columns(star).max() + 1 == 6


# ---- what it is for


@pytest.mark.parametrize("order", ["natural", "largest_first"])
def test_a_banded_system_with_many_unknowns(order):
    n = 100_000
    x = wrap(np.random.default_rng(0).normal(size=n))

    def residual(x):
        return eo.exp(-x[2:]) * x[:-2] - 2 * x[1:-1] ** 2

    jacobian = eo.sparse_jacobian(residual, order=order)
    found = jacobian(x)
    assert jacobian.count == 3
    v = x.data
    expected = sp.diags_array(
        [np.exp(-v[2:]), -4 * v[1:-1], -v[:-2] * np.exp(-v[2:])], offsets=[0, 1, 2], shape=(n - 2, n)
    )
    assert found.nnz == 3 * (n - 2)
    assert abs(found - expected).max() < 1e-12
    twice = jacobian(x + 1)
    assert twice.nnz == found.nnz


def test_memory_is_linear_in_the_nonzeros():
    def peak(n):
        x = wrap(np.linspace(0.0, 1.0, n))
        tracemalloc.start()
        try:
            eo.sparse_jacobian(lambda x: x[2:] * x[:-2] - eo.sin(x[1:-1]), x)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(100)
    assert peak(8000) < 2.3 * peak(4000) < 2.3 * 4000 * 3 * 300


def project(cameras, points, weights, camera_of, point_of):
    """Reprojection residuals: 11 parameters a camera, 3 a point, one weight an observation."""
    c, p = cameras[camera_of], points[point_of]
    r, center, focal, shift, k = c[:, :3], c[:, 3:6], c[:, 6:7], c[:, 7:9], c[:, 9:11]
    theta = ((r * r).sum(axis=1, keepdims=True) + 1e-12) ** 0.5
    axis, moved = r / theta, p - center
    cross = eo.stack(
        [
            axis[:, 1] * moved[:, 2] - axis[:, 2] * moved[:, 1],
            axis[:, 2] * moved[:, 0] - axis[:, 0] * moved[:, 2],
            axis[:, 0] * moved[:, 1] - axis[:, 1] * moved[:, 0],
        ],
        axis=1,
    )
    along = axis * (axis * moved).sum(axis=1, keepdims=True) * (1 - eo.cos(theta))
    turned = moved * eo.cos(theta) + cross * eo.sin(theta) + along
    flat = turned[:, :2] / turned[:, 2:]
    radius = (flat * flat).sum(axis=1, keepdims=True)
    image = flat * (1 + k[:, :1] * radius + k[:, 1:] * radius**2) * focal + shift
    return {"image": weights[:, None] * image, "weight": 1 - weights**2}


def test_bundle_adjustment_needs_a_colour_for_each_parameter_of_an_observation():
    rng = np.random.default_rng(0)
    cameras, places, seen = 4, 12, 30
    camera_of, point_of = rng.integers(0, cameras, seen), rng.integers(0, places, seen)
    x = {
        "cameras": rng.normal(size=(cameras, 11)),
        "points": rng.normal(size=(places, 3)) + [0, 0, 9],
        "weights": rng.uniform(0.5, 1, seen),
    }

    def residuals(x):
        return project(x["cameras"], x["points"], x["weights"], camera_of, point_of)

    jacobian = eo.sparse_jacobian(residuals)
    found = jacobian(x)
    assert found.shape == (3 * seen, 11 * cameras + 3 * places + seen)
    # Of the 15 parameters of an observation, either coordinate has one of the two of the image's centre.
    assert found.nnz == 14 * 2 * seen + seen
    assert (jacobian.count, jacobian.mode) == (14, "forward")
    layout = Layout(x)

    def flat(v):
        image, weight = residuals(layout.unravel(v)).values()
        return ravel([image, weight])

    vector = ravel([wrap(x[k]) for k in sorted(x)])
    np.testing.assert_allclose(found.toarray(), dense(flat, vector), atol=1e-10)


def surface(u):
    """Area of a graph over a square grid, by the five points of each cell's corners."""
    across, down = u[1:, :-1] - u[:-1, :-1], u[:-1, 1:] - u[:-1, :-1]
    return eo.sqrt(1 + across**2 + down**2).sum()


def test_the_hessian_of_a_pde_energy():
    small = points((7, 7))
    found = eo.sparse_hessian(surface, small)
    flat = eo.grad(lambda v: surface(v.reshape(7, 7)))
    np.testing.assert_allclose(found.toarray(), dense(flat, small.reshape(49)), atol=1e-12)
    hessian = eo.sparse_hessian(lambda u: (eo.diff(u, axis=0) ** 4).sum() + (eo.diff(u, axis=1) ** 4).sum())
    large = hessian(points((100, 100)))
    assert large.nnz == 5 * 100**2 - 4 * 100  # the five-point star
    assert abs(large - large.T).max() == 0
    assert hessian.count <= 7 < eo.sparse_hessian(surface).count + 8


# ---- the interface


def test_formats_dtypes_and_reuse():
    x = eo.tensor([1.0, 2.0, 3.0])
    found = eo.sparse_jacobian(lambda x: x**2, x, format="coo")
    assert isinstance(found, sp.coo_array)
    assert found.dtype == np.float32
    jacobian = eo.sparse_jacobian(lambda x: x**2)
    assert jacobian.pattern is None
    assert jacobian(x).shape == (3, 3)
    first = jacobian.plan
    jacobian(x + 1)
    assert jacobian.plan is first
    assert jacobian(eo.ones(5)).shape == (5, 5)  # another shape: detected anew
    assert jacobian.sparsity(eo.ones(2)).dtype == bool


def test_chunks_give_the_same():
    x = points((20,))
    f = lambda x: eo.cumsum(x**2)  # noqa: E731
    whole, parts = (eo.sparse_jacobian(f, x, chunk_size=c).toarray() for c in (None, 3))
    np.testing.assert_array_equal(whole, parts)
    np.testing.assert_allclose(whole, np.tril(np.ones((20, 20))) * 2 * x.numpy())


def test_wide_and_tall_functions_choose_their_direction():
    rows = eo.sparse_jacobian(lambda x: eo.stack([x[:5].sum(), x[5:].sum()]))
    rows(points((10,)))
    assert (rows.mode, rows.count) == ("reverse", 1)
    columns = eo.sparse_jacobian(lambda x: x[[0] * 5 + [1] * 5])
    columns(points((2,)))
    assert (columns.mode, columns.count) == ("forward", 1)


@pytest.mark.parametrize("f", [lambda x: eo.zeros(3), lambda x: eo.floor(x)])
def test_functions_without_dependence_have_empty_jacobians(f):
    assert eo.sparse_jacobian(f, eo.ones(3)).nnz == 0


def test_empty_inputs():
    assert eo.sparse_jacobian(lambda x: x * 2, eo.zeros((0,))).shape == (0, 0)


def test_patterns_that_depend_on_values_are_detected_anew():
    branch = eo.sparse_jacobian(lambda x: x**2 if x[0] > 0 else x[::-1] ** 2)
    np.testing.assert_allclose(branch(eo.tensor([1.0, 2.0])).toarray(), [[2, 0], [0, 4]])
    np.testing.assert_allclose(branch(eo.tensor([-1.0, 2.0])).toarray(), [[0, 4], [-2, 0]])
    largest = eo.sparse_jacobian(lambda x: x[eo.argmax(x)] * 2)
    np.testing.assert_allclose(largest(eo.tensor([1.0, 2.0])).toarray(), [[0, 2]])
    np.testing.assert_allclose(largest(eo.tensor([3.0, 2.0])).toarray(), [[2, 0]])
    positive = eo.sparse_jacobian(lambda x: x[x > 0] ** 2)
    assert positive(eo.tensor([1.0, -2.0, 3.0])).shape == (2, 3)
    assert positive(eo.tensor([1.0, 2.0, 3.0])).shape == (3, 3)


def test_given_sparsity_is_used_and_checked():
    x = points((5,))
    f = lambda x: x * eo.roll(x, 1)  # noqa: E731
    pattern = np.eye(5) + np.roll(np.eye(5), 1, axis=0)
    found = eo.sparse_jacobian(f, x, sparsity=pattern)
    np.testing.assert_allclose(found.toarray(), dense(f, x))
    for mode in ("forward", "reverse"):
        with pytest.raises(eo.ArgumentError, match="nonzeros that its sparsity pattern lacks"):
            eo.sparse_jacobian(f, x, sparsity=np.eye(5), mode=mode)
    eo.sparse_jacobian(f, x, sparsity=np.eye(5), check=False)
    with pytest.raises(eo.ShapeError, match="does not fit"):
        eo.sparse_jacobian(f, x, sparsity=np.eye(4))
    with pytest.raises(eo.ShapeError, match="does not fit"):
        eo.sparse_jacobian(f, x, sparsity=np.ones((4, 5)))
    with pytest.raises(eo.ShapeError, match="does not fit"):
        eo.sparse_jacobian(f, x, sparsity=np.ones((4, 5)), mode="reverse")
    triangle = np.triu(pattern + pattern.T)
    hessian = eo.sparse_hessian(lambda x: f(x).sum(), x, sparsity=triangle)
    np.testing.assert_allclose(
        hessian.toarray(), np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0)
    )


def test_constants_that_gain_entries_are_noticed():
    matrix = np.eye(3)
    jacobian = eo.sparse_jacobian(lambda x: matrix @ x)
    x = points((3,))
    jacobian(x)
    matrix[0, 2] = 1.0
    with pytest.raises(eo.ArgumentError, match="make a new sparse derivative"):
        jacobian(x)


def test_tensors_that_require_grad_are_refused_as_the_matrix_has_no_graph():
    scale = eo.ones(3).requires_grad_()
    with pytest.raises(eo.GraphStateError, match="no_grad"):
        eo.sparse_jacobian(lambda x: x * scale, eo.ones(3))
    with pytest.raises(eo.GraphStateError, match="no_grad"):
        eo.sparse_jacobian(lambda x: x * x, scale)
    with eo.no_grad():
        np.testing.assert_allclose(eo.sparse_jacobian(lambda x: x * scale, scale).toarray(), np.eye(3))
        hessian = eo.sparse_hessian(lambda x: (x * scale * x).sum(), eo.ones(3))
        np.testing.assert_allclose(hessian.toarray(), 2 * np.eye(3))
    assert scale.grad is None


def test_derivatives_inside_the_function():
    slope = lambda x: eo.grad(lambda y: (y**3).sum())(x)  # noqa: E731
    np.testing.assert_allclose(eo.sparse_jacobian(slope, eo.tensor([1.0, 2.0])).toarray(), [[6, 0], [0, 12]])
    mapped = lambda x: eo.vmap(lambda a: a[::-1] ** 2)(x)  # noqa: E731
    x = points((3, 2))
    np.testing.assert_allclose(
        eo.sparse_jacobian(mapped, x).toarray(),
        dense(lambda v: mapped(v.reshape(3, 2)).reshape(6), x.reshape(6)),
    )


def test_errors():
    with pytest.raises(eo.ArgumentError, match="unknown option"):
        eo.sparse_jacobian(lambda x: x, mode="sideways")
    with pytest.raises(eo.ArgumentError, match="sparse_hessian"):
        eo.sparse_jacobian(lambda x: x, mode="hessian")
    with pytest.raises(eo.ArgumentError, match="unknown option"):
        eo.sparse_hessian(lambda x: x, order="random")
    with pytest.raises(eo.DTypeError, match="float"):
        eo.sparse_jacobian(lambda x: x, eo.arange(3))
    with pytest.raises(eo.DTypeError, match="real"):
        eo.sparse_jacobian(lambda x: x, eo.ones(3, dtype=eo.complex64))
    with pytest.raises(eo.ShapeError, match="no scalar"):
        eo.sparse_hessian(lambda x: x, eo.ones(3))
    with pytest.raises(eo.GraphStateError, match=r"eo\.jacobian"):
        eo.grad(lambda x: eo.sparse_jacobian(lambda y: y * y, x).sum())(eo.ones(3))
    with pytest.raises(eo.UnsupportedOperationError, match="SciPy matrix"):
        eo.vmap(lambda x: eo.sparse_jacobian(lambda y: y * y, x).sum())(eo.ones(3))
    with pytest.raises(eo.ShapeError, match="square"):
        eo.sparse_hessian(lambda x: x.sum(), sparsity=np.ones((2, 3)))


def test_too_many_dependences_are_refused(monkeypatch):
    monkeypatch.setattr("everyo.transforms.sparse.detection.LIMIT", 1000)
    with pytest.raises(eo.UnsupportedOperationError, match="too many"):
        eo.sparse_jacobian(lambda x: x / x.sum(), points((100,)))


def test_functions_with_rules_of_their_own_and_control_flow():
    @eo.custom_jvp
    def floor(x):  # a straight-through estimator under the name of an operation without a derivative
        return eo.floor(x)

    floor.defjvp(lambda primals, tangents: (eo.floor(primals[0]), tangents[0]))
    functions = [
        lambda x: floor(x) * x,
        lambda x: eo.checkpoint(lambda v: eo.sin(v) * v[::-1])(x),
        lambda x: eo.while_loop(lambda v: v.sum() < 5, lambda v: v * 1.5 + 0.1, x),
        lambda x: eo.scan(lambda c, a: (c * a, c + a), eo.ones((), dtype=eo.float64), x)[1],
        lambda x: eo.cond(x[0] > 0, lambda v: v * 2, lambda v: v[::-1], x),
    ]
    for function in functions:
        for x in (wrap(np.array([0.3, 1.2, -0.7])), wrap(np.array([-0.3, 2.2, 0.7]))):
            np.testing.assert_allclose(eo.sparse_jacobian(function, x).toarray(), dense(function, x))
            energy = lambda v, f=function: (f(v) ** 2).sum()  # noqa: E731
            found = eo.sparse_hessian(energy, x).toarray()
            np.testing.assert_allclose(found, dense(eo.grad(energy), x), atol=1e-12)


def test_a_numpy_array_inside_the_function_would_hide_dependences():
    with pytest.raises(eo.GraphStateError, match="eo functions"):
        eo.sparse_jacobian(lambda x: eo.tensor(np.sin(x.numpy())), points((3,)))
    found = eo.sparse_jacobian(lambda x: x * x.detach().numpy().sum(), eo.ones(3))
    np.testing.assert_allclose(found.toarray(), 3 * np.eye(3))


def test_all_directions_are_pushed_at_once():
    calls = []

    def counted(x):
        calls.append(1)
        return eo.cumsum(eo.sin(x))

    jacobian = eo.sparse_jacobian(counted)
    jacobian(points((30,)))
    assert (jacobian.count, len(calls)) == (30, 2)  # once to detect, once to push


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_a_function_that_computes_in_a_smaller_dtype(mode):
    """The dtype is that of `eo.jacobian`, and the check of a reused pattern allows for its rounding."""
    derivative = eo.sparse_jacobian(lambda x: eo.cumulative_prod(x.astype(eo.float32)), mode=mode)
    for seed in range(10):
        x = np.random.default_rng(seed).normal(size=12)
        wanted = np.tril(np.cumprod(x)[:, None] / x)
        found = derivative(eo.asarray(x))
        assert found.dtype == np.float64
        np.testing.assert_allclose(found.toarray(), wanted, 1e-5, 1e-5 * np.abs(wanted).max())
