"""Reductions and running sums that leave NaN out."""

from __future__ import annotations

import math
from typing import Any

from everyo.core.batching import along
from everyo.core.dispatch import apply
from everyo.core.dtypes import as_dtype
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.ops.axes import as_flag, normalize_axes, normalize_axis
from everyo.ops.creation import as_tensor, real_number
from everyo.ops.families import primitive
from everyo.ops.known import anywhere, is_known
from everyo.ops.reductions import (
    Axis,
    AxisParam,
    conjugate,
    exactly,
    extreme_rules,
    in_dtype,
    inexact,
    prod,
    real_part,
    reduce,
    reduction_samples,
    require_elements,
)
from everyo.ops.reductions import sum as total
from everyo.ops.scans import cumprod, cumsum
from everyo.ops.signatures import explained
from everyo.ops.sorting import argmax, argmin

__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd",
    "nansum", "nanvar",
]  # fmt: skip


def _instead_of_nan(x: Tensor, value: float) -> Tensor:
    """Return `x` with a number in place of NaN; 0 is the derivative there."""
    return x if _known_numbers(x) else op.where(op.isnan(x), value, x)


def _known_numbers(x: Tensor) -> bool:
    """Whether there is certainly no NaN; where values are not known yet there may be."""
    if x.dtype.kind not in "fc":
        return True
    return is_known(x) and not anywhere(op.isnan(x.data))


@explained
def nansum(
    x: Any,
    /,
    axis: Axis = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """Sum along axes in which NaN counts as 0; the derivative at a NaN is 0, at other elements 1.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.
    axis : int or sequence of int, optional
        The axes to sum over; all by default.
    dtype : dtype-like, optional
        The dtype to sum in. By default that of `x`; small integers and booleans grow to int64.
    keepdims : bool, default False
        Keep the summed axes, with length 1.
    initial : number or tensor, optional
        One more term.
    where : tensor of booleans, optional
        Which elements take part, as in `sum`.

    Returns
    -------
    Tensor
        0 where there is no number.

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
    >>> y = eo.nansum(x)
    >>> y.backward()
    >>> print(y.item(), x.grad)
    4.0 [1. 0. 1.]
    """
    return total(
        _instead_of_nan(as_tensor(x), 0), axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where
    )


@explained
def nanprod(
    x: Any,
    /,
    axis: Axis = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """Product along axes in which NaN counts as 1.

    The derivative at a NaN is 0, at other elements the product of all others.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.
    axis : int or sequence of int, optional
        The axes to multiply along; all by default.
    dtype : dtype-like, optional
        The dtype to multiply in. By default that of `x`; small integers and booleans grow to int64.
    keepdims : bool, default False
        Keep the axes, with length 1.
    initial : number or tensor, optional
        One more factor.
    where : tensor of booleans, optional
        Which elements take part, as in `sum`.

    Returns
    -------
    Tensor
        1 where there is no number.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.
    ShapeError
        If an axis is named twice, or `where` does not broadcast.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nanprod(eo.tensor([2.0, float("nan"), 3.0])).item()
    6.0
    """
    return prod(
        _instead_of_nan(as_tensor(x), 1), axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where
    )


@explained
def nancumsum(x: Any, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Running sum along an axis in which NaN counts as 0; otherwise as `cumsum`.

    The gradient is the running sum of `g` from the end, and 0 at a NaN.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.
    axis : int, optional
        The axis to go along. By default the tensor is flattened first.
    dtype : dtype-like, optional
        The dtype to sum in. By default that of `x`; small integers and booleans grow to int64.

    Returns
    -------
    Tensor
        Of the shape of `x`, or 1-d.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nancumsum(eo.tensor([1.0, float("nan"), 3.0])))
    [1. 1. 4.]
    """
    return cumsum(_instead_of_nan(as_tensor(x), 0), axis, dtype=dtype)


@explained
def nancumprod(x: Any, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Running product along an axis in which NaN counts as 1; otherwise as `cumprod`.

    The derivative at a NaN is 0, at other elements that of `cumprod`.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.
    axis : int, optional
        The axis to go along. By default the tensor is flattened first.
    dtype : dtype-like, optional
        The dtype to multiply in. By default that of `x`; small integers and booleans grow to int64.

    Returns
    -------
    Tensor
        Of the shape of `x`, or 1-d.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nancumprod(eo.tensor([2.0, float("nan"), 3.0])))
    [2. 2. 6.]
    """
    return cumprod(_instead_of_nan(as_tensor(x), 1), axis, dtype=dtype)


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
        if _known_numbers(x):
            return reduce(op.mean, x, axis, keepdims, operation="nanmean")
        sums = reduce(op.sum, _instead_of_nan(x, 0), axis, True, operation="nanmean")
        return _settled(
            sums / _or_nan(_numbers(x, op.equal(x, x), axis, "nanmean")), x, axis, keepdims, "nanmean"
        )

    return in_dtype(lambda x: exactly(computed, x), x, dtype)


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


@explained
def nanvar(
    x: Any,
    /,
    axis: Axis = None,
    *,
    dtype: Any = None,
    correction: float = 0,
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
        The dtype to compute in; that of `x` by default.
    correction : number, default 0
        What is subtracted from n before dividing by it.
    keepdims : bool, default False
        Keep the axes, with length 1.
    ddof : number, optional
        NumPy's name of `correction`, in place of which it counts.
    where : tensor of booleans, optional
        Which elements take part, as in `sum`.
    mean : tensor, optional
        The mean where it is known, with the reduced axes of length 1.

    Returns
    -------
    Tensor
        Real; NaN where ``n <= correction``.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer, or `correction` is no number.
    ShapeError
        If an axis is named twice, or `where` or `mean` does not broadcast.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nanvar(eo.tensor([1.0, float("nan"), 3.0])).item()
    1.0
    """
    correction = real_number(correction if ddof is None else ddof, "nanvar", "correction")
    x = inexact(x if dtype is None else op.astype(as_tensor(x), dtype=as_dtype(dtype)))
    return exactly(lambda x: _nan_var(x, axis, keepdims, correction, where, mean), x)


def _nan_var(x: Tensor, axis: Axis, keepdims: bool, correction: float, where: Any, mean: Any) -> Tensor:
    if where is not None or mean is not None:
        return _spread("var", x, axis, keepdims, correction, where, mean)
    if _known_numbers(x):
        return reduce(op.var, x, axis, keepdims, operation="nanvar", correction=correction)
    valid = op.equal(x, x)
    d = _centred(x, valid, axis, "nanvar")
    squares = reduce(op.sum, real_part(d * conjugate(d)), axis, True)
    freedom = _numbers(x, valid, axis, "nanvar") - correction
    return _settled(squares / _or_nan(freedom), x, axis, keepdims, "nanvar")


@explained
def nanstd(
    x: Any,
    /,
    axis: Axis = None,
    *,
    dtype: Any = None,
    correction: float = 0,
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
        The dtype to compute in; that of `x` by default.
    correction : number, default 0
        What is subtracted from the number n of elements before dividing by it.
    keepdims : bool, default False
        Keep the axes, with length 1.
    ddof : number, optional
        NumPy's name of `correction`, in place of which it counts.
    where : tensor of booleans, optional
        Which elements take part, as in `sum`.
    mean : tensor, optional
        The mean where it is known, with the reduced axes of length 1.

    Returns
    -------
    Tensor
        Real; NaN where ``n <= correction``.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer, or `correction` is no number.
    ShapeError
        If an axis is named twice, or `where` or `mean` does not broadcast.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nanstd(eo.tensor([1.0, float("nan"), 3.0])).item()
    1.0
    """
    correction = real_number(correction if ddof is None else ddof, "nanstd", "correction")
    x = inexact(x if dtype is None else op.astype(as_tensor(x), dtype=as_dtype(dtype)))
    return exactly(lambda x: _nan_std(x, axis, keepdims, correction, where, mean), x)


def _nan_std(x: Tensor, axis: Axis, keepdims: bool, correction: float, where: Any, mean: Any) -> Tensor:
    if where is not None or mean is not None:
        return _spread("std", x, axis, keepdims, correction, where, mean)
    if _known_numbers(x):
        return reduce(op.std, x, axis, keepdims, operation="nanstd", correction=correction)
    valid = op.equal(x, x)
    norm = reduce(op.vector_norm, _centred(x, valid, axis, "nanstd"), axis, True, ord=2)
    freedom = _numbers(x, valid, axis, "nanstd") - correction
    return _settled(norm / op.sqrt(_or_nan(freedom)), x, axis, keepdims, "nanstd")


_RULES = extreme_rules(nan=False)


def _extreme_samples() -> list[Sample]:
    ties = Values([[1.0, 2.0, 2.0], [2.0, 1.0, 1.0]])
    return reduction_samples(sample(ties, axis=(1,), keepdims=False), sample(ties, axis=None, keepdims=False))


@primitive(*_RULES, samples=_extreme_samples, batch=along("axis"))
def _nanmax(xp: Any, x: Any, *, axis: AxisParam, keepdims: bool) -> Any:
    require_elements(x, axis, "nanmax")
    return xp.fmax_along(x, axis=axis, keepdims=keepdims)


@primitive(*_RULES, samples=_extreme_samples, batch=along("axis"))
def _nanmin(xp: Any, x: Any, *, axis: AxisParam, keepdims: bool) -> Any:
    require_elements(x, axis, "nanmin")
    return xp.fmin_along(x, axis=axis, keepdims=keepdims)


@explained
def nanmax(
    x: Any, /, axis: Axis = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Tensor:
    """Largest element along axes that is not NaN; NaN, with derivative 0, where there is none.

    The derivative goes to the largest element; equal ones share it equally.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.
    axis : int or sequence of int, optional
        The axes to search; all by default.
    keepdims : bool, default False
        Keep the axes, with length 1.
    initial : number or tensor, optional
        One more element.
    where : tensor of booleans, optional
        Which elements take part, as in `max`.

    Returns
    -------
    Tensor
        Of the dtype of `x`.

    Raises
    ------
    ShapeError
        If an axis is empty or named twice, or `where` does not broadcast.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.
    ArgumentError
        If there is `where` without `initial`.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nanmax(eo.tensor([1.0, float("nan"), 3.0])).item()
    3.0
    """
    if initial is not None or where is not None:
        from everyo.ops.partial import reduced  # seldom used

        return reduced("nanmax", x, axis, keepdims, initial=initial, where=where)
    return _extreme(op.nanmax, x, axis, keepdims)


@explained
def nanmin(
    x: Any, /, axis: Axis = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Tensor:
    """Smallest element along axes that is not NaN; NaN, with derivative 0, where there is none.

    The derivative goes to the smallest element; equal ones share it equally.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.
    axis : int or sequence of int, optional
        The axes to search; all by default.
    keepdims : bool, default False
        Keep the axes, with length 1.
    initial : number or tensor, optional
        One more element.
    where : tensor of booleans, optional
        Which elements take part, as in `max`.

    Returns
    -------
    Tensor
        Of the dtype of `x`.

    Raises
    ------
    ShapeError
        If an axis is empty or named twice, or `where` does not broadcast.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.
    ArgumentError
        If there is `where` without `initial`.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nanmin(eo.tensor([1.0, float("nan"), 3.0])).item()
    1.0
    """
    if initial is not None or where is not None:
        from everyo.ops.partial import reduced  # seldom used

        return reduced("nanmin", x, axis, keepdims, initial=initial, where=where)
    return _extreme(op.nanmin, x, axis, keepdims)


def _extreme(extreme: Primitive, x: Any, axis: Axis, keepdims: bool) -> Tensor:
    return reduce(extreme, as_tensor(x), axis, keepdims)


@explained
def nanargmax(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Index of the largest element along an axis that is not NaN (the first of equal ones); no gradient.

    Parameters
    ----------
    x : tensor
        Any shape.
    axis : int, optional
        The axis to search. By default the tensor counts as flattened.
    keepdims : bool, default False
        Keep the axis, with length 1.

    Returns
    -------
    Tensor
        Integers.

    Raises
    ------
    ShapeError
        If there is no element but NaN to choose from.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nanargmax(eo.tensor([1.0, float("nan"), 3.0])).item()
    2
    """
    return argmax(_searchable(x, axis, -math.inf, "nanargmax"), axis, keepdims=keepdims)


@explained
def nanargmin(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Index of the smallest element along an axis that is not NaN (the first of equal ones); no gradient.

    Parameters
    ----------
    x : tensor
        Any shape.
    axis : int, optional
        The axis to search. By default the tensor counts as flattened.
    keepdims : bool, default False
        Keep the axis, with length 1.

    Returns
    -------
    Tensor
        Integers.

    Raises
    ------
    ShapeError
        If there is no element but NaN to choose from.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nanargmin(eo.tensor([float("nan"), 1.0, 3.0])).item()
    1
    """
    return argmin(_searchable(x, axis, math.inf, "nanargmin"), axis, keepdims=keepdims)


def _searchable(x: Any, axis: int | None, least: float, operation: str) -> Tensor:
    """Return `x` with what loses against all numbers in place of NaN."""
    x = as_tensor(x)
    if _known_numbers(x):
        return x
    axes = None if axis is None else (normalize_axis(axis, x.ndim, operation),)
    void = op.isnan(x)
    if is_known(x) and x.size and anywhere(op.all(void.data, axis=axes, keepdims=False)):
        raise ShapeError(
            "there is no element but NaN to choose from",
            operation=operation,
            inputs=describe(x),
            expected="a number along the axis",
            found="NaN alone",
            remedy="leave such rows out, or give them a value first: eo.where(eo.isnan(x), v, x)",
        )
    return _instead_of_nan(x, least)
