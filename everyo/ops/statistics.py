"""Statistics: variance, standard deviation, weighted average and range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from everyo.core.batching import along
from everyo.core.dtypes import DIFFERENTIABLE, as_dtype, float16, float32
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.samples import Sample, sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, ShapeError, describe
from everyo.ops.axes import as_flag, normalize_axes
from everyo.ops.creation import as_tensors, real_number
from everyo.ops.families import primitive
from everyo.ops.known import anywhere, look
from everyo.ops.norms import along_direction, direction, in_range
from everyo.ops.reductions import (
    Axis,
    AxisParam,
    conjugate,
    converted,
    count,
    exactly,
    expand,
    inexact,
    real_part,
    reduce,
    reduction_samples,
)
from everyo.ops.signatures import composed, explained

__all__ = ["average", "ptp", "std", "var", "variance"]


def centred(x: Any, axis: AxisParam) -> Any:
    """Return `x` without its mean along `axis`; exactly 0 where all elements are equal."""
    d = x - op.mean(x, axis=axis, keepdims=True)
    return d - op.mean(d, axis=axis, keepdims=True)  # takes away the rounding error of the first mean


def off_mean(x: Any, axis: AxisParam) -> Any:
    """Return an array of its own with what `centred` returns."""
    d = x - op.mean(x, axis=axis, keepdims=True)
    d -= op.mean(d, axis=axis, keepdims=True)
    return d


def _freedom(x_shape: tuple[int, ...], axis: AxisParam, correction: float) -> float:
    """Return the degrees of freedom; NaN if none are left, so that what is divided by them is NaN."""
    degrees = count(x_shape, axis) - correction
    return degrees if degrees > 0 else math.nan


def _var_vjp(g: Any, x: Any, axis: AxisParam, keepdims: bool, correction: float) -> Any:
    g = expand(g, x.shape, axis, keepdims) * (2 / _freedom(x.shape, axis, correction))
    return g * conjugate(centred(x, axis))


def _var_jvp(t: Any, x: Any, axis: AxisParam, keepdims: bool, correction: float) -> Any:
    change = op.sum(real_part(t * conjugate(centred(x, axis))), axis=axis, keepdims=keepdims)
    return change * (2 / _freedom(x.shape, axis, correction))


def _var_samples() -> list[Sample]:
    base = [s.with_params(correction=0) for s in reduction_samples()]
    return [
        *base,
        sample((4,), axis=None, keepdims=False, correction=1),
        sample((2, 3), axis=(0, 1), keepdims=True, correction=1.5),
    ]


@primitive(_var_vjp, _var_jvp, samples=_var_samples, batch=along("axis"))
def _var(xp: Any, x: Any, *, axis: AxisParam, keepdims: bool, correction: float) -> Any:
    if x.dtype.kind == "c":
        d = off_mean(x, axis)
        total = xp.sum(xp.real(d * xp.conj(d)), axis=axis, keepdims=keepdims)
    else:
        total = _squares(xp, x, axis, keepdims)
    return total / _freedom(x.shape, axis, correction)


def _squares(xp: Any, x: Any, axis: AxisParam, keepdims: bool) -> Any:
    """Return the sum of the squares of the distances from the mean.

    The rounding error of the mean is taken away only where it counts.
    """
    d = x - op.mean(x, axis=axis, keepdims=True)
    rest = xp.sum(d, axis=axis, keepdims=keepdims)
    d *= d
    total = xp.sum(d, axis=axis, keepdims=keepdims)
    if d.size and d.dtype.kind == "f":
        limit = total * (xp.finfo(d.dtype).eps / 8 * count(x.shape, axis))
        if xp.all(rest * rest <= limit):
            return total
    d = off_mean(x, axis)
    d *= d
    return xp.sum(d, axis=axis, keepdims=keepdims)


def _std_slope(x: Any, out: Any, axis: AxisParam, keepdims: bool, correction: float) -> Any:
    """Return the derivative with respect to each element: that of the norm of the centred vector."""
    root = math.sqrt(_freedom(x.shape, axis, correction))
    return direction(*in_range(centred(x, axis), expand(out, x.shape, axis, keepdims) * root, axis)) / root


def _std_vjp(g: Any, x: Any, out: Any, axis: AxisParam, keepdims: bool, correction: float) -> Any:
    root = math.sqrt(_freedom(x.shape, axis, correction))
    g, norm = expand(g, x.shape, axis, keepdims) / root, expand(out, x.shape, axis, keepdims) * root
    return along_direction(g, *in_range(centred(x, axis), norm, axis))


def _std_jvp(t: Any, x: Any, out: Any, axis: AxisParam, keepdims: bool, correction: float) -> Any:
    change = real_part(t * _std_slope(x, out, axis, keepdims, correction))
    return op.sum(change, axis=axis, keepdims=keepdims)


@primitive(_std_vjp, _std_jvp, samples=_var_samples, batch=along("axis"))
def _std(xp: Any, x: Any, *, axis: AxisParam, keepdims: bool, correction: float) -> Any:
    norm = _norm(xp, x, axis, keepdims)
    return norm / math.sqrt(_freedom(x.shape, axis, correction))


def _norm(xp: Any, x: Any, axis: AxisParam, keepdims: bool) -> Any:
    """Return the 2-norm of the distances; from plain squares where these neither over- nor underflow."""
    if x.dtype.kind == "f":
        with xp.errstate(all="ignore"):
            total = _squares(xp, x, axis, keepdims)
        limits = xp.finfo(total.dtype)
        if xp.all((total > limits.tiny / limits.eps**2) & (total < limits.max)):
            return xp.sqrt(total)
    return op.vector_norm(off_mean(x, axis), axis=axis, keepdims=keepdims, ord=2)


def correction_of(correction: float | None, ddof: float | None, operation: str) -> float | None:
    """Return what is subtracted from the number of elements, under one of its two names; None for neither."""
    if correction is not None and ddof is not None:
        raise ArgumentError(
            "correction and ddof are two names of one parameter",
            operation=operation,
            expected="one of them",
            found=f"correction={correction!r}, ddof={ddof!r}",
            remedy="leave one out",
        )
    given = correction if ddof is None else ddof
    return None if given is None else real_number(given, operation, "correction")


def _statistic(
    measure: Primitive,
    x: Any,
    axis: Axis,
    correction: float | None,
    keepdims: bool,
    ddof: float | None,
    dtype: Any,
    where: Any,
    mean: Any,
) -> Tensor:
    given = correction_of(correction, ddof, measure.name) or 0

    def computed(x: Tensor) -> Tensor:
        if where is not None or mean is not None:
            from everyo.ops.partial import spread  # seldom used

            return spread(measure.name, x, axis, keepdims, given, where, mean)
        return reduce(measure, x, axis, keepdims, correction=given)

    return of_dtype(exactly(computed, in_floats(x, dtype, measure.name)), dtype)


def of_dtype(out: Tensor, dtype: Any) -> Tensor:
    """Return real results in the dtype they were to be computed in, which may be complex, as NumPy does."""
    return out if dtype is None or as_dtype(dtype).kind != "c" else op.astype(out, dtype=as_dtype(dtype))


def in_floats(x: Any, dtype: Any, operation: str) -> Tensor:
    """Return `x` as a tensor of floats, of a dtype that may be given; DTypeError for one of other numbers."""
    require_floats(dtype, operation)
    return inexact(converted(x, dtype, operation))


def require_floats(dtype: Any, operation: str) -> None:
    """Raise DTypeError for a dtype of integers or booleans; None is none."""
    if dtype is not None and as_dtype(dtype).kind not in DIFFERENTIABLE:
        raise DTypeError(
            "this is not computed in integers",
            operation=operation,
            expected="a float or complex dtype",
            found=f"dtype={as_dtype(dtype)}",
            remedy="leave dtype out, and convert the result: eo.round(...).astype(eo.int32)",
        )


@explained
def var(
    x: Any,
    /,
    axis: Axis = None,
    *,
    dtype: Any = None,
    correction: float | None = None,
    keepdims: bool = False,
    ddof: float | None = None,
    where: Any = None,
    mean: Any = None,
) -> Tensor:
    """Variance along axes: the mean squared distance from the mean. ``eo.variance`` is the same.

    ``dx = g * 2 (x - mean) / (n - correction)``.

    Parameters
    ----------
    x : tensor
        Real or complex; integers are computed in float64.
    axis : int or sequence of int, optional
        The axes to reduce; all by default.
    dtype : dtype-like, optional
        The dtype to compute in, one of floats or complex numbers; that of `x` by default.
    correction : number, default 0
        What is subtracted from the number of elements n before dividing by it; 1 for the unbiased
        estimate from a sample.
    keepdims : bool, default False
        Keep the axes, with length 1.
    ddof : number, optional
        NumPy's name of `correction`.
    where : tensor of booleans, optional
        Which elements take part, of a shape that broadcasts to that of `x`; all by default.
    mean : tensor, optional
        The mean where it is known, with the reduced axes of length 1.

    Returns
    -------
    Tensor
        Real, unless a complex `dtype` is given; NaN, as its gradient, where ``n <= correction``.

    Raises
    ------
    ArgumentError
        If both `correction` and `ddof` are given.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer, or `correction` is no number.
    ShapeError
        If an axis is named twice, or `where` or `mean` does not broadcast.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([1.0, 3.0], requires_grad=True)
    >>> v = eo.var(x, correction=1)
    >>> v.backward()
    >>> print(v.item(), x.grad)
    2.0 [-2.  2.]
    """
    return _statistic(op.var, x, axis, correction, keepdims, ddof, dtype, where, mean)


variance = var


@explained
def std(
    x: Any,
    /,
    axis: Axis = None,
    *,
    dtype: Any = None,
    correction: float | None = None,
    keepdims: bool = False,
    ddof: float | None = None,
    where: Any = None,
    mean: Any = None,
) -> Tensor:
    """Standard deviation along axes: the square root of `var`.

    ``dx = g * (x - mean) / ((n - correction) * std)``, and 0 where all elements are equal.

    Parameters
    ----------
    x : tensor
        Real or complex; integers are computed in float64.
    axis : int or sequence of int, optional
        The axes to reduce; all by default.
    dtype : dtype-like, optional
        The dtype to compute in, one of floats or complex numbers; that of `x` by default.
    correction : number, default 0
        What is subtracted from the number of elements n before dividing by it.
    keepdims : bool, default False
        Keep the axes, with length 1.
    ddof : number, optional
        NumPy's name of `correction`.
    where : tensor of booleans, optional
        Which elements take part, of a shape that broadcasts to that of `x`; all by default.
    mean : tensor, optional
        The mean where it is known, with the reduced axes of length 1.

    Returns
    -------
    Tensor
        Real, unless a complex `dtype` is given; NaN, as its gradient, where ``n <= correction``.

    Raises
    ------
    ArgumentError
        If both `correction` and `ddof` are given.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer, or `correction` is no number.
    ShapeError
        If an axis is named twice, or `where` or `mean` does not broadcast.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.std(eo.tensor([[1.0, 3.0], [5.0, 5.0]]), axis=1))
    [1. 0.]
    """
    return _statistic(op.std, x, axis, correction, keepdims, ddof, dtype, where, mean)


def spread_weights(weights: Tensor, x: Tensor, axis: Axis, operation: str) -> Tensor:
    """Return weights in the shape of `x`, of which they may have the lengths along `axis` alone."""
    if weights.shape == x.shape:
        return weights
    axes = normalize_axes(axis, x.ndim, operation)
    named = tuple(i % x.ndim for i in axis) if isinstance(axis, Sequence) else axes
    lengths = tuple(x.shape[i] for i in named)
    if weights.shape != lengths:
        raise ShapeError(
            "the weights do not fit",
            operation=operation,
            inputs=describe(x, weights),
            expected=f"shape {tuple(x.shape)}, or {lengths} for the axes {named}",
            found=f"shape {tuple(weights.shape)}",
            remedy="reshape the weights, or name the axis that they belong to",
        )
    if named != axes:
        weights = op.transpose(weights, axes=tuple(named.index(i) for i in axes))
    shape = tuple(n if i in axes else 1 for i, n in enumerate(x.shape))
    return op.broadcast_to(op.reshape(weights, shape=shape), shape=tuple(x.shape))


def in_precision(weights: Tensor, x: Tensor) -> Tensor:
    """Return weights as floats in the precision of their products with `x`; complex ones stay complex."""
    xp = x.backend.xp
    wide = xp.result_type(x.dtype, weights.dtype)
    wide = wide if weights.dtype.kind == "c" else xp.finfo(wide).dtype
    return weights if weights.dtype == wide else op.astype(weights, dtype=wide)


@explained
def average(
    x: Any, /, axis: Axis = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """Weighted average along axes: ``sum(x * weights) / sum(weights)``; without weights the mean.

    ``d average = sum(weights * dx + (x - average) * dweights) / sum(weights)``.

    Parameters
    ----------
    x : tensor
        Any shape.
    axis : int or sequence of int, optional
        The axes to average over; all by default.
    weights : tensor, optional
        Of the shape of `x`, or of its lengths along `axis`; real or complex.
    returned : bool, default False
        Also return the sums of the weights.
    keepdims : bool, default False
        Keep the axes, with length 1.

    Returns
    -------
    Tensor or tuple of Tensor
        The average; with the sums of the weights, of the same shape and dtype, if `returned`.

    Raises
    ------
    ShapeError
        If `weights` has another shape, or an axis is named twice.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.
    ArgumentError
        If weights sum to zero; under `vmap` the average is then NaN or infinite.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.average(eo.tensor([1.0, 4.0]), weights=eo.tensor([2.0, 1.0])).item()
    2.0
    """
    returned = as_flag(returned, "returned", "average")
    if weights is None:
        x = inexact(x)
        mean = reduce(op.mean, x, axis, keepdims, operation="average")
        number = count(tuple(x.shape), normalize_axes(axis, x.ndim, "average"))
        return (mean, op.ones_like(mean) * number) if returned else mean
    x, weights = as_tensors((x, weights), "average")
    x = inexact(x)
    weights = spread_weights(in_precision(weights, x), x, axis, "average")
    half = x.dtype == weights.dtype == float16  # whose sums would overflow
    if half:
        x, weights = (op.astype(v, dtype=float32) for v in (x, weights))
    total = reduce(op.sum, x * weights, axis, keepdims, operation="average")
    divisor = reduce(op.sum, in_precision(weights, total), axis, keepdims)  # in the average's dtype, as NumPy
    inputs = describe(x, weights)

    def check(divisor: Any) -> None:
        if anywhere(divisor == 0):
            raise ArgumentError(
                "the weights sum to zero",
                operation="average",
                inputs=inputs,
                expected="sums other than 0",
                found="0",
                remedy="leave empty groups out, or divide the sums: eo.where(total == 0, 0, sums / total)",
            )

    look(check, divisor)
    found = op.astype(total / divisor, dtype=float16) if half else total / divisor
    return (found, op.astype(divisor, dtype=found.dtype)) if returned else found


@composed
def ptp(x: Any, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Range of the elements along axes, "peak to peak": ``max - min``, and so its gradient.

    It goes to the largest element, and negated to the smallest; equal ones share it equally.

    Parameters
    ----------
    x : tensor
        Of any shape.
    axis : int or sequence of int, optional
        The axes to search; all by default.
    keepdims : bool, default False
        Keep the axes, with length 1.

    Returns
    -------
    Tensor
        Of the dtype of `x`; NaN where there is a NaN.

    Raises
    ------
    ShapeError
        If there is no element to choose from, or an axis is named twice.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer, or `x` is boolean.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.ptp(eo.tensor([3.0, 1.0, 7.0])).item()
    6.0
    """
    return reduce(op.max, x, axis, keepdims, operation="ptp") - reduce(op.min, x, axis, keepdims)
