"""Products of matrices, tile by tile in registers.

A tile of the result is a few rows, two vectors wide. For each term of its sums one row of the second factor
is read, and elements of the first one are spread over vectors. Factors are read as they lie where that is as
quick (BLAS always copies them first), or packed (`everyo.compiler.tiling`). Terms are added in an order that
does not depend on who computes which tile, and so is the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from everyo.compiler.codegen.text import Function, Index, literal, type_of
from everyo.compiler.fuse import is_transposed
from everyo.compiler.graph import Op
from everyo.compiler.tiling import Tiles, is_packed

PART = 512  # terms that are added up by themselves, so that rounding does not grow with their number


def write_tiles(f: Function, op: Op, cut: Tiles, pointers: Sequence[str]) -> None:
    """Write the tiles ``%low`` to ``%high``, counted downwards, of a product.

    `pointers` are those of the factors, the result, and of what the product is added to, if it is.
    """
    f.declares |= {"declare i64 @llvm.smin.i64(i64, i64)", "declare i64 @llvm.smax.i64(i64, i64)"}
    m, n = op.out.shape
    full = m // cut.rows
    for first, last, widths in _strips(n, cut):
        step = sum(widths)
        with f.loop(0, (last - first) // step) as strip:
            column = f.add(f.mul(strip, step), first)
            end = f.pure(f"call i64 @llvm.smin.i64(i64 %high, i64 {full})")
            with f.loop("%low", end) as tile:
                _Tile(f, op, pointers, (f.mul(tile, cut.rows), cut.rows), column, widths).write()
            if full < cut.down:
                begin = f.pure(f"call i64 @llvm.smax.i64(i64 %low, i64 {full})")
                with f.loop(begin, "%high"):
                    _Tile(f, op, pointers, (full * cut.rows, m % cut.rows), column, widths).write()


def _strips(n: int, cut: Tiles) -> Iterator[tuple[int, int, list[int]]]:
    """Yield ranges of columns, and how wide the vectors are that go through one of them side by side."""
    full, rest = n - n % cut.columns, n % cut.columns
    if full:
        yield 0, full, [cut.lanes] * (cut.columns // cut.lanes)
    if rest:
        yield full, n, [width for width in (min(rest, cut.lanes), rest - cut.lanes) if width > 0]


class _Tile:
    """One tile: from a row on so many, and vectors of `widths` elements from a column on."""

    def __init__(
        self,
        f: Function,
        op: Op,
        pointers: Sequence[str],
        span: tuple[Index, int],
        column: Index,
        widths: Sequence[int],
    ) -> None:
        self.f, self.op, self.pointers, self.column, self.widths = f, op, pointers, column, widths
        self.row, self.rows = span
        self.kind, self.aligned = type_of(op.out.dtype), f"align {op.out.dtype.itemsize}"
        self.types = [f"<{w} x {self.kind}>" for w in widths]
        self.offsets = [sum(widths[:v]) for v in range(len(widths))]
        self.packed = is_packed(op, 0), is_packed(op, 1)

    def write(self) -> None:
        """Write the sums of all terms into the result."""
        f, k, sums = self.f, self.op.operands[0].shape[-1], self._zeros()
        if k <= PART:
            self._add_up(sums, 0, k)
        else:
            with f.loop(0, -(-k // PART)) as part:
                low, parts = f.mul(part, PART), self._zeros()
                high = f.pure(f"call i64 @llvm.smin.i64(i64 {f.add(low, PART)}, i64 {k})")
                self._add_up(parts, low, high)
                for (r, v), place in sums.items():
                    x, y = (f.make(f"load {self.types[v]}, ptr {p}") for p in (place, parts[r, v]))
                    f.line(f"store {self.types[v]} {f.make(f'fadd {self.types[v]} {x}, {y}')}, ptr {place}")
        for (r, v), place in sums.items():
            self._finish(r, v, f.make(f"load {self.types[v]}, ptr {place}"))

    def _zeros(self) -> dict[tuple[int, int], str]:
        """Return places for the sums of each row and vector, of nothing so far."""
        sums = {(r, v): self.f.alloca(t) for r in range(self.rows) for v, t in enumerate(self.types)}
        for (_, v), place in sums.items():
            self.f.line(f"store {self.types[v]} zeroinitializer, ptr {place}")
        return sums

    def _add_up(self, sums: dict[tuple[int, int], str], low: Index, high: Index) -> None:
        """Write the sums of some terms."""
        f = self.f
        with f.loop(low, high) as term:
            rows = [self._vector(self.pointers[1], v, self._row_at(term)) for v in range(len(self.types))]
            for r in range(self.rows):
                x = f.make(
                    f"load {self.kind}, ptr {_at(f, self.kind, self.pointers[0], self._place(r, term))}"
                )
                for v, y in enumerate(rows):
                    before = f.make(f"load {self.types[v]}, ptr {sums[r, v]}")
                    f.line(f"store {self.types[v]} {self._fma(v, x, y, before)}, ptr {sums[r, v]}")

    def _place(self, r: int, term: Index) -> Index:
        """Return where the first factor has an element."""
        f, (m, k) = self.f, self.op.operands[0].shape
        if self.packed[0]:
            return f.add(f.add(f.mul(self.row, k), f.mul(term, self.rows)), r)
        i = f.add(self.row, r)
        return f.add(f.mul(term, m), i) if is_transposed(self.op, 0) else f.add(f.mul(i, k), term)

    def _row_at(self, term: Index) -> Index:
        """Return where the second factor has the part of a row."""
        f, (k, n) = self.f, self.op.operands[1].shape
        if self.packed[1]:
            return f.add(f.mul(self.column, k), f.mul(term, sum(self.widths)))
        return f.add(f.mul(term, n), self.column)

    def _finish(self, r: int, v: int, x: str) -> None:
        """Write one vector of the result: scaled, and added to what it is to be added to."""
        f, t, alpha = self.f, self.types[v], self.op.params.get("alpha", 1)
        number = literal(alpha, self.op.out.dtype)
        place = f.add(f.mul(f.add(self.row, r), self.op.out.shape[1]), self.column)
        if len(self.pointers) > 3:
            x = self._fma(v, number, x, self._vector(self.pointers[3], v, place))
        elif alpha != 1:
            x = f.make(f"fmul {t} {x}, {_spread(f, t, self.kind, number, self.widths[v])}")
        target = _at(f, self.kind, self.pointers[2], f.add(place, self.offsets[v]))
        f.line(f"store {t} {x}, ptr {target}, {self.aligned}")

    def _vector(self, pointer: str, v: int, place: Index) -> str:
        source = _at(self.f, self.kind, pointer, self.f.add(place, self.offsets[v]))
        return self.f.make(f"load {self.types[v]}, ptr {source}, {self.aligned}")

    def _fma(self, v: int, number: str, y: str, z: str) -> str:
        """Return a number times a vector, added to another vector, in one rounding."""
        f, t, width = self.f, self.types[v], self.widths[v]
        name = f"llvm.fma.v{width}f{64 if self.kind == 'double' else 32}"
        f.declares.add(f"declare {t} @{name}({t}, {t}, {t})")
        return f.make(f"call {t} @{name}({t} {_spread(f, t, self.kind, number, width)}, {t} {y}, {t} {z})")


def _at(f: Function, kind: str, pointer: str, offset: Index) -> str:
    return f.pure(f"getelementptr inbounds {kind}, ptr {pointer}, i64 {offset}")


def _spread(f: Function, type: str, kind: str, x: str, width: int) -> str:
    """Return a vector of equal elements."""
    one = f.pure(f"insertelement {type} poison, {kind} {x}, i32 0")
    return f.pure(f"shufflevector {type} {one}, {type} poison, <{width} x i32> zeroinitializer")
