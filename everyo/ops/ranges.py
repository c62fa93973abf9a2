"""Ranges: numbers in sequence, and the identity matrix."""

from __future__ import annotations

from typing import Any

from everyo.core.device import backend_for
from everyo.core.dtypes import DIFFERENTIABLE, as_dtype, default_for, get_default_dtype, refuse_complex
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError
from everyo.ops.axes import as_flag, as_integer
from everyo.ops.creation import made, normalize_shape, number

__all__ = ["arange", "eye", "linspace"]


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


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int = 50,
    *,
    dtype: Any = None,
    device: str | None = None,
    endpoint: bool = True,
    requires_grad: bool = False,
) -> Tensor:
    """Return `num` evenly spaced numbers from `start` to `stop`.

    ``d(result)/d(start)`` falls from 1 to 0 and ``d(result)/d(stop)`` rises, if these are tensors.

    Parameters
    ----------
    start, stop : number or 0-d tensor
        The ends.
    num : int, default 50
        How many numbers.
    endpoint : bool, default True
        Whether `stop` is the last of them.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.linspace(0, 1, 5))
    [0.   0.25 0.5  0.75 1.  ]
    """
    endpoint = as_flag(endpoint, "endpoint", "linspace")
    if isinstance(start, Tensor) or isinstance(stop, Tensor):
        ends = [v if isinstance(v, Tensor) else number(v, "linspace", "an end") for v in (start, stop)]
        anchors = [v for v in ends if isinstance(v, Tensor)]
        floats = [v.dtype for v in anchors if v.dtype.kind in DIFFERENTIABLE]
        between = anchors[0].backend.xp.result_type(*floats) if floats else None
        place = anchors[0].device if device is None else device
        weights = linspace(0, 1, num, dtype=between, device=place, endpoint=endpoint)
        points = ends[0] * (1 - weights) + ends[1] * weights
        return points if dtype is None else points.astype(dtype, copy=False)
    backend, place = backend_for(device)
    (count,) = normalize_shape(as_integer(num, "num", "linspace"), "linspace")
    ends = [number(v, "linspace", "an end") for v in (start, stop)]
    array = backend.xp.linspace(*ends, count, endpoint=endpoint)
    wanted = as_dtype(dtype) if dtype is not None else default_for(array.dtype.kind) or array.dtype
    refuse_complex(array.dtype, wanted, "linspace")
    return made(backend.asarray(array, wanted, place), requires_grad, "linspace")


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
    array = backend.xp.eye(rows, columns, k=as_integer(k, "k", "eye"), dtype=wanted)
    return made(backend.asarray(array, None, place), requires_grad, "eye")
