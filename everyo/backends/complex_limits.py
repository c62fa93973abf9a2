"""Complex functions at zeros and infinities, where the Array API standard asks for more than NumPy."""

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
