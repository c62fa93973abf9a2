"""Factors of products, arranged in strips; see `everyo.compiler.tiling`."""

from __future__ import annotations

from collections.abc import Iterator

from everyo.compiler.codegen.text import Function, Index, memory_type
from everyo.compiler.fuse import Cluster, Plan, buffer_value, is_transposed
from everyo.compiler.machine import vectors

LINES = 32  # elements of a row that are read together: some cache lines


class Pack:
    """A matrix in strips of some of its columns or rows, of which the last one may be narrower.

    Where a strip takes parts of rows as they lie in memory, these are copied. Where it goes across the rows,
    square blocks are turned in registers.
    """

    def __init__(self, plan: Plan, cluster: Cluster, name: str) -> None:
        self.f, self.op = Function(name, []), cluster.members[0].op
        self.cluster, value = cluster, self.op.operands[0]
        self.axis, self.width = self.op.params["axis"], self.op.params["width"]
        self.across, self.terms = value.shape[self.axis], value.shape[1 - self.axis]
        self.kind, self.lanes = memory_type(value.dtype), vectors().lanes(value.dtype)
        self.aligned = f"align {value.dtype.itemsize}"
        self.strips = max(1, LINES // self.width)
        self.extent = (-(-self.across // (self.strips * self.width)),)
        self.buffers = {buffer_value(self.op, 0): "%x", self.op.out: "%y"}

    def build(self) -> str:
        f, width = self.f, self.strips * self.width
        full, rest = divmod(self.across, width)
        copied = (self.axis == 1) != is_transposed(self.op, 0)
        write = self._copy if copied else self._turn
        f.declares |= {"declare i64 @llvm.smin.i64(i64, i64)", "declare i64 @llvm.smax.i64(i64, i64)"}
        end = f.pure(f"call i64 @llvm.smin.i64(i64 %high, i64 {full})")
        with f.loop("%low", end) as band:
            write(f.mul(band, width), [self.width] * self.strips)
        if rest:
            with f.loop(f.pure(f"call i64 @llvm.smax.i64(i64 %low, i64 {full})"), "%high"):
                widths = [*[self.width] * (rest // self.width), rest % self.width]
                write(full * width, [w for w in widths if w])
        return f.kernel(self.buffers.values())

    def _at(self, pointer: str, offset: Index) -> str:
        return self.f.pure(f"getelementptr inbounds {self.kind}, ptr {pointer}, i64 {offset}")

    def _copy(self, start: Index, widths: list[int]) -> None:
        """Write strips whose rows are parts of rows in memory."""
        f = self.f
        with f.loop(0, self.terms) as term:
            for i, width in enumerate(widths):
                row, first = f"<{width} x {self.kind}>", f.add(start, i * self.width)
                source = f.add(f.mul(term, self.across), first)
                target = f.add(f.mul(first, self.terms), f.mul(term, width))
                x = f.make(f"load {row}, ptr {self._at('%x', source)}, {self.aligned}")
                f.line(f"store {row} {x}, ptr {self._at('%y', target)}, {self.aligned}")

    def _turn(self, start: Index, widths: list[int]) -> None:
        """Write strips whose columns are rows in memory."""
        f, lanes = self.f, min(self.lanes, 1 << (self.terms.bit_length() - 1))
        with f.loop(0, -(-self.terms // lanes)) as block:
            # the last block begins earlier: some terms are written twice, and none is left over
            term = f.pure(f"call i64 @llvm.smin.i64(i64 {f.mul(block, lanes)}, i64 {self.terms - lanes})")
            for i, width in enumerate(widths):
                first = f.add(start, i * self.width)
                for group in range(0, width, lanes):
                    self._turn_block(first, width, group, min(lanes, width - group), term, lanes)

    def _turn_block(
        self, start: Index, width: int, group: int, columns: int, term: Index, lanes: int
    ) -> None:
        """Write the terms of a block for columns of a strip, from one on: at most a square."""
        f, row = self.f, f"<{lanes} x {self.kind}>"
        rows = []
        for i in range(columns):
            source = f.add(f.mul(f.add(start, group + i), self.terms), term)
            rows.append(f.make(f"load {row}, ptr {self._at('%x', source)}, {self.aligned}"))
        rows += ["poison"] * (lanes - columns)
        kept, part = ", ".join(f"i32 {i}" for i in range(columns)), f"<{columns} x {self.kind}>"
        for i, x in enumerate(self._turned(rows, row)):
            if columns < lanes:
                x = f.pure(f"shufflevector {row} {x}, {row} poison, <{columns} x i32> <{kept}>")
            place = f.add(f.mul(f.add(term, i), width), group)
            target = self._at("%y", f.add(f.mul(start, self.terms), place))
            f.line(f"store {part} {x}, ptr {target}, {self.aligned}")

    def _turned(self, rows: list[str], type: str) -> list[str]:
        """Return the columns of a square block, of which the rows are given, all of them vectors."""
        step = 1
        while step < len(rows):
            for i, j in _pairs(len(rows), step):
                lanes = range(len(rows))
                first = [k + len(rows) - step if k & step else k for k in lanes]
                second = [k + len(rows) if k & step else k + step for k in lanes]
                rows[i], rows[j] = (self._chosen(type, rows[i], rows[j], mask) for mask in (first, second))
            step *= 2
        return rows

    def _chosen(self, type: str, a: str, b: str, mask: list[int]) -> str:
        lanes = ", ".join(f"i32 {k}" for k in mask)
        return self.f.pure(f"shufflevector {type} {a}, {type} {b}, <{len(mask)} x i32> <{lanes}>")


def _pairs(n: int, step: int) -> Iterator[tuple[int, int]]:
    """Yield pairs of rows that exchange parts in one step of turning a block."""
    for i in range(n):
        if not i & step:
            yield i, i + step
