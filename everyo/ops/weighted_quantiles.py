"""Quantiles of weighted elements: the inverse of the weighted distribution function."""

from __future__ import annotations

from typing import Any

from everyo.core.dtypes import float64
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, describe
from everyo.ops.creation import as_tensor, weak
from everyo.ops.joining import stack
from everyo.ops.known import anywhere, everywhere, look
from everyo.ops.scans import cumsum
from everyo.ops.sorting import argsort
from everyo.ops.statistics import spread_weights


def checked_weights(weights: Any, x: Tensor, axis: Any, method: str, operation: str) -> Tensor:
    """Return weights in the shape of `x`, in float64 and without a graph: a quantile jumps as they change.

    Raises
    ------
    ArgumentError
        If the method does not know weights, or one is negative.
    DTypeError
        If they are no real numbers.
    ShapeError
        If they do not fit.
    """
    if method != "inverted_cdf":
        raise ArgumentError(
            "this method knows no weights",
            operation=operation,
            inputs=describe(x),
            expected='method="inverted_cdf"',
            found=f"method={method!r}",
            remedy='pass method="inverted_cdf"',
        )
    weights = weak(weights, [x], operation).detach()
    if weights.dtype.kind not in "biuf":
        raise DTypeError(
            "weights are real numbers",
            operation=operation,
            inputs=describe(x, weights),
            expected="a real dtype",
            found=str(weights.dtype),
            remedy="take their real part",
        )
    weights = spread_weights(op.astype(weights, dtype=float64), x, axis, operation)
    inputs = describe(x, weights)

    def check(weights: Any) -> None:
        if anywhere(weights < 0):
            raise ArgumentError(
                "a weight is negative",
                operation=operation,
                inputs=inputs,
                expected="weights of at least 0",
                found="a negative one",
                remedy="leave elements out by the weight 0",
            )

    look(check, weights)
    return weights


def ranks(x: Tensor, q: Any, weights: Tensor, skipna: bool, operation: str) -> Tensor:
    """Return where the quantiles lie among the sorted elements along the last axis, for a vector `q`.

    Rank i is the first up to which the weights add up to a part of at least q; no weights are 0.
    """
    x, levels = x.detach(), as_tensor(q).detach()
    if skipna and x.dtype.kind == "f":
        weights = op.where(op.isnan(x), 0, weights)
    share = cumsum(op.take_along_axis(weights, argsort(x), axis=x.ndim - 1), -1)
    last = op.getitem(share, index=(..., slice(-1, None)))
    fits = op.logical_and(op.isfinite(last), last > 0)
    if skipna and x.dtype.kind == "f":  # nothing to weigh
        fits = op.logical_or(fits, op.all(op.isnan(x), axis=(x.ndim - 1,), keepdims=True))
    inputs = describe(x, weights)

    def check(fits: Any) -> None:
        if not everywhere(fits):
            raise ArgumentError(
                "the weights do not add up to a positive number",
                operation=operation,
                inputs=inputs,
                expected="finite weights, of which one is positive",
                found="zeros alone, or NaN or infinities",
                remedy="leave out what has no weight",
            )

    look(check, fits)
    share = op.where(op.equal(share, 0), -1, share / op.where(op.equal(last, 0), 1, last))
    places = [
        op.sum(op.less(share, levels[i]), axis=(x.ndim - 1,), keepdims=False) for i in range(levels.size)
    ]
    return op.minimum(stack(places, -1), x.shape[-1] - 1)
