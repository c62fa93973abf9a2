"""Bounds of a search as trees like its parameters, made into the vectors that SciPy takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from everyo.errors import ShapeError, describe
from everyo.transforms.raveling import Layout


def paired(bounds: Any, layout: Layout, operation: str) -> Any:
    """Return bounds of `scipy.optimize.minimize`: a pair for each element, a tree of pairs, or `Bounds`."""
    if bounds is None or hasattr(bounds, "lb"):
        return bounds if bounds is None else _in_object(bounds, layout, operation)
    if layout.structure is None:
        return bounds
    try:
        trees = layout.structure.flatten_up_to(bounds)
    except (ValueError, TypeError):
        if _holds_names(bounds):
            raise _misfit(
                operation, "a tree of pairs (lowest, highest) like the parameters", bounds
            ) from None
        return bounds  # one pair for each element, in their order
    rows = [_pairs(tree, size, operation) for tree, size in zip(trees, layout.sizes, strict=True)]
    return list(map(tuple, np.concatenate(rows).tolist())) if rows else bounds


def separate(bounds: Any, layout: Layout, operation: str) -> Any:
    """Return bounds of `scipy.optimize.least_squares`: two sides, flat or trees, or `Bounds`."""
    if hasattr(bounds, "lb"):
        return _in_object(bounds, layout, operation)
    if isinstance(bounds, Mapping) or len(bounds) != 2:
        raise _misfit(operation, "a pair (lowest, highest) of numbers, vectors or trees", bounds)
    return tuple(_flat(side, layout, operation) for side in bounds)


def _in_object(bounds: Any, layout: Layout, operation: str) -> Any:
    """Return a `Bounds` whose sides are vectors; SciPy has put a tree into an array of one object."""
    sides = (s.item() if s.dtype == object and s.size == 1 else s for s in (bounds.lb, bounds.ub))
    lower, upper = (_flat(side, layout, operation) for side in sides)
    return type(bounds)(lower, upper, bounds.keep_feasible)


def _flat(side: Any, layout: Layout, operation: str) -> Any:
    """Return one side as a vector if it is a tree like the parameters; numbers and vectors as they are."""
    if layout.structure is None:
        if np.ndim(side) < 2:
            return side
        leaves = [side]
    else:
        try:
            leaves = layout.structure.flatten_up_to(side)
        except (ValueError, TypeError):
            if _holds_names(side):
                raise _misfit(operation, f"a tree like the parameters, {layout.structure}", side) from None
            return side
    try:
        parts = [
            np.broadcast_to(np.asarray(leaf, np.float64), shape).ravel()
            for leaf, shape in zip(leaves, layout.shapes, strict=True)
        ]
    except ValueError:
        raise _misfit(operation, f"leaves that broadcast to the shapes {layout.shapes}", side) from None
    return np.concatenate(parts) if parts else side


def _pairs(bounds: Any, size: int, operation: str) -> Any:
    """Return the pairs for one leaf, (size, 2): one for all its elements, or one for each."""
    try:
        pairs = np.array([-np.inf, np.inf] if bounds is None else bounds, np.float64)
        if pairs.shape not in ((2,), (size, 2)):
            raise ValueError
    except (ValueError, TypeError):
        raise _misfit(
            operation, f"one pair (lowest, highest), or {size} of them, for each leaf", bounds
        ) from None
    pairs = np.broadcast_to(pairs, (size, 2))
    return np.where(np.isnan(pairs), [-np.inf, np.inf], pairs)  # None became NaN


def _holds_names(bounds: Any) -> bool:
    """Whether bounds have names in them, so that they cannot be flat ones."""
    return isinstance(bounds, Mapping) or (
        isinstance(bounds, (list, tuple)) and any(isinstance(side, Mapping) for side in bounds)
    )


def _misfit(operation: str, expected: str, found: Any) -> ShapeError:
    return ShapeError(
        "the bounds do not fit the parameters",
        operation=operation,
        expected=expected,
        found=f"{type(found).__name__}: {found!r}"[:200] if not hasattr(found, "shape") else describe(found),
        remedy="minimize takes {'a': (0, 10), 'b': (None, 1)}, least_squares a pair of trees "
        "({'a': 0, 'b': -np.inf}, {'a': 10, 'b': 1}), and both Bounds(lowest, highest) of trees",
    )
