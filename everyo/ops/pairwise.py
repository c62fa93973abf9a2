"""Euclidean distances of all pairs of points, without an array of all differences.

Derivatives of any order need two sums over differences. Points of few coordinates are subtracted one
coordinate at a time. For more, products of matrices are quicker, but lose the digits of points that are
close for their distance from the mean: these pairs are subtracted afterwards, and all if there are many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from everyo.core.batching import everywhere, trailing
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.ops.arithmetic import ratio_or_zero
from everyo.ops.families import linear, primitive

__all__: list[str] = []

_BLOCK = 1 << 15  # differences at a time, so that they stay in the cache
_WIDE = 12  # coordinates from which on products of matrices pay
_CLOSE = 0.125  # a squared distance below this part of the squared distances from the mean loses digits
_MANY = 0.02  # part of the pairs


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


def _pull_samples() -> list[Sample]:
    return [
        sample((2, 3), (2, 2), (3, 2)),
        sample((2, 3), (2, 13), (3, 13)),
        sample((2, 1, 3), (2, 1, 2), (2, 3, 2)),
        sample((0, 2), (0, 3), (2, 3)),
        sample((2, 3), (2, 0), (3, 0)),
    ]


@primitive(
    vjp=(
        lambda g, x1, x2: op.pair_dots(g, x1, x2),
        lambda g, w: g * _row_sums(w),
        lambda g, w: -op.matmul(_transposed(w), g),
    ),
    jvp=(
        lambda t, x1, x2: op.pair_sums(t, x1, x2),
        lambda t, w: t * _row_sums(w),
        lambda t, w: -op.matmul(w, t),
    ),
    samples=_pull_samples,
    batch=trailing(2),
)
def _pair_sums(xp: Any, w: Any, x1: Any, x2: Any) -> Any:
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


def _dot_samples() -> list[Sample]:
    return [
        sample((2, 2), (2, 2), (3, 2)),
        sample((2, 13), (2, 13), (3, 13)),
        sample((2, 1, 2), (2, 1, 2), (2, 3, 2)),
        sample((0, 3), (0, 3), (2, 3)),
        sample((2, 0), (2, 0), (3, 0)),
    ]


@primitive(
    vjp=(
        lambda g, x1, x2: op.pair_sums(g, x1, x2),
        lambda g, v: v * _row_sums(g),
        lambda g, v: -op.matmul(_transposed(g), v),
    ),
    jvp=(
        lambda t, x1, x2: op.pair_dots(t, x1, x2),
        lambda t, v: _row_sums(t * v),  # the same for all points of the second set
        lambda t, v: -op.matmul(v, _transposed(t)),
    ),
    samples=_dot_samples,
    batch=trailing(2),
)
def _pair_dots(xp: Any, v: Any, x1: Any, x2: Any) -> Any:
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


def _distance_samples() -> list[Sample]:
    return [
        sample((2, 3), (4, 3)),
        sample((2, 13), (3, 13)),
        sample((2, 1, 2), (2, 3, 2)),
        sample((0, 3), (2, 3)),
        sample(Values([[1.0, 2.0], [0.5, -1.0]]), Values([[0.0, 1.5], [2.0, -0.7], [1.1, 2.3]])),
    ]


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
    """Return a power of two, for each matrix, of which quotients of `g` and `out` are no more than finite."""
    limits = xp.finfo(out.dtype)
    above, below = (f(g, axis=(-2, -1), keepdims=True, initial=0.0) for f in (xp.amax, xp.amin))
    least = xp.amin(out, axis=(-2, -1), keepdims=True, where=out > 0, initial=float(limits.max))
    excess = xp.frexp(xp.maximum(above, -below))[1] - xp.frexp(least)[1] - (int(limits.maxexp) - 2)
    return xp.ldexp(xp.ones_like(least), xp.clip(excess, 0, int(limits.maxexp) - 1))


def _distance_vjp(g: Any, needs: Any, x1: Any, x2: Any, out: Any) -> Any:
    unit = op.ratio_unit(g, out)  # 1 but where a distance is tiny for its cotangent
    w = ratio_or_zero(g / unit, out)
    return (
        op.pair_sums(w, x1, x2) * unit if needs[0] else None,
        op.pair_sums(_transposed(w), x2, x1) * unit if needs[1] else None,
    )


def require_real(points: Any) -> None:
    """Raise TypeError, which the engine explains, for complex points."""
    if points.dtype.kind == "c":
        raise TypeError("the points must be real")


@primitive(
    vjp=_distance_vjp,
    jvp=(
        lambda t, x1, x2, out: ratio_or_zero(op.pair_dots(t, x1, x2), out),
        lambda t, x1, x2, out: ratio_or_zero(_transposed(op.pair_dots(t, x2, x1)), out),
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
