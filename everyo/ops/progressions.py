"""Geometric progressions and triangles of ones."""

from __future__ import annotations

from typing import Any

from everyo.core.device import backend_for
from everyo.core.dtypes import DIFFERENTIABLE, as_dtype, float64, get_default_dtype
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError
from everyo.ops.arithmetic import power
from everyo.ops.axes import as_diagonal, as_integer, normalize_shape
from everyo.ops.creation import as_tensor, as_tensors, made
from everyo.ops.known import everywhere, look
from everyo.ops.ranges import arange, doubled, is_plain, linspace
from everyo.ops.shape import broadcast_arrays, expand_dims
from everyo.ops.signatures import composed, explained
from everyo.ops.transposition import moveaxis

__all__ = ["geomspace", "logspace", "tri"]


@composed
def logspace(
    start: Any,
    stop: Any,
    /,
    num: int = 50,
    *,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    device: str | None = None,
    axis: int = 0,
) -> Tensor:
    """Return powers of `base` whose exponents are evenly spaced from `start` to `stop`.

    ``d base**t = base**t (log(base) dt + t / base dbase)``; the exponents are those of `linspace`, and all
    is computed in double precision and rounded once.

    Parameters
    ----------
    start, stop : number or tensor
        The exponents at the ends, of shapes that broadcast.
    num : int, default 50
        How many.
    endpoint : bool, default True
        Whether `stop` is the last exponent.
    base : number or tensor
        What is raised to them, of a shape that broadcasts with those of the ends.
    dtype : dtype-like, optional
        The dtype of the result.
    device : str, optional
        Where the result goes.
    axis : int, default 0
        The axis of the result along which they lie, if the ends have axes.

    Returns
    -------
    Tensor
        Of shape ``(num,)``, or the shape of the ends with an axis of `num` more.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast, or `num` is negative.
    IndexingError
        If there is no such axis.
    DTypeError
        If an end is no number, or `num` no integer.
    DeviceError
        If there is no such device.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.logspace(0, 2, 3))
    [  1.  10. 100.]
    """
    if not is_plain(base) and as_tensor(base).ndim:
        base, start, stop = broadcast_arrays(base, start, stop)
        base = expand_dims(base, axis)
    wanted = power(base, linspace(start, stop, 0, axis=axis)).dtype if dtype is None else dtype
    low, high, base = (doubled(value, "logspace") for value in (start, stop, base))
    powers = power(base, linspace(low, high, num, endpoint=endpoint, device=device, axis=axis))
    return powers.astype(wanted, copy=False)


@composed
def geomspace(
    start: Any,
    stop: Any,
    /,
    num: int = 50,
    *,
    endpoint: bool = True,
    dtype: Any = None,
    device: str | None = None,
    axis: int = 0,
) -> Tensor:
    """Return numbers from `start` to `stop` of which each is the same multiple of the one before.

    They are ``y = start * (stop / start)**w`` with weights ``w`` from 0 to 1, so
    ``dy = y * ((1 - w) dstart / start + w dstop / stop)``. They are computed from logarithms in double
    precision, as NumPy computes them, and rounded once; the ends are those given.

    Parameters
    ----------
    start, stop : number or tensor
        The ends, of the same sign and of shapes that broadcast.
    num : int, default 50
        How many.
    endpoint : bool, default True
        Whether `stop` is the last number.
    dtype : dtype-like, optional
        The dtype of the result.
    device : str, optional
        Where the result goes.
    axis : int, default 0
        The axis of the result along which they lie, if the ends have axes.

    Returns
    -------
    Tensor
        Of shape ``(num,)``, or the shape of the ends with an axis of `num` more.

    Raises
    ------
    ArgumentError
        If an end is 0, or the signs differ; under `vmap` nobody looks.
    ShapeError
        If the ends do not broadcast, or `num` is negative.
    IndexingError
        If there is no such axis.
    DTypeError
        If an end is no number, or `num` no integer.
    DeviceError
        If there is no such device.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.geomspace(1, 8, 4))
    [1. 2. 4. 8.]
    """
    ends = [float(end) if isinstance(end, int) else end for end in (start, stop)]
    first, last = as_tensors(ends, "geomspace", None if dtype is None else float64)

    def check(first: Any, last: Any) -> None:
        if not _common_ratio(first, last):
            raise ArgumentError(
                "these ends have no common ratio",
                operation="geomspace",
                expected="ends other than 0, of the same sign if they are real",
                found=f"{first} to {last}",
                remedy="use eo.linspace, or complex numbers",
            )

    wanted = first.backend.xp.result_type(first.dtype, last.dtype) if dtype is None else as_dtype(dtype)
    if dtype is None and wanted.kind not in DIFFERENTIABLE:
        wanted = float64
    first, last = broadcast_arrays(*(doubled(end, "geomspace") for end in ends))
    look(check, first, last)
    sign = op.stop_gradient(op.sign(first))  # the progression does not depend on it, but for its branch
    exponents = linspace(op.log10(first / sign), op.log10(last / sign), num, endpoint=endpoint, device=device)
    places = arange(len(exponents), device=device).reshape((-1,) + (1,) * first.ndim)
    at_end = (places == len(exponents) - 1) & (places > 0) & bool(endpoint)
    inner = (places > 0) & ~at_end
    progression = sign * power(10.0, op.where(inner, exponents, 0.0))
    progression = op.where(inner, progression, op.where(at_end, last, first))
    return moveaxis(progression, 0, axis).astype(wanted, copy=False)


def _common_ratio(first: Any, last: Any) -> bool:
    """Whether between these arrays lie numbers whose quotients are equal: in the reals, of the same sign."""
    some = (first != 0) & (last != 0)
    if first.dtype.kind == "c" or last.dtype.kind == "c":
        return everywhere(some)
    return everywhere(some & ((first > 0) == (last > 0)))


@explained
def tri(
    N: int, M: int | None = None, /, k: int = 0, *, dtype: Any = None, device: str | None = None
) -> Tensor:
    """Return a matrix with ones on and below its `k`-th diagonal and zeros above.

    It is a constant: nothing it depends on has a gradient.

    Parameters
    ----------
    N, M : int
        Rows and columns; as many columns as rows by default.
    k : int, default 0
        Which diagonal is the last one of ones.
    dtype : dtype-like, optional
        The default float dtype by default.
    device : str, optional
        Where the result goes.

    Returns
    -------
    Tensor
        Shape ``(N, M)``.

    Raises
    ------
    ShapeError
        If a size is negative.
    DTypeError
        If a size or `k` is no integer.
    DeviceError
        If there is no such device.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.tri(2, 3))
    [[1. 0. 0.]
     [1. 1. 0.]]
    """
    backend, place = backend_for(device)
    sizes = as_integer(N, "N", "tri"), as_integer(N if M is None else M, "M", "tri")
    rows, columns = normalize_shape(sizes, "tri")
    wanted = get_default_dtype() if dtype is None else as_dtype(dtype)
    array = backend.xp.tri(rows, columns, as_diagonal(k, rows, columns, "tri"), wanted)
    return made(backend.asarray(array, None, place), False, "tri")
