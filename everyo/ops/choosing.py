"""Elements chosen by number, by condition and by rank, under NumPy's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everyo.core.batching import along
from everyo.core.dispatch import apply
from everyo.core.samples import Distinct, sample
from everyo.core.tensor import Tensor
from everyo.errors import (
    ArgumentError,
    CompileError,
    IndexingError,
    ShapeError,
    UnsupportedOperationError,
    describe,
)
from everyo.ops.axes import as_integers, as_items, is_one_of, listed, normalize_axis
from everyo.ops.creation import as_tensor, as_tensors, zeros_like
from everyo.ops.families import primitive
from everyo.ops.gathering import take_along_axis
from everyo.ops.joining import stack
from everyo.ops.known import everywhere, is_known, look
from everyo.ops.piecewise import clip
from everyo.ops.shape import broadcast_arrays, broadcast_to, expand_dims, ravel
from everyo.ops.signatures import composed, explained
from everyo.ops.sorting import argsort
from everyo.ops.truth import any as some

__all__ = ["argpartition", "choose", "lexsort", "partition", "piecewise"]


@composed
def choose(x: Any, choices: Any, /, *, mode: str = "raise") -> Tensor:
    """Return, elementwise, the element of that one of several tensors whose number `x` says.

    The gradient goes to the element that was chosen.

    Parameters
    ----------
    x : tensor of integers
        Which one, from 0.
    choices : sequence of tensors
        Shapes that broadcast with that of `x`; dtypes are promoted.
    mode : {"raise", "wrap", "clip"}
        What becomes of a number outside: an error, the remainder, or the nearest one.

    Returns
    -------
    Tensor
        Of the broadcast shape and the common dtype of the choices.

    Raises
    ------
    IndexingError
        If a number is outside and `mode` is "raise"; not under `vmap`. If `x` is
        not made of integers.
    ArgumentError
        If there is no such mode.
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If something is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.choose([1, 0], [eo.tensor([1.0, 2.0]), eo.tensor([3.0, 4.0])]))
    [3. 2.]
    """
    which, *tensors = broadcast_arrays(as_tensor(x), *as_tensors(choices, "choose"))
    number = len(tensors)
    if not is_one_of(mode, ("raise", "wrap", "clip")):
        raise ArgumentError(
            "there is no such mode",
            operation="choose",
            expected='"raise", "wrap" or "clip"',
            found=repr(mode),
            remedy="leave it out",
        )
    if mode == "wrap":
        which = which % number
    elif mode == "clip":
        which = clip(which, 0, number - 1)
    else:
        inputs = describe(which)

        def check(which: Any) -> None:
            if not everywhere((which >= 0) & (which < number)):
                raise IndexingError(
                    "there is no choice of such a number",
                    operation="choose",
                    inputs=inputs,
                    expected=f"0 to {number - 1}",
                    found="a number outside",
                    remedy='give more choices, or mode="clip"',
                )

        look(check, which)
    return take_along_axis(stack(tensors), expand_dims(which, 0), axis=0)[0]


@explained
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], /, *args: Any, **kw: Any) -> Tensor:
    """Return functions of `x`, each computed where its condition holds; of several the last one counts.

    A function gets only the elements that it is for, so it differentiates as if the others did not exist.

    Parameters
    ----------
    x : tensor
        Of any shape.
    condlist : sequence of tensors of booleans
        Of shapes that broadcast to that of `x`.
    funclist : sequence of callables and numbers
        One for each condition, and perhaps one more for where none holds; there the default is 0.
    *args : object
        Further arguments of the functions.
    **kw : object
        Likewise, by name.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Raises
    ------
    ShapeError
        If there is no condition, one does not broadcast to `x`, or the functions are not as many.
    DTypeError
        If `x` is not numeric, or is real and a value complex; if `funclist` is no sequence.
    UnsupportedOperationError, CompileError
        Under `vmap` or in a compiled function: how many elements a function gets depends on the conditions.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([-4.0, 9.0], requires_grad=True)
    >>> eo.piecewise(x, [x < 0, x >= 0], [lambda v: -v, eo.sqrt]).sum().backward()
    >>> print(x.grad)
    [-1.          0.16666667]
    """
    x = as_tensor(x)
    if getattr(condlist, "ndim", 0) == x.ndim + 1:
        condlist = list(condlist)
    single = not isinstance(condlist, (list, tuple)) or isinstance(next(iter(condlist), None), bool)
    conditions = [broadcast_to(as_tensor(c), x.shape) for c in ([condlist] if single else condlist)]
    funclist = as_items(funclist, "funclist", "piecewise")
    if len(funclist) == len(conditions) + 1 and conditions:
        conditions.append(~some(stack(conditions), axis=0))
    if len(funclist) != len(conditions) or not conditions:
        raise ShapeError(
            "conditions and functions do not correspond" if conditions else "there is no condition",
            operation="piecewise",
            expected=f"{len(conditions)} functions, or one more" if conditions else "at least one",
            found=f"{len(funclist)} functions",
            remedy="give each condition a function",
        )
    out = zeros_like(x)
    for condition, function in zip(conditions, funclist):
        out[condition] = function(_part(x, condition), *args, **kw) if callable(function) else function
    return out


def _part(x: Tensor, condition: Tensor) -> Any:
    """Return the elements for one function."""
    try:
        return x[condition]
    except (UnsupportedOperationError, CompileError) as error:  # under `vmap`, in compiled functions
        remedy = "use eo.where(condition, f(x), g(x)), or eo.select for several conditions"
        raise error.renamed("piecewise", inputs=describe(x, condition), remedy=remedy) from None


def _partition_samples() -> list[Any]:
    return [sample(Distinct((3, 4)), axis=1, kth=(1,)), sample(Distinct((5,)), axis=0, kth=(0, 3))]


@primitive(
    None,
    None,
    family="discrete",
    missing="its result is discrete",
    samples=_partition_samples,
    batch=along("axis"),
)
def _argpartition(xp: Any, x: Any, *, axis: int, kth: tuple[int, ...]) -> Any:
    return xp.argpartition(x, kth, axis=axis)


@explained
def argpartition(x: Any, kth: int | Sequence[int], /, axis: int | None = -1) -> Tensor:
    """Indices that bring the `kth` smallest elements along an axis to their places; they have no gradient.

    Before such a place stand elements that are not larger, behind it those that are not smaller.

    Parameters
    ----------
    x : tensor
        At least 1-d.
    kth : int or sequence of int
        The places.
    axis : int or None, default -1
        The axis to go along; None flattens first.

    Returns
    -------
    Tensor
        Of int64 and the shape of `x`, or 1-d.

    Raises
    ------
    IndexingError
        If there is no such axis or place.
    DTypeError
        If `x` is not numeric, or `kth` or `axis` is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([3.0, 1.0, 2.0])
    >>> print(x[eo.argpartition(x, 0)[0]])
    1.0
    """
    x = ravel(x) if axis is None else as_tensor(x)
    axis = normalize_axis(-1 if axis is None else axis, x.ndim, "argpartition")
    return apply(_argpartition, (x,), {"axis": axis, "kth": _places(kth, x, axis, "argpartition")})


@explained
def partition(x: Any, kth: int | Sequence[int], /, axis: int | None = -1) -> Tensor:
    """Elements along an axis with the `kth` smallest in their places; see `argpartition`.

    The gradient of each element is that of the place it moved to. In which order elements stand between the
    places is not said, and may be another one where there is a gradient to keep.

    Parameters
    ----------
    x : tensor
        At least 1-d, of any dtype; NaN is the largest.
    kth : int or sequence of int
        The places, negative ones from the end.
    axis : int or None, default -1
        The axis to go along; None flattens first.

    Returns
    -------
    Tensor
        Of the shape of `x`, or 1-d, and of its dtype.

    Raises
    ------
    IndexingError
        If there is no such axis or place.
    DTypeError
        If `x` is not numeric, or `kth` or `axis` is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.partition(eo.tensor([3.0, 1.0, 2.0]), 1)[1])
    2.0
    """
    x = ravel(x) if axis is None else as_tensor(x)
    axis = normalize_axis(-1 if axis is None else axis, x.ndim, "partition")
    if is_known(x) and not x.requires_grad:
        places = _places(kth, x, axis, "partition")
        return as_tensor(x.backend.xp.partition(x.data, places, axis=axis), x)
    return take_along_axis(x, argpartition(x, kth, axis), axis=axis)


def _places(kth: Any, x: Tensor, axis: int, operation: str) -> tuple[int, ...]:
    places = as_integers(listed(kth), "kth", operation)
    if not places:
        raise ArgumentError(
            "there is no place to partition at",
            operation=operation,
            expected="at least one integer",
            found=repr(kth),
            remedy="name the place of the element that is looked for",
        )
    return tuple(normalize_axis(place, x.shape[axis], operation) for place in places)


@explained
def lexsort(keys: Any, /, axis: int = -1) -> Tensor:
    """Indices that sort by several keys along an axis, of which the last counts most; without gradient.

    Parameters
    ----------
    keys : sequence of tensors, or a tensor whose first axis numbers them
        Of one shape, at least one.
    axis : int, default -1
        The axis of each key to sort along.

    Returns
    -------
    Tensor
        Of int64 and the shape of a key.

    Raises
    ------
    ShapeError
        If there is no key, or they differ in shape.
    IndexingError
        If there is no such axis.
    DTypeError
        If a key is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.lexsort([[2, 1, 0], [0, 1, 0]]))
    [2 0 1]
    """
    ranks: list[Tensor] = [as_tensor(key).detach() for key in as_items(keys, "keys", "lexsort")]
    if len({tuple(key.shape) for key in ranks}) != 1:
        raise ShapeError(
            "the keys must be of one shape",
            operation="lexsort",
            inputs=describe(*ranks),
            expected="at least one key, all of one shape",
            found=f"{len(ranks)} keys",
            remedy="broadcast them first",
        )
    axis = normalize_axis(axis, ranks[0].ndim, "lexsort")
    order = argsort(ranks[0], axis)
    for key in ranks[1:]:
        order = take_along_axis(order, argsort(take_along_axis(key, order, axis=axis), axis), axis=axis)
    return order
