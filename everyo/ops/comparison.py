"""Comparisons, logic, bits and tests of numbers, elementwise. The results carry no gradient."""

from __future__ import annotations

from typing import Any

from everyo.core.samples import Integers, Sample, Values, sample
from everyo.ops.families import discrete

__all__ = [
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "logical_and", "logical_or", "logical_xor", "logical_not",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert", "bitwise_left_shift", "bitwise_right_shift",
    "isfinite", "isinf", "isnan", "signbit",
]  # fmt: skip


def _pairs_of_integers() -> list[Sample]:
    return [
        sample(Integers((2, 3), 8), Integers((3,), 4)),
        sample(Integers((), 8), 2),
        sample(Integers((0,), 8), 1),
    ]


@discrete
def equal(xp: Any, x1: Any, x2: Any) -> Any:
    """Whether ``x1 == x2``, elementwise.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.equal(eo.tensor([1.0, 2.0]), 2.0))
    [False  True]
    """
    return xp.equal(x1, x2)


@discrete
def not_equal(xp: Any, x1: Any, x2: Any) -> Any:
    """Whether ``x1 != x2``, elementwise.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.not_equal(eo.tensor([1.0, 2.0]), 2.0))
    [ True False]
    """
    return xp.not_equal(x1, x2)


@discrete
def less(xp: Any, x1: Any, x2: Any) -> Any:
    """Whether ``x1 < x2``, elementwise.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.less(eo.tensor([1.0, 2.0]), 2.0))
    [ True False]
    """
    return xp.less(x1, x2)


@discrete
def less_equal(xp: Any, x1: Any, x2: Any) -> Any:
    """Whether ``x1 <= x2``, elementwise.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.less_equal(eo.tensor([2.0, 3.0]), 2.0))
    [ True False]
    """
    return xp.less_equal(x1, x2)


@discrete
def greater(xp: Any, x1: Any, x2: Any) -> Any:
    """Whether ``x1 > x2``, elementwise.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.greater(eo.tensor([2.0, 3.0]), 2.0))
    [False  True]
    """
    return xp.greater(x1, x2)


@discrete
def greater_equal(xp: Any, x1: Any, x2: Any) -> Any:
    """Whether ``x1 >= x2``, elementwise.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.greater_equal(eo.tensor([1.0, 2.0]), 2.0))
    [False  True]
    """
    return xp.greater_equal(x1, x2)


@discrete
def logical_and(xp: Any, x1: Any, x2: Any) -> Any:
    """Whether both are true (not 0), elementwise.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.logical_and(eo.tensor([True, True]), eo.tensor([True, False])))
    [ True False]
    """
    return xp.logical_and(x1, x2)


@discrete
def logical_or(xp: Any, x1: Any, x2: Any) -> Any:
    """Whether either is true (not 0), elementwise.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.logical_or(eo.tensor([True, False]), eo.tensor([False, False])))
    [ True False]
    """
    return xp.logical_or(x1, x2)


@discrete
def logical_xor(xp: Any, x1: Any, x2: Any) -> Any:
    """Whether exactly one is true (not 0), elementwise.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.logical_xor(eo.tensor([True, True]), eo.tensor([True, False])))
    [False  True]
    """
    return xp.logical_xor(x1, x2)


@discrete
def logical_not(xp: Any, x: Any) -> Any:
    """Whether it is false (0), elementwise.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.logical_not(eo.tensor([True, False])))
    [False  True]
    """
    return xp.logical_not(x)


@discrete(samples=_pairs_of_integers)
def bitwise_and(xp: Any, x1: Any, x2: Any) -> Any:
    """Bits set in both, elementwise, of integers or booleans: ``x1 & x2``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.bitwise_and(eo.tensor([6, 5]), 3))
    [2 1]
    """
    return xp.bitwise_and(x1, x2)


@discrete(samples=_pairs_of_integers)
def bitwise_or(xp: Any, x1: Any, x2: Any) -> Any:
    """Bits set in either, elementwise, of integers or booleans: ``x1 | x2``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.bitwise_or(eo.tensor([6, 5]), 3))
    [7 7]
    """
    return xp.bitwise_or(x1, x2)


@discrete(samples=_pairs_of_integers)
def bitwise_xor(xp: Any, x1: Any, x2: Any) -> Any:
    """Bits set in exactly one, elementwise, of integers or booleans: ``x1 ^ x2``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.bitwise_xor(eo.tensor([6, 5]), 3))
    [5 6]
    """
    return xp.bitwise_xor(x1, x2)


@discrete(samples=_pairs_of_integers)
def bitwise_left_shift(xp: Any, x1: Any, x2: Any) -> Any:
    """Bits of integers moved to the left, elementwise: ``x1 << x2``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.bitwise_left_shift(eo.tensor([1, 3]), 2))
    [ 4 12]
    """
    return xp.bitwise_left_shift(x1, x2)


@discrete(samples=_pairs_of_integers)
def bitwise_right_shift(xp: Any, x1: Any, x2: Any) -> Any:
    """Bits of integers moved to the right, elementwise: ``x1 >> x2``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.bitwise_right_shift(eo.tensor([4, 13]), 2))
    [1 3]
    """
    return xp.bitwise_right_shift(x1, x2)


@discrete(
    samples=lambda: [sample(Integers((3,), 8)), sample(Values([True, False])), sample(Integers((0,), 8))]
)
def bitwise_invert(xp: Any, x: Any) -> Any:
    """Every bit the other way, elementwise, of integers or booleans: ``~x``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.bitwise_invert(eo.tensor([True, False])))
    [False  True]
    """
    return xp.bitwise_invert(x)


@discrete
def isnan(xp: Any, x: Any) -> Any:
    """Whether it is NaN, elementwise.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.isnan(eo.tensor([1.0, float("nan")])))
    [False  True]
    """
    return xp.isnan(x)


@discrete
def isinf(xp: Any, x: Any) -> Any:
    """Whether it is infinite, elementwise.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.isinf(eo.tensor([1.0, float("-inf")])))
    [False  True]
    """
    return xp.isinf(x)


@discrete
def isfinite(xp: Any, x: Any) -> Any:
    """Whether it is neither infinite nor NaN, elementwise.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.isfinite(eo.tensor([1.0, float("inf")])))
    [ True False]
    """
    return xp.isfinite(x)


@discrete
def signbit(xp: Any, x: Any) -> Any:
    """Whether the sign of a real number is negative, elementwise; true for -0.0.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.signbit(eo.tensor([0.0, -0.0])))
    [False  True]
    """
    return xp.signbit(x)
