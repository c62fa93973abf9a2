"""What derivatives are outside of the domain of a function, and samples that functions share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample

PAIRS = (((), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((0, 2), (2,)))  # shapes that broadcast


def nan_where(condition: Any, x: Any) -> Any:
    """Return a factor that makes a slope and all its derivatives NaN where a condition holds."""
    return op.where(condition, math.nan, op.ones_like(x))


def of_orders(values: Mapping[int, Sequence[float]]) -> list[Sample]:
    """Return samples of derivatives of several orders: shapes, and for each order the values."""
    shapes = [sample((2, 3), order=1), sample((), order=2), sample((0,), order=1)]
    return [*shapes, *(sample(Values([*found]), order=order) for order, found in values.items())]


def whole_orders() -> list[Sample]:
    """Return samples whose first operand holds whole numbers."""
    return [
        sample(Values(2.0), ()),
        sample(Values([0.0, 1.0, 4.0]), (2, 3)),
        sample(Values([[1.0], [3.0]]), (1, 3)),
        sample(Values([[], []]), (2, 1)),
    ]
