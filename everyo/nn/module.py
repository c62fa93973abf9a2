"""Module: parameters, buffers and sub-modules under their attribute names."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

from everyo.core.registry import op
from everyo.core.settings import watched
from everyo.core.tape import RemovableHandle
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, UnsupportedOperationError
from everyo.guidance import Elsewhere
from everyo.nn.layout import PLACES, Exact, Layout
from everyo.nn.parameter import Parameter
from everyo.nn.state import IncompatibleKeys, destination, load_state, move
from everyo.ops.axes import require_callable


class Module:
    """Base class of layers and models: set parameters and sub-modules as attributes, define `forward`.

    What a module trains is found by looking at its attributes, so there is nothing to declare:
    a `Parameter` is a parameter, a `Module` is a sub-module, in the order in which they were set. A
    tensor that belongs to the state but is not trained is declared with `register_buffer`. Modules in
    a list are not found; put them in a `ModuleList`.

    Attributes
    ----------
    training : bool
        Whether layers such as `Dropout` act as in training; see `train` and `eval`.

    Examples
    --------
    >>> import everyo as eo
    >>> class Line(eo.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.slope = eo.nn.Parameter([2.0])
    ...
    ...     def forward(self, x):
    ...         return self.slope * x
    >>> line = Line()
    >>> print(line(eo.tensor([3.0])).detach())
    [6.]
    >>> [name for name, _ in line.named_parameters()]
    ['slope']

    A module is a pytree whose leaves are its parameters, so transformations take it as an argument:

    >>> loss = lambda model, x: (model(x) ** 2).sum()
    >>> with eo.no_grad():
    ...     gradient = eo.grad(loss)(line, eo.tensor([3.0]))
    ...     line = eo.tree_map(lambda p, g: p - 0.01 * g, line, gradient)
    >>> print(gradient.slope, line.slope)
    [36.] [1.64]

    Notes
    -----
    As a pytree, a module behaves so:

    * The leaves are all parameters, frozen ones too, each once and in the order of `named_parameters`. A
      parameter that is shared is one leaf: its gradient is the sum over its uses, and it stays shared.
    * What comes back (a gradient, a tangent, `tree_map`'s result) is a new module with the given tensors as
      its parameters, of the class and with the settings and buffers of the first; a `hessian` is a module
      of modules. Two modules fit each other if classes and names of modules and parameters are the same.
    * Inside the function the module is such a copy. The module that was passed never changes, also not if
      the function raises. Buffers that a call updates, and `training`, belong to the copy: return them
      as auxiliary data (``has_aux``) to keep them. Attributes that are lists are not copied.
    * A gradient with respect to parameters that require grad is recorded, as for any tensor, so that
      ``backward()`` can go through a step of gradient descent. Where that is not wanted, `no_grad` around
      it saves the time and the memory.
    * An ensemble is a module of stacked parameters,
      ``eo.tree_map(lambda *ps: eo.stack(ps), *models)``, for ``eo.vmap(loss, in_axes=(0, None))``.
    """

    training: bool = True
    _hooks: dict[str, dict[int, Callable[..., Any]]] | None = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; every module defines it."""
        raise UnsupportedOperationError(
            "the module does not define forward",
            operation=type(self).__name__,
            expected="a method forward(self, ...)",
            found="none",
            remedy="define it in the class",
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward`, with the hooks around it."""
        hooks = self._hooks
        if not hooks:
            return self.forward(*args, **kwargs)
        for hook in tuple(hooks["before"].values()):
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        output = self.forward(*args, **kwargs)
        for hook in tuple(hooks["after"].values()):
            changed = hook(self, args, output)
            output = output if changed is None else changed
        return output

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, args)`` before `forward`; what it returns replaces the arguments."""
        return RemovableHandle(self._ensure_hooks()["before"], hook)

    def register_forward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after `forward`; what it returns replaces the output.

        Examples
        --------
        >>> import everyo as eo
        >>> layer = eo.nn.ReLU()
        >>> handle = layer.register_forward_hook(lambda module, args, output: print(output))
        >>> y = layer(eo.tensor([-1.0, 2.0]))
        [0. 2.]
        >>> handle.remove()
        """
        return RemovableHandle(self._ensure_hooks()["after"], hook)

    def _ensure_hooks(self) -> dict[str, dict[int, Callable[..., Any]]]:
        return self.__dict__.setdefault("_hooks", {"before": {}, "after": {}})

    # ---- registration

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (Parameter, Module)):
            self._check_name(name)
        attributes = _unread(self)
        held, places = attributes.get(name), attributes.get(PLACES, {})
        kind = (
            Tensor if name in places or name in self._buffer_names()
            else Parameter if isinstance(held, Parameter)
            else Module if isinstance(held, Module)
            else None
        )  # fmt: skip
        if kind is not None and value is not None and not isinstance(value, kind):
            raise DTypeError(
                f"{name!r} would no longer be a {_role(kind, name in places)}",
                operation=f"{type(self).__name__}.{name} = ...",
                expected=f"a {kind.__name__} or None",
                found=type(value).__name__,
                remedy="assign nn.Parameter(value), or delete the attribute first"
                if kind is Parameter
                else "delete the attribute first",
            )
        object.__setattr__(self, name, value)
        if places.pop(name, None) is not None and value is not None:
            places[name] = value

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self._buffer_names().pop(name, None)
        _unread(self).get(PLACES, {}).pop(name, None)

    def _buffer_names(self) -> dict[str, bool]:
        """Return the names declared as buffers, with whether each belongs to the state dict."""
        return _unread(self).get("_buffers", {})

    def _check_name(self, name: str) -> None:
        if not name or "." in name:
            raise ArgumentError(
                "the name of a parameter, buffer or sub-module must not be empty or contain a dot",
                operation=type(self).__name__,
                expected="a plain name: dots join the names of nested modules",
                found=repr(name),
                remedy="choose another name, such as one with underscores",
            )

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Set a tensor that is part of the state but not trained, such as a running mean.

        Parameters
        ----------
        name : str
            The attribute's name.
        tensor : Tensor or None
            Its value.
        persistent : bool, default True
            Whether `state_dict` includes it.

        Raises
        ------
        ArgumentError
            If the name is empty, has a dot or is taken.
        DTypeError
            If it is no tensor.
        """
        self._check_name(name)
        if name not in self._buffer_names() and hasattr(self, name):
            raise ArgumentError(
                "the attribute exists",
                operation="register_buffer",
                expected="a new name",
                found=repr(name),
                remedy="delete the attribute first, or choose another name",
            )
        _require(tensor, Tensor, "register_buffer", "make it one: eo.tensor(value)")
        self.__dict__.setdefault("_buffers", {})[name] = persistent
        setattr(self, name, tensor)

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """Set a parameter under a name that is computed: ``setattr``, but None or a `Parameter` only.

        Raises
        ------
        ArgumentError
            If the name is empty or has a dot.
        DTypeError
            If it is no parameter.
        """
        self._check_name(name)
        _require(parameter, Parameter, "register_parameter", "wrap it: nn.Parameter(value)")
        setattr(self, name, parameter)

    def add_module(self, name: str, module: Module | None) -> None:
        """Set a sub-module under a name that is computed: ``setattr``, but None or a `Module` only.

        Raises
        ------
        ArgumentError
            If the name is empty or has a dot.
        DTypeError
            If it is no module.
        """
        self._check_name(name)
        remedy = "wrap a plain function in a Module whose forward calls it"
        _require(module, Module, "add_module", remedy)
        setattr(self, name, module)

    # ---- looking inside

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield name and module of each direct sub-module; one that has two names once."""
        return _unique((k, v) for k, v in tuple(self.__dict__.items()) if isinstance(v, Module))

    def children(self) -> Iterator[Module]:
        """Yield the direct sub-modules."""
        return (module for _, module in self.named_children())

    def _walk(self, prefix: str = "", above: tuple[Module, ...] = ()) -> Iterator[tuple[str, Module]]:
        """Yield dotted name and module, parents first; a shared module under each of its names."""
        yield prefix, self
        above = (*above, self)
        for name, child in tuple(self.__dict__.items()):
            if isinstance(child, Module) and child not in above:
                yield from child._walk(f"{prefix}.{name}" if prefix else name, above)

    def named_modules(self, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """Yield dotted name and module for this module and all below it, parents first.

        Examples
        --------
        >>> import everyo as eo
        >>> model = eo.nn.Sequential(eo.nn.Linear(2, 3), eo.nn.ReLU())
        >>> [name for name, _ in model.named_modules()]
        ['', '0', '1']
        """
        found = self._walk(prefix)
        return _unique(found) if remove_duplicate else found

    def modules(self) -> Iterator[Module]:
        """Yield this module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def _named(
        self, own: Callable[[Module], Iterator[tuple[str, Tensor]]], prefix: str, recurse: bool
    ) -> Iterator[tuple[str, Any]]:
        """Yield the dotted name and value of what `own` yields for each module."""
        for path, module in self._walk(prefix) if recurse else [(prefix, self)]:
            for name, value in own(module):
                yield (f"{path}.{name}" if path else name), value

    def _own_parameters(self) -> Iterator[tuple[str, Tensor]]:
        places = self.__dict__.get(PLACES, ())
        for name, value in tuple(self.__dict__.items()):
            if isinstance(value, Parameter) or (name in places and isinstance(value, Tensor)):
                yield name, value

    def _own_buffers(self) -> Iterator[tuple[str, Tensor]]:
        return ((k, v) for k in self._buffer_names() if (v := self.__dict__.get(k)) is not None)

    def _own_state(self) -> Iterator[tuple[str, Tensor]]:
        yield from self._own_parameters()
        yield from ((k, v) for k, v in self._own_buffers() if self._buffer_names()[k])

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield dotted name and parameter; one that is shared is yielded once, under its first name.

        Examples
        --------
        >>> import everyo as eo
        >>> [(name, p.shape) for name, p in eo.nn.Linear(2, 3).named_parameters()]
        [('weight', (3, 2)), ('bias', (3,))]
        """
        found = self._named(Module._own_parameters, prefix, recurse)
        return _unique(found) if remove_duplicate else found

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters of this module and those below, each once: what an optimizer takes."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield dotted name and buffer, as `named_parameters` does."""
        found = self._named(Module._own_buffers, prefix, recurse)
        return _unique(found) if remove_duplicate else found

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers of this module and those below, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    # ---- the state

    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """Return all parameters and persistent buffers by name: a snapshot that later training leaves alone.

        Examples
        --------
        >>> import everyo as eo
        >>> list(eo.nn.Linear(2, 3).state_dict())
        ['weight', 'bias']
        """
        return {k: v.detach() for k, v in self._named(Module._own_state, prefix, True)}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Copy values into the parameters and buffers; on an error nothing has changed.

        Parameters
        ----------
        state_dict : mapping from name to tensor or array
            As `state_dict` returns it. Values are converted to the dtype and device of their target.
        strict : bool, default True
            Whether the names must match exactly; otherwise those that match are loaded.

        Returns
        -------
        IncompatibleKeys
            The names that were missing and those that were unexpected.

        Raises
        ------
        SerializationError
            If names are missing or unexpected (under `strict`), or shapes or dtypes do not fit; the
            message lists all of them.
        """
        return load_state(
            dict(self._named(Module._own_state, "", True)), state_dict, strict, type(self).__name__
        )

    def to(self, *where: Any, device: str | None = None, dtype: Any = None) -> Self:
        """Move all parameters and buffers to a device, convert the floating-point ones to a dtype.

        Tensors keep their identity, so that an optimizer made before still updates them.

        Parameters
        ----------
        *where : str or dtype
            A device, a dtype or both, as `Tensor.to` takes them.
        device, dtype : optional
            The same by keyword.

        Examples
        --------
        >>> import everyo as eo
        >>> eo.nn.Linear(2, 3).to(eo.float64).weight.dtype
        dtype('float64')
        """
        device, dtype = destination(where, device, dtype)
        move([*self.parameters(), *self.buffers()], device, dtype)
        return self

    # ---- as a pytree

    def tree_flatten(self) -> tuple[list[Any], Layout, list[str]]:
        """Return the parameters, what stands around them, and their names: what makes it a pytree."""
        layout = Layout(self)
        leaves, layout.leaves = layout.leaves, []
        return leaves, layout, layout.names

    def tree_flatten_exactly(self) -> tuple[list[Any], Layout, list[str]]:
        """Return the same with buffers among the leaves, and a layout that tells settings apart."""
        layout = Exact(self)
        leaves, layout.leaves = layout.leaves, []
        return leaves, layout, layout.names

    @classmethod
    def tree_unflatten(cls, layout: Layout, leaves: Sequence[Any]) -> Any:
        """Return a module like the one that `layout` was taken of, around other leaves."""
        return layout.build(leaves)

    # ---- training

    def train(self, mode: bool = True) -> Self:
        """Set `training` here and in all modules below; return the module."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Leave training mode: the same as ``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Freeze all parameters (False) or train them (True); return the module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters; ``set_to_none=False`` makes them zeros instead."""
        for parameter in self.parameters():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad = op.zeros_like(parameter)

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call `function` on every module below and then on this one, each once; return the module."""
        require_callable(function, "apply", "pass a function of a module")
        for module in _children_first(self, set()):
            function(module)
        return self

    # ---- showing

    def extra_repr(self) -> str:
        """Return what the repr shows between the parentheses; layers override it."""
        return ""

    @reprlib.recursive_repr()
    def __repr__(self) -> str:
        rows = [
            f"({k}): {v!r}".replace("\n", "\n  ") for k, v in self.__dict__.items() if isinstance(v, Module)
        ]
        extra, name = self.extra_repr(), type(self).__name__
        if not rows:
            return f"{name}({extra})"
        return "\n  ".join([f"{name}({extra}", *rows]) + "\n)"


def _unread(module: Module) -> dict[str, Any]:
    """Return the attributes of a module to who writes them: nothing that a program depends on is read."""
    return object.__getattribute__(module, "__dict__")


def _require(value: Any, kind: type, operation: str, remedy: str) -> None:
    """Raise DTypeError for a value that is neither None nor of the kind that an attribute takes."""
    if value is not None and not isinstance(value, kind):
        raise DTypeError(
            f"this is not a {kind.__name__.lower()}",
            operation=operation,
            expected=f"a {kind.__name__} or None",
            found=type(value).__name__,
            remedy=remedy,
        )


def _role(kind: type, leaf: bool) -> str:
    """Return what an attribute that holds a `kind` is called; `leaf` in a module rebuilt around leaves."""
    return "parameter" if leaf else "buffer" if kind is Tensor else kind.__name__.lower()


def _unique(named: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the pairs whose value has not been met before."""
    seen: set[int] = set()
    for name, value in named:
        if id(value) not in seen:
            seen.add(id(value))
            yield name, value


def _children_first(module: Module, seen: set[Module]) -> Iterator[Module]:
    seen.add(module)
    for child in module.children():
        if child not in seen:
            yield from _children_first(child, seen)
    yield module


for _name in (
    "float", "double", "half", "bfloat16", "type", "cpu", "cuda", "compile", "get_parameter", "get_buffer",
    "get_submodule", "register_module", "to_empty", "register_backward_hook", "register_full_backward_hook",
    "register_full_backward_pre_hook",
):  # fmt: skip
    setattr(Module, _name, Elsewhere(_name, "modules"))
watched.append(Module)
