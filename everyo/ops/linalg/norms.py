"""Norms of matrices and what is made of them: matrix_norm, norm, cond."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, ShapeError, describe
from everyo.ops.axes import as_flag, is_one_of, normalize_axis
from everyo.ops.creation import as_tensor
from everyo.ops.extremes import require_elements
from everyo.ops.families import primitive
from everyo.ops.known import anywhere, is_known, plain
from everyo.ops.linalg.common import inexact_array, matrices, not_half, same_layout, square
from everyo.ops.linalg.degeneracy import batched
from everyo.ops.linalg.singular import svdvals
from everyo.ops.norms import vector_norm
from everyo.ops.ranges import eye
from everyo.ops.reductions import inexact
from everyo.ops.signatures import composed, explained

__all__ = ["cond", "matrix_norm", "norm", "vector_norm"]

_BY_SUMS = {1: (-2, True), -1: (-2, False), math.inf: (-1, True), -math.inf: (-1, False)}
_BY_SINGULAR_VALUES = {2: op.max, -2: op.min, "nuc": op.sum}


def _last(x: Any, axis: int) -> tuple[int, ...]:
    return (len(x.shape) + axis,)


def _norm_of_matrices(x: Tensor, ord: Any, operation: str) -> Tensor:
    """Return a norm of the matrices in the last two axes."""
    ord = plain(ord, operation)
    if ord is None or is_one_of(ord, ("fro",)):
        return vector_norm(x, axis=(-2, -1))
    known = isinstance(ord, (str, numbers.Number)) and not isinstance(ord, bool)
    if known and ord in _BY_SUMS:
        axis, largest = _BY_SUMS[ord]
        sums = op.sum(op.abs(x), axis=_last(x, axis), keepdims=False)
        if largest and not sums.shape[-1]:
            return op.sum(sums, axis=_last(sums, -1), keepdims=False)
        return (op.max if largest else op.min)(sums, axis=_last(sums, -1), keepdims=False)
    if known and ord in _BY_SINGULAR_VALUES:
        values = svdvals(not_half(x, operation))
        reduce = op.sum if ord == 2 and not values.shape[-1] else _BY_SINGULAR_VALUES[ord]
        return reduce(values, axis=_last(values, -1), keepdims=False)
    raise ArgumentError(
        "there is no such norm of a matrix",
        operation=operation,
        inputs=describe(x),
        expected="'fro', 'nuc', 1, -1, 2, -2, inf or -inf",
        found=f"ord={ord!r}",
        remedy="use eo.linalg.vector_norm for a norm of the elements",
    )


@explained
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """Return a norm of each of the matrices in the last two axes.

    ======================  =========================================================
    ``ord``                 norm
    ======================  =========================================================
    "fro" (the default)     root of the sum of squares
    "nuc"                   sum of the singular values
    1, -1                   largest, smallest sum of absolute values in a column
    inf, -inf               largest, smallest sum of absolute values in a row
    2, -2                   largest, smallest singular value
    ======================  =========================================================

    The gradients of the elements are those of `abs`, `max`, `min` and `svdvals`; that of "fro" is
    ``g * x / norm``. At the zero matrix all are 0. Source: Watson (1992), Characterization of the
    subdifferential of some matrix norms.

    Parameters
    ----------
    x : tensor
        Shape ``(..., m, n)``, real or complex.
    keepdims : bool, default False
        Keep the two axes, with length 1.
    ord : number or str, default "fro"
        Which norm.

    Returns
    -------
    Tensor
        Shape ``(...)``, real.

    Raises
    ------
    ShapeError
        If `x` has less than two axes, or a smallest one is asked for where there is none.
    ArgumentError
        If there is no such norm.
    DTypeError
        If the elements are no numbers, or are of float16 where singular values are asked for.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([[3.0, 0.0], [0.0, 4.0]])
    >>> print(eo.linalg.matrix_norm(x), eo.linalg.matrix_norm(x, ord="nuc"), eo.linalg.matrix_norm(x, ord=2))
    5.0 7.0 4.0
    """
    x = matrices(x, "matrix_norm", half=True)
    out = _norm_of_matrices(x, ord, "matrix_norm")
    keepdims = as_flag(keepdims, "keepdims", "matrix_norm")
    return op.reshape(out, shape=(*out.shape, 1, 1)) if keepdims else out


@composed
def norm(x: Any, /, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return NumPy's norm: of vectors along one axis, of matrices along two.

    Without `axis` it is that of a vector or matrix; without `ord` the 2-norm of the elements, whatever the
    shape. `vector_norm` and `matrix_norm` say what the orders mean and what their gradients are.

    Parameters
    ----------
    x : tensor
        Real or complex.
    ord : number or str, optional
        Which norm.
    axis : int or pair of int, optional
        The axes of the vectors, or of rows and columns.
    keepdims : bool, default False
        Keep the axes, with length 1.

    Returns
    -------
    Tensor
        Real.

    Raises
    ------
    ShapeError
        If an order is given and the number of axes is neither one nor two.
    ArgumentError
        If there is no such norm.
    IndexingError
        If there is no such axis.
    DTypeError
        If the elements are no numbers, or are of float16 where singular values are asked for.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.linalg.norm(eo.tensor([[3.0, 0.0], [0.0, 4.0]])))
    5.0
    """
    x, keepdims, ord = inexact(as_tensor(x)), as_flag(keepdims, "keepdims", "norm"), plain(ord, "norm")
    rank = len(x.shape)
    if axis is None and ord is None:
        return vector_norm(x, keepdims=keepdims)
    named = tuple(range(rank)) if axis is None else tuple(axis) if isinstance(axis, Sequence) else (axis,)
    axes = [normalize_axis(a, rank, "norm") for a in named]
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ArgumentError(
                "there is no such norm of a vector",
                operation="norm",
                inputs=describe(x),
                expected="a number",
                found=f"ord={ord!r}",
                remedy="name two axes for a norm of matrices",
            )
        return vector_norm(x, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ShapeError(
            "a norm is one of vectors or of matrices",
            operation="norm",
            inputs=describe(x),
            expected="one axis, or two that differ",
            found=f"axis={axis!r}",
            remedy="name the axes, as in axis=(-2, -1)",
        )
    others = [a for a in range(rank) if a not in axes]
    out = _norm_of_matrices(op.transpose(x, axes=(*others, *axes)), ord, "norm")
    if keepdims:
        out = op.reshape(out, shape=tuple([1 if a in axes else n for a, n in enumerate(x.shape)]))
    return out


@explained
def cond(x: Any, /, p: Any = None) -> Tensor:
    """Return condition numbers: of how much a relative error grows where the matrix is solved with.

    The derivatives are those of what it is made of: ``d(s1 / sn)`` of the extreme singular values, or the
    product of two norms.

    Parameters
    ----------
    x : tensor
        Shape ``(..., m, n)``; square for all orders but 2 and -2.
    p : number or str, optional
        Which norm; 2 by default: the ratio of the extreme singular values. Others are
        ``matrix_norm(x) * matrix_norm(inv(x))``.

    Returns
    -------
    Tensor
        Shape ``(...)``, real; infinite for singular matrices and those with infinities, NaN for those with
        a NaN. The gradient there is not finite either.

    Raises
    ------
    ShapeError
        If the matrices are empty, or not square where they must be.
    ArgumentError
        If there is no such norm.
    DTypeError
        If the elements are no numbers, or are of float16.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.linalg.cond(eo.tensor([[4.0, 0.0], [0.0, 2.0]])))
    2.0
    """
    x = matrices(x, "cond")
    require_elements(x, (len(x.shape) - 2, len(x.shape) - 1), "cond")
    if p is None or (p.__class__ is not bool and is_one_of(p, (2, -2))):
        return _on_finite(x, lambda x: _ratio_of_extremes(x, p == -2))
    x = square(x, "cond")
    product = _product_of_sums if is_one_of(p, ("nuc",)) else lambda x: _product_of_norms(x, p)
    return _on_finite(x, lambda x: product(_of_unit_size(x)))


def _of_unit_size(x: Tensor) -> Tensor:
    """Return matrices divided by a power of two, by which `cond` does not change, nor do its derivatives.

    The inverse of a large or small matrix is in the range, and its tangents are not.
    """
    size = op.max(op.abs(op.stop_gradient(x)), axis=_last(x, -2) + _last(x, -1), keepdims=True)
    return x / op.ldexp(op.ones_like(size), op.frexp(size)[1] - 1)


def _ratio_of_extremes(x: Tensor, turned: bool) -> Tensor:
    values = svdvals(x)
    largest, smallest = (f(values, axis=_last(values, -1), keepdims=False) for f in (op.max, op.min))
    return _ratio(smallest, largest) if turned else _ratio(largest, smallest)


def _product_of_sums(x: Tensor) -> Tensor:
    values = svdvals(x)  # and their reciprocals are those of the inverse
    zero = op.any(op.equal(values, 0), axis=_last(values, -1), keepdims=True)
    reciprocals = 1 / op.where(zero, 1, values)
    total, other = (op.sum(v, axis=_last(values, -1), keepdims=False) for v in (values, reciprocals))
    return op.infinite_where(total * other, op.reshape(zero, shape=zero.shape[:-1]))


def _product_of_norms(x: Tensor, p: Any) -> Tensor:
    inverse = apply(op.inv, (x,), {"strict": False})
    out = _norm_of_matrices(x, p, "cond") * _norm_of_matrices(inverse, p, "cond")
    return op.infinite_where(out, op.isnan(out))


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    """Return a quotient that is infinite where the divisor is zero."""
    zero = op.equal(b, 0)
    return op.infinite_where(a / op.where(zero, 1, b), zero)


def _undefined(g: Any) -> Any:
    """Return NaN for a cotangent, but 0 where it is 0: what is not asked for has no part in a gradient.

    Its own derivative in `g` is NaN everywhere, so that a rule that uses it is not taken for constant there.
    """
    up, down = (op.multiply_absorbing(g, x) for x in (math.inf, -math.inf))
    return up + down


@primitive(
    (lambda g, where: op.where(where, _undefined(g), g), None),
    (lambda t, where: op.where(where, op.where(where, t, 0) * math.nan, t), None),  # 0 * nan stays in there
    samples=lambda: [sample((2,), Values([False, False])), sample((), Values(False))],
    batch=batched,
    missing="it is a condition",
    specs=same_layout,
    called="cond",
)
def _infinite_where(xp: Any, x: Any, where: Any) -> Any:
    """Return `x`, but infinity without any derivative where `where` holds."""
    x = inexact_array(xp, x)
    return xp.where(where, xp.full_like(x, math.inf), x)


def _on_finite(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Return ``function(x)`` of finite matrices; NaN for one with a NaN, else infinite. So are gradients."""
    axes = _last(x, -2) + _last(x, -1)
    wrong = op.logical_not(op.isfinite(x))
    if is_known(x) and not anywhere(wrong.data):
        return function(x)
    lost = op.any(wrong, axis=axes, keepdims=True)
    out = function(op.where(lost, eye(*x.shape[-2:], dtype=x.dtype), x))
    size = op.sum(op.abs(op.where(lost, x, 0)), axis=axes, keepdims=False)
    # A square, so that the slope is as infinite as the value, or as little a number.
    return op.where(op.any(lost, axis=axes, keepdims=False), size * size, out)
