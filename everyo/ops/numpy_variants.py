"""Functions of NumPy with options that the functions of the same name here have not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everyo.core.dtypes import as_dtype
from everyo.errors import ArgumentError
from everyo.ops.creation import as_tensor
from everyo.ops.numpy_ufuncs import namespace, require_same_kind, unsupported

_SORTS = ("q", "h", "m", "s")  # NumPy looks at the first letter
NOT_SPECIAL = object()  # what a variant returns where the usual translation serves


def _sorted(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: int | None = -1, kind: Any = None, stable: Any = None, **options: Any) -> Any:
        if kind is not None and (not isinstance(kind, str) or kind[:1] not in _SORTS):
            raise ArgumentError(
                "there is no such way to sort",
                operation=name,
                expected='"quicksort", "heapsort", "mergesort" or "stable"',
                found=repr(kind),
                remedy="leave kind out: equal elements keep their order in any case",
            )
        if kind is None or options:
            return NOT_SPECIAL
        return getattr(namespace(), name)(a, axis=axis)  # always stable

    return call


def _meshgrid(xi: Any = (), copy: bool = True, **options: Any) -> Any:
    return list(namespace().meshgrid(*xi, **options))


def _pad(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Any:
    if not isinstance(mode, str):
        raise unsupported(
            "np.pad", [as_tensor(array)], "a function as mode", "use eo.concat with what it returns"
        )
    return NOT_SPECIAL


def _joined(name: str) -> Callable[..., Any]:
    def call(dtype: Any = None, casting: str = "same_kind", **options: Any) -> Any:
        arrays = options.get("arrays", options.get("tup", ()))
        if dtype is not None and casting == "same_kind":
            for x in arrays:
                require_same_kind(f"np.{name}", as_tensor(x), as_dtype(dtype))
        return NOT_SPECIAL

    return call


VARIANTS: dict[str, Callable[..., Any]] = {
    **{name: _sorted(name) for name in ("sort", "argsort")},
    **{name: _joined(name) for name in ("concatenate", "stack", "hstack", "vstack")},
    "meshgrid": _meshgrid,
    "pad": _pad,
}
