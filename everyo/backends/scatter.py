"""Writing at indices of NumPy arrays: the NumPy backend's part of indexing and its transpose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

_QUIET: dict[str, Any] = {name: {"invalid": "ignore"} for name in ("maximum", "minimum")}  # of NaN
_FEW = 512  # below this many elements NumPy's own loop is quicker than flat positions


def assemble(
    indices: Sequence[Any], values: Sequence[Any], repeats: Sequence[bool], shape: tuple[int, ...], dtype: Any
) -> Any:
    """Return zeros to which each value is added at its index; `repeats` says that one may name a place twice.

    Three sequences, because a tuple for each of many values would set the garbage collector off.
    """
    kind = _wide(np.dtype(dtype)) if any(repeats) else dtype
    out: Any = None
    for index, value, repeated in zip(indices, values, repeats, strict=True):
        if out is None:
            if len(index) == 1 and index[0] is Ellipsis and value.shape == shape:
                out = np.array(value, kind, order="C")
                continue
            out = np.zeros(shape, kind)
            if not repeated:  # nothing to add to
                out[index] = value
                continue
        if repeated:
            _reduce_at(np.add, out, index, value)
            continue
        target = out[index]
        if getattr(target, "base", None) is out:  # a view
            target += value
        else:
            out[index] = target + value
    out = np.zeros(shape, kind) if out is None else out
    return out.astype(dtype, copy=False)


def _wide(dtype: Any) -> Any:
    """Return in what to sum: float16 would not grow beyond 2048 by steps of 1."""
    return np.float32 if dtype == np.float16 else dtype


def accumulated(name: str, index: tuple[Any, ...], value: Any, start: Any) -> Any:
    """Return what a ufunc such as "maximum" makes of `start` and all elements of `value` at their places."""
    dtype = _wide(start.dtype) if name in ("add", "multiply") else start.dtype
    out = np.array(start, dtype, order="C")
    with np.errstate(**_QUIET.get(name, {})):
        _reduce_at(getattr(np, name), out, index, value)
    return out.astype(start.dtype, copy=False)


def _reduce_at(ufunc: Any, out: Any, index: tuple[Any, ...], value: Any) -> None:
    count = 0
    while count < len(index) and isinstance(index[count], np.ndarray):
        count += 1
    whole = all(item is Ellipsis or (type(item) is slice and item == slice(None)) for item in index[count:])
    if value.size < _FEW or not count or not whole or out.ndim == 1:
        ufunc.at(out, index, value)
        return
    positions: Any = 0
    for i, n in zip(index[:count], out.shape):
        least = i.min()
        if least < -n or i.max() >= n:
            raise IndexError(f"an index is out of bounds for an axis of size {n}")
        found = np.where(i < 0, i + n, i) if least < 0 else i
        positions = positions * n + found.astype(np.intp, copy=False)
    inner = math.prod(out.shape[count:])
    if inner != 1:
        positions = positions[..., None] * inner + np.arange(inner)
    ufunc.at(out.reshape(-1), positions.reshape(-1), value.reshape(-1))


def replaced(x: Any, index: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of `x` in which `value` stands at `index`; of repeated indices the last one counts."""
    out = np.array(x, order="C")  # a cotangent of one number may be a scalar, which has no elements to write
    overwrite(out, index, value)
    return out


def overwrite(x: Any, index: tuple[Any, ...], value: Any) -> None:
    """Write `value` into `x` itself at `index`."""
    x[_in_order(index)] = np.ascontiguousarray(value) if getattr(value, "ndim", 0) > 1 else value


def _in_order(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the index with arrays that NumPy visits first to last: it follows the order of the memory."""
    return tuple([np.ascontiguousarray(i) if getattr(i, "ndim", 0) > 1 else i for i in index])


def last_writes(index: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """Return for each element that `index` names whether a value written there would last."""
    index = _in_order(index)
    owner = np.zeros(shape, np.intp)
    ids = np.arange(owner[index].size).reshape(owner[index].shape)
    owner[index] = ids
    return owner[index] == ids
