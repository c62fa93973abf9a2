"""Large arrays: kernels that the compiler generates for eager code, where its packages are installed.

What NumPy computes in several passes, or without vectors, one generated loop does at once. The loops serve
contiguous arrays of `LARGE` elements and more; smaller ones, and everything else, stay with NumPy, and so
does a result that is not finite all over: NumPy decides then what to warn of.

This module only looks them up. The compiler, a layer above, makes a kernel when it is first asked for one.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

LARGE = 1 << 15  # elements from which on a call into native code is made up for
SWITCH = "EVERYO_EAGER_KERNELS"  # an environment variable: "0" leaves everything to NumPy
_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
_kernels: dict[Any, Any] = {}


def elementwise(function: Any, *arrays: Any) -> Any:
    """Return ``function(*arrays)`` from one generated loop, or None where NumPy has to compute it.

    Parameters
    ----------
    function : str or callable
        The name of a primitive, or an elementwise function made of operators and ``op.<primitive>``.
    *arrays
        Operands of one shape, float32 or float64. They count if they are NumPy arrays, contiguous or one
        element broadcast.
    """
    kinds = _kinds(arrays)
    return None if kinds is None else _computed(("elementwise", function, kinds), arrays, None)


def along_rows(name: str, axis: tuple[int, ...] | None, *arrays: Any) -> Any:
    """Return what a kernel for rows makes of arrays, or None where NumPy has to compute it.

    Parameters
    ----------
    name : str
        A name in `everyo.compiler.eager_rows`.
    axis : tuple of int or None
        What a row is: the last axis, or all of them.
    *arrays
        Operands of one shape, as in `elementwise`.
    """
    kinds = _kinds(arrays)
    if kinds is None or "s" in kinds:
        return None
    shape = arrays[0].shape
    if axis is None or len(axis) == len(shape):
        length = arrays[0].size
    elif len(axis) == 1 and axis[0] in (-1, len(shape) - 1):
        length = shape[-1]
    else:
        return None
    return _computed(("rows", name, kinds), arrays, length) if length > 1 else None


def _kinds(arrays: tuple[Any, ...]) -> str | None:
    """Return for each array whether it is an array ("a") or one element ("s"); None if some is neither."""
    first = arrays[0]
    if type(first) is not np.ndarray or first.size < LARGE or first.dtype not in _DTYPES:
        return None
    dtype, shape, found = first.dtype, first.shape, "a"
    if not first.flags.c_contiguous:
        if any(first.strides):
            return None
        found = "s"
    for array in arrays[1:]:
        if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
            return None
        if array.flags.c_contiguous:
            found += "a"
        elif not any(array.strides):
            found += "s"
        else:
            return None
    return found if "a" in found else None


def _computed(key: Any, arrays: tuple[Any, ...], length: int | None) -> Any:
    key = (*key, arrays[0].dtype)
    kernel = _kernels.get(key)
    if kernel is None:
        make = _maker()
        if make is None:
            return None
        kernel = _kernels[key] = make(*key)
    return kernel(arrays, length)


@functools.cache
def _maker() -> Callable[..., Any] | None:
    """Return what makes kernels; None if they are switched off or the packages are missing."""
    if os.environ.get(SWITCH) == "0":
        return None
    try:
        compiler = importlib.import_module("everyo.compiler.eager")
    except ImportError:
        return None
    return compiler.make if compiler.available() else None  # type: ignore[no-any-return]
