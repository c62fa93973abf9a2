"""Sorting and searching: sort, argsort, topk, argmax, argmin."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from everyo.core.batching import along
from everyo.core.dispatch import apply
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.samples import Distinct, Sample, sample
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError
from everyo.ops.axes import as_flag, as_integer, normalize_axis
from everyo.ops.creation import as_tensor
from everyo.ops.extremes import require_elements
from everyo.ops.families import primitive
from everyo.ops.signatures import explained

__all__ = ["argmax", "argmin", "argsort", "sort", "topk"]

_DISCRETE: dict[str, Any] = {"family": "discrete", "missing": "its result is discrete"}
_SHAPES = (((3,), 0), ((2, 3), 1), ((3, 1, 2), 0), ((1,), 0), ((0, 2), 0), ((0, 2), 1))


def _sort_samples() -> list[Sample]:
    return [sample(Distinct(s), axis=axis, descending=d) for s, axis in _SHAPES for d in (False, True)]


def _argsort_samples() -> list[Sample]:
    return [sample(*s.inputs, **s.params, stable=True) for s in _sort_samples()]


@primitive(None, None, samples=_argsort_samples, batch=along("axis"), **_DISCRETE)
def _argsort(xp: Any, x: Any, *, axis: int, descending: bool = False, stable: bool = True) -> Any:
    if not descending:
        return xp.argsort(x, axis=axis, stable=stable)
    from_the_end = xp.argsort(xp.flip(x, axis=axis), axis=axis, stable=stable)
    return x.shape[axis] - 1 - xp.flip(from_the_end, axis=axis)  # so equal elements keep their order


def _sort_vjp(g: Any, x: Any, axis: int, descending: bool) -> Any:
    order = op.argsort(x, axis=axis, descending=descending)
    return op.scatter_along_axis(g, order, axis=axis, shape=x.shape)


def _sort_jvp(t: Any, x: Any, axis: int, descending: bool) -> Any:
    return op.take_along_axis(t, op.argsort(x, axis=axis, descending=descending), axis=axis)


@primitive(_sort_vjp, _sort_jvp, samples=_sort_samples, batch=along("axis"))
def _sort(xp: Any, x: Any, *, axis: int, descending: bool) -> Any:
    ascending = xp.sort(x, axis=axis)
    return xp.flip(ascending, axis=axis) if descending else ascending


def _flat_if_none(x: Any, axis: int | None, operation: str) -> tuple[Tensor, int]:
    """Return a tensor and a positive axis; for None the flattened tensor."""
    x = as_tensor(x)
    if axis is not None:
        return x, normalize_axis(axis, x.ndim, operation)
    return op.reshape(x, shape=(math.prod(x.shape),)), 0


@explained
def sort(x: Any, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Elements in order along an axis; NaN counts as the largest.

    The gradient of each element is that of the place it moved to.

    Parameters
    ----------
    x : tensor
        At least 1-d.
    axis : int or None, default -1
        The axis to sort along; None flattens first.
    descending : bool, default False
        Largest first.
    stable : bool, default True
        Equal elements keep their order, as their gradients always do.

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
    >>> print(eo.sort(eo.tensor([2.0, 3.0, 1.0]), descending=True))
    [3. 2. 1.]
    """
    x, along = _flat_if_none(x, axis, "sort")
    return apply(_sort, (x,), {"axis": along, "descending": as_flag(descending, "descending", "sort")})


@explained
def argsort(x: Any, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Indices that sort a tensor along an axis; they have no gradient.

    Parameters
    ----------
    x : tensor
        At least 1-d. A NaN counts as the largest.
    axis : int or None, default -1
        The axis to sort along; None flattens first.
    descending : bool, default False
        Largest first.
    stable : bool, default True
        Equal elements keep their order; False may be faster.

    Returns
    -------
    Tensor
        Integers, of the shape of `x`, or 1-d.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.argsort(eo.tensor([2.0, 3.0, 1.0])))
    [2 0 1]
    """
    x, along = _flat_if_none(x, axis, "argsort")
    params = {
        "axis": along,
        "descending": as_flag(descending, "descending", "argsort"),
        "stable": as_flag(stable, "stable", "argsort"),
    }
    return apply(_argsort, (x,), params)


class TopK(NamedTuple):
    """What `topk` returns."""

    values: Tensor
    indices: Tensor


def _top_samples() -> list[Sample]:
    return [
        sample(Distinct((2, 3)), axis=1, k=k, largest=largest) for k in (0, 2, 3) for largest in (False, True)
    ]


@primitive(None, None, samples=_top_samples, batch=along("axis"), **_DISCRETE)
def _top_indices(xp: Any, x: Any, *, axis: int, k: int, largest: bool) -> Any:
    order = op.argsort(x, axis=axis, descending=largest)
    return order[(slice(None),) * axis + (slice(k),)]


@explained
def topk(x: Any, /, k: int, axis: int = -1, *, largest: bool = True, sorted: bool = True) -> TopK:
    """The `k` largest elements along an axis, largest first, and their indices.

    The gradient goes to the elements that were chosen; of equal ones the first is.

    Parameters
    ----------
    x : tensor
        At least 1-d.
    k : int
        How many.
    axis : int, default -1
        The axis to choose along.
    largest : bool, default True
        False chooses the smallest, smallest first.
    sorted : bool, default True
        With False the order is not promised.

    Returns
    -------
    values, indices : Tensor
        A named tuple; each has length `k` along `axis`.

    Raises
    ------
    IndexingError
        If there is no such axis.
    ShapeError
        If there are no `k` elements.
    DTypeError
        If `k` or the axis is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> values, indices = eo.topk(eo.tensor([2.0, 5.0, 3.0]), 2)
    >>> print(values, indices)
    [5. 3.] [1 2]
    """
    x = as_tensor(x)
    axis = normalize_axis(axis, x.ndim, "topk")
    k = as_integer(k, "k", "topk")
    if not 0 <= k <= x.shape[axis]:
        raise ShapeError(
            f"there are no {k} elements to choose",
            operation="topk",
            expected=f"0 <= k <= {x.shape[axis]}, the length of axis {axis}",
            found=f"k={k}",
            remedy="use min(k, x.shape[axis])",
        )
    indices = apply(
        _top_indices, (x,), {"axis": axis, "k": k, "largest": as_flag(largest, "largest", "topk")}
    )
    return TopK(op.take_along_axis(x, indices, axis=axis), indices)


def _arg_samples() -> list[Sample]:
    cases = [((), None), ((3,), 0), ((2, 3), None), ((2, 3), 1), ((2, 1), 1), ((0, 3), 1)]
    return [sample(Distinct(s), axis=axis, keepdims=keep) for s, axis in cases for keep in (False, True)]


def _search_batch(search: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    if params["axis"] is not None:
        return along("axis")(search, inputs, batched, size, params)
    (x,) = inputs
    rank = len(x.shape) - 1
    found = search(op.reshape(x, shape=(size, math.prod(x.shape[1:]))), axis=1, keepdims=params["keepdims"])
    return op.reshape(found, shape=(size, *(1,) * rank)) if params["keepdims"] else found


@primitive(None, None, samples=_arg_samples, batch=_search_batch, **_DISCRETE)
def _argmax(xp: Any, x: Any, *, axis: int | None, keepdims: bool) -> Any:
    require_elements(x, None if axis is None else (axis,), "argmax")
    return xp.argmax(x, axis=axis, keepdims=keepdims)


@primitive(None, None, samples=_arg_samples, batch=_search_batch, **_DISCRETE)
def _argmin(xp: Any, x: Any, *, axis: int | None, keepdims: bool) -> Any:
    require_elements(x, None if axis is None else (axis,), "argmin")
    return xp.argmin(x, axis=axis, keepdims=keepdims)


def _search(primitive: Primitive, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    x = as_tensor(x)
    along = None if axis is None else normalize_axis(axis, x.ndim, primitive.name)
    return apply(primitive, (x,), {"axis": along, "keepdims": as_flag(keepdims, "keepdims", primitive.name)})


@explained
def argmax(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Index of the largest element along an axis (the first of equal ones); it has no gradient.

    Parameters
    ----------
    x : tensor
        Any shape. A NaN counts as the largest.
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
        If there is no element to choose from.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.argmax(eo.tensor([[1.0, 3.0], [5.0, 2.0]]), axis=1))
    [1 0]
    """
    return _search(_argmax, x, axis, keepdims)


@explained
def argmin(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Index of the smallest element along an axis (the first of equal ones); it has no gradient.

    Parameters
    ----------
    x : tensor
        Any shape. A NaN counts as the smallest.
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
        If there is no element to choose from.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.argmin(eo.tensor([[1.0, 3.0], [5.0, 2.0]]), axis=1))
    [0 1]
    """
    return _search(_argmin, x, axis, keepdims)
