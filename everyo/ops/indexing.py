"""Indexing: elements read and written by position, and the transposes of that.

An index is kept as a *template*, the static part of it: a tuple of ints, slices, None, Ellipsis and
booleans in which `ARRAY` or `DISTINCT` holds the place of an integer array. The arrays are inputs of the
operation, so that a transformation can map over them.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

from everyo.core.cotangents import Scattered
from everyo.core.device import backend_of
from everyo.core.dispatch import apply
from everyo.core.dtypes import DIFFERENTIABLE, to_float
from everyo.core.explaining import explain
from everyo.core.modes import current_mode
from everyo.core.operands import WEAK, array_from
from everyo.core.ownership import sole_owner
from everyo.core.registry import op
from everyo.core.samples import Integers, Values, sample
from everyo.core.tensor import Tensor
from everyo.core.traced import staging
from everyo.errors import DTypeError, IndexingError, UnsupportedOperationError, describe
from everyo.ops import index_batching, index_errors
from everyo.ops.creation import weak
from everyo.ops.families import primitive
from everyo.ops.index_batching import ARRAY, DISTINCT, Template
from everyo.ops.severing import severed

__all__: list[str] = []  # reached as x[index] and x[index] = v; `everyo.ops.gathering` has the functions

_NoneType, _EllipsisType = type(None), type(Ellipsis)
_PLAIN = frozenset({int, _NoneType, _EllipsisType})
_BOUNDS = frozenset({int, _NoneType})
_MANY = 512  # positions


def _fill(index: Template, arrays: Sequence[Any]) -> Template:
    """Return the index that NumPy understands: the template with the arrays in their places."""
    if not arrays:
        return index
    following = iter(arrays)
    return tuple([next(following) if type(item) is str else item for item in index])


def _split(parts: Sequence[Any], indices: Sequence[Template]) -> Iterator[tuple[Any, Template, list[Any]]]:
    """Return each value that is assembled with its template and its index arrays."""
    arrays = iter(parts[len(indices) :])
    for value, index in zip(parts, indices):
        yield value, index, [next(arrays) for item in index if type(item) is str]


def _getitem_samples() -> list[Any]:
    whole = slice(None)
    return [
        sample((3,), index=(1,)),
        sample((4, 3), index=(slice(None, None, -2), None, 1)),
        sample((2, 3, 4), index=(Ellipsis, slice(1, 3))),
        sample((), index=()),
        sample((0, 2), index=(whole, 1)),
        sample((3, 2), Integers((4,), 3), index=(ARRAY,)),
        sample((3, 2), Values([2, -1, 0]), index=(ARRAY, 0)),
        sample((2, 3, 4), Integers((2, 1), 2), Integers((3,), 4), index=(ARRAY, whole, ARRAY)),
        sample((2, 3), Values([0, 0, 1]), Values([0, 2, 1]), index=(DISTINCT, DISTINCT)),
        sample((2, 3), index=(True, whole, 1)),
    ]


def _taken(xp: Any, x: Any, arrays: Sequence[Any], index: Template) -> Any | None:
    """Return the elements at many positions along one axis the quicker way; None for another index."""
    (places,) = arrays
    if places.size < _MANY or places.dtype.kind != "i" or type(index[-1]) is not str or not x.size:
        return None
    axis = len(index) - 1
    return xp.take(x, places, axis=axis) if all(item == slice(None) for item in index[:axis]) else None


@primitive(
    vjp=(lambda g, x_shape, arrays, index: Scattered(g, index, arrays, x_shape),),
    jvp=lambda tangents, arrays, index: op.getitem(tangents[0], *arrays, index=index),
    samples=_getitem_samples,
    batch=index_batching.getitem,
    explain=index_errors.reading,
)
def _getitem(xp: Any, x: Any, *arrays: Any, index: Template) -> Any:
    filled = index
    if arrays:
        if len(arrays) == 1 and (taken := _taken(xp, x, arrays, index)) is not None:
            return taken
        filled = _fill(index, arrays)
    out = x[filled]
    if out.__class__ is x.__class__ or Ellipsis in index:
        return out
    return x[(*filled, Ellipsis)].copy()  # a scalar: the 0-d array that does not hold on to all of `x`


def _assemble_vjp(g: Any, parts: Sequence[Any], indices: Sequence[Template], needs: Sequence[bool]) -> Any:
    return [
        op.getitem(g, *arrays, index=index) if needed else None
        for (_, index, arrays), needed in zip(_split(parts, indices), needs)
    ]


def _assemble_jvp(
    tangents: Sequence[Any], parts: Sequence[Any], indices: Sequence[Template], shape: tuple[int, ...]
) -> Any:
    moving = [(t, part) for t, part in zip(tangents, _split(parts, indices)) if t is not None]
    arrays = [a for _, part in moving for a in part[2]]
    return op.assemble(
        *(t for t, _ in moving), *arrays, indices=tuple(part[1] for _, part in moving), shape=shape
    )


@primitive(
    vjp=_assemble_vjp,
    jvp=_assemble_jvp,
    keep=lambda parts: tuple([p if p.dtype.kind in "iu" else None for p in parts]),
    samples=lambda: [
        sample((2,), indices=((slice(1, 3),),), shape=(4,)),
        sample((), (3, 2), (2,), indices=((0, 1), (Ellipsis,), (-1,)), shape=(3, 2)),
        sample((3, 2), (), Values([0, 0, 1]), indices=((ARRAY,), (1, 1)), shape=(2, 2)),
        sample((2,), Values([0, 1]), Values([2, 1]), indices=((DISTINCT, DISTINCT),), shape=(2, 3)),
    ],
    batch=index_batching.assemble,
)
def _assemble(xp: Any, *parts: Any, indices: tuple[Template, ...], shape: tuple[int, ...]) -> Any:
    """Add each value at its index to zeros of `shape`: the transpose of reading.

    `parts` are the values, one for each template in `indices`, then the index arrays of all templates.
    """
    values = parts[: len(indices)]
    filled = [_fill(index, arrays) for _, index, arrays in _split(parts, indices)]
    repeats = [ARRAY in index for index in indices]
    return xp.assemble(filled, values, repeats, shape, xp.result_type(*values))


def _written(g: Any, v_shape: Any, v_dtype: Any, arrays: Sequence[Any], index: Template) -> Any:
    """Return the cotangent of the value that an index update wrote."""
    picked = op.getitem(g, *arrays, index=index)
    if ARRAY in index:
        lasting = op.last_writes(*arrays, index=index, shape=tuple(g.shape))
        picked = op.where(lasting, picked, 0)
    extra = max(len(v_shape) - len(picked.shape), 0)  # leading axes of size 1, which NumPy drops
    picked = op.sum_to(picked, shape=v_shape[extra:], dtype=v_dtype)
    return op.reshape(picked, shape=v_shape) if extra else picked


def _index_update_jvp(tangents: Sequence[Any], out: Any, arrays: Sequence[Any], index: Template) -> Any:
    base = op.zeros_like(out) if tangents[0] is None else tangents[0]
    return op.index_update(base, 0 if tangents[1] is None else tangents[1], *arrays, index=index)


@primitive(
    vjp=(lambda g, arrays, index: op.index_update(g, 0, *arrays, index=index), _written),
    jvp=_index_update_jvp,
    samples=lambda: [
        sample((3,), (), index=(1,)),
        sample((3, 2), (2,), index=(slice(None, None, -2),)),
        sample((3, 2), (1, 2), index=(0,)),
        sample((3,), (2,), Values([1, 1]), index=(ARRAY,)),
        sample((2, 3), (), Values([0, 1]), Values([2, 2]), index=(DISTINCT, DISTINCT)),
        sample((2, 0), (2, 0), index=(Ellipsis,)),
    ],
    batch=index_batching.index_update,
    explain=index_errors.writing,
)
def _index_update(xp: Any, x: Any, v: Any, *arrays: Any, index: Template) -> Any:
    """Return a copy of `x` with `v` at the index; where it names an element twice, the last one counts."""
    return xp.replaced(x, _fill(index, arrays), v)


@primitive(
    None,
    None,
    missing="its result is discrete",
    samples=lambda: [sample(Values([1, 0, 1]), index=(ARRAY,), shape=(3,))],
    batch=index_batching.last_writes,
)
def _last_writes(xp: Any, *arrays: Any, index: Template, shape: tuple[int, ...]) -> Any:
    """Return, for each element of a value written at the index, whether no later one overwrites it."""
    return xp.last_writes(_fill(index, arrays), shape)


# ---- from Python's index to a template


def parse(x: Tensor, index: Any, operation: str = "getitem") -> tuple[Template, list[Any]]:
    """Return the template of `index` and its integer arrays; masks become the integers they stand for.

    `operation` is what errors name.

    Raises
    ------
    IndexingError
        If something cannot index, or a mask has another shape than the axes it selects from.
    """
    items = index if type(index) is tuple else (index,)
    if all(map(_is_static, items)):
        return items, []
    template: list[Any] = []
    arrays: list[Any] = []
    masks: list[tuple[int, bool, Any]] = []
    axes, after_gap = 0, False
    for item in items:
        item = _static_or_array(x, item, operation)
        dtype = getattr(item, "dtype", None)
        if dtype is None:
            template.append(item)
            axes += type(item) is int or type(item) is slice
            after_gap = after_gap or item is Ellipsis
        elif dtype.kind == "b":
            masks.append((axes, after_gap, item))
            template += [DISTINCT] * item.ndim
            arrays += _places(item, operation)
            axes += item.ndim
        else:
            template.append(ARRAY)
            arrays.append(item)
            axes += 1
    for start, from_end, mask in masks:
        start += (x.ndim - axes) * from_end
        selected = tuple(x.shape[start : start + mask.ndim])
        if not _fits(tuple(mask.shape), selected):
            raise IndexingError(
                "a boolean mask must have the shape of the axes it selects from",
                operation=operation,
                inputs=describe(x),
                expected=f"shape {selected} for the axes from {start}",
                found=f"shape {tuple(mask.shape)}",
                remedy="compute the mask from the tensor itself, as in x[x > 0], or from one of its rows",
            )
    return tuple(template), arrays


def _fits(mask: tuple[int, ...], selected: tuple[int, ...]) -> bool:
    """Whether a mask has the shape of what it selects from; a size of 0 selects nothing of any axis."""
    if mask == selected:
        return True
    return 0 in mask and len(mask) == len(selected) and all(m in (n, 0) for m, n in zip(mask, selected))


def _places(mask: Any, operation: str) -> Any:
    """Return the positions where a mask holds, an array for each of its axes."""
    try:
        return op.nonzero(mask)
    except UnsupportedOperationError as error:
        raise error.renamed(operation) from None


def _is_static(item: Any) -> bool:
    if type(item) is slice:
        return type(item.start) in _BOUNDS and type(item.stop) in _BOUNDS and type(item.step) in _BOUNDS
    return type(item) in _PLAIN


def _static_or_array(x: Tensor, item: Any, operation: str) -> Any:
    """Return an item of an index as what stands in a template, or as an array of integers or booleans."""
    if _is_static(item) or type(item) is bool:
        return item
    if type(item) is slice:
        try:
            return slice(*(b if b is None else operator.index(b) for b in (item.start, item.stop, item.step)))
        except TypeError:
            raise index_errors.no_index(x, item, "a slice of integers", operation) from None
    if hasattr(item, "__index__") and backend_of(item) is None and not isinstance(item, Tensor):
        return operator.index(item)
    if isinstance(item, Tensor):
        array: Any = item if item.level or staging.get() is not None else item.data
    elif backend_of(item) is x.backend:
        array = item
    else:
        try:
            array = array_from(item, x.backend, x.device, operation)
        except DTypeError:
            array = None
        if array is not None and not array.size:
            array = x.backend.asarray(array, "int64", x.device)  # NumPy reads [] as no integers at all
    if array is None or array.dtype.kind not in "biu":
        expected = "ints, slices, None, Ellipsis, and tensors or lists of integers or booleans"
        raise index_errors.no_index(x, item, expected, operation)
    if isinstance(array, Tensor):  # a truth value is no array
        return bool(array) if array.dtype.kind == "b" and not array.shape else array
    backend: Any = backend_of(array)
    if not array.shape:
        return backend.to_numpy(array).item()
    if array.dtype.kind == "b":
        return array
    lasts = x.grad_node is not None or x.level  # then a graph keeps it, and its owner may write to it
    copy = True if lasts and not isinstance(item, Tensor) else None
    return backend.asarray(array, "int64", backend.device_of(array), copy=copy)


# ---- what Tensor's [] does


def getitem(x: Tensor, index: Any) -> Tensor:
    """Return ``x[index]``, as NumPy reads it; a tensor with a value of its own, whatever memory it shares.

    The gradient adds up where an index names an element several times.

    Raises
    ------
    IndexingError
        If the index is out of range or cannot index.
    """
    kind = type(index)
    if kind is int:
        return apply(GETITEM, (x,), {"index": (index,)})
    template, arrays = parse(x, index)
    return apply(GETITEM, (x, *arrays), {"index": template})


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """Make `x` the tensor in which `value` stands at `index`: the meaning of ``x[index] = value``.

    Nothing else changes: no other tensor, no view of `x`, no value that a graph has saved. The gradient of
    `x` at these places is 0, that of `value` comes from them; where an index names an element several
    times the last value counts.

    Raises
    ------
    IndexingError
        If the index is out of range or cannot index.
    DTypeError
        If the value cannot be converted without losing its imaginary part or its gradient.
    GraphStateError
        If `x` is a leaf that requires grad and recording is on.
    """
    if _unknown_mask(x, index) and not index.ndim:  # all or nothing
        x.assign(op.where(index, op.index_update(x, _assigned(x, value), index=(Ellipsis,)), x))
        return
    if _unknown_mask(x, index) and (type(value) in WEAK or getattr(value, "shape", None) == ()):
        value = _in_dtype_of(x, _assigned(x, value))
        mask = op.reshape(index, shape=(*index.shape, *(1,) * (x.ndim - index.ndim)))
        x.assign(op.where(mask, value, x))
        return
    template, arrays = parse(x, index, "setitem")
    value = _assigned(x, value)
    mode = current_mode()
    tracked = mode.grad and (x.grad_node is not None or getattr(value, "grad_node", None) is not None)
    elsewhere = isinstance(value, Tensor) and value.backend is not x.backend
    traced = staging.get() is not None or any(getattr(v, "level", 0) for v in (x, value, *arrays))
    if mode.anomaly or traced or tracked or elsewhere or not sole_owner(x):
        x.assign(op.index_update(x, value, *arrays, index=template))
        return
    value = value.data if isinstance(value, Tensor) else value
    try:
        x.backend.xp.overwrite(x.data, _fill(template, arrays), value)
    except Exception as error:
        raise explain(op.index_update, (x.data, value, *arrays), {"index": template}, error) from error
    if not x.is_leaf:
        x.grad_node = None


def _unknown_mask(x: Tensor, index: Any) -> bool:
    """Whether an index is a mask whose number of elements depends on the example, or on the run."""
    if not isinstance(index, Tensor) or index.dtype.kind != "b":
        return False
    fits = tuple(index.shape) == tuple(x.shape[: index.ndim])
    return fits and (index.level > 0 or staging.get() is not None)


def _in_dtype_of(x: Tensor, value: Any) -> Any:
    """Return one value to be written, a number or a 0-d tensor, in the dtype of `x`."""
    if not isinstance(value, Tensor):
        return x.backend.asarray(value, x.dtype, x.device)
    return value if value.dtype == x.dtype else op.astype(value, dtype=x.dtype)


def _assigned(x: Tensor, value: Any) -> Any:
    """Return what is written into `x`: a Python number or a tensor whose dtype the assignment may convert."""
    complex_ = type(value) is complex
    if type(value) not in WEAK:
        value = weak(value, [x], "setitem")
        complex_ = value.dtype.kind == "c"
        if x.dtype.kind not in DIFFERENTIABLE and value.dtype.kind in DIFFERENTIABLE:
            value = severed(value, functools.partial(_no_place, describe(x), x.dtype))
    if complex_ and x.dtype.kind != "c":
        wide = x.backend.xp.result_type(x.dtype, "complex64")
        raise DTypeError(
            "a complex value would lose its imaginary part",
            operation="setitem",
            inputs=describe(x, value),
            expected="a real value, or a complex tensor to write into",
            found=f"complex into {x.dtype}",
            remedy=f"write eo.real(value), or convert the tensor: x = x.astype(eo.{wide})",
        )
    return value


def _no_place(found: str, dtype: Any, value: Tensor) -> DTypeError:
    return DTypeError(
        "an integer or boolean tensor cannot hold a value that requires grad",
        operation="setitem",
        inputs=f"{found}, {describe(value)}",
        expected="a value without a graph, or a floating-point tensor to write into",
        found=f"{value.dtype} into {dtype}",
        remedy=f"detach the value, or convert the tensor: x = {to_float(dtype)}",
    )


GETITEM = op.getitem
