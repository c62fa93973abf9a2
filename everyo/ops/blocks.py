"""Matrices made of blocks."""

from __future__ import annotations

from typing import Any

from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.ops.creation import as_tensors
from everyo.ops.shape import atleast_2d
from everyo.ops.signatures import explained

__all__ = ["block_diag"]


@explained
def block_diag(*arrays: Any) -> Tensor:
    """Return a matrix with the given ones along its diagonal and zeros elsewhere.

    The gradient of each is its block.

    Parameters
    ----------
    *arrays : tensor, array or number
        Matrices of any shapes, at least one; a vector counts as a row, a number as a matrix of one element.

    Returns
    -------
    Tensor
        With as many rows and columns as all together, of their common dtype.

    Raises
    ------
    ShapeError
        If there is none, or one has more than two axes.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.block_diag(eo.tensor([[1, 2], [3, 4]]), 5))
    [[1 2 0]
     [3 4 0]
     [0 0 5]]
    """
    if not arrays:
        raise ShapeError(
            "there are no blocks",
            operation="block_diag",
            expected="at least one matrix",
            found="none",
            remedy="pass at least one; an empty matrix is made with eo.zeros((0, 0))",
        )
    blocks = [x if x.ndim == 2 else atleast_2d(x) for x in as_tensors(arrays, "block_diag")]
    if any(x.ndim > 2 for x in blocks):
        raise ShapeError(
            "a block has more than two axes",
            operation="block_diag",
            inputs=describe(*blocks),
            expected="matrices",
            found=" and ".join(str(tuple(x.shape)) for x in blocks),
            remedy="map over the other axes with eo.vmap",
        )
    indices, rows, columns = [], 0, 0
    for x in blocks:
        height, width = x.shape
        indices.append((slice(rows, rows + height), slice(columns, columns + width)))
        rows, columns = rows + height, columns + width
    return apply(op.assemble, blocks, {"indices": tuple(indices), "shape": (rows, columns)})
