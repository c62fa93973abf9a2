"""Plots of the ratios, as PNG beside the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..harness import Measurement
from ..libraries import TITLES
from ..report import Outcome
from .cells import SECTION as CELLS
from .rows import SCIENCE, TRAINING

SHOWN = {"gradbench": (CELLS,), "programs": (SCIENCE, TRAINING)}
COLORS = {"jax": "#c8553d", "torch": "#3d6bc8", "cpp": "#5a5a5a"}


def draw(outcomes: Sequence[Outcome], folder: Path) -> str:
    """Draw what was measured; return Markdown that shows it, or nothing without matplotlib."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return ""
    matplotlib.use("Agg")
    shown = []
    for name, sections in SHOWN.items():
        lines = [
            outcome.measurements[0]  # the gradient or the step
            for outcome in outcomes
            if outcome.section in sections and outcome.measurements and outcome.measurements[0].samples
        ]
        if lines:
            path = folder / f"benchmarks-{name}.png"
            _plot(lines, path)
            shown.append(f"![Times of EveryO relative to its peers: {name}]({path.name})")
    return "\n\n".join(shown)


def _plot(lines: Sequence[Measurement], path: Path) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 0.32 * len(lines) + 1.2), layout="constrained")
    for peer, color in COLORS.items():
        points = [(line.ratio(peer), i) for i, line in enumerate(lines) if line.ratio(peer)]
        if points:
            axes.plot(*zip(*points), "o", color=color, label=f"EveryO / {TITLES[peer]}", markersize=5)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(lines)), [line.title for line in lines], fontsize=7)
    axes.invert_yaxis()
    axes.grid(axis="x", which="both", linewidth=0.3)
    axes.set_xlabel("time relative to the peer's (left of 1: EveryO is faster)")
    axes.legend(fontsize=7)
    figure.savefig(path, dpi=110)
    plt.close(figure)
