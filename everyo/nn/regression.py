"""Losses of regression."""

from __future__ import annotations

from typing import Any

from everyo import ops
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError
from everyo.nn.reduction import paired, reduce
from everyo.ops.creation import real_number
from everyo.ops.signatures import explained


def _difference(input: Any, target: Any, operation: str) -> Tensor:
    input, target = paired(input, target, operation)
    return input - target


@explained
def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """Squared error ``(input - target)**2``; derivative ``2 * (input - target)``.

    Parameters
    ----------
    input, target : Tensor
        Of one shape.
    reduction : {"mean", "sum", "none"}
        What becomes of the errors.

    Returns
    -------
    Tensor
        Their mean or sum, 0-d, or with "none" all, of the shape of `input`.

    Raises
    ------
    ShapeError
        If the shapes differ.
    ArgumentError
        If there is no such reduction.
    DTypeError
        If `input` or `target` are no numbers.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.functional.mse_loss(eo.tensor([1.0, 2.0]), eo.tensor([1.0, 4.0])))
    2.0
    """
    difference = _difference(input, target, "mse_loss")
    return reduce(difference * difference, reduction, "mse_loss")


@explained
def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """Absolute error ``|input - target|``; derivative ``sign(input - target)``.

    Parameters
    ----------
    input, target : Tensor
        Of one shape.
    reduction : {"mean", "sum", "none"}
        What becomes of the errors.

    Returns
    -------
    Tensor
        Their mean or sum, 0-d, or with "none" all, of the shape of `input`.

    Raises
    ------
    ShapeError
        If the shapes differ.
    ArgumentError
        If there is no such reduction.
    DTypeError
        If `input` or `target` are no numbers.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.functional.l1_loss(eo.tensor([1.0, 2.0]), eo.tensor([1.0, 4.0])))
    1.0
    """
    return reduce(ops.abs(_difference(input, target, "l1_loss")), reduction, "l1_loss")


def require_delta(delta: Any, operation: str) -> Any:
    """Return where the linear part begins; an error for what is no positive number."""
    value = delta if isinstance(delta, Tensor) else real_number(delta, operation, "delta")
    if not value > 0:
        raise ArgumentError(
            "delta is out of range", operation=operation, expected="delta > 0", found=repr(delta)
        )
    return value


@explained
def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """Squared error, halved, up to `delta` and linear beyond: its derivative is the difference, clipped.

    Source: Huber (1964), Robust estimation of a location parameter.

    Parameters
    ----------
    input, target : Tensor
        Of one shape.
    reduction : {"mean", "sum", "none"}
        What becomes of the errors.
    delta : float, default 1.0
        Where the linear part begins; positive.

    Returns
    -------
    Tensor
        Their mean or sum, 0-d, or with "none" all, of the shape of `input`.

    Raises
    ------
    ShapeError
        If the shapes differ.
    ArgumentError
        If there is no such reduction, or `delta` is not positive.
    DTypeError
        If `input` or `target` are no numbers.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.functional.huber_loss(eo.tensor([0.0, 0.0]), eo.tensor([1.0, 3.0]), reduction="none"))
    [0.5 2.5]
    """
    delta = require_delta(delta, "huber_loss")
    difference = _difference(input, target, "huber_loss")
    inside = ops.clip(difference, -delta, delta)
    return reduce(inside * (difference - 0.5 * inside), reduction, "huber_loss")
