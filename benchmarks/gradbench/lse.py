"""The logarithm of a sum of exponentials, shifted by the maximum."""

from __future__ import annotations

from typing import Any

import everyo as eo

from .function import Function, float64, number, numbers


def primal(x: eo.Tensor) -> eo.Tensor:
    """Return ``log(sum(exp(x)))`` of x (n,)."""
    largest = eo.max(x)
    return largest + eo.log(eo.sum(eo.exp(x - largest)))


gradient = eo.grad(primal)


def _read(message: dict[str, Any]) -> tuple:
    return (float64(message["x"]),)


FUNCTIONS = {
    "primal": Function(primal, _read, number),
    "gradient": Function(gradient, _read, numbers),
}
