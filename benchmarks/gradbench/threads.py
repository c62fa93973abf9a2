"""One thread for a whole process: to be asked for before NumPy is imported."""

from __future__ import annotations

import os

VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "EVERYO_NUM_THREADS",
)


def use_one_thread() -> None:
    """Hold this process to one thread, and to one core where the system can do that."""
    os.environ.update(dict.fromkeys(VARIABLES, "1"))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
