"""What one compilation made: a program, its relation to the function, the state that it reads and writes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np
from optree import tree_flatten

from everyo.compiler.asked import now
from everyo.compiler.cells import DataCell
from everyo.compiler.direct import Door, door
from everyo.compiler.program import LARGE, Program
from everyo.compiler.states import Call, State, carry_out, counts_holders, replacing
from everyo.compiler.symbols import stand_in
from everyo.compiler.trace import Tracer
from everyo.core.dispatch import apply
from everyo.core.dtypes import get_default_dtype
from everyo.core.modes import current_mode
from everyo.core.operands import WEAK
from everyo.core.primitive import Primitive
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import Traced, staging
from everyo.errors import ArgumentError
from everyo.ops.creation import as_tensor
from everyo.transforms.trees import EXACT, unflatten

EFFORT = 10_000  # steps for the question whether two arrays have an element in common


def states_of(tracer: Tracer, results: int) -> list[State]:
    """Return which inputs of a traced program and outputs, which follow `results`, are of the same cells."""
    if not counts_holders():
        return []
    cells = [cell.key for cell, _ in tracer.cells.values()]
    first = len(tracer.graph.inputs) - len(cells)
    return [
        (first + cells.index(cell.key), results + i)
        for i, (cell, _) in enumerate(tracer.writes)
        if cell.key in cells
    ]


class Entry:
    """A program with what it was compiled for.

    Attributes
    ----------
    program, primitive : Program and Primitive
        The machine code, and the same as an operation that has derivatives.
    structure, count : pytree structure and int
        Of the results, which come first among the program's outputs.
    changed : list of int
        Arguments that the function changes in place; their new values come next.
    first : int
        The first output behind these: the new values of cells.
    tracked : bool
        Whether what comes out can be differentiated with respect to what is outside.
    asked : dict
        What the function has asked of arguments: the answer for each position and attribute.
    plain : bool
        Whether the arguments alone tell the results, and nothing else has to be looked at or changed.
    keys
        Those of dicts in the arguments, each with its type, where some are no texts.
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
        outputs = enumerate(self.writes, count + len(changed))
        self._large = [(o, cell) for o, cell in outputs if program.graph.outputs[o].nbytes >= LARGE]
        self.structure, self.count, self.changed = structure, count, list(changed)
        self.first = count + len(self.changed)
        self.width = len(program.graph.inputs) - len(self.cells)
        self.outside = bool(self.cells or self.writes or self.cleared or changed)
        self._severs = any(op.severs() for op in program.graph.ops)
        self.grad, self.default = current_mode().grad, get_default_dtype()
        self.tracked = tracked or any(bool(getattr(c, "node", False)) for c in self.writes)
        self.guards: list[tuple[Callable[[], Any], Any]] = list(tracer.guards.values())
        self._without = tracer.gradients.guards  # tensors, and whether they held no gradient
        self._leaves = [(c.x, _hooks(c.x)) for c in self.cells if self.grad and isinstance(c, DataCell)]
        self._outside = frozenset(id(c.x) for c in self.cells if isinstance(c, DataCell))
        self._inside = frozenset(id(c.x) for c in self.writes if isinstance(c, DataCell))
        self.plain = not (self.outside or self.guards or self._without)
        self.asked = tracer.asked
        self.keys: list[Any] | None = None
        self.given: Any = None
        self.nested = False
        self.static: dict[int, Any] = {}
        self.length = 0
        self._door: tuple[Door | None] | None = None

    def attempt(self, arrays: tuple[Any, ...]) -> Any:
        """Return the results of a plain program for the arrays of its leaves; None if another way is due."""
        if current_mode().grad is not self.grad or get_default_dtype() is not self.default:
            return None
        results = self.program.attempt(arrays)
        if results is None:
            return None
        if self.structure is None:
            return wrap(results[0])
        return unflatten(self.structure, [wrap(array) for array in results])

    def door(self, kind: Any, args: Sequence[Any], leaves: Sequence[Any], hits: Any) -> Door | None:
        """Return the direct way to a plain program, for arguments that it was found for; None without one."""
        if self._door is None:
            modes = self.grad, self.default
            found = door(kind, self.program, args, self.static, leaves, self.structure, modes, hits)
            self._door = (found,)
        return self._door[0]

    def leaves(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any] | None:
        """Return the leaves of arguments with the structure and static ones that were compiled; else None."""
        if self.static:
            if len(args) != self.length:
                return None
            if not all(type(args[i]) is type(x) and args[i] == x for i, x in self.static.items()):
                return None
            args = tuple([x for i, x in enumerate(args) if i not in self.static])
        if not (kwargs or self.nested):
            return args
        given: Any = args, kwargs
        found, structure = tree_flatten(given, namespace=EXACT)
        return found if structure == self.given else None

    def holds(self) -> bool:
        """Whether what was taken for constant still is, and what is outside has its shapes and dtypes."""
        for read, value in self.guards:
            if read() != value:
                return False
        for x, hooks in self._leaves:
            node = x.grad_node
            if (node is None) is not (hooks is None) or (
                node is not None and (node.extras or hooks) and _hooks(x) != hooks
            ):
                return False
        for x, without in self._without:
            if (x.grad is None) is not without:
                return False
        for cell, value in zip(self.cells, self.program.graph.inputs[self.width :], strict=True):
            array = cell.get()
            if array is None or array.shape != value.shape or array.dtype.type is not value.dtype.type:
                return False
        return True

    def answers(self, leaves: Sequence[Any]) -> bool:
        """Whether arguments are differentiated, or leaves, as those that the function has asked were."""
        return all(now(leaves[i], name) is answer for (i, name), answer in self.asked.items())

    def run(self, leaves: Sequence[Any]) -> Any:
        """Return the results for leaves of the kinds that were compiled."""
        if self.changed or self.writes:
            self._check_changed(leaves)
        arrays = [x.data if isinstance(x, Tensor) else np.asarray(x) for x in leaves]
        arrays += [cell.get() for cell in self.cells]
        if (
            staging.get() is not None
            or any(isinstance(a, Traced) for a in arrays)
            or (self.grad and any(map(_requires_grad, leaves)))
            or (self.grad and self.tracked and any(_requires_grad(c.tensor) for c in self.cells))
        ):
            tensors = [
                *(wrap(np.asarray(x)) if type(x) in WEAK else as_tensor(x) for x in leaves),  # all digits
                *(wrap(c.get()) if c.tensor is None else c.tensor for c in self.cells),
            ]
            if self._severs and self.grad:
                self._refuse_severed(tensors)
            out = apply(self.primitive, tensors)
            results = self._detached(list(out) if isinstance(out, tuple) else [out], tensors)
            if self.outside:
                with replacing:
                    carry_out(
                        self._writing(leaves, *zip(*((x.data, x.grad_node) for x in results), strict=True))
                    )
            del results[self.count :]
        else:
            results = self._ran(leaves, arrays)
        return unflatten(self.structure, results)

    def _refuse_severed(self, inputs: Sequence[Tensor]) -> None:
        """Raise at the call, as eager code, where the function cuts off inputs that are recorded."""
        graph = self.program.graph
        followed = [v for v, x in zip(graph.inputs, inputs, strict=True) if x.grad_node is not None]
        op = graph.severing(followed)
        if op is not None:
            raise op.params["refuse"](wrap(stand_in(op.inputs[0])))

    def _detached(self, results: list[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return results that lead back only where the function's own do: not those that it has detached."""
        tracked = sum(1 << i for i, x in enumerate(inputs) if x.grad_node is not None)
        return [
            x if x.grad_node is None or depends & tracked else wrap(x.data)
            for x, depends in zip(results, self._depends, strict=False)
        ]

    @functools.cached_property
    def _depends(self) -> list[int]:
        """For each output, which inputs it has derivatives with respect to, as bits."""
        return self.program.graph.dependences()

    def _ran(self, leaves: Sequence[Any], arrays: list[Any]) -> list[Tensor]:
        """Return the results of the program for arrays, with what is outside brought up to date."""
        given = tuple(arrays)
        arrays.clear()  # so that one tuple holds them: what nobody else holds may be written over
        if not self.outside:
            return [wrap(array) for array in self.program(given)]
        before: list[Any] = []

        def writing(found: Sequence[Any]) -> list[Call]:
            before[:] = [cell.get() for o, cell in self._large if not cell.owns(found[o])]
            return self._writing(leaves, found, [None] * len(found))

        found = self.program(given, self._owns, writing)
        del given
        self._keep(before)
        return [wrap(array) for array in found[: self.count]]

    def _owns(self, i: int, array: Any) -> bool:
        """Whether an input of the program is what its cell holds now."""
        return self.cells[i - self.width].owns(array)

    def _check_changed(self, leaves: Sequence[Any]) -> None:
        """Raise where the function changes what it may not, or also reaches by another way: it saw two."""
        for i in self.changed:
            if isinstance(leaves[i], np.ndarray):
                _check_apart(leaves[i], [x for k, x in enumerate(leaves) if k != i])
        given = [id(x) for x in leaves if isinstance(x, (Tensor, np.ndarray))]
        changed = [id(leaves[i]) for i in self.changed]
        if not all(isinstance(leaves[i], Tensor) or leaves[i].flags.writeable for i in self.changed):
            raise ArgumentError(
                "the function changes an array that is read-only",
                operation="compile",
                expected="an array that may be written to",
                found="an argument with flags.writeable = False",
                remedy="pass a copy: x.copy()",
            )
        twice = any(given.count(x) > 1 or x in self._outside for x in changed)
        if twice or not self._inside.isdisjoint(given):
            raise ArgumentError(
                "the function changes a tensor in place that it is given twice, or also reaches from outside",
                operation="compile",
                expected="one way to a tensor that changes",
                found="an argument that is the same tensor",
                remedy="pass it once, or pass a copy: x.clone()",
            )

    def _writing(self, leaves: Sequence[Any], arrays: Sequence[Any], nodes: Sequence[Any]) -> list[Call]:
        """Return what puts outputs of the program, in graphs or not, into arguments and cells."""
        calls = [_changing(leaves[i], arrays[o], nodes[o]) for o, i in enumerate(self.changed, self.count)]
        for o, cell in enumerate(self.writes, self.first):
            calls += cell.writing(arrays[o], nodes[o])
        return calls + [(setattr, x, "grad", None) for x in self.cleared]

    def _keep(self, before: list[Any]) -> None:
        """Let the program use the memory of old states again, where nobody else holds it."""
        while before:
            array = before.pop()
            if getrefcount(array) == 2:  # this name and the argument: nobody else has the old state
                self.program.keep(array)


def _changing(x: Any, array: Any, node: Any) -> Call:
    """Return what puts a result into an argument that the function changes in place."""
    if not isinstance(x, Tensor):
        return operator.setitem, x, ..., array
    if x.grad_node is None and node is None and not isinstance(array, Traced):
        return setattr, x, "data", array
    result = wrap(array)
    result.grad_node = node
    return x.assign, result


def _check_apart(changed: Any, others: Sequence[Any]) -> None:
    """Raise where other arguments have elements of an array that the function changes."""
    for x in others:
        array = getattr(x, "data", None) if isinstance(x, Tensor) else x
        if isinstance(array, np.ndarray) and _shares(changed, array):
            raise ArgumentError(
                "the function changes an array in place that shares memory with another argument",
                operation="compile",
                expected="one way to elements that change",
                found="an array and a view of it, or two views of one array",
                remedy="pass a copy: x.copy()",
            )


def _shares(a: Any, b: Any) -> bool:
    """Whether two arrays have an element in common, or may have one where that is hard to tell."""
    try:
        return bool(np.shares_memory(a, b, max_work=EFFORT))  # type: ignore[arg-type]  # NumPy takes any number
    except np.exceptions.TooHardError:
        return True


def _hooks(x: Tensor) -> tuple[int, ...] | None:
    """Return the keys of the hooks that a gradient of a tensor passes, of which no two are the same."""
    node = x.grad_node
    if node is None:
        return None
    extras = node.extras
    return (*extras.on_gradient, *extras.before, *extras.after) if extras is not None else ()


def _requires_grad(x: Any) -> bool:
    return isinstance(x, Tensor) and x.grad_node is not None
