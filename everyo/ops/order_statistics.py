"""Order statistics: quantiles, percentiles and medians, also of what is not NaN."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.dispatch import apply
from everyo.core.dtypes import as_dtype
from everyo.core.operands import array_from, tensors_in
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, describe
from everyo.ops import elements_by_rank  # noqa: F401  its primitives
from everyo.ops.axes import as_flag, normalize_axes
from everyo.ops.creation import as_tensor, as_tensors, is_python_data, weak
from everyo.ops.docstrings import F, described
from everyo.ops.known import anywhere, everywhere, fixed, is_known, look
from everyo.ops.quantile_places import CONTINUOUS, DISCRETE, Place
from everyo.ops.signatures import explained
from everyo.ops.weighted_quantiles import checked_weights
from everyo.ops.weighted_quantiles import ranks as weighted_ranks

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

Axis = int | Sequence[int] | None


def _known(method: Any, operation: str) -> Place:
    for table in (CONTINUOUS, DISCRETE):
        if isinstance(method, str) and method in table:
            return table[method]
    raise ArgumentError(
        "there is no such method",
        operation=operation,
        expected=", ".join([*CONTINUOUS, *DISCRETE]),
        found=repr(method),
    )


def _levels(q: Any, x: Tensor, scale: float, operation: str) -> tuple[Any, Any]:
    """Return the probabilities in float64, raw unless they may have a derivative, and the result's dtype."""
    if q.__class__ is float and 0 <= q <= scale:
        return x.backend.asarray(q / scale, as_dtype("float64"), x.device), x.dtype
    dtype, known = x.dtype, fixed(q, operation)
    if known is None and is_python_data(q):  # numbers that a compiled program is given
        (q,) = as_tensors([q], operation, as_dtype("float64"))
    elif hasattr(q, "dtype") or next(tensors_in(q), None) is not None:
        q = as_tensor(q, x)
        dtype = x.backend.xp.result_type(x.dtype, q.dtype) if q.dtype.kind in "fc" else x.dtype
    else:
        q = as_tensor(array_from(q, x.backend, x.device, operation, as_dtype("float64")), x)
    if q.dtype.kind not in "iuf":
        raise DTypeError(
            "probabilities are real numbers",
            operation=operation,
            inputs=describe(x, q),
            expected="a real dtype",
            found=str(q.dtype),
            remedy="convert them first",
        )
    free = q.grad_node is not None or not is_known(q)
    q = op.astype(q if free else q.data, dtype=as_dtype("float64"))
    given, shape = x.dtype, tuple(x.shape)  # a check must not hold on to tensors

    def check(levels: Any) -> None:
        if not everywhere((levels >= 0) & (levels <= scale)):
            raise ArgumentError(
                "a probability is outside its range",
                operation=operation,
                inputs=f"{given} {shape}",
                expected=f"numbers from 0 to {scale:g}",
                found=str(levels.tolist()),
                remedy="percentile counts from 0 to 100, quantile from 0 to 1",
            )

    if known is None:
        look(check, q)
    else:
        check(known)
    return q if scale == 1 else q / scale, dtype


def _rows(x: Tensor, axis: Axis, operation: str) -> tuple[Tensor, tuple[int, ...]]:
    """Return `x` with what is to be reduced as its last axis, and the axes that were."""
    axes = normalize_axes(axis, x.ndim, operation)
    kept = [i for i in range(x.ndim) if i not in axes]
    if kept + list(axes) != list(range(x.ndim)):
        x = op.transpose(x, axes=(*kept, *axes))
    if len(axes) != 1:
        x = op.reshape(x, shape=(*x.shape[: len(kept)], math.prod(x.shape[len(kept) :])))
    return x, axes


def _quantile(
    x: Any,
    q: Any,
    axis: Axis,
    method: str,
    keepdims: bool,
    operation: str,
    weights: Any,
    *,
    scale: float,
    skipna: bool,
) -> Tensor:
    place = _known(method, operation)
    keepdims = as_flag(keepdims, "keepdims", operation)
    x = weak(x, [q], operation) if isinstance(q, Tensor) and not is_python_data(q) else as_tensor(x)
    if x.dtype.kind not in "iuf":
        raise DTypeError(
            "there are quantiles of real numbers only",
            operation=operation,
            inputs=describe(x),
            expected="a real dtype",
            found=str(x.dtype),
            remedy="take its real part, or convert booleans: x.astype(eo.float64)",
        )
    if method in CONTINUOUS and x.dtype.kind != "f":
        x = op.astype(x, dtype=as_dtype("float64"))
    q, dtype = _levels(q, x, scale, operation)
    shape = tuple(x.shape)
    levels = op.reshape(q, shape=(math.prod(q.shape),))
    if weights is not None:
        weights = checked_weights(weights, x, axis, method, operation)
        weights = _rows(weights, axis, operation)[0]
    x, axes = _rows(x, axis, operation)
    if weights is None or not x.shape[-1]:
        found = _of_rows(x, levels, place, method in CONTINUOUS, skipna)
    else:
        found = _at(x, weighted_ranks(x, levels, weights, skipna, operation), x.ndim - 1, skipna)
    if found.dtype != dtype and dtype.kind == "f":
        found = op.astype(found, dtype=dtype)
    if found.ndim > 1:
        found = op.transpose(found, axes=(found.ndim - 1, *range(found.ndim - 1)))
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes)
    return op.reshape(found, shape=(*q.shape, *kept))


def _of_rows(x: Tensor, q: Any, place: Place, continuous: bool, skipna: bool) -> Tensor:
    """Return the quantiles along the last axis, one for each of the vector `q` of probabilities."""
    axis, n = x.ndim - 1, x.shape[-1]
    if not n:
        nothing = op.mean(x, axis=(axis,), keepdims=True)
        return op.broadcast_to(nothing, shape=(*nothing.shape[:-1], q.shape[0]))
    number: Any = n
    if skipna and x.dtype.kind == "f" and _has_nan(x):
        number = op.count_nonzero(op.equal(x, x), axis=(axis,), keepdims=True)
        number = op.astype(op.maximum(number, 1), dtype=as_dtype("float64"))  # of no number the rank is 0
        q = op.reshape(q, shape=(*(1,) * axis, q.shape[0]))
    if number is n and not isinstance(q, Tensor) and q.shape == (1,):
        backend: Any = x.backend
        ranks, weight = _places_of_one(place, n, q.item(), continuous, backend, x.device)
    else:
        ranks, weight = _places(place, number, q, continuous)
    ends = _at(x, ranks, axis, skipna)
    if not continuous:
        return ends
    count = q.shape[-1]
    low = op.getitem(ends, index=(Ellipsis, slice(None, count)))
    high = op.getitem(ends, index=(Ellipsis, slice(count, None)))
    return apply(op.between, (low, high, op.astype(weight, dtype=x.dtype)))


def _places(place: Place, number: Any, q: Any, continuous: bool) -> tuple[Any, Any]:
    """Return the ranks of the elements below and those above, and the weights of the latter."""
    v = op.clip(place(number, q), 0.0, number - 1.0)
    below = op.floor(v)
    if continuous and isinstance(q, Tensor):
        below = op.maximum(op.minimum(below, number - 2.0), 0.0)  # so that the last place has a slope too
    ranks = op.astype(below, dtype=as_dtype("int64"))
    if not continuous:
        return ranks, None
    above = op.astype(op.minimum(below + 1, number - 1.0), dtype=as_dtype("int64"))
    return op.concat(ranks, above, axis=len(ranks.shape) - 1), v - below


@functools.lru_cache
def _places_of_one(
    place: Place, number: int, q: float, continuous: bool, backend: Any, device: str
) -> tuple[Any, Any]:
    """Return the places for one probability; to work them out takes longer than to sort a small array."""
    return _places(place, number, backend.asarray([q], as_dtype("float64"), device), continuous)


def _has_nan(x: Tensor) -> bool:
    """Whether ranks must be counted row by row; where values are not known yet they must."""
    return not is_known(x) or anywhere(op.isnan(x.data))


def _at(x: Tensor, ranks: Any, axis: int, skipna: bool) -> Tensor:
    if len(ranks.shape) == 1:
        ranks = op.reshape(ranks, shape=(*(1,) * axis, ranks.shape[0]))
    return apply(op.order_statistics, (x, ranks), {"axis": axis, "skipna": skipna})


_AXIS = "axis : int or sequence of int, optional\n    The axes to reduce; all by default."
_KEEPDIMS = "keepdims : bool, default False\n    Keep the axes, with length 1."
_METHOD = """method : str, default "linear"
    How a place between two elements is read. Interpolating: "linear", "midpoint",
    "averaged_inverted_cdf", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased",
    "normal_unbiased". One element: "lower", "higher", "nearest", "inverted_cdf",
    "closest_observation"; these keep integers."""
_WEIGHTS = """weights : tensor, optional
    How much each element counts, for the method "inverted_cdf": of the shape of `x`, or of its lengths
    along `axis`. Like `q` in this method they have no gradient."""
_NAN = {False: "NaN beside a NaN, and for empty axes.", True: "NaN where all elements are."}


def _quantiles_for(certain: int, *, skipna: bool = False) -> Callable[[F], F]:
    """Write the sections of a function of probabilities from 0 to `certain`."""
    x = "x : tensor\n    Real, of any shape; integers are computed in float64."
    q = f"q : number or tensor\n    Probabilities from 0 to {certain}, of any shape."
    return described(
        Parameters="\n".join((x, q, _AXIS, _METHOD, _KEEPDIMS, _WEIGHTS)),
        Returns=f"Tensor\n    Of the shape of `q` followed by that of the reduced tensor. {_NAN[skipna]}",
        Raises="""ArgumentError
    If there is no such method, a probability is outside its range, or weights are negative or come with
    another method than "inverted_cdf".
DTypeError
    If `x` or `q` is complex or boolean, or an axis no integer.
IndexingError, ShapeError
    If there is no such axis, it is named twice, or weights do not fit.""",
    )


def _medians(*, skipna: bool = False) -> Callable[[F], F]:
    x = "x : tensor\n    Real, of any shape; integers and booleans are computed in float64."
    return described(
        Parameters="\n".join((x, _AXIS, _KEEPDIMS)),
        Returns=f"Tensor\n    {_NAN[skipna]}",
        Raises="""DTypeError
    If `x` is complex, or an axis no integer.
IndexingError, ShapeError
    If there is no such axis, or it is named twice.""",
    )


@explained
@_quantiles_for(1)
def quantile(
    x: Any,
    q: Any,
    /,
    axis: Axis = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: Any = None,
) -> Tensor:
    """Quantiles along axes: where a part `q` of the sorted elements lies below.

    A quantile is ``(1 - w) * a + w * b`` for two neighbours a <= b among the sorted elements, and that is
    its derivative: the weights `w` depend on `q` and the number of elements alone. Equal elements share
    the derivative equally, as in `max`. For a tensor `q` that requires grad the methods that interpolate
    have the derivative ``dw/dq * (b - a)``: at a place where the interpolation passes from one pair of
    neighbours to the next that of the next pair, at the end that of the last.
    Source of the methods: Hyndman and Fan (1996), "Sample quantiles in statistical packages".

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([4.0, 1.0, 3.0, 10.0], requires_grad=True)
    >>> y = eo.quantile(x, 0.25)
    >>> y.backward()
    >>> print(y.item(), x.grad)
    2.5 [0.   0.25 0.75 0.  ]
    """
    return _quantile(x, q, axis, method, keepdims, "quantile", weights, scale=1, skipna=False)


@explained
@_quantiles_for(100)
def percentile(
    x: Any,
    q: Any,
    /,
    axis: Axis = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: Any = None,
) -> Tensor:
    """Quantiles for probabilities in percent, from 0 to 100; otherwise as `quantile`.

    The derivative in `x` is that of `quantile`, in `q` a hundredth of it.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.percentile(eo.tensor([1.0, 2.0, 3.0]), [0, 75]))
    [1.  2.5]
    """
    return _quantile(x, q, axis, method, keepdims, "percentile", weights, scale=100, skipna=False)


@explained
@_medians()
def median(x: Any, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Median along axes: the middle one of the sorted elements, or the mean of the middle two.

    Each of the middle two has the derivative 1/2; equal elements share it equally.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([5.0, 1.0, 2.0, 4.0], requires_grad=True)
    >>> eo.median(x).backward()
    >>> print(x.grad)
    [0.  0.  0.5 0.5]
    """
    return _quantile(_floats(x), 0.5, axis, "linear", keepdims, "median", None, scale=1, skipna=False)


def _floats(x: Any) -> Tensor:
    x = as_tensor(x)
    return op.astype(x, dtype=as_dtype("float64")) if x.dtype.kind == "b" else x


@explained
@_quantiles_for(1, skipna=True)
def nanquantile(
    x: Any,
    q: Any,
    /,
    axis: Axis = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: Any = None,
) -> Tensor:
    """Quantiles of the elements that are not NaN; otherwise as `quantile`.

    The derivative at a NaN is 0.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nanquantile(eo.tensor([1.0, float("nan"), 3.0]), 0.25).item()
    1.5
    """
    return _quantile(x, q, axis, method, keepdims, "nanquantile", weights, scale=1, skipna=True)


@explained
@_quantiles_for(100, skipna=True)
def nanpercentile(
    x: Any,
    q: Any,
    /,
    axis: Axis = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: Any = None,
) -> Tensor:
    """Percentiles of the elements that are not NaN; otherwise as `nanquantile`.

    The derivative at a NaN is 0.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nanpercentile(eo.tensor([1.0, float("nan"), 3.0]), 25).item()
    1.5
    """
    return _quantile(x, q, axis, method, keepdims, "nanpercentile", weights, scale=100, skipna=True)


@explained
@_medians(skipna=True)
def nanmedian(x: Any, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Median of the elements that are not NaN; otherwise as `median`.

    The derivative at a NaN is 0.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nanmedian(eo.tensor([1.0, float("nan"), 3.0, 8.0])).item()
    3.0
    """
    return _quantile(_floats(x), 0.5, axis, "linear", keepdims, "nanmedian", None, scale=1, skipna=True)
