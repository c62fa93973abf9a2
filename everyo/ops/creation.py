"""Creation: tensors from Python data, from arrays and from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everyo.core.device import backend_for, backend_of
from everyo.core.dispatch import array_from, wrap
from everyo.core.dtypes import as_dtype, default_for, get_default_dtype
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import DeviceError


def tensor(data: Any, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """Return a new leaf tensor with a copy of `data`.

    Parameters
    ----------
    data : tensor, array, number or nested lists
        The elements. Python floats take the default dtype (float32 unless set); arrays keep theirs.
    dtype : dtype-like, optional
        The dtype of the result.
    device : str, optional
        Where the data goes; "cpu" by default.
    requires_grad : bool, default False
        Whether operations on the tensor are recorded.

    Returns
    -------
    Tensor
        A leaf that shares no memory with `data`.

    Raises
    ------
    DTypeError
        If the data are not numeric, or an integer tensor is to require grad.
    DeviceError
        If the device is unknown or unavailable.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.tensor([1.0, 2.0], requires_grad=True)
    tensor([1., 2.], dtype=float32, shape=(2,), requires_grad=True)
    """
    array = _array(data, dtype, device, copy=True, operation="tensor")
    made = wrap(array)
    return made.requires_grad_() if requires_grad else made


def _array(data: Any, dtype: Any, device: str | None, copy: bool | None, operation: str) -> Any:
    """Return data as a raw array on `device`."""
    if isinstance(data, Tensor):
        device = data.device if device is None else device
        data = data.data
    backend, place = backend_for(device)
    source = backend_of(data)
    wanted = None if dtype is None else as_dtype(dtype)
    if source is None:
        data = array_from(data, backend, place, operation)
    elif source is not backend:
        data = source.to_numpy(data)
    return backend.asarray(data, wanted, place, copy)


def asarray(data: Any, /, *, dtype: Any = None, device: str | None = None, copy: bool | None = None) -> Tensor:
    """Return `data` as a tensor, sharing memory where that is possible.

    A tensor of the right dtype comes back as it is, with its graph.

    Parameters
    ----------
    data : tensor, array, number or nested lists
        The elements.
    dtype : dtype-like, optional
        The dtype of the result.
    device : str, optional
        Where the data goes.
    copy : bool, optional
        True always copies, False never does (ValueError if it would have to), None copies if needed.

    Examples
    --------
    >>> import everyo as eo
    >>> import numpy as np
    >>> eo.asarray(np.arange(3.0)).dtype
    dtype('float64')
    """
    if isinstance(data, Tensor):
        if device is not None and device != data.device:
            return data.to(device)  # type: ignore[no-any-return]
        result = data if dtype is None else data.astype(dtype)
        return op.copy(result) if copy and result is data else result  # type: ignore[no-any-return]
    return wrap(_array(data, dtype, device, copy, "asarray"))


def as_tensor(value: Any) -> Tensor:
    """Return an operand of a public function as a tensor; tensors pass through untouched."""
    return value if isinstance(value, Tensor) else asarray(value)


def from_numpy(array: Any) -> Tensor:
    """Return a tensor that shares the memory of a NumPy array.

    Overwriting the array between a forward and a backward pass makes gradients wrong; under
    `detect_anomaly` it raises.

    Examples
    --------
    >>> import everyo as eo
    >>> import numpy as np
    >>> a = np.zeros(2)
    >>> t = eo.from_numpy(a)
    >>> a[0] = 5.0
    >>> print(t)
    [5. 0.]
    """
    return asarray(array)


def _made(array: Any, requires_grad: bool) -> Tensor:
    made = wrap(array)
    return made.requires_grad_() if requires_grad else made


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (int(shape),) if not isinstance(shape, Sequence) else tuple(int(n) for n in shape)


def full(
    shape: int | Sequence[int],
    fill_value: float,
    *,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor filled with one value.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.full((2,), 7.0))
    [7. 7.]
    """
    backend, place = backend_for(device)
    value = _array(fill_value, dtype, place, None, "full")
    return _made(backend.asarray(backend.xp.full(_shape(shape), value), None, place), requires_grad)


def zeros(
    shape: int | Sequence[int], *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of zeros.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.zeros((2, 2)))
    [[0. 0.]
     [0. 0.]]
    """
    return full(shape, 0, dtype=get_default_dtype() if dtype is None else dtype, device=device, requires_grad=requires_grad)


def ones(
    shape: int | Sequence[int], *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of ones.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.ones(3))
    [1. 1. 1.]
    """
    return full(shape, 1, dtype=get_default_dtype() if dtype is None else dtype, device=device, requires_grad=requires_grad)
