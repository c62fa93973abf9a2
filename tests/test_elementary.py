"""Elementary functions in compiled loops: their errors, in units of the last place."""

import math
import os

import mpmath as mp
import numpy as np
import pytest

from everyo.compiler import elementary
from tests.elementary_kernels import errors_in_ulp, kernel
from tests.elementary_reference import BITS, BY_MPMATH, by_mpmath, exact, samples

INF = math.inf
TYPES = {"f64": np.float64, "f32": np.float32}
NAMES = elementary.names()
POINTS = int(os.environ.get("EVERYO_ELEMENTARY_POINTS", "100000"))


def test_the_functions_are_the_promised_ones():
    assert sorted(NAMES) == sorted(BY_MPMATH)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", NAMES)
def test_at_most_two_units_of_the_last_place(name, dtype):
    f = kernel(name, dtype)
    arguments = samples(name, dtype, POINTS if BITS > 53 else 1000, f.arity)
    if BITS > 53:
        errors = errors_in_ulp(name, f(*arguments), exact(name, *arguments), *arguments)
    else:
        arguments = [a[(abs(arguments[0]) < 1e4) & (abs(arguments[-1]) < 1e4)] for a in arguments]
        found = f(*arguments)
        errors = np.array([_distance(name, y, *x) for y, *x in zip(found, *arguments)])
    worst = int(np.argmax(errors))
    assert errors[worst] <= 2, [float(a[worst]) for a in arguments]


def _distance(name, found, *arguments):
    """Return the error in units of the last place; 0 for NaN or infinity where there is no value."""
    try:
        true = by_mpmath(name, *map(float, arguments))
    except (ValueError, ZeroDivisionError):  # a pole
        true = mp.inf
    if not isinstance(true, mp.mpf) or not mp.isfinite(true):
        return INF if np.isfinite(found) else 0.0
    kind = type(found)
    largest = float(np.finfo(kind).max)
    if np.isinf(found):
        return 0.0 if abs(true) > largest and found * true > 0 else INF
    rounded = kind(float(true)) if abs(true) < largest else kind(largest)
    return float(abs(mp.mpf(float(found)) - true) / mp.mpf(float(np.spacing(abs(rounded)))))


def _around(*points, kind=np.float64):
    """Return each point with its neighbours, as far as they are finite."""
    found = []
    with np.errstate(over="ignore"):
        for p in map(kind, points):
            found += [np.nextafter(p, kind(-INF)), p, np.nextafter(p, kind(INF))]
    return [x for x in found if np.isfinite(x)]


def _quarter_turns(kind):
    """Return numbers next to multiples of pi / 2, and the one of all that is closest to one."""
    with mp.workprec(2400):
        near = [kind(float(mp.pi / 2 * k)) for k in (1, 2, 3, 4, 7, 22, 355, 10**4 + 1, 10**5, 10**8, 3**30)]
    closest = 6381956970095103.0 * 2.0**797 if kind is np.float64 else 16367173.0 * 2.0**72
    large = [2.0**15, 2.0**27, 1e22 if kind is np.float64 else 1e10, float(np.finfo(kind).max)]
    return [*_around(*near, *large, kind=kind), kind(closest), kind(-closest)]


_HYPERBOLIC = ["exp", "expm1", "sigmoid", "softplus", "sinh", "cosh", "tanh"]
_LOGARITHMS = ["log", "log2", "log10", "log1p", "acosh", "atanh", "sqrt", "rsqrt", "cbrt"]
_ENDS = {  # where results overflow, become subnormal or vanish, and where a method changes
    "f64": {
        **dict.fromkeys(
            _HYPERBOLIC, (709.782712893384, 710.4758600739439, -708.4, -745.13, 36.7, -37.5, 22.0)
        ),
        "exp2": (1023.9999, -1022.0, -1074.5, -1075.0, 0.5, -0.5),
        **dict.fromkeys(("erf", "erfc", "gelu"), (26.5, 27.2, 5.9, -5.9, -8.3, -38.0, -38.5)),
    },
    "f32": {
        **dict.fromkeys(_HYPERBOLIC, (88.72283, 89.41598, -87.33, -103.97, 16.6, -17.3, 9.0)),
        "exp2": (127.9999, -126.0, -149.5, -150.0, 0.5, -0.5),
        **dict.fromkeys(("erf", "erfc", "gelu"), (9.19, 10.05, 3.9, -3.9, -12.9, -14.2)),
    },
}
_CHANGES = {
    **dict.fromkeys([*_HYPERBOLIC, "exp2"], (0.34657, -0.34657, 0.5, 0.549, 1.0, -1.0)),
    **dict.fromkeys(_LOGARITHMS, (0.70710678, 1.41421356, 1.0, 2.0, 0.5, 8.0, 10.0, 1000.0, 1e10, 27.0)),
    "log1p": (0.41421356, -0.29289322, -0.5, 1.0, -1.0, 1e18),
    "atanh": (0.17, -0.5, 1.0, -1.0),
    **dict.fromkeys(("asin", "acos", "atan", "asinh"), (0.5, -0.5, 1.0, -1.0, 2.0, 0.999, 1e10, -1e10, 1e18)),
    **dict.fromkeys(("erf", "erfc", "gelu"), (0.5, -0.5, 0.70710678, -0.70710678, 1.0, 3.0, -3.0)),
    **dict.fromkeys(("lgamma", "digamma"), (0.75, 1.25, 1.75, 2.25, 4.0, 0.5, 100.0, 1e15, -0.25, -100.3)),
}


def _zeros(name):
    """Return the zeros of lgamma or digamma, the negative ones at small and at large distances."""
    with mp.workdps(40):
        if name == "digamma":
            return [1.4616321449683622] + [
                float(mp.findroot(mp.digamma, -n - mp.acot(-mp.log(n + 0.5) / mp.pi) / mp.pi % 1))
                for n in (0, 1, 2, 8, 15, 16, 17, 100, 10**4, 10**8)
            ]
        near = [-2.4570247382208, -2.7476826467274, -3.1435808883499, -3.9552942848586, -4.0393618397405]
        near += [-n - sign / mp.factorial(n) for n in (10, 13, 15, 16) for sign in (1, -1)]
        return [1.0, 2.0, *(float(mp.findroot(lambda x: mp.rgamma(x) ** 2 - 1, x)) for x in near)]


def hard_points(name, dtype):
    """Return arguments next to zeros and poles, where a method changes, and at both ends of the range."""
    kind = TYPES[dtype]
    tiny = float(np.finfo(kind).smallest_subnormal)
    small = (tiny, 3 * tiny, float(np.finfo(kind).tiny), 1e-30, 1e-20, 1e-10, 1e-5)
    found = _around(*small, *(-x for x in small), kind=kind)
    if name in ("sin", "cos", "tan"):
        return found + _quarter_turns(kind)
    found += _around(*_ENDS[dtype].get(name, ()), *_CHANGES[name], kind=kind)
    if name in ("lgamma", "digamma"):
        found += _around(*_zeros(name), kind=kind)
    if name in _LOGARITHMS:
        found += _around(float(np.finfo(kind).max), kind=kind)
    return found


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", [n for n in NAMES if elementary.arity(n) == 1])
def test_hard_points(name, dtype):
    f = kernel(name, dtype)
    points = np.array(hard_points(name, dtype))
    errors = {float(x): _distance(name, y, x) for x, y in zip(points, f(points))}
    assert {x: e for x, e in errors.items() if e > 2} == {}
