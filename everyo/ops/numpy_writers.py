"""NumPy's functions that write into their first argument: a tensor takes the new value and its graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.ops.assembling import resize
from everyo.ops.creation import as_tensor, asarray
from everyo.ops.float_parts import nan_to_num
from everyo.ops.gathering import nonzero, put_along_axis, within
from everyo.ops.numpy_ufuncs import into
from everyo.ops.piecewise import where as chosen
from everyo.ops.shape import broadcast_to, ravel, reshape


def _put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None = None) -> None:
    if axis is None:
        flat = put_along_axis(ravel(arr), ravel(indices), ravel(values), axis=0)
        into(arr, reshape(flat, arr.shape), "np.put_along_axis")
    else:
        into(arr, put_along_axis(arr, indices, values, axis), "np.put_along_axis")


def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    x = as_tensor(dst)
    weak = type(src) is int and x.dtype.kind in "iu"  # which fits into any integer dtype that holds it
    value = broadcast_to(asarray(src, dtype=x.dtype) if weak else as_tensor(src), x.shape)
    into(dst, value if where is True else chosen(where, value, x), "np.copyto")


def _written(target: Any, places: Any, values: Any, name: str) -> None:
    """Write values, repeated as often as need be, to places of the flattened target."""
    flat, places = ravel(as_tensor(target)).clone(), ravel(as_tensor(places))
    if places.size:
        flat[places] = resize(as_tensor(values), places.size).astype(flat.dtype, copy=False)
    into(target, reshape(flat, target.shape), name)


def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    _written(a, within(as_tensor(ind), a.size, mode, "np.put"), v, "np.put")


def _place(arr: Any, mask: Any, vals: Any) -> None:
    _written(arr, nonzero(ravel(as_tensor(mask)))[0], vals, "np.place")


def _putmask(a: Any, mask: Any, values: Any) -> None:
    x = as_tensor(a)
    repeated = resize(as_tensor(values), x.shape).astype(x.dtype, copy=False)
    into(a, chosen(as_tensor(mask) != 0, repeated, x), "np.putmask")


def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    x = as_tensor(a)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ShapeError(
            "there is no such diagonal",
            operation="np.fill_diagonal",
            inputs=describe(x),
            expected="a matrix, or axes of equal length",
            found=str(tuple(x.shape)),
            remedy="write x[index] = value",
        )
    step = sum(_stride(x, axis) for axis in range(x.ndim))
    stop = x.size if wrap or x.ndim != 2 else min(x.size, x.shape[1] * x.shape[1])
    _written(a, x.backend.xp.arange(0, stop, step), val, "np.fill_diagonal")


def _stride(x: Tensor, axis: int) -> int:
    """Return how many elements lie between neighbours along an axis of the flattened tensor."""
    stride = 1
    for size in x.shape[axis + 1 :]:
        stride *= size
    return stride


def _nan_to_num(x: Any, copy: bool = True, **options: Any) -> Any:
    result = nan_to_num(x, **options)
    return result if copy else into(x, result, "np.nan_to_num")


WRITERS: dict[str, Callable[..., Any]] = {
    "copyto": _copyto,
    "fill_diagonal": _fill_diagonal,
    "nan_to_num": _nan_to_num,
    "place": _place,
    "put": _put,
    "put_along_axis": _put_along_axis,
    "putmask": _putmask,
}
