"""What control flow shares: predicates, choices between trees, and the state that a loop carries."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Literal

from everyo.core.copying import same_value
from everyo.core.dtypes import DIFFERENTIABLE, default_for
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.core.traced import Traced, downwards, is_number
from everyo.errors import DTypeError, ShapeError, describe
from everyo.ops.creation import as_tensor, asarray
from everyo.ops.replay import Draws
from everyo.transforms.levels import lower, raised
from everyo.transforms.trees import flatten, unflatten
from everyo.transforms.vectorize import Batched

_SCALARS = (bool, int, float, complex)


def tensors_of(tree: Any) -> tuple[list[Tensor], Any]:
    """Return the leaves of a tree as tensors, and its structure."""
    leaves, structure = flatten(tree)
    return [as_tensor(leaf) for leaf in leaves], structure


def leaf_names(structure: Any, name: str) -> list[str]:
    """Return how each leaf is reached from a tree called `name`, as Python writes it."""
    return [name] if structure is None else [a.codify(name) for a in structure.accessors()]


def same_structure(found: Any, expected: Any, operation: str, what: str) -> None:
    """Raise ShapeError unless two structures are equal."""
    if found != expected:
        raise ShapeError(
            f"{what} changes its structure",
            operation=operation,
            expected="one tensor" if expected is None else str(expected),
            found="one tensor" if found is None else str(found),
            remedy="return the same containers with the same keys each time",
        )


def same_leaves(found: Sequence[Any], expected: Sequence[Any], names: Sequence[str], operation: str) -> None:
    """Raise an error that names the leaf unless all shapes and dtypes are equal."""
    for new, old, name in zip(found, expected, names, strict=True):
        if tuple(new.shape) != tuple(old.shape):
            raise ShapeError(
                f"{name} changes its shape",
                operation=operation,
                inputs=describe(old, new),
                expected=f"shape {tuple(old.shape)}",
                found=f"shape {tuple(new.shape)}",
                remedy=f"start with, or return, a {name} of one shape",
            )
        if new.dtype != old.dtype:
            raise DTypeError(
                f"{name} changes its dtype",
                operation=operation,
                inputs=describe(old, new),
                expected=str(old.dtype),
                found=str(new.dtype),
                remedy=f"start with one of dtype {new.dtype}"
                if new.dtype.kind in DIFFERENTIABLE and old.dtype.kind not in DIFFERENTIABLE
                else f"convert it where it is returned or made: x.astype(eo.{old.dtype})",
            )


def decided(predicate: Any, operation: str) -> bool | Tensor:
    """Return a predicate as a bool; as a boolean tensor where the examples of a batch disagree.

    Raises
    ------
    ShapeError
        If it has several elements.
    """
    if isinstance(predicate, bool):
        return predicate
    predicate = as_tensor(predicate)
    if predicate.size != 1:
        raise ShapeError(
            "the predicate has several elements",
            operation=operation,
            inputs=describe(predicate),
            expected="one boolean",
            found=f"shape {tuple(predicate.shape)}",
            remedy="reduce it with .all() or .any(), or choose elementwise with eo.where",
        )
    truth = op.not_equal(op.reshape(predicate, shape=()), 0)
    array, batched = bottom(truth, operation)
    if not batched:
        return bool(array)
    if not array.any():
        return False
    return True if array.all() else truth


def bottom(x: Tensor, operation: str) -> tuple[Any, bool]:
    """Return the array at the bottom of a value, and whether it holds a value for each of a batch."""
    data, batched = x.data, False
    while isinstance(data, (Traced, Tensor)):
        if isinstance(data, Batched):
            batched, data = True, data.below
        else:
            data = data.concrete(operation) if isinstance(data, Traced) else data.data
    return data, batched


def guarded(predicate: Tensor, x: Tensor) -> Tensor:
    """Return `x` with the value of an example that `predicate` holds for wherever it does not hold.

    What is computed from it there is thrown away, so it may as well be something that works: no warning,
    no index out of range, and no NaN, which no cotangent of zero would stop on the way back.
    """
    positions: dict[Any, int] = {}
    data: Any = predicate.data
    while isinstance(data, (Tensor, Traced)):
        if isinstance(data, Batched):
            positions[data.interpreter] = 0
        data = data.data if isinstance(data, Tensor) else data.below
    first = int(data.argmax())
    for interpreter, size in zip(positions, reversed(data.shape), strict=True):  # the highest level is last
        first, positions[interpreter] = divmod(first, size)
    constant = op.stop_gradient(x)
    safe = _example(constant, positions)
    return x if safe is constant and not differentiated(x) else op.where(predicate, x, safe)


def _example(x: Tensor, positions: dict[Any, int]) -> Tensor:
    """Return the value at one position of the batches, with the batches that have no position left."""
    data = x.data
    if not isinstance(data, Batched):
        return x
    whole = raised(data.below)
    value = _example(whole, positions)
    if data.interpreter in positions:
        return op.getitem(value, index=(positions[data.interpreter],))
    return x if value is whole else data.interpreter.batch(lower(value))  # type: ignore[attr-defined]


def differentiated(x: Any) -> bool:
    """Whether a derivative with respect to a value may be asked for at some level."""
    return any(
        t.grad_node is not None or (isinstance(t.data, Traced) and not isinstance(t.data, Batched))
        for t in downwards(x)
    )


class Carry:
    """The state of a loop: tensors in a tree whose structure, shapes and dtypes stay.

    A Python number in the initial state takes the dtype that the loop's body gives it.
    """

    def __init__(self, tree: Any, operation: str) -> None:
        leaves, self.structure = flatten(tree)
        self.operation = operation
        self.numbers = [leaf if type(leaf) in _SCALARS or is_number(leaf) else None for leaf in leaves]
        self.leaves = [asarray(leaf) if is_number(leaf) else as_tensor(leaf) for leaf in leaves]
        self.names = leaf_names(self.structure, "carry")

    @property
    def unsettled(self) -> bool:
        """Whether a number may still change its dtype: before the first step."""
        return any(n is not None for n in self.numbers)

    def tree(self, leaves: Sequence[Any] | None = None) -> Any:
        """Return leaves in the carry's structure."""
        return unflatten(self.structure, self.leaves if leaves is None else leaves)

    def copied(self, leaves: Sequence[Tensor]) -> Any:
        """Return leaves in the carry's structure for the user's code, which may change them in place."""
        return self.tree([same_value(x) for x in leaves])

    def advance(
        self,
        body: Callable[[Any], tuple[Any, Any]],
        leaves: list[Tensor],
        going: Literal[True] | Tensor = True,
    ) -> tuple[list[Tensor], Any]:
        """Return the state after one step, and what else the body returned.

        Where `going` is a tensor, the examples of a batch for which it does not hold keep their state. A
        first step whose numbers took another dtype is made again with it, and with the same random numbers.
        """
        start = leaves if going is True else [guarded(going, x) for x in leaves]
        draws = Draws()
        with draws.noted() if self.unsettled else contextlib.nullcontext():
            tree, extra = body(self.copied(start))
        new, structure = tensors_of(tree)
        same_structure(structure, self.structure, self.operation, "the carry")
        adapted = self._adapted(leaves, new) if self.unsettled else None
        if adapted is not None:
            with draws.again():
                return self.advance(body, adapted, going)
        same_leaves(new, leaves, self.names, self.operation)
        if going is not True:
            new = [op.where(going, n, o) for n, o in zip(new, leaves, strict=True)]
        return new, extra

    def _adapted(self, leaves: list[Tensor], new: list[Tensor]) -> list[Tensor] | None:
        """Return the first state with its numbers in the dtypes of `new`; None if they have them."""
        adapted = list(leaves)
        for i, (number, found) in enumerate(zip(self.numbers, new, strict=True)):
            old, dtype = leaves[i].dtype, found.dtype
            if number is not None and old != dtype and _rank(old) <= _rank(dtype):
                if old.kind in "iu" and dtype.kind in "fc":
                    dtype = default_for(dtype.kind)  # int64 would make float64 of float32: try the weakest
                adapted[i] = asarray(number, dtype=dtype)
        changed = any(a is not x for a, x in zip(adapted, leaves, strict=True))
        if not changed:
            self.numbers = [None] * len(leaves)
        return adapted if changed else None


def _rank(dtype: Any) -> int:
    """Return the place of a dtype's kind: a number may become what stands further right."""
    return "biufc".index(dtype.kind)
