"""The pictures of a run: how it learned, and what it still reads wrongly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from everyo.io.atomic import replacing

_INK, _MUTED, _LINE = "#22272e", "#6b7280", "#e3e6ea"
_TRAIN, _HELD_OUT = "#a9bdd6", "#1f5fa8"
_WRONG, _RIGHT = "#b3261e", "#2e7d4f"
_FEWEST_COLUMNS, _COLUMNS, _MOST = 4, 6, 24


def plot_curves(epochs: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw loss and accuracy by epoch, in training and on the examples held out."""
    figure = _figure(10.0, 4.2)
    numbers = [e["epoch"] for e in epochs]
    for place, name in enumerate(("loss", "accuracy"), start=1):
        axes = figure.add_subplot(1, 2, place)
        train, held_out = [e[name] for e in epochs], [e[f"held_out_{name}"] for e in epochs]
        style = {"linewidth": 2.2, "marker": "o", "markersize": 3.5}
        axes.plot(numbers, train, color=_TRAIN, label="training, with shifts and dropout", **style)
        axes.plot(numbers, held_out, color=_HELD_OUT, label="held out", **style)
        _plain(axes, name.capitalize())
        if name == "loss":
            _logarithmic(axes, train + held_out)
        else:
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
            axes.set_ylim(max(0.0, min(train + held_out) - 0.03), 1.01)
        axes.set_xlim(numbers[0] - 0.5, numbers[-1] + 0.5)
        axes.legend(
            labelcolor=_INK,
            edgecolor="none",
            framealpha=1,
            loc="upper right" if name == "loss" else "lower right",
        )
        axes.annotate(
            f"{held_out[-1]:.3f}" if name == "loss" else f"{held_out[-1]:.1%}",
            (numbers[-1], held_out[-1]),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            color=_HELD_OUT,
            fontweight="bold",
            annotation_clip=False,
        )
    _save(figure, path)


def plot_misclassified(images: Any, labels: Any, probabilities: Any, path: Path) -> None:
    """Draw the digits that were read wrongly, with what they are and what they were taken for.

    Parameters
    ----------
    images : array, shape (n, 8, 8)
        Ink from 0 to 1.
    labels : array, shape (n,)
        What they show.
    probabilities : array, shape (n, 10)
        What the network makes of them.
    path : Path
        Where the picture goes.
    """
    read = probabilities.argmax(axis=1)
    wrong = np.flatnonzero(read != labels)
    wrong = wrong[np.argsort(-probabilities[wrong, read[wrong]], kind="stable")]
    shown = wrong[:_MOST]
    columns = min(max(len(shown), _FEWEST_COLUMNS), _COLUMNS)
    rows = -(-len(shown) // columns)
    figure = _figure(1.7 * columns, 2.1 * rows + 0.7)
    if not len(wrong):
        title = f"All {len(labels)} held-out digits are read correctly"
    elif len(wrong) == 1:
        title = f"1 of {len(labels)} held-out digits is read wrongly"
    else:
        title = f"{len(wrong)} of {len(labels)} held-out digits are read wrongly"
    if len(wrong) > len(shown):
        title += f"; the {len(shown)} most confident mistakes"
    figure.suptitle(title, x=0.013, ha="left", fontsize=13, color=_INK, fontweight="bold")
    for place in range(rows * columns):
        axes = figure.add_subplot(rows, columns, place + 1)
        if place < len(shown):
            i = shown[place]
            _digit(axes, images[i], labels[i], read[i], probabilities[i])
        else:
            axes.set_axis_off()  # an empty place keeps the others at their size
    _save(figure, path)


def _digit(axes: Any, image: Any, label: int, read: int, probabilities: Any) -> None:
    """Draw one digit; above it what it is and what it was read as, below how likely each seemed."""
    axes.imshow(image, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(_LINE)
    for side, color, text, digit in (("left", _RIGHT, "is", label), ("right", _WRONG, "read as", read)):
        axes.set_title(f"{text} {digit}", loc=side, color=color, fontsize=10.5, fontweight="bold", pad=5)
        axes.annotate(
            f"{probabilities[digit]:.0%}",
            (0 if side == "left" else 1, 0),
            xytext=(0, -5),
            xycoords="axes fraction",
            textcoords="offset points",
            ha=side,
            va="top",
            color=color,
            fontsize=9.5,
        )


def _figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.14, h_pad=0.1)
    figure = Figure(figsize=(width, height), layout=layout, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _plain(axes: Any, title: str) -> None:
    """Name the axes, and take away what draws the eye from the lines."""
    axes.set_title(title, loc="left", fontsize=13, color=_INK, fontweight="bold", pad=12)
    axes.set_xlabel("epoch", color=_MUTED)
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_LINE)
    axes.tick_params(which="both", colors=_MUTED, length=0)
    axes.grid(axis="y", color=_LINE, linewidth=0.8)
    axes.set_axisbelow(True)


def _logarithmic(axes: Any, values: Sequence[float]) -> None:
    """Give the y axis a logarithmic scale, with plain numbers where the values are."""
    from matplotlib.ticker import FixedLocator, NullLocator

    low, high = max(min(values), 1e-6) * 0.8, max(values) * 1.2
    steps = [digit * 10.0**power for power in range(-6, 3) for digit in (1, 2, 5)]
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(FixedLocator([step for step in steps if low <= step <= high]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _save(figure: Any, path: Path) -> None:
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=150, metadata={"Software": "EveryO"})
