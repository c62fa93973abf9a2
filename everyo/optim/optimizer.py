"""Optimizer: parameter groups, per-parameter state, and the step that the update rules share."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

from everyo.backends.accelerated import LARGE, updated
from everyo.core.modes import enable_grad, no_grad
from everyo.core.ownership import changeable, sole_owner
from everyo.core.registry import op
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import refuse_traced, staging
from everyo.errors import (
    ArgumentError,
    DTypeError,
    EveryOError,
    GraphStateError,
    SerializationError,
    ShapeError,
    describe,
)
from everyo.ops.axes import require_callable
from everyo.optim import records

State = dict[str, Any]  # per parameter: the number of steps, and raw arrays that the optimizer alone holds
_BLOCK = 1 << 15  # elements
_NOTES = ("params", "initial_lr", "name")  # what a group may hold beside its options


class Optimizer:
    """Base class of optimizers.

    A subclass passes its defaults to ``__init__`` and defines `update`, plain array code for one
    parameter; everything else is here.

    Parameters
    ----------
    params : iterable of tensors, of (name, tensor) pairs, or of dicts
        What to optimize. A dict is a group: its ``"params"``, and options that differ from the defaults.
    defaults : dict
        The options of groups that do not set them.

    Attributes
    ----------
    param_groups : list of dict
        The groups with their options; changing ``group["lr"]`` takes effect at the next step.
    state : dict
        For each parameter what the update rule keeps.
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self.state: dict[Tensor, State] = records.Memories()
        if staging.get() is not None:
            records.own(self.state)
        module = hasattr(params, "parameters")
        if module or isinstance(params, (Tensor, Mapping)) or not isinstance(params, Iterable):
            raise DTypeError(
                "the parameters come in an iterable",
                operation=type(self).__name__,
                expected="model.parameters(), a list of tensors or a list of dicts",
                found=type(params).__name__,
                remedy="call its parameters()" if module else "put it in a list: [x]",
            )
        entries = list(params)
        if not entries:
            raise ArgumentError(
                "there is nothing to optimize",
                operation=type(self).__name__,
                expected="at least one parameter",
                found="none (an iterator that was already used up?)",
                remedy="pass list(model.parameters())",
            )
        for group in entries if isinstance(entries[0], dict) else [{"params": entries}]:
            self.add_param_group(group)

    # ---- what a subclass defines

    def check(self, group: dict[str, Any]) -> None:
        """Raise ArgumentError if the options of `group` are out of range."""

    def arrays(self, group: dict[str, Any]) -> tuple[str, ...]:
        """Return the names of the arrays that `update` keeps in its state; they start as zeros."""
        return ()

    def update(self, value: Any, gradient: Any, state: State, group: dict[str, Any]) -> Any:
        """Return the next value of a parameter, or of a block of its rows: it must be elementwise.

        `value` and the arrays in `state` may be overwritten (``value -= ...``), `gradient` may not.
        ``state["step"]`` counts the steps from 1. Only operators and ``op.<primitive>`` are used, so that
        the text serves arrays of every backend.
        """
        raise NotImplementedError

    # ---- groups

    def add_param_group(self, group: dict[str, Any]) -> None:
        """Add parameters, with options of their own.

        Parameters
        ----------
        group : dict
            ``"params"`` (a tensor or an iterable of them), and options that differ from the defaults.

        Raises
        ------
        ArgumentError
            If an option is unknown or out of range, or a parameter is already there.
        DTypeError
            If `group` is no dict, or what it holds are no tensors.
        GraphStateError
            If a parameter is no leaf.
        """
        name = type(self).__name__
        if not records.owned(self.state):
            refuse_traced("add_param_group", "another group", "add it outside")
        if not isinstance(group, Mapping):
            raise DTypeError(
                "a group is a dict",
                operation=name,
                expected='{"params": [...]}, with options of its own',
                found=type(group).__name__,
                remedy="write {'params': model.parameters(), 'lr': 0.1}",
            )
        unknown = self._unknown(group)
        if unknown or "params" not in group:
            raise ArgumentError(
                f"a group {f'has an unknown option {unknown[0]!r}' if unknown else 'names no parameters'}",
                operation=name,
                expected=", ".join(["params", *self.defaults]),
                found=", ".join(map(str, group)),
            )
        held = group["params"]
        tensors = [
            p[1] if isinstance(p, tuple) else p for p in ([held] if isinstance(held, Tensor) else held)
        ]
        known = {p for g in self.param_groups for p in g["params"]}
        for tensor in tensors:
            _require_new_leaf(tensor, known, name)
            known.add(tensor)
        full = records.Group({**self.defaults, **group, "params": tensors})
        if records.owned(self.state):
            records.own(full)
        self.check(full)
        self.param_groups.append(full)

    def _unknown(self, group: Mapping[str, Any]) -> list[str]:
        return [k for k in group if k not in self.defaults and k not in _NOTES]

    # ---- stepping

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters; ``set_to_none=False`` makes them zeros instead."""
        tracer = staging.get()
        self._seen(tracer)
        for group in self.param_groups:
            for p in group["params"]:
                if tracer is not None:
                    tracer.reading(p)  # which puts the gradient back if the function fails
                if set_to_none or p.grad is None:
                    p.grad = None
                else:
                    p.grad = op.zeros_like(p)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        Parameters
        ----------
        closure : callable, optional
            Called first, with recording on: it clears the gradients, computes the loss, calls
            ``backward()`` and returns the loss.

        Returns
        -------
        Tensor or None
            What the closure returned.

        Raises
        ------
        ShapeError
            If a gradient does not have its parameter's shape; no parameter has changed then.
        DTypeError
            If a gradient that was set is no tensor, or of another dtype than its parameter; likewise.
        ArgumentError
            If `closure` cannot be called.
        """
        loss = None
        self._seen(staging.get())
        if closure is not None:
            require_callable(closure, "step", "pass a function without arguments that returns the loss")
            with enable_grad():
                loss = closure()
        pairs = [
            (p, self._gradient(p), g) for g in self.param_groups for p in g["params"] if p.grad is not None
        ]
        for p, gradient, group in pairs:
            self._advance(p, gradient, group)
        return loss

    def _seen(self, tracer: Any) -> records.Seen | None:
        """Return what a program that is being compiled takes for constant here; None without one."""
        if tracer is None or records.owned(self.state):
            return None
        seen: records.Seen = tracer.guard(self, "optimizer", records.Seen(self).same)
        return seen

    def _advance(self, p: Tensor, gradient: Any, group: dict[str, Any]) -> None:
        """Update one parameter, block by block."""
        tracer = staging.get()
        if tracer is not None:
            with no_grad():
                self._write_down(tracer, p, group)
            return
        value, state, names = _writable(p), self._count(p, group), self.arrays(group)
        if value.size >= LARGE and self._at_once(value, gradient, state, names, group):
            p.data = value
            return
        for rows in _blocks(value.shape):
            view, views = value[rows], {name: state[name][rows] for name in names}
            block = {**state, **views}
            _put(value, rows, view, self.update(view, gradient[rows], block, group))
            for name in names:
                _put(state[name], rows, views[name], block[name])
        p.data = value

    def _at_once(self, value: Any, gradient: Any, state: State, names: Sequence[str], group: Any) -> bool:
        """Update a large parameter in one loop; False if there is none for it."""
        if not getattr(type(self).update, "of_arguments", False):
            return False
        options = {k: v for k, v in group.items() if k not in ("lr", *_NOTES)}

        def function(value: Any, gradient: Any, *rest: Any) -> Any:
            *arrays, lr, step = rest
            block = {"step": step, **dict(zip(names, arrays, strict=True))}
            new = self.update(value, gradient, block, {**options, "lr": lr})
            return new, *(block[name] for name in names)

        key = (type(self), tuple(names), tuple(sorted((k, _frozen(v)) for k, v in options.items())))
        arrays = (value, gradient, *(state[name] for name in names))
        return updated(key, function, arrays, (group["lr"], state["step"]))

    def _write_down(self, tracer: Any, p: Tensor, group: dict[str, Any]) -> None:
        """Make the update part of a program that is being compiled; count and rate are read anew."""
        if not records.owned(self.state):
            tracer.undoing.callback(records.putting_back(self.state, p))
        state, names = self._started(p, group), self.arrays(group)
        seen = self._seen(tracer)
        if seen is not None:
            seen.started(p, state)
        options = {k: records.item(group, k) if k == "lr" else v for k, v in group.items()}
        step = records.item(state, "step") + 1
        arrays = {name: changeable(op.alias(records.item(state, name))) for name in names}
        block = {"step": step, **arrays}
        value, gradient = changeable(p.detach()), p.grad.detach()  # type: ignore[union-attr]
        new = self.update(value, gradient, block, options)
        for name in ("step", *names):
            records.put(state, name, block[name])
        p.assign(new)

    def _started(self, p: Tensor, group: dict[str, Any]) -> State:
        """Return the state of `p`, with zeros for the arrays that it lacks."""
        state, names = self.state.get(p), self.arrays(group)
        if state is None:
            state = records.Memory(step=0)
            dict.__setitem__(self.state, p, state)
            if records.owned(self.state):
                records.own(state)
        fresh = [name for name in names if name not in state]
        if fresh and len(fresh) == len(names):
            dict.__setitem__(state, "step", 0)  # an array that joins others takes over their count
        for name in fresh:
            dict.__setitem__(state, name, p.backend.xp.zeros(tuple(p.shape), dtype=p.dtype))
        return state

    def _count(self, p: Tensor, group: dict[str, Any]) -> State:
        """Return the state of `p` for its next step."""
        state = self._started(p, group)
        state["step"] += 1
        return state

    def _gradient(self, p: Tensor) -> Any:
        """Return the raw gradient of `p`, of its dtype."""
        assert p.grad is not None
        held: Any = p.grad
        kind: type[EveryOError] = DTypeError
        if isinstance(held, Tensor):
            gradient = held.data
            if gradient.shape != p.data.shape:
                kind = ShapeError
            elif gradient.dtype == p.data.dtype:
                return gradient
        raise kind(
            "a gradient does not fit its parameter",
            operation=f"{type(self).__name__}.step",
            expected=f"a tensor: {describe(p)}",
            found=f"{type(held).__name__}: {describe(held)}" if hasattr(held, "dtype") else describe(held),
            remedy="call zero_grad(), or set a tensor of that shape and dtype: "
            "w.grad = eo.asarray(g, dtype=w.dtype)",
        )

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Return options and state as plain data and tensors; parameters are numbered in their order.

        Returns
        -------
        dict
            ``"state"``: from a parameter's number to its state; ``"param_groups"``: the options, with
            ``"params"`` as numbers. A snapshot: later steps leave it alone.
        """
        refuse_traced("state_dict", "the state of an optimizer as Python data", "take it outside")
        numbers = {p: i for i, p in enumerate(p for g in self.param_groups for p in g["params"])}
        return {
            "state": {
                numbers[p]: {
                    k: v if isinstance(v, int) else wrap(p.backend.asarray(v, None, p.device, True))
                    for k, v in state.items()
                }
                for p, state in self.state.items()
                if p in numbers  # none that has left its group
            },
            "param_groups": [
                {
                    **copy.deepcopy({k: v for k, v in g.items() if k != "params"}),
                    "params": [numbers[p] for p in g["params"]],
                }
                for g in self.param_groups
            ],
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over options and state that `state_dict` returned; on an error nothing has changed.

        Parameters
        ----------
        state_dict : mapping
            What `state_dict` of an optimizer of the same class returned.

        Raises
        ------
        SerializationError
            If the groups or the shapes of the state do not fit the parameters.
        """
        refuse_traced("load_state_dict", "another state of an optimizer", "load it outside")
        try:
            groups = [dict(g) for g in state_dict["param_groups"]]
            states = {int(k): dict(v) for k, v in state_dict["state"].items()}
            lengths = [len(g["params"]) for g in groups]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._misfit(
                "'state' and 'param_groups', as state_dict() returns them", repr(error)
            ) from None
        own = [len(g["params"]) for g in self.param_groups]
        if lengths != own:
            raise self._misfit(f"groups of {own} parameters", f"groups of {lengths}")
        params = [p for g in self.param_groups for p in g["params"]]
        order = [number for g in groups for number in g["params"]]
        if unknown := [k for k in states if k not in order]:
            raise self._misfit("state of parameters in the groups", f"state of parameter {unknown[0]}")
        if foreign := [k for g in groups for k in self._unknown(g)]:
            raise self._misfit(f"options among {', '.join(self.defaults)}", f"an option {foreign[0]!r}")
        if uncounted := [k for k, v in states.items() if not isinstance(v.get("step"), int)]:
            raise self._misfit(
                "a count 'step' for each parameter with state", f"none for parameter {uncounted[0]}"
            )
        merged = [
            records.Group({**old, **new, "params": old["params"]})
            for old, new in zip(self.param_groups, groups)
        ]
        for group in merged:
            self.check(group)
        loaded = records.Memories()
        for p, number in zip(params, order):
            if number in states:
                loaded[p] = records.Memory((k, self._restored(p, k, v)) for k, v in states[number].items())
        self.param_groups[:] = merged
        self.state = loaded

    def _restored(self, p: Tensor, name: str, value: Any) -> Any:
        """Return an entry of a parameter's state: the count as it is, an array copied and converted."""
        if isinstance(value, int):
            return value
        array = value.backend.to_numpy(value.data) if isinstance(value, Tensor) else value
        try:
            restored = p.backend.asarray(array, p.dtype, p.device, True)
        except (TypeError, ValueError):
            raise self._misfit(f"{name!r} as an array of {p.dtype}", repr(value)) from None
        if restored.shape != p.data.shape:
            raise self._misfit(f"{name!r} of shape {p.shape}", f"shape {restored.shape}")
        return restored

    def _misfit(self, expected: str, found: str) -> SerializationError:
        return SerializationError(
            "the state dict does not fit the optimizer",
            operation=f"{type(self).__name__}.load_state_dict",
            expected=expected,
            found=found,
            remedy="build the optimizer with the same parameters and groups as the one that was saved",
        )

    def __repr__(self) -> str:
        rows = []
        for i, group in enumerate(self.param_groups):
            options = ", ".join(f"{k}={v!r}" for k, v in group.items() if k != "params")
            rows.append(f"  group {i}: {len(group['params'])} tensors, {options}")
        return "\n".join([f"{type(self).__name__}(", *rows, ")"])


def of_arguments(update: Any) -> Any:
    """Mark an update rule that depends on its arguments and its class alone, so that a loop can take it."""
    update.of_arguments = True
    return update


def _require_new_leaf(tensor: Any, known: set[Tensor], operation: str) -> None:
    """Raise unless `tensor` can be optimized and is not among those that are."""
    if not isinstance(tensor, Tensor):
        raise DTypeError(
            "only tensors are optimized",
            operation=operation,
            expected="a Tensor",
            found=type(tensor).__name__,
            remedy="make it one with eo.tensor(..., requires_grad=True)",
        )
    if not tensor.is_leaf:
        raise GraphStateError(
            "only a leaf can be optimized",
            operation=operation,
            inputs=describe(tensor),
            expected="a parameter, or a tensor that no recorded operation made",
            found="a computed tensor",
            remedy="optimize x.detach().requires_grad_(), or the leaves it was computed from",
        )
    if tensor in known:
        raise ArgumentError(
            "a parameter is given twice, and would be updated twice",
            operation=operation,
            inputs=describe(tensor),
            expected="each parameter once, in one group",
            remedy="leave it out of one group",
        )


def _frozen(option: Any) -> Any:
    return tuple(option) if isinstance(option, list) else option


def _blocks(shape: tuple[int, ...]) -> Iterator[Any]:
    """Yield indices of blocks of rows, so small that the temporary arrays of an update stay in the cache."""
    size = math.prod(shape)
    if size <= _BLOCK:
        yield ...
        return
    rows = max(1, _BLOCK * shape[0] // size)
    for start in range(0, shape[0], rows):
        yield slice(start, start + rows)


def _put(whole: Any, rows: Any, view: Any, new: Any) -> None:
    """Write the new value of a block, unless it was written in place."""
    if new is not view:
        whole[rows] = new


def _writable(p: Tensor) -> Any:
    """Return the value of `p` in a buffer that may be overwritten: its own if nobody else holds it."""
    return p.data if sole_owner(p) else p.backend.asarray(p.data, None, p.device, True)


def require(name: str, value: Any, low: float, high: float, operation: str) -> None:
    """Raise ArgumentError unless `value` is a number and ``low <= value < high``; NaN is never in range."""
    number = isinstance(value, Real)
    if not (number and low <= value < high):
        raise ArgumentError(
            f"{name} is out of range",
            operation=operation,
            expected=f"{low:g} <= {name} < {high:g}",
            found=repr(value),
        )


records.while_traced.append((Optimizer, "__setattr__", records.set_attribute))
