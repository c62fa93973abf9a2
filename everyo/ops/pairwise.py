"""Euclidean distances of all pairs of points, without an array of all differences.

Derivatives of any order need two sums over directions, differences divided by their lengths: no square of a
length is taken, which leaves the range long before a derivative does. Points of few coordinates are
subtracted one coordinate at a time. For more, products of matrices are quicker, but lose the digits of points
that are close for their distance from the mean: these pairs are subtracted afterwards, and all if there are
many.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from everyo.backends.accelerated import fused
from everyo.core.batching import everywhere, trailing
from everyo.core.device import backend_of
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.ops.arithmetic import ratio_or_zero
from everyo.ops.families import linear, primitive
from everyo.ops.units import unit_of

__all__: list[str] = []

_BLOCK = 1 << 15  # differences at a time, so that they stay in the cache
_WIDE = 12  # coordinates from which on products of matrices pay
_CLOSE = 0.125  # a squared distance below this part of the squared distances from the mean loses digits
_MANY = 0.02  # part of the pairs
_LENGTHS = Values([[1.5, 0.0, 2.0], [0.5, 1.0, 2.5]])


def require_real(points: Any) -> None:
    """Raise TypeError, which the engine explains, for complex points."""
    if points.dtype.kind == "c":
        raise TypeError("the points must be real")


def _transposed(x: Any) -> Any:
    return op.matrix_transpose(x)


def _row_sums(x: Any) -> Any:
    return op.sum(x, axis=(x.ndim - 1,), keepdims=True)


def blocks(xp: Any, x1: Any, x2: Any) -> Iterator[tuple[Any, Iterator[Any]]]:
    """Yield some rows of the first points, and their differences to all of the second by coordinate."""
    x1, x2 = (xp.ascontiguousarray(xp.matrix_transpose(x)) for x in (x1, x2))
    width = max(x2[..., 0:1, :].size, 1)
    step = max(_BLOCK // width, 1)
    for start in range(0, x1.shape[-1], step):
        rows = slice(start, start + step)
        yield rows, (xp.outer_differences(x1[..., k, rows], x2[..., k, :]) for k in range(x1.shape[-2]))


class _Centred(NamedTuple):
    """Two matrices of points, around a mean of theirs, and the pairs that are too close for products."""

    first: Any
    second: Any
    squares: Any  # of the distances
    close: tuple[Any, Any]
    differences: Any  # of the close pairs


def _centred(xp: Any, x1: Any, x2: Any) -> _Centred | None:
    """Return points as `_Centred`, or None where their differences must or can as well be taken."""
    if x1.ndim != 2 or x1.shape[1] < _WIDE or x1.dtype.kind != "f" or not (x1.size and x2.size):
        return None
    with xp.errstate(all="ignore"):
        mean = xp.mean(x2, axis=0, dtype="float64")
        first, second = x1 - mean, x2 - mean
        norms = [xp.vecdot(x, x) for x in (first, second)]
        total = norms[0][:, None] + norms[1]
        squares = total - 2 * (first @ xp.matrix_transpose(second))
        total *= _CLOSE
        limits = xp.finfo(squares.dtype)
        if not (xp.max(total) < limits.max**0.5 and xp.min(total) > limits.tiny**0.5):
            return None
    close = xp.nonzero(squares < total)
    if close[0].size > _MANY * squares.size:
        return None
    differences = xp.astype(x1[close[0]], "float64") - x2[close[1]]
    return _Centred(first, second, squares, close, differences)


def _sums(xp: Any, w: Any, x1: Any, x2: Any) -> Any:
    """``sum_j w[i, j] (x1[i, k] - x2[j, k])``."""
    centred = _centred(xp, x1, x2) if w.dtype.kind == "f" and xp.all(xp.isfinite(w)) else None
    if centred is not None:
        far = xp.array(w)
        far[centred.close] = 0
        total = xp.sum(far, axis=1)[:, None] * centred.first - far @ centred.second
        near = w[centred.close][:, None] * centred.differences
        total += xp.assemble([(centred.close[0],)], [near], [True], total.shape, total.dtype)
        return xp.astype(total, x1.dtype, copy=False)
    out = xp.zeros(x1.shape, dtype=x1.dtype)
    if _lies_transposed(w):
        turned = xp.matrix_transpose(w)
        for rows, coordinates in blocks(xp, x2, x1):
            for k, differences in enumerate(coordinates):
                differences *= turned[..., rows, :]
                out[..., k] -= xp.sum(differences, axis=-2)
        return out
    for rows, coordinates in blocks(xp, x1, x2):
        for k, differences in enumerate(coordinates):
            differences *= w[..., rows, :]
            out[..., rows, k] = xp.sum(differences, axis=-1)
    return out


def _lies_transposed(w: Any) -> bool:
    """Whether the columns of matrices lie in memory one after the other."""
    strides: Any = getattr(w, "strides", ())
    return len(strides) > 1 and strides[-2] < strides[-1]


def _dots(xp: Any, v: Any, x1: Any, x2: Any) -> Any:
    """``sum_k v[i, k] (x1[i, k] - x2[j, k])``."""
    centred = _centred(xp, x1, x2) if v.dtype.kind == "f" and xp.all(xp.isfinite(v)) else None
    if centred is not None:
        dots = xp.vecdot(v, centred.first)[:, None] - v @ xp.matrix_transpose(centred.second)
        dots[centred.close] = xp.vecdot(v[centred.close[0]], centred.differences)
        return xp.astype(dots, x1.dtype, copy=False)
    out = xp.zeros((*x1.shape[:-1], x2.shape[-2]), dtype=x1.dtype)
    for rows, coordinates in blocks(xp, x1, x2):
        total: Any = 0
        for k, differences in enumerate(coordinates):
            differences *= v[..., rows, k, None]
            total += differences
        out[..., rows, :] = total
    return out


def _repeated(function: Any, inputs: Any, mapped: Any, size: int, params: Any) -> Any:
    return function(*everywhere(inputs, mapped, size), **params)


@primitive(
    None,
    None,
    samples=lambda: [sample((2, 3), (2, 3)), sample((2, 1, 3), (2, 1, 3)), sample((0, 3), (0, 3))],
    batch=_repeated,
    missing="its result is discrete",
    specs=lambda examples, params: [((*examples[0].shape[:-2], 1, 1), examples[1].dtype)],
)
def _ratio_unit(xp: Any, g: Any, out: Any) -> Any:
    """Return a power of two, for each matrix, in which quotients of `g` and `out` are in the range.

    It is 1 where they are. Where some would overflow and others underflow, the first count.
    """
    limits = xp.finfo(out.dtype)
    above, below = (f(g, axis=(-2, -1), keepdims=True, initial=0.0) for f in (xp.amax, xp.amin))
    least = xp.amin(out, axis=(-2, -1), keepdims=True, where=out > 0, initial=float(limits.max))
    most = xp.amax(out, axis=(-2, -1), keepdims=True, initial=0.0)
    size, shortest, longest = (xp.frexp(x)[1] for x in (xp.maximum(above, -below), least, most))
    deficit = xp.minimum(size - longest - int(limits.minexp), 0)
    bound = int(limits.maxexp) - 2
    excess = size - shortest - bound
    return xp.ldexp(xp.ones_like(least), xp.clip(xp.maximum(deficit, excess), -bound, bound))


@fused
def _quotients_in(g: Any, unit: Any, lengths: Any) -> Any:
    return ratio_or_zero(g / unit, lengths)


def _weights(g: Any, lengths: Any) -> tuple[Any, Any]:
    """Return ``g / lengths`` in a unit, and that: 1 but where such quotients leave the range."""
    unit = op.ratio_unit(g, lengths)
    return _quotients_in(g, unit, lengths), unit


def _pulls_vjp(c: Any, needs: Any, g: Any, x1: Any, x2: Any, lengths: Any) -> Any:
    w, unit = _weights(g, lengths)
    pushed = op.pair_pushes(c, x1, x2, lengths) if needs[0] or needs[3] else None
    return (
        pushed if needs[0] else None,
        c * _row_sums(w) * unit if needs[1] else None,
        -op.matmul(_transposed(w), c) * unit if needs[2] else None,
        -(w * pushed) * unit if needs[3] else None,
    )


def _pulls_by_first(t: Any, g: Any, lengths: Any) -> Any:
    w, unit = _weights(g, lengths)
    return t * _row_sums(w) * unit


def _pulls_by_second(t: Any, g: Any, lengths: Any) -> Any:
    w, unit = _weights(g, lengths)
    return -op.matmul(w, t) * unit


def _pulls_by_lengths(t: Any, g: Any, x1: Any, x2: Any, lengths: Any) -> Any:
    w, unit = _weights(g, lengths)
    return -op.pair_pulls(w * t * unit, x1, x2, lengths)


def _pull_samples() -> list[Sample]:
    return [
        sample((2, 3), (2, 2), (3, 2), _LENGTHS),
        sample((2, 3), (2, 13), (3, 13), _LENGTHS),
        sample((2, 1, 3), (2, 1, 2), (2, 3, 2), (2, 1, 3)),
        sample((0, 2), (0, 3), (2, 3), (0, 2)),
        sample((2, 3), (2, 0), (3, 0), _LENGTHS),
    ]


@primitive(
    vjp=_pulls_vjp,
    jvp=(
        lambda t, x1, x2, lengths: op.pair_pulls(t, x1, x2, lengths),
        _pulls_by_first,
        _pulls_by_second,
        _pulls_by_lengths,
    ),
    samples=_pull_samples,
    domain=((-2.0, 2.0), (-2.0, 2.0), (-2.0, 2.0), (0.5, 2.0)),
    batch=trailing(2),
)
def _pair_pulls(xp: Any, g: Any, x1: Any, x2: Any, lengths: Any) -> Any:
    """``sum_j g[i, j] (x1[i, k] - x2[j, k]) / lengths[i, j]``, without what has the length 0."""
    require_real(g)
    w, unit = _weights(g, lengths)
    return _sums(xp, w, x1, x2) * unit


def _pushes_vjp(c: Any, needs: Any, v: Any, x1: Any, x2: Any, lengths: Any, out: Any) -> Any:
    w, unit = _weights(c, lengths)
    return (
        op.pair_pulls(c, x1, x2, lengths) if needs[0] else None,
        v * _row_sums(w) * unit if needs[1] else None,
        -op.matmul(_transposed(w), v) * unit if needs[2] else None,
        -(w * out) * unit if needs[3] else None,
    )


def _pushes_by_first(t: Any, v: Any, lengths: Any) -> Any:
    unit = unit_of(v, 1)
    return ratio_or_zero(_row_sums(t * (v / unit)), lengths) * unit  # the same for all of the second points


def _pushes_by_second(t: Any, v: Any, lengths: Any) -> Any:
    unit = unit_of(v, 1)
    return -ratio_or_zero(op.matmul(v / unit, _transposed(t)), lengths) * unit


def _push_samples() -> list[Sample]:
    return [
        sample((2, 2), (2, 2), (3, 2), _LENGTHS),
        sample((2, 13), (2, 13), (3, 13), _LENGTHS),
        sample((2, 1, 2), (2, 1, 2), (2, 3, 2), (2, 1, 3)),
        sample((0, 3), (0, 3), (2, 3), (0, 2)),
        sample((2, 0), (2, 0), (3, 0), _LENGTHS),
    ]


@primitive(
    vjp=_pushes_vjp,
    jvp=(
        lambda t, x1, x2, lengths: op.pair_pushes(t, x1, x2, lengths),
        _pushes_by_first,
        _pushes_by_second,
        lambda t, lengths, out: -(t / op.where(lengths == 0, 1, lengths) * out),
    ),
    samples=_push_samples,
    domain=((-2.0, 2.0), (-2.0, 2.0), (-2.0, 2.0), (0.5, 2.0)),
    batch=trailing(2),
)
def _pair_pushes(xp: Any, v: Any, x1: Any, x2: Any, lengths: Any) -> Any:
    """``sum_k v[i, k] (x1[i, k] - x2[j, k]) / lengths[i, j]``, and 0 where the length is 0."""
    require_real(v)
    unit = unit_of(v, 1)
    out = _dots(xp, v / unit, x1, x2)
    zero = lengths == 0
    touching = bool(xp.any(zero))
    out /= xp.where(zero, 1, lengths) if touching else lengths
    out *= unit
    if touching:
        out[zero] = 0
    return out


def _distance_samples() -> list[Sample]:
    first, second = ([[math.cos(i * (k + 1) ** 2 + m) for k in range(12)] for i in range(8)] for m in (0, 2))
    second[3] = [x + 0.1 for x in first[5]]
    return [
        sample(Values(first), Values(second)),
        sample((2, 3), (4, 3)),
        sample((2, 13), (3, 13)),
        sample((2, 1, 2), (2, 3, 2)),
        sample((0, 3), (2, 3)),
        sample(Values([[1.0, 2.0], [0.5, -1.0]]), Values([[0.0, 1.5], [2.0, -0.7], [1.1, 2.3]])),
    ]


def _distance_vjp(g: Any, needs: Any, x1: Any, x2: Any, out: Any) -> Any:
    if isinstance(g, Tensor):  # this may be differentiated again
        return (
            op.pair_pulls(g, x1, x2, out) if needs[0] else None,
            op.pair_pulls(_transposed(g), x2, x1, _transposed(out)) if needs[1] else None,
        )
    backend, (w, unit) = backend_of(x1), _weights(g, out)  # the same for both
    assert backend is not None
    xp = backend.xp
    return (
        _sums(xp, w, x1, x2) * unit if needs[0] else None,
        _sums(xp, _transposed(w), x2, x1) * unit if needs[1] else None,
    )


@primitive(
    vjp=_distance_vjp,
    jvp=(
        lambda t, x1, x2, out: op.pair_pushes(t, x1, x2, out),
        lambda t, x1, x2, out: _transposed(op.pair_pushes(t, x2, x1, _transposed(out))),
    ),
    samples=_distance_samples,
    batch=trailing(2),
)
def _pair_distances(xp: Any, x1: Any, x2: Any) -> Any:
    """Lengths of the differences of real points, without over- or underflow; slope 0 where one is 0."""
    require_real(x1)
    centred = _centred(xp, x1, x2)
    if centred is not None:
        lengths = xp.sqrt(xp.maximum(centred.squares, 0))
        near = op.vector_norm(centred.differences, axis=(1,), keepdims=False, ord=2)
        lengths[centred.close] = near
        return xp.astype(lengths, x1.dtype, copy=False)
    out = xp.point_distances(x1, x2, 2)
    if out is not None:
        return _in_range(xp, out, x1, x2)
    out = xp.zeros((*x1.shape[:-1], x2.shape[-2]), dtype=x1.dtype)
    for rows, coordinates in blocks(xp, x1, x2):
        total: Any = 0.0
        with xp.errstate(over="ignore", under="ignore"):
            for k, differences in enumerate(coordinates):
                differences *= differences
                total = xp.add(total, differences, out=total) if k else differences
        _in_range(xp, xp.sqrt(total, out=out[..., rows, :]), x1[..., rows, :], x2)
    return out


def _in_range(xp: Any, lengths: Any, x1: Any, x2: Any) -> Any:
    """Compute those lengths again whose squares may have left the range of the floats, and zeros."""
    limits = xp.finfo(lengths.dtype)
    least, most = limits.tiny**0.25, limits.max**0.25
    if lengths.size and not least < xp.min(lengths) <= xp.max(lengths) < most:
        *lead, i, j = places = xp.nonzero(~((lengths > least) & (lengths < most)))
        vectors = x1[(*lead, i)] - x2[(*lead, j)]
        lengths[places] = op.vector_norm(vectors, axis=(1,), keepdims=False, ord=2)
    return lengths


def _difference_samples() -> list[Sample]:
    return [
        sample((2, 3), (4, 3)),
        sample((2, 1, 2), (2, 3, 2)),
        sample((0, 3), (2, 3)),
        sample((2, 0), (3, 0)),
    ]


@linear(
    (
        lambda g: _transposed(op.sum(g, axis=(len(g.shape) - 1,), keepdims=False)),
        lambda g: -_transposed(op.sum(g, axis=(len(g.shape) - 2,), keepdims=False)),
    ),
    samples=_difference_samples,
    batch=trailing(2),
)
def _pair_differences(xp: Any, x1: Any, x2: Any) -> Any:
    """Differences of all pairs of points, ``(..., d, n, m)``: long rows of each coordinate."""
    first, second = (xp.ascontiguousarray(xp.matrix_transpose(x)) for x in (x1, x2))
    return xp.outer_differences(first, second)
