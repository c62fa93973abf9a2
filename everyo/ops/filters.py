"""One-dimensional convolution and correlation of vectors."""

from __future__ import annotations

from typing import Any

from everyo.core.batching import looped
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, ShapeError, describe
from everyo.ops.axes import is_one_of
from everyo.ops.creation import as_tensors
from everyo.ops.families import bilinear
from everyo.ops.reductions import conjugate
from everyo.ops.signatures import explained

__all__ = ["convolve", "correlate"]

_BLOCK = 1 << 13  # elements


def _reverse(v: Any) -> Any:
    return op.flip(v, axis=(0,))


def _left(g: Any, v: Any, overlap: bool) -> Any:
    """Return the cotangent of the longer vector: each element met every element of `v` once."""
    return op.convolve(g, _reverse(v), overlap=not overlap)


def _right(g: Any, x: Any, overlap: bool) -> Any:
    if overlap:
        return _reverse(op.convolve(x, _reverse(g), overlap=True))
    return op.convolve(g, _reverse(x), overlap=True)


@bilinear(
    _left,
    _right,
    samples=lambda: [
        sample((n,), (m,), overlap=o) for n, m in ((5, 3), (3, 3), (4, 1), (1, 1)) for o in (False, True)
    ],
    batch=looped,
)
def _convolve(xp: Any, x: Any, v: Any, *, overlap: bool) -> Any:
    """Return the sums of ``x[i - k] * v[k]`` where both have elements, or only where `v` lies inside `x`.

    `v` is not longer than `x` where `overlap` asks for the latter.
    """
    if overlap and v.size > _BLOCK and x.dtype.kind in "fc" and v.dtype.kind in "fc":
        return _dots(xp, x, v)
    return xp.convolve(x, v, "valid" if overlap else "full")


def _dots(xp: Any, x: Any, v: Any) -> Any:
    """Sum the convolutions with parts of a long `v`, which stay in the cache for all results."""
    count, total = x.size - v.size + 1, 0
    for start in range(0, v.size, _BLOCK):
        part = v[start : start + _BLOCK]
        end = x.size - start
        total = total + xp.convolve(x[end - count - part.size + 1 : end], part, "valid")
    return total


def _vectors(x1: Any, x2: Any, mode: Any, operation: str) -> tuple[Tensor, Tensor]:
    x1, x2 = as_tensors((x1, x2), operation)
    x1, x2 = (op.reshape(x, shape=(1,)) if not x.ndim else x for x in (x1, x2))
    if x1.ndim != 1 or x2.ndim != 1 or not x1.size or not x2.size:
        raise ShapeError(
            "there must be two vectors",
            operation=operation,
            inputs=describe(x1, x2),
            expected="one axis each, not empty",
            found=f"{tuple(x1.shape)} and {tuple(x2.shape)}",
            remedy="use eo.vmap over further axes, or eo.conv1d",
        )
    if not is_one_of(mode, ("full", "same", "valid")):
        raise ArgumentError(
            "there is no such mode", operation=operation, expected="full, same or valid", found=repr(mode)
        )
    return x1, x2


def _convolved(x: Tensor, v: Tensor, mode: str) -> Tensor:
    """Convolve a vector with one that is not longer."""
    out: Tensor = apply(_convolve, (x, v), {"overlap": mode == "valid"})
    if mode != "same":
        return out
    start = (v.size - 1) // 2
    return op.getitem(out, index=(slice(start, start + x.size),))


@explained
def convolve(x1: Any, x2: Any, /, mode: str = "full") -> Tensor:
    """Convolution of two vectors: ``out[k] = sum(x1[i] * x2[k - i])``.

    The gradients are correlations of `g` with the other vector.

    Parameters
    ----------
    x1, x2 : tensor
        Vectors, not empty; a number counts as a vector of one element.
    mode : {"full", "same", "valid"}, default "full"
        All n + m - 1 sums; the middle ones, as many as the longer vector has elements; or only those in
        which one vector lies wholly inside the other.

    Returns
    -------
    Tensor
        A vector of the common dtype, with n + m - 1, max(n, m) or ``abs(n - m) + 1`` elements.

    Raises
    ------
    ShapeError
        If something is no vector, or is empty.
    ArgumentError
        If there is no such mode.
    DTypeError
        If something is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.convolve(eo.tensor([1.0, 2.0, 3.0]), eo.tensor([1.0, 10.0])))
    [ 1. 12. 23. 30.]
    """
    x1, x2 = _vectors(x1, x2, mode, "convolve")
    return _convolved(*((x1, x2) if x1.size >= x2.size else (x2, x1)), mode)


@explained
def correlate(x1: Any, x2: Any, /, mode: str = "valid") -> Tensor:
    """Cross-correlation of two vectors: ``out[k] = sum(x1[i + k] * conj(x2[i]))``.

    The gradients are a convolution and a correlation of `g` with the other vector.

    Parameters
    ----------
    x1, x2 : tensor
        Vectors, not empty; a number counts as a vector of one element.
    mode : {"valid", "same", "full"}, default "valid"
        Which shifts, as in `convolve`.

    Returns
    -------
    Tensor
        A vector of the common dtype, with ``abs(n - m) + 1``, max(n, m) or n + m - 1 elements.

    Raises
    ------
    ShapeError
        If something is no vector, or is empty.
    ArgumentError
        If there is no such mode.
    DTypeError
        If something is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.correlate(eo.tensor([1.0, 2.0, 3.0]), eo.tensor([1.0, 10.0])))
    [21. 32.]
    """
    x1, x2 = _vectors(x1, x2, mode, "correlate")
    if x1.size >= x2.size:
        return _convolved(x1, _reverse(conjugate(x2)), mode)
    return _reverse(_convolved(conjugate(x2), _reverse(x1), mode))
