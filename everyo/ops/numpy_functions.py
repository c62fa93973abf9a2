"""NumPy's functions on tensors: `Tensor.__array_function__` finds the function of the same name.

The arguments are those of NumPy's signature. They reach the function here by name, its arrays by position.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from everyo.backends.numpy_names import no_value, origin, signature
from everyo.core.device import backend_of
from everyo.core.dtypes import in_double_precision
from everyo.core.tensor import Tensor
from everyo.ops.creation import as_tensor
from everyo.ops.element_order import ravel_in_order, reshape_in_order
from everyo.ops.numpy_ufuncs import counterpart, into, namespace, spelled, unsupported
from everyo.ops.numpy_variants import NOT_SPECIAL, VARIANTS
from everyo.ops.numpy_writers import WRITERS

_EMPTY = inspect.Parameter.empty
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_ALIASES = {"a_min": "min", "a_max": "max"}
# Computed by NumPy: text, types and integers have no derivative. The second kind are tensors again.
_DESCRIPTIONS = {
    "np.array2string", "np.array_repr", "np.array_str", "np.common_type", "np.einsum_path",
    "np.min_scalar_type",
}  # fmt: skip
_INTEGERS = {"np.packbits", "np.unpackbits"}
_SORTERS = {"np.sort", "np.argsort", "np.partition", "np.argpartition"}  # whose order names fields
_OWN = __name__.partition(".")[0] + "."
_FILES = {"np.save", "np.savez", "np.savez_compressed", "np.savetxt"}  # which keep no graph


def array_function(
    self: Tensor, function: Any, types: Sequence[type], args: Sequence[Any], options: dict[str, Any]
) -> Any:
    """Return what NumPy's `function` makes of arguments among which there are tensors.

    Raises
    ------
    UnsupportedOperationError
        If there is no such function here, or an argument that it has not.
    """
    for kind in types:
        if not _known(kind):
            return NotImplemented
    route = _route(function, len(args), tuple(options))
    if route is not None:
        with in_double_precision():
            result = route(args, options)
        if result is not NOT_SPECIAL:
            return result
    source = origin(function)
    if source is None:
        name = f"{function.__module__}.{function.__name__}"
        raise unsupported(
            name, args, f"the function {name}", "compute on x.detach().numpy(), without derivatives"
        )
    name = spelled(function)
    if name in _DESCRIPTIONS:
        return _on_arrays(function, args, options, _like if name == "np.einsum_path" else _detached)
    if name in _FILES:
        return _on_arrays(function, args, options, _constant)
    given = _arguments(function, args, options)
    out = given.pop("out", None)
    special = _special(source)
    with in_double_precision():
        result = NOT_SPECIAL if special is None else special(**given)
        if result is NOT_SPECIAL:
            result = _translated(function, name, given)
    return result if out is None else into(out, result, name)


def _special(source: tuple[str, str]) -> Callable[..., Any] | None:
    return _SPECIAL.get(".".join(filter(None, source)))


class _Route:
    """How the arguments of one form of call of a NumPy function reach its counterpart here.

    Found once for a function, a number of arguments and the names of the others. It serves calls in which
    every argument has its place; all else, errors too, is seen to argument by argument.
    """

    def __init__(self, function: Any, target: Any, special: Any, names: Sequence[str]) -> None:
        theirs, ours = signature(function).parameters, _parameters(target)
        positions = _positions(theirs)
        self.target, self.special, self.names = target, special, names
        self.places = [_slot(name, positions.get(name), theirs[name], ours) for name in names]
        self.silent = [theirs[name].default is None for name in names]
        self.first = [p.name for p in ours.parameters.values() if p.kind is p.POSITIONAL_ONLY]
        self.defaults = _defaults(theirs, ours)

    def __call__(self, args: Sequence[Any], options: dict[str, Any]) -> Any:
        """Return the result; `NOT_SPECIAL` if an argument has no place."""
        values = [*args, *options.values()]
        said = [
            i for i, v in enumerate(values) if v is not no_value and (v is not None or not self.silent[i])
        ]
        if self.special is not None:
            given = {self.names[i]: values[i] for i in said}
            result = NOT_SPECIAL if "out" in given else self.special(**given)
            if result is not NOT_SPECIAL:
                return result
        named: dict[Any, Any] = dict(self.defaults)
        for i in said:
            named[self.places[i]] = values[i]
        if None in named or not all(name in named for name in self.first):
            return NOT_SPECIAL
        return self.target(*[named.pop(name) for name in self.first], **named)


@functools.lru_cache(maxsize=4096)
def _route(function: Any, count: int, keys: tuple[str, ...]) -> _Route | None:
    """Return the way of calls with so many arguments by position and these names; None if there is none."""
    source, target = origin(function), counterpart(function)
    if source is None or target is None:
        return None
    try:
        bound = signature(function).bind(*[None] * count, **dict.fromkeys(keys))
    except TypeError:
        return None
    theirs, ours = bound.signature.parameters, _parameters(target).parameters
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    taken = [theirs[n] for n in bound.arguments] + [p for p in ours.values() if p.annotation != "Never"]
    if any(p.kind in several for p in taken):
        return None
    by_position = [n for n, p in theirs.items() if p.kind in _POSITIONAL][:count]
    return _Route(function, target, _special(source), [*by_position, *keys])


@functools.lru_cache(maxsize=256)
def _known(kind: type) -> bool:
    return issubclass(kind, Tensor) or any(base.__module__ == "numpy" for base in kind.__mro__[:-1])


def _arguments(function: Any, args: Sequence[Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by NumPy's names, without those that say nothing."""
    bound = signature(function).bind(*args, **options)
    given = dict(bound.arguments)
    for parameter in bound.signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            given.update(given.pop(parameter.name, {}))
    parameters = bound.signature.parameters
    silent = {name for name, value in given.items() if value is no_value}
    silent |= {
        n for n, v in given.items() if v is None and (n not in parameters or parameters[n].default is None)
    }
    return {name: value for name, value in given.items() if name not in silent}


def _translated(function: Any, name: str, given: dict[str, Any]) -> Any:
    """Call the counterpart of a function of NumPy with its arguments."""
    target = counterpart(function)
    if target is None:
        if name in _INTEGERS:
            bound = inspect.BoundArguments(signature(function), given)
            return _wrapped(_on_arrays(function, bound.args, bound.kwargs, _detached))
        remedy = "compute on x.detach().numpy() where no derivative is needed, or define an eo.custom_vjp"
        raise unsupported(name, _arrays(given), f"the function {name}", remedy)
    ours, theirs = _parameters(target), signature(function).parameters
    positions = _positions(theirs)
    slots: dict[str, Any] = {}
    for key, value in given.items():
        slot = _slot(key, positions.get(key), theirs.get(key), ours)
        if slot is not None:
            slots[slot] = value
        elif key not in theirs or not (_same(value, theirs[key].default) or _of_memory(key, value, name)):
            found = f"the argument {key}={value!r}" if not hasattr(value, "shape") else f"the argument {key}"
            raise unsupported(name, _arrays(given), found, "leave it out, or write what it does")
    slots = {**_defaults(theirs, ours), **slots}
    call = inspect.BoundArguments(ours, {key: slots[key] for key in ours.parameters if key in slots})
    return target(*call.args, **call.kwargs)


def _positions(theirs: Mapping[str, inspect.Parameter]) -> dict[str, int]:
    """Return the places of the parameters that may be given by position."""
    return {key: i for i, key in enumerate(k for k, p in theirs.items() if p.kind in _POSITIONAL)}


def _defaults(theirs: Mapping[str, inspect.Parameter], ours: inspect.Signature) -> dict[str, Any]:
    """Return what NumPy takes by default where the function here takes something else."""
    found = {}
    for key, parameter in theirs.items():
        slot = _slot(key, None, parameter, ours)
        if slot is None or parameter.kind is parameter.VAR_POSITIONAL:
            continue
        default, own = parameter.default, ours.parameters[slot].default
        said = not any(x is None or x is no_value or x is _EMPTY for x in (default, own))
        if said and default != own:
            found[slot] = default
    return found


@functools.lru_cache(maxsize=1024)
def _parameters(target: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(target)


def _slot(key: str, position: int | None, theirs: Any, ours: inspect.Signature) -> str | None:
    """Return the parameter that takes NumPy's `key`: one of this name, or an operand in the same place."""
    key = _ALIASES.get(key, key)
    parameters = list(ours.parameters.values())
    if theirs is not None and theirs.kind is theirs.VAR_POSITIONAL:
        return next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    if key in ours.parameters:
        return key
    if position is not None and position < len(parameters):
        parameter = parameters[position]
        if parameter.kind in _POSITIONAL and parameter.default is _EMPTY:
            return parameter.name
    return None


def _same(value: Any, default: Any) -> bool:
    """Whether an argument that has no place here is what NumPy takes by default anyway."""
    return value is default or (
        type(value) is type(default) and not hasattr(value, "shape") and value == default
    )


def _of_memory(key: str, value: Any, name: str) -> bool:
    """Whether an argument only says how NumPy uses memory, which makes no difference to a tensor."""
    if key == "order":
        return isinstance(value, str) and value.upper() in "CFAK" and name not in _SORTERS
    return key in ("overwrite_input", "subok") and isinstance(value, (bool, int))


def _arrays(given: dict[str, Any]) -> list[Any]:
    return [value for value in given.values() if hasattr(value, "shape")]


def _on_arrays(
    function: Any, args: Sequence[Any], options: dict[str, Any], convert: Callable[[Tensor], Any]
) -> Any:
    """Call NumPy's function itself, on what `convert` makes of the tensors."""
    return function(*_replaced(tuple(args), convert), **_replaced(options, convert))


def _detached(x: Tensor) -> Any:
    return x.detach().numpy()


def _like(x: Tensor) -> Any:
    xp = x.backend.xp
    return xp.broadcast_to(xp.zeros((), dtype=x.dtype), shape=tuple(x.shape))  # what asks for shapes sees one


def _constant(x: Tensor) -> Any:
    return x.numpy()  # which refuses what would lose its graph


def _replaced(value: Any, convert: Callable[[Tensor], Any]) -> Any:
    """Return arguments with each tensor converted, also those in lists."""
    if isinstance(value, Tensor):
        return convert(value)
    if type(value) in (list, tuple):
        return type(value)(_replaced(item, convert) for item in value)
    return {key: _replaced(item, convert) for key, item in value.items()} if type(value) is dict else value


def _wrapped(value: Any) -> Any:
    """Return arrays as tensors, in tuples and lists too."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_wrapped, value))
    return value if backend_of(value) is None else as_tensor(value)


# ---- functions whose arguments mean something else here, by name


def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    return namespace().nonzero(condition) if x is None and y is None else NOT_SPECIAL


def _each(name: str) -> Callable[..., Any]:
    def call(arys: Sequence[Any]) -> Any:
        results = tuple(getattr(namespace(), name)(x) for x in arys)
        if _optimizing():
            results = tuple(x.numpy().copy() for x in results)  # numpy() refuses what would lose its graph
        return results[0] if len(results) == 1 else results

    return call


def _optimizing() -> bool:
    """Whether the call is one of SciPy's optimizers, which ask for an array so and may write into it."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_OWN):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").startswith("scipy.optimize.")


def _take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    flat = (as_tensor(arr).ravel(), as_tensor(indices).ravel())
    return NOT_SPECIAL if axis is not None else namespace().take_along_axis(*flat, axis=0)


def _size(a: Any, axis: int | None = None) -> int:
    return int(a.size if axis is None else a.shape[axis])


def _alike(name: str) -> Callable[..., Any]:
    def call(shape: Any = None, **options: Any) -> Any:
        if shape is None:
            return NOT_SPECIAL
        x = as_tensor(options["prototype" if name == "empty" else "a"])
        settings = {"dtype": options.get("dtype", x.dtype), "device": options.get("device", x.device)}
        values = [options["fill_value"]] if "fill_value" in options else []
        return getattr(namespace(), name)(shape, *values, **settings)

    return call


def _shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    first, second = _replaced(a, _detached), _replaced(b, _detached)
    return bool(as_tensor(first).backend.xp.shares_memory(first, second))


_SPECIAL: dict[str, Callable[..., Any]] = {
    "where": _where,
    "around": lambda a, decimals=0: namespace().round(a, decimals),
    "atleast_1d": _each("atleast_1d"),
    "atleast_2d": _each("atleast_2d"),
    "atleast_3d": _each("atleast_3d"),
    **{f"{name}_like": _alike(name) for name in ("empty", "full", "ones", "zeros")},
    "reshape": lambda a, shape, order="C", copy=None: reshape_in_order(a, shape, order, copy, "np.reshape"),
    "ravel": lambda a, order="C": ravel_in_order(a, order, "np.ravel"),
    "shape": lambda a: tuple(a.shape),
    "ndim": lambda a: a.ndim,
    "size": _size,
    "take_along_axis": _take_along_axis,
    **WRITERS,
    **VARIANTS,
    "shares_memory": _shares_memory,
    "may_share_memory": _shares_memory,
}
