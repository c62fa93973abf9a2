"""Calling a module with other parameters than its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, describe
from everyo.nn.layout import PLACES
from everyo.nn.module import Module
from everyo.nn.parameter import Parameter


def functional_call(
    module: Module, parameters: Mapping[str, Tensor], args: Any = (), kwargs: Mapping[str, Any] | None = None
) -> Any:
    """Call `module` as a function of its parameters and buffers too, as transformations need it.

    Parameters
    ----------
    module : Module
        Unchanged after the call.
    parameters : mapping from str to Tensor
        What takes the place of parameters and buffers; those not named keep their value. A parameter
        that is shared is replaced everywhere.
    args : tuple or a single argument
        Positional arguments of the call.
    kwargs : mapping, optional
        Keyword arguments of the call.

    Returns
    -------
    Any
        What the module returns.

    Raises
    ------
    ArgumentError
        If the module has no parameter or buffer of such a name, or one that is shared would get two values.

    Examples
    --------
    >>> import everyo as eo
    >>> layer = eo.nn.Linear(1, 1, bias=False)
    >>> f = lambda w: eo.nn.functional_call(layer, {"weight": w}, eo.tensor([3.0]))
    >>> value, slope = eo.jvp(f, (eo.tensor([[2.0]]),), (eo.tensor([[1.0]]),))
    >>> print(value, slope)
    [6.] [3.]
    """
    places: dict[str, tuple[Module, str]] = {}
    for path, owner in module.named_modules(remove_duplicate=False):
        for found in (owner.named_parameters, owner.named_buffers):
            for name, _ in found(recurse=False, remove_duplicate=False):
                places[f"{path}.{name}" if path else name] = (owner, name)
    if unknown := [name for name in parameters if name not in places]:
        raise ArgumentError(
            f"there is no parameter or buffer {unknown[0]!r}",
            operation="functional_call",
            expected=", ".join(places),
            found=", ".join(parameters),
            remedy="use the names of module.named_parameters() and named_buffers()",
        )
    held = {name: owner.__dict__[key] for name, (owner, key) in places.items()}
    marks = {owner: owner.__dict__.get(PLACES) for owner, _ in places.values()}
    new: dict[int, Any] = {}
    for name, value in parameters.items():
        _refuse_two(new.setdefault(id(held[name]), value), value, name)
    try:
        for name, (owner, key) in places.items():
            if id(held[name]) in new:
                owner.__dict__[key] = value = new[id(held[name])]
                if isinstance(held[name], Parameter):  # so that `parameters()` still finds it
                    owner.__dict__[PLACES] = {**owner.__dict__.get(PLACES, {}), key: value}
        return module(*(args if isinstance(args, tuple) else (args,)), **(kwargs or {}))
    finally:
        for name, (owner, key) in places.items():
            owner.__dict__[key] = held[name]
        for owner, mark in marks.items():
            owner.__dict__.pop(PLACES, None)
            if mark is not None:
                owner.__dict__[PLACES] = mark


def _refuse_two(first: Any, second: Any, name: str) -> None:
    """Raise where a shared parameter gets two tensors; a `state_dict` has one under all of its names."""
    leaves = all(isinstance(x, Tensor) and x.grad_node is None for x in (first, second))
    if first is not second and not (leaves and first.data is second.data):
        raise ArgumentError(
            f"{name!r} is shared with another name, and both are given",
            operation="functional_call",
            inputs=describe(first, second),
            expected="one tensor for a parameter that is shared",
            found="two",
            remedy="give one of the names, as module.named_parameters() lists it",
        )
