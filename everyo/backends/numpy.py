"""The NumPy backend: device "cpu"."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from everyo.core.device import register_backend


class Watch:
    """Told by NumPy when a floating-point operation makes a NaN out of numbers."""

    __slots__ = ("tripped",)

    def __init__(self) -> None:
        self.tripped = False

    def __call__(self, error: str, flag: int) -> None:
        self.tripped = True


class NumpyBackend:
    """Arrays in main memory, computed by NumPy."""

    name = "numpy"
    devices = ("cpu",)
    array_types = (np.ndarray, np.generic)

    def __init__(self) -> None:
        self.xp = SimpleNamespace(**{k: v for k, v in vars(np).items() if not k.startswith("_")})
        self.xp.materialize = materialize

    def device_of(self, array: Any) -> str:
        """Return "cpu"."""
        return "cpu"

    def asarray(self, value: Any, dtype: Any, device: str, copy: bool | None = None) -> Any:
        """Return a NumPy array of `value`; DTypeError's cause is raised for what is not numeric."""
        array = np.array(value, dtype=dtype, copy=copy) if copy is not None else np.asarray(value, dtype=dtype)
        if array.dtype.kind not in "biufc":
            raise TypeError(f"elements of type {array.dtype} are not numeric")
        return array

    def to_numpy(self, array: Any) -> Any:
        """Return the array itself."""
        return np.asarray(array)

    @contextmanager
    def quiet(self) -> Iterator[Watch]:
        """Silence NumPy's floating-point warnings and watch for new NaNs."""
        watch = Watch()
        with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="call", call=watch):
            yield watch


def materialize(array: Any) -> Any:
    """Return an array that owns its elements: neither a NumPy scalar nor a broadcast view."""
    array = np.asarray(array)
    return array.copy() if 0 in array.strides and array.size > 1 else array


register_backend(NumpyBackend())
