"""What the namespace can do, as the Array API standard asks for it."""

from __future__ import annotations

from typing import Any

from everyo.core import dtypes
from everyo.core.device import available_devices, backend_for
from everyo.core.dtypes import DType, default_for, get_default_dtype
from everyo.ops.data_types import letters

__all__ = ["__array_namespace_info__"]

_STANDARD = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip


class NamespaceInfo:
    """What `__array_namespace_info__` returns.

    Examples
    --------
    >>> import everyo as eo
    >>> info = eo.__array_namespace_info__()
    >>> info.default_device(), info.default_dtypes()["real floating"]
    ('cpu', dtype('float32'))
    """

    def capabilities(self) -> dict[str, Any]:
        """Return what shapes and indices may depend on, and how many axes a tensor may have."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Return the device of what is created without naming one."""
        return "cpu"

    def devices(self) -> tuple[str, ...]:
        """Return the devices that have a backend."""
        return tuple(available_devices())

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """Return the dtypes of what is created without naming one; see `everyo.set_default_dtype`."""
        backend_for(device)
        complex_dtype = default_for("c")
        assert complex_dtype is not None
        return {
            "real floating": get_default_dtype(),
            "complex floating": complex_dtype,
            "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """Return the standard's dtypes by name, all or those of a kind (or of one of several)."""
        backend_for(device)
        known = {name: dtypes.as_dtype(name) for name in _STANDARD}
        if kind is None:
            return known
        kinds = kind if isinstance(kind, tuple) else (kind,)
        wanted = "".join(letters(k, "dtypes") for k in kinds)
        return {name: dtype for name, dtype in known.items() if dtype.kind in wanted}


def __array_namespace_info__() -> NamespaceInfo:
    """Return what describes this namespace: its capabilities, devices and dtypes.

    Returns
    -------
    NamespaceInfo
        With the methods ``capabilities``, ``default_device``, ``default_dtypes``, ``devices``, ``dtypes``.

    Examples
    --------
    >>> import everyo as eo
    >>> sorted(eo.__array_namespace_info__().dtypes(kind="complex floating"))
    ['complex128', 'complex64']
    """
    return NamespaceInfo()
