"""Compiled convolutions, pooling, windows and scans: against eager results and against sums written out."""

import itertools

import numpy as np
import pytest

import everyo as eo
from everyo import nn
from everyo.compiler import machine
from everyo.compiler.codegen import convolution as generated
from everyo.compiler.lowering import convolution as lowered
from everyo.compiler.machine import Vectors
from everyo.compiler.positions import Positions, divide
from everyo.core.registry import op
from everyo.nn import functional as F
from tests.compiling import agree, same

CONVOLUTIONS = {1: eo.conv1d, 2: eo.conv2d, 3: eo.conv3d}


def draw(seed, *shapes, dtype="float32"):
    rng = np.random.default_rng(seed)
    return [eo.from_numpy(rng.standard_normal(shape).astype(dtype)) for shape in shapes]


def run(f, *args):
    """Return the results of `f` compiled, and the names of its core operations."""
    compiled = eo.compile(f)
    results = compiled(*args)
    ((entry,),) = compiled._entries.values()
    return results, {op.name for op in entry.program.core.ops}


def written_out(x, w, stride, padding, dilation, groups):
    """Return a convolution as the sum that defines it, element by element, in float64."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *((p, p) for p in padding)))
    kernel, depth = w.shape[2:], w.shape[1]
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation)]
    out = np.zeros((x.shape[0], w.shape[0], *sizes))
    for o, place in itertools.product(range(w.shape[0]), itertools.product(*map(range, sizes))):
        first = o // (w.shape[0] // groups) * depth
        window = tuple(slice(p * s, p * s + d * k, d) for p, s, d, k in zip(place, stride, dilation, kernel))
        part = x[(slice(None), slice(first, first + depth), *window)]
        out[(slice(None), o, *place)] = np.sum(part * w[o].astype(np.float64), axis=tuple(range(1, x.ndim)))
    return out


# Input, weight, stride, padding, dilation, groups: large enough for the kernels on rows. Between them they
# have vectors that go through lines and that do not, a rest in every direction, phases, empty classes.
GEOMETRIES = [
    ((2, 3, 40), (5, 3, 5), (1,), (2,), (1,), 1),
    ((5, 4, 61), (6, 2, 4), (2,), (3,), (1,), 2),
    ((8, 2, 50), (7, 2, 3), (3,), (0,), (2,), 1),
    ((4, 3, 8, 8), (8, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 8, 16, 16), (6, 8, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 4, 9, 11), (13, 4, 3, 2), (2, 3), (2, 1), (1, 2), 1),
    ((2, 6, 12, 10), (9, 2, 3, 3), (1, 2), (0, 1), (2, 1), 3),
    ((8, 8, 7, 7), (8, 1, 3, 3), (1, 1), (1, 1), (1, 1), 8),
    ((2, 16, 8, 8), (12, 16, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 16, 9, 9), (12, 16, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    ((1, 3, 20, 20), (4, 3, 7, 7), (2, 2), (3, 3), (1, 1), 1),
    ((1, 2, 16, 16), (8, 2, 9, 9), (1, 1), (5, 5), (1, 1), 1),
    ((6, 4, 10, 12), (4, 4, 2, 2), (3, 3), (3, 0), (1, 1), 1),
    ((2, 3, 5, 6, 7), (4, 3, 2, 3, 3), (1, 1, 1), (1, 0, 1), (1, 1, 1), 1),
    ((2, 3, 6, 7, 9), (4, 3, 3, 2, 3), (2, 1, 2), (1, 1, 0), (1, 2, 1), 1),
]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_and_gradients(geometry, dtype):
    shape, weight, stride, padding, dilation, groups = geometry
    x, w = draw(0, shape, weight, dtype=dtype)

    def convolution(x, w):
        return CONVOLUTIONS[len(stride)](x, w, None, stride, padding, dilation, groups)

    def both(x, w, u):
        y, back = eo.vjp(convolution, x, w)
        return y, *back(u)

    wanted = written_out(x.numpy(), w.numpy(), stride, padding, dilation, groups)
    (u,) = draw(1, wanted.shape, dtype=dtype)
    found, names = run(both, x, w, u)
    assert {"convolve", "convolve_weight"} <= names
    unit = np.finfo(dtype).eps
    np.testing.assert_allclose(found[0].numpy(), wanted, 64 * unit, 64 * unit * np.abs(wanted).max())
    agree(found, both(x, w, u), ulps=256)


@pytest.mark.parametrize("vectors", [Vectors(32, 16), Vectors(16, 32), Vectors(16, 16), Vectors(64, 32)])
@pytest.mark.parametrize("geometry", [GEOMETRIES[i] for i in (3, 5, 6, 9)], ids=str)
def test_other_vectors(vectors, geometry, monkeypatch):
    """What is generated for processors with vectors of another size or number computes the same."""
    for module in (lowered, generated):
        monkeypatch.setattr(module, "vectors", lambda: vectors)
    shape, weight, stride, padding, dilation, groups = geometry
    x, w = draw(16, shape, weight)

    def convolution(x, w):
        return eo.conv2d(x, w, None, stride, padding, dilation, groups)

    same(lambda x, w, u: eo.vjp(convolution, x, w)[1](u), x, w, eo.sin(convolution(x, w) * 3), ulps=256)


def test_threads_change_no_bit():
    x, w, u = draw(17, (16, 16, 28, 28), (32, 16, 3, 3), (16, 32, 28, 28))

    def all_of_it(x, w, u):
        y, back = eo.vjp(lambda x, w: eo.conv2d(x, w, padding=1), x, w)
        return y, *back(u)

    one, several = (eo.compile(all_of_it, threads=n)(x, w, u) for n in (1, 3))
    for a, b in zip(one, several):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_images_without_padding_are_not_copied():
    x, w = draw(22, (2, 4, 12, 12), (8, 4, 3, 3))
    assert "place" not in run(lambda x, w: eo.conv2d(x, w), x, w)[1]
    assert "place" in run(lambda x, w: eo.conv2d(x, w, padding=1), x, w)[1]


def test_gradients_are_the_transposes():
    """<u, conv(x, w)> is <x, gradient of x> and <w, gradient of w>, as the form is bilinear."""
    x, w, u = draw(2, (3, 4, 12, 15), (6, 4, 3, 3), (3, 6, 6, 8), dtype="float64")

    @eo.compile
    def all_of_it(x, w, u):
        y, back = eo.vjp(lambda x, w: eo.conv2d(x, w, stride=2, padding=1), x, w)
        return y, *back(u)

    y, gx, gw = (a.numpy() for a in all_of_it(x, w, u))
    wanted = np.vdot(u.numpy(), y)
    np.testing.assert_allclose([np.vdot(x.numpy(), gx), np.vdot(w.numpy(), gw)], wanted, 1e-12)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_integers(dtype):
    rng = np.random.default_rng(3)
    x, w = (eo.from_numpy(rng.integers(0, 9, s).astype(dtype)) for s in ((2, 3, 9, 9), (4, 3, 3, 3)))
    found = same(lambda x, w: eo.conv2d(x, w, padding=1, stride=2), x, w)
    wanted = written_out(x.numpy(), w.numpy(), (2, 2), (1, 1), (1, 1), 1)
    np.testing.assert_array_equal(found.numpy(), wanted.astype(dtype))


@pytest.mark.parametrize("place", [(0, 0), (0, 19), (5, 18), (9, 15), (17, 0), (19, 19)])
def test_infinities_stay_at_the_weights_that_meet_them(place):
    """A position between two lines, or in two vectors, must not multiply an infinite element by zero."""
    x, w, u = draw(4, (2, 2, 20, 20), (3, 2, 3, 3), (2, 3, 18, 18), dtype="float64")
    x[0, 0, *place] = np.inf

    def gradient(x, w, u):
        return eo.vjp(lambda w: eo.conv2d(x, w), w)[1](u)[0]

    found = same(gradient, x, w, u, ulps=256).numpy()
    row, column = (np.array([0 <= n - k < 18 for k in range(3)]) for n in place)
    wanted = np.zeros(found.shape, bool)
    wanted[:, 0] = row[:, None] & column
    np.testing.assert_array_equal(np.isinf(found), wanted)
    np.testing.assert_array_equal(np.isfinite(found), ~wanted)


def test_higher_derivatives_and_maps():
    x, w, v = draw(6, (2, 3, 10, 10), (4, 3, 3, 3), (2, 3, 10, 10), dtype="float64")

    def energy(x, w):
        return eo.sum(eo.tanh(eo.conv2d(x, w, padding=1)) ** 2)

    same(lambda x, w, v: eo.jvp(lambda x: eo.grad(energy)(x, w), (x,), (v,))[1], x, w, v, ulps=1024)
    same(lambda x, w: eo.grad(lambda w: eo.sum(eo.grad(energy)(x, w) ** 2))(w), x, w, ulps=4096)
    many = draw(7, (5, 4, 3, 3, 3), dtype="float64")[0]
    same(eo.vmap(lambda w, x: eo.conv2d(x, w), in_axes=(0, None)), many, x, ulps=256)


@pytest.mark.parametrize("images", [0, 1, 5])
def test_sizes_at_the_edge(images):
    same(lambda x, w: eo.conv2d(x, w), *draw(8, (images, 2, 3, 3), (3, 2, 3, 3)))
    same(lambda x, w: eo.conv1d(x, w), *draw(9, (images, 1, 1), (1, 1, 1)))
    same(lambda x, w: eo.conv2d(x, w, padding=2), *draw(10, (images, 64, 1, 1), (64, 64, 3, 3)), ulps=256)


# ---- pooling and windows


@pytest.mark.parametrize("kernel", [1, 2, 3, (2, 3), 6])
@pytest.mark.parametrize("stride", [None, 1, (3, 2)])
def test_pooling(kernel, stride):
    x = draw(11, (2, 3, 13, 12), dtype="float64")[0]
    for pool in (F.max_pool2d, F.avg_pool2d):
        for padding in (0, 1):
            if padding * 2 > np.min(kernel):
                continue

            def both(x, pool=pool, padding=padding):
                y, back = eo.vjp(lambda x: pool(x, kernel, stride, padding), x)
                return y, back(eo.sin(y * 5))

            same(both, x)


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation"), [(2, 2, 2), (2, 3, 2), (3, 2, 3), ((3, 2), 2, (1, 2))]
)
def test_pooling_with_gaps(kernel, stride, dilation):
    (x,) = draw(21, (2, 3, 13, 12), dtype="float64")

    def both(x):
        y, back = eo.vjp(lambda x: eo.max_pool2d(x, kernel, stride, 0, dilation), x)
        return y, back(eo.sin(y * 5))

    same(both, x)


@pytest.mark.parametrize("axes", [(0,), (1,), (2, 0)])
def test_views_of_windows_along_any_axes(axes):
    x = np.arange(4.0 * 5 * 6).reshape(4, 5, 6)
    window = (3, 2)[: len(axes)]
    found = eo.compile(lambda x: eo.sliding_window_view(x, window, axis=axes))(eo.asarray(x))
    np.testing.assert_array_equal(found.numpy(), np.lib.stride_tricks.sliding_window_view(x, window, axes))


def test_large_windows_are_loops():
    sizes = []
    for kernel in (6, 9):
        f = eo.compile(eo.grad(lambda x, kernel=kernel: eo.max_pool2d(x, kernel, 1).sum()))
        f(eo.asarray(np.zeros((1, 1, 12, 12))))
        ((entry,),) = f._entries.values()
        sizes.append(len(entry.program.module.text))
    assert sizes[1] < 1.2 * sizes[0]


def test_ties_share_the_gradient_of_a_maximum():
    x = eo.tensor([[[[1.0, 1.0, 0.0, 2.0], [0.0, 1.0, 3.0, 3.0]]]])
    gradient = eo.compile(eo.grad(lambda x: eo.sum(eo.max_pool2d(x, 2) * eo.tensor([3.0, 4.0]))))(x)
    np.testing.assert_array_equal(gradient.numpy(), [[[[1, 1, 0, 0], [0, 1, 2, 2]]]])


def test_a_window_with_nan_has_a_maximum_of_nan():
    x = eo.tensor([[[np.nan, 1.0, 2.0, np.inf, -np.inf, -np.inf]]])
    np.testing.assert_array_equal(
        eo.compile(lambda x: eo.max_pool1d(x, 2))(x).numpy(), [[[np.nan, np.inf, -np.inf]]]
    )
    gradient = eo.compile(eo.grad(lambda x: eo.sum(eo.max_pool1d(x, 2) * eo.tensor([2.0, 3.0, 4.0]))))(x)
    np.testing.assert_array_equal(gradient.numpy(), [[[2.0, 0.0, 0.0, 3.0, 2.0, 2.0]]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [3, 4, 5, 7, 11, 14, 17, 30, 33, 67])
def test_rows_of_windows_of_any_length(count, dtype):
    """Vectors do not fit into most of them: no window is left out, and none that overlaps is added twice."""
    x = np.arange(8 * count, dtype=dtype).reshape(4, 2 * count) % 7
    g = np.arange(1, 2 * count + 1, dtype=dtype).reshape(2, count)
    pooled = eo.compile(lambda x, g: eo.vjp(lambda x: eo.max_pool2d(x[None, None], 2)[0, 0], x)[1](g)[0])
    found = pooled(eo.asarray(x), eo.asarray(g)).numpy()
    windows = x.reshape(2, 2, count, 2).transpose(0, 2, 1, 3)
    largest = windows == windows.max((2, 3), keepdims=True)
    shares = largest * (g / largest.sum((2, 3)))[:, :, None, None]
    np.testing.assert_array_equal(found, shares.transpose(0, 2, 1, 3).reshape(x.shape))
    rising = eo.asarray(np.arange(count + 1, dtype=dtype)[None, None])
    overlapping = eo.compile(eo.grad(lambda x: eo.max_pool1d(x, 2, 1).sum()))(rising)
    np.testing.assert_array_equal(overlapping.numpy()[0, 0], [0, *[1] * count])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [5, 7, 14, 17, 33])
def test_short_sums_in_rows_of_any_length(count, dtype):
    """A few terms that lie side by side are added up, or compared, where they are read."""
    x = np.arange(400 * count, dtype=dtype).reshape(5, 2, 20, 2 * count) * 7 % 31 - 9

    def pooled(x):
        y = eo.maximum(x, 2)
        return eo.max_pool2d(y, 2), eo.avg_pool2d(y, 2)

    lines = eo.compile.inspect(pooled)(eo.asarray(x)).kernels
    assert lines.count("kept for a later nest") == 2
    windows = np.maximum(x, 2).reshape(5, 2, 10, 2, count, 2)
    largest, mean = eo.compile(pooled)(eo.asarray(x))
    np.testing.assert_array_equal(largest.numpy(), windows.max((3, 5)))
    np.testing.assert_array_equal(mean.numpy(), windows.sum((3, 5)) / 4)


def test_elements_and_short_sums_of_them_share_a_loop():
    x = np.arange(250.0 * 40).reshape(250, 20, 2) % 37

    def f(x):
        y = x - eo.max(x, axis=(1, 2), keepdims=True)
        return y, eo.sum(y, axis=2)

    y, total = eo.compile(f)(eo.asarray(x))
    wanted = x - x.max((1, 2), keepdims=True)
    np.testing.assert_array_equal(y.numpy(), wanted)
    np.testing.assert_array_equal(total.numpy(), wanted.sum(2))


def test_gradient_of_pooling_is_one_kernel():
    """What the gradient of a window asks of its elements is computed where it is written."""
    x, g = draw(12, (2, 3, 8, 8), (2, 3, 4, 4))
    compiled = eo.compile(lambda x, g: eo.vjp(lambda x: eo.max_pool2d(x, 2), x)[1](g))
    agree(compiled(x, g), eo.vjp(lambda x: eo.max_pool2d(x, 2), x)[1](g))
    ((entry,),) = compiled._entries.values()
    assert sum(bool(c.members) for c in entry.program.module.bodies[0].plan.clusters) == 1


# ---- a network


def network():
    eo.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1, stride=2), nn.GELU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def test_training_step():
    rng = np.random.default_rng(13)
    x = eo.from_numpy(rng.standard_normal((6, 1, 16, 16)).astype(np.float32))
    labels = eo.from_numpy(rng.integers(0, 10, 6))
    results = []
    for wrapper in (eo.compile, lambda f: f):
        model = network()
        optimizer = eo.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), labels)
            loss.backward()
            optimizer.step()
            return loss

        stepping = wrapper(step)
        losses = [stepping() for _ in range(3)]
        results.append((losses, list(model.parameters())))
    for found, wanted in zip(*results):
        agree([t.detach() for t in found], [t.detach() for t in wanted], ulps=512)


# ---- running products, float16


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_running_products(axis, reverse):
    x = eo.tensor([[2.0, 0.5, -3.0], [0.0, np.inf, 2.0], [1e200, 1e200, 0.0]], dtype=eo.float64)
    x = eo.flip(x, axis=axis) if reverse else x
    found = eo.compile(lambda x: eo.cumprod(x, axis=axis))(x).numpy()
    wanted = x.numpy().copy()
    rows = np.moveaxis(wanted, axis, 0)
    for i in range(1, 3):
        for j in range(3):  # a zero wins over an overflow, but not over an infinite factor
            a, b = float(rows[i - 1, j]), float(rows[i, j])
            finite = np.isfinite(np.moveaxis(x.numpy(), axis, 0)[: i + 1, j]).all()
            rows[i, j] = 0.0 if finite and 0 in (a, b) else a * b
    np.testing.assert_array_equal(found, wanted)
    same(eo.grad(lambda x: eo.sum(eo.cumprod(x, axis=axis))), draw(14, (4, 5), dtype="float64")[0])


def test_an_overflow_of_a_product_is_none_of_the_recurrence():
    """``r[2] = a[2] * (a[1] * r[0])`` is finite though ``a[2] * a[1]`` is infinite; eagerly too."""
    a, b = (eo.tensor(x, dtype=eo.float64) for x in ([0.0, 1e200, 1e200], [1e-300, 0.0, 0.0]))

    def solve(a, b):
        return op.linear_recurrence(a, b, axis=0, reverse=False)

    for f in (solve, eo.compile(solve)):
        with np.errstate(over="ignore", invalid="ignore"):
            found = f(a, b)
        np.testing.assert_allclose(found.numpy(), [1e-300, 1e-100, 1e100], 1e-14)


def test_half_precision_is_computed_in_single_and_rounded():
    x, w = draw(15, (2, 3, 8, 8), (4, 3, 3, 3), dtype="float16")
    found = same(lambda x: (eo.exp(x), x * 3 + 1, eo.sum(x, axis=1), eo.max_pool2d(x, 2)), x, ulps=4)
    assert all(f.dtype == eo.float16 for f in found)
    np.testing.assert_array_equal(found[0].numpy(), np.exp(x.numpy().astype(np.float32)).astype(np.float16))
    same(lambda x, w: eo.conv2d(x, w), x, w, ulps=16)
    assert "call" not in run(lambda x: eo.tanh(x) @ eo.matrix_transpose(x), x)[1]


# ---- vectors of positions


@pytest.mark.parametrize(
    ("features", "wanted"),
    [("avx2 avx avx512f", (64, 32)), ("avx2 avx", (32, 16)), ("neon", (16, 32)), ("sse2", (16, 16))],
)
def test_vector_registers_of_processors(features, wanted, monkeypatch):
    monkeypatch.setattr(machine.llvm, "get_host_cpu_features", lambda: dict.fromkeys(features.split(), True))
    found = machine.vectors.__wrapped__()
    assert (found.size, found.number) == wanted
    assert found.lanes("float32") == wanted[0] // 4


@pytest.mark.parametrize("vectors", [Vectors(64, 32), Vectors(32, 16), Vectors(16, 16)])
@pytest.mark.parametrize("shape", [(1,), (5,), (40,), (3, 3), (8, 8), (14, 14), (2, 3, 17), (4, 1)])
def test_vectors_cover_every_position_once(vectors, shape):
    sizes = [n + 2 for n in shape]
    steps = [int(np.prod(sizes[i + 1 :])) for i in range(len(sizes))]
    found = divide(shape, steps, vectors, 4)
    kept = found.kept()
    assert len(kept) == found.across
    places = []
    for line in itertools.product(*map(range, found.lines)):
        start = sum(i * step for i, step in zip(line, steps))
        for v, lanes in enumerate(kept):
            first = start + min(v * found.lanes, found.length - found.lanes)
            places += [first + i for i, keep in enumerate(lanes) if keep]
    wanted = [sum(i * s for i, s in zip(p, steps)) for p in itertools.product(*map(range, shape))]
    assert sorted(places) == sorted(wanted)


def test_vectors_end_with_the_last_position():
    assert Positions((3, 4), (6, 1), 4, through=True).length == 1 + 2 * 6 + 3
    assert Positions((3, 4), (6, 1), 4, through=False).length == 4


@pytest.mark.parametrize("shapes", [((40, 50), (50, 60)), ((3, 20, 50), (50, 7)), ((50,), (50, 9))], ids=str)
def test_products_of_integer_matrices(shapes):
    rng = np.random.default_rng(18)
    a, b = (eo.from_numpy(rng.integers(-9, 9, s)) for s in shapes)
    compiled = eo.compile(lambda a, b: a @ b)
    np.testing.assert_array_equal(compiled(a, b).numpy(), a.numpy() @ b.numpy())
    ((entry,),) = compiled._entries.values()
    assert entry.program.module.arena < 2**17  # the products themselves are nowhere in memory
