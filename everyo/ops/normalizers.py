"""logsumexp and the softmax family: exponentials weighed against their sum."""

from __future__ import annotations

import math
from typing import Any

from everyo.backends.accelerated import LARGE, along_rows
from everyo.core.batching import along
from everyo.core.dispatch import apply
from everyo.core.dtypes import float16, float32
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.ops.axes import as_flag, normalize_axes
from everyo.ops.creation import as_tensors
from everyo.ops.families import primitive
from everyo.ops.reductions import Axis, AxisParam, exactly, expand, inexact, reduce, reduction_samples
from everyo.ops.shape import broadcast_arrays
from everyo.ops.signatures import explained

__all__ = ["log_softmax", "logsumexp", "softmax"]


def _below_top(xp: Any, x: Any, axis: AxisParam) -> tuple[Any, Any]:
    """Return `x` minus its maximum along `axis`, and that maximum.

    Beside an infinity finite elements are nothing, and infinities are equal; all stay ``-inf`` where
    there is nothing else.
    """
    if 0 in x.shape:
        nothing = xp.sum(x, axis=axis, keepdims=True)
        return x, xp.full_like(nothing, -math.inf)
    top = xp.max(x.real if x.dtype.kind == "c" else x, axis=axis, keepdims=True)
    if xp.all(xp.isfinite(top)):
        return x - top, top
    below = x - xp.where(xp.isinf(top), xp.zeros_like(top), top)
    beside = xp.where(x == math.inf, xp.zeros_like(x), xp.full_like(x, -math.inf))
    return xp.where(top == math.inf, beside, below), top


def _log_total(xp: Any, below: Any, axis: AxisParam) -> Any:
    """Return the logarithm of the sum of exponentials of what `_below_top` made; ``-inf`` for a sum of 0.

    Of real numbers one of the largest is left to log1p, so that a sum near 1 has a logarithm with all digits.
    """
    weights = xp.exp(below)
    if below.dtype.kind == "c":
        with xp.errstate(divide="ignore", invalid="ignore"):
            return xp.log(xp.sum(weights, axis=axis, keepdims=True))
    largest = below == 0
    others = xp.sum(weights - largest, axis=axis, keepdims=True)  # the weight of the largest is 1
    more = xp.sum(largest, axis=axis, keepdims=True, dtype=others.dtype) - 1
    with xp.errstate(divide="ignore", invalid="ignore"):  # of nothing, which is a sum of 0
        return xp.log1p(others + more)


def _logsumexp_vjp(g: Any, x: Any, axis: AxisParam, keepdims: bool) -> Any:
    return expand(g, x.shape, axis, keepdims) * op.softmax(x, axis=axis, of_nothing=0.0)


def _logsumexp_jvp(t: Any, x: Any, axis: AxisParam, keepdims: bool) -> Any:
    return op.sum(t * op.softmax(x, axis=axis, of_nothing=0.0), axis=axis, keepdims=keepdims)


def _logsumexp_samples() -> list[Sample]:
    return reduction_samples(sample((0, 2), axis=(0,), keepdims=False))


# The rules do not take exp(x - out): beside a large x the result is rounded too coarsely.
@primitive(_logsumexp_vjp, _logsumexp_jvp, samples=_logsumexp_samples, batch=along("axis"))
def _logsumexp(xp: Any, x: Any, *, axis: AxisParam, keepdims: bool) -> Any:
    if x.size >= LARGE and (found := along_rows("logsumexp", axis, x)) is not None:
        kept = xp.reshape(found, (*x.shape[:-1], 1) if found.size > 1 else (1,) * x.ndim)
        return kept if keepdims else xp.squeeze(kept, axis=axis)
    below, top = _below_top(xp, x, axis)
    out = _log_total(xp, below, axis) + top
    return out if keepdims else xp.squeeze(out, axis=axis)


@explained
def logsumexp(x: Any, /, axis: Axis = None, b: Any = None, *, keepdims: bool = False) -> Tensor:
    """Logarithm of the sum of exponentials along axes, without overflow: ``log(sum(b * exp(x)))``.

    ``dx = g * softmax(x)``; 0 for elements that are ``-inf``, even where all are. With weights,
    ``dx = g * b * exp(x - out)`` and ``db = g * exp(x - out)``, which is infinite where the sum is 0.

    Parameters
    ----------
    x : tensor
        Any shape; integers are computed in float64.
    axis : int or sequence of int, optional
        The axes to reduce; all by default.
    b : tensor, optional
        Weights, of a shape that broadcasts with that of `x`; what has the weight 0 does not count.
    keepdims : bool, default False
        Keep the axes, with length 1.

    Returns
    -------
    Tensor
        ``-inf`` for empty axes and sums of 0; NaN where real weights make a sum negative.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.
    ShapeError
        If an axis is named twice, or `b` does not fit.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([1000.0, 1000.0, -float("inf")], requires_grad=True)
    >>> y = eo.logsumexp(x)
    >>> y.backward()
    >>> print(y.detach(), x.grad)
    1000.6932 [0.5 0.5 0. ]
    """
    if b is None:
        return exactly(lambda x: reduce(op.logsumexp, x, axis, keepdims), inexact(x))
    x, b = broadcast_arrays(*map(inexact, as_tensors((x, b), "logsumexp")))
    half = x.dtype == b.dtype == float16  # whose sums would overflow
    if half:
        x, b = (op.astype(v, dtype=float32) for v in (x, b))
    out = _weighted(x, b, axis, as_flag(keepdims, "keepdims", "logsumexp"))
    return op.astype(out, dtype=float16) if half else out


def _weighted(x: Tensor, b: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    size = op.real(x.detach()) if x.dtype.kind == "c" else x.detach()
    counted: Any = op.where(op.equal(b.detach(), 0), -math.inf, size)
    top: Any = 0
    for candidate in (size, counted) if x.size else ():
        found = reduce(op.max, candidate, axis, True, operation="logsumexp")
        top = op.where(op.isfinite(found), found, top)
    terms = op.exp(x - top)
    total = reduce(op.sum, op.multiply_absorbing(b, terms), axis, True)
    nothing = reduce(op.all, op.equal(terms, 0), axis, True)  # all are -inf, or there are none
    out = op.where(nothing, -math.inf, op.log(op.where(nothing, 1, total))) + top
    return out if keepdims else op.reshape(out, shape=reduce(op.sum, counted, axis, False).shape)


def _softmax_rule(g: Any, out: Any, axis: AxisParam) -> Any:
    if (found := along_rows("softmax slope", axis, g, out)) is not None:
        return found
    return out * (g - op.sum(g * out, axis=axis, keepdims=True))


def _log_softmax_vjp(g: Any, out: Any, axis: AxisParam) -> Any:
    if (found := along_rows("log_softmax slope", axis, g, out)) is not None:
        return found
    return g - op.exp(out) * op.sum(g, axis=axis, keepdims=True)


def _log_softmax_jvp(t: Any, out: Any, axis: AxisParam) -> Any:
    return t - op.sum(op.exp(out) * t, axis=axis, keepdims=True)


def _softmax_samples() -> list[Sample]:
    saturated = Values([[1000.0, 0.0, -1000.0], [1000.0, 999.0, 1000.0]])
    return [
        sample((), axis=None), sample((3,), axis=(0,)), sample((2, 3), axis=(1,)), sample((2, 3), axis=(0,)),
        sample((2, 3), axis=None), sample((2, 3, 2), axis=(0, 2)), sample((2, 1), axis=(1,)),
        sample((2, 3), axis=()), sample((2, 0), axis=(1,)), sample((0, 2), axis=(1,)),
        sample(saturated, axis=(1,)),
    ]  # fmt: skip


# The Jacobian diag(out) - out out' is symmetric, so one rule serves both directions.
@primitive(_softmax_rule, _softmax_rule, samples=_softmax_samples, batch=along("axis"))
def _softmax(xp: Any, x: Any, *, axis: AxisParam, of_nothing: float = math.nan) -> Any:
    if x.size >= LARGE and (found := along_rows("softmax", axis, x)) is not None:
        return found
    weights = xp.exp(_below_top(xp, x, axis)[0])
    total = xp.sum(weights, axis=axis, keepdims=True)
    if xp.all(total != 0):
        return weights / total
    nothing = total == 0
    shares = weights / xp.where(nothing, xp.ones_like(total), total)
    return xp.where(nothing, xp.full_like(shares, of_nothing), shares)


@primitive(_log_softmax_vjp, _log_softmax_jvp, samples=_softmax_samples, batch=along("axis"))
def _log_softmax(xp: Any, x: Any, *, axis: AxisParam) -> Any:
    if x.size >= LARGE and (found := along_rows("log_softmax", axis, x)) is not None:
        return found
    below = _below_top(xp, x, axis)[0]
    total = _log_total(xp, below, axis)
    return below - xp.where(total == -math.inf, xp.full_like(total, math.nan), total)


def _normalize(normalizer: Primitive, x: Any, axis: Axis, **params: Any) -> Tensor:
    x = inexact(x)
    axes = None if axis is None else normalize_axes(axis, x.ndim, normalizer.name)
    return exactly(lambda x: apply(normalizer, (x,), {"axis": axes, **params}), x)


@explained
def softmax(x: Any, /, axis: Axis = -1) -> Tensor:
    """Exponentials divided by their sum along an axis, without overflow.

    ``dx = y * (g - sum(g * y))`` for the result ``y``.

    Parameters
    ----------
    x : tensor
        Any shape; integers are computed in float64.
    axis : int, sequence of int or None, default -1
        The axes along which the result sums to 1; None for all.

    Returns
    -------
    Tensor
        Of the shape of `x`; NaN where all elements are ``-inf``.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.
    ShapeError
        If an axis is named twice.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.softmax(eo.tensor([1000.0, 1000.0, -1000.0])))
    [0.5 0.5 0. ]
    """
    return _normalize(op.softmax, x, axis, of_nothing=math.nan)


@explained
def log_softmax(x: Any, /, axis: Axis = -1) -> Tensor:
    """Logarithm of `softmax`, exact also where that underflows to 0.

    ``dx = g - softmax(x) * sum(g)``.

    Parameters
    ----------
    x : tensor
        Any shape; integers are computed in float64.
    axis : int, sequence of int or None, default -1
        The axes along which the exponentials of the result sum to 1; None for all.

    Returns
    -------
    Tensor
        Of the shape of `x`; NaN where all elements are ``-inf``.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.
    ShapeError
        If an axis is named twice.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.log_softmax(eo.tensor([0.0, -1000.0])))
    [    0. -1000.]
    """
    return _normalize(op.log_softmax, x, axis)
