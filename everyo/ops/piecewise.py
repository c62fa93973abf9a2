"""Elementwise choice and rounding: functions made of pieces, with a convention where the pieces meet."""

from __future__ import annotations

from typing import Any

from everyo.backends.accelerated import fused
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Distinct, Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.ops.axes import as_integer
from everyo.ops.families import elementwise
from everyo.ops.signatures import explained

__all__ = ["ceil", "clip", "floor", "maximum", "minimum", "round", "trunc", "where"]


@elementwise(lambda g: op.zeros_like(g), jumps=(0,))
def floor(xp: Any, x: Any) -> Any:
    """Largest whole number that is not above, elementwise. The derivative is 0.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.floor(eo.tensor([1.7, -1.2])))
    [ 1. -2.]
    """
    return xp.floor(x)


@elementwise(lambda g: op.zeros_like(g), jumps=(0,))
def ceil(xp: Any, x: Any) -> Any:
    """Smallest whole number that is not below, elementwise. The derivative is 0.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.ceil(eo.tensor([1.2, -1.7])))
    [ 2. -1.]
    """
    return xp.ceil(x)


@elementwise(lambda g: op.zeros_like(g), jumps=(0,))
def _round(xp: Any, x: Any) -> Any:
    return xp.round(x)


@elementwise(lambda g: op.zeros_like(g), jumps=(0,), samples=lambda: [sample((2, 3), decimals=1)])
def _round_to(xp: Any, x: Any, *, decimals: int) -> Any:
    return xp.round(x, decimals=decimals)


@explained
def round(x: Any, /, decimals: int = 0) -> Tensor:
    """Nearest number with so many decimals, elementwise; halves go to the even one. The derivative is 0.

    Parameters
    ----------
    x : tensor, array or number
        Of any shape and dtype; of a complex number both parts are rounded.
    decimals : int, default 0
        How many decimals stay: none for whole numbers, and a negative number for multiples of 10, 100, ...

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Raises
    ------
    DTypeError
        If `decimals` is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.round(eo.tensor([0.5, 1.5, -1.7])), eo.round(eo.tensor([2.345]), decimals=1))
    [ 0.  2. -2.] [2.3]
    """
    if decimals.__class__ is int and decimals == 0:
        return _round(x)
    decimals = as_integer(decimals, "the number of decimals", "round")
    return apply(op.round_to, (x,), {"decimals": decimals}) if decimals else _round(x)


@elementwise(lambda g: op.zeros_like(g), jumps=(0,))
def trunc(xp: Any, x: Any) -> Any:
    """Nearest whole number towards 0, elementwise. The derivative is 0.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.trunc(eo.tensor([1.7, -1.7])))
    [ 1. -1.]
    """
    return xp.trunc(x)


@fused
def _greater_share(g: Any, x1: Any, x2: Any) -> Any:
    """The part of a maximum's cotangent that belongs to `x1`; a NaN takes it whole."""
    return op.where(x1 == x2, 0.5 * g, op.where(x1 < x2, 0, g))


@fused
def _smaller_share(g: Any, x1: Any, x2: Any) -> Any:
    return op.where(x1 == x2, 0.5 * g, op.where(x1 > x2, 0, g))


def _pairs() -> list[Sample]:
    shapes = [((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((0, 2), (2,))]
    ties = sample(Values([1.0, 2.0, 3.0]), Values([1.0, 1.0, 4.0]))
    return [*(sample(*pair) for pair in shapes), ties, sample((2, 3), 0.25)]


@elementwise(_greater_share, lambda g, x1, x2: _greater_share(g, x2, x1), samples=_pairs)
def maximum(xp: Any, x1: Any, x2: Any) -> Any:
    """The greater of two, elementwise; NaN if either is.

    The derivative goes to the greater one, half to each where they are equal.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> eo.maximum(x, 2.0).sum().backward()
    >>> print(x.grad)
    [0.  0.5 1. ]
    """
    return xp.maximum(x1, x2)


@elementwise(_smaller_share, lambda g, x1, x2: _smaller_share(g, x2, x1), samples=_pairs)
def minimum(xp: Any, x1: Any, x2: Any) -> Any:
    """The smaller of two, elementwise; NaN if either is.

    The derivative goes to the smaller one, half to each where they are equal.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> eo.minimum(x, 2.0).sum().backward()
    >>> print(x.grad)
    [1.  0.5 0. ]
    """
    return xp.minimum(x1, x2)


@explained
@elementwise(
    None,
    lambda g, condition: op.where(condition, g, 0),
    lambda g, condition: op.where(condition, 0, g),
    missing="a condition is discrete",
    samples=lambda: [
        sample(Values([True, False, True]), (3,), (3,)),
        sample(Values([[True], [False]]), (3,), (2, 3)),
        sample(Values([True, False]), (), (2,)),
        sample(Values([True, False]), (2,), 1.5),
        sample(Values(True), (2,), (1,)),
        sample(Values([]), (0,), (2, 1)),
    ],
)
def where(xp: Any, condition: Any, x1: Any, x2: Any) -> Any:
    """`x1` where `condition` holds, else `x2`, elementwise.

    The derivative goes to the one that was taken; `condition` has none.

    Parameters
    ----------
    condition : tensor or array of booleans
        Which one is taken. A float tensor that requires grad is refused: compare it with something.
    x1, x2 : tensor, array or number
        Shapes that broadcast with that of `condition`.

    Returns
    -------
    Tensor
        Of the broadcast shape and the common dtype of `x1` and `x2`.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If an operand's elements are not numbers.
    UnsupportedOperationError
        If `condition` requires grad.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([1.0, -2.0], requires_grad=True)
    >>> eo.where(x > 0, x, 0.1 * x).sum().backward()
    >>> print(x.grad)
    [1.  0.1]
    """
    return xp.where(condition, x1, x2)


@fused
def _inside(g: Any, x: Any, min: Any, max: Any) -> Any:
    if min is None:
        return g if max is None else op.where(x > max, 0, g)
    return op.where(x < min if max is None else op.logical_or(x < min, x > max), 0, g)


def _at_min(g: Any, x: Any, min: Any, max: Any) -> Any:
    g = op.where(x < min, g, 0)
    return g if max is None else op.where(min > max, 0, g)


def _at_max(g: Any, x: Any, min: Any, max: Any) -> Any:
    above = x > max
    return op.where(above if min is None else op.logical_or(above, min > max), g, 0)


def _clip_samples() -> list[Sample]:
    at_bounds = Values([-1.0, -0.5, 0.25, 1.0, 1.5])
    return [
        *(
            sample((2, 3), low, high)
            for low, high in ((-0.5, 1.0), (None, 0.5), (-1, None), (None, None), (1.0, -1.0))
        ),
        sample(at_bounds, -1.0, 1.0),
        sample((2, 3), (3,), None),
        sample(Distinct((4,)), -0.7, Values([0.4, 0.9, -1.0, 3.0])),
        sample((), (), ()),
        sample((0, 2), (2,), 0.5),
        sample((2, 1), (3,), (2, 3)),
    ]


@elementwise(_inside, _at_min, _at_max, samples=_clip_samples, optional=(1, 2))
def _clip(xp: Any, x: Any, min: Any, max: Any) -> Any:
    return x if min is None and max is None else xp.clip(x, min, max)


@explained
def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """Limit the elements to ``min <= x <= max``; where ``min > max`` the result is `max`.

    The derivative goes to `x` inside and at the bounds, to a bound where that is taken instead.

    Parameters
    ----------
    x : tensor, array or number
        Of any shape.
    min, max : tensor, array or number, optional
        The bounds, of shapes that broadcast with that of `x`; None is no bound.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If an operand's elements are not numbers.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([-1.0, 0.0, 0.5, 2.0], requires_grad=True)
    >>> eo.clip(x, 0.0, 1.0).sum().backward()
    >>> print(x.grad)
    [0. 1. 1. 0.]
    """
    return apply(op.clip, (x, min, max))
