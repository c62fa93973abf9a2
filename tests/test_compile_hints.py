"""What the code generator tells LLVM of loops with elementary functions, and what becomes of them."""

import re

import numpy as np
import pytest

import everyo as eo
from everyo.compiler.codegen import hints
from everyo.compiler.machine import Vectors, vectors

EXP, POW = ("call double @eo.exp.f64(double %x)",), ("call double @eo.pow.f64(double %x, double %y)",)


@pytest.fixture
def masks(monkeypatch):
    """A machine with vectors of eight doubles and registers of masks."""
    monkeypatch.setattr(hints, "vectors", lambda: Vectors(64, 32, masks=True))


def number(lines, turns=None):
    found = hints.hint(lines, turns, ())
    return int(found.rpartition("!")[2]) if found else None


def test_loops_without_functions_are_interleaved_where_they_are_short(masks):
    assert number(["x"] * 100) is None
    assert number(["x"] * 101) == 0


@pytest.mark.parametrize(
    ("lines", "turns", "expected"),
    [
        (["x"] * 20, 10, None),  # all turns may be written out
        (["x"] * 20, 11, 21),  # so may one vector and three more turns
        (["x"] * 20, 8 + 6, 22),  # not six more
        (["x"] * 20, 8 * 25 + 5, 21),
        (["x"] * 20, 8 * 26 + 5, 23),
        (["x"] * 20, 8 * 26 + 6, 24),
        ([*["x"] * 19, "load float"], 16 * 26 + 5, 23),  # a vector holds twice as many
        ([*["x"] * 19, "load float"], 16 * 25 + 5, 21),
        (["x"] * 20, 4096, 23),
        (["x"] * 20, 4097, None),  # long enough
        (["x"] * 20, None, None),
        ([*["x"] * 19, "load <8 x double>"], 8 * 26, None),  # vectors already
    ],
)
def test_loops_without_functions_are_not_written_out_where_that_is_long(masks, lines, turns, expected):
    assert number(lines, turns) == expected


@pytest.mark.parametrize(
    ("calls", "turns", "expected"),
    [
        (EXP, 4, 0),  # all turns may be written out
        (EXP, None, 9),  # two at a time, nothing written out
        (EXP, 8 * 100, 8),  # no rest
        (EXP, 8 * 3 + 1, 6),  # three vectors, one left
        (POW, 8 * 100 + 7, 5),
        (POW, 8 + 1, 2),
        (EXP * 12, 1003, 1),  # the rest is masked
        (EXP * 12, None, 1),
    ],
)
def test_the_length_of_a_loop_is_that_of_its_functions(masks, calls, turns, expected):
    assert number([*calls, "x"], turns) == expected


def test_masks_are_for_functions_alone(masks):
    assert number([*EXP * 12, *["x"] * 60]) == 1
    assert number([*EXP * 12, *["x"] * 120]) == 5


def test_machines_without_masks_have_code_for_the_rest(monkeypatch):
    monkeypatch.setattr(hints, "vectors", lambda: Vectors(32, 16))
    assert number([*EXP * 12, "x"]) == 5


def test_every_hint_is_in_the_module():
    named = set(re.findall(r"^(!\d+) = ", hints.METADATA, re.MULTILINE))
    assert set(re.findall(r"!\d+", hints.METADATA)) == named
    assert {f"!{i}" for i in (*range(10), *range(19, 25))} <= named


def chain(x):
    for f in (eo.exp, eo.tanh, eo.sin, eo.log, eo.sigmoid) * 2:
        x = f(x) * 0.5 + 0.2
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 3, 8, 15, 33, 1003])
def test_masked_rests_of_loops(dtype, size):
    x = eo.tensor(np.linspace(0.1, 0.9, size).astype(dtype))
    tolerance = 1e-6 if dtype == "float32" else 1e-14
    np.testing.assert_allclose(eo.compile(chain)(x).numpy(), chain(x).numpy(), tolerance)
    np.testing.assert_allclose(
        eo.compile(lambda x: chain(x).sum())(x).item(), chain(x).sum().item(), tolerance
    )


def test_a_long_body_is_compiled_once():
    text = eo.compile.inspect(chain)(eo.tensor(np.linspace(0.1, 0.9, 1003))).optimized
    body = "\n".join(re.findall(r"^define internal void .*?^}", text, re.DOTALL | re.MULTILINE)) or text
    body = "".join(
        part for part in re.split(r"(?=^define )", text, flags=re.MULTILINE) if "available_" not in part
    )
    polynomials = re.findall(r"@llvm\.fma\.(\w+)\(", body)
    if vectors().masks:
        assert {"v8f64"} == {kind for kind in polynomials if polynomials.count(kind) > 60}


def test_rows_and_reductions_with_functions():
    rng = np.random.default_rng(0)
    for shape in ((5, 3), (7, 10), (4, 100), (3, 257)):
        x = rng.normal(size=shape)
        found = eo.compile(lambda x: eo.logsumexp(x, axis=1))(eo.tensor(x)).numpy()
        np.testing.assert_allclose(found, np.log(np.exp(x).sum(axis=1)), 1e-13)
        strided = eo.compile(lambda x: eo.exp(x[:, ::2]))(eo.tensor(x)).numpy()
        np.testing.assert_allclose(strided, np.exp(x[:, ::2]), 1e-15)


def test_functions_of_vectors_next_to_large_arguments():
    x = np.linspace(-1.0, 1.0, 1001) * 1e9
    found = eo.compile(lambda x: eo.sin(x) ** 2 + eo.cos(x) ** 2)(eo.tensor(x)).numpy()
    np.testing.assert_allclose(found, np.ones(1001), 4e-16)
