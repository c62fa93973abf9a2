"""Losses of classification: negative log-likelihood and cross-entropies."""

from __future__ import annotations

import math
from typing import Any

from everyo import ops
from everyo.core.dtypes import float16, float32, to_float
from everyo.core.tensor import Tensor
from everyo.core.traced import innermost, staging
from everyo.errors import ArgumentError, DTypeError, IndexingError, ShapeError, describe
from everyo.nn.reduction import paired, reduce, require_reduction
from everyo.ops.creation import as_tensor, real_number
from everyo.ops.known import counted, look
from everyo.ops.signatures import explained


@explained
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross-entropy between logits and classes: ``-log(softmax(input)[target])``.

    The gradient with respect to the logits is ``softmax(input) - onehot(target)``, weighted and reduced.

    Parameters
    ----------
    input : Tensor, shape (N, C, ...) or (C,)
        Logits of C classes.
    target : Tensor
        Class indices, integers of the input's shape without the class axis; or probabilities of the
        input's shape, floats.
    weight : Tensor, shape (C,), optional
        A weight for each class. The mean is then weighted, too.
    ignore_index : int, default -100
        A target that counts for nothing.
    reduction : {"mean", "sum", "none"}
        What becomes of the losses.
    label_smoothing : float, default 0
        From 0 to 1: this much of each target is spread evenly over all classes.

    Returns
    -------
    Tensor
        The loss. Its mean over nothing (every target ignored) is NaN, with a zero gradient.

    Raises
    ------
    IndexingError
        If a target is no class.
    ShapeError, DTypeError
        If target or weight do not fit the input.
    ArgumentError
        If `reduction` or `label_smoothing` is out of range.

    Examples
    --------
    >>> import everyo as eo
    >>> logits = eo.tensor([[2.0, 0.0, 0.0]], requires_grad=True)
    >>> loss = eo.nn.functional.cross_entropy(logits, eo.tensor([0]))
    >>> round(loss.item(), 4)
    0.2395
    """
    input, target = as_tensor(input), as_tensor(target)
    label_smoothing = require_smoothing(label_smoothing, "cross_entropy")
    axis = _class_axis(input, "cross_entropy")
    logs = ops.log_softmax(input, axis=axis)
    if target.dtype.kind in "fc" and target.shape == input.shape:
        return _soft(logs, target, weight, axis, reduction, label_smoothing)
    return _hard(logs, target, weight, axis, ignore_index, reduction, label_smoothing, "cross_entropy")


def require_smoothing(label_smoothing: Any, operation: str) -> Any:
    """Return how much of a target is spread; an error for what is no number from 0 to 1."""
    value = label_smoothing
    if not isinstance(value, Tensor):
        value = real_number(value, operation, "label_smoothing")
    if not 0 <= value <= 1:
        raise ArgumentError(
            "label_smoothing is out of range",
            operation=operation,
            expected="0 <= label_smoothing <= 1",
            found=repr(label_smoothing),
        )
    return value


@explained
def nll_loss(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """Negative log-likelihood ``-input[target]`` of log-probabilities.

    The gradient is ``-weight[target]`` at the targets, reduced, and 0 elsewhere.

    Parameters
    ----------
    input : Tensor, shape (N, C, ...) or (C,)
        Logarithms of the probabilities of C classes; floats.
    target : Tensor
        Class indices, integers of the input's shape without the class axis.
    weight : Tensor, shape (C,), optional
        A weight for each class. The mean is then weighted, too.
    ignore_index : int, default -100
        A target that counts for nothing.
    reduction : {"mean", "sum", "none"}
        What becomes of the losses.

    Returns
    -------
    Tensor
        The loss, 0-d, or with "none" of the shape of `target`. Its mean over nothing (every target ignored)
        is NaN, with a zero gradient.

    Raises
    ------
    IndexingError
        If a target is no class.
    ShapeError
        If the shape of target or weight does not fit the input.
    DTypeError
        If the targets are no integers, or the input no real floats.
    ArgumentError
        If there is no such reduction.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.functional.nll_loss(eo.tensor([[-0.5, -2.0]]), eo.tensor([1])))
    2.0
    """
    input, target = as_tensor(input), as_tensor(target)
    axis = _class_axis(input, "nll_loss")
    return _hard(input, target, weight, axis, ignore_index, reduction, 0.0, "nll_loss")


@explained
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Tensor:
    """Cross-entropy between logits and targets from 0 to 1, elementwise.

    ``pos_weight * target * softplus(-input) + (1 - target) * softplus(input)``, which neither overflows nor
    cancels; without weights its derivative is ``sigmoid(input) - target``.

    Parameters
    ----------
    input, target : Tensor
        Logits and targets, of one shape.
    weight : Tensor, optional
        Scales each loss; broadcasts.
    reduction : {"mean", "sum", "none"}
        What becomes of the losses.
    pos_weight : Tensor, optional
        Scales the losses of positive targets; broadcasts.

    Returns
    -------
    Tensor
        Their mean or sum, 0-d, or with "none" all losses, of the shape of `input` and the weights together.

    Raises
    ------
    ShapeError
        If the shapes of input and target differ, or a weight does not broadcast with them.
    DTypeError
        If `input` is complex, or an operand is not of numbers.
    ArgumentError
        If there is no such reduction.

    Examples
    --------
    >>> import everyo as eo
    >>> from everyo.nn.functional import binary_cross_entropy_with_logits
    >>> print(binary_cross_entropy_with_logits(eo.tensor([0.0, 400.0]), eo.ones(2), reduction="sum"))
    0.6931472
    """
    input, target = paired(input, target, "binary_cross_entropy_with_logits")
    positive = target if pos_weight is None else target * as_tensor(pos_weight)
    losses = positive * ops.softplus(-input) + (1 - target) * ops.softplus(input)
    if weight is not None:
        losses = losses * as_tensor(weight)
    return reduce(losses, reduction, "binary_cross_entropy_with_logits")


def _class_axis(input: Tensor, operation: str) -> int:
    """Return the axis of the classes, which must not be empty."""
    axis = min(input.ndim, 2) - 1
    if input.dtype.kind != "f":
        raise DTypeError(
            "logits are real floating-point numbers",
            operation=operation,
            expected="a float dtype",
            found=describe(input),
            remedy=f"convert them: {to_float(input.dtype, 'input')}",
        )
    if axis < 0 or input.shape[axis] == 0:
        raise ShapeError(
            "there are no classes to choose from",
            operation=operation,
            inputs=describe(input),
            expected="input of shape (N, C, ...) or (C,) with C > 0",
            found=describe(input),
            remedy="give the logits an axis of classes: axis 1, or axis 0 without a batch",
        )
    return axis


def _class_weight(weight: Any, logs: Tensor, axis: int, operation: str) -> Tensor | None:
    """Return the weights of the classes, of the dtype of `logs`."""
    if weight is None:
        return None
    weight = as_tensor(weight)
    if weight.shape != (logs.shape[axis],):
        raise ShapeError(
            "there must be one weight for each class",
            operation=operation,
            inputs=describe(logs, weight),
            expected=f"weight of shape ({logs.shape[axis]},)",
            found=str(weight.shape),
            remedy="weight the classes, not the examples; for these use reduction='none'",
        )
    return weight.astype(logs.dtype)


def _along(weight: Tensor, logs: Tensor, axis: int) -> Tensor:
    """Return the weights of the classes so that they broadcast against `logs`."""
    return ops.reshape(weight, (-1,) + (1,) * (logs.ndim - axis - 1))


def _soft(logs: Tensor, target: Tensor, weight: Any, axis: int, reduction: str, smoothing: float) -> Tensor:
    """Cross-entropy with targets that are probabilities."""
    weight = _class_weight(weight, logs, axis, "cross_entropy")
    if smoothing:
        target = target * (1 - smoothing) + smoothing / logs.shape[axis]
    if weight is not None:
        target = target * _along(weight, logs, axis)
    losses = -ops.sum(logs * target, axis=axis)
    return reduce(losses, reduction, "cross_entropy")


def _hard(
    logs: Tensor,
    target: Tensor,
    weight: Any,
    axis: int,
    ignore_index: int,
    reduction: str,
    smoothing: float,
    operation: str,
) -> Tensor:
    """Negative log-likelihood of targets that are class indices."""
    require_reduction(reduction, operation)
    weight = _class_weight(weight, logs, axis, operation)
    everything = _check_classes(logs, target, axis, ignore_index, operation)
    if not everything:
        valid = target != ignore_index
        target = ops.where(valid, counted(target, logs.shape[axis]), 0)
    picked = _pick(logs, target, axis)
    if everything and weight is None and not smoothing:
        return -reduce(picked, reduction, operation)
    losses = -picked
    shares = ops.ones_like(losses) if weight is None else ops.take(weight, target)
    losses = losses * shares
    if smoothing:
        spread = logs if weight is None else logs * _along(weight, logs, axis)
        losses = (1 - smoothing) * losses - smoothing / logs.shape[axis] * ops.sum(spread, axis=axis)
    if not everything:
        nothing = ops.zeros_like(shares)
        losses, shares = ops.where(valid, losses, nothing), ops.where(valid, shares, nothing)
    if reduction != "mean":
        return reduce(losses, reduction, operation)
    kept = losses.dtype
    if kept == float16:  # whose sums would overflow
        losses, shares = (v.astype(float32) for v in (losses, shares))
    total = ops.sum(shares)
    empty = total == 0
    # 0 / 0 would make the gradient NaN as well, which one batch without targets must not do to a model.
    mean = ops.sum(losses) / ops.where(empty, ops.ones_like(total), total)
    mean = mean + ops.where(empty, ops.full_like(total, math.nan), ops.zeros_like(total))
    return mean if mean.dtype == kept else mean.astype(kept)


def _pick(logs: Tensor, target: Tensor, axis: int) -> Tensor:
    """Return at each position the element of its class."""
    if logs.ndim == 2:  # by far the most frequent case, and the cheapest index
        return logs[ops.arange(logs.shape[0], device=logs.device), target]
    picked = ops.take_along_axis(logs, ops.expand_dims(target, axis=axis), axis=axis)
    return ops.squeeze(picked, axis=axis)


def _check_classes(logs: Tensor, target: Tensor, axis: int, ignore_index: int, operation: str) -> bool:
    """Raise unless `target` holds classes; return whether surely none of them is ignored."""
    shape = logs.shape[:axis] + logs.shape[axis + 1 :]
    if target.dtype.kind not in "iu":
        raise DTypeError(
            "classes are integers",
            operation=operation,
            inputs=describe(logs, target),
            expected=f"integer classes of shape {shape}, or probabilities of shape {logs.shape}",
            found=describe(target),
            remedy="convert them: target.astype(eo.int64)",
        )
    if target.shape != shape:
        raise ShapeError(
            "the targets do not fit the input",
            operation=operation,
            inputs=describe(logs, target),
            expected=f"shape {shape}, one class for each position of the input",
            found=f"shape {target.shape}",
            remedy="reshape the target, or move the class axis of the input to axis 1",
        )
    xp, inputs, classes = target.backend.xp, describe(logs, target), logs.shape[axis]

    def some_outside(values: Any) -> bool:
        outside = (values < 0) | (values >= classes)
        if not xp.any(outside):
            return False
        wrong = outside & (values != ignore_index)
        if xp.any(wrong):
            position = tuple(int(i[0]) for i in xp.nonzero(wrong)) if values.ndim else ()
            raise IndexingError(
                f"target {int(values[position])} at {position} is no class",
                operation=operation,
                inputs=inputs,
                expected=f"0 <= target < {classes}, or ignore_index={ignore_index}",
                found=str(int(values[position])),
                remedy="number the classes from 0, and mark what does not count with ignore_index",
            )
        return True

    if staging.get() is not None:
        look(some_outside, target)
        return False
    values = innermost(target)
    if not values.size or some_outside(values):
        return False
    return not 0 <= ignore_index < classes or not xp.any(values == ignore_index)
