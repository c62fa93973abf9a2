"""`nn.functional`: what layers and losses compute, as functions without parameters of their own.

Activations, convolutions and pooling are the operations of the same names in `everyo`.
"""

from __future__ import annotations

import math
from typing import Any

from everyo import ops
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.guidance import unknown_name as _unknown_name
from everyo.nn.cross_entropy import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    nll_loss,
)
from everyo.nn.regression import huber_loss, l1_loss, mse_loss
from everyo.ops import (
    elu,
    gelu,
    leaky_relu,
    log_softmax,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    tanh,
)
from everyo.ops.axes import normalize_axis
from everyo.ops.convolution import conv1d, conv2d, conv3d
from everyo.ops.creation import as_tensor
from everyo.ops.pooling import avg_pool1d, avg_pool2d, max_pool1d, max_pool2d
from everyo.ops.standardizing import layer_norm
from everyo.ops.stochastic import dropout

__all__ = [
    "linear", "flatten", "embedding", "dropout", "layer_norm",
    "conv1d", "conv2d", "conv3d", "avg_pool1d", "avg_pool2d", "max_pool1d", "max_pool2d",
    "elu", "gelu", "leaky_relu", "log_softmax", "relu", "sigmoid", "silu", "softmax", "softplus", "tanh",
    "cross_entropy", "nll_loss", "binary_cross_entropy_with_logits", "huber_loss", "l1_loss", "mse_loss",
]  # fmt: skip


def linear(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """Return ``input @ weight.T + bias``.

    ``dy = dinput @ weight.T + input @ dweight.T + dbias``: for real numbers the gradient of the input is
    ``g @ weight``, that of the weight ``g.T @ input`` and that of the bias the sum of `g`.

    Parameters
    ----------
    input : Tensor, shape (..., in_features)
        The input.
    weight : Tensor, shape (out_features, in_features)
        The weight.
    bias : Tensor, shape (out_features,), optional
        The bias.

    Returns
    -------
    Tensor
        Shape ``(..., out_features)``.

    Raises
    ------
    ShapeError
        If the shapes do not fit each other.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.functional.linear(eo.tensor([1.0, 2.0]), eo.tensor([[3.0, 4.0]]), eo.tensor([0.5])))
    [11.5]
    """
    input, weight = as_tensor(input), as_tensor(weight)
    if weight.ndim != 2 or not input.ndim or input.shape[-1] != weight.shape[1]:
        raise ShapeError(
            "the input does not fit the weight",
            operation="linear",
            inputs=describe(input, weight),
            expected="input (..., in_features) and weight (out_features, in_features)",
            found=f"{input.shape} and {weight.shape}",
            remedy="give the last axis of the input the size of the last axis of the weight",
        )
    y = input @ ops.permute_dims(weight, (1, 0))
    if bias is None:
        return y
    bias = as_tensor(bias)
    if bias.shape != weight.shape[:1]:
        raise ShapeError(
            "the bias does not fit the weight",
            operation="linear",
            inputs=describe(input, weight, bias),
            expected=f"a bias of shape {weight.shape[:1]}",
            found=f"shape {bias.shape}",
            remedy="make one number for each output feature",
        )
    return y + bias


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Join the axes from `start_dim` to `end_dim`, both included.

    The gradient gets the shape of the input again.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype; a 0-d one becomes a vector of one element.
    start_dim : int, default 0
        The first of the axes.
    end_dim : int, default -1
        The last of them.

    Returns
    -------
    Tensor
        Of the dtype of `input`, with one axis in the place of those.

    Raises
    ------
    IndexingError
        If there is no such axis.
    ShapeError
        If the last axis comes before the first.
    DTypeError
        If an axis is no integer.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nn.functional.flatten(eo.ones((2, 3, 4)), 1).shape
    (2, 12)
    """
    input = as_tensor(input)
    shape = input.shape or (1,)  # a 0-d tensor becomes a vector of one element
    start, end = (normalize_axis(axis, len(shape), "flatten") for axis in (start_dim, end_dim))
    if start > end:
        raise ShapeError(
            "the last axis comes before the first",
            operation="flatten",
            inputs=describe(input),
            expected="start_dim <= end_dim",
            found=f"start_dim={start_dim}, end_dim={end_dim}",
            remedy="swap the two",
        )
    return ops.reshape(input, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


def embedding(input: Any, weight: Any) -> Tensor:
    """Return the rows of `weight` that the integers in `input` name: ``weight[input]``.

    The gradient with respect to `weight` adds up where a row was used several times.

    Parameters
    ----------
    input : Tensor
        Integers from 0 to ``n - 1``, of any shape.
    weight : Tensor, shape (n, k)
        The table.

    Returns
    -------
    Tensor
        Shape ``(*input.shape, k)``, of the dtype of `weight`.

    Raises
    ------
    IndexingError
        If an index is outside the table; none counts from the end.
    DTypeError
        If the indices are no integers.
    ShapeError
        If the table is no matrix.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.functional.embedding(eo.tensor([1, 0]), eo.tensor([[1.0], [2.0]])))
    [[2.]
     [1.]]
    """
    return ops.embedding(weight, input)


__getattr__ = _unknown_name(__name__)
