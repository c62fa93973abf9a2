"""Transformations of functions: nested derivatives of small functions, and the cost of a product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from .functional import Build, case
from .harness import Budget, Measurement, Row, Settings, check_agreement, compare, interleave
from .libraries import load

SMALL = "Transformations of small functions: time a call"
COST = "Transformations against the function itself"

ALL = ("everyo", "torch", "autograd")
SMALL_BUDGETS = (Budget(0.6, "torch"),)
TOLERANCES = {"float64": 1e-8, "float32": 1e-4}

BATCH = 32
WIDTH, LAYERS = 100, 4
ELEMENTS = 100_000


# The functions; they are differentiated with respect to their first argument.


def chain(fn, x):
    """Return a number after 40 operations on a number."""
    for _ in range(10):
        x = fn.tanh(x * 1.1 + 0.2) * 0.9
    return x


def energy(fn, x, matrix):
    """Return a number for a vector."""
    y = fn.tanh(matrix @ x)
    return (y * y * fn.exp(-x)).sum() + fn.sin(x).sum()


def field(fn, x, matrix):
    """Return a vector for a vector of its length."""
    return fn.tanh(matrix @ x) * fn.exp(-x) + x * x


def loss(fn, weights, example):
    """Return the loss of one example."""
    error = fn.tanh(example * weights).sum() - 1.0
    return error * error


def elementwise(fn, x):
    """Return an array after eight elementwise operations on an array."""
    y = fn.tanh(x * 1.1 + 0.2)
    return fn.exp(-(y * y)) * fn.sin(x) - y


def network(fn, x, *parameters):
    """Return the output of a network; its parameters are a matrix and a vector for each layer."""
    for matrix, bias in zip(parameters[:-2:2], parameters[1:-2:2]):
        x = fn.tanh(matrix @ x + bias)
    return parameters[-2] @ x + parameters[-1]


# The work: ``build(t, fn, *inputs)`` returns a function without arguments. `t` has the library's
# transformations, `fn` its elementary functions.


def _transformed(transform, function) -> Build:
    """Return the work of ``transform(t, function)`` called on the inputs."""

    def build(t, fn, *inputs):
        new = transform(t, partial(function, fn))
        return lambda: new(*inputs)

    return build


def _hvp(function) -> Build:
    """Return the work of a Hessian-vector product; the inputs are point, vector and constants."""

    def build(t, fn, x, v, *constants):
        return lambda: t.hvp(lambda x: function(fn, x, *constants), x, v)

    return build


def _jvp(function) -> Build:
    def build(t, fn, x, v, *constants):
        return lambda: t.jvp(lambda x: function(fn, x, *constants), x, v)

    return build


def _grad_of_jvp(t, fn, x, v, matrix):
    gradient = t.grad(lambda x: t.jvp(lambda x: energy(fn, x, matrix), x, v)[1])
    return lambda: gradient(x)


def _alone(transform, function) -> Build:
    """Return the work of `_transformed` on inputs that also hold a vector, second, which it does not need."""

    def build(t, fn, x, v, *constants):
        new = transform(t, partial(function, fn))
        return lambda: new(x, *constants)

    return build


def _loop_of_vjps(t, fn, x, *parameters):
    """Return the work of a Jacobian of the network, a row at a time."""
    units = t.units(x)

    def run():
        _, pullback = t.vjp(lambda x: network(fn, x, *parameters), x)
        return t.stack([pullback(unit)[0] for unit in units])

    return run


# Rows


def small(
    title: str, build: Build, arrays: Sequence[np.ndarray], libraries: Sequence[str], settings: Settings
) -> list[Measurement]:
    """Measure a transformed function of a few numbers in every library that has the transformation."""
    adapters, failures = load(libraries, settings.threads)
    builders = {name: partial(case, name, adapter, build, arrays) for name, adapter in adapters.items()}
    return [
        compare(
            title,
            builders,
            settings,
            detail=_inputs(arrays),
            budgets=SMALL_BUDGETS,
            failures=failures,
            tolerance=TOLERANCES[arrays[0].dtype.name],
        )
    ]


def _inputs(arrays: Sequence[np.ndarray]) -> str:
    shapes = dict.fromkeys(str(array.shape) for array in arrays)
    return f"inputs {', '.join(shapes)}, {arrays[0].dtype}"


def cost(
    names: tuple[str, str],
    builds: tuple[Build, Build],
    arrays: Sequence[np.ndarray],
    limit: float | None,
    libraries: Sequence[str],
    settings: Settings,
) -> list[Measurement]:
    """Measure two pieces of work in alternation, and how much dearer the first one is.

    Parameters
    ----------
    names : tuple of str
        What the two are called.
    builds : tuple of callable
        The work, as for `benchmarks.functional.case`.
    arrays : sequence of ndarray
        The inputs of both.
    limit : float or None
        The largest ratio that is promised; None if the row only reports.
    libraries : sequence of str
        Which ones.
    settings : Settings
        How thoroughly to measure.
    """
    adapters, failures = load(libraries, settings.threads)
    lines = [Measurement(name, "s", _inputs(arrays), failures=failures) for name in names]
    runs: dict[tuple[int, str], Callable[[], object]] = {}
    for which, build in enumerate(builds):
        cases = {name: case(name, adapter, build, arrays) for name, adapter in adapters.items()}
        results = {name: case.check() for name, case in cases.items()}
        check_agreement(results, TOLERANCES[arrays[0].dtype.name])
        runs.update({(which, name): case.run for name, case in cases.items()})
    samples, calls = interleave(runs, settings)
    for (which, name), values in samples.items():
        lines[which].samples[name] = values
        lines[which].calls[name] = calls[which, name]
    above, below = lines
    ratio = Measurement(
        f"{names[0]}, relative to {names[1]}",
        "x",
        "ratio of the two lines above",
        {name: [a / b for a, b in zip(above.samples[name], below.samples[name])] for name in adapters},
        budgets=[] if limit is None else [Budget(limit)],
        failures=failures,
    )
    return [*lines, ratio]


def _normal(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Return random arrays; matrices are scaled so that products keep the size of vectors."""
    rng = np.random.default_rng(4)
    return [rng.standard_normal(shape) / (np.sqrt(shape[1]) if len(shape) == 2 else 1.0) for shape in shapes]


def _small_row(name: str, title: str, build: Build, arrays, libraries: Sequence[str] = ALL) -> Row:
    return Row(name, SMALL, partial(small, title, build, arrays, libraries))


_X, _V, _MATRIX = _normal((10,), (10,), (10, 10))
_LARGE = _normal((ELEMENTS,), (ELEMENTS,))
_NETWORK = [array.astype(np.float32) for array in _normal((WIDTH,), *[(WIDTH, WIDTH), (WIDTH,)] * LAYERS)]


def _total(fn, x):
    return elementwise(fn, x).sum()


ROWS = [
    _small_row(
        "nested-grad-grad",
        "second derivative of a chain of 40 operations: grad of grad",
        _transformed(lambda t, f: t.grad(t.grad(f)), chain),
        [np.array(0.3)],
    ),
    _small_row(
        "nested-hessian",
        "Hessian of a function of 10 inputs",
        _transformed(lambda t, f: t.hessian(f), energy),
        [_X, _MATRIX],
    ),
    _small_row(
        "nested-hvp",
        "Hessian-vector product of a function of 10 inputs: jvp of grad",
        _hvp(energy),
        [_X, _V, _MATRIX],
    ),
    _small_row(
        "nested-vmap-grad",
        f"gradient for each of {BATCH} examples: vmap of grad",
        _transformed(lambda t, f: t.vmap(t.grad(f), (None, 0)), loss),
        _normal((10,), (BATCH, 10)),
        ("everyo", "torch"),
    ),
    _small_row(
        "nested-jacfwd",
        "Jacobian of 10 outputs by 10 inputs, forward mode (autograd: reverse)",
        _transformed(lambda t, f: t.jacfwd(f), field),
        [_X, _MATRIX],
    ),
    _small_row(
        "nested-jacrev",
        "the same, reverse mode",
        _transformed(lambda t, f: t.jacrev(f), field),
        [_X, _MATRIX],
    ),
    _small_row(
        "nested-grad-jvp",
        "gradient of a directional derivative: grad of jvp",
        _grad_of_jvp,
        [_X, _V, _MATRIX],
    ),
    Row(
        "cost-hvp",
        COST,
        partial(
            cost,
            ("Hessian-vector product, 8 elementwise operations", "their gradient"),
            (_hvp(_total), _alone(lambda t, f: t.grad(f), _total)),
            _LARGE,
            4.0,
            ALL,
        ),
    ),
    Row(
        "cost-hvp-small",
        COST,
        partial(
            cost,
            ("Hessian-vector product, 10 inputs", "its gradient"),
            (_hvp(energy), _alone(lambda t, f: t.grad(f), energy)),
            [_X, _V, _MATRIX],
            None,
            ALL,
        ),
    ),
    Row(
        "cost-jvp",
        COST,
        partial(
            cost,
            ("jvp, 8 elementwise operations", "their forward pass"),
            (_jvp(elementwise), _alone(lambda t, f: f, elementwise)),
            _LARGE,
            2.5,
            ALL,
        ),
    ),
    Row(
        "cost-jacobian",
        COST,
        partial(
            cost,
            (f"jacrev of a network of {LAYERS} layers, {WIDTH} by {WIDTH}", "a Python loop of vjps"),
            (_transformed(lambda t, f: t.jacrev(f), network), _loop_of_vjps),
            _NETWORK,
            0.1,
            ("everyo", "torch"),
        ),
    ),
]
