"""Kernels of convolutions on images that are read as rows, in vectors along the positions.

In a row each element of a kernel (a *tap*) lies at a fixed distance from the position. So a vector of
positions meets a vector of the image at every tap, without a copy of the windows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

import numpy as np

from everyo.compiler.codegen import scalar
from everyo.compiler.codegen.text import Function, Index, literal, type_of
from everyo.compiler.fuse import Cluster, Plan, buffer_value
from everyo.compiler.graph import Op, Value
from everyo.compiler.machine import vectors
from everyo.compiler.positions import Positions

UNROLLED = 400  # products of vectors that are written out for one channel
LATENCY = 8  # half cycles until the result of a product can be used
DEEP = 9  # taps whose sums are kept in registers at once
SPARE = 2  # registers that are left to LLVM


def split(total: int, part: int) -> list[tuple[int, int, int]]:
    """Return (start, size, count) of the whole parts of a range, then of what remains of it."""
    whole, rest = divmod(total, part)
    found = [(0, part, whole)] if whole else []
    return [*found, (whole * part, rest, 1)] if rest else found


class Convolution:
    """What the kernels share: images as rows, taps, and vectors of either kind of number."""

    def __init__(self, plan: Plan, cluster: Cluster, name: str) -> None:
        self.f = Function(name, [])
        self.op: Op = cluster.members[0].op
        self.buffers: dict[Value, str] = {}
        params, x = self.op.params, self.op.operands[0]
        self.groups: int = params["groups"]
        self.offsets: tuple[int, ...] = params["offsets"]
        self.positions: Positions = params["positions"]
        self.images, self.length = x.shape[0], math.prod(x.shape[2:])
        self.depth = x.shape[1] // self.groups
        self.dtype, self.kind = self.op.out.dtype, type_of(self.op.out.dtype)
        self.lanes = self.positions.lanes
        self.vector = f"<{self.lanes} x {self.kind}>"
        machine = vectors()
        self.registers = machine.number - SPARE
        size = self.lanes * self.dtype.itemsize
        self.unit = 2 if machine.size == 64 == size else 1
        self.loading = self.unit * (1 + size / 64)  # a vector that is not aligned may lie in two cache lines
        self.extent: tuple[int, ...] = ()
        self._sums: list[str] = []

    def pointer(self, value: Value) -> str:
        return self.buffers.setdefault(value, f"%p{len(self.buffers)}")

    def operand(self, position: int) -> str:
        return self.pointer(buffer_value(self.op, position))

    def clear(self, count: int) -> list[str]:
        """Return memory for sums, all zero; LLVM keeps it in registers."""
        while len(self._sums) < count:
            self._sums.append(self.f.alloca(self.vector))
        for place in self._sums[:count]:
            self.f.line(f"store {self.vector} zeroinitializer, ptr {place}")
        return self._sums[:count]

    def load(self, pointer: str, offset: Index) -> str:
        """Return the vector that begins at an element."""
        address = self.f.pure(f"getelementptr inbounds {self.kind}, ptr {pointer}, i64 {offset}")
        return self.f.make(f"load {self.vector}, ptr {address}, align {self.dtype.itemsize}")

    def spread(self, pointer: str, offset: Index) -> str:
        """Return a vector of one element."""
        x = self.f.load(pointer, offset, self.dtype)
        first = self.f.pure(f"insertelement {self.vector} poison, {self.kind} {x}, i64 0")
        return self.f.pure(
            f"shufflevector {self.vector} {first}, {self.vector} poison, <{self.lanes} x i32> zeroinitializer"
        )

    def accumulate(self, place: str, x: str, y: str) -> None:
        """Add a product to a sum."""
        f, (times, plus) = self.f, scalar.products_of(self.dtype)
        before = f.make(f"load {self.vector}, ptr {place}")
        product = f.make(f"{times} {self.vector} {x}, {y}")
        f.line(f"store {self.vector} {f.make(f'{plus} {self.vector} {before}, {product}')}, ptr {place}")

    def array(self, name: str, numbers: Iterable[int]) -> tuple[str, str]:
        """Return the name of a constant array and its text."""
        symbol, values = f"@{self.f.name}.{name}", [f"i64 {n}" for n in numbers]
        return symbol, f"{symbol} = internal constant [{len(values)} x i64] [{', '.join(values)}]\n"

    def begin(self, line: Sequence[Index], v: Index) -> tuple[Index, Index]:
        """Return where a vector of a line begins: in the row of an image, and among the results."""
        f, p = self.f, self.positions
        start = f.mul(v, p.lanes)
        if p.length % p.lanes:
            start = self._at_most(start, p.length - p.lanes)
        row: Index = start
        for i, step in zip(line, p.steps):
            row = f.add(row, f.mul(i, step))
        return row, f.add(f.mul(f.flat(line, p.lines), p.length), start)

    def _at_most(self, start: Index, last: int) -> Index:
        if isinstance(start, int):
            return min(start, last)
        late = self.f.pure(f"icmp sgt i64 {start}, {last}")
        return self.f.pure(f"select i1 {late}, i64 {last}, i64 {start}")


class Convolve(Convolution):
    """Sums of weights times what lies at the taps, at every position."""

    def __init__(self, plan: Plan, cluster: Cluster, name: str) -> None:
        super().__init__(plan, cluster, name)
        self.outputs = self.op.operands[1].shape[0] // self.groups
        self.rows, self.columns = self._best()
        self.even = self.outputs % self.rows == 0
        self.units = (self.images, self.groups, self.outputs // self.rows if self.even else 1)
        self.extent = (math.prod(self.units),)
        self.table = ""

    def _best(self) -> tuple[int, int]:
        """Return how many outputs and vectors to compute at once: those with the least work."""
        found = [
            (self._work(rows, columns), -rows * columns, rows, columns)
            for columns in range(1, min(self.positions.number, 8) + 1)
            for rows in range(1, min(self.outputs, self.registers) + 1)
            if rows * columns + min(rows, columns) + 1 <= self.registers
        ]
        return min(found)[2:]

    def _work(self, rows: int, columns: int) -> float:
        """Return about how many half cycles one tap of one channel takes."""
        total = 0.0
        for _, r, count in split(self.outputs, rows):
            for _, c, times in split(self.positions.number, columns):
                total += count * times * max(r * c * self.unit, c * self.loading + r, LATENCY)
        return total

    def build(self) -> str:
        f, text = self.f, ""
        if len(self.offsets) * self.rows * self.columns > UNROLLED:
            self.table, text = self.array("taps", self.offsets)
        with f.loop("%low", "%high") as unit:
            n, g, block = f.unflat(unit, self.units)
            if self.even:
                self._outputs(n, g, f.mul(block, self.rows), self.rows)
            else:
                for start, rows, count in split(self.outputs, self.rows):
                    with f.scope(), f.loop(0, count) as i:
                        self._outputs(n, g, f.add(f.mul(i, rows), start), rows)
        return text + f.kernel(self.buffers.values())

    def _outputs(self, n: Index, g: Index, first: Index, rows: int) -> None:
        """Compute some outputs of an image at all positions."""
        f, p = self.f, self.positions
        image = f.mul(f.add(f.mul(n, self.groups), g), self.depth * self.length)
        first = f.add(f.mul(g, self.outputs), first)
        outputs = [f.add(first, r) for r in range(rows)]
        for start, columns, count in split(p.number, self.columns):
            with f.scope(), f.loop(0, count) as i:
                begins = []
                for c in range(columns):
                    *line, v = f.unflat(f.add(f.add(f.mul(i, columns), start), c), (*p.lines, p.across))
                    begins.append(self.begin(line, v))
                sums = self._block(image, [row for row, _ in begins], outputs)
                self._store(n, [place for _, place in begins], outputs, sums)

    def _block(self, image: Index, begins: Sequence[Index], outputs: Sequence[Index]) -> list[str]:
        """Sum up over all channels and taps; return the sums, output by output."""
        f, px, pw, taps = self.f, self.operand(0), self.operand(1), len(self.offsets)
        sums = self.clear(len(begins) * len(outputs))

        def tap(c: Index, t: Index, offset: Index) -> None:
            here = f.add(f.add(image, f.mul(c, self.length)), offset)
            xs = [self.load(px, f.add(begin, here)) for begin in begins]
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

    def _store(self, n: Index, places: Sequence[Index], outputs: Sequence[Index], sums: list[str]) -> None:
        f, out = self.f, self.op.out
        pointer, row = self.pointer(out), math.prod(out.shape[2:])
        following = iter(sums)
        for output in outputs:
            start = f.mul(f.add(f.mul(n, out.shape[1]), output), row)
            for place in places:
                value = f.make(f"load {self.vector}, ptr {next(following)}")
                at = f.add(start, place)
                address = f.pure(f"getelementptr inbounds {self.kind}, ptr {pointer}, i64 {at}")
                f.line(f"store {self.vector} {value}, ptr {address}, align {self.dtype.itemsize}")


class ConvolveWeight(Convolution):
    """Sums over positions and images of a cotangent times what lies at the taps."""

    def __init__(self, plan: Plan, cluster: Cluster, name: str) -> None:
        super().__init__(plan, cluster, name)
        self.outputs = self.op.operands[1].shape[1] // self.groups
        self.rows, self.channels, self.taps = self._best()
        self.units = (self.groups, -(-self.outputs // self.rows), self.depth // self.channels)
        self.extent = (math.prod(self.units),)
        self.table = ""

    def _best(self) -> tuple[int, int, int]:
        """Return how many outputs, channels and taps have their sums in registers at once."""
        total = len(self.offsets)
        channels = max(c for c in range(1, max(DEEP // total, 1) + 1) if self.depth % c == 0)
        found = [
            (self._work(rows, channels, taps), rows, channels, taps)
            for taps in sorted({-(-total // pieces) for pieces in range(-(-total // DEEP), total + 1)})
            for rows in range(1, min(self.outputs, 8) + 1)
            if rows * channels * taps + rows <= self.registers
        ]
        return min(found)[1:]

    def _work(self, rows: int, channels: int, taps: int) -> float:
        """Return about how many half cycles one vector of positions takes, for each output and channel."""
        total = 0.0
        for _, part, count in split(len(self.offsets), taps):
            columns = channels * part
            total += count * max(rows * columns * self.unit, (rows + columns) * self.loading, LATENCY)
        return total * -(-self.outputs // rows) / channels

    def build(self) -> str:
        f, text = self.f, ""
        kept = self.positions.kept()
        if self.positions.through and not all(map(all, kept[:-1])):
            words = [sum(1 << i for i, keep in enumerate(lanes) if keep) for lanes in kept]
            self.table, text = self.array("kept", words)
        self.last = kept[-1]
        with f.loop("%low", "%high") as unit:
            g, block, part = f.unflat(unit, self.units)
            first = f.mul(block, self.rows)
            if self.outputs % self.rows:  # the last ones are computed twice, in the same way
                first = self._at_most(first, self.outputs - self.rows)
            first = f.add(f.mul(g, self.outputs), first)
            outputs = [f.add(first, r) for r in range(self.rows)]
            channel = f.mul(part, self.channels)
            for start, taps, count in split(len(self.offsets), self.taps):
                for i in range(count):
                    with f.scope():
                        self._block(g, outputs, channel, range(start + i * taps, start + (i + 1) * taps))
        return text + f.kernel(self.buffers.values())

    def _block(self, g: Index, outputs: Sequence[Index], channel: Index, taps: Sequence[int]) -> None:
        """Sum up over all images and positions, and write the sums."""
        f, p = self.f, self.positions
        keys = [(c, t) for c in range(self.channels) for t in taps]
        sums = self.clear(len(outputs) * len(keys))
        first = f.add(f.mul(g, self.depth), channel)
        with f.loop(0, self.images) as n, ExitStack() as loops:
            channels = f.add(f.mul(n, self.op.operands[0].shape[1]), first)
            line: list[Index] = [loops.enter_context(f.loop(0, m)) for m in p.lines]

            def step(v: Index, mask: str) -> None:
                row, place = self.begin(line, v)
                self._step(n, f.add(f.mul(channels, self.length), row), place, outputs, keys, mask, sums)

            whole = p.across - (not all(self.last))
            with f.loop(0, whole) as v:
                step(v, self._mask(v))
            if whole < p.across:
                with f.scope():
                    step(whole, "<" + ", ".join(f"i1 {str(k).lower()}" for k in self.last) + ">")
        following = iter(sums)
        for output in outputs:
            for c, t in keys:
                row = f.add(f.mul(output, self.depth), f.add(channel, c))
                at = f.add(f.mul(row, len(self.offsets)), t)
                f.store(self._total(next(following)), self.pointer(self.op.out), at, self.dtype)

    def _mask(self, v: Index) -> str:
        """Return which lanes of a vector count; nothing if all do."""
        if not self.table:
            return ""
        word = self.f.load(self.table, v, np.int64)
        if self.lanes < 64:
            word = self.f.pure(f"trunc i64 {word} to i{self.lanes}")
        return self.f.pure(f"bitcast i{self.lanes} {word} to <{self.lanes} x i1>")

    def _step(
        self,
        n: Index,
        image: Index,
        place: Index,
        outputs: Sequence[Index],
        keys: Sequence[tuple[int, int]],
        mask: str,
        sums: Sequence[str],
    ) -> None:
        """Add the products at one vector of positions."""
        f, y = self.f, self.op.operands[1]
        line = math.prod(y.shape[2:])
        ys = []
        for output in outputs:
            at = f.mul(f.add(f.mul(n, y.shape[1]), output), line)
            ys.append(self._masked(mask, self.load(self.operand(1), f.add(at, place))))
        for k, (c, t) in enumerate(keys):
            at = f.add(image, c * self.length + self.offsets[t])
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
        f, kind = self.f, self.dtype.kind
        value = f.make(f"load {self.vector}, ptr {place}")
        suffix = f"v{self.lanes}{kind if kind == 'f' else 'i'}{8 * self.dtype.itemsize}"
        if kind != "f":
            symbol = f"@llvm.vector.reduce.add.{suffix}"
            f.declares.add(f"declare {self.kind} {symbol}({self.vector})")
            return f.make(f"call {self.kind} {symbol}({self.vector} {value})")
        symbol = f"@llvm.vector.reduce.fadd.{suffix}"
        f.declares.add(f"declare {self.kind} {symbol}({self.kind}, {self.vector})")
        zero = literal(-0.0, self.dtype)
        return f.make(f"call reassoc {self.kind} {symbol}({self.kind} {zero}, {self.vector} {value})")
