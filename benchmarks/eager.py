"""Eager execution against PyTorch, autograd and MyGrad: ``python -m benchmarks.eager``."""

from __future__ import annotations

import sys

from . import chains, loops, memory, networks, startup, transformations
from .runner import main

ROWS = [
    *chains.ROWS,
    *networks.ROWS,
    *transformations.ROWS,
    *loops.ROWS,
    *memory.ROWS,
    *startup.ROWS,
]

if __name__ == "__main__":
    sys.exit(main("benchmarks.eager", "Eager benchmarks", ROWS))
