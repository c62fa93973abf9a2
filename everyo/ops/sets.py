"""Sets: the different elements of tensors, and what sets of them have in common."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from everyo.core.batching import looped, refused
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Distinct, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import EveryOError
from everyo.ops.axes import as_flag, normalize_axis
from everyo.ops.creation import as_tensor, as_tensors, asarray
from everyo.ops.families import primitive
from everyo.ops.indexing import DISTINCT
from everyo.ops.signatures import explained

__all__ = [
    "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
]  # fmt: skip

_BY_VALUES: dict[str, Any] = {
    "batch": refused(
        "the number of different elements differs from example to example",
        "loop over the batch in Python; equal elements are beside each other after eo.sort",
    ),
    "shaped_by_values": True,
}


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Tensor
    inverse_indices: Tensor


def _samples(*more: Any, **params: Any) -> list[Any]:
    return [
        sample(Distinct((5,)), axis=None, equal_nan=True, **params),
        sample(Distinct((2, 3)), axis=None, equal_nan=False, **params),
        sample(Distinct((2, 3, 2)), axis=1, equal_nan=True, **params),
        sample((0,), axis=None, equal_nan=True, **params),
        *more,
    ]


def _tied_samples(**params: Any) -> list[Any]:
    ties = Values([2.0, 1.0, 2.0, 3.0, 1.0])
    return _samples(sample(ties, axis=None, equal_nan=True, **params), **params)


@primitive(None, None, missing="its result is discrete", samples=_tied_samples, **_BY_VALUES)
def _unique_places(xp: Any, x: Any, *, axis: int | None, equal_nan: bool) -> Any:
    """Return where each of the sorted different elements occurs first."""
    if axis is None and x.dtype.kind in "iuf":
        flat = xp.reshape(x, (-1,))
        order = xp.argsort(flat, stable=True)
        found, new = flat[order], xp.ones(flat.size, dtype=bool)
        new[1:] = found[1:] != found[:-1]
        if equal_nan:
            new[1:] &= found[:-1] == found[:-1]
        return order[new]
    return xp.unique(x, return_index=True, axis=axis, equal_nan=equal_nan)[1]


def _index(axis: int | None) -> tuple[Any, ...]:
    """Return the index of slices along an axis, of elements of a vector for None."""
    return (*(slice(None),) * (axis or 0), DISTINCT)


def _flat(x: Any, axis: int | None) -> Any:
    return op.reshape(x, shape=(math.prod(x.shape),)) if axis is None else x


def _unique_vjp(g: Any, x: Any, axis: int | None, equal_nan: bool) -> Any:
    first = op.unique_places(x, axis=axis, equal_nan=equal_nan)
    shape = (math.prod(x.shape),) if axis is None else tuple(x.shape)
    spread = op.assemble(g, first, indices=(_index(axis),), shape=shape)
    return op.reshape(spread, shape=tuple(x.shape)) if axis is None else spread


def _unique_jvp(t: Any, x: Any, axis: int | None, equal_nan: bool) -> Any:
    first = op.unique_places(x, axis=axis, equal_nan=equal_nan)
    return op.getitem(_flat(t, axis), first, index=_index(axis))


@primitive(_unique_vjp, _unique_jvp, samples=_samples, **_BY_VALUES)
def _unique(xp: Any, x: Any, *, axis: int | None, equal_nan: bool) -> Any:
    return xp.unique(x, axis=axis, equal_nan=equal_nan)


def _parts_vjp(g: Any, x: Any, axis: int | None, equal_nan: bool) -> Any:
    return _unique_vjp(g[0], x, axis, equal_nan) if 0 in g else None


def _parts_jvp(t: Any, x: Any, axis: int | None, equal_nan: bool, parts: tuple[bool, bool, bool]) -> Any:
    return (_unique_jvp(t, x, axis, equal_nan), *(None for wanted in parts if wanted))


@primitive(
    _parts_vjp,
    _parts_jvp,
    samples=lambda: [*_samples(parts=(True, True, True)), *_samples(parts=(False, False, True))],
    **_BY_VALUES,
)
def _unique_parts(
    xp: Any, x: Any, *, axis: int | None, equal_nan: bool, parts: tuple[bool, bool, bool]
) -> Any:
    """Return the different elements and the wanted ones of first places, numbers and counts."""
    return tuple(xp.unique(x, *parts, axis=axis, equal_nan=equal_nan))


def _params(x: Tensor, axis: Any, equal_nan: Any, operation: str) -> dict[str, Any]:
    return {
        "axis": None if axis is None else normalize_axis(axis, x.ndim, operation),
        "equal_nan": as_flag(equal_nan, "equal_nan", operation),
    }


@explained
def unique(
    x: Any,
    /,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
) -> Any:
    """The different elements, in ascending order.

    The gradient of each goes to its first occurrence. Their number depends on the values, so there is no
    `vmap` over `x`, nor can `compile` trace it.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.
    return_index : bool, default False
        Also return where each occurs first.
    return_inverse : bool, default False
        Also return which one each element of `x` is.
    return_counts : bool, default False
        Also return how often each occurs.
    axis : int, optional
        Look for different slices along an axis; by default for elements of the flattened tensor.
    equal_nan : bool, default True
        Whether all NaN are one.

    Returns
    -------
    Tensor or tuple of Tensor
        The different elements, and what else was asked for.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.
    UnsupportedOperationError, CompileError
        Under `vmap`, or under `compile`.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([3.0, 1.0, 3.0], requires_grad=True)
    >>> y = eo.unique(x)
    >>> y.sum().backward()
    >>> print(y.detach(), x.grad)
    [1. 3.] [1. 1. 0.]
    """
    x = as_tensor(x)
    params = _params(x, axis, equal_nan, "unique")
    wanted = [
        as_flag(f, name, "unique")
        for f, name in (
            (return_index, "return_index"),
            (return_inverse, "return_inverse"),
            (return_counts, "return_counts"),
        )
    ]
    if not any(wanted):
        return apply(_unique, (x,), params)
    return _with_parts(x, tuple(wanted), params, "unique")


_STANDARD = {"axis": None, "equal_nan": False}


def _with_parts(
    x: Any, parts: tuple[bool, ...], params: dict[str, Any], operation: str
) -> tuple[Tensor, ...]:
    try:
        return apply(_unique_parts, (as_tensor(x),), {**params, "parts": parts})
    except EveryOError as error:
        raise error.renamed(operation) from None


@explained
def unique_values(x: Any, /) -> Tensor:
    """The different elements of a tensor in ascending order; every NaN is one of its own.

    The gradient of each goes to its first occurrence.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.

    Returns
    -------
    Tensor
        1-d.

    Raises
    ------
    UnsupportedOperationError, CompileError
        Under `vmap` or `compile`, as for `unique`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.unique_values(eo.tensor([3, 1, 3])))
    [1 3]
    """
    return apply(_unique, (as_tensor(x),), _STANDARD)


@explained
def unique_counts(x: Any, /) -> UniqueCounts:
    """The different elements and how often each occurs; every NaN is one of its own.

    The gradient of each element goes to its first occurrence.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.

    Returns
    -------
    values, counts : Tensor
        A named tuple: the elements in ascending order, and integers; both 1-d.

    Raises
    ------
    UnsupportedOperationError, CompileError
        Under `vmap` or `compile`, as for `unique`.

    Examples
    --------
    >>> import everyo as eo
    >>> values, counts = eo.unique_counts(eo.tensor([3, 1, 3]))
    >>> print(values, counts)
    [1 3] [1 2]
    """
    return UniqueCounts(*_with_parts(x, (False, False, True), _STANDARD, "unique_counts"))


@explained
def unique_inverse(x: Any, /) -> UniqueInverse:
    """The different elements and which of them each element is; every NaN is one of its own.

    The gradient of each element goes to its first occurrence.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.

    Returns
    -------
    values, inverse_indices : Tensor
        A named tuple: the elements in ascending order, and integers of the shape of `x`.

    Raises
    ------
    UnsupportedOperationError, CompileError
        Under `vmap` or `compile`, as for `unique`.

    Examples
    --------
    >>> import everyo as eo
    >>> values, which = eo.unique_inverse(eo.tensor([3, 1, 3]))
    >>> print(values, which)
    [1 3] [1 0 1]
    """
    return UniqueInverse(*_with_parts(x, (False, True, False), _STANDARD, "unique_inverse"))


@explained
def unique_all(x: Any, /) -> UniqueAll:
    """The different elements, where each occurs first, which of them each element is, and their counts.

    Every NaN is one of its own. The gradient of each element goes to its first occurrence.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.

    Returns
    -------
    values, indices, inverse_indices, counts : Tensor
        A named tuple: the elements in ascending order, and integers; `indices` are places in the flattened
        tensor, `inverse_indices` have its shape.

    Raises
    ------
    UnsupportedOperationError, CompileError
        Under `vmap` or `compile`, as for `unique`.

    Examples
    --------
    >>> import everyo as eo
    >>> found = eo.unique_all(eo.tensor([3, 1, 3]))
    >>> print(found.values, found.indices, found.inverse_indices, found.counts)
    [1 3] [1 0] [1 0 1] [1 2]
    """
    return UniqueAll(*_with_parts(x, (True, True, True), _STANDARD, "unique_all"))


# ---- two sets


def _by_elements(isin: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    """Look up a batch of elements at once, and one set after the other."""
    return looped(isin, inputs, batched, size, params) if batched[1] else isin(*inputs, **params)


@primitive(
    None,
    None,
    family="discrete",
    missing="its result is discrete",
    samples=lambda: [
        sample(Values([[1.0, 2.0], [3.0, 4.0]]), Values([2.0, 3.0]), invert=False, kind=None),
        sample(Values([1, 2]), Values([[2], [5]]), invert=True, kind="sort"),
    ],
    batch=_by_elements,
)
def _isin(xp: Any, x1: Any, x2: Any, *, invert: bool, kind: str | None) -> Any:
    return xp.isin(x1, x2, invert=invert, kind=kind)


@explained
def isin(
    x1: Any, x2: Any, /, assume_unique: bool = False, invert: bool = False, *, kind: str | None = None
) -> Tensor:
    """Whether each element of `x1` is among those of `x2`; it has no gradient.

    Parameters
    ----------
    x1 : tensor
        The elements, of any shape.
    x2 : tensor
        The set, of any shape.
    assume_unique : bool, default False
        Allowed for NumPy's sake; it changes nothing.
    invert : bool, default False
        Whether to ask for those that are not.
    kind : {None, "sort", "table"}, default None
        How to search integers; None chooses.

    Returns
    -------
    Tensor
        Booleans of the shape of `x1`.

    Raises
    ------
    ShapeError
        If there is no such kind, or it is "table" and the elements are not integers.
    DTypeError
        If `invert` is neither true nor false.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.isin(eo.tensor([1, 2, 3]), [2, 5]))
    [False  True False]
    """
    x1, x2 = _searched(x1, x2, "isin")
    return apply(_isin, (x1, x2), {"invert": as_flag(invert, "invert", "isin"), "kind": kind})


def _searched(x1: Any, x2: Any, operation: str) -> list[Tensor]:
    """Return elements and the set to look for them in, which may hold integers beyond their dtype."""
    if isinstance(x1, Tensor) and x1.dtype.kind in "iu" and not isinstance(x2, Tensor):
        listed = asarray(x2)
        x2 = listed if listed.dtype.kind in "iu" else x2
    return as_tensors((x1, x2), operation)


def _operands(x1: Any, x2: Any, operation: str) -> tuple[Tensor, Tensor]:
    x1, x2 = (_flat(x, None) for x in as_tensors((x1, x2), operation))
    common = x1.backend.xp.result_type(x1.dtype, x2.dtype)
    return tuple(x if x.dtype == common else op.astype(x, dtype=common) for x in (x1, x2))


@explained
def union1d(x1: Any, x2: Any, /) -> Tensor:
    """The different elements of both tensors, in ascending order.

    The gradient of each goes to its first occurrence, in `x1` if it is there.

    Parameters
    ----------
    x1, x2 : tensor
        Flattened first; dtypes are promoted.

    Returns
    -------
    Tensor
        1-d.

    Raises
    ------
    UnsupportedOperationError, CompileError
        Under `vmap` or `compile`, as for `unique`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.union1d(eo.tensor([3, 1]), eo.tensor([2, 3])))
    [1 2 3]
    """
    return unique(op.concat(*_operands(x1, x2, "union1d"), axis=0))


@explained
def intersect1d(
    x1: Any, x2: Any, /, assume_unique: bool = False, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    """The different elements that both tensors have, in ascending order.

    The gradient of each goes to its first occurrence in `x1`.

    Parameters
    ----------
    x1, x2 : tensor
        Flattened first.
    assume_unique : bool, default False
        Allowed for NumPy's sake; it changes nothing where it holds.
    return_indices : bool, default False
        Also return where each occurs first in `x1` and in `x2`.

    Returns
    -------
    Tensor, or a tuple of three
        1-d: the elements and, if asked for, the two places of each.

    Raises
    ------
    UnsupportedOperationError, CompileError
        Under `vmap` or `compile`, as for `unique`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.intersect1d(eo.tensor([3, 1, 3]), eo.tensor([2, 3])))
    [3]
    """
    x1, x2 = _operands(x1, x2, "intersect1d")
    if not as_flag(return_indices, "return_indices", "intersect1d"):
        ordered, again = _together(x1, x2)
        return op.getitem(ordered, index=(slice(None, -1),))[again]
    values, first = unique(x1, return_index=True)
    others, second = unique(x2.detach(), return_index=True)
    common = isin(values.detach(), others)
    return values[common], first[common], second[isin(others, values.detach())]


def _together(x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    """Return the different elements of each tensor in one order, and which are followed by their equal."""
    ordered = op.sort(op.concat(unique(x1), unique(x2), axis=0), axis=0, descending=False)
    fixed = ordered.detach()
    return ordered, op.equal(
        op.getitem(fixed, index=(slice(1, None),)), op.getitem(fixed, index=(slice(None, -1),))
    )


@explained
def setdiff1d(x1: Any, x2: Any, /, assume_unique: bool = False) -> Tensor:
    """The different elements of `x1` that are not in `x2`, in ascending order.

    With `assume_unique` they keep the order of `x1`. The gradient of each goes to its first occurrence.

    Parameters
    ----------
    x1, x2 : tensor
        Flattened first.
    assume_unique : bool, default False
        Take the elements of `x1` as they are, unsorted.

    Returns
    -------
    Tensor
        1-d, of the dtype of `x1`.

    Raises
    ------
    UnsupportedOperationError, CompileError
        Under `vmap` or `compile`, as for `unique`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.setdiff1d(eo.tensor([3, 1, 4]), eo.tensor([3])))
    [1 4]
    """
    x1, x2 = (_flat(x, None) for x in _searched(x1, x2, "setdiff1d"))
    values = x1 if as_flag(assume_unique, "assume_unique", "setdiff1d") else unique(x1)
    return values[isin(values.detach(), x2.detach(), invert=True)]


@explained
def setxor1d(x1: Any, x2: Any, /, assume_unique: bool = False) -> Tensor:
    """The different elements that only one of the tensors has, in ascending order.

    The gradient of each goes to its first occurrence.

    Parameters
    ----------
    x1, x2 : tensor
        Flattened first; dtypes are promoted.
    assume_unique : bool, default False
        Allowed for NumPy's sake; it changes nothing where it holds.

    Returns
    -------
    Tensor
        1-d.

    Raises
    ------
    UnsupportedOperationError, CompileError
        Under `vmap` or `compile`, as for `unique`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.setxor1d(eo.tensor([3, 1]), eo.tensor([2, 3])))
    [1 2]
    """
    x1, x2 = _operands(x1, x2, "setxor1d")
    ordered, again = _together(x1, x2)
    if not ordered.size:
        return ordered
    end = ordered.backend.asarray([False], "bool", ordered.device)
    paired = op.logical_or(op.concat(again, end, axis=0), op.concat(end, again, axis=0))
    return ordered[op.logical_not(paired)]
