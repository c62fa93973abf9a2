"""Accumulations: running sums, products, extremes and logarithms of sums of exponentials."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from everyo.core.batching import along
from everyo.core.dispatch import apply
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.samples import Distinct, Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import DTypeError, ShapeError, describe
from everyo.ops.axes import as_flag, normalize_axis
from everyo.ops.creation import as_tensor
from everyo.ops.families import primitive
from everyo.ops.records import last_record
from everyo.ops.reductions import exactly, inexact
from everyo.ops.scans import cumprod, cumsum
from everyo.ops.signatures import explained

__all__ = [
    "cummax", "cummin", "cumulative_max", "cumulative_min", "cumulative_prod", "cumulative_sum",
    "logcumsumexp",
]  # fmt: skip

_SHAPES = (((3,), 0), ((2, 3), 1), ((3, 1, 2), 0), ((1, 2), 0), ((0, 2), 0), ((2, 0), 0))


# ---- sums and products, as the Array API names them


@explained
def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Running sum along an axis, which may be left out for a vector.

    The gradient is the running sum of `g` from the end.

    Parameters
    ----------
    x : tensor
        At least 1-d, of any dtype.
    axis : int, optional
        The axis to go along; needed unless `x` is a vector.
    dtype : dtype-like, optional
        The dtype to sum in. By default that of `x`; small integers and booleans grow to int64.
    include_initial : bool, default False
        Whether the sum of no element, 0, comes first.

    Returns
    -------
    Tensor
        Of the shape of `x`, or longer by 1 along `axis`.

    Raises
    ------
    ShapeError
        If `x` has no axis, or several and none is named.
    IndexingError
        If there is no such axis.
    DTypeError
        If `x` is not numeric, or `dtype` is no dtype.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.cumulative_sum(eo.tensor([1.0, 2.0, 3.0]), include_initial=True))
    [0. 1. 3. 6.]
    """
    x, axis = _sequence(x, axis, "cumulative_sum")
    return _with_initial(cumsum(x, axis, dtype=dtype), 0, axis, include_initial, "cumulative_sum")


@explained
def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Running product along an axis; `include_initial` puts 1 first. Otherwise as `cumulative_sum`.

    The gradient of a real element i is ``sum(g[j] * out[j] for j >= i) / x[i]``, computed without the
    division: it is exact where elements are zero, as that of `cumprod`.

    Parameters
    ----------
    x : tensor
        At least 1-d, of any dtype.
    axis : int, optional
        The axis to go along; needed unless `x` is a vector.
    dtype : dtype-like, optional
        The dtype to multiply in. By default that of `x`; small integers and booleans grow to int64.
    include_initial : bool, default False
        Whether the product of no element, 1, comes first.

    Returns
    -------
    Tensor
        Of the shape of `x`, or longer by 1 along `axis`.

    Raises
    ------
    ShapeError
        If `x` has no axis, or several and none is named.
    IndexingError
        If there is no such axis.
    DTypeError
        If `x` is not numeric, or `dtype` is no dtype.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.cumulative_prod(eo.tensor([1.0, 2.0, 3.0]), include_initial=True))
    [1. 1. 2. 6.]
    """
    x, axis = _sequence(x, axis, "cumulative_prod")
    return _with_initial(cumprod(x, axis, dtype=dtype), 1, axis, include_initial, "cumulative_prod")


def _sequence(x: Any, axis: int | None, operation: str) -> tuple[Tensor, int]:
    """Return a tensor and the axis to go along."""
    x = as_tensor(x)
    if axis is None and x.ndim != 1:
        raise ShapeError(
            "the axis must be named unless there is exactly one",
            operation=operation,
            inputs=describe(x),
            expected="an axis",
            found="axis=None",
            remedy="pass axis=..., or flatten the tensor first: x.flatten()",
        )
    return x, normalize_axis(0 if axis is None else axis, x.ndim, operation)


def _with_initial(x: Tensor, first: int, axis: int, wanted: bool, operation: str) -> Tensor:
    if not as_flag(wanted, "include_initial", operation):
        return x
    shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    initial = x.backend.asarray(x.backend.xp.full(shape, first, dtype=x.dtype), None, x.device)
    return op.concat(initial, x, axis=axis)


# ---- extremes


class Cumulative(NamedTuple):
    """What `cummax` and `cummin` return."""

    values: Tensor
    indices: Tensor


def _record_samples() -> list[Sample]:
    ties = Values([[1.0, 3.0, 2.0, 3.0], [2.0, 1.0, 1.5, 1.0], [1.0, 2.0, 3.0, 3.0]])  # in one result each
    return [*(sample(Distinct(s), axis=axis) for s, axis in _SHAPES), sample(ties, axis=1)]


def _cumulative_vjp(g: Any, x: Any, out: Any, axis: int) -> Any:
    here, again = op.records(x, out, axis=axis)
    return op.share_to_records(g, here, again, axis=axis)


def _cumulative_jvp(t: Any, x: Any, out: Any, axis: int) -> Any:
    here, again = op.records(x, out, axis=axis)
    return op.mean_of_records(t, here, again, axis=axis)


@primitive(_cumulative_vjp, _cumulative_jvp, samples=_record_samples, batch=along("axis"))
def _cumulative_max(xp: Any, x: Any, *, axis: int) -> Any:
    return xp.running_max(x, axis=axis)


@primitive(_cumulative_vjp, _cumulative_jvp, samples=_record_samples, batch=along("axis"))
def _cumulative_min(xp: Any, x: Any, *, axis: int) -> Any:
    return xp.running_min(x, axis=axis)


def _flat(x: Any, axis: int | None, operation: str) -> tuple[Tensor, int]:
    """Return a tensor and the axis to go along; without an axis the flattened tensor."""
    x = as_tensor(x)
    if axis is not None:
        return x, normalize_axis(axis, x.ndim, operation)
    return op.reshape(x, shape=(math.prod(x.shape),)), 0


def _with_indices(running: Primitive, x: Any, axis: int | None, operation: str) -> Cumulative:
    x, along_ = _flat(x, axis, operation)
    values = apply(running, (x,), {"axis": along_})
    here = apply(op.records, (x.detach(), values.detach()), {"axis": along_})[0]
    return Cumulative(values, apply(last_record, (here,), {"axis": along_}))


@explained
def cumulative_max(x: Any, /, *, axis: int | None = None) -> Tensor:
    """Largest element so far along an axis; the axis may be left out for a vector.

    A NaN counts as the largest. The gradient goes to the largest element so far; equal ones among those
    so far share it equally, so that the last result has the gradient of `max`. It is the function
    ``numpy.maximum.accumulate``; `cummax` returns the positions too.

    Parameters
    ----------
    x : tensor
        At least 1-d, of any dtype.
    axis : int, optional
        The axis to go along; needed unless `x` is a vector.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` has no axis, or several and none is named.
    IndexingError
        If there is no such axis.
    DTypeError
        If `x` is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([1.0, 3.0, 2.0, 3.0], requires_grad=True)
    >>> y = eo.cumulative_max(x)
    >>> y.sum().backward()
    >>> print(y.detach(), x.grad)
    [1. 3. 3. 3.] [1.  2.5 0.  0.5]
    """
    x, axis = _sequence(x, axis, "cumulative_max")
    return apply(_cumulative_max, (x,), {"axis": axis})


@explained
def cumulative_min(x: Any, /, *, axis: int | None = None) -> Tensor:
    """Smallest element so far along an axis; otherwise as `cumulative_max`.

    A NaN counts as the smallest. The gradient goes to the smallest element so far; equal ones among those
    so far share it equally.

    Parameters
    ----------
    x : tensor
        At least 1-d, of any dtype.
    axis : int, optional
        The axis to go along; needed unless `x` is a vector.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` has no axis, or several and none is named.
    IndexingError
        If there is no such axis.
    DTypeError
        If `x` is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.cumulative_min(eo.tensor([3.0, 1.0, 2.0])))
    [3. 1. 1.]
    """
    x, axis = _sequence(x, axis, "cumulative_min")
    return apply(_cumulative_min, (x,), {"axis": axis})


@explained
def cummax(x: Any, /, axis: int | None = None) -> Cumulative:
    """Largest element so far along an axis and where it is: `cumulative_max` with indices.

    The gradient is that of `cumulative_max`.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.
    axis : int, optional
        The axis to go along. By default the tensor is flattened first.

    Returns
    -------
    values, indices : Tensor
        A named tuple; of equal elements so far the index is that of the last.

    Raises
    ------
    IndexingError
        If there is no such axis.
    DTypeError
        If `x` is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> values, indices = eo.cummax(eo.tensor([1.0, 3.0, 2.0]))
    >>> print(values, indices)
    [1. 3. 3.] [0 1 1]
    """
    return _with_indices(_cumulative_max, x, axis, "cummax")


@explained
def cummin(x: Any, /, axis: int | None = None) -> Cumulative:
    """Smallest element so far along an axis and where it is; otherwise as `cummax`.

    The gradient is that of `cumulative_min`.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.
    axis : int, optional
        The axis to go along. By default the tensor is flattened first.

    Returns
    -------
    values, indices : Tensor
        A named tuple; of equal elements so far the index is that of the last.

    Raises
    ------
    IndexingError
        If there is no such axis.
    DTypeError
        If `x` is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> values, indices = eo.cummin(eo.tensor([3.0, 1.0, 2.0]))
    >>> print(values, indices)
    [3. 1. 1.] [0 1 1]
    """
    return _with_indices(_cumulative_min, x, axis, "cummin")


# ---- logarithms of sums of exponentials


_NEAR_ZERO = 1 / 64  # logarithms that have lost digits beside the largest element's


class _Running:
    """Running sums of exponentials of `x`, relative to the largest element, of all or so far.

    Element j has the weight ``sizes[j] * (product of factors[j + 1 : i + 1]) / sums[i]`` in sum i; the
    factors are None where the sizes are relative to the largest of all elements, so that they would be 1.
    """

    def __init__(self, xp: Any, x: Any, axis: int) -> None:
        self.xp, self.axis = xp, axis
        self.factors: Any = None
        if x.size:
            self.top = xp.max(x, axis=axis, keepdims=True)
            with xp.errstate(all="ignore"):
                self.sizes = xp.exp(x - self.top)
                self.sums = xp.cumsum(self.sizes, axis=axis)
            limits = xp.finfo(x.dtype)
            first = xp.take(self.sums, xp.asarray([0]), axis=axis)
            if xp.all(xp.isfinite(self.top) & (first > limits.tiny / limits.eps)):
                return
        self._by_largest_so_far(x)

    def _by_largest_so_far(self, x: Any) -> None:
        """Nothing underflows then; beside an infinity finite elements are nothing, and infinities equal."""
        xp, axis = self.xp, self.axis
        self.top = xp.running_max(x, axis=axis)
        top = xp.moveaxis(self.top, axis, 0)
        with xp.errstate(all="ignore"):
            self.sizes = xp.where((x == self.top) & (x != -math.inf), 1, xp.exp(x - self.top))
            self.sizes = xp.astype(xp.where(x == -math.inf, 0, self.sizes), x.dtype)
            factors = xp.zeros_like(top)
            factors[1:] = xp.where(top[:-1] == top[1:], 1, xp.exp(top[:-1] - top[1:]))
        self.factors = xp.moveaxis(factors, 0, axis)
        self.sums = self._scan(self.sizes, False)

    def _scan(self, v: Any, reverse: bool) -> Any:
        if self.factors is not None:
            factors = op.delay(self.factors, axis=self.axis, reverse=True) if reverse else self.factors
            return op.linear_recurrence(factors, v, axis=self.axis, reverse=reverse)
        return op.cumsum(v, axis=self.axis, reverse=reverse)

    def logarithms(self, x: Any) -> Any:
        """Return the logarithms of the sums; those near 0 from what the largest element is added to."""
        xp, top, largest, earlier = self.xp, self.top, 1, self.factors
        if earlier is None:
            out = xp.log(self.sums) + top
            if not xp.any(xp.abs(out) < _NEAR_ZERO):
                return out
            top = xp.running_max(x, axis=self.axis)
            largest = xp.exp(top - self.top)
            earlier = op.delay(largest, axis=self.axis, reverse=False)
        others = xp.minimum(self.sizes, earlier)  # a new largest element makes the former one one of them
        logs = xp.log1p(self._scan(others, False) / largest) + top
        return xp.where(self.sums == 0, -math.inf, logs)

    def weighed(self, v: Any, reverse: bool) -> Any:
        """Return for each sum the weighted mean of `v`; in reverse the transpose of that."""
        xp = self.xp
        sums = xp.where(self.sums == 0, 1, self.sums)
        if reverse:
            return self.sizes * self._scan(v / sums, True)
        return self._scan(v * self.sizes, False) / sums


def _softmax_scan_vjp(g: Any, needs: Any, v: Any, x: Any, out: Any, axis: int, reverse: bool) -> Any:
    def scan(v: Any, reverse: bool) -> Any:
        return op.softmax_scan(v, x, axis=axis, reverse=reverse)

    back = scan(g, not reverse)
    if not needs[1]:
        return back, None
    if reverse:
        return back, g * out - scan(v * back, True)
    return back, v * back - scan(g * out, True)


def _softmax_scan_jvp(tangents: Any, v: Any, x: Any, out: Any, axis: int, reverse: bool) -> Any:
    def scan(v: Any, reverse: bool) -> Any:
        return op.softmax_scan(v, x, axis=axis, reverse=reverse)

    tv, tx = tangents
    change: Any = 0 if tv is None else scan(tv, reverse)
    if tx is None:
        return change
    if reverse:
        return change + tx * out - scan(v * scan(tx, False), True)
    return change + scan(v * tx, False) - out * scan(tx, False)


def _log_samples() -> list[Sample]:
    wide = Values([[-800.0, 1.0, -0.5, 900.0, 899.5], [-1.0, -2.0, -900.0, 0.0, 1.0]])
    return [*(sample(s, axis=axis) for s, axis in _SHAPES), sample(wide, axis=1)]


def _scan_samples() -> list[Sample]:
    return [
        sample(s.inputs[0] if isinstance(s.inputs[0], tuple) else (2, 5), *s.inputs, **s.params, reverse=r)
        for s in _log_samples()
        for r in (False, True)
    ]


@primitive(_softmax_scan_vjp, _softmax_scan_jvp, samples=_scan_samples, batch=along("axis"), linear_in=(0,))
def _softmax_scan(xp: Any, v: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    """Return for each i the mean of ``v[: i + 1]`` with weights ``softmax(x[: i + 1])``, or the transpose."""
    return _Running(xp, x, axis).weighed(v, reverse)


@primitive(
    lambda g, x, axis: op.softmax_scan(g, x, axis=axis, reverse=True),
    lambda t, x, axis: op.softmax_scan(t, x, axis=axis, reverse=False),
    samples=_log_samples,
    batch=along("axis"),
)
def _logcumsumexp(xp: Any, x: Any, *, axis: int) -> Any:
    return _Running(xp, x, axis).logarithms(x)


@explained
def logcumsumexp(x: Any, /, axis: int | None = None) -> Tensor:
    """Logarithm of the running sum of exponentials along an axis, without over- or underflow.

    The derivative of result i is ``softmax(x[: i + 1])``, computed relative to the largest element so far
    where a common scale would underflow; 0 for elements that are ``-inf``.

    Parameters
    ----------
    x : tensor
        Real; integers are computed in float64.
    axis : int, optional
        The axis to go along. By default the tensor is flattened first.

    Returns
    -------
    Tensor
        Of the shape of `x`, or 1-d.

    Raises
    ------
    IndexingError
        If there is no such axis.
    DTypeError
        If `x` is complex or not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([-1000.0, 0.0, 0.0, 1000.0], requires_grad=True)
    >>> y = eo.logcumsumexp(x)
    >>> y.sum().backward()
    >>> print(y.detach(), x.grad)
    [-1.000000e+03  0.000000e+00  6.931472e-01  1.000000e+03] [1.  1.5 0.5 1. ]
    """
    x, along_ = _flat(inexact(x), axis, "logcumsumexp")
    if x.dtype.kind == "c":
        raise DTypeError(
            "there are running sums of real exponentials only",
            operation="logcumsumexp",
            inputs=describe(x),
            expected="a real dtype",
            found=str(x.dtype),
            remedy="use eo.log(eo.cumsum(eo.exp(x)))",
        )
    return exactly(lambda x: apply(_logcumsumexp, (x,), {"axis": along_}), x)
