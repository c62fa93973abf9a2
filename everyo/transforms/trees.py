"""Pytrees: nested containers of tensors, flattened and rebuilt through optree.

Besides optree's own (dict, list, tuple, named tuple, ...), dataclasses are containers, and every class
with ``tree_flatten(self) -> (children, static)`` and ``tree_unflatten(cls, static, children)``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, ShapeError, describe
from everyo.ops.creation import as_tensor

NAMESPACE = "everyo"


@functools.cache
def _optree() -> Any:
    import optree  # when first used: `import everyo` stays light

    return optree


@functools.cache
def _register(kind: Any) -> bool:
    """Make a class a container if it is a dataclass or has the two methods; return whether it is one."""
    if hasattr(kind, "tree_flatten") and hasattr(kind, "tree_unflatten"):

        def flatten(node: Any) -> tuple[Any, Any]:
            return node.tree_flatten()

        unflatten = kind.tree_unflatten
    elif dataclasses.is_dataclass(kind):
        names = tuple(f.name for f in dataclasses.fields(kind))

        def flatten(node: Any) -> tuple[Any, Any]:
            return tuple(getattr(node, name) for name in names), None

        def unflatten(static: Any, children: Any) -> Any:
            made = object.__new__(kind)  # type: ignore[arg-type]
            for name, child in zip(names, children, strict=True):
                object.__setattr__(made, name, child)
            return made
    else:
        return False
    _optree().register_pytree_node(kind, flatten, unflatten, namespace=NAMESPACE)
    return True


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Return the leaves of a tree and its structure; None is part of the structure."""
    if isinstance(tree, Tensor):
        return [tree], None
    leaves, structure = _optree().tree_flatten(tree, namespace=NAMESPACE)
    kinds: list[Any] = [type(leaf) for leaf in leaves if not isinstance(leaf, Tensor)]
    new = [_register(kind) for kind in kinds]  # all of them, not up to the first
    if any(new):
        return flatten(tree)
    return leaves, structure


def unflatten(structure: Any, leaves: Sequence[Any]) -> Any:
    """Return a tree of a structure around new leaves."""
    if structure is None:
        return leaves[0]
    return _optree().tree_unflatten(structure, leaves)


def tree_map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Return a tree of ``function(leaf, ...)`` over the leaves of trees of one structure."""
    leaves, structure = flatten(tree)
    columns = [matching(other, structure, "tree_map") for other in others]
    return unflatten(structure, [function(*row) for row in zip(leaves, *columns, strict=True)])


def matching(tree: Any, structure: Any, operation: str) -> list[Any]:
    """Return the leaves of a tree that must have a given structure.

    Raises
    ------
    ShapeError
        If it has another one.
    """
    leaves, found = flatten(tree)
    if found != structure and not (structure is None and len(leaves) == 1):
        raise ShapeError(
            "two trees differ in structure",
            operation=operation,
            expected=str(structure or "one tensor"),
            found=str(found or "one tensor"),
            remedy="pass a tree with the same containers and keys",
        )
    return leaves


def broadcast_prefix(prefix: Any, tree: Any, operation: str, name: str) -> list[int | None]:
    """Return for each leaf of a tree the axis, or None, that stands for it in a tree of axes.

    An axis stands for all that lies below its place in the tree. The containers in a tree must have been
    met by `flatten` before.

    Raises
    ------
    ArgumentError
        If the containers do not match, or something else than an axis is found.
    """
    if isinstance(tree, Tensor) and (prefix is None or type(prefix) is int):  # spares the general way
        return [prefix]
    try:
        axes = _optree().broadcast_prefix(prefix, tree, none_is_leaf=True, namespace=NAMESPACE)
    except ValueError as error:
        raise ArgumentError(
            f"the axes in {name} do not fit what they are for",
            operation=operation,
            expected="one axis, or the containers of the other tree with axes in them",
            found=str(error),
        ) from None
    leaves = _optree().tree_leaves(tree, none_is_leaf=True, namespace=NAMESPACE)
    for axis in axes:
        if axis is not None and type(axis) is not int:
            raise ArgumentError(
                f"{name} holds something else than axes",
                operation=operation,
                expected="integers and None",
                found=repr(axis),
            )
    return [axis for axis, leaf in zip(axes, leaves, strict=True) if leaf is not None]


def differentiable(leaves: Sequence[Any], operation: str) -> list[Tensor]:
    """Return leaves as tensors that may be differentiated.

    Raises
    ------
    DTypeError
        If one is not of a float or complex dtype.
    """
    tensors = []
    for leaf in leaves:
        tensor = as_tensor(leaf)
        if tensor.dtype.kind not in "fc":
            raise DTypeError(
                "a differentiated argument is not of a float or complex dtype",
                operation=operation,
                inputs=describe(tensor),
                expected="float or complex tensors",
                found=str(tensor.dtype),
                remedy="convert it (x.astype(eo.float32)), or leave it out with argnums",
            )
        tensors.append(tensor)
    return tensors


def split_aux(result: Any, has_aux: bool, operation: str) -> tuple[Any, Any]:
    """Return result and auxiliary output of a function."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise ArgumentError(
            "with has_aux=True the function must return a pair",
            operation=operation,
            expected="(output, auxiliary data)",
            found=type(result).__name__,
        )
    return result
