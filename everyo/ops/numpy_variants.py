"""Functions of NumPy with options that the functions of the same name here have not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everyo.core.tensor import Tensor
from everyo.ops.creation import as_tensor, as_tensors
from everyo.ops.numpy_ufuncs import namespace, unsupported
from everyo.ops.numpy_writers import within

NOT_SPECIAL = object()  # what a variant returns where the usual translation serves


def _take(a: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Any:
    if mode == "raise":
        return NOT_SPECIAL
    x = as_tensor(a)
    size = x.size if axis is None else x.shape[axis]
    return namespace().take(x, within(as_tensor(indices), size, mode), axis=axis)


def _sorted(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: int | None = -1, kind: Any = None, stable: Any = None, **options: Any) -> Any:
        if kind is None or options:
            return NOT_SPECIAL
        return getattr(namespace(), name)(a, axis=axis)  # always stable

    return call


def _average(a: Any, returned: bool = False, **options: Any) -> Any:
    if not returned:
        return NOT_SPECIAL
    root, weights = namespace(), options.get("weights")
    mean = root.average(a, **options)
    if weights is None:
        x = as_tensor(a)
        return mean, root.full_like(mean, x.size / max(mean.size, 1))
    x, weights = as_tensors((a, weights), "average")
    axes: dict[str, Any] = {key: options[key] for key in ("axis", "keepdims") if key in options}
    ones = root.ones_like(x, dtype=mean.dtype)
    return mean, root.average(ones, weights=weights, **axes) * _total(ones, weights, axes)


def _total(ones: Tensor, weights: Tensor, axes: dict[str, Any]) -> Tensor:
    """Return the sum of the weights that belong to each average."""
    if weights.shape != ones.shape:
        axis = axes["axis"]
        order = [i % ones.ndim for i in (axis if isinstance(axis, tuple) else (axis,))]
        weights = weights.reshape(tuple(n if i in order else 1 for i, n in enumerate(ones.shape)))
    return (ones * weights).sum(**axes)


def _meshgrid(xi: Any = (), copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    if not sparse:
        return list(namespace().meshgrid(*xi, indexing=indexing))
    order = list(range(len(xi)))
    if indexing == "xy":
        order[:2] = order[:2][::-1]
    vectors = [as_tensor(x) for x in xi]
    return [
        x.reshape(tuple(x.size if i == at else 1 for i in range(len(xi)))) for x, at in zip(vectors, order)
    ]


def _masked(name: str) -> Callable[..., Any]:
    """Return the mean, variance or standard deviation of those elements for which `where` holds."""

    def call(a: Any, where: Any = True, mean: Any = None, **options: Any) -> Any:
        if where is True and mean is None:
            return NOT_SPECIAL
        dtype, axis, keep = (options.pop(key, None) for key in ("dtype", "axis", "keepdims"))
        ddof = options.pop("ddof", options.pop("correction", 0))
        x = as_tensor(a) if dtype is None else as_tensor(a).astype(dtype)
        where = namespace().broadcast_to(where, x.shape)
        count = where.sum(axis=axis, keepdims=True)
        middle = _sum(x, where, axis, True) / count if mean is None else as_tensor(mean)
        if name == "mean":
            return middle if keep else _sum(x, where, axis, False) / where.sum(axis=axis)
        spread = _sum(abs(x - middle) ** 2, where, axis, bool(keep))
        variance = spread / namespace().maximum(where.sum(axis=axis, keepdims=bool(keep)) - ddof, 0)
        return variance if name == "var" else namespace().sqrt(variance)

    return call


def _sum(x: Tensor, where: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return namespace().where(where, x, 0).sum(axis=axis, keepdims=keepdims)


def _linspace(start: Any, stop: Any, retstep: bool = False, **options: Any) -> Any:
    if not retstep:
        return NOT_SPECIAL
    points = namespace().linspace(start, stop, **options)
    low, high = as_tensors((start, stop), "linspace")
    parts = options.get("num", 50) - bool(options.get("endpoint", True))
    return points, (high - low) / parts if parts else (high - low) * float("nan")


def _hermitian(name: str) -> Callable[..., Any]:
    def call(hermitian: bool = False, **options: Any) -> Any:
        linalg = namespace().linalg
        if not hermitian:
            return NOT_SPECIAL
        if name != "svd":
            return getattr(linalg, name)(options.pop("a", options.pop("A", None)), **options)
        x = as_tensor(options["a"])
        if options.get("compute_uv", True):
            return linalg.svd(x, full_matrices=options.get("full_matrices", True))
        return linalg.svdvals(x)

    return call


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
    **{name: _masked(name) for name in ("mean", "std", "var")},
    **{name: _sorted(name) for name in ("sort", "argsort")},
    **{f"linalg.{name}": _hermitian(name) for name in ("svd", "pinv", "matrix_rank")},
    "average": _average,
    "linspace": _linspace,
    "meshgrid": _meshgrid,
    "pad": _pad,
    "take": _take,
}
