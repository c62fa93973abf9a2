"""The builder of core graphs: shapes are inferred here, trivial operations vanish, equal ones are one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from everyo.compiler.access import VIEWS
from everyo.compiler.graph import Graph, Op, Value
from everyo.core.keys import typed

DEPTH = 16  # views, one of the other, that an element may be looked for through
SMALL = 16  # terms of a contraction that are written out
BOOL, INDEX = np.dtype(bool), np.dtype(np.int64)
COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
PREDICATES = COMPARISONS | {"logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "isinf",
                            "isfinite", "signbit"}  # fmt: skip


FOLDED = COMPARISONS | {"add", "subtract", "multiply", "divide", "negative", "abs", "maximum", "minimum",
                        "sqrt", "logical_and", "logical_or", "logical_not", "isnan", "isinf"}  # fmt: skip


class Builder:
    """Appends core operations to a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._known: dict[Any, list[Value]] = {}
        self._depth: dict[Value, int] = {}  # of views of views
        self._turned: dict[Value, Value] = {}  # with the first axis in front: the same with it at the end

    def add(
        self, name: str, inputs: Sequence[Value | None], specs: Sequence[tuple[Any, Any]], **params: Any
    ) -> list[Value]:
        """Append an operation, or return the results of an equal one that is there."""
        key = (name, tuple(map(id, inputs)), tuple(specs), frozen(params))
        found = self._known.get(key)
        if found is None:
            found = self.graph.add(name, inputs, specs, **params)
            if name in VIEWS:
                found = [self._in_reach(found[0])]
            self._known[key] = found
        return found

    def _in_reach(self, view: Value) -> Value:
        """Return a view, or a copy if it looks through too many others: each element would go through all."""
        assert view.op is not None
        depth = 1 + max((self._depth.get(v, 0) for v in view.op.operands), default=0)
        if depth > DEPTH:
            return self.graph.add("map", [view], [(view.shape, view.dtype)], fn="cast")[0]
        self._depth[view] = depth
        return view

    # ---- constants

    def constant(self, array: Any, dtype: Any = None) -> Value:
        """Return a value that is part of the program; equal elements become one, broadcast."""
        array = np.asarray(array, dtype)
        if array.size > 1 and is_uniform(array):
            return self.fill(array.flat[0], array.shape, array.dtype)
        if array.ndim == 1 and array.dtype == INDEX and array[:2].tolist() == [0, 1]:
            positions = np.arange(array.size)
            if np.array_equal(array, positions):
                return self.iota(array.shape, 0)
        key = (array.shape, array.dtype.str, array.tobytes())
        found = self._known.get(key)
        if found is None:
            found = self.graph.add("constant", [], [(array.shape, array.dtype)], array=array.copy())
            self._known[key] = found
        return found[0]

    def fill(self, value: Any, shape: Sequence[int], dtype: Any) -> Value:
        """Return an array all of whose elements are `value`."""
        return self.broadcast_to(self.constant(np.asarray(value).astype(dtype)), shape)

    def iota(self, shape: Sequence[int], axis: int) -> Value:
        """Return the positions along an axis, as int64."""
        return self.add("iota", [], [(tuple(shape), INDEX)], axis=axis)[0]

    # ---- elementwise

    def map(self, fn: str, *operands: Value, dtype: Any = None) -> Value:
        """Apply a scalar function to operands of one shape (scalars are broadcast)."""
        shape = max((v.shape for v in operands), key=len)
        values = [self.broadcast_to(v, shape) for v in operands]
        if dtype is None:
            dtype = BOOL if fn in PREDICATES else values[-1].dtype
        folded = self._folded(fn, values)
        if folded is not None:
            return folded
        last = self._all_last(values)
        if last is not None:
            return self.turned(self.map(fn, *last, dtype=dtype))
        return self.add("map", values, [(shape, np.dtype(dtype))], fn=fn)[0]

    def _folded(self, fn: str, values: list[Value]) -> Value | None:
        """Return what an identity of exact arithmetic makes of a call, or None."""
        numbers = [scalar_of(v) for v in values]
        if fn in FOLDED and None not in numbers:
            with np.errstate(all="ignore"):
                number = getattr(np, fn)(*numbers)
            dtype = BOOL if fn in PREDICATES else values[-1].dtype
            return self.fill(number, values[0].shape, dtype)
        if fn in ("add", "subtract") and numbers[1] == 0 and _exact(values[0], numbers[1], fn):
            return values[0]
        if fn == "add" and numbers[0] == 0 and _exact(values[1], numbers[0], fn):
            return values[1]
        if fn in ("multiply", "divide") and numbers[1] == 1:
            return values[0]
        if fn == "multiply" and numbers[0] == 1:
            return values[1]
        if fn == "where" and numbers[0] is not None:
            return values[1] if numbers[0] else values[2]
        if fn == "where" and values[1] is values[2]:
            return values[1]
        if fn in ("logical_and", "logical_or"):
            for known, other in ((0, 1), (1, 0)):
                if numbers[known] is not None:  # False decides "and", True decides "or"
                    return values[known] if bool(numbers[known]) is (fn == "logical_or") else values[other]
        if fn == "negative" and values[0].op is not None and values[0].op.params.get("fn") == "negative":
            return values[0].op.inputs[0]
        return None

    def cast(self, value: Value, dtype: Any) -> Value:
        """Return a value in another dtype."""
        dtype = np.dtype(dtype)
        if value.dtype == dtype:
            return value
        number = scalar_of(value)
        if number is not None:
            return self.fill(number, value.shape, dtype)
        if value.op is not None and value.op.params.get("fn") == "cast":
            source = value.op.operands[0]
            if source.dtype == dtype and _widens(source.dtype, value.dtype):
                return source
        if value in self._turned:
            return self.turned(self.cast(self._turned[value], dtype))
        return self.add("map", [value], [(value.shape, dtype)], fn="cast")[0]

    # ---- windows, whose elements stand first in primitives and are looped over last

    def turned(self, value: Value) -> Value:
        """Return a value with its last axis in front; what is computed of it is computed before that."""
        rank = len(value.shape)
        out = self.transpose(value, (rank - 1, *range(rank - 1)))
        if out is not value:
            self._turned[out] = value
        return out

    def front_last(self, value: Value) -> Value:
        """Return a value with its first axis at the end."""
        return self._turned.get(value) or self.transpose(value, (*range(1, len(value.shape)), 0))

    def _all_last(self, values: Sequence[Value]) -> list[Value] | None:
        """Return operands with their first axes at the end, if one of them is turned and all can be."""
        if not any(v in self._turned for v in values):
            return None
        found = [self._turned.get(v) or self._broadcast_last(v) for v in values]
        return None if None in found else [v for v in found if v is not None]

    def _broadcast_last(self, value: Value) -> Value | None:
        op = value.op
        if op is None or op.name != "broadcast":
            return None
        rank = len(value.shape)
        dims = [(d - 1) % rank for d in op.params["dims"]]
        return self.broadcast(op.operands[0], (*value.shape[1:], value.shape[0]), dims)

    # ---- shape

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Return the elements in another shape."""
        shape = tuple(shape)
        if value.shape == shape:
            return value
        op = value.op
        if op is not None and op.name == "reshape":
            return self.reshape(op.operands[0], shape)
        if op is not None and op.name == "broadcast" and op.operands[0].shape == ():
            return self.broadcast(op.operands[0], shape, ())
        if op is not None and op.name == "broadcast" and _wide(shape) == _wide(value.shape):
            return self._respaced(op, shape)
        return self.add("reshape", [value], [(shape, value.dtype)])[0]

    def _respaced(self, op: Op, shape: tuple[int, ...]) -> Value:
        """Return a broadcast in a shape that has its axes of length 1 elsewhere."""
        source, places = op.operands[0], iter([a for a, n in enumerate(shape) if n != 1])
        now = {a: next(places) for a, n in enumerate(op.out.shape) if n != 1}
        dims = op.params["dims"]
        kept = [n for n, d in zip(source.shape, dims) if d in now]
        return self.broadcast(self.reshape(source, kept), shape, [now[d] for d in dims if d in now])

    def broadcast(self, value: Value, shape: Sequence[int], dims: Sequence[int]) -> Value:
        """Repeat a value along new axes: its axis i is axis ``dims[i]`` of the result."""
        shape, dims = tuple(shape), tuple(dims)
        if shape == value.shape:
            return value
        op = value.op
        if op is not None and op.name == "broadcast":
            return self.broadcast(op.operands[0], shape, [dims[d] for d in op.params["dims"]])
        return self.add("broadcast", [value], [(shape, value.dtype)], dims=dims)[0]

    def broadcast_to(self, value: Value, shape: Sequence[int]) -> Value:
        """Broadcast as NumPy does."""
        shape = tuple(shape)
        if value.shape == shape:
            return value
        lead = len(shape) - len(value.shape)
        kept = [
            i
            for i, n in enumerate(value.shape)
            if n == shape[lead + i] and not (n == 1 and shape[lead + i] != 1)
        ]
        squeezed = self.reshape(value, [value.shape[i] for i in kept])
        return self.broadcast(squeezed, shape, [lead + i for i in kept])

    def transpose(self, value: Value, axes: Sequence[int]) -> Value:
        """Permute the axes."""
        axes = tuple(a % len(value.shape) for a in axes)
        if axes == tuple(range(len(axes))):
            return value
        op = value.op
        if op is not None and op.name == "transpose":
            return self.transpose(op.operands[0], [op.params["axes"][a] for a in axes])
        if op is not None and op.name == "broadcast" and op.operands[0].shape == ():
            return self.broadcast(op.operands[0], [value.shape[a] for a in axes], ())
        return self.add(
            "transpose", [value], [(tuple(value.shape[a] for a in axes), value.dtype)], axes=axes
        )[0]

    def slice(self, value: Value, start: Sequence[int], count: Sequence[int], step: Sequence[int]) -> Value:
        """Return elements ``start + i * step``, `count` of them along each axis."""
        start, count, step = tuple(start), tuple(count), tuple(step)
        if count == value.shape and not any(start) and all(s == 1 or n < 2 for s, n in zip(step, count)):
            return value
        op = value.op
        if op is not None and op.name == "broadcast" and op.operands[0].shape == ():
            return self.broadcast(op.operands[0], count, ())
        return self.add("slice", [value], [(count, value.dtype)], start=start, step=step)[0]

    def flip(self, value: Value, axes: Sequence[int]) -> Value:
        """Reverse the order along some axes."""
        n = value.shape
        start = [n[a] - 1 if a in axes else 0 for a in range(len(n))]
        if not value.size:
            return value
        return self.slice(value, start, n, [-1 if a in axes else 1 for a in range(len(n))])

    def take(self, value: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
        """Return a range along one axis."""
        starts, counts, steps = [0] * len(value.shape), list(value.shape), [1] * len(value.shape)
        starts[axis], counts[axis], steps[axis] = start, max(0, -((start - stop) // step)), step
        return self.slice(value, starts, counts, steps)

    def pad(
        self, value: Value, low: Sequence[int], high: Sequence[int], inner: Sequence[int], fill: Value
    ) -> Value:
        """Put `fill` before, behind and, `inner` times, between the elements along each axis."""
        low, high, inner = tuple(low), tuple(high), tuple(inner)
        if not any((*low, *high, *inner)):
            return value
        shape = tuple(lo + n + max(n - 1, 0) * i + hi for n, lo, hi, i in zip(value.shape, low, high, inner))
        return self.add("pad", [value, fill], [(shape, value.dtype)], low=low, inner=inner)[0]

    def window(
        self, value: Value, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
    ) -> Value:
        """Return all windows over the last axes, in shape ``(*lead, *positions, *kernel)``."""
        lead, sizes = value.shape[: -len(kernel)], value.shape[-len(kernel) :]
        positions = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(sizes, kernel, stride, dilation)]
        shape = (*lead, *positions, *kernel)
        return self.add(
            "window", [value], [(shape, value.dtype)], stride=tuple(stride), dilation=tuple(dilation)
        )[0]

    def fold(
        self, parts: Value, sizes: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
    ) -> Value:
        """Add windows of the shape that `window` has up where they came from, on axes of `sizes`."""
        shape = (*parts.shape[: -2 * len(sizes)], *sizes)
        return self.add(
            "fold", [parts], [(shape, parts.dtype)], stride=tuple(stride), dilation=tuple(dilation)
        )[0]

    def place(
        self,
        parts: Sequence[Value],
        shape: Sequence[int],
        lows: Sequence[Sequence[int]],
        steps: Sequence[Sequence[int]],
        fill: Value,
    ) -> Value:
        """Return an array in memory that holds part j at ``lows[j] + i * steps[j]``, and `fill` elsewhere."""
        return self.add(
            "place",
            [fill, *parts],
            [(tuple(shape), fill.dtype)],
            lows=tuple(map(tuple, lows)),
            steps=tuple(map(tuple, steps)),
        )[0]

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """Join values along an axis."""
        values = [v for v in values if v.shape[axis]] or list(values[:1])
        if len(values) == 1:
            return values[0]
        shape = list(values[0].shape)
        shape[axis] = sum(v.shape[axis] for v in values)
        return self.add("concat", values, [(tuple(shape), values[0].dtype)], axis=axis)[0]

    # ---- complex numbers in memory, where the two parts of each lie side by side

    def part(self, value: Value, which: int) -> Value:
        """Return elements 0 (real parts) or 1 (imaginary ones) along the last axis, which is of length 2."""
        return self.add("part", [value], [(value.shape[:-1], value.dtype)], which=which)[0]

    def interleave(self, re: Value, im: Value) -> Value:
        """Return real and imaginary parts side by side, along a new last axis."""
        ops = [v.op for v in (re, im) if v.op is not None and v.op.name == "part"]
        if [op.params["which"] for op in ops] == [0, 1] and ops[0].inputs == ops[1].inputs:
            return ops[0].operands[0]
        return self.add("interleave", [re, im], [((*re.shape, 2), re.dtype)])[0]

    # ---- reading and writing by position

    def gather(self, value: Value, indices: Sequence[Value], axes: Sequence[int], at: int) -> Value:
        """Read elements at `indices` (arrays of one shape) along `axes`.

        The axes of the indices stand at position `at` among the other axes of `value`.
        """
        rest = [n for a, n in enumerate(value.shape) if a not in axes]
        shape = (*rest[:at], *indices[0].shape, *rest[at:])
        return self.add("gather", [value, *indices], [(shape, value.dtype)], axes=tuple(axes), at=at)[0]

    def scatter(
        self, value: Value, updates: Value, indices: Sequence[Value], axes: Sequence[int], at: int, kind: str
    ) -> Value:
        """Add `updates` (as `gather` would read them) to a copy of `value`, or write them ("set")."""
        if kind in ("add", "multiply") and value.dtype == np.float16:  # whose sums would stall
            wide, added = (self.cast(v, np.float32) for v in (value, updates))
            return self.cast(self.scatter(wide, added, indices, axes, at, kind), np.float16)
        return self.add(
            "scatter",
            [value, updates, *indices],
            [(value.shape, value.dtype)],
            axes=tuple(axes),
            at=at,
            kind=kind,
        )[0]

    def require(self, broken: Value, message: str) -> None:
        """Let the program end with an error where a value is true."""
        key = ("require", id(broken), message)
        if key not in self._known:
            self._known[key] = self.graph.add("require", [broken], [], message=message)

    # ---- reductions and contractions

    def reduce(self, kind: str, value: Value, axes: Sequence[int], keepdims: bool = False) -> Value:
        """Reduce over `axes` with "sum", "prod", "max", "min", "and" or "or"."""
        axes = tuple(sorted(a % len(value.shape) for a in axes))
        shape = tuple(n for a, n in enumerate(value.shape) if a not in axes)
        if axes == (0,) and value in self._turned:
            out = self.reduce(kind, self._turned[value], (-1,))
            return self.reshape(out, (1, *shape)) if keepdims else out
        out = value
        if not value.size:
            out = self.fill({"prod": 1, "and": True}.get(kind, 0), shape, value.dtype)
        elif math.prod(value.shape[a] for a in axes) == 1:
            out = self.reshape(value, shape)
            if kind == "sum":
                out = self._summed(out)
        elif axes:
            known = self._sum_of_product(value, axes) if kind == "sum" else None
            out = known or self.add("reduce", [value], [(shape, value.dtype)], kind=kind, axes=axes)[0]
        if keepdims:
            out = self.reshape(out, [1 if a in axes else n for a, n in enumerate(value.shape)])
        return out

    def _summed(self, term: Value) -> Value:
        """Return a sum of one term: it begins with 0, so that none is a negative zero."""
        return self.map("add", term, self.constant(0.0, term.dtype)) if term.dtype.kind == "f" else term

    def _sum_of_product(self, value: Value, axes: Sequence[int]) -> Value | None:
        """Return the sum over rows or columns of a matrix product as a product of such sums; else None."""
        op, rank = value.op, len(value.shape)
        if op is not None and op.params.get("fn") == "negative":
            total = self._sum_of_product(op.operands[0], axes)
            return None if total is None else self.map("negative", total)
        summed = [a in axes and value.shape[a] > 1 for a in (rank - 2, rank - 1)]
        if op is None or op.name != "dot" or not any(summed):
            return None
        factors = [
            self.reduce("sum", factor, (axis,), keepdims=True) if short else factor
            for factor, axis, short in zip(op.operands, (rank - 2, rank - 1), summed)
        ]
        return self.reduce("sum", self.dot(*factors), axes)

    def argreduce(self, kind: str, value: Value, axis: int) -> Value:
        """Return the first position of the "max" or "min" along an axis."""
        shape = tuple(n for a, n in enumerate(value.shape) if a != axis)
        return self.add("argreduce", [value], [(shape, INDEX)], kind=kind, axis=axis)[0]

    def accumulate(
        self, kind: str, values: Sequence[Value], axis: int, reverse: bool = False, halves: bool = False
    ) -> Value:
        """Return what runs along an axis: the "sum", "prod", "max" or "min" so far, or a recurrence.

        "absorbing" is a product in which a zero wins over infinities. "linear" takes what is added and what
        is multiplied by: ``r[i] = values[1][i] * r[i - 1] + values[0][i]``, with such a product.
        With `halves` each step is rounded to float16.
        """
        spec = (values[0].shape, values[0].dtype)
        params = {"kind": kind, "axis": axis, "reverse": reverse, "halves": halves}
        return self.add("accumulate", values, [spec], **params)[0]

    def dot(self, a: Value, b: Value) -> Value:
        """Return the matrix product of ``(*batch, m, k)`` and ``(*batch, k, n)``.

        Products with a vector are sums of products, which fuse with their surroundings.
        """
        shape = (*a.shape[:-1], b.shape[-1])
        rank, depth = len(shape), a.shape[-1]
        if not depth:
            return self.fill(0, shape, a.dtype)
        if depth == 1:
            terms = self.map("multiply", self.broadcast_to(a, shape), self.broadcast_to(b, shape))
            return self._summed(terms)
        if b.shape[-1] == 1 and depth > SMALL:
            row = self.reshape(b, (*shape[:-2], 1, depth))
            products = self.map("multiply", a, self.broadcast_to(row, a.shape))
            return self.reduce("sum", products, (rank - 1,), keepdims=True)
        if a.shape[-2] == 1 and depth > SMALL:
            column = self.reshape(a, (*shape[:-2], depth, 1))
            products = self.map("multiply", b, self.broadcast_to(column, b.shape))
            return self.reduce("sum", products, (rank - 2,), keepdims=True)
        if a.dtype.kind != "f" and depth > SMALL:  # BLAS has no integers
            spread = (*shape[:-1], depth, shape[-1])
            left = self.broadcast(a, spread, [*range(rank - 1), rank - 1])
            right = self.broadcast(b, spread, [*range(rank - 2), rank - 1, rank])
            return self.reduce("sum", self.map("multiply", left, right), (rank - 1,))
        return self.add("dot", [a, b], [(shape, a.dtype)])[0]


def _wide(shape: Sequence[int]) -> list[int]:
    """Return the lengths of the axes that are not of length 1."""
    return [n for n in shape if n != 1]


def scalar_of(value: Value) -> Any:
    """Return the one number that a constant holds (broadcast or not), or None."""
    op = value.op
    while op is not None and op.name in ("broadcast", "reshape"):
        op = op.operands[0].op
    if op is None or op.name != "constant" or op.params["array"].size != 1:
        return None
    return op.params["array"].reshape(())[()]


def _exact(value: Value, number: Any, fn: str) -> bool:
    """Whether adding (subtracting) this zero changes nothing: -0.0 + 0.0 would become 0.0."""
    return value.dtype.kind not in "fc" or bool(np.signbit(number)) == (fn == "add")


def is_uniform(array: Any) -> bool:
    flat = array.reshape(-1)
    return (
        bool((flat.view(f"V{array.itemsize}") == flat[:1].view(f"V{array.itemsize}")).all())
        if (array.flags.c_contiguous)
        else False
    )


def frozen(params: Any) -> Any:
    if isinstance(params, dict):
        return tuple((k, frozen(v)) for k, v in sorted(params.items()))
    if isinstance(params, (list, tuple)):
        return tuple(map(frozen, params))
    if isinstance(params, np.ndarray):
        return (params.shape, params.dtype.str, params.tobytes())
    if isinstance(params, slice):
        return ("slice", params.start, params.stop, params.step)
    try:
        hash(params)
    except TypeError:
        return id(params)
    return typed(params)


def _widens(narrow: Any, wide: Any) -> bool:
    """Whether floats keep their values in another dtype, so that the way back is exact."""
    return narrow.kind == wide.kind == "f" and narrow.itemsize < wide.itemsize
