"""Questions about values and types whose answers are booleans."""

from __future__ import annotations

import math
from typing import Any

from everyo.core.dtypes import float64
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError
from everyo.ops.axes import as_flag
from everyo.ops.comparison import isfinite, isnan, logical_and, logical_or
from everyo.ops.complex_parts import imag, real
from everyo.ops.creation import as_tensor, as_tensors, fresh, real_number
from everyo.ops.known import is_known
from everyo.ops.piecewise import where
from everyo.ops.shape import apart
from everyo.ops.signatures import explained
from everyo.ops.truth import all as every

__all__ = [
    "allclose", "array_equal", "array_equiv", "isclose", "iscomplex", "iscomplexobj", "isneginf", "isposinf",
    "isreal", "isrealobj", "real_if_close",
]  # fmt: skip


def isclose(
    x1: Any, x2: Any, /, rtol: float = 1e-05, atol: float = 1e-08, *, equal_nan: bool = False
) -> Tensor:
    """Whether ``|x1 - x2| <= atol + rtol * |x2|``, elementwise. It has no gradient.

    Parameters
    ----------
    x1, x2 : tensor, array or number
        Shapes that broadcast.
    rtol, atol : float
        How far they may be apart, relative to `x2` and absolutely.
    equal_nan : bool, default False
        Whether NaN is close to NaN.

    Returns
    -------
    Tensor
        Of booleans. Infinities are close if they are equal.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If something is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.isclose(eo.tensor([1.0, 2.0]), eo.tensor([1.0 + 1e-7, 2.1])))
    [ True False]
    """
    x1, x2 = (x.detach() for x in as_tensors([x1, x2], "isclose"))
    rtol, atol = (
        real_number(t, "isclose", "a tolerance") if isinstance(t, (int, float)) else as_tensor(t).detach()
        for t in (rtol, atol)
    )
    equal_nan = as_flag(equal_nan, "equal_nan", "isclose")
    plain = not isinstance(rtol, Tensor) and not isinstance(atol, Tensor)
    if plain and is_known(x1) and is_known(x2) and x1.shape == x2.shape and x1.backend is x2.backend:
        return as_tensor(x1.backend.xp.isclose(x1.data, x2.data, rtol, atol, equal_nan=equal_nan))
    if x2.dtype.kind in "biu":
        x2 = x2.astype(float64)
    finite = logical_and(isfinite(x1), isfinite(x2))
    first, second = where(finite, x1, 0), where(finite, x2, 0)
    near = logical_and(finite, abs(first - second) <= atol + rtol * abs(second))
    near = logical_or(near, x1 == x2)
    return logical_or(near, logical_and(isnan(x1), isnan(x2))) if equal_nan else near


def allclose(
    x1: Any, x2: Any, /, rtol: float = 1e-05, atol: float = 1e-08, *, equal_nan: bool = False
) -> bool:
    """Whether all elements are close, as `isclose` has it; a Python bool.

    The result carries no gradient.

    Parameters
    ----------
    x1, x2 : tensor, array or number
        Shapes that broadcast.
    rtol : float, default 1e-05
        How far elements may be apart, relative to `x2`.
    atol : float, default 1e-08
        How far absolutely, in addition.
    equal_nan : bool, default False
        Whether NaN is close to NaN.

    Returns
    -------
    bool
        True for no elements.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If something is not numeric.
    CompileError, UnsupportedOperationError
        In a compiled function or under `vmap`: the elements are not known.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.allclose(eo.tensor([1.0, 2.0]), [1.0, 2.0])
    True
    """
    return bool(every(isclose(x1, x2, rtol, atol, equal_nan=equal_nan)))


def array_equal(x1: Any, x2: Any, /, *, equal_nan: bool = False) -> bool:
    """Whether two tensors have the same shape and elements; a Python bool. NaN may count as equal to NaN.

    The result carries no gradient.

    Parameters
    ----------
    x1, x2 : tensor, array or number
        Of any shapes and dtypes.
    equal_nan : bool, default False
        Whether NaN is equal to NaN.

    Returns
    -------
    bool
        False if the shapes differ; dtypes may.

    Raises
    ------
    DTypeError
        If something is not numeric.
    CompileError, UnsupportedOperationError
        In a compiled function or under `vmap`: the elements are not known.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.array_equal([1, 2], [1, 2]), eo.array_equal([1, 2], [[1, 2]])
    (True, False)
    """
    x1, x2 = as_tensor(x1).detach(), as_tensor(x2).detach()
    if tuple(x1.shape) != tuple(x2.shape):
        return False
    same = x1 == x2
    if as_flag(equal_nan, "equal_nan", "array_equal"):
        same = same | ((x1 != x1) & (x2 != x2))
    return bool(every(same))


def array_equiv(x1: Any, x2: Any, /) -> bool:
    """Whether two tensors have the same elements once they are broadcast; a Python bool.

    The result carries no gradient.

    Parameters
    ----------
    x1, x2 : tensor, array or number
        Of any shapes and dtypes.

    Returns
    -------
    bool
        False if the shapes do not broadcast; NaN is equal to nothing.

    Raises
    ------
    DTypeError
        If something is not numeric.
    CompileError, UnsupportedOperationError
        In a compiled function or under `vmap`: the elements are not known.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.array_equiv([1, 1], [[1], [1]]), eo.array_equiv([1, 1], [1, 1, 1])
    (True, False)
    """
    x1, x2 = as_tensor(x1).detach(), as_tensor(x2).detach()
    try:
        return bool(every(x1 == x2))
    except ShapeError:
        return False


def isreal(x: Any, /) -> Tensor:
    """Whether the imaginary part is 0, elementwise; true for all real elements.

    Parameters
    ----------
    x : tensor, array or number
        Of any shape and dtype.

    Returns
    -------
    Tensor
        Of booleans, of the same shape; it carries no gradient.

    Raises
    ------
    DTypeError
        If `x` is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.isreal(eo.tensor([1 + 0j, 1j])))
    [ True False]
    """
    return imag(as_tensor(x).detach()) == 0


def iscomplex(x: Any, /) -> Tensor:
    """Whether the imaginary part is not 0, elementwise; false for all real elements.

    Parameters
    ----------
    x : tensor, array or number
        Of any shape and dtype.

    Returns
    -------
    Tensor
        Of booleans, of the same shape; it carries no gradient.

    Raises
    ------
    DTypeError
        If `x` is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.iscomplex(eo.tensor([1 + 0j, 1j])))
    [False  True]
    """
    x = as_tensor(x)
    return imag(x.detach()) != 0 if x.dtype.kind == "c" else fresh(x.backend.xp.zeros(x.shape, dtype=bool))


def iscomplexobj(x: Any, /) -> bool:
    """Whether a tensor is of a complex dtype, whatever its elements.

    Parameters
    ----------
    x : tensor, array or number
        Of any shape and dtype.

    Returns
    -------
    bool
        It carries no gradient.

    Raises
    ------
    DTypeError
        If `x` is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.iscomplexobj(eo.tensor([1 + 0j]))
    True
    """
    return bool(as_tensor(x).dtype.kind == "c")


def isrealobj(x: Any, /) -> bool:
    """Whether a tensor is of a dtype that is not complex.

    Parameters
    ----------
    x : tensor, array or number
        Of any shape and dtype.

    Returns
    -------
    bool
        It carries no gradient.

    Raises
    ------
    DTypeError
        If `x` is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.isrealobj(eo.tensor([1.0]))
    True
    """
    return not iscomplexobj(x)


@explained
def isposinf(x: Any, /) -> Tensor:
    """Whether a real number is positive infinity, elementwise.

    Parameters
    ----------
    x : tensor, array or number
        Real, of any shape.

    Returns
    -------
    Tensor
        Of booleans, of the same shape; it carries no gradient.

    Raises
    ------
    DTypeError
        If `x` is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.isposinf(eo.tensor([eo.inf, -eo.inf, 1.0])))
    [ True False False]
    """
    return as_tensor(x).detach() == math.inf


@explained
def isneginf(x: Any, /) -> Tensor:
    """Whether a real number is negative infinity, elementwise.

    Parameters
    ----------
    x : tensor, array or number
        Real, of any shape.

    Returns
    -------
    Tensor
        Of booleans, of the same shape; it carries no gradient.

    Raises
    ------
    DTypeError
        If `x` is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.isneginf(eo.tensor([eo.inf, -eo.inf, 1.0])))
    [False  True False]
    """
    return as_tensor(x).detach() == -math.inf


def real_if_close(x: Any, /, tol: float = 100) -> Tensor:
    """Return the real part if all imaginary parts are near 0, else `x`.

    The gradient is that of `real` where the imaginary part is dropped, else `g` itself.

    Parameters
    ----------
    x : tensor
        Of any shape.
    tol : float, default 100
        How near: in units of the precision of the dtype if above 1, else absolutely.

    Returns
    -------
    Tensor
        Of the shape of `x`: real if all imaginary parts are near 0, else `x` itself.

    Raises
    ------
    DTypeError
        If `x` is not numeric, or `tol` no real number.
    CompileError, UnsupportedOperationError
        For complex `x` in a compiled function or under `vmap`: the elements are not known.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.real_if_close(eo.tensor([2 + 0j])))
    [2.]
    """
    x, tol = as_tensor(x), real_number(tol, "real_if_close", "tol")
    if x.dtype.kind != "c":
        return apart(x)
    limit = tol * float(x.backend.xp.finfo(x.dtype).eps) if tol > 1 else tol
    return real(x) if bool(every(abs(imag(x.detach())) < limit)) else apart(x)
