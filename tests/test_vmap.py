"""`vmap` against a Python loop: every primitive on all of its samples, with its derivatives, and the rest."""

import random
import zlib

import numpy as np
import pytest

import everyo as eo
from everyo.core.batching import looped as looped_rule
from everyo.core.dtypes import DIFFERENTIABLE
from everyo.core.registry import op, primitives, unregister
from everyo.ops.families import primitive
from everyo.testing.primitives import Call
from tests.looping import close, looped, parts

PRIMITIVES = primitives()
# The shape of the result differs from example to example.
VALUE_DEPENDENT = {name for name, p in PRIMITIVES.items() if p.options.get("shaped_by_values")}
every_primitive = pytest.mark.parametrize("name", sorted(set(PRIMITIVES) - VALUE_DEPENDENT))
every_differentiated = pytest.mark.parametrize(
    "name", sorted(n for n, p in PRIMITIVES.items() if p.vjp is not None and n not in VALUE_DEPENDENT)
)


def is_array(x):
    return isinstance(x, np.ndarray)


def calls(name):
    return [Call(PRIMITIVES[name], sample, "float64") for sample in PRIMITIVES[name].samples()]


def batch_of(call, position, size):
    """Return an input as it would be in each of `size` calls, along a new first axis."""
    array = call.arrays[position]
    if not size:
        return np.zeros((0, *array.shape), array.dtype)
    others = [Call(call.primitive, call.sample, "float64", seed).arrays[position] for seed in range(size)]
    if all(np.array_equal(o, array) for o in others) and array.dtype.kind == "f":  # fixed values: vary them
        others = [array * (1 - 0.1 * i) for i in range(size)]
    elif all(np.array_equal(o, array) for o in others) and array.ndim and array.dtype.kind in "iu":
        others = [np.roll(array, i) for i in range(size)]
    return np.stack(others)


def subsets(call):
    """Return which inputs have a batch: all, and each alone."""
    every = [i for i, a in enumerate(call.arrays) if is_array(a)]
    return [every, *([i] for i in every if len(every) > 1)]


def apply(call, inputs):
    return call.primitive(*(eo.asarray(x) if is_array(x) else x for x in inputs), **call.params)


def with_batch(call, where, size):
    """Return a function of the inputs at `where`, the others fixed, and a batch of these inputs."""

    def function(*examples):
        inputs = list(call.arrays)
        for i, x in zip(where, examples, strict=True):
            inputs[i] = x
        return apply(call, inputs)

    return function, [batch_of(call, i, size) for i in where]


@every_primitive
def test_every_primitive_against_a_loop(name):
    with np.errstate(all="ignore"):
        for call in calls(name):
            for where in subsets(call):
                if not where:
                    continue
                for size in (3, 1):
                    function, batches = with_batch(call, where, size)
                    close(
                        eo.vmap(function)(*map(eo.asarray, batches)),
                        looped(function, size, batches),
                        (str(call), where, size),
                    )


@every_primitive
def test_a_batch_of_none(name):
    with np.errstate(all="ignore"):
        for call in calls(name):
            for where in subsets(call):
                if not where:
                    continue
                function, batches = with_batch(call, where, 0)
                found = eo.vmap(function)(*map(eo.asarray, batches))
                wanted = function(*(eo.asarray(call.arrays[i]) for i in where))
                for f, w in zip(parts(found), parts(wanted), strict=True):
                    assert (f.shape, f.dtype) == ((0, *w.shape), w.dtype), (str(call), where)


@every_primitive
def test_other_axes(name):
    """The batch lies last in each argument, and last in the results."""
    with np.errstate(all="ignore"):
        for call in calls(name):
            (where, *_) = subsets(call)
            if not where:
                continue
            function, batches = with_batch(call, where, 2)
            moved = [eo.asarray(np.moveaxis(b, 0, -1)) for b in batches]
            found = eo.vmap(function, in_axes=-1, out_axes=-1)(*moved)
            wanted = [np.moveaxis(w, 0, -1) for w in looped(function, 2, batches)]
            close(found, wanted, str(call))


# ---- derivatives: of vmap, under vmap


def differentiable(call):
    """Return where the call's inputs can be differentiated; none if its results cannot."""
    with np.errstate(all="ignore"):
        results = parts(call(*call.points))
    return call.wrt if any(r.dtype.kind in DIFFERENTIABLE for r in results) else []


def scalar(function, call):
    """Return a function whose value is a weighted sum of the results of `function`."""
    rng = np.random.default_rng(zlib.crc32(call.primitive.name.encode()))
    weights = {}

    def loss(*examples):
        total = 0.0
        for k, r in enumerate(parts(function(*examples))):
            if r.dtype.kind in DIFFERENTIABLE:
                if k not in weights:
                    weights[k] = rng.uniform(0.5, 1.5, r.shape)
                total = total + (eo.real(r) * weights[k]).sum()
        return total

    return loss


def differentiable_cases(name):
    """Yield each call with the positions and batches of its differentiable inputs, and a function of them.

    Inputs that cannot be differentiated, such as index arrays, have a batch in the first case only.
    """
    for call in calls(name):
        wrt = differentiable(call)
        if not wrt:
            continue
        others = [i for i, a in enumerate(call.arrays) if is_array(a) and i not in wrt]
        for where in [wrt + others, *([[*wrt]] if others else []), *([i] for i in wrt if len(wrt) > 1)]:
            yield call, len([i for i in where if i in wrt]), *with_batch(call, where, 3)


def number_of(results):
    return tuple(range(results))


@every_differentiated
def test_the_gradient_under_vmap(name):
    with np.errstate(all="ignore"):
        for call, count, function, batches in differentiable_cases(name):
            gradient = eo.grad(scalar(function, call), argnums=number_of(count))
            found = eo.vmap(gradient)(*map(eo.asarray, batches))
            close(found, looped(gradient, 3, batches), str(call))


@every_differentiated
def test_the_gradient_of_vmap(name):
    """Of the batch, and of an operand that all examples share."""
    with np.errstate(all="ignore"):
        for call, count, function, batches in differentiable_cases(name):
            loss = scalar(function, call)
            loss(*(eo.asarray(b[0]) for b in batches))  # fixes the weights
            arguments = [eo.asarray(b) for b in batches]
            found = eo.grad(lambda *a, loss=loss: eo.vmap(loss)(*a).sum(), argnums=number_of(count))(
                *arguments
            )
            each = looped(eo.grad(loss, argnums=number_of(count)), 3, batches)
            close(found, each, str(call))
            for k in range(count if len(batches) > 1 else 0):
                shared = [None if i == k else 0 for i in range(len(batches))]
                values = [a[1] if i == k else a for i, a in enumerate(arguments)]
                one = eo.grad(
                    lambda *a, loss=loss, axes=tuple(shared): eo.vmap(loss, in_axes=axes)(*a).sum(), argnums=k
                )
                repeated = [np.stack([b[1]] * 3) if i == k else b for i, b in enumerate(batches)]
                wanted = looped(eo.grad(loss, argnums=k), 3, repeated)
                close(one(*values), [w.sum(axis=0) for w in wanted], (str(call), k))


@every_differentiated
def test_forward_mode(name):
    """Through vmap, and under it."""
    with np.errstate(all="ignore"):
        for call, count, function, batches in differentiable_cases(name):
            primals, rest = batches[:count], batches[count:]
            tangents = [np.roll(np.cos(b), 1) for b in primals]

            def push(*values, function=function, count=count):
                primals, tangents, rest = values[:count], values[count : 2 * count], values[2 * count :]
                return eo.jvp(lambda *p: function(*p, *rest), primals, tangents)[1]

            arguments = [eo.asarray(b) for b in (*primals, *tangents, *rest)]
            wanted = looped(push, 3, (*primals, *tangents, *rest))
            close(eo.vmap(push)(*arguments), wanted, str(call))
            outer = eo.jvp(
                lambda *p, function=function, rest=arguments[2 * count :]: eo.vmap(function)(*p, *rest),
                arguments[:count],
                arguments[count : 2 * count],
            )
            close(outer[1], wanted, str(call))


# ---- the rules as such


def test_every_primitive_has_a_rule():
    assert [name for name, p in PRIMITIVES.items() if p.batch is None] == []


def test_a_primitive_without_a_rule_and_without_a_reason_is_refused():
    with pytest.raises(eo.errors.UnsupportedOperationError, match="no batch rule"):

        @primitive((lambda g: g,), (lambda t: t,), samples=list)
        def without_batching_rule(xp, x):
            return x


@pytest.fixture
def halves():
    """An operation with two results and the rule that loops."""

    @primitive(None, None, missing="a test", samples=list, batch=looped_rule)
    def _halves(xp, x, *, at):
        return x[:at], x[at:]

    yield _halves
    unregister("halves")


def test_the_rule_that_loops(halves):
    x = eo.arange(12.0).reshape(4, 3)
    left, right = eo.vmap(lambda v: op.halves(v, at=1))(x)
    assert (left == x[:, :1]).all()
    assert (right == x[:, 1:]).all()
    left, right = eo.vmap(lambda v: op.halves(v, at=1))(x[:0])
    assert (left.shape, right.shape) == ((0, 1), (0, 2))


@pytest.mark.parametrize("seed", range(150))
def test_indexing_of_every_layout(seed):
    """Integers, slices, None, ..., index arrays with and without a batch, in any order."""
    rng = random.Random(seed)
    numbers = np.random.default_rng(seed)
    shape = [rng.randint(1, 3) for _ in range(rng.randint(1, 4))]
    spread = [rng.randint(1, 3) for _ in range(rng.randint(0, 2))]
    index, batches, axis = [], [], 0
    while axis < len(shape):
        kind = rng.choice(["int", "slice", "none", "rest", "array", "batch", "batch"])
        if kind == "none":
            index.append(None)
        elif kind == "rest" and Ellipsis not in index:
            index.append(Ellipsis)
            axis += rng.randint(0, len(shape) - axis)
            if axis < len(shape):
                index += [slice(None)] * (len(shape) - axis)
            break
        else:
            n = shape[axis]
            own = [1 if rng.random() < 0.3 else m for m in spread[rng.randint(0, len(spread)) :]]
            if kind == "int":
                index.append(rng.randint(-n, n - 1))
            elif kind == "array":
                index.append(eo.asarray(numbers.integers(-n, n, own)))
            elif kind == "batch":
                index.append("batch")
                batches.append(numbers.integers(-n, n, (3, *own)))
            else:
                index.append(slice(None, None, rng.choice([1, 2, -1])))
            axis += 1
    everywhere = rng.random() < 0.6 or not batches
    x = numbers.standard_normal((3, *shape) if everywhere else shape)

    def read(x, *arrays):
        following = iter(arrays)
        return x[tuple(next(following) if type(i) is str else i for i in index)]

    def write(x, *arrays):
        following = iter(arrays)
        y = eo.copy(x)
        y[tuple(next(following) if type(i) is str else i for i in index)] = 2 * read(x, *arrays)
        return y

    axes = (0 if everywhere else None, *[0] * len(batches))
    arguments = [eo.asarray(x), *map(eo.asarray, batches)]
    repeated = [x if everywhere else np.stack([x] * 3), *batches]
    for function in (read, write):
        close(eo.vmap(function, in_axes=axes)(*arguments), looped(function, 3, repeated), index)

        def loss(*a, function=function):
            values = function(*a)
            return (values * eo.cos(eo.arange(values.size) * 1.0).reshape(values.shape)).sum()

        wanted = looped(eo.grad(loss), 3, repeated)
        close(eo.vmap(eo.grad(loss), in_axes=axes)(*arguments), wanted, index)
        total = eo.grad(lambda *a, loss=loss: eo.vmap(loss, in_axes=axes)(*a).sum())(*arguments)
        close(total, wanted if everywhere else [wanted[0].sum(axis=0)], index)
