"""Reductions to truth values and counts, which have no gradient: all, any, count_nonzero."""

from __future__ import annotations

from typing import Any

from everyo.core.batching import along
from everyo.core.samples import Sample, sample
from everyo.core.tensor import Tensor
from everyo.ops.families import primitive
from everyo.ops.reductions import Axis, AxisParam, partly, reduce
from everyo.ops.signatures import explained

__all__ = ["all", "any", "count_nonzero"]


def _truth_samples() -> list[Sample]:
    return [sample((), axis=None, keepdims=False), sample((2, 0, 3), axis=(0, 2), keepdims=True)]


_truth = primitive(
    None,
    None,
    family="discrete",
    missing="its result is discrete",
    samples=_truth_samples,
    batch=along("axis"),
)


@_truth
def _all(xp: Any, x: Any, *, axis: AxisParam, keepdims: bool) -> Any:
    return xp.all(x, axis=axis, keepdims=keepdims)


@_truth
def _any(xp: Any, x: Any, *, axis: AxisParam, keepdims: bool) -> Any:
    return xp.any(x, axis=axis, keepdims=keepdims)


@_truth
def _count_nonzero(xp: Any, x: Any, *, axis: AxisParam, keepdims: bool) -> Any:
    return xp.sum(x != 0, axis=axis, keepdims=keepdims)


@explained
def all(x: Any, /, axis: Axis = None, *, keepdims: bool = False, where: Any = None) -> Tensor:
    """Whether all elements along axes are nonzero; True for empty axes. It has no gradient.

    Parameters
    ----------
    x : tensor
        Any shape and dtype. A NaN is not zero.
    axis : int or sequence of int, optional
        The axes to reduce; all by default.
    keepdims : bool, default False
        Keep the axes, with length 1.
    where : tensor of booleans, optional
        Which elements take part, of a shape that broadcasts to that of `x`; all by default.

    Returns
    -------
    Tensor
        Booleans.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.
    ShapeError
        If an axis is named twice, or `where` does not broadcast to the shape of `x`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.all(eo.tensor([[1.0, 0.0], [2.0, 3.0]]), axis=1))
    [False  True]
    """
    if where is not None:
        return partly("all", x, axis, keepdims, where=where)
    return reduce(_all, x, axis, keepdims)


@explained
def any(x: Any, /, axis: Axis = None, *, keepdims: bool = False, where: Any = None) -> Tensor:
    """Whether an element along axes is nonzero; False for empty axes. It has no gradient.

    Parameters
    ----------
    x : tensor
        Any shape and dtype. A NaN is not zero.
    axis : int or sequence of int, optional
        The axes to reduce; all by default.
    keepdims : bool, default False
        Keep the axes, with length 1.
    where : tensor of booleans, optional
        Which elements take part, of a shape that broadcasts to that of `x`; all by default.

    Returns
    -------
    Tensor
        Booleans.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.
    ShapeError
        If an axis is named twice, or `where` does not broadcast to the shape of `x`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.any(eo.tensor([[0.0, 0.0], [2.0, 3.0]]), axis=1))
    [False  True]
    """
    if where is not None:
        return partly("any", x, axis, keepdims, where=where)
    return reduce(_any, x, axis, keepdims)


@explained
def count_nonzero(x: Any, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """How many elements along axes are nonzero. It has no gradient.

    Parameters
    ----------
    x : tensor
        Any shape and dtype. A NaN is not zero.
    axis : int or sequence of int, optional
        The axes to reduce; all by default.
    keepdims : bool, default False
        Keep the axes, with length 1.

    Returns
    -------
    Tensor
        Integers.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.
    ShapeError
        If an axis is named twice.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.count_nonzero(eo.tensor([[1.0, 0.0], [2.0, 3.0]])).item()
    3
    """
    return reduce(_count_nonzero, x, axis, keepdims)
