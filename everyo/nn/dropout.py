"""Dropout: random zeros in training."""

from __future__ import annotations

from typing import Any

from everyo.errors import ArgumentError
from everyo.nn import functional as F
from everyo.nn.module import Module


class Dropout(Module):
    """In training sets elements to zero with probability `p` and scales the others by ``1 / (1 - p)``.

    Parameters
    ----------
    p : float, default 0.5
        The probability, from 0 to 1.
    generator : eo.random.Generator, optional
        The source of randomness; the default one, which `eo.manual_seed` seeds, if not given.

    Raises
    ------
    ArgumentError
        If `p` is not a probability.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.Dropout(0.5).eval()(eo.ones(2)))
    [1. 1.]
    """

    def __init__(self, p: float = 0.5, *, generator: Any = None) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ArgumentError(
                "p is not a probability", operation="Dropout", expected="0 <= p <= 1", found=repr(p)
            )
        self.p, self.generator = p, generator

    def forward(self, input: Any) -> Any:
        """Return `input`, thinned out in training."""
        return F.dropout(input, self.p, self.training, self.generator)

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}"
