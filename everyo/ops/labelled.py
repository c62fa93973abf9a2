"""Products of two tensors whose axes have labels: what `tensordot` and `einsum` are made of."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from everyo.core.registry import op
from everyo.core.tensor import Tensor

__all__: list[str] = []


class Arrangement(NamedTuple):
    """How a tensor's axes are made ready: permuted, then reshaped, then transposed. None: as it is."""

    axes: tuple[int, ...] | None
    shape: tuple[int, ...] | None
    transpose: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        if self.axes is not None:
            x = op.transpose(x, axes=self.axes)
        if self.shape is not None:
            x = op.reshape(x, shape=self.shape)
        return op.matrix_transpose(x) if self.transpose else x


class Contraction(NamedTuple):
    """How two tensors are multiplied and summed over shared axes, by one matrix product if there are any."""

    first: Arrangement
    second: Arrangement
    shape: tuple[int, ...] | None
    sums: bool

    def __call__(self, x1: Tensor, x2: Tensor) -> Tensor:
        x1, x2 = self.first(x1), self.second(x2)
        product = op.matmul(x1, x2) if self.sums else x1 * x2
        return product if self.shape is None else op.reshape(product, shape=self.shape)


def permutation(labels: Sequence[Any], order: Sequence[Any]) -> tuple[int, ...] | None:
    """Return the permutation that brings axes called `labels` into another order; None if it is the same."""
    axes = tuple([labels.index(label) for label in order])
    return None if axes == tuple(range(len(axes))) else axes


@functools.lru_cache(maxsize=1024)
def contraction(
    labels1: tuple[Any, ...],
    shape1: tuple[int, ...],
    labels2: tuple[Any, ...],
    shape2: tuple[int, ...],
    keep: frozenset[Any],
) -> tuple[Contraction, tuple[Any, ...]]:
    """Return how to sum a product over the labels that both tensors have and `keep` has not.

    Labels name axes: equal ones have equal sizes, and none is repeated within a tensor. The labels of
    the result come with it: the kept common ones, then the rest of the first, then of the second tensor.
    """
    sizes = dict(zip((*labels1, *labels2), (*shape1, *shape2), strict=True))
    common = [label for label in labels1 if label in labels2]
    batch = [label for label in common if label in keep]
    inner = [label for label in common if label not in keep]
    left = [label for label in labels1 if label not in labels2]
    right = [label for label in labels2 if label not in labels1]
    many, n, k, m = ([sizes[label] for label in group] for group in (batch, left, inner, right))
    shape: list[int] = many + n + m
    if inner:
        rows, columns = ([math.prod(group)] if group or batch else [] for group in (n, m))
        first = _factor(labels1, shape1, batch, left, inner, [*many, *rows, math.prod(k)])
        second = _factor(labels2, shape2, batch, inner, right, [*many, math.prod(k), *columns])
        made = [*many, *rows, *columns]
    else:
        first = _arrangement(labels1, shape1, batch + left, many + n + [1] * len(m))
        second = _arrangement(labels2, shape2, batch + right, many + [1] * len(n) + m)
        made = shape
    result = Contraction(first, second, None if made == shape else tuple(shape), bool(inner))
    return result, (*batch, *left, *right)


def _arrangement(
    labels: Sequence[Any], shape: Sequence[int], order: Sequence[Any], wanted: Sequence[int]
) -> Arrangement:
    axes = permutation(labels, order)
    permuted = [shape[i] for i in axes or range(len(shape))]
    return Arrangement(axes, None if permuted == list(wanted) else tuple(wanted))


def _factor(
    labels: Sequence[Any],
    shape: Sequence[int],
    batch: list[Any],
    rows: list[Any],
    columns: list[Any],
    wanted: list[int],
) -> Arrangement:
    """Return how to make matrices ``(*batch, rows, columns)`` or a vector, as a view wherever one exists."""
    if rows and columns and list(labels) == batch + columns + rows:
        swapped = [*wanted[:-2], wanted[-1], wanted[-2]]
        return _arrangement(labels, shape, labels, swapped)._replace(transpose=True)
    return _arrangement(labels, shape, batch + rows + columns, wanted)


def moved_last(x: Tensor, axis: int) -> Tensor:
    """Return `x` with one axis moved to the end."""
    ndim = len(x.shape)
    order = [*range(axis), *range(axis + 1, ndim), axis]
    return x if axis == ndim - 1 else op.transpose(x, axes=tuple(order))
