"""Random numbers inside `vmap`: refused, one draw for all examples, or one for each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from everyo.core.tensor import Tensor
from everyo.core.traced import batches
from everyo.errors import UnsupportedOperationError

__all__: list[str] = []


def drawn(
    xp: Any,
    operation: str,
    shape: tuple[int, ...],
    draw: Callable[[tuple[int, ...]], Any],
    made: Callable[[Any], Tensor],
    at_once: bool = True,
) -> Tensor:
    """Return what ``draw(shape)`` draws as a tensor, for each example anew where a running `vmap` says so.

    `at_once` says that a draw of a larger shape is as good as several draws.

    Raises
    ------
    UnsupportedOperationError
        If a running `vmap` does not say what it wants.
    """
    if not batches.get():
        return made(draw(shape))
    maps = [m for m in batches.get() if m.randomness != "same"]
    if any(m.randomness == "error" for m in maps):
        raise UnsupportedOperationError(
            "under vmap a random draw may be one for all examples or one for each",
            operation=operation,
            expected="a vmap that says which",
            found='randomness="error"',
            remedy='pass randomness="different" or randomness="same" to eo.vmap, or draw before it',
        )
    sizes = tuple(m.size for m in maps)
    if at_once:
        array = draw((*sizes, *shape))
    else:
        several = [draw(shape) for _ in range(max(math.prod(sizes), 1))][: math.prod(sizes) or None]
        array = xp.stack(several) if math.prod(sizes) else xp.stack(several)[:0]
        array = xp.reshape(array, (*sizes, *array.shape[1:]))
    x = made(array)
    for m in maps:  # the outermost first, as its axis is
        x = m.batch(x if x.level else x.data)
    return x
