"""`vmap`: a function of one example becomes a function of a batch of them, without a loop."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.dispatch import wrap
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.core.traced import Interpreter, Traced
from everyo.errors import ArgumentError, ShapeError, UnsupportedOperationError, describe
from everyo.ops.axes import normalize_axis
from everyo.transforms.levels import as_tensor, lower, raised
from everyo.transforms.trees import flatten, unflatten


class Batched(Traced):
    """A value for each element of a batch; the batch is the first axis of the value below."""

    __slots__ = ("value",)

    def __init__(self, interpreter: Interpreter, value: Any) -> None:
        self.interpreter, self.value = interpreter, value

    @property
    def below(self) -> Any:
        return self.value

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape[1:])

    def concrete(self, operation: str) -> Any:
        if operation == "print":
            return self.value
        raise UnsupportedOperationError(
            f"a value under vmap is a whole batch, which {operation}() cannot give as one",
            operation=operation,
            inputs=describe(self),
            expected="code that does not depend on a single example's value",
            found=f"a batch of {self.value.shape[0]}",
            remedy="use eo.where instead of `if`, keep values as tensors, or loop over the batch in Python",
        )


class BatchInterpreter(Interpreter):
    """Applies each operation to a whole batch by the primitive's batching rule."""

    name = "vmap"

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def process(self, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply the batching rule to the values below."""
        batched = [self.mine(x) for x in inputs]
        values = [x.data.value if b else lower(x) for x, b in zip(inputs, batched, strict=True)]
        if primitive.batch is None:
            raise UnsupportedOperationError(
                "the operation has no batching rule",
                operation=primitive.name,
                expected="an operation that vmap can apply to a batch",
                found=primitive.missing or "no rule",
                remedy="loop over the batch in Python and stack the results",
            )
        out = primitive.batch(primitive, values, batched, self.size, params)
        return tuple(map(self.batch, out)) if isinstance(out, tuple) else self.batch(out)

    def batch(self, value: Any) -> Tensor:
        """Return a value whose first axis is the batch as a tensor of this level."""
        return wrap(Batched(self, value))


def vmap(
    function: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    *,
    axis_size: int | None = None,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that applies `function` to each element along an axis of its arguments.

    Parameters
    ----------
    function : callable
        Takes and returns pytrees of tensors.
    in_axes : int, None or a tuple of such or of trees, default 0
        The axis of each argument that is mapped over; None passes the argument whole. A tuple has one
        entry for each positional argument, and an entry may be a tree for the argument's leaves. Keyword
        arguments are mapped along axis 0.
    out_axes : int or a tree of ints, default 0
        Where the results get the batch axis.
    axis_size : int, optional
        The size of the batch, needed only where no argument is mapped.
    chunk_size : int, optional
        Map this many elements at a time: less memory, the same result.

    Returns
    -------
    callable
        Takes the arguments with the additional axis, returns the results with one.

    Raises
    ------
    ShapeError
        If the mapped axes differ in length or do not exist.
    UnsupportedOperationError
        If `function` needs the value of a single example, as in ``if x > 0``.

    Examples
    --------
    >>> import everyo as eo
    >>> dots = eo.vmap(lambda a, b: (a * b).sum(), in_axes=(0, None))
    >>> print(dots(eo.tensor([[1.0, 2.0], [3.0, 4.0]]), eo.tensor([1.0, 10.0])))
    [21. 43.]
    """

    @functools.wraps(function)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        axes = _leaf_axes(args, kwargs, in_axes)
        tensors = [leaf if axis is None else as_tensor(leaf) for leaf, axis in zip(leaves, axes, strict=True)]
        axes = [
            None if a is None else normalize_axis(a, x.ndim, "vmap")
            for x, a in zip(tensors, axes, strict=True)
        ]
        size = _common_size(tensors, axes, axis_size)
        fronts = [x if a is None else _to_front(x, a) for x, a in zip(tensors, axes, strict=True)]

        def run(start: int, stop: int) -> tuple[list[Any], Any]:
            with BatchInterpreter(stop - start) as interpreter:
                whole = (start, stop) == (0, size)
                inner = [
                    x if a is None else interpreter.batch(lower(x if whole else x[start:stop]))
                    for x, a in zip(fronts, axes, strict=True)
                ]
                inner_args, inner_kwargs = unflatten(structure, inner)
                results, result_structure = flatten(function(*inner_args, **inner_kwargs))
                return [_front_of(interpreter, r) for r in results], result_structure

        if chunk_size is None or chunk_size >= size:
            results, result_structure = run(0, size)
        else:
            if chunk_size < 1:
                raise ArgumentError(
                    "chunk_size must be positive", operation="vmap", expected=">= 1", found=str(chunk_size)
                )
            parts = [run(i, min(i + chunk_size, size)) for i in range(0, size, chunk_size)]
            result_structure = parts[0][1]
            results = [op.concat(*column, axis=0) for column in zip(*(p[0] for p in parts), strict=True)]
        outs = _spread_axes(out_axes, result_structure, len(results))
        placed = [_from_front(r, a) for r, a in zip(results, outs, strict=True)]
        return unflatten(result_structure, placed)

    return transformed


def _leaf_axes(args: Sequence[Any], kwargs: dict[str, Any], in_axes: Any) -> list[int | None]:
    """Return the mapped axis, or None, for each leaf of the arguments."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise ArgumentError(
            "in_axes has another length than the positional arguments",
            operation="vmap",
            expected=f"{len(args)} entries",
            found=f"{len(in_axes)}",
        )
    entries = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
    found: list[int | None] = []
    for arg, entry in zip(args, entries, strict=True):
        leaves, structure = flatten(arg)
        found += _spread_axes(entry, structure, len(leaves))
    return found + [0] * len(flatten(kwargs)[0])


def _spread_axes(entry: Any, structure: Any, count: int) -> list[Any]:
    """Return an axis for each leaf: one for all of them, or a tree of them."""
    if entry is None or isinstance(entry, int):
        return [entry] * count
    axes = _axes_of(entry)
    if len(axes) != count:
        raise ArgumentError(
            "a tree of axes does not fit its argument",
            operation="vmap",
            expected=f"one axis for each of {count} leaves",
            found=f"{len(axes)}",
        )
    return axes


def _axes_of(entry: Any) -> list[Any]:
    """Return the axes in a tree in which None is a leaf."""
    if entry is None or isinstance(entry, int):
        return [entry]
    values = [entry[k] for k in sorted(entry)] if isinstance(entry, dict) else list(entry)
    return [axis for value in values for axis in _axes_of(value)]


def _common_size(tensors: Sequence[Any], axes: Sequence[int | None], axis_size: int | None) -> int:
    sizes = {x.shape[a] for x, a in zip(tensors, axes, strict=True) if a is not None}
    if axis_size is not None:
        sizes.add(axis_size)
    if len(sizes) != 1:
        raise ShapeError(
            "the mapped axes differ in length" if sizes else "no argument is mapped",
            operation="vmap",
            inputs=describe(*tensors),
            expected="one size" if sizes else "an argument with an axis in in_axes, or axis_size",
            found=", ".join(map(str, sorted(sizes))) or "in_axes of None",
        )
    (size,) = sizes
    return size


def _to_front(x: Tensor, axis: int) -> Tensor:
    if axis == 0:
        return x
    order = (axis, *(i for i in range(x.ndim) if i != axis))
    return op.transpose(x, axes=order)  # type: ignore[no-any-return]


def _from_front(x: Tensor, axis: int) -> Tensor:
    position = normalize_axis(axis, x.ndim, "vmap")
    if position == 0:
        return x
    rest = list(range(1, x.ndim))
    rest.insert(position, 0)
    return op.transpose(x, axes=tuple(rest))  # type: ignore[no-any-return]


def _front_of(interpreter: BatchInterpreter, result: Any) -> Tensor:
    """Return a result with the batch as its first axis; what does not depend on the batch is repeated."""
    result = interpreter.released(result)
    if interpreter.mine(result):
        return raised(result.data.value)
    value = as_tensor(result)
    return op.broadcast_to(value, shape=(interpreter.size, *value.shape))  # type: ignore[no-any-return]
