"""Ranges: numbers in sequence, and the identity matrix."""

from __future__ import annotations

import math
from typing import Any

from everyo.core.device import backend_for
from everyo.core.dtypes import (
    DIFFERENTIABLE,
    as_dtype,
    default_for,
    float64,
    get_default_dtype,
    refuse_complex,
)
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.core.traced import is_number
from everyo.errors import ArgumentError
from everyo.ops.axes import as_diagonal, as_flag, as_integer, normalize_shape
from everyo.ops.creation import as_tensors, made, number, real_number
from everyo.ops.reductions import inexact
from everyo.ops.signatures import composed, explained
from everyo.ops.transposition import moveaxis

__all__ = ["arange", "eye", "linspace"]


@explained
def arange(
    start: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return evenly spaced numbers from `start` (0 if only one bound is given) up to but without `stop`.

    The bounds are plain numbers: no gradient flows to them.

    Parameters
    ----------
    start : number
        The first of the numbers, or, if it is the only bound, what they stay below.
    stop : number, optional
        What they stay below, or above if the step is negative.
    step : number, default 1
        The distance of two neighbours.
    dtype : dtype-like, optional
        By default int64 for integers, and the default float dtype for other real numbers.
    device : str, optional
        Where the result goes.
    requires_grad : bool, default False
        Whether operations on the result are recorded.

    Returns
    -------
    Tensor
        1-d; empty if `stop` is not ahead of `start`.

    Raises
    ------
    ArgumentError
        If the step is 0, or the range is not finite or does not fit into memory.
    DTypeError
        If a bound is no number, or integers should require grad.
    GraphStateError
        If a bound is a tensor that requires grad.
    DeviceError
        If there is no such device.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.arange(4), eo.arange(1.0, 2.0, 0.25))
    [0 1 2 3] [1.   1.25 1.5  1.75]
    """
    bounds = [number(v, "arange") for v in ((0, start) if stop is None else (start, stop))]
    step = number(step, "arange")
    backend, place = backend_for(device)
    if step == 0:
        raise ArgumentError("the step cannot be 0", operation="arange", expected="another step", found="0")
    wanted = None if dtype is None else as_dtype(dtype)
    try:
        array = backend.asarray(backend.xp.arange(*bounds, step), None, place)
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        raise ArgumentError(
            "there is no such range",
            operation="arange",
            expected="finite real numbers, and a range that fits into memory",
            found=f"{bounds[0]} to {bounds[1]} in steps of {step}: {error}",
            remedy="use eo.linspace for a number of points, or other bounds",
        ) from error
    wanted = default_for(array.dtype.kind) if wanted is None else wanted
    return made(backend.asarray(array, wanted, place), requires_grad, "arange")


@composed
def linspace(
    start: Any,
    stop: Any,
    /,
    num: int = 50,
    *,
    dtype: Any = None,
    device: str | None = None,
    endpoint: bool = True,
    retstep: bool = False,
    axis: int = 0,
    requires_grad: bool = False,
) -> Any:
    """Return `num` evenly spaced numbers from `start` to `stop`.

    ``d(result)/d(start)`` falls from 1 to 0 and ``d(result)/d(stop)`` rises, if these are tensors.

    Parameters
    ----------
    start, stop : number or tensor
        The ends, of shapes that broadcast.
    num : int, default 50
        How many numbers.
    dtype : dtype-like, optional
        The dtype of the result; numbers are rounded down to integers.
    device : str, optional
        Where the result goes.
    endpoint : bool, default True
        Whether `stop` is the last of them.
    retstep : bool, default False
        Also return the distance between two of them.
    axis : int, default 0
        The axis of the result along which they lie, if the ends have axes.
    requires_grad : bool, default False
        Whether operations on the result are recorded, if the ends are numbers.

    Returns
    -------
    Tensor
        Of shape ``(num,)``, or the shape of the ends with an axis of `num` more; in a tuple with the
        distances if `retstep`.

    Raises
    ------
    ShapeError
        If the ends do not broadcast, or `num` is negative.
    IndexingError
        If there is no such axis.
    DTypeError
        If an end is no number, or `num` no integer, or complex numbers would become real in `dtype`.
    DeviceError
        If there is no such device.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.linspace(0, 1, 5))
    [0.   0.25 0.5  0.75 1.  ]
    >>> print(eo.linspace(eo.tensor([0.0, 1.0]), 4.0, 3))
    [[0.  1. ]
     [2.  2.5]
     [4.  4. ]]
    """
    endpoint = as_flag(endpoint, "endpoint", "linspace")
    if as_flag(retstep, "retstep", "linspace"):
        points = linspace(
            start,
            stop,
            num,
            dtype=dtype,
            device=device,
            endpoint=endpoint,
            axis=axis,
            requires_grad=requires_grad,
        )
        low, high = map(inexact, as_tensors((start, stop), "linspace", _precision(dtype)))
        parts = num - endpoint
        return points, (high - low) / parts if parts else (high - low) * math.nan
    if not is_plain(start) or not is_plain(stop):
        return _between((start, stop), num, dtype, device, endpoint, axis)
    backend, place = backend_for(device)
    (count,) = normalize_shape(as_integer(num, "num", "linspace"), "linspace")
    ends = [number(v, "linspace", "an end") for v in (start, stop)]
    ends = [real_number(v, "linspace", "an end") if isinstance(v, int) else v for v in ends]
    array = backend.xp.linspace(*ends, count, endpoint=endpoint)
    wanted = as_dtype(dtype) if dtype is not None else default_for(array.dtype.kind) or array.dtype
    refuse_complex(array.dtype, wanted, "linspace")
    array = backend.xp.floor(array) if wanted.kind in "iu" else array
    return made(backend.asarray(array, wanted, place), requires_grad, "linspace")


def is_plain(value: Any) -> bool:
    """Whether a value is a Python number, which takes the dtype of what it meets."""
    return not hasattr(value, "dtype") and not isinstance(value, (list, tuple))


def _between(ends: Any, num: Any, dtype: Any, device: str | None, endpoint: bool, axis: int) -> Tensor:
    """Return evenly spaced numbers between ends of which one at least is a tensor."""
    numbers = all(is_plain(v) or is_number(v) for v in ends)
    precision = float64 if numbers else _precision(dtype)
    low, high = as_tensors(ends, "linspace", precision)
    if numbers and dtype is None:
        dtype = default_for(max(low.dtype.kind, high.dtype.kind, "f", key="biufc".index))
    floats = [v.dtype for v in (low, high) if v.dtype.kind in DIFFERENTIABLE]
    between = low.backend.xp.result_type(*floats, precision or floats[0]) if floats else float64
    place = low.device if device is None else device
    (count,) = normalize_shape(as_integer(num, "num", "linspace"), "linspace")
    steps = low.backend.xp.finfo(between).dtype
    places = arange(count, dtype=steps, device=place).reshape((count,) + (1,) * max(low.ndim, high.ndim))
    if not floats:  # whose difference may not fit their dtype
        low, high = (op.astype(v, dtype=between) for v in (low, high))
    points = low + (high - low) / max(count - endpoint, 1) * places  # as NumPy: whole numbers stay whole
    if endpoint and count > 1:
        points = op.where(places == count - 1, high, points)
    points = moveaxis(points, 0, axis)
    if dtype is None:
        return points
    return (op.floor(points) if as_dtype(dtype).kind in "iu" else points).astype(dtype, copy=False)


def _precision(dtype: Any) -> Any:
    """Return the dtype that Python's numbers keep their digits in where a result of `dtype` is asked for."""
    if dtype is None:
        return None
    wanted = as_dtype(dtype)
    return wanted if wanted.kind in DIFFERENTIABLE else float64


def doubled(value: Any, operation: str) -> Tensor:
    """Return an operand in float64, or complex128, to which Python's numbers and lists come unrounded."""
    (x,) = as_tensors([value], operation, float64)
    return op.astype(x, dtype=x.backend.xp.result_type(x.dtype, float64))


@explained
def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a matrix with ones on its `k`-th diagonal and zeros elsewhere.

    It is a constant: nothing it depends on has a gradient.

    Parameters
    ----------
    n_rows : int
        The number of rows.
    n_cols : int, optional
        The number of columns; as many as rows by default.
    k : int, default 0
        Which diagonal: above (positive) or below (negative) the main one.
    dtype : dtype-like, optional
        The default float dtype by default.
    device : str, optional
        Where the result goes.
    requires_grad : bool, default False
        Whether operations on the result are recorded.

    Returns
    -------
    Tensor
        Shape ``(n_rows, n_cols)``.

    Raises
    ------
    ShapeError
        If a size is negative.
    DTypeError
        If a size or `k` is no integer, or integers should require grad.
    DeviceError
        If there is no such device.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.eye(2, 3))
    [[1. 0. 0.]
     [0. 1. 0.]]
    """
    backend, place = backend_for(device)
    rows, columns = normalize_shape((n_rows, n_rows if n_cols is None else n_cols), "eye")
    wanted = get_default_dtype() if dtype is None else as_dtype(dtype)
    array = backend.xp.eye(rows, columns, k=as_diagonal(k, rows, columns, "eye"), dtype=wanted)
    return made(backend.asarray(array, None, place), requires_grad, "eye")
