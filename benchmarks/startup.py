"""The cost of the import statement, in fresh processes."""

from __future__ import annotations

import os
import random
import subprocess
import sys

from .harness import SEED, Budget, Measurement, Row, Settings
from .libraries import is_absent

SECTION = "Import"
LIBRARIES = ("everyo", "numpy", "torch", "autograd", "mygrad")
_CODE = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def import_seconds(library: str) -> float:
    """Import a library in a new process and return the time of the statement alone."""
    command = [sys.executable, "-c", _CODE.format(library)]
    # An installed package has its bytecode, whatever the shell says about writing it.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return float(done.stdout)


def imports(settings: Settings) -> list[Measurement]:
    """Measure all libraries in turns, in a shuffled order."""
    found = Measurement(
        "import statement",
        "s",
        "a fresh process for each value, interpreter start not counted, bytecode cached",
        budgets=[Budget(1.3, "numpy")],
    )
    for library in LIBRARIES:
        if is_absent(library):
            found.failures[library] = "absent"
            continue
        try:
            import_seconds(library)  # writes the bytecode and fills the file cache
            found.samples[library] = []
        except RuntimeError as error:
            found.failures[library] = str(error)
    order = list(found.samples)
    shuffle = random.Random(SEED).shuffle
    for _ in range(settings.rounds):
        shuffle(order)
        for library in order:
            found.samples[library].append(import_seconds(library))
    return [found]


ROWS = [Row("import", SECTION, imports)]
