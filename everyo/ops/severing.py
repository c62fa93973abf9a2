"""Values that become constants where eager code refuses what is differentiated; programs remember them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everyo.core.dispatch import apply
from everyo.core.modes import is_grad_enabled
from everyo.core.primitive import Primitive
from everyo.core.tensor import Tensor
from everyo.core.traced import staging
from everyo.errors import EveryOError

SEVERED = "severed"  # the name that it has in a graph


def _severed(xp: Any, x: Any, *, refuse: Any) -> Any:
    """The elements as they are, as a constant; `refuse` makes the error for one that is differentiated."""
    return x


_PRIMITIVE = Primitive(
    _severed, vjp=None, jvp=None, family="discrete", missing="its result is constant", listed=False
)


def is_followed(x: Tensor) -> bool:
    """Whether a constant in place of a tensor would be cut off from a derivative or from its batch."""
    inside = x.level and not x.data.interpreter.writes_outside
    return bool(inside or (x.grad_node is not None and is_grad_enabled()))


def severed(x: Tensor, refuse: Callable[[Tensor], EveryOError]) -> Tensor:
    """Return a tensor as a constant of the same value; raise what `refuse` returns if it is followed.

    While a function is compiled that may not be known yet: whoever differentiates the program or maps it
    over a batch meets the error then.
    """
    if is_followed(x):
        raise refuse(x)
    tracer = staging.get()
    if tracer is None:
        return x
    if tracer.is_held():
        return x.detach()
    made: Tensor = apply(_PRIMITIVE, (x,), {"refuse": refuse})
    return made
