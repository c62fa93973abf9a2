"""The passes by themselves: what they leave of a graph, the verifier behind each of them, the memory plan."""

import itertools
import re

import numpy as np
import pytest

import everyo as eo
from everyo.compiler import memory, passes
from everyo.compiler.graph import Graph, Value, verify
from everyo.errors import CompileError

F64 = np.dtype(np.float64)


def zeros(*shape):
    return eo.asarray(np.zeros(shape))


def graph_after(name, f, *args):
    return eo.compile.inspect(f)(*args).graphs[name]


# ---- dead code


def test_dead_code_goes_from_bodies_too():
    def step(c, t):
        eo.sin(c)
        return c * t, c

    text = graph_after("traced, without dead code", lambda x: eo.scan(step, x, eo.ones(3))[0], zeros(4))
    assert "multiply" in text
    assert "sin" not in text


def test_what_has_an_effect_is_no_dead_code(capsys):
    def f(x):
        eo.debug_print("seen {}", x)
        return x * 2

    eo.compile(f)(eo.asarray([1.0]))
    assert capsys.readouterr().out == "seen [1.]\n"


def test_what_an_effect_reads_is_no_dead_code(capsys):
    def f(x):
        eo.debug_print("seen {}", x + 1)
        return x * 2

    eo.compile(f)(eo.asarray([1.0]))
    assert capsys.readouterr().out == "seen [2.]\n"


# ---- products of matrices


def products(f, *args):
    """Return the products and transposes of a graph after all passes, by name."""
    return re.findall(r"= (dot|transpose)\(", graph_after(passes.PASSES[-1][0], f, *args))


def test_the_transpose_of_a_product_is_a_product():
    a, b = zeros(40, 50), zeros(50, 30)
    assert products(lambda a, b: (a @ b).T, a, b) == ["transpose", "transpose", "dot"]
    assert products(lambda a, b: (a.T @ b.T).T, b, a) == ["dot"]


@pytest.mark.parametrize(
    ("f", "wanted"),
    [
        (lambda a, b: (a @ b, (a @ b).T), ["dot", "transpose"]),  # the product is a result
        (lambda a, b: eo.exp(a @ b).sum() + (a @ b).T, ["dot", "transpose"]),  # somebody else reads it
        (lambda a, b: eo.exp((a @ b).T) + (a @ b).T, ["transpose", "transpose", "dot"]),  # nobody but these
    ],
)
def test_a_product_that_is_needed_as_it_is_stays(f, wanted):
    found = products(f, zeros(40, 50), zeros(50, 30))
    assert found == wanted


def test_other_transposes_of_a_product_stay():
    a, b = zeros(3, 40, 50), zeros(3, 50, 30)
    assert products(lambda a, b: eo.transpose(a @ b, (1, 0, 2)), a, b) == ["dot", "transpose"]


# ---- the verifier


def sound():
    graph = Graph()
    x = graph.input((2,), F64)
    (y,) = graph.add("map", [x, x], [((2,), F64)], fn="add")
    graph.outputs = [y]
    return graph, x, y


def test_a_sound_graph_passes():
    graph, _, _ = sound()
    verify(graph, core=True)


def unknown_operand(graph, x, y):
    graph.add("map", [Value((2,), F64)], [((2,), F64)], fn="exp")


def wrong_order(graph, x, y):
    (z,) = graph.add("map", [y], [((2,), F64)], fn="exp")
    graph.ops.reverse()
    graph.outputs = [z]


def made_twice(graph, x, y):
    graph.ops.append(graph.ops[0])


def made_by_another(graph, x, y):
    (z,) = graph.add("map", [x], [((2,), F64)], fn="exp")
    z.op = y.op


def missing_output(graph, x, y):
    graph.outputs.append(Value((2,), F64))


def no_core_operation(graph, x, y):
    graph.add("sin", [x], [((2,), F64)])


def missing_operand(graph, x, y):
    graph.add("dot", [x], [((2,), F64)])


def other_shapes(graph, x, y):
    graph.add("map", [graph.input((3,), F64)], [((2,), F64)], fn="exp")


def broken_body(graph, x, y):
    body, inner, _ = sound()
    missing_output(body, inner, None)
    graph.add("scan", [x], [((2,), F64)], body=body)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (unknown_operand, r"operand of map \(operation 1\) is used before it is made"),
        (wrong_order, r"operand of map \(operation 0\) is used before it is made"),
        (made_twice, r"a result of map \(operation 1\) is made twice"),
        (made_by_another, r"a result of map \(operation 1\) is made twice"),
        (missing_output, "an output is never made"),
        (no_core_operation, "sin is no core operation"),
        (missing_operand, "dot has 1 operands"),
        (other_shapes, "the operands of map exp have other shapes than its result"),
        (broken_body, "an output is never made"),
    ],
)
def test_a_broken_graph_does_not(change, found):
    graph, x, y = sound()
    change(graph, x, y)
    with pytest.raises(CompileError, match=found):
        verify(graph, core=True)


def test_the_verifier_looks_at_each_pass(monkeypatch):
    """In this suite: a pass that breaks a graph is found out where it does."""

    def careless(graph):
        graph.ops.pop(0)
        return graph

    monkeypatch.setattr(passes, "PASSES", (("careless", careless),))
    with pytest.raises(CompileError, match="a pass of the compiler left a broken graph"):
        eo.compile(lambda x: eo.exp(eo.sin(x)))(zeros(3))


# ---- the memory plan


def lifetimes(seed):
    rng = np.random.default_rng(seed)
    found = {}
    for i in range(int(rng.integers(1, 14))):
        first, length = rng.integers(0, 10), rng.integers(0, 5)
        found[i] = memory.Lifetime(int(rng.integers(0, 400)), int(first), int(first + length))
    return found


def test_what_lives_at_once_has_places_of_its_own():
    for seed in range(300):
        lives = lifetimes(seed)
        offsets, total = memory.place(lives)
        assert offsets.keys() == lives.keys()
        for key, life in lives.items():
            assert offsets[key] % 64 == 0
            assert 0 <= offsets[key] <= total - max(life.size, 1)
        for (a, one), (b, other) in itertools.combinations(lives.items(), 2):
            if one.first <= other.last and other.first <= one.last:
                apart = offsets[a] + one.size <= offsets[b] or offsets[b] + other.size <= offsets[a]
                assert apart, (seed, one, other)


def test_what_does_not_live_at_once_shares_a_place():
    lives = {"a": memory.Lifetime(100, 0, 1), "b": memory.Lifetime(300, 2, 3), "c": memory.Lifetime(64, 4, 4)}
    assert memory.place(lives) == ({"b": 0, "a": 0, "c": 0}, 320)
    lives["d"] = memory.Lifetime(50, 0, 4)
    assert memory.place(lives) == ({"b": 0, "a": 0, "c": 0, "d": 320}, 384)


def test_a_gap_is_filled():
    """The last one fits between those that live as long as it does: [0, 128) and [192, 256)."""
    lives = {
        "wide": memory.Lifetime(192, 0, 0), "first": memory.Lifetime(128, 1, 3),
        "second": memory.Lifetime(96, 0, 2), "last": memory.Lifetime(64, 1, 1),
    }  # fmt: skip
    offsets, total = memory.place(lives)
    assert offsets == {"wide": 0, "first": 0, "second": 192, "last": 128}
    assert total == 320
