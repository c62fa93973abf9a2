"""The transforms: lengths, axes and norms made ready for the primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from everyo.core.dispatch import apply
from everyo.core.dtypes import float16, float32
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, ShapeError, describe
from everyo.ops.axes import as_integer, as_items, normalize_axis
from everyo.ops.docstrings import described
from everyo.ops.fft.primitives import OPPOSITE, _dft, _irfft, _rfft
from everyo.ops.reductions import inexact
from everyo.ops.signatures import explained

__all__ = [
    "fft", "fft2", "fftn", "hfft", "ifft", "ifft2", "ifftn", "ihfft", "irfft", "irfft2", "irfftn", "rfft",
    "rfft2", "rfftn",
]  # fmt: skip


F = TypeVar("F", bound=Callable[..., Any])


def _numbers(x: Any) -> Tensor:
    """Return what is transformed: a tensor of float32 or more."""
    x = inexact(x)
    return op.astype(x, dtype=float32) if x.dtype == float16 else x


def _checked_norm(norm: Any, operation: str) -> str:
    if norm is None:
        return "backward"
    if not isinstance(norm, str) or norm not in OPPOSITE:
        raise ArgumentError(
            "there is no such normalization",
            operation=operation,
            expected='norm="backward", "ortho" or "forward"',
            found=repr(norm),
            remedy='leave it out for "backward": the inverse transform divides by n',
        )
    return norm


def checked_length(n: Any, operation: str) -> int:
    n = as_integer(n, "a length", operation)
    if n < 1:
        raise ShapeError(
            "there is nothing to transform",
            operation=operation,
            expected="at least one point along each axis",
            found=f"{n} points",
            remedy="leave empty tensors out, or pass n or s to pad them with zeros",
        )
    return n


def _resized(x: Tensor, axis: int, n: int) -> Tensor:
    """Return `x` cut or padded with zeros at its end to `n` elements along an axis."""
    size = x.shape[axis]
    if size > n:
        return x[(slice(None),) * axis + (slice(0, n),)]
    if size == n:
        return x
    widths = tuple([(0, n - size) if i == axis else (0, 0) for i in range(x.ndim)])
    return op.pad(x, pad_width=widths, value=0)


def _axes(x: Tensor, s: Any, axes: Any, operation: str) -> tuple[tuple[int, ...], list[int | None]]:
    """Return the axes to transform and, for each, the length that was asked for."""
    if s is not None:
        s = as_items(s, "s", operation)
    lengths = None if s is None else [-1 if n == -1 else checked_length(n, operation) for n in s]
    if axes is None:
        axes = range(x.ndim if lengths is None else -len(lengths), 0) if lengths else range(x.ndim)
    axes = as_items(axes, "axes", operation)
    places = tuple([normalize_axis(a, x.ndim, operation) for a in axes])
    if lengths is not None and len(lengths) != len(places):
        raise ShapeError(
            "lengths and axes do not go together",
            operation=operation,
            inputs=describe(x),
            expected="one length for each axis",
            found=f"s={s}, axes={tuple(axes)}",
            remedy="leave s out for the lengths as they are",
        )
    if lengths is None:
        return places, [None] * len(places)
    return places, [x.shape[a] if n == -1 else n for n, a in zip(lengths, places, strict=True)]


def _single(n: Any, operation: str) -> tuple[int] | None:
    """Return the length that was asked for along the only axis."""
    return None if n is None else (checked_length(n, operation),)


def _repeated(
    x: Tensor, places: tuple[int, ...], lengths: list[int | None]
) -> list[tuple[tuple[int], tuple[int]]] | None:
    """Return length and axis of each transform in turn where an axis is named again; None where none is."""
    if len(set(places)) == len(places):
        return None
    return [((x.shape[a] if n is None else n,), (a,)) for a, n in zip(places, lengths, strict=True)]


def _transform(x: Any, s: Any, axes: Any, norm: Any, inverse: bool, operation: str) -> Tensor:
    """Return the complex transform along several axes."""
    x, norm = _numbers(x), _checked_norm(norm, operation)
    places, lengths = _axes(x, s, axes, operation)
    if (turns := _repeated(x, places, lengths)) is not None:
        for turn in reversed(turns):
            x = _transform(x, *turn, norm, inverse, operation)
        return x
    for axis, n in zip(places, lengths, strict=True):
        x = _resized(x, axis, checked_length(x.shape[axis], operation) if n is None else n)
    if not places:
        return x if x.dtype.kind == "c" else x + 0j
    return apply(_dft, (x,), {"axes": places, "norm": norm, "inverse": inverse})


def _half(x: Any, s: Any, axes: Any, norm: Any, operation: str) -> Tensor:
    """Return the half spectrum along the last of `axes`, transformed along the others."""
    x, norm = _numbers(x), _checked_norm(norm, operation)
    places, lengths = _axes(x, s, axes, operation)
    _refuse_no_axis(places, operation)
    if (turns := _repeated(x, places, lengths)) is not None:
        x = _half(x, *turns.pop(), norm, operation)
        for turn in reversed(turns):
            x = _transform(x, *turn, norm, False, operation)
        return x
    for axis, n in zip(places, lengths, strict=True):
        x = _resized(x, axis, checked_length(x.shape[axis], operation) if n is None else n)
    x = apply(_rfft, (x,), {"axis": places[-1], "norm": norm})
    if len(places) == 1:
        return x
    return apply(_dft, (x,), {"axes": places[:-1], "norm": norm, "inverse": False})


def _from_half(x: Any, s: Any, axes: Any, norm: Any, operation: str) -> Tensor:
    """Return the real numbers whose half spectrum is `x`."""
    x, norm = _numbers(x), _checked_norm(norm, operation)
    places, lengths = _axes(x, s, axes, operation)
    _refuse_no_axis(places, operation)
    *others, last = places
    if (turns := _repeated(x, places, lengths)) is not None:
        for turn in turns[:-1]:
            x = _transform(x, *turn, norm, True, operation)
        size = 2 * (x.shape[last] - 1) if lengths[-1] is None else lengths[-1]
        return _from_half(x, (size,), (last,), norm, operation)
    for axis, n in zip(others, lengths, strict=False):
        x = _resized(x, axis, checked_length(x.shape[axis], operation) if n is None else n)
    n = checked_length(2 * (x.shape[last] - 1), operation) if lengths[-1] is None else lengths[-1]
    x = _resized(x, last, n // 2 + 1)
    if others:
        x = apply(_dft, (x,), {"axes": tuple(others), "norm": norm, "inverse": True})
    return apply(_irfft, (x,), {"axis": last, "n": n, "norm": norm})


def _refuse_no_axis(places: tuple[int, ...], operation: str) -> None:
    if not places:
        raise ShapeError(
            "a half spectrum lies along an axis",
            operation=operation,
            expected="at least one axis",
            found="none",
            remedy="name the axis, or add one: x[None]",
        )


# What the docstrings of the transforms share; the lengths are those of `x`, or of the result.
_N = """n : int, optional
    How many points are transformed: `x` is cut or padded with zeros at its end. As many as there are,
    by default.
"""
_N_OF_RESULT = """n : int, optional
    How many elements the result has: `x` is cut or padded with zeros to ``n // 2 + 1``. Of ``m``
    elements ``2 (m - 1)`` are made by default.
"""
_S = """s : sequence of int, optional
    How many points are transformed along each axis, -1 for as many as there are.
"""
_S_OF_RESULT = """s : sequence of int, optional
    The lengths of the result, -1 for that of `x`; by default ``2 (m - 1)`` for ``m`` elements along the
    last axis, and those of `x` along the others.
"""
_AXIS = """axis : int, default -1
    The axis to transform.
"""
_AXES = """axes : sequence of int, optional
    The axes to transform; by default all, or the last ``len(s)``.
"""
_LAST_AXES = """axes : sequence of int, default (-2, -1)
    The axes to transform.
"""
_NORM = """norm : {"backward", "ortho", "forward"}, default "backward"
    Which is divided by the number of points: the inverse, both by its root, or the forward transform."""


def _described(numbers: str, lengths: str, result: str) -> Callable[[F], F]:
    """Write the sections that the transforms share into a docstring."""

    def describe(function: F) -> F:
        axis = lengths in (_N, _N_OF_RESULT)
        axes = _AXIS if axis else _LAST_AXES if function.__name__.endswith("2") else _AXES
        misfit = "" if axis else ", an axis is named twice, or `s` and `axes` differ in length"
        kinds = "real numbers" if numbers == "Real" else "numbers"
        x = f"x : tensor\n    {numbers}; integers are computed in float64, float16 in float32.\n"
        return described(
            Parameters=x + lengths + axes + _NORM,
            Returns=f"Tensor\n    {result}",
            Raises="IndexingError\n    If there is no such axis.\n"
            f"ShapeError\n    If there is no point to transform{misfit}.\n"
            f"DTypeError\n    If `x` is not of {kinds}, or a length is no integer.\n"
            "ArgumentError\n    If there is no such norm.",
        )(function)

    return describe


@explained
@_described("Real or complex", _N, "Complex, of the precision of `x`, with `n` elements along `axis`.")
def fft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Discrete Fourier transform along an axis: ``y[k] = sum_j x[j] exp(-2 pi i j k / n)``.

    The transform is linear, ``dy = fft(dx)``, and its matrix symmetric and unitary but for the factor ``n``:
    the gradient of `x` is ``n ifft(g)``, of which a real `x` takes the real part. Source: Van Loan (1992),
    Computational Frameworks for the Fast Fourier Transform.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([1.0, 2.0, 0.0, 0.0], requires_grad=True)
    >>> power = eo.sum(eo.abs(eo.fft.fft(x)) ** 2)
    >>> power.backward()
    >>> print(power.detach(), x.grad)
    20.0 [ 8. 16.  0.  0.]
    """
    return _transform(x, _single(n, "fft"), (axis,), norm, False, "fft")


@explained
@_described("Real or complex", _N, "Complex, of the precision of `x`, with `n` elements along `axis`.")
def ifft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Inverse of `fft`: ``x[j] = sum_k y[k] exp(2 pi i j k / n) / n``.

    ``dx = ifft(dy)``; the gradient of the spectrum is ``fft(g) / n``. Source: Van Loan (1992).

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.real(eo.fft.ifft(eo.fft.fft(eo.tensor([1.0, 2.0, 4.0])))))
    [1. 2. 4.]
    """
    return _transform(x, _single(n, "ifft"), (axis,), norm, True, "ifft")


@explained
@_described("Real or complex", _S, "Complex, of the precision of `x`, with the lengths `s` along `axes`.")
def fftn(
    x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """Discrete Fourier transform along several axes.

    ``dy = fftn(dx)``; the gradient of `x` is ``n ifftn(g)`` for ``n`` points in all. Source:
    Van Loan (1992).

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.real(eo.fft.fftn(eo.ones((2, 2)))))
    [[4. 0.]
     [0. 0.]]
    """
    return _transform(x, s, axes, norm, False, "fftn")


@explained
@_described("Real or complex", _S, "Complex, of the precision of `x`, with the lengths `s` along `axes`.")
def ifftn(
    x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """Inverse of `fftn`.

    ``dx = ifftn(dy)``; the gradient of the spectrum is ``fftn(g) / n`` for ``n`` points in all.
    Source: Van Loan (1992).

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.real(eo.fft.ifftn(eo.ones((2, 2)))))
    [[1. 0.]
     [0. 0.]]
    """
    return _transform(x, s, axes, norm, True, "ifftn")


@explained
@_described("Real or complex", _S, "Complex, of the precision of `x`, with the lengths `s` along `axes`.")
def fft2(
    x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward"
) -> Tensor:
    """`fftn` along the last two axes; its derivative is that of `fftn`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.real(eo.fft.fft2(eo.tensor([[1.0, 0.0], [0.0, 1.0]]))))
    [[2. 0.]
     [0. 2.]]
    """
    return _transform(x, s, axes, norm, False, "fft2")


@explained
@_described("Real or complex", _S, "Complex, of the precision of `x`, with the lengths `s` along `axes`.")
def ifft2(
    x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward"
) -> Tensor:
    """`ifftn` along the last two axes; its derivative is that of `ifftn`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.real(eo.fft.ifft2(eo.tensor([[2.0, 0.0], [0.0, 2.0]]))))
    [[1. 0.]
     [0. 1.]]
    """
    return _transform(x, s, axes, norm, True, "ifft2")


@explained
@_described("Real", _N, "Complex, of the precision of `x`, with ``n // 2 + 1`` elements along `axis`.")
def rfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Discrete Fourier transform of real numbers: the frequencies 0 to ``n // 2`` of `fft`.

    ``dy = rfft(dx)``; the gradient of `x` is ``n irfft(w g)``, where `w` halves the frequencies that stand
    for two: all but 0, and the highest one of an even `n`. Source: Van Loan (1992).

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.fft.rfft(eo.tensor([1.0, 0.0, 0.0])))
    [1.+0.j 1.+0.j]
    """
    return _half(x, _single(n, "rfft"), (axis,), norm, "rfft")


@explained
@_described("Real or complex", _N_OF_RESULT, "Real, of the precision of `x`, with `n` elements along `axis`.")
def irfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Inverse of `rfft`: the `n` real numbers of a half spectrum.

    ``dx = irfft(dy)``; the gradient of the spectrum is ``w rfft(g) / n``, where `w` doubles the frequencies
    that stand for two. The imaginary parts of frequency 0, and of the highest one of an even `n`, do not
    count. Source: Van Loan (1992).

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.fft.irfft(eo.fft.rfft(eo.tensor([1.0, 2.0, 4.0])), n=3))
    [1. 2. 4.]
    """
    return _from_half(x, _single(n, "irfft"), (axis,), norm, "irfft")


@explained
@_described(
    "Real", _S, "Complex, of the precision of `x`; along the last axis lie the frequencies 0 to ``n // 2``."
)
def rfftn(
    x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """`rfft` along the last of several axes and `fft` along the others.

    ``dy = rfftn(dx)``; the gradient of `x` is ``n irfftn(w g)`` for ``n`` points in all, with the `w` of
    `rfft`. Source: Van Loan (1992).

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.fft.rfftn(eo.ones((2, 4))).shape)
    (2, 3)
    """
    return _half(x, s, axes, norm, "rfftn")


@explained
@_described(
    "Real or complex", _S_OF_RESULT, "Real, of the precision of `x`, with the lengths `s` along `axes`."
)
def irfftn(
    x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """Inverse of `rfftn`: real numbers of shape `s`.

    ``dx = irfftn(dy)``; the gradient of the spectrum is ``w rfftn(g) / n`` for ``n`` points in all, with the
    `w` of `irfft`. That -1 in `s` keeps the length of the spectrum is as in NumPy and SciPy.
    Source: Van Loan (1992).

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([[1.0, 2.0, 3.0]])
    >>> print(eo.fft.irfftn(eo.fft.rfftn(x), s=(1, 3)))
    [[1. 2. 3.]]
    """
    return _from_half(x, s, axes, norm, "irfftn")


@explained
@_described(
    "Real", _S, "Complex, of the precision of `x`; along the last axis lie the frequencies 0 to ``n // 2``."
)
def rfft2(
    x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward"
) -> Tensor:
    """`rfftn` along the last two axes; its derivative is that of `rfftn`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.real(eo.fft.rfft2(eo.ones((2, 4)))))
    [[8. 0. 0.]
     [0. 0. 0.]]
    """
    return _half(x, s, axes, norm, "rfft2")


@explained
@_described(
    "Real or complex", _S_OF_RESULT, "Real, of the precision of `x`, with the lengths `s` along `axes`."
)
def irfft2(
    x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward"
) -> Tensor:
    """`irfftn` along the last two axes; its derivative is that of `irfftn`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.fft.irfft2(eo.tensor([[8.0, 0.0, 0.0], [0.0, 0.0, 0.0]])))
    [[1. 1. 1. 1.]
     [1. 1. 1. 1.]]
    """
    return _from_half(x, s, axes, norm, "irfft2")


@explained
@_described("Real or complex", _N_OF_RESULT, "Real, of the precision of `x`, with `n` elements along `axis`.")
def hfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Transform of a signal with Hermitian symmetry, given by its first half: a real spectrum.

    It is ``irfft(conj(x))`` without the division by `n`; the gradient of `x` is ``conj(w rfft(g))``, with the
    `w` of `irfft`. Source: Van Loan (1992).

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.fft.hfft(eo.tensor([1.0, 2.0, 0.0]), n=4))
    [ 5.  1. -3.  1.]
    """
    norm = OPPOSITE[_checked_norm(norm, "hfft")]
    return _from_half(op.conj(_numbers(x)), _single(n, "hfft"), (axis,), norm, "hfft")


@explained
@_described("Real", _N, "Complex, of the precision of `x`, with ``n // 2 + 1`` elements along `axis`.")
def ihfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Inverse of `hfft`: ``conj(rfft(x)) / n``.

    The gradient of `x` is ``irfft(w conj(g))``, with the `w` of `rfft`. Source: Van Loan (1992).

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.real(eo.fft.ihfft(eo.tensor([5.0, 1.0, -3.0, 1.0]))))
    [1. 2. 0.]
    """
    norm = OPPOSITE[_checked_norm(norm, "ihfft")]
    return op.conj(_half(x, _single(n, "ihfft"), (axis,), norm, "ihfft"))
