"""Products that sum over shared axes: matmul and what is built on it."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from everyo.core.batching import as_single, front, padded
from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.ops.arithmetic import multiply
from everyo.ops.axes import normalize_axes, normalize_axis
from everyo.ops.creation import as_tensors
from everyo.ops.families import bilinear, public
from everyo.ops.labelled import contraction, moved_last
from everyo.ops.signatures import explained

__all__ = ["dot", "inner", "matmul", "outer", "tensordot", "vecdot"]


def _column(v: Any) -> Any:
    """Return ``v[..., None]``."""
    return op.reshape(v, shape=(*v.shape, 1))


def _row(v: Any) -> Any:
    """Return ``v[..., None, :]``."""
    return op.reshape(v, shape=(*v.shape[:-1], 1, v.shape[-1]))


def _flat(x: Any) -> Any:
    """Return `x` as a matrix: all axes but the last become one."""
    return x if len(x.shape) == 2 else op.reshape(x, shape=(math.prod(x.shape[:-1]), x.shape[-1]))


def _matmul_left(g: Any, x2: Any, x1_shape: tuple[int, ...]) -> Any:
    """Return the cotangent of the left factor, batch axes not yet summed."""
    if len(x2.shape) == 1:
        return g * x2 if len(x1_shape) == 1 else _column(g) * x2
    if len(x1_shape) == 1:
        if len(x2.shape) == 2:
            return op.matmul(x2, g)
        product = op.matmul(x2, _column(g))
        return op.reshape(product, shape=product.shape[:-1])
    return op.matmul(g, op.matrix_transpose(x2))


def _matmul_right(g: Any, x1: Any, x2_shape: tuple[int, ...]) -> Any:
    """Return the cotangent of the right factor, batch axes not yet summed."""
    if len(x1.shape) == 1:
        return g * x1 if len(x2_shape) == 1 else _column(x1) * _row(g)
    if len(x2_shape) == 1:
        g = g if len(g.shape) == 1 else op.reshape(g, shape=(math.prod(g.shape),))
        return op.matmul(g, _flat(x1))
    if len(x2_shape) == 2 and len(x1.shape) > 2:  # one product over the whole batch, not a sum of many
        return op.matmul(op.matrix_transpose(_flat(x1)), _flat(g))
    return op.matmul(op.matrix_transpose(x1), g)


def _matmul_batch(matmul: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
    """One matrix product, however the batch lies; a large one where only one factor has the batch."""
    x1, x2 = inputs
    rank1, rank2 = (len(x.shape) - b for x, b in zip(inputs, batched, strict=True))
    if not (rank1 and rank2):
        return as_single(matmul, inputs, batched, size, params)  # which a 0-d factor makes an error
    if all(batched):
        if rank1 == 1:
            x1 = _row(x1)
        if rank2 == 1:
            x2 = _column(x2)
        rank = max(rank1, rank2, 2)
        y = matmul(padded(x1, rank), padded(x2, rank))
        gone = [len(y.shape) - 2] * (rank1 == 1) + [len(y.shape) - 1] * (rank2 == 1)
        return op.reshape(y, shape=tuple([n for i, n in enumerate(y.shape) if i not in gone])) if gone else y
    if batched[0]:
        if rank1 > 1:
            return matmul(padded(x1, rank2), x2)
        y = matmul(x1, x2)  # the batch has become the rows
        return front(y, len(y.shape) - 2) if rank2 > 1 else y
    if rank2 == 1:  # the batch becomes the columns
        if rank1 <= 2:
            return matmul(x2, op.matrix_transpose(x1) if rank1 == 2 else x1)
        y = matmul(x1, op.matrix_transpose(x2))
        return front(y, len(y.shape) - 1)
    if rank1 == 2:
        return op.matrix_transpose(matmul(op.matrix_transpose(x2), op.matrix_transpose(x1)))
    return matmul(x1, padded(x2, rank1))


def _matmul_samples() -> list[Any]:
    pairs = [
        ((3,), (3,)), ((2, 3), (3, 4)), ((2, 3), (3,)), ((3,), (3, 4)), ((1, 2, 3), (2, 3, 1)),
        ((2, 2, 3), (3,)), ((3,), (2, 3, 2)), ((2, 3, 4), (4, 2)), ((2, 3), (2, 3, 1)), ((1, 1), (1, 1)),
        ((2, 0), (0, 3)), ((0, 2), (2, 3)), ((0,), (0,)), ((0, 2, 3), (3, 2)), ((2, 1, 2, 3), (3, 3, 1)),
    ]  # fmt: skip
    return [sample(*pair) for pair in pairs]


@public
@bilinear(_matmul_left, _matmul_right, broadcasts=True, samples=_matmul_samples, batch=_matmul_batch)
def matmul(xp: Any, x1: Any, x2: Any) -> Any:
    """Matrix product ``x1 @ x2``.

    With ``G`` the gradient of the result, ``dx1 = G @ x2.mT`` and ``dx2 = x1.mT @ G`` (``.mH`` for complex
    factors), summed over the axes along which a factor was broadcast. Source: Giles (2008), An Extended
    Collection of Matrix Derivative Results for Forward and Reverse Mode Algorithmic Differentiation.

    Parameters
    ----------
    x1, x2 : tensor
        Shapes ``(..., n, k)`` and ``(..., k, m)``; the leading axes broadcast. A 1-d `x1` is one row,
        a 1-d `x2` one column, and the axis added for that is gone from the result.

    Returns
    -------
    Tensor
        Shape ``(..., n, m)``, of the common dtype.

    Raises
    ------
    ShapeError
        If an operand is 0-d, the contracted axes differ or the leading axes do not broadcast.
    DTypeError
        If an operand is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.matmul(eo.tensor([[1.0, 2.0], [3.0, 4.0]]), eo.tensor([1.0, 1.0])))
    [3. 7.]
    """
    try:
        if x2.ndim == 2 and x1.ndim > 2:  # one large product is faster than a batch of small ones
            flat = xp.matmul(xp.reshape(x1, (math.prod(x1.shape[:-1]), x1.shape[-1])), x2)
            return xp.reshape(flat, (*x1.shape[:-1], x2.shape[-1]))
        return xp.matmul(x1, x2)
    except (ValueError, AttributeError):  # a Python scalar has no ndim
        raise _mismatch(x1, x2, "matmul") from None


def _mismatch(x1: Any, x2: Any, operation: str) -> ShapeError:
    """Return the error for factors that a matrix product cannot take."""
    shapes = [tuple(getattr(x, "shape", ())) for x in (x1, x2)]
    if () in shapes:
        return ShapeError(
            "a 0-d operand has no axis to contract",
            operation=operation,
            inputs=describe(x1, x2),
            expected="operands of at least one axis",
            found=f"shapes {shapes[0]} and {shapes[1]}",
            remedy="scale with * instead, or give it axes with reshape",
        )
    inner = shapes[0][-1], shapes[1][-2] if len(shapes[1]) > 1 else shapes[1][0]
    if inner[0] != inner[1]:
        return ShapeError(
            "the contracted axes differ",
            operation=operation,
            inputs=describe(x1, x2),
            expected="the last axis of the first and the second-last (or only) axis of the second equal",
            found=f"{inner[0]} and {inner[1]}",
            remedy="transpose one operand, as in x1 @ x2.mT, or use eo.einsum",
        )
    return ShapeError(
        "the leading axes do not broadcast together",
        operation=operation,
        inputs=describe(x1, x2),
        expected="leading axes, counted from the matrices outwards, that are equal or 1",
        found=f"{shapes[0][:-2]} and {shapes[1][:-2]}",
        remedy="reshape or expand_dims one operand",
    )


@explained
def tensordot(x1: Any, x2: Any, axes: int | tuple[Any, Any] = 2) -> Tensor:
    """Product of two tensors, summed over chosen axes of each.

    The gradient of each factor is again such a product: of the gradient of the result with the other factor
    (its conjugate, if that is complex), summed over the axes that came from that one.

    Parameters
    ----------
    x1, x2 : tensor
        The factors.
    axes : int or a pair of axes or sequences of axes, default 2
        An integer n contracts the last n axes of `x1` with the first n of `x2`, in order. A pair
        names the axes of `x1` and those of `x2` that go with them, one by one.

    Returns
    -------
    Tensor
        The remaining axes of `x1`, then those of `x2`, of the common dtype.

    Raises
    ------
    ShapeError
        If the contracted axes differ in number or size, or one is named twice.
    IndexingError
        If an axis does not exist.
    DTypeError
        If a factor is not numeric, or an axis is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> a, b = eo.ones((2, 3, 4)), eo.ones((4, 3, 5))
    >>> eo.tensordot(a, b, axes=((1, 2), (1, 0))).shape
    (2, 5)
    """
    first, second = as_tensors((x1, x2), "tensordot")
    return _tensordot(first, second, axes, "tensordot")


def _count(axes: Any) -> int:
    """Return a number of axes, or -1 for what is none."""
    try:
        return operator.index(axes)
    except TypeError:
        return -1


def _tensordot(x1: Tensor, x2: Tensor, axes: Any, operation: str) -> Tensor:
    pair: list[tuple[Any, ...]] = []
    limit = min(len(x1.shape), len(x2.shape))
    if isinstance(axes, Sequence):
        pair = [tuple(a) if isinstance(a, Sequence) else (a,) for a in axes]
    elif 0 <= (count := _count(axes)) <= limit:
        pair = [tuple(range(-count, 0)), tuple(range(count))]
    if len(pair) != 2:
        raise ShapeError(
            "axes must be a number of axes or a pair",
            operation=operation,
            inputs=describe(x1, x2),
            expected=f"0 to {limit}, or the axes of each of the two factors",
            found=f"axes={axes!r}",
            remedy="write axes=1 for a matrix product, or axes=((1,), (0,))",
        )
    for x, named in zip((x1, x2), pair, strict=True):
        normalize_axes(named, len(x.shape), operation)  # refuses an axis named twice
    first, second = ([a % len(x.shape) for a in named] for x, named in zip((x1, x2), pair, strict=True))
    sizes = [[x.shape[a] for a in named] for x, named in ((x1, first), (x2, second))]
    if sizes[0] != sizes[1]:
        raise ShapeError(
            "the contracted axes differ",
            operation=operation,
            inputs=describe(x1, x2),
            expected="axes of equal sizes, one of each factor",
            found=f"sizes {sizes[0]} and {sizes[1]} for axes={axes!r}",
            remedy="name the axes that belong together, as in axes=((1, 2), (1, 0))",
        )
    labels1 = tuple(range(len(x1.shape)))
    shared = dict(zip(second, first, strict=True))
    labels2 = tuple([shared.get(i, -1 - i) for i in range(len(x2.shape))])
    return contraction(labels1, tuple(x1.shape), labels2, tuple(x2.shape), frozenset())[0](x1, x2)


@explained
def dot(x1: Any, x2: Any) -> Tensor:
    """Dot product in NumPy's sense: `matmul` for vectors and matrices.

    A 0-d operand scales the other. With more axes the last axis of `x1` is contracted with the
    second-last (or only) axis of `x2`, and all others remain: unlike `matmul`, nothing is batched. The
    gradients are those of `matmul` and `tensordot`.

    Parameters
    ----------
    x1, x2 : tensor
        Shapes ``(..., k)`` and ``(..., k, m)`` or ``(k,)``.

    Returns
    -------
    Tensor
        Shape ``(..., ..., m)``: the axes of `x1`, then those of `x2`, without the contracted ones.

    Raises
    ------
    ShapeError
        If the contracted axes differ.
    DTypeError
        If a factor is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.dot(eo.tensor([1.0, 2.0]), eo.tensor([3.0, 4.0])))
    11.0
    """
    first, second = as_tensors((x1, x2), "dot")
    if not first.shape or not second.shape:
        return multiply(x1, x2)
    x1, x2 = first, second
    axis = max(len(x2.shape) - 2, 0)
    if x1.shape[-1] != x2.shape[axis]:
        raise _mismatch(x1, x2, "dot")
    return matmul(x1, x2) if len(x2.shape) <= 2 else _tensordot(x1, x2, (-1, axis), "dot")


@explained
def inner(x1: Any, x2: Any) -> Tensor:
    """Product of two tensors, summed over the last axis of each; a 0-d operand scales the other.

    ``d inner(x1, x2) = inner(dx1, x2) + inner(x1, dx2)``.

    Parameters
    ----------
    x1, x2 : tensor
        Shapes ``(..., k)``.

    Returns
    -------
    Tensor
        The remaining axes of `x1`, then those of `x2`. Nothing is conjugated: see `vecdot`.

    Raises
    ------
    ShapeError
        If the last axes differ.
    DTypeError
        If a factor is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.inner(eo.tensor([[1.0, 2.0], [3.0, 4.0]]), eo.tensor([1.0, 1.0])))
    [3. 7.]
    """
    first, second = as_tensors((x1, x2), "inner")
    if not first.shape or not second.shape:
        return multiply(x1, x2)
    return _tensordot(first, second, (-1, -1), "inner")


@explained
def outer(x1: Any, x2: Any) -> Tensor:
    """All products of an element of `x1` with one of `x2`; both are flattened first.

    With ``G`` the gradient of the result, ``dx1 = G @ x2`` and ``dx2 = G.mT @ x1`` for real vectors.

    Parameters
    ----------
    x1, x2 : tensor
        Of any shape, with n and m elements.

    Returns
    -------
    Tensor
        Shape ``(n, m)``, of the common dtype.

    Raises
    ------
    DTypeError
        If a factor is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.outer(eo.tensor([1.0, 2.0]), eo.tensor([3.0, 4.0])))
    [[3. 4.]
     [6. 8.]]
    """
    x1, x2 = as_tensors((x1, x2), "outer")
    return op.reshape(x1, shape=(x1.size, 1)) * op.reshape(x2, shape=(1, x2.size))


@explained
def vecdot(x1: Any, x2: Any, axis: int = -1) -> Tensor:
    """Dot products of the vectors along one axis: ``sum(conj(x1) * x2)``.

    ``d vecdot(x1, x2) = vecdot(dx1, x2) + vecdot(x1, dx2)``.

    Parameters
    ----------
    x1, x2 : tensor
        The axis has the same size in both; the others broadcast.
    axis : int, default -1
        The axis of the vectors, in each of the two.

    Returns
    -------
    Tensor
        The broadcast shape without that axis.

    Raises
    ------
    ShapeError
        If the vectors differ in size or the other axes do not broadcast.
    IndexingError
        If the axis does not exist.
    DTypeError
        If an operand is not numeric, or the axis is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.vecdot(eo.tensor([[1.0, 2.0], [3.0, 4.0]]), eo.tensor([1.0, 10.0])))
    [21. 43.]
    """
    x1, x2 = as_tensors((x1, x2), "vecdot")
    places = [normalize_axis(axis, len(x.shape), "vecdot") for x in (x1, x2)]
    sizes = [x.shape[place] for x, place in zip((x1, x2), places, strict=True)]
    if sizes[0] != sizes[1]:
        raise ShapeError(
            "the vectors differ in size",
            operation="vecdot",
            inputs=describe(x1, x2),
            expected=f"equal sizes along axis {axis}",
            found=f"{sizes[0]} and {sizes[1]}",
            remedy="slice or pad one of them, or choose another axis",
        )
    first, second = (moved_last(x, place) for x, place in zip((x1, x2), places, strict=True))
    if first.dtype.kind == "c":
        first = op.conj(first)
    if len(first.shape) == len(second.shape) == 1:  # whose cotangents are multiples, not matrix products
        return matmul(first, second)
    product = matmul(_row(first), _column(second))
    return op.reshape(product, shape=tuple(product.shape[:-2]))
