"""Cotangents in parts: zeros that are never written out while the backward pass adds things up."""

from __future__ import annotations

from typing import Any

from everyo.core.registry import op


class Partial:
    """A cotangent that stands for more than it holds; `settle` makes it what a rule can read.

    Cotangents of all kinds are added with ``+``; arrays and tensors leave that to `merge`.
    """

    __slots__ = ()

    __array_ufunc__ = None  # an array on the left hands over

    def __add__(self, other: Any) -> Any:
        return self.merge(other)

    __radd__ = __add__

    def merge(self, other: Any) -> Any:
        """Return the sum with another cotangent of the same tensor."""
        raise NotImplementedError

    def settle(self) -> Any:
        """Return what rules, hooks and leaves receive."""
        raise NotImplementedError


class Scattered(Partial):
    """Zeros of `shape` to which each value is added at its index.

    A loop that reads n rows of a tensor adds n small parts and writes one array at the end. An index is a
    template with places for index arrays, and these arrays (see `everyo.ops.indexing`).
    """

    __slots__ = ("arrays", "dense", "dtype", "indices", "shape", "values")

    def __init__(self, value: Any, index: Any, arrays: tuple[Any, ...], shape: tuple[int, ...]) -> None:
        self.values, self.indices, self.arrays = [_without_base(value)], [index], list(arrays)
        self.shape, self.dtype = shape, value.dtype
        self.dense: Any = None  # the sum of all contributions that are no parts

    def merge(self, other: Any) -> Any:
        """Take `other` over: a cotangent has one owner, so the longer lists may grow where they are."""
        if not isinstance(other, Scattered):
            other = other.settle() if isinstance(other, Partial) else other
            self.dense = other if self.dense is None else self.dense + other
            return self
        if len(self.values) < len(other.values):
            return other.merge(self)
        self.values += other.values
        self.indices += other.indices
        self.arrays += other.arrays
        return self if other.dense is None else self.merge(other.dense)

    def settle(self) -> Any:
        """Return the sum, written out."""
        values, indices = self.values, self.indices
        if self.dense is not None:
            values, indices = [self.dense, *values], [(Ellipsis,), *indices]
        return op.assemble(*values, *self.arrays, indices=tuple(indices), shape=self.shape)


def _without_base(value: Any) -> Any:
    """Return a copy of a view of something much larger, which would stay alive as long as the part does."""
    array = value.data if hasattr(value, "grad_node") else value  # a tensor where the walk is recorded
    base = getattr(array, "base", None)
    return value if base is None or getattr(base, "nbytes", 0) <= 2 * array.nbytes else op.copy(value)


SMALL = 4096  # elements up to which it is quicker to add cotangents up than to sum each of them


class Unsummed(Partial):
    """The cotangent of a tensor that was broadcast, with the axes that broadcasting made.

    A tensor that is broadcast again and again, as the weights of a loop are, is summed over once.
    """

    __slots__ = ("layout", "value")

    def __init__(self, value: Any, layout: tuple[tuple[int, ...], Any]) -> None:
        self.value, self.layout = value, layout

    def merge(self, other: Any) -> Any:
        """Take `other` over, as `Scattered` does."""
        if other.__class__ is not Unsummed:
            return self.settle() + other
        if other.value.shape != self.value.shape:
            return self.settle() + other.settle()
        self.value = self.value + other.value
        return self

    __add__ = __radd__ = merge

    def settle(self) -> Any:
        """Return the sum, of the shape and dtype that the tensor has."""
        return summed(self.value, self.layout)


def summed(cotangent: Any, layout: tuple[tuple[int, ...], Any]) -> Any:
    """Return a cotangent without broadcasting and promotion, of a shape and dtype."""
    sum_to = op.sum_to
    kernel = sum_to.kernels.get(cotangent.__class__, sum_to)
    return kernel(cotangent, shape=layout[0], dtype=layout[1])


class Several(Partial):
    """The cotangents of some of the results of one operation, by position."""

    __slots__ = ("parts",)

    def __init__(self, parts: dict[int, Any]) -> None:
        self.parts = parts

    def merge(self, other: Any) -> Any:
        parts = dict(self.parts)
        for index, g in other.parts.items():
            parts[index] = parts[index] + g if index in parts else g
        return Several(parts)

    def settle(self) -> Any:
        """Return the parts as a dict; a rule treats a missing position as zero."""
        return self.parts
