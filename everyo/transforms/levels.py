"""What the transformations share: going down a level and up again."""

from __future__ import annotations

from typing import Any

from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import Traced, staging


def lower(x: Any) -> Any:
    """Return an operand as the level below computes with it: a plain eager tensor may as well be raw.

    While a function is compiled it may not: a program reads captured tensors anew at each call.
    """
    if isinstance(x, Tensor) and x.grad_node is None and not isinstance(x.data, Traced):
        return x.data if staging.get() is None else x
    return x


def raised(value: Any) -> Tensor:
    """Return a value of a lower level as a tensor."""
    return value if isinstance(value, Tensor) else wrap(value)
