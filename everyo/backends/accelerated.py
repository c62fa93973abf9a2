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
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

LARGE = 1 << 15  # elements from which on a call into native code is made up for
BLOCK = 1 << 11  # elements of a sum over everything that are added up at once
LONG = 1 << 13  # float64 elements of a row from which on NumPy's pairwise sum is more exact
MANY = 32  # updates that get a loop of their own; options that change at each step must not make more
SWITCH = "EVERYO_EAGER_KERNELS"  # an environment variable: "0" leaves everything to NumPy
_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
_kernels: dict[Any, Any] = {}


def elementwise(function: Any, *arrays: Any) -> Any:
    """Return ``function(*arrays)`` from one generated loop, or None where NumPy has to compute it.

    Parameters
    ----------
    function : str or callable
        The name of a primitive, or an elementwise function made of operators and ``op.<primitive>``.
    *arrays
        Operands of one shape, float32 or float64. They count if they are NumPy arrays, contiguous or one
        element broadcast. All but the first may be one number.
    """
    arrays = _of_one_dtype(arrays)
    kinds = _kinds(arrays)
    return None if kinds is None else _computed(("elementwise", function, kinds), arrays, None)


def _of_one_dtype(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return operands with arrays in the first one's dtype in place of numbers that have no other."""
    dtype = arrays[0].dtype
    return tuple(
        [np.asarray(x, dtype) if type(x) in (int, float) or type(x) is dtype.type else x for x in arrays]
    )


def along_rows(name: Any, axis: tuple[int, ...] | None, *arrays: Any) -> Any:
    """Return what a kernel for rows makes of arrays, or None where NumPy has to compute it.

    Parameters
    ----------
    name : str or tuple
        A name in `everyo.compiler.eager_rows`, with the numbers that it takes.
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


def updated(key: Any, function: Callable[..., Any], arrays: tuple[Any, ...], numbers: Any) -> bool:
    """Give arrays, all but the second one, what an elementwise function makes of them, in place.

    Parameters
    ----------
    key : hashable
        What the function depends on besides its arguments.
    function : callable
        ``function(*arrays, *numbers)`` returns the new values; it is made of operators and
        ``op.<primitive>``.
    arrays : tuple
        Large arrays of one shape and dtype that may be written into.
    numbers : sequence of float
        Numbers that are not the same in each call.

    Returns
    -------
    bool
        Whether it has been done; if not, nothing has changed.
    """
    kinds = _kinds(arrays)
    if kinds is None or "s" in kinds or not all(a.flags.writeable for a in arrays[:1] + arrays[2:]):
        return False
    key = ("update", key, kinds + "n" * len(numbers), arrays[0].dtype)
    kernel = _kernels.get(key)
    if kernel is None:
        make = _maker()
        if make is None or sum(k[0] == "update" for k in _kernels) >= MANY:
            return False
        kernel = _kernels[key] = make("update", function, *key[2:])
    kernel.run((*arrays, *(np.array(x, _DOUBLE) for x in numbers)), arrays[0].size, arrays[0].size)
    return True


def fused(rule: Callable[..., Any], loop: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return an elementwise rule that takes one loop on large arrays.

    `loop` computes the same with less work where it meets arrays alone, and so is not differentiated.
    """
    loop = loop or rule

    @functools.wraps(rule)
    def computed(g: Any, *operands: Any) -> Any:
        if g.__class__ is np.ndarray and g.size >= LARGE:
            found = elementwise(loop, g, *operands)
            if found is not None:
                return found
        return rule(g, *operands)

    return computed


def instead_of(ufunc: np.ufunc, dtypes: str = "fd") -> Callable[..., Any]:
    """Return a ufunc of one operand that leaves large arrays of some dtypes to a generated loop."""
    name = ufunc.__name__

    def evaluate(x: Any, out: Any = None) -> Any:
        large = out is None and getattr(x, "size", 1) >= LARGE  # a rule may read a Python number
        if large and x.dtype.char in dtypes:
            found = elementwise(name, x)
            if found is not None:
                return found
        return ufunc(x, out=out)

    return evaluate


def slow_functions() -> dict[str, str]:
    """Return functions that NumPy computes without vectors here, with the dtypes that this is true of."""
    found = {"sin": "d", "cos": "d"}
    if not has_vectors():
        found.update(dict.fromkeys(_TRANSCENDENTAL, "fd"))
    return found


def has_vectors() -> bool:
    """Return whether NumPy computes exponentials, logarithms and powers in vectors on this processor."""
    features = getattr(sys.modules.get("numpy._core._multiarray_umath"), "__cpu_features__", {})
    wide = features.get("AVX512_SKX") or features.get("X86_V4")
    return bool(wide) and sys.platform.startswith("linux")


_TRANSCENDENTAL = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "arcsin", "arccos", "arctan", "arcsinh", "arctanh", "cbrt",
)  # fmt: skip


def total(x: Any, axis: Any, keepdims: bool) -> Any:
    """Return the sum of a large array along its last axis or all axes, or None where NumPy has to take it."""
    if type(x) is not np.ndarray or not x.flags.c_contiguous or x.dtype not in (_SINGLE, _DOUBLE):
        return None
    axes = None if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if axes is None or len(axes) == x.ndim:
        flat = x.reshape(-1)
        whole = flat.size - flat.size % BLOCK
        parts = along_rows("sum", (1,), flat[:whole].reshape(-1, BLOCK))
        if parts is None:
            return None
        out = np.asarray(np.add.reduce(parts) + np.add.reduce(flat[whole:], dtype=_DOUBLE), x.dtype)
        return out.reshape((1,) * x.ndim) if keepdims else out[()]
    if x.dtype == _DOUBLE and x.shape[-1] > LONG:
        return None
    parts = along_rows("sum", axes, x)
    if parts is None:
        return None
    return parts.astype(x.dtype, copy=False).reshape((*x.shape[:-1], 1) if keepdims else x.shape[:-1])


def _kinds(arrays: tuple[Any, ...]) -> str | None:
    """Return for each array whether it is an array ("a") or one element ("s"); None if some is neither."""
    first = arrays[0]
    if type(first) is not np.ndarray or first.size < LARGE or first.dtype not in (_SINGLE, _DOUBLE):
        return None
    dtype, shape, found = first.dtype, first.shape, "a"
    if not first.flags.c_contiguous:
        if any(first.strides):
            return None
        found = "s"
    for array in arrays[1:]:
        if type(array) is not np.ndarray or array.dtype != dtype:
            return None
        if array.size == 1 and array.ndim <= len(shape):
            found += "s"
        elif array.shape != shape:
            return None
        elif array.flags.c_contiguous:
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
    return compiler.make if compiler.available() else None
