"""Convolution over any number of spatial axes: one bilinear form, solved for each of its three arrays.

``convolution`` maps input and weight to the result, ``convolution_input`` takes result and weight back to
the input, ``convolution_weight`` takes input and result back to the weight. Each is a transpose of the
other two, so derivatives of any order stay among them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from everyo.core.batching import BatchRule, front, of_none
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, ShapeError, describe
from everyo.ops.axes import is_one_of
from everyo.ops.creation import as_tensor
from everyo.ops.families import bilinear
from everyo.ops.signatures import explained
from everyo.ops.windows import Window, per_axis, require_room, require_spatial

__all__ = ["conv1d", "conv2d", "conv3d"]

_CASES: list[tuple[tuple[int, ...], tuple[int, ...], Window, int]] = [
    ((2, 2, 5), (3, 2, 3), Window((3,), (1,), (1,), ((0, 0),)), 1),
    ((1, 4, 6), (2, 2, 2), Window((2,), (2,), (2,), ((1, 0),)), 2),
    ((2, 2, 4, 5), (2, 1, 2, 3), Window((2, 3), (2, 1), (1, 2), ((0, 1), (2, 1))), 2),
    ((1, 4, 4), (4, 2, 2), Window((2,), (1,), (2,), ((1, 2),)), 2),
    ((0, 1, 3, 3), (2, 1, 2, 2), Window((2, 2), (1, 1), (1, 1), ((0, 0), (0, 0))), 1),
    ((1, 1, 2, 2, 2), (1, 1, 2, 1, 1), Window((2, 1, 1), (1, 1, 1), (1, 1, 1), ((1, 0),) * 3), 1),
]


def _fold(x: Any, axis: int, groups: int = 1) -> Any:
    """Make a batch, the first axis, part of another axis; where that has groups, within each of them."""
    size, *shape = x.shape
    parts = (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    x = op.reshape(x, shape=(size, *parts))
    rest = tuple(range(1, axis + 2)), tuple(range(axis + 2, len(parts) + 1))
    merged = (*shape[:axis], size * shape[axis], *shape[axis + 1 :])
    return op.reshape(op.transpose(x, axes=(*rest[0], 0, *rest[1])), shape=merged)


def _unfold(x: Any, axis: int, size: int, groups: int = 1) -> Any:
    """Undo `_fold`: make the batch the first axis again."""
    shape = tuple(x.shape)
    inner = shape[axis] // size
    parts = (*shape[:axis], groups, size, inner // groups, *shape[axis + 1 :])
    return op.reshape(
        front(op.reshape(x, shape=parts), axis + 1), shape=(size, *shape[:axis], inner, *shape[axis + 1 :])
    )


_Fold = tuple[int, bool, int, bool]


def _folded(first: _Fold, second: _Fold, both: tuple[int, int, int]) -> BatchRule:
    """Return a batching rule that makes the batch part of an axis that the form has anyway.

    For a batch of the first operand alone, or of the second: which of its axes takes the batch, whether
    that axis is divided into groups, and the same for the result. For a batch of both, in which each
    example becomes a group of its own: the axes of the operands and of the result.
    """

    def rule(form: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
        if not size:
            return of_none(form, inputs, batched, params)
        groups, (x1, x2) = params["groups"], inputs
        if all(batched):
            axis1, axis2, axis = both
            y = form(_fold(x1, axis1), _fold(x2, axis2), **{**params, "groups": groups * size})
            return _unfold(y, axis, size)
        axis, grouped, to, to_grouped = first if batched[0] else second
        if batched[0]:
            y = form(_fold(x1, axis, groups if grouped else 1), x2, **params)
        else:
            y = form(x1, _fold(x2, axis, groups if grouped else 1), **params)
        return _unfold(y, to, size, groups if to_grouped else 1)

    return rule


def _output(x: tuple[int, ...], w: tuple[int, ...], window: Window) -> tuple[int, ...]:
    return (x[0], w[0], *window.positions(x[2:]))


def _input_rule(g: Any, w: Any, x_shape: tuple[int, ...], window: Window, groups: int) -> Any:
    return op.convolution_input(g, w, sizes=tuple(x_shape[2:]), window=window, groups=groups)


def _weight_rule(g: Any, x: Any, window: Window, groups: int) -> Any:
    return op.convolution_weight(x, g, window=window, groups=groups)


@bilinear(
    _input_rule,
    _weight_rule,
    broadcasts=True,
    batch=_folded((0, False, 0, False), (0, True, 1, True), (1, 0, 1)),
    samples=lambda: [sample(x, w, window=window, groups=groups) for x, w, window, groups in _CASES],
)
def _convolution(xp: Any, x: Any, w: Any, *, window: Window, groups: int) -> Any:
    """Each window of `x` times each kernel: one matrix product for each image and group."""
    batch, out, depth = x.shape[0], w.shape[0], math.prod(w.shape[1:])
    windows = xp.sliding_windows(x, *window)
    positions = windows.shape[-len(window.kernel) :]
    columns = xp.reshape(windows, (batch, groups, depth, math.prod(positions)))
    y = xp.matmul(xp.reshape(w, (groups, out // groups, depth)), columns)
    return xp.reshape(y, (batch, out, *positions))


@bilinear(
    lambda g, w, window, groups: op.convolution(g, w, window=window, groups=groups),
    lambda g, y, window, groups: op.convolution_weight(g, y, window=window, groups=groups),
    broadcasts=True,
    batch=_folded((0, False, 0, False), (1, False, 1, True), (1, 0, 1)),
    samples=lambda: [
        sample(_output(x, w, window), w, sizes=x[2:], window=window, groups=groups)
        for x, w, window, groups in _CASES
    ],
)
def _convolution_input(
    xp: Any, y: Any, w: Any, *, sizes: tuple[int, ...], window: Window, groups: int
) -> Any:
    """Each element of `y` times each kernel, added up where its window lies: transposed convolution."""
    batch, out, *positions = y.shape
    per_group, kernel, rank = w.shape[1], window.kernel, len(window.kernel)
    spans = [d * (k - 1) for k, d in zip(kernel, window.dilation)]
    around = tuple((s - low, s - high) for s, (low, high) in zip(spans, window.padding))
    grouped = (groups, out // groups, per_group)
    if max(window.stride) == 1 and min(map(min, around)) >= 0 and out <= groups * per_group:
        # At stride 1 it is a convolution too, with the kernels turned round: cheaper unless `out` is larger.
        turned = xp.swapaxes(xp.reshape(xp.flip(w, tuple(range(2, 2 + rank))), (*grouped, *kernel)), 1, 2)
        turned = xp.reshape(turned, (groups * per_group, out // groups, *kernel))
        return _convolution.forward(xp, y, turned, window=window._replace(padding=around), groups=groups)
    size = math.prod(kernel)
    kernels = xp.permute_dims(
        xp.reshape(w, (*grouped, size)), (0, 3, 2, 1)
    )  # parts of one offset side by side
    kernels = xp.reshape(kernels, (groups, size * per_group, grouped[1]))
    parts = xp.matmul(kernels, xp.reshape(y, (batch, groups, grouped[1], math.prod(positions))))
    parts = xp.moveaxis(xp.reshape(parts, (batch, groups, size, per_group, *positions)), 2, 0)
    return xp.reshape(xp.overlap_add(parts, sizes, *window), (batch, groups * per_group, *sizes))


@bilinear(
    lambda g, y, x_shape, window, groups: op.convolution_input(
        y, g, sizes=tuple(x_shape[2:]), window=window, groups=groups
    ),
    lambda g, x, window, groups: op.convolution(x, g, window=window, groups=groups),
    broadcasts=True,
    batch=_folded((1, True, 1, False), (1, True, 0, True), (1, 1, 0)),
    samples=lambda: [
        sample(x, _output(x, w, window), window=window, groups=groups) for x, w, window, groups in _CASES
    ],
)
def _convolution_weight(xp: Any, x: Any, y: Any, *, window: Window, groups: int) -> Any:
    """Each window of `x` times its element of `y`, summed over positions and batch: one product a group."""
    channels, out, rank = x.shape[1], y.shape[1], len(window.kernel)
    windows = xp.moveaxis(xp.sliding_windows(xp.swapaxes(x, 0, 1), *window), 1, 1 + rank)
    depth, count = channels // groups * math.prod(window.kernel), math.prod(windows.shape[1 + rank :])
    columns = xp.reshape(windows, (groups, depth, count))
    rows = xp.reshape(xp.swapaxes(y, 0, 1), (groups, out // groups, count))
    kernels = xp.matmul(rows, xp.swapaxes(columns, 1, 2))
    return xp.reshape(kernels, (out, channels // groups, *window.kernel))


def _convolve(
    operation: str,
    rank: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: int | Sequence[int],
    padding: int | Sequence[int] | str,
    dilation: int | Sequence[int],
    groups: int,
) -> Any:
    """Check and normalize the arguments of a public convolution, and apply it."""
    x, weight = as_tensor(x), as_tensor(weight)
    require_spatial(x, rank, operation)
    channels = x.shape[-rank - 1]
    (groups,) = per_axis(groups, 1, 1, "groups", operation)
    shape = weight.shape
    if len(shape) != rank + 2 or shape[1] * groups != channels or shape[0] % groups or 0 in shape[2:]:
        raise ShapeError(
            "the weight does not fit the input",
            operation=operation,
            inputs=describe(x, weight) + f"; groups={groups}",
            expected=f"{rank + 2} axes (out, channels / groups, *kernel): {channels} channels in {groups} "
            f"group{'s' * (groups > 1)}, out a multiple of groups, no empty kernel",
            found=f"weight {tuple(shape)}",
            remedy="the weight's second axis times groups must be the input's channels",
        )
    if bias is not None:
        bias = as_tensor(bias)
        if tuple(bias.shape) != (shape[0],):
            raise ShapeError(
                "the bias does not fit the weight",
                operation=operation,
                inputs=describe(x, weight, bias),
                expected=f"a bias of shape {(shape[0],)}, one for each output channel",
                found=f"shape {tuple(bias.shape)}",
                remedy="make one number for each output channel",
            )
    kernel = tuple(shape[2:])
    steps = per_axis(stride, rank, 1, "stride", operation)
    gaps = per_axis(dilation, rank, 1, "dilation", operation)
    window = Window(kernel, steps, gaps, _padding(padding, kernel, steps, gaps, operation))
    require_room(x, window, operation)
    batched = x if len(x.shape) == rank + 2 else op.reshape(x, shape=(1, *x.shape))
    y = apply(_convolution, (batched, weight), {"window": window, "groups": groups})
    if batched is not x:
        y = op.reshape(y, shape=tuple(y.shape[1:]))
    return y if bias is None else y + op.reshape(bias, shape=(shape[0],) + (1,) * rank)


def _padding(
    padding: int | Sequence[int] | str,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    operation: str,
) -> tuple[tuple[int, int], ...]:
    """Return the zeros before and after each axis."""
    if is_one_of(padding, ("valid",)):
        return ((0, 0),) * len(kernel)
    if is_one_of(padding, ("same",)):
        if max(stride) > 1:
            raise ArgumentError(
                'padding="same" keeps the size only at stride 1',
                operation=operation,
                expected="stride=1",
                found=f"stride={stride}",
                remedy="give the padding as integers",
            )
        totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return tuple((total // 2, total - total // 2) for total in totals)
    if isinstance(padding, str):
        raise ArgumentError(
            "no such padding",
            operation=operation,
            expected='"same", "valid", an int or one for each axis',
            found=repr(padding),
        )
    return tuple((p, p) for p in per_axis(padding, len(kernel), 0, "padding", operation))


@explained
def conv1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation over one spatial axis; everything else as in `conv2d`.

    The gradients are those of `conv2d`.

    Parameters
    ----------
    x : tensor
        Shape ``(batch, channels, length)`` or ``(channels, length)``.
    weight : tensor
        Shape ``(out, channels / groups, kernel)``.
    bias : tensor, optional
        Shape ``(out,)``.
    stride : int or a sequence of one, default 1
        Step from one window to the next.
    padding : int, a sequence of one, "valid" or "same", default 0
        Zeros on both sides of each axis; see `conv2d`.
    dilation : int or a sequence of one, default 1
        Distance between the elements of a window.
    groups : int, default 1
        Channels are divided into so many groups that do not see each other.

    Returns
    -------
    Tensor
        Shape ``(batch, out, positions)``, without the batch axis if `x` has none.

    Raises
    ------
    ShapeError
        If the shapes do not fit each other, or a window does not fit the padded input.
    ArgumentError, DTypeError
        If a parameter is out of range or no integer, or an operand is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.conv1d(eo.tensor([[[1.0, 2.0, 4.0]]]), eo.tensor([[[-1.0, 1.0]]])))
    [[[1. 2.]]]
    """
    return _convolve("conv1d", 1, x, weight, bias, stride, padding, dilation, groups)


@explained
def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation over two spatial axes: what neural networks call a convolution.

    ``y[n, o, i, j] = bias[o] + sum(weight[o, c, a, b] * x[n, c, i*stride + a*dilation, j*stride + ...])``
    over c, a and b. The gradient with respect to `x` is the transposed convolution of the result's
    gradient with `weight`; that of `weight` correlates `x` with the result's gradient. Source: Dumoulin and
    Visin (2016), A guide to convolution arithmetic for deep learning.

    Parameters
    ----------
    x : tensor
        Shape ``(batch, channels, height, width)`` or ``(channels, height, width)``.
    weight : tensor
        Shape ``(out, channels / groups, kernel_height, kernel_width)``.
    bias : tensor, optional
        Shape ``(out,)``.
    stride : int or a pair, default 1
        Step from one window to the next.
    padding : int, a pair, "valid" or "same", default 0
        Zeros on both sides of each axis. "valid" means none; "same" keeps the size (at stride 1) and
        puts an odd zero behind.
    dilation : int or a pair, default 1
        Distance between the elements of a window.
    groups : int, default 1
        Channels are divided into so many groups that do not see each other.

    Returns
    -------
    Tensor
        Shape ``(batch, out, rows, columns)``, without the batch axis if `x` has none; along each axis
        there are ``(size + 2*padding - dilation*(kernel - 1) - 1) // stride + 1`` positions.

    Raises
    ------
    ShapeError
        If the shapes do not fit each other, or a window does not fit the padded input.
    ArgumentError, DTypeError
        If a parameter is out of range or no integer, or an operand is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.conv2d(eo.ones((1, 1, 3, 3)), eo.ones((1, 1, 2, 2)), eo.tensor([0.5])))
    [[[[4.5 4.5]
       [4.5 4.5]]]]
    """
    return _convolve("conv2d", 2, x, weight, bias, stride, padding, dilation, groups)


@explained
def conv3d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation over three spatial axes; everything else as in `conv2d`.

    The gradients are those of `conv2d`.

    Parameters
    ----------
    x : tensor
        Shape ``(batch, channels, depth, height, width)``, or without the batch axis.
    weight : tensor
        Shape ``(out, channels / groups, *kernel)``.
    bias : tensor, optional
        Shape ``(out,)``.
    stride : int or three, default 1
        Step from one window to the next.
    padding : int, three, "valid" or "same", default 0
        Zeros on both sides of each axis; see `conv2d`.
    dilation : int or three, default 1
        Distance between the elements of a window.
    groups : int, default 1
        Channels are divided into so many groups that do not see each other.

    Returns
    -------
    Tensor
        Shape ``(batch, out, *positions)``, without the batch axis if `x` has none.

    Raises
    ------
    ShapeError
        If the shapes do not fit each other, or a window does not fit the padded input.
    ArgumentError, DTypeError
        If a parameter is out of range or no integer, or an operand is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.conv3d(eo.ones((1, 2, 2, 2)), eo.ones((1, 1, 2, 2, 2))))
    [[[[8.]]]]
    """
    return _convolve("conv3d", 3, x, weight, bias, stride, padding, dilation, groups)
