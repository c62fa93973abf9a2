"""Pytrees: nested containers of tensors, flattened and rebuilt through optree.

Besides optree's own (dict, list, tuple, named tuple, ...), dataclasses are containers, and every class
with ``tree_flatten(self) -> (children, static)`` and ``tree_unflatten(cls, static, children)``. A third
item that `tree_flatten` returns, the names of the children, lets error messages say ``carry.name``.
"""

from __future__ import annotations

import atexit
import dataclasses
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.copying import same_value
from everyo.core.dtypes import to_float
from everyo.core.keys import Typed, typed
from everyo.core.tensor import Tensor
from everyo.core.traced import is_number
from everyo.errors import ArgumentError, DTypeError, ShapeError, describe
from everyo.ops.axes import as_flag, require_callable
from everyo.ops.creation import as_tensor, asarray
from everyo.ops.signatures import explained

NAMESPACE = "everyo"
EXACT = "everyo.exact"  # where the order of a dict's items, settings and buffers of modules count too


@functools.cache
def _optree() -> Any:
    import optree  # when first used: `import everyo` stays light

    ordered = optree.dict_insertion_ordered(True, namespace=EXACT)
    ordered.__enter__()
    atexit.register(ordered.__exit__, None, None, None)
    return optree


@functools.cache
def _register(kind: Any) -> bool:
    """Make a class a container if it is a dataclass or has the two methods; return whether it is one."""
    if hasattr(kind, "tree_flatten") and hasattr(kind, "tree_unflatten"):

        def flatten(node: Any) -> tuple[Any, ...]:
            return node.tree_flatten()

        unflatten = kind.tree_unflatten
    elif dataclasses.is_dataclass(kind):
        names = tuple(f.name for f in dataclasses.fields(kind))

        def flatten(node: Any) -> tuple[Any, ...]:
            return tuple(getattr(node, name) for name in names), None, names

        def unflatten(static: Any, children: Any) -> Any:
            made = object.__new__(kind)  # type: ignore[arg-type]
            for name, child in zip(names, children, strict=True):
                object.__setattr__(made, name, child)
            return made
    else:
        return False
    exactly = getattr(kind, "tree_flatten_exactly", None), unflatten
    if exactly[0] is None:
        exactly = _exact(flatten), _exact_inverse(unflatten)
    for ways, namespace in (((flatten, unflatten), NAMESPACE), (exactly, EXACT)):
        _optree().register_pytree_node(kind, *ways, path_entry_type=_attribute_entry(), namespace=namespace)
    return True


def _exact(flatten: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a way to flatten whose static part tells 1 from 1.0."""

    def exactly(node: Any) -> tuple[Any, ...]:
        children, static, *names = flatten(node)
        return children, None if static is None else Typed(static), *names

    return exactly


def _exact_inverse(unflatten: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the inverse of what `_exact` returns."""
    return lambda static, children: unflatten(None if static is None else static.value, children)


@functools.cache
def _attribute_entry() -> Any:
    """Return optree's kind of path entry for a child that has a name, which may be dotted."""

    class Attribute(_optree().PyTreeEntry):  # type: ignore[misc]
        __slots__ = ()

        def __call__(self, node: Any) -> Any:
            return functools.reduce(getattr, self.entry.split("."), node)

        def codify(self, node: str = "") -> str:
            steps = (f"[{name}]" if name.isdecimal() else f".{name}" for name in str(self.entry).split("."))
            return node + "".join(steps)

    return Attribute


def flatten(tree: Any, namespace: str = NAMESPACE) -> tuple[list[Any], Any]:
    """Return the leaves of a tree and its structure, None for a lone leaf; a None is part of a structure."""
    if isinstance(tree, Tensor):
        return [tree], None
    leaves, structure = _optree().tree_flatten(tree, namespace=namespace)
    kinds: list[Any] = [type(leaf) for leaf in leaves if not isinstance(leaf, Tensor)]
    if kinds:
        new = [_register(kind) for kind in kinds]  # all of them, not up to the first
        if any(new):
            return flatten(tree, namespace)
    return leaves, None if structure.is_leaf() else structure


def own_objects(tree: Any) -> Any:
    """Return a tree whose tensors and containers a function may change in place, as objects of its own."""
    leaves, structure = flatten(tree)
    return unflatten(structure, [same_value(x) if isinstance(x, Tensor) else x for x in leaves])


def odd_keys(structure: Any) -> list[Any] | None:
    """Return the keys of dicts in a structure, to which 1 and 1.0 are one; None where all are texts."""
    keys: list[Any] = []
    nodes = [structure]
    for node in nodes:  # which grows meanwhile
        if isinstance(node.type, type) and issubclass(node.type, dict):
            keys += map(typed, node.entries())
        nodes += node.children()
    return None if all(kind is str for kind, *_ in keys) else keys


def unflatten(structure: Any, leaves: Sequence[Any]) -> Any:
    """Return a tree of a structure around new leaves."""
    if structure is None:
        return leaves[0]
    return _optree().tree_unflatten(structure, leaves)


@explained
def _is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor)


def parted(
    tree: Any, belongs: Callable[[Any], bool] = _is_tensor
) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """Return the leaves of a tree that are tensors, and a function that rebuilds it around others.

    `belongs` chooses other leaves. The function does not hold those that were taken.
    """
    leaves, structure = flatten(tree)
    places = [i for i, leaf in enumerate(leaves) if belongs(leaf)]
    taken = [leaves[i] for i in places]
    for i in places:
        leaves[i] = None

    def rebuild(others: Sequence[Any]) -> Any:
        row = list(leaves)
        for i, x in zip(places, others, strict=True):
            row[i] = x
        return unflatten(structure, row)

    return taken, rebuild


def tree_map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Return a tree of ``function(leaf, ...)`` over the leaves of trees of one structure.

    Parameters
    ----------
    function : callable
        Takes a leaf of each tree, returns a new one.
    tree : pytree
        Nested dicts, lists, tuples, named tuples, dataclasses and modules. The leaves of an `nn.Module` are
        its parameters, one that is shared once; None has no leaves.
    *others : pytrees
        Of the structure of `tree`.

    Returns
    -------
    pytree
        Of the structure of `tree`, which it leaves as it is.

    Raises
    ------
    ShapeError
        If the trees differ in structure.
    ArgumentError
        If `function` cannot be called.

    Examples
    --------
    >>> import everyo as eo
    >>> parameters = {"w": eo.tensor([1.0, 2.0]), "b": eo.tensor(3.0)}
    >>> gradient = eo.grad(lambda p: (p["w"] ** 2).sum() + p["b"])(parameters)
    >>> stepped = eo.tree_map(lambda p, g: p - 0.5 * g, parameters, gradient)
    >>> print(stepped["w"], stepped["b"])
    [0. 0.] 2.5
    """
    require_callable(function, "tree_map", "write eo.tree_map(f, tree): first the function")
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
    if found != structure:
        raise ShapeError(
            "two trees differ in structure",
            operation=operation,
            expected="one tensor" if structure is None else str(structure),
            found="one tensor" if found is None else str(found),
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
    if prefix is None or type(prefix) is int:  # most often, and quicker than the general way
        return [prefix] * len(flatten(tree)[0])
    try:
        axes = _optree().broadcast_prefix(prefix, tree, none_is_leaf=True, namespace=NAMESPACE)
    except ValueError as error:
        raise ArgumentError(
            f"the axes in {name} do not fit what they are for",
            operation=operation,
            expected="one axis, or the containers of the other tree with axes in them",
            found=str(error),
            remedy="write 0, or a tree such as {'w': 0, 'b': None} in the argument's place",
        ) from None
    leaves = _optree().tree_leaves(tree, none_is_leaf=True, namespace=NAMESPACE)
    pairs = zip(axes, leaves, strict=True)
    return [
        None if axis is None else as_axis(axis, operation, name) for axis, leaf in pairs if leaf is not None
    ]


def as_axis(value: Any, operation: str, name: str) -> int:
    """Return an axis in a tree of axes as an int."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise ArgumentError(
        f"{name} holds something else than axes",
        operation=operation,
        expected="integers and None",
        found=repr(value),
        remedy="write integers for axes, and None for what is passed whole",
    )


# What else can be done about an argument that cannot be differentiated.
_WITHIN = ("grad", "value_and_grad", "jacrev", "jacfwd", "jacobian", "hessian")
_ELSE = dict.fromkeys(_WITHIN, ", or leave it out with argnums")
_ELSE |= dict.fromkeys(("vjp", "jvp", "linearize", "hvp", "vhp"), ", or bind it: lambda x: f(x, k)")


def _floats(leaf: Any, dtype: Any) -> str:
    if type(leaf) in (int, bool):
        return f"write a float: {float(leaf)}"
    return f"convert it: {to_float(dtype)}"


def differentiable(leaves: Sequence[Any], operation: str) -> list[Tensor]:
    """Return leaves as tensors that may be differentiated.

    Raises
    ------
    DTypeError
        If one is not of a float or complex dtype.
    """
    tensors = []
    for leaf in leaves:
        tensor = _tensor(leaf, operation, "an argument", "leave it out with argnums, or capture it")
        if tensor.dtype.kind not in "fc":
            raise DTypeError(
                "a differentiated argument is not of a float or complex dtype",
                operation=operation,
                inputs=describe(tensor),
                expected="float or complex tensors",
                found=str(tensor.dtype),
                remedy=_floats(leaf, tensor.dtype) + _ELSE.get(operation, ""),
            )
        tensors.append(tensor)
    return tensors


def returned(leaf: Any, operation: str) -> Tensor:
    """Return a leaf of what a function returned as a tensor; DTypeError if it is none."""
    remedy = "return tensors; has_aux=True lets a function return other data beside them"
    return _tensor(leaf, operation, "a value that the function returned", remedy)


def _tensor(leaf: Any, operation: str, what: str, remedy: str) -> Tensor:
    try:
        return asarray(leaf) if is_number(leaf) else as_tensor(leaf)
    except DTypeError:
        raise DTypeError(
            f"{what} is no tensor",
            operation=operation,
            expected="tensors, arrays and numbers",
            found=type(leaf).__name__,
            remedy=remedy,
        ) from None


def require_some(leaves: Sequence[Any], operation: str) -> None:
    """Raise ArgumentError if the arguments hold no tensor to differentiate with respect to."""
    if not leaves:
        raise ArgumentError(
            "there is nothing to differentiate",
            operation=operation,
            expected="at least one tensor in the arguments",
            found="none",
            remedy="pass a tensor, or a tree with one in it",
        )


def split_aux(result: Any, has_aux: bool, operation: str) -> tuple[Any, Any]:
    """Return result and auxiliary output of a function."""
    if not as_flag(has_aux, "has_aux", operation):
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise ArgumentError(
            "with has_aux=True the function must return a pair",
            operation=operation,
            expected="(output, auxiliary data)",
            found=type(result).__name__,
            remedy="return (output, aux), or leave has_aux out",
        )
    return result
