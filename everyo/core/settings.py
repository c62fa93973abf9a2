"""Settings: what objects such as modules hold beside tensors, and who wants to know when they are read."""

from __future__ import annotations

from typing import Any

SIMPLE = (bool, int, float, complex, str, bytes, type(None))

HOOKS = "_hooks"  # the attribute with hooks: dicts by key, of which no two are the same

# Classes whose attributes are part of a program where the function that is compiled reads them.
watched: list[type] = []


def same_setting(a: Any, b: Any) -> bool:
    """Whether two settings mean the same: one object, or equal numbers, texts and containers of such."""
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind in SIMPLE:
        return repr(a) == repr(b)  # which tells 0.0 from -0.0
    if kind in (tuple, list):
        return len(a) == len(b) and all(map(same_setting, a, b))
    return kind is dict and list(a) == list(b) and all(same_setting(a[k], b[k]) for k in a)
