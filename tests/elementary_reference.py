"""Exact values of elementary functions, and arguments at which the compiled ones are compared with them."""

import ctypes
import ctypes.util
import functools
import math

import llvmlite.binding as llvm
import mpmath as mp
import numpy as np

from tests.elementary_kernels import TYPES, loop, new_target_machine

WIDE = np.longdouble
BITS = np.finfo(WIDE).nmant + 1  # 64 or 113 where it is wider than a double, else 53


def _log_gamma(x):
    return mp.loggamma(x).real if x > 0 else mp.log(abs(mp.gamma(x)))


BY_MPMATH = {
    "exp": mp.exp,
    "exp2": lambda x: mp.mpf(2) ** x,
    "expm1": mp.expm1,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "log": mp.log,
    "log1p": mp.log1p,
    "log2": lambda x: mp.log(x, 2),
    "log10": mp.log10,
    "softplus": lambda x: mp.log1p(mp.exp(x)),
    "logaddexp": lambda x, y: mp.log(mp.exp(x) + mp.exp(y)),
    "tanh": mp.tanh,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "asinh": mp.asinh,
    "acosh": mp.acosh,
    "atanh": mp.atanh,
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "asin": mp.asin,
    "acos": mp.acos,
    "atan": mp.atan,
    "atan2": mp.atan2,
    "pow": lambda x, y: mp.mpf(x) ** y,
    "sqrt": mp.sqrt,
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "hypot": mp.hypot,
    "erf": mp.erf,
    "erfc": mp.erfc,
    "gelu": lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2,
    "lgamma": _log_gamma,
    "digamma": mp.digamma,
}


@functools.cache
def from_libm(name):
    """Return the function `name` of the C library for long doubles, looped over an array by compiled code."""
    ctypes.CDLL(ctypes.util.find_library("m"), mode=ctypes.RTLD_GLOBAL)
    kind = {64: "x86_fp80", 113: "fp128"}[BITS]
    call = f"  %y = call {kind} @{name}({kind} %v0)"
    module = llvm.parse_assembly(f"declare {kind} @{name}({kind})\n" + loop("kernel", kind, call, 1))
    engine = llvm.create_mcjit_compiler(module, new_target_machine())
    engine.finalize_object()
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(
        engine.get_function_address("kernel")
    )

    def evaluate(x, engine=engine):
        x = np.ascontiguousarray(x, WIDE)
        out = np.zeros_like(x)
        run(x.size, out.ctypes.data, x.ctypes.data)
        return out

    return evaluate


def _wide(number, bits=None):
    """Return an mpmath number as a long double, or its leading bits, rounded."""
    with mp.workprec(300):
        if bits is not None:
            unit = mp.mpf(2) ** (mp.floor(mp.log(abs(number), 2)) + 1 - bits)
            return WIDE(float(mp.nint(number / unit) * unit))
        high = float(number)
        return WIDE(high) + WIDE(float(number - high))


def _gelu(x):
    """Return x erfc(-x / sqrt(2)) / 2, with the rounding error of the argument, which the tail multiplies."""
    with mp.workprec(300):
        root = mp.sqrt(mp.mpf(1) / 2)
        short = _wide(root, 11)
        rest = _wide(root - mp.mpf(float(short)))
    size = np.minimum(abs(x), 60)
    u = (size * _wide(root)).astype(float).astype(WIDE)
    lost = (size * short - u) + size * rest
    tail = from_libm("erfcl")(u) * np.exp(-2 * u * lost) / 2
    return np.where(x > 0, x - x * tail, x * tail)


def _digamma(x):
    """Return the asymptotic series above 20, after steps to there; mpmath next to zeros."""
    size = abs(x)
    y, total = size.copy(), np.zeros_like(size)
    for _ in range(20):
        low = y < 20
        total -= np.where(low, 1 / y, 0)
        y = np.where(low, y + 1, y)
    w = 1 / (y * y)
    series = np.zeros_like(y)
    for k in range(12, 0, -1):
        series = (series + _wide(mp.bernoulli(2 * k) / (2 * k))) * w
    total += np.log(y) - 1 / (2 * y) - series
    pi = _wide(mp.pi)
    turn = size - np.rint(size)
    total = np.where(x < 0, total + 1 / size + pi / np.tan(pi * turn), total)
    with mp.workprec(200):
        for i in np.flatnonzero(abs(total) < 0.25):
            total[i] = _wide(mp.digamma(mp.mpf(float(x[i]))))
    return np.where((x < 0) & (turn == 0), np.nan, total)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


BY_LONG_DOUBLE = {
    **{
        name: getattr(np, name)
        for name in ["exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "tanh", "sinh", "cosh"]
    },
    **{name: getattr(np, name) for name in ["sin", "cos", "tan", "sqrt", "cbrt", "hypot", "logaddexp"]},
    **{
        f"a{name}": getattr(np, f"arc{name}")
        for name in ["sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2"]
    },
    "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": _sigmoid,
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-abs(x))),
    "erf": lambda x: from_libm("erfl")(x),
    "erfc": lambda x: from_libm("erfcl")(x),
    "gelu": _gelu,
    "lgamma": lambda x: from_libm("lgammal")(x),
    "digamma": _digamma,
}


def exact(name, *arrays):
    """Return the function's values for finite arguments as long doubles, some bits more than needed."""
    with np.errstate(all="ignore"):
        return BY_LONG_DOUBLE[name](*(a.astype(WIDE) for a in arrays))


def by_mpmath(name, *numbers):
    """Return one value, as an mpmath number."""
    with mp.workprec(2400 if max(map(abs, numbers)) > 2.0**60 else 300):
        return BY_MPMATH[name](*map(mp.mpf, numbers))


_EXPONENTIAL = {"f64": ((-746, 710), (-40, 40), (-1, 1)), "f32": ((-104, 89), (-20, 20), (-1, 1))}
INTERVALS = {
    **dict.fromkeys(("exp", "expm1", "sigmoid", "softplus", "sinh", "cosh", "tanh"), _EXPONENTIAL),
    "exp2": {"f64": ((-1075, 1024), (-1, 1)), "f32": ((-150, 128), (-1, 1))},
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt"), ((0.5, 2), (0, 100))),
    "log1p": ((-1, 1), (-0.1, 0.1), (-1, 100)),
    "acosh": ((1, 2), (1, 100)),
    **dict.fromkeys(("asin", "acos", "atanh"), ((-1, 1),) * 3),
    **dict.fromkeys(("sin", "cos", "tan"), ((-4, 4), (-1000, 1000), (-1e6, 1e6), (-1e10, 1e10))),
    **dict.fromkeys(("asinh", "atan", "cbrt"), ((-1, 1), (-10, 10))),
    "erf": ((-1, 1), (-6, 6)),
    "erfc": {"f64": ((-1, 1), (-6, 28)), "f32": ((-1, 1), (-4, 11))},
    "gelu": {"f64": ((-1, 1), (-39, 9)), "f32": ((-1, 1), (-15, 6))},
    "lgamma": ((0, 3), (0, 30), (-4, 0), (-30, 0)),
    "digamma": ((0, 3), (0, 30), (-4, 0), (-30, 0)),
}


def samples(name, dtype, count, arity, seed=0):
    """Return `count` arguments: a part of all finite bit patterns, the others from intervals."""
    rng = np.random.default_rng(seed)
    kind = TYPES[dtype][1]
    if name == "pow":
        return _samples_of_pow(rng, kind, count)
    intervals = INTERVALS.get(name, [(-2, 2), (-50, 50)])
    intervals = intervals[dtype] if isinstance(intervals, dict) else intervals
    part = count // (len(intervals) + 1)
    bits = np.dtype(f"i{np.dtype(kind).itemsize}")
    arrays = []
    for _ in range(arity):
        everywhere = rng.integers(np.iinfo(bits).min, np.iinfo(bits).max, count - part * len(intervals), bits)
        everywhere = everywhere.view(kind)
        everywhere[~np.isfinite(everywhere)] = 1
        arrays.append(
            np.concatenate([everywhere, *(rng.uniform(a, b, part).astype(kind) for a, b in intervals)])
        )
    return arrays


def _samples_of_pow(rng, kind, count):
    """Return bases of all sizes with exponents up to where the power overflows, and bases next to 1."""
    limit = math.log2(np.finfo(kind).max)
    logarithm = rng.uniform(-limit, limit, count)
    logarithm[::2] = rng.uniform(-1, 1, logarithm[::2].size) ** 3
    x = (2.0**logarithm).astype(kind)
    with np.errstate(all="ignore"):
        y = rng.uniform(-1.1, 1.05, count) * limit / np.log2(x.astype(float))
    y[~np.isfinite(y)] = 2
    y[::3] = rng.uniform(-20, 20, y[::3].size)
    x[::7] = -x[::7]
    y[::7] = np.rint(y[::7])
    largest = float(np.finfo(kind).max)
    return [x, np.clip(y, -largest, largest).astype(kind)]
