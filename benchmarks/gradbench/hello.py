"""The square of a number and its derivative: a greeting between tool and benchmark."""

from __future__ import annotations

import everyo as eo

from .function import Function, float64, number


def square(x: eo.Tensor) -> eo.Tensor:
    """Return the square of x, of shape ()."""
    return x * x


double = eo.grad(square)


def _read(x: float) -> tuple:
    return (float64(x),)


FUNCTIONS = {
    "square": Function(square, _read, number),
    "double": Function(double, _read, number),
}
