"""`eo.compile.inspect`: what it shows, and that it changes nothing."""

import inspect
import pydoc

import numpy as np
import pytest

import everyo as eo
from everyo import nn, optim
from everyo.compiler import native, passes
from everyo.errors import ArgumentError, CompileError

PASSES = ["traced", "traced, without dead code", "lowered", *(name for name, _ in passes.PASSES)]


def zeros(*shape):
    return eo.asarray(np.zeros(shape))


def wasteful(x):
    eo.sin(x)
    return eo.exp(x).sum()


def test_the_graph_after_each_pass():
    found = eo.compile.inspect(wasteful)(zeros(3, 4))
    assert list(found.graphs) == PASSES
    assert found.graphs["traced"].splitlines() == [
        "graph wasteful(%0: f64[3,4])",
        "  %1: f64[3,4] = sin(%0)",
        "  %2: f64[3,4] = exp(%0)",
        "  %3: f64[] = sum(%2) {axis=None, keepdims=False}",
        "  return %3",
    ]
    assert "sin" not in found.graphs["traced, without dead code"]
    assert found.graphs["without dead code"].splitlines() == [
        "graph wasteful(%0: f64[3,4])",
        "  %1: f64[3,4] = map(%0) {fn='exp'}",
        "  %2: f64[] = reduce(%1) {kind='sum', axes=(0, 1)}",
        "  return %2",
    ]


def test_kernels_say_what_shares_a_loop():
    found = eo.compile.inspect(lambda x: eo.softmax(x, axis=1))(zeros(50, 200))
    lines = found.kernels.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == ["k0, loop over 50:"]
    assert "  nest 0, loop over 200" in lines
    assert any(line.strip().endswith("= exp, kept for a later nest") for line in lines)
    assert any(line.strip().endswith(", stored") for line in lines)
    assert any(line.strip().endswith(" = max over 200, kept for a later nest") for line in lines)


def members(f, *args):
    """Return what the kernels of a function compute, without the names of values."""
    lines = eo.compile.inspect(f)(*args).kernels.splitlines()
    return [line.split(" = ")[-1].strip() for line in lines]


def test_what_is_read_in_another_order_is_kept_for_a_later_nest():
    found = members(lambda x: (lambda y: y * eo.flip(y, axis=1))(eo.exp(x)), zeros(50, 200))
    nests = [line for line in found if line.startswith("nest")]
    assert nests == ["nest 0, loop over 200", "nest 1, loop over 200"]
    assert [line for line in found[1:] if line not in nests] == [
        "exp, kept for a later nest",
        "multiply, stored",
    ]


def test_numbers_are_computed_where_no_loop_has_to_wait_for_them():
    def f(x):
        mean = eo.sum(x) / 5000
        first = eo.sum(x * mean) + 1
        return first, eo.sum(x / (mean * mean + 1))

    x = np.linspace(0.5, 1.5, 5000)
    assert eo.compile.inspect(f)(eo.asarray(x)).kernels.count("loop over") == 2
    found = [y.item() for y in eo.compile(f)(eo.asarray(x))]
    np.testing.assert_allclose(found, [5001, 2500], rtol=1e-13)


def test_kernels_say_into_how_many_chunks_they_are_cut():
    found = eo.compile.inspect(lambda x: eo.exp(x).sum())(zeros(1_000_000))
    first, *members = found.kernels.splitlines()
    assert first.startswith("k0, loop over 1000000, in ")
    assert members == ["  %1 = exp", "  %2 = sum over the loop, stored"]
    assert "contributions of chunks to %2" in found.memory


def test_loops_and_matrix_products_have_kernels_too():
    def f(x, w):
        return eo.scan(lambda c, a: (eo.tanh(c @ w) + a, c.sum()), x, zeros(5, 40, 40))

    found = eo.compile.inspect(f)(zeros(40, 40), zeros(40, 40))
    assert "graph f" in found.kernels
    assert "graph scan" in found.kernels
    assert "dot" in found.kernels
    assert "a state of scan" in found.memory


def test_memory_shows_places_and_lifetimes():
    found = eo.compile.inspect(lambda x, y: eo.exp(eo.exp(x @ y) @ y))(zeros(64, 64), zeros(64, 64))
    total, *places = found.memory.splitlines()
    size = 64 * 64 * 8
    assert int(total.split()[0]) <= 3 * size
    assert places
    for place in places:
        start, end = (int(n) for n in place.split(":")[0].split(" to "))
        assert end - start == size
        assert "f64[64,64], k" in place


def test_working_memory_has_room_for_that_of_loops():
    w = zeros(40, 40)

    def step(c, a):
        return eo.tanh(c @ w) @ w + a, None

    def looped(x):
        return eo.scan(step, x, zeros(5, 40, 40))[0]

    def repeated(x):
        return eo.while_loop(lambda s: s[1] < 3, lambda s: (step(s[0], 1.0)[0], s[1] + 1), (x, 0))[0]

    def chosen(x):
        return eo.cond(x[0, 0] > 0, lambda x: step(x, 1.0)[0], lambda x: x, x)

    for f in (looped, repeated, chosen):
        total, *places = eo.compile.inspect(f)(zeros(40, 40)).memory.splitlines()
        ends = [int(place.split(":")[0].split(" to ")[1]) for place in places]
        assert int(total.split()[0]) >= max(ends) >= 40 * 40 * 8


def test_llvm_before_and_after():
    found = eo.compile.inspect(lambda x: x * 2)(zeros(1000))
    assert "define internal void @k0(" in found.llvm
    assert "define i32 @everyo_main(" in found.llvm
    assert "@everyo_main(" in found.optimized
    assert " x double>" in found.optimized  # vectors
    assert " x double>" not in found.llvm


def test_all_of_it_as_text():
    found = eo.compile.inspect(wasteful)(zeros(3))
    text = str(found)
    titles = [line.strip("= ") for line in text.splitlines() if line.startswith("====")]
    assert titles == [
        *(f"graph, {name}" for name in PASSES), "kernels", "memory", "LLVM IR", "LLVM IR, optimized"
    ]  # fmt: skip
    for part in (*found.graphs.values(), found.kernels, found.memory, found.llvm, found.optimized):
        assert part in text
    assert repr(found) == "<inspection of wasteful: 1 kernels, 0 bytes of memory>"


# ---- what it takes and what it leaves alone


def test_nothing_is_run_or_changed():
    model = nn.Linear(3, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    before = [p.detach().numpy().copy() for p in model.parameters()]

    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    compiled = eo.compile(step)
    found = eo.compile.inspect(compiled)(eo.asarray(np.ones((4, 3), np.float32)))
    assert "matmul" in found.graphs["traced"] or "linear" in found.graphs["traced"]
    assert compiled.cache_info() == (0, 0, 0)
    for old, p in zip(before, model.parameters(), strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), old)
        assert p.grad is None


def test_nothing_is_watched_afterwards():
    before = passes.watch.get()
    eo.compile.inspect(wasteful)(zeros(3))
    with pytest.raises(ZeroDivisionError):
        eo.compile.inspect(lambda x: x * (1 / 0))(zeros(3))
    assert passes.watch.get() is before


def test_machine_code_is_not_what_it_waits_for(monkeypatch):
    texts, real = [], native.optimized
    found = eo.compile.inspect(lambda x: x - 1)(zeros(3))
    monkeypatch.setattr("everyo.compiler.inspection.optimized", lambda text: texts.append(text) or real(text))
    assert not texts
    assert found.optimized is found.optimized
    assert len(texts) == 1


def test_methods_keywords_and_options():
    class Scale:
        factor = 3.0

        @eo.compile
        def __call__(self, x, *, offset):
            return x * self.factor + offset

    scale = Scale()
    found = eo.compile.inspect(scale.__call__)(zeros(2), offset=1.0)
    assert "multiply" in found.graphs["traced"]
    assert found.name == "__call__"

    def power(x, n):
        return x**n if n > 1 else x

    found = eo.compile.inspect(power, static_argnums=1)(zeros(2), 1)
    assert "return %1" in found.graphs["without dead code"]


def test_errors_are_those_of_compile():
    with pytest.raises(CompileError):
        eo.compile.inspect(lambda x: x.item())(zeros(1))
    with pytest.raises(ArgumentError, match="threads"):
        eo.compile.inspect(lambda x: x, threads=0)(zeros(1))


def test_the_compiler_still_looks_like_a_function():
    signature = inspect.signature(eo.compile)
    assert list(signature.parameters) == ["f", "static_argnums", "backend", "threads", "fullgraph"]
    text = pydoc.plain(pydoc.render_doc(eo.compile))
    assert "compile(f:" in "".join(text.split())  # how lines are broken depends on the Python
    assert "Compile a function to machine code." in text
    assert eo.jit is eo.compile
    assert "LLVM IR" in eo.compile.inspect.__doc__
    assert inspect.signature(eo.compile.inspect(wasteful)) == inspect.signature(wasteful)
