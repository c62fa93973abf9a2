"""Shapes that broadcast together."""

from __future__ import annotations

from collections.abc import Sequence

from everyo.core.device import backend_for
from everyo.errors import ShapeError
from everyo.ops.axes import normalize_shape

__all__ = ["broadcast_shapes"]


def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """Return the shape that tensors of these shapes broadcast to.

    It is about shapes alone and has no derivative.

    Parameters
    ----------
    *shapes : int or sequence of int
        Counted from the last axis, sizes that are equal or 1.

    Returns
    -------
    tuple of int
        ``()`` for no shapes.

    Raises
    ------
    ShapeError
        If they do not broadcast together, or a size is negative.
    DTypeError
        If a size is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    sizes = [normalize_shape(shape, "broadcast_shapes") for shape in shapes]
    try:
        return tuple(backend_for(None)[0].xp.broadcast_shapes(*sizes))
    except ValueError as error:
        raise ShapeError(
            "the shapes do not broadcast together",
            operation="broadcast_shapes",
            expected="axes, counted from the last, that are equal or 1",
            found=" and ".join(map(str, sizes)),
            remedy="insert or repeat axes first",
        ) from error
