"""What a problem says of each of its functions, so that one program can run all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import everyo as eo


@dataclass(frozen=True)
class Function:
    """One function of a problem.

    Attributes
    ----------
    run : callable
        The work: takes tensors (or trees of them) and static values, returns tensors. This is timed.
    read : callable
        Turns the input of a message into the arguments of `run`, with NumPy arrays for the tensors.
    write : callable
        Turns what `run` returned into what the answer holds.
    static : tuple of int
        Positions of the arguments that are plain Python values.
    """

    run: Callable[..., Any]
    read: Callable[[Any], tuple[Any, ...]]
    write: Callable[[Any], Any]
    static: tuple[int, ...] = ()

    def arguments(self, message: Any) -> tuple[Any, ...]:
        """Return the arguments of `run` for the input of a message, with tensors."""
        read = self.read(message)
        return tuple(x if i in self.static else tensors(x) for i, x in enumerate(read))

    def compiled(self) -> Callable[..., Any]:
        """Return `run` compiled, or as it is while there is no compiler."""
        compiler = getattr(eo, "compile", None)
        return self.run if compiler is None else compiler(self.run, static_argnums=self.static)


def tensors(tree: Any) -> Any:
    """Return arrays, alone or in dicts, as tensors."""
    if isinstance(tree, dict):
        return {name: tensors(x) for name, x in tree.items()}
    return eo.asarray(tree)


def float64(values: Any) -> np.ndarray:
    """Return numbers, or lists of them, as an array of float64."""
    return np.asarray(values, dtype=np.float64)


def number(x: eo.Tensor) -> float:
    """Return a tensor of one element as a Python number."""
    return x.item()


def numbers(x: eo.Tensor) -> list[Any]:
    """Return a tensor as nested lists."""
    return x.tolist()
