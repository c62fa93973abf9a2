"""Discrete Fourier transforms: NumPy's ``fft`` and the Array API standard's, with derivatives."""

from everyo.ops import fft as _fft
from everyo.ops.fft import *  # noqa: F403

__all__ = _fft.__all__


def __getattr__(name: str) -> object:
    from everyo.guidance.names import missing

    raise AttributeError(missing(name, __name__), name=name)
