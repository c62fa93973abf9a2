"""Elements chosen by masks: filled, selected, replaced in order, or taken from several tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everyo.core.device import backend_for
from everyo.core.dispatch import apply
from everyo.core.operands import array_from
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.core.traced import staging
from everyo.errors import DTypeError, EveryOError, IndexingError, ShapeError, describe
from everyo.ops.axes import as_items, normalize_axis
from everyo.ops.broadcasting import broadcast_shapes
from everyo.ops.creation import as_tensor, as_tensors, weak
from everyo.ops.gathering import nonzero
from everyo.ops.index_batching import DISTINCT
from everyo.ops.shape import broadcast_to
from everyo.ops.signatures import composed, explained

__all__ = [
    "argwhere", "compress", "extract", "flatnonzero", "masked_fill", "masked_scatter", "masked_select",
    "select",
]  # fmt: skip


def _constant(data: Any, operation: str) -> Any:
    """Return data that is no tensor as an array."""
    if isinstance(data, Tensor):
        return data
    backend, device = backend_for(None)
    return array_from(data, backend, device, operation)


def _mask(mask: Any, operation: str) -> Any:
    """Return a mask: a tensor as it is, other data as an array, a constant to compiled programs."""
    found = _constant(mask, operation)
    if found.dtype.kind == "b":
        return found
    raise DTypeError(
        "a mask must be made of booleans",
        operation=operation,
        inputs=describe(found),
        expected="dtype bool",
        found=str(found.dtype),
        remedy="compare it with something: mask != 0",
    )


@composed
def masked_fill(x: Any, mask: Any, value: Any, /) -> Tensor:
    """Return `x` with `value` where `mask` holds: ``where(mask, value, x)``.

    The gradient of `x` is 0 there, that of `value` is the sum over these places.

    Parameters
    ----------
    x : tensor
        Does not change.
    mask : tensor of booleans
        Of a shape that broadcasts with that of `x`.
    value : number or tensor
        What is filled in; it broadcasts too.

    Returns
    -------
    Tensor
        Of the broadcast shape and the common dtype of `x` and `value`.

    Raises
    ------
    DTypeError
        If the mask is not made of booleans.
    ShapeError
        If the shapes do not broadcast together.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([1.0, -2.0, 3.0])
    >>> print(eo.masked_fill(x, x < 0, 0.0))
    [1. 0. 3.]
    """
    x = as_tensor(x)
    return apply(op.where, (_mask(mask, "masked_fill"), value, x))


@explained
def masked_select(x: Any, mask: Any, /) -> Tensor:
    """Return the elements of `x` for which `mask` holds, in a row.

    The gradient goes back to their places. The number of elements depends on the mask, so under `vmap`
    and `compile` it must be a constant: an array, not a tensor.

    Parameters
    ----------
    x : tensor
        Of any dtype.
    mask : tensor of booleans
        Of a shape that broadcasts with that of `x`.

    Returns
    -------
    Tensor
        1-d.

    Raises
    ------
    DTypeError
        If the mask is not made of booleans.
    ShapeError
        If the shapes do not broadcast together.
    UnsupportedOperationError, CompileError
        If the mask is known only under `vmap` or `compile`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.masked_select(eo.tensor([[1, 2], [3, 4]]), eo.tensor([True, False])))
    [1 3]
    """
    x, mask = as_tensor(x), _mask(mask, "masked_select")
    try:
        shape = broadcast_shapes(tuple(x.shape), tuple(mask.shape))
        return broadcast_to(x, shape)[op.broadcast_to(mask, shape=shape)]
    except EveryOError as error:
        raise error.renamed("masked_select") from None


@explained
def masked_scatter(x: Any, mask: Any, source: Any, /) -> Tensor:
    """Return `x` with the elements of `source`, in their order, where `mask` holds.

    The gradient of `x` is 0 there, that of `source` comes from these places.

    Parameters
    ----------
    x : tensor
        Does not change.
    mask : tensor of booleans
        Of a shape that broadcasts to that of `x`.
    source : tensor
        At least as many elements as the mask has places that hold.

    Returns
    -------
    Tensor
        Of the shape of `x` and the common dtype.

    Raises
    ------
    DTypeError
        If the mask is not made of booleans.
    ShapeError
        If the mask does not broadcast to the shape of `x`.
    IndexingError
        If there are too few elements.

    Examples
    --------
    >>> import everyo as eo
    >>> mask = eo.tensor([[True, False], [False, True]])
    >>> print(eo.masked_scatter(eo.zeros((2, 2)), mask, eo.tensor([5.0, 6.0, 7.0])))
    [[5. 0.]
     [0. 6.]]
    """
    x, mask = as_tensor(x), _mask(mask, "masked_scatter")
    source = weak(source, [x], "masked_scatter")
    try:
        mask = broadcast_to(mask, tuple(x.shape))
    except ShapeError as error:
        raise error.renamed("masked_scatter", inputs=describe(x, mask, source)) from None
    row = op.reshape(source, shape=(source.size,))
    known = _known(mask)
    if known is not None:
        places = op.nonzero(op.reshape(known, shape=(x.size,)))[0]
        if places.size > source.size:
            raise _too_few(x, mask, source, f"{places.size} places")
        return _at_places(x, places, row[: places.size])
    order = op.cumsum(op.reshape(mask, shape=(x.size,)), axis=0)
    if source.size:
        order = order - 1  # before the first place -1, which reads what is not used
    else:
        row = op.pad(row, pad_width=((0, 1),), value=0)  # for 0; a place that holds reads behind it
    try:
        return op.where(mask, row[op.reshape(order, shape=tuple(x.shape))], x)
    except IndexingError as error:
        raise _too_few(x, mask, source, str(error.found)) from None


def _too_few(x: Any, mask: Any, source: Any, found: str) -> IndexingError:
    return IndexingError(
        "there are fewer elements than places that the mask selects",
        operation="masked_scatter",
        inputs=describe(x, mask, source),
        expected="a source of at least as many elements",
        found=f"{source.size} elements; {found}",
        remedy="repeat the source with eo.tile, or select fewer places",
    )


def _known(mask: Tensor) -> Any:
    """Return the elements of a mask as an array; None inside of transformations."""
    return None if mask.level or staging.get() is not None else mask.data


def _at_places(x: Tensor, places: Any, values: Tensor) -> Tensor:
    """Return `x` with a row of values at positions of the flattened tensor, in the common dtype."""
    dtype = x.backend.xp.result_type(x.dtype, values.dtype)
    flat = op.reshape(x if x.dtype == dtype else op.astype(x, dtype=dtype), shape=(x.size,))
    written = apply(op.index_update, (flat, values, places), {"index": (DISTINCT,)})
    return op.reshape(written, shape=tuple(x.shape))


@explained
def compress(condition: Any, x: Any, /, axis: int | None = None) -> Tensor:
    """Return the slices of `x` along an axis for which a row of booleans holds.

    The gradient goes back to their places.

    Parameters
    ----------
    condition : sequence or tensor of booleans
        1-d, at most as long as the axis; further slices are left out.
    x : tensor
        Of any dtype.
    axis : int, optional
        Along which axis; by default `x` is flattened first.

    Returns
    -------
    Tensor
        As long along the axis as there are slices.

    Raises
    ------
    IndexingError
        If the condition is longer than the axis, or there is no such axis.
    ShapeError
        If the condition is not 1-d.
    DTypeError
        If the axis is no integer.
    UnsupportedOperationError, CompileError
        If the condition is known only under `vmap` or `compile`, for the length of the result depends on it.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.compress([True, False, True], eo.tensor([[1, 2, 3], [4, 5, 6]]), axis=1))
    [[1 3]
     [4 6]]
    """
    x = as_tensor(x)
    mask = _constant(condition, "compress")
    if axis is None:
        x, axis = op.reshape(x, shape=(x.size,)), 0
    axis = normalize_axis(axis, x.ndim, "compress")
    if mask.ndim != 1:
        raise ShapeError(
            "the condition must be a row",
            operation="compress",
            inputs=describe(mask, x),
            expected="a 1-d condition",
            found=f"shape {tuple(mask.shape)}",
            remedy="use x[mask] for a mask of several axes",
        )
    try:
        return x[(*(slice(None),) * axis, op.nonzero(mask)[0])]
    except EveryOError as error:
        raise error.renamed("compress") from None


@explained
def extract(condition: Any, x: Any, /) -> Tensor:
    """Return the elements of `x` for which a condition holds, in a row: NumPy's `masked_select`.

    The gradient of `x` is that of the elements taken, and 0 elsewhere; the condition has none.

    Parameters
    ----------
    condition : tensor
        As many elements as `x`; those that are not 0 hold.
    x : tensor
        Of any dtype.

    Returns
    -------
    Tensor
        1-d.

    Raises
    ------
    IndexingError
        If the condition holds at a place that `x` does not have.
    UnsupportedOperationError, CompileError
        If the condition is known only under `vmap` or `compile`, for the length of the result depends on it.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([[1, 2], [3, 4]])
    >>> print(eo.extract(x > 1, x))
    [2 3 4]
    """
    mask = _constant(condition, "extract")
    try:
        return compress(op.reshape(mask, shape=(mask.size,)), x)
    except EveryOError as error:
        raise error.renamed("extract") from None


@explained
def argwhere(x: Any, /) -> Tensor:
    """Positions of the elements that are not zero, a row of coordinates for each. It has no gradient.

    Parameters
    ----------
    x : tensor
        Of any shape.

    Returns
    -------
    Tensor
        Integers, of shape ``(number, x.ndim)``.

    Raises
    ------
    UnsupportedOperationError, CompileError
        Under `vmap` or `compile`, for the length of the result depends on the values.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.argwhere(eo.tensor([[0, 3], [4, 0]])))
    [[0 1]
     [1 0]]
    """
    x = as_tensor(x)
    if not x.ndim:
        return argwhere(op.reshape(x, shape=(1,)))[:, :0]
    return op.stack(*nonzero(x), axis=1)


@explained
def flatnonzero(x: Any, /) -> Tensor:
    """Positions of the nonzero elements of the flattened tensor. It has no gradient.

    Parameters
    ----------
    x : tensor
        Of any shape.

    Returns
    -------
    Tensor
        Integers, 1-d.

    Raises
    ------
    UnsupportedOperationError, CompileError
        Under `vmap` or `compile`, for the length of the result depends on the values.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.flatnonzero(eo.tensor([[0, 3], [4, 0]])))
    [1 2]
    """
    x = as_tensor(x)
    return nonzero(op.reshape(x, shape=(x.size,)))[0]


@composed
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    """Take each element from the first choice whose condition holds.

    The gradient goes to the choice that was taken.

    Parameters
    ----------
    condlist : sequence of tensors of booleans
        The conditions, in order of precedence.
    choicelist : sequence of tensors or numbers
        A choice for each condition.
    default : number or tensor, default 0
        Taken where no condition holds.

    Returns
    -------
    Tensor
        Of the shape that all broadcast to and the common dtype of choices and default.

    Raises
    ------
    ShapeError
        If there are not as many choices as conditions, or none, or the shapes do not fit.
    DTypeError
        If a condition is not made of booleans.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([-2.0, 0.5, 3.0])
    >>> print(eo.select([x < 0, x > 1], [-x, x**2], default=1.0))
    [2. 1. 9.]
    """
    condlist = as_items(condlist, "condlist", "select")
    choicelist = as_items(choicelist, "choicelist", "select")
    if len(condlist) != len(choicelist) or not condlist:
        raise ShapeError(
            "conditions and choices do not pair up",
            operation="select",
            expected="as many choices as conditions, at least one",
            found=f"{len(condlist)} conditions and {len(choicelist)} choices",
            remedy="give a choice for each condition",
        )
    *choices, out = as_tensors([*choicelist, default], "select")  # a number meets all tensors, not the next
    common = out.backend.xp.result_type(*(x.dtype for x in (*choices, out)))
    out = out if out.dtype == common else op.astype(out, dtype=common)
    for condition, choice in zip(reversed(condlist), reversed(choices)):
        out = apply(op.where, (_mask(condition, "select"), choice, out))
    return out
