"""A fault in a rule turns the checks red: a few primitives here, all of them with ``make mutate``."""

import importlib.util
from pathlib import Path

import pytest

from everyo.core.registry import primitives

PATH = Path(__file__).resolve().parent.parent / "tools" / "mutate.py"


@pytest.fixture(scope="module")
def mutate():
    specification = importlib.util.spec_from_file_location("mutate", PATH)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


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
        "tanh": ["g * (1 - out * out)  ->  g", "1 - out * out  ->  1"],
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
