"""Raw arrays of tensors from outside, ``x.data``, that the traced function puts others in the place of."""

from __future__ import annotations

from typing import Any

from everyo.core.tensor import Tensor
from everyo.errors import CompileError


class RawData:
    """What the data of tensors from outside were before, to put them back: no program would set them."""

    def __init__(self) -> None:
        self._noted: dict[int, tuple[Tensor, Any]] = {}

    def note(self, x: Tensor) -> None:
        """Remember the data of a tensor, unless it is noted already."""
        self._noted.setdefault(id(x), (x, x.data))

    def put_back(self) -> int:
        """Give the tensors their data back; return how many had others."""
        changed = 0
        for x, data in self._noted.values():
            if x.data is not data:
                x.data = data
                changed += 1
        self._noted = {}
        return changed


def refuse(changed: int) -> None:
    """Raise CompileError if data of tensors were replaced."""
    if changed:
        raise CompileError(
            f"the data of {changed} tensor(s) from outside were set, which would happen once, while the "
            "function is traced",
            operation="compile",
            expected="in-place statements, which the program repeats at each call",
            found="p.data = ...; the old data are there again",
            remedy="write `with eo.no_grad(): p -= lr * p.grad`, p[...] = value, or let an optimizer do it",
        )
