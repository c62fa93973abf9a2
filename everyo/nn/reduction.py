"""What the losses share: reductions and the check of shapes."""

from __future__ import annotations

from typing import Any

from everyo import ops
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, ShapeError, describe
from everyo.ops.axes import is_one_of
from everyo.ops.creation import as_tensor
from everyo.ops.reductions import inexact


def require_reduction(reduction: str, operation: str) -> None:
    """Raise ArgumentError unless `reduction` is one."""
    if not is_one_of(reduction, ("mean", "sum", "none")):
        raise ArgumentError(
            "no such reduction",
            operation=operation,
            expected="'mean', 'sum' or 'none'",
            found=repr(reduction),
        )


def reduce(losses: Tensor, reduction: str, operation: str) -> Tensor:
    """Return the mean or the sum of the losses, or the losses."""
    require_reduction(reduction, operation)
    if reduction == "none":
        return losses
    return ops.mean(losses) if reduction == "mean" else ops.sum(losses)


def paired(input: Any, target: Any, operation: str) -> tuple[Tensor, Tensor]:
    """Return input and target as tensors of one shape and of float dtypes; integer targets take the input's.

    Raises
    ------
    ShapeError
        If the shapes differ: broadcasting here hides mistakes.
    """
    input, target = inexact(input), as_tensor(target)
    if input.shape != target.shape:
        raise ShapeError(
            "input and target have different shapes",
            operation=operation,
            inputs=describe(input, target),
            expected=f"a target of shape {input.shape}",
            found=f"shape {target.shape}",
            remedy="reshape one of them, or broadcast on purpose with eo.broadcast_to",
        )
    return input, target if target.dtype.kind in "fc" else target.astype(input.dtype)
