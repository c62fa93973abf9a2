"""One of two numbers or a mixture of them, and angles in degrees, elementwise."""

from __future__ import annotations

from typing import Any

from everyo.backends.accelerated import LARGE, fused
from everyo.backends.accelerated import elementwise as accelerated
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.ops.families import elementwise

__all__ = ["deg2rad", "degrees", "fmax", "fmin", "heaviside", "lerp", "rad2deg", "radians"]


@fused
def _greater_share(g: Any, x1: Any, x2: Any) -> Any:
    """Return what `x1` gets: all where it is greater or the other NaN, half where the two are equal."""
    return op.where(x1 == x2, 0.5 * g, op.where(op.logical_or(x1 > x2, op.isnan(x2)), g, 0))


@fused
def _smaller_share(g: Any, x1: Any, x2: Any) -> Any:
    return op.where(x1 == x2, 0.5 * g, op.where(op.logical_or(x1 < x2, op.isnan(x2)), g, 0))


def _pairs() -> list[Sample]:
    shapes = [((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((0, 2), (2,))]
    ties = sample(Values([1.0, 2.0, 3.0]), Values([1.0, 1.0, 4.0]))
    return [*(sample(*pair) for pair in shapes), ties, sample((2, 3), 0.25)]


@elementwise(_greater_share, lambda g, x1, x2: _greater_share(g, x2, x1), samples=_pairs)
def fmax(xp: Any, x1: Any, x2: Any) -> Any:
    """The greater of two, elementwise; NaN only if both are: where one is, the other.

    The derivative goes to the one that was taken, half to each where they are equal.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.fmax(eo.tensor([1.0, float("nan"), 3.0]), 2.0))
    [2. 2. 3.]
    """
    return xp.fmax(x1, x2)


@elementwise(_smaller_share, lambda g, x1, x2: _smaller_share(g, x2, x1), samples=_pairs)
def fmin(xp: Any, x1: Any, x2: Any) -> Any:
    """The smaller of two, elementwise; NaN only if both are: where one is, the other.

    The derivative goes to the one that was taken, half to each where they are equal.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.fmin(eo.tensor([1.0, float("nan"), 3.0]), 2.0))
    [1. 2. 2.]
    """
    return xp.fmin(x1, x2)


@elementwise(
    lambda g: op.zeros_like(g),
    lambda g, x1: op.where(x1 == 0, g, 0),
    samples=lambda: [
        sample((), ()),
        sample((2, 3), (3,)),
        sample((0, 2), (2,)),
        sample((3,), 0.5),
        sample(Values([[0], [-1], [3]]), (2,)),
    ],
    jumps=(0,),
)
def heaviside(xp: Any, x1: Any, x2: Any) -> Any:
    """0 where `x1` is negative, 1 where it is positive, `x2` where it is 0, elementwise. Real numbers only.

    The derivative with respect to `x1` is 0, that with respect to `x2` is 1 where `x1` is 0.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.heaviside(eo.tensor([-2.0, 0.0, 3.0]), 0.5))
    [0.  0.5 1. ]
    """
    return xp.heaviside(x1, x2)


@elementwise(
    lambda g, weight: g * (1 - weight),
    lambda g, weight: g * weight,
    lambda g, start, end: g * (end - start),
    samples=lambda: [
        sample((), (), ()),
        sample((3,), (3,), 0.25),
        sample((2, 3), (3,), 0.75),
        sample((2, 1), (1, 3), (2, 3)),
        sample((0, 2), (2,), 1.5),
        sample(1.0, (2,), Values([0.0, 1.0])),
    ],
)
def lerp(xp: Any, start: Any, end: Any, weight: Any) -> Any:
    """``start + weight * (end - start)``, elementwise; exactly `end` for weight 1.

    ``d lerp = (1 - weight) dstart + weight dend + (end - start) dweight``.

    Parameters
    ----------
    start, end, weight : tensor, array or number
        Shapes that broadcast; a number takes the others' dtype. A weight may lie outside of 0 to 1.

    Returns
    -------
    Tensor
        Of the broadcast shape and the common dtype.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If an operand's elements are not numbers, or all are booleans.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.lerp(eo.tensor([0.0, 10.0]), eo.tensor([4.0, 20.0]), 0.25))
    [ 1.  12.5]
    """
    if getattr(start, "size", 0) >= LARGE and (found := accelerated("lerp", start, end, weight)) is not None:
        return found
    dtype = xp.result_type(start, end, weight)  # unsigned integers have no negative differences
    start, end = (x if getattr(x, "dtype", dtype) == dtype else xp.astype(x, dtype) for x in (start, end))
    far = xp.abs(weight) >= 0.5  # from there on it is counted from the end
    if getattr(weight, "ndim", 0):
        return xp.where(far, end, start) + (weight - far) * (end - start)
    return end + (weight - 1) * (end - start) if far else start + weight * (end - start)


@elementwise(lambda g: op.deg2rad(g))
def deg2rad(xp: Any, x: Any) -> Any:
    """Degrees to radians, elementwise: ``d deg2rad(x) = pi / 180 dx``. ``eo.radians`` is the same function.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.deg2rad(eo.tensor(180.0)):.4f}")
    3.1416
    """
    return xp.deg2rad(x)


@elementwise(lambda g: op.rad2deg(g))
def rad2deg(xp: Any, x: Any) -> Any:
    """Radians to degrees, elementwise: ``d rad2deg(x) = 180 / pi dx``. ``eo.degrees`` is the same function.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.rad2deg(eo.tensor(1.0)):.4f}")
    57.2958
    """
    return xp.rad2deg(x)


degrees, radians = rad2deg, deg2rad
