"""Elementwise kernels that NumPy lacks, or that it computes slowly."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from everyo.backends.accelerated import LARGE, elementwise, has_vectors

DOUBLE = np.dtype(np.float64)
_BITS = {np.dtype(f"f{size}"): np.dtype(f"i{size}") for size in (2, 4, 8)}
_LARGE = 4096  # elements: below, the calls cost more than the branches that they spare
_FEW = 32  # so many times more zeros than values are not combined with these
_UNBUFFERED = 16  # elements: the smallest buffer, which no row fits into
_SQRT_HALF = math.sqrt(0.5)
_LEAST, _TAIL, _BEYOND = 26.0, 4.0, 64.0  # where the error function ends, and where the normal tail begins
_HIGHEST = 16  # exponents up to it, whole or half, take products and roots
_QUICK = (-1, 0, 0.5, 1, 2)  # exponents that NumPy's operator has an own loop for
_BLOCK = 16384  # elements: temporaries of this size stay in the cache


def where(condition: Any, x1: Any, x2: Any) -> Any:
    """Return `x1` where `condition` holds, else `x2`.

    On large float arrays it combines bits where NumPy branches for every element, and writes into zeros what
    belongs to a few places: up to ten times faster.
    """
    if type(x2) is int and x2 == 0 and _writable(condition, x1):
        places = np.flatnonzero(condition)
        out = np.zeros(condition.shape, x1.dtype)
        if x1.size > 1:
            x1 = np.broadcast_to(x1, out.shape)[np.unravel_index(places, out.shape)]
        out.reshape(-1)[places] = x1
        return out
    if _blendable(condition, x1, x2) and condition.dtype == np.bool_:
        found = _replaced_in_few(condition, x1, x2) if condition.size >= LARGE else None
        if found is not None:
            return found
        if type(x2) is int and x2 == 0:
            return _masked(x1, np.negative(condition.view(np.int8)))
        if type(x1) is int and x1 == 0:
            return _masked(x2, condition.view(np.int8) - np.int8(1))
        return _blend(lambda block: condition.reshape(-1)[block], x1, x2)
    return np.where(condition, _fitting(x1, x2), _fitting(x2, x1))


def _fitting(x: Any, other: Any) -> Any:
    """Return a number in the dtype of the integers that it meets; OverflowError if that cannot hold it.

    So does NumPy from 2.5 on; before, such a number wrapped around.
    """
    if type(x) is not int or getattr(other, "dtype", None) is None or other.dtype.kind not in "iu":
        return x
    return np.asarray(x, other.dtype)


def _replaced_in_few(condition: Any, x1: Any, x2: Any) -> Any | None:
    """Return a copy of one operand with the few elements of the other one; None where these are many."""
    count, size = np.count_nonzero(condition), condition.size
    if count * _FEW < size:
        places, usual, other = condition, x2, x1
    elif (size - count) * _FEW < size:
        places, usual, other = ~condition, x1, x2
    else:
        return None
    array = usual if getattr(usual, "ndim", 0) else other
    out = np.full(condition.shape, usual, array.dtype) if usual is not array else usual.copy()
    index = np.flatnonzero(places)
    out.reshape(-1)[index] = other.reshape(-1)[index] if getattr(other, "ndim", 0) else other
    return out


def _masked(x: Any, mask: Any) -> Any:
    """Return the elements of `x` at which all bits of a mask are set, and 0 elsewhere."""
    return np.bitwise_and(x.view(_BITS[x.dtype]), mask).view(x.dtype)


def power(x1: Any, x2: Any) -> Any:
    """Return ``x1**x2``; generated loops take large arrays of which NumPy computes one element after another.

    Small whole and half exponents are products and roots there, up to forty times faster.
    """
    found = None
    if (x1.size if type(x1) is np.ndarray else getattr(x2, "size", 1)) >= LARGE:
        exponent = _number_for(x2, x1)
        if exponent is not None and abs(exponent) <= _HIGHEST and float(2 * exponent).is_integer():
            if exponent not in _QUICK:
                found = elementwise(_raised_to(float(exponent)), x1)
        elif not has_vectors():
            if exponent is None and _number_for(x1, x2) is not None:
                x1 = np.broadcast_to(np.asarray(x1, x2.dtype), x2.shape)
            if type(x1) is np.ndarray:
                found = elementwise("power", x1, x2)
    return x1**x2 if found is None else found


def _number_for(x: Any, other: Any) -> Any:
    """Return `x` if it is one number that takes the dtype of an array `other`, else None."""
    if type(other) is not np.ndarray:
        return None
    if type(x) is np.ndarray and not x.ndim:
        x = x[()]
    return x if type(x) in (int, float, other.dtype.type) else None


@functools.cache
def _raised_to(exponent: float) -> Callable[[Any], Any]:
    return lambda x: x**exponent


def outer_differences(x1: Any, x2: Any) -> Any:
    """Return the differences of all elements along the last axis of `x1` from all along that of `x2`."""
    before = np.setbufsize(_UNBUFFERED)  # else NumPy copies what is broadcast, in twice the time
    try:
        return x1[..., :, None] - x2[..., None, :]
    finally:
        np.setbufsize(before)


def with_sign_of(x: Any, signs: Any, condition: Any = None) -> Any:
    """Return ``x * sign(signs)``, and 0 where `condition` does not hold; it may overwrite `signs`.

    A sign that is 0 or NaN counts as what its bit says. NumPy's ``sign`` takes four times as long.
    """
    if x.dtype != signs.dtype or x.dtype not in _BITS:
        out = np.sign(signs) * x
        return out if condition is None else np.where(condition, out, 0)
    bits = _BITS[signs.dtype]
    out = signs.view(bits)
    out &= np.iinfo(bits).min
    out ^= x.view(bits)
    if condition is not None:
        out &= np.negative(condition.view(np.int8))
    return signs


def _writable(condition: Any, x1: Any) -> bool:
    """Whether so few elements of a large array are `x1` that it is quicker to write these one by one."""
    if type(condition) is not np.ndarray or condition.size < LARGE or condition.dtype != np.bool_:
        return False
    if type(x1) not in (np.ndarray, np.float64, np.float32) or x1.dtype.kind != "f":
        return False
    if not condition.flags.c_contiguous or np.broadcast_shapes(x1.shape, condition.shape) != condition.shape:
        return False
    return bool(np.count_nonzero(condition) * _FEW < condition.size)


def where_positive(x1: Any, x2: Any) -> Any:
    """Return `x1` where `x2` is positive, else `x2`: ``where(x2 > 0, x1, x2)`` without the mask in memory."""
    if x2.size >= LARGE:
        found = elementwise("where_positive", x1, x2)
        if found is not None:
            return found
    if _blendable(x2, x1, x2):
        flat = x2.reshape(-1)
        return _blend(lambda block: flat[block] > 0, x1, x2)
    return np.where(x2 > 0, x1, x2)


def _blendable(condition: Any, x1: Any, x2: Any) -> bool:
    """Whether the bits of `x1`, `x2` can be combined block by block."""
    if type(condition) is not np.ndarray or condition.size < _LARGE or not condition.flags.c_contiguous:
        return False
    number = x2 if type(x1) is np.ndarray else x1  # at most one operand is a number
    array = x1 if number is x2 else x2
    if type(array) is not np.ndarray or array.dtype not in _BITS:
        return False
    if type(number) is np.ndarray and (number.dtype != array.dtype or number.shape not in ((), array.shape)):
        return False
    if type(number) not in (np.ndarray, int, float) or (type(number) is int and abs(number) > 65504):
        return False
    return (
        array.shape == condition.shape
        and array.flags.c_contiguous
        and (not isinstance(number, np.ndarray) or number.flags.c_contiguous)
    )


def _blend(condition: Callable[[slice], Any], x1: Any, x2: Any) -> Any:
    """Return the bits of `x1` where ``condition(block)`` holds and those of `x2` elsewhere."""
    array = x1 if isinstance(x1, np.ndarray) and x1.ndim else x2
    bits = _BITS[array.dtype]
    first, second = (np.asarray(x, array.dtype).view(bits) for x in (x1, x2))
    out = np.empty(array.shape, bits)
    flat, first, second = out.reshape(-1), first.reshape(-1), second.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        a, b = (x[block] if x.size > 1 else x for x in (first, second))
        mixed = flat[block]
        mask = np.negative(condition(block).view(np.int8))  # all bits set where it holds
        np.bitwise_xor(a, b, out=mixed)
        np.bitwise_and(mixed, mask, out=mixed)
        np.bitwise_xor(mixed, b, out=mixed)
    return out.view(array.dtype)


def sigmoid(x: Any) -> Any:
    """Return ``1 / (1 + exp(-x))``, and ``exp(x)`` where that exponential overflows, without a warning."""
    if x.size >= LARGE:
        found = elementwise("sigmoid", x)
        if found is not None:
            return found
    if x.dtype.char == "e":  # half precision, whose exponential overflows long before the result is 0
        return sigmoid(x.astype(np.float32)).astype(x.dtype)
    if x.dtype.kind not in "fc":
        x = np.asarray(x, np.float64)  # an unsigned integer has no negative
    out = np.empty_like(x)
    np.negative(x, out=out)
    try:
        with np.errstate(over="raise"):
            np.exp(out, out=out)
    except FloatingPointError:  # raised at the end
        far = np.isinf(out)
        np.exp(x, out=out, where=far)
        np.add(out, 1, out=out, where=~far)
        return np.reciprocal(out, out=out, where=~far)
    out += 1
    return np.reciprocal(out, out=out)


def quiet_about_nan(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return a ufunc that NumPy lets warn of a NaN operand, without that warning."""

    def evaluate(*operands: Any) -> Any:
        with np.errstate(invalid="ignore"):
            return ufunc(*operands)

    return evaluate


def erf(x: Any) -> Any:
    """Return the error function."""
    return _special("erf")(x)


def erfc(x: Any) -> Any:
    """Return one minus the error function; SciPy's is 0 where the result is less than ordinary numbers."""
    return _with_tail(_special("erfc")(x), x, _LEAST, 1.0, 1.0)


def normal(x: Any) -> Any:
    """Return the normal distribution function of floats, to the last digits far below 0."""
    return _with_tail(0.5 * _special("erfc")(-_SQRT_HALF * x), -x, _TAIL, 0.5, 0.5)


def gelu(x: Any) -> Any:
    """Return ``x * normal(x)``."""
    x = x if x.dtype.kind in "fc" else x.astype(np.float64)  # an unsigned integer has no negative
    return _with_tail(0.5 * x * _special("erfc")(-_SQRT_HALF * x), -x, _TAIL, 0.5, 0.5 * x)


def _with_tail(out: Any, x: Any, begin: float, rate: float, factor: Any) -> Any:
    """Return `out` with ``factor * erfcx(sqrt(rate) * x) * exp(-rate * x**2)`` where `x` is large.

    The square is taken in two parts, the first one exact: rounded it would cost as many digits as it has.
    """
    if out.dtype is not DOUBLE or not out.size or not x.max() > begin:
        return out
    erfcx = _scaled_erfc()
    if erfcx is None:
        return out
    out, far = np.array(out), x > begin
    x, factor = np.minimum(x[far], _BEYOND), np.broadcast_to(factor, x.shape)[far]
    near = np.floor(x * 64) / 64
    half = np.exp(-0.5 * rate * near * near)  # twice, as the whole may be no ordinary number yet
    rest = np.exp(-rate * (x - near) * (x + near))
    out[far] = factor * erfcx(math.sqrt(rate) * x) * rest * half * half
    return out


@functools.cache
def _scaled_erfc() -> Any:
    """Return SciPy's ``exp(x**2) * erfc(x)``; None if SciPy is not installed."""
    try:
        return importlib.import_module("scipy.special").erfcx
    except ImportError:
        return None


@functools.cache
def _special(name: str) -> Callable[[Any], Any]:
    """Return a function of SciPy if that is installed, else the one of Python's math module, looped."""
    try:
        function = getattr(importlib.import_module("scipy.special"), name)
    except ImportError:
        function = np.frompyfunc(getattr(math, name), 1, 1)

    def evaluate(x: Any) -> Any:
        if x.size >= LARGE:
            found = elementwise(name, x)
            if found is not None:
                return found
        if x.dtype.kind not in "fc":  # SciPy computes with small integers in float32
            x = x.astype(np.float64)
        return np.asarray(function(x), x.dtype)

    return evaluate
