"""Random programs on complex numbers, compiled and eager: values, batches, gradients and tangents.

``EVERYO_FUZZ=2000`` draws that many new programs instead of the same few.
"""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import everyo as eo
from tests.compiling import agree, array

NEW = int(os.environ.get("EVERYO_FUZZ", "0"))
STEPS = [
    "{0} * {1}", "{0} + {1}", "{0} - {1}.conj()", "{0} / ({1} + 3)", "eo.exp({0})", "eo.log({0} + 3)",
    "eo.sqrt({0} + 3)", "eo.sin({0})", "eo.cosh({0})", "{0}.real * {1}", "{0}.imag + 1j * {1}.real",
    "eo.abs({0}) * {1}", "eo.angle({0} + 2) * {1}", "eo.where({0}.real > {1}.imag, {0}, {1} * 2)",
    "{0} ** 3", "({0} + 3) ** -2", "-1j * {0}", "{0}[::-1]", "{0}.T @ {1}", "eo.roll({0}, 1, axis=0)",
    "{0} - eo.mean({0}, axis=0)", "eo.sum({0}, axis=-1, keepdims=True) * {1}", "eo.cumsum({0}, axis=0)",
    "eo.reshape({0}, (-1,))[3] * {1}", "eo.fft.fft({0}) / 4", "eo.stop_gradient({0}) + {1}",
    "eo.concat([{0}[1:], {1}[:1]], axis=0)", "eo.transpose({0}).reshape({0}.shape) * {1}",
    "eo.scan(lambda s, x: (s * x / 2 + 1j, s), {0}[0], {1})[1]", "eo.square({0}) + eo.sign({1} + 3)",
    "eo.cond(eo.real({0}).sum() > 0, lambda x, y: x * y, lambda x, y: x - y, {0}, {1})",
]  # fmt: skip


@st.composite
def programs(draw):
    """Draw a function of two complex matrices, and its arguments."""
    step = st.tuples(st.sampled_from(STEPS), st.integers(1, 3), st.integers(1, 4))
    steps = draw(st.lists(step, min_size=1, max_size=8))
    n, dtype = draw(st.sampled_from([2, 5, 24])), draw(st.sampled_from(["complex64", "complex128"]))

    def run(x, y):
        values = [x, y]
        for text, i, j in steps:
            names = [values[-min(k, len(values))] for k in (i, j)]
            value = eval(text.format("a", "b"), {"eo": eo, "a": names[0], "b": names[1]})
            values.append(value / (1 + eo.abs(value)))
        return (*values[2:], eo.sum(values[-1]))

    run.text = str(steps)
    seeds = draw(st.lists(st.integers(0, 9), min_size=2, max_size=2))
    return run, [
        eo.asarray((array(n, n, seed=s) + 1j * array(n, n, seed=s + 10)).astype(dtype)) for s in seeds
    ]


@pytest.mark.timeout(0 if NEW else 120)
@settings(max_examples=NEW or 12, derandomize=not NEW, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs(program):
    f, arguments = program
    tol = 1e-9 if arguments[0].dtype == np.complex128 else 2e-2

    def loss(*arguments):
        return sum(eo.sum(eo.real(v) * 0.7 + eo.imag(v)) for v in f(*arguments))

    checks = [f, eo.vmap(f, in_axes=(0, None)), eo.grad(loss, argnums=(0, 1))]
    batched = eo.stack([arguments[0], arguments[1]])
    directions = [x * 1j for x in arguments]
    with np.errstate(all="ignore"):
        for check, given_to in zip(checks, (arguments, [batched, arguments[1]], arguments), strict=True):
            agree(eo.compile(check)(*given_to), check(*given_to), f.text, scale=1.0, tol=tol)
        pushed = lambda *x: eo.jvp(f, x, directions)[1]  # noqa: E731
        agree(eo.compile(pushed)(*arguments), pushed(*arguments), f.text, scale=1.0, tol=tol)
