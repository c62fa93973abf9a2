"""Random numbers of the NumPy backend: a Philox generator, created when it is first needed."""

from __future__ import annotations

import _thread
import contextlib
from typing import Any

import numpy as np

_Reentrant = _thread.RLock


class NumpyRandom:
    """A stream of random arrays. Each call is atomic, so that threads may share the stream."""

    def __init__(self, seed: Any) -> None:
        self.stream = np.random.Generator(np.random.Philox(seed))  # numpy.random loads here, not earlier

    def _real(self, draw: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return ``draw(shape, dtype)``; float16, which NumPy cannot draw, is rounded from float32."""
        native = dtype if dtype.itemsize >= 4 else np.dtype("float32")
        return np.asarray(draw(shape, native)).astype(dtype, copy=False)

    def uniform(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return numbers from [0, 1)."""
        drawn = self._real(lambda s, d: self.stream.random(s, d), shape, dtype)
        if dtype.itemsize < 4:  # rounding may have reached 1
            drawn = np.minimum(drawn, np.nextafter(dtype.type(1), dtype.type(0)))
        return drawn

    def normal(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return numbers of mean 0 and variance 1."""
        return self._real(lambda s, d: self.stream.standard_normal(s, d), shape, dtype)

    def exponential(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return numbers of mean 1."""
        return self._real(lambda s, d: self.stream.standard_exponential(s, d), shape, dtype)

    def integers(self, low: int, high: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return integers from [low, high)."""
        return np.asarray(self.stream.integers(low, high, shape, dtype))

    def permutation(self, n: int) -> Any:
        """Return 0, ..., n - 1 in random order."""
        return self.stream.permutation(n)

    def choice(self, n: int, shape: tuple[int, ...], replace: bool, p: Any) -> Any:
        """Return `shape` integers below `n`, drawn with the probabilities `p`."""
        return np.asarray(self.stream.choice(n, shape, replace, p))

    def noted(self, kind: str, arguments: tuple[Any, ...]) -> tuple[dict[str, Any], Any]:
        """Return the position in the stream and what is drawn there, while no other thread draws."""
        lock = self.stream.bit_generator.lock
        with lock if isinstance(lock, _Reentrant) else contextlib.nullcontext():
            return self.get_state(), getattr(self, kind)(*arguments)

    def get_state(self) -> dict[str, Any]:
        """Return the position in the stream."""
        return dict(self.stream.bit_generator.state)

    def set_state(self, state: dict[str, Any]) -> None:
        """Go to a position that `get_state` returned."""
        self.stream.bit_generator.state = state


def generator(seed: Any) -> NumpyRandom:
    """Return a new stream; None takes a seed from the operating system."""
    return NumpyRandom(seed)
