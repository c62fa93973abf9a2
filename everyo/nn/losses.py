"""Losses as modules; the functions are in `nn.functional`."""

from __future__ import annotations

from typing import Any

from everyo.core.tensor import Tensor
from everyo.nn import functional as F
from everyo.nn.cross_entropy import require_smoothing
from everyo.nn.module import Module
from everyo.nn.reduction import require_reduction
from everyo.nn.regression import require_delta
from everyo.ops.axes import as_integer


class _Loss(Module):
    """What loss modules share."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        require_reduction(reduction, type(self).__name__)
        self.reduction = reduction

    def extra_repr(self) -> str:
        """Return the reduction."""
        return f"reduction={self.reduction!r}"


class CrossEntropyLoss(_Loss):
    """Cross-entropy between logits and classes, see `nn.functional.cross_entropy`.

    Parameters
    ----------
    weight : Tensor, shape (C,), optional
        A weight for each class.
    ignore_index : int, default -100
        A target that counts for nothing.
    reduction : {"mean", "sum", "none"}
        What becomes of the losses.
    label_smoothing : float, default 0
        How much of each target is spread over all classes.

    Raises
    ------
    ArgumentError
        If there is no such reduction, or `label_smoothing` is not from 0 to 1.
    DTypeError
        If a setting is no number, `ignore_index` no integer, or `weight` no tensor.

    Examples
    --------
    >>> import everyo as eo
    >>> loss = eo.nn.CrossEntropyLoss()
    >>> print(loss(eo.tensor([[0.0, 0.0]]), eo.tensor([1])))
    0.6931472
    """

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = as_integer(ignore_index, "ignore_index", "CrossEntropyLoss")
        self.label_smoothing = require_smoothing(label_smoothing, "CrossEntropyLoss")

    def forward(self, input: Any, target: Any) -> Tensor:
        """Return the loss."""
        return F.cross_entropy(
            input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )


class NLLLoss(_Loss):
    """Negative log-likelihood of log-probabilities, see `nn.functional.nll_loss`.

    Parameters
    ----------
    weight : Tensor, shape (C,), optional
        A weight for each class.
    ignore_index : int, default -100
        A target that counts for nothing.
    reduction : {"mean", "sum", "none"}
        What becomes of the losses.

    Raises
    ------
    ArgumentError
        If there is no such reduction.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.NLLLoss()(eo.tensor([[-0.5, -2.0]]), eo.tensor([1])))
    2.0
    """

    weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = as_integer(ignore_index, "ignore_index", "NLLLoss")

    def forward(self, input: Any, target: Any) -> Tensor:
        """Return the loss."""
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross-entropy of logits, see `nn.functional.binary_cross_entropy_with_logits`.

    Parameters
    ----------
    weight : Tensor, optional
        Scales each loss.
    reduction : {"mean", "sum", "none"}
        What becomes of the losses.
    pos_weight : Tensor, optional
        Scales the losses of positive targets.

    Raises
    ------
    ArgumentError
        If there is no such reduction.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.BCEWithLogitsLoss()(eo.tensor([0.0]), eo.tensor([1.0])))
    0.6931472
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Any, target: Any) -> Tensor:
        """Return the loss."""
        return F.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)


class MSELoss(_Loss):
    """Squared error, see `nn.functional.mse_loss`.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        What becomes of the errors.

    Raises
    ------
    ArgumentError
        If there is no such reduction.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.MSELoss()(eo.tensor([1.0, 2.0]), eo.tensor([1.0, 4.0])))
    2.0
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Return the loss."""
        return F.mse_loss(input, target, self.reduction)


class L1Loss(_Loss):
    """Absolute error, see `nn.functional.l1_loss`.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        What becomes of the errors.

    Raises
    ------
    ArgumentError
        If there is no such reduction.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.L1Loss()(eo.tensor([1.0, 2.0]), eo.tensor([1.0, 4.0])))
    1.0
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Return the loss."""
        return F.l1_loss(input, target, self.reduction)


class HuberLoss(_Loss):
    """Squared error up to `delta`, absolute beyond, see `nn.functional.huber_loss`.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        What becomes of the errors.
    delta : float, default 1
        Where the linear part begins; positive.

    Raises
    ------
    ArgumentError
        If there is no such reduction, or `delta` is not positive.
    DTypeError
        If `delta` is no number.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.HuberLoss()(eo.tensor([0.0, 0.0]), eo.tensor([1.0, 3.0])))
    1.5
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = require_delta(delta, "HuberLoss")

    def forward(self, input: Any, target: Any) -> Tensor:
        """Return the loss."""
        return F.huber_loss(input, target, self.reduction, self.delta)
