"""The vector norms."""

from __future__ import annotations

import math
import numbers
from typing import Any

from everyo.backends.accelerated import fused
from everyo.core.batching import along
from everyo.core.registry import op
from everyo.core.samples import Distinct, Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import DTypeError
from everyo.ops.arithmetic import over
from everyo.ops.families import primitive
from everyo.ops.known import may_overflow, plain
from everyo.ops.reductions import (
    Axis,
    AxisParam,
    conjugate,
    expand,
    inexact,
    real_part,
    reduce,
    reduction_samples,
)
from everyo.ops.signatures import explained

__all__ = ["vector_norm"]


_DOWN = {2: 2.0**-8, 4: 2.0**-80, 8: 2.0**-600}  # by the size of a number: what brings a norm into the range


def in_range(x: Any, norm: Any, axis: AxisParam, ord: float = 2) -> tuple[Any, Any]:
    """Return vectors and their norms, both scaled where a norm overflows: the slopes do not."""
    if not may_overflow(norm):
        return x, norm
    infinite = op.isinf(norm)
    small = x * _DOWN[norm.dtype.itemsize]
    if ord == 2 and norm.dtype.itemsize > 2:  # in one pass, where it is not known whether it counts
        total = op.sum(real_part(small * conjugate(small)), axis=axis, keepdims=True)
        scaled = op.sqrt(op.where(infinite, total, 1))  # which may underflow where it does not count
    else:
        scaled = op.vector_norm(op.where(infinite, small, 1), axis=axis, keepdims=True, ord=ord)
    return op.where(infinite, small, x), op.where(infinite, scaled, norm)


def direction(x: Any, norm: Any) -> Any:
    """Return ``conj(x) / norm``, the slope of the 2-norm, and its subgradient 0 where the norm is 0."""
    zero = op.equal(norm, 0)
    return op.where(zero, 0, over(conjugate(x), op.where(zero, 1, norm)))


def _slope(x: Any, out: Any, axis: AxisParam, keepdims: bool, ord: float) -> Any:
    """Return the derivative of the norm with respect to each element: ``conj(u) |u|**(ord - 2)``."""
    u = direction(*in_range(x, expand(out, x.shape, axis, keepdims), axis, ord))
    if ord == 2:
        return u
    size = op.abs(u)
    if ord >= 3:
        return u * size ** (ord - 2)
    flat = op.equal(size, 0)  # |u|**(ord - 2), or its derivative, is infinite there
    if ord < 1:
        flat = op.logical_or(flat, op.isinf(size))
    return op.where(flat, 0, u * op.where(flat, 1, size) ** (ord - 2))


def along_direction(g: Any, x: Any, norm: Any) -> Any:
    """Return ``g * direction(x, norm)``, in two operations on arrays of the shape of `x`."""
    zero = op.equal(norm, 0)
    return _ratio_times(conjugate(x), op.where(zero, 1, norm), op.where(zero, 0, g))


@fused
def _ratio_times(x: Any, y: Any, z: Any) -> Any:
    return over(x, y) * z


def _norm_vjp(g: Any, x: Any, out: Any, axis: AxisParam, keepdims: bool, ord: float) -> Any:
    g = expand(g, x.shape, axis, keepdims)
    if ord == 2:
        return along_direction(g, *in_range(x, expand(out, x.shape, axis, keepdims), axis))
    return g * _slope(x, out, axis, keepdims, ord)


def _norm_jvp(t: Any, x: Any, out: Any, axis: AxisParam, keepdims: bool, ord: float) -> Any:
    return op.sum(real_part(t * _slope(x, out, axis, keepdims, ord)), axis=axis, keepdims=keepdims)


def _norm_samples() -> list[Sample]:
    base = [s.with_params(ord=2) for s in reduction_samples()]
    zeros = sample((0,), axis=None, keepdims=False, ord=2)
    nothing = [sample((2, 0), axis=(1,), keepdims=False, ord=p) for p in (3, -1)]
    orders = [
        sample(Distinct((2, 3)), axis=(1,), keepdims=False, ord=p) for p in (0.5, 1.5, 2.5, 3, 4, -1, -2.5)
    ]
    partly_zero = [sample(Values([0.0, 1.0, -2.0]), axis=None, keepdims=False, ord=p) for p in (2, 3, 4)]
    return [*base, zeros, *nothing, *orders, *partly_zero]


@primitive(_norm_vjp, _norm_jvp, samples=_norm_samples, batch=along("axis"))
def _vector_norm(xp: Any, x: Any, *, axis: AxisParam, keepdims: bool, ord: float) -> Any:
    if ord == 2:
        total = _sum_of_squares(xp, x, axis, keepdims)
        if total is not None:
            return xp.sqrt(total)
    sizes = xp.abs(x)
    if 0 in x.shape:  # a sum of nothing to the power 1 / ord
        return xp.sum(sizes, axis=axis, keepdims=keepdims) + (0 if ord > 0 else math.inf)
    extreme = (xp.max if ord > 0 else xp.min)(sizes, axis=axis, keepdims=True)
    # Scaled by a power of two near the extreme element: exact, and no power over- or underflows.
    ordinary = xp.isfinite(extreme) & (extreme > 0)
    exponent = xp.floor(xp.log2(xp.where(ordinary, extreme, xp.ones_like(extreme))))
    scale = xp.exp2(xp.minimum(exponent, xp.finfo(exponent.dtype).maxexp - 1))  # a logarithm is rounded
    sizes = sizes / scale
    zero = sizes == 0 if ord < 0 else sizes < 0
    powers = xp.power(xp.where(zero, xp.ones_like(sizes), sizes), ord)
    out = scale * xp.sum(powers, axis=axis, keepdims=True) ** (1 / ord)
    out = xp.where(xp.any(zero, axis=axis, keepdims=True), xp.zeros_like(out), out)
    return out if keepdims else xp.squeeze(out, axis=axis)


def _sum_of_squares(xp: Any, x: Any, axis: AxisParam, keepdims: bool) -> Any:
    """Return the sums of squares, or None if one is zero or near an end of the float range."""
    whole = (axis is None or len(axis) == x.ndim) and x.dtype.itemsize > 2
    with xp.errstate(over="ignore", under="ignore", invalid="ignore"):
        if whole:  # one product, without an array of squares
            flat = xp.ravel(x, order="K")
            total = xp.reshape(xp.real(xp.vdot(flat, flat)), (1,) * x.ndim if keepdims else ())
        else:
            squares = x.real * x.real + x.imag * x.imag if x.dtype.kind == "c" else x * x
            total = xp.sum(squares, axis=axis, keepdims=keepdims)
    limits = xp.finfo(total.dtype)
    # What underflows beside a sum that is so much larger does not count.
    fits = xp.all((total > limits.tiny**0.75) & (total < limits.max))
    return total if fits else None


@explained
def vector_norm(x: Any, /, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """Norm of the vectors along axes: ``sum(abs(x)**ord) ** (1 / ord)``, without over- or underflow.

    For the 2-norm ``dx = g * x / norm``, and 0 for the zero vector, as for ``abs``.

    Parameters
    ----------
    x : tensor
        Real or complex; integers are computed in float64.
    axis : int or sequence of int, optional
        The axes whose elements form a vector; all by default.
    keepdims : bool, default False
        Keep the axes, with length 1.
    ord : number, default 2
        The order. 0 counts the elements that are not zero, as NaN is not, ``inf`` and ``-inf`` mean the
        largest and smallest absolute value. Of no elements it is 0 for positive orders and infinite for
        negative ones.

    Returns
    -------
    Tensor
        Real.

    Raises
    ------
    DTypeError
        If `ord` is no real number, or an axis no integer.
    IndexingError
        If there is no such axis.
    ShapeError
        If an axis is named twice, or the vectors are empty and the order is ``-inf``.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([3.0, 4.0], requires_grad=True)
    >>> norm = eo.vector_norm(x)
    >>> norm.backward()
    >>> print(norm.item(), x.grad)
    5.0 [0.6 0.8]
    """
    ord = plain(ord, "vector_norm")
    if isinstance(ord, bool) or not isinstance(ord, numbers.Real) or math.isnan(ord):
        raise DTypeError(
            "the order of a norm must be a real number",
            operation="vector_norm",
            expected="a number, inf or -inf",
            found=repr(ord),
            remedy="pass for example ord=2",
        )
    x, ord = inexact(x), float(ord)
    if ord == 0:
        sizes = op.abs(x)
        return reduce(op.sum, op.where(op.isnan(sizes), 1, op.sign(sizes)), axis, keepdims)
    if ord == 1:
        return reduce(op.sum, op.abs(x), axis, keepdims)
    if math.isinf(ord):
        if ord > 0 and not x.size:  # the largest of no absolute values
            return reduce(op.sum, op.abs(x), axis, keepdims)
        return reduce(op.max if ord > 0 else op.min, op.abs(x), axis, keepdims)
    return reduce(op.vector_norm, x, axis, keepdims, ord=ord)
