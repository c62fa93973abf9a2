"""Polynomials, given by their coefficients from the highest power down."""

from __future__ import annotations

from typing import Any

from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, ShapeError, describe
from everyo.ops.axes import as_flag, as_integer
from everyo.ops.creation import as_tensor, as_tensors, weak
from everyo.ops.families import primitive
from everyo.ops.filters import convolve
from everyo.ops.shape import apart
from everyo.ops.signatures import composed, explained

__all__ = ["poly", "polyadd", "polyder", "polyint", "polymul", "polysub", "polyval", "vander"]


def coefficients(p: Any, operation: str) -> Tensor:
    p = as_tensor(p)
    if not p.ndim:
        p = op.reshape(p, shape=(1,))
    if p.ndim != 1:
        raise ShapeError(
            "the coefficients must form a vector",
            operation=operation,
            inputs=describe(p),
            expected="one axis",
            found=f"shape {tuple(p.shape)}",
            remedy="use eo.vmap over further axes",
        )
    return p


@explained
def polyval(p: Any, x: Any, /) -> Tensor:
    """Value of a polynomial: ``p[0] * x**(n - 1) + ... + p[n - 1]``, by Horner's rule.

    Coefficients and `x` have a gradient.

    Parameters
    ----------
    p : tensor
        The coefficients, a vector, that of the highest power first.
    x : tensor or number
        Where to evaluate, of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x` and the common dtype.

    Raises
    ------
    ShapeError
        If `p` is no vector.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor(2.0, requires_grad=True)
    >>> y = eo.polyval([3.0, 0.0, 1.0], x)
    >>> y.backward()
    >>> print(y.item(), x.grad)
    13.0 12.0
    """
    p, x = as_tensors((p, x), "polyval")
    p = coefficients(p, "polyval")
    y: Any = op.zeros_like(x) if not p.size else op.broadcast_to(p[0], shape=tuple(x.shape))
    for i in range(1, p.size):
        y = y * x + p[i]
    return y + op.zeros_like(x) if p.size == 1 else y


def _vander_vjp(g: Any, x: Any, count: int) -> Any:
    """Return ``sum over k of k * x**(k - 1) * g[k]``, by Horner's rule."""
    total: Any = op.zeros_like(x)
    for k in range(count - 1, 0, -1):
        total = total * x + op.getitem(g, index=(Ellipsis, k)) * k
    return total


def _vander_jvp(t: Any, x: Any, count: int) -> Any:
    t = op.reshape(t, shape=(*t.shape, 1))
    if count < 2:
        return op.zeros_like(t)
    axis = len(x.shape)
    powers = op.vander(x, count=count - 1)
    numbers = op.cumsum(op.ones_like(powers), axis=axis, reverse=False)
    return op.concat(op.zeros_like(t), t * powers * numbers, axis=axis)


def _vander_batch(vander: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    return vander(*inputs, **params)


def _vander_samples() -> list[Sample]:
    shapes = [((3,), 4), ((2, 2), 3), ((3,), 1), ((2,), 2), ((2,), 0), ((0,), 3)]
    return [*(sample(s, count=n) for s, n in shapes), sample(Values([0.0, -1.0]), count=4)]


@primitive(_vander_vjp, _vander_jvp, samples=_vander_samples, batch=_vander_batch)
def _vander(xp: Any, x: Any, *, count: int) -> Any:
    """Return the powers 0 to ``count - 1`` of each element along a new last axis."""
    powers = xp.reshape(xp.vander(xp.reshape(x, (-1,)), count, increasing=True), (*x.shape, count))
    return xp.astype(powers, x.dtype, copy=False) if x.dtype.kind in "fc" else powers


@explained
def vander(x: Any, /, N: int | None = None, increasing: bool = False) -> Tensor:
    """Vandermonde matrix: the powers of each element, the highest first.

    ``dx = sum(g[k] * k * x**(k - 1))``, exact at 0.

    Parameters
    ----------
    x : tensor
        A vector.
    N : int, optional
        The number of powers; by default that of elements.
    increasing : bool, default False
        Whether the power 0 comes first.

    Returns
    -------
    Tensor
        A matrix with a row for each element.

    Raises
    ------
    ShapeError
        If `x` is no vector.
    ArgumentError, DTypeError
        If `N` is negative, or no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.vander(eo.tensor([2, 3]), 3))
    [[4 2 1]
     [9 3 1]]
    """
    x = as_tensor(x)
    if x.ndim != 1:
        raise ShapeError(
            "there must be a vector",
            operation="vander",
            inputs=describe(x),
            expected="one axis",
            found=f"shape {tuple(x.shape)}",
            remedy="use eo.vmap over further axes",
        )
    count = x.size if N is None else as_integer(N, "N", "vander")
    if count < 0:
        raise ArgumentError(
            "there is no negative number of powers", operation="vander", expected="N >= 0", found=str(count)
        )
    out: Tensor = apply(_vander, (x,), {"count": count})
    return out if as_flag(increasing, "increasing", "vander") else op.flip(out, axis=(1,))


def _padded(p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """Return both with equally many coefficients."""
    n = max(p.size, q.size)
    return tuple(
        x if x.size == n else apply(op.pad, (x,), {"pad_width": ((n - x.size, 0),), "value": 0})
        for x in (p, q)
    )  # type: ignore[return-value]


def _two(p: Any, q: Any, operation: str) -> tuple[Tensor, Tensor]:
    p, q = as_tensors((p, q), operation)
    return coefficients(p, operation), coefficients(q, operation)


@explained
def polyadd(p: Any, q: Any, /) -> Tensor:
    """Coefficients of the sum of two polynomials; the gradient goes to the coefficients of both.

    Parameters
    ----------
    p, q : tensor
        The coefficients, vectors, that of the highest power first.

    Returns
    -------
    Tensor
        As long as the longer one, of the common dtype.

    Raises
    ------
    ShapeError
        If `p` or `q` is no vector.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.polyadd([1, 2, 3], [10, 20]))
    [ 1 12 23]
    """
    p, q = _padded(*_two(p, q, "polyadd"))
    return p + q


@composed
def polysub(p: Any, q: Any, /) -> Tensor:
    """Coefficients of the difference of two polynomials; the gradient goes to the coefficients of both.

    Parameters
    ----------
    p, q : tensor
        The coefficients, vectors, that of the highest power first.

    Returns
    -------
    Tensor
        As long as the longer one, of the common dtype.

    Raises
    ------
    ShapeError
        If `p` or `q` is no vector.
    DTypeError
        If both are boolean.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.polysub([1, 2, 3], [1, 1]))
    [1 1 2]
    """
    p, q = _padded(*_two(p, q, "polysub"))
    return p - q


@composed
def polymul(p: Any, q: Any, /) -> Tensor:
    """Coefficients of the product of two polynomials: the convolution of theirs.

    Leading zeros are kept, so that the length does not depend on values.

    The gradient of each factor is the correlation of `g` with the other one.

    Parameters
    ----------
    p, q : tensor
        The coefficients, vectors, that of the highest power first.

    Returns
    -------
    Tensor
        Of length ``len(p) + len(q) - 1`` and the common dtype.

    Raises
    ------
    ShapeError
        If `p` or `q` is no vector, or empty.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.polymul([1, 1], [1, -1]))
    [ 1  0 -1]
    """
    return convolve(*_two(p, q, "polymul"))


def _powers(n: int, like: Tensor) -> Any:
    """Return the numbers n, n - 1, ..., 1 as an array, in int64 where the tensor is not floating point."""
    wanted = like.dtype if like.dtype.kind in "fc" else "int64"
    return like.backend.asarray(like.backend.xp.arange(n, 0, -1), wanted, like.device)


@explained
def polyder(p: Any, /, m: int = 1) -> Tensor:
    """Coefficients of the `m`-th derivative of a polynomial; linear in `p`.

    The gradient of each coefficient is that of the one it became, times the same factor.

    Parameters
    ----------
    p : tensor
        The coefficients, a vector, that of the highest power first.
    m : int, default 1
        How often.

    Returns
    -------
    Tensor
        Shorter than `p` by `m`, and empty where there is nothing left; of booleans and integers in int64.

    Raises
    ------
    ShapeError
        If `p` is no vector.
    ArgumentError
        If `m` is negative.
    DTypeError
        If `m` is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.polyder([1.0, 1.0, 1.0]))
    [2. 1.]
    """
    p = coefficients(p, "polyder")
    order = _order(m, "polyder")
    for _ in range(min(order, p.size)):
        p = op.getitem(p, index=(slice(None, -1),)) * _powers(max(p.size - 1, 0), p)
    return p if order else apart(p)


@explained
def polyint(p: Any, /, m: int = 1, k: Any = None) -> Tensor:
    """Coefficients of the `m`-th integral of a polynomial; linear in `p` and `k`.

    The gradient of each coefficient is that of the one it became, divided by the same number.

    Parameters
    ----------
    p : tensor
        Coefficients; integers are computed in floating point.
    m : int, default 1
        How often.
    k : number, tensor or sequence, optional
        The constants of integration, in the order in which they are added; 0 by default.

    Returns
    -------
    Tensor
        Longer than `p` by `m`; floating point or complex.

    Raises
    ------
    ShapeError
        If `p` is no vector.
    ArgumentError
        If `m` is negative, or there are not `m` constants.
    DTypeError
        If `m` is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.polyint([2.0, 1.0], k=5.0))
    [1. 1. 5.]
    """
    p, m = coefficients(p, "polyint"), _order(m, "polyint")
    p = p if p.dtype.kind in "fc" else p / 1.0
    constants = weak(0 if k is None else k, [p], "polyint")
    if not constants.ndim or (constants.size == 1 and m > 1):
        constants = op.broadcast_to(op.reshape(constants, shape=(1,)), shape=(m,))
    if tuple(constants.shape) != (m,):
        raise ArgumentError(
            "there must be a constant for each integration",
            operation="polyint",
            inputs=describe(p, constants),
            expected=f"{m}",
            found=str(tuple(constants.shape)),
        )
    for i in range(m):
        p = op.concat(p / _powers(p.size, p), op.getitem(constants, index=(slice(i, i + 1),)), axis=0)
    return p if m else apart(p)


def _order(m: Any, operation: str) -> int:
    m = as_integer(m, "m", operation)
    if m < 0:
        raise ArgumentError(
            "the order must not be negative", operation=operation, expected="m >= 0", found=str(m)
        )
    return m


@explained
def poly(roots: Any, /) -> Tensor:
    """Coefficients of the polynomial with these roots, or eigenvalues, and the leading coefficient 1.

    The derivative by a root is minus the coefficients of the polynomial without it; that by a matrix is the
    one through `eigvals`.

    Parameters
    ----------
    roots : tensor
        A vector; integers are computed in floating point. Of complex roots the coefficients stay complex.
        Or a square matrix, of which the roots are the eigenvalues.

    Returns
    -------
    Tensor
        A vector with one element more than there are roots; real for a real matrix.

    Raises
    ------
    ShapeError
        If there is no vector or square matrix.
    LinAlgError
        If the eigenvalues of a matrix cannot be found, as of one with NaN.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.poly([1.0, 2.0]))
    [ 1. -3.  2.]
    """
    roots = as_tensor(roots)
    if roots.ndim == 2 and roots.shape[0] == roots.shape[1] > 0:
        from everyo.ops.linalg.common import not_half  # loads all of linalg
        from everyo.ops.linalg.eigen import eigvals

        whole = poly(eigvals(not_half(roots, "poly")))
        return whole if roots.dtype.kind == "c" else op.real(whole)
    z = coefficients(roots, "poly")
    z = z if z.dtype.kind in "fc" else z / 1.0
    one = as_tensor(z.backend.asarray(z.backend.xp.ones(1), z.dtype, z.device), z)
    out: Any = one
    for i in range(z.size):
        out = convolve(out, op.concat(one, -op.getitem(z, index=(slice(i, i + 1),)), axis=0))
    return as_tensor(out)
