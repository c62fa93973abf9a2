"""Run the public test suite of the Python Array API standard on everyo, and print its summary line.

    python tools/array_api_tests.py PATH/TO/array-api-tests --max-examples 100

The suite (data-apis/array-api-tests) is not part of this repository: the script takes the path of a checkout,
with its submodule. ``--python`` names an interpreter that has the suite's requirements and everyo's. Other
arguments go to pytest, such as ``-n 2`` or ``-k test_sum``. The tests that are expected to fail are listed,
with reasons, in `array_api_exceptions.txt` beside this file.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXCEPTIONS = Path(__file__).with_name("array_api_exceptions.txt")


def command(python: str, arguments: list[str]) -> list[str]:
    """Return the command that runs the suite in its checkout; paths to test files replace all of them."""
    chosen = any(argument.startswith("array_api_tests") for argument in arguments)
    return [
        python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--disable-deadline",
        f"--xfails-file={EXCEPTIONS}", *arguments, *([] if chosen else ["array_api_tests"]),
    ]  # fmt: skip


def run(checkout: Path, python: str, arguments: list[str]) -> int:
    """Run the suite, show what it prints, and repeat its summary line; return its exit status."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "ARRAY_API_TESTS_MODULE": "everyo", "PYTHONPATH": path}
    process = subprocess.Popen(
        command(python, arguments), cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True
    )
    last = ""
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        last = line.strip() or last
    print(f"\narray-api-tests on everyo: {last}")
    return process.wait()


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="a clone of data-apis/array-api-tests")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has its requirements")
    known, rest = parser.parse_known_args()
    if not any((known.checkout / "array-api").glob("*")):
        parser.error(f"{known.checkout} is no checkout with its submodule: git submodule update --init")
    return run(known.checkout, known.python, rest)


if __name__ == "__main__":
    sys.exit(main())
