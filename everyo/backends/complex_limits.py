"""Complex functions at zeros, infinities and the ends of the range, where more is asked for than NumPy gives.

The limits are the Array API standard's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[[Any], Any]
_BELOW = -(1 << 20)  # an exponent that leaves nothing


def expm1(x: Any, function: Function) -> Any:
    """Return ``exp(x) - 1`` with the limits of exp; a real part of 0 is no -0.0."""
    with np.errstate(invalid="ignore"):
        out = np.asarray(function(x))
        finite = np.isfinite(x)
        if not finite.all():
            out = np.where(finite, out, np.exp(x) - 1)
    out.real += 0.0
    return out


def tanh(x: Any, function: Function) -> Any:
    """Return tanh; at an infinite real part its imaginary 0 has the sign of the imaginary part."""
    with np.errstate(invalid="ignore"):
        out = np.asarray(function(x))
    infinite = np.isinf(x.real) & np.isfinite(x.imag)
    if infinite.any():
        np.copyto(out.imag, np.copysign(0.0, x.imag), where=infinite)
    return out


def log1p(x: Any, function: Function) -> Any:
    """Return ``log(1 + x)`` with all digits near 0, and without overflow of the absolute value."""
    shifted = np.array(x)
    shifted.real += 1  # x + 1 would lose the sign of a zero imaginary part
    out = np.asarray(np.log(shifted))
    re, im = np.asarray(x.real), np.asarray(x.imag)
    near = (np.abs(re) < 0.5) & (np.abs(im) < 0.5)
    re, im = np.where(near, re, 0), np.where(near, im, 0)
    np.copyto(out.real, 0.5 * np.log1p(re * (2 + re) + im * im), where=near)
    return out


def sign(x: Any, function: Function) -> Any:
    """Return ``x / |x|`` also where the absolute value overflows."""
    large = np.maximum(np.abs(x.real), np.abs(x.imag)) > np.finfo(x.dtype).max / 2
    if large.any():
        x = np.array(x)
        scale = np.where(large, 0.5, 1)
        x.real *= scale
        x.imag *= scale
    return function(x)


def ordinary(out: Any) -> bool:
    """Whether numbers are finite, and none is 0."""
    return bool(np.count_nonzero(np.isfinite(out)) == out.size and out.all())


def quotient(x1: Any, x2: Any, out: Any) -> Any:
    """Return a quotient, given NumPy's, that is right also where this one left the range on the way."""
    if ordinary(out):
        return out
    out = np.array(out)
    lost = ~np.isfinite(out) | ((out == 0) & np.not_equal(x1, 0))
    lost &= np.isfinite(x1) & np.isfinite(x2) & np.not_equal(x2, 0)
    if lost.any():
        (a, p), (b, q) = (_scaled(np.broadcast_to(x, out.shape)[lost], out.dtype) for x in (x1, x2))
        a /= b
        out.real[lost], out.imag[lost] = np.ldexp(a.real, p - q), np.ldexp(a.imag, p - q)
    return out


def _scaled(x: Any, dtype: Any) -> tuple[Any, Any]:
    """Return numbers of which the larger part is between 1/2 and 1, and the exponents that they have lost."""
    x = x.astype(dtype)
    exponent = np.frexp(np.maximum(np.abs(x.real), np.abs(x.imag)))[1]
    x.real, x.imag = np.ldexp(x.real, -exponent), np.ldexp(x.imag, -exponent)
    return x, exponent


def power(x1: Any, x2: Any, out: Any) -> Any:
    """Return a power, given NumPy's, that is right also where this one is one over an overflow."""
    if ordinary(out):
        return out
    out = np.array(out)
    lost = (~np.isfinite(out) | (out == 0)) & np.isfinite(x1) & (np.real(x2) < 0) & (np.imag(x2) == 0)
    lost &= np.maximum(np.abs(np.real(x1)), np.abs(np.imag(x1))) > 1
    if lost.any():
        (base, exponent), n = _scaled(np.broadcast_to(x1, out.shape)[lost], out.dtype), np.real(x2)
        n = np.broadcast_to(n, out.shape)[lost].astype(float)
        found, shift = base**n, np.maximum(exponent * n, _BELOW).astype(int)
        out.real[lost], out.imag[lost] = np.ldexp(found.real, shift), np.ldexp(found.imag, shift)
    return out
