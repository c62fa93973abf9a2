"""Batching rules: how `vmap` applies a primitive to operands that have one more axis.

A rule is ``rule(primitive, inputs, batched, size, params)``. Where `batched` is true the input has the
batch as its first axis, elsewhere it has none; the result has the batch first. Rules are written on the
operations themselves, so they serve every level, and a rule shared by many is named once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import maxsize
from typing import TYPE_CHECKING, Any

from everyo.core.registry import op
from everyo.errors import UnsupportedOperationError, describe

if TYPE_CHECKING:
    from everyo.core.primitive import Primitive

BatchRule = Callable[["Primitive", Sequence[Any], Sequence[bool], int, dict[str, Any]], Any]


def pointwise(
    primitive: Primitive, inputs: Sequence[Any], batched: Sequence[bool], size: int, params: dict[str, Any]
) -> Any:
    """Elementwise operations: line the batch up in front of the axes that broadcast."""
    if len(inputs) == 1:
        return primitive.on(inputs, params)
    longest, shortest = 0, maxsize  # the ranks of all operands, and of those with a batch
    i = 0
    for x in inputs:
        if batched[i]:
            rank = x.ndim - 1
            if rank < shortest:
                shortest = rank
        else:
            rank = getattr(x, "ndim", 0)  # a Python number has no axes
        if rank > longest:
            longest = rank
        i += 1  # noqa: SIM113 - zip and enumerate cost more than the rest
    if shortest < longest:
        inputs = [padded(x, longest) if b else x for x, b in zip(inputs, batched)]
    return primitive.on(inputs, params)


def padded(x: Any, rank: int) -> Any:
    """Return a batched operand with axes of length 1 between the batch and its own, `rank` in all."""
    missing = rank - (len(x.shape) - 1)
    return x if missing <= 0 else op.reshape(x, shape=(x.shape[0], *(1,) * missing, *x.shape[1:]))


def along(*names: str) -> BatchRule:
    """Return the rule of operations whose parameters `names` hold axes counted from the front.

    All inputs get the batch axis; an axis, or each of a tuple of axes, moves up by one, and None, which
    stands for all axes, becomes all but the batch.
    """

    def rule(
        primitive: Primitive,
        inputs: Sequence[Any],
        batched: Sequence[bool],
        size: int,
        params: dict[str, Any],
    ) -> Any:
        inputs = everywhere(inputs, batched, size)
        rank = len(inputs[0].shape)
        shifted = dict(params)
        for name in names:
            shifted[name] = _shifted(params[name], rank)
        return primitive(*inputs, **shifted)

    return rule


def _shifted(axis: Any, rank: int) -> Any:
    if axis is None:
        return tuple(range(1, rank))
    return tuple([a + 1 for a in axis]) if isinstance(axis, (tuple, list)) else axis + 1


def everywhere(inputs: Sequence[Any], batched: Sequence[bool], size: int) -> list[Any]:
    """Return the inputs all with the batch axis: those without are repeated (None and numbers stay)."""
    if all(batched):
        return list(inputs)
    return [
        x if b or not hasattr(x, "shape") else op.broadcast_to(x, shape=(size, *x.shape))
        for x, b in zip(inputs, batched, strict=True)
    ]


def trailing(rank: int) -> BatchRule:
    """Return the rule of operations on the last `rank` axes, which leave those before alone."""

    def rule(
        primitive: Primitive,
        inputs: Sequence[Any],
        batched: Sequence[bool],
        size: int,
        params: dict[str, Any],
    ) -> Any:
        inputs = everywhere(inputs, batched, size)
        if len(inputs[0].shape) <= rank:  # the batch must not be taken for an axis of the example
            return as_single(primitive, inputs, (True,) * len(inputs), size, params)
        return primitive(*inputs, **params)

    return rule


unchanged = trailing(0)  # operations on each element


def looped(
    primitive: Primitive, inputs: Sequence[Any], batched: Sequence[bool], size: int, params: dict[str, Any]
) -> Any:
    """One call for each element of the batch, for operations that no single call can express."""
    if not size:
        return of_none(primitive, inputs, batched, params)
    results = [
        primitive(
            *(op.getitem(x, index=(i,)) if b else x for x, b in zip(inputs, batched, strict=True)), **params
        )
        for i in range(size)
    ]
    if isinstance(results[0], tuple):
        return tuple(op.stack(*column, axis=0) for column in zip(*results, strict=True))
    return op.stack(*results, axis=0)


def refused(reason: str, remedy: str) -> BatchRule:
    """Return the rule of operations that have no batch: it raises UnsupportedOperationError."""

    def rule(
        primitive: Primitive,
        inputs: Sequence[Any],
        batched: Sequence[bool],
        size: int,
        params: dict[str, Any],
    ) -> Any:
        raise UnsupportedOperationError(
            f"under vmap {reason}",
            operation=primitive.name,
            inputs=describe(*inputs),
            expected="an operation with a result of one shape for the whole batch",
            found=f"a batch of {size}",
            remedy=remedy,
        )

    return rule


def as_single(
    operation: Callable[..., Any],
    inputs: Sequence[Any],
    batched: Sequence[bool],
    size: int,
    params: dict[str, Any],
) -> Any:
    """Apply the operation to one example alone: where the batch was wrong, this raises the user's error."""
    return operation(*(_one(x, size) if b else x for x, b in zip(inputs, batched, strict=True)), **params)


def of_none(
    primitive: Primitive, inputs: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]
) -> Any:
    """Return the result for a batch of no examples: that of one made of zeros, without it."""
    out = as_single(primitive, inputs, batched, 0, params)
    return tuple(map(_none_of, out)) if isinstance(out, tuple) else _none_of(out)


def _one(x: Any, size: int) -> Any:
    if size:
        return op.getitem(x, index=(0,))
    return op.astype(op.sum(x, axis=(0,), keepdims=False), dtype=x.dtype)


def _none_of(out: Any) -> Any:
    return op.getitem(op.reshape(out, shape=(1, *out.shape)), index=(slice(0, 0),))


def front(x: Any, axis: int) -> Any:
    """Return `x` with one of its axes moved to the front; the first one, for axis 1, goes second."""
    if not axis:
        return x
    return op.transpose(x, axes=(axis, *range(axis), *range(axis + 1, len(x.shape))))
