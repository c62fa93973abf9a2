"""Items of dicts outside of a traced function, numbers and arrays: read at each call, and written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from everyo.compiler.cells import ItemCell
from everyo.core.tensor import Tensor
from everyo.errors import CompileError, describe

if TYPE_CHECKING:
    from everyo.compiler.trace import Tracer


class Items:
    """What one trace reads and writes of dicts; the trace of a body reads through the one around it."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._held: dict[Any, tuple[ItemCell, Tensor]] = {}

    def read(self, container: Any, key: Any) -> Tensor:
        """Return an item as it is now."""
        tracer, place = self._tracer, (id(container), key)
        if tracer.parent is not None:
            return tracer.parent.item(container, key)
        if place not in self._held:
            cell = ItemCell(container, key)
            self._held[place] = cell, tracer.symbol(tracer.read(cell), weak=cell.is_number)
        return self._held[place][1]

    def put(self, container: Any, key: Any, value: Any) -> None:
        """Make an item take a value, now for what follows and at the end of each call.

        Raises
        ------
        CompileError
            If the value has another shape than the item, or a dtype of another kind.
        """
        tracer, old, new = self._tracer, self.read(container, key), None
        if tracer.mine(value) or not (isinstance(value, Tensor) and value.level):
            new = tracer.operand(value)
        if new is None or new.shape != old.shape or not np.can_cast(new.dtype, old.dtype, "same_kind"):
            raise CompileError(
                "an item takes a value of another kind than it has, which the program cannot write",
                operation=f"[{key!r}] = ...",
                expected=describe(old),
                found=describe(value),
                remedy="give it a value of that kind before the first call, such as 1.0 in place of 1",
            )
        new = tracer.cast(new, old.dtype) if new.dtype != old.dtype else new
        self._held[id(container), key] = ItemCell(container, key), tracer.symbol(new, old.data.weak)

    def finish(self) -> None:
        """Note which items have other values than before."""
        for cell, x in self._held.values():
            if self._tracer.mine(x) and x.data.value is not self._tracer.read(cell):
                self._tracer.write(cell, x.data.value)
        self._held.clear()
