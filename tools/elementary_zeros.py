"""Compute the zeros of lgamma and digamma and power series about them: everyo/compiler/elementary/zeros.py.

python tools/elementary_zeros.py
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath as mp
from elementary_coefficients import TARGET, remez, split, wrapped

mp.mp.dps = 60
BORDER = mp.mpf(2) ** -4
DEGREE = 14


def lgamma(x: mp.mpf) -> mp.mpf:
    return mp.inf if x == mp.floor(x) and x <= 0 else mp.log(abs(mp.gamma(x)))


def zero_between(f: Callable, a: mp.mpf, b: mp.mpf) -> mp.mpf:
    """Return where `f` changes its sign, by bisection."""
    rising = f(b) > 0
    for _ in range(260):
        middle = (a + b) / 2
        if (f(middle) > 0) == rising:
            b = middle
        else:
            a = middle
    return (a + b) / 2


def reach(f: Callable, zero: mp.mpf, end: mp.mpf) -> mp.mpf:
    """Return the distance towards `end` at which ``|f|`` is a little above `BORDER`."""
    distance = (end - zero) * mp.mpf("0.999")
    while abs(f(zero + distance / 2)) > BORDER * mp.mpf("1.05"):
        distance /= 2
    high, low = distance, distance / 2
    for _ in range(40):
        middle = (high + low) / 2
        high, low = (middle, low) if abs(f(zero + middle)) > BORDER * mp.mpf("1.05") else (high, middle)
    return high


def row(f: Callable, slope: Callable, a: mp.mpf, b: mp.mpf) -> list[float]:
    """Return the zero of `f` in (a, b) and the series of ``f(zero + e) / e``: first numbers in two parts."""
    zero = zero_between(f, a, b)
    ends = reach(f, zero, a), reach(f, zero, b)
    unit = max(abs(e) for e in ends)  # numbers of moderate size for the fit
    first = slope(zero)
    numbers, error = remez(
        lambda t: f(zero + t * unit) / (t * unit),
        lambda t: 1 / first,
        ends[0] / unit,
        ends[1] / unit,
        range(DEGREE + 1),
    )
    print(mp.nstr(zero, 15), float(mp.log(abs(error), 2)))
    assert error < mp.mpf(2) ** -56
    tail = (float(x / unit**i) for i, x in enumerate(numbers))
    next(tail)
    return [*split(zero, 53, 53), *split(numbers[0], 53, 53), *tail]


def reaches_a_double(f: Callable, a: mp.mpf, b: mp.mpf) -> bool:
    """Return whether a double next to the zero of `f` in (a, b) is one where ``|f|`` is below the border."""
    near = float(zero_between(f, a, b))
    around = (math.nextafter(near, -99), near, math.nextafter(near, 99))
    return any(abs(f(mp.mpf(x))) < BORDER for x in around)


def lgamma_rows() -> list[list[float]]:
    rows = []
    tiny = mp.mpf(10) ** -40
    for n in range(2, 40):
        middle = mp.findroot(mp.digamma, -n - mp.mpf("0.45"))
        spans = ((middle, mp.mpf(-n) - tiny), (mp.mpf(-n - 1) + tiny, middle))
        if not any(reaches_a_double(lgamma, *span) for span in spans):
            print("no double close enough from", n)
            break
        rows += [row(lgamma, mp.digamma, *span) for span in spans]
    for m in range(n, n + 8):
        middle = mp.findroot(mp.digamma, -m - mp.mpf("0.4"))
        assert not reaches_a_double(lgamma, middle, mp.mpf(-m) - tiny)
        assert not reaches_a_double(lgamma, mp.mpf(-m - 1) + tiny, middle)
    return rows


def digamma_rows(count: int) -> list[list[float]]:
    tiny = mp.mpf(10) ** -40
    spans = [(mp.mpf(1), mp.mpf(2))] + [(mp.mpf(-n - 1) + tiny, mp.mpf(-n) - tiny) for n in range(count)]
    return [row(mp.digamma, lambda x: mp.psi(1, x), *span) for span in spans]


def main() -> None:
    lines = [
        '"""Zeros of lgamma and digamma, written by tools/elementary_zeros.py: change them there."""\n',
        f"BORDER = {float(BORDER)}  # the series hold where the function is smaller\n",
    ]
    for name, rows, note in (
        ("LGAMMA", lgamma_rows(), "zero in two parts, slope there in two parts, the other coefficients"),
        ("DIGAMMA", digamma_rows(16), "likewise: the positive zero, then those below 0, -1, ..."),
    ):
        body = "".join(f"    (\n{wrapped(numbers)}\n    ),\n" for numbers in rows)
        lines.append(f"# fmt: off\n{name} = (  # {note}\n{body})\n")
    TARGET.with_name("zeros.py").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
