"""Which products are taken in tiles, and which of their factors are packed for it.

A packed factor lies in strips, one behind the other, each as wide as a tile and with one row for each term
of the sums. Going along a strip is going straight on in memory, however the factor lay before: across its
rows, or in rows so far apart that they get into each other's way in the caches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from everyo.compiler.fuse import is_transposed
from everyo.compiler.graph import Graph, Op, Value, transposed
from everyo.compiler.machine import vectors

CACHED = 1 << 20  # bytes of a second factor up to which its rows are read as they lie
LARGE = 8 << 20  # bytes of a second factor from which on BLAS is as fast: it takes a factor part by part
STRIP = 1 << 19  # bytes of a strip, at most: half of a usual second-level cache
WORTH = 1 << 19  # terms of all sums from which on tiles are worth LLVM's time
REUSED = 64  # rows, or columns, of a product from which on the other factor is worth packing
WIDE = 2  # vectors of a tile's row


class Tiles(NamedTuple):
    """How a product is cut: rows of a tile, elements of a vector, and the number of tiles in a column."""

    rows: int
    lanes: int
    down: int

    @property
    def columns(self) -> int:
        """The columns of a tile."""
        return WIDE * self.lanes


def tiles_of(op: Op) -> Tiles | None:
    """Return how a product is cut into tiles, or None where BLAS is faster."""
    cut = _cut(op)
    return None if cut is None or (not is_packed(op, 1) and _has_to_be_packed(op)) else cut


def is_packed(op: Op, position: int) -> bool:
    """Whether a factor of a product lies in strips."""
    maker = op.operands[position].op
    return maker is not None and maker.name == "pack"


def pack_factors(graph: Graph) -> Graph:
    """Pack factors of products that are taken in tiles, in bodies of loops and branches too."""
    packing = _Packing()
    for op in graph.ops:
        if op.name == "dot":
            packing.change(op)
        packing.ops.append(op)
    graph.ops = packing.ops
    for body in graph.bodies():
        pack_factors(body)
    return graph


class _Packing:
    """Operations of a graph, with those that pack factors in front of the products that read them."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self._made: dict[Any, Value] = {}

    def change(self, op: Op) -> None:
        """Let a product read packed factors where that pays."""
        cut = _cut(op)
        if cut is None:
            return
        if _has_to_be_packed(op):
            strip = op.operands[1].shape[0] * cut.columns * op.out.dtype.itemsize
            if op.out.shape[0] < REUSED or strip > STRIP or op.operands[1].nbytes > LARGE:
                return
            op.inputs[1] = self._packed(op.operands[1], 1, cut.columns)
        if is_transposed(op, 0) and op.out.shape[1] >= REUSED:
            op.inputs[0] = self._packed(op.operands[0], 0, cut.rows)

    def _packed(self, value: Value, axis: int, width: int) -> Value:
        """Return a factor in strips of some columns (axis 1) or rows (axis 0)."""
        source = transposed(value)
        key = (value if source is None else source, source is None, axis, width)
        if key not in self._made:
            op = Op("pack", [value], {"axis": axis, "width": width})
            op.outs = [Value(value.shape, value.dtype, op)]
            self.ops.append(op)
            self._made[key] = op.out
        return self._made[key]


def _cut(op: Op) -> Tiles | None:
    """Return how a product would be cut into tiles; None where it is no product of two matrices, or small."""
    (*batch, m, k), n = op.operands[0].shape, op.operands[1].shape[-1]
    lanes = vectors().lanes(op.out.dtype)
    rows = 8 if vectors().number >= 32 else 4
    return None if batch or m * n * k < WORTH or n < lanes else Tiles(rows, lanes, -(-m // rows))


def _has_to_be_packed(op: Op) -> bool:
    return is_transposed(op, 1) or op.operands[1].nbytes > CACHED
