"""Functions of a matrix: matrix_exp, logm, sqrtm. SciPy computes them.

The derivative of such a function f along E stands in one of a larger matrix, ``f([[A, E], [0, A]]) = [[f(A),
L(A, E)], [0, f(A)]]`` (N. Higham, Functions of Matrices, 2008, theorem 3.6). Where there is a quicker way to
L it is taken; those of the exponential and the logarithm are themselves derived so. Nothing is divided by
differences of eigenvalues, so equal ones are like any others.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from everyo.core.dispatch import apply
from everyo.core.dtypes import complex128, float32, float64
from everyo.core.registry import op
from everyo.core.samples import Sample, sample
from everyo.core.tensor import Tensor
from everyo.errors import LinAlgError, describe
from everyo.ops.families import primitive
from everyo.ops.linalg.common import (
    entries,
    float_of,
    inexact_array,
    joined,
    made,
    matrixwise,
    named,
    on_finite,
    same_layout,
    square,
)
from everyo.ops.linalg.schur import logarithm_along, magnitude, solved_sylvester
from everyo.ops.signatures import explained

__all__ = ["logm", "matrix_exp", "sqrtm"]


def _block(x: Any, e: Any) -> Any:
    """Return the matrices ``[[x, e], [0, x]]``, or ``[[x, 0], [0, x]]`` if `e` is None."""
    axis = len(x.shape) - 1
    zero = op.zeros_like(x)
    upper = op.concat(x, zero if e is None else e, axis=axis)
    return op.concat(upper, op.concat(zero, x, axis=axis), axis=axis - 1)


def _corner(x: Any) -> Any:
    """Return the upper right quarter of matrices."""
    n = x.shape[-1] // 2
    return op.getitem(x, index=(Ellipsis, slice(0, n), slice(n, None)))


def _second(x: Any, e: Any, f: Any, function: str) -> Any:
    """Return the second derivative of a matrix function along `e` and `f`."""
    large = op.frechet(_block(x, e), _block(f, None), function=function)
    return _corner(large)


def _frechet_vjp(g: Any, needs: Any, x: Any, e: Any, function: str) -> list[Any]:
    transposed = op.matrix_transpose(x)
    return [
        _second(transposed, op.matrix_transpose(e), g, function) if needs[0] else None,
        op.frechet(transposed, g, function=function) if needs[1] else None,
    ]


def _frechet_samples() -> list[Sample]:
    points = [(made(2, 2, diagonal=2.0), (2, 2)), (made(2, 2, 2, diagonal=3.0), (2, 2, 2)), ((0, 0), (0, 0))]
    return [sample(*p, function=f) for p in points for f in _DERIVATIVES]


def _exp_along(xp: Any, x: Any, e: Any) -> Any:
    return xp.scipy_linalg.expm_frechet(x, e, compute_expm=False, check_finite=False)


def _log_along(xp: Any, x: Any, e: Any) -> Any:
    with xp.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = logarithm_along(xp, x, e)
    if not xp.all(xp.isfinite(found)):
        return xp.full_like(e, math.nan)
    return _of_its_kind(xp, x[:1] * e[:1], found, "logm", "the matrix")


_DERIVATIVES = {"exp": _exp_along, "log": _log_along}


@primitive(
    _frechet_vjp,
    (
        lambda t, x, e, function: _second(x, e, t, function),
        lambda t, x, function: op.frechet(x, t, function=function),
    ),
    samples=_frechet_samples,
    batch=matrixwise,
    specs=same_layout,
    linear_in=(1,),
)
def _frechet(xp: Any, x: Any, e: Any, *, function: str) -> Any:
    """Return the derivative of a matrix function at `x` along `e`."""
    return on_finite(xp, lambda x, e: _all_along(xp, x, e, _DERIVATIVES[function]), x, e)


def _all_along(xp: Any, x: Any, e: Any, along: Any) -> Any:
    out = xp.zeros(x.shape, dtype=x.dtype)
    x, e = _wide(xp, x), _wide(xp, e)
    with xp.errstate(over="ignore"):  # half precision overflows to infinity
        for i in entries(x.shape) if x.size else ():
            size = magnitude(xp, e[i])
            out[i] = along(xp, x[i], e[i] / size) * size
    return out


def _wide(xp: Any, x: Any) -> Any:
    """Return an array in single precision where it is in half, which SciPy does not compute in."""
    return xp.asarray(x, dtype=float32) if x.dtype.itemsize < 4 else x


def _samples() -> list[Sample]:
    points = [made(3, 3, diagonal=2.0), made(2, 2, 2, diagonal=3.0), made(1, 1, diagonal=1.0), (0, 0)]
    return [sample(x) for x in points]


def _cotangent(g: Any, x: Any, function: str) -> Any:
    return op.frechet(op.matrix_transpose(x), g, function=function)


@primitive(
    lambda g, x: _cotangent(g, x, "exp"),
    lambda t, x: op.frechet(x, t, function="exp"),
    samples=_samples,
    batch=matrixwise,
    specs=same_layout,
)
def _matrix_exp(xp: Any, x: Any) -> Any:
    x = inexact_array(xp, x)
    with xp.errstate(over="ignore"):
        return xp.asarray(xp.scipy_linalg.expm(_wide(xp, x)), dtype=x.dtype)


@primitive(
    lambda g, x: _cotangent(g, x, "log"),
    lambda t, x: op.frechet(x, t, function="log"),
    samples=_samples,
    batch=matrixwise,
    specs=same_layout,
)
def _logm(xp: Any, x: Any) -> Any:
    return _each(xp, x, _logarithm, "logm")


def _sylvester_vjp(g: Any, needs: Any, x: Any, out: Any) -> list[Any]:
    w, moved = op.sylvester(op.matrix_transpose(x), g), op.matrix_transpose(out)
    return [-(w @ moved + moved @ w) if needs[0] else None, w]


@primitive(
    _sylvester_vjp,
    (lambda t, x, out: -op.sylvester(x, t @ out + out @ t), lambda t, x: op.sylvester(x, t)),
    samples=lambda: [
        sample(made(3, 3, diagonal=2.0), (3, 3)),
        sample(made(2, 2, 2, diagonal=3.0), (2, 2, 2)),
        sample((0, 0), (0, 0)),
    ],
    batch=matrixwise,
    specs=lambda examples, params: [(tuple(examples[0].shape), joined(*(e.dtype for e in examples)))],
    linear_in=(1,),
)
def _sylvester(xp: Any, x: Any, e: Any) -> Any:
    """Return y with ``x @ y + y @ x = e``; NaN where two eigenvalues of `x` have the sum zero."""
    x = xp.asarray(x, dtype=joined(x.dtype, e.dtype))
    return on_finite(xp, lambda x, e: _all_along(xp, x, e, solved_sylvester), x, e)


@primitive(
    lambda g, out: op.sylvester(op.matrix_transpose(out), g),
    lambda t, out: op.sylvester(out, t),
    samples=_samples,
    batch=matrixwise,
    specs=same_layout,
)
def _sqrtm(xp: Any, x: Any) -> Any:
    return _each(xp, x, _root, "sqrtm")


def _each(xp: Any, x: Any, function: Any, operation: str) -> Any:
    out = xp.zeros(x.shape, dtype=float_of(x.dtype))
    x = xp.asarray(x, dtype=out.dtype)
    for i in entries(x.shape) if x.size else ():
        try:
            out[i] = function(xp, x[i], operation, named(i))
        except LinAlgError as error:
            raise error.renamed(operation, inputs=describe(x)) from None
    return out


def _logarithm(xp: Any, x: Any, operation: str, which: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy warns of what is an error here
        wide = xp.asarray(x, dtype=complex128 if x.dtype.kind == "c" else float64)  # in single it errs
        # SciPy takes 1e-20 for an eigenvalue that is zero; it answers nothing to a NaN.
        exists = bool(xp.all(xp.isfinite(wide))) and xp.linalg.slogdet(wide)[0] != 0
        try:
            out = xp.logm(wide) if exists else xp.full_like(wide, math.nan)
        except ValueError as error:
            raise LinAlgError(
                f"SciPy's logm fails for {which}",
                operation=operation,
                inputs=describe(x),
                expected="a logarithm within the floats, with a finite exponential",
                found=f"on the way: {error}",
                remedy="scale the matrix, or split off blocks of equal eigenvalues with many ones above them",
            ) from None
        return _of_its_kind(xp, x, out, operation, which)


def _root(xp: Any, x: Any, operation: str, which: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _of_its_kind(xp, x, xp.scipy_linalg.sqrtm(x), operation, which)


def _of_its_kind(xp: Any, x: Any, out: Any, operation: str, which: str) -> Any:
    """Return a result in the dtype of its matrix; an error where there is none."""
    if not xp.all(xp.isfinite(out)):
        raise LinAlgError(
            f"{which} has no such function",
            operation=operation,
            inputs=describe(x),
            expected="a finite matrix with an inverse",
            found="an eigenvalue that is zero" if xp.all(xp.isfinite(x)) else "a NaN or an infinity",
            remedy="add a small multiple of the identity",
        )
    if x.dtype.kind == "c" or out.dtype.kind != "c":
        return out
    eps = xp.finfo(out.dtype).eps
    if xp.amax(xp.abs(xp.imag(out))) > eps**0.5 * xp.amax(xp.abs(out)):
        raise LinAlgError(
            f"the result for {which} is not real",
            operation=operation,
            inputs=describe(x),
            expected="a real matrix without eigenvalues on the negative axis",
            found="an eigenvalue there",
            remedy="make the matrix complex first: x.astype(eo.complex128)",
        )
    return xp.real(out)


@explained
def matrix_exp(x: Any, /) -> Tensor:
    """Return the exponentials of square matrices, ``1 + x + x @ x / 2 + ...``.

    The gradient is the derivative of the exponential at ``x.T`` along the gradient of the result (A.
    Al-Mohy and N. Higham, Computing the Fréchet derivative of the matrix exponential, 2009).

    Parameters
    ----------
    x : tensor
        Shape ``(..., n, n)``, real or complex.

    Returns
    -------
    Tensor
        Of the same shape.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    UnsupportedOperationError
        If SciPy is not installed.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.linalg.matrix_exp(eo.tensor([[0.0, 1.0], [0.0, 0.0]])))
    [[1. 1.]
     [0. 1.]]
    """
    return apply(_matrix_exp, (square(x, "matrix_exp", half=True),))


@explained
def logm(x: Any, /) -> Tensor:
    """Return the principal logarithms of square matrices, ``matrix_exp(logm(x)) = x``.

    The gradient is found by inverse scaling and squaring: for a root of the matrix a Sylvester equation, for
    the approximant of the logarithm two triangular systems a term (A. Al-Mohy, N. Higham and S. Relton,
    Computing the Fréchet derivative of the matrix logarithm and estimating the condition number, 2013). It is
    NaN where it is beyond the floats.

    Parameters
    ----------
    x : tensor
        Shape ``(..., n, n)``, real or complex, with an inverse.

    Returns
    -------
    Tensor
        Of the same shape; real for a real `x`.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    LinAlgError
        If one has no logarithm, a real one no real logarithm, or SciPy fails, as at a large Jordan block.
    UnsupportedOperationError
        If SciPy is not installed.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.linalg.logm(eo.eye(2)))
    [[0. 0.]
     [0. 0.]]
    """
    return apply(_logm, (square(x, "logm", half=True),))


@explained
def sqrtm(x: Any, /) -> Tensor:
    """Return the principal square roots of square matrices, ``y @ y = x``.

    ``y dy + dy y = dx`` is a Sylvester equation for the derivative, and so is it, transposed, for the
    gradient (N. Higham, Functions of Matrices, 2008, section 6.1). Where two eigenvalues of y have the sum
    zero there is none, and it is NaN.

    Parameters
    ----------
    x : tensor
        Shape ``(..., n, n)``, real or complex.

    Returns
    -------
    Tensor
        Of the same shape; real for a real `x`.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    LinAlgError
        If one has no square root, or a real one no real square root.
    UnsupportedOperationError
        If SciPy is not installed.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.linalg.sqrtm(eo.tensor([[4.0, 0.0], [0.0, 9.0]])))
    [[2. 0.]
     [0. 3.]]
    """
    x = square(x, "sqrtm", half=True)
    if x.dtype.itemsize > 2:
        return apply(_sqrtm, (x,))
    root = apply(_sqrtm, (op.astype(x, dtype=float32),))  # what is kept for the derivative is not rounded
    return op.astype(root, dtype=x.dtype)
