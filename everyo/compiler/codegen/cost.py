"""How long a kernel takes, roughly: enough to tell what is worth more than one thread."""

from __future__ import annotations

import math
from typing import Any

from everyo.compiler.codegen import scalar
from everyo.compiler.graph import Op, Value
from everyo.compiler.machine import vectors

# Nanoseconds for one element of eight bytes, with vectors of `MEASURED` bytes.
MEASURED = 64
CHEAP, TERM = 0.1, 0.05  # an operation such as an addition; one term of a matrix product
TILED = 0.035  # one term in tiles
READ, WRITE = 0.1, 0.2
SCALAR: dict[str, float] = {
    "sqrt": 0.3, "divide": 0.2, "rsqrt": 0.6,
    **dict.fromkeys(("exp", "exp2", "log", "asin", "acos", "expm1"), 0.5),
    **dict.fromkeys(("log1p", "log2", "log10", "sin", "cos", "atan", "hypot"), 0.8),
    **dict.fromkeys(("tan", "sinh", "cosh", "tanh", "sigmoid", "cbrt", "atan2"), 1.2),
    **dict.fromkeys(("asinh", "acosh", "atanh", "softplus", "logaddexp"), 2.0),
    **dict.fromkeys(("erf", "erfc", "gelu", "pow", "remainder", "floor_divide"), 3.7),
    "digamma": 12.0, "lgamma": 16.0,
}  # fmt: skip
POWER = 1.0  # by a constant


def nanoseconds(kernel: Any) -> float:
    """Return about how long a kernel takes on one thread; 0 where nothing is known of it."""
    cluster = getattr(kernel, "cluster", None)
    if cluster is not None and not cluster.opaque:
        stored = kernel.plan.stored
        return sum(_member(m.op, math.prod(m.space), m.op.out in stored) for m in cluster.members)
    op: Op | None = getattr(kernel, "op", None)
    return _OPAQUE[op.name](op) if op is not None and op.name in _OPAQUE else 0.0


def _member(op: Op, size: int, stored: bool) -> float:
    each = READ * len(op.operands) + WRITE * stored
    if op.name == "map":
        fn = op.params["fn"]
        each += SCALAR.get(fn, POWER if scalar.is_called(fn) else CHEAP)
    elif op.name == "dot":
        each += 2 * READ + TERM * op.operands[0].shape[-1]
    else:
        each += CHEAP
    return size * each * _scale(op.outs[0])


def _scale(value: Value) -> float:
    return value.dtype.itemsize / 8 * MEASURED / vectors().size


def _convolve(op: Op) -> float:
    x, weight = op.operands
    return op.out.size * math.prod(weight.shape[1:]) * TERM * _scale(x)


def _convolve_weight(op: Op) -> float:
    x, cotangent = op.operands
    return cotangent.size * math.prod(op.out.shape[1:]) * TERM * _scale(x)


def _dot(op: Op) -> float:
    return op.out.size * op.operands[0].shape[-1] * TILED * _scale(op.out)


def _moved(op: Op) -> float:
    """Return the cost of writing operands into a result."""
    elements = sum(v.size for v in op.operands) + op.out.size
    return elements * (READ + WRITE) * op.out.dtype.itemsize / 8


def _packed(op: Op) -> float:
    return op.out.size * (READ + WRITE) * op.out.dtype.itemsize / 8


_OPAQUE = {
    "dot": _dot, "convolve": _convolve, "convolve_weight": _convolve_weight, "place": _moved, "fold": _moved,
    "pack": _packed,
}  # fmt: skip
