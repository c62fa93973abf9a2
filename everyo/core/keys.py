"""Keys: what tells values apart that are equal to Python, as 1, 1.0 and True, or 0.0 and -0.0."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import date, time
from numbers import Number
from typing import Any

import numpy as np


def typed(x: Any) -> Any:
    """Return a key of a value, with a hash if the value has one: equal keys are of values that mean the same.

    What a class takes for equal is equal; but numbers, also those in containers, dataclasses and named
    tuples, are compared with their types and signs.
    """
    kind = type(x)
    if x is None or kind is str or kind is int or kind is bool:
        return kind, x
    if kind is float:
        return kind, x.hex()
    if kind is complex or isinstance(x, np.generic):
        return kind, repr(x)
    if isinstance(x, (Number, date, time)):  # decimals keep their digits, times their zones
        return kind, x, repr(x)
    if isinstance(x, (frozenset, set)):
        return kind, x, frozenset(map(typed, x))
    return kind, *([] if kind in EXACTLY else [x]), *map(typed, _parts(x))


EXACTLY = frozenset({tuple, list, dict, slice, range})  # which are what they hold


def _parts(x: Any) -> Iterator[Any]:
    """Yield what a value consists of, where its equality is that of its parts."""
    if isinstance(x, (tuple, list)):
        yield from x
    elif isinstance(x, dict):
        yield from x.items()
    elif isinstance(x, (slice, range)):
        yield from (x.start, x.stop, x.step)
    elif dataclasses.is_dataclass(x) and not isinstance(x, type):
        yield from (getattr(x, field.name) for field in dataclasses.fields(x) if field.compare)


class Typed:
    """A value that equals another only if their keys do."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Typed) and typed(self.value) == typed(other.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)
