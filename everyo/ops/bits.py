"""Bits of integers: their number, and the bitwise functions under NumPy's names."""

from __future__ import annotations

from typing import Any

from everyo.core.samples import Integers, Values, sample
from everyo.ops.comparison import bitwise_invert, bitwise_left_shift, bitwise_right_shift
from everyo.ops.families import discrete

__all__ = ["bitwise_count", "bitwise_not", "invert", "left_shift", "right_shift"]


@discrete(
    samples=lambda: [sample(Integers((2, 3), 200)), sample(Values([0, 7, -7])), sample(Integers((0,), 8))]
)
def bitwise_count(xp: Any, x: Any) -> Any:
    """How many bits of the absolute value of an integer are set, elementwise.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.bitwise_count(eo.tensor([7, 8, -7])))
    [3 1 3]
    """
    return xp.bitwise_count(x)


bitwise_not = invert = bitwise_invert
left_shift, right_shift = bitwise_left_shift, bitwise_right_shift
