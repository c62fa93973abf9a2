"""The rows: scientific programs, training steps and the overhead of a call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import optree

from ..harness import Budget, Case, Measurement, Row, Settings, compare
from .libraries import Library, load
from .measuring import first_calls, growth, peak_memory, settings_of
from .networks import NETWORKS, Network
from .science import PROGRAMS, Program
from .training import Trainer, results, trainer

SCIENCE, TRAINING, OVERHEAD = "Scientific programs", "Training steps", "Overhead of a call"
SCIENCE_BUDGETS = (Budget(0.8, "jax"), Budget(0.5, "torch"))
TRAINING_LIMITS = {"mlp": 0.9}  # of the better of the peers; 1.1 for the others
MICROSECOND = 1e-6


# ---- scientific programs


def call(library: Library, program: Program, gradient: bool, quick: bool) -> Callable[[], Any]:
    """Return a program's call in a library, which compiles when it is called first."""
    arguments = optree.tree_map(library.array, program.arguments(quick))
    if gradient:
        function = library.gradient(program.f, program.wrt, program.has_aux)
    else:
        function = library.primal(program.f)
    return lambda: library.wait(function(*arguments))


def case(library: Library, program: Program, gradient: bool, quick: bool) -> Case:
    """Return a program's case in a library."""
    run = call(library, program, gradient, quick)
    return Case(run, lambda: [library.numpy(x) for x in optree.tree_leaves(run())])


def science(program: Program, settings: Settings) -> list[Measurement]:
    """Measure a program and its gradient."""
    settings = settings_of(settings)
    libraries, failures = load(settings.threads)
    title = program.title

    def timed(what: str, gradient: bool, *budgets: Budget) -> Measurement:
        builders = {
            name: partial(case, library, program, gradient, settings.quick)
            for name, library in libraries.items()
        }
        return compare(
            f"{title}: {what}", builders, settings,
            detail=f"{program.detail}, float64", budgets=budgets, failures=failures,
            tolerance=program.tolerance,
        )  # fmt: skip

    value = timed("value", False)
    gradient = timed("value and gradient", True, *SCIENCE_BUDGETS)
    builders = {
        name: partial(call, libraries[name], program, True, settings.quick)
        for name in ("everyo", "jax")
        if name in gradient.samples
    }
    size = ["--quick"] if settings.quick else []
    return [
        gradient,
        value,
        growth(f"{title}: with the gradient, relative to the value", gradient, value),
        first_calls(f"{title}: first call of the gradient", builders, settings),
        peak_memory(f"{title}: peak memory", [*libraries], ["science", program.name, *size], settings),
    ]


# ---- training


def training(network: Network, settings: Settings) -> list[Measurement]:
    """Measure a training step, and the loss alone."""
    settings = settings_of(settings)
    libraries, failures = load(settings.threads)
    start: list[np.ndarray] = trainer("everyo", network).weights()
    detail = f"{network.detail}, float32"

    def step_case(name: str) -> Case:
        return Case(trainer(name, network, start).step, lambda: results(trainer(name, network, start)))

    def loss_case(name: str) -> Case:
        made = trainer(name, network, start)
        return Case(made.evaluate, lambda: [np.array(made.number(made.evaluate()))])

    def timed(what: str, make: Callable[[str], Case], *budgets: Budget, detail: str) -> Measurement:
        builders = {name: partial(make, name) for name in libraries}
        return compare(
            f"{network.title}: {what}", builders, settings, detail=detail, budgets=budgets, failures=failures
        )

    def begun(name: str) -> Callable[[], Any]:
        made: Trainer = trainer(name, network, start)
        return made.step

    limit = TRAINING_LIMITS.get(network.name, 1.1)
    step = timed(
        "training step", step_case, Budget(limit, "jax"), Budget(limit, "torch"),
        detail=f"{detail}; forward, cross entropy, backward, Adam",
    )  # fmt: skip
    loss = timed("loss", loss_case, detail=detail)
    builders = {name: partial(begun, name) for name in ("everyo", "jax") if name in step.samples}
    return [
        step,
        loss,
        growth(f"{network.title}: step, relative to the loss", step, loss),
        first_calls(f"{network.title}: first call of the step", builders, settings),
        peak_memory(f"{network.title}: peak memory", [*libraries], ["training", network.name], settings),
    ]


# ---- overhead


def _increment(xp, x):
    return x + 1


def _small_model(xp, parameters, x):
    for i in range(5):
        x = xp.tanh(x @ parameters[f"weight{i}"] + parameters[f"bias{i}"])
    return x


def overhead(settings: Settings) -> list[Measurement]:
    """Measure calls of functions so small that only the way there counts."""
    libraries, failures = load(settings.threads, ("everyo", "jax"))
    rng = np.random.default_rng(1)
    x = rng.standard_normal(4, np.float32)
    parameters = {
        f"{name}{i}": rng.standard_normal(shape, np.float32)
        for i in range(5)
        for name, shape in (("weight", (4, 4)), ("bias", (4,)))
    }

    def made(library: Library, f: Callable[..., Any], arguments: list[Any]) -> Case:
        given, function = optree.tree_map(library.array, arguments), library.primal(f)

        def run() -> Any:
            return library.wait(function(*given))

        return Case(run, lambda: [library.numpy(run())])

    def timed(title: str, f: Callable[..., Any], arguments: list[Any], detail: str, *budgets: Budget):
        builders = {name: partial(made, library, f, arguments) for name, library in libraries.items()}
        return compare(title, builders, settings, detail=detail, budgets=budgets, failures=failures)

    return [
        timed(
            "x + 1", _increment, [x], "x (4,), float32; waits for the result",
            Budget(5 * MICROSECOND), Budget(0.2, "jax"),
        ),
        timed(
            "ten parameters in a dict", _small_model, [parameters, x],
            "five times tanh(x @ w + b), w (4, 4), float32; waits for the result", Budget(12 * MICROSECOND),
        ),
    ]  # fmt: skip


ROWS = [
    Row("call", OVERHEAD, overhead),
    *(Row(f"science-{program.name}", SCIENCE, partial(science, program)) for program in PROGRAMS),
    *(Row(f"training-{network.name}", TRAINING, partial(training, network)) for network in NETWORKS),
]
