"""Eager code on large arrays, where EveryO runs generated kernels, against eager PyTorch."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..harness import Budget, Case, Measurement, Row, Settings, compare
from .libraries import load

SECTION = "Eager code on large arrays"
PEERS = ("everyo", "torch")
SHAPE = (1000, 1000)
Rooted = Callable[[Any, Any], Any]  # of a library and a tensor of it


class Function(NamedTuple):
    """An operation that both libraries have under one name.

    Attributes
    ----------
    title : str
        How a reader calls it.
    f : callable
        ``f(root, x)``: the operation, of the module `everyo` or `torch`.
    """

    title: str
    f: Rooted


def _named(name: str) -> Function:
    return Function(name, lambda root, x: getattr(root, name)(x))


def _functional(name: str, *more: Any) -> Function:
    return Function(name.replace("_", " "), lambda root, x: getattr(root.nn.functional, name)(x, *more))


def _cross_entropy(root: Any, x: Any) -> Any:
    labels = root.from_numpy(np.arange(SHAPE[0]) % SHAPE[1])
    return root.nn.functional.cross_entropy(x, labels)


FUNCTIONS = [
    *map(_named, ("exp", "log1p", "sin", "tanh", "sigmoid", "erf")),
    _functional("gelu"),
    _functional("softplus"),
    _functional("softmax", -1),
    _functional("log_softmax", -1),
    Function("logsumexp", lambda root, x: root.logsumexp(x, -1)),
    _functional("layer_norm", (SHAPE[1],)),
    Function("cross entropy", _cross_entropy),
]


def _case(name: str, f: Rooted, gradient: bool) -> Case:
    root = importlib.import_module(name)
    array = np.random.default_rng(3).uniform(0.1, 2, SHAPE).astype(np.float32)
    x = root.tensor(array, requires_grad=gradient)
    weight = root.from_numpy(np.random.default_rng(4).standard_normal(SHAPE, np.float32))

    def run() -> Any:
        if not gradient:
            return f(root, x)
        x.grad = None
        y = f(root, x)
        y.backward(weight if y.shape == SHAPE else root.ones_like(y))
        return x.grad

    return Case(run, lambda: [np.array(run().detach().numpy())])


def _adam(name: str) -> Case:
    root = importlib.import_module(name)
    rng = np.random.default_rng(5)
    p = root.tensor(rng.standard_normal(SHAPE, np.float32), requires_grad=True)
    p.grad = root.from_numpy(rng.standard_normal(SHAPE, np.float32))
    optimizer = root.optim.Adam([p], lr=1e-3, **({"fused": True} if name == "torch" else {}))

    def check() -> list[np.ndarray]:
        optimizer.step()
        return [np.array(p.detach().numpy())]

    return Case(optimizer.step, check)


def eager(settings: Settings) -> list[Measurement]:
    """Measure functions, with their gradients, and an update of Adam."""
    _, failures = load(settings.threads, PEERS)
    detail = f"{SHAPE}, float32, eager; {settings.threads} thread"

    def timed(title: str, make: Callable[[str], Case], detail: str = detail) -> Measurement:
        builders = {name: partial(make, name) for name in PEERS if name not in failures}
        return compare(
            title, builders, settings, detail=detail, budgets=[Budget(1.0, "torch")], failures=failures
        )

    rows = [
        timed(f"{function.title}{what}", partial(_case, f=function.f, gradient=gradient))
        for function in FUNCTIONS
        for gradient, what in ((False, ""), (True, ": with its gradient"))
    ]
    return [*rows, timed("Adam's update", _adam, f"{detail}; PyTorch's with fused=True")]


ROWS = [Row("eager", SECTION, eager)]
