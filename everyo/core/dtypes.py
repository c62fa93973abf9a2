"""Dtypes and the default float dtype. The vocabulary is NumPy's: a dtype here is a ``numpy.dtype``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, TypeAlias

import numpy as np

from everyo.core.traced import refuse_traced
from everyo.errors import DTypeError

DType: TypeAlias = "np.dtype[Any]"

bool_ = np.dtype("bool")
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(f"float{n}") for n in (16, 32, 64))
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")

DIFFERENTIABLE = frozenset("fc")  # numpy kinds that may require grad: float and complex
_COMPLEX_OF: dict[DType, DType] = {float16: complex64, float32: complex64, float64: complex128}
_default_float: DType = float32
# What the default is in this thread or task for now, if it is another one.
_here: ContextVar[DType | None] = ContextVar("everyo_default_dtype", default=None)


def get_default_dtype() -> DType:
    """Return the float dtype that Python numbers and lists take; float32 unless it was set.

    Returns
    -------
    dtype
        A real floating one.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.get_default_dtype()
    dtype('float32')
    """
    return _here.get() or _default_float


@contextlib.contextmanager
def in_double_precision() -> Iterator[None]:
    """Let Python's floats be float64, as they are in NumPy's functions."""
    before = _here.set(float64)
    try:
        yield
    finally:
        _here.reset(before)


def set_default_dtype(dtype: Any) -> None:
    """Set, for the whole process, the float dtype that Python numbers and lists take.

    Parameters
    ----------
    dtype : dtype-like
        A real floating dtype.

    Raises
    ------
    DTypeError
        If `dtype` is not a real floating dtype.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.set_default_dtype(eo.float64)
    >>> eo.tensor([1.0]).dtype
    dtype('float64')
    >>> eo.set_default_dtype(eo.float32)
    """
    global _default_float
    resolved = as_dtype(dtype)
    if resolved.kind != "f":
        raise DTypeError(
            "the default must be a real floating dtype",
            operation="set_default_dtype",
            expected="float16, float32 or float64",
            found=str(resolved),
            remedy="pass eo.float32 or eo.float64",
        )
    refuse_traced("set_default_dtype", "another default dtype", "set it outside of the function")
    _default_float = resolved


def as_dtype(dtype: Any) -> DType:
    """Return `dtype` as a ``numpy.dtype`` in the machine's byte order.

    Python's ``float`` and ``complex`` mean the defaults.
    """
    if dtype is float:
        return get_default_dtype()
    if dtype is complex:
        return _COMPLEX_OF[get_default_dtype()]
    try:
        resolved: DType = np.dtype(dtype)
    except TypeError:
        resolved = np.dtype(object)
    if resolved.kind not in "biufc" or dtype is None:
        raise DTypeError(
            "this is not a numeric dtype",
            operation="dtype",
            expected="bool, an integer, a float or a complex dtype",
            found=repr(dtype),
            remedy="pass for example eo.float32",
        )
    return resolved if resolved.isnative else resolved.newbyteorder("=")


def default_for(kind: str) -> DType | None:
    """Return the default dtype for Python data of a NumPy `kind`, or None where NumPy's own serves."""
    if kind == "f":
        return get_default_dtype()
    if kind == "c":
        return _COMPLEX_OF[get_default_dtype()]
    return None


def to_float(dtype: DType, x: str = "x") -> str:
    """Return how a remedy converts integers or booleans `x` to floats that hold all of their digits."""
    return f"{x}.astype(eo.float{32 if dtype.itemsize <= 2 else 64})"


def require_differentiable(dtype: DType, operation: str) -> None:
    """Raise DTypeError unless a tensor of `dtype` may require grad."""
    if dtype.kind not in DIFFERENTIABLE:
        raise DTypeError(
            "only floating-point and complex tensors can require grad",
            operation=operation,
            expected="a float or complex dtype",
            found=str(dtype),
            remedy=f"convert first: {to_float(dtype)}.requires_grad_(); numbers are floats as in 1.0",
        )


def refuse_complex(dtype: DType, target: DType, operation: str) -> None:
    """Raise DTypeError if a conversion of `dtype` to `target` would drop imaginary parts."""
    if dtype.kind == "c" and target.kind not in "cb":
        raise DTypeError(
            "complex elements would lose their imaginary part",
            operation=operation,
            expected="a complex dtype",
            found=str(target),
            remedy="take the real part first",
        )
