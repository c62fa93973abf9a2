"""Chains of elementwise operations: the cost of an operation, on small and on large tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from .harness import Budget, Measurement, Row, Settings, compare
from .libraries import load

SMALL = "Small tensors: time an operation"
LARGE = "Large tensors"

OPERATIONS = 200
REPEATS = OPERATIONS // 4  # every loop body below has four operations

SMALL_BUDGETS = (Budget(0.55, "torch"), Budget(0.2, "autograd"))
LARGE_BUDGETS = (Budget(1.0, "torch"),)


# The constants keep values and gradients near 1 over the whole length of a chain.


def mix(fn, x, w, b, c):
    """Multiply, add, tanh, multiply."""
    tanh = fn.tanh
    for _ in range(REPEATS):
        x = x * w
        x = x + b
        x = tanh(x)
        x = x * c
    return x.sum()


def products(fn, x, w):
    """Nothing but multiplications."""
    for _ in range(OPERATIONS):
        x = x * w
    return x.sum()


def functions(fn, x, w, b):
    """Exp, sin, divide, subtract."""
    exp, sin = fn.exp, fn.sin
    for _ in range(REPEATS):
        x = exp(x)
        x = sin(x)
        x = x / w
        x = x - b
    return x.sum()


def broadcasts(fn, x, w, b):
    """Operands of shape (1,) against (4,): backward has to sum the gradients of the former."""
    for _ in range(REPEATS):
        x = x * w
        x = x + b
        x = w * x
        x = x - b
    return x.sum()


def numbers(fn, x):
    """Python numbers as operands, on either side."""
    for _ in range(REPEATS):
        x = x * 1.01
        x = x + 0.1
        x = 1.5 - x
        x = x / 1.02
    return x.sum()


def elementwise(fn, x, w, b):
    """Eight operations on large arrays."""
    y = fn.tanh(x * w + b)
    y = fn.exp(-(y * y))
    return (y / w - x).sum()


def softmaxes(fn, x, w):
    """Log-softmax and softmax over the last axis."""
    y = fn.log_softmax(x) * w
    return (fn.softmax(y) * w).sum()


def _vector(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


_X = _vector(0.03, -0.02, 0.05, 0.01)
_NEAR_ONE = _vector(1.001, 0.998, 1.002, 0.999)
_OFFSET = _vector(0.001, -0.002, 0.003, 0.002)
_DIVISOR = np.full(4, 0.557, np.float32)
_SHIFT = np.full(4, math.sin(1.0) / 0.557, np.float32)


def small(
    title: str,
    f,
    arrays: Sequence[np.ndarray],
    wrt: Sequence[int],
    settings: Settings,
    *,
    recording: bool = True,
    budgets: Sequence[Budget] = SMALL_BUDGETS,
) -> list[Measurement]:
    """Measure a chain of 200 operations on tiny arrays, in every library."""
    adapters, failures = load(threads=settings.threads)
    builders = {
        name: partial(library.gradient if recording else library.forward, f, arrays, wrt)
        for name, library in adapters.items()
    }
    shapes = ", ".join(str(array.shape) for array in arrays)
    what = f"gradients of inputs {list(wrt)}" if recording else "recording switched off"
    detail = f"{OPERATIONS} operations and a sum; inputs {shapes}, float32; {what}"
    return [
        compare(
            title,
            builders,
            settings,
            per=OPERATIONS,
            detail=detail,
            budgets=budgets,
            failures=failures,
        )
    ]


def large(title: str, f, shape: tuple[int, ...], count: int, settings: Settings) -> list[Measurement]:
    """Measure a short chain on a million elements, forward and backward."""
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0.5, 1.5, shape).astype(np.float32) for _ in range(count)]
    adapters, failures = load(("everyo", "torch", "autograd"), settings.threads)
    builders = {name: partial(library.gradient, f, arrays, (0, 1)) for name, library in adapters.items()}
    detail = f"{count} inputs {shape}, float32; gradients of inputs [0, 1]"
    return [
        compare(
            f"{title}, {settings.thread_text}",
            builders,
            settings,
            detail=detail,
            budgets=LARGE_BUDGETS,
            failures=failures,
        )
    ]


def _scalars(*arrays: np.ndarray) -> list[np.ndarray]:
    return [np.array(array[0]) for array in arrays]


def _small_row(name: str, *arguments, **options) -> Row:
    def run(settings: Settings) -> list[Measurement]:
        return small(*arguments, settings, **options)

    return Row(name, SMALL, run)


def _large_rows(name: str, *arguments) -> list[Row]:
    run = partial(large, *arguments)
    return [Row(name, LARGE, run), Row(f"{name}-threads", LARGE, run, all_threads=True)]


_MIX = [_X, _NEAR_ONE, _OFFSET, 1 / _NEAR_ONE]
_ONE = _vector(1.0005)

ROWS = [
    _small_row("chain-mix", "multiply, add, tanh, multiply", mix, _MIX, (0, 1)),
    _small_row("chain-mix-constants", "the same, one leaf", mix, _MIX, (0,)),
    _small_row("chain-multiply", "multiply only", products, _MIX[:2], (0, 1)),
    _small_row("chain-functions", "exp, sin, divide, subtract", functions, [_X, _DIVISOR, _SHIFT], (0, 1)),
    _small_row("chain-0d", "0-d tensors: multiply, add, tanh, multiply", mix, _scalars(*_MIX), (0, 1)),
    _small_row("chain-broadcast", "(4,) with (1,)", broadcasts, [_X, _ONE, _vector(0.01)], (0, 1)),
    _small_row("chain-numbers", "Python numbers as operands", numbers, [_X], (0,)),
    _small_row(
        "chain-forward",
        "forward only, no_grad (autograd: NumPy, wrapped)",
        mix,
        _MIX,
        (0, 1),
        recording=False,
        budgets=SMALL_BUDGETS[:1],
    ),
    *_large_rows("large-elementwise", "8 elementwise operations and a sum", elementwise, (1_000_000,), 3),
    *_large_rows("large-softmax", "log-softmax, softmax, 2 products, a sum", softmaxes, (1000, 1000), 2),
]
