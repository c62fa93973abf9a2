"""Lowerings of sliding windows, of their transpose, and of pooling.

Primitives put the elements of a window first; loops over the positions want them last. So windows are
built with their elements last, and the builder keeps them so through what is computed of them.
"""

from __future__ import annotations

import math
from typing import Any

from everyo.compiler.graph import Op, Value
from everyo.compiler.lowering.builder import Builder
from everyo.compiler.lowering.table import lowering


def padded(b: Builder, x: Value, window: Any) -> Value:
    """Return `x` between the zeros of a window."""
    lead = (0,) * (len(x.shape) - len(window.kernel))
    low, high = ((*lead, *side) for side in zip(*window.padding))
    return b.pad(x, low, high, (0,) * len(x.shape), b.constant(0, x.dtype))


@lowering("sliding_windows")
def _sliding_windows(b: Builder, op: Op, x: Value) -> Value:
    window = op.params["window"]
    found = b.window(padded(b, x, window), window.kernel, window.stride, window.dilation)
    flat = b.reshape(found, (*found.shape[: -len(window.kernel)], math.prod(window.kernel)))
    return b.turned(flat)


@lowering("overlap_add")
def _overlap_add(b: Builder, op: Op, parts: Value) -> Value:
    return fold(b, b.front_last(parts), op.params["sizes"], op.params["window"])


def fold(b: Builder, parts: Value, sizes: tuple[int, ...], window: Any) -> Value:
    """Return windows ``(*lead, *positions, prod(kernel))`` added up where they came from."""
    parts = b.reshape(parts, (*parts.shape[:-1], *window.kernel))
    whole = [n + low + high for n, (low, high) in zip(sizes, window.padding)]
    total = b.fold(parts, whole, window.stride, window.dilation)
    lead = total.shape[: -len(sizes)]
    start = (*(0 for _ in lead), *(low for low, _ in window.padding))
    return b.slice(total, start, (*lead, *sizes), (1,) * len(total.shape))


@lowering("max_pool")
def _max_pool(b: Builder, op: Op, x: Value) -> Value:
    window = op.params["window"]
    found = b.window(x, window.kernel, window.stride, window.dilation)
    rank = len(found.shape)
    return b.reduce("max", found, range(rank - len(window.kernel), rank))
