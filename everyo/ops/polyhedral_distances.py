"""Distances of all pairs of points in the norms of orders 1 and infinity, and the sums that they move by.

The slope of such a distance is a sign for each coordinate, and for infinity the share of those that are the
largest. No array of all differences is made: they are taken again, one coordinate at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from everyo.core.batching import trailing
from everyo.core.dtypes import float16, float32, float64
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.ops.families import primitive
from everyo.ops.pairwise import blocks, require_real

__all__: list[str] = []

_INFINITY = float("inf")
_FIRST = Values([[1.0, 2.5, 0.5], [0.5, -1.0, 2.0]])
_SECOND = Values([[0.0, 1.5, 0.5], [2.0, -0.75, 1.0], [0.5, -1.0, 2.0]])
_SUMS, _LARGEST = Values([[2.0, 4.75, 5.5], [4.5, 2.75, 0.0]]), Values([[1.0, 3.25, 3.5], [2.5, 1.5, 0.0]])


def _samples() -> list[Sample]:
    return [
        sample(x1, x2, order=p)
        for p in (1.0, _INFINITY)
        for x1, x2 in (
            ((2, 3), (4, 3)),
            ((2, 1, 2), (2, 3, 2)),
            ((0, 3), (2, 3)),
            ((2, 3), (0, 3)),
            (Values([[1.0, 2.5], [0.5, -1.0]]), Values([[0.0, 2.0], [2.0, -0.7], [1.25, 2.25]])),
        )
    ]


def _slope_samples() -> list[Sample]:
    return [
        sample((2, 3), _FIRST, _SECOND, _SUMS, order=1.0),
        sample((2, 3), _FIRST, _SECOND, _LARGEST, order=_INFINITY),
        sample((0, 3), (0, 2), (3, 2), (0, 3), order=_INFINITY),
    ]


def _step_samples() -> list[Sample]:
    return [
        sample((2, 3), (3, 3), _FIRST, _SECOND, _SUMS, order=1.0),
        sample((2, 3), (3, 3), _FIRST, _SECOND, _LARGEST, order=_INFINITY),
        sample((0, 2), (3, 2), (0, 2), (3, 2), (0, 3), order=1.0),
    ]


def _steps_for(tangents: Sequence[Any], x1: Any, x2: Any, out: Any, order: float) -> Any:
    """Return what distances move by; a tangent that is None is zero."""
    t1, t2 = (op.zeros_like(x) if t is None else t for t, x in zip(tangents, (x1, x2), strict=True))
    return op.pair_steps(t1, t2, x1, x2, out, order=order)


def _distances_vjp(g: Any, needs: Any, x1: Any, x2: Any, out: Any, order: float) -> Any:
    return op.pair_slopes(g, x1, x2, out, order=order)


@primitive(_distances_vjp, _steps_for, samples=_samples, batch=trailing(2))
def _polyhedral_distances(xp: Any, x1: Any, x2: Any, *, order: float) -> Any:
    """Return the sums, or for infinity the largest, of the sizes of the differences of real points."""
    require_real(x1)
    out = xp.point_distances(x1, x2, order)
    if out is not None:
        return out
    out = xp.zeros((*x1.shape[:-1], x2.shape[-2]), dtype=x1.dtype)
    combine = xp.add if order == 1 else xp.maximum
    for rows, coordinates in blocks(xp, x1, x2):
        total = out[..., rows, :]
        for differences in coordinates:
            combine(total, xp.abs(differences, out=differences), out=total)
    return out


def _slopes_jvp(tangents: Sequence[Any], x1: Any, x2: Any, lengths: Any, order: float) -> Any:
    if tangents[0] is None:
        return None, None
    return op.pair_slopes(tangents[0], x1, x2, lengths, order=order)


@primitive(
    vjp=(
        lambda g, x1, x2, lengths, order: _steps_for((g.get(0), g.get(1)), x1, x2, lengths, order),
        lambda g, x1: op.zeros_like(x1),
        lambda g, x2: op.zeros_like(x2),
        lambda g, lengths: op.zeros_like(lengths),
    ),
    jvp=_slopes_jvp,
    samples=_slope_samples,
    batch=trailing(2),
    jumps=(1, 2, 3),
)
def _pair_slopes(xp: Any, g: Any, x1: Any, x2: Any, lengths: Any, *, order: float) -> Any:
    """``sum_j g[i, j] s[i, j, k]`` and ``-sum_i g[i, j] s[i, j, k]`` for the slopes `s` of distances."""
    require_real(x1)
    wide = float32 if x1.dtype == float16 else float64
    first, second = (xp.zeros(x.shape, dtype=wide) for x in (x1, x2))
    for rows, parts in _weighted(xp, g, x1, x2, lengths, order):
        for k, part in enumerate(parts):
            first[..., rows, k] = xp.sum(part, axis=-1, dtype=wide)
            second[..., k] -= xp.sum(part, axis=-2)
    return xp.astype(first, x1.dtype, copy=False), xp.astype(second, x2.dtype, copy=False)


def _steps_jvp(tangents: Sequence[Any], x1: Any, x2: Any, lengths: Any, order: float) -> Any:
    if tangents[0] is None and tangents[1] is None:
        return op.zeros_like(lengths)
    return _steps_for(tangents[:2], x1, x2, lengths, order)


@primitive(
    vjp=(
        lambda g, x1, x2, lengths, order: op.pair_slopes(g, x1, x2, lengths, order=order)[0],
        lambda g, x1, x2, lengths, order: op.pair_slopes(g, x1, x2, lengths, order=order)[1],
        lambda g, x1: op.zeros_like(x1),
        lambda g, x2: op.zeros_like(x2),
        lambda g, lengths: op.zeros_like(lengths),
    ),
    jvp=_steps_jvp,
    samples=_step_samples,
    batch=trailing(2),
    jumps=(2, 3, 4),
)
def _pair_steps(xp: Any, t1: Any, t2: Any, x1: Any, x2: Any, lengths: Any, *, order: float) -> Any:
    """``sum_k s[i, j, k] (t1[i, k] - t2[j, k])``: the transpose of `pair_slopes`."""
    require_real(x1)
    ones = xp.ones(lengths.shape, dtype=x1.dtype)
    moved = xp.zeros(lengths.shape, dtype=x1.dtype)
    steps = (coordinates for _, coordinates in blocks(xp, t1, t2))
    for (rows, parts), changes in zip(_weighted(xp, ones, x1, x2, lengths, order), steps, strict=True):
        moved[..., rows, :] = sum(part * change for part, change in zip(parts, changes, strict=True))
    return moved


def _weighted(
    xp: Any, g: Any, x1: Any, x2: Any, lengths: Any, order: float
) -> Iterator[tuple[Any, Iterator[Any]]]:
    """Yield some rows of the first points, and by coordinate `g` times the slopes of their distances."""
    finite = bool(xp.all(xp.isfinite(x1)) and xp.all(xp.isfinite(x2)))  # so that no difference is NaN
    if order == 1:
        for rows, coordinates in blocks(xp, x1, x2):
            weight = g[..., rows, :]
            yield rows, (_signed(xp, weight, d, None, finite, d == 0) for d in coordinates)
        return
    apart = finite and bool(xp.all(lengths > 0))  # then the largest coordinates are not 0
    for rows, coordinates in blocks(xp, x1, x2):
        differences, largest, weight = list(coordinates), lengths[..., rows, :], g[..., rows, :]
        here = [xp.abs(d) == largest for d in differences]
        if not finite:
            here = [h | (d != d) for h, d in zip(here, differences, strict=True)]
        if sum(xp.count_nonzero(h) for h in here) != largest.size:
            weight = weight / sum(xp.astype(h, weight.dtype) for h in here)
        yield (
            rows,
            (
                _signed(xp, weight, d, h, finite, None if apart else h & (d == 0))
                for d, h in zip(differences, here, strict=True)
            ),
        )


def _signed(xp: Any, weight: Any, differences: Any, here: Any, finite: bool, zero: Any) -> Any:
    """Return `weight` times the signs of differences, and 0 but `here`; `zero` says which of these are 0."""
    if not finite:
        out = xp.sign(differences) * weight
        return out if here is None else xp.where(here, out, 0)
    out = xp.with_sign_of(weight, differences, here)
    if zero is not None and xp.any(zero):
        out[zero] = weight[zero] * 0
    return out
