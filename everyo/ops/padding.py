"""Padding: elements around those of a tensor, in all of NumPy's modes."""

from __future__ import annotations

import builtins
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.dispatch import apply
from everyo.core.dtypes import float16, float32, float64, refuse_complex
from everyo.core.operands import require_range
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.core.traced import staging
from everyo.errors import ArgumentError, ShapeError, describe
from everyo.ops.axes import is_one_of, normalize_axis
from everyo.ops.blocks import filled
from everyo.ops.creation import as_tensor, full, number
from everyo.ops.extremes import max, min
from everyo.ops.order_statistics import median
from everyo.ops.piecewise import round
from everyo.ops.reductions import mean
from everyo.ops.shape import apart, broadcast_to
from everyo.ops.signatures import explained

__all__ = ["pad"]

Pair = tuple[Any, Any]
_SUMMARIES: dict[str, Callable[..., Tensor]] = {
    "maximum": max, "minimum": min, "mean": mean, "median": median,
}  # fmt: skip
_MIRRORED = ("reflect", "symmetric")
_COPIES = ("edge", "wrap", *_MIRRORED)
_LARGE = 1 << 15  # elements from which on a copy for each axis costs more than to keep the pieces apart
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
    DTypeError
        If the new elements are no numbers, or complex for a real `x`.
    IndexingError
        If a dict names an axis that `x` does not have.

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
        if not _is_odd(reflect_type):
            return _around(x, widths, [mode] * x.ndim, _copied)
        wide = {float16: float32, float32: float64}.get(x.dtype, x.dtype)  # has twice the largest element
        padded = _around(x.astype(wide, copy=False), widths, [mode] * x.ndim, _mirrored)
        return padded.astype(x.dtype, copy=False)
    if mode == "linear_ramp":
        return _around(x, widths, _numbers(x, end_values, "end_values"), _ramps)
    lengths = _pairs(stat_length, x.ndim) if stat_length is not None else [(None, None)] * x.ndim
    _require_counts(x, lengths, "stat_length", 1, stat_length)
    return _around(x, widths, lengths, functools.partial(_summaries, _SUMMARIES[mode]))


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
    if not is_one_of(reflect_type, ("even", "odd")):
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
    return _around(apart(x), widths, settings, _filled)


class _Pieces:
    """A tensor in pieces: what was padded along the first axes, and is not put together yet.

    Each rim that is put around it is made of the pieces: nothing but rims is copied before the end.

    Attributes
    ----------
    pieces : list of Tensor
        They fill the whole, and each reaches all along the axes that are not padded yet.
    starts : list of tuple of int
        Where each of them begins.
    shape : tuple of int
        That of the whole.
    like : Tensor
        Of its dtype and device.
    """

    def __init__(self, x: Tensor) -> None:
        self.pieces, self.starts, self.shape = [x], [(0,) * x.ndim], tuple(x.shape)
        self.like = x

    def surround(self, axis: int, before: Tensor, after: Tensor) -> None:
        """Put rims in front of an axis and behind it."""
        low, n, high = before.shape[axis], self.shape[axis], after.shape[axis]
        starts = [_with(start, axis, start[axis] + low) for start in self.starts]
        zero = (0,) * len(self.shape)
        placed = [(before, zero), *zip(self.pieces, starts), (after, _with(zero, axis, low + n))]
        placed = [(x, start) for x, start in placed if x.shape[axis]]
        self.pieces, self.starts = [x for x, _ in placed], [start for _, start in placed]
        self.shape = _with(self.shape, axis, low + n + high)

    def along(self, axis: int, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Return what a function of rows along an axis that is not padded yet makes of the whole."""
        parts = [function(x) for x in self.pieces]
        return (
            parts[0] if len(parts) == 1 else filled(parts, self.starts, self.rim(axis, parts[0].shape[axis]))
        )

    def part(self, axis: int, index: Any) -> Tensor:
        """Return the elements at an index along an axis that is not padded yet."""
        lead = (slice(None),) * axis
        if type(index) is slice:
            return self.along(axis, lambda x: apply(op.getitem, (x,), {"index": (*lead, index)}))
        return self.along(axis, lambda x: x[(*lead, index)])

    def rim(self, axis: int, width: int) -> tuple[int, ...]:
        """Return the shape of a rim."""
        return _with(self.shape, axis, width)


def _with(sizes: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*sizes[:axis], size, *sizes[axis + 1 :])


def _around(
    x: Tensor, widths: Sequence[Pair], settings: Sequence[Any], rims: Callable[..., tuple[Tensor, Tensor]]
) -> Tensor:
    """Put what ``rims(pieces, axis, width, setting)`` returns, a pair, around `x` along each axis."""
    padded = [axis for axis, width in enumerate(widths) if width != (0, 0)]
    at_once = len(padded) < 2 or x.size < _LARGE or staging.get() is not None  # compiled, no copy is made
    found = _Pieces(x)
    for axis in padded:
        before, after = rims(found, axis, widths[axis], settings[axis])
        if at_once:
            x = apply(op.concat, (before, x, after), {"axis": axis})
            found = _Pieces(x)
        else:
            found.surround(axis, before, after)
    return x if at_once else filled(found.pieces, found.starts, found.shape)


def _filled(x: _Pieces, axis: int, width: Pair, values: Pair) -> tuple[Tensor, Tensor]:
    before, after = (
        full(x.rim(axis, w), value, dtype=x.like.dtype, device=x.like.device)
        for w, value in zip(width, values)
    )
    return before, after


def _ramps(x: _Pieces, axis: int, width: Pair, ends: Pair) -> tuple[Tensor, Tensor]:
    n, dtype, backend = x.shape[axis], x.like.dtype, x.like.backend
    between = dtype if dtype.kind in "fc" else float64
    rims = []
    for w, end, edge, step in zip(width, ends, (0, n - 1), (1, -1)):
        places = backend.xp.arange(w)[::step].reshape(-1, *(1,) * (len(x.shape) - axis - 1))
        places = backend.asarray(places, between, x.like.device)
        inside = x.part(axis, slice(edge, edge + 1)).astype(between, copy=False)
        ramp = (inside - end) / builtins.max(w, 1) * places + end
        rims.append((op.floor(ramp) if dtype.kind in "iu" else ramp).astype(dtype, copy=False))
    before, after = rims
    return before, after


def _summaries(
    summary: Callable[..., Tensor], x: _Pieces, axis: int, width: Pair, lengths: Pair
) -> tuple[Tensor, Tensor]:
    n = x.shape[axis]
    low, high = (n if length is None else builtins.min(length, n) for length in lengths)

    def summarized(rows: slice) -> Tensor:
        lead = (slice(None),) * axis
        whole = rows == slice(0, n)
        value = x.along(axis, lambda v: summary(v if whole else v[(*lead, rows)], axis=axis, keepdims=True))
        if x.like.dtype.kind in "iu" and value.dtype.kind == "f":
            value = round(value)
        return value.astype(x.like.dtype, copy=False)

    before = summarized(slice(0, low))
    after = before if low == high == n else summarized(slice(n - high, n))
    return broadcast_to(before, x.rim(axis, width[0])), broadcast_to(after, x.rim(axis, width[1]))


def _copied(x: _Pieces, axis: int, width: Pair, mode: str) -> tuple[Tensor, Tensor]:
    xp, n = x.like.backend.xp, x.shape[axis]
    skipped = int(mode == "reflect")
    if mode == "edge":
        first, last = x.part(axis, slice(0, 1)), x.part(axis, slice(n - 1, n))
        return broadcast_to(first, x.rim(axis, width[0])), broadcast_to(last, x.rim(axis, width[1]))
    if builtins.max(width) > n - skipped:  # some elements are copied several times
        before, after = (x.part(axis, _images(xp, places, n, mode)) for places in _outside(xp, n, width))
        return before, after
    if mode == "wrap":
        return x.part(axis, slice(n - width[0], n)), x.part(axis, slice(0, width[1]))
    end = n - skipped
    before = x.part(axis, _backwards(skipped, skipped + width[0]))
    return before, x.part(axis, _backwards(end - width[1], end))


def _backwards(start: int, stop: int) -> slice:
    """Return the slice of the elements from `start` to `stop` in reverse order."""
    return slice(stop - 1, start - 1 if start else None, -1) if start < stop else slice(0, 0)


def _outside(xp: Any, n: int, width: Pair) -> tuple[Any, Any]:
    """Return the places before and after `n` elements."""
    return xp.arange(-width[0], 0), xp.arange(n, n + width[1])


def _images(xp: Any, places: Any, n: int, mode: str) -> Any:
    """Return which of `n` elements stand at places outside."""
    if mode == "wrap":
        return places % n
    twice = int(mode == "symmetric")  # whether the outermost elements are mirrored too
    period = 2 * (n - 1 + twice) or 1
    folded = places % period
    return xp.minimum(folded, period - twice - folded)


def _mirrored(x: _Pieces, axis: int, width: Pair, mode: str) -> tuple[Tensor, Tensor]:
    """Mirror at both ends in turn: each time, a place has twice the end's value minus that of its image."""
    n, edge = x.shape[axis], int(mode == "reflect")
    if mode not in _MIRRORED or n == 1:
        return _copied(x, axis, width, mode if n > 1 else "edge")
    if builtins.max(width) <= n - edge:
        before = x.along(axis, lambda v: _image(v, axis, slice(0, 1), edge, edge + width[0]))
        after = x.along(axis, lambda v: _image(v, axis, slice(n - 1, n), n - edge - width[1], n - edge))
        return before, after
    whole = x.along(axis, lambda v: _mirrored_in_turn(v, axis, width, edge))
    return _between(whole, axis, 0, width[0]), _between(whole, axis, width[0] + n, whole.shape[axis])


def _mirrored_in_turn(x: Tensor, axis: int, width: Pair, edge: int) -> Tensor:
    """Return `x` with both rims, which grow by whole periods as NumPy's: infinities then meet alike."""
    period = x.shape[axis] - edge
    low, high = width
    while low or high:
        n = x.shape[axis]
        inside = (n - edge) // period * period
        before, after = builtins.min(inside, low), builtins.min(inside, high)
        rims = (
            _image(x, axis, slice(0, 1), edge, edge + before),
            _image(x, axis, slice(n - 1, n), n - edge - after, n - edge),
        )
        x = apply(op.concat, (rims[0], x, rims[1]), {"axis": axis})
        low, high = low - before, high - after
    return x


def _image(x: Tensor, axis: int, end: slice, start: int, stop: int) -> Tensor:
    """Return twice the value at an end minus the elements from `start` to `stop`, in reverse order."""
    lead = (slice(None),) * axis
    image = 2 * x[(*lead, end)] - x[(*lead, _backwards(start, stop))]
    return image if image.dtype == x.dtype else image.astype(x.dtype)  # booleans count as integers


def _between(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    return apply(op.getitem, (x,), {"index": (*(slice(None),) * axis, slice(start, stop))})


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
    if x.dtype.kind in "iu":
        for value in {value for pair in found for value in pair}:
            require_range(value, value, x.dtype, x.backend, "pad")
    return found


def _pairs(value: Any, rank: int) -> list[Pair]:
    """Return a setting as pairs; nothing if it is neither one value, nor a pair, nor pairs."""
    items = _items(value)
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


def _items(value: Any) -> Any:
    """Return a setting as numbers or nested lists of them; a tensor's are tensors, which may be refused."""
    if not getattr(value, "shape", ()) or isinstance(value, type):
        return value
    return [_items(v) for v in value] if isinstance(value, Tensor) else value.tolist()


def _refuse(x: Tensor, name: str, given: Any) -> None:
    raise ShapeError(
        "the widths do not fit the axes" if name == "pad_width" else f"{name} does not fit the axes",
        operation="pad",
        inputs=describe(x),
        expected=f"one, a pair, or {x.ndim} pairs, none negative",
        found=repr(given),
        remedy="write ((before, after), ...) with a pair for each axis",
    )
