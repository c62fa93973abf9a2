"""Gathering elements by tensors of positions, and scattering them back."""

from __future__ import annotations

from typing import Any

from everyo.core.batching import everywhere, refused
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Integers, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, EveryOError, IndexingError, ShapeError, describe
from everyo.ops import index_errors
from everyo.ops.axes import is_one_of, normalize_axis
from everyo.ops.creation import as_tensor, weak
from everyo.ops.docstrings import described
from everyo.ops.families import primitive
from everyo.ops.index_errors import outside
from everyo.ops.indexing import ARRAY
from everyo.ops.known import is_known
from everyo.ops.shape import broadcast_to, reshape
from everyo.ops.signatures import explained

__all__ = [
    "gather", "index_add", "nonzero", "put_along_axis", "scatter_add", "take", "take_along_axis",
]  # fmt: skip

_along = described(
    Raises="IndexingError\n    If there is no such axis, or a position is outside it or no integer.\n"
    "ShapeError\n    If the shapes do not fit.\n"
    "DTypeError\n    If something is not numeric, or the axis no integer."
)


@primitive(
    None,
    None,
    missing="its result is discrete",
    samples=lambda: [sample((2, 3)), sample(Values([0, 3, 0, 1]))],
    batch=refused(
        "the number of nonzero elements, or of those that a mask selects, differs from example to example",
        "use eo.where(mask, x, 0) instead of x[mask], or loop over the batch in Python",
    ),
    shaped_by_values=True,
)
def _nonzero(xp: Any, x: Any) -> Any:
    return xp.nonzero(x)


def along_index(xp: Any, shape: tuple[int, ...], indices: Any, axis: int) -> tuple[Any, ...]:
    """Return the index that picks `indices` along one axis and everything along the others."""
    ndim = len(shape)
    return tuple(
        indices if i == axis else xp.reshape(xp.arange(n), (1,) * i + (n,) + (1,) * (ndim - i - 1))
        for i, n in enumerate(shape)
    )


def _take_batch(take: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    # What has no batch broadcasts.
    pair = (x if b else op.reshape(x, shape=(1, *x.shape)) for x, b in zip(inputs, batched, strict=True))
    return take(*pair, axis=params["axis"] + 1)


def scatter_batch(scatter: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    values, indices = everywhere(inputs, batched, size)
    return scatter(values, indices, axis=params["axis"] + 1, shape=(size, *params["shape"]))


@primitive(
    vjp=(
        lambda g, x_shape, indices, axis: op.scatter_along_axis(g, indices, axis=axis, shape=x_shape),
        None,
    ),
    jvp=(lambda t, indices, axis: op.take_along_axis(t, indices, axis=axis), None),
    missing="the positions are integers",
    samples=lambda: [
        sample((3,), Integers((4,), 3), axis=0),
        sample((2, 3), Values([[0], [-1]]), axis=1),
        sample((2, 3), Values([[0, 2]]), axis=1),
        sample((2, 3, 2), Integers((4, 3, 2), 2), axis=0),
        sample((2, 0), Integers((2, 0), 1), axis=0),
    ],
    batch=_take_batch,
    explain=index_errors.along("take_along_axis"),
)
def _take_along_axis(xp: Any, x: Any, indices: Any, *, axis: int) -> Any:
    if x.ndim == indices.ndim and x.size and indices.size == indices.shape[axis]:  # the same slices for all
        return xp.take(x, xp.reshape(indices, (-1,)), axis=axis)
    return xp.take_along_axis(x, indices, axis=axis)


@primitive(
    vjp=(lambda g, indices, axis: op.take_along_axis(g, indices, axis=axis), None),
    jvp=(lambda t, indices, axis, shape: op.scatter_along_axis(t, indices, axis=axis, shape=shape), None),
    missing="the positions are integers",
    samples=lambda: [
        sample((4,), Integers((4,), 3), axis=0, shape=(3,)),
        sample((2, 1), Values([[0], [-1]]), axis=1, shape=(2, 3)),
    ],
    batch=scatter_batch,
    explain=index_errors.along("scatter_add"),
)
def _scatter_along_axis(xp: Any, values: Any, indices: Any, *, axis: int, shape: tuple[int, ...]) -> Any:
    """Add values to zeros of `shape` at positions along one axis: the transpose of `take_along_axis`."""
    return xp.assemble([along_index(xp, shape, indices, axis)], [values], [True], shape, values.dtype)


def positions_in(x: Tensor, indices: Any, operation: str) -> Tensor:
    """Return positions in `x` as an integer tensor."""
    found = as_tensor(indices, x)
    if not found.size and not isinstance(indices, Tensor):
        found = found.astype("int64")  # an empty list has no dtype of its own
    if found.dtype.kind not in "iu":
        raise IndexingError(
            "positions must be integers",
            operation=operation,
            inputs=describe(x, found),
            expected="an integer dtype",
            found=str(found.dtype),
            remedy="convert them: indices.astype(eo.int64)",
        )
    return found


@explained
def nonzero(x: Any, /) -> tuple[Tensor, ...]:
    """Return the positions of the elements that are not zero, one integer tensor for each axis.

    They carry no gradient.

    Parameters
    ----------
    x : tensor
        At least 1-d, of any dtype.

    Returns
    -------
    tuple of Tensor
        Vectors of int64.

    Raises
    ------
    ShapeError
        If `x` is 0-d.
    DTypeError
        If `x` is not numeric.
    UnsupportedOperationError, CompileError
        Under `vmap` or in a compiled function: how many there are depends on the elements.

    Examples
    --------
    >>> import everyo as eo
    >>> rows, columns = eo.nonzero(eo.tensor([[0, 3], [4, 0]]))
    >>> print(rows, columns)
    [0 1] [1 0]
    """
    x = as_tensor(x)
    if not x.ndim:
        raise ShapeError(
            "a 0-d tensor has no positions",
            operation="nonzero",
            inputs=describe(x),
            expected="an axis",
            found="shape ()",
            remedy="compare the number itself: x != 0",
        )
    return apply(_nonzero, (x,))


@explained
def take(x: Any, indices: Any, /, axis: int | None = None, *, mode: str = "raise") -> Tensor:
    """Return the slices of `x` at positions along an axis; without `axis`, elements of the flat tensor.

    The gradient adds up where a position occurs several times.

    Parameters
    ----------
    x : tensor
        Of any dtype.
    indices : int or integer tensor
        Positions, negative ones from the end; its shape takes the place of the axis.
    axis : int, optional
        Along which axis.
    mode : {"raise", "wrap", "clip"}
        What becomes of positions outside: an error, the position counted on from the other end, or the
        nearest end; "clip" takes negative ones to be before the first.

    Returns
    -------
    Tensor
        Of the dtype of `x`.

    Raises
    ------
    IndexingError
        If there is no such axis, or a position is outside it or no integer.
    ArgumentError
        If there is no such mode.
    DTypeError
        If `x` is not numeric, or the axis no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.take(eo.tensor([10, 20, 30]), [2, 0, -1]))
    [30 10 30]
    """
    x = as_tensor(x)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    axis = normalize_axis(axis, x.ndim, "take")
    if is_one_of(mode, ("wrap", "clip")) and is_known(x) and not x.requires_grad and x.shape[axis]:
        found = positions_in(x, as_tensor(indices), "take")
        if is_known(found) and found.dtype.kind == "i":
            return as_tensor(x.backend.xp.take(x.data, found.data, axis=axis, mode=mode), x)
    if not is_one_of(mode, ("raise",)):
        indices = within(as_tensor(indices), x.shape[axis], mode, "take")
    found = positions_in(x, indices, "take")
    try:
        return x[(*(slice(None),) * axis, found)]
    except IndexingError as error:
        raise outside("take", x, found, x.shape, axis, error.found) from None


def within(places: Tensor, size: int, mode: str, operation: str) -> Tensor:
    """Return positions brought into an axis as `mode` says: "wrap" around, "clip" at the ends."""
    if not is_one_of(mode, ("raise", "wrap", "clip")):
        raise ArgumentError(
            "there is no such mode", operation=operation, expected="raise, wrap or clip", found=repr(mode)
        )
    if mode != "raise" and size and places.size and is_known(places):
        xp = places.backend.xp
        least, largest = (-size, size - 1) if mode == "wrap" else (0, size - 1)
        if xp.min(places.data) >= least and xp.max(places.data) <= largest:
            return places  # quicker than to divide or to limit integers
    if mode == "wrap":
        return places % size
    return places.clip(0, size - 1) if mode == "clip" else places


@explained
@_along
def take_along_axis(x: Any, indices: Any, /, axis: int | None = -1) -> Tensor:
    """Return for each position of `indices` the element of `x` in that place along an axis.

    ``out[i, j] = x[indices[i, j], j]`` for axis 0. The gradient adds up where a position repeats.

    Parameters
    ----------
    x : tensor
        Of any dtype.
    indices : integer tensor
        With as many axes as `x`, which broadcast against those of `x` except `axis`.
    axis : int or None, default -1
        The axis that the positions count along; None flattens `x` first.

    Returns
    -------
    Tensor
        Of the shape of `indices`, broadcast, and the dtype of `x`.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([[10, 30, 20], [60, 40, 50]])
    >>> print(eo.take_along_axis(x, eo.tensor([[1], [0]]), axis=1))
    [[30]
     [60]]
    """
    x = as_tensor(x)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    axis = normalize_axis(axis, x.ndim, "take_along_axis")
    return apply(_take_along_axis, (x, positions_in(x, indices, "take_along_axis")), {"axis": axis})


@explained
@_along
def put_along_axis(x: Any, indices: Any, values: Any, /, axis: int | None) -> Tensor:
    """Return `x` with `values` in the places that `take_along_axis` would read; `x` does not change.

    The gradient of `x` is 0 in these places, that of `values` comes from them.

    Parameters
    ----------
    x : tensor
        Of any dtype.
    indices : integer tensor
        With as many axes as `x`; where a position repeats, the last value counts.
    values : tensor or number
        Broadcast to the shape of `indices`.
    axis : int or None
        The axis that the positions count along; None counts them in the flattened tensor.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.put_along_axis(eo.zeros((2, 3)), eo.tensor([[1], [0]]), 9.0, axis=1))
    [[0. 9. 0.]
     [9. 0. 0.]]
    """
    x = as_tensor(x)
    if axis is None:
        return reshape(put_along_axis(reshape(x, (x.size,)), indices, values, 0), tuple(x.shape))
    out = op.copy(x)
    axis = normalize_axis(axis, out.ndim, "put_along_axis")
    found = _same_rank(out, positions_in(out, indices, "put_along_axis"), "put_along_axis")
    try:
        out[along_index(out.backend.xp, tuple(out.shape), found, axis)] = values
    except IndexingError as error:
        raise outside("put_along_axis", out, found, out.shape, axis, error.found) from None
    except ShapeError as error:
        raise error.renamed("put_along_axis", inputs=describe(out, found, as_tensor(values))) from None
    return out


def _same_rank(x: Tensor, indices: Tensor, operation: str) -> Tensor:
    if x.ndim != indices.ndim:
        raise ShapeError(
            "tensor and positions must have equally many axes",
            operation=operation,
            inputs=describe(x, indices),
            expected=f"{x.ndim} axes",
            found=f"{indices.ndim}",
            remedy="reshape the positions, for example with expand_dims",
        )
    return indices


def reach(x: Tensor, indices: Tensor, axis: int) -> tuple[slice, ...]:
    """Return the part of `x` that positions smaller than it read from or write to."""
    return tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(indices.shape))


@explained
@_along
def gather(x: Any, axis: int, indices: Any, /) -> Tensor:
    """Return ``out[i, j] = x[indices[i, j], j]`` for axis 0, and likewise for other axes.

    As `take_along_axis`, but `indices` may be smaller than `x` along the other axes. The gradient adds up
    where a position repeats.

    Parameters
    ----------
    x : tensor
        Of any dtype.
    axis : int
        The axis that the positions count along.
    indices : integer tensor
        With as many axes as `x`; its shape is that of the result.

    Returns
    -------
    Tensor
        Of the shape of `indices` and the dtype of `x`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.gather(eo.tensor([[1, 2], [3, 4]]), 1, eo.tensor([[0, 0], [1, 0]])))
    [[1 1]
     [4 3]]
    """
    x = as_tensor(x)
    axis = normalize_axis(axis, x.ndim, "gather")
    found = fitting(x, indices, axis, "gather")
    try:
        return take_along_axis(x[reach(x, found, axis)], found, axis)
    except EveryOError as error:
        raise error.renamed("gather") from None


def fitting(x: Tensor, indices: Any, axis: int, operation: str) -> Tensor:
    """Return positions with as many axes as `x` that are no larger than it except along `axis`."""
    found = _same_rank(x, positions_in(x, indices, operation), operation)
    if any(n > m for i, (n, m) in enumerate(zip(found.shape, x.shape)) if i != axis):
        raise ShapeError(
            "there are positions beyond the tensor's other axes",
            operation=operation,
            inputs=describe(x, found),
            expected=f"positions no larger than {tuple(x.shape)} except along axis {axis}",
            found=str(tuple(found.shape)),
            remedy="slice the positions, or pad the tensor first",
        )
    return found


@explained
@_along
def scatter_add(x: Any, axis: int, indices: Any, src: Any, /) -> Tensor:
    """Return `x` with ``src[i, j]`` added at ``[indices[i, j], j]`` for axis 0, and likewise for other axes.

    Values at one position add up. The gradient passes to `x` unchanged and is gathered for `src`.

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

    Returns
    -------
    Tensor
        Of the shape of `x` and the common dtype.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.scatter_add(eo.zeros(3), 0, eo.tensor([0, 2, 0]), eo.tensor([1.0, 2.0, 3.0])))
    [4. 0. 2.]
    """
    x = as_tensor(x)
    axis = normalize_axis(axis, x.ndim, "scatter_add")
    found = fitting(x, indices, axis, "scatter_add")
    src = fitting_source(x, found, src, "scatter_add")
    shape = tuple(m if i == axis else n for i, (n, m) in enumerate(zip(found.shape, x.shape)))
    added = apply(op.scatter_along_axis, (src, found), {"axis": axis, "shape": shape})
    if shape != tuple(x.shape):
        room = tuple((0, m - n) for n, m in zip(shape, x.shape))
        added = apply(op.pad, (added,), {"pad_width": room, "value": 0})
    return x + added


def fitting_source(x: Tensor, indices: Tensor, src: Any, operation: str) -> Tensor:
    """Return the part of the values to scatter that has positions; ShapeError if there are too few values."""
    src = weak(src, [x], operation)
    if not src.ndim:
        return broadcast_to(src, tuple(indices.shape))
    _same_rank(x, src, operation)
    if any(n > m for n, m in zip(indices.shape, src.shape)):
        raise ShapeError(
            "there are more positions than values",
            operation=operation,
            inputs=describe(src, indices),
            expected=f"values of at least the shape {tuple(indices.shape)}",
            found=str(tuple(src.shape)),
            remedy="broadcast the values with eo.broadcast_to, or slice the positions",
        )
    return src[tuple(slice(n) for n in indices.shape)]


@explained
@_along
def index_add(x: Any, indices: Any, values: Any, /, *, axis: int = 0) -> Tensor:
    """Return `x` with slices added at positions along an axis.

    Values at one position add up. The gradient passes to `x` unchanged; `values` gets it from there.

    Parameters
    ----------
    x : tensor
        Does not change.
    indices : integer tensor
        Positions along the axis.
    values : tensor
        Broadcast to the shape of ``take(x, indices, axis)``.
    axis : int, default 0
        Along which axis.

    Returns
    -------
    Tensor
        Of the shape of `x` and the common dtype.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.index_add(eo.zeros(3), eo.tensor([0, 2, 0]), eo.tensor([1.0, 2.0, 3.0])))
    [4. 0. 2.]
    """
    x = as_tensor(x)
    values = weak(values, [x], "index_add")
    axis = normalize_axis(axis, x.ndim, "index_add")
    found = positions_in(x, indices, "index_add")
    shape = tuple(x.shape)
    slices = (*shape[:axis], *found.shape, *shape[axis + 1 :])
    try:
        values = broadcast_to(values, slices)
    except ShapeError:
        raise ShapeError(
            "the values do not fit the slices",
            operation="index_add",
            inputs=describe(x, found, values),
            expected=f"values of shape {slices}, or that broadcast to it",
            found=str(tuple(values.shape)),
            remedy="give as many slices as there are positions, each of the shape of a slice of x",
        ) from None
    index = (*(slice(None),) * axis, ARRAY)
    try:
        return x + apply(op.assemble, (values, found), {"indices": (index,), "shape": shape})
    except IndexingError as error:
        raise outside("index_add", x, found, shape, axis, error.found) from None
