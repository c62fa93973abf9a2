"""Plant a fault in each pass and rule of the compiler and demand that the tests notice.

    python tools/mutate_compiler.py [WORD...] [--jobs N] [--quick] [--explained] [--list]

The faults stand in `compiler_faults/*.txt`, each as a piece of a file and what takes its place, with the test
that notices it:

    [memory.py]
    - if offset + size <= start:
    + if offset <= start:
    noticed by test_compile_regressions.py::test_values[chain]

The package is copied and the fault planted in the copy. Then the noted test runs; if it passes, or none is
noted, all tests of the compiler do, until the first that fails. A fault that none notices is a missing test,
or one that no test can notice: then ``survives: ...`` says why in place of the test, and the fault is planted
only with ``--explained``. A text that is not in its file exactly once is an error, so that the list keeps up
with the code. WORDs choose faults by file or text; ``--quick`` runs the noted tests only. The exit status is
1 if a fault survives that is not explained.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).resolve().parent / "compiler_faults"
COMPILER = Path("everyo/compiler")
NOTED, EXPLAINED = "noticed by ", "survives: "
# In the order in which they are tried; what has tests of its own is tried on these first.
TESTS = ["passes", "regressions", "api", "outside", "transformations", "errors", "state", "functions",
         "numbers", "loops", "control", "scans", "random", "custom", "convolution", "inspect", "training",
         "threads", "cache", "programs", "primitives", "elementary_vectors", "layout", "updates",
         "products", "replaced", "attributes", "optimizers", "direct", "complex"]  # fmt: skip
FIRST = {
    "control": "control", "scans": "scans", "draws": "random", "replay": "custom", "pool": "threads",
    "cache": "cache", "splitting": "threads", "segments": "loops", "convolution": "convolution",
    "windows": "convolution", "positions": "convolution", "inspection": "inspect", "api": "api",
    "trace": "api", "passes": "passes", "program": "training", "cost": "threads", "eager": "eager_kernels",
    "eager_rows": "eager_kernels", "elementary": "elementary", "cells": "state", "gradients": "state",
    "numbers": "numbers", "special": "numbers", "layout": "layout", "hints": "layout",
    "attributes": "attributes", "direct": "direct", "pairs": "complex", "complex_numbers": "complex",
    "complex_functions": "complex",
}  # fmt: skip
LIMIT = 400  # seconds for one run: a program that never ends is noticed, too


class Fault(NamedTuple):
    """A text in a file of the compiler and a wrong one; the test that notices it, or why none does."""

    file: str
    right: str
    wrong: str
    test: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.right.strip()!r} -> {self.wrong.strip()!r}"


def read(text: str) -> Iterator[Fault]:
    """Yield the faults of a list."""
    file = ""
    for block in re.split(r"\n\s*\n", text):
        parts: dict[str, list[str]] = {"- ": [], "+ ": []}
        notes = {NOTED: "", EXPLAINED: ""}
        for line in block.splitlines():
            note = next((n for n in notes if line.startswith(n)), None)
            if line.startswith("["):
                file = line.strip("[]")
            elif line[:2].ljust(2) in parts:
                parts[line[:2].ljust(2)].append(line[2:])
            elif note is not None:
                notes[note] = line.removeprefix(note)
            elif line and not line.startswith("#"):
                raise ValueError(f"neither a text nor a note: {line}")
        if parts["- "]:
            yield Fault(file, "\n".join(parts["- "]), "\n".join(parts["+ "]), *notes.values())


def planted(fault: Fault, tree: Path) -> str | None:
    """Plant a fault in a copy of the package; return the file's own text, None if the fault fits nowhere."""
    path = tree / COMPILER / fault.file
    text = path.read_text()
    if text.count(fault.right) != 1 or fault.right == fault.wrong:
        return None
    write(path, text.replace(fault.right, fault.wrong))
    return text


def write(path: Path, text: str) -> None:
    """Write a module anew; its bytecode goes, as another text of the same length and second would keep it."""
    path.write_text(text)
    Path(importlib.util.cache_from_source(path)).unlink(missing_ok=True)


def failing(tree: Path, tests: Sequence[str]) -> str | None:
    """Return the first test that fails on a copy, or None."""
    options = ["-x", "-v", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", *options, *(f"tests/{t}" for t in tests)]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1",
                   "EVERYO_CACHE": "0"}  # fmt: skip
    with subprocess.Popen(
        command, cwd=tree, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            said, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
    if process.returncode == 0:
        return None
    found = re.findall(r"^tests/(\S+\.py::.+?) (?:FAILED|ERROR|$)", said, re.MULTILINE)
    return found[-1] if found else "what is imported first"


class Trees:
    """Copies of what the tests need, one for each fault that is tried at a time."""

    def __init__(self, directory: Path, count: int) -> None:
        self.free: queue.Queue[Path] = queue.Queue()
        self.sound = copied(directory / "sound")
        self._lock = threading.Lock()
        for i in range(count):
            self.free.put(copied(directory / str(i)))

    @functools.cached_property
    def broken(self) -> str | None:
        """The first of all tests that fails without any fault; asked when the noted tests do not do."""
        return failing(self.sound, files_for(""))

    def notices(self, fault: Fault, quick: bool) -> str | None:
        """Plant a fault, run tests until one fails, and take it out again; return that test."""
        tree = self.free.get()
        try:
            text = planted(fault, tree)
            if text is None:
                raise LookupError(fault)
            found = failing(tree, [fault.test]) and fault.test if fault.test else None
            if found is None and not quick:
                with self._lock:
                    broken = self.broken
                if broken:
                    raise RuntimeError(f"{broken} fails without any fault")
                found = failing(tree, files_for(fault.file))
            write(tree / COMPILER / fault.file, text)
            return found
        finally:
            self.free.put(tree)


def copied(tree: Path) -> Path:
    """Copy what the tests need; return where it is."""
    for name in ("everyo", "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / name, tree / name)
    return tree


def files_for(file: str) -> list[str]:
    """Return the test files in the order in which to try them on a fault in a file."""
    parts = Path(file.removesuffix(".py")).parts
    first = [FIRST[p] for p in reversed(parts) if p in FIRST]
    names = dict.fromkeys([*first, *TESTS])
    return [
        f"test_{n}.py" if n.startswith(("eager", "elementary")) else f"test_compile_{n}.py" for n in names
    ]


def outcome(fault: Fault, trees: Trees, quick: bool) -> str:
    """Return what became of a fault."""
    try:
        found = trees.notices(fault, quick)
    except LookupError:
        print(f"NOT FOUND: {fault}", flush=True)
        return "not found"
    if found and fault.reason:
        print(f"noticed, though the list says why not, by {found}: {fault}", flush=True)
    elif found:
        print(f"noticed by {found}{'' if found == fault.test else ' (not noted)'}: {fault}", flush=True)
    else:
        print(f"{'explained' if fault.reason else 'SURVIVED'}: {fault}", flush=True)
    return "noticed" if found else "explained" if fault.reason else "survived"


def main(arguments: Sequence[str]) -> int:
    """Plant all faults, or those with the words given; return the exit status."""
    parser = argparse.ArgumentParser(description="Plant faults in the compiler; the tests must notice.")
    parser.add_argument("words", nargs="*", help="parts of the file or text of a fault; all by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many at a time")
    parser.add_argument("--quick", action="store_true", help="run the noted tests alone")
    parser.add_argument("--explained", action="store_true", help="plant those that no test can notice, too")
    parser.add_argument("--list", action="store_true", help="show the faults and plant none")
    options = parser.parse_args(arguments)
    known = [fault for path in sorted(LIST.glob("*.txt")) for fault in read(path.read_text())]
    chosen = [f for f in known if not options.words or any(w in f.file + f.right for w in options.words)]
    if options.list:
        print("\n".join(map(str, chosen)))
        return 0
    started = time.perf_counter()
    tried = [f for f in chosen if options.explained or not f.reason]
    with tempfile.TemporaryDirectory() as directory:
        trees = Trees(Path(directory), options.jobs)
        noted = sorted({f.test for f in tried if f.test})
        wrong = failing(trees.sound, noted) if noted else None
        if wrong:
            print(f"BROKEN without any fault: {wrong}")
            return 1
        with ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(lambda fault: outcome(fault, trees, options.quick), tried))
    results += ["explained"] * (len(chosen) - len(tried))
    return report(results, time.perf_counter() - started)


def report(results: Sequence[str], seconds: float) -> int:
    """Print what became of all faults; return the exit status."""
    noticed, explained, survived = (results.count(r) for r in ("noticed", "explained", "survived"))
    rate = 100 * noticed / (noticed + survived) if noticed + survived else 100.0
    print(
        f"{len(results)} faults: {noticed} noticed, {explained} explained, {survived} survived: "
        f"kill rate {rate:.1f}% in {seconds:.0f} s"
    )
    return 1 if survived or "not found" in results else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
