"""Positions in grids: of triangles and diagonals, and between flat and multiple indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everyo.core.batching import pointwise, unchanged
from everyo.core.device import backend_for
from everyo.core.dispatch import apply
from everyo.core.dtypes import as_dtype
from everyo.core.registry import op
from everyo.core.samples import Integers, sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, IndexingError, ShapeError, describe
from everyo.ops.axes import as_diagonal, as_flag, as_integer, as_items, is_one_of, normalize_shape
from everyo.ops.creation import as_tensor, fresh
from everyo.ops.families import primitive
from everyo.ops.signatures import composed, explained

__all__ = [
    "diag_indices", "diag_indices_from", "indices", "ravel_multi_index", "tril_indices", "tril_indices_from",
    "triu_indices", "triu_indices_from", "unravel_index",
]  # fmt: skip

_DISCRETE: dict[str, Any] = {"family": "discrete", "missing": "its result is discrete"}


def _made(name: str, *arguments: Any, device: str | None = None) -> tuple[Tensor, ...]:
    """Return the arrays that a function of the backend makes as tensors."""
    backend, place = backend_for(device)
    return tuple(fresh(backend.asarray(a, "int64", place)) for a in getattr(backend.xp, name)(*arguments))


@explained
def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, Tensor]:
    """Rows and columns of the elements on and below the `k`-th diagonal of a matrix; without gradient.

    Parameters
    ----------
    n : int
        The number of rows.
    k : int, default 0
        The diagonal, counted from the main one upwards.
    m : int, optional
        The number of columns, by default as many.

    Returns
    -------
    rows, columns : Tensor
        Vectors of int64, as an index of the matrix.

    Raises
    ------
    ShapeError
        If a number is negative.
    DTypeError
        If one is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> rows, columns = eo.tril_indices(2)
    >>> print(rows, columns)
    [0 1 1] [0 0 1]
    """
    return _triangle("tril_indices", n, k, m)


@explained
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, Tensor]:
    """Rows and columns of the elements on and above the `k`-th diagonal of a matrix.

    Otherwise as `tril_indices`. Positions carry no gradient.

    Parameters
    ----------
    n : int
        The number of rows.
    k : int, default 0
        The diagonal, counted from the main one upwards.
    m : int, optional
        The number of columns, by default as many.

    Returns
    -------
    rows, columns : Tensor
        Vectors of int64, as an index of the matrix.

    Raises
    ------
    ShapeError
        If a number is negative.
    DTypeError
        If one is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> rows, columns = eo.triu_indices(2)
    >>> print(rows, columns)
    [0 0 1] [0 1 1]
    """
    return _triangle("triu_indices", n, k, m)


def _triangle(name: str, n: Any, k: Any, m: Any, device: str | None = None) -> tuple[Tensor, Tensor]:
    rows, columns = normalize_shape((n, n if m is None else m), name)
    return _made(name, rows, as_diagonal(k, rows, columns, name), columns, device=device)  # type: ignore[return-value]


def _matrix(x: Any, operation: str) -> Tensor:
    x = as_tensor(x)
    if x.ndim != 2:
        raise ShapeError(
            "there is no matrix",
            operation=operation,
            inputs=describe(x),
            expected="two axes",
            found=f"{x.ndim}",
            remedy="pass the sizes instead",
        )
    return x


@composed
def tril_indices_from(x: Any, /, k: int = 0) -> tuple[Tensor, Tensor]:
    """Rows and columns of the lower triangle of the matrix `x`, without gradient; see `tril_indices`.

    Parameters
    ----------
    x : tensor
        A matrix, whose shape alone counts.
    k : int, default 0
        The diagonal, counted from the main one upwards.

    Returns
    -------
    rows, columns : Tensor
        Vectors of int64, as an index of the matrix.

    Raises
    ------
    ShapeError
        If `x` is no matrix.
    DTypeError
        If `x` is not numeric, or `k` is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.ones((2, 2))[eo.tril_indices_from(eo.ones((2, 2)))])
    [1. 1. 1.]
    """
    x = _matrix(x, "tril_indices_from")
    return _triangle("tril_indices", x.shape[0], k, x.shape[1], x.device)


@composed
def triu_indices_from(x: Any, /, k: int = 0) -> tuple[Tensor, Tensor]:
    """Rows and columns of the upper triangle of the matrix `x`, without gradient; see `triu_indices`.

    Parameters
    ----------
    x : tensor
        A matrix, whose shape alone counts.
    k : int, default 0
        The diagonal, counted from the main one upwards.

    Returns
    -------
    rows, columns : Tensor
        Vectors of int64, as an index of the matrix.

    Raises
    ------
    ShapeError
        If `x` is no matrix.
    DTypeError
        If `x` is not numeric, or `k` is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.ones((2, 2))[eo.triu_indices_from(eo.ones((2, 2)), 1)])
    [1.]
    """
    x = _matrix(x, "triu_indices_from")
    return _triangle("triu_indices", x.shape[0], k, x.shape[1], x.device)


@explained
def diag_indices(n: int, ndim: int = 2) -> tuple[Tensor, ...]:
    """Positions of the main diagonal of a tensor with `ndim` axes of length `n`, a vector for each axis.

    Positions carry no gradient.

    Parameters
    ----------
    n : int
        How long each axis is.
    ndim : int, default 2
        How many axes there are.

    Returns
    -------
    tuple of Tensor
        `ndim` vectors of int64, from 0 to ``n - 1``.

    Raises
    ------
    ShapeError
        If `n` is negative.
    DTypeError
        If `n` or `ndim` is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> rows, columns = eo.diag_indices(3)
    >>> print(rows, columns)
    [0 1 2] [0 1 2]
    """
    (n,) = normalize_shape((n,), "diag_indices")
    return _made("diag_indices", n, as_integer(ndim, "ndim", "diag_indices"))


@composed
def diag_indices_from(x: Any, /) -> tuple[Tensor, ...]:
    """Positions of the main diagonal of `x`, whose axes, at least two, are equally long.

    Positions carry no gradient.

    Parameters
    ----------
    x : tensor
        Of any dtype; its shape alone counts.

    Returns
    -------
    tuple of Tensor
        ``x.ndim`` vectors of int64.

    Raises
    ------
    ShapeError
        If there are fewer than two axes, or they differ in length.
    DTypeError
        If `x` is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.tensor([[1, 2], [3, 4]])[eo.diag_indices_from(eo.ones((2, 2)))])
    [1 4]
    """
    x = as_tensor(x)
    if x.ndim < 2 or len(set(x.shape)) != 1:
        raise ShapeError(
            "the axes differ in length",
            operation="diag_indices_from",
            inputs=describe(x),
            expected="two or more axes of one length",
            found=str(tuple(x.shape)),
            remedy="pass the length itself: eo.diag_indices(min(x.shape), x.ndim)",
        )
    return _made("diag_indices", x.shape[0], x.ndim, device=x.device)


@explained
def indices(dimensions: Sequence[int], *, dtype: Any = None, sparse: bool = False) -> Any:
    """Return for each place of a grid its positions, along a new first axis.

    Positions carry no gradient.

    Parameters
    ----------
    dimensions : sequence of int
        The shape of the grid.
    dtype : dtype-like, default int64
        Of the result.
    sparse : bool, default False
        Return a tuple of tensors that broadcast to the grid instead.

    Returns
    -------
    Tensor
        Shape ``(len(dimensions), *dimensions)``, of `dtype`. If `sparse`, a tuple of tensors, each with its
        positions along an axis of its own and 1 elsewhere.

    Raises
    ------
    ShapeError
        If a size is negative.
    DTypeError
        If a size is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.indices((2, 2)))
    [[[0 0]
      [1 1]]
    <BLANKLINE>
     [[0 1]
      [0 1]]]
    """
    shape = normalize_shape(dimensions, "indices")
    backend, place = backend_for(None)
    wanted = as_dtype("int64" if dtype is None else dtype)
    sparse = as_flag(sparse, "sparse", "indices")
    found = backend.xp.indices(shape, dtype=wanted, sparse=sparse)
    if sparse:
        return tuple(fresh(backend.asarray(a, None, place)) for a in found)
    return fresh(backend.asarray(found, None, place))


# ---- flat and multiple indices


def _integers(x: Any, operation: str) -> Tensor:
    x = as_tensor(x)
    if x.dtype.kind not in "iu" and x.size:
        raise DTypeError(
            "positions must be integers",
            operation=operation,
            inputs=describe(x),
            expected="an integer dtype",
            found=str(x.dtype),
            remedy="convert them: x.astype(eo.int64)",
        )
    return op.astype(x, dtype=x.backend.xp.dtype("int64"))


def _outside(inputs: Sequence[Any], params: dict[str, Any], error: Exception) -> IndexingError | None:
    """Return the error for positions outside a shape."""
    if "out of bounds" not in str(error) and "invalid entry" not in str(error):
        return None
    return IndexingError(
        "a position is outside its axis",
        operation="unravel_index" if len(params) == 2 else "ravel_multi_index",
        inputs=describe(*inputs),
        expected=f"positions in a tensor of shape {params['shape']}",
        found=str(error),
        remedy="remove negative positions, or pass mode='wrap' where there is one",
    )


def _known_order(order: Any, operation: str) -> str:
    if not is_one_of(order, ("C", "F")):
        raise ArgumentError(
            "there is no such order", operation=operation, expected="C or F", found=repr(order)
        )
    return str(order)


@primitive(
    None,
    None,
    samples=lambda: [
        sample(Integers((4,), 6), shape=(2, 3), order="C"),
        sample(Integers((2, 2), 6), shape=(2, 3), order="F"),
    ],
    batch=unchanged,
    explain=_outside,
    **_DISCRETE,
)
def _unravel_index(xp: Any, x: Any, *, shape: tuple[int, ...], order: str) -> Any:
    return tuple(xp.asarray(a) for a in xp.unravel_index(x, shape, order))


@primitive(
    None,
    None,
    samples=lambda: [
        sample(Integers((4,), 2), Integers((4,), 3), shape=(2, 3), modes=("raise", "raise"), order="C"),
        sample(Integers((2, 1), 9), Integers((3,), 9), shape=(2, 3), modes=("wrap", "clip"), order="F"),
    ],
    batch=pointwise,
    broadcasts=True,
    explain=_outside,
    **_DISCRETE,
)
def _ravel_multi_index(
    xp: Any, *places: Any, shape: tuple[int, ...], modes: tuple[str, ...], order: str
) -> Any:
    return xp.asarray(xp.ravel_multi_index(places, shape, modes, order))


@explained
def unravel_index(x: Any, /, shape: int | Sequence[int], order: str = "C") -> tuple[Tensor, ...]:
    """Positions in a tensor of `shape`, one tensor for each axis, from positions in its flat order.

    Positions carry no gradient.

    Parameters
    ----------
    x : integer tensor
        Positions in the flattened tensor, of any shape.
    shape : int or sequence of int
        Of the tensor.
    order : {"C", "F"}, default "C"
        Whether the last axis changes fastest, or the first.

    Returns
    -------
    tuple of Tensor
        Of int64 and the shape of `x`, one for each axis.

    Raises
    ------
    IndexingError
        If a position is outside.
    ArgumentError
        If there is no such order.
    ShapeError
        If a size is negative.
    DTypeError
        If a position or a size is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> rows, columns = eo.unravel_index(eo.tensor([1, 5]), (2, 3))
    >>> print(rows, columns)
    [0 1] [1 2]
    """
    x = _integers(x, "unravel_index")
    sizes = normalize_shape(shape, "unravel_index")
    order = _known_order(order, "unravel_index")
    return apply(_unravel_index, (x,), {"shape": sizes, "order": order})


@explained
def ravel_multi_index(
    multi_index: Sequence[Any],
    dims: int | Sequence[int],
    /,
    mode: str | Sequence[str] = "raise",
    order: str = "C",
) -> Tensor:
    """Positions in the flat order of a tensor of shape `dims` from positions along its axes.

    Positions carry no gradient.

    Parameters
    ----------
    multi_index : sequence of integer tensors
        One for each axis; they broadcast.
    dims : sequence of int
        The shape.
    mode : {"raise", "wrap", "clip"} or a sequence of these, default "raise"
        What becomes of positions outside, along all axes or along each.
    order : {"C", "F"}, default "C"
        Whether the last axis changes fastest, or the first.

    Returns
    -------
    Tensor
        Of int64 and the broadcast shape.

    Raises
    ------
    ShapeError
        If there are not as many tensors, or modes, as axes, they do not broadcast, or a size is negative.
    IndexingError
        If a position is outside and the mode is "raise".
    ArgumentError
        If there is no such mode or order.
    DTypeError
        If a position or a size is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.ravel_multi_index(([0, 1], [1, 2]), (2, 3)))
    [1 5]
    """
    given = as_items(multi_index, "multi_index", "ravel_multi_index")
    places = [_integers(x, "ravel_multi_index") for x in given]
    sizes = normalize_shape(dims, "ravel_multi_index")
    modes = [mode] * len(sizes) if isinstance(mode, str) else as_items(mode, "mode", "ravel_multi_index")
    if not len(places) == len(sizes) == len(modes):
        raise ShapeError(
            "there must be positions for each axis",
            operation="ravel_multi_index",
            inputs=describe(*places),
            expected=f"{len(sizes)} tensors",
            found=f"{len(places)}",
            remedy="pass one tensor for each axis",
        )
    if not all(is_one_of(how, ("raise", "wrap", "clip")) for how in modes):
        raise ArgumentError(
            "there is no such mode",
            operation="ravel_multi_index",
            expected="raise, wrap or clip",
            found=repr(mode),
        )
    params = {"shape": sizes, "modes": tuple(modes), "order": _known_order(order, "ravel_multi_index")}
    return apply(_ravel_multi_index, places, params)
