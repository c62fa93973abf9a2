"""Activation functions as modules; the functions themselves are in `everyo` and `nn.functional`."""

from __future__ import annotations

from typing import Any

from everyo.nn import functional as F
from everyo.nn.module import Module


class ReLU(Module):
    """``max(x, 0)``, see `everyo.relu`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.ReLU()(eo.tensor([-1.0, 2.0])))
    [0. 2.]
    """

    def forward(self, input: Any) -> Any:
        """Return the function of `input`, elementwise."""
        return F.relu(input)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``, see `everyo.sigmoid`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.Sigmoid()(eo.tensor([0.0])))
    [0.5]
    """

    def forward(self, input: Any) -> Any:
        """Return the function of `input`, elementwise."""
        return F.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent, see `everyo.tanh`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.Tanh()(eo.tensor([0.0])))
    [0.]
    """

    def forward(self, input: Any) -> Any:
        """Return the function of `input`, elementwise."""
        return F.tanh(input)


class SiLU(Module):
    """``x * sigmoid(x)``, see `everyo.silu`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.SiLU()(eo.tensor([0.0, 1.0])))
    [0.        0.7310586]
    """

    def forward(self, input: Any) -> Any:
        """Return the function of `input`, elementwise."""
        return F.silu(input)


class GELU(Module):
    """``x`` times the normal distribution function of ``x``, see `everyo.gelu`.

    Parameters
    ----------
    approximate : {"none", "tanh"}
        Exact, or by a tanh.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.GELU()(eo.tensor([0.0, 1.0])))
    [0.        0.8413448]
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        """Return the function of `input`, elementwise."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Return the kind."""
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``, a smooth ReLU, see `everyo.softplus`.

    Parameters
    ----------
    beta : float, default 1
        How sharp the bend is.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.Softplus()(eo.tensor([0.0])))
    [0.6931472]
    """

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = beta

    def forward(self, input: Any) -> Any:
        """Return the function of `input`, elementwise."""
        return F.softplus(input, beta=self.beta)

    def extra_repr(self) -> str:
        """Return beta."""
        return f"beta={self.beta}"
