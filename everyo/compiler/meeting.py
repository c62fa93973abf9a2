"""What a Python number becomes where it meets tensors, while a function is traced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from everyo.core.primitive import Primitive


def met(primitive: Primitive, dtypes: Sequence[Any], kind: type, x: Any, made: Any) -> Any:
    """Return the dtype that a number takes beside others; None for one that holds it.

    An integer that is compared, or asked whether it is zero, and one beside integers of which an operation
    makes floats, need not fit into the dtype of the others.
    """
    dtype = np.result_type(*dtypes, kind(1))
    if kind is not int or dtype.kind not in "iu" or not primitive.broadcasts:
        return dtype
    if made.kind == "b":
        return dtype if type(x) is int and x in range(*ends(dtype)) else None
    return made if made.kind == "f" else dtype


def ends(dtype: Any) -> tuple[int, int]:
    """Return the least integer of a dtype, and the first beyond it."""
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max) + 1


def in_own(number: Any) -> Any:
    """Return a number in its own dtype; an integer beyond 64 bits, which is only compared, as infinite."""
    if type(number) is int and not -(2**63) <= number < 2**64:
        return np.asarray(math.inf if number > 0 else -math.inf)
    return np.asarray(number)


def in_dtype(number: Any, dtype: Any) -> Any:
    """Return a number in a dtype; an integer that another one cannot hold wraps around, as in `where`."""
    return np.asarray(number).astype(dtype)
