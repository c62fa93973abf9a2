"""Shape: the same elements, in the same order, under other axes, or repeated by broadcasting."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Never

from everyo.core.batching import padded
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, ShapeError, describe
from everyo.ops.axes import as_flag, as_integers, as_list, normalize_axes, normalize_axis, normalize_shape
from everyo.ops.creation import as_tensor
from everyo.ops.families import linear, public
from everyo.ops.signatures import composed, explained, misfit
from everyo.ops.views import viewing

__all__ = [
    "atleast_1d", "atleast_2d", "broadcast_arrays", "broadcast_to", "expand_dims", "flatten", "ravel",
    "reshape", "squeeze",
]  # fmt: skip


@functools.lru_cache(256)
def _sum_to_axes(shape: tuple[int, ...], target: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """Return the axes of `shape` that broadcasting from `target` made or expanded; whether they all go."""
    extra = len(shape) - len(target)
    expanded = tuple(extra + i for i, n in enumerate(target) if n == 1 and shape[extra + i] != 1)
    return tuple(range(extra)) + expanded, not expanded


def _sum_to_batch(sum_to: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    shape, (x,) = params["shape"], inputs
    missing = len(x.shape) - 1 - len(shape)
    out = sum_to(x, shape=(size, *(1,) * missing, *shape), dtype=params["dtype"])
    return op.reshape(out, shape=(size, *shape)) if missing else out


@linear(
    lambda g, x_shape, x_dtype: op.astype(op.broadcast_to(g, shape=x_shape), dtype=x_dtype),
    samples=lambda: [
        sample((2, 3), shape=(3,), dtype="float64"),
        sample((2, 3), shape=(2, 1), dtype="float64"),
        sample((0, 2), shape=(2,), dtype="float64"),
    ],
    batch=_sum_to_batch,
)
def _sum_to(xp: Any, x: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    """Sum broadcast axes away: the transpose of broadcasting (also called unbroadcast)."""
    axes, drop = _sum_to_axes(x.shape, shape)
    if axes:
        x = xp.sum(x, axis=axes, keepdims=not drop, dtype=xp.float32 if x.dtype == xp.float16 else None)
    if x.shape != shape:
        x = xp.reshape(x, shape)
    if x.dtype != dtype:
        x = xp.astype(xp.real(x) if x.dtype.kind == "c" and xp.dtype(dtype).kind != "c" else x, dtype)
    return x


def _explain_broadcast_to(inputs: Sequence[Any], params: dict[str, Any], error: Exception) -> ShapeError:
    return ShapeError(
        "the tensor does not broadcast to this shape",
        operation="broadcast_to",
        inputs=describe(*inputs),
        expected="axes, counted from the last, of size 1 or of the size asked for",
        found=f"{tuple(inputs[0].shape)} to {params['shape']}",
        remedy="add axes of size 1 with expand_dims or reshape first",
    )


def _broadcast_to_batch(broadcast_to: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    shape = params["shape"]
    return broadcast_to(padded(inputs[0], len(shape)), shape=(size, *shape))


def _reshape_batch(reshape: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    return reshape(*inputs, shape=(size, *params["shape"]))


def _ravel_batch(ravel: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    (x,) = inputs
    return op.reshape(x, shape=(size, math.prod(x.shape[1:])))


@linear(
    lambda g, x_shape: op.sum_to(g, shape=x_shape, dtype=g.dtype),
    samples=lambda: [sample((3,), shape=(2, 3)), sample((2, 1), shape=(2, 3)), sample((), shape=(0, 2))],
    batch=_broadcast_to_batch,
    explain=_explain_broadcast_to,
)
def _broadcast_to(xp: Any, x: Any, *, shape: tuple[int, ...]) -> Any:
    return xp.broadcast_to(x, shape=shape)


@linear(
    lambda g, x_shape: op.reshape(g, shape=x_shape),
    samples=lambda: [sample((2, 3), shape=(3, 2)), sample((0, 2), shape=(0,)), sample((1,), shape=())],
    batch=_reshape_batch,
)
def _reshape(xp: Any, x: Any, *, shape: tuple[int, ...]) -> Any:
    return xp.reshape(x, shape=shape)


def apart(x: Tensor) -> Tensor:
    """Return `x` as a tensor of its own: an in-place statement on either does not reach the other."""
    return apply(_reshape, (x,), {"shape": tuple(x.shape)})


@viewing
@explained
def reshape(x: Any, /, shape: int | Sequence[int], *surplus: Never, copy: bool | None = None) -> Tensor:
    """Return the elements, in the same order, in another shape.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.
    shape : int or sequence of int
        The new shape; one size may be -1, which stands for what remains.
    *surplus : never
        Nothing: sizes as arguments of their own are refused.
    copy : bool, optional
        True puts the elements into memory of their own, False refuses to; by default only where it must be.

    Returns
    -------
    Tensor
        Its gradient is reshaped back.

    Raises
    ------
    ShapeError
        If the sizes do not multiply to the number of elements.
    DTypeError
        If a size is no integer.
    ArgumentError
        If `copy` is False and the elements do not lie in memory as the new shape needs them.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.reshape(eo.arange(6), (2, -1)))
    [[0 1 2]
     [3 4 5]]
    """
    if surplus:
        raise misfit(reshape, (x, shape, *surplus), {})
    x = as_tensor(x)
    out = apply(_reshape, (x,), {"shape": _resolve(x, shape)})
    if copy is None:
        return out
    if as_flag(copy, "copy", "reshape"):
        return op.copy(out)
    if out.size and not out.level and not out.backend.xp.may_share_memory(out.data, x.data):
        raise ArgumentError(
            "the elements have to move for this shape",
            operation="reshape",
            inputs=describe(x),
            expected=f"elements that lie in the order of shape {tuple(out.shape)}",
            found="copy=False",
            remedy="leave out copy=False",
        )
    return out


def _resolve(x: Tensor, shape: Any) -> tuple[int, ...]:
    """Return a new shape for `x` with its -1 worked out."""
    sizes = shape if type(shape) is tuple else (shape,) if type(shape) is int else tuple(as_list(shape))
    known, free = 1, -1
    for i, n in enumerate(sizes):
        if n.__class__ is not int:
            return _resolve(x, as_integers(sizes, "a size", "reshape"))
        if n >= 0:
            known *= n
        elif n == -1 and free < 0:
            free = i
        else:
            normalize_shape([0 if k == -1 else k for k in sizes], "reshape")  # refuses others below 0
            known = 0  # one more -1 than can be worked out
    size = x.size
    if free < 0 and known == size:
        return sizes
    if free < 0 or not known or size % known:
        raise ShapeError(
            "the elements do not fill this shape",
            operation="reshape",
            inputs=describe(x),
            expected=f"sizes that multiply to {size}, of which one may be -1",
            found=str(shape),
            remedy="use -1 for one size, to have it computed",
        )
    return (*sizes[:free], size // known, *sizes[free + 1 :])


def flatten(x: Any, /, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """Return the elements with the axes from `start_axis` to `end_axis` joined into one.

    The gradient is reshaped back.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.
    start_axis, end_axis : int, default 0 and -1
        The first and the last of the axes that are joined.

    Returns
    -------
    Tensor
        With one axis in place of these; at least 1-d.

    Raises
    ------
    ShapeError
        If the first axis lies behind the last.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.flatten(eo.ones((2, 3))).shape, eo.flatten(eo.ones((5, 2, 3)), 1).shape
    ((6,), (5, 6))
    """
    x = as_tensor(x)
    if not x.ndim:
        return reshape(x, (1,))
    start, end = (normalize_axis(a, x.ndim, "flatten") for a in (start_axis, end_axis))
    if start > end:
        raise ShapeError(
            "the first axis lies behind the last",
            operation="flatten",
            inputs=describe(x),
            expected="start_axis <= end_axis",
            found=f"{start} and {end}",
            remedy="swap the two",
        )
    joined = math.prod(x.shape[start : end + 1])
    return reshape(x, (*x.shape[:start], joined, *x.shape[end + 1 :]))


@explained
@public
@linear(
    lambda g, x_shape: op.reshape(g, shape=x_shape),
    samples=lambda: [sample((2, 3)), sample((0, 2)), sample(())],
    batch=_ravel_batch,
)
def ravel(xp: Any, x: Any) -> Any:
    """Return the elements as one axis; the gradient is reshaped back.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.

    Returns
    -------
    Tensor
        1-d.

    Raises
    ------
    DTypeError
        If the elements are not numbers.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.ravel(eo.tensor([[1, 2], [3, 4]])))
    [1 2 3 4]
    """
    return xp.ravel(x)


@viewing
@explained
def squeeze(x: Any, /, axis: int | Sequence[int] | None = None) -> Tensor:
    """Remove axes of size 1: those named, or all of them; the gradient gets them back.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.
    axis : int or sequence of int, optional
        Which axes; by default all of size 1.

    Returns
    -------
    Tensor
        Without these axes.

    Raises
    ------
    ShapeError
        If a named axis has another size, or is named twice.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.squeeze(eo.ones((1, 3, 1)), axis=0).shape
    (3, 1)
    """
    x = as_tensor(x)
    if axis is None:
        return apply(_reshape, (x,), {"shape": tuple([n for n in x.shape if n != 1])})
    axes = normalize_axes(axis, x.ndim, "squeeze")
    if any(x.shape[i] != 1 for i in axes):
        raise ShapeError(
            "only an axis of size 1 can be removed",
            operation="squeeze",
            inputs=describe(x),
            expected="size 1",
            found=f"sizes {tuple(x.shape[i] for i in axes)} of axes {tuple(axes)}",
            remedy="index the axis, as in x[0], or reduce it",
        )
    return apply(_reshape, (x,), {"shape": tuple([n for i, n in enumerate(x.shape) if i not in axes])})


@composed
def expand_dims(x: Any, /, axis: int | Sequence[int]) -> Tensor:
    """Insert axes of size 1 at the positions they have in the result; the gradient loses them.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.
    axis : int or sequence of int
        Where the new axes are in the result.

    Returns
    -------
    Tensor
        With these axes more.

    Raises
    ------
    ShapeError
        If an axis is named twice.
    IndexingError, DTypeError
        If the result has no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.expand_dims(eo.ones(3), 0).shape, eo.expand_dims(eo.ones(3), (0, -1)).shape
    ((1, 3), (1, 3, 1))
    """
    x = as_tensor(x)
    ndim = x.ndim + (1 if axis.__class__ is int or not isinstance(axis, Sequence) else len(axis))
    axes = normalize_axes((axis,) if axis is None else axis, ndim, "expand_dims")
    sizes = iter(x.shape)
    return apply(_reshape, (x,), {"shape": tuple([1 if i in axes else next(sizes) for i in range(ndim)])})


@viewing
@explained
def atleast_1d(x: Any, /) -> Tensor:
    """Return `x` with at least one axis; the gradient is reshaped back.

    Parameters
    ----------
    x : tensor or number
        Of any shape and dtype.

    Returns
    -------
    Tensor
        Of shape ``(1,)`` if `x` is 0-d, else of the shape of `x`.

    Raises
    ------
    DTypeError
        If the elements are not numbers.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.atleast_1d(2.0).shape
    (1,)
    """
    x = as_tensor(x)
    return apart(x) if x.ndim else reshape(x, (1,))


@viewing
@explained
def atleast_2d(x: Any, /) -> Tensor:
    """Return `x` with at least two axes, new ones in front; the gradient is reshaped back.

    Parameters
    ----------
    x : tensor or number
        Of any shape and dtype.

    Returns
    -------
    Tensor
        One row if `x` has less than two axes, else of the shape of `x`.

    Raises
    ------
    DTypeError
        If the elements are not numbers.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.atleast_2d([1.0, 2.0]).shape
    (1, 2)
    """
    x = as_tensor(x)
    return apart(x) if x.ndim > 1 else reshape(x, (1, x.size))


@viewing
@explained
def broadcast_to(x: Any, /, shape: int | Sequence[int]) -> Tensor:
    """Repeat `x` along new axes and axes of size 1 until it has the given shape.

    The gradient is summed over what was repeated.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.
    shape : int or sequence of int
        The shape of the result.

    Returns
    -------
    Tensor
        Of that shape.

    Raises
    ------
    ShapeError
        If `x` does not broadcast to `shape`, or a size is negative.
    DTypeError
        If a size is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.broadcast_to(eo.tensor([1, 2]), (2, 2)))
    [[1 2]
     [1 2]]
    """
    sizes = normalize_shape(shape, "broadcast_to")
    return apply(_broadcast_to, (as_tensor(x),), {"shape": sizes})


@explained
def broadcast_arrays(*xs: Any) -> tuple[Tensor, ...]:
    """Return all tensors broadcast to their common shape.

    Each gradient is summed over what was repeated.

    Parameters
    ----------
    *xs : tensor
        Of any shapes that broadcast, each of any dtype.

    Returns
    -------
    tuple of Tensor
        One for each, of its own dtype.

    Raises
    ------
    ShapeError
        If there is no common shape.

    Examples
    --------
    >>> import everyo as eo
    >>> [x.shape for x in eo.broadcast_arrays(eo.ones((2, 1)), eo.ones(3))]
    [(2, 3), (2, 3)]
    """
    tensors = [as_tensor(x) for x in xs]
    ndim = max([x.ndim for x in tensors], default=0)
    shape = []
    for sizes in zip(*((1,) * (ndim - x.ndim) + tuple(x.shape) for x in tensors)):
        others = {n for n in sizes if n != 1}
        if len(others) > 1:
            raise ShapeError(
                "the shapes do not broadcast together",
                operation="broadcast_arrays",
                inputs=describe(*tensors),
                expected="axes, counted from the last, that are equal or 1",
                found=" and ".join(str(tuple(x.shape)) for x in tensors),
                remedy="reshape or expand_dims one of them",
            )
        shape.append(others.pop() if others else 1)
    return tuple(broadcast_to(x, shape) for x in tensors)
