"""``python -m benchmarks.gradbench``: a tool for GradBench on standard input and output."""

from __future__ import annotations

import argparse
import sys

from .threads import use_one_thread


def main() -> None:
    """Answer messages until the input ends."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gradbench", description=__doc__)
    parser.add_argument("--eager", action="store_true", help="run the functions without eo.compile")
    parser.add_argument("--multithreaded", action="store_true", help="use all cores instead of one")
    options = parser.parse_args()
    if not options.multithreaded:
        use_one_thread()
    from .tool import Tool  # imports NumPy, whose number of threads is fixed by then

    Tool(options.eager).serve(sys.stdin, sys.stdout)


if __name__ == "__main__":
    main()
