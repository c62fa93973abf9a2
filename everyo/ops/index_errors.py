"""What is wrong with an index, in the words of who wrote it: brackets, positions, values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, EveryOError, IndexingError, ShapeError, describe
from everyo.ops.creation import as_tensor
from everyo.ops.index_batching import DISTINCT, Template

__all__: list[str] = []

Explanation = Callable[[Sequence[Any], dict[str, Any], Exception], EveryOError | None]


def _written(index: Template, arrays: Sequence[Any]) -> str:
    """Return ``x[index]`` as Python writes it, with dtypes and shapes for arrays."""
    following = iter(arrays)
    items: list[str] = []
    for item in index:
        if type(item) is slice:
            bounds = ["" if b is None else str(b) for b in (item.start, item.stop, item.step)]
            items.append(":".join(bounds if item.step is not None else bounds[:2]))
        elif type(item) is str:
            text = "mask" if item == DISTINCT else describe(next(following))
            if text != "mask" or items[-1:] != ["mask"]:
                items.append(text)
        else:
            items.append("..." if item is Ellipsis else str(item))
    return f"x[{', '.join(items)}]"


def _no_element(
    operation: str, x: Any, index: Template, arrays: Sequence[Any], error: Exception
) -> IndexingError:
    """Return the error for an index that `x` does not have."""
    written = _written(index, arrays) + " = ..." * (operation == "setitem")
    broadcasting = "broadcast" in str(error)
    return IndexingError(
        "the index arrays do not fit each other" if broadcasting else "the tensor has no such index",
        operation=operation,
        inputs=f"{written} for x: {describe(x)}",
        expected="index arrays that broadcast together"
        if broadcasting
        else f"at most {len(x.shape)} indices, inside the axes of shape {tuple(x.shape)}",
        found=str(error),
        remedy="reshape the arrays, as in x[rows[:, None], columns] for all pairs"
        if broadcasting
        else "an axis of n elements has the positions -n to n - 1",
    )


def _beyond(index: Template) -> bool:
    """Whether a position is no index in any memory."""
    return any(type(item) is int and not -(2**63) <= item < 2**63 for item in index)


def _no_step(operation: str, x: Any, index: Template, arrays: Sequence[Any]) -> ArgumentError | None:
    """Return the error for a slice that takes no step, if there is one."""
    if not any(type(item) is slice and item.step == 0 for item in index):
        return None
    return ArgumentError(
        "the step of a slice is zero",
        operation=operation,
        inputs=f"{_written(index, arrays)}{' = ...' * (operation == 'setitem')} for x: {describe(x)}",
        expected="steps of at least 1, or negative ones that go backwards",
        found="0",
        remedy="leave the step out to take every element, as in x[a:b]",
    )


def reading(inputs: Sequence[Any], params: dict[str, Any], error: Exception) -> EveryOError | None:
    """Return the error for ``x[index]``."""
    x, *arrays = inputs
    if isinstance(error, IndexError) or _beyond(params["index"]):
        return _no_element("getitem", x, params["index"], arrays, error)
    return _no_step("getitem", x, params["index"], arrays)


def writing(inputs: Sequence[Any], params: dict[str, Any], error: Exception) -> EveryOError | None:
    """Return the error for ``x[index] = v``."""
    x, v, *arrays = inputs
    if isinstance(error, IndexError) or _beyond(params["index"]):
        return _no_element("setitem", x, params["index"], arrays, error)
    no_step = _no_step("setitem", x, params["index"], arrays)
    if no_step is not None or not isinstance(error, ValueError) or not hasattr(v, "shape"):
        return no_step
    shape = _selected_shape(x, params["index"], arrays)
    return ShapeError(
        "the value does not fit what the index selects",
        operation="setitem",
        inputs=f"{_written(params['index'], arrays)} = ... for {describe(x, v)}",
        expected=f"a value of shape {shape}, or one that broadcasts to it",
        found=f"shape {tuple(v.shape)}",
        remedy="reshape the value, or select as many elements as it has",
    )


def _selected_shape(x: Any, index: Template, arrays: Sequence[Any]) -> tuple[int, ...]:
    """Return the shape of ``x[index]``, which exists."""
    like = x if isinstance(x, Tensor) else as_tensor(x)
    whole = op.broadcast_to(like.backend.xp.zeros(()), shape=tuple(like.shape))
    return tuple(op.getitem(whole, *arrays, index=index).shape)


def along(operation: str) -> Explanation:
    """Return what explains the errors of a function that takes positions along the axis `axis`."""

    def explanation(inputs: Sequence[Any], params: dict[str, Any], error: Exception) -> EveryOError | None:
        x, positions = inputs
        misfit = "broadcast" in str(error)  # NumPy calls that an IndexError too
        if isinstance(error, IndexError) and not misfit:
            return outside(operation, x, positions, params.get("shape", x.shape), params["axis"], error)
        if not (misfit or isinstance(error, ValueError)):
            return None
        ranks = len(x.shape) != len(positions.shape)
        return ShapeError(
            "tensor and positions differ in their axes" if ranks else "tensor and positions do not broadcast",
            operation=operation,
            inputs=f"{describe(x, positions)}; axis={params['axis']}",
            expected=f"positions with {len(x.shape)} axes"
            if ranks
            else f"positions that broadcast against {tuple(x.shape)} along all axes but {params['axis']}",
            found=f"{len(positions.shape)} axes" if ranks else f"shape {tuple(positions.shape)}",
            remedy="reshape the positions, for example with expand_dims"
            if ranks
            else "use eo.take or x[...]",
        )

    return explanation


def outside(
    operation: str, x: Any, positions: Any, shape: Sequence[int], axis: int, error: object
) -> IndexingError:
    """Return the error for a position that an axis does not have."""
    return IndexingError(
        "a position is outside the axis",
        operation=operation,
        inputs=f"{describe(x, positions)}; axis={axis}",
        expected=f"-{shape[axis]} <= position < {shape[axis]}",
        found=str(error),
        remedy="clip the positions, or take them modulo the size of the axis",
    )


def no_index(x: Tensor, item: Any, expected: str, operation: str) -> IndexingError:
    """Return the error for an item of an index that can index nothing."""
    return IndexingError(
        "this cannot index a tensor",
        operation=operation,
        inputs=describe(x),
        expected=expected,
        found=describe(item) if hasattr(item, "dtype") else repr(item),
        remedy="convert numbers to integers: int(i), or i.astype(eo.int64)",
    )
