"""A Python loop that indexes a tensor: its gradient must cost O(n), not O(n²)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from .harness import Budget, Measurement, Row, Settings, compare
from .libraries import load

SECTION = "Python loops over elements"
SIZES = (2000, 8000)
GROWTH_LIMIT = 5.0


def squares(n: int, fn, x):
    """Return the sum of ``x[i] ** 2``."""
    total = 0.0
    for i in range(n):
        total = total + x[i] ** 2
    return total


def index_loop(settings: Settings) -> list[Measurement]:
    """Measure the loop at both sizes and the growth from one to the other."""
    settings = replace(settings, rounds=min(settings.rounds, 7))
    sizes = tuple(size // 10 for size in SIZES) if settings.quick else SIZES
    adapters, failures = load(("everyo", "torch", "autograd"), settings.threads)
    found = []
    for n in sizes:
        x = np.linspace(0.1, 1.0, n, dtype=np.float32)
        builders = {
            name: partial(library.gradient, partial(squares, n), [x], (0,))
            for name, library in adapters.items()
        }
        title = f"sum of x[i]**2 in a loop, n = {n:,}"
        detail = f"x ({n},), float32; forward and backward"
        found.append(compare(title, builders, settings, detail=detail, failures=failures))
    return [*found, _growth(*found, sizes)]


def _growth(low: Measurement, high: Measurement, sizes: tuple[int, int]) -> Measurement:
    linear = sizes[1] // sizes[0]
    samples = {
        name: [b / a for a, b in zip(low.samples[name], high.samples[name], strict=True)]
        for name in low.samples
        if name in high.samples
    }
    return Measurement(
        f"growth of the time from n = {sizes[0]:,} to {sizes[1]:,} (linear is {linear})",
        "x",
        "ratio of the two lines above",
        samples,
        budgets=[Budget(GROWTH_LIMIT)],
        failures={**low.failures, **high.failures},
    )


ROWS = [Row("index-loop", SECTION, index_loop)]
