"""``python -m benchmarks.gradbench.measure``: EveryO against JAX and hand-written C++, on one thread.

The times of C++ are those in `cases`, of another machine; ``--manual`` takes a file of JSON with those
of this one, in seconds by problem, size and function, such as ``{"lse": {"n=2500": {"primal": 2e-5}}}``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .threads import use_one_thread

if TYPE_CHECKING:
    from .cases import Case

HEADINGS = (
    "problem", "size", "function", "compiled", "first call", "eager", "JAX", "first call", "C++",
    "compiled / JAX", "compiled / C++", "eager / JAX", "eager / C++",
)  # fmt: skip
TOLERANCE = 1e-8
ROUNDS = 7
SLOW = 5.0  # seconds: what takes longer is timed in fewer rounds

Calls = dict[str, Callable[[], Any]]
Seconds = dict[str, float]


def main() -> int:
    """Measure what the command line asks for and print a table in Markdown; return 1 if anything failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gradbench.measure", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--only", nargs="+", metavar="PROBLEM", help="problems to measure")
    parser.add_argument("--smallest", action="store_true", help="only the smallest size of each problem")
    parser.add_argument("--skip", nargs="+", default=(), choices=("compiled", "eager", "jax"))
    parser.add_argument("--data", type=Path, help="the folder evals of a copy of GradBench's repository")
    parser.add_argument(
        "--manual", type=Path, help="times of C++ on this machine instead of the recorded ones"
    )
    options = parser.parse_args()
    use_one_thread()
    os.environ["EVERYO_CACHE"] = "0"  # a first call compiles
    from .cases import cases  # imports NumPy, whose number of threads is fixed by then

    here = json.loads(options.manual.read_text()) if options.manual else {}
    print("| " + " | ".join(HEADINGS) + " |")
    print("|" + " --- |" * len(HEADINGS), flush=True)
    seen: set[str] = set()
    failed = False
    for case in cases(options.data):
        wanted = not options.only or case.module in options.only
        if not wanted or (options.smallest and case.module in seen):
            continue
        seen.add(case.module)
        for line, failures in rows(case, options.skip, here.get(case.module, {}).get(case.size, {})):
            print(line, flush=True)
            for failure in failures:
                print(failure, file=sys.stderr, flush=True)
            failed = failed or bool(failures)
    return int(failed)


def rows(case: Case, skip: Sequence[str], manual: Seconds) -> Iterator[tuple[str, list[str]]]:
    """Measure the function and the derivative of a case; yield a row of the table, and failures, for each."""
    given = case.make()
    for name, recorded in zip(case.names, case.manual, strict=True):
        times = {"manual": manual.get(name, recorded)}
        calls, first, failures = started(libraries(case.module, name, given, skip))
        if calls:
            times |= measured(calls, max(first.values()))
        cells = [
            case.module, case.size, name, _time(times, "compiled"), _time(first, "compiled"),
            _time(times, "eager"), _time(times, "jax"), _time(first, "jax"), _time(times, "manual"),
            _ratio(times, "compiled", "jax"), _ratio(times, "compiled", "manual"),
            _ratio(times, "eager", "jax"), _ratio(times, "eager", "manual"),
        ]  # fmt: skip
        yield (
            "| " + " | ".join(cells) + " |",
            [f"{case.module} {name}, {case.size}: {failure}" for failure in failures],
        )


def libraries(module: str, name: str, given: Any, skip: Sequence[str]) -> Calls:
    """Return each library's call of a function on an input."""
    from .tool import functions

    function = functions(module)[name]
    arguments = function.arguments(given)
    calls: Calls = {}
    compiled = function.run if "compiled" in skip else function.compiled()
    if compiled is not function.run:
        calls["compiled"] = lambda: compiled(*arguments)
    if "eager" not in skip:
        calls["eager"] = lambda: function.run(*arguments)
    if "jax" not in skip and importlib.util.find_spec("jax"):
        from .peers import compiled as in_jax

        calls["jax"] = in_jax(module, name, function.read(given), function.static)
    return calls


def started(calls: Calls) -> tuple[Calls, Seconds, list[str]]:
    """Call each library once.

    Returns
    -------
    calls : dict of str to callable
        Those that work; none if results differ.
    first : dict of str to float
        The seconds of their first call, which compiles.
    failures : list of str
        Why the others do not, and which results differ.
    """
    import numpy as np

    from ..harness import Disagreement, check_agreement, explain

    first: Seconds = {}
    results: dict[str, list[Any]] = {}
    failures = []
    for library, call in calls.items():
        start = time.perf_counter()
        try:
            result = call()
        except Exception as error:  # whatever it is, the others are measured
            failures.append(f"{library}: {explain(error)}")
            continue
        first[library] = time.perf_counter() - start
        results[library] = [np.asarray(x) for x in leaves(result)]
    try:
        check_agreement(results, TOLERANCE)
    except Disagreement as error:
        return {}, {}, [*failures, str(error)]
    return {library: calls[library] for library in first}, first, failures


def leaves(tree: Any) -> list[Any]:
    """Return the arrays of a result, in one order for all libraries."""
    if isinstance(tree, dict):
        return [leaf for name in sorted(tree) for leaf in leaves(tree[name])]
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in leaves(part)]
    return [tree]


def measured(calls: Calls, slowest: float) -> Seconds:
    """Return the median seconds of a call of each library, timed in turns."""
    from ..harness import Settings, interleave

    settings = Settings(rounds=3 if slowest > SLOW else ROUNDS, batch_seconds=0.1)
    return {library: statistics.median(times) for library, times in interleave(calls, settings)[0].items()}


def _time(times: Seconds, library: str) -> str:
    seconds = times.get(library, math.nan)
    return "–" if math.isnan(seconds) else f"{seconds:.3g}"


def _ratio(times: Seconds, ours: str, theirs: str) -> str:
    ratio = times.get(ours, math.nan) / times.get(theirs, math.nan)
    return "–" if math.isnan(ratio) else f"{ratio:.2f}"


if __name__ == "__main__":
    sys.exit(main())
