"""Sums, products and quotients with their rounding errors: pairs of floats as one number of twice the length.

Dekker's and Knuth's error-free transformations; products take the fused multiply-add.
"""

from __future__ import annotations

from typing import NamedTuple

from everyo.compiler.elementary.builder import Operand, Value, fma


class Pair(NamedTuple):
    """The number ``high + low``, `low` being small beside `high`."""

    high: Value
    low: Value


def fast_two_sum(x: Value, y: Value) -> Pair:
    """Return ``x + y`` and its rounding error, for ``|x| >= |y|`` or x = 0."""
    total = x + y
    return Pair(total, y - (total - x))


def two_sum(x: Value, y: Operand) -> Pair:
    """Return ``x + y`` and its rounding error."""
    y = x.like(y)
    total = x + y
    part = total - x
    return Pair(total, (x - (total - part)) + (y - part))


def two_product(x: Value, y: Operand) -> Pair:
    """Return ``x * y`` and its rounding error."""
    product = x * y
    return Pair(product, fma(x, y, -product))


def add(x: Pair, y: Pair) -> Pair:
    """Return ``x + y`` for ``|x| >= |y|`` or x = 0."""
    high, low = fast_two_sum(x.high, y.high)
    return Pair(*fast_two_sum(high, low + (x.low + y.low)))


def multiply(x: Pair, y: Pair) -> Pair:
    """Return ``x * y``."""
    high, low = two_product(x.high, y.high)
    return Pair(high, fma(x.high, y.low, fma(x.low, y.high, low)))


def quotient(x: Pair, y: Pair) -> Value:
    """Return ``x / y`` as one float, with hardly more than the last rounding."""
    inverse = 1 / y.high
    q = x.high * inverse
    rest = fma(-q, y.high, x.high) + fma(-q, y.low, x.low)
    return fma(rest, inverse, q)


def divide(x: Pair, y: Pair) -> Pair:
    """Return ``x / y`` as a pair."""
    inverse = 1 / y.high
    q = x.high * inverse
    rest = fma(-q, y.high, x.high) + fma(-q, y.low, x.low)
    return Pair(*fast_two_sum(q, rest * inverse))
