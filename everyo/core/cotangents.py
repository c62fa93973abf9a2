"""Cotangents in parts: zeros that are never written out while the backward pass adds things up."""

from __future__ import annotations

from typing import Any

from everyo.core.registry import op


class Partial:
    """A cotangent that stands for more than it holds; `settle` makes it what a rule can read."""

    __slots__ = ()

    def merge(self, other: Any) -> Any:
        """Return the sum with another cotangent of the same tensor."""
        raise NotImplementedError

    def settle(self) -> Any:
        """Return what rules, hooks and leaves receive."""
        raise NotImplementedError


class Scattered(Partial):
    """Zeros of `shape` to which each value is added at its index.

    A loop that reads n rows of a tensor adds n small parts and writes one array at the end.
    """

    __slots__ = ("dtype", "indices", "shape", "values")

    def __init__(self, value: Any, index: Any, shape: tuple[int, ...]) -> None:
        self.values, self.indices = [value], [index]
        self.shape, self.dtype = shape, value.dtype

    def merge(self, other: Any) -> Any:
        if isinstance(other, Scattered):
            joined = Scattered.__new__(Scattered)
            # The longer list is taken over, not copied: a cotangent has one owner.
            first, second = (self, other) if len(self.values) >= len(other.values) else (other, self)
            first.values += second.values
            first.indices += second.indices
            joined.values, joined.indices = first.values, first.indices
            joined.shape, joined.dtype = self.shape, self.dtype
            return joined
        return other + self.settle()

    def settle(self) -> Any:
        return op.assemble(*self.values, indices=tuple(self.indices), shape=self.shape)


class Several(Partial):
    """The cotangents of some of the results of one operation, by position."""

    __slots__ = ("parts",)

    def __init__(self, parts: dict[int, Any]) -> None:
        self.parts = parts

    def merge(self, other: Any) -> Any:
        parts = dict(self.parts)
        for index, g in other.parts.items():
            parts[index] = add(parts[index], g) if index in parts else g
        return Several(parts)

    def settle(self) -> Any:
        """Return the parts as a dict; a rule treats a missing position as zero."""
        return self.parts


def add(left: Any, right: Any) -> Any:
    """Return the sum of two cotangents of one tensor."""
    if isinstance(left, Partial):
        return left.merge(right)
    if isinstance(right, Partial):
        return right.merge(left)
    return left + right
