"""Batching rules: how `vmap` applies a primitive to operands that have one more axis.

A rule is ``rule(primitive, inputs, batched, size, params)``. Where `batched` is true the input has the
batch as its first axis, elsewhere it has none; the result has the batch first. Rules are written on the
operations themselves, so they serve every level, and a rule shared by many is named once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from everyo.core.registry import op

if TYPE_CHECKING:
    from everyo.core.primitive import Primitive

BatchRule = Callable[["Primitive", Sequence[Any], Sequence[bool], int, dict[str, Any]], Any]


def pointwise(
    primitive: Primitive, inputs: Sequence[Any], batched: Sequence[bool], size: int, params: dict[str, Any]
) -> Any:
    """Elementwise operations: line the batch up in front of the axes that broadcast."""
    rank = max(len(x.shape) - b for x, b in zip(inputs, batched, strict=True) if hasattr(x, "shape"))
    return primitive(*(_padded(x, rank) if b else x for x, b in zip(inputs, batched, strict=True)), **params)


def _padded(x: Any, rank: int) -> Any:
    """Return a batched operand with axes of length 1 between the batch and its own."""
    missing = rank - (len(x.shape) - 1)
    return x if missing == 0 else op.reshape(x, shape=(x.shape[0], *(1,) * missing, *x.shape[1:]))


def along(*names: str) -> BatchRule:
    """Return the rule of operations whose parameters `names` hold axes counted from the front.

    All inputs get the batch axis; an axis, or each of a tuple of axes, moves up by one.
    """

    def rule(
        primitive: Primitive,
        inputs: Sequence[Any],
        batched: Sequence[bool],
        size: int,
        params: dict[str, Any],
    ) -> Any:
        shifted = {k: _shifted(v) if k in names else v for k, v in params.items()}
        return primitive(*everywhere(inputs, batched, size), **shifted)

    return rule


def _shifted(axis: Any) -> Any:
    return tuple(a + 1 for a in axis) if isinstance(axis, (tuple, list)) else axis + 1


def everywhere(inputs: Sequence[Any], batched: Sequence[bool], size: int) -> list[Any]:
    """Return the inputs all with the batch axis: those without are repeated (None and numbers stay)."""
    return [
        x if b or not hasattr(x, "shape") else op.broadcast_to(x, shape=(size, *x.shape))
        for x, b in zip(inputs, batched, strict=True)
    ]


def unchanged(
    primitive: Primitive, inputs: Sequence[Any], batched: Sequence[bool], size: int, params: dict[str, Any]
) -> Any:
    """Operations that count their axes from the back, or do not name any."""
    return primitive(*everywhere(inputs, batched, size), **params)


def looped(
    primitive: Primitive, inputs: Sequence[Any], batched: Sequence[bool], size: int, params: dict[str, Any]
) -> Any:
    """One call for each element of the batch, for operations that no single call can express."""
    results = [
        primitive(
            *(op.getitem(x, index=(i,)) if b else x for x, b in zip(inputs, batched, strict=True)), **params
        )
        for i in range(size)
    ]
    if isinstance(results[0], tuple):
        return tuple(op.stack(*column, axis=0) for column in zip(*results, strict=True))
    return op.stack(*results, axis=0)
