"""Who may write into an array: a buffer is reused only when nothing but its tensor holds it."""

from __future__ import annotations

import sys
from typing import Any

from everyo.core.tensor import Tensor

_count = getattr(sys, "getrefcount", None)


def _holders(tensor: Tensor) -> int:
    return _count(tensor.data) if _count is not None else -1


def sole_owner(tensor: Tensor) -> bool:
    """Return whether the tensor's array may be overwritten without anybody noticing.

    CPython counts every holder: a graph that saved the array, another tensor, a view of it. A caller
    must not hold ``tensor.data`` in a variable, which counts too. Threads that change one and the same
    tensor object while others read it need a lock of their own: a reader may come after the count.
    """
    if _holders(tensor) != _ALONE:
        return False
    flags = getattr(tensor.data, "flags", None)
    return flags is not None and bool(getattr(flags, "owndata", False) and getattr(flags, "writeable", True))


def _alone() -> int:
    """Return what `_holders` counts for an array that only its tensor holds; 0 where counts say nothing."""
    free_threaded = not getattr(sys, "_is_gil_enabled", lambda: True)()
    if _count is None or free_threaded:
        return 0
    probe: Any = Tensor()
    probe.data = object()
    return _holders(probe)


_ALONE = _alone()
