"""Loops and branches: blocks of the main function around the kernels of their bodies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from everyo.compiler.codegen.tapes import Tape, Writer
from everyo.compiler.fuse import buffer_value
from everyo.compiler.graph import Op, Value
from everyo.compiler.memory import aligned

CONTROL = frozenset({"scan", "cond", "while", "while_back", "require"})


class Control:
    """What the memory plan has to know of a loop or branch.

    Attributes
    ----------
    buffers : dict
        What it reads and writes.
    """

    def __init__(self, op: Op, used: set[Value]) -> None:
        self.op = op
        operands = [buffer_value(op, i) for i, v in enumerate(op.inputs) if v is not None]
        self.buffers = dict.fromkeys([*operands, *(v for v in op.outs if v in used)])

    def memory(self) -> Iterator[tuple[Any, int]]:
        """Yield keys and sizes of what it needs for itself: two places for each state that a loop carries."""
        op = self.op
        for i in range(op.params.get("carries", 0)):
            if op.inputs[i] is not None:
                value = op.operands[i]
                yield (op, i), 2 * aligned(max(value.nbytes, 1))


def write_control(
    module: Any, op: Op, pointers: dict[Value, str], offsets: dict[Any, int], base: int, free: int
) -> int:
    """Write a loop or branch into the main function; return the end of the memory that it uses."""
    inputs = [module.pointer(buffer_value(op, i), pointers) for i in range(len(op.inputs))]
    outs = [pointers.get(v) for v in op.outs]
    if op.name == "require":
        module.leave(main_flag(module, inputs[0]), op.params["message"])
        return free
    rule = {"scan": _scan, "cond": _cond, "while": _while, "while_back": _while_back}[op.name]
    places = [base + offsets[op, i] for i in range(op.params.get("carries", 0))]
    return rule(module, op, inputs, outs, places, free)


def main_flag(module: Any, pointer: str) -> str:
    """Return a boolean in memory as a condition."""
    main = module.main
    return str(main.make(f"icmp ne i8 {main.make(f'load i8, ptr {pointer}')}, 0"))


def copy(module: Any, target: str, source: str, size: int) -> None:
    """Copy bytes."""
    module._declares.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    module.main.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")


def _scan(
    module: Any, op: Op, inputs: list[str], outs: list[str | None], places: list[int], free: int
) -> int:
    """A loop; states go back and forth between two places each, or along their history if that is wanted."""
    main, body = module.main, op.params["body"]
    carries, elements, length = op.params["carries"], op.params["elements"], op.params["length"]
    width = len(body.outputs)
    history = outs[width:]
    values = op.operands

    def element(pointer: str, index: Any, size: int) -> str:
        return main.make(f"getelementptr i8, ptr {pointer}, i64 {main.mul(index, size)}")

    def place(i: int, index: Any) -> str:
        parity = index % 2 if isinstance(index, int) else main.pure(f"and i64 {index}, 1")
        return element(module.at(places[i]), parity, aligned(max(values[i].nbytes, 1)))

    first = length - 1 if op.params["reverse"] else 0
    for i in range(carries):
        start = history[i]
        if length == 0:
            target = outs[i]
        else:
            target = place(i, 0) if start is None else element(start, first, values[i].nbytes)
        if target is not None:
            copy(module, target, inputs[i], values[i].nbytes)
    if length == 0:
        return free
    with main.loop(0, length) as count:
        index = main.sub(length - 1, count) if op.params["reverse"] else count
        after = main.sub(index, 1) if op.params["reverse"] else main.add(index, 1)
        last = (
            count == length - 1 if isinstance(count, int) else main.make(f"icmp eq i64 {count}, {length - 1}")
        )
        own: dict[Value, str] = {}
        targets: dict[Value, str] = {}
        for i, value in enumerate(body.inputs):
            if i < carries:
                past = history[i]
                own[value] = place(i, count) if past is None else element(past, index, value.nbytes)
            elif i < carries + elements:
                own[value] = element(inputs[i], index, value.nbytes)
            else:
                own[value] = inputs[i]
        for i, value in enumerate(body.outputs):
            if i < carries:
                past, final = history[i], outs[i]
                if past is None:
                    targets[value] = place(i, main.add(count, 1))
                else:
                    following = element(past, after, value.nbytes)
                    end = final if final is not None else place(i, 0)
                    if isinstance(last, bool):
                        targets[value] = end if last else following
                    else:
                        targets[value] = main.make(f"select i1 {last}, ptr {end}, ptr {following}")
            else:
                stack = outs[i]
                targets[value] = module.at(free) if stack is None else element(stack, index, value.nbytes)
        spare = max((aligned(v.nbytes) for i, v in enumerate(body.outputs) if outs[i] is None), default=0)
        end_of_body = module.body(body, own, targets, free + spare)
    for i in range(carries):
        final = outs[i]
        if history[i] is None and final is not None:
            copy(module, final, place(i, length % 2), values[i].nbytes)
    return int(end_of_body)


def _cond(
    module: Any, op: Op, inputs: list[str], outs: list[str | None], places: list[int], free: int
) -> int:
    """Two blocks, of which one runs."""
    main = module.main
    byte = main.make(f"load i8, ptr {inputs[0]}")
    holds = main.make(f"icmp ne i8 {byte}, 0")
    module._labels += 1
    k, end = module._labels, free
    main.line(f"br i1 {holds}, label %true{k}, label %false{k}")
    for name in ("true", "false"):
        graph = op.params[name]
        main.start(f"{name}{k}")
        with main.scope():
            spare = 0
            targets = {}
            for value, out in zip(graph.outputs, outs):
                targets[value] = module.at(free + spare) if out is None else out
                spare += aligned(value.nbytes) if out is None else 0
            end = max(end, module.body(graph, dict(zip(graph.inputs, inputs[1:])), targets, free + spare))
        main.line(f"br label %join{k}")
    main.start(f"join{k}")
    return end


def _while(
    module: Any, op: Op, inputs: list[str], outs: list[str | None], places: list[int], free: int
) -> int:
    """A loop that asks its condition before each step, and notes down its states if they are wanted."""
    main, carries = module.main, op.params["carries"]
    values = op.operands[:carries]
    handle = outs[carries + 1]
    tape = None if handle is None else Writer(module, values, op.outs[carries + 1])
    count = main.alloca("i64")
    main.line(f"store i64 0, ptr {count}")

    def place(i: int, which: str) -> str:
        offset = main.make(f"mul i64 {which}, {aligned(max(values[i].nbytes, 1))}")
        return str(main.make(f"getelementptr i8, ptr {module.at(places[i])}, i64 {offset}"))

    for i in range(carries):
        copy(module, module.at(places[i]), inputs[i], values[i].nbytes)
    module._labels += 1
    k = module._labels
    main.line(f"br label %while{k}")
    main.start(f"while{k}")
    with main.scope():
        steps = main.make(f"load i64, ptr {count}")
        now, after = (
            main.make(f"and i64 {steps}, 1"),
            main.make(f"xor i64 {main.make(f'and i64 {steps}, 1')}, 1"),
        )
        states = [place(i, now) for i in range(carries)]
        own = [*states, *inputs[carries:]]
        flag = module.at(free)
        test, body = op.params["cond"], op.params["body"]
        spare = aligned(1)
        end = module.body(test, dict(zip(test.inputs, own)), {test.outputs[0]: flag}, free + spare)
        going = main.make(f"icmp ne i8 {main.make(f'load i8, ptr {flag}')}, 0")
        main.line(f"br i1 {going}, label %step{k}, label %done{k}")
        main.start(f"step{k}")
        if tape is not None:
            tape.write(states, steps, copy)
        targets = {v: place(i, after) for i, v in enumerate(body.outputs)}
        end = max(end, module.body(body, dict(zip(body.inputs, own)), targets, free + spare))
        main.line(f"store i64 {main.make(f'add i64 {steps}, 1')}, ptr {count}")
        main.line(f"br label %while{k}")
    main.start(f"done{k}")
    steps = main.make(f"load i64, ptr {count}")
    now = main.make(f"and i64 {steps}, 1")
    for i in range(carries):
        target = outs[i]
        if target is not None:
            copy(module, target, place(i, now), values[i].nbytes)
    if outs[carries] is not None:
        main.line(f"store i64 {steps}, ptr {outs[carries]}")
    if tape is not None and handle is not None:
        tape.finish(handle)
    return end


def _while_back(
    module: Any, op: Op, inputs: list[str], outs: list[str | None], places: list[int], free: int
) -> int:
    """The loop backwards, over the states on the tape."""
    main, step, carries = module.main, op.params["step"], op.params["carries"]
    values = op.operands[:carries]
    states = step.inputs[carries : carries + op.params["states"]]
    tape = Tape(module, states)
    count = main.make(f"load i64, ptr {inputs[carries]}")
    memory = main.make(f"inttoptr i64 {main.make(f'load i64, ptr {inputs[carries + 1]}')} to ptr")

    def place(i: int, index: Any) -> str:
        offset = main.mul(main.pure(f"and i64 {index}, 1"), aligned(max(values[i].nbytes, 1)))
        return str(main.make(f"getelementptr i8, ptr {module.at(places[i])}, i64 {offset}"))

    for i in range(carries):
        copy(module, module.at(places[i]), inputs[i], values[i].nbytes)
    with main.loop(0, count) as done:
        index = main.sub(main.make(f"sub i64 {count}, 1"), done)
        own = dict(zip(step.inputs, [place(i, done) for i in range(carries)]))
        own |= {v: tape.place(memory, index, i) for i, v in enumerate(states)}
        own |= dict(zip(step.inputs[carries + len(states) :], inputs[carries + 2 :]))
        targets = {v: place(i, main.add(done, 1)) for i, v in enumerate(step.outputs)}
        end = module.body(step, own, targets, free)
    for i in range(carries):
        target = outs[i]
        if target is not None:
            copy(module, target, place(i, count), values[i].nbytes)
    module.tapes.read(op.operands[carries + 1])
    return int(end)
