"""The `grad` of tensors from outside, while a function is traced: what is looked at, and what is changed.

Whether a tensor holds a gradient decides what a backward pass does with a new one, so it is part of the
program where the function looks before it has set the gradient itself. While any function is traced, `grad`
is a property that tells the tracer; at all other times it is the plain slot.
"""

from __future__ import annotations

import _thread
from collections.abc import Sequence
from typing import Any

from everyo.compiler import attributes
from everyo.core.tape import next_age
from everyo.core.tensor import Tensor
from everyo.core.traced import staging

_slot: Any = Tensor.__dict__["grad"]
_guard = _thread.allocate_lock()
_watches = 0


def _get(x: Tensor) -> Tensor | None:
    tracer = staging.get()
    if tracer is not None:
        tracer.gradients.looked(x)
    return _slot.__get__(x)


def _set(x: Tensor, value: Tensor | None) -> None:
    tracer = staging.get()
    if tracer is not None:
        tracer.gradients.changing(x)
    _slot.__set__(x, value)


_watched = property(_get, _set, doc=_slot.__doc__)


def watch() -> None:
    """Let tracers know who looks at gradients and changes them, and who reads attributes of modules."""
    global _watches
    with _guard:
        _watches += 1
        type.__setattr__(Tensor, "grad", _watched)
        attributes.watch()


def unwatch() -> None:
    """The counterpart of `watch`."""
    global _watches
    with _guard:
        _watches -= 1
        if not _watches:
            type.__setattr__(Tensor, "grad", _slot)
            attributes.unwatch()


class Gradients:
    """What one trace did to the gradients of tensors from outside.

    Attributes
    ----------
    guards : list of (Tensor, bool)
        Tensors that were looked at first, with whether they held no gradient.
    """

    def __init__(self, tracer: Any) -> None:
        self._tracer, self.born = tracer, next_age()
        self._before: dict[int, tuple[Tensor, Tensor | None]] = {}
        self._changed: set[int] = set()
        self._owners: dict[int, Tensor] = {}
        self.guards: list[tuple[Tensor, bool]] = []

    def looked(self, x: Tensor) -> None:
        """Note that the function asks what gradient `x` has."""
        if id(x) in self._before or not self._note(x):
            return
        if self._tracer.parent is not None:
            self._tracer.parent.gradients.looked(x)
        elif x.grad_node is None or x.grad_node.age < self.born:  # none of a leaf that the function has made
            self.guards.append((x, self._before[id(x)][1] is None))

    def changing(self, x: Tensor) -> None:
        """Note that the function is about to set the gradient of `x`."""
        if id(x) in self._before or self._note(x):
            self._changed.add(id(x))

    def made(self, leaf: Any) -> bool:
        """Whether the function has made a leaf itself, anew at each call."""
        return bool(leaf.age >= self.born)

    def owner(self, gradient: Tensor | None) -> Tensor | None:
        """Return the tensor that held `gradient` before the trace, if one is known."""
        return self._owners.get(id(gradient))

    def _note(self, x: Tensor) -> bool:
        """Remember the gradient of a tensor from outside; False for a tensor that the trace has made."""
        try:
            gradient = _slot.__get__(x)
        except AttributeError:  # it is being made
            return False
        if not hasattr(x, "data") or (x.level and not self._tracer.adopts(x)):
            return False
        self._before[id(x)] = x, gradient
        if gradient is not None:
            self._owners[id(gradient)] = x
        return True

    def put_back(self) -> tuple[list[tuple[Tensor, Tensor]], list[Tensor]]:
        """Give all tensors their gradients back; return what was set, and which were left without one."""
        written, cleared = [], []
        for place, (x, before) in self._before.items():
            after = _slot.__get__(x)
            if after is None and place in self._changed:
                cleared.append(x)
            elif after is not None and after is not before:
                written.append((x, after))
            _slot.__set__(x, before)
        return written, cleared

    def forget(self, read: Sequence[Tensor]) -> None:
        """Let go of tensors that were looked at, and of what hooks of the function's own leaves lead to."""
        self._before, self._owners = {}, {}
        for x in read:
            if x.grad_node is not None and x.grad_node.is_leaf and self.made(x.grad_node):
                x.grad_node.extras = None
