"""Axis arguments, checked and made positive in one place."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from everyo.errors import DTypeError, IndexingError, ShapeError


def normalize_axis(axis: int, ndim: int, operation: str) -> int:
    """Return `axis` counted from the front.

    Raises
    ------
    IndexingError
        If there is no such axis.
    DTypeError
        If it is no integer.
    """
    try:
        position = operator.index(axis)
    except TypeError:
        raise DTypeError(
            "an axis must be an integer", operation=operation, expected="an int", found=repr(axis)
        ) from None
    if not -ndim <= position < ndim:
        raise IndexingError(
            f"axis {position} does not exist",
            operation=operation,
            expected=f"-{ndim} <= axis < {ndim}" if ndim else "no axis: the tensor is 0-d",
            found=str(position),
        )
    return position % ndim


def normalize_axes(axis: int | Sequence[int] | None, ndim: int, operation: str) -> tuple[int, ...]:
    """Return `axis` as a sorted tuple of positive axes; None means all of them."""
    if axis is None:
        return tuple(range(ndim))
    if not isinstance(axis, Sequence):
        return (normalize_axis(axis, ndim, operation),)
    axes = tuple(sorted(normalize_axis(a, ndim, operation) for a in axis))
    if len(set(axes)) < len(axes):
        raise ShapeError(
            "an axis is named twice", operation=operation, expected="different axes", found=str(tuple(axis))
        )
    return axes
