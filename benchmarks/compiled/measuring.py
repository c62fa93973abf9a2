"""What the rows of this suite share: lines for a value, its gradient, their ratio, compiling and memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from ..harness import Budget, Measurement, Settings
from ..memory import collect

ROUNDS, FIRST_CALLS, MEMORY_ROUNDS = 9, 3, 3
GRADIENT_LIMIT, MEMORY_LIMIT = 3.0, 1.2


def settings_of(settings: Settings) -> Settings:
    """Return settings with the rounds of this suite, whose programs are long."""
    return Settings(min(settings.rounds, ROUNDS), settings.batch_seconds, settings.threads, settings.quick)


def growth(title: str, gradient: Measurement, value: Measurement, limited: bool = True) -> Measurement:
    """Return the ratio of a derivative's time to its function's, by library; of a gradient it is limited."""
    samples = {
        name: [g / v for g, v in zip(gradient.samples[name], value.samples[name], strict=True)]
        for name in gradient.samples
        if name in value.samples
    }
    detail = "ratio of two lines above"
    return Measurement(title, "x", detail, samples, budgets=[Budget(GRADIENT_LIMIT)] if limited else [])


def first_calls(
    title: str,
    builders: Mapping[str, Callable[[], Callable[[], object]]],
    settings: Settings,
    rounds: int = FIRST_CALLS,
) -> Measurement:
    """Measure the first call of functions that are compiled anew each time.

    Parameters
    ----------
    title : str
        As in Measurement.
    builders : mapping of str to callable
        By library, a function that returns a call which compiles.
    settings : Settings
        How thoroughly to measure.
    rounds : int
        How often.
    """
    found = Measurement(
        title, "s", "tracing, compiling and running; nothing is cached", budgets=[Budget(1.0, "jax")]
    )
    for _ in range(1 if settings.quick else rounds):
        for name, build in builders.items():
            call = build()
            start = time.perf_counter()
            call()
            found.samples.setdefault(name, []).append(time.perf_counter() - start)
    return found


def peak_memory(
    title: str, names: Sequence[str], probe: Sequence[str], settings: Settings, rounds: int = MEMORY_ROUNDS
) -> Measurement:
    """Measure the peak of a call above its arguments, in a process for each library."""
    figures, failures = collect(
        names,
        lambda name: (*probe, name),
        1 if settings.quick else rounds,
        module="benchmarks.compiled.memory",
    )
    samples = {name: [record["peak"] for record in records] for name, records in figures.items()}
    budgets = [Budget(MEMORY_LIMIT, "jax")]
    detail = "the largest of two calls after one; results and buffers that are kept count"
    return Measurement(title, "B", detail, samples, budgets=budgets, failures=failures)
