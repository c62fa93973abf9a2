"""Covariance and correlation of variables."""

from __future__ import annotations

import math
from typing import Any

from everyo.core.batching import trailing
from everyo.core.dispatch import apply
from everyo.core.dtypes import float16, float32
from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, ShapeError, describe
from everyo.ops.axes import as_flag
from everyo.ops.creation import as_tensor, as_tensors, weak
from everyo.ops.diagonals import diagonal
from everyo.ops.families import primitive
from everyo.ops.known import anywhere, everywhere, held, look
from everyo.ops.reductions import conjugate, inexact, real_part
from everyo.ops.signatures import composed, explained
from everyo.ops.statistics import correction_of
from everyo.ops.units import unit_of

__all__ = ["corrcoef", "cov"]


def _adjoint(x: Any) -> Any:
    return conjugate(op.matrix_transpose(x))


def _distances(x: Any) -> Any:
    return x - op.mean(x, axis=(len(x.shape) - 1,), keepdims=True)


def _scatter_vjp(g: Any, x: Any) -> Any:
    return op.matmul(g + _adjoint(g), conjugate(_distances(x)))


def _scatter_jvp(t: Any, x: Any) -> Any:
    half = op.matmul(t, _adjoint(_distances(x)))
    return half + _adjoint(half)


@primitive(
    _scatter_vjp,
    _scatter_jvp,
    samples=lambda: [sample((2, 4)), sample((1, 3)), sample((2, 3, 2)), sample((0, 2))],
    batch=trailing(2),
)
def _scatter_matrix(xp: Any, x: Any) -> Any:
    """Return the products of the rows' distances from their means, with each other."""
    d = x - xp.mean(x, axis=-1, keepdims=True)
    d -= xp.mean(d, axis=-1, keepdims=True)  # takes away the rounding error of the first mean
    return xp.matmul(d, xp.matrix_transpose(xp.conj(d) if d.dtype.kind == "c" else d))


def _variables(x: Any, rowvar: bool, operation: str) -> Tensor:
    """Return a matrix with a variable in each row."""
    x = inexact(x)
    if x.ndim > 2:
        raise ShapeError(
            "there are more than two axes",
            operation=operation,
            inputs=describe(x),
            expected="a vector of observations, or a matrix of variables and observations",
            found=f"{x.ndim} axes",
            remedy="use eo.vmap over the first axes",
        )
    if x.ndim < 2:
        return op.reshape(x, shape=(1, math.prod(x.shape)))
    return x if rowvar else op.matrix_transpose(x)


def _weights(weights: Any, count: int, name: str, x: Tensor) -> Tensor:
    """Return weights of the observations as a vector."""
    found = as_tensor(weights, x) if name == "fweights" else weak(weights, [x], "cov")
    if tuple(found.shape) != (count,):
        raise ShapeError(
            f"{name} must be a vector with a weight for each observation",
            operation="cov",
            inputs=describe(x, found),
            expected=f"shape ({count},)",
            found=str(tuple(found.shape)),
            remedy="count the observations along the columns, or pass rowvar=False",
        )
    inputs, kind = describe(found), str(found.dtype)

    def check(counts: Any) -> None:
        if counts.dtype.kind not in "iu" or anywhere(counts < 0):
            raise ArgumentError(
                "fweights say how often an observation was made",
                operation="cov",
                inputs=inputs,
                expected="integers, none negative",
                found=kind,
                remedy="pass other weights as aweights",
            )

    if name == "fweights":
        if found.dtype.kind in "iu":
            look(check, found)
        else:
            check(found)
    if found.dtype.kind == "c":
        raise DTypeError(
            "weights are real numbers",
            operation="cov",
            inputs=describe(x, found),
            expected=f"real {name}",
            found=kind,
            remedy="take the real part, or the absolute value",
        )
    xp = x.backend.xp
    real = xp.finfo(xp.result_type(x.dtype, found.dtype) if found.dtype.kind == "f" else x.dtype).dtype
    found = op.astype(found, dtype=real)
    if name == "fweights":
        return found
    # Nothing depends on the size of aweights: of the order of 1, they and their squares stay in the range.
    return found / op.reshape(unit_of(op.reshape(found, shape=(1, count))), shape=())


@explained
def cov(
    x: Any,
    y: Any = None,
    /,
    rowvar: bool = True,
    bias: bool = False,
    *,
    ddof: float | None = None,
    correction: float | None = None,
    fweights: Any = None,
    aweights: Any = None,
    dtype: Any = None,
) -> Tensor:
    """Covariance matrix of variables: ``sum((x - mean(x)) conj(x - mean(x))^T) / (n - correction)``.

    ``dx = (g + g^T) (x - mean(x)) / (n - correction)`` for real variables. `aweights` have a gradient too.

    Parameters
    ----------
    x : tensor
        A variable in each row with its observations, or one variable; integers are computed in float64.
    y : tensor, optional
        More variables.
    rowvar : bool, default True
        False if the variables are the columns.
    bias : bool, default False
        Whether to divide by n instead of n - 1.
    ddof, correction : number, optional
        What is subtracted from n, instead.
    fweights : integer tensor, optional
        How often each observation was made.
    aweights : tensor, optional
        How much each observation weighs; real, of any size, which does not count.
    dtype : dtype-like, optional
        The dtype to compute in; that of the variables by default.

    Returns
    -------
    Tensor
        A matrix; 0-d for one variable. NaN where no degrees of freedom are left.

    Raises
    ------
    ShapeError
        If there are more than two axes, or `y` or weights do not fit.
    ArgumentError
        If `fweights` are no integers, or both `ddof` and `correction` are given.
    DTypeError
        If something is not numeric, `aweights` are complex, `dtype` is no dtype, or `rowvar` or `bias` are
        neither true nor false.
    GraphStateError
        If `ddof` or `correction` is a tensor that requires grad.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.cov(eo.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])))
    [[ 1. -1.]
     [-1.  1.]]
    """
    correction = _correction(bias, ddof, correction)
    x, y = _in_dtype(x, y, dtype)
    if x.dtype == float16 and _half(y) and (_half(aweights) or aweights.dtype.kind in "biu"):
        if aweights is not None:
            aweights = op.astype(weak(aweights, [x], "cov"), dtype=float32)
        wide = cov(x, y, rowvar, ddof=correction, fweights=fweights, aweights=aweights, dtype=float32)
        return op.astype(wide, dtype=float16)
    matrix = _variables(x, as_flag(rowvar, "rowvar", "cov"), "cov")
    if y is not None:
        matrix = apply(op.concat, (matrix, _variables(y, bool(rowvar), "cov")), {"axis": 0})
    count = matrix.shape[1]
    repeats = None if fweights is None else _weights(fweights, count, "fweights", matrix)
    weights = None if aweights is None else _weights(aweights, count, "aweights", matrix)
    both = weights if repeats is None else repeats if weights is None else repeats * weights
    if both is None:
        products = apply(op.scatter_matrix, (matrix,))
        freedom: Any = count - correction
    else:
        total = op.sum(both, axis=None, keepdims=False)
        distances = matrix - op.sum(matrix * both, axis=(1,), keepdims=True) / total
        products = op.matmul(distances * both, _adjoint(distances))
        freedom = total - correction
        if weights is not None:
            freedom = total - op.sum(both * weights, axis=None, keepdims=False) * correction / total
    out = products / _positive(freedom)
    return op.reshape(out, shape=()) if out.shape[0] == 1 else out


def _in_dtype(x: Any, y: Any, dtype: Any) -> tuple[Any, Any]:
    """Return one or two sets of variables as tensors, of `dtype` if that is given."""
    given = as_tensors((x,) if y is None else (x, y), "cov")
    if dtype is not None:
        given = [v.astype(dtype, copy=False) for v in given]
    return given[0], None if y is None else given[1]


def _half(x: Any) -> bool:
    """Whether something beside float16 leaves it at that."""
    return x is None or getattr(x, "dtype", float16) == float16


def _positive(freedom: Any) -> Any:
    """Return degrees of freedom by which to divide: NaN where none are left."""
    if isinstance(freedom, Tensor):
        return op.where(op.less_equal(freedom, 0), math.nan, freedom)
    return freedom if freedom > 0 else math.nan


def _correction(bias: bool, ddof: float | None, correction: float | None) -> float:
    given = correction_of(correction, ddof, "cov")
    if given is None:
        return 0 if as_flag(bias, "bias", "cov") else 1
    return given


def _comparable(variables: list[Tensor]) -> Tensor:
    """Return covariances of variables, in units of their own where squares may leave the range."""
    x, y = variables[0], variables[1] if len(variables) > 1 else None
    xp = x.backend.xp
    if all(held(v, "corrcoef") is not None for v in variables):
        with xp.errstate(all="ignore"):
            c = cov(x, y)
        limits = xp.finfo(c.dtype)
        sizes = op.abs(held(diagonal(c) if c.ndim else c, "corrcoef"))
        if everywhere(op.logical_and(sizes > limits.tiny**0.75, sizes < limits.max**0.75)):
            return c
    return cov(x / unit_of(x, 1), None if y is None else y / unit_of(y, 1))


@composed
def corrcoef(x: Any, y: Any = None, /, rowvar: bool = True, *, dtype: Any = None) -> Tensor:
    """Correlation coefficients of variables: their covariances divided by their standard deviations.

    The gradient is that of ``c[i, j] / sqrt(c[i, i] * c[j, j])`` for the covariances c. What rounding takes
    beyond -1 and 1 is cut off; its gradient is 0 there, as it is at these bounds. NaN for a variable that is
    constant.

    Parameters
    ----------
    x : tensor
        A variable in each row with its observations, or one variable.
    y : tensor, optional
        More variables.
    rowvar : bool, default True
        False if the variables are the columns.
    dtype : dtype-like, optional
        The dtype to compute in.

    Returns
    -------
    Tensor
        A matrix; 0-d for one variable.

    Raises
    ------
    ShapeError
        If there are more than two axes, or `y` does not fit.
    DTypeError
        If something is not numeric, `dtype` is no dtype, or `rowvar` neither true nor false.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.corrcoef(eo.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])))
    [[ 1. -1.]
     [-1.  1.]]
    """
    x, y = _in_dtype(x, y, dtype)
    if x.dtype == float16 and _half(y):
        return op.astype(corrcoef(x, y, rowvar, dtype=float32), dtype=float16)
    rowvar = as_flag(rowvar, "rowvar", "cov")
    c = _comparable([_variables(v, rowvar, "cov") for v in (x, y) if v is not None])
    if not c.ndim:
        return c / c
    size = op.sqrt(real_part(diagonal(c)))
    c = c / op.reshape(size, shape=(c.shape[0], 1)) / size
    if c.dtype.kind == "c":
        return op.clip(op.real(c), -1, 1) + 1j * op.clip(op.imag(c), -1, 1)
    return op.clip(c, -1, 1)
