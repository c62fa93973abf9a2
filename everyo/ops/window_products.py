"""Products of sliding windows, with derivatives that need no array of all windows where division is exact.

The product of all others in a window is its product over the element: summed over the windows, a cotangent
is ``overlap_add(g * out) / x``. Where factors are zero, or products might leave the range of the floats, the
products of what comes before and after each element in its window take the quotient's place.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from everyo.core.batching import trailing
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.ops.families import primitive
from everyo.ops.reductions import zero_absorbs
from everyo.ops.scans import product_of_others
from everyo.ops.scatter_reductions import others_slope
from everyo.ops.windows import Window

__all__: list[str] = []

_WIDEST = 900  # exponents of two that products of the elements of a window may come to


def _windows(x: Any, window: Window) -> Any:
    return op.sliding_windows(x, window=window)


def _summed(parts: Any, x: Any, window: Window) -> Any:
    return op.overlap_add(parts, sizes=tuple(x.shape[-len(window.kernel) :]), window=window)


def _slope(t: Any, x: Any, window: Window) -> Any:
    """Return for each element of each window the change of the product of its others along `t`."""
    elements = _windows(x, window)
    return others_slope(_windows(t, window), elements, op.zeros_like(elements), 0, 1)


def _slope_back(g: Any, t: Any, x: Any, window: Window) -> Any:
    return _summed(op.multiply_absorbing(g, _slope(t, x, window)), x, window)


def _product_samples() -> list[Sample]:
    zeros = Values([[2.0, 0.0, 3.0, 0.0], [0.0, 1.5, -1.0, 2.0]])
    line, plane = ((0, 0),), ((0, 0), (0, 0))
    return [
        sample((2, 5), window=Window((3,), (1,), (1,), line)),
        sample((6,), window=Window((2,), (2,), (2,), line)),
        sample((3, 4), window=Window((2, 2), (1, 2), (1, 1), plane)),
        sample(zeros, window=Window((2, 2), (1, 1), (1, 1), plane)),
        sample((0, 4), window=Window((2,), (1,), (1,), line)),
    ]


def _pull_samples() -> list[Sample]:
    made = []
    for s in _product_samples():
        x, window = s.inputs[0], s.params["window"]
        shape = x if isinstance(x, tuple) else (2, 4)
        rank = len(window.kernel)
        made.append(sample((*shape[:-rank], *window.positions(shape[-rank:])), x, **s.params))
    return made


def _push_samples() -> list[Sample]:
    inputs = [(s.inputs[0], s.params) for s in _product_samples()]
    return [sample(x if isinstance(x, tuple) else (2, 4), x, **params) for x, params in inputs]


def _batch(product: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    return trailing(len(params["window"].kernel))(product, inputs, batched, size, params)


@primitive(
    (lambda g, x, window: op.window_product_pull(g, x, window=window),),
    (lambda t, x, window: op.window_product_push(t, x, window=window),),
    samples=_product_samples,
    batch=_batch,
)
def window_product(xp: Any, x: Any, *, window: Window) -> Any:
    """Product of each window; `window` has no padding."""

    def multiplied(x: Any) -> Any:
        first, *others = _views(xp, x, window)
        out = xp.array(first, order="C")
        for element in others:
            out *= element
        return out

    with xp.errstate(all="ignore"):
        return zero_absorbs(xp, multiplied, x)


def _views(xp: Any, x: Any, window: Window) -> Any:
    """Yield a view of the elements at each offset in all windows."""
    windows = xp.sliding_windows(x, *window)
    lead = (slice(None),) * (x.ndim - len(window.kernel))
    return (windows[(*lead, *offset)] for offset in itertools.product(*map(range, window.kernel)))


def _divides(xp: Any, x: Any, window: Window) -> bool:
    """Whether all products of some elements of a window are normal numbers in float64."""
    if x.dtype.kind != "f" or not x.size:
        return False
    size = xp.abs(x)
    least, most, count = float(xp.min(size)), float(xp.max(size)), math.prod(window.kernel)
    if not 0 < least <= most < math.inf:
        return False
    return count * max(-math.log2(least), math.log2(most)) < _WIDEST


@primitive(
    (
        lambda c, x, window: op.window_product_push(c, x, window=window),
        lambda c, g, x, window: _slope_back(g, c, x, window),
    ),
    (
        lambda t, x, window: op.window_product_pull(t, x, window=window),
        lambda t, g, x, window: _slope_back(g, t, x, window),
    ),
    samples=_pull_samples,
    batch=_batch,
)
def _window_product_pull(xp: Any, g: Any, x: Any, *, window: Window) -> Any:
    """Cotangent of the elements of the windows, given that of the products."""
    if _divides(xp, x, window):
        wide = xp.astype(x, "float64", copy=False)
        with xp.errstate(all="ignore"):
            weighed = window_product.forward(xp, wide, window=window) * g
            if _kept(xp, weighed, g):
                parts = xp.broadcast_to(weighed, (math.prod(window.kernel), *weighed.shape))
                total = xp.overlap_add(parts, x.shape[-len(window.kernel) :], *window)
                total /= wide
                return xp.astype(total, x.dtype, copy=False)
    return _summed(op.multiply_absorbing(g, product_of_others(_windows(x, window), 0)), x, window)


def _kept(xp: Any, products: Any, g: Any) -> bool:
    """Whether no product with `g` overflowed or underflowed."""
    size = xp.abs(products)
    tiny = xp.finfo(products.dtype).tiny
    if not (size.size and xp.max(size) < math.inf):
        return False
    return bool(xp.min(size) >= tiny) or not xp.any((size < tiny) & (g != 0))


@primitive(
    (
        lambda g, x, window: op.window_product_pull(g, x, window=window),
        lambda g, v, x, window: _slope_back(g, v, x, window),
    ),
    (
        lambda t, x, window: op.window_product_push(t, x, window=window),
        lambda t, v, x, window: op.sum(
            op.multiply_absorbing(_windows(t, window), _slope(v, x, window)), axis=(0,), keepdims=False
        ),
    ),
    samples=_push_samples,
    batch=_batch,
)
def _window_product_push(xp: Any, v: Any, x: Any, *, window: Window) -> Any:
    """Tangent of the products, given that of the elements: the transpose."""
    others = product_of_others(_windows(x, window), 0)
    return op.sum(op.multiply_absorbing(_windows(v, window), others), axis=(0,), keepdims=False)
