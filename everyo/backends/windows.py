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
    total: Any = np.zeros((*lead, *(n + low + high for n, (low, high) in zip(sizes, padding))), parts.dtype)
    axes = list(zip(dilation, stride, positions))
    for part, offset in zip(parts, itertools.product(*map(range, kernel))):
        window: Any = [slice(o * d, o * d + s * (p - 1) + 1, s) for o, (d, s, p) in zip(offset, axes)]
        total[(..., *window)] += part
    return total[_inside(sizes, padding)]


def _inside(sizes: Sizes, padding: Padding) -> Any:
    """Return the index of what the padding surrounds."""
    return (..., *(slice(low, low + n) for n, (low, _) in zip(sizes, padding)))
