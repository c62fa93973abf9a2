"""Reductions: sum, mean, prod, the extremes, the logical ones and the vector norm."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Never, TypeAlias

from everyo.core.batching import along
from everyo.core.dispatch import apply
from everyo.core.dtypes import as_dtype, float16, float32, float64, refuse_complex
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.samples import Distinct, Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.ops.axes import as_flag, normalize_axes
from everyo.ops.creation import as_tensor
from everyo.ops.families import linear, primitive
from everyo.ops.signatures import explained, misfit

__all__ = ["amax", "amin", "max", "mean", "min", "prod", "sum"]

Axis: TypeAlias = "int | Sequence[int] | None"
AxisParam: TypeAlias = "tuple[int, ...] | None"  # what primitives get: positive axes, None for all


def reduce(
    reduction: Primitive, x: Any, axis: Axis, keepdims: bool, *, operation: str = "", **params: Any
) -> Tensor:
    """Apply a reduction to the axes that the user named; errors name `operation`, or the reduction."""
    x = as_tensor(x)
    operation = operation or reduction.name
    axes = None if axis is None else normalize_axes(axis, x.ndim, operation)
    keepdims = as_flag(keepdims, "keepdims", operation)
    return apply(reduction, (x,), {"axis": axes, "keepdims": keepdims, **params})


def expand(g: Any, x_shape: tuple[int, ...], axis: AxisParam, keepdims: bool) -> Any:
    """Give a reduced array its axes back, with length 1, so that it broadcasts against `x`."""
    if keepdims or axis is None:
        return g
    return op.reshape(g, shape=tuple([1 if i in axis else n for i, n in enumerate(x_shape)]))


def spread(g: Any, x_shape: tuple[int, ...], axis: AxisParam, keepdims: bool) -> Any:
    """Repeat a reduced array along the axes it lost: the transpose of a sum."""
    return op.broadcast_to(expand(g, x_shape, axis, keepdims), shape=x_shape)


def count(x_shape: tuple[int, ...], axis: AxisParam) -> int:
    """Return how many elements each result is reduced from."""
    return math.prod(x_shape if axis is None else [x_shape[i] for i in axis])


def partly(name: str, x: Any, axis: Axis, keepdims: bool, **options: Any) -> Tensor:
    """Return a reduction of some of the elements, or of one more."""
    from everyo.ops.partial import reduced  # seldom used

    return reduced(name, x, axis, keepdims, **options)


def in_dtype(function: Callable[[Tensor], Tensor], x: Any, dtype: Any) -> Tensor:
    """Return ``function(x)`` computed in `dtype`; of `dtype` even where a small integer type would grow."""
    x = as_tensor(x)
    if dtype is None:
        return function(x)
    dtype = as_dtype(dtype)
    refuse_complex(x.dtype, dtype, "sum, mean or product")
    out = function(x if x.dtype == dtype else op.astype(x, dtype=dtype))
    return out if out.dtype == dtype else op.astype(out, dtype=dtype)


def exactly(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return ``function(x)``; of float16, whose sums and squares soon overflow, computed in float32."""
    if x.dtype == float16:
        return op.astype(function(op.astype(x, dtype=float32)), dtype=float16)
    return function(x)


def inexact(x: Any) -> Tensor:
    """Return `x` as a tensor; integers and booleans become float64, as in NumPy's float functions."""
    x = as_tensor(x)
    return op.astype(x, dtype=float64) if x.dtype.kind in "biu" else x


def conjugate(x: Any) -> Any:
    """Return the conjugate; real values as they are."""
    return op.conj(x) if x.dtype.kind == "c" else x


def real_part(x: Any) -> Any:
    """Return the real part; real values as they are."""
    return op.real(x) if x.dtype.kind == "c" else x


def require_elements(x: Any, axis: AxisParam, operation: str) -> None:
    """Raise ShapeError if an axis that is reduced is empty and so has no extreme."""
    if 0 in x.shape and not count(x.shape, axis):
        raise ShapeError(
            "there is no element to choose from",
            operation=operation,
            inputs=describe(x),
            expected="at least one element along the reduced axes",
            found=f"shape {tuple(x.shape)}, axis={axis}",
            remedy="leave empty tensors out, or append a bound to them first",
        )


def reduction_samples(*more: Sample) -> list[Sample]:
    """Return samples that every reduction with rules can take, and `more`."""
    cases: list[tuple[tuple[int, ...], AxisParam, bool]] = [
        ((), None, False), ((), (), True), ((3,), None, False), ((3,), (0,), True), ((2, 3), (1,), False),
        ((2, 3), None, True), ((2, 3), (), False), ((2, 3, 2), (0, 2), False), ((2, 1, 3), (0, 1), True),
        ((0, 3), (1,), False),
    ]  # fmt: skip
    return [*(sample(Distinct(shape), axis=axis, keepdims=keep) for shape, axis, keep in cases), *more]


def _sum_samples() -> list[Sample]:
    empty = [sample((0, 3), axis=(0,), keepdims=False), sample((2, 0), axis=None, keepdims=True)]
    return reduction_samples(*empty)


@linear(spread, samples=_sum_samples, batch=along("axis"))
def _sum(xp: Any, x: Any, *, axis: AxisParam, keepdims: bool) -> Any:
    return xp.sum(x, axis=axis, keepdims=keepdims)


def sum(
    x: Any,
    /,
    axis: Axis = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    **unknown: Never,
) -> Tensor:
    """Sum of the elements along axes.

    The gradient of each element is that of the sum it went into.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.
    axis : int or sequence of int, optional
        The axes to sum over; all by default, none for ``()``.
    dtype : dtype-like, optional
        The dtype to sum in. By default that of `x`; small integers and booleans grow to int64.
    keepdims : bool, default False
        Keep the summed axes, with length 1.
    initial : number or tensor, optional
        One more term.
    where : tensor of booleans, optional
        Which elements take part, of a shape that broadcasts to that of `x`; all by default.
    **unknown : never
        Nothing: other names are refused.

    Returns
    -------
    Tensor
        0 for empty axes.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.
    ShapeError
        If an axis is named twice, or `where` does not broadcast.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.sum(eo.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0))
    [4. 6.]
    """
    if unknown:
        raise misfit(sum, (), unknown)
    if initial is not None or where is not None:
        return partly("sum", x, axis, keepdims, initial=initial, where=where, dtype=dtype)
    if dtype is None:
        return reduce(_sum, x, axis, keepdims)
    return in_dtype(lambda x: reduce(_sum, x, axis, keepdims), x, dtype)


def widened(x: Any) -> Any:
    """Return `x` in a dtype that has sums and numbers of its elements: float32 for float16."""
    return op.astype(x, dtype=float32) if x.dtype == float16 else x


def shared(total: Any, number: Any, dtype: Any) -> Any:
    """Return ``total / number`` in `dtype`, rounded once."""
    share = widened(total) / number
    return op.astype(share, dtype=dtype) if share.dtype != dtype else share


def _mean_vjp(g: Any, x_shape: tuple[int, ...], axis: AxisParam, keepdims: bool) -> Any:
    return spread(shared(g, count(x_shape, axis) or math.nan, g.dtype), x_shape, axis, keepdims)


@linear(_mean_vjp, samples=reduction_samples, batch=along("axis"))
def _mean(xp: Any, x: Any, *, axis: AxisParam, keepdims: bool) -> Any:
    half = x.dtype == float16  # its sums would overflow
    wide = float32 if half else float64 if x.dtype.kind in "biu" else None
    total = xp.sum(x, axis=axis, keepdims=keepdims, dtype=wide)
    number = count(x.shape, axis)
    mean = total / number if number else total * math.nan  # a complex quotient would warn
    return xp.asarray(mean, dtype=float16) if half else mean


def mean(
    x: Any,
    /,
    axis: Axis = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    where: Any = None,
    **unknown: Never,
) -> Tensor:
    """Arithmetic mean along axes.

    The gradient of each element is that of its mean, divided by the number of elements.

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
    **unknown : never
        Nothing: other names are refused.

    Returns
    -------
    Tensor
        NaN for empty axes.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.
    ShapeError
        If an axis is named twice, or `where` does not broadcast.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.mean(eo.tensor([[1.0, 2.0], [3.0, 6.0]]), axis=1))
    [1.5 4.5]
    """
    if unknown:
        raise misfit(mean, (), unknown)
    if where is not None:
        from everyo.ops.partial import mean_of  # seldom used

        return in_dtype(lambda x: mean_of(x, axis, keepdims, where), x, dtype)
    return in_dtype(lambda x: reduce(_mean, x, axis, keepdims), x, dtype)


def _prod_vjp(g: Any, x: Any, axis: int) -> Any:
    return op.prod_pull(g, x, axis=axis)


def _prod_jvp(t: Any, x: Any, out: Any, axis: int) -> Any:
    return prod_push(t, op.ones_like(out), x, axis)


def prod_push(t: Any, ones: Any, x: Any, axis: int) -> Any:
    """Return the change of products along an axis, given that of their factors."""
    return op.sum(op.multiply_absorbing(t, op.prod_pull(ones, x, axis=axis)), axis=(axis,), keepdims=False)


def _prod_samples() -> list[Sample]:
    zeros = Values([[0.0, 1.5, -2.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    return [
        sample((3,), axis=0), sample((2, 3), axis=1), sample((2, 3, 2), axis=0), sample((1, 2), axis=0),
        sample((0, 2), axis=0), sample((0, 2), axis=1), sample(zeros, axis=1), sample(zeros, axis=0),
    ]  # fmt: skip


@primitive(_prod_vjp, _prod_jvp, samples=_prod_samples, batch=along("axis"))
def _prod(xp: Any, x: Any, *, axis: int) -> Any:
    return zero_absorbs(xp, lambda factors: xp.prod(factors, axis=axis), x)


def zero_absorbs(xp: Any, multiply: Callable[[Any], Any], x: Any) -> Any:
    """Return ``multiply(x)``, products of elements, with 0 where a zero met an overflow of finite ones."""
    out = multiply(x)
    if x.dtype.kind not in "fc" or not xp.any(out != out):
        return out
    zero = x == 0
    ones = xp.ones_like(x)
    only_zeros = multiply(xp.where(zero | xp.isinf(x), x, ones)) == 0  # an infinite factor makes it NaN
    others = multiply(xp.where(zero, ones, x))
    return xp.where(only_zeros & (others == others), xp.zeros_like(out), out)


@explained
def prod(
    x: Any,
    /,
    axis: Axis = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """Product of the elements along axes.

    The gradient of an element is the product of all others, exact to every order where elements are
    zero.

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
        1 for empty axes.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.
    ShapeError
        If an axis is named twice, or `where` does not broadcast.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([0.0, 2.0, 3.0], requires_grad=True)
    >>> eo.prod(x).backward()
    >>> print(x.grad)
    [6. 0. 0.]
    """
    if initial is not None or where is not None:
        return partly("prod", x, axis, keepdims, initial=initial, where=where, dtype=dtype)
    x = as_tensor(x)
    axes = normalize_axes(axis, x.ndim, "prod")
    out = in_dtype(lambda x: _prod_along(x, axes), x, dtype)
    return expand(out, x.shape, axes, False) if keepdims else out


def _prod_along(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Multiply along several axes as along one: only so are all zeros and overflows seen together."""
    if len(axes) == 1:
        return apply(_prod, (x,), {"axis": axes[0]})
    kept = tuple(i for i in range(x.ndim) if i not in axes)
    if kept + axes != tuple(range(x.ndim)):
        x = op.transpose(x, axes=kept + axes)
    x = op.reshape(x, shape=(*x.shape[: len(kept)], math.prod(x.shape[len(kept) :])))
    return apply(_prod, (x,), {"axis": len(kept)})


def _extremes_samples() -> list[Sample]:
    x = Values([[1.0, 2.0, 2.0], [2.0, 3.0, 1.0]])
    return [
        sample(x, Values([2.0, 3.0]), axis=(1,), keepdims=False, nan=True),
        sample(x, Values([[1.0], [1.0]]), axis=(1,), keepdims=True, nan=False),
        sample(x, Values(3.0), axis=None, keepdims=False, nan=True),
        sample((), (), axis=None, keepdims=False, nan=True),
        sample((0, 3), (0,), axis=(1,), keepdims=False, nan=False),
    ]


@primitive(None, None, missing="its results are discrete", samples=_extremes_samples, batch=along("axis"))
def _extremes(xp: Any, x: Any, out: Any, *, axis: AxisParam, keepdims: bool, nan: bool) -> Any:
    """Return which elements are the extreme `out` and how many share it, in the dtype of `x` or float32.

    Where it is NaN these are the NaN if `nan`, and none otherwise.
    """
    out = expand(out, x.shape, axis, keepdims)
    here = xp.asarray(x == out)
    if nan and x.dtype.kind == "f" and xp.any(out != out):
        here = here | ((x != x) & (out != out))
    total = xp.count_nonzero(here)
    if axis is None:
        number = xp.reshape(total, (1,) * x.ndim)
    elif total == out.size and not xp.any(out != out):  # then nothing is shared
        number = xp.ones_like(out)
    else:
        few = count(x.shape, axis) < 1 << 16
        number = xp.sum(here, axis=axis, keepdims=True, dtype="uint16" if few else "int64")
    return here, xp.astype(xp.asarray(number), float32 if x.dtype == float16 else x.dtype)


def extreme_rules(nan: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return vjp and jvp of an extreme; equal ones share it, NaN only if `nan`."""

    def vjp(g: Any, x: Any, out: Any, axis: AxisParam, keepdims: bool) -> Any:
        here, number = op.extremes(x, out, axis=axis, keepdims=keepdims, nan=nan)
        return op.where(here, shared(expand(g, x.shape, axis, keepdims), number, g.dtype), 0)

    def jvp(t: Any, x: Any, out: Any, axis: AxisParam, keepdims: bool) -> Any:
        here, number = op.extremes(x, out, axis=axis, keepdims=keepdims, nan=nan)
        return op.sum(op.where(here, t / number, 0), axis=axis, keepdims=keepdims)

    return vjp, jvp


_RULES = extreme_rules(nan=True)


def _extreme_samples() -> list[Sample]:
    ties = Values([[1.0, 2.0, 2.0], [2.0, 1.0, 1.0]])
    return reduction_samples(sample(ties, axis=(1,), keepdims=False), sample(ties, axis=None, keepdims=False))


@primitive(*_RULES, samples=_extreme_samples, batch=along("axis"))
def _max(xp: Any, x: Any, *, axis: AxisParam, keepdims: bool) -> Any:
    require_elements(x, axis, "max")
    return xp.max(x, axis=axis, keepdims=keepdims)


@primitive(*_RULES, samples=_extreme_samples, batch=along("axis"))
def _min(xp: Any, x: Any, *, axis: AxisParam, keepdims: bool) -> Any:
    require_elements(x, axis, "min")
    return xp.min(x, axis=axis, keepdims=keepdims)


def max(
    x: Any,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    **unknown: Never,
) -> Tensor:
    """Largest element along axes; NaN where there is a NaN. ``eo.amax`` is the same function.

    The gradient goes to the largest element; equal ones share it equally.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.
    axis : int or sequence of int, optional
        The axes to search; all by default.
    keepdims : bool, default False
        Keep the axes, with length 1.
    initial : number or tensor, optional
        One more element. Equal to the largest one it gets half of the gradient.
    where : tensor of booleans, optional
        Which elements take part, as in `sum`; with `initial`, the result where there is none.
    **unknown : never
        Nothing: other names are refused.

    Returns
    -------
    Tensor
        Of the dtype of `x`.

    Raises
    ------
    ShapeError
        If there is no element to choose from, an axis is named twice, or `where` does not broadcast.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.
    ArgumentError
        If there is `where` without `initial`.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([2.0, 1.0, 2.0], requires_grad=True)
    >>> eo.max(x).backward()
    >>> print(x.grad)
    [0.5 0.  0.5]
    """
    if unknown:
        raise misfit(max, (), unknown)
    if initial is not None or where is not None:
        return partly("max", x, axis, keepdims, initial=initial, where=where)
    return reduce(_max, x, axis, keepdims)


def min(
    x: Any,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    **unknown: Never,
) -> Tensor:
    """Smallest element along axes; NaN where there is a NaN. ``eo.amin`` is the same function.

    The gradient goes to the smallest element; equal ones share it equally.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.
    axis : int or sequence of int, optional
        The axes to search; all by default.
    keepdims : bool, default False
        Keep the axes, with length 1.
    initial : number or tensor, optional
        One more element. Equal to the smallest one it gets half of the gradient.
    where : tensor of booleans, optional
        Which elements take part, as in `sum`; with `initial`, the result where there is none.
    **unknown : never
        Nothing: other names are refused.

    Returns
    -------
    Tensor
        Of the dtype of `x`.

    Raises
    ------
    ShapeError
        If there is no element to choose from, an axis is named twice, or `where` does not broadcast.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.
    ArgumentError
        If there is `where` without `initial`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.min(eo.tensor([[2.0, 1.0], [3.0, 4.0]]), axis=1))
    [1. 3.]
    """
    if unknown:
        raise misfit(min, (), unknown)
    if initial is not None or where is not None:
        return partly("min", x, axis, keepdims, initial=initial, where=where)
    return reduce(_min, x, axis, keepdims)


amax, amin = max, min
