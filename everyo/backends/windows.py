"""Sliding windows of NumPy arrays, and their transpose: for convolution and pooling."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

Sizes = Sequence[int]
Padding = Sequence[tuple[int, int]]


def sliding_windows(x: Any, kernel: Sizes, stride: Sizes, dilation: Sizes, padding: Padding) -> Any:
    """Return a read-only view of all windows of `x`, padded with zeros, over its last axes.

    Shape ``(*lead, *kernel, *positions)``.
    """
    rank = len(kernel)
    lead, sizes = x.shape[:-rank], x.shape[-rank:]
    if any(low or high for low, high in padding):
        padded = np.zeros(lead + tuple(n + low + high for n, (low, high) in zip(sizes, padding)), x.dtype)
        padded[_inside(sizes, padding)] = x
        x, sizes = padded, padded.shape[-rank:]
    geometry = list(zip(sizes, kernel, stride, dilation))
    positions = tuple((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in geometry)
    steps = x.strides[-rank:]
    return as_strided(
        x,
        (*lead, *kernel, *positions),
        (
            *x.strides[:-rank],
            *(step * d for step, d in zip(steps, dilation)),
            *(step * s for step, s in zip(steps, stride)),
        ),
        writeable=False,
    )


def overlap_add(
    parts: Any, sizes: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes, padding: Padding
) -> Any:
    """Add windows up where they came from: the transpose of `sliding_windows` onto axes of `sizes`.

    `parts` has shape ``(prod(kernel), *lead, *positions)``, the result ``(*lead, *sizes)``.
    """
    rank = len(kernel)
    lead, positions = parts.shape[1:-rank], parts.shape[-rank:]
    room = [n + low + high for n, (low, high) in zip(sizes, padding)]
    axes = list(zip(dilation, stride, positions))
    if rank > 1 and parts.shape[0] > 1 and parts.strides[0] == 0:
        return _one_axis_at_a_time(parts[0], room, kernel, axes)[_inside(sizes, padding)]
    total: Any = np.zeros((*lead, *room), parts.dtype)
    for part, offset in zip(parts, itertools.product(*map(range, kernel))):
        total[(..., *(_places(o, *axis) for o, axis in zip(offset, axes)))] += part
    return total[_inside(sizes, padding)]


def _one_axis_at_a_time(part: Any, room: Sizes, kernel: Sizes, axes: Sequence[tuple[int, int, int]]) -> Any:
    """Add up windows whose elements are all alike: sums along one axis, of sums along another."""
    for axis in range(-1, -len(kernel) - 1, -1):
        total: Any = np.zeros(
            (*part.shape[:axis], room[axis], *part.shape[part.ndim + axis + 1 :]), part.dtype
        )
        after = (slice(None),) * (-axis - 1)
        for offset in range(kernel[axis]):
            total[(..., _places(offset, *axes[axis]), *after)] += part
        part = total
    return part


def _places(offset: int, dilation: int, stride: int, positions: int) -> slice:
    """Return where along an axis the elements at an offset of all windows lie."""
    start = offset * dilation
    return slice(start, start + stride * (positions - 1) + 1, stride)


def _inside(sizes: Sizes, padding: Padding) -> Any:
    """Return the index of what the padding surrounds."""
    return (..., *(slice(low, low + n) for n, (low, _) in zip(sizes, padding)))
