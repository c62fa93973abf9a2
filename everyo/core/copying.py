"""Copies: other objects for one value, deep copies and pickles of leaves."""

from __future__ import annotations

import copy
from typing import Any

from everyo.core.device import backend_for
from everyo.core.modes import current_mode
from everyo.core.ownership import changeable
from everyo.core.registry import op
from everyo.core.tape import LeafNode, origin
from everyo.core.tensor import Tensor
from everyo.core.traced import depth, refuse_traced, staging
from everyo.errors import CompileError, GraphStateError, describe

_COPY = "copy x.detach(), or use x.clone(), which stays in the graph"


def same_value(tensor: Tensor) -> Tensor:
    """Return another object for one value and graph; in-place statements on it leave `tensor` alone."""
    copied = object.__new__(type(tensor))
    copied.data, copied.grad, copied.grad_node = tensor.data, None, tensor.grad_node
    return copied


def deep_copy(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
    """Return an independent leaf of the same class, with a copy of its gradient; what `deepcopy` calls.

    Inside a transformation it is a clone of its values.
    """
    if _inside(tensor):
        return changeable(op.copy(tensor))
    _require_leaf(tensor, "deepcopy", _COPY)
    if staging.get() is not None:
        return _in_program(tensor, "deepcopy")
    copied = _leaf(type(tensor), tensor.data.copy(), tensor.grad_node is not None)
    memo[id(tensor)] = copied
    if tensor.grad is not None:
        if id(tensor.grad) not in memo:
            memo[id(tensor.grad)] = _leaf(type(tensor.grad), tensor.grad.data.copy(), False)
        copied.grad = memo[id(tensor.grad)]
    if state := getattr(tensor, "__dict__", None):  # a subclass may have attributes
        copied.__dict__.update(copy.deepcopy(state, memo))
    return copied


def shallow_copy(tensor: Tensor) -> Tensor:
    """Return another leaf of the same class that shares the array; what `copy.copy` calls.

    Inside a transformation it is a clone of its values.
    """
    if _inside(tensor):
        return changeable(op.copy(tensor))
    _require_leaf(tensor, "copy", _COPY)
    if staging.get() is not None:
        return _in_program(tensor, "copy")
    rebuild, content, state = reduce(tensor)
    copied: Tensor = rebuild(*content)
    if state is not None:
        copied.__dict__.update(state)
    return copied


def _inside(tensor: Tensor) -> bool:
    """Whether a transformation runs and may follow a tensor: all but leaves, which stand for themselves."""
    if tensor.level:
        return True
    running = depth() or current_mode().changes is not None or staging.get() is not None
    return bool(running) and not tensor.is_leaf


def _in_program(tensor: Tensor, operation: str) -> Tensor:
    """Return a copy of a tensor from outside as a value of the program that is being compiled."""
    if tensor.requires_grad or tensor.grad is not None:
        raise CompileError(
            "a copy of a leaf with a gradient of its own cannot be made in a compiled function",
            operation=operation,
            inputs=describe(tensor),
            expected="a tensor without a gradient that does not require one",
            found="a parameter, or a tensor that holds a gradient",
            remedy="copy x.detach(), use x.clone(), which stays in the graph, or copy it outside",
        )
    return changeable(op.copy(tensor))


def reduce(tensor: Tensor) -> Any:
    """Return what pickle stores; a gradient loses its graph."""
    refuse_traced("pickle", "a pickle of a tensor", "pickle it outside of the function")
    tensor._refuse_transformed("pickle", "pickle what the function returns; in grad and jvp also x.detach()")
    _require_leaf(tensor, "pickle", "pickle x.detach()")
    grad = tensor.grad if tensor.grad is None or tensor.grad.is_leaf else tensor.grad.detach()
    array = tensor.backend.to_numpy(tensor.data)
    content = type(tensor), array, tensor.device, tensor.grad_node is not None, grad
    return _unpickle, content, getattr(tensor, "__dict__", None) or None


def _unpickle(
    kind: type[Tensor], array: Any, device: str, requires_grad: bool, grad: Tensor | None
) -> Tensor:
    backend, place = backend_for(device)
    tensor = _leaf(kind, backend.asarray(array, None, place), requires_grad)
    tensor.grad = grad
    return tensor


def _leaf(kind: type[Tensor], array: Any, requires_grad: bool) -> Tensor:
    """Return a leaf of a class around `array`, whatever the grad mode."""
    tensor = object.__new__(kind)
    tensor.data, tensor.grad, tensor.grad_node = array, None, None
    changeable(tensor)
    if requires_grad:
        tensor.grad_node = LeafNode(tensor)
    return tensor


def _require_leaf(tensor: Tensor, operation: str, remedy: str) -> None:
    """Raise GraphStateError for what a copy would cut off from its graph."""
    if not tensor.is_leaf:
        raise GraphStateError(
            "only a leaf can be copied or pickled: a graph does not travel",
            operation=operation,
            inputs=describe(tensor),
            expected="a tensor that no recorded operation made",
            found=origin(tensor.grad_node),
            remedy=remedy,
        )
