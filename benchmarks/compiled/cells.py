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
from .measuring import first_calls, growth, peak_memory, settings_of

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
    title, both = (
        f"{given.module}, {given.size}",
        [name for name in ("everyo", "jax") if name not in failures],
    )
    builders = {name: partial(derivative, given, name) for name in both if name in gradient.samples}
    return [
        gradient,
        value,
        growth(f"{title}: derivative, relative to the function", gradient, value, given.module in GRADIENTS),
        first_calls(f"{title}: first call of the derivative", builders, settings, rounds=1),
        peak_memory(f"{title}: peak memory", both, ["gradbench", row_name(given)], settings, rounds=1),
    ]


def derivative(given: Problem, library: str) -> Callable[[], Any]:
    """Return the call of a problem's derivative in EveryO or JAX, which compiles when it is called first."""
    if library == "jax":
        import jax

        jax.clear_caches()
    calls = libraries(given.module, given.names[1], given.make(), ("eager",))
    return calls["compiled" if library == "everyo" else library]


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


def row_name(given: Problem) -> str:
    """Return the name of a problem's row."""
    return "-".join(["gradbench", given.module, *re.findall(r"[a-z]{4,}|\d+", given.size)])


ROWS = [Row(row_name(given), SECTION, partial(problem, given)) for given in cases()]
