"""Rows, measurements and the interleaved timing that all benchmarks share."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

SUBJECT = "everyo"
SEED = 20240229


@dataclass(frozen=True)
class Settings:
    """How thoroughly to measure.

    Attributes
    ----------
    rounds : int
        Times that each library's batch is run.
    batch_seconds : float
        Calls are repeated within a batch until it takes about this long.
    threads : int
        Threads that every library may use in this process.
    quick : bool
        A smoke run: rows use smaller sizes where the full ones take long.
    """

    rounds: int = 15
    batch_seconds: float = 0.05
    threads: int = 1
    quick: bool = False

    @property
    def thread_text(self) -> str:
        """The number of threads in words."""
        return "1 thread" if self.threads == 1 else f"{self.threads} threads"

    @classmethod
    def choose(cls, quick: bool, threads: int) -> Settings:
        """Return the settings of a smoke run or of a full one."""
        if quick:
            return cls(rounds=3, batch_seconds=0.01, threads=threads, quick=True)
        return cls(threads=threads)


@dataclass(frozen=True)
class Budget:
    """An upper limit for EveryO: a ratio to a peer, or an absolute value without one."""

    limit: float
    peer: str | None = None


@dataclass
class Measurement:
    """One line of the table: what every library took for the same work.

    Attributes
    ----------
    title : str
        What was measured.
    unit : {"s", "B", "x", "%"}
        Seconds, bytes, a factor or a percentage.
    detail : str
        Shapes, dtypes and whatever else is needed to repeat it.
    samples : dict of str to list of float
        By library, one value a round; the rounds of all libraries correspond.
    calls : dict of str to int
        By library, the calls in each timed batch; empty where each value is a process of its own.
    budgets : list of Budget
        What is promised; empty for a line that only reports.
    failures : dict of str to str
        By library, why it has no samples.
    disagreement : str
        Set, and nothing timed, if the libraries' results differ.
    """

    title: str
    unit: str
    detail: str = ""
    samples: dict[str, list[float]] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    budgets: list[Budget] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    disagreement: str = ""

    @classmethod
    def from_dict(cls, record: dict) -> Measurement:
        """Rebuild a measurement from ``dataclasses.asdict``."""
        budgets = [Budget(**budget) for budget in record["budgets"]]
        return cls(**{**record, "budgets": budgets})

    def value(self, library: str) -> float | None:
        """Return the median of a library, or None without samples."""
        values = self.samples.get(library)
        return statistics.median(values) if values else None

    def ratio(self, peer: str) -> float | None:
        """Return the ratio of EveryO's median to the peer's, or None if either is missing."""
        ours, theirs = self.value(SUBJECT), self.value(peer)
        return None if ours is None or not theirs else ours / theirs

    def ratio_quartiles(self, peer: str) -> tuple[float, float]:
        """Return the quartiles of the ratios within each round."""
        pairs = zip(self.samples[SUBJECT], self.samples[peer], strict=True)
        return quartiles([ours / theirs for ours, theirs in pairs if theirs])

    def verdicts(self) -> list[tuple[Budget, float | None]]:
        """Return each budget with the value it limits (None if not measured)."""
        return [
            (budget, self.ratio(budget.peer) if budget.peer else self.value(SUBJECT))
            for budget in self.budgets
        ]

    def missed(self) -> bool:
        """Say whether a budget was measured and exceeded."""
        return any(value is not None and value > budget.limit for budget, value in self.verdicts())


@dataclass(frozen=True)
class Row:
    """A named benchmark, run in a process of its own.

    Attributes
    ----------
    name : str
        What ``--only`` selects.
    section : str
        The heading of the table that it belongs to.
    run : callable
        Takes Settings, returns a list of Measurement.
    all_threads : bool
        Give every library all cores instead of one.
    """

    name: str
    section: str
    run: Callable[[Settings], list[Measurement]]
    all_threads: bool = False


@dataclass(frozen=True)
class Case:
    """One library's version of a piece of work.

    Attributes
    ----------
    run : callable
        The work, without arguments: what is timed.
    check : callable
        Does the work and returns its results as NumPy arrays, for comparison between libraries.
    """

    run: Callable[[], object]
    check: Callable[[], list[np.ndarray]]


class Disagreement(AssertionError):
    """The libraries do not compute the same thing, so timing them means nothing."""


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the first and third quartile."""
    if len(values) < 2:
        return (values[0], values[0]) if values else (float("nan"), float("nan"))
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def explain(error: BaseException) -> str:
    """Return an exception's type and first line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def check_agreement(results: Mapping[str, Sequence[np.ndarray]], tolerance: float) -> None:
    """Raise Disagreement unless all libraries returned the same arrays.

    Parameters
    ----------
    results : mapping of str to sequence of ndarray
        By library. The first one that is not EveryO is the reference.
    tolerance : float
        Largest difference allowed, relative to the largest entry of the reference array.
    """
    names = sorted(results, key=lambda name: name == SUBJECT)
    for name in names:
        for index, array in enumerate(results[name]):
            if not np.all(np.isfinite(array)):
                raise Disagreement(f"{name}: result {index} is not finite")
    for name in names[1:]:
        reference = names[0]
        if len(results[name]) != len(results[reference]):
            raise Disagreement(f"{name} and {reference} return different numbers of results")
        for index, (got, want) in enumerate(zip(results[name], results[reference], strict=True)):
            if np.shape(got) != np.shape(want):
                raise Disagreement(
                    f"result {index}: shape {np.shape(got)} in {name}, {np.shape(want)} in {reference}"
                )
            scale = float(np.max(np.abs(want), initial=0.0))
            error = float(np.max(np.abs(np.subtract(got, want, dtype=np.float64)), initial=0.0))
            if error > tolerance * scale:
                raise Disagreement(
                    f"result {index}: {name} differs from {reference} by {error:.2g} "
                    f"where the largest entry is {scale:.2g}"
                )


def calls_per_batch(run: Callable[[], object], seconds: float) -> int:
    """Return how many calls take about ``seconds``, and warm the callable up doing so."""
    run()  # what the first calls alone do, such as compiling, counts for nothing
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            run()
        elapsed = time.perf_counter() - start
        if elapsed >= seconds / 4:
            return max(1, round(calls * seconds / elapsed))
        calls *= 2


def interleave(
    runs: Mapping[str, Callable[[], object]], settings: Settings
) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Time several callables in alternating batches.

    Every round runs one batch of each callable, in an order shuffled with a fixed seed, so that a
    change of the machine's speed meets all of them alike. The garbage collector runs before each
    batch and stays enabled during it, because its cost belongs to a library that makes garbage. What
    the collector drove out of the caches comes back in a call that is not timed, where there are several.

    Parameters
    ----------
    runs : mapping of str to callable
        By library, the work to time.
    settings : Settings
        Rounds, length of a batch and threads.

    Returns
    -------
    samples : dict of str to list of float
        Seconds a call, one value for each round.
    calls : dict of str to int
        Calls in each batch.
    """
    order = list(runs)
    shuffle = random.Random(SEED).shuffle
    calls = {name: calls_per_batch(run, settings.batch_seconds) for name, run in runs.items()}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(settings.rounds):
        shuffle(order)
        for name in order:
            run, count = runs[name], calls[name]
            gc.collect()
            if settings.threads > 1:
                time.sleep(0.05)  # the previous library's worker threads spin for a while
            if count > 1:
                run()
            start = time.perf_counter()
            for _ in range(count):
                run()
            samples[name].append((time.perf_counter() - start) / count)
    return samples, calls


def compare(
    title: str,
    builders: Mapping[str, Callable[[], Case]],
    settings: Settings,
    *,
    per: int = 1,
    detail: str = "",
    budgets: Iterable[Budget] = (),
    failures: Mapping[str, str] | None = None,
    tolerance: float = 1e-4,
) -> Measurement:
    """Build the same work in every library, check that the results agree, and time it.

    Parameters
    ----------
    title, detail, budgets
        As in Measurement.
    builders : mapping of str to callable
        By library, a function that returns its Case. One that raises is reported, not fatal.
    settings : Settings
        How thoroughly to measure.
    per : int
        Operations in one call: the samples are divided by it.
    failures : mapping of str to str
        Libraries that could not even be loaded, and why.
    tolerance : float
        For `check_agreement`.

    Returns
    -------
    Measurement
    """
    found = Measurement(title, "s", detail, budgets=list(budgets), failures=dict(failures or {}))
    cases: dict[str, Case] = {}
    results: dict[str, list[np.ndarray]] = {}
    for name, build in builders.items():
        try:
            case = build()
            results[name] = case.check()
            cases[name] = case
        except Exception as error:  # whatever it is, the table reports it
            found.failures[name] = explain(error)
    try:
        check_agreement(results, tolerance)
    except Disagreement as error:
        found.disagreement = str(error)
        return found
    samples, found.calls = interleave({name: case.run for name, case in cases.items()}, settings)
    found.samples = {name: [value / per for value in values] for name, values in samples.items()}
    return found
