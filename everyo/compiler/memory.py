"""The memory plan: values whose lifetimes do not overlap share a place in one arena."""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Mapping
from typing import NamedTuple, TypeVar

ALIGNMENT = 64
Key = TypeVar("Key", bound=Hashable)


class Lifetime(NamedTuple):
    """Bytes that are needed from one step to another, both included."""

    size: int
    first: int
    last: int


def aligned(size: int) -> int:
    """Return the size rounded up to whole cache lines."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def place(lifetimes: Mapping[Key, Lifetime]) -> tuple[dict[Key, int], int]:
    """Return an offset for each value, and the size of the arena: the largest ones are placed first."""
    offsets: dict[Key, int] = {}
    placed: list[tuple[int, int, Lifetime]] = []
    total = 0
    for key, life in sorted(lifetimes.items(), key=lambda item: -item[1].size):
        size = aligned(max(life.size, 1))
        offset = 0
        for start, end, other in placed:
            if other.first <= life.last and life.first <= other.last:
                if offset + size <= start:
                    break
                offset = max(offset, end)
        offsets[key] = offset
        insort(placed, (offset, offset + size, life))
        total = max(total, offset + size)
    return offsets, total
