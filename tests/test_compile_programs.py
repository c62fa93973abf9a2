"""Compiled against eager on random programs: values, gradients and batches.

``EVERYO_FUZZ=2000`` draws that many new programs instead of the same few.
"""

import os
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import everyo as eo
from tests.compiling import agree
from tests.random_programs import programs

NEW = int(os.environ.get("EVERYO_FUZZ", "0"))
ROUNDING = {"float64": 1e-9, "float32": 1e-3}  # of the largest element, or of 1 if that is larger


def checked(f, arguments, dtype):
    """Compare a compiled function with the eager one."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = f(*map(eo.asarray, arguments))
        found = eo.compile(f)(*map(eo.asarray, arguments))
    agree(found, wanted, scale=1.0, tol=ROUNDING[dtype])


def loss(f):
    """Return a scalar function of all float results."""

    def total(*arguments):
        parts = [x for x in f(*arguments) if x.dtype.kind == "f"]
        return sum(((p * np.cos(np.arange(p.size) + 1.0).reshape(p.shape)).sum() for p in parts), start=0.0)

    return total


def moving(arguments):
    return tuple(i for i, a in enumerate(arguments) if a.dtype.kind == "f")


def batches(arguments):
    """Return arguments with a batch of three in front."""
    return [np.stack([a, a[..., ::-1] if a.ndim else a * 2, a]) for a in arguments]


@pytest.mark.timeout(0 if NEW else 120)
@settings(
    max_examples=NEW or 60,
    derandomize=not NEW,
    print_blob=bool(NEW),
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
@given(programs())
def test_random_programs(program):
    check(program)


def check(program):
    f, arguments = program.function, program.arguments
    dtype = "float32" if program.is_single else "float64"
    checked(f, arguments, dtype)
    gradients = eo.grad(loss(f), argnums=moving(arguments))
    if any(x.dtype.kind == "f" for x in f(*map(eo.asarray, arguments))):
        checked(gradients, arguments, dtype)
    checked(eo.vmap(f), batches(arguments), dtype)
