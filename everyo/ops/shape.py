"""Shape and layout: linear operations that move, repeat or sum elements."""

from __future__ import annotations

from typing import Any

from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.ops.families import linear


def _sum_to_axes(shape: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes of `shape` that broadcasting from `target` made or expanded."""
    extra = len(shape) - len(target)
    return tuple(range(extra)) + tuple(
        extra + i for i, n in enumerate(target) if n == 1 and shape[extra + i] != 1
    )


@linear(
    lambda g, x_shape, x_dtype: op.astype(op.broadcast_to(g, shape=x_shape), dtype=x_dtype),
    samples=lambda: [sample((2, 3), shape=(3,), dtype="float64"), sample((2, 3), shape=(2, 1), dtype="float64")],
)
def _sum_to(xp: Any, x: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    """Sum broadcast axes away: the transpose of broadcasting (seeds call it unbroadcast)."""
    axes = _sum_to_axes(x.shape, shape)
    if axes:
        x = xp.sum(x, axis=axes, keepdims=True)
    if x.shape != shape:
        x = xp.reshape(x, shape)
    if x.dtype != dtype:
        x = xp.astype(xp.real(x) if x.dtype.kind == "c" and dtype.kind != "c" else x, dtype)
    return x


@linear(
    lambda g, x_shape: op.sum_to(g, shape=x_shape, dtype=g.dtype),
    samples=lambda: [sample((3,), shape=(2, 3)), sample((2, 1), shape=(2, 3)), sample((), shape=(0, 2))],
)
def _broadcast_to(xp: Any, x: Any, *, shape: tuple[int, ...]) -> Any:
    return xp.broadcast_to(x, shape)


@linear(
    lambda g, x_shape: op.reshape(g, shape=x_shape),
    samples=lambda: [sample((2, 3), shape=(3, 2)), sample((0, 2), shape=(0,)), sample((1,), shape=())],
)
def _reshape(xp: Any, x: Any, *, shape: tuple[int, ...]) -> Any:
    return xp.reshape(x, shape)


@linear(
    lambda g, x_dtype: op.astype(g, dtype=x_dtype),
    samples=lambda: [sample((2, 3), dtype="float64")],
)
def _astype(xp: Any, x: Any, *, dtype: Any) -> Any:
    if x.dtype == dtype:
        return x
    return xp.astype(xp.real(x) if x.dtype.kind == "c" and dtype.kind != "c" else x, dtype)
