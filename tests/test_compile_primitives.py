"""Compiled against eager: every primitive on its samples, values and derivatives in one program each."""

import functools
import warnings

import numpy as np
import pytest

import everyo as eo
from everyo.core.registry import primitives
from everyo.core.tensor import wrap
from everyo.errors import CompileError, EveryOError
from everyo.testing.primitives import Call
from tests.compiling import agree, misses

PRIMITIVES = primitives()
DATA_DEPENDENT = [name for name, p in PRIMITIVES.items() if p.options.get("shaped_by_values")]
SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, 1e300, -1e-310]

# In the scope of the module: the tests of a primitive run one after the other, and may share a program.
every_primitive = pytest.mark.parametrize(
    "name", sorted(set(PRIMITIVES) - set(DATA_DEPENDENT)), scope="module"
)


class Job:
    """One call of a primitive on arrays, as a function of those that are no Python numbers.

    `kind` is "value", "vjp" or "jvp" (with the value); directions are functions of the inputs and results.
    """

    def __init__(self, call, kind):
        self.call, self.kind = call, kind
        self.places = [i for i, x in enumerate(call.arrays) if isinstance(x, np.ndarray)]
        self.arrays = [call.arrays[i] for i in self.places]

    def __str__(self):
        return f"{self.kind} of {self.call}"

    def __call__(self, tensors):
        inputs = list(self.call.arrays)
        for i, x in zip(self.places, tensors, strict=True):
            inputs[i] = x
        points = [inputs[i] for i in self.call.wrt]

        def function(*moved):
            given = list(inputs)
            for i, x in zip(self.call.wrt, moved, strict=True):
                given[i] = x
            return self.call.primitive(*given, **self.call.params)

        if self.kind == "value":
            return function(*points)
        if self.kind == "jvp":
            return eo.jvp(function, points, [direction(x, 0.5) for x in points])
        out, back = eo.vjp(function, *points)
        return back(tuple(direction(x, 1.5) for x in out) if isinstance(out, tuple) else direction(out, 1.5))


def direction(x, phase):
    """Return a direction that depends on the place alone, so that NaN in `x` stays where it is."""
    ramp = np.cos(np.arange(x.size, dtype=np.float64) + phase).reshape(x.shape)
    return wrap(np.asarray(ramp, x.dtype))


def jobs_of(primitive, arrays_of_call, dtype, derivatives=True, most=None):
    """Return the jobs of a primitive that eager code does not refuse, with what it returns."""
    jobs = []
    for sample in primitive.samples()[:most]:
        call = Call(primitive, sample, dtype)
        call.arrays = arrays_of_call(call)
        try:
            value = eager(Job(call, "value"))
        except (EveryOError, TypeError, ValueError):
            continue
        if derivatives and call.wrt:
            jobs += [(job, eager(job)) for job in (Job(call, "vjp"), Job(call, "jvp"))]
        else:
            jobs.append((Job(call, "value"), value))
    return jobs


def eager(job):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return job([wrap(a.copy()) for a in job.arrays])


@functools.lru_cache(maxsize=4)  # test_samples leaves one for each dtype
def program_of(kinds):
    """Return a compiled function of jobs and of the arrays of each, for jobs that are all the same calls."""
    jobs = []

    def program(inputs):
        return [job(tensors) for job, tensors in zip(jobs, inputs, strict=True)]

    compiled = eo.compile(program)

    def run(given):
        jobs[:] = given
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compiled([[wrap(a) for a in job.arrays] for job in given])

    return run, compiled


def check(jobs, dtype):
    """Compile all jobs into one program and compare its results with the eager ones.

    The same jobs on other values run the same program.
    """
    if not jobs:
        return
    alone = [job for job, _ in jobs]
    run, compiled = program_of((dtype, *map(str, alone)))
    for (job, wanted), result in zip(jobs, run(alone), strict=True):
        agree(result, wanted, str(job))
    assert misses(compiled) == 1


@every_primitive
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
def test_samples(name, dtype):
    few = dtype in ("float32", "complex64")  # each shape and parameter is seen in the wide dtypes
    check(jobs_of(PRIMITIVES[name], lambda call: call.arrays, dtype, most=3 if few else None), dtype)


@every_primitive
def test_special_values(name):
    """NaN, infinities, zeros of both signs, huge and subnormal numbers among the elements."""

    def arrays(call):
        return [special(x, i) if isinstance(x, np.ndarray) else x for i, x in enumerate(call.arrays)]

    def special(x, i):
        if x.dtype.kind != "f":
            return x
        x = x.copy()
        flat = x.reshape(-1)
        for place in range(0, x.size, 2):
            flat[place] = SPECIAL[(place // 2 + 3 * i) % len(SPECIAL)]
        return x

    check(jobs_of(PRIMITIVES[name], arrays, "float64"), "float64")


@every_primitive
def test_integers(name):
    """Whatever takes integers and booleans instead of floats gives what it gives eagerly."""
    jobs, most = [], 4 if PRIMITIVES[name].family == "elementwise" else None
    for dtype in ("int64", "int32", "uint8", "bool"):

        def arrays(call, dtype=dtype):
            return [
                np.rint(2 * x).astype(np.int64).astype(dtype)
                if isinstance(x, np.ndarray) and x.dtype.kind == "f"
                else x
                for x in call.arrays
            ]

        jobs += jobs_of(PRIMITIVES[name], arrays, "float64", derivatives=False, most=most)
    check(jobs, "integers")


@pytest.mark.parametrize("name", DATA_DEPENDENT)
def test_shapes_that_depend_on_values(name):
    for sample in PRIMITIVES[name].samples():
        call = Call(PRIMITIVES[name], sample, "float64")
        with pytest.raises(CompileError, match=f"{name}: the shape of the result depends on values"):
            eo.compile(functools.partial(call.primitive, **call.params))(*map(wrap, call.arrays))
