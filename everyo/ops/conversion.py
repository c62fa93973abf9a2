"""Conversion: the same elements in another dtype, on another device, or in memory of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from everyo.core.batching import unchanged
from everyo.core.device import backend_for, backend_of
from everyo.core.dispatch import apply
from everyo.core.dtypes import DIFFERENTIABLE, as_dtype
from everyo.core.ownership import changeable
from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.core.tensor import Tensor
from everyo.errors import DTypeError, describe
from everyo.ops.axes import as_flag
from everyo.ops.creation import as_tensor
from everyo.ops.families import linear, primitive, public
from everyo.ops.signatures import explained

__all__ = ["astype", "clone", "copy", "to"]


@primitive(
    vjp=lambda g, x_dtype: op.astype(g, dtype=x_dtype),
    jvp=lambda t, dtype: op.astype(t, dtype=dtype) if as_dtype(dtype).kind in DIFFERENTIABLE else None,
    samples=lambda: [sample((2, 3), dtype="float64"), sample((), dtype="complex128")],
    family="linear",
    batch=unchanged,
)
def _astype(xp: Any, x: Any, *, dtype: Any) -> Any:
    if x.dtype == dtype:
        return x
    return xp.astype(xp.real(x) if x.dtype.kind == "c" and xp.dtype(dtype).kind not in "cb" else x, dtype)


@linear(lambda g: g, samples=lambda: [sample((2, 3)), sample(())], batch=unchanged)
def _alias(xp: Any, x: Any) -> Any:
    """The same elements under a node of their own."""
    return x


def _of_its_own(function: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
    @functools.wraps(function)
    def call(x: Any, /) -> Tensor:
        return changeable(function(x))

    return call


@explained
@_of_its_own
@public
@linear(lambda g: g, samples=lambda: [sample((2, 3)), sample(()), sample((0,))], batch=unchanged)
def copy(xp: Any, x: Any) -> Any:
    """Return the elements in memory of their own, still in the graph; the gradient passes unchanged.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.ones(2, requires_grad=True)
    >>> eo.copy(x).requires_grad
    True
    """
    return xp.asarray(x, copy=True)


def clone(x: Any, /) -> Tensor:
    """Return the elements in memory of their own, still in the graph: `copy` under PyTorch's name.

    The gradient passes unchanged.

    Parameters
    ----------
    x : tensor, array or number
        Of any shape and dtype.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Raises
    ------
    DTypeError
        If `x` is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.ones(2).clone())
    [1. 1.]
    """
    return copy(x)


@linear(
    lambda g, source, target: op.to_device(g, source=target, target=source),
    samples=lambda: [sample((2, 3), source="cpu", target="cpu")],
    batch=unchanged,
)
def _to_device(xp: Any, x: Any, *, source: str, target: str) -> Any:
    backend, place = backend_for(target)
    own = backend_of(x)
    return backend.asarray(x if own is None or own is backend else own.to_numpy(x), None, place)


@explained
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """Return the elements in another dtype.

    The gradient comes back in the dtype of `x`. An integer or boolean result carries no gradient.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.
    dtype : dtype-like
        The dtype of the result.
    copy : bool, default True
        False returns `x` itself where there is nothing to convert.
    device : str, optional
        Where the result goes.

    Returns
    -------
    Tensor
        Of the same shape, in `dtype`.

    Raises
    ------
    DTypeError
        If `x` or `dtype` is not numeric, or `dtype` is neither complex nor boolean while `x` is complex.
    DeviceError
        If the device is unknown or unavailable.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.astype(eo.tensor([1.7, -1.7]), eo.int64))
    [ 1 -1]
    """
    x = as_tensor(x)
    dtype = as_dtype(dtype)
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        raise DTypeError(
            "a complex tensor would lose its imaginary part",
            operation="astype",
            inputs=describe(x),
            expected="a complex dtype",
            found=str(dtype),
            remedy="write eo.real(x) first",
        )
    moved = x if device is None else to(x, device)
    if moved.dtype == dtype and not as_flag(copy, "copy", "astype"):
        return moved
    return apply(_astype, (moved,), {"dtype": dtype})


def to(x: Any, /, *targets: Any, device: str | None = None, dtype: Any = None) -> Tensor:
    """Return `x` on a device, in a dtype, or both; `x` itself where there is nothing to do.

    The gradient goes back to the device and dtype of `x`.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.
    *targets : str, dtype-like or tensor
        A device, a dtype, or a tensor to follow in both.
    device : str, optional
        The device by name.
    dtype : dtype-like, optional
        The dtype by name.

    Returns
    -------
    Tensor
        Of the same shape.

    Raises
    ------
    DeviceError
        If a device is unknown or unavailable.
    DTypeError
        If `x` or a dtype is not numeric, or would take the imaginary part from `x`.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.ones(2).to("cpu", eo.float64).dtype
    dtype('float64')
    """
    x = as_tensor(x)
    for target in targets:
        if isinstance(target, Tensor):
            device, dtype = target.device, target.dtype
        elif isinstance(target, str) and not _names_dtype(target):
            device = target
        else:
            dtype = target
    if device is not None:
        source, place = x.device, backend_for(device)[1]
        if place != source:
            x = apply(_to_device, (x,), {"source": source, "target": place})
    return x if dtype is None else astype(x, dtype, copy=False)


def _names_dtype(name: str) -> bool:
    try:
        as_dtype(name)
    except DTypeError:
        return False
    return True
