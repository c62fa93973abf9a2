"""What derivatives are outside of the domain of a function."""

from __future__ import annotations

import math
from typing import Any

from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample


def nan_where(condition: Any, x: Any) -> Any:
    """Return a factor that makes a slope and all its derivatives NaN where a condition holds."""
    return op.where(condition, math.nan, op.ones_like(x))


def whole_orders() -> list[Sample]:
    """Return samples whose first operand holds whole numbers."""
    return [
        sample(Values(2.0), ()),
        sample(Values([0.0, 1.0, 4.0]), (2, 3)),
        sample(Values([[1.0], [3.0]]), (1, 3)),
        sample(Values([[], []]), (2, 1)),
    ]
