"""Kernels: the function that one cluster becomes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from everyo.compiler.codegen import scalar
from everyo.compiler.codegen.elements import Elements, Flat, beats, combine, identity, inserted
from everyo.compiler.codegen.products import gemm
from everyo.compiler.codegen.segments import clamped, segments
from everyo.compiler.codegen.text import Function, Index, literal, memory_type, type_of
from everyo.compiler.fuse import Cluster, Member, Plan, buffer_value, is_batched_dot, is_written_out, reduced
from everyo.compiler.graph import Op, Value
from everyo.compiler.machine import vectors

STACK = 4096  # elements of a row that lie on the stack
MANY = 64  # turns of a loop
TERMS = 4  # of a sum that is written out inside a loop, as its terms lie side by side


class Kernel(Elements):
    """Writes a cluster as a function of the memory it reads and writes, over a range of its outer loop.

    Attributes
    ----------
    buffers : dict from Value to str
        The parameters: what is read or written in memory, in the order of the function's pointers.
    """

    def __init__(self, plan: Plan, cluster: Cluster, name: str) -> None:
        super().__init__(Function(name, []))
        self.plan, self.cluster = plan, cluster
        self.buffers: dict[Value, str] = {}
        self.nest = 0
        self.finished = False
        self._rows: dict[Value, str] = {}
        self._heap: list[str] = []
        self._sinks: dict[Member, tuple[str, bool]] = {}
        self._lies_in = {old: new for new, old in plan.replaced.items() if plan.home[new] is cluster}
        self.flat = _is_flat(plan, cluster)
        self.extent = cluster.outer
        if self.flat:
            self.extent = (math.prod(cluster.outer),)

    # ---- where values are

    def pointer(self, value: Value) -> str:
        """Return the parameter that points to a value's memory."""
        return self.buffers.setdefault(self._lies_in.get(value, value), f"%p{len(self.buffers)}")

    def table(self, value: Value) -> str:
        return self.pointer(value)

    def stored(self, value: Value, idx: Sequence[Index]) -> str | None:
        home = self.plan.home.get(value)
        if value.op is not None and home is None:
            return None
        if home is not self.cluster:
            return self.f.load(self.pointer(value), self.offset(value, idx), value.dtype)
        member = self.plan.member[value]
        if member.nest >= self.nest:
            return None
        if value in self.plan.stored:
            return self.f.load(self.pointer(value), self.offset(value, idx), value.dtype, fixed=False)
        depth = len(self.cluster.outer)
        inner = value.shape[depth:]
        return self.f.load(self._row(value), self.f.flat(idx[depth:], inner), value.dtype, fixed=False)

    def _row(self, value: Value) -> str:
        if value not in self._rows:
            inner = math.prod(value.shape[len(self.cluster.outer) :])
            if inner <= STACK:
                self._rows[value] = self.f.alloca(memory_type(value.dtype), inner)
            else:
                self._rows[value] = self._allocated(inner * value.dtype.itemsize)
        return self._rows[value]

    def _allocated(self, size: int) -> str:
        """Return memory for the time of the call that is too large for the stack."""
        f = self.f
        f.declares |= {"declare ptr @malloc(i64)", "declare void @free(ptr)"}
        name = f.fresh("m")
        f.entry.append(f"  {name} = call ptr @malloc(i64 {size})")
        self._heap.append(name)
        return name

    # ---- writing

    def build(self) -> str:
        """Write the function; return its text."""
        f = self.f
        self._prepare_sinks()
        parts = segments(self.plan, self.cluster, self.flat) if self.extent else [(0, 1)]
        for part in parts:
            self._write_loop(part, len(parts) == 1)
        self._finish_sinks()
        for memory in self._heap:
            f.line(f"call void @free(ptr {memory})")
        f.line("ret void")
        pointers = [f"ptr noalias nocapture {p}" for p in self.buffers.values()]
        f.head = f"define internal void @{f.name}({', '.join([*pointers, 'i64 %low', 'i64 %high'])})"
        return f.text()

    def _write_loop(self, part: tuple[int, int], whole: bool) -> None:
        """Write the outer loop, or a segment of it."""
        f = self.f
        with ExitStack() as loops:
            outer: list[Index] = []
            for axis, n in enumerate(self.extent):
                low, high = (0, n) if axis else clamped(f, part, whole)
                span = part if not axis else None
                outer.append(loops.enter_context(f.loop(low, high, span)))
            self.outer = Flat(outer) if self.flat else outer
            for number, nest in enumerate(self.cluster.nests):
                self.nest = number
                self._write_nest(nest)

    def _write_nest(self, nest: list[Member]) -> None:
        inner = self.cluster.inner(nest[0])
        if is_batched_dot(nest[0].op):
            self._write_product(nest[0])
            return
        if is_written_out(nest[0].op, inner):
            for member in nest:
                self._write_out(member)
            return
        if self._is_of_elements(nest):
            self._write_elements(nest)
            return
        with self._accumulators(nest) as steps, ExitStack() as loops:
            position: list[Index] = [loops.enter_context(self.f.loop(0, n)) for n in inner]
            idx = [*self.outer, *position]
            for member in nest:
                if member.sink:
                    self._sink(member, idx)
                elif reduced(member.op):
                    steps[member](idx)
                else:
                    self._keep(member, idx)

    def _is_of_elements(self, nest: list[Member]) -> bool:
        """Whether a nest only writes elements, made of one term each or of a few that lie side by side."""
        (axes, *others), space = {reduced(member.op) for member in nest}, nest[0].space
        if others or any(m.sink or m.op.name == "argreduce" or m.op.out in self.plan.replaced for m in nest):
            return False
        few = math.prod(space[a] for a in axes) <= TERMS
        return few and axes == tuple(range(len(space) - len(axes), len(space)))

    def _write_elements(self, nest: list[Member]) -> None:
        """Write members element by element, in vectors: sums and the like of a few terms are written out."""
        depth, first = len(self.cluster.outer), nest[0]
        *rest, last = first.space[depth : len(first.space) - len(reduced(first.op))]
        lanes = vectors().lanes(first.op.out.dtype)
        with ExitStack() as loops:
            position: list[Index] = [loops.enter_context(self.f.loop(0, n)) for n in rest]
            position.append(loops.enter_context(self.f.vectors(last, lanes)))
            for member in nest:
                self._keep(member, [*self.outer, *position])

    def _write_product(self, member: Member) -> None:
        """Multiply the matrices of one turn of the outer loop, and of what is left of the batch."""
        op, depth = member.op, len(self.cluster.outer)
        kept = [*((v, buffer_value(op, i)) for i, v in enumerate(op.operands)), (op.out, op.out)]
        with ExitStack() as loops:
            rest = [loops.enter_context(self.f.loop(0, n)) for n in op.out.shape[depth:-2]]
            gemm(self.f, op, *(self._matrix(*pair, depth, rest) for pair in kept))

    def _matrix(self, batch_of: Value, value: Value, depth: int, rest: Sequence[Index]) -> str:
        """Return the pointer to one matrix of a batch, which lies in the memory of `value`."""
        f, shape = self.f, batch_of.shape
        in_row = self.plan.home.get(value) is self.cluster and value not in self.plan.stored
        pointer = self._row(value) if in_row else self.pointer(value)
        batch = rest if in_row else [*self.outer, *rest]
        index = f.mul(f.flat(batch, shape[depth if in_row else 0 : -2]), shape[-2] * shape[-1])
        return f.make(f"getelementptr inbounds {memory_type(value.dtype)}, ptr {pointer}, i64 {index}")

    def _keep(self, member: Member, idx: Sequence[Index]) -> None:
        """Compute an element of a member's result and write it where it is read."""
        value = member.op.out
        if member.op.name == "interleave":
            found = [(self.element(v, idx), self.beside(idx, k)) for k, v in enumerate(member.op.operands)]
        else:
            found = [(self.element(value, idx), idx)]
        if value in self.plan.replaced:  # who reads the old element after this does so in a register
            for _, at in found:
                self.element(self.plan.replaced[value], at)
        for x, at in found:
            if value in self.plan.stored:
                self.f.store(x, self.pointer(value), self.offset(value, at), value.dtype)
            elif value in self.plan.rows:
                depth = len(self.cluster.outer)
                offset = self.f.flat(at[depth:], value.shape[depth:])
                self.f.store(x, self._row(value), offset, value.dtype)

    def _write_out(self, member: Member) -> None:
        """Write all elements of a member for one turn of the outer loop."""
        depth = len(self.cluster.outer)
        if member.sink:
            for inner in np.ndindex(*member.space[depth:]):
                self._sink(member, self._at(inner))
            return
        shape = member.op.out.shape if reduced(member.op) else member.space
        places = [self._at(inner) for inner in np.ndindex(*shape[depth:])]
        few = not self.extent or self.extent[-1] < MANY  # of more turns LLVM makes lanes of vectors
        if few and member.op.name == "map" and scalar.is_called(member.op.params["fn"]):
            self._compute_in_vectors(member.op, places)
        for idx in places:
            self._keep(member, idx)

    def _compute_in_vectors(self, op: Op, places: Sequence[Sequence[Index]]) -> None:
        """Compute elements of an elementary function, several at once."""
        rows = [[self.element(v, idx) for v in op.operands] for idx in places]
        for idx, x in zip(places, scalar.in_vectors(self.f, op.params["fn"], op.out.dtype, rows)):
            self.f.remember((op.out, tuple(idx), type(idx) is Flat), x)

    def _at(self, inner: Sequence[int]) -> Sequence[Index]:
        return self.outer if self.flat else [*self.outer, *inner]

    # ---- reductions

    @contextmanager
    def _accumulators(self, nest: list[Member]) -> Iterator[dict[Member, Callable[[Sequence[Index]], None]]]:
        """Prepare the reductions of an inner loop; at the end their results are elements like others."""
        steps: dict[Member, Callable[[Sequence[Index]], None]] = {}
        endings = []
        for member in nest:
            if reduced(member.op) and not member.sink:
                step, ending = self._accumulator(member)
                steps[member] = step
                endings.append(ending)
        yield steps
        for ending in endings:
            ending()

    def _accumulator(self, member: Member) -> tuple[Callable[[Sequence[Index]], None], Callable[[], None]]:
        f, op, value = self.f, member.op, member.op.out
        depth, axes = len(self.cluster.outer), reduced(op)
        shape = value.shape[depth:]
        if op.name == "argreduce":
            return self._search(member)
        row, dtype = self._row(value), value.dtype
        for_all(f, shape, lambda i: f.store(identity(op.params["kind"], dtype), row, f.flat(i, shape), dtype))

        def step(idx: Sequence[Index]) -> None:
            kept = [i for a, i in enumerate(idx) if a not in axes][depth:]
            offset = f.flat(kept, shape)
            x = self.element(op.operands[0], idx)
            before = f.load(row, offset, dtype, fixed=False)
            f.store(combine(f, op.params["kind"], before, x, dtype, reorder=True), row, offset, dtype)

        def ending() -> None:
            if value in self.plan.stored:
                for_all(f, shape, lambda i: self._copy_row(value, row, i, shape))
            elif not shape:
                key = (value, tuple(self.outer), False)
                f.remember(key, f.load(row, 0, dtype, fixed=False))

        return step, ending

    def _copy_row(self, value: Value, row: str, i: Sequence[Index], shape: Sequence[int]) -> None:
        x = self.f.load(row, self.f.flat(i, shape), value.dtype, fixed=False)
        self.f.store(x, self.pointer(value), self.f.flat([*self.outer, *i], value.shape), value.dtype)

    def _search(self, member: Member) -> tuple[Callable[[Sequence[Index]], None], Callable[[], None]]:
        """The position of an extreme element: the best one so far and where it stood."""
        f, op, value = self.f, member.op, member.op.out
        source, axis, depth = op.operands[0], op.params["axis"], len(self.cluster.outer)
        shape, kind = value.shape[depth:], op.params["kind"]
        best, place = f.alloca(memory_type(source.dtype), max(math.prod(shape), 1)), self._row(value)

        def start(i: Sequence[Index]) -> None:
            f.store(identity(kind, source.dtype), best, f.flat(i, shape), source.dtype)
            f.store("0", place, f.flat(i, shape), value.dtype)

        for_all(f, shape, start)

        def step(idx: Sequence[Index]) -> None:
            offset = f.flat([i for a, i in enumerate(idx) if a != axis][depth:], shape)
            x = self.element(source, idx)
            before = f.load(best, offset, source.dtype, fixed=False)
            at = f.load(place, offset, value.dtype, fixed=False)
            better = beats(f, kind, x, before, source.dtype)
            f.store(scalar.select(f, better, x, before, source.dtype), best, offset, source.dtype)
            f.store(f.make(f"select i1 {better}, i64 {idx[axis]}, i64 {at}"), place, offset, value.dtype)

        def ending() -> None:
            if value in self.plan.stored:
                for_all(f, shape, lambda i: self._copy_row(value, place, i, shape))
            elif not shape:
                f.remember((value, tuple(self.outer), False), f.load(place, 0, value.dtype, fixed=False))

        return step, ending

    def _prepare_sinks(self) -> None:
        """Begin the reductions over the outer loop: in a register if the result is one number."""
        f = self.f
        for member in itertools.chain(*self.cluster.nests):
            if not member.sink:
                continue
            value = member.op.out
            first = identity(member.op.params["kind"], value.dtype)
            if value.size == 1:
                place = f.alloca(memory_type(value.dtype))
                f.store(first, place, 0, value.dtype)
            else:
                place = self.pointer(value)
                with f.loop(0, value.size) as i:
                    f.store(first, place, i, value.dtype)
            self._sinks[member] = place, value.size == 1

    def _sink(self, member: Member, idx: Sequence[Index]) -> None:
        f, op, value = self.f, member.op, member.op.out
        x = self.element(op.operands[0], idx)
        place, single = self._sinks[member]
        axes = reduced(op)
        offset: Index = 0
        if not single:
            offset = f.flat([i for a, i in enumerate(idx) if a not in axes], value.shape)
        before = f.load(place, offset, value.dtype, fixed=False)
        after = combine(f, op.params["kind"], before, x, value.dtype, reorder=True)
        f.store(after, place, offset, value.dtype)

    def _finish_sinks(self) -> None:
        for member, (place, single) in self._sinks.items():
            if single:
                value = member.op.out
                x = self.f.load(place, 0, value.dtype, fixed=False)
                self.f.store(x, self.pointer(value), 0, value.dtype)


def for_all(f: Function, shape: Sequence[int], body: Callable[[Sequence[Index]], None]) -> None:
    """Loop over all indices of a shape."""
    with ExitStack() as loops:
        body([loops.enter_context(f.loop(0, n)) for n in shape])


def _is_flat(plan: Plan, cluster: Cluster) -> bool:
    """Whether all a cluster reads lies in the order of its loop, so that one loop over all elements does."""
    if len(cluster.outer) < 2 or any(m.space != cluster.outer for m in cluster.members):
        return False
    for member in cluster.members:
        axes = reduced(member.op)
        if axes and (member.op.name == "argreduce" or len(axes) != len(member.space)):
            return False
        if not axes and member.op.name not in ("map", "reshape", "interleave"):
            return False
        if not all(_reads_in_order(plan, v) for v in member.op.operands):
            return False
    return True


def _reads_in_order(plan: Plan, value: Value) -> bool:
    if value in plan.home or value.op is None:
        return True
    op = value.op
    if op.name in ("map", "reshape", "part"):
        return all(_reads_in_order(plan, v) for v in op.operands)
    return op.name == "constant" or (op.name == "broadcast" and not op.operands[0].shape)


__all__ = ["Kernel", "inserted", "literal", "type_of"]
