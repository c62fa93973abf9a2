"""Reductions of some of the elements, or of one more: what NumPy's `where`, `initial` and `mean` ask for."""

from __future__ import annotations

import math
from typing import Any

from everyo import ops
from everyo.core.dispatch import apply
from everyo.core.dtypes import DIFFERENTIABLE, float16, float32
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, describe
from everyo.ops import nan_reductions, nan_statistics  # noqa: F401  its primitive
from everyo.ops.axes import as_flag, normalize_axes
from everyo.ops.creation import as_tensor, weak
from everyo.ops.reductions import Axis, conjugate, converted, count, inexact, real_part, reduce

# For each reduction how two results are combined, and what changes none.
_KINDS: dict[str, tuple[str, Any]] = {
    "sum": ("add", 0), "prod": ("multiply", 1), "max": ("maximum", -math.inf), "min": ("minimum", math.inf),
    "all": ("logical_and", True), "any": ("logical_or", False), "logsumexp": ("logaddexp", -math.inf),
    "nanmax": ("fmax", -math.inf), "nanmin": ("fmin", math.inf),
}  # fmt: skip
_EXTREMES = {"max", "min", "nanmax", "nanmin"}


def takes_all(where: Any) -> bool:
    """Whether all elements take part."""
    return where is None or where is True


def mask(where: Any, x: Tensor) -> Tensor:
    """Return which elements of `x` take part, in its shape."""
    where = op.astype(as_tensor(True if where is None else where, x), dtype=op.equal(x, x).dtype)
    return op.broadcast_to(where, shape=tuple(x.shape))


def reduced(
    name: str,
    x: Any,
    axis: Axis,
    keepdims: bool,
    *,
    initial: Any = None,
    where: Any = None,
    dtype: Any = None,
) -> Tensor:
    """Return the reduction `name` of those elements for which `where` holds, and of `initial`.

    Raises
    ------
    ArgumentError
        If an extreme is asked for that there may not be, for want of `initial`.
    """
    x = converted(x, dtype, name)
    combined, neutral = _KINDS[name]
    if not takes_all(where):
        if name in _EXTREMES and initial is None:
            raise ArgumentError(
                "there may be no element to choose from",
                operation=name,
                inputs=describe(x),
                expected="initial=, the result where no element is chosen",
                found="where= alone",
                remedy=f"pass for example initial={neutral}",
            )
        neutral = initial if name in _EXTREMES and x.dtype.kind != "f" else neutral
        x = op.where(mask(where, x), x, neutral)
    if name in _EXTREMES and initial is not None:
        axes = normalize_axes(axis, x.ndim, name)
        if not count(tuple(x.shape), axes):
            return _of_nothing(x, axes, as_flag(keepdims, "keepdims", name), _one_more(initial, x, name))
    settings = {"dtype": dtype} if dtype is not None and name in ("sum", "prod") else {}
    home = nan_reductions if name.startswith("nan") else ops
    out: Tensor = getattr(home, name)(x, axis, keepdims=keepdims, **settings)
    if initial is None:
        return out
    return apply(getattr(op, combined), (out, _one_more(initial, out, name)))


def _one_more(initial: Any, x: Tensor, name: str) -> Tensor:
    """Return `initial` in the dtype of the elements; beside integers of its own, where NumPy cuts it off."""
    value = weak(initial, [x], name)
    exact = x.dtype.kind not in DIFFERENTIABLE
    return converted(value, x.backend.xp.result_type(x.dtype, value.dtype) if exact else x.dtype, name)


def _of_nothing(x: Tensor, axes: tuple[int, ...], keepdims: bool, initial: Tensor) -> Tensor:
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes)
    return op.broadcast_to(initial, shape=shape)


def mean_of(x: Any, axis: Axis, keepdims: bool, where: Any, operation: str = "mean") -> Tensor:
    """Return the mean of those elements for which `where` holds; NaN where there is none."""
    x = inexact(x)
    if x.dtype == float16:  # its sums would overflow
        wide = op.astype(x, dtype=float32)
        return op.astype(mean_of(wide, axis, keepdims, where, operation), dtype=float16)
    chosen = mask(where, x)
    total = reduce(op.sum, op.where(chosen, x, 0), axis, keepdims, operation=operation)
    number = _number(chosen, x, axis, keepdims, 0, operation)
    return total * (1 / number) if x.dtype.kind == "c" else total / number  # a complex quotient would warn


def _number(
    chosen: Tensor | None, x: Tensor, axis: Axis, keepdims: bool, correction: float, operation: str
) -> Tensor:
    """Return by what to divide: how many elements take part, less `correction`; NaN unless positive."""
    real = x.dtype if x.dtype.kind == "f" else x.backend.xp.finfo(x.dtype).dtype
    if chosen is None:
        number = as_tensor(
            x.backend.asarray(count(tuple(x.shape), normalize_axes(axis, x.ndim, operation)), real, x.device)
        )
    else:
        number = op.astype(reduce(op.sum, chosen, axis, keepdims, operation=operation), dtype=real)
    number = number - correction
    return op.where(op.less_equal(number, 0), math.nan, number)


def spread(
    name: str, x: Tensor, axis: Axis, keepdims: bool, correction: float, where: Any, mean: Any = None
) -> Tensor:
    """Return the variance ("var") or standard deviation ("std") of those elements for which `where` holds.

    `mean` is their mean where that is known, of a shape that broadcasts with `x`.
    """
    chosen = None if takes_all(where) else mask(where, x)
    if mean is None and name == "std":  # whose slope needs distances of exactly 0 between equal elements
        axes = None if axis is None else normalize_axes(axis, x.ndim, name)
        d = apply(op.centre_numbers, (x, mask(where, x)), {"axis": axes})
    else:
        mean = mean_of(x, axis, True, where, name) if mean is None else mean
        d = x - weak(mean, [x], name)
        d = d if chosen is None else op.where(chosen, d, 0)
    freedom = _number(chosen, x, axis, keepdims, correction, name)
    if name == "std":
        return reduce(op.vector_norm, d, axis, keepdims, operation=name, ord=2) / op.sqrt(freedom)
    return _squares(d, axis, keepdims, name) / freedom


def _squares(d: Tensor, axis: Axis, keepdims: bool, operation: str) -> Tensor:
    """Return the sums of squares; of all real elements as a product of vectors, without an array of them."""
    if d.dtype.kind != "f" or d.dtype == float16 or len(normalize_axes(axis, d.ndim, operation)) < d.ndim:
        return reduce(op.sum, real_part(d * conjugate(d)), axis, keepdims, operation=operation)
    flat = op.reshape(d, shape=(d.size,))
    shape = (1,) * d.ndim if as_flag(keepdims, "keepdims", operation) else ()
    return op.reshape(op.matmul(flat, flat), shape=shape)
