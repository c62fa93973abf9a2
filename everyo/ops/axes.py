"""Axes, shapes, flags, functions and other arguments that are no operands, checked in one place."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from everyo.errors import (
    ArgumentError,
    DTypeError,
    IndexingError,
    ShapeError,
    UnsupportedOperationError,
    describe,
)

_LARGEST = sys.maxsize // 16  # elements of the widest dtype that there are addresses for
_HABITS = {  # what else may have been meant
    "max": "; the larger elements of two tensors are eo.maximum(a, b)",
    "min": "; the smaller elements of two tensors are eo.minimum(a, b)",
    "flatten": "; with the first axis counting fastest write x.T.flatten()",
    "repeat": "; copies of the whole are eo.tile(x, (2, 2))",
}


def normalize_axis(axis: int, ndim: int, operation: str) -> int:
    """Return `axis` counted from the front.

    Raises
    ------
    IndexingError
        If there is no such axis.
    DTypeError
        If it is no integer.
    """
    if axis.__class__ is int and -ndim <= axis < ndim:
        return axis % ndim
    if axis.__class__ is bool:  # a flag in the place of an axis, as in x.sum(True)
        raise _no_integer(axis, "an axis", operation)
    position = as_integer(axis, "an axis", operation)
    if not -ndim <= position < ndim:
        raise IndexingError(
            f"axis {position} does not exist",
            operation=operation,
            expected=f"-{ndim} <= axis < {ndim}" if ndim else "no axis: the tensor is 0-d",
            found=str(position),
            remedy=("count axes from 0, or from -1 for the last" if ndim else "leave the axis out")
            + _HABITS.get(operation, ""),
        )
    return position % ndim


def as_diagonal(k: Any, rows: int, columns: int, operation: str) -> int:
    """Return which diagonal an integer of any size names; beyond the last ones, one that has no elements."""
    return min(max(as_integer(k, "k", operation, unbounded=True), -rows), columns)


def as_integer(value: Any, name: str, operation: str, unbounded: bool = False) -> int:
    """Return a parameter that must be one integer; DTypeError for anything else.

    One that no array could have as a size is an ArgumentError, unless the parameter is `unbounded`.
    """
    try:
        found = operator.index(value)
    except TypeError:
        raise _no_integer(value, name, operation) from None
    except UnsupportedOperationError as error:
        if not str(error.found).startswith("a batch of"):
            raise
        raise UnsupportedOperationError(
            f"{name} differs from example to example under vmap",
            operation=operation,
            expected="one integer for the whole batch",
            found=error.found,
            remedy=f"pass {name} as a number, not a batched tensor, or compute indices from it",
        ) from None
    if unbounded or -sys.maxsize <= found <= sys.maxsize:
        return found
    raise ArgumentError(
        f"{name} is too large",
        operation=operation,
        expected="an integer of at most 64 bits",
        found=str(found),
        remedy="pass the size of the axis, or another number of its order",
    )


def is_one_of(value: Any, choices: Sequence[Any]) -> bool:
    """Whether an option is a text or a number of those that there are; an array is neither."""
    return isinstance(value, (str, int, float)) and value in choices


def _no_integer(value: Any, name: str, operation: str) -> DTypeError:
    return DTypeError(
        f"{name} must be an integer",
        operation=operation,
        expected="an int",
        found=repr(value),
        remedy="convert it: int(...)" + _HABITS.get(operation, ""),
    )


def as_flag(value: Any, name: str, operation: str) -> bool:
    """Return a parameter that is yes or no; DTypeError for what is neither, such as an array of several."""
    if value is True or value is False:
        return value
    try:
        if not isinstance(value, str):
            return bool(value)
    except (TypeError, ValueError):
        pass
    raise DTypeError(
        f"{name} is neither true nor false",
        operation=operation,
        expected="True or False",
        found=repr(value),
        remedy="reduce an array with .all() or .any()",
    )


def require_callable(
    value: Any, operation: str, remedy: str = "pass a function, for example lambda x: x * x"
) -> None:
    """Raise ArgumentError for an argument that should be a function and cannot be called."""
    if not callable(value):
        raise ArgumentError(
            "what should be a function cannot be called",
            operation=operation,
            expected="a callable",
            found=describe(value),
            remedy=remedy,
        )


def listed(value: Any) -> Any:
    """Return positions as a list where they are in an array or a tensor; anything else as it is."""
    return value.tolist() if getattr(value, "shape", ()) and not isinstance(value, type) else value


def as_items(value: Any, name: str, operation: str) -> list[Any]:
    """Return the items of a parameter that must be a sequence as a list; DTypeError for what has none."""
    try:
        return list(value)
    except TypeError:
        if isinstance(value, Iterable) and getattr(value, "shape", None) != ():
            raise  # the error of an item
    raise DTypeError(
        f"{name} must be a sequence",
        operation=operation,
        expected="a list or a tuple",
        found=describe(value) if hasattr(value, "shape") else repr(value),
        remedy="put it in a list",
    )


def as_integers(value: Any, name: str, operation: str) -> tuple[int, ...]:
    """Return a parameter that is an integer or a sequence of integers, but no flag, as a tuple."""
    items = value if isinstance(value, Sequence) else (value,)
    if bool in map(type, items):
        raise _no_integer(value, name, operation)
    return tuple([as_integer(item, name, operation) for item in items])


def normalize_axes(axis: int | Sequence[int] | None, ndim: int, operation: str) -> tuple[int, ...]:
    """Return `axis` as a sorted tuple of positive axes; None means all of them."""
    if axis is None:
        return tuple(range(ndim))
    if axis.__class__ is int or not isinstance(axis, Sequence):  # the second is asked in ten times the time
        return (normalize_axis(axis, ndim, operation),)
    axes = tuple(sorted(normalize_axis(a, ndim, operation) for a in axis))
    if len(set(axes)) < len(axes):
        raise ShapeError(
            "an axis is named twice",
            operation=operation,
            expected="different axes",
            found=str(tuple(axis)),
            remedy="name each axis once; a negative one counts from the end",
        )
    return axes


def as_list(shape: Any) -> Sequence[Any]:
    """Return a shape, or another list of numbers, as a sequence: it may be one number or a 1-d array."""
    if shape.__class__ is tuple:
        return shape
    items = listed(shape)
    return items if isinstance(items, Sequence) else (items,)


def normalize_shape(shape: Any, operation: str) -> tuple[int, ...]:
    """Return a shape as a tuple of ints; ShapeError or DTypeError for what is none."""
    try:
        if bool in map(type, items := as_list(shape)):
            raise TypeError
        sizes = tuple(map(operator.index, items))
    except TypeError:
        raise DTypeError(
            "a shape consists of integers",
            operation=operation,
            expected="an int or a tuple of ints",
            found=repr(shape),
            remedy="convert the sizes: int(n)",
        ) from None
    if min(sizes, default=0) < 0:
        raise ShapeError(
            "a size cannot be negative",
            operation=operation,
            expected="sizes of at least 0",
            found=str(sizes),
            remedy="compute the size with max(n, 0); -1 stands for an unknown size in reshape only",
        )
    if math.prod(sizes) > _LARGEST:
        raise ShapeError(
            "no memory holds so many elements",
            operation=operation,
            expected=f"at most {_LARGEST} elements",
            found=str(sizes),
            remedy="take smaller sizes, or compute in parts",
        )
    return sizes
