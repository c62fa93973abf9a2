"""`vmap` as users meet it: arguments, results, errors, random numbers, nesting, composite functions."""

from collections import namedtuple

import numpy as np
import pytest

import everyo as eo
from everyo.core.registry import op
from everyo.core.traced import batches, depth
from tests.looping import close, looped

# ---- arguments and results


def table():
    return eo.tensor(np.arange(6.0).reshape(3, 2))


def test_a_scalar_from_outside():
    """B141: its gradient is summed over the batch and has its own shape."""
    gradient = eo.grad(lambda z: eo.vmap(lambda v: eo.logaddexp(z, v.sum() + z))(eo.ones((3, 2))).sum())
    z = eo.tensor(0.1, dtype="float64")
    assert gradient(z).shape == ()
    assert abs(gradient(z).item() - 3) < 1e-12


def test_backward_goes_through_vmap():
    x, w = table().requires_grad_(), eo.tensor([2.0, 3.0], dtype="float64", requires_grad=True)
    eo.vmap(lambda v: (v * w).sum() ** 2)(x).sum().backward()
    y = (x.detach() * w.detach()).sum(axis=1)
    np.testing.assert_allclose(w.grad, (2 * y) @ x.detach())
    np.testing.assert_allclose(x.grad, eo.outer(2 * y, w.detach()))


def test_trees_of_axes():
    Pair = namedtuple("Pair", "left right")
    x = table()
    argument = {"a": [x, x.T], "b": None, "c": Pair(x, 2.0)}
    axes = {"a": [0, 1], "b": None, "c": Pair(-2, None)}
    function = eo.vmap(lambda d: (d["a"][0] + d["a"][1], d["c"].left * d["c"].right), in_axes=(axes,))
    left, right = function(argument)
    assert (left == 2 * x).all()
    assert (right == 2 * x).all()
    prefix = eo.vmap(
        lambda d, e: {"s": d["p"][0] + e, "t": (d["q"],)},
        in_axes=({"p": 0, "q": None}, 1),
        out_axes={"s": -1, "t": None},
    )
    result = prefix({"p": [x], "q": x}, x.T)
    assert (result["s"] == 2 * x.T).all()
    assert result["t"][0].shape == (3, 2)


def test_keywords_and_what_is_passed_whole():
    x = table()
    assert (eo.vmap(lambda v, *, w: v * w)(x, w=eo.tensor([1.0, 2.0, 3.0])) == x * [[1], [2], [3]]).all()
    assert eo.vmap(lambda v, how: v if how == "as it is" else -v, in_axes=(0, None))(x, "as it is").shape == (
        3,
        2,
    )
    assert eo.vmap(lambda: eo.ones(2), axis_size=4)().shape == (4, 2)
    assert eo.vmap(lambda v: 1.5)(x).tolist() == [1.5] * 3
    assert eo.vmap(lambda v: (None, {}))(x) == (None, {})


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 5])
def test_chunks(chunk_size):
    x = table()
    function = eo.vmap(
        lambda v: (v @ v, v[:, None] * v, eo.ones(2)), out_axes=(0, 1, None), chunk_size=chunk_size
    )
    squares, products, constant = function(x)
    assert (squares == (x * x).sum(axis=1)).all()
    assert constant.shape == (2,)
    assert (products == eo.moveaxis(x[:, :, None] * x[:, None], 0, 1)).all()
    assert function(x[:0])[1].shape == (2, 0, 2)
    gradient = eo.grad(lambda x: eo.vmap(lambda v: (v**3).sum(), chunk_size=chunk_size)(x).sum())
    np.testing.assert_allclose(gradient(x), 3 * x**2)


WRONG = {
    "sizes": (lambda x: eo.vmap(lambda a, b: a)(x, eo.ones(4)), eo.errors.ShapeError, "differ in length"),
    "axis_size": (lambda x: eo.vmap(lambda a: a, axis_size=4)(x), eo.errors.ShapeError, "differ in length"),
    "nothing": (lambda x: eo.vmap(lambda a: a, in_axes=None)(x), eo.errors.ShapeError, "no argument"),
    "number": (lambda x: eo.vmap(lambda a, b: a)(x, 2.0), eo.errors.ShapeError, "without axes"),
    "text": (lambda x: eo.vmap(lambda a, b: a)(x, "b"), eo.errors.DTypeError, "no tensor"),
    "axis": (lambda x: eo.vmap(lambda a: a, in_axes=2)(x), eo.errors.IndexingError, "axis 2"),
    "out": (lambda x: eo.vmap(lambda a: a, out_axes=-3)(x), eo.errors.IndexingError, "axis -3"),
    "length": (lambda x: eo.vmap(lambda a: a, in_axes=(0, 0))(x), eo.errors.ArgumentError, "another length"),
    "key": (lambda x: eo.vmap(len, in_axes=({"b": 0},))({"a": x}), eo.errors.ArgumentError, "do not fit"),
    "kind": (lambda x: eo.vmap(lambda a: a, in_axes=0.5)(x), eo.errors.ArgumentError, "0.5"),
    "truth": (lambda x: eo.vmap(lambda a: a, in_axes=True)(x), eo.errors.ArgumentError, "True"),
    "batched": (lambda x: eo.vmap(lambda a: a, out_axes=None)(x), eo.errors.ArgumentError, "depends on"),
    "chunk": (lambda x: eo.vmap(lambda a: a, chunk_size=0)(x), eo.errors.ArgumentError, "chunk_size"),
    "random": (lambda x: eo.vmap(lambda a: a, randomness="no")(x), eo.errors.ArgumentError, "randomness"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(WRONG))
def test_wrong_arguments(name):
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message) as caught:
        call(table())
    assert "test_vmap_functions.py" in caught.value.line


# ---- what a batch cannot do


IMPOSSIBLE = {
    "item": lambda v: v.sum().item(),
    "bool": lambda v: v if v.sum() > 0 else -v,
    "float": lambda v: float(v[0]),
    "index": lambda v: [1, 2][v.astype("int64")[0]],
    "numpy": lambda v: v.numpy(),
    "tolist": lambda v: v.tolist(),
    "max": lambda v: max(v[0], v[1]),
    "mask": lambda v: v[v > 0],
    "nonzero": lambda v: eo.nonzero(v)[0],
    "arange": lambda v: eo.arange(v.astype("int64")[0]),
    "repeat": lambda v: eo.repeat(v, v.astype("int64")),
    "draw": lambda v: v + eo.random.normal(size=2),
    "dropout": lambda v: eo.dropout(v, 0.5),
}


@pytest.mark.parametrize("name", sorted(IMPOSSIBLE))
def test_impossible_in_a_batch(name):
    with pytest.raises(eo.errors.UnsupportedOperationError) as caught:
        eo.vmap(IMPOSSIBLE[name])(table())
    assert caught.value.remedy
    assert "test_vmap_functions.py" in caught.value.line
    assert depth() == 0
    assert batches.get() == ()


def test_a_mask_sets_one_value_and_is_refused_for_several():
    def negative_to(value):
        def function(v):
            v[v < 0] = value
            return v

        return function

    found = eo.vmap(negative_to(0))(table())
    np.testing.assert_array_equal(found.numpy(), np.maximum(table().numpy(), 0))
    with pytest.raises(eo.errors.UnsupportedOperationError, match=r"eo\.where"):
        eo.vmap(negative_to(eo.zeros(1)))(table())


MISFITS = {
    "add": (lambda v: v + eo.ones(3), r"\(2,\) and \(3,\)"),
    "matmul": (lambda v: v @ eo.ones((3, 2)), "2 and 3"),
    "scalar matmul": (lambda v: v[0] @ eo.ones((3, 4)), "0-d"),
    "matrix_transpose": (lambda v: v.mT, r"float64 \(2,\)"),
    "setitem": (lambda v: op.index_update(v, eo.ones((3, 2)), index=(slice(None),)), r"float64 \(2,\)"),
    "take": (lambda v: v[5], r"float64 \(2,\)"),
}


@pytest.mark.parametrize("name", sorted(MISFITS))
@pytest.mark.parametrize("size", [3, 0])
def test_errors_show_the_shapes_of_an_example(name, size):
    """The batch, here of three as so many other axes, is never taken for an axis of an example."""
    function, message = MISFITS[name]
    with pytest.raises((eo.errors.ShapeError, eo.errors.IndexingError), match=message):
        eo.vmap(function)(table()[:size])


def test_values_outside_a_table_are_found_in_a_batch():
    indices = eo.tensor([[0, 1], [2, -2]])
    with pytest.raises(eo.errors.IndexingError):
        eo.vmap(lambda i: eo.embedding(eo.ones((3, 2)), i))(indices)
    with pytest.raises(eo.errors.IndexingError):
        eo.vmap(lambda l, t: eo.nn.functional.cross_entropy(l, t))(eo.ones((2, 3)), eo.tensor([0, -1]))


def test_state_from_outside():
    captured = eo.zeros(2)

    def change(v):
        captured[0] = v[0]
        return captured.sum()

    with pytest.raises(eo.errors.UnsupportedOperationError, match="captured"):
        eo.vmap(change)(table())
    assert captured.tolist() == [0, 0]
    kept = []
    eo.vmap(lambda v: kept.append(v) or v)(table())
    with pytest.raises(eo.errors.GraphStateError, match="outlived"):
        kept[0] + 1
    with pytest.raises(eo.errors.GraphStateError, match="outlived"):
        eo.vmap(lambda v: v + kept[0])(table())


def test_in_place_statements_on_values_of_its_own():
    x = table()

    def change(v):
        y = eo.zeros(3, dtype="float64")
        y[1] = v[0]
        y[-1:] += v[1]
        v *= 2
        return y, v

    y, v = eo.vmap(change)(x)
    assert y.tolist() == [[0, 0, 1], [0, 2, 3], [0, 4, 5]]
    assert (v == 2 * table()).all()
    assert (x == table()).all()


# ---- randomness


def test_random_numbers_say_what_they_want():
    x = eo.ones((400, 5))
    different = eo.vmap(lambda v: eo.dropout(v, 0.5), randomness="different")(x)
    same = eo.vmap(lambda v: eo.dropout(v, 0.5), randomness="same")(x)
    assert 0.4 < (different == 0).astype("float32").mean().item() < 0.6
    assert len({tuple(row) for row in different.tolist()}) > 20
    assert len({tuple(row) for row in same.tolist()}) == 1


def test_every_draw_of_a_batch():
    x = eo.arange(12.0).reshape(3, 4)

    def draw(v):
        return {
            "permutation": eo.random.permutation(4),
            "rows": eo.random.permutation(v),
            "choice": eo.random.choice(v, 2),
            "few": eo.random.choice(4, 4, replace=False),
            "integers": eo.random.integers(0, 5, 6),
            "bernoulli": eo.random.bernoulli((v > 5).astype("float32")),
            "normal": eo.random.normal(v, 1.0),
            "exponential": eo.random.exponential(v),
        }

    found = eo.vmap(draw, randomness="different")(x)
    assert (eo.sort(found["permutation"]) == eo.arange(4)).all()
    assert (eo.sort(found["few"]) == eo.arange(4)).all()
    assert (eo.sort(found["rows"]) == x).all()
    assert found["choice"].shape == (3, 2)
    assert (found["choice"][2] >= 8).all()
    assert found["integers"].shape == (3, 6)
    assert found["normal"].shape == x.shape
    assert (found["bernoulli"] == (x > 5)).all()
    assert {k: v.shape[0] for k, v in eo.vmap(draw, randomness="different")(x[:0]).items()} == dict.fromkeys(
        found, 0
    )
    with pytest.raises(eo.errors.ArgumentError, match="probabilities"):
        eo.vmap(lambda p: eo.random.bernoulli(p), randomness="different")(eo.tensor([0.5, 2.0]))


def test_draws_of_nested_batches():
    def noise(outer, inner):
        def row(v):
            return eo.vmap(lambda w: eo.random.normal() + 0 * w, randomness=inner)(v)

        return eo.vmap(row, randomness=outer)(table()).tolist()

    count = lambda rows: len({x for row in rows for x in row})  # noqa: E731
    assert [count(noise(o, i)) for o in ("different", "same") for i in ("different", "same")] == [6, 3, 2, 1]
    with pytest.raises(eo.errors.UnsupportedOperationError, match="random"):
        noise("error", "different")


def test_a_seed_gives_the_same_numbers_again():
    def draw():
        generator = eo.random.Generator(3)
        return eo.vmap(lambda v: v + generator.uniform(size=2), randomness="different")(table())

    assert (draw() == draw()).all()


# ---- nesting


def test_nested_batches():
    x, y = eo.arange(6.0).reshape(2, 3), eo.arange(12.0).reshape(4, 3)
    gram = eo.vmap(lambda a: eo.vmap(lambda b: a @ b)(y))(x)
    assert (gram == x @ y.T).all()
    assert (eo.vmap(eo.vmap(lambda a, b: a * b, in_axes=(0, None)), in_axes=(None, 0))(x, y[:, 0]).shape) == (
        4,
        2,
        3,
    )
    cube = eo.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_allclose(eo.vmap(eo.vmap(eo.sin, in_axes=1, out_axes=1))(cube), eo.sin(cube))


def f(x):
    return (eo.tanh(x[0] * x[1]) * eo.exp(x[1]) + x[0] ** 3).sum()


def test_every_nesting_of_derivatives():
    rng = np.random.default_rng(0)
    xs, vs = (eo.tensor(rng.uniform(-1, 1, (4, 2))) for _ in range(2))

    def hvp(x, v):
        return eo.jvp(eo.grad(f), (x,), (v,))[1]

    def hessian(x):
        return eo.vmap(lambda e: hvp(x, e))(eo.eye(2, dtype="float64"))

    def third(x, v):
        return eo.grad(lambda x: (hvp(x, v) * v).sum())(x)

    for function, arguments in ((hvp, (xs, vs)), (hessian, (xs,)), (third, (xs, vs))):
        wanted = looped(function, 4, [a.numpy() for a in arguments])
        close(eo.vmap(function)(*arguments), wanted, function.__name__)
        close(eo.vmap(function, chunk_size=3)(*arguments), wanted, function.__name__)

    def mean_gradient_norm(xs):
        return (eo.vmap(eo.grad(f))(xs) ** 2).mean()

    by_loop = eo.grad(lambda xs: (eo.stack([eo.grad(f)(x) for x in xs]) ** 2).mean())
    np.testing.assert_allclose(eo.grad(mean_gradient_norm)(xs), by_loop(xs), rtol=1e-12)
    batches = eo.stack([xs, xs * 2])
    np.testing.assert_allclose(
        eo.vmap(eo.grad(mean_gradient_norm))(batches), [by_loop(b) for b in batches], rtol=1e-12
    )


def test_an_exception_leaves_no_state():
    def fail(v):
        eo.vmap(lambda w: eo.grad(lambda u: u * u)(w) + 1 / 0)(v)

    with pytest.raises(ZeroDivisionError):
        eo.vmap(fail)(table())
    assert depth() == 0
    assert batches.get() == ()


# ---- composite functions

A, B = np.random.default_rng(1).uniform(0.2, 2.0, (2, 3, 4, 5))  # a batch of three (4, 5)
IMAGES = np.random.default_rng(2).uniform(-1, 1, (3, 2, 2, 6, 5))
KERNELS = np.random.default_rng(3).uniform(-1, 1, (3, 4, 2, 3, 2))
ROWS = np.random.default_rng(4).integers(0, 4, (3, 2, 3))


def overwritten(a, b):
    y = eo.copy(a)
    y[1] = b[0]
    y[:, 2] = b[:, 0] * 2
    y[..., -1] += 1
    return y


def overwritten_at(a, i):
    y = eo.copy(a)
    y[i[0], 1] = 5.0
    y[i] = a[0]
    return y


COMPOSITES = {
    "var": (lambda a: eo.var(a, axis=0, correction=1), A),
    "std": (lambda a: eo.std(a), A),
    "average": (lambda a, b: eo.average(a, axis=1, weights=b), A, B),
    "ptp": (lambda a: eo.ptp(a, axis=1), A),
    "einsum": (lambda a, b: eo.einsum("ij,kj->ik", a, b), A, B),
    "einsum three": (lambda a, b: eo.einsum("ij,kj,il->kl", a, b, a), A, B),
    "einsum trace": (lambda a, b: eo.einsum("ij,ij->", a, b), A, B),
    "tensordot": (lambda a, b: eo.tensordot(a, b, axes=((0, 1), (0, 1))), A, B),
    "outer": (lambda a, b: eo.outer(a, b), A, B),
    "vecdot": (lambda a, b: eo.vecdot(a, b, axis=0), A, B),
    "dot": (lambda a, b: eo.dot(a, b.T), A, B),
    "prod": (lambda a: eo.prod(a, keepdims=True), A),
    "cumsum": (lambda a: eo.cumsum(a), A),
    "diff": (lambda a: eo.diff(a, n=2), A),
    "topk": (lambda a: eo.topk(a, 2, axis=0).values, A),
    "median by sort": (lambda a: eo.sort(a, axis=None)[10], A),
    "norm": (lambda a: eo.vector_norm(a, axis=0, ord=3), A),
    "diagonal": (lambda a: eo.diagonal(a, 1), A),
    "diag": (lambda a: eo.diag(a[0], 1), A),
    "trace": (lambda a: eo.trace(a), A),
    "tile": (lambda a: eo.tile(a, (2, 1)), A),
    "repeat": (lambda a: eo.repeat(a, 2, axis=1), A),
    "repeat counts": (lambda a: eo.repeat(a, [1, 0, 2, 1], axis=0), A),
    "pad": (lambda a: eo.pad(a, 1, mode="reflect"), A),
    "roll": (lambda a: eo.roll(a, 3), A),
    "split": (lambda a: eo.concat(eo.split(a, [1, 3])[::-1]), A),
    "meshgrid": (lambda a, b: eo.stack(eo.meshgrid(a[0], b[0])), A, B),
    "softmax": (lambda a: eo.softmax(a, axis=None), A),
    "where": (lambda a, b: eo.where(a > b, a, b * 2), A, B),
    "clip": (lambda a, b: eo.clip(a, 0.5, b), A, B),
    "linspace": (lambda a, b: eo.linspace(a[0, 0], b[0, 0], 5), A, B),
    "full": (lambda a: eo.full((2, 2), a[0, 0]), A),
    "conv2d": (lambda x, w: eo.conv2d(x, w, padding=1, stride=2), IMAGES, KERNELS),
    "conv2d one image": (lambda x, w: eo.conv2d(x[0], w, dilation=2), IMAGES, KERNELS),
    "conv2d groups": (lambda x, w: eo.conv2d(x, w[:, :1], groups=2), IMAGES, KERNELS),
    "max_pool2d": (lambda x: eo.max_pool2d(x, 2, padding=1), IMAGES),
    "avg_pool2d": (lambda x: eo.avg_pool2d(x, 2, padding=1, count_include_pad=False), IMAGES),
    "cross_entropy": (lambda a, i: eo.nn.functional.cross_entropy(a[i[0]], i[1]), A, ROWS),
    "cross_entropy soft": (lambda a, b: eo.nn.functional.cross_entropy(a, b), A, B),
    "embedding": (lambda a, i: eo.embedding(a, i), A, ROWS),
    "take": (lambda a, i: eo.take(a, i, axis=0), A, ROWS),
    "gather": (lambda a, i: eo.gather(a, 0, i), A, ROWS),
    "put_along_axis": (lambda a, i: eo.put_along_axis(a, i[:1, :1], a[:1, :1], axis=0), A, ROWS),
    "scatter_add": (lambda a, i: eo.scatter_add(a, 0, i, a), A, ROWS),
    "index_add": (lambda a, b, i: eo.index_add(a, i[0], b[:3]), A, B, ROWS),
    "index": (lambda a, i: a[i, 1:4:2], A, ROWS),
    "two indices": (lambda a, i: a[i[0], i[1]], A, ROWS),
    "set": (overwritten, A, B),
    "set at": (overwritten_at, A, ROWS),
}


@pytest.mark.parametrize("name", sorted(COMPOSITES))
def test_composite_functions(name):
    function, *batches = COMPOSITES[name]
    arguments = [eo.asarray(b) for b in batches]
    close(eo.vmap(function)(*arguments), looped(function, 3, batches), name)
    floats = tuple(i for i, b in enumerate(batches) if b.dtype.kind == "f")

    def loss(*a):
        values = function(*a)
        return (values * eo.sin(eo.arange(values.size) + 1.0).reshape(values.shape)).sum()

    gradient = eo.grad(loss, argnums=floats)
    wanted = looped(gradient, 3, batches)
    close(eo.vmap(gradient)(*arguments), wanted, name)
    total = eo.grad(lambda *a: eo.vmap(loss)(*a).sum(), argnums=floats)
    close(total(*arguments), wanted, name)
    for k in range(len(batches)):  # one argument alone has the batch
        axes = [0 if i == k else None for i in range(len(batches))]
        values = [a if i == k else a[1] for i, a in enumerate(arguments)]
        repeated = [b if i == k else np.stack([b[1]] * 3) for i, b in enumerate(batches)]
        close(eo.vmap(gradient, in_axes=tuple(axes))(*values), looped(gradient, 3, repeated), name)


def test_a_network_and_its_gradients_for_each_example():
    eo.random.manual_seed(0)
    network = eo.nn.Sequential(eo.nn.Linear(4, 5), eo.nn.ReLU(), eo.nn.Linear(5, 3))
    x = eo.random.normal(size=(6, 4))
    np.testing.assert_allclose(eo.vmap(network)(x).detach(), network(x).detach(), rtol=1e-5)
    eo.vmap(lambda v: (network(v) ** 2).sum())(x).sum().backward()
    found = [p.grad.numpy() for p in network.parameters()]
    network.zero_grad()
    (network(x) ** 2).sum().backward()
    for f, p in zip(found, network.parameters(), strict=True):
        np.testing.assert_allclose(f, p.grad, rtol=1e-4, atol=1e-5)
