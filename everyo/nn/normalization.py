"""Normalization: layers that standardize what passes through them."""

from __future__ import annotations

from typing import Any

from everyo.nn import functional as F
from everyo.nn import init
from everyo.nn.module import Module
from everyo.nn.parameter import Parameter
from everyo.ops.axes import as_integers
from everyo.ops.creation import ones, real_number, zeros


class LayerNorm(Module):
    """Standardizes each example over its last axes, then scales and shifts each feature.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The shape of an example's features, the last axes of the input.
    eps : float, default 1e-5
        Added to the variance.
    elementwise_affine : bool, default True
        Whether features are scaled and shifted.
    bias : bool, default True
        Whether they are shifted, where they are scaled.
    device, dtype : optional
        Of the parameters.

    Attributes
    ----------
    weight, bias : Parameter or None
        Shape ``normalized_shape``; ones and zeros at first.

    Raises
    ------
    DTypeError
        If `normalized_shape` is not of integers, `eps` no number, or the dtype no float.
    DeviceError
        If there is no such device.

    Examples
    --------
    >>> import everyo as eo
    >>> layer = eo.nn.LayerNorm(2)
    >>> print(eo.round(layer(eo.tensor([[1.0, 3.0]])).detach(), 3))
    [[-1.  1.]]
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = self.normalized_shape = as_integers(normalized_shape, "normalized_shape", "LayerNorm")
        self.eps, self.elementwise_affine = real_number(eps, "LayerNorm", "eps"), elementwise_affine
        scaled, shifted = elementwise_affine, elementwise_affine and bias
        self.weight = Parameter(ones(shape, device=device, dtype=dtype)) if scaled else None
        self.bias = Parameter(zeros(shape, device=device, dtype=dtype)) if shifted else None

    def reset_parameters(self) -> None:
        """Set scale and shift back to ones and zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Any) -> Any:
        """Return `input`, standardized."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the shape and the options."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
