"""Memory shared with other libraries through DLPack, without a copy where the device is the same."""

from __future__ import annotations

from typing import Any

from everyo.core.device import backend_for
from everyo.core.ownership import changeable
from everyo.core.tensor import Tensor, wrap
from everyo.errors import ArgumentError, EveryOError
from everyo.ops.axes import as_flag

__all__ = ["from_dlpack"]


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """Return a tensor on the memory of another library's array, exchanged through DLPack.

    No gradient flows between the two, so an array that takes part in its library's differentiation is
    refused by that library, and a tensor that requires grad by this one.

    Parameters
    ----------
    x : object with ``__dlpack__`` and ``__dlpack_device__``
        An array of NumPy, PyTorch, CuPy, JAX or another library, or a tensor; any shape, and a dtype that
        both sides have.
    device : str, optional
        Where the result lies; by default where `x` does, or "cpu".
    copy : bool, optional
        True always copies and False never does; by default only where the device differs.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Raises
    ------
    GraphStateError
        If `x` is a tensor that requires grad.
    ArgumentError
        If `x` cannot be exchanged: its library refuses, or its device or dtype is unknown here.
    DeviceError
        If there is no `device` of that name.

    Examples
    --------
    >>> import everyo as eo
    >>> import numpy as np
    >>> shared = np.arange(3.0)
    >>> x = eo.from_dlpack(shared)
    >>> np.shares_memory(shared, x.numpy())
    True
    """
    backend, place = backend_for(x.device if device is None and isinstance(x, Tensor) else device)
    negated = getattr(x, "is_neg", None)
    if negated is not None and negated():
        raise ArgumentError(
            "the numbers are the negatives of those in memory, which DLPack cannot say",
            operation="from_dlpack",
            expected="an array whose memory holds its numbers",
            found=f"{type(x).__name__} with is_neg()",
            remedy="write x.resolve_neg() in PyTorch",
        )
    try:
        array = backend.xp.from_dlpack(x)
    except EveryOError:
        raise
    except (BufferError, RuntimeError, TypeError, AttributeError) as error:
        raise ArgumentError(
            "this object cannot be exchanged through DLPack",
            operation="from_dlpack",
            expected=f"an array with __dlpack__, of a dtype and device that {backend.name} has",
            found=f"{type(x).__name__}: {error}",
            remedy="detach it in its own library first, or convert it to a NumPy array: eo.asarray(...)",
        ) from error
    copied = copy is not None and as_flag(copy, "copy", "from_dlpack")
    return changeable(wrap(backend.asarray(array, None, place, copied or None)))
