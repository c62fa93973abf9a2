"""Complex functions at zeros and infinities, where more is asked for than NumPy gives.

The limits are the Array API standard's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[[Any], Any]


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
