"""What a function does inside a transformation means what it means outside: operands, errors, refusals."""

import collections
import re

import numpy as np
import pytest

import everyo as eo

A, B = np.arange(6.0, dtype=np.float32).reshape(2, 3) + 1, np.ones(4, dtype=np.float32)


def batch(array):
    return eo.tensor(np.stack([array] * 5))


def first(f):
    """Return the sum of f as a function of its first argument."""
    return lambda a: f(a, eo.tensor(B)).sum()


def explained(error):
    """Return the text of an error without the source line, which may hold any word."""
    return str(error.value).partition("\n  at:")[0]


# Ways to call f(a, b) with what the function sees being of shapes (2, 3) and (4,).
CONTEXTS = {
    "eager": lambda f: f(eo.tensor(A), eo.tensor(B)),
    "grad": lambda f: eo.grad(lambda a, b: f(a, b).sum())(eo.tensor(A), eo.tensor(B)),
    "grad of grad": lambda f: eo.grad(lambda a: eo.grad(first(f))(a).sum())(eo.tensor(A)),
    "jvp": lambda f: eo.jvp(f, (eo.tensor(A), eo.tensor(B)), (eo.tensor(A), eo.tensor(B))),
    "jvp of one": lambda f: eo.jvp(lambda a: f(a, eo.tensor(B)), (eo.tensor(A),), (eo.tensor(A),)),
    "vmap": lambda f: eo.vmap(f)(batch(A), batch(B)),
    "vmap of one": lambda f: eo.vmap(lambda b: f(eo.tensor(A), b))(batch(B)),
    "vmap of grad": lambda f: eo.vmap(eo.grad(first(f)))(batch(A)),
    "jvp of vmap": lambda f: eo.jvp(eo.vmap(first(f)), (batch(A),), (batch(A),)),
    "hessian": lambda f: eo.hessian(first(f))(eo.tensor(A)),
}
TRANSFORMED = [name for name in CONTEXTS if name != "eager"]

MISFITS = {
    "add": (lambda a, b: a + b, eo.ShapeError, "do not broadcast"),
    "divide": (lambda a, b: a / b, eo.ShapeError, "do not broadcast"),
    "maximum": (lambda a, b: eo.maximum(a, b), eo.ShapeError, "do not broadcast"),
    "where": (lambda a, b: eo.where(a > 0, a, b), eo.ShapeError, "do not broadcast"),
    "clip": (lambda a, b: eo.clip(a, b), eo.ShapeError, "do not broadcast"),
    "add list": (lambda a, b: a + [1.0, 2.0], eo.ShapeError, "do not broadcast"),
    "less": (lambda a, b: (a < b) * a, eo.ShapeError, "do not broadcast"),
    "iadd": (lambda a, b: (a * 1).__iadd__(b), eo.ShapeError, "do not broadcast"),
    "matmul": (lambda a, b: a @ b, eo.ShapeError, "contracted"),
    "concat": (lambda a, b: eo.concat([a, b]), eo.ShapeError, "joined along"),
    "stack": (lambda a, b: eo.stack([a, b]), eo.ShapeError, "differ in shape"),
    "broadcast_to": (lambda a, b: eo.broadcast_to(a, (4,)), eo.ShapeError, r"\(4,\)"),
    "take_along_axis": (
        lambda a, b: eo.take_along_axis(a, eo.tensor([0]), axis=0), eo.ShapeError, "differ in their axes"
    ),
    "index": (lambda a, b: a[5], eo.IndexingError, "index 5"),
    "index array": (lambda a, b: a[[0, 7]], eo.IndexingError, "index 7"),
    "take": (lambda a, b: eo.take(a, eo.tensor([0, 7]), axis=0), eo.IndexingError, "7"),
    "object": (lambda a, b: eo.add(a, {}), eo.DTypeError, "dict"),
}  # fmt: skip


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", MISFITS)
def test_operands_that_do_not_fit(name, context):
    f, kind, words = MISFITS[name]
    with pytest.raises(kind) as error:
        CONTEXTS[context](f)
    assert re.search(words, explained(error))
    assert "test_inside_transformations.py" in error.value.line
    with pytest.raises(kind) as eager:
        CONTEXTS["eager"](f)
    assert error.value.operation == eager.value.operation
    if "jvp of vmap" not in context:  # whose error shows the batch, where it is that which does not fit
        assert explained(error) == explained(eager)


LISTS = {
    "add": lambda a: a + [1.0, 2.0, 3.0],
    "reflected": lambda a: [1.0, 2.0, 3.0] + a,
    "integers": lambda a: a * [1, 2, 3],
    "power": lambda a: a ** [1.0, 2.0, 3.0],
    "where": lambda a: eo.where(a > 2, a, [1.0, 2.0, 3.0]),
    "maximum": lambda a: eo.maximum([1.0, 2.0, 3.0], a),
    "clip": lambda a: eo.clip(a, [0.0, 0.0, 0.0], [2.0, 3.0, 4.0]),
    "matmul": lambda a: a @ [[1.0], [2.0], [3.0]],
    "range": lambda a: eo.add(a, range(3)),
    "tuple": lambda a: a - (1.0, 2.0, 3.0),
    "rows": lambda a: a + [[1, 1, 1], [2, 2, 2]],
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_numbers_are_as_weak_as_outside(name):
    f, a = LISTS[name], eo.tensor(A)
    value = f(a)
    assert value.dtype == eo.float32
    pushed, tangent = eo.jvp(f, (a,), (a,))
    mapped = eo.vmap(f)(batch(A))
    inner = []
    eo.jacfwd(lambda a: inner.append(f(a).dtype) or f(a))(a)
    for found in (pushed, mapped):
        assert found.dtype == eo.float32
        np.testing.assert_array_equal(found.numpy(), np.broadcast_to(value.numpy(), found.shape))
    assert tangent.dtype == eo.float32
    assert inner == [eo.float32]
    reverse = eo.grad(lambda a: f(a).sum())(a)
    assert eo.sum(reverse * a).item() == pytest.approx(tangent.sum().item(), rel=1e-6)


# ---- statements on an argument


@pytest.mark.parametrize("tracked", [True, False])
@pytest.mark.parametrize(
    "gradient",
    [
        lambda f: eo.grad(f),
        lambda f: lambda x: eo.value_and_grad(f)(x)[1],
        lambda f: lambda x: eo.vjp(f, x)[1](eo.tensor(1.0))[0],
        lambda f: eo.jacfwd(f),
        lambda f: lambda x: eo.vmap(eo.grad(f))(x.reshape((1, 2)))[0],
        lambda f: lambda x: eo.jvp(eo.grad(f), (x,), (x,))[0],
    ],
    ids=["grad", "value_and_grad", "vjp", "jacfwd", "vmap", "jvp"],
)
def test_the_gradient_is_that_of_the_argument_as_it_was_passed(gradient, tracked):
    def f(v):
        v *= 2
        return (v * v).sum()

    x = eo.tensor([1.0, 2.0], requires_grad=tracked)
    assert gradient(f)(x).tolist() == [8.0, 16.0]
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("tracked", [True, False])
def test_an_argument_of_another_dtype_after_a_statement_in_place(tracked):
    def f(v):
        with eo.no_grad():
            v += np.ones(2)
        return (v * v).sum()

    gradient = eo.grad(f)(eo.tensor([1.0, 2.0], requires_grad=tracked))
    assert gradient.dtype == eo.float32


REFUSED = {
    "requires_grad_": lambda v: v.requires_grad_(),
    "requires_grad_(False)": lambda v: v.requires_grad_(False),
    "requires_grad = True": lambda v: setattr(v, "requires_grad", True),
    "of a result": lambda v: (2 * v).requires_grad_(),
    "of a constant": lambda v: v.detach().clone().requires_grad_(),
    "Parameter": lambda v: eo.nn.Parameter(v),
    "retain_grad": lambda v: (2 * v).retain_grad(),
    "register_hook": lambda v: v.register_hook(print),
    "backward": lambda v: v.sum().backward(),
    "autograd.grad": lambda v: eo.autograd.grad(v.sum(), v),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_graph_of_a_batched_value_is_refused_at_once(name):
    reached = []

    def f(v):
        REFUSED[name](v)
        reached.append(v)

    with pytest.raises(eo.GraphStateError) as error:
        eo.vmap(f)(batch(A))
    assert reached == []
    assert error.value.remedy
    assert "inside vmap" in explained(error)
    assert "tangent" not in explained(error)


def test_freezing_an_argument():
    def f(v):
        doubled = 2 * v
        return (doubled * v.requires_grad_(False)).sum()

    x = eo.tensor([3.0])
    transforms = eo.grad(f), eo.vmap(f), eo.hessian(f), lambda x: eo.jvp(f, (x,), (x,))
    for refused in transforms:
        with pytest.raises(eo.GraphStateError) as error:
            refused(x)
        assert "x.detach()" in error.value.remedy


def changing(x):
    x[0] = 9.0
    x += 1
    return x


def customized(x):
    f = eo.custom_vjp(changing)
    f.defvjp(lambda x: (changing(x), None), lambda residuals, g: (g,))
    return f(x)


Pair = collections.namedtuple("Pair", "x n")
IN_PLACE = {
    "cond": lambda x: eo.cond(x[1] > 0, changing, lambda x: x, x),
    "cond of a named tuple": lambda x: eo.cond(x[1] > 0, lambda p: changing(p.x), lambda p: x, Pair(x, 1)),
    "cond of a container": lambda x: eo.cond(
        x[1] > 0, lambda d: changing(d["a"][0]), lambda d: x, {"a": [x]}
    ),
    "fori_loop": lambda x: eo.fori_loop(0, 2, lambda i, x: changing(x), x),
    "while_loop": lambda x: eo.while_loop(lambda x: x[1] < 5, changing, x),
    "scan": lambda x: eo.scan(lambda c, t: (changing(c), t), x, x)[0],
    "map": lambda x: eo.map(changing, x[:, None]),
    "vmap": lambda x: eo.vmap(lambda a, b: changing(b) + a, in_axes=(0, None))(x, x),
    "grad": lambda x: eo.grad(lambda x: changing(x).sum())(x),
    "jvp": lambda x: eo.jvp(changing, (x,), (x,))[0],
    "custom_vjp": customized,
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", IN_PLACE)
def test_arguments_that_a_function_changes_are_its_own(name, compiled):
    given = eo.tensor([1.0, 2.0])

    def f(x):
        own = x * 1
        out = IN_PLACE[name](own)
        return out, own

    out, own = (eo.compile(f) if compiled else f)(given)
    assert (own.tolist(), given.tolist()) == ([1.0, 2.0], [1.0, 2.0])
    if name in ("cond", "cond of a container", "cond of a named tuple", "jvp", "custom_vjp"):
        assert out.tolist() == [10.0, 3.0]
