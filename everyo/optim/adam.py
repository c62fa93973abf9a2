"""Adam and AdamW."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from everyo.core.registry import op
from everyo.errors import ArgumentError, DTypeError
from everyo.optim.optimizer import Optimizer, State, of_arguments, require


class Adam(Optimizer):
    """Adam: steps scaled by running moments of the gradient.

    With gradient ``g`` (plus ``weight_decay * p``) at step ``t = 1, 2, ...``: ``m = b1*m + (1-b1)*g``,
    ``v = b2*v + (1-b2)*g*g``, ``p -= lr * m/(1-b1**t) / (sqrt(v/(1-b2**t)) + eps)`` (Kingma and Ba, 2015).

    Parameters
    ----------
    params : iterable
        Parameters or groups, see `Optimizer`.
    lr : float, default 1e-3
        The learning rate.
    betas : tuple of float, default (0.9, 0.999)
        ``b1`` and ``b2``.
    eps : float, default 1e-8
        Keeps the denominator from zero.
    weight_decay : float, default 0
        Added to the gradient as an L2 penalty.
    amsgrad : bool, default False
        Use the largest ``v`` so far (Reddi, Kale and Kumar, 2018).
    maximize : bool, default False
        Ascend instead.

    Raises
    ------
    ArgumentError
        If an option is out of range.
    DTypeError
        If a parameter is complex: its moments would need two real parts.

    Examples
    --------
    >>> import everyo as eo
    >>> p = eo.tensor([1.0], requires_grad=True)
    >>> optimizer = eo.optim.Adam([p], lr=0.1)
    >>> (p * 3).backward()
    >>> optimizer.step()
    >>> print(p.detach())
    [0.9]
    """

    decoupled = False  # whether weight decay shrinks the parameter itself

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
            },
        )

    def check(self, group: dict[str, Any]) -> None:
        """Raise ArgumentError if an option of `group` is out of range, DTypeError for complex parameters."""
        name = type(self).__name__
        for option in ("lr", "eps", "weight_decay"):
            require(option, group[option], 0, math.inf, name)
        betas = group["betas"]
        if not isinstance(betas, (tuple, list)) or len(betas) != 2:
            raise ArgumentError(
                "betas are two numbers", operation=name, expected="(beta1, beta2)", found=repr(betas)
            )
        for i, beta in enumerate(betas):
            require(f"betas[{i}]", beta, 0, 1, name)
        if any(p.dtype.kind == "c" for p in group["params"]):
            raise DTypeError(
                "complex parameters are not supported",
                operation=name,
                expected="real parameters",
                found="a complex one",
                remedy="use SGD, or keep real and imaginary part as two parameters",
            )

    def arrays(self, group: dict[str, Any]) -> tuple[str, ...]:
        """Return what is kept: the two moments, and the largest second one if it is asked for."""
        return ("exp_avg", "exp_avg_sq") + (("max_exp_avg_sq",) if group["amsgrad"] else ())

    @of_arguments
    def update(self, value: Any, gradient: Any, state: State, group: dict[str, Any]) -> Any:
        """Return the next value."""
        lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
        if group["maximize"]:
            gradient = -gradient
        if decay and self.decoupled:
            value *= 1 - lr * decay
        elif decay:
            gradient = gradient + decay * value
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean *= beta1
        mean += (1 - beta1) * gradient
        square *= beta2
        square += (1 - beta2) * (gradient * gradient)
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"] = op.maximum(state["max_exp_avg_sq"], square)
        denominator = op.sqrt(square)
        denominator /= _root(1 - beta2 ** state["step"])
        denominator += group["eps"]
        change = mean / denominator
        change *= lr / (1 - beta1 ** state["step"])
        value -= change
        return value


def _root(x: Any) -> Any:
    """Return the square root of a number, or of the tensor that it is while a step is compiled."""
    return math.sqrt(x) if isinstance(x, float) else x**0.5  # a power of a number stays a number


class AdamW(Adam):
    """Adam with decoupled weight decay: ``p *= 1 - lr * weight_decay`` comes before the step.

    Source: Loshchilov and Hutter (2019), Decoupled weight decay regularization.

    Parameters
    ----------
    params : iterable
        Parameters or groups, see `Optimizer`.
    lr : float, default 1e-3
        The learning rate.
    betas : tuple of float, default (0.9, 0.999)
        Decay of the running moments.
    eps : float, default 1e-8
        Keeps the denominator from zero.
    weight_decay : float, default 0.01
        As in the formula.
    amsgrad : bool, default False
        Use the largest second moment so far.
    maximize : bool, default False
        Ascend instead.

    Raises
    ------
    ArgumentError
        If an option is out of range.
    DTypeError
        If a parameter is complex: its moments would need two real parts.

    Examples
    --------
    >>> import everyo as eo
    >>> p = eo.tensor([1.0], requires_grad=True)
    >>> optimizer = eo.optim.AdamW([p], lr=0.1, weight_decay=0.1)
    >>> (p * 3).backward()
    >>> optimizer.step()
    >>> print(p.detach())
    [0.89]
    """

    decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
