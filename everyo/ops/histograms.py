"""Counts of values: bincount and histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from everyo.core.batching import looped, refused
from everyo.core.device import backend_for, backend_of
from everyo.core.dispatch import apply
from everyo.core.dtypes import as_dtype, float16, float32, float64
from everyo.core.operands import array_from
from everyo.core.registry import op
from everyo.core.samples import Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, ShapeError, describe
from everyo.ops.axes import as_flag, as_integer, as_items
from everyo.ops.bin_edges import edges_of, explanation, flattened
from everyo.ops.creation import as_tensor, as_tensors, weak
from everyo.ops.families import primitive
from everyo.ops.known import is_known
from everyo.ops.reductions import inexact
from everyo.ops.signatures import explained
from everyo.ops.splitting import unstack

__all__ = ["bincount", "histogram", "histogram2d", "histogramdd"]

_DISCRETE: dict[str, Any] = {"family": "discrete", "missing": "its result is discrete"}
Histogram = tuple[Tensor, Tensor]


@primitive(
    None,
    None,
    samples=lambda: [sample(Values([0, 3, 1, 3]), minlength=0), sample(Values([1, 1]), minlength=4)],
    batch=refused(
        "the largest number, which decides how many counts there are, differs from example to example",
        "add to zeros of a fixed length instead: eo.index_add(eo.zeros(n), x, weights)",
    ),
    shaped_by_values=True,
    **_DISCRETE,
)
def _bincount(xp: Any, x: Any, *, minlength: int) -> Any:
    return xp.bincount(x, minlength=minlength)


@explained
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each of the numbers 0, 1, 2, ... occurs, or the sum of the weights where it does.

    The gradient of each weight is that of the sum it went into. The length of the result depends on the
    values, so there is no `vmap` over `x`, nor can `compile` trace it.

    Parameters
    ----------
    x : integer tensor
        A vector of numbers, none negative.
    weights : tensor, optional
        Of the shape of `x`.
    minlength : int, default 0
        The least length of the result.

    Returns
    -------
    Tensor
        A vector as long as the largest number and one more; int64, or of the dtype of the weights, float64
        if these are integers.

    Raises
    ------
    ShapeError
        If `x` is no vector, or the weights have another shape.
    DTypeError
        If `x` is no integer tensor, or `minlength` no integer.
    ArgumentError
        If a number is negative.
    UnsupportedOperationError, CompileError
        Under `vmap` over `x`, or if `x` is known only under `compile`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.bincount(eo.tensor([0, 2, 2]), weights=eo.tensor([1.0, 0.5, 0.25])))
    [1.   0.   0.75]
    """
    array = x if isinstance(x, Tensor) else _as_array(x)
    if array.ndim != 1 or array.dtype.kind not in "biu":
        kind = ShapeError if array.ndim != 1 else DTypeError
        raise kind(
            "what is counted must be a vector of integers",
            operation="bincount",
            inputs=describe(array),
            expected="one axis and an integer dtype",
            found=f"{array.dtype} of shape {tuple(array.shape)}",
            remedy="flatten it, or convert it: x.astype(eo.int64)",
        )
    minlength = as_integer(minlength, "minlength", "bincount")
    known = None if isinstance(x, Tensor) and not is_known(x) else array
    known = known.data if isinstance(known, Tensor) else known
    low = _extreme(op.min, known, 0)
    if low < 0 or minlength < 0:
        raise ArgumentError(
            "a number is negative" if low < 0 else "there are no negative counts",
            operation="bincount",
            inputs=describe(array),
            expected="numbers of at least 0",
            found=str(low) if low < 0 else f"minlength={minlength}",
        )
    if weights is None:
        return apply(_bincount, (as_tensor(array),), {"minlength": minlength})
    weights = as_tensor(weights)
    numbers = as_tensor(array, weights)
    numbers = op.astype(numbers, dtype=as_dtype("int64")) if numbers.dtype.kind == "b" else numbers
    if tuple(weights.shape) != tuple(numbers.shape):
        raise _misfit("bincount", numbers, weights)
    if known is not None:
        length = max(_extreme(op.max, known, -1) + 1, minlength)
    else:  # as long as the counts, where these can be known
        length = apply(_bincount, (numbers,), {"minlength": minlength}).shape[0]
    return _rounded(_sums(weights, numbers, length), weights.dtype)


def _extreme(extreme: Any, numbers: Any, otherwise: int) -> int:
    """Return the largest or smallest of some numbers, which may be unknown or none."""
    if numbers is None or not numbers.size:
        return otherwise
    return int(extreme(numbers, axis=None, keepdims=False))


def _as_array(data: Any) -> Any:
    """Return data that are no tensor as an array, an empty list as one of integers."""
    backend, place = backend_for(None)
    own = backend_of(data)
    array = data if own is not None else array_from(data, backend, place, "bincount")
    return array if array.size or own is not None else backend.asarray(data, "int64", place)


def _misfit(operation: str, x: Tensor, weights: Tensor) -> ShapeError:
    return ShapeError(
        "there must be a weight for each element",
        operation=operation,
        inputs=describe(x, weights),
        expected=f"shape {tuple(x.shape)}",
        found=str(tuple(weights.shape)),
        remedy="broadcast the weights first",
    )


def _sums(weights: Any, places: Any, length: int) -> Tensor:
    """Return the sum of the weights at each of `length` places, in double precision as in NumPy."""
    wide = as_dtype("complex128") if weights.dtype.kind == "c" else float64
    weights = weights if weights.dtype == wide else op.astype(weights, dtype=wide)
    return apply(op.scatter_along_axis, (weights, places), {"axis": 0, "shape": (length,)})


def _rounded(sums: Tensor, *dtypes: Any) -> Tensor:
    """Return sums in the dtype of the floats that they come from; those of integers stay in float64."""
    dtype = sums.backend.xp.result_type(*(float64 if d.kind in "biu" else d for d in dtypes))
    return sums if sums.dtype == dtype else op.astype(sums, dtype=dtype)


# ---- histograms


@primitive(
    None,
    None,
    samples=lambda: [
        sample(Values([0.5, 1.0, 2.0, 7.0]), Values([0.0, 1.0, 2.0]), even=True),
        sample(Values([0.5, 1.0, 2.0, 7.0]), Values([0.0, 1.0, 5.0]), even=False),
    ],
    batch=looped,
    explain=explanation,
    **_DISCRETE,
)
def _histogram(xp: Any, x: Any, edges: Any, *, even: bool) -> Any:
    """Return how many elements lie between neighbouring edges; `even` says that these are evenly spaced."""
    return _counted(xp, x, edges, even)


def _counted(xp: Any, x: Any, edges: Any, even: bool, weights: Any = None) -> Any:
    if "c" in (x.dtype.kind, edges.dtype.kind):
        raise TypeError("there is no order of complex numbers")
    ends = (float(edges[0]), float(edges[-1]))
    if not (all(map(math.isfinite, ends)) if even else xp.all(edges[:-1] <= edges[1:])):
        raise ValueError("the edges are no numbers in ascending order")
    if even and ends[0] < ends[1]:
        return xp.histogram(x, bins=edges.shape[0] - 1, range=ends, weights=weights)[0]
    return xp.histogram(x, bins=edges, weights=weights)[0]


def _weights_of(g: Any, x: Any, edges: Any) -> Any:
    places, inside = _bins(x, edges)
    return op.where(inside, op.take_along_axis(g, places, axis=0), 0)


@primitive(
    vjp=(_weights_of, None, None),
    jvp=(lambda t, x, edges, even: op.histogram_weights(t, x, edges, even=even), None, None),
    missing="sums over bins jump where an element passes an edge",
    samples=lambda: [
        sample((4,), Values([0.5, 1.0, 2.0, 7.0]), Values([0.0, 1.0, 2.0]), even=True),
        sample((4,), Values([0.5, -1.0, 5.0, 1.0]), Values([0.0, 1.0, 5.0]), even=False),
    ],
    batch=looped,
    explain=explanation,
)
def _histogram_weights(xp: Any, weights: Any, x: Any, edges: Any, *, even: bool) -> Any:
    """Return the sum of the weights of the elements between neighbouring edges."""
    weights = xp.astype(weights, xp.int64) if weights.dtype.kind == "b" else weights
    wide = xp.astype(weights, float32) if weights.dtype == float16 else weights
    return xp.asarray(_counted(xp, x, edges, even, wide), dtype=weights.dtype)


def _bins(x: Any, edges: Any) -> tuple[Any, Any]:
    """Return the number of each element's bin, -1 or the last one outside, and whether it lies inside."""
    last = edges.shape[0] - 2
    places = op.searchsorted(edges, x, side="right") - 1
    inside = op.logical_and(
        op.greater_equal(x, op.getitem(edges, index=(0,))), op.less_equal(x, op.getitem(edges, index=(-1,)))
    )
    return op.minimum(places, last), inside


@explained
def histogram(
    x: Any, /, bins: Any = 10, range: Any = None, density: bool = False, weights: Any = None
) -> Histogram:
    """Count the elements in each of several bins, or add up their weights.

    Counts are piecewise constant: they have no derivative in `x`. The gradient of each weight is that of
    the bin it went into. Edges between the smallest and largest element have a gradient, and so has a
    density through their distances.

    Parameters
    ----------
    x : tensor
        Real, of any shape.
    bins : int, tensor or str, default 10
        The number of bins of one width, their edges, or a rule for their number: "auto", "fd", "doane",
        "scott", "stone", "rice", "sturges", "sqrt".
    range : pair of numbers, optional
        Where the bins begin and end; by default at the smallest and largest element.
    density : bool, default False
        Divide by the sum and the widths, so that the integral is 1.
    weights : tensor, optional
        Of the shape of `x`.

    Returns
    -------
    counts, edges : Tensor
        A vector with an element for each bin, and one with one more. All bins but the last are half-open:
        their right edge is not in them.

    Raises
    ------
    ArgumentError
        If the bins or the range make no sense, or the elements are not finite and there is no range.
    ShapeError
        If the weights have another shape.
    DTypeError
        If `x` is complex, or the number of bins no integer.
    UnsupportedOperationError, CompileError
        If a rule chooses the number of bins under `vmap` or `compile`.

    Examples
    --------
    >>> import everyo as eo
    >>> counts, edges = eo.histogram(eo.tensor([1.0, 2.0, 1.0]), bins=[0.0, 1.0, 2.0, 3.0])
    >>> print(counts)
    [0 2 1]
    """
    x = as_tensor(x)
    if x.dtype.kind == "c":
        raise DTypeError(
            "there is no order of complex numbers",
            operation="histogram",
            inputs=describe(x),
            expected="a real dtype",
            found=str(x.dtype),
            remedy="take the real part, or the absolute value",
        )
    if weights is not None:
        weights = weak(weights, [x], "histogram") if x.dtype.kind == "f" else as_tensor(weights, x)
        if tuple(weights.shape) != tuple(x.shape):
            raise _misfit("histogram", x, weights)
    x = op.astype(flattened(x), dtype=as_dtype("uint8")) if x.dtype.kind == "b" else flattened(x)
    edges, even = edges_of(x, bins, range, "histogram")
    fixed = (x.detach(), edges.detach())
    if weights is None:
        counts = apply(_histogram, fixed, {"even": even})
    else:
        counts = apply(_histogram_weights, (flattened(weights), *fixed), {"even": even})
    if as_flag(density, "density", "histogram"):
        counts = _density(counts, [edges])
    return counts, edges


def _density(counts: Tensor, edges: Sequence[Tensor], *dtypes: Any) -> Tensor:
    """Return counts divided by their sum and the sizes of their cells, in the dtype of counts and edges.

    `dtypes` are those of counts that were kept in a wider one.
    """
    edges = [inexact(e) for e in edges]  # differences of small integers would wrap around
    dtypes = (*(dtypes or (counts.dtype,)), *(e.dtype for e in edges))
    counts = op.astype(counts, dtype=float32) if counts.dtype == float16 else counts  # sums would overflow
    counts = counts / op.sum(counts, axis=None, keepdims=False)
    for i, e in enumerate(edges):
        widths = op.getitem(e, index=(slice(1, None),)) - op.getitem(e, index=(slice(None, -1),))
        counts = counts / op.reshape(widths, shape=(widths.size, *(1,) * (len(edges) - i - 1)))
    return _rounded(counts, *dtypes)


@explained
def histogramdd(
    sample: Any, /, bins: Any = 10, range: Any = None, density: bool = False, weights: Any = None
) -> tuple[Tensor, list[Tensor]]:
    """Count points in the cells of a grid, or add up their weights; gradients are those of `histogram`.

    Parameters
    ----------
    sample : tensor or sequence of tensors
        A matrix with a point in each row, or a vector for each coordinate.
    bins : int, or sequence of int or tensor, default 10
        The number of bins along each axis, or their edges.
    range : sequence of pairs, optional
        Where the bins begin and end along each axis.
    density : bool, default False
        Divide by the sum and the volumes of the cells.
    weights : tensor, optional
        A weight for each point.

    Returns
    -------
    counts : Tensor
        With an axis for each coordinate; of the dtype of the weights, float64 without
        them or if they are integers.
    edges : list of Tensor
        The edges of the bins along each axis.

    Raises
    ------
    ShapeError
        If bins or ranges do not fit the coordinates, or weights the points.
    ArgumentError
        If the bins or a range make no sense, or the coordinates are not finite and there is no range.
    DTypeError
        If a number of bins is no integer, or `range` no sequence.

    Examples
    --------
    >>> import everyo as eo
    >>> counts, edges = eo.histogramdd(eo.tensor([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]]), bins=2)
    >>> print(counts)
    [[1. 0.]
     [1. 1.]]
    """
    return _of_points(sample, bins, range, density, weights, "histogramdd")


def _of_points(
    sample: Any, bins: Any, range: Any, density: Any, weights: Any, operation: str
) -> tuple[Tensor, list[Tensor]]:
    """Return counts and edges; `operation` is the function that was called."""
    if isinstance(sample, (list, tuple)):
        columns = [flattened(v) for v in as_tensors(sample, operation)]
        if not columns:
            raise ShapeError(
                "the points have no coordinates",
                operation=operation,
                expected="at least one vector",
                found="none",
                remedy="give a vector for each coordinate",
            )
    else:
        points = as_tensor(sample)
        points = op.reshape(points, shape=(points.size, 1)) if points.ndim == 1 else points
        if points.ndim != 2:
            raise ShapeError(
                "the points must be the rows of a matrix",
                operation=operation,
                inputs=describe(points),
                expected="shape (n, d), or a list of d vectors",
                found=f"shape {tuple(points.shape)}",
                remedy="reshape them: points.reshape(-1, points.shape[-1])",
            )
        columns = list(unstack(points, axis=1))
    for column in columns[1:]:
        if column.shape != columns[0].shape:
            raise ShapeError(
                "the coordinates must be as many along each axis",
                operation=operation,
                inputs=describe(*columns),
                expected=f"shape {tuple(columns[0].shape)}",
                found=f"shape {tuple(column.shape)}",
                remedy="give one of each for every point",
            )
    rank = len(columns)
    each = list(bins) if isinstance(bins, Sequence) and not isinstance(bins, str) else [bins] * rank
    ranges = [None] * rank if range is None else as_items(range, "range", operation)
    if len(each) != rank or len(ranges) != rank:
        raise ShapeError(
            "bins and ranges must be as many as the coordinates",
            operation=operation,
            inputs=describe(*columns),
            expected=str(rank),
            found=f"{len(each)} bins and {len(ranges)} ranges",
            remedy="give one for each coordinate, or one number of bins for all",
        )
    edges = [edges_of(x, b, r, operation)[0] for x, b, r in zip(columns, each, ranges)]
    shape = tuple(e.shape[0] - 1 for e in edges)
    flat: Any = 0
    inside: Any = True
    for x, e, n in zip(columns, edges, shape):
        place, within = _bins(x.detach(), e.detach())
        flat, inside = flat * n + op.maximum(place, 0), op.logical_and(within, inside)
    weights = columns[0].backend.xp.ones(columns[0].shape) if weights is None else weights
    weights = weak(weights, [columns[0]], operation)
    if tuple(weights.shape) != tuple(columns[0].shape):
        raise _misfit(operation, columns[0], weights)
    counts = op.reshape(_sums(op.where(inside, weights, 0), flat, math.prod(shape)), shape=shape)
    if as_flag(density, "density", operation):
        return _density(counts, edges, weights.dtype), edges
    return _rounded(counts, weights.dtype), edges


@explained
def histogram2d(
    x: Any, y: Any, /, bins: Any = 10, range: Any = None, density: bool = False, weights: Any = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Count points of the plane in the cells of a grid; otherwise as `histogramdd`.

    The gradients are those of `histogram`: each weight has that of the cell it went into.

    Parameters
    ----------
    x, y : tensor
        The coordinates of the points, vectors.
    bins : int, pair of int or tensor, or tensor, default 10
        The number of bins along each axis, or their edges; those of one vector serve for both.
    range : pair of pairs, optional
        Where the bins begin and end along each axis.
    density : bool, default False
        Divide by the sum and the areas of the cells.
    weights : tensor, optional
        A weight for each point.

    Returns
    -------
    counts : Tensor
        With an axis for `x` and one for `y`; of the dtype of the weights, float64 without
        them or if they are integers.
    x_edges, y_edges : Tensor
        The edges of the bins along each axis.

    Raises
    ------
    ShapeError
        If bins or ranges are not two, or weights do not fit the points.
    ArgumentError
        If the bins or a range make no sense, or the coordinates are not finite and there is no range.
    DTypeError
        If a number of bins is no integer, or `range` no sequence.

    Examples
    --------
    >>> import everyo as eo
    >>> counts, xs, ys = eo.histogram2d(eo.tensor([0.0, 1.0, 1.0]), eo.tensor([0.0, 1.0, 0.0]), bins=2)
    >>> print(counts)
    [[1. 0.]
     [1. 1.]]
    """
    array = hasattr(bins, "shape") and not isinstance(bins, type)
    if (bins.shape if array else isinstance(bins, (list, tuple))) and len(bins) not in (1, 2):
        bins = [bins, bins]
    counts, (xs, ys) = _of_points([x, y], bins, range, density, weights, "histogram2d")
    return counts, xs, ys
