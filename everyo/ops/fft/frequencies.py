"""The frequencies that a transform speaks of, and their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.device import backend_for
from everyo.core.dtypes import as_dtype, get_default_dtype
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError
from everyo.ops.axes import normalize_axis, normalize_shape
from everyo.ops.creation import as_tensor, made, real_number
from everyo.ops.fft.transforms import checked_length
from everyo.ops.signatures import composed, explained

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _frequencies(name: str, n: Any, d: Any, dtype: Any, device: str | None) -> Tensor:
    n, d = checked_length(n, name), real_number(d, name, "d")
    normalize_shape(n, name)
    if not d:
        raise ArgumentError(
            "points without a distance have no frequencies",
            operation=name,
            expected="d other than 0",
            found=repr(d),
            remedy="pass the distance of two points, or leave it out for 1",
        )
    dtype = get_default_dtype() if dtype is None else as_dtype(dtype)
    backend, place = backend_for(device)
    return made(backend.asarray(getattr(backend.xp.fft, name)(n, d), dtype, place), False, name)


@explained
def fftfreq(n: int, /, d: float = 1.0, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Return the frequencies of the result of `fft`: ``0, 1, ..., -2, -1`` divided by ``n d``.

    Parameters
    ----------
    n : int
        How many points were transformed.
    d : float, default 1.0
        How far apart they are.
    dtype : dtype-like, optional
        By default the default float dtype.
    device : str, optional
        Where the tensor lives.

    Returns
    -------
    Tensor
        Of shape ``(n,)``; it carries no gradient.

    Raises
    ------
    ShapeError
        If `n` is not positive.
    ArgumentError
        If `d` is 0.
    DTypeError
        If `n` is no integer, `d` no real number, or there is no such dtype.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.fft.fftfreq(4))
    [ 0.    0.25 -0.5  -0.25]
    """
    return _frequencies("fftfreq", n, d, dtype, device)


@explained
def rfftfreq(n: int, /, d: float = 1.0, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Return the frequencies of the result of `rfft`: ``0, 1, ..., n // 2`` divided by ``n d``.

    Parameters
    ----------
    n : int
        How many points were transformed.
    d : float, default 1.0
        How far apart they are.
    dtype : dtype-like, optional
        By default the default float dtype.
    device : str, optional
        Where the tensor lives.

    Returns
    -------
    Tensor
        Of shape ``(n // 2 + 1,)``; it carries no gradient.

    Raises
    ------
    ShapeError
        If `n` is not positive.
    ArgumentError
        If `d` is 0.
    DTypeError
        If `n` is no integer, `d` no real number, or there is no such dtype.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.fft.rfftfreq(4))
    [0.   0.25 0.5 ]
    """
    return _frequencies("rfftfreq", n, d, dtype, device)


def _shifted(x: Any, axes: Any, amount: Callable[[int], int], operation: str) -> Tensor:
    x = as_tensor(x)
    chosen = range(x.ndim) if axes is None else [axes] if not isinstance(axes, Sequence) else axes
    places = tuple([normalize_axis(a, x.ndim, operation) for a in chosen])
    return op.roll(x, shift=tuple([amount(x.shape[a]) for a in places]), axis=places)


@composed
def fftshift(x: Any, /, axes: int | Sequence[int] | None = None) -> Tensor:
    """Move frequency 0 from the front to the middle.

    The gradient is moved back.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.
    axes : int or sequence of int, optional
        The axes along which it is moved; by default all.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Raises
    ------
    IndexingError
        If there is no such axis.
    DTypeError
        If an axis is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.fft.fftshift(eo.fft.fftfreq(4)))
    [-0.5  -0.25  0.    0.25]
    """
    return _shifted(x, axes, lambda n: n // 2, "fftshift")


@composed
def ifftshift(x: Any, /, axes: int | Sequence[int] | None = None) -> Tensor:
    """Undo `fftshift`: move frequency 0 from the middle to the front.

    The gradient is moved back.

    Parameters
    ----------
    x : tensor
        Of any shape and dtype.
    axes : int or sequence of int, optional
        The axes along which it is moved; by default all.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Raises
    ------
    IndexingError
        If there is no such axis.
    DTypeError
        If an axis is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.fft.ifftshift(eo.fft.fftshift(eo.fft.fftfreq(5))))
    [ 0.   0.2  0.4 -0.4 -0.2]
    """
    return _shifted(x, axes, lambda n: -(n // 2), "ifftshift")
