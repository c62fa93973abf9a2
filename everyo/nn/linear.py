"""Layers that multiply by a matrix, or pass their input on."""

from __future__ import annotations

import math
from typing import Any

from everyo.nn import functional as F
from everyo.nn import init
from everyo.nn.module import Module
from everyo.nn.parameter import Parameter
from everyo.ops.creation import zeros


class Identity(Module):
    """Returns its input; takes a layer's place. Arguments are accepted and ignored.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.Identity()(eo.tensor([1.0, 2.0])))
    [1. 2.]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """Return `input`."""
        return input


class Linear(Module):
    """``y = x @ weight.T + bias``.

    Parameters
    ----------
    in_features, out_features : int
        Lengths of the last axis of input and output.
    bias : bool, default True
        Whether to add a bias.
    device, dtype : optional
        Of the parameters.
    generator : eo.random.Generator, optional
        Draws the initial values, uniform within ``1 / sqrt(in_features)``.

    Attributes
    ----------
    weight : Parameter
        Shape ``(out_features, in_features)``.
    bias : Parameter or None
        Shape ``(out_features,)``.

    Raises
    ------
    ShapeError
        If a size is negative.
    DTypeError
        If a size is no integer, or the dtype no float.
    DeviceError
        If there is no such device.

    Examples
    --------
    >>> import everyo as eo
    >>> layer = eo.nn.Linear(3, 2)
    >>> layer(eo.ones((5, 3))).shape
    (5, 2)
    """

    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
        *,
        generator: Any = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(zeros((out_features, in_features), device=device, dtype=dtype))
        self.bias = Parameter(zeros(out_features, device=device, dtype=dtype)) if bias else None
        self.reset_parameters(generator)

    def reset_parameters(self, generator: Any = None) -> None:
        """Draw the initial values anew."""
        start(self.weight, self.bias, generator)

    def forward(self, input: Any) -> Any:
        """Return the product plus the bias; `input` has shape ``(..., in_features)``."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


def start(weight: Parameter, bias: Parameter | None, generator: Any) -> None:
    """Draw weight and bias uniformly within ``1 / sqrt(fan_in)``, as PyTorch's layers start."""
    init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)
    if bias is not None:
        bound = 1 / math.sqrt(max(math.prod(weight.shape[1:]), 1))
        init.uniform_(bias, -bound, bound, generator)
