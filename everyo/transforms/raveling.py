"""A pytree of tensors as one vector, and back: what solvers and matrices of derivatives count in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.ops.creation import as_tensor
from everyo.transforms.trees import flatten, unflatten


class Layout:
    """Where the leaves of a tree lie in one vector: one after the other, in the tree's order.

    Parameters
    ----------
    tree : pytree of tensors
        A tree of the structure and shapes in question.
    keeps_dtypes : bool, default True
        `unravel` gives every leaf the dtype it has in `tree`; otherwise that of the vector.
    """

    def __init__(self, tree: Any, keeps_dtypes: bool = True) -> None:
        leaves, self.structure = flatten(tree)
        tensors = [as_tensor(leaf) for leaf in leaves]
        self.shapes = [tuple(t.shape) for t in tensors]
        self.dtypes = [t.dtype if keeps_dtypes else None for t in tensors]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.size = sum(self.sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def unravel(self, vector: Tensor) -> Any:
        """Return the tree whose leaves `vector` holds."""
        start, leaves = 0, []
        for shape, size, dtype in zip(self.shapes, self.sizes, self.dtypes, strict=True):
            whole = size == self.size
            leaf = op.reshape(vector if whole else vector[start : start + size], shape=shape)
            leaves.append(leaf if dtype is None or leaf.dtype == dtype else op.astype(leaf, dtype=dtype))
            start += size
        return unflatten(self.structure, leaves)


def ravel(leaves: Sequence[Tensor]) -> Tensor:
    """Return the elements of all tensors as one vector of their common dtype."""
    vectors = [op.reshape(x, shape=(math.prod(x.shape),)) for x in leaves]
    return vectors[0] if len(vectors) == 1 else op.concat(*vectors, axis=0)
