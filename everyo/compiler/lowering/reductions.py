"""Lowerings of reductions, of what is made of them, and of matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from everyo.compiler.graph import Op, Value
from everyo.compiler.lowering.builder import Builder
from everyo.compiler.lowering.elementwise import truth
from everyo.compiler.lowering.table import lowering


def axes_of(op: Op, x: Value) -> tuple[int, ...]:
    """Return the axes that an operation reduces over, from the front."""
    axis = op.params.get("axis")
    rank = len(x.shape)
    if axis is None:
        return tuple(range(rank))
    return tuple(a % rank for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))


def _finished(b: Builder, op: Op, out: Value) -> Value:
    return b.cast(b.reshape(out, op.out.shape), op.out.dtype)


@lowering("sum", "count_nonzero")
def _sum(b: Builder, op: Op, x: Value) -> Value:
    if op.name == "count_nonzero":
        x = truth(b, x)
    return _finished(b, op, b.reduce("sum", b.cast(x, op.out.dtype), axes_of(op, x)))


@lowering("prod")
def _prod(b: Builder, op: Op, x: Value) -> Value:
    x, axes = b.cast(x, op.out.dtype), axes_of(op, x)
    return zero_absorbs(b, lambda factors: _finished(b, op, b.reduce("prod", factors, axes)), x)


def zero_absorbs(b: Builder, multiply: Callable[[Value], Value], x: Value) -> Value:
    """Return ``multiply(x)``, products of elements, with 0 where a zero met an overflow of finite ones."""
    out = multiply(x)
    if x.dtype.kind != "f":
        return out
    zero = b.map("equal", x, b.constant(0, x.dtype))
    only_zeros = b.map("equal", multiply(zeros_and_infinities(b, x)), b.constant(0, x.dtype))
    others = multiply(b.map("where", zero, b.fill(1, x.shape, x.dtype), x))
    absorbed = b.map("logical_and", only_zeros, b.map("logical_not", b.map("isnan", others)))
    absorbed = b.map("logical_and", absorbed, b.map("isnan", out))
    return b.map("where", absorbed, b.fill(0, out.shape, out.dtype), out)


def zeros_and_infinities(b: Builder, x: Value) -> Value:
    """Return elements with 1 in place of all others; a product of both kinds is NaN."""
    special = b.map("logical_or", b.map("equal", x, b.constant(0, x.dtype)), b.map("isinf", x))
    return b.map("where", special, x, b.fill(1, x.shape, x.dtype))


@lowering("max", "min")
def _extreme(b: Builder, op: Op, x: Value) -> Value | None:
    return None if not x.size else _finished(b, op, b.reduce(op.name, x, axes_of(op, x)))


@lowering("all", "any")
def _logical(b: Builder, op: Op, x: Value) -> Value:
    return _finished(b, op, b.reduce("and" if op.name == "all" else "or", truth(b, x), axes_of(op, x)))


def mean_of(b: Builder, x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    """Return the mean over axes; NaN over none."""
    total = b.reduce("sum", x, axes, keepdims)
    count = math.prod(x.shape[a] for a in axes)
    if not count:
        return b.fill(math.nan, total.shape, x.dtype)
    return b.map("divide", total, b.constant(count, x.dtype))


@lowering("mean")
def _mean(b: Builder, op: Op, x: Value) -> Value:
    return _finished(b, op, mean_of(b, b.cast(x, op.out.dtype), axes_of(op, x), False))


@lowering("sum_to")
def _sum_to(b: Builder, op: Op, x: Value) -> Value:
    lead = len(x.shape) - len(op.out.shape)
    axes = [*range(max(lead, 0))]
    axes += [a for a in range(max(lead, 0), len(x.shape)) if op.out.shape[a - lead] == 1 != x.shape[a]]
    if x.dtype.kind != "f":  # they are summed in a wide dtype, as NumPy does
        x = b.cast(x, np.sum(np.zeros(1, x.dtype)).dtype)
    return _finished(b, op, b.reduce("sum", x, axes))


def centred(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """Return `x` without its mean; the second pass takes away the rounding error of the first."""
    for _ in range(2):
        x = b.map("subtract", x, b.broadcast_to(mean_of(b, x, axes, True), x.shape))
    return x


@lowering("std")
def _std(b: Builder, op: Op, x: Value) -> Value | None:
    x, axes = b.cast(x, op.out.dtype), axes_of(op, x)
    if not x.size:
        return None
    return spread(b, op, centred(b, x, axes), axes)


def spread(b: Builder, op: Op, distances: Value, axes: tuple[int, ...]) -> Value:
    """Return the standard deviation of what has such distances from its mean."""
    norm = norm_of(b, distances, axes, 2)
    degrees = math.prod(distances.shape[a] for a in axes) - op.params["correction"]
    root = math.sqrt(degrees) if degrees > 0 else math.nan
    return _finished(b, op, b.map("divide", norm, b.constant(root, distances.dtype)))


@lowering("var")
def _var(b: Builder, op: Op, x: Value) -> Value:
    x, axes = b.cast(x, op.out.dtype), axes_of(op, x)
    d = centred(b, x, axes)
    degrees = math.prod(x.shape[a] for a in axes) - op.params["correction"]
    squares = b.reduce("sum", b.map("multiply", d, d), axes)
    out = b.map("divide", squares, b.constant(degrees if degrees > 0 else math.nan, x.dtype))
    return _finished(b, op, out)


@lowering("standardize")
def _standardize(b: Builder, op: Op, x: Value) -> Value | None:
    if not x.size:
        return None
    x, axes = b.cast(x, op.out.dtype), axes_of(op, x)
    d = b.map("subtract", x, b.broadcast_to(mean_of(b, x, axes, True), x.shape))
    rest = mean_of(b, d, axes, True)  # the mean's rounding error, taken in one loop with the squares
    squares = mean_of(b, b.map("multiply", d, d), axes, True)
    spread = b.map(
        "maximum", b.map("subtract", squares, b.map("multiply", rest, rest)), b.constant(0, x.dtype)
    )
    root = b.map("sqrt", b.map("add", spread, b.constant(op.params["eps"], x.dtype)))
    scale = b.map("divide", b.constant(1, x.dtype), root)
    return b.map(
        "multiply", b.map("subtract", d, b.broadcast_to(rest, x.shape)), b.broadcast_to(scale, x.shape)
    )


def below_top(b: Builder, x: Value, axes: tuple[int, ...]) -> tuple[Value, Value]:
    """Return `x` minus its maximum along axes, and that maximum, right beside infinities too."""
    top = b.reduce("max", x, axes, keepdims=True)
    zero = b.constant(0, x.dtype)
    shift = b.map("where", b.map("isinf", top), zero, top)
    below = b.map("subtract", x, b.broadcast_to(shift, x.shape))
    infinity = b.constant(math.inf, x.dtype)
    beside = b.map("where", b.map("equal", x, infinity), zero, b.constant(-math.inf, x.dtype))
    infinite = b.broadcast_to(b.map("equal", top, infinity), x.shape)
    return b.map("where", infinite, beside, below), top


def _log_total(b: Builder, below: Value, axes: tuple[int, ...]) -> Value:
    """Return the logarithm of the sum of exponentials, with all digits where it is near 0."""
    zero, one = b.constant(0, below.dtype), b.constant(1, below.dtype)
    largest = b.map("equal", below, zero)
    others = b.reduce("sum", b.map("where", largest, zero, b.map("exp", below)), axes, keepdims=True)
    count = b.reduce("sum", b.map("where", largest, one, zero), axes, keepdims=True)
    return b.map("log1p", b.map("add", others, b.map("subtract", count, one)))


@lowering("logsumexp", "softmax", "log_softmax")
def _normalizer(b: Builder, op: Op, x: Value) -> Value | None:
    if not x.size:
        return None
    x, axes = b.cast(x, op.out.dtype), axes_of(op, x)
    below, top = below_top(b, x, axes)
    if op.name == "logsumexp":
        return _finished(b, op, b.map("add", _log_total(b, below, axes), top))
    if op.name == "log_softmax":
        return b.map("subtract", below, b.broadcast_to(_log_total(b, below, axes), x.shape))
    weights = b.map("exp", below)
    total = b.reduce("sum", weights, axes, keepdims=True)
    nothing = b.map("equal", total, b.constant(0, x.dtype))
    of_nothing = b.constant(op.params.get("of_nothing", math.nan), x.dtype)
    share = b.map("divide", weights, b.broadcast_to(total, x.shape))
    return b.map("where", b.broadcast_to(nothing, x.shape), of_nothing, share)


@lowering("vector_norm")
def _vector_norm(b: Builder, op: Op, x: Value) -> Value | None:
    order = op.params["ord"]
    if not x.size or order < 0 or order == 0:
        return None
    return _finished(b, op, norm_of(b, b.cast(x, op.out.dtype), axes_of(op, x), order))


def norm_of(b: Builder, x: Value, axes: tuple[int, ...], order: float) -> Value:
    """Return a norm along axes, which stay with length 1.

    Elements are scaled by a power of two near the largest, so that no power overflows.
    """
    sizes = b.map("abs", x)
    top = b.reduce("max", sizes, axes, keepdims=True)
    if order == math.inf:
        return top
    zero, one = b.constant(0, x.dtype), b.constant(1, x.dtype)
    ordinary = b.map("logical_and", b.map("isfinite", top), b.map("greater", top, zero))
    scale = b.map("where", ordinary, b.map("power_of_two", top), one)
    sizes = b.map("divide", sizes, b.broadcast_to(scale, sizes.shape))
    if order == 2:
        powers = b.map("multiply", sizes, sizes)
    elif order == 1:
        powers = sizes
    else:
        powers = b.map("pow", sizes, b.constant(order, x.dtype))
    total = b.reduce("sum", powers, axes, keepdims=True)
    if order == 2:
        total = b.map("sqrt", total)
    elif order != 1:
        total = b.map("pow", total, b.constant(1 / order, x.dtype))
    return b.map("multiply", scale, total)


@lowering("argmax", "argmin")
def _argument(b: Builder, op: Op, x: Value) -> Value | None:
    if not x.size:
        return None
    axis = op.params["axis"]
    if axis is None:
        x, axis = b.reshape(x, (x.size,)), 0
    return b.reshape(b.argreduce(op.name[3:], x, axis % len(x.shape)), op.out.shape)


@lowering("cumsum")
def _cumsum(b: Builder, op: Op, x: Value) -> Value:
    x, axis = b.cast(x, op.out.dtype), op.params["axis"] % len(x.shape)
    return b.accumulate("sum", [x], axis, op.params.get("reverse", False), halves=of_halves(op))


def of_halves(op: Op) -> bool:
    """Whether an operation that is lowered in float32 is one on float16."""
    return op.operands[0].dtype == np.float16


@lowering("matmul")
def _matmul(b: Builder, op: Op, x1: Value, x2: Value) -> Value | None:
    dtype = op.out.dtype
    x1, x2 = b.cast(x1, dtype), b.cast(x2, dtype)
    if dtype.kind == "b":
        return None
    if len(x1.shape) == 1:
        x1 = b.reshape(x1, (1, *x1.shape))
    if len(x2.shape) == 1:
        x2 = b.reshape(x2, (*x2.shape, 1))
    rows, columns = x1.shape[-2], x2.shape[-1]
    if len(x2.shape) == 2 and len(x1.shape) > 2:  # one large product instead of a batch of small ones
        flat = b.dot(b.reshape(x1, (math.prod(x1.shape[:-1]), x1.shape[-1])), x2)
        return b.reshape(flat, op.out.shape)
    batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    x1 = b.broadcast_to(x1, (*batch, *x1.shape[-2:]))
    x2 = b.broadcast_to(x2, (*batch, *x2.shape[-2:]))
    out: Any = b.dot(x1, x2)
    assert out.shape == (*batch, rows, columns)
    return b.reshape(out, op.out.shape)
