"""What an optimizer keeps, in dicts, and what compiled steps make of them.

A program reads the rate of a group, and the count and arrays of a parameter, at each call, and writes what
the function has put there. All else is part of the program. While a function is traced these dicts have
methods that see to that (`while_traced`); at all other times they are plain ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

from everyo.core.operands import WEAK
from everyo.core.settings import kept, still, while_traced
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import refuse_traced, staging

if TYPE_CHECKING:
    from everyo.optim.optimizer import Optimizer

_MISSING = object()


class Record(dict[Any, Any]):
    """A dict of an optimizer; as a pytree it is a plain one."""

    def changes(self, key: Any) -> bool:
        """Whether an item is read and written at each call, and no part of a program."""
        return False

    def tree_flatten(self) -> tuple[list[Any], tuple[Any, ...]]:
        """Return the items, and their keys."""
        return list(self.values()), tuple(self)

    @classmethod
    def tree_unflatten(cls, keys: tuple[Any, ...], items: Sequence[Any]) -> dict[Any, Any]:
        """Return a dict of other items."""
        return dict(zip(keys, items, strict=True))


class Group(Record):
    """Parameters and their options."""

    def changes(self, key: Any) -> bool:
        """Whether it is the rate."""
        return bool(key == "lr")


class Memory(Record):
    """What is kept of one parameter."""

    def changes(self, key: Any) -> bool:
        """Whether it is there; all of it changes at each step."""
        return True


class Memories(Record):
    """What is kept of each parameter."""


# ---- while a function is traced


def owned(record: Any) -> bool:
    """Whether a record belongs to an optimizer that the traced function itself has made."""
    tracer = staging.get()
    return tracer is not None and id(record) in tracer.attributes.owned


def own(record: Any) -> None:
    """Note that the traced function has made a record."""
    staging.get().attributes.owned[id(record)] = record


def item(record: Any, key: Any) -> Any:
    """Return an item as a traced function sees it: one that changes is a tensor of the program."""
    tracer, value = staging.get(), dict.__getitem__(record, key)
    if tracer is None or not _is_array(value):
        return value
    if owned(record):
        return value if type(value) in WEAK else tracer.symbol(tracer.constant(value))
    found = tracer.item(record, key)
    return wrap(found.data) if type(value) in WEAK else found  # a number does not change in place


def put(record: Any, key: Any, value: Any) -> None:
    """Make an item take a value of the program."""
    if owned(record):
        dict.__setitem__(record, key, value)
    else:
        staging.get().put(record, key, value)


def putting_back(record: dict[Any, Any], key: Any) -> Callable[[], None]:
    """Return a function that puts the record back that an item is now, with what it holds now."""
    held = dict.get(record, key)
    items = [] if held is None else [*dict.items(held)]

    def put_back() -> None:
        if held is None:
            dict.pop(record, key, None)
        else:
            dict.clear(held)
            dict.update(held, items)

    return put_back


def _is_array(value: Any) -> bool:
    return type(value) in WEAK or (hasattr(value, "dtype") and not isinstance(value, Tensor))


def _getitem(record: Record, key: Any) -> Any:
    changes = key in record and record.changes(key)
    return item(record, key) if changes else dict.__getitem__(record, key)


def _get(record: Record, key: Any, default: Any = None) -> Any:
    if key not in record:
        return default
    return record[key]


def _iter(record: Record) -> Iterator[Any]:  # without it `{**record}` would look past `_getitem`
    return iter(dict.keys(record))


def _values(record: Record) -> Any:
    return {key: record[key] for key in record}.values()


def _items(record: Record) -> Any:
    return {key: record[key] for key in record}.items()


def _setitem(record: Record, key: Any, value: Any) -> None:
    tracer = staging.get()
    if tracer is None or owned(record):
        dict.__setitem__(record, key, value)
    elif key in record and record.changes(key):
        tracer.put(record, key, value)
    elif key not in record or not still(value, kept(dict.__getitem__(record, key))):
        _refuse(f"the item {key!r}")


def _update(record: Record, *others: Any, **items: Any) -> None:
    for key, value in dict(*others, **items).items():
        record[key] = value


def _ior(record: Record, other: Any) -> Record:
    record.update(other)
    return record


def _or(record: Record, other: Any) -> dict[Any, Any]:
    return {**record, **other}


def _copy(record: Record) -> dict[Any, Any]:
    return {**record}


def _setdefault(record: Record, key: Any, default: Any = None) -> Any:
    if key not in record:
        record[key] = default
    return record[key]


def _changed(name: str) -> Callable[..., Any]:
    plain = getattr(dict, name)

    def method(record: Record, *args: Any) -> Any:
        if not owned(record):
            _refuse(f"{name}()")
        return plain(record, *args)

    return method


def set_attribute(optimizer: Any, name: str, value: Any) -> None:
    if name in ("state", "param_groups") and name in vars(optimizer) and not owned(optimizer.state):
        _refuse(f"another {name}")
    object.__setattr__(optimizer, name, value)


def _refuse(found: str) -> None:
    refuse_traced(
        "a change of an optimizer",
        f"{found} of its groups or state",
        "change it between the calls; group['lr'], and what is kept of a parameter, may change here",
    )


_METHODS = {
    "__getitem__": _getitem, "get": _get, "__iter__": _iter, "values": _values, "items": _items,
    "__or__": _or, "copy": _copy, "__setitem__": _setitem, "update": _update, "__ior__": _ior,
    "setdefault": _setdefault,
    **{name: _changed(name) for name in ("__delitem__", "clear", "pop", "popitem")},
}  # fmt: skip
while_traced.extend((Record, name, method) for name, method in _METHODS.items())


class Seen:
    """What a program takes for constant of an optimizer: its groups, their options, whose state is where."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer, self._state = optimizer, optimizer.state
        self._groups = [(group, [*group["params"]], _constants(group)) for group in optimizer.param_groups]
        self._started: dict[Tensor, Any] = {}

    def started(self, p: Tensor, state: Any) -> None:
        """Note where the state of a parameter is that the function updates."""
        self._started.setdefault(p, state)

    def same(self) -> Seen | None:
        """Return itself as long as all of that is as it was."""
        optimizer, groups = self._optimizer, self._optimizer.param_groups
        if optimizer.state is not self._state or len(groups) != len(self._groups):
            return None
        for now, (group, params, constants) in zip(groups, self._groups, strict=True):
            if now is not group or len(now["params"]) != len(params):
                return None
            if not all(map(is_, now["params"], params)):
                return None
            alike = all(map(is_, map(now.get, constants), constants.values()))  # most often, and quickly told
            if not (alike or all(still(now.get(key, _MISSING), value) for key, value in constants.items())):
                return None
        started = map(self._state.get, self._started)
        return self if all(map(is_, started, self._started.values())) else None


def _constants(group: dict[str, Any]) -> dict[str, Any]:
    fixed = {key: value for key, value in group.items() if key != "params"}
    if _is_array(dict.get(group, "lr")):
        del fixed["lr"]
    return {key: kept(value) for key, value in fixed.items()}
