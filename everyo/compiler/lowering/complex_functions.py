"""Lowerings of elementary functions of complex numbers, with the values of the C standard at the edges."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from everyo.compiler.graph import Op, Value
from everyo.compiler.lowering.builder import Builder
from everyo.compiler.lowering.numbers import with_sign
from everyo.compiler.lowering.pairs import Pair, pairing


class Limits(NamedTuple):
    """Where functions of a dtype leave its range, and by what their arguments are moved or scaled then.

    The exponential function overflows behind `overflow`; of an argument that is less by `moved` it is
    ordinary wherever its product with the least sine is not infinite. Squares are in range from `low` to
    `high`; numbers below are scaled by `up`, a power of 4.
    """

    overflow: float
    moved: float
    low: float
    high: float
    up: float


LIMITS: dict[Any, Limits] = {
    np.dtype(np.float32): Limits(88.0, 140.0, 2.0**-100, 2.0**120, 2.0**48),
    np.dtype(np.float64): Limits(709.0, 1000.0, 2.0**-900, 2.0**1000, 2.0**108),
}


def number(b: Builder, value: float, like: Value) -> Value:
    """Return a number in the dtype of a value."""
    return b.constant(value, like.dtype)


def either(b: Builder, fn: str, x: Pair) -> Value:
    """Return whether something is so of either part."""
    return b.map("logical_or", *(b.map(fn, part) for part in x))


def grown(b: Builder, x: Value, size: Value, turn: Value) -> Value:
    """Return ``exp(x) * turn``, which may be finite where ``exp(x)`` is not; `size` is ``grow(x)``."""
    back = b.map("where", is_large(b, x), number(b, math.exp(LIMITS[x.dtype].moved / 2), x), number(b, 1, x))
    return b.map("multiply", b.map("multiply", b.map("multiply", turn, back), size), back)


def is_large(b: Builder, x: Value) -> Value:
    """Return where the exponential function overflows."""
    return b.map("greater", x, number(b, LIMITS[x.dtype].overflow, x))


def lessened(b: Builder, x: Value) -> Value:
    """Return an argument of the exponential function, less than it is where that would overflow."""
    return b.map("where", is_large(b, x), b.map("subtract", x, number(b, LIMITS[x.dtype].moved, x)), x)


@pairing("exp")
def _exp(b: Builder, op: Op, x: Pair) -> Pair:
    return exponential(b, x)


def exponential(b: Builder, x: Pair) -> Pair:
    """Return ``exp(x)``."""
    zero, size = number(b, 0, x.re), b.map("exp", lessened(b, x.re))
    re, im = (grown(b, x.re, size, b.map(fn, x.im)) for fn in ("cos", "sin"))
    undirected = b.map("logical_not", b.map("isfinite", x.im))
    end = b.map("logical_and", undirected, b.map("isinf", x.re))
    gone = b.map("equal", x.re, number(b, -math.inf, x.re))
    re = b.map("where", end, b.map("where", gone, zero, x.re), re)
    signed = with_sign(b, b.fill(0, x.shape, x.re.dtype), x.im)
    im = b.map("where", b.map("logical_and", gone, undirected), signed, im)
    return Pair(re, b.map("where", b.map("equal", x.im, zero), x.im, im))  # also beside infinity and NaN


# ---- circular and hyperbolic functions


def _hyperbolic(b: Builder, x: Value, y: Value) -> tuple[Pair, Pair, Value]:
    """Return ``sinh(x + iy)``, ``cosh(x + iy)``, and where they are infinite in no direction."""
    size, zero = b.map("abs", x), number(b, 0, x)
    large = is_large(b, size)
    half = b.map("multiply", b.map("exp", lessened(b, size)), number(b, 0.5, x))
    growing = b.map("where", large, half, b.map("cosh", x))
    turning = b.map("where", large, with_sign(b, half, x), b.map("sinh", x))
    cos, sin = b.map("cos", y), b.map("sin", y)
    sinh = Pair(grown(b, size, turning, cos), grown(b, size, growing, sin))
    cosh = Pair(grown(b, size, growing, cos), grown(b, size, turning, sin))
    infinity, undirected = number(b, math.inf, x), b.map("logical_not", b.map("isfinite", y))
    endless = b.map("logical_and", b.map("isinf", x), undirected)
    none = b.map("logical_and", b.map("equal", x, zero), undirected)
    ordinary = b.map("less_equal", size, number(b, LIMITS[x.dtype].overflow, x))
    straight = b.map("logical_and", b.map("equal", y, zero), b.map("logical_not", ordinary))
    signed = b.map("where", b.map("less", x, zero), b.map("negative", y), y)
    first = [b.map("where", endless, infinity, part.re) for part in (sinh, cosh)]
    return (
        Pair(b.map("where", none, x, first[0]), b.map("where", straight, y, sinh.im)),
        Pair(first[1], b.map("where", none, zero, b.map("where", straight, signed, cosh.im))),
        endless,
    )


@pairing("sinh")
def _sinh(b: Builder, op: Op, x: Pair) -> Pair:
    return _hyperbolic(b, *x)[0]


@pairing("cosh")
def _cosh(b: Builder, op: Op, x: Pair) -> Pair:
    return _hyperbolic(b, *x)[1]


@pairing("sin")
def _sin(b: Builder, op: Op, x: Pair) -> Pair:
    """``-i sinh(ix)``."""
    turned, _, endless = _hyperbolic(b, b.map("negative", x.im), x.re)
    im = b.map("negative", turned.re)
    return Pair(turned.im, b.map("where", endless, number(b, math.inf, im), im))


@pairing("cos")
def _cos(b: Builder, op: Op, x: Pair) -> Pair:
    """``cosh(ix)``."""
    return _hyperbolic(b, b.map("negative", x.im), x.re)[1]


def _hyperbolic_tangent(b: Builder, x: Value, y: Value, turn: Value) -> Pair:
    """Return ``tanh(x + iy)``; beside an infinite `x` the imaginary part is 0 with the sign of `turn`."""
    size, zero, one = b.map("abs", x), number(b, 0, x), number(b, 1, x)
    cos, sin = b.map("cos", y), b.map("sin", y)
    both, undirected = b.map("multiply", sin, cos), b.map("logical_not", b.map("isfinite", y))
    large = b.map("greater", size, number(b, LIMITS[x.dtype].overflow / 2, x))
    inside = b.map("where", large, zero, x)
    sinh, cosh = b.map("sinh", inside), b.map("cosh", inside)
    squares = [b.map("multiply", part, part) for part in (sinh, cos)]
    over = b.map("add", *squares)
    gone = b.map("exp", b.map("multiply", number(b, -2, x), size))
    far = b.map("multiply", b.map("multiply", number(b, 4, x), both), gone)
    im = b.map("where", large, far, b.map("divide", both, over))
    ends = b.map("isinf", x)
    lost = b.map("logical_and", undirected, b.map("logical_not", ends))
    limit = b.map("where", lost, number(b, math.nan, x), one)
    re = b.map("where", large, with_sign(b, limit, x), b.map("divide", b.map("multiply", sinh, cosh), over))
    still = b.map("logical_and", b.map("equal", x, zero), undirected)
    im = b.map("where", ends, with_sign(b, b.fill(0, x.shape, x.dtype), turn), im)
    straight = b.map("logical_and", b.map("equal", y, zero), b.map("isnan", x))
    return Pair(b.map("where", still, x, re), b.map("where", straight, y, im))


@pairing("tanh")
def _tanh(b: Builder, op: Op, x: Pair) -> Pair:
    return _hyperbolic_tangent(b, x.re, x.im, x.im)


@pairing("tan")
def _tan(b: Builder, op: Op, x: Pair) -> Pair:
    """``-i tanh(ix)``."""
    product = b.map("multiply", b.map("sin", x.re), b.map("cos", x.re))
    beyond = b.map(
        "logical_and", b.map("isfinite", x.re), b.map("greater", b.map("abs", x.re), number(b, 1, x.re))
    )
    turned = _hyperbolic_tangent(b, b.map("negative", x.im), x.re, b.map("where", beyond, product, x.re))
    return Pair(turned.im, b.map("negative", turned.re))


# ---- logarithms and roots


def logarithm(b: Builder, x: Pair) -> Pair:
    """Return the natural logarithm, on NumPy's branch.

    That of the size is of the larger part, and of what the smaller one adds to it; next to a size of 1 both
    are taken together.
    """
    sizes = [b.map("abs", part) for part in x]
    large, small = b.map("maximum", *sizes), b.map("minimum", *sizes)
    zero, one = number(b, 0, large), number(b, 1, large)
    near = b.map(
        "logical_and",
        b.map("greater", large, number(b, 0.5, large)),
        b.map("less", large, number(b, 2, large)),
    )
    ratio = b.map("where", b.map("equal", small, zero), zero, b.map("divide", small, large))
    apart = b.map("multiply", b.map("subtract", large, one), b.map("add", large, one))
    beside = b.map("add", apart, b.map("multiply", small, small))
    rest = b.map("log1p", b.map("where", near, beside, b.map("multiply", ratio, ratio)))
    size = b.map(
        "add", b.map("log", b.map("where", near, one, large)), b.map("multiply", number(b, 0.5, rest), rest)
    )
    size = b.map("where", either(b, "isinf", x), number(b, math.inf, size), size)
    return Pair(size, b.map("atan2", x.im, x.re))


@pairing("log", "log2", "log10")
def _log(b: Builder, op: Op, x: Pair) -> Pair:
    found = logarithm(b, x)
    if op.name == "log":
        return found
    unit = number(b, 1 / math.log(2 if op.name == "log2" else 10), x.re)
    return Pair(*(b.map("multiply", part, unit) for part in found))


@pairing("sqrt")
def _sqrt(b: Builder, op: Op, x: Pair) -> Pair:
    return root(b, x)


def root(b: Builder, x: Pair) -> Pair:
    """Return the square root of which the real part is not negative, scaled where squares leave the range."""
    limits, zero, one = LIMITS[x.re.dtype], number(b, 0, x.re), number(b, 1, x.re)
    sizes = [b.map("abs", part) for part in x]
    top = b.map("maximum", *sizes)
    huge = b.map("greater", top, number(b, limits.high, top))
    tiny = b.map("less", top, number(b, limits.low, top))

    def scale(down: float, up: float) -> Value:
        return b.map("where", huge, number(b, down, top), b.map("where", tiny, number(b, up, top), one))

    a, c = (b.map("multiply", part, scale(0.25, limits.up)) for part in sizes)
    whole = b.map("sqrt", b.map("multiply", number(b, 0.5, top), b.map("add", b.map("hypot", a, c), a)))
    rest = b.map("divide", b.map("multiply", number(b, 0.5, top), c), whole)
    rest = b.map("where", b.map("equal", whole, zero), zero, rest)
    back = scale(2.0, 1 / math.sqrt(limits.up))
    whole, rest = b.map("multiply", whole, back), b.map("multiply", rest, back)
    right = b.map("logical_not", b.map("less", x.re, zero))
    re, im = b.map("where", right, whole, rest), b.map("where", right, rest, whole)
    upright = b.map("isinf", x.im)
    re = b.map("where", upright, sizes[1], re)
    return Pair(re, with_sign(b, b.map("where", upright, sizes[1], im), x.im))
