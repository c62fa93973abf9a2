"""What the losses share: reductions and the check of shapes."""

from __future__ import annotations

from everyo import ops
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, ShapeError, describe


def require_reduction(reduction: str, operation: str) -> None:
    """Raise ArgumentError unless `reduction` is one."""
    if reduction not in ("mean", "sum", "none"):
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


def require_same_shape(input: Tensor, target: Tensor, operation: str) -> None:
    """Raise ShapeError unless the shapes are equal: broadcasting here hides mistakes."""
    if input.shape != target.shape:
        raise ShapeError(
            "input and target have different shapes",
            operation=operation,
            inputs=describe(input, target),
            expected=f"a target of shape {input.shape}",
            found=f"shape {target.shape}",
            remedy="reshape one of them, or broadcast on purpose with eo.broadcast_to",
        )
