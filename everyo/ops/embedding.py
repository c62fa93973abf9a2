"""Embedding: rows of a table by number."""

from __future__ import annotations

from typing import Any

from everyo.core.tensor import Tensor
from everyo.errors import DTypeError, IndexingError, ShapeError, describe
from everyo.ops.creation import as_tensor
from everyo.ops.indexing import getitem
from everyo.ops.known import counted, look

__all__ = ["embedding"]


def embedding(weight: Any, indices: Any) -> Tensor:
    """Rows of a table: ``weight[indices]``, for indices that all lie in the table.

    The gradient of each row is the sum of the gradients of all places that used it.

    Parameters
    ----------
    weight : tensor
        The table, shape ``(rows, features)``.
    indices : tensor
        Integers from 0 to ``rows - 1``, of any shape.

    Returns
    -------
    Tensor
        Shape ``(*indices.shape, features)``, of the dtype of `weight`.

    Raises
    ------
    IndexingError
        If an index is negative or no row has it.
    DTypeError
        If the indices are no integers, or `weight` is not numeric.
    ShapeError
        If `weight` is no matrix.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.embedding(eo.tensor([[1.0, 2.0], [3.0, 4.0]]), eo.tensor([1, 1, 0])))
    [[3. 4.]
     [3. 4.]
     [1. 2.]]
    """
    weight, indices = as_tensor(weight), as_tensor(indices)
    if len(weight.shape) != 2:
        raise ShapeError(
            "the table must be a matrix",
            operation="embedding",
            inputs=describe(weight, indices),
            expected="weight of shape (rows, features)",
            found=f"shape {tuple(weight.shape)}",
            remedy="reshape it to one row for each index",
        )
    if indices.dtype.kind not in "iu":
        raise DTypeError(
            "indices must be integers",
            operation="embedding",
            inputs=describe(weight, indices),
            expected="an integer dtype",
            found=str(indices.dtype),
            remedy="convert them: indices.astype(eo.int64)",
        )
    _require_inside(indices, weight)
    return getitem(weight, (counted(indices, weight.shape[0]),))


def _require_inside(indices: Tensor, weight: Tensor) -> None:
    """Raise IndexingError for an index that names no row; a negative one is a mistake here, not a count."""
    xp, rows, inputs = indices.backend.xp, weight.shape[0], describe(weight, indices)

    def check(values: Any) -> None:
        low, high = (int(xp.min(values)), int(xp.max(values))) if values.size else (0, rows - 1)
        if low < 0 or high >= rows:
            raise IndexingError(
                "an index lies outside the table",
                operation="embedding",
                inputs=inputs,
                expected=f"0 <= index < {rows}",
                found=str(low if low < 0 else high),
                remedy="make the table larger, or map unknown indices to a row of their own",
            )

    look(check, indices, batches=True)
