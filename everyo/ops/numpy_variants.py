"""Functions of NumPy with options that the functions of the same name here have not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everyo.core.dtypes import as_dtype
from everyo.errors import ArgumentError, DTypeError, describe
from everyo.ops.axes import is_one_of
from everyo.ops.creation import as_tensor
from everyo.ops.numpy_ufuncs import namespace, require_same_kind, unsupported

_SORTS = ("q", "h", "m", "s")  # NumPy looks at the first letter
NOT_SPECIAL = object()  # what a variant returns where the usual translation serves

_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


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


def _einsum(
    operands: Any = (), dtype: Any = None, casting: str = "safe", order: Any = None, optimize: Any = False
) -> Any:
    """Convert the operands to `dtype` first, as NumPy does; an order is one of memory alone."""
    if dtype is not None or casting != "safe":  # the common dtype of all is always a safe one
        if not is_one_of(casting, _CASTINGS):
            raise ArgumentError(
                "there is no such casting",
                operation="np.einsum",
                expected=", ".join(map(repr, _CASTINGS)),
                found=repr(casting),
                remedy="leave it out for 'safe'",
            )
        first = 1 if isinstance(operands[0], str) else 0
        step = 1 if first else 2  # lists of integers stand between the operands otherwise
        found = list(operands)
        last = len(found) - len(found) % step if step == 2 else len(found)
        places = range(first, last, step)
        tensors = [as_tensor(found[i]) for i in places]
        if dtype is None and tensors:
            dtype = tensors[0].backend.xp.result_type(*[x.dtype for x in tensors])
        for i, x in zip(places, tensors):
            found[i] = _converted(x, as_dtype(dtype), casting)
        operands = found
    return namespace().einsum(*operands, optimize=optimize)


def _converted(x: Any, dtype: Any, casting: str) -> Any:
    xp = x.backend.xp
    if casting != "unsafe" and not xp.can_cast(x.dtype, dtype, casting):
        raise DTypeError(
            "an operand would be cast in a way that is not allowed",
            operation="np.einsum",
            inputs=describe(x),
            expected=f"a dtype to which casting={casting!r} leads",
            found=f"dtype={dtype}",
            remedy='leave dtype and casting out, or pass casting="same_kind" or "unsafe"',
        )
    return x.astype(dtype, copy=False)


VARIANTS: dict[str, Callable[..., Any]] = {
    **{name: _sorted(name) for name in ("sort", "argsort")},
    **{name: _joined(name) for name in ("concatenate", "stack", "hstack", "vstack")},
    "einsum": _einsum,
    "meshgrid": _meshgrid,
    "pad": _pad,
}
