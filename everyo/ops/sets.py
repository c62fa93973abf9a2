"""Sets: which elements two tensors have in common, and which only one has."""

from __future__ import annotations

from typing import Any

from everyo.core.batching import looped
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError
from everyo.ops.axes import as_flag, is_one_of
from everyo.ops.creation import as_tensors, asarray
from everyo.ops.families import primitive
from everyo.ops.signatures import explained
from everyo.ops.unique_elements import flat, unique

__all__ = ["intersect1d", "isin", "setdiff1d", "setxor1d", "union1d"]


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
    if kind is not None and not is_one_of(kind, ("sort", "table")):
        raise ArgumentError(
            "there is no such method",
            operation="isin",
            expected="kind=None, 'sort' or 'table'",
            found=f"kind={kind!r}",
            remedy="leave it out, to have it chosen",
        )
    return apply(_isin, (x1, x2), {"invert": as_flag(invert, "invert", "isin"), "kind": kind})


def _searched(x1: Any, x2: Any, operation: str) -> list[Tensor]:
    """Return elements and the set to look for them in, which may hold integers beyond their dtype."""
    if isinstance(x1, Tensor) and x1.dtype.kind in "iu" and not isinstance(x2, Tensor):
        listed = asarray(x2)
        x2 = listed if listed.dtype.kind in "iu" else x2
    return as_tensors((x1, x2), operation)


def _operands(x1: Any, x2: Any, operation: str) -> tuple[Tensor, Tensor]:
    x1, x2 = (flat(x) for x in as_tensors((x1, x2), operation))
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
    x1, x2 = (flat(x) for x in _searched(x1, x2, "setdiff1d"))
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
