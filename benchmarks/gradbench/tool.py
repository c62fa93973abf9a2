"""GradBench's protocol: one JSON message a line comes in, one JSON answer a line goes out."""

from __future__ import annotations

import functools
import json
import time
import traceback
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, TextIO

from .function import Function

MODULES = ("hello", "gmm", "lse", "llsq", "ode", "kmeans", "lstm", "ba", "ht")


def functions(module: str) -> dict[str, Function]:
    """Return the functions of a problem by name; ValueError if there is no such problem."""
    if module not in MODULES:
        raise ValueError(f"no module {module!r}; there are {', '.join(MODULES)}")
    return import_module(f"{__package__}.{module}").FUNCTIONS


class Tool:
    """What answers messages.

    Parameters
    ----------
    eager : bool
        Run the functions as they are written, without `eo.compile`.
    """

    def __init__(self, eager: bool = False) -> None:
        self.eager = eager
        self._runnable = functools.cache(self._prepare)

    def serve(self, lines: Iterable[str], output: TextIO) -> None:
        """Answer each line until there are no more."""
        for line in lines:
            if line.strip():
                print(json.dumps(self.answer(json.loads(line))), file=output, flush=True)

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a message; an error is part of it, not raised."""
        answers: dict[str, Callable[..., dict[str, Any]]] = {
            "start": self._start,
            "define": self._define,
            "evaluate": self._evaluate,
        }
        answer = answers.get(message["kind"], lambda message: {})
        try:
            found = answer(message)
        except Exception as error:
            found = {"success": False, "error": "".join(traceback.format_exception(error))}
        return {"id": message["id"], **found}

    def _start(self, message: dict[str, Any]) -> dict[str, Any]:
        return {"tool": "everyo", "config": {"eager": self.eager}}

    def _define(self, message: dict[str, Any]) -> dict[str, Any]:
        functions(message["module"])
        return {"success": True}

    def _evaluate(self, message: dict[str, Any]) -> dict[str, Any]:
        given = message["input"]
        runs, seconds = 1, 0.0
        if isinstance(given, dict):
            runs, seconds = int(given.get("min_runs", 1)), float(given.get("min_seconds", 0.0))
        function, run = self._runnable(message["module"], message["function"])
        arguments = function.arguments(given)
        timings = []
        if run is not function.run:  # the first call compiles
            timings.append(_timing("compile", _timed(run, arguments)[1]))
        result, evaluations = repeated(run, arguments, runs, seconds)
        timings += [_timing("evaluate", nanoseconds) for nanoseconds in evaluations]
        return {"success": True, "output": function.write(result), "timings": timings}

    def _prepare(self, module: str, name: str) -> tuple[Function, Callable[..., Any]]:
        found = functions(module)
        if name not in found:
            raise ValueError(f"no function {name!r} in {module}; there are {', '.join(found)}")
        function = found[name]
        return function, function.run if self.eager else function.compiled()


def repeated(
    run: Callable[..., Any], arguments: tuple[Any, ...], runs: int, seconds: float
) -> tuple[Any, list[int]]:
    """Call a function `runs` times, at least once, and until that took `seconds`.

    Returns
    -------
    result
        That of the last call.
    timings : list of int
        Nanoseconds of each call.
    """
    result, elapsed = _timed(run, arguments)
    timings = [elapsed]
    while len(timings) < runs or elapsed < seconds * 1e9:
        result, nanoseconds = _timed(run, arguments)
        timings.append(nanoseconds)
        elapsed += nanoseconds
    return result, timings


def _timed(run: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, int]:
    start = time.perf_counter_ns()
    result = run(*arguments)
    return result, time.perf_counter_ns() - start


def _timing(name: str, nanoseconds: int) -> dict[str, Any]:
    return {"name": name, "nanoseconds": nanoseconds}
