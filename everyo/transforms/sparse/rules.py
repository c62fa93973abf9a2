"""Which elements of an operand each element of a result depends on, by kind of operation.

A rule is ``rule(call, i)``. It returns boolean matrices whose product, the last one applied first, links
the result's elements (rows) to those of operand `i` (columns): none of them stand for the identity, and
None for no dependence. A rule may link too much, never too little. An operation without a rule links
everything to everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.traced import innermost
from everyo.ops.indexing import _split

Links = Sequence[Any] | None
Rule = Callable[["Call", int], Links]


class Call:
    """One operation with its operands and its result as arrays; `varies` marks operands that depend on x."""

    def __init__(
        self,
        primitive: Primitive,
        values: Sequence[Any],
        varies: Sequence[bool],
        params: dict[str, Any],
        out: Any,
    ) -> None:
        self.primitive, self.params, self.out = primitive, params, innermost(out)
        self.values, self.varies = [innermost(v) for v in values], varies

    def shape(self, i: int) -> tuple[int, ...]:
        """Return the shape of operand `i`."""
        return np.shape(self.values[i])

    def size(self, i: int) -> int:
        """Return the number of elements of operand `i`."""
        return math.prod(self.shape(i))


def labels(shape: Sequence[int]) -> Any:
    """Return the positions of the elements of an array of this shape."""
    return np.arange(math.prod(shape)).reshape(shape)


def links(rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    """Return the boolean matrix with these entries; arrays that broadcast, -1 for no entry."""
    rows, columns = (a.ravel() for a in np.broadcast_arrays(rows, columns))
    real = (rows >= 0) & (columns >= 0)
    if not real.all():
        rows, columns = rows[real], columns[real]
    return sp.csr_array((np.ones(len(rows), bool), (rows, columns)), shape=shape)


def reading(source: Any, size: int) -> Any:
    """Return the links of a result whose elements are read from the positions `source`."""
    return links(np.arange(source.size), source.ravel(), (source.size, size))


def adding(owner: Any, size: int) -> Any:
    """Return the links of a result to which each element of an operand is added at the position `owner`."""
    return links(owner.ravel(), np.arange(owner.size), (size, owner.size))


def everything(call: Call, i: int) -> Links:
    """All of the result depends on all of the operand: through one point."""
    return (
        links(np.arange(call.out.size), np.zeros(1, int), (call.out.size, 1)),
        links(np.zeros(1, int), np.arange(call.size(i)), (1, call.size(i))),
    )


def nothing(call: Call, i: int) -> Links:
    """Nothing depends on the operand, or by a derivative that is zero."""
    return None


def pointwise(call: Call, i: int) -> Links:
    """Each element depends on the one that broadcasting puts at its place."""
    if call.shape(i) == call.out.shape:
        return ()
    return (reading(np.broadcast_to(labels(call.shape(i)), call.out.shape), call.size(i)),)


def where(call: Call, i: int) -> Links:
    """The condition has no derivative; which branch counts may change from point to point."""
    return None if i == 0 else pointwise(call, i)


def moved(*movable: int) -> Rule:
    """Operations that move elements: run on the positions themselves, they say where each came from.

    `movable` are the operands whose elements move (none named: all); the others say where to.
    """

    def rule(call: Call, i: int) -> Links:
        if movable and i not in movable:
            return None
        operands = [
            1 + labels(call.shape(k)) if k == i else np.zeros(call.shape(k), int) if _moves(k) else value
            for k, value in enumerate(call.values)
        ]
        params = {**call.params, "value": 0} if "value" in call.params else call.params
        source = np.real(call.primitive(*operands, **params)).astype(int) - 1  # `params` may name a dtype
        return (reading(source, call.size(i)),)

    def _moves(k: int) -> bool:
        return not movable or k in movable

    return rule


def summed(call: Call, i: int) -> Links:
    """Reductions over `axis`, smooth or not: a maximum may move from element to element."""
    return (adding(_group(call, i), call.out.size),)


def _group(call: Call, i: int) -> Any:
    """Return, for each element of the operand, which of the groups along `axis` it belongs to."""
    shape, axis = call.shape(i), call.params["axis"]
    axes = range(len(shape)) if axis is None else (axis,) if isinstance(axis, int) else axis
    reduced = {a % len(shape) for a in axes} if shape else set()
    kept = tuple(1 if a in reduced else n for a, n in enumerate(shape))
    return np.broadcast_to(labels(kept), shape)


def summed_to(call: Call, i: int) -> Links:
    """The transpose of broadcasting."""
    shape = call.shape(i)
    padded = (1,) * (len(shape) - call.out.ndim) + call.out.shape
    return (adding(np.broadcast_to(labels(padded), shape), call.out.size),)


def within(call: Call, i: int) -> Links:
    """Each element depends on all along its `axis`, as in softmax and sort."""
    group = _group(call, i)
    count = int(group.max(initial=-1)) + 1
    return reading(group, count), adding(group, count)


def running(call: Call, i: int) -> Links:
    """Each element depends on those before it along its `axis`, as in cumsum."""
    shape, axis = call.shape(i), call.params["axis"]
    lines = np.moveaxis(labels(shape), axis, -1).reshape(-1, shape[axis]) if shape else labels((1, 1))
    later, earlier = np.tril_indices(lines.shape[1])
    if call.params.get("reverse"):
        later, earlier = earlier, later
    return (links(lines[:, later], lines[:, earlier], (call.out.size, call.size(i))),)


def assembled(call: Call, i: int) -> Links:
    """Each value is added where its index says."""
    indices = call.params["indices"]
    if i >= len(indices):
        return None
    _, index, arrays = list(_split(call.values, indices))[i]
    owner = np.asarray(op.getitem(labels(call.params["shape"]), *arrays, index=index))
    return (links(owner, labels(call.shape(i)), (call.out.size, call.size(i))),)


def scattered(call: Call, i: int) -> Links:
    """Values are added at positions along an axis."""
    if i:
        return None
    axis, shape = call.params["axis"], call.params["shape"]
    owner = np.take_along_axis(labels(shape), call.values[1], axis)
    return (links(owner, labels(call.shape(0)), (call.out.size, call.size(0))),)


def product(call: Call, i: int) -> Links:
    """A matrix product links by the nonzeros of a constant factor, otherwise by whole rows or columns."""
    own, out, other = labels(call.shape(i)), labels(call.out.shape), call.values[1 - i]
    if len(call.shape(1)) == 1:
        out = out[..., None]
    if len(call.shape(0)) == 1:
        out = np.expand_dims(out, -2)
    if i == 1:  # as if it were the first factor of the transposed product
        out, other = out.swapaxes(-1, -2), other.T
    own = own[None] if own.ndim == 1 else own.swapaxes(-1, -2) if i == 1 else own
    shape = (call.out.size, call.size(i))
    if not call.varies[1 - i] and other.ndim <= 2 and not other.all():
        inner, column = (other if other.ndim == 2 else other[:, None]).nonzero()
        return (links(out[..., column], own[..., inner], shape),)
    row = labels(own.shape[:-1])[..., None]
    return links(out, np.broadcast_to(row, out.shape), (shape[0], row.size)), links(
        row, own, (row.size, shape[1])
    )


def _kernel_links(call: Call, image: Any, result: Any) -> tuple[Any, Any]:
    """Return which elements of `result` and of `image`, in pairs, a convolution's kernels link."""
    w, window, rank = call.values[1], call.params["window"], image.ndim - 2
    windows = op.sliding_windows(1 + image, window=window) - 1  # the padding becomes -1
    nonzero = np.ones(w.shape, bool) if call.varies[1] else w != 0
    o, c, k = nonzero.reshape(*w.shape[:2], -1).nonzero()
    channel = o // (w.shape[0] // call.params["groups"]) * w.shape[1] + c
    return np.moveaxis(result, 1, 0)[o], np.moveaxis(windows, 2, 1)[k, channel].reshape(
        len(o), -1, *windows.shape[-rank:]
    )


def convolved(call: Call, i: int) -> Links:
    """Windows of the image, where the kernel is not zero; all of an output channel's kernel."""
    shape = (call.out.size, call.size(i))
    if i == 0:
        result, image = _kernel_links(call, labels(call.shape(0)), labels(call.out.shape))
        return (links(result, image, shape),)
    kernels = call.shape(1)[0]
    channel = np.arange(kernels)
    out = labels(call.out.shape).swapaxes(0, 1).reshape(kernels, -1)
    weight = labels(call.shape(1)).reshape(kernels, -1)
    return links(out, channel[:, None], (shape[0], kernels)), links(
        channel[:, None], weight, (kernels, shape[1])
    )


def convolved_back(call: Call, i: int) -> Links:
    """The transpose of `convolved` for the result of a convolution."""
    if i == 1:
        return everything(call, i)
    result, image = _kernel_links(call, labels(call.out.shape), labels(call.shape(0)))
    return (links(image, result, (call.out.size, call.size(0))),)


def overlapped(call: Call, i: int) -> Links:
    """Windows are added up where they came from."""
    owner = op.sliding_windows(1 + labels(call.out.shape), window=call.params["window"]) - 1
    return (links(owner.ravel(), np.arange(owner.size), (call.out.size, owner.size)),)


def pooled(call: Call, i: int) -> Links:
    """Each result depends on its window."""
    windows = op.sliding_windows(1 + labels(call.shape(0)), window=call.params["window"]) - 1
    return (links(labels(call.out.shape), windows, (call.out.size, call.size(0))),)


def neighbouring(call: Call, i: int) -> Links:
    """Differences of neighbours, and the transpose of taking them."""
    axis, source = call.params["axis"], labels(call.shape(0))
    if call.out.shape[axis] > source.shape[axis]:
        source = np.pad(source, [(int(k == axis),) * 2 for k in range(source.ndim)], constant_values=-1)
    length = call.out.shape[axis]
    pairs = np.stack([source.take(range(k, k + length), axis) for k in range(2)])
    return (links(labels(call.out.shape), pairs, (call.out.size, call.size(0))),)


def paired(call: Call, i: int) -> Links:
    """Differences of the points of two sets."""
    operands = [(k == i) * (1 + labels(call.shape(k))) for k in range(2)]
    return (reading(np.abs(call.primitive(*operands)) - 1, call.size(i)),)


FAMILIES: dict[str, Rule] = {"elementwise": pointwise, "discrete": nothing}

RULES: dict[str, Rule] = {
    **dict.fromkeys(("floor", "ceil", "round", "trunc", "sign", "floor_divide"), nothing),
    **dict.fromkeys(("zeros_like", "ones_like", "nonzero", "last_writes"), nothing),
    **dict.fromkeys(("alias", "astype", "conj", "copy", "imag", "real", "to_device"), pointwise),
    "broadcast_to": pointwise,
    "where": where,
    **dict.fromkeys(("reshape", "transpose", "matrix_transpose", "flip", "roll", "tril", "triu"), moved()),
    **dict.fromkeys(("concat", "stack", "fill_blocks", "delay", "sliding_windows", "pad"), moved()),
    **dict.fromkeys(("getitem", "take_along_axis", "delete"), moved(0)),
    **dict.fromkeys(("index_update", "insert"), moved(0, 1)),
    **dict.fromkeys(("sum", "mean", "max", "min", "prod", "logsumexp"), summed),
    **dict.fromkeys(("std", "var", "vector_norm"), summed),
    "sum_to": summed_to,
    **dict.fromkeys(("softmax", "log_softmax", "sort"), within),
    **dict.fromkeys(("cumsum", "cumprod", "linear_recurrence"), running),
    **dict.fromkeys(("differences", "spread_differences"), neighbouring),
    "pair_differences": paired,
    "assemble": assembled,
    "scatter_along_axis": scattered,
    "matmul": product,
    "convolution": convolved,
    "convolution_input": convolved_back,
    "overlap_add": overlapped,
    "max_pool": pooled,
}


def rule_for(primitive: Primitive) -> Rule:
    """Return the rule of a primitive: its own, its family's, or the one that links everything."""
    if op.__dict__.get(primitive.name) is not primitive:
        return everything  # a function with rules of the user's own, which may bear any name
    return RULES.get(primitive.name) or FAMILIES.get(primitive.family, everything)
