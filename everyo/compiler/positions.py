"""How the positions of a window are taken in vectors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from everyo.compiler.machine import Vectors

NARROW = 1.1  # vectors of half the width must save this much: they load more for each product


class Positions(NamedTuple):
    """Positions of windows on images that are read as rows, divided into vectors.

    Attributes
    ----------
    shape : tuple of int
        How many positions there are along each axis.
    steps : tuple of int
        How far apart neighbours along each axis are in an image's row.
    lanes : int
        Elements of a vector.
    through : bool
        Whether vectors go on from one line of positions to the next, over what lies between, which is
        then computed too. If not, no vector leaves its line.
    """

    shape: tuple[int, ...]
    steps: tuple[int, ...]
    lanes: int
    through: bool

    @property
    def lines(self) -> tuple[int, ...]:
        """The axes of lines: none where vectors go through."""
        return () if self.through else self.shape[:-1]

    @property
    def length(self) -> int:
        """Positions of a line, or of all lines with what lies between."""
        if not self.through:
            return self.shape[-1]
        return 1 + sum((n - 1) * step for n, step in zip(self.shape, self.steps))

    @property
    def across(self) -> int:
        """Vectors of a line; the last one begins so early that it ends with the line."""
        return -(-self.length // self.lanes)

    @property
    def number(self) -> int:
        """All vectors."""
        return math.prod(self.lines) * self.across

    def kept(self) -> list[list[bool]]:
        """Return, for each vector of a line, which lanes are positions that no earlier one has."""
        valid = [True] * self.length
        if self.through:
            valid = [False] * self.length
            for place in itertools.product(*map(range, self.shape)):
                valid[sum(i * step for i, step in zip(place, self.steps))] = True
        vectors = []
        for v in range(self.across):
            start = min(v * self.lanes, self.length - self.lanes)
            vectors.append([valid[start + i] and start + i >= v * self.lanes for i in range(self.lanes)])
        return vectors


def divide(shape: Sequence[int], steps: Sequence[int], machine: Vectors, itemsize: int) -> Positions:
    """Return positions in vectors, with the least work; the widest ones take two units of the processor."""
    best: tuple[float, Positions] | None = None
    size = machine.size
    while size >= itemsize:
        for through in (False, True) if len(shape) > 1 else (False,):
            found = Positions(tuple(shape), tuple(steps), size // itemsize, through)
            work = found.number * (2 if size == 64 else 1) * (NARROW if size < machine.size else 1.0)
            if found.lanes <= found.length and (best is None or work < best[0]):
                best = work, found
        size //= 2
    assert best is not None  # one lane fits everywhere
    return best[1]
