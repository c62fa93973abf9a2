"""Flatten: several axes become one."""

from __future__ import annotations

from typing import Any

from everyo.nn import functional as F
from everyo.nn.module import Module


class Flatten(Module):
    """Joins the axes from `start_dim` to `end_dim`; by default all but the batch axis.

    Parameters
    ----------
    start_dim, end_dim : int, default 1 and -1
        The first and the last axis to join.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nn.Flatten()(eo.ones((2, 3, 4, 4))).shape
    (2, 48)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Any) -> Any:
        """Return `input` with those axes joined."""
        return F.flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Return the axes."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
