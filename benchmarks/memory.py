"""Memory, measured in a process of its own for each library and value (Linux only).

The figures are resident memory as the kernel counts it: it includes what any allocator holds, in
whatever language. The C allocator is told to give freed blocks back at once, so that what is resident
is what is in use.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from .harness import SEED, SUBJECT, Budget, Measurement, Row, Settings
from .libraries import is_absent, load
from .networks import mlp_trainer

NETWORK = "Memory"
CHAIN = "A chain of 1,000,000 operations"
CHECKPOINTED = "A checkpointed chain of n equal steps"

MLP_BATCH = 8192
OPERATIONS = 1_000_000
LENGTHS = (100, 400, 1600)
STATE = 2**18  # elements, a mebibyte of float32
GROWTH_LIMIT = 2.2  # of the peak, from one length to the next: the square root of 4 is 2
_ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": "65536",  # a fixed threshold: large blocks are unmapped when freed
    "MALLOC_ARENA_MAX": "1",
    "NUMPY_MADVISE_HUGEPAGE": "0",  # huge pages would round every array up to 2 MiB
}


# Inside a probe's process


def _status(key: str) -> int:
    """Return a line of /proc/self/status in bytes."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(rf"^{key}:\s+(\d+) kB", text, re.MULTILINE)[1]) * 1024


def resident() -> int:
    """Return the resident memory in bytes, after the C allocator gave back what it holds free."""
    ctypes.CDLL(None).malloc_trim(0)
    return _status("VmRSS")


def reset_peak() -> None:
    """Set the kernel's record of the peak to the present value."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """Return the largest resident memory since `reset_peak`, in bytes."""
    return _status("VmHWM")


def _adapter(library: str):
    """Load one library with a single thread."""
    adapters, failures = load([library])
    if failures:
        raise SystemExit(failures[library])
    return adapters[library]


def probe_step(library: str, batch: int) -> dict[str, float]:
    """Return what a training step needs on top of the model and its data, in bytes.

    Two steps warm up, so that code, thread stacks and BLAS buffers are already there; then the
    gradients are dropped, and the peak of three more steps is taken.
    """
    if library != "numpy":
        _adapter(library)
    trainer = mlp_trainer(library, batch)
    trainer.step()
    trainer.step()
    trainer.clear()
    gc.collect()
    start = resident()
    reset_peak()
    for _ in range(3):
        trainer.step()
    return {"peak": peak() - start}


def multiplies(x, w, operations: int):
    """Return a chain that has to save every intermediate value."""
    for _ in range(operations):
        x = x * w
    return x.sum()


def additions(x, w, operations: int):
    """Return a chain that has to save nothing."""
    for _ in range(operations):
        x = x + w
    return x.sum()


def probe_chain(library: str, chain: str, operations: int) -> dict[str, float]:
    """Return times and memory of a long chain, by operation.

    The first pass takes the times with the garbage collector as it is by default. The second takes
    the memory, and the third frees a graph that no backward pass has consumed; in both the collector
    is off, so what comes back does so by reference counting alone.
    """
    adapter = _adapter(library)
    build = {"multiply": multiplies, "add": additions}[chain]
    x = adapter.leaf(np.array([0.5, 1.0, 1.5, 2.0], np.float32), True)
    w = adapter.leaf(np.full(4, 1e-7 if chain == "add" else 1 + 1e-7, np.float32), True)

    def timed(work: Callable[[], object]) -> tuple[object, float]:
        start = time.perf_counter()
        result = work()
        return result, (time.perf_counter() - start) / operations

    build(x, w, 1000).backward()  # code and caches that stay
    loss, forward_seconds = timed(lambda: build(x, w, operations))
    _, backward_seconds = timed(loss.backward)
    del loss, _
    adapter.clear(x)
    adapter.clear(w)
    gc.collect()
    gc.disable()

    _ballast = build(x, w, 20_000)  # fills what the passes above left free: all that follows is new memory
    start = resident()
    loss = build(x, w, operations)
    held = resident() - start
    reset_peak()
    loss.backward()
    above = max(0, peak() - start - held)
    del loss
    left = max(0, resident() - start)

    holder = [build(x, w, operations)]
    _, free_seconds = timed(holder.clear)
    left = max(left, resident() - start)
    return {
        "forward": forward_seconds,
        "backward": backward_seconds,
        "free": free_seconds,
        "held": held / operations,
        "above": above / operations,
        "left": left / held * 100,
    }


def probe_checkpoint(library: str, length: int, checkpointed: bool) -> dict[str, float]:
    """Return the peak of forward and backward through a chain of equal steps, above its input, in bytes."""
    adapter = _adapter(library)
    x = adapter.leaf(np.linspace(-1.0, 1.0, STATE, dtype=np.float32), True)

    def step(x):
        return adapter.functions.tanh(x * 1.01 + 0.01)

    def run(count: int) -> None:
        steps = [step] * count
        y = x
        if checkpointed:
            y = _checkpointed(library, steps)(x)
        else:
            for block in steps:
                y = block(y)
        y.sum().backward()
        adapter.clear(x)

    run(4)  # code and buffers that stay
    gc.collect()
    start = resident()
    reset_peak()
    run(length)
    return {"peak": peak() - start}


def _checkpointed(library: str, steps: Sequence[Callable]) -> Callable:
    """Return the composition of steps, cut into about sqrt(n) segments by the library's own function."""
    if library == SUBJECT:
        import everyo as eo

        return eo.checkpoint_sequential(steps)
    from torch.utils.checkpoint import checkpoint_sequential

    segments = round(len(steps) ** 0.5)
    return lambda x: checkpoint_sequential(steps, segments, x, use_reentrant=False)


# In the process that asks


def run_probe(*arguments: str, module: str = "benchmarks.memory") -> dict[str, float]:
    """Run a module's probe in a new process and return its figures."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **_ALLOCATOR}
    )
    if done.returncode < 0:
        raise RuntimeError(f"killed by signal {-done.returncode}")
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1])


def collect(
    libraries: Sequence[str],
    arguments: Callable[[str], Sequence[str]],
    rounds: int,
    module: str = "benchmarks.memory",
) -> tuple[dict[str, list[dict[str, float]]], dict[str, str]]:
    """Run a probe for each library in turns.

    Returns
    -------
    figures : dict of str to list of dict
        By library, one record a round.
    failures : dict of str to str
        Libraries without figures, and why.
    """
    failures = {name: "absent" for name in libraries if is_absent(name)}
    order = [name for name in libraries if name not in failures]
    figures: dict[str, list[dict[str, float]]] = {name: [] for name in order}
    shuffle = random.Random(SEED).shuffle
    for _ in range(rounds):
        shuffle(order)
        for name in list(order):
            try:
                figures[name].append(run_probe(*arguments(name), module=module))
            except RuntimeError as error:
                failures[name] = str(error)
                order.remove(name)
                del figures[name]
    return figures, failures


def step_memory(settings: Settings) -> list[Measurement]:
    """Measure the peak of the MLP's training step."""
    libraries = ("everyo", "torch", "autograd", "numpy")
    figures, failures = collect(
        libraries, lambda name: ("step", name, "--batch", str(MLP_BATCH)), min(settings.rounds, 5)
    )
    return [
        Measurement(
            f"MLP 784-256-10 training step, batch {MLP_BATCH:,}: peak above model and data",
            "B",
            f"x ({MLP_BATCH}, 784), float32; the largest of three steps after two",
            {name: [record["peak"] for record in records] for name, records in figures.items()},
            budgets=[Budget(1.1, "torch")],
            failures=failures,
        )
    ]


def long_chain(chain: str, settings: Settings) -> list[Measurement]:
    """Measure time, memory and release of a very long chain."""
    operations = OPERATIONS // 20 if settings.quick else OPERATIONS
    libraries, rounds = (SUBJECT, "torch"), min(settings.rounds, 3)
    detail = f"{operations:,} operations on (4,), float32; gradients of both operands"

    def probe(count: int):
        return collect(
            libraries, lambda name: ("chain", name, "--chain", chain, "--operations", str(count)), rounds
        )

    figures, failures = probe(operations)
    tenth, _ = probe(operations // 10)

    def line(title: str, unit: str, key: str, *budgets: Budget) -> Measurement:
        samples = {name: [record[key] for record in found] for name, found in figures.items()}
        return Measurement(f"{chain}: {title}", unit, detail, samples, {}, [*budgets], dict(failures))

    linear = line("bytes an operation, relative to a chain a tenth as long", "x", "held", Budget(1.1))
    for name in list(linear.samples):
        base = statistics.median(record["held"] for record in tenth[name])
        linear.samples[name] = [value / base for value in linear.samples[name]]
    return [
        line("forward, an operation", "s", "forward"),
        line("backward, an operation", "s", "backward"),
        line("freeing a graph without backward, an operation", "s", "free"),
        line("memory held by the graph, an operation", "B", "held"),
        linear,
        line("peak of backward above the graph, an operation", "B", "above"),
        line("left once freed, collector off, of what was held", "%", "left", Budget(5.0)),
    ]


def checkpoint_memory(settings: Settings) -> list[Measurement]:
    """Measure how the peak of a checkpointed chain grows with its length."""
    libraries, rounds = (SUBJECT, "torch"), min(settings.rounds, 3)
    lengths = LENGTHS[:2] if settings.quick else LENGTHS

    def peaks(length: int, plain: bool = False) -> Measurement:
        extra = ["--plain"] if plain else []
        figures, failures = collect(
            libraries,
            lambda name: ("checkpoint", name, "--operations", str(length), *extra),
            1 if plain else rounds,
        )
        return Measurement(
            f"n = {length:,}: peak above the input" + (", not checkpointed" if plain else ""),
            "B",
            f"n times tanh(1.01 x + 0.01), x ({STATE},), float32; forward and backward",
            {name: [record["peak"] for record in records] for name, records in figures.items()},
            failures=failures,
        )

    lines = [peaks(length) for length in lengths]
    growth = [
        Measurement(
            f"growth of the peak from n = {low:,} to {high:,} (a square root grows by 2)",
            "x",
            "ratio of two lines above",
            {
                name: [b / a for a, b in zip(below.samples[name], above.samples[name], strict=True)]
                for name in below.samples
            },
            budgets=[Budget(GROWTH_LIMIT)],
            failures=above.failures,
        )
        for low, high, below, above in zip(lengths, lengths[1:], lines, lines[1:])
    ]
    return [peaks(lengths[0], plain=True), *lines, *growth]


def _chain_row(chain: str) -> Row:
    return Row(f"long-chain-{chain}", CHAIN, lambda settings: long_chain(chain, settings))


ROWS = [
    Row("memory-step", NETWORK, step_memory),
    _chain_row("multiply"),
    _chain_row("add"),
    Row("memory-checkpoint", CHECKPOINTED, checkpoint_memory),
]


def _main() -> None:
    parser = argparse.ArgumentParser(description="One memory probe; prints a JSON record.")
    parser.add_argument("probe", choices=["step", "chain", "checkpoint"])
    parser.add_argument("library")
    parser.add_argument("--batch", type=int, default=MLP_BATCH)
    parser.add_argument("--chain", choices=["multiply", "add"], default="multiply")
    parser.add_argument("--operations", type=int, default=OPERATIONS)
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    if options.probe == "step":
        record = probe_step(options.library, options.batch)
    elif options.probe == "chain":
        record = probe_chain(options.library, options.chain, options.operations)
    else:
        record = probe_checkpoint(options.library, options.operations, not options.plain)
    print(json.dumps(record))


if __name__ == "__main__":
    _main()
