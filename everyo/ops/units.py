"""Powers of two near the largest element: measured in one, no square and no product leaves the range."""

from __future__ import annotations

from typing import Any

from everyo.core.batching import along
from everyo.core.dtypes import float64
from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.ops.families import primitive

__all__: list[str] = []


def _layout(examples: Any, params: Any) -> list[Any]:
    (x,), axis = examples, params["axis"]
    real = (x.dtype if x.dtype.kind in "fc" else float64).type(0).real.dtype
    return [(tuple(1 if i in axis else n for i, n in enumerate(x.shape)), real)]


@primitive(
    None,
    None,
    samples=lambda: [sample((2, 3, 2), axis=(1, 2)), sample((2, 3), axis=(1,)), sample((0, 2), axis=(0, 1))],
    batch=along("axis"),
    missing="its result is discrete",
    specs=_layout,
)
def _unit(xp: Any, x: Any, *, axis: tuple[int, ...]) -> Any:
    largest = xp.amax(xp.abs(x), axis=axis, keepdims=True, initial=0) + 0.0
    limit = -int(xp.finfo(largest.dtype).minexp) - 2
    exponent = xp.frexp(xp.where(xp.isfinite(largest), largest, 1))[1]
    return xp.ldexp(xp.ones_like(largest), xp.minimum(xp.maximum(exponent, -limit), limit))


def unit_of(x: Any, axes: int = 2) -> Any:
    """Return a power of two near the largest element of each matrix, or of what the last `axes` axes hold."""
    rank = len(x.shape)
    return op.unit(x, axis=tuple(range(rank - axes, rank)))
