"""Least squares: a polynomial against the sign function on [-1, 1]."""

from __future__ import annotations

from typing import Any

import everyo as eo

from .function import Function, float64, number, numbers


def primal(x: eo.Tensor, n: int) -> eo.Tensor:
    """Return half the sum of squared residuals at n points of the polynomial with coefficients x (m,)."""
    t = eo.linspace(-1.0, 1.0, n, dtype=eo.float64)
    residual = eo.sign(t) - polynomial(x, t)
    return 0.5 * eo.sum(residual * residual)


def polynomial(x: eo.Tensor, t: eo.Tensor) -> eo.Tensor:
    """Return ``x[0] + x[1] t + x[2] t**2 + ...`` by Horner's rule, of the shape of t."""
    value, _ = eo.scan(
        lambda value, coefficient: (value * t + coefficient, None), eo.zeros_like(t), x, reverse=True
    )
    return value


gradient = eo.grad(primal)


def _read(message: dict[str, Any]) -> tuple:
    return float64(message["x"]), int(message["n"])


FUNCTIONS = {
    "primal": Function(primal, _read, number, static=(1,)),
    "gradient": Function(gradient, _read, numbers, static=(1,)),
}
