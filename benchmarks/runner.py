"""The command line of a benchmark suite, and the fresh process in which each row runs."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path

from .environment import PACKAGES, cores, facts, load_average
from .harness import Measurement, Row, Settings
from .report import Outcome, page, summary, tables, write_part

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "EVERYO_NUM_THREADS",
)
# With these somebody has chosen kernels of another processor for a BLAS; each is to choose its own.
_KERNEL_VARIABLES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "MKL_DEBUG_CPU_TYPE", "BLIS_ARCH_TYPE")
_MARK = "measurements: "
BUSY = 0.5


def main(
    suite: str,
    title: str,
    rows: Sequence[Row],
    arguments: Sequence[str] | None = None,
    *,
    packages: Sequence[str] = PACKAGES,
    notes: str = "",
    draw: Callable[[Sequence[Outcome], Path], str] | None = None,
) -> int:
    """Run a suite from the command line.

    Parameters
    ----------
    suite : str
        The module that calls this, as in ``python -m <suite>``.
    title : str
        Heading of the page.
    rows : sequence of Row
        The suite.
    arguments : sequence of str, optional
        Instead of ``sys.argv[1:]``.
    packages : sequence of str
        The packages whose versions the page names.
    notes : str
        What the page says of the method besides what holds for all suites.
    draw : callable, optional
        ``draw(outcomes, folder)`` writes plots into the folder of the page; returns Markdown that shows them.

    Returns
    -------
    int
        Exit status: 1 if a row failed or results differed, or with ``--strict`` a budget was missed.
    """
    parser = _parser(suite, title)
    options = parser.parse_args(arguments)
    if options.row:
        return _work(rows, options)
    if options.list:
        print("\n".join(row.name for row in rows))
        return 0
    chosen = [row for row in rows if _selected(row.name, options.only)]
    if not chosen:
        parser.error(f"no row matches {', '.join(options.only)}; --list shows them")
    known = facts(options.write, packages)
    if load_average() > BUSY and not options.quick:
        print("The machine is busy: expect wide spreads, above all with several threads.", file=sys.stderr)
    outcomes = []
    for number, row in enumerate(chosen, 1):
        print(f"[{number}/{len(chosen)}] {row.name}", file=sys.stderr, flush=True)
        outcomes.append(_spawn(suite, row, options.quick))
    print(tables(outcomes))
    if options.write:
        command = " ".join(["python", "-m", suite, *(sys.argv[1:] if arguments is None else arguments)])
        settings = Settings.choose(options.quick, 1)
        path = Path(options.write)
        path.parent.mkdir(parents=True, exist_ok=True)
        plots = draw(outcomes, path.parent) if draw else ""
        text = page(title, command, known, outcomes, settings.batch_seconds, options.quick, plots, notes)
        write_part(path, suite, text)
    print(summary(outcomes), file=sys.stderr)
    missed = any(found.missed() for outcome in outcomes for found in outcome.measurements)
    return int(any(outcome.faulty() for outcome in outcomes) or (options.strict and missed))


def _parser(suite: str, title: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {suite}", description=title)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="rows to run: names, beginnings or patterns"
    )
    parser.add_argument("--list", action="store_true", help="list the rows")
    parser.add_argument("--quick", action="store_true", help="a smoke run; its figures mean nothing")
    parser.add_argument("--write", metavar="FILE", help="write the suite's part of this page as well")
    parser.add_argument("--strict", action="store_true", help="fail if a budget is missed")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    return parser


def _selected(name: str, patterns: Sequence[str] | None) -> bool:
    return patterns is None or any(name.startswith(pattern) or fnmatch(name, pattern) for pattern in patterns)


def _work(rows: Sequence[Row], options: argparse.Namespace) -> int:
    """Run one row in this process and print what it measured."""
    row = next(row for row in rows if row.name == options.row)
    found = row.run(Settings.choose(options.quick, options.threads))
    print(_MARK + json.dumps([dataclasses.asdict(measurement) for measurement in found]))
    return 0


def _spawn(suite: str, row: Row, quick: bool) -> Outcome:
    """Run one row in a new process, with the number of threads set before anything is imported."""
    threads = cores() if row.all_threads else 1
    command = [sys.executable, "-m", suite, "--row", row.name, "--threads", str(threads)]
    if quick:
        command.append("--quick")
    environment = {k: v for k, v in os.environ.items() if k not in _KERNEL_VARIABLES}
    environment.update(dict.fromkeys(_THREAD_VARIABLES, str(threads)))
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    lines = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if done.returncode or not lines:
        trace = done.stderr.strip().splitlines()
        error = trace[-1] if trace else f"exit status {done.returncode}"
        return Outcome(row.name, row.section, threads, [], error)
    records = json.loads(lines[-1].removeprefix(_MARK))
    measurements = [Measurement.from_dict(record) for record in records]
    return Outcome(row.name, row.section, threads, measurements)
