"""Plant a fault in each pass and rule of the compiler and demand that the tests notice.

    python tools/mutate_compiler.py [WORD...] [--jobs N] [--quick] [--list]

Each fault is a piece of source text and what stands in its place; WORDs choose those whose file or text has
them. The package is copied, the fault planted in the copy, and `QUICK` or `FIRST`, then `TESTS` run on it
until the first of them fails. A text that is not in its file once is an error, so that the list keeps up
with the code. The exit status is 1 if a fault survives.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COMPILER = Path("everyo/compiler")
QUICK = ["tests/test_compile_regressions.py"]  # notice most, and others these:
FIRST = {
    "api.py": ["tests/test_compile_api.py"],
    "trace.py": ["tests/test_compile_api.py"],
    "passes.py": ["tests/test_compile_api.py"],
    "replay.py": ["tests/test_compile_custom.py"],
    "draws.py": ["tests/test_compile_random.py"],
    "control.py": ["tests/test_compile_control.py"],
    "codegen/control.py": ["tests/test_compile_control.py"],
}
TESTS = [
    f"tests/test_compile_{name}.py"
    for name in ("regressions", "api", "custom", "random", "control", "primitives", "programs")
]
LIMIT = 900  # seconds: a program that never ends is noticed, too


class Fault(NamedTuple):
    """A text in a file of the compiler, and a wrong one."""

    file: str
    right: str
    wrong: str


FAULTS = [
    # passes
    Fault("passes.py", "needed.update(op.operands)", "needed.update(op.operands[:1])"),
    Fault("passes.py", "or has_effect(op):", "or False:"),
    # the arena
    Fault("memory.py", "if offset + size <= start:", "if offset <= start:"),
    Fault("memory.py", "other.first <= life.last and", "other.first < life.last and"),
    Fault(
        "codegen/program.py",
        "                    last[value] = step",
        "                    last.setdefault(value, step)",
    ),
    # fusion
    Fault(
        "access.py",
        "longest = min(len(source.shape), len(out.shape))\n    for",
        "return min(len(source.shape), len(out.shape))\n    for",
    ),
    Fault("access.py", 'bool(params["axes"][axis] == axis)', "True"),
    Fault("access.py", 'bool(params["dims"][axis] == axis)', "True"),
    Fault("access.py", "return bool(at == 0)", "return True"),
    Fault("access.py", "return axis < at and axis < min(axes)", "return True"),
    Fault("fuse.py", "outer = outer[: min(shared, len(outer))]", "outer = outer"),
    Fault("fuse.py", "if value in forced or readers.get(value, set()) - {cluster}:", "if value in forced:"),
    Fault("fuse.py", "        if v in plan.home and v not in plan.stored:\n            return False\n", ""),
    Fault("fuse.py", "plan.member[value].nest < member.nest", "False"),
    Fault("fuse.py", "if axes == (*range(rank - 2), rank - 1, rank - 2) and", "if"),
    Fault(
        "access.py",
        'params["start"][axis] == 0 and (params["step"][axis] == 1 or op.out.shape[axis] == 1)',
        "True",
    ),
    # elements
    Fault("codegen/elements.py", '[idx[d] for d in op.params["dims"]]', "list(idx)[: len(source.shape)]"),
    Fault(
        "codegen/elements.py",
        "            inside[axis] = i\n",
        "            inside[len(inside) - 1 - axis] = i\n",
    ),
    Fault("codegen/elements.py", "f.add(f.mul(i, s), o) for i, o, s", "f.add(i, o) for i, o, s"),
    Fault("codegen/elements.py", "f.add(f.mul(i, s), o) for i, o, s", "f.mul(i, s) for i, o, s"),
    Fault("codegen/elements.py", "position = f.sub(i, low)", "position = i"),
    Fault("codegen/elements.py", 'conditions.append(f.pure(f"icmp ult i64 {position}, {n}"))', "pass"),
    Fault("codegen/elements.py", "local = f.sub(position, start)", "local = position"),
    Fault(
        "codegen/elements.py",
        "rest = iter([*idx[:at], *idx[at + rank :]])",
        "rest = iter(idx[at + rank :] or idx)",
    ),
    Fault("codegen/elements.py", "self.element(b, [*batch, k, j])", "self.element(b, [*batch, j, k])"),
    Fault(
        "codegen/elements.py", "total = x if total is None else combine(", "total = x if True else combine("
    ),
    Fault("codegen/elements.py", '{i}, i64 {position}")', '{i - 1}, i64 {position}")'),
    Fault(
        "codegen/elements.py", 'literal(-math.inf if kind == "max" else math.inf, dtype)', "literal(0, dtype)"
    ),
    Fault(
        "codegen/elements.py",
        "key = (value, tuple(idx), type(idx) is Flat)",
        "key = (value, len(idx), type(idx) is Flat)",
    ),
    # kernels
    Fault("codegen/kernels.py", "if member.nest >= self.nest:", "if member.nest > self.nest:"),
    Fault(
        "codegen/kernels.py",
        "kept = [i for a, i in enumerate(idx) if a not in axes][depth:]",
        "kept = [i for a, i in enumerate(idx) if a not in axes][:depth] or list(idx[depth:])",
    ),
    Fault(
        "codegen/kernels.py",
        "offset = f.flat([i for a, i in enumerate(idx) if a not in axes], value.shape)",
        "offset = 0",
    ),
    Fault(
        "codegen/kernels.py",
        'after = combine(f, op.params["kind"], before, x,',
        'after = combine(f, "sum", before, x,',
    ),
    Fault(
        "codegen/kernels.py", "                f.store(first, place, i, value.dtype)", "                pass"
    ),
    Fault("codegen/kernels.py", "i64 {idx[axis]}, i64 {at}", "i64 {at}, i64 {idx[axis]}"),
    Fault("codegen/kernels.py", "not all(_reads_in_order(plan, v) for v in member.op.operands)", "False"),
    Fault(
        "codegen/kernels.py",
        'if axes and (member.op.name == "argreduce" or len(axes) != len(member.space)):',
        'if axes and member.op.name == "argreduce":',
    ),
    # kernels of their own
    Fault("codegen/opaque.py", 'if op.params["kind"] != "set":', "if False:"),
    Fault("codegen/opaque.py", "            start += value.size\n", ""),
    Fault("codegen/opaque.py", 'f.sub(n - 1, position) if op.params["reverse"] else position', "position"),
    Fault(
        "codegen/opaque.py",
        "offset = f.flat([*before, at(previous), *after], shape)",
        "offset = f.flat([*before, at(position), *after], shape)",
    ),
    Fault("codegen/opaque.py", "sizes = (m * k, k * n, m * n)", "sizes = (m * k, k * n, 0)"),
    Fault("codegen/products.py", '"lda": m if ta else k', '"lda": k'),
    Fault("codegen/products.py", "for t in (ta, tb)", "for t in (tb, ta)"),
    # scalars
    Fault(
        "codegen/scalar.py",
        'return a if a == b else f.pure(f"select i1 {condition}, {kind} {a}, {kind} {b}")',
        'return a if a == b else f.pure(f"select i1 {condition}, {kind} {b}, {kind} {a}")',
    ),
    Fault(
        "codegen/scalar.py",
        'f.pure(f"{FLOAT[fn]} contract {kind} {operands[0]}, {operands[1]}")',
        'f.pure(f"{FLOAT[fn]} contract {kind} {operands[1]}, {operands[0]}")',
    ),
    Fault("codegen/scalar.py", 'predicate = "u" + predicate[1:]', "pass"),
    # loops and branches
    Fault("codegen/control.py", 'first = length - 1 if op.params["reverse"] else 0', "first = 0"),
    Fault("codegen/control.py", 'main.sub(length - 1, count) if op.params["reverse"] else count', "count"),
    Fault(
        "codegen/control.py",
        "targets[value] = place(i, main.add(count, 1))",
        "targets[value] = place(i, count)",
    ),
    Fault(
        "codegen/control.py",
        "copy(module, final, place(i, length % 2), values[i].nbytes)",
        "copy(module, final, place(i, 0), values[i].nbytes)",
    ),
    Fault("codegen/control.py", 'label %true{k}, label %false{k}")', 'label %false{k}, label %true{k}")'),
    Fault(
        "control/scans.py",
        "state, ys, _ = scanned(step, [*start, *sums], stacks, length, not reverse)",
        "state, ys, _ = scanned(step, [*start, *sums], stacks, length, reverse)",
    ),
    Fault("control/scans.py", "totals = [s + gradients[i] for", "totals = [gradients[i] for"),
    Fault("control/loops.py", "added = [s + d for s, d in", "added = [d for s, d in"),
    Fault("draws.py", "zip(*(rows[::-1] if reverse else rows), strict=True)", "zip(*rows, strict=True)"),
    # lowering
    Fault(
        "lowering/builder.py",
        'if fn in ("multiply", "divide") and numbers[1] == 1:',
        'if fn in ("multiply", "divide") and numbers[1] is not None:',
    ),
    Fault(
        "lowering/builder.py",
        "return values[1] if numbers[0] else values[2]",
        "return values[2] if numbers[0] else values[1]",
    ),
    Fault("lowering/builder.py", '[dims[d] for d in op.params["dims"]]', "dims"),
    Fault(
        "lowering/builder.py", '[op.params["axes"][a] for a in axes]', '[axes[a] for a in op.params["axes"]]'
    ),
    Fault("lowering/indexing.py", "low.append(first)", "low.append(start)"),
    Fault("lowering/indexing.py", "inner.append(abs(step) - 1 if count > 1 else 0)", "inner.append(0)"),
    Fault("lowering/indexing.py", "at=found.axes[0] if together else 0", "at=found.axes[0]"),
    Fault(
        "lowering/reductions.py", 'return b.map("divide", total, b.constant(count, x.dtype))', "return total"
    ),
    Fault(
        "lowering/elementwise.py",
        'scaled = b.map("multiply", b.constant(op.params["alpha"], x.dtype), negative)',
        "scaled = negative",
    ),
    Fault("lowering/shapes.py", "cut = (n - shift) % n if n else 0", "cut = (n + shift) % n if n else 0"),
    # tracing, replay, the door
    Fault("trace.py", 'made.name == "constant"', 'made.name == "add"'),
    Fault("trace.py", "self.write(data_of(x), x.data.value)", "pass"),
    Fault("replay.py", 'if op.name == "custom":', "if False:"),
    Fault(
        "api.py",
        "moving = tuple(i for i, need in enumerate(needs) if need)",
        "moving = tuple(i for i, need in enumerate(needs))",
    ),
    Fault("api.py", "(type(x), x)", "x"),
    Fault("api.py", "if not all(read() == value for read, value in self.guards):", "if False:"),
]


def planted(fault: Fault, tree: Path) -> str | None:
    """Plant a fault in a copy of the package; return the file's own text, None if the fault fits nowhere."""
    path = tree / COMPILER / fault.file
    text = path.read_text()
    if text.count(fault.right) != 1:
        return None
    path.write_text(text.replace(fault.right, fault.wrong))
    return text


def is_noticed(tree: Path, tests: Sequence[str]) -> bool:
    """Whether tests fail on a copy."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def main(arguments: Sequence[str]) -> int:
    """Plant all faults, or those with the words given; return the exit status."""
    parser = argparse.ArgumentParser(description="Plant faults in the compiler; the tests must notice.")
    parser.add_argument("words", nargs="*", help="parts of the file or text of a fault; all by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many at a time")
    parser.add_argument("--quick", action="store_true", help="run the first tests alone")
    parser.add_argument("--list", action="store_true", help="show the faults and plant none")
    options = parser.parse_args(arguments)
    chosen = [f for f in FAULTS if not options.words or any(w in f.file + f.right for w in options.words)]
    if options.list:
        for fault in chosen:
            print(f"{fault.file}: {fault.right.strip()!r} -> {fault.wrong.strip()!r}")
        return 0
    with tempfile.TemporaryDirectory() as directory:
        trees: queue.Queue[Path] = queue.Queue()
        for i in range(options.jobs):
            trees.put(copied(Path(directory) / str(i)))
        if is_noticed(trees.queue[0], QUICK):
            print("BROKEN without any fault")
            return 1
        return report(chosen, trees, options.jobs, options.quick)


def copied(tree: Path) -> Path:
    """Copy what the tests need; return where it is."""
    for name in ("everyo", "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / name, tree / name)
    return tree


def outcome(fault: Fault, trees: queue.Queue[Path], quick: bool) -> str:
    """Plant a fault in one of the copies and take it out again; return what became of it."""
    tree = trees.get()
    try:
        text = planted(fault, tree)
        if text is None:
            print(f"NOT FOUND: {fault.file}: {fault.right.strip()!r}", flush=True)
            return "not found"
        noticed = is_noticed(tree, FIRST.get(fault.file, QUICK)) or (not quick and is_noticed(tree, TESTS))
        (tree / COMPILER / fault.file).write_text(text)
        result = "noticed" if noticed else "SURVIVED"
        print(f"{result}: {fault.file}: {fault.right.strip()!r} -> {fault.wrong.strip()!r}", flush=True)
        return result
    finally:
        trees.put(tree)


def report(chosen: Sequence[Fault], trees: queue.Queue[Path], jobs: int, quick: bool) -> int:
    """Plant all faults and say what became of them; return the exit status."""
    started = time.perf_counter()
    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(lambda fault: outcome(fault, trees, quick), chosen))
    noticed, count = results.count("noticed"), len(chosen) - results.count("not found")
    rate = 100 * noticed / count if count else 100.0
    seconds = time.perf_counter() - started
    print(f"{count} faults planted, {noticed} noticed: kill rate {rate:.1f}% in {seconds:.0f} s")
    return 0 if noticed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
