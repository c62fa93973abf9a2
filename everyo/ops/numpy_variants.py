"""Functions of NumPy with options that the functions of the same name here have not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everyo.core.tensor import Tensor
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
    values = options.get("constant_values", 0)
    if mode in ("edge", "reflect", "symmetric", "wrap") or (
        mode == "constant" and not hasattr(values, "__len__")
    ):
        return NOT_SPECIAL
    x = as_tensor(array)
    widths = pairs(pad_width, x.ndim)
    if mode == "empty":
        return namespace().pad(x, pad_width)
    given = {"constant": "constant_values", "linear_ramp": "end_values"}.get(mode, "stat_length")
    if set(options) - {given} or (given == "stat_length" and mode not in _EXTREMES):
        raise unsupported("np.pad", [x], f"mode={mode!r} with {options}", "use another mode, or eo.concat")
    settings = pairs(options.get(given, None if given == "stat_length" else 0), x.ndim)
    for axis, (width, setting) in enumerate(zip(widths, settings)):
        flipped = [x, namespace().flip(x, axis=axis)]
        before, after = (_rim(y, axis, n, mode, s) for y, n, s in zip(flipped, width, setting))
        x = namespace().concat([before, x, namespace().flip(after, axis=axis)], axis=axis)
    return x


_EXTREMES = {"maximum": "max", "minimum": "min", "mean": "mean", "median": "median"}


def pairs(value: Any, rank: int) -> list[Any]:
    """Return a setting of `np.pad` as one for the beginning and one for the end of each axis."""
    items = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(items, (list, tuple)):
        return [(items, items)] * rank
    if not isinstance(items[0], (list, tuple)):
        items = [items if len(items) == 2 else (items[0], items[0])]
    items = [tuple(item) if len(item) == 2 else (item[0], item[0]) for item in items]
    return items * rank if len(items) == 1 else items


def _rim(x: Tensor, axis: int, width: int, mode: str, setting: Any) -> Tensor:
    """Return what comes before the first slice along an axis."""
    root, lead = namespace(), (slice(None),) * axis
    shape = (*x.shape[:axis], width, *x.shape[axis + 1 :])
    if mode == "constant":
        return root.full(shape, setting, dtype=x.dtype, device=x.device)
    if mode == "linear_ramp":
        first = x[(*lead, 0)]
        return root.linspace(setting, first, width, endpoint=False, axis=axis).astype(x.dtype, copy=False)
    part = x if setting is None else x[(*lead, slice(0, setting))]
    value = getattr(root, _EXTREMES[mode])(part, axis=axis, keepdims=True)
    value = root.round(value) if x.dtype.kind in "iu" and value.dtype.kind == "f" else value
    return root.broadcast_to(value.astype(x.dtype, copy=False), shape)


VARIANTS: dict[str, Callable[..., Any]] = {
    **{name: _sorted(name) for name in ("sort", "argsort")},
    "meshgrid": _meshgrid,
    "pad": _pad,
}
