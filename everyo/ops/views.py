"""Views of tensors without a graph, and traces, by the functions of the backend: nothing is worked out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from everyo.core import device
from everyo.core.explaining import EXPLAINED
from everyo.core.registry import keep_kernel, table_of_kernels
from everyo.core.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
_MISSING: Any = object()


def viewing(function: F) -> F:
    """Let the view that the backend has under the function's name answer for a tensor without a graph.

    It is given integers and tuples of integers, which mean to it what they mean to `function`; that one
    answers all other calls, and those that it refuses. A call takes a third of the time of one that could be
    recorded.
    """
    name = function.__name__
    views = table_of_kernels()

    @functools.wraps(function)
    def call(x: Any = _MISSING, a: Any = _MISSING, b: Any = _MISSING, /, *more: Any, **given: Any) -> Any:
        # the arguments have names of their own, since *args would take as long again as the view
        if x.__class__ is Tensor and x.grad_node is None and not given:
            array = x.data
            try:
                view = views[array.__class__]
            except KeyError:
                keep_kernel(views, array.__class__, _view_of(array, name))
                view = views.get(array.__class__)  # None while a function is traced
            if view is not None:
                out = _MISSING
                try:
                    if a is _MISSING:
                        out = view(array)
                    elif a.__class__ is int:  # NumPy takes True for 1
                        if b is _MISSING:
                            out = view(array, a)
                        elif b.__class__ is int and (not more or _are_integers(more)):
                            out = view(array, a, b, *more)
                    elif a.__class__ is tuple and b is _MISSING and _are_integers(a):
                        out = view(array, a)
                except EXPLAINED:
                    pass
                if out is not _MISSING:
                    tensor = Tensor()
                    tensor.data = out
                    tensor.grad = tensor.grad_node = None
                    return tensor
        return function(*[v for v in (x, a, b, *more) if v is not _MISSING], **given)

    return cast(F, call)


def _are_integers(values: tuple[Any, ...]) -> bool:
    for n in values:  # noqa: SIM110  which takes a third of the time
        if n.__class__ is not int:
            return False
    return True


def _view_of(array: Any, name: str) -> Callable[..., Any] | None:
    backend = device.backend_of(array)
    views: Any = getattr(backend.xp, "views", None) if backend is not None else None
    return views.get(name) if isinstance(views, dict) else None
