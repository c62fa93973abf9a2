"""Rearranging: elements turned round, shifted, padded or repeated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from everyo.core.batching import along
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.ops.axes import as_integers, normalize_axes, normalize_axis
from everyo.ops.creation import as_tensor
from everyo.ops.families import linear, primitive
from everyo.ops.known import is_known
from everyo.ops.shape import broadcast_to, reshape
from everyo.ops.signatures import composed, explained
from everyo.ops.views import viewing

__all__ = ["flip", "repeat", "roll", "tile"]

Axis = int | Sequence[int] | None


@linear(
    lambda g, axis: op.flip(g, axis=axis),
    samples=lambda: [sample((3,), axis=(0,)), sample((2, 3), axis=(0, 1)), sample((), axis=())],
    batch=along("axis"),
)
def _flip(xp: Any, x: Any, *, axis: tuple[int, ...]) -> Any:
    return xp.flip(x, axis=axis)


@viewing
@explained
def flip(x: Any, /, axis: Axis = None) -> Tensor:
    """Return the elements in reverse order along some axes, by default along all.

    The gradient is flipped back.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.
    axis : int or sequence of int, optional
        Which axes.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.
    ShapeError
        If an axis is named twice.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.flip(eo.tensor([[1, 2], [3, 4]]), axis=1))
    [[2 1]
     [4 3]]
    """
    x = as_tensor(x)
    return apply(_flip, (x,), {"axis": normalize_axes(axis, x.ndim, "flip")})


def _opposite(shift: Any) -> Any:
    return tuple(-s for s in shift) if isinstance(shift, tuple) else -shift


def _roll_batch(roll: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    if params["axis"] is not None:
        return along("axis")(roll, inputs, batched, size, params)
    (x,) = inputs
    flat = op.reshape(x, shape=(size, math.prod(x.shape[1:])))
    return op.reshape(roll(flat, shift=params["shift"], axis=1), shape=tuple(x.shape))


@linear(
    lambda g, shift, axis: op.roll(g, shift=_opposite(shift), axis=axis),
    samples=lambda: [
        sample((4,), shift=1, axis=None),
        sample((2, 3), shift=-2, axis=None),
        sample((2, 3), shift=(1, -4), axis=(0, 1)),
        sample((0, 2), shift=1, axis=1),
    ],
    batch=_roll_batch,
)
def _roll(xp: Any, x: Any, *, shift: Any, axis: Any) -> Any:
    return xp.roll(x, shift, axis=axis)


@composed
def roll(x: Any, /, shift: int | Sequence[int], axis: Axis = None) -> Tensor:
    """Return the elements shifted along some axes; what leaves at one end comes in at the other.

    Without `axis` they are shifted in their flat order. The gradient is rolled back.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.
    shift : int or sequence of int
        By how much, towards higher indices if positive; one for all axes, or one for each.
    axis : int or sequence of int, optional
        Which axes; one that is named twice is shifted twice.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    ShapeError
        If there are not as many shifts as axes.
    IndexingError, DTypeError
        If there is no such axis, or it or a shift is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.roll(eo.arange(5), 2))
    [3 4 0 1 2]
    """
    x = as_tensor(x)
    steps: Any = as_integers(shift, "shift", "roll")
    steps = steps if isinstance(shift, Sequence) else steps[0]
    axes: Any = None
    if axis is not None:
        axes = tuple(
            normalize_axis(a, x.ndim, "roll") for a in (axis if isinstance(axis, Sequence) else (axis,))
        )
    return apply(_roll, (x,), {"shift": steps, "axis": axes})


def _pad_batch(pad: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    return pad(*inputs, pad_width=((0, 0), *params["pad_width"]), value=params["value"])


def _inside(g: Any, x_shape: tuple[int, ...], pad_width: Sequence[tuple[int, int]]) -> Any:
    """Return the part of a padded cotangent that the padding surrounds."""
    return op.getitem(g, index=tuple(slice(low, low + n) for n, (low, _) in zip(x_shape, pad_width)))


@primitive(
    vjp=_inside,
    jvp=lambda t, pad_width: op.pad(t, pad_width=pad_width, value=0),
    samples=lambda: [
        sample((3,), pad_width=((1, 2),), value=0),
        sample((2, 3), pad_width=((0, 1), (2, 0)), value=1.5),
        sample((0,), pad_width=((1, 1),), value=0),
        sample((), pad_width=(), value=0),
    ],
    batch=_pad_batch,
)
def _pad(xp: Any, x: Any, *, pad_width: tuple[tuple[int, int], ...], value: Any) -> Any:
    return xp.pad(x, pad_width, constant_values=value) if pad_width else x


@composed
def tile(x: Any, /, reps: Any) -> Tensor:
    """Return copies of `x` laid side by side: ``reps[i]`` along axis i, axes counted from the last.

    The gradient is summed over the copies.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.
    reps : int or sequence of int, or a vector of such
        How many copies along each axis; missing numbers are 1, and so are missing axes of `x`.

    Returns
    -------
    Tensor
        With as many axes as `x` or `reps`, each `reps` times as long.

    Raises
    ------
    ShapeError, DTypeError
        If a number is negative, or no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.tile(eo.tensor([1, 2]), (2, 2)))
    [[1 2 1 2]
     [1 2 1 2]]
    """
    x = as_tensor(x)
    if not isinstance(reps, Sequence) and getattr(reps, "ndim", 0) == 1:
        reps = reps.tolist()
    counts = tuple(reps) if isinstance(reps, Sequence) else (reps,)
    ndim = max(x.ndim, len(counts))
    counts = (1,) * (ndim - len(counts)) + counts
    sizes = (1,) * (ndim - x.ndim) + tuple(x.shape)
    single = reshape(x, [m for n in sizes for m in (1, n)])
    copies = broadcast_to(single, [m for pair in zip(counts, sizes) for m in pair])
    return reshape(copies, tuple(math.prod(pair) for pair in zip(counts, sizes)))


def _summed_over_repeats(g: Any, x_shape: tuple[int, ...], repeats: int, axis: int) -> Any:
    lead, tail = x_shape[: axis + 1], x_shape[axis + 1 :]
    rows = op.sum_to(op.reshape(g, shape=(*lead, repeats, *tail)), shape=(*lead, 1, *tail), dtype=g.dtype)
    return op.reshape(rows, shape=x_shape)


@linear(
    _summed_over_repeats,
    samples=lambda: [
        sample((3,), repeats=2, axis=0),
        sample((2, 3), repeats=3, axis=0),
        sample((2, 3, 2), repeats=2, axis=1),
        sample((2,), repeats=0, axis=0),
        sample((0, 2), repeats=2, axis=1),
    ],
    batch=along("axis"),
)
def _repeat(xp: Any, x: Any, *, repeats: int, axis: int) -> Any:
    return xp.repeat(x, repeats, axis=axis)


@composed
def repeat(x: Any, /, repeats: int | Sequence[int], axis: int | None = None) -> Tensor:
    """Return every element along an axis several times in a row; without `axis`, of the flat tensor.

    The gradient is summed over the repetitions.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.
    repeats : int or sequence of int
        How often, for all or for each position along the axis; 0 leaves out. Booleans count as 0 and 1.
    axis : int, optional
        Along which axis.

    Returns
    -------
    Tensor
        Of the shape of `x`, or 1-d, but as long along the axis as the counts together.

    Raises
    ------
    ShapeError
        If a count is negative or no integer, or there is not one for each position.
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.repeat(eo.tensor([1, 2]), 2), eo.repeat(eo.tensor([1, 2]), [3, 0]))
    [1 1 2 2] [1 1 1]
    """
    x = as_tensor(x)
    x = reshape(x, (x.size,)) if axis is None else x
    axis = normalize_axis(0 if axis is None else axis, x.ndim, "repeat")
    given = as_tensor(repeats)
    counts = given.data if is_known(given) else x.backend.xp.asarray(given.tolist())
    n = x.shape[axis]
    fits = counts.ndim < 2 and (counts.dtype.kind in "biu" or not counts.size)
    if not fits or counts.size not in (1, n) or (counts < 0).any():
        raise ShapeError(
            "the numbers of repetitions do not fit the axis",
            operation="repeat",
            inputs=describe(x),
            expected=f"one integer or {n} of them, none negative",
            found=repr(counts.reshape(-1).tolist() if counts.ndim < 2 else counts.tolist()),
            remedy="give one number, or one for each element along the axis",
        )
    if counts.size == 1:
        return apply(_repeat, (x,), {"repeats": int(counts.reshape(())), "axis": axis})
    xp = x.backend.xp
    return x[(slice(None),) * axis + (xp.repeat(xp.arange(n), xp.asarray(counts, dtype=xp.int64)),)]
