"""Reductions: sum, mean and product, and what all reductions share."""

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
from everyo.ops.axes import as_flag, normalize_axes
from everyo.ops.creation import as_tensor
from everyo.ops.families import linear, primitive
from everyo.ops.signatures import explained, misfit

__all__ = ["mean", "prod", "sum"]

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


def in_dtype(function: Callable[[Tensor], Tensor], x: Any, dtype: Any, operation: str) -> Tensor:
    """Return ``function(x)`` computed in `dtype`; of `dtype` even where a small integer type would grow."""
    if dtype is None:
        return function(as_tensor(x))
    dtype = as_dtype(dtype)
    out = function(converted(x, dtype, operation))
    return out if out.dtype == dtype else op.astype(out, dtype=dtype)


def converted(x: Any, dtype: Any, operation: str) -> Tensor:
    """Return `x` as a tensor of the dtype that a reduction is to be computed in; of its own for None."""
    x = as_tensor(x)
    if dtype is None:
        return x
    dtype = as_dtype(dtype)
    refuse_complex(x.dtype, dtype, operation)
    return x if x.dtype == dtype else op.astype(x, dtype=dtype)


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
    return in_dtype(lambda x: reduce(_sum, x, axis, keepdims), x, dtype, "sum")


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

        return in_dtype(lambda x: mean_of(x, axis, keepdims, where), x, dtype, "mean")
    return in_dtype(lambda x: reduce(_mean, x, axis, keepdims), x, dtype, "mean")


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
    keepdims = as_flag(keepdims, "keepdims", "prod")
    out = in_dtype(lambda x: _prod_along(x, axes), x, dtype, "prod")
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
