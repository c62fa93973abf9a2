"""Scans: running sums and products, and the linear recurrence that differentiates the latter."""

from __future__ import annotations

import math
from typing import Any

from everyo.core.batching import along
from everyo.core.dispatch import apply
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError
from everyo.ops.axes import as_integer, normalize_axis
from everyo.ops.creation import as_tensor, weak
from everyo.ops.factors import others_by_division
from everyo.ops.families import elementwise, linear, primitive
from everyo.ops.neighbours import neighbours
from everyo.ops.reductions import expand, in_dtype, prod_push, zero_absorbs
from everyo.ops.shape import apart
from everyo.ops.signatures import composed, explained

__all__ = ["cumprod", "cumsum", "diff"]


_WIDEST = 2.0**1000  # running products this far from 1 are not divided by
_BLOCKWISE = 1 << 16  # more elements than this are scanned in blocks, these many elements at a time:
_LANES = 4096


def _samples(**params: Any) -> list[Sample]:
    """Return samples of a scan with these further parameters, in both directions."""
    shapes = (((3,), 0), ((2, 3), 1), ((3, 1, 2), 0), ((1, 2), 0), ((0, 2), 0), ((2, 0), 0))
    return [sample(s, axis=axis, reverse=r, **params) for s, axis in shapes for r in (False, True)]


def _along_front(xp: Any, x: Any, axis: int, reverse: bool) -> Any:
    """Return a view whose first axis is `axis`, in the order of the scan."""
    x = xp.moveaxis(x, axis, 0)
    return x[::-1] if reverse else x


def _back(xp: Any, x: Any, axis: int, reverse: bool) -> Any:
    return xp.moveaxis(x[::-1] if reverse else x, 0, axis)


def _cumsum_vjp(g: Any, axis: int, reverse: bool) -> Any:
    return op.cumsum(g, axis=axis, reverse=not reverse)


@linear(_cumsum_vjp, samples=_samples, batch=along("axis"))
def _cumsum(xp: Any, x: Any, *, axis: int, reverse: bool = False) -> Any:
    if not reverse:
        return xp.cumsum(x, axis=axis)
    return xp.flip(xp.cumsum(xp.flip(x, axis=axis), axis=axis), axis=axis)


def _delay_vjp(g: Any, axis: int, reverse: bool) -> Any:
    return op.delay(g, axis=axis, reverse=not reverse)


@linear(_delay_vjp, samples=_samples, batch=along("axis"))
def _delay(xp: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    """Move the elements on by one place in the order of the scan; a 0 enters, the last one leaves."""
    x = _along_front(xp, x, axis, reverse)
    return _back(xp, xp.concat([xp.zeros_like(x[:1]), x[:-1]]), axis, reverse)


def _times(xp: Any, x1: Any, x2: Any) -> Any:
    """Multiply; ``0 * inf`` is 0."""
    out = x1 * x2
    if not xp.any(out != out):
        return out
    void = ((x1 == 0) & xp.isinf(x2)) | ((x2 == 0) & xp.isinf(x1))
    return xp.where(void, xp.zeros_like(out), out)


@elementwise(lambda g, x2: op.multiply_absorbing(g, x2), lambda g, x1: op.multiply_absorbing(x1, g))
def _multiply_absorbing(xp: Any, x1: Any, x2: Any) -> Any:
    """Product in which 0 absorbs everything but NaN: ``0 * inf`` is 0.

    For products of factors that a finite product was split into: an infinity among them is an overflow,
    which a zero makes irrelevant.
    """
    return _times(xp, x1, x2)


def _recurrence_vjp(g: Any, needs: Any, a: Any, out: Any, axis: int, reverse: bool) -> Any:
    ahead = op.delay(a, axis=axis, reverse=not reverse)
    b_bar = op.linear_recurrence(ahead, g, axis=axis, reverse=not reverse)
    a_bar = op.multiply_absorbing(b_bar, op.delay(out, axis=axis, reverse=reverse)) if needs[0] else None
    return a_bar, b_bar


def _recurrence_jvp_a(t: Any, a: Any, out: Any, axis: int, reverse: bool) -> Any:
    drive = op.multiply_absorbing(t, op.delay(out, axis=axis, reverse=reverse))
    return op.linear_recurrence(a, drive, axis=axis, reverse=reverse)


def _recurrence_jvp_b(t: Any, a: Any, axis: int, reverse: bool) -> Any:
    return op.linear_recurrence(a, t, axis=axis, reverse=reverse)


def _recurrence_samples() -> list[Sample]:
    return [sample(s.inputs[0], s.inputs[0], **s.params) for s in _samples()]


@primitive(
    _recurrence_vjp,
    (_recurrence_jvp_a, _recurrence_jvp_b),
    samples=_recurrence_samples,
    batch=along("axis"),
    linear_in=(1,),
)
def _linear_recurrence(xp: Any, a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
    """Solve ``r[i] = a[i] * r[i - 1] + b[i]`` from ``r[-1] = 0``, in log2(n) steps on whole arrays."""
    a, b = factors, drive = [_along_front(xp, x, axis, reverse) for x in (a, b)]
    if b.size > _BLOCKWISE:
        found = _in_blocks(xp, a, b)
        if xp.all(xp.isfinite(found)):
            return _back(xp, found, axis, reverse)
    step = 1
    while step < b.shape[0]:  # each r[i] already covers `step` terms, and a[i] their product
        b = xp.concat([b[:step], b[step:] + _times(xp, a[step:], b[:-step])])
        a = xp.concat([a[:step], _times(xp, a[step:], a[:-step])])
        step *= 2
    if not xp.all(xp.isfinite(b)):  # a product of several factors may overflow where no r[i] does
        b = _one_by_one(xp, factors, drive)
    return _back(xp, b, axis, reverse)


def _in_blocks(xp: Any, a: Any, b: Any) -> Any:
    """Solve a linear recurrence along the first axis in blocks, all at once, and then join the blocks."""
    shape, n, rest = b.shape, b.shape[0], math.prod(b.shape[1:])
    count = max(1, min(math.isqrt(n), _LANES // max(rest, 1)))
    length = -(-n // count)
    gap = ((0, count * length - n), (0, 0))
    a, b = (xp.pad(xp.reshape(x, (n, rest)), gap) for x in (a, b))
    a, b = (xp.ascontiguousarray(xp.reshape(x, (count, length, rest)).swapaxes(0, 1)) for x in (a, b))
    with xp.errstate(all="ignore"):
        for i in range(1, length):
            b[i] += a[i] * b[i - 1]
            a[i] *= a[i - 1]  # the factor of what comes from before the block
        for j in range(1, count):
            b[-1, j] += a[-1, j] * b[-1, j - 1]
        b[:-1, 1:] += a[:-1, 1:] * b[-1, :-1]
    return xp.reshape(xp.reshape(b.swapaxes(0, 1), (count * length, rest))[:n], shape)


def _one_by_one(xp: Any, a: Any, b: Any) -> Any:
    """Solve a linear recurrence along the first axis in order."""
    rows = [b[:1]]
    for i in range(1, b.shape[0]):
        rows.append(_times(xp, a[i : i + 1], rows[-1]) + b[i : i + 1])
    return xp.concat(rows)


def _cumprod_vjp(g: Any, x: Any, axis: int, reverse: bool, exclusive: bool) -> Any:
    if exclusive:
        g = op.delay(g, axis=axis, reverse=not reverse)
    return op.cumprod_pull(g, x, axis=axis, reverse=reverse)


def _cumprod_jvp(t: Any, x: Any, axis: int, reverse: bool, exclusive: bool) -> Any:
    change = _change(t, x, axis, reverse)
    return op.delay(change, axis=axis, reverse=reverse) if exclusive else change


def _change(t: Any, x: Any, axis: int, reverse: bool) -> Any:
    """Return the change of the running products that include each element itself."""
    before = op.cumprod(x, axis=axis, reverse=reverse, exclusive=True)
    return op.linear_recurrence(x, op.multiply_absorbing(before, t), axis=axis, reverse=reverse)


def _cumprod_samples() -> list[Sample]:
    zeros = Values([2.0, 0.0, 3.0, 0.0, -1.5])
    orders = [(r, e) for r in (False, True) for e in (False, True)]
    return [
        *_samples(exclusive=False),
        *_samples(exclusive=True),
        *(sample(zeros, axis=0, reverse=r, exclusive=e) for r, e in orders),
    ]


@primitive(_cumprod_vjp, _cumprod_jvp, samples=_cumprod_samples, batch=along("axis"))
def _cumprod(xp: Any, x: Any, *, axis: int, reverse: bool = False, exclusive: bool = False) -> Any:
    """Running product; `exclusive` leaves each element itself out."""
    if not (reverse or exclusive):
        return zero_absorbs(xp, lambda factors: xp.cumprod(factors, axis=axis), x)
    x = _along_front(xp, x, axis, reverse)

    def run(factors: Any) -> Any:
        return _products_before(xp, factors) if exclusive else xp.cumprod(factors, axis=0)

    return _back(xp, zero_absorbs(xp, run, x), axis, reverse)


def _products_before(xp: Any, x: Any) -> Any:
    """Return the running product before each element along the first axis."""
    out = xp.empty_like(x)
    out[:1] = 1
    xp.cumprod(x[:-1], axis=0, out=out[1:])
    return out


def _pull_parts(g: Any, x: Any, axis: int, reverse: bool) -> tuple[Any, Any, Any]:
    """Return the two factors of the cotangent, and the recurrence that the second solves.

    They are the product before an element and ``g[i] + x[i+1] * (g[i+1] + x[i+2] * ...)``: no division.
    """
    before = op.cumprod(x, axis=axis, reverse=reverse, exclusive=True)
    ahead = op.delay(x, axis=axis, reverse=not reverse)
    return before, op.linear_recurrence(ahead, g, axis=axis, reverse=not reverse), ahead


def _pull_vjp(c: Any, needs: Any, g: Any, x: Any, axis: int, reverse: bool) -> Any:
    if not needs[1]:
        return _change(c, x, axis, reverse), None
    before, later, ahead = _pull_parts(g, x, axis, reverse)
    drive = op.multiply_absorbing(c, before)
    slope, back = _recurrence_vjp(drive, (True, True), ahead, later, axis, not reverse)
    first = _cumprod_vjp(op.multiply_absorbing(c, later), x, axis, reverse, True)
    return back, first + op.delay(slope, axis=axis, reverse=reverse)


def _pull_jvp(tangents: Any, g: Any, x: Any, axis: int, reverse: bool) -> Any:
    tg, tx = tangents
    change: Any = 0 if tg is None else op.cumprod_pull(tg, x, axis=axis, reverse=reverse)
    if tx is None:
        return change
    before, later, ahead = _pull_parts(g, x, axis, reverse)
    moved = _recurrence_jvp_a(op.delay(tx, axis=axis, reverse=not reverse), ahead, later, axis, not reverse)
    first = op.multiply_absorbing(_cumprod_jvp(tx, x, axis, reverse, True), later)
    return change + first + op.multiply_absorbing(before, moved)


def _pull_samples() -> list[Sample]:
    zeros = Values([2.0, 0.0, 3.0, 0.0, -1.5])
    pairs = [(s.inputs[0], s.params) for s in _samples()]
    return [
        *(sample(shape, shape, **params) for shape, params in pairs),
        *(sample((5,), zeros, axis=0, reverse=r) for r in (False, True)),
    ]


@primitive(_pull_vjp, _pull_jvp, samples=_pull_samples, batch=along("axis"), linear_in=(0,))
def _cumprod_pull(xp: Any, g: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    """Cotangent of the factors of running products, given that of the products."""
    found = _pulled_by_division(xp, g, x, axis, reverse)
    if found is None:
        before, later, _ = _pull_parts(g, x, axis, reverse)
        found = op.multiply_absorbing(before, later)
    return found


def _pulled_by_division(xp: Any, g: Any, x: Any, axis: int, reverse: bool) -> Any | None:
    """Return the running sum of ``g * out`` from the end, divided by `x`; None where that loses digits.

    It is the recurrence of the other way, scaled by the products, and rounds as well while they are normal.
    """
    if x.dtype.kind != "f" or g.dtype.kind != "f" or not x.size:
        return None
    with xp.errstate(all="ignore"):
        wide = xp.astype(x, "float64", copy=False)
        if reverse:
            wide = xp.flip(wide, axis=axis)
        products = xp.cumprod(wide, axis=axis)
        size = xp.abs(products)
        if not (xp.min(size) > 1 / _WIDEST and xp.max(size) < _WIDEST):
            return None
        products *= xp.flip(g, axis=axis) if reverse else g
        tiny = xp.finfo(products.dtype).tiny
        xp.abs(products, out=size)
        if xp.min(size) < tiny and xp.any((size < tiny) & ((xp.flip(g, axis=axis) if reverse else g) != 0)):
            return None
        ends = xp.flip(products, axis=axis)
        xp.cumsum(ends, axis=axis, out=ends)
        products /= wide
        found = xp.flip(products, axis=axis) if reverse else products
        return xp.astype(found, x.dtype, copy=False) if xp.all(xp.isfinite(found)) else None


def product_of_others(x: Any, axis: int) -> Any:
    """Return for each element the product of all others along `axis`, right where elements are zero."""
    before = op.cumprod(x, axis=axis, reverse=False, exclusive=True)
    after = op.cumprod(x, axis=axis, reverse=True, exclusive=True)
    return op.multiply_absorbing(before, after)


def _others_slope(t: Any, x: Any, axis: int) -> Any:
    """Sum `t` times the product without both over the others: a symmetric matrix, so vjp and jvp alike.

    From each side, the term of an element runs on through the elements between it and the one in question.
    """
    products = [op.cumprod(x, axis=axis, reverse=r, exclusive=True) for r in (False, True)]
    total: Any = 0
    for reverse in (False, True):
        drive = op.delay(op.multiply_absorbing(t, products[reverse]), axis=axis, reverse=reverse)
        ahead = op.delay(x, axis=axis, reverse=reverse)
        term = op.linear_recurrence(ahead, drive, axis=axis, reverse=reverse)
        total = total + op.multiply_absorbing(term, products[not reverse])
    return total


def _weighed_others(g: Any, others: Any, axis: int) -> Any:
    return op.multiply_absorbing(expand(g, others.shape, (axis,), False), others)


def _prod_pull_samples() -> list[Sample]:
    zeros = Values([[0.0, 1.5, -2.0], [0.0, 0.0, 3.0], [2.0, 0.5, 1.5]])
    return [
        sample((), (3,), axis=0), sample((2,), (2, 3), axis=1), sample((3, 2), (2, 3, 2), axis=0),
        sample((2,), (0, 2), axis=0), sample((0,), (0, 2), axis=1), sample((3,), zeros, axis=1),
        sample((3,), zeros, axis=0),
    ]  # fmt: skip


@primitive(
    (
        lambda c, g, x, axis: prod_push(c, op.ones_like(g), x, axis),
        lambda c, g, x, axis: _weighed_others(g, _others_slope(c, x, axis), axis),
    ),
    (
        lambda t, x, axis: op.prod_pull(t, x, axis=axis),
        lambda t, g, x, axis: _weighed_others(g, _others_slope(t, x, axis), axis),
    ),
    samples=_prod_pull_samples,
    batch=along("axis"),
    linear_in=(0,),
)
def _prod_pull(xp: Any, g: Any, x: Any, *, axis: int) -> Any:
    """Cotangent of the factors of products along an axis, given that of the products."""
    found = others_by_division(xp, g, x, axis)
    return _weighed_others(g, product_of_others(x, axis), axis) if found is None else found


def _scan(running: Primitive, x: Any, axis: int | None, dtype: Any) -> Tensor:
    def computed(x: Tensor) -> Tensor:
        place = 0 if axis is None else normalize_axis(axis, x.ndim, running.name)
        return apply(running, (x,), {**running.defaults, "axis": place})

    x = as_tensor(x)
    if axis is None and x.ndim != 1:
        x = op.reshape(x, shape=(math.prod(x.shape),))
    return in_dtype(computed, x, dtype, running.name)


@explained
def cumsum(x: Any, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Running sum along an axis.

    The gradient is the running sum of `g` from the end.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.
    axis : int, optional
        The axis to go along. By default the tensor is flattened first.
    dtype : dtype-like, optional
        The dtype to sum in. By default that of `x`; small integers and booleans grow to int64.

    Returns
    -------
    Tensor
        Of the shape of `x`, or 1-d.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.cumsum(eo.tensor([1.0, 2.0, 3.0])))
    [1. 3. 6.]
    """
    return _scan(op.cumsum, x, axis, dtype)


@explained
def cumprod(x: Any, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Running product along an axis.

    The gradient of an element is the sum of `g` times the products that it is in, without that element; it
    is exact to every order where elements are zero.

    Parameters
    ----------
    x : tensor
        Any shape and dtype.
    axis : int, optional
        The axis to go along. By default the tensor is flattened first.
    dtype : dtype-like, optional
        The dtype to multiply in. By default that of `x`; small integers and booleans grow to int64.

    Returns
    -------
    Tensor
        Of the shape of `x`, or 1-d.

    Raises
    ------
    IndexingError, DTypeError
        If there is no such axis, or it is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([2.0, 0.0, 3.0], requires_grad=True)
    >>> eo.cumprod(x).sum().backward()
    >>> print(x.grad)
    [1. 8. 0.]
    """
    return _scan(op.cumprod, x, axis, dtype)


@composed
def diff(x: Any, /, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """Differences of neighbours along an axis: ``x[i + 1] - x[i]``, `n` times over.

    The gradient is ``g[i - 1] - g[i]``, also for what is prepended and appended.

    Parameters
    ----------
    x : tensor
        At least 1-d. Of booleans the difference is whether they differ.
    n : int, default 1
        How often.
    axis : int, default -1
        The axis to go along.
    prepend, append : tensor or number, optional
        What is joined to `x` along `axis` first; a number stands for a slice of length 1.

    Returns
    -------
    Tensor
        Shorter by `n` along `axis`, but no shorter than empty.

    Raises
    ------
    ShapeError
        If `n` is negative, or something that is joined does not fit.
    IndexingError, DTypeError
        If there is no such axis, or it or `n` is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.diff(eo.tensor([1.0, 4.0, 9.0]), prepend=0.0))
    [1. 3. 5.]
    """
    x = as_tensor(x)
    axis = normalize_axis(axis, x.ndim, "diff")
    if as_integer(n, "n", "diff") < 0:
        raise ShapeError(
            "n must not be negative",
            operation="diff",
            expected="n >= 0",
            found=f"n={n}",
            remedy="use eo.cumsum for the inverse of a difference",
        )
    x = _lengthened(x, axis, prepend, append) if n else apart(x)
    for _ in range(min(n, x.shape[axis])):  # of one element there are no differences
        x = neighbours(x, axis)
    return x


def _lengthened(x: Tensor, axis: int, prepend: Any, append: Any) -> Tensor:
    """Return `x` with what comes before and after it along an axis."""
    if prepend is None and append is None:
        return apart(x)
    parts = []
    for part in (prepend, x, append):
        if part is None:
            continue
        part = weak(part, [x], "diff")
        if not part.ndim:
            part = op.broadcast_to(part, shape=tuple(1 if i == axis else m for i, m in enumerate(x.shape)))
        parts.append(part)
    return apply(op.concat, parts, {"axis": axis})
