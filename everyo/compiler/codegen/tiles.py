"""Products of matrices, tile by tile in registers.

A tile of the result is a few rows, two vectors wide. For each term of its sums one row of the second factor
is read, and elements of the first one are spread over vectors. Factors are read as they lie where that is as
quick (BLAS always copies them first), or packed (`everyo.compiler.tiling`). Terms are added in order, so that
the result does not depend on who computes which tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from everyo.compiler.codegen.text import Function, Index, literal, type_of
from everyo.compiler.fuse import is_transposed
from everyo.compiler.graph import Op
from everyo.compiler.tiling import Tiles, is_packed


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
                _write_tile(f, op, pointers, (f.mul(tile, cut.rows), cut.rows), column, widths)
            if full < cut.down:
                begin = f.pure(f"call i64 @llvm.smax.i64(i64 %low, i64 {full})")
                with f.loop(begin, "%high"):
                    _write_tile(f, op, pointers, (full * cut.rows, m % cut.rows), column, widths)


def _strips(n: int, cut: Tiles) -> Iterator[tuple[int, int, list[int]]]:
    """Yield ranges of columns, and how wide the vectors are that go through one of them side by side."""
    full, rest = n - n % cut.columns, n % cut.columns
    if full:
        yield 0, full, [cut.lanes] * (cut.columns // cut.lanes)
    if rest:
        yield full, n, [width for width in (min(rest, cut.lanes), rest - cut.lanes) if width > 0]


def _write_tile(
    f: Function,
    op: Op,
    pointers: Sequence[str],
    span: tuple[Index, int],
    column: Index,
    widths: Sequence[int],
) -> None:
    """Write one tile: from a row on so many, and vectors of `widths` elements from a column on."""
    (m, n), k, (row, rows) = op.out.shape, op.operands[0].shape[-1], span
    kind = type_of(op.out.dtype)
    pa, pb, pc, *start = pointers
    alpha = op.params.get("alpha", 1)
    types = [f"<{w} x {kind}>" for w in widths]
    x: Any
    offsets = [sum(widths[:v]) for v in range(len(widths))]
    packed = is_packed(op, 0), is_packed(op, 1)
    sums = {(r, v): f.alloca(t) for r in range(rows) for v, t in enumerate(types)}
    for (_, v), place in sums.items():
        f.line(f"store {types[v]} zeroinitializer, ptr {place}")
    with f.loop(0, k) as term:
        strip = f.add(f.mul(column, k), f.mul(term, sum(widths)))
        line = strip if packed[1] else f.add(f.mul(term, n), column)
        factors = [f.make(f"load {t}, ptr {_at(f, kind, pb, f.add(line, o))}, align {op.out.dtype.itemsize}")
                   for t, o in zip(types, offsets)]  # fmt: skip
        for r in range(rows):
            i = f.add(row, r)
            if packed[0]:
                index = f.add(f.add(f.mul(row, k), f.mul(term, rows)), r)
            else:
                index = f.add(f.mul(term, m), i) if is_transposed(op, 0) else f.add(f.mul(i, k), term)
            x = f.make(f"load {kind}, ptr {_at(f, kind, pa, index)}")
            for v, t in enumerate(types):
                before = f.make(f"load {t}, ptr {sums[r, v]}")
                after = _fma(f, t, kind, widths[v], _spread(f, t, kind, x, widths[v]), factors[v], before)
                f.line(f"store {t} {after}, ptr {sums[r, v]}")
    for (r, v), place in sums.items():
        t = types[v]
        x = f.make(f"load {t}, ptr {place}")
        position = f.add(f.mul(f.add(row, r), n), f.add(column, offsets[v]))
        target = _at(f, kind, pc, position)
        factor = _spread(f, t, kind, literal(alpha, op.out.dtype), widths[v])
        aligned = f"align {op.out.dtype.itemsize}"
        if start:
            before = f.make(f"load {t}, ptr {_at(f, kind, start[0], position)}, {aligned}")
            x = _fma(f, t, kind, widths[v], factor, x, before)
        elif alpha != 1:
            x = f.make(f"fmul {t} {x}, {factor}")
        f.line(f"store {t} {x}, ptr {target}, {aligned}")


def _at(f: Function, kind: str, pointer: str, offset: Index) -> str:
    return f.pure(f"getelementptr inbounds {kind}, ptr {pointer}, i64 {offset}")


def _spread(f: Function, type: str, kind: str, x: str, width: int) -> str:
    """Return a vector of equal elements."""
    one = f.pure(f"insertelement {type} poison, {kind} {x}, i32 0")
    return f.pure(f"shufflevector {type} {one}, {type} poison, <{width} x i32> zeroinitializer")


def _fma(f: Function, type: str, kind: str, width: int, x: str, y: str, z: str) -> str:
    name = f"llvm.fma.v{width}f{64 if kind == 'double' else 32}"
    f.declares.add(f"declare {type} @{name}({type}, {type}, {type})")
    return f.make(f"call {type} @{name}({type} {x}, {type} {y}, {type} {z})")
