"""One run of the demo: check, train, measure, and write everything down."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import everyo as eo
from everyo import optim
from everyo.demo import plots
from everyo.demo.data import load
from everyo.demo.model import DigitReader
from everyo.demo.screen import Screen
from everyo.demo.train import Config, check_gradients, cosine, measure, train_epoch
from everyo.errors import ArgumentError, UnsupportedOperationError, install
from everyo.io.atomic import replacing
from everyo.io.safetensors import save_safetensors

TARGET = 0.98  # the accuracy on held-out digits that a full run reaches
INTERRUPTED = 130  # the exit code by which a shell knows Ctrl-C
_CHECKED = 4  # examples that the gradients are checked on
_PACKAGES = {
    "matplotlib": "matplotlib",
    "rich": "rich",
    "safetensors": "safetensors",
    "sklearn": "scikit-learn",
    "threadpoolctl": "threadpoolctl",
}


def run(
    config: Config | None = None, out: str | os.PathLike[str] = "everyo-demo", quiet: bool = False
) -> int:
    """Train the digit reader and write its files; return the exit code.

    Parameters
    ----------
    config : Config, optional
        Epochs, seed and the rest of what determines the numbers: the same config, the same numbers.
    out : path-like
        The directory for ``weights.safetensors``, ``metrics.json``, ``curves.png`` and
        ``misclassified.png``; made if it is missing.
    quiet : bool, default False
        Print nothing.

    Returns
    -------
    int
        0, or 130 after Ctrl-C, which leaves weights, metrics and pictures of the training so far
        (before the first step nothing is written, so that an earlier run's files stay).

    Raises
    ------
    ArgumentError
        If the config asks for less than one epoch.
    UnsupportedOperationError
        If a package that the demo needs is not installed.
    """
    config = config or Config()
    if config.epochs < 1:
        raise ArgumentError(
            "there is nothing to train", operation="demo", expected="epochs >= 1", found=str(config.epochs)
        )
    _require_packages()
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # Matrices this small are multiplied faster, and on a busy machine far faster, by one thread.
    with threadpool_limits(limits=1, user_api="blas"):
        return _Run(config, Path(out), Screen(quiet)).complete()


def _require_packages() -> None:
    missing = [name for module, name in _PACKAGES.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise UnsupportedOperationError(
            f"packages are missing: {', '.join(missing)}",
            operation="everyo demo",
            expected="what the extra `train` brings",
            found="not installed",
            remedy=install("train"),
            line="",
        )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(
            f"no folder can be made: {error.strerror}",
            operation="everyo demo",
            expected="a folder, or a path where one can be made",
            found=repr(str(folder)),
            remedy="choose another place with --out",
            line="",
        ) from None


class _Run:
    """What the steps of a run share."""

    def __init__(self, config: Config, folder: Path, screen: Screen) -> None:
        self.started = time.perf_counter()
        self.config, self.folder, self.screen = config, folder, screen
        _make(folder)
        with screen.busy("Loading the digits"):
            self.examples, self.held_out = load()
        self.generator = eo.random.Generator(config.seed)
        self.model = DigitReader(config.channels, config.hidden, config.dropout, self.generator)
        self.parameters = sum(p.size for p in self.model.parameters())
        self.checked = self.steps = 0
        self.epochs: list[dict[str, Any]] = []

    def complete(self) -> int:
        """Check, train, save and draw; return the exit code."""
        finished = False
        try:
            self.check()
            self.train()
            finished = True
        except KeyboardInterrupt:
            if not self.steps:
                self.screen.stopped()
                return INTERRUPTED
        accuracy = self.save(finished)
        self.draw()
        self.screen.outro(accuracy, TARGET, finished, time.perf_counter() - self.started, self.folder)
        return 0 if finished else INTERRUPTED

    def check(self) -> None:
        """Check the gradients, and say what is going to be trained."""
        with self.screen.busy("Checking the gradients"):
            self.checked = check_gradients(self.examples.take(slice(_CHECKED)))
        self.screen.intro(len(self.examples.labels), len(self.held_out.labels), self.parameters, self.checked)

    def train(self) -> None:
        """Train for all epochs; after each the weights and the metrics so far are saved."""
        config, count = self.config, len(self.examples.labels)
        steps = config.epochs * -(-count // config.batch_size)
        optimizer = optim.Adam(self.model.parameters(), lr=config.learning_rate)
        with self.screen.progress(steps) as show:

            def after_batch(loss: float, accuracy: float) -> None:
                self.steps += 1
                optimizer.param_groups[0]["lr"] = cosine(config.learning_rate, self.steps / steps)
                show(1, epoch=epoch, loss=loss, accuracy=accuracy)

            for epoch in range(1, config.epochs + 1):
                began = time.perf_counter()
                loss, accuracy = train_epoch(
                    self.model, optimizer, self.examples, config.batch_size, self.generator, after_batch
                )
                self.epochs.append({"epoch": epoch, "loss": loss, "accuracy": accuracy})
                held_out = self.save(False)
                self.epochs[-1]["seconds"] = round(time.perf_counter() - began, 3)
                show(held_out=held_out)

    def save(self, finished: bool) -> float:
        """Measure the network, write weights and metrics, and return the accuracy."""
        result = measure(self.model, self.held_out)
        measured = {"held_out_loss": result.loss, "held_out_accuracy": result.accuracy}
        if self.epochs and "held_out_loss" not in self.epochs[-1]:
            self.epochs[-1].update(measured)
        save_safetensors(self.model.state_dict(), self.folder / "weights.safetensors")
        content = {
            "config": self.config._asdict(),
            "seed": self.config.seed,
            "versions": _versions(),
            "training_examples": len(self.examples.labels),
            "held_out_examples": len(self.held_out.labels),
            "parameters": self.parameters,
            "gradients_checked": self.checked,
            "epochs": self.epochs,
            **measured,
            "finished": finished,
            "seconds": round(time.perf_counter() - self.started, 3),
        }
        with replacing(self.folder / "metrics.json") as temporary:
            temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        return result.accuracy

    def draw(self) -> None:
        """Write the pictures."""
        curves = self.folder / "curves.png"
        if self.epochs:
            plots.plot_curves(self.epochs, curves)
        else:
            curves.unlink(missing_ok=True)  # of an earlier run
        images, labels = self.held_out.images[:, 0].numpy(), self.held_out.labels.numpy()
        probabilities = measure(self.model, self.held_out).probabilities.numpy()
        plots.plot_misclassified(images, labels, probabilities, self.folder / "misclassified.png")


def _versions() -> dict[str, str]:
    import numpy
    import sklearn

    return {
        "everyo": eo.__version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scikit-learn": sklearn.__version__,
        "platform": platform.platform(),
    }
