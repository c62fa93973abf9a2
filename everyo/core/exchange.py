"""A tensor's memory handed to other libraries through DLPack, without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everyo.core.traced import innermost
from everyo.errors import ArgumentError, describe

if TYPE_CHECKING:
    from everyo.core.tensor import Tensor

READ_ONLY_SINCE = (1, 0)  # the version of DLPack from which a capsule can say that it is read-only


def export(x: Tensor, stream: Any, max_version: Any, dl_device: Any, copy: bool | None) -> Any:
    """Return a DLPack capsule of the memory of `x`, read-only where the version can say so."""
    x.require_constant("__dlpack__")
    array = x.concrete("__dlpack__")
    if copy is None and any(stride < 0 for stride in getattr(array, "strides", ())):
        copy = True  # PyTorch ends the process at a negative stride
    versioned = max_version is not None and tuple(max_version) >= READ_ONLY_SINCE
    if copy:
        array = x.backend.xp.asarray(array, copy=True)
    elif hasattr(array, "flags"):
        array = _guarded(array, versioned, copy)
    options = {"stream": stream, "max_version": max_version if versioned else None, "dl_device": dl_device}
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return array.__dlpack__(**given)
    except TypeError:  # a library of the time before versions
        return array.__dlpack__()
    except (BufferError, RuntimeError, ValueError) as error:
        raise ArgumentError(
            "the tensor cannot be exchanged in this way",
            operation="__dlpack__",
            inputs=describe(x),
            expected=f"what device {x.device!r} can hand over",
            found=f"{', '.join(f'{name}={value!r}' for name, value in given.items())}: {error}",
            remedy="leave the options out, or move the tensor first: x.to(...)",
        ) from error


def _guarded(array: Any, versioned: bool, copy: bool | None) -> Any:
    """Return a read-only view where a capsule can say so; elsewhere an array that may be written into."""
    if versioned:
        view = array.view()
        view.flags.writeable = False
        return view
    return array if array.flags.writeable or copy is False else array.copy()


def device_of(x: Tensor) -> tuple[int, int]:
    """Return the device of `x` as DLPack numbers it: its kind (1 is the main memory) and its index."""
    kind, index = innermost(x).__dlpack_device__()
    return int(kind), int(index)
