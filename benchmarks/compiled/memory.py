"""One memory probe: ``python -m benchmarks.compiled.memory KIND NAME [--quick] LIBRARY``."""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from ..gradbench.cases import cases
from ..memory import peak, reset_peak, resident
from .cells import derivative, row_name
from .libraries import load_one
from .networks import NETWORKS, Network, parts_of_everyo
from .rows import call
from .science import PROGRAMS
from .training import trainer

LEAST = 2**20  # bytes: what is smaller drowns in the allocators' own noise


def probe(run: Callable[[], Any]) -> dict[str, float]:
    """Return the peak of two calls above what there is before them, after one that compiles.

    What a compiled function keeps between calls is dropped before, so that it counts.
    """
    run()
    _drop_arenas()
    gc.collect()
    start = resident()
    reset_peak()
    run()
    run()
    return {"peak": max(peak() - start, LEAST)}


def _drop_arenas() -> None:
    from everyo.compiler.program import Program

    for found in gc.get_objects():
        if isinstance(found, Program):
            found._arenas.clear()


def _weights(network: Network) -> list[np.ndarray]:
    """Return weights for JAX, of the shapes that EveryO's module has."""
    import everyo as eo

    module = network.module(eo, parts_of_everyo())
    return [np.array(parameter.detach().numpy()) for parameter in module.parameters()]


def main() -> None:
    """Run the probe of the command line and print a record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["science", "training", "gradbench"])
    parser.add_argument("name")
    parser.add_argument("library")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    library = load_one(options.library)
    if options.kind == "science":
        program = next(program for program in PROGRAMS if program.name == options.name)
        run = call(library, program, True, options.quick)
    elif options.kind == "gradbench":
        problem = next(problem for problem in cases() if row_name(problem) == options.name)
        run = derivative(problem, options.library)
    else:
        network = next(network for network in NETWORKS if network.name == options.name)
        run = trainer(options.library, network, None if options.library != "jax" else _weights(network)).step
    print(json.dumps(probe(run)))


if __name__ == "__main__":
    main()
