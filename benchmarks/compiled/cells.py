"""GradBench's problems as rows: each size is one, with the function and its derivative."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..gradbench.cases import Case as Problem
from ..gradbench.cases import cases
from ..gradbench.measure import leaves, libraries
from ..harness import Budget, Case, Measurement, Row, Settings, compare, explain
from .libraries import load
from .measuring import growth, settings_of

SECTION = "GradBench"
GRADIENTS = ("gmm", "lse", "llsq", "ode", "lstm")  # the others ask for a Jacobian or a second derivative
BUDGETS = (Budget(0.8, "jax"), Budget(0.8, "torch"), Budget(1.0, "cpp"))


def problem(given: Problem, settings: Settings) -> list[Measurement]:
    """Measure the function and the derivative of one size of a problem."""
    settings = settings_of(settings)
    failures = load(settings.threads)[1]
    value, gradient = (
        _timed(given, name, recorded, budgets, dict(failures), settings)
        for name, recorded, budgets in zip(given.names, given.manual, ((), BUDGETS), strict=True)
    )
    title = f"{given.module}, {given.size}: derivative, relative to the function"
    return [gradient, value, growth(title, gradient, value, given.module in GRADIENTS)]


def _timed(
    given: Problem,
    name: str,
    recorded: float,
    budgets: tuple[Budget, ...],
    failures: dict[str, str],
    settings: Settings,
) -> Measurement:
    message = given.make()
    names = {"compiled": "everyo"}
    calls = {
        names.get(library, library): call
        for library, call in libraries(given.module, name, message, ("eager",)).items()
    }
    try:
        from ..gradbench import peers_in_torch

        calls["torch"] = peers_in_torch.call(given.module, name, message)
    except ModuleNotFoundError as error:
        failures["torch"] = "absent" if error.name == "torch" else explain(error)
    found = compare(
        f"{given.module}, {given.size}: {name}",
        {library: partial(_case, call) for library, call in calls.items() if call is not None},
        settings,
        detail="as GradBench has it, float64",
        budgets=[b for b in budgets if b.peer != "cpp" or not np.isnan(recorded)],
        failures=failures,
        tolerance=1e-8,
    )
    if found.samples and not np.isnan(recorded):
        found.samples["cpp"] = [recorded] * len(found.samples["everyo"])
    return found


def _case(call: Callable[[], Any]) -> Case:
    return Case(call, lambda: [np.asarray(x) for x in leaves(call())])


def _name(given: Problem) -> str:
    return "-".join(["gradbench", given.module, *re.findall(r"[a-z]{4,}|\d+", given.size)])


ROWS = [Row(_name(given), SECTION, partial(problem, given)) for given in cases()]
