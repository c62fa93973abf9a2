"""Compiled functions against JAX, PyTorch and C++: ``python -m benchmarks.compiled``."""

from __future__ import annotations

import sys

from ..runner import main
from . import cells, eager, rows
from .plots import draw

PACKAGES = ("everyo", "jax", "jaxlib", "torch", "numpy", "scipy", "llvmlite")
NOTES = """\
EveryO's functions are compiled by `eo.compile`, JAX's by `jax.jit`; PyTorch runs eagerly, and so does
EveryO in "Eager code on large arrays". All of them have one thread, and the process is held to one core.
JAX's results are waited for. The scientific programs and the problems of GradBench are in float64, training
is in float32. A scientific program is one text for all three libraries (`benchmarks/compiled/science.py`);
where a library has a function of its own for a part (a Cholesky factor, attention, layer norm), it uses that.

"C++" is the hand-written code of GradBench, with the times that are recorded for it: they were taken on
another machine, so the ratio to them is rougher than the others.

A first call traces, compiles and runs; EveryO's cache on disk is switched off, and the libraries have
compiled something before. Peak memory is that of a call that is already compiled, above its arguments;
what is below 1 MiB counts as 1 MiB."""

if __name__ == "__main__":
    sys.exit(
        main(
            "benchmarks.compiled",
            "Compiled benchmarks",
            [*rows.ROWS, *eager.ROWS, *cells.ROWS],
            packages=PACKAGES,
            notes=NOTES,
            draw=draw,
        )
    )
