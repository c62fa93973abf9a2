"""Tensors made of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from everyo.core.batching import everywhere
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.ops.creation import as_tensor, as_tensors
from everyo.ops.families import linear
from everyo.ops.shape import atleast_2d
from everyo.ops.signatures import explained

__all__ = ["block", "block_diag"]


@explained
def block(arrays: Any, /) -> Tensor:
    """Put a tensor together from blocks in nested lists.

    The innermost lists are joined along the last axis, those around them along the last but one, and so
    on. The gradient is cut into the blocks again.

    Parameters
    ----------
    arrays : tensor, number or nested lists of such
        The blocks; missing axes of length 1 are added in front.

    Returns
    -------
    Tensor
        Of the common dtype, with as many axes as the blocks have, or as the lists are deep.

    Raises
    ------
    ShapeError
        If the blocks do not fit, a list is empty, or the depths of the lists differ.
    DTypeError
        If a block is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.block([[eo.ones((2, 2)), eo.zeros((2, 1))], [eo.tensor([[2.0, 3.0, 4.0]])]]))
    [[1. 1. 0.]
     [1. 1. 0.]
     [2. 3. 4.]]
    """
    depth = _depth(arrays)
    leaves = as_tensors(list(_leaves(arrays)), "block")
    ndim = max([depth, *(x.ndim for x in leaves)])
    blocks = [op.reshape(x, shape=(*(1,) * (ndim - x.ndim), *x.shape)) for x in leaves]
    starts: list[tuple[int, ...]] = []
    shape = _placed(arrays, iter(blocks), (0,) * ndim, ndim - depth, starts)
    return filled(blocks, starts, shape)


def filled(blocks: Sequence[Tensor], starts: Sequence[tuple[int, ...]], shape: Sequence[int]) -> Tensor:
    """Return a tensor of `shape` that `blocks`, each from its start, fill wholly and do not overlap."""
    return apply(_fill_blocks, blocks, {"starts": tuple(starts), "shape": tuple(shape)})


def _depth(arrays: Any) -> int:
    """Return how deep the lists are nested."""
    if not isinstance(arrays, list):
        return 0
    depths = {_depth(item) for item in arrays}
    if len(depths) != 1:
        raise ShapeError(
            "a list is empty" if not depths else "the blocks lie at different depths",
            operation="block",
            expected="lists of one depth, none empty",
            found="an empty list" if not depths else f"depths {sorted(depths)}",
            remedy="write every block inside equally many brackets",
        )
    return depths.pop() + 1


def _leaves(arrays: Any) -> Any:
    if not isinstance(arrays, list):
        yield arrays
        return
    for item in arrays:
        yield from _leaves(item)


def _placed(
    arrays: Any, blocks: Iterator[Tensor], start: tuple[int, ...], axis: int, starts: list[tuple[int, ...]]
) -> tuple[int, ...]:
    """Note where each block begins; return the shape of what a list, or a block, makes."""
    if not isinstance(arrays, list):
        starts.append(start)
        return tuple(next(blocks).shape)
    whole: tuple[int, ...] = ()
    for item in arrays:
        at = (*start[:axis], start[axis] + (whole[axis] if whole else 0), *start[axis + 1 :])
        part = _placed(item, blocks, at, axis + 1, starts)
        if whole and (*whole[:axis], *whole[axis + 1 :]) != (*part[:axis], *part[axis + 1 :]):
            raise ShapeError(
                "the blocks do not fit beside each other",
                operation="block",
                expected=f"equal shapes in all but axis {axis}",
                found=f"{whole} and {part}",
                remedy="pad the blocks, or broadcast them",
            )
        whole = (*part[:axis], part[axis] + (whole[axis] if whole else 0), *part[axis + 1 :])
    return whole


def _region(start: Sequence[int], shape: Sequence[int]) -> tuple[slice, ...]:
    return tuple([slice(a, a + n) for a, n in zip(start, shape)])


def _blocks_vjp(g: Any, blocks_shape: Sequence[Any], starts: Any, needs: Sequence[bool]) -> list[Any]:
    return [
        op.getitem(g, index=_region(start, shape)) if needed else None
        for start, shape, needed in zip(starts, blocks_shape, needs)
    ]


def _blocks_batch(fill: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    starts = tuple((0, *start) for start in params["starts"])
    return fill(*everywhere(inputs, batched, size), starts=starts, shape=(size, *params["shape"]))


@linear(
    _blocks_vjp,
    samples=lambda: [
        sample((2, 2), (2, 1), (1, 3), starts=((0, 0), (0, 2), (2, 0)), shape=(3, 3)),
        sample((0, 2), (1, 2), starts=((0, 0), (0, 0)), shape=(1, 2)),
        sample((), starts=((),), shape=()),
    ],
    broadcasts=True,
    batch=_blocks_batch,
)
def _fill_blocks(xp: Any, *blocks: Any, starts: tuple[tuple[int, ...], ...], shape: tuple[int, ...]) -> Any:
    """Return a tensor of `shape` that the blocks, each from its start, fill wholly."""
    out = xp.empty(shape, dtype=xp.result_type(*blocks))
    for start, x in zip(starts, blocks):
        out[_region(start, x.shape)] = x
    return out


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
    DTypeError
        If one is not numeric.

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
    columns = sum(x.shape[1] for x in blocks)
    nothing = as_tensor(blocks[0].backend.xp.zeros((), dtype=bool))  # which widens no dtype
    parts, starts, row, column = [], [], 0, 0
    for x in blocks:
        height, width = x.shape
        for start, stop in ((0, column), (column + width, columns)):
            if height and start < stop:
                parts.append(op.broadcast_to(nothing, shape=(height, stop - start)))
                starts.append((row, start))
        parts.append(x)
        starts.append((row, column))
        row, column = row + height, column + width
    return filled(parts, starts, (row, columns))
