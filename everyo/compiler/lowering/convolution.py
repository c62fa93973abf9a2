"""Lowerings of convolutions: to kernels on flattened images, or to matrix products of windows.

The kernels take an image with its padding as one row of numbers, in which a tap (an element of the kernel)
lies at a fixed distance from the position. Where the window moves on by more than one element, the image is
first taken apart into phases: one image of the elements at even places, one of those at odd ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from everyo.compiler.graph import Op, Value
from everyo.compiler.lowering.builder import Builder
from everyo.compiler.lowering.table import lowering
from everyo.compiler.lowering.windows import fold, padded
from everyo.compiler.machine import vectors
from everyo.compiler.positions import Positions, divide

FEW = 4  # positions below which a product of matrices has the better vectors
LITTLE = 4096  # products below which it does not matter, and zeros of the padding are not multiplied


def _is_large(images: int, outputs: int, weight: Sequence[int], positions: Sequence[int], dtype: Any) -> bool:
    """Whether the kernels on flattened images are worth it; integers have no other."""
    count = math.prod(positions)
    work = images * outputs * math.prod(weight[1:]) * count
    return bool(work) and (dtype.kind in "iu" or (count >= FEW and work >= LITTLE))


class Rows(NamedTuple):
    """Images as rows: the value, where the taps lie, and the sizes of the axes that positions move along."""

    value: Value
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    def positions(self, shape: Sequence[int]) -> Positions:
        """Return positions on these rows in vectors."""
        return divide(shape, strides(self.sizes), vectors(), self.value.dtype.itemsize)


def strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the distance of neighbours along each axis of an array in row-major order."""
    return tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))


def dot_product(a: Iterable[int], b: Iterable[int]) -> int:
    return sum(x * y for x, y in zip(a, b))


def placed(b: Builder, x: Value, low: Sequence[int], sizes: Sequence[int]) -> Value:
    """Return `x` in memory, on last axes of `sizes`, behind `low` zeros (before them, it is cut off)."""
    lead, old = x.shape[: -len(sizes)], x.shape[-len(sizes) :]
    begin = [max(-n, 0) for n in low]
    kept = [min(n - c, size - max(at, 0)) for n, c, size, at in zip(old, begin, sizes, low)]
    zeros, ones = (0,) * len(lead), (1,) * len(x.shape)
    x = b.slice(x, (*zeros, *begin), (*lead, *kept), ones)
    if kept == list(sizes):
        return x
    at = (*zeros, *(max(n, 0) for n in low))
    return b.place([x], (*lead, *sizes), [at], [ones], b.constant(0, x.dtype))


def rows_of(b: Builder, x: Value, window: Any) -> Rows:
    """Return images as rows for a window, in phases where it moves on by more than one element."""
    stride, rank = window.stride, len(window.kernel)
    reach = [d * (k - 1) for k, d in zip(window.kernel, window.dilation)]
    sizes = tuple(p + r // s for p, r, s in zip(window.positions(x.shape[-rank:]), reach, stride))
    phases = [max(k * d % s for k in range(n)) + 1 for n, d, s in zip(window.kernel, window.dilation, stride)]
    whole = [n * s for n, s in zip(sizes, stride)]
    value = placed(b, x, [low for low, _ in window.padding], whole)
    if max(stride) > 1:
        value = _in_phases(b, value, sizes, stride, phases)
    steps, size = strides(sizes), math.prod(sizes)
    offsets = []
    for tap in itertools.product(*map(range, window.kernel)):
        moves = [k * d for k, d in zip(tap, window.dilation)]
        phase = dot_product((m % s for m, s in zip(moves, stride)), strides(phases))
        offsets.append(phase * size + dot_product((m // s for m, s in zip(moves, stride)), steps))
    return Rows(value, tuple(offsets), sizes)


def _in_phases(
    b: Builder, x: Value, sizes: Sequence[int], stride: Sequence[int], phases: Sequence[int]
) -> Value:
    """Return ``(images, channels, *phases, *sizes)``: every stride-th element, from each phase on."""
    rank, lead = len(sizes), x.shape[: -len(sizes)]
    pairs = [n for pair in zip(sizes, stride) for n in pair]
    x = b.reshape(x, (*lead, *pairs))
    kept = [n for pair in zip(sizes, phases) for n in pair]
    x = b.slice(x, (0,) * len(x.shape), (*lead, *kept), (1,) * len(x.shape))
    first = len(lead)
    inner, outer = range(first + 1, first + 2 * rank, 2), range(first, first + 2 * rank, 2)
    return b.transpose(x, (*range(first), *inner, *outer))


def cut(b: Builder, value: Value, positions: Sequence[int]) -> Value:
    """Return the first `positions` along the last axes."""
    lead = value.shape[: -len(positions)]
    return b.slice(value, (0,) * len(value.shape), (*lead, *positions), (1,) * len(value.shape))


def convolve(b: Builder, rows: Rows, weight: Value, shape: Sequence[int], groups: int) -> Value:
    """Return the sums over channels and taps at all positions; `weight` is ``(out, channels, taps)``."""
    positions = rows.positions(shape)
    lines = (shape[0], *rows.sizes[1:]) if positions.through else tuple(shape)
    out = b.add(
        "convolve", [rows.value, weight], [((rows.value.shape[0], weight.shape[0], *lines), weight.dtype)],
        groups=groups, offsets=rows.offsets, positions=positions,
    )[0]  # fmt: skip
    return cut(b, out, shape)


@lowering("convolution")
def _convolution(b: Builder, op: Op, x: Value, w: Value) -> Value | None:
    window, groups, dtype = op.params["window"], op.params["groups"], op.out.dtype
    positions = op.out.shape[2:]
    x, w = b.cast(x, dtype), b.cast(w, dtype)
    if dtype.kind == "b":
        return None
    if _is_large(x.shape[0], w.shape[0], w.shape, positions, dtype):
        rows = rows_of(b, x, window)
        return convolve(b, rows, b.reshape(w, (*w.shape[:2], len(rows.offsets))), positions, groups)
    columns = _columns(b, x, window, groups)
    return b.reshape(b.dot(_kernels(b, w, groups, x.shape[0]), columns), op.out.shape)


def _columns(b: Builder, x: Value, window: Any, groups: int) -> Value:
    """Return the windows in shape ``(images, groups, channels * taps, positions)``."""
    rank = len(window.kernel)
    found = b.window(padded(b, x, window), window.kernel, window.stride, window.dilation)
    found = b.transpose(found, (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank)))
    depth = x.shape[1] // groups * math.prod(window.kernel)
    return b.reshape(found, (x.shape[0], groups, depth, math.prod(found.shape[-rank:])))


def _kernels(b: Builder, w: Value, groups: int, images: int) -> Value:
    """Return a weight in shape ``(images, groups, out, channels * taps)``, the same for all images."""
    shape = (groups, w.shape[0] // groups, math.prod(w.shape[1:]))
    return b.broadcast_to(b.reshape(w, shape), (images, *shape))


@lowering("convolution_weight")
def _convolution_weight(b: Builder, op: Op, x: Value, y: Value) -> Value | None:
    window, groups, out = op.params["window"], op.params["groups"], op.out
    positions, images = y.shape[2:], x.shape[0]
    x, y = b.cast(x, out.dtype), b.cast(y, out.dtype)
    if out.dtype.kind == "b":
        return None
    if _is_large(images, y.shape[1], out.shape, positions, out.dtype):
        rows = rows_of(b, x, window)
        divided = rows.positions(positions)
        if divided.through:
            y = placed(b, y, (0,) * len(positions), (positions[0], *rows.sizes[1:]))
        sums = b.add(
            "convolve_weight", [rows.value, y], [((*out.shape[:2], len(rows.offsets)), out.dtype)],
            groups=groups, offsets=rows.offsets, positions=divided,
        )[0]  # fmt: skip
        return b.reshape(sums, out.shape)
    columns = _columns(b, x, window, groups)
    depth, count = columns.shape[2:]
    per_group = y.shape[1] // groups
    right = b.reshape(b.transpose(columns, (1, 0, 3, 2)), (groups, images * count, depth))
    left = b.transpose(b.reshape(y, (images, groups, per_group, count)), (1, 2, 0, 3))
    return b.reshape(b.dot(b.reshape(left, (groups, per_group, images * count)), right), out.shape)


@lowering("convolution_input")
def _convolution_input(b: Builder, op: Op, y: Value, w: Value) -> Value | None:
    window, groups, out = op.params["window"], op.params["groups"], op.out
    y, w = b.cast(y, out.dtype), b.cast(w, out.dtype)
    if out.dtype.kind == "b":
        return None
    if _is_large(y.shape[0], y.shape[1], w.shape, y.shape[2:], out.dtype) and out.size:
        return _by_classes(b, y, w, out.shape, window, groups)
    images, rank = y.shape[0], len(window.kernel)
    positions, per_group = y.shape[2:], w.shape[0] // groups
    kernels = b.transpose(_kernels(b, w, groups, images), (0, 1, 3, 2))
    columns = b.reshape(y, (images, groups, per_group, math.prod(positions)))
    parts = b.reshape(b.dot(kernels, columns), (*out.shape[:2], *window.kernel, *positions))
    parts = b.transpose(parts, (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank)))
    flat = b.reshape(parts, (*out.shape[:2], *positions, math.prod(window.kernel)))
    return fold(b, flat, out.shape[2:], window)


class Reach(NamedTuple):
    """Along one axis: the elements of an image that the same taps of windows reach.

    Attributes
    ----------
    first, number : int
        The first of them, and how many there are, a stride apart.
    taps : range
        The taps that reach them.
    nearest, farthest : int
        From which position that of the first element counts, for the first and the last of the taps.
    back : int
        How many positions lie between one tap and the next.
    """

    first: int
    number: int
    taps: range
    nearest: int
    farthest: int
    back: int


def _classes(n: int, low: int, kernel: int, stride: int, dilation: int) -> list[Reach]:
    """Return the classes of an axis of `n` elements that some tap reaches."""
    apart = stride // math.gcd(stride, dilation)
    found = []
    for residue in range(stride):
        reaching = [k for k in range(kernel) if k * dilation % stride == residue]
        start = -((residue - low) // stride)
        first = stride * start + residue - low
        count = len(range(first, n, stride))
        if reaching and count:
            taps = range(reaching[0], reaching[-1] + 1, apart)
            nearest, farthest = (start - (k * dilation - residue) // stride for k in (taps[0], taps[-1]))
            found.append(Reach(first, count, taps, nearest, farthest, apart * dilation // stride))
    return found


def _by_classes(b: Builder, y: Value, w: Value, shape: Sequence[int], window: Any, groups: int) -> Value:
    """Return the sum of kernels placed at all positions: a convolution of stride 1 for each class."""
    sizes, rank = shape[2:], len(window.kernel)
    lows = [low for low, _ in window.padding]
    axes = [_classes(*axis) for axis in zip(sizes, lows, *window[:3])]
    before = [max(0, *(-c.farthest for c in axis)) for axis in axes]
    ends = [max(n, *(c.nearest + c.number for c in axis)) for axis, n in zip(axes, y.shape[2:])]
    room = [low + end for low, end in zip(before, ends)]
    value = placed(b, y, before, room)
    steps = strides(room)
    per_group = w.shape[0] // groups
    kernels = b.reshape(w, (groups, per_group, *w.shape[1:]))
    parts, firsts = [], []
    for chosen in itertools.product(*axes):
        taps = [c.taps for c in chosen]
        start, count = [0, 0, 0, *(t[0] for t in taps)], [*kernels.shape[:3], *map(len, taps)]
        own = b.slice(kernels, start, count, (1, 1, 1, *(t.step for t in taps)))
        own = b.flip(b.transpose(own, (0, 2, 1, *range(3, 3 + rank))), range(3, 3 + rank))
        own = b.reshape(own, (groups * w.shape[1], per_group, math.prod(map(len, taps))))
        offsets = tuple(
            dot_product((c.nearest - i * c.back + a for c, i, a in zip(chosen, tap, before)), steps)
            for tap in itertools.product(*(reversed(range(len(t))) for t in taps))
        )
        parts.append(convolve(b, Rows(value, offsets, tuple(room)), own, [c.number for c in chosen], groups))
        firsts.append([0, 0, *(c.first for c in chosen)])
    if len(parts) == 1 and parts[0].shape == tuple(shape):
        return parts[0]
    step = (1, 1, *window.stride)
    return b.place(parts, shape, firsts, [step] * len(parts), b.constant(0, y.dtype))
