"""Where among sorted elements a quantile lies, by method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everyo.core.registry import op


def _half_down(v: Any, n: Any) -> Any:
    """Return the observation next to `v`; halfway between two that of an even number, counted from 1."""
    below = op.floor(v)
    tie = op.logical_and(op.equal(v - below, 0.5), op.equal(op.remainder(below, 2), 1))
    return op.where(tie, below, op.floor(v + 0.5))


def _middle(v: Any) -> Any:
    return (op.floor(v) + op.ceil(v)) * 0.5


def _averaged(v: Any) -> Any:
    below = op.floor(v)
    return below + op.where(op.equal(v, below), 0.5, 1.0)


Place = Callable[[Any, Any], Any]
# Where among n sorted elements, counted from 0, the q-quantile lies: Hyndman and Fan (1996), and NumPy's own.
CONTINUOUS: dict[str, Place] = {
    "linear": lambda n, q: (n - 1) * q,
    "midpoint": lambda n, q: _middle((n - 1) * q),
    "averaged_inverted_cdf": lambda n, q: _averaged(n * q - 1),
    "interpolated_inverted_cdf": lambda n, q: n * q - 1,
    "hazen": lambda n, q: n * q - 0.5,
    "weibull": lambda n, q: (n + 1) * q - 1,
    "median_unbiased": lambda n, q: n * q + (1 + q) / 3 - 1,
    "normal_unbiased": lambda n, q: n * q + 0.375 + 0.25 * q - 1,
}
DISCRETE: dict[str, Place] = {
    "lower": lambda n, q: op.floor((n - 1) * q),
    "higher": lambda n, q: op.ceil((n - 1) * q),
    "nearest": lambda n, q: op.round((n - 1) * q),
    "inverted_cdf": lambda n, q: op.ceil(n * q) - 1,
    "closest_observation": lambda n, q: _half_down(n * q - 1, n),
}
