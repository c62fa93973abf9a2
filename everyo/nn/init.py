"""Initial values for parameters, drawn through `eo.random`; each function returns the tensor it filled.

The names end in an underscore because the tensor takes a new value; no other holder of its old value
sees the change.
"""

from __future__ import annotations

import math
from typing import Any

from everyo.core.dtypes import refuse_complex
from everyo.core.modes import no_grad
from everyo.core.tensor import Tensor
from everyo.core.traced import staging
from everyo.errors import ArgumentError, DTypeError, ShapeError, describe
from everyo.guidance import unknown_name as _unknown_name
from everyo.ops import random
from everyo.ops.axes import is_one_of
from everyo.ops.creation import fresh, number, real_number

__all__ = [
    "constant_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "uniform_", "xavier_normal_",
    "xavier_uniform_", "zeros_",
]  # fmt: skip

_GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}


def uniform_(tensor: Tensor, low: float = 0.0, high: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with draws from the uniform distribution on [low, high).

    Parameters
    ----------
    tensor : Tensor
        The tensor, of any shape and a float dtype.
    low, high : float, default 0.0 and 1.0
        The bounds.
    generator : eo.random.Generator, optional
        The source of randomness.

    Returns
    -------
    Tensor
        `tensor` itself.

    Raises
    ------
    DTypeError
        If `tensor` has no float dtype, or an argument is of another kind.

    Examples
    --------
    >>> import everyo as eo
    >>> w = eo.nn.init.uniform_(eo.zeros(100), -2.0, 2.0)
    >>> bool((abs(w) <= 2.0).all())
    True
    """
    tensor = _require_tensor(tensor, "uniform_")
    return _set(tensor, random.uniform(low, high, size=tensor.shape, dtype=tensor.dtype, generator=generator))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with draws from the normal distribution.

    Parameters
    ----------
    tensor : Tensor
        The tensor, of any shape and a float dtype.
    mean, std : float, default 0.0 and 1.0
        Mean and standard deviation.
    generator : eo.random.Generator, optional
        The source of randomness.

    Returns
    -------
    Tensor
        `tensor` itself.

    Raises
    ------
    DTypeError
        If `tensor` has no float dtype, or an argument is of another kind.
    ArgumentError
        If `std` is negative.

    Examples
    --------
    >>> import everyo as eo
    >>> w = eo.nn.init.normal_(eo.zeros(10000), std=2.0, generator=eo.random.Generator(0))
    >>> print(eo.round(w.std(), 1))
    2.0
    """
    tensor = _require_tensor(tensor, "normal_")
    return _set(tensor, random.normal(mean, std, size=tensor.shape, dtype=tensor.dtype, generator=generator))


def constant_(tensor: Tensor, value: float) -> Tensor:
    """Fill with one value.

    Parameters
    ----------
    tensor : Tensor
        The tensor, of any shape and dtype.
    value : float
        What each element becomes.

    Returns
    -------
    Tensor
        `tensor` itself.

    Raises
    ------
    DTypeError
        If `value` is no number, or complex for a real `tensor`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.init.constant_(eo.zeros(2), 0.5))
    [0.5 0.5]
    """
    tensor, value = _require_tensor(tensor, "constant_"), number(value, "constant_", "the value")
    if isinstance(value, complex):
        refuse_complex(tensor.backend.xp.dtype(complex), tensor.dtype, "constant_")
    return _set(tensor, tensor.backend.xp.full(tuple(tensor.shape), value, dtype=tensor.dtype))


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros.

    Parameters
    ----------
    tensor : Tensor
        The tensor, of any shape and dtype.

    Returns
    -------
    Tensor
        `tensor` itself.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.init.zeros_(eo.ones(2)))
    [0. 0.]
    """
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones.

    Parameters
    ----------
    tensor : Tensor
        The tensor, of any shape and dtype.

    Returns
    -------
    Tensor
        `tensor` itself.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.nn.init.ones_(eo.zeros(2)))
    [1. 1.]
    """
    return constant_(tensor, 1.0)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill so that activations keep their variance: uniform within ``gain * sqrt(3 / fan)``.

    Source: He et al. (2015), Delving deep into rectifiers.

    Parameters
    ----------
    tensor : Tensor
        A weight of shape ``(out, in, ...)``.
    a : float, default 0
        The negative slope, for ``nonlinearity="leaky_relu"``; ``sqrt(5)`` gives ``1 / sqrt(fan_in)``, the
        bound with which layers start.
    mode : {"fan_in", "fan_out"}
        Keep the variance of activations, or of gradients.
    nonlinearity : str
        What follows: "linear", "sigmoid", "tanh", "relu", "selu" or "leaky_relu".
    generator : eo.random.Generator, optional
        The source of randomness.

    Returns
    -------
    Tensor
        `tensor` itself.

    Raises
    ------
    ShapeError
        If the weight has less than two axes.
    DTypeError
        If it has no float dtype, or an argument is of another kind.
    ArgumentError
        If there is no such mode or nonlinearity.

    Examples
    --------
    >>> import everyo as eo
    >>> w = eo.nn.init.kaiming_uniform_(eo.zeros((4, 6)), generator=eo.random.Generator(0))
    >>> bool((abs(w) <= 1).all())  # sqrt(2) * sqrt(3 / 6)
    True
    """
    bound = _gain(nonlinearity, a) * math.sqrt(3 / _fan(tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill as `kaiming_uniform_` does, with normal draws of standard deviation ``gain / sqrt(fan)``.

    Source: He et al. (2015), Delving deep into rectifiers.

    Parameters
    ----------
    tensor : Tensor
        A weight of shape ``(out, in, ...)`` and a float dtype.
    a : float, default 0
        The negative slope, for ``nonlinearity="leaky_relu"``.
    mode : {"fan_in", "fan_out"}
        Keep the variance of activations, or of gradients.
    nonlinearity : str
        What follows: "linear", "sigmoid", "tanh", "relu", "selu" or "leaky_relu".
    generator : eo.random.Generator, optional
        The source of randomness.

    Returns
    -------
    Tensor
        `tensor` itself.

    Raises
    ------
    ShapeError
        If the weight has less than two axes.
    DTypeError
        If it has no float dtype, or an argument is of another kind.
    ArgumentError
        If there is no such mode or nonlinearity.

    Examples
    --------
    >>> import everyo as eo
    >>> w = eo.nn.init.kaiming_normal_(eo.zeros((100, 50)), generator=eo.random.Generator(0))
    >>> print(eo.round(w.std(), 2))  # sqrt(2 / 50)
    0.2
    """
    return normal_(tensor, 0.0, _gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode)), generator)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill uniformly within ``gain * sqrt(6 / (fan_in + fan_out))``.

    Source: Glorot and Bengio (2010), Understanding the difficulty of training deep feedforward networks.

    Parameters
    ----------
    tensor : Tensor
        A weight of shape ``(out, in, ...)`` and a float dtype.
    gain : float, default 1
        A factor for what follows, such as 5/3 before tanh.
    generator : eo.random.Generator, optional
        The source of randomness.

    Returns
    -------
    Tensor
        `tensor` itself.

    Raises
    ------
    ShapeError
        If the weight has less than two axes.
    DTypeError
        If it has no float dtype, or an argument is of another kind.

    Examples
    --------
    >>> import everyo as eo
    >>> w = eo.nn.init.xavier_uniform_(eo.zeros((2, 4)))
    >>> bool((abs(w) <= 1).all())  # sqrt(6 / (4 + 2))
    True
    """
    widest = math.sqrt(6 / (_fan(tensor, "fan_in") + _fan(tensor, "fan_out")))
    bound = real_number(gain, "xavier_uniform_", "gain") * widest
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill as `xavier_uniform_` does, with normal draws of the same variance.

    Source: Glorot and Bengio (2010), Understanding the difficulty of training deep feedforward networks.

    Parameters
    ----------
    tensor : Tensor
        A weight of shape ``(out, in, ...)`` and a float dtype.
    gain : float, default 1
        A factor for what follows, such as 5/3 before tanh.
    generator : eo.random.Generator, optional
        The source of randomness.

    Returns
    -------
    Tensor
        `tensor` itself.

    Raises
    ------
    ShapeError
        If the weight has less than two axes.
    DTypeError
        If it has no float dtype, or an argument is of another kind.
    ArgumentError
        If `gain` is negative.

    Examples
    --------
    >>> import everyo as eo
    >>> w = eo.nn.init.xavier_normal_(eo.zeros((100, 100)), generator=eo.random.Generator(0))
    >>> print(eo.round(w.std(), 1))  # sqrt(2 / 200)
    0.1
    """
    deviation = math.sqrt(2 / (_fan(tensor, "fan_in") + _fan(tensor, "fan_out")))
    return normal_(tensor, 0.0, real_number(gain, "xavier_normal_", "gain") * deviation, generator)


def _require_tensor(tensor: Any, operation: str) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise DTypeError(
            "only a tensor can be filled",
            operation=operation,
            expected="a Tensor",
            found=describe(tensor),
            remedy="make one first, for example eo.zeros(shape)",
        )
    return tensor


def _set(tensor: Tensor, value: Any) -> Tensor:
    if staging.get() is not None:  # where a function is compiled, its program fills the tensor at each call
        with no_grad():
            tensor.assign(fresh(value) if not isinstance(value, Tensor) else value)
        return tensor
    tensor.data = value.data if isinstance(value, Tensor) else value
    return tensor


def _fan(tensor: Tensor, mode: str) -> int:
    """Return how many inputs each output of a layer is connected to ("fan_in"), or the other way round."""
    if not is_one_of(mode, ("fan_in", "fan_out")):
        raise ArgumentError(
            "no such mode", operation="nn.init", expected="'fan_in' or 'fan_out'", found=repr(mode)
        )
    tensor = _require_tensor(tensor, "nn.init")
    if tensor.ndim < 2:
        raise ShapeError(
            "fan_in and fan_out need a weight of two or more axes",
            operation="nn.init",
            inputs=describe(tensor),
            expected="shape (out, in, ...)",
            found=str(tensor.shape),
            remedy="use nn.init.uniform_ or nn.init.zeros_ for vectors such as biases",
        )
    fan = tensor.shape[mode == "fan_in"] * math.prod(tensor.shape[2:])
    return max(fan, 1)  # an empty weight takes any bound


def _gain(nonlinearity: str, slope: float) -> float:
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + real_number(slope, "nn.init", "a") ** 2))
    if not isinstance(nonlinearity, str) or nonlinearity not in _GAINS:
        raise ArgumentError(
            "no such nonlinearity",
            operation="nn.init",
            expected=", ".join([*_GAINS, "leaky_relu"]),
            found=repr(nonlinearity),
        )
    return _GAINS[nonlinearity]


__getattr__ = _unknown_name(__name__)
