"""Reductions and running sums that leave NaN out."""

from __future__ import annotations

import math
from typing import Any

from everyo.core.batching import along
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.ops.axes import normalize_axis
from everyo.ops.creation import as_tensor
from everyo.ops.extremes import extreme_rules, require_elements
from everyo.ops.families import primitive
from everyo.ops.known import anywhere, is_known, look
from everyo.ops.reductions import Axis, AxisParam, prod, reduce, reduction_samples
from everyo.ops.reductions import sum as total
from everyo.ops.scans import cumprod, cumsum
from everyo.ops.signatures import composed, explained
from everyo.ops.sorting import argmax, argmin

__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmin", "nanprod", "nansum",
]  # fmt: skip


def instead_of_nan(x: Tensor, value: float) -> Tensor:
    """Return `x` with a number in place of NaN; 0 is the derivative there."""
    return x if known_numbers(x) else op.where(op.isnan(x), value, x)


def known_numbers(x: Tensor) -> bool:
    """Whether there is certainly no NaN; where values are not known yet there may be."""
    if x.dtype.kind not in "fc":
        return True
    return is_known(x) and not anywhere(op.isnan(x.data))


@composed
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
        instead_of_nan(as_tensor(x), 0), axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where
    )


@composed
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
        instead_of_nan(as_tensor(x), 1), axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where
    )


@composed
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
    return cumsum(instead_of_nan(as_tensor(x), 0), axis, dtype=dtype)


@composed
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
    return cumprod(instead_of_nan(as_tensor(x), 1), axis, dtype=dtype)


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


@composed
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


@composed
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
    if known_numbers(x):
        return x
    axes = None if axis is None else (normalize_axis(axis, x.ndim, operation),)
    void = op.isnan(x)
    inputs = describe(x)

    def check(void: Any) -> None:
        if anywhere(void):
            raise ShapeError(
                "there is no element but NaN to choose from",
                operation=operation,
                inputs=inputs,
                expected="a number along the axis",
                found="NaN alone",
                remedy="leave such rows out, or give them a value first: eo.where(eo.isnan(x), v, x)",
            )

    if x.size and x.dtype.kind in "fc":
        look(check, op.all(void, axis=axes, keepdims=False))
    return instead_of_nan(x, least)
