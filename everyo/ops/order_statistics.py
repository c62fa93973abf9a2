"""Order statistics: quantiles, percentiles and medians, also of what is not NaN."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from everyo.core.batching import along, padded
from everyo.core.dispatch import apply
from everyo.core.dtypes import as_dtype, float16, float32
from everyo.core.operands import tensors_in
from everyo.core.registry import op
from everyo.core.samples import Distinct, Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, describe
from everyo.ops.axes import as_flag, normalize_axes
from everyo.ops.chosen import chosen_places
from everyo.ops.creation import as_tensor, weak
from everyo.ops.families import elementwise, primitive
from everyo.ops.known import anywhere, everywhere, is_known
from everyo.ops.quantile_places import CONTINUOUS, DISCRETE, Place
from everyo.ops.reductions import shared, widened
from everyo.ops.signatures import explained
from everyo.ops.weighted_quantiles import checked_weights
from everyo.ops.weighted_quantiles import ranks as weighted_ranks

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

_FEW = 32  # up to this many order statistics are compared with the data one by one
Axis = int | Sequence[int] | None


# ---- elements by rank


def _tie_samples() -> list[Sample]:
    return [
        sample(Values([[1.0, 2.0, 2.0]]), Values([[2.0, 1.0, 2.0]]), axis=1, skipna=False),
        sample((2, 3), (2, 1), axis=1, skipna=True),
    ]


@primitive(None, None, missing="its results are discrete", samples=_tie_samples, batch=along("axis"))
def _rank_ties(xp: Any, x: Any, out: Any, *, axis: int, skipna: bool) -> Any:
    """Describe which elements of `x` are one of the statistics `out`.

    Returns for each statistic the number of its value among the different ones; whether an element is such
    a value, and the number of that; and how many elements have each value, in the shape of `out`.
    """
    x, out = xp.moveaxis(x, axis, -1), xp.moveaxis(out, axis, -1)
    order = xp.argsort(out, axis=-1, stable=True)
    ranked = xp.take_along_axis(out, order, axis=-1)
    fresh = xp.zeros(out.shape, dtype="int64")
    fresh[..., 1:] = ~_same(ranked[..., 1:], ranked[..., :-1])
    numbers = xp.cumsum(fresh, axis=-1)
    runs = xp.zeros_like(numbers)
    xp.put_along_axis(runs, order, numbers, axis=-1)
    chosen, owner = xp.zeros(x.shape, dtype=bool), xp.zeros(x.shape, dtype="int64")
    sought = _each_search if out.shape[-1] > _FEW and x.shape[-1] > _FEW else _each_compare
    for here, number in sought(xp, x, ranked, numbers, skipna):
        chosen[here], owner[here] = True, number
    here, there = chosen_places(xp, owner, chosen, x.ndim - 1)
    counted = float32 if x.dtype == float16 else x.dtype
    count = xp.assemble([there], [xp.ones(here[0].shape, dtype=counted)], [True], out.shape, counted)
    count = xp.maximum(count, 1)  # where NaN is skipped it may be a statistic, but no element counts
    return tuple(xp.moveaxis(v, -1, axis) for v in (runs, chosen, owner, count))


def _same(a: Any, b: Any) -> Any:
    return (a == b) | ((a != a) & (b != b))


def _each_compare(xp: Any, x: Any, ranked: Any, numbers: Any, skipna: bool) -> Iterator[tuple[Any, Any]]:
    """Yield where the elements are that equal one statistic after the other, and the numbers of its value."""
    for i in range(ranked.shape[-1]):
        value = ranked[..., i : i + 1]
        same = x == value if skipna or not xp.any(value != value) else _same(x, value)
        here = xp.nonzero(same)
        yield here, numbers[(*here[:-1], i)]


def _each_search(xp: Any, x: Any, ranked: Any, numbers: Any, skipna: bool) -> Iterator[tuple[Any, Any]]:
    """Yield the same row by row; a NaN is the last of the sorted statistics."""
    for row in itertools.product(*map(range, x.shape[:-1])):
        found = xp.searchsorted(ranked[row], x[row])
        found = xp.minimum(found, ranked.shape[-1] - 1)
        value = ranked[row][found]
        (here,) = xp.nonzero(x[row] == value if skipna else _same(x[row], value))
        yield (*row, here), numbers[row][found[here]]


def _order_vjp(g: Any, x: Any, ranks: Any, out: Any, axis: int, skipna: bool) -> Any:
    runs, chosen, owner, number = op.rank_ties(x, out, axis=axis, skipna=skipna)
    total = op.scatter_along_axis(widened(g), runs, axis=axis, shape=tuple(out.shape))
    return op.take_chosen(shared(total, number, g.dtype), owner, chosen, axis=axis)


def _order_jvp(t: Any, x: Any, ranks: Any, out: Any, axis: int, skipna: bool) -> Any:
    runs, chosen, owner, number = op.rank_ties(x, out, axis=axis, skipna=skipna)
    total = op.scatter_chosen(widened(t), owner, chosen, axis=axis, shape=tuple(out.shape))
    return op.take_along_axis(shared(total, number, t.dtype), runs, axis=axis)


def _order_batch(statistic: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    (x, ranks), rank = inputs, len(inputs[0].shape) - batched[0]
    if not batched[0]:
        x = op.broadcast_to(x, shape=(size, *x.shape))
    ranks = padded(ranks, rank) if batched[1] else op.reshape(ranks, shape=(1, *ranks.shape))
    return statistic(x, ranks, axis=params["axis"] + 1, skipna=params["skipna"])


def _order_samples() -> list[Sample]:
    ties = Values([[1.0, 2.0, 2.0], [2.0, 1.0, 1.0]])
    many = Values([[i % 7 for i in range(_FEW + 1)]])
    rows = Values([[i % 3] for i in range(_FEW + 1)])
    return [
        sample(Distinct((3,)), Values([1]), axis=0, skipna=False),
        sample(Distinct((2, 4)), Values([[2, 0, 2]]), axis=1, skipna=False),
        sample(Distinct((3, 1, 2)), Values([[[1]], [[2]]]), axis=0, skipna=True),
        sample(Distinct((2, 3)), Values([[0], [2]]), axis=1, skipna=True),
        sample(ties, Values([[0, 1]]), axis=1, skipna=False),
        sample(Distinct((2, 7)), many, axis=1, skipna=False),
        sample(ties, Values([[i % 3 for i in range(_FEW + 1)]]), axis=1, skipna=False),
        sample(Values([[2.0], [1.0], [2.0]]), rows, axis=0, skipna=True),
    ]


@primitive(
    (_order_vjp, None),
    (_order_jvp, None),
    missing="the ranks are integers",
    samples=_order_samples,
    batch=_order_batch,
)
def _order_statistics(xp: Any, x: Any, ranks: Any, *, axis: int, skipna: bool) -> Any:
    """Return the elements that would stand at `ranks` if `x` were sorted along an axis, of length above 0.

    `ranks` has the axes of `x`, of length 1 where they hold for all. Beside a NaN all are NaN, unless NaN
    is skipped: it comes last.
    """
    if ranks.size == ranks.shape[axis]:  # the same for all: no need to sort
        ranks = xp.reshape(ranks, (-1,))
        needed = ranks if skipna else xp.concat([ranks, xp.asarray([x.shape[axis] - 1])])
        ordered = xp.partition(x, needed, axis=axis)
        out = xp.take(ordered, ranks, axis=axis)
    else:
        ordered = xp.sort(x, axis=axis)
        out = xp.take_along_axis(ordered, ranks, axis=axis)
    if skipna or x.dtype.kind not in "fc":
        return out
    largest = xp.take(ordered, xp.asarray([-1]), axis=axis)
    void = largest != largest
    return xp.where(void, largest, out) if xp.any(void) else out


def _apart(g: Any, a: Any, b: Any) -> Any:
    return g * op.where(op.equal(a, b), 0, b - a)


@elementwise(lambda g, w: g * (1 - w), lambda g, w: g * w, _apart, domain=((-2, 2), (-2, 2), (0.1, 0.9)))
def _between(xp: Any, a: Any, b: Any, w: Any) -> Any:
    """Return ``a + (b - a) * w`` without rounding errors at both ends and between equal numbers."""
    with xp.errstate(all="ignore"):
        d = b - a
        out = xp.where(w < 0.5, a + d * w, b - d * (1 - w))
        plain = xp.isfinite(d)
        if xp.all(plain):
            return out
        out = xp.where(plain, out, a * (1 - w) + b * w)
        out = xp.where(((w == 0) | (a == b)) & (b == b), a, out)
        return xp.where((w == 1) & (a == a), b, out)


# ---- quantiles


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
    dtype = x.dtype
    if hasattr(q, "dtype") or next(tensors_in(q), None) is not None:
        q = as_tensor(q, x)
        dtype = x.backend.xp.result_type(x.dtype, q.dtype) if q.dtype.kind in "fc" else x.dtype
    else:
        q = as_tensor(x.backend.asarray(q, "float64", x.device), x)
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
    q = q if scale == 1 else q / scale
    if not free and not everywhere((q >= 0) & (q <= 1)):
        raise ArgumentError(
            "a probability is outside its range",
            operation=operation,
            inputs=describe(x),
            expected=f"numbers from 0 to {scale:g}",
            found=str((q * scale).tolist()),
        )
    return q, dtype


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
    x = weak(x, [q], operation) if isinstance(q, Tensor) else as_tensor(x)
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
    v = op.clip(place(number, q), 0.0, number - 1.0)
    below = op.floor(v)
    if continuous and isinstance(q, Tensor):
        below = op.maximum(op.minimum(below, number - 2.0), 0.0)  # so that the last place has a slope too
    ranks = op.astype(below, dtype=as_dtype("int64"))
    if not continuous:
        return _at(x, ranks, axis, skipna)
    above = op.astype(op.minimum(below + 1, number - 1.0), dtype=as_dtype("int64"))
    both = op.concat(ranks, above, axis=len(ranks.shape) - 1)
    ends = _at(x, both, axis, skipna)
    count = q.shape[-1]
    low = op.getitem(ends, index=(Ellipsis, slice(None, count)))
    high = op.getitem(ends, index=(Ellipsis, slice(count, None)))
    weight = v - below
    return apply(op.between, (low, high, op.astype(weight, dtype=x.dtype)))


def _has_nan(x: Tensor) -> bool:
    """Whether ranks must be counted row by row; where values are not known yet they must."""
    return not is_known(x) or anywhere(op.isnan(x.data))


def _at(x: Tensor, ranks: Any, axis: int, skipna: bool) -> Tensor:
    if len(ranks.shape) == 1:
        ranks = op.reshape(ranks, shape=(*(1,) * axis, ranks.shape[0]))
    return apply(op.order_statistics, (x, ranks), {"axis": axis, "skipna": skipna})


@explained
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

    Parameters
    ----------
    x : tensor
        Real, of any shape; integers are computed in float64.
    q : number or tensor
        Probabilities from 0 to 1, of any shape.
    axis : int or sequence of int, optional
        The axes to reduce; all by default.
    method : str, default "linear"
        How a place between two elements is read. Interpolating: "linear", "midpoint",
        "averaged_inverted_cdf", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased",
        "normal_unbiased". One element: "lower", "higher", "nearest", "inverted_cdf",
        "closest_observation"; these keep integers.
    keepdims : bool, default False
        Keep the axes, with length 1.
    weights : tensor, optional
        How much each element counts, for the method "inverted_cdf": of the shape of `x`, or of its lengths
        along `axis`. Like `q` in this method they have no gradient.

    Returns
    -------
    Tensor
        Of the shape of `q` followed by that of the reduced tensor. NaN beside a NaN, and for empty axes.

    Raises
    ------
    ArgumentError
        If there is no such method, a probability is outside its range, or weights are negative or come with
        another method.
    DTypeError
        If `x` or `q` is complex or boolean, or an axis no integer.
    IndexingError, ShapeError
        If there is no such axis, it is named twice, or weights do not fit.

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

    Parameters
    ----------
    x : tensor
        Real, of any shape; integers are computed in float64.
    q : number or tensor
        Probabilities from 0 to 100, of any shape.
    axis : int or sequence of int, optional
        The axes to reduce; all by default.
    method : str, default "linear"
        How a place between two elements is read, as in `quantile`.
    keepdims : bool, default False
        Keep the axes, with length 1.
    weights : tensor, optional
        How much each element counts, as in `quantile`.

    Returns
    -------
    Tensor
        Of the shape of `q` followed by that of the reduced tensor. NaN beside a NaN, and for empty axes.

    Raises
    ------
    ArgumentError
        If there is no such method, a probability is outside its range, or weights are negative or come with
        another method than "inverted_cdf".
    DTypeError
        If `x` or `q` is complex or boolean, or an axis no integer.
    IndexingError, ShapeError
        If there is no such axis, it is named twice, or weights do not fit.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.percentile(eo.tensor([1.0, 2.0, 3.0]), [0, 75]))
    [1.  2.5]
    """
    return _quantile(x, q, axis, method, keepdims, "percentile", weights, scale=100, skipna=False)


@explained
def median(x: Any, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Median along axes: the middle one of the sorted elements, or the mean of the middle two.

    Each of the middle two has the derivative 1/2; equal elements share it equally.

    Parameters
    ----------
    x : tensor
        Real, of any shape; integers and booleans are computed in float64.
    axis : int or sequence of int, optional
        The axes to reduce; all by default.
    keepdims : bool, default False
        Keep the axes, with length 1.

    Returns
    -------
    Tensor
        NaN beside a NaN, and for empty axes.

    Raises
    ------
    DTypeError
        If `x` is complex, or an axis no integer.
    IndexingError, ShapeError
        If there is no such axis, or it is named twice.

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

    Parameters
    ----------
    x : tensor
        Real, of any shape; integers are computed in float64.
    q : number or tensor
        Probabilities from 0 to 1, of any shape.
    axis : int or sequence of int, optional
        The axes to reduce; all by default.
    method : str, default "linear"
        How a place between two elements is read, as in `quantile`.
    keepdims : bool, default False
        Keep the axes, with length 1.
    weights : tensor, optional
        How much each element counts, as in `quantile`.

    Returns
    -------
    Tensor
        Of the shape of `q` followed by that of the reduced tensor. NaN where all elements are.

    Raises
    ------
    ArgumentError
        If there is no such method, a probability is outside its range, or weights are negative or come with
        another method than "inverted_cdf".
    DTypeError
        If `x` or `q` is complex or boolean, or an axis no integer.
    IndexingError, ShapeError
        If there is no such axis, it is named twice, or weights do not fit.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nanquantile(eo.tensor([1.0, float("nan"), 3.0]), 0.25).item()
    1.5
    """
    return _quantile(x, q, axis, method, keepdims, "nanquantile", weights, scale=1, skipna=True)


@explained
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

    Parameters
    ----------
    x : tensor
        Real, of any shape; integers are computed in float64.
    q : number or tensor
        Probabilities from 0 to 100, of any shape.
    axis : int or sequence of int, optional
        The axes to reduce; all by default.
    method : str, default "linear"
        How a place between two elements is read, as in `quantile`.
    keepdims : bool, default False
        Keep the axes, with length 1.
    weights : tensor, optional
        How much each element counts, as in `quantile`.

    Returns
    -------
    Tensor
        Of the shape of `q` followed by that of the reduced tensor. NaN where all elements are.

    Raises
    ------
    ArgumentError
        If there is no such method, a probability is outside its range, or weights are negative or come with
        another method than "inverted_cdf".
    DTypeError
        If `x` or `q` is complex or boolean, or an axis no integer.
    IndexingError, ShapeError
        If there is no such axis, it is named twice, or weights do not fit.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nanpercentile(eo.tensor([1.0, float("nan"), 3.0]), 25).item()
    1.5
    """
    return _quantile(x, q, axis, method, keepdims, "nanpercentile", weights, scale=100, skipna=True)


@explained
def nanmedian(x: Any, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Median of the elements that are not NaN; otherwise as `median`.

    The derivative at a NaN is 0.

    Parameters
    ----------
    x : tensor
        Real, of any shape; integers and booleans are computed in float64.
    axis : int or sequence of int, optional
        The axes to reduce; all by default.
    keepdims : bool, default False
        Keep the axes, with length 1.

    Returns
    -------
    Tensor
        NaN where all elements are.

    Raises
    ------
    DTypeError
        If `x` is complex, or an axis no integer.
    IndexingError, ShapeError
        If there is no such axis, or it is named twice.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nanmedian(eo.tensor([1.0, float("nan"), 3.0, 8.0])).item()
    3.0
    """
    return _quantile(_floats(x), 0.5, axis, "linear", keepdims, "nanmedian", None, scale=1, skipna=True)
