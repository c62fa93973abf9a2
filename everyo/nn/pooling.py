"""Pooling layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everyo.nn import functional as F
from everyo.nn.module import Module

Size = int | Sequence[int]


class _Pooling(Module):
    """What pooling layers share."""

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride

    def extra_repr(self) -> str:
        """Return the window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool2d(_Pooling):
    """The maximum of each window, see `everyo.max_pool2d`.

    Parameters
    ----------
    kernel_size : int or a pair
        Size of the window.
    stride : int or a pair, optional
        Step from one window to the next; `kernel_size` by default.
    padding : int or a pair, default 0
        How far windows may reach over the edge; what is outside is never the maximum.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nn.MaxPool2d(2)(eo.ones((1, 3, 8, 8))).shape
    (1, 3, 4, 4)
    """

    def forward(self, input: Any) -> Any:
        """Return the maxima of `input`, shape ``(batch, channels, height, width)``."""
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding)


class AvgPool2d(_Pooling):
    """The mean of each window, see `everyo.avg_pool2d`.

    Parameters
    ----------
    kernel_size : int or a pair
        Size of the window.
    stride : int or a pair, optional
        Step from one window to the next; `kernel_size` by default.
    padding : int or a pair, default 0
        Zeros around the input.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.AvgPool2d(2)(eo.tensor([[[[1.0, 2.0], [3.0, 6.0]]]])))
    [[[[3.]]]]
    """

    def forward(self, input: Any) -> Any:
        """Return the means of `input`, shape ``(batch, channels, height, width)``."""
        return F.avg_pool2d(input, self.kernel_size, self.stride, self.padding)
