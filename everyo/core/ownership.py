"""What may be written into: arrays that only one tensor holds, and tensors of shape () that are no results.

As NumPy's scalars, what an operation has made of shape () never changes: ``x += v`` gives the name another
tensor. It changes the object of all others, as it does arrays: of what was made by `eo.tensor`, `eo.zeros`,
`eo.copy` and the like, of parameters, and of gradients.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from everyo.core.tensor import Tensor
from everyo.core.traced import staging

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


def changeable(x: Tensor) -> Tensor:
    """Return a new tensor as one that ``x += v`` changes, whatever its shape."""
    if not x.shape:
        x.mutable = True
    return x


def as_changeable(new: Tensor, x: Any) -> Tensor:
    """Return a tensor that stands for `x` as one that ``x += v`` changes if it changes `x`."""
    if staging.get() is None:
        return changeable(new) if is_changeable(x) else new
    if not new.shape:
        new.mutable = functools.partial(is_changeable, x)  # if need be: the answer is a guard of the program
    return new


def is_changeable(x: Any) -> bool:
    """Whether ``x += v`` changes the object of a tensor or array."""
    if not isinstance(x, Tensor):
        return hasattr(x, "__setitem__")  # as NumPy's scalars have not
    if x.shape or (x.grad_node is not None and x.grad_node.is_leaf):
        return True
    known = getattr(x, "mutable", False)
    return known() if callable(known) else known
