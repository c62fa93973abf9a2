"""What `detect_anomaly` checks in a backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from everyo.core.cotangents import Partial
from everyo.core.device import backend_of
from everyo.core.tape import Node
from everyo.core.tensor import Tensor
from everyo.errors import GraphStateError, NonFiniteGradientError, describe


def _host(value: Any) -> Any:
    """Return a raw array or tensor as a NumPy array, None for anything else."""
    value = value.settle() if isinstance(value, Partial) else value
    value = value.data if isinstance(value, Tensor) else value
    backend = backend_of(value)
    return None if backend is None else np.asarray(backend.to_numpy(value))


def checksums(saved: Sequence[Any]) -> list[int]:
    """Return a checksum of each saved array."""
    import zlib

    sums = []
    for value in saved:
        for item in value if isinstance(value, tuple) else (value,):
            array = _host(item)
            sums.append(0 if array is None else zlib.crc32(np.ascontiguousarray(array).tobytes()))
    return sums


def _called(node: Node) -> str:
    """Return the name of the function that the user called, where the primitive is part of one alone."""
    plan = getattr(node, "plan", None)
    return node.name if plan is None else plan.primitive.options.get("called", node.name)


def check_unchanged(node: Node) -> None:
    """Raise GraphStateError if an array that `node` saved was overwritten since the forward pass."""
    if node.extras is not None and checksums(node.saved) != node.extras.checksums:
        raise GraphStateError(
            "an array saved in the forward pass was overwritten before the backward pass",
            operation=node.name,
            expected="the saved values unchanged",
            found="other values in memory shared with NumPy",
            remedy="copy the array (eo.tensor copies), or overwrite it after the backward pass",
            line=node.line or None,
        )


def check_finite(node: Node, cotangents: Sequence[Any]) -> None:
    """Raise NonFiniteGradientError if a rule produced a NaN or an infinity."""
    for cotangent in cotangents:
        for item in cotangent.values() if isinstance(cotangent, dict) else (cotangent,):
            array = None if item is None else _host(item)
            if array is None or array.dtype.kind not in "fc" or np.isfinite(array).all():
                continue
            first = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            raise NonFiniteGradientError(
                f"its gradient rule produced {array[first]} at index {first}",
                operation=_called(node),
                inputs=describe(array),
                expected="finite values",
                found=f"{int((~np.isfinite(array)).sum())} of {array.size} values are not finite",
                remedy="look at the inputs of the forward call on the line below",
                line=node.line or None,
            )
