"""A chain of linear differential equations, solved by the classical Runge-Kutta method."""

from __future__ import annotations

from typing import Any

import everyo as eo

from .function import Function, float64, numbers

END = 2.0


def slope(x: eo.Tensor, y: eo.Tensor) -> eo.Tensor:
    """Return the derivative of y (n,) in time: x[0], then ``x[i] * y[i - 1]``."""
    return x * eo.concat([eo.ones(1, dtype=y.dtype), y[:-1]])


def primal(x: eo.Tensor, steps: int) -> eo.Tensor:
    """Return y (n,) at time 2 from y = 0 at time 0."""
    h = END / steps

    def step(y: eo.Tensor, _: None) -> tuple[eo.Tensor, None]:
        k1 = slope(x, y)
        k2 = slope(x, y + h / 2 * k1)
        k3 = slope(x, y + h / 2 * k2)
        k4 = slope(x, y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    return eo.scan(step, eo.zeros_like(x), length=steps)[0]


def last(x: eo.Tensor, steps: int) -> eo.Tensor:
    """Return the last element of y, of shape ()."""
    return primal(x, steps)[-1]


gradient = eo.grad(last)


def _read(message: dict[str, Any]) -> tuple:
    return float64(message["x"]), int(message["s"])


FUNCTIONS = {
    "primal": Function(primal, _read, numbers, static=(1,)),
    "gradient": Function(gradient, _read, numbers, static=(1,)),
}
