"""Functions applied to slices, and turns in a plane."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.ops.axes import as_integer, as_items, normalize_axis, require_callable
from everyo.ops.creation import as_tensor, as_tensors
from everyo.ops.rearranging import flip
from everyo.ops.signatures import explained
from everyo.ops.transposition import moveaxis, swapaxes

__all__ = ["apply_along_axis", "apply_over_axes", "rot90", "sort_complex"]


@explained
def apply_along_axis(function: Callable[..., Any], axis: int, x: Any, /, *args: Any, **kwargs: Any) -> Tensor:
    """Apply a function of vectors to each vector of `x` along an axis.

    The function is called once for each vector; where it consists of operations that have batching rules,
    `vmap` does all at once. The gradient flows through whatever the function computes from its vector.

    Parameters
    ----------
    function : callable
        ``function(vector, *args, **kwargs)`` returns a number or a tensor, of one shape for all vectors.
    axis : int
        The axis of the vectors; what the function returns takes its place.
    x : tensor
        At least 1-d.
    *args, **kwargs : any
        More arguments of the function.

    Returns
    -------
    Tensor
        Of the shape of `x`, with that of one result in the place of `axis`.

    Raises
    ------
    ShapeError
        If there is no vector, so that the shape of the result is unknown, or the results differ in shape.
    ArgumentError
        If `function` cannot be called.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer, or a result has no numbers.

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

    The gradient flows through whatever the function computes.

    Parameters
    ----------
    function : callable
        ``function(x, axis)`` returns a tensor, as a reduction does.
    x : tensor
        Of any shape.
    axes : int or sequence of int
        The axes, in the order in which the function gets them.

    Returns
    -------
    Tensor
        With as many axes as `x`.

    Raises
    ------
    ShapeError
        If a result has neither as many axes as `x` nor one less.
    ArgumentError
        If `function` cannot be called.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

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
def rot90(x: Any, /, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Turn a tensor by 90 degrees, `k` times, from the first of two axes towards the second.

    The gradient is turned back.

    Parameters
    ----------
    x : tensor
        At least 2-d.
    k : int, default 1
        How many times; negative ones turn back.
    axes : pair of int, default (0, 1)
        The plane to turn in.

    Returns
    -------
    Tensor
        The lengths of the two axes are exchanged if `k` is odd.

    Raises
    ------
    ShapeError
        If the axes are not two different ones.
    IndexingError, DTypeError
        If there is no such axis, or it or `k` is no integer, or `axes` no sequence.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.rot90(eo.tensor([[1, 2], [3, 4]])))
    [[2 4]
     [1 3]]
    """
    x = as_tensor(x)
    plane = [normalize_axis(a, x.ndim, "rot90") for a in as_items(axes, "axes", "rot90")]
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
    turns = as_integer(k, "k", "rot90", unbounded=True) % 4
    if turns == 2:
        return flip(x, (first, second))
    if turns == 1:
        return swapaxes(flip(x, second), first, second)
    return flip(swapaxes(x, first, second), second) if turns else flip(x, ())


@explained
def sort_complex(x: Any, /) -> Tensor:
    """Elements along the last axis in order, by real parts and then imaginary ones, as complex numbers.

    The gradient of each element is that of the place it moved to.

    Parameters
    ----------
    x : tensor
        At least 1-d, real or complex.

    Returns
    -------
    Tensor
        Of the shape of `x`; complex64 or complex128.

    Raises
    ------
    IndexingError
        If `x` is 0-d.

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
