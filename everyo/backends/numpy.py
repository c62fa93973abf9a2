"""The NumPy backend: device "cpu"."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import numpy as np

from everyo.backends.accelerated import instead_of, slow_functions
from everyo.backends.elementary import (
    DOUBLE,
    erf,
    erfc,
    gelu,
    normal,
    outer_differences,
    power,
    quiet_about_nan,
    sigmoid,
    where,
    where_positive,
    with_sign_of,
)
from everyo.backends.randomness import generator
from everyo.backends.scatter import accumulated, assemble, last_writes, overwrite, replaced
from everyo.backends.scientific import (
    SciPy,
    inverse,
    inverse_and_determinant,
    lapack,
    logm,
    point_distances,
    scipy_linalg,
    solve_factored,
    solve_triangle,
)
from everyo.backends.shortcuts import (
    VIEWS,
    argsort,
    broadcast_to,
    diagonal,
    flip,
    holds_nan,
    matrix_transpose,
    moveaxis,
    permute_dims,
    ravel,
    reduction,
    reshape,
    swapaxes,
    trace,
)
from everyo.backends.windows import overlap_add, sliding_windows
from everyo.core.device import register_backend
from everyo.errors import DTypeError

_LARGE = 65504  # the largest float16: below it no dtype overflows
_MAPPED = (1 << 25) - (1 << 16)  # bytes, a little less than the largest block that glibc learns from


class Watch:
    """A context manager, told by NumPy when a floating-point operation makes a NaN out of numbers."""

    __slots__ = ("_settings", "_token", "tripped")

    def __init__(self) -> None:
        self.tripped = False
        self._token: Any = None
        self._settings = _made_inside(
            np.errstate(divide="ignore", over="ignore", under="ignore", invalid="call", call=self)
        )
        _by_setting[id(self._settings[1])] = self

    def __enter__(self) -> Watch:
        self.tripped = False
        variable, value = self._settings
        self._token = variable.set(value)
        return self

    def __exit__(self, *exc: Any) -> None:
        self._settings[0].reset(self._token)
        _idle.append(self)

    def __call__(self, error: str, flag: int) -> None:
        watch: Watch | None = self
        while watch is not None:  # the levels around compute their rules by the same operations
            watch.tripped = True
            watch = _by_setting.get(id(watch._token.old_value))


_idle: list[Watch] = []  # watches that have ended: to make one takes longer than a small gradient
_by_setting: dict[int, Watch] = {}  # every watch, by the identity of the settings that it enters with


def _made_inside(manager: Any) -> tuple[ContextVar[Any], Any]:
    """Return the context variable that a context manager sets, and the value that it gives it."""
    context = copy_context()
    context.run(manager.__enter__)
    here = copy_context()
    return next((variable, value) for variable, value in context.items() if here.get(variable) is not value)


class NumpyBackend:
    """Arrays in main memory, computed by NumPy."""

    name = "numpy"
    devices = ("cpu",)
    array_types = (np.ndarray, np.generic)

    def __init__(self) -> None:
        self.xp = SimpleNamespace(**{k: v for k, v in vars(np).items() if not k.startswith("_")})
        self.xp.materialize = materialize
        self.xp.holds_nan, self.xp.views = holds_nan, VIEWS
        self.xp.where_positive = where_positive
        self.xp.matrix_transpose, self.xp.moveaxis, self.xp.reshape = matrix_transpose, moveaxis, reshape
        self.xp.permute_dims, self.xp.swapaxes = permute_dims, swapaxes
        self.xp.real, self.xp.imag = attrgetter("real"), attrgetter("imag")
        self.xp.ravel, self.xp.flip, self.xp.diagonal, self.xp.trace = ravel, flip, diagonal, trace
        self.xp.where, self.xp.sigmoid, self.xp.erf, self.xp.erfc = where, sigmoid, erf, erfc
        self.xp.normal, self.xp.gelu = normal, gelu
        self.xp.logaddexp = quiet_about_nan(np.logaddexp)
        self.xp.logaddexp2 = quiet_about_nan(np.logaddexp2)
        self.xp.sum, self.xp.prod = reduction(np.add), reduction(np.multiply)
        self.xp.max, self.xp.min = reduction(np.maximum), reduction(np.minimum)
        self.xp.all, self.xp.any = reduction(np.logical_and, bool), reduction(np.logical_or, bool)
        for name, dtypes in slow_functions().items():
            setattr(self.xp, name, instead_of(getattr(np, name), dtypes))
        for name in ("expm1", "log1p", "sign", "tanh"):
            setattr(self.xp, name, with_limits(name, getattr(self.xp, name)))
        self.xp.divide, self.xp.power, self.xp.complex_power = divide, power, complex_power
        self.xp.fmax_along, self.xp.fmin_along = np.fmax.reduce, np.fmin.reduce
        self.xp.running_max, self.xp.running_min = np.maximum.accumulate, np.minimum.accumulate
        self.xp.sums_between = np.add.reduceat
        self.xp.as_bytes = lambda truths: truths.view(np.uint8)  # quicker than a conversion
        self.xp.broadcast_to, self.xp.argsort = broadcast_to, argsort
        self.xp.accumulated, self.xp.assemble, self.xp.replaced = accumulated, assemble, replaced
        self.xp.overwrite, self.xp.last_writes = overwrite, last_writes
        self.xp.generator = generator
        self.xp.sliding_windows, self.xp.overlap_add = sliding_windows, overlap_add
        self.xp.special, self.xp.scipy_linalg = SciPy("scipy.special"), scipy_linalg
        self.xp.lapack, self.xp.logm = lapack, logm
        self.xp.solve_triangle, self.xp.solve_factored = solve_triangle, solve_factored
        self.xp.point_distances, self.xp.outer_differences = point_distances, outer_differences
        self.xp.with_sign_of = with_sign_of
        self.xp.inverse, self.xp.inverse_and_determinant = inverse, inverse_and_determinant
        self.xp.fft = SciPy("numpy.fft")  # NumPy loads it late, too
        keep_freed_memory()

    def device_of(self, array: Any) -> str:
        """Return "cpu"."""
        return "cpu"

    def asarray(self, value: Any, dtype: Any, device: str, copy: bool | None = None) -> Any:
        """Return a NumPy array of `value`; DTypeError's cause is raised for what is not numeric."""
        array = (
            np.array(value, dtype=dtype, copy=copy) if copy is not None else np.asarray(value, dtype=dtype)
        )
        if array.dtype.kind not in "biufc":
            raise TypeError(f"elements of type {array.dtype} are not numeric")
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))

    def admits(self, kind: type) -> bool:
        """Refuse masked arrays; leave to themselves matrices and classes with rules of their own."""
        if any(base.__name__ == "MaskedArray" for base in kind.__mro__):
            raise DTypeError(
                "a masked array has elements that do not count",
                operation="asarray",
                expected="an array without a mask",
                found=kind.__name__,
                remedy="fill it: a.filled(value), or pass a.data and use eo.where with a.mask",
            )
        if issubclass(kind, np.generic):
            return True
        own = getattr(kind, "__array_ufunc__", None)
        return own is np.ndarray.__array_ufunc__ and not issubclass(kind, np.matrix)

    def scalar_like(self, value: Any, array: Any) -> Any:
        """Return a number as a 0-d array, which NumPy's ufuncs take in half the time of a Python number."""
        fits = array.dtype.kind == "f" and isinstance(value, (float, int)) and abs(value) < _LARGE
        if not fits or isinstance(array, np.generic):  # NumPy's scalars are quickest with Python's
            return value
        made = np.array(value, array.dtype)
        made.flags.writeable = False
        return made

    def to_numpy(self, array: Any) -> Any:
        """Return the array itself."""
        return np.asarray(array)

    def quiet(self) -> Watch:
        """Silence NumPy's floating-point warnings and watch for new NaNs."""
        try:
            return _idle.pop()
        except IndexError:
            return Watch()


def keep_freed_memory() -> None:
    """Let glibc keep up to 64 MB that have been freed, instead of twice the largest block so far.

    Otherwise a backward pass on large arrays spends most of its time on pages that the system takes back and
    makes anew. It is glibc's own rule: a block of this size, mapped and freed, moves the threshold. Nobody
    writes into the block, so it costs no memory; a threshold that the user has set stays.
    """
    np.empty(_MAPPED, np.uint8)


def with_limits(name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that has the standard's values at complex zeros and infinities."""

    def evaluate(x: Any) -> Any:
        try:
            kind = x.dtype.kind
        except AttributeError:  # a rule reads a Python number
            return evaluate(np.asarray(x)[()])
        if kind != "c":
            return function(x)
        from everyo.backends import complex_limits

        return getattr(complex_limits, name)(x, function)

    return evaluate


def divide(x1: Any, x2: Any) -> Any:
    """Return a quotient; a complex one that NumPy loses at the ends of the range is mended."""
    out = np.divide(x1, x2)
    if out.dtype is DOUBLE or out.dtype.kind != "c":  # the first is asked in half the time
        return out
    from everyo.backends import complex_limits

    return complex_limits.quotient(x1, x2, out)


def complex_power(x1: Any, x2: Any, out: Any) -> Any:
    """Return a power of complex numbers, given NumPy's, that is mended likewise."""
    from everyo.backends import complex_limits

    return complex_limits.power(x1, x2, out)


def materialize(array: Any) -> Any:
    """Return an array that owns its elements: neither a NumPy scalar nor a broadcast view."""
    array = np.asarray(array)
    return array.copy() if 0 in array.strides and array.size > 1 else array


register_backend(NumpyBackend())
