"""A second backend for the tests: arrays of a class that NumPy's own functions refuse.

It computes with the NumPy backend's namespace, but only through its own: an operation that named NumPy
itself would fail on its arrays.
"""

from __future__ import annotations

import operator
import types
from contextlib import contextmanager
from typing import Any

import numpy as np

from everyo.backends.scientific import SciPy
from everyo.core.device import backend_for


def unwrap(value: Any) -> Any:
    if isinstance(value, MirrorArray):
        return value.inner
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(unwrap(v) for v in value)
    if isinstance(value, slice):
        return slice(unwrap(value.start), unwrap(value.stop), unwrap(value.step))
    return value


def wrap(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return MirrorArray(np.asarray(value))
    if isinstance(value, (tuple, list)):
        made = [wrap(v) for v in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return value


class MirrorArray:
    """An array that only its own backend's functions accept."""

    __array_ufunc__ = None
    __array_function__ = None

    def __init__(self, inner: np.ndarray) -> None:
        self.inner = inner

    shape = property(lambda self: self.inner.shape)
    dtype = property(lambda self: self.inner.dtype)
    ndim = property(lambda self: self.inner.ndim)
    size = property(lambda self: self.inner.size)
    nbytes = property(lambda self: self.inner.nbytes)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a mirror array was given to NumPy")

    def __getitem__(self, index: Any) -> MirrorArray:
        return wrap(self.inner[unwrap(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.inner[unwrap(index)] = unwrap(value)

    def __bool__(self) -> bool:
        return bool(self.inner)

    def __int__(self) -> int:
        return int(self.inner)

    def __index__(self) -> int:
        return operator.index(self.inner)

    def __float__(self) -> float:
        return float(self.inner)

    def __len__(self) -> int:
        return len(self.inner)

    def copy(self) -> MirrorArray:
        return MirrorArray(self.inner.copy())


def _binary(name: str) -> Any:
    method = getattr(operator, name)

    def left(self: MirrorArray, other: Any) -> Any:
        return wrap(method(self.inner, unwrap(other))) if _known(other) else NotImplemented

    def right(self: MirrorArray, other: Any) -> Any:
        return wrap(method(unwrap(other), self.inner)) if _known(other) else NotImplemented

    return left, right


def _known(other: Any) -> bool:
    return isinstance(other, (MirrorArray, bool, int, float, complex))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    _left, _right = _binary(_name)
    setattr(MirrorArray, f"__{_name}__", _left)
    setattr(MirrorArray, f"__r{_name}__", _right)
for _name in ("and_", "or_", "xor", "eq", "ne", "lt", "le", "gt", "ge"):
    setattr(MirrorArray, f"__{_name.strip('_')}__", _binary(_name)[0])
for _name in ("and_", "or_", "xor"):
    setattr(MirrorArray, f"__r{_name.strip('_')}__", _binary(_name)[1])
for _function in (operator.neg, operator.invert, operator.abs):
    setattr(MirrorArray, f"__{_function.__name__}__", lambda self, f=_function: wrap(f(self.inner)))


class _Namespace:
    """Every function of the NumPy backend's namespace, on mirror arrays."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._xp, name)
        if isinstance(found, (types.ModuleType, SciPy)):  # its linalg, fft, special
            return _Namespace(found)
        if not callable(found) or isinstance(found, type):
            return found

        def function(*args: Any, **kwargs: Any) -> Any:
            kwargs = {k: unwrap(v) for k, v in kwargs.items()}
            return wrap(found(*(unwrap(a) for a in args), **kwargs))

        return function


class MirrorBackend:
    """Device "mirror"."""

    name = "mirror"
    devices = ("mirror",)
    array_types = (MirrorArray,)

    def admits(self, kind: type) -> bool:
        return True

    def __init__(self) -> None:
        self._numpy = backend_for("cpu")[0]
        self.xp = _Namespace(self._numpy.xp)

    def device_of(self, array: Any) -> str:
        return "mirror"

    def asarray(self, value: Any, dtype: Any, device: str, copy: bool | None = None) -> Any:
        return wrap(self._numpy.asarray(unwrap(value), dtype, "cpu", copy))

    def to_numpy(self, array: MirrorArray) -> Any:
        return array.inner

    def scalar_like(self, value: Any, array: Any) -> Any:
        return value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._numpy, name)

    @contextmanager
    def quiet(self) -> Any:
        with self._numpy.quiet() as watch:
            yield watch
