"""NumPy functions without the Python wrappers that cost more than the work on a small array."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from everyo.backends.accelerated import LARGE, total

_WHOLE, _REVERSED = slice(None), slice(None, None, -1)
_SMALL = 1024  # elements that are written faster than a view of zero strides is made


def reduction(ufunc: np.ufunc, dtype: Any = None) -> Callable[..., Any]:
    """Return ``np.sum``, ``np.max`` or a relative: the bare ``reduce`` of its ufunc."""
    reduce: Any = ufunc.reduce

    def reduced(x: Any, axis: Any = None, dtype: Any = dtype, keepdims: bool = False) -> Any:
        return reduce(x, axis, dtype, None, keepdims)

    def added(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        if dtype is None and x.size >= LARGE:
            found = total(x, axis, keepdims)
            if found is not None:
                return found
        return reduce(x, axis, dtype, None, keepdims)

    return added if ufunc is np.add else reduced


def reshape(x: Any, shape: Any) -> Any:
    """Return the elements of `x` in another shape."""
    return x.reshape(shape)


def _reshape(x: Any, shape: Any) -> Any:
    for n in shape if shape.__class__ is tuple else (shape,):
        if n < -1:  # which NumPy takes for -1
            raise ValueError
    return x.reshape(shape)


def ravel(x: Any, order: str = "C") -> Any:
    """Return the elements of `x` along one axis."""
    return x.ravel(order)


def permute_dims(x: Any, axes: tuple[int, ...]) -> Any:
    """Return `x` with its axes in another order."""
    return x.transpose(axes)


def _transpose(x: Any, axes: tuple[int, ...] | None = None) -> Any:
    return x.transpose(axes)


def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    """Return `x` with two axes exchanged."""
    return x.swapaxes(axis1, axis2)


def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    """Return `x` with an axis in another place, or several as by NumPy's function."""
    if source.__class__ is int and destination.__class__ is int:
        return x.transpose(_with_moved_axis(x.ndim, source, destination))
    return np.moveaxis(x, source, destination)


@functools.lru_cache(256)
def _with_moved_axis(ndim: int, source: int, destination: int) -> tuple[int, ...]:
    axes = list(range(ndim))
    axes.insert(destination % ndim, axes.pop(source))
    return tuple(axes)


def matrix_transpose(x: Any) -> Any:
    """Return `x` with its last two axes exchanged."""
    if x.ndim < 2:
        raise ValueError("the tensor must be at least 2-dimensional")
    return x.swapaxes(-1, -2)


def flip(x: Any, axis: int | tuple[int, ...] | None = None) -> Any:
    """Return `x` in reverse order along some axes, by default along all."""
    return x[_reversal(axis, x.ndim)]


@functools.lru_cache(256)
def _reversal(axis: int | tuple[int, ...] | None, ndim: int) -> Any:
    axes = range(ndim) if axis is None else normalize_axis_tuple(axis, ndim)
    return tuple([_REVERSED if i in axes else _WHOLE for i in range(ndim)]) or ...  # () would give a scalar


def diagonal(x: Any, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Any:
    """Return a diagonal of two axes: a view that can be written to where `x` can, unlike NumPy's."""
    out = x.diagonal(offset, axis1, axis2)
    if x.flags.writeable:
        out.flags.writeable = True
    return out


def _diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return diagonal(x, offset, axis1, axis2)


def trace(x: Any, offset: int = 0) -> Any:
    """Return the sums of a diagonal of the last two axes."""
    return np.add.reduce(x.diagonal(offset, -2, -1), -1)  # ndarray.trace finds the same function by its name


def _trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return np.asarray(np.add.reduce(x.diagonal(offset, axis1, axis2), -1))


def broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
    """Return `x` broadcast to `shape`: a view as in NumPy, but written out where that is little."""
    if x.ndim > len(shape) or math.prod(shape) > _SMALL:
        return np.broadcast_to(x, shape)
    out = np.empty(shape, x.dtype)
    out[...] = x
    return out


def _atleast_1d(x: Any) -> Any:
    return x[:] if x.ndim else x.reshape(1)


def _atleast_2d(x: Any) -> Any:
    return x[:] if x.ndim > 1 else x.reshape(1, x.size)


VIEWS: dict[str, Callable[..., Any]] = {  # under the names that `everyo.ops` gives them, with its defaults
    "atleast_1d": _atleast_1d, "atleast_2d": _atleast_2d, "broadcast_to": broadcast_to,
    "diagonal": _diagonal, "flip": flip, "fliplr": itemgetter((_WHOLE, _REVERSED)),
    "flipud": itemgetter(_REVERSED), "permute_dims": permute_dims,
    "reshape": _reshape, "squeeze": np.ndarray.squeeze, "swapaxes": np.ndarray.swapaxes,
    "trace": _trace, "transpose": _transpose,
}  # fmt: skip


def argsort(x: Any, axis: int = -1, stable: bool = False) -> Any:
    """Return the order of the elements; that of large vectors is made stable after the quicker sort."""
    if not stable or x.ndim != 1 or x.size < LARGE or x.dtype.char not in "fdilqILQ":
        return np.argsort(x, axis=axis, stable=stable)
    order = np.argsort(x)
    ascending = x[order]
    if ascending[-1] != ascending[-1]:  # several NaNs are in no order of their own
        return np.argsort(x, stable=True)
    rises = ascending[1:] > ascending[:-1]
    if np.all(rises):
        return order
    first = np.zeros(x.size, np.int64)  # equal elements get one number, and are sorted by their places
    np.cumsum(rises, out=first[1:])
    first *= x.size
    order += first
    order.sort()
    order -= first
    return order


def holds_nan(x: Any) -> bool:
    """Whether an element is NaN: then the largest one is."""
    if x.dtype.kind == "f":
        return x.size > 0 and math.isnan(np.maximum.reduce(x, None))
    return x.dtype.kind == "c" and bool(np.isnan(x).any())
