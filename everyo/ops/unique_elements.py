"""The different elements of a tensor, where each occurs first and how often."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from everyo.core.batching import refused
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Distinct, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import EveryOError
from everyo.ops.axes import as_flag, normalize_axis
from everyo.ops.creation import as_tensor
from everyo.ops.families import primitive
from everyo.ops.indexing import DISTINCT
from everyo.ops.signatures import explained

__all__ = ["unique", "unique_all", "unique_counts", "unique_inverse", "unique_values"]


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


def flat(x: Any) -> Any:
    """Return the elements as a vector."""
    return op.reshape(x, shape=(math.prod(x.shape),))


def _unique_vjp(g: Any, x: Any, axis: int | None, equal_nan: bool) -> Any:
    first = op.unique_places(x, axis=axis, equal_nan=equal_nan)
    shape = (math.prod(x.shape),) if axis is None else tuple(x.shape)
    spread = op.assemble(g, first, indices=(_index(axis),), shape=shape)
    return op.reshape(spread, shape=tuple(x.shape)) if axis is None else spread


def _unique_jvp(t: Any, x: Any, axis: int | None, equal_nan: bool) -> Any:
    first = op.unique_places(x, axis=axis, equal_nan=equal_nan)
    return op.getitem(flat(t) if axis is None else t, first, index=_index(axis))


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
