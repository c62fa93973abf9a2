"""The largest and the smallest element along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never

from everyo.core.batching import along
from everyo.core.dtypes import float16, float32
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.ops.families import primitive
from everyo.ops.reductions import Axis, AxisParam, count, expand, partly, reduce, reduction_samples, shared
from everyo.ops.signatures import misfit

__all__ = ["amax", "amin", "max", "min"]


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
    if axis is None:
        number = xp.reshape(xp.count_nonzero(here), (1,) * x.ndim)
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
