"""Products of all factors but one, by division where that keeps all digits."""

from __future__ import annotations

import math
from typing import Any

from everyo.backends.accelerated import LARGE

__all__: list[str] = []

_SOME, _ROWS = 4096, 8  # factors of so many rows tell soon that a product underflows


def others_by_division(xp: Any, g: Any, x: Any, axis: int) -> Any | None:
    """Return `g` times the product over each factor; None where that loses digits.

    In a row with one zero its own cotangent is the product of the others, and the only one that is not 0.
    """
    if x.dtype.kind != "f" or g.dtype != x.dtype or not x.size:
        return None
    with xp.errstate(all="ignore"):
        found = _divided(xp, g, x, axis)
        if found is None and x.dtype.itemsize < 8:  # double has the range that single precision lacks
            found = _divided(xp, xp.astype(g, "float64"), xp.astype(x, "float64"), axis)
        return None if found is None else xp.astype(found, x.dtype, copy=False)


def _divided(xp: Any, g: Any, x: Any, axis: int) -> Any | None:
    if x.size >= LARGE and _underflows(xp, x, axis):
        return None
    size = xp.abs(x)
    least = xp.min(size)
    if least > 0:
        return _quotients(xp, g, x, size, float(least), axis)
    zero = x == 0
    factors = xp.where(zero, xp.ones_like(x), x)
    xp.abs(factors, out=size)
    found = _quotients(xp, g, factors, size, float(xp.min(size)), axis)
    if found is None:
        return None
    alone = xp.sum(zero, axis=axis, keepdims=True) == zero
    return xp.where(alone, found, xp.zeros_like(found))


def _underflows(xp: Any, x: Any, axis: int) -> bool:
    """Whether some factors of a few rows already have a product that loses digits."""
    some = xp.abs(x[tuple([slice(_SOME if i == axis else _ROWS) for i in range(x.ndim)])])
    below = xp.where(some == 0, 1, xp.minimum(some, 1))
    return not xp.min(xp.prod(below, axis=axis)) > float(xp.finfo(x.dtype).tiny)


def _quotients(xp: Any, g: Any, x: Any, size: Any, least: float, axis: int) -> Any | None:
    """Return `g` times the product over each factor; None where a product of some may have lost digits."""
    tiny = float(xp.finfo(x.dtype).tiny)
    if not least > 0:  # there is a NaN
        return None
    if x.shape[axis] * math.log2(least) <= math.log2(tiny):
        xp.minimum(size, 1, out=size)
        if not xp.min(xp.prod(size, axis=axis)) > tiny:
            return None
    product = xp.asarray(xp.prod(x, axis=axis))
    if not xp.max(xp.abs(product)) < math.inf:
        return None
    product *= g
    if xp.any((xp.abs(product) < tiny) & (g != 0)) or not xp.all(xp.isfinite(product)):
        return None
    return xp.true_divide(xp.expand_dims(product, axis), x, out=size)  # memory is dearer here than arithmetic
