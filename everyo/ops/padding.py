"""Padding: elements around those of a tensor, in all of NumPy's modes."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.dispatch import apply
from everyo.core.dtypes import refuse_complex
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, ShapeError, describe
from everyo.ops.axes import normalize_axis
from everyo.ops.creation import as_tensor, full, number
from everyo.ops.joining import concat
from everyo.ops.order_statistics import median
from everyo.ops.piecewise import round, where
from everyo.ops.ranges import linspace
from everyo.ops.rearranging import flip
from everyo.ops.reductions import max, mean, min
from everyo.ops.shape import apart, broadcast_to
from everyo.ops.signatures import explained

__all__ = ["pad"]

Pair = tuple[Any, Any]
_SUMMARIES: dict[str, Callable[..., Tensor]] = {
    "maximum": max, "minimum": min, "mean": mean, "median": median,
}  # fmt: skip
_COPIES = ("edge", "reflect", "symmetric", "wrap")
# The modes and the option that each of them takes.
_OPTIONS: dict[str, str | None] = {
    "constant": "constant_values", "empty": None, "edge": None, "wrap": None, "linear_ramp": "end_values",
    **dict.fromkeys(_SUMMARIES, "stat_length"), "reflect": "reflect_type", "symmetric": "reflect_type",
}  # fmt: skip

_DEFAULTS = {"constant_values": 0, "end_values": 0, "stat_length": None, "reflect_type": "even"}


@explained
def pad(
    x: Any,
    /,
    pad_width: Any,
    mode: str = "constant",
    *,
    constant_values: Any = 0,
    end_values: Any = 0,
    stat_length: Any = None,
    reflect_type: str = "even",
) -> Tensor:
    """Surround `x` with more elements.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.
    pad_width : int, pair of int, a pair for each axis, or a dict from axis to int or pair
        How many elements come before and after. One number serves for both; axes that a dict leaves out
        stay as they are.
    mode : str, default "constant"
        What they are: "constant", numbers (`constant_values`); "edge", the outermost element; "reflect" and
        "symmetric", the elements mirrored without or with the outermost; "wrap", those from the other end;
        "linear_ramp", a line from the outermost element to `end_values`; "maximum", "minimum", "mean" and
        "median", those of the axis, or of its `stat_length` outermost elements; "empty", zeros here.
    constant_values, end_values : number, pair, or a pair for each axis, default 0
        In the forms of `pad_width`, but for the dict.
    stat_length : int, pair, or a pair for each axis, optional
        Likewise; by default the whole axis.
    reflect_type : {"even", "odd"}, default "even"
        "odd" mirrors at a point, not at a line: twice the outermost element minus the mirrored one.

    Returns
    -------
    Tensor
        Of the dtype of `x`. The gradient goes to the elements that the new ones were made of.

    Raises
    ------
    ShapeError
        If widths or other settings do not fit the axes, or an empty axis has nothing to copy.
    ArgumentError
        If there is no such mode, or it does not take an option that is given.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.pad(eo.tensor([1, 2, 3]), 2, mode="reflect"))
    [3 2 1 2 3 2 1]
    >>> print(eo.pad(eo.tensor([1.0, 2.0]), (2, 1), "linear_ramp", end_values=(0, 5)))
    [0.  0.5 1.  2.  5. ]
    """
    given = {
        "constant_values": constant_values,
        "end_values": end_values,
        "stat_length": stat_length,
        "reflect_type": reflect_type,
    }
    _require_option_of(mode, given)
    x = as_tensor(x)
    widths = _widths(x, pad_width)
    if mode in ("constant", "empty"):
        return _constant(x, widths, constant_values)
    x = apart(x)
    _refuse_empty(x, widths)
    if mode in _COPIES:
        odd = _is_odd(reflect_type)
        for axis, width in enumerate(widths):
            if width != (0, 0):
                x = _mirrored(x, axis, width, mode) if odd else _copied(x, axis, width, mode)
        return x
    if mode == "linear_ramp":
        return _around(x, widths, _numbers(x, end_values, "end_values"), _ramp)
    summary = _SUMMARIES[mode]
    lengths = _pairs(stat_length, x.ndim) if stat_length is not None else [(None, None)] * x.ndim
    _require_counts(x, lengths, "stat_length", 1, stat_length)
    return _around(x, widths, lengths, lambda *args: _summarized(summary, *args))


def _require_option_of(mode: Any, given: dict[str, Any]) -> None:
    """Raise ArgumentError if there is no such mode, or an option is set that belongs to another."""
    if not isinstance(mode, str) or mode not in _OPTIONS:
        raise ArgumentError(
            "there is no such mode",
            operation="pad",
            expected=", ".join(_OPTIONS),
            found=repr(mode),
            remedy="a function as mode would write into arrays: use eo.concat with what it makes"
            if callable(mode)
            else "take one of these",
        )
    option = _OPTIONS[mode]
    for name, value in given.items():
        default = _DEFAULTS[name]
        if name != option and not (value is default or (type(value) is type(default) and value == default)):
            raise ArgumentError(
                f"the mode {mode!r} does not take {name}",
                operation="pad",
                expected=f"{option} or nothing" if option else "no option",
                found=name,
                remedy="leave it out, or choose the mode that it belongs to",
            )


def _is_odd(reflect_type: Any) -> bool:
    if reflect_type not in ("even", "odd"):
        raise ArgumentError(
            "there is no such reflect_type",
            operation="pad",
            expected="even or odd",
            found=repr(reflect_type),
            remedy="leave it out to mirror the elements as they are",
        )
    return bool(reflect_type == "odd")


def _refuse_empty(x: Tensor, widths: Sequence[Pair]) -> None:
    if any(not n and width != (0, 0) for n, width in zip(x.shape, widths)):
        raise ShapeError(
            "an empty axis has nothing to copy",
            operation="pad",
            inputs=describe(x),
            expected="elements",
            remedy="pad with mode='constant'",
        )


# ---- what is put around


def _constant(x: Tensor, widths: Sequence[Pair], values: Any) -> Tensor:
    settings = _numbers(x, values, "constant_values")
    different = {value for pair in settings for value in pair}
    if len(different) <= 1:
        value = different.pop() if different else 0
        return apply(op.pad, (x,), {"pad_width": tuple(widths), "value": value})
    return _around(x, widths, settings, _filled)


def _around(
    x: Tensor, widths: Sequence[Pair], settings: Sequence[Pair], rim: Callable[..., Tensor]
) -> Tensor:
    """Put ``rim(x, axis, width, setting)`` in front of each axis, and behind it that of `x` turned round."""
    for axis, (width, setting) in enumerate(zip(widths, settings)):
        if width == (0, 0):
            continue
        before = rim(x, axis, width[0], setting[0])
        after = rim(flip(x, axis=axis), axis, width[1], setting[1])
        x = concat([before, x, flip(after, axis=axis)], axis=axis)
    return x


def _filled(x: Tensor, axis: int, width: int, value: Any) -> Tensor:
    return full(_rim_shape(x, axis, width), value, dtype=x.dtype, device=x.device)


def _ramp(x: Tensor, axis: int, width: int, end: Any) -> Tensor:
    edge = x[(slice(None),) * axis + (0,)]
    return linspace(end, edge, width, endpoint=False, axis=axis, dtype=x.dtype)


def _summarized(summary: Callable[..., Tensor], x: Tensor, axis: int, width: int, length: Any) -> Tensor:
    part = x if length is None else x[(slice(None),) * axis + (slice(0, length),)]
    value = summary(part, axis=axis, keepdims=True)
    if x.dtype.kind in "iu" and value.dtype.kind == "f":
        value = round(value)
    return broadcast_to(value.astype(x.dtype, copy=False), _rim_shape(x, axis, width))


def _rim_shape(x: Tensor, axis: int, width: int) -> tuple[int, ...]:
    return (*x.shape[:axis], width, *x.shape[axis + 1 :])


def _copied(x: Tensor, axis: int, width: Pair, mode: str) -> Tensor:
    xp, n, lead = x.backend.xp, x.shape[axis], (slice(None),) * axis
    skipped = int(mode == "reflect")
    if mode == "edge":
        ends = x[(*lead, slice(0, 1))], x[(*lead, slice(n - 1, n))]
        before, after = (broadcast_to(end, _rim_shape(x, axis, w)) for end, w in zip(ends, width))
    elif builtins.max(width) > n - skipped:  # some elements are copied several times
        outside = xp.arange(-width[0], 0), xp.arange(n, n + width[1])
        before, after = (x[(*lead, _images(xp, places, n, mode))] for places in outside)
    elif mode == "wrap":
        before, after = x[(*lead, slice(n - width[0], n))], x[(*lead, slice(0, width[1]))]
    else:
        last = n - skipped
        before = flip(x[(*lead, slice(skipped, skipped + width[0]))], axis=axis)
        after = flip(x[(*lead, slice(last - width[1], last))], axis=axis)
    return concat([before, x, after], axis=axis)


def _images(xp: Any, places: Any, n: int, mode: str) -> Any:
    """Return which of `n` elements stand at places outside."""
    if mode == "wrap":
        return places % n
    twice = int(mode == "symmetric")  # whether the outermost elements are mirrored too
    period = 2 * (n - 1 + twice) or 1
    folded = places % period
    return xp.minimum(folded, period - twice - folded)


def _mirrored(x: Tensor, axis: int, width: Pair, mode: str) -> Tensor:
    """Mirror at both ends in turn: each time, a place has twice the end's value minus that of its image.

    With a period of `length`, the place ``turn * length + k`` has the value of place k plus ``turn`` times
    the difference of the ends where `turn` is even; where it is odd, it is the image of a place that has.
    """
    n, xp, lead = x.shape[axis], x.backend.xp, (slice(None),) * axis
    length = n if mode == "symmetric" else n - 1
    if not length:
        return _copied(x, axis, width, "edge")
    turns = xp.arange(-width[0], n + width[1]) // length
    turns[width[0] : width[0] + n] = 0
    shape = (-1,) + (1,) * (x.ndim - axis - 1)
    copies = _copied(x, axis, width, mode)
    odd = turns % 2 == 1
    first = _multiple(xp.where(odd, 1 - turns, -turns).reshape(shape), x[(*lead, slice(0, 1))])
    last = _multiple(xp.where(odd, turns + 1, turns).reshape(shape), x[(*lead, slice(n - 1, n))])
    return where(odd.reshape(shape), -copies, copies) + (last + first)


def _multiple(factors: Any, x: Tensor) -> Tensor:
    """Return `x` times whole numbers; 0 times an infinity is 0, for there the element has no part."""
    return where(factors == 0, 0, x) * factors.astype(x.dtype)


# ---- settings for each end of each axis


def _widths(x: Tensor, pad_width: Any) -> tuple[Pair, ...]:
    """Return the widths before and after for each axis."""
    pairs: list[Pair]
    if isinstance(pad_width, dict):
        pairs = [(0, 0)] * x.ndim
        for axis, width in pad_width.items():
            pairs[normalize_axis(axis, x.ndim, "pad")] = (_pairs(width, 1) or [(-1, -1)])[0]
    else:
        pairs = _pairs(pad_width, x.ndim)
    _require_counts(x, pairs, "pad_width", 0, pad_width)
    return tuple((operator.index(low), operator.index(high)) for low, high in pairs)


def _require_counts(x: Tensor, pairs: Sequence[Pair], name: str, least: int, given: Any) -> None:
    """Raise ShapeError unless there is a pair of whole numbers for each axis; None may stand for a length."""
    try:
        fits = all((v is None and least) or operator.index(v) >= least for pair in pairs for v in pair)
    except TypeError:
        fits = False
    if not fits or len(pairs) != x.ndim:
        _refuse(x, name, given)


def _numbers(x: Tensor, values: Any, name: str) -> list[Pair]:
    """Return numbers for both ends of each axis; DTypeError if one is complex and `x` is not."""
    pairs = _pairs(values, x.ndim)
    if len(pairs) != x.ndim:
        _refuse(x, name, values)
    found = [(number(low, "pad", name), number(high, "pad", name)) for low, high in pairs]
    if any(isinstance(v, complex) for pair in found for v in pair):
        refuse_complex(x.backend.xp.dtype(complex), x.dtype, "pad")
    return found


def _pairs(value: Any, rank: int) -> list[Pair]:
    """Return a setting as pairs; nothing if it is neither one value, nor a pair, nor pairs."""
    items = value.tolist() if getattr(value, "shape", ()) else value
    if not isinstance(items, (list, tuple)):
        return [(items, items)] * rank
    nested = [isinstance(item, (list, tuple)) for item in items]
    if not any(nested):
        items = [items]
    elif not all(nested):
        return []
    if not items or not all(len(item) in (1, 2) for item in items):
        return []
    pairs = [(item[0], item[-1]) for item in items]
    return pairs * rank if len(pairs) == 1 else pairs


def _refuse(x: Tensor, name: str, given: Any) -> None:
    raise ShapeError(
        "the widths do not fit the axes" if name == "pad_width" else f"{name} does not fit the axes",
        operation="pad",
        inputs=describe(x),
        expected=f"one, a pair, or {x.ndim} pairs, none negative",
        found=repr(given),
        remedy="write ((before, after), ...) with a pair for each axis",
    )
