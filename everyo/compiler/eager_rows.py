"""Kernels for eager code that take rows: sums, the softmax family and what its derivatives ask for.

Each is a function that writes one turn of the loop over rows. A row is read two or three times, and lies in
the cache meanwhile; sums are taken in float64, in the lanes of vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from everyo.compiler.codegen import scalar
from everyo.compiler.codegen.elements import combine, identity
from everyo.compiler.codegen.text import Function, Index, literal, memory_type, type_of
from everyo.compiler.eager import Body, Oddity, body_of

DOUBLE = np.dtype(np.float64)


class Row:
    """One row of a kernel: its elements, and what is computed of all of them."""

    def __init__(self, f: Function, dtype: Any, turn: Index, oddity: Oddity) -> None:
        self.f, self.dtype, self.turn, self.oddity = f, dtype, turn, oddity
        self.start = f.mul(turn, "%length")

    def read(self, operand: int, i: Index) -> str:
        """Return an element of an operand."""
        return self.f.load(f"%p{operand}", self.f.add(self.start, i), self.dtype, fixed=False)

    def total(self, term: Callable[[Index], str]) -> str:
        """Return the sum of terms over the row, in their dtype; it is added up in float64."""
        return self.narrowed(self.wide(term))

    def narrowed(self, x: str) -> str:
        """Return a float64 as the elements' dtype."""
        return x if self.dtype == DOUBLE else self.f.make(f"fptrunc double {x} to float")

    def wide(self, term: Callable[[Index], str]) -> str:
        """Return what `total` does, as it was added up."""
        f = self.f
        place = f.alloca(memory_type(DOUBLE))
        f.store(identity("sum", DOUBLE), place, 0, DOUBLE)
        with f.loop(0, "%length") as i:
            x = term(i)
            if self.dtype != DOUBLE:
                x = f.make(f"fpext float {x} to double")
            before = f.load(place, 0, DOUBLE, fixed=False)
            f.store(combine(f, "sum", before, x, DOUBLE, reorder=True), place, 0, DOUBLE)
        return f.load(place, 0, DOUBLE, fixed=False)

    def largest(self) -> str:
        """Return the largest element of the first operand; NaN, or any of them, where there is a NaN.

        They are compared as integers of the same order: three instructions, of six for what propagates NaN.
        What is then computed of a NaN is NaN, and will be noticed.
        """
        f, kind = self.f, type_of(self.dtype)
        size = 8 * self.dtype.itemsize
        integer, most = f"i{size}", (1 << (size - 1)) - 1
        f.declares.add(f"declare {integer} @llvm.smax.{integer}({integer}, {integer})")

        def turned(bits: str) -> str:
            """Exchange bits of negative floats and the integers in their order."""
            sign = f.make(f"ashr {integer} {bits}, {size - 1}")
            return f.make(f"xor {integer} {bits}, {f.make(f'and {integer} {sign}, {most}')}")

        place = f.alloca(integer)
        f.line(f"store {integer} {-most - 1}, ptr {place}")
        with f.loop(0, "%length") as i:
            x = turned(f.make(f"bitcast {kind} {self.read(0, i)} to {integer}"))
            before = f.make(f"load {integer}, ptr {place}")
            larger = f.make(f"call {integer} @llvm.smax.{integer}({integer} {before}, {integer} {x})")
            f.line(f"store {integer} {larger}, ptr {place}")
        found = turned(f.make(f"load {integer}, ptr {place}"))
        return f.make(f"bitcast {integer} {found} to {kind}")

    def write(self, place: int, term: Callable[[Index], str]) -> None:
        """Write a row of results."""
        with self.f.loop(0, "%length") as i:
            x = term(i)
            self.oddity.look(x)
            self.f.store(x, f"%p{place}", self.f.add(self.start, i), self.dtype)

    def write_one(self, place: int, x: str, dtype: Any) -> None:
        """Write the one result of a row."""
        self.oddity.look(x, dtype)
        self.f.store(x, f"%p{place}", self.turn, dtype)

    def apply(self, fn: str, *operands: str) -> str:
        """Return a scalar function of elements."""
        return scalar.apply(self.f, fn, operands, self.dtype, self.dtype)

    def exp_below(self, top: str) -> Callable[[Index], str]:
        """Return the exponentials of elements of the first operand, taken from the largest of the row."""
        return lambda i: self.apply("exp", self.apply("subtract", self.read(0, i), top))

    def log_total(self, top: str) -> str:
        """Return the logarithm of the sum of these, with all digits where it is near 0."""
        f = self.f
        zero, one = literal(0, self.dtype), literal(1, self.dtype)
        weight = self.exp_below(top)

        def is_largest(i: Index) -> str:
            return self.apply("equal", self.read(0, i), top)

        others = self.wide(lambda i: self.apply("where", is_largest(i), zero, weight(i)))
        count = self.wide(lambda i: self.apply("where", is_largest(i), one, zero))
        excess = f.make(f"fadd double {others}, {f.make(f'fsub double {count}, {literal(1, DOUBLE)}')}")
        return self.narrowed(scalar.apply(f, "log1p", (excess,), DOUBLE, DOUBLE))


def _softmax(row: Row) -> None:
    top = row.largest()
    weight = row.exp_below(top)

    def keep(i: Index) -> str:
        x = weight(i)
        row.f.store(x, "%p1", row.f.add(row.start, i), row.dtype)
        return x

    total = row.total(keep)
    inverse = row.apply("divide", literal(1, row.dtype), total)  # dividing each costs as much as all the rest
    row.write(1, lambda i: row.apply("multiply", row.read(1, i), inverse))


def _log_softmax(row: Row) -> None:
    top = row.largest()
    total = row.log_total(top)
    row.write(1, lambda i: row.apply("subtract", row.apply("subtract", row.read(0, i), top), total))


def _logsumexp(row: Row) -> None:
    top = row.largest()
    row.write_one(1, row.apply("add", row.log_total(top), top), row.dtype)


def _softmax_slope(row: Row) -> None:
    """``out * (g - sum(g * out))``."""
    inner = row.total(lambda i: row.apply("multiply", row.read(0, i), row.read(1, i)))
    row.write(
        2, lambda i: row.apply("multiply", row.read(1, i), row.apply("subtract", row.read(0, i), inner))
    )


def _log_softmax_slope(row: Row) -> None:
    """``g - exp(out) * sum(g)``."""
    total = row.total(lambda i: row.read(0, i))

    def element(i: Index) -> str:
        share = row.apply("multiply", row.apply("exp", row.read(1, i)), total)
        return row.apply("subtract", row.read(0, i), share)

    row.write(2, element)


def _scale(row: Row, operand: int, eps: float) -> tuple[str, str]:
    """Return the mean of an operand's row, and one over its spread, the variance and `eps` together."""
    f, dtype = row.f, row.dtype
    length = f.make("sitofp i64 %length to double")
    mean = row.narrowed(f.make(f"fdiv double {row.wide(lambda i: row.read(operand, i))}, {length}"))

    def square(i: Index) -> str:
        d = row.apply("subtract", row.read(operand, i), mean)
        return row.apply("multiply", d, d)

    spread = f.make(f"fdiv double {row.wide(square)}, {length}")
    spread = row.narrowed(f.make(f"fadd double {spread}, {literal(eps, DOUBLE)}"))
    return mean, row.apply("divide", literal(1, dtype), row.apply("sqrt", spread))


def _standardize(row: Row, eps: float) -> None:
    mean, scale = _scale(row, 0, eps)
    row.write(1, lambda i: row.apply("multiply", row.apply("subtract", row.read(0, i), mean), scale))


def _standardize_slope(row: Row, eps: float) -> None:
    """``scale * (g - mean(g) - out * mean(g * out))``; the operands are g, out, x."""
    f = row.f
    length = f.make("sitofp i64 %length to double")
    shift = row.wide(lambda i: row.read(0, i))
    share = row.wide(lambda i: row.apply("multiply", row.read(0, i), row.read(1, i)))
    shift, share = (row.narrowed(f.make(f"fdiv double {x}, {length}")) for x in (shift, share))
    _, scale = _scale(row, 2, eps)

    def element(i: Index) -> str:
        rest = row.apply(
            "subtract",
            row.apply("subtract", row.read(0, i), shift),
            row.apply("multiply", row.read(1, i), share),
        )
        return row.apply("multiply", rest, scale)

    row.write(3, element)


def _sum(row: Row) -> None:
    row.write_one(1, row.wide(lambda i: row.read(0, i)), DOUBLE)


_KERNELS: dict[str, tuple[Callable[..., None], int]] = {
    "softmax": (_softmax, 1),
    "log_softmax": (_log_softmax, 1),
    "logsumexp": (_logsumexp, 1),
    "softmax slope": (_softmax_slope, 2),
    "log_softmax slope": (_log_softmax_slope, 2),
    "standardize": (_standardize, 1),
    "standardize slope": (_standardize_slope, 3),
    "sum": (_sum, 1),
}
ONE_A_ROW = {"logsumexp", "sum"}  # kernels that make one number of a row


def write(named: Any, dtype: Any) -> Body:
    """Return the body of a kernel, named with the numbers that it takes, if any; a sum is float64."""
    name, *numbers = (named,) if isinstance(named, str) else named
    rule, count = _KERNELS[name]
    f = body_of(count + 1)
    oddity = Oddity(f, dtype)
    with f.loop("%low", "%high") as turn:
        rule(Row(f, dtype, turn, oddity), *numbers)
    oddity.answer()
    return Body(f, count + 1, name in ONE_A_ROW, DOUBLE if name == "sum" else dtype)
