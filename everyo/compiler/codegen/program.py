"""Programs: the module that a graph becomes, and its main function, which calls the kernels in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from everyo.compiler import elementary
from everyo.compiler.codegen.control import CONTROL, Control, write_control
from everyo.compiler.codegen.cost import nanoseconds
from everyo.compiler.codegen.entry import FIRST_CALL, RUN, THREADS
from everyo.compiler.codegen.hints import METADATA
from everyo.compiler.codegen.opaque import Call, Join, Product, kernel_of
from everyo.compiler.codegen.panels import PanelKernel
from everyo.compiler.codegen.places import parts_in_place
from everyo.compiler.codegen.splitting import Split, bounded, split, write_call
from everyo.compiler.codegen.tapes import Tapes
from everyo.compiler.codegen.text import APART, Function
from everyo.compiler.fuse import Cluster, Plan, fuse
from everyo.compiler.graph import Graph, Op, Value
from everyo.compiler.memory import Lifetime, place
from everyo.compiler.panels import take_in_panels
from everyo.compiler.states import State, replace_states

# What the main function returns: also when a callback raised, or (from the first message on) a check failed.
SUCCEEDED, FAILED, FIRST_MESSAGE = 0, 1, 16
# Vectors that do not fit into registers lie on the stack, at its alignment: at less than their size, each may
# lie across two lines of the cache.
ATTRIBUTES = """attributes #0 = { nounwind "stackrealign" "no-trapping-math"="true" }
attributes #1 = { noinline nounwind "stackrealign" "no-trapping-math"="true" }"""
LARGE = 1500  # characters of a kernel from which on it stays a function of its own, outside of loops
# Characters that may become part of the main function, outside of loops and inside: LLVM's time for a
# function grows faster than its length.
ROOM, ROOM_IN_LOOPS = 8_000, 50_000


class Body(NamedTuple):
    """What was decided for a graph: the main one, or the body of a loop or branch.

    Attributes
    ----------
    plan : Plan
        Its clusters.
    kernels : dict from Cluster to str
        The name of each cluster's function; of a loop or branch, which has none, that of the operation.
    splits : dict from Cluster to Split
        How kernels are cut into chunks, where they are.
    lifetimes : dict to Lifetime
        What lives in the arena, each from which cluster to which.
    offsets : dict to int
        Where in the arena.
    """

    graph: Graph
    plan: Plan
    kernels: dict[Cluster, str]
    splits: dict[Cluster, Split]
    lifetimes: dict[Any, Lifetime]
    offsets: dict[Any, int]


class Module:
    """The LLVM module of one graph.

    Attributes
    ----------
    constants : list of Value
        Arrays that the program reads; their pointers follow those of the inputs.
    calls : list of Op
        Calls of eager kernels, by the number under which the program asks for them.
    messages : list of str
        What is wrong when the program ends with `FIRST_MESSAGE` and so on.
    arena : int
        Bytes of working memory for one call.
    states : list of State
        Inputs that outputs are written over, by the end of the program, which is entered by itself.
    bodies : list of Body
        The plans, that of the whole graph first.
    parallel : bool
        Whether some kernel is split, so that the program needs the pool.
    """

    def __init__(self, graph: Graph, states: Sequence[State] = ()) -> None:
        self.graph, self._given = graph, states
        self.states: list[State] = []
        self.constants: list[Value] = []
        self.calls: list[Op] = []
        self.messages: list[str] = []
        self.arena = 0
        self._labels = 0
        self.bodies: list[Body] = []
        self._kernels: list[str] = []
        self._equal: dict[tuple[Any, str], str] = {}  # names of kernels by their extent and text
        self._length: dict[str, int] = {}  # of the texts of kernels, by name
        self._room = {False: ROOM, True: ROOM_IN_LOOPS}  # what is left, by whether it is in a loop
        self._splits: dict[Any, Split] = {}
        self._depth = 0
        self.parallel = False
        self._nanoseconds = 0.0
        self._needs: set[tuple[str, str]] = set()
        self._declares: set[str] = set()
        self.text = self._write()

    def _write(self) -> str:
        parameters = ["ptr %args", "ptr %outs", "ptr %arena", "ptr %table", "i1 %last"]
        main = Function("everyo_main", parameters, "i32", False)
        self.main, self.tapes = main, Tapes(main)
        self._code = main.alloca("i32")
        pointers = {v: self._argument("%args", i) for i, v in enumerate(self.graph.inputs)}
        targets = {v: self._argument("%outs", i) for i, v in enumerate(self.graph.outputs)}
        self.arena = self.body(self.graph, pointers, targets, 0)
        self._end(SUCCEEDED)
        main.start("end")
        self.tapes.release()
        main.line(f"ret i32 {main.make(f'load i32, ptr {self._code}')}")
        declares = {*self._declares, *elementary.declarations(self._needs), *self.tapes.declares}
        functions = [self.tapes.source, *self._kernels, main.text()]
        self._splits.clear()  # the kernels' own copies of their texts go with them
        self._equal.clear()
        return "\n".join([*sorted(declares), *functions, ATTRIBUTES, METADATA])

    def _argument(self, table: str, i: int) -> str:
        address = self.main.pure(f"getelementptr ptr, ptr {table}, i64 {i}")
        return self.main.pure(f"load ptr, ptr {address}, !invariant.load !{{}}")

    def body(self, graph: Graph, pointers: dict[Value, str], targets: dict[Value, str], base: int) -> int:
        """Write the calls that compute a graph into the current block; return the end of its memory."""
        self._depth += 1
        self.tapes.note(graph)
        plan = fuse(graph)
        take_in_panels(graph, plan)
        states = self._given if self._depth == 1 else ()
        self._used = {*graph.outputs, *(v for op in graph.ops for v in op.operands)}
        self._parts = parts_in_place(graph, plan, set(targets))
        places = {whole for whole, _ in self._parts.values()}
        first = replace_states(graph, plan, states, places) if states else len(plan.clusters)
        lifetimes, reads = self._lifetimes(plan, targets)
        offsets, size = place(lifetimes)
        self._note(graph, plan, reads, lifetimes, {key: base + start for key, start in offsets.items()})
        end = base + size
        pointers = {**pointers, **targets}
        for value, offset in offsets.items():
            pointers[value] = self.at(base + offset)
        for value, (whole, start) in self._parts.items():
            pointers[value] = self.main.make(f"getelementptr i8, ptr {pointers[whole]}, i64 {start}")
        if plan.replaced:
            self.states = [(i, o) for i, o in states if graph.outputs[o] in plan.replaced]
            self.main.line("br i1 %last, label %finish, label %begin")
            self.main.start("begin")
        with self.main.scope() if plan.replaced else nullcontext():
            ends = [self._call(reads, c, pointers, offsets, base, base + size) for c in plan.clusters[:first]]
        if plan.replaced:
            self._end(SUCCEEDED)
            self.main.start("finish")
        ends += [self._call(reads, c, pointers, offsets, base, base + size) for c in plan.clusters[first:]]
        self._depth -= 1
        return max([end, *ends])

    def _call(
        self,
        reads: dict[Cluster, Any],
        cluster: Cluster,
        pointers: dict[Value, str],
        offsets: dict[Any, int],
        base: int,
        end: int,
    ) -> int:
        """Write the call of a cluster; return the end of the memory that it needs."""
        if not cluster.members:
            return end
        if isinstance(reads[cluster], Control):
            return int(write_control(self, reads[cluster].op, pointers, offsets, base, end))
        self._call_kernel(reads[cluster], pointers, offsets, base)
        return end

    def _note(
        self,
        graph: Graph,
        plan: Plan,
        reads: dict[Cluster, Any],
        lifetimes: dict[Any, Lifetime],
        offsets: dict[Any, int],
    ) -> None:
        names = {c: c.members[0].op.name if isinstance(k, Control) else k.f.name for c, k in reads.items()}
        splits = {c: self._splits[k] for c, k in reads.items() if k in self._splits}
        self.bodies.append(Body(graph, plan, names, splits, lifetimes, offsets))

    def at(self, offset: int) -> str:
        """Return the pointer to a place in the arena."""
        return self.main.pure(f"getelementptr i8, ptr %arena, i64 {offset}")

    def _lifetimes(
        self, plan: Plan, targets: dict[Value, str]
    ) -> tuple[dict[Any, Lifetime], dict[Cluster, Any]]:
        """Return for each value that lives in the arena from which cluster to which it is needed.

        Also the kernel of each cluster.
        """
        first: dict[Value, int] = {}
        last: dict[Value, int] = {}
        reads: dict[Cluster, Any] = {}
        own: dict[Any, Lifetime] = {}
        for step, cluster in enumerate(plan.clusters):
            if not cluster.members:
                continue
            kernel = self._kernel(plan, cluster)
            reads[cluster] = kernel
            if isinstance(kernel, Control):
                own.update({key: Lifetime(size, step, step) for key, size in kernel.memory()})
            elif kernel in self._splits:
                memory = self._splits[kernel].memory()
                own.update({key: Lifetime(size, step, step) for key, size in memory})
            for value in kernel.buffers:
                value = self._parts.get(value, (value, 0))[0]
                if value in plan.home:
                    first.setdefault(value, step)
                    last[value] = step
        own.update({v: Lifetime(v.nbytes, step, last[v]) for v, step in first.items() if v not in targets})
        return own, reads

    def _kernel(self, plan: Plan, cluster: Cluster) -> Any:
        op = cluster.members[0].op
        if op.name in CONTROL:
            self._nanoseconds = math.inf
            return Control(op, self._used)
        if cluster in plan.panels:
            self._nanoseconds = math.inf
            panel = PanelKernel(plan, cluster, self.name())
            self._splits[panel] = panel.split()
            panel.f.name = self.define(panel.f, panel.build(), panel.extent)
            return panel
        kernel = kernel_of(plan, cluster, self.name())
        self._nanoseconds += nanoseconds(kernel) or math.inf
        if isinstance(kernel, (Join, Product)):
            whole, start = self._parts.get(op.out, (op.out, 0))
            within = range(start, start + max(op.out.nbytes, 1))
            found = {v for v, (w, at) in self._parts.items() if w is whole and at in within}
            kernel.placed = frozenset(found - {op.out})
        text, extent = kernel.build(), getattr(kernel, "extent", ())
        cut = split(kernel)
        if cut is not None:
            self._splits[kernel] = cut
            text = bounded(kernel, text, cut.extent)
        kernel.f.name = self.define(kernel.f, text, extent)
        return kernel

    def brief(self, limit: float) -> bool:
        """Whether the program takes less than so many nanoseconds, roughly, as far as it is known."""
        return self._nanoseconds < limit

    def name(self) -> str:
        """Return a name for a function to be defined."""
        return f"k{len(self._equal)}"

    def define(self, f: Function, text: str | None = None, extent: Any = ()) -> str:
        """Add a function, unless there is an equal one for the same range; return the name of that."""
        text = f.text() if text is None else text
        key = extent, text.replace(f"@{f.name}(", "@(", 1)
        if key in self._equal:
            return self._equal[key]
        self._equal[key] = f.name
        self._length[f.name] = len(text)
        self._kernels.append(text)
        self._needs |= f.needs
        self._declares |= f.declares
        return f.name

    def _manner(self, name: str) -> str:
        """Return how a function is called: apart, or so that LLVM may put it into the main function.

        That pays in a loop, and for little ones, as long as the main function does not grow too large.
        """
        deep, length = self._depth > 1, self._length[name]
        if length > self._room[deep] or (not deep and length > LARGE):
            return APART
        self._room[deep] -= length
        return ""

    def threads(self) -> tuple[str, str]:
        """Return what runs a function on all chunks of some work, and how many threads may do so."""
        self.parallel = True
        number = self.main.pure(f"getelementptr i64, ptr %table, i64 {THREADS}")
        threads = self.main.pure(f"load i64, ptr {number}, !invariant.load !{{}}")
        return self._argument("%table", RUN), threads

    def _call_kernel(
        self, kernel: Any, pointers: dict[Value, str], offsets: dict[Any, int], base: int
    ) -> None:
        found = [self.pointer(v, pointers) for v in kernel.buffers]
        cut = self._splits.get(kernel)
        if cut is not None:
            parts = [self.at(base + offsets[key]) for key, _ in cut.memory()]
            write_call(self, kernel, cut, found, parts)
            return
        arguments = [f"ptr {pointer}" for pointer in found]
        if isinstance(kernel, Call):
            self._call_eager(kernel, arguments)
            return
        extent = kernel.extent[0] if getattr(kernel, "extent", ()) else 1
        arguments += ["i64 0", f"i64 {extent}"]
        name = kernel.f.name
        self.main.line(f"call void @{name}({', '.join(arguments)}){self._manner(name)}")

    def _call_eager(self, kernel: Call, arguments: list[str]) -> None:
        """Write a call of an eager kernel; the program ends early if that one raised."""
        main, number = self.main, len(self.calls)
        self.calls.append(kernel.op)
        text = ", ".join([*arguments, "ptr %table", f"i64 {FIRST_CALL + number}"])
        code = main.make(f"call i32 @{kernel.f.name}({text}){self._manner(kernel.f.name)}")
        self.leave(main.make(f"icmp ne i32 {code}, 0"))

    def leave(self, condition: str, message: str | None = None, code: int = FAILED) -> None:
        """Let the program end early where a condition holds: with a message, or else a code."""
        main = self.main
        if message is not None:
            self.messages.append(message)
            code = FIRST_MESSAGE + len(self.messages) - 1
        self._labels += 1
        main.line(f"br i1 {condition}, label %leave{self._labels}, label %go{self._labels}")
        main.start(f"leave{self._labels}")
        self._end(code)
        main.start(f"go{self._labels}")

    def _end(self, code: int) -> None:
        """Go to the end of the program, which says how it went."""
        self.main.line(f"store i32 {code}, ptr {self._code}")
        self.main.line("br label %end")

    def pointer(self, value: Value, pointers: dict[Value, str]) -> str:
        """Return the pointer to a value's memory; constants are arguments of the program."""
        found = pointers.get(value)
        if found is None:
            if value not in self.constants:
                self.constants.append(value)
            found = self._argument("%args", len(self.graph.inputs) + self.constants.index(value))
        return found
