"""Hooks in a backward pass: what users' functions are shown, and what the walk takes from them."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

from everyo.core.cotangents import Partial, Several
from everyo.core.dispatch import settle
from everyo.core.modes import current_mode
from everyo.core.ownership import changeable
from everyo.core.registry import op
from everyo.core.tape import Extras
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import Traced
from everyo.errors import DTypeError, EveryOError, ShapeError, describe


def run_gradient_hooks(extras: Extras, g: Any, create_graph: bool) -> Any:
    """Pass a complete cotangent through the hooks of its tensor, as the gradient users know."""
    complex_ = g.dtype.kind == "c"
    for hook in tuple(extras.on_gradient.values()):
        result = _given(hook, _shown(op.conj(g) if complex_ else g))
        if result is None:
            continue
        _require_alike(result, g, "a gradient hook")
        g = _passed_on(result, create_graph)
        g = op.conj(g) if complex_ else g
    return g


def run_node_hooks(hooks: dict[int, Any], create_graph: bool, values: Any, *context: Any) -> Any:
    """Pass cotangents through the hooks of a node; a tuple that a hook returns replaces them."""
    for hook in tuple(hooks.values()):
        result = _given(hook, *(tuple(map(_shown, items)) for items in (values, *context)))
        if result is None:
            continue
        if not isinstance(result, tuple) or len(result) != len(values):
            raise ShapeError(
                "a node hook returned something else than one cotangent for each that it was given",
                operation="hook",
                expected=f"None or a tuple of {len(values)}",
                found=f"{len(result)} of them" if isinstance(result, tuple) else type(result).__name__,
                remedy="return a tuple of the same length",
            )
        values = tuple(_taken(new, old, create_graph) for new, old in zip(result, values, strict=True))
    return values


def _given(hook: Callable[..., Any], shown: Any, *context: Any) -> Any:
    """Return what a hook returned, or what it was shown if it has changed that in place; None for neither."""
    before = _contents(shown)
    result = hook(shown, *context)
    if result is None and not all(map(is_, _contents(shown), before)):
        return shown
    return result


def _shown(value: Any) -> Any:
    """Return a cotangent as hooks see it: a tensor, or for several results a dict of such by position."""
    value = value.settle() if isinstance(value, Partial) else value
    if isinstance(value, dict):
        return {position: _shown(v) for position, v in value.items()}
    if value is None:
        return None
    tensor = changeable(wrap(value.data if isinstance(value, Tensor) else settle(value)))
    if isinstance(value, Tensor):  # which others of the pass may hold, too
        tensor.grad_node = value.grad_node
    return tensor


def _contents(shown: Any) -> list[Any]:
    """Return the data of a hook's argument: a tensor that was changed in place has other data then."""
    if isinstance(shown, Tensor):
        return [shown.data]
    items = shown.values() if isinstance(shown, dict) else shown or ()
    return [i for item in items for i in _contents(item)]


def _taken(new: Any, old: Any, create_graph: bool) -> Any:
    """Return what a hook gave in place of the cotangent `old` as the walk passes it on."""
    old, part = (old.settle(), type(old)) if isinstance(old, Partial) else (old, None)
    if isinstance(old, dict) and isinstance(new, dict):
        taken = {i: _taken(v, old.get(i), create_graph) for i, v in new.items() if v is not None}
        return Several(taken) if part is Several else taken
    if new is None:
        return None
    _require_alike(new, old, "a node hook")
    return _passed_on(new, create_graph)


def _passed_on(x: Tensor, create_graph: bool) -> Any:
    """Return what a hook gave as the walk passes it on: raw, unless others can differentiate it."""
    tracked = isinstance(x.data, Traced) or (x.grad_node is not None and current_mode().grad)
    return x if create_graph or tracked else x.data


def _require_alike(new: Any, old: Any, source: str) -> None:
    """Raise unless what a hook returned is a tensor that can stand for the cotangent `old`."""
    kind: type[EveryOError] | None = None
    if not isinstance(new, Tensor) or isinstance(old, dict) or (old is not None and new.dtype != old.dtype):
        kind = DTypeError
    elif old is not None and tuple(new.shape) != tuple(old.shape):
        kind = ShapeError
    if kind is not None:
        several = "a dict of tensors by result position" if isinstance(old, dict) else "a tensor"
        raise kind(
            f"{source} returned something that is no gradient",
            operation="hook",
            expected=f"None or {several}" + (f": {describe(old)}" if hasattr(old, "dtype") else ""),
            found=describe(new),
            remedy="return tensors of the shape and dtype that the hook was given",
        )
