"""A fault in a rule turns the checks red: a few primitives here, all of them with ``make mutate``."""

import importlib
from pathlib import Path

import pytest

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
        "divide": ["scale by 1.001", "negate", "exchange"],
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
