"""Tapes: the states of all steps of a while loop, in memory that grows and that the program gives back."""

from __future__ import annotations

from collections import Counter
from typing import Any

from everyo.compiler.codegen.text import Function
from everyo.compiler.graph import Graph, Value
from everyo.compiler.memory import aligned

NO_MEMORY = 3  # what the main function returns when there is none for a tape
FIRST = 64  # steps that a tape has room for at first
HEADER = aligned(8)  # bytes before the records: there stands which tape is next in the list
DECLARES = ("declare ptr @malloc(i64)", "declare ptr @realloc(ptr, i64)", "declare void @free(ptr)")
RELEASE = """define internal void @everyo_release(ptr %list) #0 {
entry:
  %first = load ptr, ptr %list
  br label %next
next:
  %tape = phi ptr [ %first, %entry ], [ %following, %free ]
  %done = icmp eq ptr %tape, null
  br i1 %done, label %end, label %free
free:
  %following = load ptr, ptr %tape
  call void @free(ptr %tape)
  br label %next
end:
  ret void
}
"""


class Tapes:
    """The tapes of a program.

    One that is read once, where it was made, is freed there. Others, which several read or a reader
    elsewhere, are kept in a list until the program ends.
    """

    def __init__(self, main: Function) -> None:
        self._main = main
        self._own: set[Value] = set()
        self._slots: dict[Value, str] = {}
        self._list: str | None = None

    @property
    def declares(self) -> tuple[str, ...]:
        """What the module declares for them."""
        return DECLARES if self._slots else ()

    @property
    def source(self) -> str:
        """The function that frees all tapes of the list."""
        return RELEASE if self._list else ""

    def note(self, graph: Graph) -> None:
        """Find the tapes that are read once only, in the graph where they are written."""
        reads = Counter(v for op in graph.ops for v in op.inputs if v is not None)
        reads.update(graph.outputs)
        made = {v for op in graph.ops if op.name == "while" for v in op.outs}
        for op in graph.ops:
            if op.name == "while_back":
                tape = op.operands[op.params["carries"] + 1]
                if tape in made and reads[tape] == 1:
                    self._own.add(tape)

    def slot(self, value: Value) -> str:
        """Return where the memory of a tape stands while the program answers for it alone."""
        slot = self._slots[value] = self._empty()
        return slot

    def finish(self, value: Value) -> None:
        """A tape is complete: unless its one reader follows, keep it to the end of the program."""
        if value in self._own:
            return
        if self._list is None:
            self._list = self._empty()
        main, slot = self._main, self._slots[value]
        tape = main.make(f"load ptr, ptr {slot}")
        main.line(f"store ptr {main.make(f'load ptr, ptr {self._list}')}, ptr {tape}")
        main.line(f"store ptr {tape}, ptr {self._list}")
        main.line(f"store ptr null, ptr {slot}")

    def read(self, value: Value) -> None:
        """A tape was read: free it if nobody else will."""
        if value in self._own:
            self._free(self._slots[value])

    def release(self) -> None:
        """The program ends, at whatever point: free all that is left."""
        for slot in self._slots.values():
            self._main.line(f"call void @free(ptr {self._main.make(f'load ptr, ptr {slot}')})")
        if self._list is not None:
            self._main.line(f"call void @everyo_release(ptr {self._list})")

    def _free(self, slot: str) -> None:
        self._main.line(f"call void @free(ptr {self._main.make(f'load ptr, ptr {slot}')})")
        self._main.line(f"store ptr null, ptr {slot}")

    def _empty(self) -> str:
        slot = self._main.alloca("ptr")
        self._main.entry.append(f"  store ptr null, ptr {slot}")
        return slot


class Tape:
    """One tape: a record of the states for each step."""

    def __init__(self, module: Any, values: list[Value]) -> None:
        self.module, self.values = module, values
        self.starts = [0]
        for value in values:
            self.starts.append(self.starts[-1] + aligned(max(value.nbytes, 1)))
        self.size = self.starts[-1]

    def place(self, tape: str, index: Any, i: int) -> str:
        """Return the pointer to state `i` in a record."""
        main = self.module.main
        offset = main.add(main.mul(index, self.size), self.starts[i])
        return str(main.make(f"getelementptr i8, ptr {tape}, i64 {offset}"))


class Writer(Tape):
    """A tape that is being written."""

    def __init__(self, module: Any, values: list[Value], value: Value) -> None:
        super().__init__(module, values)
        self._value, self._slot, self._room = value, module.tapes.slot(value), module.main.alloca("i64")
        main = module.main
        self._take(main.make(f"call ptr @malloc(i64 {HEADER + FIRST * self.size})"))
        main.line(f"store i64 {FIRST}, ptr {self._room}")

    def _records(self) -> str:
        main = self.module.main
        memory = main.make(f"load ptr, ptr {self._slot}")
        return str(main.make(f"getelementptr i8, ptr {memory}, i64 {HEADER}"))

    def _take(self, memory: str) -> None:
        main = self.module.main
        self.module.leave(main.make(f"icmp eq ptr {memory}, null"), code=NO_MEMORY)
        main.line(f"store ptr {memory}, ptr {self._slot}")

    def write(self, states: list[str], steps: str, copy: Any) -> None:
        """Write the states of a step; the memory doubles when it is full."""
        module, main = self.module, self.module.main
        module._labels += 1
        k = module._labels
        size = main.make(f"load i64, ptr {self._room}")
        full = main.make(f"icmp eq i64 {steps}, {size}")
        main.line(f"br i1 {full}, label %grow{k}, label %note{k}")
        main.start(f"grow{k}")
        with main.scope():
            doubled = main.make(f"mul i64 {size}, 2")
            old = main.make(f"load ptr, ptr {self._slot}")
            bytes = main.add(main.make(f"mul i64 {doubled}, {self.size}"), HEADER)
            self._take(main.make(f"call ptr @realloc(ptr {old}, i64 {bytes})"))
            main.line(f"store i64 {doubled}, ptr {self._room}")
        main.line(f"br label %note{k}")
        main.start(f"note{k}")
        with main.scope():
            current = self._records()
            for i, state in enumerate(states):
                copy(module, self.place(current, steps, i), state, self.values[i].nbytes)

    def finish(self, target: str) -> None:
        """Hand the tape over: its address is a number in the program."""
        main = self.module.main
        handle = main.make(f"ptrtoint ptr {self._records()} to i64")
        main.line(f"store i64 {handle}, ptr {target}")
        self.module.tapes.finish(self._value)
