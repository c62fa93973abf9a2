"""Elementwise arithmetic and its derivatives."""

from __future__ import annotations

from typing import Any

from everyo.core.registry import op
from everyo.ops.families import discrete, elementwise


@elementwise(lambda g: g, lambda g: g)
def add(xp: Any, x1: Any, x2: Any) -> Any:
    """Sum of two tensors, elementwise.

    ``d(x1 + x2) = dx1 + dx2``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.add(eo.tensor([1.0, 2.0]), 1))
    [2. 3.]
    """
    return xp.add(x1, x2)


@elementwise(lambda g: g, lambda g: -g)
def subtract(xp: Any, x1: Any, x2: Any) -> Any:
    return xp.subtract(x1, x2)


@elementwise(lambda g, x2: g * x2, lambda g, x1: g * x1)
def multiply(xp: Any, x1: Any, x2: Any) -> Any:
    return xp.multiply(x1, x2)


@elementwise(lambda g: -g)
def negative(xp: Any, x: Any) -> Any:
    return xp.negative(x)


@elementwise(lambda g, out: g * (1 - out * out))
def tanh(xp: Any, x: Any) -> Any:
    return xp.tanh(x)

@elementwise(lambda g, x: g * op.cos(x))
def sin(xp: Any, x: Any) -> Any:
    return xp.sin(x)

@elementwise(lambda g, x: -g * op.sin(x))
def cos(xp: Any, x: Any) -> Any:
    return xp.cos(x)
