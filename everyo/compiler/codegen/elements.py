"""Elements of values: what one of them is, computed from elements of what the value is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from everyo.compiler.codegen import scalar
from everyo.compiler.codegen.text import Function, Index, literal, type_of
from everyo.compiler.graph import Op, Value

IDENTITY = {"sum": 0.0, "prod": 1, "and": True, "or": False}


class Flat(tuple[Index, ...]):
    """The position of an element in row-major order, in place of its indices."""


class Elements:
    """Writes elements of values into a function.

    A subclass says where values are kept: `stored` returns an element that is in memory, or None where
    it must be computed.
    """

    def __init__(self, f: Function) -> None:
        self.f = f

    def stored(self, value: Value, idx: Sequence[Index]) -> str | None:
        """Return an element that is in memory or in a register, or None."""
        raise NotImplementedError

    def table(self, value: Value) -> str:
        """Return the pointer to the elements of a constant array."""
        raise NotImplementedError

    def element(self, value: Value, idx: Sequence[Index]) -> str:
        """Return one element of a value; within a block it is written once."""
        if not value.size:  # no element is there to be read: this code never runs
            return literal(0, value.dtype)
        key = (value, tuple(idx), type(idx) is Flat)
        found = self.f.recall(key)
        if found is None:
            found = self.stored(value, idx)
            if found is None:
                found = self.computed(value, idx)
            self.f.remember(key, found)
        return found

    def offset(self, value: Value, idx: Sequence[Index]) -> Index:
        """Return the position of an element in row-major order."""
        return idx[0] if type(idx) is Flat else self.f.flat(idx, value.shape)

    def computed(self, value: Value, idx: Sequence[Index]) -> str:
        """Write the computation of an element."""
        op = value.op
        assert op is not None
        rule: Any = getattr(self, f"_{op.name}")
        return rule(op, idx)

    # ---- one rule for each operation

    def _constant(self, op: Op, idx: Sequence[Index]) -> str:
        array = op.params["array"]
        if array.size == 1:
            return literal(array.reshape(())[()], array.dtype)
        offset = self.offset(op.out, idx)
        if isinstance(offset, int):
            return literal(array.reshape(-1)[offset], array.dtype)
        return self.f.load(self.table(op.out), offset, array.dtype)

    def _iota(self, op: Op, idx: Sequence[Index]) -> str:
        if type(idx) is Flat:
            idx = self.f.unflat(idx[0], op.out.shape)
        return str(idx[op.params["axis"]])

    def _map(self, op: Op, idx: Sequence[Index]) -> str:
        operands = [self.element(v, idx) for v in op.operands]
        source, apart = op.operands[-1].dtype, "apart" in op.params
        return scalar.apply(self.f, op.params["fn"], operands, source, op.out.dtype, apart)

    _again = _map

    def beside(self, idx: Sequence[Index], which: int) -> Sequence[Index]:
        """Return the position of one part of an element, where two lie side by side."""
        if type(idx) is Flat:
            return Flat([self.f.add(self.f.mul(idx[0], 2), which)])
        return [*idx, which]

    def _part(self, op: Op, idx: Sequence[Index]) -> str:
        return self.element(op.operands[0], self.beside(idx, op.params["which"]))

    def _interleave(self, op: Op, idx: Sequence[Index]) -> str:
        *inside, which = idx  # an axis of length 2 is written out
        return self.element(op.operands[int(which)], inside)

    def _broadcast(self, op: Op, idx: Sequence[Index]) -> str:
        source = op.operands[0]
        if not source.shape:
            return self.element(source, ())
        return self.element(source, [idx[d] for d in op.params["dims"]])

    def _reshape(self, op: Op, idx: Sequence[Index]) -> str:
        source = op.operands[0]
        if type(idx) is Flat:
            return self.element(source, idx)
        return self.element(source, self._reshaped(idx, op.out.shape, source.shape))

    def _reshaped(self, idx: Sequence[Index], old: Sequence[int], new: Sequence[int]) -> list[Index]:
        """Return the indices in shape `new` of the element that has `idx` in shape `old`."""
        if 0 in old:
            return [0] * len(new)
        found: list[Index] = []
        i = j = 0
        while i < len(old) or j < len(new):
            start_i, start_j = i, j
            a = old[i] if i < len(old) else 1
            b = new[j] if j < len(new) else 1
            i, j = min(i + 1, len(old)), min(j + 1, len(new))
            while a != b:
                if a < b:
                    a *= old[i]
                    i += 1
                else:
                    b *= new[j]
                    j += 1
            if (i, j) == (start_i, start_j):
                break
            flat = self.f.flat(idx[start_i:i], old[start_i:i])
            found += self.f.unflat(flat, new[start_j:j]) if j > start_j else []
        return found

    def _transpose(self, op: Op, idx: Sequence[Index]) -> str:
        inside: list[Index] = [0] * len(idx)
        for i, axis in zip(idx, op.params["axes"]):
            inside[axis] = i
        return self.element(op.operands[0], inside)

    def _slice(self, op: Op, idx: Sequence[Index]) -> str:
        f = self.f
        moved = [f.add(f.mul(i, s), o) for i, o, s in zip(idx, op.params["start"], op.params["step"])]
        return self.element(op.operands[0], moved)

    def _pad(self, op: Op, idx: Sequence[Index]) -> str:
        f, source = self.f, op.operands[0]
        inside, conditions = [], []
        for i, low, inner, n in zip(idx, op.params["low"], op.params["inner"], source.shape):
            position = f.sub(i, low)
            if isinstance(position, int):
                if position < 0 or position % (inner + 1) or position // (inner + 1) >= n:
                    return self.element(op.operands[1], ())
                inside.append(position // (inner + 1))
                continue
            if inner:
                conditions.append(f.pure(f"icmp eq i64 {f.pure(f'srem i64 {position}, {inner + 1}')}, 0"))
                position = f.pure(f"sdiv i64 {position}, {inner + 1}")
            within = f.lies(position, n)
            if within is False:
                return self.element(op.operands[1], ())
            if within is None:
                conditions.append(f.pure(f"icmp ult i64 {position}, {n}"))
            inside.append(position)
        fill = self.element(op.operands[1], ())
        if not source.size:
            return fill
        if not conditions:
            return self.element(source, inside)
        condition = conditions[0]
        for other in conditions[1:]:
            condition = f.pure(f"and i1 {condition}, {other}")
        safe = [
            i if isinstance(i, int) or n == 0 else f.pure(f"select i1 {condition}, i64 {i}, i64 0")
            for i, n in zip(inside, source.shape)
        ]
        return scalar.select(f, condition, self.element(source, safe), fill, op.out.dtype)

    def _concat(self, op: Op, idx: Sequence[Index]) -> str:
        f, axis = self.f, op.params["axis"]
        position, start = idx[axis], 0
        result: str | None = None
        ends = list(np.cumsum([v.shape[axis] for v in op.operands]))
        for value, end in zip(reversed(op.operands), reversed(ends)):
            start = int(end) - value.shape[axis]
            if isinstance(position, int):
                if start <= position < end:
                    return self.element(value, [*idx[:axis], position - start, *idx[axis + 1 :]])
                continue
            local = f.sub(position, start)
            within = f.lies(local, value.shape[axis])
            if within:
                return self.element(value, [*idx[:axis], local, *idx[axis + 1 :]])
            if within is False:
                continue
            inside = f.pure(f"icmp ult i64 {local}, {value.shape[axis]}")
            safe = f.pure(f"select i1 {inside}, i64 {local}, i64 0")
            x = self.element(value, [*idx[:axis], safe, *idx[axis + 1 :]])
            result = x if result is None else scalar.select(f, inside, x, result, op.out.dtype)
        assert result is not None
        return result

    def _gather(self, op: Op, idx: Sequence[Index]) -> str:
        source, indices = op.operands[0], op.operands[1:]
        at, rank = op.params["at"], len(indices[0].shape)
        own = idx[at : at + rank]
        rest = iter([*idx[:at], *idx[at + rank :]])
        chosen = dict(zip(op.params["axes"], indices))
        inside = [self.index(chosen[a], own) if a in chosen else next(rest) for a in range(len(source.shape))]
        return self.element(source, inside)

    def _window(self, op: Op, idx: Sequence[Index]) -> str:
        f, rank = self.f, len(op.params["stride"])
        lead, positions, offsets = idx[: -2 * rank], idx[-2 * rank : -rank], idx[-rank:]
        moves = zip(positions, op.params["stride"], offsets, op.params["dilation"])
        inside = [f.add(f.mul(p, s), f.mul(k, d)) for p, s, k, d in moves]
        return self.element(op.operands[0], [*lead, *inside])

    def index(self, value: Value, idx: Sequence[Index]) -> Index:
        """Return an element of an integer value as an index."""
        found = self.element(value, idx)
        return int(found) if not found.startswith("%") else found

    def _dot(self, op: Op, idx: Sequence[Index]) -> str:
        a, b = op.operands
        *batch, i, j = idx
        kind, total = type_of(op.out.dtype), identity("sum", op.out.dtype)
        times, plus = scalar.products_of(op.out.dtype)
        for k in range(a.shape[-1]):
            x, y = self.element(a, [*batch, i, k]), self.element(b, [*batch, k, j])
            product = self.f.pure(f"{times} {kind} {x}, {y}")
            total = self.f.pure(f"{plus} {kind} {total}, {product}")
        return total

    def _reduce(self, op: Op, idx: Sequence[Index]) -> str:
        """A reduction that is written out."""
        value, axes = op.operands[0], op.params["axes"]
        kind, dtype = op.params["kind"], op.out.dtype
        total = identity(kind, dtype)
        for inner in np.ndindex(*(value.shape[a] for a in axes)):
            x = self.element(value, inserted(idx, axes, inner))
            total = combine(self.f, kind, total, x, dtype, apart=True)
        return total

    def _argreduce(self, op: Op, idx: Sequence[Index]) -> str:
        value, axis = op.operands[0], op.params["axis"]
        best = self.element(value, inserted(idx, (axis,), (0,)))
        position = "0"
        for i in range(1, value.shape[axis]):
            x = self.element(value, inserted(idx, (axis,), (i,)))
            better = beats(self.f, op.params["kind"], x, best, value.dtype)
            position = self.f.pure(f"select i1 {better}, i64 {i}, i64 {position}")
            best = scalar.select(self.f, better, x, best, value.dtype)
        return position


def inserted(idx: Sequence[Index], axes: Sequence[int], inner: Sequence[Index]) -> list[Index]:
    """Return indices of the operand of a reduction from those of its result and those it reduces over."""
    outer, reduced = iter(idx), dict(zip(axes, inner))
    return [reduced[a] if a in reduced else next(outer) for a in range(len(idx) + len(axes))]


def identity(kind: str, dtype: Any) -> str:
    """Return what a reduction begins with."""
    dtype = np.dtype(dtype)
    if kind in ("max", "min"):
        if dtype.kind == "f":
            return literal(-math.inf if kind == "max" else math.inf, dtype)
        if dtype.kind == "b":
            return literal(kind == "min", dtype)
        limits = np.iinfo(dtype)
        return str(limits.min if kind == "max" else limits.max)
    return literal(IDENTITY[kind], dtype)


def combine(
    f: Function, kind: str, a: str, b: str, dtype: Any, reorder: bool = False, apart: bool = False
) -> str:
    """Return one step of a reduction; `reorder` allows a sum to be taken in lanes.

    A product is taken in order: what swings between large and small factors would overflow in some lanes.

    With `apart` a product that is added is rounded first.
    """
    dtype = np.dtype(dtype)
    type, flags = type_of(dtype), "" if apart else "contract "
    make = f.make if reorder else f.pure
    match kind, dtype.kind:
        case "sum", "f":
            return make(f"fadd {'reassoc ' if reorder else ''}{flags}{type} {a}, {b}")
        case "prod", "f":
            return make(f"fmul {flags}{type} {a}, {b}")
        case (("max" | "min"), "f"):
            return scalar.intrinsic(f, "maximum" if kind == "max" else "minimum", dtype, a, b)
        case (("max" | "min"), _):
            return scalar.apply(f, kind + "imum", [a, b], dtype, dtype)
        case ("and", _) | ("prod", "b"):
            return f.pure(f"and i1 {a}, {b}")
        case ("or", _) | ("sum", "b"):
            return f.pure(f"or i1 {a}, {b}")
        case _:
            return f.pure(f"{'add' if kind == 'sum' else 'mul'} {type} {a}, {b}")


def beats(f: Function, kind: str, x: str, best: str, dtype: Any) -> str:
    """Whether an element takes the place of the best one so far; the first NaN does."""
    dtype = np.dtype(dtype)
    better = scalar.compare(f, "greater" if kind == "max" else "less", x, best, dtype)
    if dtype.kind != "f":
        return better
    type = type_of(dtype)
    nan, sound = f.pure(f"fcmp uno {type} {x}, {x}"), f.pure(f"fcmp ord {type} {best}, {best}")
    return f.pure(f"or i1 {better}, {f.pure(f'and i1 {nan}, {sound}')}")
