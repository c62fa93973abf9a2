"""Parts of complex numbers. These functions are not holomorphic, so each has a rule for each direction.

A cotangent `g` inside the engine is a plain transpose: ``Re(sum(g * dy)) = Re(sum(vjp(g) * dx))``.
"""

from __future__ import annotations

import math
from typing import Any

from everyo.core.batching import unchanged
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.ops.arithmetic import ratio_or_zero
from everyo.ops.axes import as_flag
from everyo.ops.families import linear, primitive, public

__all__ = ["angle", "conj", "conjugate", "imag", "real"]


def _numbers() -> list[Sample]:
    return [sample(()), sample((2, 3)), sample((0,)), sample(Values([1.0, -2.0]))]


@public
@linear(lambda g, x_dtype: op.astype(g, dtype=x_dtype), samples=_numbers, batch=unchanged)
def real(xp: Any, x: Any) -> Any:
    """Real part, elementwise: ``d Re(x) = Re(dx)``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.real(eo.tensor([1 + 2j])))
    [1.]
    """
    return xp.real(x)


def _imag_cotangent(g: Any, x_dtype: Any) -> Any:
    return op.astype(g * -1j, dtype=x_dtype) if x_dtype.kind == "c" else op.zeros_like(g)


@public
@linear(_imag_cotangent, samples=_numbers, batch=unchanged)
def imag(xp: Any, x: Any) -> Any:
    """Imaginary part, elementwise: ``d Im(x) = Im(dx)``; 0 for real numbers.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.imag(eo.tensor([1 + 2j])))
    [2.]
    """
    return xp.imag(x)


@public
@linear(lambda g: op.conj(g), samples=_numbers, batch=unchanged)
def conj(xp: Any, x: Any) -> Any:
    """Complex conjugate, elementwise: ``d conj(x) = conj(dx)``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.conj(eo.tensor([1 + 2j])))
    [1.-2.j]
    """
    return xp.conj(x)


def _angle_cotangent(g: Any, x: Any) -> Any:
    return ratio_or_zero(g * -1j, x) if x.dtype.kind == "c" else op.zeros_like(g)


def _angle_tangent(t: Any, x: Any) -> Any:
    return op.imag(ratio_or_zero(t, x)) if x.dtype.kind == "c" else op.zeros_like(t)


@primitive(_angle_cotangent, _angle_tangent, family="elementwise", samples=_numbers)
def _angle(xp: Any, x: Any) -> Any:
    return xp.angle(x)


def angle(x: Any, /, deg: bool = False) -> Tensor:
    """Argument of a complex number, elementwise, from -pi to pi; 0 or pi for real numbers.

    ``d angle(x) = Im(dx / x)``, and 0 at the origin and for real numbers.

    Parameters
    ----------
    x : tensor, array or number
        Of any shape.
    deg : bool, default False
        In degrees instead of radians.

    Returns
    -------
    Tensor
        Of the shape of `x`, of its real dtype; integers give floats.

    Raises
    ------
    DTypeError
        If `x` is not numeric, or `deg` neither true nor false.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.angle(eo.tensor(1 + 1j)):.4f}")
    0.7854
    """
    out = apply(_angle, (x,))
    return out * (180 / math.pi) if as_flag(deg, "deg", "angle") else out


conjugate = conj
