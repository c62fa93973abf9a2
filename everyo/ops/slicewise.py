"""Functions applied to slices, tensors put together from blocks, and turns in a plane."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from everyo.core.batching import everywhere
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.ops.axes import as_integer, normalize_axis, require_callable
from everyo.ops.creation import as_tensor, as_tensors
from everyo.ops.families import linear
from everyo.ops.rearranging import flip
from everyo.ops.shape import moveaxis, swapaxes
from everyo.ops.signatures import explained

__all__ = ["apply_along_axis", "apply_over_axes", "block", "rot90", "sort_complex"]


@explained
def apply_along_axis(function: Callable[..., Any], axis: int, x: Any, /, *args: Any, **kwargs: Any) -> Tensor:
    """Apply a function of vectors to each vector of `x` along an axis.

    The function is called once for each vector; where it consists of operations that have batching rules,
    `vmap` does all at once. Gradients flow through whatever the function computes from its vector.

    Parameters
    ----------
    function : callable
        ``function(vector, *args, **kwargs)`` returns a number or a tensor, of one shape for all vectors.
    axis : int
        The axis of the vectors; what the function returns takes its place.
    x : tensor
        At least 1-d.
    *args, **kwargs
        More arguments of the function.

    Raises
    ------
    ShapeError
        If there is no vector, so that the shape of the result is unknown.
    ArgumentError
        If `function` cannot be called.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.apply_along_axis(lambda v: v[0] * v[-1], 1, eo.tensor([[1, 2, 3], [4, 5, 6]])))
    [ 3 24]
    """
    require_callable(function, "apply_along_axis")
    x = as_tensor(x)
    axis = normalize_axis(axis, x.ndim, "apply_along_axis")
    lead, tail = tuple(x.shape[:axis]), tuple(x.shape[axis + 1 :])
    rows = moveaxis(x, axis, -1)
    count = math.prod(lead + tail)
    if not count:
        raise ShapeError(
            "there is no vector to apply the function to",
            operation="apply_along_axis",
            inputs=describe(x),
            expected="other axes without length 0",
            found=f"shape {tuple(x.shape)}",
            remedy="leave empty tensors out",
        )
    rows = op.reshape(rows, shape=(count, x.shape[axis]))
    results = as_tensors(
        [function(op.getitem(rows, index=(i,)), *args, **kwargs) for i in range(count)], "apply_along_axis"
    )
    inner = tuple(results[0].shape)
    out = op.reshape(apply(op.stack, results, {"axis": 0}), shape=(*lead, *tail, *inner))
    rank = len(lead) + len(tail)
    order = (*range(len(lead)), *range(rank, rank + len(inner)), *range(len(lead), rank))
    return op.transpose(out, axes=order)


@explained
def apply_over_axes(function: Callable[[Any, int], Any], x: Any, /, axes: int | Sequence[int]) -> Tensor:
    """Apply ``function(x, axis)`` along several axes in turn; an axis that it takes away comes back.

    Raises
    ------
    ShapeError
        If a result has neither as many axes as `x` nor one less.
    ArgumentError
        If `function` cannot be called.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.apply_over_axes(eo.sum, eo.ones((2, 3)), [0, 1]))
    [[6.]]
    """
    require_callable(function, "apply_over_axes")
    x = as_tensor(x)
    for axis in axes if isinstance(axes, Sequence) else (axes,):
        axis = normalize_axis(axis, x.ndim, "apply_over_axes")
        out = as_tensor(function(x, axis))
        if out.ndim == x.ndim - 1:
            out = op.reshape(out, shape=(*out.shape[:axis], 1, *out.shape[axis:]))
        if out.ndim != x.ndim:
            raise ShapeError(
                "the function changed the number of axes",
                operation="apply_over_axes",
                inputs=describe(x, out),
                expected=f"{x.ndim} or {x.ndim - 1} axes",
                found=str(out.ndim),
                remedy="pass a reduction, or a function that keeps the axes",
            )
        x = out
    return x


@explained
def block(arrays: Any, /) -> Tensor:
    """Put a tensor together from blocks in nested lists.

    The innermost lists are joined along the last axis, those around them along the last but one, and so
    on. The gradient is cut into the blocks again.

    Parameters
    ----------
    arrays : tensor, number or nested lists of such
        The blocks; missing axes of length 1 are added in front.

    Raises
    ------
    ShapeError
        If the blocks do not fit, a list is empty, or the depths of the lists differ.

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
    return apply(_fill_blocks, blocks, {"starts": tuple(starts), "shape": shape})


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
    return tuple(slice(a, a + n) for a, n in zip(start, shape))


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
def rot90(x: Any, /, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Turn a tensor by 90 degrees, `k` times, from the first of two axes towards the second.

    The gradient is turned back.

    Raises
    ------
    ShapeError
        If the axes are not two different ones.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.rot90(eo.tensor([[1, 2], [3, 4]])))
    [[2 4]
     [1 3]]
    """
    x = as_tensor(x)
    plane = [normalize_axis(a, x.ndim, "rot90") for a in axes]
    if len(plane) != 2 or plane[0] == plane[1]:
        raise ShapeError(
            "there is no plane to turn in",
            operation="rot90",
            inputs=describe(x),
            expected="two different axes",
            found=str(tuple(axes)),
            remedy="name two axes, as in axes=(0, 1)",
        )
    first, second = plane
    turns = as_integer(k, "k", "rot90") % 4
    if turns == 2:
        return flip(x, (first, second))
    if turns == 1:
        return swapaxes(flip(x, second), first, second)
    return flip(swapaxes(x, first, second), second) if turns else flip(x, ())


@explained
def sort_complex(x: Any, /) -> Tensor:
    """Elements along the last axis in order, by real parts and then imaginary ones, as complex numbers.

    The gradient of each element is that of the place it moved to.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.sort_complex(eo.tensor([2.0, 1.0])))
    [1.+0.j 2.+0.j]
    """
    x = as_tensor(x)
    axis = normalize_axis(-1, x.ndim, "sort_complex")
    wide = x.backend.xp.result_type(x.dtype, "complex64") if x.dtype.kind != "c" else x.dtype
    return op.astype(op.sort(x, axis=axis, descending=False), dtype=wide)
