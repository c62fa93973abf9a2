"""Sliding windows over the last axes: what convolution and pooling share."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from everyo.core.batching import front
from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, ShapeError, describe
from everyo.ops.families import linear

__all__: list[str] = []


class Window(NamedTuple):
    """The geometry of a sliding window, one entry for each spatial axis.

    Attributes
    ----------
    kernel, stride, dilation : tuple of int
        Size, step, and distance between the elements of a window.
    padding : tuple of (int, int)
        Zeros before and after each axis.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]

    def positions(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return how many windows fit on axes of these sizes."""
        return tuple(
            (n + low + high - d * (k - 1) - 1) // s + 1
            for n, k, s, d, (low, high) in zip(sizes, *self, strict=True)
        )


def _samples() -> list[tuple[tuple[int, ...], Window]]:
    return [
        ((2, 1, 5), Window((3,), (1,), (1,), ((0, 0),))),
        ((1, 2, 6), Window((2,), (2,), (2,), ((1, 0),))),
        ((2, 2, 4, 5), Window((2, 3), (2, 1), (1, 2), ((0, 1), (2, 1)))),
        ((0, 1, 3, 3), Window((2, 2), (2, 2), (1, 1), ((0, 0), (0, 0)))),
    ]


def _sliding_windows_batch(windows: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    return front(windows(*inputs, **params), 1)


def _overlap_add_batch(overlap_add: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    (parts,) = inputs
    return overlap_add(front(parts, 1), **params)


@linear(
    lambda g, x_shape, window: op.overlap_add(g, sizes=x_shape[-len(window.kernel) :], window=window),
    samples=lambda: [sample(shape, window=window) for shape, window in _samples()],
    batch=_sliding_windows_batch,
)
def _sliding_windows(xp: Any, x: Any, *, window: Window) -> Any:
    """All windows of `x` padded with zeros, in shape ``(prod(kernel), *lead, *positions)``."""
    rank = len(window.kernel)
    lead = x.ndim - rank
    view = xp.moveaxis(xp.sliding_windows(x, *window), range(lead, lead + rank), range(rank))
    return xp.reshape(view, (math.prod(window.kernel), *view.shape[rank:]))


@linear(
    lambda g, window: op.sliding_windows(g, window=window),
    samples=lambda: [
        sample((math.prod(w.kernel), *shape[:2], *w.positions(shape[2:])), sizes=shape[2:], window=w)
        for shape, w in _samples()
    ],
    batch=_overlap_add_batch,
)
def _overlap_add(xp: Any, x: Any, *, sizes: tuple[int, ...], window: Window) -> Any:
    """Windows added up where they came from, on spatial axes of `sizes`."""
    return xp.overlap_add(x, sizes, *window)


def per_axis(value: int | Sequence[int], rank: int, low: int, name: str, operation: str) -> tuple[int, ...]:
    """Return a parameter of a window as `rank` integers, each at least `low`."""
    values = tuple(value) if isinstance(value, Sequence) else (value,) * rank
    try:
        numbers = tuple(operator.index(v) for v in values)
    except TypeError:
        raise DTypeError(
            f"{name} must be made of integers",
            operation=operation,
            expected=f"an int or {rank} of them",
            found=repr(value),
            remedy="convert it: int(...)",
        ) from None
    if len(numbers) != rank or min(numbers) < low:
        raise ArgumentError(
            f"{name} does not suit {rank} spatial {'axis' if rank == 1 else 'axes'}",
            operation=operation,
            expected=f"an int or {rank} of them, at least {low}",
            found=f"{name}={value!r}",
        )
    return numbers


def require_spatial(x: Tensor, rank: int, operation: str) -> None:
    """Raise ShapeError unless `x` has channels, `rank` spatial axes and perhaps a batch axis before."""
    if len(x.shape) not in (rank + 1, rank + 2):
        raise ShapeError(
            "the input has the wrong number of axes",
            operation=operation,
            inputs=describe(x),
            expected=f"(batch, channels, *spatial) or (channels, *spatial): {rank + 2} or {rank + 1} axes",
            found=f"{len(x.shape)} axes",
            remedy="add the missing axes with reshape or expand_dims",
        )


def require_room(x: Tensor, window: Window, operation: str) -> None:
    """Raise ShapeError unless at least one window fits."""
    sizes = tuple(x.shape[-len(window.kernel) :])
    if min(window.positions(sizes)) < 1:
        span = tuple(d * (k - 1) + 1 for k, d in zip(window.kernel, window.dilation, strict=True))
        room = tuple(n + low + high for n, (low, high) in zip(sizes, window.padding, strict=True))
        raise ShapeError(
            "the window is larger than the padded input",
            operation=operation,
            inputs=describe(x),
            expected=f"padded spatial sizes of at least {span}",
            found=f"{room}",
            remedy="use a smaller kernel or dilation, or more padding",
        )
