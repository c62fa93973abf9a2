"""Taking tensors apart along an axis."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, ShapeError, describe
from everyo.ops.axes import as_integer, as_integers, listed, normalize_axis
from everyo.ops.creation import as_tensor
from everyo.ops.signatures import composed, explained

__all__ = ["array_split", "split", "unstack"]


@explained
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the parts of `x` along an axis, which they no longer have: the inverse of `stack`.

    The gradients of the parts are stacked again.

    Parameters
    ----------
    x : tensor
        With at least one axis.
    axis : int, default 0
        Along which axis.

    Returns
    -------
    tuple of Tensor
        As many as `x` is long along the axis, each with one axis less.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> a, b = eo.unstack(eo.tensor([[1, 2], [3, 4]]), axis=1)
    >>> print(a, b)
    [1 3] [2 4]
    """
    x = as_tensor(x)
    axis = normalize_axis(axis, x.ndim, "unstack")
    return tuple(x[(slice(None),) * axis + (i,)] for i in range(x.shape[axis]))


@explained
def split(x: Any, /, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Cut `x` along an axis into equal parts, or at given positions.

    The gradients of the parts are joined again.

    Parameters
    ----------
    x : tensor
        With at least one axis.
    indices_or_sections : int or sequence of int
        The number of parts, or where each part but the first begins.
    axis : int, default 0
        Along which axis.

    Returns
    -------
    list of Tensor
        The parts, with as many axes as `x`.

    Raises
    ------
    ShapeError, ArgumentError
        If the axis cannot be cut into that many equal parts, or their number is not positive.
    IndexingError, DTypeError
        If there is no such axis, or it, the number of parts or a position is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> [part.tolist() for part in eo.split(eo.arange(5), [1, 3])]
    [[0], [1, 2], [3, 4]]
    """
    x, indices_or_sections = as_tensor(x), listed(indices_or_sections)
    n = x.shape[normalize_axis(axis, x.ndim, "split")]
    parts = 1
    if not isinstance(indices_or_sections, Sequence):
        parts = as_integer(indices_or_sections, "the number of parts", "split")
    if parts > 0 and n % parts:
        raise ShapeError(
            "the axis cannot be cut into equal parts",
            operation="split",
            inputs=describe(x),
            expected=f"a divisor of {n}",
            found=str(indices_or_sections),
            remedy="use eo.array_split, which allows parts of different size",
        )
    return array_split(x, indices_or_sections, axis)


@composed
def array_split(x: Any, /, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Cut `x` as `split` does; parts of a given number may differ by one in size.

    The gradients of the parts are joined again.

    Parameters
    ----------
    x : tensor
        With at least one axis.
    indices_or_sections : int or sequence of int
        The number of parts, the first of which may be longer, or where each part but the first begins.
    axis : int, default 0
        Along which axis.

    Returns
    -------
    list of Tensor
        The parts, with as many axes as `x`.

    Raises
    ------
    ArgumentError
        If the number of parts is not positive.
    IndexingError, DTypeError
        If there is no such axis, or it, the number of parts or a position is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> [part.tolist() for part in eo.array_split(eo.arange(5), 3)]
    [[0, 1], [2, 3], [4]]
    """
    x, indices_or_sections = as_tensor(x), listed(indices_or_sections)
    axis = normalize_axis(axis, x.ndim, "array_split")
    n = x.shape[axis]
    if isinstance(indices_or_sections, Sequence):
        bounds = [0, *as_integers(indices_or_sections, "a position", "split"), n]
    else:
        count = as_integer(indices_or_sections, "the number of parts", "split")
        if count < 1:
            raise ArgumentError(
                "there must be at least one part",
                operation="split",
                expected="a positive number",
                found=str(count),
            )
        size, longer = divmod(n, count)
        bounds = [i * size + min(i, longer) for i in range(count + 1)]
    lead = (slice(None),) * axis
    return [x[(*lead, slice(start, stop))] for start, stop in itertools.pairwise(bounds)]
