"""SciPy and scikit-learn, with their dispatch switched on, compute on tensors and differentiate."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

PROGRAM = pathlib.Path(__file__).with_name("array_api_programs.py")


def test_functions_of_other_libraries_differentiate():
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    command = [sys.executable, "-W", "ignore", str(PROGRAM)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 19
    for name, (value, slope) in found.items():
        assert value < 1e-13, name
        assert slope < 1e-8, name
