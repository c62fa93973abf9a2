"""Stochastic gradient descent."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from everyo.errors import ArgumentError
from everyo.optim.optimizer import Optimizer, State, of_arguments, require


class SGD(Optimizer):
    """Stochastic gradient descent, optionally with momentum.

    With gradient ``g`` (plus ``weight_decay * p``): ``b = momentum * b + (1 - dampening) * g``, where the
    first ``b`` is ``g``; then ``p -= lr * b``, or under `nesterov` ``p -= lr * (g + momentum * b)``.

    Parameters
    ----------
    params : iterable
        Parameters or groups, see `Optimizer`.
    lr : float, default 1e-3
        The learning rate.
    momentum, dampening, weight_decay : float, default 0
        As in the formula.
    nesterov : bool, default False
        Nesterov's momentum.
    maximize : bool, default False
        Ascend instead.

    Raises
    ------
    ArgumentError
        If an option is out of range.

    Examples
    --------
    >>> import everyo as eo
    >>> p = eo.tensor([1.0], requires_grad=True)
    >>> optimizer = eo.optim.SGD([p], lr=0.5)
    >>> (p * 3).backward()
    >>> optimizer.step()
    >>> print(p.detach())
    [-0.5]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
            },
        )

    def check(self, group: dict[str, Any]) -> None:
        """Raise ArgumentError if the options of `group` are out of range."""
        for name in ("lr", "momentum", "weight_decay"):
            require(name, group[name], 0, math.inf, "SGD")
        if group["nesterov"] and (group["momentum"] == 0 or group["dampening"] != 0):
            raise ArgumentError(
                "nesterov needs momentum, without dampening",
                operation="SGD",
                expected="momentum > 0 and dampening = 0",
                found=f"momentum={group['momentum']!r}, dampening={group['dampening']!r}",
            )

    def arrays(self, group: dict[str, Any]) -> tuple[str, ...]:
        """Return what is kept: the momentum, if there is any."""
        return ("momentum_buffer",) if group["momentum"] else ()

    @of_arguments
    def update(self, value: Any, gradient: Any, state: State, group: dict[str, Any]) -> Any:
        """Return the next value."""
        if group["maximize"]:
            gradient = -gradient
        if group["weight_decay"]:
            gradient = gradient + group["weight_decay"] * value
        if group["momentum"]:
            buffer = state["momentum_buffer"]
            buffer *= group["momentum"]
            if group["dampening"]:
                gradient = (1 - group["dampening"] * (state["step"] != 1)) * gradient
            buffer += gradient
            gradient = gradient + group["momentum"] * buffer if group["nesterov"] else buffer
        value -= group["lr"] * gradient
        return value
