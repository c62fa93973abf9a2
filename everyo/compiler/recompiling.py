"""What keeps changing where one function is compiled again and again."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any


def what_changes(f: Callable[..., Any], keys: Sequence[Any], static: Sequence[int]) -> str:
    """Return which argument, or what else, differs between calls that compiled.

    Parameters
    ----------
    f : callable
        What is compiled.
    keys : sequence of tuple
        Of each call the structure of its arguments, the kinds of their leaves, and the static values.
    static : sequence of int
        The positions of static arguments, negative ones from the end.
    """
    names = [p.name for p in parameters_of(f) if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    fixed = sorted(i + len(names) if i < 0 else i for i in static)
    dynamic = [name for i, name in enumerate(names) if i not in fixed]
    arguments: dict[str, set[Any]] = {}
    calls = [list(_arguments(structure, kinds, dynamic)) for structure, kinds, *_ in keys]
    for name, spec, part in itertools.chain(*calls):
        arguments.setdefault(name, set()).add((spec, part))
    if len({tuple(name for name, *_ in call) for call in calls}) > 1:
        return "which arguments it is given keeps changing"
    worst = max(arguments, key=lambda name: len(arguments[name]), default="")
    if worst and len(arguments[worst]) > 1:
        return f"{_part(worst, arguments[worst])} keeps changing"
    statics = [set(column) for column in zip(*(key[2] for key in keys))]
    moving = [i for i, values in enumerate(statics) if len(values) > 1]
    if moving:
        known = len(statics) == len(fixed) and fixed[0] >= 0 and fixed[-1] < len(names)
        name = names[fixed[moving[0]]] if known else ""
        return f"static argument {name!r} keeps changing" if name else "a static argument keeps changing"
    return "what it reads outside keeps changing"


def parameters_of(f: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function; none where it does not say them."""
    try:
        return list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return []


def _arguments(structure: Any, kinds: Sequence[Any], names: list[str]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name of each argument of a call, its structure, and the kinds of its leaves."""
    positional, named = structure.children()
    start = 0
    known = [*names, *(f"argument {i}" for i in range(len(names), positional.num_children))]
    for name, spec in [*zip(known, positional.children()), *zip(named.entries(), named.children())]:
        yield name, spec, tuple(kinds[start : start + spec.num_leaves])
        start += spec.num_leaves


def _part(name: str, found: set[Any]) -> str:
    """Return which part of an argument differs: one of its leaves, or its structure."""
    specs = {spec for spec, _ in found}
    if len(specs) > 1:
        return f"the structure of argument {name!r}"
    columns = [len(set(column)) for column in zip(*(part for _, part in found))]
    accessor = specs.pop().accessors()[columns.index(max(columns))]
    return f"argument {accessor.codify(name) if accessor else name!r}"
