"""Discrete Fourier transforms: NumPy's ``fft`` and the Array API standard's, with derivatives."""

from everyo.guidance import unknown_name as _unknown_name
from everyo.ops import fft as _fft
from everyo.ops.fft import *  # noqa: F403

__all__ = _fft.__all__

__getattr__ = _unknown_name(__name__)
