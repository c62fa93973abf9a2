"""Edges of the bins of histograms: given, evenly spaced, or as many as a rule chooses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from everyo.core.batching import refused
from everyo.core.dispatch import apply
from everyo.core.dtypes import as_dtype
from everyo.core.registry import op
from everyo.core.samples import Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, describe
from everyo.ops.axes import as_integer
from everyo.ops.creation import as_tensor, real_number, weak
from everyo.ops.families import primitive
from everyo.ops.known import everywhere, fixed, look
from everyo.ops.ranges import linspace
from everyo.ops.shape import apart
from everyo.ops.signatures import explained

__all__ = ["histogram_bin_edges"]

_RULES = ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges")


@primitive(
    None,
    None,
    samples=lambda: [sample(Values([0.0, 1.0, 1.5, 4.0]), method="sturges", low=None, high=None)],
    batch=refused(
        "the number of bins differs from example to example",
        "pass the number of bins, or their edges",
    ),
    shaped_by_values=True,
    family="discrete",
    missing="its result is discrete",
)
def _chosen_edges(xp: Any, x: Any, *, method: str, low: float | None, high: float | None) -> Any:
    return xp.histogram_bin_edges(x, bins=method, range=None if low is None else (low, high))


def _bounds(range: Any, operation: str) -> tuple[float, float]:
    """Return the given ends of the bins."""
    try:
        low, high = (real_number(v, operation, "an end of the range") for v in range)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not low <= high or math.isinf(low) or math.isinf(high):
        raise ArgumentError(
            "there is no such range",
            operation=operation,
            expected="two finite numbers, the smaller one first",
            found=repr(range),
        )
    return low, high


def _require_finite(x: Tensor, operation: str, *ends: Tensor) -> None:
    inputs = describe(x)

    def check(*parts: Any) -> None:
        if not all(everywhere(op.isfinite(part)) for part in parts):
            raise _not_finite(inputs, operation)

    look(check, *(ends or (x,)))


def _not_finite(inputs: str, operation: str) -> ArgumentError:
    return ArgumentError(
        "the range of the elements is not finite",
        operation=operation,
        inputs=inputs,
        expected="finite elements, or a range",
        found="an infinity or NaN",
        remedy="pass range=(low, high), or the edges of the bins",
    )


def edges_of(x: Tensor, bins: Any, range: Any, operation: str) -> tuple[Tensor, bool]:
    """Return the edges of the bins, and whether they are evenly spaced."""
    if isinstance(bins, str):
        low, high = (None, None) if range is None else _bounds(range, operation)
        if range is None:
            _require_finite(x, operation)
        if bins not in _RULES:
            raise ArgumentError(
                "there is no such rule for the number of bins",
                operation=operation,
                expected=", ".join(_RULES),
                found=repr(bins),
                remedy="pass the number of bins, or their edges",
            )
        bins = apply(_chosen_edges, (x,), {"method": bins, "low": low, "high": high}).shape[0] - 1
    given = weak(bins, [x], operation) if x.dtype.kind == "f" else as_tensor(bins, x)
    if given.ndim:
        _require_order(given, bins, operation)
        return apart(given), False
    count = as_integer(bins, "the number of bins", operation)
    if count < 1:
        raise ArgumentError(
            "there must be at least one bin", operation=operation, expected="bins >= 1", found=str(count)
        )
    low, high = (0.0, 1.0) if range is None else _bounds(range, operation)
    if range is not None or not x.size:
        low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
        wide = x.dtype if x.dtype.kind == "f" else as_dtype("float64")
        return linspace(low, high, count + 1, dtype=wide, device=x.device), True
    ends = [op.astype(f(x, axis=None, keepdims=False), dtype=as_dtype("float64")) for f in (op.min, op.max)]
    _require_finite(x, operation, *ends)
    flat = op.equal(*ends)
    low, high = (op.where(flat, e + d, e) for e, d in zip(ends, (-0.5, 0.5)))
    numbers = x.backend.asarray(x.backend.xp.arange(count + 1.0), None, x.device)
    edges = op.where(numbers == count, high, (high - low) / count * numbers + low)
    return op.astype(edges, dtype=x.dtype) if x.dtype.kind == "f" else edges, True


def _require_order(edges: Tensor, given: Any, operation: str) -> None:
    vector = edges.ndim == 1 and edges.size > 0
    inputs = describe(edges)

    def check(edges: Any) -> None:
        if not everywhere(edges[:-1] <= edges[1:]):
            raise _no_edges(edges, operation, inputs)

    if not vector:
        raise _no_edges(edges, operation, inputs)
    known = fixed(given, operation)
    if known is None:
        look(check, edges)
    else:
        check(known)


def _no_edges(edges: Any, operation: str, inputs: str) -> ArgumentError:
    vector = len(edges.shape) == 1 and edges.shape[0] > 0
    return ArgumentError(
        "the edges must be numbers in ascending order",
        operation=operation,
        inputs=inputs,
        expected="edges that ascend" if vector else "a vector",
        found="one that is less than the one before it, or NaN" if vector else f"shape {tuple(edges.shape)}",
        remedy="sort them: eo.sort(bins)",
    )


def explanation(inputs: Sequence[Any], params: dict[str, Any], error: Exception) -> ArgumentError | None:
    """Return the error for values of elements and edges that were unknown before the kernel ran."""
    if not isinstance(error, ValueError):
        return None
    x, edges = inputs[-2:]
    return (
        _not_finite(describe(x), "histogram")
        if params["even"]
        else _no_edges(edges, "histogram", describe(edges))
    )


@explained
def histogram_bin_edges(x: Any, /, bins: Any = 10, range: Any = None, weights: Any = None) -> Tensor:
    """Edges of the bins that `histogram` would use.

    By default their gradient is that of the smallest and the largest element, between which they lie evenly.

    Parameters
    ----------
    x : tensor
        Real, of any shape.
    bins : int, tensor or str, default 10
        The number of bins of one width, their edges, or a rule for their number, as in `histogram`.
    range : pair of numbers, optional
        Where the bins begin and end; by default at the smallest and largest element.
    weights : tensor, optional
        Allowed for NumPy's sake; it changes nothing.

    Returns
    -------
    Tensor
        A vector with one element more than there are bins: of the dtype of `x`, or float64 for integers.
        Given edges stay as they are.

    Raises
    ------
    ArgumentError
        If the bins or the range make no sense, or the elements are not finite and there is no range.
    DTypeError
        If the number of bins is no integer.
    UnsupportedOperationError, CompileError
        If a rule chooses the number of bins under `vmap` or `compile`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.histogram_bin_edges(eo.tensor([1.0, 5.0]), bins=2))
    [1. 3. 5.]
    """
    return edges_of(flattened(as_tensor(x)), bins, range, "histogram_bin_edges")[0]


def flattened(x: Tensor) -> Tensor:
    """Return the elements as a vector."""
    return x if x.ndim == 1 else op.reshape(x, shape=(math.prod(x.shape),))
