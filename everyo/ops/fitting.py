"""Polynomials that fit data, their roots, and their division."""

from __future__ import annotations

from typing import Any

from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.core.traced import staged
from everyo.errors import ArgumentError, CompileError, LinAlgError, ShapeError, describe
from everyo.ops.axes import as_flag, as_integer, is_one_of
from everyo.ops.contraction import outer
from everyo.ops.creation import as_tensor, as_tensors, weak
from everyo.ops.known import held, look
from everyo.ops.linalg.common import not_half
from everyo.ops.linalg.eigen import eigvals
from everyo.ops.linalg.least_squares import lstsq
from everyo.ops.linalg.solving import inv
from everyo.ops.polynomials import coefficients, vander
from everyo.ops.reductions import conjugate, inexact, real_part
from everyo.ops.shape import apart
from everyo.ops.signatures import explained

__all__ = ["polydiv", "polyfit", "roots"]


@explained
def polyfit(
    x: Any,
    y: Any,
    /,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Any = None,
    cov: bool | str = False,
) -> Any:
    """Coefficients of the polynomial that fits points best, in the sense of least squares.

    All three of `x`, `y` and `w` have a gradient, that of `eo.linalg.lstsq`. Source: Golub and Pereyra
    (1973), The Differentiation of Pseudo-Inverses and Nonlinear Least Squares Problems Whose Variables
    Separate.

    Parameters
    ----------
    x : tensor
        Where the values are: a vector of m points.
    y : tensor
        The values: a vector of m, or a matrix with a set of values in each of k columns.
    deg : int
        The degree.
    rcond : number, optional
        Which part of the largest singular value counts as zero; m times the precision by default.
    w : tensor, optional
        A weight for each point, by which its distance is multiplied before it is squared.
    full : bool, default False
        Also return what `eo.linalg.lstsq` says of the system: residuals, rank and singular values, and
        `rcond`.
    cov : bool or "unscaled", default False
        Also return the covariance matrix of the coefficients, ``inv(V.T V)`` for the matrix V of powers:
        times ``sum(residuals**2) / (m - deg - 1)``, unless it is "unscaled" for weights of 1 / sigma.

    Returns
    -------
    Tensor
        ``deg + 1`` coefficients, that of the highest power first; or a matrix with k columns of such. In a
        tuple with what else was asked for.

    Raises
    ------
    ArgumentError
        If the degree is negative, or there are too few points for a scaled covariance.
    ShapeError
        If the shapes do not fit, or there is no point.
    DTypeError
        If something is not numeric or of float16, `deg` is no integer, or `full` neither true nor false.
    LinAlgError
        If the points make no finite system, for example because of a NaN.

    Examples
    --------
    >>> import everyo as eo
    >>> fit = eo.polyfit(eo.tensor([0.0, 1.0, 2.0]), eo.tensor([1.0, 3.0, 5.0]), 1)
    >>> print(eo.round(fit))
    [2. 1.]
    """
    x, y = (not_half(inexact(v), "polyfit") for v in as_tensors((x, y), "polyfit"))
    dtype = x.backend.xp.result_type(x.dtype, y.dtype)
    is_real = x.dtype.kind != "c"
    x, y = (v if v.dtype == dtype else op.astype(v, dtype=dtype) for v in (x, y))
    deg = as_integer(deg, "deg", "polyfit")
    if deg < 0:
        raise ArgumentError(
            "the degree must not be negative", operation="polyfit", expected="deg >= 0", found=str(deg)
        )
    weights = None if w is None else weak(w, [x], "polyfit")
    wanted = tuple(x.shape)
    fits = y.ndim in (1, 2) and tuple(y.shape[:1]) == wanted
    if x.ndim != 1 or not x.size or not fits or (weights is not None and tuple(weights.shape) != wanted):
        raise ShapeError(
            "points, values and weights do not fit each other",
            operation="polyfit",
            inputs=describe(x, y) if weights is None else describe(x, y, weights),
            expected="vectors of one length, not empty; values may be a matrix with as many rows",
            found=f"{wanted} and {tuple(y.shape)}",
            remedy="pass one value, or one row of values, for each point",
        )
    left = vander(x, deg + 1)
    if weights is not None:
        left = left * op.reshape(weights, shape=(x.size, 1))
        y = y * (weights if y.ndim == 1 else op.reshape(weights, shape=(x.size, 1)))
    scale = op.vector_norm(left, axis=(0,), keepdims=False, ord=2)
    scale = op.where(op.equal(scale, 0), 1, scale)
    rcond = x.size * float(x.backend.xp.finfo(x.dtype).eps) if rcond is None else rcond
    columns = op.reshape(y, shape=(x.size, 1)) if y.ndim == 1 else y
    full = as_flag(full, "full", "polyfit")
    cov = cov if is_one_of(cov, ("unscaled",)) else as_flag(cov, "cov", "polyfit")
    solution, *others = lstsq(left / scale, columns, rcond)
    solution = solution / op.reshape(scale, shape=(deg + 1, 1))
    fitted = op.reshape(solution, shape=(deg + 1,)) if y.ndim == 1 else solution
    if full:
        return (fitted, *others, rcond)
    if cov is False:
        return fitted
    design = left / scale
    if is_real and (weights is None or weights.dtype.kind != "c"):
        design = real_part(design)  # complex for complex values alone
    spread = inv(op.matmul(op.matrix_transpose(design), design)) / outer(scale, scale)
    if cov != "unscaled":
        return fitted, _scaled(spread, left, columns, solution, y)
    return fitted, spread if y.ndim == 1 else op.reshape(spread, shape=(*spread.shape, 1))


def _scaled(spread: Tensor, left: Tensor, columns: Tensor, solution: Tensor, y: Tensor) -> Tensor:
    """Return covariances of coefficients, of each column of values, by the variance of what is left."""
    count, order = left.shape
    if count <= order:
        raise ArgumentError(
            "there are too few points to tell how much they scatter",
            operation="polyfit",
            inputs=describe(y),
            expected=f"more than {order} points",
            found=str(count),
            remedy='pass cov="unscaled", with weights of 1 / sigma',
        )
    rest = columns - op.matmul(left, solution)
    factor = op.sum(real_part(rest * conjugate(rest)), axis=(0,), keepdims=False) / (count - order)
    out = op.reshape(spread, shape=(order, order, 1)) * factor
    return op.reshape(out, shape=(order, order)) if y.ndim == 1 else out


@explained
def roots(p: Any, /) -> Tensor:
    """Roots of a polynomial: the eigenvalues of its companion matrix. The result is complex.

    ``dz = -sum(dp[k] * z**(n - k)) / p'(z)``, NaN where a root is multiple. Source: the implicit function
    theorem for ``p(z) = 0``.

    Parameters
    ----------
    p : tensor
        The coefficients, that of the highest power first; leading zeros are left out, if they are
        known: a function that is compiled or mapped over must not begin with any.

    Returns
    -------
    Tensor
        A vector of n roots for degree n, multiple ones repeated; complex, of the precision of `p`.

    Raises
    ------
    ShapeError
        If `p` is no vector.
    DTypeError
        If `p` is not numeric, or of float16.
    LinAlgError
        If there is an infinity or a NaN.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.sort_complex(eo.roots([1.0, -3.0, 2.0])))
    [1.+0.j 2.+0.j]
    """
    p = not_half(inexact(coefficients(p, "roots")), "roots")
    values = held(p, "roots")
    if values is not None:
        with staged(None):
            lead = op.equal(op.cumsum(op.not_equal(values, 0), axis=0, reverse=False), 0)
            zeros = int(op.count_nonzero(lead, axis=None, keepdims=False))
        p = op.getitem(p, index=(slice(zeros, None),))
    elif p.size:
        look(_check_degree, op.getitem(p, index=(0,)))
    n = p.size - 1
    if n < 1:
        wide = p.backend.xp.result_type(p.dtype, "complex64")
        return op.astype(op.getitem(p, index=(slice(0, 0),)), dtype=wide)
    row = -op.getitem(p, index=(slice(1, None),)) / op.getitem(p, index=(slice(0, 1),))
    below = p.backend.asarray(p.backend.xp.eye(n - 1, n), p.dtype, p.device)
    companion = op.concat(op.reshape(row, shape=(1, n)), as_tensor(below), axis=0)
    if values is not None:
        return eigvals(companion)
    try:
        return eigvals(companion)
    except LinAlgError as error:  # of a batch, at whose first coefficients nobody has looked
        raise LinAlgError(
            "a polynomial has no companion matrix",
            operation="roots",
            inputs=describe(p),
            expected="finite coefficients, in a batch the first of each polynomial other than 0",
            found="a first coefficient of 0, a NaN or an infinity",
            remedy="leave out leading zeros, or call roots for one polynomial at a time",
        ) from error


def _check_degree(first: Any) -> None:
    if not first:
        raise CompileError(
            "the first coefficient is 0, and so the number of roots depends on values",
            operation="roots",
            expected="a first coefficient other than 0 in a compiled function",
            found="0",
            remedy="leave out leading zeros, or call roots outside of the compiled function",
        )


@explained
def polydiv(u: Any, v: Any, /) -> tuple[Tensor, Tensor]:
    """Coefficients of quotient and remainder of two polynomials: ``u = quotient * v + remainder``.

    The remainder keeps leading zeros, so that its length does not depend on values. The derivatives are the
    quotient and the remainder of ``du - quotient * dv`` by v.

    Parameters
    ----------
    u : tensor
        The coefficients of the dividend, a vector, that of the highest power first.
    v : tensor
        Likewise of the divisor, whose first must not be 0. Integers are computed in float64.

    Returns
    -------
    quotient : Tensor
        ``len(u) - len(v) + 1`` coefficients; one 0 where `v` is longer.
    remainder : Tensor
        ``len(v) - 1`` coefficients, or all of `u` where `v` is longer; at least one.

    Raises
    ------
    ShapeError
        If `u` or `v` is no vector or is empty.
    DTypeError
        If `u` or `v` is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> quotient, remainder = eo.polydiv([1.0, 0.0, -1.0], [1.0, 1.0])
    >>> print(quotient, remainder)
    [ 1. -1.] [0.]
    """
    u, v = (inexact(coefficients(x, "polydiv")) for x in as_tensors((u, v), "polydiv"))
    if not u.size or not v.size:
        raise ShapeError(
            "a polynomial has no coefficient",
            operation="polydiv",
            inputs=describe(u, v),
            expected="at least one each",
            found="none",
            remedy="pass [0.0] for the polynomial that is zero",
        )
    steps, width = max(u.size - v.size + 1, 0), v.size
    lead = op.getitem(v, index=(slice(0, 1),))
    found = []
    rest = u if steps else apart(u)
    for _ in range(steps):
        factor = op.getitem(rest, index=(slice(0, 1),)) / lead
        head = op.getitem(rest, index=(slice(1, width),)) - factor * op.getitem(v, index=(slice(1, None),))
        rest = op.concat(head, op.getitem(rest, index=(slice(width, None),)), axis=0)
        found.append(factor)
    quotient = op.concat(*found, axis=0) if found else op.zeros_like(lead)
    return quotient, rest if rest.size else op.zeros_like(lead)
