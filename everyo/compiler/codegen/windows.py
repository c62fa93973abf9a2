"""Kernels that write values into larger ones: among a number, or where their windows came from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from contextlib import ExitStack

from everyo.compiler.absorb import TERMS, is_apart
from everyo.compiler.codegen.elements import combine
from everyo.compiler.codegen.kernels import Kernel, for_all
from everyo.compiler.codegen.text import Index, literal
from everyo.compiler.fuse import Cluster, Plan
from everyo.compiler.graph import Value
from everyo.compiler.machine import vectors


class Spread(Kernel):
    """What the kernels of this file share: an array of one number, into which other things are written."""

    def __init__(self, plan: Plan, cluster: Cluster, name: str) -> None:
        super().__init__(plan, cluster, name)
        self.op = cluster.members[0].op
        self.extent = ()

    def _fill(self, fill: str, outer: Sequence[Index]) -> None:
        """Write a number to all elements that share the indices `outer`."""
        f, out = self.f, self.op.out
        size = math.prod(out.shape[len(outer) :])
        start = f.mul(f.flat(outer, out.shape[: len(outer)]), size)
        with f.loop(0, size) as i:
            f.store(fill, self.pointer(out), f.add(start, i), out.dtype)


class Place(Spread):
    """Writes parts into an array at regular places, and one number everywhere else."""

    def __init__(self, plan: Plan, cluster: Cluster, name: str) -> None:
        super().__init__(plan, cluster, name)
        self.fill, *self.parts = self.op.operands
        self.lows, self.steps = self.op.params["lows"], self.op.params["steps"]
        if self._shares_axis():
            self.extent = self.op.out.shape[:1]

    def _shares_axis(self) -> bool:
        """Whether the first axis of every part is that of the result, so that one loop does for all."""
        shape = self.op.out.shape
        return len(shape) > 1 and all(
            part.shape[0] == shape[0] and low[0] == 0 and step[0] == 1
            for part, low, step in zip(self.parts, self.lows, self.steps)
        )

    def build(self) -> str:
        f = self.f
        with ExitStack() as loops:
            outer: list[Index] = [loops.enter_context(f.loop("%low", "%high")) for _ in self.extent]
            if sum(part.size for part in self.parts) < self.op.out.size:
                self._fill(self.element(self.fill, ()), outer)
            for part, low, step in zip(self.parts, self.lows, self.steps):
                with f.scope():
                    self._move(part, low, step, outer)
        return f.kernel(self.buffers.values())

    def _move(self, part: Value, low: Sequence[int], step: Sequence[int], outer: Sequence[Index]) -> None:
        f, out = self.f, self.op.out

        def move(inner: Sequence[Index]) -> None:
            idx = [*outer, *inner]
            at = [f.add(f.mul(i, s), o) for i, s, o in zip(idx, step, low)]
            f.store(self.element(part, idx), self.pointer(out), f.flat(at, out.shape), part.dtype)

        for_all(f, part.shape[len(outer) :], move)


class Fold(Spread):
    """Adds windows up where they came from: the transpose of the view ``window``."""

    def __init__(self, plan: Plan, cluster: Cluster, name: str) -> None:
        super().__init__(plan, cluster, name)
        self.stride, self.dilation = self.op.params["stride"], self.op.params["dilation"]
        rank, shape = len(self.stride), self.op.operands[0].shape
        self.lead, self.kernel = shape[: -2 * rank], shape[-rank:]
        self.positions = shape[-2 * rank : -rank]
        self.extent = self.lead[:1]
        self.apart = is_apart(self.op)

    def build(self) -> str:
        f, parts = self.f, self.op.operands[0]
        with ExitStack() as loops:
            outer: list[Index] = [loops.enter_context(f.loop("%low", "%high")) for _ in self.extent]
            outer += [loops.enter_context(f.loop(0, n)) for n in self.lead[1:]]
            if not self.apart or parts.size < self.op.out.size:
                self._fill(literal(0, parts.dtype), outer)
            offsets = [*itertools.product(*map(range, self.kernel))]
            if len(offsets) > TERMS:
                for_all(f, self.kernel, lambda offset: self._write(outer, [offset]))
            elif self.apart:
                self._write(outer, offsets)
            else:
                for offset in offsets:
                    with f.scope():
                        self._write(outer, [offset])
        return f.kernel(self.buffers.values())

    def _write(self, outer: Sequence[Index], offsets: Sequence[Sequence[Index]]) -> None:
        """Write the elements at some offsets of all windows."""
        f, out, parts = self.f, self.op.out, self.op.operands[0]

        def write(position: Sequence[Index]) -> None:
            for offset in offsets:
                steps = zip(position, self.stride, offset, self.dilation)
                place = [*outer, *(f.add(f.mul(p, s), f.mul(k, d)) for p, s, k, d in steps)]
                at, x = f.flat(place, out.shape), self.element(parts, [*outer, *position, *offset])
                if not self.apart:
                    before = f.load(self.pointer(out), at, out.dtype, fixed=False)
                    x = combine(f, "sum", before, x, out.dtype)
                f.store(x, self.pointer(out), at, out.dtype)

        *rest, last = self.positions
        with ExitStack() as loops:
            position = [loops.enter_context(f.loop(0, n)) for n in rest]
            lanes = vectors().lanes(out.dtype) if self.apart else 1  # what is added up is not done twice
            write([*position, loops.enter_context(f.vectors(last, lanes))])
