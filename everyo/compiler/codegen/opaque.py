"""Kernels of the operations that share no loop: matrix products, scatters, running sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from everyo.compiler.codegen import scalar
from everyo.compiler.codegen.convolution import Convolve, ConvolveWeight
from everyo.compiler.codegen.elements import combine
from everyo.compiler.codegen.kernels import Kernel, for_all
from everyo.compiler.codegen.packing import Pack
from everyo.compiler.codegen.products import gemm
from everyo.compiler.codegen.text import Function, Index, memory_type
from everyo.compiler.codegen.tiles import write_tiles
from everyo.compiler.codegen.windows import Fold, Place
from everyo.compiler.fuse import Cluster, Plan, buffer_value
from everyo.compiler.graph import Op, Value
from everyo.compiler.tiling import tiles_of


class Scatter(Kernel):
    """Copies an operand, then adds (or writes) updates where the indices say, one after the other."""

    def build(self) -> str:
        f, op = self.f, self.cluster.members[0].op
        base, updates, *indices = op.operands
        out, at, rank = self.pointer(op.out), op.params["at"], len(indices[0].shape)
        for_all(
            f,
            base.shape,
            lambda i: f.store(self.element(base, i), out, f.flat(i, base.shape), base.dtype),
        )
        chosen = dict(zip(op.params["axes"], indices))
        with ExitStack() as loops:
            idx: list[Index] = [loops.enter_context(f.loop(0, n)) for n in updates.shape]
            own, rest = idx[at : at + rank], iter([*idx[:at], *idx[at + rank :]])
            place = [
                self.index(chosen[a], own) if a in chosen else next(rest) for a in range(len(base.shape))
            ]
            offset = f.flat(place, base.shape)
            x = self.element(updates, idx)
            if op.params["kind"] != "set":
                before = f.load(out, offset, base.dtype, fixed=False)
                x = combine(
                    f, {"add": "sum"}.get(op.params["kind"], op.params["kind"]), before, x, base.dtype
                )
            f.store(x, out, offset, base.dtype)
        return self._closed()

    def _closed(self) -> str:
        f = self.f
        f.line("ret void")
        pointers = [f"ptr noalias nocapture {p}" for p in self.buffers.values()]
        f.head = f"define internal void @{f.name}({', '.join([*pointers, 'i64 %low', 'i64 %high'])})"
        return f.text()


class Join(Scatter):
    """Parts side by side along the first axis, except those that were computed in their place.

    Attributes
    ----------
    placed : set of Value
        Parts that lie in the result already.
    """

    placed: frozenset[Value] = frozenset()

    def build(self) -> str:
        op = self.cluster.members[0].op
        out, start = self.pointer(op.out), 0
        for i, value in enumerate(op.operands):
            if buffer_value(op, i) not in self.placed:
                self._copy(value, out, start)
            start += value.size
        return self._closed()

    def _copy(self, value: Value, out: str, start: int) -> None:
        f = self.f

        def move(i: Sequence[Index]) -> None:
            f.store(self.element(value, i), out, f.add(f.flat(i, value.shape), start), value.dtype)

        with f.scope():
            for_all(f, value.shape, move)


class Accumulate(Scatter):
    """A running reduction along one axis."""

    def build(self) -> str:
        f, op = self.f, self.cluster.members[0].op
        source, axis = op.operands[0], op.params["axis"]
        shape, n, out = source.shape, source.shape[axis], self.pointer(op.out)

        def at(position: Index) -> Index:
            return f.sub(n - 1, position) if op.params["reverse"] else position

        with ExitStack() as loops:
            before: list[Index] = [loops.enter_context(f.loop(0, m)) for m in shape[:axis]]

            def row(position: Index, previous: Index | None) -> None:
                with ExitStack() as inner:
                    after: list[Index] = [inner.enter_context(f.loop(0, m)) for m in shape[axis + 1 :]]
                    idx = [*before, at(position), *after]
                    x = self.element(source, idx)
                    if previous is not None:
                        offset = f.flat([*before, at(previous), *after], shape)
                        x = self._next(f.load(out, offset, source.dtype, fixed=False), x, idx)
                    f.store(x, out, f.flat(idx, shape), source.dtype)

            if n:
                with f.scope():
                    row(0, None)
            with f.loop(1, max(n, 1)) as i:
                row(i, f.sub(i, 1))
        return self._closed()

    def _next(self, before: str, x: str, idx: Sequence[Index]) -> str:
        """Return an element from the one before it, as it is rounded."""
        f, op, dtype = self.f, self.cluster.members[0].op, self.cluster.members[0].op.out.dtype
        x = self._step(before, x, idx)
        if not op.params["halves"]:
            return x
        half = scalar.apply(f, "cast", [x], dtype, np.float16)
        return scalar.apply(f, "cast", [half], np.float16, dtype)

    def _step(self, before: str, x: str, idx: Sequence[Index]) -> str:
        f, op, dtype = self.f, self.cluster.members[0].op, self.cluster.members[0].op.out.dtype
        kind = op.params["kind"]
        if kind == "absorbing":
            return scalar.absorbing(f, before, x, dtype)
        if kind == "linear":
            scaled = scalar.absorbing(f, self.element(op.operands[1], idx), before, dtype)
            return scalar.apply(f, "add", [scaled, x], dtype, dtype)
        return combine(f, kind, before, x, dtype)


class Product:
    """A matrix product by BLAS, or in tiles; a transposed operand is read as it lies.

    Attributes
    ----------
    placed : set of Value
        What the product is added to, if that lies in the result already.
    """

    placed: frozenset[Value] = frozenset()

    def __init__(self, plan: Plan, cluster: Cluster, name: str) -> None:
        self.f = Function(name, [])
        self.cluster, self.op = cluster, cluster.members[0].op
        self.buffers: dict[Value, str] = {}
        self.tiles = tiles_of(self.op)
        self.extent: tuple[int, ...] = () if self.tiles is None else (self.tiles.down,)

    def build(self) -> str:
        f, op = self.f, self.op
        a, b, *added = op.operands
        *batch, m, k = a.shape
        n, kind = b.shape[-1], memory_type(op.out.dtype)
        before = [buffer_value(op, 2)] if added else []
        for value in (buffer_value(op, 0), buffer_value(op, 1), op.out, *before):
            if value not in self.placed:
                self.buffers.setdefault(value, f"%p{len(self.buffers)}")
        if self.tiles is not None:
            first, second, out = buffer_value(op, 0), buffer_value(op, 1), op.out
            start = [out if v in self.placed else v for v in before]
            lying = [self.buffers[v] for v in (first, second, out, *start)]
            write_tiles(f, op, self.tiles, lying)
            return self._closed()
        for value in before:
            if value not in self.placed:
                f.declares.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
                target, source = self.buffers[op.out], self.buffers[value]
                size = f"i64 {op.out.nbytes}, i1 false"
                f.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, {size})")
        with f.loop(0, math.prod(batch)) as i:
            sizes = (m * k, k * n, m * n)
            values = (buffer_value(op, 0), buffer_value(op, 1), op.out)
            parts = [
                f.make(f"getelementptr inbounds {kind}, ptr {self.buffers[v]}, i64 {f.mul(i, size)}")
                for v, size in zip(values, sizes)
            ]
            gemm(f, op, *parts)
        return self._closed()

    def _closed(self) -> str:
        f = self.f
        f.line("ret void")
        pointers = [f"ptr {p}" for p in self.buffers.values()]
        f.head = f"define internal void @{f.name}({', '.join([*pointers, 'i64 %low', 'i64 %high'])})"
        return f.text()


class Call:
    """A call of an eager kernel, through the table that the program is given."""

    def __init__(self, plan: Plan, cluster: Cluster, name: str) -> None:
        self.f = Function(name, [])
        self.op: Op = cluster.members[0].op
        self.buffers: dict[Value, str] = {}
        self.number = -1  # the program's main function knows it

    def build(self) -> str:
        f, op = self.f, self.op
        values = [None if v is None else buffer_value(op, i) for i, v in enumerate(op.inputs)]
        values += op.outs
        for value in values:
            if value is not None:
                self.buffers.setdefault(value, f"%p{len(self.buffers)}")
        table = f.alloca("ptr", len(values))
        for i, value in enumerate(values):
            place = f.make(f"getelementptr ptr, ptr {table}, i64 {i}")
            f.line(f"store ptr {self.buffers[value] if value is not None else 'null'}, ptr {place}")
        entry = f.make("getelementptr ptr, ptr %table, i64 %number")
        code = f.make(f"call i32 {f.make(f'load ptr, ptr {entry}')}(ptr {table})")
        f.line(f"ret i32 {code}")
        pointers = [f"ptr {p}" for p in self.buffers.values()]
        f.head = f"define internal i32 @{f.name}({', '.join([*pointers, 'ptr %table', 'i64 %number'])})"
        return f.text()


KERNELS: dict[str, Any] = {
    "call": Call, "concat": Join, "scatter": Scatter, "accumulate": Accumulate, "dot": Product,
    "place": Place, "fold": Fold, "convolve": Convolve, "convolve_weight": ConvolveWeight, "pack": Pack,
}  # fmt: skip


def kernel_of(plan: Plan, cluster: Cluster, name: str) -> Any:
    """Return the writer of a cluster's function."""
    if not cluster.opaque:
        return Kernel(plan, cluster, name)
    return KERNELS[cluster.members[0].op.name](plan, cluster, name)


__all__: Sequence[str] = ["kernel_of"]
