"""What dtypes are and where they promote to: the Array API's functions on data types."""

from __future__ import annotations

from typing import Any, NamedTuple

from everyo.core.device import backend_for
from everyo.core.dtypes import DType, as_dtype, default_for
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError

__all__ = ["can_cast", "finfo", "iinfo", "isdtype", "result_type"]

KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


class FloatInfo(NamedTuple):
    """What `finfo` returns: the limits of a real floating dtype, as Python numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerInfo(NamedTuple):
    """What `iinfo` returns: the limits of an integer dtype, as Python numbers."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype_of(value: Any) -> DType:
    """Return the dtype of a tensor or array; of anything else the dtype that it names."""
    return as_dtype(getattr(value, "dtype", value) if not isinstance(value, type) else value)


def _limits(value: Any, operation: str, kinds: str, expected: str) -> DType:
    dtype = _dtype_of(value)
    if dtype.kind not in kinds:
        raise DTypeError(
            "a dtype of this kind has no such limits",
            operation=operation,
            expected=expected,
            found=str(dtype),
            remedy="use eo.finfo for floats and eo.iinfo for integers",
        )
    return dtype


def finfo(type: Any, /) -> FloatInfo:
    """Return the limits of a floating dtype; for a complex one those of its components.

    Parameters
    ----------
    type : dtype-like, tensor or array
        A real or complex floating dtype, or what has one.

    Returns
    -------
    FloatInfo
        ``bits``, ``eps`` (from 1 to the next number), ``max``, ``min``, ``smallest_normal`` and the real
        ``dtype``. All limits are Python numbers.

    Raises
    ------
    DTypeError
        If the dtype is not a floating one.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.finfo(eo.float64).eps == 2.0**-52
    True
    """
    limits = backend_for(None)[0].xp.finfo(_limits(type, "finfo", "fc", "a float or complex dtype"))
    eps, largest, normal = float(limits.eps), float(limits.max), float(limits.smallest_normal)
    return FloatInfo(int(limits.bits), eps, largest, float(limits.min), normal, limits.dtype)


def iinfo(type: Any, /) -> IntegerInfo:
    """Return the limits of an integer dtype.

    Parameters
    ----------
    type : dtype-like, tensor or array
        An integer dtype, or what has one.

    Returns
    -------
    IntegerInfo
        ``bits``, ``max``, ``min`` and ``dtype``.

    Raises
    ------
    DTypeError
        If the dtype is not an integer one.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.iinfo(eo.int8).max
    127
    """
    dtype = _limits(type, "iinfo", "iu", "an integer dtype")
    limits = backend_for(None)[0].xp.iinfo(dtype)
    return IntegerInfo(int(limits.bits), int(limits.max), int(limits.min), dtype)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind. It is about dtypes alone and has no derivative.

    Parameters
    ----------
    dtype : dtype-like
        The dtype in question.
    kind : str, dtype-like or tuple of these
        "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating",
        "numeric", or a dtype; of a tuple, one has to fit.

    Returns
    -------
    bool
        True if one kind fits.

    Raises
    ------
    ArgumentError
        If there is no such kind.
    DTypeError
        If `dtype`, or what should be one in `kind`, is no dtype.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.isdtype(eo.float32, ("integral", "real floating"))
    True
    """
    return any(_is_of_kind(as_dtype(dtype), k) for k in (kind if isinstance(kind, tuple) else (kind,)))


def _is_of_kind(dtype: DType, kind: Any) -> bool:
    if isinstance(kind, str):
        return dtype.kind in letters(kind, "isdtype")
    return dtype == as_dtype(kind)


def letters(kind: str, operation: str) -> str:
    """Return the one-letter codes of the dtypes of a kind of the standard."""
    if kind not in KINDS:
        raise ArgumentError(
            "there is no such kind of dtypes",
            operation=operation,
            expected="one of " + ", ".join(map(repr, KINDS)),
            found=repr(kind),
            remedy="pass one of these, or a dtype such as eo.float32",
        )
    return KINDS[kind]


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether every value of a dtype can be represented in another, as promotion would do it.

    It is about dtypes alone and has no derivative.

    Parameters
    ----------
    from_ : dtype-like, tensor or array
        What would be converted.
    to : dtype-like
        The dtype of the result.

    Returns
    -------
    bool
        True also for equal dtypes.

    Raises
    ------
    DTypeError
        If one is no dtype, and has none.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.can_cast(eo.int8, eo.int16), eo.can_cast(eo.float64, eo.float32)
    (True, False)
    """
    return bool(backend_for(None)[0].xp.can_cast(_dtype_of(from_), as_dtype(to)))


def result_type(*arrays_and_dtypes: Any) -> DType:
    """Return the dtype that an operation on these operands has.

    It is about dtypes alone and has no derivative.

    Parameters
    ----------
    *arrays_and_dtypes : tensor, array, dtype-like or number
        At least one. Python numbers are weak: they take the dtype of what they meet, or their default
        where they meet numbers alone.

    Returns
    -------
    dtype
        The promoted one.

    Raises
    ------
    ArgumentError
        If there is no operand.
    DTypeError
        If one is neither a number nor a dtype, and has no dtype.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.result_type(eo.float32, 1.0, eo.ones(2, dtype=eo.float64))
    dtype('float64')
    """
    if not arrays_and_dtypes:
        raise ArgumentError(
            "nothing has no dtype",
            operation="result_type",
            expected="at least one operand",
            found="none",
            remedy="pass a tensor or a dtype",
        )
    numbers = [x for x in arrays_and_dtypes if isinstance(x, (bool, int, float, complex)) and not _typed(x)]
    dtypes = [_dtype_of(x) for x in arrays_and_dtypes if _typed(x) or not isinstance(x, _NUMBERS)]
    found: DType = backend_for(None)[0].xp.result_type(*dtypes, *numbers)
    return found if dtypes else default_for(found.kind) or found


_NUMBERS = (bool, int, float, complex)


def _typed(value: Any) -> bool:
    """Whether a value has a dtype of its own; NumPy's float64 is a Python float that has."""
    return isinstance(value, Tensor) or hasattr(value, "dtype")
