"""Taking from positions along an axis for chosen elements alone, which are often few, and the transpose."""

from __future__ import annotations

from typing import Any

from everyo.core.batching import everywhere
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.ops.families import primitive

__all__: list[str] = []

_MISSING = "the positions are integers and the choice is boolean"


def chosen_places(xp: Any, indices: Any, chosen: Any, axis: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return where the chosen elements are, and the positions that they name."""
    if chosen.ndim == 1:
        here = xp.flatnonzero(chosen)
        return (here,), (indices[here] if indices.shape == chosen.shape else xp.repeat(indices, here.size),)
    here = xp.nonzero(chosen)
    named = xp.broadcast_to(indices, chosen.shape)[here]
    return here, tuple(named if i == axis else place for i, place in enumerate(here))


def _take_samples() -> list[Sample]:
    grid = Values([[True, False, True], [False, False, True]])
    return [
        sample((3,), Values([0, 2, 1, 0]), Values([True, False, True, True]), axis=0),
        sample((2, 4), Values([[0, 2, 1], [0, -1, 3]]), grid, axis=1),
        sample((3, 3), Values([[0], [2]]), grid, axis=0),
        sample((2, 3), Values([[0, 1, 0]]), grid, axis=1),
        sample((2, 0), Values([[0], [1]]), Values([[], []]), axis=0),
    ]


def _take_batch(take: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    return take(*everywhere(inputs, batched, size), axis=params["axis"] + 1)


def _scatter_batch(scatter: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    inputs = everywhere(inputs, batched, size)
    return scatter(*inputs, axis=params["axis"] + 1, shape=(size, *params["shape"]))


@primitive(
    vjp=(
        lambda g, x_shape, indices, chosen, axis: op.scatter_chosen(
            g, indices, chosen, axis=axis, shape=x_shape
        ),
        None,
        None,
    ),
    jvp=(lambda t, indices, chosen, axis: op.take_chosen(t, indices, chosen, axis=axis), None, None),
    missing=_MISSING,
    samples=_take_samples,
    batch=_take_batch,
)
def _take_chosen(xp: Any, x: Any, indices: Any, chosen: Any, *, axis: int) -> Any:
    """Take along an axis at the indices, which broadcast, where `chosen`; 0 elsewhere."""
    chosen = xp.asarray(chosen, dtype=bool)
    out = xp.zeros(chosen.shape, dtype=x.dtype)
    here, there = chosen_places(xp, indices, chosen, axis)
    out[here] = x[there]
    return out


def _scatter_samples() -> list[Sample]:
    grid = Values([[True, False, True], [False, False, True]])
    return [
        sample((4,), Values([0, 2, 1, 0]), Values([True, False, True, True]), axis=0, shape=(3,)),
        sample((2, 3), Values([[0, 2, 1], [0, -1, 3]]), grid, axis=1, shape=(2, 4)),
        sample((2, 3), Values([[0], [2]]), grid, axis=0, shape=(3, 3)),
        sample((2, 0), Values([[0], [1]]), Values([[], []]), axis=0, shape=(2, 0)),
    ]


@primitive(
    vjp=(lambda g, indices, chosen, axis: op.take_chosen(g, indices, chosen, axis=axis), None, None),
    jvp=(
        lambda t, indices, chosen, axis, shape: op.scatter_chosen(t, indices, chosen, axis=axis, shape=shape),
        None,
        None,
    ),
    missing=_MISSING,
    samples=_scatter_samples,
    batch=_scatter_batch,
)
def _scatter_chosen(
    xp: Any, values: Any, indices: Any, chosen: Any, *, axis: int, shape: tuple[int, ...]
) -> Any:
    """Add the chosen values to zeros of `shape` at the indices: the transpose of `take_chosen`."""
    here, there = chosen_places(xp, indices, xp.asarray(chosen, dtype=bool), axis)
    return xp.assemble([there], [values[here]], [True], shape, values.dtype)
