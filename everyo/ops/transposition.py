"""Transposition: the same elements with their axes in another order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Never

from everyo.core.batching import trailing
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.ops.axes import normalize_axis
from everyo.ops.creation import as_tensor
from everyo.ops.families import linear, public
from everyo.ops.signatures import composed, explained, misfit
from everyo.ops.views import viewing

__all__ = ["matrix_transpose", "moveaxis", "permute_dims", "swapaxes", "transpose"]


def _transpose_batch(transpose: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    return transpose(*inputs, axes=(0, *(a + 1 for a in params["axes"])))


def _inverse(axes: Sequence[int]) -> tuple[int, ...]:
    """Return the permutation that undoes `axes`."""
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


@linear(
    lambda g, axes: op.transpose(g, axes=_inverse(axes)),
    samples=lambda: [
        sample((2, 3), axes=(1, 0)),
        sample((2, 3, 4), axes=(1, 2, 0)),
        sample((), axes=()),
        sample((0, 1, 2), axes=(2, 0, 1)),
    ],
    batch=_transpose_batch,
)
def _transpose(xp: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
    return xp.permute_dims(x, axes=axes)


@public
@linear(
    lambda g: op.matrix_transpose(g),
    samples=lambda: [sample((2, 3)), sample((4, 2, 3)), sample((0, 2))],
    batch=trailing(2),
)
def matrix_transpose(xp: Any, x: Any) -> Any:
    """Swap the last two axes.

    The gradient swaps them back.

    Parameters
    ----------
    x : tensor
        With at least two axes.

    Returns
    -------
    Tensor
        Of the shape of `x` with the last two lengths exchanged.

    Raises
    ------
    ShapeError
        If there are fewer than two axes.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.matrix_transpose(eo.ones((5, 2, 3))).shape
    (5, 3, 2)
    """
    return xp.matrix_transpose(x)


@viewing
@explained
def transpose(x: Any, /, axes: Sequence[int] | None = None, *surplus: Never, **unknown: Never) -> Tensor:
    """Return `x` with its axes in another order: reversed, or as `axes` lists them.

    The gradient is transposed back, by the inverse permutation.

    Parameters
    ----------
    x : tensor
        Of any number of axes.
    axes : sequence of int, optional
        Axis ``i`` of the result is axis ``axes[i]`` of `x`.
    *surplus, **unknown : never
        Nothing: axes as arguments of their own, and other names, are refused.

    Returns
    -------
    Tensor
        With the axes of `x` in that order.

    Raises
    ------
    ShapeError
        If `axes` does not name every axis once.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.transpose(eo.ones((2, 3, 4))).shape, eo.transpose(eo.ones((2, 3, 4)), (1, 2, 0)).shape
    ((4, 3, 2), (3, 4, 2))
    """
    if surplus or unknown:
        raise misfit(transpose, (x, axes, *surplus), unknown)
    x = as_tensor(x)
    if axes is None:
        if x.ndim == 2:
            return matrix_transpose(x)
        return apply(_transpose, (x,), {"axes": tuple(range(x.ndim - 1, -1, -1))})
    several = axes.__class__ is tuple or (isinstance(axes, Iterable) and getattr(axes, "shape", None) != ())
    named: Any = axes if several else (axes,)
    order = tuple([normalize_axis(a, x.ndim, "transpose") for a in named])
    if len(order) != x.ndim or len(set(order)) != x.ndim:
        raise ShapeError(
            "this is no permutation of the axes",
            operation="transpose",
            inputs=describe(x),
            expected=f"each of {x.ndim} axes once",
            found=str(axes),
            remedy="name every axis once, as in x.transpose(1, 0); x.swapaxes(0, 1) exchanges two of more",
        )
    return apply(_transpose, (x,), {"axes": order})


@viewing
@composed
def permute_dims(x: Any, /, axes: Sequence[int]) -> Tensor:
    """Return `x` with its axes in the order of `axes`: `transpose` under the Array API's name.

    The gradient is transposed back, by the inverse permutation.

    Parameters
    ----------
    x : tensor
        Of any number of axes.
    axes : sequence of int
        Axis ``i`` of the result is axis ``axes[i]`` of `x`.

    Returns
    -------
    Tensor
        With the axes of `x` in that order.

    Raises
    ------
    ShapeError
        If `axes` does not name every axis once.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.permute_dims(eo.ones((2, 3, 4)), (1, 2, 0)).shape
    (3, 4, 2)
    """
    return transpose(x, axes)


def moveaxis(x: Any, /, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Move axes to new positions; the others keep their order. The gradient moves them back.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.
    source, destination : int or sequence of int
        Which axes, and where each of them is in the result.

    Returns
    -------
    Tensor
        With the axes of `x` in another order.

    Raises
    ------
    ShapeError
        If there are not as many destinations as sources, or one is named twice.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.moveaxis(eo.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = as_tensor(x)
    sources, targets = (
        [normalize_axis(a, x.ndim, "moveaxis") for a in (named if isinstance(named, Sequence) else (named,))]
        for named in (source, destination)
    )
    if not len(sources) == len(set(sources)) == len(targets) == len(set(targets)):
        raise ShapeError(
            "sources and destinations do not pair up",
            operation="moveaxis",
            inputs=describe(x),
            expected="as many different destinations as different sources",
            found=f"{source} and {destination}",
            remedy="name as many of each, every axis once",
        )
    order = [a for a in range(x.ndim) if a not in sources]
    for place, axis in sorted(zip(targets, sources)):
        order.insert(place, axis)
    return apply(_transpose, (x,), {"axes": tuple(order)})


@viewing
@explained
def swapaxes(x: Any, /, axis1: int, axis2: int) -> Tensor:
    """Exchange two axes; the gradient exchanges them back.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.
    axis1, axis2 : int
        The axes.

    Returns
    -------
    Tensor
        Of the shape of `x` with these two lengths exchanged.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.swapaxes(eo.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    x = as_tensor(x)
    ndim = x.ndim
    order = list(range(ndim))
    a, b = normalize_axis(axis1, ndim, "swapaxes"), normalize_axis(axis2, ndim, "swapaxes")
    order[a], order[b] = b, a
    return apply(_transpose, (x,), {"axes": tuple(order)})
