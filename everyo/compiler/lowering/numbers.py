"""Lowerings of functions of the parts of numbers, of choices that ignore NaN, and of views of windows."""

from __future__ import annotations

import math

import numpy as np

from everyo.compiler.graph import Op, Value
from everyo.compiler.lowering.builder import Builder
from everyo.compiler.lowering.elementwise import matched
from everyo.compiler.lowering.table import lowering


def with_sign(b: Builder, size: Value, sign: Value) -> Value:
    """Return the magnitude of one operand with the sign of another; the sign of zero counts."""
    size = b.map("abs", size)
    return b.map("where", b.map("signbit", sign), b.map("negative", size), size)


@lowering("copysign")
def _copysign(b: Builder, op: Op, x1: Value, x2: Value) -> Value:
    return with_sign(b, *matched(b, op, (x1, x2), op.out.dtype))


@lowering("modf")
def _modf(b: Builder, op: Op, x: Value) -> list[Value]:
    x = b.cast(x, op.outs[0].dtype)
    whole = b.map("trunc", x)
    rest = b.map("where", b.map("isinf", x), b.constant(0, x.dtype), b.map("subtract", x, whole))
    return [b.map("where", b.map("isnan", x), x, with_sign(b, rest, x)), with_sign(b, whole, x)]


@lowering("divmod")
def _divmod(b: Builder, op: Op, x1: Value, x2: Value) -> list[Value] | None:
    dtype = op.outs[0].dtype
    if x1.dtype != dtype or x2.dtype != dtype:
        return None
    return [b.map("floor_divide", x1, x2), b.map("remainder", x1, x2)]


@lowering("nan_to_num")
def _nan_to_num(b: Builder, op: Op, x: Value) -> Value:
    if x.dtype.kind != "f":
        return x
    limits = np.finfo(op.operands[0].dtype)  # which may be narrower than the one that it is computed in
    replaced = {
        math.inf: limits.max if op.params["posinf"] is None else op.params["posinf"],
        -math.inf: limits.min if op.params["neginf"] is None else op.params["neginf"],
    }
    out = b.map("where", b.map("isnan", x), b.constant(op.params["nan"], x.dtype), x)
    for infinity, value in replaced.items():
        there = b.map("equal", x, b.constant(infinity, x.dtype))
        out = b.map("where", there, b.constant(value, x.dtype), out)
    return out


@lowering("fmax", "fmin")
def _extreme(b: Builder, op: Op, x1: Value, x2: Value) -> Value:
    x1, x2 = matched(b, op, (x1, x2), op.out.dtype)
    out = b.map("maximum" if op.name == "fmax" else "minimum", x1, x2)
    if op.out.dtype.kind != "f":
        return out
    return b.map("where", b.map("isnan", x1), x2, b.map("where", b.map("isnan", x2), x1, out))


@lowering("heaviside")
def _heaviside(b: Builder, op: Op, x1: Value, x2: Value) -> Value:
    x1, x2 = matched(b, op, (x1, x2), op.out.dtype)
    zero, one = b.constant(0, x1.dtype), b.constant(1, x1.dtype)
    at_zero = b.map("where", b.map("equal", x1, zero), x2, x1)  # or a NaN
    below = b.map("where", b.map("less", x1, zero), zero, at_zero)
    return b.map("where", b.map("greater", x1, zero), one, below)


@lowering("lerp")
def _lerp(b: Builder, op: Op, start: Value, end: Value, weight: Value) -> Value | None:
    start, end, weight = matched(b, op, (start, end, weight), op.out.dtype)
    if op.out.dtype.kind != "f":
        return None
    half, one = b.constant(0.5, weight.dtype), b.constant(1, weight.dtype)
    far = b.map("greater_equal", b.map("abs", weight), half)
    rest = b.map("where", far, b.map("subtract", weight, one), weight)
    step = b.map("multiply", rest, b.map("subtract", end, start))
    return b.map("add", b.map("where", far, end, start), step)


@lowering("deg2rad", "rad2deg")
def _angle(b: Builder, op: Op, x: Value) -> Value:
    scale = math.pi / 180 if op.name == "deg2rad" else 180 / math.pi
    (x,) = matched(b, op, (x,), op.out.dtype)
    return b.map("multiply", x, b.constant(scale, x.dtype))


@lowering("window_view")
def _window_view(b: Builder, op: Op, x: Value) -> Value:
    axes, window = op.params["axes"], op.params["window"]
    ndim, rank = len(x.shape), len(axes)
    order = [*(i for i in range(ndim) if i not in axes), *axes]
    found = b.window(b.transpose(x, order), window.kernel, window.stride, window.dilation)
    return b.transpose(found, [*np.argsort(order).tolist(), *range(ndim, ndim + rank)])
