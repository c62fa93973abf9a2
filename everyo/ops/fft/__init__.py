"""Discrete Fourier transforms."""

from everyo.ops.fft import frequencies, transforms
from everyo.ops.fft.frequencies import *
from everyo.ops.fft.transforms import *

__all__ = [*frequencies.__all__, *transforms.__all__]
