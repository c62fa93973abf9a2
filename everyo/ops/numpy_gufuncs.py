"""Generalized ufuncs of NumPy, such as `np.vecdot`, with ``axes``, ``axis`` and ``keepdims``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.ops.axes import as_flag
from everyo.ops.creation import as_tensors
from everyo.ops.transposition import moveaxis

OPTIONS = ("axes", "axis", "keepdims")


def along(ufunc: Any, name: str, function: Callable[..., Any], inputs: Any, options: dict[str, Any]) -> Any:
    """Return what `function`, which computes along the last axes, makes of operands along others.

    Parameters
    ----------
    ufunc : ufunc
        NumPy's, whose signature says how many axes of each operand it computes along.
    name : str
        What a user calls it.
    function : callable
        Its counterpart here.
    inputs : sequence
        The operands.
    options : dict
        ``axes``, ``axis`` and ``keepdims``, of which those that are given are taken out.

    Raises
    ------
    ShapeError
        If the axes do not go with the operands.
    IndexingError
        If there is no such axis.
    """
    axes, axis, keepdims = (options.pop(option, None) for option in OPTIONS)
    tensors = as_tensors(inputs, name)
    counts, rest = _core_axes(ufunc.signature, tensors)
    keep = keepdims is not None and as_flag(keepdims, "keepdims", name)
    alike = len(set(counts)) == 1 and rest == 0
    if (axis is not None and (axes is not None or counts != [1] * len(counts) or not alike)) or (
        keep and not alike
    ):
        raise _misfit(name, tensors, {"axes": axes, "axis": axis, "keepdims": keepdims})
    if axis is not None:
        axes = [axis] * (len(counts) + keep)
    places = _listed(name, tensors, axes, counts, counts[0] if keep else rest, keep)
    moved = [
        moveaxis(x, place, range(-len(place), 0)) if place else x
        for x, place in zip(tensors, places[:-1], strict=True)
    ]
    out = function(*moved)
    if keep:
        out = out.reshape(out.shape + (1,) * counts[0])
    return moveaxis(out, range(-len(places[-1]), 0), places[-1]) if places[-1] else out


def _core_axes(signature: str, tensors: Sequence[Tensor]) -> tuple[list[int], int]:
    """Return how many axes the function computes along, of each operand and of the result."""
    sides = [side.strip("()").split("),(") for side in signature.replace(" ", "").split("->")]
    inputs, (result,) = [[[n for n in part.split(",") if n] for part in side] for side in sides]
    lacking = {
        n for x, part in zip(tensors, inputs, strict=True) if x.ndim < len(part) for n in part if n[-1] == "?"
    }
    return [len([n for n in part if n not in lacking]) for part in inputs], len(
        [n for n in result if n not in lacking]
    )


def _listed(
    name: str, tensors: Sequence[Tensor], axes: Any, counts: Sequence[int], rest: int, keep: bool
) -> list[tuple[int, ...]]:
    """Return the axes of each operand and of the result."""
    wanted = [*counts, rest]
    if axes is None:
        return [tuple(range(-count, 0)) for count in wanted]
    listed = [(a,) if hasattr(a, "__index__") else a for a in axes] if isinstance(axes, (list, tuple)) else []
    if len(listed) == len(counts) and (rest == 0 or keep):
        listed.append(tuple(range(-rest, 0)))
    fits = len(listed) == len(wanted) and all(
        isinstance(a, (list, tuple)) and len(a) == count for a, count in zip(listed, wanted, strict=True)
    )
    if not fits:
        raise _misfit(name, tensors, {"axes": axes})
    return [tuple(a) for a in listed]


def _misfit(name: str, tensors: Sequence[Tensor], options: dict[str, Any]) -> ShapeError:
    given = ", ".join(f"{key}={value!r}" for key, value in options.items() if value is not None)
    return ShapeError(
        "the axes do not go with the operands",
        operation=name,
        inputs=describe(*tensors),
        expected="a list with the axes of each operand and of the result, as many as the signature has",
        found=given,
        remedy="move the axes first, eo.moveaxis(x, axis, -1), and leave axes, axis and keepdims out",
    )
