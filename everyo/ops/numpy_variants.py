"""Functions of NumPy with options that the functions of the same name here have not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everyo.ops.creation import as_tensor
from everyo.ops.numpy_ufuncs import namespace, unsupported

NOT_SPECIAL = object()  # what a variant returns where the usual translation serves


def _sorted(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: int | None = -1, kind: Any = None, stable: Any = None, **options: Any) -> Any:
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


VARIANTS: dict[str, Callable[..., Any]] = {
    **{name: _sorted(name) for name in ("sort", "argsort")},
    "meshgrid": _meshgrid,
    "pad": _pad,
}
