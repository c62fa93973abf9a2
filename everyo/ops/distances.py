"""Distances between points, and slices brought back to a largest norm."""

from __future__ import annotations

import math
import numbers
from typing import Any

from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, ShapeError, describe
from everyo.ops import pairwise, polyhedral_distances  # noqa: F401  their primitives
from everyo.ops.axes import normalize_axis
from everyo.ops.broadcasting import broadcast_shapes
from everyo.ops.creation import as_tensor, as_tensors, real_number
from everyo.ops.known import is_known, plain
from everyo.ops.norms import vector_norm
from everyo.ops.reductions import inexact
from everyo.ops.shape import broadcast_to
from everyo.ops.signatures import explained

__all__ = ["cdist", "pdist", "renorm"]


def _order(p: Any, operation: str, lowest: float) -> float:
    p = plain(p, operation)
    if isinstance(p, bool) or not isinstance(p, numbers.Real) or math.isnan(p):
        raise DTypeError(
            "the order of a norm must be a real number",
            operation=operation,
            expected="a number or inf",
            found=repr(p),
            remedy="pass for example p=2",
        )
    if p < lowest or (p == 0 and lowest):
        raise ArgumentError(
            "the order of a norm is too low",
            operation=operation,
            expected="p >= 0" if lowest == 0 else "p > 0",
            found=f"p={p}",
            remedy="pass for example p=2",
        )
    return float(p)


@explained
def cdist(x1: Any, x2: Any, /, p: float = 2.0) -> Tensor:
    """Distances between all pairs of points of two sets: the p-norms of their differences.

    For a real difference v and its norm r, ``dr = sum(sign(v) * abs(v)**(p - 1) * dv) / r**(p - 1)``; for
    ``p = inf`` the largest components share the derivative equally, for ``p = 0`` it is 0.

    Parameters
    ----------
    x1, x2 : tensor
        Shapes ``(..., n, d)`` and ``(..., m, d)``, with leading axes that broadcast: `n` and `m` points of
        `d` coordinates each. Integers are computed in float64.
    p : float, default 2.0
        The order, not negative. 0 counts the coordinates that differ, ``inf`` takes the largest difference.

    Returns
    -------
    Tensor
        Shape ``(..., n, m)``. Where two points are equal the derivative, of any order, is 0.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    ArgumentError
        If `p` is negative.
    DTypeError
        If `p` is no number, or points are not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.cdist(eo.tensor([[0.0, 0.0], [3.0, 4.0]]), eo.tensor([[0.0, 0.0]])))
    [[0.]
     [5.]]
    """
    order = _order(p, "cdist", 0)
    x1, x2 = as_tensors([x1, x2], "cdist")
    if min(x1.ndim, x2.ndim) < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(
            "the points do not fit each other",
            operation="cdist",
            inputs=describe(x1, x2),
            expected="shapes (..., n, d) and (..., m, d)",
            found=f"{tuple(x1.shape)} and {tuple(x2.shape)}",
            remedy="give points as rows, with equally many coordinates",
        )
    x1, x2 = _alike(inexact(x1), inexact(x2))
    if order == 2 and x1.shape[-1] and x1.dtype.kind != "c":
        return op.pair_distances(x1, x2)
    if order in (1, math.inf) and _is_plain(x1) and _is_plain(x2):
        return op.polyhedral_distances(x1, x2, order=order)
    return _norms(op.pair_differences(x1, x2), order, -3)


def _is_plain(x: Tensor) -> bool:
    """Whether a tensor is an array of real points; a compiled loop takes differences at once."""
    return is_known(x) and x.dtype.kind == "f" and bool(x.shape[-1])


def _alike(x1: Tensor, x2: Tensor) -> list[Tensor]:
    """Return both in the common dtype and with the common leading axes."""
    dtype = x1.backend.xp.result_type(x1.dtype, x2.dtype)
    lead = broadcast_shapes(tuple(x1.shape[:-2]), tuple(x2.shape[:-2]))
    pair = [x if x.dtype == dtype else op.astype(x, dtype=dtype) for x in (x1, x2)]
    return [broadcast_to(x, (*lead, *x.shape[-2:])) for x in pair]


def _norms(differences: Any, order: float, axis: int) -> Tensor:
    """Return the norms along an axis; 0 for points without coordinates."""
    if not differences.shape[axis]:
        return op.sum(op.abs(inexact(differences)), axis=(differences.ndim + axis,), keepdims=False)
    return vector_norm(differences, axis=axis, ord=order)


@explained
def pdist(x: Any, /, p: float = 2.0) -> Tensor:
    """Distances between all pairs of different points of a set, in the order of `scipy.spatial`.

    The derivative is that of `cdist`.

    Parameters
    ----------
    x : tensor
        Shape ``(..., n, d)``: `n` points of `d` coordinates each. Integers are computed in float64.
    p : float, default 2.0
        The order of the norm, as in `cdist`.

    Returns
    -------
    Tensor
        Shape ``(..., n * (n - 1) / 2)``: the distances of the first point to all others, of the second to
        all after it, and so on. Where two points are equal the derivative, of any order, is 0.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes.
    ArgumentError
        If `p` is negative.
    DTypeError
        If `p` is no number, or `x` is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.pdist(eo.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]])))
    [5. 4. 3.]
    """
    order, x = _order(p, "pdist", 0), as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(
            "points must be rows",
            operation="pdist",
            inputs=describe(x),
            expected="shape (..., n, d)",
            found=str(tuple(x.shape)),
            remedy="give each point a row: x[:, None] for numbers",
        )
    xp, count = x.backend.xp, x.shape[-2]
    if (order == 2 and x.dtype.kind != "c") or (order in (1, math.inf) and _is_plain(x)):
        above = xp.flatnonzero(~xp.tri(count, dtype=bool))
        return op.reshape(cdist(x, x, order), shape=(*x.shape[:-2], count * count))[..., above]
    rows, columns = xp.triu_indices(count, 1)
    return _norms(x[..., rows, :] - x[..., columns, :], order, -1)


@explained
def renorm(x: Any, p: float, axis: int, maxnorm: float, /) -> Tensor:
    """Return `x` with those slices along an axis scaled down whose p-norm exceeds `maxnorm`.

    The gradient is that of ``x * maxnorm / norm(x)`` for such a slice; a slice within the bound passes it on
    unchanged.

    Parameters
    ----------
    x : tensor
        Real or complex; integers are computed in float64.
    p : float
        The order of the norm, positive.
    axis : int
        The axis whose slices are measured, each over all other axes.
    maxnorm : float
        The largest norm.

    Returns
    -------
    Tensor
        Of the same shape.

    Raises
    ------
    IndexingError
        If there is no such axis.
    ArgumentError
        If `p` is not positive or `maxnorm` negative.
    DTypeError
        If `x` is not numeric, `p` or `maxnorm` no number, or `axis` no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.renorm(eo.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0))
    [[0.6 0.8]
     [0.3 0.4]]
    """
    order = _order(p, "renorm", math.ulp(0.0))
    largest = real_number(maxnorm, "renorm", "maxnorm")
    if not largest >= 0:
        raise ArgumentError(
            "the largest norm is negative, or NaN",
            operation="renorm",
            expected="maxnorm >= 0",
            found=f"maxnorm={largest}",
            remedy="pass for example maxnorm=1.0",
        )
    x = inexact(x)
    axis = normalize_axis(axis, x.ndim, "renorm")
    norms = vector_norm(x, axis=[i for i in range(x.ndim) if i != axis], keepdims=True, ord=order)
    above = norms > largest
    factor = op.where(above, largest / op.where(above, norms, 1), 1)
    return x * factor
