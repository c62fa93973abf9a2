"""Convolution layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everyo.errors import ArgumentError
from everyo.nn import functional as F
from everyo.nn.linear import start
from everyo.nn.module import Module
from everyo.nn.parameter import Parameter
from everyo.ops.creation import zeros
from everyo.ops.windows import per_axis

Size = int | Sequence[int]


class _Convolution(Module):
    """What convolution layers of every rank share."""

    rank: int
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
        *,
        generator: Any = None,
    ) -> None:
        super().__init__()
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(
                "the channels do not divide into the groups",
                operation=type(self).__name__,
                expected="in_channels and out_channels that are multiples of groups",
                found=f"in_channels={in_channels}, out_channels={out_channels}, groups={groups}",
                remedy="choose a divisor of both as groups",
            )
        kernel = per_axis(kernel_size, self.rank, 1, "kernel_size", type(self).__name__)
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        shape = (out_channels, in_channels // groups, *kernel)
        self.weight = Parameter(zeros(shape, device=device, dtype=dtype))
        self.bias = Parameter(zeros(out_channels, device=device, dtype=dtype)) if bias else None
        self.reset_parameters(generator)

    def reset_parameters(self, generator: Any = None) -> None:
        """Draw the initial values anew."""
        start(self.weight, self.bias, generator)

    def _options(self) -> tuple[Any, ...]:
        return self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups

    def extra_repr(self) -> str:
        """Return channels, kernel size and what differs from the defaults."""
        rows = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        ]
        rows += [f"{k}={getattr(self, k)}" for k, v in _QUIET.items() if getattr(self, k) != v]
        return ", ".join(rows if self.bias is not None else [*rows, "bias=False"])


_QUIET = {"padding": 0, "dilation": 1, "groups": 1}


class Conv1d(_Convolution):
    """Convolution over one spatial axis, see `everyo.conv1d`.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels of input and output.
    kernel_size : int
        Size of the window.
    stride, dilation : int, default 1
        Step from one window to the next, and between the elements of a window.
    padding : int, "same" or "valid", default 0
        Zeros around the input.
    groups : int, default 1
        Into how many parts the channels are divided; each part sees its own.
    bias : bool, default True
        Whether to add a bias to each output channel.
    device, dtype : optional
        Of the parameters.
    generator : eo.random.Generator, optional
        Draws the initial values, uniform within ``1 / sqrt(fan_in)``.

    Attributes
    ----------
    weight : Parameter
        Shape ``(out_channels, in_channels / groups, kernel_size)``.
    bias : Parameter or None
        Shape ``(out_channels,)``.

    Raises
    ------
    ArgumentError
        If the channels are not multiples of `groups`, or `kernel_size` does not suit the axis.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nn.Conv1d(1, 4, kernel_size=3, padding=1)(eo.ones((2, 1, 8))).shape
    (2, 4, 8)
    """

    rank = 1

    def forward(self, input: Any) -> Any:
        """Return the convolution of `input`, shape ``(batch, in_channels, length)``."""
        return F.conv1d(input, *self._options())


class Conv2d(_Convolution):
    """Convolution over two spatial axes, see `everyo.conv2d`.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels of input and output.
    kernel_size : int or a pair
        Size of the window.
    stride, dilation : int or a pair, default 1
        Step from one window to the next, and between the elements of a window.
    padding : int or a pair, "same" or "valid", default 0
        Zeros around the input.
    groups : int, default 1
        Into how many parts the channels are divided; each part sees its own.
    bias : bool, default True
        Whether to add a bias to each output channel.
    device, dtype : optional
        Of the parameters.
    generator : eo.random.Generator, optional
        Draws the initial values, uniform within ``1 / sqrt(fan_in)``.

    Attributes
    ----------
    weight : Parameter
        Shape ``(out_channels, in_channels / groups, *kernel_size)``.
    bias : Parameter or None
        Shape ``(out_channels,)``.

    Raises
    ------
    ArgumentError
        If the channels are not multiples of `groups`, or `kernel_size` does not suit the axes.

    Examples
    --------
    >>> import everyo as eo
    >>> layer = eo.nn.Conv2d(1, 4, kernel_size=3, padding=1)
    >>> layer(eo.ones((2, 1, 8, 8))).shape
    (2, 4, 8, 8)
    """

    rank = 2

    def forward(self, input: Any) -> Any:
        """Return the convolution of `input`, shape ``(batch, in_channels, height, width)``."""
        return F.conv2d(input, *self._options())
