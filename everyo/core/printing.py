"""How a tensor shows itself: values, dtype, shape and grad state."""

from __future__ import annotations

import sys

import numpy as np

from everyo.core.tensor import Tensor
from everyo.errors import CompileError


def represent(tensor: Tensor) -> str:
    """Return the repr: enough to see what it is, and never a claim that it can be evaluated."""
    name = type(tensor).__name__
    try:
        body = np.array2string(tensor._host("print"), separator=", ", prefix=name.lower() + "(")
    except CompileError:
        if not sys._getframe(2).f_globals.get("__name__", "").startswith("everyo."):
            raise
        body = "..."  # an error of ours tells of a tensor that has no values yet
    details = [f"dtype={tensor.dtype}", f"shape={tuple(tensor.shape)}"]
    if tensor.device != "cpu":
        details.append(f"device={tensor.device!r}")
    node = tensor.grad_node
    if node is not None:
        details.append("requires_grad=True" if node.is_leaf else f"grad_node=<{node.name}>")
    return f"{name.lower()}({body}, {', '.join(details)})"
