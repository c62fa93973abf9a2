"""Kernels that compute a panel of a product before each run over its rows."""

from __future__ import annotations

import math
from typing import Any

from everyo.compiler.codegen.kernels import Kernel
from everyo.compiler.codegen.products import gemm
from everyo.compiler.codegen.splitting import Split, bounded
from everyo.compiler.codegen.text import Function, memory_type
from everyo.compiler.codegen.tiles import write_tiles
from everyo.compiler.fuse import Cluster, Plan, buffer_value, is_transposed
from everyo.compiler.graph import Op, Value
from everyo.compiler.tiling import Tiles, tiles_of


class PanelKernel:
    """A kernel, and the product that it reads a panel of at a time. It runs on one panel.

    Attributes
    ----------
    buffers : dict from Value to str
        The parameters: those of the kernel but for the product, and the product's factors.
    rows : Kernel
        What reads the panel.
    """

    def __init__(self, plan: Plan, cluster: Cluster, name: str) -> None:
        self.plan, self.cluster = plan, cluster
        self.product, self.step = plan.panels[cluster]
        self.rows = Kernel(plan, cluster, f"{name}_rows")
        self.f = Function(name, [])
        self.extent, self.flat = self.rows.extent, self.rows.flat
        self.buffers: dict[Value, str] = {}

    @property
    def unit(self) -> int:
        """How many turns of the kernel's outermost loop are one row of the product."""
        return math.prod(self.cluster.outer[1:]) if self.flat else 1

    def split(self) -> Split:
        """Return the panels as chunks."""
        sums = tuple(m.op for m in self.cluster.members if m.sink)
        chunks = -(-self.product.out.shape[0] // self.step)
        return Split(chunks, self.step * self.unit, self.extent[0], sums)

    def build(self) -> str:
        """Write both functions; return their text."""
        rows, f, op = self.rows, self.f, self.product
        text = rows.build()
        factors = [buffer_value(op, 0), buffer_value(op, 1)]
        for value in (*rows.buffers, *factors):
            if value is not op.out:
                self.buffers.setdefault(value, f"%p{len(self.buffers)}")
        size = op.out.shape[1] * op.out.dtype.itemsize
        first = f.div("%low", self.unit)
        count = f.div(f.sub("%high", "%low"), self.unit)
        f.declares |= {"declare ptr @malloc(i64)", "declare void @free(ptr)"}
        panel = f.make(f"call ptr @malloc(i64 {self.step * size})")
        # the kernel, and tiles, count rows from the first one of the product
        start = f.make(f"sub i64 {f.make(f'ptrtoint ptr {panel} to i64')}, {f.mul(first, size)}")
        whole = f.make(f"inttoptr i64 {start} to ptr")
        cut, (a, b) = tiles_of(op), (self.buffers[v] for v in factors)
        if cut is not None:
            text += self._tiles(cut)
            low, high = f.div(first, cut.rows), f.div(f.add(f.add(first, count), cut.rows - 1), cut.rows)
            f.line(f"call void @{f.name}_tiles(ptr {a}, ptr {b}, ptr {whole}, i64 {low}, i64 {high}) #1")
        else:
            gemm(f, op, self._rows_from(op, first), b, panel, f.make(f"trunc i64 {count} to i32"))
        arguments = [f"ptr {whole if v is op.out else self.buffers[v]}" for v in rows.buffers]
        f.line(f"call void @{rows.f.name}({', '.join([*arguments, 'i64 %low', 'i64 %high'])}) #1")
        f.line(f"call void @free(ptr {panel})")
        f.line("ret void")
        parameters = [*(f"ptr {p}" for p in self.buffers.values()), "i64 %low", "i64 %high"]
        f.head = f"define internal void @{f.name}({', '.join(parameters)})"
        f.declares |= rows.f.declares
        f.needs |= rows.f.needs
        return bounded(rows, text, self.extent[0]) + f.text()

    def _tiles(self, cut: Tiles) -> str:
        """Write the function that takes rows of the product in tiles."""
        f = Function(f"{self.f.name}_tiles", ["ptr %a", "ptr %b", "ptr %c", "i64 %low", "i64 %high"])
        write_tiles(f, self.product, cut, ["%a", "%b", "%c"])
        f.line("ret void")
        self.f.declares |= f.declares
        return f.text()

    def _rows_from(self, op: Op, first: Any) -> str:
        """Return the pointer to the first factor's part for the rows from one on."""
        a, pointer = op.operands[0], self.buffers[buffer_value(op, 0)]
        step = 1 if is_transposed(op, 0) else a.shape[1]
        offset = self.f.mul(first, step)
        return self.f.make(f"getelementptr {memory_type(a.dtype)}, ptr {pointer}, i64 {offset}")
