"""What one compilation made: a program, its relation to the function, the state that it reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from everyo.compiler.cells import DataCell
from everyo.compiler.program import Program
from everyo.compiler.trace import Tracer
from everyo.core.dispatch import apply, wrap
from everyo.core.dtypes import get_default_dtype
from everyo.core.modes import current_mode
from everyo.core.primitive import Primitive
from everyo.core.tensor import Tensor
from everyo.core.traced import Traced, staging
from everyo.errors import ArgumentError
from everyo.ops.creation import as_tensor
from everyo.transforms.trees import unflatten


class Entry:
    """A program with what it was compiled for.

    Attributes
    ----------
    program, primitive : Program and Primitive
        The machine code, and the same as an operation that has derivatives.
    structure, count : pytree structure and int
        Of the results, which come first among the program's outputs.
    changed : list of int
        Arguments that the function changes in place; their new values come next, then those of cells.
    tracked : bool
        Whether what comes out can be differentiated with respect to what is outside.
    given, nested
        The structure of the arguments, where all leaves are tensors; whether some of them are in containers.
    static, length
        The static arguments by their positions, and the count of all arguments, where that tells the program.
    """

    def __init__(
        self,
        program: Program,
        primitive: Primitive,
        tracer: Tracer,
        structure: Any,
        count: int,
        changed: Sequence[int],
        tracked: bool,
    ) -> None:
        self.program, self.primitive = program, primitive
        self.cells = [cell for cell, _ in tracer.cells.values()]
        self.writes = [cell for cell, _ in tracer.writes]
        self.cleared = tracer.cleared
        self.structure, self.count, self.changed = structure, count, list(changed)
        self.width = len(program.graph.inputs) - len(self.cells)
        self.outside = bool(self.cells or self.writes or self.cleared or changed)
        self.grad, self.default = current_mode().grad, get_default_dtype()
        self.tracked = tracked or any(isinstance(c, DataCell) and bool(c.node) for c in self.writes)
        self.guards: list[tuple[Callable[[], Any], Any]] = list(tracer.guards.values())
        self._without = tracer.gradients.guards  # tensors, and whether they held no gradient
        self._leaves = [
            (c.x, c.x.grad_node is None) for c in self.cells if self.grad and isinstance(c, DataCell)
        ]
        self._outside = frozenset(id(c.x) for c in self.cells if isinstance(c, DataCell))
        self._inside = frozenset(id(c.x) for c in self.writes if isinstance(c, DataCell))
        self.given: Any = None
        self.nested = False
        self.static: dict[int, Any] = {}
        self.length = 0

    def attempt(self, arrays: list[Any]) -> Any:
        """Return the results for the arrays of tensors that need no gradient; None if another way is due."""
        if self.outside or self.guards or self._without or current_mode().grad is not self.grad:
            return None
        if get_default_dtype() is not self.default:
            return None
        results = self.program.attempt(tuple(arrays))
        if results is None:
            return None
        if self.structure is None:
            return wrap(results[0])
        return unflatten(self.structure, [wrap(array) for array in results])

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether the static ones among the arguments are those that were compiled."""
        if len(args) != self.length:
            return False
        return all(type(args[i]) is type(x) and args[i] == x for i, x in self.static.items())

    def holds(self) -> bool:
        """Whether what was taken for constant still is, and what is outside has its shapes and dtypes."""
        for read, value in self.guards:
            if read() != value:
                return False
        for x, constant in self._leaves:
            if (x.grad_node is None) is not constant:
                return False
        for x, without in self._without:
            if (x.grad is None) is not without:
                return False
        for cell, value in zip(self.cells, self.program.graph.inputs[self.width :], strict=True):
            array = cell.get()
            if array is None or array.shape != value.shape or array.dtype.type is not value.dtype.type:
                return False
        return True

    def run(self, leaves: Sequence[Any]) -> Any:
        """Return the results for leaves of the kinds that were compiled."""
        if self.changed or self.writes:
            self._refuse_aliases(leaves)
        arrays = [x.data if isinstance(x, Tensor) else np.asarray(x) for x in leaves]
        arrays += [cell.get() for cell in self.cells]
        if (
            staging.get() is not None
            or any(isinstance(a, Traced) for a in arrays)
            or (self.grad and any(map(_requires_grad, leaves)))
            or (self.grad and self.tracked and any(_requires_grad(c.tensor) for c in self.cells))
        ):
            tensors = [
                *(as_tensor(x) for x in leaves),
                *(wrap(c.get()) if c.tensor is None else c.tensor for c in self.cells),
            ]
            out = apply(self.primitive, tensors)
            results = list(out) if isinstance(out, tuple) else [out]
        else:
            results = [wrap(array) for array in self.program(tuple(arrays))]
        del arrays
        if self.outside:
            self._write(leaves, results[self.count :])
        return unflatten(self.structure, results[: self.count])

    def _refuse_aliases(self, leaves: Sequence[Any]) -> None:
        """Raise where the function changes a tensor that it also reaches by another way: it saw two."""
        given = [id(x) for x in leaves if isinstance(x, (Tensor, np.ndarray))]
        changed = [id(leaves[i]) for i in self.changed]
        twice = any(given.count(x) > 1 or x in self._outside for x in changed)
        if twice or not self._inside.isdisjoint(given):
            raise ArgumentError(
                "the function changes a tensor in place that it is given twice, or also reaches from outside",
                operation="compile",
                expected="one way to a tensor that changes",
                found="an argument that is the same tensor",
                remedy="pass it once, or pass a copy: x.clone()",
            )

    def _write(self, leaves: Sequence[Any], results: Sequence[Tensor]) -> None:
        """Put what the program has computed for them into arguments and cells."""
        for i, result in zip(self.changed, results, strict=False):
            if isinstance(leaves[i], Tensor):
                leaves[i].assign(result)
            else:
                np.copyto(leaves[i], result.data)
        before = [cell.get() for cell in self.writes]
        for cell, result in zip(
            self.writes, results[len(self.changed) :], strict=False
        ):  # then numbers drawn
            cell.set(result)
        for x in self.cleared:
            x.grad = None
        self._keep(before)

    def _keep(self, before: list[Any]) -> None:
        """Let the program use the memory of old states again, where nobody else holds it."""
        while before:
            array = before.pop()
            if getrefcount(array) == 2:  # this name and the argument: nobody else has the old state
                self.program.keep(array)


def _requires_grad(x: Any) -> bool:
    return isinstance(x, Tensor) and x.grad_node is not None
