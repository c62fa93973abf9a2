"""Compute the coefficients of everyo/compiler/elementary/coefficients.py and write that file.

Each polynomial is the best one in the sense of the largest weighted error (Remez' exchange), found with
mpmath. The coefficients are rounded to the working precision one after the other, the ones that matter most
first, and the remaining ones are fitted again after each: the later make up for the rounding of the earlier.

    python tools/elementary_coefficients.py
"""

from __future__ import annotations

import struct
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import mpmath as mp

mp.mp.dps = 60
TARGET = Path(__file__).parent.parent / "everyo" / "compiler" / "elementary" / "coefficients.py"
Function = Callable[[mp.mpf], mp.mpf]


def rounded(x: mp.mpf, bits: int) -> float:
    """Return the nearest double, or the nearest 32-bit float."""
    return float(x) if bits == 53 else struct.unpack("<f", struct.pack("<f", float(x)))[0]


def remez(f: Function, weight: Function, a: float, b: float, powers: Sequence[int]) -> tuple[list, mp.mpf]:
    """Return c and the largest ``|weight * (f - sum(c x**powers))|`` on [a, b], made as small as possible."""
    n = len(powers)
    a, b = mp.mpf(a), mp.mpf(b)
    middle, half = (a + b) / 2, (b - a) / 2
    size = 24 * (n + 1)  # even, with no point at the ends or in the middle, where a weight may vanish
    grid = [middle - half * mp.cos(mp.pi * (i + mp.mpf(1) / 2) / size) for i in range(size)]
    values = [(f(x), weight(x)) for x in grid]
    points = [round((size - 1) * i / n) for i in range(n + 1)]
    coefficients: list = []
    worst = mp.mpf(0)
    for _ in range(30):
        rows, right = mp.matrix(n + 1, n + 1), mp.matrix(n + 1, 1)
        for i, p in enumerate(points):
            for j, power in enumerate(powers):
                rows[i, j] = grid[p] ** power
            rows[i, n] = (-1) ** i / values[p][1]
            right[i] = values[p][0]
        solution = mp.lu_solve(rows, right)
        coefficients = [solution[j] for j in range(n)]
        errors = [
            w * (y - sum(c * x**p for c, p in zip(coefficients, powers))) for x, (y, w) in zip(grid, values)
        ]
        worst = max(abs(e) for e in errors)
        points = extrema(errors, n + 1)
        if worst < abs(solution[n]) * mp.mpf("1.001"):
            break
    return coefficients, worst


def extrema(errors: list, count: int) -> list[int]:
    """Return the places of `count` errors of alternating signs, the largest of each run."""
    runs: list[int] = []
    for i, e in enumerate(errors):
        if runs and (errors[runs[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[runs[-1]]):
                runs[-1] = i
        else:
            runs.append(i)
    while len(runs) > count:  # drop at the ends, where that keeps the alternation
        runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    assert len(runs) == count, "the error does not alternate: a coefficient is superfluous"
    return runs


def fit(
    f: Function, weight: Function, a: float, b: float, degree: int, bits: int
) -> tuple[list[float], float]:
    """Return rounded coefficients of a polynomial of `degree` and log2 of the weighted error."""
    return min(
        (_fit(f, weight, a, b, degree, bits, exact) for exact in range(1, 5)), key=lambda pair: pair[1]
    )


def _fit(
    f: Function, weight: Function, a: float, b: float, degree: int, bits: int, exact: int
) -> tuple[list[float], float]:
    """Round the first `exact` coefficients one by one with a new fit after each, the others together."""
    fixed: list[float] = []
    while len(fixed) < min(exact, degree):
        powers = range(len(fixed), degree + 1)
        found, _ = remez(lambda x: f(x) - horner(fixed, x), weight, a, b, powers)
        fixed.append(rounded(found[0], bits))
    found, _ = remez(lambda x: f(x) - horner(fixed, x), weight, a, b, range(len(fixed), degree + 1))
    result = fixed + [rounded(c, bits) for c in found]
    grid = [mp.mpf(a) + (mp.mpf(b) - mp.mpf(a)) * (i + mp.mpf(1) / 2) / 500 for i in range(500)]
    worst = max(abs(weight(x) * (f(x) - horner(result, x))) for x in grid)
    return result, float(mp.log(worst, 2))


def horner(coefficients: Sequence, x: mp.mpf) -> mp.mpf:
    total = mp.mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def split(x: mp.mpf, *bits: int) -> list[float]:
    """Return floats whose sum is `x`, of at most the given numbers of bits each."""
    parts: list[float] = []
    for b in bits:
        if x == 0:
            return parts + [0.0] * (len(bits) - len(parts))
        unit = mp.mpf(2) ** (mp.floor(mp.log(abs(x), 2)) + 1 - b)
        part = mp.nint(x / unit) * unit
        parts.append(float(part))
        x -= part
    return parts


def constants() -> None:
    """Constants in parts. A short first part times a small integer is exact."""
    ln2 = mp.log(2)
    write("LN2_64", split(ln2, 53, 53), "ln 2")
    write("LN2_32", split(ln2, 24, 24), "ln 2")
    write("LN2_SHORT_64", split(ln2, 42, 53), "ln 2, the first part short")
    write("LN2_SHORT_32", split(ln2, 15, 24), "ln 2, the first part short")
    write("TWO_THIRDS", split(mp.mpf(2) / 3, 53, 53), "2 / 3")
    for kind, bits, short in (("64", 53, 42), ("32", 24, 15)):
        write(f"INVERSE_LN2_{kind}", split(1 / ln2, bits, bits), "1 / ln 2")
        write(f"INVERSE_LN10_{kind}", split(1 / mp.log(10), bits, bits), "1 / ln 10")
        write(f"LOG10_2_{kind}", split(mp.log10(2), short, bits), "log10 2, the first part short")

    write("HALF_PI_64", split(mp.pi / 2, 53, 53, 53), "pi / 2")
    write("HALF_PI_32", split(mp.pi / 2, 24, 24, 24), "pi / 2")
    entries.append(f"TWO_OVER_PI = {float(2 / mp.pi)!r}\n")
    two_over_pi()


def two_over_pi() -> None:
    """Write the bits of 2 / pi in words of 64, after a whole word of zeros, for the largest double."""
    count, last = 21, 64 + 971 - 2
    assert last // 64 + 4 <= count
    with mp.workprec(64 * count + 64):
        bits = int(mp.floor(2 / mp.pi * mp.mpf(2) ** (64 * (count - 1))))
    words = [0] + [(bits >> (64 * (count - 2 - i))) & (2**64 - 1) for i in range(count - 1)]
    write("TWO_OVER_PI_WORDS", words, "2 / pi")
    entries.append("TWO_OVER_PI_LEAD = 64  # zeros in front\n")
    entries.append(f"TWO_OVER_PI_LAST = {last}  # where the last window starts\n")


def by_series(f: Function, at_zero: mp.mpf) -> Function:
    """Return `f`, continued to zero by `at_zero`."""
    return lambda x: at_zero if x == 0 else f(x)


def exponential() -> None:
    """e**r = 1 + r + r**2 P(r), the error relative to e**r, and in EXPM1 to e**r - 1."""
    bound = mp.log(2) / 2 * mp.mpf("1.0001")
    f = by_series(lambda r: (mp.expm1(r) - r) / r**2, mp.mpf(1) / 2)
    both("EXP", f, lambda r: r**2 / mp.exp(r), -bound, bound, 9, 4, 6)
    both("EXPM1", f, lambda r: abs(r**2 / mp.expm1(r)), -bound, bound, 10, 5)


def logarithm() -> None:
    """2 artanh(s) = 2 s + s w P(w), w = s**2, |s| <= (sqrt(2) - 1) / (sqrt(2) + 1)."""
    bound = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.0001")
    f = by_series(lambda w: (2 * mp.atanh(mp.sqrt(w)) / mp.sqrt(w) - 2) / w, mp.mpf(2) / 3)
    both("LOG", f, lambda w: w / 2 + mp.mpf(10) ** -9, 0, bound, 6, 3, 4)
    rest_of_f = by_series(lambda w: (f(w) - mp.mpf(2) / 3) / w, mp.mpf(2) / 5)
    rest, error = fit(rest_of_f, lambda w: w**2 / 2 + mp.mpf(10) ** -9, 0, bound, 6, 53)
    write("LOG_PAIR_64", rest, f"after the terms 2 and 2/3 w; error 2**{error:.1f}")


def trigonometric() -> None:
    """sin r = r + r w S(w), cos r = 1 - w / 2 + w**2 C(w), w = r**2, |r| <= pi / 4."""
    bound = (mp.pi / 4) ** 2 * mp.mpf("1.0001")
    tiny = mp.mpf(10) ** -9
    f = by_series(lambda w: (mp.sin(mp.sqrt(w)) / mp.sqrt(w) - 1) / w, -mp.mpf(1) / 6)
    both("SIN", f, lambda w: w + tiny, 0, bound, 5, 2)
    f = by_series(lambda w: (mp.cos(mp.sqrt(w)) - 1 + w / 2) / w**2, mp.mpf(1) / 24)
    both("COS", f, lambda w: w**2 + tiny, 0, bound, 5, 2)


def roots() -> None:
    """m**(-1/3) on [1, 2], to start an iteration."""
    numbers, error = fit(lambda m: 1 / mp.cbrt(m), mp.cbrt, 1, 2, 5, 53)
    write("CBRT", numbers, f"error 2**{error:.1f}")


def hyperbolic() -> None:
    """sinh x = x + x w P(w), w = x**2, |x| <= 1."""
    f = by_series(lambda w: (mp.sinh(mp.sqrt(w)) / mp.sqrt(w) - 1) / w, mp.mpf(1) / 6)
    both("SINH", f, lambda w: w / (1 + w / 6), 0, 1, 7, 3)


def inverse() -> None:
    """asin x = x + x w P(w), atan x = x + x w P(w), w = x**2, |x| <= 1/2."""
    f = by_series(lambda w: (mp.asin(mp.sqrt(w)) / mp.sqrt(w) - 1) / w, mp.mpf(1) / 6)
    both("ASIN", f, lambda w: w, 0, 0.2501, 11, 4)
    f = by_series(lambda w: (mp.atan(mp.sqrt(w)) / mp.sqrt(w) - 1) / w, -mp.mpf(1) / 3)
    both("ATAN", f, lambda w: w, 0, 0.2501, 11, 4)


def error_function() -> None:
    """erf x = x + x P(x**2) for |x| < 1/2; (1 + 2 u) e**u**2 erfc(u) = G((u - K) / (u + K)) for u >= 1/2."""
    slope = 2 / mp.sqrt(mp.pi)
    f = by_series(lambda w: mp.erf(mp.sqrt(w)) / mp.sqrt(w) - 1, slope - 1)
    both("ERF", f, lambda w: mp.mpf(1), 0, 0.2501, 9, 4)
    for kind, center, last, degree, bits in (("64", 4.0, 28, 22, 53), ("32", 2.5, 10.5, 9, 24)):
        ends = ((u - center) / (u + center) for u in (0.4999, last))

        def g(t: mp.mpf, center: float = center) -> mp.mpf:
            u = center * (1 + t) / (1 - t)
            return (1 + 2 * u) * mp.exp(u * u) * mp.erfc(u)

        numbers, error = remez(g, lambda t: mp.mpf(1), *ends, range(degree + 1))
        first = split(numbers[0], bits, bits)
        entries.append(f"ERFC_CENTER_{kind} = {center}\n")
        entries.append(f"ERFC_FIRST_{kind} = {tuple(first)}  # the constant term\n")
        note = f"the other terms; error 2**{float(mp.log(error, 2)):.1f}"
        write(f"ERFC_{kind}", [rounded(x, bits) for x in numbers[1:]], note)
    upper_normal()
    write("ROOT_HALF_64", split(mp.sqrt(0.5), 53, 53), "sqrt(1 / 2)")


def upper_normal() -> None:
    """(x + K) e**(x**2 / 2) Q(x) = G((x - K) / (x + K)) for x >= 0, Q the normal distribution above x."""
    center, last = mp.mpf(4), 15

    def g(t: mp.mpf) -> mp.mpf:
        x = center * (1 + t) / (1 - t)
        return (x + center) * mp.exp(x * x / 2) * mp.erfc(x / mp.sqrt(2)) / 2

    numbers, error = fit(g, lambda t: 1 / g(t), -1, (last - center) / (last + center), 9, 53)
    entries.append(f"UPPER_CENTER_32 = {float(center)}\n")
    write("UPPER_32", numbers, f"error 2**{error:.1f}")


def gamma() -> None:
    """Stirling's series for y >= 4, as polynomials of w = 1 / y**2; lgamma next to 1 and 2; a longer sine."""
    constant = mp.log(2 * mp.pi) / 2 - mp.mpf(1) / 2
    write("STIRLING_CONSTANT", split(constant, 53, 53), "log(2 pi) / 2 - 1 / 2")
    start = mp.mpf(10) ** -12

    def series(w: mp.mpf) -> mp.mpf:
        y = 1 / mp.sqrt(w)
        return y * (mp.loggamma(y) - (y - mp.mpf(1) / 2) * (mp.log(y) - 1) - constant)

    def slope(w: mp.mpf) -> mp.mpf:
        y = 1 / mp.sqrt(w)
        return y**2 * (mp.log(y) - 1 / (2 * y) - mp.digamma(y))

    sixteenth = mp.mpf(1) / 16
    for name, f in (("STIRLING", series), ("DIGAMMA", slope)):
        numbers, error = fit(f, lambda w: mp.mpf(1), start, sixteenth, 10, 53)
        write(name, numbers, f"error 2**{error:.1f}")
    for center in (1, 2):
        first = -mp.euler if center == 1 else 1 - mp.euler
        f = by_series(lambda z, center=center: mp.loggamma(center + z) / z, first)
        numbers, error = fit(f, lambda z, first=first: 1 / first, -mp.mpf("0.2501"), mp.mpf("0.2501"), 18, 53)
        write(f"LGAMMA_AT_{center}", numbers, f"error 2**{error:.1f}")
    write("PI", split(mp.pi, 53, 53), "pi")
    write("MINUS_SIXTH", split(-mp.mpf(1) / 6, 53, 53), "-1 / 6")
    f = by_series(lambda w: ((mp.sin(mp.sqrt(w)) / mp.sqrt(w) - 1) / w + mp.mpf(1) / 6) / w, mp.mpf(1) / 120)
    numbers, error = fit(f, lambda w: w**2, 0, (mp.pi / 4) ** 2 * mp.mpf("1.0001"), 5, 53)
    write("SIN_PAIR", numbers, f"after the terms 1 and -w / 6; error 2**{error:.1f}")
    write("TWENTY_FOURTH", split(mp.mpf(1) / 24, 53, 53), "1 / 24")
    f = by_series(lambda w: ((mp.cos(mp.sqrt(w)) - 1 + w / 2) / w**2 - mp.mpf(1) / 24) / w, -mp.mpf(1) / 720)
    numbers, error = fit(f, lambda w: w**3, 0, (mp.pi / 4) ** 2 * mp.mpf("1.0001"), 5, 53)
    write("COS_PAIR", numbers, f"after the terms 1, -w / 2 and w**2 / 24; error 2**{error:.1f}")
    exact_series()


def exact_series() -> None:
    """Coefficients in pairs, a high and a low part after the other, for about 100 bits."""
    sine = [(-1) ** k / mp.factorial(2 * k + 1) for k in range(15)]
    cosine = [(-1) ** k / mp.factorial(2 * k) for k in range(15)]
    logarithm = [mp.mpf(2) / (2 * k + 1) for k in range(22)]
    slope = [mp.bernoulli(2 * k) / (2 * k) for k in range(1, 22)]
    for name, numbers in (("SIN", sine), ("COS", cosine), ("LOG", logarithm), ("DIGAMMA", slope)):
        write(f"{name}_EXACT", [part for x in numbers for part in split(x, 53, 53)], "in pairs")
    write("LN2_THREE", split(mp.log(2), 42, 42, 53), "ln 2, two parts short")


entries: list[str] = []


def both(name: str, f: Function, weight: Function, a: float, b: float, *degrees: int) -> None:
    """Fit `f` for double, 32-bit float, and double of about 40 bits, as far as there are degrees."""
    for degree, bits, kind in zip(degrees, (53, 24, 53), ("64", "32", "40")):
        coefficients, error = fit(f, weight, a, b, degree, bits)
        write(f"{name}_{kind}", coefficients, f"error 2**{error:.1f}")


def write(name: str, numbers: Sequence[float], note: str) -> None:
    print(name, note, file=sys.stderr)
    entries.append(f"{name} = (  # {note}\n{wrapped(numbers)}\n)\n")


def wrapped(numbers: Sequence[float]) -> str:
    """Return numbers with commas, in indented lines."""
    return textwrap.fill(
        ", ".join(map(repr, numbers)) + ",", 106, initial_indent="    ", subsequent_indent="    "
    )


def main() -> None:
    constants()
    exponential()
    logarithm()
    trigonometric()
    roots()
    hyperbolic()
    inverse()
    error_function()
    gamma()
    head = (
        '"""Coefficients, written by tools/elementary_coefficients.py: change them there."""\n\n# fmt: off\n'
    )
    TARGET.write_text(head + "\n".join(entries))


if __name__ == "__main__":
    main()
