"""Kernels of convolutions on flattened images, in vectors along the positions.

An image with its padding is read as one row of numbers, in which each element of a kernel (a *tap*) lies
at a fixed distance from the position. So a vector of positions meets a vector of the image at every tap,
without a copy of the windows. What lies between the end of one line and the begin of the next is computed
like the rest, and left out later.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from everyo.compiler.codegen.text import Function, Index, literal, type_of
from everyo.compiler.fuse import Cluster, Plan, buffer_value
from everyo.compiler.graph import Op, Value
from everyo.compiler.machine import Vectors, vectors

UNROLLED = 400  # products of vectors that are written out for one channel
LATENCY = 8  # half cycles until the result of a product can be used
DEEP = 9  # taps whose sums are kept in registers at once


class Tile(NamedTuple):
    """What is kept in registers: sums of `rows` outputs at `columns` vectors (or taps) of `lanes` elements."""

    lanes: int
    rows: int
    columns: int

    def fits(self, machine: Vectors) -> bool:
        """Whether the sums and the operands of one step find room in the registers."""
        return self.rows * self.columns + min(self.rows, self.columns) + 1 <= machine.count

    def width(self, machine: Vectors, itemsize: int) -> int:
        """Return how many half cycles one instruction takes: the widest vectors take two units."""
        return 2 if machine.size == 64 and self.lanes * itemsize == 64 else 1


def split(total: int, part: int) -> list[tuple[int, int, int]]:
    """Return (start, size, count) of the whole parts of a range, then of what remains of it."""
    whole, rest = divmod(total, part)
    found = [(0, part, whole)] if whole else []
    return [*found, (whole * part, rest, 1)] if rest else found


def halves(machine: Vectors, itemsize: int, most: int) -> list[int]:
    """Return numbers of lanes, the widest first, of which at most `most` elements fill one vector."""
    lanes = machine.size // itemsize
    found = []
    while lanes > 1:
        if lanes <= most:
            found.append(lanes)
        lanes //= 2
    return found or [1]


class Convolution:
    """What the kernels share: an image as a row, the taps, and vectors of either kind of number."""

    def __init__(self, plan: Plan, cluster: Cluster, name: str) -> None:
        self.f = Function(name, [])
        self.op: Op = cluster.members[0].op
        self.buffers: dict[Value, str] = {}
        self.machine = vectors()
        params, dtype = self.op.params, self.op.out.dtype
        self.groups: int = params["groups"]
        self.offsets: tuple[int, ...] = params["offsets"]
        self.count: int = params["count"]  # positions, those between lines too
        x = self.op.operands[0]
        self.images, self.length = x.shape[0], math.prod(x.shape[2:])
        self.depth = x.shape[1] // self.groups
        self.dtype, self.kind = dtype, type_of(dtype)
        self.extent: tuple[int, ...] = ()
        self._sums: list[str] = []

    def pointer(self, value: Value) -> str:
        return self.buffers.setdefault(value, f"%p{len(self.buffers)}")

    def operand(self, position: int) -> str:
        return self.pointer(buffer_value(self.op, position))

    def sums(self, count: int) -> list[str]:
        """Return memory for vectors, which LLVM keeps in registers."""
        while len(self._sums) < count:
            self._sums.append(self.f.alloca(self.vector))
        return self._sums[:count]

    def clear(self, count: int) -> list[str]:
        """Return sums that are zero."""
        sums = self.sums(count)
        for place in sums:
            self.f.line(f"store {self.vector} zeroinitializer, ptr {place}")
        return sums

    @property
    def lanes(self) -> int:
        return self.tile.lanes

    @property
    def tile(self) -> Tile:
        raise NotImplementedError

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {self.kind}>"

    def load(self, pointer: str, offset: Index) -> str:
        """Return the vector that begins at an element."""
        f = self.f
        address = f.pure(f"getelementptr inbounds {self.kind}, ptr {pointer}, i64 {offset}")
        return f.make(f"load {self.vector}, ptr {address}, align {self.dtype.itemsize}")

    def spread(self, pointer: str, offset: Index) -> str:
        """Return a vector of one element."""
        x = self.f.load(pointer, offset, self.dtype)
        first = self.f.pure(f"insertelement {self.vector} poison, {self.kind} {x}, i64 0")
        return self.f.pure(
            f"shufflevector {self.vector} {first}, {self.vector} poison, <{self.lanes} x i32> zeroinitializer"
        )

    def accumulate(self, place: str, x: str, y: str) -> None:
        """Add a product to a sum."""
        f, floats = self.f, self.dtype.kind == "f"
        times, plus = ("fmul contract", "fadd contract") if floats else ("mul", "add")
        before = f.make(f"load {self.vector}, ptr {place}")
        product = f.make(f"{times} {self.vector} {x}, {y}")
        f.line(f"store {self.vector} {f.make(f'{plus} {self.vector} {before}, {product}')}, ptr {place}")

    def array(self, name: str, kind: str, numbers: Iterable[int]) -> tuple[str, str]:
        """Return the name of a constant array and its text."""
        symbol, values = f"@{self.f.name}.{name}", ", ".join(f"{kind} {n}" for n in numbers)
        size = values.count(",") + 1
        return symbol, f"{symbol} = internal constant [{size} x {kind}] [{values}]\n"


class Convolve(Convolution):
    """Sums of weights times what lies at the taps, at every position."""

    def __init__(self, plan: Plan, cluster: Cluster, name: str) -> None:
        super().__init__(plan, cluster, name)
        self.outputs = self.op.operands[1].shape[0] // self.groups
        self._tile = self._best()
        self.even = self.outputs % self._tile.rows == 0
        blocks = self.outputs // self._tile.rows if self.even else 1
        self.units = (self.images, self.groups, blocks)
        self.extent = (math.prod(self.units),)

    @property
    def tile(self) -> Tile:
        return self._tile

    def _best(self) -> Tile:
        """Return the tile with the least work, counted in half cycles for one tap of one channel."""
        itemsize = self.dtype.itemsize
        found: list[tuple[int, int, Tile]] = []
        for lanes in halves(self.machine, itemsize, self.count):
            columns = -(-self.count // lanes)
            for width in range(1, min(columns, 8) + 1):
                for rows in range(1, min(self.outputs, 24) + 1):
                    tile = Tile(lanes, rows, width)
                    if tile.fits(self.machine):
                        found.append((self._effort(tile, columns), -rows * width, tile))
        return min(found)[2]

    def _effort(self, tile: Tile, columns: int) -> int:
        unit, total = tile.width(self.machine, self.dtype.itemsize), 0
        for _, rows, count in split(self.outputs, tile.rows):
            for _, width, times in split(columns, tile.columns):
                total += count * times * max(rows * width * unit, width * unit + rows, LATENCY)
        return total

    def build(self) -> str:
        f, taps = self.f, len(self.offsets)
        self.table, text = "", ""
        if taps * self.tile.rows * self.tile.columns > UNROLLED:
            self.table, text = self.array("taps", "i64", self.offsets)
        with f.loop("%low", "%high") as unit:
            n, g, block = f.unflat(unit, self.units)
            if self.even:
                self._rows(n, g, f.mul(block, self.tile.rows), self.tile.rows)
            else:
                for start, rows, count in split(self.outputs, self.tile.rows):
                    with f.scope(), f.loop(0, count) as i:
                        self._rows(n, g, f.add(f.mul(i, rows), start), rows)
        return text + f.kernel(self.buffers.values())

    def _rows(self, n: Index, g: Index, row: Index, rows: int) -> None:
        """Compute some outputs of an image at all positions."""
        f, lanes = self.f, self.lanes
        image = f.mul(f.add(f.mul(n, self.groups), g), self.depth * self.length)
        for first, width, count in split(-(-self.count // lanes), self.tile.columns):
            with f.scope(), f.loop(0, count) as i:
                begin = f.mul(f.add(f.mul(i, width), first), lanes)
                starts = [self._inside(f.add(begin, v * lanes)) for v in range(width)]
                outputs = [f.add(f.add(f.mul(g, self.outputs), row), r) for r in range(rows)]
                sums = self._block(image, starts, outputs)
                self._store(n, starts, outputs, sums)

    def _inside(self, start: Index) -> Index:
        """Return where a vector begins: the last one so early that it ends with the positions."""
        last = self.count - self.lanes
        if isinstance(start, int):
            return min(start, last)
        if self.count % self.lanes == 0:
            return start
        late = self.f.pure(f"icmp sgt i64 {start}, {last}")
        return self.f.pure(f"select i1 {late}, i64 {last}, i64 {start}")

    def _block(self, image: Index, starts: Sequence[Index], outputs: Sequence[Index]) -> list[str]:
        """Sum up over all channels and taps; return the sums, output by output."""
        f, px, pw, taps = self.f, self.operand(0), self.operand(1), len(self.offsets)
        sums = self.clear(len(starts) * len(outputs))

        def tap(c: Index, t: Index, offset: Index) -> None:
            here = f.add(f.add(image, f.mul(c, self.length)), offset)
            xs = [self.load(px, f.add(start, here)) for start in starts]
            for r, output in enumerate(outputs):
                weight = self.spread(pw, f.add(f.mul(f.add(f.mul(output, self.depth), c), taps), t))
                for v, x in enumerate(xs):
                    self.accumulate(sums[r * len(xs) + v], x, weight)

        with f.loop(0, self.depth) as c:
            if self.table:
                with f.loop(0, taps) as t:
                    tap(c, t, f.load(self.table, t, np.int64))
            else:
                for t, offset in enumerate(self.offsets):
                    tap(c, t, offset)
        return sums

    def _store(self, n: Index, starts: Sequence[Index], outputs: Sequence[Index], sums: list[str]) -> None:
        f, out = self.f, self.op.out
        pointer, row = self.pointer(out), math.prod(out.shape[2:])
        places = iter(sums)
        for output in outputs:
            for start in starts:
                value = f.make(f"load {self.vector}, ptr {next(places)}")
                at = f.add(f.mul(f.add(f.mul(n, out.shape[1]), output), row), start)
                address = f.pure(f"getelementptr inbounds {self.kind}, ptr {pointer}, i64 {at}")
                f.line(f"store {self.vector} {value}, ptr {address}, align {self.dtype.itemsize}")


class ConvolveWeight(Convolution):
    """Sums over positions and images of a cotangent times what lies at the taps."""

    def __init__(self, plan: Plan, cluster: Cluster, name: str) -> None:
        super().__init__(plan, cluster, name)
        self.outputs = self.op.operands[1].shape[1] // self.groups
        self._tile, self.channels, self.taps = self._best()
        self.units = (self.groups, self.outputs // self._tile.rows, self.depth // self.channels)
        self.extent = (math.prod(self.units),)
        self.mask, self.table = self._valid(), ""

    @property
    def tile(self) -> Tile:
        return self._tile

    def _best(self) -> tuple[Tile, int, int]:
        """Return the best tile, and its channels and taps, of which there is one sum each for every row."""
        total, itemsize = len(self.offsets), self.dtype.itemsize
        channels = max(c for c in range(1, max(DEEP // total, 1) + 1) if self.depth % c == 0)
        found: list[tuple[int, Tile, int, int]] = []
        for lanes in halves(self.machine, itemsize, self.count):
            for pieces in range(-(-total // DEEP), total + 1):
                taps = -(-total // pieces)
                for rows in (r for r in range(1, 9) if self.outputs % r == 0):
                    tile = Tile(lanes, rows, channels * taps)
                    if tile.rows * tile.columns + tile.rows + 1 <= self.machine.count:
                        found.append((self._effort(tile, channels, taps), tile, channels, taps))
        return min(found)[1:]

    def _effort(self, tile: Tile, channels: int, taps: int) -> int:
        unit, total = tile.width(self.machine, self.dtype.itemsize), 0
        steps = self.outputs // tile.rows * (self.depth // channels) * -(-self.count // tile.lanes)
        for _, part, count in split(len(self.offsets), taps):
            columns = channels * part
            total += count * max(tile.rows * columns * unit, (tile.rows + columns) * unit, LATENCY)
        return total * steps

    def _valid(self) -> np.ndarray | None:
        """Return which positions are not between lines; None if all are."""
        valid = np.zeros(self.count, bool)
        at = np.zeros((), np.int64)
        for n, step in zip(self.op.params["positions"], self.op.params["steps"]):
            at = at[..., None] + np.arange(n) * step
        valid[at.reshape(-1)] = True
        return None if valid.all() else valid

    def build(self) -> str:
        f, text = self.f, ""
        whole = self.count // self.lanes
        if self.mask is not None:
            rows = self.mask[: whole * self.lanes].reshape(whole, self.lanes).astype(np.int64)
            words = rows @ (np.int64(1) << np.arange(self.lanes))
            self.table, text = self.array("valid", "i64", words.tolist() or [0])
        with f.loop("%low", "%high") as unit:
            g, block, part = f.unflat(unit, self.units)
            first = f.add(f.mul(g, self.outputs), f.mul(block, self.tile.rows))
            outputs = [f.add(first, r) for r in range(self.tile.rows)]
            channel = f.mul(part, self.channels)
            for start in range(0, len(self.offsets), self.taps):
                taps = range(start, min(start + self.taps, len(self.offsets)))
                with f.scope():
                    self._block(g, outputs, channel, taps)
        return text + f.kernel(self.buffers.values())

    def _block(self, g: Index, outputs: Sequence[Index], channel: Index, taps: Sequence[int]) -> None:
        """Sum up over all images and positions, and write the sums."""
        f = self.f
        keys = [(c, t) for c in range(self.channels) for t in taps]
        sums = self.clear(len(outputs) * len(keys))
        whole, rest = divmod(self.count, self.lanes)
        with f.loop(0, self.images) as n:
            with f.loop(0, whole) as v:
                mask = self._mask(v)
                self._step(n, g, outputs, channel, keys, f.mul(v, self.lanes), mask, sums)
            if rest:
                with f.scope():
                    self._step(n, g, outputs, channel, keys, self.count - self.lanes, self._last(rest), sums)
        places = iter(sums)
        for output in outputs:
            for c, t in keys:
                row = f.add(f.mul(output, self.depth), f.add(channel, c))
                at = f.add(f.mul(row, len(self.offsets)), t)
                f.store(self._total(next(places)), self.pointer(self.op.out), at, self.dtype)

    def _mask(self, v: Index) -> str:
        """Return which lanes of a vector of positions count; nothing if all do."""
        if not self.table:
            return ""
        word = self.f.load(self.table, v, np.int64)
        if self.lanes < 64:
            word = self.f.pure(f"trunc i64 {word} to i{self.lanes}")
        return self.f.pure(f"bitcast i{self.lanes} {word} to <{self.lanes} x i1>")

    def _last(self, rest: int) -> str:
        """Return which lanes of the last vector count: it begins so early that it ends with the positions."""
        own = np.arange(self.lanes) >= self.lanes - rest
        if self.mask is not None:
            own &= self.mask[self.count - self.lanes :]
        return "<" + ", ".join(f"i1 {str(bool(x)).lower()}" for x in own) + ">"

    def _step(
        self,
        n: Index,
        g: Index,
        outputs: Sequence[Index],
        channel: Index,
        keys: Sequence[tuple[int, int]],
        start: Index,
        mask: str,
        sums: Sequence[str],
    ) -> None:
        """Add the products at one vector of positions."""
        f, y = self.f, self.op.operands[1]
        line = math.prod(y.shape[2:])
        image = f.mul(
            f.add(f.add(f.mul(n, self.op.operands[0].shape[1]), f.mul(g, self.depth)), channel), self.length
        )
        ys = []
        for output in outputs:
            at = f.mul(f.add(f.mul(n, y.shape[1]), output), line)
            ys.append(self._masked(mask, self.load(self.operand(1), f.add(at, start))))
        for k, (c, t) in enumerate(keys):
            at = f.add(f.add(image, start), c * self.length + self.offsets[t])
            x = self._masked(mask, self.load(self.operand(0), at))
            for r in range(len(outputs)):
                self.accumulate(sums[r * len(keys) + k], x, ys[r])

    def _masked(self, mask: str, x: str) -> str:
        if not mask:
            return x
        return self.f.make(
            f"select <{self.lanes} x i1> {mask}, {self.vector} {x}, {self.vector} zeroinitializer"
        )

    def _total(self, place: str) -> str:
        """Return the sum of a vector's elements."""
        f, floats = self.f, self.dtype.kind == "f"
        value = f.make(f"load {self.vector}, ptr {place}")
        suffix = f"v{self.lanes}{self.dtype.kind if floats else 'i'}{8 * self.dtype.itemsize}"
        if not floats:
            symbol = f"@llvm.vector.reduce.add.{suffix}"
            f.declares.add(f"declare {self.kind} {symbol}({self.vector})")
            return f.make(f"call {self.kind} {symbol}({self.vector} {value})")
        symbol = f"@llvm.vector.reduce.fadd.{suffix}"
        f.declares.add(f"declare {self.kind} {symbol}({self.kind}, {self.vector})")
        zero = literal(-0.0, self.dtype)
        return f.make(f"call reassoc {self.kind} {symbol}({self.kind} {zero}, {self.vector} {value})")
