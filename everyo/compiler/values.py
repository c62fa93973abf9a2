"""The elements of tensors from outside that a traced function reads as Python values.

Such a value decides what is traced, so that of a few elements is a guard: a call for which they are others
compiles another program. More of them are data, which belong into operations.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from everyo.core.tensor import Tensor
from everyo.core.traced import Traced, staged
from everyo.errors import CompileError, describe

if TYPE_CHECKING:
    from everyo.compiler.trace import Tracer

FEW = 64  # elements that are compared at each call


class Values:
    """What one trace has read of the elements of tensors from outside."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    @property
    def _level(self) -> int:
        """The level of the outermost trace, beneath which everything comes from outside."""
        tracer = self._tracer
        while tracer.parent is not None:
            tracer = tracer.parent
        return tracer.level

    def looked(self, x: Tensor, operation: str) -> None:
        """Note that the function reads the elements of a tensor, which may come from outside.

        Raises
        ------
        CompileError
            If they are many, or are read to be shown.
        """
        while isinstance(x.data, Traced) and x.data.level >= self._level:
            if not isinstance(x.data.below, Tensor):  # a constant of the program
                return
            x = x.data.below
        if operation == "print":
            raise _refused(x, operation, "eo.debug_print shows values at each call")
        if x.size > FEW:
            raise _refused(
                x, operation, "use operations on the tensor, or read it outside: a NumPy array is a constant"
            )
        owner = self._tracer.gradients.owner(x)
        if owner is None:
            self._tracer.guard(x, "elements", functools.partial(_elements, x))
        else:  # whose gradient is another tensor at each call
            self._tracer.guard(owner, "elements of grad", functools.partial(_gradient, owner))


def _elements(x: Tensor) -> tuple[Any, ...]:
    """Return what tells the elements of a tensor from others, NaN and signed zeros too."""
    if x.level:
        with staged(None):
            array = x._host("item")
    else:
        array = x.backend.to_numpy(x.data)
    return array.shape, array.dtype.str, array.tobytes()


def _gradient(x: Tensor) -> tuple[Any, ...] | None:
    return None if x.grad is None else _elements(x.grad)


def _refused(x: Tensor, operation: str, remedy: str) -> CompileError:
    return CompileError(
        "the function asks for the elements of a tensor from outside, which may be others at the next call",
        operation=operation,
        inputs=describe(x),
        expected=f"at most {FEW} elements, which are part of the program, or operations on the tensor",
        found=f"{operation} of a captured tensor of {x.size} elements",
        remedy=remedy,
    )
