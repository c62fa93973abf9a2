"""A scan of a core graph, taken apart: its states, elements, constants, results and history."""

from __future__ import annotations

from collections.abc import Iterator, Set

from everyo.compiler.graph import Graph, Op, Value


class Scan:
    """A view of a scan that knows its parts, and adds to them or drops some.

    The operands are the first states, the stacks that the steps read the elements of, and constants of the
    loop. The results are the last states, the stacks of what each step gives, and those of the states
    before each step.
    """

    def __init__(self, op: Op) -> None:
        self.op = op
        self.body: Graph = op.params["body"]

    @property
    def carries(self) -> int:
        """The number of states."""
        return int(self.op.params["carries"])

    @property
    def first_constant(self) -> int:
        """The position of the first operand that is the same in all steps."""
        return self.carries + int(self.op.params["elements"])

    @property
    def width(self) -> int:
        """The position of the first history among the results."""
        return len(self.body.outputs)

    @property
    def length(self) -> int:
        """The number of steps."""
        return int(self.op.params["length"])

    def history(self, i: int) -> Value:
        """Return the stack of a state before each step."""
        return self.op.outs[self.width + i]

    def stacks(self) -> Iterator[tuple[Value, Value]]:
        """Yield stacks outside with the value of the body that their elements are."""
        for i in range(self.carries):
            yield self.history(i), self.body.inputs[i]
        yield from zip(self.op.operands[self.carries : self.first_constant], self.elements(), strict=True)
        yield from zip(
            self.op.outs[self.carries : self.width], self.body.outputs[self.carries :], strict=True
        )

    def elements(self) -> list[Value]:
        """Return the inputs of the body that are other ones in each step, given from outside."""
        return self.body.inputs[self.carries : self.first_constant]

    def constants(self) -> Iterator[tuple[Value, Value]]:
        """Yield what is the same in all steps: outside, and in the body."""
        start = self.first_constant
        yield from zip(self.op.operands[start:], self.body.inputs[start:], strict=True)

    def stack_of(self, value: Value) -> Value:
        """Return the stack of a value of the body, which becomes a result if there is none yet."""
        for stack, inside in self.stacks():
            if inside is value:
                return stack
        if value.op is None or value.op.name in ("constant", "iota") or value in self.body.outputs:
            value = self._copy(value)
        made = Value((self.length, *value.shape), value.dtype, self.op)
        self.op.outs.insert(self.width, made)
        self.body.outputs.append(value)
        return made

    def _copy(self, value: Value) -> Value:
        return self.body.add("map", [value], [(value.shape, value.dtype)], fn="cast")[0]

    def own_outputs(self) -> None:
        """Copy outputs of the body that no operation of it makes."""
        self.body.outputs = [self._copy(v) if v.op is None else v for v in self.body.outputs]

    def element_of(self, stack: Value) -> Value:
        """Return the input of the body that is an element of a stack from outside, a new one if need be."""
        given = self.op.operands[self.carries : self.first_constant]
        if stack in given:
            return self.elements()[given.index(stack)]
        made = Value(stack.shape[1:], stack.dtype)
        self.op.inputs.insert(self.first_constant, stack)
        self.body.inputs.insert(self.first_constant, made)
        self.op.params["elements"] += 1
        return made

    def keep_only(self, states: Set[int], results: Set[int], inputs: Set[int]) -> None:
        """Drop all other states and results (by their positions among the outputs) and other operands."""
        op, body, width = self.op, self.body, self.width
        kept = [i for i in range(width) if i in (states if i < self.carries else results)]
        op.outs = [op.outs[i] for i in kept] + [op.outs[width + i] for i in sorted(states)]
        body.outputs = [body.outputs[i] for i in kept]
        positions = [i for i in range(len(op.inputs)) if i in (states if i < self.carries else inputs)]
        elements = sum(self.carries <= i < self.first_constant for i in positions)
        op.inputs = [op.inputs[i] for i in positions]
        body.inputs = [body.inputs[i] for i in positions]
        op.params |= {"carries": len(states), "elements": elements}


def scans_of(graph: Graph) -> list[Scan]:
    """Return the scans of a graph that run at least once."""
    return [Scan(op) for op in graph.ops if op.name == "scan" and op.params["length"]]


def substitute(graph: Graph, replaced: dict[Value, Value]) -> None:
    """Let all readers of some values, and the outputs of the graph, read others in their place."""
    for op in graph.ops:
        op.inputs = [v if v is None else replaced.get(v, v) for v in op.inputs]
    graph.outputs = [replaced.get(v, v) for v in graph.outputs]
