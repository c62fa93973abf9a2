"""Measurements as Markdown: the table and the page around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .harness import SUBJECT, Budget, Measurement, quartiles
from .libraries import TITLES

METHOD = """\
Each row runs in a process of its own. Before anything is timed, the row checks that all libraries
return the same results: gradients, outputs where nothing is differentiated, and for a training step also
the weights after two updates. If they differ, it is not timed. Then every round runs one batch of
calls of each library, in an order shuffled with a fixed seed, so that a change of the machine's speed
meets all of them alike. A batch repeats the call until it takes about {batch:.0f} ms; the garbage
collector runs before a batch and stays enabled during it.

A time is the median over the rounds; a ratio is EveryO's median divided by the peer's, so below 1
EveryO is ahead. The range in brackets is from the first to the third quartile (of a ratio: of the ratios
within each round). A chain's time is divided by its number of operations, forward and backward
together unless the row says otherwise.

One thread means `OMP_NUM_THREADS`, `OPENBLAS_NUM_THREADS` and `MKL_NUM_THREADS` set to 1 before any
import, and `torch.set_num_threads(1)`; with more threads, all of these carry the same number. Rows with
more threads need an otherwise idle machine: threads that wait for each other by spinning lose
much more than their share to any other process. Variables that give a BLAS the kernels of another
processor (`OPENBLAS_CORETYPE` and the like) are taken out: each library chooses for this one.

Memory is the resident set that the kernel reports, in a fresh process for each library and value. Its
peak (`VmHWM`) is reset through `/proc/self/clear_refs` after a warm-up, and the C allocator is told to give
freed blocks back at once. An import time is that of the statement alone, in fresh processes, in turns."""

_SCALES = {
    "s": [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")],
    "B": [(2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")],
}


@dataclass(frozen=True)
class Outcome:
    """A row's name, its heading, the threads it ran with, and what it measured."""

    row: str
    section: str
    threads: int
    measurements: list[Measurement]
    error: str = ""

    def faulty(self) -> bool:
        """Say whether something is wrong other than a library that is not installed."""
        return bool(self.error) or any(
            found.disagreement or any(why != "absent" for why in found.failures.values())
            for found in self.measurements
        )


def quantity(value: float, unit: str) -> str:
    """Return a value with three significant digits and a fitting unit."""
    if unit == "x":
        return f"{value:.2f}"
    if unit == "%":
        return f"{value:.1f}%"
    for scale, name in _SCALES[unit]:
        if abs(value) >= scale:
            return f"{value / scale:.{max(0, 2 - _magnitude(value / scale))}f} {name}"
    return f"{value:.3g} {unit}"


def _magnitude(value: float) -> int:
    return len(f"{abs(value):.0f}") - 1


def _ours(found: Measurement) -> str:
    value = found.value(SUBJECT)
    if value is None:
        return _reason(found, SUBJECT)
    low, high = quartiles(found.samples[SUBJECT])
    return f"{quantity(value, found.unit)} ({quantity(low, found.unit)}–{quantity(high, found.unit)})"


def _reason(found: Measurement, library: str) -> str:
    """Say why a library has no value; "–" if the row does not concern it."""
    why = found.failures.get(library)
    if why is None:
        return "–"
    return why if why == "absent" else f"**failed**: {_cell(why)}"


def _theirs(found: Measurement, peer: str) -> str:
    value = found.value(peer)
    if value is None:
        return _reason(found, peer)
    shown = quantity(value, found.unit)
    ratio = found.ratio(peer)
    if ratio is None or found.unit in ("x", "%"):
        return shown
    low, high = found.ratio_quartiles(peer)
    return f"**{ratio:.2f}** ({low:.2f}–{high:.2f}) of {shown}"


def _budget(found: Measurement, budget: Budget) -> str:
    if budget.peer:
        return f"≤ {budget.limit:g} of {TITLES[budget.peer]}"
    return f"≤ {quantity(budget.limit, found.unit)}"


def verdict(found: Measurement) -> str:
    """Say of each budget whether it held."""
    if found.disagreement:
        return "**WRONG**"
    words = []
    for budget, value in found.verdicts():
        if value is None:
            words.append("not measured")
        elif value <= budget.limit:
            words.append("held")
        else:
            unit = "x" if budget.peer else found.unit
            words.append(f"**MISSED** ({quantity(value, unit)})")
    return ", ".join(words) or "–"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _table(outcomes: Sequence[Outcome]) -> list[str]:
    lines = [found for outcome in outcomes for found in outcome.measurements]
    concerned = {name for found in lines for name in (*found.samples, *found.failures)}
    peers = [name for name in TITLES if name != SUBJECT and name in concerned]
    header = ["What", "EveryO", *(TITLES[peer] for peer in peers), "Budget", "Verdict"]
    rows = [_row(header), _row(["---"] * len(header))]
    for outcome in outcomes:
        if outcome.error:
            cells = [outcome.row, f"**failed**: {_cell(outcome.error)}"]
            rows.append(_row(cells + ["–"] * (len(header) - len(cells))))
        for found in outcome.measurements:
            if found.disagreement:
                cells = [f"**results differ**: {_cell(found.disagreement)}"] + ["–"] * len(peers)
            else:
                cells = [_ours(found), *(_theirs(found, peer) for peer in peers)]
            limits = ", ".join(_budget(found, budget) for budget in found.budgets) or "none"
            rows.append(_row([found.title, *cells, limits, verdict(found)]))
    return rows


def _sections(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    sections: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        sections.setdefault(outcome.section, []).append(outcome)
    return sections


def tables(outcomes: Sequence[Outcome], level: int = 2) -> str:
    """Return one table for each section, and the count of budgets held and missed."""
    parts = []
    for section, members in _sections(outcomes).items():
        parts += [f"{'#' * level} {section}", "", *_table(members), ""]
    return "\n".join([*parts, summary(outcomes), ""])


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return a sentence that counts the budgets."""
    found = [found for outcome in outcomes for found in outcome.measurements]
    judged = [(budget, value) for measurement in found for budget, value in measurement.verdicts()]
    missed = sum(value is not None and value > budget.limit for budget, value in judged)
    open_ = sum(value is None for _, value in judged)
    text = f"Budgets: {len(judged) - missed - open_} held, {missed} missed, {open_} not measured."
    if any(outcome.faulty() for outcome in outcomes):
        text += " Some rows failed."
    return text


def _details(outcomes: Sequence[Outcome]) -> list[str]:
    rows = [
        _row(["`--only`", "What", "Work", "Threads", "Rounds", "Calls in a batch"]),
        _row(["---"] * 6),
    ]
    for outcome in outcomes:
        for found in outcome.measurements:
            rounds = max((len(values) for values in found.samples.values()), default=0)
            calls = ", ".join(f"{TITLES[name]} {count}" for name, count in found.calls.items())
            rows.append(
                _row(
                    [
                        outcome.row,
                        found.title,
                        found.detail,
                        str(outcome.threads),
                        str(rounds),
                        calls or "–",
                    ]
                )
            )
    return rows


def page(
    title: str,
    command: str,
    facts: Mapping[str, str],
    outcomes: Sequence[Outcome],
    batch_seconds: float,
    quick: bool,
    plots: str = "",
    notes: str = "",
) -> str:
    """Return a suite's part of the page: results, machine, method and the details of each row."""
    parts = [
        f"## {title}",
        "",
        f"Written by `{command}`; do not edit.",
        "",
        *(["**A quick run, for smoke tests only: its figures mean nothing.**", ""] if quick else []),
        *([plots, ""] if plots else []),
        tables(outcomes, level=3),
        f"### Machine and software: {title.lower()}",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        f"### Method: {title.lower()}",
        "",
        METHOD.format(batch=batch_seconds * 1000),
        "",
        *([notes, ""] if notes else []),
        f"### Details: {title.lower()}",
        "",
        *_details(outcomes),
        "",
    ]
    return "\n".join(parts)


def write_part(path: Path, suite: str, text: str) -> None:
    """Write a suite's part of a page, in place of the one that is there, or behind the others."""
    begin, end = f"<!-- {suite} -->", f"<!-- end of {suite} -->"
    part = f"{begin}\n\n{text.strip()}\n\n{end}"
    old = path.read_text() if path.exists() else "# Benchmarks\n"
    before, found, rest = old.partition(begin)
    after = rest.partition(end)[2].strip() if found else ""
    path.write_text(f"{before.rstrip()}\n\n{part}\n" + (f"\n{after}\n" if after else ""))
