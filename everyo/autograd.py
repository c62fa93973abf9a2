"""`eo.autograd`: gradients of tensors that are already computed, and operations of one's own."""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from everyo.core.backward import backward as backward
from everyo.core.backward import grad as grad
from everyo.guidance import unknown_name as _missing

if _TYPE_CHECKING:
    from everyo.transforms.function import Function as Function
    from everyo.transforms.function import once_differentiable as once_differentiable

_ON_FIRST_USE = ("Function", "once_differentiable")
_unknown_name = _missing(__name__)


def __getattr__(name: str) -> _Any:
    if name in _ON_FIRST_USE:
        found = getattr(_importlib.import_module("everyo.transforms.function"), name)
        globals()[name] = found
        return found
    return _unknown_name(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_FIRST_USE})
