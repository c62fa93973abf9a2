"""Plant a fault in each derivative rule and demand that the checks notice: ``make mutate``.

    python tools/mutate.py [PRIMITIVE...] [--quick] [--list]

Every rule of every primitive (each input's vjp, each jvp) is replaced, one fault at a time:

* its result scaled by 1.001, and negated (for a joint rule each cotangent by itself);
* two operands of the same kind swapped, a term or a factor dropped, a sign or the operands of a
  subtraction, division, power or matrix product turned round, a function taken away: in the syntax
  tree of the rule and of the helper functions that it calls.

Then the checks of `everyo.testing.primitives`, the suite's own, run on the primitive's samples; what
survives them must be caught by `HARD_POINTS`, or be explained in `EXPLAINED`.
Otherwise the exit status is 1: a survivor is a missing test.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import sys
import time
import types
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from faults import Fault, faults

import everyo  # noqa: F401 - fills the registry
from everyo.core.primitive import BILINEAR, LINEAR, Primitive
from everyo.core.registry import primitives
from everyo.testing.primitives import check_primitive

ROOT = Path(__file__).resolve().parent.parent
HARD_POINTS = "tests/hard_points"

# Survivors that no test can catch, and why: (primitive or "*", function, fault) -> reason.
_REPAIRED = "the branch is not taken, and the engine makes 0 of its 0 * inf"
_CAST = "forward mode gives a tangent the dtype of its result"
_UNSCALED = "the scale is 1 there, and the branch is not reached"
_COMPLEX = "complex numbers alone are divided so there"
_HALVED = "a quotient of halves is the same where all are halved"
_NORM = "op.vector_norm(op.where(infinite, small, 1), axis=axis, keepdims=True, ord=ord)"
_PIVOT = "op.real(summed(where * v, -2))  ->  summed(where * v, -2)"
_REAL = "the largest element of a vector is real"
_ZEROS = "op.zeros_like(op.diagonal(x))"
_CHAIN = (
    "k * p  ->  k", "k * p  ->  p", "k * p * (m + n)  ->  k * p", "k * p * (m + n)  ->  m + n",
    "k + p  ->  k", "k + p  ->  k - p", "k + p  ->  p", "m * n  ->  m", "m * n  ->  n",
    "m * n * (k + p)  ->  k + p", "m * n * (k + p)  ->  m * n", "m + n  ->  m", "m + n  ->  m - n",
    "m + n  ->  n",
)  # fmt: skip
_LIMIT = "EQUAL * k * finfo(real_of(x.dtype)).eps  ->  finfo(real_of(x.dtype)).eps"
_CUTS = ("EQUAL * k  ->  EQUAL", "EQUAL * k  ->  k", _LIMIT)
_BETA = (
    ("op.beta(b, rest)  ->  op.beta(rest, b)", "it is symmetric"),
    ("op.where(zero, x1, 0.5)  ->  x1", _REPAIRED), ("op.where(zero, 0.5, x1)  ->  x1", _REPAIRED),
    ("op.where(zero, x2, 0.25)  ->  x2", _REPAIRED), ("op.where(zero, 0.5, x2)  ->  x2", _REPAIRED),
)  # fmt: skip
_GUARDS = (
    "op.where(finite, x2, 3)  ->  x2", "op.where(finite, x3, 0)  ->  x3", "op.where(end, 0.5, x3)  ->  x3",
    "op.where(end, x1 - 1, 2)  ->  x1 - 1", "op.where(end, x2, 0)  ->  x2", "op.where(end, 1, x2)  ->  x2",
)  # fmt: skip
EXPLAINED: dict[tuple[str, str, str], str] = {
    **{
        ("*", "_density_by_x", text): "the branch is not taken, and finite on the samples" for text in _GUARDS
    },
    **{("*", "chain", f"chain: {text}"): "the order of products, not their value" for text in _CHAIN},
    **{("*", "cuts", f"cuts: {text}"): "near the limit both rules hold" for text in _CUTS},
    ("*", "ratio_or_zero", "ratio_or_zero: op.where(zero, 1, y)  ->  y"): _REPAIRED,
    ("cofactor_second_change", "<lambda>", "exchange e and f"): "the derivative is symmetric in them",
    ("arctan", "over", "over: x / y  ->  x"): _COMPLEX,
    ("arctan", "over", "over: x / y  ->  y / x"): _COMPLEX,
    **{
        ("std", "in_range", f"in_range: {text}"): "of float16 alone, and that is computed in float32"
        for text in (
            f"{_NORM}  ->  op.where(infinite, small, 1)",
            *(f"op.where(infinite, small, 1)  ->  {part}" for part in ("small", "infinite")),
        )
    },
    ("angle_slope", "<lambda>", "exchange x1 and x2"): "the product of two shares is symmetric in them",
    ("share", "<lambda>", "exchange x1 and x2"): "the product of the two slopes is symmetric in them",
    ("share", "_turn", "_turn: op.isinf(length)  ->  length"): _HALVED,
    (
        "vector_norm",
        "in_range",
        "in_range: op.where(infinite, small, 1)  ->  small",
    ): "a norm of zeros has slopes, which are not taken",
    ("vector_norm", "_slope", "_slope: op.where(flat, 1, size)  ->  size"): _REPAIRED,
    ("*", "in_range", "in_range: op.where(infinite, total, 1)  ->  total"): _REPAIRED,
    ("elu", "_elu_slope", "op.where(positive, 0, x)  ->  x"): _REPAIRED,
    ("abs", "_abs_tangent", "op.real(slope)  ->  slope"): _CAST,
    ("astype", "<lambda>", "op.astype(t, dtype=dtype)  ->  t"): _CAST,
    ("order_statistics", "shared", "shared: op.astype(share, dtype=dtype)  ->  share"): _CAST,
    ("*", "real_part", "real_part: op.real(x)  ->  x"): _CAST,
    ("imag", "_imag_cotangent", "op.astype(g * -1j, dtype=x_dtype)  ->  g * -1j"): "it is complex already",
    ("*", "steadied", f"steadied: {_PIVOT}"): _REAL,
    ("*", "turned", f"turned: {_PIVOT}"): _REAL,
    ("complement", "_complement_vjp", f"op.real({_ZEROS})  ->  {_ZEROS}"): "zeros have no imaginary part",
    ("logaddexp", "_share", "_share: scale * difference  ->  scale"): _UNSCALED,
    ("logaddexp", "_share", "_share: scale * difference  ->  difference"): _UNSCALED,
    ("polygamma_difference", "_difference_by_b", "exchange a and b"): "a rule of their sum alone",
    ("kv", "_k_slope", "v - 1  ->  1 - v"): "it is even in the order",
    **{
        ("beta", "_beta_slope", f"{place}{fault}"): why
        for place in ("", "_beta_slope: ")
        for fault, why in _BETA
    },
    (
        "to_device",
        "<lambda>",
        "op.to_device(g, source=target, target=source)  ->  g",
    ): "the samples have one device",
}


@contextlib.contextmanager
def replaced(primitive: Primitive, mode: str, rules: Any) -> Iterator[None]:
    """Put other rules in the place of ``primitive.<mode>`` for the length of a block."""
    original = getattr(primitive, mode)
    setattr(primitive, mode, rules)
    primitive.plans.clear()
    try:
        yield
    finally:
        setattr(primitive, mode, original)
        primitive.plans.clear()


def planted(primitive: Primitive, fault: Fault) -> contextlib.AbstractContextManager[None]:
    """Put a fault in its place for the length of a block."""
    rules: Any = fault.rule
    if fault.slot is not None:
        original = getattr(primitive, fault.mode)
        rules = tuple(fault.rule if i == fault.slot else r for i, r in enumerate(original))
    return replaced(primitive, fault.mode, rules)


CHECKS = [("float64", 1), ("float64", 2), ("complex128", 2), ("float32", 1)]


def outcome(primitive: Primitive) -> str:
    """Return what the checks of a primitive say; they stop at the first failure."""
    said = []
    for dtype, orders in CHECKS:
        try:
            said.append(str(check_primitive(primitive, dtype=dtype, orders=orders)))
        except Exception as error:
            return f"{dtype}, order {orders}: {type(error).__name__}: {error}"
    return " ".join(said)


class Watch:
    """A plugin of pytest that notes which tests fail, and which tests call which primitive's rules."""

    def __init__(self) -> None:
        self.running = ""
        self.failed: list[str] = []
        self.callers: dict[tuple[str, str], set[str]] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note the test that begins."""
        self.running = nodeid

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note the test if it fails."""
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        """Note a file that cannot be read."""
        self.pytest_runtest_logreport(report)

    def watched(self, primitive: Primitive, mode: str) -> contextlib.AbstractContextManager[None]:
        """Note who calls the rules of a primitive for the length of a block."""
        callers = self.callers.setdefault((primitive.name, mode), set())

        def noting(rule: Any) -> Any:
            if not isinstance(rule, types.FunctionType):
                return rule

            @functools.wraps(rule)
            def noted(*arguments: Any) -> Any:
                callers.add(self.running)
                return rule(*arguments)

            return noted

        rules = getattr(primitive, mode)
        return replaced(primitive, mode, noting(rules) if callable(rules) else tuple(map(noting, rules)))


def run_hard_points(watch: Watch, places: Sequence[str], *options: str) -> None:
    """Run tests of the hard points."""
    import pytest

    silence = io.StringIO()
    plain = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(ROOT), *options]
    with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
        pytest.main([*plain, *(str(ROOT / place) for place in places)], plugins=[watch])


class Tally:
    """What became of the planted faults."""

    def __init__(self) -> None:
        self.killed = 0
        self.explained: list[str] = []
        self.reasons: set[tuple[str, str, str]] = set()
        self.survivors: list[tuple[Primitive, Fault]] = []
        self.broken: list[str] = []
        self.shared: list[str] = []

    @property
    def planted(self) -> int:
        """All of them."""
        return self.killed + len(self.explained) + len(self.survivors)


def explanation(primitive: Primitive, fault: Fault) -> tuple[str, str, str] | None:
    """Return the entry of `EXPLAINED` that says why no test can catch a fault."""
    keys = [(name, fault.function, fault.description) for name in (primitive.name, "*")]
    return next((key for key in keys if key in EXPLAINED), None)


def mutate(primitive: Primitive, tally: Tally) -> None:
    """Plant every fault of a primitive in turn."""
    if primitive.jvp is LINEAR or primitive.jvp is BILINEAR:
        tally.shared.append(primitive.name)
    wanted = outcome(primitive)
    if set(wanted.split()) - {"True", "False"}:
        tally.broken.append(f"{primitive.name}: {wanted}")
        return
    for fault in faults(primitive):
        with planted(primitive, fault):
            noticed = outcome(primitive) != wanted
        if noticed:
            tally.killed += 1
        elif key := explanation(primitive, fault):
            tally.reasons.add(key)
            tally.explained.append(f"{primitive.name}, {fault} [{EXPLAINED[key]}]")
        else:
            tally.survivors.append((primitive, fault))


def try_hard_points(tally: Tally) -> None:
    """Give what survived the samples to those of the hard points that call the rule."""
    if not tally.survivors:
        return
    watch = Watch()
    with contextlib.ExitStack() as stack:
        for primitive, mode in {(primitive, fault.mode) for primitive, fault in tally.survivors}:
            stack.enter_context(watch.watched(primitive, mode))
        run_hard_points(watch, [HARD_POINTS])
    tally.broken += [f"{place} fails" for place in watch.failed]
    remaining = []
    for primitive, fault in tally.survivors:
        places = sorted(watch.callers[primitive.name, fault.mode] - set(watch.failed))
        attempt = Watch()
        if places:
            with planted(primitive, fault):
                run_hard_points(attempt, places, "-x")
        if attempt.failed:
            tally.killed += 1
        else:
            remaining.append((primitive, fault))
    tally.survivors = remaining


def main(arguments: Sequence[str]) -> int:
    """Run the mutation of the primitives named, or of all; return the exit status."""
    parser = argparse.ArgumentParser(
        description="Plant a fault in each derivative rule; the checks must notice."
    )
    parser.add_argument("names", nargs="*", help="primitives; all by default")
    parser.add_argument("--quick", action="store_true", help="do not try survivors on the hard points")
    parser.add_argument("--list", action="store_true", help="show every fault and plant none")
    options = parser.parse_args(arguments)
    known = primitives()
    if unknown := sorted(set(options.names) - known.keys()):
        parser.error(f"no such primitive: {', '.join(unknown)}; --list shows all")
    chosen = [known[name] for name in options.names or sorted(known)]
    if options.list:
        for primitive in chosen:
            for fault in faults(primitive):
                print(f"{primitive.name}, {fault}")
        return 0
    tally, started = Tally(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for primitive in chosen:
            mutate(primitive, tally)
        if not options.quick:
            try_hard_points(tally)
    return report(tally, time.perf_counter() - started, complete=not options.names)


def report(tally: Tally, seconds: float, complete: bool = False) -> int:
    """Print what became of the faults; return the exit status."""
    if tally.shared:
        print(
            f"skipped: jvp of {len(tally.shared)} linear and bilinear primitives is the operation itself,\n"
            f"  in engine code that they share: {', '.join(tally.shared)}"
        )
    for text in tally.explained:
        print(f"explained: {text}")
    for key in EXPLAINED.keys() - tally.reasons if complete else ():
        print(f"no longer needed in EXPLAINED: {key}")
    for primitive, fault in tally.survivors:
        print(f"SURVIVED: {primitive.name}, {fault}\n  in {fault.function}")
    for text in tally.broken:
        print(f"BROKEN without any fault: {text}")
    countable = tally.planted - len(tally.explained)
    rate = 100 * tally.killed / countable if countable else 100.0
    print(
        f"{tally.planted} faults planted, {tally.killed} caught, {len(tally.explained)} explained, "
        f"{len(tally.survivors)} survived: kill rate {rate:.1f}% in {seconds:.0f} s"
    )
    return 1 if tally.survivors or tally.broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
