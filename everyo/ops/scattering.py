"""Scattering by tensors of positions: values that replace, add to, multiply or outdo what is there."""

from __future__ import annotations

from typing import Any

from everyo.core.dispatch import apply
from everyo.core.dtypes import int64
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, EveryOError, ShapeError, describe
from everyo.ops.axes import as_flag, normalize_axis
from everyo.ops.creation import as_tensor, weak
from everyo.ops.gathering import along_index, fitting, fitting_source, positions_in, reach, take
from everyo.ops.index_errors import outside
from everyo.ops.reductions import inexact
from everyo.ops.scatter_reductions import wide_enough
from everyo.ops.shape import broadcast_to
from everyo.ops.signatures import explained

__all__ = ["index_copy", "index_fill", "index_reduce", "index_select", "scatter", "scatter_reduce"]

_KINDS = {
    "sum": "sum",
    "prod": "prod",
    "mean": "mean",
    "amax": "max",
    "amin": "min",
    "max": "max",
    "min": "min",
}


@explained
def scatter(x: Any, axis: int, indices: Any, src: Any, /) -> Tensor:
    """Return `x` with ``src[i, j]`` in place of ``x[indices[i, j], j]`` for axis 0, and likewise for others.

    The gradient of `x` is 0 in these places, that of `src` comes from them.

    Parameters
    ----------
    x : tensor
        Does not change.
    axis : int
        The axis that the positions count along.
    indices : integer tensor
        With as many axes as `x`; where a position repeats, the last value counts.
    src : tensor or number
        At least of the shape of `indices`.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Raises
    ------
    IndexingError
        If a position is outside the axis or no integer, or there is no such axis.
    ShapeError
        If the shapes do not fit.
    DTypeError
        If the axis is no integer, or `x` real and `src` complex.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.scatter(eo.zeros((2, 3)), 1, eo.tensor([[1], [0]]), eo.tensor([[5.0], [6.0]])))
    [[0. 5. 0.]
     [6. 0. 0.]]
    """
    out = op.copy(as_tensor(x))
    axis = normalize_axis(axis, out.ndim, "scatter")
    found = fitting(out, indices, axis, "scatter")
    src = fitting_source(out, found, src, "scatter")
    shape = _reached(out, found, axis)
    try:
        out[along_index(out.backend.xp, shape, found, axis)] = src
    except EveryOError as error:
        raise error.renamed("scatter", inputs=describe(out, found, src)) from None
    return out


def _reached(x: Tensor, indices: Tensor, axis: int) -> tuple[int, ...]:
    """Return the shape of the part of `x` that positions smaller than it write to."""
    return tuple(n if i == axis else m for i, (n, m) in enumerate(zip(x.shape, indices.shape)))


@explained
def scatter_reduce(
    x: Any, axis: int, indices: Any, src: Any, /, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Return `x` with all ``src[i, j]`` reduced at ``[indices[i, j], j]`` for axis 0, likewise for others.

    The gradient is that of the reduction: extremes that are equal share it equally, products are exact
    to every order where factors are zero.

    Parameters
    ----------
    x : tensor
        Does not change.
    axis : int
        The axis that the positions count along.
    indices : integer tensor
        With as many axes as `x`.
    src : tensor
        At least of the shape of `indices`.
    reduce : {"sum", "prod", "mean", "amax", "amin"}
        What is made of the values at one position; "max" and "min" mean the last two.
    include_self : bool, default True
        Whether the element of `x` is one of them. If not, it stays only where no value comes.

    Returns
    -------
    Tensor
        Of the shape of `x` and the common dtype; a mean of integers is float64.

    Raises
    ------
    IndexingError
        If a position is outside the axis or no integer, or there is no such axis.
    ShapeError
        If the shapes do not fit.
    DTypeError
        If the axis is no integer, or complex numbers have no extreme.
    ArgumentError
        If there is no such reduction.

    Examples
    --------
    >>> import everyo as eo
    >>> x, indices = eo.tensor([1.0, 2.0, 3.0]), eo.tensor([0, 0, 2])
    >>> src = eo.tensor([4.0, 5.0, 6.0])
    >>> print(eo.scatter_reduce(x, 0, indices, src, "prod"))
    [20.  2. 18.]
    >>> print(eo.scatter_reduce(x, 0, indices, src, "mean", include_self=False))
    [4.5 2.  6. ]
    """
    kind = _kind(reduce, "scatter_reduce")
    own = as_flag(include_self, "include_self", "scatter_reduce")
    x = as_tensor(x)
    axis = normalize_axis(axis, x.ndim, "scatter_reduce")
    found = fitting(x, indices, axis, "scatter_reduce")
    src = fitting_source(x, found, src, "scatter_reduce")
    x, src = _alike(x, src, kind)
    if _reached(x, found, axis) == tuple(x.shape):
        return _reduced(kind, x, axis, found, src, own)
    part = reach(x, found, axis)
    out = op.copy(x)
    out[part] = _reduced(kind, x[part], axis, found, src, own)
    return out


def _kind(reduce: Any, operation: str) -> str:
    if isinstance(reduce, str) and reduce in _KINDS:
        return _KINDS[reduce]
    raise ArgumentError(
        "there is no such reduction",
        operation=operation,
        expected='reduce="sum", "prod", "mean", "amax" or "amin"',
        found=repr(reduce),
        remedy="name one of these",
    )


def _alike(x: Tensor, src: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """Return both in their common dtype; for a mean in a floating one."""
    if kind == "mean":
        x, src = inexact(x), inexact(src)
    dtype = x.backend.xp.result_type(x.dtype, src.dtype)
    return tuple(t if t.dtype == dtype else op.astype(t, dtype=dtype) for t in (x, src))  # type: ignore[return-value]


def _reduced(kind: str, x: Tensor, axis: int, found: Tensor, src: Tensor, own: bool) -> Tensor:
    """Reduce `src` into `x`, both of one dtype and equal in size along all axes but one."""
    if kind in ("max", "min"):
        extreme = op.scatter_max if kind == "max" else op.scatter_min
        return apply(extreme, (x, src, found), {"axis": axis, "own": own})
    if kind == "mean" and x.dtype != (wide := wide_enough(src)):
        found_mean = _reduced(kind, op.astype(x, dtype=wide), axis, found, op.astype(src, dtype=wide), own)
        return op.astype(found_mean, dtype=x.dtype)
    params = {"axis": axis, "shape": tuple(x.shape)}
    reduction = op.scatter_prod if kind == "prod" else op.scatter_along_axis
    values = apply(reduction, (src, found), params)
    if own and kind != "mean":
        return op.multiply_absorbing(x, values) if kind == "prod" else x + values
    one = as_tensor(src.backend.xp.ones((), int64))
    number = apply(op.scatter_along_axis, (op.broadcast_to(one, shape=tuple(src.shape)), found), params)
    if kind == "mean" and own:
        return (x + values) / op.astype(1 + number, dtype=x.dtype)
    if kind == "mean":
        values = values / op.astype(op.maximum(number, op.ones_like(number)), dtype=x.dtype)
    return op.where(number != 0, values, x)


@explained
def index_reduce(
    x: Any, axis: int, indices: Any, source: Any, /, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Return `x` with slices reduced into it at positions along an axis.

    Everything else is as in `scatter_reduce`, also the gradient, which is that of the reduction.

    Parameters
    ----------
    x : tensor
        Does not change.
    axis : int
        Along which axis.
    indices : integer tensor
        1-d, a position for each slice.
    source : tensor
        The slices; broadcast to the shape of ``index_select(x, axis, indices)``.
    reduce : {"sum", "prod", "mean", "amax", "amin"}
        What is made of the values at one position.
    include_self : bool, default True
        Whether the element of `x` is one of them.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    IndexingError
        If a position is outside the axis or no integer, or there is no such axis.
    ShapeError
        If the shapes do not fit.
    DTypeError
        If the axis is no integer, or complex numbers have no extreme.
    ArgumentError
        If there is no such reduction.

    Examples
    --------
    >>> import everyo as eo
    >>> x, rows = eo.ones((2, 2)), eo.tensor([[3.0, 4.0], [5.0, 0.0]])
    >>> print(eo.index_reduce(x, 0, eo.tensor([1, 1]), rows, "amax"))
    [[1. 1.]
     [5. 4.]]
    """
    x = as_tensor(x)
    axis = normalize_axis(axis, x.ndim, "index_reduce")
    found = _row(x, indices, "index_reduce")
    source = _slices(x, axis, found, source, "index_reduce")
    line = (1,) * axis + tuple(found.shape) + (1,) * (x.ndim - axis - 1)
    whole = broadcast_to(op.reshape(found, shape=line), tuple(source.shape))
    try:
        return scatter_reduce(x, axis, whole, source, reduce, include_self=include_self)
    except EveryOError as error:
        raise error.renamed("index_reduce") from None


def _row(x: Tensor, indices: Any, operation: str) -> Tensor:
    """Return positions as a 1-d tensor; a single one counts as a row of one."""
    found = positions_in(x, indices, operation)
    if found.ndim > 1:
        raise ShapeError(
            "the positions along an axis must be in a row",
            operation=operation,
            inputs=describe(x, found),
            expected="a 1-d tensor",
            found=f"shape {tuple(found.shape)}",
            remedy="use eo.take, or flatten the positions",
        )
    return found if found.ndim else op.reshape(found, shape=(1,))


def _slices(x: Tensor, axis: int, found: Tensor, source: Any, operation: str) -> Tensor:
    """Return a source broadcast to the slices of `x` that `found` picks."""
    source = weak(source, [x], operation)
    shape = (*x.shape[:axis], *found.shape, *x.shape[axis + 1 :])
    try:
        return broadcast_to(source, shape)
    except ShapeError:
        raise ShapeError(
            "the values do not fit the slices",
            operation=operation,
            inputs=describe(x, found, source),
            expected=f"values of shape {shape}, or that broadcast to it",
            found=str(tuple(source.shape)),
            remedy="give as many slices as there are positions, each of the shape of a slice of x",
        ) from None


@explained
def index_select(x: Any, axis: int, indices: Any, /) -> Tensor:
    """Return the slices of `x` at positions along an axis: `take` under PyTorch's name.

    The gradient adds up where a position occurs several times.

    Parameters
    ----------
    x : tensor
        Of any dtype.
    axis : int
        Along which axis.
    indices : integer tensor
        1-d; negative positions count from the end.

    Returns
    -------
    Tensor
        As long as `indices` along the axis.

    Raises
    ------
    IndexingError
        If a position is outside the axis or no integer, or there is no such axis.
    ShapeError
        If the positions are not in a row.
    DTypeError
        If the axis is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.index_select(eo.tensor([[1, 2], [3, 4]]), 1, eo.tensor([1, 1, 0])))
    [[2 2 1]
     [4 4 3]]
    """
    x = as_tensor(x)
    try:
        return take(x, _row(x, indices, "index_select"), axis=normalize_axis(axis, x.ndim, "index_select"))
    except EveryOError as error:
        raise error.renamed("index_select") from None


@explained
def index_copy(x: Any, axis: int, indices: Any, source: Any, /) -> Tensor:
    """Return `x` with slices replaced at positions along an axis.

    The gradient of `x` is 0 in these places, that of `source` comes from them.

    Parameters
    ----------
    x : tensor
        Does not change.
    axis : int
        Along which axis.
    indices : integer tensor
        1-d; where a position repeats, the last slice counts.
    source : tensor or number
        Broadcast to the shape of ``index_select(x, axis, indices)``.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Raises
    ------
    IndexingError
        If a position is outside the axis or no integer, or there is no such axis.
    ShapeError
        If the shapes do not fit.
    DTypeError
        If the axis is no integer, or `x` real and `source` complex.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.index_copy(eo.zeros((2, 3)), 1, eo.tensor([2, 0]), eo.tensor([[1.0, 2.0], [3.0, 4.0]])))
    [[2. 0. 1.]
     [4. 0. 3.]]
    """
    x = as_tensor(x)
    axis = normalize_axis(axis, x.ndim, "index_copy")
    found = _row(x, indices, "index_copy")
    return _written(x, axis, found, _slices(x, axis, found, source, "index_copy"), "index_copy")


@explained
def index_fill(x: Any, axis: int, indices: Any, value: Any, /) -> Tensor:
    """Return `x` with one value in all slices at positions along an axis.

    The gradient of `x` is 0 in these places, that of `value` is the sum over them.

    Parameters
    ----------
    x : tensor
        Does not change.
    axis : int
        Along which axis.
    indices : integer tensor
        1-d; negative positions count from the end.
    value : number or 0-d tensor
        What is written.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Raises
    ------
    IndexingError
        If a position is outside the axis or no integer, or there is no such axis.
    ShapeError
        If `value` is not a single one.
    DTypeError
        If the axis is no integer, or `x` real and `value` complex.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.index_fill(eo.zeros((2, 3)), 1, eo.tensor([0, -1]), 7.0))
    [[7. 0. 7.]
     [7. 0. 7.]]
    """
    x = as_tensor(x)
    axis = normalize_axis(axis, x.ndim, "index_fill")
    found = _row(x, indices, "index_fill")
    value = weak(value, [x], "index_fill")
    if value.ndim:
        raise ShapeError(
            "only a single value fills slices",
            operation="index_fill",
            inputs=describe(x, found, value),
            expected="a number or a 0-d tensor",
            found=f"shape {tuple(value.shape)}",
            remedy="use eo.index_copy for slices",
        )
    return _written(x, axis, found, value, "index_fill")


def _written(x: Tensor, axis: int, found: Tensor, value: Tensor, operation: str) -> Tensor:
    """Return a copy of `x` with `value` at positions along an axis."""
    out = op.copy(x)
    try:
        out[(*(slice(None),) * axis, found)] = value
    except EveryOError as error:
        if isinstance(error, IndexError):
            raise outside(operation, x, found, x.shape, axis, error.found) from None
        raise error.renamed(operation) from None
    return out
