"""Kernels in parts: the range of an outer loop is cut into chunks, which threads take.

How many chunks there are follows from the work alone, never from the number of threads, and each chunk has
a place of its own for what it contributes to a reduction over the outer loop. These are added up in order
when all are there. So the result is the same, bit for bit, whichever thread takes which chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from everyo.compiler.codegen.cost import nanoseconds
from everyo.compiler.codegen.elements import combine
from everyo.compiler.codegen.text import Function
from everyo.compiler.graph import Op
from everyo.compiler.memory import aligned

WORTH = 100_000.0  # nanoseconds of work from which on a kernel is split
CHUNK = 40_000.0  # nanoseconds that a chunk takes at least
MOST = 64  # chunks
JOINED = 0.5  # nanoseconds for one element of one chunk's contribution
SHARE = 0.1  # of the work that adding up the contributions may cost
BLOCK = 64  # elements of a flat loop that stay together


class Split(NamedTuple):
    """How a kernel is cut: the number of chunks, turns of the outer loop in one, and what is added up."""

    chunks: int
    step: int
    extent: int
    sums: tuple[Op, ...]

    def memory(self) -> Iterator[tuple[Any, int]]:
        """Yield keys and sizes of what the contributions of all chunks take."""
        for op in self.sums:
            yield ("contributions", op), self.chunks * aligned(op.out.nbytes)


def split(kernel: Any) -> Split | None:
    """Return how a kernel is cut, or None where it is not worth it."""
    extent = kernel.extent[0] if getattr(kernel, "extent", ()) else 1
    work = nanoseconds(kernel) if extent > 1 else 0.0
    if work < WORTH:
        return None
    sums = tuple(_sums(kernel))
    if any(op.params["kind"] == "prod" and op.out.dtype.kind == "f" for op in sums):
        return None  # a product of a part may overflow where that of all factors in order does not
    chunks = min(MOST, int(work / CHUNK), extent)
    size = sum(op.out.size for op in sums)
    if size:
        chunks = min(chunks, int(work * SHARE / (size * JOINED)))
    if chunks < 2:
        return None
    step = -(-extent // chunks)
    if getattr(kernel, "flat", False) and step > 4 * BLOCK:
        step = -(-step // BLOCK) * BLOCK
    return Split(-(-extent // step), step, extent, sums)


def _sums(kernel: Any) -> Iterator[Op]:
    cluster = getattr(kernel, "cluster", None)
    if cluster is not None and not cluster.opaque:
        yield from (m.op for m in cluster.members if m.sink)


def bounded(kernel: Any, text: str, extent: int) -> str:
    """Return the text of a kernel that says within which bounds its range lies."""
    kernel.f.declares.add("declare void @llvm.assume(i1)")
    facts = ("%from = icmp sge i64 %low, 0", f"%to = icmp sle i64 %high, {extent}")
    lines = [f"  {fact}\n  call void @llvm.assume(i1 {fact.split()[0]})\n" for fact in facts]
    return text.replace("entry:\n", "entry:\n" + "".join(lines), 1)


def part(name: str, kernel: Any, split: Split) -> Function:
    """Return the function ``name(context, chunk)``; the context holds the kernel's pointers in order."""
    f = Function(name, ["ptr %context", "i64 %chunk"])
    pieces = {op.out: aligned(op.out.nbytes) for op in split.sums}
    arguments = []
    for i, value in enumerate(kernel.buffers):
        pointer = f.make(f"load ptr, ptr {f.make(f'getelementptr ptr, ptr %context, i64 {i}')}")
        if value in pieces:
            pointer = f.make(f"getelementptr i8, ptr {pointer}, i64 {f.mul('%chunk', pieces[value])}")
        arguments.append(f"ptr {pointer}")
    low = f.mul("%chunk", split.step)
    end = f.add(low, split.step)
    inside = f.make(f"icmp slt i64 {end}, {split.extent}")
    high = f.make(f"select i1 {inside}, i64 {end}, i64 {split.extent}")
    f.line(f"call void @{kernel.f.name}({', '.join([*arguments, f'i64 {low}', f'i64 {high}'])})")
    f.line("ret void")
    return f


def join(name: str, op: Op, chunks: int) -> Function:
    """Return the function ``name(result, contributions)``, which adds up what the chunks contributed."""
    f = Function(name, ["ptr noalias %result", "ptr noalias %parts"])
    value, step = op.out, aligned(op.out.nbytes) // op.out.dtype.itemsize
    with f.loop(0, value.size) as i:
        f.store(f.load("%parts", i, value.dtype, fixed=False), "%result", i, value.dtype)
    with f.loop(1, chunks) as chunk, f.loop(0, value.size) as i:
        before = f.load("%result", i, value.dtype, fixed=False)
        x = f.load("%parts", f.add(f.mul(chunk, step), i), value.dtype, fixed=False)
        f.store(combine(f, op.params["kind"], before, x, value.dtype), "%result", i, value.dtype)
    f.line("ret void")
    return f


def write_call(module: Any, kernel: Any, split: Split, pointers: Sequence[str], parts: Sequence[str]) -> None:
    """Write the run over all chunks into the main function, and the sums behind it.

    `pointers` are those of the kernel's buffers, `parts` those of the contributions.
    """
    main, buffers = module.main, list(kernel.buffers)
    places = {op.out: place for op, place in zip(split.sums, parts, strict=True)}
    context = main.alloca("ptr", len(buffers))
    for i, (value, pointer) in enumerate(zip(buffers, pointers, strict=True)):
        address = main.make(f"getelementptr ptr, ptr {context}, i64 {i}")
        main.line(f"store ptr {places.get(value, pointer)}, ptr {address}")
    function = module.define(part(module.name(), kernel, split))
    run, threads = module.threads()
    main.line(f"call void {run}(i64 {threads}, ptr @{function}, ptr {context}, i64 {split.chunks})")
    for op in split.sums:
        result = pointers[buffers.index(op.out)]
        ending = module.define(join(module.name(), op, split.chunks))
        main.line(f"call void @{ending}(ptr {result}, ptr {places[op.out]})")
