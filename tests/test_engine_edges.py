"""Edges of the engine: freed graphs, hooks, in-place values, modes, Python data, jvp and its errors."""

import asyncio
import contextvars
import copy
import enum
import pickle

import numpy as np
import pytest

import everyo as eo
from everyo.autograd import grad


def leaf(*values, dtype=eo.float64):
    return eo.tensor(list(values), dtype=dtype, requires_grad=True)


# ---- which part of a graph a pass frees


def test_a_pass_to_some_inputs_frees_only_what_it_ran():
    x, w = leaf(2.0), leaf(3.0)
    h = x * x
    assert grad(h * w, w)[0].item() == 4.0
    h.backward()
    assert x.grad.item() == 4.0


def test_the_rule_of_a_target_itself_has_not_run():
    x = leaf(2.0)
    h = x * x
    y = h * h
    assert grad(y, h)[0].item() == 8.0
    h.backward()
    assert x.grad.item() == 4.0
    with pytest.raises(eo.GraphStateError, match="retain_graph"):
        y.backward()


def test_a_frozen_leaf_gets_no_gradient():
    x, w = leaf(2.0), leaf(3.0)
    y = x * w
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None
    assert w.grad.item() == 2.0


def test_iterables_of_inputs():
    model = eo.nn.Linear(2, 1)
    y = model(eo.ones((1, 2)))
    gradients = grad(y, model.parameters(), retain_graph=True)
    y.backward(inputs=iter([model.weight]))
    assert len(gradients) == 2
    assert model.weight.grad.tolist() == [[1.0, 1.0]]
    assert model.bias.grad is None


@pytest.mark.parametrize(
    "call", [lambda x: grad([], x), lambda x: grad(x, []), lambda x: x.backward(inputs=[])]
)
def test_nothing_to_differentiate(call):
    with pytest.raises(eo.ArgumentError, match=r"there are no (in|out)puts"):
        call(leaf(1.0))


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (eo.ones(5, dtype=eo.float64), eo.ShapeError),
        (eo.ones((1, 2), dtype=eo.float64), eo.ShapeError),
        (eo.ones(2, dtype=eo.float32), eo.DTypeError),
        (np.ones(2), eo.DTypeError),
        (1.0, eo.DTypeError),
    ],
)
def test_a_grad_that_was_set_wrongly(wrong, kind):
    x, w = leaf(1.0, 2.0), leaf(1.0, 2.0)
    x.grad = wrong
    with pytest.raises(kind, match="zero_grad"):
        (w * x).sum().backward()
    assert w.grad is None


def test_a_gradient_that_carries_a_tangent_keeps_it():
    x = leaf(1.0, 2.0)
    y = x**3
    for create_graph, expected in ((True, [3.0, 120.0]), (False, [0.0, 0.0])):  # or else it is a constant
        value, tangent = eo.jvp(
            lambda v, g=create_graph: grad(y, x, v, retain_graph=True, create_graph=g)[0],
            (eo.ones(2, dtype=eo.float64),),
            (eo.tensor([1.0, 10.0], dtype=eo.float64),),
        )
        assert value.tolist() == [3.0, 12.0]
        assert tangent.tolist() == expected


# ---- retain_grad and in-place statements


@pytest.mark.parametrize("how", ["operator", "index"])
def test_a_retained_gradient_is_that_of_the_value_in_place(how):
    x = leaf(2.0, 3.0)
    y = (x * x).retain_grad()
    if how == "operator":
        y *= 3
    else:
        y[0] = 12.0
    (y * y).sum().backward()
    assert y.retains_grad
    assert y.grad.tolist() == (2 * y).tolist()


# ---- hooks


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (lambda i, o: (3.0,), eo.DTypeError),
        (lambda i, o: (i[0].detach().numpy(),), eo.DTypeError),
        (lambda i, o: (eo.ones(3, dtype=eo.float64),), eo.ShapeError),
        (lambda i, o: (i[0].astype(eo.float32),), eo.DTypeError),
        (lambda i, o: [i[0]], eo.ShapeError),
        (lambda i, o: (i[0], i[0]), eo.ShapeError),
    ],
)
def test_a_node_hook_that_returns_no_gradient(wrong, kind, create_graph):
    x = leaf(1.0, 2.0)
    y = x * 3
    y.grad_node.register_hook(wrong)
    with pytest.raises(kind, match="hook"):
        y.sum().backward(create_graph=create_graph)
    assert x.grad is None


def test_a_prehook_replaces_or_drops_the_gradient():
    x = leaf(1.0, 2.0)
    y = x * 3
    handle = y.grad_node.register_prehook(lambda outs: (outs[0] * 2,))
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [6.0, 6.0]
    with handle:
        y.grad_node.register_prehook(lambda outs: (None,))
        y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def times_four(g):
    g *= 2
    g *= 2


def assign(g):
    g[...] = 4.0


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("change", [times_four, assign])
def test_a_hook_that_changes_its_argument_in_place(change, create_graph):
    """The change counts, on this way alone: the other operand of the sum gets what it would have got."""

    def gradients(register):
        x, z = leaf(1.0, 2.0), leaf(3.0, 4.0)
        y = x * 3.0
        register(y)
        found = grad((y + z * 5.0).sum(), (x, z), create_graph=create_graph)
        return [g.detach().tolist() for g in found]

    hooks = [
        lambda y: y.register_hook(change),
        lambda y: y.grad_node.register_prehook(lambda outs: change(outs[0])),
    ]
    for register in hooks:
        assert gradients(register) == [[12.0, 12.0], [5.0, 5.0]]
    after = gradients(lambda y: y.grad_node.register_hook(lambda ins, outs: change(ins[0])))
    assert after == [[12.0 if change is times_four else 4.0] * 2, [5.0, 5.0]]


@pytest.mark.parametrize("change", [times_four, assign])
def test_a_hook_that_changes_its_argument_in_place_in_a_program(change):
    x = leaf(1.0, 2.0)
    x.register_hook(change)

    @eo.compile
    def run():
        (x * 3.0).sum().backward()

    run()
    assert x.grad.tolist() == [12.0 if change is times_four else 4.0] * 2


def test_a_hook_that_changes_the_shape_in_place():
    x = leaf(1.0, 2.0)

    def change(g):
        g.data = g.data[:1]

    y = x * 3
    y.register_hook(change)
    with pytest.raises(eo.ShapeError, match="hook"):
        y.sum().backward()
    z = eo.tensor([1 + 2j], requires_grad=True)
    z.register_hook(times_four)
    eo.real(z * 3j).sum().backward()
    assert z.grad.tolist() == [-12j]


def test_what_is_no_hook():
    x = leaf(1.0)
    for register in (x.register_hook, (x * 2).grad_node.register_hook, (x * 2).grad_node.register_prehook):
        with pytest.raises(eo.DTypeError, match="callable"):
            register(3)


@pytest.fixture
def halves():
    """An operation with two results, of which a hook can replace the gradients."""
    from everyo.core.registry import op, unregister
    from everyo.ops.families import primitive

    def vjp(g, x_shape, x_dtype):
        zeros = op.zeros_like(next(iter(g.values())))
        return op.concat(g.get(0, zeros), g.get(1, zeros), axis=0)

    @primitive(vjp, None, missing="not needed here", samples=list)
    def _halves(xp, x):
        middle = len(x) // 2
        return x[:middle], x[middle:]

    from everyo.core.dispatch import apply

    yield lambda x: apply(_halves, (x,))
    unregister("halves")


@pytest.mark.parametrize("create_graph", [False, True])
def test_node_hooks_on_an_operation_with_several_results(halves, create_graph):
    x = leaf(1.0, 2.0, 3.0, 4.0)
    first, _ = halves(x)
    seen = []
    node = first.grad_node.parents[0]
    first.grad_node.register_hook(lambda ins, outs: seen.append((ins, outs)))
    first.grad_node.register_hook(lambda ins, outs: ({0: ins[0][0] * 10},))
    node.register_prehook(lambda outs: ({0: outs[0][0] * 2},))
    node.register_hook(lambda ins, outs: seen.append((ins, outs)))
    (first * 5).sum().backward(create_graph=create_graph)
    assert x.grad.tolist() == [100.0, 100.0, 0.0, 0.0]
    (((part,), (whole,)), ((total,), (parts,))) = seen
    assert part[0].tolist() == whole.tolist() == [5.0, 5.0]
    assert total.tolist() == [100.0, 100.0, 0.0, 0.0]
    assert parts[0].tolist() == [100.0, 100.0]


# ---- modes


def test_blocks_in_generators_may_end_in_any_order():
    def block(switch):
        with switch:
            yield

    first, second = block(eo.no_grad()), block(eo.enable_grad())
    next(first), next(second)
    list(first)
    assert eo.is_grad_enabled()
    list(second)
    assert eo.is_grad_enabled()
    first, second = block(eo.detect_anomaly()), block(eo.no_grad())
    next(first), next(second)
    list(first)
    assert not eo.is_grad_enabled()
    list(second)
    assert eo.is_grad_enabled()


def test_a_block_that_began_in_another_context_changes_nothing_here():
    def block():
        with eo.no_grad():
            yield

    steps = block()
    contextvars.copy_context().run(next, steps)
    with eo.inference_mode():
        steps.close()
        assert eo.is_inference_mode_enabled()
    assert eo.is_grad_enabled()


def test_set_grad_enabled_inside_a_block_ends_with_the_block():
    with eo.no_grad():
        eo.set_grad_enabled(True)
        assert eo.is_grad_enabled()
        with eo.no_grad():
            pass
        assert eo.is_grad_enabled()
    assert eo.is_grad_enabled()
    with eo.enable_grad():
        eo.set_grad_enabled(False)
    assert eo.is_grad_enabled()


def test_bare_decorators():
    for switch, expected in ((eo.no_grad, False), (eo.inference_mode, False), (eo.enable_grad, True)):
        assert switch(eo.is_grad_enabled)() is expected
    assert eo.is_grad_enabled()


def test_decorated_async_generator():
    @eo.no_grad()
    async def steps():
        try:
            sent = yield eo.is_grad_enabled()
            yield sent, eo.is_grad_enabled()
        except ValueError:
            yield "caught", eo.is_grad_enabled()

    async def main():
        seen = [(inside, eo.is_grad_enabled()) async for inside in steps()]
        running = steps()
        await running.__anext__()
        seen.append(await running.asend("sent"))
        seen.append((await running.athrow(ValueError()), eo.is_grad_enabled()))
        await running.aclose()
        return seen

    assert asyncio.run(main()) == [
        (False, True),
        ((None, False), True),
        ("sent", False),
        (("caught", False), True),
    ]


# ---- copies


def test_copies_of_a_subclass_keep_its_attributes():
    x = Named([1.0])
    x.name = ["weight"]
    (x * 2).backward()
    deep, shallow, pickled = copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))
    for other in (deep, shallow, pickled):
        assert type(other) is Named
        assert other.name == ["weight"]
        assert other.requires_grad
        assert other.grad.tolist() == [2.0]
    assert deep.name is not x.name
    assert shallow.name is x.name


class Named(eo.nn.Parameter):
    """A parameter with attributes."""


def test_a_deep_copy_keeps_who_is_who():
    x = leaf(1.0)
    (x * 2).backward()
    again, gradient = copy.deepcopy([x, x.grad])
    assert again.grad is gradient
    gradient, again = copy.deepcopy([x.grad, x])
    assert again.grad is gradient


def test_a_gradient_with_a_graph_is_pickled_without_it():
    x = leaf(3.0)
    (x * x).backward(create_graph=True)
    assert pickle.loads(pickle.dumps(x)).grad.tolist() == [6.0]


def test_parameters_are_unpickled_and_copied_in_inference_mode():
    x = leaf(3.0)
    stored = pickle.dumps(x)
    with eo.inference_mode():
        assert pickle.loads(stored).requires_grad
        assert copy.deepcopy(x).requires_grad


def test_an_array_without_a_copy_in_another_dtype():
    with pytest.raises(eo.ArgumentError, match="copy"):
        np.asarray(eo.ones(2), dtype=np.float64, copy=False)
    assert np.asarray(eo.ones(2), copy=False).tolist() == [1.0, 1.0]


# ---- Python data


@pytest.mark.parametrize("values", [300, [300], [[1, -129]], 1e30, [float("nan")], [float("-inf")]])
def test_numbers_outside_of_an_integer_dtype(values):
    for make in (eo.tensor, eo.asarray):
        with pytest.raises(eo.ArgumentError, match="int8"):
            make(values, dtype=eo.int8)
    x = eo.zeros((1, 2), dtype=eo.int8)
    if isinstance(values, int):
        with pytest.raises(eo.ArgumentError, match="int8"):
            eo.full(2, values, dtype=eo.int8)
        with pytest.raises(eo.ArgumentError, match="int8"):
            x[0] = values


def test_numbers_inside_of_an_integer_dtype():
    assert eo.tensor([127.9, -128.9, True], dtype=eo.int8).tolist() == [127, -128, 1]
    assert eo.tensor([2**63], dtype=eo.uint64).tolist() == [2**63]
    with pytest.raises(eo.ArgumentError, match="uint8"):
        eo.tensor(-1, dtype=eo.uint8)
    with pytest.raises(eo.ArgumentError, match="int64"):
        eo.tensor(2.0**63, dtype=eo.int64)
    with pytest.raises(eo.ArgumentError, match="int8"):
        eo.zeros(2, dtype=eo.int8)[:] = [300, 1]


@pytest.mark.parametrize("data", [1j, [1j], np.array([1j]), eo.tensor([1j])])
@pytest.mark.parametrize("dtype", [eo.float32, eo.int64])
def test_imaginary_parts_are_never_dropped(data, dtype):
    for make in (eo.tensor, eo.asarray):
        with pytest.raises(eo.DTypeError, match="imaginary"):
            make(data, dtype=dtype)


def test_numbers_too_large_for_the_tensor_they_meet():
    for x, number in ((eo.ones(1, dtype=eo.int8), 300), (eo.tensor([1]), 2**70), (eo.ones(1), 10**400)):
        with pytest.raises(eo.ArgumentError, match="range"):
            x + number
        with pytest.raises(eo.ArgumentError, match="range"):
            number * x


FLOAT64 = eo.tensor([1.0, 2.0], dtype=eo.float64)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, v: x + v,
        lambda x, v: v - x,
        lambda x, v: x**v,
        lambda x, v: x < v,
        lambda x, v: x @ v,
        eo.maximum,
        eo.hypot,
        eo.dot,
        eo.outer,
        eo.vecdot,
        eo.inner,
        lambda x, v: eo.tensordot(x, v, 1),
        lambda x, v: eo.einsum("i,i->", v, x),
        lambda x, v: eo.einsum(x, [0], v, [0]),
        lambda x, v: eo.where(eo.tensor([True, False]), x, v),
        lambda x, v: eo.clip(x, v, None),
        lambda x, v: eo.stack([v, x]),
        lambda x, v: eo.concat([x, v]),
        lambda x, v: eo.index_add(x, [0, 1], v),
        lambda x, v: eo.scatter_add(x, 0, [0, 1], v),
    ],
)
def test_lists_of_numbers_are_weak(call):
    values = [0.1, 0.7]
    exact = call(FLOAT64, eo.tensor(values, dtype=eo.float64))
    result = call(FLOAT64, values)
    assert result.dtype == exact.dtype
    assert result.tolist() == exact.tolist()
    half = call(FLOAT64.astype(eo.float16), values)
    assert half.dtype in (eo.float16, eo.bool)


def test_dtypes_of_lists_and_tensors():
    ones = {d: eo.ones(2, dtype=d) for d in (eo.bool, eo.int8, eo.float16, eo.float32, eo.float64)}
    for x in ones.values():
        for number in (True, 3, 0.5, 1j):
            assert (x * [number, number]).dtype == (x * number).dtype, (x.dtype, number)
    assert eo.add([1, 2], [0.5, 0.5]).dtype == eo.float32
    assert eo.concat([[1, 2], [0.5]]).dtype == eo.float32
    x = eo.zeros(2, dtype=eo.float64)
    x[:] = [0.1, 0.2]
    assert x.tolist() == [0.1, 0.2]


def test_subclasses_of_numbers_are_numbers():
    class Real(float):
        pass

    class Count(enum.IntEnum):
        TWO = 2

    assert (FLOAT64 * Real(0.1)).tolist() == (Real(0.1) * FLOAT64).tolist() == [0.1, 0.2]
    assert (eo.ones(2) * Count.TWO).dtype == eo.float32


def test_contains_what_equals_nothing():
    assert None not in FLOAT64
    assert "a" not in FLOAT64
    assert 2.0 in FLOAT64
