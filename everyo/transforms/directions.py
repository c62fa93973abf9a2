"""Tangents and cotangents that users give: each must fit what it belongs to; plain numbers are weak."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everyo.core.dtypes import DIFFERENTIABLE
from everyo.core.operands import array_from
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import is_number
from everyo.errors import DTypeError, ShapeError, describe
from everyo.ops.creation import asarray, weak


def fitting(vectors: Sequence[Any], likes: Sequence[Tensor], operation: str, word: str) -> list[Tensor]:
    """Return one vector for each tensor, of its shape and dtype; any for a discrete one, which has none.

    `word` is what errors call a vector: tangent or cotangent.

    Raises
    ------
    ShapeError, DTypeError
        If one does not fit.
    """
    found = []
    for given, like in zip(vectors, likes, strict=True):
        known = isinstance(given, Tensor) and not is_number(given)
        vector = given if known else _as_vector(given, like, operation)
        if vector.dtype is not like.dtype or vector.shape != like.shape:
            _require_fit(vector, like, operation, word)
        found.append(vector)
    return found


def _as_vector(given: Any, like: Tensor, operation: str) -> Tensor:
    """Return an array or a number as a tensor; a number takes the dtype of what it stands beside."""
    if hasattr(given, "dtype") and not is_number(given):
        return asarray(given, copy=True)  # results may be this very array, and its owner may write to it
    met = [like] if like.dtype.kind in DIFFERENTIABLE else []
    if is_number(given):
        return weak(given, met or [given], operation)
    return wrap(array_from(given, like.backend, like.device, operation, met=[x.dtype for x in met]))


def _require_fit(vector: Tensor, like: Tensor, operation: str, word: str) -> None:
    """Raise unless a vector has the shape and dtype of what it belongs to."""
    if like.dtype.kind not in DIFFERENTIABLE:
        return
    owner = "primal" if word == "tangent" else "output"
    if tuple(vector.shape) != tuple(like.shape):
        raise ShapeError(
            f"a {word} has another shape than its {owner}",
            operation=operation,
            inputs=describe(like, vector),
            expected=f"shape {tuple(like.shape)}",
            found=f"shape {tuple(vector.shape)}",
            remedy="make it with eo.ones_like(x), or broadcast it: eo.broadcast_to(v, x.shape)",
        )
    if vector.dtype != like.dtype:
        raise DTypeError(
            f"a {word} has another dtype than its {owner}",
            operation=operation,
            inputs=describe(like, vector),
            expected=str(like.dtype),
            found=str(vector.dtype),
            remedy=f"convert it: v.astype(eo.{like.dtype})",
        )
