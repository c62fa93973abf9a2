"""A fault in a rule turns the checks red: a few primitives here, all of them with ``make mutate``."""

import importlib
from pathlib import Path

import pytest

import everyo as eo
from everyo.core.registry import primitives

TOOLS = Path(__file__).resolve().parent.parent / "tools"


@pytest.fixture
def mutate(monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)
    return importlib.import_module("mutate")


@pytest.mark.parametrize("name", ["divide", "tanh", "matmul", "sum", "logsumexp"])
def test_every_planted_fault_is_caught(mutate, name):
    primitive = primitives()[name]
    rules, tally = (primitive.vjp, primitive.jvp), mutate.Tally()
    mutate.mutate(primitive, tally)
    assert not tally.broken
    assert not tally.survivors
    assert tally.killed >= 2
    assert (primitive.vjp, primitive.jvp) == rules, "the faults are taken out again"


def test_the_faults_are_of_every_kind(mutate):
    kinds = {
        "betaln": ["scale by 1.001", "negate", "exchange"],
        "tanh": ["g * (scalar_like(1, g) - out * out)  ->  g", "- out * out  ->  scalar_like(1, g)"],
    }
    for name, wanted in kinds.items():
        found = [fault.description for fault in mutate.faults(primitives()[name])]
        for part in wanted:
            assert any(part in description for description in found), (part, found)


def test_a_survivor_makes_the_run_fail(mutate, capsys):
    tally = mutate.Tally()
    primitive = primitives()["tanh"]
    tally.survivors.append((primitive, next(iter(mutate.faults(primitive)))))
    assert mutate.report(tally, 0.0) == 1
    assert "SURVIVED: tanh" in capsys.readouterr().out


def test_survivors_go_to_the_hard_points_that_call_their_rule(mutate, monkeypatch):
    def pulls_back():
        x = eo.tensor(0.0, requires_grad=True)
        eo.tanh(x).backward()
        assert x.grad.item() == 1.0

    def looks_at_the_value():
        assert eo.tanh(eo.tensor(0.0)).item() == 0.0

    def fails():
        pulls_back()
        raise AssertionError("whatever the rule")

    tests, tried = {f.__name__: f for f in (pulls_back, looks_at_the_value, fails)}, []

    def run(watch, places, *options):
        chosen = list(tests) if places == [mutate.HARD_POINTS] else places
        tried.append(chosen)
        for name in chosen:
            watch.pytest_runtest_logstart(name)
            try:
                tests[name]()
            except AssertionError:
                watch.failed.append(name)

    monkeypatch.setattr(mutate, "run_hard_points", run)
    primitive, tally = primitives()["tanh"], mutate.Tally()
    rules = primitive.vjp, primitive.jvp
    caught = next(f for f in mutate.faults(primitive) if (f.mode, f.description) == ("vjp", "negate"))
    missed = next(f for f in mutate.faults(primitive) if f.mode == "jvp")
    tally.survivors = [(primitive, caught), (primitive, missed)]
    mutate.try_hard_points(tally)
    assert tried == [list(tests), ["pulls_back"]]
    assert (tally.killed, tally.survivors) == (1, [(primitive, missed)])
    assert tally.broken == ["fails fails"]
    assert mutate.report(tally, 0.0) == 1
    assert (primitive.vjp, primitive.jvp) == rules


def test_the_texts_of_the_compilers_faults_stand_once_in_their_files(monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)
    tool = importlib.import_module("mutate_compiler")
    faults = [fault for path in sorted(tool.LIST.glob("*.txt")) for fault in tool.read(path.read_text())]
    texts = {fault.file: (tool.ROOT / tool.COMPILER / fault.file).read_text() for fault in faults}
    assert len(faults) > 250
    assert [str(fault) for fault in faults if texts[fault.file].count(fault.right) != 1] == []
