"""Operations whose modules load when one of them is first used: `import everyo` stays as quick as it is."""

from __future__ import annotations

import importlib

from everyo.core.registry import define_later

# For each module its public functions that belong to `everyo` itself, those of its `__all__`.
TOP_LEVEL: dict[str, tuple[str, ...]] = {}
# Modules whose functions have a namespace of their own, such as `everyo.linalg`.
NAMESPACES: tuple[str, ...] = ()

ON_FIRST_USE = {name: module for module, names in TOP_LEVEL.items() for name in names}


def load() -> None:
    """Define the operations of all these modules."""
    for module in (*TOP_LEVEL, *NAMESPACES):
        importlib.import_module(module)


define_later(load)
