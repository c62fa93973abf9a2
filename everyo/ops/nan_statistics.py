"""Mean, variance and standard deviation that leave NaN out."""

from __future__ import annotations

import math
from typing import Any

from everyo.core.batching import along
from everyo.core.dispatch import apply
from everyo.core.dtypes import DIFFERENTIABLE
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.ops.axes import as_flag, normalize_axes
from everyo.ops.creation import as_tensor
from everyo.ops.families import primitive
from everyo.ops.nan_reductions import instead_of_nan, known_numbers
from everyo.ops.reductions import (
    Axis,
    AxisParam,
    conjugate,
    exactly,
    in_dtype,
    inexact,
    real_part,
    reduce,
)
from everyo.ops.signatures import composed, explained
from everyo.ops.statistics import correction_of, in_floats, of_dtype, require_floats

__all__ = ["nanmean", "nanstd", "nanvar"]


def _numbers(x: Tensor, valid: Tensor, axis: Axis, operation: str) -> Tensor:
    """Return how many elements along the axes, which stay, are valid, in the real dtype of `x`."""
    real = x.dtype if x.dtype.kind == "f" else x.backend.xp.finfo(x.dtype).dtype
    return op.astype(reduce(op.count_nonzero, valid, axis, True, operation=operation), dtype=real)


def _or_nan(number: Tensor) -> Tensor:
    """Return a number by which to divide: NaN where it is not positive."""
    return op.where(op.less_equal(number, 0), math.nan, number)


def _settled(out: Tensor, x: Tensor, axis: Axis, keepdims: bool, operation: str) -> Tensor:
    """Take the reduced axes, of length 1, away unless they are to stay."""
    axes = normalize_axes(axis, x.ndim, operation)
    if as_flag(keepdims, "keepdims", operation):
        return out
    return op.reshape(out, shape=tuple(n for i, n in enumerate(x.shape) if i not in axes))


@explained
def nanmean(
    x: Any, /, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False, where: Any = None
) -> Tensor:
    """Mean along axes of the elements that are not NaN; NaN where there is none.

    The derivative at a NaN is 0, at other elements one part of their number.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.
    axis : int or sequence of int, optional
        The axes to average over; all by default.
    dtype : dtype-like, optional
        The dtype of the result. By default that of `x`, float64 for integers and booleans.
    keepdims : bool, default False
        Keep the axes, with length 1.
    where : tensor of booleans, optional
        Which elements take part, as in `sum`.

    Returns
    -------
    Tensor
        One mean for each place of the axes that stay.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.
    ShapeError
        If an axis is named twice, or `where` does not broadcast.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([1.0, float("nan"), 3.0], requires_grad=True)
    >>> y = eo.nanmean(x)
    >>> y.backward()
    >>> print(y.item(), x.grad)
    2.0 [0.5 0.  0.5]
    """

    def computed(x: Tensor) -> Tensor:
        if where is not None:
            from everyo.ops.partial import mask, mean_of  # seldom used

            x = inexact(x)
            return mean_of(x, axis, keepdims, op.logical_and(mask(where, x), op.equal(x, x)), "nanmean")
        if known_numbers(x):
            return reduce(op.mean, x, axis, keepdims, operation="nanmean")
        sums = reduce(op.sum, instead_of_nan(x, 0), axis, True, operation="nanmean")
        return _settled(
            sums / _or_nan(_numbers(x, op.equal(x, x), axis, "nanmean")), x, axis, keepdims, "nanmean"
        )

    x = as_tensor(x)
    if x.dtype.kind in DIFFERENTIABLE:  # a NaN is no integer
        require_floats(dtype, "nanmean")
    return in_dtype(lambda x: exactly(computed, x), x, dtype, "nanmean")


def _centre_samples() -> list[Sample]:
    holes = Values([[True, False, True], [False, False, False], [True, True, True]])
    return [
        sample((3,), Values([True, True, False]), axis=(0,)),
        sample((3, 3), holes, axis=(1,)),
        sample((3, 3), holes, axis=(0,)),
        sample((3, 3), holes, axis=None),
    ]


@primitive(
    vjp=(lambda g, valid, axis: op.centre_numbers(g, valid, axis=axis), None),
    jvp=(lambda t, valid, axis: op.centre_numbers(t, valid, axis=axis), None),
    missing="the second operand is boolean",
    samples=_centre_samples,
    batch=along("axis"),
)
def _centre_numbers(xp: Any, x: Any, valid: Any, *, axis: AxisParam) -> Any:
    """Return `x` minus the mean of its valid elements along the axes, and 0 where it is not valid.

    A projection, so its own transpose.
    """
    out = xp.where(valid, x, 0)
    number = xp.astype(xp.maximum(xp.sum(valid, axis=axis, keepdims=True), 1), xp.finfo(x.dtype).dtype)
    for _ in range(2):  # the second time takes away the rounding error of the first mean
        out = xp.where(valid, out - xp.sum(out, axis=axis, keepdims=True) / number, 0)
    return out


def _spread(
    name: str, x: Tensor, axis: Axis, keepdims: bool, correction: float, where: Any, mean: Any
) -> Tensor:
    from everyo.ops.partial import mask, spread  # seldom used

    chosen = op.logical_and(mask(where, x), op.equal(x, x))
    return spread(name, x, axis, keepdims, correction, chosen, mean)


def _centred(x: Tensor, valid: Tensor, axis: Axis, operation: str) -> Tensor:
    axes = None if axis is None else normalize_axes(axis, x.ndim, operation)
    return apply(op.centre_numbers, (x, valid), {"axis": axes})


@composed
def nanvar(
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
    """Variance along axes of the elements that are not NaN, whose number n is counted for each result.

    ``dx = g * 2 (x - mean) / (n - correction)``, and 0 at a NaN.

    Parameters
    ----------
    x : tensor
        Real or complex; integers are computed in float64.
    axis : int or sequence of int, optional
        The axes to reduce; all by default.
    dtype : dtype-like, optional
        The dtype to compute in, one of floats or complex numbers; that of `x` by default.
    correction : number, optional
        What is subtracted from n before dividing by it; 0 by default.
    keepdims : bool, default False
        Keep the axes, with length 1.
    ddof : number, optional
        NumPy's name of `correction`.
    where : tensor of booleans, optional
        Which elements take part, as in `sum`.
    mean : tensor, optional
        The mean where it is known, with the reduced axes of length 1.

    Returns
    -------
    Tensor
        Real, unless a complex `dtype` is given; NaN where ``n <= correction``.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer, or `correction` is no number.
    ArgumentError
        If both `correction` and `ddof` are given.
    ShapeError
        If an axis is named twice, or `where` or `mean` does not broadcast.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nanvar(eo.tensor([1.0, float("nan"), 3.0])).item()
    1.0
    """
    correction = correction_of(correction, ddof, "nanvar") or 0
    x = in_floats(x, dtype, "nanvar")
    return of_dtype(exactly(lambda x: _nan_var(x, axis, keepdims, correction, where, mean), x), dtype)


def _nan_var(x: Tensor, axis: Axis, keepdims: bool, correction: float, where: Any, mean: Any) -> Tensor:
    if where is not None or mean is not None:
        return _spread("var", x, axis, keepdims, correction, where, mean)
    if known_numbers(x):
        return reduce(op.var, x, axis, keepdims, operation="nanvar", correction=correction)
    valid = op.equal(x, x)
    d = _centred(x, valid, axis, "nanvar")
    squares = reduce(op.sum, real_part(d * conjugate(d)), axis, True)
    freedom = _numbers(x, valid, axis, "nanvar") - correction
    return _settled(squares / _or_nan(freedom), x, axis, keepdims, "nanvar")


@composed
def nanstd(
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
    """Standard deviation along axes of the elements that are not NaN: the square root of `nanvar`.

    ``dx = g * (x - mean) / ((n - correction) * std)``; 0 at a NaN, and where all other elements are equal.

    Parameters
    ----------
    x : tensor
        Real or complex; integers are computed in float64.
    axis : int or sequence of int, optional
        The axes to reduce; all by default.
    dtype : dtype-like, optional
        The dtype to compute in, one of floats or complex numbers; that of `x` by default.
    correction : number, optional
        What is subtracted from the number n of elements before dividing by it.
    keepdims : bool, default False
        Keep the axes, with length 1.
    ddof : number, optional
        NumPy's name of `correction`.
    where : tensor of booleans, optional
        Which elements take part, as in `sum`.
    mean : tensor, optional
        The mean where it is known, with the reduced axes of length 1.

    Returns
    -------
    Tensor
        Real, unless a complex `dtype` is given; NaN where ``n <= correction``.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer, or `correction` is no number.
    ArgumentError
        If both `correction` and `ddof` are given.
    ShapeError
        If an axis is named twice, or `where` or `mean` does not broadcast.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nanstd(eo.tensor([1.0, float("nan"), 3.0])).item()
    1.0
    """
    correction = correction_of(correction, ddof, "nanstd") or 0
    x = in_floats(x, dtype, "nanstd")
    return of_dtype(exactly(lambda x: _nan_std(x, axis, keepdims, correction, where, mean), x), dtype)


def _nan_std(x: Tensor, axis: Axis, keepdims: bool, correction: float, where: Any, mean: Any) -> Tensor:
    if where is not None or mean is not None:
        return _spread("std", x, axis, keepdims, correction, where, mean)
    if known_numbers(x):
        return reduce(op.std, x, axis, keepdims, operation="nanstd", correction=correction)
    valid = op.equal(x, x)
    norm = reduce(op.vector_norm, _centred(x, valid, axis, "nanstd"), axis, True, ord=2)
    freedom = _numbers(x, valid, axis, "nanstd") - correction
    return _settled(norm / op.sqrt(_or_nan(freedom)), x, axis, keepdims, "nanstd")
