"""Devices and their backends: one registry, looked up by device name or by array type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from everyo.errors import DeviceError, describe


class Backend(Protocol):
    """An Array API namespace for one kind of array, plus the few calls the standard lacks.

    Attributes
    ----------
    name : str
        What error messages call it.
    devices : tuple of str
        The devices it serves.
    array_types : tuple of type
        The classes of its arrays.
    xp : Any
        The namespace that kernels receive: the Array API's functions and `everyo.backends`' extras.
    """

    @property
    def name(self) -> str: ...
    @property
    def devices(self) -> tuple[str, ...]: ...
    @property
    def array_types(self) -> tuple[type, ...]: ...
    @property
    def xp(self) -> Any: ...

    def device_of(self, array: Any) -> str:
        """Return the device that holds `array`."""
        ...

    def asarray(self, value: Any, dtype: Any, device: str, copy: bool | None = None) -> Any:
        """Return `value` as an array on `device`; `copy` as in the Array API."""
        ...

    def admits(self, kind: type) -> bool:
        """Whether arrays of a subclass mean what those of `array_types` mean, and may be taken for them."""
        ...

    def to_numpy(self, array: Any) -> Any:
        """Return the array as a NumPy array, without a copy where that is possible."""
        ...

    def scalar_like(self, value: Any, array: Any) -> Any:
        """Return a real Python number as a 0-d array of the dtype of `array`, where that is quicker.

        The number itself comes back wherever the array would make another result (of another dtype). An
        array is kept and given out again, for arrays of the same class and dtype.
        """
        ...

    def quiet(self) -> Any:
        """Return a context manager that silences floating-point warnings and watches for new NaNs.

        The object it yields has ``tripped``, true once an invalid operation (0 * inf, inf - inf)
        has made a NaN from numbers.
        """
        ...


_by_device: dict[str, Backend] = {}
_by_type: dict[type, Backend] = {}
# What `scalar_like` returns, by class of array, then by dtype and number.
_numbers: dict[type, dict[tuple[Any, Any], Any]] = {}
converters: dict[type, Any] = {}  # what `converter` returns, by class
_known = {"cuda", "mps", "gpu", "tpu", "xla"}


def register_backend(backend: Backend) -> None:
    """Make `backend` serve its devices and array types."""
    for device in backend.devices:
        if device in _by_device:
            raise DeviceError(
                "the device already has a backend",
                operation="register_backend",
                expected="devices that no backend serves yet",
                found=device,
                remedy="unregister_backend(...) the other one first",
            )
    _by_device.update(dict.fromkeys(backend.devices, backend))
    _by_type.update(dict.fromkeys(backend.array_types, backend))


def unregister_backend(backend: Backend) -> None:
    """Forget `backend`; tensors it already made keep working until their next operation."""
    for device in [d for d, b in _by_device.items() if b is backend]:
        del _by_device[device]
    for kind in [k for k, b in _by_type.items() if b is backend]:
        del _by_type[kind]
    _numbers.clear()
    converters.clear()


def backend_for(device: str | None) -> tuple[Backend, str]:
    """Return the backend that serves `device` and the device's full name; ``None`` means "cpu"."""
    name = "cpu" if device is None else str(device)
    backend = _by_device.get(name)
    if backend is None:
        known = name.split(":")[0] in _known
        raise DeviceError(
            f"device {name!r} is not available" if known else f"device {name!r} is unknown",
            operation="device",
            expected="one of " + ", ".join(repr(d) for d in sorted(_by_device)),
            found=repr(device),
            remedy='EveryO computes on the CPU: leave the device out, or use device="cpu"',
        )
    return backend, name


def backend_of(array: Any) -> Backend | None:
    """Return the backend whose arrays `array` is one of, or None for anything else."""
    kind = type(array)
    backend = _by_type.get(kind)
    if backend is None:
        for base in kind.__mro__[1:-1]:
            if base in _by_type:
                heir = _by_type[base].admits(kind)
                return _by_type.setdefault(kind, _by_type[base]) if heir else None
    return backend


def scalar_like(value: Any, array: Any) -> Any:
    """Return a Python number as the backend of `array`, if it is an array, computes with it quickest."""
    known = _numbers.get(array.__class__)
    if known is None:
        if backend_of(array) is None:
            return value
        known = _numbers.setdefault(array.__class__, {})
    if value.__class__ is complex:  # which may equal a real number
        return value
    key = array.dtype, value or repr(value)  # 0.0 and -0.0 are equal
    try:
        return known[key]
    except KeyError:
        pass
    backend = backend_of(array)
    made = value if backend is None else backend.scalar_like(value, array)
    if array.dtype.kind == "f":  # elsewhere 1, True and 1.0 are not alike
        if len(known) > 1000:
            known.clear()
        known[key] = made
    return made


def converter(value: Any) -> Any:
    """Return what makes arrays of the scalars of a backend; None for a class that needs no conversion."""
    backend = backend_of(value)
    if backend is None:
        return None
    kind = value.__class__
    return converters.setdefault(kind, None if kind is backend.array_types[0] else backend.xp.asarray)


def common_backend(arrays: Iterable[Any], operation: str) -> Backend:
    """Return the one backend that all `arrays` belong to; values of no backend are passed over."""
    found: Backend | None = None
    for array in arrays:
        backend = backend_of(array)
        if backend is None:
            continue
        if found is not None and backend is not found:
            raise DeviceError(
                "operands live on different devices",
                operation=operation,
                inputs=describe(*arrays),
                expected=f"all on {found.devices[0]!r}",
                found=f"one on {backend.devices[0]!r}",
                remedy=f'move it first: x.to("{found.devices[0]}")',
            )
        found = backend
    return found or backend_for(None)[0]


def available_devices() -> list[str]:
    """Return the names of the devices that have a backend.

    Returns
    -------
    list of str
        "cpu", and what other backends have registered.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.available_devices()
    ['cpu']
    """
    return sorted(_by_device)
