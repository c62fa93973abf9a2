"""What lgamma and digamma share: sums and logarithms of pairs, sines of half turns, series about zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everyo.compiler.elementary import coefficients as c
from everyo.compiler.elementary.arithmetic import Pair, add, fast_two_sum, multiply, two_product, two_sum
from everyo.compiler.elementary.builder import Code, Value, floor, fma, polynomial, rint, select
from everyo.compiler.elementary.logarithm import log_pair, split_any


def constant(x: Value, numbers: tuple[float, ...]) -> Pair:
    return Pair(x.like(numbers[0]), x.like(numbers[1]))


def single(x: Value) -> Pair:
    """Return `x` as a pair."""
    return Pair(x, x.like(0))


def plus(x: Pair, number: float) -> Pair:
    """Return ``x + number``."""
    high, low = two_sum(x.high, number)
    return Pair(high, low + x.low)


def choose(condition: Value, x: Pair, y: Pair) -> Pair:
    return Pair(select(condition, x.high, y.high), select(condition, x.low, y.low))


def negated(x: Pair) -> Pair:
    return Pair(-x.high, -x.low)


def log_of(x: Pair) -> Pair:
    """Return log x to about 62 bits."""
    log = log_pair(*split_any(x.high))
    return Pair(log.high, log.low + x.low / x.high)


def near_turn(size: Value) -> tuple[Value, Pair]:
    """Return q and r with ``pi size = q pi / 2 + r``, ``|r| <= pi / 4``; q as a float, modulo 4."""
    doubled = 2 * size
    q = rint(doubled)
    fraction = 0.5 * (doubled - q)
    r = multiply(single(fraction), constant(size, c.PI))
    return q - 4 * floor(0.25 * q), Pair(*fast_two_sum(*r))


def _accurate_sine(r: Pair) -> Pair:
    w = multiply(r, r)
    series = fast_two_sum(r.high.like(c.MINUS_SIXTH[0]), w.high * polynomial(w.high, c.SIN_PAIR))
    term = multiply(multiply(w, r), Pair(series.high, series.low + c.MINUS_SIXTH[1]))
    return add(r, term)


def _accurate_cosine(r: Pair) -> Pair:
    w = multiply(r, r)
    series = fast_two_sum(w.high.like(c.TWENTY_FOURTH[0]), w.high * polynomial(w.high, c.COS_PAIR))
    term = multiply(multiply(w, w), Pair(series.high, series.low + c.TWENTY_FOURTH[1]))
    high, low = fast_two_sum(w.high.like(1), -0.5 * w.high)
    return add(Pair(high, fma(w.low, -0.5, low)), term)


def sine_and_cosine(size: Value) -> tuple[Pair, Pair]:
    """Return ``|sin(pi size)|`` and ``cos(pi size)`` with the sign of the quotient of both, to 60 bits."""
    q, r = near_turn(size)
    sine, cosine = _accurate_sine(r), _accurate_cosine(r)
    odd = q.equals(1) | q.equals(3)
    below, above = choose(odd, cosine, sine), choose(odd, negated(sine), cosine)
    negative = below.high < 0
    return choose(negative, negated(below), below), choose(negative, negated(above), above)


def total_of(*terms: Pair) -> Pair:
    """Return the sum, in any order of sizes."""
    total = terms[0]
    for term in terms[1:]:
        high, low = two_sum(total.high, term.high)
        total = Pair(*fast_two_sum(high, low + (total.low + term.low)))
    return total


def pair_polynomial(x: Pair, name: str, numbers: Sequence[float]) -> Pair:
    """Return a polynomial with all in pairs, by a loop over a table: slow, for scalar code."""
    code, function = x.high.code, "@eo.pair_polynomial"
    if function not in code.globals:
        code.globals[function] = _pair_polynomial(code)
    table = code.table(name, numbers)
    arguments = f"ptr {table}, i64 {len(numbers) // 2}, double {x.high.name}, double {x.low.name}"
    both = code.emit(f"call {{double, double}} {function}({arguments})", "pair")
    high, low = (code.emit(f"extractvalue {{double, double}} {both.name}, {i}", "double") for i in range(2))
    return Pair(high, low)


def _pair_polynomial(caller: Code) -> str:
    code = Code()
    place = Value(code, "i64", "%next") << 1
    coefficient = Pair(code.load("%table", place), code.load("%table", place + 1))
    total, x = (Pair(*(Value(code, "double", f"%{n}{part}") for part in ("high", "low"))) for n in ("t", "x"))
    result = total_of(multiply(total, x), coefficient)
    caller.declared |= code.declared
    return "\n".join(
        [
            "define internal {double, double} @eo.pair_polynomial(",
            "    ptr %table, i64 %count, double %xhigh, double %xlow) noinline nounwind willreturn {",
            "entry:",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ %count, %entry ], [ %next, %loop ]",
            f"  %thigh = phi double [ 0.0, %entry ], [ {result.high.name}, %loop ]",
            f"  %tlow = phi double [ 0.0, %entry ], [ {result.low.name}, %loop ]",
            "  %next = sub i64 %i, 1",
            *code.lines,
            "  %more = icmp sgt i64 %next, 0",
            "  br i1 %more, label %loop, label %exit",
            "exit:",
            f"  %first = insertvalue {{double, double}} undef, double {result.high.name}, 0",
            f"  %both = insertvalue {{double, double}} %first, double {result.low.name}, 1",
            "  ret {double, double} %both",
            "}",
        ]
    )


def from_table(name: str, rows: Sequence[Sequence[float]], row: Value, x: Value) -> Value:
    """Return the power series about the zero in the given row, which begins with that in two parts."""
    width = len(rows[0])
    row = select(row < 0, 0, select(row > len(rows) - 1, len(rows) - 1, row))
    table = x.code.table(name, [number for numbers in rows for number in numbers])
    return series_about([x.code.load(table, row * width + i) for i in range(width)], x)


def series_about(numbers: Sequence[Any], x: Value) -> Value:
    """Return a power series: `numbers` are a zero and the slope there in two parts each, and the rest."""
    high, low, slope, slope_low, *rest = map(x.like, numbers)
    distance, distance_low = fast_two_sum(x - high, -low)
    total = rest[-1]
    for coefficient in reversed(rest[:-1]):
        total = fma(total, distance, coefficient)
    main, main_low = two_product(distance, slope)
    return main + (main_low + fma(distance_low, slope, distance * fma(total, distance, slope_low)))
